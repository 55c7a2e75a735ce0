"""The gate of checks before every write: parsers and commands that see the new text.

Invariants: only a finding that the old text does not have counts; a text is checked once, and again
only when it changes; what cannot be checked is reported, and refused only if the check is required.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate
from threading import Lock
from typing import TypeVar

from copydesk.desk.outcome import Revision
from copydesk.edit.draft import Draft
from copydesk.errors import ApprovalRequired, CheckFailed, CheckFinding
from copydesk.store.checks import (
    MOST_BYTES,
    SYNTAX,
    Commands,
    Diagnostic,
    NotRun,
    Rule,
    may_be_other,
    parses,
    suffix_of,
    syntax,
)
from copydesk.store.locks import held_at_fork
from copydesk.text.change import ChangeSet
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot
from copydesk.text.unified import regions

MOST_TOLD = 10
"""The most findings reported per check."""

_MOST_KEPT = 512

Findings = tuple[CheckFinding, ...]


@dataclass(frozen=True, slots=True)
class Edited:
    """A file to be written: its path as named, its real path, and both texts."""

    path: RelPath
    real: RelPath
    base: Snapshot
    change: ChangeSet
    created: bool
    text: Callable[[], Snapshot]

    @staticmethod
    def of(path: RelPath, real: RelPath, *made: Revision, created: bool) -> Edited | None:
        """The result of revisions in sequence; None for a file that is not loaded whole."""
        base = made[0].base if made else None
        if not isinstance(base, Snapshot):
            return None

        def text() -> Snapshot:
            after = made[-1].after
            assert isinstance(after, Snapshot), "its base is one"
            return after

        change = reduce(ChangeSet.then, (one.change for one in made))
        return Edited(path, real, base, change, created, text)

    @staticmethod
    def of_plan(real: RelPath, draft: Draft) -> list[Edited | None]:
        """Like `of`, for a plan's draft; empty for blocks and operations on a whole file."""
        request = draft.request
        if not request.of_lines or draft.replaces_nothing:
            return []
        return [Edited.of(request.path, real, draft, created=draft.created)]


_told: ContextVar[dict[RelPath, Findings] | None] = ContextVar("checks", default=None)


@contextmanager
def telling() -> Generator[dict[RelPath, Findings]]:
    """Collect the new findings of a call's checks, by file; an empty tuple for none."""
    found: dict[RelPath, Findings] = {}
    token = _told.set(found)
    try:
        yield found
    finally:
        _told.reset(token)


_Key = tuple[object, ...]
T = TypeVar("T")


class Checks:
    """The checks of one workspace. Thread-safe."""

    def __init__(self, rules: Sequence[Rule] = (), commands: Commands | None = None) -> None:
        self._rules, self._commands = rules, commands
        self._kept: dict[_Key, list[Diagnostic] | NotRun] = {}
        self._lock = held_at_fork(Lock())

    def concern(self, real: RelPath) -> bool:
        """Whether there may be a check for the file."""
        return bool(self._rules) or parses(suffix_of(real))

    def judge(self, *edits: Edited | None) -> Findings | None:
        """New findings in the new texts; None if no check applies; raises Cancelled."""
        found: list[CheckFinding] = []
        groups: dict[Rule, list[Edited]] = {}
        for edit in filter(None, edits):
            for rule in self._rules_of(edit):
                groups.setdefault(rule, []).append(edit)
        checked: dict[RelPath, None] = {}
        for rule, group in groups.items():
            for batch in [group] if rule.is_together else [[one] for one in group]:
                new = self._of(rule, batch)
                if new is not None:
                    found += new
                    checked |= dict.fromkeys(one.path for one in batch)
        told = _told.get()
        if told is not None:
            for path in checked:
                told[path] = tuple(one for one in found if one.path == str(path))
        return tuple(found) if checked else None

    def gate(
        self,
        findings: Findings | None,
        accepted: Iterable[str],
        hunk_id: str | None,
        approved: Callable[[], bool],
    ) -> None:
        """Raise CheckFailed or ApprovalRequired, unless a person `approved` exactly these bytes."""
        if not findings:
            return
        if any(one.mode == "refuse" for one in findings):
            raise CheckFailed(findings)
        asking = {one.check for one in findings if one.mode == "ask"}.difference(accepted)
        if asking and not approved():
            accept = tuple(sorted(asking)) if hunk_id else None
            raise ApprovalRequired("checks", hunk_id, accept, findings)

    def _rules_of(self, edit: Edited) -> list[Rule]:
        path = edit.real
        found = {SYNTAX: Rule("*")} if parses(suffix_of(path)) else {}
        for rule in self._rules:
            if rule.applies(path) and (rule.command or rule.name in found):
                found[rule.name] = rule
        return [rule for rule in found.values() if rule.mode != "off"]

    def _of(self, rule: Rule, batch: Sequence[Edited]) -> list[CheckFinding] | None:
        """New findings of a check; None if the built-in one does not apply."""
        first = str(batch[0].path)
        try:
            if any(max(one.base.size, one.change.new_length) > MOST_BYTES for one in batch):
                raise NotRun("large", str(MOST_BYTES))
            new = self._syntax(batch[0]) if not rule.command else self._command(rule, batch)
        except NotRun as none:
            if not rule.command and not rule.required:
                return None
            mode = rule.mode if rule.required else "tell"
            return [CheckFinding(rule.name, mode, first, none.detail, not_run=none.reason)]
        asked = {str(one.real): str(one.path) for one in batch}
        told = [
            CheckFinding(rule.name, rule.mode, asked[one.path], one.text, one.line or None)
            for one in new[:MOST_TOLD]
        ]
        if len(new) > MOST_TOLD:
            told[-1] = replace(told[-1], more=len(new) - MOST_TOLD)
        return told

    def _syntax(self, edit: Edited) -> list[Diagnostic]:
        """Where the text no longer parses; nothing if it did not parse before."""
        suffix = suffix_of(edit.real)
        found = self._parsed(edit, suffix, edit.text())
        if not found or (edit.created and may_be_other(suffix, edit.text().data)):
            return []
        return [] if not edit.created and self._parsed(edit, suffix, edit.base) else found

    def _parsed(self, edit: Edited, suffix: str, text: Snapshot) -> list[Diagnostic]:
        def parse() -> list[Diagnostic]:
            found = syntax(suffix, text.data)
            return [] if found is None else [Diagnostic("", *found)]

        real = str(edit.real)  # several files may have equal bytes
        return [replace(one, path=real) for one in self._once((suffix, text.digest), parse)]

    def _command(self, rule: Rule, batch: Sequence[Edited]) -> list[Diagnostic]:
        """A command's findings in the new texts, minus those in the old ones."""
        after = self._run(rule, {str(one.real): one.text() for one in batch})
        there = {str(one.real): one.base for one in batch if not one.created}
        if not (after and there):
            return after
        places = {str(one.real): _places(one) for one in batch}
        before = Counter(_key(one, places[one.path][0](one.line)) for one in self._run(rule, there))
        new: list[Diagnostic] = []
        for one in after:
            key = _key(one, places[one.path][1](one.line))
            if before[key]:
                before[key] -= 1
            else:
                new.append(one)
        return new

    def _run(self, rule: Rule, texts: Mapping[str, Snapshot]) -> list[Diagnostic]:
        key = (rule, *((path, text.digest) for path, text in texts.items()))

        def run() -> list[Diagnostic]:
            if self._commands is None:
                raise NotRun("untrusted")
            return self._commands.run(rule, {path: text.data for path, text in texts.items()})

        return self._once(key, run)

    def _once(self, key: _Key, check: Callable[[], list[Diagnostic]]) -> list[Diagnostic]:
        """A check's findings, cached by bytes."""
        with self._lock:
            kept = self._kept.pop(key, None)
        if kept is None:
            try:
                kept = check()
            except NotRun as none:
                if none.passes:
                    raise
                kept = none
        with self._lock:
            self._kept[key] = kept  # as the last one that was used
            if len(self._kept) > _MOST_KEPT:
                del self._kept[next(iter(self._kept))]
        if isinstance(kept, NotRun):
            raise NotRun(kept.reason, kept.detail)
        return kept


_NUMBERED = re.compile(r"\bline \d+")


def _key(problem: Diagnostic, place: object) -> tuple[str, object, str]:
    """The identity of a finding: text and relative place, without line numbers."""
    return problem.path, place, _NUMBERED.sub("line", problem.text)


_Place = Callable[[int], object]


def _places(edit: Edited) -> tuple[_Place, _Place]:
    """Map a line before, and one after, to a comparable place: changed, or the line after."""
    runs = [(one.start, one.stop, len(one.new)) for one in regions(edit.base, edit.change)]
    grown = [new - (stop - start) for start, stop, new in runs]
    sums = accumulate(grown, initial=0)
    begins = [start + moved for (start, *_), moved in zip(runs, sums, strict=False)]

    def before(line: int) -> object:
        moved = sum(by for (start, *_), by in zip(runs, grown, strict=True) if start < line)
        return "changed" if any(a < line <= b for a, b, _ in runs) else line + moved

    def after(line: int) -> object:
        now = ((begin, begin + new) for begin, (*_, new) in zip(begins, runs, strict=True))
        return "changed" if any(a < line <= b for a, b in now) else line

    return before, after
