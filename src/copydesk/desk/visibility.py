"""What a member may see of a path, judged as it is spelled and by what it leads to now."""

from __future__ import annotations

from copydesk.desk.backends.shown import MOST_RUNS, CarriedLines, LineChange, Note, Run, ShownLines
from copydesk.desk.backends.snapshots import Snapshots
from copydesk.desk.member import Member, Operation
from copydesk.edit.draft import Draft
from copydesk.edit.request import BatchEdit, RangeEdits, content_lines
from copydesk.errors import FileExists, FileNotFound, IncompleteRead, NotAFile, Refusal
from copydesk.store.files import Files
from copydesk.store.protocol import Stamp
from copydesk.text.change import ChangeSet
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import VERSION_LENGTH, Snapshot, Text
from copydesk.text.unified import touched

_SHOWN_RUNS = 10


def may_read(files: Files, member: Member, path: RelPath) -> bool:
    """Whether the member may read what the path leads to; False when it leads out."""
    try:
        authorized(files, member, path, "read")
    except Refusal:
        return False
    return True


def authorized(files: Files, member: Member, path: RelPath, *operations: Operation) -> RelPath:
    """The real path of one that the member may use for all the operations; AccessDenied.

    A denied path is refused before the disk is asked anything, and so is a way along a link
    that stands where it may not look: the refusal never depends on what is there.
    """

    def check(one: RelPath) -> None:
        for operation in operations:
            member.permission.check(operation, one)

    check(path)
    real = files.resolve(path, check)
    if real is not path:
        check(real)
    return real


def check_no_link(files: Files, path: RelPath, real: RelPath) -> None:
    """Raise NotAFile where a symlink has the path, which leads to another name."""
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
    """The real path of a file or a directory of which the member may see something.

    Raises AccessDenied. Where it may read no file of that name, but perhaps what is in a
    directory, the same is said of a file and of nothing.
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
    """Whether a directory stands at the path."""
    try:
        files.stat(path)
    except NotAFile as refusal:
        return refusal.kind == "directory"
    except Refusal:
        return False
    return False


def check_shown(bases: Snapshots, member: Member, real: RelPath) -> None:
    """IncompleteRead where the member last saw only a part of the file; seeing none is allowed."""
    shown = bases.shown(member.name, real)
    if shown is not None and not shown.complete:
        runs = tuple(f"{start + 1}~{stop}" for start, stop in shown.runs[:_SHOWN_RUNS])
        raise IncompleteRead(shown.version, runs or None, shown.total)


def note_whole(bases: Snapshots, member: Member, real: RelPath, text: Snapshot) -> None:
    """Remember a text, and that the member, which has written it, knows all of it."""
    lines = text.line_count
    runs = ((0, lines),) if lines else ()
    bases.keep(text, real, [Note(member.name, real, ShownLines(text.version, lines, runs))])


def note_of_change(
    member: str, real: RelPath, base: Text, after: Text, digest: str, *changes: LineChange
) -> Note:
    """What the member knows of the text after some changes, whose SHA-256 is `digest`."""
    version = digest[:VERSION_LENGTH]
    return Note(
        member, real, lambda: CarriedLines(base.version, version, after.line_count, changes)
    )


def unshown(
    bases: Snapshots, member: Member, real: RelPath, version: str, *lines: Run, is_old: bool
) -> tuple[Run, ...]:
    """Which of some lines of a version the member was not shown, as far as is remembered.

    `is_old`: the file has another version by now; who still names this one goes on to, and it is
    remembered longer than others.
    """
    shown = bases.shown(member.name, real, version)
    if shown is None:
        return lines
    missing = tuple(lack for run in lines for lack in shown.lacks(*run))
    if is_old and not missing and not shown.read:
        bases.note_shown(Note(member.name, real, shown))
    return missing


def line_change(base: Text, change: ChangeSet, *, own: bool = True) -> LineChange:
    """What a change of bytes does to lines; `own`: the member itself gave the new text."""
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
    if len(first.edits) < len(change.edits):
        last = regions[-1][1]
        regions.append((last, base.line_count, 0))
    return LineChange(tuple(regions), tuple(written), amended=own)


def change_of(draft: Draft, *, own: bool = True) -> LineChange:
    """What an edit does to lines; `own`: the member itself gave the new text."""
    if isinstance(draft.request, BatchEdit):
        return line_change(draft.base, draft.change, own=own)
    pieces = [(draft.place.start, draft.place.stop, len(draft.new_lines))]
    if isinstance(draft.request, RangeEdits):
        parts = zip(draft.place.parts, draft.request.edits, strict=True)
        pieces = sorted((*part, len(content_lines(edit.content))) for part, edit in parts)
    written: list[Run] = []
    shift = 0
    for start, stop, count in pieces:
        written.append((start + shift, start + shift + count))
        shift += count - (stop - start)
    return LineChange(tuple(pieces), tuple(written) if own else ())


def _newlines(data: bytes, text: Text) -> int:
    """How many lines end in the bytes, which are whole code units."""
    if text.encoding.unit == 1:
        return data.count(b"\n")
    return text.encoding.decode(data).count("\n")


def missing(files: Files, member: Member, path: RelPath) -> FileNotFound:
    """The refusal for a missing file, with the names close to its own that the member may read."""
    real = files.resolve(path)
    # The names stand beside what a link at the end leads to, not beside the link.
    is_beside = files.resolve(path.parent) == real.parent
    folder = path.parent if is_beside else real.parent
    close = (folder / name for name in files.similar(path))
    return FileNotFound(tuple(str(one) for one in close if may_read(files, member, one)) or None)
