"""What a member sees of a path: whether it may read it, and what stands close to a missing one.

What lives here: the questions, most of which answer and do not refuse. What must not: the
rules (`Permission` has them). Invariant: a path is judged as it is spelled and
by what it leads to now.
"""

from __future__ import annotations

from copydesk.desk.member import Member, Operation
from copydesk.errors import FileNotFound, NotAFile, Refusal
from copydesk.store.protocol import Files
from copydesk.text.relpath import RelPath


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


def missing(files: Files, member: Member, path: RelPath) -> FileNotFound:
    """The refusal for a missing file, with the names close to its own that the member may read."""
    real = files.resolve(path)
    # The names stand beside what a link at the end leads to, not beside the link.
    is_beside = files.resolve(path.parent) == real.parent
    folder = path.parent if is_beside else real.parent
    close = (folder / name for name in files.similar(path))
    return FileNotFound(tuple(str(one) for one in close if may_read(files, member, one)) or None)
