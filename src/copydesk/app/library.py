"""The Python API: one workspace, typed requests, typed answers."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from copydesk.app.config import load
from copydesk.app.workspace import open_workspace
from copydesk.desk.batch import Rewrite
from copydesk.desk.changes import Changes, FileChanges, Selection, UndoneChanges
from copydesk.desk.history import Past
from copydesk.desk.member import Member
from copydesk.desk.outcome import (
    Applied,
    Created,
    NotUndone,
    Overwritten,
    Planned,
    Reading,
    Rejected,
    Saved,
    Transacted,
    Undone,
    Withheld,
)
from copydesk.desk.overwritten import OverwrittenEdit
from copydesk.edit.draft import Plan
from copydesk.edit.kinds.replace import compile_batch
from copydesk.edit.request import (
    BatchEdit,
    Preconditions,
    Request,
    StringEdit,
    Terms,
    check_text,
    check_why,
)
from copydesk.errors import FileNotFound, InvalidArgs
from copydesk.store.protocol import Closing
from copydesk.text.relpath import RelPath
from copydesk.tools.ws_mod import UNDO

_Written = TypeVar("_Written", Applied, Transacted, Created, Overwritten, Undone, Rewrite)


@dataclass(frozen=True, slots=True)
class ChangesView:
    """The open changes of a selection; see `Desk.changes`."""

    _changes: Changes
    _member: Member
    _what: Selection

    @property
    def files(self) -> tuple[FileChanges, ...]:
        """The files and their hunks, as they are now."""
        return self._changes.view(self._member, self._what)

    def keep(self, *hunks: str) -> int:
        """Count these hunks, or all, as kept; nothing is written. Returns how many."""
        return self._changes.keep(self._member, self._what, hunks or None)

    def undo(self, *hunks: str, reason: str = "", partly: bool = False) -> UndoneChanges:
        """Undo these hunks, or all, as one transaction; their members are told the reason.

        What others changed since is `refused`, and then nothing is written unless `partly`.
        """
        why = check_why("reason", reason)
        return self._changes.undo(
            self._member, self._what, hunks or None, reason=why, partly=partly
        )


class Desk(Closing):
    """The copy desk of the workspace at `root`, for one member.

    Plans are kept in the memory of the process, or with `shared` in the state folder, where the
    command line and the servers see them. If another program writes to a file at the moment when
    it is replaced, so that its text cannot stay there, that text is saved as an edit, also in the
    state folder: see `foreign_writes` of the next result or of the desk; it is logged if nobody
    asks. Every method may raise a `copydesk.errors.Refusal`, and then nothing was written; the
    constructor may also raise `copydesk.app.config.ConfigError`. Use a desk in a `with`, or close
    it.

    >>> import tempfile, pathlib
    >>> from copydesk import Desk
    >>> from copydesk.edit.request import RangeEdit
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (root / "a.txt").write_text("one\\ntwo\\n")
    >>> with Desk(root) as desk:
    ...     plan = desk.prepare(RangeEdit(desk.path("a.txt"), "2", "zwei"))
    ...     print(plan.draft.diff.decode().split("@@")[-1].strip())
    ...     done = desk.apply(plan.id)
    one
    -two
    +zwei
    >>> done.context, (root / "a.txt").read_text()
    ('exact', 'one\\nzwei\\n')
    """

    def __init__(
        self, root: str | os.PathLike[str], *, member: str | None = None, shared: bool = False
    ) -> None:
        config = load(os.fspath(root))
        if member is not None:
            config = replace(config, member=member)
        self._opened = open_workspace(os.fspath(root), config, shared=shared)
        self._name = config.member

    @property
    def _member(self) -> Member:
        return self._opened.member(self._name)

    def close(self) -> None:
        """Close the workspace; plans in memory are lost."""
        self._opened.close()

    @staticmethod
    def path(text: str) -> RelPath:
        """A path of the workspace, relative to its root; raises InvalidPath."""
        return RelPath.parse(text)

    def read(self, path: str, range: str = "", most_lines: int = 500) -> Reading:
        """Read lines of a file: `range` as in `read_file`, "" for all of them."""
        if most_lines < 1:
            raise InvalidArgs("most_lines", "must be a number from 1")
        return self._opened.desk.read(self._member, RelPath.parse(path), range, most_lines)

    def prepare(
        self,
        request: Request,
        *,
        version: str | None = None,
        expected_old: str | None = None,
        existing_hunk_id: str | None = None,
        why: str = "",
    ) -> Planned:
        """Plan an edit; nothing is written. `why` is one line for reviewers."""
        request.check()
        terms = Terms(version, expected_old, existing_hunk_id)
        member = self._member.because(check_why("why", why))
        outcome = self._opened.desk.prepare(member, request.tool, request, terms)
        assert isinstance(outcome, Planned), "without auto a preparation only plans"
        return outcome

    def edit(
        self,
        request: Request,
        *,
        version: str | None = None,
        expected_old: str | None = None,
        why: str = "",
    ) -> Applied | Planned:
        """Apply an edit at once if it is certain; otherwise plan it, with the reason (`declined`).

        >>> import tempfile, pathlib
        >>> from copydesk import Desk
        >>> from copydesk.edit.request import Anchor, Insert
        >>> root = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (root / "a.txt").write_text("one\\none\\n")
        >>> with Desk(root) as desk:
        ...     where = Anchor("one")
        ...     first = desk.edit(Insert(desk.path("a.txt"), where, "1.5", occurrence=1))
        >>> type(first).__name__, first.plan.owner, first.declined is None
        ('Planned', 'local', False)
        """
        request.check()
        terms = Terms(version, expected_old, auto=True)
        member = self._member.because(check_why("why", why))
        outcome = self._opened.desk.prepare(member, request.tool, request, terms)
        return self._reporting(outcome) if isinstance(outcome, Applied) else outcome

    def batch(
        self,
        path: str,
        edits: Iterable[StringEdit | tuple[str, str]],
        *,
        expected_mtime_ms: int | None = None,
        expected_size_bytes: int | None = None,
        expected_sha256: str | None = None,
        dry_run: bool = False,
    ) -> Rewrite:
        """Replace several texts of one file at once, all of them or none.

        `edits` are pairs of an old and a new text. Each old text must occur exactly once in
        the original file; LF in it matches any line end. Expectations about the file
        (`mtime_ms`, `size_bytes` and `digest` of a `read`) are checked under its lock, on the
        very bytes that are replaced. A `dry_run` writes nothing and returns the diff that the
        real run would make.

        Raises PartialMatchFail with every edit that does not match exactly one place,
        CollisionDetected, DuplicateEdits, Conflict, InvalidArgs that names the edit by its
        index, and the refusals of the file.

        >>> import tempfile, pathlib
        >>> from copydesk import Desk
        >>> from copydesk.errors import PartialMatchFail
        >>> root = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (root / "a.py").write_text("import os\\nx = 1\\ny = 2\\n")
        >>> with Desk(root) as desk:
        ...     seen = desk.read("a.py")
        ...     edits = [("import os\\n", ""), ("x = 1", "x = 10"), ("y = 2", "y = x")]
        ...     done = desk.batch("a.py", edits, expected_sha256=seen.digest)
        ...     try:
        ...         desk.batch("a.py", [("x = 10", "x = 11"), ("z = 3", "z = 4")])
        ...     except PartialMatchFail as refusal:
        ...         print([(edit.index, edit.reason) for edit in refusal.failures])
        [(1, 'no match')]
        >>> done.replacements, done.edit_id, (root / "a.py").read_text()
        (3, 1, 'x = 10\\ny = x\\n')
        """
        request = BatchEdit.of(RelPath.parse(path), edits)
        request.check()
        expected = Preconditions(expected_mtime_ms, expected_size_bytes, expected_sha256)
        compiled = partial(compile_batch, edits=request.edits)
        call = self._member, "BatchEdit", request.path, compiled, expected
        try:
            made = self._opened.batches.edit(*call, dry=dry_run)
        except FileNotFound:
            raise self._opened.desk.missing(self._member, request.path) from None
        return self._reporting(made)

    def apply(self, hunk_id: str) -> Applied:
        """Write a plan; raises ContentChanged and other refusals of the file."""
        return self._reporting(
            self._opened.desk.apply(self._member, "apply_file_modification", hunk_id)
        )

    def apply_all(self, *hunk_ids: str) -> Transacted:
        """Write several plans, all or none; raises the refusal of the first refused plan.

        >>> import tempfile, pathlib
        >>> from copydesk import Desk
        >>> from copydesk.edit.request import Append
        >>> root = pathlib.Path(tempfile.mkdtemp())
        >>> with Desk(root) as desk:
        ...     plans = [desk.prepare(Append(desk.path(name), "new")) for name in ("a", "b")]
        ...     done = desk.apply_all(*(plan.id for plan in plans))
        >>> len(done.applied), (root / "b").read_text()
        (2, 'new\\n')
        """
        return self._reporting(
            self._opened.desk.apply_all(self._member, "apply_file_modifications", hunk_ids)
        )

    def discard(self, hunk_id: str) -> Plan:
        """Discard a plan."""
        return self._opened.desk.discard(self._member, hunk_id)

    def create(self, path: str, content: str = "", *, may_be_diff: bool = False) -> Created:
        """Write a new file. Content that looks like a patch is refused unless it `may_be_diff`."""
        parsed = RelPath.parse(path)
        check_text("content", content)
        return self._reporting(
            self._opened.desk.create(
                self._member, "create_new_file", parsed, content, may_be_diff=may_be_diff
            )
        )

    def overwrite(
        self,
        path: str,
        content: str,
        *,
        known_lines: int,
        known_bytes: int,
        may_be_diff: bool = False,
    ) -> Overwritten:
        """Replace a whole file if it has this many lines and bytes.

        Content that looks like a patch is refused unless it `may_be_diff`.
        """
        check_text("content", content)
        return self._reporting(
            self._opened.desk.overwrite(
                self._member,
                "overwrite_entire_file",
                RelPath.parse(path),
                (known_lines, known_bytes),
                content,
                may_be_diff=may_be_diff,
            )
        )

    def pending(self) -> tuple[Plan, ...]:
        """The pending plans, oldest first."""
        return self._opened.desk.waiting(self._member)

    def history(
        self, path: str | None = None, most: int = 50, before: int | None = None
    ) -> tuple[Past, ...]:
        """Recent edits, newest first: of all files, of a file, or of a directory.

        `before` limits the result to lower ids.
        """
        if most < 1:
            raise InvalidArgs("most", "must be a number from 1")
        return self._opened.history(self._member.name, path, most, before)

    def foreign_writes(self) -> tuple[Saved, ...]:
        """Other programs' writes that were saved as edits and not yet reported.

        A program that keeps a replaced file open may write to it later than the result.
        """
        return self._opened.desk.foreign.told(self._member)

    def _reporting(self, outcome: _Written | Rejected | Withheld | NotUndone) -> _Written:
        """The result with the saved writes of other programs; raises what it was refused with."""
        if isinstance(outcome, Rejected | Withheld | NotUndone):
            raise outcome.refusal
        if not self._opened.desk.foreign.any_untold:
            return outcome
        return replace(outcome, foreign_writes=self.foreign_writes())

    def undo(self, edit_id: int) -> Undone:
        """Undo an edit, even after later edits of other lines; the undo is an edit itself.

        Raises EditNotFound, AccessDenied, ContentChanged if the edited lines have changed
        since, and other refusals of the file.

        >>> import tempfile, pathlib
        >>> from copydesk import Desk
        >>> from copydesk.edit.request import RangeEdit
        >>> root = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (root / "a.txt").write_text("one\\ntwo\\nthree\\n")
        >>> with Desk(root) as desk:
        ...     first = desk.apply(desk.prepare(RangeEdit(desk.path("a.txt"), "1", "eins")).id)
        ...     desk.apply(desk.prepare(RangeEdit(desk.path("a.txt"), "3", "drei")).id).edit_id
        ...     back = desk.undo(first.edit_id)
        ...     [(edit.edit_id, edit.undoes, edit.undone_by) for edit in desk.history()]
        2
        [(3, 1, 0), (2, 0, 0), (1, 0, 3)]
        >>> back.context, (root / "a.txt").read_text()
        ('fuzz', 'one\\ntwo\\ndrei\\n')
        """
        return self._reporting(self._opened.desk.undo(self._member, UNDO, edit_id))

    def overwritten(self) -> tuple[OverwrittenEdit, ...]:
        """Edits of the last day that other programs have overwritten, by now or before.

        Edits of the last hour are looked at. One that was made again is none of them.
        """
        self._opened.desk.overwrites.look()
        return self._opened.desk.overwritten(self._member)

    def reapply(self, edit_id: int) -> Applied | Planned | None:
        """Make an edit again that another program has overwritten; None if it stands.

        It is planned if it is not certain (`declined`). Raises EditNotFound, AccessDenied,
        ContentChanged, AmbiguousMatch, and other refusals of the file.

        >>> import tempfile, pathlib
        >>> from copydesk import Desk
        >>> from copydesk.edit.request import RangeEdit
        >>> root = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (root / "a.txt").write_text("one\\ntwo\\n")
        >>> with Desk(root) as desk:
        ...     done = desk.apply(desk.prepare(RangeEdit(desk.path("a.txt"), "2", "zwei")).id)
        ...     _ = (root / "a.txt").write_text("zero\\none\\ntwo\\n")
        ...     lost = [(one.entry.edit_id, one.line) for one in desk.overwritten()]
        ...     again = desk.reapply(done.edit_id)
        >>> lost, type(again).__name__, (root / "a.txt").read_text()
        ([(1, 2)], 'Applied', 'zero\\none\\nzwei\\n')
        """
        outcome = self._opened.desk.reapply(self._member, UNDO, edit_id)
        return self._reporting(outcome) if isinstance(outcome, Applied) else outcome

    def changes(
        self,
        *,
        task: str = "",
        member: str = "",
        transaction: int = 0,
        since: str = "",
        path: str = "",
    ) -> ChangesView:
        """The open changes: what members did in net, and nobody has kept or undone.

        Of a task (or a session, by its key), of a member, of the `transaction` of an edit, since
        `2h`, a checkpoint or the start of a task, of a file or a directory; of the last seven days
        without any. Raises InvalidPath, InvalidArgs.

        >>> import tempfile, pathlib
        >>> from copydesk import Desk
        >>> from copydesk.edit.request import RangeEdit
        >>> root = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (root / "a.txt").write_text("one\\ntwo\\nthree\\n")
        >>> with Desk(root) as desk:
        ...     for line, text in ("1", "eins"), ("3", "drei"):
        ...         _ = desk.apply(desk.prepare(RangeEdit(desk.path("a.txt"), line, text)).id)
        ...     first, second = (hunk for file in desk.changes().files for hunk in file.hunks)
        ...     kept = desk.changes().keep(first.id)
        ...     done = desk.changes().undo(second.id)
        ...     left = desk.changes().files
        >>> kept, len(done.written), left, (root / "a.txt").read_text()
        (1, 1, (), 'eins\\ntwo\\nthree\\n')
        """
        changes = self._opened.desk.changes
        at = RelPath.parse(path) if path else None
        since_ms = changes.since(since) if since else 0
        what = Selection(task, member, transaction, since_ms, at)
        return ChangesView(changes, self._member, what)

    def undo_transaction(self, edit_id: int) -> tuple[Undone, ...]:
        """Undo all edits of an edit's transaction, or none; newest first.

        Raises as `undo` does.
        """
        outcome = self._opened.desk.undo_together(self._member, UNDO, edit_id)
        if isinstance(outcome, NotUndone):
            raise outcome.refusal
        return tuple(map(self._reporting, outcome))
