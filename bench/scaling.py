"""W14, how far one workspace goes: `python -m bench.scaling [--quick] [--out FOLDER]`.

It has its own command, since it takes as long as all other workloads together and needs no peer.
Its section is put into `RESULTS.md`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench import say
from bench.arena import Cell
from bench.crowd import PARTS, REDIS, SQLITE, Place, RedisServer, Told, crowd, redis_server
from bench.installing import BENCH, HOME
from bench.plots import plot
from bench.queueing import Call, simulate
from bench.report import machine, section_text
from bench.results import Lines, Section, Table, duration

BACKENDS = (SQLITE, REDIS)
AXES = {"agents": "agents", "files": "files", "journal": "edits in the journal"}
RATE, WORST = "calls a second", "99 % of the edits take at most"
PLOTS = [
    *(
        (f"{axis}-{up}", f"One workspace: {title}", axis, unit)
        for axis in AXES
        for up, title, unit in (("rate", RATE, "rate"), ("p99", WORST, "seconds"))
    ),
    ("partitions-rate", "Partitions on one machine: calls a second", "partitions", "rate"),
]
SHARES = (10, 100)
"""Machines of the simulation, besides one."""
THINK_SECONDS = 5.0


@dataclass(frozen=True)
class Scale:
    """The sizes; where one is varied, the others are as in `base` (agents, files, edits)."""

    name: str
    seconds: float
    agents: tuple[int, ...]
    files: tuple[int, ...]
    journal: tuple[int, ...]
    partitions: tuple[int, ...]
    base: tuple[int, int, int]
    crowd: int
    """Agents of all partitions together."""


FULL = Scale(
    name="full",
    seconds=8,
    agents=(1, 2, 4, 8, 16, 32, 64),
    files=(10, 100, 1_000, 10_000, 100_000),
    journal=(0, 1_000, 10_000, 100_000, 1_000_000),
    partitions=(1, 2, 4, 8),
    base=(4, 1_000, 1_000),
    crowd=16,
)
QUICK = Scale(
    name="quick",
    seconds=1,
    agents=(1, 4, 16),
    files=(10, 1_000),
    journal=(0, 1_000, 10_000),
    partitions=(1, 2),
    base=(4, 100, 1_000),
    crowd=8,
)


@dataclass(frozen=True)
class Point:
    """What was measured at one place of one curve.

    `server`: seconds of processor it took; `state`: bytes of the state folder or in its memory.
    """

    backend: str
    axis: str
    at: int
    told: Told
    server: float
    state: float

    @property
    def rate(self) -> float:
        """Calls a second."""
        return self.told.calls / self.told.wall

    def cells(self) -> list[str]:
        """The row of the table."""
        told = self.told
        kinds = [percentiles(told.seconds.get(kind, [])) for kind in ("read", "edit", "list")]
        busy = (told.cpu + self.server) / told.wall / (os.cpu_count() or 1)
        whole = sum(told.parts[part] for part in PARTS) or 1.0
        return [
            *(f"{self.at:,}", f"{self.rate:.0f}", *kinds, duration(max(told.opened))),
            *(f"{busy:.0%}", f"{self.server / told.wall:.0%}" if self.server else ""),
            *(f"{told.parts[part] / whole:.0%}" for part in PARTS),
            *(f"{self.state / 1e6:.1f}", f"{told.refused} / {told.lost}"),
        ]


COLUMNS = (
    *("calls/s", "read", "edit", "list", "open", "cores", "Redis core"),
    *PARTS,
    *("state, MB", "refused / lost"),
)


def percentiles(seconds: Sequence[float]) -> str:
    """The median and the 99th percentile."""
    ordered = sorted(seconds)
    if not ordered:
        return ""
    worst = ordered[min(int(len(ordered) * 0.99), len(ordered) - 1)]
    return f"{duration(ordered[len(ordered) // 2])}, {duration(worst)}"


Made = tuple[Place, RedisServer | None]


@dataclass
class Bench:
    """The machine, and the results so far."""

    scale: Scale
    home: Path
    points: list[Point] = field(default_factory=list[Point])
    broken: list[str] = field(default_factory=list[str])
    load: float = field(default_factory=lambda: os.getloadavg()[0])

    @contextmanager
    def place(self, backend: str, files: int) -> Generator[Made]:
        """A new workspace with so many files, and its own server if it has one."""
        root = Path(tempfile.mkdtemp(dir=self.home))
        with ExitStack() as held:
            held.callback(shutil.rmtree, root, ignore_errors=True)
            server = None
            if backend == REDIS:
                server = held.enter_context(redis_server(self.home / f"{root.name}-redis"))
            place = Place(str(root), files, server.url if server else "")
            place.make()
            yield place, server

    def measure(
        self,
        backend: str,
        axis: str,
        at: int,
        agents: int,
        *where: tuple[Place, RedisServer | None],
    ) -> Point:
        """One place of a curve."""
        servers = [server for _, server in where if server]
        before = sum(server.cpu() for server in servers)
        told = crowd([place for place, _ in where], agents, self.scale.seconds)
        used = sum(server.cpu() for server in servers) - before
        state = sum(server.memory() if server else place.state() for place, server in where)
        point = Point(backend, axis, at, told, used, state)
        self.points.append(point)
        say(f"  {backend}, {axis} {at:,}: {' | '.join(point.cells()[1:])}")
        return point

    def of(self, backend: str, axis: str) -> list[Point]:
        """The points of a curve."""
        return [point for point in self.points if (point.backend, point.axis) == (backend, axis)]

    def run(self, backend: str) -> None:
        """All curves of a backend; one that breaks does not take the others with it."""
        for curve in (self.agents, self.files, self.partitions, self.journal):
            try:
                curve(backend)
            except Exception:  # what went wrong is shown, and the exit status tells of it
                traceback.print_exc()
                self.broken.append(f"{backend}, {curve.__name__}")

    def agents(self, backend: str) -> None:
        """The same workspace with more and more agents."""
        _, files, edits = self.scale.base
        with self.place(backend, files) as where:
            where[0].fill(edits)
            for number in self.scale.agents:
                self.measure(backend, "agents", number, number, where)

    def files(self, backend: str) -> None:
        """Workspaces with more and more files."""
        agents, _, edits = self.scale.base
        for number in self.scale.files:
            with self.place(backend, number) as where:
                where[0].fill(edits)
                self.measure(backend, "files", number, agents, where)

    def partitions(self, backend: str) -> None:
        """The same agents and files in more and more workspaces."""
        _, files, edits = self.scale.base
        for number in self.scale.partitions:
            with ExitStack() as held:
                each = [
                    held.enter_context(self.place(backend, files // number)) for _ in range(number)
                ]
                for place, _ in each:
                    place.fill(edits // number)
                self.measure(backend, "partitions", number, self.scale.crowd, *each)

    def journal(self, backend: str) -> None:
        """The same workspace with more and more edits made before."""
        agents, files, _ = self.scale.base
        with self.place(backend, files) as where:
            have = 0
            for number in self.scale.journal:
                began = time.monotonic()
                if number > have:
                    where[0].fill(number - have)
                    have = number
                say(f"  a journal of {number:,} after {time.monotonic() - began:.1f} s")
                self.measure(backend, "journal", number, agents, where)


def costs(point: Point) -> Call:
    """The cost of one call, as measured for a single agent.

    With SQLite the journal is held while SQLite works and flushes; on a server that is what the
    server works, and what of the agent's waiting for it is left.
    """
    told, calls = point.told, point.told.calls
    part = point.backend
    whole = sum(told.parts[each] for each in PARTS) or 1.0
    wall = {each: told.parts[each] / whole * told.wall / calls for each in PARTS}
    on = {each: told.parts[f"cpu {each}"] / whole * told.wall / calls for each in PARTS}
    cpu = told.cpu / calls
    server = point.server / calls
    held_cpu = server if server else on[part]
    return Call(
        cpu=cpu if server else max(cpu - on[part], 0.0),
        wait=sum(max(wall[each] - on[each], 0.0) for each in PARTS if each != part),
        held_cpu=held_cpu,
        held_wait=max(wall[part] - on[part] - server, 0.0),
        served=bool(server),
    )


def section(bench: Bench) -> Section:
    """All tables."""
    scale = bench.scale
    agents, files, edits = scale.base
    found = Section("W14", "How far one workspace goes")
    found.notes += [
        "Run it again: `make scaling` (`make scaling-quick` in a minute). "
        f"This run: `{scale.name}`, {scale.seconds:g} s for each row, load before it "
        f"{bench.load:.1f}. " + machine(),
        "Each agent is a process with copydesk as a library; every call is one of a tool, with "
        '`durability = "full"`. An agent reads ten lines of a file drawn at random (`read_file`), '
        "and edits a line of its own there: three times by `Edit`, the fourth time by "
        "`prepare_file_range_edit` and `apply_file_modification`; every eighth edit is looked up "
        "(`list_edits`) and taken back (`undo_file_modification`). Nobody thinks in between. Redis "
        "is a server on the loopback device with `appendfsync always`. The journal was filled by "
        "copies of a real edit through its own protocol (`open_all`, `close_all`), 2,000 at once. "
        f"Where one size is varied, the others are {agents} agents, {files:,} files, {edits:,} "
        "edits in the journal.",
        "Times are the median and the 99th percentile; `open` is the slowest opening of the "
        "workspace with a first turn, all agents at once. `cores`: how much of them "
        "agents and server used. Then the shares of an agent's time, sampled every 5 "
        "ms: Python, files (reading, staging, flushing, renaming), SQLite (with its flush), Redis "
        "(round trips), and waiting for the lock of a file, or for that of the state that all "
        "processes share. A busy processor makes all of them longer. `state`: the state folder, or "
        "the server's memory. The last column: calls that were refused, and lines that are not "
        "what their agent was told (0 is right).",
    ]
    found.notes += [f"Could not be run: {name}." for name in bench.broken]
    backends = [backend for backend in BACKENDS if bench.of(backend, "agents")]
    for axis, told in (*AXES.items(), ("partitions", f"partitions, {scale.crowd} agents in all")):
        for backend in backends:
            found.tables.append(_table(f"{backend}: {told}", bench.of(backend, axis)))
    found.tables += [_model(bench, backend) for backend in backends]
    found.tables.append(_far(bench, backends))
    for point in bench.points:
        x = max(point.at, 1)
        lines: Lines = found.points.setdefault(f"{point.axis}-rate", {})
        lines.setdefault(point.backend, []).append((x, point.rate))
        edits_took = sorted(point.told.seconds.get("edit", [1.0]))
        worst = edits_took[min(int(len(edits_took) * 0.99), len(edits_took) - 1)]
        lines = found.points.setdefault(f"{point.axis}-p99", {})
        lines.setdefault(point.backend, []).append((x, worst))
    return found


def _table(caption: str, points: Sequence[Point]) -> Table:
    rows = {f"{point.at:,}": point.cells()[1:] for point in points}
    return _texts(caption, COLUMNS, rows)


def _texts(caption: str, columns: Sequence[str], rows: dict[str, list[str]]) -> Table:
    extra = {
        column: {name: cells[at] for name, cells in rows.items()}
        for at, column in enumerate(columns)
    }
    return Table(caption, [Cell(name, "peer") for name in rows], None, extra, memory=False)


def _model(bench: Bench, backend: str) -> Table:
    """The simulation of this machine beside what was measured on it."""
    call = costs(bench.of(backend, "agents")[0])
    cores = os.cpu_count() or 1
    rows: dict[str, list[str]] = {}
    shared = [(f"{p.at} agents", p, p.at, 1) for p in bench.of(backend, "agents")]
    shared += [
        (f"{p.at} partitions", p, bench.scale.crowd, p.at) for p in bench.of(backend, "partitions")
    ]
    for name, point, agents, partitions in shared:
        # a server on this machine has no cores of its own: its work is that of the agents' machine
        own = Call(call.cpu, call.wait, call.held_cpu, call.held_wait, served=False)
        told = simulate(own, agents=agents, machines=1, partitions=partitions, cores=cores)
        rows[name] = [
            f"{point.rate:.0f}",
            f"{told.rate:.0f}",
            f"{told.rate / point.rate:.2f}",
            f"{told.held:.0%}",
        ]
    parts = (
        f"{backend}, the model against this machine (of a call: {duration(call.cpu)} of a core, "
        f"{duration(call.wait)} waiting; with the journal held {duration(call.held_cpu)} of a core "
        f"and {duration(call.held_wait)} waiting)"
    )
    return _texts(parts, ("measured calls/s", "simulated", "ratio", "journal held"), rows)


def _far(bench: Bench, backends: Sequence[str]) -> Table:
    """A thousand agents, which is not measured."""
    rows: dict[str, list[str]] = {}
    cores = os.cpu_count() or 1
    agents, seconds = (1_000, 20.0) if bench.scale is FULL else (100, 5.0)
    for backend in backends:
        call = costs(bench.of(backend, "agents")[0])
        for machines in (1, *SHARES):
            for partitions in (1, *SHARES, 1_000):
                if (not call.served and partitions < machines) or partitions > agents:
                    continue  # a workspace with SQLite is on one machine
                told = [
                    simulate(
                        *(call,),
                        agents=agents,
                        machines=machines,
                        partitions=partitions,
                        cores=cores,
                        think=think,
                        seconds=seconds,
                    )
                    for think in (THINK_SECONDS, 0.0)
                ]
                name = f"{backend}, {machines} machines, {partitions:,} partitions"
                rows[name] = [
                    *(f"{told[0].rate:.0f}", duration(told[0].p99), f"{told[0].held:.0%}"),
                    *(f"{told[1].rate:.0f}", duration(told[1].p99), f"{told[1].held:.0%}"),
                ]
    columns = (
        "calls/s",
        "p99",
        "journal held",
        "no pause: calls/s",
        "no pause: p99",
        "no pause: held",
    )
    return _texts(
        f"Simulated, not measured: {agents:,} agents, machines of {cores} cores; each thinks "
        f"{THINK_SECONDS:g} s between calls, or not at all ({REDIS}: a server for each partition)",
        columns,
        rows,
    )


def put(page: str, text: str) -> str:
    """The page with the section of W14 as given, in its place or before the versions."""
    head, sign, rest = page.partition("## W14. ")
    if sign:
        rest = rest.partition("\n## ")[2]
    else:
        head, _, rest = page.partition("## Versions")
        rest = "Versions" + rest
    return f"{head}{text.rstrip()}\n\n## {rest}" if rest else f"{head}{text}"


def section_of(page: str) -> str:
    """The section of W14 in a page, empty if there is none."""
    _, sign, rest = page.partition("## W14. ")
    return sign + rest.partition("\n## ")[0] if sign else ""


def main() -> int:
    """Measure, and put the tables in the results; 1 when a line was lost, or a curve is missing."""
    parser = argparse.ArgumentParser(prog="python -m bench.scaling")
    parser.add_argument("--quick", action="store_true", help="small sizes, about a minute")
    parser.add_argument("--out", type=Path, help="where RESULTS.md and plots/ are")
    options = parser.parse_args()
    out: Path = options.out or (BENCH / "trial" if options.quick else BENCH)
    began = time.monotonic()
    HOME.mkdir(exist_ok=True)
    bench = Bench(
        QUICK if options.quick else FULL, Path(tempfile.mkdtemp(prefix="work-", dir=HOME))
    )
    backends = BACKENDS if shutil.which("redis-server") else (SQLITE,)
    try:
        for backend in backends:
            bench.run(backend)
    finally:
        shutil.rmtree(bench.home, ignore_errors=True)
    found = section(bench)
    (out / "plots").mkdir(parents=True, exist_ok=True)
    shown: list[str] = []
    for name, title, across, up in PLOTS:
        if drawn := plot(title, across, up, found.points.get(name, {}), (), ()):
            (out / "plots" / f"scaling-{name}.svg").write_text(drawn)
            shown.append(f"![{title}](plots/scaling-{name}.svg)\n")
    page = out / "RESULTS.md"
    old = page.read_text() if page.exists() else "## Versions\n"
    page.write_text(put(old, section_text(found) + "\n" + "\n".join(shown)))
    say(f"{page} written after {(time.monotonic() - began) / 60:.1f} minutes")
    return int(bool(bench.broken) or any(point.told.lost for point in bench.points))


if __name__ == "__main__":
    sys.exit(main())
