"""Approving plans on the terminal, and `copydesk review`, which steps through all pending plans.

An approval is for what was on the screen. If the file or the plan has changed since, it is shown
again.
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
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from copydesk.app import terminal
from copydesk.app.cli import errors
from copydesk.app.cli.parser import UsageError
from copydesk.app.config import load
from copydesk.app.terminal import SPLIT_COLUMNS, Look, diff_rows, out, tell, text_rows
from copydesk.app.workspace import OpenWorkspace
from copydesk.desk.backends.api import Decision
from copydesk.desk.member import Member
from copydesk.desk.outcome import Applied, NotUndone, Rejected, Transacted, Withheld
from copydesk.desk.review import Shown
from copydesk.edit.draft import Plan
from copydesk.errors import AccessDenied, AlreadyDecided, ContentChanged, HunkNotFound, Refusal
from copydesk.text.encoding import UTF8
from copydesk.text.snapshot import Snapshot
from copydesk.text.unified import CONTEXT
from copydesk.tools.diff_model import diff_text, of_change
from copydesk.tools.messages import say, say_reason
from copydesk.tools.refusals import check_words, numbered_lines
from copydesk.tools.report import Lang
from copydesk.tools.reports import is_binary_deletion, short_diff
from copydesk.tools.ws_mod import UNDO

_ALL = 1 << 40
"""More rows than there are."""

_SEEN = 8
"""The fewest digits of a digest that nobody can guess."""


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
        if len(after) < _SEEN or not shown.after.startswith(after):
            raise ContentChanged("the file or the plan changed since it was shown")
        return shown
    text, was_cut = short_diff(shown, lang)
    if shown.state != "exact":
        key, problem = "cli.approve_after", "the file or the plan changed since it was shown"
        text = diff_text(shown.diff, shown.draft.base.encoding)
    elif was_cut:
        key, problem = "cli.approve_long", "not all of the change was shown"
        text = ""
    else:
        key = problem = ""
    if not options.json:
        command = "apply --approve" if options.command == "apply" else options.command
        facts = {"id": hunk_id, "after": shown.after, "command": command}
        out(terminal.diff(text, terminal.colours(sys.stdout)) + "\n" * bool(text))
        if key:
            tell(say(key, lang, facts))
    if problem:
        raise ContentChanged(problem)
    return shown


def write(opened: OpenWorkspace, shown: Sequence[Shown]) -> Sequence[Applied]:
    """Approve plans as shown and write them at once, all or none; raises Refusal."""
    seen = [one.seen for one in shown]
    outcome = opened.desk.review.apply(reviewer(opened), seen)
    if isinstance(outcome, Rejected | Withheld):
        raise outcome.refusal
    return outcome.applied if isinstance(outcome, Transacted) else (outcome,)


def written_words(applied: Applied, lang: Lang) -> str:
    """An approved edit that was written, in words."""
    plan = applied.plan
    facts = {"id": plan.id, "path": plan.request.path, "edit": applied.edit_id}
    return say("cli.written", lang, facts)


def next_steps(opened: OpenWorkspace, shown: Shown) -> str:
    """What the person at the command line may do with a plan: the commands, in one line."""
    plan, lang = shown.plan, opened.config.lang
    own = opened.member(opened.config.member)
    rights = opened.desk.review.rights(reviewer(opened), shown)
    may_write = opened.desk.review.rights(own, shown).apply is None
    verdict = shown.decision.verdict if shown.decision else ""
    is_over = verdict not in ("", "approved")
    if plan.owner == own.name and (is_over or shown.refusal is not None):
        key = "cli.next_discard"
    elif plan.owner == own.name and (verdict or may_write):
        key = "cli.next"
    elif is_over:
        return ""
    elif rights.decide is not None:
        key = "cli.next_person"
    elif shown.refusal is not None:
        key = "cli.next_reject"
    else:
        key = "cli.next_decide" if rights.apply is None else "cli.next_approve"
    after = f" --after {shown.after[:_SEEN]}" if shown.state == "drifted" else ""
    is_usual = own.name == load(opened.root).member
    named = "" if is_usual else f" --member {shlex.quote(own.name)}"
    return say(key, lang, {"id": plan.id, "owner": plan.owner, "after": after, "as": named})


def print_next(opened: OpenWorkspace, hunk_id: str) -> None:
    """Print what the person may do with a plan, if it is pending, on standard error."""
    with suppress(Refusal):
        shown = opened.desk.review.show(reviewer(opened), hunk_id)
        if steps := next_steps(opened, shown):
            tell(steps, sys.stderr)


def paths_of(plan: Plan) -> str:
    """The path of a plan, and the one that it moves the file to."""
    target = plan.request.target
    return str(plan.request.path) if target is None else f"{plan.request.path} → {target}"


def about_plan(opened: OpenWorkspace, shown: Shown) -> list[str]:
    """What there is to know of a plan, besides its edit: why, the decision, comments, findings."""
    plan, lang = shown.plan, opened.config.lang
    said = [say("ask.why", lang, {"why": plan.why})] if plan.why else []
    if shown.decision is not None:
        said.append(standing_words(shown.decision, lang))
    for one in opened.desk.review.comments(shown):
        line = one.after.lstrip("+")
        facts = {"by": one.by, "line": line, "why": one.reason}
        of_plan = "cli.lapsed" if one.verdict == "lapsed" else "cli.commented"
        said.append(say("cli.comment_line" if line else of_plan, lang, facts))
    return said + ([say("cli.drifted", lang)] if shown.state == "drifted" else [])


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


def standing_words(decision: Decision, lang: Lang) -> str:
    """How a plan was decided on, and by whom, in words."""
    verdict = say_reason(decision.verdict, lang)
    return say("cli.decided", lang, {"id": decision.plan[0], "by": decision.by, "verdict": verdict})


def log_approvals(opened: OpenWorkspace) -> int:
    """Print each approved edit as a line of JSON, oldest first; return the exit status."""
    rows = [terminal.json_line(row) for row in _approved(opened)]
    out("".join(reversed(rows)))
    return 0


def check_approvals(opened: OpenWorkspace, log: str, *, as_json: bool) -> int:
    """Compare the lines of a log with the journal; return the exit status, 1 if one differs."""
    rows = {json.dumps(row, sort_keys=True) for row in _approved(opened)}
    try:
        with open(log, encoding="utf-8") as file:
            logged = [json.dumps(json.loads(line), sort_keys=True) for line in file]
    except (OSError, ValueError) as error:
        raise UsageError(f"{log}: {error}") from None
    wrong = [at for at, row in enumerate(logged, 1) if row not in rows]
    if as_json:
        terminal.dump({"checked": len(logged), "wrong_lines": wrong})
    else:
        facts = {"count": len(logged), "lines": ", ".join(map(str, wrong))}
        said = say("cli.log_wrong" if wrong else "cli.log_right", opened.config.lang, facts)
        tell(said)
    return 1 if wrong else 0


def _approved(opened: OpenWorkspace) -> Iterator[dict[str, object]]:
    """The approved edits, newest first, with journaled and approved digests."""
    person, before = opened.member(opened.config.member), None
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


@dataclass(frozen=True, slots=True)
class _Done:
    """An action that can be undone: the decision on some plans, and the edits written."""

    kind: str
    plans: tuple[Plan, ...]
    edit_ids: tuple[int, ...] = ()


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

    def on(self, count: int) -> list[str]:
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


def review(opened: OpenWorkspace) -> int:
    """Step through the plans that need a decision; return the exit status."""
    return _Review(opened).run()


class _Review:
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
        self._done: list[_Done] = []
        self._queue: list[str] = []
        self._at = 0
        self._changes: object = None
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
        for done in self._done:
            kinds[done.kind] += len(done.plans)
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
        return {plan.id for done in self._done for plan in done.plans}

    def _refresh(self) -> bool:
        """Add new plans to the queue; return whether anything has changed."""
        changes = self._opened.changes()
        if changes == self._changes:
            return False
        self._changes = changes
        self._queue += [plan.id for plan in self._open() if plan.id not in self._queue]
        return True

    def _open(self) -> list[Plan]:
        """The plans that need a decision, oldest first."""
        waiting = self._review.pending(self._reviewer)
        return [each.plan for each in waiting if each.decision is None]

    def _ask(self, shown: list[Shown]) -> bool:
        """Ask until an answer is acted on, or other plans are to show; return False to stop."""
        while True:
            key = self._keys.answer(self._prompts(shown))
            keys = self._offered(shown)
            if key in ("", "q"):
                return key == ""
            turns = key in " \nb" or (key == "a" and not self._pager.is_seen)
            if turns and shown and self._keys.single:
                height = self._height
                counts = {" ": height, "\n": 1, "a": _ALL}
                self._draw(self._pager.back(height) if key == "b" else self._pager.on(counts[key]))
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
        return not undecided.issuperset((one.plan.id, one.plan.created_ms) for one in shown)

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
                self._write(shown)
            case "y":
                for one in shown:
                    decision = self._review.approve(self._reviewer, *one.seen)
                    self._record(decision.verdict, [one], decision_words(decision, self._lang))
            case "n":
                reason = self._keys.line(say("cli.reason", self._lang))
                if not reason:
                    return False
                for one in shown:
                    decision = self._review.reject(self._reviewer, one.plan.id, reason)
                    self._record(decision.verdict, [one], decision_words(decision, self._lang))
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

    def _write(self, shown: list[Shown]) -> None:
        """Approve and write at once; several plans all or none."""
        applied = write(self._opened, shown)
        words = [written_words(one, self._lang) for one in applied]
        self._record("written", shown, *words, edit_ids=[one.edit_id for one in applied])

    def _comment(self, shown: Shown) -> bool:
        """Ask for a comment and its line, and record it; return whether there is one."""
        text = self._keys.line(say("cli.comment", self._lang))
        number, mark, rest = text.partition(":")
        line = int(number) if mark and _LINE.fullmatch(number) else 0
        if text:
            plan_id = shown.plan.id
            self._review.comment(self._reviewer, plan_id, rest if line else text, line)
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
        last, person = self._done.pop(), self._reviewer
        try:
            for edit_id in reversed(last.edit_ids):
                outcome = self._opened.desk.undo(person, UNDO, edit_id)
                if isinstance(outcome, NotUndone):
                    raise outcome.refusal
                self._say("cli.edit_taken_back", id=edit_id, path=outcome.entry.path)
            for plan in last.plans:
                if last.kind != "written":
                    self._review.withdraw(person, plan.id)
                    self._say("cli.taken_back", id=plan.id)
                elif last.edit_ids:
                    self._review.reopen(person, plan)
                    self._say("cli.waits_again", id=plan.id)
        except Refusal as refusal:
            self._complain(last.plans[0].id, refusal)
        else:
            self._at = self._queue.index(last.plans[0].id)
            self._view = _View()

    def _record(
        self, kind: str, shown: Sequence[Shown], *words: str, edit_ids: Sequence[int] = ()
    ) -> None:
        """Keep what was done, to be undone, and say it; an edit that changed nothing has no id."""
        written = tuple(dict.fromkeys(filter(None, edit_ids)))
        self._done.append(_Done(kind, tuple(one.plan for one in shown), written))
        for each in words:
            tell(each)
        out("\n")

    def _offered(self, shown: list[Shown]) -> str:
        """The keys for these plans, or for the end of the queue."""
        keys = self._decisions(shown) if shown else ""
        keys += "u" if self._done else ""
        if self._keys.single:
            can_join = len(shown) == 1 and shown[0].refusal is None
            keys += "f" if can_join and len(self._of_file(shown[0])) > 1 else ""
            keys += "cv" if shown else ""
            keys += "k" if self._before() >= 0 else ""
        return keys + ("jq?" if shown else "q?")

    def _decisions(self, shown: list[Shown]) -> str:
        """The keys that decide on these plans, or show all of them first."""
        first = shown[0]
        can, is_one = first.refusal is None, len(shown) == 1
        rights = [self._review.rights(self._reviewer, one, len(shown)) for one in shown]
        is_seen = self._is_seen
        keys = "y" if can and is_seen and not any(each.approve for each in rights) else ""
        keys += "w" if can and is_seen and not any(each.apply for each in rights) else ""
        keys += "" if is_seen else "a"
        if any(each.decide for each in rights):
            return keys
        draft = first.draft
        whole = isinstance(draft.base, Snapshot) and not draft.created
        keys += "nm" if is_one and can else "n"
        keys += "e" if is_one and can and first.plan.request.text is not None else ""
        return keys + ("s" if is_one and can and whole and len(draft.regions_apart) > 1 else "")

    def _of_file(self, shown: Shown) -> list[str]:
        """The known undecided plans of the same file."""
        path = shown.plan.request.path
        same = {plan.id for plan in self._open() if plan.request.path == path}
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
        place = f"({self._at + 1}/{len(self._queue)}) " if shown and self._keys.single else ""
        named = ",".join("space" if key == " " else key for key in keys)
        return terminal.strong(f"{place}{question} [{named}]", self._coloured) + " "

    def _help(self, keys: str) -> None:
        for key in keys:
            out(f"{key} - {say(_KEYS[key], self._lang)}\n")
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
        self._draw(self._pager.on(self._height if is_long else _ALL))
        if self._pager.is_seen and self._view.is_cut:
            self._say("cli.diff_cut")

    def _draw(self, rows: Sequence[str]) -> None:
        """Print rows; a decision that was typed before they were there is not one on them."""
        out("".join(f"{row}\n" for row in rows))
        early = self._keys.typed_ahead("ywn") if rows else []
        if early:
            self._say("cli.typed_early", keys=",".join(early))

    def _rows(self, one: Shown) -> Iterator[str]:
        """The rows of a plan; whether some of the change is in none is noted in the view."""
        columns = self._size.columns if self._keys.single else sys.maxsize
        for number, words in enumerate(self._about(one)):
            for row in text_rows(words, columns):
                yield row if number else terminal.strong(row, self._coloured)
        if self._keys.single:
            yield from self._diff_rows(one, columns)
            if lines := getattr(one.refusal, "current", None):
                yield from text_rows(say("cli.now", self._lang), columns)
                yield from text_rows(numbered_lines(lines), columns)
                yield ""
            return
        if one.refusal is not None:
            self._complain(one.plan.id, one.refusal)
        text, is_cut = short_diff(one, self._lang)
        self._view.is_cut |= is_cut and not self._view.whole
        if self._view.whole:
            text = diff_text(one.diff, one.draft.base.encoding)
        yield terminal.diff(text.removesuffix("\n"), self._coloured)

    def _diff_rows(self, one: Shown, columns: int) -> Iterator[str]:
        """The change as rows of the screen."""
        view = self._view
        model = of_change(one.draft.base, one.draft.change, view.context)
        view.is_cut |= model.is_cut and not view.whole
        is_text = is_binary_deletion(one.draft) or not model.hunks
        text = diff_text(one.diff if is_text else one.diff.partition(b"\n@@ ")[0], UTF8)
        for line in text.removesuffix("\n").split("\n"):
            if is_text or not line.startswith(("diff ", "index ", "--- ", "+++ ")):
                yield from text_rows(line, columns)
        if not is_text:
            look = Look(columns, self._coloured, self._is_split, view.whole)
            yield from diff_rows(
                model, look, lambda count: say("left_out.characters", self._lang, {"count": count})
            )
        yield ""

    def _about(self, one: Shown) -> Iterator[str]:
        """The lines above a plan's diff."""
        plan, lang = one.plan, self._lang
        facts = {
            "at": self._queue.index(plan.id) + 1,
            "count": len(self._queue),
            "id": plan.id,
            "path": paths_of(plan),
            "action": say(f"action.{plan.action}", lang),
            "owner": plan.owner,
            "left": terminal.ago(plan.expires_ms - time.time_ns() // 1_000_000),
        }
        said = [say("cli.step", lang, facts), *about_plan(self._opened, one)]
        barred = one.refusal if self._keys.single else None
        if one.refusal is None:
            barred = self._review.rights(self._reviewer, one).apply
        said += [errors.refusal_words(barred, lang)] if barred is not None else []
        said += [say_reason(sign, lang) for sign in one.signs]
        said += [check_words(check, lang) for check in one.checks or ()]
        return map(terminal.line, said)

    def _complain(self, hunk_id: str, refusal: Refusal) -> None:
        terminal.complain(f"{hunk_id}: {errors.refusal_words(refusal, self._lang)}")

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

_LINE = re.compile("-?[0-9]{1,9}")
"""The number of a line before a comment on it; with a minus, of the text that is there."""

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
        sys.stdout.flush()
        try:
            ended = subprocess.run([*shlex.split(editor), str(file)], check=False)
            return None if ended.returncode else file.read_bytes().decode()
        except (OSError, ValueError) as error:
            terminal.complain(f"{editor}: {error}")
            return None
