"""Obsidian's `^name` in folders of files: an address, and what links to it; texts that come back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from copydesk.app.config import NotesConfig
from copydesk.notes.folder.documents import Folder, NotesIndex
from support.note_workspaces import Stage, edit, stage_at
from support.rows import each_row

FILES = {
    "One.md": "para ^abc\n\nsee [[#^loc]]\n\n- item ^it-1\n- other\n\n> quote\n> more\n\n^quo\n\nin ^loc\n",
    "Two.md": "q ^same\n\ntext ![[one#^abc|x]] ^abc2\n\n[x](sub/../One.md#^quo)\n",
    "sub/Three.md": "dup ^same\n\n[[Other#^abc]] `#^it-1` [[One#^abcd]]\n",
}


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    with stage_at(tmp_path, "folder") as opened:
        yield opened


@each_row("address text", [
    ("^abc", "para ^abc"),
    ("^it-1", "item ^it-1"),
    ("One#^quo", "> quote\n> more"),
    ("^quo", "> quote\n> more"),
    ("Two#^same", "q ^same"),
    ("sub/Three.md#^same", "dup ^same"),
    ("three#^same", "dup ^same"),
])  # fmt: skip
def test_a_name_is_an_address(stage: Stage, address: str, text: str) -> None:
    found = stage.done("getBlockContent", blockId=address)
    assert found["content"].removeprefix("- ") == text
    assert stage.done("getBlockInfo", ids=address)["id"] == found["blockId"]


def test_addresses_that_lead_nowhere_or_to_several(stage: Stage) -> None:
    found = stage.refused("getBlockContent", blockId="^same")
    assert found["error"] == "INVALID_ARGS"
    assert "Two.md, sub/Three.md; write Two.md#^same" in found["summary"]
    zh = stage.call("getBlockContent", lang="zh", blockId="^same").text
    assert zh.endswith("^same 在多个文档中：Two.md, sub/Three.md；请写作 Two.md#^same。")
    for address, code in (
        ("^none", "BLOCK_NOT_FOUND"),
        ("Two#^abc", "BLOCK_NOT_FOUND"),
        ("abc", "INVALID_BLOCK_ID"),
        ("^a b", "INVALID_BLOCK_ID"),
    ):
        assert stage.refused("getBlockContent", blockId=address)["error"] == code
    infos = stage.done("getBlockInfo", ids="^abc, ^none")
    assert infos["notFoundIds"] == ["^none"]
    diff = "@@AFTER:^none@@\nx\n"
    assert stage.refused("applyBlockDiff", diff=diff)["error"] == "BLOCK_NOT_FOUND"


def test_a_diff_and_appended_text_go_where_a_name_is(stage: Stage) -> None:
    diff = edit("^abc", "para ^abc", "words ^abc") + "\n@@AFTER:One#^quo@@\nafter\n"
    stage.done("applyBlockDiff", diff=diff)
    stage.done("appendContent", targetType="block", target="^it-1", markdown="below")
    assert (stage.root / "One.md").read_text() == (
        "words ^abc\n\nsee [[#^loc]]\n\n- item ^it-1\n\n  below\n- other\n\n"
        "> quote\n> more\n\n^quo\n\nafter\n\nin ^loc\n"
    )


LINKED: dict[str, tuple[str, str, str]] = {
    "a wiki link": (edit("^abc", "para ^abc", "para"), "One.md#^abc", "Two.md"),
    "a Markdown link": ("@@DELETE:^quo@@\n", "One.md#^quo", "Two.md"),
    "a link in the same document": ("@@REPLACE:^loc@@\nout\n", "One.md#^loc", "One.md"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LINKED)
def test_a_name_that_is_linked_to_is_not_lost_unsaid(stage: Stage, name: str) -> None:
    diff, anchor, linking = LINKED[name]
    for arguments in ({}, {"dryRun": True}):
        found = stage.refused("applyBlockDiff", diff=diff, **arguments)
        assert (found["error"], found["anchors"], found["linked_from"]) == (
            "ANCHOR_LINKED", [anchor], [linking],
        )  # fmt: skip
    assert stage.refused("prepareBlockDiff", diff=diff)["error"] == "ANCHOR_LINKED"
    text = stage.call("applyBlockDiff", lang="zh", diff=diff).text
    assert f"{anchor}，而 {linking} 中有链接" in text
    plan = stage.done("prepareBlockDiff", diff=diff, dropAnchors=True)
    stage.done("apply_file_modification", hunk_id=plan["hunk_id"])
    assert anchor.partition("#")[2] not in (stage.root / "One.md").read_text().replace("[[#^", "")


def test_a_name_that_stays_or_that_nothing_links_to(stage: Stage) -> None:
    for diff in (
        "@@REPLACE:^abc@@\nother words\n^abc\n",
        "@@DELETE:^it-1@@\n",
        edit("Two#^same", "q ^same", "q"),
        "@@REPLACE:^abc2@@\nno link\n\n@@DELETE:^abc@@\n",
    ):
        stage.done("applyBlockDiff", diff=diff)
    assert "^abc" not in (stage.root / "One.md").read_text()


def test_names_in_siyuans_profile_are_text(tmp_path: Path) -> None:
    (tmp_path / "One.md").write_text("para ^abc\n")
    settings = {"notes": NotesConfig(profile="siyuan")}
    with stage_at(tmp_path, "folder", **settings) as opened:
        document = opened.done("listNotebooks")["notebooks"][0]["documents"][0]["id"]
        assert opened.texts(document) == ["para ^abc"]


TEXTS = {
    "callouts": "> [!note]- Title\n> body\n\n> [!tip]\n\n> [!info] T\n> - a\n>   - b\n> > [!x]\n> > deep\n",
    "empty quotes": ">\n\nx\n\n> - \n> -\n\n- > q\n  >\n",
    "empty items": "- \n\ny\n\n1.\n\nz\n\n- a\n-\n- b\n  - \n    > \n",
    "footnotes": "a[^1]\n\n[^1]: foot\n\n[^2]:\n    body\n\n    more\n\n[^3]: one\n    two\n\n[^4]:\n",
    "wiki links": "[[a|b]] ![[One#^x]] #tag ==hi==\n\n%%\nsaid\n%%\n\n- [ ] task ^t1\n\t- [x] sub [[a]]\n",
    "front matter alone": "---\ntitle: x\n---",
    "nothing": "",
    "blanks": "  \n\n",
    "CRLF": "> [!a]\r\n>\r\n\r\n[^1]:\r\n\r\n- \r\n",
}


@pytest.mark.parametrize("name", TEXTS)
def test_all_blocks_come_back(tmp_path: Path, name: str) -> None:
    """A block replaced by what was read of it stays, byte for byte; so does all after an undo."""
    file = tmp_path / "Note.md"
    file.write_bytes(TEXTS[name].encode())
    with stage_at(tmp_path, "folder") as opened:
        document = opened.done("listNotebooks")["notebooks"][0]["documents"][0]["id"]
        waiting, seen = [document], 0
        while waiting:
            for block, text in opened.parts(waiting.pop()):
                seen += 1
                kind = opened.done("getBlockInfo", ids=block)["type"]
                waiting += [block] if kind in ("l", "i", "b") else []
                if text:
                    again = f"@@REPLACE:{block}@@\n{'- ' * (kind == 'i' and text[:1] not in '-1')}{text}\n"
                    done = opened.done("applyBlockDiff", diff=again)
                    assert (done["changed"], file.read_bytes()) == (False, TEXTS[name].encode())
                done = opened.done("applyBlockDiff", diff=f"@@DELETE:{block}@@\n")
                for edit_id in done["edit_ids"]:
                    opened.done("undo_file_modification", edit_id=edit_id)
                assert file.read_bytes() == TEXTS[name].encode()
        assert seen
        filled = opened.done("applyBlockDiff", diff=f"@@APPEND:{document}@@\nwords\n")
        assert opened.texts(document)[-1] == "words"
        opened.done("undo_file_modification", edit_id=filled["edit_ids"][0])
        assert file.read_bytes() == TEXTS[name].encode()


def test_many_names_are_one_look_and_links_to_them_one_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = range(20)
    (tmp_path / "One.md").write_text("\n\n".join(f"para {n} ^n{n}" for n in names))
    (tmp_path / "Two.md").write_text("[[One#^N3]] [x](One.md#^n7)\n")
    asked: list[str] = []

    def counted(of: type, name: str) -> None:
        method = getattr(of, name)

        def call(self: object, *arguments: object) -> object:
            asked.append(name)
            return method(self, *arguments)

        monkeypatch.setattr(of, name, call)

    counted(NotesIndex, "search")
    counted(Folder, "scan")
    with stage_at(tmp_path, "folder") as opened:
        diff = "".join(f"@@DELETE:^n{n}@@\n\n" for n in names)
        answer = opened.call("applyBlockDiff", diff=diff)
    assert answer.data["anchors"] == ["One.md#^n3", "One.md#^n7"]
    assert answer.data["linked_from"] == ["Two.md"]
    assert asked.count("search") == 1
    assert asked.count("scan") <= 3
