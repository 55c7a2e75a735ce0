"""What the tests of the MCP surface share: a workspace, one call for every tool, checks.

The table is by tool; a tool of the catalog that has no row fails
`test_every_tool_has_a_row`. `{hunk}` stands for a plan made just before the
call, by the append tool of the same toolset, `{edit}` for such an edit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mcp_types as t
from mcp import Client
from ruamel.yaml import YAML

from copydesk.app.config import TOOLSETS, Config, MemberConfig
from copydesk.app.mcp.server import CopydeskServer, build
from copydesk.app.workspace import OpenWorkspace, open_workspace

MODES = ("2026-07-28", "auto", "legacy")
FILE = "doc.md"
NOTE = "note.md"
NOTE_ID = "20260101000000-notenot"
BLOCK_ID = "20260101000000-blockbl"
LONG = "".join(f"Paragraph {i} of a long note.\n\n" for i in range(400))
NOTES = f"---\nid: {NOTE_ID}\n---\n\nkiwi ^{BLOCK_ID}\n\n{LONG}"
DIFF = f"@@REPLACE:{BLOCK_ID}@@\nfig ^{BLOCK_ID}\n"
TEXT = '# Title\n\nalpha: "1"\n<!-- begin -->\nold line\n<!-- end -->\nomega 中文\n'

EDIT = {"old_string": "old line", "new_string": "new line"}
CALLS: Mapping[str, Mapping[str, Any]] = {
    "read_file": {"path": FILE},
    "create_new_file": {"path": "new/file.md", "content": "text\n"},
    "overwrite_entire_file": {
        "path": FILE,
        "known_old_total_lines": 7,
        "known_old_total_bytes": len(TEXT.encode()),
        "content": "all new\n",
    },
    "replace_text": {"path": FILE, "old": "old", "new": "new"},
    "prepare_file_range_edit": {"path": FILE, "range": "5", "content": "new line"},
    "prepare_file_append": {"path": FILE, "content": "more `code`: no\n\tx\n"},
    "prepare_file_move": {"path": FILE, "to": "moved/to.md"},
    "prepare_file_delete": {"path": FILE},
    "prepare_file_insert_after": {"path": FILE, "anchor": "# Title", "content": "under"},
    "prepare_file_insert_before": {"path": FILE, "anchor": "omega", "content": "over"},
    "prepare_file_block_replace": {
        "path": FILE,
        "start_anchor": "<!-- begin -->",
        "end_anchor": "<!-- end -->",
        "content": "block",
    },
    "apply_file_modification": {"hunk_id": "{hunk}"},
    "apply_file_modifications": {"hunk_ids": ["{hunk}"]},
    "undo_file_modification": {"edit_id": "{edit}"},
    "list_edits": {"max_results": 2},
    "list_pending": {},
    "show_hunk": {"hunk_id": "{hunk}"},
    "discard_hunk": {"hunk_id": "{hunk}"},
    "list_dir": {"path": "."},
    "ripgrep_files": {"pattern": "line"},
    "ripgrep_count": {"pattern": "line"},
    "ripgrep_snippets": {"pattern": "line"},
    "ripgrep_fixed": {"literal": "old line"},
    "ripgrep_search": {"pattern": "line", "rg_args": ["-i"]},
    "manual": {"topic": "tools"},
    "Read": {"path": FILE},
    "Edit": {"path": FILE, **EDIT},
    "Write": {"path": "written.md", "content": "text\n"},
    "BatchEdit": {"path": FILE, "edits": [EDIT]},
    "MultiEdit": {"path": FILE, "edits": [EDIT]},
    "prepare_batch_edit": {"path": FILE, "edits": [EDIT]},
    "read_text_file": {"path": FILE, "tail": 2},
    "read_media_file": {"path": FILE},
    "read_multiple_files": {"paths": [FILE, "none"]},
    "create_directory": {"path": "made/deep"},
    "list_directory": {"path": "."},
    "list_directory_with_sizes": {"path": "."},
    "directory_tree": {"path": "."},
    "move_file": {"source": FILE, "destination": "moved.md"},
    "search_files": {"path": ".", "pattern": "**"},
    "get_file_info": {"path": FILE},
    "list_allowed_directories": {},
    "write_file": {"path": FILE, "content": "text\n"},
    "edit_write_file": {"path": FILE, "content": "text\n"},
    "edit_file": {"path": FILE, "edits": [{"oldText": "old line", "newText": "new line"}]},
    "apply_patch": {
        "patch": f"*** Begin Patch\n*** Update File: {FILE}\n@@\n-old line\n+new\n*** End Patch",
        "apply": "auto",
    },
    "apply_diff": {
        "diff": f"--- {FILE}\n+++ {FILE}\n@@ -5 +5 @@\n-old line\n+new\n",
        "apply": "auto",
    },
    "apply_blocks": {
        "text": f"{FILE}\n<<<<<<< SEARCH\nold line\n=======\nnew\n>>>>>>> REPLACE\n",
        "apply": "auto",
    },
    "str_replace_based_edit_tool": {
        "command": "insert",
        "path": FILE,
        "insert_line": 5,
        "insert_text": "x",
    },
    "getBlockInfo": {"ids": NOTE_ID},
    "getBlockContent": {"blockId": NOTE_ID},
    "listNotebooks": {},
    "searchBlocks": {"query": "kiwi"},
    "readVar": {"name": "getBlockContent_1", "offset": 8000},
    "appendContent": {"markdown": "more", "targetType": "document", "target": NOTE_ID},
    "createNewDoc": {"title": "New", "anchorDocumentId": NOTE_ID, "location": "children"},
    "applyBlockDiff": {"diff": DIFF},
    "prepareBlockDiff": {"diff": DIFF},
}


_MADE = ("{hunk}", "{edit}")


def call_of(name: str) -> Mapping[str, Any] | None:
    """The row of a tool; a tool of the mirror toolset has that of the one it mirrors."""
    return CALLS.get(name.removeprefix("team_mgmt_"))


def settings(**changes: Any) -> Config:
    """All toolsets, for a member that has them all; writes need not outlive a power cut."""
    members = {"local": MemberConfig(team_mgmt=True)}
    return Config(**{"toolsets": TOOLSETS, "members": members, "durability": "fast", **changes})


def lay(root: Path) -> Path:
    """The files that the table works on, for both toolsets that have them."""
    for folder in (root, root / ".minds"):
        folder.mkdir(exist_ok=True)
        (folder / FILE).write_text(TEXT, "utf-8")
    (root / NOTE).write_text(NOTES, "utf-8")
    return root


def opened_at(root: Path, **changes: Any) -> OpenWorkspace:
    """The workspace at `root`, with its files laid, kept in memory."""
    return open_workspace(str(lay(root)), settings(**changes), shared=False)


def server_of(opened: OpenWorkspace, structured: bool = True, **options: Any) -> CopydeskServer:
    """The server for one member, in process."""
    member = options.get("member", "local")
    toolsets = options.get("toolsets", TOOLSETS)
    return build(opened, lambda _: member, toolsets, options.get("lang", "en"), structured)


async def call_each(client: Client, root: Path, *, structured: bool = True) -> list[str]:
    """Call every tool that is listed, each on fresh files; their names."""
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    for name, tool in tools.items():
        lay(root)
        for made in ("new/file.md", "written.md"):
            (root / made).unlink(missing_ok=True)
            (root / ".minds" / made).unlink(missing_ok=True)
        row = call_of(name)
        assert row is not None, name
        result = await client.call_tool(name, await with_hunk(client, name, row))
        assert not result.is_error, (name, text_of(result))
        if tool.output_schema is not None:  # as the server answers whose tool this is
            blocks = [
                block.model_dump(by_alias=True, exclude_none=True) for block in result.content
            ]
            content = result.structured_content["content"]
            assert content in (blocks, blocks[0].get("text")), name
        elif structured:
            says_the_same(name, result)
        else:
            assert result.structured_content is None
    return list(tools)


async def with_hunk(client: Client, name: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """The row, with a plan or an edit of its own where it wants one."""
    wanted = {argument: value for argument, value in row.items() if value in (*_MADE, ["{hunk}"])}
    if not wanted:
        return dict(row)
    prefix = "team_mgmt_" if name.startswith("team_mgmt_") else ""
    call = {**CALLS["prepare_file_append"], "report": "full"}
    call["apply"] = "auto" if "edit_id" in wanted else "never"
    made = fields_of(await client.call_tool(f"{prefix}prepare_file_append", call))
    if "hunk_ids" in wanted:
        return {**row, "hunk_ids": [made["hunk_id"]]}
    return {**row, **{argument: made[argument] for argument in wanted}}


def says_the_same(name: str, result: t.CallToolResult) -> None:
    """The text and the structured part of a result hold the same fields."""
    data = result.structured_content
    if data.get("status") == "success" and "context" not in data:  # of notes: the text is read
        said = data.get("content") or data.get("message") or data.get("name")
        assert str(said or "") in text_of(result), name
        return
    text = text_of(result)
    if text[0] not in "`{":  # in one line
        facts = [data.get(key) for key in ("path", "edit_id", "version", "count") if data.get(key)]
        assert all(str(fact) in text for fact in facts), (name, text)
        return
    shown = fields_of(result)
    if name.endswith("read_file"):  # the lines are the body of the text
        assert shown.items() <= data.items()
    else:
        assert shown == plain_data(result), name
    assert all(step in text for step in data.get("next", ()))
    assert data.get("diff", "").strip() in text


def plain_data(result: t.CallToolResult) -> dict[str, Any]:
    """The data of a result without what a full text shows below its fields."""
    data = result.structured_content
    assert data is not None
    return {key: value for key, value in data.items() if key not in ("diff", "next")}


def text_of(result: t.CallToolResult) -> str:
    """The text of a result that has one."""
    (block,) = result.content
    assert isinstance(block, t.TextContent)
    return block.text


def fields_of(result: t.CallToolResult) -> dict[str, Any]:
    """The fields that the text of a result holds."""
    text = text_of(result)
    if not text.startswith("```"):
        return json.loads(text)
    fence, _, rest = text.partition("yaml\n")
    return YAML(typ="safe", pure=True).load(rest.partition(f"\n{fence}\n")[0])
