"""What a member sees of a path: whether it may read it, and what stands close to a missing one.

What lives here: the questions, most of which answer and do not refuse. What must not: the
rules (`Permission` has them). Invariant: a path is judged as it is spelled and
by what it leads to now.
"""

from __future__ import annotations

from copydesk.desk.member import Member
from copydesk.errors import FileNotFound, Refusal
from copydesk.store.protocol import Files
from copydesk.text.relpath import RelPath


def may_read(files: Files, member: Member, path: RelPath) -> bool:
    """Whether the member may read what the path leads to; False when it leads out."""
    try:
        real = files.resolve(path)
    except Refusal:
        return False
    return all(map(member.permission.allows_read, (path, real)))


def check_look(files: Files, member: Member, path: RelPath) -> None:
    """Raise AccessDenied for a file or a directory of which the member may see nothing."""
    for one in (path, files.resolve(path)):
        if not member.permission.allows_read(one):
            member.permission.check_walk(one)


def missing(files: Files, member: Member, path: RelPath) -> FileNotFound:
    """The refusal for a missing file, with the names close to its own that the member may read."""
    real = files.resolve(path)
    # The names stand beside what a link at the end leads to, not beside the link.
    is_beside = files.resolve(path.parent) == real.parent
    folder = path.parent if is_beside else real.parent
    close = (folder / name for name in files.similar(path))
    return FileNotFound(tuple(str(one) for one in close if may_read(files, member, one)) or None)
