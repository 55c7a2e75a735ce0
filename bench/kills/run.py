"""One write at a time: a process that makes it, the barrier, the log, and the judge."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import shutil
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from bench.kills.barrier import CHANGING, Call, Point, Way, Window, traced, window
from bench.kills.deeds import DEEDS, Deed, Facts, File, Step, lay, tree
from bench.kills.judge import LOOKING, Case, Looking, Verdict, judged, whole

Phase = Literal["before", "between", "after", "never"]
"""Where the barrier was: before the intent was flushed, between it and the done mark, after that;
never: the process made fewer calls."""

_SECONDS = 60
"""A process that takes longer stands still."""


class HasUrl(Protocol):
    """A Redis server."""

    @property
    def url(self) -> str: ...


@dataclass
class Place:
    """Where writes are made: a scratch folder, and a Redis server if it keeps the state."""

    folder: Path
    server: HasUrl | None = None
    durability: Literal["full", "fast"] = "full"
    number: int = 0

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def log(self) -> Path:
        """What was asked and answered, a line of JSON each, flushed."""
        return self.folder / "log.jsonl"

    @property
    def trace(self) -> Path:
        return self.folder / "trace"

    def renew(self) -> None:
        """Make the files anew, and take a name that nobody has used."""
        self.number += 1
        lay(self.root)

    def open(self, recover: bool = True) -> Any:
        """The workspace as another desk opens it."""
        from copydesk.app.config import Config
        from copydesk.app.workspace import open_workspace

        config = Config(durability=self.durability)
        if self.server is not None:
            name = f"kills-{self.number}"
            config = Config(
                durability=self.durability,
                registry="redis",
                redis_url=self.server.url,
                registry_name=name,
            )
        return open_workspace(str(self.root), config, recover=recover)

    def end_leases(self) -> None:
        """The leases of a process that is gone run out now, as they do in time."""
        if self.server is not None:
            import redis

            with redis.Redis.from_url(self.server.url) as client:
                for key in client.scan_iter(f"copydesk:{{kills-{self.number}}}:lease:*"):
                    client.delete(key)


class Log:
    """What was asked and what was answered; each line is on the disk before anything goes on."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")

    def add(self, **facts: object) -> None:
        self._file.write(json.dumps(facts) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())


class Writer:
    """A forked process that opens the workspace, gets ready, and waits for each word to go on."""

    def __init__(self, place: Place, deed: Deed) -> None:
        mine, own = socket.socketpair()
        self.pid = os.fork()
        if not self.pid:
            mine.close()
            signal.alarm(_SECONDS)
            with contextlib.suppress(BaseException):
                self._work(place, deed, own)
            os._exit(1)
        own.close()
        mine.settimeout(_SECONDS)
        self._socket, self._file = mine, mine.makefile("r", encoding="utf-8")

    @staticmethod
    def _work(place: Place, deed: Deed, own: socket.socket) -> None:
        def tell(facts: Facts) -> None:
            own.sendall(json.dumps(facts).encode() + b"\n")

        try:
            opened = place.open()

            def ask(tool: str, **arguments: object) -> Facts:
                return dict(opened.call("local", tool, arguments).data)

            step = deed.ready(ask)
            known = [row["edit_id"] for row in ask("list_edits")["edits"]]
            tell({"step": step, "known": known, "before": tree(place.root)})
            while own.recv(1) == b"g":
                tell({"answer": ask(step.tool, **step.arguments)})
            opened.close()
        except BaseException:
            tell({"raised": traceback.format_exc()})
        os._exit(0)

    def line(self) -> Facts | None:
        """The next that it tells; None when it is gone."""
        with contextlib.suppress(ConnectionResetError):
            if line := self._file.readline():
                return json.loads(line)  # type: ignore[no-any-return]
        return None

    def has_told(self) -> bool:
        """Whether there is a line to be read, or it is gone."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def proceed(self) -> None:
        """Let it go on; a thread that came to a stop only now has to be told once more."""
        until = time.monotonic() + _SECONDS
        while not self.has_told() and time.monotonic() < until:
            os.kill(self.pid, signal.SIGCONT)
            select.select([self._socket], [], [], 0.05)

    def say(self, word: bytes) -> None:
        """`g`: make the call; anything else: close and end."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(word)

    def end(self) -> int:
        """Wait for its end; the signal that ended it."""
        status = os.waitpid(self.pid, 0)[1]
        self._file.close()
        self._socket.close()
        return os.WTERMSIG(status)


@dataclass
class Outcome:
    """What became of one write: where the barrier was, at which call, and the verdict."""

    deed: str
    at: int
    phase: Phase = "never"
    call: str = ""
    verdict: Verdict = field(default_factory=Verdict)
    looking: Looking = "start"


Act = Callable[[Place], None]
"""What somebody else does while the writer stands at the barrier."""


def attempt(
    place: Place,
    name: str,
    way: Way | None = None,
    point: Point | None = None,
    *,
    calls: str = CHANGING,
    last: int = 0,
    act: Act | None = None,
    then: Act | None = None,
) -> tuple[Outcome, list[Call]]:
    """Make the write once, with a barrier at the point; the outcome, and its calls.

    `last` is the number of marks of a run without a barrier. `act` is done while the writer stands
    at it, and `then` when it has answered.
    """
    at = point.at if point else 0
    deed, outcome, log = DEEDS[name], Outcome(name, at), Log(place.log)
    outcome.looking = LOOKING[(at + at // len(LOOKING)) % len(LOOKING)]  # of every fifth, too
    place.renew()
    writer = Writer(place, deed)
    first = writer.line() or {"raised": "it ended before it was ready"}
    if "raised" in first:
        writer.end()
        raise RuntimeError(first["raised"])
    log.add(deed=name, way=way, at=at, asked=first["step"])
    with traced(writer.pid, place.trace, calls, way, point) as trace:
        writer.say(b"g")
        if act is not None and trace.await_stopped(writer.has_told):
            act(place)
            writer.proceed()
        told = writer.line()
    log.add(answered=told)
    if then is not None:
        then(place)
    step = Step(*first["step"])
    if not step.plans and outcome.looking in ("again", "list"):
        outcome.looking = "read"  # there is no plan to be met
    before = {path: File(t, m, tuple(n)) for path, (t, m, n) in first["before"].items()}
    answer = None if told is None else told.get("answer", {"status": "error", "log_id": told})
    case = Case(
        *(place.root, step, tuple(first["known"]), before, deed.after(before)),
        *(answer, act is not None),
    )
    living = _living(writer, case) if answer is not None else []
    ended = writer.end()
    made = trace.calls()
    hit = point.hit(made) if point else 0
    outcome.call = made[hit - 1].name if hit else ""
    outcome.phase = _phase(made, hit, last, redis=place.server is not None)
    if way == "killed" and hit and answer is not None:
        outcome.phase = "never"  # it was not killed, so it proves nothing
    if answer is None and not (way == "killed" and ended == signal.SIGKILL):
        living.append(f"it was ended by signal {ended} without an answer")
    place.end_leases()
    outcome.verdict = aside(lambda: judged(case, place.open, outcome.looking))
    outcome.verdict.wrong += living
    return outcome, made


def _living(writer: Writer, case: Case) -> list[str]:
    """While it lives still: all or none, as it said, and what was refused is possible now."""
    wrong = whole(case)
    if case.answered == "unsure" or case.beside:
        writer.say(b"c")
        return wrong
    now = tree(case.root)
    if now != (case.after if case.answered == "ok" else case.before):
        names = [path for path in {*now, *case.after} if now.get(path) != case.before.get(path)]
        wrong.append(f"answered {case.answered}, but these are not as before: {names}")
    writer.say(b"c")
    return wrong


def _phase(made: list[Call], hit: int, last: int, *, redis: bool) -> Phase:
    """Where the call with this number is, 0 for none."""
    if not hit:
        return "never"
    until = made[: hit - 1]
    if not window(until, redis=redis).intent:
        return "before"
    return "after" if marks(until, redis=redis) >= last else "between"


def marks(made: list[Call], *, redis: bool) -> int:
    """How many calls of the done mark there are: writes to the log after the intent, or scripts."""
    intent = window(made, redis=redis).intent
    after = made[intent:] if intent else []
    if redis:
        return sum(
            call.name == "sendto" and call.ended and r"\r\ndone\r\n" in call.arguments
            for call in after
        )
    return sum(
        call.name.startswith("pwrite") and call.ended and "/state.sqlite-wal>" in call.arguments
        for call in after
    )


def aside(work: Callable[[], Verdict]) -> Verdict:
    """Do the work in a process of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        signal.alarm(_SECONDS)
        with open(writing, "w", encoding="utf-8") as out:
            try:
                verdict = work()
                json.dump([verdict.became, verdict.wrong], out)
            except BaseException:
                json.dump(["wrong", [traceback.format_exc()]], out)
        os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as told:
        text = told.read()
    os.waitpid(child, 0)
    return (
        Verdict(*json.loads(text)) if text else Verdict(wrong=["the judge did not come to an end"])
    )


@dataclass(frozen=True)
class Points:
    """The calls of a write: how many there are, and those between the intent and the done mark."""

    calls: list[Call]
    window: Window
    marks: int

    def around(self, most: int) -> list[Point]:
        """Those from so many calls before the intent to so many after the done mark."""
        start, stop = self.window.intent - most, self.window.done + most
        return [point for point in Point.all_of(self.calls) if start <= point.at <= stop]


def points(place: Place, name: str, calls: str = CHANGING) -> Points:
    """Make the write once without a barrier; its calls are the points at which one may stand."""
    attempt(place, name, calls=calls)  # a server has its scripts then
    outcome, made = attempt(place, name, calls=calls)
    is_redis = place.server is not None
    found = window(made, redis=is_redis)
    if outcome.verdict.wrong or not (found.intent and found.done):
        raise RuntimeError(f"{name} alone: {outcome.verdict.wrong} {found}")
    return Points(made, found, marks(made, redis=is_redis))


@contextmanager
def placed(folder: Path, server: HasUrl | None = None) -> Generator[Place]:
    """A place whose modules are loaded, so that each writer is ready at once."""
    for module in _modules(folder):
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    place = Place(folder, server)
    try:
        yield place
    finally:
        shutil.rmtree(place.root, ignore_errors=True)


def _modules(folder: Path) -> list[str]:
    """All modules that a write loads, found by another process; nothing is open in this one."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException), open(writing, "w") as out:
            place = Place(folder)
            place.renew()
            opened = place.open()

            def ask(tool: str, **arguments: object) -> Facts:
                return dict(opened.call("local", tool, arguments).data)

            step = DEEDS["undo"].ready(ask)
            ask(step.tool, **step.arguments)
            opened.close()
            json.dump([*sys.modules, "redis"], out)
        os._exit(0)
    os.close(writing)
    with open(reading) as told:
        text = told.read()
    os.waitpid(child, 0)
    return list(json.loads(text))
