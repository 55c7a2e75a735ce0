"""Rights, policies and tokens are those of the configuration file now, also for what runs."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest
from mcp import Client

from copydesk import Desk
from copydesk.app.config import Config, LiveConfig, load
from copydesk.app.mcp.http import live_tokens
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.edit.request import RangeEdit
from copydesk.errors import AccessDenied, ApprovalRequired, ConfigInvalid
from support.cost import spread
from support.mcp_transports import SECONDS, Raw, client_of, served, stdio_client
from support.review_page import Reader

ALL = "[members.local]\nwrite_dirs = []\n"
NONE = '[members.local]\nwrite_dirs = ["no"]\n'
TOKENS = '[members.ann]\ntoken = "aaa"\n[members.bob]\ntoken = "bbb"\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    found = tmp_path / "copydesk.toml"
    found.write_text(ALL)
    return found


@pytest.fixture
def opened(file: Path) -> Iterator[OpenWorkspace]:
    with open_workspace(str(file.parent)) as found:
        yield found


def in_place(file: Path, text: str) -> None:
    file.write_text(text)


def renamed(file: Path, text: str) -> None:
    other = file.with_name("other")
    other.write_text(text)
    os.replace(other, file)


def with_the_same_times(file: Path, text: str) -> None:
    """As on a disk whose clock does not move in between."""
    before = file.stat()
    file.write_text(text)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("change", [in_place, renamed, with_the_same_times])
def test_every_change_is_seen(file: Path, change: Callable[[Path, str], None]) -> None:
    live = LiveConfig(str(file.parent), load(str(file.parent)))
    for text in (NONE, ALL, NONE, ALL, NONE):
        change(file, text)
        assert live.now() == load(str(file.parent))
        assert live.now() is live.now(), "it is not read without need"


def test_what_a_stat_cannot_tell_is_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Same inode, size and times: a clock that stood still between two writes."""
    from copydesk.app import config

    now = file.stat().st_mtime_ns + 1
    monkeypatch.setattr(config.time, "time_ns", lambda: now)
    monkeypatch.setattr(config, "_stamps", lambda paths: ((1, 2, 3, now, now),) * 2)
    live = LiveConfig(str(file.parent), load(str(file.parent)))
    live.now()
    file.write_text(NONE)
    assert live.now().of_member("local").lists["write_dirs"] == ("no",)


def test_a_file_that_cannot_be_used_leaves_no_rights(file: Path, opened: OpenWorkspace) -> None:
    plan = opened.call("local", "prepare_file_append", {"path": "a.txt", "content": "x"})
    hunk = {"hunk_id": plan.fields["hunk_id"]}
    for text, told in (
        ('[members.local]\napproval = "nobody"\n', "members.local.approval"),
        ("not toml", "copydesk.toml"),
        (None, "copydesk.toml"),
    ):
        file.unlink() if text is None else file.write_text(text)
        for tool, given in (
            ("read_file", {"path": "a.txt"}),
            ("ripgrep_files", {"pattern": "one"}),
            ("apply_file_modification", hunk),
            ("Edit", {"path": "a.txt", "old_string": "one", "new_string": "1"}),
            ("write_file", {"path": "a.txt", "content": "x"}),
        ):
            answer = opened.call("local", tool, given)
            assert answer.is_error
            assert told in answer.text, answer.text
            assert "Nothing was read or written" in answer.text
        with pytest.raises(ConfigInvalid):
            opened.member("local")
    file.write_text(ALL)
    assert (file.parent / "a.txt").read_text() == "one\ntwo\nthree\n"
    assert not opened.call("local", "apply_file_modification", hunk).is_error


def test_a_file_that_appears_counts_and_another_source_does_not(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    project, own = tmp_path / "pyproject.toml", tmp_path / "copydesk.toml"
    given = {"path": "a.txt", "content": "x\n"}
    with open_workspace(str(tmp_path)) as opened:
        assert not opened.call("local", "write_file", given).is_error
        project.write_text('[tool.copydesk.members.local]\nwrite_dirs = ["no"]\n')
        assert "ACCESS_DENIED" in opened.call("local", "write_file", given).text
        own.write_text(ALL)
        assert not opened.call("local", "write_file", given).is_error
        own.unlink()  # what it said must not be undone by taking it away
        assert "copydesk.toml" in opened.call("local", "write_file", given).text
        own.write_text(ALL)
        assert not opened.call("local", "write_file", given).is_error


def test_what_cannot_change_is_told(
    file: Path, opened: OpenWorkspace, caplog: pytest.LogCaptureFixture
) -> None:
    opened.call("local", "list_dir", {"path": "."})
    file.write_text('lang = "zh"\nttl_seconds = 5\n' + NONE)
    with caplog.at_level(logging.WARNING, "copydesk"):
        opened.call("local", "list_dir", {"path": "."})
        opened.call("local", "list_dir", {"path": "."})
    (said,) = (one.getMessage() for one in caplog.records)
    assert said == "copydesk.toml: lang, ttl_seconds changed; restart copydesk to use it"
    assert opened.config.lang == "en"
    assert opened.config.of_member("local").lists["write_dirs"] == ("no",)


def test_the_configuration_that_a_program_gives_is_its_own(file: Path) -> None:
    with open_workspace(str(file.parent), Config(), shared=False) as opened:
        file.write_text(NONE)
        assert not opened.call("local", "write_file", {"path": "a.txt", "content": ""}).is_error


POLICIES = {
    NONE: "ACCESS_DENIED",
    '[members.local]\nno_write_file_ext_names = ["txt"]\n': "ACCESS_DENIED",
    '[members.local]\nread_dirs = ["no"]\n': "ACCESS_DENIED",
    '[members.local]\napproval = "human"\n': "APPROVAL_REQUIRED",
    "[members.local]\nself_lines = 0\n": "APPROVAL_REQUIRED",
    '[members.local]\nself_files = 0\n[members.local.approval_paths]\n"**" = "human"\n': (
        "APPROVAL_REQUIRED"
    ),
}


@pytest.mark.parametrize("text", POLICIES)
def test_rights_taken_away_while_a_call_waits(file: Path, opened: OpenWorkspace, text: str) -> None:
    """The gate asks once more, in the file's turn, right before the journal."""
    root, code = file.parent, POLICIES[text]
    edit = {"path": "a.txt", "range": "1", "content": "x\n"}
    made = [opened.call("local", "prepare_file_range_edit", edit).fields for _ in range(2)]
    plans = [str(one["hunk_id"]) for one in made]
    other = opened.call("local", "create_new_file", {"path": "b.txt", "content": "b\n"})
    calls: list[tuple[str, dict[str, object]]] = [
        ("apply_file_modification", {"hunk_id": plans[0]}),
        ("apply_file_modifications", {"hunk_ids": plans[1:]}),
        ("Edit", {"path": "a.txt", "old_string": "one", "new_string": "1"}),
        ("write_file", {"path": "a.txt", "content": "x\n"}),
        ("undo_file_modification", {"edit_id": other.fields["edit_id"]}),
    ]
    answers: list[Any] = []

    def ask(tool: str, given: dict[str, object]) -> None:
        answers.append(opened.call("local", tool, given))

    def waiting() -> int:
        return sum(len(queue.waiting) + 1 for queue in opened.queues._queues.values())  # pyright: ignore[reportPrivateUsage]

    with opened.queues.lock("a.txt", (0, "")), opened.queues.lock("b.txt", (0, "")):
        threads = [threading.Thread(target=ask, args=one) for one in calls]
        for thread in threads:
            thread.start()
        while waiting() < 2 + len(calls):
            threading.Event().wait(0.005)
        file.write_text(text)
    for thread in threads:
        thread.join(SECONDS)
    assert len(answers) == len(calls)
    for answer in answers:
        assert code in answer.text or "APPROVAL" in answer.text, answer.text
    assert (root / "a.txt").read_text() == "one\ntwo\nthree\n"
    assert (root / "b.txt").read_text() == "b\n"


def test_a_member_whose_section_is_removed_gets_no_more_rights(
    file: Path, opened: OpenWorkspace, caplog: pytest.LogCaptureFixture
) -> None:
    """Its limits hold until a restart; its token is gone at once."""
    file.write_text('[members.local]\nwrite_dirs = ["no"]\ntoken = "secret"\n')
    assert opened.config.members["local"].token == "secret"
    for others in ("", '[members.ann]\napproval = "human"\n', "[members.bob]\n"):
        file.write_text(others)
        answer = opened.call("local", "create_new_file", {"path": "n.txt", "content": "x"})
        assert answer.data["error"] == "ACCESS_DENIED"
        assert opened.config.members["local"].token is None
    assert caplog.text.count("local removed") == 1
    file.write_text(ALL)  # named again, it has what is said now
    answer = opened.call("local", "create_new_file", {"path": "n.txt", "content": "x"})
    assert answer.data["status"] == "ok"
    assert "local removed" in caplog.text


def test_auto_lines_and_the_library(file: Path, opened: OpenWorkspace) -> None:
    edit = {"path": "a.txt", "content": "x\n", "apply": "auto"}
    assert opened.call("local", "prepare_file_append", edit).fields["mode"] != "prepare_file_append"
    file.write_text("[members.local]\nauto_lines = 0\n")
    assert "auto_apply: declined" in opened.call("local", "prepare_file_append", edit).text
    with Desk(file.parent) as desk:
        plan = desk.prepare(RangeEdit(desk.path("a.txt"), "1", "x"))
        file.write_text('[members.local]\napproval = "human"\n')
        with pytest.raises(ApprovalRequired):
            desk.apply(plan.plan.id)
        file.write_text(NONE)
        with pytest.raises(AccessDenied):
            desk.apply(plan.plan.id)


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize(("mode", "wire"), spread(("auto", "legacy"), ("stdio", "http"), of=3))
async def test_a_running_server_takes_the_file_as_is(tmp_path: Path, mode: str, wire: str) -> None:
    own = tmp_path / "copydesk.toml"

    async def tell(client: Client) -> None:
        async def ask(tool: str, **given: str) -> str:
            answer = await client.call_tool(tool, given)
            return str(answer.content) if answer.is_error else "ok"

        for number, text, said in (
            (1, None, "ok"),
            (2, NONE, "ACCESS_DENIED"),
            (3, '[members.local]\napproval = "human"\n', "APPROVAL_REQUIRED"),
            (4, '[members.local]\napproval = "huma"\n', "members.local.approval"),
            (5, ALL, "ok"),
        ):
            if text is not None:
                own.write_text(text)
            assert said in await ask("create_new_file", path=f"new/{number}.txt", content="x\n")
            if number == 4:
                assert said in await ask("list_dir", path=".")
        assert sorted(os.listdir(tmp_path / "new")) == ["1.txt", "5.txt"]

    if wire == "stdio":
        async with stdio_client(tmp_path, mode) as client:
            await tell(client)
    else:
        own.write_text(ALL)
        with open_workspace(str(tmp_path)) as opened, served(opened, {}) as address:
            async with client_of(address, mode) as client:
                await tell(client)


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_tokens_come_and_go(file: Path, mode: str) -> None:
    root = file.parent
    file.write_text(TOKENS)
    with open_workspace(str(root)) as opened, served(opened, None) as address:
        async with client_of(address, mode, "aaa") as client:
            assert not (await client.call_tool("list_dir", {"path": "."})).is_error
            file.write_text(TOKENS.replace("aaa", "new"))
            with pytest.raises(Exception):  # noqa: B017, PT011 -- the library's own, by era
                await client.call_tool("list_dir", {"path": "."}, read_timeout_seconds=5)
        async with client_of(address, mode, "new") as client:
            assert not (await client.call_tool("list_dir", {"path": "."})).is_error
        file.write_text("")  # no token is left: nobody comes in, for there were some
        for headers in ({}, {"Authorization": "Bearer new"}):
            answer = httpx2.post(f"{address}/mcp", content=b"{}", headers=headers)
            assert answer.status_code == 401
        file.write_text("[members.x]\ntoken = 5\n")
        assert live_tokens(opened) == {}


@pytest.mark.slow
@pytest.mark.anyio
async def test_what_a_token_began_ends_with_it(file: Path) -> None:
    file.write_text(TOKENS)
    with open_workspace(str(file.parent)) as opened, served(opened, None) as address:
        ann = Raw(address, "legacy", Authorization="Bearer aaa")
        bob = Raw(address, "legacy", Authorization="Bearer bbb")
        streams = [
            one.http.stream("GET", "/mcp", headers={**one.headers, "Accept": "text/event-stream"})
            for one in (ann, bob)
        ]
        page = Reader(httpx2.Client(base_url=address, timeout=SECONDS), "bob")
        page.cookies = dict(page.post("/sign-in", {"token": "bbb"}).cookies.items())
        assert page.get("/").status_code == 200
        with streams[0] as of_ann, streams[1] as of_bob:
            assert (of_ann.status_code, of_bob.status_code) == (200, 200)
            file.write_text('[members.ann]\ntoken = "aaa"\n')
            with anyio.fail_after(SECONDS):
                with pytest.raises(httpx2.HTTPError):
                    await anyio.to_thread.run_sync(lambda: list(of_bob.iter_raw()))
            assert ann.call(5, "list_dir", {"path": "."})["result"]["isError"] is False
        assert bob.post(b"{}").status_code == 401
        assert page.get("/").status_code == 303


@pytest.mark.slow
def test_a_first_token_closes_the_door(file: Path) -> None:
    with open_workspace(str(file.parent)) as opened, served(opened, None) as address:
        assert httpx2.post(f"{address}/mcp", content=b"{}").status_code == 400
        file.write_text(TOKENS)
        assert httpx2.post(f"{address}/mcp", content=b"{}").status_code == 401
