"""Applying plans: in the turn of the file, on the file as it is then, once.

What lives here: the checks that a plan still waits, and the step to the writer.
What must not: who may ask (the desk says that), reports. Invariant: a plan that
was written is never written again, whoever was ended in between.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from copydesk.desk.drafting import Drafting
from copydesk.desk.journal import State
from copydesk.desk.member import Member
from copydesk.desk.notes.later import Later
from copydesk.desk.outcome import Applied, Rejected
from copydesk.desk.seeing import authorized
from copydesk.desk.setting import Setting
from copydesk.desk.shown import Shown
from copydesk.desk.tally import Fared, How, counts
from copydesk.desk.writing import Job, Writer
from copydesk.edit.draft import Draft, compose
from copydesk.edit.locate import text_for
from copydesk.edit.plan import ContextMatch, Plan
from copydesk.edit.relocate import place_of
from copydesk.edit.request import BlockDiff
from copydesk.errors import ContentChanged, Failed, HunkNotFound, Refusal
from copydesk.text.change import ChangeSet
from copydesk.text.encoding import UTF8
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot, Text
from copydesk.text.source import Source

if TYPE_CHECKING:
    from copydesk.edit.notes.draft import BlockDraft


@dataclass(frozen=True, slots=True)
class Ahead:
    """What is written together with a plan, ahead of it in the same file.

    `digest` is that of the file as it was read, `inverses` those of the edits made
    to it since, the first one first.
    """

    digest: str = ""
    inverses: tuple[ChangeSet, ...] = ()


NOTHING_AHEAD = Ahead()


class Applying:
    """Writes the plans of one workspace."""

    def __init__(self, setting: Setting, drafting: Drafting, writer: Writer, notes: Later) -> None:
        self._set, self._drafting, self._writer = setting, drafting, writer
        self._notes = notes
        self._shown = Shown()

    def show(self, plan: Plan, draft: Draft) -> None:
        """Remember what was shown of the plan: it is written so if the file stays as it is."""
        self._shown.keep(plan, draft)

    def write(self, member: Member, plan: Plan, base: Text | None = None) -> Applied | Rejected:
        """Write the plan in its turn, if it waits then, as it is.

        `base` is the text planned on, where it is at hand; else it is looked up.
        """
        if isinstance(plan.request, BlockDiff):
            return self._write_blocks(member, plan)
        seen: list[Text] = []

        def make(now: Source) -> Draft:
            shown = self._shown.of(plan, now)
            if shown is not None:
                return shown
            try:
                return self.draft(plan, real, now, base)
            except Refusal:
                last = now.line_count
                seen[:] = [now.around(min(plan.place.start, last), min(plan.place.stop, last))]
                raise

        def still() -> None:
            self.check_waits(plan)

        def then() -> None:
            self._set.registry.end(plan.id, "applied", self._set.clock())

        path = plan.request.path
        job = Job(member, plan.tool, path, (plan.created_ms, plan.id), plan.id)
        try:
            real = authorized(self._set.files, member, path, "write", "read")
            creates = None if plan.base_digest else lambda: self._drafting.of_new(plan.request)
            written = self._writer.write(job, make, creates, still, then)
        except Refusal as refusal:
            if refusal.code in ("HUNK_NOT_FOUND", "ACCESS_DENIED", "WRONG_OWNER"):
                raise
            self.refused(plan, refusal)
            return Rejected(plan, refusal, seen[0] if seen else None)
        draft = written.made
        if not isinstance(draft.base, Snapshot):
            draft = replace(draft, after_digest=written.digest)
        self._drafting.remember(draft.after, real)
        context: ContextMatch = "exact" if digest_of(draft.diff) == plan.diff_digest else "fuzz"
        if context == "fuzz":
            self.note(plan, "fuzz")
        return Applied(plan, draft, context, written.edit_id)

    def note(self, plan: Plan, how: How) -> None:
        """Remember of a plan that it was not written as it was shown."""
        path = str(plan.request.path)
        self._set.tally.note(Fared(self._set.clock(), plan.owner, path, how))

    def refused(self, plan: Plan, refusal: Refusal) -> None:
        """Remember that the file refused the plan, if it was the file."""
        if counts(refusal):
            self.note(plan, "rejected")

    def blocks(self, plan: Plan, member: Member | None = None) -> BlockDraft:
        """What a plan of a block diff comes to on the notes as they are.

        As its owner sees them, or another member. Raises the refusals of its kind.
        """
        owner = self._set.members(plan.owner, plan.toolset)
        return self._notes.desk.planned(member or owner, plan)

    def _write_blocks(self, member: Member, plan: Plan) -> Applied | Rejected:
        """The same for a plan of a block diff."""

        def still() -> None:
            self.check_waits(plan)

        def then() -> None:
            self._set.registry.end(plan.id, "applied", self._set.clock())

        try:
            draft = self._notes.desk.apply(member, plan, still, then)
        except Refusal as refusal:
            if refusal.code in ("HUNK_NOT_FOUND", "ACCESS_DENIED", "WRONG_OWNER"):
                raise
            self.refused(plan, refusal)
            return Rejected(plan, refusal, None)
        context: ContextMatch = "exact" if digest_of(draft.diff) == plan.diff_digest else "fuzz"
        if context == "fuzz":
            self.note(plan, "fuzz")
        return Applied(plan, draft, context, draft.edit_ids[0] if draft.edit_ids else 0)

    def draft(
        self,
        plan: Plan,
        real: RelPath,
        now: Source,
        base: Text | None = None,
        ahead: Ahead = NOTHING_AHEAD,
    ) -> Draft:
        """The plan's edit on the text now, at its place there; raises the refusals of its kind.

        `base` is the text planned on, where it is at hand; else it is looked up.
        """
        digest = plan.base_digest
        if digest in (None, now.digest) or plan.place.foot is None:
            return made(plan, now)
        read = ahead.digest or now.digest
        since = () if digest == read else self._set.journal.chain(real, digest, read)
        since = None if since is None else (*since, *ahead.inverses)

        def find() -> Snapshot | None:
            if isinstance(base, Snapshot):
                return base
            return self._set.bases.find(digest, self._set.named(real), None)

        return made(plan, now, find, since)

    def check_waits(self, plan: Plan) -> None:
        """Raise unless the plan waits as it is, and was not written; call it in its turn."""
        now_ms = self._set.clock()
        if self._set.registry.get(plan.id, now_ms) != plan:
            raise ContentChanged(
                "the hunk was prepared anew in the meantime",
                planned_lines=plan.place.named,
            )
        entry = self._set.journal.of_hunk(plan.id)
        if entry is None or entry.state == "failed" or entry.time_ms < plan.created_ms:
            return
        state: State = entry.state
        if state == "open" and not entry.group:  # who wrote it was ended before it could say so
            state = self._set.recovery.settle(entry, now_ms)
        if state == "open":
            raise Failed("settle what was broken off", f"{entry.path} is not settled")
        if state != "failed":
            self._set.registry.end(plan.id, "applied", now_ms)
            raise HunkNotFound(plan.id, "applied")

    def turn(self, plan: Plan) -> AbstractContextManager[None]:
        """The turn of the plan's file: within it no apply of the plan is under way."""
        real = self._drafting.real(plan.request.path)
        return self._set.turns.of(real, (plan.created_ms, plan.id), (plan.owner, plan.tool))


def made(
    plan: Plan,
    now: Source,
    find: Callable[[], Snapshot | None] = lambda: None,
    known: tuple[ChangeSet, ...] | None = None,
) -> Draft:
    """The plan's edit on the text as it is now; `find` and `known` as in `place_of`."""
    place = place_of(plan, now, find, known)
    return compose(plan.request, text_for(plan.request, now, place), place)


def digest_of(diff: bytes) -> str:
    """The SHA-256 of a diff, in hex."""
    return Snapshot(diff, UTF8).digest
