"""W9: folders of notes: 2,100 files cold and warm, and one document of 5 MB.

Seconds are those of the processor, of all threads: an index is made beside the answers. Each
figure is of a process of its own, which calls the tools as an agent does.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import PROJECT
from bench.arena import Cell
from bench.contestant import memory_kb
from bench.data import SEED
from bench.results import Bar, Section, Table, cell_of, under_bar
from bench.setting import Setting

FILES, BYTES, LARGE_BYTES = 2_100, 14_600_000, 5_000_000
MOST_MB, MOST_TIMES = 150, 2
LISTED, FOUND = "cold: listNotebooks", "cold: the first searchBlocks"
COLD, WARM = "cold: all of it, until the last file is indexed", "warm: open, list and search"
BLOCK = "warm: one block"
EDIT, READ = "5 MB: one block edited", "5 MB: the first read after it"


def run(bench: Setting) -> Section:
    """All figures, each of several processes."""
    home = bench.folder("w9")
    notes, large = home / "notes", home / "large"
    size = write_notes(notes)
    write_large(large)
    cells = {
        name: Cell(name, "copydesk") for name in (LISTED, FOUND, COLD, WARM, BLOCK, EDIT, READ)
    }
    states: list[int] = []
    for _ in range(bench.scale.races):
        shutil.rmtree(notes / ".copydesk", ignore_errors=True)
        for what, root in (("cold", notes), ("warm", notes), ("large", large)):
            _add(cells, _child(what, root))
        states.append(size_of(notes / ".copydesk"))
    every = list(cells.values())
    section = Section("W9", "Folders of notes")
    section.notes.append(
        f"{FILES:,} files of {size / 1e6:.1f} MB in all, made of the sections of this project's "
        "own pages; and a document of 5 MB. CPU of the process with all its threads."
    )
    section.tables.append(Table("seconds of the processor", every))
    peak = max(cell.peak_mb or 0 for cell in (cells[COLD], cells[WARM]))
    times = max(states) / size
    section.bars = [
        under_bar("2,100 files cold under 6 s of CPU", cell_of(every, COLD), 6),
        under_bar("the first list at once (under 0.5 s)", cell_of(every, LISTED), 0.5),
        under_bar("warm under 0.5 s", cell_of(every, WARM), 0.5),
        under_bar("a block warm under 20 ms", cell_of(every, BLOCK), 0.02),
        Bar(f"memory under {MOST_MB} MB", f"{peak:.0f} MB", peak < MOST_MB),
        Bar(f"state at most {MOST_TIMES} × the notes", f"{times:.2f} ×", times <= MOST_TIMES),
        under_bar("5 MB: the first read after an edit under 0.1 s", cell_of(every, READ), 0.1),
    ]
    return section


def write_notes(root: Path, files: int = FILES, size: int = BYTES) -> int:
    """Files of Markdown in folders; their bytes together."""
    draw = random.Random(SEED)
    parts = list(_sections())
    made = 0
    for number in range(files):
        path = root / f"part {number % 40}" / f"note {number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_text(draw, parts, size // files, number), "utf-8")
        made += path.stat().st_size
    return made


def write_large(root: Path, size: int = LARGE_BYTES) -> None:
    """One document."""
    root.mkdir(parents=True)
    text = _text(random.Random(SEED), list(_sections()), size, 0)
    (root / "Large.md").write_text(text, "utf-8")


def size_of(folder: Path) -> int:
    """The bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _sections() -> Iterator[str]:
    """The sections of the project's pages, each from its heading on."""
    for folder in ("docs", "src/copydesk/app/manuals"):
        for path in sorted((PROJECT / folder).rglob("*.md")):
            text = path.read_text("utf-8")
            if "````" not in text and "~~~" not in text:
                yield from (
                    part for part in re.split(r"\n(?=## )", text) if part.count("```") % 2 == 0
                )


def _text(draw: random.Random, parts: list[str], size: int, number: int) -> str:
    text = f"# Note {number}\n"
    while len(text.encode()) < size:
        text += (
            f"\n{draw.choice(parts).strip()}\n\nNumber {draw.getrandbits(40):x} of note {number}.\n"
        )
    return text


def _add(cells: dict[str, Cell], found: dict[str, tuple[float, int]]) -> None:
    for name, (seconds, peak) in found.items():
        cells[name].seconds.append(seconds)
        cells[name].peak_kb.append(peak)
        cells[name].idle_kb.append(0)


def _child(what: str, root: Path) -> dict[str, tuple[float, int]]:
    """The figures of one process."""
    command = [sys.executable, "-m", "bench.workloads.w9_notes", what, str(root)]
    done = subprocess.run(
        command, cwd=PROJECT, stdout=subprocess.PIPE, env=dict(os.environ), check=True
    )
    return dict(json.loads(done.stdout))


def _measure(what: str, root: str) -> dict[str, tuple[float, int]]:
    """What `_child` runs."""
    from copydesk.app.config import Config
    from copydesk.app.workspace import open_workspace

    found: dict[str, tuple[float, int]] = {}
    with open_workspace(root, Config(durability="fast", toolsets=("notes",))) as opened:

        def call(tool: str, **arguments: object) -> Any:
            answer = opened.call("local", tool, arguments)
            if answer.is_error:
                raise RuntimeError(str(answer.text))
            return answer.data

        began = last = time.process_time()

        def told(name: str, start: float) -> None:
            nonlocal last
            last = time.process_time()
            found[name] = (last - start, _peak_kb())

        listed = call("listNotebooks")["notebooks"][0]["documents"]
        if what == "cold":
            told(LISTED, began)
            call("searchBlocks", query="journal lock")
            told(FOUND, last)
            while "indexed" in call("searchBlocks", query="no such words"):
                time.sleep(1)
            call("searchBlocks", query="journal lock")
            told(COLD, began)
        elif what == "warm":
            block = call("searchBlocks", query="journal lock")["blocks"][0]["id"]
            told(WARM, began)
            call("getBlockContent", blockId=block)
            start = time.process_time()
            call("getBlockContent", blockId=block)
            told(BLOCK, start)
        else:
            page = call("getBlockContent", blockId=listed[0]["id"], slice="100:160")["content"]
            block, *_ = re.findall(r"@@(\S+)@@Paragraph\n", page)
            call("getBlockContent", blockId=block)
            start = time.process_time()
            call("applyBlockDiff", diff=f"@@REPLACE:{block}@@\nother words\n", dropAnchors=True)
            told(EDIT, start)
            call("getBlockContent", blockId=block)
            told(READ, last)
    return found


def _peak_kb() -> int:
    """The most memory that this program has held; `ru_maxrss` counts what started it, too."""
    return memory_kb(os.getpid(), "VmHWM")


if __name__ == "__main__":
    print(json.dumps(_measure(*sys.argv[1:3])))
