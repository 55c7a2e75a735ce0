"""W8: how long it takes to start."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench.arena import Cell
from bench.field import PROGRAM
from bench.peers.mcp_stdio import first_answer
from bench.results import Section, Table, cell_of, ratio_bar, under_bar
from bench.setting import Setting

HELP = "copydesk --help"
SERVER = "copydesk mcp, to the first answer"
PYTHON = "limit: python -c pass"
BARE = "limit: bare SDK server, to the first answer"


def run(bench: Setting) -> Section:
    """All starts in turn."""
    root = bench.folder("w8")
    root.mkdir()
    bare = str(Path(__file__).parent.parent / "peers" / "bare_server.py")
    starts: dict[str, tuple[str, Callable[[], float]]] = {
        PYTHON: ("limit", lambda: _command([sys.executable, "-c", "pass"], root)),
        HELP: ("copydesk", lambda: _command([PROGRAM, "--help"], root)),
        BARE: ("limit", lambda: first_answer([sys.executable, bare], root)),
        SERVER: ("copydesk", lambda: first_answer([PROGRAM, "mcp", "--root", str(root)], root)),
    }
    cells = {name: Cell(name, kind) for name, (kind, _) in starts.items()}
    for turn in range(bench.scale.starts + 1):
        for name, (_, start) in starts.items():
            seconds = start()
            if turn:  # the first one fills the caches
                cells[name].seconds.append(seconds)
    every = list(cells.values())
    section = Section("W8", "Start-up")
    section.tables.append(Table("wall time", every, PYTHON, memory=False))
    section.bars = [
        under_bar("help under 0.1 s", cell_of(every, HELP), 0.1),
        ratio_bar("mcp within 1.3 × of a bare SDK server", every, SERVER, BARE, 1.3),
    ]
    return section


def _command(command: list[str], folder: Path) -> float:
    began = time.perf_counter()
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, env=dict(os.environ), check=True)
    return time.perf_counter() - began
