"""The arguments of tools: what is wrong is named, what is not given has its default."""

from __future__ import annotations

import json
import math
from typing import Any, Literal, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.errors import InvalidArgs, PathRequired, Refusal
from copydesk.tools.arguments import Arguments, Count, read, schema_of
from copydesk.tools.ws_mod import occurrence_of
from support.rows import each_row


class Row(TypedDict):
    old: str
    new: str


class Found(Arguments):
    path: str
    content: str
    size: Count
    note: str | None = None
    match: Literal["contains", "equals"] = "contains"
    occurrence: int | str | None = None
    max_lines: Count = 500
    limit: Count = 3
    strict: bool = True
    globs: tuple[str, ...] = ()
    edits: tuple[Row, ...] = ()


GOOD: dict[str, object] = {"path": "a", "content": "x", "size": 1}


BIG = 10**5_000
ROW = {"old": "a", "new": "b"}
TAKEN: dict[str, list[object]] = {
    "path": [1, "a\0b"],
    "content": ["", 1, "\U0001f389\ufffd\ufffe"],
    "size": [0, 1.0, 10**400],
    "note": [0],
    "globs": [["a", 1]],
    "edits": [[ROW], [{**ROW, "new": 1}]],
}
WRONG: dict[str, list[object]] = {
    "path": [["a"], {"a": 1}, "\udfff"],
    "content": [None, True, "a\0b", "\ud800"],
    "size": [None, "1", True, False, 1.5, -1, math.nan, math.inf, BIG],
    "note": [False, [], BIG, math.nan, "\0"],
    "limit": [[], "0", ""],
    "max_lines": [False, True, -1, "5"],
    "strict": [1, 0, "true", ""],
    "match": ["like", "Equals", 1, "\ud83d"],
    "occurrence": [-BIG, 1.5, True, [1], "\ud800"],
    "globs": ["", 0, {}, "*.py"],
    "edits": [{"old": "a"}],
    # of a list, what is wrong in it
    "globs[0]": [["a\0"]],
    "globs[1]": [["a", BIG], ["a", "\ud800"]],
    "edits[0].new": [[{**ROW, "new": True}], [{"old": "a"}], [{**ROW, "new": {"x": ["\0"]}}]],
    "edits[0].old": [[{"old": "\ud800", "new": ""}]],
    "edits[0].\\ud800": [[{**ROW, "\ud800": 1}]],
}


@each_row(
    "changes expected",
    [
        ({}, None),
        *(({name: value}, None) for name, values in TAKEN.items() for value in values),
        *(
            ({name.partition("[")[0]: value}, name)
            for name, values in WRONG.items()
            for value in values
        ),
        # unknown
        *(({name: "a"}, name) for name in ("paths", "Path", "", "__class__")),
        ({"x\ud800": 1}, "x\\ud800"),
        # missing: ... takes an argument away
        *(({"path": value}, "PATH_REQUIRED") for value in (..., "", None)),
        ({"path": ..., "content": ...}, "PATH_REQUIRED"),
        ({"content": ...}, "content"),
        ({"size": ...}, "size"),
        # not given
        ({"note": "", "match": "", "occurrence": "", "max_lines": 0}, None),
        ({"note": None, "match": None, "occurrence": None, "max_lines": None}, None),
        ({"strict": None, "globs": None, "edits": None, "limit": None}, None),
        ({"globs": [], "edits": [], "limit": 0}, None),
    ],
)
def test_arguments(changes: dict[str, object], expected: str | None) -> None:
    """With these the arguments are good (None), or refused, naming this one."""
    given_ = {name: value for name, value in {**GOOD, **changes}.items() if value is not ...}
    if expected is None:
        read(Found, given_)
        return
    with pytest.raises(Refusal) as found:
        read(Found, given_)
    told = found.value
    assert (told.argument if isinstance(told, InvalidArgs) else told.code) == expected
    if isinstance(told, InvalidArgs):
        assert told.reason
        assert (told.argument + told.reason).encode()


@pytest.mark.parametrize("found", [None, [], "path", 1, True, [("path", "a")]])
def test_arguments_are_an_object(found: object) -> None:
    with pytest.raises(InvalidArgs) as refused:
        read(Found, found)
    assert refused.value.argument == "arguments"


def test_only_what_was_given_is_there() -> None:
    sentinels = {"note": "", "occurrence": 0, "max_lines": 0, "limit": 0, "match": ""}
    given_ = {**GOOD, "content": "", "size": 0, **sentinels}
    found = read(Found, given_)
    assert vars(found) == {"raw": given_, "path": "a", "content": "", "size": 0}
    assert (found.max_lines, found.limit, found.match) == (500, 3, "contains")
    assert (found.note, found.occurrence, found.globs) == (None, None, ())
    assert found.strict is True


def test_values() -> None:
    more = {"note": "n", "match": "equals", "strict": False, "globs": ["a", "b"], "max_lines": 7.0}
    found = read(Found, {**GOOD, **more})
    wanted = {**GOOD, **more, "globs": ("a", "b"), "max_lines": 7}
    assert {key: value for key, value in vars(found).items() if key != "raw"} == wanted
    assert type(found.max_lines) is int
    assert found.strict is False


class Below(Found):
    first: str = ""
    limit: Count = 4


def test_own_arguments_come_first_and_those_made_anew_stay() -> None:
    properties = schema_of(Below)["properties"]
    assert list(properties) == ["first", *schema_of(Found)["properties"]]
    assert properties["limit"] == {"type": "integer", "minimum": 0, "default": 4}
    assert read(Below, GOOD).limit == 4


@each_row(
    "value expected",
    [
        *((1, 1), (3, 3), (2.0, 2), ("1", 1), ("12", 12), ("007", 7), (10**30, 10**30)),
        *((value, None) for value in (0, "0", "", None)),
        ("last", "last"),
        *((value, InvalidArgs) for value in (-1, "-1", "+1", " 1", "1.0", "1_0", "first", "LAST")),
        *((value, InvalidArgs) for value in ("²", "١", "9" * 5000)),
    ],
)
def test_occurrence(value: object, expected: object) -> None:
    found = read(Found, {**GOOD, "occurrence": value})
    if expected is InvalidArgs:
        with pytest.raises(InvalidArgs) as refused:
            occurrence_of(found.occurrence)
        assert refused.value.argument == "occurrence"
    else:
        assert occurrence_of(found.occurrence) == expected
        assert type(occurrence_of(found.occurrence)) is type(expected)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("\ud800\0"),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(list(schema_of(Found)["properties"])), anything, max_size=4))
def test_any_json_is_read_or_refused(changes: dict[str, Any]) -> None:
    try:
        found = read(Found, {**GOOD, **changes})
    except PathRequired:
        assert changes["path"] in (None, "")
        return
    except InvalidArgs as refused:
        told = refused
    else:
        values = {name: value for name, value in vars(found).items() if name != "raw"}
        assert json.dumps(values, ensure_ascii=False).encode()
        return
    assert told.argument.encode()
    assert told.reason.encode()
