"""Clients that cancel in mid-write, go away, read slowly or send half lines, from outside.

Real servers, judged by the bytes on disk and a later history: nothing is lost or torn, no answer
was false, and no server stands still.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from copydesk.app.workspace import open_workspace
from support.mcp_transports import Process, Raw, call, request, started

pytestmark = pytest.mark.slow

SECONDS = 30.0
FILES = 20


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("first\n")
    for number in range(FILES):
        (tmp_path / f"f{number}.txt").write_text("old\n")
    (tmp_path / "long.txt").write_text(
        "".join(f"line {at} of a long text\n" for at in range(9_000))
    )
    return tmp_path


def append(number: int, path: str = "a.txt") -> bytes:
    given = {"path": path, "content": f"line {number}", "apply": "auto"}
    return call(number, "prepare_file_append", given)


def cancel(number: int) -> bytes:
    params = {"requestId": number, "reason": "the user pressed Esc"}
    body = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
    return json.dumps(body).encode()


def answered(server: Process, *ids: int) -> dict[Any, Mapping[str, Any]]:
    """What the server says until it has answered all these."""
    found: dict[Any, Mapping[str, Any]] = {}
    while not found.keys() >= {*ids}:
        line = server.answer()
        if "id" in line:  # the rest are notifications
            assert line["id"] not in found
            found[line["id"]] = line
    return found


def answers_of(out: bytes) -> dict[Any, Mapping[str, Any]]:
    """The whole lines that a server printed, by id."""
    lines = [json.loads(line) for line in out.split(b"\n")[:-1]]
    return {line["id"]: line for line in lines if "id" in line}


def is_written(answer: Mapping[str, Any]) -> bool:
    return "edit_id" in answer.get("result", {}).get("structuredContent", {})


def recorded(root: Path, path: str = "a.txt") -> list[str]:
    """The lines that history says were appended to the file, oldest first; nothing is in doubt."""
    with open_workspace(str(root)) as opened:
        assert opened.journal.in_doubt() == ()
        edits = opened.history("local", path, most=10_000)
    assert {edit.state for edit in edits} <= {"done"}
    rows = [line for edit in reversed(edits) for line in edit.diff.decode().split("\n")]
    assert not [path for path in root.iterdir() if "copydesk" in path.name and path.is_file()][1:]
    return [row[1:] for row in rows if row.startswith("+line ")]


def check_written(root: Path, answers: Mapping[Any, Mapping[str, Any]]) -> int:
    """The file, history and answers agree; how many lines were written."""
    lines = (root / "a.txt").read_text().splitlines()
    assert lines[0] == "first"
    assert lines[1:] == recorded(root)
    assert len(lines) == len(set(lines))
    told = {f"line {number}" for number, answer in answers.items() if is_written(answer)}
    assert told <= {*lines}
    refused = {
        f"line {number}"
        for number, answer in answers.items()
        if not is_written(answer) and "closed" not in str(answer.get("error"))
    }
    assert not refused & {*lines}
    return len(lines) - 1


@pytest.mark.parametrize("seed", range(2))
def test_calls_that_are_cancelled_in_mid_write(root: Path, seed: int) -> None:
    drawn, count = random.Random(seed), 80
    with started(root) as server:
        for number in range(2, 2 + count):
            server.send(append(number))
            time.sleep(drawn.uniform(0, 0.012))
            if number % 2:
                server.send(cancel(number))
        server.send(append(9_999))
        kept = range(2, 2 + count, 2)
        answers = answered(server, *kept, 9_999)
        out, status = server.end()
    assert status == 0
    answers |= answers_of(out)
    assert all(is_written(answers[number]) for number in (*kept, 9_999))
    written = check_written(root, answers)
    assert written >= count // 2


@pytest.mark.parametrize("seed", range(2))
def test_a_transaction_that_is_cancelled_is_written_whole_or_not(root: Path, seed: int) -> None:
    drawn = random.Random(seed)
    with started(root) as server:
        for turn in range(8):
            base = 1_000 * (turn + 1)
            for at in range(FILES):
                given = {"path": f"f{at}.txt", "content": f"line {turn}"}
                server.send(call(base + at, "prepare_file_append", given))
            made = answered(server, *range(base, base + FILES))
            plans = [
                made[base + at]["result"]["structuredContent"]["hunk_id"] for at in range(FILES)
            ]
            server.send(call(base + 500, "apply_file_modifications", {"hunk_ids": plans}))
            time.sleep(drawn.uniform(0, 0.04))
            server.send(cancel(base + 500), request(base + 501, "ping", {}))
            answered(server, base + 501)
        assert server.end()[1] == 0
    texts = {(root / f"f{at}.txt").read_text() for at in range(FILES)}
    assert len(texts) == 1
    for at in range(FILES):
        lines = (root / f"f{at}.txt").read_text().splitlines()
        assert lines[1:] == recorded(root, f"f{at}.txt")


@pytest.mark.parametrize("how", ["closes its end", "is killed"])
def test_a_client_that_goes_in_mid_answer(root: Path, how: str) -> None:
    """What it asked for before is done or not, and recorded so; the server ends."""
    count = 60
    with started(root) as server:
        read = call(2, "read_file", {"path": "long.txt", "max_lines": 9_000})
        server.send(*(append(number) for number in range(100, 100 + count)), read)
        assert server.taken.readline()
        server.taken.close()
        if how == "closes its end":
            server.given.close()
            assert server.process.wait(SECONDS) == 0
        else:
            with contextlib.suppress(BrokenPipeError):
                for number in range(300, 320):
                    server.send(append(number))
                    time.sleep(0.005)
                server.given.close()
            assert server.process.wait(SECONDS) == 0
    assert check_written(root, {}) >= 1


def test_a_client_that_sends_all_before_it_reads(root: Path) -> None:
    """Neither waits for the other for ever: what is sent is taken while no answer is read."""
    count = 200
    with started(root) as server:
        read = [
            call(number, "read_file", {"path": "long.txt", "max_lines": 500})
            for number in range(1_000, 1_000 + count)
        ]
        sent = b"".join(line + b"\n" for line in [*map(append, range(2, 42)), *read])
        sent += b" " * 200_000 + b"\n" + append(9_999) + b"\n"
        left, fd = memoryview(sent), server.given.fileno()
        os.set_blocking(fd, False)
        deadline = time.monotonic() + SECONDS
        while left and time.monotonic() < deadline:
            if select.select([], [fd], [], 1)[1]:
                left = left[os.write(fd, left[:65_536]) :]
        assert not left, "the server no longer reads"
        os.set_blocking(fd, True)
        answers = answered(server, *range(2, 42), *range(1_000, 1_000 + count), 9_999)
        assert server.end()[1] == 0
    assert check_written(root, answers) == 41


def test_a_client_that_does_not_read_holds_nobody_up(root: Path) -> None:
    """Another server on the same files goes on, and no lock is held while an answer waits."""
    with started(root) as deaf, started(root) as other:
        read = call(900, "read_file", {"path": "long.txt", "max_lines": 9_000})
        deaf.send(
            *(append(number) for number in range(100, 120)), read, *map(append, range(120, 140))
        )
        for number in range(2, 22):
            other.send(append(number))
            assert is_written(answered(other, number)[number])
        assert other.end()[1] == 0
        answers = answered(deaf, *range(100, 140), 900)
        assert deaf.end()[1] == 0
    answers.pop(900)
    assert check_written(root, answers) == 60


def test_a_client_that_reads_slowly_gets_every_answer_whole(root: Path) -> None:
    with started(root) as server:
        out = b""
        for number in range(2, 22):
            server.send(append(number))
            server.send(call(number + 100, "read_file", {"path": "long.txt", "max_lines": 2_000}))
        while out.count(b'"result"') < 40:
            out += os.read(server.taken.fileno(), 16_384)
            time.sleep(0.002)
        rest, status = server.end()
    assert status == 0
    answers = answers_of(out + rest)
    assert len(answers) == 40
    assert check_written(root, answers) == 20


def test_half_lines(root: Path) -> None:
    """In pieces, also within a character; the end of the input in mid-line; nothing is guessed."""
    with started(root) as server:
        given = {"path": "a.txt", "content": "line 中文", "apply": "auto"}
        body = {"jsonrpc": "2.0", "id": 2, "method": "tools/call"}
        body["params"] = {"name": "prepare_file_append", "arguments": given}
        line = json.dumps(body, ensure_ascii=False).encode() + b"\r\n"
        for at in range(0, len(line), 7):
            server.write(line[at : at + 7])
            time.sleep(0.003)
        assert is_written(server.answer())
        half = append(3)
        for cut in (len(half) // 2, len(half) - 1):
            server.write(half[:cut])
            time.sleep(0.05)
            server.write(b"\n")
            assert server.answer()["error"]["code"] == -32700
        server.write(append(4)[:-9])
        server.given.close()
        rest = server.taken.read()
        assert server.process.wait(SECONDS) == 0
    assert all("error" in json.loads(each) for each in rest.splitlines())
    assert recorded(root) == ["line 中文"]
    assert (root / "a.txt").read_text() == "first\nline 中文\n"


@contextmanager
def served(root: Path) -> Iterator[tuple[str, int]]:
    """A server over HTTP as a process of its own: its address and port."""
    (root / "copydesk.toml").write_text('durability = "fast"\n')
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "copydesk", "serve", "--structured", "--port", str(port)]
    with subprocess.Popen([*words, "--root", str(root)], stderr=subprocess.PIPE) as process:
        late = threading.Timer(5 * SECONDS, process.kill)
        late.start()
        try:
            deadline = time.monotonic() + SECONDS
            while True:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
                assert time.monotonic() < deadline
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}", port
            process.terminate()
            assert process.wait(SECONDS) in (0, -15)
        finally:
            late.cancel()
            process.kill()


def posted(port: int, body: bytes) -> bytes:
    """The bytes of a call by the newer protocol, which has no session."""
    name = json.loads(body)["params"]["name"]
    asked = json.loads(body)
    meta = {"protocolVersion": "2026-07-28", "clientCapabilities": {}}
    asked["params"]["_meta"] = {f"io.modelcontextprotocol/{k}": v for k, v in meta.items()}
    data = json.dumps(asked).encode()
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n"
        f"Mcp-Method: tools/call\r\nMcp-Name: {name}\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


def test_http_clients_that_go_in_mid_request_and_mid_answer(root: Path) -> None:
    drawn = random.Random(7)
    with served(root) as (address, port):
        raw_client = Raw(address, "auto")
        for number in (2, 3):  # the first has to start what the others find
            begun = time.monotonic()
            given = json.loads(append(number))["params"]["arguments"]
            assert is_written(raw_client.call(number, "prepare_file_append", given))
            usual = time.monotonic() - begun
        for number in range(4, 64):
            raw = posted(port, append(number))
            with socket.create_connection(("127.0.0.1", port)) as client:
                cut = drawn.choice([len(raw) // 2, len(raw), len(raw), len(raw)])
                client.sendall(raw[:cut])
                time.sleep(drawn.uniform(0, 2 * usual))  # a loaded machine takes longer
                if drawn.random() < 0.5:  # a reset instead of an end
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        last = raw_client.call(
            9_999, "prepare_file_append", json.loads(append(9_999))["params"]["arguments"]
        )
        assert is_written(last)
    assert check_written(root, {9_999: last}) >= 4  # some of those who went away were in time


def test_http_clients_that_do_not_read_their_answers_stop_nobody(root: Path) -> None:
    with served(root) as (address, port), contextlib.ExitStack() as clients:
        read = call(5, "read_file", {"path": "long.txt", "max_lines": 9_000})
        slow = list[socket.socket]()
        for number in range(40):
            client = clients.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
            client.connect(("127.0.0.1", port))
            client.sendall(posted(port, read) * 3 + posted(port, append(100 + number)))
            slow.append(client)
        raw = Raw(address, "auto")
        for number in range(2, 12):
            given = json.loads(append(number))["params"]["arguments"]
            assert is_written(raw.call(number, "prepare_file_append", given))
        for client in slow[::2]:
            client.close()
        answer = raw.call(50, "list_edits", {"path": "a.txt"})
        assert answer["result"]["structuredContent"]["status"] == "ok"
    written = check_written(root, {})
    assert written >= 10
