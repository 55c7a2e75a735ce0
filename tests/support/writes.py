"""Every kind of call that writes, with the files before and after, for the tests of faults."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from copydesk.app.workspace import OpenWorkspace
from support.processes import Facts, outcome

Tree = dict[str, bytes]
Call = tuple[str, Facts]

START: Tree = {
    "a.txt": b"a1\na2\na3\n",
    "d/b.txt": b"b1\nb2\nb3\n",
    "d/c.txt": b"c1\nc2\nc3",
}
LINKS = {"h.txt": "d/h2.txt"}
LINKED = b"h1\nh2\nh3\n"


@dataclass(frozen=True)
class Deed:
    """A call that writes, and the files that it changes; `ready` makes what it needs before.

    `writes`: bytes, and not names alone.
    """

    ready: Callable[[OpenWorkspace], Call]
    after: Tree
    gone: tuple[str, ...] = ()
    writes: bool = True


def planned(opened: OpenWorkspace, tool: str, **arguments: object) -> str:
    found = outcome(opened, tool, **arguments)
    return str(found["hunk_id"])


def apply(tool: str, **arguments: object) -> Callable[[OpenWorkspace], Call]:
    """The apply of one plan."""

    def ready(opened: OpenWorkspace) -> Call:
        return "apply_file_modification", {"hunk_id": planned(opened, tool, **arguments)}

    return ready


def together(*edits: tuple[str, Facts]) -> Callable[[OpenWorkspace], Call]:
    """The apply of several plans at once."""

    def ready(opened: OpenWorkspace) -> Call:
        ids = [planned(opened, tool, **arguments) for tool, arguments in edits]
        return "apply_file_modifications", {"hunk_ids": ids}

    return ready


def directly(tool: str, **arguments: object) -> Callable[[OpenWorkspace], Call]:
    """A tool that writes at once."""
    return lambda opened: (tool, arguments)


def undo(tool: str, **arguments: object) -> Callable[[OpenWorkspace], Call]:
    """The way back of a call that is made first."""

    def ready(opened: OpenWorkspace) -> Call:
        done = outcome(opened, tool, **arguments)
        return "undo_file_modification", {"edit_id": done["edit_id"]}

    return ready


def undo_applied(tool: str, **arguments: object) -> Callable[[OpenWorkspace], Call]:
    """The way back of a plan that is made and applied first."""

    def ready(opened: OpenWorkspace) -> Call:
        hunk_id = planned(opened, tool, **arguments)
        done = outcome(opened, "apply_file_modification", hunk_id=hunk_id)
        return "undo_file_modification", {"edit_id": done["edit_id"]}

    return ready


def line(path: str, number: int, content: str) -> tuple[str, Facts]:
    """The plan to write one line anew."""
    return "prepare_file_range_edit", {"path": path, "range": str(number), "content": content}


def new(path: str) -> tuple[str, Facts]:
    """The plan to create a file."""
    return "prepare_file_append", {"path": path, "content": "new\n"}


A2, H2, B2 = b"a1\nA2\na3\n", b"h1\nH2\nh3\n", b"b1\nB2\nb3\n"


DEEDS = {
    "replace": Deed(apply(*line("a.txt", 2, "A2")[:1], **line("a.txt", 2, "A2")[1]), {"a.txt": A2}),
    "in place": Deed(
        apply("prepare_file_range_edit", path="h.txt", range="2", content="H2"),
        {"h.txt": H2, "d/h2.txt": H2},
    ),
    "create": Deed(directly("create_new_file", path="n.txt", content="new\n"), {"n.txt": b"new\n"}),
    "create deep": Deed(
        directly("create_new_file", path="n/e/w.txt", content="new\n"), {"n/e/w.txt": b"new\n"}
    ),
    "append creates": Deed(
        apply("prepare_file_append", path="n/w.txt", content="new\n"), {"n/w.txt": b"new\n"}
    ),
    "overwrite": Deed(
        directly(
            "overwrite_entire_file",
            path="a.txt",
            content="all\n",
            known_old_total_lines=3,
            known_old_total_bytes=9,
        ),
        {"a.txt": b"all\n"},
    ),
    "undo": Deed(
        undo("prepare_file_insert_after", path="a.txt", anchor="a2", content="x\n", apply="auto"),
        {"a.txt": START["a.txt"]},
    ),
    "remove": Deed(undo("create_new_file", path="n.txt", content="new\n"), {}, ("n.txt",), False),
    "delete": Deed(apply("prepare_file_delete", path="a.txt"), {}, ("a.txt",), False),
    "delete one name": Deed(apply("prepare_file_delete", path="h.txt"), {}, ("h.txt",), False),
    "undo of a deletion": Deed(
        undo_applied("prepare_file_delete", path="h.txt"),
        {"h.txt": LINKED},
        writes=False,
    ),
    "move": Deed(
        apply("prepare_file_move", path="a.txt", to="m/o/ved.txt"),
        {"m/o/ved.txt": START["a.txt"]},
        ("a.txt",),
        writes=False,
    ),
    "undo of a move": Deed(
        undo_applied("prepare_file_move", path="d/b.txt", to="m/b.txt"),
        {"d/b.txt": START["d/b.txt"]},
        ("m/b.txt",),
        writes=False,
    ),
    "three of a kind": Deed(
        together(
            line("a.txt", 2, "A2"),
            ("prepare_file_move", {"path": "a.txt", "to": "m/a.txt"}),
            ("prepare_file_delete", {"path": "d/b.txt"}),
            line("d/c.txt", 3, "C3"),
        ),
        {"m/a.txt": A2, "d/c.txt": b"c1\nc2\nC3\n"},
        ("a.txt", "d/b.txt"),
    ),
    "three files": Deed(
        together(line("a.txt", 2, "A2"), line("d/b.txt", 2, "B2"), line("d/c.txt", 3, "C3")),
        {"a.txt": A2, "d/b.txt": B2, "d/c.txt": b"c1\nc2\nC3\n"},
    ),
    "three kinds": Deed(
        together(
            line("a.txt", 2, "A2"), new("n/w.txt"), line("h.txt", 2, "H2"), line("a.txt", 3, "A3")
        ),
        {"a.txt": b"a1\nA2\nA3\n", "n/w.txt": b"new\n", "h.txt": H2, "d/h2.txt": H2},
    ),
}


def make(root: Path) -> None:
    """The files as they are at first, whatever was there."""
    for path in root.iterdir():
        if path.name != ".copydesk":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name, data in {**START, **dict.fromkeys(LINKS, LINKED)}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    for name, other in LINKS.items():
        os.link(root / name, root / other)


def tree(root: Path) -> Tree:
    """All files and folders with their bytes, but for the state folder."""
    found = (path for path in root.rglob("*") if ".copydesk/" not in f"{path.relative_to(root)}/")
    return {str(p.relative_to(root)): p.read_bytes() if p.is_file() else b"/" for p in found}
