"""Every refusal of copydesk, in one tree: a stable code and typed facts, no words.

Invariant: a refusal that was raised means that nothing was written, but for
`Unsettled`, which says so.

Each refusal is a dataclass; `facts()` are its fields, in their order, without
those that are None. Lines are 1-based, spans inclusive, sizes in bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from typing import ClassVar, dataclass_transform


@dataclass(frozen=True, slots=True)
class LineShown:
    """A line as a caller sees it: 1-based number and text; of a block the first and last one."""

    line: int
    text: str
    end_line: int | None = None
    end_text: str | None = None


@dataclass(frozen=True, slots=True)
class FailedEdit:
    """One edit of a batch that has no single place: its index from 0, and what is near.

    `lines` are those of the first matches; `nearest_lines`, `similarity` (percent)
    and `difference` (`-` sought, `+` found) tell of the closest place. `cause` is why a text
    that a reader sees there is not found, `indented_by` how many columns the file has more;
    `corrected_old_string` is what is there, `similar_lines` are other places like it.
    """

    index: int
    reason: str
    matches_count: int
    lines: tuple[int, ...]
    nearest_lines: str | None = None
    similarity: int | None = None
    difference: tuple[str, ...] | None = None
    cause: tuple[str, ...] | None = None
    indented_by: int | None = None
    similar_lines: tuple[int, ...] | None = None
    corrected_old_string: str | None = None


@dataclass(frozen=True, slots=True)
class RejectedHunk:
    """One hunk of a patch that has no single place: its file, its number there from 1.

    `patch_line` is where it begins in the patch, 0 where that is not known. `lines` are where
    it may be meant. The rest is as in `FailedEdit`; `corrected_lines` is what is in the
    file for the lines that were sought.
    """

    path: str
    hunk: int
    reason: str
    patch_line: int = 0
    lines: tuple[int, ...] | None = None
    nearest_lines: str | None = None
    similarity: int | None = None
    difference: tuple[str, ...] | None = None
    cause: tuple[str, ...] | None = None
    indented_by: int | None = None
    similar_lines: tuple[int, ...] | None = None
    corrected_lines: str | None = None
    refused_as: str | None = None


@dataclass(frozen=True, slots=True)
class Clash:
    """Two edits of a batch, by index from 0, whose regions share a byte."""

    first: int
    second: int
    first_lines: str
    second_lines: str


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """What a check found that is new; `line` is one of the text as it would be, from 1.

    `not_run`: why it could not be run instead, of which `message` has the particulars. `more`: so
    many findings of it are not told.
    """

    check: str
    mode: str
    path: str
    message: str
    line: int | None = None
    not_run: str | None = None
    more: int | None = None


Told = str | int | LineShown | FailedEdit | RejectedHunk | Clash | CheckFinding
Fact = str | int | bool | tuple[Told, ...] | Mapping[str, Mapping[str, int | str]]
"""What a refusal may tell."""


@dataclass_transform(eq_default=False, field_specifiers=(field,))
@dataclass(eq=False)
class Refusal(Exception):
    """The root: what was asked cannot be done, and nothing was written.

    Every class below it is a dataclass by itself, and has its parent's code unless it names one.
    """

    code: ClassVar[str] = "FAILED"

    def __init_subclass__(cls, code: str | None = None) -> None:
        cls.code = code or cls.code
        dataclass(eq=False)(cls)

    def facts(self) -> Mapping[str, Fact]:
        """The facts by name, in the order of the fields, None left out."""
        found = ((f.name, getattr(self, f.name)) for f in fields(self))
        return {name: value for name, value in found if value is not None}

    def __str__(self) -> str:
        facts = ", ".join(f"{k}={v!r}" for k, v in self.facts().items())
        return f"{self.code}({facts})"


class PathRequired(Refusal, code="PATH_REQUIRED"):
    """No path was given where one is needed."""


class InvalidArgs(Refusal, code="INVALID_ARGS"):
    """An argument is unknown, missing, of the wrong type or out of its domain."""

    argument: str
    reason: str


class InvalidPath(Refusal, code="INVALID_PATH"):
    """The path is not one of this workspace (absolute, above the root, NUL, link out)."""

    reason: str


class InvalidRange(Refusal, code="INVALID_RANGE"):
    """The range has no meaning."""

    range: str
    reason: str
    total_lines: int | None = None


class RangeOutOfBounds(Refusal, code="RANGE_OUT_OF_BOUNDS"):
    """The range names lines that the file does not have."""

    range: str
    total_lines: int


class ContentRequired(Refusal, code="CONTENT_REQUIRED"):
    """The tool needs text, and got none; `total_lines` if nothing is there to delete."""

    argument: str = "content"
    total_lines: int | None = None


class SuspiciousDiff(Refusal, code="SUSPICIOUS_DIFF"):
    """The content looks like a patch, and nobody said that it should be one."""

    sign: str
    line: int


class FileNotFound(Refusal, code="FILE_NOT_FOUND"):
    """No file is at the path."""

    similar: tuple[str, ...] | None = None


class FileExists(Refusal, code="FILE_EXISTS"):
    """A regular file already is where one was to be created, or moved `to`."""

    size_bytes: int | None = None
    to: str | None = None


class NotAFile(Refusal, code="NOT_A_FILE"):
    """The path (or `to`) names a directory, a device, a socket, or a link where none may be."""

    kind: str
    to: str | None = None


class BinaryFile(Refusal, code="BINARY_FILE"):
    """The file holds NUL bytes outside UTF-16 and UTF-32."""

    nul_at_byte: int


class EncodingRefused(Refusal, code="ENCODING_ERROR"):
    """The file's encoding cannot hold the new text.

    `shown_bytes`: it is the text of a whole file and holds bytes as they were shown (`\\xNN`),
    which are no text; else the first character that cannot be held, and where it stands.
    """

    encoding: str
    character: str | None = None
    character_index: int | None = None
    shown_bytes: tuple[str, ...] | None = None


class IncompleteRead(Refusal, code="INCOMPLETE_READ"):
    """A whole file would be written by one who was shown only a part of it.

    `shown_lines` are those of `version`, each `N~M`; None where none was shown whole.
    """

    version: str
    shown_lines: tuple[str, ...] | None
    total_lines: int


class FileTooLarge(Refusal, code="FILE_TOO_LARGE"):
    """The file is above the limit; `setting` is the key of it, when that is not `limit_bytes`."""

    size_bytes: int
    limit_bytes: int
    setting: str | None = None


class StatsMismatch(Refusal, code="STATS_MISMATCH"):
    """The caller's counters are not those of the file on disk."""

    known_old_total_lines: int
    known_old_total_bytes: int
    actual_total_lines: int
    actual_total_bytes: int
    version: str


class StaleRead(Refusal, code="STALE_READ"):
    """The version read cannot be carried to the file now; `current` lines are at its place.

    `total_lines` is None of a file that is too large to be counted.
    """

    version: str
    current_version: str
    total_lines: int | None
    reason: str
    changed: tuple[str, ...] = ()
    current: tuple[LineShown, ...] | None = None


class AccessDenied(Refusal, code="ACCESS_DENIED"):
    """The member may not do this here."""

    operation: str
    rule: str


class AnchorNotFound(Refusal, code="ANCHOR_NOT_FOUND"):
    """No line matches the anchor; `closest` are the lines most like it, if any are close.

    `cause` is why a text that a reader sees in the first of them is not found, and
    `corrected_anchor` how it is there.

    `before_start`: lines match the end anchor, but none of them after a start
    anchor; `closest` are lines of both then.
    """

    argument: str
    anchor: str
    match: str
    closest: tuple[LineShown, ...] | None = None
    before_start: bool | None = None
    cause: tuple[str, ...] | None = None
    corrected_anchor: str | None = None


class AnchorAmbiguous(Refusal, code="ANCHOR_AMBIGUOUS"):
    """Several places match and none was chosen, or one in which others start (`nested`)."""

    argument: str
    anchor: str
    candidates_count: int
    candidates: tuple[LineShown, ...]
    nested: bool | None = None


class OccurrenceOutOfRange(Refusal, code="OCCURRENCE_OUT_OF_RANGE"):
    """There are fewer candidates than the occurrence asked for."""

    occurrence: str
    candidates_count: int
    candidates: tuple[LineShown, ...] = ()


class ContentChanged(Refusal, code="CONTENT_CHANGED"):
    """What the edit relies on, or has written when it is to be undone, is not what is there.

    `current` are the lines that are where the edit would go, of `version`. `cause` is why
    `expected_old` is not `found` though a reader takes them for the same; `stands_at` are
    the lines where it stands.
    """

    reason: str
    planned_lines: str | None = None
    expected_old: str | None = None
    found: str | None = None
    cause: tuple[str, ...] | None = None
    stands_at: str | None = None
    version: str | None = None
    current: tuple[LineShown, ...] | None = None
    later_edit_ids: tuple[int, ...] | None = None
    undone_by: int | None = None


class AmbiguousMatch(Refusal, code="AMBIGUOUS_MATCH"):
    """The target could now be in more than one place; `candidates` are both ends of the first."""

    planned_lines: str
    candidate_lines: tuple[int, ...]
    candidates: tuple[LineShown, ...] | None = None


class InvalidHunkId(Refusal, code="INVALID_HUNK_ID"):
    """The id is not eight lower-case hexadecimal characters."""

    hunk_id: str


class HunkNotFound(Refusal, code="HUNK_NOT_FOUND"):
    """There is no such plan now; `reason` is applied, discarded, expired or unknown."""

    hunk_id: str
    reason: str


class WrongOwner(Refusal, code="WRONG_OWNER"):
    """The plan belongs to another member."""

    hunk_id: str


class WrongMode(Refusal, code="WRONG_MODE"):
    """The plan was made by another tool or toolset."""

    hunk_id: str
    planned_with: str
    called_with: str


class EditNotFound(Refusal, code="EDIT_NOT_FOUND"):
    """No such edit can be undone; `reason` is unknown, pruned, replaced or failed."""

    edit_id: int
    reason: str
    newest_edit_id: int | None = None


class PartialMatchFail(Refusal, code="PARTIAL_MATCH_FAIL"):
    """Some text of a batch stands nowhere, or in several places."""

    failed_index: int
    failures: tuple[FailedEdit, ...]


class PatchInvalid(Refusal, code="INVALID_PATCH"):
    """A text is no patch of the language that it is given as; `line` is where, `text` what is."""

    reason: str
    line: int | None = None
    text: str | None = None


class PatchRejected(Refusal, code="PATCH_REJECTED"):
    """Some hunks of a patch have no single place in their files; nothing was written."""

    rejected: tuple[RejectedHunk, ...]


class CollisionDetected(Refusal, code="COLLISION_DETECTED"):
    """Regions of a batch overlap; all pairs are named, or how many there are is told."""

    collisions: tuple[Clash, ...]
    collisions_count: int | None = None


class DuplicateEdits(Refusal, code="DUPLICATE_EDITS"):
    """Two edits of a batch are the same, by index from 0."""

    indices: tuple[int, int]


class Conflict(Refusal, code="CONFLICT"):
    """The file is not as expected; `mismatches`: all that differs, as `expected` and `actual`."""

    expectation: str
    expected: int | str
    actual: int | str
    mismatches: Mapping[str, Mapping[str, int | str]]


class ApprovalRequired(Refusal, code="APPROVAL_REQUIRED"):
    """A person has to approve it first; `why` is member, path, lines, files, drifted or checks.

    With a `hunk_id` the plan waits for the person; without one the tool writes at once, which this
    member may not do there. `checks` found something, which the member may `accept` itself.
    """

    why: str
    hunk_id: str | None = None
    accept: tuple[str, ...] | None = None
    checks: tuple[CheckFinding, ...] | None = None


class CheckFailed(Refusal, code="CHECK_FAILED"):
    """A check that refuses has found something in the text as it would be."""

    checks: tuple[CheckFinding, ...]


class HunkRejected(Refusal, code="HUNK_REJECTED"):
    """A person has looked at the plan and said no; `reason` is what was said."""

    hunk_id: str
    by: str
    reason: str


class AlreadyDecided(Refusal, code="ALREADY_DECIDED"):
    """Somebody was first: the plan was approved or rejected (`verdict`) before."""

    hunk_id: str
    by: str
    verdict: str


class Crashed(Refusal):
    """A bug of ours, logged under `log_id`; nothing is known to be written."""

    log_id: str


class Failed(Refusal):
    """The operating system refused; `reason` is its own word for it."""

    operation: str
    reason: str


class ConfigInvalid(Failed):
    """The configuration became unusable, so no rights are known; `reason` names file and key."""

    operation: str = "read the configuration"
    reason: str = field(default="")


class Unsettled(Refusal):
    """The system refused the inverse of a write too; recovery will settle it, in `paths`."""

    operation: str
    reason: str
    paths: tuple[str, ...]


class StateFailed(Failed):
    """A file of the state folder cannot be used now; `file` is its path."""

    file: str


class StateDamaged(StateFailed):
    """What the file holds cannot be read; it has to be set aside."""


class SchemaMismatch(StateFailed):
    """Another build wrote the file: its schema number, and the one that this build reads."""

    found_schema: int
    own_schema: int


class Busy(Refusal, code="BUSY"):
    """Somebody else worked on it for longer than one waits; nothing was written.

    `target` is the file, or the database of copydesk. Who holds it is told as far as
    it is known: the member and the tool, the process on its machine, since when (UTC).
    """

    target: str
    waited_seconds: int
    holder_member: str | None = None
    holder_tool: str | None = None
    holder_process: int | None = None
    holder_machine: str | None = None
    held_since: str | None = None


class ServerFailed(Failed):
    """The server that machines share did not answer, or refused; `reason` names it."""


class TurnLost(Failed):
    """The writer lost its turn at a file before it could write; it may be asked again."""

    @staticmethod
    def of(key: str) -> TurnLost:
        """The turn that was held as `key` was lost."""
        what = "a file with several names" if key.startswith("\0") else key
        return TurnLost("write", f"the lock of {what} was lost; others may have had it since")


POLL_SECONDS = 0.05
"""How often a call that waits asks whether it was cancelled."""

_cancelled: ContextVar[Callable[[], bool] | None] = ContextVar("cancelled", default=None)


class Cancelled(Failed):
    """The caller cancelled the call before its write began."""

    operation: str = "write"
    reason: str = field(default="the call was cancelled")


@contextmanager
def cancelled_by(asked: Callable[[], bool]) -> Generator[None]:
    """What is called within, in this thread, is cancelled once `asked` says so.

    >>> import threading
    >>> stop = threading.Event()
    >>> with cancelled_by(stop.is_set):
    ...     check_cancelled()
    """
    before = _cancelled.set(asked)
    try:
        yield
    finally:
        _cancelled.reset(before)


def check_cancelled() -> None:
    """Raise Cancelled if the call at hand was cancelled."""
    asked = _cancelled.get()
    if asked is not None and asked():
        raise Cancelled()


def poll_seconds() -> float | None:
    """How long the call may wait before it has to ask again; None for any time."""
    return None if _cancelled.get() is None else POLL_SECONDS
