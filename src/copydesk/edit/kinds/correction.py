"""What models get wrong in the texts that they send: an old text is corrected, a new one doubted.

Both texts of an edit are corrected whose old text is in the file, but with other blanks or signs.
This is offered where one cause explains the difference and leaves all words as they are. It is
certain where one indentation of all lines is all of it; any other is planned and looked at. Lines
are sought here by their words (`shifted`), whole ones exactly (`occurrences`), and lines that stand
for others are known (`is_elided`).

Signs that a new text is not what was meant are rows of one table: what shows it, where it does not
count, and its words. A sign that the replaced lines have too is no sign. There is no row without a
count of real cases, and none that declined one of thousands of real commits: a false alarm costs a
call, and trust.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import NamedTuple

from copydesk.edit.kinds.base import Span, content_lines
from copydesk.text.change import ChangeSet
from copydesk.text.diff import Region, align, common_ends, regions
from copydesk.text.nearest import (
    NUMBER,
    explain,
    indentation,
    indented_by,
    real_newlines,
    reindented,
    unnumbered,
)
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot, Text

_BLANKS = frozenset(["indentation", "trailing_blanks"])
_TABS = ("tabs_for_spaces", "spaces_for_tabs")
_ALIKE = ("quotes", "dashes", "no_break_space")  # each stands for one character of the file


MOST = 20
"""The most texts of one request that are corrected."""


class Corrected(NamedTuple):
    """Both texts of an edit as the file has them, why, and whether that is certain."""

    old: str
    new: str
    causes: tuple[str, ...]
    is_certain: bool


def of_lines(
    shown: Sequence[str], old: str, new: str, there: str | None, causes: Sequence[str]
) -> Corrected | None:
    """Correct whole lines, unless the new ones are there already.

    They are all indented by one amount more or less, or are those `there` for these causes, or
    have a line that stands for others.
    """
    lines = content_lines(old)
    shift = shifted(shown, lines, new)
    if shift.there:
        return None
    if shift.new is not None:
        there = "".join(f"{line}\n" for line in shown[shift.places[0] :][: len(lines)])
        causes = explain(old, there)
    corrected = None if there is None else of_text(shown, old, there, new, causes)
    return corrected or of_elided(shown, old, new)


def of_text(
    shown: Sequence[str], old: str, there: str, new: str, causes: Sequence[str]
) -> Corrected | None:
    """Correct a text that is `there` once, for these causes; None if that is not safe."""
    if not is_safe(causes):
        return None
    if "final_newline" in causes and old.endswith("\n"):  # the file ends without one
        old, new = (text.removesuffix("\n").removesuffix("\r") for text in (old, new))
    shift, changed = shifted(shown, content_lines(old), new), renewed(old, there, new, causes)
    if (changed is None or shift.there) or (
        "indentation" in causes and indented_by(old, there) is None  # not by one amount
    ):
        return None
    return Corrected(
        there,
        changed,
        tuple(causes),
        "final_newline" not in causes
        and shift.new is not None
        and is_indented(*map(content_lines, (old, there))),
    )


def of_elided(shown: Sequence[str], old: str, new: str) -> Corrected | None:
    """Correct whole lines with a line that stands for others: all from the first to the last.

    The lines around it are in one place only, one run below the other. A line of the new text that
    stands for others is replaced by them. Planned only.
    """
    lines = content_lines(old)
    marks = [at for at, line in enumerate(lines) if is_elided(line)]
    runs = [lines[a + 1 : b] for a, b in pairwise([-1, *marks, len(lines)])]
    if not marks or not all(any(map(str.strip, run)) for run in runs):
        return None
    spans, end = list[tuple[int, int]](), 0
    for run in runs:
        places = [at for at in occurrences(shown, run) if at >= end]
        if len(places) != 1:
            return None
        end = places[0] + len(run)
        spans.append((places[0], end))
    left_out = [shown[above:below] for (_, above), (below, _) in pairwise(spans)]
    filled: list[str] = []
    for line in content_lines(new):
        filled += left_out.pop(0) if left_out and is_elided(line) else [line]
    there, put = (
        "".join(f"{line}\n" for line in each) for each in (shown[spans[0][0] : end], filled)
    )
    return Corrected(there, put, ("elision",), is_certain=False)


def is_safe(causes: Sequence[str]) -> bool:
    """Whether this is one cause that leaves all words as they are, the ends of lines aside."""
    return (
        bool(causes)
        and len({*causes} - {"trailing_blanks", "final_newline"}) < 2
        and _SAFE.issuperset(causes)
    )


def is_indented(old: Sequence[str], there: Sequence[str]) -> bool:
    """Whether the lines are the same but for what is before each."""
    return [line.lstrip(" \t") for line in old] == [line.lstrip(" \t") for line in there]


def renewed(old: str, there: str, new: str, causes: Sequence[str]) -> str | None:
    """The new text as the file would have it: what made `old` be `there` is done to it, too.

    Lines that it keeps are those of the file, others are indented as theirs are, and keep the
    file's characters next to what changes. None if that is not clear.
    """
    for cause in filter(_SENT.__contains__, causes):
        old, new = (_SENT[cause](text, old, there) for text in (old, new))
    mine, theirs, news = (text.split("\n") for text in (old, there, new))
    if len(mine) != len(theirs):
        return None
    pairs = [(a, b) for a, b in zip(mine, theirs, strict=True) if a.strip()]
    known: dict[str, str] = {}
    if any(cause in _ALIKE for cause in causes):  # odd characters that were sent are sent no more
        odd = {
            ord(a): b
            for pair in pairs
            if len(pair[0]) == len(pair[1])
            for a, b in zip(*pair, strict=True)
            if not a.isascii() and a not in there
        }
        news = [line.translate(odd) for line in news]
    else:
        known = {indentation(a): indentation(b) for a, b in pairs}
    written: list[str | None] = [_indented(line, known) for line in news]
    if _is_placed(news, mine, theirs):  # its lines are the file's, or at least those that it adds
        kept, same = (sum(run[2] for run in align(each, news).runs) for each in (mine, theirs))
        if same > kept:
            return new
        written = [one if one is None else line for one, line in zip(written, news, strict=True)]
    alignment = align(mine, news)
    for gap in alignment.gaps():
        if gap.base_stop - gap.base_start == gap.now_stop - gap.now_start:
            for at, now in zip(range(*gap[:2]), range(*gap[2:]), strict=True):
                written[now] = _alike(mine[at], theirs[at], news[now]) or written[now]
    for start, now, length in alignment.runs:
        written[now : now + length] = theirs[start : start + length]
    return None if None in written else "\n".join(map(str, written))


_ESCAPE = re.compile(r"\\([\"'`\\])|&#?\w+;")
_ENTITIES = {"&lt;", "&gt;", "&amp;", "&quot;", "&apos;", "&#39;"}


def _unescaped(text: str, sent: str, there: str) -> str:
    """The text with the characters for escapes such as were sent.

    A backslash before another one is none if the file has it so. Of a character that a line of the
    new text has without an escape, too, none was sent in that line.
    """
    known = {one[0] for one in _ESCAPE.finditer(sent) if one[1] != "\\" or one[0] not in there}
    if any(one.startswith("&") for one in known):
        known |= _ENTITIES

    def of_line(line: str) -> str:
        bare = "" if text is sent else _ESCAPE.sub("", line)

        def character(escape: re.Match[str]) -> str:
            meant = escape[1] or html.unescape(escape[0])
            return meant if escape[0] in known and meant not in bare else escape[0]

        return _ESCAPE.sub(character, line)

    return "\n".join(map(of_line, text.split("\n")))


def _without_numbers(text: str, sent: str, there: str) -> str:
    """The text without the line numbers that are written as those sent."""
    signs = {mark[1] for mark in map(NUMBER.match, sent.split("\n")) if mark}
    marks = ((line, NUMBER.match(line)) for line in text.split("\n"))
    lines = [(line, mark is not None and mark[1] in signs) for line, mark in marks]
    if all(is_one or not line.strip() for line, is_one in lines):
        return unnumbered(text) or text
    return "\n".join([(is_one and unnumbered(line)) or line for line, is_one in lines])


_SENT: dict[str, Callable[[str, str, str], str]] = {
    "line_numbers": _without_numbers,
    "literal_newline": lambda text, sent, there: real_newlines(text),
    "escaped": _unescaped,
}
"""What was sent with the old text, and so with the new one: how it is taken out of either."""

_SAFE = _BLANKS.union(_TABS, _ALIKE, _SENT, ["final_newline"])


def _indented(line: str, known: dict[str, str]) -> str | None:
    """The line with the file's indentation for its own; None if that is not known."""
    own = indentation(line)
    if not line.strip():
        return line and known.get(line, line)
    leads = {known.get(own, own)} if own in known or not known else {*_shifts(own, known)}
    if len(leads) != 1 or None in leads:
        return None
    return f"{leads.pop()}{line[len(own) :]}"


def _shifts(own: str, known: dict[str, str]) -> Iterator[str | None]:
    """Yield what each known indentation makes of another one: more or less, or of other blanks."""
    for mine, theirs in known.items():
        if theirs.endswith(mine):
            yield theirs[: len(theirs) - len(mine)] + own
        elif mine.endswith(theirs):
            less = mine[: len(mine) - len(theirs)]
            yield own.removeprefix(less) if own.startswith(less) else None
        else:
            width, rest = divmod(len(own) * len(theirs), len(mine))
            yield None if rest or {*own} != {*mine} else theirs[0] * width


def _alike(mine: str, theirs: str, new: str) -> str | None:
    """A changed line with the characters of the file at both ends, where these look alike."""
    if len(mine) != len(theirs) or indentation(mine) != indentation(theirs):
        return None
    head, tail = common_ends(mine, new)
    return theirs[:head] + new[head : len(new) - tail] + theirs[len(theirs) - tail :]


_COMMENT = re.compile(
    r"\s*(?:#+|//+|/\*+|<!--|--+|;+|%+|\{/\*|\*|\"+|'+|REM\b)?[ \t]*[(\[]?(.*?)[)\]]?\s*"
    r"(?:\*+/\}?|-->|\"+|'+)?\s*"
)
_DOTS = r"(?:\.\.\.+|\u2026+)"
_WHAT = (
    r"(?:code|file|function|functions|class|classes|method|methods|implementation|logic|content"
    r"|contents|body|script|module|component|document|text|section|imports|lines|tests|styles"
    r"|fields|definitions|handlers|routes|cases|items|entries|page|markup|template)"
)
_STAYS = (
    r"(?:(?:is|are|be|as|stays?|remains?|kept|left|goes|the|exactly|completely|mostly)\s+)*"
    r"(?:unchanged|same|identical|here|before|is|untouched|omitted(?: for brevity)?)"
)
_ELIDED = re.compile(
    rf"{_DOTS}"
    rf"|{_DOTS}\s*\(?(?:(?:the|all|keep|your|and|other)\s+)*"
    rf"(?:rest|remaining|remainder|existing|other|previous|unchanged|same|omitted|original)\b.*"
    rf"|(?:(?:keep|the|all|your)\s+)*(?:existing|previous|original|other|remaining|unchanged)\s+"
    rf"(?:\w+\s+){{0,2}}{_WHAT}(?:\s+{_STAYS})?\s*{_DOTS}?"
    rf"|(?:the\s+)?(?:rest|remainder)\s+of\s+(?:(?:the|your|this)\s+)?(?:\w+\s+){{0,3}}{_WHAT}"
    rf"(?:\s+{_STAYS})?\s*{_DOTS}?"
    rf"|(?:the\s+)?(?:rest|remainder)\s+{_STAYS}\s*{_DOTS}?"
    rf"|(?:{_DOTS}\s*)?(?:lines?\s+\d+\s*(?:-|to)\s*\d+\s+(?:unchanged|omitted)"
    rf"|(?:unchanged|omitted) for brevity)\s*{_DOTS}?"
    rf"|(?:{_DOTS}\s*)?\(?(?:\u4fdd\u7559|\u7701\u7565)?(?:\u5176[\u4f59\u9918\u4ed6\u5b83]"
    r"|\u5269[\u4f59\u9918]|\u4f59\u4e0b|\u539f\u6709|[\u73b0\u73fe]\u6709|\u5df2\u6709"
    r"|\u4e4b\u524d|\u6b64[\u5904\u8655]|\u4ee5\u4e0b)\S{0,8}?"
    r"(?:\u4ee3[\u7801\u78bc]|\u7a0b\u5f0f\u78bc|[\u5185\u5167]\u5bb9|\u90e8\u5206"
    r"|[\u903b\u908f][\u8f91\u8f2f]|\u65b9\u6cd5|\u51fd[\u6570\u6578]|\u4e0d[\u53d8\u8b8a]"
    rf"|\u7701\u7565)\S{{0,8}}\)?\s*{_DOTS}?"
    rf"|(?:{_DOTS}\s*)?\(?(?:\u4ee3[\u7801\u78bc]|\u7a0b\u5f0f\u78bc|[\u5185\u5167]\u5bb9)?"
    rf"(?:\u7701\u7565|\u4fdd\u6301\u4e0d[\u53d8\u8b8a])\)?\s*{_DOTS}?",
    re.IGNORECASE,
)
_SPREAD = re.compile(rf"{_DOTS}[\w.]+[,;]?")
_SURELY = re.compile(
    rf"{_DOTS}.*\w|\w.*{_DOTS}|\w\W+(?:unchanged|omitted)|\w{{4,}}\u4e0d[\u53d8\u8b8a]",
    re.IGNORECASE,
)
"""Of a line that stands for others: that it does, whatever goes for it."""


def is_elided(line: str) -> bool:
    """Whether a line, or the comment that it is, stands for lines that are left out."""
    plain = None if len(line) > 200 else _COMMENT.fullmatch(line)
    if plain is None or not _ELIDED.fullmatch(plain[1].strip("-=~ ")):
        return False
    # words count in a comment only, dots anywhere, but before a name alone, which they spread
    return line.strip() != plain[1] or bool(
        re.match(_DOTS, plain[1]) and not _SPREAD.fullmatch(plain[1])
    )


def occurrences(texts: Sequence[Hashable], wanted: Sequence[Hashable]) -> list[int]:
    """Return every place of the wanted lines, at least one, with overlaps, in linear time (KMP)."""
    joined = [*wanted, object(), *texts]  # what is between them equals nothing
    borders = [0]  # how many lines up to here are the first ones of all
    for line in joined[1:]:
        length = borders[-1]
        while length and joined[length] != line:
            length = borders[length - 1]
        borders.append(length + (joined[length] == line))
    return [at - 2 * len(wanted) for at, length in enumerate(borders) if length == len(wanted)]


def lines_shown(base: Snapshot) -> list[str]:
    """The lines of a text, with the empty one after the last line end."""
    count = base.line_count
    return [*base.texts(0, count), *[""] * (base.ends_with_newline or not count)]


class Shift(NamedTuple):
    """Where lines stand whatever blanks are around each, and the new text indented as they are.

    `new` is None unless they are in one place, all indented by one amount more or less, and no new
    line lacks what is to be taken off. `there`: the lines, from 1, where the new ones start if they
    are there already.
    """

    places: list[int]
    there: tuple[int, ...]
    new: str | None


def shifted(shown: Sequence[str], old: Sequence[str], new: str, *, end: bool = False) -> Shift:
    """Seek old lines in those of a file by their words; `end`: a line has to follow them."""
    places = [at for at in _bare(shown, old) if at + len(old) + end <= len(shown)]
    is_one = len(places) == 1
    lines = range(places[0], places[0] + len(old)) if is_one else range(0)
    standing = () if len(places) > 1 else _standing(shown, content_lines(new), lines)
    there = tuple(at + 1 for at in standing)
    own = shown[lines.start : lines.stop]
    is_clear = is_one and not there and not _is_placed(content_lines(new), old, own)
    return Shift(places, there, reindented(new, old, own) if is_clear else None)


def _is_placed(new: Sequence[str], old: Sequence[str], there: Sequence[str]) -> bool:
    """Whether new lines are indented as those in the file already, and not as the old ones sent."""
    has, sent, wanted = (
        min((indentation(line) for line in lines if line.strip()), key=len, default="")
        for lines in (new, old, there)
    )
    return has == wanted != sent


def are_added_there(new: Sequence[str], old: Sequence[str], there: Sequence[str]) -> bool:
    """Whether added lines are indented as those beside them in the file, not as the old ones."""
    return any(
        _first(new[at:end]) in _beside(there, start, stop) - _beside(old, start, stop)
        for start, stop, at, end in align(old, new).gaps()
    )


def _beside(lines: Sequence[str], start: int, stop: int) -> set[str | None]:
    """The indentation of the first of the lines, or if they are none, of those around the place."""
    return {
        _first(each)
        for each in ([lines[start:stop]] if start < stop else [lines[:start][::-1], lines[start:]])
    } - {None}


def _first(lines: Sequence[str]) -> str | None:
    """The indentation of the first line that is not blank."""
    return next((indentation(line) for line in lines if line.strip()), None)


def _standing(shown: Sequence[str], new: Sequence[str], old: range) -> Iterator[int]:
    """Yield where the new lines are already: around the lines `old`, or anywhere if there are none.

    Around them they may be indented by one amount more or less. Else they are exact and more than
    one.
    """
    size, exact = len(new), set(occurrences(shown, new) if any(new) else ())
    for at in _bare(shown, new):
        is_around = bool(old) and at <= old.start and old.stop <= at + size
        is_wider = is_around and size > len(old)
        is_equal = at in exact and (is_around or (not old and size > 1))
        if is_equal or (is_wider and reindented("", new, shown[at : at + size]) is not None):
            yield at


def _bare(lines: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Every place of the wanted lines, if there are any, whatever blanks are around each."""
    bare = ([line.strip(" \t") for line in each] for each in (lines, wanted))
    return occurrences(*bare) if wanted else []


_NUMBERED = re.compile(r"[ \t]*([0-9]{1,7})(?:([|\u2192])|(\t|:(?= |$)))")
"""A line as readings show it: `12| `, `12->`, `12<tab>` or `12: `; the last two are common data."""

_TABLES = ("tsv", "tab", "txt", "dat", "csv", "")

_MARKER = re.compile(
    r"(?:<{7}|>{7})(?:\s|$)|<{5,9} SEARCH\b|>{5,9} REPLACE\b|-{5,9} SEARCH\b|\+{5,9} REPLACE\b"
    r"|\*\*\* (?:Begin|End) Patch\s*$|\*\*\* (?:Add|Update|Delete) File: "
    r"|\s*:(?:start|end)_line:\[?\d"
)
_FENCE = re.compile(r"(```+|~~~+)[ \t]*[\w.+#-]*[ \t]*")
MARKDOWN = ("md", "markdown", "mdown", "mkd", "mdx", "rmd", "qmd", "rst", "adoc", "txt", "mdc", "")

_LOST = 2
"""So many more lines go than come where a line stands for others."""

_BODY = (":", '"""', "'''")  # after these, three dots are the body of a Python stub
_ANY_SIGN = re.compile(
    rb"```|~~~|\.\.\.|\xe2\x80\xa6|<<<<<|>>>>>|----- SEARCH|\+\+\+\+\+ REPLACE|\*\*\* "
    rb"|_line:|^[ \t]*[0-9]+(?:[|\t:]|\xe2\x86\x92)|existing|previous|original|other|remain"
    rb"|rest of|the rest|unchanged"
    rb"|omitted|[\xe4-\xe9][\x80-\xbf]{2}",
    re.MULTILINE | re.IGNORECASE,
)
"""What any sign needs, in UTF-8, with all ideographs: most new texts have none of it."""


@dataclass(frozen=True, slots=True)
class _Passage:
    """Lines that go and those that come for them; `around` are the next that stay, if known.

    `first` is the number of the first of them.
    """

    suffix: str
    base: Text
    first: int
    old: Sequence[str]
    new: Sequence[str]
    around: tuple[str, str]

    def is_new(self, shape: Callable[[str], object]) -> bool:
        """Whether neither the replaced lines nor those beside them have such a line."""
        return not any(map(shape, (*self.old, *self.around)))


def _numbers(passages: Sequence[_Passage]) -> Iterator[str]:
    for one in passages:
        lines = [line for line in one.new if line.strip()]
        shown = [(line, mark) for line in lines if (mark := _NUMBERED.match(line))]
        first = int(shown[0][1][1]) if shown else 0
        is_run = [int(mark[1]) for _, mark in shown] == [*range(first, first + len(shown))]
        is_ours = all(mark[2] for _, mark in shown)
        is_all = is_ours and len(shown) == len(lines)
        is_copied = (  # a new file with the first lines of a reading
            len(one.new) > 1
            and all(line.startswith(f"{n}\t") for n, line in enumerate(one.new[:3], 1))
            and not (one.base.line_count or one.suffix in _TABLES)
        )
        # keys and tables are added, not put for lines
        is_data = not is_ours and (not one.old or len(shown) < len(lines))
        is_counted = len(shown) > 1 or (first == one.first and bool(_NUMBERED.match(one.new[0])))
        has_text = any(line[mark.end() :].strip() for line, mark in shown)
        is_known = is_run and not is_data and (is_all or is_counted) and has_text
        if (is_known or is_copied) and one.is_new(_NUMBERED.match):
            yield from (line for line, _ in shown)


def _placeholders(passages: Sequence[_Passage]) -> Iterator[str]:
    for one in passages:
        is_lost = len(one.old) - len(one.new) >= _LOST
        above = one.around[0]
        for line in () if any(map(is_elided, one.old)) else one.new:
            is_body = one.suffix in ("py", "pyi") and above.rstrip().endswith(_BODY)
            is_end = one.suffix in ("yaml", "yml")  # of a document
            is_bare = line.strip() in ("...", "\u2026")
            is_meant = is_bare and (is_body or is_end)
            if is_elided(line) and (is_lost or _SURELY.search(line)) and not is_meant:
                yield line
            above = line if line.strip() else above


def _markers(passages: Sequence[_Passage]) -> Iterator[str]:
    for one in passages:
        line = next(filter(_MARKER.match, one.new), None)
        is_patch = one.suffix in ("patch", "diff", "rej", "orig")
        if line is not None and not is_patch and one.is_new(_MARKER.match):
            marker = line.split()[0].encode()
            if not (isinstance(one.base, Snapshot) and marker in one.base.data):
                yield line


def _fences(passages: Sequence[_Passage]) -> Iterator[str]:
    """The fence around all that is new, or around each part; lines that stay may be between."""
    lines = [line for one in passages for line in one.new if line.strip()]
    shape = "".join("`" if _FENCE.fullmatch(line) else "." for line in lines)
    is_around = re.fullmatch(r"(?:`\.*`)+", shape) and passages[0].suffix not in MARKDOWN
    if is_around and all(one.is_new(_FENCE.fullmatch) for one in passages):
        yield lines[0]


@dataclass(frozen=True, slots=True)
class Sign:
    """A sign of the table: `seen` yields lines that show it; `{}` in its words is the first."""

    name: str
    seen: Callable[[Sequence[_Passage]], Iterator[str]]
    words: str


SIGNS = (
    Sign("line_numbers", _numbers, "the new text has line numbers, as readings show them: {}"),
    Sign(
        "placeholder",
        _placeholders,
        "the new text has a placeholder where lines would be removed: {}",
    ),
    Sign("markers", _markers, "the new text has a marker of a block or a conflict: {}"),
    Sign("fence", _fences, "a code fence is around all of the new text: {}"),
)
REPEATED = Sign(
    "repeated_line",
    lambda passages: iter(()),  # no passage shows it
    "the new text repeats a line that stays beside it: {}",
)
"""Of edits by numbers, which are off by one then."""

SIGN_NAMES = tuple(one.name for one in (*SIGNS, REPEATED))
_MOST_SHOWN = 60


def suffix_of(path: RelPath) -> str:
    """What is after the last dot of the name, in lower case; empty without one."""
    return path.name.rpartition(".")[2].lower() if "." in path.name else ""


def signs_of(
    path: RelPath, base: Text, change: ChangeSet, usual: Sequence[str] = ()
) -> tuple[str, ...]:
    """Why the change may not be meant, in words, by the table; `usual` signs do not count."""
    is_wide = base.encoding.unit > 1  # it is looked at whole, for its bytes say nothing
    if not (is_wide or [edit for edit in change.edits if _ANY_SIGN.search(edit.new)]):
        return ()
    suffix = suffix_of(path)
    base = base.unmarked()  # as the regions count its lines
    passages = list(_passages(suffix, base, regions(base, change)))
    return tuple(
        row.words.format(line.strip()[:_MOST_SHOWN])
        for row in SIGNS
        if row.name not in usual and passages
        for line in islice(row.seen(passages), 1)
    )


def repeated_lines(
    base: Text, edits: Sequence[tuple[Span, str]], usual: Sequence[str] = ()
) -> tuple[str, ...]:
    """The same for lines [start, stop) that are named by numbers alone: is a neighbour repeated?

    It is none if the replaced lines begin, or end, with that line as well.
    """
    for (start, stop), content in edits if REPEATED.name not in usual else ():
        new = content.split("\n")[: -1 if content.endswith("\n") else None]
        low, high = base.reach(start)[0], base.reach(stop)[1]
        for at, above in ((0, start - 1), (-1, stop - 1)) if new and start < stop else ():
            line = new[at].removesuffix("\r")
            pair = base.texts(above, above + 2) if low <= above < high - 1 else ("", "")
            beside, own = pair if at == 0 else pair[::-1]
            if line.strip() and line == beside != own:
                return (REPEATED.words.format(line.strip()[:_MOST_SHOWN]),)
    return ()


def _passages(suffix: str, base: Text, altered: Sequence[Region]) -> Iterator[_Passage]:
    """Yield the regions, those as one that only blank lines keep apart."""
    runs: list[list[Region]] = []
    for region in altered:
        stop = runs[-1][-1].stop if runs else 0
        is_loaded = runs and region.start <= base.reach(stop)[1]
        if is_loaded and not any(line.strip() for line in base.texts(stop, region.start)):
            runs[-1].append(region)
        else:
            runs.append([region])
    for run in runs:
        start, stop = run[0].start, run[-1].stop
        low, high = base.reach(start)[0], base.reach(stop)[1]
        above = base.text(start - 1) if start > low else ""
        below = base.text(stop) if stop < high else ""
        old = [line for region in run for line in base.texts(region.start, region.stop)]
        new = [base.encoding.text(line).rstrip("\r\n") for region in run for line in region.new]
        yield _Passage(suffix, base, start + 1, old, new, (above, below))
