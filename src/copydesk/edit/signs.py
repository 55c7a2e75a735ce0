"""Signs that a new text is not what was meant: what models copy by mistake, or leave out.

Each sign is a row of one table: what shows it, where it does not count, and its words. A sign that
the replaced lines have too is no sign. There is no row without a count of real cases, and none that
declined one of thousands of real commits: a false alarm costs a call, and trust.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from copydesk.edit.kinds.correction import is_elided
from copydesk.text.change import ChangeSet
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot, Text
from copydesk.text.unified import Region, regions

Span = tuple[int, int]
_NUMBERED = re.compile(r"[ \t]*([0-9]{1,7})(?:([|\u2192])|(\t|:(?= |$)))")
"""A line as readings show it: `12| `, `12->`, `12<tab>` or `12: `; the last two are common data."""

_MARKER = re.compile(
    r"(?:<{7}|>{7})(?:\s|$)|<{5,9} SEARCH\b|>{5,9} REPLACE\b|-{5,9} SEARCH\b|\+{5,9} REPLACE\b"
    r"|\*\*\* (?:Begin|End) Patch\s*$|\*\*\* (?:Add|Update|Delete) File: "
)
_FENCE = re.compile(r"(```+|~~~+)[ \t]*[\w.+#-]*[ \t]*")
_MARKDOWN = ("md", "markdown", "mdown", "mkd", "mdx", "rmd", "qmd", "rst", "adoc", "txt", "mdc", "")

_LOST = 2
"""So many more lines go than come where a line stands for others."""

_BODY = (":", '"""', "'''")  # after these, three dots are the body of a Python stub
_MAY = re.compile(
    rb"```|~~~|\.\.\.|\xe2\x80\xa6|<<<<<|>>>>>|----- SEARCH|\+\+\+\+\+ REPLACE|\*\*\* "
    rb"|^[ \t]*[0-9]+(?:[|\t:]|\xe2\x86\x92)|existing|previous|original|other|remain"
    rb"|rest of|the rest"
    rb"|\xe4\xbd\x99|\xe5\x89\xa9|\xe5\x85\xb6\xe4\xbb\x96|\xe7\x9c\x81\xe7\x95\xa5"
    rb"|\xe4\xb8\x8d\xe5\x8f\x98|\xe5\x8e\x9f\xe6\x9c\x89|\xe7\x8e\xb0\xe6\x9c\x89"
    rb"|\xe5\xb7\xb2\xe6\x9c\x89|\xe4\xb9\x8b\xe5\x89\x8d|\xe6\xad\xa4\xe5\xa4\x84",
    re.MULTILINE | re.IGNORECASE,
)
"""What any sign needs, in UTF-8: most new texts have none of it, and are not looked at again."""


@dataclass(frozen=True, slots=True)
class _Passage:
    """Lines that go and those that come for them; `around` are the next that stay, if known."""

    suffix: str
    base: Text
    old: Sequence[str]
    new: Sequence[str]
    around: tuple[str, str]

    def is_new(self, shape: Callable[[str], object]) -> bool:
        """Whether neither the replaced lines nor those beside them have such a line."""
        return not any(map(shape, (*self.old, *self.around)))

    def has(self, text: bytes) -> bool:
        """Whether the whole file has the bytes already; False of one that is not loaded."""
        return isinstance(self.base, Snapshot) and text in self.base.data


def _numbers(found: Sequence[_Passage]) -> str | None:
    for one in found:
        lines = [line for line in one.new if line.strip()]
        shown = [(line, mark) for line in lines if (mark := _NUMBERED.match(line))]
        numbers = [int(mark[1]) for _, mark in shown]
        is_ours = all(mark[2] for _, mark in shown)
        is_all = len(shown) == len(lines) and (is_ours or len(shown) > 1)
        if not shown or not (is_all or (is_ours and len(shown) > 1)):
            continue
        is_data = not is_ours and not one.old  # keys and tables are added, not put for lines
        is_run = numbers == [*range(numbers[0], numbers[0] + len(numbers))]
        if is_run and not is_data and one.is_new(_NUMBERED.match):
            return shown[0][0]
    return None


def _placeholders(found: Sequence[_Passage]) -> str | None:
    for one in found:
        is_lost = len(one.old) - len(one.new) >= _LOST
        if not is_lost or any(map(is_elided, one.old)):
            continue
        above = one.around[0]
        for line in one.new:
            is_body = one.suffix in ("py", "pyi") and above.rstrip().endswith(_BODY)
            is_bare = line.strip() in ("...", "\u2026")
            is_end = is_bare and one.suffix in ("yaml", "yml")  # of a document
            if is_elided(line) and not (is_bare and (is_body or is_end)):
                return line
            above = line if line.strip() else above
    return None


def _markers(found: Sequence[_Passage]) -> str | None:
    for one in found:
        line = next(filter(_MARKER.match, one.new), None)
        if line is None or one.suffix in ("patch", "diff", "rej", "orig"):
            continue
        if one.is_new(_MARKER.match) and not one.has(line.split()[0].encode()):
            return line
    return None


def _fences(found: Sequence[_Passage]) -> str | None:
    """The fence around all that is new; its halves may be apart, with lines that stay between."""
    first, last = found[0], found[-1]
    if first.suffix in _MARKDOWN or not first.new or not last.new:
        return None
    lines = [line for one in found for line in one.new if _FENCE.fullmatch(line)]
    is_around = [first.new[0], next((x for x in last.new[::-1] if x.strip()), "")] == lines
    is_new = all(one.is_new(_FENCE.fullmatch) for one in found)
    return lines[0] if is_around and is_new else None


@dataclass(frozen=True, slots=True)
class Sign:
    """A sign of the table: `seen` is the line that shows it; `{}` in its words is that line."""

    name: str
    seen: Callable[[Sequence[_Passage]], str | None]
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
    lambda found: None,  # no passage shows it
    "the new text repeats a line that stays beside it: {}",
)
"""Of edits by numbers, which are off by one then."""

NAMES = tuple(one.name for one in (*SIGNS, REPEATED))
_SHOWN = 60


def signs_of(
    path: RelPath, base: Text, change: ChangeSet, usual: Sequence[str] = ()
) -> tuple[str, ...]:
    """Why the change may not be meant, in words, by the table; `usual` signs do not count."""
    is_wide = base.encoding.unit > 1  # it is looked at whole, for its bytes say nothing
    if not (is_wide or [edit for edit in change.edits if _MAY.search(edit.new)]):
        return ()
    suffix = path.name.rpartition(".")[2].lower() if "." in path.name else ""
    base = base.unmarked()  # as the regions count its lines
    passages = list(_passages(suffix, base, regions(base, change)))
    rows = [one for one in SIGNS if one.name not in usual and passages]
    seen = ((one, one.seen(passages)) for one in rows)
    return tuple(one.words.format(line.strip()[:_SHOWN]) for one, line in seen if line is not None)


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
            if not (line.strip() and low <= above and above + 1 < high):
                continue
            pair = base.texts(above, above + 2)
            beside, own = pair if at == 0 else pair[::-1]
            if line == beside != own:
                return (REPEATED.words.format(line.strip()[:_SHOWN]),)
    return ()


def _passages(suffix: str, base: Text, found: Sequence[Region]) -> Iterator[_Passage]:
    """Yield the regions, those as one that only blank lines keep apart."""
    runs: list[list[Region]] = []
    for region in found:
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
        yield _Passage(suffix, base, old, new, (above, below))
