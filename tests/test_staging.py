"""Writes that are ready and not yet done: committed, put back, or gone without a trace."""

from __future__ import annotations

import errno
import gc
import hashlib
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from copydesk.errors import FileExists, FileNotFound, NotAFile
from copydesk.store import _os
from copydesk.store.contents import is_temp
from copydesk.store.files import Files, StagedWrite
from copydesk.store.protocol import Durability, TargetMoved
from copydesk.text.relpath import RelPath
from support.lacking import needs

OLD, NEW = b"old " * 2500, b"the new bytes " * 900
F, DEEP = RelPath.parse("d/f"), RelPath.parse("n/e/w")
SHA = hashlib.sha256(NEW).hexdigest()


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").write_bytes(OLD)
    (tmp_path / "d" / "f").chmod(0o640)
    return tmp_path


def tree(root: Path) -> dict[str, tuple[int, bytes]]:
    """Every file and folder with its mode and bytes."""
    found = sorted(root.rglob("*"))
    return {
        str(p.relative_to(root)): (p.lstat().st_mode, p.read_bytes() if p.is_file() else b"")
        for p in found
    }


Stage = Callable[[Files], AbstractContextManager[StagedWrite]]


def change(workspace: Files, *, digested: bool = False) -> AbstractContextManager[StagedWrite]:
    document = workspace.read(F)
    digest = hashlib.sha256(document.data).hexdigest()
    return workspace.stage(
        F, document.stamp, digest, [NEW], before_in_place=lambda old: None, digested=digested
    )


def new(workspace: Files) -> AbstractContextManager[StagedWrite]:
    return workspace.stage_new(DEEP, NEW)


CASES = [
    pytest.param(change, 1, (), id="rename"),
    pytest.param(change, 1, ("rename_exchange",), id="without exchange"),
    pytest.param(change, 1, ("open_unnamed",), id="without unnamed files"),
    pytest.param(change, 1, ("lease",), id="without leases"),
    pytest.param(change, 2, (), id="in place"),
    pytest.param(new, 1, (), id="new"),
    pytest.param(new, 1, ("open_unnamed",), id="new with a temporary name"),
    pytest.param(new, 1, ("open_unnamed", "rename_no_replace"), id="new by a link"),
    pytest.param(new, 1, ("open_unnamed", "rename_no_replace", "link"), id="new without any"),
]
cases = pytest.mark.parametrize(("stage", "links", "lacking"), CASES)
durabilities = pytest.mark.parametrize("durability", ["fast", "full"])


def prepare(
    here: Path, links: int, lacking: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file with so many names, on a system without some calls."""
    if links == 2:
        os.link(here / "d" / "f", here / "g")

    def missing(*args: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    for name in lacking:
        monkeypatch.setattr(_os, name, missing if name != "lease" else lambda fd, kind: None)


def written(here: Path, stage: Stage) -> Path:
    return here / str(F if stage is change else DEEP)


@pytest.fixture(scope="module")
def collected() -> None:
    """What earlier modules left is not looked at again by the collection of each test."""
    gc.collect()
    gc.freeze()


@pytest.mark.usefixtures("collected")
@cases
@durabilities
def test_what_is_not_committed_is_gone(
    here: Path,
    stage: Stage,
    links: int,
    lacking: tuple[str, ...],
    durability: Durability,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prepare(here, links, lacking, monkeypatch)
    before = tree(here)
    gc.collect()  # what an earlier test left open is not counted
    handles = len(os.listdir("/dev/fd"))
    with Files(here, durability=durability) as workspace, stage(workspace):
        assert (here / "d" / "f").read_bytes() == OLD
    assert tree(here) == before
    assert len(os.listdir("/dev/fd")) == handles


@cases
@durabilities
def test_what_is_committed_is_there(
    here: Path,
    stage: Stage,
    links: int,
    lacking: tuple[str, ...],
    durability: Durability,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prepare(here, links, lacking, monkeypatch)
    inode = (here / "d" / "f").stat().st_ino
    with Files(here, durability=durability) as workspace:
        with stage(workspace) as staged:
            staged.commit()
            stamp = staged.stamp()
            assert written(here, stage).read_bytes() == NEW
        assert workspace.read(F if stage is change else DEEP).stamp == stamp
    assert not [name for name in tree(here) if is_temp(Path(name).name.encode())]
    if stage is change:
        found = (here / "d" / "f").stat()
        assert found.st_mode & 0o777 == 0o640
        assert (found.st_ino == inode) == (links == 2)


@cases
@durabilities
def test_what_is_put_back_is_as_it_was(
    here: Path,
    stage: Stage,
    links: int,
    lacking: tuple[str, ...],
    durability: Durability,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prepare(here, links, lacking, monkeypatch)
    before = tree(here)
    inode = (here / "d" / "f").stat().st_ino
    with Files(here, durability=durability) as workspace, stage(workspace) as staged:
        staged.commit()
        staged.put_back(SHA)
    assert tree(here) == before
    exchanges = _os.offers.exchange and "rename_exchange" not in lacking
    is_same = (here / "d" / "f").stat().st_ino == inode
    assert is_same == (exchanges or stage is not change or links == 2)


@needs("leases")
def test_the_old_file_is_not_swept_away_while_its_writer_lives(here: Path) -> None:
    before = tree(here)
    with Files(here, durability="fast") as workspace, change(workspace) as staged:
        staged.commit()
        assert workspace.sweep(F.parent, 1 << 62, {}) == (0, ())
        staged.put_back(SHA)
    assert tree(here) == before


@needs("exchange")
def test_the_old_file_may_be_removed_meanwhile(here: Path) -> None:
    """What is kept for the way back looks like a thing that was left; it is copied then."""
    before = tree(here)
    with Files(here, durability="fast") as workspace, change(workspace) as staged:
        staged.commit()
        (left,) = (here / "d").glob(".copydesk-*.tmp")
        left.unlink()
        staged.put_back(SHA)
    assert tree(here) == before


DEEDS: list[Callable[[Path], object]] = [
    lambda file: file.write_bytes(b"theirs"),
    lambda file: file.write_bytes(bytes(len(file.read_bytes()))),
    lambda file: file.unlink(),
    lambda file: (file.parent / "x").write_bytes(NEW) and (file.parent / "x").replace(file),
    lambda file: file.unlink() or file.mkdir(),  # type: ignore[func-returns-value]
    lambda file: file.unlink() or file.symlink_to("x"),  # type: ignore[func-returns-value]
    lambda file: os.link(file, file.parent / "y"),
]


@pytest.mark.parametrize("deed", range(len(DEEDS)))
@pytest.mark.parametrize(("stage", "links"), [(change, 1), (change, 2), (new, 1)])
def test_what_another_wrote_since_is_not_put_back(
    here: Path, deed: int, stage: Stage, links: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(here, links, (), monkeypatch)
    with Files(here, durability="fast") as workspace, stage(workspace) as staged:
        staged.commit()
        DEEDS[deed](written(here, stage))
        theirs = tree(here)
        if links == 2 and not (here / "d" / "f").exists():
            return  # the other name has what was written
        with pytest.raises(TargetMoved):
            staged.put_back(SHA)
        assert {k: v for k, v in tree(here).items() if not is_temp(Path(k).name.encode())} == {
            k: v for k, v in theirs.items() if not is_temp(Path(k).name.encode())
        }


@pytest.mark.parametrize("deed", range(len(DEEDS)))
@pytest.mark.parametrize("moment", ["before", "at the last"])
def test_a_target_that_moves_is_left_alone(
    here: Path, deed: int, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between ready and done; and in the very moment between the last look and the rename."""
    file = here / "d" / "f"
    exchange = _os.rename_exchange

    def late(*args: object) -> None:
        monkeypatch.setattr(_os, "rename_exchange", exchange)
        DEEDS[deed](file)
        theirs.update(tree(here))
        exchange(*args)  # type: ignore[arg-type]

    theirs: dict[str, tuple[int, bytes]] = {}
    with Files(here, durability="fast") as workspace, change(workspace) as staged:
        if moment == "before":
            DEEDS[deed](file)
            theirs.update(tree(here))
        else:
            monkeypatch.setattr(_os, "rename_exchange", late)
        with pytest.raises(TargetMoved):
            staged.commit()
    ours = [name for name in theirs if is_temp(Path(name).name.encode())]
    assert tree(here) == {name: what for name, what in theirs.items() if name not in ours}


@pytest.mark.parametrize(
    ("deed", "error"),
    [
        (lambda file: file.write_bytes(b"theirs"), FileExists),
        (lambda file: file.mkdir(), NotAFile),
        (lambda file: file.symlink_to("x"), NotAFile),
    ],
)
def test_a_name_that_is_taken_meanwhile(
    here: Path, deed: Callable[[Path], object], error: type[Exception]
) -> None:
    with Files(here, durability="fast") as workspace, new(workspace) as staged:
        deed(here / "n/e/w")
        theirs = tree(here)
        with pytest.raises(error):
            staged.commit()
    ours = [name for name in theirs if is_temp(Path(name).name.encode())]
    assert tree(here) == {name: what for name, what in theirs.items() if name not in ours}


@pytest.mark.parametrize("digested", [True, False])
def test_the_digest_is_there_when_it_was_asked_for(here: Path, digested: bool) -> None:
    with Files(here, durability="fast") as workspace:
        with change(workspace, digested=digested) as staged:
            assert staged.digest == (SHA if digested else "")
        assert workspace.digest(F)[2] == hashlib.sha256(OLD).hexdigest()
        with pytest.raises(FileNotFound):
            workspace.digest(DEEP)


def test_what_was_left_of_one_file_is_swept(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of another file in the folder stays: somebody may be writing it."""
    prepare(here, 1, ("open_unnamed",), monkeypatch)
    (here / "d" / "other").write_bytes(OLD)
    with Files(here, durability="fast") as workspace, change(workspace):
        assert workspace.sweep_for(RelPath.parse("d/other"), ()) == 0
        assert workspace.sweep_for(RelPath.parse("none/other"), ()) == 0
        assert workspace.sweep_for(F, ()) == 1
        assert workspace.sweep_for(F, ()) == 0
