"""Near misses: the true place is found among many that are like it, in bounded time and words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.text.nearest import nearest_lines, nearest_of
from copydesk.text.snapshot import Snapshot
from support.cost import bounded, spread
from support.texts import nearest, snapshots

MANY = [f"line {i:07d} value = compute({i % 977:05d}, other)  # {i % 7}" for i in range(200_000)]
AT = 123_456
SIMILAR = Snapshot.of("\n".join(MANY).encode())


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("start", "lines"),
    spread(
        [
            (AT, [MANY[AT].replace("value", "vlaue")]),
            (AT, [MANY[AT].replace("compute", "compte")]),
            (AT, [MANY[AT].upper()]),
            (AT, [MANY[AT][3:30].replace("value", "valu3")]),
            (AT, [*MANY[AT : AT + 4], "another line", *MANY[AT + 5 : AT + 9]]),
            (AT, ["another line", *MANY[AT + 1 : AT + 9]]),
            (AT, [*MANY[AT : AT + 8], "another line"]),
            (AT, indented(MANY[AT : AT + 8])),
            (AT, [line + "  " for line in MANY[AT : AT + 8]]),
            (AT, [*MANY[AT : AT + 3], *MANY[AT + 4 : AT + 8], "another line"]),
            (AT, [*MANY[AT : AT + 5_000], "another line", *MANY[AT + 5_001 : AT + 9_000]]),
            (0, ["x" + MANY[0], *MANY[1:3]]),
            (199_997, [*MANY[199_997:], "one line more"]),
        ],
        of=3,
    ),
    ids=[
        *("typo", "typo at the end", "case", "part of a line", "line within", "first line"),
        *("last line", "indentation", "trailing blanks", "a line less", "long", "start", "end"),
    ],
)
def test_the_true_place_among_many(start: int, lines: list[str]) -> None:
    found = nearest(SIMILAR, "\n".join(lines))
    assert found is not None
    assert found.start == start
    assert found.stop == min(start + len(lines), 200_000)
    assert 45 <= found.similarity <= 99
    assert found.diff


@pytest.mark.parametrize(
    ("text", "wanted", "line"),
    [
        ("    return a + b\n    return 2\n", "    return 3", 1),
        ("    return 2\n    return a + b\n", "    return 3", 0),
        ("x = value and other\nx = value\n", "x = valu", 1),
    ],
)
def test_of_places_that_are_as_like_the_one_of_its_size(text: str, wanted: str, line: int) -> None:
    found = nearest(Snapshot.of(text.encode()), wanted + "!")
    assert found is not None
    assert (found.start, found.stop) == (line, line + 1)


def test_a_line_too_many() -> None:
    found = nearest(SIMILAR, "\n".join([MANY[AT], "", *MANY[AT + 1 : AT + 8]]))
    assert found is not None
    assert (found.start, found.stop, found.diff) == (AT, AT + 8, ("- ",))


@pytest.mark.slow
def test_all_texts_are_sought_at_once() -> None:
    places = range(0, 200_000, 2_000)
    found = nearest_of(SIMILAR, [MANY[at].replace("value", "vlaue") for at in places])
    assert [near.start for near in found if near] == list(places)


@pytest.mark.slow
def test_the_closest_line_among_many() -> None:
    assert nearest_lines(SIMILAR, MANY[AT].replace("value", "vlaue")).lines[0] == AT


def check(have: str, sought: str, where: tuple[int, int], *diff: str) -> None:
    """The text stands nearest to these lines, and this is shown of them."""
    for data in (
        have.encode(),
        b"\xff\xfe" + have.encode("utf-16-le"),
        have.replace("\n", "\r\n").encode(),
    ):
        found = nearest(Snapshot.of(data), sought)
        assert found is not None
        assert (found.start, found.stop) == where
        assert found.diff == diff


OPEN_END = "\\ No newline at end of file"

PROGRAM = "import os\n\ndef read_file(path):\n    return open(path).read()\n\ndef write(path):\n    pass\n"


@pytest.mark.parametrize(
    ("sought", "where", "diff"),
    [
        ("def read_files(path):", (2, 3), ["- def read_files(path):", "+ def read_file(path):"]),
        ("def Read_File(path):", (2, 3), ["- def Read_File(path):", "+ def read_file(path):"]),
        (
            "def read_file(path):\n  return open(path).read()\n",
            (2, 4),
            ["-   return open(path).read()", "+     return open(path).read()"],
        ),
        # it starts and ends within lines, which are the same
        (
            "file(path):\n    return open(paths).read()\n\ndef wri",
            (2, 6),
            ["-     return open(paths).read()", "+     return open(path).read()"],
        ),
        ("open(path).reed", (3, 4), ["- open(path).reed", "+     return open(path).read()"]),
        (
            "def write(path):\n    pass\n    done\n",
            (5, 7),
            ["-     done"],
        ),
        (
            "def read_file(path):\r\n    return open(path).reed()",
            (2, 4),
            ["-     return open(path).reed()", "+     return open(path).read()"],
        ),
    ],
)
def test_what_is_shown(sought: str, where: tuple[int, int], diff: list[str]) -> None:
    check(PROGRAM, sought, where, *diff)


@pytest.mark.parametrize(
    ("have", "sought", "diff"),
    [
        # the file has no newline at its end
        ("a\nlast line", "last line\n", ["- last line", "+ last line", OPEN_END]),
        ("first\nlast line", "first\nlast line\n", ["- last line", "+ last line", OPEN_END]),
        # the line goes on, in the middle of the file
        ("f(a)\ng(b) # c\n", "f(a)\ng(b)\n", ["- g(b)", "+ g(b) # c"]),
        ("f(a)\ng(b) # c", "f(a)\ng(b)\n", ["- g(b)", "+ g(b) # c"]),
    ],
)
def test_a_line_end_that_is_not_there(have: str, sought: str, diff: list[str]) -> None:
    stop = have.removesuffix("\n").count("\n") + 1
    check(have, sought, (stop - sought.count("\n"), stop), *diff)


def test_a_byte_that_looks_like_what_was_sought() -> None:
    found = nearest(Snapshot.of(b"one line\nvalue = caf\xe9\n"), "one line\nvalue = caf\\xe9\n")
    assert found is not None
    assert found.diff[:2] == ("- value = caf\\xe9", "+ value = caf\\xe9")
    assert found.diff[2].startswith("\\ ")


@pytest.mark.parametrize(
    ("have", "sought"),
    [
        ("", "a"),
        ("abc\n", "xyz"),
        (PROGRAM, "\n\n\n"),
        (PROGRAM, " \t "),
        (PROGRAM, "class Entirely:\n    other = 'text'"),
        ("a\n" * 1_000, "b"),
    ],
)
def test_nothing_is_near(have: str, sought: str) -> None:
    assert nearest(Snapshot.of(have.encode()), sought) is None


def test_bytes_that_do_not_decode_are_shown_as_escapes() -> None:
    found = nearest(Snapshot.of(b"value = caf\xe9 # here\n"), "value = cafe # here")
    assert found is not None
    assert found.diff == ("- value = cafe # here", "+ value = caf\\xe9 # here")


@pytest.mark.slow
def test_a_long_line_is_shown_where_it_differs() -> None:
    found = nearest(Snapshot.of(" ".join(MANY).encode()), MANY[AT].replace("value", "vlaue"))
    assert found is not None
    assert (found.start, found.stop) == (0, 1)
    assert any(MANY[AT][:20] in line for line in found.diff[1:])


@given(snapshots, st.text(max_size=60) | st.sampled_from(("a\nb\n", "}\n    }", "--- a\n+++ b")))
def test_any_text_in_any_file(base: Snapshot, sought: str) -> None:
    found = nearest(base, sought)
    if found is not None:
        assert 0 <= found.start < found.stop <= base.line_count
        assert len(found.diff) <= 7
        assert sum(map(len, found.diff)) < 700


@pytest.mark.slow
@pytest.mark.parametrize(
    ("have", "sought"),
    spread(
        [
            ("the same line\n" * 700_000, "the some line\nx"),
            ("the same line\n" * 700_000, "the same line\n" * 3_000 + "x"),
            ("ab cd " * 1_700_000, "ab cd ab xd ab"),
            ("a" * 10_000_000, "a" * 100_000 + "b"),
            (("a" * 190 + "\n") * 50_000, "\n".join(["a" * 180 + "b"] * 5_000)),
            ("ab" * 300 + "\n" + ("ba" * 290 + "\n") * 10_000, "\n".join(["ab" * 280 + "c"] * 50)),
            ("é" * 3_000_000, "é" * 2_000 + "e"),
            ("\n" * 5_000_000, "\n\n\n \n"),
        ],
        of=3,
    ),
    ids=["equal lines", "many", "a line", "letters", "long lines", "repeats", "é", "blank"],
)
def test_bounded(have: str, sought: str) -> None:
    base = Snapshot.of(have.encode())
    with bounded():
        found = nearest(base, sought)
    assert found is None or sum(map(len, found.diff)) < 700
