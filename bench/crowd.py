"""Many concurrent agents, each a process with copydesk as a library; times and their causes.

Each agent writes lines in files shared by all, by calls of tools (`OpenWorkspace.call`); a sampler
finds where their time goes. Invariant: at the end all lines whose write was reported are there.
"""

from __future__ import annotations

import multiprocessing
import random
import shutil
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any, cast

SLOTS = 64
"""Lines of a file, one for each agent: it alone edits that line."""

_PER_FOLDER = 100
_WORDS = "of this file, which is as long as most lines are"
_SAMPLE_SECONDS = 0.005
_BULK = 2_000
"""Journal entries created in one batch."""

PYTHON, FILES, SQLITE, REDIS = "Python", "files", "SQLite", "Redis"
FOR_FILE, FOR_STATE = "lock of a file", "lock of the state"
PARTS = (PYTHON, FILES, SQLITE, REDIS, FOR_FILE, FOR_STATE)
"""What an agent's time is spent on: the first that fits, from the innermost frame outwards."""


@dataclass(frozen=True)
class Place:
    """A workspace that agents work in: its folder, how many files it has, its server if any."""

    root: str
    files: int
    url: str = ""

    def path(self, number: int) -> str:
        """The path of a file."""
        return f"d{number // _PER_FOLDER}/f{number}.txt"

    def open(self) -> Any:
        """The workspace as each agent opens it. Its journal drops nothing while it is measured."""
        from copydesk.app.config import Config
        from copydesk.app.workspace import open_workspace

        config = Config(toolsets=("ws_mod", "batch"), journal_bytes=1 << 50)
        if self.url:
            name = Path(self.root).name
            config = replace(config, registry="redis", redis_url=self.url, registry_name=name)
        return open_workspace(self.root, config, shared=True)

    def state(self) -> int:
        """Bytes of its state folder."""
        return sum(file.stat().st_size for file in Path(self.root, ".copydesk").iterdir())

    def make(self) -> None:
        """Write the files."""
        text = "".join(_line(slot, 0) for slot in range(SLOTS))
        for number in range(self.files):
            file = Path(self.root, self.path(number))
            if number % _PER_FOLDER == 0:
                file.parent.mkdir(parents=True)
            file.write_text(text)

    def fill(self, edits: int) -> None:
        """Add so many edits to the journal, as the product does, through its protocol and in bulk.

        They are copies of one real edit: ten of a file by one of 64 members, then of the next file,
        ten a second until an hour ago, so that agents do not begin with the news of all of them.
        """
        opened = self.open()
        call(opened, "Edit", path=self.path(0), old_string=_line(0, 0), new_string=_line(0, 1))
        call(opened, "Edit", path=self.path(0), old_string=_line(0, 1), new_string=_line(0, 0))
        (made,) = opened.journal.entries(most=1)
        from copydesk.desk.backends.api import HOUR_MS
        from copydesk.text.relpath import RelPath

        for first in range(0, edits, _BULK):
            numbers = range(first, min(first + _BULK, edits))
            entries = [
                replace(
                    made,
                    path=RelPath.parse(self.path(at // 10 % self.files)),
                    member=f"agent-{at // 10 % 64}",
                    edit_id=0,
                    state="open",
                    time_ms=made.time_ms - HOUR_MS - 100 * (edits - at),
                )
                for at in numbers
            ]
            opened.journal.close_all(opened.journal.open_all(entries), "done")
        opened.close()


@dataclass
class Told:
    """What agents did: seconds of each call by kind; refused; what their lines hold by path."""

    seconds: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    refused: int = 0
    lost: int = 0
    opened: list[float] = field(default_factory=list[float])
    wall: float = 0.0
    cpu: float = 0.0
    parts: Counter[str] = field(default_factory=Counter[str])
    """Seconds by what they were spent on; with `cpu ` before it those of the processor."""

    @property
    def calls(self) -> int:
        """All of them."""
        return sum(map(len, self.seconds.values()))

    def add(self, other: Told) -> None:
        """Another agent's."""
        for kind, seconds in other.seconds.items():
            self.seconds.setdefault(kind, []).extend(seconds)
        self.refused += other.refused
        self.lost += other.lost
        self.opened += other.opened
        self.wall = max(self.wall, other.wall)
        self.cpu += other.cpu
        self.parts.update(other.parts)


def call(opened: Any, tool: str, **arguments: object) -> dict[str, Any] | None:
    """The data of the answer; None when it was refused."""
    answer = opened.call("local", tool, arguments)
    if "log_id" in answer.text:
        raise RuntimeError(answer.text)  # a crash is no refusal
    return None if answer.is_error else cast("dict[str, Any]", answer.data)


def crowd(places: Sequence[Place], agents: int, seconds: float) -> Told:
    """So many agents at once, dealt out to the places; each is a process that was not forked from
    one with an open workspace."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["bench.crowd", "copydesk.app.workspace", "redis"])
    barrier, told = context.Barrier(agents), context.Queue()
    children = [
        context.Process(
            target=_agent, args=(places[n % len(places)], n, seconds, barrier, told), daemon=True
        )
        for n in range(agents)
    ]
    for child in children:
        child.start()
    every = Told()
    for _ in children:
        every.add(told.get(timeout=seconds + 120))
    for child in children:
        child.join(20)
    return every


def _line(slot: int, value: int) -> str:
    return f"slot {slot:02} = {value} {_WORDS}\n"


def _agent(place: Place, number: int, seconds: float, barrier: Any, told: Any) -> None:
    """Read ten lines, edit one of them, now and then through a plan; list and undo some."""
    draw = random.Random(number)
    result, values = Told(), dict[int, int]()
    began = time.perf_counter()
    opened = place.open()
    _turn(opened, place, number, draw, 0, values, Told())
    result.opened.append(time.perf_counter() - began)
    barrier.wait(120)
    with _sampled(result.parts):
        began, cpu, count = time.perf_counter(), time.process_time(), 0
        while time.perf_counter() - began < seconds:
            count += 1
            _turn(opened, place, number, draw, count, values, result)
        result.wall = time.perf_counter() - began
        result.cpu = time.process_time() - cpu
    opened.close()
    barrier.wait(120)
    for file, value in values.items():
        lines = Path(place.root, place.path(file)).read_text().splitlines(keepends=True)
        result.lost += lines[number] != _line(number, value)
    told.put(result)


def _turn(
    opened: Any,
    place: Place,
    number: int,
    draw: random.Random,
    count: int,
    values: dict[int, int],
    result: Told,
) -> None:
    """One look and one edit of a file."""

    def timed(kind: str, tool: str, **arguments: object) -> dict[str, Any]:
        began = time.perf_counter()
        data = call(opened, tool, **arguments)
        result.seconds.setdefault(kind, []).append(time.perf_counter() - began)
        result.refused += data is None
        return data or {}

    file = draw.randrange(place.files)
    path = place.path(file)
    old = values.get(file)
    first = min(max(number - 4, 1), SLOTS - 9)
    timed("read", "read_file", path=path, range=f"{first}~{first + 9}")
    if old is None:  # another run may have left another value
        text = Path(place.root, path).read_text().splitlines()[number]
        old = int(text.split()[3])
    values[file] = old
    new = _line(number, old + 1)
    if count % 4 == 3:
        plan = timed(
            *("plan", "prepare_file_range_edit"), path=path, range=str(number + 1), content=new
        )
        done = plan and timed("edit", "apply_file_modification", hunk_id=plan["hunk_id"])
        edit_id = done and done["edit_id"]
    else:
        words = {"old_string": _line(number, old), "new_string": new}
        done = timed("edit", "Edit", path=path, **words)
        edit_id = done and done["data"]["edit_id"]
    if done:
        values[file] = old + 1
    if count % 8 == 7 and done:
        timed("list", "list_edits", path=path)
        if timed("edit", "undo_file_modification", edit_id=edit_id):
            values[file] = old


@contextmanager
def _sampled(parts: Counter[str]) -> Generator[None]:
    """Where the main thread's time goes: each sample counts for the time since the one before."""
    last = [time.perf_counter(), time.thread_time()]

    def sample(_signal: int, frame: FrameType | None) -> None:
        now = [time.perf_counter(), time.thread_time()]
        part = _part(frame)
        parts[part] += now[0] - last[0]
        parts[f"cpu {part}"] += now[1] - last[1]
        last[:] = now

    signal.signal(signal.SIGALRM, sample)
    signal.setitimer(signal.ITIMER_REAL, _SAMPLE_SECONDS, _SAMPLE_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _part(frame: FrameType | None) -> str:
    found = ""
    while frame is not None:
        file, function = frame.f_code.co_filename, frame.f_code.co_name
        if (file.endswith("store/threads.py") and function in ("lock", "hold", "are_held")) or (
            file.endswith("backends/redis.py") and function in ("wait", "_taken")
        ):
            found = FOR_FILE
        elif file.endswith("backends/sqlite.py") and function == "_wait":
            return FOR_STATE
        elif not found and file.endswith("backends/redis.py"):
            found = REDIS
        elif not found and "/desk/backends/" in file:
            found = SQLITE
        elif not found and "/copydesk/store/" in file:
            found = FILES
        frame = frame.f_back
    return found or PYTHON


@dataclass
class RedisServer:
    """A server on the loopback device, with the settings that the documentation asks for."""

    process: subprocess.Popen[bytes]
    url: str

    def cpu(self) -> float:
        """Seconds of the processor that it has used."""
        told = self._told("cpu")
        return told["used_cpu_sys"] + told["used_cpu_user"]

    def memory(self) -> float:
        """Bytes that its data takes."""
        return self._told("memory")["used_memory"]

    def _told(self, section: str) -> dict[str, float]:
        import redis

        with redis.Redis.from_url(self.url) as client:  # pyright: ignore[reportUnknownMemberType]  # of replies
            return cast("dict[str, float]", client.info(section))


@contextmanager
def redis_server(folder: Path) -> Generator[RedisServer | None]:
    """A server with its data in the folder; none where there is no program."""
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        yield None
        return
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    folder.mkdir(parents=True)
    options = {"bind": "127.0.0.1", "port": port, "dir": folder, "save": "", "appendonly": "yes"}
    options |= {"appendfsync": "always", "maxmemory-policy": "noeviction"}
    words = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
    process = subprocess.Popen([program, *words], stdout=subprocess.DEVNULL)
    server = RedisServer(process, f"redis://127.0.0.1:{port}/0")
    try:
        deadline = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if time.monotonic() > deadline or process.poll() is not None:
                    raise
                time.sleep(0.02)
        yield server
    finally:
        process.kill()
        process.wait()
