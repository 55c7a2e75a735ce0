"""Exact search: every place with overlaps, however many texts are sought, in any encoding."""

from __future__ import annotations

import re
import sys
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from copydesk.text import search
from copydesk.text.search import (
    FEW,
    SHOWN,
    NormalizedText,
    find_all,
    find_apart,
    overlapping,
    places,
)
from copydesk.text.snapshot import Snapshot
from support.cost import bounded, spread
from support.rows import each_row

SMALL = st.text(st.sampled_from("ab\n"), max_size=40)
NEEDLES = st.lists(st.text(st.sampled_from("ab\n"), min_size=1, max_size=7), max_size=40)


def brute(text: str, wanted: str) -> list[int]:
    return [at for at in range(len(text)) if text.startswith(wanted, at)]


def check_spans(
    data: bytes, wanted: str, *spans: tuple[int, int], named: str | None = None
) -> None:
    """These spans, and no others, are what stands for the text, alone and among many."""
    base = Snapshot.of(data, named)
    others = [f"no such text {index}" for index in range(3 * FEW)]
    for found in (find_all(base, [wanted])[0], find_all(base, [*others, wanted])[-1]):
        assert found.spans == spans
        assert found.count == len(spans)


@each_row("data wanted spans", [
    (b"", "a", []),
    (b"abc", "abc", [(0, 3)]),
    (b"aaa", "aa", [(0, 2), (1, 3)]),
    (b"abababa", "aba", [(0, 3), (2, 5), (4, 7)]),
    # a line feed is any line end, a whole one
    (b"a\r\nb\nc", "a\nb\nc", [(0, 6)]),
    (b"a\r\nb", "a\r\nb", [(0, 4)]),
    (b"a\nb", "a\r\nb", [(0, 3)]),
    (b"a\r\nb", "\n", [(1, 3)]),
    (b"a\r\nb", "\r", []),
    (b"a\r\nb", "a\r", []),
    (b"a\rb", "a\r", [(0, 2)]),
    (b"a\rb", "a\nb", []),
    (b"a\r\r\nb", "\r\n", [(2, 4)]),
    (b"a\r\r\nb", "\r\r\n", [(1, 4)]),
    (b"a\r\r\nb", "a\r", [(0, 2)]),
    (b"\r\n\r\n\n", "\n\n", [(0, 4), (2, 5)]),
    # other ends of lines are none
    ("a\u2028b\x85c\x0bd".encode(), "b\x85c", [(4, 8)]),
    # the byte order mark is no part of the text
    (b"\xef\xbb\xbfab", "ab", [(3, 5)]),
    (b"\xef\xbb\xbfa\r\nb", "a\nb", [(3, 7)]),
    (b"\xef\xbb\xbfab", "\ufeffab", []),
    (b"\xef\xbb\xbf\xef\xbb\xbfab", "\ufeffab", [(3, 8)]),
    # bytes that do not decode stand between what does
    (b"a\xffb\xc3c", "b", [(2, 3)]),
    (b"\xe9t\xe9", "\xe9", []),
    ("é".encode(), "é", [(0, 2)]),
    ("🎉é🎉".encode(), "é🎉", [(4, 10)]),
    (b"\xff\xfe\0\0\xff\xff\xff\xffa\0\0\0", "a", [(8, 12)]),
])  # fmt: skip
def test_one(data: bytes, wanted: str, spans: list[tuple[int, int]]) -> None:
    check_spans(data, wanted, *spans)


@each_row("named data wanted spans", [
    ("latin-1", b"\xe9t\xe9\r\n", "t\xe9\n", [(1, 5)]),
    ("gb18030", "中文\r\n中".encode("gb18030"), "文\n", [(2, 6)]),
    ("gb18030", "中文\r\n中".encode("gb18030"), "中", [(0, 2), (6, 8)]),
    ("gb18030", "\U0001f389a".encode("gb18030") + b"\xff\r\nb", "\nb", [(6, 9)]),
    # the second byte of a character is no character: 0x5C is a backslash elsewhere
    ("cp932", "表\\".encode("cp932"), "\\", [(2, 3)]),
    ("shift_jis", "日本\r\n".encode("shift_jis"), "本", [(2, 4)]),
    # the two spellings of one character
    ("cp932", b"\x87\x54\r\n\xfa\x4a x", "Ⅰ", [(0, 2), (4, 6)]),
    ("cp932", b"\xfa\x4a\xfa\x4ax\r\n\xfa\x4ay", "Ⅰy", [(7, 10)]),
    (None, b"\xff\xfe" + "a\r\nb".encode("utf-16-le"), "a\nb", [(2, 10)]),
    (None, b"\xff\xfe" + "a漢".encode("utf-16-le"), "漢", [(4, 6)]),
    (None, b"\xff\xfe" + "\u0a00\u6100a".encode("utf-16-le"), "a", [(6, 8)]),
    (None, b"\xfe\xff" + "🎉é".encode("utf-16-be"), "é", [(6, 8)]),
    # a lone half of a pair, and half a unit at the end
    (None, b"\xff\xfe\x00\xd8" + "ab".encode("utf-16-le") + b"\x41", "b", [(6, 8)]),
    (None, b"\xff\xfe\0\0" + "a\r\nb".encode("utf-32-le"), "\nb", [(8, 20)]),
    (None, b"\xff\xfe" + "\ufeffa".encode("utf-16-le"), "\ufeffa", [(2, 6)]),
])  # fmt: skip
def test_one_in_another_encoding(
    named: str | None, data: bytes, wanted: str, spans: list[tuple[int, int]]
) -> None:
    check_spans(data, wanted, *spans, named=named)


@pytest.fixture(params=["as it is", "small chunks", "nothing installed", "popular at once"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ways to search: the same is found in each."""
    if request.param != "as it is":
        monkeypatch.setattr(search, "FEW", 0)
    if request.param == "small chunks":
        monkeypatch.setattr(search, "_CHUNK", 3)
    if request.param == "nothing installed":
        monkeypatch.setitem(sys.modules, "ahocorasick_rs", None)
    if request.param == "popular at once":
        monkeypatch.setattr(search, "_POPULAR", 1)
        monkeypatch.setattr(search, "_TABLE", 0)


@pytest.mark.usefixtures("way")
@given(SMALL, NEEDLES)
def test_as_brute_force(text: str, wanted: list[str]) -> None:
    base = Snapshot.of(text.encode())
    for found, one in zip(find_all(base, wanted), wanted, strict=True):
        starts = brute(text, one)
        assert found.count == len(starts)
        assert found.spans == tuple((at, at + len(one)) for at in starts[:SHOWN])


@pytest.mark.usefixtures("way")
@given(SMALL, NEEDLES, st.data())
def test_as_brute_force_with_any_line_ends(
    text: str, wanted: list[str], data: st.DataObject
) -> None:
    ends = [data.draw(st.sampled_from(("\n", "\r\n"))) for _ in range(text.count("\n"))]
    parts = text.split("\n")
    raw = parts[0] + "".join(a + b for a, b in zip(ends, parts[1:], strict=True))
    way_there = [0]
    for char, end in zip(text, _ends(text, ends), strict=True):
        way_there.append(way_there[-1] + (len(end) if char == "\n" else 1))
    for found, one in zip(find_all(Snapshot.of(raw.encode()), wanted), wanted, strict=True):
        starts = brute(text, one)
        assert found.count == len(starts)
        assert list(found.spans) == [
            (way_there[at], way_there[at + len(one)]) for at in starts[:SHOWN]
        ]


def _ends(text: str, ends: list[str]) -> list[str]:
    rest = iter(ends)
    return [next(rest) if char == "\n" else "" for char in text]


@pytest.mark.usefixtures("way")
@given(st.sampled_from(("utf-16-le", "utf-32-be", "gb18030", "shift_jis", "utf-8")), st.data())
def test_as_brute_force_in_any_encoding(name: str, data: st.DataObject) -> None:
    letters = st.sampled_from("a\\あ表\n")
    text = data.draw(st.text(letters, max_size=30))
    wanted = data.draw(st.lists(st.text(letters, min_size=1, max_size=4), max_size=3 * FEW))
    base = Snapshot.of(text.replace("\n", "\r\n").encode(name), name)
    for found, one in zip(find_all(base, wanted), wanted, strict=True):
        spans = [base.data[start:stop].decode(name) for start, stop in found.spans]
        assert found.count == len(brute(text, one))
        assert spans == [one.replace("\n", "\r\n")] * min(found.count, SHOWN)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 9, 16, 17, 50])
def test_a_text_across_the_border_of_two_chunks(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_CHUNK", 64)
    text = "".join(chr(0x4E00 + i) for i in range(200))
    wanted = [text[at : at + size] for at in range(200 - size)]
    for at, found in enumerate(find_all(Snapshot.of(text.encode()), wanted)):
        assert found.spans == ((3 * at, 3 * (at + size)),)


@given(
    st.text(st.sampled_from("ab"), max_size=200),
    st.text(st.sampled_from("ab"), min_size=1, max_size=6),
)
@example("a" * 250, "aa")
@example("ab" * 120 + "b" + "ab" * 60, "abab")
@example("ab" * 120, "b")
def test_the_many_places_of_one_text_are_all_counted(text: str, wanted: str) -> None:
    """Those beyond the ones shown are counted otherwise."""
    assert find_all(Snapshot.of(text.encode()), [wanted])[0].count == len(brute(text, wanted))


@each_row("data pattern found", [
    (b"aaa", "aa", [((0, 2), "aa"), ((1, 3), "aa")]),
    (b"\xef\xbb\xbfa\r\nba", "a\n?", [((3, 6), "a\n"), ((7, 8), "a")]),
    (b"\xe9a\xe9", "a.", [((1, 3), "a\\xe9")]),
    ("\ufeffé\r\né".encode("utf-16-le"), "é", [((2, 4), "é"), ((8, 10), "é")]),
])  # fmt: skip
def test_a_pattern(data: bytes, pattern: str, found: list[tuple[tuple[int, int], str]]) -> None:
    plain = NormalizedText.of(Snapshot.of(data))
    shown = plain.base.encoding.decode
    spans = plain.find(re.compile(pattern))
    assert [(span, shown(data[slice(*span)]).replace("\r", "")) for span, _ in spans] == found


@given(SMALL, st.text(st.sampled_from("ab\n"), min_size=1, max_size=4))
@example("aab", "a")
def test_places_apart_are_those_of_a_replacement(text: str, wanted: str) -> None:
    base = Snapshot.of(text.encode())
    parts = text.split(wanted)
    assert len(find_apart(base, wanted)) == len(parts) - 1
    for start, stop in reversed(find_apart(base, wanted)):
        text = f"{text[:start]}X{text[stop:]}"
    assert text == "X".join(parts)


@pytest.mark.parametrize("chunk", [1, 2, 5, 1_000])
def test_so_many_places_of_a_key_and_one_more(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one more says that there are too many; also where they stand in several chunks."""
    monkeypatch.setattr(search, "_CHUNK", chunk)
    assert places(b"aaaa", [b"a"], 2) == {b"a": [0, 1, 2]}
    found = places(b"a.a.a.a.b.b", [bytes([key]) for key in b"abcdef"], 2)
    assert found == {b"a": [0, 2, 4], b"b": [8, 10], b"c": [], b"d": [], b"e": [], b"f": []}


def test_a_popular_piece_is_given_up_and_the_others_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search, "_CHUNK", 1_000)
    keys = [b"a", b"b", b"c", b"d", b"e", b"f"]
    assert len(keys) > FEW
    found = places(b"b" + b"a" * 50_000 + b"b", keys, 10)
    assert found[b"a"] == list(range(1, 12))
    assert found[b"b"] == [0, 50_001]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 6)), max_size=12))
def test_overlapping(given: list[tuple[int, int]]) -> None:
    spans = [(start, start + size) for start, size in given]
    pairs = [
        (i, j)
        for i, (a, b) in enumerate(spans)
        for j, (c, d) in enumerate(spans)
        if i < j and a < d and c < b
    ]
    assert sorted(overlapping(spans)) == pairs


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "wanted"),
    spread(
        [
            ("a" * 3_000_000, ["a" * size for size in range(1, 60)]),
            ("a" * 3_000_000, ["a" * size + "b" for size in range(1, 60)]),
            ("ab" * 1_500_000, [f"{'ab' * size}a" for size in range(1, 40)]),
            ("the same line\n" * 200_000, [f"the same line\nx{i}" for i in range(100)]),
            ("x" * 300_000 + "a" * 3_000_000, [f"{'a' * 20}{i}" for i in range(100)]),
        ],
        of=3,
    ),
    ids=["one letter", "one letter and another", "two letters", "equal lines", "late"],
)
def test_bounded(text: str, wanted: list[str]) -> None:
    with bounded():
        find_all(Snapshot.of(text.encode()), wanted)


@pytest.mark.slow
@pytest.mark.parametrize(("text", "wanted"), [
    # pieces of 8 or 16 bytes stand in thousands of places, the texts in few
    ("".join(f"{i * 2654435761 % 2**32:032b}" for i in range(60_000)),
        [f"{i * 40503 % 2**14:014b}" for i in range(800)]),
    (" " * 2_000_000, [f"{' ' * (100 + i)}x{' ' * i}" for i in range(400)]),
    (" " * 1_000_000 + "y" + " " * 1_000_000, [f"{' ' * (100 + i)}y{' ' * i}" for i in range(400)]),
], ids=["two digits", "blanks that are not there", "blanks that are there"])  # fmt: skip
def test_many_texts_cost_no_pass_each(text: str, wanted: list[str]) -> None:
    """Of a few tries one counts: what else the process does can only make it seem dearer."""
    base = Snapshot.of(text.encode())
    for _ in range(5):
        start = time.thread_time()
        found = find_all(base, wanted)
        several = time.thread_time() - start
        start = time.thread_time()
        few = [find_all(base, [one])[0] for one in wanted[::40]]
        each = (time.thread_time() - start) * 40
        assert list(found[::40]) == few
        if several < each / 2:
            return
    pytest.fail(f"{several} seconds for all, {each} for each on its own")
