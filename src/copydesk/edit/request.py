"""What may be asked: one frozen type for each kind of edit.

What lives here: the typed requests. What must not: JSON, files, how an edit is
made. Invariant: a request holds valid Unicode without NUL (the wire refuses the
rest), and anchors are one line and not empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from copydesk.edit.expected import Expected
from copydesk.errors import InvalidArgs
from copydesk.text.relpath import RelPath

Action = Literal["replace", "delete", "append", "insert", "block_replace", "block_diff"]
Match = Literal["contains", "equals"]
Occurrence = int | Literal["last"]
"""Which of several candidates: 1-based, or the last one."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """A line to be found: `text` is a part of it (`contains`) or the whole of it (`equals`)."""

    text: str
    match: Match = "contains"
    argument: str = "anchor"

    def __post_init__(self) -> None:
        if not self.text:
            raise InvalidArgs(self.argument, "must not be empty")
        if "\n" in self.text:
            raise InvalidArgs(self.argument, "must be a part of one line, without a line feed")


@dataclass(frozen=True, slots=True)
class RangeEdit:
    """Put `content` in the place of the lines that `range` names (1-based, inclusive, as text)."""

    path: RelPath
    range: str
    content: str = ""


@dataclass(frozen=True, slots=True)
class Append:
    """Put `content` at the end of the file; `create` makes a missing one."""

    path: RelPath
    content: str
    create: bool = True


@dataclass(frozen=True, slots=True)
class Insert:
    """Put `content` directly after or before the anchor's line."""

    path: RelPath
    anchor: Anchor
    content: str
    position: Literal["after", "before"] = "after"
    occurrence: Occurrence | None = None


@dataclass(frozen=True, slots=True)
class BlockReplace:
    """Put `content` in the place of the lines between two anchors, or of those and the anchors.

    `include_anchors` keeps both anchor lines. Without `strict` or without
    `require_unique` the first of several candidates is taken. Each anchor goes by
    the name of its field.
    """

    path: RelPath
    start_anchor: Anchor
    end_anchor: Anchor
    content: str
    occurrence: Occurrence | None = None
    include_anchors: bool = True
    require_unique: bool = True
    strict: bool = True

    def __post_init__(self) -> None:
        for name in ("start_anchor", "end_anchor"):
            anchor: Anchor = getattr(self, name)
            if anchor.argument != name:
                object.__setattr__(self, name, replace(anchor, argument=name))


@dataclass(frozen=True, slots=True)
class StringEdit:
    """Put `new` in the place of `old`, which is not empty; LF in both means any line end."""

    old: str
    new: str

    def __post_init__(self) -> None:
        if not self.old:
            raise InvalidArgs("old_string", "must not be empty")


@dataclass(frozen=True, slots=True)
class BatchEdit:
    """Make all `edits`, each sought in the original text, or none."""

    path: RelPath
    edits: tuple[StringEdit, ...]

    @staticmethod
    def of(path: RelPath, edits: Iterable[StringEdit | tuple[str, str]]) -> BatchEdit:
        """The batch of some edits, or pairs of an old text and a new one.

        Raises InvalidArgs for no edits, and for one without an old text, by its index.
        """
        made: list[StringEdit] = []
        for index, edit in enumerate(edits):
            if isinstance(edit, StringEdit):
                made.append(edit)
                continue
            old, new = edit
            if not old:
                raise InvalidArgs(f"edits[{index}].old_string", "must not be empty")
            made.append(StringEdit(old, new))
        if not made:
            raise InvalidArgs("edits", "must not be empty")
        return BatchEdit(path, tuple(made))

    @property
    def bad_character(self) -> bool:
        """Whether a new text holds U+FFFD and its old one does not."""
        return any("\ufffd" in edit.new and "\ufffd" not in edit.old for edit in self.edits)


@dataclass(frozen=True, slots=True)
class BlockDiff:
    """Edit blocks of notes, as `content` says in the grammar of block diffs.

    `path` is that of the first document it names. `strict` compares what it says
    of a block with white space as it is.
    """

    path: RelPath
    content: str
    strict: bool = True


Request = RangeEdit | Append | Insert | BlockReplace | BatchEdit | BlockDiff


@dataclass(frozen=True, slots=True)
class Terms:
    """On what terms an edit is prepared.

    `version`: the one that the caller read (12 hex characters). `expected_old`:
    the exact old text of the lines to be replaced. `existing_hunk_id`: the plan
    to make anew. `auto`: write at once when the edit is certain. `expected`: how
    the file is when the edit is planned.
    """

    version: str | None = None
    expected_old: str | None = None
    existing_hunk_id: str | None = None
    auto: bool = False
    expected: Expected | None = None
