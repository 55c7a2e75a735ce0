"""The tools of the patch toolset: patches of several files, as one transaction.

Invariant: every hunk is planned before anything is written; if one does not fit, nothing is, and
only the plans that the answer names remain, for a call that sends the others again.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import product
from typing import ClassVar, Literal

from copydesk import errors
from copydesk.desk.backends.snapshots import ShownLines
from copydesk.desk.desk import as_corrected
from copydesk.desk.outcome import Planned, Transacted, Withheld
from copydesk.edit.draft import Draft, Plan
from copydesk.edit.kinds.base import Fixed
from copydesk.edit.kinds.correction import MOST
from copydesk.edit.kinds.patch import in_order, is_slight
from copydesk.edit.patch_parse import (
    EXECUTABLE,
    FilePatch,
    IsThere,
    invalid,
    parse_apply_patch,
    parse_blocks,
    parse_diff,
)
from copydesk.edit.request import (
    ChangeMode,
    DeleteFile,
    MoveFile,
    PatchEdit,
    Place,
    RangeEdit,
    Request,
    Terms,
    check_count,
)
from copydesk.errors import ApprovalRequired, Refusal, RejectedHunk
from copydesk.text import sizes
from copydesk.text.diff import blob_id
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot
from copydesk.tools import reports
from copydesk.tools.catalog import EDIT, Context, CorrectingCall, Tool
from copydesk.tools.messages import say
from copydesk.tools.report import Answer, Fields, Length, known, named


class _PatchCall(CorrectingCall):
    """A patch in one of the languages; the argument of this name has its text."""

    apply: Literal["never", "auto"] | None = None
    report: Length | None = None
    with_: tuple[str, ...] = ()

    argument: ClassVar[str]

    @abstractmethod
    def parsed(self, is_there: IsThere) -> tuple[FilePatch, ...]:
        """What the patch changes, and skips."""

    def run(self, context: Context, name: str) -> Answer:
        patching = Patching(context, name, self.with_)
        every = self.parsed(patching.is_there)
        patches = tuple(patch for patch in every if patch.kind != "skip")
        check_count(self.argument, sum(len(patch.hunks) for patch in patches))
        auto = (self.apply or context.apply) == "auto"
        answer = patching.run(patches, self.report, auto=auto)
        if left := [patch.path for patch in every if patch.kind == "skip"]:
            answer = reports.with_notices(
                answer,
                "skipped",
                [*left],
                [say("patch.skipped", context.lang, {"names": ", ".join(left)})],
            )
        if patching.there and {"error", "already_there"}.isdisjoint(answer.facts):
            answer = reports.with_notices(
                answer,
                "already_there",
                reports.there_rows(patching.there),
                [say("corrected.already_there", context.lang)],
            )
        if dropped := sum(patch.dropped for patch in patches):  # hunks without lines
            answer = reports.with_notices(
                answer,
                "dropped_hunks",
                dropped,
                [say("patch.dropped", context.lang, {"count": dropped})],
            )
        return answer


class ApplyPatchCall(_PatchCall):
    """A patch in the language of apply_patch."""

    patch: str = ""
    input: str = ""

    argument = "patch"

    def parsed(self, is_there: IsThere) -> tuple[FilePatch, ...]:
        if bool(self.patch) == bool(self.input):
            raise errors.InvalidArgs("patch", "is required, or input, and not both")
        return parse_apply_patch(self.patch or self.input)


class ApplyDiffCall(_PatchCall):
    """A unified diff."""

    diff: str
    skip: tuple[Literal["binary"], ...] = ()

    argument = "diff"

    def parsed(self, is_there: IsThere) -> tuple[FilePatch, ...]:
        return parse_diff(self.diff, skips=bool(self.skip))


class ApplyBlocksCall(_PatchCall):
    """SEARCH/REPLACE blocks."""

    text: str

    argument = "text"

    def parsed(self, is_there: IsThere) -> tuple[FilePatch, ...]:
        return parse_blocks(self.text, is_there)


def planned_or_written(
    context: Context,
    name: str,
    plan: Callable[[list[Planned]], Answer | str | None],
    length: Length | None,
    *,
    auto: bool,
    saying: str = "transaction.planned",
    given: Sequence[Planned] = (),
) -> Answer:
    """The answer to a call that makes several plans, which are written together if `auto`.

    `plan` adds the plans; it returns why they are not to be written at once, or a refusal. Plans
    that are neither written nor told are discarded, but for `given` ones, that were there before.
    Beside a corrected plan nobody else gets to know of the others before that is accepted.
    """
    new, keep = list[Planned](), False
    try:
        declined = plan(new)
        if isinstance(declined, Answer):
            return declined
        planned = [*given, *new]
        if not auto or declined:
            if any(item.fixed for item in new):
                unknown = (item for item in given if item.plan.is_correction)
                for item in (*unknown, *(item for item in new if item.fixed is None)):
                    context.desk.set_aside(item.plan)
            else:
                for item in given:
                    context.desk.accept(context.member, item)
            keep = True
            return reports.planned_together(name, planned, context.lang, declined, saying)
        outcome = context.desk.apply_all(context.member, name, [item.plan.id for item in planned])
        keep = not isinstance(outcome, Withheld) or isinstance(outcome.refusal, ApprovalRequired)
        if isinstance(outcome, Transacted):
            fixed = {item.plan.id: item.fixed for item in planned}
            applied = tuple(as_corrected(item, fixed[item.plan.id]) for item in outcome.applied)
            return reports.transacted(name, replace(outcome, applied=applied), context.lang, length)
        answer = reports.withheld(name, outcome, context.lang)
        return answer if keep else replace(answer, next_steps=())
    finally:
        for item in () if keep else new:
            with suppress(Refusal):
                context.desk.discard(context.member, item.plan.id)


def _places(plan: Plan, draft: Draft) -> set[int | str]:
    """Where in its text a plan changes it; else that it changes the name or mode of the file."""
    return {edit.start for edit in draft.change.edits} or {plan.action}


class Patching:
    """The plans of one patch and their application. `name` is the tool's name.

    `ids` are those of plans that belong to it: they are written with the patch, or nothing is.
    """

    def __init__(self, context: Context, name: str, ids: Sequence[str] = ()) -> None:
        self._context, self._name = context, name
        self._member = context.member.at_once()
        self._given = [
            context.desk.own(context.member, name, hunk_id) for hunk_id in dict.fromkeys(ids)
        ]
        self._planned, self.there = list[Planned](), list[RejectedHunk]()
        self._rejected, self._lost = list[RejectedHunk](), list[RejectedHunk]()
        self._fitting: list[tuple[Planned, list[int] | None]] = [(one, None) for one in self._given]
        self._refused: list[tuple[str, Refusal]] = []

    def run(self, patches: tuple[FilePatch, ...], length: Length | None, *, auto: bool) -> Answer:
        """Plan everything; if `auto` and every hunk is certain, write it all at once."""

        def plan(planned: list[Planned]) -> Answer | str | None:
            self._planned = planned
            for patch in patches:
                self._plan(patch)
            self._check_apart()
            reasons = (
                self._context.desk.declined(
                    self._context.member, item, Terms(version=item.draft.base.version)
                )
                for item in (*self._given, *planned)
            )
            return self._refusal() or (next(filter(None, reasons), None) if auto else None)

        answer = planned_or_written(
            self._context,
            self._name,
            plan,
            length,
            auto=auto,
            saying="patch.planned",
            given=self._given,
        )
        is_told = not {"error", "already_there"}.isdisjoint(answer.facts) or answer.line
        # what is corrected has to be looked at
        if length != "brief" or is_told or any(item.fixed for item in self._planned):
            return answer
        lines = [
            f"planned {item.plan.id} · {named(str(item.plan.request.path))}"
            f" +{item.draft.new_count} -{item.draft.old_count}"
            for item in (*self._given, *self._planned)
        ]
        return replace(answer, line=lines[0], remarks=tuple(lines[1:]), shows_diff=False)

    def _check_apart(self) -> None:
        """Raise InvalidArgs if a new plan changes a place that a given one changes there, too."""
        for item, given in product(self._planned, self._given):
            base, draft = item.draft.base, given.draft
            if given.plan.request.path != item.plan.request.path:
                continue
            if draft.base.digest != base.digest and not given.plan.request.is_operation:
                if not isinstance(base, Snapshot):
                    continue  # its place is not known in a text that is too long to be loaded
                try:
                    draft = self._context.desk.applying.draft(
                        given.plan, given.real, base, draft.base
                    )
                except Refusal:  # to write it is refused as well
                    continue
            if _places(item.plan, item.draft) & _places(given.plan, draft):
                raise errors.InvalidArgs(
                    "with",
                    f"has {given.plan.id}, which changes a place that the patch changes;"
                    " send its hunks instead of the id",
                )

    def _plan(self, patch: FilePatch) -> None:
        first = len(self._planned)
        try:
            match patch.kind:
                case "delete":
                    self._delete(patch)
                case "add" | "replace" if patch.replaces:
                    self._put(patch)
                case "add" if patch.in_order:
                    self._prepare_in_order(patch)
                case "add":
                    new, executable = self._context.path_below(patch.path), patch.mode == EXECUTABLE
                    self._prepare(PatchEdit(new, patch.hunks, creates=True, executable=executable))
                case _:
                    self._update(patch)
        except errors.PatchRejected as refusal:
            there = [hunk for hunk in refusal.rejected if hunk.reason == "already_there"]
            if self._was_made(patch):
                self._drop(first)
                lines = {hunk.hunk: hunk.lines for hunk in there}
                self.there += (
                    RejectedHunk(patch.path, at, "already_there", hunk.at, lines.get(at))
                    for at, hunk in enumerate(patch.hunks, 1)
                )
                return
            if there and [len(hunk.lines or ()) for hunk in there] == [1] * len(patch.hunks):
                self.there += there
                self._lost += (  # certain only if nothing is written
                    replace(hunk, reason="not_found", lines=None)
                    for hunk in there
                    if is_slight(patch.hunks[hunk.hunk - 1])
                )
            else:
                self._rejected += map(partial(self._told, patch), refusal.rejected)
                if patch.kind == "update":
                    self._plan_rest(patch, {hunk.hunk for hunk in refusal.rejected})
        except (errors.Failed, errors.Busy):
            raise
        except Refusal as refusal:
            self._rejected.append(
                RejectedHunk(
                    patch.path,
                    0,
                    "file_refused",
                    patch.hunks[0].at if patch.hunks else patch.line,
                    refused_as=refusal.code,
                )
            )
            is_target = patch.to and isinstance(refusal, errors.FileExists)
            self._refused.append((patch.to if is_target else patch.path, refusal))
        else:
            self._fit(first, patch)

    def _was_made(self, patch: FilePatch) -> bool:
        """Whether the last edit of the file, a member's own, made just this: it comes again."""
        if patch.kind != "update" or patch.mode or patch.to or len(patch.hunks) > MOST:
            return False
        with suppress(Refusal):
            path = self._context.path_below(next(filter(self.is_there, patch.names), patch.path))
            _, now = self._context.desk.contents(self._member, path)
            (last,) = self._context.desk.history.page(self._member, path, most=1).edits or (None,)
            if now is None or last is None or now.size > sizes.CORRECTED or not last.inverse.edits:
                return False
            if (last.member, last.after) == (self._member.name, now.digest):
                before = now.edited(last.inverse)
                made = in_order(path, patch.hunks, before, created=False).request
                return isinstance(made, PatchEdit) and made.after == blob_id(now.data)
        return False

    def _drop(self, first: int) -> None:
        """Discard the plans from this one on."""
        for item in self._planned[first:]:
            self._context.desk.discard(self._member, item.plan.id)
        del self._planned[first:]

    def _told(self, patch: FilePatch, rejection: RejectedHunk) -> RejectedHunk:
        """The rejection of a hunk; where only a given plan makes its old lines, it says so."""
        for item in self._given if rejection.reason == "not_found" else ():
            path, base, after = item.plan.request.path, item.draft.base, item.draft.after
            if str(path) != rejection.path:
                continue
            if isinstance(base, Snapshot) and isinstance(after, Snapshot):
                hunk = PatchEdit(path, (patch.hunks[rejection.hunk - 1],))
                with suppress(Refusal):
                    hunk.places(after)
                    with suppress(Refusal):
                        hunk.places(base)
                        continue  # another program has changed them
                    return RejectedHunk(
                        rejection.path, rejection.hunk, "made_by_kept", rejection.patch_line
                    )
        return rejection

    def _fit(self, first: int, patch: FilePatch, lost: Collection[int] = ()) -> None:
        """Note that the plans from this one on are of hunks that fit, if none is corrected."""
        self._fitting += [
            (item, [number for number, _ in enumerate(patch.hunks, 1) if number not in lost])
            for item in self._planned[first:]
            if item.fixed is None
        ]

    def _plan_rest(self, patch: FilePatch, lost: Collection[int]) -> None:
        """Plan the hunks of a file that fit without the lost ones; its mode and name wait."""
        first = len(self._planned)
        rest = tuple(hunk for number, hunk in enumerate(patch.hunks, 1) if number not in lost)
        with suppress(Refusal):
            self._update(replace(patch, hunks=rest, mode="", to=""))
            self._fit(first, patch, lost)

    def _keeping(self, refusal: Answer) -> Answer:
        """The refusal; it names the plans of what fits, kept for a call that has the rest."""
        rows: list[Fields] = []
        for item, hunks in self._fitting:
            request = item.plan.request
            with suppress(Refusal):
                if hunks is not None or item.plan.is_correction:  # ten minutes from now
                    self._context.desk.set_aside(item.plan)
                if hunks is not None:
                    self._planned.remove(item)
                runs = None if request.is_operation else item.draft.place.runs
                rows.append(
                    known(
                        hunk_id=item.plan.id,
                        path=str(request.path),
                        action=item.plan.action,
                        hunks=hunks,
                        lines=runs and [Place(*run, run).named for run in runs],
                    )
                )
        said = say(
            "patch.fits", self._context.lang, {"ids": json.dumps([row["hunk_id"] for row in rows])}
        )
        return reports.with_notices(refusal, "fits", [*rows], [said]) if rows else refusal

    def _update(self, patch: FilePatch) -> None:
        path = self._context.path_below(patch.path)
        if patch.in_order and any(hunk.signs or hunk.divider for hunk in patch.hunks):
            path = self._prepare_in_order(patch).plan.request.path
        elif patch.hunks:
            try:
                planned = self._prepare_first(
                    patch, lambda name: PatchEdit(name, patch.hunks, patch.base, patch.after)
                )
            except errors.PatchRejected as refusal:
                if not patch.in_order:
                    raise
                try:
                    planned = self._prepare_in_order(patch)
                except errors.PatchRejected:
                    raise refusal from None
            else:
                if patch.in_order and planned.fixed and "already_there" in planned.fixed.causes:
                    with suppress(errors.PatchRejected):  # unless a block before it makes its lines
                        planned = self._instead_of(planned, self._prepare_in_order(patch))
                elif patch.in_order and isinstance(request := planned.draft.request, PatchEdit):
                    base, parts = planned.draft.base.whole(), planned.draft.place.parts
                    if request.check_order(base, parts):
                        causes = planned.fixed.causes if planned.fixed else ()
                        fixed = Fixed(request, (*causes, "changed_before"), is_certain=False)
                        planned = self._instead_of(planned, self._prepare(request, fixed=fixed))
            path = planned.plan.request.path
        if patch.mode:
            self._prepare(ChangeMode(path, patch.mode == EXECUTABLE))
        if patch.to:
            self._prepare(MoveFile(path, self._context.path_below(patch.to)))

    def _instead_of(self, planned: Planned, better: Planned) -> Planned:
        self._planned.remove(better)
        self._drop(self._planned.index(planned))
        self._planned.append(better)
        return better

    def _put(self, patch: FilePatch) -> None:
        """Plan a new file, or that an existing one becomes it; FileExists if that was not shown."""
        path = self._context.path_below(patch.path)
        fixed = in_order(path, patch.hunks, Snapshot.of(b""), created=True)
        if patch.kind == "add" and not self.is_there(patch.path):
            self._prepare(fixed.request, fixed=fixed)
            return
        text = fixed.request.text or ""
        planned = self._prepare(RangeEdit(path, "~", text), fixed=fixed)
        is_meant = text and self._context.desk.has_seen(self._member, planned)
        if patch.kind == "add" and not is_meant:
            raise errors.FileExists(planned.draft.base.size)

    def _prepare_in_order(self, patch: FilePatch) -> Planned:
        """Plan hunks each on the result of those before."""
        path = self._context.path_below(next(filter(self.is_there, patch.names), patch.path))
        base = None
        try:
            document, base = self._context.desk.contents(self._member, path)
            if base is None:
                Snapshot.of(document.data)  # raises BinaryFile
        except errors.FileNotFound:
            if patch.kind == "update":
                raise
        fixed = in_order(path, patch.hunks, base or Snapshot.of(b""), created=base is None)
        return self._prepare(fixed.request, fixed=fixed)

    def _prepare_first(self, patch: FilePatch, request: Callable[[RelPath], Request]) -> Planned:
        """The plan for the first existing one of the names in the patch."""
        missing: errors.FileNotFound | None = None
        for name in patch.names:
            try:
                planned = self._prepare(request(self._context.path_below(name)))
            except errors.FileNotFound as refusal:
                missing = missing or refusal
                continue
            if patch.other and name == patch.path and self.is_there(patch.other):
                raise invalid("two_files", patch.line, f"{name}, {patch.other}")
            return planned
        assert missing is not None, "there is a name"
        raise missing

    def is_there(self, name: str) -> bool:
        """Whether the member may see a file with this path."""
        with suppress(Refusal):
            info = self._context.looking.info(self._member, self._context.path_below(name))
            return info.kind == "file"
        return False

    def _delete(self, patch: FilePatch) -> None:
        """Plan the removal; if the patch contains the file's text, the file has it: it is known."""
        planned = self._prepare_first(patch, DeleteFile)
        if patch.has_text:
            base, path = planned.draft.base.whole(), planned.plan.request.path
            PatchEdit(path, patch.hunks, base=patch.base).check_whole(base, patch.line)
            lines = ShownLines(base.version, base.line_count, ((0, base.line_count),), read=False)
            self._context.desk.note_shown(self._member, path, lines)

    def _prepare(self, request: Request, fixed: Fixed | None = None) -> Planned:
        fixed = fixed if fixed and fixed.causes else None
        planned = self._context.desk.prepare(self._member, self._name, request, fixed=fixed)
        assert isinstance(planned, Planned), "it was not to be written"
        self._planned.append(planned)
        return planned

    def _refusal(self) -> Answer | None:
        """The answer about the hunks that do not fit; None if all fit."""
        lang = self._context.lang
        plans = (*self._given, *self._planned)
        self._rejected += self._lost if plans or self._rejected else ()
        if len(self._rejected) == 1 and self._refused:
            path, refusal = self._refused[0]
            answer = reports.refused(self._name, path, refusal, lang, ("patch",))
            summary = "{path}: {summary}".format(**answer.facts)
            return self._keeping(replace(answer, source={**answer.facts, "summary": summary}))
        if self._rejected:
            refusal = errors.PatchRejected(tuple(self._rejected))
            return self._keeping(reports.refused(self._name, None, refusal, lang, ("patch",)))
        return (
            reports.already_there(self._name, self.there, lang)
            if self.there and not plans
            else None
        )


def patch() -> tuple[Tool, ...]:
    """The catalog's rows of this toolset."""
    tool = partial(Tool, toolset="patch", destroys=True)
    return (
        tool("apply_patch", call=ApplyPatchCall, also=(EDIT,)),
        tool("apply_diff", call=ApplyDiffCall),
        tool("apply_blocks", call=ApplyBlocksCall),
    )
