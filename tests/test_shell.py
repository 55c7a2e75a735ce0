"""Completion, help on commands, and watching: what makes the command line pleasant."""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from copydesk.app.cli import main
from copydesk.app.cli.commands import SCRIPTS
from copydesk.app.cli.parser import COMMANDS, FIRST_STEPS, new_parser
from copydesk.app.config import Config, MemberConfig
from copydesk.app.library import Events
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.tools import messages
from support.cost import first
from support.mcp_calls import settings

PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("COPYDESK_")]:
        monkeypatch.delenv(name)
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def agent(root: Path) -> Iterator[OpenWorkspace]:
    members = {"ann": MemberConfig(approval="human")}
    with open_workspace(str(root), Config(durability="fast", members=members)) as opened:
        yield opened


def planned(agent: OpenWorkspace, content: str = "zwei", **more: str) -> str:
    arguments = {"path": "a.txt", "range": "2", "content": content, **more}
    return str(agent.call("ann", "prepare_file_range_edit", arguments).fields["hunk_id"])


Say = Callable[..., list[str]]


@pytest.fixture
def complete(root: Path, capsys: pytest.CaptureFixture[str]) -> Say:
    """The words that may stand in the place of the last one."""

    def run(*words: str) -> list[str]:
        capsys.readouterr()
        assert main(["completion", "words", "--", *words]) == 0
        said = capsys.readouterr()
        assert said.err == ""
        return said.out.split()

    return run


@pytest.mark.slow
def test_words_of_every_kind(complete: Say, agent: OpenWorkspace) -> None:
    hunk = planned(agent)
    assert {"init", "apply", "watch", "help"} <= set(complete(""))
    assert complete("hist") == ["history"]
    assert complete("show", "") == [hunk]
    assert complete("apply", hunk, hunk[:2]) == [hunk]
    assert complete("--root", str(agent.root), "reject", "") == [hunk]
    assert complete("reject", "--r") == ["--root", "--reason"]
    assert complete("history", "") == [":files"]
    assert complete("--lang", "") == ["en", "zh"]
    assert complete("init", "--client", "c") == ["claude-code", "codex", "cursor", "claude-desktop"]
    assert complete("serve", "--apply", "a") == ["auto"]
    assert complete("completion", "") == ["bash", "zsh", "fish"]
    assert "prepare_file_append" in complete("call", "prep")
    assert "--content" in complete("call", "prepare_file_append", "--")
    assert complete("call", "read_file", "--path", "") == [":files"]
    assert "ws_mod" in complete("manual", "")
    assert "cat" in complete("notes", "")
    assert complete("undo", "") == []
    agent.call("local", "create_new_file", {"path": "b.txt", "content": "x\n"})
    assert complete("undo", "") == ["1"]


def test_completion_says_nothing_of_what_is_wrong(complete: Say, root: Path) -> None:
    for broken in ("lang = 3", "nonsense"):
        (root / "copydesk.toml").write_text(broken)
        assert complete("show", "") == []
        assert complete("nothing", "like", "it") == []
    assert not (root / ".copydesk").exists()


ASK = {
    "bash": 'source {script}; COMP_WORDS=({words} ""); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); '
    '_copydesk; printf "%s\\n" "${{COMPREPLY[@]}}"',
    "zsh": "compdef() {{ : }}; source {script}; compadd() {{ shift; print -l -- $@ }}; "
    '_files() {{ print -l -- * }}; words=({words} ""); CURRENT=$#words; _copydesk',
    "fish": 'source {script}; complete -C "{words} "',
}


@pytest.mark.slow
@pytest.mark.parametrize("shell", first(*SCRIPTS))
def test_the_shells_take_their_scripts(
    agent: OpenWorkspace, root: Path, tmp_path_factory: pytest.TempPathFactory, shell: str
) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"there is no {shell} on this machine")
    script = tmp_path_factory.mktemp("script") / "script"
    script.write_text(SCRIPTS[shell])
    hunk = planned(agent)

    def ask(words: str) -> list[str]:
        ran = subprocess.run(
            [program, "-c", ASK[shell].format(script=script, words=words)],
            cwd=root,
            env={**os.environ, "PATH": PATH, "HOME": str(script.parent)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return [line.split("\t")[0] for line in ran.stdout.split("\n") if line]

    assert ask("copydesk show") == [hunk]
    assert "a.txt" in ask("copydesk history")


@pytest.mark.slow
def test_help_is_that_of_the_command(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*words: str) -> str:
        capsys.readouterr()
        with suppress(SystemExit):  # argparse's --help
            assert main(words) == 0
        return capsys.readouterr().out

    for words in (["apply"], ["notes", "ls"], ["init"]):
        assert said("help", *words) == said(*words, "--help")
    assert said("help") == said("--help")
    assert "--content" in said("help", "prepare_file_append")
    assert main(["help", "aply"]) == 2
    assert "did you mean apply" in capsys.readouterr().err


def helps(parser: argparse.ArgumentParser) -> Iterator[str]:
    """What a parser says, and those of its commands."""
    actions = cast("list[argparse.Action]", vars(parser)["_actions"])
    for action in actions:
        if action.help != argparse.SUPPRESS:
            yield action.help or ""
        facts: dict[str, object] = vars(action)
        for each in cast("list[argparse.Action]", facts.get("_choices_actions", [])):
            yield each.help or ""
        if "_choices_actions" in facts:
            for below in cast("dict[str, argparse.ArgumentParser]", facts["choices"]).values():
                yield from helps(below)
    for text in (parser.description, parser.epilog):
        yield from (text or "").split("\n")


@pytest.mark.slow
def test_all_help_is_there_in_chinese(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = {text for text in helps(new_parser()) if text and not text.startswith("  copydesk ")}
    assert len(texts) > 100
    assert not [text for text in {*texts, *FIRST_STEPS.split("\n")} if text and said(text) == text]
    (root / "copydesk.toml").write_text('lang = "zh"\n')
    for name in COMMANDS:
        with suppress(SystemExit):
            main([name, "--help"])
        shown = capsys.readouterr().out.split("\n")
        assert shown[0].startswith("用法：copydesk")
        assert not [line for line in shown if re.search("[A-Za-z]+ [a-z]+ [a-z]+ [a-z]+", line)]
    assert main(["apply"]) == 2
    assert capsys.readouterr().err.startswith("copydesk: 缺少以下参数：HUNK\n")
    assert main(["apply", "--lang", "en"]) == 2
    assert "required: HUNK" in capsys.readouterr().err


def said(text: str) -> str:
    return text if text.startswith("  copydesk call prep") else messages.say_reason(text, "zh")


def test_a_next_step_is_that_of_the_command(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    for line, named in {
        "completion": ["which shell? bash, zsh or fish"],
        "watch --nope": ["copydesk watch --help"],
        "notes ls --nope": ["copydesk notes --help"],
        "": ["copydesk init", "copydesk serve", "copydesk --help"],
    }.items():
        assert main(line.split()) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert all(words in said.err for words in named), line
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    assert main(["completion"]) == 0
    assert capsys.readouterr().out == SCRIPTS["fish"]


def kinds(seen: Events) -> list[tuple[Any, ...]]:
    return [(event.kind, event.member, event.hunk_id) for event in seen.look()]


def test_what_happens_is_seen_once(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    config = settings(members={"ann": MemberConfig(approval="human")})
    with open_workspace(str(tmp_path), config) as agent:
        first = planned(agent, why="for the tests")
        seen = Events(agent, agent.config.member)
        assert kinds(seen) == [("planned", "ann", first)]
        assert kinds(seen) == []
        planned(agent, "drei", existing_hunk_id=first)
        assert kinds(seen) == [("replanned", "ann", first)]
        person, review = agent.member("Ada"), agent.desk.review
        review.reject(person, first, "too short")
        (event,) = seen.look()
        assert event.decision is not None
        decided = event.kind, event.decision.by, event.decision.reason
        assert decided == ("rejected", "Ada", "too short")
        review.withdraw(person, first)
        assert kinds(seen) == [("withdrawn", "ann", first)]
        shown = review.show(person, first)
        review.approve(person, first, shown.before, shown.after)
        assert kinds(seen) == [("approved", "ann", first)]
        done = agent.call("ann", "apply_file_modification", {"hunk_id": first})
        assert kinds(seen) == [("written", "ann", first)]
        agent.call("local", "undo_file_modification", {"edit_id": done.fields["edit_id"]})
        (event,) = seen.look()
        assert event.edit is not None
        assert (event.kind, event.edit.undoes) == ("undone", done.fields["edit_id"])
        second = planned(agent)
        assert kinds(seen) == [("planned", "ann", second)]
        agent.call("ann", "discard_hunk", {"hunk_id": second})
        assert kinds(seen) == [("gone", "ann", second)]


def test_no_edit_is_lost_however_many_there_are_at_once(tmp_path: Path) -> None:
    with open_workspace(str(tmp_path), settings()) as agent:
        seen = Events(agent, agent.config.member)
        made = agent.call("local", "create_new_file", {"path": "a.txt", "content": "one\n"})
        entry = agent.journal.get(made.fields["edit_id"])
        assert entry is not None
        many = agent.journal.open_all([replace(entry, edit_id=0, state="open")] * 250)
        agent.journal.close_all(many, "done")
        edits = [event.edit.edit_id for event in seen.look() if event.edit is not None]
        assert edits == [entry.edit_id, *many]
        assert kinds(seen) == []


@pytest.mark.slow
def test_the_command_follows_another_process(agent: OpenWorkspace, root: Path) -> None:
    words = [sys.executable, "-m", "copydesk", "watch", "--json"]
    with subprocess.Popen(words, cwd=root, stdout=subprocess.PIPE, text=True) as watching:
        try:
            assert watching.stdout is not None
            first = planned(agent)
            assert json.loads(watching.stdout.readline())["hunk_id"] == first
            agent.call("local", "create_new_file", {"path": "\x1b[31m.txt", "content": "x\n"})
            line = watching.stdout.readline()
            assert "\x1b" not in line
            assert json.loads(line)["event"] == "written"
        finally:
            watching.send_signal(signal.SIGINT)
    assert watching.returncode == 0


@pytest.mark.slow
def test_the_command_sees_the_first_agent_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    words = [sys.executable, "-m", "copydesk", "watch", "--seconds", "20"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True) as watching:
        try:
            assert watching.stdout is not None
            assert watching.stderr is not None
            assert "Watching" in watching.stderr.readline()
            with open_workspace(str(tmp_path), Config(durability="fast")) as opened:
                planned(opened)
            assert "planned" in watching.stdout.readline()
        finally:
            watching.send_signal(signal.SIGINT)


@pytest.mark.slow
def test_a_hostile_name_is_one_line(
    agent: OpenWorkspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = {"path": "x \x1b[2J \u202e\ny", "content": "z\n"}
    assert not agent.call("ann", "prepare_file_append", arguments).is_error
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert main(["watch", "--seconds", "1"]) == 0
    (line,) = capsys.readouterr().out.rstrip("\n").split("\n")
    assert "planned" in line
    assert "\x1b" not in line


def test_on_windows(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert main(["mcp"]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert "WSL" in said.err
