"""A change as a table, side by side or unified; both views show the same lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from markupsafe import Markup

from copydesk.app.web.diff_model import DiffBlock, DiffLine, DiffModel, DiffRow
from copydesk.app.web.markup import render
from copydesk.app.web.render_line import Highlight, highlight, render_line
from copydesk.tools.intraline import Span, intraline, is_cut

View = Literal["split", "unified"]

Colours = Mapping[int, Sequence[Highlight]]
"""The colours of the lines of one side, by number from 1."""

_ENDINGS: Final = {"crlf": "␍␊", "lf": "␊", "none": "no newline"}


class _Cell(NamedTuple):
    """One line on one side of the table; `ending` where it is shown how the line ends."""

    number: int
    text: Markup
    ending: str


def table(
    path: str,
    model: DiffModel,
    view: View,
    more: str | None = None,
    colours: tuple[Colours, Colours] | None = None,
    *,
    whole: bool = False,
) -> Markup:
    """The diff, with the colours of both sides; those of the lines shown unless given.

    `more` is the address of the same page with all lines around the change, where
    there are any; `whole`: lines are shown whole, however long they are.
    """
    if colours is None:
        old, new = tuple(model.lines("old")), tuple(model.lines("new"))
        colours = colours_of(path, old), colours_of(path, new)
    hunks = [
        {
            "skipped": hunk.skipped,
            "blocks": [(block.kept, _cells(block, colours, whole)) for block in hunk.blocks],
        }
        for hunk in model.hunks
    ]
    split = view == "split"
    skipped = model.skipped
    return render("diff.html", path=path, split=split, hunks=hunks, skipped=skipped, more=more)


def _cells(
    block: DiffBlock, colours: tuple[Colours, Colours], whole: bool
) -> list[tuple[_Cell | None, ...]]:
    rows: list[tuple[_Cell | None, ...]] = []
    for row in block.rows:
        sides = zip((row.old, row.new), colours, _marks(block, row), strict=True)
        endings = _shows_endings(row)
        rows.append(
            tuple(
                None
                if line is None
                else _Cell(
                    line.number,
                    render_line(line.text, by_line.get(line.number, ()), marked, whole=whole),
                    _ENDINGS[line.ending] if endings else "",
                )
                for line, by_line, marked in sides
            )
        )
    return rows


def cuts_changes(sides: DiffModel) -> bool:
    """Whether a changed part of a long line is left out."""
    rows = ((block, row) for hunk in sides.hunks for block in hunk.blocks for row in block.rows)
    for block, row in rows:
        if block.kept or (row.old and row.new and row.old.text == row.new.text):
            continue
        both = _marks(block, row)
        for line, marked in zip((row.old, row.new), both, strict=True):
            unmarked = not marked and any(both)  # nothing of this side changes
            if line is not None and not unmarked and is_cut(line.text, marked):
                return True
    return False


def colours_of(path: str, lines: Sequence[DiffLine]) -> Colours:
    """The colours of some lines of a file; those without a gap are read together."""
    found: dict[int, Sequence[Highlight]] = {}
    for run in _runs(lines):
        colours = highlight(path, [line.text for line in run])
        if colours is not None:
            found |= {line.number: each for line, each in zip(run, colours, strict=True)}
    return found


def _runs(lines: Sequence[DiffLine]) -> Iterator[list[DiffLine]]:
    run: list[DiffLine] = []
    for line in lines:
        if run and line.number != run[-1].number + 1:
            yield run
            run = []
        run.append(line)
    if run:
        yield run


def _shows_endings(row: DiffRow) -> bool:
    """Whether to show line endings: where only they differ, or where one is missing."""
    endings = {line.ending for line in (row.old, row.new) if line is not None}
    return len(endings) > 1 or (endings == {"none"} and None in (row.old, row.new))


def _marks(block: DiffBlock, row: DiffRow) -> tuple[Sequence[Span], Sequence[Span]]:
    if block.kept or row.old is None or row.new is None:
        return (), ()
    return intraline(row.old.text, row.new.text)
