"""The list of edits, and the page of one edit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from copydesk.app.web.diff_model import DiffModel
from copydesk.app.web.diff_view import summary, table
from copydesk.app.web.html import NOTHING, Html, joined, shown, tag
from copydesk.app.web.layout import Frame, address, badge, empty, form, moment, page, path_shown
from copydesk.app.web.pending import search, select
from copydesk.app.web.review import MOST_ROWS, DiffOptions, toolbar
from copydesk.desk.history import Past
from copydesk.desk.journal import Entry
from copydesk.text.unified import counts

PAGE: Final = 100

_DID: Final = {"edit": "edited", "create": "created", "remove": "removed"}


@dataclass(frozen=True, slots=True)
class Filter:
    """Which edits are listed; an empty text stands for all."""

    path: str = ""
    member: str = ""


def history(
    frame: Frame,
    edits: Sequence[Past],
    members: Iterable[str],
    wanted: Filter,
    go_on: int,
    why: str,
) -> Html:
    """The page; `go_on` is the id below which there are more, `why` what is wrong with the path."""
    if why:
        body = empty("No such path.", tag("p", why))
    elif not edits:
        none = "No edit is like that." if wanted != Filter() else "Nothing was written yet."
        body = empty(none, tag("p", "Every edit that is applied is kept here, with its way back."))
    else:
        rows = joined(_row(edit) for edit in edits)
        body = tag("ul", rows, class_="rows", id="rows", aria_label="Edits")
    more = NOTHING
    if go_on:
        older = address("history", path=wanted.path, member=wanted.member, before=go_on)
        more = tag("p", tag("a", "Older edits", href=older, class_="button"), class_="pager")
    filters = tag(
        "form",
        search("File or folder", wanted.path),
        select(
            "member",
            "Member",
            ((m, m) for m in sorted({*members, wanted.member} - {""})),
            wanted.member,
        ),
        tag("noscript", tag("button", "Filter")),
        class_="filters",
        id="filters",
        role="search",
        action="/history",
    )
    sheet = tag("div", body, more, class_="sheet", id="sheet", data_live=True)
    top = tag("div", tag("h1", "History"), class_="top")
    return page(frame, "History", "history", top, filters, sheet)


def edit(frame: Frame, entry: Entry, undone_by: int, sides: DiffModel, look: DiffOptions) -> Html:
    """The page of one edit."""
    path = str(entry.path)
    here = address("edit", str(entry.edit_id))
    diff: Html
    if sides.hunks:
        part = sides if look.everything else sides.first(MOST_ROWS)
        diff = table(path, part, look.view)
        if part.rows < sides.rows:
            every = address("edit", str(entry.edit_id), view=look.view, all="1")
            diff = joined(
                (
                    diff,
                    tag(
                        "p", tag("a", f"Show all {sides.rows:,} lines", href=every), class_="pager"
                    ),
                )
            )
    else:
        diff = tag("p", "No line changed.", class_="empty")
    head = tag(
        "div",
        tag("div", tag("h1", path_shown(path)), _state(entry, undone_by), class_="top"),
        tag(
            "p",
            tag("span", tag("b", entry.member), shown(f" {_DID[entry.kind]} it")),
            summary(*counts(entry.diff)),
            tag("span", entry.tool),
            tag("span", moment(entry.time_ms)),
            tag(
                "span",
                "bytes ",
                tag("code", entry.before[:8] or "none"),
                " → ",
                tag("code", entry.after[:8] or "none"),
            ),
            tag("span", "with others, ", tag("code", entry.group[:8])) if entry.group else NOTHING,
            class_="facts",
        ),
        id="head",
    )
    sheet = tag(
        "section",
        toolbar(here, look, DiffModel(sides.hunks, 0)) if sides.hunks else NOTHING,
        tag("div", diff, class_="scroll", tabindex=0, role="region", aria_label="The change"),
        class_="sheet",
        id="diff",
        aria_label="Diff",
    )
    undo = tag("button", "Undo this edit", class_="primary", data_key="U")
    can = entry.state in ("done", "open") and not undone_by
    decide = tag(
        "div",
        tag("span", "An undo is an edit too, and can be undone.", class_="note"),
        tag("a", "Back to the history", href="/history", class_="button", data_key="u"),
        form(frame, f"{here}/undo", undo) if can else NOTHING,
        class_="chosen-bar",
        id="decide",
        data_live=True,
    )
    return page(frame, f"Edit {entry.edit_id}", "history", head, sheet, decide, wide=True)


def _row(past: Past) -> Html:
    main = tag(
        "div",
        tag(
            "a", path_shown(str(past.path)), href=address("edit", str(past.edit_id)), class_="open"
        ),
        tag(
            "div",
            tag("b", past.member),
            shown(f" {_DID[past.kind]} it · {past.tool}"),
            class_="what",
        ),
        class_="main",
    )
    row = tag(
        "div",
        tag("span", str(past.edit_id), class_="edit-id"),
        main,
        tag("div", _state(past, past.undone_by), class_="state"),
        summary(*counts(past.diff)),
        tag("div", moment(past.time_ms), class_="when"),
        class_="row plain",
    )
    sign = f"{past.state}.{past.undone_by}"
    return tag("li", row, id=f"edit-{past.edit_id}", data_sign=sign)


def _state(entry: Entry, undone_by: int) -> Html:
    """What is to be said of an edit: what it took back, what took it back, how it ended.

    The last edit of another process may be open: that it is done is recorded with its next.
    """
    if undone_by:
        return badge("plain", f"undone by {undone_by}")
    if entry.state in ("failed", "unsure"):
        return badge("bad", entry.state)
    return badge("info", f"undoes {entry.undoes}") if entry.undoes else NOTHING
