"""What a member may not read does not come out by a side door either.

Each row is a call and what its answer holds (`shows`) or does not (`hides`).
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from copydesk.app.config import Config, MemberConfig
from copydesk.app.workspace import OpenWorkspace
from copydesk.edit.draft import cut
from copydesk.errors import Refusal
from copydesk.tools.report import Answer, Lang
from support.desks import Setup
from support.rows import each_row

HIDDEN = "no_read_dirs"
NO_KEYS = {"no_read_file_ext_names": ("key",)}
MEMBERS = {
    "local": MemberConfig({HIDDEN: ("secret",)}, team_mgmt=True),
    "all": MemberConfig(),
    "lead": MemberConfig({HIDDEN: ("**/private",), "no_write_dirs": (".minds/fixed",), **NO_KEYS}, team_mgmt=True),
    "guest": MemberConfig({"no_write_dirs": ("**",), "read_dirs": ("src",)}, team_mgmt=True),
    "blind": MemberConfig({HIDDEN: ("**",)}),
    "suffix": MemberConfig(NO_KEYS),
}  # fmt: skip
FILES = {
    "a.txt": "needle\n",
    "copydesk.toml": "# needle: a token\n",
    "sub/copydesk.toml": "# needle\n",
    "pub/a.txt": "needle\n",
    "pub/b.key": "needle\n",
    "secret/plan.txt": "needle one\n",
    "secret/planned.txt": "needle two\n",
    ".minds/a.md": "needle\n",
    ".minds/skills/b.md": "needle\n",
    ".minds/private/c.md": "needle\n",
    ".minds/fixed/d.md": "needle\n",
    ".minds/e.key": "needle\n",
}
LINKS = {
    "to_file": "secret/plan.txt",
    "to_dir": "secret",
    "to_minds": ".minds",
    "to_pub": "pub",
    "to_a": "a.txt",
    "to_key": "pub/b.key",
    "to_etc": "/etc",
    "to_nothing": "none",
    "to_conf": "copydesk.toml",
    "to_hidden_nothing": "secret/plam.txt",
    "loop": "loop",
}


def lay_links(root: Path) -> None:
    for name, target in LINKS.items():
        os.symlink(target, root / name)


DESK = Setup(Config(members=MEMBERS, durability="fast"), FILES, lay_links)


def check_answer(
    desk: OpenWorkspace,
    who: str,
    tool: str,
    arguments: dict[str, Any],
    error: str | None = None,
    *,
    shows: str = "",
    hides: str = "",
) -> Answer:
    """The call is refused with this code, or not at all; its answer holds these words."""
    answer = desk.call(who, tool, arguments)
    assert answer.data.get("error") == error, answer.text
    text = json.dumps(answer.data, ensure_ascii=False)
    for word in shows.split():
        assert word in text, (word, text)
    for word in hides.split():
        assert word not in text, (word, text)
    return answer


def listed(desk: OpenWorkspace, who: str, path: str = ".", toolset: str = "") -> dict[str, Any]:
    """The names of a directory, with the targets of links."""
    entries: Any = desk.call(who, f"{toolset}list_dir", {"path": path}).data["entries"]
    return {entry["name"]: entry.get("target") for entry in entries}


PLAN = {"path": "moved/x.txt", "content": "needle three"}


def test_a_plan_is_hidden_when_its_path_has_come_to_lead_elsewhere(
    desk: OpenWorkspace, tmp_path: Path
) -> None:
    (tmp_path / "moved").mkdir()
    (tmp_path / "moved" / "x.txt").write_text("old\n")
    plan = check_answer(desk, "all", "prepare_file_append", PLAN).data["hunk_id"]
    assert [p.id for p in desk.pending("local")] == [plan]
    assert desk.pending_report("local", str(plan)).fields["path"] == "moved/x.txt"
    (tmp_path / "moved").rename(tmp_path / "secret" / "moved")
    os.symlink("secret/moved", tmp_path / "moved")
    assert desk.pending("local") == ()
    with pytest.raises(Refusal) as caught:
        desk.pending_report("local", str(plan))
    assert caught.value.code == "ACCESS_DENIED"
    assert [p.id for p in desk.pending("all")] == [plan]
    (tmp_path / "moved").unlink()
    os.symlink("/etc", tmp_path / "moved")
    assert desk.pending("all") == ()


@each_row(
    "who shown hidden",
    [
        ("local", "to_pub to_a to_key", "to_file to_dir to_minds to_hidden_nothing secret .minds"),
        ("all", "to_pub to_a to_key to_file to_dir", "to_minds .minds"),
        ("suffix", "to_pub to_a to_file", "to_key to_minds"),
        ("guest", "", "to_file to_dir to_a to_pub to_etc"),
    ],
)
def test_links_are_listed_as_far_as_what_they_lead_to(
    desk: OpenWorkspace, who: str, shown: str, hidden: str
) -> None:
    found = listed(desk, who)
    for name in shown.split():
        assert found[name] == LINKS[name]
    assert not set(hidden.split()) & set(found)


def test_a_link_out_of_the_workspace_has_no_target(desk: OpenWorkspace) -> None:
    found = listed(desk, "all")
    assert (found["to_etc"], found["to_nothing"]) == (None, "none")
    assert found.get("loop") is None


def test_a_link_whose_name_is_not_utf_8_has_no_target(desk: OpenWorkspace, tmp_path: Path) -> None:
    try:
        os.symlink(b"secret/plan.txt", os.fsencode(tmp_path) + b"/odd\xff")
    except OSError:
        pytest.skip("names are UTF-8 here")
    assert listed(desk, "local")["odd\\xff"] is None


@each_row(
    "who path shows hides",
    [
        ("all", "to_fil", "to_file", ""),
        ("local", "to_fil", "", "to_file"),
        ("local", "to_di", "", "to_dir"),
        ("local", "to_et", "", "to_etc"),
        ("all", "copydesk.tom", "", "copydesk.toml"),
        ("all", "to_hidden_nothing", "secret/plan.txt", "similar/plan"),
        ("suffix", "pub/b.ky", "", "b.key"),
        ("local", "pub/a.txtt", "pub/a.txt", ""),
        ("local", "to_pub/a.txtt", "to_pub/a.txt", ""),
    ],
)
def test_names_close_to_a_missing_one(
    desk: OpenWorkspace, who: str, path: str, shows: str, hides: str
) -> None:
    answer = desk.call(who, "read_file", {"path": path})
    assert answer.data["error"] == "FILE_NOT_FOUND"
    similar: Any = answer.data.get("similar") or []
    assert set(shows.split()) <= set(similar)
    assert not set(hides.split()) & set(similar)


KNOWN = {"known_old_total_lines": 1, "known_old_total_bytes": 1, "content": "x"}


def test_overwrite_names_what_is_close(desk: OpenWorkspace) -> None:
    for who, path, words in (
        ("all", "pub/a.tx", {"shows": "pub/a.txt"}),
        ("local", "to_fil", {"hides": "to_file"}),
    ):
        missing = {"path": path, **KNOWN}
        check_answer(desk, who, "overwrite_entire_file", missing, "FILE_NOT_FOUND", **words)


@pytest.mark.parametrize(
    ("who", "tool", "path", "error"),
    [
        ("lead", "read_file", "a.md", None),
        ("lead", "read_file", "private/c.md", "ACCESS_DENIED"),
        ("lead", "read_file", "e.key", "ACCESS_DENIED"),
        ("lead", "read_file", "fixed/d.md", None),
        ("lead", "create_new_file", "fixed/new.md", "ACCESS_DENIED"),
        ("lead", "create_new_file", "new.md", None),
        ("lead", "list_dir", "private", "ACCESS_DENIED"),
        ("guest", "read_file", "a.md", None),
        ("guest", "create_new_file", "new.md", "ACCESS_DENIED"),
    ],
)
def test_deny_lists_win_in_team_mgmt_too(
    desk: OpenWorkspace, who: str, tool: str, path: str, error: str | None
) -> None:
    check_answer(desk, who, f"team_mgmt_{tool}", {"path": path}, error)


def test_what_is_denied_in_team_mgmt_is_not_found(desk: OpenWorkspace) -> None:
    found = check_answer(desk, "lead", "team_mgmt_ripgrep_files", {"pattern": "needle"})
    assert found.data["files"] == [".minds/a.md", ".minds/fixed/d.md", ".minds/skills/b.md"]
    assert set(listed(desk, "lead", ".", "team_mgmt_")) == {"a.md", "fixed", "skills"}


@each_row("path", ["copydesk.toml", "COPYDESK.TOML", "./copydesk.toml", "to_conf"])
@each_row(
    "tool more",
    [
        ("read_file", {}),
        ("overwrite_entire_file", KNOWN),
        ("create_new_file", {}),
        ("prepare_file_append", {"content": "x"}),
        ("ripgrep_files", {"pattern": "needle"}),
    ],
)
def test_the_configuration_is_reserved(
    desk: OpenWorkspace, path: str, tool: str, more: dict[str, Any]
) -> None:
    given = {"path": path, **more}
    check_answer(desk, "all", tool, given, "ACCESS_DENIED", hides="size_bytes token")


def test_the_configuration_is_not_shown(desk: OpenWorkspace) -> None:
    assert not {"copydesk.toml", "to_conf"} & set(listed(desk, "all"))
    found: Any = check_answer(desk, "all", "ripgrep_files", {"pattern": "needle"}).data["files"]
    assert "copydesk.toml" not in found
    assert "sub/copydesk.toml" in found
    glob = {"pattern": "needle", "globs": ["/copydesk.toml"]}
    check_answer(desk, "all", "ripgrep_files", glob, "ACCESS_DENIED", hides="token")


@each_row(
    "who path error shows",
    [
        *(("blind", path, "ACCESS_DENIED", "") for path in ("a.txt", "pub", "to_a", "none")),
        *(("suffix", path, "ACCESS_DENIED", "") for path in ("pub/b.key", "pub/none.key")),
        *(("local", path, "ACCESS_DENIED", "") for path in ("secret/plan.txt", "secret/none.txt")),
        *(("local", path, "ACCESS_DENIED", "") for path in ("to_file", "to_hidden_nothing")),
        ("all", "a.txt", "FILE_EXISTS", "size_bytes"),
        ("all", "pub", "NOT_A_FILE", "directory"),
        ("all", "to_a", "NOT_A_FILE", "symlink"),
    ],
)
def test_what_has_the_name_of_a_new_file(
    desk: OpenWorkspace, who: str, path: str, error: str, shows: str
) -> None:
    hides = "" if shows else "size_bytes kind"
    check_answer(desk, who, "create_new_file", {"path": path}, error, shows=shows, hides=hides)


TOP, INNER = ".minds/a.md", ".minds/skills/b.md"


@pytest.mark.slow
@each_row(
    "glob found",
    [
        ("a.md", [TOP]),
        *((glob, [TOP]) for glob in ("/a.md", "/*.md", "!skills/*", "!b.md")),
        *((glob, [INNER]) for glob in ("skills/*.md", "/skills/*.md", "./skills/*.md", "**/b.md")),
        *((glob, [INNER]) for glob in (".minds/skills/*.md", "/.minds/skills/*.md")),
        *((glob, [INNER]) for glob in (".minds/skills/**", "!/a.md", "!.minds/a.md")),
        ("none/*.md", []),
    ],
)
def test_globs_of_team_mgmt_are_relative_to_its_folder(
    desk: OpenWorkspace, glob: str, found: list[str]
) -> None:
    ask: dict[str, Any] = {"pattern": "needle"}
    given = {**ask, "globs": [glob, "!fixed"]}
    assert check_answer(desk, "lead", "team_mgmt_ripgrep_files", given).data["files"] == found
    alone = ([f"--glob={glob}"], [f"-g{glob}"], [f"--iglob={glob}"])
    for spelled in (*alone, ["--glob", glob], ["-g", glob], ["-ng", glob]):
        options = ["-l", *spelled, "-g!fixed"]
        raw = check_answer(desk, "lead", "team_mgmt_ripgrep_search", {**ask, "rg_args": options})
        assert raw.data["files"] == found, spelled


@each_row("glob", ["../a.txt", "skills/../../a.txt", "/../a.txt"])
def test_no_glob_of_team_mgmt_leads_out(desk: OpenWorkspace, glob: str) -> None:
    for tool, more in (
        ("ripgrep_files", {"globs": [glob]}),
        ("ripgrep_search", {"rg_args": ["-g", glob]}),
    ):
        answer = desk.call("lead", f"team_mgmt_{tool}", {"pattern": "needle", **more})
        assert answer.data["error"] in ("ACCESS_DENIED", "INVALID_ARGS", "INVALID_PATH")


@each_row("lang", ["en", "zh"])
@each_row("path", ["a.txt", "to_a"])
def test_a_file_is_not_listed_but_read(desk: OpenWorkspace, path: str, lang: Lang) -> None:
    answer = desk.call("all", "list_dir", {"path": path}, lang=lang)
    assert (answer.data["error"], answer.data["reason"]) == ("INVALID_PATH", "not a directory")
    said = str(answer.data["summary"])
    assert "read_file" in said
    assert {"en": "is a file", "zh": "是文件"}[lang] in said


LONG = "x" * 10_000


@each_row(
    "tool arguments",
    [
        ("read_file", {"path": LONG}),
        ("read_file", {"path": "a.txt", "range": LONG}),
        ("read_file", {"path": "a.txt", LONG: 1}),
        ("prepare_file_insert_after", {"path": "a.txt", "anchor": LONG, "content": "x"}),
        ("apply_file_modification", {"hunk_id": LONG}),
        ("ripgrep_files", {"pattern": "(" + LONG}),
        ("Read", {"path": LONG}),
        ("Read", {"path": "a.txt", LONG: [LONG]}),
    ],
)
def test_a_huge_argument_does_not_come_back_whole(
    desk: OpenWorkspace, tool: str, arguments: dict[str, Any]
) -> None:
    answer = desk.call("all", tool, arguments)
    assert answer.is_error
    text = json.dumps(answer.data)
    assert "x" * 2_001 not in text
    assert "x" * 2_001 not in answer.text


def test_the_arguments_in_an_envelope(desk: OpenWorkspace) -> None:
    given = {"path": "a.txt", "odd": [float("inf"), float("-inf"), float("nan"), 1.5, LONG]}
    context = desk.call("all", "Read", given).data["context"]
    assert isinstance(context, dict)
    shown = [None, None, None, 1.5, cut(LONG, 2_000)]
    assert context["params_input"] == {"path": "a.txt", "odd": shown}


def test_a_write_shows_nothing_to_who_may_not_read(desk: OpenWorkspace) -> None:
    given = {"path": "secret/plan.txt", **KNOWN}
    hides = "actual_total_bytes needle"
    found = check_answer(
        desk, "local", "overwrite_entire_file", given, "ACCESS_DENIED", hides=hides
    )
    assert found.data["operation"] == "read"
