"""How far one line is consumed, in bytes and in columns.

What lives here: `Cursor`, the arithmetic of tabs. What must not: blocks.
Invariant: what a peek found is found again only once the cursor is behind it,
so that a line of many markers is still read once.
"""

from __future__ import annotations

from copydesk.text.markdown.lines import BLANK, SPACES, TAB


class Cursor:
    """A place in a line: `line` without its terminator, `offset` in bytes, `column` in columns.

    `nonspace` is where the next character stands that is no space, `indent` how
    many columns before it there are; `blank` is true when there is none. After
    `partial` consumption of a tab the offset is still the one of the tab.
    """

    line: bytes
    offset: int
    column: int
    indent: int
    nonspace: int
    nonspace_column: int
    tabs: bool
    blank: bool
    partial: bool

    def __init__(self) -> None:
        self.load(b"")

    def load(self, line: bytes) -> None:
        """Stand at the start of another line."""
        self.line = line
        self.offset = self.column = self.indent = self.nonspace_column = 0
        self.nonspace = -1
        self.tabs = b"\t" in line
        self.blank = self.partial = False

    def peek(self) -> None:
        """Find the next character that is no space; found once, it is not looked for again."""
        if self.offset > self.nonspace:
            found = SPACES(self.line, self.offset)
            assert found is not None
            self.nonspace = nonspace = found.end()
            self.blank = nonspace == len(self.line)
            column = self.column
            if self.tabs:
                for byte in self.line[self.offset : nonspace]:
                    column += 1 if byte == 32 else TAB - column % TAB
            else:
                column += nonspace - self.offset
            self.nonspace_column = column
        self.indent = self.nonspace_column - self.column

    def to_nonspace(self) -> None:
        """Consume the indentation that `peek` found."""
        self.column = self.nonspace_column
        self.offset = self.nonspace
        self.partial = False

    def skip(self, count: int) -> None:
        """Consume `count` characters, none of them a tab."""
        self.offset += count
        self.column += count
        self.partial = False

    def skip_columns(self, count: int) -> None:
        """Consume spaces and tabs of `count` columns, or what there is of them."""
        line, size = self.line, len(self.line)
        if not self.tabs:
            count = min(count, size - self.offset)
            self.offset += count
            self.column += count
            return
        while count and self.offset < size:
            if line[self.offset] != 9:
                self.partial = False
                self.offset += 1
                self.column += 1
                count -= 1
                continue
            width = TAB - self.column % TAB
            self.partial = width > count
            step = count if self.partial else width
            self.offset += not self.partial
            self.column += step
            count -= step

    def skip_one_blank(self) -> None:
        """Consume one column of space, if there is one."""
        if self.offset < len(self.line) and self.line[self.offset] in BLANK:
            self.skip_columns(1)
