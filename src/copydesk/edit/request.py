"""The table of all kinds of edits; callers import the kinds from here."""

from __future__ import annotations

from copydesk.edit.kinds.anchors import Anchor, Append, BlockReplace, Insert, Match, Occurrence
from copydesk.edit.kinds.base import (
    LONGEST_WHY,
    NO_TERMS,
    Action,
    Place,
    Preconditions,
    Request,
    Span,
    Terms,
    check_count,
    check_no_patch,
    check_text,
    check_why,
    content_lines,
)
from copydesk.edit.kinds.files import ChangeMode, DeleteFile, FileOperation, MoveFile
from copydesk.edit.kinds.lines import RangeEdit, RangeEdits
from copydesk.edit.kinds.patch import PatchEdit, PatchHunk
from copydesk.edit.kinds.replace import BatchEdit, ReplaceText, StringEdit

__all__ = [
    "KINDS",
    "LONGEST_WHY",
    "NO_TERMS",
    "Action",
    "Anchor",
    "Append",
    "BatchEdit",
    "BlockReplace",
    "ChangeMode",
    "DeleteFile",
    "FileOperation",
    "Insert",
    "Match",
    "MoveFile",
    "Occurrence",
    "PatchEdit",
    "PatchHunk",
    "Place",
    "Preconditions",
    "RangeEdit",
    "RangeEdits",
    "ReplaceText",
    "Request",
    "Span",
    "StringEdit",
    "Terms",
    "check_count",
    "check_no_patch",
    "check_text",
    "check_why",
    "content_lines",
]

KINDS: tuple[type[Request], ...] = (
    Append,
    Insert,
    RangeEdit,
    RangeEdits,
    BlockReplace,
    BatchEdit,
    ReplaceText,
    PatchEdit,
    DeleteFile,
    MoveFile,
    ChangeMode,
)
"""Every kind of edits of files; that of notes, `BlockDiff`, is in their own package."""
