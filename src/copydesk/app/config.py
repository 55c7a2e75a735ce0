"""The configuration: `copydesk.toml` or `[tool.copydesk]`, then the environment, then flags.

An unknown key or a value of the wrong kind is a `ConfigError` that names it.
"""

from __future__ import annotations

import hashlib
import ipaddress
import logging
import os
import re
import threading
import time
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

from copydesk.desk.member import Approver, Policy
from copydesk.errors import ConfigInvalid, InvalidArgs, Refusal
from copydesk.store.access import covers
from copydesk.text import sizes
from copydesk.text.encoding import checked_name
from copydesk.text.relpath import RelPath

FILES = ("copydesk.toml", "pyproject.toml")
"""The files that may hold settings; the first that has some is used."""

TOOLSETS = ("ws_mod", "batch", "notes", "team_mgmt", "compat")
_LISTS = (
    "read_dirs",
    "write_dirs",
    "no_read_dirs",
    "no_write_dirs",
    "read_file_ext_names",
    "write_file_ext_names",
    "no_read_file_ext_names",
    "no_write_file_ext_names",
)
_APPROVERS = ("self", "human")
_COUNTS = ("auto_lines", "self_lines", "self_files")
_MOST = {
    "ttl_seconds": 10 * 366 * 86_400,
    "limit_bytes": 1 << 50,
    "whole_bytes": 1 << 50,
    "bases_bytes": 1 << 50,
    "journal_days": 36_600,
    "lock_seconds": 3_600,
    "journal_bytes": 1 << 50,
}
"""The numeric settings, and the highest value of each."""

_FROM_ENVIRONMENT = (
    "member",
    "lang",
    "durability",
    "elicitation",
    "toolsets",
    "state",
    "registry",
    "redis_url",
    "registry_name",
    *_MOST,
)

_LONGEST_NAME = 100
_log = logging.getLogger("copydesk")

_SCHEMES = ("redis://", "rediss://", "unix://")
_NAME = re.compile(r"[\w.-]{1,100}")

VARIABLES = tuple(f"COPYDESK_{key.upper()}" for key in _FROM_ENVIRONMENT)
"""The environment variables that are settings."""


class ConfigError(Exception):
    """The configuration cannot be used; the message names the file and the key."""


@dataclass(frozen=True, slots=True)
class MemberConfig:
    """One member: its access lists, its bearer token, whether it has team_mgmt.

    `auto_lines`: the most lines of an edit that it writes without showing it first.
    `approval` is who approves what it writes, `approval_paths` are exceptions, pairs of
    a glob and who approves there, the last that matches deciding. It may itself approve
    `self_lines` of one edit and `self_files` of one transaction; None for any number.
    """

    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    token: str | None = None
    team_mgmt: bool = False
    auto_lines: int | None = None
    approval: Approver = "self"
    approval_paths: tuple[tuple[str, Approver], ...] = ()
    self_lines: int | None = None
    self_files: int | None = None

    @property
    def policy(self) -> Policy:
        """Who approves, in the form that the desk uses."""
        return Policy(
            self.approval,
            tuple((_covering(glob), who) for glob, who in self.approval_paths),
            self.self_lines,
            self.self_files,
        )


@dataclass(frozen=True, slots=True)
class NotesConfig:
    """Where notes are: in a SiYuan kernel, when there is a URL, else in files.

    `notebooks` are folders below the root, each a notebook; `profile` is how their
    Markdown is read, as GitHub does or as SiYuan does.
    """

    notebooks: tuple[str, ...] = (".",)
    profile: Literal["gfm", "siyuan"] = "gfm"
    siyuan_url: str = ""
    siyuan_token: str = ""


@dataclass(frozen=True, slots=True)
class Config:
    """All settings. `ttl_seconds` of plans, `limit_bytes` of a file that is edited.

    `whole_bytes` bounds a file that must be loaded whole: a batch of edits, an
    overwrite, a file with several names, an edit of very many or very long lines.

    `member` is the calling member by default. `encodings` are pairs of a
    glob and a codec name. `state` is the folder of copydesk's own files, below
    the root. `bases_bytes` bounds what is remembered of texts. `elicitation`: whether
    the user of an MCP client can decide on a plan in the client, or is only told of it.

    `lock_seconds` is how long a call waits for a file that others work on.

    `registry` is where plans, decisions and the journal are: in the state folder, or on
    the server at `redis_url` under `registry_name`, empty for a name made of the root's path.
    `trusted_proxies` are addresses and networks whose X-Forwarded-For is believed.
    """

    member: str = "local"
    members: Mapping[str, MemberConfig] = field(default_factory=dict[str, MemberConfig])
    toolsets: tuple[str, ...] = ("ws_mod",)
    lang: Literal["en", "zh"] = "en"
    durability: Literal["full", "fast"] = "full"
    elicitation: Literal["decide", "tell"] = "decide"
    ttl_seconds: int = 3600
    limit_bytes: int = 8 << 30
    whole_bytes: int = sizes.WHOLE
    bases_bytes: int = 64 << 20
    journal_days: int = 90
    journal_bytes: int = 512 << 20
    lock_seconds: int = 10
    encodings: tuple[tuple[str, str], ...] = ()
    state: str = ".copydesk"
    registry: Literal["sqlite", "redis"] = "sqlite"
    redis_url: str = ""
    registry_name: str = ""
    trusted_proxies: tuple[str, ...] = ()
    notes: NotesConfig = NotesConfig()
    source: str = "defaults"
    reload: Callable[[], Config] | None = field(default=None, compare=False, repr=False)

    def of_member(self, name: str) -> MemberConfig:
        """A member's settings; one that is not listed has the defaults."""
        return self.members.get(name, MemberConfig())

    def encoding_of(self, path: str) -> str | None:
        """The codec configured for a path; the last matching glob wins."""
        found = [codec for glob, codec in self.encodings if _matches(path, glob)]
        return found[-1] if found else None


def load(root: str, environ: Mapping[str, str] | None = None) -> Config:
    """The configuration of the workspace at `root`; raises ConfigError."""
    environ = os.environ if environ is None else environ
    config = Config()
    for name in FILES:
        data = _table(Path(root) / name)
        if data is not None:
            config = replace(_merged(config, data, name), source=name)
            break
    for key, variable in zip(_FROM_ENVIRONMENT, VARIABLES, strict=True):
        text = environ.get(variable)
        if text:
            found = _value(key, _from_text(key, text), f"the environment, {variable}")
            config = replace(config, **{key: found})  # type: ignore[arg-type]
    if config.registry == "redis" and not config.redis_url:
        raise ConfigError(f'{config.source}: registry = "redis" needs redis_url, its address')
    notes = _notes_from(environ, config.notes)
    return replace(config, notes=notes, reload=partial(load, root, environ))


_SETTLED_NS = 3_000_000_000
"""A file changed longer ago cannot change again with the same times; some disks count seconds."""

_Stamp = tuple[int, int, int, int, int]


class LiveConfig:
    """A configuration whose members are reloaded when its file changes. Thread-safe.

    `now` looks at the file (a `stat`) and reads it when it changed. All other settings stay as
    they were at the start. Invariant: while the file cannot be used, nobody has any rights.
    """

    def __init__(self, root: str, config: Config) -> None:
        self._paths = [os.path.join(root, name) for name in FILES]
        self._lock = threading.Lock()
        self.last = config
        """The last valid configuration."""
        self._loaded: Config | None = None
        self._stamps: tuple[_Stamp | None, ...] = ()
        self._digest = b""
        self._error = ""

    def now(self) -> Config:
        """The current configuration; raises ConfigInvalid while its file is invalid."""
        with self._lock:
            if self.last.reload is not None:
                self._look()
            if self._error:
                raise ConfigInvalid(reason=self._error)
            return self.last

    def _look(self) -> None:
        stamps = tuple(map(_stamp, self._paths))  # before the reading: later writes differ
        if stamps == self._stamps and all(map(_is_settled, stamps)):
            return
        digest = b"".join(map(_digest, self._paths))
        self._stamps = stamps
        if digest == self._digest and not self._error:
            return
        self._digest = digest
        try:
            assert self.last.reload is not None
            self._take(self.last.reload())
        except ConfigError as error:
            self._error = str(error)

    def _take(self, found: Config) -> None:
        """Take over the members; other changes need a restart."""
        if self.last.source not in ("defaults", found.source) and found.source != FILES[0]:
            raise ConfigError(
                f"{self.last.source}: the file, or what it says of copydesk, is gone; put it back, "
                "or start copydesk again to go on without it"
            )
        live = ("members", "source", "reload")
        fixed = [each.name for each in fields(Config) if each.name not in live]
        before = self._loaded or found
        changed = [name for name in fixed if getattr(found, name) != getattr(before, name)]
        if changed:
            names = ", ".join(changed)
            _log.warning("%s: %s changed; restart copydesk to use it", found.source, names)
        self._loaded, self._error = found, ""
        self.last = replace(self.last, members=found.members, source=found.source)


def _stamp(path: str) -> _Stamp | None:
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:  # reading the file will report it
        return (0, 0, 0, 0, time.time_ns())
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _is_settled(stamp: _Stamp | None) -> bool:
    """Whether the stamp shows all changes: right after a write another may get the same time."""
    return stamp is None or time.time_ns() - max(stamp[3:]) > _SETTLED_NS


def _digest(path: str) -> bytes:
    try:
        return hashlib.sha256(Path(path).read_bytes()).digest()
    except OSError as error:
        return str(error.errno).encode()


def _notes_from(environ: Mapping[str, str], notes: NotesConfig) -> NotesConfig:
    """The notes settings, with the kernel that the environment names."""
    url, token = environ.get("SIYUAN_URL", ""), environ.get("SIYUAN_TOKEN", "")
    return replace(
        notes, siyuan_url=url or notes.siyuan_url, siyuan_token=token or notes.siyuan_token
    )


def _from_text(key: str, text: str) -> object:
    if key == "toolsets":
        return [part.strip() for part in text.split(",") if part.strip()]
    digits = text.isascii() and text.isdigit() and len(text) < 20
    return int(text) if key in _MOST and digits else text


def _table(path: Path) -> Mapping[str, object] | None:
    """The settings in a file; None when it has none."""
    project = path.name == "pyproject.toml"
    try:
        text = path.read_text("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):  # root is not a directory; reported elsewhere
        return None
    except OSError as error:
        raise ConfigError(f"{path.name}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path.name}: is not UTF-8 (byte {error.start})") from None
    try:
        data: dict[str, object] = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        if project and "copydesk" not in text:
            return None  # a project file that is broken, but says nothing of copydesk
        raise ConfigError(f"{path.name}: is not valid TOML: {error}") from None
    if not project:
        return data
    tool = data.get("tool")
    if not isinstance(tool, Mapping) or "copydesk" not in tool:
        return None
    return _mapping(cast("Mapping[str, object]", tool)["copydesk"], "tool.copydesk", path.name)


def _merged(config: Config, data: Mapping[str, object], source: str) -> Config:
    for key, value in data.items():
        config = replace(config, **{key: _value(key, value, source)})  # type: ignore[arg-type]
    return config


def _value(key: str, value: object, source: str) -> object:
    if key in ("member", "state"):
        name = _text(value, key, source)
        bad = "/" in name or "\\" in name or "\0" in name or name in (".", "..")
        if key == "state" and bad:
            raise ConfigError(f"{source}: {key} must be the name of a folder in the root")
        return name
    if key == "lang":
        return _one_of(value, ("en", "zh"), key, source)
    if key == "registry":
        return _one_of(value, ("sqlite", "redis"), key, source)
    if key == "redis_url":
        return _url(value, key, source)
    if key == "registry_name":
        if not _NAME.fullmatch(_text(value, key, source)):
            raise ConfigError(f"{source}: {key} must be of letters, digits, and _ . -")
        return value
    if key == "trusted_proxies":
        return tuple(_network(each, key, source) for each in _texts(value, key, source))
    if key == "durability":
        return _one_of(value, ("full", "fast"), key, source)
    if key == "elicitation":
        return _one_of(value, ("decide", "tell"), key, source)
    if key == "toolsets":
        return tuple(_one_of(v, TOOLSETS, key, source) for v in _texts(value, key, source))
    if key in _MOST:
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= _MOST[key]:
            raise ConfigError(f"{source}: {key} must be a whole number from 1 to {_MOST[key]}")
        return value
    if key == "encodings":
        pairs = _mapping(value, key, source).items()
        return tuple((glob, _codec(codec, f'{key}."{glob}"', source)) for glob, codec in pairs)
    if key == "members":
        found = _mapping(value, key, source).items()
        members = {name: _member(v, f"{key}.{name}", source) for name, v in found}
        _check_tokens(members, source)
        return members
    if key == "notes":
        return _notes(value, source)
    keys = [each.name for each in fields(Config) if each.name not in ("source", "reload")]
    raise ConfigError(f"{source}: there is no key {key!r}{perhaps(key, keys)}")


def _check_tokens(members: Mapping[str, MemberConfig], source: str) -> None:
    """Refuse a token that two members share."""
    owners: dict[str, str] = {}
    for name, member in members.items():
        if member.token is not None:
            other = owners.setdefault(member.token, name)
            if other != name:
                message = f"members.{name}.token is also the token of members.{other}"
                raise ConfigError(f"{source}: {message}")


def _member(value: object, key: str, source: str) -> MemberConfig:
    lists: dict[str, tuple[str, ...]] = {}
    found: dict[str, Any] = {}
    for name, item in _mapping(value, key, source).items():
        if name in _LISTS:
            lists[name] = _texts(item, f"{key}.{name}", source)
        elif name == "token":
            found[name] = _text(item, f"{key}.{name}", source)
        elif name == "team_mgmt":
            if not isinstance(item, bool):
                raise ConfigError(f"{source}: {key}.team_mgmt must be true or false")
            found[name] = item
        elif name in _COUNTS:
            if not isinstance(item, int) or isinstance(item, bool) or item < 0:
                raise ConfigError(f"{source}: {key}.{name} must be a whole number, 0 or more")
            found[name] = item
        elif name == "approval":
            found[name] = _one_of(item, _APPROVERS, f"{key}.{name}", source)
        elif name == "approval_paths":
            pairs = _mapping(item, f"{key}.{name}", source).items()
            found[name] = tuple(
                (glob, _one_of(who, _APPROVERS, f'{key}.{name}."{glob}"', source))
                for glob, who in pairs
            )
        else:
            own = (*_LISTS, "token", "team_mgmt", "approval", "approval_paths", *_COUNTS)
            raise ConfigError(f"{source}: there is no key {key}.{name}{perhaps(name, own)}")
    return MemberConfig(lists, **found)


def _notes(value: object, source: str) -> NotesConfig:
    notes = NotesConfig()
    for name, item in _mapping(value, "notes", source).items():
        key = f"notes.{name}"
        if name == "notebooks":
            folders = tuple(_folder(each, key, source) for each in _texts(item, key, source))
            if not folders or len(set(folders)) < len(folders):
                raise ConfigError(f"{source}: {key} must name folders, each once")
            notes = replace(notes, notebooks=folders)
        elif name == "profile":
            found: Literal["gfm", "siyuan"] = "gfm"
            if _one_of(item, ("gfm", "siyuan"), key, source) == "siyuan":
                found = "siyuan"
            notes = replace(notes, profile=found)
        elif name == "siyuan_url":
            notes = replace(notes, siyuan_url=_text(item, key, source))
        elif name == "siyuan_token":
            notes = replace(notes, siyuan_token=_text(item, key, source))
        else:
            close = perhaps(name, [each.name for each in fields(NotesConfig)])
            raise ConfigError(f"{source}: there is no key {key}{close}")
    return notes


def _folder(text: str, key: str, source: str) -> str:
    """The normalized path of a folder below the root."""
    try:
        return str(RelPath.parse(text))
    except Refusal:
        raise ConfigError(f"{source}: {key} must name folders below the root") from None


def _url(value: object, key: str, source: str) -> str:
    """The URL of a server; a wrong one is not shown, since it may contain a password."""
    url = _text(value, key, source)
    if not url.startswith(_SCHEMES):
        raise ConfigError(f"{source}: {key} must begin with one of {', '.join(_SCHEMES)}")
    return url


def _network(text: str, key: str, source: str) -> str:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        raise ConfigError(f"{source}: {key} must name addresses or networks") from None
    return text


def _codec(value: object, key: str, source: str) -> str:
    try:
        return checked_name(_text(value, key, source))
    except InvalidArgs as refusal:
        raise ConfigError(f"{source}: {key}: {refusal.reason}") from None


def _text(value: object, key: str, source: str) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{source}: {key} must be a string that is not empty")
    return value


def _texts(value: object, key: str, source: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ConfigError(f"{source}: {key} must be a list of strings")
    return tuple(_text(item, key, source) for item in cast("list[object]", value))


def _one_of(value: object, allowed: tuple[str, ...], key: str, source: str) -> str:
    if not isinstance(value, str) or value not in allowed:
        raise ConfigError(f"{source}: {key} must be one of {', '.join(allowed)}")
    return value


def _mapping(value: object, key: str, source: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{source}: {key} must be a table")
    return cast("Mapping[str, object]", value)


def _matches(path: str, glob: str) -> bool:
    """Whether a glob covers a path: the path or a directory above it matches."""
    try:
        found = RelPath.parse(path)
    except Refusal:
        return False
    return _covering(glob)(found)


def _covering(glob: str) -> Callable[[RelPath], bool]:
    """The predicate of a glob; a bare name matches at any depth."""
    anywhere = glob if "/" in glob else f"**/{glob}"
    return lambda path: covers(anywhere, path)


def perhaps(name: str, known: Iterable[str]) -> str:
    """`; did you mean a or b?`, or nothing when no name is close."""
    from difflib import get_close_matches  # imported for mistakes only

    close = get_close_matches(name[:_LONGEST_NAME], list(known), n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(close)}?" if close else ""
