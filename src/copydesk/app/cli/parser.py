"""The grammar of the command line, of the arguments of a tool, and the error when it is not met."""

from __future__ import annotations

import argparse
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TextIO, cast

_LONGEST = 100


class UsageError(Exception):
    """The command line asks for what there is not; `hint` is the next step."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def unknown(kind: str, name: str, known: Iterable[str], hint: str = "") -> UsageError:
    """The error for a name that there is not, with the close ones."""
    from copydesk.app.config import perhaps  # only a mistake pays for it

    return UsageError(f"no {kind} {name[:_LONGEST]!r}{perhaps(name, known)}", hint)


DIALECTS = ("mcp", "openai", "openai-strict", "anthropic", "gemini")
_OPTIONS_WITH_VALUE = ("--root", "--member", "--lang")

_EPILOG = """\
a first edit:
  copydesk call prepare_file_range_edit --path notes.txt --range 2 --content 'a new line'
  copydesk pending
  copydesk apply HUNK
  copydesk history --diff
  copydesk undo EDIT

exit status:
  0  done
  1  refused: nothing was written; or not all discards, a fault found by doctor, doubts of recover
  2  the command line, the configuration or the workspace cannot be used

--root, --member, --lang and --json may stand before or after the command. With --json, standard
output is one JSON value, of a refusal too: {"status": "error", "error": CODE, "summary": ...};
for several discards it is a list.

environment: COPYDESK_ROOT, NO_COLOR, and settings such as COPYDESK_MEMBER, COPYDESK_LANG
"""

_CALL_EPILOG = """\
  copydesk call                             all tools
  copydesk call TOOL --help                 what a tool takes
  copydesk call TOOL '{"path": "a.txt"}'    arguments as JSON
  copydesk call TOOL - < arguments.json     JSON from standard input
  copydesk call TOOL --path a.txt --range 1~9
"""


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The options; raises UsageError."""
    parser, names = new_parser()
    command = next(_plain_words(words), None)
    if command is not None and command not in names:
        raise unknown("command", command, names, "copydesk --help shows them.")
    none = argparse.Namespace(root=None, member=None, lang=None, json=False)
    return parser.parse_args(words, none)


def _plain_words(words: Sequence[str]) -> Iterator[str]:
    """The words that are no options of copydesk itself, nor values of such."""
    rest = iter(words)
    for word in rest:
        if word in _OPTIONS_WITH_VALUE:
            next(rest, None)
        elif not word.startswith("-"):
            yield word


class _Parser(argparse.ArgumentParser):
    """A parser that raises its errors."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        raise UsageError(message, f"{self.prog} --help shows how.")


def new_parser() -> tuple[argparse.ArgumentParser, list[str]]:
    """The parser, and the names of the commands."""
    common = _Parser(add_help=False, argument_default=argparse.SUPPRESS)
    common.add_argument("--root", help="the workspace (default: COPYDESK_ROOT, else here)")
    common.add_argument("--member", help="who calls (default: from the configuration)")
    common.add_argument("--lang", choices=("en", "zh"), help="the language of the words")
    common.add_argument("--json", action="store_true", help="print data for programs")
    server = _Parser(add_help=False)
    server.add_argument(
        "--toolsets", help="comma-separated: ws_mod, batch, notes, team_mgmt, compat"
    )
    wire = _Parser(add_help=False)
    wire.add_argument("--no-structured", action="store_true", help="send results as text only")
    parser = _Parser(
        prog="copydesk",
        description="The copy desk for AI agents: every edit is prepared, shown, checked,\n"
        "applied once, and can be taken back.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[common],
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and end")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")

    def add(name: str, words: str, *parents: _Parser) -> _Parser:
        return commands.add_parser(
            name,
            help=words,
            description=f"{words[0].upper()}{words[1:]}.",
            parents=[common, *parents],
            allow_abbrev=False,
        )

    add("mcp", "the MCP server on standard input and output", server, wire)
    serve = add("serve", "the MCP server over HTTP, at /mcp, and the review page", server, wire)
    serve.add_argument("--host", default="127.0.0.1", help="default: 127.0.0.1")
    serve.add_argument("--port", type=_port, default=8427, help="default: 8427")
    demo = add("demo", "a guided run on a copy of real text")
    demo.add_argument("story", nargs="?", choices=("files", "notes"), default="files")
    demo.add_argument("--keep", action="store_true", help="keep the workspace of the run")
    call = add("call", "call a tool: with JSON, or --name value for each argument")
    call.epilog, call.formatter_class = _CALL_EPILOG, argparse.RawDescriptionHelpFormatter
    call.add_argument("tool", nargs="?", help="its name; without it, all tools are listed")
    call.add_argument("arguments", nargs=argparse.REMAINDER, help="JSON, -, or --name value ...")
    add("pending", "the plans that wait")
    show = add("show", "one plan, with its diff")
    show.add_argument("hunk_id", metavar="HUNK")
    apply = add("apply", "write plans: several together, all or none")
    apply.add_argument("hunk_id", nargs="+", metavar="HUNK")
    approve = add("approve", "approve plans, as copydesk show has them")
    approve.add_argument("hunk_id", nargs="+", metavar="HUNK")
    approve.add_argument("--after", default="", help="the digest that the file shall come to")
    reject = add("reject", "reject plans: they are not written, and their members hear why")
    reject.add_argument("hunk_id", nargs="+", metavar="HUNK")
    reject.add_argument("--reason", required=True, help="what the member is told")
    add("review", "step through the plans that wait: approve, reject, edit, split each")
    discard = add("discard", "let plans go")
    discard.add_argument("hunk_id", nargs="+", metavar="HUNK")
    history = add("history", "the last edits: of all files, of one, of what is in a folder")
    history.add_argument("path", nargs="?", help="relative to the root")
    history.add_argument("--most", type=_positive, default=20, help="how many (default: 20)")
    history.add_argument("--diff", action="store_true", help="with what each changed")
    add("recover", "settle what processes that died have left half done, and tell it")
    undo = add("undo", "take an edit back, also after later edits of other lines")
    undo.add_argument("edit_id", type=_positive, metavar="EDIT", help="its number in history")
    schema = add("schema", "the tool definitions for other harnesses", server)
    schema.add_argument("--dialect", choices=DIALECTS, default="mcp", help="default: mcp")
    manual = add("manual", "the manuals; without a toolset, what there is")
    manual.add_argument("toolset", nargs="?")
    manual.add_argument("topic", nargs="?", help="default: index")
    notes = add("notes", "notes by blocks: ls, cat, diff, append, new, daily, search")
    inner = notes.add_subparsers(dest="notes", metavar="COMMAND", title="commands", required=True)
    _add_notes_commands(
        lambda name, words: inner.add_parser(
            name,
            help=words,
            description=f"{words[0].upper()}{words[1:]}.",
            parents=[common],
            allow_abbrev=False,
        )
    )
    doctor = add("doctor", "what was found, what is wrong, and how to fix it")
    doctor.add_argument(
        "--repair",
        action="store_true",
        help="rename state files that are damaged, so that new ones are begun; nothing is deleted",
    )
    return parser, list(commands.choices)


def _add_notes_commands(add: Callable[[str, str], argparse.ArgumentParser]) -> None:
    """The grammar of the commands below `copydesk notes`; `add` makes the parser of one."""
    ls = add("ls", "notebooks and their documents, or the blocks of a document")
    ls.add_argument("block_id", nargs="?", metavar="ID")
    ls.add_argument("--most", type=int, default=1_000, help="so many documents of each notebook")
    cat = add("cat", "the text of a document or a block")
    cat.add_argument("block_id", metavar="ID")
    cat.add_argument("--ids", action="store_true", help="each block under its @@id@@")
    cat.add_argument("--slice", help="some of the blocks, such as 0:5 or ID:+10")
    diff = add("diff", "make a block diff, all of it or nothing")
    diff.add_argument("file", nargs="?", metavar="FILE", help="default: standard input")
    diff.add_argument("--dry-run", action="store_true", help="check it and show what would change")
    diff.add_argument("--plan", action="store_true", help="prepare it, for copydesk apply")
    diff.add_argument("--loose", action="store_true", help="white space in SEARCH may differ")
    append = add("append", "put text at the end of a document or a block")
    append.add_argument("block_id", metavar="ID")
    append.add_argument("file", nargs="?", metavar="FILE", help="default: standard input")
    new = add("new", "make a document beside, below or above another one")
    new.add_argument("title")
    new.add_argument("anchor_id", metavar="ID", help="the other document")
    new.add_argument("--location", choices=("siblings", "children", "parent"), default="siblings")
    new.add_argument("--file", help="its text; - for standard input")
    daily = add("daily", "put text at the end of today's note")
    daily.add_argument("file", nargs="?", metavar="FILE", help="default: standard input")
    daily.add_argument("--notebook", help="its id, where there are several")
    search = add("search", "find blocks that hold all words")
    search.add_argument("words", nargs="+", metavar="WORD")
    search.add_argument("--most", type=int, default=20, help="how many (default: 20)")


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 to 999999999")
    return int(text)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 6 and int(text) < 65536):
        raise argparse.ArgumentTypeError(f"{text!r} is no port (0 to 65535)")
    return int(text)


Own = Mapping[str, str]
"""copydesk's own options by name; a flag is "true"."""

_OWN = ("root", "member", "lang")
_FLAGS = ("json", "help")
_MOST_DIGITS = 18


@dataclass(frozen=True, slots=True)
class ToolWords:
    """What stands after a tool's name.

    `text` is JSON (or `-`), None when there is none; `named` are arguments
    by name.
    """

    tool: str
    text: str | None
    named: Mapping[str, object]
    own: Own

    def arguments(self, stdin: TextIO) -> object:
        """The arguments, as JSON would give them; raises UsageError."""
        if self.text is None:
            return dict(self.named)
        text, where = (stdin.read(), "standard input") if self.text == "-" else (self.text, "")
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            what = where or repr(text[:60])
            raise _wrong(self.tool, f"{what} is no JSON ({error})") from None


def read_arguments(tool: str, words: Sequence[str], schema: Mapping[str, Any]) -> ToolWords:
    """Tell apart the words after a tool's name; raises UsageError."""
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
            named[name] = [*cast("list[object]", named.get(name, [])), value]
        elif name in named:
            raise _wrong(tool, f"--{name} is given twice")
        else:
            named[name] = _typed(value, form)
    if len(texts) > 1 or (texts and named):
        extra = texts[1] if len(texts) > 1 else texts[0]
        raise _wrong(tool, f"one JSON, or --name value for each, but not {extra[:100]!r} too")
    return ToolWords(tool, texts[0] if texts else None, named, own)


def _next_value(tool: str, name: str, form: Mapping[str, Any], rest: deque[str]) -> str:
    """The value that stands after a name."""
    if form.get("type") == "boolean" and not (rest and rest[0] in ("true", "false")):
        return "true"
    if not rest or (not form and name not in _OWN and rest[0].startswith("--")):
        if form or name in _OWN:
            raise _wrong(tool, f"--{name}: its value is missing")
        return ""  # an argument that the tool does not have: the wire says so
    return rest.popleft()


def _typed(text: str, form: Mapping[str, Any]) -> object:
    kinds = [form.get("type"), *(part.get("type") for part in form.get("anyOf", []))]
    digits = text.removeprefix("-")
    if "integer" in kinds and digits.isascii() and digits.isdigit() and len(digits) < _MOST_DIGITS:
        return int(text)
    if "boolean" in kinds and text in ("true", "false"):
        return text == "true"
    return text


def _wrong(tool: str, message: str) -> UsageError:
    return UsageError(f"{tool}: {message}", f"copydesk call {tool} --help shows what it takes.")
