"""A change as a table, side by side or unified; both views show the same lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from markupsafe import Markup

from copydesk.app.web.markup import render
from copydesk.app.web.render_line import Highlight, highlight, render_line
from copydesk.tools.diff_model import ENDINGS, DiffBlock, DiffLine, DiffModel

View = Literal["split", "unified"]

Colours = Mapping[int, Sequence[Highlight]]
"""The colours of the lines of one side, by number from 1."""


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
    """The diff, with both sides' colours; `more` is the address of the page with all context."""
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
        sides = zip((row.old, row.new), colours, row.marks, strict=True)
        endings = row.shows_endings
        rows.append(
            tuple(
                None
                if line is None
                else _Cell(
                    line.number,
                    render_line(line.text, by_line.get(line.number, ()), marked, whole=whole),
                    ENDINGS[line.ending] if endings else "",
                )
                for line, by_line, marked in sides
            )
        )
    return rows


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
