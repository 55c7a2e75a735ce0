"""The protocol of a backend for records (plans, decisions, the journal), and how they are stored.

A plan ends once. Each version of it is decided on once, and an approval is for the bytes that were
shown. A journal entry is stored before the file is touched; entries open after a crash are
recovered by comparing digests. A record states its schema and names the fields of its types, so
that a build that knows more fields, or fewer, can read it as well. `decode` reverses `encode`, and
`decompress` reverses `compress`; damaged bytes raise `RecordError`.

The age of an edit is counted in recorded days of use, so a clock jump adds at most an eighth of the
time that edits are kept, and drops nothing by itself; days ahead of the clock were recorded by a
wrong one and do not count.
"""

from __future__ import annotations

import hashlib
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, replace
from functools import wraps
from itertools import accumulate, islice, pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Concatenate, Literal, NamedTuple, ParamSpec, TypeVar, cast

import msgpack

from copydesk.edit.draft import Approval, BlockReads, Ended, Plan
from copydesk.edit.request import KINDS, Anchor, PatchHunk, Place, StringEdit
from copydesk.errors import Cancelled, Failed, Refusal
from copydesk.store.protocol import (
    FileChange,
    Forgotten,
    MadeDirectories,
    ModeChanged,
    Moved,
    OfTask,
    Removed,
)
from copydesk.store.threads import Soon
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.diff import counts as count_lines
from copydesk.text.relpath import RelPath

if TYPE_CHECKING:
    from copydesk.notes.protocol import Change


SCHEMA = 6
"""The schema number of everything stored, in SQLite and on Redis.

Adding a field that older builds may ignore needs no new number; anything else that they would
misread does. 4: the journal keeps what each edit is for. 5: plans and journal are in one file.
6: plans that ended have a table of their own; a text has one row.
"""

_SMALL = 4_096
"""Bytes; compressing fewer takes longer than writing them."""

_CHECKSUM_BYTES = 4

_TYPES: dict[str, Callable[..., Any]] = {}
_KNOWN: dict[type, tuple[str, tuple[str, ...], Callable[[object], tuple[Any, ...]]]] = {}
"""The types that are stored: the name of each, those of its fields, and a getter of its class and
its fields (of one name alone a getter returns no tuple)."""


class RecordError(ValueError):
    """Stored bytes that cannot be decoded."""


class UnknownRecord(RecordError):
    """Intact bytes that were written by a build that knows more."""


def _know(types: Iterable[type], prefix: str = "") -> None:
    """Register types, each by its name."""
    for kind in types:
        name = prefix + kind.__name__
        names = tuple(field.name for field in fields(cast(Any, kind)))
        _TYPES[name], _KNOWN[kind] = kind, (name, names, attrgetter("__class__", *names))


def _know_notes() -> None:
    """Register the kind of edits and the changes of notes, which are rarely needed."""
    from copydesk.notes.plan import BlockDiff
    from copydesk.notes.protocol import Delete, InsertText, Move, Restore, Update

    _know((BlockDiff,))
    _know((InsertText, Update, Delete, Restore, Move), "notes.")


_know((*KINDS, Anchor, PatchHunk, Place, StringEdit))
_know((Approval, BlockReads, ChangeSet, Edit, Plan, RelPath))
_know((Forgotten, MadeDirectories, ModeChanged, Moved, OfTask, Removed))


_HEAD = b"\x93" + cast("Callable[..., bytes]", msgpack.packb)(SCHEMA)
"""A list of three, the schema first."""


def encode(value: object) -> bytes:
    """Encode one of the types above, a tuple, or a mapping of names to such."""
    used: dict[str, tuple[str, ...]] = {}

    def plain(part: object) -> object:
        """Return our values as [name, fields...]; a tuple of values as [None, values...]."""
        kind = type(part)
        if kind is tuple:
            return [None, *cast("tuple[object, ...]", part)]
        if kind not in _KNOWN:
            if isinstance(part, Mapping):  # an immutable one
                return dict(cast("Mapping[str, object]", part))
            _know_notes()
        name, names, values = _KNOWN[kind]
        used[name] = names
        return [name, *values(part)[1:]]

    pack = cast("Callable[..., bytes]", msgpack.packb)
    body = pack(value, default=plain, strict_types=True)  # which fills `used`
    record = _HEAD + pack(used) + body
    return zlib.crc32(record).to_bytes(_CHECKSUM_BYTES, "big") + record


def decode(data: bytes) -> Any:
    """Return the value that `encode` encoded; drops unknown fields; raises RecordError."""
    body = _checked(data)
    read = cast("Callable[..., Any]", msgpack.unpackb)
    try:
        schema, used, value = read(body, use_list=False)
        if schema == SCHEMA:
            return _typed(value, {name: _maker(name, names) for name, names in used.items()})
    except RecordError:
        raise
    except Exception as error:  # the checksum is correct: another build made it
        raise UnknownRecord(f"not a record of this build: {error}") from None
    raise UnknownRecord(f"a record of schema {schema}; this build reads schema {SCHEMA}")


_plans: dict[bytes, Plan] = {}
"""Plans by their bytes, as long as there are few: who prepares one applies it soon."""

_PLANS, _PLAN_BYTES = 256, 1 << 14
"""The most plans kept decoded, and the most bytes of each."""


def encode_plan(plan: Plan) -> bytes:
    """Encode a plan, and cache it so that this process need not decode it."""
    data = encode(plan)
    _keep_plan(data, plan)
    return data


def _keep_plan(data: bytes, plan: Plan) -> Plan:
    if len(_plans) >= _PLANS:
        _plans.clear()
    if len(data) <= _PLAN_BYTES:
        _plans[data] = plan
    return plan


def decode_plan(data: bytes) -> Plan:
    """Decode a plan, with a cache for repeated calls."""
    return _plans.get(data) or _keep_plan(data, decode(data))


def drop_plans() -> None:
    """Drop the decoded plans, as texts were forgotten."""
    _plans.clear()


def known_plans(records: Iterable[bytes]) -> tuple[Plan, ...]:
    """Decode those plans that this build knows all of."""
    plans: list[Plan] = []
    for data in records:
        with suppress(UnknownRecord):
            plans.append(decode_plan(data))
    return tuple(plans)


def compress(data: bytes) -> bytes:
    """Compress unless the data is small; the first byte says whether it is compressed."""
    if len(data) < _SMALL:
        return b"\0" + zlib.crc32(data).to_bytes(_CHECKSUM_BYTES, "big") + data
    return b"\1" + zlib.compress(data, 1)


def decompress(data: bytes) -> bytes:
    """Return the bytes that `compress` was given; raises RecordError."""
    if data[:1] == b"\0":
        return _checked(data[1:])
    try:
        if data[:1] == b"\1":
            return zlib.decompress(data[1:])
    except zlib.error as error:
        raise RecordError(f"damaged: {error}") from None
    raise RecordError("damaged: neither compressed nor plain")


def unpack(data: bytes) -> Any:
    """Return the value that was encoded, then compressed; raises RecordError."""
    return decode(decompress(data))


def decode_inverse(data: bytes) -> ChangeSet:
    """Decode a stored inverse; nothing is stored once it was forgotten."""
    return unpack(data) if data else ChangeSet.of(0, ())


def _checked(data: bytes) -> bytes:
    body = data[_CHECKSUM_BYTES:]
    if zlib.crc32(body).to_bytes(_CHECKSUM_BYTES, "big") != data[:_CHECKSUM_BYTES]:
        raise RecordError("damaged: its checksum is wrong")
    return body


def _maker(name: str, names: tuple[str, ...]) -> Callable[..., Any]:
    """Return a constructor of the type from the fields of a record."""
    if name not in _TYPES:
        _know_notes()
    if name not in _TYPES:
        raise UnknownRecord(f"a record of a kind that this build does not know: {name}")
    kind = _TYPES[name]
    _, known, _ = _KNOWN[cast(type, kind)]
    if names == known:
        return kind
    needed = (f.name for f in fields(cast(Any, kind)) if MISSING is f.default is f.default_factory)
    if missing := set(needed).difference(names):
        raise UnknownRecord(f"a record without {', '.join(sorted(missing))} of {name}")
    return lambda *values: kind(
        **{each: value for each, value in zip(names, values, strict=True) if each in known}
    )


def _typed(value: Any, makers: Mapping[str, Callable[..., Any]]) -> Any:
    if isinstance(value, dict):
        return {name: _typed(part, makers) for name, part in cast("dict[str, Any]", value).items()}
    if not isinstance(value, tuple):
        return value
    parts: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]  # of anything
    values = [_typed(item, makers) for item in parts[1:]]
    return tuple(values) if parts[0] is None else makers[parts[0]](*values)


HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS

CONFIRMED = 3
"""The last days of use, this many, count as one, so a clock wrong for one or two adds nothing."""

_SHARE = 4
"""At most one in this many entries is dropped at a time."""

_LONGEST = 8
"""Between two days of use, at most this fraction (1/8) of the days that edits are kept counts."""

ENDED_KEPT_MS = DAY_MS
"""How long it is recorded how a plan ended."""

PLANS_KEPT = 1_000
"""How many plans, and decisions on them, are kept whatever the clock says."""


@dataclass(frozen=True, slots=True)
class Day:
    """A day of use, in days since 1970, and the newest edit when first recorded; 0: none."""

    number: int
    newest: int


@dataclass(frozen=True, slots=True)
class Outlook:
    """The size of a journal, and the next entries to be dropped.

    `due` entries are old enough, or beyond the size limit, and are dropped at the next starts, at
    most `at_once` by each. `days`: after how many more days of use the oldest entry is old enough;
    None without an entry.
    """

    entries: int
    size: int
    due: int
    at_once: int
    days: int | None


def share(entries: int) -> int:
    """How many of `entries` may be dropped at a time."""
    return -(-entries // _SHARE)


def due(days: Sequence[Day], keep_days: int) -> Day | None:
    """The last day of use (oldest first) whose edits may be dropped; None if the clock jumped."""
    if len(days) < CONFIRMED or days[-1].number - days[-2].number > _longest(keep_days):
        return None
    return next((day for day, age in reversed(_aged(days, keep_days)) if age >= keep_days), None)


def days_left(days: Sequence[Day], keep_days: int, edit_id: int) -> int:
    """After how many more days of use, at least, the edit is old enough to be dropped."""
    known = [age for day, age in _aged(days, keep_days) if day.newest >= edit_id]
    return max(keep_days - max(known, default=1 - CONFIRMED), 0)


def _longest(keep_days: int) -> int:
    return max(keep_days // _LONGEST, 1)


def _aged(days: Sequence[Day], keep_days: int) -> list[tuple[Day, int]]:
    """The days, each with how long before the last confirmed one it was; negative if after it."""
    longest = _longest(keep_days)
    steps = (min(after.number - day.number, longest) for day, after in pairwise(days))
    at = list(accumulate(steps, initial=0))
    confirmed = at[-CONFIRMED] if len(days) >= CONFIRMED else 0
    return [(day, confirmed - each) for day, each in zip(days, at, strict=False)]


Loss = Literal["deleted", "replaced", "emptied", "damaged", "cut"]
"""What happened to a file while in use; its content is lost, or for "cut" the end of it."""

State = Literal["open", "done", "failed", "unsure"]

ENDS: Mapping[State, Sequence[State]] = {
    "open": ("done", "failed", "unsure"),
    "unsure": ("done", "failed"),  # its writer lives, or a store of notes has taken it back
}
"""What a state of an entry may become. Whoever records another end later changes nothing."""

Kind = Literal["edit", "create", "remove", "notes"]
"""The kind of write to a file, or to notes outside files."""


IdRange = tuple[int, int]
"""Ids of entries, the first and the last one of them."""

PlanVersion = tuple[str, int]
"""A version of a plan: its id, and when it was prepared (ms since 1970)."""

Tied = tuple[str, int, int]
"""A version of a plan, and when the decision on it was taken (ms since 1970), 0 for none."""

Missing = Literal["unknown", "pruned", "replaced"]
"""Why an entry is missing: the id was never given, is too old, or its journal was lost."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One write of one file.

    `edit_id` is 0 until the journal gives one. `before` and `after` are SHA-256 in hex, `before`
    empty for a creation, `after` for a removal. `inverse` maps the bytes after to the bytes before.
    `diff` is the one that was reported. `time_ms` is milliseconds since 1970 (UTC). Entries of one
    `group` are written all or none. `undoes` is the edit that this one undoes, 0 for none. For
    notes outside files, `undo` is the inverse, for their store; then `path` and the digests are
    those of its texts, and `inverse` is meaningless. `why` is the member's reason. `file` is what
    is recorded besides the bytes: a move, permission bits, the folders that were made, attributes
    of a removed file, the label of the task, and that the texts were forgotten. A move is two
    entries of one group: a removal at the old path, a creation at the new one. `approval`: what
    people did to the plan.
    """

    time_ms: int
    member: str
    tool: str
    path: RelPath
    kind: Kind
    before: str
    after: str
    inverse: ChangeSet
    diff: bytes
    hunk_id: str = ""
    edit_id: int = 0
    state: State = "open"
    group: str = ""
    undoes: int = 0
    undo: tuple[Change, ...] = ()
    why: str = ""
    file: tuple[FileChange, ...] = ()
    approval: Approval | None = None

    @property
    def beside(self) -> tuple[FileChange | Approval, ...]:
        """All that is recorded besides the bytes."""
        return self.file if self.approval is None else (*self.file, self.approval)

    @property
    def moved(self) -> Moved | None:
        """The other end of a move, if it is one."""
        return next((part for part in self.file if isinstance(part, Moved)), None)

    @property
    def is_source(self) -> bool:
        """Whether it is the old end of a move."""
        return self.moved is not None and self.moved.is_source

    @property
    def mode_changed(self) -> ModeChanged | None:
        """The permission bits before and after, if the edit changed those."""
        return next((part for part in self.file if isinstance(part, ModeChanged)), None)

    @property
    def removed(self) -> Removed | None:
        """The attributes of a removed file, if known."""
        return next((part for part in self.file if isinstance(part, Removed)), None)

    @property
    def task(self) -> str:
        """The label of its task, if it has one."""
        return next((part.name for part in self.file if isinstance(part, OfTask)), "")

    @property
    def made_directories(self) -> int:
        return sum(part.count for part in self.file if isinstance(part, MadeDirectories))

    @property
    def forgotten(self) -> Forgotten | None:
        """What is left of its texts, if they were forgotten."""
        return next((part for part in self.file if isinstance(part, Forgotten)), None)

    @property
    def diff_digest(self) -> str:
        """The SHA-256 of the diff in hex."""
        left = self.forgotten
        return hashlib.sha256(self.diff).hexdigest() if left is None else left.diff

    @property
    def lines(self) -> tuple[int, int]:
        """How many lines were added and removed."""
        left = self.forgotten
        return count_lines(self.diff) if left is None else (left.added, left.removed)

    def without_texts(self) -> Entry:
        """The same entry with its texts forgotten."""
        left = Forgotten(self.diff_digest, *self.lines)
        file = (*(part for part in self.file if not isinstance(part, Forgotten)), left)
        return replace(self, inverse=ChangeSet.of(0, ()), diff=b"", undo=(), why="", file=file)


class Head(NamedTuple):
    """What tells entries apart: see `Entry`."""

    edit_id: int
    path: str
    time_ms: int
    before: str
    after: str
    state: str

    @staticmethod
    def of(entry: Entry) -> Head:
        path = str(entry.path)
        return Head(entry.edit_id, path, entry.time_ms, entry.before, entry.after, entry.state)


def minutes_since_2020(time_ms: int) -> int:
    """Where ids begin if others were given before: few see an edit a minute for years."""
    return (time_ms // 1_000 - 1_577_836_800) // 60


CHAIN_LENGTH = 1_000
"""The most entries of a path that are searched for a chain."""

T = TypeVar("T")


def linked(
    links: Iterable[tuple[str, str, str, T]], base_digest: str, now_digest: str
) -> tuple[T, ...] | None:
    """Return the entries from one text to another, oldest first, linked by their digests.

    `links` are (before, after, state, value), newest first; failed ones were not written.
    Without `base_digest` they reach back until another program wrote.
    """
    values: list[T] = []
    for before, after, state, value in islice(links, CHAIN_LENGTH):
        if after == now_digest and state != "failed":
            values.insert(0, value)
            now_digest = before
            if now_digest == base_digest:
                return tuple(values)
        elif values and state == "done":
            break  # another program wrote in between
    return None if base_digest or not values else tuple(values)


Verdict = Literal[
    "approved",
    "rejected",
    "changes_requested",
    "amended",
    "split",
    "commented",
    "lapsed",
    "undone",
    "rewritten",
    "remarked",
    "kept",
    "checkpoint",
    "overwritten",
]
"""`changes_requested`: the plan is not written, a new one with its id is wanted. `amended` and
`split` end a plan as it was: a person changed its text, or split it into several plans, which
are all pending again. `commented` decides nothing. `lapsed`: an approval is no longer valid.
The others are of changes that were written, not of plans: see `desk/changes.py`, and for
`overwritten` `desk/overwritten.py`."""

REFUSING = ("rejected", "changes_requested")
"""The verdicts that forbid writing a plan."""


def version_of(plan: Plan) -> PlanVersion:
    """The version of the plan, to which decisions refer."""
    return plan.id, plan.created_ms


@dataclass(frozen=True, slots=True)
class Decision:
    """What was said of a plan or of written edits, `by` a person, at `time_ms` (ms since 1970).

    `owner` is the member that is told of it, `told` whether it was, `reason` what the person said.
    `plan` is the key under which the record is kept. A negative number in it stands for one of
    many: where a plan, or a file, may have several, it is the negated time of each. The fields of

    - a verdict on a plan: its version in `plan`; the real path; `before` and `after` are the
      SHA-256 in hex of the file as it was shown and as it would be (`before` empty for a new file)
    - `commented`: `after` is the line, `+12` of the text as it would be, `-12` of the current one,
      or empty for the plan; `before` is empty
    - `lapsed`: the number in `plan` is that of the approval, whose fields it has
    - `kept`: `plan` is `kept`, `before` the SHA-256 of the file as the person saw it, `after` the
      id of the last edit then, `reason` the hunks (`_HunkKey` in `desk/changes.py`), no `owner`
    - `undone` without `owner`: the same, but `after` is the id of the edit that undid them
    - `undone`, `rewritten`, `remarked` with `owner`: `plan` is a hunk, `path` lists the places
    - `checkpoint`: `after` is the id of the last edit before it, `reason` its name
    - `overwritten`, by another program: the number in `plan` is the negated id of the edit;
      `before` is the SHA-256 of what that program left, `after` the line, `reason` whether the edit
      was made again
    """

    plan: PlanVersion
    owner: str
    path: str
    verdict: Verdict
    by: str
    time_ms: int
    before: str = ""
    after: str = ""
    reason: str = ""
    told: bool = False


OutcomeKind = Literal["fuzz", "rejected"]
"""`fuzz`: written at its new place; `rejected`: refused because of the file, or by a person."""

MOST_OUTCOMES = 5_000
"""How many of the last ones are kept."""

_ANOTHERS = ("APPROVAL_REQUIRED", "HUNK_REJECTED", "ALREADY_DECIDED")
"""Refusals unrelated to the file; decisions are recorded when they are made."""


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """The outcome of a member's plan for a file, at `time_ms` (ms since 1970)."""

    time_ms: int
    member: str
    path: str
    how: OutcomeKind


def counts(refusal: Refusal) -> bool:
    """Whether a refusal is due to the current file."""
    return refusal.code not in _ANOTHERS and not isinstance(refusal, Cancelled)


R = TypeVar("R", bound="Records")
P = ParamSpec("P")


def notifying(change: Callable[Concatenate[R, P], T]) -> Callable[Concatenate[R, P], T]:
    """Make a method of a backend, which changes plans or decisions, call `notify` in the end."""

    @wraps(change)
    def changing(records: R, /, *args: P.args, **named: P.kwargs) -> T:
        result = change(records, *args, **named)
        records.notify()
        return result

    return changing


class Records(ABC):
    """All that a workspace records: plans, decisions, statistics and the journal. Thread-safe.

    `notify` is called after each change of plans and decisions by this process.
    """

    def __init__(self) -> None:
        self.notify: Callable[[], None] = lambda: None
        self._late = Soon()

    # Plans, by id

    @abstractmethod
    def add(self, plan: Plan) -> bool:
        """Store a new plan; False if its id is taken."""

    @abstractmethod
    def put(self, plan: Plan) -> None:
        """Replace the pending plan with the same id; raises HunkNotFound as `plan` does."""

    @abstractmethod
    def plan(self, hunk_id: str, now_ms: int) -> Plan:
        """The plan; raises HunkNotFound with applied, discarded, expired or unknown."""

    @abstractmethod
    def end(self, hunk_id: str, how: Ended, now_ms: int) -> None:
        """End the plan with an outcome; the caller holds the lock of its file."""

    @abstractmethod
    def reopen(self, plan: Plan) -> bool:
        """Make an applied and undone plan pending again; False if it does not match."""

    @abstractmethod
    def waiting(self, now_ms: int) -> tuple[Plan, ...]:
        """All plans that have not ended or expired, oldest first, that this build knows all of."""

    # Decisions on plans

    @abstractmethod
    def take(self, decision: Decision) -> Decision:
        """Store the decision unless there is one; return the stored one."""

    def of(self, plan: PlanVersion) -> Decision | None:
        """The decision on a plan, if there is one."""
        return self.of_all((plan,)).get(plan)

    @abstractmethod
    def of_all(self, plans: Sequence[PlanVersion]) -> Mapping[PlanVersion, Decision]:
        """The decisions on those of the plans that have one."""

    @abstractmethod
    def withdraw(self, decision: Decision) -> None:
        """Delete only this decision, so that the plan has to be shown again."""

    @abstractmethod
    def untold(self, owner: str) -> tuple[Decision, ...]:
        """Decisions not yet reported to the member, oldest first."""

    @abstractmethod
    def comments(self, hunk_id: str) -> tuple[Decision, ...]:
        """The comments on all plans with an id, and their lapsed approvals."""

    @abstractmethod
    def tell(self, decision: Decision) -> None:
        """Mark as reported to the owner."""

    @abstractmethod
    def forget(self, before_ms: int) -> None:
        """Drop older decisions, unless their plan was pending until then."""

    @abstractmethod
    def forget_reasons(self, ours: Callable[[Decision], bool]) -> None:
        """Remove what people said with those decisions, and keep the decisions."""

    # Statistics of plans

    @abstractmethod
    def note(self, fared: PlanOutcome) -> None:
        """Record it, if possible: it never fails the call."""

    @abstractmethod
    def noted(self) -> tuple[PlanOutcome, ...]:
        """The last ones, at most `MOST_OUTCOMES`, newest first."""

    # The journal: entries in order of their ids, none of which is given twice

    def open(self, entry: Entry) -> int:
        """Record an intended or finished write durably; return its id."""
        return self.open_all((entry,))[0]

    @abstractmethod
    def open_all(self, entries: Sequence[Entry], plans: Iterable[Tied] = ()) -> tuple[int, ...]:
        """Record several intended writes durably, all or none; return their ids.

        The `plans` that are written are tied to their entries, so that they end with them. Raises
        HunkNotFound if one has ended, was prepared anew, or is being written already, and
        TargetMoved if it was decided on in another way meanwhile.
        """

    def open_again(self, entries: Sequence[Entry]) -> tuple[int, ...]:
        """Record again entries that the journal lost, without checking leases."""
        return self.open_all(entries)

    @abstractmethod
    def keep_whole(self, edit_id: int, old: bytes) -> None:
        """Durably record all old bytes before a write in place; TargetMoved, Failed forbid it."""

    def amend(self, edit_id: int, diff: Callable[[], bytes]) -> None:
        """Soon record the whole diff of an entry opened with only its start, if possible."""
        replace = self._amending(edit_id)

        def work() -> None:
            whole = compress(diff())
            with suppress(Failed):
                replace(whole)

        self._late.do(work)

    @abstractmethod
    def _amending(self, edit_id: int) -> Callable[[bytes], object]:
        """What replaces the diff of an entry, as it is known now."""

    @abstractmethod
    def keep_undo(self, edit_id: int, undo: tuple[Change, ...]) -> None:
        """Durably record the inverse of a notes write, replacing the previous one."""

    @abstractmethod
    def close_all(self, edit_ids: Sequence[int], state: State) -> None:
        """Record how writes ended, and with them the plans tied to them, before their locks go.

        Those that have ended already stay as `ENDS` says.
        A power cut may take it back: then recovery finds it out.
        """

    @abstractmethod
    def forget_texts(self, entries: Sequence[Entry]) -> None:
        """Store closed entries without their texts, and rewrite what holds deleted bytes."""

    @abstractmethod
    def entries(
        self,
        path: RelPath | None = None,
        member: str | None = None,
        most: int = 50,
        before: int | None = None,
    ) -> tuple[Entry, ...]:
        """The last entries (`before` an id) of a file or below a directory, newest first."""

    def heads(self, last_id: int, most: int) -> Sequence[Head]:
        """The last entries with higher ids than that, newest first, without their texts."""
        return [Head.of(one) for one in self.entries(most=most) if one.edit_id > last_id]

    @abstractmethod
    def get(self, edit_id: int) -> Entry | None:
        """One entry."""

    @abstractmethod
    def chain(
        self, path: RelPath, base_digest: str, now_digest: str
    ) -> tuple[ChangeSet, ...] | None:
        """Inverses of the writes between two texts, oldest first; None for a gap, or too many.

        Without `base_digest`, those back to a gap, or as many as are looked at.
        """

    @abstractmethod
    def of_hunk(self, hunk_id: str) -> Entry | None:
        """The newest entry that was written for a plan."""

    @abstractmethod
    def next_of(self, entry: Entry) -> Entry | None:
        """The next entry of the same path."""

    @abstractmethod
    def of_group(self, group: str) -> tuple[Entry, ...]:
        """The entries of a group, oldest first."""

    @abstractmethod
    def open_at(self, paths: Iterable[RelPath]) -> tuple[int, ...]:
        """The open entries at the paths; who has a lock of theirs knows that their writer died."""

    @abstractmethod
    def undone_by(self, edit_id: int) -> tuple[int, ...]:
        """The entries that undo the edit and have not failed, oldest first."""

    @abstractmethod
    def in_doubt(self) -> tuple[Entry, ...]:
        """The open entries, oldest first."""

    @abstractmethod
    def whole_of(self, edit_id: int) -> bytes | None:
        """All old bytes of a file that was written in place, while the entry is open."""

    @abstractmethod
    def prune(self, now_ms: int, keep_days: int, most_bytes: int) -> int:
        """Drop a share of the entries beyond `keep_days` of use, or the size; return how many.

        `now_ms` is recorded as a day of use; this module's head says how days count.
        """

    def outlook(self, keep_days: int, most_bytes: int) -> Outlook:
        """The journal's size, and the share that `prune` will drop."""
        days = self._measure(0)[-1]
        old = due(days, keep_days)
        count, size, oldest, aged, _ = self._measure(old.newest if old else 0)
        beyond = count * (size - most_bytes) // size if size > most_bytes else 0
        left = days_left(days, keep_days, oldest) if oldest else None
        return Outlook(count, size, max(aged, beyond), share(count), left)

    @abstractmethod
    def _measure(self, last: int) -> tuple[int, int, int, int, Sequence[Day]]:
        """How many entries, their bytes, the oldest one or 0, how many up to `last`; the days."""

    @abstractmethod
    def why_missing(self, edit_id: int) -> Missing:
        """Why there is no entry with this id."""

    @abstractmethod
    def lost(self, first: int, before: int | None) -> tuple[IdRange, ...]:
        """Ranges of recent ids whose entries were lost or cannot be read."""

    @abstractmethod
    def changes(self) -> object:
        """A value that differs after each change of plans and decisions by any process."""

    @abstractmethod
    def close(self) -> None:
        """Record what is left to be, and release all resources."""
