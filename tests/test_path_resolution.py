"""Where paths lead below the root, with openat2 and without it."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from copydesk.errors import Failed, FileNotFound, InvalidPath, NotAFile, Refusal
from copydesk.store import _os
from copydesk.store.files import Files
from copydesk.store.paths import Root
from copydesk.store.protocol import TargetMoved
from copydesk.text.relpath import RelPath

# name: None for a directory, bytes for a file, str for what a symlink says ({root} is replaced)
LAYOUT: dict[str, bytes | str | None] = {
    "a": None,
    "a/b": None,
    "a/f": b"f",
    "a/b/g": b"g",
    "top": b"top",
    "to_f": "a/f",
    "to_dir": "a/b",
    "to_dir_slash": "a/b/",
    "to_file_slash": "a/f/",
    "to_root": ".",
    "a/up": "../top",
    "a/b/up2": "../../a/./b/../f",
    "to_link": "to_f",
    "a/via": "../to_dir/../f",
    "dangling": "a/none",
    "far_dangling": "none/at/all",
    "above_missing": "none/../a/f",
    "loop": "pool",
    "pool": "loop",
    "self": "self/x",
    "out": "../outside/secret",
    "out_dir": "../outside",
    "a/out_up": "../../outside/secret",
    "abs_out": "/etc/passwd",
    "abs_in": "{root}/a/f",
    "abs_root": "{root}",
    "abs_beside": "{root}-beside/secret",
    "abs_up": "{root}/../outside/secret",
    "abs_in_out": "{root}/out",
    "to_up": "a/..",
}


@pytest.fixture(params=["openat2", "walk"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if request.param == "walk":
        monkeypatch.setattr(_os.offers, "openat2", False)
    elif not _os.offers.openat2:
        pytest.skip("this kernel has no openat2")
    here = tmp_path / "root"
    here.mkdir()
    for outside in (tmp_path / "outside", tmp_path / "root-beside"):
        outside.mkdir()
        (outside / "secret").write_bytes(b"secret")
    for name, what in LAYOUT.items():
        if what is None:
            (here / name).mkdir()
        elif isinstance(what, bytes):
            (here / name).write_bytes(what)
        else:
            (here / name).symlink_to(what.format(root=os.path.realpath(here)))
    return here


def outcome(workspace: Files, path: str) -> str:
    """The real path and the content, or the refusal's code."""
    try:
        document = workspace.read(RelPath.parse(path))
    except Refusal as refusal:
        return refusal.code
    assert document.real == workspace.resolve(RelPath.parse(path))
    return f"{document.real}={document.data.decode()}"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("top", "top=top"),
        ("a/f", "a/f=f"),
        ("a/b/g", "a/b/g=g"),
        ("to_f", "a/f=f"),
        ("to_link", "a/f=f"),
        ("to_dir/g", "a/b/g=g"),
        ("to_dir_slash/g", "a/b/g=g"),
        ("to_root/to_root/top", "top=top"),
        ("a/up", "top=top"),
        ("a/b/up2", "a/f=f"),
        ("to_dir/up2", "a/f=f"),
        ("a/via", "a/f=f"),
        ("to_up/top", "top=top"),
        ("abs_in", "a/f=f"),
        ("abs_root/a/f", "a/f=f"),
        ("none", "FILE_NOT_FOUND"),
        ("a/none/x", "FILE_NOT_FOUND"),
        ("a/f/x", "FILE_NOT_FOUND"),
        ("to_f/x", "FILE_NOT_FOUND"),
        ("to_file_slash", "FILE_NOT_FOUND"),
        ("dangling", "FILE_NOT_FOUND"),
        ("far_dangling", "FILE_NOT_FOUND"),
        ("above_missing", "FILE_NOT_FOUND"),
        (".", "NOT_A_FILE"),
        ("a", "NOT_A_FILE"),
        ("to_dir", "NOT_A_FILE"),
        ("to_up", "NOT_A_FILE"),
        ("loop", "INVALID_PATH"),
        ("self", "INVALID_PATH"),
        ("out", "INVALID_PATH"),
        ("out_dir/secret", "INVALID_PATH"),
        ("a/out_up", "INVALID_PATH"),
        ("abs_out", "INVALID_PATH"),
        ("abs_beside", "INVALID_PATH"),
        ("abs_up", "INVALID_PATH"),
        ("abs_in_out", "INVALID_PATH"),
        ("x" * 300, "INVALID_PATH"),
        ("d/" * 3000 + "x", "INVALID_PATH"),
    ],
)
def test_where_a_path_leads(root: Path, path: str, expected: str) -> None:
    with Files(root) as workspace:
        assert outcome(workspace, path) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".", "."),
        ("none", "none"),
        ("to_dir/new/deep", "a/b/new/deep"),
        ("dangling", "a/none"),
        ("far_dangling", "none/at/all"),
        ("a/f/below", "a/f/below"),
        ("to_up", "."),
    ],
)
def test_what_is_missing_is_resolved_as_written(root: Path, path: str, expected: str) -> None:
    with Files(root) as workspace:
        assert str(workspace.resolve(RelPath.parse(path))) == expected


@pytest.mark.parametrize("path", ["out_dir/new", "out", "abs_out", "loop/x"])
def test_nothing_is_created_on_the_way_out(root: Path, path: str) -> None:
    with Files(root) as workspace, pytest.raises((InvalidPath, NotAFile)):
        workspace.create(RelPath.parse(path), b"x")
    assert os.listdir(root.parent / "outside") == ["secret"]


@pytest.mark.parametrize("links", [40, 41])
def test_forty_links_are_followed(root: Path, links: int) -> None:
    (root / "0").write_bytes(b"end")
    for number in range(links):
        (root / str(number + 1)).symlink_to(str(number))
    with Files(root) as workspace:
        expected = "0=end" if links == 40 else "INVALID_PATH"
        assert outcome(workspace, str(links)) == expected


def test_a_root_that_is_itself_reached_through_a_link(root: Path) -> None:
    alias = root.parent / "alias"
    alias.symlink_to(root)
    (root / "by_alias").symlink_to(alias / "a" / "f")
    with Files(alias) as workspace:
        assert workspace.root == os.path.realpath(root)
        assert outcome(workspace, "by_alias") == "a/f=f"
        assert outcome(workspace, "abs_in") == "a/f=f"


def test_a_link_through_a_name_that_is_not_utf8(root: Path) -> None:
    try:
        os.mkdir(os.fsencode(root) + b"/\xff")
    except OSError:
        pytest.skip("this file system takes only UTF-8 names")
    os.symlink(b"\xff/new", os.fsencode(root) + b"/bad")
    with Files(root) as workspace, pytest.raises(InvalidPath):
        workspace.resolve(RelPath.parse("bad"))


def test_no_handle_is_left_open(root: Path) -> None:
    def open_handles() -> int:
        return len(os.listdir("/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"))

    with Files(root, durability="fast") as workspace:
        before = open_handles()
        for path in LAYOUT:
            outcome(workspace, path)
            outcome(workspace, path + "/none/x")
        for path in ("a/f/x", "new/deep/x", "to_dir/n/x", "loop/x", "out_dir/x", "a"):
            try:
                workspace.create(RelPath.parse(path), b"")
            except Refusal:
                continue
        assert open_handles() == before


def test_a_root_that_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"")
    for path in (tmp_path / "f", tmp_path / "none"):
        with pytest.raises(Failed):
            Root(str(path))


SWAPPER = """
import os, random, sys, time
directory, aside, link = sys.argv[1:]
print("ready", flush=True)
while True:
    os.rename(directory, aside)
    os.rename(link, directory)
    os.rename(directory, link)
    os.rename(aside, directory)
    until = time.perf_counter() + random.random() * 0.003
    while time.perf_counter() < until:
        pass
"""


@contextmanager
def swapping(directory: Path, outside: Path) -> Generator[None]:
    """Another process swaps the directory for a link to outside and back, without end."""
    aside, link = directory.with_name("aside"), directory.with_name("link")
    link.symlink_to(outside)
    command = [sys.executable, "-c", SWAPPER, str(directory), str(aside), str(link)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


@pytest.mark.parametrize("writes", [100, pytest.param(2000, marks=pytest.mark.slow)])
def test_a_directory_swapped_for_a_link_lets_nothing_out(root: Path, writes: int) -> None:
    outside = root.parent / "outside"
    (outside / "g").write_bytes(b"outside")
    done = refused = 0
    path = RelPath.parse("a/b/g")
    with Files(root, durability="fast") as workspace, swapping(root / "a" / "b", outside):
        while done < writes or not refused:
            try:
                if done % 2:
                    edit(workspace, path, done)
                else:
                    add(workspace, done)
            except (InvalidPath, FileNotFound, TargetMoved):
                refused += 1
            else:
                done += 1
    assert sorted(os.listdir(outside)) == ["g", "secret"]
    assert (outside / "g").read_bytes() == b"outside"
    assert (outside / "secret").read_bytes() == b"secret"
    assert not [name for _, _, names in os.walk(root) for name in names if "copydesk" in name]


def edit(workspace: Files, path: RelPath, turn: int) -> None:
    document = workspace.read(path)
    assert document.data != b"outside"
    digest = hashlib.sha256(document.data).hexdigest()
    workspace.replace(
        path, document.stamp, digest, [b"%d" % turn], before_in_place=lambda old: None
    )


def add(workspace: Files, turn: int) -> None:
    workspace.create(RelPath.parse(f"a/b/new-{turn}"), b"new", make_parents=False)
