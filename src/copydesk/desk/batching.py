"""String edits: several at once, one everywhere, a whole file; at once, without a plan.

What lives here: what they expect of the file, and the step to the one writer.
What must not: the envelope, a second way to write. Invariant: what was expected
is checked in the file's turn, on the very bytes that are replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

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
from copydesk.text.source import Source
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
        """Raise Conflict, with all that is otherwise."""
        digest = None if self.sha256 is None else self.sha256.lower()
        told = (
            ("expected_size_bytes", self.size_bytes, self.size_bytes, base.size),
            ("expected_mtime_ms", self.mtime_ms, self.mtime_ms, mtime_ms),
            ("expected_sha256", self.sha256, digest, base.digest),
        )
        wrong: dict[str, dict[str, int | str]] = {
            name: {"expected": given, "actual": actual}
            for name, given, expected, actual in told
            if given is not None and expected != actual
        }
        if wrong:
            name, first = next(iter(wrong.items()))
            raise Conflict(name, first["expected"], first["actual"], wrong)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A whole file as it was and as it is, or would be (`edit_id` 0: nothing was written).

    `diff` is the unified diff of all edits. Make one with `of`.
    """

    path: RelPath
    base: Snapshot
    change: ChangeSet
    after: Snapshot
    diff: bytes
    replacements: int
    no_ops: int
    created: bool
    edit_id: int = 0

    @staticmethod
    def of(path: RelPath, base: Snapshot, batch: Batch, *, created: bool = False) -> Rewrite:
        """What the batch makes of `base`."""
        change = batch.change
        after = base.edited(change)
        diff = unified(base, change, str(path), created=created)
        made = len(batch.spans) - batch.no_op_count
        return Rewrite(path, base, change, after, diff, made, batch.no_op_count, created)


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
        """Write a whole file: a new one, or with `overwrite` over one that is as expected.

        A new file has the very content. One that is written over keeps its
        encoding, its byte order mark and the line ends that most of it has.
        Raises FileExists, FileNotFound when something was expected of a file
        that is not there, InvalidArgs when nothing was of one that is.
        """
        real = self._set.files.resolve(path)
        member.permission.check("write", path, real)
        size = self._size(path)
        if size is None:
            if not expected.nothing:
                raise FileNotFound()
            return self._create(member, tool, path, content)
        if not overwrite:
            raise FileExists(size if member.permission.allows_read(real) else None)
        if expected.nothing:
            raise InvalidArgs("overwrite", "needs one of expected_mtime_ms, _size_bytes, _sha256")

        def made(base: Snapshot) -> Batch:
            return _whole(base, base.start(0), _styled(base, content))

        return self._rewrite(member, tool, path, expected, made, dry=False)

    def _size(self, path: RelPath) -> int | None:
        """The size of the file, in bytes; None when there is none."""
        try:
            return self._set.files.stat(path)[1].size
        except FileNotFound:
            return None

    def _create(self, member: Member, tool: str, path: RelPath, content: str) -> Rewrite:
        real = self._set.files.resolve(path)
        encoding = of_new_file(self._set.named(real))
        nothing = Snapshot(b"", encoding)
        made = Rewrite.of(path, nothing, _whole(nothing, 0, content), created=True)
        job = Job(member, tool, path, (self._set.clock(), tool))
        written = self._writer.create(job, lambda: made)
        self._set.bases.keep(made.after, real)
        return replace(made, edit_id=written.edit_id)

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
        def make(now: Source) -> Rewrite:
            base = now.whole()
            if not expected.nothing:
                _, stamp = self._set.files.stat(path)
                expected.check(base, stamp.mtime_ns // 1_000_000)
            return Rewrite.of(path, base, compiled(base))

        real = self._set.files.resolve(path)
        member.permission.check("write", path, real)
        member.permission.check("read", path, real)
        if dry:
            with self._set.files.text(path, self._set.named) as opened:
                return make(opened.source)
        job = Job(member, tool, path, (self._set.clock(), tool))
        written = self._writer.write(job, make)
        self._set.bases.keep(written.made.after, real)
        return replace(written.made, edit_id=written.edit_id)


def _whole(base: Snapshot, start: int, content: str) -> Batch:
    """The batch of one edit that puts `content` in the place of all bytes from `start` on."""
    edit = Edit(start, base.size, base.encoding.encode(content))
    return Batch(ChangeSet.of(base.size, [edit]), ((start, base.size),), 0)


def _styled(base: Snapshot, content: str) -> str:
    """The content with the line ends that most of the file has; as it is where there are none."""
    if base.newline_style == "none":
        return content
    content = content.replace("\r\n", "\n")
    if base.newline_name(base.dominant_newline) == "crlf":
        return content.replace("\n", "\r\n")
    return content
