"""String edits: several at once, one everywhere, a whole file; at once, without a plan.

What lives here: what they expect of the file, and the step to the one writer.
What must not: the envelope, a second way to write. Invariant: what was expected
is checked in the file's turn, on the very bytes that are replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from copydesk.desk.member import Member
from copydesk.desk.setting import Setting
from copydesk.desk.writing import Job, Writer
from copydesk.edit.batch import Batch, compile_batch, replace_everywhere
from copydesk.edit.request import BatchEdit, StringEdit
from copydesk.errors import Conflict, FileExists, FileNotFound, InvalidArgs
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.encoding import of_new_file
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot
from copydesk.text.unified import unified


@dataclass(frozen=True, slots=True)
class Expected:
    """What the caller knows of the file: milliseconds since 1970, bytes, hex of the SHA-256."""

    mtime_ms: int | None = None
    size_bytes: int | None = None
    sha256: str | None = None

    @property
    def nothing(self) -> bool:
        """Whether nothing is expected."""
        return self.mtime_ms is None and self.size_bytes is None and self.sha256 is None

    def check(self, base: Snapshot, mtime_ms: int) -> None:
        """Raise Conflict for the first thing that is otherwise."""
        if self.size_bytes is not None and self.size_bytes != len(base.data):
            raise Conflict("expected_size_bytes", self.size_bytes, len(base.data))
        if self.mtime_ms is not None and self.mtime_ms != mtime_ms:
            raise Conflict("expected_mtime_ms", self.mtime_ms, mtime_ms)
        if self.sha256 is not None and self.sha256.lower() != base.digest:
            raise Conflict("expected_sha256", self.sha256, base.digest)


@dataclass(frozen=True)
class Rewrite:
    """A whole file as it was and as it is, or would be (`edit_id` 0: nothing was written)."""

    path: RelPath
    base: Snapshot
    change: ChangeSet
    replacements: int
    no_ops: int
    created: bool = False
    edit_id: int = 0

    @property
    def after(self) -> Snapshot:
        """The text after."""
        return self._after

    @property
    def diff(self) -> bytes:
        """The unified diff of all edits."""
        return self._diff

    @cached_property
    def _after(self) -> Snapshot:
        return Snapshot(self.change.apply(self.base.data), self.base.encoding)

    @cached_property
    def _diff(self) -> bytes:
        return unified(self.base, self.change, str(self.path), created=self.created)


class Batching:
    """String edits of one workspace."""

    def __init__(self, setting: Setting, writer: Writer) -> None:
        self._set, self._writer = setting, writer

    def edit(
        self, member: Member, tool: str, request: BatchEdit, expected: Expected, *, dry: bool
    ) -> Rewrite:
        """Make all edits or none; `dry` only tells what they would come to.

        Raises the refusals of `compile_batch`, Conflict, and those of the file.
        """

        def made(base: Snapshot) -> Batch:
            return compile_batch(base, request.edits)

        return self._rewrite(member, tool, request.path, expected, made, dry=dry)

    def replace_all(
        self,
        member: Member,
        tool: str,
        path: RelPath,
        edit: StringEdit,
        expected: Expected,
        *,
        dry: bool,
    ) -> Rewrite:
        """Replace every place of one text."""

        def made(base: Snapshot) -> Batch:
            return replace_everywhere(base, edit)

        return self._rewrite(member, tool, path, expected, made, dry=dry)

    def write(
        self,
        member: Member,
        tool: str,
        path: RelPath,
        content: str,
        expected: Expected,
        *,
        overwrite: bool,
    ) -> Rewrite:
        """Write a whole file: a new one, or with `overwrite` over one that is as expected."""
        if not overwrite:
            return self._create(member, tool, path, content)
        try:
            self._set.files.stat(path)
        except FileNotFound:
            return self._create(member, tool, path, content)
        if expected.nothing:
            raise InvalidArgs("overwrite", "needs one of expected_mtime_ms, _size_bytes, _sha256")

        def made(base: Snapshot) -> Batch:
            start = base.start(0)
            edit = Edit(start, len(base.data), base.encoding.encode(content))
            return Batch(ChangeSet.of(len(base.data), [edit]), (), 0)

        return self._rewrite(member, tool, path, expected, made, dry=False)

    def _create(self, member: Member, tool: str, path: RelPath, content: str) -> Rewrite:
        encoding = of_new_file(self._set.named(self._set.files.resolve(path)))
        nothing = Snapshot(b"", encoding)
        change = ChangeSet.of(0, [Edit(0, 0, encoding.encode(content))])
        made = Rewrite(path, nothing, change, 1, 0, created=True)
        job = Job(member, tool, path, (self._set.clock(), tool))
        try:
            _, edit_id = self._writer.create(job, lambda: made)
        except FileExists as refusal:
            raise FileExists(refusal.size_bytes) from None
        return Rewrite(path, nothing, change, 1, 0, True, edit_id)

    def _rewrite(
        self,
        member: Member,
        tool: str,
        path: RelPath,
        expected: Expected,
        compiled: Callable[[Snapshot], Batch],
        *,
        dry: bool,
    ) -> Rewrite:
        def make(base: Snapshot) -> Rewrite:
            if not expected.nothing:
                _, stamp = self._set.files.stat(path)
                expected.check(base, stamp.mtime_ns // 1_000_000)
            batch = compiled(base)
            changed = len(batch.spans) - batch.no_op_count
            return Rewrite(path, base, batch.change, changed, batch.no_op_count)

        real = self._set.files.resolve(path)
        member.permission.check("write", path, real)
        member.permission.check("read", path, real)
        if dry:
            document = self._set.files.read(path)
            return make(Snapshot.of(document.data, self._set.named(document.real)))
        job = Job(member, tool, path, (self._set.clock(), tool))
        made, edit_id = self._writer.write(job, make)
        self._set.bases.keep(made.after)
        return Rewrite(path, made.base, made.change, made.replacements, made.no_ops, False, edit_id)
