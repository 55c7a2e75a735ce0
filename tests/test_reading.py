"""Reading of files of any size: the large way gives what the small way gives."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from sysconfig import get_path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.app import reference
from copydesk.app.config import Config
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.text import sizes
from copydesk.tools.report import Answer
from support.cost import spread, tokens
from support.desks import Setup
from support.rows import each_row

TEXTS = {
    "lf": b"".join(b"line %d\n" % i for i in range(1, 1201)),
    "crlf, no end": b"\r\n".join(b"line %d" % i for i in range(1, 1201)),
    "utf-16": "".join(f"zeile {i} \u0a0a\u0d0a\n" for i in range(1, 1201)).encode("utf-16"),
    "bom": b"\xef\xbb\xbf" + b"".join(b"l%d\n" % i for i in range(1, 1201)),
    "blank lines": b"\n" * 1200,
    "one long line": b"x" * 250_000 + b"\nsecond\n",
    "invalid": b"ok\n" * 700 + b"\xff\xfe bad\n" + b"ok\n" * 499,
    "umlauts": "ä€😀\n".encode() * 1200,
}
RANGES = ("", "1", "3~7", "1190~", "~", "-1~", "-5~", "-5000~", "1200", "1201", "1201~", "9~2", "x")


DESK = Setup(Config())


def read(desk: OpenWorkspace, **given: object) -> Answer:
    return desk.call("local", "read_file", {"path": "f.txt", **given})


@pytest.mark.parametrize(("kind", "range_text"), spread(TEXTS, RANGES, of=3))
def test_large_reads_as_small(
    desk: OpenWorkspace, tmp_path: Path, kind: str, range_text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ways answer the same, but for what the large way leaves out."""
    (tmp_path / "f.txt").write_bytes(TEXTS[kind])
    arguments = {"range": range_text, "show_linenos": False}
    small = read(desk, **arguments)
    with monkeypatch.context() as patched:
        patched.setattr(sizes, "LARGE", 0)
        patched.setattr(sizes, "BLOCK", 1 << 12)
        large = [read(desk, **arguments) for _ in range(2)]
    for answer in large:
        left_out = {k for k in small.fields if k not in answer.fields}
        if not small.is_error and range_text.startswith("-"):
            assert left_out <= {"newline_style", "total_lines", "version", "file_eof_has_newline"}
            assert "total_lines" not in answer.fields
            assert re.fullmatch(r"The last \d+ lines? of f\.txt\.", str(answer.fields["summary"]))
            assert answer.data["content"] == small.data["content"]
            continue
        assert not left_out
        for name, value in answer.fields.items():
            assert value == small.fields[name], name
        assert answer.data.get("content") == small.data.get("content")


def test_a_nul_far_from_the_window_is_seen(
    desk: OpenWorkspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f.txt").write_bytes(b"a\n" * 10_000 + b"\0")
    monkeypatch.setattr(sizes, "LARGE", 0)
    report = read(desk, range="1")
    assert (report.fields["error"], report.fields["nul_at_byte"]) == ("BINARY_FILE", 20_000)


def test_reading_on_reaches_every_line(desk: OpenWorkspace, tmp_path: Path) -> None:
    text = TEXTS["lf"]
    (tmp_path / "f.txt").write_bytes(text)
    seen, range_text = "", "1~"
    for _ in range(10):
        report: Any = read(desk, range=range_text, show_linenos=False).data
        seen += report["content"]
        if not report["truncated_by_max_lines"]:
            break
        range_text = f"{report['shown_lines']['end'] + 1}~"
    assert seen.encode() == text


@pytest.mark.slow
def test_a_file_of_a_thousand_lines_is_read_in_one_call(
    desk: OpenWorkspace, tmp_path: Path
) -> None:
    source = Path(get_path("stdlib")) / "argparse.py"
    lines = source.read_text("utf-8").splitlines()[:1_100]
    (tmp_path / "f.txt").write_text("".join(f"{line}\n" for line in lines))
    answer = read(desk)
    assert answer.next_steps == ()
    as_cat = "".join(f"{number:6}\t{line}\n" for number, line in enumerate(lines, 1))
    assert tokens(answer.text) <= 1.05 * tokens(as_cat)


ROOT = Path(__file__).parent.parent
TEXTS_IN = {
    "code": sorted((ROOT / "src" / "copydesk" / "desk").glob("*.py")),
    "English": sorted((ROOT / "docs").glob("*.md")),
    "Chinese": sorted((Path(str(reference.__file__)).parent / "manuals").glob("*/zh/*.md")),
}


@pytest.mark.parametrize("kind", TEXTS_IN)
def test_tokens_are_counted_within_a_tenth(kind: str) -> None:
    text = "".join(path.read_text("utf-8") for path in TEXTS_IN[kind])[:200_000]
    assert 0.9 < sizes.counted(text) / tokens(text) < 1.1


@given(st.lists(st.text("aB1_- \t\u00e9\u6f22\U0001f600.").map(str.strip), min_size=1))
def test_lines_together_have_no_fewer_tokens(lines: list[str]) -> None:
    """So that those that fit together fit one by one, too."""
    assert sum(map(sizes.counted, lines)) <= sizes.counted("\n".join(lines)) + len(lines)


@pytest.mark.parametrize("tail", [False, True])
def test_what_just_fits_the_budget_is_cut_by_no_line(tmp_path: Path, *, tail: bool) -> None:
    """Each further token shows as many lines or more, and none is left out before it must be."""
    (tmp_path / "f.txt").write_text("".join(f"{i}: some words of line {i}\n" for i in range(40)))
    counts: list[int] = []
    for budget in range(60, 200, 2):
        with open_workspace(str(tmp_path), Config(answer_tokens=budget)) as desk:
            shown = read(desk, range="-40~" if tail else "").data["content"]
            counts.append(str(shown).count("some words"))
    assert counts == sorted(counts)
    assert max(y - x for x, y in pairwise(counts)) <= 1, counts
    assert counts[0] < 30
    assert counts[-1] == 40


def test_bytes_that_are_shown_as_escapes_count_as_they_are_shown(tmp_path: Path) -> None:
    """There are fewer bytes than an answer may have characters, but each is shown as four."""
    (tmp_path / "f.txt").write_bytes((b"\xff" * 99 + b"\n") * 900)
    with open_workspace(str(tmp_path), Config(answer_tokens=0)) as desk:
        answer = read(desk)
    assert answer.data["truncated_by_char_limit"] is True
    assert str(answer.data["content"]).count("\\xff") < 25_000


@pytest.mark.parametrize("large", [False, True])
def test_a_range_from_the_end_is_cut_at_its_start(
    desk: OpenWorkspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    (tmp_path / "f.txt").write_text("".join(f"line {i}\n" for i in range(1, 9_001)))
    if large:
        monkeypatch.setattr(sizes, "LARGE", 0)
    answer = read(desk, range="-600~", max_lines=50)
    assert str(answer.data["content"]).endswith("line 9000\n")
    assert str(answer.data["content"]).count("\n") == 50
    assert answer.data["truncated_by_max_lines"] is True
    if not large:
        assert '"range": "8401~8950"' in answer.next_steps[0]
    longer = read(desk, range="-8000~")
    assert str(longer.data["content"]).endswith("line 9000\n")
    assert longer.data["truncated_by_char_limit"] is True


def test_a_range_that_passes_the_end_is_clipped_and_says_so(
    desk: OpenWorkspace, tmp_path: Path
) -> None:
    (tmp_path / "f.txt").write_text("one\ntwo\nthree\n")
    answer = read(desk, range="2-99")
    head = "f.txt:2-3 of 3 lines, 14 bytes · the range ends there · version "
    assert answer.text.startswith(head)
    assert answer.data["range_clipped"] is True
    assert "2\ttwo\n3\tthree\n" in answer.text
    assert "range_clipped" not in read(desk, range="2~3").data
    assert read(desk, range="4~9").data["error"] == "RANGE_OUT_OF_BOUNDS"


def test_a_huge_line_stays_within_the_budget(desk: OpenWorkspace, tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_text("word " * 2_000_000)
    answer = read(desk)
    assert tokens(answer.text) <= 13_200
    assert tokens(str(answer.data["content"])) <= 13_200
    assert answer.data["truncated_by_char_limit"] is True


@pytest.mark.parametrize("large", [False, True])
def test_the_budget_counts_long_line_numbers(
    desk: OpenWorkspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    text = "".join(f"value number {i} with some text\n" for i in range(1, 120_001))
    (tmp_path / "f.txt").write_text(text)
    if large:
        monkeypatch.setattr(sizes, "LARGE", 0)
    answer = read(desk, range="110000~")
    assert answer.next_steps
    assert tokens(answer.text) <= 1.1 * 12_000


@each_row(
    "row", [lambda at: at % 10, lambda at: at * 7919 % 10**6, lambda at: f"{at % 90},{at % 70},1"]
)
def test_the_budget_counts_short_numbers(
    desk: OpenWorkspace, tmp_path: Path, row: Callable[[int], object]
) -> None:
    (tmp_path / "f.txt").write_text("".join(f"{row(at)}\n" for at in range(20_000)))
    assert 0.9 * 12_000 <= tokens(read(desk).text) <= 1.1 * 12_000
