"""Whether a footprint was carried into the function, test or section that it belonged to.

What lives here: indentation and headings, the owners that they make of lines above
others, and the comparison of owners. What must not: the choice of the place, and the
verdict (`copydesk.text.carry`). No language is known: lines above with less indentation
enclose, and so does the nearest heading.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from copydesk.text.certainty import Foot, Pair

_BLANKS = b" \t\0"
"""What indentation is made of; the zero bytes are those of UTF-16."""

_TAB = 8
_REACH = 2000
"""So many lines are looked at for those that enclose."""

_ALIKE = 0.7
"""From this part of words in common on, a changed heading of a block is the same one, edited."""

_WORD = re.compile(rb"[\w\x80-\xff]")
_WORDS = re.compile(rb"\w+|[\x80-\xff]+")
_CLOSING = re.compile(
    rb"[\])}]|(?:end|fi|done|esac|else|elif|elsif|rescue|ensure|except|finally|catch|then|do"
    rb"|case|default|when)\b"
)
"""How a line begins that belongs to one above it with the same indentation."""

_OPENING = re.compile(rb"[{(\[]\s*$")
_DIRECTIVE = re.compile(rb"#[a-z]")
"""A line of the preprocessor, which stands at the margin whatever encloses it."""

_SECTION = re.compile(rb"\[.*\]\s*$")
_TITLE = re.compile(rb"#{1,6}\s")
_UNDERLINE = re.compile(rb"([=\-~^*+#\"'`])\1+\s*$")


def bare(line: bytes) -> bytes:
    """The line without its indentation and trailing blanks."""
    return line.strip(_BLANKS)


class Outline:
    """The lines of one text, from 0, as they enclose one another."""

    def __init__(self, lines: Sequence[bytes]) -> None:
        self._lines = lines

    def __len__(self) -> int:
        return len(self._lines)

    def depth(self, line: int) -> int | None:
        """The columns before the line's text; None for a blank line."""
        raw = self._lines[line]
        text = raw.lstrip(_BLANKS)
        if not text or text.isspace():
            return None
        before = raw[: len(raw) - len(text)]
        return len(before.expandtabs(_TAB)) if b"\t" in before else len(before)

    def limit(self, line: int) -> int:
        """How deep a line may stand to enclose this one."""
        depth = self.depth(line)
        if depth is not None:
            text = bare(self._lines[line])
            return depth if _CLOSING.match(text) or _OPENING.match(text) else depth - 1
        around = [self._next_depth(line, -1), self._next_depth(line, 1)]
        return min((depth for depth in around if depth is not None), default=0) - 1

    def owners(self, line: int, limit: int) -> Iterator[int]:
        """The lines that enclose the line, the innermost first, the nearest heading last."""
        above, last = line, max(0, line - _REACH)
        while limit >= 0 and above > last:
            above -= 1
            depth = self.depth(above)
            if depth is None or depth > limit or _DIRECTIVE.match(self._lines[above]):
                continue
            text = bare(self._lines[above])
            belongs = _CLOSING.match(text) is not None
            if _WORD.search(text):
                yield above
            else:
                belongs = belongs or _OPENING.match(text) is not None
            limit = depth if belongs else depth - 1
        if not self._is_heading(line):
            yield from (k for k in self._upwards(above, last) if self._is_heading(k))

    def end(self, owner: int, line: int) -> int:
        """The first line from `line` on that the owner does not enclose."""
        depth, heads = self.depth(owner) or 0, self._is_heading(owner)
        for at in range(line, min(len(self._lines), line + _REACH)):
            here = self.depth(at)
            if heads and self._is_heading(at):
                return at
            if not heads and here is not None and here <= depth and _WORD.search(self._lines[at]):
                return at
        return min(len(self._lines), line + _REACH)

    def is_title(self, line: int) -> bool:
        """Whether the line is the heading of prose, whose sections keep their text when renamed."""
        return self._is_heading(line) and not _SECTION.match(self._lines[line])

    def is_section(self, line: int) -> bool:
        """Whether the line is a name in brackets, as in settings."""
        return _SECTION.match(self._lines[line]) is not None

    def words(self, line: int) -> list[bytes]:
        """The words of the line."""
        return _WORDS.findall(self._lines[line])

    def _upwards(self, above: int, last: int) -> Iterator[int]:
        """The nearest heading above, if there is one."""
        for line in range(above - 1, last - 1, -1):
            if self._is_heading(line):
                yield line
                return

    def _next_depth(self, line: int, step: int) -> int | None:
        """The depth of the nearest line with a text above or below."""
        stop = min(len(self._lines), line + _REACH) if step > 0 else max(-1, line - _REACH)
        depths = map(self.depth, range(line + step, stop, step))
        return next((depth for depth in depths if depth is not None), None)

    def _is_heading(self, line: int) -> bool:
        text = self._lines[line]
        if _SECTION.match(text) or _TITLE.match(text):
            return True
        below = self._lines[line + 1] if line + 1 < len(self._lines) else b""
        return _UNDERLINE.match(below) is not None and _WORD.search(text) is not None


class Owners:
    """What encloses lines in two texts; lines are counted as in `Foot`, from 1."""

    def __init__(self, pair: Pair, base: Sequence[bytes], now: Sequence[bytes]) -> None:
        self._pair = pair
        self._base, self._now = Outline(base), Outline(now)

    def differ(self, foot: Foot) -> bool:
        """Whether the footprint stands within another owner now than it did.

        An owner that only has other text, or that other lines were put around, is the
        same; and so it is where lines unique to both texts hold the footprint within
        it from both sides.
        """
        if foot.above == foot.base:
            return False  # nothing changed above
        ends = {foot.base, foot.base + foot.size - 1}
        return any(
            self._is_other(foot, line) for line in sorted(ends) if 0 < line <= len(self._base)
        )

    def _is_other(self, foot: Foot, line: int) -> bool:
        pair, at = self._pair, line - foot.base + foot.now
        limit = self._base.limit(line - 1)
        ours = [k + 1 for k in self._base.owners(line - 1, limit)]
        theirs = [k + 1 for k in self._now.owners(at - 1, limit)]
        pairs = {(k, pair.alignment.now_of(k)) for k in ours}
        same_base = {k for k, to in pairs if to in theirs}
        same_now = {to for k, to in pairs if k in same_base}
        texts = {pair.base[k] for k in ours} & {pair.now[k] for k in theirs}
        old = [k for k in ours if k not in same_base and pair.base[k] not in texts]
        new = [k for k in theirs if k not in same_now and pair.now[k] not in texts]
        if not old:
            return any(pair.alignment.base_of(k) for k in new) and not self._is_held(foot, 0, new)
        if not new:
            return False
        held = self._held(foot, old[0], new[0])
        if all(held):
            return False
        depths = {self._base.depth(k - 1) for k in old} & {self._now.depth(k - 1) for k in new}
        if not depths:
            return False
        title = self._base.is_title(old[0] - 1)
        if any(map(pair.still_stands, old)) or any(map(pair.stood_before, new)):
            return not (title and any(held))
        if self._base.is_section(old[0] - 1):
            return True
        return not (title or any(held) or self._are_alike(old[0], new[0]))

    def _is_held(self, foot: Foot, old: int, new: list[int]) -> bool:
        return all(self._held(foot, old, new[0]))

    def _held(self, foot: Foot, old: int, new: int) -> tuple[bool, bool]:
        """Whether lines unique to both texts hold the footprint within both owners, on each side.

        0 for `old` stands for the whole of base.
        """
        end, last = foot.base + foot.size, foot.now + foot.size
        stop = self._base.end(old - 1, end - 1) + 1 if old else len(self._base) + 1
        to = self._now.end(new - 1, last - 1) + 1
        unique = self._pair.unique
        return (
            self._any_within(unique[bisect_right(unique, old) : bisect_left(unique, foot.base)],
                             new, foot.now),
            self._any_within(unique[bisect_left(unique, end) : bisect_left(unique, stop)],
                             last - 1, to),
        )  # fmt: skip

    def _any_within(self, lines: list[int], after: int, before: int) -> bool:
        """Whether one of the base lines stands between two lines of now."""
        found = (self._pair.alignment.now_of(line) for line in lines)
        return any(at is not None and after < at < before for at in found)

    def _are_alike(self, old: int, new: int) -> bool:
        ours, theirs = self._base.words(old - 1), self._now.words(new - 1)
        return SequenceMatcher(None, ours, theirs, autojunk=False).ratio() >= _ALIKE
