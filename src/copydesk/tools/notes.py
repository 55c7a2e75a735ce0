"""The tools of notes, as the catalog lists them: reading by blocks, editing by diffs.

What lives here: their schemas and hints. What must not: what they do (`notes_calls`),
which is imported when one is called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from copydesk.tools.catalog import Answer, Context, Tool
from copydesk.tools.notes_answer import FOUND, LISTED, refused, request_of
from copydesk.tools.wire import Args, Property, arguments, choice, flag, number, text
from copydesk.tools.ws_mod import prepares

_TARGETS = ("dailynote", "document", "block")
_LOCATIONS = ("siblings", "children", "parent")


def notes() -> tuple[Tool, ...]:
    """All tools of this toolset."""
    diff: dict[str, Property] = {"diff": text(), "strictMatch": flag(True)}
    show: dict[str, Property] = {"showId": flag(False), "showSubStructure": flag(False)}
    named: dict[str, Property] = {"anchorDocumentId": text(), "location": _one_of(_LOCATIONS)}
    rows: tuple[tuple[str, dict[str, Any], Callable[[Context, str, Args], Answer]], ...] = (
        ("getBlockInfo", arguments({"ids": text()}, "ids"), _later("get_block_info")),
        (
            "getBlockContent",
            arguments({"blockId": text(), **show, "slice": text()}, "blockId"),
            _later("get_block_content"),
        ),
        (
            "listNotebooks",
            arguments({"documents": number(default=LISTED)}),
            _later("list_notebooks"),
        ),
        (
            "searchBlocks",
            arguments({"query": text(), "limit": number(default=FOUND)}, "query"),
            _later("search_blocks"),
        ),
        (
            "readVar",
            arguments({"name": text(), "offset": number(), "length": number()}, "name"),
            _later("read_var"),
        ),
        (
            "appendContent",
            arguments(
                {"markdown": text(), "targetType": _one_of(_TARGETS), "target": text()},
                *("markdown", "targetType", "target"),
            ),
            _later("append_content"),
        ),
        (
            "createNewDoc",
            arguments(
                {"title": text(), "markdown": text(), **named},
                *("title", "anchorDocumentId", "location"),
            ),
            _later("create_new_doc"),
        ),
        (
            "applyBlockDiff",
            arguments({**diff, "dryRun": flag(False)}, "diff"),
            _later("apply_block_diff"),
        ),
        (
            "prepareBlockDiff",
            arguments(
                {**diff, "report": choice("full", "brief"), "existing_hunk_id": text()}, "diff"
            ),
            prepares(lambda context, args: request_of(args)),
        ),
    )
    reading = ("getBlockInfo", "getBlockContent", "listNotebooks", "searchBlocks", "readVar")
    destroying = ("applyBlockDiff", "prepareBlockDiff")
    return tuple(
        Tool(
            name,
            "notes",
            schema,
            run,
            reads=name in reading,
            destroys=name in destroying,
            idempotent=name in reading,
            refuse=refused,
        )
        for name, schema, run in rows
    )


def _later(name: str) -> Callable[[Context, str, Args], Answer]:
    """What a tool does, imported when it is called."""

    def run(context: Context, tool: str, args: Args) -> Answer:
        from copydesk.tools import notes_calls

        found: Callable[[Context, str, Args], Answer] = getattr(notes_calls, name)
        return found(context, tool, args)

    return run


def _one_of(words: tuple[str, ...]) -> Property:
    """One of some words, none being the default."""
    return {"type": "string", "enum": list(words)}
