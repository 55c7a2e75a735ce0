"""Approving plans on the terminal, and `copydesk review`, which steps through all pending plans.

What is approved is what was on the screen. When the file or the plan has changed since, it is
shown again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from copydesk.app import terminal
from copydesk.app.cli import errors
from copydesk.app.cli.parser import UsageError
from copydesk.app.terminal import out
from copydesk.app.workspace import OpenWorkspace
from copydesk.desk.backends.api import Decision
from copydesk.desk.member import Member
from copydesk.desk.outcome import Applied, NotUndone, Rejected
from copydesk.desk.review import Seen, Shown, regions_apart, text_of
from copydesk.errors import AlreadyDecided, ContentChanged, HunkNotFound, Refusal
from copydesk.text.snapshot import Snapshot
from copydesk.tools.diff_model import diff_text
from copydesk.tools.history import UNDO
from copydesk.tools.messages import say
from copydesk.tools.refusals import check_words
from copydesk.tools.report import Lang
from copydesk.tools.reports import short_diff

_SEEN = 8
"""So many digits of a digest nobody types who has not seen them."""


def reviewer(opened: OpenWorkspace) -> Member:
    """Who decides: the member, or the person at a terminal whose agent needs a person."""
    name = opened.settings.member
    member = opened.member(name)
    alone = not member.policy.asks_nobody and terminal.has_person()
    return opened.person(name) if alone else member


def approve(opened: OpenWorkspace, hunk_id: str, after: str, *, as_json: bool) -> Decision:
    """Approve a plan; `after`: the digest of what was seen, or 8 digits or more of its start."""
    person, review = reviewer(opened), opened.desk.review
    lang = opened.config.lang
    shown = review.show(person, hunk_id)
    if shown.refusal is not None:
        raise shown.refusal
    text, was_cut = short_diff(shown, lang)
    facts = {"id": hunk_id, "after": shown.after}
    is_seen = len(after) >= _SEEN and shown.after.startswith(after)
    known = is_seen if after else shown.state == "exact"
    if known and was_cut and not after:
        if not as_json:
            out(say("cli.approve_long", lang, facts) + "\n")
        raise ContentChanged("not all of the change was shown")
    if not as_json and not after:
        text = text if known else diff_text(shown.diff, shown.draft.base.encoding)
        out(terminal.diff(text, terminal.colours(sys.stdout)) + "\n")
    if not known:
        if not as_json:
            out(say("cli.approve_after", lang, facts) + "\n")
        raise ContentChanged("the file or the plan changed since it was shown")
    return review.approve(person, hunk_id, shown.before, shown.after)


def decision_data(decision: Decision, lang: Lang) -> dict[str, object]:
    """A decision for a program, with its summary in words."""
    return {
        "hunk_id": decision.plan[0],
        "path": decision.path,
        "verdict": decision.verdict,
        "by": decision.by,
        "before": decision.before,
        "after": decision.after,
        "reason": decision.reason,
        "summary": decision_words(decision, lang),
    }


def decision_words(decision: Decision, lang: Lang) -> str:
    """A decision in words."""
    facts = {"id": decision.plan[0], "path": decision.path, "why": decision.reason}
    return say("cli.approved" if decision.verdict == "approved" else "cli.rejected", lang, facts)


def log_approvals(opened: OpenWorkspace) -> int:
    """Print each approved edit as a line of JSON, the oldest first; the exit status."""
    for row in reversed(_approved(opened)):
        out(terminal.json_line(row))
    return 0


def check_approvals(opened: OpenWorkspace, log: str, *, as_json: bool) -> int:
    """Compare the lines of a log with the journal; the exit status, 1 where one differs."""
    rows = {_canonical(row) for row in _approved(opened)}
    wrong: list[int] = []
    count = 0
    try:
        with open(log, encoding="utf-8") as file:
            for count, text in enumerate(file, 1):
                if _canonical(json.loads(text)) not in rows:
                    wrong.append(count)
    except (OSError, ValueError) as error:
        raise UsageError(f"{log}: {error}") from None
    if as_json:
        terminal.dump({"checked": count, "wrong_lines": wrong})
    else:
        facts = {"count": count, "lines": ", ".join(map(str, wrong))}
        said = say("cli.log_wrong" if wrong else "cli.log_right", opened.config.lang, facts)
        out(terminal.line(said) + "\n")
    return 1 if wrong else 0


def _canonical(row: object) -> str:
    return json.dumps(row, sort_keys=True)


def _approved(opened: OpenWorkspace) -> list[dict[str, object]]:
    """The approved edits, newest first: digests of the journal, and what the approval was for."""
    found: list[dict[str, object]] = []
    reviewer, before = opened.member(opened.config.member), None
    while True:
        page = opened.desk.history.page(reviewer, most=1_000, before=before)
        for edit in page.edits:
            if edit.approval is None or edit.state == "failed":
                continue
            row: dict[str, object] = {
                "edit_id": edit.edit_id,
                "time_ms": edit.time_ms,
                "path": str(edit.path),
                "member": edit.member,
                "tool": edit.tool,
                "hunk_id": edit.hunk_id,
                **edit.approval.people,
                "approved_before": edit.approval.before,
                "approved_after": edit.approval.after,
                "digest_before": edit.before,
                "digest_after": edit.after,
                "diff_sha256": hashlib.sha256(edit.diff).hexdigest(),
            }
            found.append(row)
        if not page.go_on:
            return found
        before = page.go_on


@dataclass(frozen=True, slots=True)
class _Done:
    """What can be taken back: a decision, or the edit that was written."""

    hunk_id: str
    kind: str
    edit_id: int = 0


def review(opened: OpenWorkspace) -> int:
    """Step through the plans that need a decision; the exit status."""
    return _Review(opened).run()


class _Review:
    """One run through the plans."""

    def __init__(self, opened: OpenWorkspace) -> None:
        self._opened = opened
        self._lang: Lang = opened.config.lang
        self._review = opened.desk.review
        self._coloured = terminal.colours(sys.stdout)
        self._done: list[_Done] = []
        waiting = self._review.pending(self._reviewer)
        self._queue = [one.plan.id for one in waiting if one.decision is None]
        self._at = 0
        self._whole = ""  # the plan of which all is to be shown, or was

    @property
    def _reviewer(self) -> Member:
        """The person at the terminal, with current rights."""
        return reviewer(self._opened)

    def run(self) -> int:
        """Show each plan and act on the answers; the exit status."""
        if not self._queue:
            self._say("cli.none_undecided")
            return 0
        while self._at < len(self._queue):
            hunk_id = self._queue[self._at]
            try:
                shown = self._review.show(self._reviewer, hunk_id)
            except Refusal as refusal:  # it went meanwhile
                self._complain(hunk_id, refusal)
                self._at += 1
                continue
            if shown.decision is not None:
                out(terminal.line(self._decided(shown.decision)) + "\n")
                self._at += 1
                continue
            self._show(shown)
            try:
                goes_on = self._ask(shown)
            except EOFError:
                out("\n")
                goes_on = False
            if not goes_on:
                break
        self._sum_up()
        return 0

    def _ask(self, shown: Shown) -> bool:
        """Ask until an answer is acted on; False to stop."""
        keys = self._keys(shown)
        while True:
            answer = input(self._prompt(keys)).strip()
            key = answer[:1].lower()
            if key == "q":
                return False
            if key == "j":
                self._at += 1
                return True
            if len(answer) != 1 or key not in keys or key == "?":
                self._help(keys)
                continue
            try:
                if self._act(key, shown):
                    return True
            except (ContentChanged, AlreadyDecided, HunkNotFound) as refusal:
                self._complain(shown.plan.id, refusal)
                return True  # shown anew as it is now
            except Refusal as refusal:
                self._complain(shown.plan.id, refusal)

    def _act(self, key: str, shown: Shown) -> bool:
        """Do what a key asks for; True to go on to the next plan to show."""
        hunk_id = shown.plan.id
        if key == "a":
            self._whole = hunk_id
        elif key == "y":
            decision = self._review.approve(self._reviewer, hunk_id, shown.before, shown.after)
            self._record(_Done(hunk_id, "approved"), decision_words(decision, self._lang))
        elif key == "w":
            self._write(shown)
        elif key == "n":
            reason = input(say("cli.reason", self._lang) + " ").strip()
            if not reason:
                return False
            decision = self._review.reject(self._reviewer, hunk_id, reason)
            self._record(_Done(hunk_id, "rejected"), decision_words(decision, self._lang))
        elif key == "e":
            return self._edit(shown)
        elif key == "s":
            made = self._review.split(self._reviewer, hunk_id)
            self._queue[self._at : self._at + 1] = [plan.id for plan in made]
        elif key == "u":
            self._undo_last()
        terminal.saved(self._opened.desk.foreign.told(self._reviewer), self._lang)
        return True

    def _write(self, shown: Shown) -> None:
        """Approve and write at once."""
        seen = Seen(shown.plan.id, shown.before, shown.after)
        outcome = self._review.apply(self._reviewer, [seen])
        if isinstance(outcome, Rejected):
            raise outcome.refusal
        edit_id = outcome.edit_id if isinstance(outcome, Applied) else 0
        facts = {"id": shown.plan.id, "path": shown.plan.request.path, "edit": edit_id}
        done = _Done(shown.plan.id, "written", edit_id)
        self._record(done, say("cli.written", self._lang, facts))

    def _edit(self, shown: Shown) -> bool:
        """Replace the new text in the editor; whether it was changed."""
        old = text_of(shown.plan.request)
        assert old is not None, "the key is not offered"
        new = edited(old, Path(str(shown.plan.request.path)).suffix)
        if new is None or new == old:
            self._say("cli.not_edited")
            return False
        self._review.amend(self._reviewer, shown.plan.id, new)
        return True

    def _undo_last(self) -> None:
        """Undo the last decision of this run."""
        last = self._done.pop()
        if last.kind != "written":
            self._review.withdraw(self._reviewer, last.hunk_id)
            self._at = self._queue.index(last.hunk_id)
            self._say("cli.taken_back", id=last.hunk_id)
        elif last.edit_id:
            outcome = self._opened.desk.undo(self._reviewer, UNDO, last.edit_id)
            if isinstance(outcome, NotUndone):
                raise outcome.refusal
            self._say("cli.edit_taken_back", id=last.edit_id, path=outcome.entry.path)

    def _record(self, done: _Done, words: str) -> None:
        self._done.append(done)
        self._at += 1
        out(terminal.line(words) + "\n\n")

    def _keys(self, shown: Shown) -> str:
        """The keys that can be answered with."""
        whole = isinstance(shown.draft.base, Snapshot) and not shown.draft.created
        can = shown.refusal is None
        was_cut = short_diff(shown, self._lang)[1] and self._whole != shown.plan.id
        keys = "yw" if can and not was_cut else ""
        keys += "a" if was_cut else ""
        keys += "n"
        keys += "e" if can and text_of(shown.plan.request) is not None else ""
        keys += "s" if can and whole and len(regions_apart(shown.draft)) > 1 else ""
        keys += "u" if self._done else ""
        return f"{keys}jq?"

    def _prompt(self, keys: str) -> str:
        question = say("cli.approve_this", self._lang)
        return terminal.strong(f"{question} [{','.join(keys)}]", self._coloured) + " "

    def _help(self, keys: str) -> None:
        for key in keys:
            out(f"{key} - {say(_KEYS[key], self._lang)}\n")

    def _show(self, shown: Shown) -> None:
        plan = shown.plan
        left = plan.expires_ms - time.time_ns() // 1_000_000
        facts = {
            "at": self._at + 1,
            "count": len(self._queue),
            "id": plan.id,
            "path": plan.request.path,
            "action": plan.action,
            "owner": plan.owner,
            "left": terminal.ago(left),
        }
        head = terminal.line(say("cli.step", self._lang, facts))
        out(terminal.strong(head, self._coloured) + "\n")
        if plan.why:
            self._say("ask.why", why=plan.why)
        if shown.refusal is not None:
            self._complain(plan.id, shown.refusal)
        elif shown.state == "drifted":
            self._say("cli.drifted")
        for one in shown.checks or ():
            out(terminal.line(check_words(one, self._lang)) + "\n")
        text, was_cut = short_diff(shown, self._lang)
        if self._whole == plan.id:
            text, was_cut = diff_text(shown.diff, shown.draft.base.encoding), False
        out(terminal.diff(text, self._coloured))
        if was_cut:
            self._say("cli.diff_cut")

    def _sum_up(self) -> None:
        kinds = Counter(done.kind for done in self._done)
        waiting = self._review.pending(self._reviewer)
        facts = {name: kinds[name] for name in ("approved", "rejected", "written")}
        left = sum(one.decision is None for one in waiting)
        self._say("cli.reviewed", **facts, left=left)

    def _decided(self, decision: Decision) -> str:
        facts = {"id": decision.plan[0], "by": decision.by, "verdict": decision.verdict}
        return say("cli.decided", self._lang, facts)

    def _complain(self, hunk_id: str, refusal: Refusal) -> None:
        sys.stdout.flush()
        terminal.complain(f"{hunk_id}: {errors.refusal_words(refusal, self._lang)}")

    def _say(self, saying: str, **facts: object) -> None:
        out(terminal.line(say(saying, self._lang, facts)) + "\n")


_KEYS = {
    "y": "cli.key.approve",
    "w": "cli.key.write",
    "a": "cli.key.all",
    "n": "cli.key.reject",
    "e": "cli.key.edit",
    "s": "cli.key.split",
    "u": "cli.key.undo",
    "j": "cli.key.later",
    "q": "cli.key.quit",
    "?": "cli.key.help",
}
"""The message that explains each key."""


def edited(text: str, suffix: str) -> str | None:
    """The text as the person's editor leaves it; None when the editor fails."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="copydesk-") as folder:
        file = Path(folder, f"new{suffix}")
        file.write_bytes(text.encode())
        sys.stdout.flush()
        try:
            ended = subprocess.run([*shlex.split(editor), str(file)], check=False)
            return None if ended.returncode else file.read_bytes().decode()
        except (OSError, ValueError) as error:
            terminal.complain(f"{editor}: {error}")
            return None
