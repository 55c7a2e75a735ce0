"""Who finds a sabotaged copydesk: `python -m bench.soak.sabotage [--only NAME]`; `make sabotage`.

One check after the other is taken out of a copy of the package, in a scratch folder. The fast tests
that should see it run on that copy, and then a short soak. Both must find nothing on a true copy.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Final

from bench import PROJECT, say
from bench.soak.run import FOUND

_PACKAGE = PROJECT / "src" / "copydesk"
_MINUTES = 0.75
_MOST_SECONDS = 120.0
"""Of each search."""


@dataclass(frozen=True, slots=True)
class Sabotage:
    """A text of one source file, which is there once, and what takes its place.

    `tests` are the files of fast tests that should see it, `kinds` the findings of a soak.
    """

    name: str
    what: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    kinds: tuple[str, ...]

    def of(self, source: str) -> str:
        """The sabotaged source; raises LookupError where its text is not there, or twice."""
        if source.count(self.old) != 1:
            raise LookupError(f"{self.name}: {self.file} has not once {self.old!r}")
        return source.replace(self.old, self.new)


SABOTAGES: Final = (
    Sabotage(
        "approval",
        "an approval counts for other bytes as well",
        "desk/gates.py",
        "if reason is not None and bound != (",
        "if False and bound != (",
        ("tests/test_approval.py",),
        ("not approved",),
    ),
    Sabotage(
        "exchange",
        "the file that came out of an exchange is not looked at",
        "store/files.py",
        "is_same = self._is_old(_os.lstat(self._new.temp, dir_fd=place.dir_fd))",
        "is_same = True",
        ("tests/test_foreign_writes.py",),
        ("foreign write lost",),
    ),
    Sabotage(
        "target",
        "the target is not checked right before the rename or the exchange",
        "store/files.py",
        "        if not expected.settled and not self.holds_content():\n",
        "        return\n        if not expected.settled:\n",
        ("tests/test_foreign_writes.py",),
        ("foreign write lost",),
    ),
    Sabotage(
        "journal",
        "one journal entry of forty is dropped",
        "desk/backends/sqlite.py",
        "                ids.append(edit_id)\n",
        "                ids.append(edit_id)\n"
        "                if not edit_id % 40:\n"
        '                    db.execute("DELETE FROM edits WHERE edit_id = ?", (edit_id,))\n',
        ("tests/test_journal.py",),
        ("changed unsaid", "lost"),
    ),
    Sabotage(
        "insertion",
        "what is inserted at every seventh line is inserted twice",
        "edit/kinds/base.py",
        "    first, last = part\n    if not first:",
        "    first, last = part\n"
        "    if not may_delete and first % 7 == 6:\n"
        '        content = f"{content}\\n{content}"\n'
        "    if not first:",
        ("tests/test_drifted_plans.py",),
        ("written twice",),
    ),
)


def main(words: Sequence[str] | None = None) -> int:
    """Search for all; 0 if each sabotage was found by somebody, and nothing in the true copy."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak.sabotage")
    names = [one.name for one in SABOTAGES]
    parser.add_argument("--only", choices=names, help="one of them, without the true copy")
    options = parser.parse_args(words)
    wanted = [one for one in SABOTAGES if options.only in (None, one.name)]
    failed = 0
    print("| sabotage | fast tests | soak |\n| --- | --- | --- |", flush=True)
    for one in wanted if options.only else (None, *wanted):
        what = f"{one.name}: {one.what}" if one else "none: a true copy"
        files = one.tests if one else sorted({file for each in wanted for file in each.tests})
        with tempfile.TemporaryDirectory(prefix="copydesk-sabotage-") as folder:
            env = _copied(Path(folder), one)
            seconds = _tested(files, env), _soaked(Path(folder) / "soak", env, one)
        failed += (seconds == (None, None)) is (one is not None)
        found = " | ".join("-" if each is None else f"{each:.0f} s" for each in seconds)
        print(f"| {what} | {found} |", flush=True)
    say("Each was found." if not failed else f"{failed} rows are not as they should be.")
    return min(failed, 1)


def _copied(folder: Path, one: Sabotage | None) -> dict[str, str]:
    """Copy the package, sabotaged; return the environment in which Python imports the copy."""
    package = folder / _PACKAGE.name
    shutil.copytree(_PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    if one is not None:
        source = package / one.file
        source.write_text(one.of(source.read_text("utf-8")), "utf-8")
    env = {**os.environ, "PYTHONPATH": str(folder)}
    ask = [sys.executable, "-c", "import copydesk; print(copydesk.__file__)"]
    imported = subprocess.run(ask, env=env, capture_output=True, text=True, check=True).stdout
    if Path(imported.strip()).parent != package:
        raise LookupError(f"{imported.strip()} is imported, and not the copy")
    return env


def _tested(files: Sequence[str], env: Mapping[str, str]) -> float | None:
    """After how many seconds a fast test of these files failed; None if none did."""
    words = ["-m", "pytest", "-x", "-m", "not slow", "-p", "no:cacheprovider", *files]
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, *words], cwd=PROJECT, env=env, capture_output=True, text=True
    )
    seconds = time.monotonic() - begin
    if done.returncode not in (0, 1):  # pytest itself could not run
        raise RuntimeError(done.stdout + done.stderr)
    if not done.returncode:
        return None
    say(next(line for line in done.stdout.splitlines() if line.startswith("FAILED")))
    return seconds if seconds <= _MOST_SECONDS else None


def _soaked(folder: Path, env: Mapping[str, str], one: Sabotage | None) -> float | None:
    """After how many seconds a soak found it, in a true copy anything; None if not in time."""
    signs = tuple(f"{FOUND} {kind}:" for kind in one.kinds) if one else (FOUND,)
    words = ["-m", "bench.soak", "--minutes", str(_MINUTES), "--backend", "sqlite"]
    begin, found = time.monotonic(), None
    with subprocess.Popen(
        [sys.executable, *words, "--root", str(folder)],
        cwd=PROJECT,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        late = Timer(_MOST_SECONDS, process.send_signal, (signal.SIGINT,))
        late.start()
        for line in process.stderr:
            seconds = time.monotonic() - begin
            if found is None and line.startswith(signs) and seconds <= _MOST_SECONDS:
                found = seconds
                say(line.rstrip())
                process.send_signal(signal.SIGINT)
        late.cancel()
    if process.returncode not in (0, 1):
        raise RuntimeError(f"the soak ended with {process.returncode}")
    return found


if __name__ == "__main__":
    sys.exit(main())
