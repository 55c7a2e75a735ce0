"""Approving plans on the terminal, and `copydesk review`, which steps through all pending plans.

An approval is for what was on the screen. If the file or the plan has changed since, it is shown
again.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from copydesk.app import terminal
from copydesk.app.cli import errors
from copydesk.app.cli.parser import UsageError
from copydesk.app.terminal import SPLIT_COLUMNS, Look, diff_rows, out, text_rows
from copydesk.app.workspace import OpenWorkspace
from copydesk.desk.backends.api import Decision
from copydesk.desk.member import Member
from copydesk.desk.outcome import NotUndone, Rejected, Transacted, Withheld
from copydesk.desk.review import Shown
from copydesk.edit.draft import Plan
from copydesk.errors import AlreadyDecided, ContentChanged, HunkNotFound, Refusal
from copydesk.text.encoding import UTF8
from copydesk.text.snapshot import Snapshot
from copydesk.text.unified import CONTEXT, read_diff
from copydesk.tools.diff_model import DiffModel, diff_text, of_change
from copydesk.tools.messages import say, say_reason
from copydesk.tools.refusals import check_words
from copydesk.tools.report import Lang
from copydesk.tools.reports import is_binary_deletion, short_diff
from copydesk.tools.ws_mod import UNDO

_SEEN = 8
"""The fewest digits of a digest that nobody can guess."""


def reviewer(opened: OpenWorkspace) -> Member:
    """The deciding member, or the person at a terminal if the agent's edits need a person."""
    name = opened.settings.member
    member = opened.member(name)
    alone = not member.policy.asks_nobody and terminal.has_person()
    return opened.person(name) if alone else member


def approve(opened: OpenWorkspace, hunk_id: str, after: str, *, as_json: bool) -> Decision:
    """Approve a plan; `after` is the shown digest, or at least its first 8 digits."""
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
    """Print each approved edit as a line of JSON, oldest first; return the exit status."""
    for row in reversed(_approved(opened)):
        out(terminal.json_line(row))
    return 0


def check_approvals(opened: OpenWorkspace, log: str, *, as_json: bool) -> int:
    """Compare the lines of a log with the journal; return the exit status, 1 if one differs."""
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
    """The approved edits, newest first, with journaled and approved digests."""
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
                "diff_sha256": edit.diff_digest,
            }
            found.append(row)
        if not page.go_on:
            return found
        before = page.go_on


@dataclass(frozen=True, slots=True)
class _Done:
    """An action that can be undone: the decision on some plans, and the edits written."""

    kind: str
    plans: tuple[Plan, ...]
    edit_ids: tuple[int, ...] = ()


class _Pager:
    """Rows shown a screen at a time; `is_seen` is True once all of them were shown."""

    def __init__(self, rows: Iterator[str]) -> None:
        self._rows = rows
        self._drawn: list[str] = []
        self._stop = 0
        self.is_seen = False

    def on(self, count: int = sys.maxsize) -> list[str]:
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


class _Moved(Exception):
    """The plan on the screen was decided on meanwhile, or is gone."""


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
        self._keys = terminal.Keys() if terminal.Keys.work() else None
        self._done: list[_Done] = []
        self._queue: list[str] = []
        self._at = 0
        self._changes: object = None
        self._view = _View()
        self._pager = _Pager(iter(()))

    @property
    def _reviewer(self) -> Member:
        return reviewer(self._opened)

    def run(self) -> int:
        """Show each plan and act on the answers; return the exit status."""
        status = 0
        try:
            self._refresh()
            if not self._queue:
                self._say("cli.none_undecided" if self._keys is None else "cli.none_yet")
                if self._keys is None:
                    return 0
            with self._keys or nullcontext():
                self._steps()
        except EOFError:
            out("\n")
        except KeyboardInterrupt:
            out("\n")
            status = 130
        self._sum_up()
        return status

    def _steps(self) -> None:
        while True:
            if self._at >= len(self._queue):
                if self._keys is None or not self._ask_at_end():
                    return
                continue
            all_ = self._look()
            if not all_:
                self._at += 1
                continue
            self._show(all_)
            with suppress(_Moved):  # it is checked again
                if not self._ask(all_):
                    return

    def _look(self) -> list[Shown]:
        """The plans to show now, in their current state; none if the next one is gone."""
        hunk_id = self._queue[self._at]
        if hunk_id not in self._view.ids:
            self._view = _View((hunk_id,), split=self._view.split)
        all_: list[Shown] = []
        for one in self._view.ids:
            try:
                shown = self._review.show(self._reviewer, one)
            except Refusal as refusal:  # it is gone
                if one not in self._mine:
                    self._complain(one, refusal)
                continue
            if shown.decision is None:
                all_.append(shown)
            elif one not in self._mine:
                by, verdict = shown.decision.by, shown.decision.verdict
                said = say_reason(verdict, self._lang)
                self._say("cli.decided", id=one, by=by, verdict=said)
        if len(self._view.ids) > 1 and any(one.refusal for one in all_):
            self._view = _View(
                (hunk_id,), split=self._view.split
            )  # together only those that can be written
            return self._look()
        return all_

    @property
    def _mine(self) -> set[str]:
        return {plan.id for done in self._done for plan in done.plans}

    def _refresh(self) -> bool:
        """Add new plans to the queue; return whether anything has changed."""
        changes = self._opened.changes()
        if changes == self._changes:
            return False
        self._changes = changes
        waiting = self._review.pending(self._reviewer)
        new = (one.plan.id for one in waiting if one.decision is None)
        self._queue += [one for one in new if one not in self._queue]
        return True

    def _ask(self, all_: list[Shown]) -> bool:
        """Ask until an answer is acted on; return False to stop."""
        while True:
            key = self._answer(self._offered(all_), all_)
            keys = self._offered(all_)
            if key == "q":
                return False
            if key == "j":
                self._at += 1
                return True
            if key == "k" and key in keys:
                self._at = self._before()
                return True
            turns = key in " \nb" or (key == "a" and not self._pager.is_seen)
            if turns and self._keys is not None:
                height = self._height
                counts = {" ": height, "\n": 1, "a": sys.maxsize}
                rows = self._pager.back(height) if key == "b" else self._pager.on(counts[key])
                out("".join(f"{row}\n" for row in rows))
                if rows:
                    self._view.is_asked = False  # keys typed before count as early again
                continue
            if key not in keys or key == "?":
                self._help(keys, unseen=key in "yw" and not self._pager.is_seen)
                continue
            try:
                if self._act(key, all_):
                    return True
            except (ContentChanged, AlreadyDecided, HunkNotFound) as refusal:
                self._complain(all_[0].plan.id, refusal)
                return True  # shown again in its current state
            except Refusal as refusal:
                self._complain(all_[0].plan.id, refusal)

    def _ask_at_end(self) -> bool:
        """Wait for a new plan, or a key that returns to an earlier one; return False to stop."""
        if self._queue:
            self._say("cli.all_seen")
        while self._at >= len(self._queue):
            keys = ("u" if self._done else "") + ("k" if self._before() >= 0 else "") + "q?"
            try:
                key = self._answer(keys, [])
            except _Moved:
                continue
            if key == "q":
                return False
            if key == "u" and key in keys:
                self._take_back()
            elif key == "k" and key in keys:
                self._at = self._before()
            elif key not in (" ", "\n"):
                self._help(keys)
        return True

    def _before(self) -> int:
        """The index of the previous undecided plan; -1 if there is none."""
        mine = self._mine
        return next((i for i in range(self._at - 1, -1, -1) if self._queue[i] not in mine), -1)

    def _answer(self, keys: str, all_: list[Shown]) -> str:
        """The next key; raises _Moved if the shown plan changed."""
        if self._keys is None:
            sys.stdout.flush()
            answer = input(self._prompt(keys, all_)).strip()
            return answer.lower() if len(answer) == 1 else "?"
        prompt = self._prompt(keys, all_)
        early = self._keys.typed_ahead("ywn") if not self._view.is_asked else ""
        self._view.is_asked = True
        if early:
            self._say("cli.typed_early", keys=",".join(early))
        out(prompt)
        while True:
            sys.stdout.flush()
            key = self._keys.next(_LOOK_SECONDS)
            if key:
                out((key if key.isprintable() else "") + "\n")
                return key.lower()
            if not self._refresh():
                continue
            if not all_ and self._at < len(self._queue):
                out("\n")
                raise _Moved
            if all_ and not self._still(all_):
                out("\n")
                raise _Moved
            keys = self._offered(all_) if all_ else keys
            was, prompt = prompt, self._prompt(keys, all_)
            if prompt != was:
                out("\r" + " " * min(terminal.columns(was), self._size.columns - 1) + "\r" + prompt)

    def _still(self, all_: list[Shown]) -> bool:
        """Whether the plans are still undecided and as they were shown."""
        waiting = {one.plan.id: one for one in self._review.pending(self._reviewer)}
        return all(
            (now := waiting.get(one.plan.id)) is not None
            and now.decision is None
            and now.plan.created_ms == one.plan.created_ms
            for one in all_
        )

    def _act(self, key: str, all_: list[Shown]) -> bool:
        """Run the command of a key; return True to continue with the next plan."""
        first = all_[0]
        if key == "a":
            self._view.whole = True
        elif key == "c":
            wider = (count for count in _CONTEXTS if count > self._view.context)
            self._view.context = next(wider, CONTEXT)
        elif key == "v":
            self._view.split = not self._is_split
        elif key == "f":
            self._view = _View(tuple(self._of_file(first)), split=self._view.split)
            self._at = self._queue.index(self._view.ids[0])
        elif key == "y":
            person = self._reviewer
            for one in all_:
                decision = self._review.approve(person, one.plan.id, one.before, one.after)
                self._record(_Done("approved", (one.plan,)), decision_words(decision, self._lang))
        elif key == "w":
            self._write(all_)
        elif key == "n":
            with self._keys.lines() if self._keys else nullcontext():
                sys.stdout.flush()
                reason = input(say("cli.reason", self._lang) + " ").strip()
            if not reason:
                return False
            for one in all_:
                decision = self._review.reject(self._reviewer, one.plan.id, reason)
                self._record(_Done("rejected", (one.plan,)), decision_words(decision, self._lang))
        elif key == "e":
            return self._edit(first)
        elif key == "s":
            made = self._review.split(self._reviewer, first.plan.id)
            self._queue[self._at : self._at + 1] = [plan.id for plan in made]
        elif key == "u":
            self._take_back()
        if key in "ywn":
            self._at += 1
        terminal.saved(self._opened.desk.foreign.told(self._reviewer), self._lang)
        return True

    def _write(self, all_: list[Shown]) -> None:
        """Approve and write at once; several plans all or none."""
        outcome = self._review.apply(self._reviewer, [one.seen for one in all_])
        if isinstance(outcome, Rejected | Withheld):
            raise outcome.refusal
        applied = outcome.applied if isinstance(outcome, Transacted) else (outcome,)
        words = [
            say(
                "cli.written",
                self._lang,
                {"id": one.plan.id, "path": one.plan.request.path, "edit": one.edit_id},
            )
            for one in applied
        ]
        plans, ids = tuple(one.plan for one in all_), tuple(one.edit_id for one in applied)
        self._record(_Done("written", plans, tuple(dict.fromkeys(filter(None, ids)))), *words)

    def _edit(self, shown: Shown) -> bool:
        """Replace the new text in the editor; return whether it was changed."""
        old = shown.plan.request.text
        assert old is not None, "the key is not offered"
        with self._keys.lines() if self._keys else nullcontext():
            new = edited(old, Path(str(shown.plan.request.path)).suffix)
        if new is None or new == old:
            self._say("cli.not_edited")
            return False
        self._review.amend(self._reviewer, shown.plan.id, new)
        return True

    def _take_back(self) -> None:
        """Undo the last decision of this run; undone writes become pending plans again."""
        last, person = self._done[-1], self._reviewer
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
            self._view.ids = ()
        self._done.pop()

    def _record(self, done: _Done, *words: str) -> None:
        self._done.append(done)
        out("".join(terminal.line(each) + "\n" for each in words) + "\n")

    def _offered(self, all_: list[Shown]) -> str:
        one = all_[0]
        is_one = len(all_) == 1
        whole = isinstance(one.draft.base, Snapshot) and not one.draft.created
        can = one.refusal is None
        rights = [self._review.rights(self._reviewer, each, len(all_)) for each in all_]
        is_seen = self._pager.is_seen and not self._view.is_cut
        keys = "y" if can and is_seen and not any(each.approve for each in rights) else ""
        keys += "w" if can and is_seen and not any(each.apply for each in rights) else ""
        keys += "" if is_seen or (not can and self._pager.is_seen) else "a"
        if not any(each.decide for each in rights):
            keys += "n"
            keys += "e" if is_one and can and one.plan.request.text is not None else ""
            keys += "s" if is_one and can and whole and len(one.draft.regions_apart) > 1 else ""
        keys += "u" if self._done else ""
        if self._keys is not None:
            keys += "f" if is_one and can and len(self._of_file(one)) > 1 else ""
            keys += "cv" + ("k" if self._before() >= 0 else "")
        return f"{keys}jq?"

    def _of_file(self, shown: Shown) -> list[str]:
        """The known undecided plans of the same file."""
        waiting = self._review.pending(self._reviewer)
        path = shown.plan.request.path
        same = {w.plan.id for w in waiting if w.decision is None and w.plan.request.path == path}
        return [one for one in self._queue if one in same]

    def _prompt(self, keys: str, all_: list[Shown]) -> str:
        saying = "cli.approve_this" if len(all_) == 1 else "cli.approve_these"
        if all_ and self._keys is not None and not self._pager.is_seen:
            saying = "cli.more_follows"
            keys = f" {keys}"
        elif not all_:
            saying = "cli.go_on"
        question = say(saying, self._lang, {"count": len(all_)})
        place = f"({self._at + 1}/{len(self._queue)}) " if all_ and self._keys else ""
        named = ",".join("space" if key == " " else key for key in keys)
        return terminal.strong(f"{place}{question} [{named}]", self._coloured) + " "

    def _help(self, keys: str, *, unseen: bool = False) -> None:
        if unseen:
            self._say("cli.see_first")
            return
        for key in keys:
            out(f"{key} - {say(_KEYS[key], self._lang)}\n")
        if self._keys is not None:
            self._say("cli.key.page")

    @property
    def _size(self) -> os.terminal_size:
        """The current size of the terminal, or that in the environment if unknown."""
        found = os.get_terminal_size(sys.stdout.fileno())
        return found if found.columns and found.lines else shutil.get_terminal_size()

    @property
    def _height(self) -> int:
        """The rows to show at a time: the screen without the prompt and one earlier row."""
        return max(self._size.lines - 2, 3)

    @property
    def _is_split(self) -> bool:
        wide = self._size.columns >= SPLIT_COLUMNS
        return wide if self._view.split is None else self._view.split

    def _show(self, all_: list[Shown]) -> None:
        """Draw the plans: on a terminal their first page, otherwise all of them."""
        self._view.is_asked = False
        if self._keys is None:
            for one in all_:
                self._print(one)
            return
        models = [of_change(one.draft.base, one.draft.change, self._view.context) for one in all_]
        self._view.is_cut = not self._view.whole and any(model.is_cut for model in models)
        rows = (self._rows(one, model) for one, model in zip(all_, models, strict=True))
        self._pager = _Pager(chain.from_iterable(rows))
        shown = self._pager.on(sys.maxsize if self._view.whole else self._height)
        out("".join(f"{row}\n" for row in shown))
        if self._pager.is_seen and self._view.is_cut:
            self._say("cli.diff_cut")

    def _rows(self, one: Shown, model: DiffModel) -> Iterator[str]:
        columns = self._size.columns
        for number, words in enumerate(self._about(one)):
            for row in text_rows(words, columns):
                yield row if number else terminal.strong(row, self._coloured)
        is_text = is_binary_deletion(one.draft) or not model.hunks
        text = diff_text(one.diff if is_text else one.diff.partition(b"\n@@ ")[0], UTF8)
        for line in read_diff(text.removesuffix("\n").split("\n")):
            if is_text or not line.text.startswith(("diff ", "index ", "--- ", "+++ ")):
                yield from text_rows(line.text, columns)
        if not is_text:
            look = Look(columns, self._coloured, self._is_split, self._view.whole)
            yield from diff_rows(model, look, self._left_out)
        yield ""

    def _left_out(self, count: int) -> str:
        return say("left_out.characters", self._lang, {"count": count})

    def _about(self, one: Shown) -> Iterator[str]:
        """The lines above a plan's diff."""
        plan = one.plan
        facts = {
            "at": self._queue.index(plan.id) + 1,
            "count": len(self._queue),
            "id": plan.id,
            "path": plan.request.path,
            "action": plan.action,
            "owner": plan.owner,
            "left": terminal.ago(plan.expires_ms - time.time_ns() // 1_000_000),
        }
        yield terminal.line(say("cli.step", self._lang, facts))
        if plan.why:
            yield terminal.line(say("ask.why", self._lang, {"why": plan.why}))
        if one.refusal is not None and self._keys is not None:
            yield terminal.line(errors.refusal_words(one.refusal, self._lang))
        elif one.refusal is None and one.state == "drifted":
            yield terminal.line(say("cli.drifted", self._lang))
        barred = self._review.rights(self._reviewer, one).apply if one.refusal is None else None
        if barred is not None:
            yield terminal.line(errors.refusal_words(barred, self._lang))
        for sign in one.signs:
            yield terminal.line(say_reason(sign, self._lang))
        for check in one.checks or ():
            yield terminal.line(check_words(check, self._lang))

    def _print(self, one: Shown) -> None:
        """Print a plan, or only its start if it is long."""
        head, *rest = self._about(one)
        out(terminal.strong(head, self._coloured) + "\n" + "".join(f"{each}\n" for each in rest))
        if one.refusal is not None:
            self._complain(one.plan.id, one.refusal)
        text, self._view.is_cut = short_diff(one, self._lang)
        if self._view.whole:
            text, self._view.is_cut = diff_text(one.diff, one.draft.base.encoding), False
        self._pager.is_seen = not self._view.is_cut
        out(terminal.diff(text, self._coloured))
        if self._view.is_cut:
            self._say("cli.diff_cut")

    def _sum_up(self) -> None:
        kinds = Counter({"approved": 0, "rejected": 0, "written": 0})
        for done in self._done:
            kinds[done.kind] += len(done.plans)
        waiting = self._review.pending(self._reviewer)
        self._say("cli.reviewed", **kinds, left=sum(one.decision is None for one in waiting))

    def _complain(self, hunk_id: str, refusal: Refusal) -> None:
        sys.stdout.flush()
        terminal.complain(f"{hunk_id}: {errors.refusal_words(refusal, self._lang)}")

    def _say(self, saying: str, **facts: object) -> None:
        out(terminal.line(say(saying, self._lang, facts)) + "\n")


@dataclass(slots=True)
class _View:
    """The plans on the screen, one or several of a file, and how they are drawn.

    `is_cut`: some of the change is not in its rows. `is_asked`: there was a prompt since.
    """

    ids: tuple[str, ...] = ()
    whole: bool = False
    context: int = CONTEXT
    split: bool | None = None
    is_cut: bool = False
    is_asked: bool = False


_LOOK_SECONDS = 0.5
"""Interval of the check for new and ended plans."""

_CONTEXTS = (CONTEXT, 10, 40, 1_000_000)

_KEYS = {
    "y": "cli.key.approve",
    "w": "cli.key.write",
    "a": "cli.key.all",
    "n": "cli.key.reject",
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
