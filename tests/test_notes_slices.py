"""Slices of blocks: every form of the table, every malformed one, none silently empty."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.notes.grammar import InvalidSlice, select

SIYUAN = [f"2026010714333{i}-l5eqs5{i}" for i in range(10)]


def ids(count: int) -> list[str]:
    return [f"id{i}" for i in range(count)]


def read(text: str, names: list[str]) -> range | InvalidSlice:
    """What a slice means, or why it means nothing."""
    try:
        return select(text, names)
    except InvalidSlice as refused:
        return refused


def check_slice(text: str, expected: list[int] | str, total: int = 10) -> None:
    """Among so many blocks the slice means these, or is refused for this reason.

    It is the same with ids as SiYuan makes them.
    """
    for names in (ids(total), SIYUAN[:total]):
        said = text
        for short, long in zip(ids(total), names, strict=True):
            said = said.replace(short, long)
        found = read(said, names)
        if isinstance(found, InvalidSlice):
            quoted = said if len(said) <= 80 else said[:79] + "…"
            assert (found.slice, found.total, found.reason) == (quoted, total, expected)
            assert (found.part or "").removesuffix("…") in said
        else:
            assert list(found) == expected, said


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # the table
        ("id2:id5", [2, 3, 4, 5]),
        ("id2:+3", [2, 3, 4]),
        ("id5:-3", [3, 4, 5]),
        ("0:5", [0, 1, 2, 3, 4]),
        ("-2:", [8, 9]),
        ("id8:END", [8, 9]),
        ("BEGIN:id2", [0, 1, 2]),
        # the same in other words
        ("id2", [2]),
        ("id5:id5", [5]),
        ("id8:", [8, 9]),
        (":id2", [0, 1, 2]),
        ("BEGIN:END", list(range(10))),
        (":", list(range(10))),
        ("BEGIN:3", [0, 1, 2]),
        (":3", [0, 1, 2]),
        ("7:END", [7, 8, 9]),
        ("7", [7, 8, 9]),
        ("-3", [7, 8, 9]),
        ("0:-7", [0, 1, 2]),
        ("-3:-1", [7, 8]),
        ("BEGIN:-8", [0, 1]),
        # ids and indices
        ("id2:4", [2, 3]),
        ("1:id2", [1, 2]),
        ("id7:-1", [7]),  # a count, not an index
        ("-4:id7", [6, 7]),
        # what is beyond the ends
        ("id8:+5", [8, 9]),
        ("id1:-5", [0, 1]),
        ("8:99", [8, 9]),
        ("-99:2", [0, 1]),
        ("id8:99", [8, 9]),
        ("99:", []),
        ("20:30", []),
        ("0:-10", []),
        ("-30:-20", []),
        ("8:-5", []),
        ("00001:0000003", [1, 2]),
        # what is plain: so many from an end, blanks, a header as it is shown
        (":+2", [0, 1]),
        ("BEGIN:+2", [0, 1]),
        (":+99", list(range(10))),
        ("END:3", [7, 8, 9]),
        ("END:99", list(range(10))),
        ("id2 :+2", [2, 3]),
        ("id2: +2", [2, 3]),
        (" id2:id5\t", [2, 3, 4, 5]),
        (" 0 : 2 ", [0, 1]),
        (" : ", list(range(10))),
        ("@@id2@@:+2", [2, 3]),
        ("@@id2@@[p]:@@ id4 @@Paragraph", [2, 3, 4]),
    ],
)
def test_meaning(text: str, expected: list[int]) -> None:
    check_slice(text, expected)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        (" ", "empty"),
        ("id2 id3", "form"),
        ("@@id2:+2", "form"),
        ("1.5", "form"),
        ("0:1.5", "form"),
        ("0:5:2", "form"),
        ("id2::id5", "form"),
        ("id2：id5", "form"),
        ("id2-id5:é", "form"),
        ("'id2':END", "form"),
        ("１:３", "form"),
        ("+3", "form"),
        ("+3:", "form"),
        ("9" * 19 + "!", "form"),
        ("abc:5", "unknown"),
        ("abc", "unknown"),
        ("5:abc", "unknown"),
        ("abc:+2", "unknown"),
        ("id2:id77", "unknown"),
        ("9" * 19 + ":", "unknown"),
        ("begin:id2", "keyword"),
        ("id2:end", "keyword"),
        ("Begin:2", "keyword"),
        ("END:id2", "keyword"),
        ("id2:BEGIN", "keyword"),
        ("END:-3", "keyword"),
        ("END", "keyword"),
        ("BEGIN", "keyword"),
        ("end", "keyword"),
        ("id2:+0", "count"),
        ("id2:-0", "count"),
        ("id2:-00", "count"),
        (":+0", "count"),
        ("BEGIN:+00", "count"),
        ("END:0", "count"),
        ("END:00", "count"),
        ("END:٣", "keyword"),
        ("END:" + "9" * 19, "keyword"),
        ("END:" + "9" * 5_000, "keyword"),
        ("id2:" + "9" * 5_000, "form"),
        ("5:+3", "anchor"),
        ("-3:+2", "anchor"),
        ("id5:id2", "reversed"),
        ("id5:2", "reversed"),
        ("id5:5", "reversed"),
        ("7:id2", "reversed"),
        ("99:id2", "reversed"),
        ("5:2", "reversed"),
        ("5:5", "reversed"),
        (":0", "reversed"),
        ("-2:-5", "reversed"),
        ("-1:-1", "reversed"),
    ],
)
def test_malformed(text: str, reason: str) -> None:
    check_slice(text, reason)


@pytest.mark.parametrize("text", [":", "0:5", "-2:", "BEGIN:END", "5", "0:-1"])
def test_no_blocks(text: str) -> None:
    check_slice(text, [], total=0)


def test_an_anchor_may_be_named_as_a_keyword_in_small_letters() -> None:
    assert list(select("end:", ["a", "end", "b"])) == [1, 2]
    assert list(select("a:begin", ["a", "begin", "b"])) == [0, 1]
    # but not as an index, nor as the keyword
    assert list(select("1", ["a", "b", "1"])) == [1, 2]
    with pytest.raises(InvalidSlice):
        select("END", ["END"])


def test_paging_by_the_last_id_moves_on() -> None:
    """As an agent would read a long document: each page starts at the last block of the one before."""
    names, at, seen = ids(95), "id0", list[str]()
    while True:
        page = [names[i] for i in select(f"{at}:+20", names)]
        seen += page[bool(seen) :]
        if len(page) < 20:
            break
        at = page[-1]
    assert seen == names


def test_plugin_slices_that_were_wrong_silently() -> None:
    for text, reason in (
        ("5:+3", "anchor"),
        ("END:-3", "keyword"),
        ("abc:5", "unknown"),
        ("begin:id2", "keyword"),
        ("id2:end", "keyword"),
        ("id5:id2", "reversed"),
        ("1.5", "form"),
    ):
        check_slice(text, reason)


tokens = st.sampled_from(
    ("", "BEGIN", "END", "end", "id0", "id3", "id9", "+2", "-2", "0", "3", "-1", "x", " ")
)


@given(
    st.tuples(tokens, st.sampled_from((":", "", "::")), tokens).map("".join) | st.text(max_size=8),
    st.integers(0, 12),
)
def test_any_slice(text: str, total: int) -> None:
    found = read(text, ids(total))
    if isinstance(found, InvalidSlice):
        assert found.slice == text
        return
    assert found.step == 1
    assert 0 <= found.start <= total
    assert len(found) == 0 or found.stop <= total
    assert text
    # one that names a block is never empty
    assert found or "id" not in text


@pytest.mark.slow
@given(st.integers(-12, 12), st.integers(-12, 12), st.integers(0, 10))
def test_indices_are_those_of_python(start: int, stop: int, total: int) -> None:
    blocks = list(range(total))
    for text, expected in (
        (f"{start}:{stop}", blocks[start:stop]),
        (f"{start}:", blocks[start:]),
        (f":{stop}", blocks[:stop]),
    ):
        found = read(text, ids(total))
        if isinstance(found, InvalidSlice):
            assert (found.reason, expected) == ("reversed", [])
        else:
            assert list(found) == expected
