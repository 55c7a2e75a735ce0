"""The MCP server as a process on stdio: every tool, hostile lines, how it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import mcp_types as t
import pytest

from copydesk.app.workspace import open_workspace
from copydesk.desk.overwritten import LOOK_SECONDS
from support.cost import first
from support.mcp_calls import FILE, call_each
from support.mcp_transports import (
    BAD_TEXTS,
    HELLO,
    READY,
    WIRE_MODES,
    Process,
    call,
    command,
    request,
    started,
    stdio_client,
    takes_20_megabytes,
)

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """One process for all that must not end it."""
    with started(tmp_path_factory.mktemp("root")) as found:
        yield found
        assert found.end() == (b"", 0)


@pytest.mark.parametrize("mode", first(*WIRE_MODES))
async def test_stdio_each_tool_answers(tmp_path: Path, mode: str) -> None:
    async with stdio_client(tmp_path, mode) as client:
        assert client.protocol_version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
        await call_each(client, tmp_path)


@pytest.mark.slow
def test_stdio_a_bad_text_is_refused(process: Process) -> None:
    for name, bad in BAD_TEXTS.items():
        plain = call("a", "prepare_file_append", {"path": FILE, "content": "BAD"})
        process.send(plain.replace(b"BAD", bad), call("b", "list_dir", {"path": "."}))
        answers = {one["id"]: one["result"] for one in (process.answer(), process.answer())}
        assert answers["a"]["isError"], name
        assert answers["a"]["structuredContent"]["error"] == "INVALID_ARGS", name
        assert "content" in answers["a"]["content"][0]["text"], name
        assert not answers["b"].get("isError"), name


WRONG: list[tuple[bytes, object, int]] = [
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
]


@pytest.mark.slow
def test_stdio_what_cannot_be_taken_is_answered(process: Process) -> None:
    for raw, request_id, code in WRONG:
        process.send(raw)
        answer = process.answer()
        assert (answer["id"], answer["error"]["code"]) == (request_id, code), raw[:80]
        process.send(b"", b"  ", request(6, "tools/list", {}))
        assert process.answer()["id"] == 6


@pytest.mark.slow
def test_stdio_garbage_before_the_first_request(tmp_path: Path) -> None:
    with closing(Process(tmp_path)) as found:
        found.send(b"\xff\0", request(1, "initialize", HELLO))
        assert {found.answer()["id"], found.answer()["id"]} == {None, 1}
        assert found.end() == (b"", 0)


@pytest.mark.slow
@pytest.mark.parametrize("mode", WIRE_MODES)
async def test_stdio_takes_20_megabytes(tmp_path: Path, mode: str) -> None:
    async with stdio_client(tmp_path, mode) as client:
        await takes_20_megabytes(client, tmp_path)


@pytest.mark.slow
def test_stdio_a_line_that_is_too_long_is_answered(process: Process) -> None:
    head = call(5, "list_dir", {"path": "."})[:-3]
    process.send(head + b"x" * (65 << 20), request(6, "tools/list", {}))
    answer = process.answer()
    assert (answer["id"], answer["error"]["code"]) == (5, t.INVALID_REQUEST)
    assert process.answer()["id"] == 6


@pytest.mark.slow
def test_stdio_ends_with_its_input(tmp_path: Path) -> None:
    with closing(Process(tmp_path)) as found:
        assert found.end() == (b"", 0)


@pytest.mark.slow
@pytest.mark.parametrize("number", first(signal.SIGTERM, signal.SIGINT))
def test_stdio_ends_at_a_signal(tmp_path: Path, number: int) -> None:
    with started(tmp_path) as found:
        found.process.send_signal(number)
        assert found.process.wait() == 0
        assert found.end()[0] == b""


@pytest.mark.slow
def test_stdio_ends_when_nobody_reads(tmp_path: Path) -> None:
    with started(tmp_path) as found:
        found.taken.close()
        found.send(*(request(number, "tools/list", {}) for number in range(50)))
        found.given.close()
        assert found.process.wait() == 0


HANGS = """
import sys, threading
from copydesk.app.mcp import server
from copydesk.app.workspace import open_workspace

def hang(*given, **options):
    print("began", flush=True)  # to standard error: the wire is not for prints
    threading.Event().wait()

server.GRACE_SECONDS = 0.2
with open_workspace(sys.argv[1], shared=False) as opened:
    opened.call = hang
    server.run_stdio(opened, "local", ("ws_mod",), "en", True)
"""


@pytest.mark.slow
def test_stdio_ends_when_a_call_does_not(tmp_path: Path) -> None:
    with closing(Process(tmp_path, sys.executable, "-c", HANGS, str(tmp_path))) as found:
        found.send(request(1, "initialize", HELLO), call(2, "list_dir", {"path": "."}))
        assert found.answer()["id"] == 1
        assert found.process.stderr is not None
        assert found.process.stderr.readline() == b"began\n"
        out, status = found.end()
        assert status == 1
        assert b"result" not in out


LIGHT = """
import sys
import time
import copydesk.app.cli.commands
heavy = {"mcp", "mcp_types", "pydantic", "starlette", "uvicorn", "anyio", "jsonschema"}
print(sorted(heavy & sys.modules.keys()))
"""


@pytest.mark.slow
def test_nothing_heavy_is_imported_before_a_server_is_started() -> None:
    assert subprocess.check_output([sys.executable, "-c", LIGHT]) == b"[]\n"


@pytest.mark.slow
def test_stdio_edits_are_of_the_task_of_the_server(tmp_path: Path) -> None:
    """Unless the call names another."""
    program = [*command(tmp_path), "--task", "fix login"]
    given = {"name": "prepare_file_append", "arguments": {"path": FILE, "content": "x"}}
    named = {**given, "_meta": {"copydesk/task": "its own"}}
    with closing(Process(tmp_path, *program)) as process:
        process.send(request(1, "initialize", HELLO), READY)
        process.send(request(2, "tools/call", given), request(3, "tools/call", named))
        ids = {answer["id"] for answer in (process.answer(), process.answer(), process.answer())}
        assert (ids, process.end()[1]) == ({1, 2, 3}, 0)
    with open_workspace(str(tmp_path)) as opened:
        assert {plan.task for plan in opened.pending("local")} == {"fix login", "its own"}


def test_next_steps_are_calls_of_tools(tmp_path: Path) -> None:
    """A client may have no shell: its agent is told calls, a person in a terminal commands."""
    (tmp_path / "copydesk.toml").write_text('[members.local]\napply = "auto"\n')
    file = tmp_path / "a.txt"
    file.write_text("one\ntwo\nthree\n")
    with started(tmp_path) as process:
        process.send(call(2, "replace_text", {"path": "a.txt", "old": "two", "new": "second line"}))
        assert process.answer()["result"].get("isError", False) is False
        time.sleep(2 * LOOK_SECONDS)  # the file has been looked at
        file.write_text("one\ntwo\nthree\n")  # an editor saves its old buffer
        process.send(call(3, "read_file", {"path": "a.txt"}))
        said = process.answer()["result"]["content"][0]["text"]
        assert 'undo_file_modification({"edit_id": 1, "again": true}) puts it back' in said
        assert process.end() == (b"", 0)
