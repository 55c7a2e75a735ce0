"""What a member may see of a path, judged as it is spelled and by what it leads to now."""

from __future__ import annotations

from copydesk.desk.backends.snapshots import ShownLines, Snapshots
from copydesk.desk.member import Member, Operation
from copydesk.errors import FileNotFound, IncompleteRead, NotAFile, Refusal
from copydesk.store.files import Files
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot

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
    check(real)
    return real


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
    """Raise IncompleteRead where the member, of what it last saw of a file, saw only a part.

    What it would write as a whole file comes from there. Who was shown nothing knows so.
    """
    shown = bases.shown(member.name, real)
    if shown is not None and not shown.complete:
        runs = tuple(f"{start + 1}~{stop}" for start, stop in shown.runs[:_SHOWN_RUNS])
        raise IncompleteRead(shown.version, runs or None, shown.total)


def note_whole(bases: Snapshots, member: Member, real: RelPath, text: Snapshot) -> None:
    """Remember that the member knows all of a text, which it has written."""
    lines = text.line_count
    runs = ((0, lines),) if lines else ()
    bases.note_shown(member.name, real, ShownLines(text.version, lines, runs))


def missing(files: Files, member: Member, path: RelPath) -> FileNotFound:
    """The refusal for a missing file, with the names close to its own that the member may read."""
    real = files.resolve(path)
    # The names stand beside what a link at the end leads to, not beside the link.
    is_beside = files.resolve(path.parent) == real.parent
    folder = path.parent if is_beside else real.parent
    close = (folder / name for name in files.similar(path))
    return FileNotFound(tuple(str(one) for one in close if may_read(files, member, one)) or None)
