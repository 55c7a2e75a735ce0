"""Carry lines that an edit relies on from one text to a later one, or say why not.

Invariant: lines are carried only to lines equal to them, in the function or section that they
belonged to, and only where nothing speaks for another place; in doubt they are not carried.
Equality may be told by digests; the lines themselves are looked at only where something changed.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from itertools import count, repeat
from operator import eq
from typing import Literal, overload

from copydesk.text.ambiguity import Footprint, TextPair
from copydesk.text.diff import common_ends
from copydesk.text.snapshot import Snapshot

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

_ENDING = re.compile(rb"(?:[\])}]+|end|fi|done|esac)[;,)]*\s*$")
"""A line that only closes what its owner opened."""

_SECTION = re.compile(rb"\[+[\w\x80-\xff][^<>(){}]*\]\s*$")
_TITLE = re.compile(rb"#{1,6}\s")
_UNDERLINE = re.compile(rb"([=\-~^*+#\"'`])\1+\s*$")
_STARTS = frozenset((b"[", b"#"))
_RULERS = frozenset(b"%c" % char for char in b"=-~^*+#\"'`")
"""How a heading begins, or else the line below it."""


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
        return len(raw[: len(raw) - len(text)].expandtabs(_TAB))

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
            raw = self._lines[above]
            if not raw[: limit + 1].strip(_BLANKS):
                continue  # a blank line, or a deeper one
            depth = self.depth(above)
            if depth is None or depth > limit or _DIRECTIVE.match(raw):
                continue
            text = bare(raw)
            if depth < limit and _ENDING.match(text):
                limit = depth - 1  # what is closed there does not enclose
                continue
            belongs = _CLOSING.match(text) is not None
            if _WORD.search(text):
                yield above
            else:
                belongs = belongs or _OPENING.match(text) is not None
            limit = depth if belongs else depth - 1
        if not self._is_heading(line) and not (above < line and self._is_heading(above)):
            yield from self._upwards(above, last)

    def end(self, owner: int, line: int) -> int:
        """The first line from `line` on that the owner does not enclose."""
        depth, heads = self.depth(owner) or 0, self._is_heading(owner)
        last = min(len(self._lines), line + _REACH)
        for at in range(line, last):
            if heads:
                if self._is_heading(at):
                    return at
                continue
            raw = self._lines[at]
            if not raw[: depth + 1].strip(_BLANKS):
                continue  # a blank line, or a deeper one
            here = self.depth(at)
            if here is None or here > depth or _DIRECTIVE.match(raw):
                continue
            text = bare(raw)
            if _ENDING.match(text) or (_WORD.search(text) and not _CLOSING.match(text)):
                return at
        return last

    def body(self, owner: int) -> range:
        """The lines below the owner that it encloses."""
        return range(owner + 1, self.end(owner, owner + 1))

    def has_word(self, line: int) -> bool:
        """Whether the line is more than brackets and other signs."""
        return _WORD.search(self._lines[line]) is not None

    def is_title(self, line: int) -> bool:
        """Whether the line is the heading of prose, whose sections keep their text when renamed."""
        return self._is_heading(line) and not _SECTION.match(self._lines[line])

    def is_section(self, line: int) -> bool:
        """Whether the line is a name in brackets, as in settings."""
        return _SECTION.match(self._lines[line]) is not None

    def words(self, line: int) -> list[bytes]:
        return _WORDS.findall(self._lines[line])

    def _upwards(self, above: int, last: int) -> Iterator[int]:
        """The nearest heading above, if there is one."""
        lines = self._lines
        below = lines[above][:1]
        for line in range(above - 1, last - 1, -1):
            first = lines[line][:1]
            if (first in _STARTS or below in _RULERS) and self._is_heading(line):
                yield line
                return
            below = first

    def _next_depth(self, line: int, step: int) -> int | None:
        """The depth of the nearest line with a text above or below."""
        stop = min(len(self._lines), line + _REACH) if step > 0 else max(-1, line - _REACH)
        depths = map(self.depth, range(line + step, stop, step))
        return next((depth for depth in depths if depth is not None), None)

    def _is_heading(self, line: int) -> bool:
        text = self._lines[line]
        if text.startswith(b"[") and _SECTION.match(text):
            return True
        below = self._lines[line + 1] if line + 1 < len(self._lines) else b""
        if text.startswith(b"#") and _TITLE.match(text):
            return text.startswith(b"##") or not below.strip()  # else a comment upon code
        if below[:1].isalnum() or not _UNDERLINE.match(below) or not _WORD.search(text):
            return False
        return below.startswith(b"===") or 3 * len(below.rstrip()) >= 2 * len(text.rstrip())


class Owners:
    """What encloses lines in two texts; lines are counted as in `Footprint`, from 1."""

    def __init__(self, pair: TextPair, base: Sequence[bytes], now: Sequence[bytes]) -> None:
        self._pair = pair
        self._base, self._now = Outline(base), Outline(now)

    def differ(self, foot: Footprint) -> bool:
        """Whether the footprint stands within another owner now than it did.

        An owner that only has other text, or that other lines were put around, is the same; and so
        it is where lines unique to both texts hold the footprint within it from both sides.
        """
        if foot.above == foot.base:
            return False  # nothing changed above
        ends = {foot.base, foot.base + foot.size - 1}
        return any(
            self._is_other(foot, line) for line in sorted(ends) if 0 < line <= len(self._base)
        )

    def _is_other(self, foot: Footprint, line: int) -> bool:
        """Whether the owner of this line of the footprint is another one now."""
        pair = self._pair
        olds, news = self._lone(line, line - foot.base + foot.now)
        if not olds or not news:
            return any(map(pair.alignment.base_of, news)) and not self._is_held(foot, news[0])
        old, new = olds[0], news[0]
        above, below, within = self._held(foot, old, new)
        total, kept, away = self._remains(old, new)
        title = self._base.is_title(old - 1)
        stands = next(filter(None, map(pair.place_now, olds)), None)
        if stands is not None or any(map(pair.place_before, news)):
            if stands is not None and stands > foot.now:
                return True  # below the carried lines, which it was above of
            if not (above and below) and not (title and (above or within)):
                return True
            return 4 * (kept + away) < 3 * total or self._is_copied(foot, old, new)
        if away and 3 * away >= kept:
            return True  # too many of the lines that are left stand elsewhere
        if above and below:
            return False
        if not {self._base.depth(k - 1) for k in olds} & {self._now.depth(k - 1) for k in news}:
            return False
        if self._base.is_section(old - 1):
            return True
        if self._are_alike(old, new) or (title and not away):
            return False
        return not (title or above or within) or 3 * kept < total

    def _lone(self, line: int, at: int) -> tuple[list[int], list[int]]:
        """What encloses base line `line`, and does not enclose now line `at`; and conversely."""
        limit = self._base.limit(line - 1)
        ours = [k + 1 for k in self._base.owners(line - 1, limit)]
        theirs = [k + 1 for k in self._now.owners(at - 1, limit)]
        pair = self._pair
        texts = {pair.base[k] for k in ours} & {pair.now[k] for k in theirs}
        same = {(k, to) for k in ours if (to := pair.alignment.now_of(k)) in theirs}
        return (
            [k for k in ours if pair.base[k] not in texts and k not in {one for one, _ in same}],
            [k for k in theirs if pair.now[k] not in texts and k not in {to for _, to in same}],
        )

    def _remains(self, old: int, new: int) -> tuple[int, int, int]:
        """The old owner's lines with words; how many stand in the new one, how many elsewhere."""
        lines = [k + 1 for k in self._base.body(old - 1) if self._base.has_word(k)]
        found = [at for at in map(self._pair.alignment.now_of, lines) if at is not None]
        within = self._now.body(new - 1)
        kept = sum(at - 1 in within for at in found)
        return len(lines), kept, len(found) - kept

    def _is_copied(self, foot: Footprint, old: int, new: int) -> bool:
        """Whether the old owner was changed, and the new one is mostly a copy of its lines."""
        pair = self._pair
        at = pair.place_now(old)
        if at is None:
            return False
        inside, other = self._now.body(at - 1), self._now.body(new - 1)
        places = pair.twins_in_now(foot.base, foot.size)
        if not any(place - 1 in inside and place - 1 not in other for place in places):
            return False
        came = Counter(
            pair.now[k + 1]
            for k in inside
            if k not in other and k != new - 1 and self._now.has_word(k)
            if pair.alignment.base_of(k + 1) is None
        )
        had = Counter(pair.base[k + 1] for k in self._base.body(old - 1))
        return 4 * (came & had).total() >= 3 * came.total()

    def _is_held(self, foot: Footprint, new: int) -> bool:
        above, below, _ = self._held(foot, 0, new)
        return above and below

    def _held(self, foot: Footprint, old: int, new: int) -> tuple[bool, bool, bool]:
        """Whether lines unique to both texts hold the footprint within both owners.

        From above, and from below; last whether from below by lines that belong to the old owner,
        even where the footprint reaches beyond its end. 0 for `old` stands for the whole of base.
        """
        end, last = foot.base + foot.size, foot.now + foot.size
        stop = self._base.end(old - 1, end - 1) + 1 if old else len(self._base) + 1
        to = self._now.end(new - 1, last - 1) + 1
        unique = self._pair.unique
        first, low, high = (bisect_left(unique, k) for k in (foot.base, end, stop))
        above = self._any_within(unique[bisect_right(unique, old) : first], new, foot.now)
        below = self._any_within(unique[low:high], last - 1, to)
        within = below and (not old or self._base.body(old - 1).stop + 1 >= end)
        return above, below, within

    def _any_within(self, lines: list[int], after: int, before: int) -> bool:
        """Whether one of the base lines, but a blank one, stands between two lines of now."""
        texts = (line for line in lines if self._base.depth(line - 1) is not None)
        found = map(self._pair.alignment.now_of, texts)
        return any(at is not None and after < at < before for at in found)

    def _are_alike(self, old: int, new: int) -> bool:
        ours, theirs = self._base.words(old - 1), self._now.words(new - 1)
        return SequenceMatcher(None, ours, theirs, autojunk=False).ratio() >= _ALIKE


_SHOWN = 20
"""Most candidates named."""

Reason = Literal["gone", "parted", "blanks", "uncertain", "indented", "owner"]
"""Why not: some lines were changed or deleted; other lines stand between them; they differ
in trailing blanks; equal lines stand in one place, but may be others; they were indented
anew, and equal lines elsewhere are others; equal lines stand in another function or section."""


@dataclass(frozen=True, slots=True)
class Carried:
    """The footprint starts at line `at` of now, from 0; -1 is the start of the file."""

    at: int


@dataclass(frozen=True, slots=True)
class Changed:
    """What the edit relies on is not surely there; `at` is its line in now, from 0, if known."""

    reason: Reason
    at: int | None = None


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """Several places are possible; lines of now, from 0, sorted, the nearest 20 at most."""

    candidates: tuple[int, ...]


Verdict = Carried | Changed | Ambiguous


@dataclass(frozen=True, slots=True)
class LineKeys:
    """The lines of one text as the rule sees them, and keys that are blind to trailing blanks.

    Two lines of a pair of texts have equal loose keys when they differ in trailing
    blanks at most. `blank` is the loose key of a blank line.
    """

    strict: Sequence[bytes]
    loose: Sequence[Hashable]
    blank: Hashable = b""

    @staticmethod
    def of(lines: Sequence[bytes]) -> LineKeys:
        """The keys of lines without terminators, the first without a byte order mark."""
        return LineKeys(lines, [*map(bytes.rstrip, lines, repeat(b" \t"))])

    @staticmethod
    def by_digest(text: Snapshot) -> LineKeys:
        """Keys of a large text: 64-bit digests, for this process only; a footprint's are exact."""
        found = array("q")
        for keys in text.keys_in_blocks():
            found.extend(map(hash, map(bytes.rstrip, keys, repeat(b" \t"))))
        return LineKeys(_LinesOf(text), found, hash(b""))


def carry(base: Sequence[bytes], now: Sequence[bytes], start: int, stop: int) -> Verdict:
    """Carry one footprint; see `Relocation.carry`."""
    return Relocation(LineKeys.of(base), LineKeys.of(now)).carry(start, stop)


class _LinesOf(Sequence[bytes]):
    def __init__(self, text: Snapshot) -> None:
        self._text = text

    def __len__(self) -> int:
        return self._text.line_count

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...

    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        if isinstance(index, int):
            return self._text.key(index)
        return [self._text.key(line) for line in range(*index.indices(len(self)))]


class Relocation:
    """One pair of texts, for any number of footprints.

    Laws: a text carries every footprint to its own place; a carried footprint
    has in now the lines it had in base, trailing blanks included.
    """

    def __init__(self, base: LineKeys, now: LineKeys) -> None:
        self._pair = _pair_of(base.loose, now.loose, base.blank)
        self._strict_base, self._strict_now = base.strict, now.strict

    def carry(self, start: int, stop: int) -> Verdict:
        """Carry the base lines [start, stop), from 0; -1 and len(base) are the file's ends.

        The lines must stand in now together, equal to the last blank, in a place
        that some longest alignment of the two texts gives them, and
        - joined to lines unique in both texts, before and after them; or
        - several blank lines, as many as there were, next to one such line; or
        - in that place in every longest alignment; no line around them on their
          wrong side; no look-alike, in now or in base, that agrees with the lines
          around further than the carried place does, unless it is known where
          that look-alike came from or went, and none that nobody knows and that
          agrees as far; and no line that moved from beside them, the first or the
          last of them to beside a look-alike.
        Blank lines at the ends of a footprint of unique lines go with these. What
        holds so must hold without indentation too, where some lines were indented
        anew and the footprint may be one of them; and the place must have the
        owner that it had.
        Raises ValueError for a range that is empty or outside base and its ends.
        """
        if not -1 <= start < stop <= len(self._strict_base) + 1:
            raise ValueError(f"no footprint of base: [{start}, {stop})")
        line, size = start + 1, stop - start
        at = self._pair.alignment.now_of(line, size)
        if at is None:
            return self._indented(line, size) or self._lost(line, size)
        if not self._strictly_equal(line, at, size):
            return Changed("blanks")
        foot = self._pair.foot(line, at, size)
        if self._is_certain(foot):
            if self._owners.differ(foot):
                return self._indented(line, size) or Changed("owner")
            if not self._holds_unindented(foot):
                return self._indented(line, size) or Changed("uncertain")
            return Carried(at - 1)
        if (indented := self._indented(line, size)) is not None:
            return indented
        places = [place for place in self._pair.twins_in_now(line, size) if place != at]
        if not places:
            return Changed("uncertain")
        return _ambiguous([at, *sorted(places, key=lambda place: abs(place - at))])

    def room_of(self, start: int, stop: int) -> tuple[int, int]:
        """Where in now the base lines [start, stop) may stand, from 0 and half-open."""
        low, high = self._pair.alignment.room_of(start + 1, stop - start)
        return max(low - 1, 0), min(high, len(self._strict_now) + 1) - 1

    def _is_certain(self, foot: Footprint) -> bool:
        pair = self._pair
        if pair.is_certain(foot):
            return True
        start, stop = pair.without_blank_ends(foot.base, foot.size)
        if stop - start == foot.size or not pair.all_unique(start, stop):
            return False
        return pair.is_certain(pair.foot(start, start - foot.base + foot.now, stop - start))

    def _holds_unindented(self, foot: Footprint) -> bool:
        """Whether the place holds without indentation, where it may have been indented anew."""
        pair, line, size = self._unindented, foot.base, foot.size
        if pair is None:
            return True
        start, stop = self._pair.without_blank_ends(line, size)
        if start < stop and not any(map(self._is_unknown, self._indented_places(line, size))):
            return True
        if pair.alignment.now_of(line, size) != foot.now:
            return False
        return pair.is_certain(pair.foot(line, foot.now, size))

    def _indented_places(self, line: int, size: int) -> Iterator[tuple[int, int]]:
        """Where in now the footprint stands with other indentation; the size with each."""
        if self._unindented is not None:
            lines = self._pair.base[line : line + size]
            for place in self._unindented.twins_in_now(line, size):
                if self._pair.now[place : place + size] != lines:
                    yield place, size

    def _is_unknown(self, place: tuple[int, int]) -> bool:
        """Whether these lines of now are not those of base that both alignments give them."""
        origin = self._pair.alignment.base_of(*place)
        pair = self._unindented
        return origin is None or pair is None or origin != pair.alignment.base_of(*place)

    def _indented(self, line: int, size: int) -> Changed | None:
        """Where the footprint stands with other indentation, if it surely does."""
        pair = self._unindented
        at = None if pair is None else pair.alignment.now_of(line, size)
        if at is None or (at, size) not in self._indented_places(line, size):
            return None
        return Changed("indented", at - 1)

    @cached_property
    def _owners(self) -> Owners:
        return Owners(self._pair, self._strict_base, self._strict_now)

    @cached_property
    def _unindented(self) -> TextPair | None:
        """The two texts without indentation; None where no line was indented anew."""
        went: set[bytes] = set()
        came: set[bytes] = set()
        for gap in self._pair.alignment.gaps():
            old = self._strict_base[max(0, gap.base_start - 1) : max(0, gap.base_stop - 1)]
            new = self._strict_now[max(0, gap.now_start - 1) : max(0, gap.now_stop - 1)]
            went.update(map(bare, old))
            came.update(map(bare, new))
        if not went & came - {b""}:
            return None
        ours, theirs = map(_bare_digests, (self._strict_base, self._strict_now))
        return _pair_of(ours, theirs, hash(b""))

    def _lost(self, line: int, size: int) -> Verdict:
        """Why the footprint does not stand in now in one piece."""
        alignment = self._pair.alignment
        if all(alignment.now_of(line + k) is not None for k in range(size)):
            return Changed("parted")
        low, high = alignment.room_of(line, size)
        twins = self._pair.twins_in_now(line, size)
        places = [place for place in twins if low <= place and place + size <= high]
        if len(places) > 1:
            return _ambiguous(places)
        return Changed("uncertain" if places else "gone")

    def _strictly_equal(self, line: int, at: int, size: int) -> bool:
        """Whether the lines are equal, trailing blanks included; the file's ends are."""
        low, high = max(line - 1, 0), min(line - 1 + size, len(self._strict_base))
        shift = at - line
        theirs = self._strict_now[low + shift : high + shift]
        return all(map(eq, self._strict_base[low:high], theirs))


def _ambiguous(places: list[int]) -> Ambiguous:
    """The first of these places, as lines from 0 without the start of the file."""
    return Ambiguous(tuple(sorted(place - 1 for place in places[:_SHOWN])))


def _bare_digests(lines: Sequence[bytes]) -> list[int]:
    return [*map(hash, map(bytes.strip, lines, repeat(_BLANKS)))]


def _pair_of(base: Sequence[Hashable], now: Sequence[Hashable], blank: Hashable) -> TextPair:
    """The lines as small numbers, equal for equal lines, between those of the file's ends."""
    numbers: defaultdict[Hashable, int] = defaultdict(count().__next__)
    head, tail = common_ends(base, now)
    ours = [*map(numbers.__getitem__, base)]
    middle = map(numbers.__getitem__, now[head : len(now) - tail])
    theirs = [*ours[:head], *middle, *ours[len(ours) - tail :]]
    return TextPair([-1, *ours, -2], [-1, *theirs, -2], numbers.get(blank))
