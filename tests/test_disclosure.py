"""No answer depends on what stands where a member may not read.

Two worlds are alike but for files, directories and links in places that the members may
not read: there is something in one and nothing in the other. Every call of the catalog
that names such a place, or could meet it, gets the same answer in both.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from copydesk.app.config import TOOLSETS, Config, MemberConfig
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.errors import AccessDenied
from copydesk.store.access import Rules
from support.cost import spread
from support.mcp_calls import CALLS, NOTE, NOTE_ID, NOTES, TEXT
from support.rows import each_row

MEMBERS = {
    "denied": MemberConfig({"no_read_dirs": ("secret", "src/lib/*")}, team_mgmt=True),
    "neither": MemberConfig({"no_read_dirs": ("**/secret", "src/lib"), "no_write_dirs": ("secret", "src/lib")}),
    "allowed": MemberConfig({"read_dirs": ("pub", "src/*.py", "links")}),
}  # fmt: skip
BY_SUFFIX = {
    "suffix": MemberConfig({"no_read_file_ext_names": ("md", "key")}),
    "only": MemberConfig({"read_file_ext_names": ("py",)}),
    "within": MemberConfig({"read_dirs": ("pub", "hid/*.py")}),
}
PUBLIC = {"pub/a.py": "alpha\n", "src/a.py": "alpha\n", "hid/a.py": "alpha\n"}
LINKS = {"links/d": "../secret", "links/f": "../secret/doc.md", "links/x": "../secret/out"}
LINKS |= {"links/k": "../hid/b.key", "links/h": "../hid"}
HIDDEN = {
    "secret/doc.md": TEXT,
    "secret/b.key": "line\n",
    "secret/d/doc.md": TEXT,
    "secret/.gitignore": "a.py\n",
    f"secret/{NOTE}": NOTES.replace("kiwi", "lychee"),
    "src/lib/doc.md": TEXT,
    "src/lib/d/doc.md": TEXT,
}
SUFFIXED = {"hid/doc.md": TEXT, "hid/b.key": "line\n"}
PATHS = (
    *("secret/doc.md", "secret/doc.md/x", "secret/d", "secret/d/doc.md", "secret/out", "secret/b.key"),
    *("secret/out/x", "secret/up/pub/a.py", "secret/loop", "secret/fifo", "secret/none/x"),
    *("src/lib/doc.md", "src/lib/d", "src/lib/doc.md/x", "src/lib/d/doc.md"),
    *("links/f", "links/x", "links/x/y", "links/d/doc.md", "links/d/doc.md/x", "links/d/d"),
    *("links/d/out", "links/d/out/x", "links/d/loop/x", "links/d/up/pub/a.py", "links/d/odd/x"),
)  # fmt: skip
SUFFIX_PATHS = ("hid/doc.md", "hid/b.key", "links/k", "links/h/doc.md")
GLOBS = (
    *("secret/*", "**/secret/*", "**/secret", "secret", "/secret/", "{a,secret}/**", "se[c]ret/*"),
    *("**/{x,y/{z,secret}}/*", "SECRET/*", "!secret/**", "**/*.md", "*.key", "s*/doc.md", "**/d/*"),
    *("secret/doc.md", "secret/none.md", "src/lib/*.md", "src/l?b/*", "[sS]ecret/**", "se\\cret/*"),
)


@pytest.fixture
def worlds(tmp_path: Path, member: str) -> Iterator[tuple[OpenWorkspace, OpenWorkspace]]:
    roots = (tmp_path / "full" / "root", tmp_path / "empty" / "root")
    for root in roots:
        for name, text in PUBLIC.items():
            write(root / name, text)
        (root / "src" / "lib").mkdir()
        for name, target in LINKS.items():
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).symlink_to(target)
    for name, text in (SUFFIXED if member in BY_SUFFIX else HIDDEN).items():
        write(roots[0] / name, text)
    if member in MEMBERS:
        secret = roots[0] / "secret"
        (secret / "out").symlink_to("/etc")
        (secret / "up").symlink_to("..")
        (secret / "loop").symlink_to("loop")
        (secret / "odd").symlink_to("gone/../x")
        os.mkfifo(secret / "fifo")
    config = Config(members=MEMBERS | BY_SUFFIX, durability="fast", toolsets=TOOLSETS)
    with (
        open_workspace(str(roots[0]), config, shared=False) as full,
        open_workspace(str(roots[1]), config, shared=False) as empty,
    ):
        yield full, empty


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def calls(paths: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every tool that takes a path with each of them, the searches with each glob, the rest once."""
    for name, row in CALLS.items():
        if "path" in row or name.startswith(("ripgrep_", "list_")):
            for path in paths:
                yield name, {**row, "path": path}
        else:
            yield name, dict(row)
    for path in paths:
        yield "Write", {"path": path, "content": "x\n", "overwrite": True}
        yield "Write", {"path": path, "content": "x\n", "expected_size_bytes": 5}
        yield "prepare_file_append", {"path": path, "content": "x\n", "create": False}
        yield "prepare_file_append", {"path": path, "content": "x\n", "apply": "auto"}
        yield "read_file", {"path": path, "range": "-1~"}
        yield "read_multiple_files", {"paths": [path]}
        for command, more in {
            "view": {},
            "create": {"file_text": "x\n"},
            "str_replace": {"old_str": "a", "new_str": "b"},
            "insert": {"insert_line": 0, "insert_text": "x\n"},
        }.items():
            yield "str_replace_based_edit_tool", {"command": command, "path": path, **more}
    for name in ("ripgrep_files", "ripgrep_count", "ripgrep_snippets", "ripgrep_fixed"):
        wanted = "literal" if name == "ripgrep_fixed" else "pattern"
        for glob in GLOBS:
            for follow in (False, True):
                more = {"globs": [glob], "follow_symlinks": follow, "include_hidden": follow}
                yield name, {wanted: "line", **more}
    for glob in GLOBS:
        for option in ("--glob", "--iglob"):
            yield "ripgrep_search", {"pattern": "line", "rg_args": ["-uu", f"{option}={glob}"]}
    for path in (".", "links", "src", "pub"):
        for name in ("list_dir", "ripgrep_files", "ripgrep_search"):
            yield name, {**CALLS[name], "path": path}
        yield "str_replace_based_edit_tool", {"command": "view", "path": path}
    yield "searchBlocks", {"query": "lychee"}
    yield "listNotebooks", {"documents": True}
    yield "getBlockInfo", {"ids": NOTE_ID}


def answer(opened: OpenWorkspace, member: str, tool: str, arguments: dict[str, Any]) -> str:
    found = opened.call(member, tool, arguments)
    said = found.text + json.dumps(found.data, ensure_ascii=False, default=str)
    said = said.replace(opened.root, "ROOT")
    times = r'"\w+_(ms|time)": ?\d+|\d{14}-\w{7}|(created|modified|accessed): [^\\\n]+'
    return re.sub(times, "", said)


def tree(root: str) -> dict[str, object]:
    def content(one: Path) -> object:
        if one.is_file():
            return one.read_bytes()
        return os.readlink(one) if one.is_symlink() else 0

    found = (one for one in sorted(Path(root).rglob("*")) if ".copydesk" not in one.parts)
    return {str(one): content(one) for one in found}


@pytest.mark.slow
@pytest.mark.parametrize("member", spread([*MEMBERS, *BY_SUFFIX], of=5))
def test_no_answer_tells_what_stands_where_the_member_may_not_read(
    worlds: tuple[OpenWorkspace, OpenWorkspace], member: str
) -> None:
    before = [tree(one.root) for one in worlds]
    told: list[str] = []
    for tool, arguments in calls(PATHS if member in MEMBERS else SUFFIX_PATHS):
        one, other = (answer(opened, member, tool, arguments) for opened in worlds)
        if one != other:
            told.append(f"{tool} {arguments}\n--- {one[:700]}\n--- {other[:700]}")
    assert not told, f"{len(told)} answers differ\n" + "\n".join(told[:5])
    assert [tree(one.root) for one in worlds] == before


@each_row(
    "lists denied allowed",
    [
        (
            {"no_read_dirs": ("secrets",)},
            "secrets secrets/* **/secrets/* **/secrets {a,secrets}/** se[c]rets/* [rs]ecrets/x "
            "secrets/ /secrets/a se\\crets/*",
            "* **/*.py !secrets/** s*/x se?rets/* Secrets/* secrets-backup/* */secrets/x x/secrets",
        ),
        (
            {"no_read_dirs": ("**/secrets/**",)},
            "secrets/x a/secrets/* */secrets */secrets/x a/**/secrets/b",
            "a/b **/x",
        ),
        ({"no_read_dirs": ("src/lib/*",)}, "src/lib/x **/lib/* src/lib/*", "src/*.py lib src/lib"),
        ({"no_read_dirs": ("*.pem",)}, "*.pem **/*.pem x.pem", "*.py x.pe *"),
        ({"no_read_file_ext_names": ("key",)}, "*.key **/x.key a/b.key", "*.keys key *.py *.key/"),
        ({"read_dirs": ("src",)}, "docs/** docs/x", "src/** **/docs/* docs"),
        ({}, ".minds/** **/.minds/* *.tsk/** **/.copydesk **/.MINDS/x", "minds/** **/*.md"),
    ],
)
def test_which_globs_name_what_may_not_be_read(
    lists: dict[str, Any], denied: str, allowed: str
) -> None:
    rules = Rules(**lists)
    for glob in allowed.split():
        rules.check_glob(glob)
    for glob in denied.split():
        with pytest.raises(AccessDenied):
            rules.check_glob(glob)
    if "secrets" in denied.split():
        with pytest.raises(AccessDenied):
            rules.check_glob("SECRETS/*", fold=True)
