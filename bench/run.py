"""The benchmark: `python -m bench.run [--quick] [--only W1,W3] [--out FOLDER]`."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import economy, say
from bench import field as names
from bench.drifting import data_set
from bench.field import entrants
from bench.installing import BENCH, HOME, install
from bench.plots import plot
from bench.pool import Pool
from bench.report import VERDICTS, Facts, page
from bench.results import Section
from bench.scaling import put, section_of
from bench.setting import FULL, QUICK, Scale, Setting
from bench.workloads import (
    w1_small,
    w2_batch,
    w3_size,
    w4_reading,
    w5_near,
    w6_race,
    w7_drift,
    w8_start,
    w9_notes,
    w11_page,
    w12_checks,
    w13_kernel,
    w15_messages,
)

WORKLOADS: dict[str, Callable[[Setting], Section]] = {
    "W1": w1_small.run,
    "W2": w2_batch.run,
    "W3": w3_size.run,
    "W4": w4_reading.run,
    "W5": w5_near.run,
    "W6": w6_race.run,
    "W7": w7_drift.run,
    "W8": w8_start.run,
    "W9": w9_notes.run,
    "W10": economy.run,
    "W11": w11_page.run,
    "W12": w12_checks.run,
    "W13": w13_kernel.run,
    "W15": w15_messages.run,
}
PLOTS = (
    ("size-time", "One edit by line number: time", "bytes", "seconds"),
    ("size-memory", "One edit by line number: peak memory of the process", "bytes", "MB"),
    ("edits-time", "One batch in a file of 10 MB: time", "edits", "seconds"),
    ("edits-memory", "One batch in a file of 10 MB: peak memory of the process", "edits", "MB"),
)
LIMITS = (names.FSYNC, names.RENAME, names.MEMORY, names.COPY, names.COPY_FAST)
TRIAL = BENCH / "trial"
"""Where results go that are not those of the whole benchmark."""


def main() -> int:
    """Run the workloads and write the results; 1 when one of them could not run."""
    parser = argparse.ArgumentParser(prog="python -m bench.run")
    parser.add_argument("--quick", action="store_true", help="small sizes, about 3 minutes")
    parser.add_argument("--only", default="", help="some workloads, such as W1,W3")
    parser.add_argument("--out", type=Path, help="where RESULTS.md and plots/ are put")
    options = parser.parse_args()
    wanted = [name for name in options.only.upper().split(",") if name] or list(WORKLOADS)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was made is removed then, too
    load = os.getloadavg()[0]
    began = time.monotonic()
    found = install(quick=options.quick)
    for name, why in found.missing.items():
        say(f"skipped: {name} {why}")
    say(f"peers are there after {time.monotonic() - began:.0f} s")
    HOME.mkdir(exist_ok=True)
    # on the disk that the project is on; the system's own folder may be memory
    home = Path(tempfile.mkdtemp(prefix="work-", dir=HOME))
    pool = Pool(home / "pool")
    scale = QUICK if options.quick else FULL
    bench = Setting(scale, found, entrants(found), home, data_set(), pool)
    try:
        sections = [_run(name, bench, scale) for name in wanted]
    finally:
        pool.close()
        shutil.rmtree(home, ignore_errors=True)
    whole = not options.quick and not options.only
    out: Path = options.out or (BENCH if whole else TRIAL)
    facts = Facts(
        scale=scale.name,
        minutes=(time.monotonic() - began) / 60,
        load=(load, os.getloadavg()[0]),
    )
    peers = [row.name for row in bench.rows()]
    text = page(sections, found, facts, _write_plots(sections, peers, out / "plots"))
    results = out / "RESULTS.md"
    if results.exists() and (
        kept := section_of(results.read_text())
    ):  # measured by its own command
        text = put(text, kept)
    results.write_text(text)
    say(f"{results} written after {facts.minutes:.1f} minutes")
    return int(any(section.failed for section in sections))


def _run(name: str, bench: Setting, scale: Scale) -> Section:
    """The section of a workload; one that breaks does not take the others with it.

    `scale` is the one that was asked for: the quick one when the time is over.
    """
    say(f"{name}")
    began = time.monotonic()
    if began > bench.until:
        bench.scale = QUICK
    try:
        section = WORKLOADS[name](bench)
    except Exception:  # what went wrong is shown, and the exit status tells of it
        traceback.print_exc()
        return Section(name, "could not be run", failed=True)
    if bench.scale is not scale:
        section.notes.append("Measured at the quick scale, since the time was over.")
    for bar in section.bars:
        say(f"  {VERDICTS[bar.met]:12} {bar.asked}: {bar.measured}")
    say(f"  {name} took {time.monotonic() - began:.0f} s")
    return section


def _write_plots(
    sections: Sequence[Section], peers: Sequence[str], folder: Path
) -> list[tuple[str, str]]:
    """Captions and file names of the plots that have points."""
    written: list[tuple[str, str]] = []
    folder.mkdir(parents=True, exist_ok=True)
    for name, title, across, up in PLOTS:
        lines = [section.points[name] for section in sections if name in section.points]
        if lines and (svg := plot(title, across, up, lines[0], LIMITS, peers)):
            (folder / f"{name}.svg").write_text(svg)
            written.append((title, f"{name}.svg"))
    return written


if __name__ == "__main__":
    sys.exit(main())
