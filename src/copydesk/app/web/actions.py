"""The forms of the page: their actions and the page that follows.

Invariant: an action is one call of the desk; a refusal appears on the next page, with the current
state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from copydesk.app.web import changes
from copydesk.app.web.markup import address, named
from copydesk.app.web.pages import (
    Action,
    DiffOptions,
    Location,
    RequestContext,
    model_of,
    number,
    shows_all,
)
from copydesk.app.web.reviewer import words_of
from copydesk.desk.backends.api import Decision
from copydesk.desk.outcome import Applied, NotUndone, Rejected, Transacted
from copydesk.desk.review import Seen
from copydesk.errors import ContentChanged, Refusal
from copydesk.tools.reports import saved_words
from copydesk.tools.ws_mod import UNDO


def approve(ctx: RequestContext) -> Location:
    """Approve the plan for the bytes that were shown."""
    seen = _seen(ctx)
    if not _was_shown(ctx, seen):
        return _here(ctx)
    decision = ctx.review.approve(ctx.member, *seen)
    ctx.session.notify(
        "good", f"{decision.path} is approved. {decision.owner} is told with its next call."
    )
    return _next(ctx)


def apply(ctx: RequestContext) -> Location:
    """Approve the plan and write it at once."""
    seen = _seen(ctx)
    if not _was_shown(ctx, seen):
        return _here(ctx)
    outcome = ctx.review.apply(ctx.member, [seen])
    if isinstance(outcome, Rejected):
        ctx.session.notify("bad", f"Nothing was written: {words_of(outcome.refusal)}")
        return _here(ctx)
    assert isinstance(outcome, Applied), "one plan is applied or rejected"
    words = f"as edit {outcome.edit_id}" if outcome.edit_id else "there was nothing to change"
    ctx.session.notify("good", f"{outcome.plan.request.path} is written, {words}.")
    return _next(ctx)


def reject(ctx: RequestContext) -> Location:
    """Reject the plan with a reason, or ask for a changed one."""
    decision = _reject(ctx, ctx.hunk_id)
    done = "is rejected" if decision.verdict == "rejected" else "needs changes"
    ctx.session.notify(
        "plain", f"{decision.path} {done}. {decision.owner} is told with its next call."
    )
    return _next(ctx)


def comment(ctx: RequestContext) -> Location:
    """Comment on the plan, or on a line of it."""
    line = number(ctx.field("line").strip(), 0, 17)
    if ctx.field("side") == "old":
        line = -line
    said = ctx.review.comment(ctx.member, ctx.hunk_id, ctx.field("text"), line)
    return _here(ctx, f"{said.owner} is told your comment with its next call.")


def withdraw(ctx: RequestContext) -> Location:
    """Withdraw the reviewer's own decision."""
    ctx.review.withdraw(ctx.member, ctx.hunk_id)
    return _here(ctx, "Your decision is withdrawn.")


def extend(ctx: RequestContext) -> Location:
    """Extend the life of the plan."""
    ctx.review.extend(ctx.member, ctx.hunk_id)
    return _here(ctx, "The plan waits longer now.")


def extend_all(ctx: RequestContext) -> Location:
    """Extend the life of all listed plans that expire soon."""
    wanted = ctx.wanted
    soon = [one for one in ctx.reviewer.items() if one.expires_soon and wanted.takes(one)]
    refused = 0
    for item in soon:
        try:
            ctx.review.extend(ctx.member, item.plan.id)
        except Refusal as refusal:
            refused += 1
            ctx.session.notify("bad", f"{item.path}: {words_of(refusal)}")
    if extended := len(soon) - refused:
        verb = "waits" if extended == 1 else "wait"
        ctx.session.notify("plain", f"{named(extended, 'plan')} {verb} longer now.")
    return address(**wanted.query if refused else {**wanted.query, "state": wanted.tab})


def amend(ctx: RequestContext) -> Location:
    """Replace the plan's text; the next page shows it, not yet approved."""
    ctx.reviewer.amend(_seen(ctx), ctx.field("content"))
    return _here(ctx, "This is the change with your text. It is not approved yet.")


def replan(ctx: RequestContext) -> Location:
    """Replace a plan in conflict by one for the file as shown; the next page shows it."""
    given = (ctx.field(name) for name in ("now", "range", "content"))
    ctx.review.replan(ctx.member, ctx.hunk_id, *given)
    return _here(ctx, "This is the new plan, with your text. It is not approved yet.")


def split(ctx: RequestContext) -> Location:
    """Split the plan into one plan for each part that it changes."""
    plans = ctx.review.split(ctx.member, ctx.hunk_id)
    ctx.session.notify(
        "plain", f"It is {named(len(plans), 'plan')} now, each to be decided on alone."
    )
    return address(path=str(plans[0].request.path))


def apply_all(ctx: RequestContext) -> Location:
    """Approve several plans as shown, and write all or none."""
    seen = _several(ctx)
    back = _together(ctx, [one.hunk_id for one in seen])
    if not _was_shown(ctx, *seen):
        return back
    try:
        outcome = ctx.review.apply(ctx.member, seen)
        if not isinstance(outcome, Applied | Transacted):
            raise outcome.refusal
    except Refusal as refusal:
        ctx.session.notify("bad", f"Nothing was written: {words_of(refusal)}")
        return back
    if isinstance(outcome, Applied):
        words = f"{outcome.plan.request.path} is written, as edit {outcome.edit_id}."
    else:
        words = f"{named(len(outcome.applied), 'plan')} written as one."
    ctx.session.notify("good", words)
    return address(**ctx.wanted.query)


def approve_all(ctx: RequestContext) -> Location:
    """Approve several plans as shown, each on its own."""
    seen = _several(ctx)
    if not _was_shown(ctx, *seen):
        return _together(ctx, [one.hunk_id for one in seen])
    approvals = {one.hunk_id: partial(ctx.review.approve, ctx.member, *one) for one in seen}
    return _each(ctx, "approved", approvals)


def reject_all(ctx: RequestContext) -> Location:
    """Reject several plans with one reason, or ask for changed ones."""
    words = "rejected" if ctx.field("verdict") != "changes_requested" else "sent back"
    ids = [one.hunk_id for one in _several(ctx)]
    return _each(ctx, words, {hunk_id: partial(_reject, ctx, hunk_id) for hunk_id in ids})


def undo(ctx: RequestContext) -> Location:
    """Undo an edit."""
    edit_id = ctx.path_params["edit_id"]
    try:
        outcome = ctx.desk.undo(ctx.member, UNDO, ctx.edit_id)
        if isinstance(outcome, NotUndone):
            raise outcome.refusal
    except Refusal as refusal:
        ctx.session.notify("bad", f"It is not undone: {words_of(refusal)}")
        return address("edit", edit_id)
    if not outcome.edit_id:
        ctx.session.notify("plain", "Nothing of it was left to undo.")
        return address("edit", edit_id)
    ctx.session.notify("good", f"Edit {edit_id} is undone, by this one.")
    return address("edit", str(outcome.edit_id))


def _several(ctx: RequestContext) -> list[Seen]:
    return [Seen(*text.split(".")) for text in ctx.form.get("seen", []) if text.count(".") == 2]


def _together(ctx: RequestContext, hunk_ids: Sequence[str]) -> Location:
    back = address("together", **ctx.wanted.query)
    back += "&" if "?" in back else "?"
    return back + "&".join(f"hunk={one}" for one in hunk_ids if one.isalnum())


def _each(
    ctx: RequestContext, done: str, decisions: Mapping[str, Callable[[], Decision]]
) -> Location:
    """Decide on each plan; refused ones are shown again, with the error."""
    left: list[str] = []
    for hunk_id, decide in decisions.items():
        try:
            decide()
        except Refusal as refusal:
            left.append(hunk_id)
            ctx.session.notify("bad", f"{hunk_id}: {words_of(refusal)}")
    count = len(decisions) - len(left)
    if count:
        ctx.session.notify("good", f"{named(count, 'plan')} {done}.")
    return _together(ctx, left) if left else address(**ctx.wanted.query)


def _reject(ctx: RequestContext, hunk_id: str) -> Decision:
    wants_changes = ctx.field("verdict") == "changes_requested"
    reason = ctx.field("reason")
    return ctx.review.reject(ctx.member, hunk_id, reason, wants_changes=wants_changes)


def _writing(action: Action) -> Action:
    """Wrap an action; the next page also reports other programs' writes."""

    def act(ctx: RequestContext) -> Location:
        location = action(ctx)
        words = [
            saved_words(one.path, one.edit_id, f"undo edit {one.edit_id} under History", "en")
            for one in ctx.desk.foreign.told(ctx.member)
        ]
        if words:
            ctx.session.notify("bad", " ".join(words))
        return location

    return act


def _of_plan(action: Action) -> Action:
    """Wrap an action; after a refusal the next page is the plan's, with the reason."""

    def act(ctx: RequestContext) -> Location:
        try:
            return action(ctx)
        except ContentChanged:
            words = "The file or the plan changed after it was shown to you. This is how it is now."
            ctx.session.notify("bad", f"Nothing was decided. {words}")
        except Refusal as refusal:
            ctx.session.notify("bad", words_of(refusal))
        return _here(ctx)

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
    "/edit/{edit_id}/undo": _writing(undo),
    "/changes/keep": changes.keep,
    "/changes/undo": _writing(changes.undo),
    "/changes/edit": _writing(changes.edit),
    "/changes/comment": changes.comment,
}
"""The forms by address."""


def _seen(ctx: RequestContext) -> Seen:
    return Seen(ctx.hunk_id, ctx.field("before"), ctx.field("after"))


def _was_shown(ctx: RequestContext, *seen: Seen) -> bool:
    """Whether this session has seen each plan in full; if not, the next page has a notice."""
    if all(one in ctx.session.seen or _is_short(ctx, one) for one in seen):
        return True
    ctx.session.notify(
        "bad", "Nothing was decided: not all of this change was shown to you. Show all of it first."
    )
    return False


def _is_short(ctx: RequestContext, one: Seen) -> bool:
    """Whether the default page shows the whole plan; a plan that is gone is refused later."""
    try:
        shown = ctx.reviewer.show(one.hunk_id)
    except Refusal:
        return True
    options = DiffOptions()
    return shown.seen[1:] != one[1:] or shows_all(model_of(shown, options), options)


def _here(ctx: RequestContext, words: str = "") -> Location:
    """The page of the same plan, with a notice."""
    if words:
        ctx.session.notify("plain", words)
    return address("hunk", ctx.hunk_id, **ctx.wanted.query)


def _next(ctx: RequestContext) -> Location:
    """The next undecided plan on the page, if it is still pending; otherwise the list."""
    onward = ctx.field("onward")
    parts = ("hunk", onward) if onward and ctx.reviewer.waits(onward) else ()
    return address(*parts, **ctx.wanted.query)
