"""The benchmark: `python -m bench.run [--quick] [--only W1,W3]`.

What lives here: what is started, in what order, and where the results go. What
must not: measuring.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench import field as names
from bench.arena import PROJECT, Pool, say
from bench.contestant import memory_kb
from bench.field import entrants
from bench.installing import install
from bench.plots import plot
from bench.report import page
from bench.results import Section
from bench.setting import FULL, QUICK, Setting
from bench.workloads import (
    w1_small,
    w2_batch,
    w3_size,
    w4_reading,
    w5_near,
    w6_race,
    w7_drift,
    w8_start,
)

BENCH = PROJECT / "bench"
WORKLOADS: dict[str, Callable[[Setting], Section]] = {
    "W1": w1_small.run,
    "W2": w2_batch.run,
    "W3": w3_size.run,
    "W4": w4_reading.run,
    "W5": w5_near.run,
    "W6": w6_race.run,
    "W7": w7_drift.run,
    "W8": w8_start.run,
}
PLOTS = (
    ("size-time", "One edit by line number: time", "bytes", "seconds"),
    ("size-memory", "One edit by line number: peak memory of the process", "bytes", "MB"),
    ("edits-time", "One batch in a file of 10 MB: time", "edits", "seconds"),
    ("edits-memory", "One batch in a file of 10 MB: peak memory of the process", "edits", "MB"),
)
LIMITS = (names.RENAME, names.FSYNC, names.COPY, names.COPY_FAST)


def main() -> None:
    """Run the workloads and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, about 3 minutes")
    parser.add_argument("--only", default="", help="some workloads, such as W1,W3")
    parser.add_argument("--out", default=str(BENCH), help="where RESULTS.md and plots/ are put")
    options = parser.parse_args()
    wanted = [name for name in options.only.upper().split(",") if name] or list(WORKLOADS)
    began = time.monotonic()
    found = install()
    for name, why in found.missing.items():
        say(f"skipped: {name}: {why}")
    began_measuring = time.monotonic()
    say(f"peers are there after {began_measuring - began:.0f} s")
    drift = PROJECT / os.environ.get("COPYDESK_DRIFT", "../shared/drift")
    home = Path(tempfile.mkdtemp(prefix="copydesk-bench-"))
    scale = QUICK if options.quick else FULL
    known = drift if (drift / "real.jsonl.xz").exists() else None
    pool = Pool(home / "pool")
    bench = Setting(scale, found, entrants(found), home, known, pool)
    sections: list[Section] = []
    try:
        for name in wanted:
            say(f"{name} ({time.monotonic() - began_measuring:.0f} s so far)")
            sections.append(WORKLOADS[name](bench))
            for bar in sections[-1].bars:
                verdict = {True: "met", False: "MISSED", None: "-"}[bar.met]
                say(f"  {verdict:6} {bar.asked}: {bar.measured}")
    finally:
        pool.close()
        shutil.rmtree(home, ignore_errors=True)
    minutes = (time.monotonic() - began_measuring) / 60
    out = Path(options.out)
    plots = _write_plots(sections, out / "plots")
    floor = memory_kb(os.getpid(), "VmRSS") / 1024
    text = page(sections, found, scale.name, minutes, min(floor, 14.0), plots)
    (out / "RESULTS.md").write_text(text)
    say(f"{out / 'RESULTS.md'} written after {minutes:.1f} minutes")


def _write_plots(sections: list[Section], folder: Path) -> list[tuple[str, str]]:
    written: list[tuple[str, str]] = []
    folder.mkdir(parents=True, exist_ok=True)
    for name, title, across, up in PLOTS:
        lines = [section.points[name] for section in sections if name in section.points]
        if lines and (svg := plot(title, across, up, lines[0], LIMITS)):
            (folder / f"{name}.svg").write_text(svg)
            written.append((title, f"{name}.svg"))
    return written


if __name__ == "__main__":
    main()
