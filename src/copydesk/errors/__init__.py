"""Every refusal of copydesk: a stable code and typed facts.

What lives here: the one tree of errors that a caller may meet, in one file for
each noun. What must not: words for people or models (`copydesk.tools.messages` has
them). Invariant: a refusal raised means that nothing was written, but for
`Unsettled`, which says so.

    Refusal
    ├── argument: PathRequired, InvalidArgs, InvalidPath, InvalidRange, RangeOutOfBounds,
    │             ContentRequired, SuspiciousDiff
    ├── file: FileNotFound, FileExists, NotAFile, BinaryFile, EncodingRefused,
    │         IncompleteRead, FileTooLarge, StatsMismatch, StaleRead,
    │         AccessDenied
    ├── place: AnchorNotFound, AnchorAmbiguous, OccurrenceOutOfRange, ContentChanged, AmbiguousMatch
    ├── hunk: InvalidHunkId, HunkNotFound, WrongOwner, WrongMode, EditNotFound
    ├── batch: PartialMatchFail, CollisionDetected, DuplicateEdits, Conflict
    ├── approval: ApprovalRequired, HunkRejected, AlreadyDecided
    └── failure: Failed (what the operating system refused, in its own words),
        Busy (somebody else works on it for too long), below Failed
        ServerFailed (the server that machines share), TurnLost (too late to write),
        StateFailed (a file of the state folder), below that StateDamaged and SchemaMismatch,
        Cancelled (by the caller, before it wrote), ConfigInvalid (nobody's rights are known);
        Unsettled (it refused the way back too: the one that may have written),
        Crashed (a bug of ours, by the id of its log entry)

Each refusal is a dataclass; `facts()` are its fields, in their order, without
those that are None. Lines are 1-based, spans inclusive, sizes in bytes.
"""

from __future__ import annotations

from copydesk.errors.approval import AlreadyDecided, ApprovalRequired, HunkRejected
from copydesk.errors.argument import (
    ContentRequired,
    InvalidArgs,
    InvalidPath,
    InvalidRange,
    PathRequired,
    RangeOutOfBounds,
    SuspiciousDiff,
)
from copydesk.errors.batch import CollisionDetected, Conflict, DuplicateEdits, PartialMatchFail
from copydesk.errors.cancelled import (
    Cancelled,
    cancelled_by,
    check_cancelled,
    poll_seconds,
)
from copydesk.errors.failure import (
    Busy,
    ConfigInvalid,
    Crashed,
    Failed,
    SchemaMismatch,
    ServerFailed,
    StateDamaged,
    StateFailed,
    TurnLost,
    Unsettled,
)
from copydesk.errors.file import (
    AccessDenied,
    BinaryFile,
    EncodingRefused,
    FileExists,
    FileNotFound,
    FileTooLarge,
    IncompleteRead,
    NotAFile,
    StaleRead,
    StatsMismatch,
)
from copydesk.errors.hunk import EditNotFound, HunkNotFound, InvalidHunkId, WrongMode, WrongOwner
from copydesk.errors.place import (
    AmbiguousMatch,
    AnchorAmbiguous,
    AnchorNotFound,
    ContentChanged,
    OccurrenceOutOfRange,
)
from copydesk.errors.refusal import Clash, Fact, FailedEdit, LineShown, Refusal, Told

__all__ = [
    "AccessDenied",
    "AlreadyDecided",
    "AmbiguousMatch",
    "AnchorAmbiguous",
    "AnchorNotFound",
    "ApprovalRequired",
    "BinaryFile",
    "Busy",
    "Cancelled",
    "Clash",
    "CollisionDetected",
    "ConfigInvalid",
    "Conflict",
    "ContentChanged",
    "ContentRequired",
    "Crashed",
    "DuplicateEdits",
    "EditNotFound",
    "EncodingRefused",
    "Fact",
    "Failed",
    "FailedEdit",
    "FileExists",
    "FileNotFound",
    "FileTooLarge",
    "HunkNotFound",
    "HunkRejected",
    "IncompleteRead",
    "InvalidArgs",
    "InvalidHunkId",
    "InvalidPath",
    "InvalidRange",
    "LineShown",
    "NotAFile",
    "OccurrenceOutOfRange",
    "PartialMatchFail",
    "PathRequired",
    "RangeOutOfBounds",
    "Refusal",
    "SchemaMismatch",
    "ServerFailed",
    "StaleRead",
    "StateDamaged",
    "StateFailed",
    "StatsMismatch",
    "SuspiciousDiff",
    "Told",
    "TurnLost",
    "Unsettled",
    "WrongMode",
    "WrongOwner",
    "cancelled_by",
    "check_cancelled",
    "poll_seconds",
]
