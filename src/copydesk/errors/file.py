"""Refusals of a file: that it is there or not, what it is, who may use it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from copydesk.errors.refusal import Refusal


@dataclass(eq=False)
class FileNotFound(Refusal):
    """No file stands at the path."""

    code: ClassVar[str] = "FILE_NOT_FOUND"
    similar: tuple[str, ...] | None = None


@dataclass(eq=False)
class FileExists(Refusal):
    """A regular file already stands where one was to be created."""

    code: ClassVar[str] = "FILE_EXISTS"
    size_bytes: int | None = None


@dataclass(eq=False)
class NotAFile(Refusal):
    """The path names a directory, a device, a socket, or a link where none may be."""

    code: ClassVar[str] = "NOT_A_FILE"
    kind: str


@dataclass(eq=False)
class BinaryFile(Refusal):
    """The file holds NUL bytes outside UTF-16 and UTF-32."""

    code: ClassVar[str] = "BINARY_FILE"
    nul_at_byte: int


@dataclass(eq=False)
class EncodingRefused(Refusal):
    """The file's encoding cannot hold the new text.

    `shown_bytes`: it is the text of a whole file and holds bytes as they were shown (`\\xNN`),
    which are no text; else the first character that cannot be held, and where it stands.
    """

    code: ClassVar[str] = "ENCODING_ERROR"
    encoding: str
    character: str | None = None
    character_index: int | None = None
    shown_bytes: tuple[str, ...] | None = None


@dataclass(eq=False)
class IncompleteRead(Refusal):
    """A whole file would be written by one who was shown only a part of it.

    `shown_lines` are those of `version`, each `N~M`; None where none was shown whole.
    """

    code: ClassVar[str] = "INCOMPLETE_READ"
    version: str
    shown_lines: tuple[str, ...] | None
    total_lines: int


@dataclass(eq=False)
class FileTooLarge(Refusal):
    """The file is above the limit; `setting` is the key of it, when that is not `limit_bytes`."""

    code: ClassVar[str] = "FILE_TOO_LARGE"
    size_bytes: int
    limit_bytes: int
    setting: str | None = None


@dataclass(eq=False)
class StatsMismatch(Refusal):
    """The caller's counters are not those of the file on disk."""

    code: ClassVar[str] = "STATS_MISMATCH"
    known_old_total_lines: int
    known_old_total_bytes: int
    actual_total_lines: int
    actual_total_bytes: int
    version: str


@dataclass(eq=False)
class StaleRead(Refusal):
    """The version the caller read cannot be carried to the file as it is now."""

    code: ClassVar[str] = "STALE_READ"
    version: str
    current_version: str
    total_lines: int
    reason: str
    changed: tuple[str, ...] = ()


@dataclass(eq=False)
class AccessDenied(Refusal):
    """The member may not do this here."""

    code: ClassVar[str] = "ACCESS_DENIED"
    operation: str
    rule: str
