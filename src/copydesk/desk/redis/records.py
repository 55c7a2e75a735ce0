"""The records and texts of all machines of a workspace, on a server; its steps are in Lua.

Invariants: an entry is stored when `open` returns, as durably as the server does, and only if the
writer held all its leases at that moment; its outcome is recorded at once, or with the next record,
and never on another entry with the same id, given by a server that lost data. Each change is one
step; the indexes, and the sum of the bytes, match the entries that exist.

An entry is the hash `e:ID`: `fixed` (packed), `inverse`, `diff`, `state`, `mark`, and while they
are needed `whole` and `undo`; besides, what the scripts look up. Sets ordered by id are `edits`,
`open`, `at:PATH`, `below:FOLDER`, `hunk:ID`, `group:NAME`, `undoing:ID`, and `openat:PATH`.
A plan is tied to its entry (`tx`) by the script that records it, and ends in that which closes it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import fields, replace
from secrets import token_hex
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar, cast

from copydesk.desk.backends.api import (
    CHAIN_LENGTH,
    DAY_MS,
    PLANS_KEPT,
    REMEMBERED_MS,
    Day,
    Decision,
    Entry,
    Missing,
    PlanOutcome,
    Records,
    Run,
    State,
    Tied,
    Version,
    compress,
    decode,
    decode_inverse,
    decode_plan,
    decompress,
    due,
    encode,
    encode_plan,
    known_plans,
    linked,
    minutes_since_2020,
    share,
)
from copydesk.desk.backends.snapshots import (
    LARGEST,
    MOST_SEEN,
    MOST_SHOWN,
    SnapshotStore,
    place_of,
)
from copydesk.desk.redis.leases import Leases, Server
from copydesk.edit.draft import Ended, Plan
from copydesk.errors import HunkNotFound, ServerFailed
from copydesk.store.locks import held_at_fork
from copydesk.store.protocol import TargetMoved
from copydesk.store.state import Count
from copydesk.text.change import ChangeSet
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import VERSION_LENGTH

if TYPE_CHECKING:
    from copydesk.notes.protocol import Change

_FIELDS = ("fixed", "inverse", "diff", "state", "mark", "undo")
_FIXED = (
    *("time_ms", "member", "tool", "kind", "before", "after"),
    *("hunk_id", "group", "undoes", "why", "file", "approval"),
)
"""The constant fields of an entry, besides its path."""

_EVERY = 1 << 62
_UPWARDS = "up"
_FIRST = 64
"""Entries requested first; each further request doubles the number."""

_MOST_MARKS = 10_000
"""For how many entries, those last seen open, the marks are kept."""

T = TypeVar("T")
Row = list[Any]
Named = tuple[int, str]
"""An entry, even if the server lost data: its id, and its unique mark."""


class RedisRecords(Records):
    """The records of all machines that work on the workspace."""

    def __init__(
        self, server: Server, leases: Leases, on_loss: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__()
        self._server, self._leases, self._on_loss = server, leases, on_loss
        self._day = -1
        self._marks: dict[int, str] = {}
        self._highest = 0
        self._ended: dict[Named, State] = {}
        self._undo: dict[Named, bytes] = {}
        self._lock = held_at_fork(Lock())

    def changes(self) -> tuple[int, ...]:
        """The numbers of changes of plans and decisions; raises ServerFailed."""
        return self.counts()[:2]

    def counts(self) -> tuple[int, ...]:
        """The numbers of changes of plans, decisions, edits and plan outcomes; ServerFailed."""
        return tuple(int(count or 0) for count in self._server.call("counts"))

    def add(self, plan: Plan) -> bool:
        before_ms = plan.created_ms - REMEMBERED_MS
        added = bool(self._server.call("add_plan", *_plan_row(plan), before_ms))
        self.notify()
        return added

    def put(self, plan: Plan) -> None:
        reason = self._server.call("put_plan", *_plan_row(plan))
        if reason:
            raise HunkNotFound(plan.id, reason.decode())
        self.notify()

    def plan(self, hunk_id: str, now_ms: int) -> Plan:
        plan, ended, expires_ms = self._server.call("get_plan", hunk_id)
        if expires_ms is None:
            raise HunkNotFound(hunk_id, "unknown")
        if ended is not None or int(expires_ms) <= now_ms:
            raise HunkNotFound(hunk_id, ended.decode() if ended else "expired")
        return self._server.decoded(decode_plan, plan)

    def end(self, hunk_id: str, how: Ended, now_ms: int) -> None:
        """End the plan and record how; raises LockLost."""
        self._leases.fenced("end_plan", hunk_id, how, now_ms)
        self.notify()

    def reopen(self, plan: Plan) -> bool:
        opened = bool(self._server.call("reopen_plan", *_plan_row(plan)))
        self.notify()
        return opened

    def waiting(self, now_ms: int) -> tuple[Plan, ...]:
        return self._server.decoded(known_plans, self._server.call("waiting", now_ms))

    def take(self, decision: Decision) -> Decision:
        facts = (decision.owner, decision.time_ms, int(decision.told))
        packed = _packed(decision)
        row = self._server.call("take_decision", _plan_name(decision.plan), *facts, packed)
        self.notify()
        return self._server.decoded(_decision, row)

    def of_all(self, plans: Sequence[Version]) -> dict[Version, Decision]:
        found: dict[Version, Decision] = {}
        for start in range(0, len(plans), _TOGETHER):
            some = plans[start : start + _TOGETHER]
            rows = self._server.call("decisions_of", *map(_plan_name, some))
            there = [(plan, row) for plan, row in zip(some, rows, strict=True) if row]
            decisions = self._server.decoded(_decisions, [row for _, row in there])
            found |= {plan: one for (plan, _), one in zip(there, decisions, strict=True)}
        return found

    def withdraw(self, decision: Decision) -> None:
        self._server.call("withdraw", _plan_name(decision.plan), decision.time_ms)
        self.notify()

    def untold(self, owner: str) -> tuple[Decision, ...]:
        return self._server.decoded(_decisions, self._server.call("untold", owner))

    def comments(self, hunk_id: str) -> tuple[Decision, ...]:
        return self._server.decoded(_decisions, self._server.call("comments", hunk_id))

    def tell(self, decision: Decision) -> None:
        self._server.call("tell", _plan_name(decision.plan))

    def forget(self, before_ms: int) -> None:
        """Drop older decisions on plans that ended; keep PLANS_KEPT, as the clock may be wrong."""
        self._server.call("forget", before_ms, PLANS_KEPT)

    def forget_reasons(self, ours: Callable[[Decision], bool]) -> None:
        for row in self._server.call("decided"):
            decision = self._server.decoded(_decision, row)
            if decision.reason and ours(decision):
                packed = _packed(replace(decision, reason=""))
                self._server.call("repack", _plan_name(decision.plan), packed)

    def note(self, fared: PlanOutcome) -> None:
        rest = encode({"member": fared.member, "path": fared.path, "how": fared.how})
        with suppress(ServerFailed):
            self._server.call("note_outcome", b"%d " % fared.time_ms + rest)

    def noted(self) -> tuple[PlanOutcome, ...]:
        return self._server.decoded(_outcomes, self._server.call("outcomes"))

    def open_all(self, entries: Sequence[Entry], plans: Iterable[Tied] = ()) -> tuple[int, ...]:
        tied = {hunk_id: (created_ms, decided_ms) for hunk_id, created_ms, decided_ms in plans}
        return self._open(entries, self._leases.fenced, "open", tied)

    def open_again(self, entries: Sequence[Entry]) -> tuple[int, ...]:
        """Record again entries that the server lost, without checking leases."""
        return self._open(entries, self._server.call, "reopen", {})

    def _open(
        self,
        entries: Sequence[Entry],
        send: Callable[..., list[Any]],
        script: str,
        plans: dict[str, tuple[int, int]],
    ) -> tuple[int, ...]:
        self._send()
        marks = [token_hex(8) for _ in entries]
        arguments = [
            part
            for entry, mark in zip(entries, marks, strict=True)
            for part in (*_arguments(entry), *plans.pop(entry.hunk_id, ("", 0)), mark)
        ]
        with self._lock:
            highest = self._highest
        minutes = minutes_since_2020(entries[0].time_ms) if entries else 0
        reply = send(script, highest, minutes, *arguments)
        if reply and isinstance(reply[0], bytes):
            if not reply[1]:
                raise TargetMoved
            raise HunkNotFound(reply[0].decode(), reply[1].decode())
        found = tuple(reply)
        day = entries[0].time_ms // DAY_MS if entries else self._day
        if day != self._day:
            with suppress(ServerFailed):  # the next entry repeats it
                self._server.call("days", day, 0)
                self._day = day
        opened = dict(zip(found, marks, strict=True))
        for named in opened.items():
            self._remember(*named)
        if script == "open":
            self._leases.opened({str(edit_id): mark for edit_id, mark in opened.items()})
        return found

    def _remember(self, edit_id: int, mark: str) -> None:
        with self._lock:
            self._highest = max(self._highest, edit_id)
            self._marks.pop(edit_id, None)
            self._marks[edit_id] = mark
            if len(self._marks) > _MOST_MARKS:
                del self._marks[next(iter(self._marks))]

    def _named(self, edit_id: int) -> Named:
        with self._lock:
            return edit_id, self._marks.get(edit_id, "")

    def keep_whole(self, edit_id: int, old: bytes) -> None:
        self._leases.fenced("keep_whole", edit_id, compress(old))

    def _amending(self, edit_id: int) -> Callable[[bytes], object]:
        named = self._named(edit_id)
        return lambda diff: self._server.call("replace", *named, "diff", diff)

    def keep_undo(self, edit_id: int, undo: tuple[Change, ...]) -> None:
        """Record the inverse of a write, best effort."""
        named = self._named(edit_id)
        with self._lock:
            self._undo[named] = compress(encode(undo))
        with suppress(ServerFailed):
            self._send()

    def close_all(self, edit_ids: Sequence[int], state: State) -> None:
        self._leases.closed(map(str, edit_ids))
        named = [self._named(edit_id) for edit_id in edit_ids]
        with self._lock:
            self._ended.update(dict.fromkeys(named, state))
        self._send()

    def forget_texts(self, entries: Sequence[Entry]) -> None:
        self._settle()
        for entry in entries:
            fixed, _, diff, *_ = _arguments(entry)
            self._server.call("forget_text", *self._named(entry.edit_id), fixed, diff)

    def entries(
        self,
        path: RelPath | None = None,
        member: str | None = None,
        most: int = 50,
        before: int | None = None,
    ) -> tuple[Entry, ...]:
        self._settle()
        indexes = ("edits",) if not path or not path.parts else (f"at:{path}", f"below:{path}")
        found = [
            entry
            for index in indexes
            for entry in self._entries(index, most, before=before, member=member or "")
        ]
        return tuple(sorted(found, key=lambda entry: -entry.edit_id)[:most])

    def get(self, edit_id: int) -> Entry | None:
        self._settle()
        row = self._server.call("one", edit_id, *_FIELDS)
        return None if row[0] is None else self._server.decoded(self._entry, [edit_id, *row])

    def of_hunk(self, hunk_id: str) -> Entry | None:
        return next(iter(self._entries(f"hunk:{hunk_id}", 1)), None)

    def chain(
        self, path: RelPath, base_digest: str, now_digest: str
    ) -> tuple[ChangeSet, ...] | None:
        rows = self._rows(f"at:{path}", CHAIN_LENGTH, fields=("fixed", "state", "mark"))
        links = ((*_digests(row), self._state(row[0], *row[2:]), int(row[0])) for row in rows)
        found = linked(links, base_digest, now_digest)
        if found is None:
            return None
        held = [self._server.call("one", edit_id, "inverse")[0] for edit_id in found]
        return tuple(decode(decompress(each)) for each in held) if all(held) else None

    def next_of(self, entry: Entry) -> Entry | None:
        after = f"({entry.edit_id}"
        return next(iter(self._entries(f"at:{entry.path}", 1, _UPWARDS, after)), None)

    def of_group(self, group: str) -> tuple[Entry, ...]:
        return tuple(self._entries(f"group:{group}", _EVERY, _UPWARDS)) if group else ()

    def open_at(self, paths: Iterable[RelPath]) -> tuple[int, ...]:
        found = self._server.call("open_at", *map(str, paths))
        with self._lock:
            return tuple(int(id_) for id_, mark in found if _name(id_, mark) not in self._ended)

    def undone_by(self, edit_id: int) -> tuple[int, ...]:
        rows = self._rows(f"undoing:{edit_id}", _EVERY, _UPWARDS, fields=("state", "mark"))
        return tuple(int(id_) for id_, *how in rows if self._state(id_, *how) != "failed")

    def in_doubt(self) -> tuple[Entry, ...]:
        self._settle()
        return tuple(self._entries("open", _EVERY, _UPWARDS))

    def whole_of(self, edit_id: int) -> bytes | None:
        whole = self._server.call("one", edit_id, "whole")[0]
        return None if whole is None else decompress(whole)

    def prune(self, now_ms: int, keep_days: int, most_bytes: int) -> int:
        """Drop a share of the old (once a day) or excess entries; return their number."""
        self._settle()
        first, days = self._server.call("days", now_ms // DAY_MS, 1)
        old = due(_days(days), keep_days) if first else None
        upto, at, count, left = old.newest if old else 0, "-inf", 0, share(self._measure(0)[0])
        while left > count:
            gone, last = self._server.call("prune", upto, most_bytes, left - count, at)
            count += int(gone)
            if not last:
                break
            at = f"({last}"
        if old is not None:
            self._server.call("since", old.number)
        return count

    def _measure(self, last: int) -> tuple[int, int, int, int, Sequence[Day]]:
        self._settle()
        *measured, days = self._server.call("held", last)
        count, size, oldest, aged = map(int, measured)
        return count, size, oldest, aged, _days(days)

    def why_missing(self, edit_id: int) -> Missing:
        first, given = (int(one or 0) for one in self._server.call("given"))
        if 0 < edit_id < first or given < edit_id <= self._highest:
            return "replaced"
        return "pruned" if first <= edit_id <= given else "unknown"

    def lost(self, first: int, before: int | None) -> tuple[Run, ...]:
        """Nothing: a server loses all or nothing, and says so."""
        return ()

    def close(self) -> None:
        """Record outcomes, best effort: without them recovery uses the digests."""
        with suppress(ServerFailed):
            self._settle()
        self._late.close()
        self._late.now()

    def _entries(
        self,
        index: str,
        most: int,
        way: str = "down",
        start: str = "",
        *,
        before: int | None = None,
        member: str = "",
    ) -> Iterator[Entry]:
        start = start or (f"({before}" if before is not None else "")
        for row in self._rows(index, most, way, start, member=member):
            yield self._server.decoded(self._entry, row)

    def _rows(
        self,
        index: str,
        most: int,
        way: str = "down",
        start: str = "",
        *,
        member: str = "",
        fields: Sequence[str] = _FIELDS,
    ) -> Iterator[Row]:
        """Yield ids and fields of the entries of an index, fetched in batches."""
        at, left, at_once = start or ("-inf" if way == _UPWARDS else "+inf"), most, _FIRST
        while left > 0:
            wanted = min(left, at_once)
            last, rows = self._server.call("scan", index, at, wanted, member, way, *fields)
            yield from rows
            left, at_once = left - len(rows), 2 * at_once
            if not last:
                return
            at = f"({last}"

    def _entry(self, row: Row) -> Entry:
        edit_id, fixed, inverse, diff, state, mark, undo = row
        self._remember(*_name(edit_id, mark))
        facts = decode(fixed)
        return Entry(
            **{name: facts[name] for name in _FIXED if name in facts},
            path=RelPath.parse(facts["path"]),
            inverse=decode_inverse(inverse),
            diff=decompress(diff),
            edit_id=int(edit_id),
            state=self._state(edit_id, state, mark),
            undo=() if undo is None else decode(decompress(undo)),
        )

    def _state(self, edit_id: Any, recorded: bytes, mark: bytes | None) -> State:
        """An entry's outcome that could not be recorded yet; else the recorded state."""
        with self._lock:
            return self._ended.get(_name(edit_id, mark), cast(State, recorded.decode()))

    def _settle(self) -> None:
        self._late.now()
        self._send()

    def _send(self) -> None:
        """Record outcomes that could not be recorded earlier."""
        with self._lock:
            ended, undo = dict(self._ended), dict(self._undo)
        for named, way in undo.items():
            self._server.call("replace", *named, "undo", way)
        if ended:
            triples = [part for named, state in ended.items() for part in (*named, state)]
            if self._server.call("close", *triples):
                self._on_loss()
        with self._lock:
            for named in undo:
                self._undo.pop(named, None)
            for named, state in ended.items():
                if self._ended.get(named) == state:
                    del self._ended[named]


def _plan_name(plan: Version) -> str:
    return f"{plan[0]} {plan[1]}"


def _plan_row(plan: Plan) -> tuple[str | int | bytes, ...]:
    return plan.id, plan.created_ms, plan.expires_ms, encode_plan(plan)


def _packed(decision: Decision) -> bytes:
    return encode({name: getattr(decision, name) for name in _KEPT})


def _decision(row: Sequence[Any]) -> Decision:
    facts = decode(row[0])
    return Decision(**{name: facts[name] for name in _KEPT if name in facts}, told=row[1] == b"1")


def _decisions(rows: Iterable[Sequence[Any]]) -> tuple[Decision, ...]:
    return tuple(map(_decision, rows))


def _outcomes(noted: Iterable[bytes]) -> tuple[PlanOutcome, ...]:
    """Plan outcomes; each is prefixed with its time."""
    parts = (each.partition(b" ") for each in noted)
    return tuple(PlanOutcome(time_ms=int(time), **decode(rest)) for time, _, rest in parts)


_KEPT = tuple(f.name for f in fields(Decision) if f.name != "told")


def _name(edit_id: Any, mark: bytes | None) -> Named:
    """The name of an entry on the server; entries of earlier versions have no mark."""
    return int(edit_id), (mark or b"").decode()


def _days(found: Sequence[bytes]) -> list[Day]:
    return [Day(*map(int, each.split(b":"))) for each in found]


def _arguments(entry: Entry) -> tuple[str | bytes | int, ...]:
    """Return the arguments of the script that records an entry."""
    path = str(entry.path)
    fixed = {"path": path, **{name: getattr(entry, name) for name in _FIXED}}
    return (
        encode(fixed),
        compress(encode(entry.inverse)),
        compress(entry.diff),
        path,
        entry.hunk_id,
        entry.group,
        entry.undoes,
        entry.time_ms,
        entry.member,
    )


def _digests(row: Row) -> tuple[str, str]:
    facts = decode(row[1])
    return facts["before"], facts["after"]


_TOGETHER = 2_000
"""The most decisions requested at once."""


_DIGEST_LENGTH = 64


class RedisSnapshots(SnapshotStore):
    """Texts on a server, the least recently used ones dropped first; reading raises ServerFailed.

    Of two that note what the same member was shown at once, one may be lost.
    """

    def __init__(
        self,
        server: Server,
        most_bytes: int,
        largest: int = LARGEST,
        count: Count | None = None,
    ) -> None:
        super().__init__(most_bytes, largest, count)
        self._server = server

    def _attempt(self, work: Callable[[], T], *, writes: bool = True) -> T | None:
        with suppress(ServerFailed) if writes else nullcontext():
            return work()
        return None

    def _is_stored(self, digest: str, at: RelPath) -> bool:
        version = digest[:VERSION_LENGTH]
        return bool(self._server.call("touch_text", version, _mark(digest, at), MOST_SEEN))

    def _put(self, digest: str, packed: bytes, at: RelPath) -> None:
        if not self._is_stored(digest, at):
            text = digest.encode() + packed
            self._server.call("keep_text", digest[:VERSION_LENGTH], text, self._most)

    def _found(self, digest: str, at: RelPath | None) -> tuple[str, bytes] | None:
        mark = "" if at is None else _mark(digest, at)
        found: bytes | None = self._server.call("find_text", digest[:VERSION_LENGTH], mark)
        if found is None:
            return None
        return found[:_DIGEST_LENGTH].decode("ascii", "replace"), found[_DIGEST_LENGTH:]

    def _remove(self, kept: Collection[str]) -> None:
        self._server.call("forget_texts", *(digest[:VERSION_LENGTH] for digest in kept))

    def _record_of(self, reader: str) -> bytes:
        return self._server.call("shown", reader) or b""

    def _put_record(self, reader: str, record: bytes) -> None:
        self._server.call("note_shown", reader, record, MOST_SHOWN // 4)

    def _drop(self, digest: str) -> None:
        """Leave it: the least recently used ones go."""

    def close(self) -> None:
        """Do nothing: it holds no resources."""


def _mark(digest: str, at: RelPath) -> str:
    return f"{place_of(at)}-{digest[:VERSION_LENGTH]}"
