"""The change view on real histories: `python -m bench.changes --history DIR [--edits 500]`.

The versions of files in a git history are an agent's edits, in tasks of twenty; between them a
person writes lines of its own. A model that knows each line by itself says what the net view must
be, whatever copydesk thinks: the baseline is what is left of the first version and of the person's
lines. Then hunks drawn at random are undone and kept. Last, the view of many open hunks is timed.
Exit status: 0 all is as the model says; 1 it is not.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from bench import say
from copydesk.app.config import Config
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.desk.changes import Changes, FileChanges, Selection
from copydesk.desk.member import Member
from copydesk.desk.outcome import Applied
from copydesk.edit.kinds.patch import patch_of
from copydesk.edit.request import Request
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot

_PER_TASK = 20
_LARGEST = 200_000


@dataclass(slots=True)
class Line:
    """One line: its text, whether the agent wrote it, the person did, and whether it is there."""

    text: bytes
    by: str = "base"
    is_there: bool = True


def write(desk: OpenWorkspace, member: Member, request: Request) -> None:
    """Plan and apply an edit."""
    plan = desk.desk.prepare(member, request.tool, request).plan
    outcome = desk.desk.apply(member, "apply_file_modification", plan.id)
    assert isinstance(outcome, Applied), outcome


def versions(history: Path, path: str) -> Iterator[bytes]:
    """Yield the contents of a file, oldest first, along the first parents."""
    words = ["git", "-C", str(history), "log", "--first-parent", "--reverse", "--format=%H"]
    commits = subprocess.run([*words, "HEAD", "--", path], capture_output=True, check=True).stdout
    last = b""
    for commit in commits.decode().split():
        show = ["git", "-C", str(history), "show", f"{commit}:{path}"]
        found = subprocess.run(show, capture_output=True)
        text = found.stdout
        if (
            found.returncode == 0
            and b"\0" not in text
            and 0 < len(text) < _LARGEST
            and text != last
        ):
            last = text
            yield text if text.endswith(b"\n") else text + b"\n"


class Story:
    """One file: the agent's versions and the person's lines, in the desk and in the model."""

    def __init__(self, desk: OpenWorkspace, name: str, first: bytes, draw: random.Random) -> None:
        self._desk, self._name, self._draw = desk, name, draw
        self.path = RelPath.parse(name)
        self.lines = [Line(line) for line in first.splitlines(keepends=True)]
        self.file.write_bytes(first)

    @property
    def file(self) -> Path:
        return Path(self._desk.root, self._name)

    @property
    def now(self) -> bytes:
        return b"".join(line.text for line in self.lines if line.is_there)

    @property
    def base(self) -> bytes:
        """What there would be without the agent."""
        return b"".join(line.text for line in self.lines if line.by != "agent")

    def take(self, version: bytes, task: str) -> None:
        """The agent makes its lines those of a version; the person's stay among them."""
        own = [line for line in self.lines if line.is_there and line.by != "person"]
        new = version.splitlines(keepends=True)
        old = [line.text for line in own]
        base = Snapshot.of(self.now)
        for how, start, stop, low, high in reversed(
            SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        ):
            if how == "equal":
                continue
            for line in own[start:stop]:
                line.is_there = False
            at = len(self.lines)
            if start < len(own):
                at = next(i for i, line in enumerate(self.lines) if line is own[start])
            elif own:
                at = 1 + next(i for i, line in enumerate(self.lines) if line is own[-1])
            self.lines[at:at] = [Line(text, "agent") for text in new[low:high]]
        change = line_change(base.data, self.now)
        member = self._desk.member("local").because("", task)
        write(self._desk, member, patch_of(self.path, base, change, created=False))

    def person_writes(self, word: str) -> None:
        """Some lines of the person's own come anywhere, and one that is not the agent's goes."""
        for _ in range(self._draw.randint(1, 2)):
            self.lines.insert(
                self._draw.randint(0, len(self.lines)), Line(f"{word}\n".encode(), "person")
            )
        theirs = [line for line in self.lines if line.is_there and line.by == "person"]
        if len(theirs) > 4:
            self.lines = [line for line in self.lines if line is not self._draw.choice(theirs)]
        self.file.write_bytes(self.now)


def line_change(old: bytes, new: bytes) -> ChangeSet:
    """The change of whole lines that difflib finds."""
    ours, theirs = old.splitlines(keepends=True), new.splitlines(keepends=True)
    starts = [0]
    for line in ours:
        starts.append(starts[-1] + len(line))
    edits = [
        Edit(starts[a], starts[b], b"".join(theirs[c:d]))
        for how, a, b, c, d in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes()
        if how != "equal"
    ]
    return ChangeSet.of(len(old), edits)


def played(
    desk: OpenWorkspace, history: Path, most: int, draw: random.Random
) -> tuple[int, list[Story]]:
    listed = subprocess.run(
        ["git", "-C", str(history), "ls-tree", "-r", "--name-only", "HEAD"],
        capture_output=True,
        check=True,
    )
    names = [name for name in listed.stdout.decode().splitlines() if '"' not in name]
    draw.shuffle(names)
    stories: list[Story] = []
    count = 0
    for index, name in enumerate(names):
        found = list(versions(history, name))[:25]
        if len(found) < 3:
            continue
        story = Story(desk, f"{index}-{Path(name).name}", found[0], draw)
        stories.append(story)
        for version in found[1:]:
            if draw.random() < 0.5:
                story.person_writes(f"person {count} {index}")
            story.take(version, f"task {count // _PER_TASK}")
            count += 1
            if count >= most:
                return count, stories
    return count, stories


def apart(text: bytes) -> tuple[list[bytes], list[bytes]]:
    """The person's lines, and the others: where one took out what was, either may come first."""
    lines = text.splitlines()
    own = [line for line in lines if line.startswith(b"person ")]
    return own, [line for line in lines if not line.startswith(b"person ")]


def differing(changes: Changes, desk: OpenWorkspace, stories: list[Story]) -> list[str]:
    """The files whose view is not what the model says."""
    seen = {file.path: file for file in changes.view(desk.person("local"), Selection(since_ms=1))}
    wrong: list[str] = []
    for story in stories:
        file = seen.get(story.path)
        base = story.now if file is None else file.base.data
        if apart(base) != apart(story.base):
            wrong.append(str(story.path))
        elif file is not None and file.change.apply(base) != story.now:
            wrong.append(f"{story.path} (now)")
    return wrong


def undone(
    changes: Changes, desk: OpenWorkspace, files: tuple[FileChanges, ...], draw: random.Random
) -> list[str]:
    """Undo half of the hunks, keep the others, and compare the bytes."""
    person, everything = desk.person("local"), Selection(since_ms=1)
    wrong: list[str] = []
    chosen: set[str] = set()
    expected: dict[RelPath, bytes] = {}
    for file in files:
        text = file.now.data
        for hunk in reversed(file.hunks):
            if hunk.kind == "text" and not hunk.touched_by and draw.random() < 0.5:
                chosen.add(hunk.id)
                text = text[: hunk.span[0]] + b"".join(hunk.old) + text[hunk.span[1] :]
        expected[file.path] = text
    outcome = changes.undo(person, everything, chosen)
    wrong += (f"{hunk.path}: {refusal}" for hunk, refusal in outcome.refused)
    for path, text in expected.items():
        if Path(desk.root, *path.parts).read_bytes() != text:
            wrong.append(f"{path}: other bytes after the undo")
    left = {hunk.id for file in changes.view(person, everything) for hunk in file.hunks}
    kept = sum(len(file.hunks) for file in files) - len(chosen)
    if len(left) != kept:
        wrong.append(f"{len(left)} hunks are open, not {kept}")
    changes.keep(person, everything)
    if changes.view(person, everything):
        wrong.append("something is open after all was kept")
    return wrong


def timed() -> tuple[float, float]:
    """Seconds of CPU for the list of 1,000 open hunks, and for a task of 100 files."""
    with tempfile.TemporaryDirectory() as folder:
        for index in range(100):
            Path(folder, f"{index}.txt").write_text("".join(f"line {n}\n" for n in range(200)))
        with open_workspace(folder, Config(durability="fast")) as desk:
            member = desk.member("local").because("", "task")
            for index in range(100):
                base = Snapshot.of(Path(folder, f"{index}.txt").read_bytes())
                new = [b"line %d\n" % n if n % 20 else b"new %d\n" % n for n in range(200)]
                change = line_change(base.data, b"".join(new))
                path = RelPath.parse(f"{index}.txt")
                write(desk, member, patch_of(path, base, change, created=False))
            person, changes = desk.person("local"), desk.desk.changes
            took: list[float] = []
            for look in (
                lambda: changes.tasks(person),
                lambda: changes.view(person, Selection(task="task")),
            ):
                began = time.process_time()
                look()
                took.append(time.process_time() - began)
    return took[0], took[1]


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.changes", description=__doc__)
    parser.add_argument("--history", type=Path, required=True, help="a git repository")
    parser.add_argument("--edits", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(words)
    draw = random.Random(options.seed)
    with (
        tempfile.TemporaryDirectory() as folder,
        open_workspace(folder, Config(durability="fast")) as desk,
    ):
        changes = desk.desk.changes
        count, stories = played(desk, options.history, options.edits, draw)
        wrong = differing(changes, desk, stories)
        say(f"{count} edits of {len(stories)} files: {len(stories) - len(wrong)} as the model says")
        files = changes.view(desk.person("local"), Selection(since_ms=1))
        open_hunks = sum(len(file.hunks) for file in files)
        wrong += undone(changes, desk, files, draw)
        say(f"{open_hunks} hunks, half of them undone, the others kept: {len(wrong)} findings")
    listed, task = timed()
    say(f"1,000 open hunks: list {listed:.2f} s of CPU; a task of 100 files {task:.2f} s")
    for each in wrong:
        say(each)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
