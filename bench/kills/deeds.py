"""What is asked of copydesk: writes of each kind, and the files before and after, known beforehand.

Of copydesk only calls of tools are used, as its users make them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

Facts = dict[str, Any]
Ask = Callable[..., Facts]
"""A call of a tool by name with its arguments; returns the data of its answer."""


class Step(NamedTuple):
    """A tool and its arguments; those of a plan have its ids."""

    tool: str
    arguments: Facts

    @property
    def plans(self) -> list[str]:
        """The ids of the plans that it applies."""
        one = self.arguments.get("hunk_id")
        return [one] if one else list(self.arguments.get("hunk_ids", ()))


class File(NamedTuple):
    """A file: its bytes as Latin-1, its mode, and all its names, its own among them."""

    text: str
    mode: int
    names: tuple[str, ...]


Tree = dict[str, File]

LINKED = ("d/h2.txt", "h.txt")
_MANY = "".join(f"h {n} of a file with two names\n" for n in range(4, 5_000))
FILES = {
    "a.txt": ("a1\na2\na3\n", 0o640),
    "d/b.txt": ("b1\nb2\nb3\n", 0o644),
    "d/c.txt": ("c1\nc2\nc3", 0o755),
    "h.txt": (f"h1\nh2\nh3\n{_MANY}", 0o600),
}
NEW_MODE = 0o644
"""Of a file that is created, with the umask that `lay` sets."""

STATE = ".copydesk"


def lay(root: Path) -> None:
    """Make a new workspace, with the files as they are at first."""
    os.umask(0o022)
    shutil.rmtree(root, ignore_errors=True)
    for name, (text, mode) in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
        (root / name).chmod(mode)
    os.link(root / LINKED[1], root / LINKED[0])


def tree(root: Path) -> Tree:
    """All files but those of the state folder."""
    inodes: dict[str, int] = {}
    for folder, folders, names in os.walk(root):
        if STATE in folders:
            folders.remove(STATE)
        for name in names:
            path = Path(folder, name)
            inodes[str(path.relative_to(root))] = path.stat().st_ino
    found: Tree = {}
    for name, inode in sorted(inodes.items()):
        path = root / name
        same = tuple(sorted(other for other, number in inodes.items() if number == inode))
        found[name] = File(path.read_bytes().decode("latin-1"), path.stat().st_mode & 0o7777, same)
    return found


Change = Callable[[Tree], None]


def _text(path: str, old: str, new: str) -> Change:
    def change(files: Tree) -> None:
        for name in files[path].names:
            files[name] = files[name]._replace(text=files[name].text.replace(old, new, 1))

    return change


def _gone(path: str) -> Change:
    return lambda files: files.pop(path) and None


def _made(path: str, text: str) -> Change:
    return lambda files: files.update({path: File(text, NEW_MODE, (path,))})


def _moved(path: str, to: str) -> Change:
    return lambda files: files.update({to: files.pop(path)._replace(names=(to,))})


def _mode(path: str, mode: int) -> Change:
    return lambda files: files.update({path: files[path]._replace(mode=mode)})


@dataclass(frozen=True)
class Deed:
    """A write; `ready` makes what it needs before. `changes`: what it does to the files."""

    ready: Callable[[Ask], Step]
    changes: tuple[Change, ...]

    def after(self, before: Tree) -> Tree:
        """The files once it is done."""
        files = dict(before)
        for change in self.changes:
            change(files)
        return files


class Plan(NamedTuple):
    """A tool that makes a plan, its arguments, and what the plan changes."""

    tool: str
    arguments: Facts
    changes: tuple[Change, ...]

    def ids(self, ask: Ask) -> list[str]:
        """Make the plan."""
        found = ask(self.tool, **self.arguments)
        return (
            [row["hunk_id"] for row in found["hunks"]] if "hunks" in found else [found["hunk_id"]]
        )


def _line(path: str, old: str, new: str, number: int = 2) -> Plan:
    arguments = {"path": path, "range": str(number), "content": new}
    return Plan("prepare_file_range_edit", arguments, (_text(path, old, new),))


def _create(path: str, text: str) -> Plan:
    arguments = {"path": path, "content": text}
    return Plan("prepare_file_append", arguments, (_made(path, text),))


def _remove(path: str) -> Plan:
    return Plan("prepare_file_delete", {"path": path}, (_gone(path),))


def _move(path: str, to: str) -> Plan:
    return Plan("prepare_file_move", {"path": path, "to": to}, (_moved(path, to),))


def _chmod(path: str, old: int, new: int) -> Plan:
    diff = f"diff --git a/{path} b/{path}\nold mode {old:o}\nnew mode {new:o}\n"
    mode = FILES[path][1]
    mode = mode | (mode & 0o444) >> 2 if new & 0o111 else mode & ~0o111  # who may read may run it
    return Plan("apply_diff", {"diff": diff}, (_mode(path, mode),))


def _planned(*plans: Plan) -> Deed:
    """The apply of plans, together if they are several."""

    def ready(ask: Ask) -> Step:
        ids = [one for plan in plans for one in plan.ids(ask)]
        if len(ids) == 1:
            return Step("apply_file_modification", {"hunk_id": ids[0]})
        return Step("apply_file_modifications", {"hunk_ids": ids})

    return Deed(ready, tuple(change for plan in plans for change in plan.changes))


_KINDS = (
    _line("a.txt", "a2", "A2"),
    _line("h.txt", "h2", "H2"),
    _create("n/w.txt", "new\n"),
    _remove("d/b.txt"),
    _line("d/c.txt", "c3", "C3\n", 3),
    _move("d/c.txt", "m/c.txt"),
    _chmod("a.txt", 0o100644, 0o100755),
)


def _undoing(ask: Ask) -> Step:
    step = _planned(*_KINDS).ready(ask)
    done = ask(step.tool, **step.arguments)
    arguments = {"edit_id": done["hunks"][0]["edit_id"], "transaction": True}
    return Step("undo_file_modification", arguments)


def _restored(files: Tree) -> None:
    """As `lay` makes them; what was created again is another file, with the old mode."""
    files.clear()
    for name, (text, mode) in FILES.items():
        for each in LINKED if name in LINKED else (name,):
            files[each] = File(text, mode, LINKED if name in LINKED else (name,))


def _at_once(ask: Ask) -> Step:
    arguments = {"path": "a.txt", "range": "2", "content": "A2", "expected_old": "a2"}
    return Step("prepare_file_range_edit", {**arguments, "apply": "auto"})


DEEDS: dict[str, Deed] = {
    "edit": _planned(_line("a.txt", "a2", "A2")),
    "in place": _planned(_line("h.txt", "h2", "H2")),
    "create": _planned(_create("n/e/w.txt", "new\n")),
    "remove": _planned(_remove("d/b.txt")),
    "move": _planned(_move("d/b.txt", "m/o/b.txt")),
    "mode": _planned(_chmod("d/b.txt", 0o100644, 0o100755)),
    "several": _planned(
        _line("a.txt", "a2", "A2"), _line("d/b.txt", "b2", "B2"), _line("d/c.txt", "c3", "C3\n", 3)
    ),
    "all kinds": _planned(*_KINDS),
    "undo": Deed(_undoing, (_restored,)),
    "at once": Deed(_at_once, (_text("a.txt", "a2", "A2"),)),
}
