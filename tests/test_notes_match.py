"""SEARCH against the text of a block: what is the same, and what is told of what is not."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.notes.plan import find_mismatch, matches
from support.cost import bounded, spread
from support.rows import each_row


@each_row("search markdown strict folded", [
    ("a", "a", True, True),
    ("\n \n\ta b\n\n", "\ta b", True, True),
    ("a\n\n\nb", "a\n\n\nb", True, True),
    ("a\n\n\nb", "a\n\nb", False, True),
    ("  a", "a", False, True),
    ("\u3000\u3000a", "a", False, True),
    ("\u3000a", "\u3000a", True, True),
    ("a ", "a", False, True),
    ("a  \nb", "a\nb", False, True),
    ("a\nb", "a b", False, True),
    ("a\tb", "a   b", False, True),
    ("ab", "a b", False, False),
    ("a", "A", False, False),
    ("é", "e\u0301", False, False),
    ("a", "a b", False, False),
    ("- a\n- b", "- a\n- b", True, True),
    ("- a", "* a", False, False),
    ("x\u2028y", "x\u2028y", True, True),
])  # fmt: skip
def test_same(search: str, markdown: str, strict: bool, folded: bool) -> None:
    for one, other in (
        (search, markdown),
        (search.replace("\n", "\r\n"), markdown),
        (markdown, search),
    ):
        assert (matches(one, other), matches(one, other, strict=False)) == (strict, folded)


PROSE = [
    f"Sentence {i} of a long text tells what happened on day {i * 7} in town." for i in range(300)
]
LONG = "\n".join(PROSE)
SHUFFLED = "".join(random.Random(7).sample(LONG, len(LONG)))
OTHER = "\n".join(f"def f{i}(x, y={i}): return x**{i} + y / {i + 1}" for i in range(300))
CHINESE = "思源笔记是一款本地优先的个人知识管理系统，支持块级引用和双向链接。" * 40


@pytest.mark.parametrize(("search", "markdown", "low", "high"), [
    (LONG, LONG.replace("day 70 ", "day 71 "), 98, 99),
    (LONG, LONG.replace("day", "night"), 80, 97),
    (LONG, LONG[: len(LONG) // 2], 60, 70),
    (LONG, SHUFFLED, 0, 35),
    (LONG, OTHER, 0, 35),
    (LONG.replace("\n", " "), LONG.replace("\n", " ").replace("day 70 ", "day 71 "), 98, 99),
    (LONG.replace("\n", " "), LONG, 99, 99),
    (CHINESE, CHINESE.replace("引用", "嵌入", 1), 98, 99),
    (CHINESE, CHINESE[: len(CHINESE) // 2], 60, 70),
    ("one word", "one word more", 60, 90),
    ("abc", "xyz", 0, 0),
    ("a", "", 0, 0),
    ("", "a", 0, 0),
])  # fmt: skip
def test_similarity_means_something(search: str, markdown: str, low: int, high: int) -> None:
    assert low <= find_mismatch(search, markdown)[1] <= high
    assert low <= find_mismatch(markdown, search)[1] <= high


@each_row("search markdown reason", [
    ("a b", "a  b", "blanks"),
    ("a\nb", "a b", "blanks"),
    ("first", "first\nsecond", "part"),
    ("first\nsecond", "first", "more"),
    ("first", "second", "text"),
    ("", "a", "text"),
])  # fmt: skip
def test_reasons(search: str, markdown: str, reason: str) -> None:
    assert find_mismatch(search, markdown)[0] == reason


@each_row("search markdown difference", [
    ("a", "b", ("- a", "+ b")),
    ("a\nb\nc", "a\nx\nc", ("  a", "- b", "+ x", "  c")),
    ("a\nb", "a\nb\nc", ("  b", "+ c")),
    ("a\nb\nc", "b\nc", ("- a", "  b")),
    ("a\nb\nc\nd", "x\nb\nc\ny", ("- a", "+ x", "  b", "  c", "- d", "+ y")),
    ("a\nb\nc", "x\nb\ny", ("- a", "+ x", "  b", "- c", "+ y")),
    ("\n\nx \n", "x", ("- x ", "+ x")),
])  # fmt: skip
def test_difference(search: str, markdown: str, difference: tuple[str, ...]) -> None:
    assert find_mismatch(search, markdown)[2] == difference


def test_a_long_line_is_shown_where_it_differs() -> None:
    line = "word " * 2_000
    found = find_mismatch(f"{line}one{line}", f"{line}two{line}")[2]
    assert len(found) == 2
    assert "one" in found[0]
    assert "two" in found[1]
    assert all(len(shown) < 200 for shown in found)


def test_many_lines_that_differ_are_counted() -> None:
    _, _, difference = find_mismatch(
        "\n".join("ab" * i for i in range(500)), "\n".join("cd" * i for i in range(500))
    )
    assert len(difference) <= 25
    assert difference[-1].startswith("… (")
    assert sum(map(len, difference)) < 2_500


@given(st.text("ab \n\u3000é=-", max_size=80), st.text("ab \n\u3000é=-", max_size=80))
def test_any_two_texts(search: str, markdown: str) -> None:
    if matches(search, markdown):
        assert matches(search, markdown, strict=False)
        return
    reason, similarity, difference = find_mismatch(search, markdown)
    assert 0 <= similarity <= 99
    assert any(line[0] in "-+" for line in difference)
    assert (reason == "blanks") is matches(search, markdown, strict=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("search", "markdown"),
    spread(
        [
            ("a\n" * 200_000, "b\n" * 200_000),
            ("a\n" * 200_000 + "b", "a\n" * 199_999 + "c\nb"),
            ("word " * 300_000, "other " * 300_000),
            ("ab" * 1_000_000, "ba" * 999_999),
            ("字" * 300_000 + "一", "符" + "字" * 299_000),
            ("a b\n" * 100_000, "b a\n" * 100_000),
            (
                "\n".join(f"{i} x" for i in range(100_000)),
                "\n".join(f"x {i}" for i in range(100_000)),
            ),
        ],
        of=3,
    ),
    ids=["lines", "one more", "words", "letters", "ideographs", "swapped", "numbers"],
)
def test_bounded(search: str, markdown: str) -> None:
    with bounded():
        _, _, difference = find_mismatch(search, markdown)
    assert sum(map(len, difference)) < 2_500
