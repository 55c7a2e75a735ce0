"""Refusals of what was asked, whatever the file holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from copydesk.errors.refusal import Refusal


@dataclass(eq=False)
class PathRequired(Refusal):
    """No path was given where one is needed."""

    code: ClassVar[str] = "PATH_REQUIRED"


@dataclass(eq=False)
class InvalidArgs(Refusal):
    """An argument is unknown, missing, of the wrong type or out of its domain."""

    code: ClassVar[str] = "INVALID_ARGS"
    argument: str
    reason: str


@dataclass(eq=False)
class InvalidPath(Refusal):
    """The path is not one of this workspace (absolute, above the root, NUL, link out)."""

    code: ClassVar[str] = "INVALID_PATH"
    reason: str


@dataclass(eq=False)
class InvalidRange(Refusal):
    """The range has no meaning."""

    code: ClassVar[str] = "INVALID_RANGE"
    range: str
    reason: str
    total_lines: int | None = None


@dataclass(eq=False)
class RangeOutOfBounds(Refusal):
    """The range names lines that the file does not have."""

    code: ClassVar[str] = "RANGE_OUT_OF_BOUNDS"
    range: str
    total_lines: int


@dataclass(eq=False)
class ContentRequired(Refusal):
    """The tool needs text, and got none."""

    code: ClassVar[str] = "CONTENT_REQUIRED"
    argument: str = "content"


@dataclass(eq=False)
class SuspiciousDiff(Refusal):
    """The content looks like a patch, and nobody said that it should be one."""

    code: ClassVar[str] = "SUSPICIOUS_DIFF"
    sign: str
    line: int
