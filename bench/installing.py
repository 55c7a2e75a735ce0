"""The peers' environments, each of its own, below `bench/.peers`.

What lives here: making them from the pins in `bench/peers`, and what is there.
What must not: measuring. Invariant: a peer that cannot be installed is a
sentence in the results, never an error of the bench.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

BENCH = Path(__file__).parent
PINS = BENCH / "peers"
HOME = BENCH / ".peers"
SECONDS = 600


@dataclass
class Installed:
    """What was found: interpreters, programs, versions, and what is missing and why."""

    python: dict[str, str] = field(default_factory=dict[str, str])
    program: dict[str, str] = field(default_factory=dict[str, str])
    version: dict[str, str] = field(default_factory=dict[str, str])
    missing: dict[str, str] = field(default_factory=dict[str, str])


def install() -> Installed:
    """Install what is not there yet; what there is then."""
    found = Installed()
    for name, package in (
        ("aider", "aider-chat"),
        ("openhands", "openhands-aci"),
        ("mcp_text_editor", "mcp-text-editor"),
        ("tokens", "bpe-openai"),
    ):
        _guarded(found, package, lambda name=name, package=package: _python(found, name, package))
    _guarded(found, "npm packages", lambda: _node(found))
    for name in ("patch", "git", "sed"):
        _guarded(found, name, lambda name=name: _system(found, name))
    return found


def _guarded(found: Installed, name: str, step: Callable[[], None]) -> None:
    try:
        step()
    except (OSError, subprocess.SubprocessError, RuntimeError) as error:
        found.missing[name] = str(error).strip()[:300]


def _python(found: Installed, name: str, package: str) -> None:
    pins = PINS / f"{name}.txt"
    folder = HOME / name
    python = folder / "bin" / "python"
    stamp = folder / "pins.txt"
    if not stamp.exists() or stamp.read_text() != pins.read_text():
        print(f"installing {package} ...", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(folder)])
        _run(
            # the pins are complete, and one of the peers asks for a newer Python than it needs
            [
                *(str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"),
                *("--no-deps", "--ignore-requires-python", "-r", str(pins)),
            ]
        )
        stamp.write_text(pins.read_text())
    wanted = [line for line in pins.read_text().splitlines() if line.startswith(f"{package}==")]
    found.python[name] = str(python)
    found.version[package] = wanted[0].split("==")[1]


def _node(found: Installed) -> None:
    folder = HOME / "node"
    pins = (PINS / "package.json").read_text()
    stamp = folder / "pins.json"
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise RuntimeError("node and npm are not on the path")
    if not stamp.exists() or stamp.read_text() != pins:
        print("installing npm packages ...", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "package.json").write_text(pins)
        _run([npm, "install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"], folder)
        stamp.write_text(pins)
    modules = folder / "node_modules"
    for package, version in json.loads(pins)["dependencies"].items():
        found.version[package] = version
    script = modules / "@modelcontextprotocol" / "server-filesystem" / "dist" / "index.js"
    found.program["node"], found.program["filesystem"] = node, str(script)
    found.version["node"] = _first_line([node, "--version"])
    binaries = sorted(modules.glob("@openai/codex-*/vendor/*/bin/codex"))
    if not binaries:
        found.missing["@openai/codex"] = "no binary for this system"
        return
    link = folder / "apply_patch"
    link.unlink(missing_ok=True)
    link.symlink_to(os.path.relpath(binaries[0], folder))
    found.program["apply_patch"] = str(link)


def _system(found: Installed, name: str) -> None:
    path = shutil.which(name)
    if path is None:
        raise RuntimeError("is not installed")
    found.program[name] = path
    found.version[name] = _first_line([path, "--version"])


def _first_line(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    return done.stdout.splitlines()[0].strip()


def _run(command: list[str], folder: Path | None = None) -> None:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if done.returncode:
        raise RuntimeError((done.stderr or done.stdout).strip().splitlines()[-1])
