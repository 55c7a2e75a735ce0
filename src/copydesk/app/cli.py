"""The command `copydesk`: what can be said on the command line.

What lives here: the grammar of the command line, and no import that is heavy
(each command fetches its own when it runs). Exit status: 0 done, 1 refused,
2 the command line or the configuration cannot be used.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from copydesk import __version__

DIALECTS = ("mcp", "openai", "openai-strict", "anthropic", "gemini")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    parser = _parser()
    options = parser.parse_args(argv)
    if options.version:
        print(f"copydesk {__version__}")
        return 0
    if options.command is None:
        parser.print_help()
        return 2
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    from copydesk.app import commands
    from copydesk.app.config import ConfigError
    from copydesk.app.terminal import complain
    from copydesk.errors import Refusal

    try:
        return commands.run(options)
    except ConfigError as error:
        complain(str(error))
        return 2
    except Refusal as refusal:
        complain(commands.refusal_line(refusal, options))
        return 1
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="copydesk",
        description="The copy desk for AI agents: every edit is prepared, shown, checked, applied "
        "once, and can be taken back.",
    )
    parser.add_argument("--version", action="store_true", help="print the version and end")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--root", help="the workspace (default: COPYDESK_ROOT, else here)")
    common.add_argument("--member", help="who calls (default: from the configuration)")
    common.add_argument("--lang", choices=("en", "zh"), help="the language of the words")
    common.add_argument("--json", action="store_true", help="print data for programs")
    server = argparse.ArgumentParser(add_help=False)
    server.add_argument("--toolsets", help="comma-separated: ws_mod, team_mgmt")
    server.add_argument("--no-structured", action="store_true", help="send results as text only")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    def add(name: str, words: str, *parents: argparse.ArgumentParser) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=words, description=words, parents=[common, *parents])

    add("mcp", "the MCP server on standard input and output", server)
    serve = add("serve", "the MCP server over HTTP, at /mcp", server)
    serve.add_argument("--host", default="127.0.0.1", help="default: 127.0.0.1")
    serve.add_argument("--port", type=int, default=8427, help="default: 8427")
    demo = add("demo", "a guided run on a copy of real text")
    demo.add_argument("--keep", action="store_true", help="keep the workspace of the run")
    call = add("call", "call a tool: with JSON, or --name value for each argument")
    call.add_argument("tool")
    call.add_argument("arguments", nargs=argparse.REMAINDER, help="JSON, -, or --name value ...")
    add("pending", "the plans that wait")
    show = add("show", "one plan, with its diff")
    show.add_argument("hunk_id")
    apply = add("apply", "write plans")
    apply.add_argument("hunk_id", nargs="+")
    discard = add("discard", "let plans go")
    discard.add_argument("hunk_id", nargs="+")
    history = add("history", "the last edits, of all files or of one")
    history.add_argument("path", nargs="?")
    history.add_argument("--most", type=int, default=20, help="how many (default: 20)")
    history.add_argument("--diff", action="store_true", help="with what each changed")
    schema = add("schema", "the tool definitions for other harnesses", server)
    schema.add_argument("--dialect", choices=DIALECTS, default="mcp")
    manual = add("manual", "the manuals")
    manual.add_argument("toolset", nargs="?")
    manual.add_argument("topic", nargs="?")
    add("doctor", "what was found, what is wrong, and how to mend it")
    return parser


if __name__ == "__main__":
    sys.exit(main())
