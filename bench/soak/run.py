"""One soak on one backend: the workspace, the processes, the end, and the verdict."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import random
import secrets
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from bench import say
from bench.soak.agents import Agent, Call, Person, World
from bench.soak.observer import LoggedEdit, Violation, digest, judge, undone
from bench.soak.processes import (
    Fault,
    Faults,
    ForeignProgram,
    HttpServer,
    RedisServer,
    StdioServer,
    command,
    free_port,
    memory_of,
    without_exchange,
)
from copydesk import Desk

FILES: Final = {"shared": 6, "own": 5, "review": 2, "moving": 4, "race": 1, "apart": 1}
"""The initial number of files of each kind.

Foreign programs write to the shared ones, and two kinds of programs each have a folder of their
own: in `race` they save at the very moment at which copydesk does, in `apart` they stand only for
what they saved at another. There works only the agent whose system cannot exchange names: of a save
at the moment at which its file takes the name no trace is left, and no program can do better.
"""

_FOLDERS: Final[Sequence[str]] = ("shared", "own", "race")
_WITHOUT_EXCHANGE: Final = 3
"""The number of the agent whose system cannot exchange names."""

FOUND: Final = "Found:"
"""Begins the line of progress for a finding."""

_LEASE_SECONDS = 6
_LEFTOVER_SECONDS = 62
"""An older temporary file is a leftover (copydesk recover)."""

_MEMORY_MARGIN = 96 << 20
_STATE_BASE, _STATE_OF_EDIT = 64 << 20, 32 << 10


class Sample(NamedTuple):
    """Bytes at one moment: memory of the largest server, of all servers, and the state folders."""

    at: float
    largest: int
    memory: int
    state: int


@dataclass
class SoakOptions:
    """The options of a run."""

    seconds: float
    agents: int = 8
    machines: int = 2
    people: int = 2
    foreign: int = 5
    seed: str = "1"


@dataclass
class Result:
    """The result of one soak."""

    backend: str
    setting: SoakOptions
    begun: float
    seconds: float = 0.0
    interrupted: bool = False
    calls: list[Call] = field(default_factory=list[Call])
    faults: list[Fault] = field(default_factory=list[Fault])
    samples: list[Sample] = field(default_factory=list[Sample])
    findings: list[Violation] = field(default_factory=list[Violation])
    counts: Counter[str] = field(default_factory=Counter[str])
    tokens: Counter[str] = field(default_factory=Counter[str])
    broken: Counter[str] = field(default_factory=Counter[str])
    undo: Counter[str] = field(default_factory=Counter[str])
    people: Counter[str] = field(default_factory=Counter[str])
    refused: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])

    def find(self, *found: Violation) -> None:
        """Record findings, and say them at once: the end of a run takes its time."""
        for one in found:
            say(f"{FOUND} {one.kind}: {one.words}")
        self.findings += found


class Soak:
    """One soak in a folder of its own."""

    def __init__(self, folder: Path, backend: str, setting: SoakOptions) -> None:
        self.folder, self.setting = folder, setting
        self.root = folder / "workspace"
        self.logs = folder / "logs"
        for one in (self.root, self.logs):
            one.mkdir(parents=True)
        until = time.monotonic() + setting.seconds
        self.world = World(self.root, {name: [] for name in FILES}, until)
        self.result = Result(backend, setting, time.monotonic())
        self.redis = RedisServer(self.logs / "redis.log") if backend == "redis" else None
        self.tokens = {
            name: secrets.token_hex(20)
            for name in (
                *(f"a{n}" for n in range(1, setting.agents + 1)),
                *(f"p{n}" for n in range(1, setting.people + 1)),
            )
        }
        self._lay()
        self.first = {path: data for path, data in _files(self.root) if path != "copydesk.toml"}
        machines = range(1, setting.machines + 1)
        self.http = [self._http(number) for number in machines]
        self.stdio: dict[str, StdioServer] = {}
        files = self.world.files
        self.foreign = [
            ForeignProgram(n, self.root, self.logs, files, f"{setting.seed}/F{n}")
            for n in range(setting.foreign)
        ]
        self.agents = [self._agent(n) for n in range(1, setting.agents + 1)]
        self.people = [
            Person(name, self.tokens[name], self.world, f"{setting.seed}/{name}", server.address)
            for number in range(setting.people)
            for name, server in ((f"p{number + 1}", self.http[number % len(self.http)]),)
        ]

    def _lay(self) -> None:
        """Write the configuration and the first files."""
        lines = ['toolsets = ["ws_mod", "batch", "patch"]', "structured = true"]
        if self.redis is not None:
            lines += ['registry = "redis"', f'redis_url = "{self.redis.url}"']
            lines += ['registry_name = "soak"']
        for name, token in self.tokens.items():
            lines += [f"[members.{name}]", f'token = "{token}"']
            if name.startswith("a") and self.setting.people:
                lines += ['approval_paths = { "review/**" = "human" }']
        (self.root / "copydesk.toml").write_text("\n".join(lines) + "\n", "utf-8")
        for folder, count in FILES.items():
            (self.root / folder).mkdir()
            for _ in range(count):
                path, text = self.world.new_file(folder)
                (self.root / path).write_text(text, "utf-8")
                self.world.files[folder].append(path)
        if not self.setting.people:
            self.world.files["review"] = []

    def _state(self, machine: int) -> dict[str, str]:
        """The environment of a machine: with Redis each has its own state folder."""
        return {"COPYDESK_STATE": f".copydesk-{machine}"} if self.redis is not None else {}

    def _http(self, machine: int) -> HttpServer:
        port = free_port()
        words = command("serve", "--root", str(self.root), "--port", str(port))
        log = self.logs / f"http-{machine}.log"
        server = HttpServer(f"http-{machine}", words, log, self._state(machine))
        server.port = port
        return server

    def _agent(self, number: int) -> Agent:
        """An agent: two of every four have a stdio server each, the others share the HTTP ones."""
        name, machine = f"a{number}", (number - 1) % self.setting.machines + 1
        seed = f"{self.setting.seed}/{name}"
        if number % 4 in (1, 2):
            server = self.http[machine - 1]
            return Agent(name, self.world, seed, lambda: server.client(self.tokens[name]), _FOLDERS)
        words, folders = command("mcp", "--root", str(self.root), "--member", name), _FOLDERS
        if number == _WITHOUT_EXCHANGE:
            words, folders = without_exchange(words), ("apart",)
        log, pid = self.logs / f"stdio-{name}.log", self.logs / f"stdio-{name}.pid"
        own = StdioServer(f"stdio-{name}", words, pid, log, self._state(machine))
        self.stdio[name] = own
        return Agent(name, self.world, seed, own.client, folders)

    # While it runs

    async def run(self) -> Result:
        """Run the soak to its end, and judge it."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._interrupt)
        try:
            await self._work()
            for server in self.http:
                server.end()
            await self._end()
        finally:
            for program in (*self.foreign, *self.http):
                program.end(signal.SIGKILL)
            if self.redis is not None:
                self.redis.remove()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
        return self.result

    def _interrupt(self) -> None:
        self.world.stopping = self.result.interrupted = True

    async def _work(self) -> None:
        if self.redis is not None:
            self.redis.start()
            await self.redis.ready()
        for server in self.http:
            server.start()
        for server in self.http:
            await server.ready()
        for program in self.foreign:
            program.start()
        now = time.monotonic()
        self.result.begun, self.world.until = now, now + self.setting.seconds
        faults = Faults(
            self.http,
            list(self.stdio.values()),
            self.foreign,
            self.redis,
            self.agents,
            f"{self.setting.seed}/faults",
        )
        workers = [asyncio.create_task(one.run()) for one in self.agents]
        workers += [asyncio.create_task(one.run()) for one in self.people]
        befalling = asyncio.create_task(faults.run(self.world.until))
        watching = asyncio.create_task(self._watch())
        while not self.world.is_over:
            await asyncio.sleep(0.1)
            if befalling.done() and befalling.exception() is not None:
                break
        self.world.stopping = True
        befalling.cancel()
        await asyncio.wait({befalling})
        _, left = await asyncio.wait(workers, timeout=45)
        for task in left:
            task.cancel()
        if left:
            self.result.notes.append(f"{len(left)} agents or people did not end by themselves")
            await asyncio.wait(left, timeout=15)
        watching.cancel()
        for program in self.foreign:
            program.end()
        self.result.seconds = time.monotonic() - self.result.begun
        self.result.faults = faults.happened
        self.result.find(*(Violation("not started again", words) for words in faults.failed))
        for task in (befalling, *workers):
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def _watch(self) -> None:
        """Record file states and the servers' memory."""
        while True:
            for path, data in _files(self.root, own=False):
                if not path.endswith("~"):
                    self.world.keep(data)
            pids = [one.pid for one in self.http] + [one.pid for one in self.stdio.values()]
            sizes = [memory_of(pid) for pid in pids if pid]
            held = Sample(time.monotonic(), max(sizes, default=0), sum(sizes), self._state_bytes())
            self.result.samples.append(held)
            await asyncio.sleep(0.5)

    def _state_bytes(self) -> int:
        """The size of the state, in all state folders and on the Redis server."""
        total = 0
        for folder in self.root.glob(".copydesk*"):
            for path in folder.rglob("*"):
                with suppress(OSError):
                    total += path.stat().st_size
        if self.redis is not None:
            total += self.redis.used()
        return total

    # The end

    async def _end(self) -> None:
        """Recover as a person would, read the evidence, undo a tenth, and look for leftovers."""
        if self.redis is not None:
            await asyncio.sleep(_LEASE_SECONDS)
        await self._recover()
        result, world = self.result, self.world
        edits = await asyncio.to_thread(self._edits)
        foreign = [write for program in self.foreign for write in program.writes()]
        last = {path: data for path, data in self._texts() if not path.endswith("~")}
        known = {edit.path for edit in edits} | set(self.first)
        strange = sorted(set(last) - known)
        last = {path: data for path, data in last.items() if path in known}
        approved = {"review": world.approved}
        verdict = await asyncio.to_thread(
            judge, world.ledger, edits, self.first, last, foreign, world.seen, approved
        )
        result.find(*world.findings, *verdict.findings)
        result.counts = verdict.counts
        result.tokens = world.ledger.by_status()
        result.calls, result.broken = world.calls, world.broken
        for person in self.people:
            result.people += person.decided
        if not result.tokens["ok"]:
            result.find(Violation("nothing written", "no line was reported as written"))
        if strange:
            await self._wait_for_leftovers(set(strange))
        await self._undo_some(edits)
        self._check_bounds(len(edits))

    async def _recover(self) -> None:
        """Run `copydesk recover` as a separate process."""
        words = command("recover", "--json", "--root", str(self.root))
        env = {**os.environ, **self._state(1)}
        done = await asyncio.create_subprocess_exec(
            *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=env
        )
        out, err = await done.communicate()
        try:
            told = cast("dict[str, Any]", json.loads(out))
        except ValueError:
            words_of = err.decode("utf-8", "replace")[-300:]
            self.result.find(Violation("not recovered", f"copydesk recover: {words_of}"))
            return
        self.result.counts["recovered at the end"] += len(told.get("settled", ()))

    def _edits(self) -> list[LoggedEdit]:
        """The whole journal, read by the public library."""
        found: list[LoggedEdit] = []
        env = self._state(1)
        os.environ.update(env)
        try:
            with Desk(self.root, member="observer", shared=True) as desk:
                before: int | None = None
                while page := desk.history(most=1_000, before=before):
                    found += [
                        LoggedEdit(
                            one.edit_id,
                            str(one.path),
                            one.state,
                            one.before,
                            one.after,
                            one.diff.decode("utf-8", "replace"),
                            one.tool,
                            one.group,
                            one.undoes,
                        )
                        for one in page
                    ]
                    before = page[-1].edit_id
        finally:
            for name in env:
                os.environ.pop(name, None)
        return found[::-1]

    def _texts(self) -> Iterator[tuple[str, bytes]]:
        return (pair for pair in _files(self.root) if pair[0] != "copydesk.toml")

    async def _wait_for_leftovers(self, strange: set[str]) -> None:
        """Wait until unknown files are old enough to be leftovers; recovery must remove them."""
        self.result.counts["left by kills"] = len(strange)
        newest = max((self.root / path).stat().st_mtime for path in strange)
        wait = newest + _LEFTOVER_SECONDS - time.time()
        while wait > 0 and not self.result.interrupted:
            await asyncio.sleep(min(wait, 1))
            wait -= 1
        await self._recover()
        for path in sorted(strange & {path for path, _ in self._texts()}):
            self.result.find(Violation("left over", f"{path} stayed after recovery"))

    async def _undo_some(self, edits: Sequence[LoggedEdit]) -> None:
        """Undo a random tenth of the edits, then undo that: the bytes must be as before."""
        undone_ids = {edit.undoes for edit in edits}
        standing = [
            edit
            for edit in edits
            if edit.state == "done"
            and edit.edit_id not in undone_ids
            and edit.tool not in ("foreign_write", "undo_file_modification")
        ]
        chance = random.Random(f"{self.setting.seed}/undo")
        some = chance.sample(standing, (len(standing) + 9) // 10)
        counts = self.result.undo
        counts["standing edits"], counts["tried"] = len(standing), len(some)
        words = command("mcp", "--root", str(self.root), "--member", "observer")
        log, pid = self.logs / "observer.log", self.logs / "observer.pid"
        server = StdioServer("observer", words, pid, log, self._state(1))
        async with server.client() as client:

            async def undo(edit_id: int) -> dict[str, Any]:
                told = await client.call_tool("undo_file_modification", {"edit_id": edit_id})
                return cast("dict[str, Any]", told.structured_content or {})

            for edit in some:
                if self.result.interrupted and counts["given back"] >= 20:
                    self.result.notes.append("the undo of a tenth was cut short")
                    return
                before = dict(self._texts())
                told = await undo(edit.edit_id)
                after = dict(self._texts())
                if told.get("status") != "ok":
                    counts[f"refused: {told.get('error')}"] += 1
                    here = before.get(edit.path)
                    if here is not None and undone(here, edit) is not None:
                        counts["refused though its lines stand"] += 1
                        self.result.refused.append(
                            f"undo of edit {edit.edit_id} of {edit.path}: {told.get('summary')}"
                        )
                    if after != before:
                        words_ = f"the undo of edit {edit.edit_id} was refused and changed a file"
                        self.result.find(Violation("written unsaid", words_))
                    continue
                self._compare(edit, before, after)
                if not told.get("edit_id"):
                    counts["nothing left to undo"] += 1
                    continue
                again = await undo(int(told["edit_id"]))
                back = dict(self._texts())
                if again.get("status") != "ok":
                    counts[f"redo refused: {again.get('error')}"] += 1
                    words_ = f"edit {edit.edit_id} was undone; its redo: {again.get('error')}"
                    self.result.find(Violation("undo", words_))
                elif back != before:
                    words_ = f"edit {edit.edit_id} was undone and redone: other bytes than before"
                    self.result.find(Violation("undo", words_))
                else:
                    counts["given back"] += 1

    def _compare(self, edit: LoggedEdit, before: dict[str, bytes], after: dict[str, bytes]) -> None:
        """Check that an undo changed only its own file, and as its reversed diff says."""
        changed = {path for path in before | after if before.get(path) != after.get(path)}
        here = before.get(edit.path)
        expected = None if here is None else undone(here, edit)
        if expected is not None:
            self.result.undo["compared by the diff"] += 1
            if after.get(edit.path) != expected:
                words = f"the undo of edit {edit.edit_id} of {edit.path} gave other bytes"
                self.result.find(Violation("undo", words))
        if digest(here) == edit.after and edit.after:
            self.result.undo["compared by the digest"] += 1
            if digest(after.get(edit.path)) != edit.before:
                words = f"the undo of edit {edit.edit_id} of {edit.path} is not its bytes before"
                self.result.find(Violation("undo", words))
        if len(changed) > (2 if "\nrename from " in edit.diff else 1):
            words = f"the undo of edit {edit.edit_id} changed {sorted(changed)}"
            self.result.find(Violation("misplaced", words))

    def _check_bounds(self, edits: int) -> None:
        """Check that memory does not grow with time, nor state beyond a limit per edit."""
        samples = self.result.samples
        third = len(samples) // 3
        if third >= 20:
            early = max(one.largest for one in samples[:third])
            late = max(one.largest for one in samples[-third:])
            if late > early * 3 // 2 + _MEMORY_MARGIN:
                words = f"a server held {early >> 20} MiB in the first third, {late >> 20} at last"
                self.result.find(Violation("memory", words))
        state = samples[-1].state if samples else 0
        if state > _STATE_BASE + edits * _STATE_OF_EDIT:
            words = f"{state >> 20} MiB for {edits} edits"
            self.result.find(Violation("state", words))


def _files(root: Path, *, own: bool = True) -> Iterator[tuple[str, bytes]]:
    """The files of the workspace but those of copydesk's state."""
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".copydesk")]
        for name in names:
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, root)
            if own or "/" in relative:
                with suppress(OSError), open(path, "rb") as stream:
                    yield relative, stream.read()


def machine() -> str:
    """The machine in a line."""
    memory, kernel = "", f"{platform.system()} {platform.release()}"
    with suppress(OSError, ValueError):
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        memory = f", {pages >> 30} GiB"
    python = platform.python_version()
    return f"{kernel}, {os.cpu_count()} cores{memory}, Python {python}"


def soak(folder: Path, backends: Sequence[str], setting: SoakOptions) -> list[Result]:
    """Run one soak after the other, each with its share of the time."""
    results: list[Result] = []
    for backend in backends:
        below = folder / backend
        result = asyncio.run(Soak(below, backend, setting).run())
        results.append(result)
        if not result.findings:
            shutil.rmtree(below / "workspace", ignore_errors=True)
        if result.interrupted:
            break
    return results
