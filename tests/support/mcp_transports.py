"""What the tests of the MCP transports share: raw messages, a server over HTTP, clients."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    closing,
    contextmanager,
    suppress,
)
from pathlib import Path
from typing import IO, Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from copydesk.app.config import TOOLSETS
from copydesk.app.mcp.http import build_app, server_of
from copydesk.app.workspace import OpenWorkspace
from support.mcp_calls import FILE, lay, text_of

WIRE_MODES = ("auto", "legacy")
SECONDS = 60.0
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""No certificates: all servers here are on loopback, and a client takes 20 ms to load them."""
MEGA = "0123456789abcde\n" * (20 << 16)

HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
READY = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'


def request(number: object, method: str, params: Mapping[str, Any]) -> bytes:
    body = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    return json.dumps(body).encode()


def call(number: object, name: str, arguments: Mapping[str, Any]) -> bytes:
    return request(number, "tools/call", {"name": name, "arguments": arguments})


def first_answer(words: Sequence[str | Path], cwd: Path) -> str:
    """What a server that is started so answers to the handshake; its input is open meanwhile."""
    with subprocess.Popen(
        [str(word) for word in words], cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        late = threading.Timer(SECONDS, server.kill)
        late.start()
        try:
            assert server.stdin is not None
            assert server.stdout is not None
            server.stdin.write(request(1, "initialize", HELLO) + b"\n")
            server.stdin.flush()
            return server.stdout.readline().decode()
        finally:
            late.cancel()
            server.kill()


BAD_TEXTS = {
    "lone surrogate": b"\\udc80",
    "half a pair": b"\\ud83d",
    "no UTF-8": b"\xff\xfe",
    "surrogate in UTF-8": b"\xed\xa0\x80",
    "NUL": b"\\u0000",
}


async def takes_20_megabytes(client: Client, root: Path) -> None:
    result = await client.call_tool("create_new_file", {"path": "big", "content": MEGA})
    assert not result.is_error, text_of(result)
    assert (root / "big").stat().st_size == len(MEGA)
    refused = await client.call_tool("read_file", {"path": FILE, "range": MEGA})
    assert refused.is_error
    assert len(text_of(refused)) < 1_100_000
    assert not (await client.call_tool("list_dir", {"path": "."})).is_error


@contextmanager
def served(
    opened: OpenWorkspace, tokens: Mapping[str, str] | None, **options: Any
) -> Iterator[str]:
    """The address of a server that runs in a thread of this process."""
    trusted_proxies = options.pop("trusted_proxies", ())
    limits = {key: options.pop(key) for key in ("most_connections",) if key in options}
    app = build_app(opened, tokens, "127.0.0.1", 0, TOOLSETS, "en", True, **options)
    server = server_of(app, trusted_proxies, grace_seconds=1, **limits)
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


def client_of(
    address: str, mode: str, token: str | None = None
) -> AbstractAsyncContextManager[Client]:
    @asynccontextmanager
    async def connected() -> AsyncIterator[Client]:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=SECONDS, verify=NO_TLS) as http:
            transport = streamable_http_client(f"{address}/mcp", http_client=http)
            async with Client(transport, mode=mode, read_timeout_seconds=SECONDS) as client:
                yield client

    return connected()


class Raw:
    """HTTP requests as a client of either era sends them, written by hand."""

    def __init__(self, address: str, mode: str, **headers: str) -> None:
        self.modern = mode == "auto"
        self.http = httpx2.Client(base_url=address, timeout=SECONDS, headers=headers, verify=NO_TLS)
        self.headers = {"Accept": "application/json, text/event-stream"}
        if self.modern:
            self.headers["MCP-Protocol-Version"] = "2026-07-28"
        else:
            hello = self.post(request(1, "initialize", HELLO))
            assert hello.status_code == 200, hello.text
            self.headers["Mcp-Session-Id"] = hello.headers["mcp-session-id"]
            self.post(READY)

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


def command(root: Path) -> list[str]:
    lay(root)
    (root / "copydesk.toml").write_text(
        f'durability = "fast"\ntoolsets = {json.dumps(list(TOOLSETS))}\n'
        "[members.local]\nteam_mgmt = true\n",
        "utf-8",
    )
    return [sys.executable, "-m", "copydesk", "mcp", "--structured", "--root", str(root)]


def stdio_client(root: Path, mode: str) -> Client:
    program, *args = command(root)
    parameters = StdioServerParameters(command=program, args=args, env=dict(os.environ))
    return Client(parameters, mode=mode, read_timeout_seconds=SECONDS)


class Process:
    """A server on stdio, spoken to line by line."""

    def __init__(self, root: Path, *program: str) -> None:
        self.process = subprocess.Popen(
            program or command(root),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.late = threading.Timer(5 * SECONDS, self.process.kill)
        self.late.start()

    @property
    def given(self) -> IO[bytes]:
        """What it reads."""
        assert self.process.stdin is not None
        return self.process.stdin

    @property
    def taken(self) -> IO[bytes]:
        """What it prints."""
        assert self.process.stdout is not None
        return self.process.stdout

    def send(self, *lines: bytes) -> None:
        self.write(b"".join(line + b"\n" for line in lines))

    def write(self, data: bytes) -> None:
        self.given.write(data)
        self.given.flush()

    def answer(self) -> dict[str, Any]:
        return json.loads(self.taken.readline())

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
    """A server on stdio that has shaken hands."""
    with closing(Process(root)) as found:
        found.send(request(1, "initialize", HELLO), READY)
        assert found.answer()["id"] == 1
        yield found
