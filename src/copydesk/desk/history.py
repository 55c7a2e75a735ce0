"""What was written before, as far as a member may see it, and what of it was taken back.

What lives here: the questions to the journal. What must not: writing, words.
Invariant: a member is shown no edit of a file that it may not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import islice

from copydesk.desk.journal import CHAIN_LENGTH, Entry, Journal, linked
from copydesk.desk.member import Member
from copydesk.desk.seeing import check_look
from copydesk.desk.setting import Setting
from copydesk.text.relpath import RelPath

PAGE = 50
"""So many entries are fetched at a time."""

MOST_SEEN = 10_000
"""So many entries are looked through for one answer."""


@dataclass(frozen=True, slots=True)
class Past(Entry):
    """An edit of the past; `undone_by` is the one that took it back, 0 when it stands."""

    undone_by: int = 0


@dataclass(frozen=True, slots=True)
class Page:
    """Some edits, the newest first; `go_on`: there are older ones, of ids below it; 0: none."""

    edits: tuple[Past, ...]
    go_on: int = 0


class History:
    """The past of one workspace."""

    def __init__(self, setting: Setting) -> None:
        self._set = setting

    def page(
        self,
        member: Member,
        path: RelPath | None = None,
        by: str | None = None,
        most: int = PAGE,
        before: int | None = None,
    ) -> Page:
        """The last edits, of a file, of what is below a directory, of all.

        `by` is the member that made them; with `before` those of lower ids. Raises
        AccessDenied for a path that the member may not look into.
        """
        real: RelPath | None = None
        if path is not None:
            real = check_look(self._set.files, member, path)
        found: list[Past] = []
        seen = entries(self._set.journal, real, by, before)
        for entry in islice(seen, MOST_SEEN):
            before = entry.edit_id
            if not member.permission.allows_read(entry.path):
                continue
            if len(found) == most:
                return Page(tuple(found), found[-1].edit_id)
            found.append(self._past(entry))
        return Page(tuple(found), 0 if next(seen, None) is None else before or 0)

    def newest(self, member: Member) -> int | None:
        """The id of the newest edit that the member may see, if there is one."""
        edits = self.page(member, most=1).edits
        return edits[0].edit_id if edits else None

    def _past(self, entry: Entry) -> Past:
        known = {field.name: getattr(entry, field.name) for field in fields(Entry)}
        return Past(**known, undone_by=taken_back_by(self._set.journal, entry.edit_id))


def taken_back_by(journal: Journal, edit_id: int) -> int:
    """The newest edit that took another one back, and stands itself; 0 when none does."""
    by: dict[int, tuple[int, ...]] = {}
    left = [edit_id]
    while left:
        one = left.pop()
        by[one] = journal.undone_by(one)
        left += by[one]
    standing: set[int] = set()
    for one in sorted(by, reverse=True):  # an edit is older than what takes it back
        if standing.isdisjoint(by[one]):
            standing.add(one)
    return max(standing.intersection(by[edit_id]), default=0)


def entries(
    journal: Journal,
    path: RelPath | None = None,
    by: str | None = None,
    before: int | None = None,
) -> Iterator[Entry]:
    """All entries of the journal, the newest first, fetched as they are asked for."""
    while page := journal.entries(path, by, PAGE, before):
        yield from page
        before = page[-1].edit_id


def between(
    journal: Journal, path: RelPath, base_digest: str, now_digest: str
) -> tuple[Entry, ...] | None:
    """The writes that made one text of another, the first one first; as `Journal.chain`."""
    own = (e for e in islice(entries(journal, path), CHAIN_LENGTH) if e.path == path)
    return linked(((e.before, e.after, e.state, e) for e in own), base_digest, now_digest)


def taken_back_in(journal: Journal, writes: tuple[Entry, ...]) -> dict[int, int]:
    """Which of the writes, by index, were taken back by a later one of them, and by which.

    An edit, what took it back, what took that back, and so on, each take back the one before.
    """
    last: dict[int, int] = {}
    found: dict[int, int] = {}
    for index, entry in enumerate(writes):
        first = _first_of(journal, entry)
        if first in last:
            found[last[first]] = index
        last[first] = index
    return found


def _first_of(journal: Journal, entry: Entry) -> int:
    """The edit at the start of the edits that took one another back up to this one."""
    at: Entry | None = entry
    first = entry.edit_id
    while at is not None and at.undoes:
        first = at.undoes
        at = journal.get(first)
    return first
