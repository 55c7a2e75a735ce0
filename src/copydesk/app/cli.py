"""The command `copydesk`: what can be said on the command line.

What lives here: the grammar of the command line, and no import that is heavy
(each command fetches its own when it runs). Exit status: 0 done, 1 refused,
2 the command line, the configuration or the workspace cannot be used.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Iterator, Sequence
from typing import NoReturn, TextIO

from copydesk import __version__
from copydesk.app.notes_grammar import add_commands
from copydesk.app.usage import UsageError, unknown

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


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    _stand_in_for_closed()
    _speak_utf_8(sys.stdin, "surrogateescape")
    _speak_utf_8(sys.stdout, "backslashreplace")
    _speak_utf_8(sys.stderr, "backslashreplace")
    try:
        status = _run(words)
        sys.stdout.flush()
    except OSError as error:
        # The reader has gone (`| head`), or the disk is full: what Python still holds goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return 1
        print(f"copydesk: standard output: {error.strerror}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return status


def _stand_in_for_closed() -> None:
    """Open in the place of a standard stream that is closed one that goes nowhere.

    Else the next file that is opened gets its number, and what is printed is in that file.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # it takes the lowest number that is free
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115  # it stays open


def _speak_utf_8(stream: TextIO, errors: str) -> None:
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(encoding="utf-8", errors=errors)


def _run(words: Sequence[str]) -> int:
    try:
        options = _parsed(words)
    except UsageError as error:
        from copydesk.app.failing import report

        return report(error, as_json="--json" in words)
    if options.version:
        print(f'{{"version": "{__version__}"}}' if options.json else f"copydesk {__version__}")
        return 0
    if options.command is None:
        _parser()[0].print_help(sys.stderr)
        return 2
    from copydesk.app import commands
    from copydesk.app.failing import known, report

    try:
        return commands.run(options)
    except BrokenPipeError:
        raise
    except known() as error:
        as_json = options.json or (isinstance(error, UsageError) and "--json" in words)
        return report(error, as_json=as_json, lang=options.lang or "en")


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    """The options; raises UsageError."""
    parser, names = _parser()
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


def _parser() -> tuple[argparse.ArgumentParser, list[str]]:
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
    add_commands(
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


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 6 and int(text) < 65536):
        raise argparse.ArgumentTypeError(f"{text!r} is no port (0 to 65535)")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
