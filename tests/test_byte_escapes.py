r"""Bytes shown as `\xNN`: what was shown, written back, is the bytes that it was shown for."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from copydesk.app.workspace import OpenWorkspace
from copydesk.text.encoding import UNKNOWN, Encoding, detect, split_raw
from copydesk.text.snapshot import Snapshot
from support.desks import Setup
from support.mcp_calls import settings

GB = "标题 title\n第二行 second\nthird\n".encode("gb18030")
SJIS = "見出し title\n表 second\nthird\n".encode("shift_jis")  # 表 ends in the byte of a backslash
LATIN = "Überschrift title\r\nzweite Zeile é second\r\nthird".encode("latin-1")
MIXED = b"title \xd6\xd0 \\xd6 \\\\xd6 \\\xd6\n\\xd6 second\nthird \\x41\n"
BROKEN = "﻿title 中\n".encode() + b"second \xff \\xff\nthird\n"
WIDE = b"\xff\xfe" + "title 中\nsecond \\xd8 ".encode("utf-16-le") + b"\x00\xd8\n\0" + b"3\0\n\0"
TEXTS = {"gb": GB, "sjis": SJIS, "latin": LATIN, "mixed": MIXED, "broken": BROKEN, "wide": WIDE}
EDITOR = "str_replace_based_edit_tool"


DESK = Setup(settings())


def done(desk: OpenWorkspace, tool: str, **given: Any) -> Any:
    answer = desk.call("agent", tool, given)
    assert not answer.is_error, answer.text
    return answer


def code(desk: OpenWorkspace, tool: str, **given: Any) -> str:
    answer = desk.call("agent", tool, given)
    assert answer.is_error, answer.text
    error = answer.data["error"]
    return str(error["code"] if isinstance(error, dict) else error)


def applied(desk: OpenWorkspace, tool: str, **given: Any) -> Any:
    plan = done(desk, tool, **given)
    done(desk, "apply_file_modification", hunk_id=plan.fields["hunk_id"])
    return plan


def lines_of(path: Path) -> list[str]:
    text = Snapshot.of(path.read_bytes())
    return list(text.texts(0, text.line_count))


@hypothesis.given(st.binary())
@pytest.mark.parametrize("name", [UNKNOWN, "gb18030", "shift_jis", "utf-16-le", "utf-8"])
def test_what_was_shown_comes_back_as_its_bytes(name: str, data: bytes) -> None:
    unit = 2 if name == "utf-16-le" else 1
    encoding = Encoding(name, b"", unit, damaged=True)
    shown = encoding.decode(data)
    assert shown.encode().decode() == shown, "no lone surrogate is seen"
    assert encoding.text(data) == encoding.meant(shown, data)[0]
    if name not in ("gb18030", "shift_jis"):  # which have two ways to write some characters
        assert encoding.bytes_of(encoding.meant(shown, data)[0]) == data


@hypothesis.given(st.text("\\x41d6éÿ"), st.text("\\x41d6éÿ"))
def test_texts_of_different_bytes_look_different(one: str, other: str) -> None:
    encoding = Encoding(UNKNOWN)
    raw = [text.encode("latin-1") for text in (one, other)]
    assert (encoding.decode(raw[0]) == encoding.decode(raw[1])) == (raw[0] == raw[1])


@pytest.mark.parametrize("name", TEXTS)
def test_each_way_of_writing_back_keeps_the_bytes(
    desk: OpenWorkspace, tmp_path: Path, name: str
) -> None:
    """A word changes, the rest is written as it was shown; undo gives the old bytes."""
    raw, target = TEXTS[name], tmp_path / "a.txt"
    encoding = detect(raw)
    old, new = (
        word.encode(encoding.name if encoding.known else "ascii") for word in ("title", "T")
    )
    wanted = raw.replace(old, new, 1)
    target.write_bytes(raw)
    shown = lines_of(target)
    first, changed = shown[0], shown[0].replace("title", "T")
    several = "\n".join([changed, *shown[1:2]])
    ways: list[tuple[str, dict[str, Any]]] = [
        ("prepare_file_range_edit", {"range": "1", "content": changed, "expected_old": first}),
        ("prepare_file_range_edit", {"range": "1~2", "content": several}),
        ("Edit", {"old_string": first, "new_string": changed}),
        ("Edit", {"old_string": first, "new_string": changed, "replace_all": True}),
        ("BatchEdit", {"edits": [{"old_string": "\n".join(shown[:2]), "new_string": several}]}),
        ("prepare_batch_edit", {"edits": [{"old_string": first, "new_string": changed}]}),
        ("edit_file", {"edits": [{"oldText": first, "newText": changed}]}),
        (EDITOR, {"command": "str_replace", "old_str": first, "new_str": changed}),
        (
            "prepare_file_block_replace",
            {"start_anchor": first, "end_anchor": shown[1], "match": "equals", "content": several}
            | {"include_anchors": False},
        ),
    ]  # fmt: skip
    for tool, given in ways:
        target.write_bytes(raw)
        call = applied if tool.startswith("prepare") else done
        call(desk, tool, path="a.txt", **given)
        found = target.read_bytes()
        assert found in (wanted, wanted + b"\r\n" * (name == "latin")), (tool, given, found)
        edit = desk.call("agent", "list_edits", {}).fields["edits"]
        done(desk, "undo_file_modification", edit_id=edit[0]["edit_id"])  # type: ignore[call-overload, index]  # rows
        assert target.read_bytes() == raw, tool


def test_what_stands_for_a_byte_and_what_is_text(desk: OpenWorkspace, tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    for content, after in (
        (r"a \xd6", b"a \xd6\n"),
        (r"a \xD6", b"a \xd6\n"),
        (r"a \\xd6", b"a \\xd6\n"),
        (r"a \xd7", b"a \\xd7\n"),
        (r"a \\xd7", b"a \\\\xd7\n"),
        (r"a \x41 \\x41", b"a \\x41 \\\\x41\n"),
    ):
        target.write_bytes(b"a \xd6\nb \xd7\n")
        plan = applied(desk, "prepare_file_range_edit", path="a.txt", range="1", content=content)
        assert target.read_bytes() == after + b"b \xd7\n", content
        told = " ".join(plan.data.get("warnings", []))
        assert ("means the bytes" in told, "as plain text" in told) == (content[-4:].lower() == r"\xd6" and content[-5] != "\\", "xd7" in content and "\\\\" not in content), (content, told)  # fmt: skip
    before = target.read_bytes()
    assert code(desk, "prepare_file_append", path="a.txt", content="é") == "ENCODING_ERROR"
    assert target.read_bytes() == before


def test_a_picture_is_a_byte_only_where_no_text_is(desk: OpenWorkspace, tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    raw = b"one \xd6\ntwo \\xd6\nthree \xd7\nfour \\xd7\\xd7\n"
    for anchor, line in ((r"\xd6", 2), (r"\\xd6", 2), (r"e \xd6", 1), (r"three \xd7", 3)):
        target.write_bytes(raw)
        given = {"path": "a.txt", "anchor": anchor, "content": "new"}
        plan = done(desk, "prepare_file_insert_after", **given)
        assert plan.fields["inserted_at_line"] == line + 1, anchor
    assert code(desk, "prepare_file_insert_after", path="a.txt", anchor=r"\xd8", content="x") == (
        "ANCHOR_NOT_FOUND"
    )
    for old, new, after in (
        (r"\xd6", "X", raw.replace(b"\\xd6", b"X")),
        (r"e \xd6", "X", raw.replace(b"e \xd6", b"X")),
        (r"three \xd7", r"3 \xd7\xd7", raw.replace(b"three \xd7", b"3 \xd7\xd7")),
        (r"four \xd7", r"4 \xd7", raw.replace(b"four", b"4")),
    ):
        target.write_bytes(raw)
        done(desk, "Edit", path="a.txt", old_string=old, new_string=new)
        assert target.read_bytes() == after, (old, new)
    target.write_bytes(b"a \xd6\nb \xd6\n")
    assert code(desk, "Edit", path="a.txt", old_string=r"\xd6", new_string="x") == (
        "PARTIAL_MATCH_FAIL"
    )
    done(desk, "Edit", path="a.txt", old_string=r"\xd6", new_string=r"<\xd6>", replace_all=True)
    assert target.read_bytes() == b"a <\xd6>\nb <\xd6>\n"


def test_a_whole_file_is_not_written_from_pictures(desk: OpenWorkspace, tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_bytes(GB)
    content = "\n".join(lines_of(target)) + "\n"
    known = {"known_old_total_lines": 3, "known_old_total_bytes": len(GB)}
    expected = {"overwrite": True, "expected_size_bytes": len(GB)}
    for tool, given in (
        ("overwrite_entire_file", known),
        ("Write", expected),
        ("write_file", {}),
    ):
        assert code(desk, tool, path="a.txt", content=content, **given) == "ENCODING_ERROR", tool
        assert target.read_bytes() == GB
        done(desk, tool, path="a.txt", content="\\\\xb1 \\x41\n", **given)  # it says the text
        assert target.read_bytes() == b"\\xb1 \\x41\n"
        target.write_bytes(GB)


def test_before_and_after_differ_in_every_diff(desk: OpenWorkspace, tmp_path: Path) -> None:
    """And the diff of the journal takes the old bytes to the new ones, by another's hand."""
    (tmp_path / "a.txt").write_bytes(b"x \xd6\n")
    plan = applied(desk, "prepare_file_range_edit", path="a.txt", range="1", content=r"x \\xd6")
    assert "-x \\xd6\n+x \\\\xd6\n" in plan.diff
    assert (tmp_path / "a.txt").read_bytes() == b"x \\xd6\n"
    (entry,) = desk.journal.entries()
    (tmp_path / "a.txt").write_bytes(b"x \xd6\n")
    subprocess.run(["patch", "-p1", "-s"], input=entry.diff, cwd=tmp_path, check=True)
    assert (tmp_path / "a.txt").read_bytes() == b"x \\xd6\n"


def test_nothing_changes_for_files_that_decode(desk: OpenWorkspace, tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("é \\xe9 \\\\xe9\n")
    assert lines_of(target) == ["é \\xe9 \\\\xe9"]
    applied(desk, "prepare_file_range_edit", path="a.txt", range="1", content="\\xe9 \\\\xe9 é")
    assert target.read_text() == "\\xe9 \\\\xe9 é\n"
    assert code(desk, "Edit", path="a.txt", old_string="\\\\\\xe9", new_string="x") == (
        "PARTIAL_MATCH_FAIL"
    )


def test_the_parts_are_cut_around_bytes() -> None:
    assert split_raw("a\udcd6\udcd0b") == ["a", "\udcd6\udcd0", "b"]
