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


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, None),
        # unknown
        ({"paths": "a"}, "paths"),
        ({"Path": "a"}, "Path"),
        ({"": 1}, ""),
        ({"x\ud800": 1}, "x\\ud800"),
        ({"__class__": 1}, "__class__"),
        # missing: ... takes an argument away
        ({"path": ...}, "PATH_REQUIRED"),
        ({"path": ""}, "PATH_REQUIRED"),
        ({"path": None}, "PATH_REQUIRED"),
        ({"path": ..., "content": ...}, "PATH_REQUIRED"),
        ({"content": ...}, "content"),
        ({"size": ...}, "size"),
        # required ones have no value that means not given
        ({"content": ""}, None),
        ({"content": None}, "content"),
        ({"size": 0}, None),
        ({"size": None}, "size"),
        # wrong types
        ({"path": 1}, None),
        ({"path": ["a"]}, "path"),
        ({"path": {"a": 1}}, "path"),
        ({"content": 1}, None),
        ({"content": True}, "content"),
        ({"note": 0}, None),
        ({"note": False}, "note"),
        ({"note": []}, "note"),
        ({"note": 10**5_000}, "note"),
        ({"note": math.nan}, "note"),
        ({"limit": []}, "limit"),
        ({"globs": ""}, "globs"),
        ({"globs": 0}, "globs"),
        ({"globs": {}}, "globs"),
        ({"size": "1"}, "size"),
        ({"size": True}, "size"),
        ({"size": False}, "size"),
        ({"size": 1.5}, "size"),
        ({"size": -1}, "size"),
        ({"size": math.nan}, "size"),
        ({"size": math.inf}, "size"),
        ({"size": 1.0}, None),
        ({"size": 10**400}, None),
        ({"size": 10**5_000}, "size"),
        ({"occurrence": -(10**5_000)}, "occurrence"),
        ({"globs": ["a", 10**5_000]}, "globs[1]"),
        ({"limit": "0"}, "limit"),
        ({"limit": ""}, "limit"),
        ({"max_lines": False}, "max_lines"),
        ({"max_lines": True}, "max_lines"),
        ({"max_lines": -1}, "max_lines"),
        ({"max_lines": "5"}, "max_lines"),
        ({"strict": 1}, "strict"),
        ({"strict": 0}, "strict"),
        ({"strict": "true"}, "strict"),
        ({"strict": ""}, "strict"),
        ({"match": "like"}, "match"),
        ({"match": "Equals"}, "match"),
        ({"match": 1}, "match"),
        ({"occurrence": 1.5}, "occurrence"),
        ({"occurrence": True}, "occurrence"),
        ({"occurrence": [1]}, "occurrence"),
        ({"globs": "*.py"}, "globs"),
        ({"globs": ["a", 1]}, None),
        ({"edits": [{"old": "a", "new": "b"}]}, None),
        ({"edits": [{"old": "a", "new": 1}]}, None),
        ({"edits": [{"old": "a", "new": True}]}, "edits[0].new"),
        ({"edits": [{"old": "a"}]}, "edits[0].new"),
        ({"edits": {"old": "a"}}, "edits"),
        # not given
        ({"note": "", "match": "", "occurrence": "", "max_lines": 0}, None),
        ({"note": None, "match": None, "occurrence": None, "max_lines": None}, None),
        ({"strict": None, "globs": None, "edits": None, "limit": None}, None),
        ({"globs": [], "edits": [], "limit": 0}, None),
        # texts that are none
        ({"content": "a\0b"}, "content"),
        ({"note": "\0"}, "note"),
        ({"content": "\ud800"}, "content"),
        ({"path": "\udfff"}, "path"),
        ({"path": "a\0b"}, None),
        ({"occurrence": "\ud800"}, "occurrence"),
        ({"match": "\ud83d"}, "match"),
        ({"globs": ["a", "\ud800"]}, "globs[1]"),
        ({"globs": ["a\0"]}, "globs[0]"),
        ({"edits": [{"old": "\ud800", "new": ""}]}, "edits[0].old"),
        ({"edits": [{"old": "a", "new": "b", "\ud800": 1}]}, "edits[0].\\ud800"),
        ({"edits": [{"old": "a", "new": {"x": ["\0"]}}]}, "edits[0].new"),
        ({"content": "\U0001f389\ufffd\ufffe"}, None),
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
    assert (found.max_lines, found.limit) == (500, 3)
    assert found.note is None
    assert found.occurrence is None
    assert found.match == "contains"
    assert found.globs == ()
    assert found.strict is True


def test_values() -> None:
    more = {"note": "n", "match": "equals", "strict": False, "globs": ["a", "b"], "max_lines": 7.0}
    found = read(Found, {**GOOD, **more})
    assert found.note == "n"
    assert found.match == "equals"
    assert found.strict is False
    assert found.globs == ("a", "b")
    assert found.max_lines == 7
    assert type(found.max_lines) is int


class Below(Found):
    first: str = ""
    limit: Count = 4


def test_own_arguments_come_first_and_those_made_anew_stay() -> None:
    properties = schema_of(Below)["properties"]
    assert list(properties) == ["first", *schema_of(Found)["properties"]]
    assert properties["limit"] == {"type": "integer", "minimum": 0, "default": 4}
    assert read(Below, GOOD).limit == 4


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, 1),
        (3, 3),
        (2.0, 2),
        ("1", 1),
        ("12", 12),
        ("007", 7),
        ("last", "last"),
        (0, None),
        ("0", None),
        ("", None),
        (None, None),
        (10**30, 10**30),
        (-1, InvalidArgs),
        ("-1", InvalidArgs),
        ("+1", InvalidArgs),
        (" 1", InvalidArgs),
        ("1.0", InvalidArgs),
        ("1_0", InvalidArgs),
        ("first", InvalidArgs),
        ("LAST", InvalidArgs),
        ("²", InvalidArgs),
        ("١", InvalidArgs),
        ("9" * 5000, InvalidArgs),
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
