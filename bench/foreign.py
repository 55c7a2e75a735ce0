"""Thousands of writes by real programs beside copydesk's own: `python -m bench.foreign`.

Shell `>>`, `dd`, `sed -i`, `perl -i`, `cp` over a file, `mv` onto it, and handles that a shell and
a Python keep open, against edits, groups, moves, removals, changes of mode, and undo. Each file has
programs of one kind. Nobody here calls copydesk but its clients, forked processes that log what
they asked and what was answered. Exit status: 0 nothing lost, torn or false; 1 findings.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench import say

Facts = dict[str, Any]

BASE: Final = ("above", "anchor", "below")
_TOKEN: Final = re.compile(r"\b[FO]-[0-9]+-[0-9]+\b")
_LATE_SECONDS: Final = 0.25
"""So long after an exchange the old file is looked at; what comes later is told beforehand."""

PROGRAMS: Final = {
    "sh >>": 'echo "$2" >> "$1"',
    "dd": 'echo "$2" | dd of="$1" oflag=append conv=notrunc,nocreat status=none',
    "sed -i": 'sed -i "\\$a $2" "$1"',
    "perl -i": 'L="$2" perl -i -pe \'$_ = "$ENV{L}\\n$_" if $. == 1; END { $? = !$. }\' "$1"',
    "mv": 'cp "$1" "$1~" && echo "$2" >> "$1~" && mv "$1~" "$1"',
    "cp": 'cp "$1" "$1~" && echo "$2" >> "$1~" && cp "$1~" "$1"',
}
"""Shell commands that write the line `$2` to the file `$1`."""

_PYTHON = """
import sys
with open(sys.argv[1], "a") as file:
    for line in sys.stdin:
        file.write(line)
        file.flush()
        print("written", flush=True)
"""
HANDLES: Final = {
    "sh handle": [
        "sh",
        "-c",
        'exec 3>>"$1"; while read l; do echo "$l" >&3; echo written; done',
        "sh",
    ],
    "python handle": [sys.executable, "-S", "-c", _PYTHON],
}
"""Programs that keep the file open, and write each line that they are told."""

APPENDING: Final = ("sh >>", "dd", *HANDLES)
"""Those that read nothing, and so never write an old text over a new one."""


class Line(NamedTuple):
    """A line that a program wrote: from when to when, and since when it had the file open."""

    token: str
    path: str
    how: str
    began: float
    ended: float
    opened: float


class Deed(NamedTuple):
    """A call of a client: what it did to which token, when, and the answer."""

    what: str
    path: str
    token: str
    began: float
    ended: float
    answer: Facts

    @property
    def ok(self) -> bool:
        return self.answer.get("status") == "ok"


# The other programs


class Programs(threading.Thread):
    """The programs that write one file, one after the other."""

    def __init__(self, number: int, root: Path, path: str, how: str, count: int) -> None:
        super().__init__(daemon=True)
        self.number, self.root, self.path, self.how, self.count = number, root, path, how, count
        self.lines: list[Line] = []
        self.failed = 0
        self._random = random.Random(number)

    def run(self) -> None:
        while len(self.lines) < self.count and self.failed < 20 * self.count:
            if self.how in HANDLES:
                self._hold()
            else:
                self._write()
            time.sleep(self._random.uniform(0, 0.25))

    def _token(self) -> str:
        return f"F-{self.number}-{len(self.lines) + self.failed}"

    def _write(self) -> None:
        token, began = self._token(), time.monotonic()
        words = ["sh", "-c", PROGRAMS[self.how], "sh", str(self.root / self.path)]
        done = subprocess.run([*words, f"{token} of another"], stderr=subprocess.DEVNULL)
        self._note(token, began, began, is_written=not done.returncode)

    def _hold(self) -> None:
        """Open the file, write some lines over a while, and close it."""
        opened = time.monotonic()
        path = self.root / self.path
        if not path.exists():
            time.sleep(0.005)
            return
        words = [*HANDLES[self.how], str(path)]
        with subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        ) as program:
            assert program.stdin is not None
            assert program.stdout is not None
            for _ in range(self._random.choice((3, 20, 60))):
                token, began = self._token(), time.monotonic()
                program.stdin.write(f"{token} of another\n")
                said = program.stdout.readline()
                self._note(token, began, opened, is_written=said == "written\n")
                time.sleep(self._random.uniform(0, 0.02))

    def _note(self, token: str, began: float, opened: float, *, is_written: bool) -> None:
        if is_written:
            ended = time.monotonic()
            self.lines.append(Line(token, self.path, self.how, began, ended, opened))
        else:
            self.failed += 1


# The clients of copydesk


class Client:
    """A process with some files to itself among the clients; it logs each call and its answer."""

    def __init__(
        self, number: int, root: Path, log: Path, paths: Sequence[str], stop: Path
    ) -> None:
        self.number, self.root, self.paths, self.stop = number, root, paths, stop
        self._log = log.open("a", encoding="utf-8")
        self._random = random.Random(number)
        self._count = 0
        self._ask: Callable[..., Facts]

    def run(self, settings: Facts) -> None:
        """Work until there is the stop file, then wait for what is looked at late."""
        from copydesk.app.config import Config
        from copydesk.app.workspace import open_workspace

        with open_workspace(str(self.root), Config(**settings)) as opened:
            self._ask = lambda tool, **given: dict(opened.call("local", tool, given).data)
            acts = (self._append, self._insert, self._twice, self._undone, self._moved, self._mode)
            while not self.stop.exists():
                act = self._random.choices((*acts, self._removed), (5, 5, 3, 4, 2, 2, 1))[0]
                act(self._random.choice(self.paths))
            time.sleep(2 * _LATE_SECONDS)
            self._call("look", "", "", "list_pending")

    def _call(self, what: str, path: str, token: str, tool: str, /, **given: object) -> Facts:
        began = time.monotonic()
        self._write({"asked": what, "path": path, "token": token, "began": began})
        answer = self._ask(tool, **given)
        deed = Deed(what, path, token, began, time.monotonic(), answer)
        self._write(deed._asdict())
        return answer

    def _write(self, facts: Facts) -> None:
        self._log.write(json.dumps(facts) + "\n")
        self._log.flush()

    def _token(self) -> str:
        self._count += 1
        return f"O-{self.number}-{self._count}"

    def _append(self, path: str) -> Facts:
        token = self._token()
        given = {"path": path, "content": f"{token} of ours\n", "apply": "auto"}
        return self._call("edit", path, token, "prepare_file_append", **given)

    def _insert(self, path: str) -> Facts:
        token = self._token()
        given = {"path": path, "anchor": "anchor", "content": f"{token} of ours\n"}
        plan = self._call("plan", path, "", "prepare_file_insert_after", **given)
        if "hunk_id" not in plan:
            return plan
        return self._call("edit", path, token, "apply_file_modification", hunk_id=plan["hunk_id"])

    def _twice(self, path: str) -> None:
        """Two files, all or none."""
        other = self._random.choice([one for one in self.paths if one != path])
        token = self._token()
        plans: list[str] = []
        for one in (path, other):
            given = {"path": one, "content": f"{token} of ours\n"}
            plan = self._call("plan", one, "", "prepare_file_append", **given)
            plans += [plan["hunk_id"]] if "hunk_id" in plan else []
        if len(plans) == 2:
            self._call("edit", f"{path} {other}", token, "apply_file_modifications", hunk_ids=plans)

    def _undone(self, path: str) -> None:
        done = self._append(path)
        if done.get("edit_id"):
            token = f"O-{self.number}-{self._count}"
            self._call("undo", path, token, "undo_file_modification", edit_id=done["edit_id"])

    def _back(self, path: str, plan: Facts) -> None:
        """Apply a plan, and take it back."""
        if "hunk_id" not in plan:
            return
        done = self._call("apply", path, "", "apply_file_modification", hunk_id=plan["hunk_id"])
        if done.get("edit_id"):
            time.sleep(self._random.uniform(0, 0.01))
            self._call("back", path, "", "undo_file_modification", edit_id=done["edit_id"])

    def _moved(self, path: str) -> None:
        to = f"moved/{path}-{self._token()}"
        self._back(path, self._call("plan", path, "", "prepare_file_move", path=path, to=to))

    def _mode(self, path: str) -> None:
        with suppress(OSError):
            mode = os.stat(self.root / path).st_mode & 0o777
            new = mode ^ 0o111
            diff = f"diff --git a/{path} b/{path}\nold mode 100{mode:o}\nnew mode 100{new:o}\n"
            told = self._call("plan", path, "", "apply_diff", diff=diff)
            self._back(path, next(iter(told.get("hunks", ())), {}))

    def _removed(self, path: str) -> None:
        self._back(path, self._call("plan", path, "", "prepare_file_delete", path=path))


def started(client: Client, settings: Facts) -> int:
    """Let a client work in a process of its own."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        client.run(settings)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


# The judge


@dataclass
class Found:
    """What is known at the end, and what is wrong."""

    lines: list[Line]
    deeds: list[Deed]
    files: dict[str, str]
    told: set[str] = field(default_factory=set[str])
    """Tokens in the texts of edits that stand: what was removed, or came from another program."""

    base: Counter[str] = field(default_factory=Counter[str])
    edits: list[Facts] = field(default_factory=list[Facts])
    wrong: list[str] = field(default_factory=list[str])
    by_word: int = 0

    def judge(self) -> None:
        there = Counter(token for text in self.files.values() for token in _TOKEN.findall(text))
        self._foreign(there)
        self._own()
        self._whole()
        told = Counter(path for deed in self.deeds for path in deed.answer.get("paths", ()))
        for edit in self.edits:
            told[edit["path"]] -= edit["state"] == "unsure"
            if edit["state"] == "open" or told[edit["path"]] < 0:
                self.wrong.append(f"edit {edit['edit_id']} of {edit['path']} is {edit['state']}")

    def _foreign(self, there: Counter[str]) -> None:
        """Each line of another program is in a file or in a text that is named."""
        warned: dict[str, list[Deed]] = defaultdict(list)
        for deed in self.deeds:
            for path in deed.answer.get("open_elsewhere", ()):
                warned[path].append(deed)
        for line in self.lines:
            if there[line.token] or line.token in self.told:
                continue
            late = [
                deed
                for deed in warned[line.path]
                if line.opened < deed.ended and deed.began + _LATE_SECONDS < line.ended
            ]
            if line.how in HANDLES and late:
                self.by_word += 1
            else:
                self.wrong.append(f"lost: {line.token} ({line.how}) at {line.began:.3f}")

    def _own(self) -> None:
        """What was answered is so, unless another program wrote a text that it had read before."""
        undone = {deed.token: deed for deed in self.deeds if deed.what == "undo" and deed.ok}
        saves = defaultdict[str, list[Line]](list)
        for line in self.lines:
            if line.how not in APPENDING:
                saves[line.path].append(line)
        for deed in self.deeds:
            if deed.what != "edit":
                continue
            last = undone.get(deed.token, deed)
            wanted = deed.ok and deed.token not in undone
            wanted = wanted and deed.answer.get("auto_apply") != "declined"
            for path in deed.path.split():
                overlapped = any(
                    line.began < last.ended and deed.began < line.ended for line in saves[path]
                )
                times = [
                    text.count(f"{deed.token} ")
                    for name, text in self.files.items()
                    if name == path or name.startswith(f"moved/{path}-")
                ]
                is_there = any(times) or (wanted and deed.token in self.told)
                words = f"{deed.token} in {path}: {times}, {deed.what} {deed.answer.get('summary')}"
                if max(times, default=0) > 1 and not overlapped:
                    self.wrong.append(f"twice: {words}")
                is_sure = not overlapped and not deed.answer.get("paths")
                if is_there != wanted and is_sure:
                    self.wrong.append(f"{'lost' if wanted else 'false'}: {words}")

    def _whole(self) -> None:
        """Each line is one that somebody wrote."""
        good = re.compile(r"F-[0-9]+-[0-9]+ of another|O-[0-9]+-[0-9]+ of ours|" + "|".join(BASE))
        for path, text in self.files.items():
            for row in text.split("\n"):
                if row and not good.fullmatch(row):
                    self.wrong.append(f"torn: {path} has {row!r}")


def _edits(root: Path) -> list[Facts]:
    """The journal as the library tells it."""
    from copydesk import Desk

    found: list[Facts] = []
    with Desk(root, shared=True) as desk:
        before: int | None = None
        while page := desk.history(most=1_000, before=before):
            for one in page:
                facts = {"edit_id": one.edit_id, "path": str(one.path), "state": one.state}
                facts |= {"tool": one.tool, "undoes": one.undoes, "diff": one.diff.decode()}
                found.append(facts)
            before = page[-1].edit_id
    return found


def _told(edits: Iterable[Facts]) -> set[str]:
    """The tokens that edits removed which stand: of ours, or the texts of other programs."""
    rows = list(edits)
    undone = {edit["undoes"] for edit in rows if edit["state"] == "done"}
    return {
        token
        for edit in rows
        if edit["state"] == "done" and edit["edit_id"] not in undone
        for row in edit["diff"].split("\n")
        if row.startswith("-")
        for token in _TOKEN.findall(row)
    }


def measure(root: Path, count: int, each: int, clients: int, settings: Facts) -> Found:
    """So many writes of other programs, to `each` files of every kind, beside so many clients."""
    stop = root.parent / "stop"
    kinds = [*PROGRAMS, *HANDLES]
    paths = {f"{number}.txt": kinds[number % len(kinds)] for number in range(each * len(kinds))}
    root.mkdir()
    for path in paths:
        (root / path).write_text("".join(f"{row}\n" for row in BASE))
    some = -(-count // len(paths))
    programs = [Programs(n, root, path, how, some) for n, (path, how) in enumerate(paths.items())]
    names, pids = list(paths), []
    logs = [root.parent / f"client-{number}.jsonl" for number in range(clients)]
    for number, log in enumerate(logs):
        mine = names[number::clients]
        pids.append(started(Client(number, root, log, mine, stop), settings))
    for program in programs:
        program.start()
    for program in programs:
        program.join()
    stop.touch()
    failed = sum(os.waitpid(pid, 0)[1] != 0 for pid in pids)
    deeds = [
        Deed(**facts)
        for log in logs
        for facts in map(json.loads, log.read_text().splitlines())
        if "answer" in facts
    ]
    edits = _edits(root)
    texts = {
        str(path.relative_to(root)): path.read_bytes().decode("utf-8", "replace")
        for path in root.rglob("*")
        if path.is_file() and ".copydesk" not in path.parts and not path.name.endswith("~")
    }
    lines = [line for program in programs for line in program.lines]
    found = Found(lines, deeds, texts, _told(edits), edits=edits)
    found.judge()
    if failed:
        found.wrong.append(f"{failed} clients did not come to an end")
    left = [path for path in root.rglob(".copydesk-*") if path.is_file()]
    if left:
        found.wrong.append(f"left behind: {left}")
    return found


def table(found: Found) -> str:
    """What was written, by whom, and how the calls ended."""
    programs = Counter(line.how for line in found.lines)
    rows = [f"| {how} | {count} |" for how, count in programs.items()]
    calls = Counter(deed.what for deed in found.deeds if deed.ok)
    refused = Counter(
        f"{deed.what} {deed.answer.get('error')}" for deed in found.deeds if not deed.ok
    )
    saved = sum(edit["tool"] == "foreign_write" for edit in found.edits)
    warned = sum(bool(deed.answer.get("open_elsewhere")) for deed in found.deeds)
    return "\n".join(
        [
            *("| program | writes |", "|---|---|", *rows, ""),
            f"{len(found.lines)} writes of other programs, {len(found.deeds)} calls.",
            f"Done: {dict(calls)}. Refused: {dict(refused.most_common())}.",
            f"{saved} texts of others are edits of their own; `open_elsewhere` was told {warned} "
            f"times, and {found.by_word} lines came later still.",
            f"{len(found.wrong)} findings.",
            *(f"- {words}" for words in found.wrong[:40]),
        ]
    )


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.foreign", description=__doc__)
    add = parser.add_argument
    add("--writes", type=int, default=5_000, help="of other programs, in all (5000)")
    add("--files", type=int, default=2, help="of each kind of program (2)")
    add("--clients", type=int, default=2, help="processes with copydesk (2)")
    add("--durability", choices=("full", "fast"), default="full", help="(full)")
    add("--keep", action="store_true", help="keep the folder")
    options = parser.parse_args(words)
    folder = Path(tempfile.mkdtemp(prefix="foreign-"))
    began = time.monotonic()
    settings = {"durability": options.durability, "journal_bytes": 1 << 40}
    found = measure(folder / "root", options.writes, options.files, options.clients, settings)
    print(table(found))
    say(f"{time.monotonic() - began:.0f} s")
    if found.wrong or options.keep:
        say(f"The files and logs are in {shlex.quote(str(folder))}.")
    else:
        subprocess.run(["rm", "-rf", str(folder)], check=True)
    return 1 if found.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
