"""The command `copydesk`: its entry point.

Nothing heavy is imported before a command runs, and each command imports what it needs. Exit
status: 0 done, 1 refused, 2 unusable command line, configuration or workspace.
"""

from __future__ import annotations

import argparse
import gc
import io
import json
import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module

from copydesk import __version__
from copydesk.app.cli.parser import FIRST_STEPS, UsageError, language, parse, said


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    if sys.platform == "win32":
        print(
            "copydesk: Windows itself is not supported yet (file locks and safe replacement need "
            "POSIX); run it in WSL, where all of it works",
            file=sys.stderr,
        )
        return 2
    _replace_closed_streams()
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            errors = "surrogateescape" if stream is sys.stdin else "backslashreplace"
            stream.reconfigure(encoding="utf-8", errors=errors)
    try:
        status = _run(words)
        sys.stdout.flush()
        return status
    except ModuleNotFoundError as error:
        _report_missing(error, words)
    except OSError as error:
        # The reader has closed the pipe (`| head`), or the disk is full: drop the buffer.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return 1
        print(f"copydesk: standard output: {error.strerror}", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    return 2


def _replace_closed_streams() -> None:
    """Open the null device for closed standard streams, whose numbers files would get."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # it takes the lowest free number
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115  # it stays open


def _run(words: Sequence[str]) -> int:
    try:
        options = parse(words)
        root = options.root or os.environ.get("COPYDESK_ROOT") or os.curdir
        if options.command == "hook":
            from copydesk.app.cli.hook import call_of_hook

            options.call = call_of_hook(root, sys.stdin.read())
            if options.call is None:
                return 0
    except UsageError as error:
        from copydesk.app.terminal import report_failure

        return report_failure(error, as_json="--json" in words, lang=language(words))
    if options.version:
        print(f'{{"version": "{__version__}"}}' if options.json else f"copydesk {__version__}")
        return 0
    if options.command is None:
        sys.stderr.write(said(FIRST_STEPS, language(words)))
        return 2
    if options.command != "mcp" or options.json:
        return _command(options, words)
    from copydesk.app.mcp.early import early_answers

    with early_answers(root, dict(vars(options)), _import_server) as wire:
        if wire.is_done:
            return 0
        options.wire = wire
        return _command(options, words)


def _command(options: argparse.Namespace, words: Sequence[str]) -> int:
    """Import what the command needs, and run it; report what fails."""
    _import(options.command)
    from copydesk.app.cli.commands import run
    from copydesk.app.terminal import FAILURES, report_failure

    try:
        return run(options)
    except BrokenPipeError:
        raise
    except FAILURES as error:
        as_json = options.json or (isinstance(error, UsageError) and "--json" in words)
        return report_failure(error, as_json=as_json, lang=options.lang or language(words))


_SERVERS = {"mcp": "copydesk.app.mcp.server", "serve": "copydesk.app.mcp.http"}


def _import(command: str) -> None:
    """Import the commands, and the server if the command is one."""
    with importing(to_serve=command in _SERVERS):
        for name in ("copydesk.app.cli.commands", *filter(None, [_SERVERS.get(command)])):
            import_module(name)


def _import_server() -> None:
    with suppress(ImportError):  # who imports it again reports what is wrong
        _import("mcp")


@contextmanager
def importing(*, to_serve: bool = False) -> Generator[None]:
    """Pause the garbage collector, which would scan the new objects of imports repeatedly.

    `to_serve`: it will skip the objects that are there afterwards for good.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if to_serve:
            gc.freeze()
        if was_on:
            gc.enable()


def _report_missing(error: ModuleNotFoundError, words: Sequence[str]) -> None:
    """Report a package that is not installed; raises the error if it is copydesk's own."""
    name = (error.name or "").partition(".")[0]
    if name in ("", "copydesk"):
        raise error
    package = "copydesk[redis]" if name == "redis" else "copydesk"
    install = f"'{sys.executable}' -m pip install '{package}' installs it"
    summary = f"the Python package {name!r} is not installed; {install}"
    if "--json" in words:
        print(json.dumps({"status": "error", "error": "USAGE", "summary": summary}, indent=2))
    else:
        print(f"copydesk: {summary}", file=sys.stderr)
