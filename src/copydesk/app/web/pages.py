"""The views: what the templates of plans and edits are given.

Invariant: a form for approval contains the digests of what the page shows; it exists only if all
changed lines were shown, at once or part by part in this session.
"""

from __future__ import annotations

import hashlib
import mimetypes
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from itertools import accumulate, groupby
from typing import Any, Final, cast
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from copydesk.app.web.diff_view import Colours, NewPlan, View, colours_of, conflict_of, table
from copydesk.app.web.markup import (
    ENVIRONMENT,
    LANG,
    address,
    hidden_in,
    named,
    render,
    say,
    translated,
)
from copydesk.app.web.markup import (
    shown as marked_up,
)
from copydesk.app.web.reviewer import Item, Reviewer, Task, expires_soon, words_of
from copydesk.app.web.security import Session, one_of
from copydesk.desk.backends.api import Decision, Entry, version_of
from copydesk.desk.desk import FileDesk
from copydesk.desk.history import Page, taken_back_by
from copydesk.desk.member import Member
from copydesk.desk.review import Review, Shown, Waiting
from copydesk.edit.draft import Plan
from copydesk.errors import HunkNotFound, Refusal
from copydesk.text.encoding import encoding_of_diff
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot, Source
from copydesk.text.unified import line_counts
from copydesk.tools.diff_model import DiffLine, DiffModel, of_change, of_diff
from copydesk.tools.messages import Lang, say_reason
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
MOST_COLOURED: Final = 40_000
"""The most bytes of whole texts that a page colours; above this, only the lines shown."""

_COLOURED_BEFORE: Final = 30
"""How many lines before those shown are tokenized too: a string or comment may begin there."""

_MOST_EDITED: Final = 1_000_000
_EXPIRING, _BROKEN = "expiring", "broken"
_STATES: Final = (
    ("exact", "applies"),
    ("drifted", "drifted"),
    ("conflict", "conflict"),
    (_BROKEN, "breaks a check"),
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


Location = str
"""The address of the page that follows a form."""

Values = dict[str, Any]
"""What a template is given, by name."""


@dataclass(frozen=True, slots=True)
class RequestContext:
    """A request with a valid session. `is_partial`: the page's script sent it to refresh a part."""

    session: Session
    reviewer: Reviewer
    query: Mapping[str, str]
    path_params: Mapping[str, str]
    hunk_ids: tuple[str, ...] = ()
    form: Mapping[str, list[str]] = field(default_factory=dict[str, list[str]])
    is_partial: bool = False

    @property
    def member(self) -> Member:
        """The member for whom the person decides."""
        return self.reviewer.member

    @property
    def desk(self) -> FileDesk:
        return self.reviewer.opened.desk

    @property
    def review(self) -> Review:
        """The desk's decisions on plans."""
        return self.desk.review

    @property
    def hunk_id(self) -> str:
        """The id of the plan in the address."""
        return self.path_params["hunk_id"]

    @property
    def edit_id(self) -> int:
        """The edit id in the address; -1, which no edit has, if it is not a number."""
        return number(self.path_params["edit_id"], -1, 18)

    def field(self, name: str) -> str:
        """The value of a field of the form; empty if it is missing."""
        return one_of(self.form, name)

    @property
    def wanted(self) -> PlanFilter:
        """The filter of the list that the person sees, or comes from."""
        return PlanFilter.of(self.query)

    def page(
        self,
        template: str,
        title: str,
        here: str,
        *,
        waiting: int | None = None,
        status: int = 200,
        wide: bool = False,
        **values: object,
    ) -> Response:
        """A page within the frame of all pages; `here` is its entry in the navigation bar.

        `waiting` is the number of undecided plans, if it is known.
        """
        opened, session = self.reviewer.opened, self.session
        frame = {
            "name": session.name,
            "csrf": session.csrf,
            "workspace": opened.root.rstrip("/").rpartition("/")[2] or "/",
            "waiting": _undecided(self.reviewer.waiting()) if waiting is None else waiting,
            "changed": self.reviewer.open_changes(),
            "now_ms": opened.clock(),
            "notices": () if self.is_partial else session.take_notices(),
        }
        page = render(template, frame=frame, title=title, here=here, wide=wide, **values)
        return HTMLResponse(page.encode("utf-8", "backslashreplace"), status)


Action = Callable[[RequestContext], Location]
"""What a form does."""


def number(text: str, default: int, digits: int = 7) -> int:
    """The number that the text is, in so many ASCII digits at most; otherwise the default."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits else default


def _undecided(plans: Iterable[Item | Waiting]) -> int:
    return sum(one.decision is None for one in plans)


def file_response(data: Callable[[], bytes], name: str) -> Response:
    """A file to save; a line of text if there is a refusal instead."""
    try:
        content = data()
    except Refusal as refusal:
        return PlainTextResponse(f"{refusal.code}: {words_of(refusal)}\n", 404)
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type="text/plain; charset=utf-8", headers=headers)


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
        if not is_of or self.tab != item.verdict:
            return False
        if self.state in (_EXPIRING, _BROKEN):
            return item.expires_soon if self.state == _EXPIRING else item.breaks > 0
        return self.state in (self.tab, "open") or item.state == self.state

    @property
    def tab(self) -> str:
        """The tab of the list: "" for undecided plans, otherwise the decision."""
        return self.state if self.state in _VERDICTS else ""


@dataclass(frozen=True, slots=True)
class DiffOptions:
    """How to show a diff; `part` of "Show all" (from 1) has whole lines; 0 means the first rows.

    With `space`, which is "hide", lines that differ in white space alone are context.
    """

    view: View = "split"
    context: int = CONTEXTS[0]
    part: int = 0
    space: str = ""

    @staticmethod
    def of(query: Mapping[str, str]) -> DiffOptions:
        """The options in the query of an address."""
        context = number(query.get("context", ""), CONTEXTS[0])
        return DiffOptions(
            "unified" if query.get("view") == "unified" else "split",
            min(max(context, CONTEXTS[0]), CONTEXTS[-1]),
            number(query.get("all", ""), 0),
            "hide" if query.get("space") == "hide" else "",
        )

    def wider(self, model: DiffModel) -> int | None:
        """The next larger number of context lines; None if nothing is left out."""
        wider = (each for each in CONTEXTS if each > self.context)
        return next(wider, None) if model.has_gaps else None


def model_of(shown: Shown, options: DiffOptions) -> DiffModel:
    """The diff of a plan."""
    model = of_change(shown.draft.base, shown.draft.change, options.context)
    return model.without_space() if options.space else model


def shows_all(model: DiffModel, options: DiffOptions) -> bool:
    """Whether these options show all of the change."""
    if options.part:
        return model.rows <= _PART_ROWS
    return model.rows <= MOST_ROWS and not model.is_cut


def _parts_of(rows: int) -> int:
    """The number of parts of "Show all" for this number of rows."""
    return max(-(-rows // _PART_ROWS), 1)


def _remember_shown(
    ctx: RequestContext, shown: Shown, model: DiffModel, options: DiffOptions
) -> int:
    """Record what the session was shown; return the next part of "Show all", or 0."""
    if not ctx.is_partial:
        ctx.session.viewed[version_of(shown.plan), shown.state] = None
    if options.space:
        return int(shown.seen not in ctx.session.seen)
    if shows_all(model, options):
        ctx.session.seen[shown.seen] = None
        return 0
    if not options.part:
        return 1
    count = _parts_of(model.rows)
    return ctx.session.show_part(shown.seen, options.context, options.part, count)


def pending(ctx: RequestContext) -> Response:
    """A page of the list of plans."""
    items, wanted = ctx.reviewer.items(), ctx.wanted
    listed = [item for item in items if wanted.takes(item)]
    members = sorted({item.plan.owner for item in items} | {wanted.member} - {""})
    tools = sorted({item.plan.tool for item in items} | {wanted.tool} - {""})
    verdicts = Counter(item.verdict for item in items)
    pages = max(-(-len(listed) // MOST_LISTED), 1)
    page = min(max(number(ctx.query.get("page", ""), 1), 1), pages)
    start = (page - 1) * MOST_LISTED
    tasks: dict[Task, list[Item]] = {}
    for item in listed:
        tasks.setdefault(item.task, []).append(item)
    rows = groupby(listed[start : start + MOST_LISTED], lambda item: item.task)
    tree = _tree([item.path for item in items if wanted.takes_otherwise(item)], wanted)
    return ctx.page(
        "pending.html",
        say("Pending"),
        "pending",
        waiting=verdicts[""],
        note=_note(verdicts[wanted.tab], listed, start),
        any=bool(verdicts[wanted.tab]),
        groups=[_group(ctx, tasks[task], shown) for task, shown in rows],
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
        states=[(state, translated(words)) for state, words in _STATES],
        soon=sum(item.expires_soon for item in listed),
        broken=sum(item.breaks > 0 for item in listed),
    )


def _group(ctx: RequestContext, items: Sequence[Item], rows: Iterable[Item]) -> Values:
    """The plans of one member and task in the list, and the rows of those on this page."""
    task, query, viewed = items[0].task, tuple(ctx.wanted.query.items()), ctx.session.viewed
    files = len({item.path for item in items})
    together = [("hunk", item.plan.id) for item in items[:MOST_TOGETHER]]
    return {
        "key": hashlib.sha256("\0".join(task).encode("utf-8", "surrogatepass")).hexdigest()[:12],
        "task": task,
        "summary": _in_files(named(len(items), "plan"), files),
        "counts": tuple(map(sum, zip(*(item.counts for item in items), strict=True))),
        "together": f"/together?{urlencode([*query, *together])}",
        "rows": [
            _row(item, query, (version_of(item.plan), item.state) in viewed, LANG.get())
            for item in rows
        ],
    }


def _in_files(plans: str, files: int) -> str:
    return say("{plans} in {files}", plans=plans, files=named(files, "file"))


@lru_cache(maxsize=4_096)
def _row(item: Item, query: tuple[tuple[str, str], ...], viewed: bool, _: Lang) -> Markup:
    return render("pending_row.html", item=item, query=dict(query), viewed=viewed)


def _note(every: int, found: Sequence[Item], start: int) -> str:
    if not every:
        return ""
    plans = named(every, "plan")
    if len(found) < every:
        plans = say("{count:,} of {plans}", count=len(found), plans=plans)
    words = _in_files(plans, len({item.path for item in found}))
    if len(found) <= MOST_LISTED:
        return words
    last = min(start + MOST_LISTED, len(found))
    return words + say("; {first:,}–{last:,} are listed", first=start + 1, last=last)


def _tree(paths: Sequence[str], wanted: PlanFilter) -> list[Values]:
    """The files and their folders; a folder with a single subfolder is joined with it.

    `depth` is that of the row, `plans` the number of plans of the file or below the folder.
    """
    counts = Counter(paths)
    below: Counter[str] = Counter()
    children: dict[str, set[str]] = {}
    for path, count in counts.items():
        parts = path.split("/")
        for depth in range(len(parts)):
            folder = "/".join(parts[:depth])
            below[folder] += count
            children.setdefault(folder, set()).add("/".join(parts[: depth + 1]))
    rows: list[Values] = []
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
            row = {"name": name, "depth": min(depth, 6), "href": href, "is_current": not target}
            rows.append({**row, "plans": below[path] or counts[path]})
            depth += 1
        ordered = sorted(children.get(path, ()), key=lambda each: (each not in children, each))
        rest += [(each, path, depth) for each in reversed(ordered)]
    return rows


def review(ctx: RequestContext) -> Response:
    """The page of one plan of the list."""
    items, wanted, options = ctx.reviewer.items(patience=0), ctx.wanted, DiffOptions.of(ctx.query)
    try:
        shown = ctx.reviewer.show(ctx.hunk_id)
    except Refusal as refusal:
        return _no_hunk(ctx, refusal, items)
    model = model_of(shown, options)
    unseen = _remember_shown(ctx, shown, model, options)
    rights = ctx.review.rights(ctx.member, shown)
    draft, content, comments = shown.draft, shown.plan.request.text, ctx.review.comments(shown)
    if shown.state == "conflict" or not _can_be_edited(content):
        content = None
    is_whole = isinstance(draft.base, Snapshot) and not shown.plan.request.in_notes
    splits = not draft.created and is_whole and len(draft.regions_apart) > 1
    conflict = conflict_of(shown)
    new_plan = conflict.new_plan if conflict else _whole_text(shown)
    is_open = shown.decision is None and rights.decide is None and rights.apply is None
    heads: list[Markup] = []
    if splits and is_open and not unseen and not options.space:
        heads = _part_forms(ctx, shown, model)
    return ctx.page(
        "review.html",
        shown.plan.request.path.name,
        "pending",
        waiting=_undecided(items),
        wide=True,
        **_plan_values(
            shown, model, options, wanted, unseen=unseen, comments=comments, heads=heads
        ),
        complete=not unseen,
        why=words_of(shown.refusal) if shown.refusal else "",
        rights=rights,
        barred=words_of(rights.apply) if rights.apply else "",
        options=options,
        wider=options.wider(model),
        neighbours=_neighbours(items, wanted, ctx.hunk_id),
        comments=comments,
        query=wanted.query,
        splits=splits,
        conflict=conflict,
        new_plan=new_plan,
        content=content,
        hidden_count=hidden_in(content or ""),
    )


def _can_be_edited(text: str | None) -> bool:
    """Whether a form can hold the text: a browser changes line ends."""
    if text is None or len(text) > _MOST_EDITED:
        return False
    return "\r" not in text.replace("\r\n", "\n")


def _whole_text(shown: Shown) -> NewPlan | None:
    """The lines from the first to the last that a plan of several edits changes, to be edited."""
    base, regions = shown.draft.base, shown.draft.regions
    request, after = shown.plan.request, shown.draft.after
    is_several = request.text is None and request.of_lines and regions
    if not is_several or shown.draft.created or shown.state == "conflict":
        return None
    if not isinstance(base, Snapshot) or not isinstance(after, Snapshot):
        return None
    start, stop = regions[0].start, regions[-1].stop
    if start == stop:  # the new plan replaces one line at least
        start, stop = max(start - 1, 0), min(stop + (not start), base.line_count)
    grown = after.line_count - base.line_count
    text = after.encoding.decode(after.raw(start, stop + grown)).replace("\r\n", "\n")
    return NewPlan(start + 1, stop, text) if start < stop and _can_be_edited(text) else None


def _part_forms(ctx: RequestContext, shown: Shown, model: DiffModel) -> list[Markup]:
    """The form of each part of the diff, to decide on it alone."""
    counts = [sum(not block.kept for block in hunk.blocks) for hunk in model.hunks]
    if len(counts) < 2 or sum(counts) != len(shown.draft.regions_apart):
        return []
    facts = {"csrf": ctx.session.csrf, "query": ctx.wanted.query, "seen": shown.seen}
    return [
        render("part.html", plan_id=shown.plan.id, parts=range(stop - count, stop), **facts)
        for count, stop in zip(counts, accumulate(counts), strict=True)
    ]


def _neighbours(items: Sequence[Item], wanted: PlanFilter, hunk_id: str) -> Mapping[str, str]:
    """The plans `before` and `after` this one in the list, by id; empty if there is none.

    `onward` is the next undecided one, `position` the place of this one.
    """
    listed = [item for item in items if item.plan.id == hunk_id or wanted.takes(item)]
    ids = ["", *(item.plan.id for item in listed), ""]
    if hunk_id not in ids:
        return dict.fromkeys(("before", "after", "onward", "position"), "")
    at = ids.index(hunk_id)
    undecided = (item.plan.id for item in (*listed[at:], *listed[: at - 1]) if not item.decision)
    return {
        "before": ids[at - 1],
        "after": ids[at + 1],
        "onward": next(undecided, ""),
        "position": say("{at:,} of {count:,}", at=at, count=len(listed)),
    }


def _no_hunk(ctx: RequestContext, refusal: Refusal, items: Sequence[Item]) -> Response:
    """The page of a plan that is no longer pending, or that cannot be shown."""
    entry = item = None
    title = say("This plan is no longer pending.")
    if not isinstance(refusal, HunkNotFound):
        title = say("This plan cannot be shown.")
        item = next((item for item in items if item.plan.id == ctx.hunk_id), None)
    elif refusal.reason == "applied":
        entry = ctx.reviewer.opened.journal.of_hunk(ctx.hunk_id)
    return gone(
        ctx,
        title,
        words_of(refusal),
        here="pending",
        status=404 if item is None else 200,
        waiting=_undecided(items),
        edit_id=entry.edit_id if entry else 0,
        item=item,
        query=ctx.wanted.query,
    )


def gone(
    ctx: RequestContext,
    title: str,
    words: str,
    *,
    here: str = "",
    status: int = 404,
    waiting: int | None = None,
    edit_id: int = 0,
    item: Item | None = None,
    query: Mapping[str, str] = {},
) -> Response:
    """The page of what is not there; or of a plan, `item`, that cannot be shown."""
    of: Values = {"words": words, "edit_id": edit_id, "item": item, "query": query}
    return ctx.page("gone.html", title, here, status=status, waiting=waiting, **of)


def diff(ctx: RequestContext) -> Response:
    """The diff of a plan as a file."""
    return file_response(lambda: ctx.reviewer.show(ctx.hunk_id).diff, f"{ctx.hunk_id}.diff")


def together(ctx: RequestContext) -> Response:
    """Several plans on one page, to apply together or decide on one by one."""
    chosen = list(dict.fromkeys(ctx.hunk_ids))[:MOST_TOGETHER]
    if not chosen:
        return RedirectResponse("/", 303)
    options = DiffOptions.of(ctx.query)
    plans: list[tuple[Shown, DiffModel, Values]] = []
    refused: list[tuple[str, str]] = []
    can = can_approve = True
    for hunk_id in chosen:
        try:
            shown = ctx.reviewer.show(hunk_id)
        except Refusal as refusal:
            refused.append((hunk_id, words_of(refusal)))
            continue
        model = model_of(shown, options)
        path = str(shown.plan.request.path)
        is_open = shown.refusal is None and shown.decision is None
        rights = ctx.review.rights(ctx.member, shown, len(chosen))
        if shown.refusal is not None:
            refused.append((path, words_of(shown.refusal)))
        elif shown.decision is not None and shown.decision.verdict != "approved":
            verdict = shown.decision.verdict.replace("_", " ")
            refused.append((path, say(f"{verdict} by {{name}}", name=shown.decision.by)))
        elif rights.apply is not None:
            refused.append((path, words_of(rights.apply)))
        was_shown = not _remember_shown(ctx, shown, model, options)
        was_shown = was_shown or shown.seen in ctx.session.seen
        can = can and was_shown
        alone = ctx.review.rights(ctx.member, shown)
        may_approve = is_open and alone.approve is None
        can_approve = can_approve and may_approve
        rest = " ".join(one for one in chosen if one != hunk_id)
        may = {"can": shown.decision is None and alone.decide is None, "rest": rest}
        plans.append((shown, model, {**may, "can_approve": may_approve and was_shown}))
    refused += [
        (hunk_id, say("at most {count} plans are applied together", count=MOST_TOGETHER))
        for hunk_id in ctx.hunk_ids[MOST_TOGETHER : MOST_TOGETHER + 1]
    ]
    size = sum(shown.draft.base.size + shown.draft.after.size for shown, _, _ in plans)
    return ctx.page(
        "together.html",
        say("Together"),
        "pending",
        wide=True,
        plans=[
            {**_plan_values(shown, model, options, ctx.wanted, size=size), **may}
            for shown, model, may in plans
        ],
        broken_count=sum(bool(shown.checks) for shown, _, _ in plans),
        refused=refused,
        can=can and bool(plans) and not refused,
        can_approve=can and can_approve and bool(plans),
        query=ctx.wanted.query,
    )


def history(ctx: RequestContext) -> Response:
    """The list of edits."""
    path, member = ctx.query.get("path", "")[:1000], ctx.query.get("member", "")[:200]
    settings = ctx.reviewer.opened.settings
    before = number(ctx.query.get("before", ""), -1, 15)
    edits, members, why = Page(()), set[str](), ""
    try:
        where = RelPath.parse(path) if path else None
        below = None if before < 0 else before
        edits = ctx.desk.history.page(ctx.member, where, member or None, MOST_EDITS, below)
        members = {*settings.members, settings.member, *(edit.member for edit in edits.edits)}
    except Refusal as refusal:
        why = words_of(refusal)
    return ctx.page(
        "history.html",
        say("History"),
        "history",
        edits=[(edit, edit.lines) for edit in edits.edits],
        members=[(name, name) for name in sorted({*members, member} - {""})],
        wanted={"path": path, "member": member},
        go_on=edits.go_on,
        why=why,
    )


def edit(ctx: RequestContext) -> Response:
    """The page of one edit."""
    try:
        entry = ctx.desk.history.entry(ctx.member, ctx.edit_id)
    except Refusal as refusal:
        return gone(ctx, say("This edit cannot be shown."), words_of(refusal))
    opened, options, edit_id = ctx.reviewer.opened, DiffOptions.of(ctx.query), str(entry.edit_id)
    encoding = encoding_of_diff(entry.diff, opened.settings.encoding_of(entry.path))
    model = of_diff(entry.diff, encoding)
    model = model.without_space() if options.space else model
    part = _part(model, options)
    return ctx.page(
        "edit.html",
        say("Edit {edit}", edit=edit_id),
        "history",
        wide=True,
        entry=entry,
        undone_by=taken_back_by(opened.journal, entry.edit_id),
        may_undo=ctx.reviewer.may_undo(entry),
        counts=entry.lines,
        diff=table(str(entry.path), part, options.view) if model.hunks else "",
        rows_left_out=part.rows < model.rows,
        every=_every(model.rows, options, 1, ("edit", edit_id), {}),
        options=options,
        wider=options.wider(model),
    )


def edit_diff(ctx: RequestContext) -> Response:
    """The diff of an edit as a file."""
    entry = ctx.desk.history.entry
    return file_response(lambda: entry(ctx.member, ctx.edit_id).diff, f"edit-{ctx.edit_id}.diff")


def described(plan: Plan) -> str:
    """The effect of the plan, in words."""
    place, action = plan.place, plan.action
    old = place.stop - place.start
    count = named(max(len(place.parts), place.candidates), "replacement")
    facts = {"line": place.start, "first": place.start + 1, "last": place.stop, "count": count}
    if plan.base_digest is None:
        words = "creates an executable file" if plan.request.is_executable else "creates the file"
    elif plan.request.target is not None:
        words = "moves the file to {target}"
        facts["target"] = plan.request.target
    elif plan.request.deletes:
        words = "deletes the file"
    elif modes := plan.request.modes:
        words = "makes it executable" if modes[1] & 0o111 else "makes it not executable"
    elif action == "append":
        words = "appends at the end"
    elif action == "insert" or not old:
        words = "inserts after line {line}" if place.start else "inserts at the start"
    elif place.parts:
        words = "makes {count}"
    elif action == "delete":
        words = "deletes line {first}" if old == 1 else "deletes lines {first}–{last}"
    else:
        words = "replaces line {first}" if old == 1 else "replaces lines {first}–{last}"
    return say(words, **facts)


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
    plain = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " ").lower()
    words = translated(_TOOL_WORDS.get(name, plain))
    return words if name == tool else say("{tool} (team)", tool=words)


def _plan_values(
    shown: Shown,
    model: DiffModel,
    options: DiffOptions,
    wanted: PlanFilter,
    *,
    size: int | None = None,
    unseen: int = 1,
    comments: Sequence[Decision] = (),
    heads: Sequence[Markup] = (),
) -> Values:
    """What templates are given of one plan, with its diff rendered.

    `unseen` is the part of "Show all" to open first, or 0; `size` that of all texts on the page.
    The diff has the comments at their lines, and above each of its parts what `heads` has.
    """
    draft, plan_id = shown.draft, shown.plan.id
    path = str(draft.request.path)
    words = marked_up("No line changes.")
    if draft.request.target is not None:
        target = str(draft.request.target)
        words = marked_up("The file is moved to {path}, with all its bytes.", path=target)
    elif modes := draft.request.modes:
        mode = f"{modes[1] & 0o777:o}"
        words = marked_up("The mode of the file becomes {mode}; its bytes stay.", mode=mode)
    elif is_binary_deletion(draft):
        size_words = named(draft.base.size, "byte")
        words = marked_up(
            "A binary file of {size} is deleted. An undo restores it.", size=size_words
        )
    diff = Markup('<p class="empty">{}</p>').format(words)
    if model.hunks and not draft.request.is_operation:
        part = _part(model, options)
        diff = table(
            path,
            part,
            options.view,
            address("hunk", plan_id, view=options.view, context=CONTEXTS[-1], **wanted.query),
            side_colours(path, draft.base, draft.after, part, size),
            whole=options.part > 0,
            notes=_by_line(shown, comments),
            heads=heads,
        )
    return {
        "shown": shown,
        "plan": replace(shown.plan, place=draft.place, action=draft.action),
        "path": str(shown.plan.request.path),
        "counts": line_counts(draft.base, draft.change),
        "diff": diff,
        "rows_left_out": model.rows > MOST_ROWS,
        "lines_cut": not options.part and model.is_cut,
        "every": _every(model.rows, options, unseen, ("hunk", plan_id), wanted.query),
        "pictures": _pictures(shown),
        "checks": [
            *(say_reason(sign, LANG.get()) for sign in shown.signs),
            *(check_words(one, LANG.get()) for one in shown.checks or ()),
        ],
    }


def _by_line(shown: Shown, comments: Sequence[Decision]) -> Mapping[str, list[Decision]]:
    """The comments on this version of the plan by their lines, as `-3` and `+4`."""
    placed: defaultdict[str, list[Decision]] = defaultdict(list)
    for said in comments:
        if said.verdict == "commented" and said.after and said.time_ms >= shown.plan.created_ms:
            placed[said.after] += (said,)
    return placed


def _image_type(path: RelPath) -> str:
    """The media type of an image by its name; empty for any other file."""
    kind = mimetypes.guess_type(str(path))[0] or ""
    return kind if kind.startswith("image/") else ""


def _pictures(shown: Shown) -> list[tuple[str, str]]:
    """Where the image is before and after the plan, if its file is one."""
    request = shown.plan.request
    if not _image_type(request.path) or not isinstance(shown.draft.base, Snapshot):
        return []
    sides = [] if shown.draft.created else ["before"]
    sides += [] if request.deletes or request.target or request.modes else ["after"]
    return [(side.capitalize(), address("hunk", shown.plan.id, "image", side)) for side in sides]


def image(ctx: RequestContext) -> Response:
    """The image that the plan changes, before or after; nothing in it can run."""
    try:
        shown = ctx.reviewer.show(ctx.hunk_id)
    except Refusal as refusal:
        return PlainTextResponse(f"{refusal.code}: {words_of(refusal)}\n", 404)
    draft = shown.draft
    side = draft.base if ctx.path_params["side"] == "before" else draft.after
    kind = _image_type(shown.plan.request.path)
    if not kind or not isinstance(side, Snapshot):
        return PlainTextResponse("Not Found", 404)
    return Response(side.data, media_type=kind)


def _part(model: DiffModel, options: DiffOptions) -> DiffModel:
    if not options.part:
        return model.first(MOST_ROWS)
    part = min(options.part, _parts_of(model.rows))
    return model.first(_PART_ROWS, (part - 1) * _PART_ROWS)


def _every(
    rows: int, options: DiffOptions, unseen: int, here: tuple[str, str], query: Mapping[str, str]
) -> Values:
    """Where "Show all" leads: the address and name of the part to open, and its neighbours."""

    def part(at: int) -> tuple[str, str]:
        shown = {"view": options.view, "context": str(options.context), "all": str(at)}
        last = min(at * _PART_ROWS, rows)
        first = (at - 1) * _PART_ROWS + 1
        words = say("Show rows {first:,}–{last:,} of {rows:,}", first=first, last=last, rows=rows)
        return address(*here, **shown, **query), words

    href, words = part(unseen or 1)
    beside: tuple[int, ...] = (options.part - 1, options.part + 1)
    if not options.part:
        if rows <= _PART_ROWS:
            words = say("Show all {rows}", rows=named(rows, "row"))
        words = words if rows > MOST_ROWS else say("Show all")
        beside = ()
    neighbours = [part(at) for at in beside if 1 <= at <= _parts_of(rows)]
    return {"href": href, "words": words, "neighbours": neighbours}


def side_colours(
    path: str, base: Source, after: Source, model: DiffModel, size: int | None = None
) -> tuple[Colours, Colours] | None:
    """The colours of both texts; for large ones only of lines shown, None if unknown."""
    if not isinstance(base, Snapshot) or not isinstance(after, Snapshot):
        return None
    most = base.size + after.size if size is None else size
    shown = None if most <= MOST_COLOURED else model
    old = _lines_to_colour(base, None if shown is None else shown.lines("old"))
    new = _lines_to_colour(after, None if shown is None else shown.lines("new"))
    return colours_of(path, old), colours_of(path, new)


def _lines_to_colour(side: Snapshot, shown: Iterable[DiffLine] | None) -> list[DiffLine]:
    """All lines of a text, or those shown with some before them."""
    text = side.unmarked()
    wanted: Iterable[int] = range(1, text.line_count + 1)
    if shown is not None:
        runs = (range(max(one.number - _COLOURED_BEFORE, 1), one.number + 1) for one in shown)
        wanted = sorted({number for run in runs for number in run})
    return [DiffLine(number, text.text(number - 1), "lf") for number in wanted]


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


def trends(ctx: RequestContext) -> Response:
    """The page of trends."""
    entries, results = ctx.reviewer.past()
    return ctx.page(
        "trends.html",
        say("Trends"),
        "trends",
        any=bool(entries or results),
        edits=len(entries),
        plot=_over_time(entries, ctx.reviewer.opened.clock()) if entries else None,
        members=_shares("member", [(by, how) for by, _, how in results], 100),
        files=_shares("path", [(path, how) for _, path, how in results], _MOST_IN_TRENDS),
    )


def _over_time(entries: Sequence[Entry], now_ms: int) -> Values:
    """The plot: stacked columns, each for an equal length of time."""
    first = min(entry.time_ms for entry in entries)
    step = next((s for s in _STEPS if (now_ms - first) // s < _MOST_COLUMNS), _STEPS[-1])
    count = max(now_ms // step - max(first // step, now_ms // step - _MOST_COLUMNS + 1) + 1, 12)
    start = now_ms // step - count + 1
    members = [name for name, _ in Counter(entry.member for entry in entries).most_common()]
    series = (
        [*members[: _MOST_SERIES - 1], say("others")] if len(members) > _MOST_SERIES else members
    )
    places = {name: at for at, name in enumerate(series)}
    cells = Counter(
        (min(entry.time_ms // step - start, count - 1), places.get(entry.member, len(series) - 1))
        for entry in entries
        if entry.time_ms // step >= start
    )
    heights = [sum(cells[column, at] for at in range(len(series))) for column in range(count)]
    top = _round_up(max(heights))
    wide = _WIDTH / count
    times = [_time(start + column, step) for column in range(count)]
    bars: list[Mapping[str, str]] = []
    for (column, at), value in sorted(cells.items()):
        below = sum(cells[column, other] for other in range(at))
        top_y = _y(below + value, top)
        bar = {
            "x": _LEFT + column * wide + wide * 0.12,
            "width": wide * 0.76,
            "y": top_y,
            "height": _y(below, top) - top_y,
        }
        facts = {"time": times[column], "edits": named(value, "edit"), "name": series[at]}
        words = say("{time}: {edits} by {name}", **facts)
        bars.append({"kind": f"e{at}", "words": words, **{of: _n(bar[of]) for of in bar}})
    every = max(count // 6, 1)
    marked = range(every // 2, count, every)
    return {
        "bars": bars,
        "grid": [(v, _n(_y(v, top)), _n(_y(v, top) + 4)) for v in sorted({0, top // 2, top})],
        "times": [(times[column], _n(_LEFT + (column + 0.5) * wide)) for column in marked],
        "legend": [(f"e{at}", name) for at, name in enumerate(series)],
        "numbers": [(words, count) for words, count in zip(times, heights, strict=True) if count],
        "total": sum(heights),
        "highest": max(heights),
    }


def _shares(key: str, results: Sequence[tuple[str, str]], most: int) -> Values:
    """A table with a bar in each row, of names and how their plans ended; `more` are left out."""
    counted = Counter(results)
    tallies = {
        name: tuple(counted[name, how] for how in ("exact", "fuzz", "rejected"))
        for name, _ in counted
    }
    ranked = sorted(tallies.items(), key=lambda one: (-one[1][1] - one[1][2], -sum(one[1]), one[0]))
    longest = max(map(sum, tallies.values()), default=0)
    rows: list[Values] = []
    for name, tally in ranked[:most]:
        starts = accumulate(tally, initial=0)
        bars = [
            {"kind": kind, "x": _n(100 * start / longest), "width": _n(100 * value / longest)}
            for kind, value, start in zip(("exact", "fuzz", "no"), tally, starts, strict=False)
            if value
        ]
        href = address("history", **{key: name})
        rows.append({"name": name, "address": href, "bars": bars, "counts": tally})
    return {"rows": rows, "more": len(ranked) - most}


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


VIEWS: Final[Mapping[str, Callable[[RequestContext], Response]]] = {
    "/": pending,
    "/together": together,
    "/history": history,
    "/trends": trends,
    "/hunk/{hunk_id}": review,
    "/hunk/{hunk_id}/diff": diff,
    "/hunk/{hunk_id}/image/{side}": image,
    "/edit/{edit_id}": edit,
    "/edit/{edit_id}/diff": edit_diff,
}
"""The views by address."""
