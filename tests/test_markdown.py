"""The blocks of Markdown in plain folders: kinds, places, texts, ids, sections."""

from __future__ import annotations

from copydesk.notes.markdown import Block, Tree, heading_of, markdown_of, parse, section
from support.markdown_texts import LUTE, name, outline
from support.rows import each_row

CASES = {
    "headings": (("# a", "h1"), ("#a", "p"), ("####### a", "p"), ("a\n===", "h1"),
        ("a\nb\n---", "h2"), ("---", "tb"), ("a\n***", "p tb"), ("    # a", "c"),
        ("> a\n---", "b(p) tb")),
    "code": (("```\na\n```\nb", "c p"), ("```\na", "c"), ("~~~ a`b\n~~~", "c"),
        ("    a\n\n    b\n\nc", "c p"), ("a\n    b", "p"), ("\ta", "c"),
        ("- a\n\n      b", "l-u(i-u(p c))"), ("-\t\tfoo", "l-u(i-u(c))"),
        ("-     a", "l-u(i-u(c))"), ("-    a", "l-u(i-u(p))")),
    "containers": (("> a\nb", "b(p)"), ("> a\n\n> b", "b(p) b(p)"), ("> > a\n> b", "b(b(p))"),
        ("- a\n- b", "l-u(i-u(p) i-u(p))"), ("- a\n* b", "l-u(i-u(p)) l-u(i-u(p))"),
        ("1. a\n2) b", "l-o(i-o(p)) l-o(i-o(p))"),
        ("- a\n  1. b\n- c", "l-u(i-u(p l-o(i-o(p))) i-u(p))"), ("-\n\n  a", "l-u(i-u) p"),
        ("a\n14. b", "p"), ("a\n01. b", "p l-o(i-o(p))"), ("> - a\n>   b", "b(l-u(i-u(p)))")),
    "tasks": (("- [ ] a\n- [x] b", "l-t(i-t(p) i-t(p))"), ("- [ ] a\n- b", "l-u(i-t(p) i-u(p))"),
        ("- [ ]", "l-u(i-u(p))"), ("- [ ]a", "l-u(i-u(p))"), ("1. [X] a", "l-t(i-t(p))"),
        ("- [ ]\n  a", "l-t(i-t(p))")),
    "tables": (("| a | b |\n|---|---|\n| 1 | 2 |", "t"), ("a | b\n- | -\nc", "p l-u(i-u(p))"),
        ("a | b\n:-|-\nc\n\nd", "t p"), ("text\n| a |\n|---|", "p t"), ("| a |\n|---|---|", "p"),
        ("| a |\n|---|\n> b", "t b(p)"), ("| a |\n|---|\n# b", "t h1"), ("| a \\| b |\n|---|", "t"),
        ("> | a |\n> |---|", "b(t)")),
    "HTML": (("<div>\na\n\nb", "html p"), ("<!-- a\n\nb -->\nc", "html p"),
        ("<b>\na\n\nb", "html p"), ("a\n<b>", "p"), ("a\n<div>", "p html"), ("<b>a</b>", "p"),
        ("<?php\n\n?>\na", "html p"), ("<script>\n\n</script>", "html"),
        ("<![CDATA[\n\n]]>", "html")),
    "definitions and notes": (("[a]: b", "def"), ("[a]: b\n[c]: d\ntext", "def def p"),
        ("[a]: b\n'title'\ntext", "def p"), ("[a]: b 'title' text", "p"), ("a\n[b]: c", "p"),
        ("[a]: b\n===", "def p"), ("[^1]: a\n\n    b\n\nc", "footnote(p p) p"),
        ("- [a]: b", "l-u(i-u(def))")),
    "front matter": (("---\na: b\n---\n# c", "yaml h1"), ("---\na: b\n...\nc", "yaml p"),
        ("\n---\na: b\n---", "tb h2"), ("---\na: b", "tb p"), ("\ufeff---\na: b\n---", "yaml")),
    "mathematics": (("$$\na\n\n- b\n$$\nc", "m p"), ("$$ a $$", "p"), ("$$\na", "m"),
        ("- $$\n  a\n  $$", "l-u(i-u(m))")),
    "line ends": (("# a\r\n\r\nb\r\n", "h1 p"), ("# a\rb", "h1 p"), ("\ufeff# a", "h1"),
        ("a\u2028# b", "p"), ("a\x0c\n# b", "p h1"), ("", ""), ("\n\n", "")),
    "attributes": (('a\n{: id="x"}\nb', "p p"), ("a\n{: .note}\nb", "p"), ('{: id="x"}', "p"),
        ('- {: id="x"}a\n  {: id="y"}', "l-u(i-u(p))"), ("| a |\n|---|\n\n^x\n\nb", "t p")),
}  # fmt: skip


@each_row("text expected", [case for cases in CASES.values() for case in cases])
def test_blocks_of_a_plain_folder(text: str, expected: str) -> None:
    assert outline(parse(text).root) == expected


@each_row("text expected", LUTE)
def test_blocks_of_siyuan(text: str, expected: str) -> None:
    assert outline(parse(text, "siyuan").root) == expected


def told(tree: Tree) -> list[str]:
    """Every block but the document, with its text, in the order of the text."""
    return [f"{name(b)} {markdown_of(tree, b)!r}" for b in tree.root.walk() if b.parent is not None]


TEXTS = (
    ("> - a\n>   b\n>\n>   > c\n> - d", "b '> - a\\n>   b\\n>\\n>   > c\\n> - d'"),
    ("> - a\n>   b\n>\n>   > c\n> - d", "l-u '- a\\n  b\\n\\n  > c\\n- d'"),
    ("> - a\n>   b\n>\n>   > c\n> - d", "i-u '- a\\n  b\\n\\n  > c'"),
    ("> - a\n>   b\n>\n>   > c\n> - d", "p 'a\\nb'"),
    ("> - a\n>   b\n>\n>   > c\n> - d", "b '> c'"),
    ("> a\nb", "p 'a\\nb'"),
    ("  - a\n    b\n  - c", "l-u '- a\\n  b\\n- c'"),
    ("  - a\n    b\n  - c", "i-u '- a\\n  b'"),
    ("- ```\n    a\n  ```", "c '```\\n  a\\n```'"),
    ("-\t\tfoo", "c '      foo'"),
    ("-\ta\n\tb", "p 'a\\nb'"),
    ("1.  a\n\n    b", "p 'b'"),
    ("a\r\nb\r\n\r\n# c", "p 'a\\nb'"),
    ("# a  ", "h1 '# a'"),
    ("a\n===  \n", "h1 'a\\n==='"),
    ("- [x] a\n  b", "p 'a\\nb'"),
    ("- [x] a\n  b", "i-t '- [x] a\\n  b'"),
    ('- {: id="x"}a\n  {: id="y"}\n- b', "l-u '- a\\n- b'"),
    ("```\n\ta\n```", "c '```\\n\\ta\\n```'"),
    ("- ```\n  \ta\n  ```", "c '```\\n\\ta\\n```'"),
    ("   ```\n   a\n    b\n   ```", "c '```\\na\\n b\\n```'"),
)


@each_row("text expected", TEXTS)
def test_a_block_is_read_without_its_prefixes(text: str, expected: str) -> None:
    assert expected in told(parse(text))


def spans(tree: Tree) -> list[str]:
    return [f"{name(b)} {b.start}:{b.stop}" for b in tree.root.walk() if b.parent is not None]


@each_row("text expected", [
    ("  # a  \n", ["h1 2:5"]),
    ("é\n\n- a\n  b\n\nc", ["p 0:2", "l-u 4:11", "i-u 4:11", "p 6:11", "p 13:14"]),
    ("\ufeff# a", ["h1 3:6"]),
    ("> a\n>\n\nb", ["b 0:5", "p 2:3", "p 7:8"]),
    ("```\na\n\n\nb", ["c 0:9"]),
    ("```\na\n\n\n", ["c 0:5"]),
    ("- [ ] a", ["l-t 0:7", "i-t 0:7", "p 6:7"]),
    ("a\n\n[b]: c\nd", ["p 0:1", "def 3:9", "p 10:11"]),
    ("a\n| b |\n|---|\n", ["p 0:1", "t 2:13"]),
    ('a\n{: id="x"}\n', ["p 0:1"]),
    ("---\nid: x\n---\na", ["yaml 0:13", "p 14:15"]),
])  # fmt: skip
def test_where_blocks_stand(text: str, expected: list[str]) -> None:
    assert spans(parse(text)) == expected


@each_row("text start", [
    ("   a\n   | b |\n   |---|\n   | c |\n", 5),
    ("[a]: b\n   c\n   d\n", 7),
    ("[a]: b\n   [c]: d\n   e\n   f\n", 7),
])  # fmt: skip
def test_what_follows_text_is_shown_as_where_it_is_parsed_alone(text: str, start: int) -> None:
    alone = parse(text[start:], part=True)
    assert told(parse(text))[1:] == told(alone)


@each_row("text expected", [
    ("---\nid: x\n---\na", {"x": "d"}),
    ("---\nid: 'x y'\n---\n", {"x y": "d"}),
    ("---\nlist:\n  id: x\n---\n", {}),
    ('a\n{: id="x"}', {"x": "p"}),
    ("a ^x", {"x": "p"}),
    ("a\nb ^x\n\n# c ^y", {"x": "p", "y": "h"}),
    ("- a ^x\n- b", {"x": "i"}),
    ("- a\n\n  b ^x", {"x": "p"}),
    ("| a |\n|---|\n\n^x", {"x": "t"}),
    ("```\na ^x\n```", {}),
    ("a^x", {}),
    ('- {: id="x"}a\n  {: id="y"}', {"x": "i", "y": "p"}),
    ("a ^x\n\nb ^x", {"x": "p"}),
])  # fmt: skip
def test_ids_in_the_text(text: str, expected: dict[str, str]) -> None:
    assert {key: block.kind for key, block in parse(text).anchors.items()} == expected


def test_attributes_stand_behind_their_block() -> None:
    tree = parse('a\n{: id="x" b="c"}\n\nd')
    block = tree.root.children[0]
    assert (block.attributes, block.stop, block.end) == ((2, 18), 1, 18)
    assert tree.data[2:18] == b'{: id="x" b="c"}'


def test_what_has_no_end_says_so() -> None:
    open_ones = ("```\na", "$$\na", "<!-- a", "<script>\na")
    assert [parse(text).root.children[0].closed for text in open_ones] == [False] * 4
    closed = ("```\na\n```", "$$\n$$", "<!-- a -->", "<div>\na", "a", "    a")
    assert [parse(text).root.children[0].closed for text in closed] == [True] * 6
    assert [c.closed for c in parse("{{{\na\n}}}\n{{{\nb", "siyuan").root.children] == [True, False]


DOCUMENT = "a\n\n# b\n\nc\n\n## d\n\ne\n\n# f\n\n> # g\n>\n> h\n\ni"


def test_a_section_ends_with_the_next_heading_of_its_level() -> None:
    tree = parse(DOCUMENT)
    sections = {
        markdown_of(tree, block): [markdown_of(tree, b) for b in section(block)]
        for block in tree.root.walk()
        if block.kind == "h"
    }
    assert sections == {
        "# b": ["c", "## d", "e"],
        "## d": ["e"],
        "# f": ["> # g\n>\n> h", "i"],
        "# g": ["h"],
    }
    assert section(tree.root.children[0]) == ()


def test_the_heading_above() -> None:
    tree = parse(DOCUMENT)

    def above(block: Block) -> str:
        found = heading_of(block)
        return markdown_of(tree, found) if found is not None else ""

    assert [above(block) for block in tree.root.children] == [
        *("", "", "# b", "# b", "## d", "", "# f", "# f")
    ]


def test_neighbours() -> None:
    tree = parse("a\n\n- b\n  - c\n\nd")
    first, middle, last = tree.root.children
    assert (first.previous, first.next, last.next) == (None, middle, None)
    assert last.previous is middle
    inner = list(middle.walk())[-1]
    assert [block.kind for block in inner.ancestors()] == ["i", "l", "i", "l", "d"]
    assert tree.source(middle) == b"- b\n  - c"


def test_text_and_bytes_are_one() -> None:
    assert parse("# é").data == parse("# é".encode()).data
    tree = parse(b"a \xff b")
    assert markdown_of(tree, tree.root.children[0]) == "a \udcff b"
    assert parse("a \ud800 b").root.children[0].kind == "p"
