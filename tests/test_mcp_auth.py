"""Who may speak to the HTTP server: tokens, names, origins."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.shared.exceptions import MCPError

from copydesk.app.config import TOOLSETS, ConfigError, MemberConfig
from copydesk.app.mcp.http import HostGuard, access_of, bound, build_app, is_loopback, tokens_of
from copydesk.app.workspace import OpenWorkspace
from support.mcp_calls import CALLS, fields_of, opened_at
from support.mcp_transports import NO_TLS, WIRE_MODES, Raw, client_of, request, served

pytestmark = pytest.mark.anyio


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[OpenWorkspace]:
    members = {
        "local": MemberConfig(team_mgmt=True),
        "ann": MemberConfig(token="token-of-ann"),
        "bob": MemberConfig(token="token-of-bob"),
    }
    with opened_at(tmp_path, members=members) as found:
        yield found


@pytest.fixture
def address(opened: OpenWorkspace) -> Iterator[str]:
    with served(opened, {}) as found:
        yield found


@pytest.fixture
def guarded(opened: OpenWorkspace) -> Iterator[str]:
    with served(opened, tokens_of(opened.config)) as found:
        yield found


@pytest.mark.slow
def test_a_token_is_needed(guarded: str) -> None:
    """A connection belongs to its bearer; people are asked for a token of their own."""
    for method in ("POST", "GET", "DELETE"):
        for token in (None, "token-of-eve", "token-of-an"):
            headers = {"Accept": "application/json, text/event-stream"}
            if token is not None:
                headers["Authorization"] = f"Bearer {token}"
            given: Any = {"headers": headers, "content": b"x" * 100, "verify": NO_TLS}
            response = httpx2.request(method, f"{guarded}/mcp", **given)
            assert response.status_code == 401, (method, token)
            assert response.headers["www-authenticate"].startswith("Bearer ")
            assert "token-of" not in response.text
    ann = Raw(guarded, "legacy", Authorization="Bearer token-of-ann")
    response = ann.post(request(2, "tools/list", {}), Authorization="Bearer token-of-bob")
    assert response.status_code == 404
    response = httpx2.get(f"{guarded}/", follow_redirects=True, verify=NO_TLS)
    assert (response.status_code, response.url.path) == (200, "/sign-in")
    assert "default-src 'none'" in response.headers["content-security-policy"]


@pytest.mark.slow
@pytest.mark.parametrize("mode", WIRE_MODES)
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


def test_a_token_tells_its_member(tmp_path: Path) -> None:
    known = {"a": "ann", "b": "bob"}
    found = [access_of(token, known) for token in ("a", "b", "", "ab", "\udc80")]
    assert [one and one.client_id for one in found] == ["ann", "bob", None, None, None]
    members = {"ann": MemberConfig(token="x"), "bob": MemberConfig(token="x")}
    with opened_at(tmp_path, members=members) as shared, pytest.raises(ConfigError):
        tokens_of(shared.config)


def test_without_tokens_only_this_machine_is_served(opened: OpenWorkspace) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "desk.example"):
        with pytest.raises(ConfigError):
            build_app(opened, {}, host, 0, TOOLSETS, "en", True)
        build_app(opened, {"x": "ann"}, host, 0, TOOLSETS, "en", True)


REBOUND = [
    *("evil.example", "evil.example:80", "localhost.evil.example", "192.0.2.1", ""),
    *("Origin http://evil.example", "Origin http://localhost.evil.example:80", "Origin null"),
]


@pytest.mark.slow
def test_a_rebound_name_is_refused(address: str) -> None:
    for given in REBOUND:
        origin = given.removeprefix("Origin ")
        headers = {"Host": given} if origin == given else {"Origin": origin}
        for path in ("/mcp", "/"):
            for method in ("GET", "POST"):
                response = httpx2.request(
                    method, f"{address}{path}", headers=headers, verify=NO_TLS
                )
                assert response.status_code == (421 if origin == given else 403), (given, path)
                assert "access-control-allow-origin" not in response.headers


HOSTS = [
    *(("127.0.0.1", given, 200) for given in ("127.0.0.1:8427", "localhost", "LOCALHOST:1")),
    *(("127.0.0.1", given, 200) for given in ("[::1]:8427", "desk.example")),
    *(("127.0.0.1", given, 421) for given in ("192.0.2.1", "user@evil.example", "[::1")),
    ("127.0.0.1", "127.0.0.1@evil.example", 421),
    ("0.0.0.0", "192.0.2.1:8427", 200),
    ("0.0.0.0", "evil.example", 421),
    ("192.0.2.1", "192.0.2.1", 200),
    ("named.example", "named.example", 200),
    ("named.example", "evil.example", 421),
]


async def test_hosts_that_are_taken() -> None:
    async def inner(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    for host, given, status in HOSTS:
        sent: list[int] = []

        async def send(message: Any, sent: list[int] = sent) -> None:
            sent.append(message.get("status", 0))

        scope = {"type": "http", "method": "GET", "headers": [(b"host", given.encode())]}
        await HostGuard(inner, host, ["desk.example"])(scope, anyio.sleep_forever, send)
        assert sent[0] == status, (host, given)
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.8.8.8", "::1")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.0.2.1", "a.example", "")))


def test_no_answer_waits_until_the_one_before_was_acknowledged() -> None:
    found: list[int] = []

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        socket_ = writer.get_extra_info("socket")
        found.append(socket_.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    async def ask() -> None:
        server = await asyncio.start_server(answer, sock=bound("127.0.0.1", 0))
        async with server:
            port = server.sockets[0].getsockname()[1]
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            await reader.read()
            writer.close()

    asyncio.run(ask())
    assert found == [1]
