"""Requests: what no text of one may be, and what of one a person may change."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules

from copydesk.desk.backends import api
from copydesk.edit import kinds
from copydesk.edit.request import (
    KINDS,
    LONGEST_WHY,
    Anchor,
    Append,
    BatchEdit,
    BlockReplace,
    ChangeMode,
    DeleteFile,
    Insert,
    MoveFile,
    PatchEdit,
    PatchHunk,
    RangeEdit,
    RangeEdits,
    ReplaceText,
    Request,
    StringEdit,
    check_why,
)
from copydesk.errors import InvalidArgs
from copydesk.notes.plan import BlockDiff
from copydesk.text.relpath import RelPath
from copydesk.tools import reports
from support.refusals import check
from support.rows import each_row
from support.texts import PATH


def insert(text: str = "a", anchor: str = "b", occurrence: int | None = None) -> Insert:
    return Insert(PATH, Anchor(anchor), text, occurrence=occurrence)


def block(
    text: str = "", start: str = "a", end: str = "b", occurrence: int | None = None
) -> Request:
    return BlockReplace(PATH, Anchor(start), Anchor(end), text, occurrence)


def test_only_an_edit_of_the_lines_of_a_file_is_checked_and_planned_anew_as_one() -> None:
    assert [kind for kind in (*KINDS, BlockDiff) if not kind.of_lines] == [
        *(DeleteFile, MoveFile, ChangeMode, BlockDiff)
    ]


def test_the_table_has_all_kinds() -> None:
    modules = [
        import_module(f"{kinds.__name__}.{one.name}") for one in iter_modules(kinds.__path__)
    ]
    named = [value for module in modules for value in vars(module).values()]
    types = [value for value in named if isinstance(value, type) and issubclass(value, Request)]
    assert {one for one in types if "__dataclass_fields__" in vars(one)} - {Request} == set(KINDS)
    assert len(KINDS) == len(set(KINDS))


@each_row("bad", ["a\0", "\ud800", None])
@each_row(
    "made argument",
    [
        (lambda text: RangeEdit(PATH, "1", text), "content"),
        (lambda text: Append(PATH, text), "content"),
        (lambda text: insert(text), "content"),
        (lambda text: insert(anchor=text), "anchor"),
        (lambda text: block(text), "content"),
        (lambda text: block(start=text), "start_anchor"),
        (lambda text: block(end=text), "end_anchor"),
        (lambda text: BatchEdit(PATH, (StringEdit("a", "b"), StringEdit(text, "c"))), "edits[1].old_string"),
        (lambda text: ReplaceText(PATH, (StringEdit("a", text),)), "edits[0].new_string"),
        (lambda text: RangeEdits(PATH, (RangeEdit(PATH, "1"), RangeEdit(PATH, "2", text))), "edits[1].content"),
    ],
)  # fmt: skip
def test_no_text_holds_a_nul_or_a_lone_surrogate(
    made: Callable[[str], Request], argument: str, bad: str | None
) -> None:
    request = made("x" if bad is None else bad)
    check(request.check, bad and InvalidArgs, argument=argument)


@each_row("occurrence argument", [(None, None), (1, None), (0, "occurrence")])
def test_occurrences_are_counted_from_one(occurrence: int | None, argument: str | None) -> None:
    for request in (insert(occurrence=occurrence), block(occurrence=occurrence)):
        check(request.check, argument and InvalidArgs, argument=argument)


@each_row("request_", [DeleteFile(PATH), MoveFile(PATH, RelPath.parse("b"))])
def test_a_file_operation_has_no_text(request_: Request) -> None:
    request_.check()
    assert request_.text is None


@each_row(
    "text argument",
    [
        ("a" * LONGEST_WHY, None),
        (f" \t\r\n{'a' * LONGEST_WHY}\n", None),
        ("a" * (LONGEST_WHY + 1), "why"),
        ("a\nb", "why"),
        ("a\u2028b", "why"),
        ("a\x1bb", "why"),
        ("a\0", "why"),
    ],
)
def test_a_reason_is_one_short_line(text: str, argument: str | None) -> None:
    expected = InvalidArgs if argument else text.strip()
    check(lambda: check_why("why", text), expected, argument=argument)


@each_row(
    "request_ text",
    [
        (RangeEdit(PATH, "1", "x"), "x"),
        (Append(PATH, "x"), "x"),
        (block("x"), "x"),
        (BatchEdit(PATH, (StringEdit("a", "x"),)), "x"),
        (BatchEdit(PATH, (StringEdit("a", "x"), StringEdit("b", "y"))), None),
        (RangeEdits(PATH, (RangeEdit(PATH, "1", "x"),)), None),
        (ChangeMode(PATH, executable=True), None),
    ],
)
def test_a_person_may_change_the_only_new_text(request_: Request, text: str | None) -> None:
    assert request_.text == text


@each_row(
    "request_ may",
    [
        (Append(PATH, "x"), True),
        (Append(PATH, "x", create=False), False),
        (PatchEdit(PATH, (PatchHunk("", "x"),), creates=True), True),
        (PatchEdit(PATH, (PatchHunk("", "x"),)), False),
        (RangeEdit(PATH, "1", "x"), False),
    ],
)
def test_what_may_make_a_missing_file(request_: Request, may: bool) -> None:
    assert request_.may_create is may


@each_row(
    "mode executable wanted",
    [
        (0o644, True, 0o755),
        (0o640, True, 0o750),
        (0o755, False, 0o644),
        (0o751, False, 0o640),
        (0o4711, False, 0o4600),
    ],
)
def test_who_may_read_a_file_may_run_it_or_nobody(mode: int, executable: bool, wanted: int) -> None:
    assert ChangeMode(PATH, executable, mode).modes == (mode, wanted)
    assert ChangeMode(PATH, executable).mode_after(0o100000 | mode) == wanted
    assert ChangeMode(PATH, executable).mode_after(0o100000 | wanted) is None


def test_a_list_of_edits_is_kept_as_a_tuple() -> None:
    """A list could not be stored."""
    edits = [StringEdit("a", "b")]
    assert BatchEdit(PATH, edits) == BatchEdit(PATH, tuple(edits))  # type: ignore[arg-type]  # a list
    ranges = [RangeEdit(PATH, "1")]
    assert RangeEdits(PATH, ranges) == RangeEdits(PATH, tuple(ranges))  # type: ignore[arg-type]  # so


def test_anchors_of_a_block_name_their_arguments() -> None:
    found = BlockReplace(PATH, Anchor("a"), Anchor("b", argument="end_anchor"), "")
    assert (found.start_anchor, found.end_anchor) == (
        Anchor("a", argument="start_anchor"),
        Anchor("b", argument="end_anchor"),
    )


@each_row(
    "old new text after",
    [
        ("a\n", "b\n", "c", "c\n"),
        ("a\n", "b\n", "c\n", "c\n"),
        ("a\n", "b\n", "", ""),
        ("a\n", "", "c", "c\n"),
        ("a", "b", "c", "c"),
        ("a\n", "b\n", "c\r\nd", "c\nd\n"),
        ("a\r\n", "b\n", "c\r\nd", "c\r\nd\n"),
        ("a\n", "b\r\n", "c\r\nd", "c\r\nd\n"),
    ],
)
def test_new_lines_of_a_hunk_are_whole_where_the_old_ones_were(
    old: str, new: str, text: str, after: str
) -> None:
    assert PatchHunk(old, new).with_new(text).new == after


def test_answers_tell_of_every_kind_that_can_be_stored() -> None:
    kinds = [kind for kind in api._TYPES.values() if issubclass(kind, Request)]
    assert len(kinds) >= 11
    assert {kind.__name__ for kind in kinds} <= set(reports._ROWS)
