"""Who holds a lock, since when, and how long others wait for it."""

from __future__ import annotations

import json
import os
import platform
import time
from contextlib import suppress
from dataclasses import dataclass

from copydesk.errors import Busy

WAIT_SECONDS = 10.0
"""How long a lock is waited for, unless another time is given."""

Caller = tuple[str, str]
"""For whom a lock is held: a member and a tool, empty where it is no tool's call."""

NOBODY: Caller = "", ""


class Deadline:
    """The end of so many seconds from now."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._at = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """How many seconds are left, 0 for none."""
        return max(0.0, self._at - time.monotonic())


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lock, and since when, in ms since 1970."""

    member: str = ""
    tool: str = ""
    process: int = 0
    machine: str = ""
    since_ms: int = 0

    @staticmethod
    def here(caller: Caller) -> Holder:
        """This process, for a caller, from now on."""
        return Holder(*caller, os.getpid(), platform.node(), time.time_ns() // 1_000_000)

    @property
    def text(self) -> str:
        """The holder in one line, for `of`."""
        return json.dumps([self.member, self.tool, self.process, self.machine, self.since_ms])

    @staticmethod
    def of(text: str | bytes) -> Holder:
        """The holder from a line; nobody that is known if it is none."""
        with suppress(ValueError, TypeError, OverflowError):
            member, tool, process, machine, since_ms = json.loads(text)
            found = Holder(str(member), str(tool), int(process), str(machine), int(since_ms))
            if found.since_ms >= 0:
                return found
        return Holder()

    def busy(self, key: str, seconds: float) -> Busy:
        """The refusal for who has waited for it in vain."""
        return Busy(
            _shown(key),
            round(seconds),
            self.member or None,
            self.tool or None,
            self.process or None,
            self.machine or None,
            _utc(self.since_ms) if self.since_ms else None,
        )


def _shown(key: str) -> str:
    """What is locked, as a caller knows it."""
    if key.startswith("\0inode "):
        return "a file with several names"
    return os.path.basename(key) if key.startswith("\0") else key


def _utc(since_ms: int) -> str:
    with suppress(ValueError, OverflowError, OSError):
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(since_ms / 1_000))
    return ""
