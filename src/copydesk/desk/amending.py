"""A plan that a person changes before it is approved: another text, or several plans of one.

What lives here: the new plans. What must not: decisions on them (they wait anew),
the writing. Invariants: a plan that was decided on is not changed; its owner is
told of every change; the id of a plan with another text stays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from copydesk.desk.applying import Applying, digest_of
from copydesk.desk.drafting import Drafting
from copydesk.desk.setting import Setting
from copydesk.edit.draft import Draft, compose
from copydesk.edit.locate import foot_span, locate, text_for
from copydesk.edit.plan import Plan
from copydesk.edit.request import BatchEdit, BlockDiff, RangeEdit, Request
from copydesk.errors import InvalidArgs
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.snapshot import Snapshot, Text
from copydesk.text.source import Whole
from copydesk.text.unified import Region

RANGE_EDIT = "prepare_file_range_edit"
"""The tool that would have made the parts of a plan."""


def text_of(request: Request) -> str | None:
    """The new text of a request, which a person may change; None when it has several."""
    if isinstance(request, BatchEdit):
        return request.edits[0].new if len(request.edits) == 1 else None
    return request.content


def regions_apart(draft: Draft) -> tuple[Region, ...]:
    """The regions that a draft alters, with at least one line between them that stays."""
    found: list[Region] = []
    for region in draft.regions:
        last = found[-1] if found else None
        if last is not None and last.stop == region.start:
            found[-1] = Region(
                last.start, region.stop, last.begin, region.end, last.new + region.new
            )
        else:
            found.append(region)
    return tuple(found)


def check_text(argument: str, text: str) -> None:
    """Raise InvalidArgs unless the text is valid Unicode without NUL."""
    if "\0" in text:
        raise InvalidArgs(argument, "holds a NUL character")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidArgs(argument, "holds a lone surrogate")


class Amending:
    """Changes the plans of one workspace."""

    def __init__(self, setting: Setting, drafting: Drafting, applying: Applying) -> None:
        self._set, self._drafting, self._applying = setting, drafting, applying

    def amend(self, plan: Plan, by: str, new_content: str, decide: Callable[[], None]) -> Plan:
        """The plan with another text, on the file as it is; `decide` may refuse it.

        Raises InvalidArgs for a plan of several edits and for text that no edit may
        have, and the refusals of the file.
        """
        request = _with_text(plan.request, new_content)
        with self._applying.turn(plan):
            self._applying.check_waits(plan)
            draft = self._draft(replace(plan, request=request))
            made = self._planned(plan, plan.id, draft.request, draft, by)
            decide()
            self._set.registry.put(made)
        self._remember(made, draft)
        return made

    def split(self, plan: Plan, by: str, decide: Callable[[str], None]) -> tuple[Plan, ...]:
        """One plan for each region that the plan alters; itself it is gone.

        `decide` is told their ids and may refuse. Raises InvalidArgs for a plan of
        one region, of a file that is not held whole, and where the parts would not
        come to the very bytes that the plan comes to.
        """
        with self._applying.turn(plan):
            self._applying.check_waits(plan)
            if isinstance(plan.request, BlockDiff):
                raise InvalidArgs("hunk_id", "is a block diff, which is changed by its text")
            draft = self._draft(plan)
            base = draft.base
            apart = regions_apart(draft)
            if draft.created or len(apart) < 2 or not isinstance(base, Snapshot):
                raise InvalidArgs("hunk_id", "is of one region, which cannot be split")
            made: list[Plan] = []
            edits: list[Edit] = []
            for region in apart:
                request = _of_region(plan, base, region)
                place = locate(request, Whole(base))
                part = compose(request, text_for(request, Whole(base), place), place)
                one = self._planned(plan, self._set.ids(), request, part, by)
                made.append(replace(one, tool=plan.tool.replace(_name(plan.tool), RANGE_EDIT)))
                edits += part.change.edits
            if base.edited(ChangeSet.of(base.size, edits)) != draft.after:
                raise InvalidArgs("hunk_id", "cannot be split without changing other bytes")
            decide(", ".join(one.id for one in made))
            for index, one in enumerate(made):
                while not self._set.registry.add(made[index]):
                    made[index] = replace(one, id=self._set.ids())
            self._set.registry.end(plan.id, "discarded", self._set.clock())
        self._drafting.remember(base, self._drafting.real(plan.request.path))
        return tuple(made)

    def _draft(self, plan: Plan) -> Draft:
        if isinstance(plan.request, BlockDiff):
            return self._applying.blocks(replace(plan, blocks=None))
        real = self._set.files.resolve(plan.request.path)
        if plan.base_digest is None:
            return self._drafting.of_new(plan.request)
        return self._drafting.on_file(
            plan.request, lambda now: self._applying.draft(plan, real, now)
        )

    def _planned(self, plan: Plan, hunk_id: str, request: Request, draft: Draft, by: str) -> Plan:
        now_ms = max(self._set.clock(), plan.created_ms + 1)  # what was decided is another plan
        return replace(
            plan,
            id=hunk_id,
            request=request,
            place=draft.place,
            action=draft.action,
            base_digest=None if draft.created else draft.base.digest,
            diff_digest=digest_of(draft.diff),
            created_ms=now_ms,
            expires_ms=max(plan.expires_ms, now_ms + self._set.ttl_ms),
            span=foot_span(draft.base, draft.place),
            edited_by=by,
            blocks=draft.reads,
        )

    def _remember(self, plan: Plan, draft: Draft) -> None:
        self._applying.show(plan, draft)
        self._drafting.remember(draft.base, self._drafting.real(plan.request.path))


def _with_text(request: Request, text: str) -> Request:
    check_text("new_content", text)
    if not isinstance(request, BatchEdit):
        return replace(request, content=text)
    first, *others = request.edits
    if others:
        raise InvalidArgs("new_content", "is of one edit, and the hunk has several: split it first")
    return replace(request, edits=(replace(first, new=text),))


def _of_region(plan: Plan, base: Text, region: Region) -> RangeEdit:
    """The request that makes the change of one region.

    Lines that are inserted take a line beside them along, which stays as it is.
    """
    new = [base.encoding.decode(line) for line in region.new]
    start, stop = region.start, region.stop
    if start == stop and start == base.line_count:
        return RangeEdit(plan.request.path, f"{start + 1}~", "".join(new))
    if start == stop:
        stop += 1
        new.append(base.encoding.decode(base.raw(start, stop)))
    return RangeEdit(plan.request.path, f"{start + 1}~{stop}", "".join(new))


def _name(tool: str) -> str:
    return tool.removeprefix("team_mgmt_")
