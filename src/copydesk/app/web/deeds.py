"""What the forms of the page do, and where one goes from there.

What lives here: one function for each form. What must not: markup, requests.
Invariant: a deed is one sentence of the desk; what it refuses is told on the
next page, which shows what is there now.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from copydesk.app.web import hunk
from copydesk.app.web.html import named
from copydesk.app.web.layout import address
from copydesk.app.web.visit import Visit
from copydesk.app.web.wording import words_of
from copydesk.desk.outcome import Applied, NotUndone, Rejected, Transacted
from copydesk.desk.review import Seen
from copydesk.errors import ContentChanged, Refusal

Done = str
"""The address to go on to."""


def approve(visit: Visit) -> Done:
    """Approve the plan for the bytes that were shown."""
    seen = _seen(visit)
    if not _was_shown(visit, seen):
        return _here(visit)
    try:
        decision = visit.person.approve(seen)
    except Refusal as refusal:
        return _refused(visit, refusal)
    visit.session.tell(
        "good", f"{decision.path} is approved. {decision.owner} is told with its next call."
    )
    return _next(visit)


def apply(visit: Visit) -> Done:
    """Approve the plan and write it at once."""
    seen = _seen(visit)
    if not _was_shown(visit, seen):
        return _here(visit)
    try:
        outcome = visit.person.apply([seen])
    except Refusal as refusal:
        return _refused(visit, refusal)
    if isinstance(outcome, Rejected):
        visit.session.tell("bad", f"Nothing was written: {words_of(outcome.refusal)}")
        return _here(visit)
    assert isinstance(outcome, Applied), "one plan is applied or rejected"
    words = f"as edit {outcome.edit_id}" if outcome.edit_id else "there was nothing to change"
    visit.session.tell("good", f"{outcome.plan.request.path} is written, {words}.")
    return _next(visit)


def reject(visit: Visit) -> Done:
    """Say no to the plan, with a reason."""
    try:
        decision = visit.person.reject(visit.place["hunk_id"], _field(visit, "reason"))
    except Refusal as refusal:
        return _refused(visit, refusal)
    visit.session.tell(
        "plain", f"{decision.path} is rejected. {decision.owner} is told with its next call."
    )
    return _next(visit)


def withdraw(visit: Visit) -> Done:
    """Take one's own decision back."""
    try:
        visit.person.withdraw(visit.place["hunk_id"])
    except Refusal as refusal:
        return _refused(visit, refusal)
    visit.session.tell("plain", "Your decision is taken back.")
    return _here(visit)


def amend(visit: Visit) -> Done:
    """Give the plan another text; it is shown so, to be approved."""
    try:
        visit.person.amend(_seen(visit), _field(visit, "content"))
    except Refusal as refusal:
        return _refused(visit, refusal)
    visit.session.tell("plain", "This is the change with your text. It is not approved yet.")
    return _here(visit)


def split(visit: Visit) -> Done:
    """Make one plan of each part that the plan changes."""
    try:
        made = visit.person.split(visit.place["hunk_id"])
    except Refusal as refusal:
        return _refused(visit, refusal)
    visit.session.tell(
        "plain", f"It is {named(len(made), 'plan')} now, each to be decided on alone."
    )
    return address(path=str(made[0].request.path))


def apply_all(visit: Visit) -> Done:
    """Approve several plans as they were shown, and write all or none."""
    seen = [Seen(*text.split(".")) for text in visit.form.get("seen", []) if text.count(".") == 2]
    back = "/together?" + "&".join(f"hunk={one.hunk_id}" for one in seen if one.hunk_id.isalnum())
    if not _was_shown(visit, *seen):
        return back
    try:
        outcome = visit.person.apply(seen)
    except Refusal as refusal:
        visit.session.tell("bad", f"Nothing was written: {words_of(refusal)}")
        return back
    if isinstance(outcome, Applied):
        visit.session.tell(
            "good", f"{outcome.plan.request.path} is written, as edit {outcome.edit_id}."
        )
        return "/"
    if isinstance(outcome, Transacted):
        visit.session.tell("good", f"{named(len(outcome.applied), 'plan')} written as one.")
        return "/"
    visit.session.tell("bad", f"Nothing was written: {words_of(outcome.refusal)}")
    return back


def undo(visit: Visit) -> Done:
    """Take an edit back."""
    edit_id = visit.place["edit_id"]
    try:
        outcome = visit.person.undo(visit.edit_id)
    except Refusal as refusal:
        visit.session.tell("bad", f"It is not undone: {words_of(refusal)}")
        return address("edit", edit_id)
    if isinstance(outcome, NotUndone):
        visit.session.tell("bad", f"It is not undone: {words_of(outcome.refusal)}")
        return address("edit", edit_id)
    if not outcome.edit_id:
        visit.session.tell("plain", "Nothing of it was left to undo.")
        return address("edit", edit_id)
    visit.session.tell("good", f"Edit {edit_id} is undone, by this one.")
    return address("edit", str(outcome.edit_id))


DEEDS: Final[Mapping[str, Callable[[Visit], Done]]] = {
    "/hunk/{hunk_id}/approve": approve,
    "/hunk/{hunk_id}/apply": apply,
    "/hunk/{hunk_id}/reject": reject,
    "/hunk/{hunk_id}/withdraw": withdraw,
    "/hunk/{hunk_id}/amend": amend,
    "/hunk/{hunk_id}/split": split,
    "/apply": apply_all,
    "/edit/{edit_id}/undo": undo,
}
"""The forms by address."""


def _seen(visit: Visit) -> Seen:
    return Seen(visit.place["hunk_id"], _field(visit, "before"), _field(visit, "after"))


def _was_shown(visit: Visit, *seen: Seen) -> bool:
    """Whether all of the plans was shown; the next page says so if not.

    What the page shows in part was opened in this very session; else nobody saw it there.
    """
    if all(one in visit.session.seen or _is_short(visit, one) for one in seen):
        return True
    visit.session.tell(
        "bad", "Nothing was decided: not all of this change was shown to you. Look at all of it."
    )
    return False


def _is_short(visit: Visit, one: Seen) -> bool:
    """Whether the page shows all of a plan at once; what cannot be shown is refused later."""
    try:
        shown = visit.person.show(one.hunk_id)
    except Refusal:
        return True
    return (shown.before, shown.after) != one[1:] or hunk.shows_all(shown, hunk.Look())


def _field(visit: Visit, name: str) -> str:
    return visit.form.get(name, [""])[0]


def _here(visit: Visit) -> Done:
    return address("hunk", visit.place["hunk_id"])


def _refused(visit: Visit, refusal: Refusal) -> Done:
    """The plan again, as it is now, with what was wrong."""
    if isinstance(refusal, ContentChanged):
        words = "The file or the plan changed after it was shown to you. This is how it is now."
        visit.session.tell("bad", f"Nothing was decided. {words}")
    else:
        visit.session.tell("bad", words_of(refusal))
    return _here(visit)


def _next(visit: Visit) -> Done:
    """The next plan that is to be decided on, as the page knew it, if it waits; else the list."""
    onward = _field(visit, "onward")
    return address("hunk", onward) if onward and visit.person.waits(onward) else "/"
