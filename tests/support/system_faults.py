"""Calls of copydesk in which one system call fails, and what is found afterwards, judged outside.

This file is a program too: it loads what is needed, forks a process for each case, and lets the
n-th system call below the workspace fail in it (`system_calls.c`, loaded before libc, so SQLite's
calls fail as well as Python's). Another process looks at what is left. Of copydesk it uses only
what its users do: calls of tools, commands, files.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import importlib
import io
import json
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

Facts = dict[str, Any]
Tree = dict[str, str]
"""The files by path, their bytes as Latin-1."""

SECONDS = 60
"""A case that takes longer stands still."""

FAILS, SHORT, LASTING, KILLED = range(4)
ROOM, PART, OTHER, WAITS = 1, 2, 4, 8
WAYS = {
    "EIO": (FAILS, errno.EIO, ROOM | PART | OTHER | WAITS),
    "ENOSPC": (FAILS, errno.ENOSPC, ROOM),
    "full": (LASTING, errno.ENOSPC, ROOM),
    "EINTR": (FAILS, errno.EINTR, WAITS),
    "short": (SHORT, 0, PART),
    "killed": (KILLED, 0, ROOM | PART | OTHER | WAITS),
}
"""What happens at the call, its error, and which calls count, as `system_calls.c` has them."""


# What copydesk is asked to do


class Opened:
    """An open workspace; the only place here that knows how tools are called in a process."""

    def __init__(self, root: str) -> None:
        from copydesk.app.workspace import open_workspace

        self._opened = open_workspace(root)
        self._member = "agent" if (Path(root) / "copydesk.toml").exists() else "local"
        self.close = self._opened.close

    def call(self, tool: str, **arguments: object) -> Facts:
        """The data of the answer."""
        return dict(self._opened.call(self._member, tool, arguments).data)


def command(root: str, *words: str) -> Facts:
    """What a command comes to."""
    from copydesk.app.cli import main

    told, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(said):
        status = main(["--root", root, *words])
    return {"status": "error" if status else "ok", "said": said.getvalue() + told.getvalue()}


FILES: Tree = {"a.txt": "a1\na2\na3\n", "d/b.txt": "b1\nb2\nb3\n", "d/c.txt": "c1\nc2\nc3"}
A2 = "a1\nA2\na3\n"
PATCH = """\
--- a/a.txt
+++ b/a.txt
@@ -1,3 +1,3 @@
 a1
-a2
+A2
 a3
--- a/d/b.txt
+++ b/d/b.txt
@@ -1,3 +1,3 @@
 b1
-b2
+B2
 b3
"""

Step = tuple[str, Facts]
"""A tool with its arguments, or a command: its name after `$`, and `{"words": [...]}`."""


@dataclass(frozen=True)
class Deed:
    """What is asked for. `ready` makes what it needs before; `after`: the files then, None: gone.

    `next`: what is possible once it is done, and not before (for plans and approvals).
    """

    ready: Callable[[Opened], Step]
    after: dict[str, str | None]
    next: Callable[[Step, Facts], Step] | None = None
    human: bool = False
    """Whether a person has to approve."""
    reopened: bool = False
    """Whether it is half done, by a process that was killed, and the fault comes when it is met."""


def line(path: str, number: int, content: str) -> Step:
    """The plan to write one line anew."""
    return "prepare_file_range_edit", {"path": path, "range": str(number), "content": content}


def plan(opened: Opened, step: Step) -> str:
    found = opened.call(step[0], **step[1])
    return str(found["hunk_id"])


def at_once(tool: str, **arguments: object) -> Callable[[Opened], Step]:
    return lambda _: (tool, arguments)


def planned(*steps: Step) -> Callable[[Opened], Step]:
    """The apply of plans, together if they are several."""

    def ready(opened: Opened) -> Step:
        ids = [plan(opened, step) for step in steps]
        if len(ids) == 1:
            return "apply_file_modification", {"hunk_id": ids[0]}
        return "apply_file_modifications", {"hunk_ids": ids}

    return ready


def undoing(opened: Opened) -> Step:
    step = planned(line("a.txt", 2, "A2"), line("d/b.txt", 2, "B2"))(opened)
    done = opened.call(step[0], **step[1])
    edit_id = done["hunks"][0]["edit_id"]
    return "undo_file_modification", {"edit_id": edit_id, "transaction": True}


def commanded(name: str) -> Callable[[Opened], Step]:
    return lambda opened: (f"${name}", {"words": [plan(opened, line("a.txt", 2, "A2"))]})


def applied(step: Step, told: Facts) -> Step:
    """The apply of the plan that a step made or is about."""
    hunk_id = told.get("hunk_id") or step[1].get("words", [""])[0]
    return "apply_file_modification", {"hunk_id": hunk_id}


DEEDS: dict[str, Deed] = {
    "prepare": Deed(lambda _: line("a.txt", 2, "A2"), {}, applied),
    "apply": Deed(planned(line("a.txt", 2, "A2")), {"a.txt": A2}),
    "several": Deed(
        planned(line("a.txt", 2, "A2"), line("d/b.txt", 2, "B2"), line("d/c.txt", 3, "C3")),
        {"a.txt": A2, "d/b.txt": "b1\nB2\nb3\n", "d/c.txt": "c1\nc2\nC3\n"},
    ),
    "kinds": Deed(
        planned(
            line("a.txt", 2, "A2"),
            ("prepare_file_move", {"path": "a.txt", "to": "m/a.txt"}),
            ("prepare_file_delete", {"path": "d/b.txt"}),
            ("prepare_file_append", {"path": "n/w.txt", "content": "new\n"}),
        ),
        {"a.txt": None, "m/a.txt": A2, "d/b.txt": None, "n/w.txt": "new\n"},
    ),
    "create": Deed(
        at_once("create_new_file", path="n/e/w.txt", content="new\n"), {"n/e/w.txt": "new\n"}
    ),
    "overwrite": Deed(
        at_once(
            "overwrite_entire_file",
            path="a.txt",
            content="all\n",
            known_old_total_lines=3,
            known_old_total_bytes=9,
        ),
        {"a.txt": "all\n"},
    ),
    "batch": Deed(
        at_once(
            "BatchEdit",
            path="a.txt",
            edits=[
                {"old_string": "a1", "new_string": "A1"},
                {"old_string": "a3", "new_string": "A3"},
            ],
        ),
        {"a.txt": "A1\na2\nA3\n"},
    ),
    "delete": Deed(planned(("prepare_file_delete", {"path": "a.txt"})), {"a.txt": None}),
    "move": Deed(
        planned(("prepare_file_move", {"path": "a.txt", "to": "m/o/ved.txt"})),
        {"a.txt": None, "m/o/ved.txt": FILES["a.txt"]},
    ),
    "undo": Deed(undoing, {"a.txt": FILES["a.txt"], "d/b.txt": FILES["d/b.txt"]}),
    "patch": Deed(
        at_once("apply_diff", diff=PATCH, apply="auto"), {"a.txt": A2, "d/b.txt": "b1\nB2\nb3\n"}
    ),
    "discard": Deed(commanded("discard"), {}),
    "approve": Deed(commanded("approve"), {}, applied, human=True),
    "open": Deed(
        planned(line("a.txt", 2, "A2"), line("d/b.txt", 2, "B2")),
        {"a.txt": A2, "d/b.txt": "b1\nB2\nb3\n"},
        reopened=True,
    ),
}


# One case


class Calls:
    """The system calls that `system_calls.c` counts; it has to be loaded before libc."""

    def __init__(self, library: str) -> None:
        self._own = ctypes.CDLL(library)
        self._own.faults_stop.restype = ctypes.c_long
        self._own.faults_failed.restype = ctypes.c_char_p
        self._own.faults_start.argtypes = (ctypes.c_char_p, ctypes.c_long, *[ctypes.c_int] * 3)

    @contextlib.contextmanager
    def failing(self, root: Path, at: int, way: str) -> Generator[None]:
        """The call `at`, counted from 1, of those below the root fails this way."""
        self._own.faults_start(os.fsencode(root), at, *WAYS[way])
        try:
            yield
        finally:
            self._own.faults_stop()

    def failed(self) -> str:
        """The name of the call that failed, empty if there was none."""
        return bytes(self._own.faults_failed()).decode()


def aside(work: Callable[[Callable[[Facts], None]], None]) -> tuple[list[Facts], int]:
    """Do the work in a process of its own; what it told, and the signal that ended it."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        signal.alarm(SECONDS)
        with open(writing, "w") as out:

            def tell(facts: Facts) -> None:
                out.write(json.dumps(facts) + "\n")
                out.flush()

            try:
                work(tell)
            except BaseException:
                tell({"raised": traceback.format_exc()})
        os._exit(0)
    os.close(writing)
    with open(reading) as lines:
        told = [json.loads(each) for each in lines]
    return told, os.WTERMSIG(os.waitpid(child, 0)[1])


def lay(root: Path, deed: Deed) -> None:
    """A new workspace, with the files as they are at first."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    if deed.human:
        (root / "copydesk.toml").write_text('[members.agent]\napproval = "human"\n')


def tree(root: Path) -> Tree:
    """All files with their bytes, and folders, but for the state folder."""
    found: Tree = {}
    for path in root.rglob("*"):
        name = str(path.relative_to(root))
        if f"{name}/".startswith(".copydesk/"):
            continue
        found[name] = path.read_bytes().decode("latin-1") if path.is_file() else "/"
    return found


def done(before: Tree, deed: Deed) -> Tree:
    """The files once the deed is done."""
    after = dict(before)
    for name, text in deed.after.items():
        if text is None:
            del after[name]
            continue
        after[name] = text
        for folder in Path(name).parents:
            if folder.name:
                after[str(folder)] = "/"
    return after


def files(found: Tree) -> Tree:
    """The files of a tree without its folders and what has a temporary name."""
    return {k: v for k, v in found.items() if v != "/" and not k.endswith(".tmp")}


def filled(found: Tree) -> Tree:
    """A tree without folders that have no file in them."""
    names = files(found)
    held = {str(folder) for name in names for folder in Path(name).parents}
    return {name: text for name, text in found.items() if text != "/" or name in held}


def do(root: Path, opened: Opened | None, step: Step) -> Facts:
    """Make the call, or run the command, and close what is open."""
    name, arguments = step
    if name.startswith("$"):
        return command(str(root), name[1:], *arguments["words"])
    try:
        opened = opened or Opened(str(root))
    except Exception as refused:  # nothing can be asked for then
        return {"status": "error", "summary": repr(refused)}
    try:
        return opened.call(name, **arguments)
    finally:
        opened.close()


def try_it(
    calls: Calls, root: Path, deed: Deed, at: int, way: str, tell: Callable[[Facts], None]
) -> None:
    """Prepare the deed, and do it while a call fails; what is told comes after the step."""
    opened: Opened | None = Opened(str(root))
    step = deed.ready(opened)
    known = [row["edit_id"] for row in opened.call("list_edits")["edits"]]
    if step[0].startswith("$"):
        opened.close()
        opened = None
    tell({"step": step, "known": known, "before": tree(root)})
    with calls.failing(root, at, way):
        told = do(root, opened, step)
    tell({"told": told, "failed": calls.failed()})


def try_to_open(
    calls: Calls, root: Path, first: Facts, at: int, way: str, tell: Callable[[Facts], None]
) -> None:
    """Open what is half done while a call fails, as `try_it` does the deed."""
    tell(first)
    with calls.failing(root, at, way):
        told = do(root, None, ("list_edits", {}))
    tell({"told": told, "failed": calls.failed()})


def is_ok(told: Facts) -> bool:
    return told["status"] in ("ok", "success")


def has(told: object, key: str) -> bool:
    """Whether there is such a field, however deep."""
    if isinstance(told, dict):
        fields = cast("Facts", told)
        return key in fields or any(has(each, key) for each in fields.values())
    return isinstance(told, list) and any(has(each, key) for each in cast("list[object]", told))


def is_known(loss: str) -> bool:
    """Whether a notice is false, as is known: a file was not lost that was never made to the end.

    Nothing of a caller's was in it. To be struck out once a process that was ended while it made
    the file leaves nothing that the next one takes for a loss.
    """
    return "texts.sqlite was found empty" in loss


class Judge:
    """Looks at what a case left, from outside; `wrong` says what is not as was told."""

    def __init__(self, root: Path, deed: Deed, case: Facts, told: Facts | None) -> None:
        self.root, self.deed = root, deed
        self.step: Step = case["step"][0], case["step"][1]
        self.known, self.before = set(case["known"]), case["before"]
        self.after = done(self.before, deed)
        self.told = told
        self.wrong: list[str] = []
        if deed.reopened:  # what was told is not about the deed
            self.told = None
        self.ok = self.told is not None and is_ok(self.told)
        self.unsure = self.told is None or has(told, "paths") or has(told, "log_id")
        self.check(not has(told, "log_id"), f"a crash: {told}")

    def check(self, as_told: bool, words: str) -> None:
        if not as_told:
            self.wrong.append(words)

    def look(self) -> None:
        """All that can be seen."""
        left, before, after = (files(each) for each in (tree(self.root), self.before, self.after))
        for name, text in left.items():  # under its old name or its new one
            whole = text in (before.get(name), after.get(name), *after.values())
            self.check(whole, f"{name} is neither old nor new: {text!r}")
        if not self.unsure:
            self.check(left == (after if self.ok else before), f"ok {self.ok}, but: {left}")
        opened = Opened(str(self.root))
        found = tree(self.root)
        listed, waiting = opened.call("list_edits"), opened.call("list_pending")
        for each in (listed, waiting):
            lost = [one for one in each.get("state_lost", ()) if not is_known(one)]
            self.check(is_ok(each) and not lost, f"the state: {each.get('summary')} {lost}")
        rows = [row for row in listed.get("edits", ()) if row["edit_id"] not in self.known]
        doubtful = {row["path"] for row in rows if row["state"] not in ("done", "failed")}
        if self.told is None:  # nobody removes the folders that a process made before its end
            found = filled(found)
        if self.deed.reopened:
            # Known: who cannot read a file while recovering it records for good that it is unsure,
            # and a temporary file that cannot be removed then stays until it is a minute old.
            found = {k: v for k, v in found.items() if not k.endswith(".tmp")}
            found.update((path, self.before[path]) for path in doubtful)
        else:
            self.check(not doubtful, f"in doubt: {doubtful}")
        is_done = found == self.after and bool(self.deed.after)
        self.check(is_done or found == self.before, f"a part: {found}")
        if not self.unsure:
            self.check(not self.deed.after or is_done == self.ok, f"ok {self.ok}, later: {found}")
        own = self.root / ".copydesk"
        states = [path.name for path in own.rglob("*") if path.suffix == ".tmp"]
        if self.told is None or self.deed.reopened:  # who opens that database next removes it
            states = [name for name in states if ".sqlite." not in name]
        self.check(not states, f"left in the state folder: {states}")
        ids = [row["edit_id"] for row in rows if row["state"] == "done"]
        unrecorded = self.told is not None and has(self.told, "state_lost")
        self.check(bool(ids) == is_done or unrecorded, f"history: {rows}")
        pending = {row["hunk_id"] for row in waiting["hunks"]}
        if self.wrong:
            return
        if self.deed.next or not self.deed.after:
            self._look_at_plan(opened, pending)
        elif is_done and ids:
            more = {"transaction": True} if len(ids) > 1 else {}
            self._then(opened, ("undo_file_modification", {"edit_id": ids[0], **more}), self.before)
        elif not is_done and not doubtful:
            self._then(opened, self.step, self.after)

    def _then(self, opened: Opened, step: Step, wanted: Tree) -> None:
        again = opened.call(step[0], **step[1])
        self.check(is_ok(again), f"{step[0]}: {again.get('summary') or again}")
        self.check(files(tree(self.root)) == files(wanted), f"{step[0]}: {tree(self.root)}")

    def _look_at_plan(self, opened: Opened, pending: set[str]) -> None:
        """A plan that was made, approved or discarded."""
        after = {**self.before, "a.txt": A2}
        name = self.step[0]
        if name == "$discard":
            self.check(self.unsure or bool(pending) != self.ok, f"ok {self.ok}, pending {pending}")
            for hunk_id in pending:
                self._then(opened, ("apply_file_modification", {"hunk_id": hunk_id}), after)
            return
        if name == "$approve" and not self.ok:
            (hunk_id,) = self.step[1]["words"]
            early = opened.call("apply_file_modification", hunk_id=hunk_id)
            self.check(self.unsure or not is_ok(early), "applied, though the approval was refused")
            if is_ok(early):
                return
            again = command(str(self.root), "approve", hunk_id)
            self.check(is_ok(again), f"approve again: {again}")
        elif not self.ok:
            self.check(self.unsure or not pending, f"refused, but pending: {pending}")
            self.told = opened.call(name, **self.step[1])
            self.check(is_ok(self.told), f"again: {self.told}")
        assert self.deed.next is not None
        self._then(opened, self.deed.next(self.step, self.told or {}), after)


def case(
    calls: Calls, root: Path, deed: Deed, at: int, way: str, half: Facts | None
) -> tuple[str, list[str]]:
    """The call that failed, empty if there are not so many, and what was false afterwards."""
    if half:
        shutil.rmtree(root)
        shutil.copytree(half_of(root), root)
        told, ended = aside(lambda tell: try_to_open(calls, root, half, at, way, tell))
    else:
        lay(root, deed)
        told, ended = aside(lambda tell: try_it(calls, root, deed, at, way, tell))
    raised = [each["raised"] for each in told if "raised" in each]
    killed = way == "killed" and ended == signal.SIGKILL
    if raised or len(told) < 2 - killed:
        return "?", [*raised, f"ended by signal {ended}"]
    answer = told[1]["told"] if len(told) > 1 else None
    failed = told[1]["failed"] if len(told) > 1 else "killed"
    seen, ended = aside(lambda tell: judged(root, deed, told[0], answer, tell))
    wrong = [each for one in seen for each in one.get("wrong", [one.get("raised")])]
    if not seen:
        wrong.append(f"the next process was ended by signal {ended}")
    if wrong and answer is not None:
        wrong.append(f"told: {answer.get('summary') or answer}")
    return failed, wrong


def half_of(root: Path) -> Path:
    """Where the half of a deed is kept."""
    return root.with_name("half")


def half_done(calls: Calls, root: Path, deed: Deed) -> Facts:
    """A workspace in which a process was killed between two files; what it told before."""
    for at in range(1, 2_000):
        lay(root, deed)
        told, _ = aside(lambda tell, at=at: try_it(calls, root, deed, at, "killed", tell))  # type: ignore[misc]
        before, left = told[0]["before"], files(tree(root))
        if left not in (files(before), files(done(before, deed))):
            shutil.rmtree(half_of(root), ignore_errors=True)
            shutil.copytree(root, half_of(root))
            return told[0]
    raise AssertionError("nothing was ever half done")


def judged(
    root: Path, deed: Deed, first: Facts, told: Facts | None, tell: Callable[[Facts], None]
) -> None:
    judge = Judge(root, deed, first, told)
    judge.look()
    tell({"wrong": judge.wrong})


def main(library: str, folder: str, name: str, *asked: str) -> None:
    """Let system calls of a deed fail in turn, and tell what was false: a line of JSON.

    `asked`: ways with the first call and the distance to the next, such as `EIO:1:7`.
    """
    os.chdir("/")
    calls, deed, root = Calls(library), DEEDS[name], Path(folder) / "root"
    loaded, _ = aside(lambda tell: warm(calls, root, deed, tell))
    for module in loaded[-1]["modules"]:
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    half = half_done(calls, root, deed) if deed.reopened else None
    wrong: list[Facts] = []
    reached: dict[str, dict[str, int]] = {}
    for way, start, every in (each.split(":") for each in asked):
        of_way = reached.setdefault(way, {})
        at, untouched = int(start), 0
        while untouched < 2:  # what goes on beside the call may come later than it
            failed, found = case(calls, root, deed, at, way, half)
            if found:
                wrong.append({"way": way, "at": at, "call": failed, "wrong": found})
            untouched = 0 if failed else untouched + 1
            if failed:
                of_way[failed] = of_way.get(failed, 0) + 1
            at += int(every)
    print(json.dumps({"reached": reached, "wrong": wrong}))


def warm(calls: Calls, root: Path, deed: Deed, tell: Callable[[Facts], None]) -> None:
    """Do all of it once, for the modules that it loads."""
    lay(root, deed)
    seen: list[Facts] = []
    try_it(calls, root, deed, 0, "EIO", seen.append)
    Judge(root, deed, seen[0], seen[1]["told"]).look()
    tell({"modules": list(sys.modules)})


if __name__ == "__main__":
    main(*sys.argv[1:])
