"""What the operating system refused, and bugs of ours."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from copydesk.errors.refusal import Refusal


@dataclass(eq=False)
class Crashed(Refusal):
    """A bug of ours, logged under `log_id`; nothing is known to be written."""

    code: ClassVar[str] = "FAILED"
    log_id: str


@dataclass(eq=False)
class Failed(Refusal):
    """The operating system refused; `reason` is its own word for it."""

    code: ClassVar[str] = "FAILED"
    operation: str
    reason: str


@dataclass(eq=False)
class ConfigInvalid(Failed):
    """The configuration became unusable, so no rights are known; `reason` names file and key."""

    operation: str = "read the configuration"
    reason: str = field(default="")


@dataclass(eq=False)
class Unsettled(Refusal):
    """The system refused to write, and refused the way back too; recovery will settle it.

    `paths` are the files that may hold a part of it until then.
    """

    code: ClassVar[str] = "FAILED"
    operation: str
    reason: str
    paths: tuple[str, ...]


@dataclass(eq=False)
class StateFailed(Failed):
    """A file of the state folder cannot be used now; `file` is its path."""

    file: str


@dataclass(eq=False)
class StateDamaged(StateFailed):
    """What the file holds cannot be read; it has to be set aside."""


@dataclass(eq=False)
class SchemaMismatch(StateFailed):
    """Another build wrote the file: its schema number, and the one that this build reads."""

    found_schema: int
    own_schema: int


@dataclass(eq=False)
class Busy(Refusal):
    """Somebody else worked on it for longer than one waits; nothing was written.

    `target` is the file, or the database of copydesk. Who holds it is told as far as
    it is known: the member and the tool, the process on its machine, since when (UTC).
    """

    code: ClassVar[str] = "BUSY"
    target: str
    waited_seconds: int
    holder_member: str | None = None
    holder_tool: str | None = None
    holder_process: int | None = None
    holder_machine: str | None = None
    held_since: str | None = None


@dataclass(eq=False)
class ServerFailed(Failed):
    """The server that machines share did not answer, or refused; `reason` names it."""


@dataclass(eq=False)
class TurnLost(Failed):
    """The writer lost its turn at a file before it could write; it may be asked again."""

    @staticmethod
    def of(key: str) -> TurnLost:
        """The turn that was held as `key` was lost."""
        what = "a file with several names" if key.startswith("\0") else key
        return TurnLost("write", f"the turn at {what} was lost; others may have had it since")
