"""A plan as a question to a client's user, and the answer as a decision.

What lives here: the form with the diff, and what an answer does. What must not:
connections (`doorbell`). Invariants: who is asked is shown all of the diff, and an
approval is for those bytes; an answer that is no decision decides nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import mcp_types as t

from copydesk.app import terminal
from copydesk.app.opening import Opened
from copydesk.app.outgoing import sendable
from copydesk.desk.decisions import Decision
from copydesk.desk.member import Member
from copydesk.desk.policy import SELF
from copydesk.errors import Refusal
from copydesk.tools.report import Lang, shown_diff
from copydesk.tools.words import say

MOST_BYTES: Final = 8_000
"""A longer diff is not shown in a form, and so not decided on there."""

_log = logging.getLogger("copydesk")


@dataclass(frozen=True, slots=True)
class Question:
    """A plan as it was shown in a form; `before` and `after` are the digests of these bytes."""

    hunk_id: str
    before: str
    after: str
    params: t.ElicitRequestFormParams


def question(opened: Opened, member: str, hunk_id: str, lang: Lang) -> Question | None:
    """The plan as a form; None when it cannot be shown whole, or cannot be made now."""
    try:
        shown = opened.desk.review.show(_user(opened, member), hunk_id)
    except Refusal:
        return None
    diff, cut = shown_diff(shown.diff, shown.draft.base.encoding)
    if cut or shown.refusal is not None or len(diff.encode("utf-8", "replace")) > MOST_BYTES:
        return None
    facts: dict[str, object] = {"id": hunk_id, "path": shown.plan.request.path, "owner": member}
    message = terminal.safe(f"{say('ask', lang, facts)}\n\n{diff}")
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "decision": {
                "type": "string",
                "enum": ["approve", "reject"],
                "title": say("ask.decision", lang, {}),
            },
            "reason": {"type": "string", "title": say("ask.reason", lang, {})},
        },
        "required": ["decision"],
    }
    params = t.ElicitRequestFormParams(message=sendable(message), requested_schema=schema)
    return Question(hunk_id, shown.before, shown.after, params)


def take(
    opened: Opened, member: str, asked: Question, answer: t.ElicitResult, lang: Lang
) -> Decision | None:
    """What the answer decides; None for one that is no decision, or that comes too late.

    Too late: somebody decided first, or the file or the plan has changed since it
    was shown; the plan then waits to be shown anew.
    """
    content: Mapping[str, object] = answer.content or {}
    verdict, reason = content.get("decision"), content.get("reason")
    if answer.action != "accept" or verdict not in ("approve", "reject"):
        return None
    review, user = opened.desk.review, _user(opened, member)
    try:
        if verdict == "approve":
            return review.approve(user, asked.hunk_id, asked.before, asked.after)
        why = reason if isinstance(reason, str) and reason.strip() else say("ask.no", lang, {})
        return review.reject(user, asked.hunk_id, why)
    except Refusal as refusal:
        _log.info("an answer about %s came to nothing: %s", asked.hunk_id, refusal.code)
        return None


def _user(opened: Opened, member: str) -> Member:
    """Who sits at the member's client: a person, with the member's rights."""
    refresh = partial(_user, opened, member)
    own = opened.member(member)
    return replace(own, name=f"user of {member}", policy=SELF, refresh=refresh)
