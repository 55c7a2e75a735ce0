"""A person decides on the command line: approve, reject, and the steps of review on a terminal."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from copydesk.app import terminal
from copydesk.app.cli import main
from copydesk.app.config import Config, MemberConfig
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.store.protocol import now_ms

TEXT = "".join(f"line {number}\n" for number in range(1, 31))
TOML = """
durability = "fast"
[members.ann]
approval = "human"
"""
PATIENCE_SECONDS = 30.0


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[OpenWorkspace]:
    """The workspace, open in a process of an agent that needs a person."""
    (tmp_path / "copydesk.toml").write_text(TOML)
    (tmp_path / "a.txt").write_text(TEXT)
    config = Config(durability="fast", members={"ann": MemberConfig(approval="human")})
    ticks = count()  # plans of one millisecond have no order that a test could know

    def clock() -> int:
        return now_ms() + next(ticks)

    with open_workspace(str(tmp_path), config, clock=clock) as opened:
        yield opened


def plan(agent: OpenWorkspace, line: int, content: str) -> str:
    arguments = {"path": "a.txt", "range": str(line), "content": content}
    hunk = str(agent.call("ann", "prepare_file_range_edit", arguments).fields["hunk_id"])
    agent.desk.show(agent.member("ann"), hunk)  # waits until the text is kept
    return hunk


def apply(agent: OpenWorkspace, hunk: str) -> dict[str, Any]:
    return dict(agent.call("ann", "apply_file_modification", {"hunk_id": hunk}).fields)


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """A command: its exit status, what it wrote on standard output and on standard error."""

    def command(*words: str, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        capsys.readouterr()
        status = main(["--root", str(tmp_path), *words])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return command


def test_approve_and_reject(agent: OpenWorkspace, run: Run, tmp_path: Path) -> None:
    one, two, three = plan(agent, 5, "five"), plan(agent, 9, "nine"), plan(agent, 12, "twelve")
    status, out, _ = run("approve", one, two, "--json")
    rows = [(row["hunk_id"], row["verdict"], row["by"]) for row in json.loads(out)]
    assert (status, rows) == (0, [(hunk, "approved", "local") for hunk in (one, two)])
    assert run("reject", three, "--reason", "too short")[0] == 0
    assert apply(agent, three)["reason"] == "too short"
    assert apply(agent, one)["status"] == "ok"
    assert (tmp_path / "a.txt").read_text() == TEXT.replace("line 5\n", "five\n")
    assert apply(agent, two)["why"] == "drifted"
    assert "The approval by local lapsed" in run("show", two)[1]


REFUSED = [
    ("approve 00000000", 1, "HUNK_NOT_FOUND"),
    ("approve x", 1, "INVALID_HUNK_ID"),
    ("reject HUNK --reason BLANK", 1, "INVALID_ARGS"),
    ("reject HUNK", 2, "USAGE"),
    ("approve", 2, "USAGE"),
    ("approve HUNK --after 0123", 1, "CONTENT_CHANGED"),
    ("approve DONE", 1, "ALREADY_DECIDED"),
    ("reject DONE --reason no", 1, "ALREADY_DECIDED"),
    ("approve HUNK --member ann", 1, "ACCESS_DENIED"),
    ("review", 2, "USAGE"),
    ("review --done", 2, "USAGE"),
    ("review --task t", 2, "USAGE"),
    ("apply HUNK --after 0123", 2, "USAGE"),
]


@pytest.mark.slow
def test_refusals(agent: OpenWorkspace, run: Run) -> None:
    ids = {"HUNK": plan(agent, 5, "five"), "DONE": plan(agent, 9, "nine"), "BLANK": " "}
    assert run("approve", ids["DONE"])[0] == 0
    for line, status, code in REFUSED:
        words = [ids.get(word, word) for word in line.split()]
        ended, out, _ = run(*words, "--json")
        assert (ended, json.loads(out)["error"]) == (status, code), line
        assert run(*words)[0] == (0 if line in ("review", "review --done") else status), line


def test_what_show_has_not_needs_its_digest(agent: OpenWorkspace, run: Run, tmp_path: Path) -> None:
    hunk = plan(agent, 20, "twenty")
    (tmp_path / "a.txt").write_text("new\n" + TEXT)
    status, out, _ = run("approve", hunk)
    assert status == 1
    after = re.search(r"--after ([0-9a-f]{64})", out)
    assert after is not None
    assert "+twenty" in out
    assert run("approve", hunk, "--after", after[1][:7])[0] == 1  # too short to have been seen
    assert run("approve", hunk, "--after", after[1])[0] == 0
    assert apply(agent, hunk)["status"] == "ok"


def test_an_apply_that_waits_for_a_person_is_not_done(agent: OpenWorkspace, run: Run) -> None:
    hunk = plan(agent, 5, "five")
    status, out, _ = run("apply", hunk, "--json", "--member", "ann")
    assert (status, json.loads(out)["status"]) == (1, "pending")
    status, out, _ = run("apply", hunk, plan(agent, 9, "x"), "--json", "--member", "ann")
    assert (status, json.loads(out)["status"]) == (1, "pending")


def commands(words: str) -> list[str]:
    """The commands of copydesk that a text names."""
    return re.findall(r"copydesk (\w+)", words)


@pytest.mark.slow
def test_show_says_what_this_person_may_do(agent: OpenWorkspace, run: Run, tmp_path: Path) -> None:
    hunk = plan(agent, 5, "five")

    def shown(*words: str) -> tuple[str, list[str]]:
        """What is shown, and the commands that its last line names."""
        out = run("show", hunk, *words)[1]
        return out, commands(out.splitlines()[-1])

    out, named = shown()
    assert named == ["apply", "approve", "reject"]
    assert f"copydesk apply --approve {hunk}. " in out.splitlines()[-1]
    assert shown("--member", "ann")[1] == ["review"]
    (tmp_path / "a.txt").write_text("new\n" + TEXT)
    out, _ = shown()
    assert "file has changed since" in out
    assert "@@ -3,7 +3,7 @@" in out, "the edit as it is now"
    assert len(re.findall(r"(approve) --after ([0-9a-f]{8}) ", out)) == 2
    (tmp_path / "a.txt").write_text(TEXT.replace("line 5\n", "other\n"))
    out, named = shown()
    assert "-line 5\n+five\n" in out
    assert "\n5\tother\n" in out, "both texts"
    assert named == ["reject"]
    run("reject", hunk, "--reason", "no")
    out, _ = shown()
    assert f"{hunk} is rejected by local." in out
    assert "copydesk" not in out
    data = json.loads(run("show", hunk, "--json")[1])
    found = data["state"], data["member"], data["decision"]["verdict"]
    assert found == ("conflict", "ann", "rejected")


@pytest.mark.slow
def test_pending_says_how_each_plan_stands(agent: OpenWorkspace, run: Run, tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text('{"a": 1,\n"b": 2}\n')
    exact = plan(agent, 25, "x")
    given = {"path": "b.json", "range": "1", "content": "{{"}
    broken = str(agent.call("ann", "prepare_file_range_edit", given).fields["hunk_id"])
    rows = json.loads(run("pending", "--json")[1])
    assert [(row["hunk_id"], row["state"], row["findings"]) for row in rows] == [
        (exact, "exact", None),
        (broken, "exact", 1),
    ]
    (tmp_path / "a.txt").write_text("new\n" + TEXT)
    (tmp_path / "b.json").write_text("{}\n")
    table = run("pending")[1]
    assert re.findall(r"ann +(\w+)", table) == ["carried", "conflict"]
    assert re.findall(r"ann +(\S+)", run("pending", "--lang", "zh")[1]) == ["已移位", "有冲突"]


@pytest.mark.slow
def test_the_approver_writes_what_was_shown(agent: OpenWorkspace, run: Run, tmp_path: Path) -> None:
    one, two, three = plan(agent, 5, "five"), plan(agent, 9, "nine"), plan(agent, 12, "twelve")
    status, out, err = run("apply", one)
    assert (status, out) == (1, "")
    assert "Prepare" not in err
    assert f"copydesk apply --approve {one}. " in err, "what a refusal names works"
    status, out, err = run("apply", "--approve", one, two)
    assert (status, err) == (0, "")
    assert "+five" in out
    assert out.count("Approved and wrote") == 2
    text = TEXT.replace("line 5\n", "five\n").replace("line 9\n", "nine\n")
    assert (tmp_path / "a.txt").read_text() == text
    (tmp_path / "a.txt").write_text("new\n" + text)
    status, out, err = run("apply", "--approve", three)
    assert status == 1
    assert "Nothing was decided" in err
    (after,) = re.findall(r"copydesk apply --approve [0-9a-f]{8} --after ([0-9a-f]{64})", out)
    done = json.loads(run("apply", "--approve", three, "--after", after, "--json")[1])
    assert done["edit_id"] == 3
    assert run("apply", "--approve", three, "--json")[0] == 1
    assert run("history")[1].count("done, approved by local") == 3


def test_who_may_not_approve_does_not_write(agent: OpenWorkspace, run: Run, tmp_path: Path) -> None:
    hunk = plan(agent, 5, "five")
    for words in (["--approve"], []):
        status, _, err = run("apply", *words, hunk, "--member", "ann")
        assert (status, commands(err)) == (1, ["review"])
    for word in ("agent", "later answer", "Do other work", "list_", "apply_file"):
        assert word not in err
    assert (tmp_path / "a.txt").read_text() == TEXT


@pytest.mark.slow
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_refusal_has_no_words_of_agents(
    agent: OpenWorkspace, run: Run, tmp_path: Path, lang: str
) -> None:
    names = {"HUNK": 2, "GONE": 4, "CONFLICT": 6, "REJECTED": 8}
    ids = {name: plan(agent, line, "new") for name, line in names.items()}
    agent.desk.discard(agent.member("ann"), ids["GONE"])
    (tmp_path / "a.txt").write_text(TEXT.replace("line 6\n", "other\n"))
    assert run("reject", ids["REJECTED"], "--reason", "too short")[0] == 0
    for line in (
        *("apply 00000000", "apply x", "show 00000000", "discard HUNK", "undo 99", "diff GONE"),
        *("apply GONE", "approve CONFLICT", "apply REJECTED --member ann"),
    ):
        status, _, err = run(*(ids.get(word, word) for word in line.split()), "--lang", lang)
        assert status == 1, line
        assert not re.search(r"[a-z]+_[a-z]+|repare|version|\?", err), err
        assert ("copydesk " in err) or "too short" in err


class Terminal:
    """`copydesk review` on a terminal of its own; its keys need no Enter."""

    def __init__(
        self, root: Path, size: tuple[int, int] = (100, 40), *words: str, **environment: str
    ) -> None:
        self._leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self._seen = ""
        kept = {name: text for name, text in os.environ.items() if name != "NO_COLOR"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "copydesk", "review", *words],
            cwd=root,
            stdin=follower,
            stdout=follower,
            stderr=follower,
            env={**kept, "TERM": "xterm", **environment},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(follower)

    def answer(self, text: str, until: str = "?] ") -> str:
        """Wait for the prompt and give the answer; what was shown before it."""
        shown = self.wait(until)
        self.type(text)
        return shown

    def wait(self, until: str = "?] ") -> str:
        """Wait for the prompt; what was shown before it."""
        return self._read(until)

    def type(self, text: str) -> None:
        os.write(self._leader, text.encode())

    def terminate(self, number: int) -> bool:
        """End the program by a signal; whether the terminal shows again what is typed."""
        self._process.send_signal(number)
        self._process.wait(PATIENCE_SECONDS)
        return bool(termios.tcgetattr(self._leader)[3] & termios.ECHO)

    def end(self, status: int = 0) -> str:
        """All that is still shown; the program has ended well."""
        shown = self._read(None)
        assert self._process.wait(PATIENCE_SECONDS) == status, shown
        os.close(self._leader)
        return shown

    def _read(self, until: str | None) -> str:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while until is None or until not in _plain(self._seen):
            ready, _, _ = select.select([self._leader], [], [], deadline - time.monotonic())
            assert ready, f"no {until!r} in time after: {self._seen}"
            try:
                chunk = os.read(self._leader, 65_536)
            except OSError:  # the end of a terminal whose other side is closed
                chunk = b""
            if not chunk:
                assert until is None, f"ended: {self._seen}"
                break
            self._seen += chunk.decode()
        shown, self._seen = self._seen, ""
        return shown


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


@pytest.mark.slow
def test_the_steps_of_review(agent: OpenWorkspace, tmp_path: Path) -> None:
    """y, n with a reason, e with an editor, s, u, ?, j, w and q, one after the other."""
    yes = plan(agent, 2, "two")
    no = plan(agent, 4, "four")
    edited = plan(agent, 6, "six")
    edits = [{"old_string": f"line {n}\n", "new_string": f"{n}\n"} for n in (10, 20)]
    several = agent.call("ann", "prepare_batch_edit", {"path": "a.txt", "edits": edits})
    last = plan(agent, 28, "last")
    editor = tmp_path / "editor.sh"
    editor.write_text("#!/bin/sh\nprintf 'SIX\\nand a half\\n' > \"$1\"\n")
    editor.chmod(0o755)
    step = Terminal(tmp_path, VISUAL=str(editor))
    assert "\x1b[32m+two\x1b[0m" in step.answer("?")
    step.answer("x")  # no key: the help again
    step.answer("y")
    assert "+four" in step.answer("u")  # back to the first
    assert "+two" in step.answer("y")
    step.answer("n")
    step.answer("\n", until="): ")  # no reason: asked again
    step.answer("n")
    step.answer("say it in words\n", until="): ")
    assert "+six" in step.answer("e")
    assert "+and a half" in step.answer("y")
    assert "+20" in step.answer("s")
    first = _plain(step.answer("w"))
    assert "+10" in first
    assert "+20" not in first
    assert "+20" in step.answer("j")
    assert "+last" in step.answer("q")
    # The count of what was approved, rejected, written, and is left: what is written makes the approvals of that file stale.
    assert re.findall(r"\d+", _plain(step.end())) == ["2", "1", "1", "4"]
    text = TEXT.replace("line 10\n", "10\n")
    assert (tmp_path / "a.txt").read_text() == text
    assert apply(agent, no)["reason"] == "say it in words"
    for hunk in (yes, edited):  # the file is another now: they have to be shown anew
        assert apply(agent, hunk)["why"] == "drifted"
    assert apply(agent, str(several.fields["hunk_id"]))["error"] == "HUNK_NOT_FOUND"
    assert apply(agent, last)["why"] == "member"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
@pytest.mark.parametrize("words", [(), ("--done",)])
def test_a_review_ended_from_outside_gives_the_terminal_back(
    agent: OpenWorkspace, tmp_path: Path, words: tuple[str, ...], number: int
) -> None:
    plan(agent, 20, "twenty")
    agent.call("bob", "create_new_file", {"path": "b.txt", "content": "b\n"})
    step = Terminal(tmp_path, (100, 40), *words)
    step.wait("?] ")
    assert step.terminate(number)
    assert "twenty" not in (tmp_path / "a.txt").read_text()
    step.end(-number)


def test_a_review_that_is_stopped_gives_the_terminal_back(monkeypatch: pytest.MonkeyPatch) -> None:
    leader, follower = pty.openpty()
    echoes: list[bool] = []

    def note_echo(*_: object) -> None:
        echoes.append(bool(termios.tcgetattr(follower)[3] & termios.ECHO))

    with open(follower, encoding="utf-8") as screen:
        monkeypatch.setattr(sys, "stdin", screen)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr(terminal, "has_person", lambda: True)
        monkeypatch.setattr(os, "kill", note_echo)
        with terminal.Keys():
            note_echo()
            signal.raise_signal(signal.SIGTSTP)
            note_echo()
    os.close(leader)
    assert echoes == [False, True, False]
    assert signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL


@pytest.mark.slow
def test_changes_are_decided_on_with_single_keys(agent: OpenWorkspace, tmp_path: Path) -> None:
    for name in ("b.txt", "c.txt", "d.txt"):
        agent.call("bob", "create_new_file", {"path": name, "content": f"{name}\n"})
    step = Terminal(tmp_path, (100, 40), "--done")
    step.answer("\x1b[D")  # an arrow is no k
    again = step.answer("kk")
    assert "quit" in again
    assert "\x1b[32m+b.txt\x1b[0m" in again
    assert "before this was shown: k" in step.answer("u")
    step.answer("no\n", until="empty): ")
    step.answer("\x04")
    assert "1 kept, 1 undone, 0 edited; 1 open." in step.end()
    assert sorted(path.name for path in tmp_path.glob("*.txt")) == ["a.txt", "b.txt", "d.txt"]


@pytest.mark.slow
def test_what_moves_on_meanwhile_is_shown_anew(agent: OpenWorkspace, tmp_path: Path) -> None:
    hunk, other = plan(agent, 20, "twenty"), plan(agent, 5, "five")
    step = Terminal(tmp_path)
    step.answer("?")
    (tmp_path / "a.txt").write_text("new\n" + TEXT)
    step.answer("y")
    again = _plain(step.answer("y"))
    assert "CONTENT_CHANGED" in again
    assert "+twenty" in again
    assert "+five" in step.wait()
    shown = agent.desk.review.show(agent.member("eve"), other)
    agent.desk.review.approve(agent.member("eve"), other, shown.before, shown.after)
    assert "approved by eve" in _plain(step.answer("q"))  # at once, without a key
    step.end()
    assert apply(agent, hunk)["status"] == "ok"
    decision = agent.journal.of((other, shown.plan.created_ms))
    assert decision is not None
    assert decision.by == "eve"


@pytest.mark.slow
def test_a_written_edit_is_taken_back(agent: OpenWorkspace, tmp_path: Path) -> None:
    plan(agent, 5, "five")
    plan(agent, 9, "nine")
    step = Terminal(tmp_path)
    for key in "wuq":
        step.answer(key)
    step.end()
    assert (tmp_path / "a.txt").read_text() == TEXT
    assert [edit.undoes for edit in agent.history("ann")] == [1, 0]


def test_what_would_be_refused_is_not_offered(
    agent: OpenWorkspace, run: Run, tmp_path: Path
) -> None:
    hunk = plan(agent, 5, "five")
    _, out, _ = run("review", "--member", "ann", stdin="y\nn\nq\n")
    assert "[j,q,?]" in out
    assert "approved by a person" in out
    assert agent.desk.review.pending(agent.member("eve"))[0].decision is None
    (tmp_path / "a.txt").write_text(TEXT.replace("line 5\n", "other\n"))
    status, out, err = run("review", stdin="y\nn\nstale\n")
    assert status == 0
    assert "-line 5\n+five\n" in out
    assert "CONTENT_CHANGED" in err
    assert "[n,j,q,?]" in out, "a conflict can only be rejected"
    assert agent.desk.review.pending(agent.member("eve"))[0].decision is not None
    assert apply(agent, hunk)["decisions"][0]["reason"] == "stale"


def test_an_editor_that_gives_no_other_text(
    agent: OpenWorkspace, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan(agent, 5, "five")
    for editor in ("false", "true", "/no/such/editor", "'"):
        monkeypatch.setenv("VISUAL", editor)
        assert run("review", stdin="e\nq\n")[0] == 0
        assert agent.desk.review.pending(agent.member("eve"))[0].plan.edited_by == "", editor


def test_a_comment_goes_to_the_agent_with_its_line(agent: OpenWorkspace, run: Run) -> None:
    hunk = plan(agent, 5, "five")
    status, out, _ = run("review", stdin="m\n5: why not V?\nm\n12 is enough\nm\n\nj\n")
    assert (status, out.count("local comments on line 5: why not V?")) == (0, 2)
    assert "local comments: 12 is enough" in out
    assert "local comments on line 5: why not V?" in run("show", hunk)[1]
    told: Any = agent.call("ann", "list_pending", {}).fields["decisions"]
    said = [(row["verdict"], row.get("line"), row["reason"]) for row in told]
    assert said == [("commented", 5, "why not V?"), ("commented", None, "12 is enough")]


def test_a_line_that_changes_all_over_is_not_left_out(agent: OpenWorkspace, run: Run) -> None:
    """Lines without a counterpart, or with too many changes for the room, are shown whole."""
    plan(agent, 3, f"{'word ' * 1_000}\n{'other ' * 25_000}\n")
    _, out, _ = run("review", stdin="q\n")
    assert "word " * 1_000 in out
    assert "[a,n" in out


def test_of_a_move_both_paths_are_shown(agent: OpenWorkspace, run: Run) -> None:
    agent.call("ann", "prepare_file_move", {"path": "a.txt", "to": "b.txt"})
    assert "a.txt → b.txt  move file" in run("pending")[1]
    assert "a.txt → b.txt: move file by ann" in run("review", stdin="j\n")[1]


def test_nothing_waits_or_the_input_ends(agent: OpenWorkspace, run: Run) -> None:
    assert run("review")[0] == 0
    hunk = plan(agent, 5, "five")
    for typed in ("", "n\n", "?\n"):
        assert run("review", stdin=typed)[0] == 0
    assert agent.desk.review.pending(agent.member("eve"))[0].decision is None
    assert run("approve", hunk)[0] == 0
    assert run("review", stdin="n\n")[0] == 0


@pytest.mark.slow
def test_nothing_unseen_is_approved(agent: OpenWorkspace, run: Run, tmp_path: Path) -> None:
    """A diff that is cut: `y` is offered when all was shown, `approve` wants the digest."""
    content = "".join(f"{number} {'x' * 90}\n" for number in range(2_000))
    hunk = plan(agent, 3, content)
    status, out, _ = run("review", stdin="y\nw\nq\n")
    assert status == 0
    assert "1999 x" not in out
    assert "[a,n" in out
    assert apply(agent, hunk)["status"] == "pending"
    status, _, err = run("approve", hunk)
    assert status == 1
    assert "not all of the change was shown" in err or "show" in err
    assert apply(agent, hunk)["status"] == "pending"
    assert run("--json", "approve", hunk)[0] == 1
    status, out, _ = run("show", hunk)
    assert status == 0
    assert f"+1999 {'x' * 90}" in out
    status, out, _ = run("review", stdin="a\ny\n")
    assert f"+1999 {'x' * 90}" in out
    assert apply(agent, hunk)["status"] == "ok"
    again = plan(agent, 1, content)
    shown = agent.desk.review.show(agent.member("local"), again)
    assert run("approve", again, "--after", shown.after[:12])[0] == 0
    assert apply(agent, again)["status"] == "ok"


@pytest.mark.slow
def test_a_long_line_shows_what_changes(agent: OpenWorkspace, run: Run, tmp_path: Path) -> None:
    """The terminal leaves out what stays of a long line; nothing that changes."""
    (tmp_path / "a.txt").write_text(f"one\n{'a ' * 400_000}old{' b' * 400_000}\nthree\n")
    hunk = plan(agent, 2, f"{'a ' * 400_000}new{' b' * 400_000}\n")
    status, out, _ = run("review", stdin="q\n")
    assert status == 0
    assert len(out) < 3_000
    assert "a old b" in out
    assert "a new b" in out
    assert "unchanged characters" in out
    assert "[y,w,n" in out
    status, out, _ = run("approve", hunk)
    assert status == 0
    assert "a new b" in out
    assert apply(agent, hunk)["status"] == "ok"


@pytest.mark.slow
def test_the_log_of_approvals_is_checked(agent: OpenWorkspace, run: Run, tmp_path: Path) -> None:
    kept, amended, other = plan(agent, 5, "five"), plan(agent, 9, "nine"), plan(agent, 12, "no")
    review, eve = agent.desk.review, agent.member("local")
    review.amend(eve, amended, "neun\n")
    for hunk in (kept, amended):
        shown = review.show(eve, hunk)
        review.approve(eve, hunk, shown.before, shown.after)
        assert apply(agent, hunk)["status"] == "ok"
    review.reject(eve, other, "no")
    agent.call("local", "prepare_file_append", {"path": "a.txt", "content": "x", "apply": "auto"})
    status, out, _ = run("approvals")
    rows = [json.loads(line) for line in out.splitlines()]
    assert status == 0
    told = [(row["hunk_id"], row["approved_by"], row["amended_by"]) for row in rows]
    assert told == [(kept, "local", ""), (amended, "local", "local")]
    for row in rows:
        assert row["approved_before"] == row["digest_before"]
        assert row["approved_after"] == row["digest_after"]
    edits = json.loads(run("history", "--json")[1])
    by = [(row["approved_by"], row["amended_by"]) for row in edits]
    assert by == [("", ""), ("local", "local"), ("local", "")]
    log = tmp_path / "log.jsonl"
    log.write_text(out)
    assert run("undo", str(rows[0]["edit_id"]))[0] == 0
    assert run("approvals", "--check", str(log))[0] == 0, "an undo takes no approval back"
    for name in ("approved_by", "digest_after", "path"):
        log.write_text(json.dumps({**rows[0], name: "other"}) + "\n" + json.dumps(rows[1]) + "\n")
        status, out, _ = run("approvals", "--check", str(log), "--json")
        assert (status, json.loads(out)) == (1, {"checked": 2, "wrong_lines": [1]}), name
    log.write_text("nothing")
    assert run("approvals", "--check", str(log))[0] == 2


def test_a_member_that_is_not_declared_does_not_decide(
    agent: OpenWorkspace, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    hunk = plan(agent, 5, "five")
    rejects = "reject", hunk, "--reason", "no"
    for words in (("approve", hunk), rejects, ("review",), ("apply", "--approve", hunk)):
        status, _, err = run(*words, "--member", "mallory")
        assert (status, "declares no such member" in err) == (1, True), words
    monkeypatch.setenv("COPYDESK_MEMBER", "mallory")
    assert run("approve", hunk)[0] == 1
    monkeypatch.delenv("COPYDESK_MEMBER")
    assert agent.desk.review.pending(agent.member("local"))[0].decision is None
    assert run("approve", hunk)[0] == 0


ALONE = 'durability = "fast"\n[members.local]\napproval = "human"\n'


@pytest.mark.slow
def test_a_person_alone_approves(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "copydesk.toml").write_text(ALONE)
    given = json.dumps({"path": "a.txt", "content": "x\n"})
    status, out, _ = run("call", "prepare_file_append", given)
    assert status == 0
    (hunk,) = re.findall("hunk_id: ([0-9a-f]{8})", out)
    for words in (("approve", hunk), ("reject", hunk, "--reason", "no")):
        status, _, err = run(*words)
        assert (status, "approved by a person" in err) == (1, True), "nobody sees it there"
    monkeypatch.setattr(terminal, "has_person", lambda: True)
    status, _, err = run("approve", hunk, "--member", "mallory")
    assert (status, "declares no such member" in err) == (1, True)
    status, out, _ = run("approve", hunk, "--json")
    assert (status, json.loads(out)["by"]) == (0, "user of local")
    assert run("apply", hunk)[0] == 0
    row = json.loads(run("history", "--json")[1])[0]
    assert (row["member"], row["approved_by"]) == ("local", "user of local")


@pytest.mark.slow
def test_a_person_alone_reviews_at_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "copydesk.toml").write_text(ALONE)
    (tmp_path / "a.txt").write_text("one\n")
    with open_workspace(str(tmp_path)) as opened:
        answer = opened.call("local", "prepare_file_append", {"path": "a.txt", "content": "two\n"})
        assert answer.fields["hunk_id"]
        step = Terminal(tmp_path)
        step.answer("w")
        step.answer("q")
        step.end()
    assert (tmp_path / "a.txt").read_text() == "one\ntwo\n"


MANY = "".join(f"new {number}\n" for number in range(200))


@pytest.mark.slow
@pytest.mark.parametrize("coloured", [True, False], ids=["coloured", "plain"])
@pytest.mark.parametrize("columns", [60, 100, 180])
def test_a_review_on_a_screen_of_any_width(
    agent: OpenWorkspace, tmp_path: Path, columns: int, coloured: bool
) -> None:
    """Words marked, side by side where it is wide, by the page; nothing unseen is approved."""
    (tmp_path / "a.txt").write_text(TEXT + f"alpha {'word ' * 40}omega\n")
    one = plan(agent, 31, f"alpha {'word ' * 20}CHANGED {'word ' * 20}omega\n")
    long = plan(agent, 5, MANY)
    step = Terminal(tmp_path, (columns, 24), **({} if coloured else {"NO_COLOR": "1"}))
    first = step.answer("y")
    pages = [step.wait()]
    step.type("y")
    assert "Not all of it was shown" in step.wait()
    while "More of it follows" in pages[-1] and len(pages) < 30:
        step.type(" ")
        pages.append(step.wait())
    step.type("b")
    assert "new 180" in step.wait()
    step.type("y")
    step.answer("q")
    shown = first + "".join(pages) + step.end()
    assert ("\x1b[" in shown) is coloured
    assert ("\x1b[7mCHANGED" in first) if coloured else ("^^^^^^^" in first)
    assert ("│" in first) is (columns == 180)
    added = re.findall(r"\+new (\d+)$", _plain("".join(pages)).replace("\r", ""), re.MULTILINE)
    assert added == [str(number) for number in range(200)]
    for row in _plain(shown).replace("\r", "").split("\n"):
        assert len(row) <= columns
    for page in pages:
        assert page.rpartition("[2/2] ")[2].count("\n") < 24
    assert "2 approved" in shown
    assert apply(agent, one)["status"] == "ok"
    assert apply(agent, long)["why"] == "drifted"


@pytest.mark.slow
def test_all_of_a_plan_is_shown_by_one_key(agent: OpenWorkspace, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT + f"{'x' * 3_000}\n")
    (tmp_path / "b").write_bytes(b"\0\n")
    plan(agent, 5, MANY)
    plan(agent, 31, f"{'y' * 3_000}\n")
    agent.call("ann", "prepare_file_delete", {"path": "b"})
    step = Terminal(tmp_path, (100, 24))
    step.answer("a")
    whole = _plain(step.answer("y"))
    assert ("+new 199" in whole, "diff is cut" in whole) == (True, False)
    assert "[space,a,n," in step.answer("a")
    assert "[a,n," in step.answer("a"), "of a long line the parts that change were shown"
    shown = _plain(step.answer("y"))
    assert shown.count("y") >= 3_000
    assert "\n1   -" not in _plain(step.answer("q")).replace("\r", ""), "it has no lines"
    assert "2 approved" in step.end()


@pytest.mark.slow
def test_the_queue_is_live_and_leads_back(agent: OpenWorkspace, tmp_path: Path) -> None:
    first = plan(agent, 5, "five")
    step = Terminal(tmp_path, (100, 60))
    assert "(1/1)" in step.answer("j")
    step.wait()
    second = plan(agent, 9, "nine")
    assert "+nine" in _plain(step.wait())  # without a key
    plan(agent, 12, "twelve")
    assert "(2/3)" in step.answer("k")
    assert "+five" in _plain(step.answer("f"))
    together = step.answer("w")
    for text in ("+five", "+nine", "+twelve", "these 3 edits"):
        assert text in _plain(together)
    written = step.wait()
    assert (written.count("Approved and wrote"), "HUNK_NOT_FOUND" in written) == (3, False)
    step.type("u")
    back = _plain(step.answer("n"))
    assert back.count("Undid edit") == 3
    assert "+five" in back
    step.answer("not so\n", until="): ")
    step.answer("\x03")
    assert "0 approved, 1 rejected, 0 written; 2 left" in step.end(130)
    assert (tmp_path / "a.txt").read_text() == TEXT
    assert apply(agent, first)["reason"] == "not so"
    assert apply(agent, second)["status"] == "pending"


@pytest.mark.slow
def test_a_review_begun_before_the_first_agent_sees_its_plan(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    step = Terminal(tmp_path)
    assert "New ones appear here" in step.wait()
    with open_workspace(str(tmp_path), Config(durability="fast")) as opened:
        given = {"path": "a.txt", "range": "5", "content": "five"}
        opened.call("local", "prepare_file_range_edit", given)
    assert "+five" in _plain(step.answer("q"))
    step.end()


@pytest.mark.slow
def test_a_key_typed_before_its_plan_decides_nothing(agent: OpenWorkspace, tmp_path: Path) -> None:
    plan(agent, 5, "five")
    plan(agent, 9, "nine")
    step = Terminal(tmp_path)
    step.answer("yy\n")
    assert "before this was shown: y" in step.answer("q")
    assert "1 approved" in step.end()
    plan(agent, 9, MANY)
    step = Terminal(tmp_path, (80, 24))
    step.answer("j")
    step.answer(" " * 30 + "y")  # before its last page was shown
    step.wait("before this was shown: y")
    step.answer("q", "Approve this edit?")
    assert "0 approved" in step.end()
