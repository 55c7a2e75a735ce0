"""The token cost of agents: `python -m bench.economy [--answers]`, the last section of the results.

Each task is done by every agent of `bench.agents`, and its files must have the right bytes at the
end. Calls are counted, and the tokens (`cl100k_base`) of the arguments and answers of all calls.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.agents import AGENTS, Agent, Call, Copydesk, Edit, EditUnread
from bench.arena import Cell
from bench.habits import PlayedLikeEdit
from bench.installing import Installed, count_tokens, install
from bench.report import VERDICTS, section_text
from bench.results import Bar, Section, Table
from bench.setting import Setting
from bench.tasks import Task, other_tasks, tasks, write_bytes

PLAYERS: tuple[type[Agent], ...] = (Copydesk, PlayedLikeEdit, *AGENTS[1:])
MOST_CALLS = 32
"""Of copydesk, in the first set of tasks."""


@dataclass
class Outcome:
    """What a task took one agent; `wrong` names the files that are not as they must be."""

    calls: Sequence[Call]
    wrong: Sequence[str]
    tokens: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Of each call: its arguments, its answer."""

    offered: str = ""
    """The list of tools and the instructions, of a server; it is no call."""

    @property
    def texts(self) -> list[str]:
        """What is to be counted, two for each call."""
        if self.offered:
            return [self.offered, ""]
        return [text for call in self.calls for text in (call.arguments, call.answer)]

    @property
    def total(self) -> int:
        """All tokens."""
        return sum(map(sum, self.tokens))

    @property
    def shown(self) -> str:
        """For the table."""
        return "wrong" if self.wrong else f"{len(self.calls)} · {self.total:,}"


Outcomes = dict[str, dict[str, Outcome]]
"""By agent, then by task."""

OFFERED = "list and instructions"
"""The row of what each request pays for; no task, and no call."""


def played(task: Task, agent: Agent) -> Outcome:
    """Let an agent do a task."""
    for path, text in task.files.items():
        write_bytes(agent.root / path, text, task.newline)
    agent.begin()
    task.play(agent)
    expected = {
        path: text.replace("\n", task.newline).encode() for path, text in task.after.items()
    }
    wrong = [path for path, data in expected.items() if not same(agent.root / path, data)]
    return Outcome(agent.calls, wrong)


def same(path: Path, data: bytes) -> bool:
    """Whether the file is there, with these bytes."""
    return path.is_file() and path.read_bytes() == data


def outcomes(made: Sequence[Task], home: Path, found: Installed) -> Outcomes:
    """All tasks by all agents, counted."""
    every: Outcomes = {}
    for kind in PLAYERS:
        by_task = every.setdefault(kind.name, {})
        for at, task in enumerate(made):
            # A folder each: files of another task that went would be told, as a person's would.
            root = home / kind.__name__ / str(at)
            root.mkdir(parents=True)
            agent = kind(root)
            try:
                by_task[task.name] = played(task, agent)
            finally:
                agent.close()
            offered = Outcome([], [], [(agent.offered_tokens, 0)], agent.offered)
        by_task[OFFERED] = offered
    listed = [outcome for by_task in every.values() for outcome in by_task.values()]
    texts = [text for one in listed for text in one.texts]
    counts = iter(count_tokens(found, texts, "cl100k_base"))
    for outcome in listed:
        if outcome.texts:
            outcome.tokens = [(next(counts), next(counts)) for _ in outcome.texts[::2]]
    return every


def table(caption: str, every: Outcomes) -> Table:
    """Rows are tasks, columns agents."""
    names = [*next(iter(every.values())), "all"]
    cells = [Cell(name, "copydesk" if name == "all" else "peer") for name in names]
    columns = {
        agent: {**{name: one.shown for name, one in by_task.items()}, "all": summed(by_task)}
        for agent, by_task in every.items()
    }
    return Table(caption, cells, None, columns, memory=False)


def summed(by_task: Mapping[str, Outcome]) -> str:
    """Calls and tokens of all tasks."""
    return f"{calls_of(by_task)} · {tokens_of(by_task):,}"


def calls_of(by_task: Mapping[str, Outcome]) -> int:
    """All calls."""
    return sum(len(one.calls) for one in by_task.values())


def tokens_of(by_task: Mapping[str, Outcome]) -> int:
    """All tokens."""
    return sum(one.total for one in by_task.values())


def bars(every: Outcomes, most_calls: int | None) -> list[Bar]:
    """Every file right, at most so many calls, and no more tokens than either form of Edit.

    Played like Edit, copydesk may take a twentieth more. All sums have the lists of tools.
    """
    own = every[Copydesk.name]
    made = tokens_of(own)
    wrong = sorted(name for name, outcome in own.items() if outcome.wrong)
    told = [Bar("every file right", ", ".join(wrong) or "yes", not wrong)]
    if most_calls is not None:
        calls = calls_of(own)
        told.append(Bar(f"at most {most_calls} calls", str(calls), calls <= most_calls))
    for kind, words in ((Edit, "Edit that reads first"), (EditUnread, "the cheapest Edit")):
        theirs = tokens_of(every[kind.name])
        shown = f"{made:,} against {theirs:,}"
        told.append(Bar(f"no more tokens than {words}", shown, made <= theirs))
    like = tokens_of(every[PlayedLikeEdit.name])
    shown = f"{like:,} against {theirs:,}"
    told.append(Bar("played like Edit, at most 1.05 times that", shown, like <= 1.05 * theirs))
    return told


SETS: Mapping[str, tuple[Callable[[], list[Task]], int | None]] = {
    "sixteen tasks": (tasks, MOST_CALLS),
    "other tasks": (other_tasks, None),
}


def measured(home: Path, found: Installed) -> tuple[Section, dict[str, Outcomes]]:
    """The section, and what it was made of."""
    section = Section("W10", "What an agent pays")
    section.notes = [
        "Calls · tokens of `cl100k_base`, in the arguments and the answers of all calls. Each set "
        "of tools has a fixed policy, starts from the same knowledge, and is shown the same lines "
        "before it changes them; every file must have the right bytes at the end. copydesk is the "
        'real server, with `apply = "auto"` for the member.',
        "The others are models, each in its cheapest form (paths relative, no reminders). `Edit` "
        "replaces a string, with a `Grep` before it. `Edit, reads first` has the rule of Claude "
        "Code that a file is read before it is edited, and again when it has changed; its older "
        "form answers with the lines around. `apply_patch` is that of Codex, with `rg` and `sed` "
        "in a shell. None of them undoes, keeps several files all or none (but for apply_patch "
        "before it writes), or sees another writer's change by itself.",
        "Each sum has the list of tools with the server's instructions, once: of copydesk the "
        "toolset `edit`, of Edit the five tools that Claude Code lists, of apply_patch its grammar "
        "and a bare shell. `copydesk, played like Edit` follows `bench/habits.py`.",
    ]
    all_of: dict[str, Outcomes] = {}
    if "tokens" not in found.python:
        section.failed = True
        return section, all_of
    for name, (made, most_calls) in SETS.items():
        all_of[name] = outcomes(made(), home / name.replace(" ", "-"), found)
        section.tables.append(table(name, all_of[name]))
        section.bars += [
            Bar(f"{name}: {bar.asked}", bar.measured, bar.met)
            for bar in bars(all_of[name], most_calls)
        ]
    return section, all_of


def run(bench: Setting) -> Section:
    """The section of the whole benchmark."""
    section, _ = measured(bench.folder("economy"), bench.found)
    return section


def main() -> int:
    """Print the tables; 1 when they could not be made."""
    parser = argparse.ArgumentParser(prog="python -m bench.economy")
    parser.add_argument("--answers", action="store_true", help="what copydesk was asked and said")
    options = parser.parse_args()
    found = install(quick=True, only=("bpe-openai",))
    with tempfile.TemporaryDirectory(prefix="economy-") as home:
        section, all_of = measured(Path(home), found)
    print(section_text(section))
    for bar in section.bars:
        print(f"{VERDICTS[bar.met]:12} {bar.asked}: {bar.measured}")
    for every in all_of.values() if options.answers else ():
        for name, outcome in every[Copydesk.name].items():
            print(f"\n## {name}: {outcome.shown}")
            for call, (given, answered) in zip(outcome.calls, outcome.tokens, strict=False):
                print(f"\n{call.tool} {call.arguments}   [{given}]\n{call.answer}   [{answered}]")
    return int(section.failed)


if __name__ == "__main__":
    sys.exit(main())
