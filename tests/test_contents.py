"""Contents in pieces, and the work beside: few calls, short ones too, and what fails is told."""

from __future__ import annotations

import errno
import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from copydesk.errors import Failed
from copydesk.store import _os, contents
from copydesk.store.contents import Digest, write_pieces
from copydesk.store.files import Files
from copydesk.store.protocol import Kept, Piece
from copydesk.text.relpath import RelPath

OLD = bytes(range(256)) * 300
F = RelPath.parse("f")
MANY: list[Piece] = [
    part for at in range(0, 60_000, 20) for part in (memoryview(OLD)[at : at + 20], b"+")
]


def joined(parts: Sequence[Piece]) -> bytes:
    return b"".join(
        OLD[part.start : part.stop] if isinstance(part, Kept) else part for part in parts
    )


def check_pieces(folder: Path, parts: Sequence[Piece], *, start: bool = True) -> None:
    """The pieces are what stands in the file."""
    (folder / "old").write_bytes(OLD)
    old = os.open(folder / "old", os.O_RDONLY)
    fd = os.open(folder / "new", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        write_pieces(fd, parts, old, start=start)
    finally:
        os.close(fd)
        os.close(old)
    assert (folder / "new").read_bytes() == joined(parts)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written at once is little, so that all ways are taken."""
    monkeypatch.setattr(contents, "_CHUNK", 100)
    monkeypatch.setattr(contents, "_GATHERED", 5_000)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("start", [True, False])
@pytest.mark.parametrize(
    "parts",
    [
        MANY,
        [b"", b"a" * 300, b"", b"b"],
        [b"a" * 7_000, Kept(0, 20_000), b"b", Kept(50_000, 50_001), *MANY[:9]],
    ],
    ids=["many", "large", "kept"],
)
def test_pieces_are_gathered(tmp_path: Path, parts: list[Piece], start: bool) -> None:
    check_pieces(tmp_path, parts, start=start)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("count", [0, 1, 19, 20, 21, 41, 3_000])
def test_a_short_write_goes_on(tmp_path: Path, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def shorter(fd: int, parts: Sequence[bytes | memoryview]) -> int:
        assert len(parts) <= _os.MOST_PARTS
        calls.append(len(parts))
        data = b"".join(parts)[:count]
        return os.write(fd, data) if data else 0

    monkeypatch.setattr(_os, "write_many", shorter)
    check_pieces(tmp_path, MANY)
    assert len(calls) > 1


@pytest.mark.usefixtures("small")
def test_many_pieces_are_few_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "_GATHERED", 1 << 20)
    calls: list[int] = []
    write_many = _os.write_many

    def counted(fd: int, parts: Sequence[bytes | memoryview]) -> int:
        calls.append(len(parts))
        return write_many(fd, parts)

    monkeypatch.setattr(_os, "write_many", counted)
    check_pieces(tmp_path, MANY)
    assert len(calls) == -(-len(MANY) // _os.MOST_PARTS)


def test_a_digest_beside_is_the_digest() -> None:
    told = Digest((OLD,)).result
    assert told() == told() == hashlib.sha256(OLD).hexdigest()


# A file that is flushed in a thread


def replaced(root: Path, before_rename: Callable[[str], None]) -> None:
    with Files(root) as workspace:
        found = workspace.read(F)
        old = hashlib.sha256(OLD).hexdigest()
        with workspace.stage(
            F,
            found.stamp,
            old,
            [Kept(0, 1_000), b"new", Kept(2_000, len(OLD))],
            before_in_place=lambda old: None,
            digested=True,
            revocable=False,
        ) as staged:
            before_rename(staged.digest)
            staged.commit()


NEW = OLD[:1_000] + b"new" + OLD[2_000:]


def test_a_flush_ends_before_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f").write_bytes(OLD)
    asked, flushed = threading.Event(), threading.Event()
    order: list[str] = []
    sync, exchange = _os.sync, _os.rename_exchange

    def slow(fd: int) -> None:
        if threading.current_thread() is not threading.main_thread():
            assert asked.wait(20)
            order.append("flushed")
            flushed.set()
        sync(fd)

    def renamed(dir_fd: int, old: bytes, new: bytes) -> None:
        order.append("renamed")
        exchange(dir_fd, old, new)

    def before(digest: str) -> None:
        assert digest == hashlib.sha256(NEW).hexdigest()
        assert not flushed.is_set()
        order.append("recorded")
        asked.set()

    monkeypatch.setattr(_os, "sync", slow)
    monkeypatch.setattr(_os, "rename_exchange", renamed)
    replaced(tmp_path, before)
    assert order == ["recorded", "flushed", "renamed"]
    assert (tmp_path / "f").read_bytes() == NEW


def test_a_failed_flush_leaves_the_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f").write_bytes(OLD)
    handles = len(os.listdir("/dev/fd"))
    sync = _os.sync

    def fails(fd: int) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise OSError(errno.EIO, "gone")
        sync(fd)

    monkeypatch.setattr(_os, "sync", fails)
    seen: list[str] = []
    with pytest.raises(Failed, match="EIO"):
        replaced(tmp_path, seen.append)
    assert len(seen) == 1
    assert os.listdir(tmp_path) == ["f"]
    assert (tmp_path / "f").read_bytes() == OLD
    assert len(os.listdir("/dev/fd")) == handles
