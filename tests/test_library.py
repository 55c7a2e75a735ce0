"""The library's front door: typed requests in, typed results out, refusals raised."""

from __future__ import annotations

import doctest
import importlib
import inspect
import linecache
import pkgutil
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import get_type_hints

import pytest

import copydesk
from copydesk import Desk
from copydesk.app.config import ConfigError
from copydesk.desk.backends.snapshots import SMALL_BASE
from copydesk.desk.desk import Rewrite
from copydesk.desk.outcome import Applied, Created, Overwritten, Planned, Reading
from copydesk.edit.draft import Plan
from copydesk.edit.request import (
    Anchor,
    Append,
    BatchEdit,
    BlockReplace,
    Insert,
    RangeEdit,
    ReplaceText,
    Request,
    StringEdit,
)
from copydesk.errors import (
    AccessDenied,
    AnchorNotFound,
    CollisionDetected,
    Conflict,
    ContentChanged,
    DuplicateEdits,
    Failed,
    FileExists,
    FileNotFound,
    HunkNotFound,
    InvalidArgs,
    InvalidHunkId,
    InvalidPath,
    InvalidRange,
    NotAFile,
    PartialMatchFail,
    PathRequired,
    StaleRead,
    StatsMismatch,
    SuspiciousDiff,
    WrongMode,
    WrongOwner,
)

TEXT = "one\ntwo\nthree\n"
A = Desk.path("a.txt")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text(TEXT)
    return tmp_path


@pytest.fixture
def desk(root: Path) -> Iterator[Desk]:
    with Desk(root) as opened:
        yield opened


MODULES = [found.name for found in pkgutil.walk_packages(copydesk.__path__, "copydesk.")]


def test_examples() -> None:
    linecache.clearcache()  # else doctest looks at every file in it
    tried = {name: doctest.testmod(importlib.import_module(name)) for name in MODULES}
    assert {name: done for name, done in tried.items() if done.failed} == {}
    assert tried["copydesk.app.library"].attempted > 10


BETWEEN = Anchor("one"), Anchor("three", argument="end_anchor")


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (RangeEdit(A, "2", "zwei"), "one\nzwei\nthree\n"),
        (RangeEdit(A, "1~2", ""), "three\n"),
        (Append(A, "four"), TEXT + "four\n"),
        (Insert(A, Anchor("two"), "2.5", "after"), "one\ntwo\n2.5\nthree\n"),
        (Insert(A, Anchor("two"), "1.5", "before"), "one\n1.5\ntwo\nthree\n"),
        (BlockReplace(A, *BETWEEN, "2\n"), "one\n2\nthree\n"),
        (BatchEdit(A, (StringEdit("one", "1"), StringEdit("three", "3"))), "1\ntwo\n3\n"),
        (Append(Desk.path("new.txt"), "first"), "first\n"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_prepare_and_apply(desk: Desk, root: Path, request_: Request, expected: str) -> None:
    path = root / str(request_.path)
    before = path.read_text() if path.exists() else None
    plan = desk.prepare(request_)
    assert isinstance(plan, Planned)
    assert (path.read_text() if path.exists() else None) == before
    assert [waiting.id for waiting in desk.pending()] == [plan.id]
    done = desk.apply(plan.id)
    assert isinstance(done, Applied)
    assert (done.context, path.read_text()) == ("exact", expected)
    assert desk.pending() == ()
    (entry,) = desk.history(str(request_.path))
    assert (entry.edit_id, entry.hunk_id, entry.state) == (done.edit_id, plan.id, "done")


def test_edit_at_once_when_it_is_certain(desk: Desk, root: Path) -> None:
    assert isinstance(desk.edit(Append(A, "four")), Applied)
    unsure = desk.edit(RangeEdit(A, "1", "eins"))
    assert isinstance(unsure, Planned)
    assert unsure.declined
    version = desk.read("a.txt").version
    assert isinstance(desk.edit(RangeEdit(A, "2", "zwei"), version=version), Applied)
    assert isinstance(desk.edit(RangeEdit(A, "3", "drei"), expected_old="three\n"), Applied)
    assert (root / "a.txt").read_text() == "one\nzwei\ndrei\nfour\n"
    assert desk.apply(unsure.id).context == "fuzz"
    assert (root / "a.txt").read_text().startswith("eins\n")


def test_typed_results(desk: Desk, root: Path) -> None:
    reading = desk.read("a.txt", "2~")
    assert isinstance(reading, Reading)
    assert (reading.first_line, tuple(reading.lines)) == (2, ("two", "three"))
    assert desk.read("a.txt", most_lines=1).cut_by_lines
    created = desk.create("d/new.txt", "text")
    assert isinstance(created, Created)
    assert created.newline_added
    overwritten = desk.overwrite("a.txt", "all\n", known_lines=3, known_bytes=len(TEXT))
    assert isinstance(overwritten, Overwritten)
    assert (root / "a.txt").read_text() == "all\n"
    patch = "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n"
    desk.overwrite("a.txt", patch, known_lines=1, known_bytes=4, may_be_diff=True)
    assert (root / "a.txt").read_text() == patch
    plan = desk.discard(desk.prepare(Append(A, "x")).id)
    assert isinstance(plan, Plan)
    assert len(desk.history(most=2)) == 2


def check_refused(root: Path, calls: dict[type[Exception], Callable[[], object]]) -> None:
    for refusal, call in calls.items():
        with pytest.raises(refusal):
            call()
        assert (root / "a.txt").read_text() == TEXT


def check_arguments(calls: dict[str, Callable[[], object]]) -> None:
    """Each argument is refused by its name."""
    for argument, call in calls.items():
        with pytest.raises(InvalidArgs) as caught:
            call()
        assert caught.value.argument == argument


def test_refusals_are_raised_and_nothing_is_written(desk: Desk, root: Path) -> None:
    patch = "diff --git a/x b/x\n"
    plan = desk.prepare(Append(A, "x"))
    calls: dict[type[Exception], Callable[[], object]] = {
        FileNotFound: lambda: desk.read("none.txt"),
        NotAFile: lambda: desk.read("."),
        InvalidRange: lambda: desk.read("a.txt", "x"),
        PathRequired: lambda: desk.read(""),
        InvalidPath: lambda: desk.read("../x"),
        AccessDenied: lambda: desk.read(".minds/x"),
        FileExists: lambda: desk.create("a.txt"),
        StatsMismatch: lambda: desk.overwrite("a.txt", "x", known_lines=1, known_bytes=1),
        SuspiciousDiff: lambda: desk.overwrite("a.txt", patch, known_lines=3, known_bytes=14),
        AnchorNotFound: lambda: desk.prepare(Insert(A, Anchor("zzz"), "x")),
        ContentChanged: lambda: desk.prepare(RangeEdit(A, "1", "x"), expected_old="no\n"),
        StaleRead: lambda: desk.prepare(RangeEdit(A, "1", "x"), version="0" * 12),
        InvalidHunkId: lambda: desk.apply("nope"),
        HunkNotFound: lambda: desk.discard("00000000"),
        WrongMode: lambda: desk.prepare(RangeEdit(A, "1", "x"), existing_hunk_id=plan.id),
        PartialMatchFail: lambda: desk.batch("a.txt", [("four", "4"), ("five", "5")]),
    }
    for refusal, call in calls.items():
        with pytest.raises(refusal) as raised:
            call()
        of_tools = r"list_dir|ripgrep_|[a-z]_file\b|prepare tool|content_format|old_string"
        assert re.search(of_tools, str(raised.value)) is None, str(raised.value)
        assert (root / "a.txt").read_text() == TEXT


@pytest.mark.parametrize(
    ("old", "said"),
    [
        (
            "twoo",
            "old is not in the file; nothing was written. The closest place is line 2: copy",
        ),
        (
            "o",
            "old occurs at 2 places (lines 1 and 2); nothing was written. Give a longer text that",
        ),
    ],
)
def test_a_text_that_is_not_found_once_is_told_with_its_place(
    desk: Desk, old: str, said: str
) -> None:
    with pytest.raises(PartialMatchFail) as raised:
        desk.prepare(ReplaceText("a.txt", (StringEdit(old, "x"),)))
    assert str(raised.value).startswith(said)


def test_a_plan_that_the_file_refuses_waits_on(desk: Desk, root: Path) -> None:
    plan = desk.prepare(RangeEdit(A, "2", "deux"))
    assert desk.prepare(RangeEdit(A, "2", "zwei"), existing_hunk_id=plan.id).id == plan.id
    (root / "a.txt").write_text("one\nTWO\nthree\n")
    with pytest.raises(ContentChanged):
        desk.apply(plan.id)
    assert [waiting.id for waiting in desk.pending()] == [plan.id]
    (root / "a.txt").write_text(TEXT)
    assert desk.apply(plan.id).context == "exact"
    assert (root / "a.txt").read_text() == "one\nzwei\nthree\n"
    with pytest.raises(HunkNotFound) as caught:
        desk.apply(plan.id)
    assert caught.value.reason == "applied"


def test_shared_plans_are_seen_by_other_desks(root: Path) -> None:
    with Desk(root, shared=True) as mine, Desk(root, shared=True, member="ann") as hers:
        plan = mine.prepare(Append(A, "x"))
        assert [waiting.id for waiting in hers.pending()] == [plan.id]
        with pytest.raises(WrongOwner):
            hers.apply(plan.id)
        with Desk(root) as alone:
            assert alone.pending() == ()
    with Desk(root, shared=True) as later:
        assert later.apply(plan.id).context == "exact"
    with Desk(root, shared=True) as after:
        assert after.history()[0].hunk_id == plan.id


def test_a_closed_desk_says_so(root: Path) -> None:
    desk = Desk(root)
    desk.close()
    with pytest.raises(Failed, match="The workspace is closed"):
        desk.read("a.txt")


def test_a_desk_alone_leaves_nothing_behind(root: Path) -> None:
    with Desk(str(root)) as desk:
        desk.apply(desk.prepare(Append(A, "x")).id)
    assert [path.name for path in root.iterdir()] == ["a.txt"]


def test_what_a_desk_needs(root: Path) -> None:
    for other in ("none", "a.txt"):
        with pytest.raises(Failed, match=f"open .*/{other}"):
            Desk(root / other)
    (root / "copydesk.toml").write_text("ttl = 3")
    with pytest.raises(ConfigError):
        Desk(root)


def test_everything_public_is_annotated_and_documented() -> None:
    for name, method in inspect.getmembers(Desk, inspect.isfunction):
        if not name.startswith("_"):
            assert inspect.getdoc(method), name
            assert "return" in get_type_hints(method), name
    assert Path(copydesk.__file__).with_name("py.typed").exists()


def test_several_plans_are_written_or_none(desk: Desk, root: Path) -> None:
    new = desk.path("n/b.txt")
    ids = [desk.prepare(edit).id for edit in (RangeEdit(A, "2", "zwei"), Append(new, "new"))]
    (root / "a.txt").write_text("other\n")
    with pytest.raises(ContentChanged):
        desk.apply_all(*ids)
    assert not (root / "n").exists()
    (root / "a.txt").write_text(TEXT)
    done = desk.apply_all(*ids)
    assert [one.plan.id for one in done.applied] == ids
    assert (root / "a.txt").read_text() == "one\nzwei\nthree\n"
    assert (root / "n" / "b.txt").read_text() == "new\n"


def test_a_batch(desk: Desk, root: Path) -> None:
    seen = desk.read("a.txt")
    batch = partial(desk.batch, "a.txt", [("one", "1"), StringEdit("three\n", "")])
    batch = partial(batch, expected_sha256=seen.digest)
    dry = batch(dry_run=True)
    assert (dry.edit_id, dry.replacements, (root / "a.txt").read_text()) == (0, 2, TEXT)
    done = batch(expected_mtime_ms=seen.mtime_ms, expected_size_bytes=seen.size_bytes)
    assert isinstance(done, Rewrite)
    assert (root / "a.txt").read_text() == "1\ntwo\n" == done.after.data.decode()
    assert (done.diff, done.version) == (dry.diff, desk.read("a.txt").version)
    assert desk.batch("a.txt", [("1", "1"), ("two", "2")]).no_ops == 1
    (_, entry) = desk.history("a.txt")
    assert (entry.edit_id, entry.tool) == (done.edit_id, "BatchEdit")
    desk.undo(2)
    desk.undo(1)
    assert (root / "a.txt").read_text() == TEXT


def test_a_batch_that_is_refused_writes_nothing(desk: Desk, root: Path) -> None:
    batch = partial(desk.batch, "a.txt")
    calls: dict[type[Exception], Callable[[], object]] = {
        PartialMatchFail: lambda: batch([("one", "1"), ("o", "0"), ("zzz", "")]),
        CollisionDetected: lambda: batch([("one\ntwo", "1"), ("two", "2")]),
        DuplicateEdits: lambda: batch([("one", "1"), ("one", "1")]),
        Conflict: lambda: batch([("one", "1")], expected_size_bytes=1),
        FileNotFound: lambda: desk.batch("b.txt", [("one", "1")]),
        PathRequired: lambda: desk.batch("", [("one", "1")]),
        AccessDenied: lambda: desk.batch(".minds/x", [("one", "1")]),
    }
    check_refused(root, calls)
    empty = [("one", "1"), ("", "x")]
    check_arguments({"edits": lambda: batch([]), "edits[1].old_string": lambda: batch(empty)})
    with pytest.raises(PartialMatchFail) as failed:
        batch([("one", "1"), ("o", "0"), ("zzz", "")])
    assert [(one.index, one.matches_count) for one in failed.value.failures] == [(1, 2), (2, 0)]
    with pytest.raises(FileNotFound) as missing:
        desk.batch("A.txt", [("one", "1")])
    assert missing.value.similar == ("a.txt",)
    assert desk.history() == ()


@pytest.mark.parametrize("text", ["a\0b", "\udc80"])
def test_texts_that_no_file_can_hold(desk: Desk, root: Path, text: str) -> None:
    two = Anchor("two", argument="end_anchor")
    calls: dict[str, Callable[[], object]] = {
        "content": lambda: desk.prepare(RangeEdit(A, "1", text)),
        "anchor": lambda: desk.prepare(Insert(A, Anchor(text), "x")),
        "start_anchor": lambda: desk.prepare(BlockReplace(A, Anchor(text), two, "x")),
        "end_anchor": lambda: desk.prepare(BlockReplace(A, two, Anchor(text), "x")),
        "edits[1].old_string": lambda: desk.batch("a.txt", [("one", "1"), (text, "x")]),
        "edits[0].new_string": lambda: desk.prepare(BatchEdit.of(A, [("one", text)])),
    }
    check_arguments(calls)
    writes: list[Callable[[], object]] = [
        lambda: desk.edit(Append(A, text)),
        lambda: desk.create("b.txt", text),
        lambda: desk.overwrite("a.txt", text, known_lines=3, known_bytes=14),
    ]
    for write in writes:
        with pytest.raises(InvalidArgs):
            write()
    assert [path.name for path in root.iterdir()] == ["a.txt"]
    assert (root / "a.txt").read_text() == TEXT


@pytest.mark.parametrize("number", [0, -1])
def test_numbers_count_from_one(desk: Desk, number: int) -> None:
    calls: dict[str, Callable[[], object]] = {
        "occurrence": lambda: desk.prepare(Insert(A, Anchor("o"), "x", occurrence=number)),
        "most": lambda: desk.history(most=number),
        "most_lines": lambda: desk.read("a.txt", most_lines=number),
    }
    check_arguments(calls)


def test_how_a_new_file_ends(desk: Desk, root: Path) -> None:
    for at, (content, expected) in enumerate(
        (
            *(("", b""), ("a", b"a\n"), ("a\n", b"a\n"), ("a\r\n", b"a\r\n")),
            *(("a\r\nb", b"a\r\nb\r\n"), ("a\r\nb\nc", b"a\r\nb\nc\n")),
            ("a\nb\r\nc", b"a\nb\r\nc\r\n"),
        )
    ):
        made = desk.create(f"{at}.txt", content)
        assert (root / f"{at}.txt").read_bytes() == expected == made.after.data, content
        assert made.newline_added is (len(expected) > len(content))


def test_an_anchor_of_a_block_is_called_by_its_name(desk: Desk) -> None:
    for start, end, argument in (("zzz", "two", "start_anchor"), ("one", "zzz", "end_anchor")):
        with pytest.raises(AnchorNotFound) as caught:
            desk.prepare(BlockReplace(A, Anchor(start), Anchor(end), "x"))
        assert caught.value.argument == argument


def test_a_list_of_edits_is_stored_as_other_processes_read_it(root: Path) -> None:
    edits: list[StringEdit] = [StringEdit("two", "2")]
    with Desk(root, shared=True) as desk, Desk(root, shared=True) as other:
        plan = desk.prepare(BatchEdit(A, edits))  # type: ignore[arg-type]  # as without a type checker
        assert [one.id for one in other.pending()] == [plan.id]
        other.apply(plan.id)
    assert (root / "a.txt").read_text() == "one\n2\nthree\n"


PLANNING = """
import os, signal, sys
from copydesk import Desk
from copydesk.edit.request import RangeEdit
desk = Desk(sys.argv[1], shared=True)
print(desk.prepare(RangeEdit(desk.path("a.txt"), "2", "new")).plan.id, flush=True)
"""
ENDS = {
    "the last line": "",
    "sys.exit": "sys.exit(0)",
    "an exception": "raise ValueError",
    "kill -9": "os.kill(os.getpid(), signal.SIGKILL)",
    "os._exit": "os._exit(0)",
}
SUDDEN = ("kill -9", "os._exit")
SIZES = {"small": 100, "at most small": SMALL_BASE, "larger": 4 * SMALL_BASE}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "size"),
    [(end, size) for end in ENDS for size in SIZES if size != "larger" or end not in SUDDEN],
)
def test_a_plan_outlives_a_program_that_left_the_desk_open(root: Path, end: str, size: str) -> None:
    """Another program wrote to the file meanwhile, so the text of the plan is needed."""
    text = "".join(f"{number:07}\n" for number in range(SIZES[size] // 8))
    (root / "a.txt").write_text(text)
    words = [sys.executable, "-c", PLANNING + ENDS[end], str(root)]
    plan = subprocess.run(words, capture_output=True, text=True).stdout.strip()
    (root / "a.txt").write_text("first\n" + text)
    with Desk(root, shared=True) as desk:
        desk.apply(plan)
    after = text.replace("0000001\n", "new\n")
    assert (root / "a.txt").read_text() == f"first\n{after}"
