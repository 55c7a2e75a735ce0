"""The tools of notes on both stores; a number such as 4.5.3 is that of an old mistake."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from copydesk.app.config import MemberConfig
from copydesk.app.mcp.messages import tool_result
from copydesk.notes.folder import blocks
from copydesk.notes.folder import store as folder_module
from copydesk.notes.protocol import Update
from copydesk.notes.tools import notes_of
from copydesk.store import protocol
from copydesk.store.threads import Soon
from support.cost import spread
from support.note_workspaces import NOWHERE, STORES, TEN, Stage, edit, stage_at
from support.rows import each_row

NOTE = "# H\n\na\n\n- x\n- y\n\n> q\n>\n> r\n\n## G\n\nz"


@pytest.fixture(params=STORES)
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    with stage_at(tmp_path, request.param) as opened:
        yield opened


def new(stage: Stage, title: str, anchor: str, location: str = "children", text: str = "") -> Any:
    """A document that a tool makes."""
    place = {"anchorDocumentId": anchor, "location": location}
    return stage.done("createNewDoc", title=title, markdown=text, **place)


def test_the_sheet_of_one_block_is_the_block_itself(stage: Stage) -> None:
    document = stage.document(NOTE, "My note")
    found = stage.done("getBlockInfo", ids=document)
    assert (found["id"], found["type"], found["block"]["hpath"]) == (document, "d", "/My note")
    assert found["childBlockCount"] == 6
    assert found["markdownPreview"] == "# H\n\na\n\n- "
    (top,) = found["toc"]
    assert (top["content"], top["children"][0]["content"]) == ("H", "G")
    text = stage.call("getBlockInfo", ids=document, lang="zh").text
    for line in (
        f"=== Block [{document}] attributes ===",
        f"  块ID: {document}",
        f"  笔记本ID(box): {stage.box}",
        f"  文档ID(root_id): {document}",
        "  块类型(type): d",
        "content: My note",
        "容器内部子块数量: 6",
        "文档标题大纲:",
        f"- H[{top['blockId']}]",
        "当前块在文档中的面包屑层级关系:",
        f"- [{document}][d] My note",
    ):
        assert line in text.split("\n"), line


def test_several_sheets_tell_what_is_not_there(stage: Stage) -> None:
    document = stage.document("a\n\nb")
    first, second = stage.ids(document)
    found = stage.done("getBlockInfo", ids=f"{second}, {NOWHERE},{first}")
    assert [one["id"] for one in found["blocks"]] == [second, first]
    assert found["notFoundIds"] == [NOWHERE]
    text = stage.call("getBlockInfo", ids=f"{first},{second},{NOWHERE}", lang="zh").text
    assert text.startswith("---块信息 (共 2 个)---\n")
    assert text.endswith(f"[未找到] {NOWHERE}")


def test_no_sheet_of_nothing(stage: Stage) -> None:
    for ids, code, status in (
        (NOWHERE, "BLOCK_NOT_FOUND", "not_found"),
        (" , ", "INVALID_ARGS", "error"),
        ("x' OR 1=1 --", "INVALID_BLOCK_ID", "error"),
    ):
        found = stage.refused("getBlockInfo", ids=ids)
        assert (found["error"], found["status"]) == (code, status)


def test_an_outline_is_complete_and_in_order_4_1(stage: Stage) -> None:
    names = [f"Chapter {i}" for i in range(70)]
    document = stage.document("\n\n".join(f"## {name}" for name in names))
    last = stage.ids(document)[-1]
    stage.done("applyBlockDiff", diff=f"@@AFTER:{last}@@\n## Chapter 70\n")
    found = stage.done("getBlockInfo", ids=document)["toc"]
    assert [one["content"] for one in found] == [*names, "Chapter 70"]


SHOWN: dict[str, tuple[str, dict[str, bool], list[str] | str]] = {
    "a leaf": ("1", {}, "a"),
    "a leaf with its id": ("1", {"showId": True}, ["1 Paragraph a"]),
    "a leaf in parts, which was nothing 4.2": ("1", {"showSubStructure": True}, ["1 Paragraph a"]),
    "a list": ("2", {}, "- x\n- y"),
    "a list in parts": ("2", {"showSubStructure": True},
        ["2.0 List item - x", "2.1 List item - y"]),
    "parts without ids": ("3", {"showSubStructure": True, "showId": False}, "q\n\nr"),
    "a quote in parts": ("3", {"showSubStructure": True}, ["3.0 Paragraph q", "3.1 Paragraph r"]),
    "a heading first, then its section": ("4", {}, "## G\n\nz"),
    "a heading with ids": ("4", {"showId": True}, ["4 Heading ## G", "5 Paragraph z"]),
    "a document": ("doc", {}, NOTE),
}  # fmt: skip


def places(stage: Stage, document: str) -> dict[str, str]:
    found = {"doc": document}
    for at, block_id in enumerate(stage.ids(document)):
        found[str(at)] = block_id
        if at in (2, 3):
            found |= {f"{at}.{i}": one for i, one in enumerate(stage.ids(block_id))}
    return found


def test_content_by_kind_and_mode(stage: Stage) -> None:
    known = places(stage, stage.document(NOTE))
    names = {block_id: place for place, block_id in known.items()}
    for name, (place, flags, expected) in SHOWN.items():
        answer = stage.call("getBlockContent", blockId=known[place], **flags)
        assert answer.data["content"] == answer.text, name
        if isinstance(expected, str):
            assert answer.text == expected, name
            continue
        blocks = [part.split("@@", 2)[1:] for part in answer.text.split("\n\n")]
        assert [f"{names[one]} {rest.replace(chr(10), ' ')}" for one, rest in blocks] == expected


SLICES = {
    "{2}:{5}": "2345", "{5}:-3": "345", "0:5": "01234", "-2:": "89", "BEGIN:{2}": "012", "{3}": "3",
    "{8}:+10": "89", "{1}:-10": "01", ":": "0123456789", "{2} :+2": "23", "END:3": "789",
}  # fmt: skip


def test_slices(stage: Stage) -> None:
    ids = stage.ids(document := stage.document(TEN))
    for text, wanted in SLICES.items():
        chosen = text.format(*ids)
        found = stage.done("getBlockContent", blockId=document, slice=chosen, showId=False)
        first, _, body = found["content"].partition("\n\n")
        shown = f'> [Slice View] Filter: "{chosen}" | Count: {len(wanted)} | Total: 10'
        assert first.startswith(shown)
        assert f"Position: {wanted[0]}-{wanted[-1]}" in first
        assert body == "\n\n".join(f"@@{ids[int(i)]}@@Paragraph\np{i}" for i in wanted)
        counted = (found["count"], found["total"], found["start"])
        assert counted == (len(wanted), 10, int(wanted[0])), text


def test_paging_by_what_comes_next_reads_each_block_once_4_2(stage: Stage) -> None:
    document = stage.document(TEN)
    seen, at = list[str](), stage.ids(document)[0]
    while at:
        found = stage.done("getBlockContent", blockId=document, slice=f"{at}:+3")
        seen += [part for part in found["content"].split("\n") if part.startswith("p")]
        at = found.get("next", "")
    assert seen == [f"p{i}" for i in range(10)]


def test_what_is_no_slice_is_refused_4_2(stage: Stage) -> None:
    ids = stage.ids(document := stage.document(TEN))
    for text in ("5:+3", "begin:3", "{5}:{2}", NOWHERE, "x", "{2}:+0"):
        found = stage.refused("getBlockContent", blockId=document, slice=text.format(*ids))
        assert found["error"] == "INVALID_SLICE", text


def test_a_slice_beyond_the_end_says_so(stage: Stage) -> None:
    document = stage.document(TEN)
    found = stage.done("getBlockContent", blockId=document, slice="20:30")
    said = "(Slice result is empty. Original children count: 10. Check your slice range.)"
    assert found["content"] == said
    one = stage.ids(document)[0]
    assert stage.done("getBlockContent", blockId=one, slice="0:1")["count"] == 1


def test_no_content_of_what_is_not_there(stage: Stage) -> None:
    assert stage.refused("getBlockContent", blockId=NOWHERE)["status"] == "not_found"
    injected = "x' UNION SELECT 1 --"
    assert stage.refused("getBlockContent", blockId=injected)["error"] == "INVALID_BLOCK_ID"


@pytest.mark.slow
def test_a_long_result_is_cut_and_can_be_read_on(stage: Stage) -> None:
    text = "\n\n".join(f"Paragraph {i} of many." for i in range(1_000))
    document = stage.document(text)
    found = stage.done("getBlockContent", blockId=document)
    assert (found["truncated"], len(found["content"])) == (True, 8_000)
    whole, name = found["content"], found["var"]
    while len(whole) < len(text):
        whole += stage.done("readVar", name=name, offset=len(whole))["content"]
    assert whole == text
    assert stage.done("readVar", name=name, offset=10, length=9)["content"] == text[10:19]
    assert stage.refused("readVar", name=name, offset=len(text) + 1)["argument"] == "offset"
    assert stage.refused("readVar", name="another")["argument"] == "name"
    assert stage.call("readVar", member="eve", name=name).is_error


APPENDED: dict[str, tuple[str, str, list[str]]] = {
    "a document": ("doc", "n\n\nm", ["# H", "a", "- x\n- y", "> q\n>\n> r", "## G", "z", "n", "m"]),
    "a leaf": ("1", "n", ["# H", "a", "n", "- x\n- y", "> q\n>\n> r", "## G", "z"]),
    "a list": ("2", "- n\n- m", ["# H", "a", "- x\n- y\n- n\n- m", "> q\n>\n> r", "## G", "z"]),
    "a list, with no item": ("2", "n", ["# H", "a", "- x\n- y\n- n", "> q\n>\n> r", "## G", "z"]),
    "a quote": ("3", "n", ["# H", "a", "- x\n- y", "> q\n>\n> r\n>\n> n", "## G", "z"]),
    "a heading, its section": ("4", "n", ["# H", "a", "- x\n- y", "> q\n>\n> r", "## G", "z", "n"]),
}


@pytest.mark.slow
@each_row("name", APPENDED)
def test_content_is_appended(stage: Stage, name: str) -> None:
    place, markdown, expected = APPENDED[name]
    document = stage.document(NOTE)
    before = stage.state()
    target = places(stage, document)[place]
    kind = "document" if place == "doc" else "block"
    done = stage.done("appendContent", markdown=markdown, targetType=kind, target=target)
    assert (done["success"], done["targetId"], done["targetType"]) == (True, target, kind)
    assert stage.texts(document) == expected
    there = stage.done("getBlockInfo", ids=",".join([document, *done["newBlockIds"]]))
    assert len(there["blocks"]) - 1 == len(done["newBlockIds"]) > 0, "all new ids, 4.3"
    (edit_id,) = done["edit_ids"]
    stage.done("undo_file_modification", edit_id=edit_id)
    assert stage.state() == before


def test_the_note_of_a_day_is_made_and_written(stage: Stage) -> None:
    arguments = {"targetType": "dailynote", "target": stage.box}
    first = stage.done("appendContent", markdown="one", **arguments)
    second = stage.done("appendContent", markdown="two\n\nthree", **arguments)
    assert second["targetId"] == first["targetId"]
    assert stage.texts(first["targetId"])[-3:] == ["one", "two", "three"]
    assert len(second["newBlockIds"]) == 2


def test_what_cannot_be_appended_is_refused_4_3(stage: Stage) -> None:
    known = places(stage, stage.document(NOTE))
    for markdown, kind, target, code in (
        (" \n", "document", "doc", "CONTENT_REQUIRED"),
        ("n", "document", "1", "INVALID_TARGET"),
        ("n", "document", NOWHERE, "BLOCK_NOT_FOUND"),
        ("n", "block", "?", "INVALID_BLOCK_ID"),
        ("n", "dailynote", NOWHERE, "NOTEBOOK_NOT_FOUND"),
        ("n", "nothing", "doc", "INVALID_ARGS"),
    ):
        arguments = {"markdown": markdown, "targetType": kind, "target": known.get(target, target)}
        assert stage.refused("appendContent", **arguments)["error"] == code


@pytest.mark.parametrize(
    ("location", "hpath"),
    [("children", "/Top/Mid/a-b"), ("siblings", "/Top/a-b"), ("parent", "/a-b")],
)
def test_a_document_is_made_where_it_should_be(stage: Stage, location: str, hpath: str) -> None:
    top = stage.document("t", "Top")
    mid = new(stage, "Mid", top, text="m")["docId"]
    assert new(stage, "Mid", top)["docId"] != mid, "equal titles are two documents, 4.4"
    assert stage.done("getBlockInfo", ids=mid)["block"]["parent_id"] == top
    assert f"(parent_id): {top}" in stage.call("getBlockInfo", ids=mid).text
    assert stage.done("getBlockInfo", ids=top)["block"]["parent_id"] == ""
    made = new(stage, " a/b ", mid, location, "x")
    assert (made["success"], made["hpath"], made["location"]) == (True, hpath, location)
    assert stage.texts(made["docId"]) == ["x"]
    text = stage.call("createNewDoc", "zh", title="c", anchorDocumentId=mid, location=location).text
    link = "siyuan://blocks/" if stage.kernel is not None else f"{hpath[1:-3]}c.md) ("
    assert text.startswith(f"已成功创建文档 [{hpath[:-3]}c]({link}")


def test_a_link_to_a_new_document_of_a_folder_leads_to_its_file(tmp_path: Path) -> None:
    with stage_at(tmp_path, "folder") as stage:
        top = stage.document("t", "Top (1) 100%")
        made = new(stage, "a[b] #c ü", top)
        assert unquote(made["link"]) == "Top (1) 100%/a[b] #c ü.md"
        assert (tmp_path / unquote(made["link"])).read_bytes() == b""
        assert not set(' ()[]#"') & set(made["link"])


def test_refusals_in_chinese_say_what_is_wanted_in_chinese(stage: Stage) -> None:
    document = stage.document("a")
    arguments = {"markdown": "x", "targetType": "document", "target": stage.ids(document)[0]}
    text = stage.call("appendContent", "zh", **arguments).text
    assert text.endswith("此处需要文档。请改用此类块的 ID。")
    empty = {"title": "", "anchorDocumentId": document, "location": "children"}
    assert stage.call("createNewDoc", "zh", **empty).text.endswith("的 @@DELETE:id@@。")


def test_a_list_names_the_files_that_are_not_read(tmp_path: Path) -> None:
    for number in range(23):
        (tmp_path / f"n{number:02}.md").write_bytes(b"a\0")
    (tmp_path / "wide.md").write_text("kiwi", "utf-16")
    with stage_at(tmp_path, "folder") as stage:
        stage.document("kiwi", "Good")
        (found,) = stage.done("listNotebooks")["notebooks"]
        assert found["total"] == 1
        assert found["notRead"][-1] == {"path": "wide.md", "reason": "UTF-16"}
        assert {one["reason"] for one in found["notRead"][:-1]} == {"NUL"}
        lines = stage.call("listNotebooks", lang="zh").text.split("\n")
        assert lines[-22:-20] == ["  24 个文件未读取：", "  - n00.md: 含有 NUL 字符"]
        assert lines[-1] == "  另有 4 个"
        assert "indexed" not in stage.done("searchBlocks", query="kiwi")


def test_a_search_names_the_files_that_it_stopped_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow.md").write_text("kiwi\n" * 3_000)
    (tmp_path / "nul.md").write_bytes(b"kiwi\0")
    looks = count()
    monkeypatch.setattr(blocks.time, "thread_time", lambda: 0.3 * next(looks))
    with stage_at(tmp_path, "folder") as stage:
        found = stage.done("searchBlocks", query="kiwi")
        assert (found["count"], found["notRead"]) == (
            0,
            [{"path": "slow.md", "reason": "TOO_SLOW"}],
        )
        assert stage.call("searchBlocks", query="kiwi").text.endswith(
            "\n1 file is not read:\n- slow.md: takes more than a second to parse; split it"
        )
        chinese = stage.call("searchBlocks", lang="zh", query="kiwi").text
        assert chinese.endswith("\n1 个文件未读取：\n- slow.md: 解析耗时超过一秒；请拆分它")


@pytest.mark.slow
def test_a_search_tells_how_much_is_indexed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(100):
        (tmp_path / f"n{number:02}.md").write_text(f"kiwi {number}\n")
    monkeypatch.setattr(folder_module, "_BYTES_AT_ONCE", 1)
    monkeypatch.setattr(Soon, "do", lambda self, work: None)
    monkeypatch.setattr(protocol, "_FINE_CLOCK_NS", -1)  # else one too new is read again
    with stage_at(tmp_path, "folder") as stage:
        found = stage.done("searchBlocks", query="kiwi")
        assert (found["indexed"], found["documents"]) == (32, 100)
        text = stage.call("searchBlocks", query="kiwi").text
        assert text.endswith(
            "So far 64 of 100 documents are indexed: search again in a moment for the others."
        )
        zh = stage.call("searchBlocks", lang="zh", query="kiwi").text
        assert zh.endswith("目前已索引 100 个文档中的 96 个：其余请稍后再次搜索。")
        assert "documents" not in stage.done("searchBlocks", query="kiwi")


def test_a_folder_without_a_document_of_its_own_is_a_place_too(tmp_path: Path) -> None:
    rows = {"siblings": "/Dir/Sub/n", "parent": "/Dir/n", "children": "/Dir/Sub/One/n"}
    with stage_at(tmp_path, "folder") as stage:
        (tmp_path / "Dir" / "Sub").mkdir(parents=True)
        anchor = stage.document("x", "Dir/Sub/One")
        for location, hpath in rows.items():
            assert new(stage, "n", anchor, location)["hpath"] == hpath
            assert (tmp_path / f"{hpath[1:]}.md").exists()


def test_what_cannot_be_made_is_refused(stage: Stage) -> None:
    top = stage.document("t", "Top")
    (leaf,) = stage.ids(top)
    rows: list[tuple[dict[str, Any], str]] = [
        ({"anchorDocumentId": leaf, "location": "siblings"}, "INVALID_TARGET"),
        ({"anchorDocumentId": top, "location": "parent"}, "INVALID_ARGS"),
        ({"anchorDocumentId": NOWHERE, "location": "siblings"}, "BLOCK_NOT_FOUND"),
        ({"anchorDocumentId": top, "location": "elsewhere"}, "INVALID_ARGS"),
        ({"anchorDocumentId": top, "location": "siblings", "title": " "}, "CONTENT_REQUIRED"),
    ]
    for arguments, code in rows:
        assert stage.refused("createNewDoc", **{"title": "x", **arguments})["error"] == code


MADE: dict[str, tuple[str, list[str]]] = {
    "an update": (edit("{1}", "b", "B"), ["a", "B", "c"]),
    "an empty replacement deletes 4.5.1": (edit("{1}", "b", ""), ["a", "c"]),
    "DELETE": ("@@DELETE:{1}@@", ["a", "c"]),
    "REPLACE": ("@@REPLACE:{1}@@\nB", ["a", "B", "c"]),
    "BEFORE": ("@@BEFORE:{1}@@\nn", ["a", "n", "b", "c"]),
    "AFTER": ("@@AFTER:{1}@@\nn", ["a", "b", "n", "c"]),
    "PREPEND": ("@@PREPEND:{doc}@@\nn", ["n", "a", "b", "c"]),
    "APPEND": ("@@APPEND:{doc}@@\nn", ["a", "b", "c", "n"]),
    "an update and inserts beside it 4.5.3": (
        edit("{1}", "b", "B") + "@@AFTER:{1}@@\nn\n@@BEFORE:{1}@@\nm", ["a", "m", "B", "n", "c"],
    ),
    "several AFTER keep their order 4.5.13": (
        "@@AFTER:{1}@@\nn\n@@AFTER:{1}@@\nm\n@@AFTER:{1}@@\no", ["a", "b", "n", "m", "o", "c"],
    ),
    "several blocks of one 4.5.13": (edit("{1}", "b", "B\n\n## n\n\nm"), ["a", "B", "## n", "m", "c"]),
    "commands in the text are text 4.5.4": (
        edit("{1}", "b", "```\n@@DELETE:{2}@@\n```"), ["a", "```\n@@DELETE:{2}@@\n```", "c"],
    ),
    "CRLF in a fence 4.5.8": (
        f"```diff\n{edit('{1}', 'b', 'B')}```".replace("\n", "\r\n"), ["a", "B", "c"],
    ),
    "indentation is kept 4.5.10": (
        edit("{1}", "b", "\n```\n  n\n```\n"), ["a", "```\n  n\n```", "c"],
    ),
    "nothing to do": (edit("{1}", "b", "b"), ["a", "b", "c"]),
}  # fmt: skip


@pytest.mark.parametrize("name", spread(MADE, of=3))
def test_diffs_are_made_and_taken_back(stage: Stage, name: str) -> None:
    diff, expected = MADE[name]
    ids = stage.ids(document := stage.document("a\n\nb\n\nc"))
    before = stage.state()
    known = {"doc": document, **{str(i): one for i, one in enumerate(ids)}}

    def filled(text: str) -> str:
        for key, value in known.items():
            text = text.replace("{" + key + "}", value)
        return text

    dry = stage.call("applyBlockDiff", diff=filled(diff), dryRun=True)
    assert not dry.is_error, dry.text
    assert stage.state() == before, "a dry run writes nothing"
    done = stage.call("applyBlockDiff", diff=filled(diff))
    assert not done.is_error, done.text
    assert done.diff == dry.diff
    assert stage.texts(document) == [filled(text) for text in expected]
    assert all(row["success"] for row in done.data["results"])
    new = [one for row in done.data["results"] for one in row.get("newBlockIds", [])]
    assert set(stage.ids(document)) - set(ids) == set(new)
    assert bool(done.data["edit_ids"]) == (stage.state() != before) == done.data["changed"]
    for edit_id in done.data["edit_ids"]:
        stage.done("undo_file_modification", edit_id=edit_id)
    assert stage.state() == before
    assert stage.ids(document) == ids, "with all its ids"


REFUSED: dict[str, tuple[str, list[tuple[str, int]]]] = {
    "no hunk": ("", [("EMPTY_CONTENT", 1)]),
    "a block twice 4.5.3": (edit("{1}", "b", "B") + "@@DELETE:{1}@@", [("CONFLICTING_HUNKS", 7)]),
    "no header": ("<<<<<<< SEARCH\nb\n=======\nB\n>>>>>>> REPLACE", [("INVALID_SEQUENCE", 1)]),
    "no id": ("@@DELETE:x@@", [("INVALID_BLOCK_ID", 1)]),
    "no block": (edit(NOWHERE, "b", "B"), [("BLOCK_NOT_FOUND", 1)]),
    "a document 4.5.13": ("@@DELETE:{doc}@@", [("INVALID_TARGET", 1)]),
    "into a leaf": ("@@APPEND:{1}@@\nn", [("INVALID_TARGET", 1)]),
    "beside what goes 4.5.13": ("@@DELETE:{1}@@\n@@AFTER:{1}@@\nn", [("ANCHOR_DELETED", 2)]),
    "all at once 4.5.8": (
        "x\n@@DELETE:{1}@@\ny\n" + edit("{2}", "", "n"),
        [("UNEXPECTED_TEXT", 1), ("UNEXPECTED_TEXT", 3), ("EMPTY_CONTENT", 5)],
    ),
    "all blocks at once 4.5.11": (
        edit("{0}", "no", "n") + edit("{1}", "b", "B") + edit(NOWHERE, "c", "C"),
        [("CONTENT_MISMATCH", 1), ("BLOCK_NOT_FOUND", 13)],
    ),
}


def test_what_is_wrong_is_told_all_at_once(stage: Stage) -> None:
    ids = stage.ids(document := stage.document("a\n\nb\n\nc"))
    known = {"doc": document, **{str(i): one for i, one in enumerate(ids)}}
    for diff, expected in REFUSED.values():
        for key, value in known.items():
            diff = diff.replace("{" + key + "}", value)
        for tool, lang in (("applyBlockDiff", "zh"), ("prepareBlockDiff", "en")):
            found = stage.refused(tool, diff=diff, lang=lang)
            assert found["error"] == "BLOCK_DIFF_REFUSED"
            assert [(one["code"], one["line"]) for one in found["problems"]] == expected
            assert all(f"[{code}]" in found["summary"] for code, _ in expected)
    assert stage.opened.history("local") == ()


def test_a_mismatch_tells_what_differs_4_5_14(stage: Stage) -> None:
    long = "\n".join(f"line {i} of a long paragraph" for i in range(200))
    (one,) = stage.ids(stage.document(long))
    wrong = long.replace("line 150 of", "line 150 in")
    (problem,) = stage.refused("applyBlockDiff", diff=edit(one, wrong, "n"))["problems"]
    assert problem["similarity"] == 99
    assert "- line 150 in a long paragraph" in problem["difference"]
    assert len("\n".join(problem["difference"])) < 1_000


def test_white_space_may_differ_when_that_is_said_4_5_10(stage: Stage) -> None:
    (one,) = stage.ids(document := stage.document("some  text\nin lines"))
    diff = edit(one, "some text in\nlines", "n")
    (problem,) = stage.refused("applyBlockDiff", diff=diff)["problems"]
    assert problem["reason"] == "blanks"
    stage.done("applyBlockDiff", diff=diff, strictMatch=False)
    assert stage.texts(document) == ["n"]


def test_two_documents_are_written_together(stage: Stage) -> None:
    one, two = stage.document("a", "One"), stage.document("b", "Two")
    (a,), (b,) = stage.ids(one), stage.ids(two)
    done = stage.done("applyBlockDiff", diff=edit(b, "b", "B") + edit(a, "a", "A"))
    assert (stage.texts(one), stage.texts(two)) == (["A"], ["B"])
    assert len(done["paths"]) == 2
    stage.refused("applyBlockDiff", diff=edit(b, "B", "x") + edit(a, "no", "y"))
    stage.done("undo_file_modification", edit_id=done["edit_ids"][0])
    assert (stage.texts(one), stage.texts(two)) == (["a"], ["b"])


# Plans


def test_a_diff_can_be_planned_shown_applied_once_and_taken_back(stage: Stage) -> None:
    ids = stage.ids(document := stage.document("a\n\nb"))
    before = stage.state()
    plan = stage.call("prepareBlockDiff", diff=edit(ids[1], "b", "B"))
    hunk = plan.fields["hunk_id"]
    assert "+B" in plan.diff
    assert stage.state() == before
    (listed,) = stage.done("list_pending")["hunks"]
    assert (listed["hunk_id"], listed["action"]) == (hunk, "block_diff")
    assert listed["lines"] == {"old": 1, "new": 1}
    assert stage.opened.pending_report("local", hunk).diff == plan.diff
    done = stage.done("apply_file_modification", hunk_id=hunk)
    assert (done["context_match"], stage.texts(document)) == ("exact", ["a", "B"])
    assert stage.refused("apply_file_modification", hunk_id=hunk)["error"] == "HUNK_NOT_FOUND"
    (past,) = stage.done("list_edits")["edits"]
    assert (past["tool"], past["hunk_id"]) == ("prepareBlockDiff", hunk)
    back = stage.done("undo_file_modification", edit_id=done["edit_id"])
    assert stage.state() == before
    stage.done("undo_file_modification", edit_id=back["edit_id"])
    assert stage.texts(document) == ["a", "B"]


@pytest.mark.slow
def test_a_plan_drifts_with_the_notes_or_is_refused(stage: Stage) -> None:
    first, second, third = stage.ids(document := stage.document("a\n\nb\n\nc"))
    sure = stage.call("prepareBlockDiff", diff=f"@@AFTER:{second}@@\nn").fields["hunk_id"]
    blind = stage.call("prepareBlockDiff", diff=f"@@REPLACE:{third}@@\nC").fields["hunk_id"]
    seen = stage.call("prepareBlockDiff", diff=edit(third, "c", "C")).fields["hunk_id"]
    assert stage.states() == {sure: "exact", blind: "exact", seen: "exact"}
    stage.done("applyBlockDiff", diff=edit(first, "a", "A") + edit(third, "c", "other"))
    assert stage.states() == {sure: "drifted", blind: "conflict", seen: "conflict"}
    for hunk in (blind, seen):
        found = stage.refused("apply_file_modification", hunk_id=hunk)
        assert found["context_match"] == "rejected"
    done = stage.done("apply_file_modification", hunk_id=sure)
    assert done["context_match"] == "fuzz"
    assert stage.texts(document) == ["A", "b", "n", "other"]
    stage.done("discard_hunk", hunk_id=blind)
    assert [one["hunk_id"] for one in stage.done("list_pending")["hunks"]] == [seen]


def test_a_plan_can_be_made_anew(stage: Stage) -> None:
    (one,) = stage.ids(document := stage.document("a"))
    first = stage.call("prepareBlockDiff", diff=edit(one, "a", "A")).fields["hunk_id"]
    again = stage.call("prepareBlockDiff", diff=edit(one, "a", "B"), existing_hunk_id=first)
    assert again.fields["hunk_id"] == first
    together = stage.refused("apply_file_modifications", hunk_ids=[first])
    assert together["error"] == "INVALID_ARGS"
    stage.done("apply_file_modification", hunk_id=first)
    assert stage.texts(document) == ["B"]


def test_a_section_takes_blocks_at_its_end(stage: Stage) -> None:
    document = stage.document("# A\n\n## B\n\nb\n\n### C\n\nc\n\n## D\n\nd")
    (_, second, *_) = stage.ids(document)
    stage.done("applyBlockDiff", diff=f"@@APPEND:{second}@@\nx\n@@APPEND:{second}@@\ny")
    assert stage.texts(document) == ["# A", "## B", "b", "### C", "c", "x", "y", "## D", "d"]


def test_a_document_and_a_section_take_blocks_in_one_diff(stage: Stage) -> None:
    document = stage.document("## B\n\nb\n\n## C")
    section = stage.ids(document)[0]
    stage.done("applyBlockDiff", diff=f"@@APPEND:{document}@@\nx\n@@APPEND:{section}@@\ny")
    assert stage.texts(document) == ["## B", "b", "y", "## C", "x"]


def test_the_first_hunk_whose_text_is_not_taken_is_told(stage: Stage) -> None:
    ids = stage.ids(stage.document("a\n\nb\n\nc\n\nd\n\ne"))
    for bad in range(5):
        texts = ["n" if at < bad else f'n\n{{: id="{NOWHERE}"}}' for at in range(5)]
        hunks = [f"@@REPLACE:{one}@@\n{text}" for one, text in zip(ids, texts, strict=True)]
        found = stage.refused("applyBlockDiff", diff="\n".join(hunks))
        told = (found["error"], found["argument"])
        assert told == ("INVALID_ARGS", f"diff, hunk of line {2 * bad + 1}")


@pytest.mark.parametrize("store", STORES)
def test_what_a_member_may_not_read_is_not_shown(tmp_path: Path, store: str) -> None:
    denied = MemberConfig({"no_read_dirs": ("siyuan:", "One.md")})
    with stage_at(tmp_path, store, members={"eve": denied}) as stage:
        document = stage.document("secret")
        (one,) = stage.ids(document)
        calls: list[tuple[str, dict[str, Any]]] = [
            ("getBlockContent", {"blockId": document}),
            ("getBlockInfo", {"ids": one}),
            ("applyBlockDiff", {"diff": edit(one, "secret", "x")}),
            ("appendContent", {"markdown": "x", "targetType": "block", "target": one}),
        ]
        for tool, arguments in calls:
            answer = stage.call(tool, member="eve", **arguments)
            assert answer.is_error
            assert "secret" not in answer.text
        assert stage.call("searchBlocks", member="eve", query="secret").data["count"] == 0
        assert stage.texts(document) == ["secret"]


@pytest.mark.parametrize("store", STORES)
def test_what_a_person_has_to_approve_is_not_written_before(tmp_path: Path, store: str) -> None:
    members = {"ann": MemberConfig(approval="human")}
    with stage_at(tmp_path, store, members=members) as stage:
        document = stage.document("a")
        (one,) = stage.ids(document)
        before = stage.state()
        diff = edit(one, "a", "A")
        found = stage.call("applyBlockDiff", member="ann", diff=diff)
        assert found.data["error"] == "APPROVAL_REQUIRED"
        append = {"markdown": "x", "targetType": "document", "target": document}
        assert stage.call("appendContent", member="ann", **append).is_error
        plan = stage.call("prepareBlockDiff", member="ann", diff=diff).fields["hunk_id"]
        stage.call("apply_file_modification", member="ann", hunk_id=plan)
        assert stage.state() == before
        review, person = stage.opened.desk.review, stage.opened.member("local")
        shown = review.show(person, plan)
        review.approve(person, plan, shown.before, shown.after)
        (news,) = stage.call("listNotebooks", member="ann").data["decisions"]
        assert (news["hunk_id"], news["verdict"]) == (plan, "approved")
        done = stage.call("apply_file_modification", member="ann", hunk_id=plan)
        assert done.data["context_match"] == "exact", done.text
        assert stage.texts(document) == ["A"]


def test_a_write_of_another_in_between_is_not_lost(stage: Stage) -> None:
    """What is read is what is replaced: a block that moves on while a diff is planned is seen."""
    first, second = stage.ids(document := stage.document("a\n\nb"))
    home = notes_of(stage.opened.desk).reading.home(stage.opened.member("local"))
    prepare, turns = home.store.prepare, iter([True])

    def meddling(changes: Any, **more: Any) -> Any:
        found = prepare(changes, **more)
        if next(turns, False):
            if stage.kernel is None:
                path = stage.root / "One.md"
                path.write_text(path.read_text().replace("b", "changed"))
            else:
                home.store.execute(prepare([Update(second, "changed")]))
        return found

    home.store.prepare = meddling  # type: ignore[method-assign]
    answer = stage.call("applyBlockDiff", diff=edit(second, "b", "B"))
    assert answer.is_error
    assert stage.texts(document) == ["a", "changed"]
    assert stage.ids(document)[0] == first


@pytest.mark.slow
def test_a_list_and_a_search_tell_what_is_left_and_take_a_name_and_a_folder(stage: Stage) -> None:
    top = stage.document("kiwi", "Work")
    for number in range(25):
        new(stage, f"Plan {number:02}", top, text=f"kiwi {number}")
    stage.document("kiwi", "Plan of all")
    (box,) = stage.done("listNotebooks")["notebooks"]
    assert (len(box["documents"]), box["more"]) == (20, 7)
    assert "… and 7 more:" in stage.call("listNotebooks").text
    assert "……另有 7 个：" in stage.call("listNotebooks", "zh").text
    (box,) = stage.done("listNotebooks", name="plan 0", documents=50)["notebooks"]
    assert [one["hpath"] for one in box["documents"]] == [f"/Work/Plan 0{i}" for i in range(10)]
    assert "more" not in box
    (box,) = stage.done("listNotebooks", name="plan", folder="work", documents=3)["notebooks"]
    assert (len(box["documents"]), box["more"]) == (3, 22)
    found = stage.done("searchBlocks", query="kiwi", limit=3)
    assert (found["count"], found["more"]) == (3, 24)
    assert "… and 24 more:" in stage.call("searchBlocks", query="kiwi", limit=3).text
    found = stage.done("searchBlocks", query="kiwi", name="of all")
    assert [one["hpath"] for one in found["blocks"]] == ["/Plan of all"]
    assert stage.done("searchBlocks", query="kiwi", folder="Work", limit=50)["count"] == 25
    assert stage.done("searchBlocks", query="kiwi", folder="wor")["count"] == 0


def test_a_task_is_found_shown_and_edited_as_its_item(stage: Stage) -> None:
    document = stage.document("- [ ] order lamps\n  - [ ] call Ann\n- [ ] rest")
    (found,) = stage.done("searchBlocks", query="order lamps")["blocks"]
    assert (found["type"], found["content"]) == ("i", "- [ ] order lamps")
    text = stage.call("searchBlocks", query="lamps").text
    assert text.endswith(f"- [{found['id']}][i] {found['hpath']}: - [ ] order lamps")
    (inner_id, words), _ = stage.parts(found["id"])
    assert (inner_id != found["id"], words) == (True, "order lamps")
    assert stage.parts(inner_id) == [(found["id"], "- [ ] order lamps")]
    inner = stage.done("getBlockInfo", ids=found["id"])["childBlockCount"]
    assert inner == 2
    stage.done("applyBlockDiff", diff=edit(found["id"], "- [ ] order lamps", "- [x] order lamps"))
    (below,) = stage.done("searchBlocks", query="Ann")["blocks"]
    stage.done("applyBlockDiff", diff=edit(below["id"], "- [ ] call Ann", "- [x] call Ann"))
    (text,) = stage.texts(document)
    assert [line.strip().lower() for line in text.split("\n") if line] == [
        "- [x] order lamps",
        "- [x] call ann",
        "- [ ] rest",
    ]
    assert stage.done("searchBlocks", query="Ann")["blocks"][0]["id"] == below["id"]


def test_blocks_are_moved_with_their_ids_also_between_documents(stage: Stage) -> None:
    one = stage.document("# A\n\na\n\n- x\n  - y\n\n# B\n\nb")
    two = stage.document("c\n\nd", "Two")
    before = stage.state()
    ids, (c, d) = stage.ids(one), stage.ids(two)
    a, _, listed, b, _ = ids
    items = stage.ids(listed)
    done = stage.done(
        "applyBlockDiff", diff=f"@@MOVE:{a}@@\n@@AFTER:{b}@@\n@@MOVE:{ids[4]}@@\n@@AFTER:{c}@@"
    )
    assert stage.ids(one) == [b, *ids[:3]]
    assert stage.ids(two) == [c, ids[4], d]
    assert stage.ids(listed) == items
    assert [row["edit"]["type"] for row in done["results"]] == ["MOVE", "MOVE"]
    edit_ids = done["edit_ids"]
    stage.done("undo_file_modification", edit_id=edit_ids[0], transaction=len(edit_ids) > 1)
    assert stage.state() == before
    assert (stage.ids(one), stage.ids(two)) == (ids, [c, d])
    nested = stage.refused("applyBlockDiff", diff=f"@@MOVE:{listed}@@\n@@AFTER:{items[0]}@@")
    assert nested["problems"][0]["code"] == "INVALID_TARGET"


@pytest.mark.parametrize("side", [0, -1])
def test_one_side_of_a_move_is_undone_with_the_other(stage: Stage, side: int) -> None:
    one, two = stage.document("a\n\nb"), stage.document("c", "Two")
    before = stage.state()
    (a, _), (c,) = stage.ids(one), stage.ids(two)
    done = stage.done("applyBlockDiff", diff=f"@@MOVE:{a}@@\n@@AFTER:{c}@@")
    after = stage.state()
    stage.done("undo_file_modification", edit_id=done["edit_ids"][side])
    assert stage.state() == before
    newest = stage.done("list_edits")["edits"][: len(done["edit_ids"])]
    stage.done("undo_file_modification", edit_id=newest[side]["edit_id"])
    assert stage.state() == after


@pytest.mark.parametrize("is_read_first", ["source", "target"])
def test_a_block_that_moved_is_not_had_twice_after_a_checkout(
    tmp_path: Path, is_read_first: str
) -> None:
    """The source's old text comes back by git: its copy of the block is a new one."""
    with stage_at(tmp_path, "folder") as stage:
        one, two = stage.document("a\n\nb"), stage.document("c", "Two")
        (source,) = tmp_path.rglob("One.md")
        old = source.read_bytes()
        (a, b), (c,) = stage.ids(one), stage.ids(two)
        stage.done("applyBlockDiff", diff=f"@@MOVE:{a}@@\n@@AFTER:{c}@@")
        source.write_bytes(old)
        order = [one, two] if is_read_first == "source" else [two, one]
        ids = {document: stage.ids(document) for document in order}
        assert ids[two] == [c, a]
        copy, stays = ids[one]
        assert stays == b
        assert copy not in (a, b, c)
        stage.done("applyBlockDiff", diff=edit(a, "a", "A"))
        assert (stage.texts(one), stage.texts(two)) == (["a", "b"], ["c", "A"])
        stage.done("applyBlockDiff", diff=edit(copy, "a", "copy"))
        assert (stage.texts(one), stage.texts(two)) == (["copy", "b"], ["c", "A"])
        assert stage.ids(one) == [copy, b]


def test_a_diff_of_several_documents_is_one_transaction_with_one_undo(stage: Stage) -> None:
    one, two = stage.document("a"), stage.document("b", "Two")
    before = stage.state()
    (a,), (b,) = stage.ids(one), stage.ids(two)
    stage.refused("applyBlockDiff", diff=edit(b, "b", "x") + edit(a, "no", "y"))
    answer = stage.call("applyBlockDiff", diff=edit(b, "b", "B") + edit(a, "a", "A"))
    assert (stage.texts(one), stage.texts(two)) == (["A"], ["B"])
    assert len(answer.data["paths"]) == 2
    assert answer.text.count("undo_file_modification(") == 1
    arguments = json.loads(answer.text.partition("undo_file_modification(")[2].partition(")")[0])
    stage.done("undo_file_modification", **arguments)
    assert stage.state() == before


@pytest.mark.parametrize("hunk", ["@@AFTER:{}@@\nb", "@@DELETE:{}@@", "@@REPLACE:{}@@\nb"])
def test_what_was_undone_is_not_undone_twice(stage: Stage, hunk: str) -> None:
    first, _ = stage.ids(stage.document("a\n\nz"))
    before = stage.state()
    (edit_id,) = stage.done("applyBlockDiff", diff=hunk.format(first))["edit_ids"]
    by = stage.done("undo_file_modification", edit_id=edit_id)["edit_id"]
    answer = stage.call("undo_file_modification", edit_id=edit_id)
    assert answer.is_error
    assert answer.data["undone_by"] == by
    assert f"edit {edit_id} was already undone, by edit {by}" in answer.text
    assert stage.state() == before


def test_structured_answers_have_what_their_texts_have(stage: Stage) -> None:
    """Texts of notes are cut by their length, once."""

    def twin(tool: str, **arguments: Any) -> dict[str, Any]:
        found = tool_result(stage.call(tool, **arguments), "en", structured=True).structured_content
        assert found is not None
        return found

    text = "\n\n".join(["茶" * 3_000] * 6)
    document = stage.document(text)
    cut = twin("getBlockContent", blockId=document)
    assert (cut["content"], cut["omitted"]) == (text[:8_000], len(text) - 8_000)
    more = twin("readVar", name=cut["var"], offset=8_000)
    assert (more["content"], more["length"]) == (text[8_000:16_000], 8_000)
    one = stage.ids(document)[0]
    assert twin("getBlockContent", blockId=one)["content"] == "茶" * 3_000
    appended = {"markdown": TEN * 40, "targetType": "document", "target": document}
    assert len(twin("appendContent", **appended)["newBlockIds"]) == 361
    infos = twin("getBlockInfo", ids=",".join(stage.ids(document)))
    assert infos["blocks_left_out"] + len(infos["blocks"]) == 6 + 361
    assert infos["var"]


def test_a_block_moved_to_where_it_is_changes_nothing(stage: Stage) -> None:
    first, second, third = stage.ids(stage.document("a\n\nb\n\nc"))
    for move in (
        f"@@MOVE:{second}@@\n@@AFTER:{first}@@",
        f"@@MOVE:{second}@@\n@@BEFORE:{third}@@",
    ):
        before = stage.state()
        done = stage.done("applyBlockDiff", diff=move)
        assert (done["changed"], done["edit_ids"]) == (False, [])
        assert stage.state() == before
    done = stage.done("applyBlockDiff", diff=f"{move}\n@@AFTER:{first}@@\nx")
    assert done["changed"]


def test_a_new_document_is_undone_while_it_is_unchanged(stage: Stage) -> None:
    top = stage.document("t", "Top")
    before = stage.state()
    made = new(stage, "New", top, text="a\n\nb")
    assert made["docId"] in stage.call("getBlockInfo", ids=made["docId"]).text
    stage.done("undo_file_modification", edit_id=made["edit_ids"][0])
    assert stage.state() == before
    place = {"anchorDocumentId": top, "location": "children"}
    text = stage.call("createNewDoc", title="Newer", **place).text
    assert text.startswith("Created the document [/Top/Newer](")
    (found,) = stage.done("listNotebooks", name="Newer")["notebooks"][0]["documents"]
    assert text.endswith(f", id {found['id']}")
    changed = new(stage, "Other", top, text="a\n\nb")
    stage.done("applyBlockDiff", diff=f"@@DELETE:{stage.ids(changed['docId'])[0]}@@")
    assert stage.call("undo_file_modification", edit_id=changed["edit_ids"][0]).is_error


ENTRIES = {
    "a daily note": ("- one", "- two", ["- one\n- two"]),
    "another list": ("1. one", "- two", ["1. one", "- two"]),
    "text after the items": ("- one", "- two\n\nmore", ["- one\n- two", "more"]),
    "text before": ("- one", "more\n\n- two", ["- one", "more", "- two"]),
}


@pytest.mark.parametrize(
    ("way", "name"),
    [
        (way, name)
        for way in ("dailynote", "document", "diff")
        for name, (_, text, _) in ENTRIES.items()
        if way != "diff" or "more" not in text  # a hunk of several blocks is not parted
    ],
)
def test_items_join_the_list_at_the_end(stage: Stage, way: str, name: str) -> None:
    first, second, expected = ENTRIES[name]
    if way == "dailynote":
        arguments = {"targetType": "dailynote", "target": stage.box}
        document = stage.done("appendContent", markdown=first, **arguments)["targetId"]
        done = stage.done("appendContent", markdown=second, **arguments)
        assert len(done["newBlockIds"]) == 1 + ("more" in second)
    elif way == "document":
        document = stage.document(first)
        arguments = {"targetType": "document", "target": document}
        stage.done("appendContent", markdown=second, **arguments)
    else:
        document = stage.document(first)
        stage.done("applyBlockDiff", diff=f"@@APPEND:{document}@@\n{second}")
    assert [text for text in stage.texts(document) if text] == expected


def test_links_to_a_renamed_heading_are_told_and_changed(tmp_path: Path) -> None:
    members = {"ann": MemberConfig({"write_dirs": ("One.md",)})}
    with stage_at(tmp_path, "folder", members=members) as stage:
        one = stage.document("# Old name\n\nx")
        two = stage.document("see [[One#Old name]]", "Two")
        heading, _ = stage.ids(one)
        diff = edit(heading, "# Old name", "# New name")
        plan = stage.call("prepareBlockDiff", diff=diff)
        for text in (plan.text, stage.call("applyBlockDiff", diff=diff, dryRun=True).text):
            assert "would lead nowhere" in text
            assert "Two.md" in text
            assert "updateLinks: true" in text
        before = stage.state()
        for more in ({"dryRun": True}, {}):
            denied = stage.call("applyBlockDiff", member="ann", diff=diff, updateLinks=True, **more)
            assert denied.data["error"] == "ACCESS_DENIED"
        denied = stage.call("prepareBlockDiff", member="ann", diff=diff, updateLinks=True)
        assert denied.data["error"] == "ACCESS_DENIED"
        done = stage.done("applyBlockDiff", diff=diff, updateLinks=True)
        assert done["paths"] == ["One.md", "Two.md"]
        assert stage.texts(two) == ["see [[One#New name]]"]
        stage.done("undo_file_modification", edit_id=done["edit_ids"][0], transaction=True)
        assert stage.state() == before
