"""The judge of a write that did not go its way: another desk opens the folder, and all is compared.

It knows what was asked and answered from a log, and the files before and after from `deeds`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, cast

from bench.kills.deeds import LINKED, STATE, Facts, File, Step, Tree, tree

Looking = Literal["start", "read", "list", "prepare", "again"]
LOOKING: Final[tuple[Looking, ...]] = ("start", "again", "read", "list", "prepare")
"""Who settles it: who opens the folder; or who has it open already, and then applies the plan
again, reads the files, lists plans, or prepares an edit of each file."""

_CLEANED_SECONDS = 2.0
"""What is left of a state file is removed when another process opens it, after its answer."""

MOST_SECONDS = 3.0
"""A lock of a dead process that blocked others would take longer."""


@dataclass(frozen=True)
class Case:
    """What was asked, and what is known of it. `answer` is None if there was none.

    `beside`: something else happened to the state as well, so that some edits may be in doubt.
    """

    root: Path
    step: Step
    known: tuple[int, ...]
    before: Tree
    after: Tree
    answer: Facts | None
    beside: bool = False

    @property
    def answered(self) -> Literal["ok", "refused", "unsure", "nothing"]:
        """What the answer says of the files."""
        if self.answer is None:
            return "nothing"
        if self.answer["status"] in ("ok", "success"):
            return "ok" if self.answer.get("auto_apply") != "declined" else "refused"
        return "unsure" if _has(self.answer, "paths") or _has(self.answer, "log_id") else "refused"


@dataclass
class Verdict:
    """What became of it: all, none, or told as in doubt; `wrong` is what must not be."""

    became: Literal["all", "none", "doubt", "wrong"] = "wrong"
    wrong: list[str] = field(default_factory=list[str])

    def check(self, is_so: bool, words: str) -> None:
        """Find something wrong unless it is so."""
        if not is_so:
            self.wrong.append(words)


def whole(case: Case) -> list[str]:
    """Before anybody recovers: what is torn. A file with several names may be, until then."""
    texts = {file.text for file in (*case.before.values(), *case.after.values())}
    return [
        f"{name} holds neither its old nor its new bytes: {_short(file)}"
        for name, file in tree(case.root).items()
        if file.text not in texts and name not in LINKED and not _is_temporary(name)
    ]


def judged(case: Case, open_desk: Callable[[bool], Any], looking: Looking) -> Verdict:
    """Let another desk look; `open_desk` opens the folder, and recovers it if told so."""
    verdict = Verdict(wrong=whole(case))
    began = time.monotonic()
    opened = open_desk(looking == "start")
    try:
        _Look(case, verdict, lambda tool, **given: opened.call("local", tool, given).data).all(
            looking
        )
    finally:
        opened.close()
    seconds = time.monotonic() - began
    verdict.check(seconds < MOST_SECONDS, f"somebody waited: it took {seconds:.1f} s")
    if verdict.wrong:
        verdict.became = "wrong"
    return verdict


class _Look:
    """One look by another desk; each check is in words of the promise that it is about."""

    def __init__(self, case: Case, verdict: Verdict, ask: Callable[..., Facts]) -> None:
        self.case, self.verdict, self.ask = case, verdict, ask
        self.check = verdict.check
        self.read: dict[str, str] = {}  # without the last line feed, which is always shown

    def all(self, looking: Looking) -> None:
        case = self.case
        again = self._first(looking)
        pending = {row["hunk_id"] for row in self.ask("list_pending")["hunks"]}
        files, rows = tree(case.root), self._rows()
        states = Counter(str(row["state"]) for row in rows)
        for name, text in self.read.items():
            now = files[name].text.rstrip("\n") if name in files else "\0"
            self.check(text == now, f"{name} was read as {_start(text)}, and is {_start(now)}")
        self._nothing_left(files)
        files = {name: file for name, file in files.items() if not _is_temporary(name)}
        doubts = [row["path"] for row in rows if row["state"] in ("unsure", "open")]
        if doubts:
            self.verdict.became = "doubt"
            self.check(case.beside, f"in doubt, though nobody else wrote: {dict(states)}")
            return
        is_done, is_undone = files == case.after, files == case.before
        self.check(is_done or is_undone, f"neither all nor none: {self._difference(files)}")
        if not (is_done or is_undone):
            return
        self.verdict.became = "all" if is_done else "none"
        if again is None:
            self.check(
                case.answered not in ("ok",) or is_done, f"answered ok, and undone: {case.answer}"
            )
            self.check(
                case.answered != "refused" or is_undone, f"refused, and written: {case.answer}"
            )
        self._history(states, is_done=is_done)
        if case.step.plans:
            wanted = set() if is_done else set(case.step.plans)
            is_so = pending == wanted or (case.beside and not pending)
            self.check(is_so, f"all {is_done}, but {len(pending)} plans wait")
        if is_done and not self.verdict.wrong:
            self._after_all()
        elif not self.verdict.wrong:
            self._apply()

    def _first(self, looking: Looking) -> Facts | None:
        """The first call of the new desk; the answer where it applies the plan again."""
        names = sorted({*self.case.before, *self.case.after})
        if looking == "read":
            for name in names:
                found = self.ask("read_file", path=name, show_linenos=False, max_lines=10_000)
                is_whole = not found.get("truncated_by_char_limit")
                if is_whole:
                    self.read[name] = found.get("content", "\0").rstrip("\n")
        elif looking == "prepare":
            for name in names:
                found = self.ask("prepare_file_append", path=name, content="more\n")
                if found["status"] == "ok":
                    self.ask("discard_hunk", hunk_id=found["hunk_id"])
        elif looking == "list":
            self.ask("list_pending")
        elif looking == "again" and self.case.step.plans:
            again = self.ask(self.case.step.tool, **self.case.step.arguments)
            if again["status"] != "ok":
                self.check(
                    _is_applied(again) or self.case.beside,
                    f"the plan was neither applied nor can it be: {again.get('summary')}",
                )
            else:
                is_new = again.get("changed") is not False  # else it is as it should be already
                is_twice = self.case.answered == "ok" and is_new
                self.check(not is_twice, f"a plan was applied twice: {again.get('summary')}")
            return again
        return None

    def _rows(self) -> list[Facts]:
        """The edits that the history tells of since, newest first."""
        listed = self.ask("list_edits")
        self.check(listed["status"] == "ok", f"the history: {listed.get('summary')}")
        lost = listed.get("state_lost")
        self.check(not lost or self.case.beside, f"the state: {lost}")
        return [row for row in listed.get("edits", ()) if row["edit_id"] not in self.case.known]

    def _nothing_left(self, files: Tree) -> None:
        """No temporary file, nor one in the state folder, which is cleaned after the answer."""
        left = [name for name in files if _is_temporary(name)]
        until = time.monotonic() + _CLEANED_SECONDS
        while (begun := [*(self.case.root / STATE).rglob("*.tmp")]) and time.monotonic() < until:
            time.sleep(0.01)
        left += map(str, begun)
        self.check(not left, f"left behind: {left}")

    def _history(self, states: Counter[str], *, is_done: bool) -> None:
        """It says written, or undone, or nothing where the intent had not been recorded."""
        if is_done:
            self.check(states["done"] > 0 or self.case.beside, f"written unsaid: {dict(states)}")
        else:
            self.check(not states["done"], f"undone, but the history says {dict(states)}")

    def _after_all(self) -> None:
        """A plan is not applied twice, and an undo gives the old bytes."""
        if self.case.step.plans:
            again = self.ask(self.case.step.tool, **self.case.step.arguments)
            self.check(_is_applied(again) or self.case.beside, f"applied twice: {again}")
            self.check(tree(self.case.root) == self.case.after, "the second apply changed a file")
        rows = [row for row in self._rows() if row["state"] == "done"]
        if not rows:  # the state forgot it, which was told
            return
        more = {"transaction": True} if len(rows) > 1 else {}
        undone = self.ask("undo_file_modification", edit_id=rows[0]["edit_id"], **more)
        self.check(undone["status"] == "ok", f"undo: {undone.get('summary')}")
        self._same(tree(self.case.root), self.case.before, "after the undo")

    def _apply(self) -> None:
        """What did not happen can be asked for again."""
        done = self.ask(self.case.step.tool, **self.case.step.arguments)
        is_gone = self.case.beside and done["status"] != "ok"
        self.check(done["status"] == "ok" or is_gone, f"not possible again: {done.get('summary')}")
        if not is_gone:
            self._same(tree(self.case.root), self.case.after, "applied again")

    def _same(self, files: Tree, wanted: Tree, when: str) -> None:
        """Compare; a file that was removed and made again has its old mode, and one name."""
        self.check(files == wanted, f"{when}: {self._difference(files)}")

    def _difference(self, files: Tree) -> str:
        """Of each file, which one it is like."""
        before, after = self.case.before, self.case.after
        names = sorted({*files, *before, *after})
        like = {
            name: "as before"
            if files.get(name) == before.get(name)
            else "as after"
            if files.get(name) == after.get(name)
            else _short(files.get(name))
            for name in names
            if not files.get(name) == before.get(name) == after.get(name)
        }
        return str(like)


def _is_applied(answer: Facts) -> bool:
    return answer.get("error") == "HUNK_NOT_FOUND" and answer.get("reason") == "applied"


def _is_temporary(name: str) -> bool:
    return Path(name).name.startswith(".copydesk-")


def _start(text: str) -> str:
    return "gone" if text == "\0" else repr(text[:40])


def _short(file: File | None) -> str:
    return "gone" if file is None else f"{file.text[:60]!r} {file.mode:o} {file.names}"


def _has(told: object, key: str) -> bool:
    """Whether there is such a field, however deep."""
    if isinstance(told, dict):
        fields = cast("Facts", told)
        return key in fields or any(_has(each, key) for each in fields.values())
    return isinstance(told, list) and any(_has(each, key) for each in cast("list[object]", told))
