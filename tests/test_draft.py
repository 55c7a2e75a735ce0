"""Drafts: how new text becomes bytes, and that nothing else does."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.edit.draft import Draft, check_expected, compose, standing
from copydesk.edit.kinds.base import Normalized, end_of
from copydesk.edit.kinds.lines import range_edit_of
from copydesk.edit.request import (
    Anchor,
    Append,
    BatchEdit,
    BlockReplace,
    DeleteFile,
    FileOperation,
    Insert,
    MoveFile,
    RangeEdit,
    RangeEdits,
    ReplaceText,
    Request,
    StringEdit,
    content_lines,
)
from copydesk.errors import (
    Clash,
    CollisionDetected,
    ContentChanged,
    ContentRequired,
    EncodingRefused,
    InvalidArgs,
)
from copydesk.text.diff import Region
from copydesk.text.encoding import UTF8
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot
from support.rows import each_row
from support.texts import PATH, drafts, joined


def drafted(before: bytes, request: Request, named: str | None = None) -> Draft:
    base = Snapshot.of(before, named)
    return compose(request, base, request.locate(base))


def edit(text: str, content: str = "") -> RangeEdit:
    return RangeEdit(PATH, text, content)


def insert(anchor: str, content: str, *, before: bool = False) -> Insert:
    return Insert(PATH, Anchor(anchor), content, "before" if before else "after")


def block(start: str, end: str, content: str, *, keep: bool = True) -> BlockReplace:
    ends = Anchor(start, argument="start_anchor"), Anchor(end, argument="end_anchor")
    return BlockReplace(PATH, *ends, content, include_anchors=keep)


def remarks(found: Normalized) -> str:
    """As `file+ content+ lf 2`: where a newline was added, the style, how many were converted."""
    added = "file+ " * found.file_eof_newline_added + "content+ " * found.content_eof_newline_added
    return f"{added}{found.newline_style} {found.content_newlines_converted}"


def check_draft(
    before: bytes, request: Request, after: bytes, said: str, named: str | None = None
) -> None:
    """The edit makes these bytes, with these remarks."""
    draft = drafted(before, request, named)
    assert draft.after.data == after
    assert remarks(draft.normalized) == said
    assert draft.replaces_nothing == (before == after and not isinstance(request, MoveFile))
    assert bool(draft.diff) != draft.replaces_nothing
    is_closed = not draft.base.line_count or draft.base.ends_with_newline
    whole = isinstance(request, FileOperation)
    assert draft.normalized.file_eof_has_newline == (is_closed or whole)
    assert draft.normalized.content_eof_has_newline != draft.normalized.content_eof_newline_added


def replaced(old: str, new: str) -> ReplaceText:
    return ReplaceText(PATH, (StringEdit(old, new),), everywhere=True)


def ranges(*edits: RangeEdit) -> RangeEdits:
    return RangeEdits(PATH, edits)


APPEND = Append(PATH, "x\n")


@each_row("before request_ after said", [
    (b"a\nb\nc\n", edit("2", "x\n"), b"a\nx\nc\n", "lf 0"),
    (b"a\nb\nc\n", edit("2", "x"), b"a\nx\nc\n", "content+ lf 0"),
    (b"a\nb\nc\n", edit("2", "x\ny"), b"a\nx\ny\nc\n", "content+ lf 0"),
    (b"a\nb\nc\n", edit("2"), b"a\nc\n", "lf 0"),
    (b"a\nb\nc\n", edit("2", "\n"), b"a\n\nc\n", "lf 0"),
    (b"a\nb\nc\n", edit("2", "\n\n"), b"a\n\n\nc\n", "lf 0"),
    (b"a\nb\nc\n", edit("~"), b"", "lf 0"),
    (b"a\nb\nc\n", edit("4~", "x\n"), b"a\nb\nc\nx\n", "lf 0"),
    (b"a\nb\nc\n", edit("2", "b\n"), b"a\nb\nc\n", "lf 0"),
    # the end of the file
    (b"a\nb", edit("1", "x\n"), b"x\nb\n", "file+ lf 0"),
    (b"a\nb", edit("2", "x\n"), b"a\nx\n", "file+ lf 0"),
    (b"a\nb", edit("2", "x"), b"a\nx\n", "file+ content+ lf 0"),
    (b"a\nb", edit("2"), b"a\n", "lf 0"),
    (b"a\nb", edit("1"), b"b\n", "file+ lf 0"),
    (b"a\nb", edit("~"), b"", "lf 0"),
    (b"a\nb", APPEND, b"a\nb\nx\n", "file+ lf 0"),
    (b"a\nb", Append(PATH, "x"), b"a\nb\nx\n", "file+ content+ lf 0"),
    (b"a\nb", edit("3~", "x\n"), b"a\nb\nx\n", "file+ lf 0"),
    (b"a\nb", insert("b", "x\n"), b"a\nb\nx\n", "file+ lf 0"),
    (b"a\nb", insert("b", "x\n", before=True), b"a\nx\nb\n", "file+ lf 0"),
    (b"a\n1\nb", block("a", "b", "x\n"), b"a\nx\nb\n", "file+ lf 0"),
    (b"a\n1\nb", block("a", "b", "x\n", keep=False), b"x\n", "file+ lf 0"),
    (b"a\n1\nb", block("a", "b", ""), b"a\nb\n", "file+ lf 0"),
    (b"a\n1\nb\nc", block("a", "b", "", keep=False), b"c\n", "file+ lf 0"),
    (b"0\r\na\r\nb", block("a", "b", "", keep=False), b"0\r\n", "crlf 0"),
    (b"a\nb\n", block("a", "b", ""), b"a\nb\n", "lf 0"),
    (b"a\n", APPEND, b"a\nx\n", "lf 0"),
    (b"a\n\n", APPEND, b"a\n\nx\n", "lf 0"),
    # nothing there
    (b"", APPEND, b"x\n", "lf 0"),
    (b"", edit("~", "x"), b"x\n", "content+ lf 0"),
    (b"", edit("1", "x\r\n"), b"x\n", "lf 1"),
    (b"", edit("~"), b"", "lf 0"),
    (b"", edit("1~", "\n"), b"\n", "lf 0"),
    # CRLF
    (b"a\r\nb\r\n", edit("2", "x\ny\n"), b"a\r\nx\r\ny\r\n", "crlf 2"),
    (b"a\r\nb\r\n", edit("2", "x\r\ny\n"), b"a\r\nx\r\ny\r\n", "crlf 1"),
    (b"a\r\nb\r\n", edit("2", "x\r\ny"), b"a\r\nx\r\ny\r\n", "content+ crlf 0"),
    (b"a\r\nb", edit("1", "x"), b"x\r\nb\r\n", "file+ content+ crlf 0"),
    (b"a\r\nb", APPEND, b"a\r\nb\r\nx\r\n", "file+ crlf 1"),
    (b"a\nb\n", edit("1", "x\r\ny\r\n"), b"x\ny\nb\n", "lf 2"),
    # the line before, then the line after, then most lines
    (b"a\r\nb\nc\nd\n", edit("2", "x\n"), b"a\r\nx\r\nc\nd\n", "crlf 1"),
    (b"a\r\nb\nc\nd\n", edit("1", "x\n"), b"x\nb\nc\nd\n", "lf 0"),
    (b"a\r\nb\nc\nd\n", edit("3", "x\n"), b"a\r\nb\nx\nd\n", "lf 0"),
    (b"a\r\nb\n", insert("a", "x\n"), b"a\r\nx\r\nb\n", "crlf 1"),
    (b"a\r\nb\n", insert("a", "x\n", before=True), b"x\r\na\r\nb\n", "crlf 1"),
    (b"a\nb\r\n", APPEND, b"a\nb\r\nx\r\n", "crlf 1"),
    (b"a\r\nb\r\nc\n", edit("~", "x\n"), b"x\r\n", "crlf 1"),
    (b"a\r\nb\n", edit("~", "x\n"), b"x\n", "lf 0"),
    (b"a\r\nb\r\nc\nd", APPEND, b"a\r\nb\r\nc\nd\r\nx\r\n", "file+ crlf 1"),
    (b"a\r\nb\r\nc\nd", edit("1", "x\n"), b"x\r\nb\r\nc\nd\n", "file+ crlf 1"),
    # only LF and CRLF end a line
    (b"a\rb\nc\n", edit("1", "x\ry\n"), b"x\ry\nc\n", "lf 0"),
    (b"a\nb\n", edit("1", "x\u2028y\x85\x0cz\n"), "x\u2028y\x85\x0cz\nb\n".encode(), "lf 0"),
    (b"a\r\nb\r\n", edit("1", "x\r\r\n"), b"x\r\r\nb\r\n", "crlf 0"),
    # the mark stays
    (b"\xef\xbb\xbfa\n", edit("1", "x\n"), b"\xef\xbb\xbfx\n", "lf 0"),
    (b"\xef\xbb\xbfa\n", edit("~"), b"\xef\xbb\xbf", "lf 0"),
    (b"\xef\xbb\xbf", APPEND, b"\xef\xbb\xbfx\n", "lf 0"),
    (b"\xef\xbb\xbfa\n", insert("a", "x\n", before=True), b"\xef\xbb\xbfx\na\n", "lf 0"),
    (b"\xff\xfea\0\n\0", edit("1", "é"), b"\xff\xfe\xe9\0\n\0", "content+ lf 0"),
    (b"\xff\xfea\0\r\0\n\0", APPEND, b"\xff\xfea\0\r\0\n\0x\0\r\0\n\0", "crlf 1"),
    (b"\xff\xfe", APPEND, b"\xff\xfex\0\n\0", "lf 0"),
    # bytes that are no text stay
    (b"\xff\nb\n\xc3", edit("2", "x\n"), b"\xff\nx\n\xc3\n", "file+ lf 0"),
    (b"a\nb\n", edit("1", "\ufeff"), b"\xef\xbb\xbf\nb\n", "content+ lf 0"),
    # several ranges: one style, or mixed; the end of the file belongs to the last
    (b"a\nb", ranges(edit("1", "x\n"), edit("2", "y")), b"x\ny\n", "file+ content+ lf 0"),
    (b"a\nb", ranges(edit("3~", "z\n"), edit("1")), b"b\nz\n", "file+ lf 0"),
    (b"a\r\nb\nc\n", ranges(edit("2", "x\n"), edit("3", "y\n")), b"a\r\nx\r\ny\n", "mixed 1"),
    # a text that is replaced: the last line has a newline then, if there is one
    (b"a\nb\n", replaced("b", "x"), b"a\nx\n", "lf 0"),
    (b"a\nb", replaced("a", "x"), b"x\nb\n", "file+ lf 0"),
    (b"a\nb\n", replaced("b\n", "x"), b"a\nx\n", "content+ lf 0"),
    (b"a\n", replaced("a\n", ""), b"", "lf 0"),
    (b"a\nb\r\nc\nd", replaced("c\nd", "c"), b"a\nb\r\nc\n", "file+ lf 0"),
    (b"\xffa", replaced("\\xff", "\\xFF"), b"\xffa", "lf 0"),
    # what is done to a file as a whole is no edit of its lines
    (b"a\r\nb", DeleteFile(PATH), b"", "lf 0"),
    (b"a\r\nb", MoveFile(PATH, RelPath.parse("b.txt")), b"a\r\nb", "lf 0"),
])  # fmt: skip
def test_bytes(before: bytes, request_: Request, after: bytes, said: str) -> None:
    check_draft(before, request_, after, said)


@each_row("named before content after", [
    ("gb18030", "中\n", "国🎉\n", "中\n国🎉\n"),
    ("shift_jis", "日\r\n", "本\n", "日\r\n本\r\n"),
    ("iso8859-1", "é\n", "ü\n", "é\nü\n"),
    ("utf-16-be", "é\n", "🎉\n", "é\n🎉\n"),
    ("utf-32-le", "é", "🎉", "é\n🎉\n"),
])  # fmt: skip
def test_named_encodings(named: str, before: str, content: str, after: str) -> None:
    draft = drafted(before.encode(named), Append(PATH, content), named)
    assert draft.after.data == after.encode(named)


@each_row("before named content character", [
    (b"\xff\n", None, "a\né\n", "é"),
    (b"\xe9\n", "iso8859-1", "漢", "漢"),
    (b"a\n", "shift_jis", "¥100", "¥"),
    (b"a\n", "gb2312", "x🎉", "🎉"),
])  # fmt: skip
def test_what_it_cannot_hold(
    before: bytes, named: str | None, content: str, character: str
) -> None:
    with pytest.raises(EncodingRefused) as found:
        drafted(before, Append(PATH, content), named)
    assert found.value.character == character


@pytest.mark.parametrize("request_", [APPEND, edit("1", "x\n"), insert("a", "x\n")])
def test_nothing_is_put_after_a_broken_code_unit(request_: Request) -> None:
    broken = b"\xff\xfea\0\n\0b\0c"
    with pytest.raises(EncodingRefused) as found:
        drafted(broken, request_)
    check_draft(broken, edit("2", "x"), b"\xff\xfea\0\n\0x\0\n\0", "file+ content+ lf 0")
    assert (found.value.encoding, found.value.character_index) == ("utf-16-le", 0)


@each_row("before request_", [
    (b"a\nb\nc\n", Append(PATH, "")),
    (b"a\nb\nc\n", insert("a", "")),
    (b"a\nb\nc\n", edit("4~")),
    (b"a\n", ranges(edit("1", "x"), edit("2~"))),
])  # fmt: skip
def test_content_required(before: bytes, request_: Request) -> None:
    with pytest.raises(ContentRequired):
        drafted(before, request_)


@each_row("request_ action", [
    (edit("2", "x"), "replace"),
    (edit("2"), "delete"),
    (edit("4~", "x"), "append"),
    (APPEND, "append"),
    (insert("b", "x"), "insert"),
    (block("a", "c", "x"), "block_replace"),
    (block("a", "c", ""), "block_replace"),
])  # fmt: skip
def test_actions(request_: Request, action: str) -> None:
    assert drafted(b"a\nb\nc\n", request_).action == action


def test_a_new_file() -> None:
    nothing = Snapshot(b"", UTF8)
    draft = compose(APPEND, nothing, end_of(nothing), created=True)
    assert draft.after.data == b"x\n"
    assert draft.diff.startswith(b"diff --git a/a.txt b/a.txt\nnew file mode 100644\n")
    assert not draft.replaces_nothing


@pytest.mark.slow
@given(drafts())
def test_bytes_outside_of_the_edit_stay(draft: Draft) -> None:
    """But for one newline at the end of the file, and then it is remarked."""
    base, place = draft.base, draft.place
    head = base.data[: base.start(place.start)]
    tail = base.data[base.start(place.stop) :]
    lf, crlf = base.encoding.encode("\n"), base.encoding.encode("\r\n")
    newline = crlf if draft.normalized.newline_style == "crlf" else lf
    new = b"".join(base.encoding.encode(line) + newline for line in draft.new_lines)
    ends = (b"", lf, crlf) if draft.normalized.file_eof_newline_added else (b"",)
    allowed = {head + a + new + tail + b for a, b in product(ends, ends) if not (a and b)}
    assert draft.after.data in allowed
    assert head.startswith(base.encoding.bom)


@pytest.mark.slow
@given(drafts(), st.booleans())
def test_the_lines_are_those_before_with_the_new_ones_in_their_place(
    draft: Draft, crlf: bool
) -> None:
    """The last one ends with a newline, and those that were there are the old text to expect."""
    base, place, after, said = draft.base, draft.place, draft.after, draft.normalized
    assert draft.old_count == len(range(place.start, place.stop))
    assert after.ends_with_newline or not after.line_count
    assert said.file_eof_has_newline == (base.ends_with_newline or not base.line_count)
    assert not (said.file_eof_newline_added and said.file_eof_has_newline)
    assert not isinstance(draft.request, BatchEdit)
    content = draft.request.content
    assert said.content_eof_has_newline == (content == "" or content.endswith("\n"))
    assert said.content_eof_newline_added != said.content_eof_has_newline
    old = base.texts(0, base.line_count)
    gone = old[place.start : place.stop]
    if not any(line.endswith("\r") for line in gone):
        newline = "\r\n" if crlf else "\n"
        check_expected("".join(line + newline for line in gone), base, place)
    wanted = (*old[: place.start], *draft.new_lines, *old[place.stop :])
    if any(line.endswith("\r") for line in wanted):
        return  # before an LF, a CR is part of the terminator
    assert after.texts(0, after.line_count) == wanted
    new = range(place.start, place.start + len(draft.new_lines))
    style = {after.newline_name(after.terminator(line)) for line in new}
    assert style <= {said.newline_style}
    near = base.newline_near(place.start, place.stop)
    assert said.newline_style == base.newline_name(near)


@given(joined())
def test_content_lines(text: str) -> None:
    """The lines of a text are those of a file of it; a newline at the end makes no line more."""
    found = Snapshot.of(text.encode()) if not text.startswith("\ufeff") else None
    if found is not None:
        assert tuple(content_lines(text)) == found.texts(0, found.line_count)
    ended = text.removesuffix("\n") + "\n" * (text != "")
    assert len(content_lines(text)) == len(content_lines(ended))


@each_row("before text expected_old found", [
    (b"a\nb\nc\n", "2", "b\n", None),
    (b"a\nb\nc\n", "2", "b", None),
    (b"a\nb\nc\n", "2", "b\r\n", None),
    (b"a\r\nb\r\n", "1~2", "a\nb", None),
    (b"a\n\n", "2", "\n", None),
    (b"\xff\n", "1", "\\xff", None),
    (b"\\xff \xe9\n", "1", "\\xff \\xe9", None),
    (b"\\xff \xe9\n", "1", "\\\\xff \\xe9", None),
    (b"\\xff \xe9\n", "1", "\\xff \\xe8", "\\\\xff \\xe9\n"),
    (b"a\nb", "2", "b\n", None),
    (b"a\nb\nc\n", "2", "c\n", "b\n"),
    (b"a\nb\nc\n", "2", "b \n", "b\n"),
    (b"a\nb\nc\n", "2", " b\n", "b\n"),
    (b"a\nb\nc\n", "2", "b\n\n", "b\n"),
    (b"a\nb\nc\n", "2~3", "b\n", "b\nc\n"),
    (b"a\nb\nc\n", "2", "b\nc\n", "b\n"),
    (b"a\nb\nc\n", "4~", "c\n", ""),
    (b"e\xcc\x81\n", "1", "é\n", "e\u0301\n"),
])  # fmt: skip
def test_expected_old(before: bytes, text: str, expected_old: str, found: str | None) -> None:
    base = Snapshot.of(before)
    place = edit(text, "x").locate(base)
    if found is None:
        check_expected(expected_old, base, place)
        return
    with pytest.raises(ContentChanged) as refused:
        check_expected(expected_old, base, place)
    assert (refused.value.expected_old, refused.value.found) == (expected_old, found)


@each_row("before text expected_old planned cause stands_at", [
    (b"a\nb\nc\n", "1", "c", "1~1", None, "3~3"),
    (b"a\nb\nc\n", "1", "b\nc\n", "1~1", None, "2~3"),
    (b"a\nb\nc\n", "3", "a\nb\n", "3~3", None, "1~2"),
    (b"a\nb\nc", "1", "c", "1~1", None, "3~3"),
    (b"a\nb\nc\n", "4~", "c", "3~4", None, "3~3"),
    (b"a\n b\nc\n", "2", "b", "2~2", ("indentation",), None),
    # a line that is there twice, as a part of others, or blank, stands nowhere
    (b"a\nb\nc\nb\n", "1", "b", "1~1", None, None),
    (b"a\nbb\nc\n", "1", "b", "1~1", None, None),
    (b"a\nbb\nc\nb b\nb\n", "1", "b", "1~1", None, "5~5"),
    (b"a\nb\nc\n", "1", "c\nd", "1~1", None, None),
    (b"a\nb\nc\n", "1", "c\n\n", "1~1", None, None),
    (b"a\n\nc\n", "1", "\n", "1~1", None, None),
    (b"a\n  \nc\n", "1", "  ", "1~1", None, None),
])  # fmt: skip
def test_what_is_said_of_another_old_text(
    before: bytes,
    text: str,
    expected_old: str,
    planned: str,
    cause: tuple[str, ...] | None,
    stands_at: str | None,
) -> None:
    base = Snapshot.of(before)
    with pytest.raises(ContentChanged) as refused:
        check_expected(expected_old, base, edit(text, "x").locate(base))
    said = refused.value
    assert (said.planned_lines, said.cause, said.stands_at) == (planned, cause, stands_at)
    assert said.version == base.version


def test_long_old_texts_are_shown_around_the_first_difference() -> None:
    base = Snapshot.of(b"a" * 9_000 + b"\nb\n")
    with pytest.raises(ContentChanged) as refused:
        check_expected("a" * 4_000 + "x" * 100, base, edit("1", "x").locate(base))
    start = 4_000 - 2_000 // 3
    said, shown = refused.value, f"(+{start} characters) …{'a' * 666}"
    assert said.expected_old == f"(+2100 characters) …{'a' * 1_900}{'x' * 100}"
    assert said.found == f"{shown}{'a' * 1_334}… (+{9_001 - start - 2_000} characters)"
    assert said.current is not None
    first, second = said.current
    start = 4_000 - 200 // 3
    assert first.text == f"(+{start} characters) …{'a' * 200}… (+{9_000 - start - 200} characters)"
    assert (first.line, second.line, second.text) == (1, 2, "b")


@each_row("start stop lines", [
    (0, 1, [*range(1, 5)]),
    (9, 10, [*range(7, 14)]),
    (9, 9, [*range(7, 13)]),
    (9, 43, [*range(7, 47)]),
    (9, 44, [*range(7, 27), *range(28, 48)]),
    (0, 100, [*range(1, 21), *range(81, 101)]),
    (99, 100, [*range(97, 101)]),
    (100, 100, [*range(98, 101)]),
    (200, 300, [*range(98, 101)]),
])  # fmt: skip
def test_three_lines_around_and_forty_at_most(start: int, stop: int, lines: list[int]) -> None:
    """Of long ones what is around the first difference, each against its own expected line."""
    base = Snapshot.of(b"".join(b"%d" % line + b"a" * 997 + b"\n" for line in range(1, 101)))
    expected = [f"{line}{'a' * 500}x" for line in range(start + 1, stop + 1)]
    found = standing(base, start, stop, expected)
    assert [each.line for each in found] == lines
    for each in found:
        at = 500 + len(str(each.line)) - 200 // 3 if start < each.line <= stop else 0
        assert each.text.startswith(f"(+{at} characters) …" if at else str(each.line))


@each_row("before request_ made", [
    (b"a\nb\nc\n", edit("2", "x\ny\n"), edit("2~2", "x\ny\n")),
    (b"a\nb\nc\n", edit("2~3", "x\n"), edit("2~3", "x\n")),
    (b"a\nb\nc\n", edit("3"), edit("3~3")),
    (b"a\nb\nc\n", APPEND, edit("4~", "x\n")),
    # an insertion keeps the line after it
    (b"a\nb\nc\n", insert("a", "x\n"), edit("2~2", "x\nb\n")),
    (b"a\r\nb\r\n", insert("a", "x\n"), edit("2~2", "x\r\nb\r\n")),
    (b"a\nb\n", insert("b", "x\n", before=True), edit("2~2", "x\nb\n")),
])  # fmt: skip
def test_a_region_is_a_range_edit(before: bytes, request_: Request, made: RangeEdit) -> None:
    draft = drafted(before, request_)
    (region,) = draft.regions_apart
    assert range_edit_of(PATH, draft.base, region) == made
    assert drafted(before, made).after == draft.after


def test_regions_apart_have_a_line_between_them() -> None:
    """Those that meet are one: its lines, its bytes and its new lines are theirs."""
    found = drafted(b"a\nb\nc\nd\n", ranges(edit("1", "x\n"), edit("2"), edit("4", "y\n")))
    assert found.regions_apart == (Region(0, 2, 0, 4, (b"x\n",)), Region(3, 4, 6, 8, (b"y\n",)))


@each_row("edits clashes", [
    ([edit("1~3"), edit("3", "x")], [(0, 1, "1~3", "3~3")]),
    ([edit("3", "x"), edit("1~3")], [(0, 1, "3~3", "1~3")]),
    ([edit("5~", "x"), edit("5~", "y")], [(0, 1, "5~", "5~")]),
    ([edit("4"), edit("5~", "y")], []),
    ([edit("1"), edit("2")], []),
    ([edit("1"), edit("1")], [(0, 1, "1~1", "1~1")]),
    # each against the one that reaches furthest
    ([edit("1~4"), edit("2"), edit("3~4")], [(0, 1, "1~4", "2~2"), (0, 2, "1~4", "3~4")]),
    ([edit("1~2"), edit("2~3"), edit("3")], [(0, 1, "1~2", "2~3"), (1, 2, "2~3", "3~3")]),
    ([edit("3"), edit("2~3"), edit("1~2")], [(0, 1, "3~3", "2~3"), (1, 2, "2~3", "1~2")]),
    ([edit("~", "x"), edit("5~", "y"), edit("5~", "z")], [(1, 2, "5~", "5~")]),
])  # fmt: skip
def test_ranges_that_collide_are_named(
    edits: list[RangeEdit], clashes: list[tuple[int, int, str, str]]
) -> None:
    base = Snapshot.of(b"a\nb\nc\nd\n")
    if not clashes:
        assert len(ranges(*edits).locate(base).parts) == len(edits)
        return
    with pytest.raises(CollisionDetected) as refused:
        ranges(*edits).locate(base)
    assert list(refused.value.collisions) == [Clash(*each) for each in clashes]


@each_row("before content bad", [
    ("a\n", "b\n", False),
    ("a\n", "b\ufffd\n", True),
    ("a\ufffd\n", "b\ufffd\n", False),
    ("a\ufffd\n", "b\n", False),
    ("a\n", "", False),
    ("a\nb\ufffd\n", "b\ufffd\n", True),
])  # fmt: skip
def test_bad_character(before: str, content: str, bad: bool) -> None:
    assert drafted(before.encode(), edit("1", content)).bad_character == bad


def test_bad_character_of_a_batch_and_of_a_bad_byte() -> None:
    for old, new, bad in (("a", "b", False), ("a", "\ufffd", True), ("\ufffd", "\ufffda", False)):
        request = BatchEdit(PATH, (StringEdit("x", "y"), StringEdit(old, new)))
        assert drafted(f"x {old}\n".encode(), request).bad_character is bad, (old, new)
    assert drafted(b"\xef\xbf\xbd\n", edit("1", "\ufffd")).bad_character is False
    assert drafted(b"\xff\n", edit("1", "a")).bad_character is False


def test_ranges_of_another_file_are_refused() -> None:
    request = RangeEdits(PATH, [RangeEdit(PATH, "1", "x\n"), RangeEdit("other.txt", "2", "y\n")])
    with pytest.raises(InvalidArgs, match=r"edits\[1\]\.path"):
        request.check()
