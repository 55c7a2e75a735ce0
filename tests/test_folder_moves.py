"""Moves of blocks, renamed headings and the links to them, in a folder of files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from copydesk.errors import InvalidArgs, Refusal
from copydesk.notes.folder.store import FolderStore
from copydesk.notes.protocol import (
    AnchorLinked,
    Change,
    Delete,
    InsertText,
    Move,
    NoteNotice,
    Prepared,
    Side,
    Update,
    WrongBlockKind,
)
from copydesk.store.files import Files
from support.note_stores import folder_store, take_files_back, write_files
from support.rows import each_row


class Notes:
    """A folder with a store, whose blocks are called by their texts."""

    def __init__(self, root: Path, files: Files, store: FolderStore) -> None:
        self.root, self.files, self.store = root, files, store
        (self.box,) = [one.id for one in store.notebooks()]

    def put(self, **texts: str) -> None:
        for name, text in texts.items():
            (self.root / f"{name}.md").write_bytes(text.encode())

    def laid(self, **texts: str) -> dict[str, str]:
        self.put(**texts)
        return self.ids()

    def get(self, name: str) -> str:
        return (self.root / f"{name}.md").read_bytes().decode()

    def texts(self) -> dict[str, str]:
        return {path.stem: self.get(path.stem) for path in sorted(self.root.glob("*.md"))}

    def ids(self) -> dict[str, str]:
        """All blocks, by kind and text; a document is `d:Name`."""
        found: dict[str, str] = {}
        for document in self.store.documents(self.box, 9):
            waiting = [document]
            while waiting:
                block = waiting.pop()
                found[f"{block.kind}:{block.markdown or block.content}"] = block.id
                waiting += self.store.children(block.id) if block.kind in "dlib" else ()
        return found

    def apply(self, *changes: Change, update_links: bool = False) -> Prepared:
        prepared = self.store.prepare(changes, update_links=update_links)
        write_files(self.files, prepared)
        self.done = self.store.execute(prepared)
        return prepared


@pytest.fixture
def notes(tmp_path: Path) -> Iterator[Notes]:
    root = tmp_path / "notes"
    root.mkdir()
    with Files(str(root), durability="fast") as files:
        store = folder_store(files, str(tmp_path))
        yield Notes(root, files, store)
        store.close()


ONE = "# A\n\na one\n\n## B\n\n- b one\n- b two\n\n> quote\n\n# C\n\nlast\n"
TWO = "x\r\n\r\n* y\r\n* z\r\n"

MOVES: dict[str, tuple[Sequence[str], Side, str, Mapping[str, str]]] = {
    "a paragraph up": (["p:last"], "before", "h:# A",
        {"One": "last\n\n" + ONE.replace("\n\nlast\n", "\n")}),
    "a section down": (["h:## B", "l:- b one\n- b two", "b:> quote"], "after", "p:last",
        {"One": "# A\n\na one\n\n# C\n\nlast\n\n## B\n\n- b one\n- b two\n\n> quote\n"}),
    "a section into another document": (["h:## B", "l:- b one\n- b two", "b:> quote"], "first_in",
        "d:Two",
        {"One": "# A\n\na one\n\n# C\n\nlast\n",
        "Two": "## B\r\n\r\n- b one\r\n- b two\r\n\r\n> quote\r\n\r\n" + TWO}),
    "an item": (["i:- b two"], "before", "i:- b one",
        {"One": ONE.replace("- b one\n- b two", "- b two\n- b one")}),
    "an item into a list of another document": (["i:- b one"], "last_in", "l:* y\n* z",
        {"One": ONE.replace("- b one\n", ""), "Two": TWO + "* b one\r\n"}),
    "both items": (["i:- b one", "i:- b two"], "after", "i:* y",
        {"One": ONE.replace("- b one\n- b two\n\n", ""),
        "Two": "x\r\n\r\n* y\r\n* b one\r\n* b two\r\n* z\r\n"}),
    "into a quote": (["p:last"], "last_in", "b:> quote",
        {"One": ONE.replace("> quote", "> quote\n>\n> last").replace("\n\nlast\n", "\n")}),
    "the only block of a quote behind it": (["p:quote"], "after", "b:> quote",
        {"One": ONE.replace("> quote", "quote")}),
    "where it is": (["p:a one"], "after", "h:# A", {}),
}  # fmt: skip


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("name", MOVES)
def test_blocks_move_with_their_ids(
    notes: Notes, name: str, restarted: bool, tmp_path: Path
) -> None:
    notes.put(One=ONE, Two=TWO)
    ids, (moved, side, anchor, after) = notes.ids(), MOVES[name]
    prepared = notes.apply(Move(tuple(ids[one] for one in moved), side, ids[anchor]))
    assert notes.texts() == {"One": ONE, "Two": TWO, **after}
    assert notes.done.ids == (tuple(ids[one] for one in moved),)
    if restarted:
        notes.store.close()
        notes.store = folder_store(notes.files, str(tmp_path))
    now = notes.ids()
    leaves = {key: block_id for key, block_id in ids.items() if key[0] in "dhp"}
    assert {key: now[key] for key in leaves} == leaves
    for key in moved:
        assert ids[key] in notes.store.blocks([ids[key]]), "found by its id"
    gone = {one for one in ids.values() if one not in notes.store.blocks([one])}
    take_files_back(notes.files, prepared)
    assert notes.texts() == {"One": ONE, "Two": TWO}
    assert notes.ids() == ids
    assert not gone or name in ("both items", "the only block of a quote behind it")


REFUSED: dict[str, tuple[Sequence[str], Side, str, type[Refusal]]] = {
    "a document": (["d:One"], "before", "p:x", WrongBlockKind),
    "beside a document": (["p:last"], "after", "d:Two", WrongBlockKind),
    "into a leaf": (["p:last"], "last_in", "p:x", WrongBlockKind),
    "into itself": (["b:> quote"], "last_in", "b:> quote", InvalidArgs),
    "beside what is in it": (["b:> quote"], "after", "p:quote", InvalidArgs),
    "an item out of lists": (["i:- b one"], "after", "p:last", InvalidArgs),
    "all of an item": (["p:b one"], "after", "p:last", InvalidArgs),
    "a paragraph into a list": (["p:last"], "after", "i:- b one", InvalidArgs),
    "blocks that do not follow each other": (["h:# A", "p:last"], "after", "p:x", InvalidArgs),
    "a list beside one of its kind": (["l:- b one\n- b two"], "after", "l:- n", InvalidArgs),
}


@each_row("moved side anchor refusal", REFUSED.values())
def test_moves_that_cannot_be(
    notes: Notes, moved: Sequence[str], side: Side, anchor: str, refusal: type[Refusal]
) -> None:
    ids = notes.laid(One=ONE, Two=TWO, Three="- n\n")
    with pytest.raises(refusal):
        notes.store.prepare([Move(tuple(ids[one] for one in moved), side, ids[anchor])])
    assert notes.ids() == ids


def test_attributes_and_names_move_along(notes: Notes) -> None:
    text = 'a\n{: id="20200101000000-aaaaaaa" custom-x="1"}\n\nb ^name\n\n[l]: u\n\nc\n'
    ids = notes.laid(One=text, Two="x\n")
    blocks = notes.store.children(ids["d:One"])[:3]
    notes.apply(Move(tuple(one.id for one in blocks), "after", ids["p:x"]))
    assert notes.get("Two") == "x\n\n" + text.removesuffix("\n\nc\n") + "\n"
    assert notes.get("One") == "c\n"
    now = notes.store.children(ids["d:Two"])[1:]
    assert [(one.id, one.markdown, one.attributes) for one in now] == [
        (one.id, one.markdown, one.attributes) for one in blocks
    ]


def test_a_move_that_is_only_planned_loses_no_block(notes: Notes, tmp_path: Path) -> None:
    ids = notes.laid(One=ONE, Two=TWO)
    notes.store.prepare([Move((ids["p:last"],), "first_in", ids["d:Two"])])
    notes.store.close()
    notes.store = folder_store(notes.files, str(tmp_path))
    assert notes.store.blocks([ids["p:last"]])[ids["p:last"]].path == "One.md"


def test_a_moved_block_can_be_edited_beside(notes: Notes) -> None:
    ids = notes.laid(One=ONE, Two=TWO)
    notes.apply(
        Update(ids["p:last"], "last of all"),
        Move((ids["p:last"],), "first_in", ids["d:Two"]),
        InsertText("new", "after", ids["p:last"]),
        Delete(ids["p:x"]),
    )
    assert notes.get("Two") == "last of all\r\n\r\nnew\r\n\r\n* y\r\n* z\r\n"
    assert notes.ids()["p:last of all"] == ids["p:last"]


def test_a_block_keeps_what_is_still_in_it(notes: Notes) -> None:
    ids = notes.laid(One="- [ ] task\n  - [ ] inner one\n  - [x] inner two\n- [ ] other\n")
    (item,) = [key for key in ids if key.startswith("i:- [ ] task")]
    prepared = notes.apply(Update(ids[item], item[2:].replace("[ ] task", "[x] task")))
    assert prepared.notices == ()
    now = notes.ids()
    assert {one for key, one in ids.items() if key[0] in "pi"} == {
        one for key, one in now.items() if key[0] in "pi"
    }
    new = "- [x] task\n  - [ ] inner one"
    gone = [ids["i:- [x] inner two"], ids["p:inner two"]]
    prepared = notes.store.prepare([Update(ids[item], new)])
    assert prepared.notices == (NoteNotice("ids", ids[item], ", ".join(gone)),)


def test_lists_that_become_one_are_told(notes: Notes) -> None:
    ids = notes.laid(One="- a\n\nb\n\n- c\n")
    prepared = notes.store.prepare([Delete(ids["p:b"])])
    assert prepared.notices == (NoteNotice("joined", ids["p:b"], ids["l:- c"]),)


LINKING = {
    "Note": "# Old Name: it's\n\nsee [[#Old Name: it's]]\n\n# Kept\n\npara ^abc\n",
    "Wiki": "[[Note#Old Name: it's|x]] and ![[note#Old name  its]] [[Other#Old Name its]]\n",
    "Markdown": "- [a](Note.md#old-name-its) [b](./Note.md#Old%20Name:%20it's \"t\")\n\n[r]: Note.md#old-name-its\n",
    "Code": "```\n[[Note#Old Name: it's]]\n```\n\n`` `[[Note#Old Name its]]` `` [[Note#Kept]] [[Note#^abc]]\n",
}  # fmt: skip


def test_who_links_to_a_heading_that_is_renamed_is_told(notes: Notes) -> None:
    ids = notes.laid(**LINKING)
    heading = ids["h:# Old Name: it's"]
    for change, kind in (
        (Update(heading, "# Other words"), "links"),
        (Delete(heading), "dangling"),
    ):
        prepared = notes.store.prepare([change])
        told = (kind, heading, "Markdown.md, Note.md, Wiki.md")
        assert prepared.notices == (told,)
        notes.store.check_links(prepared)
    for change in (Update(heading, "## Old name its"), Update(ids["h:# Kept"], "# Kept!")):
        assert notes.store.prepare([change]).notices == (), "links still lead there"
    assert notes.texts() == LINKING


def test_links_are_changed_with_the_heading(notes: Notes) -> None:
    ids = notes.laid(**LINKING)
    heading = ids["h:# Old Name: it's"]
    prepared = notes.apply(Update(heading, "# New [big] *Title*"), update_links=True)
    assert prepared.notices == (
        NoteNotice("relinked", heading, "Markdown.md, Note.md, Wiki.md"),
    )  # fmt: skip
    assert notes.texts() == {
        "Note": "# New [big] *Title*\n\nsee [[#New big Title]]\n\n# Kept\n\npara ^abc\n",
        "Wiki": "[[Note#New big Title|x]] and ![[note#New big Title]] [[Other#Old Name its]]\n",
        "Markdown": '- [a](Note.md#new-big-title) [b](./Note.md#New%20%5Bbig%5D%20Title "t")\n\n'
        "[r]: Note.md#new-big-title\n",
        "Code": LINKING["Code"],
    }
    assert notes.ids().keys() - ids.keys() != set()
    assert notes.ids()["h:# New [big] *Title*"] == heading
    assert set(notes.ids().values()) == set(ids.values()), "all ids stay"
    take_files_back(notes.files, prepared)
    assert (notes.texts(), notes.ids()) == (LINKING, ids)


def test_links_to_a_name_are_changed_with_it(notes: Notes) -> None:
    notes.put(**LINKING)
    para = notes.ids()["p:para ^abc"]
    with pytest.raises(AnchorLinked):
        notes.store.check_links(notes.store.prepare([Update(para, "para ^xyz")]))
    prepared = notes.apply(Update(para, "para ^xyz"), update_links=True)
    notes.store.check_links(prepared)
    assert notes.get("Code").endswith("[[Note#Kept]] [[Note#^xyz]]\n")
    with pytest.raises(AnchorLinked):
        notes.store.check_links(notes.store.prepare([Delete(para)], update_links=True))


def test_a_link_means_the_note_beside_it_of_several_of_one_name(notes: Notes) -> None:
    for folder in ("a", "b"):
        (notes.root / folder).mkdir()
        (notes.root / folder / "README.md").write_text("# Install\n")
        (notes.root / folder / "See.md").write_text("[x](README.md#install) [[README#Install]]\n")
    notes.put(README="# Install\n", See="[[README#Install]] [y](b/README.md#install)\n")
    heading = notes.store.search("install", 9)
    (wanted,) = [one.id for one in heading if one.path == "b/README.md" and one.kind == "h"]
    prepared = notes.store.prepare([Update(wanted, "# Set up")], update_links=True)
    assert prepared.notices == (NoteNotice("relinked", wanted, "See.md, b/See.md"),)
    assert prepared.after["b/See.md"] == "[x](README.md#set-up) [[README#Set up]]\n"
    assert prepared.after["See.md"] == "[[README#Install]] [y](b/README.md#set-up)\n"


def test_a_second_heading_of_that_name_keeps_the_links(notes: Notes) -> None:
    notes.put(Note="# Same\n\na\n\n# Same\n\nb\n", Other="[[Note#Same]]\n")
    heading = notes.store.children(notes.ids()["d:Note"])[2].id
    assert notes.store.prepare([Update(heading, "# Other")]).notices == ()
