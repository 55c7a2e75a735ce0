"""The forms of the page: their actions and the page that follows.

Invariant: an action is one call of the desk; a refusal appears on the next page, with the current
state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from copydesk.app.web import changes
from copydesk.app.web.markup import LANG, address, named, say
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
    _tell_decision(ctx, "{path} is approved. {owner} is told with its next call.", decision, seen)
    return _next(ctx)


def _tell_decision(ctx: RequestContext, words: str, decision: Decision, seen: Seen) -> None:
    """Say what was decided, on the next page, where it can be taken back."""
    said = say(words, path=decision.path, owner=decision.owner)
    kind = "good" if decision.verdict == "approved" else "plain"
    ctx.session.notify(kind, said, "/withdraw", seen)


def apply(ctx: RequestContext) -> Location:
    """Approve the plan and write it at once."""
    seen = _seen(ctx)
    if not _was_shown(ctx, seen):
        return _here(ctx)
    outcome = ctx.review.apply(ctx.member, [seen])
    if isinstance(outcome, Rejected):
        return _here(ctx, say(_NOT_WRITTEN, why=words_of(outcome.refusal)), "bad")
    assert isinstance(outcome, Applied), "one plan is applied or rejected"
    _tell_written(ctx, outcome)
    return _next(ctx)


_NOT_WRITTEN: Final = "Nothing was written: {why}"


def _tell_written(ctx: RequestContext, outcome: Applied) -> None:
    facts = {"path": outcome.plan.request.path, "edit": outcome.edit_id}
    words = say("{path} is written, as edit {edit}.", **facts)
    if not outcome.edit_id:
        words = say("{path} is written, there was nothing to change.", **facts)
    undo = address("edit", str(outcome.edit_id), "undo") if outcome.edit_id else ""
    ctx.session.notify("good", words, undo)


def reject(ctx: RequestContext) -> Location:
    """Reject the plan with a reason, or ask for a changed one."""
    decision = _reject(ctx, ctx.hunk_id)
    words = "{path} needs changes. {owner} is told with its next call."
    if decision.verdict == "rejected":
        words = "{path} is rejected. {owner} is told with its next call."
    _tell_decision(ctx, words, decision, _seen(ctx))
    return _next(ctx)


def comment(ctx: RequestContext) -> Location:
    """Comment on the plan, or on a line of it."""
    line = number(ctx.field("line").strip(), 0, 17)
    if ctx.field("side") == "old":
        line = -line
    said = ctx.review.comment(ctx.member, ctx.hunk_id, ctx.field("text"), line)
    return _here(ctx, say("{owner} is told your comment with its next call.", owner=said.owner))


def withdraw(ctx: RequestContext) -> Location:
    """Withdraw the reviewer's own decision."""
    ctx.review.withdraw(ctx.member, ctx.hunk_id)
    return _here(ctx, say("Your decision is withdrawn."))


def withdraw_all(ctx: RequestContext) -> Location:
    """Withdraw the reviewer's own decisions on several plans, which are shown again."""
    plans = [one.hunk_id for one in _several(ctx)]
    return _each(
        ctx,
        "{plans} to be decided on again.",
        {one: partial(ctx.review.withdraw, ctx.member, one) for one in plans},
        again=True,
    )


def extend(ctx: RequestContext) -> Location:
    """Extend the life of the plan."""
    ctx.review.extend(ctx.member, ctx.hunk_id)
    return _here(ctx, say("The plan waits longer now."))


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
        words = "{plans} waits longer now." if extended == 1 else "{plans} wait longer now."
        ctx.session.notify("plain", say(words, plans=named(extended, "plan")))
    return address(**wanted.query if refused else {**wanted.query, "state": wanted.tab})


def amend(ctx: RequestContext) -> Location:
    """Replace the plan's text; the next page shows it, not yet approved."""
    ctx.reviewer.amend(_seen(ctx), ctx.field("content"))
    return _here(ctx, say("This is the change with your text. It is not approved yet."))


def replan(ctx: RequestContext) -> Location:
    """Replace a plan in conflict by one for the file as shown; the next page shows it."""
    given = (ctx.field(name) for name in ("now", "range", "content"))
    ctx.review.replan(ctx.member, ctx.hunk_id, *given)
    return _here(ctx, say("This is the new plan, with your text. It is not approved yet."))


def split(ctx: RequestContext) -> Location:
    """Split the plan into one for each part that it changes; decide on those that are chosen."""
    chosen = {number(part, -1) for part in ctx.field("parts").split()}
    if chosen and ctx.reviewer.show(ctx.hunk_id).seen != _seen(ctx):
        raise ContentChanged("the file or the plan changed since it was shown")
    plans = ctx.review.split(ctx.member, ctx.hunk_id)
    if not chosen:
        words = say(
            "It is {plans} now, each to be decided on alone.", plans=named(len(plans), "plan")
        )
        ctx.session.notify("plain", words)
        return address(path=str(plans[0].request.path))
    parts = [ctx.reviewer.show(plan.id).seen for at, plan in enumerate(plans) if at in chosen]
    ctx.session.seen.update(dict.fromkeys(parts))  # they were shown with the whole plan
    form = {
        "seen": [".".join(part) for part in parts],
        "rest": [" ".join(plan.id for at, plan in enumerate(plans) if at not in chosen)],
        "verdict": ["rejected"],
        "reason": [say("This part is not wanted.")],
    }
    decide = {"approve": approve_all, "apply": apply_all, "reject": reject_all}
    return decide[ctx.field("then")](replace(ctx, form=form))


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
        ctx.session.notify("bad", say(_NOT_WRITTEN, why=words_of(refusal)))
        return back
    if isinstance(outcome, Applied):
        _tell_written(ctx, outcome)
    else:
        plans = named(len(outcome.applied), "plan")
        ctx.session.notify("good", say("{plans} written as one.", plans=plans))
    return _together(ctx, ctx.field("rest").split())


def approve_all(ctx: RequestContext) -> Location:
    """Approve several plans as shown, each on its own."""
    seen = _several(ctx)
    if not _was_shown(ctx, *seen):
        return _together(ctx, [one.hunk_id for one in seen])
    approvals = {one.hunk_id: partial(ctx.review.approve, ctx.member, *one) for one in seen}
    return _each(ctx, "{plans} approved.", approvals)


def reject_all(ctx: RequestContext) -> Location:
    """Reject several plans with one reason, or ask for changed ones."""
    is_last = ctx.field("verdict") != "changes_requested"
    words = "{plans} rejected." if is_last else "{plans} sent back."
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
        ctx.session.notify("bad", say("It is not undone: {why}", why=words_of(refusal)))
        return address("edit", edit_id)
    if not outcome.edit_id:
        ctx.session.notify("plain", say("Nothing of it was left to undo."))
        return address("edit", edit_id)
    ctx.session.notify("good", say("Edit {edit} is undone, by this one.", edit=edit_id))
    return address("edit", str(outcome.edit_id))


def _several(ctx: RequestContext) -> list[Seen]:
    return [Seen(*text.split(".")) for text in ctx.form.get("seen", []) if text.count(".") == 2]


def _together(ctx: RequestContext, hunk_ids: Sequence[str]) -> Location:
    """The page of these plans; of no plan: the list."""
    if not hunk_ids:
        return address(**ctx.wanted.query)
    back = address("together", **ctx.wanted.query)
    back += "&" if "?" in back else "?"
    return back + "&".join(f"hunk={one}" for one in hunk_ids if one.isalnum())


def _each(
    ctx: RequestContext,
    done: str,
    decisions: Mapping[str, Callable[[], Decision | None]],
    *,
    again: bool = False,
) -> Location:
    """Decide on each plan; refused ones are shown again, with the error, or all of them."""
    left: list[str] = []
    for hunk_id, decide in decisions.items():
        try:
            decide()
        except Refusal as refusal:
            left.append(hunk_id)
            ctx.session.notify("bad", f"{hunk_id}: {words_of(refusal)}")
    count = len(decisions) - len(left)
    if count:
        taken = [one for one in _several(ctx) if one.hunk_id not in left]
        back = "" if again else "/withdraw"
        ctx.session.notify("good", say(done, plans=named(count, "plan")), back, *taken)
    return _together(ctx, [*(decisions if again else left), *ctx.field("rest").split()])


def _reject(ctx: RequestContext, hunk_id: str) -> Decision:
    wants_changes = ctx.field("verdict") == "changes_requested"
    reason = ctx.field("reason")
    return ctx.review.reject(ctx.member, hunk_id, reason, wants_changes=wants_changes)


def _writing(action: Action) -> Action:
    """Wrap an action; the next page also reports other programs' writes."""

    def act(ctx: RequestContext) -> Location:
        location = action(ctx)
        words = [
            saved_words(
                one.path,
                one.edit_id,
                say("undo edit {edit} under History", edit=one.edit_id),
                LANG.get(),
            )
            for one in ctx.desk.foreign.told(ctx.member)
        ]
        if words:
            ctx.session.notify("bad", " ".join(words))
        return location

    return act


_CHANGED: Final = (
    "Nothing was decided. The file or the plan changed after it was shown to you. This is how it is"
    " now."
)
_NOT_SHOWN: Final = (
    "Nothing was decided: not all of this change was shown to you. Show all of it first."
)


def _of_plan(action: Action) -> Action:
    """Wrap an action; after a refusal the next page is the plan's, with the reason."""

    def act(ctx: RequestContext) -> Location:
        try:
            return action(ctx)
        except ContentChanged:
            ctx.session.notify("bad", say(_CHANGED))
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
    "/withdraw": withdraw_all,
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
    ctx.session.notify("bad", say(_NOT_SHOWN))
    return False


def _is_short(ctx: RequestContext, one: Seen) -> bool:
    """Whether the default page shows the whole plan; a plan that is gone is refused later."""
    try:
        shown = ctx.reviewer.show(one.hunk_id)
    except Refusal:
        return True
    options = DiffOptions()
    return shown.seen[1:] != one[1:] or shows_all(model_of(shown, options), options)


def _here(ctx: RequestContext, words: str = "", kind: str = "plain") -> Location:
    """The page of the same plan, with a notice."""
    if words:
        ctx.session.notify(kind, words)
    return address("hunk", ctx.hunk_id, **ctx.wanted.query)


def _next(ctx: RequestContext) -> Location:
    """The next undecided plan on the page, if it is still pending; otherwise the list.

    From a page of several plans it is the page of the others.
    """
    if rest := ctx.field("rest").split():
        return _together(ctx, rest)
    onward = ctx.field("onward")
    parts = ("hunk", onward) if onward and ctx.reviewer.waits(onward) else ()
    return address(*parts, **ctx.wanted.query)
