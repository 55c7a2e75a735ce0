"""What is done beside the work or put off: nobody notices but by the clock."""

from __future__ import annotations

import errno
import gc
import os
import threading
import time
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

from copydesk.desk.backends import sqlite as database_module
from copydesk.desk.backends.snapshots import MOST_WAITING, BackgroundSnapshots, Note
from copydesk.desk.backends.sqlite import (
    Connection,
    Database,
    SqliteRecords,
    SqliteSnapshots,
    Value,
    _shape_of,
)
from copydesk.desk.drafts import LARGEST_DRAFT, MOST_DRAFTS, DraftCache
from copydesk.edit.draft import Plan, compose
from copydesk.edit.request import RangeEdit
from copydesk.errors import StateFailed
from copydesk.store import _os, threads
from copydesk.store.protocol import NOBODY, Caller, Content
from copydesk.store.state import StateFile
from copydesk.store.threads import FileLocks
from copydesk.text import sizes
from copydesk.text.encoding import Encoding
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot
from copydesk.tools.batch import put_off
from test_journal import entry

SOON = 20.0
HERE = RelPath(("a.txt",))


# Locks whose handles are kept


def handles() -> int:
    return len(os.listdir("/dev/fd"))


def waits_for(one: FileLocks, other: FileLocks) -> None:
    """While `other` holds the key, nobody gets it of `one`; then somebody does."""
    got = threading.Event()

    def work() -> None:
        with one.hold("key"):
            got.set()

    thread = threading.Thread(target=work, daemon=True)
    with other.hold("key"):
        thread.start()
        assert not got.wait(0.1)
    assert got.wait(SOON)
    thread.join(SOON)


@pytest.mark.slow
def test_a_handle_is_kept_and_threads_exclude_one_another(tmp_path: Path) -> None:
    locks = FileLocks(str(tmp_path))
    with locks.hold("key"):
        pass
    before = handles()
    for _ in range(10):
        with locks.hold("key"):
            pass
    assert handles() == before
    waits_for(locks, locks)
    waits_for(locks, FileLocks(str(tmp_path)))
    waits_for(FileLocks(str(tmp_path)), locks)
    with pytest.raises(ZeroDivisionError), locks.hold("key"):
        raise ZeroDivisionError
    waits_for(FileLocks(str(tmp_path)), locks)
    locks.close()
    assert handles() < before + 5  # two for each of the three that nobody has closed


def test_few_handles_are_kept(tmp_path: Path) -> None:
    locks = FileLocks(str(tmp_path))
    before = handles()
    for number in range(200):
        with locks.hold(str(number)):
            pass
    assert handles() - before <= 64
    locks.close()
    assert handles() == before


@pytest.mark.slow
def test_a_lock_file_that_was_removed_locks_nobody_out_and_nobody_in(tmp_path: Path) -> None:
    kept, other = FileLocks(str(tmp_path)), FileLocks(str(tmp_path))
    with kept.hold("key"):
        pass
    for name in os.listdir(tmp_path):
        os.unlink(tmp_path / name)
    waits_for(kept, other)
    waits_for(other, kept)


# A database whose users take turns


TABLE, ONE = "CREATE TABLE IF NOT EXISTS t (n INTEGER)", "INSERT INTO t VALUES (1)"


def database_at(path: Path, *level: Any, **options: Any) -> Database:
    """A database with one table."""
    database = Database(StateFile(str(path)), *level, **options)
    database.define(TABLE)
    return database


def numbers(db: Connection) -> list[tuple[Any, ...]]:
    return list(db.execute("SELECT n FROM t").fetchall())


class Counting:
    """An exclusion that knows who holds it."""

    def __init__(self) -> None:
        self.held: list[str] = []
        self.most = self.times = 0

    @contextmanager
    def hold(
        self, key: str, seconds: float | None = None, caller: Caller = NOBODY
    ) -> Iterator[None]:
        self.held.append(key)
        self.most, self.times = max(self.most, len(self.held)), self.times + 1
        try:
            yield
        finally:
            self.held.remove(key)


@pytest.mark.parametrize("most", [None, 1 << 20])
def test_a_lock_of_ours_is_held_while_a_database_is_opened_and_never_else(
    tmp_path: Path, most: int | None
) -> None:
    """Who writes waits for SQLite's own lock, so who holds ours never waits for a transaction."""
    turns, held = Counting(), list[int]()
    database = Database(StateFile(str(tmp_path / "x.sqlite")), exclusion=turns, most_bytes=most)
    database.define(TABLE, begin=lambda *_: held.append(len(turns.held)))
    for times in (1, 2):
        with database.writing() as db:
            db.execute(ONE)
            with database.reading() as inner:
                assert numbers(inner) == [(1,)]
            assert turns.held == []
        with suppress(ZeroDivisionError), database.writing(flushed=True) as db:
            db.execute("INSERT INTO t VALUES (2)")
            raise ZeroDivisionError
        with database.reading() as db:
            assert numbers(db) == [(1,)]
            assert turns.held == []
        assert (turns.times, turns.most, turns.held) == (times, 1, [])
        for name in os.listdir(tmp_path):  # then it is opened once more
            os.unlink(tmp_path / name)
    assert held == [1, 1], "its tables are made under the lock"
    database.close()


@pytest.mark.slow
def test_two_that_open_a_new_file_at_once_both_find_it_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one makes the tables while this one looks whether they are there."""
    shape_of, failures = _shape_of, list[BaseException]()
    one, other = (database_at(tmp_path / "x.sqlite") for _ in range(2))

    def open_other() -> None:
        try:
            other.change(ONE, ())
        except StateFailed as failure:
            failures.append(failure)

    thread = threading.Thread(target=open_other)

    def look(connection: apsw.Connection) -> object:
        if threading.current_thread() is not thread and not thread.ident:
            thread.start()
            thread.join(0.3)  # it is done, or waits until this one has looked
        return shape_of(connection)

    monkeypatch.setattr(database_module, "_shape_of", look)
    with one.reading():
        pass
    thread.join()
    assert failures == []
    with one.reading() as db:
        assert numbers(db) == [(1,)]
    one.close()
    other.close()


@pytest.mark.parametrize("synchronous", ["FULL", "OFF"])
@pytest.mark.parametrize("most", [None, 1 << 20])
def test_a_file_has_a_log_and_a_bounded_one_a_rollback_journal_that_stays(
    tmp_path: Path, synchronous: str, most: int | None
) -> None:
    database = database_at(tmp_path / "x.sqlite", synchronous, most_bytes=most)
    with database.writing() as db:
        db.execute(ONE)
        assert db.execute("PRAGMA journal_mode").fetchone()[0] == ("persist" if most else "wal")
    ends = ("", "-journal") if most else ("", "-shm", "-wal")
    assert sorted(os.listdir(tmp_path)) == [f"x.sqlite{end}" for end in ends]
    database.close()
    assert (tmp_path / "x.sqlite-journal").exists() is bool(most)
    assert not (tmp_path / "x.sqlite-wal").exists(), "all of it is in the file"


@pytest.mark.parametrize(("level", "levels"), [("FULL", [1, 2, 2, 1, 1, 2]), ("OFF", [0] * 6)])
def test_a_transaction_is_flushed_if_it_is_an_intent_and_the_file_is_to_survive_a_power_cut(
    tmp_path: Path, level: str, levels: list[int]
) -> None:
    """SQLite's levels: 2 flushes each commit, 1 tears nothing, 0 leaves it to the system."""
    database, found = database_at(tmp_path / "x.sqlite", level), list[int]()
    for flushed in (False, True, True, False, False, True):
        with database.writing(flushed=flushed) as db:
            found.append(db.execute("PRAGMA synchronous").get)
    assert found == levels
    database.close()


def test_the_intent_of_a_write_is_flushed_and_how_it_ended_is_not(tmp_path: Path) -> None:
    """A power cut may take back how a write ended, which recovery finds out, never its intent."""
    levels: list[int] = []

    class Watched(Database):
        def _level(self) -> None:
            assert self._connection is not None
            levels.append(self._connection.execute("PRAGMA synchronous").get)

        @contextmanager
        def writing(self, *, flushed: bool = False) -> Generator[Connection]:
            with super().writing(flushed=flushed) as db:
                self._level()
                yield db

        def change(
            self, statement: str, values: Sequence[Value] = (), *, looked: bool = False
        ) -> list[tuple[Any, ...]]:
            changed = super().change(statement, values, looked=looked)
            self._level()
            return changed

    journal = SqliteRecords(Watched(StateFile(str(tmp_path / "state.sqlite")), "FULL"))
    edit_id = journal.open(entry())
    journal.keep_whole(edit_id, b"old")
    journal.keep_undo(edit_id, ())
    assert levels == [2, 2, 2]
    journal.close_all([edit_id], "done")
    assert levels == [2, 2, 2, 1]
    journal.close()


class Cut:
    """A connection whose log was cut: SQLite cannot read the entries."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def execute(self, statement: str, *values: Any) -> Any:
        if statement.startswith("SELECT edit_id, path"):
            raise apsw.IOError("disk I/O error")
        return self.inner.execute(statement, *values)


def test_a_statement_that_relies_on_a_look_looks_when_it_fails(tmp_path: Path) -> None:
    """The look of the same call is trusted, until the file turns out to be gone."""
    losses: list[str] = []
    database = Database(StateFile(str(tmp_path / "state.sqlite")), on_loss=losses.append)
    journal = SqliteRecords(database)
    edit_id = journal.open(entry())
    assert journal.open_at([entry().path]) == (edit_id,)
    database._connection = Cut(database._connection)
    for file in tmp_path.iterdir():
        file.unlink()
    assert journal.open_at([entry().path]) == ()
    assert losses == ["deleted"]
    journal.close()


# Texts that are kept in a thread


class Slow(SqliteSnapshots):
    """Bases that keep nothing until they are told to."""

    def __init__(self) -> None:
        super().__init__(Database())
        self.go = threading.Event()
        self.kept: list[str] = []

    def keep_all(
        self,
        texts: Sequence[tuple[Snapshot, RelPath]],
        notes: Sequence[Note] = (),
        since: int | None = None,
    ) -> None:
        assert self.go.wait(SOON)
        self.kept += [base.digest for base, _ in texts]
        super().keep_all(texts, notes, since)

    def close(self) -> None:
        """It is looked into afterwards."""


def test_who_asks_for_a_text_waits_until_it_is_kept() -> None:
    slow, a = Slow(), Snapshot.of(b"a")
    bases = BackgroundSnapshots(slow)
    bases.keep(a, HERE)
    assert slow.kept == []
    slow.go.set()
    assert bases.find(a.version, None, HERE) == a
    assert bases.find(a.version, None, RelPath(("b",))) is None
    bases.close()


def test_what_is_to_be_kept_is_kept_at_the_end() -> None:
    slow = Slow()
    bases = BackgroundSnapshots(slow)
    texts = [Snapshot.of(b"%d" % number) for number in range(20)]
    for text in texts:
        bases.keep(text, HERE)
    slow.go.set()
    bases.close()
    assert slow.kept == [text.digest for text in texts]


def test_the_small_text_of_a_plan_is_kept_at_once() -> None:
    slow, large, small = Slow(), Snapshot.of(b"1234"), Snapshot.of(b"123")
    bases = BackgroundSnapshots(slow, most_at_once=3)
    bases.keep_planned(large, HERE)  # it waits for nothing
    slow.go.set()
    bases.keep_planned(small, HERE)
    assert small.digest in slow.kept
    bases.close()
    assert sorted(slow.kept) == sorted((large.digest, small.digest))


def test_who_keeps_the_text_of_a_plan_waits_for_the_thread_that_keeps_it() -> None:
    slow, text = Slow(), Snapshot.of(b"123")
    bases = BackgroundSnapshots(slow, most_at_once=3)
    bases.keep(text, HERE)  # as it was read
    planning = threading.Thread(target=lambda: bases.keep_planned(text, HERE))
    planning.start()
    planning.join(0.1)
    assert planning.is_alive()
    slow.go.set()
    planning.join(SOON)
    assert slow.kept == [text.digest]
    bases.close()


def test_a_text_that_is_kept_again_and_again_is_seldom_written() -> None:
    slow, a = Slow(), Snapshot.of(b"a")
    slow.go.set()
    bases = BackgroundSnapshots(slow)
    for _ in range(160):
        bases.keep(a, HERE)
    bases.keep(a, RelPath(("b",)))
    bases.close()
    assert 2 <= len(slow.kept) <= 21


class Held:
    """The content of a file, which says when it was let go."""

    def __init__(self, data: bytes) -> None:
        self.data, self.closed = data, 0

    def packed(self, digest: str, most_bytes: int) -> bytes | None:
        self.close()
        return zlib.compress(self.data)

    def close(self) -> None:
        self.closed += 1


class SlowForLarge(Slow):
    """Bases that keep no large text until they are told to."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()

    def keep_content(
        self, digest: str, content: Content, at: RelPath, since: int | None = None
    ) -> bool:
        self.begun.set()
        assert self.go.wait(SOON)
        return super().keep_content(digest, content, at, since)


def test_of_large_texts_few_wait_and_small_ones_do_not_wait_for_them() -> None:
    slow = SlowForLarge()
    bases = BackgroundSnapshots(slow, calm_seconds=0)
    texts = [Snapshot.of(b"%d" % number) for number in range(MOST_WAITING + 3)]
    held = [Held(text.data) for text in texts]
    bases.keep_content(texts[0].digest, held[0], HERE)
    assert slow.begun.wait(SOON)
    for text, content in zip(texts[1:], held[1:], strict=True):
        bases.keep_content(text.digest, content, HERE)
    again = Held(texts[3].data)
    bases.keep_content(texts[3].digest, again, HERE)
    assert [content.closed for content in (*held, again)] == [0, 1, 1, *[0] * MOST_WAITING, 1]
    assert bases.find("0" * 64, None, None) is None
    slow.go.set()
    found = [bases.find(text.digest, None, HERE) for text in texts]
    assert found == [texts[0], None, None, *texts[3:]]
    bases.keep_content(texts[1].digest, Held(texts[1].data), HERE)
    bases.close()
    assert slow.find(texts[1].digest, None, HERE) == texts[1]


def test_who_asks_for_a_large_text_or_closes_does_not_wait_for_calm() -> None:
    slow, texts = SlowForLarge(), [Snapshot.of(b"a"), Snapshot.of(b"b")]
    slow.go.set()
    bases = BackgroundSnapshots(slow, calm_seconds=1000)
    bases.keep_content(texts[0].digest, Held(b"a"), HERE)
    assert bases.find(texts[0].version, None, HERE) == texts[0]
    bases.keep_content(texts[1].digest, Held(b"b"), HERE)
    bases.close()
    assert slow.find(texts[1].digest, None, HERE) == texts[1]


class Rewritten(Held):
    """The content of a file that another program has changed."""

    def packed(self, digest: str, most_bytes: int) -> None:
        self.close()


def test_a_large_text_whose_file_had_changed_is_stored_when_it_is_seen_again() -> None:
    slow, text = SlowForLarge(), Snapshot.of(b"a")
    slow.go.set()
    bases = BackgroundSnapshots(slow, calm_seconds=0)
    bases.keep_content(text.digest, Rewritten(b"b"), HERE)
    assert bases.find(text.digest, None, HERE) is None
    bases.keep_content(text.digest, Held(b"a"), HERE)
    assert bases.find(text.digest, None, HERE) == text
    bases.close()


# What was shown


def planned(number: int, text: bytes) -> tuple[Plan, Snapshot]:
    base, request = Snapshot.of(text), RangeEdit(HERE, "1", "new\n")
    place, head = request.locate(base), (f"{number:08x}", "me", "ws_mod", "tool")
    return Plan(*head, request, place, "replace", base.digest, "0" * 64, 1, 2), base


def test_a_draft_is_given_for_its_plan_on_its_content_alone() -> None:
    shown = DraftCache()
    plan, base = planned(1, b"one\ntwo\n")
    draft = compose(plan.request, base, plan.place)
    shown.keep(plan, draft)
    assert shown.of(plan, Snapshot.of(base.data)) is draft
    wide = Snapshot(base.data, Encoding("latin-1"))
    for other in (Snapshot.of(b"one\ntwo!"), Snapshot.of(b"one\n"), wide):
        assert shown.of(plan, other) is None
    renewed, _ = planned(2, b"one\ntwo\n")
    assert shown.of(renewed, base) is None


def test_few_drafts_are_kept_and_none_of_a_large_text() -> None:
    shown = DraftCache()
    made = [planned(number, b"%d\n" % number) for number in range(MOST_DRAFTS + 1)]
    large = planned(99, b"x" * LARGEST_DRAFT + b"\n")
    for plan, base in (*made, large):
        shown.keep(plan, compose(plan.request, base, plan.place))
    there = [shown.of(plan, base) is not None for plan, base in (*made, large)]
    assert there == [False, *[True] * MOST_DRAFTS, False]


# Files that are closed


@pytest.mark.parametrize(
    ("size", "removed", "beside"),
    [
        (sizes.BESIDE, True, True),
        (sizes.BESIDE, False, False),  # nothing is freed: it has its name
        (sizes.BESIDE - 1, True, False),
    ],
)
def test_a_large_file_without_a_name_is_closed_beside(
    size: int, removed: bool, beside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(bytes(size))
    soon, now = list[int](), list[int]()
    with path.open("rb") as file:
        if removed:
            path.unlink()
        monkeypatch.setattr(threads, "close_soon", soon.append)
        monkeypatch.setattr(_os, "close_quietly", now.append)
        threads.close_of_size(file.fileno(), size)
        assert (bool(soon), bool(now)) == (beside, not beside)
        soon.clear()
        monkeypatch.setattr(_os, "fstat", refused)
        threads.close_of_size(file.fileno(), size)
        assert bool(soon) is (size >= sizes.BESIDE)


def refused(fd: int) -> os.stat_result:
    raise OSError(errno.EIO, "it cannot be told")


# Garbage


def test_collection_is_put_off_and_comes_back_as_it_was() -> None:
    assert gc.isenabled()
    with put_off():
        assert not gc.isenabled()
        with put_off():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with put_off():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.slow
def test_who_asks_for_the_file_waits_for_the_statement_of_another_thread(tmp_path: Path) -> None:
    """A connection serves one thread at a time: a second one makes the first one's call fail."""
    database, other = (database_at(tmp_path / "x.sqlite") for _ in range(2))
    for each in (database, other):
        with each.writing() as db:
            db.execute(ONE)  # of the second one, so the log has changed
    begun, order = threading.Event(), list[str]()

    def read() -> None:
        def wait() -> None:
            begun.set()
            time.sleep(0.2)
            order.append("read")

        with database.reading() as db:
            db.create_scalar_function("wait", wait, 0)
            db.execute("SELECT wait()").fetchall()

    thread = threading.Thread(target=read)
    thread.start()
    begun.wait()
    is_current = database.is_current()
    order.append("asked")
    thread.join()
    assert (is_current, order) == (True, ["read", "asked"])
    database.close()
    other.close()
