"""The MCP server over HTTP, on a free port: every tool, hostile bodies, many calls at once."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import mcp_types as t
import pytest

from copydesk.app.workspace import OpenWorkspace
from support.cost import first
from support.mcp_calls import FILE, call_each, lay, opened_at
from support.mcp_transports import (
    BAD_TEXTS,
    SECONDS,
    WIRE_MODES,
    Raw,
    client_of,
    served,
    takes_20_megabytes,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[OpenWorkspace]:
    with opened_at(tmp_path) as found:
        yield found


@pytest.fixture
def address(opened: OpenWorkspace) -> Iterator[str]:
    with served(opened, {}) as found:
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("mode", first(*WIRE_MODES))
async def test_http_each_tool_answers(address: str, tmp_path: Path, mode: str) -> None:
    async with client_of(address, mode) as client:
        assert client.protocol_version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
        await call_each(client, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("mode", WIRE_MODES)
async def test_http_takes_20_megabytes(address: str, tmp_path: Path, mode: str) -> None:
    async with client_of(address, mode) as client:
        await takes_20_megabytes(client, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("mode", WIRE_MODES)
def test_http_a_bad_text_is_refused(address: str, mode: str) -> None:
    raw = Raw(address, mode)
    for name, bad in BAD_TEXTS.items():
        answer = raw.call(5, "prepare_file_append", {"path": FILE, "content": "BAD"}, bad)
        assert answer["id"] == 5, name
        assert answer["result"]["isError"], name
        assert answer["result"]["structuredContent"]["error"] == "INVALID_ARGS", name
        assert not raw.call(6, "list_dir", {"path": "."})["result"].get("isError"), name


@pytest.mark.slow
@pytest.mark.parametrize("mode", WIRE_MODES)
def test_http_what_is_wrong_is_answered(address: str, mode: str) -> None:
    raw = Raw(address, mode)
    for body, code in (
        *((b"", t.PARSE_ERROR), (b"nonsense", t.PARSE_ERROR), (b"[" * 200_000, t.PARSE_ERROR)),
        (b'{"jsonrpc":"2.0","id":5,"method":"a\0"}', t.PARSE_ERROR),
        *((b"[]", t.INVALID_REQUEST), (b'{"jsonrpc":"2.0","id":5,"method":7}', t.INVALID_REQUEST)),
    ):
        response = raw.post(body)
        assert response.status_code == 400, body[:50]
        assert response.json()["error"]["code"] == code, body[:50]
        assert "line 1" not in response.text
        assert not raw.call(6, "list_dir", {"path": "."})["result"].get("isError")


@pytest.mark.slow
def test_http_a_body_above_the_limit_is_refused(opened: OpenWorkspace) -> None:
    with served(opened, {}, body_bytes=10_000) as address:
        raw = Raw(address, "legacy")
        assert raw.post(b"x" * 10_001).status_code == 413
        assert not raw.call(6, "list_dir", {"path": "."})["result"].get("isError")


@pytest.mark.slow
@pytest.mark.parametrize("mode", WIRE_MODES)
async def test_http_calls_wait_for_no_other(opened: OpenWorkspace, address: str, mode: str) -> None:
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


@pytest.mark.slow
def test_http_the_command_says_where_it_listens_and_ends_at_a_signal(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "copydesk", "serve", "--port", "0"]
    process = subprocess.Popen([*command, "--root", str(lay(tmp_path))], stdout=subprocess.PIPE)
    late = threading.Timer(SECONDS, process.kill)
    late.start()
    try:
        assert process.stdout is not None
        address = process.stdout.readline().decode().split()[-1]
        raw = Raw(address.removesuffix("/mcp"), "legacy")
        assert not raw.call(5, "list_dir", {"path": "."})["result"].get("isError")
        process.send_signal(signal.SIGTERM)
        assert process.wait() in (0, -signal.SIGTERM)
    finally:
        late.cancel()
        process.kill()
        process.wait()
        process.stdout.close()
