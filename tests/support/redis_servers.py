"""A real Redis server for the tests, in a folder of its own, reached by a socket there.

Without the program `redis-server` the tests that need one are skipped and say so.
"""

from __future__ import annotations

import itertools
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from copydesk.app.config import Config
from copydesk.app.workspace import OpenWorkspace, open_workspace

PROGRAM = shutil.which("redis-server") or shutil.which("valkey-server")
SOON = 10.0
"""Seconds after which a server that does not answer has failed."""

LONG_MS = 60_000
"""A lease that no living process loses, however busy the machine is; a test ends it itself."""

_names = itertools.count()


ALL_KEYS = """
local rows = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
    rows[#rows + 1] = {key, redis.call('DUMP', key), redis.call('PTTL', key)}
end
return rows
"""


@dataclass
class RedisServer:
    """A server that can be killed and started again; what it was told, it has again then.

    Unless it is one that forgets.
    """

    folder: Path
    forgets: bool = False
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def url(self) -> str:
        return f"unix://{self.folder}/socket"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        assert PROGRAM is not None
        options = {"port": "0", "unixsocket": f"{self.folder}/socket", "dir": str(self.folder)}
        options |= {"save": "", "appendonly": "no" if self.forgets else "yes"}
        options |= {"appendfsync": "always"}
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        self.process = subprocess.Popen([PROGRAM, *words], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + SOON
        while not self._answers():
            assert time.monotonic() < deadline
            assert self.process.poll() is None
            time.sleep(0.01)

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        """It stands still, as a machine does that has too much to do; what is sent to it waits."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def proceed(self) -> None:
        """It goes on."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)
        self.command("PING")

    def command(self, *words: str) -> object:
        """A command as an administrator gives it."""
        import redis

        with redis.Redis.from_url(self.url) as client:
            return client.execute_command(*words)  # type: ignore[no-untyped-call]  # of redis-py

    def snapshot(self) -> dict[bytes, tuple[bytes, int]]:
        """All that it knows: each key with its value and how long it lasts yet, in ms, 0 for ever."""
        import redis

        with redis.Redis.from_url(self.url) as client:  # at one moment, as a replica has it
            rows = client.eval(ALL_KEYS, 0)
        found = {key: (held, left) for key, held, left in rows}
        forever, gone = -1, -2
        return {
            key: (held, 0 if left == forever else max(left, 1))
            for key, (held, left) in found.items()
            if held and left != gone
        }

    def restore(self, known: dict[bytes, tuple[bytes, int]]) -> None:
        """Set it back to what it knew."""
        import redis

        with redis.Redis.from_url(self.url) as client, client.pipeline() as pipe:
            pipe.flushall()
            for key, (value, left_ms) in known.items():
                pipe.restore(key, left_ms, value, replace=True)
            pipe.execute()

    def end_leases(self, name: str, after_ms: int = 0) -> None:
        """All leases of a workspace run out now, or soon, as those of a dead process do in time."""
        import redis

        with redis.Redis.from_url(self.url) as client:
            for key in client.scan_iter(f"copydesk:{{{name}}}:lease:*"):
                client.pexpire(key, after_ms)

    def fresh_name(self) -> str:
        """The name of a workspace that nobody has used."""
        return f"test-{next(_names)}"

    def settings(self, name: str, lease_ms: int = LONG_MS) -> dict[str, object]:
        """The same for a worker."""
        redis = {"registry": "redis", "redis_url": self.url, "registry_name": name}
        return {**redis, "lease_ms": lease_ms}

    def config(self, name: str) -> Config:
        """The settings of a workspace on this server."""
        return Config(registry="redis", redis_url=self.url, registry_name=name, durability="fast")

    def open(self, root: Path, name: str, *, recover: bool = True) -> OpenWorkspace:
        """A workspace, as one more machine opens it."""
        return open_workspace(str(root), self.config(name), recover=recover)

    def _answers(self) -> bool:
        import redis

        client = redis.Redis.from_url(self.url)
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False
        finally:
            client.close()


@contextmanager
def running(*, forgets: bool = False) -> Iterator[RedisServer]:
    """A server of its own; skips the test where there is none."""
    if PROGRAM is None:
        pytest.skip("there is no redis-server (Debian: apt-get install redis-server)")
    with tempfile.TemporaryDirectory(prefix="redis-") as folder:  # a socket needs a short path
        server = RedisServer(Path(folder), forgets)
        try:
            server.start()
            yield server
        finally:
            server.kill()


@contextmanager
def cluster(nodes: int = 2) -> Iterator[tuple[str, ...]]:
    """The addresses of the nodes of a Redis Cluster on this machine, each with a part of the slots."""
    if PROGRAM is None:
        pytest.skip("there is no redis-server (Debian: apt-get install redis-server)")
    with tempfile.TemporaryDirectory(prefix="redis-") as folder, ExitStack() as ended:
        ports = [(_free_port(), _free_port()) for _ in range(nodes)]
        for number, (port, bus) in enumerate(ports):
            options = {"port": port, "cluster-port": bus, "bind": "127.0.0.1", "save": ""}
            options |= {"cluster-enabled": "yes", "dir": f"{folder}/{number}"}
            Path(folder, str(number)).mkdir()
            words = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
            process = subprocess.Popen([PROGRAM, *words], stdout=subprocess.DEVNULL)
            ended.callback(process.wait)
            ended.callback(process.kill)
        for number, (port, _) in enumerate(ports):
            _await(port, "PING", b"PONG")
            first, last = (16_384 * at // nodes for at in (number, number + 1))
            command(port, "CLUSTER", "ADDSLOTSRANGE", first, last - 1)
            command(port, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for port, bus in ports[1:]:
            command(ports[0][0], "CLUSTER", "MEET", "127.0.0.1", port, bus)
        for port, _ in ports:
            _await(port, "CLUSTER INFO", b"cluster_state:ok")
        yield tuple(f"redis://127.0.0.1:{port}/0" for port, _ in ports)


def command(port: int, *words: object) -> Any:
    """A command to a node, as an administrator gives it."""
    import redis

    with redis.Redis(port=port) as client:
        client.response_callbacks.clear()
        return client.execute_command(*words)  # type: ignore[no-untyped-call]  # of redis-py


def _await(port: int, words: str, wanted: bytes) -> None:
    """Ask until it answers so."""
    import redis

    deadline = time.monotonic() + SOON
    while True:
        with suppress(redis.ConnectionError):
            if wanted in command(port, *words.split()):
                return
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
