"""The commands that look back and take back, once the workspace is open.

What lives here: `history` and `undo`. What must not: the grammar of the command
line (`cli`), which edits there are, how one is taken back.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from copydesk.app import failing, terminal
from copydesk.app.opening import Opened
from copydesk.app.printing import data_of, dump, out, short
from copydesk.desk.history import Past
from copydesk.text.encoding import encoding_of_diff
from copydesk.text.unified import counts
from copydesk.tools.history import UNDO
from copydesk.tools.messages import say
from copydesk.tools.report import Lang

_HEAD = ("EDIT", "WHEN", "MEMBER", "TOOL", "PATH", "LINES", "STATE")


def history(edits: Sequence[Past], lang: Lang, *, diffs: bool, as_json: bool) -> int:
    """Show edits, with their diffs or without; the exit status."""
    if as_json:
        dump([_data(edit) for edit in edits])
        return 0
    if not edits:
        out(say("cli.none_written", lang) + "\n")
        return 0
    out(terminal.table([_HEAD, *(_row(edit, lang) for edit in edits)]))
    if diffs:
        coloured = terminal.colours(sys.stdout)
        for edit in edits:
            head = terminal.strong(f"edit {edit.edit_id}", coloured)
            out(f"\n{head}\n{terminal.diff(_diff(edit), coloured)}")
    return 0


def undo(opened: Opened, edit_id: int, lang: Lang, *, as_json: bool) -> int:
    """Take an edit back; the exit status."""
    report = opened.call(opened.config.member, UNDO, {"edit_id": edit_id}, lang=lang)
    if as_json:
        dump(data_of(report))
    elif not report.is_error:
        short(report)
    else:
        code, summary = str(report.fields["error"]), str(report.fields["summary"])
        terminal.complain(failing.with_next(code, summary, lang))
    return 1 if report.is_error else 0


def _row(edit: Past, lang: Lang) -> tuple[str, ...]:
    added, removed = counts(edit.diff)
    state: list[str] = [edit.state]
    if edit.undoes:
        state.append(say("cli.undoes", lang, {"id": edit.undoes}))
    if edit.undone_by:
        state.append(say("cli.undone_by", lang, {"id": edit.undone_by}))
    return (
        str(edit.edit_id),
        terminal.when(edit.time_ms),
        edit.member,
        edit.tool,
        str(edit.path),
        f"+{added} -{removed}",
        ", ".join(state),
    )


def _data(edit: Past) -> dict[str, object]:
    return {
        "edit_id": edit.edit_id,
        "time_ms": edit.time_ms,
        "member": edit.member,
        "tool": edit.tool,
        "path": str(edit.path),
        "kind": edit.kind,
        "state": edit.state,
        "undoes": edit.undoes,
        "undone_by": edit.undone_by,
        "hunk_id": edit.hunk_id,
        "digest_before": edit.before,
        "digest_after": edit.after,
        "diff": _diff(edit),
    }


def _diff(edit: Past) -> str:
    return encoding_of_diff(edit.diff, None).decode(edit.diff)
