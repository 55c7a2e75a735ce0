"""`copydesk init`: set up MCP clients. Edits of their files' texts, the clients, and the command.

The command shows what would change, asks, and writes. Edits of JSON with comments, and of TOML, are
minimal, and each is verified: the new text is parsed again and must differ from the old one by the
requested change only; a text that cannot be parsed is refused.

TOML is read by the standard library, statement by statement, and only whole statements and values
are cut out or replaced. tomlkit 0.15 does not keep the rest: a removed table takes the comments in
front of the next one along, a new one has line feeds among CRLF, and the headers [[a.c]], [[a.b]]
and [a.c.d] are given back in another order without any edit (decision 29).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import stat
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from glob import escape, glob
from hashlib import sha256
from itertools import count, dropwhile, takewhile
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar, cast

from copydesk.app import terminal
from copydesk.app.cli.parser import UsageError, unknown
from copydesk.app.config import AGENT, FILES, Config, dig
from copydesk.app.mcp.early import tables_of
from copydesk.app.terminal import agrees, dump
from copydesk.app.workspace import OpenWorkspace, open_workspace, server_of
from copydesk.desk.member import Member
from copydesk.desk.outcome import NotUndone
from copydesk.errors import Refusal
from copydesk.store.access import CONFIG, Rules
from copydesk.store.files import Files
from copydesk.store.protocol import TargetMoved
from copydesk.store.state import StateFolder
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.diff import common_ends, unified
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot
from copydesk.tools.catalog import EDIT
from copydesk.tools.messages import say, say_reason
from copydesk.tools.report import Lang

Value: TypeAlias = object
"""A value of JSON or TOML: texts, numbers, lists, mappings."""
Found = TypeVar("Found")


class Unreadable(Exception):
    """The text cannot be edited; `reason` says why, and in which line if one is given."""

    def __init__(self, reason: str, line: int = 0) -> None:
        self.reason = f"line {line}: {reason}" if line else reason
        super().__init__(self.reason)


def replaced(value: Value, keys: Sequence[str], new: Value) -> Mapping[str, Value]:
    """The value with `new` under the keys, or with nothing there if it is None."""
    table = dict(cast("Mapping[str, Value]", value)) if isinstance(value, Mapping) else {}
    key, *below = keys
    if below or new is not None:
        table[key] = replaced(table.get(key), below, new) if below else new
    else:
        table.pop(key, None)
    return table


def tidy(value: Value, keys: Sequence[str]) -> Value:
    """The value without the table under the keys, if that is empty."""
    return replaced(value, keys, None) if keys and dig(value, keys) == {} else value


def _newline_of(text: str) -> str:
    """The line end of the text: CRLF if its first line ends with it."""
    return "\r\n" if re.match(r"[^\n]*\r\n", text) else "\n"


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Where what matches at this place ends."""
    match = pattern.match(text, at)
    return match.end() if match else at


_DEEPEST: Final = 100
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_PLAIN: Final = re.compile(r"[^\s,:\[\]{}\"/]+")
_BLANKS: Final = re.compile(r"[ \t]*")
_SPACE: Final = re.compile(r"(?>(?:[ \t\r\n]|//[^\n]*|/\*.*?\*/)*)", re.DOTALL)
_TAIL: Final = re.compile(r"(?:[ \t]*/\*[^\n]*?\*/)*(?:[ \t]*//[^\n]*?(?=\r?\n|\Z))?")
"""The comments that follow on the same line."""
_INDENT: Final = re.compile(r"\n([ \t]+)\S")
_OTHERS: Final = "it could not be changed without changing something else in it"
_NO_VALUE: Final = "a value is missing or misspelled"
_SCALARS: Final = {
    True: (_STRING, "a text has no end, or a line break in it", "a text has a wrong escape"),
    False: (_PLAIN, _NO_VALUE, _NO_VALUE),
}
"""How texts and other values are written; why there is none, and why it is wrong."""


@dataclass(slots=True)
class _Node:
    """A value at [start, stop); `end` is after its comma, if it has one, `name` where its key is.

    The members of a list have their numbers as keys.
    """

    start: int = 0
    stop: int = 0
    end: int = 0
    name: int = 0
    value: Value = field(default_factory=dict[str, Value])
    members: dict[str, _Node] = field(default_factory=dict[str, "_Node"])


class _Reader:
    """Finds the values of a JSON text; raises Unreadable."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def wrong(self, reason: str) -> Unreadable:
        return Unreadable(f"it is not valid JSON: {reason}", self.text.count("\n", 0, self.at) + 1)

    def next(self) -> str:
        """Go to the next token; return its first character, nothing at the end."""
        self.at = _end(_SPACE, self.text, self.at)
        if self.text.startswith("/*", self.at):
            raise self.wrong("a comment has no end")
        return self.text[self.at : self.at + 1]

    def node(self, depth: int = 0, *, is_key: bool = False) -> _Node:
        """The next value; a key is a text."""
        char = self.next()
        if depth > _DEEPEST:
            raise self.wrong("it is nested too deeply")
        node = _Node(self.at)
        if char in ("{", "[") and not is_key:
            self._fill(node, "}" if char == "{" else "]", depth)
        else:
            pattern, missing, misspelled = _SCALARS[is_key or char == '"']
            self.at = _end(pattern, self.text, node.start)
            if self.at == node.start:
                raise self.wrong(missing)
            try:
                node.value = json.loads(self.text[node.start : self.at])
            except ValueError:
                raise self.wrong(misspelled) from None
        node.stop = node.end = self.at
        return node

    def _fill(self, node: _Node, closing: str, depth: int) -> None:
        """Read the members of an object or a list."""
        self.at += 1
        comma = True
        while self.next() != closing:
            if not comma:
                raise self.wrong("a comma is missing")
            name, key = self.at, str(len(node.members))
            if closing == "}":
                key = str(self.node(is_key=True).value)
                if key in node.members:
                    raise self.wrong(f"{json.dumps(key)} is there twice")
                if self.next() != ":":
                    raise self.wrong("a colon is missing")
                self.at += 1
            member = node.members[key] = self.node(depth + 1)
            comma = self.next() == ","
            self.at += comma
            member.name, member.end = name, self.at if comma else member.stop
        self.at += 1
        values = {key: member.value for key, member in node.members.items()}
        node.value = values if closing == "}" else list(values.values())


def _parsed(text: str) -> _Node:
    """The value of the text; an empty object that ends at 0 if it has none. Raises Unreadable."""
    reader = _Reader(text)
    if not reader.next():
        return _Node()
    node = reader.node()
    if reader.next():
        raise reader.wrong("something stands after the end")
    return node


def read_json(text: str) -> Value:
    """The value of the text; an empty text gives an empty object. Raises Unreadable."""
    return _parsed(text).value


def put_json(text: str, keys: Sequence[str], fields: Mapping[str, Value]) -> str:
    """The text with these fields, texts or lists, in the object under the keys; raises Unreadable.

    Missing objects are created; other members, comments and the layout stay unchanged.
    """
    wanted, indent = read_json(text), _INDENT.search(text)
    for name, value in fields.items():
        path = (*keys, name)
        text = _put(text, path, value, indent[1] if indent else "  ")
        wanted = replaced(wanted, path, value)
    return _verified(text, read_json(text), wanted, _OTHERS)


def _verified(text: str, said: Value, wanted: Value, reason: str) -> str:
    """The text, if it says what is wanted."""
    if said != wanted:
        raise Unreadable(reason)
    return text


def _put(text: str, path: Sequence[str], value: Value, unit: str) -> str:
    """The text with one field set, whose keys are the path; `unit` is an indentation."""
    node = _parsed(text)
    if not node.stop:
        newline = _newline_of(text)
        lead = newline if text.strip() and not text.endswith("\n") else ""
        return _put(f"{text}{lead}{{}}{newline}", path, value, unit)
    for depth, key in enumerate(path):
        if not isinstance(node.value, dict):
            where = json.dumps(path[depth - 1]) if depth else "the whole"
            raise Unreadable(f"{where} is no object", text.count("\n", 0, node.start) + 1)
        if key not in node.members:
            return _added(text, node, path[depth:], value, unit)
        node = node.members[key]
    if node.value == value:
        return text
    return text[: node.start] + json.dumps(value, ensure_ascii=False) + text[node.stop :]


def _added(text: str, node: _Node, path: Sequence[str], value: Value, unit: str) -> str:
    """The text with a member at the end of an object, laid out as what is there."""
    inside = text[node.start + 1 : node.stop - 1]
    # an empty object: as the text; the whole itself, and one below a comment, gets lines
    as_text = "\n" in text.strip() or not text[: node.start].lstrip().startswith("{")
    is_wide = "\n" in inside if node.members else as_text
    newline, unit = (_newline_of(text), unit) if is_wide else ("", "")

    def indent(at: int) -> str:
        """The indentation of the line that contains this character."""
        begin = text.rfind("\n", 0, at) + 1
        return text[begin : _end(_BLANKS, text, begin)] if is_wide else ""

    def member(path: Sequence[str], indent: str) -> str:
        name = f"{json.dumps(path[0], ensure_ascii=False)}: "
        if len(path) == 1:
            return name + json.dumps(value, ensure_ascii=False)
        inner = member(path[1:], indent + unit)
        return f"{name}{{{newline}{indent}{unit}{inner}{newline}{indent}}}"

    if not node.members:
        base = indent(node.start)
        rest = "" if is_wide and not inside.strip() else inside
        end = "" if "\n" in rest else newline + base
        new = newline + base + unit + member(path, base + unit) + end
        return text[: node.start + 1] + new + rest + text[node.stop - 1 :]
    last = list(node.members.values())[-1]
    inner, has_comma = indent(last.name), last.end > last.stop
    new = (newline + inner if is_wide else " ") + member(path, inner)
    at = _end(_TAIL, text, last.end) if is_wide else last.end
    comma, final = ("", "," * is_wide) if has_comma else (",", "")
    return text[: last.end] + comma + text[last.end : at] + new + final + text[at:]


def remove_json(text: str, keys: Sequence[str]) -> str:
    """The text without the member under the keys; raises Unreadable."""
    parent = node = _parsed(text)
    wanted = replaced(node.value, keys, None)
    for key in keys:
        if key not in node.members:
            return text
        parent, node = node, node.members[key]
    before, after = text[: node.name].rstrip(" \t"), text[node.end :]
    *others, last = parent.members.values()
    if not others and not before[parent.start + 1 :].strip():
        rest = text[node.end : parent.stop - 1]
        before, after = text[: parent.start + 1], after if rest.strip() else text[parent.stop - 1 :]
    elif others and last is node and node.end == node.stop:
        comma = others[-1].end - 1
        before = before[:comma] + before[comma + 1 :]
    new = before.removesuffix("\n").removesuffix("\r") + after
    if _tried(read_json, new) != wanted:  # a comment before it, which needs its line end
        new = before + after
    return _verified(new, read_json(new), wanted, _OTHERS)


_INLINE: Final = "the table is written in one line with others; change it by hand"
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_MAY_END: Final = re.compile(r"(?:[\]}]|\"\"\"|''')[ \t\r]*(?:#.*)?\n?\Z")
"""Ends a line that may be the last one of a value of several lines."""


def read_toml(text: str) -> Mapping[str, Value]:
    """The value of the text; raises Unreadable."""
    try:
        return tomllib.loads(text)
    except ValueError as error:  # of tomllib, and of a number that is too long
        raise Unreadable(f"it is not valid TOML: {error}") from None
    except RecursionError:
        raise Unreadable("it is not valid TOML: it is nested too deeply") from None


def put_toml(text: str, keys: Sequence[str], fields: Mapping[str, Value]) -> str:
    """The text with these fields set in the table under the keys; raises Unreadable.

    A missing table is added at the end; everything else stays unchanged.
    """
    now, newline = read_toml(text), _newline_of(text)
    wanted: Mapping[str, Value] = now
    for name, value in fields.items():
        wanted = replaced(wanted, (*keys, name), value)
    if wanted == now:
        return text
    missing = [key for key in fields if dig(now, (*keys, key)) is None]
    new = "".join(f"{_key(key)} = {_written(fields[key])}{newline}" for key in missing)
    result, is_own = "", False
    for statement, said, is_header in _statements(text):
        key = next(iter(said), "")
        if is_header:
            is_own = said == replaced({}, keys, {})
            if is_own and new:
                statement += ("" if statement.endswith("\n") else newline) + new
                new = ""
        elif is_own and key in fields and said[key] != fields[key]:
            statement = _revalued(statement, fields[key])
        result += statement
    if new:
        result += "" if not result or result.endswith("\n") else newline
        blank = newline if result.strip() and not result.endswith(newline * 2) else ""
        result += f"{blank}[{'.'.join(map(_key, keys))}]{newline}{new}"
    return _verified(result, _tried(read_toml, result), wanted, _INLINE)


def remove_toml(text: str, keys: Sequence[str]) -> str:
    """The text without the table under the keys and its subtables; raises Unreadable.

    Comments after their last values stay.
    """
    now, above = read_toml(text), keys[:-1]
    if dig(now, keys) is None:
        return text
    result = pending = ""
    at, is_own = 0, False
    for statement, said, is_header in _statements(text):
        if is_header:
            result, pending = result + pending, ""
            is_own = dig(said, keys) is not None
            if is_own and text.endswith(("\n\n", "\n\r\n"), 0, at):  # an empty line
                result = result.removesuffix("\n").removesuffix("\r")
        at += len(statement)
        if not is_own:
            result += statement
        else:  # comments and empty lines are held until something of the table follows
            pending = "" if said else pending + statement
    result += pending
    wanted = tidy(replaced(now, keys, None), above)
    return _verified(result, tidy(_tried(read_toml, result), above), wanted, _INLINE)


def _statements(text: str) -> Iterator[tuple[str, Mapping[str, Value], bool]]:
    """Each statement of a valid TOML text with its lines, what it says alone, if it is a header.

    No beginning of a statement that ends with a line is TOML, so its first lines that are make it.
    """
    statement = ""
    for line in re.findall(r".*\n|.+", text):
        statement += line
        may_end = statement == line or _MAY_END.search(line)
        said = _tried(read_toml, statement) if may_end else None
        if said is not None:
            yield statement, said, statement.lstrip(" \t").startswith("[")
            statement = ""


def _tried(read: Callable[[str], Found], text: str) -> Found | None:
    with suppress(Unreadable):
        return read(text)
    return None


def _revalued(statement: str, value: Value) -> str:
    """A key's statement with another value; its comment stays."""
    stops = (match.start() for match in re.finditer(r"[ \t]*(?:#|\r?\n|\Z)", statement))
    stop = next(at for at in stops if _tried(read_toml, statement[:at]))
    starts = (match.end() for match in re.finditer(r"=[ \t]*", statement))
    start = next(at for at in starts if _tried(read_toml, f"{statement[:at]}0"))
    return statement[:start] + _written(value) + statement[stop:]


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _written(name)


def _written(value: Value) -> str:
    """A text or a list of texts as TOML."""
    if isinstance(value, list):
        return f"[{', '.join(map(_written, cast('list[Value]', value)))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


class Format(NamedTuple):
    """Reads and edits texts of one format; each call may raise Unreadable."""

    read: Callable[[str], Value]
    put: Callable[[str, Sequence[str], Mapping[str, Value]], str]
    remove: Callable[[str, Sequence[str]], str]


JSON: Final = Format(read_json, put_json, remove_json)
TOML: Final = Format(read_toml, put_toml, remove_toml)


SERVER: Final = "copydesk"
"""The name of the server in the clients' configuration."""


@dataclass(frozen=True, slots=True)
class Client:
    """A client: its file of servers, the keys above a server in it, how to recognize the client.

    `file` and `traces`, which are files and folders that its users have, are places as in
    `path_of`. `command` adds a server NAME; `root_text` stands for the workspace in a file
    that several people share. `in_one`: `command` of a server is a list, its arguments in it.
    """

    name: str
    title: str
    file: str
    traces: tuple[str, ...]
    keys: tuple[str, ...] = ("mcpServers",)
    format: Format = JSON
    more: tuple[tuple[str, str], ...] = ()
    command: str = ""
    root_text: str = ""
    in_one: bool = False

    @property
    def shared(self) -> bool:
        """Whether the file is in the workspace and has only the servers of that workspace."""
        return self.file.startswith("root/")


CLIENTS: Final = (
    Client(
        "claude-code",
        "Claude Code",
        "root/.mcp.json",
        ("home/.claude", "home/.claude.json", "root/.claude", "root/CLAUDE.md"),
        command="claude mcp add --scope local NAME --",
        root_text="${CLAUDE_PROJECT_DIR:-.}",
    ),
    Client(
        "codex",
        "Codex",
        "codex/config.toml",
        ("codex",),
        keys=("mcp_servers",),
        format=TOML,
        command="codex mcp add NAME --",
    ),
    Client(
        "cursor",
        "Cursor",
        "root/.cursor/mcp.json",
        ("home/.cursor", "root/.cursor"),
        root_text="${workspaceFolder}",
    ),
    Client(
        "vscode",
        "VS Code",
        "root/.vscode/mcp.json",
        ("applications/Code", "home/.vscode", "root/.vscode"),
        keys=("servers",),
        more=(("type", "stdio"),),
        root_text="${workspaceFolder}",
    ),
    Client(
        "zed",
        "Zed",
        "settings/zed/settings.json",
        ("settings/zed",),
        keys=("context_servers",),
        more=(("source", "custom"),),
    ),
    Client(
        "windsurf",
        "Windsurf",
        "home/.codeium/windsurf/mcp_config.json",
        ("home/.codeium/windsurf",),
    ),
    Client(
        "gemini-cli",
        "Gemini CLI",
        "root/.gemini/settings.json",
        ("home/.gemini", "root/.gemini", "root/GEMINI.md"),
        command="gemini mcp add NAME",
    ),
    Client(
        "opencode",
        "opencode",
        "root/opencode.json",
        ("settings/opencode", "root/opencode.json", "root/.opencode"),
        keys=("mcp",),
        more=(("type", "local"),),
        in_one=True,
    ),
    Client(
        "claude-desktop",
        "Claude Desktop",
        "applications/Claude/claude_desktop_config.json",
        ("applications/Claude",),
    ),
)


_SAID = {
    "add": "cli.init_add",
    "update": "cli.init_update",
    "same": "cli.init_same",
    "remove": "cli.init_remove",
    "refused": "cli.init_refused",
}
_TITLES = {"policy": "cli.init_what_policy", "gitignore": "cli.init_what_gitignore"}


def run(
    options: argparse.Namespace,
    root: str,
    config: Config,
    prepare_start: Callable[[Sequence[str]], None],
) -> int:
    """Plan, show, ask, write; return the exit status. Raises UsageError.

    `prepare_start` takes the command lines of servers, which then start quickly at once.
    """
    faults = {
        "--path is for --approval": options.path and not options.approval,
        "--path must name files or folders": not all(map(str.strip, options.path or ())),
        "--remove takes back; it goes with --client, --state, --dry-run and --yes alone": (
            options.remove and (options.approval or options.portable)
        ),
        "--state is for --remove, without --client": (
            options.state and (options.client or not options.remove)
        ),
    }
    if fault := next((fault for fault, is_there in faults.items() if is_there), ""):
        raise UsageError(fault)
    setup = Setup(root, config)
    named = _named(options.client) if options.client else None
    if options.remove:
        steps = [step for step in setup.removing(named) if step.status != "absent"]
    elif clients := setup.used() if named is None else named:
        steps = setup.adding(clients, options)
    else:
        raise UsageError(
            "no MCP client was found on this machine",
            f"Name one with --client: {', '.join(client.name for client in CLIENTS)}.",
        )
    return _Run(options, setup, steps, config).run(prepare_start)


def _named(names: Sequence[str]) -> list[Client]:
    known = {client.name: client for client in CLIENTS}
    wanted = dict.fromkeys(part.strip() for name in names for part in name.split(","))
    for name in wanted:
        if name not in known:
            raise unknown("client", name, known, f"There are: {', '.join(known)}.")
    return [known[name] for name in wanted]


class _Run:
    """One run: carries out the steps and prints the result of each."""

    def __init__(
        self, options: argparse.Namespace, setup: Setup, steps: Sequence[Step], config: Config
    ) -> None:
        self._options, self._setup, self._steps, self._config = options, setup, steps, config
        self._lang: Lang = config.lang
        self._state = setup.root / config.state if options.state else None
        self._edits: dict[Path, int] = {}
        self._failed: dict[Path, str] = {}

    def run(self, prepare_start: Callable[[Sequence[str]], None]) -> int:
        """Show, ask and write; return the exit status."""
        self._show()
        writes = any(step.writes for step in self._steps)
        has_state = self._state is not None and (
            self._state.exists() or self._config.registry == "redis"
        )
        asks = (writes or has_state) and not self._options.dry_run
        agreed = asks and (
            self._options.yes or agrees(say("cli.init_ask", self._lang), terminal_only=False)
        )
        if agreed:
            if writes:
                self._write(prepare_start)
            self._erase()
        refused = self._failed or any(step.status == "refused" for step in self._steps)
        if self._options.json:
            state = "written" if agreed else "planned" if writes or has_state else "unchanged"
            dump({"status": "error" if refused else "ok", "state": state, "files": self._data()})
        elif not self._steps and not has_state:
            self._say("cli.init_nothing")
        elif agreed:
            self._sum_up()
        elif asks:
            self._say("cli.init_not_agreed")
        return 1 if refused or (asks and not agreed) else 0

    def _show(self) -> None:
        if self._options.json and not (sys.stderr.isatty() and sys.stdin.isatty()):
            return
        stream = sys.stderr if self._options.json else sys.stdout
        if self._state is not None:
            terminal.tell(say("cli.init_state", self._lang, {"path": self._state}), stream)
        coloured = terminal.colours(stream)
        if changing := [self._setup.shown(step.path) for step in self._steps if step.writes]:
            facts = {"count": len(changing), "paths": ", ".join(changing)}
            stream.write(terminal.line(say("cli.init_summary", self._lang, facts)) + "\n\n")
        for step in self._steps:
            facts = {
                "what": step.title or say(_TITLES[step.what], self._lang),
                "path": self._setup.shown(step.path),
                "reason": say_reason(step.reason, self._lang),
            }
            words = terminal.line(say(_SAID[step.status], self._lang, facts))
            stream.write(terminal.strong(words, coloured) + "\n")
            if step.writes:
                stream.write(terminal.diff(step.diff(str(facts["path"])), coloured) + "\n")

    def _write(self, prepare_start: Callable[[Sequence[str]], None]) -> None:
        root = str(self._setup.root)
        with open_workspace(root, self._config) as opened:
            for step in (step for step in self._steps if step.writes):
                try:
                    self._edits[step.path] = self._setup.write(step, opened)
                except Refusal as refusal:
                    self._failed[step.path] = terminal.refusal_words(refusal, self._lang)
                except Unreadable as error:
                    self._failed[step.path] = say_reason(error.reason, self._lang)
                except OSError as error:
                    self._failed[step.path] = error.strerror or str(error)
        for words in dict.fromkeys(step.words for step in self._steps if step.words):
            with suppress(*terminal.FAILURES):  # the server itself will report it
                prepare_start([*words, "--root", root])

    def _erase(self) -> None:
        """Remove what is kept of the workspace, as the options say; raises Failed, OSError."""
        root = str(self._setup.root)
        for table in glob(f"{escape(tables_of(root))}-*") if self._options.remove else ():
            os.unlink(table)
        if self._state is None or self._failed:
            return
        if self._config.registry == "redis":
            with closing(server_of(root, self._config)) as server:
                server.call("erase")
        with suppress(FileNotFoundError):
            shutil.rmtree(self._state)

    def _sum_up(self) -> None:
        written = "cli.init_removed" if self._options.remove else "cli.init_written"
        for step in self._steps:
            edit, failed = self._edits.get(step.path), self._failed.get(step.path)
            facts = {"path": self._setup.shown(step.path), "edit": edit, "reason": failed}
            if failed is not None:
                terminal.complain(say("cli.init_failed", self._lang, facts))
            elif edit is not None:
                is_edit = edit and not self._options.remove
                self._say("cli.init_written_edit" if is_edit else written, **facts)
        if self._state is not None and not self._failed:
            self._say("cli.init_state_gone", path=self._state)
        if not self._options.remove:
            for step in (step for step in self._steps if step.line and step.status != "refused"):
                self._say("cli.init_also", what=step.title, line=step.line)
            self._say("cli.init_then")

    def _say(self, key: str, **facts: object) -> None:
        terminal.tell(say(key, self._lang, facts))

    def _data(self) -> list[dict[str, object]]:
        return [
            {
                "what": step.what,
                "path": str(step.path),
                "status": "failed" if step.path in self._failed else step.status,
                "reason": self._failed.get(step.path, step.reason),
                "diff": step.diff(self._setup.shown(step.path)) if step.writes else "",
                "edit_id": self._edits.get(step.path, 0),
                "command": step.line,
            }
            for step in self._steps
        ]


def path_of(place: str, root: Path) -> Path:
    """The path of a place, `BASE/PATH`; `settings` are those of programs that follow XDG."""
    base, _, below = place.partition("/")
    home = Path.home()
    settings = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    of_mac = home / "Library/Application Support"
    return {
        "root": root,
        "home": home,
        "settings": settings,
        "applications": of_mac if sys.platform == "darwin" else settings,
        "codex": Path(os.environ.get("CODEX_HOME") or home / ".codex"),
    }[base] / below


def own_command() -> Sequence[str]:
    """The words that start this copydesk from any folder, now and later."""
    cache = os.environ.get("UV_CACHE_DIR") or os.path.join("~", ".cache", "uv")
    if Path(sys.prefix).is_relative_to(os.path.expanduser(cache)):
        return ("uvx", "copydesk")  # the environment of `uvx` does not last
    beside = Path(sys.executable).with_name(SERVER)
    return (str(beside),) if beside.exists() else (sys.executable, "-m", "copydesk")


def words_of(entry: Mapping[str, Value]) -> list[str]:
    """The command of an entry and its arguments."""
    command, args = entry.get("command"), entry.get("args")
    words = cast("list[Value]", command) if isinstance(command, list) else [command]
    more = cast("list[Value]", args) if isinstance(args, list) else []
    return [str(word) for word in (*words, *more)] or [""]


def is_own(entry: Mapping[str, Value]) -> bool:
    """Whether the entry starts the running copydesk, directly or by its name."""
    (command, *args), (own, *first) = words_of(entry), own_command()
    program = shutil.which(command)
    return (
        program is not None
        and os.path.realpath(program) == os.path.realpath(own)
        and args[: len(first)] == first  # else Python may start another module
    )


Status = Literal["add", "update", "same", "remove", "absent", "refused"]
Planned = tuple[Status, bytes | None, bytes | None]
"""A status, and the bytes of a file before and after; None for a missing file."""

TOOL: Final = "init"
_BOM: Final = b"\xef\xbb\xbf"
_LARGEST: Final = 4 << 20
_READ_ONLY: Final = "it is read-only"
_OURS = re.compile(r"copydesk([-@=\[].*|\.exe|\.app\.cli)?", re.DOTALL)
"""Matches the last part of a word that means copydesk: its name, command, package or module."""


@dataclass(frozen=True, slots=True)
class Step:
    """A planned change of a file; `after` None removes it, `reason` says why it is refused.

    `what` is the client's name, `policy` or `gitignore`; `line` is the client's own command for it,
    and `words` is the command line of the server, from `mcp` on.
    """

    what: str
    title: str
    path: Path
    status: Status
    before: bytes | None = None
    after: bytes | None = None
    reason: str = ""
    line: str = ""
    words: tuple[str, ...] = ()

    @property
    def writes(self) -> bool:
        return self.before != self.after

    @property
    def change(self) -> ChangeSet:
        """The change as one span that begins and ends between characters."""
        before, after = self.before or b"", self.after or b""
        old, new = (data.decode("utf-8", "surrogateescape") for data in (before, after))
        head, tail = common_ends(old, new)
        start, stop, into = (
            len(text.encode("utf-8", "surrogateescape"))
            for text in (old[:head], old[: len(old) - tail], new[: len(new) - tail])
        )
        return ChangeSet.of(len(before), [Edit(start, stop, after[start:into])])

    def diff(self, shown: str) -> str:
        """The unified diff, with `shown` as the name of the file."""
        flags = {"created": self.before is None, "removed": self.after is None}
        diff = unified(Snapshot.of(self.before or b""), self.change, shown, **flags)
        return diff.decode("utf-8", "replace")


class Setup:
    """The setup of one workspace."""

    def __init__(self, root: str, config: Config) -> None:
        self.root, self._config = Path(os.path.realpath(root)), config
        self._record = _Record(self.root, config.state)
        is_limited = config.member in config.members and AGENT not in config.members
        self._member = "" if is_limited else AGENT
        """The member for clients; empty for the configured caller if its rights are listed."""

    def used(self) -> list[Client]:
        """The clients that left traces on this machine or in the workspace."""
        return [
            client
            for client in CLIENTS
            if any(
                os.path.lexists(path_of(trace, self.root))
                for trace in (client.file, *client.traces)
            )
        ]

    def shown(self, path: Path) -> str:
        """A path to show: relative to the root or to the home."""
        if path.is_relative_to(self.root):
            return path.relative_to(self.root).as_posix()
        home = Path.home()
        return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)

    def configured(self) -> Iterator[tuple[Client, Path, str, dict[str, Value]]]:
        """The clients' entries for this workspace: client, file, name, entry."""
        for client in CLIENTS:
            path = path_of(client.file, self.root)
            with suppress(Unreadable, UnicodeError):
                ours = self._ours(client, _value(client, _read(path) or b""))
                yield from ((client, path, name, entry) for name, entry in ours.items())

    def adding(self, clients: Sequence[Client], options: argparse.Namespace) -> list[Step]:
        """The steps that set these clients up, with a policy if the options have an `approval`."""
        steps = [self._client(client, portable=options.portable) for client in clients]
        if options.approval:
            steps.append(self._policy(options.approval, options.path or ()))
        if any((folder / ".git").exists() for folder in (self.root, *self.root.parents)):
            plan = partial(self._added, self._ignoring)
            steps.append(_step("gitignore", "", self.root / ".gitignore", plan))
        return steps

    def removing(self, clients: Sequence[Client] | None) -> list[Step]:
        """The steps that undo the whole setup, or that of these clients."""
        steps = [
            _step(
                client.name,
                client.title,
                path_of(client.file, self.root),
                partial(self._removed, client),
            )
            for client in (CLIENTS if clients is None else clients)
        ]
        if clients is None:
            names = {**dict.fromkeys(FILES, "policy"), ".gitignore": "gitignore"}
            steps += [
                _step(what, "", self.root / name, partial(self._removed, None))
                for name, what in names.items()
            ]
        return steps

    def write(self, step: Step, opened: OpenWorkspace) -> int:
        """Carry out a step; return its edit id or 0. Refusal, OSError leave the file as it was."""
        real = Path(os.path.realpath(step.path))
        missing = [folder for folder in real.parents if not folder.exists()]  # innermost first
        real.parent.mkdir(parents=True, exist_ok=True)
        try:
            edit_id = self._written(step, real, opened)
        except BaseException:  # Ctrl-C too leaves no empty folders behind
            _remove_folders(missing)
            raise
        if step.status != "remove":
            self._record.add(step, edit_id, [str(folder) for folder in missing])
        else:
            folders = self._record.forget(step.path)
            _remove_folders(folders if step.after is None else [])
        return edit_id

    def _written(self, step: Step, real: Path, opened: OpenWorkspace) -> int:
        """Write as an edit of the workspace, if the file is one; return the edit's id or 0."""
        is_inside = real.is_relative_to(self.root) and real != self.root / CONFIG
        member = Member(self._config.member, Rules(state_dir=self._config.state))
        made_by = self._record.of(step.path).get("edit", 0)
        if is_inside and step.after is not None:
            path = RelPath.parse(real.relative_to(self.root).as_posix())
            base = None if step.before is None else Snapshot.of(step.before)
            return opened.desk.rewrite(member, TOOL, path, base, step.change)
        if is_inside and made_by:
            outcome = opened.desk.undo(member, TOOL, made_by)
            if not isinstance(outcome, NotUndone) and not real.exists():
                return outcome.edit_id
        _replace(real, step)
        return 0

    def _added(self, edit: Callable[[str], str], path: Path) -> Planned:
        """The file after this edit of its text."""
        self._check_place(path)
        before = _read(path)
        after = _edited(before or b"", edit)
        if after == (before or b""):
            return "same", before, before
        if before is None:
            return "add", None, after
        if not path.stat().st_mode & 0o222:  # asked, because root may write it all the same
            raise Unreadable(_READ_ONLY)
        return "update", before, after

    def _removed(self, client: Client | None, path: Path) -> Planned:
        """The original file, or else the file without the client's entries."""
        now = _read(path)
        if now is None:
            return "absent", None, None
        if not path.stat().st_mode & 0o222:
            raise Unreadable(_READ_ONLY)
        back = self._record.back(path, now)
        if client is not None and not (back is not None and self._only(client, now, back)):
            self._check_place(path)
            back = _edited(now, partial(self._cut, client))
        elif back == b"" and self._record.of(path).get("made"):
            return "remove", now, None
        return ("absent", now, now) if back in (None, now) else ("remove", now, back)

    def _check_place(self, path: Path) -> None:
        """Raise Unreadable unless a file of the workspace is really in it."""
        real = Path(os.path.realpath(path))  # `Path.resolve` raises for a loop of links
        if path.is_relative_to(self.root) and not real.is_relative_to(self.root):
            raise Unreadable(f"it is a link out of the workspace, to {real}")

    def _client(self, client: Client, *, portable: bool) -> Step:
        plan = partial(self._added, partial(self._with_entry, client, portable=portable))
        step = _step(client.name, client.title, path_of(client.file, self.root), plan)
        if step.status == "refused":
            return step
        name, entry = next(iter(self._ours(client, _value(client, step.after or b"")).items()))
        command = words_of(entry)
        own = [name if word == "NAME" else word for word in client.command.split()]
        line = shlex.join([*own, *command]) if own else ""
        return replace(step, line=line, words=tuple(dropwhile(lambda word: word != "mcp", command)))

    def _with_entry(self, client: Client, text: str, *, portable: bool) -> str:
        """The text with the entry for this workspace."""
        servers = _servers(client, client.format.read(text))
        name = self._name(client, servers)
        entry = self._entry(client, servers.get(name), portable=portable)
        return client.format.put(text, (*client.keys, name), entry)

    def _name(self, client: Client, servers: Mapping[str, dict[str, Value]]) -> str:
        """The name of the entry for this workspace, or of a new one."""
        ours = [name for name, entry in servers.items() if self._is_ours(client, name, entry)]
        if ours or SERVER not in servers:
            return ours[0] if ours else SERVER
        if client.shared:
            raise Unreadable(f'another server has the name "{SERVER}"')
        base = re.sub(r"[^A-Za-z0-9_-]+", "-", f"{SERVER}-{self.root.name}").strip("-")
        names = (base if number == 1 else f"{base}-{number}" for number in count(1))
        return next(name for name in names if name not in servers)

    def _is_ours(self, client: Client, name: str, entry: Mapping[str, Value]) -> bool:
        command, *args = words_of(entry)
        words = (name, command, *takewhile(lambda word: word != "mcp", args))
        if "mcp" not in args[:4] or not any(map(_OURS.fullmatch, map(os.path.basename, words))):
            return False
        root = _taken(args, "--root")
        if client.shared and root in (None, client.root_text):
            return name == SERVER
        return root is not None and os.path.realpath(root) == str(self.root)

    def _ours(self, client: Client, value: Value) -> dict[str, dict[str, Value]]:
        """The entries for this workspace by name."""
        return {
            name: entry
            for name, entry in _servers(client, value).items()
            if self._is_ours(client, name, entry)
        }

    def _entry(
        self, client: Client, old: Mapping[str, Value] | None, *, portable: bool
    ) -> dict[str, Value]:
        """What to set in the entry; the options that the user added to the old one stay.

        A new one has the toolset for agents, unless the configuration names toolsets.
        """
        words = ["mcp", "--root", str(self.root)]
        if old is None and self._config.toolsets == Config().toolsets:
            words += ["--toolsets", EDIT]
        if self._member:
            words += ["--member", self._member]
        command, *first = own_command()
        if portable and client.shared:
            command, first = ("uvx", [SERVER]) if command == "uvx" else (SERVER, [])
            words[1:3] = ["--root", client.root_text] if client.root_text else []
        if old is not None:
            args = words_of(old)
            more = args[args.index("mcp") + 1 :]
            root = _taken(more, "--root")
            is_portable = client.shared and root in (None, client.root_text)
            if (is_portable or (root is not None and not portable)) and is_own(old):
                return {}
            if "--member" in more:  # the user's own choice
                _taken(words, "--member")
            words += more
        if client.in_one:
            return {**dict(client.more), "command": [command, *first, *words]}
        return {**dict(client.more), "command": command, "args": [*first, *words]}

    def _cut(self, client: Client, text: str) -> str:
        """The text without the entries for this workspace."""
        for name in self._ours(client, client.format.read(text)):
            text = client.format.remove(text, (*client.keys, name))
        return text

    def _only(self, client: Client, now: bytes, before: bytes) -> bool:
        """Whether only our entry would be removed: the state folder may come from elsewhere."""
        old, new = _value(client, before), _value(client, now)
        for name in self._ours(client, new):
            new = replaced(new, (*client.keys, name), None)
        return not self._ours(client, old) and tidy(new, client.keys) == tidy(old, client.keys)

    def _policy(self, approval: str, globs: Sequence[str]) -> Step:
        is_project = self._config.source == FILES[1]
        above = ("tool", "copydesk") if is_project else ()
        keys = (*above, "members", self._member or self._config.member)
        fields = {"approval": approval}
        if globs:
            keys, fields = (*keys, "approval_paths"), dict.fromkeys(globs, approval)
        plan = partial(self._added, lambda text: TOML.put(text, keys, fields))
        return _step("policy", "", self.root / FILES[is_project], plan)

    def _ignoring(self, text: str) -> str:
        """What git ignores, with the state folder."""
        state = self._config.state
        ways = {state, f"{state}/", f"/{state}", f"/{state}/", "*"}
        if not ways.isdisjoint(line.strip() for line in text.split("\n")):
            return text
        newline = "\r\n" if "\r\n" in text else "\n"
        lead = newline if text and not text.endswith("\n") else ""
        return f"{text}{lead}{state}/{newline}"


class _Record:
    """The record of executed steps by file, with each new text and the text it replaced."""

    def __init__(self, root: Path, state: str) -> None:
        self._root, self._folder = root, StateFolder(str(root), state)
        self._path = Path(self._folder.path("init.json"))

    def of(self, path: Path) -> dict[str, Any]:
        """What is known of a file: `made` and the id of its `edit` if it was created, `steps`."""
        return self._load().get(self._key(path), {})

    def back(self, path: Path, now: bytes) -> bytes | None:
        """The original bytes, before all recorded steps; None if they are no longer known."""
        steps = self.of(path).get("steps")
        for step in reversed(steps or ()):
            old, new, at = step["old"].encode(), step["new"].encode(), step["at"]
            if sha256(now).hexdigest() != step["after"]:  # the text that was written may have moved
                at = now.find(new) if new and now.count(new) == 1 else -1
            if at < 0 or now[at : at + len(new)] != new:
                return None
            now = now[:at] + old + now[at + len(new) :]
        return now if steps else None

    def add(self, step: Step, edit_id: int, folders: list[str]) -> None:
        """Record a step that was carried out."""
        files, key, is_new = self._load(), self._key(step.path), step.before is None
        if is_new or key not in files:
            files[key] = {
                "what": step.what,
                "made": is_new,
                "edit": edit_id if is_new else 0,
                "folders": folders,
                "steps": [],
            }
        before, after = step.before or b"", step.after or b""
        (edit,) = step.change.edits
        texts = {"old": before[edit.start : edit.stop].decode(), "new": edit.new.decode()}
        files[key]["steps"].append({"at": edit.start, **texts, "after": sha256(after).hexdigest()})
        self._save(files)

    def forget(self, path: Path) -> list[Path]:
        """Forget a file; return the folders that were created for it."""
        files = self._load()
        record = files.pop(self._key(path), {})
        self._save(files)
        return [folder for folder in map(Path, record.get("folders", [])) if folder in path.parents]

    def _key(self, path: Path) -> str:
        return str(path.relative_to(self._root) if path.is_relative_to(self._root) else path)

    def _load(self) -> dict[str, dict[str, Any]]:
        try:
            files = json.loads(self._path.read_text("utf-8"))["files"]
        except (OSError, ValueError, KeyError, TypeError):
            return {}
        return cast("dict[str, dict[str, Any]]", files) if isinstance(files, dict) else {}

    def _save(self, files: Mapping[str, object]) -> None:
        if not files:
            self._path.unlink(missing_ok=True)
            return
        self._folder.make()
        beside = self._path.with_suffix(".new")
        beside.unlink(missing_ok=True)
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump({"files": files}, file, ensure_ascii=False, indent=1)
        os.replace(beside, self._path)


def _step(what: str, title: str, path: Path, plan: Callable[[Path], Planned]) -> Step:
    """The step that was planned, or refused."""
    try:
        return Step(what, title, path, *plan(path))
    except Unreadable as error:
        reason = error.reason
    except UnicodeError:
        reason = "it is not UTF-8"
    return Step(what, title, path, "refused", reason=reason)


def _read(path: Path) -> bytes | None:
    """The bytes of a file, None if it is missing; raises Unreadable."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable("it is no regular file")
        if status.st_size > _LARGEST:
            raise Unreadable("it is too large for a configuration")
        return path.read_bytes()
    except FileNotFoundError:
        if path.is_symlink():
            raise Unreadable("it is a link that leads nowhere") from None
        return None
    except OSError as error:
        raise Unreadable(f"it cannot be read: {error.strerror}") from None


def _edited(data: bytes, edit: Callable[[str], str]) -> bytes:
    """The bytes after an edit of their text; a byte order mark stays. UnicodeError, Unreadable."""
    mark = _BOM if data.startswith(_BOM) else b""
    return mark + edit(data.removeprefix(_BOM).decode("utf-8")).encode("utf-8")


def _value(client: Client, data: bytes) -> Value:
    return client.format.read(data.decode("utf-8-sig"))


def _servers(client: Client, value: Value) -> dict[str, dict[str, Value]]:
    """The servers that are started as programs, by name; the names of others are taken too."""
    section = dig(value, client.keys)
    table = cast("Mapping[str, Value]", section if isinstance(section, Mapping) else {})
    return {
        name: cast("dict[str, Value]", entry) if isinstance(entry, dict) else {}
        for name, entry in table.items()
    }


def _taken(words: list[str], option: str) -> str | None:
    """Remove an option and its value; return the value."""
    at = words.index(option) if option in words[:-1] else len(words)
    taken = words[at : at + 2]
    del words[at : at + 2]
    return taken[1] if taken else None


def _replace(real: Path, step: Step) -> None:
    """Write a file outside the workspace if it is unchanged since it was read."""
    path = RelPath.parse(real.name)
    try:
        with Files(str(real.parent)) as files:
            if step.before is None:
                files.create(path, step.after or b"")
                return
            _, stamp, digest = files.digest(path)
            if digest != sha256(step.before).hexdigest():
                raise TargetMoved
            if step.after is None:
                files.remove(path, stamp, digest)
            else:
                files.replace(path, stamp, digest, [step.after], before_in_place=lambda old: None)
    except TargetMoved:
        raise Unreadable("it changed meanwhile") from None


def _remove_folders(folders: Sequence[Path]) -> None:
    for folder in folders:
        with suppress(OSError):  # something else is in it by now
            folder.rmdir()
