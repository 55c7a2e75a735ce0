"""The configuration: `copydesk.toml` or `[tool.copydesk]`, then the environment, then flags.

An unknown key or a value of the wrong type is a `ConfigError` that names it.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import re
import shlex
import threading
import time
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args, get_origin, get_type_hints

from copydesk.desk.member import Approver, Policy
from copydesk.edit.kinds.correction import SIGN_NAMES
from copydesk.errors import ConfigInvalid, InvalidArgs, Refusal
from copydesk.store.access import Rules, covers, guards
from copydesk.store.checks import SYNTAX, Mode, Rule
from copydesk.store.threads import held_at_fork
from copydesk.text import sizes
from copydesk.text.encoding import checked_name
from copydesk.text.relpath import RelPath
from copydesk.tools.report import ANSWER_TOKENS

FILES = ("copydesk.toml", "pyproject.toml")
"""The files that may hold settings; the first one that has any is used."""

TOOLSETS = ("ws_mod", "batch", "notes", "team_mgmt", "compat", "patch", "edit")

PERSON, AGENT = "local", "agent"
"""The default members: at a terminal, and for an agent's client."""

_LONGEST_NAME = 100
_log = logging.getLogger("copydesk")


_Reader = Callable[[object, str], Any]
"""Reads the value of a key; raises ConfigError, which names the key."""


class ConfigError(Exception):
    """The configuration cannot be used; the message names the file and the key."""


# A field's annotation says how its key is read: by the reader in `Annotated` (of those below, as
# annotations are looked up at the first load), else by its type: see `_read`.


LONG_TOKEN = 16
"""A token of so many characters cannot be guessed; a right one is accepted despite wrong ones."""


@dataclass(frozen=True, slots=True)
class MemberConfig:
    """One member: its access lists, its bearer token, whether it has team_mgmt.

    `auto_lines`: the most lines of an edit that it writes without showing it first. `apply` is the
    default of that argument in its calls, "" for that of all members. `approval` says who approves
    what it writes; `approval_paths` are exceptions, pairs of a glob and an approver, of which the
    last match decides. The member may itself approve `self_lines` and `self_files`, of one
    transaction and of what it writes within a minute; None is unlimited.
    """

    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    token: str | None = None
    team_mgmt: bool = False
    auto_lines: Annotated[int | None, _count] = None
    apply: Literal["never", "auto", ""] = ""
    approval: Approver = "self"
    approval_paths: Annotated[tuple[tuple[str, Approver], ...], _approval_paths] = ()
    self_lines: Annotated[int | None, _count] = None
    self_files: Annotated[int | None, _count] = None

    @property
    def policy(self) -> Policy:
        """The approval policy in the form that the desk uses."""
        return Policy(
            self.approval,
            tuple(
                (_covering(glob, guards if who == "human" else covers), who)
                for glob, who in self.approval_paths
            ),
            self.self_lines,
            self.self_files,
        )


@dataclass(frozen=True, slots=True)
class NotesConfig:
    """Where notes are: in a SiYuan kernel if there is a URL, otherwise in files.

    `notebooks` are folders below the root, each a notebook; `profile` is the Markdown dialect, that
    of GitHub or SiYuan. `exclude` are lines as in a `.gitignore` of the root; what they match is
    left out. With `gitignore`, so are `node_modules` and what the `.gitignore` files match.
    """

    notebooks: Annotated[tuple[str, ...], _folders] = (".",)
    profile: Literal["gfm", "siyuan"] = "gfm"
    exclude: tuple[str, ...] = ()
    gitignore: bool = True
    siyuan_url: str = ""
    siyuan_token: str = ""


@dataclass(frozen=True, slots=True)
class Config:
    """All settings.

    `member` is the default calling member, `task` the label of its task, `toolsets` those that a
    server offers, `lang` the language of messages. `durability`: whether writes are flushed to the
    disk, or only atomic. `elicitation`: whether the user of an MCP client can decide on a plan in
    the client, or is only informed. `apply` is the default of that argument. The text of an answer
    takes about `answer_tokens`; `structured`: MCP answers carry the data for programs as well.

    `ttl_seconds` is the life of plans; one that a person has to approve lives for
    `approval_ttl_seconds` if that is longer. `limit_bytes` is the size of the largest file to edit;
    `whole_bytes` of those that must be loaded whole: for a batch of edits, an overwrite, a file
    with several names, an edit of very many or very long lines. `bases_bytes` limits the stored
    base texts. Edits stay in the journal for `journal_days`, and as far as `journal_bytes` allow.
    `lock_seconds` is how long a call waits for a file that others work on.

    `corrections`: whether an edit whose old text has another indentation is written at once, or
    planned. `usual_signs` are signs of a faulty new text (`SIGN_NAMES`) that the project's files
    really have. `encodings` are pairs of a glob and a codec name; the last that matches counts.

    `state` is the folder of copydesk's own files, below the root. `registry` is where plans,
    decisions and the journal are: there, or on the server at `redis_url` under `registry_name`,
    empty for a name derived from the root's path. `trusted_proxies` are addresses and networks
    whose X-Forwarded-For is trusted. `checks` are run before a file is written.

    `source` is the file that has the settings, or "defaults"; `reload` reads them again.
    """

    member: str = PERSON
    task: Annotated[str, _task] = ""
    members: Annotated[Mapping[str, MemberConfig], _members] = field(
        default_factory=dict[str, MemberConfig]
    )
    toolsets: tuple[Annotated[str, _one_of(*TOOLSETS)], ...] = ("ws_mod",)
    lang: Literal["en", "zh"] = "en"
    durability: Literal["full", "fast"] = "full"
    elicitation: Literal["decide", "tell"] = "decide"
    apply: Literal["never", "auto"] = "never"
    answer_tokens: Annotated[int, _up_to(1_000_000)] = ANSWER_TOKENS
    structured: bool = False
    ttl_seconds: Annotated[int, _up_to(10 * 366 * 86_400)] = 3600
    approval_ttl_seconds: Annotated[int, _up_to(10 * 366 * 86_400)] = 7 * 86_400
    limit_bytes: Annotated[int, _up_to(1 << 50)] = 8 << 30
    whole_bytes: Annotated[int, _up_to(1 << 50)] = sizes.WHOLE
    bases_bytes: Annotated[int, _up_to(1 << 50)] = 64 << 20
    journal_days: Annotated[int, _up_to(36_600)] = 90
    journal_bytes: Annotated[int, _up_to(1 << 50)] = 512 << 20
    lock_seconds: Annotated[int, _up_to(3_600)] = 10
    corrections: Literal["auto", "plan"] = "auto"
    usual_signs: tuple[Annotated[str, _one_of(*SIGN_NAMES)], ...] = ()
    encodings: Annotated[tuple[tuple[str, str], ...], _encodings] = ()
    state: Annotated[str, _folder_name] = ".copydesk"
    registry: Literal["sqlite", "redis"] = "sqlite"
    redis_url: Annotated[str, _url] = ""
    registry_name: Annotated[str, _registry_name] = ""
    trusted_proxies: tuple[Annotated[str, _network], ...] = ()
    notes: NotesConfig = NotesConfig()
    checks: Annotated[tuple[Rule, ...], _checks] = ()
    source: str = "defaults"
    reload: Callable[[], Config] | None = field(default=None, compare=False, repr=False)

    def of_member(self, name: str) -> MemberConfig:
        """A member's settings; a member that is not listed has the defaults."""
        return self.members.get(name, MemberConfig())

    def for_agents(self) -> Config:
        """Make `agent` the caller if that member is declared and `member` is not set."""
        is_free = self.member == PERSON and AGENT in self.members
        return replace(self, member=AGENT) if is_free else self

    def encoding_of(self, path: RelPath) -> str | None:
        """The codec configured for a path; the last matching glob wins."""
        codecs = (codec for glob, codec in self.encodings[::-1] if _covering(glob)(path))
        return next(codecs, None)


VARIABLES = {
    f"COPYDESK_{setting.name.upper()}": setting.name
    for setting in fields(Config)
    if setting.name == "toolsets"
    or (isinstance(setting.default, str | int) and setting.name != "source")
}
"""The environment variables, each with the setting that it gives: a single value, or `toolsets`."""


def load(root: str, environ: Mapping[str, str] | None = None) -> Config:
    """The configuration of the workspace at `root`; raises ConfigError."""
    environ = os.environ if environ is None else environ
    config = Config()
    for name in FILES:
        data = _table(Path(root) / name)
        if data is not None:
            config = replace(_merged(config, data, name), source=name)
            break
    for variable, key in VARIABLES.items():
        if text := environ.get(variable):
            config = _merged(config, {key: _from_text(key, text)}, f"the environment, {variable}")
    if config.registry == "redis" and not config.redis_url:
        raise ConfigError(f'{config.source}: registry = "redis" needs redis_url, its address')
    notes = replace(
        config.notes,
        siyuan_url=environ.get("SIYUAN_URL") or config.notes.siyuan_url,
        siyuan_token=environ.get("SIYUAN_TOKEN") or config.notes.siyuan_token,
    )
    return replace(config, notes=notes, reload=partial(load, root, environ))


_SECOND = 10**9
_SETTLED_NS = 50_000_000
"""A file whose ctime is older cannot change and keep its stamp: clocks tick some milliseconds."""

_Stamp = tuple[int, int, int, int, int]
"""The state of a file, another one after every change: device, inode, size, mtime, ctime (ns)."""


class LiveConfig:
    """A configuration that reloads its members when its file changes (`now`). Thread-safe.

    Invariant: while the file is invalid, nobody has any rights.
    """

    def __init__(self, root: str, config: Config) -> None:
        self._paths = [os.path.join(root, name) for name in FILES]
        self._lock = held_at_fork(threading.Lock())
        self.last = config
        """The last valid configuration."""
        self._loaded: Config | None = None
        self._stamps: tuple[_Stamp | None, ...] = ()
        self._error = ""

    def now(self) -> Config:
        """The current configuration; raises ConfigInvalid while its file is invalid."""
        if self.last.reload is None:
            return self.last
        with self._lock:
            stamps = _stamps(self._paths)  # before the file is read, so later writes differ
            if stamps != self._stamps:
                self._read(stamps)
            if self._error:
                raise ConfigInvalid(reason=self._error)
            return self.last

    def _read(self, stamps: tuple[_Stamp | None, ...]) -> None:
        changed_ns = max((ctime_ns for *_, ctime_ns in filter(None, stamps)), default=0)
        # a time without a fraction may be that of a file system which keeps whole seconds
        tick = _SETTLED_NS if changed_ns % _SECOND else 2 * _SECOND
        is_settled = time.time_ns() - changed_ns > tick
        self._stamps = stamps if is_settled else ()  # else it is read again
        try:
            assert self.last.reload is not None
            new = self.last.reload()
            if new != self._loaded:
                self._take(new)
            self._error = ""
        except ConfigError as error:
            self._error = str(error)

    def _take(self, new: Config) -> None:
        """Take over the members; other changes need a restart."""
        # The file that gave the rights is gone, and a weaker one or none is left. A copydesk.toml
        # may take over from a pyproject.toml, before which it goes.
        if self.last.source not in ("defaults", new.source) and new.source != FILES[0]:
            raise ConfigError(
                f"{self.last.source}: the file, or what it says of copydesk, is gone; put it back, "
                "or start copydesk again to go on without it"
            )
        before = self._loaded or new
        changed = [
            setting.name
            for setting in fields(Config)
            if setting.name not in ("members", "source", "reload")
            and getattr(new, setting.name) != getattr(before, setting.name)
        ]
        if names := ", ".join(changed):
            _log.warning("%s: %s changed; restart copydesk to use it", new.source, names)
        gone = {  # unlisted members have all rights; removing a section must not give more
            name: replace(settings, token=None)
            for name, settings in self.last.members.items()
            if name not in new.members
        }
        listed = (self._loaded or self.last).members
        if names := ", ".join(name for name in gone if name in listed):
            _log.warning("%s: %s removed; limits hold until a restart", new.source, names)
        self._loaded = new
        self.last = replace(self.last, members={**gone, **new.members}, source=new.source)


def _stamps(paths: Iterable[str]) -> tuple[_Stamp | None, ...]:
    stamps: tuple[_Stamp | None, ...] = ()
    for path in paths:
        try:
            at = os.stat(path)
            stamps += ((at.st_dev, at.st_ino, at.st_size, at.st_mtime_ns, at.st_ctime_ns),)
        except (FileNotFoundError, NotADirectoryError):
            stamps += (None,)
        except OSError:  # reading the file will report it
            stamps += ((0, 0, 0, 0, time.time_ns()),)
    return stamps


def _from_text(key: str, text: str) -> object:
    if key == "toolsets":
        return [part.strip() for part in text.split(",") if part.strip()]
    usual = getattr(Config(), key)
    if isinstance(usual, bool):
        return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)
    digits = text.isascii() and text.isdigit() and len(text) < 20
    return int(text) if digits and isinstance(usual, int) else text


def dig(value: object, keys: Sequence[str]) -> object:
    """The value under the keys; None if there is none."""
    for key in keys:
        if not isinstance(value, Mapping):
            return None
        value = cast("Mapping[str, object]", value).get(key)
    return value


def _table(path: Path) -> Mapping[str, object] | None:
    """The settings in a file; None if it has none."""
    is_project = path.name == "pyproject.toml"
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
        if is_project and "copydesk" not in text:
            return None  # a broken project file without settings for copydesk
        raise ConfigError(f"{path.name}: is not valid TOML: {error}") from None
    settings = dig(data, ("tool", "copydesk")) if is_project else data
    if not isinstance(settings, Mapping | None):
        raise ConfigError(f"{path.name}: tool.copydesk must be a table")
    return cast("Mapping[str, object] | None", settings)


def _merged(config: Config, data: Mapping[str, object], source: str) -> Config:
    """The configuration with these settings replaced; `source` is where they are from."""
    try:
        return replace(config, **_fields(_kinds(Config), data))
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from None


def _kinds(table: type) -> dict[str, Any]:
    """The types of a dataclass's fields that are settings of that name."""
    hints = get_type_hints(table, include_extras=True)
    return {name: hints[name] for name in hints if name not in ("lists", "source", "reload")}


def _fields(
    kinds: Mapping[str, Any], data: Mapping[str, object], where: str = ""
) -> dict[str, Any]:
    """The values of a table, each read as the type of its key."""
    values: dict[str, Any] = {}
    for name, value in data.items():
        key = f"{where}.{name}" if where else name
        if name not in kinds:
            shown = key if where else repr(name)
            raise ConfigError(f"there is no key {shown}{perhaps(name, kinds)}")
        values[name] = _read(kinds[name], value, key)
    return values


def _read(kind: Any, value: object, key: str) -> object:
    """Read a value as this type, or by the reader in `Annotated`; ConfigError names the key."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return parts[1](value, key)
    if origin is Literal:
        return _one_of(*parts)(value, key)
    if origin is tuple:
        return tuple(_read(parts[0], each, key) for each in _list(value, key))
    if is_dataclass(kind):
        table = cast(type, kind)
        return table(**_fields(_kinds(table), _mapping(value, key), key))
    return (_flag if kind is bool else _text)(value, key)


_LISTS = tuple(each.name for each in fields(Rules) if each.name not in ("state_dir", "within"))


def _members(value: object, key: str) -> Mapping[str, MemberConfig]:
    kinds = {**_kinds(MemberConfig), **dict.fromkeys(_LISTS, tuple[str, ...])}
    members: dict[str, MemberConfig] = {}
    owners: dict[str, str] = {}
    for name, settings in _mapping(value, key).items():
        where = f"{key}.{name}"
        given = _fields(kinds, _mapping(settings, where), where)
        lists = {each: given.pop(each) for each in _LISTS if each in given}
        members[name] = member = MemberConfig(lists, **given)
        if member.token is not None and owners.setdefault(member.token, name) != name:
            raise ConfigError(f"{where}.token is also the token of {key}.{owners[member.token]}")
    return members


def _folders(value: object, key: str) -> tuple[str, ...]:
    """The normalized paths of folders below the root."""
    try:
        folders = tuple(str(RelPath.parse(each)) for each in _texts(value, key))
    except Refusal:
        raise ConfigError(f"{key} must name folders below the root") from None
    if not folders or len(set(folders)) < len(folders):
        raise ConfigError(f"{key} must name folders, each once")
    return folders


def _codec(value: object, key: str) -> str:
    try:
        return checked_name(_text(value, key))
    except InvalidArgs as refusal:
        raise ConfigError(f"{key}: {refusal.reason}") from None


def _by_glob(read: _Reader) -> _Reader:
    return lambda value, key: tuple(
        (glob, read(item, f'{key}."{glob}"')) for glob, item in _mapping(value, key).items()
    )


def _texts(value: object, key: str) -> tuple[str, ...]:
    return tuple(_text(each, key) for each in _list(value, key))


def _one_of(*allowed: str) -> _Reader:
    return _such(lambda value: value in allowed, f"be one of {', '.join(allowed)}")


def _up_to(most: int) -> _Reader:
    says = f"be a whole number from 1 to {most}"
    return _such(lambda value: _is_count(value) and 0 < value <= most, says)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _like(pattern: str, says: str) -> _Reader:
    """A reader of texts that never shows a wrong one, since a URL may contain a password."""
    return lambda value, key: _such(partial(re.fullmatch, pattern), says)(_text(value, key), key)


def _such(test: Callable[[Any], object], says: str) -> _Reader:
    """A reader of values that pass the test; one for which it raises ValueError does not."""

    def read(value: object, key: str) -> Any:
        with suppress(ValueError):
            if test(value):
                return value
        raise ConfigError(f"{key} must {says}")

    return read


_count = _such(_is_count, "be a whole number, 0 or more")
_flag = _such(lambda value: isinstance(value, bool), "be true or false")
_text = _such(lambda value: isinstance(value, str) and value, "be a string that is not empty")
_list = _such(lambda value: isinstance(value, list), "be a list of strings")
_mapping = _such(lambda value: isinstance(value, Mapping), "be a table")
_network = _such(
    lambda value: isinstance(value, str) and ipaddress.ip_network(value),
    "name addresses or networks",
)
_approval_paths = _by_glob(_one_of(*get_args(Approver)))
_encodings = _by_glob(_codec)
_folder_name = _like(r"(?!\.{1,2}$)[^/\\\0]+", "be the name of a folder in the root")
_task = _like(r"[^\x00-\x1f\x7f\x85\u2028\u2029]{0,200}", "be one line of at most 200 characters")
_registry_name = _like(r"[\w.-]{1,100}", "be of letters, digits, and _ . -")
_url = _like(r"(redis|rediss|unix)://.*", "begin with one of redis://, rediss://, unix://")


def _checks(value: object, key: str) -> tuple[Rule, ...]:
    """The checks by glob: each is a name, a command, a table, or a list of these."""
    return tuple(
        _check(each, glob, f'{key}."{glob}"')
        for glob, given in _mapping(value, key).items()
        for each in (cast("list[object]", given) if isinstance(given, list) else [given])
    )


def _check(value: object, glob: str, where: str) -> Rule:
    given: dict[str, object] = {} if value == SYNTAX else {"command": value}
    if isinstance(value, Mapping):
        given = dict(cast("Mapping[str, object]", value))
    command = given.get("command", [])
    if isinstance(command, str):
        try:
            command = shlex.split(command)
        except ValueError as error:
            raise ConfigError(f"{where}.command: {error}") from None
    words = _texts(command, f"{where}.command")
    if "command" in given and not words:
        raise ConfigError(f"{where}.command must not be empty")
    given["command"] = list(words)
    given.setdefault("name", os.path.basename(words[0]) if words else SYNTAX)
    rule = Rule(glob, **_fields(_CHECK, given, where))
    if bool(words) == (rule.name == SYNTAX):
        raise ConfigError(f"{where} needs a command, or no name: {SYNTAX} is the one without")
    if sum(word.count("{files}") for word in words) != words.count("{files}"):
        raise ConfigError(f"{where}.command: {{files}} must be an argument of its own")
    return rule


_CHECK = {
    "name": str,
    "command": tuple[str, ...],
    "mode": Mode,
    "required": bool,
    "seconds": Annotated[int, _up_to(600)],
}
"""The keys of one check."""


def _covering(
    glob: str, covers: Callable[[str, RelPath], bool] = covers
) -> Callable[[RelPath], bool]:
    """The predicate for a glob; a bare name matches at any depth."""
    anywhere = glob if "/" in glob else f"**/{glob}"
    return lambda path: covers(anywhere, path)


def perhaps(name: str, known: Iterable[str]) -> str:
    """`; did you mean a or b?`, or empty if no name is close."""
    from difflib import get_close_matches  # only imported after a mistake

    close = get_close_matches(name[:_LONGEST_NAME], list(known), n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(close)}?" if close else ""
