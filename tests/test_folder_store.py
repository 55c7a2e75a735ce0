"""Notes in a folder of files: what is written, which ids stay, who may see what."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from copydesk.errors import Cancelled, ContentChanged, InvalidArgs, cancelled_by
from copydesk.notes.folder import blocks as folder_blocks
from copydesk.notes.folder import documents as folder_documents
from copydesk.notes.folder import store as folder_module
from copydesk.notes.folder.store import FolderStore
from copydesk.notes.markdown import Profile, Tree
from copydesk.notes.protocol import (
    BlockNotFound,
    Change,
    Coverage,
    Delete,
    InsertText,
    NoteBlock,
    Prepared,
    UnreadFile,
    Update,
    Within,
    several,
)
from copydesk.store.access import Rules
from copydesk.store.files import Files
from copydesk.store.threads import Soon
from copydesk.text import sizes
from copydesk.text.relpath import RelPath
from support.cost import first
from support.note_stores import Op, changes_of, folder_store, take_files_back, write_files
from support.rows import each_row


@dataclass
class Place:
    """A folder with a store that can be opened again."""

    root: Path
    state: Path
    files: Files
    store: FolderStore
    rules: Rules

    @property
    def box(self) -> str:
        return self.store.notebooks()[0].id

    def again(self, **settings: Any) -> None:
        self.store.close()
        self.store = FolderStore(self.files, RelPath(()), self.rules, str(self.state), **settings)

    def put(self, name: str, text: str | bytes) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(".beside")
        beside.write_bytes(text if isinstance(text, bytes) else text.encode())
        beside.replace(path)

    def get(self, name: str) -> bytes:
        return (self.root / name).read_bytes()

    def document(self, title: str) -> NoteBlock:
        (found,) = [one for one in self.store.search(title, 50) if one.content == title]
        return found

    def ids(self, title: str = "Note") -> dict[str, str]:
        """The ids of all blocks by their texts, containers by what they hold first."""
        document = self.document(title)
        found = {"d:": document.id}

        def inside(block_id: str) -> None:
            for child in self.store.children(block_id):
                key = f"{child.kind}:{child.markdown}"
                assert key not in found
                found[key] = child.id
                if child.kind in ("l", "i", "b"):
                    inside(child.id)

        inside(document.id)
        return found

    def block(self, text: str, title: str = "Note") -> str:
        return next(value for key, value in self.ids(title).items() if key[2:] == text)

    def apply(self, changes: Sequence[Change]) -> Prepared:
        prepared = self.store.prepare(changes)
        self.make(prepared)
        return prepared

    def make(self, prepared: Prepared) -> Sequence[Sequence[str]]:
        """Write and execute what is prepared; the new ids."""
        write_files(self.files, prepared)
        return self.store.execute(prepared).ids

    def inside(self, block_id: str) -> list[str]:
        """The ids of what a block holds."""
        return [block.id for block in self.store.children(block_id)]

    def note(self, text: str) -> dict[str, str]:
        """The ids of a note of this text."""
        self.put("Note.md", text)
        return self.ids()

    def nearest(self, lost_id: str) -> str:
        """What stands where a block was that is gone."""
        with pytest.raises(BlockNotFound) as caught:
            self.store.around(lost_id)
        assert caught.value.lost
        return caught.value.nearest or ""

    def digest(self) -> Mapping[str, str]:
        return {
            str(path.relative_to(self.root)): sha256(path.read_bytes()).hexdigest()
            for path in sorted(self.root.rglob("*"))
            if path.is_file()
        }


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    root, state = tmp_path / "notes", tmp_path / "state"
    root.mkdir()
    state.mkdir()
    with Files(str(root), durability="fast") as files:
        made = Place(root, state, files, folder_store(files, str(state)), Rules())
        yield made
        made.store.close()


@pytest.mark.slow
def test_looking_changes_no_file(place: Place) -> None:
    for number in range(50):
        place.put(f"a{number % 7}/n{number}.md", f"# T {number}\r\n\r\n- x\n- y {number}\n")
    before = place.digest()
    place.again()
    found = place.store.search("y", 100)
    assert len(found) == 50
    for block in found:
        place.store.breadcrumb(block.id)
        place.store.prepare([Update(block.id, "other")])
    assert place.digest() == before
    assert not list(place.root.rglob(".*"))


WRITTEN: dict[str, tuple[str, str, Op, str]] = {
    "a paragraph": ("a\n\nb\n\nc\n", "b", ("update", "B"), "a\n\nB\n\nc\n"),
    "CRLF": ("a\r\n\r\nb\r\nc\r\n", "b\nc", ("update", "b\nC"), "a\r\n\r\nb\r\nC\r\n"),
    "CRLF after": ("a\r\n\r\nb\r\n", "a", ("after", "n\n\nm"), "a\r\n\r\nn\r\n\r\nm\r\n\r\nb\r\n"),
    "a mark of order": ("\ufeffa\n\nb", "a", ("update", "A"), "\ufeffA\n\nb"),
    "no last newline": ("a\n\nb", "b", ("update", "B"), "a\n\nB"),
    "blanks at the end of lines": ("a  \nb\n\n\n\nc\t\n", "c", ("update", "C"),
        "a  \nb\n\n\n\nC\t\n"),
    "a loose list": ("* a\n\n* b\n\n* c\n", "b", ("update", "B"), "* a\n\n* B\n\n* c\n"),
    "tabs": ("-\ta\n\tb\n-\tc\n", "c", ("update", "C"), "-\ta\n\tb\n-\tC\n"),
    "a quote in an item": ("1. > a\n   > b\n2. c", "a\nb", ("update", "a\nB"),
        "1. > a\n   > B\n2. c"),
    "lazy lines": ("> a\nb\n\nc", "c", ("update", "C"), "> a\nb\n\nC"),
    "setext": ("T\n===\n\na\n---\nb\n", "b", ("update", "B"), "T\n===\n\na\n---\nB\n"),
    "front matter": ("---\ntitle: Note\nx:   1\n---\na\n\nb\n", "a", ("update", "A"),
        "---\ntitle: Note\nx:   1\n---\nA\n\nb\n"),
    "attributes": ('a\n{: id="20200101000000-abcdefg" custom-x="1"}\n\nb\n', "a", ("update", "A"),
        'A\n{: id="20200101000000-abcdefg" custom-x="1"}\n\nb\n'),
    "old line ends": ("a\r\rb\r", "b", ("update", "B"), "a\r\rB\r"),
    "a form feed and U+2028": ("a\x0cb\u2028c\n\nd", "d", ("update", "D"), "a\x0cb\u2028c\n\nD"),
    "gone": ("a\n\n\nb\n\n\nc\n", "b", ("delete",), "a\n\n\nc\n"),
}  # fmt: skip


@pytest.mark.slow
@each_row("before text op after", WRITTEN.values())
def test_a_change_of_one_block_changes_its_bytes_alone(
    place: Place, before: str, text: str, op: Op, after: str
) -> None:
    place.put("Note.md", before)
    place.put("Other.md", before.replace("Note", "Other"))
    others = place.get("Other.md")
    place.apply(changes_of([(op[0], place.block(text), *op[1:])], {}))
    assert place.get("Note.md").decode() == after
    assert place.get("Other.md") == others


def test_bytes_that_are_no_text_are_read_and_kept(place: Place) -> None:
    place.put("Note.md", b"caf\xe9 one\nline two\n\n\xff\xfe\n\nb\n")
    first, second, third = place.store.children(place.document("Note").id)
    assert first.markdown == "caf\\xe9 one\nline two"
    assert second.markdown == "\\xff\\xfe"
    place.apply([Update(first.id, "caf\\xe9 one\nline 2"), Update(third.id, "c")])
    assert place.get("Note.md") == b"caf\xe9 one\nline 2\n\n\xff\xfe\n\nc\n"
    assert place.store.search("line 2", 5)[0].id == first.id


REFUSED: dict[str, tuple[str, str, Op]] = {
    "a list that would join the one beside it": ("a\n\n- b\n", "a", ("after", "- n")),
    "attributes": ("a\n\nb", "a", ("update", 'n\n{: id="20200101000000-abcdefg"}')),
    "attributes in a list": ("a", "a", ("update", '- {: id="20200101000000-abcdefg"}n')),
    "NUL": ("a", "a", ("update", "n\0")),
}


@each_row("before text op", REFUSED.values())
def test_what_would_not_be_what_was_asked_for(place: Place, before: str, text: str, op: Op) -> None:
    ids = place.note(before)
    with pytest.raises(InvalidArgs):
        place.store.prepare(changes_of([(op[0], place.block(text), *op[1:])], {}))
    assert place.ids() == ids


def test_lists_that_nothing_parts_become_one(place: Place) -> None:
    ids = place.note("- a\n\nb\n\n- c\n- d\n\ne\n")
    place.apply([Delete(place.block("b")), Update(place.block("c"), "C")])
    now = place.ids()
    assert [now["p:a"], now["p:C"], now["p:d"], now["i:- d"], now["p:e"]] == [
        ids["p:a"], ids["p:c"], ids["p:d"], ids["i:- d"], ids["p:e"]
    ]  # fmt: skip
    with pytest.raises(BlockNotFound) as caught:
        place.store.around(ids["l:- c\n- d"])
    assert caught.value.lost


TEXT = "# Head\n\nalpha one\n\n- item x\n- item y\n\n> quote q\n>\n> quote r\n\nomega two\n"

SEEN_AGAIN: dict[str, tuple[str, str, dict[str, str | None]]] = {
    "another block written": (TEXT, TEXT.replace("omega two", "omega three, and more of it"), {}),
    "one put before all": (TEXT, "new first\n\n" + TEXT, {}),
    "one put in a list": (TEXT, TEXT.replace("- item y", "- item n\n- item y"), {}),
    "a paragraph moved": (TEXT, "omega two\n\n" + TEXT.replace("\nomega two\n", ""), {}),
    "a paragraph moved in a quote": (TEXT,
        TEXT.replace("\nomega two\n", "").replace("> quote r", "> omega two\n>\n> quote r"), {}),
    "a heading with its section moved": ("# A\n\na one\n\n# B\n\nb one\n",
        "# B\n\nb one\n\n# A\n\na one\n", {}),
    "a word of it changed": (TEXT, TEXT.replace("alpha one", "alpha uno"),
        {"p:alpha one": "p:alpha uno"}),
    "an item changed": (TEXT, TEXT.replace("item x", "item xx"),
        {"p:item x": "p:item xx", "i:- item x": "i:- item xx"}),
    "wrapped, with CRLF": (TEXT, TEXT.replace("\n", "\r\n"), {}),
    "all but one gone": (TEXT, "omega two\n",
        {"p:alpha one": None, "h:# Head": None, "p:item x": None}),
    "one gone": (TEXT, TEXT.replace("alpha one\n\n", ""), {"p:alpha one": None}),
    "another one in its place": (TEXT, TEXT.replace("alpha one", "quite different"),
        {"p:alpha one": None}),
    "now a heading": (TEXT, TEXT.replace("alpha one", "## alpha one").replace("omega two", "omega"),
        {"p:omega two": "p:omega"}),
}  # fmt: skip


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("name", SEEN_AGAIN)
def test_ids_stay_when_somebody_else_writes(place: Place, name: str, restarted: bool) -> None:
    before, after, told = SEEN_AGAIN[name]
    ids = place.note(before)
    place.put("Note.md", after)
    if restarted:
        place.again()
    now = place.ids()
    for key, block_id in ids.items():
        new = told.get(key, key)
        if new is None:
            assert place.nearest(block_id) in now.values()
        elif (key[0] in "ph" and new in now) or key in told:
            assert now[new] == block_id
    assert len(set(now.values())) == len(now)
    assert place.note(before) == ids  # as it was, and so are the ids


@pytest.mark.parametrize("restarted", [False, True])
def test_of_equal_blocks_the_one_that_goes_is_known_by_its_place(
    place: Place, restarted: bool
) -> None:
    before = "x\n\na\n\nsame words\n\nb\n\nsame words\n\nc\n"
    place.put("Note.md", before)
    document = place.document("Note").id
    ids = place.inside(document)
    place.put("Note.md", before.replace("same words\n\n", "", 1))
    if restarted:
        place.again()
    assert place.inside(document) == [*ids[:2], *ids[3:]]
    assert place.nearest(ids[2]) in ids
    place.put("Note.md", before)
    assert place.inside(document) == ids


def test_ids_stay_over_a_restart_and_without_the_cache(place: Place) -> None:
    ids = place.note(TEXT)
    place.again()
    assert place.ids() == ids
    place.apply([InsertText("new one", "after", ids["p:alpha one"])])
    now = place.ids()
    assert ids.items() <= now.items()
    for path in place.state.rglob("cache*"):
        path.unlink()
    assert [place.store.around(block_id) for block_id in ids.values()]
    place.again()
    for path in place.state.rglob("cache*"):
        path.write_bytes(b"no database at all" * 100)
    place.again()
    assert [place.store.around(block_id) for block_id in ids.values()]
    assert place.ids() == now


@pytest.mark.parametrize("restarted", [False, True])
def test_ids_go_with_a_file_that_is_renamed(place: Place, restarted: bool) -> None:
    place.put("Note.md", TEXT)
    place.put("Other.md", TEXT.replace("e", "o"))
    ids = place.ids()
    (place.root / "sub").mkdir()
    (place.root / "Note.md").rename(place.root / "sub" / "Moved.md")
    place.put("Note.md", "another one\n")
    if restarted:
        place.again()
    crumbs = place.store.breadcrumb(ids["p:item x"])
    assert crumbs[1].name == "Moved"
    assert place.ids("Moved") == ids
    assert not set(place.ids("Note").values()) & set(ids.values())


def test_ids_go_with_a_file_that_is_renamed_and_changed(place: Place) -> None:
    ids = place.note(TEXT)
    (place.root / "Note.md").unlink()
    place.put("Moved.md", TEXT.replace("alpha one", "new words"))
    now = place.ids("Moved")
    assert now["p:item x"] == ids["p:item x"]
    assert now["d:"] == ids["d:"]
    assert place.store.around(ids["p:omega two"]).parent_id == ids["d:"]


def test_a_copy_has_ids_of_its_own(place: Place) -> None:
    text = '---\nid: 20200101000000-abcdefg\n---\n\na\n{: id="20200101000000-bcdefgh"}\n\nb\n'
    place.put("One.md", text)
    one = place.ids("One")
    assert one["d:"] == "20200101000000-abcdefg"
    place.put("Two.md", text)
    place.again()
    two = place.ids("Two")
    assert not set(one.values()) & set(two.values())
    assert place.ids("One") == one


def test_names_in_the_text_win(place: Place) -> None:
    text = (
        '---\ntitle: "Note"\nid: 20200101000000-docdocd\n---\n\n'
        'alpha\n{: id="20200101000000-aaaaaaa" bookmark="keep"}\n\n'
        "beta ^quote\n\n- item ^it-1\n- other\n"
    )
    ids = place.note(text)
    assert ids["d:"] == "20200101000000-docdocd"
    assert ids["p:alpha"] == "20200101000000-aaaaaaa"
    blocks = place.store.blocks(list(ids.values()))
    assert blocks[ids["p:alpha"]].attributes == {"bookmark": "keep"}
    assert blocks[ids["p:beta ^quote"]].attributes == {"alias": "quote"}
    assert blocks[ids["i:- item ^it-1"]].attributes == {"alias": "it-1"}
    place.put("Note.md", text.replace("beta ^quote", "quite other words ^quote"))
    assert place.block("quite other words ^quote") == ids["p:beta ^quote"]


def test_an_id_in_a_text_is_found_before_it_was_looked_at(place: Place) -> None:
    place.put("a/b/Note.md", 'a\n{: id="20200101000000-aaaaaaa"}\n')
    assert place.store.blocks(["20200101000000-aaaaaaa"])["20200101000000-aaaaaaa"].content == "a"


def test_undoing_after_later_changes_brings_ids_back(place: Place) -> None:
    ids = place.note(TEXT)
    place.apply([Delete(ids["p:alpha one"]), Update(ids["p:item y"], "item z")])
    place.put("Note.md", place.get("Note.md") + b"\nlater words\n")
    assert "p:alpha one" not in place.ids()
    with pytest.raises(BlockNotFound) as caught:
        place.store.children(ids["p:alpha one"])
    assert (caught.value.lost, caught.value.nearest) == (True, ids["h:# Head"])
    place.put("Note.md", TEXT + "\nlater words\n")
    assert ids.items() <= place.ids().items()


def test_ten_hunks_of_which_the_seventh_fails_leave_all_as_it_was(place: Place) -> None:
    for number in range(3):
        place.put(f"N{number}.md", TEXT)
    before = place.digest()
    ids = [place.ids(f"N{number}") for number in range(3)]
    changes: list[Change] = [
        Update(ids[0]["p:alpha one"], "x"),
        Delete(ids[0]["p:omega two"]),
        InsertText("n", "after", ids[1]["h:# Head"]),
        InsertText("- n", "last_in", ids[1]["l:- item x\n- item y"]),
        Delete(ids[2]["i:- item x"]),
        Update(ids[2]["p:omega two"], "# O"),
        Delete(ids[0]["p:omega two"]),
        Update(ids[2]["p:alpha one"], "x"),
        InsertText("n", "first_in", ids[0]["d:"]),
        Delete(ids[1]["p:alpha one"]),
    ]
    with pytest.raises(BlockNotFound):
        place.store.prepare(changes)
    assert place.digest() == before
    assert [place.ids(f"N{number}") for number in range(3)] == ids
    del changes[6]
    prepared = place.apply(changes)
    assert len(prepared.files) == 3
    take_files_back(place.files, prepared)
    assert place.digest() == before
    assert [place.ids(f"N{number}") for number in range(3)] == ids


def test_a_file_that_changed_between_preparing_and_making(place: Place) -> None:
    ids = place.note(TEXT)
    prepared = place.store.prepare([Update(ids["p:alpha one"], "x")])
    place.put("Note.md", TEXT + "\nmore\n")
    with pytest.raises(ContentChanged):
        place.store.execute(prepared)
    assert ids.items() <= place.ids().items()


def test_two_processes_agree(place: Place) -> None:
    place.put("Note.md", TEXT)
    with Files(str(place.root), durability="fast") as files:
        other = folder_store(files, str(place.state))
        assert other.notebooks() == place.store.notebooks()
        ids = place.ids()
        assert [block.id for block in other.children(ids["d:"])] == [
            block.id for block in place.store.children(ids["d:"])
        ]
        prepared = place.store.prepare([InsertText("made here", "after", ids["p:alpha one"])])
        write_files(place.files, prepared)
        (seen,) = other.search("made here", 5)  # before the first one knows that it is written
        done = place.store.execute(prepared)
        assert done.ids == ((seen.id,),)
        assert place.store.blocks([seen.id])[seen.id].markdown == "made here"
        made = other.prepare_document(place.box, "", "New", "text here")
        write_files(files, made)
        (text,) = place.store.search("text here", 5)
        assert other.execute(made).ids == ((text.root_id, text.id),)
        other.close()


def test_two_who_look_first_at_the_same_time_agree(place: Place) -> None:
    for number in range(8):
        place.put(f"n{number}.md", "".join(f"p {at}\n\n" for at in range(40)))
    stores = [place.store, folder_store(place.files, str(place.state))]
    start = threading.Barrier(2)

    def look(store: FolderStore) -> list[str]:
        start.wait()
        return [block.id for block in store.search("p", 1000)]

    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(look, stores)
    stores[1].close()
    assert len(one) == len(set(one)) == 320
    assert one == two


SPOILT: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "no JSON": lambda data: b"\xff" + data,
    "other types": lambda data: data.replace(b'"p"', b"7"),
    "ids that are none": lambda data: data.replace(b"-", b"_"),
    "one id for all": lambda data: re.sub(
        rb"[0-9]{14}-[0-9a-z]{7}", b"20200101000000-abcdefg", data
    ),
    "rows missing": lambda data: re.sub(rb"\[1, [^\n]*\n", b"", data, count=1),
    "of another version": lambda data: data.replace(b'"format": 1', b'"format": 2'),
}


@pytest.mark.parametrize("name", SPOILT)
def test_what_is_kept_may_be_spoilt(place: Place, name: str) -> None:
    ids = place.note(TEXT)
    place.apply([InsertText("new words", "after", ids["p:alpha one"])])
    place.store.close()
    kept = [path for path in place.state.rglob("*") if path.suffix in (".json", ".steps")]
    assert len(kept) == 3
    for path in kept:
        path.write_bytes(SPOILT[name](path.read_bytes()))
    place.store = folder_store(place.files, str(place.state))
    now = place.ids()
    assert len(set(now.values())) == len(now)
    place.apply([Update(now["p:new words"], "other words")])
    assert place.ids()["p:other words"] == now["p:new words"]


def test_what_is_nested_deep(place: Place) -> None:
    place.put("Note.md", "> " * 300 + "deep\n\nflat\n")
    (deep,) = place.store.search("deep", 5)
    assert len(place.store.breadcrumb(deep.id)) == 302 + 1
    place.apply([Update(deep.id, "deeper")])
    assert place.get("Note.md") == b"> " * 300 + b"deeper\n\nflat\n"
    assert place.block("flat")


def test_documents_stand_below_others(place: Place) -> None:
    place.put("Top.md", "---\ntitle: The Top\n---\nt\n")
    place.put("Top/Below.md", "b\n")
    place.put("Top/Below/Deep.md", "d\n")
    place.put("plain/In.markdown", "i\n")
    deep, inner = place.document("Deep"), place.document("In")
    assert (deep.hpath, deep.path) == ("/The Top/Below/Deep", "Top/Below/Deep.md")
    assert inner.hpath == "/plain/In"
    names = [crumb.name for crumb in place.store.breadcrumb(deep.id)]
    assert names[1:] == ["The Top", "Below", "Deep"]
    made = place.store.prepare_document(place.box, deep.id, "New: a?", "x")
    ((document, _),) = place.make(made)
    block = place.store.blocks([document])[document]
    assert (block.path, block.content) == ("Top/Below/Deep/New- a-.md", "New: a?")


TITLES = (
    ".hidden", "con", "a" * 500, "狐" * 300, "..", "a.", "a\\b", "# a", 'say "x"', "a: b", "é.md",
)  # fmt: skip


def test_titles_that_are_no_names_of_files(place: Place) -> None:
    for title in TITLES:
        for text in ("---\nx: y\n---\n\nz", ""):
            prepared = place.store.prepare_document(place.box, "", title, text)
            ((document, *_),) = place.make(prepared)
            assert place.store.blocks([document])[document].content == title
            children = [block.kind for block in place.store.children(document)]
            assert children == (["tb", "h", "p"] if text else ["p"])
    assert len(list(place.root.iterdir())) == 2 * len(TITLES)
    place.again()
    assert {block.content for block in place.store.search("a", 50) if block.kind == "d"} >= {
        "a: b", "# a", "a."
    }  # fmt: skip


def test_what_may_not_be_read_is_not_there(place: Place, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "Secret.md").write_text("kiwi outside\n")
    place.put("Open.md", "kiwi open\n")
    place.put("closed/In.md", "kiwi closed\n")
    place.put(".hidden/In.md", "kiwi hidden\n")
    place.put(".Hidden.md", "kiwi hidden\n")
    place.put("binary.txt", "kiwi text\n")
    os.symlink(outside, place.root / "out")
    os.symlink(outside / "Secret.md", place.root / "Out.md")
    os.symlink("Open.md", place.root / "Again.md")
    os.symlink("..", place.root / "closed" / "up")
    os.symlink("nowhere.md", place.root / "Nowhere.md")
    (closed,) = [one for one in place.store.search("kiwi", 9) if "closed" in one.markdown]
    assert [one.path for one in place.store.search("kiwi", 9)] == ["Open.md", "closed/In.md"]
    place.rules = Rules(no_read_dirs=("closed",))
    place.again()
    assert [one.path for one in place.store.search("kiwi", 9)] == ["Open.md"]
    assert place.store.blocks([closed.id]) == {}
    with pytest.raises(BlockNotFound):
        place.store.prepare([Update(closed.id, "x")])
    place.put("Copy.md", "kiwi closed\n")
    place.store.search("kiwi", 9)
    place.rules = Rules()
    place.again()
    assert place.store.blocks([closed.id])[closed.id].path == "closed/In.md"


def test_links_within_the_folder_are_followed_once(tmp_path: Path) -> None:
    (tmp_path / "ws" / "notes").mkdir(parents=True)
    (tmp_path / "ws" / "shared").mkdir()
    (tmp_path / "state").mkdir()
    (tmp_path / "ws" / "shared" / "In.md").write_text("kiwi in\n")
    os.symlink("../shared", tmp_path / "ws" / "notes" / "link")
    with Files(str(tmp_path / "ws"), durability="fast") as files:
        store = FolderStore(files, RelPath(("notes",)), Rules(), str(tmp_path / "state"))
        (found,) = store.search("kiwi", 5)
        assert (found.path, found.hpath) == ("notes/link/In.md", "/link/In")
        store.close()
        denied = Rules(no_read_dirs=("shared",))
        store = FolderStore(files, RelPath(("notes",)), denied, str(tmp_path / "state"))
        assert store.search("kiwi", 5) == ()
        store.close()


def test_files_that_are_not_read_are_told_with_the_reason(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.put("a/wide.md", "fig".encode("utf-16"))
    place.put("nul.md", b"kiwi\0\n\nfig\n")
    place.put("good.md", "fig\n")
    place.put("large.md", "fig\n" * 100)
    monkeypatch.setattr(sizes, "NOTE", 300)
    (listed,) = place.store.documents(place.box, 9)
    unread = (("a/wide.md", "UTF-16"), ("large.md", "TOO_LARGE"), ("nul.md", "NUL"))
    expected = Coverage(1, 1, tuple(UnreadFile(*one) for one in unread))
    assert place.store.coverage(place.box) == expected, "told by a list, before any search"
    (found,) = place.store.search("fig", 5)
    assert (found.path, found.root_id) == ("good.md", listed.id)
    assert place.store.coverage(place.box) == replace(expected, waiting=0)
    place.put("nul.md", b"kiwi\n\nfig\n")
    monkeypatch.setattr(sizes, "NOTE", 1 << 20)
    place.put("large.md", "fig\n" * 10)
    assert len(place.store.search("fig", 5)) == 3
    found = place.store.coverage(place.box)
    assert (found.documents, found.waiting, found.unread) == (3, 0, expected.unread[:1])


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A processor that has worked for 0.3 s more at each look at its clock."""
    seen: list[int] = []

    def thread_time() -> float:
        seen.append(len(seen))
        return 0.3 * len(seen)

    monkeypatch.setattr(folder_blocks.time, "thread_time", thread_time)
    return seen


def test_a_file_that_takes_more_than_a_second_is_told(place: Place, looks: list[int]) -> None:
    place.put("good.md", "fig\n")
    place.put("slow.md", "fig\n" * 3_000)
    place.put("deep.md", "- " * 2_000 + "fig\n")
    (found,) = place.store.search("fig", 5)
    assert found.path == "good.md"
    told = place.store.coverage(place.box)
    slow = (UnreadFile("deep.md", "TOO_SLOW"), UnreadFile("slow.md", "TOO_SLOW"))
    assert told == Coverage(1, 0, slow)
    place.put("slow.md", "fig\n" * 9)
    assert len(place.store.search("fig", 5)) == 2


def test_larger_files_have_more_time(place: Place, looks: list[int]) -> None:
    place.put("large.md", ("fig " * 200 + "\n") * 1_500)
    (found,) = place.store.search("fig", 5)
    assert found.path == "large.md"


def test_a_new_text_that_takes_more_than_a_second_is_refused(
    place: Place, looks: list[int]
) -> None:
    with pytest.raises(InvalidArgs, match="takes more than a second to parse") as refused:
        place.store.prepare_document(place.box, "", "New", "fig\n" * 20_000)
    assert refused.value.argument == "markdown"


@pytest.mark.parametrize("text", first("fig\n" * 30_000, "- " * 5_000 + "fig", "# fig\n" * 20_000))
def test_a_search_is_cancelled_within_a_file(place: Place, text: str) -> None:
    asked: list[int] = []

    def cancelled() -> bool:
        asked.append(0)
        return len(asked) > 3

    place.put("a.md", text)
    with cancelled_by(cancelled), pytest.raises(Cancelled):
        place.store.search("fig", 5)
    assert len(asked) == 4
    assert place.store.search("fig", 1)


def test_what_is_left_out_is_not_there(place: Place) -> None:
    for name in ("a.md", "out/b.md", "node_modules/p/README.md", "drafts/c.md", "drafts/keep.md"):
        place.put(name, "kiwi\n")

    def paths(**settings: Any) -> list[str]:
        place.again(**settings)
        listed = [one.path for one in place.store.documents(place.box, 9)]
        assert sorted(listed) == sorted(one.path for one in place.store.search("kiwi", 9))
        return sorted(listed)

    assert paths(gitignore=False) == [
        "a.md", "drafts/c.md", "drafts/keep.md", "node_modules/p/README.md", "out/b.md",
    ]  # fmt: skip
    (known,) = [one for one in place.store.search("kiwi", 9) if one.path == "out/b.md"]
    place.put(".gitignore", "out/\n")
    assert paths() == ["a.md", "drafts/c.md", "drafts/keep.md"]
    assert place.store.blocks([known.id]) == {}
    assert paths(exclude=("drafts/*", "!keep.md")) == ["a.md", "drafts/keep.md"]
    above = next(one.id for one in place.store.documents(place.box, 9) if one.path == "a.md")
    paths(exclude=("New.md",))
    with pytest.raises(InvalidArgs, match=r"notes\.exclude"):
        place.store.prepare_document(place.box, above, "New", "text")
    place.put(".gitignore", "")
    assert "out/b.md" in paths()
    assert place.store.blocks([known.id])[known.id].path == "out/b.md", "its id has stayed"


PART = "## Part {0}\n\nWords of part {0} in a line that is as long as lines are.\n\n- item {0}\n\n"


@pytest.mark.slow
def test_a_list_and_a_search_are_answered_before_all_is_indexed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(100):
        place.put(f"n{number:03}.md", PART.format(number) + "word " * (number == 90))
    monkeypatch.setattr(folder_module, "_BYTES_AT_ONCE", 1_000)
    parsed: list[str] = []
    real = folder_documents.read
    monkeypatch.setattr(
        folder_documents, "read", lambda *given, **more: parsed.append("") or real(*given, **more)
    )
    listed = place.store.documents(place.box, 1_000)
    assert (len(listed), parsed) == (100, []), "no block is read to list documents"
    assert place.store.coverage(place.box) == Coverage(100, 100)
    (found,) = place.store.search("words item 77", 5) or place.store.search("77 line", 5)
    assert (found.path, len(parsed) < 70) == ("n077.md", True), "what may have the words is first"
    waiting = place.store.coverage(place.box)
    assert waiting is not None
    assert 0 < waiting.waiting < 100
    assert found.root_id == listed[77].id, "a document has the id that it was listed with"
    lost = place.store.blocks(["20200101000000-nowhere"])
    assert not lost
    while place.store.coverage(place.box) != Coverage(100, 0):
        place.store.search("part", 1)
    assert len(place.store.search("part line", 1_000)) == 100
    place.again()
    parsed.clear()
    assert [one.id for one in place.store.documents(place.box, 1_000)] == [o.id for o in listed]
    assert len(place.store.search("Part", 1_000)) == 200
    assert place.store.coverage(place.box) == Coverage(100, 0)


@pytest.mark.slow
def test_a_thread_indexes_what_a_call_leaves(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(100):
        place.put(f"n{number:03}.md", PART.format(number))
    monkeypatch.setattr(folder_module, "_BYTES_AT_ONCE", 1_000)
    later = Soon(3600)
    place.again(later=later)
    place.store.documents(place.box, 1)
    rounds = 0
    while place.store.coverage(place.box) != Coverage(100, 0):
        later.now()
        rounds += 1
    assert rounds == 4
    assert len(place.store.search("part line", 1_000)) == 100


def test_a_listed_document_keeps_its_id(place: Place) -> None:
    def listed() -> dict[str, str]:
        return {one.path: one.id for one in place.store.documents(place.box, 50)}

    place.put("a.md", "one\n\ntwo\n")
    place.put("b.md", "---\nid: 20260101000000-bbbbbbb\ntitle: Bee\n---\n\nthree\n")
    place.put("c.md", "four\n")
    before = listed()
    assert before["b.md"] == "20260101000000-bbbbbbb"
    fresh = {one.id for one in place.store.children(before["c.md"])}
    place.put("a.md", "other\n\ntext\n")  # before anybody read its blocks
    (place.root / "c.md").rename(place.root / "moved.md")
    place.again()
    after = listed()
    assert after == {**{k: v for k, v in before.items() if k != "c.md"}, "moved.md": before["c.md"]}
    assert {one.id for one in place.store.children(after["moved.md"])} == fresh
    assert [one.markdown for one in place.store.children(after["a.md"])] == ["other", "text"]
    (place.root / "b.md").rename(place.root / "b2.md")
    assert listed()["b2.md"] == before["b.md"]


def test_ids_of_blocks_do_not_depend_on_the_list(place: Place, tmp_path: Path) -> None:
    for number in range(5):
        place.put(f"{number}.md", PART.format(number))
        os.utime(place.root / f"{number}.md", (1_700_000_000, 1_700_000_000))
    listed = place.store.documents(place.box, 50)
    one = [block.id for each in listed for block in place.store.children(each.id)]
    (tmp_path / "other").mkdir()
    other = folder_store(place.files, str(tmp_path / "other"))
    found = sorted(other.search("part", 50), key=lambda block: block.path)
    assert [each.root_id for each in found if each.kind == "h"] == [each.id for each in listed]
    two = [block.id for each in listed for block in other.children(each.id)]
    other.close()
    assert one == two


def test_a_note_that_is_known_is_read_while_another_process_reads_a_new_one(place: Place) -> None:
    place.put("Note.md", "one\n\ntwo\n")
    document = place.document("Note").id
    known = place.store.children(document)
    first, second = (folder_store(place.files, str(place.state)) for _ in range(2))
    with first._documents.sidecars.locked():
        assert second.children(document) == known


def test_an_address_that_two_notebooks_have_is_refused(tmp_path: Path) -> None:
    stores = list[FolderStore]()
    with ExitStack() as held:
        for name in "ab":
            for folder in (name, f"state of {name}"):
                (tmp_path / folder).mkdir()
            (tmp_path / name / "Foo.md").write_text("text ^20200101000000-abcdef1\n")
            files = held.enter_context(Files(str(tmp_path / name), durability="fast"))
            stores.append(folder_store(files, str(tmp_path / f"state of {name}")))
        both = several(stores)
        with pytest.raises(InvalidArgs) as refused:
            both.located("Foo#^20200101000000-abcdef1")
        assert "several documents" in refused.value.reason
        of_one = stores[0].prepare([])
        with pytest.raises(InvalidArgs) as refused:
            both.execute(replace(of_one, held=None))
        assert "was not prepared by this store" in refused.value.reason
        both.close()


@pytest.mark.slow
def test_nothing_is_parsed_to_read_a_large_document_after_an_edit(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.put("Note.md", "".join(PART.format(at) for at in range(600)))
    parsed: list[int] = []
    real = folder_documents.read

    def read(data: bytes, profile: Profile, check: Callable[[], None]) -> Tree:
        parsed.append(len(data))
        return real(data, profile, check=check)

    document = place.document("Note").id
    words = [one for one in place.store.children(document) if one.kind == "p"]
    monkeypatch.setattr(folder_documents, "read", read)
    edits: list[Change] = [
        Update(words[500].id, "longer than it was: " + words[500].markdown),
        InsertText("new\n\nnewer", "before", words[20].id),
        Delete(words[300].id),
    ]
    for change in (*edits, Update(words[599].id, "last"), Update(words[0].id, "first")):
        place.apply([change])
        (block,) = place.store.blocks([words[400].id]).values()
        assert block.markdown == words[400].markdown
    now = place.store.children(document)
    assert parsed == []
    place.again()
    assert place.store.children(document) == now
    assert parsed == [len(place.get("Note.md"))]


@pytest.mark.slow
def test_the_state_is_less_than_twice_the_notes(place: Place) -> None:
    size = 0
    for number in range(20):
        part = PART + "Words of part {0}, as many as people write. " * 12 + "\n\n"
        text = "".join(part.format(number * 100 + at) for at in range(20))
        place.put(f"a{number % 4}/n{number}.md", text)
        size += len(text)
    place.store.search("part", 1)
    for document in place.store.documents(place.box, 100):
        assert len(place.store.children(document.id)) == 80
    place.store.close()
    state = sum(path.stat().st_size for path in place.state.rglob("*") if path.is_file())
    assert state < 2 * size


def test_a_daily_note_is_where_it_should_be(place: Place) -> None:
    day = time.struct_time((2026, 2, 3, 4, 5, 6, 1, 34, 0))
    place.again(daily="log/%Y-%m-%d", today=lambda: day)
    prepared = place.store.prepare_daily_note(place.box, "a\n\nb")
    made = [(str(file.path), file.created) for file in prepared.files]
    assert made == [("log/2026-02-03.md", True)]
    ((note, *blocks),) = place.make(prepared)
    assert place.inside(note) == blocks
    assert len(blocks) == 2
    assert place.get("log/2026-02-03.md") == b"a\n\nb\n"


@pytest.mark.parametrize("restarted", [False, True])
def test_ids_of_many_edits_stay_when_somebody_else_writes(place: Place, restarted: bool) -> None:
    """A sidecar is saved every few edits; the steps since then lead to the newest rows."""
    place.put("Many.md", "first words of all\n\nlast words of all\n")
    document = place.document("Many")
    at = place.store.children(document.id)[0].id
    ids: list[str] = []
    for number in range(20):
        place.apply([InsertText(f"paragraph of number {number}", "after", at)])
        at = place.store.around(at).next_id
        ids.append(at)
    place.apply([Delete(ids[-2])])
    if restarted:
        place.again()
    text = place.get("Many.md").decode()
    place.put("Many.md", text.replace("last words", "other words") + "\nand one more\n")
    now = place.inside(document.id)
    assert now[1:-2] == [*ids[:-2], ids[-1]]
    assert place.nearest(ids[-2]) == ids[-3]


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("taken_back", [False, True])
@pytest.mark.parametrize("planned", [False, True])
def test_ids_of_what_was_just_written_stay_when_somebody_else_writes(
    place: Place, restarted: bool, taken_back: bool, planned: bool
) -> None:
    """Whatever was only planned after it, or taken back before the file changed."""
    place.put("Note.md", "first words\n\nmiddle words\n\nlast words\n")
    document, middle = place.document("Note").id, place.block("middle words")
    place.apply([Update(middle, "Quite another sentence stands here, which the desk wrote.")])
    written = place.apply([InsertText("a new one\n\nand another", "after", middle)])
    ids = place.inside(document)
    if taken_back:
        take_files_back(place.files, written)
        del ids[2:4]
    if planned:
        place.store.prepare([Delete(middle), InsertText("never written", "first_in", document)])
        place.store.prepare([Update(ids[0], "nor this")])
    if restarted:
        place.again()
    text = place.get("Note.md").decode()
    place.put("Note.md", text.replace("last words", "final words") + "\nmore\n")
    assert place.inside(document)[:-1] == ids


WORD_MORE = {
    "今天去买牛奶和面包": "鸡蛋",
    "思源笔记是一款本地优先的个人知识管理系统，支持块级引用。": "开源的",
    "会议改到星期三下午三点": "紧急",
    "第一次会议记录：讨论了预算、时间表、人员、地点、风险。": "和质量",
    "我喜欢读书": "很",
    "今日は牛乳を買いに行きました。": "豆乳と",
    "会議は水曜日の午後三時に変更されました": "急に",
    "これはテストです": "単純な",
    "部品の発注、検査、組立、試験、出荷、請求まで確認した。": "、梱包",
    "buy milk and bread today ": "soon",
    "buy now ": "milk",
}


@pytest.mark.slow
def test_a_word_more_costs_no_id_in_any_script(place: Place) -> None:
    around = "# {0}\n\nbefore\n\n{1}\n\nafter\n"
    for row, (text, word) in enumerate(WORD_MORE.items()):
        half = len(text) // 2
        for at, new in enumerate((text + word, f"{word} {text}", text[:half] + word + text[half:])):
            name = f"Note {row} {at}"
            place.put(f"{name}.md", around.format(at, text))
            document = place.document(name).id
            before = place.inside(document)
            place.put(f"{name}.md", around.format(at, new))
            assert place.inside(document) == before, new


def test_lists_and_searches_by_name_and_folder(place: Place) -> None:
    place.put("Top.md", "---\ntitle: The Roof\n---\nkiwi\n")
    for name in ("Top/One.md", "Top/sub/Two.md", "other/One.md"):
        place.put(name, "kiwi\n\nkiwi again\n")
    place.put("wide.md", "kiwi".encode("utf-16"))
    for within, paths in (
        (Within(), ["Top.md", "Top/One.md", "Top/sub/Two.md", "other/One.md"]),
        (Within("roof"), ["Top.md"]),
        (Within("top"), ["Top.md"]),
        (Within("one"), ["Top/One.md", "other/One.md"]),
        (Within(folder="The Roof"), ["Top/One.md", "Top/sub/Two.md"]),
        (Within(folder="top/sub"), ["Top/sub/Two.md"]),
        (Within("one", "top"), ["Top/One.md"]),
        (Within("nowhere"), []),
    ):
        listed = place.store.documents(place.box, 9, within)
        assert sorted(one.path for one in listed) == paths
        assert listed.total == len(paths)
        some = place.store.documents(place.box, 1, within)
        assert (some.total, tuple(some)) == (len(paths), tuple(listed[:1]))
        found = place.store.search("kiwi", 99, within)
        assert sorted({one.path for one in found}) == paths
        assert place.store.search("kiwi", 1, within).total == found.total == len(found)
