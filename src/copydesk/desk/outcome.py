"""What the desk answers with: one frozen type for each kind of answer.

`foreign_writes` are writes of other programs that were saved; the library fills them in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from copydesk.desk.backends.api import Entry
from copydesk.desk.backends.shown import ShownLines
from copydesk.desk.foreign import Saved
from copydesk.edit.draft import ContextMatch, Draft, Plan
from copydesk.errors import CheckFinding, Failed, Refusal
from copydesk.text.change import ChangeSet
from copydesk.text.encoding import Encoding
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot, Text


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan waits.

    `declined`: why `auto` did not write, when it was asked for; `refusal`: the one that
    it met when it tried. `real`: the real path, where it was looked up. `checks` are what is new
    in the text as it would be; None where there is no check for it.
    """

    plan: Plan
    draft: Draft
    declined: str | None = None
    refusal: Refusal | None = None
    real: RelPath | None = None
    checks: tuple[CheckFinding, ...] | None = None

    @property
    def id(self) -> str:
        """The id to apply it by."""
        return self.plan.id


@dataclass(frozen=True, slots=True)
class Applied:
    """A plan was written as `draft`, on the file at that moment; `edit_id` 0: nothing to change."""

    plan: Plan
    draft: Draft
    context: ContextMatch
    edit_id: int
    foreign_writes: tuple[Saved, ...] = ()


@dataclass(frozen=True, slots=True)
class Rejected:
    """The plan could not be applied to the file as it is; nothing was written, it waits on."""

    plan: Plan
    refusal: Refusal
    current: Text | None


@dataclass(frozen=True, slots=True)
class Transacted:
    """Several plans were written, all of them, in the order in which they are given here.

    `group` is the id of the transaction, empty when nothing was to be changed.
    `versions` are those of the files after all, by the id of the plan, empty for one that was
    deleted; `diffs` has one for each file that was changed.
    """

    group: str
    applied: tuple[Applied, ...]
    versions: Mapping[str, str]
    diffs: tuple[tuple[bytes, Encoding], ...]
    foreign_writes: tuple[Saved, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one of several plans would have come to: written as `context` says, or refused."""

    plan: Plan
    context: ContextMatch
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True)
class Withheld:
    """Several plans were not written and wait on; `refusal` of `plan`, if it was one of them."""

    refusal: Refusal
    plan: Plan | None
    verdicts: tuple[Verdict, ...]

    @staticmethod
    def of(
        plans: Sequence[Plan],
        contexts: Mapping[str, ContextMatch],
        refused: Mapping[str, Refusal],
        why: Refusal | None = None,
    ) -> Withheld:
        """What each plan would come to, in order; `why`, if not the first refused one's reason."""

        def judged(plan: Plan) -> Verdict:
            refusal = refused.get(plan.id)
            context = "rejected" if refusal else contexts.get(plan.id, "rejected")
            return Verdict(plan, context, refusal)

        verdicts = tuple(map(judged, plans))
        first = next((each.plan for each in verdicts if each.refusal is not None), None)
        return Withheld(
            why or (refused[first.id] if first else Failed("write", "")), first, verdicts
        )


@dataclass(frozen=True, slots=True)
class Created:
    """A new file was written."""

    path: RelPath
    after: Snapshot
    newline_added: bool
    edit_id: int
    diff: bytes
    foreign_writes: tuple[Saved, ...] = ()


@dataclass(frozen=True, slots=True)
class Overwritten:
    """The whole of a file was replaced, or was the same already (`edit_id` 0)."""

    path: RelPath
    before: Snapshot
    after: Snapshot
    newline_added: bool
    edit_id: int
    diff: bytes
    foreign_writes: tuple[Saved, ...] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """Some lines of a file, `first_line` counted from 1.

    `mtime_ms` is in milliseconds since 1970, `digest` the SHA-256 in hex. `last_wanted` is the last
    line asked for, from 1, whether it is shown or not. `cut_in_line`: the one line shown is only
    the start of it. `total_lines`, `version`, `newline_style` and `ends_with_newline` are None when
    only the end of a large file was read.
    """

    path: RelPath
    first_line: int | None
    lines: tuple[str, ...]
    size_bytes: int
    encoding: str
    total_lines: int | None
    version: str | None
    newline_style: str | None
    ends_with_newline: bool | None
    cut_by_lines: bool
    cut_by_characters: bool
    cut_in_line: bool
    last_wanted: int
    mtime_ms: int
    digest: str | None

    @property
    def shown(self) -> ShownLines:
        """Which lines were shown whole."""
        if self.version is None or self.first_line is None or self.total_lines is None:
            return ShownLines("", 1, ())
        first = self.first_line - 1
        last = first + len(self.lines) - self.cut_in_line
        runs = ((first, last),) if first < last else ()
        return ShownLines(self.version, self.total_lines, runs)


class Revision(Protocol):
    """A change of a text that is, or is to be, written."""

    @property
    def base(self) -> Text:
        """The text before."""
        ...

    @property
    def change(self) -> ChangeSet:
        """The change of it."""
        ...

    @property
    def after(self) -> Text:
        """The text after."""
        ...

    @property
    def diff(self) -> bytes:
        """The unified diff."""
        ...


@dataclass(frozen=True, slots=True)
class WholeRevision:
    """A revision of a whole file that no request stands for (an overwrite)."""

    base: Snapshot
    change: ChangeSet
    after: Snapshot
    diff: bytes


@dataclass(frozen=True, slots=True)
class Undone:
    """An edit was taken back by another one, or nothing was left of it (`edit_id` 0).

    `change` was made on `base`, the file as it was at that moment. `context` is
    `exact` where the diff is that of the edit turned round, word for word.
    """

    entry: Entry
    base: Text
    change: ChangeSet
    after: Text
    diff: bytes
    context: ContextMatch
    edit_id: int
    foreign_writes: tuple[Saved, ...] = ()
    at: RelPath | None = None

    @property
    def path(self) -> RelPath:
        """The path at which it was taken back: the file may have been moved since the edit."""
        return self.at or self.entry.path


@dataclass(frozen=True, slots=True)
class NotUndone:
    """An edit could not be taken back; `current` is the file with `lines` (from 0) at hand."""

    entry: Entry
    refusal: Refusal
    current: Text | None = None
    lines: tuple[int, int] = (0, 0)
