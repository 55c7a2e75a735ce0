"""Signs that a new text is not what was meant: what models copy by mistake, or leave out.

Each sign is a row of one table: what shows it, where it does not count, and its words. A sign that
the replaced lines have too is no sign. There is no row without a count of real cases, and none that
declined one of thousands of real commits: a false alarm costs a call, and trust.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from copydesk.edit.kinds.correction import is_elided
from copydesk.text.change import ChangeSet
from copydesk.text.diff import Region, regions
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot, Text

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


def _numbers(passages: Sequence[_Passage]) -> Iterator[str]:
    for one in passages:
        lines = [line for line in one.new if line.strip()]
        shown = [(line, mark) for line in lines if (mark := _NUMBERED.match(line))]
        first = int(shown[0][1][1]) if shown else 0
        is_run = [int(mark[1]) for _, mark in shown] == [*range(first, first + len(shown))]
        is_ours = all(mark[2] for _, mark in shown)
        is_all = is_ours and len(shown) == len(lines)
        # keys and tables are added, not put for lines
        is_data = not is_ours and (not one.old or len(shown) < len(lines))
        if is_run and not is_data and (is_all or len(shown) > 1) and one.is_new(_NUMBERED.match):
            yield from (line for line, _ in shown)


def _placeholders(passages: Sequence[_Passage]) -> Iterator[str]:
    for one in passages:
        is_lost = len(one.old) - len(one.new) >= _LOST and not any(map(is_elided, one.old))
        above = one.around[0]
        for line in one.new if is_lost else ():
            is_body = one.suffix in ("py", "pyi") and above.rstrip().endswith(_BODY)
            is_end = one.suffix in ("yaml", "yml")  # of a document
            is_bare = line.strip() in ("...", "\u2026")
            if is_elided(line) and not (is_bare and (is_body or is_end)):
                yield line
            above = line if line.strip() else above


def _markers(passages: Sequence[_Passage]) -> Iterator[str]:
    for one in passages:
        is_patch = one.suffix in ("patch", "diff", "rej", "orig")
        line = next(filter(_MARKER.match, one.new), None)
        if line is not None and not is_patch and one.is_new(_MARKER.match):
            marker = line.split()[0].encode()
            if not (isinstance(one.base, Snapshot) and marker in one.base.data):
                yield line


def _fences(passages: Sequence[_Passage]) -> Iterator[str]:
    """The fence around all that is new; its halves may be apart, with lines that stay between."""
    first, last = passages[0], passages[-1]
    fences = [line for one in passages for line in one.new if _FENCE.fullmatch(line)]
    ends = [*first.new[:1], *[line for line in last.new if line.strip()][-1:]]
    is_around = len(fences) == 2 and fences == ends and first.suffix not in _MARKDOWN
    if is_around and all(one.is_new(_FENCE.fullmatch) for one in passages):
        yield fences[0]


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
    rows = [row for row in SIGNS if row.name not in usual and passages]
    first = ((row, line) for row in rows for line in islice(row.seen(passages), 1))
    return tuple(row.words.format(line.strip()[:_SHOWN]) for row, line in first)


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
                return (REPEATED.words.format(line.strip()[:_SHOWN]),)
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
        yield _Passage(suffix, base, old, new, (above, below))
