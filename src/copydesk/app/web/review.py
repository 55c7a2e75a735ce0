"""The page of one plan, and of several plans decided together.

Invariant: a form that approves holds the digests of what the page shows, and is there only
when all changed lines are shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from copydesk.app.web.diff_model import DiffLine, DiffModel, of_change
from copydesk.app.web.diff_view import (
    Colours,
    View,
    colours_of,
    cuts_changes,
    left_out,
    summary,
    table,
)
from copydesk.app.web.html import NOTHING, Html, joined, named, odd_in, shown, tag, verbatim
from copydesk.app.web.layout import Frame, address, empty, form, hidden, moment, page, path_shown
from copydesk.app.web.pending import described, state_badge
from copydesk.desk.amending import regions_apart, text_of
from copydesk.desk.review import Shown
from copydesk.edit.draft import Draft
from copydesk.text.snapshot import Snapshot
from copydesk.text.unified import line_counts

MOST_ROWS: Final = 2_000
"""A diff of more rows is shown in part, until all of it is asked for."""

CONTEXTS: Final = (3, 10, 40, 1_000_000)
_MOST_COLOURED: Final = 150_000
_MOST_EDITED: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class DiffOptions:
    """How a diff is looked at; `everything`: also one of very many rows."""

    view: View = "split"
    context: int = CONTEXTS[0]
    everything: bool = False


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The plans before and after this one in the list, by id; empty for none.

    `onward` is the next one that is to be decided on.
    """

    before: str = ""
    after: str = ""
    onward: str = ""


def shows_all(one: Shown, look: DiffOptions) -> bool:
    """Whether all that changes is shown when it is looked at so."""
    if look.everything:
        return True
    sides = of_change(one.draft.base, one.draft.change, look.context)
    return sides.rows <= MOST_ROWS and not cuts_changes(sides)


def review(frame: Frame, one: Shown, why: str, look: DiffOptions, beside: Neighbours) -> Html:
    """The page of one plan. `why` are the words for a plan that cannot be made now."""
    plan = one.plan
    path = str(plan.request.path)
    sides = of_change(one.draft.base, one.draft.change, look.context)
    whole = look.everything or sides.rows <= MOST_ROWS
    here = address("hunk", plan.id)
    head = tag(
        "div",
        tag("div", tag("h1", path_shown(path)), state_badge(one.state), class_="top"),
        facts(one),
        id="head",
    )
    diff = tag(
        "section",
        toolbar(here, look, sides),
        tag(
            "div",
            diff_of(one.draft, sides, here, look, whole),
            class_="scroll",
            tabindex=0,
            role="region",
            aria_label="The change",
        ),
        class_="sheet",
        id="diff",
        aria_label="Diff",
    )
    if look.everything or (whole and not cuts_changes(sides)):
        decide = tag(
            "section",
            _decide(frame, one, beside),
            id="decide",
            class_="decide",
            aria_label="Decide",
        )
    else:
        every = address("hunk", plan.id, view=look.view, all="1")
        lines = f"Show all {named(sides.rows, 'line')}" if not whole else "Show all of it"
        link = tag("a", lines, href=every, class_="button")
        words = tag("p", "To decide on this change, look at all of it first.")
        cut = _cut(one, sides, look) if whole else NOTHING
        decide = tag("section", cut, words, link, id="decide", class_="decide", aria_label="Decide")
    return page(
        frame,
        path.rpartition("/")[2],
        "pending",
        tag("div", _state(one, why), id="state", role="status"),
        head,
        tag(
            "div",
            diff,
            decide,
            id="review",
            data_sign=f"{plan.created_ms}.{one.before}.{one.after}",
        ),
        neighbours(beside),
        wide=True,
    )


def together(
    frame: Frame, all_: Sequence[Shown], refused: Sequence[tuple[str, str]], look: DiffOptions
) -> Html:
    """Several plans on one page, to be applied all or none.

    `refused` are those that cannot be: what they are, and why.
    """
    sections: list[Html] = []
    fields: list[Html] = []
    complete = True
    for one in all_:
        sides = of_change(one.draft.base, one.draft.change, look.context)
        complete = complete and shows_all(one, look)
        path = str(one.plan.request.path)
        title = tag("h2", tag("a", path_shown(path), href=address("hunk", one.plan.id)))
        diff = diff_of(one.draft, sides, address("hunk", one.plan.id), look, True)
        scroll = tag(
            "div",
            diff,
            class_="scroll",
            tabindex=0,
            role="region",
            aria_label=f"The change of {path}",
        )
        box = tag("section", scroll, class_="sheet")
        head = tag("div", title, state_badge(one.state), class_="top")
        whole = (head, facts(one), box, _cut(one, sides, look))
        sections.append(tag("div", *whole, class_="plan"))
        fields.append(hidden("seen", f"{one.plan.id}.{one.before}.{one.after}"))
    notes = [tag("p", shown(f"{what}: {why}"), class_="notice bad") for what, why in refused]
    button = tag(
        "button", f"Apply all {len(all_)} as one ", tag("kbd", "⇧A"), class_="primary", data_key="A"
    )
    back = tag("a", "Back to the list", href="/", class_="button", data_key="u")
    can = bool(all_) and not refused and complete
    words = "All of them are written, or none." if can else "They cannot be applied together."
    decide = tag(
        "div",
        tag("span", words, class_="note"),
        back,
        form(frame, "/apply", *fields, button) if can else NOTHING,
        class_="chosen-bar",
    )
    title = tag("h1", f"{named(len(all_) + len(refused), 'plan')} together")
    return page(frame, "Together", "pending", title, *notes, *sections, decide, wide=True)


def gone(frame: Frame, title: str, words: str, edit_id: int = 0) -> Html:
    """The page of a plan that does not wait any more."""
    more = tag("p", shown(words))
    if edit_id:
        link = tag("a", f"Look at edit {edit_id}", href=address("edit", str(edit_id)))
        return page(frame, title, "pending", empty(title, more, tag("p", link)))
    return page(
        frame,
        title,
        "pending",
        empty(title, more, tag("p", tag("a", "Back to the list", href="/"))),
    )


def facts(one: Shown) -> Html:
    """Who wants what, since when, until when."""
    plan = one.plan
    return tag(
        "p",
        tag("span", tag("b", plan.owner), shown(f" {described(plan)}")),
        summary(*line_counts(one.draft.base, one.draft.change)),
        tag("span", plan.tool),
        tag("span", moment(plan.created_ms)),
        tag("span", "expires ", moment(plan.expires_ms, "until")),
        class_="facts",
    )


def toolbar(here: str, look: DiffOptions, sides: DiffModel) -> Html:
    """How the diff is looked at."""

    def at(**changed: str | int) -> str:
        return address(
            *here.strip("/").split("/"), **{"view": look.view, "context": look.context, **changed}
        )

    views = (
        tag(
            "a",
            words,
            href=at(view=view),
            data_swap="diff",
            data_key="v" if look.view != view else None,
            aria_current="true" if look.view == view else None,
        )
        for view, words in (("split", "Side by side"), ("unified", "One column"))
    )
    wider = next((each for each in CONTEXTS if each > look.context), None)
    hides = bool(sides.skipped) or any(hunk.skipped for hunk in sides.hunks)
    more = tag("a", "More of the file", href=at(context=wider or 0), data_swap="diff", data_key="c")
    less = tag("a", "Less", href=at(context=CONTEXTS[0]), data_swap="diff")
    return tag(
        "div",
        tag("span", joined(views), class_="segments"),
        more if wider and hides else NOTHING,
        less if look.context > CONTEXTS[0] else NOTHING,
        tag("a", "As text", href=f"{here}/diff", class_="push"),
        class_="tools",
    )


def diff_of(draft: Draft, sides: DiffModel, here: str, look: DiffOptions, whole: bool) -> Html:
    """The diff of a draft, with the colours of the whole file where it is not too large."""
    if not sides.hunks:
        return tag("p", "No line changes.", class_="empty")
    if not whole:
        sides = sides.first(MOST_ROWS)
    more = address(*here.strip("/").split("/"), view=look.view, context=CONTEXTS[-1])
    path = str(draft.request.path)
    return table(path, sides, look.view, more, _colours(draft, path), whole=look.everything)


def _cut(one: Shown, sides: DiffModel, look: DiffOptions) -> Html:
    """What is to be known of lines that are too long to be shown whole."""
    every = address("hunk", one.plan.id, view=look.view, all="1")
    return NOTHING if look.everything else left_out(sides, every)


def neighbours(beside: Neighbours) -> Html:
    """The way to the plans before and after."""
    before = tag("a", "← Newer", href=address("hunk", beside.before), data_key="k")
    after = tag("a", "Older →", href=address("hunk", beside.after), data_key="j")
    return tag(
        "nav",
        before if beside.before else tag("span"),
        tag("a", "All that wait", href="/", data_key="u"),
        after if beside.after else tag("span"),
        class_="neighbours",
        aria_label="Other plans",
    )


def _state(one: Shown, why: str) -> Html:
    """What is to be known before one reads the diff."""
    if one.state == "conflict":
        words = (
            f"This cannot be applied to the file as it is: {why} What you see is as it was planned."
        )
        return tag("p", words, class_="notice bad")
    decided = one.decision
    if decided is None:
        return NOTHING
    reason = shown(f": “{decided.reason}”") if decided.reason else NOTHING
    kind = "bad" if decided.verdict == "rejected" else "good"
    words = shown(f"{decided.verdict.capitalize()} by {decided.by} ")
    return tag("p", words, moment(decided.time_ms), reason, class_=f"notice {kind}")


def _decide(frame: Frame, one: Shown, beside: Neighbours) -> Html:
    here = address("hunk", one.plan.id)
    if one.decision is not None and one.decision.verdict != "approved":
        mine = one.decision.by == frame.name
        take = form(frame, f"{here}/withdraw", tag("button", "Take my decision back"))
        words = tag("span", "It is decided; the agent is told with its next call.", class_="note")
        return tag("div", words, take if mine else NOTHING, class_="buttons")
    onward = hidden("onward", beside.onward)
    bound = joined((hidden("before", one.before), hidden("after", one.after), onward))
    can = one.state != "conflict"
    approved = one.decision is not None
    approve = form(
        frame, f"{here}/approve", bound, tag("button", "Approve ", tag("kbd", "a"), data_key="a")
    )
    apply = form(
        frame,
        f"{here}/apply",
        bound,
        tag(
            "button",
            "Apply" if approved else "Approve and apply",
            " ",
            tag("kbd", "⇧A"),
            class_="primary",
            data_key="A",
        ),
    )
    back = form(frame, f"{here}/withdraw", tag("button", "Take my approval back"))
    mine = one.decision is not None and one.decision.by == frame.name
    parts = form(frame, f"{here}/split", tag("button", "Split into parts"))
    buttons = (
        apply if can else NOTHING,
        approve if can and not approved else NOTHING,
        parts if can and not approved and _splits(one) else NOTHING,
        back if mine else NOTHING,
        tag(
            "span",
            tag("span", _digests(one), title="an approval is for these bytes: before and after"),
            class_="bound",
        )
        if can
        else NOTHING,
    )
    extra = tag("div", _rejection(frame, here, onward), _editing(frame, one, here), class_="extra")
    return joined((tag("div", *buttons, class_="buttons"), extra))


def _splits(one: Shown) -> bool:
    """Whether there are several parts that can be decided on alone."""
    draft = one.draft
    return not draft.created and isinstance(draft.base, Snapshot) and len(regions_apart(draft)) > 1


def _digests(one: Shown) -> Html:
    before = one.before[:8] or "new file"
    return joined((shown("bytes "), tag("code", before), shown(" → "), tag("code", one.after[:8])))


def _rejection(frame: Frame, here: str, onward: Html) -> Html:
    field = tag(
        "textarea",
        NOTHING,
        name="reason",
        rows=3,
        required=True,
        maxlength=4_000,
        aria_label="Why not",
        placeholder="Why not, and what would be better. The agent reads this.",
    )
    send = form(frame, f"{here}/reject", onward, field, tag("button", "Reject", class_="bad"))
    return tag(
        "details",
        tag("summary", "Reject, with a reason ", tag("kbd", "r")),
        send,
        id="reject",
        name="decision",
        data_opens="r",
    )


def _editing(frame: Frame, one: Shown, here: str) -> Html:
    """The new text in a field, where a field can hold it."""
    content = text_of(one.plan.request)
    if content is None or one.state == "conflict":
        return NOTHING
    odd = odd_in(content)
    if "\r" in content.replace("\r\n", "\n") or len(content) > _MOST_EDITED:
        return NOTHING
    note = f"{named(odd, 'character')} of it cannot be seen." if odd else ""
    rows = min(max(content.count("\n") + 2, 4), 24)
    field = tag(
        "textarea",
        joined((shown("\n"), verbatim(content))),
        name="content",
        rows=rows,
        spellcheck="false",
        aria_label="The new text",
        wrap="off",
    )
    send = form(
        frame,
        f"{here}/amend",
        hidden("before", one.before),
        hidden("after", one.after),
        field,
        tag("p", note, class_="note") if note else NOTHING,
        tag("button", "Look at it so"),
    )
    return tag(
        "details",
        tag("summary", "Edit the new text ", tag("kbd", "e")),
        send,
        id="edit",
        name="decision",
        data_opens="e",
    )


def _colours(draft: Draft, path: str) -> tuple[Colours, Colours] | None:
    """The colours of both texts, read whole; None for large ones."""
    if not isinstance(draft.base, Snapshot) or not isinstance(draft.after, Snapshot):
        return None
    if draft.base.size + draft.after.size > _MOST_COLOURED:
        return None
    sides = [
        tuple(
            DiffLine(number, text, "lf")
            for number, text in enumerate(side.unmarked().texts(0, side.line_count), 1)
        )
        for side in (draft.base, draft.after)
    ]
    return colours_of(path, sides[0]), colours_of(path, sides[1])
