"""What a journal drops, and when: whatever the clock says; and that no edit id is given twice."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from copydesk.app.backends import in_process
from copydesk.app.config import Config
from copydesk.app.doctor import examine
from copydesk.app.workspace import open_workspace
from copydesk.desk.backends.api import DAY_MS, Day, Journal, days_left, due
from copydesk.desk.backends.database import Database
from copydesk.desk.backends.sqlite import FORGET_EVERY_MS, SqliteJournal, SqliteRegistry
from copydesk.desk.redis.journal import RedisJournal
from copydesk.desk.redis.stores import RedisRegistry
from copydesk.store.locks import FileLocks
from copydesk.store.state import EditIds, StateFile
from support.redis_calls import connections
from support.redis_servers import RedisServer
from test_journal import entry
from test_plan_registry import plan

DAYS = 90
TODAY = 20_000
NO_BOUND = 1 << 40


@pytest.fixture(params=["sqlite", "redis"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    """Journals that outlive a process."""
    made: Journal
    if request.param == "redis":
        made = RedisJournal(*connections(request)())
    else:
        made = SqliteJournal(Database(StateFile(str(tmp_path / "state.sqlite"))))
    yield made
    made.close()


def ids(journal: Journal) -> list[int]:
    return sorted(e.edit_id for e in journal.entries(most=10_000))


def edited(journal: Journal, day: int, times: int = 1) -> list[int]:
    made = [journal.open(entry(time=day * DAY_MS)) for _ in range(times)]
    journal.close_all(made, "done")
    return made


def started(journal: Journal, *days: int, most_bytes: int = NO_BOUND) -> int:
    """Starts on these days by the clock; how many entries were dropped."""
    return sum(journal.prune(day * DAY_MS, DAYS, most_bytes) for day in days)


# The clock


def test_one_start_with_a_clock_far_ahead_drops_nothing(journal: Journal) -> None:
    started(journal, TODAY - 3, TODAY - 2, TODAY - 1)
    made = edited(journal, TODAY, 20)
    assert started(journal, TODAY + 200) == 0
    assert started(journal, TODAY, TODAY + 1, TODAY + 2, TODAY + 3) == 0
    assert ids(journal) == made


@pytest.mark.parametrize("ahead", [91, 200, 40_000])
def test_a_clock_that_stays_ahead_for_two_days_drops_nothing(journal: Journal, ahead: int) -> None:
    made = edited(journal, TODAY, 20)
    started(journal, *range(TODAY, TODAY + 5))
    later = TODAY + ahead
    assert started(journal, later, later, later + 1, later + 1) == 0
    assert started(journal, *range(TODAY + 5, TODAY + 60)) == 0
    assert ids(journal) == made


def test_a_jump_that_stays_is_no_age(journal: Journal) -> None:
    """Nobody can tell a long pause from a wrong clock: it counts as an eighth at most."""
    made = edited(journal, TODAY, 20)
    started(journal, TODAY, TODAY + 1)
    assert started(journal, *range(TODAY + 400, TODAY + 450)) == 0
    assert ids(journal) == made
    assert started(journal, *range(TODAY + 450, TODAY + 500)) > 0


@pytest.mark.parametrize("behind", [0, 1, TODAY - 400])
def test_a_clock_behind_drops_nothing_then_or_later(journal: Journal, behind: int) -> None:
    started(journal, TODAY - 1)
    made = edited(journal, TODAY, 8) + edited(journal, behind, 8)
    assert started(journal, behind, behind + 1) == 0
    made += edited(journal, TODAY, 4)
    assert started(journal, *range(TODAY, TODAY + 80)) == 0
    assert ids(journal) == made


@pytest.mark.slow
def test_a_clock_that_jumps_to_and_fro_ages_nothing_faster(journal: Journal) -> None:
    """As of two machines that share a workspace, one of them wrong."""
    made = []
    for day in range(TODAY, TODAY + 80):
        made += edited(journal, day) + edited(journal, day + 200)
        assert started(journal, day, day + 200, day, day + 200) == 0
    assert ids(journal) == made


@pytest.mark.slow
def test_a_clock_that_goes_on_drops_what_is_old_a_share_at_a_time(journal: Journal) -> None:
    first = edited(journal, TODAY, 40)
    for day in range(TODAY + 1, TODAY + 160):
        there = len(ids(journal))
        assert started(journal, day) <= -(-there // 4)
        assert started(journal, day) == 0, "once a day"
        edited(journal, day)
        old = day - TODAY
        assert set(first) <= set(ids(journal)) or old >= DAYS
    left = ids(journal)
    assert not set(first) & set(left)
    assert DAYS <= len(left) <= DAYS + 5


def test_what_is_open_stays(journal: Journal) -> None:
    opened = journal.open(entry(time=TODAY * DAY_MS))
    edited(journal, TODAY, 5)
    started(journal, *range(TODAY, TODAY + 120))
    started(journal, TODAY + 121, most_bytes=0)
    assert ids(journal) == [opened]


def test_what_is_too_large_goes_a_share_at_a_time_the_oldest_first(journal: Journal) -> None:
    made = [journal.open(entry(size=50_000, time=TODAY * DAY_MS)) for _ in range(40)]
    journal.close_all(made, "done")
    assert started(journal, TODAY, most_bytes=5_000_000) == 0
    there = 40
    while gone := started(journal, TODAY, most_bytes=1_000_000):
        assert gone <= -(-there // 4)
        there -= gone
        assert ids(journal) == made[-there:]
    assert 12 <= there <= 20


def test_days_of_use_count_without_a_start(journal: Journal) -> None:
    """As of a server that runs on."""
    for day in range(TODAY, TODAY + DAYS + 5):
        edited(journal, day)
    assert started(journal, TODAY + DAYS + 5) > 0


def test_the_journal_of_a_process_alone_is_bounded_too() -> None:
    backend = in_process(Config(journal_bytes=1_000_000))
    for _ in range(60):
        made = backend.journal.open(entry(size=50_000, time=TODAY * DAY_MS))
        backend.journal.close_all([made], "done")
    assert 10 < len(ids(backend.journal)) < 25
    backend.close()


def test_a_server_that_runs_on_keeps_its_journal_within_the_size(tmp_path: Path) -> None:
    journal = SqliteJournal(Database(StateFile(str(tmp_path / "state.sqlite"))))
    started(journal, TODAY, most_bytes=1_000_000)
    for _ in range(80):
        edited(journal, TODAY)
        made = journal.open(entry(size=50_000, time=TODAY * DAY_MS))
        journal.close_all([made], "done")
    assert (tmp_path / "state.sqlite").stat().st_size < 1_300_000
    assert len(ids(journal)) > 20
    journal.close()


def test_due_by_the_days_of_use_alone() -> None:
    daily = [Day(day, day) for day in range(100)]
    assert due(daily, 90) == Day(7, 7)
    assert due(daily[:90], 90) is None
    assert due([], 90) is None
    assert due([*daily, Day(300, 99)], 90) is None
    assert [days_left(daily, 90, edit) for edit in (7, 8, 99)] == [0, 1, 92]
    assert [days_left(daily[:2], 90, edit) for edit in (0, 1, 2)] == [90, 91, 92]


def test_the_doctor_says_what_will_go_and_when(tmp_path: Path) -> None:
    (tmp_path / "copydesk.toml").write_text("journal_days = 5\njournal_bytes = 100_000\n")
    day = [TODAY]

    def found() -> str:
        return next(each.found for each in examine(str(tmp_path)) if each.what == "journal")

    for _ in range(9):
        with open_workspace(str(tmp_path), clock=lambda: day[0] * DAY_MS) as desk:
            if day == [TODAY]:
                for content in "abc":
                    arguments = {"path": f"{content}.txt", "content": content}
                    assert desk.call("me", "create_new_file", arguments).fields["edit_id"]
        if day == [TODAY]:
            assert found() == "edits recorded: 3; the oldest may be pruned after 7 more days of use"
        day[0] += 1
    assert found() == "edits recorded: 2; 2 will be pruned, at most 1 at each start"


# Plans


@pytest.mark.parametrize("where", ["sqlite", "redis"])
def test_a_plan_outlives_a_jump_of_the_clock(
    where: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if where == "redis":
        registry: SqliteRegistry | RedisRegistry = RedisRegistry(*connections(request)())
    else:
        registry = SqliteRegistry(Database(StateFile(str(tmp_path / "state.sqlite"))))
    now = TODAY * DAY_MS
    registry.add(plan("aaaaaaaa", now))
    registry.end("bbbbbbbb", "applied", now)
    for later in (200 * DAY_MS, 200 * DAY_MS + 2 * FORGET_EVERY_MS):
        ahead = plan(f"{later:08x}"[:8], now + later)
        registry.add(ahead)
        registry.end(ahead.id, "discarded", now + later)
    assert registry.get("aaaaaaaa", now).id == "aaaaaaaa"
    assert [each.id for each in registry.waiting(now)] == ["aaaaaaaa"]
    with pytest.raises(Exception, match="applied"):
        registry.get("bbbbbbbb", now)
    registry.close()


# Ids


class Room:
    """A workspace whose state folder is tampered with between two starts."""

    def __init__(self, root: Path, config: Config) -> None:
        self.root, self.config, self.given = root, config, list[int]()
        self.state = root / ".copydesk"

    def edit(self, times: int = 1) -> list[int]:
        """Some edits, each by a new start: their ids, which are above all that were given."""
        for _ in range(times):
            with open_workspace(str(self.root), self.config) as desk:
                arguments = {"path": "a.txt", "content": f"{len(self.given)}\n", "apply": "auto"}
                made = desk.call("me", "prepare_file_append", {**arguments, "create": True}).fields
            assert isinstance(made["edit_id"], int)
            assert made["edit_id"] > max(self.given, default=0)
            self.given.append(made["edit_id"])
        return self.given[-times:]

    def undo(self, edit_id: int) -> object:
        """The reason for which it was refused; None when it was taken back."""
        with open_workspace(str(self.root), self.config) as desk:
            answer = desk.call("me", "undo_file_modification", {"edit_id": edit_id}).fields
        return answer.get("reason") if answer.get("error") == "EDIT_NOT_FOUND" else None

    def check_refused(self, *edits: int, reason: str = "replaced") -> None:
        before = (self.root / "a.txt").read_bytes()
        assert [self.undo(edit) for edit in edits] == [reason] * len(edits)
        assert (self.root / "a.txt").read_bytes() == before


@pytest.fixture
def room(tmp_path: Path) -> Room:
    """A workspace with edits 1, 2, 3."""
    made = Room(tmp_path, Config(durability="fast"))
    assert made.edit(3) == [1, 2, 3]
    return made


def removed(room: Room) -> None:
    for path in room.state.glob("state.sqlite*"):
        path.unlink()


def cut(room: Room) -> None:
    (room.state / "state.sqlite").write_bytes(b"")


def moved_aside(room: Room) -> None:
    (room.state / "state.sqlite").rename(room.state / "state.sqlite.damaged")


@pytest.mark.slow
@pytest.mark.parametrize("lose", [removed, cut, moved_aside])
@pytest.mark.parametrize("first", ["undo", "edit"])
def test_ids_go_on_when_the_journal_was_lost(
    room: Room, lose: Callable[[Room], None], first: str
) -> None:
    lose(room)
    if first == "undo":
        room.check_refused(1, 2, 3)
    assert room.edit(2) == [4, 5]
    room.check_refused(1, 2, 3)
    room.check_refused(6, reason="unknown")
    assert room.undo(5) is None


def test_ids_go_on_after_a_backup_of_the_journal_was_put_back(room: Room) -> None:
    backup = room.root / "backup"
    shutil.copy(room.state / "state.sqlite", backup)
    room.edit(4)
    removed(room)
    shutil.copy(backup, room.state / "state.sqlite")
    room.check_refused(4, 7)
    assert room.edit(2) == [8, 9]
    room.check_refused(4, 5, 6, 7)
    assert room.undo(9) is None
    shutil.copy(backup, room.state / "state.sqlite")
    room.check_refused(8, 9, 10)
    assert room.edit() == [11]


def test_the_journal_of_another_workspace_gives_its_ids_to_nobody(
    room: Room, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = Room(tmp_path / "other", room.config)
    other.edit(5)
    removed(room)
    shutil.copy(other.state / "state.sqlite", room.state / "state.sqlite")
    room.check_refused(1, 2, 3)
    assert room.edit() == [11]
    room.check_refused(1, 5)


@pytest.mark.parametrize("content", [None, b"", b"no number\n", b"\xff" * 40, b"9" * 60])
def test_the_journal_alone_knows_the_ids_too(room: Room, content: bytes | None) -> None:
    path = room.state / "edit-ids"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert room.edit() == [4]
    assert room.undo(4) is None
    assert room.edit() == [6]


def test_the_journal_that_was_begun_anew_knows_the_ids_too(room: Room) -> None:
    removed(room)
    room.check_refused(1)
    (room.state / "edit-ids").unlink()
    assert room.edit() == [4]


def test_when_nobody_knows_which_were_given_new_ids_are_far_above(room: Room) -> None:
    removed(room)
    (room.state / "edit-ids").write_bytes(b"no number\n")
    (made,) = room.edit()
    assert 1 << 40 < made < 1 << 53
    room.check_refused(1, 3)
    assert room.edit() == [made + 1]


def test_a_link_in_place_of_the_file_is_not_followed(room: Room, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    (room.state / "edit-ids").unlink()
    (room.state / "edit-ids").symlink_to(victim)
    assert room.edit(2) == [4, 5]
    assert victim.read_bytes() == b"mine"


def test_an_empty_journal_gives_no_id_again(room: Room) -> None:
    with closing(sqlite3.connect(room.state / "state.sqlite")) as db:
        db.execute("DELETE FROM edits")
        db.execute("DELETE FROM sqlite_sequence")
        db.commit()
    assert room.edit() == [4]
    room.check_refused(1)


def test_ids_go_on_when_the_state_folder_goes_under_a_running_server(room: Room) -> None:
    arguments = {"path": "a.txt", "content": "x\n", "apply": "auto"}
    with open_workspace(str(room.root), room.config) as desk:
        desk.call("me", "prepare_file_append", arguments)
        while room.state.exists():  # texts are remembered in it beside the work
            shutil.rmtree(room.state, ignore_errors=True)
        assert desk.call("me", "prepare_file_append", arguments).fields["edit_id"] == 5
    room.given += [4, 5]
    room.check_refused(1, 4)
    assert room.edit() == [6]


def test_a_flushed_server_gives_no_id_again(
    redis_server: RedisServer, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    name = redis_server.fresh_name()
    config = Config(registry="redis", redis_url=redis_server.url, registry_name=name)
    room = Room(tmp_path, replace(config, durability="fast"))
    assert room.edit(3) == [1, 2, 3]
    flush(redis_server, name)
    room.check_refused(1, 3)
    room.edit(2)
    room.check_refused(1, 2, 3)
    flush(redis_server, name)
    room.edit(2)
    assert room.undo(room.given[-1]) is None
    room.check_refused(*room.given[:-2])


def flush(server: RedisServer, name: str) -> None:
    """Remove all keys of one workspace."""
    import redis

    client = redis.Redis.from_url(server.url)
    keys = list(client.scan_iter(f"copydesk:{{{name}}}:*"))
    assert keys
    client.delete(*keys)
    client.close()


def test_processes_that_write_at_once_give_no_id_twice(tmp_path: Path) -> None:
    path = str(tmp_path / "state.sqlite")
    os.mkdir(tmp_path / "locks")
    found = []
    for _ in range(3):
        one, other = (
            SqliteJournal(
                Database(StateFile(path), exclusion=FileLocks(str(tmp_path / "locks"))),
                EditIds(str(tmp_path / "edit-ids")),
            )
            for _ in range(2)
        )
        for _ in range(10):
            found += [one.open(entry()), *other.open_all([entry(), entry()])]
        one.close()
        other.close()
        os.unlink(path)
    assert found == list(range(1, 91))
