"""Taking edits back: the very bytes, only the lines of the edit, or nothing at all."""

from __future__ import annotations

import codecs
import hashlib
import os
import random
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copydesk.app.config import Config, MemberConfig
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.desk.outcome import Undone
from copydesk.edit.draft import Plan, span_of
from copydesk.edit.relocate import Drift, carried, drift_of, place_of
from copydesk.edit.request import Place, RangeEdit
from copydesk.errors import AmbiguousMatch, ContentChanged
from copydesk.text import change as change_module
from copydesk.text import sizes
from copydesk.text.change import ChangeSet, Collision, Edit, Followed, Met, follow, smallest_span
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Excerpt, Snapshot
from support.cost import examples, first, spread
from support.rows import each_row
from support.texts import changes, files

FAST = Config(durability="fast", members={"local": MemberConfig(team_mgmt=True)})


class Room:
    """One workspace, its calls in short."""

    def __init__(self, root: Path, *, shared: bool = False, config: Config = FAST) -> None:
        self.root = root
        self.opened: OpenWorkspace = open_workspace(str(root), config, shared=shared)

    def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        """A call that is done; the data of its answer, and of an envelope those within."""
        data = dict(self.opened.call("local", tool, arguments).data)
        return {**data, **data.get("data", {})}

    def write(self, data: bytes, name: str = "a.txt") -> None:
        (self.root / name).write_bytes(data)

    def read(self, name: str = "a.txt") -> bytes:
        return (self.root / name).read_bytes()

    def files(self) -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in self.root.rglob("*.txt") if path.is_file()}

    def edit(self, range_: object, content: str, name: str = "a.txt") -> int:
        """A range edit; its id."""
        arguments = {"path": name, "range": str(range_), "content": content}
        plan = self.call("prepare_file_range_edit", **arguments)
        return int(self.call("apply_file_modification", hunk_id=plan["hunk_id"])["edit_id"])

    def undo(self, edit_id: int, **arguments: object) -> dict[str, Any]:
        return self.call("undo_file_modification", edit_id=edit_id, **arguments)

    def done(self, edit_id: int) -> int:
        """An undo that must not be refused; the id of the edit that it is."""
        report = self.undo(edit_id)
        assert report["status"] == "ok", report
        return int(report["edit_id"])

    def refused(self, edit_id: int) -> dict[str, Any]:
        """An undo that must be refused with nothing written."""
        before = self.files()
        last = self.call("list_edits", max_results=1)["edits"]
        report = self.undo(edit_id)
        assert report["status"] == "error", report
        assert self.files() == before
        assert self.call("list_edits", max_results=1)["edits"] == last
        return report


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    made = Room(tmp_path)
    with made.opened:
        yield made


# Every kind of edit in every kind of file gives the very bytes back

LINES = ["first", "begin", "middle one", "middle two", "end", "last"]
TWO = "\n".join(LINES)
TEXTS: dict[str, bytes] = {
    "lf": f"{TWO}\n".encode(),
    "lf, no end": TWO.encode(),
    "crlf": f"{TWO}\n".replace("\n", "\r\n").encode(),
    "crlf, no end": TWO.replace("\n", "\r\n").encode(),
    "mixed": b"first\r\nbegin\nmiddle one\r\nmiddle two\nend\nlast\r\n",
    "mixed, no end": b"first\r\nbegin\nmiddle one\nmiddle two\r\nend\nlast",
    "bom": codecs.BOM_UTF8 + f"{TWO}\n".encode(),
    "utf-16": codecs.BOM_UTF16_LE + f"{TWO}\n".encode("utf-16-le"),
    "utf-16, crlf, no end": codecs.BOM_UTF16_BE + TWO.replace("\n", "\r\n").encode("utf-16-be"),
    "utf-16, odd characters": codecs.BOM_UTF16_LE
    + "first \u0a0a\u010a\nbegin\nmiddle\u0a00\nmiddle\nend\nlast\u0d0a\n".encode("utf-16-le"),
    "utf-32": codecs.BOM_UTF32_LE + f"{TWO}\n".encode("utf-32-le"),
    "invalid": b"first\xff\nbegin\nmiddle one \xc3\nmiddle two\nend\nlast\xe9\n",
    "invalid, no end": b"first\xff\r\nbegin\nmiddle one \xc3\nmiddle two\nend\nlast\xe9",
    "odd characters": "first\u2028x\nbegin\nmiddle\x0cone\nmiddle two\rx\nend\nlast\u0085".encode(),
}
BLOCK = {"start_anchor": "begin", "end_anchor": "end"}
BATCH = [
    {"old_string": old, "new_string": new}
    for old, new in (("irs", "IRS"), ("egin\nmid", "x"), ("las", ""))
]
PREPARED: dict[str, tuple[str, dict[str, object]]] = {
    "replace": ("prepare_file_range_edit", {"range": "3", "content": "new\nnewer"}),
    "replace first": ("prepare_file_range_edit", {"range": "1", "content": "new"}),
    "replace last": ("prepare_file_range_edit", {"range": "6", "content": "new"}),
    "delete": ("prepare_file_range_edit", {"range": "2~3"}),
    "delete first": ("prepare_file_range_edit", {"range": "1"}),
    "delete last": ("prepare_file_range_edit", {"range": "6"}),
    "delete all": ("prepare_file_range_edit", {"range": "~"}),
    "replace all": ("prepare_file_range_edit", {"range": "~", "content": "all"}),
    "append": ("prepare_file_append", {"content": "new\nnewer"}),
    "insert after": ("prepare_file_insert_after", {"anchor": "begin", "content": "new"}),
    "insert before": ("prepare_file_insert_before", {"anchor": "first", "content": "\n"}),
    "insert at the end": ("prepare_file_insert_after", {"anchor": "last", "content": "new"}),
    "block": ("prepare_file_block_replace", {**BLOCK, "content": "new"}),
    "block with anchors": (
        *("prepare_file_block_replace", {**BLOCK, "content": "n", "include_anchors": False}),
    ),
    "batch": ("prepare_batch_edit", {"edits": BATCH}),
}
EDITOR = "str_replace_based_edit_tool"
AT_ONCE: dict[str, tuple[str, dict[str, object]]] = {
    "Edit": ("Edit", {"old_string": "middle", "new_string": "MID\nDLE", "replace_all": True}),
    "BatchEdit": ("BatchEdit", {"edits": [{"old_string": "end\nl", "new_string": "endl"}]}),
    "Write": ("Write", {"content": "all\nnew", "overwrite": True}),
    "write_file": ("write_file", {"content": "all\nnew"}),
    "edit_file": ("edit_file", {"edits": [{"oldText": "end\nl", "newText": "endl"}]}),
    "str_replace": (EDITOR, {"command": "str_replace", "old_str": "egin\nm", "new_str": "x\ny\n"}),
    "insert": (EDITOR, {"command": "insert", "insert_line": 2, "insert_text": "new\nnewer"}),
    "insert first": (EDITOR, {"command": "insert", "insert_line": 0, "insert_text": "new\n"}),
    "insert last": (EDITOR, {"command": "insert", "insert_line": 6, "insert_text": "new"}),
    "Write nothing": ("Write", {"content": "", "overwrite": True}),
    "overwrite": ("overwrite_entire_file", {"content": "all\nnew"}),
    "overwrite, mostly the same": ("overwrite_entire_file", {"content": f"{TWO}\nmore"}),
}


def make(room: Room, kind: str) -> int:
    """One edit of `a.txt`; its id."""
    size = len(room.read())
    tool, arguments = {**PREPARED, **AT_ONCE}[kind]
    if tool == "overwrite_entire_file":
        lines = room.call("read_file", path="a.txt")["total_lines"]
        known = {"known_old_total_lines": lines, "known_old_total_bytes": size}
        arguments = {**known, **arguments}
    if tool == "Write":
        arguments = {"expected_size_bytes": size, **arguments}
    report = room.call(tool, path="a.txt", **arguments)
    if kind in PREPARED:
        report = room.call("apply_file_modification", hunk_id=report["hunk_id"])
    assert report["status"] in ("ok", "success"), report
    return int(report["edit_id"])


EDITS = [*PREPARED, *AT_ONCE]
PARTS = [
    pytest.param(text, part, marks=[] if part == -2 * at % 5 else [pytest.mark.slow])
    for (at, text), part in product(enumerate(TEXTS), range(5))
]
"""A fifth of the edits of each text; all edits are among those that are fast."""


@pytest.mark.parametrize(("text", "part"), PARTS)
def test_the_very_bytes_come_back(room: Room, text: str, part: int) -> None:
    data = TEXTS[text]
    for kind in EDITS[part::5]:
        room.write(data)
        edit_id = make(room, kind)
        after = room.read()
        assert after != data, kind
        report = room.undo(edit_id)
        assert room.read() == data, kind
        assert (report["context_match"], report["undone_edit_id"]) == ("exact", edit_id), report
        assert room.done(report["edit_id"]) == report["edit_id"] + 1
        assert room.read() == after, kind
        room.done(edit_id)
        assert room.read() == data, kind


@pytest.mark.parametrize(("text", "part"), PARTS)
def test_a_large_file_too(
    room: Room, monkeypatch: pytest.MonkeyPatch, text: str, part: int
) -> None:
    monkeypatch.setattr(sizes, "LARGE", 0)
    monkeypatch.setattr(sizes, "BLOCK", 16)
    test_the_very_bytes_come_back(room, text, part)


@pytest.mark.slow
@given(st.data())
@settings(max_examples=examples(60))
def test_all_back_is_the_start(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    start = data.draw(files.filter(lambda found: not Snapshot.of(found).ragged))
    room = Room(tmp_path_factory.mktemp("room"))
    with room.opened:
        room.write(start)
        made: list[int] = []
        for _ in range(data.draw(st.integers(1, 6))):
            total = Snapshot.of(room.read()).line_count
            first = data.draw(st.integers(1, total + 1))
            last = data.draw(st.integers(first, max(total, first)))
            content = data.draw(st.sampled_from(("", "x", "\n", "x\ny\n", "x\r\n\n")))
            range_ = f"{first}~{last}" if first <= total else f"{first}~" if total else "~"
            if first > total and not content:
                continue
            plan = room.call("prepare_file_range_edit", path="a.txt", range=range_, content=content)
            report = room.call("apply_file_modification", hunk_id=plan["hunk_id"])
            if report["edit_id"]:
                made.append(report["edit_id"])
        for edit_id in reversed(made):
            room.done(edit_id)
        assert room.read() == start


# Later edits of other lines


def numbered(count: int) -> bytes:
    return b"".join(b"line %d\n" % i for i in range(1, count + 1))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_after_a_hundred_later_edits_only_its_lines_come_back(room: Room, seed: int) -> None:
    room.write(numbered(300))
    first = room.edit("150~151", "NEW 150\nNEW 151\nNEW 152\n")
    model = room.read().decode().split("\n")[:-1]
    rng = random.Random(seed)
    for step in range(100):
        at = rng.choice([i for i, line in enumerate(model) if not line.startswith("NEW")])
        if rng.random() < 0.5:
            room.edit(at + 1, f"later {step}\n")
            model[at] = f"later {step}"
        elif rng.random() < 0.5:
            room.edit(at + 1, "")
            del model[at]
        else:
            room.edit(at + 1, f"{model[at]}\nlater {step}\n")
            model.insert(at + 1, f"later {step}")
    assert room.read().decode().split("\n")[:-1] == model
    report = room.undo(first)
    assert report["status"] == "ok", report
    at = model.index("NEW 150")
    model[at : at + 3] = ["line 150", "line 151"]
    assert room.read().decode() == "".join(f"{line}\n" for line in model)
    assert report["lines"] == {"old": 3, "new": 2, "delta": -1}
    assert report["regions"] == [{"start_line": at + 1, "end_line": at + 2}]


@dataclass(eq=False)
class Version:
    """What an edit made of a line: its text, None when it is gone."""

    text: str | None


@dataclass(eq=False)
class Cell:
    """A line that there ever was."""

    now: Version


@dataclass(eq=False)
class Step:
    """An edit of one line, or one that took such an edit back.

    `first` is the edit that the chain of undos begins with. `around` is what was around the line,
    and then what the undos of older edits made of that.
    """

    first: int
    cell: Cell
    before: Version
    after: Version
    around: list[list[list[tuple[Cell, Version]]]]
    undone_by: list[Step] = field(default_factory=list["Step"])

    @property
    def stands(self) -> bool:
        return not any(step.stands for step in self.undone_by)


class Sheet:
    """A dumb model of a file: all lines that there ever were, in their order."""

    def __init__(self, room: Room, seed: int) -> None:
        self.room, self.rng = room, random.Random(seed)
        self.cells = [Cell(Version(f"line {i}")) for i in range(1, 13)]
        self.steps: dict[int, Step] = {}
        self.refused = 0
        room.write(self.text)

    @property
    def text(self) -> bytes:
        return "".join(f"{cell.now.text}\n" for cell in self.shown).encode()

    @property
    def shown(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.now.text is not None]

    def around(self, cell: Cell) -> list[list[tuple[Cell, Version]]]:
        """The line that stands before the place of a line, and the one after it."""
        at = self.cells.index(cell)
        before = [one for one in self.cells[:at] if one.now.text is not None][-1:]
        after = [one for one in self.cells[at + 1 :] if one.now.text is not None][:1]
        return [[(one, one.now) for one in side] for side in (before, after)]

    def put(self, edit_id: int, cell: Cell, after: Version, undone: Step | None = None) -> None:
        """What an edit has done."""
        first = edit_id if undone is None else undone.first
        newer = [
            step
            for each, step in self.steps.items()
            if each > first and self.around(step.cell) in step.around
        ]
        before, cell.now = cell.now, after
        step = Step(first, cell, before, after, [self.around(cell)])
        self.steps[edit_id] = step
        if undone is not None:
            undone.undone_by.append(step)
            for each in newer if before.text is not None else ():
                each.around.append(self.around(each.cell))

    def edit(self, name: str) -> None:
        """Some edit of one line."""
        cell = self.rng.choice(self.shown)
        at = self.shown.index(cell) + 1
        kind = self.rng.choice(("change", "delete", "insert"))
        if kind == "insert":
            arguments = {"path": "a.txt", "anchor": cell.now.text, "match": "equals"}
            plan = self.room.call("prepare_file_insert_after", content=name, **arguments)
            done = self.room.call("apply_file_modification", hunk_id=plan["hunk_id"])
            new = Cell(Version(None))
            self.cells.insert(self.cells.index(cell) + 1, new)
            self.put(done["edit_id"], new, Version(name))
        else:
            text = name if kind == "change" else None
            edit_id = self.room.edit(at, f"{name}\n" if text else "")
            self.put(edit_id, cell, Version(text))

    def undo(self) -> None:
        """Some undo: done just when what the edit left is there as it left it.

        A line that is gone left its neighbours, next to each other; or those that are there since
        an older edit was taken back.
        """
        edit_id = self.rng.choice(list(self.steps))
        step = self.steps[edit_id]
        if step.after.text is None:
            left = step.cell.now.text is None and self.around(step.cell) in step.around
        else:
            left = step.cell.now is step.after
        if step.stands and left:
            self.put(self.room.done(edit_id), step.cell, step.before, step)
        else:
            self.room.refused(edit_id)
            self.refused += 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", spread(range(8), of=4))
def test_edits_and_undos_in_any_order(room: Room, seed: int) -> None:
    sheet = Sheet(room, seed)
    for count in range(150):
        if sheet.steps and (sheet.rng.random() < 0.5 or len(sheet.shown) < 4):
            sheet.undo()
        else:
            sheet.edit(f"new {count}")
        assert room.read() == sheet.text
    assert sheet.refused > 10


def test_what_came_in_between_and_was_taken_back_is_no_hindrance(room: Room) -> None:
    """A line comes back between its neighbours, though one of them was changed for a while."""
    room.write(numbered(6))
    gone = room.edit(3, "")
    changed, inserted = room.edit(2, "LINE 2\n"), room.edit(3, "new\nline 4\n")
    room.edit(6, "LINE 6\n")
    assert room.refused(gone)["later_edit_ids"] == [changed]
    room.done(changed)
    assert room.refused(gone)["later_edit_ids"] == [inserted]
    again = room.done(inserted)
    room.done(again)
    assert room.refused(gone)["error"] == "CONTENT_CHANGED"
    room.done(inserted)
    room.done(gone)
    assert room.read() == numbered(6).replace(b"line 6", b"LINE 6")


def test_neighbouring_edits_are_taken_back_oldest_first(room: Room) -> None:
    """What the undo of an older edit does next to a line does not keep that from coming back."""
    room.write(numbered(3))
    plan = room.call("prepare_file_append", path="a.txt", content="line 4")
    appended = room.call("apply_file_modification", hunk_id=plan["hunk_id"])["edit_id"]
    gone = room.edit(3, "")
    room.done(appended)
    room.done(gone)
    assert room.read() == numbered(3)

    changed, first = room.edit(3, "LINE 3\n"), room.edit("1~2", "")
    room.done(changed)
    later = room.edit(1, "later\n")
    assert room.refused(first)["later_edit_ids"] == [later]
    room.done(later)
    room.done(first)
    assert room.read() == numbered(3)


def test_words_do_not_come_back_without_their_line(room: Room) -> None:
    """An undo of an older edit took the line away: what was put into it stood next to that."""
    room.write(numbered(2))
    inserted = room.edit("3~", "NEW\n")
    words = {"path": "a.txt", "old": "NEW", "new": "x NEW", "apply": "auto"}
    changed = room.call("replace_text", **words)["edit_id"]
    again = room.done(changed)
    room.done(inserted)
    assert room.refused(again)["error"] == "CONTENT_CHANGED"
    assert room.read() == numbered(2)


def test_a_later_edit_of_the_same_line_is_named(room: Room) -> None:
    room.write(numbered(9))
    first = room.edit("4~5", "NEW 4\nNEW 5\n")
    room.edit(8, "other\n")
    later = room.edit(5, "LATER\n")
    report = room.refused(first)
    assert (report["error"], report["context_match"]) == ("CONTENT_CHANGED", "rejected")
    assert (report["edit_id"], report["planned_lines"]) == (first, "4~5")
    assert report["later_edit_ids"] == [later]
    assert "5\tLATER" in report["apply_evidence"]["current"]
    room.done(later)
    room.done(first)
    assert room.read() == numbered(9).replace(b"line 8", b"other")


def test_an_edit_is_taken_back_once(room: Room) -> None:
    room.write(numbered(3))
    edit = room.edit(2, "new\n")
    back = room.done(edit)
    report = room.refused(edit)
    assert (report["error"], report["undone_by"]) == ("CONTENT_CHANGED", back)
    assert str(back) in report["reason"]
    room.done(back)
    assert room.refused(back)["error"] == "CONTENT_CHANGED"
    room.done(edit)
    assert room.read() == numbered(3)


def test_an_edit_that_there_is_not(room: Room) -> None:
    missing = (7, 1 << 40, 1 << 80)
    for edit_id in missing:
        report = room.undo(edit_id)
        assert (report["error"], report["reason"]) == ("EDIT_NOT_FOUND", "unknown")
        assert "newest_edit_id" not in report
    room.write(numbered(3))
    made = room.edit(1, "x\n")
    assert [room.undo(edit_id)["newest_edit_id"] for edit_id in missing] == [made] * 3


def test_an_edit_that_failed_or_was_pruned(tmp_path: Path) -> None:
    room = Room(tmp_path, shared=True)
    with room.opened:
        room.write(numbered(3))
        done = room.opened.journal.get(room.edit(1, "x\n"))
        assert done is not None
        made = room.opened.journal.open(replace(done, edit_id=0, state="open"))
        room.opened.journal.close_all([made], "failed")
        assert room.undo(made)["reason"] == "failed"
        room.edit(2, "y\n")
        assert room.opened.journal.prune(1, 90, 0) == 1
        last = room.edit(3, "z\n")
        report = room.undo(made)
        assert (report["error"], report["reason"]) == ("EDIT_NOT_FOUND", "pruned")
        assert report["newest_edit_id"] == last


# What other programs did to the file meanwhile
NINE = numbered(9)
STANZAS = "".join(f"[{name}]\nx = 1\ny = 2\n\n" for name in "abcd").encode()


def swapped(old: bytes, new: bytes, most: int = 1) -> Callable[[bytes], bytes]:
    return lambda data: data.replace(old, new, most)


def above(new: bytes) -> Callable[[bytes], bytes]:
    return lambda data: new + data


def below(new: bytes) -> Callable[[bytes], bytes]:
    return lambda data: data + new


CRLF, CAFE, LINE_6 = swapped(b"\n", b"\r\n", -1), swapped(b"cafe", b"caf\xe9"), b"line 6\n"
OUTSIDE: list[tuple[str, bytes, str, str, Callable[[bytes], bytes], bool | bytes]] = [
    ("above", NINE, "5", "NEW\n", swapped(b"line 1\n", b"0\nline 1\n"), True),
    ("below", NINE, "5", "NEW\n", below(b"more\n"), True),
    ("next to it", NINE, "5", "NEW\n", swapped(b"line 4\n", b"LINE 4\n"), True),
    ("the line itself", NINE, "5", "NEW\n", swapped(b"NEW", b"NEWER"), False),
    ("the line is gone", NINE, "5", "NEW\n", swapped(b"NEW\n", b""), False),
    ("a neighbour of what was deleted", NINE, "5", "", swapped(b"line 6", b"LINE 6"), False),
    ("a line above the first, deleted", NINE, "1", "", above(b"new\n"), False),
    ("a line below the last, deleted", NINE, "9", "", below(b"new\n"), False),
    ("empty, another encoding", numbered(2), "~", "", lambda data: codecs.BOM_UTF16_LE, False),
    ("an encoding that is not known", "é\ncafe\n".encode(), "1", "e\n", CAFE, False),
    ("an encoding that is not known, plain text", b"e\ncafe\n", "1", "x\n", CAFE, True),
    ("a line in its place", NINE, "5", "", swapped(LINE_6, b"new\n" + LINE_6), False),
    ("all line endings", NINE, "5", "NEW\n", CRLF, True),
    ("all line endings, deleted", NINE, "5~6", "", CRLF, True),
    ("the last line ending", NINE, "9", "", lambda data: data[:-1], NINE),
    ("a twin above", STANZAS, "7", "Y = 3\n", above(b"[z]\nx = 1\ny = 2\n\n"), True),
    ("a mark at the start", NINE, "5", "NEW\n", above(codecs.BOM_UTF8), True),
    ("another encoding", NINE, "5", "NEW\n", lambda data: data.decode().encode("utf-16"), False),
    ("binary", NINE, "5", "NEW\n", below(b"\0"), False),
]
"""A text, an edit of some lines, what another program did, whether that stays, alone, or what does.

False: it must be refused.
"""


@pytest.mark.slow
def test_another_program_wrote_meanwhile(room: Room) -> None:
    for name, start, lines, content, change, result in OUTSIDE:
        room.write(start, f"{name}.txt")
        edit = room.edit(lines, content, f"{name}.txt")
        room.write(change(room.read(f"{name}.txt")), f"{name}.txt")
        if result is False:
            room.refused(edit)
            continue
        report = room.undo(edit)
        assert report["status"] == "ok", (name, report)
        expected = change(start) if result is True else result
        assert room.read(f"{name}.txt") == expected, name
        changed = report.get("file_changed_since_preview", False)
        assert changed == (report["context_match"] == "fuzz"), name


TWINS = "".join(
    f"def f{i}():\n    try:\n        run()\n    except E:\n        pass\n\n" for i in range(6)
)


@pytest.mark.parametrize("seed", range(30))
def test_among_twins_it_is_the_right_place_or_none(room: Room, seed: int) -> None:
    """Whole functions are deleted, moved, copied; each line is known by what it was made of."""
    rng = random.Random(seed)
    start = TWINS.split("\n")[:-1]
    room.write(TWINS.encode())
    at = rng.choice([i for i, line in enumerate(start) if line.strip() in ("run()", "pass", "")])
    content = rng.choice(("", "        changed()\n", f"{start[at]}\n        more()\n"))
    edit = room.edit(at + 1, content)
    after = room.read().decode().split("\n")[:-1]
    grown = len(after) - len(start)
    known = list(range(len(after)))
    for _ in range(rng.randint(1, 2)):
        one = 6 * rng.randrange(len(known) // 6)
        part = known[one : one + 6]
        rest = known[:one] + known[one + 6 :]
        kind = rng.choice(("delete", "copy", "insert"))
        if kind == "copy":
            to = 6 * rng.randrange(len(rest) // 6 + 1)
            known = [*known[:to], *(-1 - i if i >= 0 else i for i in part), *known[to:]]
        elif kind == "delete":
            known = rest
        else:
            known = [*known[:one], -1 - rng.choice(part), *known[one:]]
    now = [after[i] if i >= 0 else after[-1 - i] for i in known]
    room.write("".join(f"{line}\n" for line in now).encode())
    report = room.undo(edit)
    if report["status"] == "error":
        return
    new = max(grown + 1, 0)
    mine = list(range(at, at + new))
    if mine:
        places = [i for i in range(len(known)) if known[i : i + new] == mine]
        assert places, "its own lines are gone"
        now[places[0] : places[0] + new] = [start[at]]
    else:
        ends = [-99, *known, len(after)]
        pair = [at - 1 if at else -99, at]
        places = [i for i in range(len(known) + 1) if ends[i : i + 2] == pair]
        assert places, "its neighbours were parted"
        now.insert(places[0], start[at])
    assert room.read().decode() == "".join(f"{line}\n" for line in now)


# Spans followed through changes that were taken back


WAYS: dict[str, tuple[str, str, dict[int, int], tuple[int, int], int | Met]] = {
    "nothing": ("abc", "", {}, (0, 3), 0),
    "before": ("abc", "0:0=xx", {}, (0, 3), 2),
    "in between": ("abc", "1:1=x", {}, (0, 3), Met(0, 1, 0)),
    "in between, and gone": ("abc", "1:1=x 1:2=", {}, (0, 3), 0),
    "replaced": ("abc", "1:2=x 1:2=b", {}, (0, 3), Met(1, 1, 0)),
    "taken back": ("abc", "1:2=x 1:2=b", {0: 1}, (0, 3), 0),
    "taken back in parts": ("abc", "0:3=b 0:0=a,1:1=c", {0: 1}, (0, 3), 0),
    "not all taken back": ("abc", "0:3=b 0:0=a", {0: 1}, (0, 3), Met(3, 1, 0)),
    "replaced meanwhile": ("abc", "1:2=x 1:2=y 1:2=b", {0: 2}, (0, 3), Met(1, 1, 1)),
    "later meanwhile": ("abc", "1:2=x 0:0=0 2:3=yy 2:4=b", {0: 3}, (1, 2), Met(1, 2, 2)),
    "and that taken back": ("abc", "1:2=x 1:2=y 1:2=x 1:2=b", {0: 3, 1: 2}, (0, 3), 0),
    "deleted, the second byte after it replaced": ("abcd", "1:2= 2:3=x 1:1=b", {0: 2}, (1, 2), 1),
    "deleted, the second byte before it replaced": ("abcd", "2:3= 0:1=x 2:2=c", {0: 2}, (2, 3), 2),
    "deleted, moved, back": ("abc", "1:2= 0:0=xx 3:3=b", {0: 2}, (1, 2), 3),
    "deleted, put between, back": ("abc", "1:2= 1:1=x 1:1=b", {0: 2}, (1, 2), Met(1, 0, 0)),
    "back with more than it replaced": ("abc", "1:2=x 1:3=b", {0: 1}, (1, 2), Met(1, 1, 0)),
    "back, and more put after it": ("b", "0:1=rq 0:2=b 1:1=r", {0: 1}, (-1, 1), -1),
    "back where another one begins": (
        *("bcbb", "1:3=r,4:4=r 2:3= 0:1=rp,3:3=pp 2:4=cb", {0: 3}, (1, 2), Met(2, 1, 0)),
    ),
    "at the start": ("abc", "0:0=x", {}, (-1, 1), Met(0, 1, 0)),
    "at the start, and gone": ("abc", "0:0=x 0:1=", {}, (-1, 1), -1),
    "at the end": ("abc", "3:3=x", {}, (2, 4), Met(0, 1, 0)),
    "all gone and back": ("abc", "0:3= 0:0=abc", {0: 1}, (-1, 4), -1),
}
"""A text, its changes in order, which of them took which back, a span, and its start or end."""


def edit_of(written: str) -> Edit:
    span, new = written.split("=")
    start, stop = map(int, span.split(":"))
    return Edit(start, stop, new.encode())


def followed(name: str) -> Followed | Met:
    start, steps, taken_back, span, _ = WAYS[name]
    text, inverses = start.encode(), list[ChangeSet]()
    for step in steps.split():
        change = ChangeSet.of(len(text), [edit_of(each) for each in step.split(",")])
        inverses.append(change.invert(text))
        text = change.apply(text)
    return follow(*span, inverses, taken_back)


def test_a_way_through_changes() -> None:
    for name, (*_, expected) in WAYS.items():
        found = Followed(expected) if isinstance(expected, int) else expected
        assert followed(name) == found, name


def test_changes_within_others_are_followed_so_deep(monkeypatch: pytest.MonkeyPatch) -> None:
    for deepest, expected in ((1, Met(1, 1, 1)), (2, Followed(0))):
        monkeypatch.setattr(change_module, "_DEEPEST", deepest)
        assert followed("and that taken back") == expected


def test_where_bytes_that_were_changed_are_looked_for() -> None:
    """Those that an edit only touches are not met by it."""
    inverse = ChangeSet.of(3, [Edit(1, 2, b"xyz")]).invert(b"abc")
    spans = {(0, 1): (0, 1), (1, 2): (1, 4), (2, 3): (4, 5), (0, 3): (0, 5)}
    assert {span: smallest_span(*span, [inverse]) for span in spans} == spans


@pytest.mark.slow
@given(st.data())
def test_what_is_followed_are_the_same_bytes(data: st.DataObject) -> None:
    """Each byte is known by its number, and a change that is taken back gives the numbers back."""
    lines = st.sampled_from([b"x\n", b"\n", b"y\n"])
    text = data.draw(st.lists(lines, max_size=8).map(b"".join))
    size = len(text)
    numbers: list[int | None] = [*range(size)]
    inverses: list[ChangeSet] = []
    changed: list[ChangeSet] = []
    lost: list[list[list[int | None]]] = []
    stands: list[int] = []
    taken_back: dict[int, int] = {}
    for step in range(data.draw(st.integers(0, 7))):
        back = data.draw(st.sampled_from([None, *stands]))
        if back is None:
            change: ChangeSet | Collision = data.draw(changes(text, most=2))
        else:
            change = inverses[back]
            for later in changed[back + 1 :]:
                change = change.rebase(later) if isinstance(change, ChangeSet) else change
        if isinstance(change, Collision):
            break
        if back is not None and len(change.edits) != len(lost[back]):
            break  # two of its edits touch now and are one: whose bytes come back is not told apart
        if back is not None:
            stands.remove(back)
            taken_back[back] = step
        new, at = list[int | None](), 0
        lost.append([numbers[edit.start : edit.stop] for edit in change.edits])
        for index, edit in enumerate(change.edits):
            came = [None] * len(edit.new) if back is None else lost[back][index]
            new += [*numbers[at : edit.start], *came]
            at = edit.stop
        numbers = new + numbers[at:]
        inverses.append(change.invert(text))
        changed.append(change)
        stands.append(step)
        text = change.apply(text)
    start = data.draw(st.integers(-1, size))
    stop = data.draw(st.integers(start + 1, size + 1))
    found = follow(start, stop, inverses, taken_back)
    ours = [-1, *range(size), size][start + 1 : stop + 1]
    theirs = [-1, *numbers, size]
    first = theirs.index(ours[0]) if ours[0] in theirs else len(theirs)
    if theirs[first : first + len(ours)] != ours:
        assert not isinstance(found, Followed)
    elif isinstance(found, Followed) or not taken_back:
        assert found == Followed(first - 1)


@each_row("text", [b"", b"t", b"t\n", b"t\ntt\nt", b"tt\n\nt\n"])
def test_lines_that_are_followed_are_the_same_lines(text: bytes) -> None:
    """Through every change of one place: none joined to others, no end of the text within it."""
    base, followed = Snapshot.of(text), 0
    feet = [(a, b) for b in range(base.line_count + 2) for a in range(-1, b)]
    for start, stop, new in product(range(len(text) + 1), (0, 1), (b"", b"t", b"\n", b"t\n")):
        edit = Edit(start, min(start + stop, len(text)), new)
        change = ChangeSet.of(len(text), [edit] if edit.new or edit.start < edit.stop else [])
        now = Snapshot.of(change.apply(text))
        drift = Drift(base, now, (change.invert(text),), {})
        for low, high in feet:
            try:
                by = drift.shift((low, high))
            except ContentChanged:
                continue
            followed += 1
            lines = range(max(low, 0), min(high, base.line_count))
            assert [now.key(k + by) for k in lines] == [base.key(k) for k in lines]
            assert low >= 0 or by == 0
            assert high <= base.line_count or high + by == now.line_count + 1
    assert followed > 2 * len(feet)


@each_row("text", [b"t", b"t\n", b"t\ntt\nt", b"tt\n\nt\n", b"\xef\xbb\xbft\nt\n"])
def test_a_plan_without_its_base_is_placed_on_the_same_lines(text: bytes) -> None:
    """Where only the changes since are known, as of a large file: whole lines, not bytes in them."""
    base, placed = Snapshot.of(text), 0
    mark = len(base.encoding.bom)
    plans: list[Plan] = []
    for low, high in combinations(range(base.line_count + 1), 2):
        request = RangeEdit(RelPath.parse("a.txt"), f"{low + 1}~{high}", "new\n")
        place, span = Place(low, high, (low, high)), span_of(base, low, high)
        names = ("1", "me", "ws_mod", "tool")
        facts = (base.digest, "0" * 64, 1, 2, span)
        plans.append(Plan(*names, request, place, "replace", *facts))
    for start, stop, new in product(
        range(mark, len(text) + 1), (0, 1), (b"", b"t", b"\n", b"t\n", b"\nt")
    ):
        edit = Edit(start, min(start + stop, len(text)), new)
        change = ChangeSet.of(len(text), [edit])
        now = Snapshot.of(change.apply(text))
        for plan in plans:
            low, high = plan.place.start, plan.place.stop
            try:
                _, found = place_of(plan, now, known=(change.invert(text),))
            except ContentChanged:
                is_above = edit.start == edit.stop <= base.start(low)
                assert not (is_above and new.endswith(b"\n")), "lines put above are in no way"
                continue
            placed += 1
            assert now.texts(found.start, found.stop) == base.texts(low, high)
    assert placed > 5 * len(plans)


@given(st.data())
def test_carrying_is_rebasing_where_nothing_meets(data: st.DataObject) -> None:
    """Whole lines, the last one ended: what is carried is what rebasing gives."""
    line = st.sampled_from(["x", "", "y", "z"])
    texts = [data.draw(st.lists(line, min_size=1, max_size=8))]
    steps: list[ChangeSet] = []
    for _ in range(data.draw(st.integers(1, 4))):
        old = texts[-1]
        first = data.draw(st.integers(0, len(old)))
        last = data.draw(st.integers(first, len(old)))
        new = data.draw(st.lists(line, max_size=3))
        texts.append([*old[:first], *new, *old[last:]])
        steps.append(of_lines(old, first, last, new))
    datas = [joined(text) for text in texts]
    inverses = [step.invert(text) for step, text in zip(steps, datas, strict=False)]
    inverse = rebased = inverses[0]
    for step in steps[1:]:
        moved = rebased.rebase(step)
        if isinstance(moved, Collision):
            return
        rebased = moved
    after, now = Snapshot.of(datas[1]), Snapshot.of(datas[-1])
    assert carried(inverse, drift_of(inverse, after, after, (), {})) == inverse
    try:
        change = carried(inverse, drift_of(inverse, after, now, inverses[1:], {}))
    except (ContentChanged, AmbiguousMatch):
        return
    assert change.apply(now.data) == rebased.apply(now.data)


def joined(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def of_lines(old: list[str], first: int, last: int, new: list[str]) -> ChangeSet:
    """The change that puts some lines in the place of others."""
    start, stop = len(joined(old[:first])), len(joined(old[:last]))
    return ChangeSet.of(len(joined(old)), [Edit(start, stop, joined(new))])


# Where files are made and removed


def test_a_new_file_is_removed_and_made_again(room: Room) -> None:
    made = room.call("create_new_file", path="d/e/new.txt", content="one\ntwo")["edit_id"]
    report = room.undo(made)
    assert (report["action"], report["lines"]) == ("remove", {"old": 2, "new": 0, "delta": -2})
    assert not (room.root / "d/e/new.txt").exists()
    assert not (room.root / "d").exists(), "a directory stays unless that edit has made it"
    assert room.call("list_edits")["edits"][0]["kind"] == "remove"
    again = room.undo(report["edit_id"])
    assert (again["action"], room.read("d/e/new.txt")) == ("create", b"one\ntwo\n")
    edit = room.edit(1, "ONE\n", "d/e/new.txt")
    assert room.refused(made)["later_edit_ids"] == [edit]
    room.done(edit)
    room.done(made)
    assert not (room.root / "d/e/new.txt").exists()


def test_a_file_made_by_an_append_or_by_write(room: Room) -> None:
    appended = room.call("prepare_file_append", path="n.txt", content="x", apply="auto")
    written = room.call("Write", path="w.txt", content="\ufeffa\r\nb")
    empty = room.call("create_new_file", path="e.txt")
    for name, report in (("n.txt", appended), ("w.txt", written), ("e.txt", empty)):
        data = room.read(name)
        back = room.done(report["edit_id"])
        assert not (room.root / name).exists()
        room.done(back)
        assert room.read(name) == data
        room.done(report["edit_id"])


def test_a_created_file_that_another_program_changed_stays(room: Room) -> None:
    made = room.call("create_new_file", path="a.txt", content="x\n")["edit_id"]
    room.write(b"x\ny\n")
    report = room.refused(made)
    assert (report["error"], room.read()) == ("CONTENT_CHANGED", b"x\ny\n")
    room.write(b"x\n")
    back = room.done(made)
    room.write(b"another\n")
    report = room.undo(back)
    assert (report["error"], report["path"]) == ("FILE_EXISTS", "a.txt")
    assert room.read() == b"another\n"
    (room.root / "a.txt").unlink()
    room.done(back)
    assert room.read() == b"x\n"


def test_a_file_that_is_gone(room: Room) -> None:
    room.write(numbered(3))
    edit = room.edit(2, "new\n")
    (room.root / "a.txt").rename(room.root / "a1.txt")
    report = room.refused(edit)
    assert (report["error"], report["path"]) == ("FILE_NOT_FOUND", "a.txt")
    assert report["similar"] == ["a1.txt"]
    (room.root / "a.txt").mkdir()
    assert room.refused(edit)["error"] == "NOT_A_FILE"


# Files with links, modes, and who may


def test_links_and_modes_stay(room: Room) -> None:
    room.write(numbered(4))
    (room.root / "a.txt").chmod(0o750)
    (room.root / "link.txt").symlink_to("a.txt")
    os.link(room.root / "a.txt", room.root / "hard.txt")
    inode = (room.root / "a.txt").stat().st_ino
    edit = room.edit(2, "new\n", "link.txt")
    report = room.undo(edit)
    assert report["path"] == "a.txt"
    assert room.read() == room.read("hard.txt") == numbered(4)
    found = (room.root / "a.txt").stat()
    assert (found.st_ino, stat.S_IMODE(found.st_mode), found.st_nlink) == (inode, 0o750, 2)
    assert (room.root / "link.txt").is_symlink()
    os.unlink(room.root / "hard.txt")
    edit = room.edit(2, "new\n", "link.txt")
    room.done(edit)
    assert stat.S_IMODE((room.root / "a.txt").stat().st_mode) == 0o750


def test_a_file_that_became_a_link_is_not_removed(room: Room) -> None:
    made = room.call("create_new_file", path="a.txt", content="x\n")["edit_id"]
    (room.root / "a.txt").rename(room.root / "b.txt")
    (room.root / "a.txt").symlink_to("b.txt")
    assert room.refused(made)["error"] == "CONTENT_CHANGED"
    assert room.read("b.txt") == b"x\n"


def test_who_may_write_now_may_undo(tmp_path: Path) -> None:
    members = {
        "local": MemberConfig(team_mgmt=True),
        "reader": MemberConfig(lists={"write_dirs": ("other",)}, team_mgmt=True),
        "stranger": MemberConfig(lists={"no_read_dirs": ("docs",)}),
    }
    room = Room(tmp_path, config=Config(durability="fast", members=members))
    with room.opened:
        (tmp_path / "docs").mkdir()
        room.write(numbered(3), "docs/a.txt")
        edit = room.edit(2, "new\n", "docs/a.txt")
        team = room.call("team_mgmt_create_new_file", path="t.md", content="x\n")["edit_id"]
        for member in ("reader", "stranger"):
            for one in (edit, team):
                asked = {"edit_id": one}
                report = room.opened.call(member, "undo_file_modification", asked)
                assert report.fields["error"] == "ACCESS_DENIED"
                assert "docs/a.txt" not in report.text
        assert room.undo(team)["error"] == "ACCESS_DENIED"
        other = room.call("team_mgmt_undo_file_modification", edit_id=edit)
        assert other["error"] == "ACCESS_DENIED"
        assert room.read("docs/a.txt") != numbered(3)
        assert room.call("team_mgmt_undo_file_modification", edit_id=team)["action"] == "remove"
        room.done(edit)


def test_who_may_not_read_is_shown_nothing_of_a_file_that_is_made_again(tmp_path: Path) -> None:
    members = {"blind": MemberConfig(lists={"no_read_dirs": ("docs",)}), **FAST.members}
    room = Room(tmp_path, config=Config(durability="fast", members=members))
    with room.opened:
        made = room.call("create_new_file", path="docs/a.txt", content="secret\n")["edit_id"]
        back = room.done(made)
        report = room.opened.call("blind", "undo_file_modification", {"edit_id": back})
        assert report.fields["error"] == "ACCESS_DENIED"
        assert "secret" not in report.text
        assert not (tmp_path / "docs/a.txt").exists()


# Restarts, and large files


def test_after_a_restart(tmp_path: Path) -> None:
    room = Room(tmp_path, shared=True)
    with room.opened:
        room.write(numbered(9))
        first, second = room.edit(2, "new\n"), room.edit(7, "newer\n")
    for start in (b"", b"0\n"):
        again = Room(tmp_path, shared=True)
        with again.opened:
            again.write(start + again.read())
            again.done(second if start else first)
    assert (tmp_path / "a.txt").read_bytes() == b"0\n" + numbered(9)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch, room: Room) -> Room:
    """A room in which files are large above 1 KiB, and nothing compares them."""
    for name, size in {"LARGE": 1, "COMPARED": 1, "BLOCK": 1 / 4, "WINDOW": 4}.items():
        monkeypatch.setattr(sizes, name, int(size * 1024))
    return room


def test_a_large_file_is_taken_back_in_parts(large: Room) -> None:
    room, start = large, numbered(5000)
    room.write(start)
    first = room.edit("2000~2001", "NEW\n")
    others = [room.edit(100, ""), room.edit(4000, "x\nline 4001\n"), room.edit(1, "LINE 1\n")]
    last = room.call("prepare_file_append", path="a.txt", content="end", apply="auto")["edit_id"]
    outcome = room.opened.desk.undo(room.opened.member("local"), "undo", first)
    assert isinstance(outcome, Undone)
    assert isinstance(outcome.base, Excerpt)
    assert sum(each.lines.size for each in outcome.base.stretches) < 2_000
    assert outcome.after.digest == hashlib.sha256(room.read()).hexdigest()
    assert b"line 1999\nline 2000\nline 2001\nline 2002\n" in room.read()
    for edit_id in (others[1], last, others[0], others[2]):
        room.done(edit_id)
    assert room.read() == start
    edit = room.edit(2000, "NEW\n")
    room.write(room.read() + b"more\n")
    report = room.refused(edit)
    assert (report["error"], "later_edit_ids" in report) == ("CONTENT_CHANGED", False)


@pytest.mark.slow
def test_a_large_file_of_wide_characters(large: Room) -> None:
    for encoding in ("utf-16-le", "utf-16-be", "utf-32-be"):
        mark = "\ufeff".encode(encoding)
        start = mark + "".join(f"\u0a0a\u010a {i}\n" for i in range(2000)).encode(encoding)
        large.write(start)
        edits = [large.edit(1500, "\u0a0a\n\n"), large.edit(100, ""), large.edit(1990, "x\n")]
        for edit_id in edits:
            large.done(edit_id)
        assert large.read() == start, encoding


def test_a_file_that_grew_too_large_to_be_compared(large: Room) -> None:
    large.write(numbered(20))
    edit = large.edit(3, "new\n")
    large.write(large.read() + b"more\n" * 500)
    assert large.refused(edit)["reason"].endswith("is not kept")


@pytest.mark.slow
@pytest.mark.parametrize("seed", first(*range(3)))
def test_a_large_file_in_any_order(room: Room, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    for name in ("LARGE", "COMPARED", "BLOCK"):
        monkeypatch.setattr(sizes, name, 16)
    test_edits_and_undos_in_any_order(room, seed)


# Killed in the middle of an undo

CHILD = """
import os, signal, sys
from contextlib import contextmanager
from copydesk.app.workspace import open_workspace
root, where, step, edit_id = sys.argv[1:]
def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
opened = open_workspace(root)
if where == "before the journal":
    opened.journal.open_all = die
else:
    real = getattr(opened.files, step)
    @contextmanager
    def stage(*args, **named):
        if where == "after the write":
            with real(*args, **named) as staged:
                yield staged
        die()
    setattr(opened.files, step, stage)
opened.call("local", "undo_file_modification", {"edit_id": int(edit_id)})
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "where"),
    spread(
        ("stage", "stage_removal", "stage_new"),
        ("before the journal", "before the write", "after the write"),
        of=2,
    ),
)
def test_killed(tmp_path: Path, step: str, where: str) -> None:
    """The next start knows whether the edit was taken back, and it is taken back once."""
    path = tmp_path / "a.txt"
    room = Room(tmp_path, shared=True)
    with room.opened:
        if step == "stage":
            room.write(numbered(3))
            edit = room.edit(2, "new\n")
        else:
            edit = int(room.call("create_new_file", path="a.txt", content="x\n")["edit_id"])
        if step == "stage_new":
            edit = room.done(edit)
    before = path.read_bytes() if path.exists() else None
    child = [sys.executable, "-c", CHILD, str(tmp_path), where, step, str(edit)]
    assert subprocess.run(child, check=False).returncode == -signal.SIGKILL
    after = {"stage": numbered(3), "stage_removal": None, "stage_new": b"x\n"}[step]
    written = where == "after the write"
    assert (path.read_bytes() if path.exists() else None) == (after if written else before)
    again = Room(tmp_path, shared=True)
    with again.opened:
        assert not again.opened.journal.in_doubt()
        newest, *_ = again.call("list_edits")["edits"]
        if where != "before the journal":
            assert (newest["undoes"], newest["state"]) == (edit, "done" if written else "failed")
        if written:
            assert again.refused(edit)["undone_by"] == newest["edit_id"]
        else:
            again.done(edit)
        assert (path.read_bytes() if path.exists() else None) == after


def test_of_many_at_once_one_takes_it_back(room: Room) -> None:
    room.write(numbered(40))
    edit = room.edit(20, "new\n")
    others = [f"line {i}" for i in (3, 9, 30, 38)]
    barrier = threading.Barrier(8)

    def work(index: int) -> str:
        barrier.wait()
        if index % 2:
            return str(room.undo(edit)["status"])
        old = others[index // 2]
        changed = {"old_string": f"{old}\n", "new_string": f"{old}!\n"}
        return str(room.call("Edit", path="a.txt", **changed)["status"])

    with ThreadPoolExecutor(8) as pool:
        done = [*pool.map(work, range(8))]
    assert sorted(done[1::2]) == ["error", "error", "error", "ok"]
    assert done[::2] == ["success"] * 4
    expected = numbered(40).decode()
    for old in others:
        expected = expected.replace(f"{old}\n", f"{old}!\n")
    assert room.read().decode() == expected


# The end of the file


def test_a_line_ending_that_came_with_an_append_stays_while_lines_follow(room: Room) -> None:
    """The file had no newline at its end; that comes back when nothing follows any more."""

    def append(content: str) -> int:
        given = {"path": "a.txt", "content": content, "apply": "auto"}
        return int(room.call("prepare_file_append", **given)["edit_id"])

    room.write(b"one\ntwo")
    first, second = append("a"), append("b")
    room.edit(1, "ONE\n")
    room.done(first)
    assert room.read() == b"ONE\ntwo\nb\n"
    room.done(second)
    assert room.read() == b"ONE\ntwo\n"
    room.write(b"one\ntwo")
    first = append("a")
    room.edit(1, "ONE\n")
    room.done(first)
    assert room.read() == b"ONE\ntwo"


def test_a_mark_that_the_edit_wrote_goes_with_it(room: Room) -> None:
    room.write(b"")
    content, digest = "\ufeffone\ntwo\n", hashlib.sha256(b"").hexdigest()
    arguments = {"content": content, "overwrite": True, "expected_sha256": digest}
    written = room.call("Write", path="a.txt", **arguments)["edit_id"]
    assert room.read() == content.encode()
    room.write(room.read() + b"three\n")
    back = room.done(written)
    assert room.read() == b"three\n"
    room.done(back)
    assert room.read() == content.encode() + b"three\n"


def test_an_overwrite_gives_back_the_lines_that_it_changed(room: Room) -> None:
    """Of a whole file that was replaced, lines that stayed the same may change later."""
    room.write(numbered(9))
    text = numbered(9).decode().replace("line 4", "LINE 4").replace("line 8\n", "")
    size = {"known_old_total_lines": 9, "known_old_total_bytes": len(numbered(9))}
    overwrite = room.call("overwrite_entire_file", path="a.txt", content=text, **size)["edit_id"]
    room.edit(2, "LATER\n")
    report = room.undo(overwrite)
    regions = [(each["start_line"], each["end_line"]) for each in report["regions"]]
    assert regions == [(4, 4), (8, 8)]
    assert room.read() == numbered(9).replace(b"line 2", b"LATER")
    room.done(report["edit_id"])
    room.edit(7, "LINE 7\n")
    assert room.refused(overwrite)["planned_lines"] == "7~8"
