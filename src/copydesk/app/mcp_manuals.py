"""The manuals as MCP prompts: one prompt for each toolset, with a topic.

What lives here: the handlers of prompts and of the completion of their topic.
What must not: the manuals' text (`copydesk.tools.manuals`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mcp_types as t
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from copydesk.app.outgoing import capped, sendable
from copydesk.tools import manuals
from copydesk.tools.report import Lang

Ctx = ServerRequestContext[Any, Any]

_TITLE = {"en": "The manual of {toolset}", "zh": "{toolset} 手册"}
_TOPIC = {"en": "One of: {topics}. Default: {first}.", "zh": "可选:{topics}。默认:{first}。"}


class Manuals:
    """The manuals of some toolsets, in one language."""

    def __init__(self, toolsets: Sequence[str], lang: Lang) -> None:
        known = manuals.toolsets()
        self._toolsets = tuple(name for name in toolsets if name in known)
        self._lang: Lang = lang

    def instructions(self) -> str:
        """What a client tells its model about this server."""
        return manuals.instructions(self._toolsets, self._lang)

    async def list_prompts(
        self, ctx: Ctx, params: t.PaginatedRequestParams | None
    ) -> t.ListPromptsResult:
        return t.ListPromptsResult(prompts=[self._prompt(name) for name in self._toolsets])

    async def get_prompt(self, ctx: Ctx, params: t.GetPromptRequestParams) -> t.GetPromptResult:
        """The text of a topic; raises MCPError for one that there is not."""
        topics = self._topics(params.name)
        topic = (params.arguments or {}).get("topic") or topics[0]
        if topic not in topics:
            raise MCPError(t.INVALID_PARAMS, f"Unknown topic; there are: {', '.join(topics)}")
        text = capped(manuals.read(params.name, topic, self._lang), self._lang)
        message = t.PromptMessage(role="user", content=t.TextContent(text=text))
        return t.GetPromptResult(description=self._title(params.name), messages=[message])

    async def complete(self, ctx: Ctx, params: t.CompleteRequestParams) -> t.CompleteResult:
        """The topics that begin with what was typed."""
        found: list[str] = []
        if isinstance(params.ref, t.PromptReference) and params.argument.name == "topic":
            topics = self._topics(params.ref.name)
            found = [topic for topic in topics if topic.startswith(params.argument.value)]
        return t.CompleteResult(
            completion=t.Completion(values=found, total=len(found), has_more=False)
        )

    def _topics(self, toolset: str) -> tuple[str, ...]:
        if toolset not in self._toolsets:
            raise MCPError(t.INVALID_PARAMS, f"Unknown prompt: {sendable(toolset)[:100]}")
        return manuals.topics(toolset)

    def _title(self, toolset: str) -> str:
        return _TITLE[self._lang].format(toolset=toolset)

    def _prompt(self, toolset: str) -> t.Prompt:
        topics = manuals.topics(toolset)
        words = _TOPIC[self._lang].format(topics=", ".join(topics), first=topics[0])
        topic = t.PromptArgument(name="topic", description=words, required=False)
        title = self._title(toolset)
        return t.Prompt(name=toolset, title=title, description=title, arguments=[topic])
