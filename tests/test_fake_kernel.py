"""The fake kernel behaves as the real one was seen to: the findings that the store is made against."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from copydesk.notes.kernel.api import Address, AnswerLost, KernelHttp, KernelRefused
from support.fake_kernel import FakeKernel
from support.fake_kernel.kramdown import Node
from support.rows import each_row

TEXT = "# H\n\na\n\n- x\n- y"


class Talk:
    def __init__(self, kernel: FakeKernel) -> None:
        self.kernel = kernel
        self.document = kernel.document(kernel.box(), "T", TEXT)
        self.ids = [child.id for child in kernel.node(self.document).children]
        self.http = KernelHttp(Address.of(kernel.url), kernel.token)

    def ask(self, call: str, **body: object) -> Any:
        return self.http.ask(f"/api/{call}", body)

    def write(self, call: str, **body: object) -> Any:
        return self.ask(f"block/{call}", dataType="markdown", **body)

    def texts(self) -> list[str]:
        return [row["markdown"] for row in self.ask("block/getChildBlocks", id=self.document)]

    def found(self, text: str) -> int:
        """How many blocks the index has with this text."""
        return len(self.ask("query/sql", stmt=f"SELECT id FROM blocks WHERE markdown = '{text}'"))


@pytest.fixture(scope="module")
def server() -> Iterator[FakeKernel]:
    with FakeKernel() as kernel:
        yield kernel


@pytest.fixture(params=["3.1.4", "3.7.3"])
def talk(server: FakeKernel, request: pytest.FixtureRequest) -> Iterator[Talk]:
    server.reset(request.param)
    made = Talk(server)
    yield made
    made.http.close()


def test_an_update_keeps_the_first_block_and_no_attributes(talk: Talk) -> None:
    talk.ask("attr/setBlockAttrs", id=talk.ids[1], attrs={"memo": "m"})
    told = talk.write("updateBlock", id=talk.ids[1], data="b\n\nc")
    assert told[0]["doOperations"][0]["id"] == talk.ids[1]
    assert talk.texts() == ["# H", "b", "- x\n- y"]
    assert "memo" not in talk.ask("attr/getBlockAttrs", id=talk.ids[1])


def test_what_is_not_there_is_skipped_without_a_word(talk: Talk) -> None:
    nowhere = "20200101000000-nowhere"
    assert talk.write("insertBlock", previousID=nowhere, data="b")[0]["doOperations"][0]["id"] == ""
    assert talk.write("deleteBlock", id=nowhere)
    with pytest.raises(KernelRefused):
        talk.write("updateBlock", id=nowhere, data="b")
    assert talk.ask("block/getBlockKramdown", id=nowhere)["kramdown"] == ""
    assert talk.ask("block/getChildBlocks", id=nowhere) == []


def test_a_deletion_is_not_waited_for_and_the_index_lags(talk: Talk) -> None:
    talk.write("updateBlock", id=talk.ids[1], data="b")
    talk.write("deleteBlock", id=talk.ids[2])
    assert talk.texts() == ["# H", "b", "- x\n- y"]
    assert (talk.found("a"), talk.found("b")) == (1, 0)
    talk.ask("sqlite/flushTransaction")
    assert talk.texts() == ["# H", "b"]
    assert (talk.found("a"), talk.found("b")) == (0, 1)


def test_a_missing_field_is_a_panic_that_is_called_success(talk: Talk) -> None:
    assert talk.write("updateBlock", id=talk.ids[1]) is None
    assert talk.write("updateBlock", id=talk.ids[1], data='b\n{: id="x"}') is None
    assert talk.texts()[1] == "a"


def test_ids_in_a_text_are_taken(talk: Talk) -> None:
    mine = "20250101000000-abcdefg"
    talk.write("insertBlock", previousID=talk.ids[1], data=f'b\n{{: id="{mine}" memo="m"}}')
    assert talk.ask("attr/getBlockAttrs", id=mine)["memo"] == "m"
    with pytest.raises(KernelRefused):
        talk.write("insertBlock", previousID=mine, data='c\n{: id="20250101000000-ABCDEFG"}')


def test_append_to_a_leaf_or_a_heading(talk: Talk) -> None:
    new = talk.kernel.habits.version == "3.7.3"
    for at in (1, 0):
        if new:
            with pytest.raises(KernelRefused):
                talk.write("appendBlock", parentID=talk.ids[at], data=f"n{at}")
        else:
            talk.write("appendBlock", parentID=talk.ids[at], data=f"n{at}")
    assert talk.texts() == (
        ["# H", "a", "- x\n- y"] if new else ["# H", "a", "n1", "- x\n- y", "n0"]
    )


def test_of_several_blocks_beside_another_the_first_survives(talk: Talk) -> None:
    item = talk.kernel.node(talk.ids[2]).children[0]
    talk.write("insertBlock", previousID=item.id, data="- n\n- m")
    assert talk.texts()[2] == "- x\n- n\n- y"
    talk.write("insertBlock", nextID=talk.ids[1], data="n\n\nm")  # all of them in new kernels
    new = talk.kernel.habits.version == "3.7.3"
    assert talk.texts()[1:-1] == (["n", "m", "a"] if new else ["n", "a"])


def test_a_document_that_is_deleted_stays(talk: Talk) -> None:
    talk.write("deleteBlock", id=talk.document)
    talk.ask("sqlite/flushTransaction")
    assert talk.texts()[1] == "a"
    assert talk.kernel.calls.space.unbound == 1


def test_blocks_that_are_not_there_in_tree_infos(talk: Talk) -> None:
    told = talk.ask("block/getBlockTreeInfos", ids=["20200101000000-nowhere"])
    assert [row["type"] for row in told.values()] == (
        [] if talk.kernel.habits.version == "3.7.3" else [""]
    )


def test_conflict_markers_become_a_block_of_no_kind(talk: Talk) -> None:
    talk.write("insertBlock", previousID=talk.ids[1], data="<<<<<<< a\nb\n=======\nc\n>>>>>>> d")
    rows = talk.ask("block/getChildBlocks", id=talk.document)
    assert [row["type"] for row in rows] == ["h", "p", "", "l"]


def test_documents_of_one_title_and_parents_that_are_made(talk: Talk) -> None:
    box = talk.kernel.calls.space.boxes[0].id
    for _ in range(2):
        talk.ask("filetree/createDocWithMd", notebook=box, path="/T/U", markdown="")
    hpaths = [talk.kernel.calls.space.hpath(one) for one in talk.kernel.calls.space.documents]
    assert [hpath for hpath in hpaths if hpath != "/"] == ["/T", "/T/U", "/T/U"]
    talk.ask("filetree/createDocWithMd", notebook=box, path="/V/W", markdown="")
    assert talk.kernel.calls.space.hpath(talk.kernel.calls.space.documents[-2]) == "/V"


def test_attributes_come_in_another_order_each_time(talk: Talk) -> None:
    talk.ask("attr/setBlockAttrs", id=talk.ids[1], attrs={"memo": "m", "bookmark": "b"})
    told = {talk.ask("block/getBlockKramdown", id=talk.ids[1])["kramdown"] for _ in range(4)}
    assert len(told) > 1


def test_a_query_that_it_cannot_print_and_a_call_that_is_none_have_no_answer(talk: Talk) -> None:
    like = r"SELECT id FROM blocks WHERE content LIKE '%a%' ESCAPE '\'"
    assert talk.ask("query/sql", stmt=like) is None
    assert talk.found("a") == 1
    with pytest.raises(AnswerLost):
        talk.ask("block/explode")


def test_an_empty_container_goes_but_a_callout_stays(talk: Talk) -> None:
    text = "> q\n\n- x\n\n{{{row\ns\n\n}}}\n\n> [!NOTE] T\n> c"
    document = talk.kernel.document(talk.kernel.calls.space.boxes[0].id, "E", text)
    for child in list(talk.kernel.node(document).children):
        talk.ask("block/deleteBlock", id=child.children[0].id)
    assert [node.kind for node in talk.kernel.node(document).children] == ["callout"]


@each_row("written read", [
    ("a **b\nc** d", "a **bc** d"),
    ("a *b\nc* d\ne", "a *bc* d\ne"),
    ("[b\nc](d)", "[bc](d)"),
    ("```py more words\nx\n```", "```py\nx\n```"),
    ("|a|b|\n|---|---|", "|a|b|\n|---|---|"),
])  # fmt: skip
def test_what_it_eats(talk: Talk, written: str, read: str) -> None:
    talk.write("updateBlock", id=talk.ids[1], data=written)
    assert talk.texts()[1] == read


@each_row("written kind read", [
    ('# a <img src="b" alt="c">', "h", "# a ![c](b)"),
    ('# a <img src="b" width="5">', "h", '# a ![](b){: style="width: 5px;"}'),
    ("<p>a</p>", "p", "<p>a</p>"),
    ("<div>a</div>", "html", "<div>a</div>"),
    ('<iframe src="a"></iframe>', "iframe", '<iframe src="a"></iframe>'),
])  # fmt: skip
def test_what_it_takes_for_another_block(talk: Talk, written: str, kind: str, read: str) -> None:
    talk.write("insertBlock", previousID=talk.ids[0], data=written)
    row = talk.ask("block/getChildBlocks", id=talk.document)[1]
    assert (row["type"], row["markdown"]) == (kind, read)


def test_a_dom_is_exact_but_has_one_form(talk: Talk) -> None:
    document = talk.kernel.node(talk.document)
    old = [Node("html", "<p>a</p>"), Node("t", "|a|\n|-|\n|b|"), Node("p", "a\n  b")]
    document.children = old[:]
    for node in old:
        told = talk.ask("block/getBlockDOM", id=node.id)["dom"]
        body = {"dataType": "dom", "data": told, "id": node.id}
        talk.ask("block/updateBlock", **body)
    assert talk.texts() == ["<div>\n<p>a</p>\n</div>", "|a|\n|-|\n|b|", "a\n  b"]
    assert "colgroup" in talk.ask("attr/getBlockAttrs", id=old[1].id)


def test_a_memo_is_a_remark_in_markdown(talk: Talk) -> None:
    memo = '<span data-type="inline-memo" data-inline-memo-content="m">b</span>'
    talk.write("updateBlock", id=talk.ids[1], data=f"a {memo}")
    assert talk.texts()[1] == "a b<sup>(m)</sup>"
    for mode, text in (("md", "a b<sup>(m)</sup>"), ("textmark", f"a {memo}")):
        told = talk.ask("block/getBlockKramdown", id=talk.ids[1], mode=mode)
        assert told["kramdown"].startswith(text)
