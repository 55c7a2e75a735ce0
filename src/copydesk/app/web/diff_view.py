"""A change as a table, side by side or unified; both views show the same lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

from copydesk.app.web.diff_model import DiffBlock, DiffLine, DiffModel, DiffRow
from copydesk.app.web.html import NOTHING, Html, joined, named, shown, tag
from copydesk.app.web.intraline import Span, intraline
from copydesk.app.web.render_line import Highlight, highlight, is_cut, render_line

View = Literal["split", "unified"]

Colours = Mapping[int, Sequence[Highlight]]
"""The colours of the lines of one side, by number from 1."""

_ENDINGS: Final = {"crlf": "␍␊", "lf": "␊", "none": "no newline"}


class _Painter:
    """Draws the lines of one change."""

    def __init__(self, old: Colours, new: Colours, *, whole: bool) -> None:
        self._colours: dict[str, Colours] = {"old": old, "new": new}
        self._whole = whole

    def text(self, line: DiffLine, side: str, marked: Sequence[Span], ending: bool) -> Html:
        """The text of a line; how it ends, where that is told."""
        colours = self._colours[side].get(line.number, ())
        made = render_line(line.text, colours, marked, whole=self._whole)
        if not ending:
            return made
        return joined((made, tag("span", _ENDINGS[line.ending], class_="ending")))


def table(
    path: str,
    sides: DiffModel,
    view: View,
    more: str | None = None,
    colours: tuple[Colours, Colours] | None = None,
    *,
    whole: bool = False,
) -> Html:
    """The diff, with the colours of both sides; those of the lines shown unless given.

    `more` is the address of the same page with all lines around the change, where
    there are any; `whole`: lines are shown whole, however long they are.
    """
    if colours is None:
        old, new = tuple(sides.lines("old")), tuple(sides.lines("new"))
        colours = colours_of(path, old), colours_of(path, new)
    painter = _Painter(*colours, whole=whole)
    draw = _split if view == "split" else _unified
    width = 4 if view == "split" else 3
    bodies: list[Html] = []
    for index, hunk in enumerate(sides.hunks):
        if hunk.skipped:
            bodies.append(_gap(hunk.skipped, width, more))
        elif index:
            bodies.append(_gap(0, width, None))
        rows = joined(joined(draw(block, painter)) for block in hunk.blocks)
        bodies.append(tag("tbody", rows, class_="hunk"))
    if sides.skipped:
        bodies.append(_gap(sides.skipped, width, more))
    heads = ("Line", "Before", "Line", "After") if view == "split" else ("Before", "After", "Text")
    return tag(
        "table",
        tag("caption", f"What changes in {path}", class_="unseen"),
        joined(tag("col", class_=name) for name in _columns(view)),
        tag(
            "thead",
            tag("tr", joined(tag("th", head, scope="col") for head in heads)),
            class_="unseen",
        ),
        joined(bodies),
        class_=f"diff {view}",
    )


def left_out(sides: DiffModel, every: str) -> Html:
    """Words for a change that is not shown whole, as lines are too long; `every` shows it."""
    if not cuts_changes(sides):
        return NOTHING
    return tag(
        "p",
        "Parts of what changes are left out above, for the lines are very long. ",
        tag("a", "Show all of it", href=every),
        class_="notice warn",
    )


def cuts_changes(sides: DiffModel) -> bool:
    """Whether long lines are shown without something that changes in them."""
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


def _columns(view: View) -> tuple[str, ...]:
    return ("number", "text", "number", "text") if view == "split" else ("number", "number", "text")


def _gap(skipped: int, width: int, more: str | None) -> Html:
    """What stands between two hunks."""
    words = named(skipped, "line") if skipped else ""
    inner = tag("a", f"Show {words}", href=more, data_swap="diff") if more and words else words
    cell = tag("td", tag("span", "⋯", aria_hidden="true"), inner, colspan=width)
    return tag("tbody", tag("tr", cell), class_="gap")


def _told(row: DiffRow) -> bool:
    """Whether how the lines end is told: where they are the same but for that, or have no end."""
    endings = {line.ending for line in (row.old, row.new) if line is not None}
    return len(endings) > 1 or (endings == {"none"} and None in (row.old, row.new))


def _split(block: DiffBlock, painter: _Painter) -> Iterator[Html]:
    for row in block.rows:
        marked = _marks(block, row)
        ending = _told(row)
        left = _cells(row.old, "old", block.kept, painter, marked[0], ending)
        right = _cells(row.new, "new", block.kept, painter, marked[1], ending)
        yield tag("tr", left, right, class_="kept" if block.kept else "changed")


def _cells(
    line: DiffLine | None,
    side: Literal["old", "new"],
    kept: bool,
    painter: _Painter,
    marked: Sequence[Span],
    ending: bool,
) -> Html:
    if line is None:
        return joined((tag("td", class_="number none"), tag("td", class_="text none")))
    kind = "" if kept else " gone" if side == "old" else " come"
    text = painter.text(line, side, marked, ending)
    return joined(
        (
            tag("td", str(line.number), class_=f"number{kind}"),
            tag("td", _sign(side, kept), text, class_=f"text{kind}"),
        )
    )


def _unified(block: DiffBlock, painter: _Painter) -> Iterator[Html]:
    if block.kept:
        for row in block.rows:
            assert row.old is not None, "a kept line is on both sides"
            assert row.new is not None, "a kept line is on both sides"
            text = painter.text(row.old, "old", (), _told(row))
            yield _row(row.old.number, row.new.number, _sign("old", True), text, "")
        return
    marked = [(row, _marks(block, row)) for row in block.rows]
    for row, (gone, _) in marked:
        if row.old is not None:
            text = painter.text(row.old, "old", gone, _told(row))
            yield _row(row.old.number, None, _sign("old", False), text, " gone")
    for row, (_, come) in marked:
        if row.new is not None:
            text = painter.text(row.new, "new", come, _told(row))
            yield _row(None, row.new.number, _sign("new", False), text, " come")


def _row(old: int | None, new: int | None, sign: Html, text: Html, kind: str) -> Html:
    return tag(
        "tr",
        tag("td", "" if old is None else str(old), class_=f"number{kind}"),
        tag("td", "" if new is None else str(new), class_=f"number{kind}"),
        tag("td", sign, text, class_=f"text{kind}"),
        class_="changed" if kind else "kept",
    )


def _sign(side: Literal["old", "new"], kept: bool) -> Html:
    if kept:
        return NOTHING
    return tag("span", "−" if side == "old" else "+", class_="sign")


def _marks(block: DiffBlock, row: DiffRow) -> tuple[Sequence[Span], Sequence[Span]]:
    if block.kept or row.old is None or row.new is None:
        return (), ()
    return intraline(row.old.text, row.new.text)


def summary(added: int, removed: int) -> Html:
    """How many lines come and go, as `+3 −1`."""
    return tag(
        "span",
        tag("span", f"+{added}", class_="plus"),
        shown(" "),
        tag("span", f"−{removed}", class_="minus"),
        class_="counts",
        title=f"{named(added, 'line')} added, {named(removed, 'line')} removed",
    )
