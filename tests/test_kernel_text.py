"""What may be sent, what is read back, and whether it is the same: pure functions."""

from __future__ import annotations

import sqlite3

import pytest

from copydesk.errors import ContentRequired, InvalidArgs, Refusal
from copydesk.notes.kernel.api import holding_words, literal
from copydesk.notes.kernel.blocks import (
    KernelNode,
    attributes_of,
    changing,
    checked,
    differing,
    escaped_code,
    mark_of,
    same,
    same_text,
    shown,
    to_keep,
    unbroken,
    without_attributes,
)
from copydesk.notes.protocol import BlockText, for_place, for_update, is_id, new_id
from support.fake_kernel.kramdown import kramdown, parse, restart
from support.rows import each_row

SAME = [
    ("a b", "a b"),
    ("a\nb", "a\n\nb"),
    ("* a\n+ b", "- a\n- b"),
    ("1) a\n1) b", "1. a\n2. b"),
    ("_a_ __b__", "*a* **b**"),
    ("x^2^ ~y~", "x<sup>2</sup> <sub>y</sub>"),
    ("- [x] a", "- [X] a"),
    ("|a|b|\n|---|:-:|\n|c|d|", "| a | b |\n| --- | :-: |\n| c | d |"),
    ("~~~py\nx\n~~~", "```py\nx\n```"),
    ("a &amp; b", "a & b"),
    ("<http://x.y>", "[http://x.y](http://x.y)"),
    ("![a](b c.png)", "![a](b%20c.png)"),
    ("fine :smile:", "fine 😄"),
    ("a<br/>b", "a\nb"),
    ("狐狸**跑**了", "狐狸​**跑**​了"),
    ("> [!NOTE] T\n> x", "> [!NOTE] ✏️ T\n> x"),
    ("((20260101120000-abcdefg))", '((20260101120000-abcdefg "20260101120000-abcdefg"))'),
    ("a", 'a\n{: id="20260101120000-abcdefg" custom-x="other words"}'),
    ("---", "---"),
]

OTHER = [
    ("a b c", "a b"),
    ("a b", "a b c"),
    ("a b", "a c"),
    ("a a", "a"),
    ("in the docs\nfolder", "in the docsfolder"),
    ("one\n\ntwo", "one"),
    ("狐狸", "狐"),
    ("a", ""),
    ("```x 19.1\ny\n```", "```x\ny\n```"),
]


@each_row("written read", SAME)
def test_the_kernels_own_spelling_is_no_difference(written: str, read: str) -> None:
    assert differing(written, read) == ""


@each_row("written read", OTHER)
def test_words_that_went_or_came_are_a_difference(written: str, read: str) -> None:
    assert differing(written, read)


@each_row("markdown sent", [
    ("a **b\nc** d\ne", "a **b c** d\ne"),
    ("a *b\nc* ~~d\ne~~ ==f\ng==", "a *b c* ~~d e~~ ==f g=="),
    ("a [b\nc](d)\n[e\nf]", "a [b c](d)\n[e\nf]"),
    ("> a **b\n> c** d", "> a **b c** d"),
    ("- a _b  \n  c_ d", "- a _b c_ d"),
    ("a_b\nc_d 2 * 3\n4 * 5", "a_b\nc_d 2 * 3\n4 * 5"),
    ("```\n**a\nb**\n```", "```\n**a\nb**\n```"),
    ("棕**色\n狐**狸", "棕**色 狐**狸"),
])  # fmt: skip
def test_lines_within_marks_are_joined_by_a_blank(markdown: str, sent: str) -> None:
    assert unbroken(markdown) == sent


def test_texts_are_the_same_but_for_blanks_around() -> None:
    assert same_text("a\nb", "\n\na  \r\nb\t\n\n")
    assert not same_text("a\nb", "a\n\nb")
    assert not same_text(" a", "a")
    assert not same_text("a", "A")


FORBIDDEN = ["a\0b", "\udc80", '{: id="x"}', '  {:: a="b"}', '-   {: a="b"} c', ">> {: a=b}"]
ALLOWED = ["", "{: }", "{: a}", 'a {: id="x"}', "`{: a=b}`", "    x\n~~~\n{: a=b}\n~~~", "<<<<<< a"]
STILL_OPEN = ["```\nx\n```\n{: a=b}", "``` x`y\n{: a=b}", "````\n```\n````\n{: a=b}"]


@each_row("markdown", FORBIDDEN + STILL_OPEN)
def test_what_must_not_be_sent(markdown: str) -> None:
    with pytest.raises(InvalidArgs):
        checked(markdown)


@each_row("markdown", ALLOWED)
def test_what_may_be_sent(markdown: str) -> None:
    assert checked(markdown) == markdown


def image(markdown: str, **attributes: str) -> str:
    """The first block of a text, as kramdown, with ids that begin again each time."""
    restart()
    node = parse(markdown)[0]
    node.attributes |= attributes
    return kramdown(node)


def test_when_a_block_was_changed_counts_for_nothing() -> None:
    one, other = image("- a", updated="20260101000000"), image("- a", updated="20260101000001")
    assert one != other
    assert mark_of(one) == mark_of(other)
    assert same(one, other)


@each_row("one other", [
    (image("a"), image("A")),
    (image("a"), image("# a")),
    (image("*a*"), image("**a**")),
    (image("a", memo="x"), image("a", memo="y")),
    (image("a", memo="x"), image("a")),
    (image("a"), image("a").replace("0000001", "0000002")),
    (image("> a\n>\n> b"), image("> a\n> b")),
    (image("```\n  a\n```"), image("```\na\n```")),
    (image("a\nb"), image("a b")),
    (image("a") + "\n" + image("a"), image("a")),
])  # fmt: skip
def test_images_that_differ(one: str, other: str) -> None:
    assert not same(one, other)
    assert mark_of(one) != mark_of(other)


def test_blanks_within_a_line_are_the_kernels_own() -> None:
    one, other = image("**a**  b"), image("**a**   b ")
    assert one != other
    assert same(one, other)
    assert same(image("a `b` c"), image("a `b`\u200b c"))  # it sets them beside code and images


def test_attributes_are_read_by_block() -> None:
    found = attributes_of(image("- a", memo='x "y"\n{z}', bookmark="&<>"))
    item, paragraph, whole = sorted(found.values(), key=lambda pairs: len(pairs))[:3]
    assert len(item) == len(paragraph) == 1
    assert shown(whole) == {"memo": 'x "y"\n{z}', "bookmark": "&<>"}


def test_of_another_kind_only_the_users_attributes_are_kept() -> None:
    had = {"id": "x", "updated": "1", "fold": "1", "memo": "m", "custom-a": "b", "data-task": "-"}
    assert to_keep(had, same_kind=True) == {"fold": "1", "memo": "m", "custom-a": "b"}
    assert to_keep(had, same_kind=False) == {"memo": "m", "custom-a": "b"}


def test_the_text_of_an_image() -> None:
    assert without_attributes(image("> a\n> b")) == "> a\n> b"
    assert without_attributes(image("- a\n- b")) == "- a\n- b"


LINE = '{: id="20260101120000-abcdefg"}'
CODE = '<span data-type="code">{}</span>'


@each_row("one other", [
    (f"a {CODE.format('b')}\u200b c", f"a {CODE.format('b')} c"),
    (f"a{CODE.format('b')}\u200b\u200b", f"a\u200b{CODE.format('b')}"),
    (f"|{CODE.format('b')}|", f"|{CODE.format('b')}\u200b|"),
    (f"|{CODE.format('b')}|\n| ---|\n|c|", f"|{CODE.format('b')}\u200b|\n| ----|\n|c|"),
    (CODE.format("b & c"), CODE.format("b &amp; c")),
    (CODE.format("b &lt; c"), CODE.format("b < c")),
])  # fmt: skip
def test_zero_width_blanks_and_escaped_signs_beside_marks_are_no_difference(
    one: str, other: str
) -> None:
    one, other = f"{one}\n{LINE}", f"{other}\n{LINE}"
    assert same(one, other)
    assert mark_of(one) == mark_of(other)
    assert changing(one, "") == changing(other, "")


def test_an_escape_that_is_shown_is_a_difference() -> None:
    one, other = (f"{CODE.format(text)}\n{LINE}" for text in ("&amp;lt;", "&lt;"))
    assert not same(one, other)
    assert mark_of(one) != mark_of(other)


def test_tags_that_code_speaks_of_are_escaped_before_they_are_sent() -> None:
    dom = '<td><span data-type="code">\u200b<q1> AND &lt;q2&gt; & x</span></td>'
    escaped = dom.replace("<q1>", "&lt;q1&gt;").replace(" & ", " &amp; ")
    assert escaped_code(dom) == escaped_code(escaped) == escaped


@each_row("text dom why", [
    (f"- {LINE}a\n  {LINE}\n  - {LINE}b\n    {LINE}", "", "a list without blank lines"),
    (f"- {LINE}a\n  {LINE}\n\n  - {LINE}b\n    {LINE}", "", ""),
    (f"- {LINE}a\n  {LINE}\n  ```\n  b\n  ```\n  {LINE}", "", "a list without blank lines"),
    (f"- {LINE}a\n  {LINE}\n\n  ```\n  b\n  ```\n  {LINE}\n{LINE}", "", ""),
    (f"- {LINE}a\n  {LINE}\n- {LINE}b\n  {LINE}", "", ""),
    ("|a|\n| -|\n|b|", "", "a table without widths"),
    ("|a|\n| :-: |\n|b|", "", "a table without widths"),
    ('|a|\n| -|\n|b|\n{: colgroup=""}', "", ""),
    ('<iframe src="x" style="width: 1px"></iframe>', "", "the style of a frame"),
    ('![a](b){: style="x" parent-style="y"}', "", "the style of an image"),
    ('![a](b){: style="x"}', "", ""),
    ("<p>a</p>", '<protyle-html data-content="&lt;p&gt;a">', "HTML without <div>"),
    ("<div>a</div>", '<protyle-html data-content="&lt;div&gt;a">', ""),
    ("{{a\n}}", '<div data-content="a\n">', "blanks around a diagram, a formula or a query"),
    ("```\n  a\n```", "", ""),
    ("```mermaid\n  a\n```", '<div data-type="NodeCodeBlock" class="render-node">',
        "blanks around a diagram, a formula or a query"),
])  # fmt: skip
def test_what_the_kernel_would_change(text: str, dom: str, why: str) -> None:
    assert changing(text if text.endswith("}") else f"{text}\n{LINE}", dom) == why


@each_row(
    "text", ["", "a", "'", "''", "a'b", "'; DROP TABLE t; --", "\\", "%", "_", '"', "狐\u2028"]
)
def test_a_literal_is_the_text(text: str) -> None:
    base = sqlite3.connect(":memory:")
    try:
        assert base.execute(f"SELECT {literal(text)}").fetchone() == (text,)
    finally:
        base.close()


@each_row("words", [[], ["a\0"], ["\udc80"], ["w"] * 17])
def test_a_search_that_cannot_be(words: list[str]) -> None:
    with pytest.raises(InvalidArgs):
        holding_words(words)


def test_a_search_is_one_select() -> None:
    statement = f"SELECT id FROM blocks WHERE {holding_words(['a;b', '--', '/*'])}"
    base = sqlite3.connect(":memory:")
    base.execute("CREATE TABLE blocks (id, box, type, content, markdown, updated)")
    base.execute("INSERT INTO blocks VALUES ('1', '2', 'p', 'a;b -- /*', '', '')")
    try:
        assert base.execute(statement).fetchall() == [("1",)]
    finally:
        base.close()


def test_ids() -> None:
    assert is_id(new_id())
    assert new_id() != new_id()
    for wrong in ("", "20260101120000-ABCDEFG", "20260101120000-abcdef", " 20260101120000-abcdefg"):
        assert not is_id(wrong)
    assert not is_id("20260101120000-abcdefg\n")
    assert not is_id("２0260101120000-abcdefg")


ITEM = BlockText("i", "u", "- a")
LIST = BlockText("l", "u", "- a\n- a", (ITEM, ITEM))
TEXT = BlockText("p", "", "a")


@each_row("pieces subtype found", [
    ([TEXT, LIST], None, (TEXT, LIST)),
    ([LIST], "u", (ITEM, ITEM)),
    ([LIST, LIST], "u", (ITEM,) * 4),
    ([LIST], "o", InvalidArgs),
    ([LIST, TEXT], "u", InvalidArgs),
    ([], None, ContentRequired),
    ([], "u", ContentRequired),
    ([BlockText("l", "u", "")], "u", ContentRequired),
])  # fmt: skip
def test_pieces_for_a_place(
    pieces: list[BlockText], subtype: str | None, found: tuple[BlockText, ...] | type[Refusal]
) -> None:
    if isinstance(found, type):
        with pytest.raises(found):
            for_place(pieces, subtype)
        return
    assert for_place(pieces, subtype) == found
    if len(found) == 1:
        assert for_update(pieces, subtype) == found[0]
    else:
        with pytest.raises(InvalidArgs):
            for_update(pieces, subtype)


TREES = [
    "- a\n\n  b\n- c", "1. a\n2. b", "- [ ] a\n- [X] b", "> a\n>\n> b", "{{{col\na\n\nb\n\n}}}",
]  # fmt: skip


@each_row("markdown", [*TREES, "> [!NOTE] T\n> a\n>\n> b", "> - a\n>\n>   - b\n> - c"])
def test_the_text_of_an_open_container_is_its_own(markdown: str) -> None:
    from support.fake_kernel.split import split

    def opened(piece: BlockText) -> KernelNode:
        node = KernelNode("", piece.kind, piece.subtype, piece.markdown)
        if piece.children:
            node.children = [opened(child) for child in piece.children]
        return node

    (piece,) = split(markdown)
    assert opened(piece).text() == piece.markdown == markdown
