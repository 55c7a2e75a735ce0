"""What each command does, once the command line is understood.

What lives here: the step from options to the open workspace and to print. What
must not: the grammar of the command line (`cli`), what a tool means.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import cast

from copydesk.app import arguments, terminal
from copydesk.app.config import TOOLSETS, Config, load
from copydesk.app.opening import Opened, default_root, open_workspace
from copydesk.desk.journal import Entry
from copydesk.edit.plan import Plan
from copydesk.errors import Refusal
from copydesk.text.unified import counts
from copydesk.tools import reports
from copydesk.tools.catalog import reject_unknown
from copydesk.tools.report import Lang, Report


def run(options: argparse.Namespace) -> int:
    """Run the command; the exit status."""
    return _COMMANDS[options.command](options)


def refusal_line(refusal: Refusal, options: argparse.Namespace) -> str:
    """A refusal in one line."""
    lang = cast(Lang, options.lang or "en")
    return f"{refusal.code}: {reports.refusal_words(refusal, lang)}"


def _config(options: argparse.Namespace) -> Config:
    config = load(options.root or default_root())
    if options.member:
        config = replace(config, member=options.member)
    if options.lang:
        config = replace(config, lang=options.lang)
    if getattr(options, "toolsets", None):
        chosen = tuple(part.strip() for part in options.toolsets.split(",") if part.strip())
        for name in chosen:
            if name not in TOOLSETS:
                raise reject_unknown(name, TOOLSETS)
        config = replace(config, toolsets=chosen)
    return config


def _open(options: argparse.Namespace) -> Opened:
    return open_workspace(options.root or default_root(), _config(options))


def _print(report: Report, options: argparse.Namespace) -> int:
    """Print one report; the exit status."""
    if options.json:
        _dump({**report.data, **({"diff": report.diff} if report.diff else {})})
    else:
        coloured = terminal.colours(sys.stdout)
        text = report.text
        sys.stdout.write(terminal.diff(text, coloured) if report.diff else terminal.safe(text))
    return 1 if report.is_error else 0


def _dump(data: object) -> None:
    print(json.dumps(data, ensure_ascii=False, indent=2))


def _call(options: argparse.Namespace) -> int:
    words = arguments.without_options(options)
    with _open(options) as opened:
        known = opened.catalog.tools
        if options.tool not in known:
            raise reject_unknown(options.tool, known)
        given = arguments.parsed(words, known[options.tool].schema, sys.stdin)
        report = opened.call(opened.config.member, options.tool, given, lang=opened.config.lang)
        return _print(report, options)


def _pending(options: argparse.Namespace) -> int:
    with _open(options) as opened:
        plans = opened.pending(opened.config.member)
    if options.json:
        _dump([_plan_data(plan) for plan in plans])
        return 0
    now_ms = time.time_ns() // 1_000_000
    rows = [("HUNK", "PATH", "ACTION", "MEMBER", "AGE", "EXPIRES IN")]
    rows += [
        (
            plan.id,
            terminal.safe(str(plan.request.path)),
            plan.action,
            terminal.safe(plan.owner),
            terminal.ago(now_ms - plan.created_ms),
            terminal.ago(plan.expires_ms - now_ms),
        )
        for plan in plans
    ]
    print(terminal.table(rows) if plans else "No plans wait.\n", end="")
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
    }


def _show(options: argparse.Namespace) -> int:
    with _open(options) as opened:
        report = opened.pending_report(opened.config.member, options.hunk_id, opened.config.lang)
        return _print(report, options)


def _apply(options: argparse.Namespace) -> int:
    status = 0
    with _open(options) as opened:
        for hunk_id in options.hunk_id:
            tool = "apply_file_modification"
            given = {"hunk_id": hunk_id}
            report = opened.call(opened.config.member, tool, given, lang=opened.config.lang)
            status = max(status, _print(report, options))
    return status


def _discard(options: argparse.Namespace) -> int:
    gone: list[str] = []
    with _open(options) as opened:
        member = opened.member(opened.config.member)
        for hunk_id in options.hunk_id:
            gone.append(opened.desk.discard(member, hunk_id).id)
    if options.json:
        _dump({"discarded": gone})
    else:
        print(f"Discarded {', '.join(gone)}.")
    return 0


def _history(options: argparse.Namespace) -> int:
    with _open(options) as opened:
        entries = opened.history(opened.config.member, options.path, max(options.most, 1))
    if options.json:
        _dump([_entry_data(entry) for entry in entries])
        return 0
    if not entries:
        print("Nothing was written yet.")
        return 0
    rows = [("EDIT", "WHEN", "MEMBER", "TOOL", "PATH", "LINES", "STATE")]
    for entry in entries:
        added, removed = counts(entry.diff)
        rows.append(
            (
                str(entry.edit_id),
                terminal.when(entry.time_ms),
                terminal.safe(entry.member),
                entry.tool,
                terminal.safe(str(entry.path)),
                f"+{added} -{removed}",
                entry.state,
            )
        )
    print(terminal.table(rows), end="")
    if options.diff:
        coloured = terminal.colours(sys.stdout)
        for entry in entries:
            print(f"\n{terminal.strong(f'edit {entry.edit_id}', coloured)}")
            text = entry.diff.decode("utf-8", "backslashreplace")
            print(terminal.diff(text, coloured), end="")
    return 0


def _entry_data(entry: Entry) -> dict[str, object]:
    return {
        "edit_id": entry.edit_id,
        "time_ms": entry.time_ms,
        "member": entry.member,
        "tool": entry.tool,
        "path": str(entry.path),
        "kind": entry.kind,
        "state": entry.state,
        "hunk_id": entry.hunk_id,
        "digest_before": entry.before,
        "digest_after": entry.after,
        "diff": entry.diff.decode("utf-8", "backslashreplace"),
    }


def _schema(options: argparse.Namespace) -> int:
    from copydesk.tools import dialects

    config = _config(options)
    with open_workspace(options.root or default_root(), config, shared=False) as opened:
        tools = opened.catalog.of(config.toolsets)
        _dump(dialects.definitions(tools, options.dialect, config.lang))
    return 0


def _manual(options: argparse.Namespace) -> int:
    from copydesk.tools import manuals

    lang = cast(Lang, options.lang or "en")
    if options.toolset is None:
        names = {name: list(manuals.topics(name)) for name in manuals.toolsets()}
        if options.json:
            _dump(names)
        else:
            print(
                terminal.table(
                    [("TOOLSET", "TOPICS")] + [(n, " ".join(t)) for n, t in names.items()]
                ),
                end="",
            )
        return 0
    text = manuals.read(options.toolset, options.topic or "index", lang)
    if options.json:
        _dump({"toolset": options.toolset, "topic": options.topic or "index", "text": text})
    else:
        print(text, end="" if text.endswith("\n") else "\n")
    return 0


def _doctor(options: argparse.Namespace) -> int:
    from copydesk.app.doctor import examine

    findings = examine(options.root or default_root())
    if options.json:
        _dump([finding.data() for finding in findings])
    else:
        coloured = terminal.colours(sys.stdout)
        for finding in findings:
            mark = "ok  " if finding.ok else "BAD "
            print(
                f"{terminal.strong(mark, coloured)} {finding.what}: {terminal.safe(finding.found)}"
            )
            if finding.mend:
                print(f"     mend: {finding.mend}")
    return 0 if all(finding.ok for finding in findings) else 1


def _demo(options: argparse.Namespace) -> int:
    from copydesk.app.demo import demo

    return demo(keep=options.keep, lang=cast(Lang, options.lang or "en"))


def _mcp(options: argparse.Namespace) -> int:
    from copydesk.app.stdio import run_stdio

    with _open(options) as opened:
        config = opened.config
        run_stdio(opened, config.member, config.toolsets, config.lang, not options.no_structured)
    return 0


def _serve(options: argparse.Namespace) -> int:
    from copydesk.app.http import run_http

    with _open(options) as opened:
        run_http(
            opened,
            host=options.host,
            port=options.port,
            structured=not options.no_structured,
        )
    return 0


_COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "mcp": _mcp,
    "serve": _serve,
    "demo": _demo,
    "call": _call,
    "pending": _pending,
    "show": _show,
    "apply": _apply,
    "discard": _discard,
    "history": _history,
    "schema": _schema,
    "manual": _manual,
    "doctor": _doctor,
}
