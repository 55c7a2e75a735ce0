"""What each command does, once the command line is understood.

What lives here: the step from options to the open workspace and to print. What
must not: the grammar of the command line (`cli`), what a tool means.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import cast

from copydesk.app import arguments, failing, helping, history, terminal
from copydesk.app.config import TOOLSETS, Config, load
from copydesk.app.opening import Opened, default_root, open_workspace
from copydesk.app.printing import data_of, dump, is_refused, out, short
from copydesk.app.usage import UsageError, unknown
from copydesk.edit.plan import Plan
from copydesk.errors import Refusal
from copydesk.tools.catalog import Answer, Catalog
from copydesk.tools.messages import say
from copydesk.tools.notes_parts import Kept
from copydesk.tools.report import Lang
from copydesk.tools.ws_mod import APPLY


def run(options: argparse.Namespace) -> int:
    """Run the command; the exit status.

    Raises what `failing` knows: Refusal, UsageError, ConfigError, and the errors
    of the disk. The language that the configuration decides is set in `options`.
    """
    return _COMMANDS[options.command](options)


def _root(options: argparse.Namespace) -> str:
    hint = "Name the workspace with --root or COPYDESK_ROOT."
    try:
        root: str = default_root() if options.root is None else options.root
    except FileNotFoundError:
        raise UsageError("the folder that you are in does not exist any more", hint) from None
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
    return config


def _open(options: argparse.Namespace, *, looks: bool = False) -> Opened:
    """The open workspace. With `looks`, no state folder is made where there is none."""
    root = _root(options)
    config = _config(options, root)
    there = config.registry == "redis" or os.path.isdir(os.path.join(root, config.state))
    shared = there or not looks
    return open_workspace(root, config, shared=shared)


def _call(options: argparse.Namespace) -> int:
    if options.tool is None:
        return helping.tools(_config(options, _root(options)).lang, as_json=options.json)
    tool = helping.find(options.tool)
    words = arguments.read(tool.name, options.arguments, tool.schema)
    _set_own(options, words.own)
    if "help" in words.own:
        return helping.tool(tool, _config(options, _root(options)).lang, as_json=options.json)
    given = words.arguments(sys.stdin)
    counter = terminal.Counter(sys.stderr)
    with _open(options) as opened:
        config = opened.config
        opened.kept = Kept(None)  # nothing is cut: there is no second call to read on in
        report = opened.call(config.member, tool.name, given, lang=config.lang, progress=counter)
    counter.clear()
    if options.json:
        dump(data_of(report))
    elif report.diff:
        out(terminal.diff(report.text, terminal.colours(sys.stdout)))
    else:
        text = terminal.safe(report.text)
        out(text if text.endswith("\n") else f"{text}\n")
    return 1 if is_refused(report) else 0


def _set_own(options: argparse.Namespace, own: arguments.Own) -> None:
    """copydesk's own options that stand after the tool, as if they stood before."""
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
    rows = [("HUNK", "PATH", "ACTION", "MEMBER", "AGE", "EXPIRES IN", "DECISION")]
    rows += [
        (
            plan.id,
            str(plan.request.path),
            plan.action,
            plan.owner,
            terminal.ago(now_ms - plan.created_ms),
            terminal.ago(plan.expires_ms - now_ms),
            verdicts[plan.id] or "-",
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
    }


def _show(options: argparse.Namespace) -> int:
    with _open(options, looks=True) as opened:
        report = opened.pending_report(opened.config.member, options.hunk_id, opened.config.lang)
    if options.json:
        dump(data_of(report))
    else:
        short(report)
        out("\n" + say("cli.next", options.lang, {"id": options.hunk_id}) + "\n")
    return 0


def _apply(options: argparse.Namespace) -> int:
    from copydesk.app.settling import apply_all

    wanted = list(dict.fromkeys(options.hunk_id))
    with _open(options, looks=True) as opened:
        if len(wanted) > 1:
            return apply_all(opened, wanted, opened.config.lang, as_json=options.json)

        def apply(hunk_id: str) -> tuple[dict[str, object], bool]:
            config = opened.config
            report = opened.call(config.member, APPLY, {"hunk_id": hunk_id}, lang=config.lang)
            if not options.json:
                _tell_applied(hunk_id, report, options.lang)
            return data_of(report), not is_refused(report)

        return _each(options, apply)


def _tell_applied(hunk_id: str, report: Answer, lang: Lang) -> None:
    if is_refused(report):
        code, summary = str(report.fields["error"]), str(report.fields["summary"])
        terminal.complain(f"{hunk_id}: {failing.with_next(code, summary, lang)}")
    else:
        short(report)
        out("\n" if report.diff else "")
        sys.stdout.flush()  # what was written is told before the next plan is


def _discard(options: argparse.Namespace) -> int:
    with _open(options, looks=True) as opened:
        member = opened.member(opened.config.member)

        def discard(hunk_id: str) -> tuple[dict[str, object], bool]:
            try:
                plan = opened.desk.discard(member, hunk_id)
            except Refusal as refusal:
                if not options.json:
                    words = failing.refusal_words(refusal, options.lang)
                    terminal.complain(f"{hunk_id}: {words}")
                return failing.refusal_data(refusal, options.lang, hunk_id=hunk_id), False
            summary = say("cli.discarded", options.lang, {"id": plan.id, "path": plan.request.path})
            if not options.json:
                out(terminal.line(summary) + "\n")
            path = str(plan.request.path)
            return {"status": "ok", "hunk_id": plan.id, "path": path, "summary": summary}, True

        return _each(options, discard)


def _approve(options: argparse.Namespace) -> int:
    from copydesk.app.reviewing import approving

    with _open(options, looks=True) as opened:
        return _each(options, approving(opened, options.after, as_json=options.json))


def _reject(options: argparse.Namespace) -> int:
    from copydesk.app.reviewing import rejecting

    with _open(options, looks=True) as opened:
        return _each(options, rejecting(opened, options.reason, as_json=options.json))


def _review(options: argparse.Namespace) -> int:
    from copydesk.app.stepping import review

    if options.json:
        raise UsageError("copydesk review asks a person; --json is not for it")
    with _open(options, looks=True) as opened:
        return review(opened)


def _recover(options: argparse.Namespace) -> int:
    from copydesk.app.settling import recover

    with _open(options, looks=True) as opened:
        return recover(opened, opened.config.lang, as_json=options.json)


def _each(options: argparse.Namespace, act: Callable[[str], tuple[dict[str, object], bool]]) -> int:
    """Act on each plan that is named, once; a refusal of one does not stop the others."""
    done = [act(hunk_id) for hunk_id in dict.fromkeys(options.hunk_id)]
    if options.json:
        found = [data for data, _ in done]
        dump(found if len(options.hunk_id) > 1 else found[0])
    return 0 if all(ok for _, ok in done) else 1


def _history(options: argparse.Namespace) -> int:
    with _open(options, looks=True) as opened:
        edits = opened.history(opened.config.member, options.path, options.most)
    if not edits and options.path and not options.json:
        out(terminal.line(say("cli.none_there", options.lang, {"path": options.path})) + "\n")
        return 0
    return history.history(edits, options.lang, diffs=options.diff, as_json=options.json)


def _undo(options: argparse.Namespace) -> int:
    with _open(options, looks=True) as opened:
        return history.undo(opened, options.edit_id, options.lang, as_json=options.json)


def _notes(options: argparse.Namespace) -> int:
    from copydesk.app.notes_cli import run

    with _open(options) as opened:
        return run(opened, options)


def _schema(options: argparse.Namespace) -> int:
    from copydesk.tools import dialects

    config = _config(options, _root(options))
    chosen = Catalog(helping.catalog()).of(config.toolsets)
    dump(dialects.definitions(chosen, options.dialect, config.lang))
    return 0


def _manual(options: argparse.Namespace) -> int:
    from copydesk.tools import manuals

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
    if toolset not in names:
        raise unknown("manual for", toolset, names, hint)
    if topic not in names[toolset]:
        raise unknown(f"{toolset} topic", topic, names[toolset], hint)
    text = manuals.read(toolset, topic, lang)
    if options.json:
        dump({"toolset": toolset, "topic": topic, "text": text})
    else:
        out(text if text.endswith("\n") else f"{text}\n")
    return 0


def _doctor(options: argparse.Namespace) -> int:
    from copydesk.app.doctor import examine, repair

    try:
        root: str = default_root() if options.root is None else options.root
    except FileNotFoundError:
        root = ""  # the folder that one is in is gone, which is a finding too
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
                out(f"     mend: {terminal.line(finding.mend)}\n")
    return 0 if all(finding.ok for finding in findings) else 1


def _demo(options: argparse.Namespace) -> int:
    if options.story == "notes":
        from copydesk.app.demo_notes import demo_notes as demo
    else:
        from copydesk.app.demo import demo

    lang = cast(Lang, options.lang or "en")
    if not options.json:
        return demo(keep=options.keep, lang=lang)
    with contextlib.redirect_stdout(sys.stderr):
        status = demo(keep=options.keep, lang=lang)
    dump({"status": "error" if status else "ok"})
    return status


def _mcp(options: argparse.Namespace) -> int:
    from copydesk.app.mcp.stdio import run_stdio

    _refuse_json(options)
    with _open(options) as opened:
        config = opened.config
        run_stdio(opened, config.member, config.toolsets, config.lang, not options.no_structured)
    return 0


def _serve(options: argparse.Namespace) -> int:
    from copydesk.app.mcp.http import run_http

    _refuse_json(options)
    with _open(options) as opened:
        run_http(opened, host=options.host, port=options.port, structured=not options.no_structured)
    return 0


def _refuse_json(options: argparse.Namespace) -> None:
    if options.json:
        raise UsageError(f"copydesk {options.command} speaks MCP; --json is not for it")


_COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "mcp": _mcp,
    "serve": _serve,
    "demo": _demo,
    "call": _call,
    "pending": _pending,
    "show": _show,
    "apply": _apply,
    "approve": _approve,
    "reject": _reject,
    "review": _review,
    "discard": _discard,
    "recover": _recover,
    "history": _history,
    "undo": _undo,
    "notes": _notes,
    "schema": _schema,
    "manual": _manual,
    "doctor": _doctor,
}
