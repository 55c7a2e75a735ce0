"""What the templates of plans and edits are given.

Invariant: a form for approval contains the digests of what the page shows; it exists only if all
changed lines were shown, at once or part by part in this session.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import groupby
from typing import Final, Literal, NamedTuple, cast
from urllib.parse import urlencode

from markupsafe import Markup

from copydesk.app.web.diff_view import Colours, View, colours_of, conflict_of, table
from copydesk.app.web.markup import ENVIRONMENT, address, hidden_in, named, render, visible
from copydesk.app.web.reviewer import Item, PlanResult, Task, expires_soon, words_of
from copydesk.app.web.security import Notice
from copydesk.desk.backends.api import Decision, Entry, Version, version_of
from copydesk.desk.history import Past
from copydesk.desk.review import Rights, Shown, State
from copydesk.edit.draft import Draft, Plan
from copydesk.text.snapshot import Snapshot
from copydesk.text.unified import line_counts
from copydesk.tools.diff_model import DiffLine, DiffModel, of_change
from copydesk.tools.refusals import check_words
from copydesk.tools.reports import is_binary_deletion

MOST_ROWS: Final = 2_000
"""A diff with more rows is shown in part."""

MOST_LISTED: Final = 100
"""Plans on one page of the list."""

_PART_ROWS: Final = 5_000
"""Rows of one part of "Show all"."""

MOST_EDITS: Final = 100
"""Edits on one page of the history."""

CONTEXTS: Final = (3, 10, 40, 1_000_000)
_MOST_COLOURED: Final = 40_000
"""The most bytes of whole texts that a page colours; above this, only the lines shown."""

_COLOURED_BEFORE: Final = 30
"""How many lines before those shown are tokenized too: a string or comment may begin there."""

_MOST_EDITED: Final = 1_000_000
_EXPIRING: Final = "expiring"
_STATES: Final = (
    ("exact", "exact"),
    ("drifted", "drifted"),
    ("conflict", "conflict"),
    (_EXPIRING, "expires soon"),
)
_TABS: Final = (
    ("", "Pending"),
    ("approved", "Approved"),
    ("changes_requested", "Changes requested"),
    ("rejected", "Rejected"),
)
_VERDICTS: Final = tuple(state for state, _ in _TABS if state)
_MOST_FILES: Final = 300
MOST_TOGETHER: Final = 100


@dataclass(frozen=True, slots=True)
class Frame:
    """The frame of every page; `waiting` counts the undecided plans; `csrf` is the forms' token."""

    name: str
    csrf: str
    workspace: str
    waiting: int
    now_ms: int
    notices: Sequence[Notice] = ()


@dataclass(frozen=True, slots=True)
class PlanFilter:
    """Which plans are listed; empty means all.

    `path` is any part of a plan's path; with a leading slash, a file or directory from the root.
    `state` is the state of an undecided plan in its file, or the decision.
    """

    path: str = ""
    member: str = ""
    tool: str = ""
    state: str = ""

    @staticmethod
    def of(query: Mapping[str, str]) -> PlanFilter:
        """The filter in the query of an address."""
        names = ("path", "member", "tool", "state")
        return PlanFilter(*(query.get(name, "")[:200] for name in names))

    @property
    def query(self) -> dict[str, str]:
        """The filter as the query of an address."""
        return {name: value for name, value in asdict(self).items() if value}

    def takes(self, item: Item) -> bool:
        """Whether the plan is listed."""
        return self.takes_path(item.path) and self.takes_otherwise(item)

    def takes_path(self, path: str) -> bool:
        """Whether plans of the file are listed."""
        if self.path.startswith("/"):
            return f"/{path}/".startswith(self.path.rstrip("/") + "/")
        return self.path.lower() in path.lower()

    def takes_otherwise(self, item: Item) -> bool:
        """Whether the plan is listed if its path is."""
        is_of = self.member in ("", item.plan.owner) and self.tool in ("", item.plan.tool)
        if not is_of or self.tab != (item.decision.verdict if item.decision else ""):
            return False
        if self.state == _EXPIRING:
            return item.expires_soon
        return self.state in (self.tab, "open") or item.state == self.state

    @property
    def tab(self) -> str:
        """The tab of the list: "" for undecided plans, otherwise the decision."""
        return self.state if self.state in _VERDICTS else ""


@dataclass(frozen=True, slots=True)
class EditFilter:
    """Which edits are listed; an empty text means all."""

    path: str = ""
    member: str = ""


@dataclass(frozen=True, slots=True)
class DiffOptions:
    """How to show a diff; `part` of "Show all" (from 1) has whole lines; 0 means the first rows."""

    view: View = "split"
    context: int = CONTEXTS[0]
    part: int = 0


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The plans before and after this one in the list, by id; empty if there is none.

    `onward` is the next undecided one, `position` the place of this one.
    """

    before: str = ""
    after: str = ""
    onward: str = ""
    position: str = ""


class _Parts(NamedTuple):
    """Where "Show all" leads: the address and name of the part to open, and its neighbours."""

    href: str
    words: str
    neighbours: list[tuple[str, str]]


class _PlanView(NamedTuple):
    """The values of one plan for the templates, with its diff rendered."""

    shown: Shown
    plan: Plan
    path: str
    counts: tuple[int, int]
    diff: Markup
    rows: int
    has_gaps: bool
    rows_left_out: bool
    lines_cut: bool
    every: _Parts
    checks: Sequence[str]


def shows_all(one: Shown, options: DiffOptions) -> bool:
    """Whether these options show all of the change."""
    model = of_change(one.draft.base, one.draft.change, options.context)
    if options.part:
        return model.rows <= _PART_ROWS
    return model.rows <= MOST_ROWS and not model.is_cut


def parts_of(rows: int) -> int:
    """The number of parts of "Show all" for this number of rows."""
    return max(-(-rows // _PART_ROWS), 1)


def rows_of(one: Shown, options: DiffOptions) -> int:
    """The number of rows of a plan with this context."""
    return of_change(one.draft.base, one.draft.change, options.context).rows


class _Group(NamedTuple):
    """The plans of one member and task in the list; `rows` are their markup."""

    key: str
    task: Task
    summary: str
    counts: tuple[int, int]
    together: str
    rows: list[Markup]


class _TreeRow(NamedTuple):
    """A folder or file of the tree at this `depth`, with the number of its plans."""

    name: str
    depth: int
    href: str
    plans: int
    is_current: bool


def pending(
    frame: Frame,
    items: Sequence[Item],
    wanted: PlanFilter,
    viewed: Container[tuple[Version, State]],
    page: int = 1,
) -> Markup:
    """A page of the list; `items` are all plans in order, `viewed` those the person looked at."""
    found = [item for item in items if wanted.takes(item)]
    members = sorted({item.plan.owner for item in items} | {wanted.member} - {""})
    tools = sorted({item.plan.tool for item in items} | {wanted.tool} - {""})
    verdicts = Counter(item.decision.verdict if item.decision else "" for item in items)
    pages = max(-(-len(found) // MOST_LISTED), 1)
    page = min(max(page, 1), pages)
    start = (page - 1) * MOST_LISTED
    shown = found[start : start + MOST_LISTED]
    tasks: dict[Task, list[Item]] = {}
    for item in found:
        tasks.setdefault(item.task, []).append(item)
    tree = _tree([item.path for item in items if wanted.takes_otherwise(item)], wanted)
    return render(
        "pending.html",
        **around(frame, "Pending", "pending"),
        note=_note(verdicts[wanted.tab], found, start),
        any=bool(verdicts[wanted.tab]),
        groups=[
            _group(tasks[task], list(rows), wanted, viewed)
            for task, rows in groupby(shown, lambda item: item.task)
        ],
        before=address(**wanted.query, page=page - 1) if page > 1 else "",
        after=address(**wanted.query, page=page + 1) if page < pages else "",
        tabs=[
            (words, verdicts[state], address(**{**wanted.query, "state": state}), state)
            for state, words in _TABS
        ],
        tree=tree[:_MOST_FILES],
        more=len(tree) - _MOST_FILES,
        wanted=wanted,
        members=[(name, name) for name in members],
        tools=[(name, tool_words(name)) for name in tools],
        states=_STATES,
        soon=sum(item.expires_soon for item in found),
    )


def _group(
    items: Sequence[Item],
    rows: Sequence[Item],
    wanted: PlanFilter,
    viewed: Container[tuple[Version, State]],
) -> _Group:
    task = items[0].task
    files = len({item.path for item in items})
    query = tuple(wanted.query.items())
    together = [("hunk", item.plan.id) for item in items[:MOST_TOGETHER]]
    return _Group(
        hashlib.sha256("\0".join(task).encode("utf-8", "surrogatepass")).hexdigest()[:12],
        task,
        f"{named(len(items), 'plan')} in {named(files, 'file')}",
        (sum(item.counts[0] for item in items), sum(item.counts[1] for item in items)),
        f"/together?{urlencode([*query, *together])}",
        [_row(item, query, (version_of(item.plan), item.state) in viewed) for item in rows],
    )


def _tree(paths: Sequence[str], wanted: PlanFilter) -> list[_TreeRow]:
    """The files and their folders; a folder with a single subfolder is joined with it."""
    counts = Counter(paths)
    below: Counter[str] = Counter()
    children: dict[str, set[str]] = {}
    for path, count in counts.items():
        parts = path.split("/")
        for depth in range(len(parts)):
            folder = "/".join(parts[:depth])
            below[folder] += count
            children.setdefault(folder, set()).add("/".join(parts[: depth + 1]))
    found: list[_TreeRow] = []
    rest: list[tuple[str, str, int]] = [("", "", 0)]
    while rest:
        path, above, depth = rest.pop()
        while path in children and len(children[path]) == 1 and path not in counts:
            (only,) = children[path]
            if only not in children:
                break
            path = only
        if path:
            name = path[len(above) :].lstrip("/") + "/" * (path in children)
            target = "" if wanted.path == f"/{path}" else f"/{path}"
            href = address(**{**wanted.query, "path": target})
            count = below[path] or counts[path]
            found.append(_TreeRow(name, min(depth, 6), href, count, not target))
            depth += 1
        ordered = sorted(children.get(path, ()), key=lambda each: (each not in children, each))
        rest += [(each, path, depth) for each in reversed(ordered)]
    return found


def review(
    frame: Frame,
    one: Shown,
    rights: Rights,
    options: DiffOptions,
    neighbours: Neighbours,
    wanted: PlanFilter,
    comments: Sequence[Decision] = (),
    unseen: int = 0,
) -> Markup:
    """The page of one plan of a list; `unseen` is the part of "Show all" to open first, or 0."""
    view = _plan_view(one, options, wanted, unseen=unseen)
    draft, content = one.draft, one.plan.request.text
    if (
        content is None
        or one.state == "conflict"
        or len(content) > _MOST_EDITED
        or "\r" in content.replace("\r\n", "\n")
    ):
        content = None
    is_whole = isinstance(draft.base, Snapshot) and not one.plan.request.in_notes
    return render(
        "review.html",
        **around(frame, view.path.rpartition("/")[2], "pending", wide=True),
        **view._asdict(),
        complete=not unseen,
        why=words_of(one.refusal) if one.refusal else "",
        rights=rights,
        barred=words_of(rights.apply) if rights.apply else "",
        options=options,
        wider=_wider(options, view.has_gaps),
        neighbours=neighbours,
        comments=comments,
        query=wanted.query,
        splits=not draft.created and is_whole and len(draft.regions_apart) > 1,
        conflict=conflict_of(one),
        content=content,
        hidden_count=hidden_in(content or ""),
    )


def together(
    frame: Frame,
    all_: Sequence[Shown],
    refused: Sequence[tuple[str, str]],
    options: DiffOptions,
    wanted: PlanFilter,
    *,
    can: bool,
    can_approve: bool,
) -> Markup:
    """Several plans on one page, to apply together or decide on one by one.

    `can`: all changes were shown. `refused`: those that cannot be applied, with the reasons.
    """
    size = sum(one.draft.base.size + one.draft.after.size for one in all_)
    plans = [_plan_view(one, options, wanted, size=size) for one in all_]
    can = can and bool(plans) and not refused
    named_page = around(frame, "Together", "pending", wide=True)
    return render(
        "together.html",
        **named_page,
        plans=plans,
        refused=refused,
        can=can,
        can_approve=bool(plans) and can_approve,
        query=wanted.query,
    )


def gone(
    frame: Frame,
    title: str,
    words: str,
    wanted: PlanFilter | None = None,
    edit_id: int = 0,
    item: Item | None = None,
) -> Markup:
    """The page of a plan that is no longer pending; or of `item`, which cannot be shown."""
    return render(
        "gone.html",
        **around(frame, title, "pending" if wanted else ""),
        words=words,
        edit_id=edit_id,
        item=item,
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
    """The list of edits; older ones are below the id `go_on`; `why` says why a path is wrong."""
    return render(
        "history.html",
        **around(frame, "History", "history"),
        edits=[(edit, edit.lines) for edit in edits],
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
    part = _part(model, options)
    edit_id = str(entry.edit_id)
    return render(
        "edit.html",
        **around(frame, f"Edit {edit_id}", "history", wide=True),
        entry=entry,
        undone_by=undone_by,
        may_undo=may_undo,
        counts=entry.lines,
        diff=table(str(entry.path), part, options.view) if model.hunks else "",
        rows_left_out=part.rows < model.rows,
        every=_of_parts(model.rows, options, 1, ("edit", edit_id), {}),
        options=options,
        wider=_wider(options, model.has_gaps),
    )


def described(plan: Plan) -> str:
    """The effect of the plan, in words."""
    place, action = plan.place, plan.action
    old = place.stop - place.start
    lines = f"line {place.start + 1}" if old == 1 else f"lines {place.start + 1}–{place.stop}"
    if plan.base_digest is None:
        is_run = plan.request.is_executable
        return "creates an executable file" if is_run else "creates the file"
    if plan.request.target is not None:
        return f"moves the file to {plan.request.target}"
    if plan.request.deletes:
        return "deletes the file"
    if modes := plan.request.modes:
        return "makes it executable" if modes[1] & 0o111 else "makes it not executable"
    if action == "append":
        return "appends at the end"
    if action == "insert" or not old:
        return f"inserts after line {place.start}" if place.start else "inserts at the start"
    if place.parts:
        return f"makes {named(max(len(place.parts), place.candidates), 'replacement')}"
    if action == "delete":
        return f"deletes {lines}"
    return f"replaces {lines}"


_TOOL_WORDS: Final = {
    "prepare_file_range_edit": "replace lines",
    "prepare_file_append": "append",
    "prepare_file_insert_after": "insert after",
    "prepare_file_insert_before": "insert before",
    "prepare_file_block_replace": "replace block",
    "prepare_file_move": "move file",
    "prepare_file_delete": "delete file",
    "create_new_file": "create file",
    "overwrite_entire_file": "overwrite file",
    "undo_file_modification": "undo",
    "prepare_batch_edit": "batch edit",
    "MultiEdit": "batch edit",
    "prepareBlockDiff": "edit blocks",
    "applyBlockDiff": "edit blocks",
    "appendContent": "append to note",
    "createNewDoc": "create note",
    "str_replace_based_edit_tool": "text editor",
}


def tool_words(tool: str) -> str:
    """A tool's action in words; by default the words of its name."""
    name = tool.removeprefix("team_mgmt_")
    words = _TOOL_WORDS.get(name)
    if words is None:
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " ").lower()
    return words if name == tool else f"{words} (team)"


def around(frame: Frame, title: str, here: str, *, wide: bool = False) -> dict[str, object]:
    """The values of `page.html`; `here` is the page's entry in the navigation bar."""
    return {"frame": frame, "title": title, "here": here, "wide": wide}


def _plan_view(
    one: Shown,
    options: DiffOptions,
    wanted: PlanFilter,
    *,
    size: int | None = None,
    unseen: int = 1,
) -> _PlanView:
    draft, plan_id = one.draft, one.plan.id
    model = of_change(draft.base, draft.change, options.context)
    path = str(draft.request.path)
    diff = Markup('<p class="empty">No line changes.</p>')
    if draft.request.target is not None:
        words = Markup('<p class="empty">The file is moved to {}, with all its bytes.</p>')
        diff = words.format(visible(str(draft.request.target)))
    elif modes := draft.request.modes:
        words = Markup('<p class="empty">The mode of the file becomes {}; its bytes stay.</p>')
        diff = words.format(f"{modes[1] & 0o777:o}")
    elif is_binary_deletion(draft):
        words = Markup('<p class="empty">A binary file of {} is deleted. An undo restores it.</p>')
        diff = words.format(named(draft.base.size, "byte"))
    elif model.hunks:
        part = _part(model, options)
        diff = table(
            path,
            part,
            options.view,
            address("hunk", plan_id, view=options.view, context=CONTEXTS[-1], **wanted.query),
            _colours(draft, path, part, size),
            whole=options.part > 0,
        )
    return _PlanView(
        one,
        replace(one.plan, place=draft.place, action=draft.action),
        str(one.plan.request.path),
        line_counts(draft.base, draft.change),
        diff,
        model.rows,
        model.has_gaps,
        model.rows > MOST_ROWS,
        not options.part and model.is_cut,
        _of_parts(model.rows, options, unseen, ("hunk", plan_id), wanted.query),
        [*one.signs, *(check_words(finding, "en") for finding in one.checks or ())],
    )


def _part(model: DiffModel, options: DiffOptions) -> DiffModel:
    if not options.part:
        return model.first(MOST_ROWS)
    part = min(options.part, parts_of(model.rows))
    return model.first(_PART_ROWS, (part - 1) * _PART_ROWS)


def _of_parts(
    rows: int, options: DiffOptions, unseen: int, here: tuple[str, str], query: Mapping[str, str]
) -> _Parts:
    def href(part: int) -> str:
        shown = {"view": options.view, "context": str(options.context), "all": str(part)}
        return address(*here, **shown, **query)

    def words(part: int) -> str:
        last = min(part * _PART_ROWS, rows)
        return f"Show rows {(part - 1) * _PART_ROWS + 1:,}–{last:,} of {rows:,}"

    count, unseen = parts_of(rows), unseen or 1
    if not options.part:
        every = f"Show all {named(rows, 'row')}" if rows > MOST_ROWS else "Show all"
        return _Parts(href(unseen), every, [])
    around_ = (options.part - 1, options.part + 1)
    return _Parts(
        href(unseen),
        words(unseen),
        [(href(part), words(part)) for part in around_ if 1 <= part <= count],
    )


@lru_cache(maxsize=4_096)
def _row(item: Item, query: tuple[tuple[str, str], ...], viewed: bool) -> Markup:
    return render("pending_row.html", item=item, query=dict(query), viewed=viewed)


def _note(every: int, found: Sequence[Item], start: int) -> str:
    if not every:
        return ""
    count = f"{len(found):,} of {named(every, 'plan')}"
    words = count if len(found) < every else named(every, "plan")
    words += f" in {named(len({item.path for item in found}), 'file')}"
    if len(found) <= MOST_LISTED:
        return words
    return f"{words}; {start + 1:,}–{min(start + MOST_LISTED, len(found)):,} are listed"


def _wider(options: DiffOptions, has_gaps: bool) -> int | None:
    """The next larger number of context lines; None if nothing is left out."""
    return next((each for each in CONTEXTS if each > options.context), None) if has_gaps else None


def _colours(
    draft: Draft, path: str, model: DiffModel, size: int | None
) -> tuple[Colours, Colours] | None:
    """The colours of both texts; for large ones only of lines shown, None if unknown."""
    if not isinstance(draft.base, Snapshot) or not isinstance(draft.after, Snapshot):
        return None
    most = draft.base.size + draft.after.size if size is None else size
    shown = None if most <= _MOST_COLOURED else model
    old = _lines_to_colour(draft.base, None if shown is None else shown.lines("old"))
    new = _lines_to_colour(draft.after, None if shown is None else shown.lines("new"))
    return colours_of(path, old), colours_of(path, new)


def _lines_to_colour(side: Snapshot, shown: Iterable[DiffLine] | None) -> list[DiffLine]:
    """All lines of a text, or those shown with some before them."""
    text = side.unmarked()
    wanted: Iterable[int] = range(1, text.line_count + 1)
    if shown is not None:
        runs = (range(max(one.number - _COLOURED_BEFORE, 1), one.number + 1) for one in shown)
        wanted = sorted({number for run in runs for number in run})
    found: list[DiffLine] = []
    for _, run in groupby(enumerate(wanted), lambda pair: pair[1] - pair[0]):
        numbers = [number for _, number in run]
        texts = text.texts(numbers[0] - 1, numbers[-1])
        found += [DiffLine(n, each, "lf") for n, each in zip(numbers, texts, strict=True)]
    return found


cast("dict[str, object]", ENVIRONMENT.filters).update(
    {"described": described, "expires_soon": expires_soon, "tool_words": tool_words}
)


_HOUR_MS: Final = 3_600_000
_STEPS: Final = (
    *(_HOUR_MS // 12, _HOUR_MS // 4, _HOUR_MS, 3 * _HOUR_MS, 12 * _HOUR_MS),
    *(24 * _HOUR_MS, 7 * 24 * _HOUR_MS),
)
_MOST_COLUMNS: Final = 60
_MOST_SERIES: Final = 6
_MOST_IN_TRENDS: Final = 15
_LEFT, _WIDTH, _FLOOR, _HEIGHT = 32, 732, 176, 166
"""The plotting area within the drawing of `trends.html`, which is 800 by 200."""


class _Bar(NamedTuple):
    """A rectangle; `words` is its label, `kind` its class."""

    kind: str
    x: str
    width: str
    y: str = "0"
    height: str = "10"
    words: str = ""


class _Plot(NamedTuple):
    """Stacked columns, each for an equal length of time."""

    bars: list[_Bar]
    grid: list[tuple[int, str, str]]
    times: list[tuple[str, str]]
    legend: list[tuple[str, str]]
    numbers: list[tuple[str, int]]
    total: int
    highest: int


class _Row(NamedTuple):
    name: str
    address: str
    bars: list[_Bar]
    counts: tuple[int, int, int]


class _Shares(NamedTuple):
    """A table with a bar in each row; `more` counts the rows left out."""

    rows: list[_Row]
    more: int


def trends(
    frame: Frame, entries: Sequence[Entry], results: Sequence[PlanResult], now_ms: int
) -> Markup:
    """The page of trends."""
    return render(
        "trends.html",
        **around(frame, "Trends", "trends"),
        any=bool(entries or results),
        edits=len(entries),
        plot=_over_time(entries, now_ms) if entries else None,
        members=_shares("member", results, 100),
        files=_shares("path", results, _MOST_IN_TRENDS),
    )


def _over_time(entries: Sequence[Entry], now_ms: int) -> _Plot:
    first = min(entry.time_ms for entry in entries)
    step = next((s for s in _STEPS if (now_ms - first) // s < _MOST_COLUMNS), _STEPS[-1])
    count = max(now_ms // step - max(first // step, now_ms // step - _MOST_COLUMNS + 1) + 1, 12)
    start = now_ms // step - count + 1
    members = [name for name, _ in Counter(entry.member for entry in entries).most_common()]
    series = [*members[: _MOST_SERIES - 1], "others"] if len(members) > _MOST_SERIES else members
    cells: Counter[tuple[int, int]] = Counter()
    for entry in entries:
        column = entry.time_ms // step - start
        if column >= 0:
            at = series.index(entry.member) if entry.member in series else len(series) - 1
            cells[min(column, count - 1), at] += 1
    heights = [sum(cells[column, at] for at in range(len(series))) for column in range(count)]
    top = _round_up(max(heights))
    wide = _WIDTH / count
    bars: list[_Bar] = []
    for column in range(count):
        below = 0
        for at, name in enumerate(series):
            value = cells[column, at]
            if value:
                y = _y(below + value, top)
                words = f"{_time(start + column, step)}: {named(value, 'edit')} by {name}"
                x, width = _LEFT + column * wide + wide * 0.12, wide * 0.76
                height = _y(below, top) - y
                bars.append(_Bar(f"e{at}", _n(x), _n(width), _n(y), _n(height), words))
            below += value
    every = max(count // 6, 1)
    return _Plot(
        bars,
        [(v, _n(_y(v, top)), _n(_y(v, top) + 4)) for v in sorted({0, top // 2, top})],
        [
            (_time(start + column, step), _n(_LEFT + (column + 0.5) * wide))
            for column in range(every // 2, count, every)
        ],
        [(f"e{at}", name) for at, name in enumerate(series)],
        [
            (_time(start + column, step), heights[column])
            for column in range(count)
            if heights[column]
        ],
        sum(heights),
        max(heights),
    )


def _shares(key: Literal["member", "path"], results: Sequence[PlanResult], most: int) -> _Shares:
    counted = Counter(
        (result.member if key == "member" else result.path, result.how) for result in results
    )
    tallies = {
        name: (counted[name, "exact"], counted[name, "fuzz"], counted[name, "rejected"])
        for name, _ in counted
    }
    ranked = sorted(tallies.items(), key=lambda one: (-one[1][1] - one[1][2], -sum(one[1]), one[0]))
    longest = max(map(sum, tallies.values()), default=0)
    rows: list[_Row] = []
    for name, tally in ranked[:most]:
        bars: list[_Bar] = []
        x = 0.0
        for kind, value in zip(("exact", "fuzz", "no"), tally, strict=True):
            if value:
                bars.append(_Bar(kind, _n(x), _n(100 * value / longest)))
            x += 100 * value / longest
        rows.append(_Row(name, address("history", **{key: name}), bars, tally))
    return _Shares(rows, len(ranked) - most)


def _time(column: int, step: int) -> str:
    at = time.gmtime(column * step // 1000)
    return time.strftime("%m-%d" if step >= 24 * _HOUR_MS else "%m-%d %H:%M", at)


def _y(value: int, top: int) -> float:
    return _FLOOR - value * _HEIGHT / top


def _round_up(most: int) -> int:
    """An even number that is at least `most` and has few non-zero digits."""
    size = 1
    while size * 10 < most:
        size *= 10
    return next((m * size for m in (2, 4, 6, 8, 10) if m * size >= most), 20 * size)


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
