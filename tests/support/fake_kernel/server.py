"""The fake kernel as a server: a thread, a socket, JSON in and out."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any

from support.fake_kernel.calls import WRITES, Calls, NoSuchPath
from support.fake_kernel.habits import Fault, Habits
from support.fake_kernel.kramdown import Node, Refused, fresh_id, kramdown, restart
from support.fake_kernel.workspace import Box, Document

TOKEN = "sixteen-letters!"

_OPEN = ("/api/system/version", "/api/system/bootProgress")
_BEFORE: tuple[Fault, ...] = ("refused", "ignored", "panic", "hung_up", "error_page", "silent")


class FakeKernel:
    """A kernel that listens while the context is entered. One request at a time."""

    def __init__(self, version: str = "3.7.3") -> None:
        self.closing = threading.Event()
        self.turn = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.kernel = self
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )

        self.reset(version)

    def reset(self, version: str = "3.7.3") -> None:
        """A new kernel at the old address: nothing in it, nothing wrong with it."""
        self.closing.set()
        self.closing = threading.Event()
        restart()
        self.habits = Habits(version)
        self.calls = Calls(self.habits)
        self.token = TOKEN
        self.gone = False
        self.waiting: list[tuple[int, str, dict[str, Any]]] = []
        self.connections = 0

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def __enter__(self) -> FakeKernel:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def box(self, name: str = "Notes", *, closed: bool = False) -> str:
        """A new notebook; its id."""
        made = Box(fresh_id(), name, closed)
        self.calls.space.boxes.append(made)
        if self.habits.since >= (3, 7):  # a notebook is a document, too
            root = Node("d", id=made.id, attributes={"title": name, "type": "doc"})
            self.calls.space.documents.append(Document(made.id, (), root))
        return made.id

    def document(self, box: str, title: str, markdown: str) -> str:
        """A new document at the top of a notebook; its id."""
        made = self.calls.space.create(box, f"/{title}", markdown, "", fresh_id())
        self.calls.flush()
        return made.root.id

    def node(self, block_id: str) -> Node:
        """A block as it is; deletions that wait are done first."""
        self.calls.flush()
        found = self.calls.space.find(block_id)
        assert found is not None
        return found[1]

    def all(self) -> str:
        """All documents with ids and attributes, without times of change; deletions done."""
        self.calls.flush()
        return "\n\n".join(
            f"{one.box}{one.path}\n{kramdown(_timeless(one.root))}"
            for one in self.calls.space.documents
            if one.root.id != one.box
        )

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, bytes | None, bool]:
        """Status and body of an answer; a body of None hangs up; True waits until the end first."""
        habits = self.habits
        habits.calls.append(path)
        self.waiting = [(left - 1, late, content) for left, late, content in self.waiting]
        for left, late, content in self.waiting:
            if left == 0:
                self.calls.answer(late, content, None)
        fault: Fault | None = None
        if path in WRITES:
            habits.writes += 1
            fault = habits.faults.get(habits.writes)
        if fault == "unauthorized":
            self.token = "another"
            return 401, b"", False
        self.gone = self.gone or fault == "gone"
        if self.gone:
            return 0, None, False
        if habits.dark:
            habits.dark -= 1
            return 500, b"", False
        habits.dark = {"blinks_after": 1, "blind_after": 3}.get(fault or "", 0)
        if habits.forbidden and path not in _OPEN:
            return 403, b"", False
        if fault == "late":
            self.waiting.append((habits.lateness, path, body))
            return 200, None, True
        if fault in _BEFORE:
            return _before(fault)
        try:
            data = self.calls.answer(path, body, fault)
        except Refused as refused:
            return 200, _envelope(-1, str(refused), None), False
        except NoSuchPath:
            return 404, b"404 page not found", False
        except Exception:  # a panic is recovered from, and answered as if all were well
            return 200, _envelope(0, "", None), False
        return _after(fault, data)


def _before(fault: Fault | None) -> tuple[int, bytes | None, bool]:
    if fault == "refused":
        return 200, _envelope(-1, "no", None), False
    if fault == "ignored":
        told = [{"doOperations": [{"action": "insert", "id": fresh_id(), "data": ""}]}]
        return 200, _envelope(0, "", told), False
    if fault == "panic":
        return 200, _envelope(0, "", None), False
    if fault == "error_page":
        return 500, b"<html>", False
    return 200, None, fault == "silent"


def _after(fault: Fault | None, data: object) -> tuple[int, bytes | None, bool]:
    if fault == "panic_after":
        return 200, _envelope(0, "", None), False
    if fault == "error_page_after":
        return 502, b"<html>", False
    if fault == "nonsense_after":
        return 200, b'{"code": 0, "data": [', False
    if fault == "flooded_after":
        return 200, b" " * (1 << 20), False
    if fault in ("hung_up_after", "silent_after"):
        return 200, None, fault == "silent_after"
    return 200, _envelope(0, "", data), False


def _envelope(code: int, message: str, data: object) -> bytes:
    return json.dumps({"code": code, "msg": message, "data": data}).encode()


def _timeless(node: Node) -> Node:
    attributes = {
        name: node.attributes[name] for name in sorted(node.attributes.keys() - {"updated"})
    }
    return Node(
        node.kind,
        node.text,
        node.subtype,
        node.id,
        attributes,
        [_timeless(one) for one in node.children],
    )


class _Server(ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    kernel: FakeKernel


class _Handler(StreamRequestHandler):
    """Requests on one connection; of HTTP as little as it needs, for it answers thousands."""

    server: _Server

    disable_nagle_algorithm = True

    def handle(self) -> None:
        self.server.kernel.connections += 1
        with suppress(ConnectionError):  # nobody waits for it any more
            while (line := self.rfile.readline()) and self._answer(line.split()[1].decode()):
                pass

    def finish(self) -> None:
        with suppress(ConnectionError):
            super().finish()

    def _answer(self, path: str) -> bool:
        """Answer one request; whether the connection goes on."""
        headers: dict[str, str] = {}
        while line := self.rfile.readline().strip():
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        raw = self.rfile.read(int(headers.get("content-length", "0")))
        kernel = self.server.kernel
        if headers.get("authorization") != f"Token {kernel.token}" and path not in _OPEN:
            return self._send(401, b'{"code":-1,"msg":"Auth failed [header: Authorization]"}')
        if kernel.habits.redirect:
            return self._send(302, b"", f"Location: {kernel.habits.redirect}{path}\r\n")
        with kernel.turn:
            status, body, waits = kernel.answer(path, json.loads(raw))
        if waits:
            kernel.closing.wait(10)
        return body is not None and self._send(status, body)

    def _send(self, status: int, body: bytes, more: str = "") -> bool:
        head = f"HTTP/1.1 {status} -\r\n{more}Content-Length: {len(body)}\r\n\r\n"
        with suppress(OSError):  # nobody waits for it any more
            self.wfile.write(head.encode() + body)
            return not self.server.kernel.habits.hangs_up
        return False
