"""The peers' environments, each its own, below `bench/.peers`, as pinned in `bench/peers`.

Invariant: a peer that cannot be installed is a sentence in the results, never an error.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bench import say

BENCH = Path(__file__).parent
PINS = BENCH / "peers"
HOME = BENCH / ".peers"
SECONDS, QUICK_SECONDS = 240, 30
PYTHON = {
    "aider": "aider-chat",
    "openhands": "openhands-aci",
    "mcp_text_editor": "mcp-text-editor",
    "tokens": "bpe-openai",
}
"""The distribution of each environment, the largest first."""

LARGE = ("aider", "openhands")
"""They take longer to install than the quick form has."""


_COUNTING = """
import json, sys, bpe_openai
name, texts = json.load(sys.stdin)
encode = bpe_openai.get_encoding(name).encode
print(json.dumps([len(encode(text)) for text in texts]))
"""


class NotInstalled(Exception):
    """Why a peer is left out, in words for the results."""


@dataclass
class Installed:
    """What was found: interpreters, programs, versions, and what is missing and why."""

    python: dict[str, str] = field(default_factory=dict[str, str])
    program: dict[str, str] = field(default_factory=dict[str, str])
    version: dict[str, str] = field(default_factory=dict[str, str])
    missing: dict[str, str] = field(default_factory=dict[str, str])


def install(*, quick: bool, only: Collection[str] = ()) -> Installed:
    """Install what is not there yet, two at a time; what there is then.

    `only`: the names of some distributions, and nothing else.
    """
    found = Installed()
    steps: dict[str, Callable[[], None]] = {}
    for name, package in PYTHON.items():
        steps[package] = partial(_python, found, name, package, quick)
    steps["npm packages"] = partial(_node, found, quick)
    for name in ("patch", "git", "sed", "diff"):
        steps[name] = partial(_system, found, name)
    with ThreadPoolExecutor(2) as threads:
        wanted = only or steps.keys()
        waiting = {name: threads.submit(steps[name]) for name in wanted}
    for name, done in waiting.items():
        try:
            done.result()
        except NotInstalled as error:
            found.missing[name] = str(error)
    return found


def count_tokens(found: Installed, texts: Sequence[str], encoding: str) -> list[int]:
    """How many tokens each text has; nothing where the counter is not installed."""
    python = found.python.get("tokens")
    if python is None:
        return []
    done = subprocess.run(
        [python, "-c", _COUNTING],
        input=json.dumps([encoding, texts]),
        capture_output=True,
        text=True,
        check=False,
    )
    return [] if done.returncode else json.loads(done.stdout)


def _python(found: Installed, name: str, package: str, quick: bool) -> None:
    pins = PINS / f"{name}.txt"
    folder = HOME / name
    python = folder / "bin" / "python"
    stamp = folder / "pins.txt"
    if not _is(stamp, pins.read_text()):
        if quick and name in LARGE:
            raise NotInstalled("takes long to install, which `make bench` does")
        say(f"installing {package}")
        shutil.rmtree(folder, ignore_errors=True)
        _run([sys.executable, "-m", "venv", "--without-pip", str(folder)], quick)
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q"]
        # the pins are complete, and one of the peers asks for a newer Python than it needs
        exact = ["--no-deps", "--ignore-requires-python", "--only-binary", ":all:"]
        _run([*pip, "--disable-pip-version-check", "--no-compile", *exact, "-r", str(pins)], quick)
        stamp.write_text(pins.read_text())
    wanted = [line for line in pins.read_text().split("\n") if line.startswith(f"{package}==")]
    found.python[name] = str(python)
    found.version[package] = wanted[0].split("==")[1]


def _node(found: Installed, quick: bool) -> None:
    folder = HOME / "node"
    pins = (PINS / "package.json").read_text()
    stamp = folder / "pins.json"
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise NotInstalled("node and npm are not on the path")
    if not _is(stamp, pins):
        say("installing npm packages")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "package.json").write_text(pins)
        quiet = ["--no-package-lock", "--no-audit", "--no-fund", "--silent"]
        _run([npm, "install", *quiet], quick, folder)
        stamp.write_text(pins)
    modules = folder / "node_modules"
    for package, version in json.loads(pins)["dependencies"].items():
        found.version[package] = version
    script = modules / "@modelcontextprotocol" / "server-filesystem" / "dist" / "index.js"
    found.program["node"], found.program["filesystem"] = node, str(script)
    found.version["node"] = _first_line(["node", "--version"])
    binaries = sorted(modules.glob("@openai/codex-*/vendor/*/bin/codex"))
    if not binaries:
        raise NotInstalled("@openai/codex has no binary for this system")
    link = folder / "apply_patch"
    link.unlink(missing_ok=True)
    link.symlink_to(os.path.relpath(binaries[0], folder))
    found.program["apply_patch"] = str(link)


def _is(stamp: Path, pins: str) -> bool:
    return stamp.exists() and stamp.read_text() == pins


def _system(found: Installed, name: str) -> None:
    path = shutil.which(name)
    if path is None:
        raise NotInstalled("is not on the path")
    found.program[name] = path
    found.version[name] = _first_line([name, "--version"])


def _first_line(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    return done.stdout.partition("\n")[0].strip()


def _run(command: list[str], quick: bool, folder: Path | None = None) -> None:
    """Run a step; what it said of its failure goes to the terminal, not into the results."""
    seconds = QUICK_SECONDS if quick else SECONDS
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"was not installed in {seconds} s") from None
    if done.returncode:
        say((done.stderr or done.stdout).strip())
        raise NotInstalled("could not be installed")
