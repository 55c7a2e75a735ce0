"""What the operating system refused, and bugs of ours."""

from __future__ import annotations

from dataclasses import dataclass
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
class Unsettled(Refusal):
    """The system refused to write, and refused the way back too; recovery will settle it.

    `paths` are the files that may hold a part of it until then.
    """

    code: ClassVar[str] = "FAILED"
    operation: str
    reason: str
    paths: tuple[str, ...]
