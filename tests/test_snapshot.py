"""Snapshots: what a line is, which bytes it has, which terminator new lines take."""

from __future__ import annotations

import codecs
import hashlib
from itertools import chain, pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from copydesk.text import sizes
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.encoding import UTF8, Encoding
from copydesk.text.snapshot import Excerpt, Facts, Snapshot, Text
from support.rows import each_row
from support.texts import WIDE, snapshots

BOM = codecs.BOM_UTF8


def check_texts(data: bytes, *texts: str) -> None:
    """The lines of the file read so, and its bytes are covered by them."""
    found = Snapshot.of(data)
    assert found.texts(0, found.line_count) == texts
    assert found.encoding.bom + found.raw(0, len(texts)) == data


@each_row("data texts", [
    (b"", []),
    (BOM, []),
    (b"a", ["a"]),
    (b"a\n", ["a"]),
    (b"a\nb", ["a", "b"]),
    (b"a\nb\n", ["a", "b"]),
    (b"\n", [""]),
    (b"\r\n", [""]),
    (b"\n\n", ["", ""]),
    (BOM + b"a\n", ["a"]),
    (BOM + b"\n", [""]),
    (BOM + BOM + b"a", ["\ufeffa"]),
    (b"a\r\nb\nc\r\n", ["a", "b", "c"]),
    # nothing else ends a line
    (b"a\rb", ["a\rb"]),
    (b"a\r", ["a\r"]),
    (b"a\r\r\nb", ["a\r", "b"]),
    (b"\r", ["\r"]),
    (b"a\x0cb\x0bc\x1cd\x1de\x1ef", ["a\x0cb\x0bc\x1cd\x1de\x1ef"]),
    ("a\u2028b\u2029c\x85d".encode(), ["a\u2028b\u2029c\x85d"]),
    # what does not decode is shown
    (b"\xff\na\xc3\n", ["\\xff", "a\\xc3"]),
    (b"caf\xc3\xa9 \xff", ["caf\\xc3\\xa9 \\xff"]),
    (BOM + b"\xc3\xa9\xff", ["é\\xff"]),
])  # fmt: skip
def test_lines(data: bytes, texts: list[str]) -> None:
    check_texts(data, *texts)


@pytest.mark.parametrize("encoding", WIDE, ids=lambda e: e.name)
@each_row("text texts", [
    ("", []),
    ("a\nb", ["a", "b"]),
    ("a\r\nb\r\n", ["a", "b"]),
    # an LF byte that is no LF: as the high byte, the low one, and across two units
    ("\u0a00\n\u000d", ["\u0a00", "\r"]),
    ("\u0a41\u0100\n", ["\u0a41\u0100"]),
    ("\u0100\u0a41\u0a0a\n", ["\u0100\u0a41\u0a0a"]),
    ("\u010a\u0d0a\u0a0d\u000b", ["\u010a\u0d0a\u0a0d\u000b"]),
    ("\u0d00\n\u0d0a\r\n", ["\u0d00", "\u0d0a"]),
    ("🎉\n漢\u2028字", ["🎉", "漢\u2028字"]),
])  # fmt: skip
def test_wide_lines(encoding: Encoding, text: str, texts: list[str]) -> None:
    check_texts(encoding.bom + encoding.encode(text), *texts)


@each_row("data texts", [
    (b"\xff\xfea\0\n\0b", ["a", "\\x62"]),
    # the stray byte looks like the second half of an LF, or of a CRLF
    (b"\xff\xfe\x41\x0a\0", ["\u0a41\\x00"]),
    (b"\xff\xfe\x41\x0d\0\x0a\0", ["\u0d41\u0a00\\x00"]),
    (b"\xfe\xff\0a\0", ["a\\x00"]),
    (b"\xfe\xff\0\n\0", ["", "\\x00"]),
])  # fmt: skip
def test_a_broken_last_unit_is_a_line_without_end(data: bytes, texts: list[str]) -> None:
    check_texts(data, *texts)
    found = Snapshot.of(data)
    assert found.ragged
    assert not found.ends_with_newline


@given(snapshots)
def test_spans_cover_the_text_and_lines_are_found_again(base: Snapshot) -> None:
    starts = [base.start(line) for line in range(base.line_count + 1)]
    assert starts[0] == len(base.encoding.bom)
    assert starts[-1] == len(base.data)
    assert sorted(set(starts)) == starts
    for line in range(base.line_count):
        assert base.raw(line, line + 1) == base.key(line) + base.terminator(line)
        assert {base.line_at(byte) for byte in range(starts[line], starts[line + 1])} == {line}
    at_end = base.line_at(len(base.data))
    assert at_end == max(base.line_count - (not base.ends_with_newline), 0)


@given(snapshots)
def test_lines_are_what_splitting_the_text_gives(base: Snapshot) -> None:
    """The dumb model: the decoded text, split at LF."""
    text = base.encoding.decode(base.data[len(base.encoding.bom) :])
    parts = text.split("\n")
    last = parts.pop()
    wanted = [part.removesuffix("\r") for part in parts] + [last] * bool(last)
    assert list(base.texts(0, base.line_count)) == wanted
    assert [base.text(line) for line in range(base.line_count)] == wanted
    assert base.keys == tuple(base.key(line) for line in range(base.line_count))
    assert base.digest == hashlib.sha256(base.data).hexdigest()
    assert base.version == base.digest[:12]


@given(snapshots)
def test_only_the_last_line_may_have_no_end_and_styles_are_what_the_lines_say(
    base: Snapshot,
) -> None:
    wanted = {base.encoding.encode("\n"), base.encoding.encode("\r\n")}
    ends = [base.terminator(line) for line in range(base.line_count)]
    assert set(ends[:-1]) <= wanted
    assert base.ends_with_newline == (bool(ends) and ends[-1] in wanted)
    if ends and not base.ends_with_newline:
        assert ends.pop() == b""
    names = [base.newline_name(end) for end in ends]
    crlf, every = names.count("crlf"), len(names)
    assert base.newline_counts == (every, crlf)
    assert base.newline_name(base.dominant_newline) == ("crlf" if 2 * crlf > every else "lf")
    style = "none" if not names else names[0] if len(set(names)) == 1 else "mixed"
    assert base.newline_style == style


@given(snapshots, st.data())
def test_newline_near(base: Snapshot, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, base.line_count))
    stop = data.draw(st.integers(start, base.line_count))
    before = base.terminator(start - 1) if start else b""
    after = base.terminator(stop) if stop < base.line_count else b""
    assert base.newline_near(start, stop) == (before or after or base.dominant_newline)


@each_row("data start stop expected", [
    (b"", 0, 0, b"\n"),
    (b"a", 0, 1, b"\n"),
    (b"a\r\nb\nc\nd\n", 1, 2, b"\r\n"),
    (b"a\r\nb\nc\nd\n", 0, 1, b"\n"),
    (b"a\r\nb\nc\nd\n", 0, 0, b"\r\n"),
    (b"a\nb\r\n", 2, 2, b"\r\n"),
    (b"a\r\nb\r\nc", 3, 3, b"\r\n"),
    (b"a\r\nb\r\nc", 0, 3, b"\r\n"),
    (b"a\r\nb\nc", 3, 3, b"\n"),
    (b"a\r\nb\nc", 2, 3, b"\n"),
    (b"\xff\xfea\0\r\0\n\0b\0", 1, 2, b"\r\0\n\0"),
])  # fmt: skip
def test_one_newline_near(data: bytes, start: int, stop: int, expected: bytes) -> None:
    assert Snapshot.of(data).newline_near(start, stop) == expected


def test_a_very_long_line_is_one_line() -> None:
    base = Snapshot.of(b"x\x0c\r" * 500_000 + b"\nend")
    assert base.line_count == 2
    assert base.texts(1, 2) == ("end",)


@given(snapshots, st.data())
def test_the_ends_of_the_last_line_are_remembered(base: Snapshot, data: st.DataObject) -> None:
    lines = st.integers(0, max(base.line_count - 1, 0))
    for line in data.draw(st.lists(lines, max_size=6)) if base.line_count else ():
        start, stop = base.start(line), base.start(line + 1)
        byte = data.draw(st.integers(start, stop - 1))
        if data.draw(st.booleans()):
            assert base.line_begin(byte) == start
        assert base.line_end(byte) == stop
        assert base.line_begin(byte) == start


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_the_lines_around_a_long_one_begin_where_they_did(end: bytes) -> None:
    before, long = b"a\n", b"x" * 10_000 + b"\n"
    base = Snapshot.of(before + long + b"b\nc" + end)
    for byte in (9_000, 10_003, 10_005, 9_000, 1):
        assert base.line_begin(byte) == base.start(base.line_at(byte))
    assert base.line_end(9_000) == len(before + long)


@given(snapshots, st.integers(0, 4))
@example(Snapshot.of(codecs.BOM_UTF16_LE + "\n\u0a0a\r\n\na".encode("utf-16-le")), 2)
@example(Snapshot.of(BOM + b"\n\r\na\nb"), 2)
@example(Snapshot.of(b"\n\na\n\n"), 1)
def test_so_many_lines_from_a_byte(base: Snapshot, count: int) -> None:
    for line in range(base.line_count + 1):
        at, first = base.start(line), max(line - count, 0)
        last = min(line + count, base.line_count)
        assert base.back(at, count) == (base.start(first), line - first)
        assert base.on(at, count) == (base.start(last), last - line)
    for line in range(base.line_count):
        for byte in range(base.start(line), base.start(line + 1)):
            assert base.line_begin(byte) == base.start(line)
            assert base.line_end(byte) == base.start(line + 1)


@each_row("data edits expected", [
    (b"ab", [(0, 1, b"a")], True),
    (b"ab", [(0, 1, b"b")], False),
    (b"ab", [(0, 1, b"")], False),
    (b"ab", [(2, 2, b"ab")], False),
    # bytes come in one place and go in another
    (b"aaaa", [(0, 0, b"a"), (3, 4, b"")], True),
    (b"aaaa", [(0, 1, b""), (4, 4, b"a")], True),
    (b"abaa", [(0, 0, b"a"), (3, 4, b"")], False),
    (b"abab", [(0, 0, b"ab"), (2, 4, b"")], True),
    (b"abcab", [(0, 0, b"ab"), (3, 5, b"")], False),
    (b" \r", [(0, 1, b""), (2, 2, b"r")], False),
    (b"aabb", [(0, 1, b""), (2, 2, b"a"), (3, 4, b"b")], True),
    (b"aabb", [(0, 1, b""), (2, 2, b"a"), (3, 4, b"c")], False),
])  # fmt: skip
def test_a_change_of_nothing(
    data: bytes, edits: list[tuple[int, int, bytes]], expected: bool
) -> None:
    change = ChangeSet.of(len(data), [Edit(*edit) for edit in edits])
    assert Snapshot.of(data).unchanged_by(change) is expected is (change.apply(data) == data)


@given(snapshots, st.integers(1, 20))
@example(Snapshot.of(b""), 1)
def test_keys_come_in_blocks(base: Snapshot, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sizes, "BLOCK", block)
        assert tuple(chain.from_iterable(base.keys_in_blocks())) == base.keys


def said_of(text: Text) -> tuple[object, ...]:
    """What a text says of itself as a whole."""
    counts = text.line_count, text.newline_counts, text.newline_style, text.dominant_newline
    return text.encoding, text.size, text.ends_with_newline, text.ragged, *counts


@given(snapshots, st.data())
def test_an_excerpt_says_what_the_whole_text_does(base: Snapshot, data: st.DataObject) -> None:
    """Of the lines that it has, cut into pieces in any order; and after an edit of them."""
    cuts = sorted(data.draw(st.sets(st.integers(0, base.line_count))) | {0, base.line_count})
    ranges = [(a, b) for a, b in pairwise(cuts) if data.draw(st.integers(0, 2))]
    pieces = [(a, base.start(a), base.raw(a, b)) for a, b in ranges]
    counts = base.line_count, base.ends_with_newline, base.newline_counts
    facts = Facts(base.size, *counts, base.digest)
    excerpt = Excerpt.of(base.encoding, facts, data.draw(st.permutations(pieces)))
    assert said_of(excerpt) == said_of(base)
    for line in (line for a, b in ranges for line in range(a, b)):
        assert excerpt.start(line) == base.start(line)
        assert excerpt.key(line) == base.key(line)
        assert excerpt.terminator(line) == base.terminator(line)
        found_at = {excerpt.line_at(at) for at in range(base.start(line), base.start(line + 1))}
        assert found_at == {line}
        first, last = excerpt.reach(line)
        assert first <= line < last
        assert excerpt.raw(first, last) == base.raw(first, last)
    if base.ragged or not ranges:
        return
    if ranges[0][0] == 0:
        assert excerpt.unmarked().raw(0, 1) == base.unmarked().raw(0, 1)
    assert said_of(excerpt.unmarked()) == said_of(base.unmarked())
    edits: list[Edit] = []
    for a, b in ranges:
        ends = b == base.line_count and not base.ends_with_newline
        new = data.draw(st.sampled_from(("", "x\n", "x\r\ny\n") + ("x",) * ends))
        edits.append(Edit(base.start(a), base.start(b), base.encoding.encode(new)))
    change = ChangeSet.of(base.size, edits)
    found, after, shift = excerpt.edited(change), base.edited(change), 0
    assert said_of(found) == said_of(after)
    for edit in change.edits:
        stop = edit.start + shift + len(edit.new)
        assert found.slice(edit.start + shift, stop) == edit.new
        shift = stop - edit.stop


class _Passed(bytes):
    """Bytes that tell how many of them were passed over to count something."""

    passed = 0

    def count(self, *wanted: Any) -> int:
        start, stop = (*wanted[1:], *(0, len(self))[len(wanted) - 1 :])
        _Passed.passed += min(stop, len(self)) - start
        return super().count(*wanted)


@pytest.mark.parametrize("end", [b"", b"\n"])
@pytest.mark.parametrize("size", [10_000, 300_000])
def test_line_feeds_are_counted_once_whatever_is_asked(
    size: int, end: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = _Passed((b"0123456789\n" * (size // 11)) + b"last" + end)
    monkeypatch.setattr(_Passed, "passed", 0)
    base = Snapshot(data, UTF8)
    lines = base.line_count
    assert base.newline_counts == (lines - (not end), 0)
    assert base.start(lines // 2) == 11 * (lines // 2)
    assert base.key(lines - 1) == b"last"
    assert base.ends_with_newline is bool(end)
    assert size * 0.99 < _Passed.passed < size * 1.01
