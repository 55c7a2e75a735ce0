"""Each system call of each kind of write: `python -m bench.kills [--way killed] ...`; `make kills`.

Exit status: 0 all promises kept; 1 findings; 2 it cannot run.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bench import say
from bench.crowd import redis_server
from bench.kills.barrier import CHANGING, EVERY, ROOM, Way, missing
from bench.kills.deeds import DEEDS
from bench.kills.run import Outcome, Place, attempt, placed, points

_AROUND = 4
"""So many calls before the intent and after the done mark are points too."""

_CALLS = {"changing": CHANGING, "room": ROOM, "every": EVERY}


def main(words: Sequence[str] | None = None) -> int:
    """Run all points, print the table and the findings."""
    parser = _parser()
    options = parser.parse_args(words)
    if reason := missing():
        parser.error(reason)
    calls = _CALLS[options.calls or ("room" if options.way in ("ENOSPC", "full") else "changing")]
    backends = ("sqlite", "redis") if options.backend == "both" else (options.backend,)
    found: list[str] = []
    total: Counter[str] = Counter()
    began = time.monotonic()
    print(_HEAD, flush=True)
    for backend in backends:
        with tempfile.TemporaryDirectory(prefix="kills-") as name, contextlib.ExitStack() as ended:
            folder = Path(name)
            server = None
            if backend == "redis":
                server = ended.enter_context(redis_server(folder / "redis"))
                if server is None:
                    parser.error("there is no redis-server (Debian: apt-get install redis-server)")
            place = ended.enter_context(placed(folder, server))
            place.durability = options.durability
            for deed in options.deeds:
                say(f"  {backend}: {deed}")
                outcomes = run(place, deed, options.way, calls, options.every, whole=options.whole)
                print(_row(backend, deed, outcomes), flush=True)
                found += (_words(backend, one) for one in outcomes if one.verdict.wrong)
                total.update(one.phase for one in outcomes)
    seconds = time.monotonic() - began
    print(f"\n{options.way}: {_counted(total)}; {len(found)} findings, {seconds:.0f} s.")
    for words_ in found:
        print(f"- {words_}")
    return 1 if found else 0


def run(
    place: Place, deed: str, way: Way, calls: str, every: int = 1, *, whole: bool = False
) -> list[Outcome]:
    """The outcomes at each point of a write, or at one of every so many."""
    alone = points(place, deed, calls)
    around = alone.around(len(alone.calls) if whole or way != "killed" else _AROUND)
    return [
        attempt(place, deed, way, point, calls=calls, last=alone.marks)[0]
        for point in around[::every]
    ]


_HEAD = """\
| backend | write | points | before the intent | between | after the mark | all | none | in doubt \
| findings |
|---|---|---|---|---|---|---|---|---|---|"""


def _row(backend: str, deed: str, outcomes: Sequence[Outcome]) -> str:
    phases = Counter(one.phase for one in outcomes)
    became = Counter(one.verdict.became for one in outcomes)
    wrong = sum(bool(one.verdict.wrong) for one in outcomes)
    cells = [backend, deed, len(outcomes), phases["before"], phases["between"], phases["after"]]
    cells += [became["all"], became["none"], became["doubt"], wrong]
    return f"| {' | '.join(map(str, cells))} |"


def _counted(total: Counter[str]) -> str:
    every = sum(total.values())
    return f"{every} points, {total['between']} between the flushed intent and the done mark"


def _words(backend: str, one: Outcome) -> str:
    where = f"{backend}, {one.deed}, call {one.at} ({one.call}), {one.phase}, met by {one.looking}"
    return f"{where}: {'; '.join(one.verdict.wrong)}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.kills", description="What happens at each system call of a write."
    )
    add = parser.add_argument
    ways = ("killed", "EIO", "ENOSPC", "full")
    add("--way", choices=ways, default="killed", help="what happens at the call (killed)")
    add("--backend", choices=("sqlite", "redis", "both"), default="both", help="(both)")
    add("--deeds", nargs="+", choices=[*DEEDS], default=[*DEEDS], help="the kinds of write (all)")
    add("--calls", choices=[*_CALLS], help="the calls that count (changing; of ENOSPC: room)")
    add("--every", type=int, default=1, metavar="N", help="one point in so many (1)")
    add("--whole", action="store_true", help="from the first call to the last")
    add("--durability", choices=("full", "fast"), default="full", help="(full)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
