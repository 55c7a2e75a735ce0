"""The processes of a soak: servers, foreign programs, a Redis server, and their faults.

Invariant: signals are sent only to children of this process.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench.soak import foreign, no_exchange
from bench.soak.observer import ForeignWrite

if TYPE_CHECKING:
    from mcp import Client

REDIS: str | None = shutil.which("redis-server") or shutil.which("valkey-server")
PATIENCE = 30.0
_START = 20.0
HOW = ("append", "save", "format", "race", "apart")


class NotStarted(Exception):
    """A server of the soak did not start; the message names its log."""


class Fault(NamedTuple):
    """One injected fault: when, its kind, and its target."""

    at: float
    kind: str
    whom: str


def command(*words: str) -> list[str]:
    """The words that run this copydesk."""
    return [sys.executable, "-m", "copydesk", *words]


def without_exchange(words: Sequence[str]) -> list[str]:
    """The words that run a command on a system that cannot exchange two names."""
    return [sys.executable, no_exchange.__file__, *words]


def is_child(pid: int) -> bool:
    """Whether a process is a child of this one; True if unknown."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except FileNotFoundError:
        return not os.path.isdir("/proc/self")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[1] == str(os.getpid())


@dataclass
class Program:
    """A process that can be started, ended and started again."""

    name: str
    words: Sequence[str]
    log: Path
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id; 0 while the process does not run."""
        return self.process.pid if self.process and self.process.poll() is None else 0

    def answers(self) -> bool:
        """Whether the process accepts requests; may raise OSError."""
        return True

    async def ready(self) -> None:
        """Wait until the process accepts requests; raises NotStarted."""
        until = time.monotonic() + _START
        while time.monotonic() < until:
            with suppress(OSError):
                if self.answers():
                    return
            await asyncio.sleep(0.05)
        raise NotStarted(f"{self.name} did not start; its log is {self.log}")

    def start(self) -> None:
        """Start the process; its output is appended to its log."""
        with open(self.log, "ab") as out:
            self.process = subprocess.Popen(
                self.words,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={**os.environ, **self.env},
                start_new_session=True,
            )

    def end(self, how: int = signal.SIGTERM, seconds: float = 10.0) -> None:
        """End the process and wait for it; kill it if it does not end."""
        if self.process is None:
            return
        with suppress(ProcessLookupError):
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGCONT)
                self.process.send_signal(how)
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None


class HttpServer(Program):
    """`copydesk serve` on one machine."""

    port = 0

    @property
    def address(self) -> str:
        """The URL of the server."""
        return f"http://127.0.0.1:{self.port}"

    def answers(self) -> bool:
        with socket.create_connection(("127.0.0.1", self.port), 1):
            return True

    @asynccontextmanager
    async def client(self, token: str) -> AsyncGenerator[Client]:
        """An MCP client of the server for the member with this token."""
        import httpx2
        from mcp import Client
        from mcp.client.streamable_http import streamable_http_client

        headers = {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http:
            transport = streamable_http_client(f"{self.address}/mcp", http_client=http)
            async with Client(transport, read_timeout_seconds=PATIENCE) as client:
                yield client


@dataclass
class StdioServer:
    """`copydesk mcp`, started by the client library for each session; a file has its process id."""

    name: str
    words: Sequence[str]
    pid_file: Path
    log: Path
    env: Mapping[str, str]

    @property
    def pid(self) -> int:
        """The process id of the open session; 0 if there is none."""
        try:
            pid = int(self.pid_file.read_text("ascii"))
        except (OSError, ValueError):
            return 0
        return pid if is_child(pid) else 0

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[Client]:
        """An MCP client with a server process of its own."""
        from mcp import Client, StdioServerParameters

        shell = 'echo $$ >"$0"; log="$1"; shift; exec "$@" 2>>"$log"'
        words = ["-c", shell, str(self.pid_file), str(self.log), *self.words]
        env = {**os.environ, **self.env}
        started = StdioServerParameters(command="/bin/sh", args=words, env=env)
        async with Client(started, read_timeout_seconds=PATIENCE) as client:
            yield client


class RedisServer(Program):
    """A durable Redis server for this run, reached only by a socket."""

    def __init__(self, log: Path) -> None:
        assert REDIS is not None
        self.folder = tempfile.mkdtemp(prefix="soak-")  # the path of a socket must be short
        options = {"port": "0", "unixsocket": f"{self.folder}/socket", "dir": self.folder}
        options |= {"save": "", "appendonly": "yes", "appendfsync": "always"}
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        super().__init__("redis-server", [REDIS, *words], log)

    @property
    def url(self) -> str:
        """The URL of the server's socket."""
        return f"unix://{self.folder}/socket"

    def answers(self) -> bool:
        return self._reply("PING").startswith("+PONG")

    def used(self) -> int:
        """The bytes it uses in memory; 0 while it does not answer."""
        with suppress(OSError, IndexError):
            return int(self._reply("INFO memory").split("used_memory:")[1].split()[0])
        return 0

    def _reply(self, command: str) -> str:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(1)
            client.connect(f"{self.folder}/socket")
            client.sendall(f"{command}\r\n".encode())
            return client.recv(65_536).decode()

    def remove(self) -> None:
        """End the server and remove its folder."""
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)


class ForeignProgram(Program):
    """A program that writes to the files without copydesk."""

    def __init__(
        self, number: int, root: Path, folder: Path, files: Mapping[str, Sequence[str]], seed: str
    ) -> None:
        how = HOW[number % len(HOW)]
        paths = list(files.get(how, files["shared"]))
        self.facts = folder / f"foreign-{number}.jsonl"
        self._given = {"root": str(root), "log": str(self.facts), "name": f"F{number}"}
        self._more = {"how": how, "paths": paths, "seed": seed}
        super().__init__(f"foreign-{number} ({how})", (), folder / "foreign.log")

    def start(self) -> None:
        """Start the program; its tokens continue where they ended."""
        count = len(self.facts.read_bytes().split(b"\n")) if self.facts.exists() else 0
        given = json.dumps({**self._given, **self._more, "first": count})
        self.words = [sys.executable, foreign.__file__, given]
        super().start()

    def writes(self) -> list[ForeignWrite]:
        """The logged writes; the two records of a completed write are merged."""
        found: list[ForeignWrite] = []
        lines = self.facts.read_text("utf-8").split("\n") if self.facts.exists() else []
        for line in lines[:-1]:  # a line cut off by a kill announced nothing yet
            fact = json.loads(line)
            fact["dropped"] = tuple(fact["dropped"])
            if fact["done"]:  # its first record is the one before
                fact["order"] = found.pop().order
            found.append(ForeignWrite(**fact))
        return found


@dataclass
class Faults:
    """Injects one fault after the other; the kinds take turns in random order."""

    http: list[HttpServer]
    stdio: list[StdioServer]
    foreign: list[ForeignProgram]
    redis: RedisServer | None
    sessions: Sequence[object]
    seed: str
    happened: list[Fault] = field(default_factory=list[Fault])
    failed: list[str] = field(default_factory=list[str])

    async def run(self, until: float) -> None:
        """Inject faults until then; every pause and limit is lifted in any case."""
        chance = random.Random(self.seed)
        kinds = ["kill server", "kill stdio", "kill foreign", "pause", "full disk", "drop session"]
        if self.redis is not None:
            kinds += ["kill redis", "restart redis", "pause redis", "long pause"]
        while True:
            chance.shuffle(kinds)
            for kind in kinds:
                wait = chance.uniform(0.5, 4.0)
                if time.monotonic() + wait > until - 3:
                    return
                await asyncio.sleep(wait)
                try:
                    await self._do(kind, chance)
                except NotStarted as error:
                    self.failed.append(str(error))

    async def _do(self, kind: str, chance: random.Random) -> None:
        http = chance.choice(self.http)
        stdio = chance.choice(self.stdio) if self.stdio else http
        foreign = chance.choice(self.foreign) if self.foreign else None
        seconds = chance.uniform(0.1, 1.5)
        if kind == "kill server":
            self._noted(kind, http.name)
            http.end(signal.SIGKILL)
            await asyncio.sleep(seconds / 2)
            http.start()
            await http.ready()
        elif kind == "kill stdio" and stdio is not http and (pid := stdio.pid):
            self._noted(kind, stdio.name)
            _signal(pid, signal.SIGKILL)
        elif kind == "kill foreign" and foreign is not None:
            self._noted(kind, foreign.name)
            foreign.end(signal.SIGKILL)
            foreign.start()
        elif kind in ("pause", "long pause"):
            one = chance.choice((http, stdio, foreign or http))
            if pid := one.pid:
                self._noted(kind, one.name)
                await _paused(pid, seconds + (6 if kind == "long pause" else 0))
        elif kind == "full disk" and (pid := chance.choice((http, stdio)).pid):
            name = http.name if pid == http.pid else stdio.name
            most = chance.choice((0, 2_000, 40_000))
            if _limited(pid, most):
                self._noted(kind, f"{name}: no file beyond {most:,} bytes")
                await asyncio.sleep(seconds)
                _limited(pid, None)
        elif kind == "drop session":
            agent = chance.choice(self.sessions)
            task = getattr(agent, "task", None)
            if isinstance(task, asyncio.Task):
                self._noted(kind, str(getattr(agent, "name", "")))
                task.cancel()
        elif self.redis is not None and kind.endswith("redis"):
            self._noted(kind, "redis")
            if kind == "pause redis":
                await _paused(self.redis.pid, 2 * seconds)
            else:
                self.redis.end(signal.SIGKILL if kind == "kill redis" else signal.SIGTERM)
                await asyncio.sleep(seconds)
                self.redis.start()
                await self.redis.ready()

    def _noted(self, kind: str, whom: str) -> None:
        self.happened.append(Fault(time.monotonic(), kind, whom))

    def count(self) -> Counter[str]:
        """The number of faults of each kind."""
        return Counter(fault.kind for fault in self.happened)


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        if is_child(pid):
            os.kill(pid, number)


async def _paused(pid: int, seconds: float) -> None:
    _signal(pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(seconds)
    finally:
        _signal(pid, signal.SIGCONT)


def _limited(pid: int, most: int | None) -> bool:
    """Limit the size of a process's files, or lift the limit; return False if impossible.

    To the process this looks like a full disk: EFBIG in place of ENOSPC.
    """
    change = getattr(resource, "prlimit", None)
    if change is None or not is_child(pid):
        return False
    try:
        hard = change(pid, resource.RLIMIT_FSIZE)[1]
        change(pid, resource.RLIMIT_FSIZE, (hard if most is None else most, hard))
    except (OSError, ValueError):
        return False
    return True


def memory_of(pid: int) -> int:
    """The resident bytes of a process; 0 if unknown."""
    with suppress(OSError, ValueError, IndexError):
        pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
        return pages * resource.getpagesize()
    return 0


def free_port() -> int:
    """A port of the loopback address that is free now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
