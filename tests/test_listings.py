"""The text of searches, listings and readings: one row for each line, file, entry or edit."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copydesk.app.config import Config
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.search import ripgrep
from copydesk.search.ripgrep import find_rg
from copydesk.text import sizes
from copydesk.text.snapshot import Snapshot
from copydesk.tools.report import Answer, Lang
from support.cost import tokens
from support.desks import Setup
from support.rows import each_row

RG = find_rg()


DESK = Setup(Config())


def lay(desk: OpenWorkspace, files: Mapping[str, str | bytes]) -> None:
    Setup(files=files).lay_files(Path(desk.root))


def call(desk: OpenWorkspace, tool: str, lang: Lang = "en", **arguments: object) -> Answer:
    """A tool's answer; what asks for a search is skipped where there is no program for it."""
    if RG is None and tool.startswith("ripgrep"):
        pytest.skip("no ripgrep (rg) on this machine")
    report = desk.call("local", tool, arguments, lang=lang)
    assert isinstance(report, Answer)
    return report


def version(data: bytes | str) -> str:
    return Snapshot.of(data if isinstance(data, bytes) else data.encode()).version


def rows(text: str) -> list[str]:
    """What stands in the fence of an answer."""
    found = re.search(r"^(`{3,})\n(.*?)^\1$", text, re.DOTALL | re.MULTILINE)
    return found[2].splitlines() if found else []


ALPHA = "import os\n\ndef alpha():\n    return os.name\n\n\nprint(alpha())\n"
BETA = "from a import alpha\nx = 1\n"
A, B = (Snapshot.of(text.encode()).version for text in (ALPHA, BETA))


def test_matching_lines_as_grep_prints_them(desk: OpenWorkspace) -> None:
    lay(desk, {"src/a.py": ALPHA, "src/b.py": BETA})
    found = call(desk, "ripgrep_snippets", pattern="alpha")
    assert found.text == (
        f"3 matches in 2 files\n```\nsrc/a.py · version {A}\n2-\n3: def alpha():\n"
        "4-     return os.name\n--\n6-\n7: print(alpha())\n"
        f"src/b.py · version {B}\n1: from a import alpha\n2- x = 1\n```\n"
    )
    assert found.data["versions"] == {"src/a.py": A, "src/b.py": B}
    first: Any = found.data["results"]
    snippet = ["2\t", "3\tdef alpha():", "4\t    return os.name"]
    place = {"path": "src/a.py", "line": 3, "column": 5}
    assert first[0] == {**place, "match": "alpha", "snippet": snippet}


NARROW = "To see the rest: narrow the pattern, the path or globs, or give a larger"


@pytest.mark.slow
@each_row("tool arguments text", [
    # of a file that was named, as rg does: the first line has its path, once
    ("ripgrep_snippets", {"pattern": "return|alpha", "path": "src/a.py"},
        f"3 matches · version {A}\n```\n2-\n3: def alpha():\n4:     return os.name\n5-\n6-\n"
        "7: print(alpha())\n```\n"),
    ("ripgrep_search", {"pattern": "alpha", "path": "src/a.py"},
        f"2 matches · version {A}\n```\n3: def alpha():\n7: print(alpha())\n```\n"),
    ("ripgrep_snippets", {"pattern": "alpha", "max_results": 1},
        f"the first 1 match, in src/a.py; there are more · version {A}\n"
        f"{NARROW} max_results.\n```\n2-\n3: def alpha():\n4-     return os.name\n```\n"),
    ("ripgrep_snippets", {"pattern": "none like it"}, "no matches\n"),
    ("ripgrep_fixed", {"literal": "x = 1", "context_before": 0, "context_after": 0},
        f"1 match in src/b.py · version {B}\n```\n2: x = 1\n```\n"),
    ("ripgrep_search", {"pattern": "alpha"},
        f"3 matches in 2 files\n```\nsrc/a.py · version {A}\n3: def alpha():\n"
        f"7: print(alpha())\nsrc/b.py · version {B}\n1: from a import alpha\n```\n"),
    ("ripgrep_search", {"pattern": "os", "rg_args": ["-o", "-C1"]},
        f"2 matches in src/a.py · version {A}\n```\n1: os\n--\n4: os\n```\n"),
    ("ripgrep_files", {"pattern": "alpha"}, "2 files found.\n```\nsrc/a.py\nsrc/b.py\n```\n"),
    ("ripgrep_files", {"pattern": "alpha", "max_files": 1},
        f"Showing the first 1 file; there are more.\n{NARROW} max_files.\n```\nsrc/a.py\n```\n"),
    ("ripgrep_files", {"pattern": "none like it"}, "0 files found.\n"),
    ("ripgrep_count", {"pattern": "a"},
        "8 matches on 4 lines of 2 files\n```\nsrc/a.py: 3 (5)\nsrc/b.py: 1 (3)\n```\n"),
])  # fmt: skip
def test_what_is_found(
    desk: OpenWorkspace, tool: str, arguments: dict[str, object], text: str
) -> None:
    lay(desk, {"src/a.py": ALPHA, "src/b.py": BETA})
    assert call(desk, tool, **arguments).text == text


LINES = st.lists(st.sampled_from(("", " ", "a", "needle", "needle a", "  needle", "-", "x:1:y")))


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(texts=st.lists(LINES, min_size=1, max_size=3), around=st.integers(0, 2), end=st.booleans())
def test_the_rows_are_those_of_ripgrep(texts: list[list[str]], around: int, end: bool) -> None:
    if RG is None:
        pytest.skip("no ripgrep (rg) on this machine")
    with tempfile.TemporaryDirectory() as folder:
        for number, lines in enumerate(texts):
            text = "\n".join(lines) + "\n" * end
            (Path(folder) / f"{number}.txt").write_text(text)
        command = [RG.path, "--no-config", "-nH", "--heading", "--sort=path", f"-C{around}"]
        ran = subprocess.run(
            [*command, "needle", "."], cwd=folder, capture_output=True, timeout=60, check=False
        )
        theirs = [line.removeprefix("./") for line in ran.stdout.decode().splitlines() if line]
        with open_workspace(folder, shared=False) as desk:
            arguments = {"context_before": around, "context_after": around}
            found = call(desk, "ripgrep_snippets", pattern="needle", **arguments)
            raw = call(desk, "ripgrep_search", pattern="needle", rg_args=[f"-C{around}"])
    ours = [re.sub(r"^(\d+[:-]) ", r"\1", row).split(" · version")[0] for row in rows(raw.text)]
    headed = [row for row in theirs if row.endswith(".txt")]
    assert ours == (theirs[1:] if len(headed) == 1 else theirs)
    assert found.text == raw.text


@each_row("data shown", [
    (b"one\r\nneedle\r\n", ["1- one", "2: needle"]),
    (b"\xef\xbb\xbfneedle", ["1: needle"]),
    ("﻿é\nneedle".encode("utf-16-be"), ["1- é", "2: needle"]),
    (b"\xe9\nneedle\\xe9\n", ["1- \\xe9", "2: needle\\\\xe9"]),
    (b"needle" + b"x" * 600, ["1: needle" + "x" * 494 + "… [cut]"]),
    (b"x" * 600 + b"needle", ["1: [column 501] …" + "x" * 100 + "needle"]),
    (b"x" * 600 + b"needle" + b"y" * 600,
        ["1: [column 501] …" + "x" * 100 + "needle" + "y" * 394 + "… [cut]"]),
    (b"```\nneedle\n", ["1- ```", "2: needle"]),
])  # fmt: skip
def test_lines_of_any_file(desk: OpenWorkspace, data: bytes, shown: list[str]) -> None:
    lay(desk, {"f": data})
    text = call(desk, "ripgrep_snippets", pattern="needle").text
    fence = "````" if b"```" in data else "```"
    body = "".join(f"{row}\n" for row in shown)
    assert text == f"1 match in f · version {version(data)}\n{fence}\n{body}{fence}\n"


def test_a_name_takes_one_row(desk: OpenWorkspace) -> None:
    lay(desk, {"new\nline": "needle\n", "a\tb": "needle\n"})
    assert rows(call(desk, "ripgrep_files", pattern="needle").text) == ['"a\\tb"', '"new\\nline"']
    assert rows(call(desk, "list_dir", path=".").text) == ['"a\\tb"\t7', '"new\\nline"\t7']
    assert rows(call(desk, "ripgrep_count", pattern="needle").text)[0] == '"a\\tb": 1 (1)'
    digest = version(b"needle\n")
    found = rows(call(desk, "ripgrep_snippets", pattern="needle").text)
    assert found[2:] == [f'"new\\nline" · version {digest}', "1: needle"]


def test_what_was_not_searched_is_said(desk: OpenWorkspace) -> None:
    lay(desk, {f"bin{number}": b"needle\n" + b"x\n" * 50_000 + b"\0" for number in range(7)})
    text = call(desk, "ripgrep_snippets", pattern="needle").text
    assert text.startswith("7 matches in 7 files\nbin0: searched up to the NUL byte at 100007.\n")
    assert "2 other files were not searched, or not to the end.\n" in text


@pytest.mark.slow
@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(("tool", "most"), [
    ("ripgrep_snippets", {"max_results": 10_000}),
    ("ripgrep_search", {}),
    ("ripgrep_files", {"max_files": 10_000}),
    ("ripgrep_count", {"max_files": 10_000}),
])  # fmt: skip
def test_no_answer_is_over_its_budget(
    desk: OpenWorkspace, tool: str, most: dict[str, int], lang: Lang
) -> None:
    lay(desk, {f"folder/file_number_{n:04}.py": "needle = 1\n" * 40 for n in range(1_000)})
    found = call(desk, tool, lang, pattern="needle", **most)
    text = found.text
    assert tokens(text) <= 4_000
    head, step = text.splitlines()[:2]
    assert re.search(r"\d+", head)
    assert "pattern" in step
    assert len(rows(text)) > 50
    if tool != "ripgrep_search":
        key, count = {"ripgrep_snippets": ("results", 10_000)}.get(tool, ("files", 1_000))
        everything: Any = found.data.get(key) or found.data["counts"]
        assert len(everything) == count
    if tool == "ripgrep_snippets":
        shown = sum(":" in row.split(" ")[0] for row in rows(text))
        assert str(10_000 - shown) in step
        headings = [row for row in rows(text) if re.search(r" · version [0-9a-f]{12}$", row)]
        assert headings == sorted(set(headings)), "each file once"
        assert rows(text)[0] == headings[0]
        assert len(headings) == -(-shown // 40)


@pytest.mark.slow
def test_only_lines_of_the_text_were_shown(desk: OpenWorkspace) -> None:
    lay(desk, {"a.txt": "".join(f"needle number {number}\n" for number in range(1, 2_001))})
    found = call(desk, "ripgrep_snippets", pattern="needle", max_results=2_000)
    shown = len(rows(found.text))
    assert 100 < shown < 2_000
    versions: Any = found.data["versions"]
    for line, written in ((shown, True), (shown + 1, False)):
        edit = {"path": "a.txt", "range": str(line), "content": f"line {line}\n"}
        done = call(
            desk, "prepare_file_range_edit", **edit, version=versions["a.txt"], apply="auto"
        )
        assert ("edit_id" in done.data) is written


@pytest.mark.slow
def test_a_line_of_megabytes_is_shown_around_its_match(desk: OpenWorkspace) -> None:
    data = b"x" * (10 << 20) + b"needle" + b"y" * 1_000 + b"\n"
    lay(desk, {"bundle.js": data})
    text = call(desk, "ripgrep_snippets", pattern="needle").text
    assert text.startswith(f"1 match in bundle.js · version {version(data)}\n")
    assert "1: [column 10485661] …" in text
    assert "needle" in text
    assert len(text) < 700


@pytest.mark.slow
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_long_directory_is_cut(desk: OpenWorkspace, lang: Lang) -> None:
    lay(desk, {f"dir/{number}": "x" for number in range(5_000)})
    listed = call(desk, "list_dir", lang, path="dir")
    entries: Any = listed.data["entries"]
    assert len(entries) == 5_000
    shown = rows(listed.text)
    assert 500 < len(shown) < 1_000
    assert shown == [entry["name"] for entry in entries[: len(shown)]]
    assert tokens(listed.text) <= 4_000
    head, step = listed.text.splitlines()[:2]
    assert "5000" in head
    assert str(5_000 - len(shown)) in step
    asked = json.loads(step[step.index("(") + 1 : step.rindex(")")])
    rest = call(desk, "read_file", lang, **asked).text
    assert rows(rest)[0].split("\t")[0] == entries[len(shown)]["name"]
    assert str(5_000 - len(shown) - len(rows(rest))) in rest.splitlines()[1]
    lay(desk, {f"long/{'a_longer_name_' * 6}{number}": "x" for number in range(500)})
    long = call(desk, "list_dir", lang, path="long").text
    assert tokens(long) <= 4_000
    assert str(500 - len(rows(long))) in long.splitlines()[1]


@pytest.mark.slow
def test_a_thousand_entries_are_listed_at_most(tmp_path: Path) -> None:
    (tmp_path / "copydesk.toml").write_text("answer_tokens = 100000\n")
    with open_workspace(str(tmp_path), shared=False) as desk:
        lay(desk, {f"dir/{number:04}": "x" for number in range(1_001)})
        text = call(desk, "list_dir", path="dir").text
    assert rows(text) == [f"{number:04}\t1" for number in range(1_000)]  # with sizes, which fit
    assert text.startswith("dir: 1001 entries\nNot listed: 1 entry. To read on: read_file")
    with open_workspace(str(tmp_path), shared=False) as desk:
        last = call(desk, "read_file", path="dir", range="1001~").text
    assert rows(last) == ["1000\t1"]


def test_a_directory_as_ls_prints_it(desk: OpenWorkspace) -> None:
    lay(desk, {"src/a.py": "x\n", "b.txt": "text\n"})
    (Path(desk.root) / "link").symlink_to("src")
    (Path(desk.root) / "out").symlink_to("/")
    listed = call(desk, "list_dir", path=".")
    assert listed.text == ".: 4 entries\n```\nb.txt\t5\nlink -> src\nout\nsrc/\n```\n"
    assert listed.data["entries"] == [
        {"name": "b.txt", "type": "file", "size_bytes": 5},
        {"name": "link", "type": "symlink", "target": "src"},
        {"name": "out", "type": "symlink"},
        {"name": "src", "type": "dir"},
    ]
    lay(desk, {"src/a.py": "x\n"})
    (Path(desk.root) / "empty").mkdir()
    assert call(desk, "list_dir", path="empty").text == "empty: 0 entries\n"


@each_row("data line", [
    (b"1\n2\n3\n", "f:1-3 of 3 lines, 6 bytes · version {}"),
    (b"1\n", "f:1 of 1 line, 2 bytes · version {}"),
    (b"", "f: no lines, 0 bytes · version {}"),
    (b"\xef\xbb\xbf", "f: no lines, 3 bytes · version {} · encoding utf-8-sig"),
    (b"1\r\n2\r\n", "f:1-2 of 2 lines, 6 bytes · version {} · crlf"),
    (b"1\r\n2\n", "f:1-2 of 2 lines, 5 bytes · version {} · mixed"),
    (b"1", "f:1 of 1 line, 1 byte · version {} · no newline at the end"),
    (b"\xff\xfe1\0\r\0\n\0", "f:1 of 1 line, 8 bytes · version {} · crlf · encoding utf-16-le"),
    (
        b"\xe9\r\n2",
        "f:1-2 of 2 lines, 4 bytes · version {} · crlf · encoding unknown"
        " · no newline at the end",
    ),
])  # fmt: skip
def test_the_first_line_of_a_reading(desk: OpenWorkspace, data: bytes, line: str) -> None:
    lay(desk, {"f": data})
    read = call(desk, "read_file", path="f")
    assert read.text.splitlines()[0] == line.format(version(data))
    assert read.data["version"] == version(data)


def test_a_reading_in_a_configured_encoding(tmp_path: Path) -> None:
    (tmp_path / "copydesk.toml").write_text('encodings = {"legacy/**" = "gb18030"}\n')
    data = "中文\n".encode("gb18030")
    with open_workspace(str(tmp_path), shared=False) as desk:
        lay(desk, {"legacy/a.txt": data})
        text = call(desk, "read_file", path="legacy/a.txt").text
        assert text == (
            f"legacy/a.txt:1 of 1 line, 5 bytes · version {version(data)} · encoding gb18030\n"
            "```text\n1\t中文\n```\n"
        )
        if RG is not None:
            found = call(desk, "ripgrep_search", pattern=".", rg_args=["--no-unicode"])
            assert "1: 中文" in found.text


def test_a_reading_is_one_line_and_its_lines(desk: OpenWorkspace) -> None:
    data = "".join(f"line {number}\n" for number in range(1, 9))
    lay(desk, {"src/a.py": data})
    assert call(desk, "read_file", path="src/a.py", range="2~3").text == (
        f"src/a.py:2-3 of 8 lines, 56 bytes · version {version(data)}\n"
        "```text\n2\tline 2\n3\tline 3\n```\n"
    )
    cut = call(desk, "read_file", path="src/a.py", max_lines=2, show_linenos=False)
    assert cut.text == (
        f"src/a.py:1-2 of 8 lines, 56 bytes · version {version(data)}\n"
        'To read on: read_file({"path": "src/a.py", "range": "3~8"}).\n'
        "```text\nline 1\nline 2\n```\n"
    )


def test_the_end_of_a_large_file(desk: OpenWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "LARGE", 10)
    lay(desk, {"f": "1\n2\n" * 10})
    text = call(desk, "read_file", path="f", range="-2~").text
    assert text.startswith("f: the last 2 lines, of 40 bytes\n")


def test_one_row_for_each_edit(desk: OpenWorkspace) -> None:
    lay(desk, {"a.txt": "1\n2\n"})
    call(desk, "create_new_file", path="new.txt", content="x\n", why="a note")
    edit = {"path": "a.txt", "range": "1", "content": "one\nuno\n", "expected_old": "1\n"}
    call(desk, "prepare_file_range_edit", **edit, apply="auto")
    call(desk, "undo_file_modification", edit_id=2)
    listed = call(desk, "list_edits")
    moment = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    first, second, third = rows(listed.text)
    assert listed.text.startswith("3 edits, newest first.\n```\n3 a.txt")
    assert re.fullmatch(rf"3 a\.txt \+1 -2 · local · {moment} · undoes 2", first)
    assert re.fullmatch(rf"2 a\.txt \+2 -1 · local · {moment} · undone by 3", second)
    assert re.fullmatch(rf"1 new\.txt \+1 -0 · create · local · {moment} · why: a note", third)
    edits: Any = listed.data["edits"]
    assert [edit["edit_id"] for edit in edits] == [3, 2, 1]
    assert call(desk, "list_edits", path="none.txt").text == "No edits.\n"


@pytest.mark.slow
def test_the_next_step_of_a_list_that_is_cut_goes_on_after_what_was_shown(tmp_path: Path) -> None:
    (tmp_path / "copydesk.toml").write_text("answer_tokens = 1000\n")
    with open_workspace(str(tmp_path), shared=False) as desk:
        for number in range(60):
            call(desk, "create_new_file", path=f"{'long' * 8}{number}")
        seen: list[int] = []
        arguments: dict[str, object] = {"max_results": 60}
        while True:
            text = call(desk, "list_edits", **arguments).text
            assert tokens(text) <= 1_000
            shown = [int(row.split(" ")[0]) for row in rows(text)]
            assert shown
            seen += shown
            step = text.splitlines()[1]
            if step == "```":
                break
            arguments = json.loads(step[step.index("(") + 1 : step.rindex(")")])
    assert seen == list(range(60, 0, -1))


def test_one_row_for_each_plan(desk: OpenWorkspace) -> None:
    lay(desk, {"a.txt": "1\n2\n"})
    edit = {"path": "a.txt", "range": "2", "content": "b\nc\n", "why": "w" * 130}
    id_ = call(desk, "prepare_file_range_edit", **edit).data["hunk_id"]
    listed = call(desk, "list_pending")
    (row,) = rows(listed.text)
    until = r"until \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    told = rf"{id_} a\.txt replace \+2 -1 · local · {until} · why: w{{120}}….*"
    assert re.fullmatch(told, row)
    assert listed.text.startswith("1 plan is pending.\n")
    call(desk, "prepare_file_append", path="a.txt", content="x\n")
    assert "Not listed: 1 plan." in call(desk, "list_pending", max_results=1).text
    assert call(desk, "list_pending", path="none").text == "No plans are pending.\n"


class FewLooks:
    """In place of the clock of a search: its time is up when it was looked at so many times."""

    def __init__(self, looks: int) -> None:
        self.looks = looks + 1  # the first one sets the deadline

    def __call__(self) -> float:
        self.looks -= 1
        return 0.0 if self.looks >= 0 else 1e9


EVERY_SEARCH = [
    ("ripgrep_files", {"pattern": "alpha"}),
    ("ripgrep_count", {"pattern": "alpha"}),
    ("ripgrep_count", {"pattern": "alpha", "path": "a.py"}),
    ("ripgrep_snippets", {"pattern": "alpha"}),
    ("ripgrep_snippets", {"pattern": "alpha", "max_results": 1}),
    ("ripgrep_fixed", {"literal": "alpha"}),
    ("ripgrep_fixed", {"literal": "alpha", "mode": "files"}),
    ("ripgrep_fixed", {"literal": "alpha", "mode": "count"}),
    ("ripgrep_search", {"pattern": "alpha"}),
    ("ripgrep_search", {"pattern": "alpha", "rg_args": ["-c"]}),
    ("ripgrep_search", {"pattern": "alpha", "rg_args": ["-l"]}),
]


@pytest.mark.slow
@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(("tool", "arguments"), EVERY_SEARCH)
def test_a_search_that_ran_out_of_time_says_so_first(
    desk: OpenWorkspace,
    tool: str,
    arguments: dict[str, Any],
    lang: Lang,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Wherever it stops, there is no total, and never word that there are no matches."""
    lay(desk, {"a.py": ALPHA, "b.py": BETA, "c.py": ALPHA * 2_000})
    whole = call(desk, tool, lang, **arguments)
    first, none = {"en": ("Time ran out", "no matches"), "zh": ("时间已到", "没有匹配")}[lang]
    assert not whole.text.startswith(first)
    late = 0
    for looks in range(1_000):
        monkeypatch.setattr(ripgrep, "monotonic", FewLooks(looks))
        found = call(desk, tool, lang, **arguments)
        if not found.data["timed_out"]:
            break
        late += 1
        said = (found.text.split("\n")[0], str(found.data["summary"]))
        assert all(each.startswith(first) for each in said), found.text
        assert none not in found.text.lower()
        assert not re.search(r"(?<!\d)0 |\b0 ", " ".join(said)), said
        assert not [name for name in found.data if name.startswith("total_")]
        assert len(rows(found.text)) <= len(rows(whole.text))
    assert late >= 2
    assert found.data == whole.data
