"""What agents did, as a whole: `changes`, `keep`, `undo --task`, `checkpoint`, `review --done`.

An answer is for what was on the screen: a change that is another one by then is not kept or undone.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from pathlib import Path

from copydesk.app import terminal
from copydesk.app.cli import errors
from copydesk.app.cli.parser import UsageError
from copydesk.app.cli.review import check_declared, edited, reviewer
from copydesk.app.terminal import dump, out, tell
from copydesk.app.workspace import OpenWorkspace
from copydesk.desk.changes import ChangedHunk, FileChanges, Selection, TaskChanges, UndoneChanges
from copydesk.desk.member import Member
from copydesk.errors import InvalidArgs, Refusal
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.diff import Alignment, align
from copydesk.text.encoding import encoding_of_diff
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot
from copydesk.tools.messages import say
from copydesk.tools.report import Lang


def run(opened: OpenWorkspace, options: argparse.Namespace, member: str) -> int:
    """Run one of the commands on the edits of a member, "" for all; return the exit status."""
    if options.command != "changes":
        check_declared(opened)
    commands = {
        "changes": _Changes.show,
        "keep": _Changes.keep,
        "undo": _Changes.undo,
        "review": _Changes.review,
    }
    return commands[options.command](_Changes(opened, options, member))


def checkpoint(opened: OpenWorkspace, options: argparse.Namespace) -> int:
    """Set a checkpoint, or list them; return the exit status."""
    lang, changes = opened.config.lang, opened.desk.changes
    if options.name is not None:
        check_declared(opened)
        set_now = changes.checkpoint(_person(opened), options.name)
        words = say("cli.checkpoint_set", lang, {"name": shlex.quote(set_now.name)})
        rows = [set_now]
    else:
        words, rows = say("cli.checkpoints_none", lang), list(changes.checkpoints())
    if options.json:
        facts = ("name", "time_ms", "edit_id", "by")
        dump([{fact: getattr(row, fact) for fact in facts} for row in rows])
    elif options.name is not None or not rows:
        tell(words)
    else:
        cells = [(row.name, terminal.when(row.time_ms), str(row.edit_id), row.by) for row in rows]
        out(terminal.table([("CHECKPOINT", "WHEN", "AFTER EDIT", "BY"), *cells]))
    return 0


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
        since = self._changes.since(getattr(options, "to", None) or options.since or "")
        self._what = replace(since, task=options.task or "", member=member)
        self._person = _person(opened)
        self._keys = terminal.Keys()
        self._counts = Counter({"kept": 0, "undone": 0, "rewritten": 0})

    def show(self) -> int:
        """Print the changes: as a diff that `git apply` takes, as a table, or as data."""
        files = self._view()
        is_all = self._what == Selection()
        by_task = is_all and (self._options.stat or self._options.json)
        tasks = self._changes.tasks(self._person) if by_task else ()
        older = self._changes.older(self._person) if is_all else 0
        if self._options.json:
            rows = [_task_data(task) for task in tasks]
            dump({"files": [_file_data(file) for file in files], "tasks": rows, "older": older})
        elif not self._options.stat:
            wide = [str(one.path) for one in files if one.now.encoding.unit > 1 or not one.diff]
            _print_diff(b"".join(file.diff for file in files if str(file.path) not in wide))
            if wide:
                facts = {"paths": ", ".join(wide)}
                terminal.complain(say("cli.changes_wide", self._lang, facts))
        elif tasks:
            cells = [_task_row(task) for task in tasks]
            out(terminal.table([_TASK_HEAD, *cells]))
            self._say("cli.changes_next", task=shlex.quote(tasks[0].key))
        elif files:
            cells = [_hunk_row(hunk) for file in files for hunk in file.hunks]
            out(terminal.table([_HUNK_HEAD, *cells]))
        for key, count in (("cli.changes_none", not files), ("cli.changes_older", older)):
            if count and not self._options.json:
                sys.stdout.flush()
                tell(say(key, self._lang, {"count": int(count)}), sys.stderr)
        return 0

    def keep(self) -> int:
        """Keep the named changes, or all; with `stage`, git has them in its index first."""
        named = frozenset(self._options.change)
        chosen = [
            _part(file, hunks)
            for file in self._view()
            if (hunks := [hunk for hunk in file.hunks if not named or hunk.id in named])
        ]
        if lacking := named.difference(hunk.id for file in chosen for hunk in file.hunks):
            raise InvalidArgs("hunk", f"is not open: {', '.join(sorted(lacking))}")
        if self._options.stage:
            root = self._opened.root
            _stage(root, [_of_index(root, file).diff for file in chosen])
        count = self._changes.keep(self._person, self._what, named or None)
        if self._options.json:
            dump({"status": "ok", "kept": count, "staged": self._options.stage})
        else:
            self._say(
                "cli.changes_staged" if self._options.stage else "cli.changes_kept", count=count
            )
        return 0

    def undo(self) -> int:
        """Undo the changes by one transaction; nothing if one of them cannot be, unless partly."""
        parts = {hunk.id: _part(file, [hunk]) for file in self._view() for hunk in file.hunks}
        reason, partly = self._options.reason, self._options.partly
        done = self._changes.undo(self._person, self._what, reason=reason, partly=partly)
        if self._options.json:
            dump(
                {
                    "status": "error" if done.refused else "pending" if done.waiting else "ok",
                    "edit_ids": [one.edit_id for one in done.written],
                    "pending": done.waiting,
                    "refused": [
                        {
                            **_hunk_data(hunk),
                            "error": refusal.code,
                            "summary": self._why(hunk, refusal),
                        }
                        for hunk, refusal in done.refused
                    ],
                }
            )
        else:
            self._report(done, parts)
            if done.refused and not done.written:
                self._say("cli.undo_partly", count=len(parts) - len(done.refused))
            if not parts:
                self._say("cli.changes_none")
        return 1 if done.refused or done.waiting else 0

    def _report(self, done: UndoneChanges, parts: Mapping[str, FileChanges]) -> None:
        """Print what was undone, and each change that was not, with both texts."""
        for one in done.written:
            self._say("cli.change_undone", path=one.path, edit=one.edit_id)
        for hunk_id in done.waiting:
            self._say("cli.change_waits", id=hunk_id)
        for hunk, refusal in done.refused:
            place, why = _place(hunk), self._why(hunk, refusal)
            self._say("cli.change_stays", place=place, why=why)
            _print_diff(parts[hunk.id].diff)

    def _why(self, hunk: ChangedHunk, refusal: Refusal) -> str:
        """Why a change was not undone."""
        if hunk.touched_by:
            return say("cli.change_touched", self._lang, {"by": ", ".join(hunk.touched_by)})
        return errors.refusal_words(refusal, self._lang)

    def review(self) -> int:
        """Ask for each change, as `git add -p` does; return the exit status."""
        if self._options.json:
            raise UsageError("copydesk review asks a person; --json is not for it")
        hunks = [hunk for file in self._view() for hunk in file.hunks]
        if not hunks:
            self._say("cli.changes_none")
            return 0
        status = self._keys.run(lambda: self._ask_each(hunks))
        left = sum(len(file.hunks) for file in self._view())
        self._say("cli.changes_reviewed", **self._counts, left=left)
        return status

    def _ask_each(self, hunks: Sequence[ChangedHunk]) -> None:
        for at, hunk in enumerate(hunks, 1):
            is_open = True
            while is_open:
                files = self._view(hunk.path)
                now = [
                    _part(file, [one]) for file in files for one in file.hunks if one.id == hunk.id
                ]
                if not now:  # kept, undone or changed meanwhile
                    break
                self._draw(now[0], f"{at}/{len(hunks)}")
                key = self._keys.answer(
                    repeat(f"{say('cli.change_ask', self._lang)} [{','.join(_KEYS)}] ")
                )
                if key == "q":
                    return
                try:
                    is_open = self._act(key, now[0])
                except Refusal as refusal:
                    terminal.complain(errors.refusal_words(refusal, self._lang))

    def _draw(self, part: FileChanges, count: str) -> None:
        """Show a change; an answer that was typed before is none to it."""
        hunk = part.hunks[0]
        first, last = hunk.edits[0], hunk.edits[-1]
        self._say(
            "cli.change_step",
            count=count,
            place=_place(hunk),
            by=last.member,
            age=_ago(last.time_ms),
        )
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
                text = self._keys.line(say("cli.change_comment", self._lang))
                if text:
                    self._changes.comment(*chosen, hunk.id, text)
                return True
            case "s":
                pass
            case _:
                out("".join(f"{key} - {say(_KEYS[key], self._lang)}\n" for key in _KEYS))
                return True
        return False

    def _end(self, kind: str, done: UndoneChanges, part: FileChanges) -> bool:
        """Print what came of a change; return whether to ask again, as it was refused."""
        self._report(done, {part.hunks[0].id: part})
        self._counts[kind] += bool(done.written)
        return bool(done.refused)

    def _view(self, path: RelPath | None = None) -> tuple[FileChanges, ...]:
        return self._changes.view(self._person, replace(self._what, path=path))

    def _say(self, key: str, **facts: object) -> None:
        tell(say(key, self._lang, facts))


_KEYS = {
    "k": "cli.key.keep",
    "u": "cli.key.undo_change",
    "e": "cli.key.edit",
    "c": "cli.key.comment",
    "s": "cli.key.skip",
    "q": "cli.key.quit",
    "?": "cli.key.help",
}
"""The message that explains each key."""

_TASK_HEAD = ("TASK", "MEMBER", "FILES", "LINES", "OPEN", "AGE", "WHY")
_HUNK_HEAD = ("CHANGE", "PLACE", "LINES", "MEMBER", "AGE", "CHANGED BY", "WHY")


def _task_row(task: TaskChanges) -> tuple[str, ...]:
    added, removed = task.lines
    files, lines = str(len(task.files)), f"+{added} -{removed}"
    return (task.key, task.member, files, lines, str(task.open), _ago(task.last_ms), task.why)


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
    others = ", ".join(hunk.touched_by) or "-"
    return (hunk.id, _place(hunk), lines, edit.member, _ago(edit.time_ms), others, edit.why)


def _hunk_data(hunk: ChangedHunk) -> dict[str, object]:
    return {
        "change": hunk.id,
        "path": str(hunk.path),
        "kind": hunk.kind,
        "old_line": hunk.old_line + 1,
        "new_line": hunk.new_line + 1,
        "removed": len(hunk.old),
        "added": len(hunk.new),
        "edit_ids": [edit.edit_id for edit in hunk.edits],
        "members": list(dict.fromkeys(edit.member for edit in hunk.edits)),
        "touched_by": list(hunk.touched_by),
    }


def _file_data(file: FileChanges) -> dict[str, object]:
    return {
        "path": str(file.path),
        "was": str(file.was or ""),
        "kind": file.kind,
        "changes": [_hunk_data(hunk) for hunk in file.hunks],
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
        text = encoding_of_diff(diff, None).decode(diff)
        out(terminal.diff(text, terminal.colours(sys.stdout)))
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
            Edit(start(one.old_line), start(one.old_line + len(one.old)), b"".join(one.new))
            for one in hunks
            if one.kind == "text"
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
            place = f"{hunk.path}:{hunk.new_line + 1}"
            raise UsageError(f"git's index has other lines at {place}: stage it with git add -p")
        text = b"".join(hunk.new).replace(file.base.dominant_newline, index.dominant_newline)
        edits.append(Edit(index.start(at), index.start(at + old), text))
    return replace(file, base=index, change=ChangeSet.of(index.size, edits))


def _among(lines: Alignment, first: int, count: int) -> int | None:
    """Where some lines are in the other text, together with the one above and the one below."""
    above = min(first, 1)
    below = min(lines.base_length - first - count, 1)
    at = lines.now_of(first - above, above + count + below)
    return None if at is None else at + above


def _stage(root: str, diffs: Sequence[bytes]) -> None:
    """Put the changes into git's index; all, or UsageError."""
    prefix = _git(root, "rev-parse", "--show-prefix").stdout.decode().strip()
    words = "apply", "--cached", "--whitespace=nowarn", f"--directory={prefix}"
    staged = _git(root, *words, given=b"".join(diffs)) if any(diffs) else None
    if staged is not None and staged.returncode:
        why = staged.stderr.decode("utf-8", "replace").strip()
        raise UsageError(f"git cannot stage this, and nothing was kept: {why}")


def _git(root: str, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    own = "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"
    command = ("git", *own, "-C", root, *words)
    try:
        return subprocess.run(command, input=given, capture_output=True, check=False)
    except OSError as error:
        raise UsageError(f"git cannot be run: {error.strerror}") from None
