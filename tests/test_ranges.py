"""Line ranges as callers write them: every form, for texts of no, one and five lines."""

from __future__ import annotations

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from copydesk.edit.kinds.lines import resolve_range, tail_count
from copydesk.errors import InvalidRange, RangeOutOfBounds, Refusal
from support.refusals import check
from support.rows import each_row

OUT, BAD = RangeOutOfBounds, InvalidRange


@each_row("text none one five", [
    ("1", (0, 0), (0, 1), (0, 1)),
    ("2", OUT, OUT, (1, 2)),
    ("5", OUT, OUT, (4, 5)),
    ("6", OUT, OUT, OUT),
    ("7", OUT, OUT, OUT),
    ("1~", (0, 0), (0, 1), (0, 5)),
    ("2~", OUT, (1, 1), (1, 5)),
    ("5~", OUT, OUT, (4, 5)),
    ("6~", OUT, OUT, (5, 5)),
    ("7~", OUT, OUT, OUT),
    ("~", (0, 0), (0, 1), (0, 5)),
    ("~1", OUT, (0, 1), (0, 1)),
    ("~5", OUT, OUT, (0, 5)),
    ("~6", OUT, OUT, OUT),
    ("1~1", OUT, (0, 1), (0, 1)),
    ("2~4", OUT, OUT, (1, 4)),
    ("1~5", OUT, OUT, (0, 5)),
    ("5~5", OUT, OUT, (4, 5)),
    ("5~6", OUT, OUT, OUT),
    ("6~6", OUT, OUT, OUT),
    ("6~7", OUT, OUT, OUT),
    ("001", OUT, (0, 1), (0, 1)),
    ("2-4", OUT, OUT, (1, 4)),
    ("2 ~ 4", OUT, OUT, (1, 4)),
    ("2..4", OUT, OUT, (1, 4)),
    ("2 - 4", OUT, OUT, (1, 4)),
    ("L2", OUT, OUT, (1, 2)),
    ("L2-L4", OUT, OUT, (1, 4)),
    (" 2~ ", OUT, (1, 1), (1, 5)),
    ("2-", OUT, (1, 1), (1, 5)),
    ("999999999999999999", OUT, OUT, OUT),
])  # fmt: skip
def test_meaning(text: str, none: object, one: object, five: object) -> None:
    for total, expected in ((0, none), (1, one), (5, five)):
        check(partial(resolve_range, text, total), expected, range=text, total_lines=total)


@each_row(
    "text",
    [
        *("", " ", "a", "0", "0~", "~0", "0~3", "1~0", "3~2", "00", "-1", "-3~", "+1", "-1-3"),
        *("1~2~3", "~~", "1,3", "1:3", "..3", "1 3", "L", "1\n", "１", "٣", "1.0", "1e3", "~-1"),
        *("0x1", "1～3", "2−3", "1" * 40, "0" * 17 + "21", "1" * 19 + "~", "~" + "1" * 19),
    ],
)
@each_row("total", [0, 1, 5, 10**6])
def test_no_meaning(text: str, total: int) -> None:
    check(partial(resolve_range, text, total), BAD, range=text, total_lines=total)


@given(st.text("0123456789~", max_size=24), st.integers(0, 30))
def test_nothing_is_clamped(text: str, total: int) -> None:
    try:
        start, stop = resolve_range(text, total)
    except Refusal:
        return
    assert 0 <= start <= stop <= total
    assert start < stop or start == total
    first, tilde, last = text.partition("~")
    if total:
        assert start == (int(first) if first else 1) - 1
        assert stop == (int(last) if last else total if tilde else start + 1)


@each_row("text expected", [
    ("-1~", 1),
    ("-20~", 20),
    ("-0~", None),
    ("-1", None),
    ("1~", None),
    ("", None),
    ("-~", None),
    ("-1~2", None),
    ("--1~", None),
    ("-１~", None),
    ("- 1~", None),
])  # fmt: skip
def test_tail(text: str, expected: int | None) -> None:
    assert tail_count(text) == expected
