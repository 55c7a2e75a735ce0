"""Who calls: a member of the workspace and what it may do.

What lives here: the value. What must not: tokens, transports.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from copydesk.desk.policy import SELF, Policy
from copydesk.text.relpath import RelPath

Operation = Literal["read", "write"]


class Permission(Protocol):
    """What a member may do; `copydesk.store.access` has the real one."""

    def check(self, operation: Operation, *paths: RelPath) -> None:
        """Raise AccessDenied unless the operation is allowed on every one of the paths."""
        ...

    def check_walk(self, *paths: RelPath) -> None:
        """Raise AccessDenied unless something below every one of the directories may be read."""
        ...

    def check_glob(self, glob: str, *, fold: bool = False) -> None:
        """Raise AccessDenied for a glob of a search that names what may not be read."""
        ...

    def allows_read(self, path: RelPath) -> bool:
        """Whether the member may read the file."""
        ...

    def allows_walk(self, path: RelPath) -> bool:
        """Whether something below the directory may be read."""
        ...


@dataclass(frozen=True, slots=True)
class Member:
    """A caller: its name, which plans are kept under, and its permission for one toolset.

    `auto_lines`: so many lines, old or new, may an edit have that it writes
    without showing it first; None for any number, 0 for none. `policy`: who
    approves what it writes. `refresh` gives the member anew; None: it stays as it is.
    """

    name: str
    permission: Permission
    toolset: str = "ws_mod"
    auto_lines: int | None = None
    policy: Policy = SELF
    refresh: Callable[[], Member] | None = field(default=None, compare=False, repr=False)

    def now(self) -> Member:
        """The same member with the rights that it has at this moment."""
        return self if self.refresh is None else self.refresh()
