"""System calls of the store, platform differences, and what the system offers.

Invariant: no function here follows a symlink (except `open_root`), and each raises plain OSError or
completes its one call. Callers reach every function as an attribute (`_os.write(...)`), so a test
can make the k-th call fail. Names are bytes, independent of any locale.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import signal
import struct
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass

_LIBC = ctypes.CDLL(None, use_errno=True)
_AT_FDCWD = -100

_SYS_OPENAT2 = 437
_RESOLVE = 0x02 | 0x04 | 0x08  # RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH
_MAC_COPYFILE = 0x1 | 0x4  # COPYFILE_ACL, COPYFILE_XATTR
_MAC_F_FULLFSYNC = 51
_SYNC_FILE_RANGE_WRITE = 2
_AT_SYMLINK_NOFOLLOW = 0x100
_AT_EMPTY_PATH = 0x1000
_STATX_BTIME = 0x800
_BTIME_AT = 80

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_SEARCH = _FOLDER | getattr(os, "O_PATH", 0)  # a directory may be usable but not listable
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_UPDATE = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_UNNAMED = os.O_RDWR | getattr(os, "O_TMPFILE", 0) | os.O_CLOEXEC

MOST_PARTS = 1024
"""A number of parts that every system accepts in one call."""

# One system call each. `close` is for a file that was written: some network file systems report a
# full disk only then. `pread` returns fewer bytes at the end of the file, or when interrupted;
# `write_many` takes at most `MOST_PARTS`. Those of names take `dir_fd`, and follow no link.
fstat, pread, write, write_many = os.fstat, os.pread, os.write, os.writev
truncate, seek, chown, chmod = os.ftruncate, os.lseek, os.fchown, os.fchmod
duplicate, close, pause, now_ns = os.dup, os.close, time.sleep, time.time_ns
lstat, readlink, mkdir, rmdir, unlink = os.lstat, os.readlink, os.mkdir, os.rmdir, os.unlink


class _OpenHow(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


_LIBC.syscall.restype = ctypes.c_long
_LIBC.syscall.argtypes = (
    ctypes.c_long,
    ctypes.c_long,
    ctypes.c_char_p,
    ctypes.c_void_p,
    ctypes.c_size_t,
)
_START_WRITING = getattr(_LIBC, "sync_file_range", None)
if _START_WRITING is not None:
    _START_WRITING.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
_IS_MAC = sys.platform == "darwin"
_RENAME = getattr(_LIBC, "renameatx_np" if _IS_MAC else "renameat2", None)
_NO_REPLACE, _EXCHANGE = 0x4 if _IS_MAC else 0x1, 0x2

# The names of extended attributes include those of ACLs on Linux; see `copy_attributes_at_once`.
list_attributes: Callable[[int], list[str]] = getattr(os, "listxattr", lambda fd: [])
if sys.platform == "linux":
    get_attribute, set_attribute, remove_attribute = os.getxattr, os.setxattr, os.removexattr


class Ignoring(AbstractContextManager[object]):
    """A context that ends quietly after an OSError with one of these numbers."""

    def __init__(self, *numbers: int) -> None:
        self._numbers = numbers

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        return isinstance(error, OSError) and error.errno in self._numbers


def _full_sync(fd: int) -> None:
    with Ignoring(errno.ENOTSUP, errno.EINVAL):
        fcntl.fcntl(fd, _MAC_F_FULLFSYNC)
        return
    os.fsync(fd)


sync = _full_sync if _IS_MAC else os.fsync
"""Returns when the file or directory is on the disk."""


def copy_attributes_at_once(old_fd: int, new_fd: int) -> None:
    """Copy ACL and extended attributes by the one call that macOS has for it."""
    if _LIBC.fcopyfile(old_fd, new_fd, None, _MAC_COPYFILE) != 0:
        raise _os_error(ctypes.get_errno())


# Directories


def open_root(path: str) -> int:
    """Open a directory by its name; the one call here that follows symlinks."""
    try:
        return os.open(path, _FOLDER)
    except PermissionError:
        return os.open(path, _SEARCH)


def _beneath(flags: int) -> object:
    return ctypes.byref(_OpenHow(flags, 0, _RESOLVE))


DIR, _SEARCHED = _beneath(_FOLDER), _beneath(_SEARCH)
FILE, _WAITING = _beneath(_READ), _beneath(_READ & ~os.O_NONBLOCK)
_HOW_BYTES = ctypes.sizeof(_OpenHow)


def open_beneath(root_fd: int, path: bytes, how: object) -> int:
    """Open a DIR, or a FILE for reading, below the root, no symlink on the way (needs openat2)."""
    while True:
        fd: int = _LIBC.syscall(_SYS_OPENAT2, root_fd, path, how, _HOW_BYTES)
        if fd >= 0:
            return fd
        number = ctypes.get_errno()
        if number == errno.EAGAIN and how is FILE:  # see `open_read`
            how = _WAITING
        elif number == errno.EACCES and how is DIR:
            how = _SEARCHED
        elif number != errno.EINTR:
            raise _os_error(number)


def open_dir(dir_fd: int, name: bytes) -> int:
    """Open a directory; ENOTDIR or ELOOP if the name is a symlink."""
    try:
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=dir_fd)
    except PermissionError:
        return os.open(name, _SEARCH | os.O_NOFOLLOW, dir_fd=dir_fd)


def open_listing(dir_fd: int) -> int:
    """Open the directory itself for listing."""
    return os.open(b".", _FOLDER, dir_fd=dir_fd)


def name_bytes(dir_fd: int) -> int:
    """The maximum length of a name in the directory, in bytes."""
    try:
        return os.fpathconf(dir_fd, "PC_NAME_MAX")
    except (OSError, ValueError):
        return 255


# Files


def birth_ns(dir_fd: int, name: bytes, status: os.stat_result) -> int:
    """The birth time in nanoseconds since the epoch; 0 if unknown."""
    if (born := getattr(status, "st_birthtime", None)) is not None:
        return int(born * 1e9)
    room = (ctypes.c_uint8 * 256)()
    statx = getattr(_LIBC, "statx", None)
    flags = _AT_SYMLINK_NOFOLLOW | _AT_EMPTY_PATH
    if statx is None or statx(dir_fd, name, flags, _STATX_BTIME, room):
        return 0
    mask, *_ = struct.unpack_from("I", room)
    seconds, nanoseconds = struct.unpack_from("qI", room, _BTIME_AT)
    return int(seconds * 10**9 + nanoseconds) if mask & _STATX_BTIME else 0


def open_read(dir_fd: int, name: bytes, flags: int = _READ) -> int:
    """Open for reading without waiting for the writer of a FIFO; ELOOP for a symlink."""
    try:
        return os.open(name, flags, dir_fd=dir_fd)
    except BlockingIOError:  # only a regular file has leases, and those never block for long
        return os.open(name, flags & ~os.O_NONBLOCK, dir_fd=dir_fd)


def open_update(dir_fd: int, name: bytes) -> int:
    """Open for reading and writing in place; ELOOP for a symlink."""
    return open_read(dir_fd, name, _UPDATE)


def open_new(dir_fd: int, name: bytes, mode: int) -> int:
    """Create a file; EEXIST if the name is taken."""
    return os.open(name, _NEW, mode, dir_fd=dir_fd)


def open_unnamed(dir_fd: int, mode: int) -> int:
    """Create a file without a name; ENOTSUP if the system or file system cannot."""
    if not offers.unnamed:
        raise _os_error(errno.ENOTSUP)
    return os.open(b".", _UNNAMED, mode, dir_fd=dir_fd)


def give_name(fd: int, dir_fd: int, name: bytes) -> None:
    """Give a file without a name its first name; EEXIST if the name is taken."""
    os.link(b"/proc/self/fd/%d" % fd, name, dst_dir_fd=dir_fd, follow_symlinks=True)


READING, ALONE, FREE = fcntl.F_RDLCK, fcntl.F_WRLCK, fcntl.F_UNLCK
"""Leases: nobody else has the file open for writing; nobody else has it open; none."""


def is_used(fd: int, kind: int) -> bool:
    """Whether others have a file, open here for reading, open so that no such lease is granted."""
    granted = lease(fd, kind)
    if granted:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, FREE)
    return granted is False


def lease(fd: int, kind: int) -> bool | None:
    """Take or end a lease; whether it was granted, None if the system cannot tell."""
    if not offers.leases:
        return None
    try:
        if kind != FREE:  # the signal that announces a waiter must not end the process
            fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, kind)
    except OSError as refused:
        return False if refused.errno == errno.EAGAIN else None
    return True


def pread_into(fd: int, room: memoryview, offset: int) -> int:
    """Read into the buffer; return the byte count, less only at the end or when interrupted."""
    if hasattr(os, "preadv"):
        return os.preadv(fd, [room], offset)
    data = os.pread(fd, len(room), offset)
    room[: len(data)] = data
    return len(data)


def start_writing(fd: int, offset: int, count: int) -> None:
    """Ask the system to start writing these bytes to the disk; a hint without a guarantee."""
    if _START_WRITING is not None:
        _START_WRITING(fd, offset, count, _SYNC_FILE_RANGE_WRITE)


_CANNOT_COPY = (
    errno.EXDEV,
    errno.ENOSYS,
    errno.EINVAL,
    errno.EPERM,
    errno.EOPNOTSUPP,
    errno.ETXTBSY,
)


def copy_range(old_fd: int, new_fd: int, start: int, count: int) -> int:
    """Copy bytes in the kernel to the position of `new_fd`; return the count, 0 if it cannot."""
    if sys.platform == "linux":
        with Ignoring(*_CANNOT_COPY):
            return os.copy_file_range(old_fd, new_fd, count, start)
    return 0


def close_quietly(fd: int) -> None:
    """Close a descriptor that was only used for reading; errors are ignored."""
    with suppress(OSError):
        os.close(fd)


# Names


def rename(dir_fd: int, old: bytes, new: bytes, to_fd: int | None = None) -> None:
    """Rename a file to `new` (in `to_fd` if given), replacing what has that name."""
    os.rename(old, new, src_dir_fd=dir_fd, dst_dir_fd=dir_fd if to_fd is None else to_fd)


def rename_no_replace(dir_fd: int, old: bytes, new: bytes, to_fd: int | None = None) -> None:
    """Rename a file to a free name; EEXIST if it is taken, ENOSYS if the system cannot check."""
    _rename_with(dir_fd, old, dir_fd if to_fd is None else to_fd, new, _NO_REPLACE)


def rename_exchange(dir_fd: int, first: bytes, second: bytes) -> None:
    """Exchange the names of two files atomically; ENOSYS if the system cannot."""
    if not offers.exchange:
        raise _os_error(errno.ENOSYS)
    _rename_with(dir_fd, first, dir_fd, second, _EXCHANGE)


def _rename_with(dir_fd: int, old: bytes, to_fd: int, new: bytes, flag: int) -> None:
    if _RENAME is None:
        raise _os_error(errno.ENOSYS)
    while _RENAME(dir_fd, old, to_fd, new, flag) != 0:
        if (number := ctypes.get_errno()) != errno.EINTR:
            raise _os_error(number)


def link(dir_fd: int, old: bytes, new: bytes, to_fd: int | None = None) -> None:
    """Give a file a second name (in `to_fd` if given); EEXIST if it is taken."""
    to_fd = dir_fd if to_fd is None else to_fd
    os.link(old, new, src_dir_fd=dir_fd, dst_dir_fd=to_fd, follow_symlinks=False)


def _os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


# What the system offers


@dataclass
class Offers:
    """What the system offers, asked once; each has another way. A file system may offer less."""

    openat2: bool
    """A path is resolved in one call; else name by name."""
    unnamed: bool
    """A new file has no name before it is complete (O_TMPFILE); else a temporary one."""
    exchange: bool
    """Two names are exchanged in one step; else the new file is renamed over the old one."""
    leases: bool
    """Who has a file open for writing is known."""


def _has_openat2() -> bool:
    """Whether the kernel and any sandbox allow openat2."""
    if sys.platform != "linux":
        return False
    try:
        os.close(open_beneath(_AT_FDCWD, b".", DIR))
    except OSError as refused:
        return refused.errno not in (errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.E2BIG)
    return True


offers = Offers(
    openat2=_has_openat2(),
    unnamed=hasattr(os, "O_TMPFILE") and os.path.exists("/proc/self/fd"),
    exchange=_RENAME is not None,
    leases=sys.platform == "linux",
)
