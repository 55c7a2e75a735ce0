"""Markdown that makes trouble: lines, whole texts, and what SiYuan makes of some.

Lines are put together from prefixes and contents that meet badly: markers that
are none, fences without an end, tabs cut in two, lines of attributes.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol, TypeVar

from hypothesis import strategies as st

from copydesk.notes.markdown import Block, Tree, markdown_of

T = TypeVar("T")

PREFIXES = (
    *("", "", "", "", " ", "  ", "   ", "    ", "     ", "\t", " \t", "> ", ">", ">\t", "> > "),
    *("- ", "* ", "+ ", "-\t", "1. ", "2. ", "1) ", "10. ", "01. ", "- [ ] ", "- [x] ", "1. [ ] "),
    *("- [/] ", "-   ", "-     ", "* * ", "- - ", "> - ", "- > ", "  - ", "    - ", "      - "),
    *("   1. ", "{{{row", "  > "),
)
"""What may stand before the content of a line, once or more."""

CONTENTS = (
    *("", "", "", "---", "***", "___", "- - -", "===", "--", "```", "````", "~~~", "``` js"),
    *("~~~ a", "```a`b", "```a`", "~~~a~", "$$", "$$ x", "x $$", "$$ x $$", "$$$$", "$", "# "),
    *("## h", "####### x", "#x", "# h #", "|a|b|", "|-|-|", "a | b", "--|--", ":-:|:-", "| - |"),
    *("|", "||", "-|", "> [!NOTE]", "[!NOTE]", "[!tip] T", "[!x", "{{{", "{{{row", "{{{col"),
    *("{{{ Row ", "}}}", "{{ select * }}", "{{x}}", "{{{ a }}}", "{: .note}", "{: a}", "{:toc}"),
    '{: id="20200101000000-abcdefg"}',
    '{: id="20200101000000-abcdefh" a="b"}',
    '{: target="_blank"}',
    '{: id="20200101000000-abcdefg"} x',
    '{: id="20200101000000-abcdefz" type="doc"}',
    '{: id="20200101000000-abcdefi"}text',
    *("<div>", "</div>", '<div class="a">', "<p>", "<p>x", "<pre>", "</pre>", "<div><pre>"),
    *("<!-- c -->", "<!--", "-->", "<?php", '<iframe src="x"></iframe>', '<video src="x">'),
    *("<audio>", '<iframe data-subtype="widget" src="x">', "<span x>", "<b>", '<a href="x">'),
    *("</a>", "<div>x</div>", "<div", "<script>", "</script>", "<hr>", "<br/>"),
    '<div data-type="NodeAttributeView" data-av-id="20200101000000-abcdefg" data-av-type="t"></div>',
    *("<<<<<<< HEAD", "=======", ">>>>>>> x", "[a]: b", "[^1]: x", "id: x", "text", "text"),
    *("text text", "[ ]", "[x]", "-", "*", "+", "1.", ">", "\v", "\f", "a\vb", "!((x))", "[toc]"),
    *(
        "\u3000x",
        "\xa0",
        "漢字 ^id",
        "*x* **b** `c`",
        "[l](u) ![i](u)",
        "a|b",
        "\\",
        "&amp;",
        "{",
        "}",
    ),
)
"""What may stand in a line."""

NEWLINES = ("\n", "\n", "\n", "\n", "\r\n", "\r")


class Choice(Protocol):
    """Where choices come from: Hypothesis, or a generator of random numbers."""

    def of(self, options: Sequence[T]) -> T: ...
    def number(self, least: int, most: int) -> int: ...


class Drawn:
    """Choices of Hypothesis."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def of(self, options: Sequence[T]) -> T:
        return self._draw(st.sampled_from(options))

    def number(self, least: int, most: int) -> int:
        return self._draw(st.integers(least, most))


class Rolled:
    """Choices by a seed: the same ones every time."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def of(self, options: Sequence[T]) -> T:
        return self._random.choice(options)

    def number(self, least: int, most: int) -> int:
        return self._random.randint(least, most)


def a_text(choice: Choice, most: int = 12) -> str:
    """A text of a few lines, each of them looked at by some rule, many indented as the one before."""
    lines: list[str] = []
    for _ in range(choice.number(0, most)):
        depth = choice.of((0, 0, 0, 1, 1, 2, 3))
        line = "".join(choice.of(PREFIXES) for _ in range(depth)) + choice.of(CONTENTS)
        line += choice.of(("", "", "", "", "", "", "", " ", "  ", "\t"))
        if lines and not choice.number(0, 2):
            before = lines[-1]
            width = len(before) - len(before.lstrip(" >\t"))
            line = before[:width] + choice.of(("", "  ", "   ", "    ")) + line
        if lines and not choice.number(0, 5):
            line = choice.of(lines)
        lines.append(line)
    newline = choice.of(NEWLINES)
    return newline.join(lines) + choice.of(("", newline, newline, 2 * newline))


@st.composite
def markdown(draw: st.DrawFn, most: int = 10) -> str:
    """A text that makes trouble."""
    return a_text(Drawn(draw), most)


anything = (
    markdown() | st.text(max_size=60) | st.text("->#`*_|:[]{}()\t \n\r<$1.ax~=+\\^!", max_size=60)
)
"""Any text at all."""


_LEAVES = (
    *("text", "two\nlines", "*x* and `y`", "1\\. no list", "a | b", "# heading", "## other", "***"),
    *("```\ncode\n\n  more\n```", "~~~ py\n- no item\n~~~", "| a | b |\n|---|---|\n| 1 | 2 |"),
    *("<div>\nhtml\n</div>", "<!-- note -->", "$$\nx\n$$", "漢字\u2028x"),
)


def _indented(text: str, prefix: str) -> str:
    return "\n".join(prefix + line if line else prefix.rstrip() for line in text.split("\n"))


_ENDS_ITSELF = ("#", "```", "~~~", "***")
_ENDS_OTHERS = (*_ENDS_ITSELF, ">")


def a_document(choice: Choice, depth: int = 0, *, in_item: bool = False) -> str:
    """Blocks, one in another, as a person would write them; never a list beside a list."""
    text, was_list = "", in_item  # an item does not begin with a list here
    for _ in range(choice.number(1, 4 if depth < 2 else 2)):
        kind = choice.of(("leaf", "leaf", "leaf", "quote", "list")) if depth < 3 else "leaf"
        if kind == "quote":
            part = _indented(a_document(choice, depth + 1), "> ")
        elif kind == "list" and not was_list:
            part = _a_list(choice, depth)
        else:
            kind, part = "leaf", choice.of(_LEAVES)
        if text:
            last = text.split("\n")[-1]
            close = last.startswith(_ENDS_ITSELF) or part.startswith(_ENDS_OTHERS)
            apart = kind == "list" or last.endswith("</div>") or not close
            text += "\n\n" if apart else choice.of(("\n", "\n\n"))
        text += part
        was_list = kind == "list"
    return text


def _a_list(choice: Choice, depth: int) -> str:
    bullet, gap = choice.of(("-", "*", "+", "1.", "7)")), choice.of(("\n", "\n\n"))
    space = choice.of((" ", " ", " ", "  ", "   "))
    items: list[str] = []
    for index in range(choice.number(1, 3)):
        sign = f"{int(bullet[:-1]) + index}{bullet[-1]}" if bullet[0].isdigit() else bullet
        inner = a_document(choice, depth + 1, in_item=True)
        while inner.startswith("***"):
            inner = a_document(choice, depth + 1, in_item=True)
        width = " " * len(sign + space)
        items.append(sign + space + _indented(inner, width).removeprefix(width))
    return gap.join(items)


@st.composite
def documents(draw: st.DrawFn) -> str:
    """A text as a person would write it, with any line ends, the last line ended or not."""
    choice = Drawn(draw)
    text = a_document(choice) + choice.of(("", "\n"))
    return text.replace("\n", choice.of(("\n", "\n", "\r\n")))


def name(block: Block) -> str:
    """A block's kind, as `p` or `h1`; the kind of a list and its items with theirs, as `l-t`."""
    if block.kind == "h":
        return block.subtype
    return f"{block.kind}-{block.subtype}" if block.subtype else block.kind or "?"


def outline(block: Block) -> str:
    """What a block holds, on one line, as `h1 l-u(i-u(p b(p)))`."""
    done: dict[int, str] = {}
    for each in reversed(list(block.walk())):
        inner = " ".join(done.pop(id(child)) for child in each.children)
        done[id(each)] = f"{name(each)}({inner})" if inner else name(each)
    return done[id(block)].removeprefix("d").removeprefix("(").removesuffix(")")


Shape = tuple[str, str, tuple["Shape", ...]]
"""A block's name, its text if it is a leaf, and the shapes of what it holds."""


def shape(tree: Tree, block: Block, *, empty: bool = False) -> Shape:
    """The shape of a block; blocks that no byte stands for are left out unless `empty`."""
    children = [c for c in block.children if empty or c.start < c.stop]
    text = "" if block.holds_blocks else markdown_of(tree, block).replace("\t", "    ")
    return (name(block), text, tuple(shape(tree, child, empty=empty) for child in children))


LUTE: tuple[tuple[str, str], ...] = (
    # headings
    ("# a", "h1"), ("#", "h1"), ("# ", "h1"), ("#a", "p"), ("####### a", "p"), ("###### a", "h6"),
    ("   # a", "h1"), ("    # a", "p"), ("# a #", "h1"), ("#\x0ba", "h1"), ("a\n# b\nc", "p h1 p"),
    ("# a\n===", "h1 p"), ("a\n===", "p"), ("a\n---", "p tb"), ("- # a", "l-u(i-u(h1))"),
    ("> # a", "b(h1)"),
    # paragraphs
    ("a\nb", "p"), ("  a\n   b", "p"), ("\ta", "p"), ("        a", "p"), ("a\n\n\n\nb", "p p"),
    ("a\rb", "p"), ("a\r\n\r\nb", "p p"), ("\ufeff# a", "p"), ("a\u2028# b", "p"), ("\x0c", "p"),
    ("a\x00b", "p"), ("", ""),
    # breaks
    ("---", "tb"), ("***", "tb"), ("___", "tb"), ("- - -", "tb"), ("_ _ _", "tb"), ("**", "p"),
    ("--", "p"), ("-*-", "p"), ("--- a", "p"), ("a\n***", "p tb"), ("- ---", "tb"),
    ("- - - a", "l-u(i-u(p l-u(i-u(p l-u(i-u(p))))))"), ("    ---", "p"),
    # fences
    ("```\na\n```", "c"), ("~~~\na\n~~~", "c"), ("````\n```\n````", "c"), ("```\na", "c"),
    ("``` a`b\nc", "p"), ("~~~ a`b\nc\n~~~", "c"), ("~~~ a~b\nc", "p"), ("  ```\n  a\n  ```", "c"),
    ("```\na\n    ```\n```", "c"), ("- ```\n  a\n  ```\nb", "l-u(i-u(c)) p"),
    ("- ```\na", "l-u(i-u(c)) p"), ("> ```\na", "b(c) p"), ("```\n\n\na\n\n```", "c"),
    ("a\n```\nb\n```\nc", "p c p"),
    # quotes
    ("> a", "b(p)"), (">a", "b(p)"), (">", "b(p)"), (">\n>", "b(p)"), ("> a\nb", "b(p)"),
    ("> a\n\n> b", "b(p) b(p)"), ("> a\n> > b\n> c", "b(p b(p))"), ("    > a", "p"),
    (">\ta", "b(p)"), ("> - a\n>   b\n> - c", "b(l-u(i-u(p) i-u(p)))"),
    ("- > a\n  > b", "l-u(i-u(b(p)))"), ("> a\n>\n> b", "b(p p)"), ("a\n> b", "p b(p)"),
    ("> a\n---", "b(p) tb"),
    # lists
    ("- a\n- b", "l-u(i-u(p) i-u(p))"), ("* a\n+ b", "l-u(i-u(p)) l-u(i-u(p))"),
    ("1. a\n2. b", "l-o(i-o(p) i-o(p))"), ("1) a\n2. b", "l-o(i-o(p)) l-o(i-o(p))"),
    ("a\n- b", "p l-u(i-u(p))"), ("a\n2. b", "p"), ("a\n1. b", "p l-o(i-o(p))"), ("a\n01. b", "p"),
    ("a\n-", "p"), ("a\n-   ", "p l-u(i-u(p))"), ("-", "l-u(i-u(p))"),
    ("- \n- a", "l-u(i-u(p) i-u(p))"), ("-\n  a", "l-u(i-u(p))"), ("-\n\n  a", "l-u(i-u(p)) p"),
    ("- a\n\n  b", "l-u(i-u(p p))"), ("- a\n\n\n- b", "l-u(i-u(p) i-u(p))"),
    ("- a\n b", "l-u(i-u(p))"), ("- a\n   - b\n     - c", "l-u(i-u(p l-u(i-u(p l-u(i-u(p))))))"),
    ("- - a", "l-u(i-u(p l-u(i-u(p))))"), ("- - - a", "l-u(i-u(p l-u(i-u(p l-u(i-u(p))))))"),
    ("1. - 2. a", "l-o(i-o(p l-u(i-u(p l-o(i-o(p))))))"), ("-a", "p"), ("-\ta", "l-u(i-u(p))"),
    ("- \ta", "l-u(i-u(p))"), ("-     a", "l-u(i-u(p))"), ("-      a", "l-u(i-u(p))"),
    ("10. a\n   b", "l-o(i-o(p))"), ("1234567890. a", "p"), ("- a\n\nb", "l-u(i-u(p)) p"),
    ("- a\n  - b\n- c", "l-u(i-u(p l-u(i-u(p))) i-u(p))"), ("  - a\n- b", "l-u(i-u(p) i-u(p))"),
    ("- a\n - b\n  - c\n   - d\n    - e", "l-u(i-u(p) i-u(p) i-u(p) i-u(p))"),
    ("*\n\n  a", "l-u(i-u(p)) p"), ("-\x0ba", "l-u(i-u(p))"), ("-\x0b\na", "l-u(i-u(p))"),
    ("- a\n  1. b\n  2. c", "l-u(i-u(p l-o(i-o(p) i-o(p))))"),
    # tasks
    ("- [ ] a", "l-t(i-t(p))"), ("- [x] a\n- [X] b", "l-t(i-t(p) i-t(p))"),
    ("- [/] a", "l-t(i-t(p))"), ("- [] a", "l-u(i-u(p))"), ("- [ ]", "l-t(i-t(p))"),
    ("- [ ] ", "l-t(i-t(p))"), ("- [ ]a", "l-u(i-u(p))"), ("- [ ] # h", "l-t(i-t(h1))"),
    ("- [ ] # h\n  text", "l-t(i-t(h1 p))"), ("- [ ] > q", "l-t(i-t(b(p)))"),
    ("- [ ] - a", "l-t(i-t(l-u(i-u(p))))"), ("- [ ] - [x] a", "l-t(i-t(l-t(i-t(p))))"),
    ("- [ ] ```\n  a\n  ```", "l-t(i-t(c c))"), ("- [ ] |a|\n  |-|", "l-t(i-t(t))"),
    ("- [ ] a\n- b", "l-t(i-t(p)) l-u(i-u(p))"), ("1. [ ] a", "l-t(i-t(p))"),
    ("- [ ]\n  a", "l-t(i-t(p))"), ("- [[] a", "l-u(i-u(p))"), ("- [ ] —x", "l-t(i-t(p))"),
    ("- [ ] a\n\n  b", "l-t(i-t(p p))"), ("- [ ] 1) $$\n\xa0", "l-t(i-t(l-o(i-o(m))))"),
    # tables
    ("|a|b|\n|-|-|\n|1|2|", "t"), ("a|b\n-|-\nc", "p"), ("text\na|b\n-|-", "p t"),
    ("|a|\n|-|", "t"), ("a\n|-|", "p"), ("|a|b|\n|-|", "p"), ("|a|\n|-|-|", "t"),
    ("|a|\n|:-:|", "t"), ("|a|\n|::|", "t"), ("|a|\n|- -|", "p"), ("|a|\n|-|\ntext", "p"),
    ("|a|\n|-|\n\nb", "t p"), ("a\\|b\n-|-", "t"), ("> |a|\n> |-|", "b(t)"),
    ("- |a|\n  |-|", "l-u(i-u(t))"), ("- a\n  |b|\n  |-|", "l-u(i-u(p t))"), ("||\n|-|", "t"),
    ("|\n-|\n\x0b", "t"), ("|-|\n|-|", "p"), ("|a|\nb\n|-|", "p t"),
    # math
    ("$$\na\n$$", "m"), ("$$a$$", "m"), ("$$ a $$\nb", "m p"), ("$$\na", "m"),
    ("a\n$$\nb\n$$", "p m"), ("$$$", "m"), ("$$$$", "m"), ("$$\n$$$", "m"), ("a $$b$$", "p"),
    ("  $$\n  a\n  $$", "m"), ("- $$\n  a\n  $$", "l-u(i-u(m))"), ("$$\na $$\nb", "m p"),
    ("$a$", "p"),
    # HTML
    ("<div>\na\n</div>\nb", "html"), ("<div>\n\na", "html p"), ("<p>a</p>", "p"), ("<b>a</b>", "p"),
    ("<div", "html"), ("<divx>", "html"), ("<div><pre>\n\na</pre>\nb", "html p"),
    ("<!-- a -->", "p"), ("<pre>\na\n</pre>", "p"), ("<script>a</script>", "p"),
    ("a\n<div>\nb", "p html"), ("a\n<p>b", "p"), ("> a\n<p>b", "b(p) p"),
    ("- a\n<b>\nc", "l-u(i-u(p))"), ("<DIV>", "p"), ("<div/>", "html"),
    ('<iframe src="a"></iframe>', "iframe"), ('<iframe src="a"></iframe> b', "p"),
    ('<iframe\nsrc="a">', "p"), ('<iframe data-subtype="widget" src="a"></iframe>', "widget"),
    ('<video src="a"></video>\nb', "video p"), ('<audio controls src="a">', "audio"),
    ("<span a>", "p"), ('<div data-type="NodeAttributeView" data-av-type="table"></div>', "av"),
    ("- <div>\n  a\n\n  b", "l-u(i-u(html p))"), ("<table>\n<tr>\n</table>", "p"), ("<hr>", "p"),
    # attributes
    ('a\n{: id="20200101000000-abcdefg"}', "p"), ('{: id="20200101000000-abcdefg"}\n\na', "p p"),
    ('a\n{: id="20200101000000-abcdefg"}\n{: id="20200101000000-abcdefh"}', "p p"),
    ('> a\n{: id="20200101000000-abcdefg"}', "b(p)"),
    ('> a\n> {: id="20200101000000-abcdefg"}', "b(p)"),
    ('- a\n  {: id="20200101000000-abcdefg"}', "l-u(i-u(p))"),
    ('- a\n{: id="20200101000000-abcdefg"}', "l-u(i-u(p))"),
    ('- {: id="20200101000000-abcdefg"}a\n  {: id="20200101000000-abcdefh"}', "l-u(i-u(p))"),
    ('>{: id="20200101000000-abcdefg"}', "b(p)"), ('a\n>{: id="20200101000000-abcdefg"}', "p b"),
    ('# a\n{: id="20200101000000-abcdefg"}\nb', "h1 p"),
    ('a\n{: id="20200101000000-abcdefg"} b', "p"), ('{: id="20200101000000-abcdefg"} b', "p"),
    ('a\n\n{: id="20200101000000-abcdefg"} b', "p"), ("a\n{: .note}", "p"), ("a\n{:toc}", "p"),
    ('a\n{: target="_blank"}', "p"), ("a\n{: b}", "p"), ('a\n{: b="c" d}', "p"), ("a\n{: b=}", "p"),
    ("a\n{: }", "p"), ("a\n {: b}", "p"), ("a\n{: b} ", "p"), ("- {: b}", "l-u(i-u(p))"),
    ("-\n  {: b}", "l-u(i-u(p))"), ("- [ ] {: b}c", "l-t(i-t(p))"),
    ("- [x] {: b}{: c}", "l-t(i-t(p))"), ("> {: b}c", "b(p)"),
    ('$$\na\n{: id="20200101000000-abcdefg"}\nb', "m p"),
    ('<div>\n{: id="20200101000000-abcdefg"}\nb', "html p"),
    ('```\n{: id="20200101000000-abcdefg"}\n```', "c"),
    ('a\n{: id="20200101000000-abcdefz" type="doc"}\nb', "p"),
    ('|a|\n{: id="20200101000000-abcdefz" type="doc"}\n|-|', "t"),
    ('a\n\n{: id="20200101000000-abcdefz" type="doc"}', "p"), ("{{{\n{: b}\n}}}", "s(p)"),
    ('- a\n\n  {: id="20200101000000-abcdefg"}\n\n  b', "l-u(i-u(p p))"),
    # super blocks
    ("{{{row\na\n\nb\n}}}", "s(p p)"), ("{{{col\na\n}}}\nb", "s(p) p"), ("{{{\na\n}}}", "s(p)"),
    ("{{{ROW\na\n}}}", "s(p)"), ("{{{x\na\n}}}", "p"), ("{{{{\na", "p"), ("{{{row\na", "s(p)"),
    ("{{{", "p"), ("{{{\n}}}", "s"), ("{{{row\n{{{col\na\n}}}\n}}}\nb", "s(s(p)) p"),
    ("{{{\n- a\n}}}\nb", "s(l-u(i-u(p))) p"), ("{{{\n```\n}}}\nb", "s(c) p"),
    ("> {{{\n> a\n> }}}", "b(s(p))"), ("- {{{\n  a\n  }}}", "l-u(i-u(s(p)))"),
    ("{{{\n> a\n}}}\nb", "s(b(p)) p"), ("}}}", "p"),
    ("{{{\n{{{\n> {{{\na\n}}}\nb\n}}}", "s(s(b(p) p) p)"),
    # callouts
    ("> [!NOTE]\n> a", "callout-NOTE(p)"), ("> [!NOTE]", "b(p)"),
    ("> [!note] b\n> a", "callout-note(p)"), ("> [!NOTE] b", "b(p)"),
    ("> [!NOTE]\n>\n> a", "callout-NOTE(p)"), ("> [!NOTE]\n> - a", "callout-NOTE(l-u(i-u(p)))"),
    ("> [!a b]\n> c", "callout-a b(p)"), ("> [!\n> a", "b(p)"), (">[!x]\n> a", "callout-x(p)"),
    ("> \n> [!NOTE]\n> a", "callout-NOTE(p)"), ("> a\n> [!NOTE]", "b(p)"),
    ("> > [!NOTE]\n> > a", "b(callout-NOTE(p))"), ("> [!NOTE]\na", "callout-NOTE(p)"),
    ("- > [!NOTE]\n  > a", "l-u(i-u(callout-NOTE(p)))"), ("> [!NOTE]\n> # a", "callout-NOTE(h1)"),
    (">[!]\r\x0c\r1.", "b(p) l-o(i-o(p))"),
    # embeds
    ("{{ select * }}", "query_embed"), ("{{a}}", "query_embed"), ("{{a", "p"), ("{{a}} b", "p"),
    ("a\n{{b}}\nc", "p query_embed p"), ("{{{ a }}}", "query_embed"), ("> {{a}}", "b(query_embed)"),
    ("{{a}}\u3000", "query_embed"), ("!((a))", "p"),
    # conflicts
    ("<<<<<<< a\nb\n=======\nc\n>>>>>>> d\ne", "? p"), ("<<<<<<< a\nb", "?"),
    ("> a\n<<<<<<< b\n>>>>>>> c", "b(p) ?"), ("- <<<<<<< a", "l-u(i-u(p))"), (" <<<<<<< a", "p"),
    ("<<<<<< a", "p"),
    # not there
    ("[a]: b", "p"), ("[^1]: a", "p"), ("[toc]", "p"), ("---\na: b\n---", "tb p tb"),
    ("    a", "p"), ("a\n    b", "p"), ("![a](b)", "p"), ("[a]: b\n\n[a]", "p p"),
)  # fmt: skip
"""Texts, and the outline of the blocks that SiYuan's kernel makes of them."""
