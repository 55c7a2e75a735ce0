"""Cancelled calls: not written when they were cancelled before, finished when after.

The clients are the SDK's own, in both eras, in process, on stdio and over HTTP; what the
calls wait for is a lock that another process could hold.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from mcp import Client

from copydesk import Desk
from copydesk.app.config import Config
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.edit.request import RangeEdit
from copydesk.errors import Cancelled, cancelled_by
from copydesk.store.threads import FileLocks, LockQueues
from support.cost import first
from support.mcp_calls import server_of
from support.mcp_transports import client_of, served, stdio_client

CALLS = 45
SECONDS = 60.0
LINES = "".join(f"line {i}\n" for i in range(CALLS))

Serving = Callable[[str], AbstractAsyncContextManager[Client]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text(LINES)
    return tmp_path


@pytest.fixture
def opened(root: Path) -> Iterator[OpenWorkspace]:
    with open_workspace(str(root), Config(durability="fast")) as found:
        yield found


@pytest.fixture
def held(opened: OpenWorkspace) -> Iterator[AbstractContextManager[None]]:
    """The lock of the file, as another process has it."""
    locks = FileLocks(str(Path(opened.root, ".copydesk/locks")))
    yield locks.hold("a.txt")
    locks.close()


@pytest.fixture(params=["in process", "stdio", "http"])
def serving(request: pytest.FixtureRequest, opened: OpenWorkspace, root: Path) -> Iterator[Serving]:
    if request.param == "in process":
        yield lambda mode: Client(server_of(opened), mode=mode)
    elif request.param == "stdio":
        yield lambda mode: stdio_client(root, mode)
    else:
        with served(opened, {}) as address:
            yield lambda mode: client_of(address, mode)


def edits(opened: OpenWorkspace) -> int:
    return len(opened.journal.entries())


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("mode", first("auto", "legacy"))
async def test_calls_that_are_cancelled_while_they_wait_are_not_written(
    serving: Serving,
    opened: OpenWorkspace,
    held: AbstractContextManager[None],
    root: Path,
    mode: str,
) -> None:
    answers: list[Any] = []
    async with serving(mode) as client:

        async def change(line: int, number: int) -> None:
            given = {"path": "a.txt", "old_string": f"line {line}\n", "new_string": f"X{number}\n"}
            answers.append(await client.call_tool("Edit", given))

        with held, anyio.fail_after(SECONDS):
            async with anyio.create_task_group() as group:
                for line in range(CALLS):
                    group.start_soon(change, line, line)
                for _ in range(3):  # answered after the others have come in
                    assert not (await client.call_tool("list_dir", {"path": "."})).is_error
                group.cancel_scope.cancel()
            # The lock is still held: a call that was cancelled does not wait for it.
            assert not (await client.call_tool("list_dir", {"path": "."})).is_error
        assert all("cancelled" in str(one.content) and one.is_error for one in answers)
        answers.clear()
        assert (root / "a.txt").read_text() == LINES
        await change(3, 333)  # who comes after them is served, and sees that nothing was written
        assert not answers[0].is_error, answers
    assert (root / "a.txt").read_text() == LINES.replace("line 3\n", "X333\n")
    assert edits(opened) == 1


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_call_that_is_cancelled_while_it_writes_is_finished_and_recorded(
    opened: OpenWorkspace, root: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    replace = opened.files.stage

    def slow(*args: Any, **named: Any) -> Any:
        begun.set()
        assert go_on.wait(SECONDS)
        return replace(*args, **named)

    monkeypatch.setattr(opened.files, "stage", slow)
    given = {"path": "a.txt", "old_string": "line 1\n", "new_string": "X\n"}
    async with Client(server_of(opened), mode=mode) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "Edit", given)
            assert await anyio.to_thread.run_sync(begun.wait, SECONDS)
            group.cancel_scope.cancel()
            go_on.set()
        listed = await client.call_tool("list_edits", {"path": "a.txt"})
        while not edits(opened):
            listed = await client.call_tool("list_edits", {"path": "a.txt"})
    assert "1 a.txt +1 -1" in str(listed.content)
    assert (root / "a.txt").read_text() == LINES.replace("line 1\n", "X\n")


@pytest.mark.parametrize("where", ["this process", "another process"])
def test_a_wait_for_a_lock_ends_on_cancellation(tmp_path: Path, where: str) -> None:
    locks, others = (FileLocks(str(tmp_path), seconds=3600.0) for _ in range(2))
    queues = LockQueues(locks, seconds=3600.0)
    stop, refused = threading.Event(), threading.Event()

    def waits() -> None:
        with cancelled_by(stop.is_set):
            try:
                with queues.lock("a", (1, "")):
                    pass
            except Cancelled:
                refused.set()

    thread = threading.Thread(target=waits)
    with queues.lock("a", (0, "")) if where == "this process" else others.hold("a"):
        thread.start()
        stop.set()
        assert refused.wait(SECONDS)
        thread.join(SECONDS)
    with cancelled_by(lambda: False), queues.lock("a", (2, "")):  # nobody holds it any more
        pass
    with others.hold("a"):
        pass


def test_a_wait_that_is_not_cancelled_gets_the_lock(tmp_path: Path) -> None:
    locks, others = FileLocks(str(tmp_path)), FileLocks(str(tmp_path))
    waiting, got = threading.Event(), threading.Event()

    def asked() -> bool:
        waiting.set()
        return False

    def waits() -> None:
        with cancelled_by(asked), locks.hold("a"):
            got.set()

    with others.hold("a"):
        thread = threading.Thread(target=waits)
        thread.start()
        assert waiting.wait(SECONDS)
        assert not got.is_set()
    assert got.wait(SECONDS)
    thread.join(SECONDS)


@pytest.mark.parametrize("shared", [False, True])
def test_a_program_cancels_what_its_threads_ask(root: Path, shared: bool) -> None:
    with Desk(root, shared=shared) as desk:
        plan = desk.prepare(RangeEdit(desk.path("a.txt"), "1", "new"))
        plans = [desk.prepare(RangeEdit(desk.path("a.txt"), str(n), "x")).plan.id for n in (3, 5)]
        made = desk.edit(RangeEdit(desk.path("a.txt"), "9", "y"), expected_old="line 8\n")
        before = (root / "a.txt").read_bytes()
        for cancelled in (
            lambda: desk.apply(plan.plan.id),
            lambda: desk.apply_all(*plans),
            lambda: desk.undo(made.edit_id),
            lambda: desk.batch("a.txt", [("line 7", "z")]),
            lambda: desk.create("new.txt", "x\n"),
        ):
            with cancelled_by(lambda: True), pytest.raises(Cancelled):
                cancelled()
            assert (root / "a.txt").read_bytes() == before
            assert not (root / "new.txt").exists()
            assert [edit.edit_id for edit in desk.history()] == [made.edit_id]
        assert desk.apply(plan.plan.id).context == "exact"
        assert {one.id for one in desk.pending()} == set(plans)


def test_what_was_decided_is_not_told_to_a_call_that_nobody_waits_for(root: Path) -> None:
    (root / "copydesk.toml").write_text('[members.ann]\napproval = "human"\n')
    with open_workspace(str(root)) as opened:
        given = {"path": "a.txt", "range": "1", "content": "x\n"}
        plan = opened.call("ann", "prepare_file_range_edit", given).fields["hunk_id"]
        opened.desk.review.reject(opened.member("local"), str(plan), "no, thanks")
        answer = opened.call("ann", "list_dir", {"path": "."}, cancelled=lambda: True)
        assert "no, thanks" not in answer.text
        assert "no, thanks" in opened.call("ann", "list_dir", {"path": "."}).text
