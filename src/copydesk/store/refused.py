"""What the operating system refused, as one of our refusals, or as NotPutBack.

Invariant: the reason begins with the symbolic name of the error number.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager

from copydesk.errors import Failed
from copydesk.store.protocol import NotPutBack


def failed(operation: str, refused: OSError) -> Failed:
    """The refusal for an OSError, such as `ENOSPC: No space left on device`."""
    number = refused.errno or 0
    name = errno.errorcode.get(number, "OSError")
    return Failed(operation, f"{name}: {os.strerror(number) if number else refused}")


@contextmanager
def refusing(operation: str) -> Generator[None]:
    """What the operating system refuses within is a refusal."""
    try:
        yield
    except OSError as refused:
        raise failed(operation, refused) from refused


@contextmanager
def putting_back(may_return: Callable[[], None] = lambda: None) -> Generator[None]:
    """The way back of a write that failed: what is refused within is NotPutBack.

    `may_return` is asked first, and refuses with Failed.
    """
    try:
        may_return()
    except Failed as refused:
        raise NotPutBack(refused.reason) from refused
    try:
        yield
    except OSError as refused:
        raise NotPutBack(failed("put back", refused).reason) from refused


def kind_of(mode: int) -> str:
    """The kind of a file in the words of NotAFile."""
    return _KINDS.get(stat.S_IFMT(mode), "special file")


_KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symlink",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "character device",
    stat.S_IFBLK: "block device",
}
