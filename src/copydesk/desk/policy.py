"""Who approves an edit: the member that made it, or a person.

What lives here: the rule. What must not: decisions, configuration files.
Invariant: where two rules could hold, the last one whose pattern matches does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from copydesk.text.relpath import RelPath

Approver = Literal["self", "human"]
Why = Literal["member", "path", "lines", "files"]
"""Why a person has to approve: the member's policy, the path's, more lines or files than
the member may approve itself."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A member's policy.

    `approval` is who approves; `paths` are exceptions, pairs of what says whether
    a path is meant and who approves there, the last that holds deciding.
    `most_lines` (old or new of one edit) and `most_files` (of one transaction)
    are what the member may approve itself; None for any number.
    """

    approval: Approver = "self"
    paths: tuple[tuple[Callable[[RelPath], bool], Approver], ...] = ()
    most_lines: int | None = None
    most_files: int | None = None

    def guarding(self, matches: Callable[[RelPath], bool]) -> Policy:
        """The same, but that a person approves the paths that are meant."""
        return replace(self, paths=(*self.paths, (matches, "human")))

    @property
    def asks_nobody(self) -> bool:
        """Whether no edit whatever needs a person."""
        never = self.approval == "self" and all(who == "self" for _, who in self.paths)
        return never and self.most_lines is None and self.most_files is None

    def why_human(self, path: RelPath, lines: int, files: int = 1) -> Why | None:
        """Why a person has to approve an edit of so many lines, among so many files; or None."""
        found = [who for matches, who in self.paths if matches(path)]
        if found[-1:] == ["human"]:
            return "path"
        if not found and self.approval == "human":
            return "member"
        if self.most_lines is not None and lines > self.most_lines:
            return "lines"
        if self.most_files is not None and files > self.most_files:
            return "files"
        return None


SELF = Policy()
"""The policy of who needs nobody."""
