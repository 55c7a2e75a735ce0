"""The page: its views, which templates are filled with, and its forms.

First the desk as one person sees it, then plans, history and trends, changes, and what forms do.
Invariants: a form for approval contains the digests of what the page shows; it exists only if all
changed lines were shown, at once or part by part in this session. A form of changes names the hunks
that its page showed, by ids that change with their texts. An action is one call of the desk; a
refusal appears on the next page, with the current state.
"""

from __future__ import annotations

import logging
import mimetypes
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from itertools import accumulate, groupby, pairwise, zip_longest
from threading import Lock, Thread
from typing import Any, Final, NamedTuple, cast
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from copydesk.app.web.markup import (
    ENVIRONMENT,
    LANG,
    Colours,
    NewPlan,
    View,
    address,
    colours_of,
    conflict_of,
    hidden_in,
    marked_up,
    named,
    phrase,
    render,
    table,
    translated,
)
from copydesk.app.web.security import Remembered, Session, digest, one_of
from copydesk.app.workspace import OpenWorkspace, user_of
from copydesk.desk.backends.api import DAY_MS, HOUR_MS, Decision, Entry, PlanVersion, version_of
from copydesk.desk.changes import ChangedHunk, FileChanges, Selection, TaskChanges, UndoneChanges
from copydesk.desk.desk import FileDesk
from copydesk.desk.history import Page, taken_back_by
from copydesk.desk.member import Member, Operation, Permission
from copydesk.desk.outcome import Applied, NotUndone, Transacted
from copydesk.desk.review import Review, Seen, Shown, State, Waiting
from copydesk.edit.draft import Plan, checked_id
from copydesk.errors import (
    AccessDenied,
    AlreadyDecided,
    AmbiguousMatch,
    ContentChanged,
    FileNotFound,
    HunkNotFound,
    InvalidHunkId,
    Refusal,
    StateFailed,
)
from copydesk.store.access import Rules
from copydesk.text.diff import CONTEXT, line_counts
from copydesk.text.encoding import encoding_of_diff
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot, Source
from copydesk.tools.diff_model import LONG, DiffLine, DiffModel, of_change, of_diff, of_place
from copydesk.tools.messages import Lang, say_reason
from copydesk.tools.refusals import check_words, refusal_words
from copydesk.tools.reports import is_binary_deletion, saved_words
from copydesk.tools.ws_mod import UNDO

_MOST_PAST: Final = 2_000
_MOST_COUNTED: Final = 20_000
_PATIENCE_SECONDS: Final = 0.06
"""Time to count the lines of plans for a list; after that they are estimated."""

_MOST_PEOPLE: Final = 4
"""Of so many people the tasks with open changes are remembered, which hold texts."""

_OPEN_SECONDS: Final = 5
"""How long the tasks with open changes stand, unless an edit or a decision is recorded."""

Counts = tuple[int, int]
"""Lines added and removed."""

_log = logging.getLogger("copydesk")


class Task(NamedTuple):
    """The key of plans that are listed together: their member, and a label or a transaction."""

    owner: str
    label: str = ""
    transaction: str = ""


@dataclass(frozen=True, slots=True)
class Item:
    """A pending plan in the list. `breaks` is the number of new findings of checks.

    `counted`: the counts are exact, not estimated.
    """

    plan: Plan
    task: Task
    state: State
    decision: Decision | None
    counts: Counts
    breaks: int
    counted: bool
    expires_soon: bool = False

    @property
    def path(self) -> str:
        return str(self.plan.request.path)

    @property
    def verdict(self) -> str:
        """The decision's verdict; empty for an undecided plan."""
        return self.decision.verdict if self.decision else ""

    @property
    def sign(self) -> str:
        """A key that changes when the plan's row in the list changes."""
        decided_ms = self.decision.time_ms if self.decision else 0
        ages = f"{self.plan.created_ms}.{self.plan.expires_ms}.{self.expires_soon}"
        return f"{ages}.{self.state}.{self.counts}.{self.breaks}.{decided_ms}"


def expires_soon(plan: Plan, now_ms: int) -> bool:
    """Whether a plan has less than a day left, or less than a quarter of a shorter life."""
    return plan.expires_ms - now_ms < min(DAY_MS, (plan.expires_ms - plan.created_ms) // 4)


@dataclass(eq=False)
class ListCache:
    """What lists show and takes time: counts, open tasks, files. Safe to use from many threads.

    `changed` is called when lines that a list estimated have been counted in the background.
    """

    changed: Callable[[], None] = lambda: None
    paths: dict[str, set[RelPath]] = field(default_factory=dict[str, "set[RelPath]"])
    """The files of the plans and of the changes that were listed last."""
    open: Remembered[tuple[str, bool], tuple[float, object, tuple[TaskChanges, ...]]] = field(
        default_factory=lambda: Remembered(_MOST_PEOPLE)
    )
    """The tasks with open changes, by person, with the time and the state of the records."""
    counts: Remembered[tuple[PlanVersion, State], tuple[Counts, int]] = field(
        default_factory=lambda: Remembered(_MOST_COUNTED)
    )
    """Lines and new findings by plan and its state; those that were asked for last."""
    counting: Lock = field(default_factory=Lock)


class Reviewer:
    """One person who reviews the plans of one workspace."""

    def __init__(
        self, opened: OpenWorkspace, cache: ListCache, name: str, *, is_member: bool
    ) -> None:
        self.opened, self._cache = opened, cache
        self.name, self._is_member = name, is_member
        self.member = self._member()
        self.review = opened.desk.review
        """The desk's decisions on plans; `member` makes them."""

    def _member(self) -> Member:
        config = self.opened.config
        if not self._is_member:
            rules = Rules(state_dir=config.state)
            return Member(self.name, _Either(rules, rules.team_mgmt()), refresh=self._member)
        own = replace(self.opened.member(self.name), refresh=self._member)
        if not config.of_member(self.name).team_mgmt:
            return own
        minds = self.opened.member(self.name, "team_mgmt").permission
        return replace(own, permission=_Either(own.permission, minds))

    @property
    def person(self) -> Member:
        """Who decides on changes: the person; a member whose edits need approval, as itself."""
        own = self.member
        if not own.policy.asks_nobody:
            return own
        return replace(own, name=user_of(own.name), refresh=lambda: self.person)

    def changes(self, *, is_fresh: bool = True) -> tuple[TaskChanges, ...]:
        """The tasks with open changes, newest first; or as they were some seconds ago at most."""
        key, began = (self.name, self._is_member), time.monotonic()
        stamp = self.opened.records_stamp()
        known = self._cache.open.get(key)
        if not is_fresh and known and began - known[0] < _OPEN_SECONDS and known[1] == stamp:
            return known[2]
        tasks = self.opened.desk.changes.tasks(self.member)
        self._cache.open[key] = began, stamp, tasks
        self._cache.paths["changes"] = {file.path for task in tasks for file in task.files}
        return tasks

    def items(self, patience: float = _PATIENCE_SECONDS) -> tuple[Item, ...]:
        """Pending plans by member and task, latest begun first.

        Lines are counted and checks made for the seconds of `patience`; lines of the other plans
        are estimated, and with patience counted in the background, as all are where checks run
        commands.
        """
        listed = _arranged(self.review.pending(self.member))
        states = self.review.states([waiting for _, waiting in listed])
        runs_commands = any(rule.command for rule in self.opened.config.checks)
        until = time.monotonic() + patience * (not runs_commands)
        now_ms = self.opened.clock()
        items: list[Item] = []
        for (task, waiting), state in zip(listed, states, strict=True):
            counted = self._cache.counts.get((version_of(waiting.plan), state))
            if counted is None and patience and time.monotonic() < until:
                counted = self._count(waiting.plan, state)
            lines, breaks = counted or (waiting.plan.request.counts(waiting.plan.place), 0)
            items.append(
                Item(
                    waiting.plan,
                    task,
                    state,
                    waiting.decision,
                    lines,
                    breaks,
                    counted=counted is not None,
                    expires_soon=expires_soon(waiting.plan, now_ms),
                )
            )
        if patience:
            self._cache.paths["plans"] = {item.plan.request.path for item in items}
            left = [item for item in items if not item.counted]
            if left and self._cache.counting.acquire(blocking=False):
                Thread(target=self._count_all, args=(left,), daemon=True).start()
        return tuple(items)

    def _count(self, plan: Plan, state: State) -> tuple[Counts, int] | None:
        key = version_of(plan), state
        try:
            self.show(plan.id)
        except Refusal:  # no better one will be known
            self._cache.counts[key] = plan.request.counts(plan.place), 0
        return self._cache.counts.get(key)

    def _count_all(self, items: Sequence[Item]) -> None:
        try:
            for item in items:
                self._count(item.plan, item.state)
        except Exception:  # the estimates stay
            _log.exception("cannot count the lines of plans")
        finally:
            self._cache.counting.release()
        self._cache.changed()

    def show(self, hunk_id: str) -> Shown:
        """A plan on the current file; raises Refusal."""
        shown = self.review.show(self.member, hunk_id)
        self._cache.counts[version_of(shown.plan), shown.state] = (
            line_counts(shown.draft.base, shown.draft.change),
            len(shown.checks or ()),
        )
        return shown

    def amend(self, seen: Seen, content: str) -> Shown:
        """Replace the text of the plan that was shown; raises Refusal."""
        if self.show(seen.hunk_id).seen[1:] != seen[1:]:
            raise ContentChanged("the file or the plan changed since it was shown")
        return self.review.amend(self.member, seen.hunk_id, content)

    def past(self) -> tuple[tuple[Entry, ...], list[tuple[str, str, str]]]:
        """The last edits, and the results of plans, each with a member and a path.

        A plan was written as planned (`exact`), relocated (`fuzz`), or `rejected`.
        """
        may = self.member.permission.allows_read
        edits = tuple(
            entry
            for entry in self.opened.journal.entries(most=_MOST_PAST)
            if may(entry.path) and entry.state != "failed"
        )
        try:
            outcomes = self.opened.tally.noted()
        except StateFailed:  # the edits are shown anyway
            outcomes = ()
        results = [
            (outcome.member, outcome.path, outcome.how)
            for outcome in outcomes
            if may(RelPath(tuple(outcome.path.split("/"))))
        ]
        carried = Counter((member, path) for member, path, how in results if how == "fuzz")
        written = Counter((entry.member, str(entry.path)) for entry in edits if entry.hunk_id)
        # Those that were carried are reported already.
        return edits, [*results, *((*key, "exact") for key in (written - carried).elements())]

    def may_undo(self, entry: Entry) -> bool:
        """Whether the person may write there without approval, and the text is still there."""
        try:
            self.member.permission.check("write", entry.path)
        except AccessDenied:
            return False
        return self.member.policy.human_reason(entry.path, 0) is None and not entry.forgotten


class _Either:
    """The union of two permissions: a person works on files and on the team's minds."""

    def __init__(self, one: Permission, other: Permission) -> None:
        self._one, self._other = one, other

    def check(self, operation: Operation, *paths: RelPath) -> None:
        """Raise AccessDenied unless one permission allows the operation on all the paths."""
        self._allowed(lambda permission: permission.check(operation, *paths))

    def check_walk(self, *paths: RelPath) -> None:
        if not all(map(self.allows_walk, paths)):
            self._one.check_walk(*paths)

    def check_glob(self, glob: str, *, fold: bool = False) -> None:
        """Raise AccessDenied for a glob of paths that neither permission may read."""
        self._allowed(lambda permission: permission.check_glob(glob, fold=fold))

    def _allowed(self, check: Callable[[Permission], None]) -> None:
        with suppress(AccessDenied):
            return check(self._other)
        return check(self._one)

    def allows_read(self, path: RelPath) -> bool:
        """Whether one of the permissions allows reading the file."""
        return self._one.allows_read(path) or self._other.allows_read(path)

    def allows_walk(self, path: RelPath) -> bool:
        return self._one.allows_walk(path) or self._other.allows_walk(path)


def _arranged(waiting: Sequence[Waiting]) -> list[tuple[Task, Waiting]]:
    """The plans grouped by task; a transaction of a single plan is not a task."""
    sizes = Counter((entry.plan.owner, entry.plan.transaction) for entry in waiting)
    tasks: list[tuple[Task, Waiting]] = []
    begun: dict[Task, tuple[int, str]] = {}
    for entry in waiting:  # oldest first
        plan = entry.plan
        is_of = not plan.task and sizes[plan.owner, plan.transaction] > 1
        task = Task(plan.owner, plan.task, plan.transaction if is_of else "")
        begun.setdefault(task, (-plan.created_ms, plan.id))
        tasks.append((task, entry))

    return sorted(
        tasks,
        key=lambda of: (
            begun[of[0]],
            str(of[1].plan.request.path),
            of[1].plan.created_ms,
            of[1].plan.id,
        ),
    )


_ENDED = {
    "applied": "It was applied.",
    "unsure": "It is in doubt whether it was written: look at the file.",
    "discarded": "It was discarded.",
    "expired": "It expired.",
    "": "There is no such plan, or it ended long ago.",
}
_OTHERS = (
    "edits of yours like this one are approved by another person, or by you with a one-time token"
    " that copydesk serve prints, or at a terminal (copydesk review)."
)
_CHANGED = {
    "conflict_markers": "the lines that it relies on are between conflict markers now.",
    "gone": "the lines that it relies on are not there any more.",
    "indented": "the lines that it relies on were indented anew.",
    "owner": "equal lines stand there, but in another function or section.",
    "parted": "something was put between the lines that it relies on.",
}


def words_of(refusal: Refusal) -> str:
    """The refusal in a sentence or two, for the person at the page."""
    match refusal:
        case AlreadyDecided():
            return phrase(
                "{name} was first: this plan is {verdict}.",
                name=refusal.by,
                verdict=translated(refusal.verdict.replace("_", " ")),
            )
        case HunkNotFound() | InvalidHunkId():
            return translated(_ENDED.get(getattr(refusal, "reason", ""), _ENDED[""]))
        case ContentChanged(reason=reason):
            return translated(_CHANGED.get(reason, f"{say_reason(reason, LANG.get())}."))
        case AmbiguousMatch():
            return translated("its lines could now be in more than one place.")
        case AccessDenied(operation="approve"):
            return translated(_OTHERS)
        case FileNotFound():
            return translated("the file is not there any more.")
        case _:
            return refusal_words(refusal, LANG.get())


MOST_ROWS: Final = 2_000
"""A diff with more rows is shown in part."""

MOST_LISTED: Final = 100
"""Plans on one page of the list, edits on one of the history."""

_PART_ROWS: Final = 5_000
"""Rows of one part of "Show all"."""

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
_MOST_FILES: Final = 300
MOST_TOGETHER: Final = 100


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
        return PlanFilter(
            *(self.query.get(name, "")[:200] for name in ("path", "member", "tool", "state"))
        )

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
            "waiting": _undecided(self.review.pending(self.member)) if waiting is None else waiting,
            "changed": sum(task.open for task in self.reviewer.changes(is_fresh=False)),
            "now_ms": opened.clock(),
            "notices": () if self.is_partial else session.take_notices(),
        }
        page = render(template, frame=frame, title=title, here=here, wide=wide, **values)
        return HTMLResponse(page.encode("utf-8", "backslashreplace"), status)


Action = Callable[[RequestContext], str]
"""What a form does; returns the address of the page that follows."""


def number(text: str, default: int, digits: int = 7) -> int:
    """The number that the text is, in so many ASCII digits at most; otherwise the default."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits else default


def _undecided(plans: Iterable[Item | Waiting]) -> int:
    return sum(plan.decision is None for plan in plans)


def _file(data: bytes, name: str) -> Response:
    """A file to save."""
    return Response(
        data,
        media_type="text/plain; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _of_file(view: Callable[[RequestContext], Response]) -> Callable[[RequestContext], Response]:
    """Wrap a view; a refusal is a line of text."""

    def shown(ctx: RequestContext) -> Response:
        try:
            return view(ctx)
        except Refusal as refusal:
            return PlainTextResponse(f"{refusal.code}: {words_of(refusal)}\n", 404)

    return shown


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

    @property
    def query(self) -> dict[str, str]:
        """The filter as the query of an address."""
        return {name: value for name, value in asdict(self).items() if value}

    def takes(self, item: Item) -> bool:
        """Whether the plan is listed."""
        is_there = (
            f"/{item.path}/".startswith(self.path.rstrip("/") + "/")
            if self.path.startswith("/")
            else self.path.lower() in item.path.lower()
        )
        return is_there and self.takes_otherwise(item)

    def takes_otherwise(self, item: Item) -> bool:
        """Whether the plan is listed if its path is."""
        is_of = self.member in ("", item.plan.owner) and self.tool in ("", item.plan.tool)
        also = {_EXPIRING: item.expires_soon, _BROKEN: item.breaks > 0}.get(self.state, False)
        has_state = also or self.state in (self.tab, "open", item.state)
        return is_of and self.tab == item.verdict and has_state

    @property
    def tab(self) -> str:
        """The tab of the list: "" for undecided plans, otherwise the decision."""
        return self.state if self.state in dict(_TABS) else ""


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
        return DiffOptions(
            "unified" if query.get("view") == "unified" else "split",
            min(max(number(query.get("context", ""), 0), CONTEXTS[0]), CONTEXTS[-1]),
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
    return model.rows <= (_PART_ROWS if options.part else MOST_ROWS) and (
        options.part > 0 or not model.is_cut
    )


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
    return ctx.session.show_part(shown.seen, options.context, options.part, _parts_of(model.rows))


def pending(ctx: RequestContext) -> Response:
    """A page of the list of plans."""
    items, wanted = ctx.reviewer.items(), ctx.wanted
    listed = [item for item in items if wanted.takes(item)]
    members = {item.plan.owner for item in items} | {wanted.member} - {""}
    tools = {item.plan.tool for item in items} | {wanted.tool} - {""}
    verdicts = Counter(item.verdict for item in items)
    pages = max(-(-len(listed) // MOST_LISTED), 1)
    page = min(max(number(ctx.query.get("page", ""), 1), 1), pages)
    start = (page - 1) * MOST_LISTED
    tasks = {task: [*plans] for task, plans in groupby(listed, lambda item: item.task)}
    rows = groupby(listed[start : start + MOST_LISTED], lambda item: item.task)
    tree = _tree([item.path for item in items if wanted.takes_otherwise(item)], wanted)
    return ctx.page(
        "pending.html",
        phrase("Pending"),
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
        members=[(name, name) for name in sorted(members)],
        tools=[(name, tool_words(name)) for name in sorted(tools)],
        states=[(state, translated(words)) for state, words in _STATES],
        soon=sum(item.expires_soon for item in listed),
        broken=sum(item.breaks > 0 for item in listed),
    )


def _group(ctx: RequestContext, items: Sequence[Item], rows: Iterable[Item]) -> Values:
    """The plans of one member and task in the list, and the rows of those on this page."""
    task, query, viewed = items[0].task, tuple(ctx.wanted.query.items()), ctx.session.viewed
    together = [("hunk", item.plan.id) for item in items[:MOST_TOGETHER]]
    return {
        "key": digest("\0".join(task)).hex()[:12],
        "task": task,
        "summary": _in_files(named(len(items), "plan"), len({item.path for item in items})),
        "counts": tuple(map(sum, zip(*(item.counts for item in items), strict=True))),
        "together": f"/together?{urlencode([*query, *together])}",
        "rows": [
            _row(item, query, (version_of(item.plan), item.state) in viewed, LANG.get())
            for item in rows
        ],
    }


def _in_files(plans: str, files: int) -> str:
    return phrase("{plans} in {files}", plans=plans, files=named(files, "file"))


@lru_cache(maxsize=4_096)  # else a list of 100 plans takes five times as long
def _row(item: Item, query: tuple[tuple[str, str], ...], viewed: bool, _: Lang) -> Markup:
    return render("pending_row.html", item=item, query=dict(query), viewed=viewed)


def _note(every: int, items: Sequence[Item], start: int) -> str:
    plans = named(every, "plan")
    if len(items) < every:
        plans = phrase("{count:,} of {plans}", count=len(items), plans=plans)
    words = _in_files(plans, len({item.path for item in items}))
    if len(items) > MOST_LISTED:
        words += phrase(
            "; {first:,}–{last:,} are listed",
            first=start + 1,
            last=min(start + MOST_LISTED, len(items)),
        )
    return words if every else ""


def _tree(paths: Sequence[str], wanted: PlanFilter) -> list[Values]:
    """The files and their folders; a folder with a single subfolder is joined with it.

    `depth` is that of the row, `plans` the number of plans of the file or below the folder.
    """
    counts = Counter(paths)
    below: Counter[str] = Counter()
    children: defaultdict[str, set[str]] = defaultdict(set)
    for path, count in counts.items():
        for folder, child in pairwise(("", *accumulate(path.split("/"), "{}/{}".format))):
            below[folder] += count
            children[folder].add(child)

    def rows(path: str, above: str, depth: int) -> Iterator[Values]:
        inside = children.get(path, set())
        if len(inside) == 1 and path not in counts and inside <= children.keys():
            yield from rows(min(inside), above, depth)
            return
        if path:
            name = path[len(above) :].lstrip("/") + "/" * (path in children)
            target = "" if wanted.path == f"/{path}" else f"/{path}"
            yield {
                "name": name,
                "depth": min(depth, 6),
                "href": address(**{**wanted.query, "path": target}),
                "is_current": not target,
                "plans": below[path] or counts[path],
            }
        for each in sorted(inside, key=lambda each: (each not in children, each)):
            yield from rows(each, path, depth + bool(path))

    return [*rows("", "", 0)]


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
    draft, content, comments = (
        shown.draft,
        shown.plan.request.text,
        ctx.review.comments(shown),
    )
    if shown.state == "conflict" or not _can_be_edited(content):
        content = None
    is_whole = isinstance(draft.base, Snapshot) and not shown.plan.request.in_notes
    splits = not draft.created and is_whole and len(draft.regions_apart) > 1
    conflict = conflict_of(shown)
    is_open = shown.decision is None and rights.decide is None and rights.apply is None
    in_parts = splits and is_open and not unseen and not options.space
    heads = _part_forms(ctx, shown, model) if in_parts else []
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
        new_plan=conflict.new_plan if conflict else _whole_text(shown),
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
    is_there = not shown.draft.created and shown.state != "conflict"
    if not (is_several and is_there and isinstance(base, Snapshot) and isinstance(after, Snapshot)):
        return None
    start, stop = regions[0].start, regions[-1].stop
    if start == stop:  # the new plan replaces one line at least
        start, stop = max(start - 1, 0), min(stop + (not start), base.line_count)
    grown = after.line_count - base.line_count
    text = after.encoding.decode(after.raw(start, stop + grown)).replace("\r\n", "\n")
    return NewPlan(start + 1, stop, text) if start < stop and _can_be_edited(text) else None


def _part_forms(ctx: RequestContext, shown: Shown, model: DiffModel) -> list[Markup]:
    """The form of each part of the diff, to decide on it alone."""
    counts = [sum(not block.is_context for block in hunk.blocks) for hunk in model.hunks]
    if len(counts) < 2 or sum(counts) != len(shown.draft.regions_apart):
        return []
    return [
        render(
            "part.html",
            plan_id=shown.plan.id,
            parts=range(stop - count, stop),
            csrf=ctx.session.csrf,
            query=ctx.wanted.query,
            seen=shown.seen,
        )
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
        "position": phrase("{at:,} of {count:,}", at=at, count=len(listed)),
    }


def _no_hunk(ctx: RequestContext, refusal: Refusal, items: Sequence[Item]) -> Response:
    """The page of a plan that is no longer pending, or that cannot be shown."""
    entry = item = None
    title = phrase("This plan is no longer pending.")
    if not isinstance(refusal, HunkNotFound):
        title = phrase("This plan cannot be shown.")
        item = next((item for item in items if item.plan.id == ctx.hunk_id), None)
    elif refusal.reason in ("applied", "unsure"):
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
    return ctx.page(
        "gone.html",
        title,
        here,
        status=status,
        waiting=waiting,
        words=words,
        edit_id=edit_id,
        item=item,
        query=query,
    )


def diff(ctx: RequestContext) -> Response:
    """The diff of a plan as a file."""
    return _file(ctx.reviewer.show(ctx.hunk_id).diff, f"{ctx.hunk_id}.diff")


def together(ctx: RequestContext) -> Response:
    """Several plans on one page, to apply together or decide on one by one."""
    chosen = list(dict.fromkeys(ctx.hunk_ids))[:MOST_TOGETHER]
    if not chosen:
        return RedirectResponse("/", 303)
    options = DiffOptions.of(ctx.query)
    plans: list[tuple[Shown, DiffModel, Values]] = []
    refused: list[tuple[str, str]] = []
    for hunk_id in chosen:
        try:
            shown = ctx.reviewer.show(hunk_id)
        except Refusal as refusal:
            refused.append((hunk_id, words_of(refusal)))
            continue
        model, decision = model_of(shown, options), shown.decision
        path = str(shown.plan.request.path)
        barred = shown.refusal or ctx.review.rights(ctx.member, shown, len(chosen)).apply
        if shown.refusal is None and decision and decision.verdict != "approved":
            verdict = decision.verdict.replace("_", " ")
            refused.append((path, phrase(f"{verdict} by {{name}}", name=decision.by)))
        elif barred is not None:
            refused.append((path, words_of(barred)))
        unseen = _remember_shown(ctx, shown, model, options)
        was_shown = not unseen or shown.seen in ctx.session.seen
        alone = ctx.review.rights(ctx.member, shown)
        may_approve = shown.refusal is None and decision is None and alone.approve is None
        may = {
            "was_shown": was_shown,
            "can": decision is None and alone.decide is None,
            "can_approve": may_approve and was_shown,
            "rest": " ".join(other for other in chosen if other != hunk_id),
        }
        plans.append((shown, model, may))
    refused += [
        (hunk_id, phrase("at most {count} plans are applied together", count=MOST_TOGETHER))
        for hunk_id in ctx.hunk_ids[MOST_TOGETHER : MOST_TOGETHER + 1]
    ]
    size = sum(shown.draft.base.size + shown.draft.after.size for shown, _, _ in plans)
    return ctx.page(
        "together.html",
        phrase("Together"),
        "pending",
        wide=True,
        plans=[
            {**_plan_values(shown, model, options, ctx.wanted, size=size), **may}
            for shown, model, may in plans
        ],
        broken_count=sum(bool(shown.checks) for shown, _, _ in plans),
        refused=refused,
        can=bool(plans) and not refused and all(may["was_shown"] for *_, may in plans),
        can_approve=bool(plans) and all(may["can_approve"] for *_, may in plans),
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
        edits = ctx.desk.history.page(ctx.member, where, member or None, MOST_LISTED, below)
        members = {*settings.members, settings.member, *(edit.member for edit in edits.edits)}
    except Refusal as refusal:
        why = words_of(refusal)
    return ctx.page(
        "history.html",
        phrase("History"),
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
        return gone(ctx, phrase("This edit cannot be shown."), words_of(refusal))
    opened, options, edit_id = ctx.reviewer.opened, DiffOptions.of(ctx.query), str(entry.edit_id)
    encoding = encoding_of_diff(entry.diff, opened.settings.encoding_of(entry.path))
    model = of_diff(entry.diff, encoding)
    model = model.without_space() if options.space else model
    part = _part(model, options)
    return ctx.page(
        "edit.html",
        phrase("Edit {edit}", edit=edit_id),
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
    return _file(ctx.desk.history.entry(ctx.member, ctx.edit_id).diff, f"edit-{ctx.edit_id}.diff")


def described(plan: Plan) -> str:
    """The effect of the plan, in words."""
    place, request = plan.place, plan.request
    old = place.stop - place.start
    runs = bool(request.modes and request.modes[1] & 0o111)
    created = "creates an executable file" if request.is_executable else "creates the file"
    effects = (
        (plan.base_digest is None, created),
        (request.target is not None, "moves the file to {target}"),
        (request.deletes, "deletes the file"),
        (runs, "makes it executable"),
        (request.modes is not None, "makes it not executable"),
        (plan.action == "append", "appends at the end"),
        (not old and not place.start, "inserts at the start"),
        (not old, "inserts after line {line}"),
        (bool(place.parts), "makes {count}"),
        (plan.action == "delete" and old == 1, "deletes line {first}"),
        (plan.action == "delete", "deletes lines {first}–{last}"),
        (old == 1, "replaces line {first}"),
        (True, "replaces lines {first}–{last}"),
    )
    words = next(words for holds, words in effects if holds)
    return phrase(
        words,
        target=request.target,
        line=place.start,
        first=place.start + 1,
        last=place.stop,
        count=named(max(len(place.parts), place.candidates), "replacement"),
    )


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
    return words if name == tool else phrase("{tool} (team)", tool=words)


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
        words = marked_up(
            "The file is moved to {path}, with all its bytes.", path=str(draft.request.target)
        )
    elif modes := draft.request.modes:
        words = marked_up(
            "The mode of the file becomes {mode}; its bytes stay.", mode=f"{modes[1] & 0o777:o}"
        )
    elif is_binary_deletion(draft):
        words = marked_up(
            "A binary file of {size} is deleted. An undo restores it.",
            size=named(draft.base.size, "byte"),
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
            *(check_words(finding, LANG.get()) for finding in shown.checks or ()),
        ],
    }


def _by_line(shown: Shown, comments: Sequence[Decision]) -> Mapping[str, list[Decision]]:
    """The comments on this version of the plan by their lines, as `-3` and `+4`."""
    placed: defaultdict[str, list[Decision]] = defaultdict(list)
    for said in comments:
        if said.time_ms >= shown.plan.created_ms:
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
    sides = {
        "before": not shown.draft.created,
        "after": not (request.deletes or request.target or request.modes),
    }
    return [
        (side.capitalize(), address("hunk", shown.plan.id, "image", side))
        for side, is_there in sides.items()
        if is_there
    ]


def image(ctx: RequestContext) -> Response:
    """The image that the plan changes, before or after; nothing in it can run."""
    shown = ctx.reviewer.show(ctx.hunk_id)
    side = shown.draft.base if ctx.path_params["side"] == "before" else shown.draft.after
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
        words = phrase(
            "Show rows {first:,}–{last:,} of {rows:,}",
            first=(at - 1) * _PART_ROWS + 1,
            last=min(at * _PART_ROWS, rows),
            rows=rows,
        )
        return address(*here, **shown, **query), words

    href, words = part(unseen or 1)
    if not options.part and rows <= _PART_ROWS:
        words = phrase("Show all {rows}", rows=named(rows, "row"))
    beside = (options.part - 1, options.part + 1) if options.part else ()
    return {
        "href": href,
        "words": words,
        "neighbours": [part(at) for at in beside if 1 <= at <= _parts_of(rows)],
    }


def side_colours(
    path: str, base: Source, after: Source, model: DiffModel, size: int | None = None
) -> tuple[Colours, Colours] | None:
    """The colours of both texts; for large ones only of lines shown, None if unknown."""
    if not isinstance(base, Snapshot) or not isinstance(after, Snapshot):
        return None
    most = base.size + after.size if size is None else size

    def colours(side: Snapshot, shown: Iterable[DiffLine]) -> Colours:
        """Those of all lines of a text, or of the lines shown with some before them."""
        text = side.unmarked()
        wanted: Iterable[int] = range(1, text.line_count + 1)
        if most > MOST_COLOURED:
            runs = (
                range(max(line.number - _COLOURED_BEFORE, 1), line.number + 1) for line in shown
            )
            wanted = sorted({number for run in runs for number in run})
        return colours_of(path, [DiffLine(at, text.text(at - 1), "lf") for at in wanted])

    return colours(base, model.lines("old")), colours(after, model.lines("new"))


cast("dict[str, object]", ENVIRONMENT.filters).update(
    {"described": described, "expires_soon": expires_soon, "tool_words": tool_words}
)


_STEPS: Final = (
    *(HOUR_MS // 12, HOUR_MS // 4, HOUR_MS, 3 * HOUR_MS, 12 * HOUR_MS),
    *(DAY_MS, 7 * DAY_MS),
)
_MOST_COLUMNS: Final = 60
_MOST_SERIES: Final = 6
_LEFT, _WIDTH, _FLOOR, _HEIGHT = 32, 732, 176, 166
"""The plotting area within the drawing of `trends.html`, which is 800 by 200."""


def trends(ctx: RequestContext) -> Response:
    """The page of trends."""
    entries, results = ctx.reviewer.past()
    return ctx.page(
        "trends.html",
        phrase("Trends"),
        "trends",
        any=bool(entries or results),
        edits=len(entries),
        plot=_over_time(entries, ctx.reviewer.opened.clock()) if entries else None,
        members=_shares("member", [(by, how) for by, _, how in results], 100),
        files=_shares("path", [(path, how) for _, path, how in results], 15),
    )


def _over_time(entries: Sequence[Entry], now_ms: int) -> Values:
    """The plot: stacked columns, each for an equal length of time."""
    first = min(entry.time_ms for entry in entries)
    step = next((s for s in _STEPS if (now_ms - first) // s < _MOST_COLUMNS), _STEPS[-1])
    count = max(now_ms // step - max(first // step, now_ms // step - _MOST_COLUMNS + 1) + 1, 12)
    start = now_ms // step - count + 1
    series = [name for name, _ in Counter(entry.member for entry in entries).most_common()]
    if len(series) > _MOST_SERIES:
        series[_MOST_SERIES - 1 :] = [phrase("others")]
    places = {name: at for at, name in enumerate(series)}
    cells = Counter(
        (min(entry.time_ms // step - start, count - 1), places.get(entry.member, len(series) - 1))
        for entry in entries
        if entry.time_ms // step >= start
    )
    heights = [sum(cells[column, at] for at in range(len(series))) for column in range(count)]
    top, wide = _round_up(max(heights)), _WIDTH / count
    form = "%m-%d" if step >= DAY_MS else "%m-%d %H:%M"
    starts = (time.gmtime((start + column) * step // 1000) for column in range(count))
    times = [time.strftime(form, at) for at in starts]
    bars: list[Mapping[str, str]] = []
    for (column, at), value in sorted(cells.items()):
        below = sum(cells[column, other] for other in range(at))
        top_y = _y(below + value, top)
        bars.append(
            {
                "kind": f"e{at}",
                "words": phrase(
                    "{time}: {edits} by {name}",
                    time=times[column],
                    edits=named(value, "edit"),
                    name=series[at],
                ),
                "x": _n(_LEFT + column * wide + wide * 0.12),
                "width": _n(wide * 0.76),
                "y": _n(top_y),
                "height": _n(_y(below, top) - top_y),
            }
        )
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
    ranked = sorted(
        tallies.items(), key=lambda pair: (-pair[1][1] - pair[1][2], -sum(pair[1]), pair[0])
    )
    longest = max(map(sum, tallies.values()), default=0)
    rows: list[Values] = []
    for name, tally in ranked[:most]:
        starts = accumulate(tally, initial=0)
        bars = [
            {"kind": kind, "x": _n(100 * start / longest), "width": _n(100 * value / longest)}
            for kind, value, start in zip(("exact", "fuzz", "no"), tally, starts, strict=False)
            if value
        ]
        rows.append(
            {
                "name": name,
                "address": address("history", **{key: name}),
                "bars": bars,
                "counts": tally,
            }
        )
    return {"rows": rows, "more": len(ranked) - most}


def _y(value: int, top: int) -> float:
    return _FLOOR - value * _HEIGHT / top


def _round_up(most: int) -> int:
    """An even number that is at least `most` and has few non-zero digits."""
    size: int = 10 ** (len(str(max(most - 1, 1))) - 1)
    return next((m * size for m in (2, 4, 6, 8, 10) if m * size >= most), 20 * size)


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


_ROWS_OF_CHANGES: Final = 1_000
"""Once a page has so many rows, further files are only named."""

_FIRST_ROWS: Final = 300
"""So many are there at first; the page's script asks for the others at once.

A hunk with more rows is shown in part; the plain text has all of it.
"""

_MOST_REWRITTEN: Final = 200_000
_MOST_NAMED: Final = 3
_VERBS: Final = {
    "create": "Created",
    "remove": "Removed",
    "move": "Moved",
    "content": "Content changed",
}


def changes(ctx: RequestContext) -> Response:
    """The tasks with open changes, or the changes of the task in the query."""
    query = _query(ctx)
    try:
        if query:
            return _review(ctx, query)
    except Refusal as refusal:
        ctx.session.notify("bad", words_of(refusal))
    tasks = ctx.reviewer.changes()
    return ctx.page(
        "changes.html",
        phrase("Changes"),
        "changes",
        tasks=[(title_of(task), task, task.lines, _files_of(task)) for task in tasks],
        count=sum(task.open for task in tasks),
        older=ctx.desk.changes.older(ctx.member),
    )


def _query(ctx: RequestContext) -> dict[str, str]:
    """Which changes are looked at, as the query of an address; empty for the list of tasks."""
    return {
        name: ctx.query[name][:1000] for name in ("task", "path", "since") if ctx.query.get(name)
    }


def _selection(query: Mapping[str, str]) -> Selection:
    """Raises Refusal for an invalid path."""
    path = RelPath.parse(query["path"]) if "path" in query else None
    return Selection(
        task=query.get("task", ""), path=path, since_ms=number(query.get("since", ""), 0, 15)
    )


def title_of(task: TaskChanges) -> str:
    """What a task is called: its name, else why it was begun, else whose session it is."""
    return task.name or task.why or phrase("a session of {name}", name=task.member)


def _files_of(task: TaskChanges) -> str:
    names, left = (
        ", ".join(str(file.path) for file in task.files[:_MOST_NAMED]),
        task.files[_MOST_NAMED:],
    )
    return names + (phrase(" and {count:,} more", count=len(left)) if left else "")


def _review(ctx: RequestContext, query: Mapping[str, str]) -> Response:
    """The page of the changes that are selected, file by file."""
    tasks = {task.key: task for task in ctx.reviewer.changes(is_fresh=set(query) == {"task"})}
    task = tasks.get(query.get("task", ""))
    files = (
        tuple(sorted(task.files, key=lambda file: file.path))
        if task and set(query) == {"task"}  # what it would be asked for was just computed
        else ctx.desk.changes.view(ctx.member, _selection(query))
    )
    refused, others = ctx.session.refused
    style = DiffOptions.of(ctx.query).view
    size = sum(file.base.size + file.now.size for file in files)
    rows = _ROWS_OF_CHANGES if ctx.is_partial else _FIRST_ROWS
    shown: list[Values] = []
    views: list[Values] = []
    for at, file in enumerate(files):
        hunks = _hunks(ctx.desk.changes.checked(file), size, style) if rows > 0 else []
        rows -= sum(hunk["rows"] for hunk in hunks)
        shown += hunks
        path = str(file.path)
        views.append(
            {
                "file": file,
                "path": path,
                "counts": file.lines,
                "id": f"file-{at}",
                "ids": " ".join(hunk.id for hunk in file.hunks),
                "href": f"#file-{at}" if hunks else address("changes", **{**query, "path": path}),
                "hunks": hunks,
            }
        )
    ids = [hunk["id"] for hunk in shown]
    for hunk, onward in zip(shown, [*ids[1:], ""], strict=False):
        hunk |= {"onward": onward, "refused": refused.get(hunk["id"], "")}
    open_ = {hunk.id: hunk for file in files for hunk in file.hunks}
    return ctx.page(
        "change.html",
        title_of(task) if task else phrase("Changes"),
        "changes",
        wide=True,
        task=task,
        files=views,
        query=query,
        shown=ids,
        left=len(open_) - len(ids),
        view=style,
        refused=[(open_[hunk_id], words) for hunk_id, words in refused.items() if hunk_id in open_],
        others=[hunk_id for hunk_id in others.split() if hunk_id in open_],
        may=ctx.reviewer.person.policy.asks_nobody,
    )


def _hunks(file: FileChanges, size: int, style: View) -> list[Values]:
    """What the template is given of each hunk of a file, with its diff rendered.

    `size` is that of all texts of the page: of many, only the lines shown are coloured.
    """
    placed = [hunk for hunk in file.hunks if hunk.kind != "move" and file.by_lines]
    spans = [(hunk.new_line, hunk.new_line + len(hunk.new)) for hunk in placed]
    ends = [0, *(stop for _, stop in spans)]
    starts = [*(start for start, _ in spans[1:]), file.now.line_count]
    text = file.base if file.kind == "remove" else file.now
    withins = [
        (max(start - CONTEXT, low), min(stop + CONTEXT, high))
        for (start, stop), low, high in zip(spans, ends, starts, strict=False)
    ]
    models = [
        of_place(text, hunk.old, hunk.old_line, span, within)
        for hunk, span, within in zip(placed, spans, withins, strict=True)
    ]
    parts = [model.first(_FIRST_ROWS) for model in models]
    path, every = str(file.path), DiffModel(tuple(hunk for part in parts for hunk in part.hunks))
    is_small = size <= MOST_COLOURED
    colours = side_colours(path, file.base, file.now, every, size) if is_small else None
    diffs = [table(path, part, style, colours=colours) for part in parts]
    left = [model.rows - part.rows for model, part in zip(models, parts, strict=True)]
    hunks = zip_longest(file.hunks, diffs, parts, left)  # a move comes last, and has no lines
    return [
        {
            "id": hunk.id,
            "hunk": hunk,
            "edits": hunk.edits[-_MOST_NAMED:][::-1],
            "more": max(len(hunk.edits) - _MOST_NAMED, 0),
            "verb": _VERBS.get(hunk.kind, ""),
            "touched_by": ", ".join(map(translated, hunk.touched_by)),
            "findings": [check_words(finding, LANG.get()) for finding in hunk.checks],
            "diff": diff,
            "rows": part.rows if part else 1,
            "left": left,
            "is_cut": any(len(line) > LONG for line in (*hunk.old, *hunk.new)),
            "content": (content := _content(file, hunk)),
            "hidden_count": hidden_in(content or ""),
        }
        for hunk, diff, part, left in hunks
    ]


def _content(file: FileChanges, hunk: ChangedHunk) -> str | None:
    """The new lines, to be edited; None if that cannot be, as a browser changes line ends."""
    lines = b"".join(hunk.new)
    if hunk.kind not in ("text", "create") or not file.by_lines or len(lines) > _MOST_REWRITTEN:
        return None
    text = file.now.encoding.decode(lines).replace("\r\n", "\n")
    return text if _can_be_edited(text) else None


def diff_changes(ctx: RequestContext) -> Response:
    """The changes that are selected as a file, as `git apply` takes them."""
    return _file(
        b"".join(file.diff for file in ctx.desk.changes.view(ctx.member, _selection(_query(ctx)))),
        "changes.diff",
    )


def _action(action: Callable[[RequestContext, Selection, Sequence[str]], None]) -> Action:
    """Wrap an action on hunks; the next page is that from which the form was sent."""

    def act(ctx: RequestContext) -> str:
        query = _query(ctx)
        ctx.session.refused = {}, ""
        try:
            action(ctx, _selection(query), ctx.field("hunks").split())
        except Refusal as refusal:
            ctx.session.notify("bad", words_of(refusal))
        onward = ctx.field("onward")
        return address("changes", **query) + (f"#change-{onward}" if onward.isalnum() else "")

    return act


@_action
def keep_changes(ctx: RequestContext, what: Selection, hunks: Sequence[str]) -> None:
    """Keep the hunks."""
    count = ctx.desk.changes.keep(ctx.reviewer.person, what, hunks)
    if count:
        ctx.session.notify("good", phrase("{changes} kept.", changes=named(count, "change")))
    _tell_missing(ctx, len(hunks) - count)


@_action
def undo_changes(ctx: RequestContext, what: Selection, hunks: Sequence[str]) -> None:
    """Undo the hunks, all or none; or those that can be undone, if the person said so."""
    open_ = {hunk.id for file in ctx.desk.changes.view(ctx.member, what) for hunk in file.hunks}
    wanted = open_.intersection(hunks)
    outcome = ctx.desk.changes.undo(
        ctx.reviewer.person,
        what,
        wanted,
        reason=ctx.field("text"),
        partly=bool(ctx.field("partly")),
    )
    refused = {hunk.id: words_of(refusal) for hunk, refusal in outcome.refused}
    if refused:
        others = () if outcome.written else wanted.difference(refused)
        ctx.session.refused = refused, " ".join(others)
    _tell(
        ctx,
        outcome,
        ("{changes} undone, by edit {ids}.", "{changes} undone, by edits {ids}."),
        named(len(wanted.difference(refused)), "change"),
    )
    _tell_missing(ctx, len(hunks) - len(wanted))


@_action
def edit_changes(ctx: RequestContext, what: Selection, hunks: Sequence[str]) -> None:
    """Write the person's text in place of a hunk."""
    person, text = ctx.reviewer.person, ctx.field("content")
    outcome = ctx.desk.changes.rewrite(person, what, "".join(hunks), text)
    for _, refusal in outcome.refused:
        ctx.session.notify("bad", phrase("Your text was not written: {why}", why=words_of(refusal)))
    _tell(ctx, outcome, ("Your text is written, by edit {ids}.",))


@_action
def comment_changes(ctx: RequestContext, what: Selection, hunks: Sequence[str]) -> None:
    """Comment on a hunk."""
    ctx.desk.changes.comment(ctx.reviewer.person, what, "".join(hunks), ctx.field("text"))
    ctx.session.notify("plain", phrase("Your comment is told with the next call."))


def _tell(
    ctx: RequestContext, outcome: UndoneChanges, words: Sequence[str], changes: str = ""
) -> None:
    """Tell on the next page what was written, by one edit or by several, or why nothing was."""
    ids = [str(edit.edit_id) for edit in outcome.written]
    if outcome.waiting:
        ctx.session.notify("plain", phrase("It is done when it is approved: see Pending."))
    elif ids:
        undo = address("edit", *ids, "undo") if len(ids) == 1 else ""
        done = words[0] if len(ids) == 1 else words[-1]
        ctx.session.notify("good", phrase(done, changes=changes, ids=", ".join(ids)), undo)


def _tell_missing(ctx: RequestContext, count: int) -> None:
    if count:
        words = "{changes} had changed or gone since this was shown to you."
        ctx.session.notify("bad", phrase(words, changes=named(count, "change")))


def approve(ctx: RequestContext) -> str:
    """Approve the plan for the bytes that were shown."""
    seen = _seen(ctx)
    if not _was_shown(ctx, seen):
        return _here(ctx)
    _tell_decision(ctx, ctx.review.approve(ctx.member, *seen), seen)
    return _next(ctx)


_DECIDED: Final = {
    "approved": ("good", "{path} is approved. {owner} is told with its next call."),
    "rejected": ("plain", "{path} is rejected. {owner} is told with its next call."),
    "changes_requested": ("plain", "{path} needs changes. {owner} is told with its next call."),
}


def _tell_decision(ctx: RequestContext, decision: Decision, seen: Seen) -> None:
    """Say what was decided, on the next page, where it can be taken back."""
    kind, words = _DECIDED[decision.verdict]
    said = phrase(words, path=decision.path, owner=decision.owner)
    ctx.session.notify(kind, said, "/withdraw", seen)


def apply(ctx: RequestContext) -> str:
    """Approve the plan and write it at once."""
    seen = _seen(ctx)
    return _next(ctx) if _was_shown(ctx, seen) and _apply(ctx, [seen]) else _here(ctx)


def _apply(ctx: RequestContext, seen: Sequence[Seen]) -> bool:
    """Write plans as shown, all or none, and tell it on the next page; whether it was done."""
    outcome = ctx.review.apply(ctx.member, seen)
    if isinstance(outcome, Transacted):
        ctx.session.notify(
            "good", phrase("{plans} written as one.", plans=named(len(outcome.applied), "plan"))
        )
    elif isinstance(outcome, Applied):
        words, undo = "{path} is written, there was nothing to change.", ""
        if outcome.edit_id:
            words = "{path} is written, as edit {edit}."
            undo = address("edit", str(outcome.edit_id), "undo")
        facts = {"path": outcome.plan.request.path, "edit": outcome.edit_id}
        ctx.session.notify("good", phrase(words, **facts), undo)
    else:
        ctx.session.notify("bad", phrase(_NOT_WRITTEN, why=words_of(outcome.refusal)))
    return isinstance(outcome, Applied | Transacted)


_NOT_WRITTEN: Final = "Nothing was written: {why}"


def reject(ctx: RequestContext) -> str:
    """Reject the plan with a reason, or ask for a changed one."""
    _tell_decision(ctx, _reject(ctx, ctx.hunk_id), _seen(ctx))
    return _next(ctx)


def comment(ctx: RequestContext) -> str:
    """Comment on the plan, or on a line of it."""
    line = number(ctx.field("line").strip(), 0, 17) * (-1 if ctx.field("side") == "old" else 1)
    said = ctx.review.comment(ctx.member, ctx.hunk_id, ctx.field("text"), line)
    return _here(ctx, phrase("{owner} is told your comment with its next call.", owner=said.owner))


def withdraw(ctx: RequestContext) -> str:
    """Withdraw the reviewer's own decision."""
    ctx.review.withdraw(ctx.member, ctx.hunk_id)
    return _here(ctx, phrase("Your decision is withdrawn."))


def withdraw_all(ctx: RequestContext) -> str:
    """Withdraw the reviewer's own decisions on several plans, which are shown again."""
    return _each(
        ctx,
        "{plans} to be decided on again.",
        {
            each.hunk_id: partial(ctx.review.withdraw, ctx.member, each.hunk_id)
            for each in _several(ctx)
        },
        again=True,
    )


def extend(ctx: RequestContext) -> str:
    """Extend the life of the plan."""
    ctx.review.extend(ctx.member, ctx.hunk_id)
    return _here(ctx, phrase("The plan waits longer now."))


def extend_all(ctx: RequestContext) -> str:
    """Extend the life of all listed plans that expire soon."""
    wanted = ctx.wanted
    soon = [item for item in ctx.reviewer.items() if item.expires_soon and wanted.takes(item)]
    refused = _tried(
        ctx,
        ((item.path, partial(ctx.review.extend, ctx.member, item.plan.id)) for item in soon),
    )
    if extended := len(soon) - len(refused):
        words = "{plans} waits longer now." if extended == 1 else "{plans} wait longer now."
        ctx.session.notify("plain", phrase(words, plans=named(extended, "plan")))
    return address(**wanted.query if refused else {**wanted.query, "state": wanted.tab})


def amend(ctx: RequestContext) -> str:
    """Replace the plan's text; the next page shows it, not yet approved."""
    ctx.reviewer.amend(_seen(ctx), ctx.field("content"))
    return _here(ctx, phrase("This is the change with your text. It is not approved yet."))


def replan(ctx: RequestContext) -> str:
    """Replace a plan in conflict by one for the file as shown; the next page shows it."""
    ctx.review.replan(ctx.member, ctx.hunk_id, *map(ctx.field, ("now", "range", "content")))
    return _here(ctx, phrase("This is the new plan, with your text. It is not approved yet."))


def split(ctx: RequestContext) -> str:
    """Split the plan into one for each part that it changes; decide on those that are chosen."""
    chosen = {number(part, -1) for part in ctx.field("parts").split()}
    if chosen and ctx.reviewer.show(ctx.hunk_id).seen != _seen(ctx):
        raise ContentChanged("the file or the plan changed since it was shown")
    plans = ctx.review.split(ctx.member, ctx.hunk_id)
    if not chosen:
        ctx.session.notify(
            "plain",
            phrase(
                "It is {plans} now, each to be decided on alone.", plans=named(len(plans), "plan")
            ),
        )
        return address(path=str(plans[0].request.path))
    parts = [ctx.reviewer.show(plan.id).seen for at, plan in enumerate(plans) if at in chosen]
    ctx.session.seen.update(dict.fromkeys(parts))  # they were shown with the whole plan
    form = {
        "seen": [".".join(part) for part in parts],
        "rest": [" ".join(plan.id for at, plan in enumerate(plans) if at not in chosen)],
        "verdict": ["rejected"],
        "reason": [phrase("This part is not wanted.")],
    }
    decide = {"approve": approve_all, "apply": apply_all, "reject": reject_all}
    return decide[ctx.field("then")](replace(ctx, form=form))


def apply_all(ctx: RequestContext) -> str:
    """Approve several plans as shown, and write all or none."""
    seen = _several(ctx)
    is_done = False
    if _was_shown(ctx, *seen):
        try:
            is_done = _apply(ctx, seen)
        except Refusal as refusal:
            ctx.session.notify("bad", phrase(_NOT_WRITTEN, why=words_of(refusal)))
    ids = ctx.field("rest").split() if is_done else [each.hunk_id for each in seen]
    return _together(ctx, ids)


def approve_all(ctx: RequestContext) -> str:
    """Approve several plans as shown, each on its own."""
    seen = _several(ctx)
    if not _was_shown(ctx, *seen):
        return _together(ctx, [each.hunk_id for each in seen])
    approvals = {each.hunk_id: partial(ctx.review.approve, ctx.member, *each) for each in seen}
    return _each(ctx, "{plans} approved.", approvals)


def reject_all(ctx: RequestContext) -> str:
    """Reject several plans with one reason, or ask for changed ones."""
    is_last = ctx.field("verdict") != "changes_requested"
    words = "{plans} rejected." if is_last else "{plans} sent back."
    rejections = {each.hunk_id: partial(_reject, ctx, each.hunk_id) for each in _several(ctx)}
    return _each(ctx, words, rejections)


def undo(ctx: RequestContext) -> str:
    """Undo an edit."""
    edit_id = ctx.path_params["edit_id"]
    try:
        outcome = ctx.desk.undo(ctx.member, UNDO, ctx.edit_id)
        if isinstance(outcome, NotUndone):
            raise outcome.refusal
    except Refusal as refusal:
        ctx.session.notify("bad", phrase("It is not undone: {why}", why=words_of(refusal)))
        return address("edit", edit_id)
    if outcome.edit_id:
        ctx.session.notify("good", phrase("Edit {edit} is undone, by this one.", edit=edit_id))
    else:
        ctx.session.notify("plain", phrase("Nothing of it was left to undo."))
    return address("edit", str(outcome.edit_id or edit_id))


def _several(ctx: RequestContext) -> list[Seen]:
    return [Seen(*text.split(".")) for text in ctx.form.get("seen", []) if text.count(".") == 2]


def _together(ctx: RequestContext, hunk_ids: Sequence[str]) -> str:
    """The page of these plans; of no plan: the list."""
    hunks = [("hunk", hunk_id) for hunk_id in hunk_ids if hunk_id.isalnum()]
    query = urlencode([*ctx.wanted.query.items(), *hunks])
    return f"/together?{query}" if hunk_ids else address(**ctx.wanted.query)


def _each(
    ctx: RequestContext,
    done: str,
    decisions: Mapping[str, Callable[[], Decision | None]],
    *,
    again: bool = False,
) -> str:
    """Decide on each plan; refused ones are shown again, with the error, or all of them."""
    left = _tried(ctx, decisions.items())
    count = len(decisions) - len(left)
    if count:
        taken = [seen for seen in _several(ctx) if seen.hunk_id not in left]
        ctx.session.notify(
            "good", phrase(done, plans=named(count, "plan")), "" if again else "/withdraw", *taken
        )
    return _together(ctx, [*(decisions if again else left), *ctx.field("rest").split()])


def _tried(
    ctx: RequestContext, decisions: Iterable[tuple[str, Callable[[], object]]]
) -> Sequence[str]:
    """Make decisions that have names, and tell what is refused; return the names of those."""
    left: list[str] = []
    for name, decide in decisions:
        try:
            decide()
        except Refusal as refusal:
            left.append(name)
            ctx.session.notify("bad", f"{name}: {words_of(refusal)}")
    return left


def _reject(ctx: RequestContext, hunk_id: str) -> Decision:
    wants_changes = ctx.field("verdict") == "changes_requested"
    return ctx.review.reject(ctx.member, hunk_id, ctx.field("reason"), wants_changes=wants_changes)


def _writing(action: Action) -> Action:
    """Wrap an action; the next page also reports other programs' writes."""

    def act(ctx: RequestContext) -> str:
        location = action(ctx)
        words = [
            saved_words(
                write,
                phrase("undo edit {edit} under History", edit=write.edit_id),
                LANG.get(),
            )
            for write in ctx.desk.foreign.told(ctx.member)
        ]
        if words:
            ctx.session.notify("bad", " ".join(words))
        return location

    return act


_NOT_DECIDED: Final = (
    "Nothing was decided. The file or the plan changed after it was shown to you. This is how it is"
    " now."
)


def _of_plan(action: Action) -> Action:
    """Wrap an action; after a refusal the next page is the plan's, with the reason."""

    def act(ctx: RequestContext) -> str:
        try:
            return action(ctx)
        except ContentChanged:
            words = phrase(_NOT_DECIDED)
        except Refusal as refusal:
            words = words_of(refusal)
        return _here(ctx, words, "bad")

    return act


ACTIONS: Final[Mapping[str, Action]] = {
    "/hunk/{hunk_id}/approve": _of_plan(approve),
    "/hunk/{hunk_id}/apply": _writing(_of_plan(apply)),
    "/hunk/{hunk_id}/reject": _of_plan(reject),
    "/hunk/{hunk_id}/comment": _of_plan(comment),
    "/hunk/{hunk_id}/withdraw": _of_plan(withdraw),
    "/hunk/{hunk_id}/extend": _of_plan(extend),
    "/hunk/{hunk_id}/amend": _of_plan(amend),
    "/hunk/{hunk_id}/replan": _of_plan(replan),
    "/hunk/{hunk_id}/split": _of_plan(split),
    "/apply": _writing(apply_all),
    "/approve": approve_all,
    "/extend": extend_all,
    "/reject": reject_all,
    "/withdraw": withdraw_all,
    "/edit/{edit_id}/undo": _writing(undo),
    "/changes/keep": keep_changes,
    "/changes/undo": _writing(undo_changes),
    "/changes/edit": _writing(edit_changes),
    "/changes/comment": comment_changes,
}
"""The forms by address."""


def _seen(ctx: RequestContext) -> Seen:
    return Seen(ctx.hunk_id, ctx.field("before"), ctx.field("after"))


def _was_shown(ctx: RequestContext, *seen: Seen) -> bool:
    """Whether this session has seen each plan in full; if not, the next page has a notice."""
    was_shown = all(each in ctx.session.seen or _is_short(ctx, each) for each in seen)
    if not was_shown:
        words = (
            "Nothing was decided: not all of this change was shown to you. Show all of it first."
        )
        ctx.session.notify("bad", phrase(words))
    return was_shown


def _is_short(ctx: RequestContext, seen: Seen) -> bool:
    """Whether the default page shows the whole plan; a plan that is gone is refused later."""
    try:
        shown = ctx.reviewer.show(seen.hunk_id)
    except Refusal:
        return True
    options = DiffOptions()
    return shown.seen[1:] != seen[1:] or shows_all(model_of(shown, options), options)


def _here(ctx: RequestContext, words: str = "", kind: str = "plain") -> str:
    """The page of the same plan, with a notice."""
    if words:
        ctx.session.notify(kind, words)
    return address("hunk", ctx.hunk_id, **ctx.wanted.query)


def _next(ctx: RequestContext) -> str:
    """The next undecided plan on the page, if it is still pending; otherwise the list.

    From a page of several plans it is the page of the others.
    """
    if rest := ctx.field("rest").split():
        return _together(ctx, rest)
    onward = ctx.field("onward")
    parts: tuple[str, ...] = ()
    opened = ctx.reviewer.opened
    with suppress(Refusal):  # it waits no more
        parts = ("hunk", opened.registry.plan(checked_id(onward), opened.clock()).id)
    return address(*parts, **ctx.wanted.query)


VIEWS: Final[Mapping[str, Callable[[RequestContext], Response]]] = {
    "/": pending,
    "/together": together,
    "/history": history,
    "/changes": changes,
    "/changes/diff": _of_file(diff_changes),
    "/trends": trends,
    "/hunk/{hunk_id}": review,
    "/hunk/{hunk_id}/diff": _of_file(diff),
    "/hunk/{hunk_id}/image/{side}": _of_file(image),
    "/edit/{edit_id}": edit,
    "/edit/{edit_id}/diff": _of_file(edit_diff),
}
"""The views by address."""
