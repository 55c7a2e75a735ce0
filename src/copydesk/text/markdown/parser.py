"""The walk over the lines: which open blocks a line continues, which it starts.

What lives here: `Rules`, what a profile is made of, and `Parser`. What must
not: the grammar of any one block. Invariants: a line costs no more than its
own length and the blocks it closes, whatever stands around it; nothing here
raises, whatever the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from copydesk.text.markdown.cursor import Cursor
from copydesk.text.markdown.kinds import (
    CODE,
    ITEM,
    LIST,
    NOTE,
    PARAGRAPH,
    SUPER,
    TABLE,
    TEXT,
)
from copydesk.text.markdown.lines import BLANK, cut
from copydesk.text.markdown.node import Node, can_hold

NO, INTO, LEAF = range(3)
"""What a start says: it is none of mine; a container began; a leaf began, look no further."""

AGAIN, STAYS, TAKEN = range(3)
"""What a block says of the next line: it ends before it; it goes on; the line was its last."""

INDENTED = 4
"""Columns of indentation from which on a line starts nothing but code."""

_INTERRUPTED = (PARAGRAPH, TABLE)
"""The kinds of text that the start of another block ends."""

_PASSES_BLANK = frozenset((LIST, ITEM, NOTE))

Start = Callable[["Parser", Node], int]
Resume = Callable[["Parser", Node], int]
Finish = Callable[["Parser", Node], None]


@dataclass(frozen=True)
class Rules:
    """A profile: how blocks start, go on and end.

    `starts`: by the first byte after indentation, in the order they are tried.
    """

    starts: Mapping[int, tuple[Start, ...]]
    resume: Mapping[str, Resume]
    finish: Mapping[str, Finish]
    taken: Mapping[str, Finish] = field(default_factory=dict[str, Finish])
    """What a kind does once it has taken a line as text."""
    indented: tuple[Start, ...] = ()
    keeps_indentation: bool = False
    """Whether a line right in the document keeps its indentation when text takes it."""
    table: tuple[tuple[Start, ...], ...] = field(init=False)
    plain: bytes = field(init=False)
    """By byte: 1 when a line that begins with it, at column 0, is text and nothing else."""

    def __post_init__(self) -> None:
        table = tuple(self.starts.get(byte, ()) for byte in range(256))
        plain = bytes(not table[byte] and byte not in BLANK for byte in range(256))
        object.__setattr__(self, "table", table)
        object.__setattr__(self, "plain", plain)


class Parser(Cursor):
    """One run over one text, or over the lines of a paragraph that is parsed again.

    `at` is the byte where the line starts, `tip` the deepest open node.
    """

    def __init__(self, data: bytes, rules: Rules, root: Node, depth: int = 0) -> None:
        super().__init__()
        self.data = data
        self.rules = rules
        self.root = root
        self.tip = root
        self.depth = depth
        """How many times this text was parsed before, as the text of a task."""
        self.at = self.first = self.first_column = self.begin = 0
        self.matched = root
        self.oldtip = root
        self.closed = True
        self.no_break: tuple[int, int] = (0, 0)
        """A byte of the line and the place where a thematic break of it fails."""
        self._blank_from: Node | None = None
        self._blank_tip = self._blank_to = root

    def run(self, lines: Sequence[bytes], starts: Sequence[int]) -> None:
        """Take all lines and close what is open."""
        root, plain = self.root, self.rules.plain
        for line, at in zip(lines, starts, strict=True):
            tip = self.tip
            if tip is root:
                if not line:
                    continue
                if plain[line[0]]:
                    stop = at + len(line)
                    node = Node(PARAGRAPH, root, at, 0, at, stop)
                    root.append(node)
                    self.tip = node
                    continue
            elif tip.holder is root:
                if tip.kind == PARAGRAPH:
                    if not line:
                        self.finish(tip)
                        continue
                    if plain[line[0]]:
                        tip.stop = stop = at + len(line)
                        if tip.pieces is not None:
                            tip.pieces += (at, stop)
                        continue
                elif tip.kind == CODE and tip.fence is not None and line and plain[line[0]]:
                    tip.stop = at + len(line)
                    continue
            self.take(line, at)
        while True:
            tip = self.tip
            self.finish(tip)
            if tip is root:
                return

    def take(self, line: bytes, at: int) -> None:
        """Take one line that starts at byte `at`."""
        self.load(line)
        self.at = at
        self.no_break = (0, 0)
        self.oldtip = self.tip
        container = self._descend()
        if container is None:
            return
        self.closed = container is self.oldtip
        self.matched = container
        kind = container.kind
        if kind in _INTERRUPTED or kind not in TEXT:
            container = self._start(container)
        self._add(container)

    def _descend(self) -> Node | None:
        """The deepest open node that the line belongs to; None when the line is used up."""
        resume = self.rules.resume
        container = self.root
        seen: Node | None = None
        while container.nodes:
            child = container.nodes[-1]
            if not child.open:
                break
            if self.offset > self.nonspace:
                self.peek()
            else:
                self.indent = self.nonspace_column - self.column
            kind = child.kind
            if self.blank and seen is None and kind in _PASSES_BLANK:
                if child is self._blank_from and self.oldtip is self._blank_tip:
                    self.to_nonspace()
                    return self._blank_to
                seen = child
            if kind == LIST:
                container = child  # a list goes on until something else is put into its container
                continue
            if kind == SUPER and child.run is not None:
                child = child.run[-1]
            going = resume.get(kind)
            if going is None:
                break
            says = going(self, child)
            if says == AGAIN:
                break
            if says == TAKEN:
                return None
            container = child
        if seen is not None:
            self._blank_from, self._blank_tip, self._blank_to = seen, self.oldtip, container
        return container

    def _start(self, container: Node) -> Node:
        """Start what the line starts; the node that its rest goes to."""
        table, indented = self.rules.table, self.rules.indented
        while True:
            self.peek()
            self.first, self.first_column, self.begin = self.offset, self.column, self.nonspace
            if self.blank:
                self.to_nonspace()
                return container
            tried = indented if self.indent >= INDENTED else table[self.line[self.nonspace]]
            for start in tried:
                says = start(self, container)
                if says == INTO:
                    container = self.tip
                    break
                if says == LEAF:
                    return self.tip
            else:
                self.to_nonspace()
                return container

    def _add(self, container: Node) -> None:
        """Give the rest of the line to the node that takes it."""
        tip = self.tip
        if not self.closed and not self.blank and tip.kind == PARAGRAPH:
            self.add_text(tip)
            return
        self.close_unmatched()
        if container.kind in TEXT:
            if container.open:
                self.add_text(container)
                after = self.rules.taken.get(container.kind)
                if after is not None:
                    after(self, container)
        elif not self.blank and self.offset < len(self.line):
            self.add_text(self.add(PARAGRAPH))

    def add(self, kind: str) -> Node:
        """A new node at the next character, as deep as it may stand."""
        while not can_hold(self.tip, kind):
            self.finish(self.tip)
        tip, at = self.tip, self.at
        start = at + self.begin
        node = Node(kind, tip, at + self.first, self.first_column, start, start)
        tip.append(node)
        self.tip = node
        return node

    def add_text(self, node: Node) -> None:
        """Give the rest of the line to a node that takes text."""
        line, at = self.line, self.at
        if self.blank or self.offset == len(line):
            return
        stop = at + len(line)
        if node.kind != PARAGRAPH:
            node.stop = stop
            return
        start = at + self.offset
        if node.start < 0:
            node.start = node.first = start
        if self.rules.keeps_indentation and node.holder is self.root and line[0] in BLANK:
            start = at
        if node.pieces is not None or node.stop > node.start or start != node.start:
            pieces = self.pieces_of(node)
            pieces += (start, stop)
        node.stop = stop

    def pieces_of(self, node: Node) -> list[int]:
        """Where the text of each line of a paragraph starts and stops, in turn."""
        if node.pieces is None:
            pieces: list[int] = []
            node.pieces = pieces
            if node.holder is not self.root:  # further lines would have made pieces
                pieces += (node.start, node.stop) if node.stop > node.start else ()
            else:
                lines, starts = cut(self.data[node.start : node.stop], 0)
                for line, start in zip(lines, starts, strict=True):
                    start += node.start
                    pieces += (start, start + len(line))
        return node.pieces

    def text_of(self, node: Node) -> bytes:
        """The text of a paragraph: its lines without what stands before them, joined by LF."""
        pieces = iter(self.pieces_of(node))
        return b"\n".join(self.data[start:stop] for start, stop in zip(pieces, pieces, strict=True))

    def close_unmatched(self) -> None:
        """Close what the line does not continue."""
        if self.closed:
            return
        while self.oldtip is not self.matched:
            parent = self.oldtip.holder
            assert parent is not None
            self.finish(self.oldtip)
            self.oldtip = parent
        self.closed = True

    def finish(self, node: Node) -> None:
        """Close a node; the tip is then its parent."""
        node.open = False
        parent = node.holder
        ends = self.rules.finish.get(node.kind)
        if ends is not None:
            ends(self, node)
        if parent is not None:
            if node.stop > parent.stop:
                parent.stop = node.stop
            self.tip = parent
