"""A folder of real notes: edits, changes of other programs between them, restarts, undo.

    python -m bench.vault --vault DIR [--edits N] [--seed N]

The Markdown files of DIR are copied and committed to git; DIR stays as it is. A first process lists
and searches the copy, cold, and tells its CPU and memory. Then come edits of blocks (replaced,
inserted, deleted, moved), a third of them undone at once, and after each one another program
writes to some file: `sed`, an editor that saves by rename, `git checkout`. Every few edits the
workspace is opened anew. Counted are: ids that a block lost although its text stayed, bytes that
changed outside of the edited block, files that changed though nobody edited them, and undos that
were not exact. Any of these makes the exit code 1; refusals are listed by code.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import PROJECT
from copydesk.app.config import Config
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.notes.tools import notes_of

CONTAINERS = ("l", "i", "b")
REOPEN = 25  # edits between two restarts
SLACK = 6  # bytes of line ends and prefixes beside a block that may come or go with it


class Vault:
    """A copy of the notes, and what went wrong in it."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root, self.draw = root, random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.state = self.stamps()
        self.opened: OpenWorkspace

    @contextmanager
    def open(self) -> Iterator[None]:
        with open_workspace(str(self.root), Config(durability="fast")) as self.opened:
            self.box = self.call("listNotebooks", documents=0)["notebooks"][0]["id"]
            yield

    def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        answer = self.opened.call("local", tool, arguments)
        if answer.is_error:
            self.counts[f"refused: {dict(answer.data)['error']}"] += 1
            return {}
        return dict(answer.data)

    def stamps(self) -> dict[str, tuple[int, ...]]:
        """All notes by path, with what tells that one was written."""
        found: dict[str, tuple[int, ...]] = {}
        waiting = [str(self.root)]
        while waiting:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting += [entry.path] if not entry.name.startswith(".") else []
                    elif entry.name.endswith(".md"):
                        now = entry.stat(follow_symlinks=False)
                        name = entry.path[len(str(self.root)) + 1 :]
                        found[name] = (now.st_ino, now.st_size, now.st_mtime_ns)
        return found

    def blocks(self, document: str) -> list[tuple[str, str, str]]:
        """Id, kind and text of all blocks of a document."""
        store = notes_of(self.opened.desk).reading.store(self.opened.member("local"))
        found, waiting = list[tuple[str, str, str]](), [document]
        while waiting:
            parts = store.children(waiting.pop())
            found += [(one.id, one.kind, one.markdown) for one in parts]
            waiting += [one.id for one in parts if one.kind in CONTAINERS]
        return found

    def fail(self, what: str, path: str, detail: str) -> None:
        self.counts[what] += 1
        self.wrong.append(f"{what}: {path}: {detail}")

    def changed(self, *expected: str) -> None:
        """Nothing but these files may have changed."""
        now = self.stamps()
        paths = {
            path for path in now.keys() | self.state.keys() if now.get(path) != self.state.get(path)
        }
        for path in paths - set(expected):
            self.fail("other file changed", path, "nobody edited it")
        self.state = now

    def edit(self, path: str, document: str, other: str) -> None:
        """One edit of a block of a document."""
        file = self.root / path
        data, blocks = file.read_bytes(), self.blocks(document)
        leaves = [one for one in blocks if one[1] in "ph" and one[2]]
        if not leaves:
            return
        block, kind, text = self.draw.choice(leaves)
        op = self.draw.choice(("REPLACE", "REPLACE", "AFTER", "DELETE", "MOVE"))
        number = self.counts["edits"] = self.counts["edits"] + 1
        mark = re.match(r"#+ ", text) if kind == "h" else None
        new = f"{mark[0] if mark else ''}Words of edit {number}, 第 {number} 次修改。"
        size = len(new.encode())
        diff = f"@@{op}:{block}@@\n{new}\n"
        if op == "DELETE":
            diff = f"@@DELETE:{block}@@\n"
        elif op == "MOVE":
            diff = f"@@MOVE:{block}@@\n@@APPEND:{other}@@\n"
        done = self.call("applyBlockDiff", diff=diff)
        if not done:
            self.changed()
            return
        after = file.read_bytes()
        self.changed(*done.get("paths", ()), path, *(self.paths[other],) * (op == "MOVE"))
        shorter = min(len(data), len(after))
        start = next((at for at in range(shorter) if data[at] != after[at]), shorter)
        room = shorter - start
        tail = next((at for at in range(room) if data[-1 - at] != after[-1 - at]), room)
        if op != "MOVE" and len(data) - start - tail > 4 * len(text.encode()) + SLACK:
            self.fail(
                "other bytes changed", path, f"{op} {len(data) - start - tail} of {len(text)}"
            )
        if op != "MOVE" and len(after) - start - tail > size + 4 * len(text.encode()) + SLACK:
            self.fail("other bytes written", path, f"{op} {len(after) - start - tail} of {size}")
        self.same(path, blocks, self.blocks(document), {block})
        if number % 3 == 0:
            for edit_id in done["edit_ids"][:1]:
                self.call("undo_file_modification", edit_id=edit_id, transaction=True)
            self.changed(path, *(self.paths[other],) * (op == "MOVE"))
            if file.read_bytes() != data or self.blocks(document) != blocks:
                self.fail("undo not exact", path, op)
            self.counts["undone"] += 1

    def same(self, path: str, before: list[Any], after: list[Any], left_out: set[str]) -> None:
        """Blocks whose text is there once, before and after, must have their ids."""
        old, new = ({(kind, text): id_ for id_, kind, text in one} for one in (before, after))
        times = (Counter((kind, text) for _, kind, text in one) for one in (before, after))
        once = [{key for key, count in one.items() if count == 1} for one in times]
        for key in once[0] & once[1]:
            if old[key] != new[key] and old[key] not in left_out and key[0] not in CONTAINERS:
                self.fail("id lost", path, f"{key[0]} {key[1][:60]!r}")
        self.counts["ids compared"] += len(once[0] & once[1])

    def foreign(self, path: str, document: str) -> None:
        """Another program writes to a note."""
        file, before = self.root / path, self.blocks(document)
        text = file.read_bytes().decode("utf-8", "surrogateescape")
        how = self.draw.choice(("sed", "rename", "checkout"))
        if how == "sed":
            words = re.findall(r"[a-z]{5,}", text)
            if words:
                word = self.draw.choice(words)
                subprocess.run(["sed", "-i", f"s/{word}/{word}x/", str(file)], check=True)
        elif how == "rename":
            parts = text.split("\n\n")
            parts.insert(
                self.draw.randint(len(parts) // 2, len(parts)), "A paragraph of an editor."
            )
            beside = file.with_name(".beside")
            beside.write_bytes("\n\n".join(parts).encode("utf-8", "surrogateescape"))
            beside.replace(file)
        else:
            subprocess.run(["git", "-C", str(self.root), "checkout", "-q", "--", path], check=True)
        self.counts[f"foreign: {how}"] += 1
        self.changed(path)
        self.same(path, before, self.blocks(document), set())

    def run(self, edits: int) -> None:
        while self.counts["edits"] < edits:
            with self.open():
                self.counts["opened"] += 1
                reading, member = notes_of(self.opened.desk).reading, self.opened.member("local")
                listed = reading.store(member).documents(self.box, 100_000)
                self.paths = {one.id: one.path for one in listed}
                documents = sorted(self.paths, key=self.paths.__getitem__)
                until = min(self.counts["edits"] + REOPEN, edits)
                for _ in range(4 * REOPEN):
                    if self.counts["edits"] >= until:
                        break
                    document, other = self.draw.sample(documents, 2)
                    self.edit(self.paths[document], document, other)
                    again = self.draw.choice((document, other))
                    self.foreign(self.paths[again], again)


def measured(root: str) -> dict[str, float]:
    """What the first process of a folder takes: seconds of CPU, and MB at most."""
    import resource

    def told() -> float:
        return round(time.process_time() - began, 3)

    found = dict[str, float]()
    with open_workspace(root, Config(durability="fast")) as opened:
        began = time.process_time()
        opened.call("local", "listNotebooks", {})
        found["first list"] = told()
        opened.call("local", "searchBlocks", {"query": "settings sync"})
        found["first list and search"] = told()
        while dict(opened.call("local", "searchBlocks", {"query": "no such words"}).data).get(
            "indexed"
        ):
            time.sleep(1)
        found["all of it"] = told()
        began = time.process_time()
        opened.call("local", "searchBlocks", {"query": "settings sync"})
        found["search, warm"] = told()
        found["MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--vault", type=Path, required=True)
    parser.add_argument("--edits", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--measure", action="store_true", help="of DIR itself; used within")
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measured(str(given.vault))))
        return 0
    with tempfile.TemporaryDirectory(prefix="copydesk-vault-") as folder:
        root = Path(folder)
        for path in sorted(given.vault.rglob("*.md")):
            target = root / path.relative_to(given.vault)
            if path.is_file() and "/." not in f"/{path.relative_to(given.vault)}":
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "notes"]):
            who = ["-c", "user.name=bench", "-c", "user.email=bench@example.org"]
            subprocess.run(["git", "-C", folder, *who, *words], check=True)
        size = sum(path.stat().st_size for path in root.rglob("*.md"))
        vault = Vault(root, given.seed)
        print(f"{len(vault.state):,} files, {size / 1e6:.1f} MB")
        command = [sys.executable, "-m", "bench.vault", "--vault", folder, "--measure"]
        first = subprocess.run(command, cwd=PROJECT, check=True, capture_output=True)
        print(first.stdout.decode().strip())
        began = time.process_time()
        vault.run(given.edits)
        print(
            f"{time.process_time() - began:.0f} s of CPU for {dict(sorted(vault.counts.items()))}"
        )
        for line in vault.wrong[:50]:
            print(line)
        return bool(vault.wrong)


if __name__ == "__main__":
    sys.exit(main())
