"""The bell: a client's user is told that a plan waits for a person, where the client can do so.

What lives here: the request to the client. What must not: what is asked, and what
an answer decides (`asking`). Invariants: no call waits for it, and without it the
answers of all calls are the same.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final, cast

import anyio
import mcp_types as t
from anyio.abc import TaskGroup
from anyio.to_thread import run_sync as to_thread
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from copydesk.app.asking import Question, question, take
from copydesk.app.opening import Opened
from copydesk.app.outgoing import capped
from copydesk.tools.catalog import Answer
from copydesk.tools.report import Lang
from copydesk.tools.words import say

_RUNG: Final = "copydesk.rung"
_MOST_BYTES: Final = 4_000
_PATIENCE_SECONDS: Final = 600.0

_log = logging.getLogger("copydesk")


class Doorbell:
    """Rings at the clients of one server, once for each plan and connection.

    Only the handshake era has such requests; a client of the modern one would
    have to hold the call open while it asks, which is not wanted here.
    """

    def __init__(self, opened: Opened, lang: Lang) -> None:
        self._opened = opened
        self._lang: Lang = lang
        self._groups: list[TaskGroup] = []

    @asynccontextmanager
    async def hung(self) -> AsyncGenerator[None, None]:
        """While it is open, it can be rung."""
        async with anyio.create_task_group() as group:
            self._groups.append(group)
            try:
                yield
            finally:
                self._groups.remove(group)
                group.cancel_scope.cancel()

    def ring(self, ctx: ServerRequestContext[Any, Any], member: str, answer: Answer) -> None:
        """Tell the client's user, beside the work, if the answer is that a plan waits."""
        if answer.fields.get("status") != "pending" or not self._groups:
            return
        connection = ctx.session._connection  # pyright: ignore[reportPrivateUsage]  # no other way
        hunk_id = str(answer.fields.get("hunk_id", ""))
        rung = cast("set[str]", connection.state.setdefault(_RUNG, set[str]()))
        capabilities = connection.client_capabilities
        can = None if capabilities is None else capabilities.elicitation
        if can is None or hunk_id in rung or ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return
        rung.add(hunk_id)
        page = self._opened.page
        link = f"{page}/hunk/{hunk_id}" if can.url is not None and page is not None else None
        path = answer.fields.get("path")
        self._groups[-1].start_soon(self._tell, connection, member, hunk_id, path, link)

    async def _tell(
        self, connection: Connection, member: str, hunk_id: str, path: object, link: str | None
    ) -> None:
        """By a link to the page; else by a form, which can decide; else by words alone."""
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
                await to_thread(take, self._opened, member, asked, answer, self._lang)


async def _sent(connection: Connection, request: t.ElicitRequest) -> t.ElicitResult | None:
    """What the user answers; None for no answer in time, or ever."""
    with anyio.move_on_after(_PATIENCE_SECONDS):
        try:
            return await connection.send_request(request)
        except MCPError:
            return None  # it has no way to be asked, or did not want to
        except Exception:  # a bell is a courtesy: without it the server goes on
            _log.exception("cannot ask the client's user")
    return None
