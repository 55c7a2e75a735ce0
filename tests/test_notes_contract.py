"""The contract of stores of notes, for every store.

A live kernel takes part when SIYUAN_URL and SIYUAN_TOKEN are set; its notebook is removed in the end.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import pytest

from copydesk.errors import ContentChanged, ContentRequired, InvalidArgs, Refusal
from copydesk.notes.kernel.api import KernelHttp
from copydesk.notes.kernel.blocks import plain
from copydesk.notes.protocol import (
    BlockNotFound,
    Delete,
    InsertText,
    InvalidBlockId,
    Move,
    NotebookNotFound,
    NotInvertible,
    Side,
    Update,
    Within,
    WrongBlockKind,
)
from support.cost import spread
from support.note_stores import (
    EVERY,
    Home,
    Op,
    Opening,
    another_word,
    changes_of,
    drawn,
    fake_home,
    folder_home,
    live_home,
    stored,
)
from support.rows import each_row

NOWHERE = "20200101000000-nowhere"

LIVE = {"SIYUAN_URL", "SIYUAN_TOKEN"} <= os.environ.keys()
HOMES: dict[str, Opening] = {
    "fake 3.1.4": lambda: fake_home("3.1.4"),
    "fake 3.7.3": lambda: fake_home("3.7.3"),
    "folder": folder_home,
}
if LIVE:
    HOMES["live"] = lambda: live_home(os.environ["SIYUAN_URL"], os.environ["SIYUAN_TOKEN"])


@pytest.fixture(params=HOMES)
def home(request: pytest.FixtureRequest) -> Iterator[Home]:
    with HOMES[request.param]() as opened:
        yield opened


NOTE = "# H\n\na\n\n- x\n- y\n\n> q\n>\n> r\n\n## G\n\nz"

MADE: dict[str, tuple[str, list[Op], list[str]]] = {
    "a paragraph": ("a\n\nb", [("update", "1", "c *d*")], ["0 p a", "1 p c *d*"]),
    "another kind": ("a\n\nb", [("update", "0", "# A")], ["0 h # A", "1 p b"]),
    "a container": ("> a\n\nb", [("update", "0", "> c\n>\n> d")],
        ["0 b", "  + p c", "  + p d", "1 p b"]),
    "in a container": ("> a\n>\n> b", [("update", "0.1", "c")], ["0 b", "  0.0 p a", "  0.1 p c"]),
    "an item": ("- a\n- b\n- c", [("update", "0.1", "- d")],
        ["0 l", "  0.0 i", "    0.0.0 p a", "  0.1 i", "    + p d", "  0.2 i", "    0.2.0 p c"]),
    "before": ("a\n\nb", [("before", "1", "n")], ["0 p a", "+ p n", "1 p b"]),
    "after": ("a\n\nb", [("after", "0", "n")], ["0 p a", "+ p n", "1 p b"]),
    "after the last": ("a", [("after", "0", "n")], ["0 p a", "+ p n"]),
    "several after": ("a\n\nb", [("after", "0", "n\n\n## m\n\no")],
        ["0 p a", "+ p n", "+ h ## m", "+ p o", "1 p b"]),
    "several before": ("a\n\nb", [("before", "0", "n\n\nm\n\no")],
        ["+ p n", "+ p m", "+ p o", "0 p a", "1 p b"]),
    "the second after stands nearer": ("a\n\nb", [("after", "0", "n"), ("after", "0", "m")],
        ["0 p a", "+ p m", "+ p n", "1 p b"]),
    "first in": ("a", [("first_in", "doc", "n\n\nm")], ["+ p n", "+ p m", "0 p a"]),
    "last in": ("a", [("last_in", "doc", "n\n\nm")], ["0 p a", "+ p n", "+ p m"]),
    "in a quote": ("> a\n\nb", [("last_in", "0", "n"), ("first_in", "0", "m")],
        ["0 b", "  + p m", "  0.0 p a", "  + p n", "1 p b"]),
    "behind a heading's line": ("# H\n\na", [("after", "0", "n")], ["0 h # H", "+ p n", "1 p a"]),
    "items in a list": ("- a", [("last_in", "0", "- n\n- m"), ("first_in", "0", "- o")],
        ["0 l", "  + i", "    + p o", "  0.0 i", "    0.0.0 p a", "  + i", "    + p n", "  + i",
        "    + p m"]),
    "items beside an item": ("- a\n- b", [("after", "0.0", "- n\n- m")],
        ["0 l", "  0.0 i", "    0.0.0 p a", "  + i", "    + p n", "  + i", "    + p m", "  0.1 i",
        "    0.1.0 p b"]),
    "in an item": ("- a", [("last_in", "0.0", "n")],
        ["0 l", "  0.0 i", "    0.0.0 p a", "    + p n"]),
    "gone": ("a\n\nb\n\nc", [("delete", "1")], ["0 p a", "2 p c"]),
    "a heading's line gone": ("# H\n\na\n\nb", [("delete", "0")], ["1 p a", "2 p b"]),
    "an item gone": ("- a\n- b", [("delete", "0.0")], ["0 l", "  0.1 i", "    0.1.0 p b"]),
    "the list gone with its last item": ("a\n\n- b\n- c\n\nd",
        [("delete", "1.0"), ("delete", "1.1")], ["0 p a", "2 p d"]),
    "an empty document": ("a", [("delete", "0")], ["+ p"]),
    "an empty item": ("- a\n- b", [("delete", "0.0.0")],
        ["0 l", "  0.0 i", "    + p", "  0.1 i", "    0.1.0 p b"]),
    "two in a row": ("a\n\nb\n\nc", [("delete", "0"), ("delete", "1")], ["2 p c"]),
    "written, then beside it": ("a\n\nb",
        [("update", "0", "c"), ("after", "0", "n"), ("before", "0", "m")],
        ["+ p m", "0 p c", "+ p n", "1 p b"]),
    "beside it, then gone": ("a\n\nb", [("after", "0", "n"), ("delete", "0")], ["+ p n", "1 p b"]),
    "twice": ("a", [("update", "0", "b"), ("update", "0", "c")], ["0 p c"]),
    "what it says already": ("a\n\nb", [("update", "0", "a")], ["0 p a", "1 p b"]),
    "code": ("a\n\n```py\nx\n```", [("update", "1", "```py\ny\n\n@@z@@\n```")],
        ["0 p a", "1 c ```py\ny\n\n@@z@@\n```"]),
    "all over": (NOTE,
        [("update", "1", "b"), ("delete", "2.0"), ("after", "3.0", "n"), ("update", "4", "## F")],
        ["0 h # H", "1 p b", "2 l", "  2.1 i", "    2.1.0 p y", "3 b", "  3.0 p q", "  + p n",
        "  3.1 p r", "4 h ## F", "5 p z"]),
}  # fmt: skip


KEPT = {
    "an item": ["0 l", "  0.0 i", "    0.0.0 p a", "  0.1 i", "    0.1.0 p d", "  0.2 i",
        "    0.2.0 p c"],
}  # fmt: skip
"""In a kernel a block that takes the place of one of its kind, one for one, has its id."""


@pytest.mark.parametrize("name", spread(MADE, of=5))
def test_changes_are_made_and_taken_back(home: Home, name: str) -> None:
    markdown, ops, after = MADE[name]
    if home.back is None:
        after = KEPT.get(name, after)
    document = home.document(markdown)
    blocks = home.walk(document)
    paths = {"doc": document} | {path: block.id for path, block in blocks}
    prepared, done = home.apply(changes_of(ops, paths))
    now = home.walk(document)
    assert drawn(now, paths) == after
    assert len(done.ids) == len(ops)
    there = {block.id for _, block in now}
    for (op, *_), left in zip(ops, done.ids, strict=True):
        assert bool(left) == (op != "delete")
        assert there.issuperset(left) or name == "beside it, then gone"
    home.take_back(prepared, done)
    assert drawn(home.walk(document), paths) == drawn(blocks, paths)


REFUSED: dict[str, tuple[list[Op], type[Refusal]]] = {
    "an id that cannot be": ([("update", "x'; --", "b")], InvalidBlockId),
    "an id too long": ([("delete", f"{NOWHERE}0")], InvalidBlockId),
    "a block that is not there": ([("update", NOWHERE, "b")], BlockNotFound),
    "an anchor that is not there": ([("after", NOWHERE, "b")], BlockNotFound),
    "gone already": ([("delete", "1"), ("update", "1", "b")], BlockNotFound),
    "beside what is gone": ([("delete", "1"), ("after", "1", "b")], BlockNotFound),
    "gone with its container": ([("delete", "3"), ("update", "3.0", "b")], BlockNotFound),
    "in what was written": ([("update", "3", "> n"), ("update", "3.0", "b")], BlockNotFound),
    "a document written": ([("update", "doc", "b")], WrongBlockKind),
    "a document gone": ([("delete", "doc")], WrongBlockKind),
    "beside a document": ([("after", "doc", "b")], WrongBlockKind),
    "in a paragraph": ([("last_in", "1", "b")], WrongBlockKind),
    "in a heading": ([("first_in", "0", "b")], WrongBlockKind),
    "a paragraph in a list": ([("last_in", "2", "b")], InvalidArgs),
    "a paragraph beside an item": ([("after", "2.0", "b")], InvalidArgs),
    "an item as a paragraph": ([("update", "2.0", "b")], InvalidArgs),
    "an item as two": ([("update", "2.0", "- b\n- c")], InvalidArgs),
    "an item of another type": ([("after", "2.0", "1. b")], InvalidArgs),
    "a block as two": ([("update", "1", "b\n\nc")], InvalidArgs),
    "a block as none": ([("update", "1", " \n\n")], ContentRequired),
    "none beside": ([("after", "1", "")], ContentRequired),
    "half a character": ([("update", "1", "\ud800")], InvalidArgs),
    "the last of many": ([("update", "1", "b"), ("delete", NOWHERE)], BlockNotFound),
}


Note = tuple[dict[str, str], list[str]]


@pytest.fixture
def note(home: Home) -> Note:
    """The ids of a document by their places, and how it is drawn."""
    document, paths = home.laid(NOTE)
    return paths, home.drawn(document, paths)


@pytest.mark.slow
@each_row("ops refusal", REFUSED.values())
def test_what_cannot_be_made_is_refused_before_anything_is_written(
    home: Home, note: Note, ops: list[Op], refusal: type[Refusal]
) -> None:
    paths, before = note
    with pytest.raises(refusal):
        home.store.prepare(changes_of(ops, paths))
    assert home.drawn(paths["doc"], paths) == before


def test_preparing_writes_nothing_and_tells_both_texts(home: Home, note: Note) -> None:
    paths, before = note
    document, other = paths["doc"], home.document("a", "Other")
    prepared = home.store.prepare(changes_of([("update", "1", "new text"), ("delete", "5")], paths))
    assert home.drawn(document, paths) == before
    path = home.store.blocks([document])[document].path
    assert prepared.before.keys() == prepared.after.keys() == {path}
    old, new = (set(text[path].split("\n")) for text in (prepared.before, prepared.after))
    assert (old - new, new - old) == ({"a", "z"}, {"new text"})
    assert home.store.blocks([other])[other].path != path
    nothing, done = home.apply([])
    assert (dict(nothing.before), done.ids) == ({}, ())


def test_what_drifted_is_not_written(home: Home) -> None:
    document, paths = home.laid("a\n\nb\n\nc")
    prepared = home.store.prepare(changes_of([("update", "0", "A"), ("update", "1", "B")], paths))
    home.apply([Update(paths["1"], "elsewhere")])
    before = home.drawn(document, paths)
    with pytest.raises(ContentChanged):
        home.execute(prepared)
    assert home.drawn(document, paths) == before


def test_changes_of_two_documents_are_made_together(home: Home) -> None:
    one, two = home.document("a", "One"), home.document("b", "Two")
    (a,), (b,) = home.store.children(one), home.store.children(two)
    prepared, done = home.apply([Update(a.id, "A"), InsertText("n", "after", b.id)])
    assert len(prepared.before) == 2
    assert [block.markdown for block in home.store.children(one)] == ["A"]
    assert [block.markdown for block in home.store.children(two)] == ["b", "n"]
    home.take_back(prepared, done)
    assert [block.markdown for block in home.store.children(two)] == ["b"]


def test_blocks_are_told_as_they_are(home: Home) -> None:
    document, paths = home.laid(NOTE, "A title")
    wanted = [paths["1"], NOWHERE, document, paths["2.0"]]
    found = home.store.blocks(wanted)
    assert list(found) == [paths["1"], document, paths["2.0"]]
    note, leaf, item = found[document], found[paths["1"]], found[paths["2.0"]]
    assert (note.kind, note.content, note.markdown, note.parent_id) == ("d", "A title", "", "")
    assert (note.root_id, note.box) == (document, home.box)
    assert note.hpath == "/A title"
    assert (leaf.kind, leaf.markdown, leaf.content) == ("p", "a", "a")
    assert (leaf.parent_id, leaf.root_id, leaf.path) == (document, document, note.path)
    assert (item.kind, item.subtype, item.markdown, item.parent_id) == ("i", "u", "- x", paths["2"])
    assert all(len(block.created) == 14 for block in found.values())


def test_the_documents_of_a_notebook_are_listed_by_their_titles(home: Home) -> None:
    above = home.document("a", "Beta")
    for title, parent in (("Alpha", ""), ("Below", above)):
        home.document("a", title, parent)
    found = home.store.documents(home.box, 10)
    assert [block.hpath for block in found] == ["/Alpha", "/Beta", "/Beta/Below"]
    assert all(block.kind == "d" and block.box == home.box for block in found)
    assert home.store.documents(home.box, 1) == found[:1]
    with pytest.raises(NotebookNotFound):
        home.store.documents(NOWHERE, 10)


def test_children_are_in_order(home: Home, note: Note) -> None:
    paths, _ = note
    for path, kinds in {
        "doc": "h p l b h p",
        "0": "p l b h p",  # the section of a heading, with those below
        "4": "p",
        "2": "i i",
        "1": "",
    }.items():
        children = home.store.children(paths[path])
        assert " ".join(block.kind for block in children) == kinds
    assert {block.parent_id for block in home.store.children(paths["0"])} == {paths["doc"]}


def test_a_block_knows_where_it_stands(home: Home, note: Note) -> None:
    paths, _ = note
    for block_id, expected in (
        (paths["2"], (paths["doc"], paths["1"], paths["3"])),
        (paths["2.0"], (paths["2"], "", paths["2.1"])),
        (paths["doc"], ("", "", "")),
    ):
        around = home.store.around(block_id)
        assert (around.parent_id, around.previous_id, around.next_id) == expected


def test_an_outline_is_nested(home: Home) -> None:
    document = home.document("## A\n\n### B & C\n\n# D\n\n## E\n\n### F")
    a, d = home.store.outline(document)
    assert (a.text, a.subtype, [one.text for one in a.below]) == ("A", "h2", ["B & C"])
    assert [(one.text, one.below[0].text) for one in d.below] == [("E", "F")]
    assert home.store.outline(home.document("a", "Two")) == ()
    with pytest.raises(WrongBlockKind):
        home.store.outline(a.id)


def test_a_breadcrumb_leads_from_the_notebook_to_the_block(home: Home) -> None:
    parent = home.document("a", "Above")
    document, paths = home.laid(NOTE, "Below", parent)
    crumbs = home.store.breadcrumb(paths["5"])
    assert [crumb.id for crumb in crumbs] == [
        home.box, parent, document, paths["0"], paths["4"], paths["5"]
    ]  # fmt: skip
    assert [crumb.kind for crumb in crumbs] == ["", "d", "d", "h", "h", "p"]
    assert [crumb.name for crumb in crumbs[1:5]] == ["Above", "Below", "H", "G"]
    ids = [crumb.id for crumb in home.store.breadcrumb(paths["2.0.0"])]
    assert (ids[:4], ids[-1]) == ([home.box, parent, document, paths["0"]], paths["2.0.0"])
    assert [crumb.id for crumb in home.store.breadcrumb(document)] == [home.box, parent, document]


SOUGHT: dict[str, tuple[str, list[str]]] = {
    "a word": ("kiwi", ["2", "1"]),
    "all words, in any order": ("fig Kiwi", ["2"]),
    "part of a word": ("kiw", ["2", "1"]),
    "no word of it": ("plum", []),
    "one word of it": ("kiwi plum", []),
    "what SQL means something by": ("50% o_o 'x'", ["3"]),
    "not what it would mean": ("5%% o_o", []),
    "another script": ("狐狸", ["4"]),
    "case of another script": ("ÉTÉ", ["5"]),
    "a title": ("grove", ["doc"]),
}


def test_a_search_finds_blocks_with_all_words(home: Home) -> None:
    text = "apple\n\n- kiwi\n\n## Kiwi and fig\n\n50% o_o 'x'\n\n棕色狐狸\n\nun été"
    paths = home.paths(home.document(text, "Grove"))
    paths["1"] = paths["1.0.0"]
    for name, (query, expected) in SOUGHT.items():
        found = home.store.search(query, 10)
        assert [block.id for block in found] == [paths[path] for path in expected], name
        assert home.store.search(query, 1) == found[:1], name


def test_a_search_sees_what_was_just_written(home: Home) -> None:
    _, paths = home.laid("mangoq\n\npearq")
    home.apply([Update(paths["0"], "papayaq"), Delete(paths["1"])])
    found = [home.store.search(word, 5) for word in ("mangoq", "pearq", "papayaq")]
    assert [[block.id for block in blocks] for blocks in found] == [[], [], [paths["0"]]]
    with pytest.raises(InvalidArgs):
        home.store.search(" ", 5)


def test_an_id_that_leads_nowhere(home: Home) -> None:
    store = home.store
    for method in (store.children, store.around, store.outline, store.breadcrumb):
        with pytest.raises(BlockNotFound):
            method(NOWHERE)
        with pytest.raises(InvalidBlockId):
            method("../../etc/passwd")
    with pytest.raises(InvalidBlockId):
        store.blocks(["x"])


def test_a_document_is_made_where_it_should_be(home: Home) -> None:
    assert home.box in [notebook.id for notebook in home.store.notebooks() if not notebook.closed]
    top = home.made("Top", "# H\n\na")
    below = home.made("Below", "", top.id)
    assert (top.kind, top.content, top.hpath, top.box) == ("d", "Top", "/Top", home.box)
    assert (below.content, below.hpath) == ("Below", "/Top/Below")
    assert [block.markdown for block in home.store.children(top.id)] == ["# H", "a"]
    assert home.store.breadcrumb(below.id)[1].id == top.id


def test_preparing_a_document_makes_none(home: Home) -> None:
    prepared = home.store.prepare_document(home.box, "", "Not yet", "mango")
    assert home.store.search("mango", 5) == ()
    assert (prepared.changes, dict(prepared.before)) == ((), {})
    ((path, text),) = prepared.after.items()
    assert "mango" in text
    ((document, *blocks),) = home.execute(prepared).ids
    assert home.store.blocks([document])[document].path == path
    assert [home.store.children(document)[0].id] == blocks


def test_a_document_that_was_undone_is_made_again(home: Home) -> None:
    for text in ("mango\n\n- pear", "mango\n\n- pear", "other words"):
        prepared = home.store.prepare_document(home.box, "", "Again", text)
        done = home.execute(prepared)
        ((document, *blocks),) = done.ids
        assert [block.id for block in home.store.children(document)] == blocks
        if home.back is not None:
            home.back(prepared, done)
            assert home.store.blocks([document]) == {}


def test_equal_titles_mislead_nobody(home: Home) -> None:
    one, two = (home.made("Same", text) for text in ("a", "b"))
    assert one.id != two.id
    assert (one.content, two.content) == ("Same", "Same")
    assert [home.store.children(made.id)[0].markdown for made in (one, two)] == ["a", "b"]
    for parent in (one, two):
        below = home.made("Below", "c", parent.id)
        assert [crumb.id for crumb in home.store.breadcrumb(below.id)][1:] == [parent.id, below.id]


def test_documents_that_cannot_be(home: Home) -> None:
    document = home.document("a")
    (leaf,) = home.store.children(document)
    cases: list[tuple[tuple[str, str, str], type[Refusal]]] = [
        ((NOWHERE, "", "T"), NotebookNotFound),
        (("x", "", "T"), InvalidBlockId),
        ((home.box, NOWHERE, "T"), BlockNotFound),
        ((home.box, leaf.id, "T"), WrongBlockKind),
        ((home.box, "", " "), InvalidArgs),
        ((home.box, "", "a/b"), InvalidArgs),
        ((home.box, "", "a\0b"), InvalidArgs),
    ]
    for (box, parent, title), refusal in cases:
        with pytest.raises(refusal):
            home.store.prepare_document(box, parent, title, "quincunx")
    assert [block.id for block in home.store.search("quincunx", 5)] == []


def test_a_daily_note_is_made_once(home: Home) -> None:
    note = home.daily_note()
    assert (note.kind, note.box) == ("d", home.box)
    home.apply([InsertText("done", "last_in", note.id)])
    assert home.daily_note().id == note.id
    prepared = home.store.prepare_daily_note(home.box, "more\n\n# too")
    assert home.store.children(note.id)[-1].markdown == "done"
    ((document, *blocks),) = home.execute(prepared).ids
    assert document == note.id
    last = home.store.children(note.id)[-3:]
    assert [block.markdown for block in last] == ["done", "more", "# too"]
    assert [block.id for block in last[1:]] == blocks


def test_a_daily_note_is_made_with_its_text(home: Home) -> None:
    note = home.daily_note("first")
    assert home.store.children(note.id)[-1].markdown == "first"
    with pytest.raises(NotebookNotFound):
        home.store.prepare_daily_note(NOWHERE)
    with pytest.raises(InvalidArgs):
        home.store.prepare_daily_note(home.box, "\ud800")


def test_many_may_write_at_once(home: Home) -> None:
    documents = [home.document("a", f"Note {number}") for number in range(4)]

    def work(document: str) -> list[str]:
        for number in range(3):
            home.apply([InsertText(f"n{number}", "last_in", document)])
        return [block.markdown for block in home.store.children(document)]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, documents)) == [["a", "n0", "n1", "n2"]] * 4


KERNELS = pytest.mark.parametrize(
    "home", ["fake 3.7.3", *(["live"] if LIVE else [])], indirect=True
)
MEMO = '<span data-type="inline-memo" data-inline-memo-content="my memo">{}</span>'


def image(home: Home, block_id: str) -> str:
    """A block with ids, attributes and memos, as a kernel tells it; times left out."""
    body = {"id": block_id, "mode": "textmark"}
    told = home.ask("/api/block/getBlockKramdown", body)
    assert isinstance(told, dict)
    return plain(str(cast(dict[str, object], told)["kramdown"]))


def attribute(home: Home, block_id: str, **attributes: str) -> None:
    """Give a block attributes; those of one's own have names without their prefix."""
    named = {name if name in SHOWN else f"custom-{name}": attributes[name] for name in attributes}
    home.ask("/api/attr/setBlockAttrs", {"id": block_id, "attrs": named})


SHOWN = ("name", "alias", "memo", "bookmark")


@KERNELS
def test_an_edit_of_a_word_keeps_the_memo_of_another(home: Home) -> None:
    document, paths = home.laid(
        f"one {MEMO.format('two')} **three**\n\n- four {MEMO.format('five')}"
    )
    for path, old, new in (("0", "one", "uno"), ("1", "four", "vier"), ("1.0.0", "four", "vier")):
        before = image(home, document)
        (block,) = home.store.blocks([paths[path]]).values()
        assert "my memo" in block.markdown
        assert "<sup>" not in block.markdown
        prepared, done = home.apply([Update(block.id, block.markdown.replace(old, new))])
        assert image(home, block.id).count("data-inline-memo-content") == 1
        assert new in image(home, block.id)
        home.take_back(prepared, done)
        assert image(home, document) == before
        paths = home.paths(document)


@KERNELS
@pytest.mark.parametrize(("path", "count"), spread(("0", "1", "2", "3.0"), range(4), of=3))
def test_an_edit_is_taken_back_whatever_the_attributes(home: Home, path: str, count: int) -> None:
    text = "para\n\n# head\n\n|a|b|\n|---|---|\n|c|d|\n\n- item\n- more"
    new = {"0": "text", "1": "# top", "2": "|a|b|c|\n|---|---|---|\n|e|f|g|", "3.0": "- thing"}
    document = home.document(text)
    block_id = home.paths(document)[path]
    attribute(home, block_id, **dict(list(ATTRIBUTES.items())[:count]))
    before = image(home, document)
    for _ in range(3):
        prepared, done = home.apply([Update(block_id, new[path])])
        assert set(home.store.blocks([block_id])[block_id].attributes.values()) == set(
            list(ATTRIBUTES.values())[:count]
        )
        home.take_back(prepared, done)
        assert image(home, document) == before


ATTRIBUTES = {"bookmark": "b & c", "memo": 'm "n"\no', "mine": "1"}


@pytest.mark.slow
@KERNELS
@each_row("text gone left", [
    ("a\n\n> q", ["1.0"], ["0 p a"]),
    ("a\n\n> q\n>\n> r", ["1.0", "1.1"], ["0 p a"]),
    ("a\n\n> > q", ["1.0.0"], ["0 p a"]),
    ("a\n\n- x", ["1.0"], ["0 p a"]),
    ("a\n\n{{{row\ns\n\nt\n\n}}}", ["1.0", "1.1"], ["0 p a"]),
    ("a\n\n> [!NOTE] T\n> c", ["1.0"], ["0 p a", "1 callout"]),
    ("> q", ["0.0"], ["+ p"]),
    ("- > q", ["0.0.0.0"], ["0 l", "  0.0 i", "    + p"]),
])  # fmt: skip
def test_a_container_goes_with_the_last_block_in_it_and_comes_back(
    home: Home, text: str, gone: list[str], left: list[str]
) -> None:
    document, paths = home.laid(text)
    for path, block_id in paths.items():
        if path != "doc":
            attribute(home, block_id, bookmark=path)
    before = image(home, document)
    prepared, done = home.apply([Delete(paths[path]) for path in gone])
    assert home.drawn(document, paths) == left
    home.take_back(prepared, done)
    assert image(home, document) == before


@KERNELS
def test_the_document_of_a_notebook_is_not_listed(home: Home) -> None:
    home.document("a kiwi", "One")
    assert [block.hpath for block in home.store.documents(home.box, 10)] == ["/One"]
    (name,) = [each.name for each in home.store.notebooks() if each.id == home.box]
    found = home.store.search(name.split()[0], 50)
    assert home.box not in [block.id for block in found]


INSIDE: dict[str, tuple[str, str, str]] = {
    "a list": ("- one\n- two words\n  - three\n- four", "two words", "two other words"),
    "an item": ("- one\n- two words\n  - three", "two words", "two"),
    "an item of one word": ("- a\n- b\n- c", "- b", "- d"),
    "one more item": ("- one\n- two\n- three", "- two", "- two\n- new"),
    "a quote": ("> one words\n>\n> - two\n>\n> three", "> one words", "> one"),
    "a callout": ("> [!NOTE] T\n> one words\n>\n> two", "one words", "one more words"),
    "a super block": ("{{{row\none words\n\n- two\n\nthree\n\n}}}", "one words", "one"),
    "code in an item": ("- one\n\n  ```py\n  x\n  ```\n- [ ] two words", "two words", "two"),
    "a table in a quote": ("> a\n>\n> |b|c|\n> | ---| ---|\n> |d|e|", "> a", "> a b"),
}


@pytest.mark.slow
@KERNELS
@each_row("name", INSIDE)
def test_an_edit_of_a_container_keeps_what_is_still_in_it(home: Home, name: str) -> None:
    text, old, new = INSIDE[name]
    document, paths = home.laid(text)
    for path, block_id in paths.items():
        if path != "doc":
            attribute(home, block_id, bookmark=f"at {path}", mine="x & y")
    before = image(home, document)
    (block, *_) = home.store.children(document)
    prepared = home.store.prepare([Update(block.id, block.markdown.replace(old, new, 1))])
    assert prepared.notices == ()
    done = home.execute(prepared)
    after = {one.id: one.attributes for _, one in home.walk(document)}
    for path, block_id in paths.items():
        if path != "doc":
            assert after[block_id] == {"bookmark": f"at {path}", "custom-mine": "x & y"}
    home.take_back(prepared, done)
    assert image(home, document) == before


@KERNELS
def test_lines_within_marks_do_not_join_words(home: Home) -> None:
    document = home.document("one **two\nthree** four\n\n> a [b\n> c](d) e\n\nlast")
    texts = [block.markdown for block in home.store.children(document)]
    assert texts == ["one **two three** four", "> a [b c](d) e", "last"]
    paths = home.paths(document)
    home.apply([Update(paths["2"], "*x\ny* z"), InsertText("~~v\nw~~", "after", paths["2"])])
    assert [block.markdown for block in home.store.children(document)][2:] == ["*x y* z", "~~v w~~"]


@KERNELS
def test_a_memo_that_an_edit_drops_is_told(home: Home) -> None:
    document = home.document(f"one {MEMO.format('two')} three")
    (block,) = home.store.children(document)
    assert home.store.prepare([Update(block.id, f"uno {MEMO.format('two')}")]).notices == ()
    prepared = home.store.prepare([Update(block.id, "one two")])
    assert prepared.notices == (("memo", block.id, "my memo"),)


MOVED: dict[str, tuple[str, list[str], str, str, list[str]]] = {
    "after": ("a\n\nb\n\nc", ["0"], "after", "2", ["1 p b", "2 p c", "0 p a"]),
    "before": ("a\n\nb\n\nc", ["2"], "before", "0", ["2 p c", "0 p a", "1 p b"]),
    "a section": ("# A\n\na\n\n# B\n\nb", ["0", "1"], "last_in", "doc",
        ["2 h # B", "3 p b", "0 h # A", "1 p a"]),
    "to the start": ("a\n\nb\n\nc", ["1", "2"], "first_in", "doc", ["1 p b", "2 p c", "0 p a"]),
    "where it stands": ("a\n\nb", ["0"], "before", "1", ["0 p a", "1 p b"]),
    "into a quote": ("a\n\n> q", ["0"], "last_in", "1", ["1 b", "  1.0 p q", "  0 p a"]),
    "out of a quote": ("> a\n>\n> b", ["0.0"], "after", "0", ["0 b", "  0.1 p b", "0.0 p a"]),
    "the last of a quote": ("> a\n\nb", ["0.0"], "after", "1", ["1 p b", "0.0 p a"]),
    "out of a quote in a quote": ("> > a\n\nb", ["0.0.0"], "after", "0.0",
        ["0 b", "  0.0.0 p a", "1 p b"]),
    "all of a quote within it": ("> a\n\nb", ["0.0"], "first_in", "0",
        ["0 b", "  0.0 p a", "1 p b"]),
    "all of a document within it": ("a", ["0"], "last_in", "doc", ["0 p a"]),
    "an item": ("- a\n- b\n\nc\n\n- d", ["0.0"], "after", "2.0",
        ["0 l", "  0.1 i", "    0.1.0 p b", "1 p c", "2 l", "  2.0 i", "    2.0.0 p d", "  0.0 i",
        "    0.0.0 p a"]),
    "the last item": ("- a\n\nc\n\n- d", ["0.0"], "before", "2.0",
        ["1 p c", "2 l", "  0.0 i", "    0.0.0 p a", "  2.0 i", "    2.0.0 p d"]),
}  # fmt: skip


@pytest.mark.slow
@KERNELS
@each_row("name", MOVED)
def test_blocks_move_with_their_ids_and_back(home: Home, name: str) -> None:
    text, moved, side, anchor, after = MOVED[name]
    document, paths = home.laid(text)
    before = image(home, document)
    drawn_before = home.drawn(document, paths)
    ids = tuple(paths[path] for path in moved)
    prepared, done = home.apply([Move(ids, cast(Side, side), paths[anchor])])
    assert done.ids == (ids,)
    assert home.drawn(document, paths) == after
    home.take_back(prepared, done)
    assert home.drawn(document, paths) == drawn_before
    assert image(home, document) == before


@KERNELS
def test_blocks_move_to_another_document(home: Home) -> None:
    one, two = home.document("a", "One"), home.document("b", "Two")
    (a,), (b,) = home.store.children(one), home.store.children(two)
    prepared, done = home.apply([Move((a.id,), "before", b.id)])
    assert len(prepared.before) == 2
    assert [block.id for block in home.store.children(two)] == [a.id, b.id]
    assert [block.markdown for block in home.store.children(one)] == [""]
    home.take_back(prepared, done)
    assert [block.id for block in home.store.children(one)] == [a.id]
    assert [block.id for block in home.store.children(two)] == [b.id]


@KERNELS
@each_row("moved side anchor refusal", [
    (["doc"], "after", "0", WrongBlockKind),
    (["0"], "last_in", "1", WrongBlockKind),
    (["0", "2"], "after", "3", InvalidArgs),
    (["2"], "last_in", "2.0", InvalidArgs),
    (["1"], "after", "2.0", InvalidArgs),
    (["2.0"], "after", "1", InvalidArgs),
    (["2.0.0"], "after", "1", InvalidArgs),
    (["0"], "after", "0", InvalidArgs),
    (["0", "1"], "before", "1", InvalidArgs),
    ([NOWHERE], "after", "1", BlockNotFound),
])  # fmt: skip
def test_what_cannot_be_moved(
    home: Home, note: Note, moved: list[str], side: Side, anchor: str, refusal: type[Refusal]
) -> None:
    paths, _ = note
    with pytest.raises(refusal):
        home.store.prepare([Move(tuple(paths.get(one, one) for one in moved), side, paths[anchor])])


@KERNELS
def test_a_new_document_is_taken_back_while_it_is_unchanged(home: Home) -> None:
    prepared = home.store.prepare_document(home.box, "", "New", "one `two`\n\n- three")
    done = home.execute(prepared)
    ((document, first, _),) = done.ids
    home.apply([Update(first, "changed")])
    with pytest.raises(ContentChanged):
        home.store.prepare(done.undo)
    with pytest.raises(WrongBlockKind):
        home.store.prepare([Delete(document)])
    home.apply([Update(first, "one `two`")])
    below = home.execute(home.store.prepare_document(home.box, document, "Below", ""))
    with pytest.raises(ContentChanged):
        home.store.prepare(done.undo)
    home.execute(home.store.prepare(below.undo))
    removal = home.store.prepare(done.undo)
    assert "three" in "".join(removal.before.values())
    assert dict(removal.after) == {}
    home.execute(removal)
    assert home.store.blocks([document, first]) == {}


@KERNELS
def test_a_daily_note_that_was_made_is_taken_back_whole(home: Home) -> None:
    made = home.execute(home.store.prepare_daily_note(home.box, "first"))
    ((note, *_),) = made.ids
    more = home.execute(home.store.prepare_daily_note(home.box, "more"))
    assert home.store.children(note)[-1].markdown == "more"
    home.execute(home.store.prepare(more.undo))
    assert [block.markdown for block in home.store.children(note)][-1] == "first"
    home.execute(home.store.prepare(made.undo))
    assert home.store.blocks([note]) == {}


@KERNELS
def test_documents_are_found_by_name_and_folder(home: Home) -> None:
    above = home.document("a kiwi", "Work")
    for title in ("Plan 1", "Plan 2", "Other"):
        home.document("a kiwi", title, above)
    page = home.store.documents(home.box, 1)
    assert (len(page), page.total) == (1, 4)
    page = home.store.documents(home.box, 1, Within("plan", ""))
    assert ([one.hpath for one in page], page.total) == (["/Work/Plan 1"], 2)
    page = home.store.documents(home.box, 9, Within("", "work"))
    assert page.total == len(page) == 3
    found = home.store.search("kiwi", 9, Within("plan", "Work"))
    assert sorted(one.hpath for one in found) == ["/Work/Plan 1", "/Work/Plan 2"]


@KERNELS
def test_what_goes_from_a_container_is_told_before(home: Home) -> None:
    document, paths = home.laid("> one\n>\n> two\n>\n> three")
    prepared = home.store.prepare([Update(paths["0"], "> one\n>\n> three")])
    assert prepared.notices == (("ids", paths["0"], paths["0.1"]),)
    before = image(home, document)
    done = home.execute(prepared)
    assert [path for path, _ in home.walk(document)] == ["0", "0.0", "0.1"]
    assert [one.id for one in home.store.children(paths["0"])] == [paths["0.0"], paths["0.2"]]
    home.take_back(prepared, done)
    assert image(home, document) == before


@pytest.mark.slow
@KERNELS
def test_a_few_ids_of_a_long_document_are_little_to_read(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "\n\n".join(f"paragraph {number}\n\n- item" for number in range(300))
    document = home.document(f"# H\n\n{text}")
    every = [one.id for one in home.store.children(document)]
    read: list[int] = []
    exchange = KernelHttp._exchange  # pyright: ignore[reportPrivateUsage]

    def counted(http: KernelHttp, path: str, data: bytes, *, reads: bool) -> tuple[int, bytes]:
        status, answer = exchange(http, path, data, reads=reads)
        read.append(len(answer))
        return status, answer

    monkeypatch.setattr(KernelHttp, "_exchange", counted)
    ids = home.store.child_ids(document)
    assert len(ids) == len(every)
    assert ids.index(every[100]) == 100
    assert every[3] in ids
    assert document not in ids
    assert "begin" not in ids
    for part in (slice(0, 5), slice(300, 305), slice(-5, None), slice(598, 700), slice(4, 4)):
        assert list(ids[part]) == every[part]
    assert (ids[0], ids[-1], ids[299]) == (every[0], every[-1], every[299])
    assert sum(read) < 50_000
    assert list(ids) == every
    assert list(ids[10:40]) == every[10:40]


@KERNELS
def test_a_folded_heading_hides_no_id(home: Home) -> None:
    document = home.document("# A\n\n" + "\n\n".join(f"a{n}" for n in range(30)) + "\n\n# B\n\nb")
    every = [one.id for one in home.store.children(document)]
    home.ask("/api/attr/setBlockAttrs", {"id": every[0], "attrs": {"fold": "1"}})
    assert list(home.store.child_ids(document)[5:8]) == every[5:8]


@KERNELS
def test_many_new_texts_are_few_requests(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    document = home.document("\n\n".join(f"paragraph {number}" for number in range(120)))
    asked: list[str] = []
    ask = KernelHttp.ask

    def counted(http: KernelHttp, path: str, *rest: object, **named: object) -> object:
        asked.append(path)
        return ask(http, path, *rest, **named)  # type: ignore[arg-type]

    children = home.store.children(document)
    monkeypatch.setattr(KernelHttp, "ask", counted)
    prepared, done = home.apply([Update(one.id, f"new {one.markdown}") for one in children[10:110]])
    home.take_back(prepared, done)
    assert len(asked) < 60
    now = home.store.children(document)
    assert [one.markdown for one in now] == [one.markdown for one in children]


@pytest.mark.slow
@KERNELS
@pytest.mark.parametrize("number", range(1, 11 if LIVE else 2))
def test_every_block_comes_back_to_the_sign_or_is_refused_before(home: Home, number: int) -> None:
    """An edit, an insertion and a deletion of each block, and the undo of each.

    Each document is a test, since a real kernel takes minutes for one; a fake one does the same
    with each.
    """
    tried: Counter[str] = Counter()
    wrong: list[tuple[str, str, str]] = []
    document = home.document(EVERY.format(n=number), f"Every {number}")
    for path, block in home.walk(document):
        beside = {"u": "- n", "o": "1. n", "t": "- [ ] n"} if block.kind == "i" else {}
        for change in (
            Update(block.id, another_word(block.markdown)),
            InsertText(beside.get(block.subtype, "new"), "after", block.id),
            Delete(block.id),
        ):
            before = stored(home, document)
            name = f"{type(change).__name__} {block.kind}"
            try:
                prepared, done = home.apply([change])
            except NotInvertible as refused:
                tried["refused"] += 1
                why = str(refused)
            except Refusal as refused:
                tried["rolled back"] += 1
                why = str(refused)
            else:
                tried["made"] += 1
                why = "differs"
                home.take_back(prepared, done)
            if stored(home, document) != before:
                wrong.append((path, name, why))
        tried["blocks"] += 1
    print(dict(tried))
    assert wrong == []
    assert tried["made"] > 25 * tried["refused"]
    assert tried["blocks"] >= 50
