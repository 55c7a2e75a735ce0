"""Many processes that work on one workspace at once, for the tests of races.

Each worker is this file run as a program: it opens the workspace, says that it
is ready, waits for the word, does its work and tells what came of it, a line of
JSON for each call. Whoever reads a line knows that the call has ended.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from copydesk.app.config import Config
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.store import _os
from copydesk.store import files as writes

Facts = dict[str, Any]
WORKS: dict[str, Callable[[OpenWorkspace, Facts], None]] = {}


class Worker:
    """A process that works; `go` gives the word."""

    def __init__(self, root: Path, work: str, facts: Facts, settings: Facts) -> None:
        facts_, settings_ = json.dumps(facts), json.dumps(settings)
        command = [sys.executable, __file__, str(root), work, facts_, settings_]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ready(self) -> Worker:
        """Wait until it has opened the workspace."""
        assert self.line() == {"ready": True}
        return self

    def go(self) -> None:
        """Let it begin."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def line(self) -> Facts:
        """What it tells next; empty when it has ended."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line.endswith("\n") else {}

    def lines(self) -> Iterator[Facts]:
        """All that it tells until it ends."""
        while line := self.line():
            yield line
        self.process.wait()

    def kill(self) -> None:
        """End it at once, in the middle of whatever it does."""
        self.process.kill()


@contextmanager
def workers(
    root: Path, *works: tuple[str, Facts], settings: Facts | None = None
) -> Iterator[list[Worker]]:
    """Processes that are ready to begin, with some settings of the workspace."""
    started = [Worker(root, work, facts, settings or {}) for work, facts in works]
    try:
        yield [worker.ready() for worker in started]
    finally:
        for worker in started:
            worker.kill()
            worker.process.communicate()


def results(
    root: Path, *works: tuple[str, Facts], settings: Facts | None = None
) -> list[list[Facts]]:
    """What each of the processes told, after all of them began together and ended."""
    with workers(root, *works, settings=settings) as ready:
        for worker in ready:
            worker.go()
        told = [list(worker.lines()) for worker in ready]
        assert [worker.process.returncode for worker in ready] == [0] * len(ready)
    return told


def gather(worker: Worker, told: list[Facts], at: list[float]) -> None:
    """All that a worker tells, and when it did."""
    for fact in worker.lines():
        if "line" in fact:
            told.append(fact)
            at.append(time.monotonic())


def tell(**facts: object) -> None:
    """A line to whoever started this process, at once."""
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def work(
    function: Callable[[OpenWorkspace, Facts], None],
) -> Callable[[OpenWorkspace, Facts], None]:
    """A work that a worker can be given, by its name."""
    WORKS[function.__name__] = function
    return function


def outcome(opened: OpenWorkspace, tool: str, **arguments: object) -> Facts:
    """The report's data; a crash of the tool is an exception here, for it is no refusal."""
    report = opened.call("local", tool, arguments)
    assert "log_id" not in report.fields, report.text
    return dict(report.data)


def code(fields: Facts) -> str:
    """The code of a refusal with its reason, or `ok`."""
    if fields["status"] != "error":
        return "ok"
    reason = fields.get("reason", "")
    return f"{fields['error']} {reason}" if fields["error"] == "HUNK_NOT_FOUND" else fields["error"]


@work
def read_lines(opened: OpenWorkspace, facts: Facts) -> None:
    """Ten readings of one line each, every sixth line."""
    for turn in range(10):
        outcome(opened, "read_file", path="a.txt", range=f"{facts['first'] + 6 * turn}")


@work
def insert(opened: OpenWorkspace, facts: Facts) -> None:
    """`count` lines put in after the anchor, half of them prepared first."""
    for i in range(facts["count"]):
        line = f"{facts['name']}-{i}"
        arguments = {"path": facts["path"], "anchor": "anchor", "content": f"{line}\n"}
        tell(begins=line)
        if i % 2:
            found = outcome(opened, "prepare_file_insert_after", **arguments, apply="auto")
            if found.get("auto_apply") == "declined":
                found = outcome(opened, "apply_file_modification", hunk_id=found["hunk_id"])
        else:
            plan = outcome(opened, "prepare_file_insert_after", **arguments)
            found = outcome(opened, "apply_file_modification", hunk_id=plan["hunk_id"])
        tell(line=line, code=code(found), edit_id=found.get("edit_id"))


@work
def append_to_note(opened: OpenWorkspace, facts: Facts) -> None:
    """`count` paragraphs appended to a note."""
    for i in range(facts["count"]):
        line = f"{facts['name']}-{i}"
        arguments = {"markdown": line, "targetType": "document", "target": facts["note"]}
        tell(line=line, code=code(outcome(opened, "appendContent", **arguments)))


@work
def edit_block(opened: OpenWorkspace, facts: Facts) -> None:
    """A block of a note written anew `count` times."""
    for i in range(facts["count"]):
        line = f"{facts['name']}-{i}"
        found = outcome(opened, "applyBlockDiff", diff=f"@@REPLACE:{facts['block']}@@\n{line}")
        tell(line=line, code=code(found))


@work
def insert_for(opened: OpenWorkspace, facts: Facts) -> None:
    """Lines put in after the anchor for so many seconds, and then a moment to look back."""
    end = time.monotonic() + facts["seconds"]
    i = 0
    while time.monotonic() < end:
        i += 1
        line = f"{facts['name']}-{i}"
        arguments = {"path": facts["path"], "anchor": "anchor", "content": f"{line}\n"}
        found = outcome(opened, "prepare_file_insert_after", **arguments)
        told = [*found.get("foreign_writes", [])]
        if "hunk_id" in found:
            found = outcome(opened, "apply_file_modification", hunk_id=found["hunk_id"])
            told += found.get("foreign_writes", [])
        tell(line=line, code=code(found), foreign_writes=told)
    time.sleep(0.5)
    found = outcome(opened, "list_dir")
    tell(line="", code="", foreign_writes=found.get("foreign_writes", []))


@work
def transact(opened: OpenWorkspace, facts: Facts) -> None:
    """`count` lines, each put into several of the files at once."""
    chance = random.Random(facts["name"])
    for i in range(facts["count"]):
        line, ids = f"{facts['name']}-{i}", []
        paths = chance.sample(facts["paths"], facts["at_once"])
        for path in paths:
            arguments = {"path": path, "anchor": "anchor", "content": f"{line}\n"}
            ids.append(outcome(opened, "prepare_file_insert_after", **arguments)["hunk_id"])
        tell(begins=line, paths=paths)
        found = outcome(opened, "apply_file_modifications", hunk_ids=ids)
        tell(line=line, paths=paths, code=code(found))


@work
def transact_anyway(opened: OpenWorkspace, facts: Facts) -> None:
    """The same where a call may fail at any time; none is made again."""
    chance = random.Random(facts["name"])
    for i in range(facts["count"]):
        line = f"{facts['name']}-{i}"
        paths = chance.sample(facts["paths"], facts["at_once"])
        arguments = [{"path": path, "anchor": "anchor", "content": f"{line}\n"} for path in paths]
        plans = [outcome(opened, "prepare_file_insert_after", **each) for each in arguments]
        found = {"status": "error", "error": "NOT_PREPARED"}
        if all("hunk_id" in plan for plan in plans):
            ids = [plan["hunk_id"] for plan in plans]
            found = outcome(opened, "apply_file_modifications", hunk_ids=ids)
        tell(line=line, paths=paths, code=code(found), unsure=found.get("paths", []))


@work
def number(opened: OpenWorkspace, facts: Facts) -> None:
    """Each line of this worker's own is written anew `count` times, by its old text."""
    for i in range(facts["count"]):
        name, old = facts["name"], f"own {facts['name']} {i}"
        shown = outcome(opened, "read_file", path=facts["path"], show_linenos=False)
        at = str(shown["content"]).split("\n").index(old) + 1
        found = outcome(
            opened,
            "prepare_file_range_edit",
            path=facts["path"],
            range=str(at),
            version=shown["version"],
            expected_old=old,
            content=f"own {name} {i + 1}\n",
            apply="auto",
        )
        tell(line=f"own {name} {i + 1}", code=code(found))
        if found["status"] == "error" or found.get("auto_apply") == "declined":
            return


@work
def prepare(opened: OpenWorkspace, facts: Facts) -> None:
    """One plan, whose id is told."""
    found = outcome(opened, facts.pop("tool"), **facts)
    tell(hunk_id=found["hunk_id"])


@work
def apply(opened: OpenWorkspace, facts: Facts) -> None:
    """The plans, one after the other."""
    for hunk_id in facts["hunk_ids"]:
        found = outcome(opened, "apply_file_modification", hunk_id=hunk_id)
        tell(code=code(found), context=found.get("context_match"))


@work
def insert_surely(opened: OpenWorkspace, facts: Facts) -> None:
    """The lines put in after the anchor, each asked for until it was written."""
    for i in range(facts["count"]):
        line, plan = f"{facts['name']}-{i}", Facts()
        arguments = {"path": facts["path"], "anchor": "anchor", "content": f"{line}\n"}
        while "hunk_id" not in plan:
            plan = outcome(opened, "prepare_file_insert_after", **arguments)
        found = "FAILED"
        tries = 0
        while found == "FAILED":
            found = code(outcome(opened, "apply_file_modification", hunk_id=plan["hunk_id"]))
            tries += 1
        tell(line=line, code="ok" if found == "HUNK_NOT_FOUND applied" else found, tries=tries)


@work
def stop(opened: OpenWorkspace, facts: Facts) -> None:
    """Plans applied, with a signal to this process itself in the middle.

    `recording`: before the plan is recorded; `ready`: when the new file stands beside
    the old one; `exchanged`: when the first of several has its new bytes.
    """
    owner, name = {
        "recording": (opened.journal, "open_all"),
        "ready": (writes, "NewFile"),
        "exchanged": (_os, "rename_exchange"),
    }[facts["when"]]
    step = getattr(owner, name)

    def stopping(*given: Any, **named: Any) -> Any:
        setattr(owner, name, step)
        done = None if facts["when"] == "recording" else step(*given, **named)
        os.kill(os.getpid(), getattr(signal, facts["signal"]))
        return step(*given, **named) if facts["when"] == "recording" else done

    setattr(owner, name, stopping)
    ids = facts["hunk_ids"]
    if len(ids) == 1:
        found = outcome(opened, "apply_file_modification", hunk_id=ids[0])
    else:
        found = outcome(opened, "apply_file_modifications", hunk_ids=ids)
    tell(code=code(found), summary=found["summary"])


def main(root: str, name: str, facts: str, settings: str) -> None:
    """Do one work. The setting `lease_ms` is none of the configuration."""
    chosen: Facts = json.loads(settings)
    lease_ms = chosen.pop("lease_ms", None)
    if lease_ms is not None:
        from copydesk.desk.backends.redis import Leases

        Leases.__init__.__defaults__ = (lease_ms,)  # type: ignore[misc]
    with open_workspace(root, Config(**{"durability": "fast", **chosen})) as opened:
        tell(ready=True)
        sys.stdin.readline()
        WORKS[name](opened, json.loads(facts))


if __name__ == "__main__":
    importlib.import_module("lacking")  # which is beside this file
    main(*sys.argv[1:])
