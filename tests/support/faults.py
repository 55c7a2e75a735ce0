"""System calls of the store that fail when they are told to, for the tests of writing."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from typing import cast

import pytest

from copydesk.store import _os
from copydesk.store import files as writes

WRITE_PATH = [
    *("open_beneath", "open_dir", "open_listing", "readlink"),
    *("mkdir", "rmdir", "lstat", "fstat", "open_read", "open_update", "open_new"),
    *("pread", "write", "write_many", "truncate", "seek", "copy_range", "sync", "close"),
    *("rename", "rename_no_replace", "rename_exchange", "link", "unlink", "chown", "chmod"),
    *("open_unnamed", "give_name", "duplicate"),
    *("list_attributes", "get_attribute", "set_attribute", "remove_attribute"),
]

NUMBERS = [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EINTR, 0]
"""What a call fails with; 0: it does less than it could."""


class Faults:
    """Makes the k-th call of the write path fail, counted from 1, and knows how many there were.

    Those of this thread are counted, or with a negative k those of all others: which of two
    threads comes first is another matter each time. With `lasting`, all calls that change
    something fail from the k-th on, as on a full disk.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = self.beside = self.fail_at = self.number = 0
        self.lasting = False
        self._own = threading.get_ident()
        self.failed = ""
        late = "LATE_SECONDS"
        monkeypatch.setattr(writes, late, 3600.0)  # nothing is counted beside the work
        # The age of a stamp decides which calls there are: all files are young, on a slow
        # machine too, or a call would be at another place in the next round and never fail.
        monkeypatch.setattr(_os, "now_ns", lambda: 0)
        for name in WRITE_PATH:
            monkeypatch.setattr(_os, name, self._wrapped(name, getattr(_os, name)))

    def start(self, fail_at: int, number: int, *, lasting: bool = False) -> None:
        """Count from now on; the call `fail_at` fails with `number`."""
        self.count = self.beside = 0
        self.fail_at, self.number, self.failed = fail_at, number, ""
        self.lasting = lasting

    def stop(self) -> None:
        """No call fails any more."""
        self.fail_at = 0
        self.lasting = False

    def _wrapped(self, name: str, call: Callable[..., object]) -> Callable[..., object]:
        def wrapped(*args: object, **named: object) -> object:
            if threading.get_ident() == self._own:
                self.count += 1
                at = self.count
            else:
                self.beside -= 1
                at = self.beside
            again = self.lasting and self.failed and name in FILLING
            if at != self.fail_at and not again:
                return call(*args, **named)
            self.failed = self.failed or name
            if self.number == 0:
                return call(*_shorter(name, args), **named)
            if name == "close":
                call(*args)  # the handle is gone even when close reports an error
            raise OSError(self.number, os.strerror(self.number))

        return wrapped


FILLING = (
    *("write", "write_many", "copy_range", "open_new", "open_unnamed", "give_name"),
    *("mkdir", "link", "sync", "truncate"),
)
"""Calls that need room on the disk."""


def _shorter(name: str, args: tuple[object, ...]) -> tuple[object, ...]:
    """Arguments that make a call do less than it could; those of other calls as they are."""
    if name == "write":
        fd, data = args
        return (fd, cast("bytes", data)[:1])
    if name == "write_many":
        fd, parts = args
        return (fd, cast("list[bytes]", parts)[:1])
    if name in ("pread", "copy_range"):
        *others, count = args if name == "copy_range" else (args[0], args[2], args[1])
        assert isinstance(count, int)
        less = max(count // 2, 1)
        return (*others, less) if name == "copy_range" else (others[0], less, others[1])
    return args
