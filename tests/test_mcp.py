"""The MCP server, in process: every tool in both eras, resources, prompts, what may go wrong."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import mcp_types as t
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from copydesk.app import reference
from copydesk.app.reference import definitions
from copydesk.app.workspace import OpenWorkspace
from copydesk.tools.catalog import Context, Tool, ToolCall
from copydesk.tools.report import Answer
from support.cost import check_list_is_cheap, first
from support.mcp_calls import (
    CALLS,
    FILE,
    MODES,
    TEXT,
    call_each,
    call_of,
    fields_of,
    opened_at,
    plain_data,
    server_of,
    text_of,
)

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[OpenWorkspace]:
    with opened_at(tmp_path) as found:
        yield found


def add_tool(opened: OpenWorkspace, name: str, run: Any) -> None:
    """A tool for a test only, in the toolset ws_mod."""

    class Added(ToolCall):
        def run(self, context: Context, name: str) -> Answer:
            return run(context)

    opened.catalog.tools[name] = _Named(name, "ws_mod", Added)


class _Named(Tool):
    def description(self, lang: Any) -> str:
        return self.name

    def title(self, lang: Any) -> str:
        return self.name

    def described_schema(self, lang: Any) -> dict[str, Any]:
        return dict(self.schema)


def test_every_tool_has_a_row(opened: OpenWorkspace) -> None:
    assert [name for name in opened.catalog.tools if call_of(name) is None] == []
    assert [name for name in CALLS if name not in opened.catalog.tools] == []


@pytest.mark.parametrize("mode", first(*MODES))
async def test_each_tool_answers(opened: OpenWorkspace, tmp_path: Path, mode: str) -> None:
    async with Client(server_of(opened), mode=mode) as client:
        every = opened.catalog.tools.values()
        assert await call_each(client, tmp_path) == [t.name for t in every if not t.listed_as]


@pytest.mark.slow
@pytest.mark.parametrize("mode", first(*MODES))
async def test_each_tool_answers_in_text(opened: OpenWorkspace, tmp_path: Path, mode: str) -> None:
    async with Client(server_of(opened, structured=False), mode=mode) as client:
        await call_each(client, tmp_path, structured=False)


@pytest.mark.parametrize("structured", [False, True])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [name for name in CALLS if name.startswith("prepare_file_")])
async def test_either_form_alone_shows_all_of_a_plan(
    opened: OpenWorkspace, tmp_path: Path, name: str, mode: str, structured: bool
) -> None:
    """Clients hand a model the text alone, or the structured part alone when there is one."""
    (tmp_path / FILE).write_text(TEXT)
    async with Client(server_of(opened, structured=structured), mode=mode) as client:
        result = await client.call_tool(name, dict(CALLS[name]))
    assert (result.structured_content is not None) is structured
    data = result.structured_content or {}
    (hunk,) = [plan.id for plan in opened.pending("local")]
    diff = re.search(r"```diff\n(diff --git .*?)```", text_of(result), re.DOTALL)
    assert diff, "the text has the diff"
    assert re.search(rf"^hunk_id: {hunk}$", text_of(result), re.MULTILINE)
    of_lines = name not in ("prepare_file_move", "prepare_file_delete")  # those have the diff alone
    assert bool(re.search(r"^evidence\w*:$", text_of(result), re.MULTILINE)) is of_lines
    assert f'apply_file_modification({{"hunk_id": "{hunk}"}})' in text_of(result)
    if structured:
        assert data["hunk_id"] == hunk
        assert bool(data.get("evidence") or data.get("evidence_preview")) is of_lines
        assert data["diff"] == diff[1]
        assert any(f'"hunk_id": "{hunk}"' in step for step in data["next"])


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
async def test_tools_are_listed_exactly(opened: OpenWorkspace, mode: str) -> None:
    async with Client(server_of(opened, lang="zh"), mode=mode) as client:
        listed = (await client.list_tools()).tools
    rows = [opened.catalog.tools[tool.name] for tool in listed]
    written = definitions(rows, "mcp", "zh")
    for tool, row, one in zip(listed, rows, written, strict=True):
        assert tool.input_schema == one["inputSchema"]
        assert tool.description == row.description("zh")
        hints = tool.annotations or t.ToolAnnotations()
        assert (hints.read_only_hint or False) is row.reads
        if not row.reads:  # what the protocol says where nothing is sent
            assert (hints.destructive_hint is not False) is row.destroys
            assert (hints.idempotent_hint or False) is row.idempotent


@pytest.mark.parametrize("lang", ["en", "zh"])
async def test_the_default_list_is_small(opened: OpenWorkspace, lang: str) -> None:
    async with Client(server_of(opened, toolsets=("ws_mod",), lang=lang)) as client:
        listed = await client.list_tools()
    data = listed.model_dump(by_alias=True, mode="json", exclude_none=True)
    check_list_is_cheap(data["tools"], "", 3_000)


@pytest.mark.parametrize("mode", MODES)
async def test_a_refusal_is_a_result(opened: OpenWorkspace, mode: str) -> None:
    async with Client(server_of(opened), mode=mode) as client:
        result = await client.call_tool("read_file", {"path": "../up"})
        assert result.is_error
        assert fields_of(result) == plain_data(result)
        assert result.structured_content["error"] == "INVALID_PATH"
        assert result.structured_content["mode"] == "read_file"


@pytest.mark.parametrize("mode", MODES)
async def test_an_unknown_tool_is_an_error(opened: OpenWorkspace, mode: str) -> None:
    async with Client(server_of(opened), mode=mode) as client:
        for name in ("nothing", "", "x" * 10_000, "a\0b"):
            with pytest.raises(MCPError) as caught:
                await client.call_tool(name, {})
            assert caught.value.error.code == t.INVALID_PARAMS
            assert len(caught.value.error.message) < 200


@pytest.mark.parametrize("mode", MODES)
async def test_a_call_may_say_which_task_it_is_of(opened: OpenWorkspace, mode: str) -> None:
    given = {"path": FILE, "content": "x"}
    async with Client(server_of(opened), mode=mode) as client:
        for label in ({"copydesk/task": "fix login"}, {}):
            await client.call_tool("prepare_file_append", given, meta={**label})
        for wrong in ("two\nlines", 7, "x" * 600):
            with pytest.raises(MCPError):
                await client.call_tool("prepare_file_append", given, meta={"copydesk/task": wrong})
    assert [plan.task for plan in opened.pending("local")] == ["fix login", ""]


async def test_a_tool_that_is_not_offered_is_unknown(opened: OpenWorkspace) -> None:
    async with Client(server_of(opened, toolsets=("ws_mod",))) as client:
        with pytest.raises(MCPError):
            await client.call_tool("Edit", dict(CALLS["Edit"]))
    async with Client(server_of(opened, member="guest")) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert not [name for name in names if name.startswith("team_mgmt_")]
        with pytest.raises(MCPError):
            await client.call_tool("team_mgmt_list_dir", {"path": "."})


@pytest.mark.parametrize("mode", MODES)
async def test_a_crash_in_a_tool_says_an_id(
    opened: OpenWorkspace, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(context: Context) -> Answer:
        raise RuntimeError("the inside of the house")

    add_tool(opened, "fails", fail)
    async with Client(server_of(opened), mode=mode) as client:
        result = await client.call_tool("fails", {})
        assert result.is_error
        crash = result.structured_content["log_id"]
        assert crash in text_of(result)
        assert "inside of the house" not in text_of(result)
        assert crash in caplog.text
        assert not (await client.call_tool("list_dir", {"path": "."})).is_error


@pytest.mark.parametrize("mode", MODES)
async def test_a_crash_elsewhere_says_an_id(
    opened: OpenWorkspace,
    mode: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*args: object, **options: object) -> Any:
        raise KeyError("inside")

    server = server_of(opened)
    async with Client(server, mode=mode) as client:
        monkeypatch.setattr(opened, "pending", fail)
        monkeypatch.setattr(opened, "call", fail)
        monkeypatch.setattr(reference, "read", fail)
        for asked in (client.list_resources(), client.get_prompt("ws_mod")):
            with pytest.raises(MCPError) as caught:
                await asked
            assert "log id" in caught.value.error.message
            assert "inside" not in caught.value.error.message
        result = await client.call_tool("list_dir", {"path": "."})
        assert result.structured_content["log_id"] in caplog.text


@pytest.mark.slow
async def test_many_calls_do_not_wait_for_a_long_one(opened: OpenWorkspace) -> None:
    go = threading.Event()

    def wait(context: Context) -> Answer:
        assert go.wait(60)
        return Answer({"status": "ok"})

    add_tool(opened, "waits", wait)
    async with Client(server_of(opened)) as client, anyio.create_task_group() as group:
        answered: list[str] = []

        async def call(name: str, given: dict[str, Any]) -> None:
            result = await client.call_tool(name, given)
            assert not result.is_error
            answered.append(name)
            if len(answered) == 20:
                go.set()

        group.start_soon(call, "waits", {})
        for _ in range(20):
            group.start_soon(call, "read_file", {"path": FILE})
        with anyio.fail_after(60):
            while len(answered) < 21:
                await anyio.lowlevel.checkpoint()
    assert answered[-1] == "waits"


@pytest.mark.parametrize("mode", MODES)
async def test_progress_is_reported(opened: OpenWorkspace, mode: str) -> None:
    seen: list[float] = []
    heard = threading.Event()

    def search(context: Context) -> Answer:
        context.progress(7)
        context.progress(7)
        assert heard.wait(60)
        return Answer({"status": "ok"})

    async def progress(value: float, total: float | None, message: str | None) -> None:
        seen.append(value)
        heard.set()

    add_tool(opened, "searches", search)
    async with Client(server_of(opened), mode=mode) as client:
        await client.call_tool("searches", {}, progress_callback=progress)
    assert seen == [7.0]


@pytest.mark.parametrize("mode", MODES)
async def test_a_call_hears_that_its_caller_has_gone(opened: OpenWorkspace, mode: str) -> None:
    began, ended = threading.Event(), threading.Event()

    def search(context: Context) -> Answer:
        began.set()
        limit = threading.Event()
        for _ in range(6000):
            if context.cancelled():
                ended.set()
                break
            limit.wait(0.01)
        return Answer({"status": "ok"})

    add_tool(opened, "searches", search)
    async with Client(server_of(opened), mode=mode) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "searches", {})
            await anyio.to_thread.run_sync(began.wait, 60)
            group.cancel_scope.cancel()
        assert await anyio.to_thread.run_sync(ended.wait, 60)
        assert not (await client.call_tool("list_dir", {"path": "."})).is_error


async def test_a_large_result_is_no_crash(opened: OpenWorkspace) -> None:
    add_tool(opened, "large", lambda *_: Answer({"status": "ok", "big": "x" * 5_000_000}))
    async with Client(server_of(opened)) as client:
        result = await client.call_tool("large", {})
        assert len(text_of(result)) < 12_000
        assert "characters]…" in text_of(result)


async def test_a_cancelled_call_that_still_runs_takes_the_place_of_another(
    opened: OpenWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("copydesk.app.mcp.server.THREADS", 1)
    begun, go, order = threading.Event(), threading.Event(), list[str]()

    def cancelled(context: Context) -> Answer:
        begun.set()
        assert go.wait(60)
        order.append("cancelled")
        return Answer({"status": "ok"})

    def later(context: Context) -> Answer:
        order.append("later")
        return Answer({"status": "ok"})

    add_tool(opened, "cancelled", cancelled)
    add_tool(opened, "later", later)
    async with Client(server_of(opened), mode="legacy") as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "cancelled", {})
            assert await anyio.to_thread.run_sync(begun.wait, 60)
            group.cancel_scope.cancel()
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "later", {})
            with anyio.move_on_after(0.1):  # a call that waits for no other has answered by then
                while not order:
                    await anyio.sleep(0.01)
            go.set()
    assert order == ["cancelled", "later"]
