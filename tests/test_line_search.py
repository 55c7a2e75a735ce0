"""Lines that hold or equal a text, and near misses: exact, and bounded on any file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.text.encoding import UTF8
from copydesk.text.nearest import nearest_lines
from copydesk.text.snapshot import Snapshot, Sought, found_in, hits_of
from support.cost import bounded, spread
from support.rows import each_row
from support.texts import LINES, snapshots

anchors = st.sampled_from([line for line in LINES if line]) | st.sampled_from(
    ("\\xff", "xff", "\r", "a\r", " b", "\\", "\ufeff", "漢")
)


def matching_lines(base: Snapshot, text: str, *, whole: bool) -> list[int]:
    """The lines, 0-based, whose shown text equals `text` (`whole`) or contains it."""
    body = base.data[len(base.encoding.bom) :]
    return list(found_in(body, base.encoding, text, whole=whole))


def wide(text: str) -> bytes:
    return b"\xff\xfe" + text.encode("utf-16-le")


@each_row("data text contains equals", [
    (b"", "a", [], []),
    (b"a\nab\nba\n", "a", [0, 1, 2], [0]),
    (b"\r\na", "a", [1], [1]),
    (b"aa aa\naa\n", "aa", [0, 1], [1]),
    (b"ab\nb", "b", [0, 1], [1]),
    (b"a\r\nab\r\n", "a", [0, 1], [0]),
    # a terminator is no part of the line
    (b"a\r\n", "a\r", [], []),
    (b"a\r\r\n", "a\r", [0], [0]),
    (b"a\rb\n", "a\r", [0], []),
    # nor is the byte order mark
    (b"\xef\xbb\xbfa\n", "a", [0], [0]),
    (b"\xef\xbb\xbfa\n", "\ufeff", [], []),
    (b" a\na\n", "a", [0, 1], [1]),
    ("é\ne\u0301\n".encode(), "é", [0], [0]),
    # a byte is no text
    (b"\xe9\ncaf\xe9\n", "\\xe9", [], []),
    (b"\xe9\n\\xe9\n", "\\xe9", [1], [1]),
    (b"\xef\xbb\xbf\xe9\n", "\\xe9", [], []),
    (wide("a\r\n漢字a\n"), "a", [0, 1], [0]),
    (wide("\u0a00\u6100\n"), "a", [], []),
    (b"x\x0cy\x85\n", "y", [0], []),
])  # fmt: skip
def test_matching(data: bytes, text: str, contains: list[int], equals: list[int]) -> None:
    """These lines, from 0, hold the text, and these are the text."""
    base = Snapshot.of(data)
    assert matching_lines(base, text, whole=False) == contains
    assert matching_lines(base, text, whole=True) == equals


@pytest.mark.parametrize("name", ["iso8859-1", "gb18030", "shift_jis"])
def test_matching_in_a_named_encoding(name: str) -> None:
    text = "abc\n\xe9t\xe9\r\n" if name == "iso8859-1" else "abc\n日本\r\n"
    base = Snapshot.of(text.encode(name), name)
    assert matching_lines(base, text[4:6], whole=False) == [1]
    assert matching_lines(base, text[4:].rstrip(), whole=True) == [1]
    assert matching_lines(base, "b", whole=False) == [0]


def test_matching_in_a_named_encoding_with_bytes_that_do_not_decode() -> None:
    base = Snapshot.of(b"ab\n\x81\nb\n", "shift_jis")
    assert matching_lines(base, "b", whole=False) == [0, 2]
    assert matching_lines(base, "b", whole=True) == [2]


@each_row("data text contains equals", [
    (b"\xe9\ncaf\xe9\n", "\\xe9", [0, 1], [0]),
    (b"\xef\xbb\xbf\xe9\n", "\\xe9", [0], [0]),
    (b"\xe9\nx\\xe9\n", "\\\\xe9", [1], []),
    (b"\xe9 \\xe9\n", "\\xe9 \\\\xe9", [0], [0]),
    (b"\xe9\n", "e9", [], []),
    (b"\xc3\xa9\n", "\\xc3", [], []),
])  # fmt: skip
def test_shown_bytes_are_found(
    data: bytes, text: str, contains: list[int], equals: list[int]
) -> None:
    base = Snapshot.of(data)
    body = data[len(base.encoding.bom) :]
    for whole, lines in ((False, contains), (True, equals)):
        assert list(found_in(body, base.encoding, text, whole=whole, escaped=True)) == lines


def test_more_hits_than_are_kept_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("copydesk.text.snapshot.KEPT", 2)
    (found,) = hits_of([Sought("a")])
    found.take(b"a\na\nb\na\n", UTF8, 7)
    assert ([*found.lines], found.count, found.last) == ([7, 8], 3, 10)


def test_of_the_lines_that_end_something_the_first_and_those_that_close_are_kept() -> None:
    """A line that closes is the first one after a line of the text before it; blocks are one."""
    starts, ends = hits_of([Sought("s"), Sought("e", ends=True)])
    assert (starts.last, ends.last) == (-1, -1)
    for first, block in ((0, b"s\n" + b"e\n" * 40), (41, b"e\ns\nx\ne\ne\n")):
        for hits in (starts, ends):
            hits.take(block, UTF8, first)
    assert ([*starts.lines], starts.count) == ([0, 42], 2)
    assert ([*ends.lines], ends.count, ends.last) == ([*range(1, 17), 44], 43, 45)
    (every,) = hits_of([Sought("e")])
    every.take(b"e\n" * 40, UTF8, 0)
    assert [*every.lines] == [*range(40)]


@given(snapshots, anchors)
def test_matching_is_what_the_texts_of_lines_say(base: Snapshot, text: str) -> None:
    shown = [base.encoding.text(base.key(line)) for line in range(base.line_count)]
    assert matching_lines(base, text, whole=True) == [i for i, x in enumerate(shown) if x == text]
    assert matching_lines(base, text, whole=False) == [i for i, x in enumerate(shown) if text in x]


@given(snapshots, st.text(min_size=1, max_size=12) | anchors)
def test_nearest_lines_are_few_and_of_the_file(base: Snapshot, text: str) -> None:
    found = nearest_lines(base, text).lines
    assert len(found) <= 3
    assert len(set(found)) == len(found)
    assert set(found) <= set(range(base.line_count))


PROGRAM = b"""import os

def read_file(path):
    return open(path).read()

def write_file(path, text):
    open(path, "w").write(text)
"""


@each_row("text expected", [
    ("def read_file(paths):", [2]),
    ("def Read_File(path):", [2]),
    ("DEF READ_FILE(PATH):", [2]),
    ("  def write_file(path, txt):", [5]),
    ("return open(path).read", [3]),
    ("zzz", []),
    ("   ", []),
    ("\t", []),
])  # fmt: skip
@pytest.mark.parametrize("padding", [0, 10_000])
def test_closest(text: str, expected: list[int], padding: int) -> None:
    base = Snapshot.of(PROGRAM + b"# 0123456789\n" * padding)
    assert [*nearest_lines(base, text).lines[:1]] == expected


def test_the_closest_comes_first() -> None:
    base = Snapshot.of(b"alpha beta gamma delta\nalpha beta gamma\nalpha beta gamna\n")
    assert nearest_lines(base, "alpha beta gamma!").lines[0] == 1


@pytest.mark.parametrize(
    ("line", "text"),
    spread(
        [
            ("x = value_of(12345)", "x = value_of(12346)!"),
            ("a" * 800, "a" * 400 + "!"),
            ("cbaab" * 160, "abcab" * 80 + "!"),
            ("", "no such line"),
            ("é" * 5_000_000, "no such line"),
            ("ab " * 1_000_000, "ab ac ad"),
        ],
        of=3,
    ),
)
@pytest.mark.parametrize("most", [300, 5_000_000])
def test_closest_is_bounded(line: str, text: str, most: int) -> None:
    """Both where all lines are candidates and where they are searched for."""
    raw = line.encode() + b"\n"
    base = Snapshot.of(raw * min(most, 5_000_000 // len(raw) + 1))
    assert base.line_count
    with bounded():
        nearest_lines(base, text)
