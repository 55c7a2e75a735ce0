"""What a member may read and write.

What lives here: the rules and the one check. What must not: the disk (callers
hand in the path as it was given and the real one). Invariants: deny lists win;
an empty allow list allows all; what is reserved stays so whatever the lists say.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from copydesk.errors import AccessDenied
from copydesk.store.globs import alternatives, covers, literal_end, names, reaches
from copydesk.store.rg_args import glob_roots
from copydesk.store.temp import GLOB
from copydesk.text.relpath import RelPath

Operation = Literal["read", "write"]

TEAM_DIR = ".minds"
CONFIG = "copydesk.toml"
"""The configuration at the root: it holds tokens and rights."""

_RESERVED = (CONFIG, TEAM_DIR, ".dialogs", "**/*.tsk", f"**/{GLOB}")
# Where the file system may fold case, `Secret` names what a rule forbids as `secret`.
_DENY_FOLDS = sys.platform in ("darwin", "win32")


@dataclass(frozen=True, slots=True)
class Rules:
    """What one member may do with one toolset.

    The directory lists hold globs of paths from the root; each covers what is
    below it too. The extension lists hold `py`, `.py` or `tar.gz`, compared
    with their case; `""` stands for a name without extension, and `.env` has
    both none and the extension `env`. `state_dir` is copydesk's own folder at
    the root. `within` is "" for the whole workspace less what is reserved, or
    the one reserved directory at the root that these rules are for.
    """

    read_dirs: tuple[str, ...] = ()
    write_dirs: tuple[str, ...] = ()
    no_read_dirs: tuple[str, ...] = ()
    no_write_dirs: tuple[str, ...] = ()
    read_file_ext_names: tuple[str, ...] = ()
    write_file_ext_names: tuple[str, ...] = ()
    no_read_file_ext_names: tuple[str, ...] = ()
    no_write_file_ext_names: tuple[str, ...] = ()
    state_dir: str = ".copydesk"
    within: str = ""

    def team_mgmt(self) -> Rules:
        """The same member's rules for team_mgmt: `.minds` less what the deny lists name."""
        return replace(
            self,
            read_dirs=(),
            write_dirs=(),
            read_file_ext_names=(),
            write_file_ext_names=(),
            within=TEAM_DIR,
        )

    def check(self, operation: Operation, *paths: RelPath) -> None:
        """Raise AccessDenied, naming the rule, unless every one of the files is allowed."""
        for path in paths:
            rule = _rule_against(self, operation, path)
            if rule:
                raise AccessDenied(operation, rule)

    def check_walk(self, *paths: RelPath) -> None:
        """Raise AccessDenied unless every one of the directories may be listed or searched."""
        for path in paths:
            rule = self._rule_against_walk(path)
            if rule:
                raise AccessDenied("read", rule)

    def check_glob(self, glob: str, *, fold: bool = False) -> None:
        """Raise AccessDenied for a glob of .gitignore that names what may not be read.

        That depends on the glob and on the rules alone, never on what there is: a glob names
        a denied directory when parts of it without `*` and `?` are its name; one that is only
        wide enough for it (`**/*.py`) is allowed, and finds nothing there. `fold`: its case
        does not count.
        """
        if glob.startswith("!"):
            return
        for one in alternatives(glob):
            rule = self._rule_against_glob(one, fold=fold)
            if rule:
                raise AccessDenied("read", rule)

    def allows_read(self, path: RelPath) -> bool:
        """Whether the file may be read."""
        return not _rule_against(self, "read", path)

    def allows_walk(self, path: RelPath) -> bool:
        """Whether the directory may be listed: something in it might be readable."""
        return not self._rule_against_walk(path)

    def rule_against(self, operation: Operation, path: RelPath) -> str:
        """The rule that forbids it; empty when none does."""
        if operation == "read":
            allowed, denied = self.read_dirs, self.no_read_dirs
        else:
            allowed, denied = self.write_dirs, self.no_write_dirs
        return (
            self._reserved(path)
            or _denied(f"no_{operation}_dirs", denied, path)
            or self._extension(operation, path)
            or _not_allowed(
                f"{operation}_dirs", allowed, any(covers(pattern, path) for pattern in allowed)
            )
        )

    def _rule_against_walk(self, path: RelPath) -> str:
        return (
            self._reserved(path)
            or _denied("no_read_dirs", self.no_read_dirs, path)
            or _not_allowed(
                "read_dirs",
                self.read_dirs,
                any(reaches(pattern, path) for pattern in self.read_dirs),
            )
        )

    def _rule_against_glob(self, glob: str, *, fold: bool) -> str:
        place = glob_roots(glob)
        if place.parts and not self.allows_read(place):
            rule = self._rule_against_walk(place)
            if rule:
                return rule
        for pattern in (*_RESERVED, self.state_dir):
            if pattern != self.within and names(glob, pattern, fold=True):
                return _reserved_rule(pattern)
        for pattern in self.no_read_dirs:
            if names(glob, pattern, fold=fold or _DENY_FOLDS):
                return f"no_read_dirs: {pattern}"
        if glob.endswith("/"):
            return ""
        end = literal_end(glob)
        for extension in self.no_read_file_ext_names:
            dotted = "." + extension.removeprefix(".")
            if extension and (end.casefold() if fold else end).endswith(dotted):
                return f"no_read_file_ext_names: {extension}"
        return ""

    def _reserved(self, path: RelPath) -> str:
        if self.within and path.parts[:1] != (self.within,):
            return f"outside: {self.within}/**"
        for pattern in (*_RESERVED, self.state_dir):
            # The own directory of a toolset is not reserved for itself.
            if pattern != self.within and covers(pattern, path, fold=True):
                return _reserved_rule(pattern)
        return ""

    def _extension(self, operation: Operation, path: RelPath) -> str:
        if operation == "read":
            allowed, denied = self.read_file_ext_names, self.no_read_file_ext_names
        else:
            allowed, denied = self.write_file_ext_names, self.no_write_file_ext_names
        for name in denied:
            if _has_extension(path, name):
                return f"no_{operation}_file_ext_names: {name}"
        found = any(_has_extension(path, name) for name in allowed)
        return _not_allowed(f"{operation}_file_ext_names", allowed, found)


@lru_cache(maxsize=4096)
def _rule_against(rules: Rules, operation: Operation, path: RelPath) -> str:
    """A call asks for the same few paths again and again."""
    return rules.rule_against(operation, path)


def _reserved_rule(pattern: str) -> str:
    return f"reserved: {pattern}" + "/**" * (pattern != CONFIG)


def _denied(list_name: str, patterns: tuple[str, ...], path: RelPath) -> str:
    for pattern in patterns:
        if covers(pattern, path, fold=_DENY_FOLDS):
            return f"{list_name}: {pattern}"
    return ""


def _not_allowed(list_name: str, allowed: tuple[str, ...], found: bool) -> str:
    return f"{list_name}: {', '.join(allowed)}" if allowed and not found else ""


def _has_extension(path: RelPath, extension: str) -> bool:
    extension = extension.removeprefix(".")
    if not extension:
        return "." not in path.name.lstrip(".").rstrip(".")
    return path.name.endswith("." + extension)
