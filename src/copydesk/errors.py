"""Every refusal of copydesk, in one tree: a stable code and typed facts, no words.

Invariant: a refusal that was raised means that nothing was written, except
`Unsettled`.

Each refusal is a dataclass; `facts()` returns its fields in their order, without
those that are None. Lines are 1-based, spans inclusive, sizes in bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from typing import ClassVar, dataclass_transform

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
    "CheckFailed",
    "CheckFinding",
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
    "LockLost",
    "NotAFile",
    "OccurrenceOutOfRange",
    "PartialMatchFail",
    "PatchInvalid",
    "PatchRejected",
    "PathRequired",
    "RangeOutOfBounds",
    "Refusal",
    "RejectedHunk",
    "SchemaMismatch",
    "ServerFailed",
    "StaleRead",
    "StateDamaged",
    "StateFailed",
    "StatsMismatch",
    "SuspiciousDiff",
    "SuspiciousText",
    "Unsettled",
    "WrongMode",
    "WrongOwner",
    "cancelled_by",
]


@dataclass(frozen=True, slots=True)
class LineShown:
    """A line as a caller sees it: 1-based number and text; for a block, its first and last line."""

    line: int
    text: str
    end_line: int | None = None
    end_text: str | None = None


@dataclass(frozen=True, slots=True)
class FailedEdit:
    """One edit of a batch that does not match exactly one place: its 0-based index, and near texts.

    `lines` are those of the first matches, or where the new text is already. `nearest_lines`,
    `similarity` (percent) and `difference` (`-` wanted, `+` found) describe the closest place.
    `cause` says why a text that looks the same does not match there, `indented_by` by how many more
    columns the file is indented. `corrected_old_string` is the text that would match,
    `similar_lines` are other places like it.
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
    """One hunk of a patch that does not match exactly one place: its file and 1-based number there.

    `patch_line` is the line of the patch where it begins, 0 if unknown. `lines` are where it may
    belong. The rest is as in `FailedEdit`; `corrected_lines` is the file's text in place of the
    lines searched for.
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
    """A new finding of a check; `line` is a line of the new text, from 1.

    `not_run`: why the check could not be run at all; `message` has the details. `more`: the number
    of findings of this check that are not listed.
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
"""A field of a refusal."""


@dataclass_transform(eq_default=False, field_specifiers=(field,))
@dataclass(eq=False)
class Refusal(Exception):
    """The base of all refusals: the request cannot be carried out, and nothing was written.

    Every subclass becomes a dataclass, and has its parent's code unless it names one. `path` is the
    file that a call of the library was about, if it was about one. As text it is its sentence, then
    the code and the short ones of its facts.
    """

    code: ClassVar[str] = "FAILED"
    path: ClassVar[str] = ""
    words: ClassVar[Callable[[Refusal], str]] = lambda refusal: type(refusal).__name__
    """The sentence of a refusal; `copydesk.tools.refusals`, which has the words, sets it."""

    def __init_subclass__(cls, code: str | None = None) -> None:
        cls.code = code or cls.code
        dataclass(eq=False)(cls)

    def facts(self) -> Mapping[str, Fact]:
        """The fields by name, in their order, without those that are None."""
        return {f.name: v for f in fields(self) if (v := getattr(self, f.name)) is not None}

    def __reduce__(self) -> tuple[object, ...]:  # by its fields, however it was made
        return type(self), tuple(getattr(self, f.name) for f in fields(self)), vars(self)

    def __str__(self) -> str:
        facts = {"path": self.path, **self.facts()} if self.path else self.facts()
        short = [f"{k}={v!r}" for k, v in facts.items() if len(repr(v)) <= _SHORT]
        return f"{type(self).words(self)} [{' '.join([self.code, *short])}]"


_SHORT = 80  # characters; the others, such as texts of files, are attributes only


class PathRequired(Refusal, code="PATH_REQUIRED"):
    """A path is needed and none was given."""


class InvalidArgs(Refusal, code="INVALID_ARGS"):
    """An argument is unknown, missing, of the wrong type or out of its domain."""

    argument: str
    reason: str


class InvalidPath(Refusal, code="INVALID_PATH"):
    """The path is not in this workspace (absolute, above the root, NUL, a link outside)."""

    reason: str


class InvalidRange(Refusal, code="INVALID_RANGE"):
    """The range is malformed or reversed."""

    range: str
    reason: str
    total_lines: int | None = None


class RangeOutOfBounds(Refusal, code="RANGE_OUT_OF_BOUNDS"):
    """The range names lines that the file does not have."""

    range: str
    total_lines: int


class ContentRequired(Refusal, code="CONTENT_REQUIRED"):
    """The tool needs text and got none; with `total_lines`, there is nothing to delete."""

    argument: str = "content"
    total_lines: int | None = None


class SuspiciousDiff(Refusal, code="SUSPICIOUS_DIFF"):
    """The content looks like a patch, and the caller did not say that this is meant."""

    sign: str
    line: int


class SuspiciousText(Refusal, code="SUSPICIOUS_TEXT"):
    """The new text may not be what is meant; `signs` are the reasons, `hunk_id` is its plan."""

    signs: tuple[str, ...]
    hunk_id: str | None = None


class FileNotFound(Refusal, code="FILE_NOT_FOUND"):
    """There is no file at the path."""

    similar: tuple[str, ...] | None = None


class FileExists(Refusal, code="FILE_EXISTS"):
    """There is a file already where one was to be created, or moved `to`."""

    size_bytes: int | None = None
    to: str | None = None


class NotAFile(Refusal, code="NOT_A_FILE"):
    """The path (or `to`) names a directory, a device, a socket, or a link where none is allowed."""

    kind: str
    to: str | None = None


class BinaryFile(Refusal, code="BINARY_FILE"):
    """The file has NUL bytes and is neither UTF-16 nor UTF-32."""

    nul_at_byte: int


class EncodingRefused(Refusal, code="ENCODING_ERROR"):
    """The file's encoding cannot represent the new text.

    `shown_bytes`: it is the text of a whole file and contains bytes as they were shown (`\\xNN`);
    otherwise the first character that cannot be encoded, and its position.
    """

    encoding: str
    character: str | None = None
    character_index: int | None = None
    shown_bytes: tuple[str, ...] | None = None


class IncompleteRead(Refusal, code="INCOMPLETE_READ"):
    """A whole file would be overwritten by a member that was shown only a part of it.

    `shown_lines` are those of `version`, each `N~M`; None if no line was shown in full.
    """

    version: str
    shown_lines: tuple[str, ...] | None
    total_lines: int


class FileTooLarge(Refusal, code="FILE_TOO_LARGE"):
    """The file is larger than the limit; `setting` names it if it is not `limit_bytes`."""

    size_bytes: int
    limit_bytes: int
    setting: str | None = None


class StatsMismatch(Refusal, code="STATS_MISMATCH"):
    """The file on disk has other totals than the caller knows."""

    known_old_total_lines: int
    known_old_total_bytes: int
    actual_total_lines: int
    actual_total_bytes: int
    version: str


class StaleRead(Refusal, code="STALE_READ"):
    """The edit is for an older version and cannot be relocated; `current` lines are there now.

    `total_lines` is None if the file is too large to be counted.
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

    `cause` says why the first of them looks the same but does not match, and `corrected_anchor`
    is the text that would match.

    `before_start`: lines match the end anchor, but none of them after a start anchor; then
    `closest` are lines of both.
    """

    argument: str
    anchor: str
    match: str
    closest: tuple[LineShown, ...] | None = None
    before_start: bool | None = None
    cause: tuple[str, ...] | None = None
    corrected_anchor: str | None = None


class AnchorAmbiguous(Refusal, code="ANCHOR_AMBIGUOUS"):
    """Several places match and none was chosen, or other ones begin within the place (`nested`)."""

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
    """The lines that the edit relies on have changed (for an undo: those that it wrote).

    `current` are the lines of `version` where the edit would go. `cause` says why `expected_old`
    looks the same as `found` but is not; `stands_at` are the lines where it is now.
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
    """The target may be in several places of `version`; `candidates` are the ends of the first."""

    planned_lines: str
    candidate_lines: tuple[int, ...]
    candidates: tuple[LineShown, ...] | None = None
    version: str | None = None


class OfPlan(Refusal):
    """The base of refusals of what was asked of one plan."""

    hunk_id: str


class InvalidHunkId(OfPlan, code="INVALID_HUNK_ID"):
    """The id is not eight lower-case hexadecimal characters."""


class HunkNotFound(OfPlan, code="HUNK_NOT_FOUND"):
    """There is no such plan any more; `reason` is applied, discarded, expired or unknown.

    `unsure`: its process died while it wrote, and another program changed the file, so that nobody
    can tell whether `edit_id` is in it.
    """

    reason: str
    edit_id: int | None = None


class WrongOwner(OfPlan, code="WRONG_OWNER"):
    """The plan belongs to another member."""


class WrongMode(OfPlan, code="WRONG_MODE"):
    """The plan was made by another tool or toolset."""

    planned_with: str
    called_with: str


class EditNotFound(Refusal, code="EDIT_NOT_FOUND"):
    """No such edit can be undone; `reason` is unknown, pruned, replaced, failed or forgotten."""

    edit_id: int
    reason: str
    newest_edit_id: int | None = None


class PartialMatchFail(Refusal, code="PARTIAL_MATCH_FAIL"):
    """Some text of a batch is not found, or found in several places.

    `hunk_id` is the plan of the corrected batch, if that is safe, and `corrected_diff` its diff,
    which `diff_truncated` says is cut.
    """

    failed_index: int
    failures: tuple[FailedEdit, ...]
    hunk_id: str | None = None
    corrected_diff: str | None = None
    diff_truncated: bool | None = None


class PatchInvalid(Refusal, code="INVALID_PATCH"):
    """The text is not a valid patch in the given format; `line` is the place, `text` the line."""

    reason: str
    line: int | None = None
    text: str | None = None


class PatchRejected(Refusal, code="PATCH_REJECTED"):
    """Some hunks of a patch do not match exactly one place in their files; nothing was written."""

    rejected: tuple[RejectedHunk, ...]


class CollisionDetected(Refusal, code="COLLISION_DETECTED"):
    """Regions of a batch overlap; all pairs are listed, or their number is given."""

    collisions: tuple[Clash, ...]
    collisions_count: int | None = None


class DuplicateEdits(Refusal, code="DUPLICATE_EDITS"):
    """Two edits of a batch are the same, by index from 0."""

    indices: tuple[int, int]


class Conflict(Refusal, code="CONFLICT"):
    """The file is not as expected; `mismatches`: all differences, `expected` and `actual`."""

    expectation: str
    expected: int | str
    actual: int | str
    mismatches: Mapping[str, Mapping[str, int | str]]


class ApprovalRequired(Refusal, code="APPROVAL_REQUIRED"):
    """A person has to approve the plan; `why` is member, path, lines, files, drifted or checks.

    With a `hunk_id` the plan is waiting for the person; without one the tool would write at once,
    which this member may not do there. `checks`: findings that the member may `accept` itself.
    """

    why: str
    hunk_id: str | None = None
    accept: tuple[str, ...] | None = None
    checks: tuple[CheckFinding, ...] | None = None


class CheckFailed(Refusal, code="CHECK_FAILED"):
    """A check whose findings refuse an edit found something in the new text."""

    checks: tuple[CheckFinding, ...]


class HunkRejected(OfPlan, code="HUNK_REJECTED"):
    """A person rejected the plan; `reason` is what the person wrote."""

    by: str
    reason: str


class AlreadyDecided(OfPlan, code="ALREADY_DECIDED"):
    """Somebody else decided first: the plan is already approved or rejected (`verdict`)."""

    by: str
    verdict: str


class Crashed(Refusal):
    """A bug in copydesk, logged under `log_id`; as far as is known nothing was written."""

    log_id: str


class Failed(Refusal):
    """The operating system refused; `reason` is its own message."""

    operation: str
    reason: str


class ConfigInvalid(Failed):
    """The configuration became invalid, so no rights are known; `reason` names file and key."""

    operation: str = "read the configuration"
    reason: str = field(default="")


class Unsettled(Refusal):
    """The system refused to undo a write, too; recovery will finish or undo it, in `paths`."""

    operation: str
    reason: str
    paths: tuple[str, ...]


class StateFailed(Failed):
    """A file in the state folder cannot be used now; `file` is its path."""

    file: str


class StateDamaged(StateFailed):
    """The file is damaged; it has to be set aside."""


class SchemaMismatch(StateFailed):
    """Another version of copydesk wrote the file: its schema number, and the one that we read."""

    found_schema: int
    own_schema: int


class Busy(Refusal, code="BUSY"):
    """Another caller held the lock for the whole wait; nothing was written.

    `target` is the file, or the database of copydesk. The holder is given as far as known: the
    member and the tool, the process and its machine, since when (UTC).
    """

    target: str
    waited_seconds: int
    holder_member: str | None = None
    holder_tool: str | None = None
    holder_process: int | None = None
    holder_machine: str | None = None
    held_since: str | None = None


class ServerFailed(Failed):
    """The Redis server did not answer, or refused; `reason` names it."""


class LockLost(Failed):
    """The writer lost its lock of a file before it could write; the call may be repeated."""

    @staticmethod
    def of(key: str) -> LockLost:
        """The refusal for a lost lock, given its key."""
        what = "a file with several names" if key.startswith("\0") else key
        return LockLost("write", f"the lock of {what} was lost; others may have had it since")


POLL_SECONDS = 0.05
"""How often a waiting call checks whether it was cancelled."""

_cancelled: ContextVar[Callable[[], bool] | None] = ContextVar("cancelled", default=None)


class Cancelled(Failed):
    """The caller cancelled the call before its write began."""

    operation: str = "write"
    reason: str = field(default="the call was cancelled")


@contextmanager
def cancelled_by(asked: Callable[[], bool]) -> Generator[None]:
    """Cancel calls made inside, in this thread, once `asked` returns True.

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
    """Raise Cancelled if the current call was cancelled."""
    asked = _cancelled.get()
    if asked is not None and asked():
        raise Cancelled()


def poll_seconds() -> float | None:
    """How long the call may wait before it must check again; None: no limit."""
    return None if _cancelled.get() is None else POLL_SECONDS
