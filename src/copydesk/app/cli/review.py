"""Decisions of a person on the terminal, before and after an edit is written.

Before: approving plans, and `copydesk review`, which steps through all that are pending. After:
what agents did, as a whole, in `changes`, `keep`, `undo --task`, `checkpoint`, `review --done`.

An answer is for what was on the screen. If the file, the plan or the change is another one by
then, it is not decided on, but shown again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, islice, repeat
from pathlib import Path

from copydesk.app import terminal
from copydesk.app.cli.parser import UsageError
from copydesk.app.config import load
from copydesk.app.terminal import SPLIT_COLUMNS, Look, diff_rows, dump, out, tell, text_rows
from copydesk.app.workspace import OpenWorkspace
from copydesk.desk.backends.api import Decision
from copydesk.desk.changes import ChangedHunk, FileChanges, Selection, TaskChanges, UndoneChanges
from copydesk.desk.member import Member
from copydesk.desk.outcome import Applied, NotUndone, Rejected, Transacted, Withheld
from copydesk.desk.review import Shown
from copydesk.edit.draft import Plan
from copydesk.errors import (
    AccessDenied,
    AlreadyDecided,
    ContentChanged,
    HunkNotFound,
    InvalidArgs,
    Refusal,
)
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.diff import CONTEXT, Alignment, align, diff_text
from copydesk.text.encoding import UTF8, encoding_of_diff
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot
from copydesk.tools.diff_model import of_change
from copydesk.tools.messages import say, say_reason
from copydesk.tools.refusals import check_row, check_words, numbered_lines
from copydesk.tools.report import Lang
from copydesk.tools.reports import is_binary_deletion, short_diff
from copydesk.tools.ws_mod import UNDO

_ALL = 1 << 40
"""More rows than any change has."""

_LEAST_DIGITS = 8
"""Of a digest that a person names: fewer could be guessed."""


def reviewer(opened: OpenWorkspace) -> Member:
    """The deciding member, or the person at a terminal if the agent's edits need a person."""
    name = opened.settings.member
    member = opened.member(name)
    alone = not member.policy.asks_nobody and terminal.has_person()
    return opened.person(name) if alone else member


def check_declared(opened: OpenWorkspace) -> None:
    """Raise AccessDenied if only a flag or a variable names the person who decides."""
    name = opened.config.member
    if name not in opened.config.members and name != load(opened.root, {}).member:
        raise AccessDenied("approve", "the configuration declares no such member")


def as_shown(opened: OpenWorkspace, hunk_id: str, options: argparse.Namespace) -> Shown:
    """A plan to approve, shown now, or before if `options.after` begins the digest of then.

    Raises ContentChanged for another digest, or if not all is shown, or not as it was planned.
    """
    lang, after = opened.config.lang, options.after
    shown = opened.desk.review.show(reviewer(opened), hunk_id)
    if shown.refusal is not None:
        raise shown.refusal
    if after:
        if len(after) < _LEAST_DIGITS or not shown.after.startswith(after):
            raise ContentChanged("the file or the plan changed since it was shown")
        return shown
    text, was_cut = short_diff(shown, lang)
    key = problem = ""
    if shown.state != "exact":
        key, problem = "cli.approve_after", "the file or the plan changed since it was shown"
        text = diff_text(shown.diff, shown.draft.base.encoding)
    elif was_cut:
        key, problem = "cli.approve_long", "not all of the change was shown"
        text = ""
    if not options.json:
        out(terminal.diff(text, terminal.colours(sys.stdout)) + "\n" * bool(text))
        if key:
            command = "apply --approve" if options.command == "apply" else options.command
            tell(say(key, lang, {"id": hunk_id, "after": shown.after, "command": command}))
    if problem:
        raise ContentChanged(problem)
    return shown


def write(opened: OpenWorkspace, shown: Sequence[Shown]) -> Sequence[Applied]:
    """Approve plans as shown and write them at once, all or none; raises Refusal."""
    outcome = opened.desk.review.apply(reviewer(opened), [each.seen for each in shown])
    if isinstance(outcome, Rejected | Withheld):
        raise outcome.refusal
    return outcome.applied if isinstance(outcome, Transacted) else (outcome,)


def written_data(applied: Applied, lang: Lang) -> dict[str, object]:
    """An approved edit that was written, for a program, with its summary in words."""
    plan, edit_id = applied.plan, applied.edit_id
    facts = {"id": plan.id, "path": plan.request.path, "edit": edit_id}
    return {"hunk_id": plan.id, "edit_id": edit_id, "summary": say("cli.written", lang, facts)}


def next_steps(opened: OpenWorkspace, shown: Shown) -> str:
    """What the person at the command line may do with a plan: the commands, in one line."""
    plan, own = shown.plan, opened.caller
    rights = opened.desk.review.rights(reviewer(opened), shown)
    may_write = opened.desk.review.rights(own, shown).apply is None
    verdict = shown.decision.verdict if shown.decision else ""
    is_own, is_over = plan.owner == own.name, verdict not in ("", "approved")
    cases = {  # the first that is so
        "cli.next_discard": is_own and (is_over or shown.refusal is not None),
        "cli.next": is_own and (verdict or may_write),
        "": is_over,
        "cli.next_person": rights.decide is not None,
        "cli.next_reject": shown.refusal is not None,
        "cli.next_decide": rights.apply is None,
        "cli.next_approve": True,
    }
    key = next(key for key, is_so in cases.items() if is_so)
    after = f" --after {shown.after[:_LEAST_DIGITS]}" if shown.state == "drifted" else ""
    is_usual = own.name == load(opened.root).member
    named = "" if is_usual else f" --member {shlex.quote(own.name)}"
    facts = {"id": plan.id, "owner": plan.owner, "after": after, "as": named}
    return say(key, opened.config.lang, facts) if key else ""


def print_next(opened: OpenWorkspace, hunk_id: str) -> None:
    """Print what the person may do with a plan, if it is pending, on standard error."""
    with suppress(Refusal):
        shown = opened.desk.review.show(reviewer(opened), hunk_id)
        if steps := next_steps(opened, shown):
            tell(steps, sys.stderr)


def facts_of(plan: Plan, lang: Lang) -> dict[str, str]:
    """What a person is told of a plan, in words; the path with the one that the file moves to."""
    now_ms, target = time.time_ns() // 1_000_000, plan.request.target
    path = str(plan.request.path)
    return {
        "id": plan.id,
        "path": path if target is None else f"{path} → {target}",
        "action": say(f"action.{plan.action}", lang),
        "owner": plan.owner,
        "age": terminal.ago(now_ms - plan.created_ms),
        "left": terminal.ago(plan.expires_ms - now_ms),
    }


def about_plan(opened: OpenWorkspace, shown: Shown) -> list[str]:
    """What there is to know of a plan, besides its edit: why, the decision, comments, findings."""
    plan, lang = shown.plan, opened.config.lang
    said = [say("ask.why", lang, {"why": plan.why})] if plan.why else []
    if shown.decision is not None:
        said.append(standing_words(shown.decision, lang))
    for comment in opened.desk.review.comments(shown):
        facts = {"by": comment.by, "line": comment.after.lstrip("+"), "why": comment.reason}
        of_comment = "cli.comment_line" if comment.after else "cli.commented"
        said.append(say("cli.lapsed" if comment.verdict == "lapsed" else of_comment, lang, facts))
    return said + ([say("cli.drifted", lang)] if shown.state == "drifted" else [])


def decision_data(decision: Decision, lang: Lang) -> dict[str, object]:
    """A decision for a program, with its summary in words."""
    facts = {"id": decision.plan[0], "path": decision.path, "why": decision.reason}
    key = "cli.approved" if decision.verdict == "approved" else "cli.rejected"
    return {
        "hunk_id": decision.plan[0],
        "path": decision.path,
        "verdict": decision.verdict,
        "by": decision.by,
        "before": decision.before,
        "after": decision.after,
        "reason": decision.reason,
        "summary": say(key, lang, facts),
    }


def standing_words(decision: Decision, lang: Lang) -> str:
    """How a plan was decided on, and by whom, in words."""
    verdict = say_reason(decision.verdict, lang)
    return say("cli.decided", lang, {"id": decision.plan[0], "by": decision.by, "verdict": verdict})


def approvals(opened: OpenWorkspace, options: argparse.Namespace) -> int:
    """Print each approved edit as a line of JSON, oldest first, or check such a log.

    Returns the exit status, 1 if a line of the log differs from the journal.
    """
    rows = [*_approved(opened)]
    if options.check is None:
        out("".join(terminal.as_json(row, indent=None) for row in reversed(rows)))
        return 0
    known = {json.dumps(row, sort_keys=True) for row in rows}
    try:
        with open(options.check, encoding="utf-8") as file:
            logged = [json.dumps(json.loads(line), sort_keys=True) for line in file]
    except (OSError, ValueError) as error:
        raise UsageError(f"{options.check}: {error}") from None
    wrong = [at for at, row in enumerate(logged, 1) if row not in known]
    if options.json:
        dump({"checked": len(logged), "wrong_lines": wrong})
    else:
        facts = {"count": len(logged), "lines": ", ".join(map(str, wrong))}
        tell(say("cli.log_wrong" if wrong else "cli.log_right", opened.config.lang, facts))
    return 1 if wrong else 0


def _approved(opened: OpenWorkspace) -> Iterator[dict[str, object]]:
    """The approved edits, newest first, with journaled and approved digests."""
    person, before = opened.caller, None
    while before != 0:
        page = opened.desk.history.page(person, most=1_000, before=before)
        for edit in page.edits:
            if edit.approval is not None and edit.state != "failed":
                yield {
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
                    "diff_sha256": edit.diff_digest,
                }
        before = page.go_on


@dataclass(slots=True)
class _View:
    """The plans on the screen, one or several of a file, and how they are drawn.

    `is_cut`: some of the change is not in its rows.
    """

    ids: tuple[str, ...] = ()
    whole: bool = False
    context: int = CONTEXT
    is_cut: bool = False


class _Pager:
    """Rows shown a screen at a time; `is_seen` is True once all of them were shown."""

    def __init__(self, rows: Iterable[str]) -> None:
        self._rows = iter(rows)
        self._drawn: list[str] = []
        self._stop = 0
        self.is_seen = False

    def forward(self, count: int) -> list[str]:
        """The next rows, at most `count`."""
        start = self._stop
        self._drawn += islice(self._rows, max(start + count + 1 - len(self._drawn), 0))
        self._stop = min(start + count, len(self._drawn))
        self.is_seen = self.is_seen or self._stop == len(self._drawn)
        return self._drawn[start : self._stop]

    def back(self, count: int) -> list[str]:
        """The rows of the previous screen; at the start, the first ones."""
        self._stop = max(self._stop - count, min(count, len(self._drawn)))
        return self._drawn[max(self._stop - count, 0) : self._stop]


class Review:
    """One run through the plans.

    On a terminal with single keys, plans are shown a screen at a time, and new plans join the queue
    as they are created; otherwise the whole diff is printed, and an answer is a line.
    """

    def __init__(self, opened: OpenWorkspace) -> None:
        self._opened = opened
        self._lang: Lang = opened.config.lang
        self._review = opened.desk.review
        self._coloured = terminal.colours(sys.stdout)
        self._keys = terminal.Keys(_NAVIGATION)
        # what can be undone: its kind, the plans that were decided on, the edits written
        self._done: list[tuple[str, tuple[Plan, ...], tuple[int, ...]]] = []
        self._queue: list[str] = []
        self._at = 0
        self._stamp: object = None
        self._split: bool | None = None
        self._view = _View()
        self._pager = _Pager(())

    @property
    def _reviewer(self) -> Member:
        return reviewer(self._opened)

    def run(self) -> int:
        """Show each plan and act on the answers; return the exit status."""
        self._refresh()
        if not self._queue:
            self._say("cli.none_yet" if self._keys.single else "cli.none_undecided")
            if not self._keys.single:
                return 0
        status = self._keys.run(self._steps)
        kinds = Counter({"approved": 0, "rejected": 0, "written": 0})
        for kind, plans, _ in self._done:
            kinds[kind] += len(plans)
        self._say("cli.reviewed", **kinds, left=len(self._open()))
        return status

    def _steps(self) -> None:
        goes_on = True
        while goes_on:
            shown = self._look()
            is_end = self._at >= len(self._queue)
            if is_end and not self._keys.single:
                return
            if shown or is_end:
                self._show(shown)
                goes_on = self._ask(shown)
            else:
                self._at += 1

    def _look(self) -> list[Shown]:
        """The plans to show now, in their current state; none at the end, or if one is gone."""
        if self._at >= len(self._queue):
            return []
        hunk_id = self._queue[self._at]
        if hunk_id not in self._view.ids:
            self._view = _View((hunk_id,))
        shown = [plan for each in self._view.ids if (plan := self._undecided(each)) is not None]
        if len(self._view.ids) > 1 and any(plan.refusal for plan in shown):
            self._view = _View((hunk_id,))  # together only those that can be written
            return self._look()
        return shown

    def _undecided(self, hunk_id: str) -> Shown | None:
        """The plan in its current state; if it was decided on or is gone, that is said."""
        try:
            shown = self._review.show(self._reviewer, hunk_id)
        except Refusal as refusal:
            if hunk_id not in self._mine:
                self._complain(hunk_id, refusal)
            return None
        if shown.decision is None:
            return shown
        if hunk_id not in self._mine:
            tell(standing_words(shown.decision, self._lang))
        return None

    @property
    def _mine(self) -> set[str]:
        return {plan.id for _, plans, _ in self._done for plan in plans}

    def _refresh(self) -> bool:
        """Add new plans to the queue; return whether anything has changed."""
        stamp = self._opened.plans_stamp()
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        self._queue += [plan.id for plan in self._open() if plan.id not in self._queue]
        return True

    def _open(self) -> list[Plan]:
        """The plans that need a decision, oldest first."""
        return [each.plan for each in self._review.pending(self._reviewer) if each.decision is None]

    def _ask(self, shown: list[Shown]) -> bool:
        """Ask until an answer is acted on, or other plans are to show; return False to stop."""
        while True:
            key = self._keys.answer(self._prompts(shown))
            keys = self._offered(shown)
            if key in ("", "q"):
                return key == ""
            turns = key in " \nb" or (key == "a" and not self._pager.is_seen)
            if turns and shown and self._keys.single:
                counts = {" ": self._height, "\n": 1, "a": _ALL}
                back, forward = self._pager.back, self._pager.forward
                self._draw(back(self._height) if key == "b" else forward(counts[key]))
            elif shown and key in "yw" and key not in keys and not self._is_seen:
                self._say("cli.see_first")
            elif key not in keys or key == "?":
                self._help(keys)
            else:
                try:
                    if self._act(key, shown):
                        return True
                except Refusal as refusal:
                    self._complain(shown[0].plan.id, refusal)
                    if isinstance(refusal, ContentChanged | AlreadyDecided | HunkNotFound):
                        return True  # shown again in its current state

    def _prompts(self, shown: list[Shown]) -> Iterator[str]:
        """The prompt, as often as wanted; it ends once other plans are to show."""
        prompt = self._prompt(shown)
        while True:
            yield prompt
            if self._refresh():
                if self._has_moved(shown):
                    return
                prompt = self._prompt(shown)

    def _has_moved(self, shown: list[Shown]) -> bool:
        """Whether a shown plan is decided on or another one; at the end, whether one is new."""
        if not shown:
            return self._at < len(self._queue)
        undecided = {(plan.id, plan.created_ms) for plan in self._open()}
        return not undecided.issuperset((each.plan.id, each.plan.created_ms) for each in shown)

    def _act(self, key: str, shown: list[Shown]) -> bool:
        """Run the command of a key; return False to ask again."""
        match key:
            case "j":
                self._at += 1
            case "k":
                self._at = self._before()
            case "a":
                self._view.whole = True
            case "c":
                wider = (count for count in _CONTEXTS if count > self._view.context)
                self._view.context = next(wider, CONTEXT)
            case "v":
                self._split = not self._is_split
            case "f":
                self._view = _View(tuple(self._of_file(shown[0])))
                self._at = self._queue.index(self._view.ids[0])
            case "w":
                applied = write(self._opened, shown)
                words = [str(written_data(edit, self._lang)["summary"]) for edit in applied]
                self._record("written", shown, *words, edit_ids=[edit.edit_id for edit in applied])
            case "y" | "n":
                reason = None if key == "y" else self._keys.line(say("cli.reason", self._lang))
                for each in shown:
                    self._decide(each, reason)
            case "m":
                return self._comment(shown[0])
            case "e":
                return self._edit(shown[0])
            case "s":
                parts = self._review.split(self._reviewer, shown[0].plan.id)
                self._queue[self._at : self._at + 1] = [plan.id for plan in parts]
            case _:
                self._take_back()
        if key in "ywn":
            self._at += 1
        terminal.saved(self._opened.desk.foreign.told(self._reviewer), self._lang)
        return True

    def _before(self) -> int:
        """The index of the previous undecided plan; -1 if there is none."""
        mine = self._mine
        return next((i for i in range(self._at - 1, -1, -1) if self._queue[i] not in mine), -1)

    def _decide(self, shown: Shown, reason: str | None) -> None:
        """Reject a plan for a reason; None approves it as it was shown."""
        if reason is None:
            decision = self._review.approve(self._reviewer, *shown.seen)
        else:
            decision = self._review.reject(self._reviewer, shown.plan.id, reason)
        data = decision_data(decision, self._lang)
        self._record(decision.verdict, [shown], str(data["summary"]))

    def _comment(self, shown: Shown) -> bool:
        """Ask for a comment and its line, and record it; return whether there is one.

        Before a comment on a line is its number; with a minus, of the text that is there.
        """
        text = self._keys.line(say("cli.comment", self._lang))
        number, mark, rest = text.partition(":")
        line = int(number) if mark and re.fullmatch("-?[0-9]{1,9}", number) else 0
        if text:
            self._review.comment(self._reviewer, shown.plan.id, rest if line else text, line)
        return bool(text)

    def _edit(self, shown: Shown) -> bool:
        """Replace the new text in the editor; return whether it was changed."""
        old = shown.plan.request.text
        assert old is not None, "the key is not offered"
        with self._keys.lines():
            new = edited(old, Path(str(shown.plan.request.path)).suffix)
        if new in (None, old):
            self._say("cli.not_edited")
            return False
        self._review.amend(self._reviewer, shown.plan.id, new)
        return True

    def _take_back(self) -> None:
        """Undo the last decision of this run; undone writes become pending plans again."""
        (kind, plans, edit_ids), person = self._done.pop(), self._reviewer
        try:
            for edit_id in reversed(edit_ids):
                outcome = self._opened.desk.undo(person, UNDO, edit_id)
                if isinstance(outcome, NotUndone):
                    raise outcome.refusal
                self._say("cli.edit_taken_back", id=edit_id, path=outcome.entry.path)
            for plan in plans:
                if kind != "written":
                    self._review.withdraw(person, plan.id)
                    self._say("cli.taken_back", id=plan.id)
                elif edit_ids:
                    self._review.reopen(person, plan)
                    self._say("cli.waits_again", id=plan.id)
        except Refusal as refusal:
            self._complain(plans[0].id, refusal)
        else:
            self._at = self._queue.index(plans[0].id)
            self._view = _View()

    def _record(
        self, kind: str, shown: Sequence[Shown], *words: str, edit_ids: Sequence[int] = ()
    ) -> None:
        """Keep what was done, to be undone, and say it; an edit that changed nothing has no id."""
        written = tuple(dict.fromkeys(filter(None, edit_ids)))
        self._done.append((kind, tuple(each.plan for each in shown), written))
        for message in words:
            tell(message)
        out("\n")

    def _offered(self, shown: list[Shown]) -> str:
        """The keys for these plans, or for the end of the queue."""
        can_join = len(shown) == 1 and shown[0].refusal is None
        keys = {
            **(self._decisions(shown) if shown else {}),
            "u": bool(self._done),
            "f": self._keys.single and can_join and len(self._of_file(shown[0])) > 1,
            "cv": self._keys.single and bool(shown),
            "k": self._keys.single and self._before() >= 0,
            "j": bool(shown),
            "q?": True,
        }
        return "".join(key for key, is_offered in keys.items() if is_offered)

    def _decisions(self, shown: list[Shown]) -> dict[str, bool]:
        """Whether each key that decides on these plans, or shows all of them first, is offered."""
        draft, request = shown[0].draft, shown[0].plan.request
        rights = [self._review.rights(self._reviewer, each, len(shown)) for each in shown]
        can, may_decide = shown[0].refusal is None, not any(each.decide for each in rights)
        changes = may_decide and can and len(shown) == 1
        is_whole = isinstance(draft.base, Snapshot) and not draft.created
        return {
            "y": can and self._is_seen and not any(each.approve for each in rights),
            "w": can and self._is_seen and not any(each.apply for each in rights),
            "a": not self._is_seen,
            "n": may_decide,
            "m": changes,
            "e": changes and request.text is not None,
            "s": changes and is_whole and len(draft.regions_apart) > 1,
        }

    def _of_file(self, shown: Shown) -> list[str]:
        """The known undecided plans of the same file."""
        same = {plan.id for plan in self._open() if plan.request.path == shown.plan.request.path}
        return [each for each in self._queue if each in same]

    def _prompt(self, shown: list[Shown]) -> str:
        keys = self._offered(shown)
        saying = "cli.approve_these" if len(shown) > 1 else "cli.approve_this"
        if not shown:
            saying = "cli.go_on"
        elif shown[0].refusal is not None:
            saying = "cli.reject_this"
        elif self._keys.single and not self._pager.is_seen:
            saying = "cli.more_follows"
            keys = f" {keys}"
        question = say(saying, self._lang, {"count": len(shown)})
        position = f"({self._at + 1}/{len(self._queue)}) " if shown and self._keys.single else ""
        named = ",".join("space" if key == " " else key for key in keys)
        return terminal.strong(f"{position}{question} [{named}]", self._coloured) + " "

    def _help(self, keys: str) -> None:
        out("".join(f"{key} - {say(_KEYS[key], self._lang)}\n" for key in keys))
        if self._keys.single:
            self._say("cli.key.page")

    @property
    def _is_seen(self) -> bool:
        """Whether all of the shown plans was on the screen."""
        return self._pager.is_seen and not self._view.is_cut

    @property
    def _size(self) -> os.terminal_size:
        """The current size of the terminal, or that in the environment if unknown."""
        size = os.get_terminal_size(sys.stdout.fileno())
        return size if size.columns and size.lines else shutil.get_terminal_size()

    @property
    def _height(self) -> int:
        """The rows to show at a time: the screen without the prompt and one earlier row."""
        return max(self._size.lines - 2, 3)

    @property
    def _is_split(self) -> bool:
        return self._size.columns >= SPLIT_COLUMNS if self._split is None else self._split

    def _show(self, shown: list[Shown]) -> None:
        """Draw the plans: on a terminal their first page, otherwise all of them."""
        if self._queue and not shown:
            self._say("cli.all_seen")
        self._view.is_cut = False
        self._pager = _Pager(chain.from_iterable(map(self._rows, shown)))
        is_long = self._keys.single and not self._view.whole
        self._draw(self._pager.forward(self._height if is_long else _ALL))
        if self._pager.is_seen and self._view.is_cut:
            self._say("cli.diff_cut")

    def _draw(self, rows: Sequence[str]) -> None:
        """Print rows; a decision that was typed before they were there is not one on them."""
        out("".join(f"{row}\n" for row in rows))
        if rows and (early := self._keys.typed_ahead("ywn")):
            self._say("cli.typed_early", keys=",".join(early))

    def _rows(self, shown: Shown) -> Iterator[str]:
        """The rows of a plan; whether some of the change is in none is noted in the view."""
        columns = self._size.columns if self._keys.single else sys.maxsize
        for number, words in enumerate(self._about(shown)):
            for row in text_rows(words, columns):
                yield row if number else terminal.strong(row, self._coloured)
        if self._keys.single:
            yield from self._diff_rows(shown, columns)
            if lines := getattr(shown.refusal, "current", None):
                yield from text_rows(say("cli.now", self._lang), columns)
                yield from text_rows(numbered_lines(lines), columns)
                yield ""
            return
        if shown.refusal is not None:
            self._complain(shown.plan.id, shown.refusal)
        text, is_cut = short_diff(shown, self._lang)
        self._view.is_cut |= is_cut and not self._view.whole
        if self._view.whole:
            text = diff_text(shown.diff, shown.draft.base.encoding)
        yield terminal.diff(text.removesuffix("\n"), self._coloured)

    def _diff_rows(self, shown: Shown, columns: int) -> Iterator[str]:
        """The change as rows of the screen."""
        view = self._view
        model = of_change(shown.draft.base, shown.draft.change, view.context)
        view.is_cut |= model.is_cut and not view.whole
        is_text = is_binary_deletion(shown.draft) or not model.hunks
        text = diff_text(shown.diff if is_text else shown.diff.partition(b"\n@@ ")[0], UTF8)
        for line in text.removesuffix("\n").split("\n"):
            if is_text or not line.startswith(("diff ", "index ", "--- ", "+++ ")):
                yield from text_rows(line, columns)
        if not is_text:
            look = Look(columns, self._coloured, self._is_split, view.whole)
            yield from diff_rows(
                model, look, lambda count: say("left_out.characters", self._lang, {"count": count})
            )
        yield ""

    def _about(self, shown: Shown) -> Iterator[str]:
        """The lines above a plan's diff."""
        lang, at = self._lang, self._queue.index(shown.plan.id) + 1
        facts = {**facts_of(shown.plan, lang), "at": at, "count": len(self._queue)}
        barred = shown.refusal if self._keys.single else None
        if shown.refusal is None:
            barred = self._review.rights(self._reviewer, shown).apply
        said = (
            [say("cli.step", lang, facts)],
            about_plan(self._opened, shown),
            [terminal.refusal_words(barred, lang)] if barred is not None else [],
            (say_reason(sign, lang) for sign in shown.signs),
            (check_words(check, lang) for check in shown.checks or ()),
        )
        return map(terminal.line, chain(*said))

    def _complain(self, hunk_id: str, refusal: Refusal) -> None:
        terminal.complain(f"{hunk_id}: {terminal.refusal_words(refusal, self._lang)}")

    def _say(self, saying: str, **facts: object) -> None:
        tell(say(saying, self._lang, facts))


_NAVIGATION = {
    **dict.fromkeys(("\x1b[A", "\x1bOA", "\x1b[5~"), "b"),
    **dict.fromkeys(("\x1b[B", "\x1bOB", "\x1b[6~"), " "),
    **dict.fromkeys(("\x1b[C", "\x1bOC"), "j"),
    **dict.fromkeys(("\x1b[D", "\x1bOD"), "k"),
    "\r": "\n",
}
"""Arrow and page keys as navigation keys."""

_CONTEXTS = (CONTEXT, 10, 40, 1_000_000)

_KEYS = {
    "y": "cli.key.approve",
    "w": "cli.key.write",
    "a": "cli.key.all",
    "n": "cli.key.reject",
    "m": "cli.key.message",
    "e": "cli.key.edit",
    "s": "cli.key.split",
    "u": "cli.key.undo",
    "f": "cli.key.file",
    "c": "cli.key.context",
    "v": "cli.key.view",
    "k": "cli.key.back",
    "j": "cli.key.later",
    "q": "cli.key.quit",
    "?": "cli.key.help",
}
"""The message that explains each key."""


def edited(text: str, suffix: str) -> str | None:
    """The text as the person's editor leaves it; None if the editor fails."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="copydesk-") as folder:
        file = Path(folder, f"new{suffix}")
        file.write_bytes(text.encode())
        try:
            ended = subprocess.run([*shlex.split(editor), str(file)], check=False)
            return None if ended.returncode else file.read_bytes().decode()
        except (OSError, ValueError) as error:
            terminal.complain(f"{editor}: {error}")
            return None


def run_changes(opened: OpenWorkspace, options: argparse.Namespace, member: str) -> int | None:
    """Run one of the commands on the edits of a member, "" for all; return the exit status."""
    if options.command != "changes":
        check_declared(opened)
    changes = _Changes(opened, options, member)
    commands: Mapping[str, Callable[[], int | None]] = {
        "changes": changes.show,
        "keep": changes.keep,
        "undo": changes.undo,
        "review": changes.review,
    }
    return commands[options.command]()


def checkpoint(opened: OpenWorkspace, options: argparse.Namespace) -> None:
    """Set a checkpoint, or list them."""
    lang, changes = opened.config.lang, opened.desk.changes
    rows, words = list(changes.checkpoints()), say("cli.checkpoints_none", lang)
    if options.name is not None:
        check_declared(opened)
        rows = [changes.checkpoint(_person(opened), options.name)]
        words = say("cli.checkpoint_set", lang, {"name": shlex.quote(rows[0].name)})
    if options.json:
        facts = ("name", "time_ms", "edit_id", "by")
        dump([{fact: getattr(row, fact) for fact in facts} for row in rows])
    elif options.name is not None or not rows:
        tell(words)
    else:
        cells = [(row.name, terminal.when(row.time_ms), str(row.edit_id), row.by) for row in rows]
        out(terminal.table([("CHECKPOINT", "WHEN", "AFTER EDIT", "BY"), *cells]))


def _person(opened: OpenWorkspace) -> Member:
    """The person at the command line; a member whose edits a person approves stays itself."""
    member = reviewer(opened)
    return opened.person(opened.config.member) if member.policy.asks_nobody else member


class _Changes:
    """The open changes that the options select."""

    def __init__(self, opened: OpenWorkspace, options: argparse.Namespace, member: str) -> None:
        self._opened, self._options = opened, options
        self._lang: Lang = opened.config.lang
        self._changes = opened.desk.changes
        named = "to" if getattr(options, "to", None) else "since"
        since = self._changes.since(getattr(options, named) or "", named)
        self._what = replace(since, task=options.task or "", member=member)
        self._person = _person(opened)
        self._keys = terminal.Keys()
        self._counts = Counter({"kept": 0, "undone": 0, "rewritten": 0})

    def show(self) -> None:
        """Print the changes: as a diff that `git apply` takes, as a table, or as data."""
        files, with_tasks = self._view(), self._options.stat or self._options.json
        is_all = self._what == Selection()
        tasks = self._changes.tasks(self._person) if is_all and with_tasks else ()
        older = self._changes.older(self._person) if is_all else 0
        if self._options.json:
            dump(
                {
                    "files": [_file_data(file, self._lang) for file in files],
                    "tasks": [*map(_task_data, tasks)],
                    "older": older,
                }
            )
            return
        if not self._options.stat:
            wide = [str(file.path) for file in files if file.now.encoding.unit > 1 or not file.diff]
            _print_diff(b"".join(file.diff for file in files if str(file.path) not in wide))
            if wide:
                terminal.complain(say("cli.changes_wide", self._lang, {"paths": ", ".join(wide)}))
        elif tasks:
            head = ("TASK", "MEMBER", "FILES", "LINES", "OPEN", "AGE", "WHY")
            out(terminal.table([head, *map(_task_row, tasks)]))
            self._say("cli.changes_next", task=shlex.quote(tasks[0].key))
        elif files:
            head = ("CHANGE", "PLACE", "LINES", "MEMBER", "AGE", "CHANGED BY", "WHY")
            rows = (_hunk_row(hunk) for file in files for hunk in file.hunks)
            out(terminal.table([head, *rows]))
        for key, count in (("cli.changes_none", not files), ("cli.changes_older", older)):
            if count:
                sys.stdout.flush()
                tell(say(key, self._lang, {"count": int(count)}), sys.stderr)

    def keep(self) -> None:
        """Keep the named changes and files, or all; with `stage`, git has them in its index."""
        files = self._view()
        named = self._named(files) if self._options.change else None
        if self._options.stage:
            parts = [
                (file, [hunk for hunk in file.hunks if named is None or hunk.id in named])
                for file in files
            ]
            _stage(self._opened.root, [_part(file, hunks) for file, hunks in parts if hunks])
        count = self._changes.keep(self._person, self._what, named)
        if self._options.json:
            dump({"status": "ok", "kept": count, "staged": self._options.stage})
        else:
            key = "cli.changes_staged" if self._options.stage else "cli.changes_kept"
            self._say(key, count=count)

    def _named(self, files: Sequence[FileChanges]) -> Collection[str]:
        """The ids of the changes that are named by their ids or files; InvalidArgs for others."""
        known = {str(file.path): [hunk.id for hunk in file.hunks] for file in files}
        known |= {hunk_id: [hunk_id] for ids in (*known.values(),) for hunk_id in ids}
        names = [
            known.get(name) or known.get(os.path.normpath(name)) or name
            for name in self._options.change
        ]
        lacking = [name for name in names if isinstance(name, str)]
        if lacking:
            of = {
                h.id: task.key
                for task in self._changes.tasks(self._person)
                for file in task.files
                for h in file.hunks
            }
            name = next(filter(of.__contains__, lacking), "")
            raise InvalidArgs(
                "change",
                f"is open only with --task {shlex.quote(of[name])}: {name}"
                if name
                else f"is not open: {', '.join(lacking)}; changes --json lists those that are",
            )
        return frozenset(chain.from_iterable(names))

    def undo(self) -> int:
        """Undo the changes by one transaction; nothing if one of them cannot be, unless partly."""
        parts = {hunk.id: _part(file, [hunk]) for file in self._view() for hunk in file.hunks}
        if not parts and not self._changes.has(self._what.task):
            raise InvalidArgs("task", "is no task of any edit; changes --stat lists them")
        reason, partly = self._options.reason, self._options.partly
        done = self._changes.undo(self._person, self._what, reason=reason, partly=partly)
        if self._options.json:
            dump(
                {
                    "status": "error" if done.refused else "pending" if done.waiting else "ok",
                    "edit_ids": [edit.edit_id for edit in done.written],
                    "pending": done.waiting,
                    "refused": [
                        {
                            **_hunk_data(part.hunks[0] if part else hunk, self._lang),
                            "diff": _file_data(part, self._lang)["diff"] if part else "",
                            "error": refusal.code,
                            "summary": self._why(hunk, refusal),
                        }
                        for hunk, refusal in done.refused
                        for part in [parts.get(hunk.id)]
                    ],
                }
            )
        else:
            self._report("undone", done, parts)
            others = len(parts) - len(done.refused)
            if done.refused and not done.written and others > 0:
                self._say("cli.undo_partly", count=others)
            if not parts:
                self._say("cli.changes_none")
        return 1 if done.refused or done.waiting else 0

    def _report(self, kind: str, done: UndoneChanges, parts: Mapping[str, FileChanges]) -> None:
        """Print what was `undone` or `rewritten`, and what was not, each with both texts."""
        wrote, left = _REPORTS[kind]
        for edit in done.written:
            self._say(wrote, path=edit.path, edit=edit.edit_id)
        for hunk_id in done.waiting:
            self._say("cli.change_waits", id=hunk_id)
        for hunk, refusal in done.refused:
            self._say(left, place=_place(hunk), why=self._why(hunk, refusal))
            if part := parts.get(hunk.id):  # else it was made after the view was read
                _print_diff(part.diff)

    def _why(self, hunk: ChangedHunk, refusal: Refusal) -> str:
        """Why a change was not undone."""
        touched = say("cli.change_touched", self._lang, {"by": ", ".join(hunk.touched_by)})
        return touched if hunk.touched_by else terminal.refusal_words(refusal, self._lang)

    def review(self) -> int:
        """Ask for each change, as `git add -p` does; return the exit status."""
        hunks = [hunk for file in self._view() for hunk in file.hunks]
        if not hunks:
            self._say("cli.changes_none")
            return 0
        status = self._keys.run(lambda: self._ask_each(hunks))
        left = sum(len(file.hunks) for file in self._view())
        self._say("cli.changes_reviewed", **self._counts, left=left)
        return status

    def _ask_each(self, hunks: Sequence[ChangedHunk]) -> None:
        question = f"{say('cli.change_ask', self._lang)} [{','.join(_CHANGE_KEYS)}] "
        for at, hunk in enumerate(hunks, 1):
            while part := self._open_part(hunk):
                self._draw(part, f"{at}/{len(hunks)}")
                key = self._keys.answer(repeat(question))
                if key == "q":
                    return
                try:
                    if not self._act(key, part):
                        break
                except Refusal as refusal:
                    terminal.complain(terminal.refusal_words(refusal, self._lang))

    def _open_part(self, hunk: ChangedHunk) -> FileChanges | None:
        """The file with this change alone; None if it was kept, undone or changed meanwhile."""
        return next(
            (
                _part(file, [each])
                for file in self._view(hunk.path)
                for each in file.hunks
                if each.id == hunk.id
            ),
            None,
        )

    def _draw(self, part: FileChanges, count: str) -> None:
        """Show a change; an answer that was typed before is none to it."""
        hunk = part.hunks[0]
        first, last = hunk.edits[0], hunk.edits[-1]
        place, age = _place(hunk), _ago(last.time_ms)
        self._say("cli.change_step", count=count, place=place, by=last.member, age=age)
        if why := first.why or last.why:
            self._say("ask.why", why=why)
        if hunk.touched_by:
            self._say("cli.change_touched", by=", ".join(hunk.touched_by))
        head, binary, _ = part.diff.partition(b"GIT binary patch")
        _print_diff(head.partition(b"index ")[0] if binary else part.diff)
        if early := self._keys.typed_ahead("kuec"):
            self._say("cli.typed_early", keys=",".join(early))

    def _act(self, key: str, part: FileChanges) -> bool:
        """Do what a key says with a change; return whether to ask again."""
        hunk = part.hunks[0]
        chosen = self._person, replace(self._what, path=hunk.path)
        match key:
            case "k":
                self._counts["kept"] += self._changes.keep(*chosen, {hunk.id})
            case "u":
                reason = self._keys.line(say("cli.change_reason", self._lang))
                return self._end(
                    "undone", self._changes.undo(*chosen, {hunk.id}, reason=reason), part
                )
            case "e":
                text = part.now.encoding.decode(b"".join(hunk.new))
                with self._keys.lines():
                    new = edited(text, Path(str(hunk.path)).suffix)
                if new is not None and new != text:
                    return self._end(
                        "rewritten", self._changes.rewrite(*chosen, hunk.id, new), part
                    )
                self._say("cli.not_edited")
                return True
            case "c":
                if text := self._keys.line(say("cli.change_comment", self._lang)):
                    self._changes.comment(*chosen, hunk.id, text)
                return True
            case "s":
                pass
            case _:
                out(
                    "".join(
                        f"{key} - {say(_CHANGE_KEYS[key], self._lang)}\n" for key in _CHANGE_KEYS
                    )
                )
                return True
        return False

    def _end(self, kind: str, done: UndoneChanges, part: FileChanges) -> bool:
        """Print what came of a change; return whether to ask again, as it was refused."""
        self._report(kind, done, {part.hunks[0].id: part})
        self._counts[kind] += bool(done.written)
        return bool(done.refused)

    def _view(self, path: RelPath | None = None) -> tuple[FileChanges, ...]:
        return self._changes.view(self._person, replace(self._what, path=path))

    def _say(self, key: str, **facts: object) -> None:
        tell(say(key, self._lang, facts))


_CHANGE_KEYS = {
    "k": "cli.key.keep",
    "u": "cli.key.undo_change",
    "e": "cli.key.edit",
    "c": "cli.key.comment",
    "s": "cli.key.skip",
    "q": "cli.key.quit",
    "?": "cli.key.help",
}
"""The message that explains each key."""

_REPORTS = {
    "undone": ("cli.change_undone", "cli.stays_undone"),
    "rewritten": ("cli.change_rewritten", "cli.stays_rewritten"),
}
"""The messages for a change that was, and was not, dealt with in this way."""


def _task_row(task: TaskChanges) -> tuple[str, ...]:
    added, removed = task.lines
    lines, age = f"+{added} -{removed}", _ago(task.last_ms)
    return (task.key, task.member, str(len(task.files)), lines, str(task.open), age, task.why)


def _task_data(task: TaskChanges) -> dict[str, object]:
    added, removed = task.lines
    return {
        "task": task.key,
        "name": task.name,
        "member": task.member,
        "why": task.why,
        "first_ms": task.first_ms,
        "last_ms": task.last_ms,
        "files": [str(file.path) for file in task.files],
        "added": added,
        "removed": removed,
        "open": task.open,
    }


def _hunk_row(hunk: ChangedHunk) -> tuple[str, ...]:
    edit, lines = hunk.edits[-1], f"+{len(hunk.new)} -{len(hunk.old)}"
    others, age = ", ".join(hunk.touched_by) or "-", _ago(edit.time_ms)
    why = next((each.why for each in hunk.edits[::-1] if each.why), "")
    return (hunk.id, _place(hunk), lines, edit.member, age, others, why)


def _hunk_data(hunk: ChangedHunk, lang: Lang) -> dict[str, object]:
    return {
        "change": hunk.id,
        "path": str(hunk.path),
        "kind": hunk.kind,
        "old_line": hunk.old_line + 1,
        "new_line": hunk.new_line + 1,
        "removed": len(hunk.old),
        "added": len(hunk.new),
        "edit_ids": [edit.edit_id for edit in hunk.edits],
        "edits": [
            {name: getattr(edit, name) for name in ("edit_id", "member", "tool", "time_ms", "why")}
            for edit in hunk.edits
        ],
        "members": list(dict.fromkeys(edit.member for edit in hunk.edits)),
        "touched_by": list(hunk.touched_by),
        "checks": [check_row(finding, lang) for finding in hunk.checks],
    }


def _file_data(file: FileChanges, lang: Lang) -> dict[str, object]:
    return {
        "path": str(file.path),
        "was": str(file.was or ""),
        "kind": file.kind,
        "changes": [_hunk_data(hunk, lang) for hunk in file.hunks],
        "diff": encoding_of_diff(file.diff, None).decode(file.diff),
    }


def _place(hunk: ChangedHunk) -> str:
    """The path of a change, with its line if it is not of the whole file."""
    return f"{hunk.path}:{hunk.new_line + 1}" if hunk.kind == "text" else str(hunk.path)


def _ago(time_ms: int) -> str:
    return terminal.ago(time.time_ns() // 1_000_000 - time_ms)


def _print_diff(diff: bytes) -> None:
    """Print a diff: on a terminal so that nothing in it acts there, else its exact bytes."""
    if sys.stdout.isatty():
        out(terminal.diff(encoding_of_diff(diff, None).decode(diff), terminal.colours(sys.stdout)))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(diff)


def _part(file: FileChanges, hunks: Sequence[ChangedHunk]) -> FileChanges:
    """The file with only these of its changes."""
    kinds = {hunk.kind for hunk in hunks}
    change = file.change
    if kinds.isdisjoint(("create", "remove")):
        start = file.base.unmarked().start  # a byte order mark is part of the first line
        edits = [
            Edit(start(hunk.old_line), start(hunk.old_line + len(hunk.old)), b"".join(hunk.new))
            for hunk in hunks
            if hunk.kind == "text"
        ]
        change = ChangeSet.of(file.base.size, edits)
    was = file.was if "move" in kinds else None
    return replace(file, hunks=tuple(hunks), change=change, was=was)


def _of_index(root: str, file: FileChanges) -> FileChanges:
    """The changes as git's index has the file, which may lack lines that the person wrote.

    Those that are in it are left out. Raises UsageError for other lines at their places.
    """
    if not file.by_lines:
        raise UsageError(f"{file.path} is no text, or above 8 MiB: stage it with git add")
    shown = _git(root, "show", f":./{file.was or file.path}")
    if file.kind == "create" and not shown.returncode and shown.stdout == file.now.data:
        return replace(file, kind="edit", base=file.now, change=ChangeSet.of(file.now.size, ()))
    if file.kind != "edit" or shown.returncode or shown.stdout == file.base.data:
        return file
    index = Snapshot.of(shown.stdout)
    from_base, from_now = (align(side.keys, index.keys) for side in (file.base, file.now))
    edits: list[Edit] = []
    for hunk in file.hunks:
        if hunk.kind != "text":
            continue
        old, new = len(hunk.old), len(hunk.new)
        if new and _among(from_now, hunk.new_line, new) is not None:
            continue
        at = _among(from_base, hunk.old_line, old)
        if at is None:
            raise UsageError(
                f"git's index has other lines at {_place(hunk)}: stage it with git add -p"
            )
        text = b"".join(hunk.new).replace(file.base.dominant_newline, index.dominant_newline)
        edits.append(Edit(index.start(at), index.start(at + old), text))
    return replace(file, base=index, change=ChangeSet.of(index.size, edits))


def _among(lines: Alignment, first: int, count: int) -> int | None:
    """Where some lines are in the other text, together with the one above and the one below."""
    above = min(first, 1)
    below = min(lines.base_length - first - count, 1)
    at = lines.now_of(first - above, above + count + below)
    return None if at is None else at + above


def _stage(root: str, files: Sequence[FileChanges]) -> None:
    """Put the changes into git's index; all, or UsageError."""
    diffs = [_of_index(root, file).diff for file in files]
    prefix = _git(root, "rev-parse", "--show-prefix").stdout.decode().strip()
    words = "apply", "--cached", "--whitespace=nowarn", f"--directory={prefix}"
    staged = _git(root, *words, given=b"".join(diffs)) if any(diffs) else None
    if staged is not None and staged.returncode:
        why = staged.stderr.decode("utf-8", "replace").strip()
        raise UsageError(f"git cannot stage this, and nothing was kept: {why}")


def _git(root: str, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    own = "git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-C", root
    try:
        return subprocess.run([*own, *words], input=given, capture_output=True, check=False)
    except OSError as error:
        raise UsageError(f"git cannot be run: {error.strerror}") from None
