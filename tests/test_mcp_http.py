"""The MCP server over its real transports: a process on stdio, uvicorn on a free port."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    closing,
    contextmanager,
    suppress,
)
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as t
import pytest
import uvicorn
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from copydesk.app.config import TOOLSETS, ConfigError, MemberConfig
from copydesk.app.http import build_app, tokens_of
from copydesk.app.http_guard import HostGuard, MemberTokens, is_loopback
from copydesk.app.opening import Opened
from mcp_calls import CALLS, FILE, call_each, fields_of, lay, opened_at, text_of

pytestmark = pytest.mark.anyio

MODES = ("auto", "legacy")
SECONDS = 60.0
MEGA = "0123456789abcde\n" * (20 << 16)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


# stdio


def command(root: Path) -> list[str]:
    (root / "copydesk.toml").write_text(
        f'durability = "fast"\ntoolsets = {json.dumps(list(TOOLSETS))}\n'
        "[members.local]\nteam_mgmt = true\n",
        "utf-8",
    )
    lay(root)
    return [sys.executable, "-m", "copydesk.app.cli", "mcp", "--root", str(root)]


def stdio_client(root: Path, mode: str) -> Client:
    program, *args = command(root)
    parameters = StdioServerParameters(command=program, args=args, env=dict(os.environ))
    return Client(parameters, mode=mode, read_timeout_seconds=SECONDS)


class Process:
    """A server on stdio, spoken to line by line."""

    def __init__(self, root: Path) -> None:
        self.process = subprocess.Popen(
            command(root), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.late = threading.Timer(5 * SECONDS, self.process.kill)
        self.late.start()

    def send(self, *lines: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(line + b"\n" for line in lines))
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def end(self) -> tuple[bytes, int]:
        """What else it prints once its input has ended, and its status."""
        out, _ = self.process.communicate()
        return out, self.process.returncode

    def close(self) -> None:
        self.late.cancel()
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()


@contextmanager
def started(root: Path) -> Iterator[Process]:
    """A process that has shaken hands."""
    with closing(Process(root)) as found:
        found.send(
            request(1, "initialize", HELLO),
            b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
        )
        assert found.answer()["id"] == 1
        yield found


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """One process for all that must not end it."""
    with started(tmp_path_factory.mktemp("root")) as found:
        yield found
        assert found.end() == (b"", 0)


HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


def request(number: object, method: str, params: Mapping[str, Any]) -> bytes:
    body = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    return json.dumps(body).encode()


def call(number: object, name: str, arguments: Mapping[str, Any]) -> bytes:
    return request(number, "tools/call", {"name": name, "arguments": arguments})


@pytest.mark.parametrize("mode", MODES)
async def test_stdio_each_tool_answers(tmp_path: Path, mode: str) -> None:
    async with stdio_client(tmp_path, mode) as client:
        assert client.protocol_version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
        await call_each(client, tmp_path)


BAD_TEXTS = {
    "lone surrogate": b"\\udc80",
    "half a pair": b"\\ud83d",
    "no UTF-8": b"\xff\xfe",
    "surrogate in UTF-8": b"\xed\xa0\x80",
    "NUL": b"\\u0000",
}


@pytest.mark.parametrize("bad", BAD_TEXTS.values(), ids=BAD_TEXTS)
def test_stdio_a_bad_text_is_refused(process: Process, bad: bytes) -> None:
    plain = call("a", "prepare_file_append", {"path": FILE, "content": "BAD"})
    process.send(plain.replace(b"BAD", bad), call("b", "list_dir", {"path": "."}))
    answers = {answer["id"]: answer["result"] for answer in (process.answer(), process.answer())}
    assert answers["a"]["isError"]
    assert answers["a"]["structuredContent"]["error"] == "INVALID_ARGS"
    assert "content" in answers["a"]["content"][0]["text"]
    assert not answers["b"].get("isError")


@pytest.mark.parametrize(
    ("raw", "request_id", "code"),
    [
        (b"nonsense", None, t.PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":5,"method":"tools/list",,}', 5, t.PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":5,"method":"to\0ols/list"}', 5, t.PARSE_ERROR),
        (b"[" * 200_000, None, t.PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}', None, t.INVALID_REQUEST),
        (b'[{"jsonrpc":"2.0","id":5,"method":"tools/list"}]', None, t.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":[]}', 5, t.INVALID_REQUEST),
        (request(5, "tools/call", {"name": 5}), 5, t.INVALID_PARAMS),
        (request(5, "tools/call", {"name": "list_dir", "arguments": []}), 5, t.INVALID_PARAMS),
        (request(5, "no/such", {}), 5, t.METHOD_NOT_FOUND),
    ],
)
def test_stdio_what_cannot_be_taken_is_answered(
    process: Process, raw: bytes, request_id: object, code: int
) -> None:
    process.send(raw)
    answer = process.answer()
    assert (answer["id"], answer["error"]["code"]) == (request_id, code)
    process.send(b"", b"  ", request(6, "tools/list", {}))
    assert process.answer()["id"] == 6


def test_stdio_garbage_before_the_first_request(tmp_path: Path) -> None:
    with closing(Process(tmp_path)) as found:
        found.send(b"\xff\0", request(1, "initialize", HELLO))
        assert {found.answer()["id"], found.answer()["id"]} == {None, 1}
        assert found.end() == (b"", 0)


@pytest.mark.parametrize("mode", MODES)
async def test_stdio_takes_20_megabytes(tmp_path: Path, mode: str) -> None:
    async with stdio_client(tmp_path, mode) as client:
        await takes_20_megabytes(client, tmp_path)


async def takes_20_megabytes(client: Client, root: Path) -> None:
    result = await client.call_tool("create_new_file", {"path": "big", "content": MEGA})
    assert not result.is_error, text_of(result)
    assert (root / "big").stat().st_size == len(MEGA)
    refused = await client.call_tool("read_file", {"path": FILE, "range": MEGA})
    assert refused.is_error
    assert len(text_of(refused)) < 1_100_000
    assert not (await client.call_tool("list_dir", {"path": "."})).is_error


def test_stdio_a_line_that_is_too_long_is_answered(process: Process) -> None:
    head = call(5, "list_dir", {"path": "."})[:-3]
    process.send(head + b"x" * (65 << 20), request(6, "tools/list", {}))
    answer = process.answer()
    assert (answer["id"], answer["error"]["code"]) == (5, t.INVALID_REQUEST)
    assert process.answer()["id"] == 6


def test_stdio_ends_with_its_input(tmp_path: Path) -> None:
    with closing(Process(tmp_path)) as found:
        assert found.end() == (b"", 0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stdio_ends_at_a_signal(tmp_path: Path, number: int) -> None:
    with started(tmp_path) as found:
        found.process.send_signal(number)
        assert found.process.wait() == 0
        assert found.end()[0] == b""


def test_stdio_ends_when_nobody_reads(tmp_path: Path) -> None:
    with started(tmp_path) as found:
        assert found.process.stdin is not None
        assert found.process.stdout is not None
        found.process.stdout.close()
        found.send(*(request(number, "tools/list", {}) for number in range(50)))
        found.process.stdin.close()
        assert found.process.wait() == 0


# HTTP


@contextmanager
def served(opened: Opened, tokens: Mapping[str, str], **options: Any) -> Iterator[str]:
    """The address of a server that runs in a thread of this process."""
    app = build_app(opened, tokens, "127.0.0.1", 0, TOOLSETS, "en", True, **options)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield address
        finally:
            server.should_exit = True
            thread.join(SECONDS)
            assert not thread.is_alive()


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    members = {
        "local": MemberConfig(team_mgmt=True),
        "ann": MemberConfig(token="token-of-ann"),
        "bob": MemberConfig(token="token-of-bob"),
    }
    with opened_at(tmp_path, members=members) as found:
        yield found


@pytest.fixture
def address(opened: Opened) -> Iterator[str]:
    with served(opened, {}) as found:
        yield found


@pytest.fixture
def guarded(opened: Opened) -> Iterator[str]:
    with served(opened, tokens_of(opened.config)) as found:
        yield found


def client_of(
    address: str, mode: str, token: str | None = None
) -> AbstractAsyncContextManager[Client]:
    @asynccontextmanager
    async def connected() -> AsyncIterator[Client]:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=SECONDS) as http:
            transport = streamable_http_client(f"{address}/mcp", http_client=http)
            async with Client(transport, mode=mode, read_timeout_seconds=SECONDS) as client:
                yield client

    return connected()


@pytest.mark.parametrize("mode", MODES)
async def test_http_each_tool_answers(address: str, tmp_path: Path, mode: str) -> None:
    async with client_of(address, mode) as client:
        assert client.protocol_version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
        await call_each(client, tmp_path)


@pytest.mark.parametrize("mode", MODES)
async def test_http_takes_20_megabytes(address: str, tmp_path: Path, mode: str) -> None:
    async with client_of(address, mode) as client:
        await takes_20_megabytes(client, tmp_path)


class Raw:
    """HTTP requests as a client of either era sends them, written by hand."""

    def __init__(self, address: str, mode: str, **headers: str) -> None:
        self.modern = mode == "auto"
        self.http = httpx2.Client(base_url=address, timeout=SECONDS, headers=headers)
        self.headers = {"Accept": "application/json, text/event-stream"}
        if self.modern:
            self.headers["MCP-Protocol-Version"] = "2026-07-28"
        else:
            hello = self.post(request(1, "initialize", HELLO))
            assert hello.status_code == 200, hello.text
            self.headers["Mcp-Session-Id"] = hello.headers["mcp-session-id"]
            self.post(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')

    def post(self, body: bytes, **headers: str) -> httpx2.Response:
        sent = {"Content-Type": "application/json", **self.headers, **headers}
        return self.http.post("/mcp", content=body, headers=sent)

    def call(self, number: int, name: str, arguments: Mapping[str, Any], bad: bytes = b"") -> Any:
        params: dict[str, Any] = {"name": name, "arguments": arguments}
        headers: dict[str, str] = {}
        if self.modern:
            meta = {"protocolVersion": "2026-07-28", "clientCapabilities": {}}
            params["_meta"] = {f"io.modelcontextprotocol/{key}": v for key, v in meta.items()}
            headers = {"Mcp-Method": "tools/call", "Mcp-Name": name}
        body = request(number, "tools/call", params).replace(b"BAD", bad)
        return answer_of(self.post(body, **headers))


def answer_of(response: httpx2.Response) -> Any:
    """The JSON-RPC answer, sent as JSON or as an event."""
    if "event-stream" not in response.headers["content-type"]:
        return response.json()
    (data,) = [part[6:] for part in response.text.splitlines() if part.startswith("data: {")]
    return json.loads(data)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("bad", BAD_TEXTS.values(), ids=BAD_TEXTS)
def test_http_a_bad_text_is_refused(address: str, mode: str, bad: bytes) -> None:
    raw = Raw(address, mode)
    arguments = {"path": FILE, "content": "BAD"}
    answer = raw.call(5, "prepare_file_append", arguments, bad)
    assert answer["id"] == 5
    assert answer["result"]["isError"]
    assert answer["result"]["structuredContent"]["error"] == "INVALID_ARGS"
    assert not raw.call(6, "list_dir", {"path": "."})["result"].get("isError")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", t.PARSE_ERROR),
        (b"nonsense", t.PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":5,"method":"a\0"}', t.PARSE_ERROR),
        (b"[" * 200_000, t.PARSE_ERROR),
        (b"[]", t.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":5,"method":7}', t.INVALID_REQUEST),
    ],
)
def test_http_what_cannot_be_taken_is_answered(
    address: str, mode: str, body: bytes, code: int
) -> None:
    raw = Raw(address, mode)
    response = raw.post(body)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == code
    assert "line 1" not in response.text
    assert not raw.call(6, "list_dir", {"path": "."})["result"].get("isError")


def test_http_a_body_above_the_limit_is_refused(opened: Opened) -> None:
    with served(opened, {}, body_bytes=10_000) as address:
        raw = Raw(address, "legacy")
        assert raw.post(b"x" * 10_001).status_code == 413
        assert not raw.call(6, "list_dir", {"path": "."})["result"].get("isError")


@pytest.mark.parametrize("mode", MODES)
async def test_http_many_calls_do_not_wait_for_a_long_one(
    opened: Opened, address: str, mode: str
) -> None:
    go = threading.Event()
    real = opened.call

    def held(member: str, name: str, arguments: object, **options: Any) -> Any:
        if name == "list_dir":
            assert go.wait(SECONDS)
        return real(member, name, arguments, **options)

    opened.call = held  # type: ignore[method-assign]
    answered: list[str] = []

    async with client_of(address, mode) as client, anyio.create_task_group() as group:

        async def one(name: str, given: dict[str, Any]) -> None:
            assert not (await client.call_tool(name, given)).is_error
            answered.append(name)
            if len(answered) == 20:
                go.set()

        group.start_soon(one, "list_dir", {"path": "."})
        for _ in range(20):
            group.start_soon(one, "read_file", {"path": FILE})
    assert answered[-1] == "list_dir"
    assert len(answered) == 21


# Who may speak

NEEDED = ("no", None), ("wrong", "token-of-eve"), ("part", "token-of-an")


@pytest.mark.parametrize("token", [token for _, token in NEEDED], ids=[name for name, _ in NEEDED])
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_a_token_is_needed(guarded: str, method: str, token: str | None) -> None:
    headers = {"Accept": "application/json, text/event-stream"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    response = httpx2.request(method, f"{guarded}/mcp", headers=headers, content=b"x" * 100)
    assert response.status_code == 401
    assert response.headers["www-authenticate"].startswith("Bearer ")
    assert "token-of" not in response.text


@pytest.mark.parametrize("mode", MODES)
async def test_plans_belong_to_the_bearer_of_a_token(guarded: str, mode: str) -> None:
    async with (
        client_of(guarded, mode, "token-of-ann") as ann,
        client_of(guarded, mode, "token-of-bob") as bob,
    ):
        plan = await ann.call_tool("prepare_file_append", dict(CALLS["prepare_file_append"]))
        hunk = {"hunk_id": fields_of(plan)["hunk_id"]}
        refused = await bob.call_tool("apply_file_modification", hunk)
        assert refused.is_error
        assert fields_of(refused)["error"] == "WRONG_OWNER"
        with pytest.raises(MCPError):
            await bob.call_tool("team_mgmt_list_dir", {"path": "."})
        assert not (await ann.call_tool("apply_file_modification", hunk)).is_error


def test_a_connection_belongs_to_the_bearer_of_a_token(guarded: str) -> None:
    ann = Raw(guarded, "legacy", Authorization="Bearer token-of-ann")
    response = ann.post(request(2, "tools/list", {}), Authorization="Bearer token-of-bob")
    assert response.status_code == 404


async def test_a_token_tells_its_member() -> None:
    verifier = MemberTokens({"a": "ann", "b": "bob"})
    found = {token: await verifier.verify_token(token) for token in ("a", "b", "", "ab", "\udc80")}
    assert {key: value and value.client_id for key, value in found.items()} == {
        "a": "ann",
        "b": "bob",
        "": None,
        "ab": None,
        "\udc80": None,
    }


def test_two_members_cannot_share_a_token(opened: Opened, tmp_path: Path) -> None:
    members = {"ann": MemberConfig(token="x"), "bob": MemberConfig(token="x")}
    with opened_at(tmp_path, members=members) as found, pytest.raises(ConfigError):
        tokens_of(found.config)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "desk.example"])
def test_without_tokens_only_this_machine_is_served(opened: Opened, host: str) -> None:
    with pytest.raises(ConfigError):
        build_app(opened, {}, host, 0, TOOLSETS, "en", True)
    build_app(opened, {"x": "ann"}, host, 0, TOOLSETS, "en", True)


@pytest.mark.parametrize("path", ["/mcp", "/"])
@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        ("Host", "evil.example", 421),
        ("Host", "evil.example:80", 421),
        ("Host", "localhost.evil.example", 421),
        ("Host", "192.0.2.1", 421),
        ("Host", "", 421),
        ("Origin", "http://evil.example", 403),
        ("Origin", "http://localhost.evil.example:80", 403),
        ("Origin", "null", 403),
    ],
)
def test_a_rebound_name_is_refused(
    address: str, path: str, header: str, value: str, status: int
) -> None:
    for method in ("GET", "POST"):
        response = httpx2.request(method, f"{address}{path}", headers={header: value})
        assert response.status_code == status
        assert "access-control-allow-origin" not in response.headers


@pytest.mark.parametrize(
    ("host", "given", "status"),
    [
        ("127.0.0.1", "127.0.0.1:8427", 200),
        ("127.0.0.1", "localhost", 200),
        ("127.0.0.1", "LOCALHOST:1", 200),
        ("127.0.0.1", "[::1]:8427", 200),
        ("127.0.0.1", "desk.example", 200),
        ("127.0.0.1", "192.0.2.1", 421),
        ("127.0.0.1", "user@evil.example", 421),
        ("127.0.0.1", "127.0.0.1@evil.example", 421),
        ("127.0.0.1", "[::1", 421),
        ("0.0.0.0", "192.0.2.1:8427", 200),
        ("0.0.0.0", "evil.example", 421),
        ("192.0.2.1", "192.0.2.1", 200),
        ("named.example", "named.example", 200),
        ("named.example", "evil.example", 421),
    ],
)
async def test_hosts_that_are_taken(host: str, given: str, status: int) -> None:
    async def inner(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    sent: list[int] = []

    async def send(message: Any) -> None:
        sent.append(message.get("status", 0))

    scope = {"type": "http", "method": "GET", "headers": [(b"host", given.encode())]}
    await HostGuard(inner, host, ["desk.example"])(scope, anyio.sleep_forever, send)
    assert sent[0] == status


def test_loopback_hosts() -> None:
    assert [
        host for host in ("localhost", "127.0.0.1", "127.8.8.8", "::1") if not is_loopback(host)
    ] == []
    assert [
        host for host in ("0.0.0.0", "::", "192.0.2.1", "a.example", "") if is_loopback(host)
    ] == []


def test_the_page_says_where_the_server_is(guarded: str) -> None:
    response = httpx2.get(f"{guarded}/")
    assert response.status_code == 200
    assert "/mcp" in response.text
    assert "token-of" not in response.text
    assert "default-src 'none'" in response.headers["content-security-policy"]
