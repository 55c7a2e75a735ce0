"""System calls of the store, and platform differences.

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
from collections.abc import Callable, Sequence
from functools import cache

_LIBC = ctypes.CDLL(None, use_errno=True)
_AT_FDCWD = -100

_SYS_OPENAT2 = 437
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08
_RENAME_NOREPLACE = 0x1
_RENAME_EXCHANGE = 0x2
_MAC_RENAME_SWAP = 0x2
_MAC_RENAME_EXCL = 0x4
_MAC_COPYFILE_ACL = 0x1
_MAC_COPYFILE_XATTR = 0x4
_MAC_F_FULLFSYNC = 51
_SYNC_FILE_RANGE_WRITE = 2
_AT_SYMLINK_NOFOLLOW = 0x100
_AT_EMPTY_PATH = 0x1000
_STATX_BTIME = 0x800
_BTIME_AT = 80

_SEARCH = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | getattr(os, "O_PATH", 0)
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_UPDATE = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_UNNAMED = os.O_RDWR | getattr(os, "O_TMPFILE", 0) | os.O_CLOEXEC
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

MOST_PARTS = 1024
"""A number of parts that every system accepts in one call."""


class _OpenHow(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


_HOW_SIZE = ctypes.sizeof(_OpenHow)
if sys.platform == "linux":
    _LIBC.syscall.restype = ctypes.c_long
    _LIBC.syscall.argtypes = (
        ctypes.c_long,
        ctypes.c_long,
        ctypes.c_char_p,
        ctypes.c_void_p,
        ctypes.c_size_t,
    )


_START_WRITING = getattr(_LIBC, "sync_file_range", None) if sys.platform == "linux" else None
if _START_WRITING is not None:
    _START_WRITING.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)


# One system call each. `close` is for a file that was written: some network file systems report a
# full disk only then. `pread` returns fewer bytes at the end of the file, or when interrupted.
fstat, pread, write, truncate = os.fstat, os.pread, os.write, os.ftruncate
chown, chmod, duplicate, close, pause = os.fchown, os.fchmod, os.dup, os.close, time.sleep


def now_ns() -> int:
    """The wall clock in nanoseconds, to judge the age of a stamp."""
    return time.time_ns()


# Directories


def open_root(path: str) -> int:
    """Open a directory by its name; the one call here that follows symlinks."""
    return os.open(path, _SEARCH)


@cache
def has_openat2() -> bool:
    """Whether the kernel and any sandbox allow openat2."""
    if sys.platform != "linux":
        return False
    try:
        fd = _openat2(_AT_FDCWD, b".", _SEARCH, _RESOLVE_NO_MAGICLINKS)
    except OSError as refused:
        return refused.errno not in (errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.E2BIG)
    os.close(fd)
    return True


def open_dir_beneath(root_fd: int, path: bytes) -> int:
    """Open a directory below the root, no symlink on the way (needs openat2)."""
    return _openat2(root_fd, path, _SEARCH, _BENEATH)


def open_file_beneath(root_fd: int, path: bytes) -> int:
    """Open a file below the root for reading, no symlink on the way (needs openat2)."""
    return _unless_leased(lambda flags: _openat2(root_fd, path, flags, _BENEATH), _READ)


def open_dir(dir_fd: int, name: bytes) -> int:
    """Open a directory; ENOTDIR or ELOOP if the name is a symlink."""
    return os.open(name, _SEARCH | os.O_NOFOLLOW, dir_fd=dir_fd)


def open_listing(dir_fd: int) -> int:
    """Open the directory itself for listing and flushing."""
    return os.open(b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=dir_fd)


def readlink(dir_fd: int, name: bytes) -> bytes:
    """The target of a symlink; EINVAL if the name is not one."""
    return os.readlink(name, dir_fd=dir_fd)


def name_bytes(dir_fd: int) -> int:
    """The maximum length of a name in the directory, in bytes."""
    try:
        return os.fpathconf(dir_fd, "PC_NAME_MAX")
    except (OSError, ValueError):
        return 255


def mkdir(dir_fd: int, name: bytes) -> None:
    """Create a directory with the default mode."""
    os.mkdir(name, dir_fd=dir_fd)


def rmdir(dir_fd: int, name: bytes) -> None:
    """Remove an empty directory."""
    os.rmdir(name, dir_fd=dir_fd)


# Files


def lstat(dir_fd: int, name: bytes) -> os.stat_result:
    """The `stat` of the name, without following symlinks."""
    return os.stat(name, dir_fd=dir_fd, follow_symlinks=False)


def birth_ns(dir_fd: int, name: bytes, found: os.stat_result) -> int:
    """The birth time in nanoseconds since the epoch; 0 if unknown."""
    born = getattr(found, "st_birthtime", None)
    if born is not None:
        return int(born * 1e9)
    room = (ctypes.c_uint8 * 256)()
    statx = getattr(_LIBC, "statx", None)
    flags = _AT_SYMLINK_NOFOLLOW | _AT_EMPTY_PATH
    if statx is None or statx(dir_fd, name, flags, _STATX_BTIME, room):
        return 0
    mask, *_ = struct.unpack_from("I", room)
    seconds, nanoseconds = struct.unpack_from("qI", room, _BTIME_AT)
    return int(seconds * 10**9 + nanoseconds) if mask & _STATX_BTIME else 0


def open_read(dir_fd: int, name: bytes) -> int:
    """Open for reading without waiting for the writer of a FIFO; ELOOP for a symlink."""
    return _unless_leased(lambda flags: os.open(name, flags, dir_fd=dir_fd), _READ)


def _unless_leased(opened: Callable[[int], int], flags: int) -> int:
    """Open without blocking; if somebody holds a lease on the file, wait until it ends."""
    try:
        return opened(flags)
    except BlockingIOError:  # only a regular file has leases, and those never block for long
        return opened(flags & ~os.O_NONBLOCK)


def open_update(dir_fd: int, name: bytes) -> int:
    """Open for reading and writing in place; ELOOP for a symlink."""
    return _unless_leased(lambda flags: os.open(name, flags, dir_fd=dir_fd), _UPDATE)


def open_new(dir_fd: int, name: bytes, mode: int) -> int:
    """Create a file; EEXIST if the name is taken."""
    return os.open(name, _NEW, mode, dir_fd=dir_fd)


def open_unnamed(dir_fd: int, mode: int) -> int:
    """Create a file without a name; ENOTSUP if the system or file system cannot."""
    if not _has_unnamed():
        raise _os_error(errno.ENOTSUP)
    return os.open(b".", _UNNAMED, mode, dir_fd=dir_fd)


@cache
def _has_unnamed() -> bool:
    """Whether a file can be created without a name and get one later."""
    return bool(getattr(os, "O_TMPFILE", 0)) and os.path.exists("/proc/self/fd")


def give_name(fd: int, dir_fd: int, name: bytes) -> None:
    """Give a file without a name its first name; EEXIST if the name is taken."""
    os.link(b"/proc/self/fd/%d" % fd, name, dst_dir_fd=dir_fd, follow_symlinks=True)


def open_append(dir_fd: int, name: bytes) -> int:
    """Open for appending, at the end that the file has then; ELOOP for a symlink."""
    return os.open(name, _APPEND, dir_fd=dir_fd)


def is_written_by_others(fd: int) -> bool | None:
    """Whether others have a file (open here for reading) open for writing; None if unknown."""
    return _lease_refused(fd, "F_RDLCK")


def is_open_elsewhere(fd: int) -> bool | None:
    """Whether anybody else has a file (open here for reading) open at all; None if unknown."""
    return _lease_refused(fd, "F_WRLCK")


def _lease_refused(fd: int, kind: str) -> bool | None:
    given = lease(fd, kind)
    if given:
        lease(fd, "F_UNLCK")
    return None if given is None else not given


def lease(fd: int, kind: str) -> bool | None:
    """Take (F_RDLCK, F_WRLCK) or end (F_UNLCK) a lease; whether it was granted, None if unknown."""
    if sys.platform != "linux":
        return None
    try:
        if kind != "F_UNLCK":  # the signal that announces a waiter must not end the process
            fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, getattr(fcntl, kind))
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


def write_many(fd: int, parts: Sequence[bytes | memoryview]) -> int:
    """Write some of the parts in order, at most `MOST_PARTS`; return the byte count."""
    return os.writev(fd, parts) if hasattr(os, "writev") else os.write(fd, b"".join(parts))


def start_writing(fd: int, offset: int, count: int) -> None:
    """Ask the system to start writing these bytes to the disk; a hint without a guarantee."""
    if _START_WRITING is not None:
        _START_WRITING(fd, offset, count, _SYNC_FILE_RANGE_WRITE)


def seek_start(fd: int) -> None:
    """Move to the first byte of the file."""
    os.lseek(fd, 0, os.SEEK_SET)


def copy_range(old_fd: int, new_fd: int, start: int, count: int) -> int:
    """Copy bytes in the kernel to the position of `new_fd`; return the count, 0 if it cannot."""
    if sys.platform != "linux":
        return 0
    try:
        return os.copy_file_range(old_fd, new_fd, count, start)
    except OSError as refused:
        if refused.errno in _CANNOT_COPY:
            return 0
        raise


def sync(fd: int) -> None:
    """Return when the file or directory is on the disk."""
    if sys.platform == "darwin":
        try:
            fcntl.fcntl(fd, _MAC_F_FULLFSYNC)
        except OSError as refused:
            if refused.errno not in (errno.ENOTSUP, errno.EINVAL):
                raise
        else:
            return
    os.fsync(fd)


def close_quietly(fd: int) -> None:
    """Close a descriptor that was only used for reading; errors are ignored."""
    try:
        os.close(fd)
    except OSError:
        return


# Names


def rename(dir_fd: int, old: bytes, new: bytes, to_fd: int | None = None) -> None:
    """Rename a file to `new` (in `to_fd` if given), replacing what has that name."""
    os.rename(old, new, src_dir_fd=dir_fd, dst_dir_fd=dir_fd if to_fd is None else to_fd)


def rename_no_replace(dir_fd: int, old: bytes, new: bytes, to_fd: int | None = None) -> None:
    """Rename a file to a free name; EEXIST if it is taken, ENOSYS if the system cannot check."""
    fds = dir_fd, dir_fd if to_fd is None else to_fd
    _rename_with(fds, old, new, _RENAME_NOREPLACE, _MAC_RENAME_EXCL)


def rename_exchange(dir_fd: int, one: bytes, other: bytes) -> None:
    """Exchange the names of two files atomically; ENOSYS if the system cannot."""
    _rename_with((dir_fd, dir_fd), one, other, _RENAME_EXCHANGE, _MAC_RENAME_SWAP)


def _rename_with(
    dir_fds: tuple[int, int], old: bytes, new: bytes, flag: int, mac_flag: int
) -> None:
    if sys.platform == "darwin":
        call, flag = getattr(_LIBC, "renameatx_np", None), mac_flag
    else:
        call = getattr(_LIBC, "renameat2", None)
    if call is None:
        raise _os_error(errno.ENOSYS)
    while call(dir_fds[0], old, dir_fds[1], new, flag) != 0:
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise _os_error(number)


def link(dir_fd: int, old: bytes, new: bytes, to_fd: int | None = None) -> None:
    """Give a file a second name (in `to_fd` if given); EEXIST if it is taken."""
    to_fd = dir_fd if to_fd is None else to_fd
    os.link(old, new, src_dir_fd=dir_fd, dst_dir_fd=to_fd, follow_symlinks=False)


def unlink(dir_fd: int, name: bytes) -> None:
    """Remove a name."""
    os.unlink(name, dir_fd=dir_fd)


# Attributes


def list_attributes(fd: int) -> list[str]:
    """The names of the extended attributes, including ACLs if Linux stores them so."""
    return os.listxattr(fd) if sys.platform == "linux" else []


def get_attribute(fd: int, name: str) -> bytes:
    """The value of one extended attribute."""
    return os.getxattr(fd, name) if sys.platform == "linux" else b""


def set_attribute(fd: int, name: str, value: bytes) -> None:
    """Set one extended attribute."""
    if sys.platform == "linux":
        os.setxattr(fd, name, value)


def remove_attribute(fd: int, name: str) -> None:
    """Remove one extended attribute."""
    if sys.platform == "linux":
        os.removexattr(fd, name)


def copy_attributes_at_once(old_fd: int, new_fd: int) -> None:
    """Copy ACL and extended attributes if the system has one call for it (macOS)."""
    if sys.platform == "darwin":
        flags = _MAC_COPYFILE_ACL | _MAC_COPYFILE_XATTR
        if _LIBC.fcopyfile(old_fd, new_fd, None, flags) != 0:
            raise _os_error(ctypes.get_errno())


_BENEATH = _RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS
_CANNOT_COPY = (
    errno.EXDEV,
    errno.ENOSYS,
    errno.EINVAL,
    errno.EPERM,
    errno.EOPNOTSUPP,
    errno.ETXTBSY,
)


def _openat2(dir_fd: int, path: bytes, flags: int, resolve: int) -> int:
    how = _OpenHow(flags, 0, resolve)
    while True:
        fd: int = _LIBC.syscall(_SYS_OPENAT2, dir_fd, path, ctypes.byref(how), _HOW_SIZE)
        if fd >= 0:
            return fd
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise _os_error(number)


def _os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
