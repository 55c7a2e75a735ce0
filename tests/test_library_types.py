"""Whatever a program hands to the library: a TypeError that names it, or a refusal with a sentence."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import copydesk
from copydesk import (
    Anchor,
    Append,
    BatchEdit,
    BlockReplace,
    ChangeMode,
    DeleteFile,
    Desk,
    Insert,
    MoveFile,
    RangeEdit,
    RangeEdits,
    Refusal,
    ReplaceText,
    StringEdit,
)

TEXT = "one\ntwo\nthree\n"
WRONG = (None, 5, -1, b"two", ["two"], "two", ("two",), {}, 1.5, object(), True)


class Named:
    """Has a path that is no text."""

    def __fspath__(self) -> bytes:
        return b"a.txt"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    (tmp_path / "a.txt").write_text(TEXT)
    with Desk(tmp_path) as opened:
        yield opened


def check_refused(call: Callable[[], object]) -> None:
    """It works, or says in a sentence what is wrong."""
    raised: Exception | None = None
    try:
        call()
    except (TypeError, Refusal) as error:
        raised = error
    if isinstance(raised, Refusal):
        assert re.match(r"[A-Z0-9].{10,} \[[A-Z_]{4,}", str(raised)), raised
    elif raised is not None:
        assert re.search(" must be | is not iterable$", str(raised)), raised


BLOCK = {"start_anchor": "one", "end_anchor": "three", "content": "x", "occurrence": None}
REQUESTS: dict[Any, dict[str, Any]] = {
    Append: {"content": "x", "create": True},
    Insert: {"anchor": "two", "content": "x", "position": "after", "occurrence": 1},
    RangeEdit: {"range": "2", "content": "x"},
    RangeEdits: {"edits": (RangeEdit("a.txt", "2", "x"),)},
    BlockReplace: {**BLOCK, "include_anchors": True, "require_unique": True, "strict": True},
    BatchEdit: {"edits": (StringEdit("two", "x"),)},
    BatchEdit.of: {"edits": [("two", "x")]},
    ReplaceText: {"edits": (StringEdit("two", "x"),), "everywhere": True},
    DeleteFile: {"mode": 0o100644},
    MoveFile: {"to": "b.txt"},
    ChangeMode: {"executable": True, "mode": 0o100644},
}
"""What is right for each besides its path."""


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: kind.__name__)
def test_requests(desk: Desk, kind: Any) -> None:
    right = {"path": "a.txt", **REQUESTS[kind]}
    if inspect.isclass(kind):
        assert set(right) == set(inspect.signature(kind).parameters)
    assert desk.prepare(kind(**right)).id
    for name in right:
        for wrong in (*WRONG, Named()):
            check_refused(lambda given={**right, name: wrong}: desk.prepare(kind(**given)))
    assert desk.read("a.txt").lines == ("one", "two", "three")


def test_parts_of_requests(desk: Desk) -> None:
    for wrong in WRONG:
        for make in (
            lambda each: Insert("a.txt", Anchor(each), "x"),
            lambda each: Insert("a.txt", Anchor("two", each), "x"),
            lambda each: Insert("a.txt", Anchor("two", argument=each), "x"),
            lambda each: BatchEdit("a.txt", (StringEdit("two", each),)),
            lambda each: BatchEdit("a.txt", (StringEdit(each, "x"),)),
            lambda each: BatchEdit.of("a.txt", [(each, "x"), ("two", each)]),
            lambda each: BatchEdit.of("a.txt", [each]),
            lambda each: RangeEdits("a.txt", (each,)),
            lambda each: RangeEdits("a.txt", (RangeEdit("a.txt", each, each),)),
        ):
            check_refused(lambda each=wrong, make=make: desk.prepare(make(each)))


SURE = {"version": None, "expected_old": None, "why": ""}
STATS = {"expected_mtime_ms": None, "expected_size_bytes": None, "expected_sha256": None}
METHODS: dict[str, dict[str, Any]] = {
    "read": {"path": "a.txt", "range": "1", "most_lines": 5},
    "prepare": {"request": Append("a.txt", "x"), **SURE, "existing_hunk_id": None},
    "edit": {"request": Append("n.txt", "x"), **SURE},
    "batch": {"path": "a.txt", "edits": [("two", "2")], **STATS, "dry_run": True},
    "apply": {"plan": "00000000"},
    "apply_all": {},
    "discard": {"plan": "00000000"},
    "wait": {"plan": "00000000", "timeout": 0.0},
    "events": {"timeout": 0.0},
    "create": {"path": "b.txt", "content": "x", "may_be_diff": False},
    "overwrite": {
        "path": "a.txt",
        "content": "x",
        "known_lines": 1,
        "known_bytes": 1,
        "may_be_diff": False,
    },
    "pending": {},
    "history": {"path": "a.txt", "most": 5, "before": None},
    "foreign_writes": {},
    "undo": {"edit_id": 1},
    "undo_transaction": {"edit_id": 1},
    "overwritten": {},
    "reapply": {"edit_id": 1},
    "changes": {"task": "", "member": "", "since": "", "path": ""},
    "path": {"text": "a.txt"},
}


def public(of: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(of, inspect.isroutine) if name[0] != "_"}


@pytest.mark.parametrize("name", METHODS)
def test_methods(desk: Desk, name: str) -> None:
    assert public(Desk) - {"close"} == set(METHODS)
    method, right = getattr(desk, name), METHODS[name]
    assert set(right) <= set(inspect.signature(method).parameters)
    for argument in right:
        for wrong in (*WRONG, Named()):
            if (name, argument) == ("events", "timeout") and wrong is None:
                continue  # it would never end
            if argument == "timeout" and wrong in (5, 1.5):
                continue
            check_refused(lambda given={**right, argument: wrong}: _used(method(**given)))
    if name == "apply_all":
        for wrong in WRONG:
            check_refused(lambda each=wrong: method(each))


def _used(answer: object) -> None:
    """An iterator does nothing until it is asked."""
    if isinstance(answer, Iterator):
        for _ in typing.cast("Iterator[object]", answer):
            pass


def test_views(desk: Desk) -> None:
    desk.prepare(Append("a.txt", "x"))
    changes, review = desk.changes(), desk.review
    for wrong in WRONG:
        for call in (
            lambda each: changes.keep(each),
            lambda each: changes.undo(each),
            lambda each: changes.undo(reason=each),
            lambda each: changes.undo(partly=each),
            lambda each: review.show(each),
            lambda each: review.approve(each),
            lambda each: review.reject(each, "no"),
            lambda each: review.reject("00000000", each),
            lambda each: review.reject("00000000", "no", wants_changes=each),
        ):
            check_refused(lambda each=wrong, call=call: call(each))
    assert public(copydesk.ReviewView) == {"pending", "show", "approve", "reject"}
    assert public(copydesk.ChangesView) == {"keep", "undo"}


def test_opening(tmp_path: Path) -> None:
    for wrong in WRONG:
        for call in (
            lambda each: Desk(each),
            lambda each: Desk(tmp_path, member=each),
            lambda each: Desk(tmp_path, shared=each),
        ):
            check_refused(lambda each=wrong, call=call: call(each).close())


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda desk: desk.read(5), "path must be str | PathLike[str], not int: 5"),
        (lambda desk: desk.prepare("a"), "request must be Request, not str: 'a'"),
        (lambda desk: desk.history(most="3"), "most must be int, not str: '3'"),
        (lambda desk: RangeEdit(5, "1"), "a path must be str or os.PathLike[str], not int"),
        (lambda desk: desk.prepare(RangeEdit("a.txt", 2)), "range must be str, not int: 2"),
        (
            lambda desk: desk.prepare(Insert("a.txt", "two", "x", "under")),
            "position must be Literal['after', 'before'], not str: 'under'",
        ),
    ],
)
def test_what_is_said(desk: Desk, call: Callable[[Desk], object], words: str) -> None:
    with pytest.raises(TypeError) as caught:
        call(desk)
    assert str(caught.value) == words
