"""Forgetting: texts leave the journal, the plans and the snapshots; who wrote what and when stays.

An entry keeps its time, member, path and digests, and cannot be undone. What is in the files of the
workspace stays there, and is stored again when it is read or edited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from itertools import islice

from copydesk.desk.backends.api import Decision, Entry
from copydesk.desk.drafts import Drafting, Setting
from copydesk.desk.history import entries
from copydesk.edit.draft import Plan
from copydesk.errors import HunkNotFound
from copydesk.text.relpath import RelPath

_MOST_KEPT = 10_000
"""Stored texts are kept for the last edits of other files, this many."""


@dataclass(frozen=True, slots=True)
class Forgettable:
    """What may be forgotten: the texts of `edits` (newest first) and plans, and those stored of
    `paths`; and what people `said` when they decided.

    `open` edits are being written, or in doubt, and need their texts. `lost` are the ids of older
    edits that stay, but cannot be undone without the texts.
    """

    edits: tuple[Entry, ...]
    open: tuple[Entry, ...]
    lost: tuple[int, ...]
    plans: tuple[Plan, ...]
    paths: frozenset[RelPath]
    said: Callable[[Decision], bool]


class Forgetting:
    """Forgets texts of one workspace; `lock` is the lock of a plan's file."""

    def __init__(
        self,
        setting: Setting,
        drafting: Drafting,
        lock: Callable[[Plan], AbstractContextManager[None]],
    ) -> None:
        self._set, self._drafting, self._lock = setting, drafting, lock

    def of_path(self, path: RelPath) -> Forgettable:
        """All of a file, or of a folder, under each name that it has had; raises Failed."""
        left, paths = [self._drafting.real(path)], {path}
        found: dict[int, Entry] = {}
        while left:
            at = left.pop()
            paths.add(at)
            for entry in entries(self._set.journal, at):
                found[entry.edit_id] = entry
                if entry.moved is not None and not _covers(paths, entry.moved.other):
                    left.append(entry.moved.other)

        def said(decision: Decision) -> bool:
            return _covers(paths, RelPath(tuple(decision.path.split("/"))))

        plans = [one for one in self._plans() if self._is_at(one, paths)]
        return self._of(found.values(), plans, paths, said)

    def of_edit(self, edit: Entry) -> Forgettable:
        """One edit; of a move, both ends."""
        group = self._set.journal.of_group(edit.group)
        ends = [one for one in group if edit.moved and one.moved] or [edit]
        plans = [one for one in self._plans() if one.id == edit.hunk_id]
        paths = {one.path for one in ends}
        return self._of(ends, plans, paths, lambda decision: decision.plan[0] == edit.hunk_id)

    def of_member(self, member: str) -> Forgettable:
        """All that a member wrote and plans."""
        found = [*entries(self._set.journal, by=member)]
        plans = [one for one in self._plans() if one.owner == member]
        paths = {one.path for one in found} | {one for each in plans for one in each.request.paths}
        return self._of(found, plans, paths, lambda decision: decision.owner == member)

    def forget(self, what: Forgettable) -> None:
        """Remove all that; raises Failed, Busy, and may be repeated then."""
        for plan in what.plans:
            with self._lock(plan), suppress(HunkNotFound):  # it was written meanwhile
                self._set.registry.plan(plan.id, 0)
                self._set.registry.end(plan.id, "discarded", self._set.clock())
        self._set.bases.forget(self._kept(what))
        self._set.decisions.forget_reasons(what.said)
        self._set.journal.forget_texts([entry.without_texts() for entry in what.edits])

    def _of(
        self,
        found: Iterable[Entry],
        plans: Sequence[Plan],
        paths: set[RelPath],
        said: Callable[[Decision], bool],
    ) -> Forgettable:
        edits = sorted(found, key=lambda entry: -entry.edit_id)
        closed = tuple(one for one in edits if one.state != "open" and not one.forgotten)
        ids, last = {one.edit_id for one in edits}, dict[RelPath, int]()
        for one in reversed(closed):
            last[one.path] = one.edit_id
        lost = {
            entry.edit_id
            for path, newest in last.items()
            for entry in entries(self._set.journal, path, before=newest)
            if entry.path == path and entry.state == "done" and not entry.forgotten
        }
        being_written = tuple(one for one in edits if one.state == "open")
        kept = tuple(sorted(lost - ids))
        return Forgettable(closed, being_written, kept, tuple(plans), frozenset(paths), said)

    def _plans(self) -> tuple[Plan, ...]:
        """All plans that have not ended, also those that have expired."""
        self._set.locks.settle()
        return self._set.registry.waiting(0)

    def _is_at(self, plan: Plan, paths: set[RelPath]) -> bool:
        return any(
            _covers(paths, one) or _covers(paths, self._drafting.real(one))
            for one in plan.request.paths
        )

    def _kept(self, what: Forgettable) -> set[str]:
        """The digests of texts that other edits and plans need."""
        paths = set(what.paths)
        others = islice(entries(self._set.journal), _MOST_KEPT)
        kept = {
            digest
            for one in others
            if not _covers(paths, one.path)
            for digest in (one.before, one.after)
        }
        plans = self._set.registry.waiting(self._set.clock())
        kept |= {one.base_digest or "" for one in plans if not self._is_at(one, paths)}
        return kept - {digest for one in what.edits for digest in (one.before, one.after)} - {""}


def _covers(paths: set[RelPath], path: RelPath) -> bool:
    """Whether the path, or a folder above it, is among these."""
    return any(RelPath(path.parts[:end]) in paths for end in range(len(path.parts) + 1))
