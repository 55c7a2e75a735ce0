"""Edits without a plan: several strings, one string everywhere, new lines, a whole file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from copydesk.desk.applying import Applying
from copydesk.desk.backends.snapshots import LARGEST, CarriedLines, Note
from copydesk.desk.drafts import Setting
from copydesk.desk.gates import Edited
from copydesk.desk.member import Member, authorized, check_shown, line_change, note_whole
from copydesk.desk.outcome import Saved
from copydesk.edit.draft import whole_text
from copydesk.edit.kinds.base import Preconditions
from copydesk.edit.kinds.replace import Batch, compile_in_order
from copydesk.edit.signs import signs_of
from copydesk.errors import (
    EncodingRefused,
    FileExists,
    FileNotFound,
    InvalidArgs,
    RangeOutOfBounds,
    SuspiciousText,
)
from copydesk.store.checks import suffix_of
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.encoding import NO_ESCAPES, Escapes, of_new_file
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import VERSION_LENGTH, Snapshot, Source, computed_once
from copydesk.text.unified import FileEdit, counts, line_counts, unified, unified_start

SHOWN_DIFF = 16 << 10
"""Bytes; of a larger diff only the start is made before the answer; the journal gets all."""

SHOWN_LINES = 100
"""The same limit in lines."""

_MARKUP = frozenset([".htm", ".html", ".markdown", ".md", ".svg", ".tex", ".txt", ".xhtml", ".xml"])
"""Suffixes of texts where a line that is indented less still means the same."""


@dataclass(frozen=True, kw_only=True)
class Rewrite(FileEdit):
    """A whole file as it was and as it is, or would be (`edit_id` 0: nothing was written).

    `diff` is the unified diff of all edits, or the start of a long one. `digest` is the SHA-256 of
    the text after, if writing computed it. Make one with `of`.
    """

    replacements: int
    no_ops: int
    edit_id: int = 0
    digest: str = ""
    escapes: Escapes = NO_ESCAPES
    foreign_writes: tuple[Saved, ...] = ()
    signs: tuple[str, ...] = ()

    @staticmethod
    def of(
        member: Member, path: RelPath, base: Snapshot, batch: Batch, *, created: bool = False
    ) -> Rewrite:
        """Return the result of the member's batch on `base`."""
        return Rewrite(
            *(path, base, batch.change, created),
            replacements=len(batch.spans) - batch.no_op_count,
            no_ops=batch.no_op_count,
            escapes=batch.escapes,
            signs=signs_of(path, base, batch.change, member.usual_signs),
        )

    def check_signs(self) -> Rewrite:
        """The same; raises SuspiciousText if its new text may not be what is meant."""
        if self.signs:
            raise SuspiciousText(self.signs)
        return self

    def written(self, edit_id: int, digest: str) -> Rewrite:
        """The same, now written."""
        rewrite = replace(self, edit_id=edit_id, digest=digest)
        rewrite.__dict__["_shown"] = self._shown
        if "after" in self.__dict__:
            rewrite.__dict__["after"] = replace(self.after, told=lambda: digest)
        return rewrite

    @property
    def version(self) -> str:
        return (self.digest or self.after.digest)[:VERSION_LENGTH]

    @property
    def size(self) -> int:
        return self.change.new_length

    @computed_once
    def after(self) -> Snapshot:
        """The text after; a large one takes a while to make."""
        after, known = self.base.edited(self.change), self.digest
        return replace(after, told=lambda: known) if known else after

    @computed_once
    def diff(self) -> bytes:
        """The part of the unified diff that is shown."""
        return self._shown[0]

    @property
    def is_whole_diff(self) -> bool:
        """Whether `diff` is all of it."""
        return self._shown[1]

    def carried(self) -> CarriedLines:
        """The lines of the text after that are known by those of the base."""
        change = line_change(self.base, self.change)
        return CarriedLines(self.base.version, self.version, self.after.line_count, (change,))

    def whole_diff(self) -> bytes:
        """Make all of the diff; with very many edits it takes longer than making them."""
        return unified(self.base, self.change, str(self.path), created=self.created)

    @property
    def line_counts(self) -> tuple[int, int]:
        return self._shown[2]

    @computed_once
    def _shown(self) -> tuple[bytes, bool, tuple[int, int]]:
        """What is reported about the change, computed while it is written."""
        edit = self.base, self.change, str(self.path)
        diff, whole = unified_start(*edit, SHOWN_DIFF, SHOWN_LINES, created=self.created)
        return diff, whole, counts(diff) if whole else line_counts(self.base, self.change)


Compiled = Callable[[Snapshot], Batch]
"""Makes the edits of a text, or refuses them."""


def in_order(path: RelPath, edits: Sequence[tuple[str, str]]) -> Compiled:
    """What makes the edits one after the other; raises as `compile_in_order`."""
    return partial(compile_in_order, edits=edits, is_code=suffix_of(path) not in _MARKUP)


def insert(base: Snapshot, after_line: int, content: str) -> Batch:
    """Insert the lines of `content` after a line, 1-based; 0 inserts at the start.

    A newline at the end of the content begins one more, empty line; after the newline at the
    end of the file there is one more line to insert after. All other bytes stay, the end of the
    file too. Raises RangeOutOfBounds, EncodingRefused.
    """
    total = base.line_count
    lines = total + (base.ends_with_newline or not total)
    if after_line > lines:
        raise RangeOutOfBounds(str(after_line), lines)
    if base.ragged and after_line == lines:
        raise EncodingRefused(base.encoding.name, "a broken code unit at the end", 0)
    at = min(after_line, total)
    offset, beside = base.start(at), base.raw(max(after_line - 1, 0), min(after_line + 1, total))
    text, escapes = base.encoding.meant(content.replace("\r\n", "\n"), beside)
    newline = base.newline_near(at, at)
    new = newline.join(map(base.encoding.bytes_of, text.split("\n")))
    new = newline + new if after_line == lines else new + newline
    change = ChangeSet.of(base.size, [Edit(offset, offset, new)])
    return Batch(change, ((offset, offset),), 0, escapes)


class Batching:
    """The edits of one workspace that are made without a plan."""

    def __init__(self, setting: Setting, applying: Applying) -> None:
        self._set, self._applying = setting, applying

    def edit(
        self,
        member: Member,
        tool: str,
        path: RelPath,
        compiled: Compiled,
        expected: Preconditions,
        *,
        dry: bool,
    ) -> Rewrite:
        """Make all that is `compiled` or none (`dry`: none); raises as that, Conflict, the file's.

        `compiled` gets the text under the file's lock, and again if that changes meanwhile.
        """
        real = authorized(self._set.files, member, path, "write", "read")

        def revise(now: Source) -> Rewrite:
            base = now.whole()
            if not expected.nothing:
                _, stamp = self._set.files.stat(path)
                expected.check(base, stamp.mtime_ns // 1_000_000)
            return Rewrite.of(member, path, base, compiled(base))

        if dry:
            with self._set.files.text(path, self._set.named) as opened:
                rewrite = revise(opened.source)
            if not rewrite.base.unchanged_by(rewrite.change):
                self._set.checks.judge(Edited.of(path, real, rewrite, created=False))
            return rewrite
        written = self._applying.edit(member, tool, path, lambda now: revise(now).check_signs())
        done = written.made.written(written.edit_id, written.digest)
        if done.size <= LARGEST:
            self._set.bases.keep(done.after, real, [Note(member.name, real, done.carried)])
        if done.edit_id and not done.is_whole_diff:
            self._set.journal.amend(done.edit_id, done.whole_diff)
        return done

    def write(
        self,
        member: Member,
        tool: str,
        path: RelPath,
        content: str,
        expected: Preconditions,
        *,
        overwrite: bool,
        blindly: bool = False,
        dry: bool = False,
    ) -> Rewrite:
        """Write a whole file: a new one, or with `overwrite` one that is as expected.

        `blindly`: also overwrite without expectations, and keep CRLF in the content. A new file
        gets exactly the content. An overwritten one keeps its encoding, its byte order mark and its
        most frequent line ends. Raises FileExists, FileNotFound if something was expected of a
        missing file, InvalidArgs if nothing was of an existing one, IncompleteRead if the member
        was shown only a part of it, and EncodingRefused.
        """
        real = authorized(self._set.files, member, path, "write", "read")
        try:
            size = self._set.files.stat(path)[1].size
        except FileNotFound:
            if not expected.nothing:
                raise
            return self._create(member, tool, path, content, dry=dry)
        if not overwrite:
            raise FileExists(size)
        if expected.nothing and not blindly:
            raise InvalidArgs("overwrite", "needs one of expected_mtime_ms, _size_bytes, _sha256")

        def compiled(base: Snapshot) -> Batch:
            check_shown(self._set.bases, member, real)
            text = whole_text(base, content)
            is_final = blindly and "\r\n" in text
            return _whole(base, base.start(0), text if is_final else _styled(base, text))

        done = self.edit(member, tool, path, compiled, expected, dry=dry)
        if not dry:
            note_whole(self._set.bases, member, real, done.after)
        return done

    def _create(
        self, member: Member, tool: str, path: RelPath, content: str, *, dry: bool
    ) -> Rewrite:
        real = self._set.files.resolve(path)
        nothing = Snapshot(b"", of_new_file(self._set.named(real)))
        rewrite = Rewrite.of(member, path, nothing, _whole(nothing, 0, content), created=True)
        if dry:
            return rewrite
        rewrite.check_signs()
        written = self._applying.create(member, tool, path, rewrite)
        done = rewrite.written(written.edit_id, written.digest)
        note_whole(self._set.bases, member, real, done.after)
        return done


def _whole(base: Snapshot, start: int, content: str) -> Batch:
    """The batch of one edit that replaces all bytes from `start` on by `content`."""
    edit = Edit(start, base.size, base.encoding.encode(content))
    return Batch(ChangeSet.of(base.size, [edit]), ((start, base.size),), 0)


def _styled(base: Snapshot, content: str) -> str:
    """The content with the file's most frequent line ends; unchanged if the file has none."""
    if base.newline_style == "none":
        return content
    newline = "\r\n" if base.newline_name(base.dominant_newline) == "crlf" else "\n"
    return content.replace("\r\n", "\n").replace("\n", newline)
