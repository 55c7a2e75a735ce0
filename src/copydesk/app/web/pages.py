"""The pages of plans and edits: what each of them shows, by its template.

Invariant: a form that approves holds the digests of what the page shows, and is there only
when all changed lines are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from markupsafe import Markup

from copydesk.app.web.diff_model import DiffLine, DiffModel, of_change
from copydesk.app.web.diff_view import Colours, View, colours_of, cuts_changes, table
from copydesk.app.web.markup import ENVIRONMENT, address, hidden_in, named, render
from copydesk.app.web.reviewer import Item, words_of
from copydesk.app.web.sessions import Notice
from copydesk.desk.backends.api import Entry
from copydesk.desk.history import Past
from copydesk.desk.review import Rights, Shown, regions_apart, text_of
from copydesk.edit.draft import Draft
from copydesk.edit.plan import Plan
from copydesk.edit.request import BlockDiff
from copydesk.text.snapshot import Snapshot
from copydesk.text.unified import counts, line_counts

MOST_ROWS: Final = 2_000
"""A list or a diff of more rows is shown in part."""

MOST_EDITS: Final = 100
"""A page of the history has so many."""

CONTEXTS: Final = (3, 10, 40, 1_000_000)
_MOST_COLOURED: Final = 150_000
_MOST_EDITED: Final = 1_000_000
_STATES: Final = ("approved", "rejected", "exact", "drifted", "conflict")


@dataclass(frozen=True, slots=True)
class Frame:
    """What is around every page: the reviewer, the workspace, the notices.

    `waiting`: how many plans wait. `csrf` is the token of the session's forms.
    """

    name: str
    csrf: str
    workspace: str
    waiting: int
    notices: Sequence[Notice] = ()


@dataclass(frozen=True, slots=True)
class PlanFilter:
    """Which plans are listed; an empty text stands for all."""

    path: str = ""
    member: str = ""
    tool: str = ""
    state: str = ""

    @staticmethod
    def of(query: Mapping[str, str]) -> PlanFilter:
        """The filter that an address asks for."""
        names = ("path", "member", "tool", "state")
        return PlanFilter(*(query.get(name, "")[:200] for name in names))

    @property
    def query(self) -> dict[str, str]:
        """The filter in an address."""
        return {name: value for name, value in asdict(self).items() if value}

    def takes(self, item: Item) -> bool:
        """Whether the plan is listed."""
        verdict = item.decision.verdict if item.decision else "open"
        return (
            self.path.lower() in item.path.lower()
            and self.member in ("", item.plan.owner)
            and self.tool in ("", item.plan.tool)
            and self.state in ("", item.state, verdict)
        )


@dataclass(frozen=True, slots=True)
class EditFilter:
    """Which edits are listed; an empty text stands for all."""

    path: str = ""
    member: str = ""


@dataclass(frozen=True, slots=True)
class DiffOptions:
    """How a diff is shown; `everything`: also one of very many rows."""

    view: View = "split"
    context: int = CONTEXTS[0]
    everything: bool = False


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The plans before and after this one in the list, by id; empty for none.

    `onward` is the next one that is to be decided on.
    """

    before: str = ""
    after: str = ""
    onward: str = ""


class _PlanView(NamedTuple):
    """What the templates show of one plan, its diff rendered."""

    shown: Shown
    plan: Plan
    path: str
    counts: tuple[int, int]
    diff: Markup
    rows: int
    has_gaps: bool
    rows_left_out: bool
    lines_cut: bool
    every: str

    @property
    def complete(self) -> bool:
        """Whether all that changes is shown."""
        return not self.rows_left_out and not self.lines_cut


def shows_all(one: Shown, options: DiffOptions) -> bool:
    """Whether all that changes is shown with these options."""
    if options.everything:
        return True
    model = of_change(one.draft.base, one.draft.change, options.context)
    return model.rows <= MOST_ROWS and not cuts_changes(model)


def pending(frame: Frame, items: Sequence[Item], wanted: PlanFilter) -> Markup:
    """The list of the plans that wait; `items` are all of them, the newest first."""
    found = [item for item in items if wanted.takes(item)]
    members = sorted({item.plan.owner for item in items} | {wanted.member} - {""})
    tools = sorted({item.plan.tool for item in items} | {wanted.tool} - {""})
    return render(
        "pending.html",
        **around(frame, "Pending", "pending"),
        note=_note(len(items), len(found)),
        any=bool(items),
        rows=[_row(item, tuple(wanted.query.items())) for item in found[:MOST_ROWS]],
        wanted=wanted,
        members=[(name, name) for name in members],
        tools=[(name, name) for name in tools],
        states=[("open", "to decide"), *((state, state) for state in _STATES)],
    )


def review(
    frame: Frame,
    one: Shown,
    rights: Rights,
    options: DiffOptions,
    neighbours: Neighbours,
    wanted: PlanFilter,
) -> Markup:
    """The page of one plan, as it was opened from a list with that filter."""
    view = _plan_view(one, options, wanted)
    content = _editable(one)
    return render(
        "review.html",
        **around(frame, view.path.rpartition("/")[2], "pending", wide=True),
        **view._asdict(),
        complete=view.complete,
        why=words_of(one.refusal) if one.refusal else "",
        rights=rights,
        barred=words_of(rights.apply) if rights.apply else "",
        options=options,
        wider=_wider(options, view.has_gaps),
        neighbours=neighbours,
        query=wanted.query,
        splits=_splits(one),
        content=content,
        hidden_count=hidden_in(content or ""),
    )


def together(
    frame: Frame,
    all_: Sequence[Shown],
    refused: Sequence[tuple[str, str]],
    options: DiffOptions,
    wanted: PlanFilter,
) -> Markup:
    """Several plans on one page, to be applied all or none.

    `refused` are those that cannot be: what they are, and why.
    """
    plans = [_plan_view(one, options, wanted, all_rows=True) for one in all_]
    can = bool(plans) and not refused and all(shows_all(one, options) for one in all_)
    named_page = around(frame, "Together", "pending", wide=True)
    return render(
        "together.html",
        **named_page,
        plans=plans,
        refused=refused,
        can=can,
        query=wanted.query,
    )


def gone(
    frame: Frame, title: str, words: str, wanted: PlanFilter | None = None, edit_id: int = 0
) -> Markup:
    """The page of a plan that does not wait any more, or of what cannot be shown."""
    return render(
        "gone.html",
        **around(frame, title, "pending" if wanted else ""),
        words=words,
        edit_id=edit_id,
        query=wanted.query if wanted else {},
    )


def history(
    frame: Frame,
    edits: Sequence[Past],
    members: Iterable[str],
    wanted: EditFilter,
    go_on: int,
    why: str,
) -> Markup:
    """The list of edits, more of them below the id `go_on`; `why`: a wrong path."""
    return render(
        "history.html",
        **around(frame, "History", "history"),
        edits=[(edit, counts(edit.diff)) for edit in edits],
        members=[(name, name) for name in sorted({*members, wanted.member} - {""})],
        wanted=wanted,
        go_on=go_on,
        why=why,
    )


def edit(
    frame: Frame,
    entry: Entry,
    undone_by: int,
    model: DiffModel,
    options: DiffOptions,
    *,
    may_undo: bool,
) -> Markup:
    """The page of one edit."""
    part = model if options.everything else model.first(MOST_ROWS)
    edit_id = str(entry.edit_id)
    return render(
        "edit.html",
        **around(frame, f"Edit {edit_id}", "history", wide=True),
        entry=entry,
        undone_by=undone_by,
        may_undo=may_undo,
        counts=counts(entry.diff),
        diff=table(str(entry.path), part, options.view) if model.hunks else "",
        rows=model.rows,
        rows_left_out=part.rows < model.rows,
        every=address("edit", edit_id, view=options.view, all="1"),
        options=options,
        wider=_wider(options, model.has_gaps),
    )


def described(plan: Plan) -> str:
    """What the plan does, in words."""
    place, action = plan.place, plan.action
    old = place.stop - place.start
    lines = f"line {place.start + 1}" if old == 1 else f"lines {place.start + 1}–{place.stop}"
    if plan.base_digest is None:
        return "creates the file"
    if action == "append":
        return "appends at the end"
    if action == "insert" or not old:
        return f"inserts after line {place.start}" if place.start else "inserts at the start"
    if place.parts:
        return f"makes {named(max(len(place.parts), place.candidates), 'replacement')}"
    if action == "delete":
        return f"deletes {lines}"
    return f"replaces {lines}"


def around(frame: Frame, title: str, here: str, *, wide: bool = False) -> dict[str, object]:
    """What `page.html` shows; `here` is which entry of the bar the page belongs to."""
    return {"frame": frame, "title": title, "here": here, "wide": wide}


def _plan_view(
    one: Shown, options: DiffOptions, wanted: PlanFilter, *, all_rows: bool = False
) -> _PlanView:
    draft, plan_id = one.draft, one.plan.id
    model = of_change(draft.base, draft.change, options.context)
    cut_rows = not (all_rows or options.everything) and model.rows > MOST_ROWS
    path = str(draft.request.path)
    diff = Markup('<p class="empty">No line changes.</p>')
    if model.hunks:
        diff = table(
            path,
            model.first(MOST_ROWS) if cut_rows else model,
            options.view,
            address("hunk", plan_id, view=options.view, context=CONTEXTS[-1], **wanted.query),
            _colours(draft, path),
            whole=options.everything,
        )
    return _PlanView(
        one,
        one.plan,
        str(one.plan.request.path),
        line_counts(draft.base, draft.change),
        diff,
        model.rows,
        model.has_gaps,
        cut_rows,
        not options.everything and cuts_changes(model),
        address("hunk", plan_id, view=options.view, all="1", **wanted.query),
    )


@lru_cache(maxsize=4_096)
def _row(item: Item, query: tuple[tuple[str, str], ...]) -> Markup:
    """The plan's row of the list, which leads on with the list's filter."""
    return render("pending_row.html", item=item, query=dict(query))


def _note(every: int, found: int) -> str:
    if not every:
        return ""
    words = f"{named(every, 'plan')}, the newest first"
    if found < every:
        words = f"{found:,} of {named(every, 'plan')}"
    return f"{words}; the first {MOST_ROWS:,} are listed" if found > MOST_ROWS else words


def _wider(options: DiffOptions, has_gaps: bool) -> int | None:
    """The next larger number of lines around a change; None where nothing is left out."""
    return next((each for each in CONTEXTS if each > options.context), None) if has_gaps else None


def _splits(one: Shown) -> bool:
    """Whether there are several parts that can be decided on alone."""
    draft = one.draft
    is_whole = isinstance(draft.base, Snapshot) and not isinstance(one.plan.request, BlockDiff)
    return not draft.created and is_whole and len(regions_apart(draft)) > 1


def _editable(one: Shown) -> str | None:
    """The new text, where a field of a form can hold it."""
    content = text_of(one.plan.request)
    if content is None or one.state == "conflict" or len(content) > _MOST_EDITED:
        return None
    return None if "\r" in content.replace("\r\n", "\n") else content


def _colours(draft: Draft, path: str) -> tuple[Colours, Colours] | None:
    """The colours of both texts, read whole; None for large ones."""
    if not isinstance(draft.base, Snapshot) or not isinstance(draft.after, Snapshot):
        return None
    if draft.base.size + draft.after.size > _MOST_COLOURED:
        return None
    sides = [
        tuple(
            DiffLine(number, text, "lf")
            for number, text in enumerate(side.unmarked().texts(0, side.line_count), 1)
        )
        for side in (draft.base, draft.after)
    ]
    return colours_of(path, sides[0]), colours_of(path, sides[1])


ENVIRONMENT.filters["described"] = described
