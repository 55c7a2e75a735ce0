"""Edits of large files: the way in parts gives what the way of the whole gives, in bounded memory."""

from __future__ import annotations

import codecs
import hashlib
import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copydesk.app.config import Config
from copydesk.app.workspace import OpenWorkspace
from copydesk.desk.outcome import Applied, Planned, Rejected
from copydesk.edit.draft import Draft
from copydesk.edit.request import Anchor, Append, BlockReplace, Insert, RangeEdit, Request, Terms
from copydesk.errors import FileTooLarge
from copydesk.store import _os
from copydesk.store.large import LargeFile, Survey
from copydesk.text import sizes
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Excerpt, Snapshot
from copydesk.tools import reports
from support.cost import examples, spread
from support.large_files import LARGE_FILES, PATH, TOOL, Desks, numbered, prepared
from support.texts import LineEdit, files, requests

DESK = LARGE_FILES

# The table: every kind of text, every kind of edit

PLAIN = [f"line {i} {'- * ' * (i % 7)}" for i in range(1, 41)]
PLAIN[6] = PLAIN[7] = PLAIN[8] = "   "
PLAIN[20:24] = ["", "", "", ""]
PLAIN[10], PLAIN[30] = "begin é漢字🎉", "end"
PLAIN[14], PLAIN[34] = "begin é漢字🎉", "end"
TWO = "\n".join(PLAIN)

TEXTS: dict[str, bytes] = {
    "lf": f"{TWO}\n".encode(),
    "lf, no end": TWO.encode(),
    "crlf": f"{TWO}\n".replace("\n", "\r\n").encode(),
    "crlf, no end": TWO.replace("\n", "\r\n").encode(),
    "mixed": f"{TWO}\n".replace(" 3", " 3\r").replace("\n", "\r\n", 15).encode(),
    "utf-8 with mark": codecs.BOM_UTF8 + f"{TWO}\n".encode(),
    "utf-8 with mark, broken": codecs.BOM_UTF8 + f"{TWO}\n".encode() + b"\xff\xe4\n",
    "utf-16-le": codecs.BOM_UTF16_LE + f"{TWO}\n\u0a0a\u0d0a".encode("utf-16-le"),
    "utf-16-be, crlf": codecs.BOM_UTF16_BE + TWO.replace("\n", "\r\n").encode("utf-16-be"),
    "utf-32-le": codecs.BOM_UTF32_LE + f"{TWO}\n".encode("utf-32-le"),
    "utf-32-be": codecs.BOM_UTF32_BE + f"{TWO}\n".encode("utf-32-be"),
    "utf-16, broken end": codecs.BOM_UTF16_LE + f"{TWO}\n".encode("utf-16-le") + b"\n",
    "unknown at the end": f"{TWO}\n".encode() + b"\xe4\xb8\n",
    "unknown, cut character": f"{TWO}\n".encode() + b"\xe4\xb8",
    "unknown, ascii else": TWO.encode("ascii", "ignore") + b"\xff",
    "binary": f"{TWO}\n".encode() + b"a\0b",
    "empty": b"",
    "mark alone": codecs.BOM_UTF8,
    "one newline": b"\n",
    "blank lines": b"\n" * 50,
    "one line": b"begin and no end",
    "long lines": b"begin\n" + b"x" * 500 + b"\r\n" + b"y" * 300 + b"\nend\n" + b"z" * 200,
}

NEW = {"one": "new", "lines": "new 1\r\nnew 2\n", "blank": "\n", "nothing": "", "é": "é\n\n"}

RANGES = ("1", "5~9", "8", "~", "21~24", "38~", "40", "41~", "39~40", "2~39", "99", "x")


ANCHORS: list[tuple[str, Any, Any]] = [
    ("line 20", "contains", None),
    ("end", "equals", None),
    ("begin", "contains", 2),
    ("begin é漢字🎉", "equals", "last"),
    ("begin", "contains", 3),
    ("line", "contains", "last"),
    ("begin", "contains", None),
    ("line 2 - * no, not", "contains", None),
    ("\\xff", "contains", None),
    ("x\r", "contains", None),
]
BLOCKS: list[tuple[str, str, dict[str, Any]]] = [
    ("begin", "end", {}),
    ("begin", "end", {"occurrence": 1}),
    ("begin", "end", {"occurrence": "last", "include_anchors": False}),
    ("begin", "end", {"strict": False}),
    ("line 25", "line 26", {}),
    ("line 25", "line", {"include_anchors": False}),
    ("end", "begin", {}),
    ("line 3 ", "nowhere at all", {}),
    ("begin", "line 1", {"occurrence": 2}),
]


def block(start: str, end: str, more: dict[str, Any]) -> Callable[[str], Request]:
    ends = Anchor(start, "contains", "start_anchor"), Anchor(end, "contains", "end_anchor")
    return partial(BlockReplace, PATH, *ends, **more)


SIDES: list[Any] = ["after", "before"]
PLACES: list[Callable[[str], Request]] = [
    *(partial(RangeEdit, PATH, text) for text in RANGES),
    partial(Append, PATH),
    *(
        partial(Insert, PATH, Anchor(anchor, match), position=side, occurrence=occurrence)
        for (anchor, match, occurrence), side in itertools.product(ANCHORS, SIDES)
    ),
    *(block(*each) for each in BLOCKS),
]


PARTS = [
    pytest.param(kind, part, marks=[] if part == -3 * at % 13 else [pytest.mark.slow])
    for (at, kind), part in itertools.product(enumerate(TEXTS), range(13))
]
"""A thirteenth of the places in each text."""


@pytest.mark.parametrize(("kind", "part"), PARTS)
def test_both_ways_are_one(desks: Desks, kind: str, part: int) -> None:
    for make, new in itertools.product(PLACES[part::13], NEW.values()):
        desks.check(TEXTS[kind], make(new))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("window", "kind"), spread((30, 200, 1000), ("crlf, no end", "utf-16-le", "long lines"), of=4)
)
def test_small_windows_fall_back_to_the_whole(desks: Desks, kind: str, window: int) -> None:
    for make in PLACES:
        desks.check(TEXTS[kind], make("new"), window=window, block=max(window // 4, 16))


def test_what_stands_in_a_line_longer_than_a_window_is_found(desks: Desks) -> None:
    data = b"begin\n" + b"x" * 500 + b"\r\n" + b"y" * 15 + b"\r\nend\n"
    for anchor in ("x" * 40, "y", "end"):
        report = desks.check(data, Insert(PATH, Anchor(anchor), "new"), window=16, block=16)[0]
        assert "error" not in report.fields


def test_blank_lines_are_counted_as_far_as_the_window_goes(desks: Desks) -> None:
    report = desks.check(b"\n" * 50, Append(PATH, "x"), window=50)[0]
    assert report.fields["blankline_style"]["file_trailing_blank_line_count"] == 50  # type: ignore[index, call-overload]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("block", "kind"),
    spread((1, 7, 64, 1 << 20), ("mixed", "utf-16-be, crlf", "utf-8 with mark, broken"), of=4),
)
def test_the_size_of_blocks_does_not_matter(desks: Desks, kind: str, block: int) -> None:
    for make in PLACES:
        desks.check(TEXTS[kind], make("new"), block=block)


@pytest.mark.slow
@pytest.mark.parametrize(
    "encoding", spread(("gb18030", "shift_jis", "latin-1", "utf-8", "utf-16-le"), of=4)
)
def test_named_encodings(tmp_path: Path, encoding: str) -> None:
    text = TWO.replace("🎉", "").replace("é", "é" if encoding == "latin-1" else "e")
    data = f"{text}\n".encode(encoding, "ignore") + b"\x81\n" * (encoding != "utf-16-le")
    config = Config(encodings=(("a.txt", encoding),), durability="fast")
    with Desks(tmp_path, config) as desks:
        for make, new in itertools.product(PLACES, ("new", "漢")):
            desks.check(data, make(new))


@pytest.mark.slow
def test_candidates_are_shown_as_elsewhere(desks: Desks) -> None:
    data = "".join(f"{i} same\n" for i in range(400)).encode()
    for occurrence in (None, 1, 17, 400, "last", 401):
        desks.check(data, Insert(PATH, Anchor("same"), "x", "after", occurrence))  # type: ignore[arg-type]
    for wanted in ("17 samx", "99 sam!", "nothing of the kind"):
        desks.check(data, Insert(PATH, Anchor(wanted), "x"))


def test_more_candidates_than_are_kept(desks: Desks, monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"same\n" * 40 + b"other\n"
    monkeypatch.setattr("copydesk.text.snapshot.KEPT", 20)
    for occurrence in (None, 3, 20, 21, 40, "last"):
        report = desks.check(data, Insert(PATH, Anchor("same"), "x", "after", occurrence))[0]  # type: ignore[arg-type]
        error = "ANCHOR_AMBIGUOUS" if occurrence in (None, 21) else None
        assert report.fields.get("error") == error


@pytest.mark.slow
@settings(max_examples=examples(150))
@given(st.data(), files, st.sampled_from([1, 8, 40, 1 << 20]))
def test_any_text_and_request(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, text: bytes, block: int
) -> None:
    request: LineEdit = data.draw(requests(Snapshot.of(text)))
    with Desks(tmp_path_factory.mktemp("any")) as desks:
        desks.check(text, request, block=block)


# Terms


@pytest.mark.slow
def test_expected_old_and_version(desks: Desks) -> None:
    data = TEXTS["crlf"]
    version = hashlib.sha256(data).hexdigest()[:12]
    edit = RangeEdit(PATH, "2~3", "new\n")
    old = f"{PLAIN[1]}\n{PLAIN[2]}\n"
    for auto in (False, True):
        for terms in (
            Terms(expected_old=old, auto=auto),
            Terms(expected_old=old + "x", auto=auto),
            Terms(version=version, auto=auto),
            Terms(version="0" * 12, auto=auto),
            Terms(auto=auto),
        ):
            desks.check(data, edit, terms)
            desks.check(data, Insert(PATH, Anchor("line 20"), "new"), terms)
            desks.check(data, Append(PATH, "new"), terms)
            desks.check(data, Append(RelPath(("a.txt",)), "new"), terms)


# What a large file does that a small one does not


def applied(desk: OpenWorkspace, plan: Planned) -> Applied | Rejected:
    return desk.desk.apply(desk.member("local"), "apply", plan.id)


def laid(desk: OpenWorkspace, lines: int) -> Path:
    """The file, with so many lines."""
    path = Path(desk.root, "a.txt")
    path.write_bytes(numbered(lines))
    return path


def old(path: Path) -> None:
    """Make the file's times those of a file that nobody has written to just now."""
    os.utime(path, ns=(1, 1))


def test_few_lines_are_at_hand(desk: OpenWorkspace) -> None:
    laid(desk, 5000)
    plan = prepared(desk, RangeEdit(PATH, "2500", "new"))
    base = plan.draft.base
    assert isinstance(base, Excerpt)
    assert sum(stretch.lines.size for stretch in base.stretches) < 1000
    with pytest.raises(ValueError, match="not loaded"):
        base.text(1)
    with pytest.raises(ValueError, match="not known"):
        _ = plan.draft.after.digest
    done = applied(desk, plan)
    assert isinstance(done, Applied)
    after = Path(desk.root, "a.txt").read_bytes()
    assert after == numbered(5000).replace(b"002500 of many lines", b"new")
    assert done.draft.after.digest == hashlib.sha256(after).hexdigest()


def test_a_changed_large_file_is_rejected_and_an_append_is_not(desk: OpenWorkspace) -> None:
    path = laid(desk, 1000)
    edit, end = prepared(desk, RangeEdit(PATH, "500", "new")), prepared(desk, Append(PATH, "end"))
    with path.open("ab") as file:
        file.write(b"more\n")
    refused = applied(desk, edit)
    assert isinstance(refused, Rejected)
    assert refused.refusal.code == "CONTENT_CHANGED"
    assert "too large to be compared" in str(refused.refusal)
    report = reports.rejected(TOOL, refused, "en")
    assert "500\\t000500 of many lines" in str(report.fields["apply_evidence"])
    done = applied(desk, end)
    assert isinstance(done, Applied)
    assert done.context == "fuzz"
    assert path.read_bytes() == numbered(1000) + b"more\nend\n"


def test_a_file_that_grows_over_the_threshold_is_carried(desk: OpenWorkspace) -> None:
    path = laid(desk, 180)
    plan = prepared(desk, RangeEdit(PATH, "90", "new"))
    path.write_bytes(b"first\n" + numbered(200))
    assert path.stat().st_size > sizes.LARGE
    done = applied(desk, plan)
    assert isinstance(done, Applied)
    assert path.read_bytes().split(b"\n")[90] == b"new"


def test_many_lines_need_the_whole_as_far_as_it_may_be_loaded(desk: OpenWorkspace) -> None:
    path = laid(desk, 500)
    plan = prepared(desk, RangeEdit(PATH, "2~499", ""))
    assert isinstance(plan.draft.base, Snapshot)
    assert isinstance(applied(desk, plan), Applied)
    assert path.read_bytes() == b"000001 of many lines\n000500 of many lines\n"
    path.write_bytes(numbered(5000))
    with pytest.raises(FileTooLarge) as refused:
        prepared(desk, RangeEdit(PATH, "2~499", ""))
    assert refused.value.setting == "whole_bytes"
    prepared(desk, RangeEdit(PATH, "2~50", ""))


def test_a_file_with_two_names_is_written_in_place_and_keeps_its_attributes(
    desk: OpenWorkspace,
) -> None:
    path = laid(desk, 500)
    path.chmod(0o751)
    os.setxattr(path, "user.kept", b"yes")
    for links in (1, 2):
        inode = path.stat().st_ino
        done = applied(desk, prepared(desk, RangeEdit(PATH, "7", f"new {links}")))
        assert isinstance(done, Applied)
        assert (path.stat().st_ino == inode) == (links == 2)
        assert path.stat().st_mode & 0o777 == 0o751
        assert os.getxattr(path, "user.kept") == b"yes"
        if links == 1:
            os.link(path, Path(desk.root, "b.txt"))
    assert Path(desk.root, "b.txt").read_bytes() == path.read_bytes()
    assert path.read_bytes().split(b"\n")[6] == b"new 2"


def test_one_pass_serves_plan_and_apply(
    desk: OpenWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = laid(desk, 1000)
    old(path)
    monkeypatch.setattr(_os, "now_ns", lambda: path.stat().st_ctime_ns + 10**10)
    passes: list[int] = []
    whole_pass = LargeFile._pass

    def counted(self: LargeFile) -> Survey:
        passes.append(1)
        return whole_pass(self)

    monkeypatch.setattr(LargeFile, "_pass", counted)
    insert = prepared(desk, Insert(PATH, Anchor("000700"), "new"))
    again = prepared(desk, Insert(PATH, Anchor("000800"), "new"))
    assert isinstance(applied(desk, insert), Applied)
    assert passes == [1]
    assert isinstance(applied(desk, again), Applied)


def test_the_digest_goes_on_from_a_state(
    desk: OpenWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = laid(desk, 1000)
    monkeypatch.setattr(_os, "now_ns", lambda: path.stat().st_ctime_ns + 10**10)
    monkeypatch.setattr("copydesk.store.contents._STEP", 1000)
    for edit in ("1", "500", "999", "1000"):
        done = applied(desk, prepared(desk, RangeEdit(PATH, edit, "new")))
        assert isinstance(done, Applied)
        assert done.draft.after.digest == hashlib.sha256(path.read_bytes()).hexdigest()
        assert desk.journal.entries(most=1)[0].after == done.draft.after.digest


def test_the_entry_is_in_the_journal_before_the_file_changes(
    desk: OpenWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = laid(desk, 1000)
    seen: list[str] = []
    exchange = _os.rename_exchange

    def watched(dir_fd: int, temp: bytes, name: bytes) -> None:
        assert path.read_bytes() == numbered(1000)
        seen.extend(entry.state for entry in desk.journal.entries())
        exchange(dir_fd, temp, name)

    monkeypatch.setattr(_os, "rename_exchange", watched)
    applied(desk, prepared(desk, RangeEdit(PATH, "7", "new")))
    assert seen == ["open"]
    assert desk.journal.entries()[0].state == "done"


@pytest.mark.parametrize("call", ["write", "copy_range", "rename_exchange"])
def test_what_fails_leaves_the_file_and_nothing_else(
    desk: OpenWorkspace, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = laid(desk, 1000)
    plan = prepared(desk, RangeEdit(PATH, "7", "new"))

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(_os, call, full)
        refused = applied(desk, plan)
    assert isinstance(refused, Rejected)
    assert refused.refusal.code == "FAILED"
    assert path.read_bytes() == numbered(1000)
    assert [each.name for each in Path(desk.root).iterdir()] == ["a.txt"]
    states = [entry.state for entry in desk.journal.entries()]
    assert states == ["failed"] * (call == "rename_exchange")
    assert isinstance(applied(desk, plan), Applied)


def test_a_change_while_it_is_read_is_seen(
    desk: OpenWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = laid(desk, 1000)
    whole_pass, passes = LargeFile._pass, [0]

    def meanwhile(self: LargeFile) -> Survey:
        known = whole_pass(self)
        passes[0] += 1
        if passes[0] == 1:
            path.write_bytes(numbered(1001))
        return known

    monkeypatch.setattr(LargeFile, "_pass", meanwhile)
    plan = prepared(desk, RangeEdit(PATH, "1001~", "new"))
    assert plan.draft.base.digest == hashlib.sha256(numbered(1001)).hexdigest()
    assert passes == [2]


def test_a_draft_of_a_large_file_says_what_it_replaces(desk: OpenWorkspace) -> None:
    laid(desk, 1000)
    draft: Draft = prepared(desk, RangeEdit(PATH, "7", "000007 of many lines")).draft
    assert draft.replaces_nothing
    done = applied(desk, prepared(desk, RangeEdit(PATH, "7", "000007 of many lines")))
    assert isinstance(done, Applied)
    assert (done.edit_id, done.draft.after.digest) == (0, done.draft.base.digest)


# Memory

PROGRAM = """
import sys
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from copydesk import Desk
from copydesk.edit.request import Anchor, Insert, RangeEdit

def peak():
    return getrusage(RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

root = Path(sys.argv[1])
(root / "small.txt").write_text("one\\ntwo\\n")
with Desk(root) as desk:
    for name, number, anchor in (("small.txt", "2", "one"), ("large.txt", "3000000", "target")):
        path = desk.path(name)
        desk.apply(desk.prepare(RangeEdit(path, number, "new")).id)
        desk.apply(desk.prepare(Insert(path, Anchor(anchor), "new")).id)
        print(peak())
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    chunk = b"".join(b"%07d some line of text that is of usual length\n" % i for i in range(10_000))
    with (tmp_path / "large.txt").open("wb") as file:
        for number in range(300 * (1 << 20) // len(chunk) + 1):
            file.write(chunk)
            if number == 300:
                file.write(b"the target of the edit\n")
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    idle, after = map(int, ran.stdout.split())
    assert after - idle < 32 << 20
