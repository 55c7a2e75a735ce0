"""Near misses: the true place is found among many that are like it, in bounded time and words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.text import nearest as nearest_module
from copydesk.text.nearest import line_difference, nearest_lines, nearest_of
from copydesk.text.snapshot import Snapshot
from support.cost import bounded, spread
from support.rows import each_row
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


@each_row(
    "text wanted line",
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


def check_nearest(have: str, sought: str, where: tuple[int, int], *diff: str) -> None:
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


@each_row(
    "sought where diff",
    [
        ("def read_files(path):", (2, 3), ["- def read_files(path):", "+ def read_file(path):"]),
        ("def Read_File(path):", (2, 3), ["- def Read_File(path):", "+ def read_file(path):"]),
        ("def read_file(path):\n  return open(path).read()\n", (2, 4), ["-   return open(path).read()", "+     return open(path).read()"]),
        # it starts and ends within lines, which are the same
        (
            "file(path):\n    return open(paths).read()\n\ndef wri",
            (2, 6),
            ["-     return open(paths).read()", "+     return open(path).read()"],
        ),
        ("open(path).reed", (3, 4), ["- open(path).reed", "+     return open(path).read()"]),
        ("def write(path):\n    pass\n    done\n", (5, 7), ["-     done"]),
        (
            "def read_file(path):\r\n    return open(path).reed()",
            (2, 4),
            ["-     return open(path).reed()", "+     return open(path).read()"],
        ),
    ],
)  # fmt: skip
def test_what_is_shown(sought: str, where: tuple[int, int], diff: list[str]) -> None:
    check_nearest(PROGRAM, sought, where, *diff)


@each_row(
    "have sought diff",
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
    check_nearest(have, sought, (stop - sought.count("\n"), stop), *diff)


def test_a_byte_that_looks_like_what_was_sought() -> None:
    found = nearest(Snapshot.of(b"one line\nvalue = caf\xe9\n"), "one line\nvalue = caf\\xe9\n")
    assert found is not None
    assert found.diff[:2] == ("- value = caf\\xe9", "+ value = caf\\xe9")
    assert found.diff[2].startswith("\\ ")


@each_row(
    "have sought",
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


@pytest.mark.parametrize(
    ("text", "sought", "once", "limits", "expected"),
    [
        ("n\n", ["\ne"], False, {}, [None]),
        ("", ["u"], True, {"_PAIRS": 0}, [None]),
        ("aïv", ["naïvé"], True, {"_WITHIN": 4, "_LONG": 10}, [None]),
        ("f\naïve a–", ["f\ni"], True, {"_WITHIN": 4, "_LONG": 10}, [None]),
        ("n", ["nt"], True, {"_PLACES": 3, "_LEAST_PLACES": 1, "_FIRST": 1}, [None]),
        ("rn\n", ["urn\n\n"], True, {}, [(0, 1, 80, ("- urn", "+ rn", "- "), (), None, ())]),
        ("t café\n", ["é"], True, {"_SLACK": 1}, [(0, 1, 99, ("- é", "+ t café"), (), None, ())]),
        ("b }\nb }\nb }\ntb }", ["qb }"], True, {}, [(3, 4, 86, ("- qb }", "+ tb }"), (), None, (0, 1, 2))]),
        (" 26| a\\nb if", ["bif"], True, {"_SLACK": 1}, [(0, 1, 80, ("- bif", "+ b if"), (), None, ())]),
        ("end", ["t end"], True, {"_WITHIN": 4, "_LONG": 10}, [(0, 1, 75, ("- t end", "+ end"), (), None, ())]),
        ("end", ["n end"], True, {"_WITHIN": 4, "_LONG": 10}, [(0, 1, 75, ("- n end", "+ end"), (), None, ())]),
        ("\ntb\n", ["\natb"], False, {"_WITHIN": 4, "_LONG": 10}, [(0, 2, 86, ("- atb", "+ tb"), (), None, ())]),
        ("\n \\", ["\n \\d"], True, {"_DIFF_LINES": 1}, [(0, 2, 86, ("-  \\d", "… (1 more lines differ)"), (), None, ())]),
        ("x other x\n\t", ["qx\n\t"], True, {"_WITHIN": 4, "_LONG": 10}, [(0, 2, 67, ("- qx", "+ x other x"), (), None, ())]),
        ("caf\n ", ["caf́\n\n"], False, {"_DIFF_LINES": 1}, [(0, 2, 80, ("- caf́", "… (3 more lines differ)"), (), None, ())]),
        ("return", ["return\n "], True, {"_PAIRS": 0}, [(0, 1, 88, ("- ·",), ("trailing_blanks", "final_newline"), "return", ())]),
        (" = 1\n e", [" e"], True, {"_SLACK": 1}, [(1, 2, 99, ("-  e", "+  e", "\\ What is shown as \\xNN there is a byte"), (), " e", ())]),
        ("if\n", ["f\n\\"], True, {"_SHOWN": 30, "_LEAST_SHOWN": 10, "_LEAST_WIDTH": 8}, [(0, 1, 67, ("- f", "+ if", "- \\"), (), None, ())]),
        (" a\\n", [" a\\n\nnï y=1"], False, {"_SHOWN": 30, "_LEAST_SHOWN": 10, "_LEAST_WIDTH": 8}, [(0, 1, 62, ("- nï y=1",), (), None, ())]),
        ("ﬁ", ["ﬁ"], True, {"_WITHIN": 4, "_LONG": 10}, [(0, 1, 99, ("- ﬁ", "+ ﬁ", "\\ What is shown as \\xNN there is a byte"), (), "ﬁ", ())]),
        ("\ty = 1\n", ["\ty = 1\n"], False, {}, [(0, 1, 99, ("- \ty = 1", "+ \ty = 1", "\\ What is shown as \\xNN there is a byte"), (), "\ty = 1\n", ())]),
        ("naïve\tnaïve", [" naïve"], True, {"_SHOWN_OF_MANY": 60, "_LEAST_SHOWN": 20}, [(0, 1, 99, ("-  naïve", "+ →naïve"), ("indentation",), None, (0,))]),
        ("end ", [" end\n"], True, {"_WITHIN": 4, "_LONG": 10}, [(0, 1, 99, ("-  end", "+ end·"), ("trailing_blanks", "indentation", "final_newline"), "end ", ())]),
        ("x", ["x"], False, {"_PLACES": 3, "_LEAST_PLACES": 1, "_FIRST": 1}, [(0, 1, 99, ("- x", "+ x", "\\ What is shown as \\xNN there is a byte"), (), "x", ())]),
        ("nb\n      a–b\n    Ünï {", ["nb\n a–b\n  Ünï { é"], False, {"_SLACK": 1}, [(0, 3, 81, ("-  a<U+2013>b", "+       a<U+2013>b", "-   Ünï { é", "+     Ünï {"), (), None, ())]),
        ("naïve\tnaïve", ["naïve"], True, {"_SHOWN_OF_MANY": 60, "_LEAST_SHOWN": 20}, [(0, 1, 99, ("- naïve", "+ naïve", "\\ What is shown as \\xNN there is a byte"), (), None, (0,))]),
        ("\ne cnaïve\nb", ["ue café naïve\n 8z3| \tdon't", "q\n\n", "\t\ta&b"], False, {"_SHOWN_OF_MANY": 60, "_LEAST_SHOWN": 20}, [(1, 3, 46, ("- ue café naïve", "+ e cnaïve", "… (2 more lines differ)"), (), None, ()), None, None]),
        ('\ny\n"q" café end\n  a\\nb ﬁ a–b a&b y =\n"q" café end\n  a\\nb ﬁ a–b a&b\n\t', ['"q"\xa0café end\n  a\\nb ﬁ a–b a&b'], True, {"_MOST_EQUAL": 1}, [(2, 4, 97, ('- "q"<U+00A0>café end', '+ "q" café end'), ("no_break_space",), None, (4,))]),
        ("{\nx café {\n  x café ", ["  \t\tz–b\n  \ta\\nb café return {", " é  {", "{ x café"], False, {}, [None, (1, 2, 57, ("-  é  {", "+ x café {"), (), None, (2,)), (0, 2, 0, ("- { x café", "+ {", "+ x café"), ("normalization", "line_breaks"), "{\nx café", (1,))]),
        ("1 a\\b call(a, a\\tb call(a, b) }\tnaï", ["    1 a\\tb c_ll(a, b) }", ' 13| naïve naïve\n 14| \t\treturn a–b end value\n 15|   \\\\" return } &lt;', "\t"], False, {"_SLACK": 1}, [(0, 1, 83, ("-     1 a\\tb c_ll(a, b) }", "+ 1 a\\b call(a, a\\tb call(a, b) }\tn…"), (), None, ()), None, None]),
        ('    x café \\" {\n    x café \\" {', ["  \t\tz–b\n  \ta\\nb café return {", " é  {", "{ x café"], False, {}, [(0, 2, 53, ("-   \t\tz–b", '+     x café \\" {', "-   \ta\\nb café return {", '+     x café \\" {'), (), None, ()), (0, 1, 73, ("-  é  {", '+     x café \\" {'), (), None, (1,)), (0, 2, 0, ("- { x café", "+ {", "+     x café"), ("normalization", "line_breaks"), "{\n    x café", ())]),
    ],
)  # fmt: skip
def test_small_texts(
    text: str,
    sought: list[str],
    once: bool,
    limits: dict[str, int],
    expected: list[tuple[object, ...] | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The smallest texts, found by search, that a small change of the code answers otherwise.

    The lines, the similarity, the diff; the causes, the corrected text and other places.
    """
    for name, limit in limits.items():
        monkeypatch.setattr(nearest_module, name, limit)
    assert [
        one
        and (one.start, one.stop, one.similarity, one.diff, one.causes, one.corrected, one.alike)
        for one in nearest_of(Snapshot.of(text.encode()), sought, once=once)
    ] == expected


WHOLE = """\
def configure(app, settings):
    logger = get_logger(settings.name)
    for plugin in settings.plugins:
        app.register(plugin)
    database = connect(settings.database_url)
    app.state.cache = make_cache(settings.cache_size)
    if settings.debug:
        app.add_middleware(DebugMiddleware)
    app.add_middleware(SessionMiddleware)
    return app
"""
CHANGED = """\
import web


def configure(app, settings):
    log = structured(settings)
    for name, extension in discover().items():
        extension.install(into=app)
    app.pool = Pool.of(settings)
    app.state.cache = make_cache(settings.cache_size)
    if settings.debug:
        app.add_middleware(DebugMiddleware)
    app.add_middleware(SessionMiddleware)
    log.done()
    return app


def other(app):
    return app
"""


def test_the_lines_of_a_function_that_are_there_are_told() -> None:
    found = nearest(Snapshot.of(CHANGED.encode()), WHOLE)
    assert found is not None
    assert (found.start, found.stop, found.alike) == (3, 14, ())
    assert found.diff[-1].endswith("; equal: 1~1 at 4~4, 6~9 at 9~12, 10~10 at 14~14)")


RARE = """\
def read_config(path, strict):
    table = toml.load(path)
    keyring = default_keyring(system_folder)
    return data
""" + "".join(
    f"""

def read_{name}(path):
    with open(path) as stream:
        data = json.load(stream)
    touch(path)
    return data
"""
    for name in ("state", "cache", "users")
)


def test_rare_words_decide_before_letters_that_are_alike() -> None:
    sought = """\
def read_config(path):
    with open(path) as stream:
        data = json.load(stream)
    keyring = default_keyring(system_folder)
    return data
"""
    found = nearest(Snapshot.of(RARE.encode()), sought)
    assert found is not None
    assert (found.start, found.stop) == (0, 4)


@pytest.mark.parametrize(
    ("sought", "have", "limits", "expected"),
    [
        ([], [], {}, ()),
        ([" ", "", ")"], [""], {"_SHOWN_OF_MANY": 60, "_LEAST_SHOWN": 20}, ("- ·", "- )")),
        (["&lt;"], ["x {", "ll(a, b) if"], {"_SHOWN": 30, "_LEAST_SHOWN": 10, "_LEAST_WIDTH": 8}, ("- &lt;", "+ x {", "+ ll(a, b) i…")),
    ],
)  # fmt: skip
def test_the_diff_of_small_texts(
    sought: list[str],
    have: list[str],
    limits: dict[str, int],
    expected: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, limit in limits.items():
        monkeypatch.setattr(nearest_module, name, limit)
    assert line_difference(sought, have) == expected
