"""The first answers of a server on stdio: those of the library, before it has been imported."""

from __future__ import annotations

import json
import os
import select
import socket
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any

import anyio
import pytest

from copydesk.app.cli import main
from copydesk.app.cli.parser import parse
from copydesk.app.config import TOOLSETS, MemberConfig
from copydesk.app.mcp.early import (
    HONORED,
    LISTEN,
    MODERN,
    RESOURCES,
    SUBSCRIPTION,
    Start,
    Table,
    Wire,
    answer_early,
    write_all,
)
from copydesk.app.mcp.server import build, messages_of, recorded, run_stdio
from copydesk.app.workspace import OpenWorkspace, open_workspace
from support.cost import spread
from support.mcp_calls import FILE, opened_at
from support.mcp_transports import HELLO, READY, Process, call, command, request

LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
LISTS = ("prompts/list", RESOURCES)
META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}
LIST = request(3, "tools/list", {})
HEARS = {"resourcesListChanged": True}
LISTEN_ALL = request("listen:0", LISTEN, {"_meta": META, "notifications": HEARS})
CLOSED = (
    b'{"jsonrpc":"2.0","id":"listen:0","error":{"code":-32000,"message":"Connection closed"}}\n'
)
"""What the library answers to a subscription at the end of the input."""


def hello(version: str = "2025-06-18", **changes: Any) -> bytes:
    return request(1, "initialize", {**HELLO, "protocolVersion": version, **changes})


def first_lines(version: str) -> list[bytes]:
    """What a client of this protocol version sends first."""
    if version == MODERN:
        asked = {1: "server/discover", "a": "tools/list", "b": "prompts/list", 0: RESOURCES}
        first, *others = (
            request(number, method, {"_meta": META}) for number, method in asked.items()
        )
        return [first, LISTEN_ALL, first.replace(b'"id": 1', b'"id": 2'), *others]
    others = [request(20 + at, method, {}) for at, method in enumerate(LISTS)]
    return [hello(version), READY, request("p-1", "ping", {}), LIST, *others]


OTHERS = dict.fromkeys(LISTS, "[3]")
TABLE: Table = {
    **{
        key: {"tools/list": '{"tools":[]}', **dict.fromkeys(("initialize", "ping", *LISTS), "{}")}
        for key in LEGACY
    },
    MODERN: {"server/discover": "[1]", "tools/list": "[2]", LISTEN: HONORED, **OTHERS},
}
PLAIN: dict[str, Any] = {"toolsets": ("ws_mod",), "lang": "en", "structured": False}
"""How the servers of most tests here are built."""


@contextmanager
def pipes() -> Generator[tuple[Wire, FileIO, FileIO]]:
    """A wire, and the other ends of its input and output."""
    ins, outs = os.pipe(), os.pipe()
    with FileIO(ins[0]), FileIO(ins[1], "w") as given, FileIO(outs[0]) as taken, FileIO(outs[1]):
        yield Wire(ins[0], outs[1]), given, taken


def id_of(answer: Mapping[str, Any]) -> object:
    """The id of the request that is answered, or acknowledged."""
    return answer["id"] if "id" in answer else answer["params"]["_meta"][SUBSCRIPTION]


# The same bytes


@asynccontextmanager
async def serving(
    opened: OpenWorkspace, wire: Wire, at_end: Callable[[], None] = lambda: None, **options: Any
) -> AsyncGenerator[None]:
    """The library's own server at the wire."""
    server = build(opened, lambda _: "local", **{**PLAIN, **options})
    async with anyio.create_task_group() as group:
        async with messages_of(wire, at_end=at_end) as (incoming, outgoing):
            made = server.create_initialization_options()
            group.start_soon(server.run, incoming, outgoing, made)
            yield
        group.cancel_scope.cancel()


async def heard(taken: FileIO) -> bytes:
    return await anyio.to_thread.run_sync(line_of, taken)


async def from_library(opened: OpenWorkspace, lines: list[bytes], **options: Any) -> bytes:
    """What the library answers over descriptors, one request after the other."""
    ended, answers = threading.Event(), list[bytes]()
    with pipes() as (wire, given, taken):
        async with serving(opened, wire, ended.set, **options):
            for line in lines:
                given.write(line + b"\n")
                if line != READY:
                    answers.append(await heard(taken))
            given.close()
            await anyio.to_thread.run_sync(ended.wait, 60)
    return b"".join(answers)


def line_of(taken: FileIO) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        line += taken.read(1 << 20)
    return line


def from_table(table: Table, lines: list[bytes], fetch: Callable[[], None]) -> tuple[bytes, Wire]:
    with pipes() as (wire, given, taken):

        def send() -> None:
            with suppress(OSError), given:
                given.write(b"".join(line + b"\n" for line in lines))

        answers: list[bytes] = []
        is_over = threading.Event()

        def receive() -> None:  # all the time: a pipe may hold less than the answers
            while (ready := select.select([taken], [], [], 0.05)[0]) or not is_over.is_set():
                answers.extend(os.read(taken.fileno(), 1 << 20) for _ in ready)

        threads = [threading.Thread(target=send), threading.Thread(target=receive)]
        for thread in threads:
            thread.start()
        answer_early(wire, table, fetch)
        while os.read(wire.source, 1 << 20):  # what it left
            pass
        is_over.set()
        for thread in threads:
            thread.join()
        return b"".join(answers), wire


@pytest.fixture(scope="module", params=[False, True], ids=["asks", "auto"])
def opened(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OpenWorkspace]:
    members = {"local": MemberConfig(team_mgmt=request.param)}
    apply = "auto" if request.param else "never"
    root = tmp_path_factory.mktemp("root")
    with opened_at(root, members=members, apply=apply) as found:
        yield found


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize(
    ("toolsets", "lang"),
    spread(
        [("ws_mod",), TOOLSETS, *((name,) for name in TOOLSETS if name != "ws_mod")],
        ["en", "zh"],
        of=5,
    ),
)
async def test_the_table_has_the_bytes_of_the_library(
    opened: OpenWorkspace, toolsets: tuple[str, ...], lang: str
) -> None:
    options: dict[str, Any] = {"toolsets": toolsets, "lang": lang, "structured": False}
    table = await recorded(build(opened, lambda _: "local", **options), resources=True)
    assert list(table) == [*LEGACY, MODERN]
    for version in table:
        lines = first_lines(version)
        early, _ = await anyio.to_thread.run_sync(from_table, table, lines, lambda: None)
        assert early == await from_library(opened, lines, **options), version


# What is answered, and what is not


@pytest.mark.parametrize("version", [*LEGACY, MODERN])
def test_the_first_requests_are_answered_while_the_library_is_fetched(version: str) -> None:
    go = threading.Event()
    with pipes() as (wire, given, taken):
        thread = threading.Thread(target=answer_early, args=(wire, TABLE, go.wait))
        thread.start()
        for line in first_lines(version):
            given.write(line[:9])
            given.write(line[9:] + b"\n")
            if line != READY:
                assert id_of(json.loads(line_of(taken))) == json.loads(line)["id"]
        go.set()
        thread.join(60)
        assert not thread.is_alive()
        assert wire.head.split(b"\n")[:-1] == first_lines(version)
        assert not wire.is_done


def test_tools_that_are_asked_for_after_something_else_are_listed_at_once() -> None:
    go = threading.Event()
    with pipes() as (wire, given, taken):
        thread = threading.Thread(target=answer_early, args=(wire, TABLE, go.wait))
        thread.start()
        given.write(
            b"\n".join([hello(), READY, request(2, "resources/templates/list", {}), LIST, b""])
        )
        while len(wire.answered) < 2:
            threading.Event().wait(0.01)
        assert [json.loads(line)["id"] for line in line_of(taken).splitlines()] == [1, 3]
        go.set()
        thread.join(60)
    assert list(wire.answered) == [1, 3]
    assert not wire.is_done


def test_an_input_that_ends_after_the_handshake_needs_no_library() -> None:
    fetched: list[int] = []
    out, wire = from_table(TABLE, [hello(), READY], lambda: fetched.append(1))
    assert (out.count(b"\n"), wire.is_done, fetched) == (1, True, [])


UNUSUAL: Mapping[str, bytes] = {
    "no JSON": b"nonsense",
    "a batch": b"[" + LIST + b"]",
    "no object": b"3",
    "half a line": LIST[:-5] + b"\n" + LIST[-5:],
    "no UTF-8": LIST[:-2] + b"\xff" + LIST[-2:],
    "an escape": request("\udc80", "tools/list", {}),
    "a cursor": request(3, "tools/list", {"cursor": "x"}),
    "no params": LIST.replace(b"{}", b"null"),
    "params that are none": READY[:-1] + b', "params": [{}]}',
    "another version": LIST.replace(b'"2.0"', b'"1.0"'),
    "one more key": LIST[:-1] + b', "more": 1}',
    "an id that is none": request(1.5, "tools/list", {}),
    "an id that is true": request(True, "tools/list", {}),
    "a long id": request("x" * 101, "tools/list", {}),
    "no method": b'{"jsonrpc":"2.0","id":3,"result":{}}',
    "a second handshake": hello(),
    "the other era": request(3, "tools/list", {"_meta": META}),
    "a progress token and more": request(3, "tools/list", {"_meta": {"x": 1}}),
    "a progress token that is none": request(3, "tools/list", {"_meta": {"progressToken": None}}),
    "a method that is none": b'{"jsonrpc":"2.0","id":3,"method":[]}',
    "an id again": request(1, "resources/templates/list", {}),
    "too long": LIST[:-1] + b" " * 200_000 + b"}",
    "too deep": b'{"params": {"a":' + b"[" * 200_000,
}


@pytest.mark.parametrize("line", UNUSUAL.values(), ids=UNUSUAL)
def test_after_what_is_not_usual_nothing_is_answered(line: bytes) -> None:
    lines = [hello(), READY, line, LIST]
    out, wire = from_table(TABLE, lines, lambda: None)
    assert out == b'{"jsonrpc":"2.0","id":1,"result":{}}\n'
    assert (list(wire.answered), wire.is_done) == ([1], False)
    assert b"".join(each + b"\n" for each in lines).startswith(wire.head)


@pytest.mark.parametrize(
    "line",
    [
        LIST,
        hello("2026-07-28"),
        hello("2099-01-01"),
        hello(capabilities=[]),
        hello(capabilities={"roots": {"listChanged": "yes"}}),
        hello(capabilities={"sampling": True}),
        hello(capabilities={"tasks": {"requests": {"sampling": 5}}}),
        hello(capabilities={"tasks": {"requests": {"elicitation": {"create": "yes"}}}}),
        hello(clientInfo={"name": "x"}),
        hello(clientInfo={"name": "x", "version": 1}),
        hello(clientInfo={"name": "x", "version": "1", "icons": "x"}),
        hello(more=1),
        request(1, "server/discover", {}),
        request(1, "server/discover", {"_meta": {**META, "more": 1}}),
        request(1, "tools/list", {"_meta": META, "cursor": "x"}),
        request(1, "ping", {"_meta": META}),
        request(1, LISTEN, {"_meta": META}),
        request(1, LISTEN, {"_meta": META, "notifications": {}}),
        request(1, LISTEN, {"_meta": META, "notifications": {"resourcesListChanged": 1}}),
        request(1, LISTEN, {"_meta": META, "notifications": {**HEARS, "toolsListChanged": True}}),
        request(1, LISTEN, {"_meta": META, "notifications": HEARS, "more": 1}),
        request(1, "tools/list", {"_meta": META, "notifications": HEARS}),
    ],
)
def test_an_unusual_begin_is_left_to_the_library(line: bytes) -> None:
    out, wire = from_table(TABLE, [line, READY, LIST], lambda: None)
    assert (out, list(wire.answered), wire.is_done) == (b"", [], False)


@pytest.mark.parametrize(
    "capabilities",
    [
        {"roots": {"listChanged": True}, "sampling": {}, "elicitation": {"form": {}, "url": {}}},
        {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html"]}}},
        {"tasks": {"list": {}, "requests": {"sampling": {"createMessage": {}}}}},
    ],
)
def test_clients_name_their_capabilities(capabilities: Mapping[str, Any]) -> None:
    info = {"name": "x", "title": "X", "version": "1", "websiteUrl": "https://example.org"}
    lines = [hello(capabilities=capabilities, clientInfo=info), READY, LIST]
    out, wire = from_table(TABLE, lines, lambda: None)
    assert (out.count(b"\n"), list(wire.answered)) == (2, [1, 3])


CALLED = request(2, "tools/call", {"name": "list_dir", "arguments": {}, "_meta": META})


@pytest.mark.parametrize(
    ("lines", "answered"),
    [
        ([hello(), LIST, READY], [1]),  # before the handshake is complete
        ([CALLED, hello(), READY, LIST], []),  # the first request decides the era
        ([hello(), READY, request(3, "resources/templates/list", {}), LIST], [1]),  # it waits
    ],
)
def test_what_is_left_to_the_library(lines: list[bytes], answered: list[int]) -> None:
    out, wire = from_table(TABLE, lines, lambda: None)
    assert (out.count(b"\n"), list(wire.answered)) == (len(answered), answered)


def test_a_client_that_leaves_without_reading_is_no_error() -> None:
    ours, theirs = socket.socketpair()  # some clients give sockets, which then say "reset"
    wire = Wire(ours.fileno(), ours.fileno())
    with ours:
        with theirs:
            theirs.send(hello() + b"\n")
            ours.send(b"unread")
        ours.recv(1 << 16)
        answer_early(wire, TABLE, lambda: None)
    assert not wire.is_done


def test_a_sink_that_does_not_block_gets_all() -> None:
    big, got = b"x" * 300_000 + b"\n", list[bytes]()
    with pipes() as (wire, _, taken):
        os.set_blocking(wire.sink, False)
        reading = threading.Thread(target=lambda: got.append(line_of(taken)))
        threading.Timer(0.1, reading.start).start()
        write_all(wire.sink, big)
        reading.join(60)
    assert got == [big]


# Where it is kept


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "copydesk"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def keep(root: Path) -> None:
    start(root).keep(TABLE, str(root / ".copydesk"))


def start(at: Path, **options: object) -> Start:
    found = Start.of(str(at), options)
    assert found is not None
    return found


def test_a_table_is_trusted_by_its_stamp_only(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(root)
    assert start(root).table() == TABLE
    assert start(root, root="elsewhere").table() == TABLE  # which it is, was resolved
    for other in ({"lang": "zh"}, {"member": "x"}, {"toolsets": "edit"}, {"structured": True}):
        assert start(root, **other).table() is None
    monkeypatch.setenv("COPYDESK_LANG", "zh")
    assert start(root).table() is None
    keep(root)  # beside the other: two clients do not take turns
    monkeypatch.delenv("COPYDESK_LANG")
    for name in ("copydesk.toml", "pyproject.toml"):
        (root / name).write_text("")
        assert start(root).table() is None
        (root / name).unlink()
        assert start(root).table() == TABLE
    monkeypatch.setattr("copydesk.app.mcp.early._files_below", iter)
    assert start(root).table() is None


def test_no_table_lies_in_a_workspace(root: Path, cache: Path) -> None:
    keep(root)
    assert not list(root.rglob("*start*"))
    (kept,) = cache.rglob("*.json")
    assert (cache.stat().st_mode & 0o777, kept.stat().st_mode & 0o777) == (0o700, 0o600)
    other = root.parent / "other"
    root.rename(other)  # its files are another workspace's now
    assert start(other).table() is None


def test_a_relative_cache_is_none(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    assert Start.of(str(root), {}) is None
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(root.parent))
    assert Path(start(root).path).is_relative_to(root.parent / ".cache" / "copydesk")


def test_a_table_of_others(root: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(root)
    (kept,) = cache.rglob("*.json")
    for mode in (0o620, 0o602, 0o666):
        kept.chmod(mode)
        assert start(root).table() is None
    kept.chmod(0o600)
    assert start(root).table() == TABLE
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    assert start(root).table() is None
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache.parent))
    kept.rename(cache / "away")
    kept.symlink_to(cache / "away")
    assert start(root).table() is None


def test_latest_tables_stay(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("copydesk.app.mcp.early._MOST_KEPT", 2)
    for at in range(4):
        keep(tmp_path / str(at))
        os.utime(start(tmp_path / str(at)).path, (at, at))
    there = [start(tmp_path / str(at)).table() is not None for at in range(4)]
    assert there == [False, False, True, True]
    assert len(list(cache.iterdir())) == 2


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"of": 1}', b"\xff", b"null"])
def test_a_damaged_table_is_none(root: Path, cache: Path, damage: bytes) -> None:
    keep(root)
    (kept,) = cache.rglob("*.json")
    kept.write_bytes(damage)
    assert start(root).table() is None
    keep(root)
    assert start(root).table() == TABLE


@pytest.mark.parametrize("shared", [False, True], ids=["closed", "open"])
def test_resources_are_listed_early_while_nothing_is_pending(root: Path, shared: bool) -> None:
    (root / "a.txt").write_text("a\n")
    keep(root)
    with ExitStack() as held:
        if shared:
            held.enter_context(open_workspace(str(root))).history("local")
        for pending in (False, True, False):
            with open_workspace(str(root)) as opened:
                if pending:
                    edit = {"path": "a.txt", "content": "b"}
                    assert not opened.call("local", "prepare_file_append", edit).is_error
                for plan in () if pending else opened.pending("local"):
                    opened.call("local", "discard_hunk", {"hunk_id": plan.id})
            table = start(root).table()
            assert table is not None
            assert [RESOURCES in answers for answers in table.values()] == [not pending] * 5


@pytest.mark.anyio
async def test_a_plan_that_waits_is_in_no_table(tmp_path: Path) -> None:
    with opened_at(tmp_path) as opened:
        server = build(opened, lambda _: "local", **PLAIN)
        before = await recorded(server, resources=True)
        opened.call("local", "prepare_file_append", {"path": FILE, "content": "b"})
        assert await recorded(server, resources=True) == before


@pytest.mark.slow
@pytest.mark.anyio
async def test_who_was_acknowledged_early_is_told_of_plans(tmp_path: Path) -> None:
    lines = [*first_lines(MODERN)[:2], request(9, "server/discover", {"_meta": META})]
    with opened_at(tmp_path) as opened, pipes() as (wire, given, taken):
        table = await recorded(build(opened, lambda _: "local", **PLAIN), resources=True)
        _, early = await anyio.to_thread.run_sync(from_table, table, lines[:2], lambda: None)
        wire.head, wire.answered = b"\n".join([*lines, b""]), early.answered
        async with serving(opened, wire):
            discovered = json.loads(await heard(taken))
            opened.call("local", "prepare_file_append", {"path": FILE, "content": "b"})
            told = json.loads(await heard(taken))
            given.close()
    assert (list(early.answered), discovered["id"]) == ([1, "listen:0"], 9)
    assert told["method"] == "notifications/resources/list_changed"
    assert told["params"]["_meta"][SUBSCRIPTION] == "listen:0"


@pytest.mark.anyio
async def test_a_plan_that_came_after_the_early_answer_is_told(tmp_path: Path) -> None:
    asked = {1: "initialize", 2: RESOURCES, 3: "tools/list"}
    with opened_at(tmp_path) as opened, pipes() as (wire, given, taken):
        table = await recorded(build(opened, lambda _: "local", **PLAIN), resources=True)
        lines = [hello(), READY, request(2, RESOURCES, {}), LIST]
        wire.head = b"".join(line + b"\n" for line in lines)
        wire.answered = {
            number: f'{{"jsonrpc":"2.0","id":{number},"result":{table["2025-06-18"][method]}}}'.encode()
            for number, method in asked.items()
        }
        opened.call("local", "prepare_file_append", {"path": FILE, "content": "b"})
        async with serving(opened, wire):
            told = json.loads(await heard(taken))
            given.close()
    assert told["method"] == "notifications/resources/list_changed"


def test_a_server_that_lives_shortly_keeps_a_table(tmp_path: Path) -> None:
    kept: list[Table] = []
    with opened_at(tmp_path) as opened, pipes() as (wire, given, _):
        wire.keep = lambda table, state: kept.append(table)
        given.close()
        run_stdio(opened, "local", ("edit",), "en", False, wire=wire)
    assert [list(table) for table in kept] == [[*LEGACY, MODERN]]


def test_settings_that_cannot_be_read_are_told_by_the_server(root: Path) -> None:
    (root / "copydesk.toml").write_text("state = [\n")
    assert start(root).table() is None
    (root / "copydesk.toml").unlink()
    (root / "copydesk.toml").mkdir()
    assert Start.of(str(root), {}) is None
    assert start(root / "none").table() is None


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--portable"]], ids=["own", "portable"])
def test_init_makes_it_quick(root: Path, more: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(root.parent))
    words = ["--root", str(root), "init", "--client", "claude-code,cursor", "--yes", *more]
    assert main(words) == 0
    for file in (".mcp.json", ".cursor/mcp.json"):
        args = json.loads((root / file).read_text())["mcpServers"]["copydesk"]["args"]
        table = start(root, **vars(parse(args[args.index("mcp") :]))).table()
        assert table is not None
        assert [RESOURCES in answers for answers in table.values()] == [True] * 5
    assert "replace_text" in table["2025-06-18"]["tools/list"]


# Whole


def answers(server: Process, lines: list[bytes]) -> list[bytes]:
    found: list[bytes] = []
    for line in lines:
        server.send(line)
        if line != READY:
            found.append(server.taken.readline())
    return found


@pytest.mark.slow
@pytest.mark.parametrize("version", ["2025-06-18", MODERN])
def test_the_second_start_answers_as_the_first(tmp_path: Path, cache: Path, version: str) -> None:
    words = command(tmp_path)
    is_modern = version == MODERN
    meta: dict[str, Any] = {"_meta": META} if is_modern else {}
    last = (CLOSED if is_modern else b"", 0)
    given: dict[str, Any] = {**json.loads(call(9, "list_dir", {"path": "."}))["params"], **meta}
    kept: set[Path] = set()
    with closing(Process(tmp_path, *words)) as one:
        before = answers(one, first_lines(version))
        for _ in range(600):
            kept = set(cache.rglob("*.json"))
            if kept:
                break
            threading.Event().wait(0.1)
        assert one.end() == last
    assert kept
    for end in (b"{", json.dumps({"of": 0}).encode(), None):
        if end is not None:
            next(iter(kept)).write_bytes(end)
        with closing(Process(tmp_path, *words)) as two:
            asked = [*first_lines(version), request(9, "tools/call", given)]
            *early, called = answers(two, asked)
            assert early == before
            assert json.loads(called)["result"]["structuredContent"]["status"] == "ok"
            if end is not None:
                while not next(iter(kept)).read_bytes().startswith(b'{"of": "'):
                    threading.Event().wait(0.1)
            assert two.end() == last  # nothing is answered twice


@pytest.mark.slow
def test_a_signal_ends_a_server_that_has_only_answered_early(tmp_path: Path, cache: Path) -> None:
    words = command(tmp_path)
    with closing(Process(tmp_path, *words)) as one:
        answers(one, first_lines(MODERN))
        while not list(cache.rglob("*.json")):
            threading.Event().wait(0.1)
    with closing(Process(tmp_path, *words)) as two:
        answers(two, [hello()])
        two.process.terminate()
        assert two.process.wait(60) == 0
