"""The Python API: one workspace, typed requests, typed answers.

Invariant: an argument of another type than the annotated one is a TypeError that names it, before
anything is done.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, partial, wraps
from inspect import Parameter, isfunction, signature
from itertools import chain, repeat
from math import inf
from types import UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from copydesk import errors
from copydesk.app.config import ConfigError, load
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.desk.backends.api import Decision, Entry
from copydesk.desk.changes import ChangedHunk, Changes, FileChanges, Selection, UndoneChanges
from copydesk.desk.desk import Rewrite
from copydesk.desk.history import Past
from copydesk.desk.member import Member
from copydesk.desk.outcome import (
    Applied,
    Created,
    NotUndone,
    Overwritten,
    Planned,
    Reading,
    Rejected,
    Saved,
    Transacted,
    Undone,
    Withheld,
)
from copydesk.desk.overwritten import OverwrittenEdit
from copydesk.desk.review import Review, Shown, Waiting
from copydesk.edit.draft import Draft, Plan, checked_id
from copydesk.edit.kinds.replace import compile_batch
from copydesk.edit.request import (
    Anchor,
    Append,
    BatchEdit,
    BlockReplace,
    ChangeMode,
    DeleteFile,
    Insert,
    MoveFile,
    Preconditions,
    RangeEdit,
    RangeEdits,
    ReplaceText,
    Request,
    StringEdit,
    Terms,
    check_text,
    check_why,
)
from copydesk.errors import *  # noqa: F403  # its public names are the library's
from copydesk.errors import FileNotFound, HunkNotFound, InvalidArgs, Refusal, check_cancelled
from copydesk.store.protocol import Closing
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot
from copydesk.tools.ws_mod import UNDO

__all__ = [
    "Anchor",
    "Append",
    "Applied",
    "BatchEdit",
    "BlockReplace",
    "ChangeMode",
    "ChangedHunk",
    "ChangesView",
    "ConfigError",
    "Created",
    "Decided",
    "Decision",
    "DeleteFile",
    "Desk",
    "Draft",
    "Entry",
    "Event",
    "FileChanges",
    "Insert",
    "MoveFile",
    "Overwritten",
    "OverwrittenEdit",
    "Past",
    "PathText",
    "Plan",
    "PlanOrId",
    "Planned",
    "RangeEdit",
    "RangeEdits",
    "Reading",
    "RelPath",
    "ReplaceText",
    "Request",
    "ReviewView",
    "Rewrite",
    "Saved",
    "Shown",
    "Snapshot",
    "StringEdit",
    "Transacted",
    "Undone",
    "UndoneChanges",
    "Waiting",
]
__all__ += errors.__all__

_Written = TypeVar("_Written", Applied, Transacted, Created, Overwritten, Undone, Rewrite)
_T = TypeVar("_T")
_LOOK_SECONDS = 0.1
_VERDICTS = ("approved", "rejected", "changes_requested")

PathText = str | os.PathLike[str]
"""A path of the workspace, relative to its root."""
PlanOrId = str | Plan | Planned
"""A plan, or its id."""


def _typed(of: type[_T]) -> type[_T]:
    """The class, with the types of what its public methods are given checked."""
    for name, method in [*vars(of).items()]:
        if isfunction(method) and (name == "__init__" or not name.startswith("_")):
            setattr(of, name, _checked(method))
    return of


def _checked(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method with its arguments checked; a refusal gets the `path` that was given, if any."""
    _, *parameters = signature(method).parameters.values()
    rest = next(
        (parameter.name for parameter in parameters if parameter.kind is Parameter.VAR_POSITIONAL),
        "",
    )
    names = [] if rest else [parameter.name for parameter in parameters]
    hints = cache(partial(get_type_hints, method))

    @wraps(method)
    def call(self: object, *args: object, **named: object) -> Any:
        given = [*zip(chain(names, repeat(rest)), args, strict=False), *named.items()]
        for name, value in given:
            _check(name, value, hints().get(name, object))
        try:
            return method(self, *args, **named)
        except Refusal as refusal:
            for name, value in given:
                if name in ("path", "request"):
                    vars(refusal)["path"] = str(getattr(value, "path", value))
            raise

    return call


def _check(name: str, value: object, hint: object) -> None:
    """Raise TypeError for a value that is not of the annotated type; requests are looked into."""
    if not _tester(hint)(value):
        wanted = hint.__name__ if isinstance(hint, type) else str(hint)
        wanted = re.sub(r"[\w.]+\.(?=\w)", "", wanted)
        raise TypeError(f"{name} must be {wanted}, not {type(value).__name__}: {value!r:.80}")
    for part in cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,):
        if isinstance(part, Request | Anchor | StringEdit):
            kind: object = type(part)
            for field, inner in _hints(kind).items():
                _check(field, getattr(part, field), inner)


@cache
def _hints(kind: Any) -> Mapping[str, object]:
    """The types of the fields of a request, or of a part of one."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


@cache
def _tester(hint: object) -> Callable[[object], bool]:
    """The test whether a value is of an annotated type; of a tuple also what is in it."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Literal:
        return lambda value: value in parts
    if origin in (Union, UnionType):
        tests = [_tester(part) for part in parts]
        return lambda value: any(test(value) for test in tests)
    if origin is tuple:
        inner = _tester(parts[0])
        return lambda value: isinstance(value, tuple) and all(map(inner, cast("Any", value)))
    kind = (int, float) if hint is float else cast(type, origin or hint)
    return lambda value: isinstance(value, kind)


def _id(plan: PlanOrId) -> str:
    return plan if isinstance(plan, str) else plan.id


@_typed
@dataclass(frozen=True, slots=True)
class ChangesView:
    """The open changes of a selection; see `Desk.changes`."""

    _changes: Changes
    _member: Member
    _what: Selection

    @property
    def files(self) -> tuple[FileChanges, ...]:
        """The files and their hunks, as they are now."""
        return self._changes.view(self._member, self._what)

    def keep(self, *hunks: str) -> int:
        """Count these hunks, or all, as kept; nothing is written. Returns how many."""
        return self._changes.keep(self._member, self._what, hunks or None)

    def undo(self, *hunks: str, reason: str = "", partly: bool = False) -> UndoneChanges:
        """Undo these hunks, or all, as one transaction; their members are told the reason.

        What others changed since is `refused`, and then nothing is written unless `partly`.
        """
        why, chosen = check_why("reason", reason), hunks or None
        return self._changes.undo(self._member, self._what, chosen, reason=why, partly=partly)


@_typed
@dataclass(frozen=True, slots=True)
class ReviewView:
    """What a person decides on plans; see `Desk.review`."""

    _review: Review
    _person: Member

    def pending(self) -> tuple[Waiting, ...]:
        """The plans of all members, oldest first, each with the decision on it, if any."""
        return self._review.pending(self._person)

    def show(self, plan: PlanOrId) -> Shown:
        """The plan as it would be written to the file now."""
        return self._review.show(self._person, _id(plan))

    def approve(self, shown: Shown) -> Decision:
        """Approve the very bytes that were shown.

        Raises ContentChanged if the file or the plan changed since, AlreadyDecided.
        """
        return self._review.approve(self._person, *shown.seen)

    def reject(self, plan: PlanOrId, reason: str, *, wants_changes: bool = False) -> Decision:
        """Reject a plan, or with `wants_changes` ask for another one under its id."""
        return self._review.reject(self._person, _id(plan), reason, wants_changes=wants_changes)


@dataclass(frozen=True, slots=True)
class Decided:
    """What became of a plan.

    `state` is `approved`, `rejected` or `changes_requested` (`by` whom, and the `reason`);
    `applied` (as `edit_id`), `unsure`, if nobody can tell whether that edit is in the file (its
    process died), `discarded` or `expired`; or `waiting`, if nothing has.
    """

    state: str
    by: str = ""
    reason: str = ""
    edit_id: int = 0


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a pending `plan`, or an `edit` that was written, in `path`.

    `kind`: a plan is `planned` or `replanned`; its `decision` is `approved`, `rejected` or
    `changes_requested`, or it was `withdrawn`; it is `gone`, discarded or expired; an edit was
    `written`, or `undone` by another one. `time_ms` is in milliseconds since 1970.
    """

    kind: str
    time_ms: int
    member: str
    path: RelPath
    hunk_id: str
    why: str
    plan: Plan | None = None
    decision: Decision | None = None
    edit: Past | None = None


class Events:
    """The events of a workspace since the last look, as a member may see them."""

    def __init__(self, opened: OpenWorkspace, member: str) -> None:
        self._opened, self._member = opened, member
        self._plans: dict[str, Waiting] = {}
        self._written: set[str] = set()  # the pending plans that are being written
        self._edit = max((head.edit_id for head in opened.journal.heads(0, 1)), default=0)

    def look(self) -> Iterator[Event]:
        """The events since the last call; on the first call, the pending plans."""
        pending = self._opened.desk.review.pending(self._opened.member(self._member))
        # An applied plan leaves the pending ones and becomes an edit at once: the edits are read
        # after them, and a plan that is in neither is gone.
        edits = self._new_edits()
        was, self._plans = self._plans, {waiting.plan.id: waiting for waiting in pending}
        for hunk_id, waiting in self._plans.items():
            yield from self._of_plan(was.get(hunk_id), waiting)
        for edit in edits:
            kind, hunk_id = "undone" if edit.undoes else "written", edit.hunk_id
            yield Event(kind, edit.time_ms, edit.member, edit.path, hunk_id, edit.why, edit=edit)
        written = self._written.union(edit.hunk_id for edit in edits)
        self._written = written & self._plans.keys()
        for hunk_id, waiting in was.items():
            if hunk_id not in self._plans and hunk_id not in written:
                yield self._event("gone", waiting.plan)

    def _new_edits(self) -> Sequence[Past]:
        """The edits since the last known one, oldest first."""
        known, found = self._edit, list[Past]()
        newest = self._opened.journal.heads(known, 1)
        below = newest[0].edit_id + 1 if newest else 0
        self._edit = max(known, below - 1)
        while below > known + 1:
            page = self._opened.desk.history.page(self._opened.member(self._member), before=below)
            found += (edit for edit in page.edits if edit.edit_id > known)
            below = page.go_on
        return found[::-1]

    def _of_plan(self, was: Waiting | None, now: Waiting) -> Iterator[Event]:
        decision, before = now.decision, was.decision if was else None
        is_same = was is not None and was.plan == now.plan
        if not is_same:
            yield self._event("replanned" if was else "planned", now.plan)
        if decision is not None and decision != before:
            yield replace(self._event(decision.verdict, now.plan), decision=decision)
        elif decision is None and before is not None and is_same:
            yield self._event("withdrawn", now.plan)

    def _event(self, kind: str, plan: Plan) -> Event:
        time_ms = plan.created_ms if kind == "planned" else self._opened.clock()
        return Event(kind, time_ms, plan.owner, plan.request.path, plan.id, plan.why, plan)


def _looks(seconds: float | None) -> Iterator[None]:
    """Again and again, for so many seconds; Cancelled if the call was cancelled."""
    end = inf if seconds is None else time.monotonic() + seconds
    yield
    while time.monotonic() < end:
        time.sleep(_LOOK_SECONDS)
        check_cancelled()
        yield


@_typed
class Desk(Closing):
    """The copy desk of the workspace at `root`, for one member.

    Plans are kept in the memory of the process, or with `shared` in the state folder, where the
    command line and the servers see them. If another program writes to a file at the moment when
    it is replaced, so that its text cannot stay there, that text is saved as an edit, also in the
    state folder: see `foreign_writes` of the next result or of the desk; it is logged if nobody
    asks. Every method may raise a `Refusal`, and then nothing was written; the constructor may also
    raise `ConfigError`. Use a desk in a `with`, or close it.

    >>> import tempfile, pathlib
    >>> from copydesk import Desk, RangeEdit
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (root / "a.txt").write_text("one\\ntwo\\n")
    >>> with Desk(root) as desk:
    ...     plan = desk.prepare(RangeEdit("a.txt", "2", "zwei"))
    ...     print(plan.diff.split("@@")[-1].strip())
    ...     done = desk.apply(plan)
    one
    -two
    +zwei
    >>> done.context, (root / "a.txt").read_text()
    ('exact', 'one\\nzwei\\n')
    """

    def __init__(self, root: PathText, *, member: str | None = None, shared: bool = False) -> None:
        config = load(os.fspath(root))
        if member is not None:
            config = replace(config, member=member)
        self._opened = open_workspace(os.fspath(root), config, shared=shared)
        self._name = config.member

    @property
    def _member(self) -> Member:
        return self._opened.member(self._name)

    def close(self) -> None:
        """Close the workspace; plans in memory are lost."""
        self._opened.close()

    @staticmethod
    def path(text: PathText) -> RelPath:
        """A path of the workspace, relative to its root; raises InvalidPath.

        Every method and request takes a text or a `PathLike` as well.
        """
        return RelPath.parse(text)

    @property
    def review(self) -> ReviewView:
        """What the member's person decides: pending plans, approve, reject.

        For a program that asks the person itself; the page and the command line do the same.

        >>> import tempfile, pathlib
        >>> from copydesk import ApprovalRequired, Append, Desk
        >>> root = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (root / "copydesk.toml").write_text('[members.agent]\\napproval = "human"\\n')
        >>> with Desk(root, member="agent") as desk:
        ...     plan = desk.prepare(Append("a.txt", "new"))
        ...     try:
        ...         done = desk.apply(plan)
        ...     except ApprovalRequired:
        ...         _ = desk.review.approve(desk.review.show(plan))
        ...         done = desk.apply(plan)
        >>> done.edit_id, (root / "a.txt").read_text()
        (1, 'new\\n')
        """
        return ReviewView(self._opened.desk.review, self._opened.person(self._name))

    def wait(self, plan: PlanOrId, timeout: float | None = None) -> Decided:
        """Wait until a person decides on the plan, or it ends; for `timeout` seconds at most.

        An approved plan is not written yet, unless the person did: then it is `applied`. Raises
        HunkNotFound for an unknown plan, and Cancelled (see `cancelled_by`).
        """
        hunk_id, opened = checked_id(_id(plan)), self._opened
        for _ in _looks(timeout):
            try:
                pending = opened.registry.plan(hunk_id, opened.clock())
            except HunkNotFound as ended:
                if ended.reason == "unknown":
                    raise
                entry = opened.journal.of_hunk(hunk_id)
                if entry is None:
                    return Decided(ended.reason)
                state = "unsure" if entry.state == "unsure" else ended.reason
                return Decided(state, edit_id=entry.edit_id)
            decision = opened.desk.review.decision(pending)
            if decision is not None and decision.verdict in _VERDICTS:
                return Decided(decision.verdict, decision.by, decision.reason)
        return Decided("waiting")

    def events(self, timeout: float | None = None) -> Iterator[Event]:
        """The pending plans, and then what any member does, as it happens.

        It ends when nothing has happened for `timeout` seconds.
        """
        events = Events(self._opened, self._name)
        while True:
            news = next(filter(None, ([*events.look()] for _ in _looks(timeout))), ())
            if not news:
                return
            yield from news

    def read(self, path: PathText, range: str = "", most_lines: int = 500) -> Reading:
        """Read lines of a file: `range` as in `read_file`, "" for all of them."""
        if most_lines < 1:
            raise InvalidArgs("most_lines", "must be a number from 1")
        return self._opened.desk.read(self._member, RelPath.parse(path), range, most_lines)

    def prepare(
        self,
        request: Request,
        *,
        version: str | None = None,
        expected_old: str | None = None,
        existing_hunk_id: str | None = None,
        why: str = "",
    ) -> Planned:
        """Plan an edit; nothing is written. `why` is one line for reviewers."""
        outcome = self._prepared(request, Terms(version, expected_old, existing_hunk_id), why)
        assert isinstance(outcome, Planned), "without auto a preparation only plans"
        return outcome

    def edit(
        self,
        request: Request,
        *,
        version: str | None = None,
        expected_old: str | None = None,
        why: str = "",
    ) -> Applied | Planned:
        """Apply an edit at once if it is certain; otherwise plan it, with the reason (`declined`).

        >>> import tempfile, pathlib
        >>> from copydesk import Desk, Anchor, Insert
        >>> root = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (root / "a.txt").write_text("one\\none\\n")
        >>> with Desk(root) as desk:
        ...     where = Anchor("one")
        ...     first = desk.edit(Insert("a.txt", where, "1.5", occurrence=1))
        >>> type(first).__name__, first.plan.owner, first.declined is None
        ('Planned', 'local', False)
        """
        outcome = self._prepared(request, Terms(version, expected_old, auto=True), why)
        return self._reporting(outcome) if isinstance(outcome, Applied) else outcome

    def _prepared(self, request: Request, terms: Terms, why: str) -> Planned | Applied:
        request.check()
        member = self._member.because(check_why("why", why))
        return self._opened.desk.prepare(member, request.tool, request, terms)

    def batch(
        self,
        path: PathText,
        edits: Iterable[StringEdit | tuple[str, str]],
        *,
        expected_mtime_ms: int | None = None,
        expected_size_bytes: int | None = None,
        expected_sha256: str | None = None,
        dry_run: bool = False,
    ) -> Rewrite:
        """Replace several texts of one file at once, all of them or none.

        `edits` are pairs of an old and a new text. Each old text must occur exactly once in
        the original file; LF in it matches any line end. Expectations about the file
        (`mtime_ms`, `size_bytes` and `digest` of a `read`) are checked under its lock, on the
        very bytes that are replaced. A `dry_run` writes nothing and returns the diff that the
        real run would make.

        Raises PartialMatchFail with every edit that does not match exactly one place,
        CollisionDetected, DuplicateEdits, Conflict, InvalidArgs that names the edit by its
        index, and the refusals of the file.

        >>> import tempfile, pathlib
        >>> from copydesk import Desk, PartialMatchFail
        >>> root = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (root / "a.py").write_text("import os\\nx = 1\\ny = 2\\n")
        >>> with Desk(root) as desk:
        ...     seen = desk.read("a.py")
        ...     edits = [("import os\\n", ""), ("x = 1", "x = 10"), ("y = 2", "y = x")]
        ...     done = desk.batch("a.py", edits, expected_sha256=seen.digest)
        ...     try:
        ...         desk.batch("a.py", [("x = 10", "x = 11"), ("z = 3", "z = 4")])
        ...     except PartialMatchFail as refusal:
        ...         print([(edit.index, edit.reason) for edit in refusal.failures])
        [(1, 'no match')]
        >>> done.replacements, done.edit_id, (root / "a.py").read_text()
        (3, 1, 'x = 10\\ny = x\\n')
        """
        request = BatchEdit.of(path, edits)
        expected = Preconditions(expected_mtime_ms, expected_size_bytes, expected_sha256)
        compiled = partial(compile_batch, edits=request.edits)
        call = self._member, "BatchEdit", request.path, compiled, expected
        try:
            return self._reporting(self._opened.batches.edit(*call, dry=dry_run))
        except FileNotFound:
            raise self._opened.desk.missing(self._member, request.path) from None

    def apply(self, plan: PlanOrId) -> Applied:
        """Write a plan; raises ContentChanged and other refusals of the file."""
        return self._reporting(
            self._opened.desk.apply(self._member, "apply_file_modification", _id(plan))
        )

    def apply_all(self, *plans: PlanOrId) -> Transacted:
        """Write several plans, all or none; raises the refusal of the first refused plan.

        >>> import tempfile, pathlib
        >>> from copydesk import Desk, Append
        >>> root = pathlib.Path(tempfile.mkdtemp())
        >>> with Desk(root) as desk:
        ...     plans = [desk.prepare(Append(name, "new")) for name in ("a", "b")]
        ...     done = desk.apply_all(*plans)
        >>> len(done.applied), (root / "b").read_text()
        (2, 'new\\n')
        """
        return self._reporting(
            self._opened.desk.apply_all(
                self._member, "apply_file_modifications", [_id(plan) for plan in plans]
            )
        )

    def discard(self, plan: PlanOrId) -> Plan:
        """Discard a plan."""
        return self._opened.desk.discard(self._member, _id(plan))

    def create(self, path: PathText, content: str = "", *, may_be_diff: bool = False) -> Created:
        """Write a new file. Content that looks like a patch is refused unless it `may_be_diff`."""
        parsed = RelPath.parse(path)
        check_text("content", content)
        return self._reporting(
            self._opened.desk.create(
                self._member, "create_new_file", parsed, content, may_be_diff=may_be_diff
            )
        )

    def overwrite(
        self,
        path: PathText,
        content: str,
        *,
        known_lines: int,
        known_bytes: int,
        may_be_diff: bool = False,
    ) -> Overwritten:
        """Replace a whole file if it has this many lines and bytes.

        Content that looks like a patch is refused unless it `may_be_diff`.
        """
        check_text("content", content)
        return self._reporting(
            self._opened.desk.overwrite(
                self._member,
                "overwrite_entire_file",
                RelPath.parse(path),
                (known_lines, known_bytes),
                content,
                may_be_diff=may_be_diff,
            )
        )

    def pending(self) -> tuple[Plan, ...]:
        """The pending plans, oldest first."""
        return self._opened.desk.waiting(self._member)

    def history(
        self, path: PathText | None = None, most: int = 50, before: int | None = None
    ) -> tuple[Past, ...]:
        """Recent edits, newest first: of all files, of a file, or of a directory.

        `before` limits the result to lower ids.
        """
        if most < 1:
            raise InvalidArgs("most", "must be a number from 1")
        return self._opened.history(self._member.name, path, most, before)

    def foreign_writes(self) -> tuple[Saved, ...]:
        """Other programs' writes that were saved as edits and not yet reported.

        A program that keeps a replaced file open may write to it later than the result.
        """
        return self._opened.desk.foreign.told(self._member)

    def _reporting(self, outcome: _Written | Rejected | Withheld | NotUndone) -> _Written:
        """The result with the saved writes of other programs; raises what it was refused with."""
        if isinstance(outcome, Rejected | Withheld | NotUndone):
            raise outcome.refusal
        untold = self._opened.desk.foreign.any_untold
        return replace(outcome, foreign_writes=self.foreign_writes()) if untold else outcome

    def undo(self, edit_id: int) -> Undone:
        """Undo an edit, even after later edits of other lines; the undo is an edit itself.

        Raises EditNotFound, AccessDenied, ContentChanged if the edited lines have changed
        since, and other refusals of the file.

        >>> import tempfile, pathlib
        >>> from copydesk import Desk, RangeEdit
        >>> root = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (root / "a.txt").write_text("one\\ntwo\\nthree\\n")
        >>> with Desk(root) as desk:
        ...     first = desk.apply(desk.prepare(RangeEdit("a.txt", "1", "eins")))
        ...     desk.apply(desk.prepare(RangeEdit("a.txt", "3", "drei"))).edit_id
        ...     back = desk.undo(first.edit_id)
        ...     [(edit.edit_id, edit.undoes, edit.undone_by) for edit in desk.history()]
        2
        [(3, 1, 0), (2, 0, 0), (1, 0, 3)]
        >>> back.context, (root / "a.txt").read_text()
        ('fuzz', 'one\\ntwo\\ndrei\\n')
        """
        return self._reporting(self._opened.desk.undo(self._member, UNDO, edit_id))

    def overwritten(self) -> tuple[OverwrittenEdit, ...]:
        """Edits of the last day that other programs have overwritten, by now or before.

        Edits of the last hour are looked at. One that was made again is none of them.
        """
        self._opened.desk.overwrites.look()
        return self._opened.desk.overwrites.of(self._member)

    def reapply(self, edit_id: int) -> Applied | Planned | None:
        """Make an edit again that another program has overwritten; None if it stands.

        It is planned if it is not certain (`declined`). Raises EditNotFound, AccessDenied,
        ContentChanged, AmbiguousMatch, and other refusals of the file.

        >>> import tempfile, pathlib
        >>> from copydesk import Desk, RangeEdit
        >>> root = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (root / "a.txt").write_text("one\\ntwo\\n")
        >>> with Desk(root) as desk:
        ...     done = desk.apply(desk.prepare(RangeEdit("a.txt", "2", "zwei")))
        ...     _ = (root / "a.txt").write_text("zero\\none\\ntwo\\n")
        ...     lost = [(one.entry.edit_id, one.line) for one in desk.overwritten()]
        ...     again = desk.reapply(done.edit_id)
        >>> lost, type(again).__name__, (root / "a.txt").read_text()
        ([(1, 2)], 'Applied', 'zero\\none\\nzwei\\n')
        """
        outcome = self._opened.desk.reapply(self._member, UNDO, edit_id)
        return self._reporting(outcome) if isinstance(outcome, Applied) else outcome

    def changes(
        self,
        *,
        task: str = "",
        member: str = "",
        transaction: int = 0,
        since: str = "",
        path: PathText = "",
    ) -> ChangesView:
        """The open changes: what members did in net, and nobody has kept or undone.

        Of a task (or a session, by its key), of a member, of the `transaction` of an edit, since
        `2h`, a checkpoint or the start of a task, of a file or a directory; of the last seven days
        without any. Raises InvalidPath, InvalidArgs.

        >>> import tempfile, pathlib
        >>> from copydesk import Desk, RangeEdit
        >>> root = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (root / "a.txt").write_text("one\\ntwo\\nthree\\n")
        >>> with Desk(root) as desk:
        ...     for line, text in ("1", "eins"), ("3", "drei"):
        ...         _ = desk.apply(desk.prepare(RangeEdit("a.txt", line, text)))
        ...     first, second = (hunk for file in desk.changes().files for hunk in file.hunks)
        ...     kept = desk.changes().keep(first.id)
        ...     done = desk.changes().undo(second.id)
        ...     left = desk.changes().files
        >>> kept, len(done.written), left, (root / "a.txt").read_text()
        (1, 1, (), 'eins\\ntwo\\nthree\\n')
        """
        changes = self._opened.desk.changes
        what = replace(
            changes.since(since),
            task=task,
            member=member,
            transaction=transaction,
            path=RelPath.parse(path) if path else None,
        )
        return ChangesView(changes, self._member, what)

    def undo_transaction(self, edit_id: int) -> tuple[Undone, ...]:
        """Undo all edits of an edit's transaction, or none; newest first.

        Raises as `undo` does.
        """
        outcome = self._opened.desk.undo_together(self._member, UNDO, edit_id)
        if isinstance(outcome, NotUndone):
            raise outcome.refusal
        return tuple(map(self._reporting, outcome))
