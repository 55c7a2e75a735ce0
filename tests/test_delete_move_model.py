"""Files are created, edited, moved, deleted, and each of it taken back in any order, against a model.

Every file of the model has an identity that moves and deletions do not change. What is done
leaves the very bytes and modes that the model has; what is refused changes nothing, and the
model knows why.
"""

from __future__ import annotations

import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from copydesk import Desk
from copydesk.edit.request import DeleteFile, MoveFile, RangeEdit
from copydesk.errors import ContentChanged, FileExists, FileNotFound, NotAFile, Refusal

NAMES = ("a", "b", "d/a", "d/e/b", "f/g")
LINES = 5
MODES = (0o600, 0o640, 0o755)

names = st.sampled_from(NAMES)
numbers = st.integers(0, 1_000)


@dataclass(eq=False)
class ModelFile:
    """One file: where it is, if it is anywhere, and its lines."""

    path: str | None
    lines: list[str]
    mode: int
    is_as_before: bool = False
    """Whether it is as it was deleted another time than the last: later edits of it are gone."""


@dataclass
class Done:
    """One edit: of which file, and what it did."""

    edit_id: int
    file: ModelFile
    kind: str
    line: int = 0
    old: str = ""
    new: str = ""
    lines: tuple[str, ...] = ()
    """The lines of a file that was deleted."""


class Files(RuleBasedStateMachine):
    """The machine; `real` is the workspace, the rest the model."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.root = Path(self._folder.name)
        self.real = Desk(self.root)
        self.files: list[ModelFile] = []
        self.done: list[Done] = []
        self.count = 0
        self.undoes: dict[int, int] = {}

    def teardown(self) -> None:
        self.real.close()
        self._folder.cleanup()

    def at(self, path: str) -> ModelFile | None:
        return next((one for one in self.files if one.path == path), None)

    def fresh(self) -> str:
        self.count += 1
        return f"line {self.count}"

    def pick(self, number: int) -> ModelFile:
        here = [one for one in self.files if one.path]
        return here[number % len(here)]

    def some(self) -> bool:
        return any(one.path for one in self.files)

    @rule(path=names, number=numbers)
    def create(self, path: str, number: int) -> None:
        if self.at(path):
            return
        lines = [self.fresh() for _ in range(LINES)]
        made = self.real.create(path, "".join(f"{one}\n" for one in lines))
        mode = MODES[number % len(MODES)]
        (self.root / path).chmod(mode)
        file = ModelFile(path, lines, mode)
        self.files.append(file)
        self.done.append(Done(made.edit_id, file, "create"))

    @precondition(some)
    @rule(number=numbers)
    def edit(self, number: int) -> None:
        file = self.pick(number)
        assert file.path
        line, new = number % LINES, self.fresh()
        request = RangeEdit(self.real.path(file.path), str(line + 1), f"{new}\n")
        edit_id = self.real.apply(self.real.prepare(request).id).edit_id
        self.done.append(Done(edit_id, file, "edit", line, file.lines[line], new))
        file.lines[line] = new

    @precondition(some)
    @rule(number=numbers, to=names)
    def move(self, number: int, to: str) -> None:
        file = self.pick(number)
        assert file.path
        request = MoveFile(self.real.path(file.path), self.real.path(to))
        if self.at(to):
            with pytest.raises(FileExists):
                self.real.prepare(request)
            return
        edit_id = self.real.apply(self.real.prepare(request).id).edit_id
        self.done.append(Done(edit_id, file, "move", old=file.path, new=to))
        file.path = to

    @precondition(some)
    @rule(number=numbers)
    def delete(self, number: int) -> None:
        file = self.pick(number)
        assert file.path
        plan = self.real.prepare(DeleteFile(self.real.path(file.path)))
        edit_id, lines = self.real.apply(plan.id).edit_id, tuple(file.lines)
        self.done.append(Done(edit_id, file, "delete", old=file.path, lines=lines))
        file.path = None

    @precondition(some)
    @rule(number=numbers)
    def edit_and_move(self, number: int) -> None:
        """Both in one transaction, to the first name that is free."""
        file = self.pick(number)
        free = [name for name in NAMES if not self.at(name)]
        if not free or not file.path:
            return
        line, new = number % LINES, self.fresh()
        path, to = self.real.path(file.path), self.real.path(free[0])
        plans = [
            self.real.prepare(MoveFile(path, to)),
            self.real.prepare(RangeEdit(path, str(line + 1), f"{new}\n")),
        ]
        moved, edited = self.real.apply_all(*(plan.id for plan in plans)).applied
        self.done.append(Done(edited.edit_id, file, "edit", line, file.lines[line], new))
        self.done.append(Done(moved.edit_id, file, "move", old=file.path, new=free[0]))
        file.lines[line], file.path = new, free[0]

    @precondition(lambda self: bool(self.done))
    @rule(number=numbers)
    def undo(self, number: int) -> None:
        one = self.done[number % len(self.done)]
        refused, edit_id = self.refused(one), 0
        refusal: Refusal | None = None
        try:
            edit_id = self.real.undo(one.edit_id).edit_id
        except Refusal as found:
            refusal = found
        if refusal is not None:
            assert refused, f"{one} was refused: {refusal}"
            assert isinstance(refusal, ContentChanged | FileExists | FileNotFound | NotAFile)
            return
        assert refused in ("", "touched"), f"{one} was taken back, and should not: {refused}"
        self.take_back(one, edit_id)

    def refused(self, one: Done) -> str:
        """Why an edit cannot be taken back; `touched`: it need not be possible."""
        file = one.file
        if self.is_undone(one):
            return "undone already"
        if one.kind == "delete" and file.path is None and self.was_back(one):
            return "touched"
        if one.kind == "delete":
            return "" if file.path is None and not self.at(one.old) else "its name is taken"
        if file.path is None:
            return "it is deleted"
        if file.is_as_before:
            return "touched"
        if one.kind == "move":
            return "moved on" if file.path != one.new or self.at(one.old) else ""
        if one.kind == "create":
            since = [each for each in self.done if each.file is file and each.edit_id > one.edit_id]
            return "touched" if any(each.kind == "edit" for each in since) else ""
        is_there = file.lines[one.line] == one.new
        return "" if is_there and self.last_of(file, one.line) is one else "touched"

    def is_undone(self, one: Done) -> bool:
        """Whether an edit took it back that was not taken back itself."""
        by = [each for each in self.done if self.undoes.get(each.edit_id) == one.edit_id]
        return any(not self.is_undone(each) for each in by)

    def was_back(self, one: Done) -> bool:
        """Whether a deletion was taken back before, and that was, too."""
        return one.edit_id in self.undoes.values()

    def last_of(self, file: ModelFile, line: int) -> Done | None:
        found = [d for d in self.done if d.file is file and d.kind == "edit" and d.line == line]
        return found[-1] if found else None

    def take_back(self, one: Done, edit_id: int) -> None:
        file = one.file
        if one.kind == "edit":
            assert file.lines[one.line] == one.new
            back = Done(edit_id, file, "edit", one.line, one.new, one.old)
            file.lines[one.line] = one.old
        elif one.kind == "move":
            back = Done(edit_id, file, "move", old=one.new, new=one.old)
            file.path = one.old
        elif one.kind == "delete":
            back = Done(edit_id, file, "create")
            file.path, file.lines = self.restored(one)
        else:
            lines = tuple(file.lines)
            back = Done(edit_id, file, "delete", old=file.path or "", lines=lines)
            file.path = None
        self.undoes[edit_id] = one.edit_id
        self.done.append(back)

    def restored(self, one: Done) -> tuple[str, list[str]]:
        """Where a file is again, and its lines: as it was deleted this time, or another time."""
        if not self.was_back(one):
            return one.old, [*one.lines]
        one.file.is_as_before = True
        times = [each for each in self.done if each.file is one.file and each.kind == "delete"]
        there = [
            each for each in times if not self.at(each.old) and (self.root / each.old).exists()
        ]
        texts = {each.old: (self.root / each.old).read_text() for each in there}
        (found,) = {
            (each.old, each.lines)
            for each in there
            if texts[each.old] == "".join(f"{line}\n" for line in each.lines)
        }
        return found[0], [*found[1]]

    @invariant()
    def the_files_are_those_of_the_model(self) -> None:
        found = {
            str(path.relative_to(self.root)): (
                path.read_text(),
                stat.S_IMODE(path.stat().st_mode),
            )
            for path in self.root.rglob("*")
            if path.is_file()
        }
        assert found == {
            one.path: ("".join(f"{line}\n" for line in one.lines), one.mode)
            for one in self.files
            if one.path
        }


def run(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        Files,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            phases=[Phase.explicit, Phase.reuse, Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.slow
def test_files_are_those_of_the_model() -> None:
    run(8, 20)


@pytest.mark.slow
def test_files_are_those_of_the_model_for_long() -> None:
    run(100, 40)
