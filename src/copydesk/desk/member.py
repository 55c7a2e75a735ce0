"""Members: what one may do at a path, which is resolved here, and what lines one was shown.

A path is judged both as spelled and by what it currently points to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from secrets import token_hex
from typing import Literal, Protocol

from copydesk.desk.backends.snapshots import (
    MOST_RUNS,
    CarriedLines,
    LineChange,
    Note,
    Run,
    ShownLines,
    Snapshots,
)
from copydesk.edit.draft import Draft
from copydesk.errors import FileExists, IncompleteRead, NotAFile, Refusal
from copydesk.store.files import Files
from copydesk.store.protocol import Stamp
from copydesk.text.change import ChangeSet
from copydesk.text.diff import touched
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import VERSION_LENGTH, Snapshot, Text

Approver = Literal["self", "human"]
HumanReason = Literal["member", "path", "lines", "files"]
"""Why a person has to approve: the member's policy, the path's, more lines or files than
the member may approve itself."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A member's policy.

    `approval` is who approves; `paths` are exceptions: pairs of a path predicate and who approves
    there, of which the last match counts. `most_lines` (of each edit, old or new ones) and
    `most_files` are what the member may approve itself, of a transaction and of what it wrote
    within a minute; None for any number.
    """

    approval: Approver = "self"
    paths: tuple[tuple[Callable[[RelPath], bool], Approver], ...] = ()
    most_lines: int | None = None
    most_files: int | None = None

    def guarding(self, matches: Callable[[RelPath], bool]) -> Policy:
        """The same policy, except that a person approves the matching paths."""
        return replace(self, paths=(*self.paths, (matches, "human")))

    @property
    def asks_nobody(self) -> bool:
        """Whether no edit at all needs a person."""
        asks = self.approval == "human" or self.has_limits
        return not asks and all(who == "self" for _, who in self.paths)

    @property
    def has_limits(self) -> bool:
        """Whether what the member may approve itself is limited."""
        return self.most_lines is not None or self.most_files is not None

    def human_reason(self, path: RelPath, lines: int, files: int = 1) -> HumanReason | None:
        """Why a person has to approve an edit of `lines` lines, among `files` files; or None."""
        found = [who for matches, who in self.paths if matches(path)]
        if found[-1:] == ["human"]:
            return "path"
        if not found and self.approval == "human":
            return "member"
        if self.most_lines is not None and lines > self.most_lines:
            return "lines"
        if self.most_files is not None and files > self.most_files:
            return "files"
        return None


SELF = Policy()
"""The policy of a member that approves its own edits."""


Operation = Literal["read", "write"]


class Permission(Protocol):
    """A member's rights; implemented in `copydesk.store.access`."""

    def check(self, operation: Operation, *paths: RelPath) -> None:
        """Raise AccessDenied unless the operation is allowed on all of the paths."""

    def check_walk(self, *paths: RelPath) -> None:
        """Raise AccessDenied unless something below each of the directories may be read."""

    def check_glob(self, glob: str, *, fold: bool = False) -> None:
        """Raise AccessDenied for a search glob that names an unreadable path."""

    def allows_read(self, path: RelPath) -> bool:
        """Whether the member may read the file."""
        ...

    def allows_walk(self, path: RelPath) -> bool:
        """Whether something below the directory may be read."""
        ...


@dataclass(frozen=True, slots=True)
class Member:
    """A caller: its name, under which plans are stored, and its permission for one toolset.

    `auto_lines`: most lines, old or new, of an edit that it writes without showing it first; None
    for any number, 0 for none. `policy`: who approves what it writes. `refresh` returns the
    member's current state; None: it stays as it is. `why` is the reason it gives for this call,
    recorded with what it plans or writes; `task` is the label of what it works on, by which its
    plans are grouped; plans without one are grouped by `transaction`, the call's id. `accept` are
    the checks whose findings it accepts in this call, `usual_signs` signs of a faulty new text that
    do not count. `corrects`: it writes at once what was corrected and is certain.
    """

    name: str
    permission: Permission
    toolset: str = "ws_mod"
    auto_lines: int | None = None
    policy: Policy = SELF
    refresh: Callable[[], Member] | None = field(default=None, compare=False, repr=False)
    why: str = ""
    task: str = ""
    transaction: str = ""
    accept: tuple[str, ...] = ()
    usual_signs: tuple[str, ...] = ()
    corrects: bool = True

    def because(self, why: str, task: str = "") -> Member:
        """The same member, with this reason and this task if it has none."""
        known = self.why or why, self.task or task
        return (
            self if known == (self.why, self.task) else replace(self, why=known[0], task=known[1])
        )

    def accepting(self, checks: tuple[str, ...]) -> Member:
        """The same member, accepting the findings of these checks."""
        return self if self.accept == checks else replace(self, accept=checks)

    def at_once(self) -> Member:
        """The same member in a call that may make several plans."""
        return replace(self, transaction=token_hex(4))

    @property
    def own_lock(self) -> tuple[RelPath, ...]:
        """The key of a lock that its writes hold besides those of the files, if it has limits.

        Else two at the same moment could each stay below a limit that both together exceed.
        """
        # No path contains a NUL.
        return (RelPath((f"\0member/{self.name}",)),) if self.policy.has_limits else ()

    def now(self) -> Member:
        """The same member with its current rights."""
        return self if self.refresh is None else self.refresh()


_SHOWN_RUNS = 10


def may_read(files: Files, member: Member, path: RelPath) -> bool:
    """Whether the member may read the path's target; False if it is outside the root."""
    try:
        authorized(files, member, path, "read")
    except Refusal:
        return False
    return True


def authorized(files: Files, member: Member, path: RelPath, *operations: Operation) -> RelPath:
    """Return the real path, if the member may do all the operations there; AccessDenied.

    A denied path is refused before the disk is accessed, and so is one along a link in a place that
    the member may not look into: the refusal never depends on what is there.
    """

    def check(one: RelPath) -> None:
        for operation in operations:
            permission.check(operation, one)

    permission = member.permission
    for operation in operations:
        permission.check(operation, path)
    real = files.resolve(path, check)
    if real is not path:
        check(real)
    return real


def check_no_link(files: Files, path: RelPath, real: RelPath) -> None:
    """Raise NotAFile if the path is a symlink, whose target has another name."""
    if files.resolve(path.parent) / path.name != real:
        raise NotAFile("symlink")


def check_free(files: Files, to: RelPath, target: RelPath, real: RelPath, stamp: Stamp) -> None:
    """FileExists or NotAFile unless the file can be moved to `to`, whose real path is `target`."""
    try:
        if target == real:
            raise FileExists(stamp.size)
        files.check_new(to, stamp)
    except (FileExists, NotAFile) as refusal:
        refusal.to = str(to)
        raise


def check_look(files: Files, member: Member, path: RelPath) -> RelPath:
    """Return the real path of a file or directory of which the member may see something.

    Raises AccessDenied. If the member may read no file of that name, but perhaps something in a
    directory, a file and a missing path get the same refusal.
    """
    permission = member.permission

    def check(one: RelPath) -> None:
        if not permission.allows_read(one):
            permission.check_walk(one)

    check(path)
    real = files.resolve(path, check)
    check(real)
    if not is_dir(files, real):
        permission.check("read", path, real)
    return real


def is_dir(files: Files, path: RelPath) -> bool:
    """Whether a directory exists at the path."""
    try:
        files.stat(path)
    except Refusal as refusal:
        return isinstance(refusal, NotAFile) and refusal.kind == "directory"
    return False


def check_shown(bases: Snapshots, member: Member, real: RelPath) -> None:
    """Raise IncompleteRead if the member last saw only a part of the file; none at all is fine."""
    shown = bases.shown(member.name, real)
    if shown is not None and not shown.complete:
        runs = tuple(f"{start + 1}~{stop}" for start, stop in shown.runs[:_SHOWN_RUNS])
        raise IncompleteRead(shown.version, runs or None, shown.total)


def note_whole(bases: Snapshots, member: Member, real: RelPath, text: Snapshot) -> None:
    """Record a text that the member has written, and that it knows all of it."""
    lines = text.line_count
    runs = ((0, lines),) if lines else ()
    bases.keep(text, real, [Note(member.name, real, ShownLines(text.version, lines, runs))])


def note_of_change(
    member: str, real: RelPath, base: Text, after: Text, digest: str, *changes: LineChange
) -> Note:
    """The lines known to the member after some changes; `digest` is the new SHA-256."""
    version = digest[:VERSION_LENGTH]
    return Note(
        member, real, lambda: CarriedLines(base.version, version, after.line_count, changes)
    )


def unshown(
    bases: Snapshots, member: Member, real: RelPath, version: str, *lines: Run, is_old: bool
) -> tuple[Run, ...]:
    """Return those lines of a version that the member was not shown, as far as is recorded.

    `is_old`: the file has another version now; a caller that still names this one will go on doing
    so, so the record is kept longer than others.
    """
    if (shown := bases.shown(member.name, real, version)) is None:
        return lines
    missing = tuple(lack for run in lines for lack in shown.lacks(*run))
    if is_old and not missing and not shown.read:
        bases.note_shown(Note(member.name, real, shown))
    return missing


def line_change(base: Text, change: ChangeSet, *, own: bool = True) -> LineChange:
    """A byte change as a line change; `own`: the member itself gave the new text."""
    base = base.unmarked()
    first = ChangeSet(change.length, change.edits[:MOST_RUNS])
    regions: list[tuple[int, int, int]] = []
    written: list[tuple[int, int]] = []
    shift = 0
    for start, stop, edits in touched(base, first):
        grown = sum(
            _newlines(edit.new, base) - _newlines(base.slice(edit.start, edit.stop), base)
            for edit in edits
        )
        regions.append((start, stop, stop - start + grown))
        text_end = base.start(stop) - (len(base.terminator(stop - 1)) if start < stop else 0)
        is_whole = edits[0].start == base.start(start) and edits[-1].stop >= text_end
        if own and len(edits) == 1 and is_whole:
            written.append((start + shift, stop + shift + grown))
        shift += grown
    if len(first.edits) < len(change.edits):  # what is below those is not known any more
        regions.append((regions[-1][1], base.line_count, 0))
    return LineChange(tuple(regions), tuple(written), amended=own)


def change_of(draft: Draft, *, own: bool = True) -> LineChange:
    """An edit as a line change; `own`: the member itself gave the new text."""
    if (pieces := draft.request.pieces(draft.place, len(draft.new_lines))) is None:
        return line_change(draft.base, draft.change, own=own)
    written: list[Run] = []
    shift = 0
    for start, stop, count in pieces:
        written.append((start + shift, start + shift + count))
        shift += count - (stop - start)
    return LineChange(tuple(pieces), tuple(written) if own else ())


def _newlines(data: bytes, text: Text) -> int:
    """Count the line ends in the bytes, which are whole code units."""
    return data.count(b"\n") if text.encoding.unit == 1 else text.encoding.decode(data).count("\n")
