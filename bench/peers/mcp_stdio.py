"""MCP servers over standard input and output, through one small client for all of them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.contestant import FILE, Contestant, Job, Refused, Unsupported, memory_kb, reset_peak

START_SECONDS = 60.0


class Client:
    """A server started with `command`; one request at a time. The era with a handshake."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the server is
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=dict(os.environ),
        )
        self._id = 0
        self.greeting = self._ask(
            "initialize",
            {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "bench", "version": "1"},
            },
        )
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, tool: str, arguments: dict[str, Any]) -> str:
        """The text that the tool answers; raises Refused with it when it is an error."""
        result = self._ask("tools/call", {"name": tool, "arguments": arguments})
        text = "\n".join(part.get("text", "") for part in result["content"])
        if result.get("isError"):
            raise Refused(text)
        return text

    def offered(self) -> str:
        """What each request pays for: the list of tools, and the instructions."""
        tools = self._ask("tools/list", {})["tools"]
        listed = json.dumps(tools, ensure_ascii=False, separators=(",", ":"))
        return f"{listed}\n{self.greeting.get('instructions', '')}"

    def close(self) -> None:
        """End the server."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self._errors.close()

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._id += 1
        self._send({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params})
        assert self.process.stdout is not None
        while True:
            line = self.process.stdout.readline()
            if not line:
                self._errors.seek(0)
                said = self._errors.read().decode("utf-8", "replace")
                raise Refused(f"the server has ended: {said[-2000:]}")
            reply = json.loads(line)
            if reply.get("id") == self._id and "method" not in reply:
                break
        if "error" in reply:
            raise Refused(json.dumps(reply["error"]))
        result: dict[str, Any] = reply["result"]
        return result

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()


class Server(Contestant):
    """A contestant behind a client; memory is the server's."""

    def command(self) -> list[str]:
        """How the server is started."""
        raise NotImplementedError

    def open(self, root: Path) -> None:
        """Start the server and greet it."""
        super().open(root)
        self._client = Client(self.command(), root)

    def close(self) -> None:
        """End the server."""
        self._client.close()

    def call(self, tool: str, **arguments: Any) -> str:
        """A tool's text."""
        return self._client.call(tool, arguments)

    def reset_peak(self) -> None:
        """Of the server."""
        reset_peak(self._client.process.pid)

    def peak_kb(self) -> int:
        """Of the server."""
        return memory_kb(self._client.process.pid, "VmHWM")

    def idle_kb(self) -> int:
        """Of the server."""
        return memory_kb(self._client.process.pid, "VmRSS")


class FilesystemServer(Server):
    """@modelcontextprotocol/server-filesystem. Options: `node`, `script`."""

    def command(self) -> list[str]:
        """Node on the package's script."""
        return [self.options["node"], self.options["script"], str(self.root.resolve())]

    def edit(self, job: Job) -> Callable[[], object]:
        """All edits in one call."""
        edits = [{"oldText": "\n".join(c.old), "newText": "\n".join(c.new)} for c in job.changes]
        where = str(self.root.resolve() / FILE)
        return lambda: self.call("edit_file", path=where, edits=edits)

    def replace(self, path: str, old: str, new: str) -> Callable[[], object]:
        """One edit."""
        edits = [{"oldText": old, "newText": new}]
        return lambda: self.call("edit_file", path=str(self.root.resolve() / path), edits=edits)

    def read_end(self, lines: int) -> Callable[[], str]:
        """The option `tail`, which counts nothing."""
        where = str(self.root.resolve() / FILE)
        return lambda: self.call("read_text_file", path=where, tail=lines)


class CopydeskServer(Server):
    """`copydesk mcp`. Options: `program`, `durability`, `calls` (one or two for an edit)."""

    def command(self) -> list[str]:
        """The program of this environment."""
        os.environ["COPYDESK_DURABILITY"] = self.options["durability"]
        return [self.options["program"], "mcp", "--root", str(self.root)]

    def edit(self, job: Job) -> Callable[[], object]:
        """Prepared and applied: in two calls, or in one that says what it replaces."""
        if job.how != "line":
            raise Unsupported
        (change,) = job.changes
        plan = {
            "path": FILE,
            "range": str(change.line),
            "content": "".join(f"{line}\n" for line in change.new),
        }
        if self.options["calls"] == "1":
            old = "".join(f"{line}\n" for line in change.old)
            return lambda: self._written(
                self.call("prepare_file_range_edit", **plan, apply="auto", expected_old=old)
            )

        def call() -> str:
            shown = self.call("prepare_file_range_edit", **plan)
            found = re.search(r"hunk_id\W+([0-9a-f]{8})", shown)
            if found is None:
                raise Refused(shown)
            return self.call("apply_file_modification", hunk_id=found[1])

        return call

    @staticmethod
    def _written(shown: str) -> str:
        if not re.search(r"\bedit \d", shown):
            raise Refused(shown)
        return shown


class EmptyServer(Server):
    """The SDK's own server with a tool that does nothing: what a call costs at least.

    Options: `calls`, how many for an edit.
    """

    def command(self) -> list[str]:
        """The script beside this one."""
        return [sys.executable, str(Path(__file__).with_name("bare_server.py"))]

    def edit(self, job: Job) -> Callable[[], object]:
        """Empty calls."""
        return lambda: [self.call("nothing") for _ in range(int(self.options["calls"]))]


def first_answer(command: Sequence[str], folder: Path) -> float:
    """Seconds from the start of a server to its first answer."""
    began = time.perf_counter()
    client = Client(command, folder)
    seconds = time.perf_counter() - began
    client.close()
    return seconds
