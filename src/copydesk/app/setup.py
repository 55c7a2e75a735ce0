"""Setting up copydesk in MCP clients: the known clients and the edits of their files."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, cast

from copydesk.app.config import AGENT, FILES, Config
from copydesk.app.config_text import (
    Unreadable,
    Value,
    dig,
    put_json,
    put_toml,
    read_json,
    read_toml,
    remove_json,
    remove_toml,
    tidy,
    without,
)
from copydesk.app.workspace import OpenWorkspace
from copydesk.desk.member import Member
from copydesk.desk.outcome import NotUndone
from copydesk.store.access import CONFIG, Rules
from copydesk.store.files import Files
from copydesk.store.protocol import TargetMoved
from copydesk.store.state import StateFolder
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot
from copydesk.text.unified import unified

SERVER: Final = "copydesk"
"""The name of the server in the clients' configuration."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Where this user's files are, and how copydesk is started here."""

    home: Path
    environ: Mapping[str, str]
    platform: str
    command: str
    first: tuple[str, ...] = ()
    """The words before `mcp`, as in `uvx copydesk mcp`."""

    @property
    def settings(self) -> Path:
        """The folder of the user's settings, for programs that follow the XDG rules."""
        return Path(self.environ.get("XDG_CONFIG_HOME") or self.home / ".config")

    @property
    def applications(self) -> Path:
        """The folder of the settings of desktop programs."""
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        return self.settings


Place = Callable[[Path, Machine], Path]


@dataclass(frozen=True, slots=True)
class Client:
    """A client: its file of servers, the keys above a server in it, how to recognize the client.

    `shared`: the file is in the workspace and has only the servers of that workspace. `traces` are
    files and folders, below the home or the root, that its users have; `root_text` stands for the
    workspace in a file that several people share.
    """

    name: str
    title: str
    file: Place
    keys: tuple[str, ...] = ("mcpServers",)
    form: Literal["json", "toml"] = "json"
    shared: bool = True
    more: tuple[tuple[str, str], ...] = ()
    traces: tuple[Place, ...] = ()
    root_text: str = ""

    def is_used(self, root: Path, machine: Machine) -> bool:
        """Whether the client has left files on the machine or in the workspace."""
        return any(os.path.lexists(place(root, machine)) for place in (self.file, *self.traces))

    def entry(
        self, root: Path, machine: Machine, member: str, *, portable: bool = False
    ) -> dict[str, Value]:
        """The entry that makes the client start the server; `member` "" for the configured one."""
        words = ["mcp", "--root", str(root), *(("--member", member) if member else ())]
        command, first = machine.command, machine.first
        if portable and self.shared:
            command, first = ("uvx", ("copydesk",)) if machine.command == "uvx" else (SERVER, ())
            words[1:3] = ["--root", self.root_text] if self.root_text else []
        return {**dict(self.more), "command": command, "args": [*first, *words]}


def _home(*parts: str) -> Place:
    return lambda root, machine: machine.home.joinpath(*parts)


def _root(*parts: str) -> Place:
    return lambda root, machine: root.joinpath(*parts)


def _applications(*parts: str) -> Place:
    return lambda root, machine: machine.applications.joinpath(*parts)


def _codex(*parts: str) -> Place:
    def place(root: Path, machine: Machine) -> Path:
        return Path(machine.environ.get("CODEX_HOME") or machine.home / ".codex", *parts)

    return place


CLIENTS: Final = (
    Client(
        "claude-code",
        "Claude Code",
        _root(".mcp.json"),
        traces=(_home(".claude"), _home(".claude.json"), _root(".claude"), _root("CLAUDE.md")),
        root_text="${CLAUDE_PROJECT_DIR:-.}",
    ),
    Client(
        "codex",
        "Codex",
        _codex("config.toml"),
        keys=("mcp_servers",),
        form="toml",
        shared=False,
        traces=(_codex(),),
    ),
    Client(
        "cursor",
        "Cursor",
        _root(".cursor", "mcp.json"),
        traces=(_home(".cursor"), _root(".cursor")),
        root_text="${workspaceFolder}",
    ),
    Client(
        "vscode",
        "VS Code",
        _root(".vscode", "mcp.json"),
        keys=("servers",),
        more=(("type", "stdio"),),
        traces=(_applications("Code"), _home(".vscode"), _root(".vscode")),
        root_text="${workspaceFolder}",
    ),
    Client(
        "zed",
        "Zed",
        lambda root, machine: machine.settings / "zed" / "settings.json",
        keys=("context_servers",),
        shared=False,
        more=(("source", "custom"),),
        traces=(lambda root, machine: machine.settings / "zed",),
    ),
    Client(
        "windsurf",
        "Windsurf",
        _home(".codeium", "windsurf", "mcp_config.json"),
        shared=False,
        traces=(_home(".codeium", "windsurf"),),
    ),
    Client(
        "gemini-cli",
        "Gemini CLI",
        _root(".gemini", "settings.json"),
        traces=(_home(".gemini"), _root(".gemini"), _root("GEMINI.md")),
    ),
    Client(
        "claude-desktop",
        "Claude Desktop",
        _applications("Claude", "claude_desktop_config.json"),
        shared=False,
        traces=(_applications("Claude"),),
    ),
)


def this_machine(environ: Mapping[str, str] = os.environ) -> Machine:
    """This user, and the running copydesk."""
    command, *first = own_command(environ)
    home = Path(environ.get("HOME") or Path.home())
    return Machine(home, environ, sys.platform, command, tuple(first))


def own_command(environ: Mapping[str, str] = os.environ) -> Sequence[str]:
    """The words that start this copydesk from any folder, now and later."""
    cache = environ.get("UV_CACHE_DIR") or os.path.join("~", ".cache", "uv")
    if Path(sys.prefix).is_relative_to(os.path.expanduser(cache)):
        return ("uvx", "copydesk")  # the environment of `uvx` does not last
    beside = Path(sys.executable).with_name(SERVER)
    if beside.exists():
        return (str(beside),)
    return (sys.executable, "-m", "copydesk.app.cli")


def command_line(client: Client, name: str, entry: Mapping[str, Value]) -> str:
    """The client's own command that does the same; empty if it has none."""
    words = [str(entry["command"]), *arguments_of(entry)]
    if client.name == "claude-code":
        return shlex.join(["claude", "mcp", "add", "--scope", "local", name, "--", *words])
    if client.name == "codex":
        return shlex.join(["codex", "mcp", "add", name, "--", *words])
    if client.name == "gemini-cli":
        return shlex.join(["gemini", "mcp", "add", name, *words])
    return ""


def arguments_of(entry: Mapping[str, Value]) -> list[str]:
    """The arguments of the command of an entry."""
    found = entry.get("args")
    return [str(word) for word in cast("list[Value]", found)] if isinstance(found, list) else []


def is_own(entry: Mapping[str, Value], machine: Machine) -> bool:
    """Whether the entry starts the running copydesk, directly or by its name."""
    command = entry.get("command")
    if not isinstance(command, str):
        return False
    found = shutil.which(command, path=machine.environ.get("PATH", os.defpath))
    own = machine.command
    return found is not None and (found == own or os.path.realpath(found) == os.path.realpath(own))


Status = Literal["add", "update", "same", "remove", "absent", "refused"]

TOOL: Final = "init"
_BOM: Final = b"\xef\xbb\xbf"
_LARGEST: Final = 4 << 20
_RECORD: Final = "init.json"


@dataclass(frozen=True, slots=True)
class Step:
    """A planned change of a file; `after` None removes it, `reason` says why it is refused.

    `what` is the client's name, `policy` or `gitignore`; `line` is the client's own command for it.
    """

    what: str
    title: str
    path: Path
    status: Status
    before: bytes | None = None
    after: bytes | None = None
    reason: str = ""
    line: str = ""

    @property
    def writes(self) -> bool:
        return self.status in ("add", "update", "remove") and self.before != self.after

    def diff(self, shown: str) -> str:
        """The unified diff, with `shown` as the name of the file."""
        base = Snapshot.of(self.before or b"")
        change = _change(self.before or b"", self.after or b"")
        made = {"created": self.before is None, "removed": self.after is None}
        return unified(base, change, shown, **made).decode("utf-8", "replace")


_OURS = re.compile(r"copydesk([-@=\[].*|\.exe|\.app\.cli)?", re.DOTALL)
"""Matches the last part of a word that means copydesk: its name, command, package or module."""


class Setup:
    """The setup of one workspace."""

    def __init__(self, root: str, config: Config, machine: Machine) -> None:
        self.root = Path(os.path.realpath(root))
        self._config, self._machine = config, machine
        self._record = _Record(self.root, config.state)
        is_limited = config.member in config.members and AGENT not in config.members
        self._member = "" if is_limited else AGENT
        """The member for clients; empty for the configured caller if its rights are listed."""

    def used(self) -> list[Client]:
        """The clients that left traces on this machine or in the workspace."""
        return [client for client in CLIENTS if client.is_used(self.root, self._machine)]

    def file(self, client: Client) -> Path:
        """The client's file of servers."""
        return client.file(self.root, self._machine)

    def shown(self, path: Path) -> str:
        """A path to show: relative to the root or to the home."""
        if path.is_relative_to(self.root):
            return path.relative_to(self.root).as_posix()
        home = self._machine.home
        return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)

    def configured(self) -> Iterator[tuple[Client, Path, str, dict[str, Value]]]:
        """The clients' entries for this workspace: client, file, name, entry."""
        for client in CLIENTS:
            path = self.file(client)
            with suppress(Unreadable):
                data = _read(path)
                servers = _servers(client, _value(client, data)) if data is not None else {}
                yield from (
                    (client, path, name, entry)
                    for name, entry in servers.items()
                    if self._is_ours(client, name, entry)
                )

    def adding(
        self, clients: Sequence[Client], approval: str, globs: Sequence[str], *, portable: bool
    ) -> list[Step]:
        """The steps that set these clients up, with a policy unless `approval` is empty."""
        steps = [self._client(client, portable=portable) for client in clients]
        if approval:
            steps.append(self._policy(approval, globs))
        if any((folder / ".git").exists() for folder in (self.root, *self.root.parents)):
            steps.append(self._gitignore())
        return steps

    def removing(self, clients: Sequence[Client] | None) -> list[Step]:
        """The steps that undo the whole setup, or that of these clients."""
        chosen = CLIENTS if clients is None else clients
        steps = [self._without(client) for client in chosen]
        if clients is None:
            steps += [self._taken_back("policy", self.root / name) for name in FILES]
            steps.append(self._taken_back("gitignore", self.root / ".gitignore"))
        return steps

    def write(self, step: Step, opened: OpenWorkspace) -> int:
        """Carry out a step; return its edit id or 0. Refusal, OSError leave the file as it was."""
        real = Path(os.path.realpath(step.path))
        made = _make_folder(real.parent) if step.before is None else []
        try:
            edit_id = self._written(step, real, opened)
        except BaseException:  # Ctrl-C too leaves no empty folders behind
            _remove_folders(made)
            raise
        if step.status == "remove":
            _remove_folders(self._record.forget(step.path) if step.after is None else [])
            self._record.forget(step.path)
        else:
            self._record.add(step, edit_id, [str(folder) for folder in made])
        return edit_id

    def _written(self, step: Step, real: Path, opened: OpenWorkspace) -> int:
        if not real.is_relative_to(self.root) or real == self.root / CONFIG:
            _replace(real, step)
            return 0
        config = self._config
        member = Member(config.member, Rules(state_dir=config.state))
        path = RelPath.parse(real.relative_to(self.root).as_posix())
        if step.after is None:
            edit_id = self._record.edit_of(step.path)
            if edit_id:
                outcome = opened.desk.undo(member, TOOL, edit_id)
                if not isinstance(outcome, NotUndone) and not real.exists():
                    return outcome.edit_id
            _replace(real, step)
            return 0
        base = None if step.before is None else Snapshot.of(step.before)
        change = _change(step.before or b"", step.after)
        return opened.desk.rewrite(member, TOOL, path, base, change)

    def _client(self, client: Client, *, portable: bool) -> Step:
        path = self.file(client)

        def edit(text: str) -> str:
            engine = _engine(client)
            servers = _servers(client, engine.read(text))
            name = self._name(client, servers)
            wanted = client.entry(self.root, self._machine, self._member, portable=portable)
            entry = self._merged(client, servers.get(name), wanted, portable=portable)
            return engine.put(text, (*client.keys, name), entry)

        step = _planned(self.root, client.name, client.title, path, edit)
        if step.status == "refused":
            return step
        servers = _servers(client, _value(client, step.after or step.before or b""))
        name = self._name(client, servers)
        return replace(step, line=command_line(client, name, servers[name]))

    def _name(self, client: Client, servers: Mapping[str, dict[str, Value]]) -> str:
        ours = [name for name, entry in servers.items() if self._is_ours(client, name, entry)]
        if ours or SERVER not in servers:
            return ours[0] if ours else SERVER
        if client.shared:
            raise Unreadable(f'another server has the name "{SERVER}"')
        base = re.sub(r"[^A-Za-z0-9_-]+", "-", f"{SERVER}-{self.root.name}").strip("-")
        names = (base, *(f"{base}-{number}" for number in range(2, 1000)))
        return next(name for name in names if name not in servers)

    def _is_ours(self, client: Client, name: str, entry: dict[str, Value]) -> bool:
        args = arguments_of(entry)
        if "mcp" not in args[:4]:
            return False
        words = (name, str(entry.get("command")), *args[: args.index("mcp")])
        if not any(_OURS.fullmatch(os.path.basename(word)) for word in words):
            return False
        root = _after(args, "--root")
        if client.shared and root in (None, client.root_text):
            return name == SERVER
        return root is not None and os.path.realpath(root) == str(self.root)

    def _merged(
        self,
        client: Client,
        old: dict[str, Value] | None,
        wanted: dict[str, Value],
        *,
        portable: bool,
    ) -> dict[str, Value]:
        """The wanted entry, with the options that the user added to the old one."""
        if old is None:
            return wanted
        args = arguments_of(old)
        more = args[args.index("mcp") + 1 :]
        root, words = _taken(more, "--root"), arguments_of(wanted)
        is_portable = client.shared and root in (None, client.root_text)
        is_here = root is not None and os.path.realpath(root) == str(self.root)
        if is_own(old, self._machine) and (is_portable or (is_here and not portable)):
            return {}
        if "--member" in more:  # the user's own choice
            _taken(words, "--member")
        return {**wanted, "args": [*words, *more]}

    def _policy(self, approval: str, globs: Sequence[str]) -> Step:
        project = self._config.source == FILES[1]
        above = ("tool", "copydesk") if project else ()
        keys = (*above, "members", self._member or self._config.member)

        def edit(text: str) -> str:
            if globs:
                chosen = dict.fromkeys(globs, approval)
                return put_toml(text, (*keys, "approval_paths"), chosen)
            return put_toml(text, keys, {"approval": approval})

        return _planned(self.root, "policy", "", self.root / FILES[1 if project else 0], edit)

    def _gitignore(self) -> Step:
        state = self._config.state

        def edit(text: str) -> str:
            lines = [line.strip() for line in text.split("\n")]
            if any(line in lines for line in (state, f"{state}/", f"/{state}", f"/{state}/", "*")):
                return text
            newline = "\r\n" if "\r\n" in text else "\n"
            lead = newline if text and not text.endswith("\n") else ""
            return f"{text}{lead}{state}/{newline}"

        return _planned(self.root, "gitignore", "", self.root / ".gitignore", edit)

    def _without(self, client: Client) -> Step:
        path = self.file(client)
        back = self._taken_back(client.name, path, client)
        if back.status in ("remove", "refused"):
            return back

        def edit(text: str) -> str:
            engine = _engine(client)
            for name, entry in _servers(client, engine.read(text)).items():
                if self._is_ours(client, name, entry):
                    text = engine.remove(text, (*client.keys, name))
            return text

        if back.before is None:
            return back
        step = _planned(self.root, client.name, client.title, path, edit)
        status: Status = {"update": "remove", "same": "absent"}.get(step.status, step.status)  # type: ignore[assignment]  # of two literals
        return replace(step, status=status)

    def _taken_back(self, what: str, path: Path, client: Client | None = None) -> Step:
        """The step that restores the original file, if the written entry is unchanged."""
        title = client.title if client else ""
        try:
            now = _read(path)
            _check_writable(path, now)
            if now is None:
                return Step(what, title, path, "absent")
            before = self._record.back(path, now)
            if before is not None and client is not None and not self._only(client, now, before):
                before = None
        except Unreadable as error:
            return Step(what, title, path, "refused", reason=_words(error))
        if before is None or before == now:
            return Step(what, title, path, "absent", now, now)
        was_made = self._record.is_made(path) and not before
        return Step(what, title, path, "remove", now, None if was_made else before)

    def _only(self, client: Client, now: bytes, before: bytes) -> bool:
        """Whether only our entry would be removed: the state folder may come from elsewhere."""
        old, new = _value(client, before), _value(client, now)
        if any(self._is_ours(client, *one) for one in _servers(client, old).items()):
            return False
        for name, entry in _servers(client, new).items():
            if self._is_ours(client, name, entry):
                new = without(new, (*client.keys, name))
        return tidy(new, (*client.keys, "")) == tidy(old, (*client.keys, ""))


class _Record:
    """The record of executed steps by file, with each new text and the text it replaced."""

    def __init__(self, root: Path, state: str) -> None:
        self._root, self._folder = root, StateFolder(str(root), state)
        self._path = Path(self._folder.path(_RECORD))

    def is_made(self, path: Path) -> bool:
        """Whether the setup created the file."""
        return bool(self._of(path).get("made"))

    def edit_of(self, path: Path) -> int:
        """The journal's id of the edit that created the file."""
        return int(self._of(path).get("edit", 0))

    def back(self, path: Path, now: bytes) -> bytes | None:
        """The original bytes, before all recorded steps; None if they are no longer known."""
        steps = self._of(path).get("steps")
        if not steps:
            return None
        for step in reversed(steps):
            old, new, at = step["old"].encode(), step["new"].encode(), step["at"]
            if _sha256(now) != step["after"]:
                if not new or now.count(new) != 1:
                    return None
                at = now.index(new)
            if now[at : at + len(new)] != new:
                return None
            now = now[:at] + old + now[at + len(new) :]
        return now

    def add(self, step: Step, edit_id: int, folders: list[str]) -> None:
        """Record a step that was carried out."""
        files, key = self._load(), self._key(step.path)
        made: dict[str, Any] = {"what": step.what, "made": False, "edit": 0, "folders": []}
        one = files.setdefault(key, {**made, "steps": []})
        if step.before is None:
            one |= {"made": True, "edit": edit_id, "folders": folders, "steps": []}
        before, after = step.before or b"", step.after or b""
        (edit,) = _change(before, after).edits
        texts = {"old": before[edit.start : edit.stop].decode(), "new": edit.new.decode()}
        one["steps"].append({"at": edit.start, **texts, "after": _sha256(after)})
        self._save(files)

    def forget(self, path: Path) -> list[Path]:
        """Forget a file; return the folders that were created for it."""
        files = self._load()
        one = files.pop(self._key(path), None)
        if one is None:
            return []
        self._save(files)
        made = [Path(folder) for folder in one.get("folders", [])]
        return [folder for folder in made if folder in path.parents]

    def _of(self, path: Path) -> dict[str, Any]:
        return self._load().get(self._key(path), {})

    def _key(self, path: Path) -> str:
        return str(path.relative_to(self._root) if path.is_relative_to(self._root) else path)

    def _load(self) -> dict[str, dict[str, Any]]:
        try:
            found = json.loads(self._path.read_text("utf-8"))["files"]
        except (OSError, ValueError, KeyError, TypeError):
            return {}
        return cast("dict[str, dict[str, Any]]", found) if isinstance(found, dict) else {}

    def _save(self, files: Mapping[str, object]) -> None:
        if not files:
            self._path.unlink(missing_ok=True)
            return
        self._folder.make()
        beside = self._path.with_suffix(".new")
        beside.unlink(missing_ok=True)
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            json.dump({"files": files}, file, ensure_ascii=False, indent=1)
        os.replace(beside, self._path)


def _planned(root: Path, what: str, title: str, path: Path, edit: Callable[[str], str]) -> Step:
    """The step that makes this edit of a text; a file of the workspace must really be in it."""
    try:
        real = Path(os.path.realpath(path))  # `Path.resolve` raises for a loop of links
        if path.is_relative_to(root) and not real.is_relative_to(root):
            raise Unreadable(f"it is a link out of the workspace, to {real}")
        before = _read(path)
        bom = before is not None and before.startswith(_BOM)
        text = "" if before is None else before[len(_BOM) * bom :].decode("utf-8")
        after = _BOM * bom + edit(text).encode("utf-8")
        if after != (before or b""):
            _check_writable(path, before)
    except Unreadable as error:
        return Step(what, title, path, "refused", reason=_words(error))
    except UnicodeError:
        return Step(what, title, path, "refused", reason="it is not UTF-8")
    if after == (before or b""):
        return Step(what, title, path, "same", before, before)
    return Step(what, title, path, "add" if before is None else "update", before, after)


def _words(error: Unreadable) -> str:
    return f"line {error.line}: {error.reason}" if error.line else error.reason


def _read(path: Path) -> bytes | None:
    """The bytes of a file, None if it is missing; raises Unreadable."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise Unreadable("it is no regular file")
        if found.st_size > _LARGEST:
            raise Unreadable("it is too large for a configuration")
        return path.read_bytes()
    except FileNotFoundError:
        if path.is_symlink():
            raise Unreadable("it is a link that leads nowhere") from None
        return None
    except OSError as error:
        raise Unreadable(f"it cannot be read: {error.strerror}") from None


def _check_writable(path: Path, before: bytes | None) -> None:
    """Raise Unreadable for a read-only file, even as root."""
    if before is not None and not path.stat().st_mode & 0o222:
        raise Unreadable("it is read-only")


def _value(client: Client, data: bytes) -> Value:
    try:
        return _engine(client).read(data.removeprefix(_BOM).decode("utf-8"))
    except UnicodeError:
        raise Unreadable("it is not UTF-8") from None


class _Engine(NamedTuple):
    """Reads and edits texts of one format; each call may raise Unreadable."""

    read: Callable[[str], Value]
    put: Callable[[str, Sequence[str], Mapping[str, Value]], str]
    remove: Callable[[str, Sequence[str]], str]


def _engine(client: Client) -> _Engine:
    if client.form == "toml":
        return _Engine(read_toml, put_toml, remove_toml)
    return _Engine(read_json, put_json, remove_json)


def _servers(client: Client, value: Value) -> dict[str, dict[str, Value]]:
    """The servers that are started as programs, by name; the names of others are taken too."""
    found = dig(value, client.keys)
    if not isinstance(found, Mapping):
        return {}
    table = cast("Mapping[str, Value]", found)
    return {
        name: cast("dict[str, Value]", entry) if isinstance(entry, dict) else {}
        for name, entry in table.items()
    }


def _after(words: Sequence[str], option: str) -> str | None:
    """The value of an option among words."""
    at = words.index(option) + 1 if option in words else len(words)
    return words[at] if at < len(words) else None


def _taken(words: list[str], option: str) -> str | None:
    """Remove an option and its value; return the value."""
    value = _after(words, option)
    if value is not None:
        at = words.index(option)
        del words[at : at + 2]
    return value


def _change(before: bytes, after: bytes) -> ChangeSet:
    """The change as one span that begins and ends at character boundaries."""
    most = min(len(before), len(after))
    start = next((i for i in range(most) if before[i] != after[i]), most)
    while start and start < len(after) and after[start] & 0xC0 == 0x80:
        start -= 1
    while start and start < len(before) and before[start] & 0xC0 == 0x80:
        start -= 1
    most -= start
    end = next((i for i in range(most) if before[-1 - i] != after[-1 - i]), most)
    while end and (before[len(before) - end] & 0xC0 == 0x80 or after[-end] & 0xC0 == 0x80):
        end -= 1
    new = after[start : len(after) - end]
    return ChangeSet.of(len(before), [Edit(start, len(before) - end, new)])


def _replace(real: Path, step: Step) -> None:
    """Write a file outside the workspace if it is unchanged since it was read."""
    path = RelPath.parse(real.name)
    try:
        with Files(str(real.parent)) as files:
            if step.before is None:
                files.create(path, step.after or b"")
                return
            _, stamp, sha256 = files.digest(path)
            if sha256 != _sha256(step.before):
                raise TargetMoved
            if step.after is None:
                files.remove(path, stamp, sha256)
            else:
                files.replace(path, stamp, sha256, [step.after], before_in_place=lambda old: None)
    except TargetMoved:
        raise Unreadable("it changed meanwhile") from None


def _make_folder(folder: Path) -> list[Path]:
    """Create a folder and its missing parents; return the created ones, innermost first."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing


def _remove_folders(folders: Sequence[Path]) -> None:
    for folder in folders:
        with suppress(OSError):  # something else is in it by now
            folder.rmdir()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
