"""YAML out: what other parsers read back is exactly the data; fences hold what they fence."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from copydesk.edit.draft import Draft
from copydesk.text.encoding import UTF8
from copydesk.tools.report import (
    MOST_DIFF_CHARACTERS,
    Answer,
    Value,
    emit,
    fenced,
    quoted,
    shown_diff,
)
from support.rows import each_row
from support.texts import LINES, drafts

NASTY = (
    *("", " ", "  a", "a ", "\t", "a\tb", "\n", "a\nb", "\r\n", "\\", '"', "'", "\\n", "a\\", "\0"),
    *("true", "True", "null", "NULL", "~", "yes", "No", "ON", "off", "y", "N", "nan", ".nan", ".inf"),
    *("0", "1", "-1", "+1", "1.5", "1e3", "0x1f", "0o17", "017", "1_000", "12:30:45", "1:20", ".5"),
    *("2001-01-01", "2001-01-01 00:00:00", "- a", "-", "--", "---", "...", "? a", "?", ": ", ":"),
    *("a: b", "a:", "a :b", "#", "a #b", "# a", "&a", "*a", "!a", "!!str a", "|", ">", "%YAML 1.2"),
    *("@a", "`a", "[", "]", "[a]", "{", "}", "{a: b}", ",", "a, b", "<<", "=", "_", "_1", "a" * 3000),
    *("\x85", "\u2028", "\u2029", "\ufeff", "\x7f", "\x9f", "\xa0", "\x07", "\x1b[0m", "\ufffd"),
    *("\ufffe", "\uffff", "\ufdd0", "\U0001ffff", "\U0010ffff", "漢字", "🎉", "é", "e\u0301", "ﷺ"),
    *("  12| text", "… (+3 characters)", "a/b.txt", "x.y-z_0", "e3", "E", "inf", "infinity", "null.x"),
)  # fmt: skip

texts = st.sampled_from((*NASTY, *LINES)) | st.text(st.characters(codec="utf-8"))
keys = st.sampled_from(NASTY[:-10]).filter(lambda key: len(key) < 100) | st.from_regex(
    r"[a-z_]{1,12}", fullmatch=True
)
scalars = texts | st.integers(-(2**80), 2**80) | st.booleans() | st.none()
values: st.SearchStrategy[Value] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)
documents = st.dictionaries(keys, values, max_size=5)


def check_read_back(data: Mapping[str, Value]) -> None:
    """A YAML 1.2 parser reads the very data, types included."""
    text = emit(data)
    assert same(_read(text), data)
    assert text.endswith("\n")
    assert text.encode()


def same(found: object, data: Value | Mapping[str, Value]) -> bool:
    """Equal, and True is not 1."""
    if isinstance(data, Mapping):
        if not isinstance(found, dict) or list(found) != list(data):
            return False
        return all(same(found[key], value) for key, value in data.items())
    if isinstance(data, Sequence) and not isinstance(data, str):
        if not isinstance(found, list) or len(found) != len(data):
            return False
        return all(same(one, value) for one, value in zip(found, data, strict=True))
    return type(found) is type(data) and found == data


def _read(text: str, version: str = "1.2") -> object:
    reader = YAML(typ="safe", pure=True)
    reader.version = version
    return reader.load(StringIO(text))


@pytest.mark.slow
@each_row("text", NASTY)
def test_nasty_strings(text: str) -> None:
    check_read_back({"a": text, "b": [text, [text]], "c": {"d": text}})
    if len(text) < 1000:
        check_read_back({text: text, "x": [{text: [], f"{text}x": {}}]})


@pytest.mark.slow
@given(documents)
def test_a_1_2_parser_reads_the_data(data: Mapping[str, Value]) -> None:
    check_read_back(data)


@pytest.mark.slow
@given(documents)
def test_a_1_1_parser_reads_the_data(data: Mapping[str, Value]) -> None:
    assert same(_read(emit(data), "1.1"), data)


@pytest.mark.slow
@given(documents)
def test_the_most_used_parser_reads_the_data(data: Mapping[str, Value]) -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    assert same(yaml.safe_load(emit(data)), data)


@each_row("text", NASTY)
def test_a_quoted_text_is_one_line_of_printable_characters(text: str) -> None:
    found = quoted(text)
    assert found.splitlines() == [found]
    assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or c == "\ufeff" for c in found)


def test_a_lone_surrogate_is_no_part_of_an_output() -> None:
    assert emit({"a": "x\ud800y"}) == 'a: "x\\ud800y"\n'


@each_row(
    "data text",
    [
        ({}, "{}\n"),
        ({"a": 1, "b": -2, "c": True, "d": False, "e": None}, "a: 1\nb: -2\nc: true\nd: false\ne: null\n"),
        ({"a": "plain", "b": "src/x_1.py", "c": "yes", "d": "12"}, 'a: plain\nb: src/x_1.py\nc: "yes"\nd: "12"\n'),
        ({"a": {"b": {"c": 1}, "d": 2}}, "a:\n  b:\n    c: 1\n  d: 2\n"),
        ({"a": [], "b": {}, "c": [[], {}]}, "a: []\nb: {}\nc:\n  - []\n  - {}\n"),
        ({"a": [1, [2, 3], {"b": 4, "c": [5]}]}, "a:\n  - 1\n  -\n    - 2\n    - 3\n  - b: 4\n    c:\n      - 5\n"),
        ({"a": ("x", "y")}, 'a:\n  - x\n  - "y"\n'),
        ({"a": "  12| \tx"}, 'a: "  12| \\tx"\n'),
    ],
)  # fmt: skip
def test_the_text(data: Mapping[str, Value], text: str) -> None:
    assert emit(data) == text


@given(st.text("`a\n ~") | texts, st.sampled_from(("yaml", "diff", "text", "")))
def test_a_fence_is_longer_than_what_it_holds(text: str, language: str) -> None:
    first, *body, last, end = fenced(text, language).split("\n")
    fence = first.removesuffix(language)
    assert (fence, end) == (last, "")
    assert set(fence) == {"`"}
    assert len(fence) >= 3
    assert "".join(f"{line}\n" for line in body) == text + "\n" * (text[-1:] not in ("", "\n"))
    assert fence not in text


@each_row(
    "text expected",
    [
        ("", "```yaml\n```\n"),
        ("a", "```yaml\na\n```\n"),
        ("a\n", "```yaml\na\n```\n"),
        ("a``b\n", "```yaml\na``b\n```\n"),
        ("```\nx\n```\n", "````yaml\n```\nx\n```\n````\n"),
        ("a ````` b", "``````yaml\na ````` b\n``````\n"),
    ],
)
def test_fences(text: str, expected: str) -> None:
    assert fenced(text, "yaml") == expected


@pytest.mark.slow
@given(documents, st.text("`a\n+- @"))
def test_the_text_of_a_report_and_its_data_say_the_same(data: dict[str, Value], diff: str) -> None:
    report = Answer(data, diff)
    opening, rest = report.text.split("yaml\n", 1)
    body = rest[: rest.index(f"\n{opening}\n") + 1]
    assert same(_read(body), data)
    assert same(report.data, {**data, "diff": diff} if diff else data)
    assert json.loads(json.dumps(report.data)) == report.data


@pytest.mark.slow
@given(drafts())
def test_a_shown_diff_is_valid_text(draft: Draft) -> None:
    text, cut = shown_diff(draft.diff, draft.base.encoding)
    assert not cut
    assert bool(text.encode()) == bool(draft.diff)
    if draft.base.encoding.known and draft.base.encoding.bom == b"":
        assert text.encode() == draft.diff


def test_a_long_diff_is_cut_at_a_line() -> None:
    diff = b"diff --git a/a b/a\n" + b"+line\n" * MOST_DIFF_CHARACTERS
    text, cut = shown_diff(diff, UTF8)
    assert cut
    assert text.encode() == diff
    given = Answer({}, text).data["diff"]
    assert isinstance(given, str)
    assert len(given) <= MOST_DIFF_CHARACTERS
    assert given.endswith("\n")
