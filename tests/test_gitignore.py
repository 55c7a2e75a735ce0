"""What `.gitignore` leaves out: git itself is asked, file for file."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from copydesk.store.dotfiles import GitIgnore
from copydesk.store.files import Files
from copydesk.text.relpath import RelPath

PATHS = (
    "a.md", "b.md", "a/a.md", "a/b.md", "a/b/c.md", "a/b/c/d.md", "build/x.md", "src/build/x.md",
    "build.md", "x[1].md", "x1.md", "!b.md", "#c.md", "sp .md", "A.md", "a/x-1.md", "a/x-b.md",
    "foo/bar/baz.md", "foo/bar.md", "deep/foo/bar/q.md", "é/ünd.md",
)  # fmt: skip

RULES: dict[str, Mapping[str, str]] = {
    "names": {"": "a.md\n"},
    "directories": {"": "build/\n"},
    "a name of either": {"": "build\n"},
    "from here": {"": "/a.md\n/build\n"},
    "in a path": {"": "a/b\n"},
    "stars": {"": "*.md\n!a.md\n!*/\n"},
    "back again": {"": "*\n!a/\n!a/*.md\n"},
    "not below what is out": {"": "a/\n!a/b.md\n"},
    "double stars first": {"": "**/b\n"},
    "double stars last": {"": "a/**\n"},
    "double stars within": {"": "foo/**/baz.md\na/**/d.md\n"},
    "double stars of a name": {"": "a**.md\n"},
    "question marks": {"": "?.md\n"},
    "classes": {"": "x[0-9].md\na/x-[!1].md\n"},
    "escapes": {"": "x\\[1\\].md\n\\!b.md\n\\#c.md\nsp\\ .md\n"},
    "comments and blanks": {"": "# a.md\n\n   \nb.md   \n"},
    "CRLF": {"": "a.md\r\n/b.md\r\n"},
    "a file deeper down decides": {"": "*.md\n", "a": "!b.md\n"},
    "a file deeper down is for its own": {"a": "/a.md\nb/\n", "foo": "bar*\n"},
    "letters": {"": "é/\n"},
    "case counts": {"": "A.MD\n"},
    "named classes": {"": "x[[:digit:]].md\na/x-[![:alpha:]].md\n[[:punct:]]*.md\n"},
    "an odd class": {"": "[]ab].md\na/[^]b].md\nx[[]1].md\n[z-a].md\n"},
    "an open class": {"": "x[.md\n[\n"},
}


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("name", RULES)
def test_what_git_ignores_is_left_out(tmp_path: Path, name: str) -> None:
    for path in PATHS:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("x")
    for folder, text in RULES[name].items():
        (tmp_path / folder / ".gitignore").write_bytes(text.encode())
    env = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(tmp_path), "GIT_DIR": ".g"}
    env["GIT_WORK_TREE"] = "."
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, env=env, check=True, timeout=60)
    asked = subprocess.run(
        ["git", "-c", "core.ignorecase=false", "check-ignore", "--no-index", "-z", "--stdin"],
        cwd=tmp_path, env=env, input="\0".join(PATHS).encode(), stdout=subprocess.PIPE, timeout=60,
        check=False,
    )  # fmt: skip
    git = {path for path in asked.stdout.decode().split("\0") if path}
    with Files(str(tmp_path), durability="fast") as files:
        ignored = GitIgnore(files)
        ours = {path for path in PATHS if ignored.leaves_out(RelPath.parse(path), RelPath(()))}
    assert ours == git


@pytest.mark.parametrize(("line", "path"), [
    ("*a" * 30 + "b", "a" * 90),
    ("**/" * 30 + "b", "a/" * 90 + "c"),
    ("**/a*a*/" * 30 + "b", "aa/" * 90 + "c"),
])  # fmt: skip
def test_a_line_asks_for_no_more_than_its_length(tmp_path: Path, line: str, path: str) -> None:
    """It is answered at all: each of them is some years of going back, if one goes back."""
    with Files(str(tmp_path), durability="fast") as files:
        ignored = GitIgnore(files, (line,), in_files=False)
        assert not ignored.names(RelPath.parse(path), directory=False)


def test_own_lines_decide_first_and_the_top_is_never_left_out(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / ".gitignore").write_text("notes\n*.tmp.md\n")

    def left(ignored: GitIgnore, path: str, top: str = ".") -> bool:
        return ignored.leaves_out(RelPath.parse(path), RelPath.parse(top))

    with Files(str(tmp_path), durability="fast") as files:
        ignored = GitIgnore(files, ("drafts/", "!keep.tmp.md", "!/node_modules"))
        assert left(ignored, "notes/a.md")
        assert not left(ignored, "notes/a.md", "notes"), "it was named to be a notebook"
        assert left(ignored, "notes/a.tmp.md", "notes")
        assert not left(ignored, "notes/keep.tmp.md", "notes")
        assert left(ignored, "x/drafts/a.md")
        assert left(ignored, "x/node_modules/y/README.md")
        assert not left(ignored, "node_modules/y/README.md")
        alone = GitIgnore(files, ("drafts/",), in_files=False)
        assert not left(alone, "a.tmp.md")
        assert not left(alone, "node_modules/README.md")
        assert left(alone, "drafts/a.md")
        (tmp_path / ".gitignore").write_text("")
        ignored.forget()
        assert not left(ignored, "notes/a.md")
