"""`copydesk soak`: from its options to a run and a report."""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import re
import shutil
import sys
import tempfile
from pathlib import Path

from copydesk.app import terminal
from copydesk.app.cli.parser import UsageError
from copydesk.tools.messages import say
from copydesk.tools.report import Lang

_BEGIN, _END = "<!-- report: begin -->", "<!-- report: end -->"


def run(options: argparse.Namespace, lang: Lang) -> int:
    """Run the soak; 0 if the observer found nothing wrong, else 1. Raises UsageError."""
    for name in [name for name in os.environ if name.startswith("COPYDESK_")]:
        del os.environ[name]  # settings of the caller's own workspace
    backends = _backends(options.backend)
    seed = options.seed or str(random.SystemRandom().randrange(10**9))
    folder, report = _folder(options.root), options.report and Path(options.report)
    from copydesk.app.soak.report import data, markdown, plot  # only a run pays for them
    from copydesk.app.soak.run import NotStarted, SoakOptions, soak

    setting = SoakOptions(
        60 * options.minutes / len(backends),
        options.agents,
        options.machines,
        options.people,
        options.foreign,
        seed,
    )
    facts: dict[str, object] = {"seed": seed, "folder": folder, "backends": ", ".join(backends)}
    print(say("cli.soak_begins", lang, facts), file=sys.stderr, flush=True)
    try:
        results = soak(folder, backends, setting)
    except NotStarted as error:
        raise UsageError(str(error), "Its log says why.") from None
    names: dict[str, str] = {}
    if report:
        for one in results:
            path = report.with_name(f"{report.stem}-{one.backend}.svg")
            path.write_text(plot(one), "utf-8")
            names[one.backend] = path.name
        write_report(report, markdown(results, names))
    if options.json:
        terminal.dump(data(results))
    else:
        terminal.out(markdown(results, names))
    found = sum(len(one.findings) for one in results)
    facts["count"] = found
    print(say("cli.soak_found" if found else "cli.soak_clean", lang, facts), file=sys.stderr)
    if not found and options.root is None:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if found else 0


def _backends(wanted: str | None) -> tuple[str, ...]:
    """The backends to use: those that can be, unless some are asked for."""
    from copydesk.app.soak.processes import REDIS

    if wanted == "sqlite":
        return ("sqlite",)
    if wanted is None and (REDIS is None or importlib.util.find_spec("redis") is None):
        return ("sqlite",)
    if REDIS is None:
        hint = "apt-get install redis-server installs it; --backend sqlite does without."
        raise UsageError("there is no redis-server on this machine", hint)
    import redis as _  # noqa: F401  # where it is missing the command says what installs it

    return ("redis",) if wanted == "redis" else ("sqlite", "redis")


def write_report(path: Path, text: str) -> None:
    """Write the report; in a page that has a marked place for it, there and nowhere else."""
    page = path.read_text("utf-8") if path.exists() else ""
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if end:
        text = f"{before}{begin}\n\n{re.sub('^#', '##', text, flags=re.M)}\n{end}{after}"
    path.write_text(text, "utf-8")


def _folder(root: str | None) -> Path:
    """The folder of the run: a new one, or an empty one that was named."""
    if root is None:
        return Path(tempfile.mkdtemp(prefix="copydesk-soak-"))
    if os.path.lexists(root) and (not os.path.isdir(root) or os.listdir(root)):
        raise UsageError(f"{root!r} is not an empty folder", "A soak makes its own files.")
    folder = Path(root).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return folder
