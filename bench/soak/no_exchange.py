"""Runs a command on a system that cannot exchange two names, as many file systems cannot.

    python no_exchange.py COMMAND [ARGUMENT ...]

A filter (seccomp) lets `renameat2` fail with EINVAL where it is to exchange names; other renames go
on. Where there are no such filters the command runs as it is. Standard library only.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

_CALLS = {"x86_64": (0xC000003E, 316), "aarch64": (0xC00000B7, 276)}
"""The number of the architecture in a filter, and that of `renameat2`."""

_EXCHANGE = 2
_LOAD, _EQUAL, _HAS_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_NUMBER_AT, _ARCHITECTURE_AT, _FLAGS_AT = 0, 4, 48
_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 22, 38


def forbid() -> bool:
    """Install the filter for this process and all it starts; False if that is impossible."""
    architecture, number = _CALLS.get(platform.machine(), (0, 0))
    rules = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_EQUAL, 0, 5, architecture),
        (_LOAD, 0, 0, _NUMBER_AT),
        (_EQUAL, 0, 3, number),
        (_LOAD, 0, 0, _FLAGS_AT),
        (_HAS_BIT, 0, 1, _EXCHANGE),
        (_RETURN, 0, 0, _FAIL | errno.EINVAL),
        (_RETURN, 0, 0, _ALLOW),
    ]
    if not number or sys.platform != "linux":
        return False
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
    program = struct.pack("HxxxxxxP", len(rules), ctypes.addressof(code))
    libc = ctypes.CDLL(None)
    arguments = ctypes.c_ulong(1), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, *arguments):
        return False
    mode = ctypes.c_ulong(2)
    return not libc.prctl(_PR_SET_SECCOMP, mode, program, ctypes.c_ulong(0), ctypes.c_ulong(0))


if __name__ == "__main__":
    forbid()
    os.execvp(sys.argv[1], sys.argv[1:])
