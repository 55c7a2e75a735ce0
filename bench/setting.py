"""The setting of every workload: contestants, a folder, and how much to measure."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from bench import say
from bench.arena import Limits, Round, placed
from bench.contestant import How
from bench.data import Text, revised, with_line_after
from bench.field import Entrant
from bench.installing import Installed
from bench.jobs import write_job
from bench.pool import Pool

KB, MB, GB = 1_000, 1_000_000, 1_000_000_000
LARGE = 200 * MB
"""Above it a round takes so long that there are few of them."""


@dataclass(frozen=True)
class Scale:
    """How much is measured, and how long it may take.

    After `minutes` every row has one round only, and the workloads that have not
    begun are measured at the quick scale. `call_seconds`: of one call, then
    it is over. `peer_seconds`: of all calls of a peer in a row. `row_seconds`: from
    the end of a row's first round to the last moment that another one begins.
    """

    name: str
    minutes: float
    call_seconds: float
    peer_seconds: float
    row_seconds: float
    edits: int
    """of W1"""
    batches: tuple[tuple[int, int], ...]
    """edits and bytes, of W2"""
    batch_edits: tuple[int, ...]
    """of the plot against the number of edits, in a file of 10 MB"""
    sizes: tuple[int, ...]
    """of W3"""
    reading: tuple[int, ...]
    """of W4"""
    rounds: int
    edits_each: int
    """of the eight processes of W6"""
    races: int
    race_seconds: float
    """of a race; half of it for a peer"""
    drift_step: int
    """one case of W7 in so many"""
    traps_each: int
    """of each kind of trap made"""
    starts: int


QUICK = Scale(
    name="quick",
    minutes=1.2,
    call_seconds=2,
    peer_seconds=1,
    row_seconds=2,
    edits=40,
    batches=((10, 100 * KB), (100, MB), (1_000, 10 * MB)),
    batch_edits=(1, 100, 1_000),
    sizes=(10 * KB, 100 * KB, MB, 10 * MB),
    reading=(10 * MB,),
    rounds=5,
    edits_each=25,
    races=1,
    race_seconds=6,
    drift_step=25,
    traps_each=2,
    starts=3,
)
FULL = Scale(
    name="full",
    minutes=17,
    call_seconds=15,
    peer_seconds=4,
    row_seconds=12,
    edits=500,
    batches=((10, 100 * KB), (100, MB), (1_000, 10 * MB), (1_000, 100 * MB), (10_000, 100 * MB)),
    batch_edits=(1, 10, 100, 1_000, 10_000),
    sizes=(10 * KB, 100 * KB, MB, 10 * MB, 100 * MB, GB),
    reading=(10 * MB, 100 * MB, GB),
    rounds=11,
    edits_each=200,
    races=3,
    race_seconds=30,
    drift_step=1,
    traps_each=20,
    starts=15,
)


@dataclass
class Setting:
    """The bench as it runs."""

    scale: Scale
    found: Installed
    entrants: dict[str, Entrant]
    home: Path
    drift: Path | None
    pool: Pool
    _began: float = field(default_factory=time.monotonic)
    _count: int = field(default=0)

    def folder(self, name: str) -> Path:
        """A new folder."""
        self._count += 1
        return self.home / f"{self._count:04d}-{name}"

    def rows(self, *names: str, peers: Iterable[str] | None = None) -> list[Entrant]:
        """The named contestants that there are, and the peers (all, unless some are named)."""
        every = [row.name for row in self.entrants.values() if row.kind == "peer"]
        wanted = [*names, *(every if peers is None else peers)]
        return [self.entrants[name] for name in wanted if name in self.entrants]

    def master(self, text: Text) -> Path:
        """A file with the text; of the large ones, the last is kept."""
        path = self.home / f"master-{text.size}.txt"
        if not path.exists():
            for other in self.home.glob("master-*.txt"):
                if other.stat().st_size > LARGE:
                    other.unlink()
            say(f"  making {text.size:,} bytes")
            text.write(path)
        return path

    def edit_round(self, text: Text, how: How, count: int = 1) -> Round:
        """The round of an edit, or of so many at once, spread over the text."""
        made = [
            with_line_after(mark, "    added = True")
            if how == "anchor"
            else revised(mark, "revised")
            for mark in text.marks(count)
        ]
        job = write_job(self.folder("job"), how, made)
        request = {"do": "edit", "job": str(job)}
        return Round(request, placed(self.master(text)), text.digest(made))

    def warm(self, how: How) -> Round:
        """A small edit of the same kind, so that nothing is loaded in a measured call."""
        return self.edit_round(Text(10 * KB), how)

    @property
    def until(self) -> float:
        """When the time is over, by the monotonic clock."""
        return self._began + self.scale.minutes * 60

    def limits(self, row_times: float = 1.0) -> Limits:
        """New limits; a row may take so many times as long as others."""
        scale = self.scale
        row = scale.row_seconds * row_times
        return Limits(scale.call_seconds, scale.peer_seconds, row, self.until)
