"""The command-line grammar, including the arguments of a tool after `copydesk call`."""

from __future__ import annotations

import argparse
import json
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any, Literal, NoReturn, TextIO, cast

Lang = Literal["en", "zh"]  # as in `tools/report.py`, which would make help slow

_LONGEST = 100  # characters of an unknown name that the error repeats


class UsageError(Exception):
    """The command line is invalid; `hint` is the next step."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def unknown(kind: str, name: str, known: Iterable[str], hint: str = "") -> UsageError:
    """The error for an unknown name; it lists similar names."""
    from copydesk.app.config import perhaps  # only imported after a mistake

    return UsageError(f"no {kind} {name[:_LONGEST]!r}{perhaps(name, known)}", hint)


DIALECTS = ("mcp", "openai", "openai-strict", "anthropic", "gemini")
_OWN = ("root", "member", "lang")
"""copydesk's own options that take a value, before or after the command."""

SHELLS = ("bash", "zsh", "fish")

FIRST_STEPS = """\
copydesk: agents' edits are prepared, shown, checked, applied once, and can be undone.

  copydesk init                  set it up in your MCP clients
  copydesk init --approval human the same, and you approve what agents write
  copydesk up                    the same, with the review page in the background
  copydesk serve                 open the review page
  copydesk watch                 see what agents do, as it happens
  copydesk demo                  a guided tour on a copy of real text
  copydesk demo review           three agents at work, and you decide

copydesk --help shows all commands, copydesk help COMMAND one of them.
"""
"""Printed when `copydesk` is called without a command."""

_DESCRIPTION = """\
The copy desk for AI agents: every edit is prepared, shown, checked,
applied once, and can be undone.
"""

_EPILOG = """\
a first edit:
  copydesk call prepare_file_range_edit --path notes.txt --range 2 --content 'a new line'
  copydesk pending
  copydesk apply HUNK
  copydesk history --diff
  copydesk undo EDIT

exit status:
  0  done
  1  refused, nothing was written; a discard failed; doctor or recover found a fault
  2  the command line, the configuration or the workspace cannot be used

--root, --member, --lang and --json may come before or after the command. With --json, standard
output is one JSON value, also for a refusal: {"status": "error", "error": CODE, "summary": ...};
for several discards it is a list.

environment: COPYDESK_ROOT, NO_COLOR, and settings such as COPYDESK_MEMBER, COPYDESK_LANG
"""

_EPILOGS = {
    "call": """\
  copydesk call                             all tools
  copydesk call TOOL --help                 arguments of a tool
  copydesk call TOOL '{"path": "a.txt"}'    arguments as JSON
  copydesk call TOOL - < arguments.json     JSON from standard input
  copydesk call TOOL --path a.txt --range 1~9
  copydesk call TOOL --edits '[{...}, {...}]'    a list; or repeat --edits '{...}'
"""
}


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse the command line; raises UsageError."""
    command = next(_plain_words(words), None)
    if command is not None and command not in COMMANDS:
        raise unknown("command", command, COMMANDS, "copydesk --help shows them.")
    parser = new_parser(partial(language, words), None if {"-h", "--help"} & {*words} else command)
    none = argparse.Namespace(root=None, member=None, lang=None, json=False)
    options, extra = parser.parse_known_args(words, none)
    if extra:
        named = "copydesk" if command is None else f"copydesk {command}"
        raise UsageError(f"unrecognized arguments: {' '.join(extra)}", f"{named} --help shows how.")
    return options


def language(words: Sequence[str]) -> Lang:
    """The language of help and of errors: of --lang, the environment or the configuration.

    It is known before the words are parsed, since errors of that are in it too.
    """
    given = dict(pairwise(words))
    given |= dict(word.split("=", 1) for word in words if "=" in word)
    root = given.get("--root") or os.environ.get("COPYDESK_ROOT") or os.curdir
    lang = given.get("--lang") or os.environ.get("COPYDESK_LANG")
    if lang:
        return "zh" if lang == "zh" else "en"
    if any(
        _names_chinese(os.path.join(root, name)) for name in ("copydesk.toml", "pyproject.toml")
    ):
        from copydesk.app.config import ConfigError, load

        with suppress(ConfigError, OSError):
            return load(root).lang
    return "en"


def _names_chinese(path: str) -> bool:
    """Whether a configuration may name Chinese; most do not, and are not read as such for help."""
    with suppress(OSError), open(path, "rb") as file:
        return b"zh" in file.read()
    return False


def said(text: str, lang: Lang) -> str:
    """The lines of an English text in a language, as far as they are translated."""
    if lang == "en":
        return text
    from copydesk.tools.messages import say_reason

    return "\n".join(say_reason(line, lang) for line in text.split("\n"))


def _plain_words(words: Sequence[str]) -> Iterator[str]:
    """The words that are neither copydesk's own options nor their values."""
    rest = iter(words)
    for word in rest:
        if word.startswith("--") and word[2:] in _OWN:
            next(rest, None)
        elif not word.startswith("-"):
            yield word


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Help in a language, with the words of argparse itself."""

    def __init__(self, prog: str, *, lang: Callable[[], Lang]) -> None:
        super().__init__(prog)
        self._lang = lang

    def add_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[Any],
        prefix: str | None = None,
    ) -> None:
        prefix = said("usage: ", self._lang()) if prefix is None else prefix
        super().add_usage(usage, actions, groups, prefix)

    def start_section(self, heading: str | None) -> None:
        super().start_section(said(heading or "", self._lang()))

    def add_text(self, text: str | None) -> None:
        """Add an epilog; or the description of a command, its line of help as a sentence."""
        lines = said(text or "", self._lang())
        if "\n" not in lines:
            lines = f"{lines[:1].upper()}{lines[1:]}{'.' if lines.isascii() else '。'}"
        super().add_text(lines if text else None)

    def _get_help_string(self, action: argparse.Action) -> str:
        return said(action.help or "", self._lang())


class _Parser(argparse.ArgumentParser):
    """A parser that raises errors as UsageError."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, f"{self.prog} --help shows how.")


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 999999999")
    return int(text)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 6 and int(text) < 65536):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port (0 to 65535)")
    return int(text)


def _label(text: str) -> str:
    if not re.fullmatch(r"[^\x00-\x1f\x7f\x85\u2028\u2029]{0,200}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not one line of at most 200 characters")
    return text


_Argument = tuple[tuple[str, ...], dict[str, Any]]
"""What `add_argument` takes."""


def _argument(*names: str, **settings: Any) -> _Argument:
    return names, settings


_FILE = _argument("file", nargs="?", metavar="FILE", help="default: standard input")
_PLAN = _argument("hunk_id", metavar="HUNK", help="plan id, as in copydesk pending")
_PLANS = _argument("hunk_id", nargs="+", metavar="HUNK", help="plan ids, as in copydesk pending")
_AFTER = _argument(
    "--after",
    default="",
    metavar="DIGEST",
    help="only if the file has this digest afterwards, as copydesk show names it",
)
_COMMON = [
    _argument("--root", help="workspace folder (default: COPYDESK_ROOT, else the current folder)"),
    _argument("--member", help="member name (default: from the configuration)"),
    _argument("--lang", choices=("en", "zh"), help="message language"),
    _argument("--json", action="store_true", help="print data for programs"),
]
_SERVER = [
    _argument(
        "--toolsets", help="comma-separated: ws_mod, edit, batch, notes, team_mgmt, compat, patch"
    )
]
_CLIENT = _argument(
    "--client",
    action="append",
    metavar="NAME",
    help="only this client (repeatable): claude-code, codex, cursor, vscode, zed, "
    "windsurf, gemini-cli, opencode, claude-desktop (default: all that are installed)",
)
_WITHIN = [
    _argument("--name", default="", help="only documents with this in their title"),
    _argument("--folder", default="", help="only documents below this path of titles"),
]
_APPROVAL = _argument(
    "--approval",
    choices=("human", "self"),
    help="who approves agents' edits: you (human) or the agents (self)",
)
_YES = _argument("--yes", "-y", action="store_true", help="do not ask")
_NO_BROWSER = _argument(
    "--no-browser", dest="browser", action="store_false", help="open no browser"
)
_WIRE = [
    _argument(
        "--structured", action="store_true", help="send results as data for programs as well"
    ),
    _argument(
        "--apply",
        choices=("never", "auto"),
        help="default of the apply argument, unless the member has its own setting;"
        " auto: write certain edits at once",
    ),
    _argument(
        "--task",
        dest="label",
        type=_label,
        metavar="TASK",
        help="label of the task that its edits are of, where a call does not name another",
    ),
]
_CHANGES = [
    _argument("--task", metavar="TASK", help="only edits of this task, as in changes --stat"),
    _argument(
        "--since",
        metavar="WHEN",
        help="only edits since then: 2h, 3d or a checkpoint (default: a week ago);"
        " with --member, only edits of this member",
    ),
]
_Commands = Mapping[str, tuple[str, Sequence[_Argument]]]
"""What each command does, and its arguments."""

COMMANDS: _Commands = {
    "init": (
        "set up copydesk in your MCP clients",
        [
            _CLIENT,
            _APPROVAL,
            _argument(
                "--path",
                action="append",
                metavar="GLOB",
                help="with --approval: only for these paths (repeatable)",
            ),
            _argument(
                "--portable",
                action="store_true",
                help="write no machine-specific paths into files of the workspace",
            ),
            _argument("--remove", action="store_true", help="remove what init wrote"),
            _argument(
                "--state",
                action="store_true",
                help="with --remove: the state folder too, with all history",
            ),
            _argument("--dry-run", action="store_true", help="show what would change"),
            _YES,
        ],
    ),
    "mcp": ("run the MCP server on standard input and output", [*_SERVER, *_WIRE]),
    "serve": (
        "run the MCP server over HTTP, at /mcp, with the review page",
        [
            *_SERVER,
            *_WIRE,
            _argument("--host", default="127.0.0.1", help="default: 127.0.0.1"),
            _argument("--port", type=_port, default=8427, help="default: 8427"),
        ],
    ),
    "up": (
        "set up the clients, serve in the background, and open the review page",
        [
            _CLIENT,
            _APPROVAL,
            _YES,
            _NO_BROWSER,
            _argument("--port", type=_port, help="default: 8427, or any that is free"),
        ],
    ),
    "down": ("end the server that up has started", []),
    "hook": ("run the Edit or Write of a Claude Code hook, read from standard input", []),
    "demo": (
        "run a guided tour on a copy of real text",
        [
            _argument("story", nargs="?", choices=("files", "notes", "review"), default="files"),
            _NO_BROWSER,
            _argument("--port", type=_port, default=0, help="of the review (default: a free one)"),
            _argument("--keep", action="store_true", help="keep the workspace of the tour"),
        ],
    ),
    "call": (
        "call a tool with JSON, or with --name value for each argument",
        [
            _argument("tool", nargs="?", help="tool name; without it, all tools are listed"),
            _argument("arguments", nargs=argparse.REMAINDER, help="JSON, -, or --name value ..."),
        ],
    ),
    "pending": ("list pending plans", []),
    "show": ("show one plan with its diff", [_PLAN]),
    "apply": (
        "apply plans: several together, all or none",
        [
            _PLANS,
            _argument(
                "--approve",
                action="store_true",
                help="approve them as they are shown, and write them for their owners",
            ),
            _AFTER,
            _argument(
                "--accept",
                action="append",
                default=[],
                metavar="CHECK",
                help="write despite the findings of this check, whose mode is ask (repeatable)",
            ),
        ],
    ),
    "apply-patch": (
        "apply a patch in apply_patch format, all or none",
        [_argument("patch", nargs="?", metavar="PATCH", help="default: standard input")],
    ),
    "diff": ("print the diff of a plan, for git apply", [_PLAN]),
    "approve": (
        "approve plans as copydesk show displays them",
        [
            _PLANS,
            _AFTER,
        ],
    ),
    "reject": (
        "reject plans with a reason",
        [
            _PLANS,
            _argument("--reason", required=True, help="the reason for the plan's owner"),
        ],
    ),
    "review": (
        "review pending plans one by one: approve, reject, edit or split",
        [
            _argument(
                "--done",
                action="store_true",
                help="review what was written instead: keep, undo or edit each change",
            ),
            *_CHANGES,
        ],
    ),
    "changes": (
        "show what was changed and is neither kept nor undone, as a diff for git apply",
        [
            *_CHANGES,
            _argument("--stat", action="store_true", help="list tasks, or the changes of one"),
        ],
    ),
    "keep": (
        "keep changes: they are yours from now on, and no longer shown",
        [
            _argument(
                "change",
                nargs="*",
                metavar="CHANGE",
                help="as in changes --stat --task TASK, or a file (default: all that are selected)",
            ),
            *_CHANGES,
            _argument("--stage", action="store_true", help="git add them, and nothing else"),
        ],
    ),
    "checkpoint": (
        "give this moment a name, for undo --to and --since; without a name, list them",
        [_argument("name", nargs="?", metavar="NAME")],
    ),
    "discard": ("discard plans", [_PLANS]),
    "history": (
        "list recent edits",
        [
            _argument(
                "path", nargs="?", help="a file or folder, relative to the root (default: all)"
            ),
            _argument("--most", type=_positive, default=20, help="how many (default: 20)"),
            _argument("--diff", action="store_true", help="show the diff of each"),
        ],
    ),
    "approvals": (
        "print approved edits as JSON lines, or check such a log",
        [_argument("--check", metavar="FILE", help="compare an earlier log with the journal")],
    ),
    "recover": ("recover unfinished writes of crashed processes", []),
    "undo": (
        "undo an edit, or all of a task, even if other lines were edited since",
        [
            _argument(
                "edit_id",
                nargs="?",
                type=_positive,
                metavar="EDIT",
                help="edit number, as in copydesk history",
            ),
            _argument(
                "--transaction",
                action="store_true",
                help="undo all edits of its transaction, or none",
            ),
            *_CHANGES,
            _argument("--to", metavar="CHECKPOINT", help="go back to this checkpoint"),
            _argument(
                "--reason", default="", help="the reason for the members whose edits they are"
            ),
            _argument(
                "--partly",
                action="store_true",
                help="undo the rest if some cannot be undone (default: all or none)",
            ),
        ],
    ),
    "reapply": (
        "make an edit again that was undone, or that another program overwrote",
        [
            _argument(
                "edit_id",
                type=_positive,
                metavar="EDIT",
                help="edit number, as in copydesk history",
            )
        ],
    ),
    "forget": (
        "remove the texts of edits from all that copydesk keeps",
        [
            _argument(
                "what",
                nargs="?",
                metavar="PATH|EDIT",
                help="a file, a folder or an edit number; without it, --member says whose edits",
            ),
            _argument("--dry-run", action="store_true", help="show what would go"),
            _YES,
        ],
    ),
    "schema": (
        "print the tool definitions for other agent frameworks",
        [*_SERVER, _argument("--dialect", choices=DIALECTS, default="mcp", help="default: mcp")],
    ),
    "manual": (
        "print a manual; without a toolset, list them",
        [_argument("toolset", nargs="?"), _argument("topic", nargs="?", help="default: index")],
    ),
    "notes": ("work on notes by blocks: ls, cat, diff, append, new, daily, search", []),
    "watch": (
        "show what agents do, as it happens",
        [
            _argument(
                "--seconds", type=_positive, help="end after this many seconds (default: at Ctrl-C)"
            )
        ],
    ),
    "completion": (
        "print the completion script of a shell",
        [
            _argument("shell", nargs="?", choices=(*SHELLS, "words"), metavar="SHELL"),
            _argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS),
        ],
    ),
    "help": (
        "show the options of a command or a tool",
        [_argument("words", nargs="*", metavar="COMMAND")],
    ),
    "trust": (
        "allow the commands of [checks] in this workspace's configuration to run",
        [
            _argument("--yes", action="store_true", help="do not ask"),
            _argument("--revoke", action="store_true", help="revoke the permission"),
        ],
    ),
    "doctor": (
        "check the workspace and report problems with their fixes",
        [
            _argument(
                "--repair",
                action="store_true",
                help="rename damaged state files so that new ones are created; nothing is deleted",
            )
        ],
    ),
}
_NOTES_COMMANDS: _Commands = {
    "ls": (
        "list notebooks and their documents, or the blocks of a document",
        [
            _argument("block_id", nargs="?", metavar="ID"),
            _argument(
                "--most",
                type=int,
                default=1_000,
                help="how many documents of each notebook (default: 1000)",
            ),
            *_WITHIN,
        ],
    ),
    "cat": (
        "print a document or a block",
        [
            _argument("block_id", metavar="ID"),
            _argument("--ids", action="store_true", help="print each block under its @@id@@"),
            _argument("--slice", help="only some blocks, such as 0:5 or ID:+10"),
        ],
    ),
    "diff": (
        "apply a block diff, all or none",
        [
            _FILE,
            _argument("--dry-run", action="store_true", help="check it and show what would change"),
            _argument("--plan", action="store_true", help="only plan it, for copydesk apply"),
            _argument("--loose", action="store_true", help="white space in SEARCH may differ"),
            _argument(
                "--drop-anchors",
                action="store_true",
                help="allow removing a ^name that links lead to",
            ),
        ],
    ),
    "append": (
        "append text to a document or a block",
        [
            _argument("block_id", metavar="ID"),
            _FILE,
        ],
    ),
    "new": (
        "create a document next to, below or above another one",
        [
            _argument("title"),
            _argument("anchor_id", metavar="ID", help="the other document"),
            _argument("--location", choices=("siblings", "children", "parent"), default="siblings"),
            _argument("--file", help="its text; - for standard input"),
        ],
    ),
    "daily": (
        "append text to today's note",
        [
            _FILE,
            _argument("--notebook", help="notebook id, if there are several"),
        ],
    ),
    "search": (
        "find blocks that contain all words",
        [
            _argument("words", nargs="+", metavar="WORD"),
            _argument("--most", type=int, default=20, help="how many (default: 20)"),
            *_WITHIN,
        ],
    ),
}


def new_parser(
    lang: Callable[[], Lang] = lambda: "en", only: str | None = None
) -> argparse.ArgumentParser:
    """The parser, whose help is in the language then; `only` for one command.

    A run needs its own, and the parsers of all commands take longer than a small edit.
    """
    common = _Parser(add_help=False, argument_default=argparse.SUPPRESS)
    for names, settings in _COMMON:
        common.add_argument(*names, **settings)
    look: dict[str, Any] = {
        "formatter_class": partial(_Formatter, lang=lang),
        "parents": [common],
        "allow_abbrev": False,
    }
    parser = _Parser(prog="copydesk", description=_DESCRIPTION, epilog=_EPILOG, **look)
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    named = COMMANDS if only is None else {only: COMMANDS[only]}
    commands = _add_commands(parser, look, named, dest="command")
    if "notes" in commands:
        _add_commands(commands["notes"], look, _NOTES_COMMANDS, dest="notes", required=True)
    return parser


def _add_commands(
    parser: argparse.ArgumentParser, look: Mapping[str, Any], commands: _Commands, **settings: Any
) -> Mapping[str, argparse.ArgumentParser]:
    """Add these commands to a parser; return the parser of each."""
    added = parser.add_subparsers(metavar="COMMAND", title="commands", **settings)
    for name, (words, arguments) in commands.items():
        command = added.add_parser(
            name, help=words, description=words, epilog=_EPILOGS.get(name), **look
        )
        for names, argument in arguments:
            command.add_argument(*names, **argument)
    return added.choices


_FLAGS = ("json", "help")
_MOST_DIGITS = 18


def read_arguments(
    tool: str, words: Sequence[str], schema: Mapping[str, Any], stdin: TextIO
) -> tuple[object, Mapping[str, str]]:
    """The arguments of a tool from the words after its name, a JSON value; raises UsageError.

    Besides them, copydesk's own options by name; a flag is "true".
    """
    known: Mapping[str, Any] = schema["properties"]
    texts: list[str] = []
    named: dict[str, object] = {}
    own: dict[str, str] = {}
    rest = deque(words)
    while rest:
        word = rest.popleft()
        if not word.startswith("--") and word != "-h":
            texts.append(word)
            continue
        spelled, mark, value = word.lstrip("-").partition("=")
        name = "help" if word == "-h" else spelled.replace("-", "_")
        form = cast("Mapping[str, Any]", known.get(name, {}))
        if not mark:
            flag = not form and name in _FLAGS
            value = "true" if flag else _next_value(tool, name, form, rest)
        if not form and name in (*_OWN, *_FLAGS):
            own[name] = value
        elif form.get("type") == "array":
            named[name] = [
                *cast("list[object]", named.get(name, [])),
                *_items(tool, name, value, form["items"]),
            ]
        elif name in named:
            raise _wrong(tool, f"--{name} is given twice")
        else:
            named[name] = _typed(value, form)
    if len(texts) > 1 or (texts and named):
        extra = texts[1] if len(texts) > 1 else texts[0]
        raise _wrong(
            tool, f"give one JSON object or --name value arguments, not {extra[:100]!r} as well"
        )
    if not texts or "help" in own:
        return named, own
    if texts[0] == "-":
        return _of_json(tool, stdin.read(), "standard input"), own
    return _of_json(tool, texts[0], repr(texts[0][:60])), own


def _of_json(tool: str, text: str, what: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _wrong(tool, f"{what} is not valid JSON ({error})") from None


def _next_value(tool: str, name: str, form: Mapping[str, Any], rest: deque[str]) -> str:
    if form.get("type") == "boolean" and not (rest and rest[0] in ("true", "false")):
        return "true"
    if not rest or (not form and name not in _OWN and rest[0].startswith("--")):
        if form or name in _OWN:
            raise _wrong(tool, f"--{name}: its value is missing")
        return ""  # an argument that the tool does not have; the argument check reports it
    return rest.popleft()


def _items(tool: str, name: str, text: str, form: Mapping[str, Any]) -> Sequence[object]:
    """What a value adds to a list: all items of a JSON array, else itself."""
    kind, value = form["type"], None
    try:
        value = _of_json(tool, text, f"--{name} {text[:60]!r}")
    except UsageError:
        if kind == "object":
            raise
    items = cast("list[object] | None", value if text.lstrip().startswith("[") else None)
    if items is not None and (kind != "string" or all(isinstance(item, str) for item in items)):
        return items  # of texts: [0] is a glob
    return [value if kind == "object" else _typed(text, form)]


def _typed(text: str, form: Mapping[str, Any]) -> object:
    kinds = [form.get("type"), *(part.get("type") for part in form.get("anyOf", []))]
    digits = text.removeprefix("-")
    if "integer" in kinds and digits.isascii() and digits.isdigit() and len(digits) < _MOST_DIGITS:
        return int(text)
    return text == "true" if "boolean" in kinds and text in ("true", "false") else text


def _wrong(tool: str, message: str) -> UsageError:
    return UsageError(f"{tool}: {message}", f"copydesk call {tool} --help shows its arguments.")
