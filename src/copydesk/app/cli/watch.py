"""`copydesk watch`: plans, decisions and edits of all members, one line each, as they happen."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Final

from copydesk.app import terminal
from copydesk.app.workspace import OpenWorkspace
from copydesk.desk.history import Past
from copydesk.desk.review import Waiting
from copydesk.errors import Refusal
from copydesk.tools.messages import say
from copydesk.tools.report import Lang

_LOOK_SECONDS: Final = 0.5
_MOST_EDITS: Final = 200
_Event = dict[str, object]

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
    seen = _Seen(opened)
    if not as_json:
        print(say("cli.watch", lang, {"root": opened.root}), file=sys.stderr)
    try:
        while True:
            for event in seen.news():
                _print(event, lang, as_json=as_json)
            sys.stdout.flush()
            if end is not None and time.monotonic() >= end:
                return 0
            time.sleep(_LOOK_SECONDS)
    except KeyboardInterrupt:
        return 0


class _Seen:
    """Remembers the events that were printed."""

    def __init__(self, opened: OpenWorkspace) -> None:
        self._opened = opened
        self._plans: dict[str, Waiting] = {}
        edits = opened.history(opened.config.member, most=1)
        self._edit = edits[0].edit_id if edits else 0

    def news(self) -> Iterator[_Event]:
        """The events since the last call; on the first call, the pending plans."""
        opened = self._opened
        try:
            name = opened.config.member
            edits = opened.history(name, most=_MOST_EDITS)
            # Read after the edits: a plan that is gone by then was written by one of them, or by
            # the next.
            now = {one.plan.id: one for one in opened.desk.review.pending(opened.member(name))}
            late = opened.history(name, most=_MOST_EDITS)
        except Refusal as refusal:  # the next check will tell more
            yield {"event": "refused", "reason": refusal.code}
            return
        new = [one for one in reversed(late or edits) if one.edit_id > self._edit]
        was, self._plans = self._plans, now
        for key, one in now.items():
            yield from _of_plan(was.get(key), one)
        self._edit = max([self._edit, *(one.edit_id for one in new)])
        for edit in new:
            yield _of_edit(edit)
        written = {one.hunk_id for one in (*late, *edits)}
        for key, one in was.items():
            if key not in now and key not in written:
                yield _event("gone", one)


def _of_plan(was: Waiting | None, now: Waiting) -> Iterator[_Event]:
    """The events of a pending plan since the last call."""
    decision, before = now.decision, was.decision if was else None
    is_same = was is not None and was.plan == now.plan
    if not is_same:
        yield _event("replanned" if was else "planned", now)
    if decision is not None and decision != before:
        yield {**_event(decision.verdict, now), "by": decision.by, "reason": decision.reason}
    elif decision is None and before is not None and is_same:
        yield _event("withdrawn", now)


def _event(kind: str, one: Waiting) -> _Event:
    plan = one.plan
    return {
        "event": kind,
        "time_ms": plan.created_ms if kind == "planned" else time.time_ns() // 1_000_000,
        "member": plan.owner,
        "path": str(plan.request.path),
        "hunk_id": plan.id,
        "action": plan.action,
        "why": plan.why,
    }


def _of_edit(edit: Past) -> _Event:
    added, removed = edit.lines
    return {
        "event": "undone" if edit.undoes else "written",
        "time_ms": edit.time_ms,
        "member": edit.member,
        "path": str(edit.path),
        "hunk_id": edit.hunk_id,
        "edit": edit.edit_id,
        "undoes": edit.undoes,
        "added": added,
        "removed": removed,
        "why": edit.why,
    }


def _print(event: _Event, lang: Lang, *, as_json: bool) -> None:
    if as_json:
        terminal.out(terminal.json_line(event))
        return
    if event["event"] == "refused":
        terminal.complain(str(event["reason"]))
        return
    when = terminal.when(int(str(event["time_ms"])))[11:]
    words = say(_SAID[str(event["event"])], lang, event)
    parts = [when, event["member"], event["hunk_id"] or "-", event["path"], words, event["why"]]
    terminal.tell("  ".join(str(part) for part in parts if part))
