"""The models in the benchmark of what an agent pays: they do their tasks, and cost what they say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from bench.agents import (
    AGENTS,
    Agent,
    ApplyPatch,
    Copydesk,
    Edit,
    EditUnread,
    EditWithSnippet,
    Lines,
    hunks_of,
)
from bench.economy import PLAYERS, Outcome, bars, played, table
from bench.habits import PlayedLikeEdit
from bench.tasks import Task, both, other_tasks, swap, tasks

TEXT = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n"
MODELS = tuple(kind for kind in AGENTS if kind is not Copydesk)
try:  # on texts of the standard library, which changes
    EVERY = {task.name: task for task in (*tasks(), *other_tasks())}
except AssertionError as missing:
    reason = f"the tasks are of another version of Python: {missing}"
    pytest.skip(reason, allow_module_level=True)

MODIFIED = (
    "File has been modified since read, either by the user or by a linter. "
    "Read it again before attempting to write it."
)


def at(kind: type[Agent], root: Path, text: str = TEXT) -> Agent:
    """An agent with one file, of which it was shown all."""
    (root / "f").write_text(text, newline="")
    agent = kind(root)
    agent.read("f", 1, text.count("\n"))
    agent.calls.clear()
    return agent


@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", EVERY)
def test_a_model_does_every_task(tmp_path: Path, kind: type[Agent], name: str) -> None:
    outcome = played(EVERY[name], kind(tmp_path))
    assert not outcome.wrong
    assert outcome.calls


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Copydesk, PlayedLikeEdit])
def test_copydesk_does_every_task(tmp_path: Path, kind: type[Copydesk | PlayedLikeEdit]) -> None:
    agent = kind(tmp_path)
    assert "prepare_file_range_edit" in agent.offered
    try:
        wrong = {name: played(task, agent).wrong for name, task in EVERY.items()}
    finally:
        agent.close()
    assert not any(wrong.values()), wrong


def test_the_tasks_are_as_many_as_the_bar_is_for() -> None:
    assert len(tasks()) == 16
    assert len(EVERY) == 16 + len(other_tasks())


def test_a_wrong_file_is_seen(tmp_path: Path) -> None:
    def wrong(agent: Agent) -> None:
        agent.write("f", "wrong\n")

    outcome = played(Task("t", {}, wrong, {"f": "right\n", "g": ""}), Edit(tmp_path))
    assert outcome.wrong == ["f", "g"]
    assert outcome.shown == "wrong"
    right = Outcome([], [])
    every = {kind.name: {"t": outcome if kind is Copydesk else right} for kind in PLAYERS}
    assert [bar.met for bar in bars(every, 32)] == [False, True, True, True, True]
    assert table("", every).extra[Copydesk.name] == {"t": "wrong", "all": "1 · 0"}


def test_what_was_not_shown_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "f").write_text(TEXT)
    agent = Edit(tmp_path)
    agent.read("f", 1, 3)
    with pytest.raises(AssertionError, match="was not shown"):
        agent.change("f", swap("seven", "SEVEN"))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (swap("two\n", "2\n"), [Lines(1, 2, ("2\n",))]),
        (swap("two\n", ""), [Lines(1, 2, ())]),
        (swap("two\n", "two\nmore\n"), [Lines(2, 2, ("more\n",))]),
        # what is between near places is written again, as a model does
        (both(swap("two", "2"), swap("four", "4")), [Lines(1, 4, ("2\n", "three\n", "4\n"))]),
        (
            both(swap("two", "2"), swap("six", "6")),
            [Lines(1, 2, ("2\n",)), Lines(5, 6, ("6\n",))],
        ),
    ],
)
def test_places(change: Callable[[str], str], expected: list[Lines]) -> None:
    lines = TEXT.splitlines(keepends=True)
    new = change(TEXT).splitlines(keepends=True)
    assert hunks_of(lines, new, set(range(len(lines)))) == expected


def test_edit_names_the_old_text_and_what_makes_it_unique(tmp_path: Path) -> None:
    agent = at(Edit, tmp_path, "a\nx\nb\nx\nc\n")
    assert agent.change("f", lambda text: text.replace("b\nx\n", "b\ny\n"))
    (call,) = agent.calls
    assert call.arguments == r'{"file_path":"f","old_string":"b\nx","new_string":"b\ny"}'
    assert call.answer == "The file f has been updated successfully."
    assert (tmp_path / "f").read_text() == "a\nx\nb\ny\nc\n"


def test_edit_can_answer_with_lines(tmp_path: Path) -> None:
    agent = at(EditWithSnippet, tmp_path)
    assert agent.change("f", swap("six", "6"))
    shown = agent.calls[0].answer.partition(":\n")[2]
    assert (
        shown == "2\ttwo\n3\tthree\n4\tfour\n5\tfive\n6\t6\n7\tseven\n8\teight\n9\tnine\n10\tten\n"
    )


def test_edit_wants_a_file_read_again_that_has_changed(tmp_path: Path) -> None:
    agent = at(Edit, tmp_path)
    (tmp_path / "f").write_text(f"zero\n{TEXT}")
    assert not agent.change("f", swap("six", "6"))
    assert [call.tool for call in agent.calls] == ["Edit", "Read"]
    assert agent.calls[0].answer == MODIFIED
    assert agent.change("f", swap("six", "6"))
    assert (tmp_path / "f").read_text() == f"zero\n{TEXT.replace('six', '6')}"


def test_edit_without_that_rule_sees_only_that_the_text_is_gone(tmp_path: Path) -> None:
    agent = at(EditUnread, tmp_path)
    (tmp_path / "f").write_text(f"zero\n{TEXT}")
    assert agent.change("f", swap("six", "6"))
    (tmp_path / "f").write_text(TEXT.replace("two", "TWO"))
    assert not agent.change("f", swap("two", "2"))
    assert agent.calls[1].answer == "String to replace not found in file.\nString: two"


@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.__name__)
def test_line_ends_stay(tmp_path: Path, kind: type[Agent]) -> None:
    agent = at(kind, tmp_path, TEXT.replace("\n", "\r\n"))
    assert agent.change("f", swap("six\n", "6\nmore\n"))
    assert (tmp_path / "f").read_bytes() == (
        TEXT.replace("six\n", "6\nmore\n").replace("\n", "\r\n").encode()
    )


def test_a_patch_has_three_lines_around_each_place(tmp_path: Path) -> None:
    agent = at(ApplyPatch, tmp_path)
    assert agent.change("f", both(swap("one\n", "1\n"), swap("nine", "9")))
    (call,) = agent.calls
    assert call.arguments == (
        "*** Begin Patch\n*** Update File: f\n"
        "@@\n-one\n+1\n two\n three\n four\n"
        "@@\n six\n seven\n eight\n-nine\n+9\n ten\n"
        "*** End Patch"
    )
    assert call.answer == "Success. Updated the following files:\nM f\n"


def test_a_patch_of_lines_that_are_gone_writes_nothing(tmp_path: Path) -> None:
    agent = at(ApplyPatch, tmp_path)
    now = TEXT.replace("six", "SIX")
    (tmp_path / "f").write_text(now)
    agent.change_all({"f": swap("six", "6")}, {"new": "text\n"})
    wanted = "three\nfour\nfive\nsix\nseven\neight\nnine\n"
    failed = f"apply_patch verification failed: Failed to find expected lines in f:\n{wanted}"
    assert agent.calls[0].answer == failed
    assert (tmp_path / "f").read_text() == now
    assert not (tmp_path / "new").exists()


def test_a_search_prints_as_rg_does(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a").write_text(TEXT)
    (tmp_path / "d" / "b").write_text("two\n")
    (tmp_path / "d" / ".hidden").write_text("two\n")
    agent = EditUnread(tmp_path)
    agent.find("two|nine", "d", 1, 0)
    assert agent.calls[0].answer == (
        "d/a-1-one\nd/a:2:two\n--\nd/a-8-eight\nd/a:9:nine\n--\nd/b:1:two\n"
    )
    agent.find("two|nine", "d/a")
    assert agent.calls[1].answer == "2:two\n9:nine\n"
