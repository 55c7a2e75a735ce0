"""Reading of files of any size: the large way gives what the small way gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from copydesk.app.config import Config
from copydesk.app.workspace import OpenWorkspace
from copydesk.text import sizes
from support.cost import spread
from support.desks import Setup

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


@pytest.mark.parametrize(("kind", "range_text"), spread(TEXTS, RANGES, of=3))
def test_large_reads_as_small(
    desk: OpenWorkspace, tmp_path: Path, kind: str, range_text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ways answer the same, but for what the large way leaves out."""
    (tmp_path / "f.txt").write_bytes(TEXTS[kind])
    arguments = {"path": "f.txt", "range": range_text, "show_linenos": False}
    small = desk.call("local", "read_file", arguments)
    with monkeypatch.context() as patched:
        patched.setattr(sizes, "LARGE", 0)
        patched.setattr(sizes, "BLOCK", 1 << 12)
        large = [desk.call("local", "read_file", arguments) for _ in range(2)]
    for answer in large:
        left_out = {k for k in small.fields if k not in answer.fields}
        if not small.is_error and str(arguments.get("range", "")).startswith("-"):
            assert left_out <= {"newline_style", "total_lines", "version", "file_eof_has_newline"}
            assert "total_lines" not in answer.fields
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
    report = desk.call("local", "read_file", {"path": "f.txt", "range": "1"})
    assert (report.fields["error"], report.fields["nul_at_byte"]) == ("BINARY_FILE", 20_000)


def test_reading_on_reaches_every_line(desk: OpenWorkspace, tmp_path: Path) -> None:
    text = TEXTS["lf"]
    (tmp_path / "f.txt").write_bytes(text)
    seen, range_text = "", "1~"
    for _ in range(10):
        report = desk.call(
            "local", "read_file", {"path": "f.txt", "range": range_text, "show_linenos": False}
        )
        seen += str(report.data["content"])
        if not report.fields["truncated_by_max_lines"]:
            break
        shown = report.data["shown_lines"]
        assert isinstance(shown, dict)
        range_text = f"{int(str(shown['end'])) + 1}~"
    assert seen.encode() == text
