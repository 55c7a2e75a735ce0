"""The texts that are remembered: by content, within a bound, and never another one."""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from copydesk.desk.backends.redis import RedisSnapshots
from copydesk.desk.backends.snapshots import Note, ShownLines, Snapshots, SnapshotStore
from copydesk.desk.backends.sqlite import Database, SqliteSnapshots
from copydesk.store.state import StateFile, StateFolder
from copydesk.text.encoding import Encoding
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot
from support.cost import first
from support.redis_calls import connections

MIB = 1 << 20
HERE = RelPath(("a.txt",))
Make = Callable[[int, int], SnapshotStore]


@pytest.fixture(params=["memory", "file", "redis"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """What makes bases with a bound and a largest text, in bytes."""
    if request.param == "redis":
        server, _ = connections(request)()
        return lambda most, largest: RedisSnapshots(server, most, largest)
    file = None if request.param == "memory" else StateFile(str(tmp_path / "x.sqlite"))
    return lambda most, largest: SqliteSnapshots(Database(file, most_bytes=most), most, largest)


def text(name: str, size: int = 100) -> Snapshot:
    """A text that cannot be compressed much."""
    return Snapshot.of(name.encode() + os.urandom(size // 2).hex().encode())


def check_remembered(bases: Snapshots, *expected: tuple[Snapshot, bool]) -> None:
    """Which texts are remembered, asked for by digest and by version."""
    for snapshot, there in expected:
        for asked in (snapshot.digest, snapshot.version):
            found = bases.find(asked, None, HERE)
            assert (found is not None) is there
            assert found is None or (found.data, found.digest) == (snapshot.data, snapshot.digest)


def test_texts_are_kept_together_up_to_the_largest_with_what_was_shown(make: Make) -> None:
    bases = make(4 * MIB, MIB)
    small, middle, large = text("a"), text("b", 100_000), text("c", 2 * MIB)
    lines = ShownLines(small.version, small.line_count, ((0, 1),))
    note = Note("me", HERE, lines)
    bases.keep_all([(small, HERE), (middle, HERE), (large, HERE)], [note])
    check_remembered(bases, (small, True), (middle, True), (large, False))
    assert bases.shown("me", HERE, small.version) == lines
    bases.close()


def test_small_texts_that_wait_take_one_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database()
    bases, begun, writing = SqliteSnapshots(database), list[None](), database.writing
    monkeypatch.setattr(database, "writing", lambda: (begun.append(None), writing())[1])
    bases.keep_all([(text(str(number)), HERE) for number in range(20)])
    assert len(begun) == 1


def test_what_was_kept_is_found_by_digest_and_by_version(make: Make) -> None:
    bases = make(MIB, MIB)
    a, b, c = text("a"), text("b", 50_000), text("c")
    bases.keep(a, HERE)
    bases.keep(b, HERE)
    bases.keep(a, HERE)
    check_remembered(bases, (a, True), (b, True), (c, False))


def test_a_version_is_of_the_path_where_it_was_seen(make: Make) -> None:
    """Who names the version of one file learns nothing of another one."""
    bases, elsewhere = make(MIB, MIB), RelPath(("b", "a.txt"))
    a = text("a")
    bases.keep(a, HERE)
    for asked in (a.digest, a.version):
        assert bases.find(asked, None, elsewhere) is None
        assert bases.find(asked, None, None) == a
    bases.keep(a, elsewhere)
    assert bases.find(a.version, None, elsewhere) == a
    check_remembered(bases, (a, True))


def test_what_is_no_digest_is_not_found(make: Make) -> None:
    bases = make(MIB, MIB)
    bases.keep(text("a"), HERE)
    for asked in ("", "0", "*", "../../etc", "[0-9a-f]" * 12, "g" * 12):
        assert bases.find(asked, None, None) is None, asked


def test_a_text_that_is_too_large_is_not_kept(make: Make) -> None:
    bases = make(MIB, 1_000)
    fits, does_not = Snapshot.of(b"a" * 1_000), Snapshot.of(b"a" * 1_001)
    bases.keep(fits, HERE)
    bases.keep(does_not, HERE)
    check_remembered(bases, (fits, True), (does_not, False))


@pytest.mark.slow
@pytest.mark.parametrize("size", first(60_000, 2_000))
def test_the_bound_holds_and_the_oldest_go_first(make: Make, size: int) -> None:
    bases = make(800_000, MIB)
    texts = [text(str(i), size) for i in range(4_000_000 // size)]
    for each in texts:
        bases.keep(each, HERE)
    found = [bases.find(each.digest, None, None) is not None for each in texts]
    assert found[-1]
    assert not found[0]
    there = [each for each, is_there in zip(texts, found, strict=True) if is_there]
    assert 400_000 < sum(len(zlib.compress(each.data, 1)) for each in there) <= 800_000


@pytest.mark.parametrize("use", ["keep", "find"])
def test_what_is_used_stays(make: Make, use: str) -> None:
    bases = make(200_000, MIB)
    favourite = text("favourite", 10_000)
    bases.keep(favourite, HERE)
    for i in range(100):
        bases.keep(text(str(i), 10_000), HERE)
        if use == "keep":
            bases.keep(favourite, HERE)
        else:
            assert bases.find(favourite.version, None, None) is not None
    check_remembered(bases, (favourite, True))


def test_the_configured_encoding_is_used(make: Make) -> None:
    bases = make(MIB, MIB)
    data = "größer\n".encode("latin-1")
    bases.keep(Snapshot.of(data), HERE)
    found = bases.find(Snapshot.of(data).version, "latin-1", None)
    assert found is not None
    assert found.text(0) == "größer"


def test_a_text_that_is_binary_under_another_encoding_is_not_found(make: Make) -> None:
    """A version of a file in UTF-16 without a byte order mark, asked for another file."""
    bases = make(MIB, MIB)
    wide = Snapshot("text\n".encode("utf-16-le"), Encoding("utf-16-le", b"", 2))
    bases.keep(wide, HERE)
    assert bases.find(wide.version, "utf-16-le", None) == wide
    assert bases.find(wide.version, None, None) is None


# The file


def disk_bytes(folder: Path) -> int:
    """What the files of a folder take on the disk."""
    return sum(path.stat().st_blocks * 512 for path in folder.iterdir())


def state(tmp_path: Path, most: int = MIB) -> SqliteSnapshots:
    """The texts of a state folder."""
    file = StateFolder(str(tmp_path), "state").file("texts.sqlite")
    return SqliteSnapshots(Database(file, most_bytes=most), most)


@pytest.mark.slow
@pytest.mark.parametrize("size", first(60_000, 40, 2_000, 400_000))
def test_what_is_kept_takes_no_more_of_the_disk_than_its_bound(tmp_path: Path, size: int) -> None:
    bases = state(tmp_path, MIB)
    last = text("last", size)
    for number in range(min(3 * MIB // size, 6_000)):
        bases.keep(text(str(number), size), RelPath((f"{number}.txt",)))
        if number % 100 == 0:
            assert disk_bytes(tmp_path / "state") <= MIB + 4_096
    bases.keep(last, HERE)
    check_remembered(bases, (last, True))
    assert disk_bytes(tmp_path / "state") <= MIB + 4_096
    assert len(list((tmp_path / "state").iterdir())) <= 3


@pytest.mark.slow
def test_a_lower_bound_gives_back_what_was_taken(tmp_path: Path) -> None:
    bases = state(tmp_path, 8 * MIB)
    texts = [text(str(number), 100_000) for number in range(100)]
    for each in texts:
        bases.keep(each, HERE)
    bases.close()
    assert disk_bytes(tmp_path / "state") > 4 * MIB
    less = state(tmp_path, MIB)
    last = text("last")
    less.keep(last, HERE)
    check_remembered(less, (texts[0], False), (texts[-1], True), (last, True))
    assert disk_bytes(tmp_path / "state") <= MIB + 4_096


def test_the_time_to_find_a_text_does_not_grow_with_their_number(tmp_path: Path) -> None:
    """By what SQLite does: each table is searched by an index, none is scanned."""
    bases = state(tmp_path)
    bases.keep(text("a"), HERE)
    asked: dict[str, apsw.Bindings | None] = {}

    def asks(_: object, statement: str, values: apsw.Bindings | None) -> bool:
        asked[statement] = values
        return True

    connection = bases._db._connection  # what it asks
    assert connection is not None
    connection.exec_trace = asks
    for number in range(20):
        each = text(str(number))
        bases.keep(each, HERE)
        assert bases.find(each.version, None, HERE) == each
        assert bases.find(text("none").version, None, None) is None
    connection.exec_trace = None
    statements = {one for one in asked if one.startswith(("SELECT", "UPDATE", "INSERT", "DELETE"))}
    assert len(statements) >= 2
    for statement in statements:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}", asked[statement]).fetchall()
        assert not [row[3] for row in plan if row[3].startswith("SCAN") and "LIMIT" not in row[3]]


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes((data[middle] ^ 1,)) + data[middle + 1 :]


@pytest.mark.parametrize("corrupt", [
    flipped,
    lambda data: data[:-5],
    lambda data: b"",
    lambda data: zlib.compress(b"another text"),
    lambda data: zlib.compress(b"a binary \0 one"),
], ids=["flipped", "cut", "empty", "another", "binary"])  # fmt: skip
def test_a_corrupt_text_is_mended(tmp_path: Path, corrupt: Callable[[bytes], bytes]) -> None:
    bases = state(tmp_path)
    a, b = text("a"), text("b")
    bases.keep(a, HERE)
    bases.keep(b, HERE)
    with closing(sqlite3.connect(tmp_path / "state" / "texts.sqlite")) as db:
        (found,) = db.execute("SELECT packed FROM texts WHERE digest = ?", (a.digest,)).fetchone()
        assert zlib.decompress(found) == a.data
        row = (corrupt(found), a.digest)
        db.execute("UPDATE texts SET packed = ? WHERE digest = ?", row)
        db.commit()
    found = bases.find(a.version, None, None)
    assert found is None or found == a
    check_remembered(bases, (b, True))
    bases.keep(a, HERE)
    check_remembered(bases, (a, True), (b, True))


@pytest.mark.parametrize("at", [0, 100, 5_000, 9_000])
@pytest.mark.parametrize("again", [True, False], ids=["open", "opened-again"])
def test_a_corrupt_file_is_begun_anew(tmp_path: Path, at: int, again: bool) -> None:
    bases = state(tmp_path)
    texts = [text(str(number), 3_000) for number in range(50)]
    for each in texts:
        bases.keep(each, HERE)
    if again:
        bases.close()
        bases = state(tmp_path)
    with (tmp_path / "state" / "texts.sqlite").open("r+b") as file:
        file.seek(at)
        file.write(os.urandom(60_000))
        file.truncate()
    for each in texts:
        found = bases.find(each.digest, None, None)
        assert found is None or found == each
    for _ in range(2):  # the first may be what finds it out
        for each in texts:
            bases.keep(each, HERE)
    check_remembered(bases, (texts[-1], True))


USES: dict[str, Callable[[Snapshots, Snapshot], object]] = {
    "find": lambda bases, a: bases.find(a.digest, None, None),
    "keep": lambda bases, a: bases.keep(a, HERE),
    "shown": lambda bases, a: bases.shown("ann", HERE),
    "note shown": lambda bases, a: bases.note_shown(Note("ann", HERE, ShownLines("0" * 12, 1, ()))),
}


@pytest.mark.parametrize("use", USES)
def test_whatever_finds_a_file_corrupt_removes_it(tmp_path: Path, use: str) -> None:
    bases, a = state(tmp_path), text("a")
    bases.keep(a, HERE)
    bases.close()
    file = tmp_path / "state" / "texts.sqlite"
    file.write_bytes(b"no database" * 1_000)
    assert USES[use](state(tmp_path), a) is None
    assert not file.exists()


def test_two_processes_share_the_file(tmp_path: Path) -> None:
    one, other = state(tmp_path), state(tmp_path)
    a = text("a")
    one.keep(a, HERE)
    check_remembered(other, (a, True))


@pytest.mark.parametrize("what", ["folder", "file"])
def test_what_cannot_be_opened_means_only_that_nothing_is_kept(tmp_path: Path, what: str) -> None:
    bases = state(tmp_path, 1_000)
    a = text("a")
    if what == "folder":
        (tmp_path / "state").write_text("")
    else:
        (tmp_path / "state" / "texts.sqlite").mkdir(parents=True)
    for _ in range(10):
        bases.keep(text("b", 1_000), HERE)
    check_remembered(bases, (a, False))
