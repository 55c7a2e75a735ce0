"""The commands of a person who decides: approve, reject, and review, which steps through all.

What lives here: these commands, once the workspace is open. What must not: the
grammar of the command line (`cli`), what a decision binds (the desk). Invariant:
what is approved is what was on the screen: the plan as `copydesk show` has it, or
the one of the digest that was given.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from copydesk.app import failing, terminal
from copydesk.app.opening import Opened
from copydesk.app.printing import out
from copydesk.desk.decisions import Decision
from copydesk.errors import ContentChanged, Refusal
from copydesk.tools.messages import say
from copydesk.tools.report import Lang, shown_diff

Act = Callable[[str], tuple[dict[str, object], bool]]
"""What is done with one plan: its data, and whether it was done."""


def approving(opened: Opened, after: str, *, as_json: bool) -> Act:
    """Approve plans; `after` is the start of the digest that the file shall come to, if known."""
    reviewer, review = opened.member(opened.config.member), opened.desk.review
    lang = opened.config.lang

    def act(hunk_id: str) -> Decision:
        shown = review.show(reviewer, hunk_id)
        if shown.refusal is not None:
            raise shown.refusal
        _, was_cut = shown_diff(shown.diff, shown.draft.base.encoding)
        known = shown.after.startswith(after) if after else shown.state == "exact"
        if known and was_cut and not after:
            if not as_json:
                facts = {"id": hunk_id, "after": shown.after}
                out(say("cli.approve_long", lang, facts) + "\n")
            raise ContentChanged("not all of the change was shown")
        if not known:
            if not as_json:
                text, _ = shown_diff(shown.diff, shown.draft.base.encoding, whole=True)
                out(terminal.diff(text, terminal.colours(sys.stdout)) + "\n")
                out(say("cli.approve_after", lang, {"id": hunk_id, "after": shown.after}) + "\n")
            raise ContentChanged("the file or the plan changed since it was shown")
        return review.approve(reviewer, hunk_id, shown.before, shown.after)

    return _deciding(act, lang, as_json=as_json)


def rejecting(opened: Opened, reason: str, *, as_json: bool) -> Act:
    """Reject plans, all for the same reason."""
    reviewer, review = opened.member(opened.config.member), opened.desk.review
    return _deciding(
        lambda hunk_id: review.reject(reviewer, hunk_id, reason),
        opened.config.lang,
        as_json=as_json,
    )


def _deciding(decide: Callable[[str], Decision], lang: Lang, *, as_json: bool) -> Act:
    def act(hunk_id: str) -> tuple[dict[str, object], bool]:
        try:
            decision = decide(hunk_id)
        except Refusal as refusal:
            if not as_json:
                terminal.complain(f"{hunk_id}: {failing.refusal_words(refusal, lang)}")
            return failing.refusal_data(refusal, lang, hunk_id=hunk_id), False
        summary = said(decision, lang)
        if not as_json:
            out(terminal.line(summary) + "\n")
        return {
            "status": "ok",
            "hunk_id": hunk_id,
            "path": decision.path,
            "verdict": decision.verdict,
            "by": decision.by,
            "before": decision.before,
            "after": decision.after,
            "reason": decision.reason,
            "summary": summary,
        }, True

    return act


def said(decision: Decision, lang: Lang) -> str:
    """A decision in words."""
    facts = {"id": decision.plan[0], "path": decision.path, "why": decision.reason}
    return say("cli.approved" if decision.verdict == "approved" else "cli.rejected", lang, facts)
