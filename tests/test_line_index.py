"""Where lines start: the index that counts as it is asked gives what the listed one does."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.text import snapshot as line_index
from copydesk.text.snapshot import LineIndex, line_of, lines_of

TEXTS = st.lists(st.sampled_from([b"a", b"\n", b"\r\n", b"bcd", b"\n\n\n", b"x" * 9])).map(b"".join)


def answers(index: LineIndex, lines: int, size: int, asked: list[int]) -> list[int]:
    """All that an index says of each byte, and of the lines in this order and in their own."""
    found = [index[min(at, lines)] for at in asked]
    found += [line_of(index, byte) for byte in range(size)]
    return [*found, *(index[line] for line in range(lines + 1))]


def check_index(data: bytes, first: int, asked: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the sizes of its blocks, the counting index is the listed one."""
    starts = lines_of(data, first, b"\n")
    assert isinstance(starts, list)
    lines = len(starts) - 1
    listed = answers(starts, lines, len(data), asked)
    for block in (1, 3, 8):
        with monkeypatch.context() as patch:
            patch.setattr(line_index, "SHORT", 0)
            patch.setattr(line_index, "_BLOCK", block)
            index = lines_of(data, first, b"\n")
            assert answers(index, lines, len(data), asked) == listed


@given(TEXTS, st.integers(0, 3), st.lists(st.integers(0, 60), max_size=12))
def test_counting_and_listing_agree(data: bytes, first: int, asked: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        check_index(data, min(first, len(data)), asked, patch)


def test_starts_are_where_a_plain_loop_finds_them() -> None:
    data = b"".join(b"%d\n" % number * (number % 3) for number in range(20_000)) + b"end"
    assert len(data) > line_index.SHORT
    index = lines_of(data, 0, b"\n")
    starts = [0, *(at + 1 for at, byte in enumerate(data) if byte == 10)]
    assert [index[line] for line in range(len(starts) + 1)] == [*starts, len(data)]
    assert [line_of(index, start) for start in starts] == list(range(len(starts)))


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("unit", [2, 4])
def test_a_line_feed_is_a_whole_code_unit(unit: int, order: Literal["little", "big"]) -> None:
    """The bytes of U+0A00, U+000A and U+0A0A hold those of a line feed at other places too."""
    codes = [0x0A, 0x0A00, 0x0A, 0x0A, 0x0A0A, 0x0A00, 0x61, 0x0A]
    data = b"".join(code.to_bytes(unit, order) for code in codes)
    index = lines_of(data, 0, (0x0A).to_bytes(unit, order))
    assert index == [unit * at for at in (0, 1, 3, 4, 8)]
