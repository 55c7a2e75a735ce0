"""What every workload is given: contestants, a folder, and how much to measure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from bench.arena import Limits, Pool, Round, placed, say
from bench.contestant import How
from bench.data import Text, revised, with_line_after
from bench.field import Entrant
from bench.installing import Installed
from bench.jobs import write_job

KB, MB, GB = 1_000, 1_000_000, 1_000_000_000


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    name: str
    rounds: int
    """of W1"""
    batches: tuple[tuple[int, int], ...]
    """edits and bytes, of W2"""
    batch_edits: tuple[int, ...]
    """of the plot against the number of edits, in a file of 10 MB"""
    sizes: tuple[int, ...]
    """of W3"""
    reading: tuple[int, ...]
    """of W4"""
    trials: int
    call_seconds: float
    cell_seconds: float
    processes: int
    edits_each: int
    race_seconds: float
    drift_step: int
    """one case in so many"""
    starts: int


QUICK = Scale(
    name="quick",
    rounds=40,
    batches=((10, 100 * KB), (100, MB), (1_000, 10 * MB)),
    batch_edits=(1, 100, 1_000),
    sizes=(10 * KB, 100 * KB, MB, 10 * MB),
    reading=(10 * MB,),
    trials=3,
    call_seconds=6,
    cell_seconds=2,
    processes=8,
    edits_each=25,
    race_seconds=6,
    drift_step=25,
    starts=5,
)
FULL = Scale(
    name="full",
    rounds=500,
    batches=((10, 100 * KB), (100, MB), (1_000, 10 * MB), (1_000, 100 * MB), (10_000, 100 * MB)),
    batch_edits=(1, 10, 100, 1_000, 10_000),
    sizes=(10 * KB, 100 * KB, MB, 10 * MB, 100 * MB, GB),
    reading=(10 * MB, 100 * MB, GB),
    trials=7,
    call_seconds=60,
    cell_seconds=5,
    processes=8,
    edits_each=200,
    race_seconds=30,
    drift_step=1,
    starts=21,
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
        """A file with the text; the last one is kept."""
        path = self.home / f"master-{text.size}.txt"
        if not path.exists():
            for other in self.home.glob("master-*.txt"):
                if other.stat().st_size > 200 * MB:
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

    def limits(self) -> Limits:
        """New limits of time."""
        return Limits(self.scale.call_seconds, self.scale.cell_seconds)
