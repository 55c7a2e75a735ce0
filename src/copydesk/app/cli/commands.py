"""The commands: each reads its options, opens the workspace, and prints a result."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from copydesk.app import reference, terminal
from copydesk.app.cli import errors
from copydesk.app.cli.parser import Own, UsageError, new_parser, parse, read_arguments, unknown
from copydesk.app.config import TOOLSETS, Config, load
from copydesk.app.reference import all_tools
from copydesk.app.terminal import agrees, dump, is_refused, out, short
from copydesk.app.workspace import OpenWorkspace, default_root, open_workspace
from copydesk.desk.history import Past
from copydesk.desk.recovery import Settled
from copydesk.edit.draft import Approval, Plan
from copydesk.edit.patch_parse import parse_apply_patch
from copydesk.errors import AccessDenied, CheckFinding, InvalidArgs, Refusal
from copydesk.notes.lazy import notes_of
from copydesk.store.checks import NotRun, Trust
from copydesk.text.encoding import encoding_of_diff
from copydesk.tools.catalog import Catalog, Tool
from copydesk.tools.messages import say, say_reason
from copydesk.tools.refusals import check_words
from copydesk.tools.report import Answer, Lang, LongTexts
from copydesk.tools.reports import saved_data
from copydesk.tools.ws_mod import APPLY, APPLY_ALL, UNDO


def run(options: argparse.Namespace) -> int:
    """Run the command; return the exit status.

    Raises one of `errors.KNOWN`. Sets the language of the configuration in `options`.
    """
    return _COMMANDS[options.command](options)


def _root(options: argparse.Namespace) -> str:
    hint = "Name the workspace with --root or COPYDESK_ROOT."
    try:
        root: str = default_root() if options.root is None else options.root
    except FileNotFoundError:
        raise UsageError("the current folder no longer exists", hint) from None
    if not os.path.isdir(root):
        state = "is not a folder" if os.path.lexists(root) else "does not exist"
        raise UsageError(f"the workspace {root!r} {state}", hint)
    return root


def _config(options: argparse.Namespace, root: str) -> Config:
    config = load(root)
    if options.member:
        config = replace(config, member=options.member)
    if options.lang:
        config = replace(config, lang=options.lang)
    options.lang = config.lang
    if getattr(options, "toolsets", None):
        chosen = tuple(part.strip() for part in options.toolsets.split(",") if part.strip())
        for name in chosen:
            if name not in TOOLSETS:
                raise unknown("toolset", name, TOOLSETS, f"There are: {', '.join(TOOLSETS)}.")
        config = replace(config, toolsets=chosen)
    if getattr(options, "apply", None):
        config = replace(config, apply=options.apply)
    if getattr(options, "structured", False):
        config = replace(config, structured=True)
    return config


def _open(
    options: argparse.Namespace, *, looks: bool = False, for_agents: bool = False
) -> OpenWorkspace:
    """Open the workspace. With `looks`, do not create a missing state folder."""
    root = _root(options)
    config = _config(options, root)
    if for_agents and not options.member:
        config = config.for_agents()
    there = config.registry == "redis" or os.path.isdir(os.path.join(root, config.state))
    shared = there or not looks
    opened = open_workspace(root, config, shared=shared)
    opened.in_shell = True
    return opened


def _call(options: argparse.Namespace) -> int:
    if options.tool is None:
        return _list_tools(_config(options, _root(options)).lang, as_json=options.json)
    tool = _find_tool(options.tool)
    words = read_arguments(tool.name, options.arguments, tool.schema)
    _set_own(options, words.own)
    if "help" in words.own:
        return _show_tool(tool, _config(options, _root(options)).lang, as_json=options.json)
    given = words.arguments(sys.stdin)
    counter = terminal.Counter(sys.stderr)
    with _open(options) as opened:
        config = opened.config
        opened.kept = LongTexts(None)  # not cut: no later call could read the rest
        report = opened.call(
            config.member,
            tool.name,
            given,
            lang=config.lang,
            progress=counter,
        )
    counter.clear()
    if options.json:
        dump(report.data)
    else:
        terminal.print_answer(report)
    return 1 if is_refused(report) else 0


def _set_own(options: argparse.Namespace, own: Own) -> None:
    """Apply copydesk's own options that follow the tool's name as if they came first."""
    for name, value in own.items():
        if name == "lang" and value not in ("en", "zh"):
            raise UsageError(f"--lang must be en or zh, not {value!r}")
        setattr(options, name, True if name == "json" else value)


def _pending(options: argparse.Namespace) -> int:
    with _open(options, looks=True) as opened:
        plans = opened.pending(opened.config.member)
        decided = {plan.id: opened.desk.review.decision(plan) for plan in plans}
    verdicts = {key: decision.verdict if decision else "" for key, decision in decided.items()}
    if options.json:
        dump([{**_plan_data(plan), "decision": verdicts[plan.id]} for plan in plans])
        return 0
    now_ms = time.time_ns() // 1_000_000
    rows = [("HUNK", "PATH", "ACTION", "MEMBER", "AGE", "EXPIRES IN", "DECISION", "WHY")]
    rows += [
        (
            plan.id,
            str(plan.request.path),
            plan.action,
            plan.owner,
            terminal.ago(now_ms - plan.created_ms),
            terminal.ago(plan.expires_ms - now_ms),
            verdicts[plan.id] or "-",
            plan.why,
        )
        for plan in plans
    ]
    out(terminal.table(rows) if plans else say("cli.none_wait", options.lang) + "\n")
    return 0


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


def _show(options: argparse.Namespace) -> int:
    with _open(options, looks=True) as opened:
        report = opened.pending_report(opened.config.member, options.hunk_id, opened.config.lang)
    if options.json:
        dump(report.data)
    else:
        if "why" in report.fields:
            facts = {"why": report.fields["why"]}
            out(terminal.line(say("ask.why", options.lang, facts)) + "\n")
        short(report)
        out("\n" + say("cli.next", options.lang, {"id": options.hunk_id}) + "\n")
    return 0


def _apply(options: argparse.Namespace) -> int:
    wanted = list(dict.fromkeys(options.hunk_id))
    with _open(options, looks=True) as opened:
        member, lang = opened.config.member, opened.config.lang
        if len(wanted) == 1:
            given: dict[str, object] = {"hunk_id": wanted[0], "accept": options.accept}
            report = opened.call(member, APPLY, given, lang=lang)
            return _print_report(options, report, wanted[0])
        given = {"hunk_ids": wanted, "accept": options.accept}
        report = opened.call(member, APPLY_ALL, given, lang=lang)
    status = _print_report(options, report, str(report.fields.get("hunk_id", "")))
    if status and not options.json:
        hunks = cast("Sequence[Mapping[str, object]]", report.fields.get("hunks", ()))
        rows = [
            (str(row["hunk_id"]), str(row["path"]), str(row.get("error", row["context_match"])))
            for row in hunks
        ]
        sys.stderr.write(terminal.table(rows))
    return status


def _apply_patch(options: argparse.Namespace) -> int:
    """Plan the patch and write it at once, as apply_patch harnesses expect; return the status."""
    try:
        text: str = sys.stdin.read() if options.patch in (None, "-") else options.patch
    except UnicodeDecodeError:
        raise InvalidArgs("patch", "is not UTF-8") from None
    if not text.strip():
        raise UsageError("the patch is empty", "copydesk apply-patch < patch.txt")
    with _open(options) as opened:
        member, lang = opened.config.member, opened.config.lang
        given = {"patch": text, "apply": "never"}
        report = opened.call(member, "apply_patch", given, lang=lang)
        if not is_refused(report):
            planned = cast("Sequence[Mapping[str, str]]", report.fields.get("hunks", ()))
            ids = [row["hunk_id"] for row in planned]
            if any("cause" in row or "warnings" in row for row in planned) or not ids:
                _print_report(options, report)
                return 1 if ids else 0  # corrected or doubtful: somebody has to look at the plans
            report = opened.call(member, APPLY_ALL, {"hunk_ids": ids}, lang=lang)
            if report.is_error:
                for hunk_id in ids:
                    with contextlib.suppress(Refusal):
                        opened.desk.discard(opened.member(member), hunk_id)
    if is_refused(report) or options.json:
        return _print_report(options, report)
    letters = {"add": "A", "update": "M", "delete": "D"}
    rows = [(letters[one.kind], one.to or one.path) for one in parse_apply_patch(text)]
    rows.sort(key=lambda row: "AMD".index(row[0]))
    out("Success. Updated the following files:\n")
    out("".join(f"{letter} {path}\n" for letter, path in rows))
    return 0


def _diff(options: argparse.Namespace) -> int:
    """Print the diff of a plan with its exact bytes; return the status."""
    with _open(options, looks=True) as opened:
        planned = opened.desk.show(opened.member(opened.config.member), options.hunk_id)
    draft = planned.draft
    if draft.base.encoding.unit > 1 or planned.plan.blocks is not None:
        raise InvalidArgs("hunk_id", "is of a text whose diff git apply cannot take")
    if options.json:
        dump({"status": "ok", "hunk_id": planned.id, "diff": draft.diff.decode("utf-8", "replace")})
        return 0
    sys.stdout.flush()
    sys.stdout.buffer.write(draft.diff)
    return 0


def _print_report(options: argparse.Namespace, report: Answer, hunk_id: str = "") -> int:
    """Print the short form of a report; return the exit status."""
    if options.json:
        dump(report.data)
    elif is_refused(report):
        errors.print_refusal(report, options.lang, hunk_id)
    else:
        short(report)
    return 1 if is_refused(report) else 0


def _discard(options: argparse.Namespace) -> int:
    with _open(options, looks=True) as opened:
        member = opened.member(opened.config.member)

        def discard(hunk_id: str) -> dict[str, object]:
            plan = opened.desk.discard(member, hunk_id)
            path = str(plan.request.path)
            summary = say("cli.discarded", options.lang, {"id": plan.id, "path": path})
            return {"hunk_id": plan.id, "path": path, "summary": summary}

        return _each(options, discard)


def _check_declared(opened: OpenWorkspace) -> None:
    """Raise AccessDenied if only a flag or a variable names the person who decides."""
    name = opened.config.member
    if name not in opened.config.members and name != load(opened.root, {}).member:
        raise AccessDenied("approve", "the configuration declares no such member")


def _approve(options: argparse.Namespace) -> int:
    from copydesk.app.cli.review import approve, decision_data

    with _open(options, looks=True) as opened:
        _check_declared(opened)

        def decide(hunk_id: str) -> dict[str, object]:
            decision = approve(opened, hunk_id, options.after, as_json=options.json)
            return decision_data(decision, options.lang)

        return _each(options, decide)


def _reject(options: argparse.Namespace) -> int:
    from copydesk.app.cli.review import decision_data, reviewer

    with _open(options, looks=True) as opened:
        _check_declared(opened)
        person, review = reviewer(opened), opened.desk.review

        def decide(hunk_id: str) -> dict[str, object]:
            return decision_data(review.reject(person, hunk_id, options.reason), options.lang)

        return _each(options, decide)


def _each(options: argparse.Namespace, act: Callable[[str], dict[str, object]]) -> int:
    """Act once on each named plan, whatever the others do; `act` returns data or raises Refusal."""
    found: list[dict[str, object]] = []
    status = 0
    for hunk_id in dict.fromkeys(options.hunk_id):
        try:
            data = {"status": "ok", **act(hunk_id)}
        except Refusal as refusal:
            status = 1
            data = errors.refusal_data(refusal, options.lang, hunk_id=hunk_id)
            if not options.json:
                terminal.complain(f"{hunk_id}: {errors.refusal_words(refusal, options.lang)}")
        else:
            if not options.json:
                out(terminal.line(str(data["summary"])) + "\n")
        found.append(data)
    if options.json:
        dump(found if len(options.hunk_id) > 1 else found[0])
    return status


def _review(options: argparse.Namespace) -> int:
    from copydesk.app.cli.review import review

    if options.json:
        raise UsageError("copydesk review asks a person; --json is not for it")
    # with keys it waits for plans, which needs the state folder
    with _open(options, looks=not terminal.Keys.work()) as opened:
        _check_declared(opened)
        return review(opened)


def _recover(options: argparse.Namespace) -> int:
    with _open(options, looks=True) as opened:
        again = notes_of(opened.desk).recover(opened.member(opened.config.member))
        settled = {one.entry.edit_id: one for one in (*opened.recovered, *again)}
        found, lang = tuple(settled.values()), opened.config.lang
        swept, kept = opened.recovery.sweep(time.time_ns() // 1_000_000)
        saved = opened.desk.foreign.told(opened.member(opened.config.member))
    if options.json:
        besides: dict[str, list[object]] = {
            "foreign_writes": [saved_data(one) for one in saved],
            "leftovers_kept": [str(path) for path in kept],
        }
        dump(
            {
                "settled": [_recovered_data(each, lang) for each in found],
                "leftovers_removed": swept,
                **{name: rows for name, rows in besides.items() if rows},
            }
        )
    else:
        if found:
            rows = [_recovered_row(each, lang) for each in found]
            out(terminal.table([_RECOVERED_HEAD, *rows]))
        else:
            out(say("cli.nothing_to_settle", lang) + "\n")
        if swept:
            out(say("cli.swept", lang, {"count": swept}) + "\n")
        terminal.saved(saved, lang)
        for path in kept:
            out(terminal.line(say("cli.leftover_kept", lang, {"path": path})) + "\n")
    return 1 if any(each.state in ("open", "unsure") for each in found) else 0


_RECOVERED_HEAD = ("EDIT", "WHEN", "MEMBER", "PATH", "TRANSACTION", "ENDED")


def _recovered_row(one: Settled, lang: Lang) -> tuple[str, ...]:
    entry = one.entry
    ended, reason = say(f"settled.{one.state}", lang), _reason(one, lang)
    return (
        str(entry.edit_id),
        terminal.when(entry.time_ms),
        entry.member,
        str(entry.path),
        entry.group or "-",
        f"{ended}: {reason}" if reason else ended,
    )


def _reason(one: Settled, lang: Lang) -> str:
    """Why a write could not be recovered, in words; empty if it was recovered."""
    if one.refusal is not None:
        return errors.refusal_words(one.refusal, lang)
    return say_reason(one.reason, lang)


def _recovered_data(one: Settled, lang: Lang) -> dict[str, object]:
    entry = one.entry
    return {
        "edit_id": entry.edit_id,
        "time_ms": entry.time_ms,
        "member": entry.member,
        "tool": entry.tool,
        "path": str(entry.path),
        "transaction_id": entry.group,
        "hunk_id": entry.hunk_id,
        "state": one.state,
        "reason": _reason(one, lang),
    }


def _history(options: argparse.Namespace) -> int:
    with _open(options, looks=True) as opened:
        edits = opened.history(opened.config.member, options.path, options.most)
    if options.json:
        dump([_edit_data(edit) for edit in edits])
    elif edits:
        out(terminal.table([_HISTORY_HEAD, *(_edit_row(edit, options.lang) for edit in edits)]))
    elif options.path:
        out(terminal.line(say("cli.none_there", options.lang, {"path": options.path})) + "\n")
    else:
        out(say("cli.none_written", options.lang) + "\n")
    if options.diff and not options.json:
        coloured = terminal.colours(sys.stdout)
        for edit in edits:
            head = terminal.strong(f"edit {edit.edit_id}", coloured)
            out(f"\n{head}\n{terminal.diff(_edit_diff(edit), coloured)}")
    return 0


_HISTORY_HEAD = ("EDIT", "WHEN", "MEMBER", "TOOL", "PATH", "LINES", "STATE", "WHY")


def _edit_row(edit: Past, lang: Lang) -> tuple[str, ...]:
    added, removed = edit.lines
    state: list[str] = [edit.state]
    if edit.forgotten:
        state.append(say("cli.text_forgotten", lang))
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


def _approvals(options: argparse.Namespace) -> int:
    from copydesk.app.cli.review import check_approvals, log_approvals

    with _open(options, looks=True) as opened:
        if options.check is None:
            return log_approvals(opened)
        return check_approvals(opened, options.check, as_json=options.json)


def _edit_diff(edit: Past) -> str:
    return encoding_of_diff(edit.diff, None).decode(edit.diff)


def _undo(options: argparse.Namespace) -> int:
    with _open(options, looks=True) as opened:
        arguments = {"edit_id": options.edit_id, "transaction": options.transaction}
        report = opened.call(opened.config.member, UNDO, arguments, lang=opened.config.lang)
    return _print_report(options, report)


def _reapply(options: argparse.Namespace) -> int:
    with _open(options, looks=True) as opened:
        arguments = {"edit_id": options.edit_id, "again": True}
        report = opened.call(opened.config.member, UNDO, arguments, lang=opened.config.lang)
    return _print_report(options, report)


def _forget(options: argparse.Namespace) -> int:
    from copydesk.app.cli.forget import forget

    named, options.member = options.member, None
    if (named is None) == (options.what is None):
        raise UsageError("name a path or an edit, or give --member", _FORGET_HINT)
    with _open(options, looks=True) as opened:
        return forget(opened, options, named)


_FORGET_HINT = "copydesk forget PATH, copydesk forget EDIT, or copydesk forget --member NAME"


def _notes(options: argparse.Namespace) -> int:
    from copydesk.app.cli.notes import run

    with _open(options) as opened:
        return run(opened, options)


def _schema(options: argparse.Namespace) -> int:
    config = _config(options, _root(options))
    chosen = Catalog(all_tools()).of(config.toolsets)
    dump(reference.definitions(chosen, options.dialect, config.lang))
    return 0


def _manual(options: argparse.Namespace) -> int:
    from copydesk.app import manuals

    lang = _config(options, _root(options)).lang
    names = {name: list(manuals.topics(name)) for name in manuals.toolsets()}
    if options.toolset is None:
        rows = [("TOOLSET", "TOPICS"), *((name, " ".join(names[name])) for name in names)]
        if options.json:
            dump(names)
        else:
            out(terminal.table(rows))
        return 0
    hint = "copydesk manual shows what there is."
    toolset, topic = options.toolset, options.topic or "index"
    if toolset not in names and options.topic is None:
        having = [name for name in names if toolset in names[name]]
        if len(having) == 1:  # a page that only one toolset has
            toolset, topic = having[0], toolset
    if toolset not in names:
        raise unknown("manual for", toolset, names, hint)
    if topic in names[toolset]:
        text = manuals.read(toolset, topic, lang)
    else:
        try:
            text = manuals.part(toolset, topic, lang)
        except InvalidArgs:
            known = manuals.names(toolset, lang)
            raise unknown(f"{toolset} topic", topic, known, hint) from None
    if options.json:
        dump({"toolset": toolset, "topic": topic, "text": text})
    else:
        out(text if text.endswith("\n") else f"{text}\n")
    return 0


def _trust(options: argparse.Namespace) -> int:
    """Show the configured commands, and allow them if the person agrees; return the status."""
    root = _root(options)
    config = _config(options, root)
    trust = Trust(root, config.checks)
    if options.revoke:
        trust.take_back()
    elif trust.inside:
        raise UsageError(f"{trust.inside} is in the workspace, where agents may write")
    rows, refused = list[list[str]](), list[str]()
    for rule in (one for one in config.checks if one.command and not options.revoke):
        try:
            covered = " ".join(trust.covered(rule))
        except NotRun as none:
            told = CheckFinding(rule.name, rule.mode, "", none.detail, not_run=none.reason)
            refused.append(check_words(told, config.lang))
        else:
            rows.append([rule.glob, rule.name, shlex.join(rule.command), covered])
    if refused and not rows:
        raise UsageError("\n".join(refused))
    for line in refused:
        print(terminal.line(line), file=sys.stderr)
    if rows and not options.json:
        out(terminal.table([("FILES", "CHECK", "COMMAND", "COVERS"), *rows]))
    given = not rows or trust.is_given() or options.yes or agrees(say("cli.trust_ask", config.lang))
    if given and rows:
        trust.give()
    state = ("given" if given else "open") if rows else "revoked" if options.revoke else "none"
    if options.json:
        dump(
            {
                "status": "ok" if given else "error",
                "state": state,
                "commands": rows,
                "refused": refused,
            }
        )
    else:
        out(terminal.line(say(_TRUST[state], config.lang)) + "\n")
    return 0 if given else 1


_TRUST = {
    "given": "cli.trust_given",
    "open": "cli.trust_open",
    "revoked": "cli.trust_revoked",
    "none": "cli.trust_none",
}


def _doctor(options: argparse.Namespace) -> int:
    from copydesk.app.doctor import examine, repair

    try:
        root: str = default_root() if options.root is None else options.root
    except FileNotFoundError:
        root = ""  # the current folder is gone, which is a finding too
    repaired = repair(root) if options.repair else []
    findings = [*repaired, *examine(root)]
    if options.json:
        dump([finding.data() for finding in findings])
    else:
        coloured = terminal.colours(sys.stdout)
        for finding in findings:
            mark = terminal.strong("ok  " if finding.ok else "BAD ", coloured)
            out(f"{mark} {finding.what}: {terminal.line(finding.found)}\n")
            if finding.mend:
                out(f"     fix: {terminal.line(finding.mend)}\n")
    return 0 if all(finding.ok for finding in findings) else 1


def _demo(options: argparse.Namespace) -> int:
    from copydesk.app.demo import demo, demo_notes

    run_demo = demo_notes if options.story == "notes" else demo
    lang = cast(Lang, options.lang or "en")
    if not options.json:
        return run_demo(keep=options.keep, lang=lang)
    with contextlib.redirect_stdout(sys.stderr):
        status = run_demo(keep=options.keep, lang=lang)
    dump({"status": "error" if status else "ok"})
    return status


def _mcp(options: argparse.Namespace) -> int:
    from copydesk.app.mcp.server import run_stdio

    _refuse_json(options)
    with _open(options, for_agents=True) as opened:
        config = opened.config
        served = config.toolsets, config.lang, config.structured
        run_stdio(opened, config.member, *served, wire=getattr(options, "wire", None))
    return 0


def _prepare_start(words: Sequence[str]) -> None:
    """Make the first start of the server with this command line as quick as the later ones."""
    import anyio

    from copydesk.app.mcp.early import Start
    from copydesk.app.mcp.server import keep_first_answers

    options = parse(words)
    start = Start.of(options.root, vars(options))
    with _open(options, for_agents=True) as opened:
        config = opened.config
        if start is not None:
            anyio.run(
                keep_first_answers,
                start.keep,
                opened,
                config.member,
                config.toolsets,
                config.lang,
                config.structured,
            )


def _serve(options: argparse.Namespace) -> int:
    from copydesk.app.mcp.http import run_http

    _refuse_json(options)
    with _open(options, for_agents=True) as opened:
        run_http(opened, options.host, options.port)
    return 0


def _init(options: argparse.Namespace) -> int:
    from copydesk.app.cli.init import run

    root = _root(options)
    return run(options, root, _config(options, root), _prepare_start)


def _hook(options: argparse.Namespace) -> int:
    from copydesk.app.cli.hook import denied

    with _open(options, for_agents=True) as opened:
        opened.in_shell = False  # an agent reads the answer
        config = opened.config
        dump(denied(opened.call(config.member, *options.call, lang=config.lang)))
    return 0


def _watch(options: argparse.Namespace) -> int:
    from copydesk.app.cli.watch import watch

    with _open(options) as opened:  # creates the state folder, to see the first action, too
        return watch(opened, options.seconds, as_json=options.json)


def _completion(options: argparse.Namespace) -> int:
    from copydesk.app.cli import completion

    if options.shell != "words":
        out(completion.SCRIPTS[options.shell])
        return 0
    words = options.words[1:] if options.words[:1] == ["--"] else options.words
    if "--root" in words[:-2]:
        options.root = words[words.index("--root") + 1]

    def opened() -> OpenWorkspace:
        return _open(options, looks=True)

    for each in completion.candidates(words, opened):
        out(terminal.line(each) + "\n")
    return 0


def _help(options: argparse.Namespace) -> int:
    parser, names = new_parser()
    words: list[str] = options.words
    known = {tool.name for tool in all_tools()}
    if words and words[0] not in names and words[0] in known:
        lang = _config(options, _root(options)).lang
        return _show_tool(_find_tool(words[0]), lang, as_json=options.json)
    if words and words[0] not in names:
        raise unknown("command", words[0], [*names, *known], "copydesk --help shows them.")
    if words[:1] == ["help"] or not words:
        parser.print_help()
        return 0
    parser.parse_args([*words, "--help"])  # prints and exits
    return 0


def _refuse_json(options: argparse.Namespace) -> None:
    if options.json:
        raise UsageError(f"copydesk {options.command} speaks MCP; --json is not for it")


def _find_tool(name: str) -> Tool:
    """A tool by its name; raises UsageError with similar names."""
    known = {tool.name: tool for tool in all_tools()}
    if name not in known:
        raise unknown("tool", name, known, "copydesk call, without a tool, lists them all.")
    return known[name]


def _list_tools(lang: Lang, *, as_json: bool) -> int:
    rows = [(tool.name, tool.toolset, tool.title(lang)) for tool in all_tools()]
    if as_json:
        data = [{"name": name, "toolset": kept, "title": title} for name, kept, title in rows]
        sys.stdout.write(terminal.as_json(data))
    else:
        sys.stdout.write(terminal.table([("TOOL", "TOOLSET", "WHAT"), *rows]))
    return 0


def _show_tool(one: Tool, lang: Lang, *, as_json: bool) -> int:
    """Print a tool's description and arguments; return the exit status."""
    if as_json:
        sys.stdout.write(terminal.as_json(reference.definitions([one], "mcp", lang)[0]))
        return 0
    schema = one.described_schema(lang)
    required = cast("list[str]", schema["required"])
    rows = [
        (
            f"  --{name}",
            _kind_of(form),
            "required" if name in required else _default_of(form),
            str(form.get("description", "")),
        )
        for name, form in cast("Mapping[str, Mapping[str, Any]]", schema["properties"]).items()
    ]
    sys.stdout.write(f"{one.name}: {one.description(lang)}\n\n{terminal.table(rows)}")
    return 0


def _kind_of(form: Mapping[str, Any]) -> str:
    if "enum" in form:
        return "|".join(form["enum"])
    kinds = [part["type"] for part in form.get("anyOf", [form])]
    return f"{'|'.join(kinds)}{', may be repeated' if kinds == ['array'] else ''}"


def _default_of(form: Mapping[str, Any]) -> str:
    default = form.get("default", False if form.get("type") == "boolean" else None)
    if default is None:
        return ""
    return f"default: {str(default).lower() if isinstance(default, bool) else default}"


_COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "init": _init,
    "mcp": _mcp,
    "serve": _serve,
    "hook": _hook,
    "demo": _demo,
    "call": _call,
    "pending": _pending,
    "show": _show,
    "apply": _apply,
    "apply-patch": _apply_patch,
    "diff": _diff,
    "approve": _approve,
    "reject": _reject,
    "review": _review,
    "discard": _discard,
    "recover": _recover,
    "history": _history,
    "approvals": _approvals,
    "undo": _undo,
    "reapply": _reapply,
    "forget": _forget,
    "notes": _notes,
    "schema": _schema,
    "manual": _manual,
    "trust": _trust,
    "doctor": _doctor,
    "watch": _watch,
    "completion": _completion,
    "help": _help,
}
