"""`copydesk forget`: show what would be forgotten and what undo is lost, ask, and remove it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from contextlib import suppress

from copydesk.app import terminal
from copydesk.app.terminal import agrees, dump, out
from copydesk.app.workspace import OpenWorkspace
from copydesk.desk.history import Forgettable
from copydesk.store.state import StateFolder
from copydesk.text.relpath import RelPath
from copydesk.tools.messages import say

_MOST_SHOWN = 50
"""The most edits that are listed; all are counted."""


def forget(opened: OpenWorkspace, options: argparse.Namespace, member: str | None) -> int:
    """Forget what is named; return the exit status, 1 if something is left."""
    lang, told = opened.config.lang, not options.json
    what = _named(opened, options.what, member)
    copies = StateFolder(opened.root, opened.config.state).copies()
    if told:
        _show(what, copies, options)
    asked = say("cli.forget_ask", lang, _counts(what))
    agreed = not options.dry_run and (options.yes or agrees(asked))
    if agreed:
        what = _named(opened, options.what, member)  # it may have become more meanwhile
        opened.desk.forgetting.forget(what)
        for path in copies:
            with suppress(FileNotFoundError):
                os.unlink(path)
    if told:
        outcome = "cli.forget_forgotten" if agreed else "cli.forget_planned"
        out(say(outcome, lang, _counts(what)) + "\n")
        if agreed and opened.config.registry == "redis":
            out(say("cli.forget_server", lang) + "\n")
    else:
        dump(
            {
                "status": "ok" if agreed or options.dry_run else "error",
                "state": "forgotten" if agreed else "planned",
                "edits": [one.edit_id for one in what.edits],
                "plans": [one.id for one in what.plans],
                "no_longer_undone": [*what.lost],
                "unfinished": [one.edit_id for one in what.open],
                "files": copies,
            }
        )
    return 0 if options.dry_run or (agreed and not what.open) else 1


def _named(opened: OpenWorkspace, name: str | None, member: str | None) -> Forgettable:
    """What a path, the number of an edit, or a member stands for; EditNotFound, InvalidPath."""
    forgetting, history = opened.desk.forgetting, opened.desk.history
    if member is not None:
        return forgetting.of_member(member)
    assert name is not None
    if not (name.isascii() and name.isdigit()):
        return forgetting.of_path(RelPath.parse(name))
    edit = opened.journal.get(int(name))
    if edit is None:
        raise history.not_found(opened.member(opened.config.member), int(name))
    return forgetting.of_edit(edit)


def _counts(what: Forgettable) -> dict[str, object]:
    return {"edits": len(what.edits), "plans": len(what.plans)}


def _show(what: Forgettable, copies: Iterable[str], options: argparse.Namespace) -> None:
    """Print the edits and plans, what cannot be undone then, and which files go as a whole."""
    lang = options.lang
    rows = [
        (str(one.edit_id), terminal.when(one.time_ms), one.member, one.tool, str(one.path))
        for one in what.edits[:_MOST_SHOWN]
    ]
    now = say("cli.forget_plan", lang)
    rows += [(one.id, now, one.owner, one.tool, str(one.request.path)) for one in what.plans]
    if len(what.edits) > _MOST_SHOWN:
        rows.append(("...", "", "", "", ""))
    if rows:
        out(terminal.table([("EDIT", "WHEN", "MEMBER", "TOOL", "PATH"), *rows]))
    lists = {
        "cli.forget_lost": map(str, what.lost),
        "cli.forget_open": (f"{one.edit_id} ({one.path})" for one in what.open),
        "cli.forget_files": copies,
    }
    for key, names in lists.items():
        if listed := ", ".join(names):
            out(terminal.line(say(key, lang, {"names": listed})) + "\n")
