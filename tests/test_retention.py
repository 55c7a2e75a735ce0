"""What a journal drops, and when: whatever the clock says; and that no edit id is given twice."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from copydesk.app.config import Config
from copydesk.app.doctor import examine
from copydesk.app.workspace import OpenWorkspace, in_process, open_workspace
from copydesk.desk.backends.api import DAY_MS, Day, Records, days_left, due, minutes_since_2020
from copydesk.desk.backends.sqlite import FORGET_EVERY_MS, Database, SqliteRecords
from copydesk.store.state import StateFile
from copydesk.store.threads import FileLocks
from support.records import KEPT, opener_of
from support.redis_servers import RedisServer
from test_journal import entry
from test_plan_registry import plan

DAYS = 90
TODAY = 20_000
NO_BOUND = 1 << 40


@pytest.fixture(params=KEPT)
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Records]:
    """Journals that outlive a process."""
    for opener in opener_of(request, tmp_path):
        yield opener()


def ids(journal: Records) -> list[int]:
    return sorted(e.edit_id for e in journal.entries(most=10_000))


def edited(journal: Records, day: int, times: int = 1) -> list[int]:
    made = [journal.open(entry(time=day * DAY_MS)) for _ in range(times)]
    journal.close_all(made, "done")
    return made


def started(journal: Records, *days: int, most_bytes: int = NO_BOUND) -> int:
    """Starts on these days by the clock; how many entries were dropped."""
    return sum(journal.prune(day * DAY_MS, DAYS, most_bytes) for day in days)


# The clock


def test_one_start_with_a_clock_far_ahead_drops_nothing(journal: Records) -> None:
    started(journal, TODAY - 3, TODAY - 2, TODAY - 1)
    made = edited(journal, TODAY, 20)
    assert started(journal, TODAY + 200) == 0
    assert started(journal, TODAY, TODAY + 1, TODAY + 2, TODAY + 3) == 0
    assert ids(journal) == made


@pytest.mark.parametrize("ahead", [91, 200, 40_000])
def test_a_clock_that_stays_ahead_for_two_days_drops_nothing(journal: Records, ahead: int) -> None:
    made = edited(journal, TODAY, 20)
    started(journal, *range(TODAY, TODAY + 5))
    later = TODAY + ahead
    assert started(journal, later, later, later + 1, later + 1) == 0
    assert started(journal, *range(TODAY + 5, TODAY + 60)) == 0
    assert ids(journal) == made


def test_a_jump_that_stays_is_no_age(journal: Records) -> None:
    """Nobody can tell a long pause from a wrong clock: it counts as an eighth at most."""
    made = edited(journal, TODAY, 20)
    started(journal, TODAY, TODAY + 1)
    assert started(journal, *range(TODAY + 400, TODAY + 450)) == 0
    assert ids(journal) == made
    assert started(journal, *range(TODAY + 450, TODAY + 500)) > 0


@pytest.mark.parametrize("behind", [0, 1, TODAY - 400])
def test_a_clock_behind_drops_nothing_then_or_later(journal: Records, behind: int) -> None:
    started(journal, TODAY - 1)
    made = edited(journal, TODAY, 8) + edited(journal, behind, 8)
    assert started(journal, behind, behind + 1) == 0
    made += edited(journal, TODAY, 4)
    assert started(journal, *range(TODAY, TODAY + 80)) == 0
    assert ids(journal) == made


@pytest.mark.slow
def test_a_clock_that_jumps_to_and_fro_ages_nothing_faster(journal: Records) -> None:
    """As of two machines that share a workspace, one of them wrong."""
    made = []
    for day in range(TODAY, TODAY + 80):
        made += edited(journal, day) + edited(journal, day + 200)
        assert started(journal, day, day + 200, day, day + 200) == 0
    assert ids(journal) == made


@pytest.mark.slow
def test_a_clock_that_goes_on_drops_what_is_old_a_share_at_a_time(journal: Records) -> None:
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


def test_what_is_open_stays(journal: Records) -> None:
    opened = journal.open(entry(time=TODAY * DAY_MS))
    edited(journal, TODAY, 5)
    started(journal, *range(TODAY, TODAY + 120))
    started(journal, TODAY + 121, most_bytes=0)
    assert ids(journal) == [opened]


def test_what_is_too_large_goes_a_share_at_a_time_the_oldest_first(journal: Records) -> None:
    made = [journal.open(entry(size=50_000, time=TODAY * DAY_MS)) for _ in range(40)]
    journal.close_all(made, "done")
    assert started(journal, TODAY, most_bytes=5_000_000) == 0
    there = 40
    while gone := started(journal, TODAY, most_bytes=1_000_000):
        assert gone <= -(-there // 4)
        there -= gone
        assert ids(journal) == made[-there:]
    assert 12 <= there <= 20


def test_days_of_use_count_without_a_start(journal: Records) -> None:
    """As of a server that runs on."""
    for day in range(TODAY, TODAY + DAYS + 5):
        edited(journal, day)
    assert started(journal, TODAY + DAYS + 5) > 0


def test_the_journal_of_a_process_alone_is_bounded_too() -> None:
    backend = in_process(Config(journal_bytes=1_000_000))
    for _ in range(60):
        made = backend.records.open(entry(size=50_000, time=TODAY * DAY_MS))
        backend.records.close_all([made], "done")
    assert 10 < len(ids(backend.records)) < 25
    backend.close()


@pytest.mark.slow
def test_a_server_that_runs_on_keeps_its_journal_within_the_size(tmp_path: Path) -> None:
    journal = SqliteRecords(Database(StateFile(str(tmp_path / "state.sqlite"))))
    started(journal, TODAY, most_bytes=1_000_000)
    for _ in range(80):
        edited(journal, TODAY)
        made = journal.open(entry(size=50_000, time=TODAY * DAY_MS))
        journal.close_all([made], "done")
    assert (tmp_path / "state.sqlite").stat().st_size < 1_300_000
    assert len(ids(journal)) > 20
    journal.close()


@pytest.mark.slow
def test_a_journal_of_a_hundred_thousand_entries_stays_within_its_limits(tmp_path: Path) -> None:
    """By size while it is written, by age at the starts that follow; the doctor's words are true."""
    most = 20_000_000
    settings = f'durability = "fast"\njournal_days = 5\njournal_bytes = {most}\n'
    (tmp_path / "copydesk.toml").write_text(settings)
    day = [TODAY]

    def start() -> OpenWorkspace:
        return open_workspace(str(tmp_path), clock=lambda: day[0] * DAY_MS)

    file, last = tmp_path / ".copydesk/state.sqlite", 0
    with start() as desk:
        for _ in range(50):
            some = [entry(size=100, time=TODAY * DAY_MS) for _ in range(2_000)]
            made = desk.journal.open_all(some)
            desk.journal.close_all(made, "done")
            last = made[-1]
            assert file.stat().st_size < most * 1.15
        (newest,) = desk.journal.entries(most=1)
        assert newest.edit_id == last == 100_000
        left = desk.journal.outlook(5, most)
        assert 10_000 < left.entries < 50_000
        assert left.size <= most * 1.05
    told = next(each.found for each in examine(str(tmp_path)) if each.what == "journal")
    rest = f"; {left.due} will be pruned, at most {left.at_once} at each start"
    old = "; the oldest may be pruned after 7 more days of use"
    assert told == f"edits recorded: {left.entries}{rest if left.due else old}"
    counts = [left.entries]
    for _ in range(50):
        day[0] += 1
        with start() as desk:
            counts.append(desk.journal.outlook(5, most).entries)
    assert left.entries * 0.95 < counts[6]  # none by age yet
    assert all(before - after <= -(-before // 4) for before, after in pairwise(counts))
    assert counts[-1] == 0
    assert file.stat().st_size < most * 1.15


def test_due_by_the_days_of_use_alone() -> None:
    daily = [Day(day, day) for day in range(100)]
    assert due(daily, 90) == Day(7, 7)
    assert due(daily[:90], 90) is None
    assert due([], 90) is None
    assert due([*daily, Day(300, 99)], 90) is None
    assert [days_left(daily, 90, edit) for edit in (7, 8, 99)] == [0, 1, 92]
    assert [days_left(daily[:2], 90, edit) for edit in (0, 1, 2)] == [90, 91, 92]


@pytest.mark.slow
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


def test_a_plan_outlives_a_jump_of_the_clock(journal: Records) -> None:
    registry, now = journal, TODAY * DAY_MS
    registry.add(plan("aaaaaaaa", now))
    registry.end("bbbbbbbb", "applied", now)
    for later in (200 * DAY_MS, 200 * DAY_MS + 2 * FORGET_EVERY_MS):
        ahead = plan(f"{later:08x}"[:8], now + later)
        registry.add(ahead)
        registry.end(ahead.id, "discarded", now + later)
    assert registry.plan("aaaaaaaa", now).id == "aaaaaaaa"
    assert [each.id for each in registry.waiting(now)] == ["aaaaaaaa"]
    with pytest.raises(Exception, match="applied"):
        registry.plan("bbbbbbbb", now)


# Ids


def minutes() -> int:
    """Those since 2020, at which ids begin where nobody knows which were given before."""
    return minutes_since_2020(time.time_ns() // 1_000_000)


class Room:
    """A workspace whose state folder is tampered with, and a first start after it."""

    def __init__(self, root: Path, config: Config) -> None:
        self.root, self.config, self.given = root, config, list[int]()
        self.state = root / ".copydesk"

    def edit(self, times: int = 1) -> list[int]:
        """Some edits, each by a new start: their ids, which are above all that were given."""
        for _ in range(times):
            with self.open() as desk:
                self.edit_in(desk)
        return self.given[-times:]

    def open(self) -> OpenWorkspace:
        return open_workspace(str(self.root), self.config)

    def edit_in(self, desk: OpenWorkspace) -> int:
        """The id of an edit by a process that runs."""
        arguments = {"path": "a.txt", "content": f"{len(self.given)}\n", "apply": "auto"}
        made = desk.call("me", "prepare_file_append", {**arguments, "create": True}).fields
        edit_id = made["edit_id"]
        assert isinstance(edit_id, int)
        assert edit_id > max(self.given, default=0)
        self.given.append(edit_id)
        return edit_id

    def undo(self, edit_id: int) -> object:
        """The reason for which it was refused; None when it was taken back."""
        with self.open() as desk:
            answer = desk.call("me", "undo_file_modification", {"edit_id": edit_id}).fields
        return answer.get("reason") if answer.get("error") == "EDIT_NOT_FOUND" else None

    def check_refused(self, *edits: int, reason: str = "replaced") -> None:
        before = (self.root / "a.txt").read_bytes()
        assert [self.undo(edit) for edit in edits] == [reason] * len(edits)
        assert (self.root / "a.txt").read_bytes() == before


@pytest.fixture
def room(tmp_path: Path) -> Room:
    """A workspace with edits 1, 2, 3: in a new folder ids begin at 1."""
    made = Room(tmp_path, Config(durability="fast"))
    assert made.edit(3) == [1, 2, 3]
    return made


def removed(room: Room) -> None:
    for path in room.state.glob("state.sqlite*"):
        path.unlink()


def all_removed(room: Room) -> None:
    for path in room.state.glob("*.sqlite*"):
        path.unlink()


def locks_removed(room: Room) -> None:
    removed(room)
    shutil.rmtree(room.state / "locks")


def cut(room: Room) -> None:
    (room.state / "state.sqlite").write_bytes(b"")


def moved_aside(room: Room) -> None:
    (room.state / "state.sqlite").rename(room.state / "state.sqlite.damaged")


@pytest.mark.slow
@pytest.mark.parametrize("lose", [removed, all_removed, locks_removed, cut, moved_aside])
@pytest.mark.parametrize("first", ["undo", "edit"])
def test_where_a_journal_was_ids_begin_far_above_those_that_it_may_have_given(
    room: Room, lose: Callable[[Room], None], first: str
) -> None:
    """Other databases, or locks, or the bytes that are gone, tell that there was one."""
    lose(room)
    least = minutes() + 1
    if first == "undo":
        room.check_refused(1, 2, 3)
    one, two = room.edit(2)
    assert least <= one <= minutes() + 1
    assert two == one + 1
    room.check_refused(1, 2, 3, one - 1)
    room.check_refused(two + 1, reason="unknown")
    assert room.undo(two) is None


def test_where_a_journal_was_no_id_is_named_that_nobody_was_given(room: Room) -> None:
    removed(room)
    with room.open() as desk:
        check_listed(desk, [], {1, 2, 3})
        made = room.edit_in(desk)
        check_listed(desk, [made], {1, 2, 3})


def test_a_folder_that_is_new_again_begins_at_one_again(room: Room) -> None:
    """Nothing tells that there was another one."""
    shutil.rmtree(room.state)
    room.given.clear()
    room.check_refused(1, reason="unknown")
    assert room.edit(2) == [1, 2]


@pytest.mark.slow
def test_a_backup_that_is_put_back_while_nobody_runs_goes_on_where_it_was(room: Room) -> None:
    """Nobody knows which ids were given since: it is the history now."""
    backup = room.root / "backup"
    shutil.copy(room.state / "state.sqlite", backup)
    room.edit(4)
    removed(room)
    shutil.copy(backup, room.state / "state.sqlite")
    room.check_refused(4, 7, reason="unknown")
    del room.given[3:]
    assert room.edit(2) == [4, 5]
    assert room.undo(5) is None


def folder_removed(room: Room) -> None:
    while room.state.exists():  # texts are remembered in it beside the work
        shutil.rmtree(room.state, ignore_errors=True)


def another_put(room: Room) -> None:
    """The journal of another workspace, with ids up to 5."""
    (room.root / "other").mkdir()
    other = Room(room.root / "other", room.config)
    other.edit(5)
    removed(room)
    shutil.copy(other.state / "state.sqlite", room.state / "state.sqlite")


def backup_put(room: Room) -> None:
    """The journal as it was before edit 4."""
    removed(room)
    shutil.copy(room.root / "backup", room.state / "state.sqlite")


@pytest.mark.parametrize(("lose", "there", "lost"), [
    (removed, [], {1, 2, 3, 4}),
    (folder_removed, [], {1, 2, 3, 4}),
    (another_put, [5, 4, 3, 2, 1], set()),
    (backup_put, [3, 2, 1], {4}),
])  # fmt: skip
def test_a_process_that_runs_gives_no_id_again_whatever_becomes_of_its_journal(
    room: Room, lose: Callable[[Room], None], there: list[int], lost: set[int]
) -> None:
    """What it gave and is lost is named, and nothing that nobody was given, also later."""
    shutil.copy(room.state / "state.sqlite", room.root / "backup")
    least = minutes() + 1
    with room.open() as desk:
        assert room.edit_in(desk) == 4
        lose(room)
        made = room.edit_in(desk)
        assert least <= made <= minutes() + 1
        check_listed(desk, [made, *there], lost)
        assert room.edit_in(desk) == made + 1
        check_listed(desk, [made + 1, made, *there], lost)
    with room.open() as desk:
        check_listed(desk, [made + 1, made, *there], lost)
        assert desk.call("me", "undo_file_modification", {"edit_id": made + 1}).fields["edit_id"]
    room.check_refused(*lost, made - 1)


def check_listed(desk: OpenWorkspace, edits: list[int], lost: set[int]) -> None:
    """What the history shows; it names the edit of its process that is lost, and no other id."""
    answer = desk.call("me", "list_edits", {"max_results": 100}).fields
    rows, runs = answer["edits"], answer.get("lost_edits", [])
    assert isinstance(rows, list)
    assert isinstance(runs, list)
    assert [row["edit_id"] for row in rows] == edits
    ends = [[int(end) for end in run.split("~")] for run in runs]
    named = {id_ for run in ends for id_ in range(run[0], run[-1] + 1)}
    assert lost & {4} <= named <= lost


@pytest.mark.slow
def test_a_journal_that_is_lost_again_and_again_gives_no_id_again(room: Room) -> None:
    """More often than once a minute: who runs knows the highest that it gave."""
    with room.open() as desk:
        for _ in range(4):
            first = room.edit_in(desk)
            assert room.edit_in(desk) == first + 1
            removed(room)
        last = room.edit_in(desk)
        assert last >= minutes() + 7
    room.check_refused(*room.given[:-1])
    assert room.edit() == [last + 1]


@pytest.mark.slow
def test_a_flushed_server_gives_no_id_again(
    redis_server: RedisServer, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Its ids begin at the minutes since 2020 each time, or above those that who writes knows."""
    name = redis_server.fresh_name()
    config = Config(registry="redis", redis_url=redis_server.url, registry_name=name)
    room, least = Room(tmp_path, replace(config, durability="fast")), minutes() + 1
    first, *more = room.edit(3)
    assert least <= first <= minutes() + 1
    assert more == [first + 1, first + 2]
    room.check_refused(first - 1, 1)
    room.check_refused(first + 3, reason="unknown")
    with room.open() as desk:
        for _ in range(2):
            last = room.edit_in(desk)
            flush(redis_server, name)
            room.check_refused(last, reason="unknown")  # a new process, and nothing written since
            undo = desk.call("me", "undo_file_modification", {"edit_id": last})
            assert undo.fields["reason"] == "replaced", "it gave that itself"
            room.edit_in(desk)
            assert room.edit_in(desk) == room.given[-2] + 1
            kept = room.given[-2:]
            room.check_refused(*room.given[:-2])
            room.check_refused(kept[-1] + 1, reason="unknown")
    assert room.undo(kept[-1]) is None


def flush(server: RedisServer, name: str) -> None:
    """Remove all keys of one workspace."""
    import redis

    client = redis.Redis.from_url(server.url)
    keys = list(client.scan_iter(f"copydesk:{{{name}}}:*"))
    assert keys
    client.delete(*keys)
    client.close()


@pytest.mark.parametrize("is_lost", [False, True])
def test_processes_that_write_at_once_give_no_id_twice(tmp_path: Path, is_lost: bool) -> None:
    """Where the file is lost, each goes on above its own ids, and above those given since."""
    path = str(tmp_path / "state.sqlite")
    os.mkdir(tmp_path / "locks")
    (tmp_path / "texts.sqlite").touch()  # as in a folder that is in use
    one, other = (
        SqliteRecords(Database(StateFile(path), exclusion=FileLocks(str(tmp_path / "locks"))))
        for _ in range(2)
    )
    found: list[list[int]] = []
    for turn in range(20):
        if is_lost and turn == 10:
            os.unlink(path)
        found += [[one.open(entry())], [*other.open_all([entry(), entry()])]]
    runs = [found[:20], found[20:], found[::2], found[1::2]] if is_lost else [found]
    for run in runs:
        given = [edit_id for each in run for edit_id in each]
        assert given == sorted(set(given))
        assert given[0] > minutes() - 5
    one.close()
    other.close()
