"""The commands about several edits at once: apply them together, settle what broke off.

What lives here: these two, once the workspace is open. What must not: the
grammar of the command line (`cli`), how edits are written or put back.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import cast

from copydesk.app import failing, terminal
from copydesk.app.opening import Opened
from copydesk.app.printing import data_of, dump, is_refused, out, short
from copydesk.desk.recovery import Settled
from copydesk.tools.messages import say
from copydesk.tools.report import Lang
from copydesk.tools.transactions import APPLY_ALL


def apply_all(opened: Opened, hunk_ids: Sequence[str], lang: Lang, *, as_json: bool) -> int:
    """Write several plans, all or none; the exit status."""
    arguments = {"hunk_ids": list(hunk_ids)}
    report = opened.call(opened.config.member, APPLY_ALL, arguments, lang=lang)
    if as_json:
        dump(data_of(report))
    elif not is_refused(report):
        short(report)
    else:
        code, summary = str(report.fields["error"]), str(report.fields["summary"])
        hunk_id = report.fields.get("hunk_id")
        words = failing.with_next(code, summary, lang)
        terminal.complain(f"{hunk_id}: {words}" if hunk_id else words)
        hunks = cast("Sequence[Mapping[str, object]]", report.fields.get("hunks", ()))
        rows = [
            (str(row["hunk_id"]), str(row["path"]), str(row.get("error", row["context_match"])))
            for row in hunks
        ]
        sys.stderr.write(terminal.table(rows))
    return 1 if is_refused(report) else 0


def recover(opened: Opened, lang: Lang, *, as_json: bool) -> int:
    """Tell what was found half done when the workspace was opened, and sweep; the exit status."""
    found = opened.recovered
    swept = opened.recovery.sweep(time.time_ns() // 1_000_000)
    if as_json:
        dump({"settled": [_data(each) for each in found], "leftovers_removed": swept})
    else:
        if found:
            out(terminal.table([_HEAD, *(_row(each, lang) for each in found)]))
        else:
            out(say("cli.nothing_to_settle", lang) + "\n")
        if swept:
            out(say("cli.swept", lang, {"count": swept}) + "\n")
    return 1 if any(each.state in ("open", "unsure") for each in found) else 0


_HEAD = ("EDIT", "WHEN", "MEMBER", "PATH", "TRANSACTION", "ENDED")


def _row(settled: Settled, lang: Lang) -> tuple[str, ...]:
    entry = settled.entry
    ended = say(f"settled.{settled.state}", lang)
    return (
        str(entry.edit_id),
        terminal.when(entry.time_ms),
        entry.member,
        str(entry.path),
        entry.group or "-",
        f"{ended}: {settled.reason}" if settled.reason else ended,
    )


def _data(settled: Settled) -> dict[str, object]:
    entry = settled.entry
    return {
        "edit_id": entry.edit_id,
        "time_ms": entry.time_ms,
        "member": entry.member,
        "tool": entry.tool,
        "path": str(entry.path),
        "transaction_id": entry.group,
        "hunk_id": entry.hunk_id,
        "state": settled.state,
        "reason": settled.reason,
    }
