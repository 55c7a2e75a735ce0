"""Plans, decisions, statistics and stored texts that all machines of a workspace share."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any, cast

from copydesk.desk.backends.api import (
    MOST,
    PLANS_KEPT,
    Decision,
    OutcomeKind,
    PlanOutcome,
    UnknownRecord,
    Version,
    decode,
    decode_plan,
    encode,
)
from copydesk.desk.backends.snapshots import (
    LARGEST,
    MOST_SEEN,
    MOST_SHOWN,
    VERSIONS,
    Note,
    ShownLines,
)
from copydesk.desk.redis.leases import Leases, Server, script
from copydesk.edit.draft import Ended, Plan
from copydesk.errors import BinaryFile, HunkNotFound, ServerFailed
from copydesk.store.protocol import Content
from copydesk.text import sizes
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import VERSION_LENGTH, Snapshot

_DIGEST_LENGTH = 64

_TOUCH = script("touch_text")
_KEEP = script("keep_text")
_FIND = script("find_text")
_NOTE_SHOWN = script("note_shown")
_SHOWN = script("shown")
_READERS = MOST_SHOWN // 4
"""The most pairs of a member and a file with recorded shown lines."""


class _OnServer:
    def __init__(self, server: Server) -> None:
        self._server = server

    def close(self) -> None:
        """Do nothing: it holds no resources."""


class RedisSnapshots(_OnServer):
    """Texts by digest on a server; beyond `most_bytes` the least recently used are dropped."""

    def __init__(self, server: Server, most_bytes: int, largest: int = LARGEST) -> None:
        super().__init__(server)
        self._most, self._largest = most_bytes, largest

    def keep(self, base: Snapshot, at: RelPath, notes: Sequence[Note] = ()) -> None:
        """Store the text, where it was seen and the notes, if small and the server is available."""
        self.note_shown(*notes)
        if len(base.data) > self._largest:
            return
        with suppress(ServerFailed):
            if not self._touched(base.digest, at):
                self._put(base.digest, zlib.compress(base.data, 1))

    def keep_all(
        self, texts: Sequence[tuple[Snapshot, RelPath]], notes: Sequence[Note] = ()
    ) -> None:
        self.note_shown(*notes)
        for base, at in texts:
            self.keep(base, at)

    keep_planned = keep

    def keep_content(self, digest: str, content: Content, at: RelPath) -> None:
        try:
            known = self._touched(digest, at)
        except ServerFailed:
            known = True
        if known:
            content.close()
            return
        data = content.packed(digest, self._most // sizes.PART)
        if data is not None:
            with suppress(ServerFailed):
                self._put(digest, data)

    def find(self, digest: str, named: str | None, at: RelPath | None) -> Snapshot | None:
        """The text whose SHA-256 starts with `digest`, if it was seen there; ServerFailed."""
        if len(digest) < VERSION_LENGTH:
            return None
        mark = "" if at is None else _mark(digest, at)
        found: bytes | None = self._server.call(_FIND, digest[:VERSION_LENGTH], mark)
        if found is None or not found[:_DIGEST_LENGTH].startswith(digest.encode()):
            return None
        try:
            data = zlib.decompress(found[_DIGEST_LENGTH:])
            snapshot = Snapshot.of(data, named)
        except (zlib.error, BinaryFile):  # stored for a file with another encoding
            return None
        return snapshot if snapshot.digest.startswith(digest) else None

    def note_shown(self, *notes: Note) -> None:
        """Record the lines that members were shown; of two at once, one may be lost."""
        with suppress(ServerFailed):
            for note in notes:
                self._note_shown(note)

    def shown(self, member: str, at: RelPath, version: str | None = None) -> ShownLines | None:
        for one in self._all_shown(member, at):
            if one.version == version if version is not None else one.read:
                return one
        return None

    def _note_shown(self, note: Note) -> None:
        known = {one.version: one for one in self._all_shown(note.member, note.at)}
        lines = note.found(known.get)
        if lines is None:
            return
        known.pop(lines.version, None)
        last = [lines, *known.values()]
        same = [one for one in last if one.read == lines.read]
        rows = b"\n".join(_row(one) for one in last if one not in same[VERSIONS:])
        self._server.call(_NOTE_SHOWN, _reader(note.member, note.at), rows, _READERS)

    def _all_shown(self, member: str, at: RelPath) -> list[ShownLines]:
        """The records of the last versions, newest first; raises ServerFailed."""
        found: bytes | None = self._server.call(_SHOWN, _reader(member, at))
        lines: list[ShownLines] = []
        for row in (found or b"").split(b"\n"):
            with suppress(ValueError):  # it is damaged, or empty
                lines.append(_lines(row))
        return lines

    def _touched(self, digest: str, at: RelPath) -> bool:
        """Record where it was seen; return whether the text is stored."""
        version = digest[:VERSION_LENGTH]
        return bool(self._server.call(_TOUCH, version, _mark(digest, at), MOST_SEEN))

    def _put(self, digest: str, data: bytes) -> None:
        text = digest.encode() + data
        self._server.call(_KEEP, digest[:VERSION_LENGTH], text, self._most)


def _reader(member: str, at: RelPath) -> str:
    name = f"{member}\0{at}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(name).hexdigest()[:32]


def _row(lines: ShownLines) -> bytes:
    """Encode a version, its number of lines, and the shown runs as words."""
    return f"{lines.version} {lines.total} {lines.encoded()}".encode()


def _lines(row: bytes) -> ShownLines:
    version, total, *runs = row.decode().split(" ")
    return ShownLines.decoded(version, int(total), runs)


def _mark(digest: str, at: RelPath) -> str:
    name = hashlib.sha256(str(at).encode()).hexdigest()[:16]
    return f"{name}-{digest[:VERSION_LENGTH]}"


_COUNTS = script("counts")


class Counts(_OnServer):
    """The counters of one workspace."""

    def all(self) -> tuple[int, ...]:
        """The numbers of plans, decisions, edits and plan outcomes; raises ServerFailed."""
        return tuple(int(count or 0) for count in self._server.call(_COUNTS))

    def plans_and_decisions(self) -> tuple[int, int]:
        """The numbers of plans and decisions; raises ServerFailed."""
        plans, decisions = self.all()[:2]
        return plans, decisions


_TAKE = script("take_decision")
_OF = script("decision_of")
_OF_ALL = script("decisions_of")
_TOGETHER = 2_000
"""The most decisions requested at once."""

_WITHDRAW = script("withdraw")
_FORGET = script("forget")
_UNTOLD = script("untold")
_COMMENTS = script("comments")
_TELL = script("tell")


class RedisDecisions(_OnServer):
    """Decisions on a server."""

    def take(self, decision: Decision) -> Decision:
        facts = (decision.owner, decision.time_ms, int(decision.told))
        row = self._server.call(_TAKE, _name(decision.plan), *facts, _packed(decision))
        with self._server.decoding():
            return _decision(row)

    def of(self, plan: Version) -> Decision | None:
        row = self._server.call(_OF, _name(plan))
        with self._server.decoding():
            return None if row[0] is None else _decision(row)

    def of_all(self, plans: Sequence[Version]) -> dict[Version, Decision]:
        found: dict[Version, Decision] = {}
        for start in range(0, len(plans), _TOGETHER):
            some = plans[start : start + _TOGETHER]
            rows = self._server.call(_OF_ALL, *map(_name, some))
            with self._server.decoding():
                found |= {plan: _decision(row) for plan, row in zip(some, rows, strict=True) if row}
        return found

    def withdraw(self, decision: Decision) -> None:
        self._server.call(_WITHDRAW, _name(decision.plan), decision.time_ms)

    def untold(self, owner: str) -> tuple[Decision, ...]:
        rows = self._server.call(_UNTOLD, owner)
        with self._server.decoding():
            return tuple(_decision(row) for row in rows)

    def comments(self, hunk_id: str) -> tuple[Decision, ...]:
        rows = self._server.call(_COMMENTS, hunk_id)
        with self._server.decoding():
            return tuple(_decision(row) for row in rows)

    def tell(self, decision: Decision) -> None:
        self._server.call(_TELL, _name(decision.plan))

    def forget(self, before_ms: int) -> None:
        """Drop older decisions on plans that ended; keep PLANS_KEPT, as the clock may be wrong."""
        self._server.call(_FORGET, before_ms, PLANS_KEPT)


def _name(plan: Version) -> str:
    return f"{plan[0]} {plan[1]}"


def _packed(decision: Decision) -> bytes:
    return encode({name: getattr(decision, name) for name in _KEPT})


def _decision(row: list[Any]) -> Decision:
    facts = decode(row[0])
    return Decision(**{name: facts[name] for name in _KEPT if name in facts}, told=row[1] == b"1")


_KEPT = tuple(f.name for f in fields(Decision) if f.name != "told")


REMEMBERED_MS = 24 * 3_600_000
"""How long it is recorded how a plan ended."""


_ADD = script("add_plan", PLANS_KEPT=PLANS_KEPT)
_PUT = script("put_plan")
_REOPEN = script("reopen_plan")
_GET = script("get_plan")
_END = script("end_plan")
_WAITING = script("waiting")


class RedisRegistry(_OnServer):
    """Plans on a server."""

    def __init__(self, server: Server, leases: Leases) -> None:
        super().__init__(server)
        self._leases = leases

    def add(self, plan: Plan) -> bool:
        ages = (plan.created_ms, plan.expires_ms)
        before_ms = plan.created_ms - REMEMBERED_MS
        return bool(self._server.call(_ADD, plan.id, *ages, encode(plan), before_ms))

    def put(self, plan: Plan) -> None:
        ages = (plan.created_ms, plan.expires_ms)
        reason = self._server.call(_PUT, plan.id, *ages, encode(plan))
        if reason:
            raise HunkNotFound(plan.id, reason.decode())

    def get(self, hunk_id: str, now_ms: int) -> Plan:
        plan, ended, expires_ms = self._server.call(_GET, hunk_id)
        if expires_ms is None:
            raise HunkNotFound(hunk_id, "unknown")
        if ended is not None or int(expires_ms) <= now_ms:
            raise HunkNotFound(hunk_id, ended.decode() if ended else "expired")
        with self._server.decoding():
            return decode_plan(plan)

    def end(self, hunk_id: str, how: Ended, now_ms: int) -> None:
        """End the plan and record how; raises TurnLost."""
        self._leases.fenced(_END, hunk_id, how, now_ms)

    def reopen(self, plan: Plan) -> bool:
        ages = (plan.created_ms, plan.expires_ms)
        return bool(self._server.call(_REOPEN, plan.id, *ages, encode(plan)))

    def waiting(self, now_ms: int) -> tuple[Plan, ...]:
        found: list[Plan] = []
        for plan in self._server.call(_WAITING, now_ms):
            with self._server.decoding(), suppress(UnknownRecord):  # written by a newer build
                found.append(decode_plan(plan))
        return tuple(found)


_NOTE = script("note_outcome", MOST=MOST)
_NOTED = script("outcomes")


class RedisPlanStats(_OnServer):
    """The log on a server; each value is prefixed with its time."""

    def note(self, fared: PlanOutcome) -> None:
        """Record it, best effort."""
        rest = encode({"member": fared.member, "path": fared.path, "how": fared.how})
        with suppress(ServerFailed):
            self._server.call(_NOTE, b"%d " % fared.time_ms + rest)

    def noted(self) -> tuple[PlanOutcome, ...]:
        noted = self._server.call(_NOTED)
        with self._server.decoding():
            return tuple(_fared(each) for each in noted)


def _fared(data: bytes) -> PlanOutcome:
    time_ms, _, rest = data.partition(b" ")
    facts = decode(rest)
    return PlanOutcome(
        int(time_ms), facts["member"], facts["path"], cast(OutcomeKind, facts["how"])
    )
