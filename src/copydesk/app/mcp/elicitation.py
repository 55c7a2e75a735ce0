"""Questions to the user of an MCP client about a pending plan, and what an answer decides.

The user is shown the whole diff, and an approval holds for those bytes only; an answer that is
no decision decides nothing. No call waits for it: without it all answers are the same.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, cast

import anyio
import mcp_types as t
from anyio.abc import TaskGroup
from anyio.to_thread import run_sync as to_thread
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from copydesk.app import terminal
from copydesk.app.mcp.messages import capped, sendable
from copydesk.app.workspace import OpenWorkspace
from copydesk.desk.backends.api import Decision
from copydesk.desk.member import SELF, Member
from copydesk.errors import Refusal
from copydesk.tools.catalog import Answer
from copydesk.tools.messages import say
from copydesk.tools.report import Lang
from copydesk.tools.reports import short_diff

MOST_BYTES: Final = 8_000
"""A longer diff is not shown in a form, so it cannot be decided on there."""

_log = logging.getLogger("copydesk")


@dataclass(frozen=True, slots=True)
class Question:
    """A plan as it was shown in a form; `before` and `after` are the digests of these bytes."""

    hunk_id: str
    before: str
    after: str
    params: t.ElicitRequestFormParams


def question(opened: OpenWorkspace, member: str, hunk_id: str, lang: Lang) -> Question | None:
    """The plan as a form; None when it cannot be shown whole, or cannot be made now."""
    try:
        shown = opened.desk.review.show(_user(opened, member), hunk_id)
    except Refusal:
        return None
    diff, cut = short_diff(shown, lang)
    if cut or shown.refusal is not None or len(diff.encode("utf-8", "replace")) > MOST_BYTES:
        return None
    facts: dict[str, object] = {"id": hunk_id, "path": shown.plan.request.path, "owner": member}
    asked = say("ask", lang, facts)
    if shown.plan.why:
        asked += "\n" + terminal.line(say("ask.why", lang, {"why": shown.plan.why}))
    message = terminal.safe(f"{asked}\n\n{diff}")
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


def decide(
    opened: OpenWorkspace, member: str, asked: Question, answer: t.ElicitResult, lang: Lang
) -> Decision | None:
    """Record the decision in an answer; None if there is none or it comes too late.

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


def _user(opened: OpenWorkspace, member: str) -> Member:
    """The person at the member's client, with the member's rights."""
    refresh = partial(_user, opened, member)
    own = opened.member(member)
    return replace(own, name=f"user of {member}", policy=SELF, refresh=refresh)


_ASKED: Final = "copydesk.asked"
_MOST_BYTES: Final = 4_000
_PATIENCE_SECONDS: Final = 600.0


class Elicitor:
    """Asks the users of one server's clients, once for each plan and connection.

    Only the handshake era has such requests; a client of the modern one would
    have to hold the call open while it asks, which is not wanted here.
    """

    def __init__(self, opened: OpenWorkspace, lang: Lang) -> None:
        self._opened = opened
        self._lang: Lang = lang
        self._groups: list[TaskGroup] = []

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Allow questions while this context is open."""
        async with anyio.create_task_group() as group:
            self._groups.append(group)
            try:
                yield
            finally:
                self._groups.remove(group)
                group.cancel_scope.cancel()

    def ask(self, ctx: ServerRequestContext[Any, Any], member: str, answer: Answer) -> None:
        """Ask the client's user, in the background, if the answer says that a plan is pending."""
        if answer.fields.get("status") != "pending" or not self._groups:
            return
        connection = ctx.session._connection  # pyright: ignore[reportPrivateUsage]  # no other way
        hunk_id = str(answer.fields.get("hunk_id", ""))
        asked = cast("set[str]", connection.state.setdefault(_ASKED, set[str]()))
        capabilities = connection.client_capabilities
        can = None if capabilities is None else capabilities.elicitation
        if can is None or hunk_id in asked or ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return
        asked.add(hunk_id)
        page = self._opened.page
        link = f"{page}/hunk/{hunk_id}" if can.url is not None and page is not None else None
        path = answer.fields.get("path")
        self._groups[-1].start_soon(self._tell, connection, member, hunk_id, path, link)

    async def _tell(
        self, connection: Connection, member: str, hunk_id: str, path: object, link: str | None
    ) -> None:
        """Show a link to the page, else a form with the decision, else a message alone."""
        asked: Question | None = None
        if link is None and self._opened.settings.elicitation == "decide":
            asked = await to_thread(question, self._opened, member, hunk_id, self._lang)
        words = capped(
            say("bell", self._lang, {"id": hunk_id, "path": path}), self._lang, _MOST_BYTES
        )
        if link is not None:
            params = t.ElicitRequestURLParams(
                message=words, url=link, elicitation_id=secrets.token_hex(8)
            )
            await _sent(connection, t.ElicitRequest(params=params))
        elif asked is None:
            empty: dict[str, Any] = {"type": "object", "properties": {}}
            form = t.ElicitRequestFormParams(message=words, requested_schema=empty)
            await _sent(connection, t.ElicitRequest(params=form))
        else:
            answer = await _sent(connection, t.ElicitRequest(params=asked.params))
            if answer is not None:
                await to_thread(decide, self._opened, member, asked, answer, self._lang)


async def _sent(connection: Connection, request: t.ElicitRequest) -> t.ElicitResult | None:
    """The user's answer; None if none comes in time."""
    with anyio.move_on_after(_PATIENCE_SECONDS):
        try:
            return await connection.send_request(request)
        except MCPError:
            return None  # it has no way to be asked, or did not want to
        except Exception:  # best effort: a question that failed must not end the server
            _log.exception("cannot ask the client's user")
    return None
