"""What a member may approve itself: a limit of a transaction, and of what it wrote in a minute."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

from copydesk.app.config import Config, MemberConfig
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.desk.review import Seen
from copydesk.errors import AccessDenied

TEXT = "".join(f"line {number}\n" for number in range(1, 31))
MEMBERS = {
    "lines": MemberConfig(self_lines=2),
    "files": MemberConfig(self_files=1),
    "many": MemberConfig(self_lines=55),
    "other": MemberConfig(self_lines=2),
    "eve": MemberConfig(),
}
START_MS, MINUTE_MS = 1_700_000_000_000, 60_000


class Desk:
    """A workspace whose clock stands still until it is put on."""

    def __init__(self, root: Path, config: Config, *, shared: bool) -> None:
        self.now_ms = START_MS
        self.opened: OpenWorkspace = open_workspace(
            str(root), config, shared=shared, clock=lambda: self.now_ms
        )

    def call(self, by: str, tool: str, **arguments: object) -> dict[str, object]:
        return dict(self.opened.call(by, tool, arguments).fields)

    def plan(self, by: str, path: str, line: int, content: str = "x") -> str:
        told = self.call(by, "prepare_file_range_edit", path=path, range=str(line), content=content)
        return str(told["hunk_id"])

    def why(self, by: str, *edits: tuple[Any, ...]) -> object:
        """Why a person has to approve these edits, written together; None if they are written."""
        hunks = [self.plan(by, *edit) for edit in edits]
        if len(hunks) == 1:
            return self.call(by, "apply_file_modification", hunk_id=hunks[0]).get("why")
        return self.call(by, "apply_file_modifications", hunk_ids=hunks).get("why")

    def edit(self, by: str, line: int) -> object:
        """How a tool that writes at once refuses; None if it does not."""
        told = {"path": "a.txt", "old_string": f"line {line}\n", "new_string": "x\n"}
        error = self.call(by, "Edit", **told).get("error")
        return cast("dict[str, object]", error)["code"] if error else None

    def approve(self, *hunks: str) -> None:
        for hunk in hunks:
            shown = self.opened.desk.review.show(self.opened.member("eve"), hunk)
            bytes_ = shown.before, shown.after
            self.opened.desk.review.approve(self.opened.member("eve"), hunk, *bytes_)


@pytest.fixture(params=["sqlite", "memory", "redis"])
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text(TEXT)
    config = Config(members=MEMBERS, durability="fast", source="copydesk.toml")
    if request.param == "redis":
        server = request.getfixturevalue("redis_server")
        known = {"redis_url": server.url, "registry_name": server.fresh_name()}
        config = Config(members=MEMBERS, durability="fast", registry="redis", **known)
    made = Desk(tmp_path, config, shared=request.param != "memory")
    with made.opened:
        yield made


A, B, REFUSED = "a.txt", "b.txt", "APPROVAL_REQUIRED"


def in_one_transaction(desk: Desk) -> None:
    assert desk.why("lines", (A, 3), (A, 5), (A, 7)) == "lines"
    assert desk.why("lines", (A, 3, "x\ny"), (B, 5)) == "lines"
    assert desk.why("lines", (A, 3), (B, 7)) is None


def one_after_another(desk: Desk) -> None:
    assert [desk.why("lines", (A, line)) for line in (3, 5, 7)] == [None, None, "lines"]
    desk.now_ms += MINUTE_MS - 1
    assert desk.why("lines", (A, 9)) == "lines"
    desk.now_ms += 1
    assert [desk.why("lines", (A, line)) for line in (9, 11, 13)] == [None, None, "lines"]


def written_at_once(desk: Desk) -> None:
    assert [desk.edit("lines", line) for line in (3, 5, 7)] == [None, None, REFUSED]
    assert desk.why("lines", (B, 3)) == "lines"


def by_another(desk: Desk) -> None:
    assert desk.why("other", (A, 3), (A, 5)) is None
    assert desk.why("lines", (A, 7), (A, 9)) is None
    assert desk.why("other", (A, 11)) == "lines"


def files(desk: Desk) -> None:
    assert desk.why("files", (A, 3), (A, 5)) is None
    assert desk.why("files", (B, 3)) == "files"
    assert desk.why("files", (A, 7)) is None
    desk.now_ms += MINUTE_MS
    assert desk.why("files", (B, 3)) is None
    assert desk.why("files", (B, 5), ("c.txt", 5)) == "files"


def more_than_a_page(desk: Desk) -> None:
    for index in range(5):
        assert desk.why("many", *((A, line, f"x{index}") for line in range(1, 12))) is None
    assert desk.why("many", (B, 1)) == "lines"


def approved(desk: Desk) -> None:
    hunks = [desk.plan("lines", A, line) for line in (3, 5, 7)]
    desk.approve(*hunks)
    told = desk.call("lines", "apply_file_modifications", hunk_ids=hunks)
    assert told["status"] == "ok"
    assert desk.why("lines", (A, 9), (A, 11)) is None
    assert desk.why("lines", (A, 13)) == "lines"
    hunk = desk.plan("lines", A, 13)
    desk.approve(hunk)
    assert desk.call("lines", "apply_file_modification", hunk_id=hunk)["status"] == "ok"


def undone(desk: Desk) -> None:
    desk.edit("lines", 3)
    desk.edit("lines", 5)
    newest = desk.opened.journal.entries(most=1)[0].edit_id
    assert desk.call("lines", "undo_file_modification", edit_id=newest)["status"] == "ok"
    again = newest + 1
    assert desk.call("lines", "undo_file_modification", edit_id=again)["status"] == "ok"
    assert desk.edit("lines", 7) == REFUSED, "what was made again counts"


STORIES: list[Callable[[Desk], None]] = [
    *(in_one_transaction, one_after_another, written_at_once, by_another, files),
    *(approved, undone),
]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_an_edit_in_parts_is_one(desk: Desk, story: Callable[[Desk], None]) -> None:
    story(desk)
    assert desk.why("eve", *(("c.txt", line) for line in range(1, 9))) is None, "without limits"


@pytest.mark.slow
def test_all_that_was_written_within_the_minute_counts(desk: Desk) -> None:
    more_than_a_page(desk)
    assert len(desk.opened.journal.entries(most=100)) == 55


def test_nobody_approves_an_edit_of_its_own_part_by_part(desk: Desk) -> None:
    hunks = [desk.plan("lines", A, line) for line in (3, 5, 7)]
    others = [desk.plan("eve", B, line) for line in (3, 5, 7)]
    review, reviewer = desk.opened.desk.review, desk.opened.member("lines")
    shown = {hunk: review.show(reviewer, hunk) for hunk in (*hunks, *others)}
    seen = [Seen(hunk, shown[hunk].before, shown[hunk].after) for hunk in others]
    with pytest.raises(AccessDenied):
        review.approve(reviewer, hunks[0], shown[hunks[0]].before, shown[hunks[0]].after)
    with pytest.raises(AccessDenied):
        review.apply(reviewer, seen)
    assert review.approve(reviewer, *seen[0]).verdict == "approved"


@pytest.mark.slow
def test_edits_at_the_same_moment_are_counted_one_after_another(desk: Desk, tmp_path: Path) -> None:
    names = [f"{number}.txt" for number in range(8)]
    for name in names:
        (tmp_path / name).write_text(TEXT)
    hunks = [[desk.plan("lines", name, 3)] for name in names[:6]]
    hunks.append([desk.plan("lines", name, 3) for name in names[6:]])
    begin = threading.Barrier(len(hunks))

    def apply(ids: list[str]) -> int:
        begin.wait()
        if len(ids) == 1:
            told = desk.call("lines", "apply_file_modification", hunk_id=ids[0])
        else:
            told = desk.call("lines", "apply_file_modifications", hunk_ids=ids)
        return len(ids) if told["status"] == "ok" else 0

    with ThreadPoolExecutor(len(hunks)) as pool:
        assert sum(pool.map(apply, hunks)) == 2
    changed = [name for name in names if (tmp_path / name).read_text() != TEXT]
    assert len(changed) == 2
