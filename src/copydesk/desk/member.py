"""Who calls: a member of the workspace, what it may do, and who approves what it writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from secrets import token_hex
from typing import Literal, Protocol

from copydesk.text.relpath import RelPath

Approver = Literal["self", "human"]
Why = Literal["member", "path", "lines", "files"]
"""Why a person has to approve: the member's policy, the path's, more lines or files than
the member may approve itself."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A member's policy.

    `approval` is who approves; `paths` are exceptions, pairs of what says whether a path is meant
    and who approves there, the last that holds deciding. `most_lines` (old or new of one edit) and
    `most_files` (of one transaction) are what the member may approve itself; None for any number.
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


Operation = Literal["read", "write"]


class Permission(Protocol):
    """What a member may do; `copydesk.store.access` has the real one."""

    def check(self, operation: Operation, *paths: RelPath) -> None:
        """Raise AccessDenied unless the operation is allowed on every one of the paths."""

    def check_walk(self, *paths: RelPath) -> None:
        """Raise AccessDenied unless something below every one of the directories may be read."""

    def check_glob(self, glob: str, *, fold: bool = False) -> None:
        """Raise AccessDenied for a glob of a search that names what may not be read."""

    def allows_read(self, path: RelPath) -> bool:
        """Whether the member may read the file."""
        ...

    def allows_walk(self, path: RelPath) -> bool:
        """Whether something below the directory may be read."""
        ...


@dataclass(frozen=True, slots=True)
class Member:
    """A caller: its name, which plans are kept under, and its permission for one toolset.

    `auto_lines`: so many lines, old or new, may an edit have that it writes without showing it
    first; None for any number, 0 for none. `policy`: who approves what it writes. `refresh` gives
    the member anew; None: it stays as it is. `why` is what it says this call is for, which is kept
    with what it plans or writes; `task` is the label of what it works on, by which its plans are
    grouped; plans without one by the `transaction` that the call is. `accept` are the checks whose
    findings it accepts in this call.
    """

    name: str
    permission: Permission
    toolset: str = "ws_mod"
    auto_lines: int | None = None
    policy: Policy = SELF
    refresh: Callable[[], Member] | None = field(default=None, compare=False, repr=False)
    why: str = ""
    task: str = ""
    transaction: str = ""
    accept: tuple[str, ...] = ()

    def because(self, why: str) -> Member:
        """The same member, which gives this reason if it has none of its own."""
        return self if self.why or not why else replace(self, why=why)

    def at_once(self) -> Member:
        """The same member in a call that may make several plans."""
        return replace(self, transaction=token_hex(4))

    def now(self) -> Member:
        """The same member with the rights that it has at this moment."""
        return self if self.refresh is None else self.refresh()
