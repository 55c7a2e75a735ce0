"""The MCP clients that copydesk can be set up in: where each has its servers, and in what form."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, cast

from copydesk.app.setup import Value

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
    """Words before `mcp`, as of `uvx copydesk mcp`."""

    @property
    def settings(self) -> Path:
        """The folder of the user's settings, of programs that follow the XDG rules."""
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
    """A client: the file of its servers, the keys above a server there, how it is recognized.

    `shared`: the file is in the workspace, and holds the servers of that workspace alone.
    `traces` are files and folders, from the home or the root, that its users have; `root_text`
    is what stands for the workspace in a file that several people share.
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
        """Whether something of it is on the machine or in the workspace."""
        return any(place(root, machine).exists() for place in (self.file, *self.traces))

    def entry(
        self, root: Path, machine: Machine, member: str, *, portable: bool = False
    ) -> dict[str, Value]:
        """What the client has to know to start the server; `member` "" for the configured one."""
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
    """This user, and the copydesk that runs."""
    command, *first = own_command(environ)
    home = Path(environ.get("HOME") or Path.home())
    return Machine(home, environ, sys.platform, command, tuple(first))


def own_command(environ: Mapping[str, str] = os.environ) -> Sequence[str]:
    """The words that start this copydesk from anywhere, and also tomorrow."""
    cache = environ.get("UV_CACHE_DIR") or os.path.join("~", ".cache", "uv")
    if Path(sys.prefix).is_relative_to(os.path.expanduser(cache)):
        return ("uvx", "copydesk")  # the environment of `uvx` does not last
    beside = Path(sys.executable).with_name(SERVER)
    if beside.exists():
        return (str(beside),)
    return (sys.executable, "-m", "copydesk.app.cli")


def command_line(client: Client, name: str, entry: Mapping[str, Value]) -> str:
    """The client's own command that does the same; empty where it has none."""
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
    """Whether the entry starts the copydesk that runs, directly or by its name."""
    command = entry.get("command")
    if not isinstance(command, str):
        return False
    found = shutil.which(command, path=machine.environ.get("PATH", os.defpath))
    own = machine.command
    return found is not None and (found == own or os.path.realpath(found) == os.path.realpath(own))
