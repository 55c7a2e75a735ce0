"""The texts that are remembered: by content, within a bound, and never another one."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from copydesk.desk.bases import Bases, MemoryBases
from copydesk.desk.redis.bases import RedisBases
from copydesk.store.bases import FileBases
from copydesk.text.encoding import Encoding
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot
from redis_calls import connections

MIB = 1 << 20
HERE = RelPath(("a.txt",))
Make = Callable[[int, int], Bases]


@pytest.fixture(params=["memory", "files", "redis"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """What makes bases with a bound and a largest text, in bytes."""
    if request.param == "memory":
        return MemoryBases
    if request.param == "redis":
        server, _ = connections(request)()
        return lambda most, largest: RedisBases(server, most, largest)
    return lambda most, largest: FileBases(str(tmp_path), most, largest)


def text(name: str, size: int = 100) -> Snapshot:
    """A text that cannot be compressed much."""
    return Snapshot.of(name.encode() + os.urandom(size // 2).hex().encode())


def check(bases: Bases, *expected: tuple[Snapshot, bool]) -> None:
    """Which texts are remembered, asked for by digest and by version."""
    for snapshot, there in expected:
        for asked in (snapshot.digest, snapshot.version):
            found = bases.find(asked, None, HERE)
            assert (found is not None) is there
            assert found is None or (found.data, found.digest) == (snapshot.data, snapshot.digest)


def test_what_was_kept_is_found_by_digest_and_by_version(make: Make) -> None:
    bases = make(MIB, MIB)
    a, b, c = text("a"), text("b", 50_000), text("c")
    bases.keep(a, HERE)
    bases.keep(b, HERE)
    bases.keep(a, HERE)
    check(bases, (a, True), (b, True), (c, False))


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
    check(bases, (a, True))


@pytest.mark.parametrize("asked", ["", "0", "*", "../../etc", "[0-9a-f]" * 12, "g" * 12])
def test_what_is_no_digest_is_not_found(make: Make, asked: str) -> None:
    bases = make(MIB, MIB)
    bases.keep(text("a"), HERE)
    assert bases.find(asked, None, None) is None


def test_a_text_that_is_too_large_is_not_kept(make: Make) -> None:
    bases = make(MIB, 1_000)
    fits, does_not = Snapshot.of(b"a" * 1_000), Snapshot.of(b"a" * 1_001)
    bases.keep(fits, HERE)
    bases.keep(does_not, HERE)
    check(bases, (fits, True), (does_not, False))


@pytest.mark.parametrize("size", [2_000, 60_000])
def test_the_bound_holds_and_the_oldest_go_first(make: Make, size: int) -> None:
    bases = make(200_000, MIB)
    texts = [text(str(i), size) for i in range(2_000_000 // size)]
    for each in texts:
        bases.keep(each, HERE)
    found = [bases.find(each.digest, None, None) is not None for each in texts]
    assert found[-1]
    assert not found[0]
    kept = sum(
        len(zlib.compress(t.data, 1)) for t, there in zip(texts, found, strict=True) if there
    )
    assert 100_000 < kept <= 200_000 * 9 // 8 + size


def test_files_go_by_the_time_of_their_last_use(tmp_path: Path) -> None:
    bases = FileBases(str(tmp_path), 30_000)
    texts = [text(str(i), 10_000) for i in range(3)]
    for each, time in zip(texts, (30, 10, 20), strict=True):
        bases.keep(each, HERE)
        os.utime(tmp_path / each.digest, (time, time))
    check(bases, (texts[1], True))
    (tmp_path / "0123456789abcdef.tmp").write_bytes(b"x" * 20_000)
    bases.prune()
    check(bases, (texts[0], False), (texts[1], True), (texts[2], False))
    bases.keep(texts[0], HERE)
    for each, time in ((texts[0], 10), (texts[1], 20)):
        os.utime(tmp_path / each.digest, (time, time))
    bases.keep(texts[0], HERE)
    (tmp_path / "0123456789abcdef.tmp").write_bytes(b"x" * 20_000)
    bases.prune()
    check(bases, (texts[0], True), (texts[1], False))


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
    check(bases, (favourite, True))


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


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes((data[middle] ^ 1,)) + data[middle + 1 :]


@pytest.mark.parametrize(
    "corrupt",
    [
        flipped,
        lambda data: data[:-5],
        lambda data: b"",
        lambda data: zlib.compress(b"another text"),
        lambda data: zlib.compress(b"a binary \0 one"),
        lambda data: data + b"more",
    ],
    ids=["flipped", "cut", "empty", "another", "binary", "longer"],
)
def test_a_corrupt_file_is_ignored_and_mended(
    tmp_path: Path, corrupt: Callable[[bytes], bytes]
) -> None:
    bases = FileBases(str(tmp_path), MIB)
    a, b = text("a"), text("b")
    bases.keep(a, HERE)
    bases.keep(b, HERE)
    file = tmp_path / a.digest
    good = file.read_bytes()
    file.write_bytes(corrupt(good))
    found = bases.find(a.version, None, None)
    assert found is None or found == a
    check(bases, (b, True))
    bases.keep(a, HERE)
    check(bases, (a, True), (b, True))


def test_two_processes_share_the_folder(tmp_path: Path) -> None:
    one, other = FileBases(str(tmp_path), MIB), FileBases(str(tmp_path), MIB)
    a = text("a")
    one.keep(a, HERE)
    check(other, (a, True))


def test_a_text_that_another_process_removed_is_kept_again(tmp_path: Path) -> None:
    bases = FileBases(str(tmp_path), MIB)
    a = text("a")
    bases.keep(a, HERE)
    (tmp_path / a.digest).unlink()
    check(bases, (a, False))
    bases.keep(a, HERE)
    check(bases, (a, True))


def test_a_folder_that_is_gone_means_only_that_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "bases").mkdir()
    bases = FileBases(str(tmp_path / "bases"), 1_000)
    a = text("a")
    (tmp_path / "bases").rmdir()
    for _ in range(10):
        bases.keep(text("b", 1_000), HERE)
    check(bases, (a, False))


def test_no_temporary_file_is_left(tmp_path: Path) -> None:
    bases = FileBases(str(tmp_path), MIB)
    for i in range(20):
        bases.keep(text(str(i)), HERE)
    assert all(len(path.name) == 64 for path in tmp_path.iterdir() if path.name != "seen")
    assert all(len(path.name) == 29 for path in (tmp_path / "seen").iterdir())
