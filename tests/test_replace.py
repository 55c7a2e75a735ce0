"""Writing: atomic, complete, with every attribute kept, whatever fails."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import os
import random
import resource
import signal
import stat
import struct
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from copydesk.errors import Failed, FileExists, FileNotFound, NotAFile, Refusal
from copydesk.store import _os
from copydesk.store.contents import is_temp
from copydesk.store.files import Files, Target
from copydesk.store.paths import Root
from copydesk.store.protocol import (
    Document,
    Durability,
    Kept,
    NotPutBack,
    Piece,
    Stamp,
    TargetMoved,
)
from copydesk.text import sizes
from copydesk.text.relpath import RelPath
from support.cost import first, spread
from support.faults import NUMBERS, Faults
from support.rows import each_row

OLD = b"old " * 2500
NEW = b"the new bytes " * 900
F = RelPath.parse("d/f")
is_root = os.geteuid() == 0


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").write_bytes(OLD)
    return tmp_path


def open_at(root: Path, durability: Durability = "fast") -> Files:
    return Files(root, durability=durability)


def put(
    workspace: Files,
    document: Document,
    pieces: Iterable[Piece] = (NEW,),
    before: Callable[[bytes], None] = lambda old: None,
    path: RelPath = F,
) -> Stamp:
    digest = hashlib.sha256(document.data).hexdigest()
    return workspace.replace(path, document.stamp, digest, pieces, before_in_place=before)


def edit(workspace: Files, document: Document) -> bytes:
    put(workspace, document)
    return NEW


def remove(workspace: Files, document: Document) -> None:
    workspace.remove(F, document.stamp, hashlib.sha256(OLD).hexdigest())


def temps(root: Path) -> list[str]:
    return [n for _, _, names in os.walk(root) for n in names if is_temp(os.fsencode(n))]


def linked(root: Path, links: int) -> None:
    """With two links the file has another name."""
    if links == 2:
        os.link(root / "d" / "f", root / "g")


def written(root: Path, durability: Durability = "fast") -> os.stat_result:
    """What the file is after it was written anew."""
    with open_at(root, durability) as workspace:
        put(workspace, workspace.read(F))
    assert (root / "d" / "f").read_bytes() == NEW
    return (root / "d" / "f").stat()


ROOT = pytest.mark.skipif(not is_root, reason="needs root, to become another")


# Content


PIECES: list[list[Piece]] = [
    [],
    [b""],
    [NEW],
    [memoryview(NEW)],
    [b"a", memoryview(b"b"), b"", b"c"],
    [Kept(0, len(OLD))],
    [b"head", Kept(3, 77), b"middle", Kept(0, 5), Kept(9_000, 10_000), b"tail"],
    [Kept(4, 4)],
    [bytes(3 << 20), b"x", bytes(1 << 20), b"y"],
    [bytes([n % 256]) for n in range(1000)],
]


@pytest.mark.parametrize("links", [1, 2])
@pytest.mark.parametrize("inside_kernel", [True, False])
def test_the_pieces_are_the_file(
    here: Path, links: int, inside_kernel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not inside_kernel:
        monkeypatch.setattr(_os, "copy_range", lambda old_fd, new_fd, start, count: 0)
    linked(here, links)
    for number, pieces in enumerate(PIECES):
        expected = b"".join(
            OLD[piece.start : piece.stop] if isinstance(piece, Kept) else bytes(piece)
            for piece in pieces
        )
        (here / "d" / "f").write_bytes(OLD)
        with open_at(here) as workspace:
            stamp = put(workspace, workspace.read(F), iter(pieces))
            assert workspace.read(F) == Document(F, expected, stamp), number
        assert temps(here) == []
        if links == 2:
            assert (here / "g").read_bytes() == expected


def test_a_stamp_given_back_serves_for_the_next_write(here: Path) -> None:
    with open_at(here) as workspace:
        document = workspace.read(F)
        for turn in range(20):
            data = b"%d" % turn
            document = Document(F, data, put(workspace, document, [data]))
        assert workspace.read(F) == document


# Attributes


@pytest.mark.parametrize("links", [1, 2])
def test_the_mode_stays(here: Path, links: int) -> None:
    file = here / "d" / "f"
    linked(here, links)
    for mode in (0o644, 0o755, 0o444, 0o600, 0o664, 0o4755, 0o2755, 0o1644, 0o640):
        if links == 2 and mode == 0o444 and not is_root:
            continue  # the owner may not open it for writing
        file.chmod(0o644)
        file.write_bytes(OLD)
        file.chmod(mode)
        before = file.stat()
        after = written(here)
        assert stat.S_IMODE(after.st_mode) == stat.S_IMODE(before.st_mode), oct(mode)
        assert (after.st_ino == before.st_ino) == (links == 2)


@ROOT
def test_a_read_only_file_with_links_is_refused_to_who_may_not_write_it(here: Path) -> None:
    linked(here, 2)
    (here / "d" / "f").chmod(0o444)

    def work() -> None:
        with open_at(here) as workspace, pytest.raises(Failed):
            put(workspace, workspace.read(F))

    as_nobody(here, work)
    assert (here / "d" / "f").read_bytes() == OLD


def test_extended_attributes_stay(here: Path) -> None:
    kept = {"user.copydesk.one": b"1", "user.copydesk.two": bytes(range(256))}
    for name, value in kept.items():
        set_xattr(here / "d" / "f", name, value)
    written(here)
    assert {name: os.getxattr(here / "d" / "f", name) for name in kept} == kept


def acl(*entries: tuple[int, int, int]) -> bytes:
    """A POSIX ACL as the kernel keeps it: (tag, permissions, id) each."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


NO_ID = 0xFFFFFFFF
WITH_USER_1234 = acl((1, 6, NO_ID), (2, 6, 1234), (4, 4, NO_ID), (0x10, 6, NO_ID), (0x20, 0, NO_ID))


def test_an_acl_stays(here: Path) -> None:
    set_xattr(here / "d" / "f", "system.posix_acl_access", WITH_USER_1234)
    written(here)
    assert os.getxattr(here / "d" / "f", "system.posix_acl_access") == WITH_USER_1234


def test_a_default_acl_of_the_directory_opens_no_file_that_was_closed(here: Path) -> None:
    set_xattr(here / "d", "system.posix_acl_default", WITH_USER_1234)
    (here / "d" / "f").chmod(0o664)
    written(here)
    with open_at(here) as workspace:
        workspace.create(RelPath.parse("d/new"), b"")
    assert "system.posix_acl_access" not in os.listxattr(here / "d" / "f")
    assert "system.posix_acl_access" in os.listxattr(here / "d" / "new")


def set_xattr(path: Path, name: str, value: bytes) -> None:
    if sys.platform != "linux":
        pytest.skip("this Python has no calls for extended attributes")
    try:
        os.setxattr(path, name, value)
    except OSError as refused:
        pytest.skip(f"this file system keeps no {name}: {refused}")


@ROOT
def test_owner_and_group_stay_when_that_is_allowed(here: Path) -> None:
    os.chown(here / "d" / "f", 1234, 2345)
    (here / "d" / "f").chmod(0o6755)
    after = written(here)
    assert (after.st_uid, after.st_gid, stat.S_IMODE(after.st_mode)) == (1234, 2345, 0o6755)


@ROOT
@pytest.mark.parametrize(("mode", "group", "expected"), [
    (0o6775, 0, 0o755),
    (0o664, 0, 0o644),
    (0o666, 0, 0o666),
    (0o604, 0, 0o604),
    (0o2664, 4321, 0o2664),
    (0o640, 4321, 0o640),
])  # fmt: skip
def test_another_owner_gets_no_set_id_and_another_group_no_more_than_others(
    here: Path, mode: int, group: int, expected: int
) -> None:
    file = here / "d" / "f"
    os.chown(file, 0, group)
    file.chmod(mode)
    as_nobody(here, lambda: written(here), groups=[4321])
    after = file.stat()
    assert (after.st_uid, after.st_gid) == (1234, group or 1234)
    assert stat.S_IMODE(after.st_mode) == expected


def as_nobody(
    root: Path, work: Callable[[], object], *, groups: Iterable[int] = (), mode: int = 0o777
) -> None:
    """Do it in a child that is user 1234, to whom the directory "d" has this mode."""
    (root / "d").chmod(mode)
    for above in (root, root.parent, root.parent.parent):  # these three are pytest's own
        above.chmod(0o711)
    if not all(above.stat().st_mode & 0o001 for above in root.parents):
        pytest.skip("another user cannot reach the temporary directory")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups(list(groups))
            os.setresgid(1234, 1234, 1234)
            os.setresuid(1234, 1234, 1234)
            work()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


def test_a_symlink_stays_and_its_target_is_written(here: Path) -> None:
    (here / "one").symlink_to("two")
    (here / "two").symlink_to("d/../d/f")
    path = RelPath.parse("one")
    with open_at(here) as workspace:
        document = workspace.read(path)
        assert document.real == F
        put(workspace, document, path=path)
    assert os.readlink(here / "one") == "two"
    assert os.readlink(here / "two") == "d/../d/f"
    assert (here / "d" / "f").read_bytes() == NEW


def test_several_links_stay_one_file_and_the_old_bytes_are_kept_first(here: Path) -> None:
    file, other = here / "d" / "f", here / "other"
    os.link(file, other)
    kept: list[bytes] = []

    def before(old: bytes) -> None:
        assert file.read_bytes() == OLD
        kept.append(old)

    with open_at(here) as workspace:
        stamp = put(workspace, workspace.read(F), before=before)
        assert workspace.read(F).stamp == stamp
    assert kept == [OLD]
    assert file.stat().st_ino == other.stat().st_ino
    assert other.read_bytes() == NEW


# What another program did


def rewritten(file: Path) -> None:
    file.write_bytes(b"x" * len(OLD))


def replaced(file: Path) -> None:
    (file.parent / "n").write_bytes(OLD)
    os.rename(file.parent / "n", file)


def linked_elsewhere(file: Path) -> None:
    file.unlink()
    (file.parent / "n").write_bytes(OLD)
    file.symlink_to("n")


def instead(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def deed(file: Path) -> None:
        file.unlink()
        make(file)

    return deed


def parent_removed(file: Path) -> None:
    os.rename(file.parent, file.parent.parent / "gone")


DEEDS: list[tuple[Callable[[Path], None], type[Exception], bytes | None]] = [
    (rewritten, TargetMoved, b"x" * len(OLD)),
    (lambda file: os.truncate(file, 5), TargetMoved, OLD[:5]),
    (lambda file: file.chmod(0o600), TargetMoved, OLD),
    (replaced, TargetMoved, OLD),
    (lambda file: os.link(file, file.parent / "n"), TargetMoved, OLD),
    (linked_elsewhere, TargetMoved, OLD),
    (lambda file: file.unlink(), FileNotFound, None),
    (parent_removed, FileNotFound, None),
    (instead(Path.mkdir), TargetMoved, None),
    (instead(os.mkfifo), TargetMoved, None),
]


@pytest.mark.parametrize(("deed", "error", "left"), DEEDS)
@pytest.mark.parametrize("links", [1, 2])
@pytest.mark.parametrize("operation", [edit, remove])
def test_a_target_that_is_not_what_was_read_is_left_alone(
    here: Path,
    deed: Callable[[Path], None],
    error: type[Exception],
    left: bytes | None,
    links: int,
    operation: Callable[[Files, Document], object],
) -> None:
    file = here / "d" / "f"
    linked(here, links)
    with open_at(here) as workspace:
        document = workspace.read(F)
        deed(file)
        with pytest.raises(error):
            operation(workspace, document)
    if left is not None:
        assert file.read_bytes() == left
    assert temps(here) == []


@pytest.mark.parametrize(("deed", "error", "left"), DEEDS)
def test_a_target_that_moves_at_the_last_moment_is_left_alone(
    here: Path,
    deed: Callable[[Path], None],
    error: type[Exception],
    left: bytes | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = here / "d" / "f"
    chmod = _os.chmod

    def interrupted(fd: int, mode: int) -> None:
        chmod(fd, mode)
        deed(file)

    with open_at(here) as workspace:
        document = workspace.read(F)
        monkeypatch.setattr(_os, "chmod", interrupted)
        if deed is parent_removed:
            put(workspace, document)  # the directory has moved, and the file with it
            assert (here / "gone" / "f").read_bytes() == NEW
        else:
            with pytest.raises(TargetMoved):
                put(workspace, document)
    assert error in (TargetMoved, FileNotFound)
    if left is not None:
        assert file.read_bytes() == left
    assert temps(here) == []


@pytest.mark.parametrize("links", [1, 2])
def test_where_the_clock_cannot_tell_the_content_does(here: Path, links: int) -> None:
    file = here / "d" / "f"
    linked(here, links)
    with open_at(here) as workspace:
        before = workspace.read(F)
        rewritten(file)
        now = workspace.read(F).stamp
        same_times = dataclasses.replace(before, stamp=dataclasses.replace(now, settled=False))
        with pytest.raises(TargetMoved):
            put(workspace, same_times)
        with pytest.raises(TargetMoved):
            workspace.remove(F, same_times.stamp, hashlib.sha256(OLD).hexdigest())
        put(workspace, workspace.read(F))


@each_row("ctime_ns age_ns settled", [
    (10**18 + 1, 10**7, False),
    (10**18 + 1, 3 * 10**7, True),
    (10**18, 3 * 10**7, False),
    (10**18, 10**9, False),
    (10**18, 3 * 10**9, True),
    (10**18 + 1, -(10**9), False),
])  # fmt: skip
def test_when_a_stamp_is_settled(here: Path, ctime_ns: int, age_ns: int, settled: bool) -> None:
    found = (here / "d" / "f").stat()

    class At:
        st_ctime_ns = ctime_ns

        def __getattr__(self, name: str) -> object:
            return getattr(found, name)

    assert Stamp.of(At(), ctime_ns + age_ns).settled is settled  # type: ignore[arg-type] # a stand-in


def test_the_real_path_that_was_checked_is_the_one_written(here: Path) -> None:
    (here / "e").mkdir()
    (here / "e" / "f").write_bytes(OLD)
    (here / "way").symlink_to("d")
    path = RelPath.parse("way/f")
    digest = hashlib.sha256(OLD).hexdigest()
    with open_at(here) as workspace:
        document = workspace.read(path)
        new_real = workspace.resolve(RelPath.parse("way/new"))
        (here / "way").unlink()
        (here / "way").symlink_to("e")
        with pytest.raises(TargetMoved):
            workspace.create(RelPath.parse("way/new"), b"", expected_real=new_real)
        moved = workspace.read(path)
        with pytest.raises(TargetMoved):
            workspace.replace(
                path,
                moved.stamp,
                digest,
                [NEW],
                before_in_place=lambda old: None,
                expected_real=document.real,
            )
        with pytest.raises(TargetMoved):
            workspace.remove(path, moved.stamp, digest, expected_real=document.real)
    assert sorted(os.listdir(here / "e")) == ["f"]


# Creating and removing


def test_create_gives_the_default_mode(here: Path) -> None:
    old_mask = os.umask(0o027)
    try:
        with open_at(here, "full") as workspace:
            real, stamp = workspace.create(RelPath.parse("new/deep/er/f"), NEW)
            assert workspace.read(real) == Document(real, NEW, stamp)
    finally:
        os.umask(old_mask)
    assert stat.S_IMODE(stamp.mode) == 0o640
    assert stat.S_IMODE((here / "new" / "deep").stat().st_mode) == 0o750


CLOBBERED: dict[str, Refusal] = {
    "d/f": FileExists(len(OLD)),
    "d": NotAFile("directory"),
    ".": NotAFile("directory"),
    "link": NotAFile("symlink"),
    "dangling": NotAFile("symlink"),
    "out": NotAFile("symlink"),
    "fifo": NotAFile("fifo"),
    "d/f/x": NotAFile("below a file"),
    "d/f/x/y": NotAFile("below a file"),
}


@pytest.mark.parametrize("with_real", [True, False])
def test_create_clobbers_nothing(here: Path, with_real: bool) -> None:
    for name, target in {"link": "d/f", "dangling": "d/none", "out": "/etc/none"}.items():
        (here / name).symlink_to(target)
    os.mkfifo(here / "fifo")
    before = sorted(os.listdir(here))
    for path, refusal in CLOBBERED.items():
        where = RelPath.parse(path)
        with open_at(here) as workspace:
            real = workspace.resolve(where) if with_real and path != "out" else None
            with pytest.raises(type(refusal)) as caught:
                workspace.create(where, NEW, expected_real=real)
            with pytest.raises(type(refusal)) as told:
                workspace.check_new(where)
        assert caught.value.facts() == told.value.facts() == refusal.facts(), path
        assert sorted(os.listdir(here)) == before
        assert (here / "d" / "f").read_bytes() == OLD


@pytest.mark.parametrize("lacking", [(), ("rename_no_replace",), ("rename_no_replace", "link")])
def test_create_loses_the_race_to_a_file_that_appears(
    here: Path, lacking: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    lack(lacking, monkeypatch)
    file = here / "d" / "new"
    write = _os.write

    def interrupted(fd: int, data: bytes | memoryview) -> int:
        if not file.exists():
            file.write_bytes(b"theirs")
        return write(fd, data)

    with open_at(here) as workspace:
        monkeypatch.setattr(_os, "write", interrupted)
        with pytest.raises((FileExists, Failed)):
            workspace.create(RelPath.parse("d/new"), NEW)
    assert file.read_bytes() == b"theirs"
    assert sorted(os.listdir(here / "d")) == ["f", "new"]


@pytest.mark.parametrize(
    "lacking",
    [
        "open_unnamed",
        "open_unnamed rename_no_replace",
        "open_unnamed rename_no_replace link",
        "give_name",
    ],
)
def test_create_where_the_system_lacks_a_call(
    here: Path, lacking: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lack(lacking.split(), monkeypatch)
    with open_at(here) as workspace:
        workspace.create(RelPath.parse("d/new"), NEW)
    assert sorted(os.listdir(here / "d")) == ["f", "new"]
    assert (here / "d" / "new").read_bytes() == NEW
    assert (here / "d" / "new").stat().st_nlink == 1


def lack(names: Iterable[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*args: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    for name in names:
        monkeypatch.setattr(_os, name, missing)


def test_parents_are_made_only_when_asked_for(here: Path) -> None:
    with open_at(here) as workspace, pytest.raises(FileNotFound):
        workspace.create(RelPath.parse("no/such/f"), b"", make_parents=False)
    assert os.listdir(here) == ["d"]


def test_remove(here: Path) -> None:
    with open_at(here, "full") as workspace:
        remove(workspace, workspace.read(F))
    assert os.listdir(here / "d") == []


# What fails


def edit_with_kept(workspace: Files, document: Document) -> bytes:
    put(workspace, document, [Kept(0, 100), b"new", Kept(100, 200)])
    return OLD[:100] + b"new" + OLD[100:200]


def edit_through_link(workspace: Files, document: Document) -> bytes:
    put(workspace, document, path=RelPath.parse("link"))
    return NEW


def create(workspace: Files, document: Document) -> bytes:
    workspace.create(RelPath.parse("d/new"), NEW)
    return OLD


def create_deep(workspace: Files, document: Document) -> bytes:
    workspace.create(RelPath.parse("d/a/b/new"), NEW)
    return OLD


def tree(root: Path) -> dict[str, bytes]:
    """Every file and directory by its name, with its bytes."""
    found = sorted(root.rglob("*"))
    return {str(p.relative_to(root)): p.read_bytes() if p.is_file() else b"" for p in found}


@pytest.mark.parametrize(
    ("durability", "links", "number", "operation"),
    spread(
        ("fast", "full"),
        (1, 2),
        NUMBERS,
        (edit, edit_with_kept, edit_through_link, create, create_deep, remove),
        of=7,
    ),
)
def test_each_call_fails_in_turn(
    tmp_path: Path,
    operation: Callable[[Files, Document], bytes | None],
    number: int,
    links: int,
    durability: Durability,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    faults = Faults(monkeypatch)
    reached: set[str] = set()
    for fail_at in range(1, 200):
        root = tmp_path / str(fail_at)
        (root / "d").mkdir(parents=True)
        (root / "d" / "f").write_bytes(OLD)
        (root / "link").symlink_to("d/f")
        give_xattr(root / "d" / "f")
        linked(root, links)
        before = tree(root)
        handles = len(os.listdir("/dev/fd"))
        with open_at(root, durability) as workspace:
            document = workspace.read(F)
            faults.start(fail_at, number)
            content, reason = attempted(operation, workspace, document)
            faults.stop()
        if reason:
            assert number, faults.failed
            assert reason.startswith(errno.errorcode[number]), faults.failed
            assert tree(root) == before, faults.failed
        else:
            assert temps(root) == [], faults.failed
            assert ((root / "d" / "f").read_bytes() if content else None) == content
            assert tree(root) != before, faults.failed
        assert len(os.listdir("/dev/fd")) == handles, faults.failed
        reached.add(faults.failed)
        if not faults.failed:
            break
    assert "" in reached
    assert ("sync" in reached) == (durability == "full")
    assert "write" in reached or operation is remove


def give_xattr(path: Path) -> None:
    """One extended attribute, where there are such."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setxattr(path, "user.copydesk.test", b"1")


def attempted(
    operation: Callable[[Files, Document], bytes | None], workspace: Files, document: Document
) -> tuple[bytes | None, str]:
    """What the file holds now, or why the system refused."""
    try:
        return operation(workspace, document), ""
    except Failed as refusal:
        return None, refusal.reason


def test_what_is_not_put_back_says_so(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.link(here / "d" / "f", here / "g")
    kept: list[bytes] = []
    calls: list[int] = []
    write = _os.write

    def full(fd: int, data: bytes | memoryview) -> int:
        calls.append(fd)
        if len(calls) == 1:
            return write(fd, data[:7])
        raise OSError(errno.EIO, "")

    with open_at(here) as workspace:
        document = workspace.read(F)
        monkeypatch.setattr(_os, "write", full)
        with pytest.raises(NotPutBack):
            put(workspace, document, before=kept.append)
    assert kept == [OLD]


@pytest.mark.parametrize("links", [1, 2])
def test_a_real_limit_of_the_file_size(here: Path, links: int) -> None:
    linked(here, links)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with open_at(here) as workspace:
        document = workspace.read(F)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(OLD) + 1000, limits[1]))
        try:
            with pytest.raises(Failed) as caught:
                put(workspace, document, [bytes(len(OLD) + 5000)])
            with pytest.raises(Failed):
                workspace.create(RelPath.parse("d/x/new"), bytes(len(OLD) + 5000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            signal.signal(signal.SIGXFSZ, handler)
    assert caught.value.reason == f"EFBIG: {os.strerror(errno.EFBIG)}"
    assert (here / "d" / "f").read_bytes() == OLD
    assert os.listdir(here / "d") == ["f"]


@ROOT
def test_a_directory_that_one_may_not_write(here: Path) -> None:
    def work() -> None:
        with open_at(here) as workspace:
            document = workspace.read(F)
            with pytest.raises(Failed, match="EACCES"):
                put(workspace, document)
            with pytest.raises(Failed, match="EACCES"):
                workspace.create(RelPath.parse("d/new"), b"")

    as_nobody(here, work, mode=0o755)
    assert tree(here) == {"d": b"", "d/f": OLD}


# Being killed


@pytest.mark.slow
@pytest.mark.parametrize("kills", first(5, 80))
@pytest.mark.parametrize("durability", ["fast", "full"])
def test_killed_at_any_instant(here: Path, durability: Durability, kills: int) -> None:
    chance = random.Random(kills)
    file = here / "d" / "f"
    sizes = (300_000, 1_000, 50_000)
    file.write_bytes(b"a" * sizes[0])
    for _ in range(kills):
        ready, is_ready = os.pipe()
        child = os.fork()
        if child == 0:
            write_without_end(here, durability, sizes, is_ready)
        os.read(ready, 1)
        time.sleep(chance.random() * 0.004)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ready)
        os.close(is_ready)
        data = file.read_bytes()
        assert len(set(data)) == 1
        assert len(data) in sizes
        for name in set(os.listdir(here / "d")) - {"f"}:
            created = (here / "d" / name).read_bytes()
            assert is_temp(name.encode()) or (name.startswith("new-") and created == NEW), name
    (here / "d" / ".copydesk-0123456789ab-new.tmp").write_bytes(b"")
    left, later = len(temps(here)), time.time_ns() + 10**9
    with open_at(here) as workspace:
        assert workspace.sweep(RelPath.parse("d"), 0, {}) == (0, ())
        assert workspace.sweep(RelPath.parse("d"), later, {}) == (left, ())
    assert temps(here) == []


def write_without_end(root: Path, durability: Durability, sizes: tuple[int, ...], go: int) -> None:
    try:
        with open_at(root, durability) as workspace:
            turn = 0
            while True:
                document = workspace.read(F)
                put(workspace, document, [b"abc"[turn % 3 : turn % 3 + 1] * sizes[turn % 3]])
                workspace.create(RelPath.parse(f"d/new-{os.getpid()}-{turn}"), NEW)
                turn += 1
                os.write(go, b"x")
    finally:
        os._exit(1)


@each_row("at", [0, sizes.BLOCK - 1, sizes.BLOCK, 2 * sizes.BLOCK + 6])
def test_the_old_bytes_are_compared_to_their_end(tmp_path: Path, at: int) -> None:
    """Another program writes a byte in place, in a file that is looked at in parts."""
    data = b"x" * (2 * sizes.BLOCK + 7)
    (tmp_path / "f").write_bytes(data)
    with closing(Root(str(tmp_path))) as root, open(tmp_path / "f", "r+b", 0) as file:
        stamp = Stamp.of(os.fstat(file.fileno()), time.time_ns())
        target = Target(root.place(RelPath.parse("f")), file.fileno(), stamp, "")
        target.content = data
        assert target.holds_content()
        os.pwrite(file.fileno(), b"y", at)
        assert not target.holds_content()
