"""What the batch toolset says: of tools that it has, of the edit that was made, in both languages."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from copydesk.app.config import Config
from copydesk.app.reference import team_mgmt, ws_mod
from copydesk.app.workspace import OpenWorkspace
from copydesk.tools.report import Lang
from copydesk.tools.ws_mod import APPLY
from support.batch_calls import pairs, put
from support.desks import Setup
from support.rows import each_row

LANGS: tuple[Lang, Lang] = ("en", "zh")
FOREIGN = {tool.name for tool in (*ws_mod(), *team_mgmt())} - {APPLY}
"""Tools that the toolset does not have."""

EDIT = {"old_string": "a", "new_string": "b"}
BATCH = {"edits": pairs(("a", "b"))}
OVER = {"content": "b", "overwrite": True, "expected_size_bytes": 1}


def lay_large(root: Path) -> None:
    os.truncate(root / "large", (9 << 20) + 1)
    os.truncate(root / "huge", (10 << 20) + 1)


DESK = Setup(
    Config(durability="fast", whole_bytes=9 << 20, limit_bytes=10 << 20),
    {
        "folder/a.txt": "a",
        "a.txt": "a\n",
        "nul": b"a\0b",
        "bytes": b"a\xff",
        **dict.fromkeys(("large", "huge"), ""),
    },
    lay_large,
)


def said(desk: OpenWorkspace, name: str, lang: Lang, **arguments: Any) -> tuple[str, str]:
    """The code of a refusal, and its words."""
    fields: dict[str, Any] = desk.call("local", name, arguments, lang=lang).fields
    if name == "prepare_batch_edit":
        return fields["error"], fields["summary"]
    assert fields["text"] == fields["error"]["message"]
    return fields["error"]["code"], fields["text"]


@each_row("lang", LANGS)
@each_row(
    "path codes",
    [
        ("b.txt", {"NOT_FOUND", "FILE_NOT_FOUND"}),
        ("folder/none.txt", {"NOT_FOUND", "FILE_NOT_FOUND"}),
        ("folder", {"IS_DIRECTORY", "NOT_A_FILE"}),
        ("a.txt/b", {"NOT_FOUND", "FILE_NOT_FOUND"}),
        ("nul", {"BINARY_FILE"}),
        ("large", {"EXECUTION_ERROR", "FILE_TOO_LARGE"}),
        ("huge", {"EXECUTION_ERROR", "FILE_TOO_LARGE"}),
        ("../a", {"ACCESS_DENIED", "INVALID_PATH"}),
        ("", {"INVALID_PARAM", "PATH_REQUIRED"}),
        (".minds/a", {"ACCESS_DENIED"}),
    ],
)
def test_refusals_name_no_tool_that_is_not_there(
    desk: OpenWorkspace, path: str, codes: set[str], lang: Lang
) -> None:
    calls: dict[str, dict[str, Any]] = {"Read": {"start_line": 9}, "Edit": EDIT, "Write": OVER}
    for name, more in {**calls, "BatchEdit": BATCH, "prepare_batch_edit": BATCH}.items():
        if name == "Read" and path in ("large", "huge"):
            continue
        code, words = said(desk, name, lang, path=path, **more)
        assert code in codes
        assert not FOREIGN & set(re.findall(r"\w+", words, re.ASCII)), words


@each_row("lang", LANGS)
def test_what_helps_is_named(desk: OpenWorkspace, lang: Lang) -> None:
    """Arguments and tools are the names of things, and so no prose."""
    for name, more, words in (
        ("Write", {"content": "b"}, {"Read", "Edit", "BatchEdit", "Write", "overwrite"}),
        ("Write", {"content": "b", "overwrite": True}, {"overwrite", "expected_mtime_ms"}),
        ("Edit", {**EDIT, "old_string": "z"}, {"old_string", "Read"}),
        ("BatchEdit", {"edits": pairs(("z", "b"))}, {"old_string", "failures"}),
    ):
        _, told = said(desk, name, lang, path="a.txt", **more)
        assert words <= set(re.findall(r"\w+", told, re.ASCII)), told
    _, told = said(desk, "Edit", lang, path="none.txt", **EDIT)
    assert "Write" in told


@each_row("lang", LANGS)
@each_row(
    "text old more several numbers",
    [
        ("a b a\n", "a", {}, True, {"2", "1"}),
        ("a\nb\n" * 12, "b", {}, True, {"12", *map(str, range(2, 21, 2))}),
        ("aaa\n", "aa", {"dry_run": True}, True, {"2", "1"}),
        ("a\n", "b", {}, False, set[str]()),
        ("a\n", "b", {"replace_all": True}, False, set[str]()),
    ],
)
def test_of_one_edit_its_text_is_spoken_of_and_not_its_index(
    desk: OpenWorkspace,
    text: str,
    old: str,
    more: dict[str, Any],
    several: bool,
    numbers: set[str],
    lang: Lang,
) -> None:
    """How often and where it stands is told, and `replace_all` where it would help."""
    put(desk, "a.txt", text)
    code, told = said(desk, "Edit", lang, path="a.txt", old_string=old, new_string="x", **more)
    assert code == "PARTIAL_MATCH_FAIL"
    assert "old_string" in told
    assert ("replace_all" in told) == several
    assert set(re.findall(r"[0-9]+", told)) == numbers


@each_row("lang", LANGS)
@each_row("name", ["BatchEdit", "MultiEdit", "prepare_batch_edit"])
def test_of_a_batch_all_indices_that_fail_are_told(
    desk: OpenWorkspace, name: str, lang: Lang
) -> None:
    edits = pairs(("z", "b"), ("a", "b"), ("y", "b"), *((f"<{i}>", "") for i in range(15)))
    _, told = said(desk, name, lang, path="a.txt", edits=edits[:3])
    assert set(re.findall(r"[0-9]+", told)) == {"2", "0"}
    _, told = said(desk, name, lang, path="a.txt", edits=edits)
    assert re.findall(r"[0-9]+", told) == ["17", "0", *map(str, range(2, 11))]
    assert "…" in told
    assert "replace_all" not in told


@each_row("lang", LANGS)
def test_a_plan_that_its_file_refuses_speaks_of_this_toolset_too(
    desk: OpenWorkspace, lang: Lang
) -> None:
    plan = desk.call("local", "prepare_batch_edit", {"path": "a.txt", **BATCH}, lang=lang).fields
    target = Path(desk.root, "a.txt")
    text = target.read_bytes()
    target.unlink()
    done = desk.call("local", APPLY, {"hunk_id": plan["hunk_id"]}, lang=lang).fields
    assert done["error"] == "FILE_NOT_FOUND"
    assert "Write" in str(done["summary"])
    assert not FOREIGN & set(re.findall(r"\w+", str(done["summary"]), re.ASCII))
    target.write_bytes(text)


@each_row("lang", LANGS)
def test_the_setting_that_would_help_is_named(desk: OpenWorkspace, lang: Lang) -> None:
    for path, setting in (("large", "whole_bytes"), ("huge", "limit_bytes")):
        _, told = said(desk, "Edit", lang, path=path, **EDIT)
        assert setting in re.findall(r"\w+", told, re.ASCII)
