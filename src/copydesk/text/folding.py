"""Approximate search: texts equal but for how they are written; where they are and what differs.

It folds white space, letter case, look-alike characters, Unicode normalization, escapes and line
numbers. Laws: a correction is the exact text of the file; the work is bounded by the sizes of both
texts, never by their product.
"""

from __future__ import annotations

import html
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal

from copydesk.text import sizes
from copydesk.text.search import FEW, occurrences

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
_AGAIN = re.compile(f"[ '`{_ODD.pattern[1:]}")
_ASCII_FOLD = bytes(ord(chr(i).lower()) if chr(i) not in "'`" else 34 for i in range(128)) + bytes(
    range(128, 256)
)
_SHOWN_AS_CODE = frozenset(_SPACES + _INVISIBLE + _SINGLE + _DOUBLE + _DASHES + _BREAKS)

_NEWLINE_ESCAPES = re.compile(r"\\[nrt]")
_ESCAPES = re.compile(r"\\([nrt]|u[0-9A-Fa-f]{4}|[!-/:-@\[-`{-~])")
_ENTITY = re.compile(r"&#?\w+;")
_NUMBER = re.compile(r"[ \t]*[0-9]{1,7}(?:[ \t]*[|\u2502\u2192]|\t|[:-](?![0-9]))")
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

    Bytes [start, stop) are `text`; of these, [first, last) are without white space at the ends.
    `alike` are the bytes where other passages start that may be meant as well; if there are any,
    none is certain. Of two corrections the one with the lower `rank` is meant, if their `sure`
    differs.
    """

    start: int
    stop: int
    first: int
    last: int
    text: str
    causes: tuple[Cause, ...]
    alike: tuple[int, ...] = ()
    rank: tuple[int, ...] = ()

    @property
    def sure(self) -> tuple[int, ...]:
        """The part of the rank that must be lower for a correction to be certain."""
        return self.rank[: 1 + _SURE]


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
            at: text for at, text in asked.items() if _has_words(data, _unnumbered(text) or text)
        }
    if not asked:
        return found
    most = max(_HITS * FEW // len(asked), FEW)
    plain = _Folded(data, fold)
    _take(found, plain, {at: [_Needle(text, text)] for at, text in asked.items()}, most)
    left = {at: text for at, text in asked.items() if found[at] is None}
    others = {at: list(islice(_needles(text), 1, None)) for at, text in left.items()}
    _take(found, plain, others, most)
    if b"\\" in data and left:
        own = {at: [_Needle(text, text)] for at, text in left.items()}
        _take(found, _Folded(data, _fold_escapes), own, most)
    return found


def _take(
    found: list[Correction | None],
    plain: _Folded,
    needles: Mapping[int, Sequence[_Needle]],
    most: int,
) -> None:
    """Store the best correction found by each text's needles, if it beats the one stored before."""
    coded = {at: [plain.coded(one.text) for one in own] for at, own in needles.items()}
    places = iter(occurrences(plain.folded, [each for own in coded.values() for each in own]))
    for at, own in needles.items():
        for needle, key in zip(own, coded[at], strict=True):
            spots = [plain.span(start, len(key)) for start in next(places).starts[:most]]
            made, best = plain.best(needle, spots), found[at]
            if made and (best is None or len(made.causes) < len(best.causes)):
                found[at] = made


_WORD = re.compile(r"[^\W_]{2,}")
_WORDS = 40


def _has_words(data: bytes, text: str) -> bool:
    """Whether the file contains the text's words (plain ones only), so that folding pays off."""
    lowered, text = b"", _ENTITY.sub(" ", text)
    for found in islice(_WORD.finditer(text), _WORDS):
        word, around = found[0], text[max(found.start() - 1, 0) : found.end() + 1]
        if "\\" in around or unicodedata.combining(around[-1]):
            continue
        if unicodedata.normalize("NFKD", word) != word or (
            not word.isascii() and word != word.lower()
        ):
            continue
        if word.encode() not in data:
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
    bare = _unnumbered(text)
    for own, numbered in ((text, False), (bare, True)):
        if own is None:
            continue
        for made in (
            own,
            _resolved(own),
            html.unescape(own) if "&" in own else own,
            html.escape(own, quote=False),
            html.escape(own),
        ):
            if made not in seen:
                seen.add(made)
                yield _Needle(own, made, numbered)


def _unnumbered(text: str) -> str | None:
    """Remove line numbers that were copied along; None unless every non-blank line has one."""
    lines = text.split("\n")
    ends = [_NUMBER.match(line) for line in lines]
    if not all(end or not line.strip() for end, line in zip(ends, lines, strict=True)):
        return None
    if not any(ends):
        return None
    rest = [line[end.end() :] if end else line for end, line in zip(ends, lines, strict=True)]
    if all(line.startswith(" ") for line in rest if line.strip()) and "\t" not in {
        end[0][-1] for end in ends if end
    }:
        rest = [line.removeprefix(" ") for line in rest]
    return "\n".join(rest)


def _resolved(text: str) -> str:
    """Replace the escapes in the text by the characters they stand for."""
    if "\\" not in text:
        return text
    special = {"n": "\n", "t": "\t", "r": ""}

    def one(found: re.Match[str]) -> str:
        name = found[1]
        if name[0] == "u" and len(name) > 1:
            return chr(int(name[1:], 16))
        return special.get(name, name)

    return _ESCAPES.sub(one, text)


def _fold_escapes(text: str) -> str:
    """Do `fold`, treating escaped white space as white space and removing backslashes."""
    if "\\" in text:
        text = _NEWLINE_ESCAPES.sub("", text).replace("\\", "")
    return fold(text)


class _Folded:
    """A text folded block by block, so that each match can be mapped back to the text itself."""

    def __init__(self, data: bytes, folded: Callable[[str], str]) -> None:
        self.data, self._fold = data, folded
        self._starts, self._at = [0], [0]
        parts: list[bytes] = []
        size = _BLOCKS[data.isascii()]
        while self._starts[-1] < len(data):
            start = self._starts[-1]
            stop = _end_of_block(data, start + size)
            parts.append(_coded(folded(_text(data[start:stop]))))
            self._starts.append(stop)
            self._at.append(self._at[-1] + len(parts[-1]))
        self.folded = b"".join(parts)

    def coded(self, text: str) -> bytes:
        """Return the folded bytes to search for."""
        return _coded(self._fold(text))

    def span(self, at: int, length: int) -> tuple[int, int]:
        """Map `length` folded bytes at `at` to the bytes [start, stop) of their characters."""
        return self._byte(at)[0], self._byte(at + length - 1)[1]

    def best(self, needle: _Needle, spots: Iterable[tuple[int, int]]) -> Correction | None:
        """Return the best of a needle's matches."""
        return _best(self.data, needle, spots, escapes=self._fold is _fold_escapes)

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
    for end in range(at, min(at + 64, len(data))):
        if data[end] & 0xC0 != 0x80 and data[end - 1] != 0x5C:
            return end
    return min(at + 64, len(data))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _coded(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _best(
    data: bytes, needle: _Needle, spots: Iterable[tuple[int, int]], *, escapes: bool
) -> Correction | None:
    """Return the needle's match that differs least, with the others that may be meant as well."""
    grown = (_grown(data, needle.text, *spot, escapes=escapes) for spot in spots)
    found = [(_distance(needle.text, here.text), here) for here in grown if here is not None]
    if not found:
        return None
    found.sort(key=lambda one: (one[0], one[1].start))
    rank, best = found[0]
    causes = explain(needle.sought, best.text)
    if needle.numbered:
        causes = ("line_numbers", *causes)
    alike = tuple(sorted(one.first for key, one in found[1:] if key[:_SURE] == rank[:_SURE]))
    own_rank = (needle.sought != needle.text or needle.numbered or escapes, *rank)
    return replace(best, causes=causes, alike=alike, rank=own_rank)


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
    if before and _is_word(before[-1]) and _is_word(body[0]):
        return None
    if after and _is_word(after[0]) and _is_word(body[-1]):
        return None
    lead, trail = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    above, below = (
        before[len(before.rstrip(_WHITE)) :],
        after[: len(after) - len(after.lstrip(_WHITE))],
    )
    at_start, at_end = len(above) == first, last + len(_coded(below)) == len(data)
    head = _lead(lead, above, at_start=at_start)
    tail = _trail(trail, below, at_end=at_end)
    if head is None or tail is None:
        return None
    start, stop = first - len(_coded(head)), last + len(_coded(tail))
    have = _text(data[start:stop])
    if not lead and (own_blanks := above[above.rfind("\n") + 1 :]) and (at_start or "\n" in above):
        shifts = _shifts(text.split("\n")[1:], have.split("\n")[1:])
        if shifts == {len(own_blanks.expandtabs(8))}:  # every line is indented less, the first too
            have, start = own_blanks + have, start - len(_coded(own_blanks))
    return Correction(start, stop, first, last, have, ())


def _is_word(character: str) -> bool:
    return character == "_" or character.isalnum()


_WHITE = _BLANKS + _SPACES + _INVISIBLE + _BREAKS


def _lead(lead: str, above: str, *, at_start: bool) -> str | None:
    """The white space before a match that corresponds to `lead`; None if none does."""
    if not lead:
        return ""
    breaks = lead.count("\n")
    if not breaks:
        own = above[above.rfind("\n") + 1 :]
        within = not at_start and "\n" not in above
        return None if within and len(lead) >= _INDENTATION else own
    there = above.count("\n")
    if not there:
        return above if at_start else None
    parts = above.split("\n")
    return "\n" + "\n".join(parts[-min(breaks, there) :])


def _trail(trail: str, below: str, *, at_end: bool) -> str | None:
    if not trail:
        return ""
    breaks = trail.count("\n")
    parts = below.split("\n")
    if not breaks:
        return parts[0]
    if len(parts) == 1:
        return below if at_end else None
    kept = min(breaks, len(parts) - 1)
    own = parts[kept] if trail[-1] != "\n" else ""
    return "\n".join(parts[:kept]) + "\n" + own


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


_SURE = 4
"""How many leading elements of a distance decide whether one match is certain."""


def _distance(mine: str, theirs: str) -> tuple[int, ...]:
    """How far a text is from what is there: visible differences, line breaks, indentation."""
    if mine == theirs:
        return (0,) * 7
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
    tabbed = "\t" in mine or "\t" in theirs
    found = [
        _fewest(mine, theirs, tab, escapes=folded[0] != folded[1])
        for tab in (_WIDTHS if tabbed else _WIDTHS[:1])
    ]
    told = [one for one in found if one is not None]
    best = min(told, key=lambda one: ("indentation" in one, len(one)), default=None)
    if best is None and _fold_escapes(mine) == _fold_escapes(theirs):
        best = ("escapes",)
    return () if best is None else tuple(_directed(name, mine, theirs) for name in best)


def _differing(mine: str, theirs: str) -> tuple[str, str]:
    """The first differing lines of two long texts; the starts if the line counts differ."""
    own, have = mine.split("\n"), theirs.split("\n")
    if len(own) != len(have):
        return mine[:_COMPARED], theirs[:_COMPARED]
    pairs, room = list[tuple[str, str]](), _COMPARED
    for one, other in zip(own, have, strict=True):
        if one != other:
            room -= max(len(one), len(other))
            if room < 0:
                break
            pairs.append((one, other))
    return "\n".join(one for one, _ in pairs), "\n".join(other for _, other in pairs)


def _fewest(mine: str, theirs: str, tab: int, *, escapes: bool) -> tuple[str, ...] | None:
    """Return the fewest steps that make both texts equal; None if all steps together do not."""
    steps = _steps(tab)[0 if escapes else _OF_ESCAPES :]
    names = [name for name, _ in steps]
    if not _same(mine, theirs, steps, set(names)):
        return None
    kept = set(names)
    for name in _GENERAL_FIRST:
        if _same(mine, theirs, steps, kept - {name}):
            kept.discard(name)
    return tuple(name for name in names if name in kept)


_OF_ESCAPES = 2
"""The first steps, this many, are about escapes; they are tried only if needed."""

Step = tuple[str, Callable[[str], str]]


def _same(mine: str, theirs: str, steps: Sequence[Step], names: set[str]) -> bool:
    for name, step in steps:
        if name in names:
            mine, theirs = step(mine), step(theirs)
    return mine == theirs


def _lines(step: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: "\n".join(map(step, text.split("\n")))


def _steps(tab: int) -> tuple[Step, ...]:
    """The normalization steps, each with the name of its cause."""

    def tabs(line: str) -> str:
        blanks = indentation(line)
        return blanks.expandtabs(tab) + line[len(blanks) :]

    return (
        ("newlines", _breaks),
        ("escapes", _resolved),
        ("normalization", lambda text: unicodedata.normalize("NFC", text)),
        ("invisible", lambda text: text.translate(_TO_NOTHING)),
        ("no_break_space", lambda text: text.translate(_TO_SPACE)),
        ("quotes", lambda text: text.translate(_TO_QUOTE)),
        ("quote_style", lambda text: text.replace("'", '"').replace("`", '"')),
        ("dashes", lambda text: text.translate(_TO_DASH)),
        ("look_alikes", lambda text: unicodedata.normalize("NFKD", text)),
        ("case", str.lower),
        ("carriage_return", lambda text: text.replace("\r", "")),
        ("trailing_blanks", _lines(lambda line: line.rstrip(" \t"))),
        ("tabs", _lines(tabs)),
        ("indentation", _lines(lambda line: line.lstrip(" \t"))),
        ("spacing", lambda text: _INNER.sub("", text)),
        ("blank_lines", lambda text: _EMPTY.sub("\n", text)),
        ("final_newline", lambda text: text.rstrip("\n")),
        ("line_breaks", lambda text: text.translate(_NO_WHITE)),
        ("any", fold),
    )


def _breaks(text: str) -> str:
    """Replace escaped line breaks and tabs by the characters themselves."""
    return text.replace("\\r", "").replace("\\n", "\n").replace("\\t", "\t")


_INNER = re.compile(r"(?<=[^ \t\n])[ \t]+(?=[^ \t\n])")
_EMPTY = re.compile(r"\n(?:[ \t]*\n)+")
_GENERAL_FIRST = (
    *("any", "line_breaks", "final_newline", "blank_lines", "spacing", "look_alikes"),
    *("indentation", "tabs", "quote_style", "case", "escapes", "newlines"),
    *("trailing_blanks", "carriage_return", "no_break_space", "invisible"),
    *("quotes", "dashes", "normalization"),
)


def _directed(name: str, mine: str, theirs: str) -> Cause:
    """Return the full name of the cause, by which of the two texts has the tabs or the escapes."""
    if name == "tabs":
        return "tabs_for_spaces" if _tabs(mine) > _tabs(theirs) else "spaces_for_tabs"
    if name == "newlines":
        more = len(_NEWLINE_ESCAPES.findall(mine)) > len(_NEWLINE_ESCAPES.findall(theirs))
        return "literal_newline" if more else "newline_for_escape"
    if name == "escapes":
        return "escaped" if mine.count("\\") > theirs.count("\\") else "unescaped"
    return "look_alikes" if name == "any" else name  # type: ignore[return-value]  # of the table


def _tabs(text: str) -> int:
    return sum(indentation(line).count("\t") for line in text.split("\n"))


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
    if shown.isascii():
        return shown
    return "".join(
        f"<U+{ord(one):04X}>" if one in _SHOWN_AS_CODE or unicodedata.combining(one) else one
        for one in shown
    )
