"""`copydesk init`: show the changes of the clients' configuration, ask, and write."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from glob import escape, glob
from pathlib import Path

from copydesk.app import terminal
from copydesk.app.backends import server_of
from copydesk.app.cli import errors
from copydesk.app.cli.parser import UsageError, unknown
from copydesk.app.config import Config
from copydesk.app.config_text import Unreadable
from copydesk.app.mcp.early import tables_of
from copydesk.app.setup import CLIENTS, Client, Setup, Step
from copydesk.app.terminal import agrees, dump, out
from copydesk.app.workspace import open_workspace
from copydesk.errors import Refusal
from copydesk.tools.messages import say, say_reason
from copydesk.tools.report import Lang

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
    _check(options)
    setup = Setup(root, config)
    named = _named(options.client) if options.client else None
    if options.remove:
        steps = setup.removing(named)
    else:
        clients = setup.used() if named is None else named
        if not clients:
            hint = f"Name one with --client: {', '.join(client.name for client in CLIENTS)}."
            raise UsageError("no MCP client was found on this machine", hint)
        globs = options.path or ()
        steps = setup.adding(clients, options.approval or "", globs, portable=options.portable)
    return _Run(options, setup, steps, config).run(prepare_start)


def _check(options: argparse.Namespace) -> None:
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
    for fault, is_there in faults.items():
        if is_there:
            raise UsageError(fault)


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
        self._options, self._setup, self._config = options, setup, config
        self._lang: Lang = config.lang
        removing = options.remove
        self._steps = [step for step in steps if not (removing and step.status == "absent")]
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
            words = say("cli.init_state", self._lang, {"path": self._state})
            stream.write(terminal.line(words) + "\n")
        coloured = terminal.colours(stream)
        for step in self._steps:
            path = self._setup.shown(step.path)
            what = step.title or say(_TITLES[step.what], self._lang)
            facts = {"what": what, "path": path, "reason": say_reason(step.reason, self._lang)}
            words = terminal.line(say(_SAID[step.status], self._lang, facts))
            stream.write(terminal.strong(words, coloured) + "\n")
            if step.writes:
                stream.write(terminal.diff(step.diff(path), coloured) + "\n")

    def _write(self, prepare_start: Callable[[Sequence[str]], None]) -> None:
        root = str(self._setup.root)
        with open_workspace(root, self._config) as opened:
            for step in (step for step in self._steps if step.writes):
                try:
                    self._edits[step.path] = self._setup.write(step, opened)
                except Refusal as refusal:
                    self._failed[step.path] = errors.refusal_words(refusal, self._lang)
                except Unreadable as error:
                    self._failed[step.path] = say_reason(error.reason, self._lang)
                except OSError as error:
                    self._failed[step.path] = error.strerror or str(error)
        for words in dict.fromkeys(step.words for step in self._steps if step.words):
            with suppress(*errors.KNOWN):  # the server itself will report it
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
        for step in self._steps:
            edit, failed = self._edits.get(step.path), self._failed.get(step.path)
            facts = {"path": self._setup.shown(step.path), "edit": edit, "reason": failed}
            if failed is not None:
                terminal.complain(say("cli.init_failed", self._lang, facts))
            elif edit is not None and self._options.remove:
                self._say("cli.init_removed", **facts)
            elif edit is not None:
                self._say("cli.init_written_edit" if edit else "cli.init_written", **facts)
        if self._state is not None and not self._failed:
            self._say("cli.init_state_gone", path=self._state)
        if not self._options.remove:
            for step in self._steps:
                if step.line and step.status != "refused":
                    self._say("cli.init_also", what=step.title, line=step.line)
            self._say("cli.init_then")

    def _say(self, key: str, **facts: object) -> None:
        out(terminal.safe(say(key, self._lang, facts)) + "\n")

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
