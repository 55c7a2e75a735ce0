"""What a search knows of the files it shows lines of: their texts, versions and ignore files."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, pairwise
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copydesk.app.workspace import open_workspace
from copydesk.search import ripgrep
from copydesk.search.listings import lines_shown
from copydesk.search.options import Query, parse_rg_args
from copydesk.search.ripgrep import (
    FoundLine,
    Lines,
    Raw,
    Search,
    SearchResult,
    Snippets,
    find_rg,
    search_files,
    search_raw,
    search_snippets,
)
from copydesk.store.files import Files
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot
from support.desks import Setup
from support.rows import each_row

RG = find_rg()
pytestmark = pytest.mark.skipif(RG is None, reason="no ripgrep (rg) on this machine")
ROOT = RelPath(())


@contextmanager
def tree(files: Mapping[str, bytes], **more: object) -> Iterator[Search]:
    with tempfile.TemporaryDirectory() as folder, Files(lay(Path(folder), files)) as opened:
        yield Search(RG, opened, lambda _: True, **more)  # type: ignore[arg-type]


def ask(pattern: str, path: str = ".") -> Query:
    return Query(pattern, RelPath.parse(path), case="sensitive")


def lines_of(found: Snippets | Raw) -> list[FoundLine]:
    if isinstance(found, Lines):
        return list(found.rows)
    assert isinstance(found, Snippets)
    each = chain.from_iterable((*one.before, one, *one.after) for one in found.results)
    return list({(line.path, line.line): line for line in each}.values())


def check_versions(found: SearchResult, lines: Sequence[FoundLine], paths: Sequence[str]) -> None:
    """Each line is the file's, at its number; texts are known of these files."""
    texts = {one.path: one.text for one in found.searched}
    assert list(texts) == list(paths)
    for line in lines:
        if line.path in texts:
            whole = texts[line.path].text(line.line - 1)
            start = (line.column or 1) - 1 if line.is_part else line.from_column - 1
            shown = whole[start : start + len(line.text)]
            assert shown == line.text
            assert line.is_part or line.cut or shown == whole
    for file, runs in lines_shown(found, lines):
        numbers = {line.line - 1 for line in lines if line.path == file.path}
        assert {number for run in runs for number in range(*run)} <= numbers
        assert runs == tuple(sorted(runs))
        assert all(one[1] < two[0] for one, two in pairwise(runs))


PIECES = st.sampled_from(
    ("a", "b", "needle", "\n", "\r\n", "\r", " ", "\\", "\\xe9", "é", "中", "\u2028", "\x0c")
)
TEXTS = st.lists(PIECES, max_size=25).map("".join)
ENCODED = st.one_of(
    TEXTS.map(str.encode),
    TEXTS.map(lambda text: b"\xef\xbb\xbf" + text.encode()),
    TEXTS.map(lambda text: b"\xff\xfe" + text.encode("utf-16-le")),
    TEXTS.map(lambda text: b"\xfe\xff" + text.encode("utf-16-be")),
    TEXTS.map(lambda text: text.encode() + b"\xe9\xff"),
    TEXTS.map(lambda text: text.encode("gb18030")),
)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(data=st.lists(ENCODED, min_size=1, max_size=4), around=st.integers(0, 2))
def test_every_line_stands_in_its_version(data: list[bytes], around: int) -> None:
    files = {f"{number}.txt": content for number, content in enumerate(data)}
    with tree(files) as search:
        found = search_snippets(search, ask("needle|a"), 100, around, around)
        raw = search_raw(search, "needle|a", ROOT, parse_rg_args([f"-C{around}"]), 100)
    for result in (found, raw):
        lines = lines_of(result)
        check_versions(result, lines, list(dict.fromkeys(line.path for line in lines)))
        for one in result.searched:
            assert one.text.version == Snapshot.of(files[one.path]).version
            assert one.real == RelPath.parse(one.path)


@each_row("options", [["-o"], ["-U"], ["-C1"], ["-v"], ["-M5"], ["--crlf"]])
def test_every_line_stands_in_its_version_whatever_the_options(options: list[str]) -> None:
    text = b"one needle\r\ntwo\nneedle and needle\rneedle\n\xe9 needle\r\n" + b"x" * 900 + b"needle"
    args = parse_rg_args(options)
    assert args.context is (options == ["-C1"])
    with tree({"a.txt": text}) as search:
        found = search_raw(search, r"needle\b", ROOT, args, 100)
    assert isinstance(found, Lines)
    check_versions(found, found.rows, ["a.txt"])


def test_a_match_across_lines_keeps_what_is_no_line_end() -> None:
    with tree({"a.txt": b"one\r\r\ntwo\r\n"}) as search:
        found = search_raw(search, r"one\s+two", ROOT, parse_rg_args(["-U"]), 100)
    assert isinstance(found, Lines)
    assert [row.text for row in found.rows] == ["one\r", "two"]
    check_versions(found, found.rows, ["a.txt"])


def test_lines_are_shown_in_the_encoding_that_is_configured() -> None:
    data = {"a.txt": "# 中文 needle\n中\n".encode("gb18030")}
    with tree(data, named=lambda path: "gb18030") as search:
        found = search_snippets(search, ask("needle"), 5, 1, 1)
    (line,) = found.results
    assert (line.text, line.column, line.after[0].text) == ("# 中文 needle", 6, "中")
    check_versions(found, lines_of(found), ["a.txt"])


@pytest.mark.parametrize("path", ["big.txt", "nul.txt", "utf32.txt"])
def test_no_version_is_told_of_what_cannot_be_edited_or_is_too_large(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ripgrep, "VERSION_BYTES", 40)
    data = {
        "big.txt": b"needle\n" * 6,
        "nul.txt": b"needle\n\0\n",
        "utf32.txt": b"\xff\xfe\0\0" + "needle\n".encode("utf-32-le"),
        "small.txt": b"needle\n" * 5,
    }
    with tree(data) as search:
        assert search_snippets(search, ask("needle", path), 9, 1, 1).searched == ()
        known = search_snippets(search, ask("needle", "small.txt"), 9, 1, 1)
    check_versions(known, lines_of(known), ["small.txt"])


def test_a_search_reads_no_more_for_versions_than_its_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ripgrep, "MOST_VERSION_BYTES", 20)
    with tree(dict.fromkeys("abcd", b"needle\n")) as search:
        found = search_snippets(search, ask("needle"), 9, 1, 1)
    assert [line.path for line in found.results] == [*"abcd"]
    check_versions(found, lines_of(found), [*"ab"])


@pytest.mark.parametrize(("now", "known"), [
        (b"0\nneedle\n2\n3 other\n", True),  # elsewhere
    (b"0\nneedle\n2 \n3\n", False),
    (b"new\n0\nneedle\n2\n3\n", False),
    (b"", False),
])  # fmt: skip
def test_a_version_is_that_of_bytes_with_every_line_shown(
    now: bytes, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_at(fd: int, count: int, offset: int) -> bytes:
        """As if somebody had written to the file between ripgrep's reading and ours."""
        return now

    monkeypatch.setattr(ripgrep, "read_at", read_at)
    with tree({"a": b"0\nneedle\n2\n3\n"}) as search:
        found = search_snippets(search, ask("needle"), 9, 1, 1)
    assert [line.text for line in lines_of(found)] == ["0", "needle", "2"]
    check_versions(found, lines_of(found), ["a"] if known else [])
    assert [one.text.data for one in found.searched] == [now] * known


def test_a_file_that_only_told_that_there_is_more_is_none_of_the_results() -> None:
    with tree({"a": b"needle\n", "b": b"needle\n"}) as search:
        found = search_snippets(search, ask("needle"), 1, 0, 0)
        raw = search_raw(search, "needle", ROOT, parse_rg_args([]), 1)
    assert found.truncated
    assert raw.truncated
    check_versions(found, lines_of(found), ["a"])
    check_versions(raw, lines_of(raw), ["a"])


def test_lines_shown_whole_are_told_as_runs() -> None:
    data = b"1\n2\nneedle\n4\n5\n6\n7\nneedle" + b"x" * 600 + b"\n9\nneedle\n"
    with tree({"a": data}) as search:
        found = search_snippets(search, ask("needle"), 9, 1, 1)
        only = search_raw(search, "needle", ROOT, parse_rg_args(["-o"]), 9)
    assert [runs for _, runs in lines_shown(found, lines_of(found))] == [((1, 4), (6, 7), (8, 10))]
    assert [runs for _, runs in lines_shown(only, lines_of(only))] == [()]
    assert list(lines_shown(found, ())) == []


@pytest.mark.parametrize(("tool", "arguments"), [
    ("ripgrep_snippets", {"pattern": "beta"}),
    ("ripgrep_fixed", {"literal": "beta"}),
    ("ripgrep_search", {"pattern": "beta"}),
])  # fmt: skip
def test_the_line_numbers_of_a_search_can_be_used_in_an_edit(
    tmp_path: Path, tool: str, arguments: dict[str, object]
) -> None:
    (tmp_path / "a.txt").write_text("alpha\nbeta\ngamma\n")
    with open_workspace(str(tmp_path), shared=False) as desk:
        found = desk.call("local", tool, arguments).data
        versions = cast("dict[str, str]", found["versions"])
        assert versions == {"a.txt": Snapshot.of(b"alpha\nbeta\ngamma\n").version}
        (tmp_path / "a.txt").write_text("by somebody else\nalpha\nbeta\ngamma\n")
        edit = {"path": "a.txt", "range": "2", "content": "B\n", "version": versions["a.txt"]}
        plan = desk.call("local", "prepare_file_range_edit", edit).data
        done = desk.call("local", "apply_file_modification", {"hunk_id": plan["hunk_id"]}).data
    assert done["status"] == "ok"
    assert (tmp_path / "a.txt").read_text() == "by somebody else\nalpha\nB\ngamma\n"


IGNORING = {
    ".gitignore": b"*.log\n/dist\n!keep.log\nnode_modules/\n",
    "sub/.gitignore": b"*.txt\n!dist/\n!b.txt\n/deep/own.md\n",
    "sub/deep/.gitignore": b"!c.log\n",
    ".ignore": b"by_ignore\n",
    **dict.fromkeys((
        "a.txt", "a.log", "keep.log", "dist/a.txt", "sub/dist/a.txt", "sub/a.txt", "sub/b.txt",
        "sub/c.log", "sub/deep/c.log", "sub/deep/own.md", "sub/deep/b.txt", "node_modules/m/a.js",
        "by_ignore",
    ), b"x"),
}  # fmt: skip


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in no git repository, of somebody without ignore files of their own."""
    if any((folder / ".git").exists() for folder in tmp_path.parents):
        pytest.skip("the folder of the tests is in a git repository")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    return tmp_path


def lay(root: Path, files: Mapping[str, bytes]) -> Path:
    Setup(files=files).lay_files(root)
    return root


def found_in(root: Path, path: str = ".", *options: str) -> set[str]:
    with Files(root) as opened:
        search = Search(RG, opened, lambda _: True)
        raw = search_raw(search, "x", RelPath.parse(path), parse_rg_args(["-l", *options]), 1000)
        plain = search_files(search, ask("x", path), 1000)
    paths = set(getattr(raw, "paths", ()))
    assert options or paths == set(plain.paths)
    return paths


def by_rg(root: Path, path: str = ".") -> set[str]:
    """What ripgrep itself finds."""
    assert RG is not None
    command = [RG.path, "--no-config", "-l", "x", path if path == "." else f"./{path}"]
    said = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60, check=True)
    return {str(RelPath.parse(line)) for line in said.stdout.splitlines()}


@pytest.mark.slow
@pytest.mark.parametrize("above", [False, True])
def test_gitignore_counts_without_git_as_with_it(outside: Path, above: bool) -> None:
    plain, git = outside / "plain", outside / "git"
    files = IGNORING
    if above:  # as of a home folder
        (outside / ".gitignore").write_bytes(b"*\n")
        files = files | {"sub/.gitignore": b"*.txt\n!dist/\n!b.txt\ndeep/own.md\nown.md\n"}
    for root in (plain, git):
        lay(root, files)
    (git / ".git").mkdir()
    for path in (".", "sub", "sub/deep", "dist"):
        assert found_in(plain, path) == by_rg(git, path) == found_in(git, path)


@pytest.mark.parametrize("above", [b"", b"*\n"])
def test_what_is_ignored_without_git(outside: Path, above: bytes) -> None:
    root = lay(outside / "root", IGNORING)
    if above:
        (outside / ".gitignore").write_bytes(above)
    assert found_in(root) == {"a.txt", "keep.log", "sub/b.txt", "sub/deep/b.txt", "sub/deep/c.log"}
    assert "a.log" in found_in(root, ".", "--no-ignore-vcs")
    assert {"dist/a.txt", "node_modules/m/a.js", "by_ignore"} <= found_in(root, ".", "-u")
    deep = {f"sub/deep/{name}" for name in ("c.log", "own.md", "b.txt")}
    assert found_in(root, "sub/deep", "-u") == deep


def test_a_repository_above_the_root_and_one_below_it(outside: Path) -> None:
    above = {".git/HEAD": b"", ".gitignore": b"out\n", "root/out": b"x", "root/in": b"x"}
    outer = lay(outside / "outer", above)
    assert found_in(outer / "root") == by_rg(outer / "root") == {"in"}
    below = {"repo/.git/info/exclude": b"secret\n", "plain/.gitignore": b"gone\n"}
    files = dict.fromkeys(("repo/secret", "repo/open", "plain/gone", "plain/here"), b"x")
    assert found_in(lay(outside / "inner", below | files)) == {"repo/open", "plain/here"}
