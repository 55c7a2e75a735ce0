"""Near misses: where a text that was not found is written another way, or what is most like it.

One engine, for old and new texts, anchors, patches and blocks. First the file and the text are
folded (no white space, letter case, look-alike characters, normalization, escapes or line numbers)
and searched exactly; the fewest causes explain the difference. Where nothing folds to the same,
pieces of the text vote for places, and the most similar lines are taken. Laws: a correction is the
exact text of the file; the work is bounded by the sizes of both texts, never by their product.
"""

from __future__ import annotations

import html
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import accumulate, islice, zip_longest
from operator import itemgetter
from typing import Literal

from copydesk.errors import EncodingRefused
from copydesk.text import sizes
from copydesk.text.diff import Gap, align, longest, same_after
from copydesk.text.search import FEW, NormalizedText, occurrences, places
from copydesk.text.snapshot import Snapshot, Source

Cause = Literal[
    "trailing_blanks",
    "tabs_for_spaces",
    "spaces_for_tabs",
    "indentation",
    "spacing",
    "blank_lines",
    "line_breaks",
    "final_newline",
    "no_break_space",
    "invisible",
    "quotes",
    "quote_style",
    "dashes",
    "look_alikes",
    "case",
    "normalization",
    "carriage_return",
    "literal_newline",
    "newline_for_escape",
    "escaped",
    "unescaped",
    "line_numbers",
]
"""Why a text is not found although a reader sees it in the file.

`tabs_for_spaces`: tabs where the file has spaces. `quotes`, `dashes`: characters that look like
those of the file. `quote_style`: ' for \", or the reverse. `literal_newline`: a backslash and an n
for a line break; `newline_for_escape`: the reverse. `escaped`: a backslash or an entity for a
character; `unescaped`: the reverse. `line_numbers`: line numbers shown by a read were copied too.
"""

_BLANKS = " \t\n\r\x0b\x0c"
_SPACES = (
    "\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
)
_INVISIBLE = (
    "\xad\u034f\u061c\u180e\u200b\u200c\u200d\u200e\u200f\u2060\u2061\u2062\u2063\u2064\ufeff"
)
_SINGLE = "\u2018\u2019\u201a\u201b\u2032\u2035\u02b9\u02bc\u02bb\xb4\uff07"
_DOUBLE = "\u201c\u201d\u201e\u201f\u2033\u2036\u02ba\u301d\u301e\uff02"
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2043\ufe58\ufe63\uff0d"
_BREAKS = "\x85\u2028\u2029"

_TO_SPACE = str.maketrans(dict.fromkeys(_SPACES, " "))
_TO_NOTHING = str.maketrans(dict.fromkeys(_INVISIBLE))
_TO_QUOTE = str.maketrans(dict.fromkeys(_SINGLE, "'") | dict.fromkeys(_DOUBLE, '"'))
_TO_DASH = str.maketrans(dict.fromkeys(_DASHES, "-"))
_FOLD = str.maketrans(
    dict.fromkeys(_BLANKS + _SPACES + _INVISIBLE + _BREAKS)
    | dict.fromkeys(_SINGLE + _DOUBLE + "'`", '"')
    | dict.fromkeys(_DASHES, "-")
)
_ODD = re.compile(f"[{re.escape(_SPACES + _INVISIBLE + _SINGLE + _DOUBLE + _DASHES + _BREAKS)}]")
_AGAIN = re.compile(f"[ '`{_ODD.pattern[1:]}")  # what normalization brings that is to be folded too
_ASCII_FOLD = bytes(range(256)).lower().replace(b"'", b'"').replace(b"`", b'"')
_SHOWN_AS_CODE = frozenset(_SPACES + _INVISIBLE + _SINGLE + _DOUBLE + _DASHES + _BREAKS)

_NEWLINE_ESCAPES = re.compile(r"\\[nrt]")
_ESCAPES = re.compile(r"\\([nrt]|u[0-9A-Fa-f]{4}|[!-/:-@\[-`{-~])")
_ENTITY = re.compile(r"&#?\w+;")
NUMBER = re.compile(r"[ \t]*[0-9]{1,7}([ \t]*[|\u2502\u2192]|\t|[:-](?![0-9]))")
"""A line number that was copied with its line, and the sign after it."""

_IN_WORD = re.compile(r"\w\w")
_BACKSLASHES = re.compile(r"[ \t]*\\+")
_BLOCKS = (1 << 11, 1 << 14)
"""Bytes of one block, within which a position is found by bisection; larger for an ASCII text."""

_HITS = 50
"""Matches compared per text when there are `FEW` texts; all texts share the total."""

_ENDS = 4_096
"""Bytes around a match that are searched for white space."""

LONGEST = 100_000
"""Longest text, in characters, that is folded."""

_COMPARED = 20_000
"""The most characters used to compute the causes."""

_WIDTHS = (4, 8, 2, 3)
_INDENTATION = 4
"""From this many blanks on, those at the start of a text are indentation, not spacing."""


@dataclass(frozen=True, slots=True)
class Correction:
    """A passage of a file that reads the same as a text that was not found.

    Bytes [start, stop) are `text`, which has returns left before a line end as the file has them;
    of these, [first, last) are without white space at the ends. `alike` are the bytes where other
    passages start that may be meant as well; if there are any, none is certain. Of two corrections
    the one with the lower `rank` is meant if the first `_SURE_RANK` numbers of theirs differ; else
    neither is certain.
    """

    start: int
    stop: int
    first: int
    last: int
    text: str
    causes: tuple[Cause, ...]
    alike: tuple[int, ...] = ()
    rank: tuple[int, ...] = ()


def fold(text: str) -> str:
    """Fold a text for comparison: no white space, lower case, one character for all look-alikes."""
    folded = _text(_coded(text).translate(_ASCII_FOLD, _BLANKS.encode()))
    if folded.isascii():
        return folded
    if _ODD.search(folded):
        folded = folded.translate(_FOLD)
    plain = unicodedata.normalize("NFKD", folded).lower()
    return plain.translate(_FOLD) if plain != folded and _AGAIN.search(plain) else plain


def corrections(data: bytes, wanted: Sequence[str]) -> list[Correction | None]:
    """For each text, none of which is in `data` (LF line ends), return what was probably meant."""
    found: list[Correction | None] = [None] * len(wanted)
    asked = {at: text for at, text in enumerate(wanted) if text.strip() and len(text) <= LONGEST}
    if len(data) > (sizes.NEAR if data.isascii() else sizes.NEAR // 4):
        return found
    if len(asked) <= FEW:
        asked = {
            at: text for at, text in asked.items() if _has_words(data, unnumbered(text) or text)
        }
    if not asked:
        return found
    most = max(_HITS * FEW // len(asked), FEW)
    as_sent = {at: [_Needle(text, text)] for at, text in asked.items()}
    plain = _Folded(data)
    plain.take(found, as_sent, most)
    left = [at for at in asked if found[at] is None]
    plain.take(found, {at: [*_needles(asked[at])][1:] for at in left}, most)
    if b"\\" in data and left:
        _Folded(data, escapes=True).take(found, {at: as_sent[at] for at in left}, most)
    return found


_WORD = re.compile(r"[^\W_]{2,}")
_WORDS = 40


def _has_words(data: bytes, text: str) -> bool:
    """Whether the file contains the text's words (plain ones only), so that folding pays off."""
    lowered, text = b"", _ENTITY.sub(" ", text)
    for found in islice(_WORD.finditer(text), _WORDS):
        word, around = found[0], text[max(found.start() - 1, 0) : found.end() + 1]
        is_plain = "\\" not in around and not unicodedata.combining(around[-1])
        is_folded = not word.isascii() and word != unicodedata.normalize("NFKD", word).lower()
        if is_plain and not is_folded and word.encode() not in data:
            lowered = lowered or data.lower()
            if word.lower().encode() not in lowered:
                return False
    return True


@dataclass(frozen=True, slots=True)
class _Needle:
    """A text as requested, and the variant to search for; `numbered`: without its line numbers."""

    sought: str
    text: str
    numbered: bool = False


def _needles(text: str) -> Iterator[_Needle]:
    """Yield the text as it is, then as it was meant if it was copied or escaped wrongly."""
    seen = set[str]()
    for own, numbered in ((text, False), (unnumbered(text) or "", True)):
        unescaped = own, _resolved(own), html.unescape(own)
        for variant in (*unescaped, html.escape(own, quote=False), html.escape(own)):
            if variant and variant not in seen:
                seen.add(variant)
                yield _Needle(own, variant, numbered)


def unnumbered(text: str) -> str | None:
    """Remove line numbers that were copied along; None unless every non-blank line has one."""
    lines = text.split("\n")
    ends = [NUMBER.match(line) for line in lines]
    is_lacking = any(line.strip() and not end for end, line in zip(ends, lines, strict=True))
    if is_lacking or not any(ends):
        return None
    rest = [line[end.end() :] if end else line for end, line in zip(ends, lines, strict=True)]
    if all(line.startswith(" ") for line in rest if line.strip()) and "\t" not in {
        end[0][-1] for end in ends if end
    }:
        rest = [line.removeprefix(" ") for line in rest]
    return "\n".join(rest)


def _resolved(text: str) -> str:
    """Replace the escapes in the text by the characters they stand for."""

    def character(found: re.Match[str]) -> str:
        name = found[1]
        return chr(int(name[1:], 16)) if len(name) > 1 else _NAMED.get(name, name)

    return _ESCAPES.sub(character, text)


_NAMED = {"n": "\n", "t": "\t", "r": ""}


def _fold_escapes(text: str) -> str:
    """Do `fold`, treating escaped white space as white space and removing backslashes."""
    if "\\" in text:
        text = _NEWLINE_ESCAPES.sub("", text).replace("\\", "")
    return fold(text)


class _Folded:
    """A text folded block by block, so that each match can be mapped back to the text itself.

    `escapes`: escaped white space counts as white space, and backslashes are removed.
    """

    def __init__(self, data: bytes, *, escapes: bool = False) -> None:
        self.data, self._escapes = data, escapes
        self._fold = _fold_escapes if escapes else fold
        self._starts, self._at = [0], [0]
        parts: list[bytes] = []
        size = _BLOCKS[data.isascii()]
        while self._starts[-1] < len(data):
            start = self._starts[-1]
            stop = _end_of_block(data, start + size)
            parts.append(_coded(self._fold(_text(data[start:stop]))))
            self._starts.append(stop)
            self._at.append(self._at[-1] + len(parts[-1]))
        self.folded = b"".join(parts)

    def take(
        self,
        found: list[Correction | None],
        needles: Mapping[int, Sequence[_Needle]],
        most: int,
    ) -> None:
        """Store the best correction by each text's needles, if it beats the one stored before."""
        asked = [
            (at, needle, _coded(self._fold(needle.text)))
            for at, own in needles.items()
            for needle in own
        ]
        matches = occurrences(self.folded, [key for _, _, key in asked])
        for (at, needle, key), (_, starts) in zip(asked, matches, strict=True):
            spots = [
                (self._byte(start)[0], self._byte(start + len(key) - 1)[1])
                for start in starts[:most]
            ]
            best, before = self._best(needle, spots), found[at]
            if best and (before is None or len(best.causes) < len(before.causes)):
                found[at] = best

    def _best(self, needle: _Needle, spots: Iterable[tuple[int, int]]) -> Correction | None:
        """The needle's match that differs least, with the others that may be meant as well."""
        grown = (_grown(self.data, needle.text, *spot, escapes=self._escapes) for spot in spots)
        ranked = [(_distance(needle.text, here.text), here) for here in grown if here is not None]
        if not ranked:
            return None
        rank, best = min(ranked, key=lambda one: (one[0], one[1].start))
        own = best.text.replace("\r\n", "\r\r\n")  # a return left before a line end is of the text
        causes = explain(needle.sought, own)
        if needle.numbered:
            causes = ("line_numbers", *causes)
        equal = [one for key, one in ranked if key[:_RANKED] == rank[:_RANKED]]
        alike = tuple(sorted(one.first for one in equal if one is not best))
        own_rank = (needle.sought != needle.text or needle.numbered or self._escapes, *rank)
        return replace(best, text=own, causes=causes, alike=alike, rank=own_rank)

    def _byte(self, at: int) -> tuple[int, int]:
        """Return the bytes [start, stop) of the character whose folded form includes byte `at`."""
        index = bisect_right(self._at, at) - 1
        begin, inner = self._starts[index], at - self._at[index]
        text = _text(self.data[begin : self._starts[index + 1]])
        low, high = 0, len(text)
        while high - low > 1:  # the first `low` characters fold to at most `inner` bytes
            middle = (low + high) // 2
            if len(_coded(self._fold(text[:middle]))) <= inner:
                low = middle
            else:
                high = middle
        start = begin + len(_coded(text[:low]))
        return start, start + len(_coded(text[low:high]))


def _end_of_block(data: bytes, at: int) -> int:
    """Return a byte near `at` that is not within a character and not after a backslash."""
    ends = range(at, min(at + 64, len(data)))
    whole = (end for end in ends if data[end] & 0xC0 != 0x80 and data[end - 1] != 0x5C)
    return next(whole, min(at + 64, len(data)))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _coded(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _grown(data: bytes, text: str, first: int, last: int, *, escapes: bool) -> Correction | None:
    """Extend a match by white space at its ends as the text has it; None if it is no match.

    It is none if it starts or ends within a word, or if the text has a line break where the file's
    line goes on.
    """
    body = text.strip()
    if escapes:  # folding removed backslashes: those next to the match belong to it
        own = data[max(first - _INDENTATION, 0) : first]
        if body[0] != "\\" and not (body[0].isalnum() or body[0].isspace()):
            first -= len(own) - len(own.rstrip(b"\\"))
        left_out = _BACKSLASHES.match(_text(data[last : last + _ENDS]))
        if left_out and body[-1] == "\\" and data[last - 1] != 0x5C:
            last += left_out.end()
    before, after = _text(data[max(first - _ENDS, 0) : first]), _text(data[last : last + _ENDS])
    if _IN_WORD.match(before[-1:] + body[0]) or _IN_WORD.match(body[-1] + after[:1]):
        return None
    lead, trail = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    above = before[len(before.rstrip(_WHITE)) :]
    below = after[: len(after) - len(after.lstrip(_WHITE))]
    at_start, at_end = len(above) == first, last + len(_coded(below)) == len(data)
    is_first = at_start or "\n" in above  # nothing but white space is before it in its line
    head = _beside(lead, above.split("\n")[::-1], at_end=at_start, ends_line=True)
    ends_line = trail.endswith("\n")
    tail = _beside(trail, below.split("\n"), at_end=at_end, ends_line=ends_line)
    is_parted = not is_first and "\n" not in lead and len(lead) >= _INDENTATION
    if head is None or tail is None or is_parted:
        return None
    start = first - len(_coded("\n".join(head[::-1])))
    stop = last + len(_coded("\n".join(tail)))
    have = _text(data[start:stop])
    own_blanks = above[above.rfind("\n") + 1 :]
    if not lead and own_blanks and is_first:
        shifts = _shifts(text.split("\n")[1:], have.split("\n")[1:])
        if shifts == {len(own_blanks.expandtabs(8))}:  # every line is indented less, the first too
            have, start = own_blanks + have, start - len(_coded(own_blanks))
    return Correction(start, stop, first, last, have, ())


_WHITE = _BLANKS + _SPACES + _INVISIBLE + _BREAKS


def _beside(
    wanted: str, blanks: Sequence[str], *, at_end: bool, ends_line: bool
) -> Sequence[str] | None:
    """Of the white space beside a match, what corresponds to that at an end of the text.

    `blanks` are its lines, nearest first; `at_end`: they reach an end of the file; `ends_line`:
    what is wanted ends with a line break. None if nothing corresponds.
    """
    if not (breaks := wanted.count("\n")):
        return blanks[:1] if wanted else ()
    if len(blanks) == 1:
        return blanks if at_end else None
    count = min(breaks, len(blanks) - 1)
    return [*blanks[:count], "" if ends_line else blanks[count]]


def indentation(line: str) -> str:
    """The spaces and tabs at the start of a line."""
    return line[: len(line) - len(line.lstrip(" \t"))]


def _shifts(mine: Sequence[str], theirs: Sequence[str], tab: int = 8) -> set[int]:
    """By how many columns the file's non-blank lines are indented more than those searched for."""
    mine, theirs = [one for one in mine if one.strip()], [one for one in theirs if one.strip()]
    if len(mine) != len(theirs):
        return set()
    pairs = zip(mine, theirs, strict=True)
    return {
        len(indentation(have).expandtabs(tab)) - len(indentation(own).expandtabs(tab))
        for own, have in pairs
    }


_RANKED = 4
"""How many leading elements of a distance decide whether one match is certain."""

_SURE_RANK = 1 + _RANKED
"""So many of a correction's rank, which begins with whether it was searched for as it was sent."""


def _distance(mine: str, theirs: str) -> tuple[int, ...]:
    """How far a text is from what is there; smaller is nearer, and what comes first counts most.

    Whether they differ beside white space; in how many characters; whether in line breaks; whether
    in indentation; in how many lines apart from that; by how many columns; in length.
    """
    own, have = mine.translate(_NO_WHITE), theirs.translate(_NO_WHITE)
    other = own != have
    seen = abs(len(own) - len(have)) + sum(a != b for a, b in zip(own, have, strict=False))
    breaks = mine.count("\n") != theirs.count("\n")
    if breaks:
        return other, seen, 1, 0, 0, 0, abs(len(mine) - len(theirs))
    lines, there = mine.split("\n"), theirs.split("\n")
    shifts = min((_shifts(lines, there, tab) for tab in _WIDTHS), key=_weight)
    inner = sum(a.strip() != b.strip() for a, b in zip(lines, there, strict=True))
    return other, seen, 0, any(shifts), inner, _weight(shifts), abs(len(mine) - len(theirs))


def _weight(shifts: set[int]) -> int:
    return 100 * max(len(shifts) - 1, 0) + sum(map(abs, shifts))


_NO_WHITE = str.maketrans(dict.fromkeys(_WHITE))


def explain(mine: str, theirs: str) -> tuple[Cause, ...]:
    """Return why two texts that look the same differ, in as few causes as possible."""
    mine, theirs = mine.replace("\r\n", "\n"), theirs.replace("\r\n", "\n")
    if mine == theirs:
        return ()
    if max(len(mine), len(theirs)) > _COMPARED:
        mine, theirs = _differing(mine, theirs)
    folded = fold(mine), fold(theirs)
    if "&" in mine and folded[1] == fold(plain := html.unescape(mine)) != folded[0]:
        return ("escaped", *explain(plain, theirs))
    if "&" in theirs and folded[0] == fold(plain := html.unescape(theirs)) != folded[1]:
        return ("unescaped", *explain(mine, plain))
    widths = _WIDTHS if "\t" in mine or "\t" in theirs else _WIDTHS[:1]
    fewest = (_fewest(mine, theirs, tab, escapes=folded[0] != folded[1]) for tab in widths)
    explained = (names for names in fewest if names is not None)
    best = min(explained, key=lambda names: ("indentation" in names, len(names)), default=None)
    if best is None and _fold_escapes(mine) == _fold_escapes(theirs):
        best = ("escapes",)
    return () if best is None else tuple(_directed(name, mine, theirs) for name in best)


def _differing(mine: str, theirs: str) -> tuple[str, str]:
    """The first differing lines of two long texts; the starts if the line counts differ."""
    own, have = mine.split("\n"), theirs.split("\n")
    if len(own) != len(have):
        return mine[:_COMPARED], theirs[:_COMPARED]
    pairs = [pair for pair in zip(own, have, strict=True) if pair[0] != pair[1]]
    sizes_so_far = accumulate(max(map(len, pair)) for pair in pairs)
    first = [pair for pair, size in zip(pairs, sizes_so_far, strict=True) if size <= _COMPARED]
    return "\n".join(one for one, _ in first), "\n".join(other for _, other in first)


def _fewest(mine: str, theirs: str, tab: int, *, escapes: bool) -> tuple[str, ...] | None:
    """Return the fewest steps that make both texts equal; None if all steps together do not."""
    steps = _steps(tab)[0 if escapes else _OF_ESCAPES :]
    if not _same(mine, theirs, steps):
        return None
    for dropped in sorted(steps, key=itemgetter(1)):
        fewer = [step for step in steps if step is not dropped]
        if _same(mine, theirs, fewer):
            steps = fewer
    return tuple(name for name, _, _ in steps)


_OF_ESCAPES = 2
"""The first steps, this many, are about escapes; they are tried only if needed."""

Step = tuple[str, int, Callable[[str], str]]
"""What makes two texts equal in one respect: its name, when it is left out, and how it does it.

The steps with the lowest numbers, the general ones, are left out first if the others suffice. They
are done in the order of the table, whichever are left.
"""


def _same(mine: str, theirs: str, steps: Sequence[Step]) -> bool:
    for _, _, step in steps:
        mine, theirs = step(mine), step(theirs)
    return mine == theirs


def _lines(step: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: "\n".join(map(step, text.split("\n")))


def _steps(tab: int) -> Sequence[Step]:
    """The table of causes: each with its place in the order of leaving out, and its step."""

    def tabs(line: str) -> str:
        blanks = indentation(line)
        return blanks.expandtabs(tab) + line[len(blanks) :]

    return (
        ("newlines", 11, real_newlines),
        ("escapes", 10, _resolved),
        ("normalization", 18, lambda text: unicodedata.normalize("NFC", text)),
        ("invisible", 15, lambda text: text.translate(_TO_NOTHING)),
        ("no_break_space", 14, lambda text: text.translate(_TO_SPACE)),
        ("quotes", 16, lambda text: text.translate(_TO_QUOTE)),
        ("quote_style", 8, lambda text: text.replace("'", '"').replace("`", '"')),
        ("dashes", 17, lambda text: text.translate(_TO_DASH)),
        ("look_alikes", 5, lambda text: unicodedata.normalize("NFKD", text)),
        ("case", 9, str.lower),
        ("carriage_return", 13, lambda text: text.replace("\r", "")),
        ("trailing_blanks", 12, _lines(lambda line: line.rstrip(" \t"))),
        ("tabs", 7, _lines(tabs)),
        ("indentation", 6, _lines(lambda line: line.lstrip(" \t"))),
        ("spacing", 4, lambda text: _INNER.sub("", text)),
        ("blank_lines", 3, lambda text: _EMPTY.sub("\n", text)),
        ("final_newline", 2, lambda text: text.rstrip("\n")),
        ("line_breaks", 1, lambda text: text.translate(_NO_WHITE)),
        ("any", 0, fold),
    )


def real_newlines(text: str) -> str:
    """Replace escaped line breaks and tabs by the characters themselves."""
    return text.replace("\\r", "").replace("\\n", "\n").replace("\\t", "\t")


_INNER = re.compile(r"(?<=[^ \t\n])[ \t]+(?=[^ \t\n])")
_EMPTY = re.compile(r"\n(?:[ \t]*\n)+")


_DIRECTED: Mapping[str, tuple[Callable[[str], int], Cause, Cause]] = {
    "tabs": (
        lambda text: sum(indentation(line).count("\t") for line in text.split("\n")),
        "tabs_for_spaces",
        "spaces_for_tabs",
    ),
    "newlines": (
        lambda text: len(_NEWLINE_ESCAPES.findall(text)),
        "literal_newline",
        "newline_for_escape",
    ),
    "escapes": (lambda text: text.count("\\"), "escaped", "unescaped"),
}
"""Steps with two causes: what is counted, the cause if the text sought has more, and the other."""


def _directed(name: str, mine: str, theirs: str) -> Cause:
    """Return the full name of the cause, by which of the two texts has the tabs or the escapes."""
    if name in _DIRECTED:
        count, more, less = _DIRECTED[name]
        return more if count(mine) > count(theirs) else less
    return "look_alikes" if name == "any" else name  # type: ignore[return-value]  # of the table


def indented_by(mine: str, theirs: str) -> int | None:
    """By how many columns all lines of the file are indented more; None if they differ in it."""
    own, have = mine.split("\n"), theirs.split("\n")
    shifts = _shifts(own, have)
    return shifts.pop() if len(shifts) == 1 else None


def reindented(text: str, mine: Sequence[str], theirs: Sequence[str]) -> str | None:
    """Indent the lines of `text` more or less by what indents the lines `theirs` so beside `mine`.

    None if that is not the same blanks for every pair of lines, or a line of `text` lacks those to
    be taken off. Blank lines do not count, and stay.
    """
    pairs = [
        (indentation(a), indentation(b)) for a, b in zip(mine, theirs, strict=True) if a.strip()
    ]
    own, have = pairs[0] if pairs else ("", "")
    more, less = have[: max(len(have) - len(own), 0)], own[: max(len(own) - len(have), 0)]
    lines = text.split("\n")
    if any(more + one != less + other for one, other in pairs) or any(
        line.strip() and not line.startswith(less) for line in lines
    ):
        return None
    return "\n".join(more + line[len(less) :] if line.strip() else line for line in lines)


def visible(line: str) -> str:
    """The line with invisible characters shown: tabs, trailing spaces, look-alikes by code."""
    bare = line.rstrip(" ")
    shown = bare.replace("\t", "→").replace("\r", "<CR>") + "·" * (len(line) - len(bare))
    return "".join(
        f"<U+{ord(one):04X}>" if one in _SHOWN_AS_CODE or unicodedata.combining(one) else one
        for one in shown
    )


_SIZES = (32, 16, 8, 4)
"""Bytes of a piece, at most half of the text: long ones are more selective, short ones are
nearer to what differs. The largest three that fit are used."""

_PIECES = 240
"""The most pieces of one text, or of several texts in all."""

_LEAST_PIECES = 48
_PLACES = 1_000  # a piece in more places is popular; of several texts, each has a share of these
_LEAST_PLACES = 50
_FIRST = 8  # so many places of a popular piece vote
_TINY = 1e-4  # and with this weight: they decide where nothing else does
_SAME_PLACE_BITS = 10
"""Estimates within the same 2 ** 10 bytes count as one place."""


@dataclass(slots=True)
class Candidate:
    """The text would start in `line`, 0-based, near byte `at`.

    Its piece that is in the fewest places (`rarest` is one over their number) is at byte `seen_at`,
    `seen_below` lines below `line`; `weight` is the sum of the votes.
    """

    line: int
    at: int
    seen_at: int
    seen_below: int
    rarest: float
    weight: float = 0.0


def candidates(data: bytes, texts: Sequence[bytes], most: int) -> list[list[Candidate]]:
    """For each text, return up to `most` likely places in `data` (LF line ends), best first.

    Pieces of the text are searched for; each match of one votes for the place where the text would
    start, with more weight the fewer matches the piece has. Of a piece with very many matches only
    the first ones count, and very little.
    """
    share = max(_PIECES // max(len(texts), 1), _LEAST_PIECES)
    pieces = [list(_pieces(text, share)) for text in texts]
    limit = max(_PLACES // max(len(texts), 1), _LEAST_PLACES)
    keys = list(dict.fromkeys(piece for found in pieces for _, piece in found))
    found = places(data, keys, limit)
    lines = _lines_at(data, {at for starts in found.values() for at in starts})
    return [
        _voted(text, own, found, lines, limit)[:most]
        for text, own in zip(texts, pieces, strict=True)
    ]


def _voted(
    text: bytes,
    pieces: list[tuple[int, bytes]],
    found: dict[bytes, list[int]],
    lines: dict[int, int],
    limit: int,
) -> list[Candidate]:
    spots: dict[tuple[int, int], Candidate] = {}
    line_of = _lines_at(text, {offset for offset, _ in pieces})
    for offset, piece in sorted(pieces):
        starts = found[piece]
        popular = len(starts) > limit
        weight = _TINY if popular else 1 / max(len(starts), 1)
        for place in starts[:_FIRST] if popular else starts:
            start, at = max(lines[place] - line_of[offset], 0), max(place - offset, 0)
            spot = spots.get((start, at >> _SAME_PLACE_BITS))
            votes = spot.weight if spot else 0.0
            if spot is None or spot.rarest < weight:
                spot = Candidate(start, at, place, lines[place] - start, weight)
                spots[start, at >> _SAME_PLACE_BITS] = spot
            spot.weight = votes + weight
    return sorted(spots.values(), key=lambda spot: (-spot.weight, spot.at))


def _pieces(text: bytes, most: int) -> Iterator[tuple[int, bytes]]:
    """Yield evenly spread pieces of the text, with offsets; also in lower case if that differs."""
    fitting = [size for size in _SIZES if 2 * size <= len(text)]
    lengths = fitting[:3] or [(len(text) + 1) // 2]
    count = max(most // len(lengths), 1)
    for size in lengths:
        room = len(text) - size
        step = -(-(room + 1) // count)
        for offset in range(0, room + 1, step):
            piece = text[offset : offset + size]
            if piece.strip():
                yield from ((offset, spelled) for spelled in {piece: 0, piece.lower(): 0})


def _lines_at(data: bytes, marks: set[int]) -> dict[int, int]:
    """Map each byte offset to its 0-based line."""
    found: dict[int, int] = {}
    line = last = 0
    for at in sorted(marks):
        line += data.count(b"\n", last, at)
        last = at
        found[at] = line
    return found


_CLOSE = 0.6  # the least likeness of a line that is told
_COMPARED_LINE = 200  # characters of a line sought
_NEAREST_LINES = 3
_WORTH = 0.45  # the least likeness of several lines that are told
_SPOTS = 12  # likely places, of which each is compared
_SPOTS_OF_LONG = 3
_LONG = 2_000
"""Bytes; longer texts are compared at fewer places."""

_PAIRS = 40
"""Differing lines that are compared in full; further ones only by their common start."""

_SURE = 0.95  # of a long text, likeness from which on no other place is compared
_LEAST_LINES = 4
"""Of a text of fewer lines no ends are sought beyond as many lines of the file."""

_AS_GOOD = 0.05
"""Places whose likeness is less by no more than this may be meant as well."""

_WITHIN = 200  # longer lines are compared by words, not by characters
_TOKENS = 500  # the most words of a line
_SLACK = 80  # characters beside a place that may belong to it as well
_DIFF_LINES = 4
_SHOWN = 200
"""Characters of a diff, all lines together; one beyond ASCII counts as three."""

_SHOWN_OF_MANY = 1_600  # of the diffs of several texts, unless these are many
_LEAST_SHOWN = 80
_VISIBLE = 10_000
"""Characters; in longer lines invisible characters are not made visible."""

_LEAST_WIDTH = 24  # characters of a line of a diff
_OPEN_END = "\\ No newline at end of file"
_NOT_TEXT = "\\ What is shown as \\xNN there is a byte"
_MOST_EQUAL = 1_000
_HEADS = (32, 16, 8)
"""Characters at the start of a line by which it is found within a longer one."""


@dataclass(frozen=True, slots=True)
class Near:
    """Lines [start, stop), 0-based, their similarity in percent, and a short diff.

    In `diff`, `-` marks what was searched for and `+` what is there, for the lines that differ,
    each cut to the part around the first difference. If no line differs, the last one is followed
    by a line that starts with a backslash and says what does. Lines that look the same are shown by
    `visible`.

    `causes`: why a text that a reader sees there is not found. `corrected` is that text as it is
    there, if it is there once; `alike` are the lines, 0-based, where other places start that may be
    meant too.
    """

    start: int
    stop: int
    similarity: int
    diff: tuple[str, ...]
    causes: tuple[Cause, ...] = ()
    corrected: str | None = None
    alike: tuple[int, ...] = ()


def nearest_of(base: Snapshot, wanted: Sequence[str], *, once: bool = True) -> list[Near | None]:
    """For each text, none of which is in `base`, the most similar lines; None if none are similar.

    It is one pass over the file. A text that differs only in how it is written is nearer than
    anything else. `once`: the text is wanted in one place only.
    """
    try:
        data = NormalizedText.of(base).data
    except EncodingRefused:
        return [None] * len(wanted)
    sought = [text.replace("\r\n", "\n") for text in wanted]
    room = max(min(_SHOWN, _SHOWN_OF_MANY // max(len(wanted), 1)), _LEAST_SHOWN)
    found: list[Near | None] = [
        None if one is None else _equal(data, sought[at], one, room, once=once)
        for at, one in enumerate(corrections(data, sought))
    ]
    left = [at for at, one in enumerate(found) if one is None]
    spots = candidates(data, [sought[at].removesuffix("\n").encode() for at in left], _SPOTS)
    for at, own in zip(left, spots, strict=True):
        found[at] = _most_like(data, sought[at], own, room)
    return found


def _equal(data: bytes, text: str, found: Correction, room: int, *, once: bool) -> Near:
    """Return the place of a text that is there written another way."""
    raw = data[found.start : found.stop]
    corrected = found.text if _is_text(found.text) else None
    if once and (found.alike or data.find(raw) != data.rfind(raw)):
        corrected = None
    alike = tuple(data.count(b"\n", 0, at) for at in found.alike[:_NEAREST_LINES])
    start = data.count(b"\n", 0, found.first)
    stop = start + data.count(b"\n", found.first, found.last) + 1
    lines, have = (one.removesuffix("\n").split("\n") for one in (text, _text(raw)))
    percent = min(round(100 * _likeness(lines, have)), 99)
    diff = _diff(text, have, room, is_open=not found.text.endswith("\n"))
    return Near(start, stop, percent, diff, found.causes, corrected, alike)


def _is_text(text: str) -> bool:
    """Whether a caller can send the text: no byte of it failed to decode."""
    return text.isascii() or not any("\ud800" <= one <= "\udfff" for one in text)


def _most_like(data: bytes, text: str, spots: list[Candidate], room: int) -> Near | None:
    sought = text.removesuffix("\n")
    lines = sought.split("\n")
    size = len(sought.encode())
    ranked: list[tuple[float, int, Candidate, list[str]]] = []
    for spot in spots[: _SPOTS_OF_LONG if size > _LONG else _SPOTS]:
        have = _window(data, spot, len(lines), size)
        if (likeness := _likeness(lines, have)) >= _WORTH:
            ranked.append((likeness, -abs(sum(map(len, have)) - len(sought)), spot, have))
        if size > _LONG and likeness > _SURE:
            break
    if not ranked:
        return None
    # what only few places have counts before letters that are alike, which tell lines next to it
    likely = max(ranked, key=lambda one: (one[2].weight * one[0], one[1]))[2].line
    beside = (one for one in ranked if abs(one[2].line - likely) < len(lines))
    best, _, spot, have = max(beside, key=itemgetter(0, 1))
    first = spot.line
    if len(lines) >= _LEAST_LINES:
        first, have = _extent(data, spot, lines, have)
    above, have = _trimmed(lines, have)
    start, stop = first + above, first + above + len(have)
    is_open = stop > data.count(b"\n") and not data.endswith(b"\n")
    diff = _diff(text, have, room, is_open=is_open, first=start)
    alike = {each.line for likeness, _, each, _ in ranked if likeness > best - _AS_GOOD}
    others = tuple(sorted(at for at in alike if not start - len(lines) < at < stop))
    return Near(start, stop, min(round(100 * best), 99), diff, alike=others)


def _extent(
    data: bytes, spot: Candidate, sought: list[str], have: list[str]
) -> tuple[int, list[str]]:
    """The first line of a place and its lines, from the first one sought to the last.

    They may be further apart than in the text: others were put between.
    """
    count = len(sought)
    at = _lines_up(data, spot.seen_at, spot.seen_below + count)
    first = data.count(b"\n", 0, at)
    raw = data[at : at + 8 * len("\n".join(sought).encode()) + _SLACK].split(b"\n", 3 * count)
    lines = [line.decode("utf-8", "backslashreplace") for line in raw[: 3 * count]]
    bare = [line.strip() for line in lines]
    low, high = spot.line - first, spot.line - first + len(have)
    if sought[0] not in have:
        above = (at for at in range(low - 1, -1, -1) if bare[at] == sought[0].strip())
        low = next(above, low)
    if sought[-1] not in have:
        below = (at for at in range(high, len(lines)) if bare[at] == sought[-1].strip())
        high = next(below, high - 1) + 1
    return first + low, lines[low:high]


def _lines_up(data: bytes, at: int, count: int) -> int:
    """The byte where the line starts that is `count` lines above the one with byte `at`."""
    start = data.rfind(b"\n", 0, at) + 1
    for _ in range(count):
        start = data.rfind(b"\n", 0, max(start - 1, 0)) + 1
    return start


def _trimmed(sought: list[str], have: list[str]) -> tuple[int, list[str]]:
    """Cut unrelated lines off both ends; return how many were cut above, and the rest."""
    gaps = list(align([line.strip() for line in sought], [line.strip() for line in have]).gaps())
    above, stop = 0, len(have)
    for gap in gaps:
        if gap.base_start == gap.base_stop == 0:
            above = gap.now_stop
        elif gap.base_start == gap.base_stop == len(sought):
            stop = gap.now_start
    return above, have[above:stop]


def _window(data: bytes, spot: Candidate, count: int, size: int) -> list[str]:
    """Return `count` lines from the spot on; of a very long line, the part around the spot."""
    start = _lines_up(data, spot.seen_at, spot.seen_below)
    stop = start - 1
    for _ in range(count):
        if (end := data.find(b"\n", stop + 1)) < 0:
            stop = max(stop, len(data) - data.endswith(b"\n"))
            break
        stop = end
    if spot.at - start > 8 * _SLACK:
        start = spot.at - _SLACK
    most = size + size // 4
    if stop - spot.at > most + 8 * _SLACK:
        stop = max(spot.at + most + _SLACK, start)
    while start < stop and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:stop].decode("utf-8", "backslashreplace").split("\n")


def _likeness(sought: list[str], have: list[str]) -> float:
    """Return from 0 to 1 how much is equal, of the text searched for and the lines found.

    Lines are equal up to the blanks around them, the number of which counts; those that differ are
    compared inside. Of a line longer than the one searched for, only the matching stretch counts.
    """
    alignment = align([line.strip() for line in sought], [line.strip() for line in have])
    same = total = 0
    for base, now, length in alignment.runs:
        for at in range(length):
            mine, theirs = len(sought[base + at]), len(have[now + at])
            total += mine + theirs + 2
            same += 2 * min(mine, theirs) + 2
    pairs = (pair for gap in alignment.gaps() for pair in _paired(gap, sought, have))
    for at, (own, other) in enumerate(pairs):
        if at < _PAIRS:
            alike, stretch = _within(own, other)
        else:
            alike, stretch = _first_difference(own, other)[0], len(own)
        same += 2 * alike
        total += len(own) + stretch
    return same / total if total else 0.0


def _paired(gap: Gap, sought: list[str], have: list[str]) -> Iterator[tuple[str, str]]:
    mine = sought[gap.base_start : gap.base_stop]
    return zip_longest(mine, have[gap.now_start : gap.now_stop], fillvalue="")


def _within(mine: str, theirs: str) -> tuple[int, int]:
    """Return how many characters are equal, and the length of the stretch of `theirs` with them."""
    if len(mine) <= _WITHIN and len(theirs) <= 2 * _WITHIN:
        blocks = SequenceMatcher(None, mine, theirs, autojunk=False).get_matching_blocks()
        if not (told := [block for block in blocks if block.size > 1 or block.size == len(mine)]):
            return 0, len(theirs)
        stretch = told[-1].b + told[-1].size - told[0].b
        return sum(block.size for block in told), stretch
    at, there = _first_difference(mine, theirs)
    ours, others = _tokens(mine[at:]), _tokens(theirs[there:])
    pairs = list(longest(ours, others))
    left = len(mine) - at - sum(map(len, ours))
    alike = sum(len(ours[i]) for i, _ in pairs)
    stretch = sum(map(len, others[: pairs[0][1] + 1])) if pairs else 0
    return at + alike + left, at + stretch + left


def _tokens(line: str) -> list[str]:
    return re.findall(r"\w+|\W", line[: 8 * _TOKENS])[:_TOKENS]


def _remarked(lines: list[str], room: int, *, open_end: bool) -> tuple[str, ...]:
    """Show the line where texts that look the same differ, with a remark that says how."""
    line, at, remark = lines[-1], len(lines[-1]), _OPEN_END
    if not open_end:
        line = next((one for one in lines if "\\x" in one), line)
        at, remark = line.find("\\x"), _NOT_TEXT
    shown = _cut(line, at, room // 2)
    return f"- {shown}", f"+ {shown}", remark


def _diff(
    text: str, have: list[str], room: int, *, is_open: bool, first: int | None = None
) -> tuple[str, ...]:
    """Return the lines that differ; `is_open`: those of the file have no line end at their end."""
    sought, closed = text.removesuffix("\n").split("\n"), text.endswith("\n")
    same = list(have)
    if len(have) > 1 and have[0].endswith(sought[0]):
        same[0] = sought[0]  # the text may start and end within a line
    if not closed and len(have) == len(sought) > 1 and have[-1].startswith(sought[-1]):
        same[-1] = sought[-1]
    diff = line_difference(sought, have, same, room, first)
    return diff or _remarked(sought, room, open_end=closed and is_open)


def line_difference(
    sought: list[str],
    have: list[str],
    same: list[str] | None = None,
    room: int | None = None,
    first: int | None = None,
) -> tuple[str, ...]:
    """The short diff of `Near`: the lines that differ between `sought` and `have`.

    `same`: the lines of `have` with what is to count as equal; they are shown as in `have`.
    `first`: the line of the first of them, 0-based; if not all that differ are shown, it is told
    which lines are equal.
    """
    room = _SHOWN if room is None else room
    alignment = align(sought, same or have)
    gaps = list(alignment.gaps())
    count = sum(g.base_stop - g.base_start + g.now_stop - g.now_start for g in gaps)
    width = max(room // max(min(count, _DIFF_LINES), 1), _LEAST_WIDTH)
    shown: list[str] = []
    for line in islice(_signed(gaps, sought, have, width), _DIFF_LINES):
        room -= len(line) + 2 * sum(char > "\x7f" for char in line)
        if room < 0 and len(shown) > 1:
            break
        shown.append(line)
    if count > len(shown):
        equal = [
            f"{base + 1}~{base + size} at {first + now + 1}~{first + now + size}"
            for base, now, size in alignment.runs
            if first is not None and any(map(str.strip, sought[base : base + size]))
        ]
        also = f"; equal: {', '.join(equal[:_DIFF_LINES])}" * bool(equal)
        shown.append(f"… ({count - len(shown)} more lines differ{also})")
    return tuple(shown)


def _signed(gaps: Iterable[Gap], sought: list[str], have: list[str], width: int) -> Iterator[str]:
    """Yield the lines of a diff, each cut to the part around the first difference.

    Of a pair of lines that look the same the differences are made visible.
    """
    for gap in gaps:
        for at, pair in enumerate(_paired(gap, sought, have)):
            mine, theirs = pair
            if max(map(len, pair)) <= _VISIBLE and fold(mine) == fold(theirs):
                mine, theirs = visible(mine), visible(theirs)
            low, high = _first_difference(mine, theirs)
            if at < gap.base_stop - gap.base_start:
                yield f"- {_cut(mine, low, width)}"
            if at < gap.now_stop - gap.now_start:
                yield f"+ {_cut(theirs, high, width)}"


def _first_difference(mine: str, theirs: str) -> tuple[int, int]:
    """Return where each line first differs from the other; `mine` may be within `theirs`."""
    heads = (mine[:size] for size in _HEADS)
    offset = next((at for head in heads if (at := theirs.find(head)) >= 0), 0)
    low = same_after(mine, theirs, 0, offset)
    return low, offset + low


def _cut(line: str, at: int, width: int) -> str:
    """Cut the line to the part around character `at`, up to `width` characters."""
    if not line.isascii():
        width = max(width // 3, _LEAST_WIDTH)
    start = max(min(at - width // 3, len(line) - width), 0) if at > width // 2 else 0
    shown = line[start : start + width]
    return "…" * (start > 0) + shown + "…" * (start + width < len(line))


@dataclass(frozen=True, slots=True)
class Closest:
    """Up to three lines, 0-based, most similar to a text, nearest first.

    If the text is in the first of them, written another way, `causes` says why it is not found, and
    `corrected` is the text as it is there, if the place is certain.
    """

    lines: tuple[int, ...]
    causes: tuple[Cause, ...] = ()
    corrected: str | None = None


def nearest_lines(source: Source, text: str) -> Closest:
    """Return the lines most similar to `text`, which is in none of them; the first 64 MiB count.

    Letter case is ignored.
    """
    equal: list[tuple[tuple[int, ...], int, Correction]] = []
    similar: list[tuple[float, int, int]] = []
    size = 0
    for first, lines in source.blocks() if text.strip() else ():
        with suppress(EncodingRefused):
            data = NormalizedText.of(lines).data
            if len(equal) < _MOST_EQUAL:
                equal += _equal_lines(data, text, first)
            similar = sorted([*similar, *_similar_lines(data, text, first)])[:_NEAREST_LINES]
        size += lines.size
        if size >= sizes.NEAR:
            break
    near = [line for _, _, line in similar]
    if not equal:
        return Closest(tuple(near))
    equal.sort(key=itemgetter(0, 1))
    rank, _, best = equal[0]
    alike = sorted(line for other, line, _ in equal if other[:_SURE_RANK] == rank[:_SURE_RANK])
    certain = len(alike) == 1 and _is_text(best.text)
    numbers = tuple(dict.fromkeys((*alike, *near)))[:_NEAREST_LINES]
    return Closest(numbers, best.causes, best.text if certain else None)


def _equal_lines(
    data: bytes, text: str, first_line: int
) -> Iterator[tuple[tuple[int, ...], int, Correction]]:
    """Yield the lines that have the text written another way: its rank, the line, and how."""
    (equal,) = corrections(data, [text])
    if equal is not None and "\n" not in equal.text:
        for at in (equal.first, *equal.alike):
            yield equal.rank, first_line + data.count(b"\n", 0, at), equal


def _similar_lines(data: bytes, text: str, first_line: int) -> list[tuple[float, int, int]]:
    """The similar lines, once each: how unlike, how much longer or shorter, the line."""
    coded = text.strip()[:_COMPARED_LINE].encode().lower()
    wanted, lowered = coded.decode(), data.lower()
    found: dict[int, tuple[float, int]] = {}
    for spot in candidates(lowered, [coded], _SPOTS)[0]:
        have = _window(lowered, spot, 1, len(coded))[0].strip()
        if (likeness := _likeness([wanted], [have])) >= _CLOSE:
            rank = (-likeness, abs(len(have) - len(wanted)))
            found[spot.line] = min(rank, found.get(spot.line, rank))
    return [(*rank, first_line + line) for line, rank in found.items()]
