"""Narrow places of the write path: what happens late, by halves, or beside somebody else's doing."""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from copydesk.app import config as config_module
from copydesk.app.config import Config, LiveConfig, MemberConfig, load
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.desk.gates import Checks
from copydesk.store import _os
from copydesk.store import files as writes
from copydesk.store.threads import LockQueues
from test_group_recovery import ALL, APPLY, FAST, forked, plan
from test_locks import child

Facts = dict[str, Any]
SECRET = "secret/plan.txt"
MEMBERS = {
    "admin": MemberConfig(),
    "b": MemberConfig({"no_read_dirs": ("secret",), "no_write_dirs": ("secret",)}),
}


@contextmanager
def workspace(root: Path, **settings: Any) -> Iterator[OpenWorkspace]:
    with open_workspace(str(root), Config(durability="fast", **settings)) as opened:
        yield opened


def call(opened: OpenWorkspace, tool: str, by: str = "local", **arguments: object) -> Facts:
    return dict(opened.call(by, tool, arguments).data)


def told(opened: OpenWorkspace, tool: str, by: str = "local", **arguments: object) -> str:
    return opened.call(by, tool, arguments).text


def written(root: Path, *names: str) -> None:
    """Files of one line each."""
    for name in names:
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("one\n")


# What is in doubt


def test_a_write_in_doubt_is_not_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have been made, so a plan for it would make it twice."""
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    broken = False

    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "broken")

    def after(real: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *a, **named: refused() if broken else real(*a, **named)

    def flushed(fd: int) -> None:
        nonlocal broken
        broken = os.path.isdir(f"/proc/self/fd/{fd}")
        (refused if broken else os.fsync)(fd)

    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("descriptors have no paths here")
    with open_workspace(str(tmp_path), Config(durability="full")) as opened:
        told(opened, "read_file", path="a.txt")
        monkeypatch.setattr(_os, "sync", flushed)
        for name in ("rename_exchange", "open_beneath", "open_read"):
            monkeypatch.setattr(_os, name, after(getattr(_os, name)))
        change = {"path": "a.txt", "content": "three\n", "apply": "auto"}
        answer = call(opened, "prepare_file_append", **change)
        broken = False
        monkeypatch.undo()
        assert answer["status"] == "error", answer
        assert "hunk_id" not in answer
        assert not opened.desk.review.pending(opened.member("local"))


# A move that can only be made by halves


def test_a_refused_move_leaves_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a folder's files may be read and linked, but not removed."""
    (tmp_path / "ro").mkdir()
    (tmp_path / "ro/x.txt").write_text("x\n")
    unlink = _os.unlink

    def cannot(*_: object) -> None:
        raise OSError(errno.EACCES, "no")

    def kept(name: bytes, *, dir_fd: int | None = None) -> None:
        cannot() if name == b"x.txt" else unlink(name, dir_fd=dir_fd)

    with workspace(tmp_path) as opened:
        hunk = plan(opened, "prepare_file_move", path="ro/x.txt", to="y.txt")
        monkeypatch.setattr(_os, "rename_no_replace", cannot)
        monkeypatch.setattr(_os, "unlink", kept)
        answer = call(opened, APPLY, hunk_id=hunk)
        monkeypatch.undo()
        assert answer["status"] == "error"
    assert (tmp_path / "ro/x.txt").stat().st_nlink == 1
    assert not (tmp_path / "y.txt").exists()


def test_a_taken_target_of_a_move_is_told_with_its_plan(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text(f"{name}\n")
    with workspace(tmp_path) as opened:
        edit = plan(opened, "prepare_file_append", path="a", content="x\n")
        move = plan(opened, "prepare_file_move", path="b", to="c")
        (tmp_path / "c").write_text("theirs\n")
        answer = call(opened, ALL, hunk_ids=[edit, move])
        rows = {row["hunk_id"]: row for row in answer["hunks"]}
        assert rows[move]["error"] == "FILE_EXISTS", answer
        assert "error" not in rows[edit]
    assert (tmp_path / "a").read_text() == "a\n"


# Recovery of groups


def dies_at_move(number: int) -> Callable[[OpenWorkspace], None]:
    def die(opened: OpenWorkspace) -> None:
        real, count = writes._move, 0  # pyright: ignore[reportPrivateUsage]

        def counted(*arguments: Any) -> Any:
            nonlocal count
            count += 1
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments)

        writes._move = counted  # pyright: ignore[reportPrivateUsage]

    return die


def test_a_lost_group_of_many_moves_is_put_back(tmp_path: Path) -> None:
    names = [f"f{at}" for at in range(12)]
    for name in names:
        (tmp_path / name).write_text(name)
    with open_workspace(str(tmp_path), FAST) as opened:
        ids = [plan(opened, "prepare_file_move", path=name, to=f"g/{name}") for name in names]
    assert forked(tmp_path, ids, dies_at_move(len(names)))
    with open_workspace(str(tmp_path), FAST) as opened:
        opened.recovery.run()
        assert not opened.journal.in_doubt()
        assert {entry.state for entry in opened.journal.entries()} == {"failed"}
    assert sorted(path.name for path in tmp_path.iterdir() if path.name[0] != ".") == sorted(names)


def test_a_file_named_as_a_step_is_recovered_by_itself(tmp_path: Path) -> None:
    for name in ("a", "move b", "c"):
        (tmp_path / name).write_text(f"{name}\n")
    with open_workspace(str(tmp_path), FAST) as opened:
        ids = [
            plan(opened, "prepare_file_append", path="move b", content="x\n"),
            plan(opened, "prepare_file_move", path="a", to="b"),
            plan(opened, "prepare_file_move", path="c", to="d"),
        ]
    assert forked(tmp_path, ids, dies_at_move(2))
    with open_workspace(str(tmp_path), FAST) as opened:
        opened.recovery.run()
        assert {entry.state for entry in opened.journal.entries()} == {"failed"}
    assert (tmp_path / "move b").read_text() == "move b\n"
    assert (tmp_path / "a").exists()


# Rights


@pytest.mark.parametrize("direct", [False, True])
def test_rights_that_are_taken_away_while_checks_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, direct: bool
) -> None:
    settings = tmp_path / "copydesk.toml"
    settings.write_text('durability = "fast"\n')
    (tmp_path / "a.py").write_text("x = 1\n")
    judge = Checks.judge

    def slowly(self: Checks, *edited: Any) -> Any:
        settings.write_text('durability = "fast"\n[members.local]\nno_write_dirs = ["**"]\n')
        return judge(self, *edited)

    with open_workspace(str(tmp_path)) as opened:
        hunk = plan(opened, "prepare_file_append", path="a.py", content="y = 2\n")
        monkeypatch.setattr(Checks, "judge", slowly)
        if direct:
            new = {"path": "b.py", "content": "y = 2\n"}
            answer = told(opened, "create_new_file", **new)
        else:
            answer = told(opened, APPLY, hunk_id=hunk)
        assert "ACCESS_DENIED" in answer, answer
    assert (tmp_path / "a.py").read_text() == "x = 1\n"
    assert not (tmp_path / "b.py").exists()


def test_settings_with_times_in_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second change within the second leaves the stamp as it was."""
    file = tmp_path / "copydesk.toml"
    file.write_text('[members.local]\nwrite_dirs = ["a"]\n')
    second = 10**9
    changed = time.time_ns() // second * second
    monkeypatch.setattr(config_module.time, "time_ns", lambda: changed + second // 2)
    monkeypatch.setattr(config_module, "_stamps", lambda paths: ((1, 2, 3, changed, changed),) * 2)
    live = LiveConfig(str(tmp_path), load(str(tmp_path)))
    live.now()
    file.write_text('[members.local]\nwrite_dirs = ["b"]\n')
    assert live.now().of_member("local").lists["write_dirs"] == ("b",)


@pytest.mark.parametrize("how", ["there", "locked"])
def test_the_undo_of_a_move_tells_nothing_of_a_hidden_path(tmp_path: Path, how: str) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "pub").mkdir()
    (tmp_path / SECRET).write_text("s\n")
    with ExitStack() as held, workspace(tmp_path, members=MEMBERS, lock_seconds=1) as opened:
        moved = call(opened, "prepare_file_move", "admin", path=SECRET, to="pub/x.txt")
        done = call(opened, APPLY, "admin", hunk_id=moved["hunk_id"])
        assert done["status"] == "ok"
        if how == "there":
            (tmp_path / SECRET).write_text("another secret\n")
        else:
            held.enter_context(other_thread_holds(opened, SECRET))
        for entry in opened.journal.entries():
            said = told(opened, "undo_file_modification", "b", edit_id=entry.edit_id)
            assert "size_bytes" not in said, said
            assert "BUSY" not in said, said
            assert "FILE_EXISTS" not in said, said


def other_thread_holds(opened: OpenWorkspace, path: str) -> AbstractContextManager[None]:
    return in_another_thread(opened.queues.lock(path, (0, "z"), ("admin", "edit")))


@contextmanager
def in_another_thread(held: AbstractContextManager[object]) -> Iterator[None]:
    """What it holds until the end."""
    has, over = threading.Event(), threading.Event()

    def hold() -> None:
        with held:
            has.set()
            over.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    has.wait()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.slow
def test_the_recovery_of_a_group_names_no_other_file_of_it(tmp_path: Path) -> None:
    written(tmp_path, "a.txt", SECRET)
    settings = Config(durability="fast", members=MEMBERS, lock_seconds=1)
    with open_workspace(str(tmp_path), settings) as opened:
        ids = [
            call(opened, "prepare_file_append", "admin", path=name, content="x\n")["hunk_id"]
            for name in ("a.txt", SECRET)
        ]
    if not (pid := os.fork()):
        with suppress(BaseException):
            opened = open_workspace(str(tmp_path), settings)
            exchange, count = _os.rename_exchange, 0

            def dies(*arguments: Any) -> Any:
                nonlocal count
                count += 1
                return os.kill(os.getpid(), 9) if count == 2 else exchange(*arguments)

            _os.rename_exchange = dies
            call(opened, ALL, "admin", hunk_ids=ids)
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    with open_workspace(str(tmp_path), settings, recover=False) as opened:
        assert opened.journal.in_doubt()
        with other_thread_holds(opened, SECRET):
            said = told(opened, "create_new_file", "b", path="a.txt", content="x\n")
        assert "BUSY" in said
        assert "secret" not in said, said


# Locks


def take(queues: LockQueues) -> None:
    with queues.lock("a.txt", (1, "")):
        pass


def test_a_child_has_none_of_the_turns_that_other_threads_had() -> None:
    queues = LockQueues(seconds=0.2)
    with in_another_thread(queues.lock("a.txt", (0, ""))):
        assert child(lambda: take(queues)) == 0


@pytest.mark.slow
def test_a_child_does_not_wait_for_a_thread_that_looked_at_the_queue(tmp_path: Path) -> None:
    queues = LockQueues(seconds=1)
    has, over = threading.Event(), threading.Event()

    def look() -> None:
        with queues._free:  # pyright: ignore[reportPrivateUsage]
            has.set()
            over.wait(0.3)

    thread = threading.Thread(target=look)
    thread.start()
    has.wait()
    assert child(lambda: take(queues)) == 0
    thread.join()


@pytest.mark.slow
def test_a_keyboard_interrupt_leaves_no_queue_locked() -> None:
    queues = LockQueues()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for at in range(3_000):
            with suppress(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, 0.00005 + at % 7 * 0.00005)
                for _ in range(1_000):  # many times as long
                    with queues.lock("a", (0, "")):
                        pass
            assert not queues._lock.locked()  # pyright: ignore[reportPrivateUsage]
            queues.forget()  # a turn itself may be left, when Ctrl-C comes between two statements
    finally:
        signal.signal(signal.SIGALRM, before)


# Plans that end meanwhile


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sqlite", "redis"])
def test_a_plan_that_expires_while_it_waits_is_not_written(
    tmp_path: Path, store: str, request: pytest.FixtureRequest
) -> None:
    written(tmp_path, "a.txt")
    settings = Config(durability="fast", ttl_seconds=1, lock_seconds=9)
    if store == "redis":
        server = request.getfixturevalue("redis_server")
        settings = replace(server.config(server.fresh_name()), ttl_seconds=1, lock_seconds=9)
    answers: list[Facts] = []
    with open_workspace(str(tmp_path), settings) as opened:
        hunk = plan(opened, "prepare_file_append", path="a.txt", content="x\n")
        with other_thread_holds(opened, "a.txt"):
            apply = threading.Thread(
                target=lambda: answers.append(call(opened, APPLY, hunk_id=hunk))
            )
            apply.start()
            time.sleep(1.3)
        apply.join()
    assert answers[0]["error"] == "HUNK_NOT_FOUND", answers
    assert (tmp_path / "a.txt").read_text() == "one\n"


@pytest.mark.slow
def test_the_whole_wait_is_told_on_redis(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """The whole wait, not what was left of it for the last lock."""
    server = request.getfixturevalue("redis_server")
    settings = replace(server.config(server.fresh_name()), lock_seconds=2)
    written(tmp_path, *"ab")
    with (
        open_workspace(str(tmp_path), settings) as opened,
        open_workspace(str(tmp_path), settings) as other,
    ):
        ids = [plan(opened, "prepare_file_append", path=name, content="x\n") for name in "ab"]
        with other_thread_holds(other, "b"), ExitStack() as first:
            first.enter_context(other_thread_holds(other, "a"))
            threading.Timer(1.0, first.close).start()
            answer = call(opened, ALL, hunk_ids=ids)
        assert answer["waited_seconds"] == 2, answer
