"""A whole file is not written by one who was shown a part of it; and what was shown of which version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from copydesk.app.config import MemberConfig
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.desk.backends.snapshots import MOST_SHOWN, Note, ShownLines, Snapshots
from copydesk.text.relpath import RelPath
from support.mcp_calls import settings
from support.records import KEPT, snapshots_of

LINES = "".join(f"line {number} {'x' * 90}\n" for number in range(3_000))
PATH = RelPath.parse("a.txt")


def opened(root: Path, *, shared: bool = False) -> OpenWorkspace:
    (root / "a.txt").write_text(LINES)
    members = {name: MemberConfig() for name in ("agent", "other")}
    return open_workspace(str(root), settings(members=members), shared=shared)


def code(desk: OpenWorkspace, tool: str, by: str = "agent", **given: Any) -> str:
    answer = desk.call(by, tool, {"path": "a.txt", **given})
    error = answer.data.get("error", "")
    return str(error["code"] if isinstance(error, dict) else error)


def ways(root: Path) -> dict[str, dict[str, Any]]:
    raw = (root / "a.txt").read_bytes()
    known = {"known_old_total_lines": raw.count(b"\n"), "known_old_total_bytes": len(raw)}
    return {
        "overwrite_entire_file": known,
        "Write": {"overwrite": True, "expected_size_bytes": len(raw)},
        "write_file": {},
    }


READS: dict[str, dict[str, Any]] = {
    "cut by lines": {"tool": "read_file"},
    "cut by characters": {"tool": "read_file", "max_lines": 5_000},
    "a range": {"tool": "read_file", "range": "1~2999", "max_lines": 5_000},
    "the end": {"tool": "read_file", "range": "-9~"},
    "of the batch tools": {"tool": "Read"},
    "the head": {"tool": "read_text_file", "head": 10},
    "the editor's view": {"tool": "str_replace_based_edit_tool", "command": "view"},
}


@pytest.mark.slow
@pytest.mark.parametrize("read", READS)
def test_who_was_shown_a_part_writes_no_whole_file(tmp_path: Path, read: str) -> None:
    with opened(tmp_path) as desk:
        for tool, given in ways(tmp_path).items():
            assert not code(desk, **READS[read])
            assert code(desk, tool, content="new\n", **given) == "INCOMPLETE_READ", tool
            assert (tmp_path / "a.txt").read_text() == LINES
            # another member was shown nothing of it
            assert not code(desk, tool, by="other", content="new\n", **given), tool
            (tmp_path / "a.txt").write_text(LINES)


@pytest.mark.slow
def test_who_read_the_rest_writes(tmp_path: Path) -> None:
    with opened(tmp_path) as desk:
        for start in (1, 2_401, 601, 1_201, 1_801):
            if start > 1:
                assert code(desk, "write_file", content=LINES) == "INCOMPLETE_READ"
            assert not code(desk, "read_file", range=f"{start}~{start + 599}", max_lines=600)
            if start == 1:
                facts = desk.call("agent", "write_file", {"path": "a.txt", "content": "x"}).data
                assert facts["data"].get("shown_lines") == ["1~600"]
                assert facts["data"]["total_lines"] == 3_000
        assert not code(desk, "write_file", content="one\n")
        assert not code(desk, "write_file", content="two\n")  # it wrote all that is there
        assert (tmp_path / "a.txt").read_text() == "two\n"


@pytest.mark.slow
def test_a_part_of_an_older_version_counts_until_all_is_read(tmp_path: Path) -> None:
    """The content comes from what was read, whatever was changed since, by oneself too."""
    with opened(tmp_path) as desk:
        assert not code(desk, "read_file")
        (tmp_path / "a.txt").write_text(f"{LINES}more\n")
        assert code(desk, "write_file", content="x") == "INCOMPLETE_READ"
        assert not code(desk, "edit_file", edits=[{"oldText": "line 0 ", "newText": "line "}])
        assert code(desk, "write_file", content="x") == "INCOMPLETE_READ"
        for start in range(1, 3_002, 600):
            assert not code(desk, "read_file", range=f"{start}~", max_lines=600)
        assert not code(desk, "write_file", content="x")


def test_a_line_of_which_the_start_was_shown_is_not_known(tmp_path: Path) -> None:
    with opened(tmp_path) as desk:
        (tmp_path / "a.txt").write_text("x" * 300_000)
        assert not code(desk, "read_file")
        assert code(desk, "write_file", content="x") == "INCOMPLETE_READ"


def test_other_processes_know_it(tmp_path: Path) -> None:
    with opened(tmp_path, shared=True) as desk:
        assert not code(desk, "read_file")
    with open_workspace(str(tmp_path), settings(), shared=True) as desk:
        assert code(desk, "write_file", content="x") == "INCOMPLETE_READ"


@pytest.fixture(params=KEPT)
def bases(request: pytest.FixtureRequest, tmp_path: Path) -> Snapshots:
    return snapshots_of(request, tmp_path)


def test_runs_are_joined_by_member_path_and_version(bases: Snapshots) -> None:
    def note(member: str, version: str, *runs: tuple[int, int]) -> ShownLines | None:
        bases.note_shown(Note(member, PATH, ShownLines(version, 10, runs)))
        return bases.shown(member, PATH)

    assert bases.shown("a", PATH) is None
    assert note("a", "v1", (0, 3)) == ShownLines("v1", 10, ((0, 3),))
    assert note("a", "v1", (5, 7)) == ShownLines("v1", 10, ((0, 3), (5, 7)))
    assert note("a", "v1", (3, 6)) == ShownLines("v1", 10, ((0, 7),))
    assert note("b", "v1", (9, 10)) == ShownLines("v1", 10, ((9, 10),))
    assert note("a", "v2") == ShownLines("v2", 10, ())
    assert bases.shown("a", PATH, "v1") == ShownLines("v1", 10, ((0, 7),))
    found = note("a", "v1", (7, 10))
    assert found is not None
    assert found.complete
    assert bases.shown("a", RelPath.parse("b.txt")) is None
    assert bases.shown("a", PATH, "v3") is None
    assert ShownLines("v", 0, ()).complete
    assert not ShownLines("", 0, ()).complete


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_file_of_a_byte_order_mark_alone_has_no_line_that_was_not_shown(
    tmp_path: Path, encoding: str
) -> None:
    with opened(tmp_path) as desk:
        (tmp_path / "a.txt").write_bytes("".encode(encoding))
        size = (tmp_path / "a.txt").stat().st_size
        assert not code(desk, "read_file")
        assert not code(desk, "prepare_file_append", content="one\n")
        given = {"known_old_total_lines": 0, "known_old_total_bytes": size}
        assert not code(desk, "overwrite_entire_file", content="two\n", **given)
        assert (tmp_path / "a.txt").read_text(encoding) == "two\n"


@pytest.mark.slow
def test_so_many_are_remembered(bases: Snapshots) -> None:
    for number in range(MOST_SHOWN + 10):
        bases.note_shown(Note(f"m{number}", PATH, ShownLines("v", 1, ())))
    assert bases.shown("m0", PATH) is None
    assert bases.shown(f"m{MOST_SHOWN + 9}", PATH) is not None


def test_what_a_search_shows_counts_for_who_read_a_part_and_for_nobody_else(tmp_path: Path) -> None:
    with opened(tmp_path) as desk:
        (tmp_path / "a.txt").write_text("one\ntwo\nthree\nfour\n")
        assert not code(desk, "ripgrep_snippets", pattern="two")
        assert not code(desk, "write_file", content="one\ntwo\nthree\nfour\n")  # nothing was read
        (tmp_path / "a.txt").write_text("five\nsix\nseven\neight\n")
        assert not code(desk, "read_file", range="1~2")
        assert code(desk, "write_file", content="x") == "INCOMPLETE_READ"
        assert not code(desk, "ripgrep_snippets", pattern="eight")
        assert not code(desk, "write_file", content="x")
