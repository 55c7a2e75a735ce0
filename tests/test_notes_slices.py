"""Slices of blocks: every form of the table, every malformed one, none silently empty."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.notes.grammar import InvalidSlice, select
from support.rows import each_row

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


MEANING = {
    # the table of the manual
    "id2:id5": "2345", "id2:+3": "234", "id5:-3": "345", "0:5": "01234", "-2:": "89",
    "id8:END": "89", "BEGIN:id2": "012",
    # the same in other words
    "id2": "2", "id5:id5": "5", "id8:": "89", ":id2": "012", "BEGIN:END": "0123456789",
    ":": "0123456789", "BEGIN:3": "012", ":3": "012", "7:END": "789", "7": "789", "-3": "789",
    "0:-7": "012", "-3:-1": "78", "BEGIN:-8": "01",
    # ids and indices: behind an id a number with a sign is a count
    "id2:4": "23", "1:id2": "12", "id7:-1": "7", "-4:id7": "67",
    # beyond the ends
    "id8:+5": "89", "id1:-5": "01", "8:99": "89", "-99:2": "01", "id8:99": "89", "99:": "",
    "20:30": "", "-30:-20": "", "00001:0000003": "12",
    # so many from an end, blanks, a header as it is shown
    ":+2": "01", "BEGIN:+2": "01", ":+99": "0123456789", "END:3": "789", "END:99": "0123456789",
    "id2 :+2": "23", "id2: +2": "23", " id2:id5\t": "2345", " 0 : 2 ": "01", " : ": "0123456789",
    "@@id2@@:+2": "23", "@@id2@@[p]:@@ id4 @@Paragraph": "234",
}  # fmt: skip


@each_row("text expected", MEANING.items())
def test_meaning(text: str, expected: str) -> None:
    check_slice(text, [int(number) for number in expected])


MALFORMED = {
    "empty": ("", " "),
    "form": (
        "id2 id3", "@@id2:+2", "1.5", "0:1.5", "0:5:2", "id2::id5", "id2：id5", "id2-id5:é",
        "'id2':END", "１:３", "+3", "+3:", "9" * 19 + "!", "id2:" + "9" * 5_000,
    ),
    "unknown": ("abc:5", "abc", "5:abc", "abc:+2", "id2:id77", "9" * 19 + ":"),
    "keyword": (
        "begin:id2", "id2:end", "Begin:2", "END:id2", "id2:BEGIN", "END:-3", "END", "BEGIN", "end",
        "END:٣", "END:" + "9" * 19, "END:" + "9" * 5_000,
    ),
    "count": ("id2:+0", "id2:-0", "id2:-00", ":+0", "BEGIN:+00", "END:0", "END:00"),
    "anchor": ("5:+3", "-3:+2"),
    "reversed": (
        "id5:id2", "id5:2", "id5:5", "7:id2", "99:id2", "5:2", "5:5", ":0", "-2:-5", "-1:-1",
        "8:-5", "0:-10", "-1:0", "5:-5",
    ),
}  # fmt: skip


@each_row("text reason", [(text, reason) for reason, all_ in MALFORMED.items() for text in all_])
def test_malformed(text: str, reason: str) -> None:
    check_slice(text, reason)


def test_no_blocks() -> None:
    for text in (":", "0:5", "-2:", "BEGIN:END", "5", "0:-1"):
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
