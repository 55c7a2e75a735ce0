"""The processes of contestants: started, asked one thing at a time, ended.

Invariant: all that a worker started ends with it.
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from bench import PROJECT
from bench.field import Entrant

START_SECONDS = 60.0

Reply = dict[str, Any]


class TimedOut(Exception):
    """A contestant took longer than it may."""


class Worker:
    """The process of one contestant on one folder."""

    def __init__(self, entrant: Entrant, root: Path) -> None:
        self.root = root
        command = [entrant.python, "-m", "bench.worker", entrant.module]
        self._process = subprocess.Popen(
            [*command, json.dumps(dict(entrant.options)), str(root)],
            cwd=PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "TMPDIR": str(root.parent)},
            start_new_session=True,
        )
        self._buffer = b""
        try:
            self._answer(START_SECONDS)
        except (TimedOut, OSError) as error:
            self.kill()
            raise OSError(f"{entrant.name} does not start: {error}") from None

    def ask(self, request: Reply, seconds: float) -> Reply:
        """Its reply; raises TimedOut, and OSError when it has ended."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        return self._answer(seconds)

    def close(self) -> None:
        """Let it end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.close()
            self._process.wait(20)
        except (subprocess.TimeoutExpired, OSError):
            self.kill()
        self._process.stdout.close()

    def kill(self) -> None:
        """End the process and its children: its own group only."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _answer(self, seconds: float) -> Reply:
        assert self._process.stdout is not None
        until = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(max(until - time.monotonic(), 0)):
                    raise TimedOut(f"more than {seconds:.0f} s")
                data = os.read(self._process.stdout.fileno(), 1 << 20)
                if not data:
                    raise OSError("its process has ended")
                self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        reply: Reply = json.loads(line)
        return reply


class Pool:
    """The workers, each started once; one that was dropped starts anew."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._workers: dict[str, Worker] = {}
        self._started = 0

    def get(self, entrant: Entrant) -> Worker:
        """The worker of a contestant; raises OSError when it does not start."""
        if entrant.name not in self._workers:
            self._started += 1
            root = self._home / f"{self._started:03d}"
            root.mkdir(parents=True)
            self._workers[entrant.name] = Worker(entrant, root)
        return self._workers[entrant.name]

    def drop(self, name: str) -> None:
        """End a worker and remove its folder."""
        worker = self._workers.pop(name, None)
        if worker is not None:
            worker.kill()
            shutil.rmtree(worker.root, ignore_errors=True)

    def close(self) -> None:
        """Let all workers end."""
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()
