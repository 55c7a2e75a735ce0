"""What only a store of a kernel has to get right: the kernel's ways, and its other clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from copydesk.errors import ContentChanged, InvalidArgs
from copydesk.notes.kernel.api import Address, Kernel, KernelHttp
from copydesk.notes.kernel.blocks import HeldBlocks
from copydesk.notes.protocol import (
    BlockChanged,
    BlockText,
    Delete,
    InsertText,
    NotebookNotFound,
    NotesRolledBack,
    NotesTorn,
    NotInvertible,
    Prepared,
    Restore,
    Update,
)
from support.fake_kernel import FakeKernel
from support.fake_kernel.kramdown import Node, fresh_id, kramdown, parse
from support.fake_kernel.split import split
from support.note_stores import Home, Op, changes_of, store_of
from support.rows import each_row

VERSIONS = ("3.1.4", "3.5.0", "3.7.3")


class Desk(Home):
    """A home whose kernel is at hand."""

    kernel: FakeKernel

    def make(self, document: str, *ops: Op) -> object:
        return self.apply(changes_of(ops, self.paths(document)))[1]

    def texts(self, document: str) -> list[str]:
        return [block.markdown for block in self.store.children(document)]


@pytest.fixture(scope="module")
def server() -> Iterator[FakeKernel]:
    with FakeKernel() as kernel:
        yield kernel


def open_desk(kernel: FakeKernel, version: str) -> Desk:
    kernel.reset(version)
    desk = Desk(store_of(kernel), kernel.box())
    desk.kernel = kernel
    return desk


@pytest.fixture
def desk(server: FakeKernel) -> Iterator[Desk]:
    opened = open_desk(server, "3.7.3")
    yield opened
    opened.store.close()


@pytest.fixture(params=VERSIONS)
def each(server: FakeKernel, request: pytest.FixtureRequest) -> Iterator[Desk]:
    opened = open_desk(server, request.param)
    yield opened
    opened.store.close()


@each_row("markdown ops after", [
    ("a\n\nb", [("before", "1", "n\n\nm\n\no")], ["a", "n", "m", "o", "b"]),
    ("a\n\nb", [("first_in", "doc", "n\n\nm")], ["n", "m", "a", "b"]),
    ("{{{row\na\n\nb\n}}}", [("first_in", "0", "n\n\nm")], ["{{{row\nn\n\nm\n\na\n\nb\n\n}}}"]),
    ("- [ ] a", [("first_in", "0.0", "n\n\nm")], ["- [ ] n\n\n  m\n\n  a"]),
    ("- a\n- b", [("before", "0.1", "- n\n- m")], ["- a\n- n\n- m\n- b"]),
    ("1. a\n2. b", [("after", "0.0", "1. n\n2. m")], ["1. a\n2. n\n3. m\n4. b"]),
    ("- a\n- b", [("after", "0.1", "- n\n  - m\n- o")], ["- a\n- b\n- n\n\n  - m\n- o"]),
])  # fmt: skip
def test_no_block_of_several_is_dropped(
    each: Desk, markdown: str, ops: list[Op], after: list[str]
) -> None:
    document = each.document(markdown)
    each.make(document, *ops)
    assert each.texts(document) == after


@pytest.mark.parametrize(("new", "piece"), [
    ("new\n\nsecond", lambda text: split(text)[0]._replace(markdown=text)),
    ("new", lambda text: BlockText("h", "h1", text)),
])  # fmt: skip
def test_what_a_wrong_split_would_drop_or_take_for_another_kind_is_no_success(
    desk: Desk, new: str, piece: Callable[[str], BlockText]
) -> None:
    """The kernel keeps the first block of an update, whatever we took the text for."""
    document = desk.document("a\n\nb")
    store = store_of(desk.kernel, split=lambda text: (piece(text),) if text == new else split(text))
    a, _ = desk.store.children(document)
    before = desk.kernel.all()
    for change in (Update(a.id, new), InsertText(new, "after", a.id)):
        with pytest.raises(NotesRolledBack):
            store.execute(store.prepare([change]))
        assert desk.kernel.all() == before
    store.close()


def test_behind_a_folded_heading_is_not_behind_its_section(each: Desk) -> None:
    document = each.document("# H\n\na\n\n# G")
    heading, _, _ = each.store.children(document)
    each.kernel.node(heading.id).attributes["fold"] = "1"
    each.apply([InsertText("n\n\nm", "after", heading.id)])
    assert each.texts(document) == ["# H", "n", "m", "a", "# G"]


@pytest.mark.slow
def test_the_seventh_of_ten_fails_and_nothing_is_left(each: Desk) -> None:
    _, paths = each.laid("\n\n".join(f"p{n}\n\n> q{n}" for n in range(10)))
    before = each.kernel.all()
    ops: list[Op] = []
    for number in range(10):
        ops.append(
            [
                ("update", f"{2 * number}", f"new {number}"),
                ("delete", f"{2 * number + 1}"),
                ("after", f"{2 * number}", f"more {number}"),
                ("last_in", f"{2 * number + 1}", f"inner {number}"),
            ][number % 4]
        )
    prepared = each.store.prepare(changes_of(ops, paths))
    for fault in ("ignored", "panic", "refused", "hung_up"):
        each.kernel.habits.begin(at_7=fault)
        with pytest.raises(NotesRolledBack) as caught:
            each.store.execute(prepared)
        assert caught.value.index == 6
        assert each.kernel.all() == before
    each.kernel.habits.begin()
    done = each.store.execute(prepared)
    assert each.kernel.habits.writes == 10
    each.store.execute(each.store.prepare(done.undo))
    assert each.kernel.all() == before


def test_a_read_that_fails_after_a_write_is_no_success(desk: Desk) -> None:
    document = desk.document("a\n\nb")
    a, b = desk.store.children(document)
    prepared = desk.store.prepare([Update(a.id, "new"), Delete(b.id)])
    desk.kernel.habits.begin(at_2="gone")
    with pytest.raises(NotesTorn) as caught:
        desk.store.execute(prepared)
    assert {a.id, b.id} <= set(caught.value.left)


def test_what_is_written_is_not_waited_for_but_flushed(desk: Desk) -> None:
    def fails(seconds: float) -> None:
        raise AssertionError("nothing has to be waited for")

    document = desk.document("a\n\n- x\n- y\n\n> q")
    store = store_of(desk.kernel, pause=fails)
    ops: list[Op] = [
        ("delete", "1.0"),
        ("update", "0", "b"),
        ("last_in", "2", "n"),
        ("delete", "1.1"),
    ]
    done = store.execute(store.prepare(changes_of(ops, desk.paths(document))))
    store.execute(store.prepare(done.undo))
    store.execute(store.prepare_document(desk.box, document, "T", "x"))
    store.close()


def test_nothing_but_a_search_asks_the_index(desk: Desk) -> None:
    document = desk.document("# H\n\na")
    desk.make(document, ("after", "1", "fresh"), ("delete", "0"))
    desk.store.breadcrumb(document)
    desk.store.outline(document)
    assert desk.kernel.calls.statements == []
    assert [block.markdown for block in desk.store.search("fresh", 5)] == ["fresh"]
    assert len(desk.kernel.calls.statements) == 1


def test_what_the_index_still_names_is_not_found(desk: Desk) -> None:
    document = desk.document("fig\n\nfig tree\n\nfig leaf")
    calls = desk.kernel.calls
    calls.flush()
    first, second, _ = desk.kernel.node(document).children
    stale = list(calls.rows)
    calls.space.delete(first.id)  # by another, a moment ago
    second.text = "a plum tree"
    calls.flush = lambda: setattr(calls, "rows", stale)  # type: ignore[method-assign]
    assert [block.markdown for block in desk.store.search("fig", 5)] == ["fig leaf"]


def test_a_search_sees_what_another_has_just_written(desk: Desk) -> None:
    document = desk.document("plum")
    (node,) = desk.kernel.node(document).children
    node.text = "quince"
    assert [block.id for block in desk.store.search("quince", 5)] == [node.id]


@pytest.mark.parametrize("version", VERSIONS)
def test_sql_is_read_only_where_that_can_be_said(server: FakeKernel, version: str) -> None:
    desk = open_desk(server, version)
    desk.document("x' OR 1=1; DELETE FROM blocks; --")
    assert desk.store.search("'; DELETE FROM blocks; --", 5) == ()
    (body,) = desk.kernel.calls.statements
    assert body.get("mode") == ("readonly" if version == "3.7.3" else None)
    assert body["stmt"].startswith("SELECT id FROM blocks WHERE ")
    assert desk.store.search("x' DELETE", 5)[0].markdown.startswith("x' OR")
    desk.store.close()


def test_nothing_is_appended(each: Desk) -> None:
    document = each.document("# H\n\na\n\n- x")
    each.make(document, ("last_in", "doc", "n"), ("last_in", "2", "- y"), ("after", "0", "m"))
    assert not {"/api/block/appendBlock", "/api/block/prependBlock"} & set(each.kernel.habits.calls)


ATTRIBUTES = {
    "bookmark": "b",
    "name": "n",
    "memo": 'a "b"\n<c>',
    "custom-mine": "1 & 2",
    "style": "x",
}


@pytest.mark.slow
@each_row("markdown path text kept", [
    ("a", "0", "b", set(ATTRIBUTES)),
    ("# a", "0", "# b", {*ATTRIBUTES, "fold"}),
    ("# a", "0", "b", set(ATTRIBUTES)),
    ("- a\n- b", "0.1", "- c", {*ATTRIBUTES, "fold"}),
    ("> a", "0", "> b\n> c", {*ATTRIBUTES, "fold"}),
])  # fmt: skip
def test_attributes_survive_an_update(
    each: Desk, markdown: str, path: str, text: str, kept: set[str]
) -> None:
    document = each.document(markdown)
    block_id = each.paths(document)[path]
    node = each.kernel.node(block_id)
    node.attributes |= ATTRIBUTES | ({"fold": "1"} if node.kind != "p" else {})
    before = each.kernel.all()
    prepared, done = each.apply([Update(block_id, text)])
    assert each.kernel.node(block_id).attributes.keys() - {"updated"} == kept
    assert ATTRIBUTES.items() <= each.kernel.node(block_id).attributes.items()
    shown = each.store.blocks([block_id])[block_id].attributes
    assert shown == {name: value for name, value in ATTRIBUTES.items() if name != "style"}
    each.take_back(prepared, done)
    assert each.kernel.all() == before


def test_attributes_that_cannot_be_kept_are_no_success(desk: Desk) -> None:
    document = desk.document("a")
    (a,) = desk.store.children(document)
    desk.kernel.node(a.id).attributes["custom-mine"] = "1"
    before = desk.kernel.all()
    prepared = desk.store.prepare([Update(a.id, "b")])
    desk.kernel.habits.begin(at_1="stripped", at_2="stripped")
    with pytest.raises(NotesRolledBack):
        desk.store.execute(prepared)
    assert desk.kernel.all() == before


@pytest.mark.parametrize(("text", "at", "new"), [
    ("a\n\nb\n\nc", 1, "other"),  # whose blanks Markdown would lose
    ("> a\n>\n> - b\n>   - c\n\nd", 0, "> n"),  # with all ids inside
])  # fmt: skip
def test_what_comes_back_is_what_an_editor_had(desk: Desk, text: str, at: int, new: str) -> None:
    block_id = desk.store.children(desk.document(text))[at].id
    node = desk.kernel.node(block_id)
    if node.children:
        node.children[1].children[0].attributes["bookmark"] = "deep"
    else:
        node.text = "one\n  two"
    before = desk.kernel.all()
    for change in (Update(block_id, new), Delete(block_id)):
        prepared, done = desk.apply([change])
        assert desk.kernel.all() != before
        desk.take_back(prepared, done)
        assert desk.kernel.all() == before


@each_row("name", ["custom-avs", "custom-riff-decks", "custom-sy-av-s-text-20260101120000-abcdefg"])
def test_what_is_bound_to_a_database_is_not_touched(desk: Desk, name: str) -> None:
    _, paths = desk.laid("a\n\n> b")
    for bound, others in (("0", ["0"]), ("1.0", ["1.0", "1"])):
        desk.kernel.node(paths[bound]).attributes[name] = "20260101120000-abcdefg"
        for path in others:
            for op in (("delete", path), ("update", path, "> n" if path == "1" else "n")):
                with pytest.raises(NotInvertible):
                    desk.store.prepare(changes_of([op], paths))
    assert desk.store.prepare([InsertText("n", "after", paths["0"])])  # beside it is nothing to it


@each_row("node", [
    Node("", "<<<<<<< HEAD\na\n=======\nb\n>>>>>>> x"),
    Node("av", '<div data-type="NodeAttributeView" data-av-id="x"></div>'),
    Node("p", "two\n\nblocks"),
    Node("p", '<iframe src="x"></iframe>'),
    Node("html", "<p>x</p>"),
    Node("t", "|a|\n|-|\n|b|"),
])  # fmt: skip
def test_what_its_own_text_would_not_make_is_not_touched(desk: Desk, node: Node) -> None:
    document = desk.document("a")
    node.id = fresh_id()
    desk.kernel.node(document).children.append(node)
    desk.kernel.calls.flush()
    for change in (Update(node.id, "n"), Delete(node.id)):
        with pytest.raises(NotInvertible):
            desk.store.prepare([change])


FORBIDDEN = [
    'a\n{: id="20260101120000-abcdefg"}', 'a\n{: id="x"}', 'a\n  {: bookmark="x"}',
    '> a\n> {: id="20260101120000-abcdefg"}', '- {: id="20260101120000-abcdefg"}a',
    '- {: custom-avs="x"}a', '1. a\n   {: memo="x"}', "<<<<<<< HEAD\na\n=======\nb\n>>>>>>> x",
    "a\n\n<<<<<<< SEARCH\nb\n=======\nc\n>>>>>>> REPLACE",
]  # fmt: skip

ALLOWED = [
    '```\n{: id="20260101120000-abcdefg"}\n```', "```\n<<<<<<< HEAD\na\n=======\nb\n>>>>>>> x\n```",
    '- x\n\n  ```\n  {: id="x"}\n  ```', "the list {: id=1 } of", "x\n=======\ny",
    '**b**{: style="color:red"} and more',
]  # fmt: skip


@each_row("markdown", FORBIDDEN)
def test_text_that_sets_ids_or_holds_conflicts_is_not_sent(desk: Desk, markdown: str) -> None:
    document = desk.document("a")
    (a,) = desk.store.children(document)
    for change in (Update(a.id, markdown), InsertText(markdown, "after", a.id)):
        with pytest.raises(InvalidArgs):
            desk.store.prepare([change])
    with pytest.raises(InvalidArgs):
        desk.store.prepare_document(desk.box, "", "T", markdown)


@each_row("markdown line", [
    ("a\n\n```py more words\nx\n```", 3),
    ("~~~js {1,2}\nx\n~~~", 1),
    ("- a\n\n  ```py title=x y\n  x\n  ```", 3),
])  # fmt: skip
def test_words_that_a_fence_would_lose_are_told_with_their_line(
    desk: Desk, markdown: str, line: int
) -> None:
    document = desk.document("a")
    (a,) = desk.store.children(document)
    for change in (Update(a.id, markdown), InsertText(markdown, "after", a.id)):
        with pytest.raises(InvalidArgs, match=f"behind the fence of line {line}"):
            desk.store.prepare([change])
    with pytest.raises(InvalidArgs, match=f"line {line}"):
        desk.store.prepare_document(desk.box, "", "T", markdown)
    assert desk.store.prepare([Update(a.id, "```py\nx ```py more words\n```")])


@pytest.mark.slow
@each_row("markdown", ALLOWED)
def test_text_that_only_speaks_of_them_is_sent(desk: Desk, markdown: str) -> None:
    document = desk.document("a")
    (a,) = desk.store.children(document)
    _, done = desk.apply([InsertText(markdown, "after", a.id)])
    (made,) = done.ids[0]
    (block,) = desk.store.blocks([made]).values()
    assert block.markdown == markdown


@pytest.mark.slow
def test_undo_and_redo_as_often_as_one_likes(desk: Desk) -> None:
    document = desk.document("a\n\n- x\n- y\n\n> q")
    before = desk.kernel.all()
    paths = desk.paths(document)
    ops: list[Op] = [
        ("update", "0", "b"),
        ("delete", "1.0"),
        ("delete", "1.1"),
        ("last_in", "2", "n\n\n- m"),
        ("delete", "2.0"),
    ]
    done = desk.store.execute(desk.store.prepare(changes_of(ops, paths)))
    after = desk.kernel.all()
    for _ in range(3):
        done = desk.store.execute(desk.store.prepare(done.undo))
        assert desk.kernel.all() == before
        done = desk.store.execute(desk.store.prepare(done.undo))
        assert desk.kernel.all() == after


@each_row(
    "op", [("update", "0", "b"), ("after", "0", "n"), ("delete", "0"), ("update", "1", "> n")]
)
def test_undo_does_not_run_over_what_came_later(desk: Desk, op: Op) -> None:
    document = desk.document("a\n\n> q")
    _, done = desk.apply(changes_of([op], desk.paths(document)))
    if op[0] == "delete":
        assert isinstance(done.undo[0], Restore)
        desk.kernel.node(document).children.append(Node("p", "somebody's", id=done.undo[0].id))
    else:
        desk.kernel.node(done.ids[0][0]).text = "somebody's"
        for below in desk.kernel.node(done.ids[0][0]).children:
            below.text = "somebody's"
    before = desk.kernel.all()
    with pytest.raises(BlockChanged):
        desk.store.prepare(done.undo)
    assert desk.kernel.all() == before


def test_what_is_no_preparation_of_this_store(desk: Desk) -> None:
    a, b = desk.store.children(desk.document("a\n\nb"))
    with pytest.raises(InvalidArgs):
        desk.store.prepare([Restore(a.id, kramdown(desk.kernel.node(b.id)))])
    with pytest.raises(InvalidArgs):
        desk.store.execute(Prepared((), {}, {}))
    assert isinstance(desk.store.prepare([]).held, HeldBlocks)


def test_what_goes_between_preparing_and_executing_is_seen(desk: Desk) -> None:
    document = desk.document("a\n\nb\n\nc")
    a, b, c = desk.store.children(document)
    prepared = desk.store.prepare([InsertText("n", "after", a.id), Update(b.id, "B")])
    desk.kernel.node(document).children.pop(0)  # a went
    desk.kernel.calls.flush()
    before = desk.kernel.all()
    with pytest.raises((NotesRolledBack, ContentChanged)):
        desk.store.execute(prepared)
    assert desk.kernel.all() == before
    assert c.id in before


def test_another_who_writes_beside_is_left_alone(desk: Desk) -> None:
    """What somebody else put into the container meanwhile is neither ours nor in the way."""
    document = desk.document("a\n\nb\n\nc")
    a, _, c = desk.store.children(document)
    prepared = desk.store.prepare([Update(a.id, "A"), InsertText("C", "after", c.id)])
    desk.kernel.habits.begin(at_2="ignored")
    answer = desk.kernel.calls.answer

    def meanwhile(path: str, body: dict[str, object], fault: object) -> object:
        if path == "/api/block/updateBlock" and len(desk.kernel.node(document).children) == 3:
            desk.kernel.node(document).children.append(Node("p", "typed"))
        return answer(path, body, fault)  # type: ignore[arg-type]

    desk.kernel.calls.answer = meanwhile  # type: ignore[method-assign]
    with pytest.raises(NotesRolledBack):
        desk.store.execute(prepared)
    assert desk.texts(document) == ["a", "b", "c", "typed"]


def test_a_document_without_all_its_text_is_no_success(desk: Desk) -> None:
    before = desk.kernel.all()
    for fault in ("cut", "cleared"):
        desk.kernel.habits.begin(at_1=fault)
        with pytest.raises(NotesRolledBack):
            desk.document("one long line of words")
        assert desk.kernel.all() == before


def test_closed_notebooks_are_listed_and_not_written(desk: Desk) -> None:
    closed = desk.kernel.box("Closed", closed=True)
    assert [notebook.closed for notebook in desk.store.notebooks()] == [False, True]
    for call in (
        lambda: desk.store.prepare_daily_note(closed),
        lambda: desk.store.prepare_document(closed, "", "T", ""),
    ):
        with pytest.raises(NotebookNotFound) as caught:
            call()
        assert caught.value.closed
    with pytest.raises(InvalidArgs):  # a parent in another notebook
        desk.store.prepare_document(desk.kernel.box("Other"), desk.document("a"), "T", "")


def test_what_the_kernel_refuses_is_told_and_not_done(desk: Desk) -> None:
    desk.kernel.calls.space.boxes[0].daily = "/"
    with pytest.raises(NotesRolledBack, match="save path"):
        desk.daily_note()
    parent = ""
    for depth in range(7):
        parent = desk.document("a", f"T{depth}", parent)
    before = desk.kernel.all()
    with pytest.raises(NotesRolledBack, match="deep"):
        desk.document("a", "T7", parent)
    desk.kernel.habits.read_only = True
    (a,) = desk.store.children(parent)
    with pytest.raises(NotesRolledBack, match="read-only"):
        desk.apply([Update(a.id, "b")])
    assert desk.kernel.all() == before


def test_titles_are_told_as_they_are_read(desk: Desk) -> None:
    document = desk.document("# A & <b>\n\nx", 'R&D  "plan" <1>')
    (block,) = desk.store.blocks([document]).values()
    assert block.content == 'R&D "plan" <1>'
    assert [heading.text for heading in desk.store.outline(document)] == ["A & <b>"]
    names = [crumb.name for crumb in desk.store.breadcrumb(desk.store.children(document)[1].id)]
    assert names == ["Notes", 'R&D "plan" <1>', "A & <b>", ""]


def test_large_documents_are_read_in_few_calls(desk: Desk) -> None:
    document = desk.document("\n\n".join(f"p{number}" for number in range(300)))
    desk.kernel.habits.begin()
    children = desk.store.children(document)
    assert len(children) == 300
    assert all(block.updated for block in children)
    assert len(desk.kernel.habits.calls) < 10
    desk.kernel.habits.begin()
    desk.apply([Update(children[150].id, "new")])
    assert len(desk.kernel.habits.calls) < 30


def test_twenty_five_notebooks_are_listed_in_few_calls(desk: Desk) -> None:
    for number in range(24):
        desk.kernel.document(desk.kernel.box(f"Box {number}"), "One", "a")
    desk.kernel.document(desk.box, "One", "a")
    desk.kernel.habits.begin()
    listed = [desk.store.documents(one.id, 10) for one in desk.store.notebooks()]
    assert [len(each) for each in listed] == [1] * 25
    assert len(desk.kernel.habits.calls) <= 60


def test_the_fake_and_the_split_agree_with_themselves() -> None:
    for markdown in (
        "a\n\n- b\n  - c\n\n> d\n> - e",
        "1. a\n\n   b\n2. c",
        "{{{col\na\n\n- [x] b\n}}}",
    ):
        nodes = parse(markdown)
        text = "\n\n".join(kramdown(node) for node in nodes)
        assert "\n\n".join(kramdown(node) for node in parse(text)) == text


def test_only_what_a_kernel_tells_as_done_is_taken_for_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A rollback deletes what was written; an answer may name other blocks beside it."""
    done, inner, other = (f"20260101000000-aaaaaa{number}" for number in range(3))
    operation = {"id": done, "data": f'<div data-node-id="{done}"><div data-node-id="{inner}">'}
    answer = [{"doOperations": [operation], "undoOperations": [{"id": other}]}]
    monkeypatch.setattr(Kernel, "version", lambda _: (3, 7, 3))
    monkeypatch.setattr(KernelHttp, "ask", lambda *_: answer)
    kernel = Kernel(KernelHttp(Address.of("http://127.0.0.1:1"), ""))
    assert kernel.delete(done) == {done, inner}
