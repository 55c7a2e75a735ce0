"""`copydesk watch`: plans, decisions and edits of all members, one line each, as they happen."""

from __future__ import annotations

import sys
import time
from typing import Final

from copydesk.app import terminal
from copydesk.app.library import Event, Events
from copydesk.app.workspace import OpenWorkspace
from copydesk.errors import Refusal
from copydesk.tools.messages import say
from copydesk.tools.report import Lang

_LOOK_SECONDS: Final = 0.5
_SAID: Final = {
    "planned": "cli.event_planned",
    "replanned": "cli.event_replanned",
    "approved": "cli.event_approved",
    "rejected": "cli.event_rejected",
    "changes_requested": "cli.event_changes_requested",
    "written": "cli.event_written",
    "undone": "cli.event_undone",
    "withdrawn": "cli.event_withdrawn",
    "gone": "cli.event_gone",
}


def watch(opened: OpenWorkspace, seconds: int | None, *, as_json: bool) -> int:
    """Print pending plans, then events, until Ctrl-C or for `seconds`."""
    lang, end = opened.config.lang, None if seconds is None else time.monotonic() + seconds
    events = Events(opened, opened.config.member)
    if not as_json:
        print(say("cli.watch", lang, {"root": opened.root}), file=sys.stderr)
    try:
        while True:
            try:
                for event in events.look():
                    _print(event, lang, as_json=as_json)
            except Refusal as refusal:  # the next look will tell more
                _complain(refusal, as_json=as_json)
            sys.stdout.flush()
            if end is not None and time.monotonic() >= end:
                return 0
            time.sleep(_LOOK_SECONDS)
    except KeyboardInterrupt:
        return 0


def _complain(refusal: Refusal, *, as_json: bool) -> None:
    if as_json:
        terminal.out(terminal.json_line({"event": "refused", "reason": refusal.code}))
    else:
        terminal.complain(refusal.code)


def _fields(event: Event) -> dict[str, object]:
    """An event for programs."""
    fields: dict[str, object] = {
        "event": event.kind,
        "time_ms": event.time_ms,
        "member": event.member,
        "path": str(event.path),
        "hunk_id": event.hunk_id,
    }
    if event.plan is not None:
        fields |= {"action": event.plan.action}
    if event.edit is not None:
        added, removed = event.edit.lines
        fields |= {"edit": event.edit.edit_id, "undoes": event.edit.undoes}
        fields |= {"added": added, "removed": removed}
    fields["why"] = event.why
    if event.decision is not None:
        fields |= {"by": event.decision.by, "reason": event.decision.reason}
    return fields


def _print(event: Event, lang: Lang, *, as_json: bool) -> None:
    fields = _fields(event)
    if as_json:
        terminal.out(terminal.json_line(fields))
        return
    when = terminal.when(event.time_ms)[11:]
    words = say(_SAID[event.kind], lang, fields)
    parts = [when, event.member, event.hunk_id or "-", event.path, words, event.why]
    terminal.tell("  ".join(str(part) for part in parts if part))
