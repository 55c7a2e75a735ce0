"""A block's text without its markup: what it is, and that no text holds a search up."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copydesk.notes.folder.blocks import plain_text, read, title_of, unescaped
from support.cost import bounded, examples, spread
from support.rows import each_row

HEADING = re.compile(r"\A {0,3}#{1,6}(?:[ \t]+|\Z)|[ \t]+#+[ \t]*\Z|\n *(?:=+|-+)[ \t]*\Z")
MARK = re.compile(r"(?:\A|\s)\^[A-Za-z0-9-]+\s*\Z")
CODE = re.compile(r"(`+)(.+?)(?<!`)\1(?!`)")
LINK = re.compile(r"!?\[([^\[\]]*)\](?:\([^()\s]*(?:\s+\"[^\"]*\")?\)|\[[^\[\]]*\])")
STRONG = re.compile(r"(\*{1,3}|~~|==)(?=\S)(.+?)(?<=\S)\1")
UNDERLINED = re.compile(r"(?<!\w)(_{1,3})(?=\S)(.+?)(?<=\S)\1(?!\w)")

PIECES = (
    *("*", "**", "*a", "a* ", "_", "_a", "~~", "==", "`", "``", "#", " # ", "\t", "\n", "\r", "  "),
    *("[a](b", "[", "]", "(", ")", '"', "!", " ^b", "&amp;", "&#65", "&#", "9", "é", "\xa0", "-"),
)


def by_patterns(text: str, is_heading: bool) -> str:
    """The same by patterns that look again at what they saw, from every sign on."""
    text = MARK.sub("", HEADING.sub("", text) if is_heading else text)
    text = LINK.sub(r"\1", CODE.sub(r"\2", text))
    text = UNDERLINED.sub(r"\2", STRONG.sub(r"\2", STRONG.sub(r"\2", text)))
    return html.unescape(text)


@given(st.lists(st.sampled_from(PIECES), max_size=16).map("".join), st.booleans())
@settings(max_examples=examples(400))
def test_it_is_what_patterns_make_of_it(text: str, is_heading: bool) -> None:
    assert plain_text(text, is_heading) == by_patterns(text, is_heading)


@each_row("text plain", [
    ("a **b *c* d** e", "a b c d e"),
    ("***a** b*", "a b"),
    ("**a*", "*a"),
    ("* a * b", "* a * b"),
    ("a_b_c _d_", "a_b_c d"),
    ("~~a~~ ==b== ~c~", "a b ~c~"),
    ("``a`b`` `c", "a`b `c"),
    ("```a` b", "``a b"),
    ('[a](b) ![c](d "e") [f][g]', "a c f"),
    ("*a\nb*", "*a\nb*"),
])  # fmt: skip
def test_marks_are_taken_off_in_pairs(text: str, plain: str) -> None:
    assert plain_text(text, is_heading=False) == plain == by_patterns(text, is_heading=False)


def test_an_entity_of_thousands_of_digits_is_no_character() -> None:
    assert unescaped(f"&#{'9' * 5_000}; &#{'0' * 5_000}65; &#{'0' * 9_000}") == "\ufffd A \ufffd"


MANY = 30_000

HOSTILE = {
    "stars": "*a " * MANY,
    "two stars": "**a " * MANY,
    "three stars": "***a " * MANY,
    "tildes": "~~a " * MANY,
    "equals signs": "==a " * MANY,
    "underscores": "_a " * MANY,
    "three underscores": "___a " * MANY,
    "stars of both kinds": "*a **b " * MANY,
    "backticks of growing runs": " ".join("`" * size for size in range(1, 700)),
    "backticks of shrinking runs": " ".join("`" * size for size in range(700, 1, -1)),
    "backticks": "`" * MANY + "a",
    "runs of two lengths": "`a ``b " * MANY,
    "blanks in a heading": "# a" + " " * 3 * MANY + "b",
    "signs at the end of a heading": "# a" + " #" * MANY + "b",
    "brackets": "[" * MANY,
    "pictures": "![" * MANY,
    "links": "[a](b " * MANY,
    "titles of links": '[a](b "' * MANY,
    "blanks in a link": "[a](b" + " " * MANY + '"c"' + " " * MANY,
    "names": " ^a" * MANY,
    "entities": "&#" * MANY + "&" * MANY,
    "a number": "&#" + "9" * MANY,
}


@pytest.mark.parametrize("case", spread(HOSTILE, of=1))
def test_no_text_holds_it_up(case: str) -> None:
    """By patterns, the worst of these take minutes to hours."""
    with bounded():
        plain_text(HOSTILE[case], is_heading=True)


@pytest.mark.parametrize("name", ["title", "id"])
def test_no_front_matter_holds_it_up(name: str) -> None:
    with bounded():
        tree = read(f"---\n{name}: a{' ' * MANY}b\n---\n".encode(), "gfm")
        assert title_of(tree) == ("a b" if name == "title" else "")
