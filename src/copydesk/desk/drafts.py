"""Drafts of requests and of plans on the files as they are now, and what a desk works with.

Invariant: a member is shown nothing of a file that it may not read, neither by the path as spelled
nor by what that pointed to when it was opened.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import reduce
from threading import Lock
from typing import Protocol, TypeVar

from copydesk.desk.backends.api import DAY_MS, HOUR_MS, Entry, Records
from copydesk.desk.backends.snapshots import Note, Snapshots
from copydesk.desk.gates import Approving, Checks
from copydesk.desk.member import Member, authorized, check_free, check_no_link, may_read
from copydesk.desk.outcome import ForeignWrites, NotUndone, Undone
from copydesk.desk.transaction import ATTEMPTS, Locks, Recovery, WriteRequest, again_and_again
from copydesk.edit.draft import (
    Draft,
    Plan,
    check_expected,
    checked_id,
    compose,
    standing,
)
from copydesk.edit.kinds.base import Fixed, Place, Request, Terms, end_of
from copydesk.edit.kinds.correction import repeated_lines, signs_of
from copydesk.edit.relocate import carried_to, comparable, place_of, stale
from copydesk.errors import (
    AmbiguousMatch,
    AnchorNotFound,
    ContentChanged,
    FileExists,
    FileNotFound,
    FileTooLarge,
    HunkNotFound,
    InvalidArgs,
    LineShown,
    PartialMatchFail,
    PatchRejected,
    Refusal,
    StaleRead,
    WrongMode,
    WrongOwner,
)
from copydesk.store.files import Files
from copydesk.store.protocol import Named, OpenText, TargetMoved
from copydesk.store.threads import held_at_fork
from copydesk.text import sizes
from copydesk.text.change import ChangeSet
from copydesk.text.diff import renamed, unified
from copydesk.text.encoding import of_new_file
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot, Sought, Source, Text


def hunk_id() -> str:
    """A new id of eight hex characters; the first is a letter, so it never looks like a number."""
    return f"{0xA0000000 + secrets.randbelow(0x60000000):08x}"


@dataclass(frozen=True, slots=True)
class Services:
    """What a desk works with: stores, caches, the clock (ms since 1970), ids, encodings.

    `records` are the plans, the decisions on them, the journal, and how plans fared; `bases` the
    texts that plans are based on. `encoding_of` returns the encoding that the configuration names
    for a path, `ids` a new id of eight hex characters, `members` a member by name and toolset.
    `ttl_ms` is how long a plan stays pending, `approval_ttl_ms` how long one that a person has to
    approve.
    """

    files: Files
    records: Records
    recovery: Recovery
    bases: Snapshots
    locks: Locks
    foreign: ForeignWrites
    members: Callable[[str, str], Member]
    approving: Approving
    checks: Checks
    clock: Callable[[], int]
    ids: Callable[[], str]
    encoding_of: Named = lambda path: None
    ttl_ms: int = HOUR_MS
    approval_ttl_ms: int = 7 * DAY_MS

    def life_ms(self, *, needs_person: bool) -> int:
        """How long a plan stays pending, depending on whether a person has to approve it."""
        return max(self.ttl_ms, self.approval_ttl_ms) if needs_person else self.ttl_ms

    def added(self, plan: Plan) -> Plan:
        """Store a new plan; under another id if its own is taken."""
        while not self.records.add(plan):
            plan = replace(plan, id=self.ids())
        return plan

    def group_id(self) -> str:
        """A new id of a transaction: 16 digits, which no plan's id has."""
        return self.ids() + self.ids()


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DraftedRequest:
    """A draft on the file at a real path; `named` is its place in the version that was named.

    `fixed`: it is of this corrected request.
    """

    draft: Draft
    real: RelPath
    named: Place
    fixed: Fixed | None = None


class BlockEdits(Protocol):
    """Edits of blocks; a write passes the same locks, gates and records as one of files."""

    def draft(self, member: Member, request: Request) -> Draft:
        """The changes of a block diff; raises a Refusal."""
        ...

    def planned(self, member: Member, plan: Plan) -> Draft:
        """A plan's changes to the current blocks, for members who may read them; like `apply`."""
        ...

    def apply(
        self,
        member: Member,
        plan: Plan,
        precondition: Callable[[], None],
        after_commit: Callable[[], None],
        *,
        is_stored: bool = True,
    ) -> Draft:
        """Apply a plan once; both calls are made under the locks, before and after the write."""
        ...

    def undo(
        self, job: WriteRequest, entry: Entry, precondition: Callable[[], None]
    ) -> Undone | NotUndone:
        """Undo an edit outside files; `precondition` runs locked; refusals are NotUndone."""
        ...


Blocks = Callable[[], BlockEdits]
"""Opens the room of notes, when it is first asked for."""


def _corrected(request: Request, now: Source, refusal: Refusal, terms: Terms) -> Fixed:
    """The request as the text has it; raises the refusal if it may not, or cannot, be so."""
    if (
        terms.corrects
        and terms.version in (None, now.version)
        and now.size <= sizes.CORRECTED
        and (fixed := request.corrected(now, refusal)) is not None
    ):
        return fixed
    raise refusal


class Drafting:
    """Makes drafts for the members of one workspace."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def of(self, member: Member, request: Request, terms: Terms) -> DraftedRequest:
        """Draft the edit on the current file; its place is in the version that was read."""
        real = authorized(self._services.files, member, request.path, "write", "read")
        self._services.locks.settle(real)  # a plan made on half of a dead transaction would drift
        if request.is_operation:
            return self._of_operation(member, request, terms, real)

        def draft(now: Source) -> DraftedRequest:
            if terms.expected is not None and not terms.expected.nothing:
                _, stamp = self._services.files.stat(request.path)
                terms.expected.check(now.whole(), stamp.mtime_ns // 1_000_000)
            given, fixed = request, None
            try:
                named, (moved, place) = self._places(given, now, real, terms)
            except (AnchorNotFound, PartialMatchFail, PatchRejected) as refusal:
                fixed = _corrected(request, now, refusal, terms)
                given = moved = fixed.request
                named = place = given.locate(now)
            text = moved.load(now, place)
            for part, old in zip(place.parts, terms.expected_olds, strict=False):
                if old is not None:
                    check_expected(old, text, Place(*part, part))
            if terms.expected_old is not None:
                if given.quotes:
                    raise InvalidArgs("expected_old", given.quotes)
                try:
                    check_expected(terms.expected_old, text, place)
                except ContentChanged as refusal:
                    fixed = _corrected(given, now, refusal, terms)
                    moved = fixed.request
            return DraftedRequest(compose(moved, text, place), real, named, fixed)

        try:
            return self.at_hand(member, request, draft)
        except FileNotFound:
            if not request.may_create:
                raise self.missing(member, request.path) from None
            with suppress(FileExists):  # it was created meanwhile, and is appended to then
                self._services.files.check_new(request.path)
            made = self.of_new(request)
            return DraftedRequest(made, real, made.place)

    def _of_operation(
        self, member: Member, request: Request, terms: Terms, real: RelPath
    ) -> DraftedRequest:
        """Draft an operation on the current file, which must have the version named, if any."""
        files = self._services.files
        try:
            check_no_link(files, request.path, real)
            _, stamp = files.stat(request.path)
        except FileNotFound:
            raise self.missing(member, request.path) from None
        request, to = request.with_mode(stamp.mode), request.target
        if to is not None:
            check_free(files, to, authorized(files, member, to, "write", "read"), real, stamp)

        def draft(now: Source) -> DraftedRequest:
            if terms.version not in (None, now.version):
                raise self._stale(request.path, real, terms.version or "", now.version)
            draft = made_at(request, now)
            return DraftedRequest(draft, real, draft.place)

        return self.at_hand(member, request, draft)

    def _stale(self, path: RelPath, real: RelPath, version: str, current: str) -> StaleRead:
        """The refusal of an operation on a file that no longer has the version named."""
        files, named = self._services.files, self._services.encoding_of
        base = self._services.bases.find(version, named(real), real)
        reason = "the file changed" if base else "that version is not remembered"
        try:
            with files.any_content(path, named) as opened:
                return stale(version, base, opened.source, reason)
        except FileTooLarge:
            return StaleRead(version, current, None, reason)

    def at_hand(self, member: Member | None, request: Request, make: Callable[[Source], T]) -> T:
        """Return the result of `make` on the current file; retried if the file changes.

        A member, if any, has to be allowed to read it.
        """

        for _ in range(ATTEMPTS):
            with suppress(TargetMoved), self.opened(request.path, request) as opened:
                if member is not None:
                    member.permission.check("read", request.path, opened.real)
                return make(opened.source)
        raise again_and_again("read", "file is")

    def opened(
        self, path: RelPath, request: Request, sought: Sequence[Sought] | None = None
    ) -> AbstractContextManager[OpenText]:
        """Open the file, as far as the request needs it read; `sought` is found on the way."""
        files, named = self._services.files, self._services.encoding_of
        if request.reads == "nothing":
            return files.unread(path)
        if request.reads == "bytes":
            return files.any_content(path, named)
        return files.text(path, named, request.sought if sought is None else sought)

    def nothing_at(self, path: RelPath) -> Snapshot:
        """The empty text of a file that does not exist yet."""
        return Snapshot(
            b"", of_new_file(self._services.encoding_of(self._services.files.resolve(path)))
        )

    def of_new(self, request: Request) -> Draft:
        """Draft the edit on a file that does not exist yet."""
        nothing = self.nothing_at(request.path)
        return compose(request, nothing, end_of(nothing), created=True)

    def as_planned(self, plan: Plan, real: RelPath) -> Draft | None:
        """A plan for a file as its owner was shown it; None if that text is no longer stored."""
        if plan.base_digest is None:
            return self.of_new(plan.request)
        base = self._services.bases.find(plan.base_digest, self._services.encoding_of(real), None)
        return None if base is None else compose(plan.request, base, plan.place)

    def _places(
        self, request: Request, now: Source, real: RelPath, terms: Terms
    ) -> tuple[Place, tuple[Request, Place]]:
        """The request's place in the named version, and the request and its place in the text."""
        version = terms.version
        if version is None or version == now.version:
            return (place := request.locate(now)), (request, place)
        base = self._services.bases.find(version, self._services.encoding_of(real), real)
        if base is None or not comparable(now):
            reason = "that version is not remembered"
            raise stale(version, None, now, reason, _standing(request, now))
        place = request.locate(base)
        try:
            known, own = self.known_since(real, base.digest, now.digest)
            quoted = terms.expected_old is not None or any(
                old is not None for old in terms.expected_olds
            )
            text = now.whole()
            return place, carried_to(request, place, base, text, known, own, is_quoted=quoted)
        except (ContentChanged, AmbiguousMatch) as refusal:
            if isinstance(refusal, ContentChanged):
                current = refusal.current or standing(now, place.start, place.stop)
                raise stale(version, base, now, refusal.reason, current) from None
            raise stale(version, base, now, "ambiguous", refusal.candidates) from None

    def known_since(
        self, real: RelPath, base: str, now: str
    ) -> tuple[tuple[ChangeSet, ...] | None, tuple[ChangeSet, ...]]:
        """The inverses of the writes between two texts, None if other programs wrote too.

        Then come those of the writes after the last of another program; else none.
        """
        if (known := self._services.records.chain(real, base, now)) is not None:
            return known, ()
        # Without a base the chain goes back to a gap: the last write of another program.
        return None, self._services.records.chain(real, "", now) or ()

    def missing(self, member: Member, path: RelPath) -> FileNotFound:
        """The refusal for a missing file, with similar names that the member may read."""
        files, real = self._services.files, self._services.files.resolve(path)
        # The similar names are next to the link's target, not next to the link.
        folder = path.parent if files.resolve(path.parent) == real.parent else real.parent
        close = [folder / name for name in files.similar(path)]
        with suppress(Refusal):  # below the a/ or b/ of a patch, or the name of the root
            files.stat(inner := RelPath(path.parts[1:]))
            close.insert(0, inner)
        return FileNotFound(tuple(str(at) for at in close if may_read(files, member, at)) or None)

    def remember(self, text: Text, real: RelPath, notes: Sequence[Note] = ()) -> None:
        """Store the text as a base, if all of it is loaded, and the notes."""
        if isinstance(text, Snapshot):
            self._services.bases.keep(text, real, notes)
        else:
            self._services.bases.note_shown(*notes)

    def note_moved(self, member: str, real: RelPath, request: Request, base: Text) -> None:
        """Copy the recorded lines of a moved file to its new path.

        The file is moved already: what is refused here must not be told as the end of the move.
        """
        if request.target is None:
            return
        with suppress(Refusal):
            to = self.real(request.target)
            text = self._services.bases.find(base.digest, self._services.encoding_of(to), real)
            shown = self._services.bases.shown(member, real, base.version)
            notes = () if shown is None else (Note(member, to, shown),)
            if text is not None:
                self._services.bases.keep(text, to, notes)

    def remember_planned(self, text: Text, real: RelPath) -> None:
        """Store the base text of a plan; a large one in the background, from its file."""
        if isinstance(text, Snapshot) and text.size <= sizes.LARGE:
            self._services.bases.keep_planned(text, real)
        else:
            self.remember_large(text.digest, text.size, text.line_count, real)

    def remember_large(self, digest: str, size: int, line_count: int, real: RelPath) -> None:
        """Store the text of a large file, unless it is too large to be compared later."""
        if size <= sizes.COMPARED and line_count <= sizes.LINES:
            with suppress(Refusal):  # it was removed meanwhile
                self._services.bases.keep_content(
                    digest, self._services.files.open_for_reading(real), real
                )

    def pending(self, hunk_id: str) -> Plan:
        """A pending plan; raises InvalidHunkId, and HunkNotFound, which names the edit in doubt.

        What was written at once was no plan, but has an id too.
        """
        try:
            return self._services.records.plan(checked_id(hunk_id), self._services.clock())
        except HunkNotFound as gone:
            entry = self._services.records.of_hunk(hunk_id)
            if entry is not None and gone.reason in ("applied", "unknown"):
                own = (one for one in self._services.recovery.of(entry) if one.hunk_id == hunk_id)
                doubt = next((one.edit_id for one in own if one.state == "unsure"), None)
                if doubt is not None or entry.state != "failed":
                    raise HunkNotFound(hunk_id, "unsure" if doubt else "applied", doubt) from None
            raise

    def plan(self, member: Member, hunk_id: str) -> Plan:
        """A pending plan that the member may know of; raises InvalidHunkId, HunkNotFound."""
        plan = self.pending(hunk_id)
        if plan.is_correction and plan.owner != member.name:
            raise HunkNotFound(hunk_id, "unknown")
        return plan

    def own_plan(self, member: Member, hunk_id: str, tool: str | None) -> Plan:
        """The member's pending plan; HunkNotFound, WrongOwner, and for a tool WrongMode."""
        plan = self.pending(hunk_id)
        if plan.owner != member.name:
            raise WrongOwner(hunk_id)
        if tool is not None and plan.toolset != member.toolset:
            raise WrongMode(hunk_id, plan.tool, tool)
        return plan

    def ended(self, hunk_id: str) -> str:
        """Why no plan of this id is pending, as `HunkNotFound` says it; empty if one is."""
        try:
            self._services.records.plan(hunk_id, self._services.clock())
        except HunkNotFound as gone:
            return gone.reason
        return ""

    def waiting(self, member: Member) -> tuple[Plan, ...]:
        """All pending plans that the member may know of, oldest first.

        Those of a dead process are settled before.
        """
        self._services.locks.settle()
        plans = self._services.records.waiting(self._services.clock())
        return tuple(one for one in plans if not one.is_correction or one.owner == member.name)

    def real(self, path: RelPath) -> RelPath:
        """The real path; the path itself if it leads nowhere, since then nobody can write there."""
        try:
            return self._services.files.resolve(path)
        except Refusal:
            return path


def made_at(request: Request, now: Source) -> Draft:
    """Draft the request on the text, at the place it names."""
    place = request.locate(now)
    return compose(request, request.load(now, place), place)


def _standing(request: Request, now: Source) -> tuple[LineShown, ...] | None:
    """The lines where the request would go if it were made on the current text."""
    try:
        place = request.locate(now)
        return standing(now, place.start, place.stop)
    except Refusal:
        return None


def draft_plan(
    plan: Plan,
    now: Source,
    find: Callable[[], Snapshot | None] = lambda: None,
    known: tuple[ChangeSet, ...] | None = None,
    own: tuple[ChangeSet, ...] = (),
) -> Draft:
    """Draft the plan's edit on the current text; the other arguments are as in `place_of`."""
    request, place = place_of(plan, now, find, known, own)
    return compose(request, request.load(now, place), place)


def signs_in(member: Member, draft: Draft) -> tuple[str, ...]:
    """Why the new text of an edit of lines may not be what is meant."""
    request = draft.request
    if request.is_operation or request.in_notes:
        return ()
    found = signs_of(request.path, draft.base, draft.change, member.usual_signs)
    return (*found, *repeated_lines(draft.base, request.by_number(draft.place), member.usual_signs))


def digest_of(diff: bytes) -> str:
    """The SHA-256 of a diff, in hex."""
    return hashlib.sha256(diff).hexdigest()


def diff_of(steps: Sequence[Draft]) -> bytes:
    """The diff of one file, from before the first step to after the last."""
    first = steps[0]
    if len(steps) == 1:
        return first.diff
    path, last = str(first.request.path), steps[-1].request
    # Those of a move and a mode are empty, and perhaps made for the text before the edits.
    edits = (step.change for step in steps if step.change)
    change = reduce(ChangeSet.then, edits, ChangeSet.of(first.base.size, ()))
    if last.target is not None:
        diff = renamed(path, str(last.target), (first.base, change))
    else:
        diff = unified(first.base, change, path, created=first.created)
    for step in steps:
        if step.request.modes:
            head, _, rest = diff.partition(b"\n")
            diff = head + b"\n" + step.diff.partition(b"\n")[2] + rest
    return diff


MOST_DRAFTS = 32
"""The most drafts kept."""

LARGEST_DRAFT = 256 << 10
"""Bytes; a draft of a larger text is not kept."""


class DraftCache:
    """The drafts shown last, by plan id. Thread-safe."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[Plan, Draft]] = OrderedDict()
        self._lock = held_at_fork(Lock())

    def keep(self, plan: Plan, draft: Draft) -> None:
        """Store the draft, if it is not too large."""
        with self._lock:
            self._kept.pop(plan.id, None)
            if isinstance(draft.base, Snapshot) and draft.base.size <= LARGEST_DRAFT:
                self._kept[plan.id] = (plan, draft)
            if len(self._kept) > MOST_DRAFTS:
                self._kept.popitem(last=False)

    def clear(self) -> None:
        """Drop all drafts, as texts were forgotten."""
        with self._lock:
            self._kept.clear()

    def of(self, plan: Plan, now: Source) -> Draft | None:
        """The draft of the plan, if the content is the one that it was shown on."""
        kept, draft = self._kept.get(plan.id, (None, None))
        if draft is None or draft.created or (kept is not plan and kept != plan):
            return None
        return draft if isinstance(now, Snapshot) and now == draft.base else None
