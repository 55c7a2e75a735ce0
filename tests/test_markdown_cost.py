"""What a text costs to parse: in proportion to its length, whatever it holds."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copydesk.notes.markdown import (
    Profile,
    insertion,
    is_phantom,
    lines_of,
    markdown_of,
    parse,
    replacement,
)
from support.cost import check_linear, examples, first, spread
from support.markdown_texts import CONTENTS, PREFIXES

Part = str | tuple[str]
"""What stands in a text once, or again and again."""

HOSTILE: dict[str, tuple[Part, ...]] = {
    "quotes in quotes": (("> ",), "a"),
    "quotes again and again": ((">",), "a\n", (">",), "b\n"),
    "lists in lists": (("- ",), "a"),
    "numbers in numbers": (("1. ",), "a"),
    "quotes in lists in quotes": (("> - ",), "a"),
    "no thematic break": (("* ",), "a"),
    "a paragraph that goes on in a deep list": (("- ",), "a\n", ("b\n",)),
    "blank lines in a deep list": (("- ",), "a\n", ("\n",), "b"),
    "blank lines in a deep list in a quote": ("> ", ("- ",), "a\n", (">\n",), "> b"),
    "super blocks in super blocks": (("{{{\n",), "a\n"),
    "lines in deep super blocks": (("{{{\n",), ("a\n",), ("}}}\n",)),
    "attributes in deep super blocks": (("{{{\n",), "<div>\n", (' {: id="a" x\n',)),
    "HTML in deep super blocks": (("{{{\n",), (' <div>\n {: id="abc"}\n\n',)),
    "tasks in tasks": (("- [ ] ",), "a"),
    "tasks in tasks over lines": (("- [ ] ",), "a\n", ("b\n",)),
    "definitions": (("[a]: b\n",),),
    "definitions without an end": (('[a]: b\n"x\n',),),
    "definitions and headings": (("[a]: b\n===\n",),),
    "brackets": (("[",),),
    "lines of brackets": (("[a\n",),),
    "cells": (("|",), "\n|-"),
    "rows": ("a|b\n-|-\n", ("c|d\n",)),
    "delimiter rows": ("a\n", ("|-|-|\n",)),
    "escaped cells": (("a\\|",), "\n-|-\n"),
    "fences": (("```\n",),),
    "fences that do not end": ("````\n", ("```\n",)),
    "tags": (("<div\n",),),
    "a tag of many attributes": ("<a ", ('b="c" ',), ">"),
    "a tag of many quotes": ("<a ", ('b="',), ">"),
    "comments": (("<!--\n",),),
    "attributes": (('{: id="a"}\n',),),
    "a list of attributes": ("a\n{:", (' a="b"',), "}"),
    "items with attributes": (('- {: id="a"}b\n',),),
    "attributes in items in items": (('- {: id="a"}',), "b"),
    "mathematics": (("$$\n",),),
    "mathematics that does not end": ("$$ a\n", ("$$ b\n",)),
    "front matter that does not end": ("---\n", ("id: a\n",)),
    "tabs": ("-", ("\t",), "a"),
    "spaces": ("a", (" ",), "\nb"),
    "callouts": (("> [!a]\n",), "> b"),
    "callouts in callouts": (("> [!a] ",), "\n> b"),
    "notes in notes": (("[^a]: ",), "b\n\n\n"),
    "marks": (("^a\n\n",),),
    "lists beside lists": (("- a\n* b\n",),),
    "conflicts": (("<<<<<<<\n",),),
    "line ends of old": (("a\r",),),
    "brackets and underlines": (("[",), "\n", ("=",)),
    "a deep list and its indentation": (("- ",), "a\n", ("  ",), "b\n\n", ("  ",), "c"),
}

ROUNDS = 150


def check_parts(parts: Sequence[Part], profile: Profile, rounds: int) -> None:
    """Twice the text takes twice the steps."""

    def read(times: int) -> object:
        return parse("".join(p if isinstance(p, str) else p[0] * times for p in parts), profile)

    check_linear(read, rounds)


@pytest.mark.parametrize(("profile", "case"), spread(("gfm", "siyuan"), HOSTILE, of=3))
def test_twice_the_text_takes_twice_the_steps(case: str, profile: Profile) -> None:
    check_parts(HOSTILE[case], profile, ROUNDS)


SHOWN: dict[str, tuple[Part, ...]] = {
    "items in items": (("- ",), "a"),
    "blank lines of code in a deep list": (("- ",), "```\n", ("\n",), ("  ",), "b"),
    "blank lines of code in a deep quote": (("> - ",), "```\n", (">\n",), "> b"),
    "lines that belong to a deep list": (("- ",), "a\n", ("b\n",)),
}


@pytest.mark.parametrize(("profile", "case"), spread(("gfm", "siyuan"), SHOWN, of=1))
def test_so_do_the_texts_of_all_blocks_without_children(case: str, profile: Profile) -> None:
    def show(times: int) -> object:
        parts = (p if isinstance(p, str) else p[0] * times for p in SHOWN[case])
        tree = parse("".join(parts), profile)
        return [markdown_of(tree, one) for one in tree.root.walk() if not one.children]

    check_linear(show, ROUNDS)


@st.composite
def hostile(draw: st.DrawFn) -> list[Part]:
    """A few signs, some of them again and again."""
    signs = st.sampled_from((*PREFIXES, *CONTENTS, "\n", "\n\n", "[", "|", '"'))
    texts = draw(st.lists(st.lists(signs, min_size=1, max_size=5), min_size=1, max_size=4))
    return ["".join(each) if draw(st.booleans()) else ("".join(each),) for each in texts]


@pytest.mark.slow
@given(hostile(), st.sampled_from(("gfm", "siyuan")))
@settings(max_examples=examples(1_000))
def test_so_does_any_text_that_goes_on_and_on(parts: list[Part], profile: Profile) -> None:
    check_parts(parts, profile, 50)


LARGE: dict[str, tuple[str, int]] = {
    "one line": ("a" * 5_000_000, 1),
    "one line of cells": ("|" * 5_000_000, 1),
    "one line of brackets": ("[" * 2_500_000 + "](" * 1_250_000, 1),
    "one line of spaces": (" " * 5_000_000 + "a", 1),
    "lines of one paragraph": ("some text\n" * 500_000, 1),
    "100,000 list levels": ("- " * 100_000 + "a\n" + "some text\n" * 50_000, 200_001),
    "100,000 quotes": ("> " * 100_000 + "a\n" + "\n" * 1_000_000, 100_001),
    "quotes in quotes on every line": (("> " * 50 + "a\n") * 10_000, 51),
    "code without an end": ("```\n" + "- some code\n" * 200_000, 1),
}
"""Megabytes of text, and how many blocks there are that it has bytes for."""


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["gfm", "siyuan"])
@pytest.mark.parametrize("case", LARGE)
def test_megabytes_are_read_whole(case: str, profile: Profile) -> None:
    text, blocks = LARGE[case]
    tree = parse(text, profile)
    *_, last = tree.root.walk()
    assert sum(not is_phantom(block) for block in tree.root.walk()) == blocks + 1
    assert markdown_of(tree, last).strip()
    assert markdown_of(tree, tree.root) == text.removesuffix("\n")


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["gfm", "siyuan"])
@pytest.mark.parametrize(("sign", "holders"), [("> ", 1), ("- ", 2), ("> - ", 3)])
@pytest.mark.parametrize("depth", first(5_000, 20_000))
def test_depth_is_no_matter(sign: str, holders: int, depth: int, profile: Profile) -> None:
    tree = parse(sign * depth + "a", profile)
    *_, last = tree.root.walk()
    assert markdown_of(tree, last) == "a"
    assert sum(1 for _ in last.ancestors()) == depth * holders + 1
    assert len(lines_of(tree, tree.root.children[0])) == 1
    (edit,) = replacement(tree, last, "b")
    assert (edit.start, edit.stop, edit.new) == (last.start, last.stop, b"b")
    assert insertion(tree, last, "after", "b").new.endswith(b"b")
