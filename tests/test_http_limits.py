"""What one client may hold of the HTTP server, by real sockets, with a real client beside it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from mcp import Client
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from copydesk.app.config import TOOLSETS, Config, ConfigError, MemberConfig, load
from copydesk.app.mcp import http
from copydesk.app.mcp.http import HostGuard, TokenGuard, build_app, network_of
from copydesk.app.web.app import ReviewApp
from copydesk.app.web.security import MOST_FAILED, WINDOW_MS
from copydesk.app.workspace import OpenWorkspace, open_workspace
from support.mcp_transports import SECONDS, Raw, client_of, served

TOKENS = {"right": "ann", "other": "bob"}
HEAD = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[OpenWorkspace]:
    (tmp_path / "a.txt").write_text("one\n")
    members = {"ann": MemberConfig(token="right"), "bob": MemberConfig(token="other")}
    with open_workspace(str(tmp_path), Config(members=members), shared=False) as found:
        yield found


def raw(address: str, sent: bytes) -> socket.socket:
    place = urlsplit(address)
    found = socket.create_connection((place.hostname or "", place.port or 0), timeout=SECONDS)
    found.sendall(sent)
    return found


def heard(one: socket.socket) -> bytes:
    """All that comes until the server closes."""
    found = b""
    with suppress(ConnectionError):  # it closed while we still sent
        while part := one.recv(65536):
            found += part
    return found


def guess(address: str, number: int, path: str = "/mcp") -> httpx2.Response:
    """A wrong token, from an address that is only said."""
    headers = {"Authorization": f"Bearer {number}", "X-Forwarded-For": f"10.0.0.{number}"}
    data = {"token": f"{number}"} if path == "/sign-in" else None
    return httpx2.post(f"{address}{path}", data=data, headers=headers)


async def works(client: Client) -> bool:
    return not (await client.call_tool("read_file", {"path": "a.txt"})).is_error


@pytest.mark.anyio
async def test_a_right_token_too_long_to_guess_is_accepted_among_wrong_ones() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("in")(scope, receive, send)

    known = {"short": "ann", "long-random-secret": "bob"}
    transport = httpx2.ASGITransport(TokenGuard(app, lambda: known))
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:

        async def sent(token: str) -> httpx2.Response:
            return await http.get("/", headers={"Authorization": f"Bearer {token}"})

        wrong = [(await sent(f"{i}")).status_code for i in range(MOST_FAILED + 1)]
        assert wrong == [401] * MOST_FAILED + [429]
        answers = {token: await sent(token) for token in (*known, "long-random-guess")}
        assert [one.status_code for one in answers.values()] == [429, 200, 429]
        assert 0 < int(answers["short"].headers["retry-after"]) <= WINDOW_MS // 1000


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_wrong_tokens(opened: OpenWorkspace, mode: str) -> None:
    with served(opened, TOKENS) as address:
        async with client_of(address, mode, "right") as client:
            assert await works(client)
            answers = [guess(address, number) for number in range(2 * MOST_FAILED)]
            statuses = [one.status_code for one in answers]
            assert statuses == [401] * MOST_FAILED + [429] * MOST_FAILED
            assert 0 < int(answers[-1].headers["retry-after"]) <= 60
            # Nobody learns now whether a token is right; who was in before works on.
            right = httpx2.post(f"{address}/mcp", headers={"Authorization": "Bearer other"})
            assert right.status_code == 429
            assert await works(client)


@pytest.mark.slow
def test_a_proxy_is_believed_when_it_is_named(opened: OpenWorkspace) -> None:
    with served(opened, TOKENS, announce=lambda _: None) as address:
        answers = [guess(address, number, "/sign-in") for number in range(2 * MOST_FAILED)]
    statuses = [one.status_code for one in answers]
    assert statuses == [403] * MOST_FAILED + [429] * MOST_FAILED
    with served(opened, TOKENS, trusted_proxies=["127.0.0.0/8"]) as address:
        for number in range(2 * MOST_FAILED):
            assert guess(address, number).status_code == 401


def test_the_setting_names_addresses(tmp_path: Path) -> None:
    own = tmp_path / "copydesk.toml"
    own.write_text('trusted_proxies = ["10.0.0.1", "fd00::/8"]\n')
    assert load(str(tmp_path)).trusted_proxies == ("10.0.0.1", "fd00::/8")
    for wrong in ('["proxy"]', '["*"]', '"10.0.0.1"', "[5]"):
        own.write_text(f"trusted_proxies = {wrong}\n")
        with pytest.raises(ConfigError, match="trusted_proxies"):
            load(str(tmp_path))


@pytest.mark.slow
def test_event_streams_are_connections(opened: OpenWorkspace) -> None:
    with served(opened, TOKENS, most_connections=12) as address, ExitStack() as held:
        statuses: list[int] = []
        for _ in range(6):
            one = Raw(address, "legacy", Authorization="Bearer right")
            held.callback(one.http.close)
            headers = {**one.headers, "Accept": "text/event-stream", "Last-Event-ID": "7"}
            # The client opens another connection for what it asks beside a stream.
            found = held.enter_context(one.http.stream("GET", "/mcp", headers=headers))
            statuses.append(found.status_code)
        assert statuses == [200] * 6
        pages = [held.enter_context(closing(raw(address, b""))) for _ in range(6)]
        assert httpx2.get(f"{address}/sign-in").status_code == 503
        for page in pages:
            page.close()
        assert gets_in(address)


def gets_in(address: str) -> bool:
    """Whether the page is served once closed connections have been noticed."""
    return any(httpx2.get(f"{address}/sign-in").status_code == 200 for _ in range(200))


@pytest.mark.anyio
async def test_one_stream_too_many(opened: OpenWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    announced: list[str] = []
    site = ReviewApp(opened, dict[str, str], 1_000, announced.append)
    site.login.sessions.new_token()
    entered = site.login.sessions.enter(announced[-1], "Ada", "")
    assert entered is not None
    cookies = {"copydesk-80": entered[0]}
    transport = httpx2.ASGITransport(site.app)
    url = "http://127.0.0.1"
    async with httpx2.AsyncClient(transport=transport, base_url=url, cookies=cookies) as http:
        monkeypatch.setattr("copydesk.app.web.app.MOST_LISTENERS", 0)
        answer = await http.get("/events")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")


async def cut(app: ASGIApp, path: str, *parts: bytes) -> None:
    """Send a request that ends after these parts of its body."""
    came = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    left = iter([*came, {"type": "http.disconnect"}])

    async def receive() -> Message:
        return next(left)

    async def send(message: Message) -> None:
        pass

    headers = {b"host": b"127.0.0.1", b"authorization": b"Bearer right"}
    headers[b"content-type"] = b"application/x-www-form-urlencoded"
    scope = {"type": "http", "method": "POST", "path": path, "headers": list(headers.items())}
    await app({**scope, "scheme": "http", "query_string": b""}, receive, send)


@pytest.mark.anyio
@pytest.mark.parametrize("tokens", [{}, TOKENS], ids=["open", "tokens"])
@pytest.mark.parametrize("path", ["/mcp", "/sign-in"])
async def test_a_request_that_is_cut_is_a_line_in_the_log(
    opened: OpenWorkspace, tokens: dict[str, str], path: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = build_app(opened, tokens, "127.0.0.1", 80, TOOLSETS, "en", True)
    for parts in ((), (b"a",), (b"a", b"")):
        caplog.clear()
        await cut(app, path, *parts)
        (line,) = caplog.text.splitlines()
        assert path in line


@pytest.mark.anyio
async def test_a_path_adds_no_line_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await Request(scope, receive).body()

    await cut(HostGuard(app, "127.0.0.1"), "/a\nb\u2028\x1b[2J" + "x" * 5_000, b"a")
    (line,) = caplog.text.splitlines()
    assert line.isprintable()
    assert len(line) < 500


HALF = [
    b"",
    b"POST /mcp HT",
    HEAD,
    HEAD + b"Content-Length: 100\r\n\r\n{",
    b"GET / HTTP/1.1\r\nHost: ",
]


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("half", HALF, ids=["nothing", "line", "headers", "body", "page"])
async def test_half_requests_hold_nobody_up(opened: OpenWorkspace, mode: str, half: bytes) -> None:
    with served(opened, {}) as address, ExitStack() as held:
        async with client_of(address, mode) as before:
            assert await works(before)
            ones = [held.enter_context(closing(raw(address, half))) for _ in range(150)]
            async with client_of(address, mode) as client:
                assert await works(client)
            assert await works(before)
            ones[-1].setblocking(False)
            with pytest.raises(BlockingIOError):  # they may go on
                ones[-1].recv(1)


PAGE = b"GET /sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.mark.slow
@pytest.mark.parametrize("half", [b"", HEAD, HALF[3], PAGE + b"GET"])
def test_a_request_has_to_come_in_time(
    opened: OpenWorkspace, half: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "IDLE_SECONDS", 0.3)
    with served(opened, {}) as address, closing(raw(address, half)) as one:
        said = heard(one)  # it ends: the server has closed
        # Behind an answer, or in a body, it just closes: nothing could be told apart there.
        assert b" 408 " in said or b"Length" in half or half.endswith(b"GET")
        assert httpx2.get(f"{address}/sign-in").status_code == 200


@pytest.mark.slow
def test_drops_do_not_keep_it_open(opened: OpenWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "HEADERS_SECONDS", 0.5)
    with served(opened, {}) as address, closing(raw(address, HEAD)) as one:
        ended = threading.Event()

        def drip() -> None:
            while not ended.wait(0.05):
                try:
                    one.sendall(b"X: y\r\n")
                except OSError:
                    return

        thread = threading.Thread(target=drip)
        thread.start()
        assert b" 408 " in (heard(one) or b" 408 ")
        ended.set()
        thread.join(SECONDS)


@pytest.mark.slow
def test_connections(opened: OpenWorkspace) -> None:
    with served(opened, {}, most_connections=5) as address:
        with ExitStack() as held:
            for _ in range(5):
                held.enter_context(closing(raw(address, b"")))
            with closing(raw(address, PAGE)) as more:
                assert heard(more).startswith(b"HTTP/1.1 503 ")
        assert gets_in(address), "the closed connections still count"


def test_an_address_is_a_network_of_ipv6() -> None:
    same = network_of("2001:db8::1"), network_of("2001:db8::ffff:2")
    assert same[0] == same[1] != network_of("2001:db8:1::1")
    assert network_of("10.0.0.1") != network_of("10.0.0.2")
