"""Reading, listing and near names below a root."""

from __future__ import annotations

import errno
import os
import socket
import threading
from pathlib import Path

import pytest

from copydesk.errors import Failed, FileNotFound, FileTooLarge, InvalidPath, NotAFile, Refusal
from copydesk.store import _os
from copydesk.store.files import Files
from copydesk.store.protocol import DirEntry
from copydesk.text.relpath import RelPath

LIMIT = 1000


@pytest.fixture
def here(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    (root / "dir").mkdir()
    (root / "dir" / "deep.txt").write_bytes(b"deep")
    (root / "f.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\xff")
    (root / "empty").write_bytes(b"")
    (root / "most").write_bytes(b"x" * LIMIT)
    (root / "more").write_bytes(b"x" * (LIMIT + 1))
    (root / "link").symlink_to("dir/deep.txt")
    os.mkfifo(root / "fifo")
    (root / "to_fifo").symlink_to("fifo")
    (root / "out").symlink_to("../none")
    return root


@pytest.fixture
def workspace(here: Path) -> Files:
    return Files(here, durability="fast", limit_bytes=LIMIT)


def test_it_is_what_the_layer_above_asks_for(workspace: Files) -> None:
    files: Files = workspace
    assert files.resolve(RelPath.parse("link")) == RelPath.parse("dir/deep.txt")


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("f.txt", b"\xef\xbb\xbfone\r\ntwo\xff"),
        ("empty", b""),
        ("most", b"x" * LIMIT),
        ("link", b"deep"),
        ("more", FileTooLarge(LIMIT + 1, LIMIT)),
        ("none", FileNotFound()),
        ("dir", NotAFile("directory")),
        (".", NotAFile("directory")),
        ("fifo", NotAFile("fifo")),
        ("to_fifo", NotAFile("fifo")),
        ("socket", NotAFile("socket")),
        ("device", NotAFile("character device")),
        ("out", InvalidPath("a symlink leads out of the workspace")),
    ],
)
def test_read(
    here: Path,
    workspace: Files,
    path: str,
    expected: bytes | Refusal,
    fast: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if path == "device":
        make_device(here / path)
    if path == "socket":
        make_socket(here, path)
    if not fast:
        monkeypatch.setattr(_os.offers, "openat2", False)
    where = RelPath.parse(path)
    if isinstance(expected, bytes):
        document = workspace.read(where)
        assert document.data == expected
        assert workspace.stat(where) == (document.real, document.stamp)
        with workspace.open_for_reading(where) as file:
            assert (file.real, file.stamp) == (document.real, document.stamp)
            assert os.read(file.fd, LIMIT + 1) == expected
        return
    with pytest.raises(type(expected)) as caught:
        workspace.read(where)
    assert caught.value.facts() == expected.facts()
    if not isinstance(expected, FileTooLarge):
        with pytest.raises(type(expected)) as caught:
            workspace.stat(where)
        assert caught.value.facts() == expected.facts()


def make_device(path: Path) -> None:
    try:
        os.mknod(path, 0o020600, os.makedev(1, 5))
    except OSError as refused:
        pytest.skip(f"may not make a device: {refused}")


def make_socket(directory: Path, name: str) -> None:
    before = os.getcwd()
    os.chdir(directory)  # a socket's name must be short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(name)
    finally:
        os.chdir(before)


@pytest.mark.parametrize(("writes", "is_read"), [(0, True), (1, True), (4, True), (5, False)])
def test_a_file_that_changes_while_it_is_read_is_read_again(
    here: Path, workspace: Files, writes: int, is_read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pread = _os.pread
    left = [writes]

    def interrupted(fd: int, count: int, offset: int) -> bytes:
        data = pread(fd, count, offset)
        if left[0]:
            left[0] -= 1
            (here / "f.txt").write_bytes(b"%d" % left[0] * (left[0] + 1))
        return data

    monkeypatch.setattr(_os, "pread", interrupted)
    path = RelPath.parse("f.txt")
    if is_read:
        assert workspace.read(path).data == (here / "f.txt").read_bytes()
    else:
        with pytest.raises(Failed, match="EBUSY"):
            workspace.read(path)


def test_a_file_that_may_not_be_opened(workspace: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(dir_fd: int, name: bytes, how: object = None) -> int:
        raise OSError(errno.EACCES, "")

    monkeypatch.setattr(_os, "open_beneath", refuse)
    monkeypatch.setattr(_os, "open_read", refuse)
    with pytest.raises(Failed) as caught:
        workspace.read(RelPath.parse("f.txt"))
    assert caught.value.facts() == {
        "operation": "open",
        "reason": f"EACCES: {os.strerror(errno.EACCES)}",
    }


def test_list_dir(here: Path, workspace: Files) -> None:
    (here / ".copydesk-0123456789ab.tmp").write_bytes(b"under way")
    (here / "中文.md").write_bytes(b"x")
    assert workspace.list_dir(RelPath.parse("."))[1] == (
        DirEntry("dir", "dir"),
        DirEntry("empty", "file", 0),
        DirEntry("f.txt", "file", 12),
        DirEntry("fifo", "other"),
        DirEntry("link", "symlink", link_target="dir/deep.txt"),
        DirEntry("more", "file", LIMIT + 1),
        DirEntry("most", "file", LIMIT),
        DirEntry("out", "symlink", link_target="../none"),
        DirEntry("to_fifo", "symlink", link_target="fifo"),
        DirEntry("中文.md", "file", 1),
    )


def test_names_that_are_not_utf8_are_shown_escaped(here: Path, workspace: Files) -> None:
    inside = os.fsencode(here / "dir")
    try:
        os.symlink(b"\xfe/\xe4", inside + b"/\xff\xfe")
    except OSError as refused:
        pytest.skip(f"this file system takes only UTF-8 names: {refused}")
    path = RelPath.parse("dir")
    shown = workspace.list_dir(path)[1][1]
    assert shown == DirEntry(r"\xff\xfe", "symlink", link_target=r"\xfe/\xe4")
    assert workspace.similar(path / r"\xff\xf") == (r"\xff\xfe",)


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("none", FileNotFound),
        ("dir/none/x", FileNotFound),
        ("f.txt", InvalidPath),
        ("fifo", InvalidPath),
        ("link", InvalidPath),
        ("out", InvalidPath),
    ],
)
def test_what_cannot_be_listed(workspace: Files, path: str, error: type[Refusal]) -> None:
    with pytest.raises(error):
        workspace.list_dir(RelPath.parse(path))


def test_a_link_to_a_directory_is_listed(here: Path, workspace: Files) -> None:
    (here / "to_dir").symlink_to("dir")
    real, entries = workspace.list_dir(RelPath.parse("to_dir"))
    assert (str(real), entries) == ("dir", (DirEntry("deep.txt", "file", 4),))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("f.tx", ("f.txt",)),
        ("dir/deap.txt", ("deep.txt",)),
        ("mort", ("most", "more")),
        ("qqqqq", ()),
        ("none/x", ()),
        ("f.txt/x", ()),
    ],
)
def test_similar(workspace: Files, path: str, expected: tuple[str, ...]) -> None:
    assert workspace.similar(RelPath.parse(path)) == expected


@pytest.mark.slow
def test_similar_looks_at_a_bounded_number_of_names(here: Path, workspace: Files) -> None:
    for number in range(600):
        (here / "dir" / f"a{number:03}").write_bytes(b"")
    assert workspace.similar(RelPath.parse("dir/a00x"))
    assert workspace.similar(RelPath.parse("dir/deep.tx")) == ()


def test_a_closed_workspace_refuses(workspace: Files) -> None:
    workspace.close()
    workspace.close()
    with pytest.raises(Failed):
        workspace.read(RelPath.parse("f.txt"))


def test_a_handle_is_closed_when_the_work_inside_fails(workspace: Files) -> None:
    path = RelPath.parse("f.txt")
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(KeyError), workspace.open_for_reading(path):
        raise KeyError
    assert len(os.listdir("/dev/fd")) == before


def test_many_threads(workspace: Files) -> None:
    errors: list[Exception] = []

    def work(number: int) -> None:
        path = RelPath.parse(f"dir/{number}")
        try:
            workspace.create(path, b"%d" % number)
            for _ in range(50):
                assert workspace.read(path).data == b"%d" % number
        except Exception as error:  # a thread has no other way to tell the test
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
