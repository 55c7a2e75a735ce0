"""All of it together against a dumb model: plans, drift, applies, transactions, undo, time, restarts.

Every line ever written is another one, so that the model can tell by eye where an
edit belongs. Whatever is refused must have a reason that the model knows of;
whatever is done must leave the very bytes that the model has.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from copydesk.app.config import Config
from copydesk.app.workspace import OpenWorkspace, open_workspace
from support.processes import Facts, outcome

NAMES = ("a.txt", "sub/b.txt", "c.txt")
TTL_SECONDS = 100
START, END = "<start>", "<end>"
names = st.sampled_from(NAMES)
whole = st.integers(0, 10**6)


@dataclass
class Step:
    """What an edit relies on and does, in lines of the model.

    `foot` are lines that must stand together, `keep` says how many of them at its
    start and end stay, the rest becomes `new`. No foot: `new` goes to the end.
    `shaken`: something touched the foot since, so that a refusal is right.
    """

    name: str
    foot: tuple[str, ...]
    keep: tuple[int, int]
    new: tuple[str, ...]
    shaken: bool = False
    until_ms: int = 0

    def place(self, lines: list[str]) -> int | None:
        """Where the foot stands, in lines with both ends, if it stands there in one piece."""
        framed = [START, *lines, END]
        if not self.foot:
            return len(framed) - 1
        if self.foot[0] not in framed:
            return None
        at = framed.index(self.foot[0])
        return at if tuple(framed[at : at + len(self.foot)]) == self.foot else None

    def made(self, lines: list[str]) -> list[str]:
        """The lines after the edit; the foot must stand."""
        framed, at = [START, *lines, END], self.place(lines)
        assert at is not None
        first, last = at + self.keep[0], at + len(self.foot) - self.keep[1]
        return [*framed[:first], *self.new, *framed[last:]][1:-1]

    def undone(self, lines: list[str]) -> Step:
        """What takes the edit back, that is about to be made in `lines`."""
        framed, at = [START, *lines, END], self.place(lines)
        assert at is not None
        first, last = at + self.keep[0], at + len(self.foot) - self.keep[1]
        old = tuple(framed[first:last])
        if self.new:
            return Step(self.name, self.new, (0, 0), old)
        return Step(self.name, (framed[first - 1], framed[last]), (1, 1), old)


@dataclass
class Made:
    """An edit that was written: what takes it back, what it took back, whether it is undone."""

    back: Step
    took_back: Made | None = None
    undone: bool = False


class Machine(RuleBasedStateMachine):
    """The rules. The clock is ours; the files are real, and so is the state folder."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)
        (self.root / "sub").mkdir()
        self.lines: dict[str, list[str]] = {}
        self.plans: dict[str, Step] = {}
        self.gone: dict[str, str] = {}
        self.made: dict[int, Made] = {}
        self.count = 0
        self.now_ms = 1_700_000_000_000
        self.opened: OpenWorkspace | None = None

    @initialize()
    def begin(self) -> None:
        """Three files of some lines."""
        for name in NAMES:
            self.lines[name] = self.fresh(8)
            self.write(name)
        self.restart()

    def teardown(self) -> None:
        """Close what is open."""
        if self.opened is not None:
            self.opened.close()
        self.folder.cleanup()

    def fresh(self, count: int) -> list[str]:
        """Lines that never were."""
        self.count += count
        return [f"line {n} of all" for n in range(self.count - count, self.count)]

    def write(self, name: str) -> None:
        """Another program writes the file."""
        (self.root / name).write_text("".join(f"{line}\n" for line in self.lines[name]))

    def call(self, tool: str, **args: Any) -> Facts:
        """The answer of a tool."""
        assert self.opened is not None
        self.now_ms += 1
        return outcome(self.opened, tool, **args)

    def shake(self, name: str, before: list[str], after: list[str]) -> None:
        """Whoever relied on what is no longer together may be refused from now on."""
        steps = [*self.plans.values(), *(made.back for made in self.made.values())]
        for step in steps:
            if step.name == name and step.place(before) is not None and step.place(after) is None:
                step.shaken = True

    def put(self, name: str, after: list[str]) -> None:
        """The model's file is another one now."""
        self.shake(name, self.lines[name], after)
        self.lines[name] = after

    @rule()
    def restart(self) -> None:
        """The process ends and another one begins."""
        if self.opened is not None:
            self.opened.close()
        config = Config(durability="fast", ttl_seconds=TTL_SECONDS)
        self.opened = open_workspace(str(self.root), config, clock=lambda: self.now_ms)

    @rule(name=names, at=whole, size=st.integers(1, 3), new=st.integers(0, 3))
    def prepare_range(self, name: str, at: int, size: int, new: int) -> None:
        """Replace or delete lines by number."""
        lines = self.lines[name]
        if not lines:
            return
        start = at % len(lines)
        stop = min(start + size, len(lines))
        texts = self.fresh(new)
        content = "".join(f"{text}\n" for text in texts)
        range_text = f"{start + 1}~{stop}"
        facts = self.call("prepare_file_range_edit", path=name, range=range_text, content=content)
        self.planned(facts, Step(name, tuple(lines[start:stop]), (0, 0), tuple(texts)))

    @rule(name=names, at=whole, new=st.integers(1, 3), after=st.booleans())
    def prepare_insert(self, name: str, at: int, new: int, after: bool) -> None:
        """Insert lines beside one that is named."""
        lines = self.lines[name]
        if not lines:
            return
        anchor, texts = lines[at % len(lines)], self.fresh(new)
        tool = f"prepare_file_insert_{'after' if after else 'before'}"
        content = "".join(f"{text}\n" for text in texts)
        facts = self.call(tool, path=name, anchor=anchor, match="equals", content=content)
        self.planned(facts, Step(name, (anchor,), (1, 0) if after else (0, 1), tuple(texts)))

    @rule(name=names, new=st.integers(1, 3))
    def prepare_append(self, name: str, new: int) -> None:
        """Add lines at the end."""
        texts = self.fresh(new)
        content = "".join(f"{text}\n" for text in texts)
        facts = self.call("prepare_file_append", path=name, content=content)
        self.planned(facts, Step(name, (), (0, 0), tuple(texts)))

    def planned(self, facts: Facts, step: Step) -> None:
        """A plan is never refused here."""
        assert facts["status"] == "ok", facts
        step.until_ms = facts["expires_at_ms"]
        self.plans[facts["hunk_id"]] = step

    @rule(name=names, at=whole, kind=st.sampled_from(["insert", "delete", "change"]))
    def somebody_else_writes(self, name: str, at: int, kind: str) -> None:
        """A line is put in, taken out or changed by a program that asks nobody."""
        lines = list(self.lines[name])
        spot = at % (len(lines) + 1)
        if kind == "insert":
            lines[spot:spot] = self.fresh(1)
        elif spot < len(lines):
            lines[spot : spot + 1] = self.fresh(1) if kind == "change" else []
        self.put(name, lines)
        self.write(name)

    @precondition(lambda self: self.plans)
    @rule(pick=whole)
    def apply(self, pick: int) -> None:
        """Write a plan, which may have expired."""
        hunk_id = self.pick(pick)
        step = self.plans[hunk_id]
        facts = self.call("apply_file_modification", hunk_id=hunk_id)
        if self.now_ms >= step.until_ms:
            assert (facts["error"], facts["reason"]) == ("HUNK_NOT_FOUND", "expired")
            self.end(hunk_id, "expired")
        elif facts["status"] == "ok":
            self.written(hunk_id, facts["edit_id"])
        else:
            assert step.shaken or step.place(self.lines[step.name]) is None, (facts, step)

    @precondition(lambda self: len(self.plans) > 1)
    @rule(picks=st.lists(whole, min_size=2, max_size=4))
    def apply_together(self, picks: list[int]) -> None:
        """Write several plans, all or none."""
        hunk_ids = list(dict.fromkeys(self.pick(pick) for pick in picks))
        facts = self.call("apply_file_modifications", hunk_ids=hunk_ids)
        expired = [h for h in hunk_ids if self.now_ms >= self.plans[h].until_ms]
        if expired:
            assert facts["error"] == "HUNK_NOT_FOUND", facts
            return
        if facts["status"] == "ok":
            edits = {row["hunk_id"]: row["edit_id"] for row in facts["hunks"]}
            for hunk_id in sorted(edits, key=lambda h: (self.plans[h].until_ms, h)):
                self.written(hunk_id, edits[hunk_id])
            return
        trial = {name: list(lines) for name, lines in self.lines.items()}
        sound = True
        for hunk_id in sorted(hunk_ids, key=lambda h: (self.plans[h].until_ms, h)):
            step = self.plans[hunk_id]
            if step.shaken or step.place(trial[step.name]) is None:
                sound = False
            else:
                trial[step.name] = step.made(trial[step.name])
        assert not sound, facts

    def written(self, hunk_id: str, edit_id: int) -> None:
        """The model makes the edit too."""
        step = self.plans[hunk_id]
        lines = self.lines[step.name]
        assert step.place(lines) is not None, step
        back = step.undone(lines)
        self.end(hunk_id, "applied")
        self.put(step.name, step.made(lines))
        if edit_id:
            self.made[edit_id] = Made(back)

    @precondition(lambda self: self.made)
    @rule(pick=whole)
    def undo(self, pick: int) -> None:
        """Take an edit back, or an undo."""
        edit_id = list(self.made)[pick % len(self.made)]
        made = self.made[edit_id]
        step = made.back
        facts = self.call("undo_file_modification", edit_id=edit_id)
        if facts["status"] != "ok":
            lines = self.lines[step.name]
            assert made.undone or step.shaken or step.place(lines) is None, (facts, step)
            return
        lines = self.lines[step.name]
        assert not made.undone, facts
        assert step.place(lines) is not None, (facts, step)
        again = step.undone(lines)
        self.put(step.name, step.made(lines))
        made.undone = True
        if made.took_back is not None:
            made.took_back.undone = False
        self.made[facts["edit_id"]] = Made(again, made)

    @precondition(lambda self: self.plans)
    @rule(pick=whole)
    def discard(self, pick: int) -> None:
        """Let a plan go."""
        hunk_id = self.pick(pick)
        facts = self.call("discard_hunk", hunk_id=hunk_id)
        late = self.now_ms >= self.plans[hunk_id].until_ms
        assert facts["status"] == ("error" if late else "ok"), facts
        self.end(hunk_id, "expired" if late else "discarded")

    @precondition(lambda self: self.gone)
    @rule(pick=whole)
    def apply_what_is_gone(self, pick: int) -> None:
        """It is known how a plan ended."""
        hunk_id = list(self.gone)[pick % len(self.gone)]
        facts = self.call("apply_file_modification", hunk_id=hunk_id)
        assert (facts["error"], facts["reason"]) == ("HUNK_NOT_FOUND", self.gone[hunk_id])

    @rule(seconds=st.sampled_from([1, 1, 1, TTL_SECONDS // 2, TTL_SECONDS]))
    def time_passes(self, seconds: int) -> None:
        """Some plans expire."""
        self.now_ms += 1_000 * seconds

    def pick(self, pick: int) -> str:
        """One of the plans that the model still has."""
        return list(self.plans)[pick % len(self.plans)]

    def end(self, hunk_id: str, how: str) -> None:
        """The plan is gone."""
        del self.plans[hunk_id]
        self.gone[hunk_id] = how

    @invariant()
    def the_files_are_those_of_the_model(self) -> None:
        """Byte for byte."""
        for name, lines in self.lines.items():
            text = "".join(f"{line}\n" for line in lines)
            assert (self.root / name).read_bytes() == text.encode(), name

    @invariant()
    def what_waits_is_what_waits(self) -> None:
        """No plan is lost, none comes back."""
        if self.opened is None:
            return
        waiting = {plan.id for plan in self.opened.pending(self.opened.config.member)}
        assert waiting == {h for h, step in self.plans.items() if step.until_ms > self.now_ms}


def examples(count: int, steps: int) -> settings:
    """How much is tried."""
    return settings(
        max_examples=count,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.slow
def test_all_together_is_what_the_model_says() -> None:
    run_state_machine_as_test(Machine, settings=examples(10, 40))


@pytest.mark.slow
def test_all_together_for_long_is_what_the_model_says() -> None:
    run_state_machine_as_test(Machine, settings=examples(120, 60))


def test_an_edit_within_a_transaction_is_taken_back_after_another_program_wrote() -> None:
    """What the model once found: the text between two edits of one file never stood on the disk."""
    machine = Machine()
    try:
        machine.begin()
        machine.prepare_append("c.txt", 1)
        machine.prepare_insert("c.txt", 0, 1, after=False)
        machine.apply_together([0, 1])
        machine.somebody_else_writes("c.txt", 0, "insert")
        machine.undo(0)
        machine.the_files_are_those_of_the_model()
        assert machine.made[1].undone
    finally:
        machine.teardown()
