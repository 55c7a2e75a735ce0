"""The soak: `python -m bench.soak [--minutes 30] [--backend both] ...`; also `make soak`."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench import say
from bench.soak import processes
from bench.soak.processes import NotStarted
from bench.soak.report import data, markdown, plot, write_report
from bench.soak.run import SoakOptions, soak

_MOST_MINUTES = 7 * 24 * 60


def main(words: Sequence[str] | None = None) -> int:
    """Run the soak; 0 if the observer found nothing wrong, else 1. SystemExit 2: it cannot run."""
    parser = _parser()
    options = parser.parse_args(words)
    for name in [name for name in os.environ if name.startswith("COPYDESK_")]:
        del os.environ[name]  # settings of the caller's own workspace
    backends = _backends(options.backend, parser)
    seed = options.seed or str(random.SystemRandom().randrange(10**9))
    folder = _folder(options.root, parser)
    setting = SoakOptions(
        60 * options.minutes / len(backends),
        options.agents,
        options.machines,
        options.people,
        options.foreign,
        seed,
    )
    backends_named = ", ".join(backends)
    say(f"Soak on {backends_named} in {folder}, seed {seed}. Ctrl-C ends it with a report.")
    try:
        results = soak(folder, backends, setting)
    except NotStarted as error:
        parser.error(f"{error}, which says why")
    plots: dict[str, str] = {}
    if options.report:
        for one in results:
            path = options.report.with_name(f"{options.report.stem}-{one.backend}.svg")
            path.write_text(plot(one), "utf-8")
            plots[one.backend] = path.name
        write_report(options.report, markdown(results, plots))
    print(json.dumps(data(results), indent=2) if options.json else markdown(results, plots))
    found = sum(len(one.findings) for one in results)
    if found:
        say(f"{found} findings; the workspace and the logs are in {folder}. Seed {seed}.")
        return 1
    say(f"Nothing was lost, misplaced or unreported. Seed {seed}.")
    if options.root is None:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.soak", description="Many clients and faults on a scratch workspace."
    )
    add = parser.add_argument
    add("--minutes", type=_minutes, default=1.0, help="how long in all (1)")
    add("--agents", type=_positive, default=8, help="MCP clients, on stdio and HTTP (8)")
    add(
        "--machines",
        type=_positive,
        default=2,
        help="HTTP servers; with Redis each counts as a separate machine (2)",
    )
    add("--people", type=_count, default=2, help="reviewers on the review page (2)")
    add("--foreign", type=_count, default=5, help="programs that append, save and format (5)")
    add(
        "--backend",
        choices=("sqlite", "redis", "both"),
        help="default: both, each for half the time, if redis-server is installed",
    )
    add("--seed", help="repeat a run as far as timing allows (random)")
    add("--root", help="an empty folder for the workspace and the logs (a temporary one)")
    add("--report", type=Path, metavar="FILE", help="write the report and its plots")
    add("--json", action="store_true", help="print the results as JSON")
    return parser


def _positive(text: str) -> int:
    number = _count(text)
    if not number:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not 0 < minutes <= _MOST_MINUTES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of minutes up to a week")
    return minutes


def _backends(wanted: str | None, parser: argparse.ArgumentParser) -> tuple[str, ...]:
    """The backends to use: the requested ones, or all that are available."""
    has_client = importlib.util.find_spec("redis") is not None
    if wanted == "sqlite" or (wanted is None and not (processes.REDIS and has_client)):
        return ("sqlite",)
    if processes.REDIS is None:
        parser.error(
            "there is no redis-server on this machine: apt-get install redis-server installs it; "
            "--backend sqlite does without"
        )
    if not has_client:
        parser.error('there is no Redis client: pip install "copydesk[redis]" installs it')
    return ("redis",) if wanted == "redis" else ("sqlite", "redis")


def _folder(root: str | None, parser: argparse.ArgumentParser) -> Path:
    """The folder of the run: a new one, or the named one, which must be empty."""
    if root is None:
        return Path(tempfile.mkdtemp(prefix="copydesk-soak-"))
    if os.path.lexists(root) and (not os.path.isdir(root) or os.listdir(root)):
        parser.error(f"{root!r} is not an empty folder; a soak makes its own files")
    folder = Path(root).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


if __name__ == "__main__":
    sys.exit(main())
