"""The MCP server, in process: every tool in both eras, resources, prompts, what may go wrong."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import mcp_types as t
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from copydesk.app.config import TOOLSETS
from copydesk.app.inbound import ARGUMENTS, Admitted, Turned, admit, too_large
from copydesk.app.mcp_server import CopydeskServer, build
from copydesk.app.opening import Opened
from copydesk.app.outgoing import MOST_BYTES, capped, tool_result
from copydesk.tools import manuals
from copydesk.tools.catalog import Context, Tool
from copydesk.tools.report import Report
from copydesk.tools.schema import arguments
from copydesk.tools.wire import Args
from mcp_calls import CALLS, FILE, MODES, call_each, call_of, fields_of, opened_at, text_of

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    with opened_at(tmp_path) as found:
        yield found


def server_of(opened: Opened, structured: bool = True, **options: Any) -> CopydeskServer:
    member = options.get("member", "local")
    toolsets = options.get("toolsets", TOOLSETS)
    return build(opened, lambda _: member, toolsets, options.get("lang", "en"), structured)


def add_tool(opened: Opened, name: str, run: Any) -> None:
    """A tool for a test only, in the toolset ws_mod."""
    schema = arguments({})
    model = opened.catalog.tools["list_dir"]
    opened.catalog.tools[name] = _Named(
        **{**_fields(model), "name": name, "run": run, "schema": schema}
    )


class _Named(Tool):
    def description(self, lang: Any) -> str:
        return self.name

    def title(self, lang: Any) -> str:
        return self.name

    def described_schema(self, lang: Any) -> dict[str, Any]:
        return dict(self.schema)


def _fields(tool: Tool) -> dict[str, Any]:
    return {name: getattr(tool, name) for name in Tool.__dataclass_fields__}


def test_every_tool_has_a_row(opened: Opened) -> None:
    assert [name for name in opened.catalog.tools if call_of(name) is None] == []
    assert [name for name in CALLS if name not in opened.catalog.tools] == []


@pytest.mark.parametrize("mode", MODES)
async def test_each_tool_answers(opened: Opened, tmp_path: Path, mode: str) -> None:
    async with Client(server_of(opened), mode=mode) as client:
        assert await call_each(client, tmp_path) == list(opened.catalog.tools)


@pytest.mark.parametrize("mode", MODES)
async def test_each_tool_answers_in_text_only(opened: Opened, tmp_path: Path, mode: str) -> None:
    async with Client(server_of(opened, structured=False), mode=mode) as client:
        await call_each(client, tmp_path, structured=False)


@pytest.mark.parametrize("mode", MODES)
async def test_tools_are_listed_exactly(opened: Opened, mode: str) -> None:
    async with Client(server_of(opened, lang="zh"), mode=mode) as client:
        listed = (await client.list_tools()).tools
    for tool in listed:
        row = opened.catalog.tools[tool.name]
        assert tool.input_schema == row.described_schema("zh")
        assert tool.input_schema["additionalProperties"] is False
        assert (tool.title, tool.description) == (row.title("zh"), row.description("zh"))
        hints = tool.annotations
        assert hints is not None
        assert hints.open_world_hint is False
        assert hints.read_only_hint is row.reads
        assert hints.destructive_hint is row.destroys
        assert hints.idempotent_hint is row.idempotent


@pytest.mark.parametrize("lang", ["en", "zh"])
async def test_the_default_list_is_small(opened: Opened, lang: str) -> None:
    async with Client(server_of(opened, toolsets=("ws_mod",), lang=lang)) as client:
        listed = await client.list_tools()
    data = listed.model_dump(by_alias=True, mode="json", exclude_none=True)
    assert len(json.dumps(data, ensure_ascii=False).encode()) < 16 * 1024


@pytest.mark.parametrize("mode", MODES)
async def test_a_refusal_is_a_result(opened: Opened, mode: str) -> None:
    async with Client(server_of(opened), mode=mode) as client:
        result = await client.call_tool("read_file", {"path": "../up"})
        assert result.is_error
        assert fields_of(result) == result.structured_content
        assert result.structured_content["error"] == "INVALID_PATH"
        assert result.structured_content["mode"] == "read_file"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["nothing", "", "x" * 10_000, "a\0b"])
async def test_an_unknown_tool_is_a_protocol_error(opened: Opened, mode: str, name: str) -> None:
    async with Client(server_of(opened), mode=mode) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool(name, {})
    assert caught.value.error.code == t.INVALID_PARAMS
    assert len(caught.value.error.message) < 200


async def test_a_tool_that_is_not_offered_is_unknown(opened: Opened) -> None:
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
    opened: Opened, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(context: Context, name: str, args: Args) -> Report:
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
    opened: Opened, mode: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **options: object) -> Any:
        raise KeyError("inside")

    server = server_of(opened)
    async with Client(server, mode=mode) as client:
        monkeypatch.setattr(opened, "pending", fail)
        monkeypatch.setattr(opened, "call", fail)
        monkeypatch.setattr(manuals, "read", fail)
        for asked in (client.list_resources(), client.get_prompt("ws_mod")):
            with pytest.raises(MCPError) as caught:
                await asked
            assert "log id" in caught.value.error.message
            assert "inside" not in caught.value.error.message
        result = await client.call_tool("list_dir", {"path": "."})
        assert result.structured_content["log_id"] in caplog.text


async def test_many_calls_do_not_wait_for_a_long_one(opened: Opened) -> None:
    go = threading.Event()

    def wait(context: Context, name: str, args: Args) -> Report:
        assert go.wait(60)
        return Report({"status": "ok"})

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
async def test_progress_is_reported(opened: Opened, mode: str) -> None:
    seen: list[float] = []
    heard = threading.Event()

    def search(context: Context, name: str, args: Args) -> Report:
        context.progress(7)
        context.progress(7)
        assert heard.wait(60)
        return Report({"status": "ok"})

    async def progress(value: float, total: float | None, message: str | None) -> None:
        seen.append(value)
        heard.set()

    add_tool(opened, "searches", search)
    async with Client(server_of(opened), mode=mode) as client:
        await client.call_tool("searches", {}, progress_callback=progress)
    assert seen == [7.0]


@pytest.mark.parametrize("mode", MODES)
async def test_a_call_hears_that_its_caller_has_gone(opened: Opened, mode: str) -> None:
    began, ended = threading.Event(), threading.Event()

    def search(context: Context, name: str, args: Args) -> Report:
        began.set()
        limit = threading.Event()
        for _ in range(6000):
            if context.cancelled():
                ended.set()
                break
            limit.wait(0.01)
        return Report({"status": "ok"})

    add_tool(opened, "searches", search)
    async with Client(server_of(opened), mode=mode) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "searches", {})
            await anyio.to_thread.run_sync(began.wait, 60)
            group.cancel_scope.cancel()
        assert await anyio.to_thread.run_sync(ended.wait, 60)
        assert not (await client.call_tool("list_dir", {"path": "."})).is_error


@pytest.mark.parametrize("mode", MODES)
async def test_waiting_plans_are_resources(opened: Opened, mode: str) -> None:
    async with Client(server_of(opened), mode=mode) as client:
        assert (await client.list_resources(cache_mode="bypass")).resources == []
        plan = await client.call_tool("prepare_file_append", dict(CALLS["prepare_file_append"]))
        uri = f"copydesk://hunk/{plan.structured_content['hunk_id']}"
        (resource,) = (await client.list_resources(cache_mode="bypass")).resources
        assert str(resource.uri) == uri
        (contents,) = (await client.read_resource(uri)).contents
        assert isinstance(contents, t.TextResourceContents)
        assert contents.text.split("```diff")[1] == text_of(plan).split("```diff")[1]
        (template,) = (await client.list_resource_templates()).resource_templates
        assert template.uri_template == "copydesk://hunk/{hunk_id}"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("uri", ["copydesk://hunk/00000000", "copydesk://hunk/x", "file:///etc"])
async def test_a_resource_that_is_not_there(opened: Opened, mode: str, uri: str) -> None:
    async with Client(server_of(opened), mode=mode) as client:
        with pytest.raises(MCPError) as caught:
            await client.read_resource(uri)
    assert caught.value.error.code == t.INVALID_PARAMS


async def test_modern_clients_hear_of_changes(opened: Opened) -> None:
    async with Client(server_of(opened)) as client:
        with anyio.fail_after(60):
            plan = await client.call_tool("prepare_file_append", dict(CALLS["prepare_file_append"]))
            hunk = plan.structured_content["hunk_id"]
            uri = f"copydesk://hunk/{hunk}"
            async with client.listen(
                resources_list_changed=True, resource_subscriptions=[uri]
            ) as events:
                again = {**CALLS["prepare_file_append"], "content": "!", "existing_hunk_id": hunk}
                await client.call_tool("prepare_file_append", again)
                while type(await anext(events)).__name__ != "ResourceUpdated":
                    pass
                await client.call_tool("apply_file_modification", {"hunk_id": hunk})
                while type(await anext(events)).__name__ != "ResourcesListChanged":
                    pass


async def test_handshake_clients_hear_of_changes(opened: Opened) -> None:
    send, receive = anyio.create_memory_object_stream[str](100)

    async def heard(message: Any) -> None:
        send.send_nowait(getattr(message, "method", ""))

    async with Client(server_of(opened), mode="legacy", message_handler=heard) as client:
        assert client.server_capabilities.resources == t.ResourcesCapability(
            subscribe=True, list_changed=True
        )
        with anyio.fail_after(60):
            plan = await client.call_tool("prepare_file_append", dict(CALLS["prepare_file_append"]))
            assert await receive.receive() == "notifications/resources/list_changed"
            hunk = plan.structured_content["hunk_id"]
            await client.subscribe_resource(f"copydesk://hunk/{hunk}")
            again = {**CALLS["prepare_file_append"], "content": "!", "existing_hunk_id": hunk}
            await client.call_tool("prepare_file_append", again)
            assert await receive.receive() == "notifications/resources/updated"
            await client.unsubscribe_resource(f"copydesk://hunk/{hunk}")
            await client.call_tool("apply_file_modification", {"hunk_id": hunk})
            assert await receive.receive() == "notifications/resources/list_changed"


async def test_a_connection_is_forgotten_when_it_closes(opened: Opened) -> None:
    server = server_of(opened)
    entry = server.get_notification_handler("notifications/initialized")
    assert entry is not None
    known = entry.handler.__self__._connections
    async with Client(server, mode="legacy") as client:
        await client.list_tools()
        assert len(known) == 1
    assert known == {}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("lang", ["en", "zh"])
async def test_manuals_are_prompts(opened: Opened, mode: str, lang: Any) -> None:
    async with Client(server_of(opened, lang=lang), mode=mode) as client:
        prompts = (await client.list_prompts()).prompts
        assert [prompt.name for prompt in prompts] == [
            name for name in TOOLSETS if name in manuals.toolsets()
        ]
        if mode != "2026-07-28":  # who names the version does not ask for them
            assert client.instructions == manuals.instructions(TOOLSETS, lang)
        for prompt in prompts:
            topics = manuals.topics(prompt.name)
            for topic in (None, *topics):
                given = {} if topic is None else {"topic": topic}
                (message,) = (await client.get_prompt(prompt.name, given)).messages
                assert isinstance(message.content, t.TextContent)
                assert message.content.text == manuals.read(prompt.name, topic or topics[0], lang)
            ref = t.PromptReference(name=prompt.name)
            found = await client.complete(ref, {"name": "topic", "value": topics[1][:3]})
            assert topics[1] in found.completion.values


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "topic"), [("ws_mod", "nothing"), ("x", ""), ("ws_mod", "../x")])
async def test_a_prompt_that_is_not_there(opened: Opened, mode: str, name: str, topic: str) -> None:
    async with Client(server_of(opened), mode=mode) as client:
        with pytest.raises(MCPError) as caught:
            await client.get_prompt(name, {"topic": topic})
    assert caught.value.error.code == t.INVALID_PARAMS


# What goes out


def test_a_text_is_cut_at_the_cap() -> None:
    most = MOST_BYTES - 2  # the quotes
    assert capped("a" * most, "en") == "a" * most
    for character in "aé中😀\n\1":
        size = len(json.dumps(character, ensure_ascii=False).encode()) - 2
        text = capped(character * (MOST_BYTES // size + 1), "zh")
        kept = text.rpartition("\n\n[")[0]
        assert set(kept) == {character}
        assert most - 20 < len(kept) * size <= most


def test_no_lone_surrogate_goes_out() -> None:
    report = Report({"status": "ok", "a\udc80": ["x\ud800"], "f": 1}, next_steps=("\udfff",))
    result = tool_result(report, "en", structured=True)
    sent = result.model_dump_json(by_alias=True)
    assert "\\\\ud800" in sent
    assert result.structured_content == {"status": "ok", "a\\udc80": ["x\\ud800"], "f": 1}


def test_what_is_above_the_cap_goes_out_as_text_only() -> None:
    report = Report({"status": "ok", "big": "x" * (MOST_BYTES + 1)})
    result = tool_result(report, "en", structured=True)
    assert result.structured_content is None
    assert len(text_of(result)) < MOST_BYTES + 200


async def test_a_large_result_is_no_crash(opened: Opened) -> None:
    add_tool(opened, "large", lambda *_: Report({"status": "ok", "big": "x" * 5_000_000}))
    async with Client(server_of(opened)) as client:
        result = await client.call_tool("large", {})
        assert "Cut here" in text_of(result)


# What comes in

CALL = {"jsonrpc": "2.0", "id": 7, "method": "tools/call"}


def line(**changes: Any) -> bytes:
    return json.dumps({**CALL, **changes}).encode()


def reply(raw: bytes) -> dict[str, Any]:
    found = admit(raw)
    assert isinstance(found, Turned), found
    return json.loads(found.reply)


@pytest.mark.parametrize(
    ("raw", "request_id"),
    [
        (b"", None),
        (b"{", None),
        (b"nonsense", None),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "x"', 7),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "x", ]', 7),
        (b'{"jsonrpc": "2.0", "id": "a-1", "method": "x", ]', "a-1"),
        (b'{"id": 7, "params": {"id": 8}, ]', None),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "a\0b"}', 7),
        (b"[" * 100_000, None),
        (b'{"id": 3, "a": ' + b"[" * 100_000, 3),
        (b'{"id": 3, "a": ' + b"9" * 10_000 + b"}", 3),
        (b"\xef\xbb\xbf{}", None),
        ("{}".encode("utf-16"), None),
    ],
)
def test_what_is_no_json_is_answered(raw: bytes, request_id: object) -> None:
    answer = reply(raw)
    assert answer["error"]["code"] == t.PARSE_ERROR
    assert answer["id"] == request_id


@pytest.mark.parametrize(
    ("raw", "request_id"),
    [
        (b"[]", None),
        (b"1", None),
        (b'"\\udc80"', None),
        (b'{"jsonrpc": "2.0", "id": 7, "method": 3}', 7),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "x", "params": []}', 7),
        (b'{"jsonrpc": "1.0", "id": 7, "method": "x"}', 7),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "x"}', None),
        (b'{"jsonrpc": "2.0", "id": null, "method": "x"}', None),
        (b'{"jsonrpc": "2.0", "id": true, "method": "x"}', None),
        (b'{"jsonrpc": "2.0", "id": 7}', None),
        (b'{"jsonrpc": "2.0", "id": "\\udc80", "method": "x"}', "\udc80"),
    ],
)
def test_what_is_no_request_is_answered(raw: bytes, request_id: object) -> None:
    answer = reply(raw)
    assert answer["error"]["code"] == t.INVALID_REQUEST
    assert answer["id"] == request_id


def test_a_good_message_passes_as_it_is() -> None:
    raw = line(params={"name": "x", "arguments": {"content": "😀\u2028 \0"}})
    found = admit(raw)
    assert isinstance(found, Admitted)
    assert found.body is raw
    assert found.mended is None


@pytest.mark.parametrize("bad", [b"\\udc80", b"\\ud83d", b"\xff", b"\xed\xa0\x80"])
def test_a_text_that_is_none_is_mended_and_kept(bad: bytes) -> None:
    raw = b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"name":"%s","arguments":{"%s":"%s"}}}'
    found = admit(raw % (bad, bad, bad))
    assert isinstance(found, Admitted)
    assert found.mended is not None
    (pair,) = found.mended[ARGUMENTS].items()
    assert all(any("\ud800" <= c <= "\udfff" for c in text) for text in pair)
    assert "\ufffd" in json.loads(found.body)["params"]["name"]
    assert json.loads(found.body)["id"] == 7


def test_a_line_that_is_too_long_is_answered() -> None:
    answer = json.loads(too_large(line(params={"a": 1}), 10).reply)
    assert (answer["id"], answer["error"]["code"]) == (7, t.INVALID_REQUEST)
