"""Every command that an output names works for the person who sees it."""

from __future__ import annotations

import io
import os
import queue
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from copydesk.app.cli import main
from copydesk.app.cli.commands import _background
from copydesk.app.cli.parser import COMMANDS, parse
from copydesk.app.config import Config, MemberConfig
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.store.protocol import now_ms
from copydesk.tools.report import Lang

TEXT = "".join(f"line {number}\n" for number in range(1, 61))
STAYS = ("serve", "watch", "mcp", "up", "down", "demo")
"""Commands that end on a signal alone, or start something: they are parsed, not run."""

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    (root / "copydesk.toml").write_text('durability = "fast"\n[members.ann]\napproval = "human"\n')
    for name in ("a.txt", "b.txt", "c d.txt"):
        (root / name).write_text(TEXT)
    return root


@pytest.fixture
def agents(root: Path) -> Iterator[OpenWorkspace]:
    members = {"ann": MemberConfig(approval="human")}
    ticks = count()
    with open_workspace(
        str(root), Config(durability="fast", members=members), clock=lambda: now_ms() + next(ticks)
    ) as opened:
        yield opened


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """A command in a folder: its exit status, and all that it printed."""

    def command(root: Path, words: list[str], *more: str, stdin: str = "") -> tuple[int, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        monkeypatch.chdir(root)
        capsys.readouterr()
        try:
            status = main([*words, *more])
        except SystemExit as ended:  # argparse's --help
            status = int(str(ended.code or 0))
        said = capsys.readouterr()
        return status, said.out + said.err

    return command


def steps(text: str) -> list[str]:
    """The commands that a text says to run: after a colon, to the end of the sentence."""
    parts = re.split("(?<=[.!?]) (?=[A-Z])|(?<=。)|\n", text)
    sentences = [part for part in parts if not part.startswith(("usage:", "用法："))]
    told = [found[1] for each in sentences if (found := re.search(": *(copydesk .*)", each))]
    told += [found[1] for each in sentences if (found := re.search("：(copydesk .*)", each))]
    return [step.strip(" .。") for each in told for step in re.split(",? or | 或 ", each)]


def plan(agents: OpenWorkspace, line: int, content: str, path: str = "a.txt") -> str:
    given = {"path": path, "range": str(line), "content": content}
    hunk = str(agents.call("ann", "prepare_file_range_edit", given).fields["hunk_id"])
    agents.desk.show(agents.member("ann"), hunk)  # waits until the text is kept
    return hunk


def write(agents: OpenWorkspace, path: str, content: str, task: str) -> None:
    given = {"path": path, "range": "2", "content": content, "apply": "auto"}
    given["version"] = str(agents.call("bob", "read_file", {"path": path}).fields["version"])
    assert "edit_id" in agents.call("bob", "prepare_file_range_edit", given, task=task).fields


@pytest.mark.slow
@pytest.mark.parametrize("lang", ["en", pytest.param("zh", marks=pytest.mark.slow)])
def test_every_command_that_is_printed_works(
    agents: OpenWorkspace, run: Run, root: Path, tmp_path: Path, lang: Lang
) -> None:
    exact, drifted, conflict = plan(agents, 50, "x"), plan(agents, 5, "y"), plan(agents, 40, "z")
    carried = plan(agents, 9, "y", "b.txt")
    rejected, own = plan(agents, 20, "r"), plan(agents, 30, "o")
    long = plan(agents, 2, "\n".join(f"long {number}" for number in range(400)), "b.txt")
    agents.call("local", "prepare_file_append", {"path": "c d.txt", "content": "end\n"})
    mine = next(one.id for one in agents.pending("local") if one.owner == "local")
    write(agents, "c d.txt", "two", "a task's name")
    (root / "a.txt").write_text(TEXT.replace("line 40\n", "other\n"))
    (root / "b.txt").write_text("new\n" + TEXT)
    states = [
        *([], ["--help"], ["undo", "--help"], ["pending"], ["history"], ["changes", "--stat"]),
        *(["show", hunk] for hunk in (exact, drifted, conflict, carried, long, mine)),
        *(["show", hunk, "--member", "ann"] for hunk in (own, conflict)),
        *(["apply", exact], ["apply", "00000000"], ["apply", "x"], ["approve", carried]),
        *(["approve", long], ["apply", "--approve", carried], ["apply", "--approve", long]),
        *(["approve", exact], ["reject", rejected, "--reason", "no"], ["show", rejected]),
        *(["show", rejected, "--member", "ann"], ["diff", exact], ["discard", own]),
        *(
            ["checkpoint"],
            ["checkpoint", "it's"],
            ["checkpoint"],
            ["undo", "99"],
            ["reapply", "99"],
        ),
        *(["undo", "--task", "a task's name"], ["changes"], ["keep", "nothing"]),
        *(["trust"], ["recover"], ["manual"], ["call"], ["call", "nope"], ["watch", "--nope"]),
        *(["completion"], ["review", "--task", "t"], ["undo"], ["forget"], ["doctor"]),
        *(["init", "--client", "cursor", "--yes"], ["init", "--remove", "--yes"]),
        ["call", "prepare_file_append", "--path", "b.txt", "--content", "end"],
        ["call", "undo_file_modification", "--edit_id", "1"],
    ]
    names = set(COMMANDS)
    seen: set[str] = set()
    for words in states:
        _, said = run(root, words, "--lang", lang)
        named = {word for word in re.findall(r"copydesk ([a-z-]+)", said) if word in names}
        seen |= named
        for word in named:
            assert run(root, [word, "--help"])[0] == 0
        for step in steps(said):
            words_of_step = shlex.split(step)[1:]
            if words_of_step[0] in STAYS:
                parse(words_of_step)
                continue
            copy = tmp_path / "copy"
            shutil.copytree(root, copy)
            status, answer = run(copy, words_of_step, stdin="q\n")
            assert status == 0, f"{words} says: {step}\n{answer}"
            shutil.rmtree(copy)
    assert {"apply", "approve", "reject", "show", "review", "discard", "undo", "changes"} <= seen


@pytest.mark.slow
def test_up_and_down(root: Path, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`up` is the same however often it is called, and `down` ends what it started, nothing else."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".codex").mkdir()
    up = ["up", "--no-browser", "--port", "0", "--yes"]
    assert "No server" in run(root, ["down"])[1]
    status, said = run(root, up)
    assert status == 0, said
    assert "mcp" in (tmp_path / ".codex" / "config.toml").read_text(), "the client is set up"
    pid = int(re.findall(r"process (\d+)", said)[0])
    page = re.findall(r"(http://[^/]+)/sign-in", said)[0]
    try:
        again = run(root, up)[1]
        assert (f"process {pid}" in again, page in again) == (True, True)
        with urllib.request.urlopen(page, timeout=60) as answer:
            assert b"sign" in answer.read().lower()
    finally:
        assert run(root, ["down"])[0] == 0
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(page, timeout=60)
    (root / ".copydesk" / "server.lock").write_text(str(os.getpid()))
    assert "No server" in run(root, ["down"])[1], "a number that is left over is of nobody"


def test_a_server_that_starts_is_waited_for(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever starts one holds the lock before the process has an id; an older id is of nobody."""
    lock = root / ".copydesk" / "server.lock"
    with _background(str(root), Config()) as (_, none):
        assert none == 0
        lock.write_text("1")
    with _background(str(root), Config()):
        assert lock.read_text() == ""
        monkeypatch.setattr(time, "sleep", lambda _: lock.write_text("12"))
        with _background(str(root), Config()) as (_, pid):
            assert pid == 12


@pytest.mark.slow
def test_a_person_decides_in_the_demo_review(run: Run) -> None:
    words = ["-m", "copydesk", "demo", "review", "--no-browser"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    demo = subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, text=True, env=environment
    )
    said: queue.SimpleQueue[str] = queue.SimpleQueue()
    lines: list[str] = []

    def read() -> None:  # all the time: a reader that waits for a line has no limit of its own
        for line in demo.stdout or ():
            said.put(line)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()

    def until(pattern: str) -> str:
        while True:
            try:
                lines.append(said.get(timeout=120))
            except queue.Empty:
                raise AssertionError("".join(lines)) from None
            if found := re.search(pattern, lines[-1]):
                return found[1]

    folder = Path(until(r"review --root (\S+)"))
    until(r"page: (http://\S+)/sign-in")
    try:
        until(r"eva: (\w+)")
        plans: list[str] = []
        end = time.monotonic() + 120
        while len(plans) < 4 and time.monotonic() < end:
            plans = re.findall("^[0-9a-f]{8}(?= )", run(folder, ["pending"])[1], re.M)
        assert run(folder, ["apply", "--approve", *plans[:1]])[0] == 0
        assert run(folder, ["reject", plans[1], "--reason", "no"])[0] == 0
        assert {until("(ann|ben): "), until("(ann|ben): ")} <= {"ann", "ben"}
        assert "eva" in run(folder, ["changes", "--stat"])[1]
    finally:
        demo.send_signal(signal.SIGTERM)
        demo.wait(60)
        reader.join(60)
        if demo.stdout is not None:
            demo.stdout.close()
    assert not folder.exists()
