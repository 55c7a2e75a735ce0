"""Which lines of a program or document enclose which: blocks by indentation, sections by headings.

It is a guess for any language: no text is parsed. The patterns know brackets, the words that close
and continue blocks in Ruby, shells and the like, comments and preprocessor lines, and the headings
of Markdown, reStructuredText and INI files. Where the guess is wrong, an edit that would still fit
is refused, or equal lines of two blocks are not told apart by what encloses them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

BLANKS = b" \t\0"
"""Bytes of indentation; the zero bytes occur in UTF-16."""

_TAB = 8
_REACH = 2000
"""The most lines searched for enclosing ones."""

WORD = re.compile(rb"[\w\x80-\xff]")
"""In a line that has words, and not brackets and blanks alone."""

CLOSING = re.compile(
    rb"[\])}]|(?:end|fi|done|esac|else|elif|elsif|rescue|ensure|except|finally|catch|then|do"
    rb"|case|default|when)\b"
)
"""How a line begins that belongs to a line above it with the same indentation."""

_OPENING = re.compile(rb"[{(\[]\s*$")
_DIRECTIVE = re.compile(rb"#[a-z]")
"""A preprocessor line, which is not indented, whatever encloses it."""

_ENDING = re.compile(rb"(?:[\])}]+|</[^<>]*>|end|fi|done|esac)[;,)]*\s*$")
"""A line that only closes what its owner opened."""

REMARK = re.compile(
    rb"//|/\*|<!--|--|\"\"\"|'''|[#%;]|.*(?:[;.]|/>|</[^<>]*>|\xe3\x80\x82)$", re.DOTALL
)
"""A comment, or a complete statement, sentence or element: a line that opens no block."""

GOES_ON = b"("
"""The sign of a header that goes on in the next line."""

_SIGNS = (b":", b"{", b"=", b">", GOES_ON)
"""How a header that has a sign ends."""

ATTACHED = re.compile(rb"//|/?\*|#|--|<!--|@|\[")
"""A comment, decorator, attribute or annotation, which belongs to the line below it."""

_BEHIND = re.compile(rb"\s+(?:#|//).*", re.DOTALL)
"""A comment at the end of a line."""

SECTION = re.compile(rb"\[+[\w\x80-\xff][^<>(){}]*\]\s*$")
_TITLE = re.compile(rb"#{1,6}\s")
_UNDERLINE = re.compile(rb"([=\-~^*+#\"'`])\1+\s*$")
_STARTS = frozenset((b"[", b"#"))
_RULERS = frozenset(b"%c" % char for char in b"=-~^*+#\"'`")
"""How a heading, or the line below it, begins."""

_MARKER = re.compile(rb"(?:([<|>])\1{6}(?: |$)|={7}$)")


def marker_of(line: bytes) -> bytes:
    """The character of a conflict marker; empty for any other line."""
    text = line.replace(b"\0", b"")  # they occur in UTF-16
    return text[:1] if _MARKER.match(text) else b""


def conflicts(lines: Iterable[bytes]) -> list[range]:
    """The conflicts that a merge left in a text: their lines, from first to last marker."""
    found, start = list[range](), -1
    for at, line in enumerate(lines):
        marker = marker_of(line)
        if marker == b"<":
            start = at
        elif marker == b">" and start >= 0:
            found.append(range(start, at + 1))
            start = -1
    return found


def bare(line: bytes) -> bytes:
    """The line without its indentation and trailing blanks."""
    return line.strip(BLANKS)


class Outline:
    """The lines of one text, 0-based, and which of them enclose which.

    The markers of `conflicts` are no part of it.
    """

    def __init__(self, lines: Sequence[bytes], conflicts: Iterable[range] = ()) -> None:
        self.lines = lines
        self._markers = {k for lines_of in conflicts for k in lines_of if marker_of(lines[k])}

    def depth(self, line: int) -> int | None:
        """The columns before the line's text; None for a blank line."""
        raw = self.lines[line]
        text = raw.lstrip(BLANKS)
        if not text or text.isspace():
            return None
        return len(raw[: len(raw) - len(text)].expandtabs(_TAB))

    def is_blank(self, line: int) -> bool:
        """Whether the line is blank, or the end of the text."""
        return line >= len(self.lines) or self.depth(line) is None

    def limit(self, line: int) -> int:
        """The greatest depth at which a line may enclose this one."""
        if (depth := self.depth(line)) is None:
            around = [self._next_depth(line, -1), self._next_depth(line, 1)]
            return min((depth for depth in around if depth is not None), default=0) - 1
        text = bare(self.lines[line])
        return depth if CLOSING.match(text) or _OPENING.match(text) else depth - 1

    def owners(
        self, line: int, limit: int, is_passed: Callable[[int], bool] = lambda line: False
    ) -> Iterator[int]:
        """Yield the lines that enclose the line, innermost first, the nearest heading last.

        The lines for which `is_passed` is true are passed over, as if they were not there.
        """
        lines, above, last = self.lines, line, max(0, line - _REACH)
        ends = limit + 1  # at this depth a block above a line that was passed ends
        while limit >= 0 and above > last:
            above -= 1
            raw = lines[above]
            if not raw[: limit + 1].strip(BLANKS):
                continue  # a blank line, or a deeper one
            depth = self.depth(above)
            if depth is None or depth > limit or _DIRECTIVE.match(raw) or above in self._markers:
                continue
            if is_passed(above):
                ends = min(ends, depth)
                continue
            text = bare(raw)
            if (depth < limit or depth == ends) and _ENDING.match(text):
                limit = depth - 1  # a block that ends there does not enclose
                continue
            belongs = CLOSING.match(text) is not None
            if WORD.search(text):
                yield above
            else:
                belongs = belongs or _OPENING.match(text) is not None
            limit = depth if belongs else depth - 1
        if self.is_heading(line) or self.is_heading(above):
            return
        for at in range(above - 1, last - 1, -1):
            # most lines are no heading by their first character, and that of the line below
            is_likely = lines[at][:1] in _STARTS or lines[at + 1][:1] in _RULERS
            if is_likely and self.is_heading(at):
                yield at
                return

    def sign(self, line: int) -> bytes | None:
        """How the line opens a block: by which sign, or empty; `#` for a heading; None if not.

        It does so if the next line is deeper, or is a bracket or a line that closes the block.
        """
        if self.is_heading(line):
            return b"#"
        own, text = self.depth(line) or 0, _BEHIND.sub(b"", bare(self.lines[line]))
        for at in range(line + 1, min(len(self.lines), line + _REACH)):
            depth = self.depth(at)
            if depth is not None and not _DIRECTIVE.match(self.lines[at]):
                below = bare(self.lines[at])
                bracket = _OPENING.match(below) is not None
                if depth <= own and not (bracket or (depth == own and CLOSING.match(below))):
                    return None
                last = b"{" if bracket else text[-1:]
                last = GOES_ON if last in (b"[", b",") else last
                return last if last in _SIGNS else b""
        return None

    def is_closed(self, owner: int) -> bool:
        """Whether the block of the owner ends at a line that only closes it."""
        end = self.end(owner, owner + 1)
        is_level = end < len(self.lines) and self.depth(end) == self.depth(owner)
        return is_level and _ENDING.match(bare(self.lines[end])) is not None

    def end(self, owner: int, line: int) -> int:
        """The first line, from `line` on, that the owner does not enclose."""
        depth, last = self.depth(owner) or 0, min(len(self.lines), line + _REACH)
        if self.is_heading(owner):
            return next(filter(self.is_heading, range(line, last)), last)
        for at in range(line, last):
            raw = self.lines[at]
            if not raw[: depth + 1].strip(BLANKS):
                continue  # a blank line, or a deeper one
            here = self.depth(at)
            if here is None or here > depth or _DIRECTIVE.match(raw) or at in self._markers:
                continue
            text = bare(raw)
            if _ENDING.match(text) or (WORD.search(text) and not CLOSING.match(text)):
                return at
        return last

    def body(self, owner: int) -> range:
        """The lines below the owner that it encloses."""
        return range(owner + 1, self.end(owner, owner + 1))

    def _next_depth(self, line: int, step: int) -> int | None:
        """The depth of the nearest non-blank line above or below."""
        stop = min(len(self.lines), line + _REACH) if step > 0 else max(-1, line - _REACH)
        depths = map(self.depth, range(line + step, stop, step))
        return next((depth for depth in depths if depth is not None), None)

    def is_heading(self, line: int) -> bool:
        text = self.lines[line]
        if SECTION.match(text):
            return True
        below = self.lines[line + 1] if line + 1 < len(self.lines) else b""
        if _TITLE.match(text):
            return text.startswith(b"##") or not below.strip()  # else a comment above code
        if not _UNDERLINE.match(below) or not WORD.search(text) or line + 1 in self._markers:
            return False
        return below.startswith(b"===") or 3 * len(below.rstrip()) >= 2 * len(text.rstrip())
