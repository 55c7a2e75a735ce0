"""The commands: each reads its options, opens the workspace, and prints a result.

So does completion, which the shells' scripts call as `copydesk completion words -- WORD ...`.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

from copydesk.app import reference, terminal
from copydesk.app.cli.parser import (
    COMMANDS,
    UsageError,
    language,
    new_parser,
    parse,
    read_arguments,
    unknown,
)
from copydesk.app.cli.review import (
    Review,
    about_plan,
    approvals,
    as_shown,
    check_declared,
    checkpoint,
    decision_data,
    facts_of,
    next_steps,
    print_next,
    reviewer,
    run_changes,
    write,
    written_data,
)
from copydesk.app.config import TOOLSETS, Config, load
from copydesk.app.terminal import agrees, dump, is_refused, out, short, tell
from copydesk.app.workspace import OpenWorkspace, default_root, open_workspace
from copydesk.desk.history import Forgettable, Past, standing_doubts
from copydesk.desk.review import Shown
from copydesk.desk.transaction import Settled
from copydesk.edit.draft import Approval, Plan
from copydesk.edit.patch_parse import parse_apply_patch
from copydesk.errors import InvalidArgs, Refusal
from copydesk.notes.tools import (
    block_fields,
    coverage_fields,
    label,
    notes_of,
    unread_lines,
    within_of,
)
from copydesk.store.checks import NotRun, Trust
from copydesk.store.state import StateFolder
from copydesk.text.diff import diff_text
from copydesk.text.encoding import encoding_of_diff
from copydesk.text.relpath import RelPath
from copydesk.tools.catalog import Catalog, Tool
from copydesk.tools.messages import say, say_reason
from copydesk.tools.refusals import numbered_lines
from copydesk.tools.report import Answer, Lang, LongTexts
from copydesk.tools.reports import saved_data
from copydesk.tools.ws_mod import APPLY, APPLY_ALL, UNDO

if TYPE_CHECKING:  # most commands need nothing of the notes, or of the library
    from copydesk.app.library import Event
    from copydesk.notes.protocol import NoteBlock

_Command = Callable[[argparse.Namespace], int | None]


def run(options: argparse.Namespace) -> int:
    """Run the command; return the exit status.

    Raises one of `terminal.FAILURES`. Sets the language of the configuration in `options`.
    """
    named = options.command, getattr(options, "story", "")
    if options.json and {"mcp", "serve", "up", "review"} & {*named}:
        raise UsageError(f"copydesk {' '.join(named).strip()} has no data to print with --json")
    return _COMMANDS[options.command](options) or 0


def _named_root(options: argparse.Namespace) -> str:
    """The root that is named, else the current folder; "" if that is gone."""
    try:
        return options.root if options.root is not None else default_root()
    except FileNotFoundError:
        return ""


def _root(options: argparse.Namespace) -> str:
    root, hint = _named_root(options), "Name the workspace with --root or COPYDESK_ROOT."
    if not root and options.root is None:
        raise UsageError("the current folder no longer exists", hint)
    if not os.path.isdir(root):
        state = "is not a folder" if os.path.lexists(root) else "does not exist"
        raise UsageError(f"the workspace {root!r} {state}", hint)
    return root


def _settings(options: argparse.Namespace) -> tuple[str, Config]:
    """The root, and its configuration with what the options say.

    Sets the language of the configuration in `options`.
    """
    root = _root(options)
    names = ("member", "lang", "toolsets", "apply", "structured")
    settings = {name: name for name in names} | {"label": "task"}  # --task itself selects edits
    given: dict[str, Any] = {
        settings[name]: value for name, value in vars(options).items() if name in settings and value
    }
    if "toolsets" in given:
        chosen = tuple(part.strip() for part in options.toolsets.split(",") if part.strip())
        for name in chosen:
            if name not in TOOLSETS:
                raise unknown("toolset", name, TOOLSETS, f"There are: {', '.join(TOOLSETS)}.")
        given["toolsets"] = chosen
    config = replace(load(root), **given)
    options.lang = config.lang
    return root, config


def _open(
    options: argparse.Namespace, *, makes_state: bool = True, for_agents: bool = False
) -> OpenWorkspace:
    """Open the workspace; one without a state folder gets it only if the command `makes_state`."""
    root, config = _settings(options)
    if for_agents and not options.member:
        config = config.for_agents()
    there = config.registry == "redis" or os.path.isdir(os.path.join(root, config.state))
    opened = open_workspace(root, config, shared=there or makes_state)
    opened.in_shell = not for_agents
    return opened


def _opened(
    command: Callable[[OpenWorkspace, argparse.Namespace], int | None],
    *,
    makes_state: bool = True,
    for_agents: bool = False,
) -> _Command:
    """A command on the workspace that the options name, which is opened for it as by `_open`."""

    def run_opened(options: argparse.Namespace) -> int | None:
        with _open(options, makes_state=makes_state, for_agents=for_agents) as opened:
            return command(opened, options)

    return run_opened


def _print(options: argparse.Namespace, data: object, text: str) -> None:
    """Print data for a program, or a text, that needs no escaping, for a person."""
    if options.json:
        dump(data)
    else:
        out(text)


def _call(options: argparse.Namespace) -> int:
    if options.tool is None:
        return _list_tools(options)
    tool = _find_tool(options.tool)
    given, own = read_arguments(tool.name, options.arguments, tool.schema, sys.stdin)
    if own.get("lang", "en") not in ("en", "zh"):
        raise UsageError(f"--lang must be en or zh, not {own['lang']!r}")
    for name, value in own.items():  # they count as if they came before the tool's name
        setattr(options, name, True if name == "json" else value)
    if "help" in own:
        return _show_tool(options, tool)
    counter = terminal.Counter(sys.stderr)
    with _open(options) as opened:
        opened.long_texts = LongTexts(None)  # not cut: no later call could read the rest
        own_name, lang = opened.config.member, options.lang
        answer = opened.call(own_name, tool.name, given, lang=lang, progress=counter)
    counter.clear()
    if options.json:
        dump(answer.data)
    else:
        terminal.print_answer(answer)
    return 1 if is_refused(answer) else 0


def _pending(opened: OpenWorkspace, options: argparse.Namespace) -> None:
    waiting = opened.desk.review.pending(opened.caller)
    plans = [
        {
            **_plan_data(entry.plan),
            "decision": entry.decision.verdict if entry.decision else "",
            "state": state,
            "findings": _findings(opened, entry.plan),
        }
        for entry, state in zip(waiting, opened.desk.review.states(waiting), strict=True)
    ]
    if options.json:
        dump(plans)
    elif not plans:
        out(say("cli.none_wait", options.lang) + "\n")
    else:
        cells = [
            {
                **facts_of(entry.plan, options.lang),
                "state": say(f"fits.{plan['state']}", options.lang),
                "findings": "-" if plan["findings"] is None else str(plan["findings"]),
                "decision": str(plan["decision"] or "-"),
                "why": entry.plan.why,
            }
            for entry, plan in zip(waiting, plans, strict=True)
        ]
        rows = [[cell[name] for name in _PENDING_COLUMNS.values()] for cell in cells]
        out(terminal.table([[*_PENDING_COLUMNS], *rows]))
        if sys.stdout.isatty():
            tell(say("cli.pending_next", options.lang, {"id": waiting[0].plan.id}), sys.stderr)


_PENDING_COLUMNS = {
    "HUNK": "id",
    "PATH": "path",
    "ACTION": "action",
    "MEMBER": "owner",
    "NOW": "state",
    "FINDINGS": "findings",
    "AGE": "age",
    "EXPIRES IN": "left",
    "DECISION": "decision",
    "WHY": "why",
}


def _findings(opened: OpenWorkspace, plan: Plan) -> int | None:
    """The number of new findings of checks; None if none applies, or if any would run a command."""
    if not any(rule.command for rule in opened.config.checks):
        with contextlib.suppress(Refusal):
            shown = opened.desk.review.show(opened.caller, plan.id)
            return None if shown.checks is None else len(shown.checks)
    return None


def _plan_data(plan: Plan) -> dict[str, object]:
    return {
        "hunk_id": plan.id,
        "path": str(plan.request.path),
        "action": plan.action,
        "member": plan.owner,
        "tool": plan.tool,
        "created_ms": plan.created_ms,
        "expires_at_ms": plan.expires_ms,
        "why": plan.why,
        "task": plan.task,
    }


def _show(opened: OpenWorkspace, options: argparse.Namespace) -> None:
    # the report is of the plan as it was made; `shown` is what would be written to the file now
    report = opened.pending_report(opened.config.member, options.hunk_id, options.lang)
    shown = opened.desk.review.show(opened.caller, options.hunk_id)
    if options.json:
        dump({**report.data, **_plan_data(shown.plan), "state": shown.state})
        return
    tell(say("cli.plan_of", options.lang, facts_of(shown.plan, options.lang)))
    for words in about_plan(opened, shown):
        tell(words)
    if shown.refusal is not None:
        tell(terminal.refusal_words(shown.refusal, options.lang))
    if shown.state == "drifted":
        report = replace(report, diff=diff_text(shown.diff, shown.draft.base.encoding))
    short(report)
    if lines := getattr(shown.refusal, "current", None):
        out(f"\n{say('cli.now', options.lang)}\n{terminal.safe(numbered_lines(lines))}")
    if steps := next_steps(opened, shown):
        out("\n")
        tell(steps)


def _apply(opened: OpenWorkspace, options: argparse.Namespace) -> int:
    wanted = list(dict.fromkeys(options.hunk_id))
    if options.approve:
        return _approve_and_apply(opened, options, wanted)
    if options.after:
        raise UsageError("--after goes with --approve")
    is_one = len(wanted) == 1
    plans: dict[str, object] = {"hunk_id": wanted[0]} if is_one else {"hunk_ids": wanted}
    name, given = APPLY if is_one else APPLY_ALL, {**plans, "accept": options.accept}
    report = opened.call(opened.config.member, name, given, lang=options.lang)
    named = wanted[0] if is_one else str(report.fields.get("hunk_id", ""))
    status = _print_report(options, report, named)
    if status and not options.json:
        print_next(opened, named)
        hunks = () if is_one else report.fields.get("hunks", ())
        for row in cast("Sequence[Mapping[str, object]]", hunks):
            result = row.get("error", row["context_match"])
            tell(f"{row['hunk_id']}  {row['path']}  {result}", sys.stderr)
    return status


def _approve_and_apply(
    opened: OpenWorkspace, options: argparse.Namespace, wanted: Sequence[str]
) -> int:
    """Approve plans as they are shown, and write them, all or none; return the exit status."""
    shown: dict[str, Shown] = {}
    check_declared(opened)
    try:
        for hunk_id in wanted:
            shown[hunk_id] = as_shown(opened, hunk_id, options)
        applied = write(opened, [*shown.values()])
    except Refusal as refusal:
        lacking = (hunk_id for hunk_id in wanted if hunk_id not in shown)
        named = str(next(lacking, getattr(refusal, "hunk_id", wanted[0])))
        rows = [_report_refusal(opened, options, refusal, named)]
    else:
        rows = [_report_done(options, written_data(edit, options.lang)) for edit in applied]
    return _print_rows(options, rows, as_list=len(rows) > 1)


def _apply_patch(opened: OpenWorkspace, options: argparse.Namespace) -> int:
    """Plan the patch and write it at once, as apply_patch harnesses expect; return the status."""
    try:
        patch: str = sys.stdin.read() if options.patch in (None, "-") else options.patch
    except UnicodeDecodeError:
        raise InvalidArgs("patch", "is not UTF-8") from None
    if not patch.strip():
        raise UsageError("the patch is empty", "copydesk apply-patch < patch.txt")
    call = partial(opened.call, opened.config.member, lang=options.lang)
    answer = call("apply_patch", {"patch": patch, "apply": "never"})
    if is_refused(answer):  # here nobody can send the rest of it
        fits = cast("Sequence[Mapping[str, str]]", answer.fields.get("fits", ()))
        for row in fits:
            opened.desk.discard(opened.caller, row["hunk_id"])
        # nor is it told how: the notice that names them goes
        notices = (one for one in answer.notices if not any(row["hunk_id"] in one for row in fits))
        source = {key: fact for key, fact in answer.facts.items() if key != "fits"}
        return _print_report(options, replace(answer, source=source, notices=tuple(notices)))
    hunks = cast("Sequence[Mapping[str, str]]", answer.fields.get("hunks", ()))
    if not hunks or any("cause" in hunk or "warnings" in hunk for hunk in hunks):
        _print_report(options, answer)
        return 1 if hunks else 0  # corrected or doubtful: somebody has to look at the plans
    ids = [hunk["hunk_id"] for hunk in hunks]
    told, answer = answer.notices, call(APPLY_ALL, {"hunk_ids": ids})
    answer = replace(answer, notices=tuple(dict.fromkeys((*told, *answer.notices))))
    for hunk_id in ids if answer.is_error else ():
        with contextlib.suppress(Refusal):
            opened.desk.discard(opened.caller, hunk_id)
    if is_refused(answer) or options.json:
        return _print_report(options, answer)
    letters = {"add": "A", "update": "M", "replace": "M", "delete": "D"}
    files = sorted(parse_apply_patch(patch), key=lambda file: [*letters].index(file.kind))
    changed = "".join(f"{letters[file.kind]} {file.to or file.path}\n" for file in files)
    out(f"Success. Updated the following files:\n{changed}")
    for notice in answer.notices:
        tell(notice, sys.stderr)
    return 0


def _diff(opened: OpenWorkspace, options: argparse.Namespace) -> None:
    """Print the diff of a plan with its exact bytes."""
    planned = opened.desk.show(opened.caller, options.hunk_id)
    diff = planned.draft.diff
    if planned.draft.base.encoding.unit > 1 or planned.plan.blocks is not None:
        raise InvalidArgs("hunk_id", "is of a text whose diff git apply cannot take")
    if options.json:
        dump({"status": "ok", "hunk_id": planned.id, "diff": diff.decode("utf-8", "replace")})
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(diff)
    if sys.stdout.isatty():
        sys.stdout.buffer.flush()
        print_next(opened, planned.id)


def _print_report(
    options: argparse.Namespace,
    report: Answer,
    hunk_id: str = "",
    show: Callable[[Answer], None] = short,
) -> int:
    """Print a report, by default its short form; return the exit status."""
    if options.json:
        dump(report.data)
    elif is_refused(report):
        terminal.print_refusal(report, options.lang, hunk_id)
    else:
        show(report)
    return 1 if is_refused(report) else 0


def _decide(opened: OpenWorkspace, options: argparse.Namespace) -> int:
    """Approve, reject or discard each named plan, whatever is refused of others."""
    rows: list[dict[str, object]] = []
    if options.command != "discard":
        check_declared(opened)
    for hunk_id in dict.fromkeys(options.hunk_id):
        try:
            rows.append(_report_done(options, _decide_on(opened, options, hunk_id)))
        except Refusal as refusal:
            rows.append(_report_refusal(opened, options, refusal, hunk_id))
    return _print_rows(options, rows, as_list=len(options.hunk_id) > 1)


def _decide_on(
    opened: OpenWorkspace, options: argparse.Namespace, hunk_id: str
) -> dict[str, object]:
    """Do with a plan what the command says; return what was done."""
    if options.command == "discard":
        plan = opened.desk.discard(opened.caller, hunk_id)
        facts = {"hunk_id": plan.id, "path": str(plan.request.path)}
        return {**facts, "summary": say("cli.discarded", options.lang, {**facts, "id": plan.id})}
    review, person = opened.desk.review, reviewer(opened)
    if options.command == "approve":
        decision = review.approve(person, *as_shown(opened, hunk_id, options).seen)
    else:
        decision = review.reject(person, hunk_id, options.reason)
    return decision_data(decision, options.lang)


def _report_done(options: argparse.Namespace, row: dict[str, object]) -> dict[str, object]:
    """The data of what was done with a plan, whose summary is printed if it is for a person."""
    if not options.json:
        tell(str(row["summary"]))
    return {"status": "ok", **row}


def _report_refusal(
    opened: OpenWorkspace, options: argparse.Namespace, refusal: Refusal, hunk_id: str
) -> dict[str, object]:
    """The data of a refusal, which is printed with what the person may do, if it is for one."""
    if not options.json:
        terminal.complain(f"{hunk_id}: {terminal.refusal_words(refusal, options.lang)}")
        print_next(opened, hunk_id)
    return terminal.refusal_data(refusal, options.lang, hunk_id=hunk_id)


def _print_rows(
    options: argparse.Namespace, rows: Sequence[dict[str, object]], *, as_list: bool
) -> int:
    """Print what became of plans for a program; return the exit status."""
    if options.json:
        dump(rows if as_list else rows[0])
    return 1 if any(row["status"] != "ok" for row in rows) else 0


def _review(options: argparse.Namespace) -> int | None:
    if options.done:
        return _changes(options)
    if options.task or options.since:
        raise UsageError("--task and --since select what --done reviews", "copydesk review --done")
    # with keys it waits for plans, which needs the state folder
    with _open(options, makes_state=terminal.Keys().single) as opened:
        check_declared(opened)
        return Review(opened).run()


def _recover(opened: OpenWorkspace, options: argparse.Namespace) -> int:
    member, lang = opened.caller, options.lang
    recovered = (*opened.recovered, *notes_of(opened.desk).recover(member))
    settled = {end.entry.edit_id: end for end in recovered}  # of an edit what ended it last
    swept, leftovers = opened.recovery.sweep(opened.clock())
    saved = [one for one in opened.desk.foreign.told(member) if not one.state]  # the ends say it
    doubts = [one for one in standing_doubts(opened.journal) if one.edit_id not in settled]
    ends = [_settled_data(end, lang) for end in settled.values()]
    if options.json:
        besides: dict[str, list[object]] = {
            "foreign_writes": [saved_data(write) for write in saved],
            "in_doubt": [saved_data(doubt) for doubt in doubts],
            "leftovers_kept": [str(path) for path in leftovers],
        }
        more = {name: rows for name, rows in besides.items() if rows}
        dump({"settled": ends, "leftovers_removed": swept, **more})
    else:
        rows = [
            ("EDIT", "WHEN", "MEMBER", "PATH", "TRANSACTION", "ENDED"),
            *(
                (
                    str(end["edit_id"]),
                    terminal.when(end["time_ms"]),
                    end["member"],
                    end["path"],
                    end["transaction_id"] or "-",
                    ": ".join(filter(None, (say(f"settled.{end['state']}", lang), end["reason"]))),
                )
                for end in ends
            ),
        ]
        out(terminal.table(rows) if ends else say("cli.nothing_to_settle", lang) + "\n")
        if swept:
            out(say("cli.swept", lang, {"count": swept}) + "\n")
        terminal.saved([*saved, *doubts], lang)
        for path in leftovers:
            tell(say("cli.leftover_kept", lang, {"path": path}))
    return 1 if any(end["state"] in ("open", "unsure") for end in ends) else 0


def _settled_data(end: Settled, lang: Lang) -> dict[str, Any]:
    """How a write ended; `reason` is empty if it was recovered."""
    entry, refusal = end.entry, end.refusal
    return {
        "edit_id": entry.edit_id,
        "time_ms": entry.time_ms,
        "member": entry.member,
        "tool": entry.tool,
        "path": str(entry.path),
        "transaction_id": entry.group,
        "hunk_id": entry.hunk_id,
        "state": end.state,
        "reason": (
            terminal.refusal_words(refusal, lang) if refusal else say_reason(end.reason, lang)
        ),
    }


def _history(opened: OpenWorkspace, options: argparse.Namespace) -> None:
    edits = opened.history(opened.config.member, options.path, options.most)
    if options.json:
        dump([_edit_data(edit) for edit in edits])
    elif edits:
        names = ("EDIT", "WHEN", "MEMBER", "TOOL", "PATH", "LINES", "STATE", "WHY")
        out(terminal.table([names, *(_edit_row(edit, options.lang) for edit in edits)]))
    elif options.path:
        tell(say("cli.none_there", options.lang, {"path": options.path}))
    else:
        out(say("cli.none_written", options.lang) + "\n")
    coloured = terminal.colours(sys.stdout)
    for edit in edits if options.diff and not options.json else ():
        head = terminal.strong(f"edit {edit.edit_id}", coloured)
        out(f"\n{head}\n{terminal.diff(_edit_diff(edit), coloured)}")


def _edit_row(edit: Past, lang: Lang) -> tuple[str, ...]:
    added, removed = edit.lines
    besides = {
        "cli.text_forgotten": edit.forgotten,
        "cli.event_approved": edit.approval and edit.approval.by,
        "cli.undoes": edit.undoes,
        "cli.undone_by": edit.undone_by,
    }
    said = [say(key, lang, {"by": fact, "id": fact}) for key, fact in besides.items() if fact]
    return (
        str(edit.edit_id),
        terminal.when(edit.time_ms),
        edit.member,
        edit.tool,
        str(edit.path),
        f"+{added} -{removed}",
        ", ".join([edit.state, *said]),
        edit.why,
    )


def _edit_data(edit: Past) -> dict[str, object]:
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
        "why": edit.why,
        **(edit.approval or Approval()).people,
        "digest_before": edit.before,
        "digest_after": edit.after,
        "diff": _edit_diff(edit),
        **({"forgotten": True} if edit.forgotten else {}),
    }


def _edit_diff(edit: Past) -> str:
    return encoding_of_diff(edit.diff, None).decode(edit.diff)


def _changes(options: argparse.Namespace) -> int | None:
    named, options.member = options.member, None  # it says whose edits
    with _open(options, makes_state=False) as opened:
        return run_changes(opened, options, named or "")


def _checkpoint(options: argparse.Namespace) -> None:
    with _open(options, makes_state=options.name is not None) as opened:
        checkpoint(opened, options)


def _undo(options: argparse.Namespace) -> int | None:
    selects = [name for name in ("task", "since", "to") if getattr(options, name)]
    if (options.edit_id is None) != bool(selects):
        raise UsageError("name an edit, or give --task, --since or --to", "copydesk help undo")
    if selects:
        return _changes(options)
    if options.reason or options.partly:
        raise UsageError("--reason and --partly go with --task, --since or --to")
    return _undo_edit(options, transaction=options.transaction)


def _undo_edit(options: argparse.Namespace, **more: object) -> int:
    with _open(options, makes_state=False) as opened:
        report = opened.call(
            opened.config.member, UNDO, {"edit_id": options.edit_id, **more}, lang=options.lang
        )
    return _print_report(options, report)


_MOST_FORGOTTEN = 50
"""The most edits to forget that are listed; all are counted."""


def _forget(options: argparse.Namespace) -> int:
    """Show what would be forgotten and what undo is lost, ask, and remove it."""
    named, options.member = options.member, None
    if (named is None) == (options.what is None):
        hint = "copydesk forget PATH, copydesk forget EDIT, or copydesk forget --member NAME"
        raise UsageError("name a path or an edit, or give --member", hint)
    with _open(options, makes_state=False) as opened:
        lang, on_server = options.lang, opened.config.registry == "redis"
        what = _forgettable(opened, options.what, named)
        copies = StateFolder(opened.root, opened.config.state).copies()
        if not options.json:
            _show_forgettable(what, copies, lang)
        agreed = not options.dry_run and (
            options.yes or agrees(say("cli.forget_ask", lang, _counts(what)))
        )
        if agreed:
            what = _forgettable(opened, options.what, named)  # it may have become more meanwhile
            opened.desk.forgetting.forget(what)
            for path in copies:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
    words = say("cli.forget_forgotten" if agreed else "cli.forget_planned", lang, _counts(what))
    data = {
        "status": "ok" if agreed or options.dry_run else "error",
        **({} if agreed or options.dry_run else {"error": "NOT_CONFIRMED", "summary": words}),
        "state": "forgotten" if agreed else "planned",
        "edits": [edit.edit_id for edit in what.edits],
        "plans": [plan.id for plan in what.plans],
        "no_longer_undone": [*what.lost],
        "unfinished": [edit.edit_id for edit in what.open],
        "files": copies,
    }
    also = say("cli.forget_server", lang) + "\n" if agreed and on_server else ""
    _print(options, data, f"{words}\n{also}")
    return 0 if options.dry_run or (agreed and not what.open) else 1


def _forgettable(opened: OpenWorkspace, name: str | None, member: str | None) -> Forgettable:
    """What a path, the number of an edit, or a member stands for; EditNotFound, InvalidPath."""
    forgetting = opened.desk.forgetting
    if member is not None:
        return forgetting.of_member(member)
    assert name is not None
    if not (name.isascii() and name.isdigit()):
        return forgetting.of_path(RelPath.parse(name))
    edit = opened.journal.get(int(name))
    if edit is None:
        raise opened.desk.history.not_found(opened.caller, int(name))
    return forgetting.of_edit(edit)


def _counts(what: Forgettable) -> dict[str, object]:
    return {"edits": len(what.edits), "plans": len(what.plans)}


def _show_forgettable(what: Forgettable, copies: Sequence[str], lang: Lang) -> None:
    """Print the edits and plans, what cannot be undone then, and which files go as a whole."""
    pending = say("cli.forget_plan", lang)
    rows = [
        *(
            (str(edit.edit_id), terminal.when(edit.time_ms), edit.member, edit.tool, str(edit.path))
            for edit in what.edits[:_MOST_FORGOTTEN]
        ),
        *((plan.id, pending, plan.owner, plan.tool, str(plan.request.path)) for plan in what.plans),
        *[("...", "", "", "", "")] * (len(what.edits) > _MOST_FORGOTTEN),
    ]
    if rows:
        out(terminal.table([("EDIT", "WHEN", "MEMBER", "TOOL", "PATH"), *rows]))
    lists = {
        "cli.forget_lost": map(str, what.lost),
        "cli.forget_open": (f"{edit.edit_id} ({edit.path})" for edit in what.open),
        "cli.forget_files": copies,
    }
    for key, names in lists.items():
        if listed := ", ".join(names):
            tell(say(key, lang, {"names": listed}))


def _notes(opened: OpenWorkspace, options: argparse.Namespace) -> int:
    opened.long_texts = LongTexts(None)  # not cut: no later call could read the rest
    if options.notes == "ls":
        _notes_list(opened, options)
        return 0
    tool, arguments = _NOTES_CALLS[options.notes](opened, options)
    given = {name: value for name, value in arguments.items() if value is not None}
    answer = opened.call(opened.config.member, tool, given, lang=options.lang)
    return _print_report(options, answer, show=terminal.print_answer)


_BLOCK_COLUMNS = 100
"""The most characters of a block in a table."""


def _notes_list(opened: OpenWorkspace, options: argparse.Namespace) -> None:
    """List the notebooks with their documents, or the blocks of a document."""
    lang, member, reading = options.lang, opened.caller, notes_of(opened.desk).reading
    if options.block_id is not None:
        blocks = reading.content(member, options.block_id, parts=True, slice_text=None).blocks
        table = terminal.table([("BLOCK", "TYPE", "TEXT"), *_block_rows(blocks, lang)])
        _print(options, [block_fields(block) for block in blocks], table)
        return
    listed = [
        (
            box,
            ()
            if box.closed
            else reading.documents(
                member, box.id, options.most, within_of(options.name, options.folder)
            ),
            None if box.closed else reading.coverage(member, box.id),
        )
        for box in reading.notebooks(member)
    ]
    rows = [("ID", "", "NOTEBOOK / DOCUMENT")]
    for box, documents, _ in listed:
        rows.append((box.id, say("notes.closed", lang) if box.closed else "", box.name))
        rows += [(document.id, "", f"  {document.hpath}") for document in documents]
    data = [
        {
            "id": box.id,
            "name": box.name,
            "closed": box.closed,
            "documents": [block_fields(document) for document in documents],
            **(coverage_fields(coverage) if coverage is not None else {}),
        }
        for box, documents, coverage in listed
    ]
    _print(options, data, terminal.table(rows))
    for _, _, coverage in () if options.json else listed:
        for words in unread_lines(coverage, lang) if coverage is not None else ():
            tell(words)


_NotesCall = tuple[str, Mapping[str, object]]
"""A tool and its arguments; one that is None is not given."""


def _notes_append(opened: OpenWorkspace, options: argparse.Namespace) -> _NotesCall:
    kind = notes_of(opened.desk).reading.block(opened.caller, options.block_id).kind
    return _append(options, "document" if kind == "d" else "block", options.block_id)


def _notes_daily(opened: OpenWorkspace, options: argparse.Namespace) -> _NotesCall:
    """Append text to today's note."""
    boxes = [options.notebook]
    if options.notebook is None:
        listed = notes_of(opened.desk).reading.notebooks(opened.caller)
        boxes = [box.id for box in listed if not box.closed]
    if len(boxes) != 1:
        raise UsageError("which notebook?", "Name one with --notebook; notes ls shows them.")
    return _append(options, "dailynote", boxes[0])


def _append(options: argparse.Namespace, kind: str, target: str) -> _NotesCall:
    text = _text_of(options.file)
    return "appendContent", {"markdown": text, "targetType": kind, "target": target}


def _text_of(file: str | None) -> str:
    if file is None or file == "-":
        return sys.stdin.read()
    try:
        with open(file, encoding="utf-8", newline="") as stream:
            return stream.read()
    except UnicodeDecodeError:
        raise UsageError(f"the file {file} is not UTF-8") from None


def _block_rows(blocks: Sequence[NoteBlock], lang: Lang) -> Iterator[tuple[str, str, str]]:
    """One row per block, indented below its heading."""
    depth = 0
    for block in blocks:
        is_heading = block.kind == "h"
        depth = int(block.subtype.removeprefix("h") or 1) if is_heading else depth
        yield block.id, label(block.kind, lang), "  " * (depth - is_heading) + _first_line(block)


def _first_line(block: NoteBlock) -> str:
    first, _, rest = (block.markdown or block.content).partition("\n")
    more = " …" if rest or len(first) > _BLOCK_COLUMNS else ""
    return first[:_BLOCK_COLUMNS] + more


_NOTES_CALLS: Mapping[str, Callable[[OpenWorkspace, argparse.Namespace], _NotesCall]] = {
    "append": _notes_append,
    "cat": lambda _, options: (
        "getBlockContent",
        {
            "blockId": options.block_id,
            "showId": options.ids or None,
            "showSubStructure": options.ids or None,
            "slice": options.slice or None,
        },
    ),
    "daily": _notes_daily,
    "diff": lambda _, options: (
        "prepareBlockDiff" if options.plan else "applyBlockDiff",
        {
            "diff": _text_of(options.file),
            "strictMatch": False if options.loose else None,
            "dropAnchors": options.drop_anchors or None,
            "dryRun": True if options.dry_run and not options.plan else None,
        },
    ),
    "new": lambda _, options: (
        "createNewDoc",
        {
            "title": options.title,
            "markdown": _text_of(options.file) if options.file is not None else "",
            "anchorDocumentId": options.anchor_id,
            "location": options.location,
        },
    ),
    "search": lambda _, options: (
        "searchBlocks",
        {
            "query": " ".join(options.words),
            "limit": options.most,
            "name": options.name,
            "folder": options.folder,
        },
    ),
}
"""The commands that are one call of a tool."""


def _schema(options: argparse.Namespace) -> None:
    _, config = _settings(options)
    chosen = Catalog(reference.all_tools()).of(config.toolsets)
    dump(reference.definitions(chosen, options.dialect, config.lang))


def _manual(options: argparse.Namespace) -> None:
    _, config = _settings(options)
    pages = reference.MANUALS
    if options.toolset is None:
        rows = [("TOOLSET", "TOPICS"), *((name, " ".join(pages[name])) for name in pages)]
        _print(options, pages, terminal.table(rows))
        return
    toolset, topic = options.toolset, options.topic or "index"
    having = [name for name in pages if toolset in pages[name]]
    if toolset not in pages and options.topic is None and len(having) == 1:
        toolset, topic = having[0], toolset  # a page that only one toolset has
    hint = "copydesk manual shows what there is."
    if toolset not in pages:
        raise unknown("manual for", toolset, pages, hint)
    read = reference.read if topic in pages[toolset] else reference.part
    try:
        text = read(toolset, topic, config.lang)
    except InvalidArgs:
        known = reference.all_topics(toolset, config.lang)
        raise unknown(f"{toolset} topic", topic, known, hint) from None
    data = {"toolset": toolset, "topic": topic, "text": text}
    _print(options, data, text.removesuffix("\n") + "\n")


def _trust(options: argparse.Namespace) -> int:
    """Show the configured commands, and allow them if the person agrees; return the status."""
    root, config = _settings(options)
    trust, state, words = Trust(root, config.checks), "none", "cli.trust_none"
    if options.revoke:
        trust.take_back()
        state, words = "revoked", "cli.trust_revoked"
    elif trust.inside:
        raise UsageError(f"{trust.inside} is in the workspace, where agents may write")
    rows: list[tuple[str, ...]] = []
    refused: list[str] = []
    for rule in (rule for rule in config.checks if rule.command and not options.revoke):
        try:
            covered = " ".join(trust.covered(rule))
        except NotRun as reason:
            facts = {"check": rule.name, "what": reason.detail}
            refused.append(say(f"check.not_run.{reason.reason}", config.lang, facts))
        else:
            rows.append((rule.glob, rule.name, shlex.join(rule.command), covered))
    if refused and not rows:
        raise UsageError("\n".join(refused))
    for why in refused:
        tell(why, sys.stderr)
    if rows:
        if not options.json:
            out(terminal.table([("FILES", "CHECK", "COMMAND", "COVERS"), *rows]))
        state, words = "open", "cli.trust_open"
        if trust.is_given() or options.yes or agrees(say("cli.trust_ask", config.lang)):
            trust.give()
            state, words = "given", "cli.trust_given"
    status = "error" if state == "open" else "ok"
    data = {"status": status, "state": state, "commands": rows, "refused": refused}
    _print(options, data, terminal.line(say(words, config.lang)) + "\n")
    return 1 if state == "open" else 0


def _doctor(options: argparse.Namespace) -> int:
    from copydesk.app.doctor import examine, repair

    root = _named_root(options)
    findings = [*(repair(root) if options.repair else ()), *examine(root)]
    coloured = terminal.colours(sys.stdout)
    lines: list[str] = []
    for finding in findings:
        mark = terminal.strong("ok  " if finding.ok else "BAD ", coloured)
        mend = [f"     fix: {terminal.line(finding.mend)}\n"] if finding.mend else []
        lines += [f"{mark} {finding.what}: {terminal.line(finding.found)}\n", *mend]
    _print(options, [asdict(finding) for finding in findings], "".join(lines))
    return 0 if all(finding.ok for finding in findings) else 1


def _demo(options: argparse.Namespace) -> int:
    from copydesk.app.demo import demo

    with contextlib.redirect_stdout(sys.stderr if options.json else sys.stdout):
        status = demo(
            options.story,
            keep=options.keep,
            lang=cast(Lang, options.lang or "en"),
            port=options.port,
            show=terminal.browse if options.browser else None,
        )
    if options.json:
        dump({"status": "error" if status else "ok"})
    return status


def _mcp(opened: OpenWorkspace, options: argparse.Namespace) -> None:
    from copydesk.app.mcp.server import run_stdio

    config, wire = opened.config, getattr(options, "wire", None)
    served = config.member, config.toolsets, config.lang, config.structured
    run_stdio(opened, *served, wire=wire)


def _prepare_start(words: Sequence[str]) -> None:
    """Make the first start of the server with this command line as quick as the later ones."""
    import anyio

    from copydesk.app.mcp.early import Start
    from copydesk.app.mcp.server import keep_first_answers

    options = parse(words)
    start = Start.of(options.root, vars(options))
    with _open(options, for_agents=True) as opened:
        config = opened.config
        served = config.member, config.toolsets, config.lang, config.structured
        if start is not None:
            anyio.run(keep_first_answers, start.keep, opened, *served)


def _serve(opened: OpenWorkspace, options: argparse.Namespace) -> None:
    from copydesk.app.mcp.http import run_http

    run_http(opened, options.host, options.port)


_PORT = 8427
_START_SECONDS = 30.0
_PAGE = re.compile(r"copydesk: the review page: (\S+)")


def _up(options: argparse.Namespace) -> None:
    """Set up the clients, serve in the background, and open the page."""
    root, config = _settings(options)
    none = {"path": None, "portable": False, "remove": False, "state": False, "dry_run": False}
    try:
        _init(argparse.Namespace(**none, **vars(options)))
    except UsageError as error:  # no client is there: the page is of use without one
        terminal.report_failure(error, as_json=False, lang=config.lang)
    log = StateFolder(root, config.state).path("server.log")
    with _background(root, config) as (lock, pid):
        if not pid:
            pid = _start(options, root, lock, log)
        address = _address_in(log, pid)
    if not address:
        with open(log, encoding="utf-8", errors="replace") as lines:
            raise UsageError(f"the server did not start: {lines.read().strip()[-500:]}")
    tell(say("cli.up", config.lang, {"pid": pid}))
    tell(say("cli.up_page", config.lang, {"address": address}))
    if options.browser:
        terminal.browse(address)


def _down(options: argparse.Namespace) -> int:
    """End the server that `up` has started, and no other process; return the exit status."""
    root, config = _settings(options)
    with _background(root, config) as (_, pid):
        if pid:
            os.kill(pid, signal.SIGTERM)
    end = time.monotonic() + _START_SECONDS
    is_up = bool(pid)
    while is_up and time.monotonic() < end:
        time.sleep(0.1)
        with _background(root, config) as (_, holder):
            is_up = holder == pid
    ended = "cli.down_ended" if pid else "cli.down_none"
    words = say("cli.down_running" if is_up else ended, config.lang, {"pid": pid})
    data = {"status": "error" if is_up else "ok", "pid": pid, "summary": words}
    _print(options, data, f"{words}\n")
    return 1 if is_up else 0


@contextlib.contextmanager
def _background(root: str, config: Config) -> Generator[tuple[BinaryIO, int]]:
    """Try to take the lock that a server in the background holds as long as it lives.

    Yields the lock and the process id of that server; 0 if none runs, and then the lock is ours
    within.
    """
    state = StateFolder(root, config.state)
    state.make()
    with _own_file(state.path("server.lock"), os.O_RDWR) as lock:
        pid = 0
        while not pid:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                lock.truncate(0)  # the id of a server that has ended
                break
            except BlockingIOError:
                pid = int(lock.read(20) or b"0")  # none yet: it is being started
                time.sleep(0 if pid else 0.1)
        yield lock, pid


def _own_file(path: str, flags: int) -> BinaryIO:
    """A file that only its owner may read, made if it is missing; no link is followed."""
    descriptor = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    return open(descriptor, "r+b" if flags & os.O_RDWR else "wb", buffering=0)


def _start(options: argparse.Namespace, root: str, lock: BinaryIO, log: str) -> int:
    """Start a server that holds the lock and writes the log; return its process id."""
    from copydesk.app.cli.init import own_command

    with socket.socket() as probe:
        is_free = probe.connect_ex(("127.0.0.1", _PORT)) != 0
    port = options.port if options.port is not None else _PORT if is_free else 0
    member = ["--member", options.member] if options.member else []
    words = [*own_command(), "serve", "--root", os.path.abspath(root), "--port", str(port), *member]
    with _own_file(log, os.O_WRONLY | os.O_TRUNC) as output:
        server = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=[lock.fileno()],  # the lock is of the open file, which it keeps open
            start_new_session=True,
        )
    lock.write(str(server.pid).encode())
    return server.pid


def _address_in(log: str, pid: int) -> str:
    """The last address in the log of a server, which may only start; "" if it has ended."""
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end:
        with contextlib.suppress(FileNotFoundError), open(log, encoding="utf-8") as lines:
            if addresses := _PAGE.findall(lines.read()):
                return str(addresses[-1])
        with contextlib.suppress(ChildProcessError):  # another `up` has started it
            if os.waitpid(pid, os.WNOHANG)[0]:
                return ""
        time.sleep(0.1)
    return ""


def _init(options: argparse.Namespace) -> int:
    from copydesk.app.cli.init import run

    return run(options, *_settings(options), _prepare_start)


def _hook(opened: OpenWorkspace, options: argparse.Namespace) -> None:
    from copydesk.app.cli.hook import denied

    dump(denied(opened.call(opened.config.member, *options.call, lang=options.lang)))


def _watch(opened: OpenWorkspace, options: argparse.Namespace) -> None:
    """Print pending plans, then events, until Ctrl-C or for `options.seconds`."""
    from copydesk.app.library import Events

    end = time.monotonic() + (options.seconds or sys.maxsize)
    events = Events(opened, opened.config.member)
    if not options.json:
        print(say("cli.watch", options.lang, {"root": opened.root}), file=sys.stderr)
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            try:
                for event in events.look():
                    _print_event(event, options)
            except Refusal as refusal:  # the next look will tell more
                if options.json:
                    row = {"event": "refused", "reason": refusal.code}
                    out(terminal.as_json(row, indent=None))
                else:
                    terminal.complain(refusal.code)
            sys.stdout.flush()
            if time.monotonic() >= end:
                return
            time.sleep(_LOOK_SECONDS)


_LOOK_SECONDS = 0.5
_EVENTS = {
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


def _print_event(event: Event, options: argparse.Namespace) -> None:
    plan, edit, decision = event.plan, event.edit, event.decision
    of_edit: dict[str, object] = {}
    if edit is not None:
        counts = dict(zip(("added", "removed"), edit.lines, strict=True))
        of_edit = {"edit": edit.edit_id, "undoes": edit.undoes, **counts}
    fields: dict[str, object] = {
        "event": event.kind,
        "time_ms": event.time_ms,
        "member": event.member,
        "path": str(event.path),
        "hunk_id": event.hunk_id,
        **({} if plan is None else {"action": plan.action}),
        **of_edit,
        "why": event.why,
        **({} if decision is None else {"by": decision.by, "reason": decision.reason}),
    }
    if options.json:
        out(terminal.as_json(fields, indent=None))
    else:
        when = terminal.when(event.time_ms)[11:]
        words = say(_EVENTS[event.kind], options.lang, fields)
        parts = [when, event.member, event.hunk_id or "-", event.path, words, event.why]
        tell("  ".join(str(part) for part in parts if part))


def _completion(options: argparse.Namespace) -> None:
    shell = options.shell or os.path.basename(os.environ.get("SHELL", ""))
    if shell in SCRIPTS:
        out(SCRIPTS[shell])
        return
    if shell != "words":
        raise UsageError("which shell? bash, zsh or fish", "copydesk completion bash")
    words = options.words[1:] if options.words[:1] == ["--"] else options.words
    if "--root" in words[:-2]:
        options.root = words[words.index("--root") + 1]
    for word in candidates(words, partial(_open, options, makes_state=False)):
        out(terminal.line(word) + "\n")


_FILES: Final = ":files"
"""The line that makes a shell add its own files to the candidates."""

_MOST_EDITS: Final = 30

SCRIPTS: Final = {
    "bash": r"""# copydesk completion bash >> ~/.bash_completion
_copydesk() {
    local cur="${COMP_WORDS[COMP_CWORD]}" word
    COMPREPLY=()
    while IFS= read -r word; do
        if [ "$word" = ":files" ]; then
            compopt -o filenames 2>/dev/null
            while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$cur")
        else
            COMPREPLY+=("$word")
        fi
    done < <(copydesk completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _copydesk copydesk
""",
    "zsh": r"""#compdef copydesk
# copydesk completion zsh > "${fpath[1]}/_copydesk", or: source <(copydesk completion zsh)
_copydesk() {
    local -a found
    found=("${(@f)$(copydesk completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if (( ${found[(I):files]} )); then
        found=("${(@)found:#:files}")
        _files
    fi
    [[ -n "$found" ]] && compadd -- "${found[@]}"
}
if [[ "$funcstack[1]" = "_copydesk" ]]; then _copydesk "$@"; else compdef _copydesk copydesk; fi
""",
    "fish": r"""# copydesk completion fish > ~/.config/fish/completions/copydesk.fish
function __copydesk
    set -l words (commandline -opc)[2..-1] (commandline -ct)
    for word in (copydesk completion words -- $words 2>/dev/null)
        if test "$word" = ":files"
            __fish_complete_path (commandline -ct)
        else
            echo $word
        end
    end
end
complete -c copydesk -f -a '(__copydesk)'
""",
}

_Open = Callable[[], OpenWorkspace]


def candidates(words: Sequence[str], opened: _Open) -> Iterator[str]:
    """Candidates for the last word, which may be empty, for the shells' scripts.

    Ids are those of pending plans.
    """
    *before, last = words or [""]
    with contextlib.suppress(
        Exception
    ):  # whatever is wrong with the workspace, completion stays silent
        for word in dict.fromkeys([*_candidates(before, last, opened)]):
            if word == _FILES or word.startswith(last):
                yield word


def _candidates(before: Sequence[str], last: str, opened: _Open) -> Iterator[str]:
    parser, given = new_parser(), 0
    waiting: argparse.Action | None = None  # an option whose value is next
    tool = ""
    for word in before:
        if waiting is not None:
            waiting = None
        elif word.startswith("-"):
            taking = (action for action in _actions(parser) if action.nargs != 0)
            waiting = next((action for action in taking if word in action.option_strings), None)
        elif word in (commands := _subcommands(parser)):
            parser, given = commands[word], 0
        else:
            tool, given = tool or word, given + 1
    if waiting is not None:
        yield from _values(waiting, opened)
    elif tool and parser.prog.endswith(" call"):
        yield from _argument_names(tool, before[-1])
    elif last.startswith("-"):
        for action in _actions(parser):
            if action.help != argparse.SUPPRESS:
                yield from (name for name in action.option_strings if name.startswith("--"))
    elif commands := _subcommands(parser):
        yield from commands
    else:
        places = [action for action in _actions(parser) if not action.option_strings]
        if places and (given < len(places) or places[-1].nargs in ("+", "*")):
            yield from _values(places[min(given, len(places) - 1)], opened)


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return parser._actions  # pyright: ignore[reportPrivateUsage]  # argparse has no other way to ask


def _subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in _actions(parser):
        if isinstance(action, argparse._SubParsersAction):  # pyright: ignore[reportPrivateUsage]  # as above
            return cast("dict[str, argparse.ArgumentParser]", action.choices)
    return {}


def _values(action: argparse.Action, opened: _Open) -> Iterable[str]:
    """The completions of an argument, by its kind."""
    if action.choices is not None:
        return [str(choice) for choice in action.choices if choice != "words"]
    if action.dest in _OF_WORKSPACE:
        with opened() as workspace:
            return [*_OF_WORKSPACE[action.dest](workspace, workspace.config.member)]
    return _VALUES[action.dest]() if action.dest in _VALUES else ()


def _client_names() -> list[str]:
    from copydesk.app.cli.init import CLIENTS

    return [client.name for client in CLIENTS]


def _tool_names() -> list[str]:
    return [tool.name for tool in reference.all_tools()]


_VALUES: Mapping[str, Callable[[], Iterable[str]]] = {
    **dict.fromkeys(("path", "file", "root"), lambda: (_FILES,)),
    "client": _client_names,
    "toolsets": lambda: TOOLSETS,
    "toolset": lambda: reference.MANUALS,
    "tool": _tool_names,
    "words": lambda: (*COMMANDS, *_tool_names()),
}
_OF_WORKSPACE: Mapping[str, Callable[[OpenWorkspace, str], Iterable[str]]] = {
    "member": lambda workspace, member: (member, *workspace.config.members),
    "hunk_id": lambda workspace, member: (
        waiting.plan.id for waiting in workspace.desk.review.pending(workspace.member(member))
    ),
    "edit_id": lambda workspace, member: (
        str(edit.edit_id) for edit in workspace.history(member, most=_MOST_EDITS)
    ),
    **dict.fromkeys(
        ("since", "to"),
        lambda workspace, member: (point.name for point in workspace.desk.changes.checkpoints()),
    ),
    "task": lambda workspace, member: (
        task.key for task in workspace.desk.changes.tasks(workspace.member(member))
    ),
    "change": lambda workspace, member: (
        name
        for file in workspace.desk.changes.view(workspace.member(member))
        for name in (str(file.path), *(hunk.id for hunk in file.hunks))
    ),
}


def _argument_names(name: str, previous: str) -> Iterator[str]:
    """The arguments of a tool after `copydesk call TOOL`, and files if it takes a path."""
    if previous in ("--path", "--source", "--destination"):
        yield _FILES
    else:
        schemas = (tool.schema for tool in reference.all_tools() if tool.name == name)
        yield from (f"--{argument}" for schema in schemas for argument in schema["properties"])


def _help(options: argparse.Namespace) -> int:
    parser = new_parser(
        partial(language, ["--lang", options.lang or "", "--root", options.root or ""])
    )
    words: list[str] = options.words
    if words and words[0] not in COMMANDS:
        known = _tool_names()
        if words[0] not in known:
            raise unknown("command", words[0], [*COMMANDS, *known], "copydesk --help shows them.")
        return _show_tool(options, _find_tool(words[0]))
    if words:
        parser.parse_args([*words, "--help"])  # prints and exits
    parser.print_help()
    return 0


def _find_tool(name: str) -> Tool:
    """A tool by its name; raises UsageError with similar names."""
    known = {tool.name: tool for tool in reference.all_tools()}
    if name not in known:
        raise unknown("tool", name, known, "copydesk call, without a tool, lists them all.")
    return known[name]


def _list_tools(options: argparse.Namespace) -> int:
    _, config = _settings(options)
    rows = [(tool.name, tool.toolset, tool.title(config.lang)) for tool in reference.all_tools()]
    data = [{"name": name, "toolset": of, "title": title} for name, of, title in rows]
    _print(options, data, terminal.table([("TOOL", "TOOLSET", "WHAT"), *rows]))
    return 0


def _show_tool(options: argparse.Namespace, tool: Tool) -> int:
    """Print a tool's description and arguments; return the exit status."""
    _, config = _settings(options)
    schema = tool.described_schema(config.lang)
    rows = [
        (
            f"  --{name}",
            _kind_of(form),
            "required" if name in schema["required"] else reference.default_of(form, "default: {}"),
            str(form.get("description", "")),
        )
        for name, form in cast("Mapping[str, Mapping[str, Any]]", schema["properties"]).items()
    ]
    text = f"{tool.name}: {tool.description(config.lang)}\n\n{terminal.table(rows)}"
    _print(options, reference.definitions([tool], "mcp", config.lang)[0], text)
    return 0


def _kind_of(form: Mapping[str, Any]) -> str:
    if "enum" in form:
        return "|".join(form["enum"])
    if "items" in form:
        return f"array of {form['items']['type']}s, may be repeated"
    return "|".join(part["type"] for part in form.get("anyOf", [form]))


_COMMANDS: dict[str, _Command] = {
    "init": _init,
    "mcp": _opened(_mcp, for_agents=True),
    "serve": _opened(_serve, for_agents=True),
    "up": _up,
    "down": _down,
    "hook": _opened(_hook, for_agents=True),
    "demo": _demo,
    "call": _call,
    "pending": _opened(_pending, makes_state=False),
    "show": _opened(_show, makes_state=False),
    "apply": _opened(_apply, makes_state=False),
    "apply-patch": _opened(_apply_patch),
    "diff": _opened(_diff, makes_state=False),
    "approve": _opened(_decide, makes_state=False),
    "reject": _opened(_decide, makes_state=False),
    "review": _review,
    "discard": _opened(_decide, makes_state=False),
    "recover": _opened(_recover, makes_state=False),
    "history": _opened(_history, makes_state=False),
    "approvals": _opened(approvals, makes_state=False),
    "changes": _changes,
    "keep": _changes,
    "checkpoint": _checkpoint,
    "undo": _undo,
    "reapply": partial(_undo_edit, again=True),
    "forget": _forget,
    "notes": _opened(_notes),
    "schema": _schema,
    "manual": _manual,
    "trust": _trust,
    "doctor": _doctor,
    "watch": _opened(_watch),  # creates the state folder, to see the first action, too
    "completion": _completion,
    "help": _help,
}
