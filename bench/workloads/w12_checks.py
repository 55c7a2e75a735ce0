"""W12: the built-in checks of an edit in a file of 1,000 lines."""

from __future__ import annotations

import json
import sysconfig
import time
from pathlib import Path

from bench.arena import Cell
from bench.results import Section, Table, cell_of, under_bar
from bench.setting import Setting
from copydesk.desk.gates import Checks, Edited
from copydesk.store.checks import missing_parsers, suffix_of
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot

LINES = 1_000
SECONDS = 0.01
TIMES = 30


def run(bench: Setting) -> Section:
    """All languages in turn; what was found in the same bytes before is not known."""
    missing = missing_parsers()
    texts = {name: text for name, text in _texts().items() if suffix_of(_path(name)) not in missing}
    cells = {name: Cell(name, "copydesk") for name in texts}
    for turn in range(TIMES + 1):
        for name, text in texts.items():
            edited = _edited(name, text)
            began = time.perf_counter()
            found = Checks().judge(edited)
            seconds = time.perf_counter() - began
            assert found == (), f"{name} is right, and was checked"
            if turn:  # the first one fills the caches
                cells[name].seconds.append(seconds)
    every = list(cells.values())
    section = Section("W12", "Checks before a write")
    section.notes.append(f"One line of {LINES:,} is changed. What is found is kept by digest.")
    section.tables.append(Table("built in", every, memory=False))
    section.bars = [under_bar(f"{n} under 10 ms", cell_of(every, n), SECONDS) for n in texts]
    return section


def _texts() -> dict[str, str]:
    """A thousand lines of each language, of the standard library where it is Python."""
    module = (Path(sysconfig.get_path("stdlib")) / "inspect.py").read_text("utf-8")
    return {
        "inspect.py": _whole(module),
        "data.json": json.dumps([{"name": f"n{i}", "at": i} for i in range(LINES // 4)], indent=1),
        "data.toml": "".join(f'key{i} = "value {i}"\n' for i in range(LINES)),
        "data.xml": "<all>\n" + '<one at="1">text</one>\n' * (LINES - 2) + "</all>\n",
        "data.yaml": "".join(f"key{i}: value {i}\n" for i in range(LINES)),
        "main.js": "".join(f"const v{i} = f({i}, 'text');\n" for i in range(LINES)),
    }


def _whole(module: str) -> str:
    """The first definitions of a module, as many lines as there should be or a few less."""
    start = "".join(module.splitlines(keepends=True)[:LINES])
    return start[: max(start.rfind("\ndef "), start.rfind("\nclass ")) + 1]


def _path(name: str) -> RelPath:
    return RelPath.parse(name)


def _edited(name: str, text: str) -> Edited:
    """The file with a blank more at the end of its first line."""
    base = Snapshot.of(text.encode())
    at = text.encode().index(b"\n")
    change = ChangeSet.of(base.size, [Edit(at, at, b" ")])
    path = _path(name)
    return Edited(path, path, base, change, created=False, text=lambda: base.edited(change))
