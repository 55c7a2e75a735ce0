"""Access rights of members, by globs over paths.

Deny lists win, an empty allow list allows everything, and reserved paths stay reserved whatever the
lists say. In a glob `*`, `?` and `[...]` never match a "/", `**` matches any number of whole names,
and a directory covers everything below it: `src` covers `src/a`, not `src-backup`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from itertools import pairwise
from typing import Literal

from copydesk.errors import AccessDenied, InvalidArgs
from copydesk.store.contents import GLOB
from copydesk.text.relpath import RelPath, braces, name_pattern

MOST_ALTERNATIVES = 1_000

_BELOW = r"(?:[^/]+/)*"
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def covers(pattern: str, path: RelPath, *, fold: bool = False) -> bool:
    """Whether the pattern matches the path or a directory above it; `fold` ignores case."""
    return _compiled(pattern, fold, False).match(_spelled(path, fold)) is not None


def reaches(pattern: str, path: RelPath) -> bool:
    """Whether the pattern may cover something below `path` if that is a directory."""
    return _compiled(pattern, False, True).match(_spelled(path, False)) is not None


def glob_roots(glob: str) -> RelPath:
    """The path that the glob names before its first wildcard.

    `src/**/*.py` gives `src`; a glob without wildcards gives its whole path. A glob that matches at
    any depth, or that excludes (`!…`), gives the root: it names no place. Raises InvalidPath if the
    path leads above the root.
    """
    if glob.startswith("!") or "/" not in glob.rstrip("/"):
        return RelPath(())
    parts: list[str] = []
    for part in glob.split("/"):
        if re.search(r"[*?[{]", _ESCAPE.sub("", part)):
            break
        parts.append(_ESCAPE.sub(r"\1", part))
    return RelPath.parse("/".join(parts).lstrip("/") or ".")


def names(glob: str, pattern: str, *, fold: bool = False) -> bool:
    """Whether a .gitignore glob without braces names something that `pattern` covers.

    The pattern's last name must be matched without `*` and `?`, or be spelled the same.
    """
    pattern_names = [name for name in pattern.split("/") if name not in ("", ".")]
    while pattern_names[-1:] == ["**"]:
        pattern_names.pop()
    if not pattern_names:
        return True
    glob_names = [part for part in glob.split("/") if part not in ("", ".")]
    if "/" not in glob.rstrip("/"):
        glob_names = ["**", *glob_names]
    key = max(
        (i for i, name in enumerate(pattern_names) if not _wild(name)),
        default=len(pattern_names) - 1,
    )

    @cache
    def meets(at: int, part: int) -> bool:
        if at == len(pattern_names):
            return True
        if pattern_names[at] == "**":
            return meets(at + 1, part) or (part < len(glob_names) and meets(at, part + 1))
        if part == len(glob_names):
            return False
        glob_name = glob_names[part]
        if glob_name == "**":
            return meets(at, part + 1) or (at != key and meets(at + 1, part))
        met = _means(glob_name, pattern_names[at], fold) or (
            at != key and ("*" in glob_name or "?" in glob_name)
        )
        return met and meets(at + 1, part + 1)

    return meets(0, 0)


def alternatives(glob: str) -> tuple[str, ...]:
    """Expand the braces of a glob; raise InvalidArgs for too many alternatives."""
    done: list[str] = []
    waiting = [glob]
    while waiting:
        glob = waiting.pop()
        outer = min(braces(glob, classes=True), default=None)
        if outer is None:
            done.append(glob)
        else:
            texts = (glob[a + 1 : b] for a, b in pairwise(outer))
            waiting += [glob[: outer[0]] + text + glob[outer[-1] + 1 :] for text in texts]
        if len(done) + len(waiting) > MOST_ALTERNATIVES:
            raise InvalidArgs("globs", f"more than {MOST_ALTERNATIVES} alternatives in one glob")
    return tuple(done)


def _wild(name: str) -> bool:
    return any(char in name for char in "*?[")


def _means(part: str, name: str, fold: bool) -> bool:
    """Whether a part of a glob equals `name`, or matches it (a pattern too) without `*` and `?`."""
    if fold:
        part, name = part.casefold(), name.casefold()
    if part == name:
        return True
    if "*" in part or "?" in part:
        return False
    if _wild(name):
        return re.fullmatch(_of_name(name), _ESCAPE.sub(r"\1", part), re.DOTALL) is not None
    return re.fullmatch(name_pattern(part), name, re.DOTALL) is not None


def _spelled(path: RelPath, fold: bool) -> str:
    # Every name ends with a slash, so that a match of names never ends inside a name.
    text = "".join(part + "/" for part in path.parts)
    return text.casefold() if fold else text


@lru_cache(maxsize=4096)
def _compiled(pattern: str, fold: bool, partly: bool) -> re.Pattern[str]:
    names = [name for name in pattern.split("/") if name not in ("", ".")]
    expression = ""
    for name in reversed(names):
        if name == "**":
            expression = expression if expression.startswith(_BELOW) else _BELOW + expression
        elif partly:
            expression = rf"(?:\Z|{_of_name(name)}/{expression})"
        else:
            expression = f"{_of_name(name.casefold() if fold else name)}/{expression}"
    return re.compile(expression, re.DOTALL)


def _of_name(pattern: str) -> str:
    """The regular expression for a name in a pattern, where a backslash is one."""
    return name_pattern(pattern.replace("\\", r"\\"))


Operation = Literal["read", "write"]

TEAM_DIR = ".minds"
CONFIG = "copydesk.toml"
"""The configuration at the root, which holds tokens and rights."""

_RESERVED = (CONFIG, TEAM_DIR, ".dialogs", "**/*.tsk", f"**/{GLOB}")
# If the file system may fold case, a rule that forbids `secret` also forbids `Secret`.
_DENY_FOLDS = sys.platform in ("darwin", "win32")


def guards(pattern: str, path: RelPath) -> bool:
    """Whether a denying or asking rule covers the path; case is ignored if it may be folded."""
    return covers(pattern, path, fold=_DENY_FOLDS)


_MOST_KNOWN = 4_096


@dataclass(frozen=True, slots=True)
class Rules:
    """What one member may do with one toolset.

    The directory lists hold globs of paths from the root; each covers everything below it too. The
    extension lists hold `py`, `.py` or `tar.gz`, compared with their case; `""` stands for a name
    without extension, and `.env` has both none and the extension `env`. `state_dir` is copydesk's
    own folder at the root. `within` is "" for the whole workspace except reserved paths, or the one
    reserved directory at the root that these rules are for.
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
    _known: dict[tuple[Operation, tuple[str, ...]], str] = field(
        default_factory=dict[tuple[Operation, tuple[str, ...]], str],
        init=False,
        compare=False,
        repr=False,
    )

    def team_mgmt(self) -> Rules:
        """The same member's rules for team_mgmt: `.minds` without the denied paths."""
        return replace(
            self,
            read_dirs=(),
            write_dirs=(),
            read_file_ext_names=(),
            write_file_ext_names=(),
            within=TEAM_DIR,
        )

    def check(self, operation: Operation, *paths: RelPath) -> None:
        """Raise AccessDenied, naming the rule, unless all these files are allowed."""
        for path in paths:
            try:  # without a call: rights are asked for often
                rule = self._known[operation, path.parts]
            except KeyError:
                rule = self.rule_against(operation, path)
            if rule:
                raise AccessDenied(operation, rule)

    def check_walk(self, *paths: RelPath) -> None:
        """Raise AccessDenied unless all these directories may be listed or searched."""
        for path in paths:
            if rule := self._rule_against_walk(path):
                raise AccessDenied("read", rule)

    def check_glob(self, glob: str, *, fold: bool = False) -> None:
        """Raise AccessDenied for a .gitignore glob that explicitly names what may not be read.

        Broad wildcards that merely match it (`**/*.py`) are allowed; they find nothing there.
        """
        if glob.startswith("!"):
            return
        for plain in alternatives(glob):
            if rule := self._rule_against_glob(plain, fold=fold):
                raise AccessDenied("read", rule)

    def allows_read(self, path: RelPath) -> bool:
        try:
            return not self._known["read", path.parts]
        except KeyError:
            return not self.rule_against("read", path)

    def allows_walk(self, path: RelPath) -> bool:
        """Whether the directory may be listed: something in it might be readable."""
        return not self._rule_against_walk(path)

    def rule_against(self, operation: Operation, path: RelPath) -> str:
        """The rule that forbids the operation; empty if none does.

        It is recorded, since a call asks for the same few paths repeatedly.
        """
        suffixes = f"{operation}_file_ext_names"
        rule = (
            self._reserved(path)
            or self._denied(f"no_{operation}_dirs", lambda glob: guards(glob, path))
            or self._denied(f"no_{suffixes}", lambda name: _has_extension(path, name))
            or self._not_allowed(suffixes, lambda name: _has_extension(path, name))
            or self._not_allowed(f"{operation}_dirs", lambda glob: covers(glob, path))
        )
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[operation, path.parts] = rule
        return rule

    def _rule_against_walk(self, path: RelPath) -> str:
        return (
            self._reserved(path)
            or self._denied("no_read_dirs", lambda glob: guards(glob, path))
            or self._not_allowed("read_dirs", lambda glob: reaches(glob, path))
        )

    def _rule_against_glob(self, glob: str, *, fold: bool) -> str:
        top, folds = glob_roots(glob), fold or _DENY_FOLDS
        is_readable = not top.parts or self.allows_read(top)
        rule = (
            ("" if is_readable else self._rule_against_walk(top))
            or self._reserved_by(lambda pattern: names(glob, pattern, fold=True))
            or self._denied("no_read_dirs", lambda denied: names(glob, denied, fold=folds))
        )
        if rule or glob.endswith("/"):
            return rule
        last = (glob.casefold() if fold else glob).rsplit("/", 1)[-1]
        end = re.split(r"[*?\]]", last)[-1].replace("\\", "")  # every name that it matches ends so
        return self._denied(
            "no_read_file_ext_names",
            lambda name: name != "" and end.endswith("." + name.removeprefix(".")),
        )

    def _reserved(self, path: RelPath) -> str:
        if self.within and path.parts[:1] != (self.within,):
            return f"outside: {self.within}/**"
        return self._reserved_by(lambda pattern: covers(pattern, path, fold=True))

    def _reserved_by(self, meets: Callable[[str], bool]) -> str:
        """The reserved path that meets; a toolset's own directory is not reserved for itself."""
        met = (
            f"reserved: {pattern}" + "/**" * (pattern != CONFIG)
            for pattern in (*_RESERVED, self.state_dir)
            if pattern != self.within and meets(pattern)
        )
        return next(met, "")

    def _denied(self, list_name: str, meets: Callable[[str], bool]) -> str:
        denied: tuple[str, ...] = getattr(self, list_name)
        return next((f"{list_name}: {entry}" for entry in denied if meets(entry)), "")

    def _not_allowed(self, list_name: str, meets: Callable[[str], bool]) -> str:
        allowed: tuple[str, ...] = getattr(self, list_name)
        is_allowed = not allowed or any(map(meets, allowed))
        return "" if is_allowed else f"{list_name}: {', '.join(allowed)}"


def _has_extension(path: RelPath, extension: str) -> bool:
    extension = extension.removeprefix(".")
    if not extension:
        return "." not in path.name.lstrip(".").rstrip(".")
    return path.name.endswith("." + extension)
