"""The tools that look around: `list_dir` and the searches.

What lives here: schemas, the step to the desk's searches, and their reports.
What must not: how a search is run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, cast

from copydesk.desk.search import Counts, FoundFiles, Lines, Query, Snippets, Watch
from copydesk.tools.catalog import Context, Tool
from copydesk.tools.messages import say
from copydesk.tools.report import Fields, Report
from copydesk.tools.wire import Args, Property, arguments, choice, flag, number, text, texts

FILES, COUNTS, RESULTS = 50, 200, 50

_WHERE: dict[str, Property] = {
    "path": text(),
    "globs": texts(),
    "case": choice("smart", "sensitive", "insensitive"),
    "fixed_strings": flag(False),
    "include_hidden": flag(False),
    "follow_symlinks": flag(False),
}
_AROUND: dict[str, Property] = {
    "max_results": number(default=RESULTS),
    "context_before": {**number(), "default": 1},
    "context_after": {**number(), "default": 1},
}


def list_dir(context: Context, name: str, args: Args) -> Report:
    """The entries of a directory."""
    path = context.path(args.text("path"), folder=True)
    entries = context.looking.list_dir(context.member, path)
    rows: list[Fields] = []
    for entry in entries:
        row: Fields = {"name": entry.name, "type": entry.kind}
        if entry.size_bytes is not None:
            row["size_bytes"] = entry.size_bytes
        if entry.link_target is not None:
            row["target"] = entry.link_target
        rows.append(row)
    return Report(
        {
            "status": "ok",
            "mode": name,
            "path": str(path),
            "count": len(rows),
            "entries": rows,
            "summary": say("list", context.lang, {"count": len(rows), "path": path}),
        }
    )


def ripgrep_files(context: Context, name: str, args: Args) -> Report:
    """The files with a match."""
    most = args.number("max_files", FILES)
    query = _query(context, args)
    found = context.looking.files(context.member, query, most, _watch(context))
    return _files(context, name, query.pattern, found)


def ripgrep_count(context: Context, name: str, args: Args) -> Report:
    """Matches per file."""
    most = args.number("max_files", COUNTS)
    query = _query(context, args)
    found = context.looking.counts(context.member, query, most, _watch(context))
    return _counts(context, name, query.pattern, found)


def ripgrep_snippets(context: Context, name: str, args: Args) -> Report:
    """Matches with the lines around them."""
    query = _query(context, args)
    found = context.looking.snippets(
        context.member,
        query,
        args.number("max_results", RESULTS),
        args.number("context_before", 1),
        args.number("context_after", 1),
        _watch(context),
    )
    return _snippets(context, name, query.pattern, found)


def ripgrep_fixed(context: Context, name: str, args: Args) -> Report:
    """A search for a text that is no pattern, in one of three modes."""
    tools = {"snippets": ripgrep_snippets, "files": ripgrep_files, "count": ripgrep_count}
    return tools[args.text("mode", "snippets")](context, name, args)


def ripgrep_search(context: Context, name: str, args: Args) -> Report:
    """A search with ripgrep's own options."""
    pattern = args.text("pattern")
    found = context.looking.raw(
        context.member,
        pattern,
        context.path(args.text("path", "."), folder=True),
        args.texts("rg_args"),
        _watch(context),
        context.glob,
    )
    if isinstance(found, FoundFiles):
        return _files(context, name, pattern, found)
    if isinstance(found, Counts):
        return _counts(context, name, pattern, found)
    return _lines(context, name, pattern, found)


def search_tools() -> tuple[Tool, ...]:
    """The catalog's rows of these tools."""
    max_files = {"max_files": number(default=FILES)}
    max_counts = {"max_files": number(default=COUNTS)}
    pattern = {"pattern": text()}
    fixed = {name: form for name, form in _WHERE.items() if name != "fixed_strings"}
    mode = {"mode": choice("snippets", "files", "count")}
    raw: dict[str, Property] = {"path": text(), "rg_args": texts()}
    rows: tuple[tuple[str, Callable[[Context, str, Args], Report], dict[str, Property], str], ...]
    rows = (
        ("list_dir", list_dir, {"path": text()}, "path"),
        ("ripgrep_files", ripgrep_files, {**pattern, **_WHERE, **max_files}, "pattern"),
        ("ripgrep_count", ripgrep_count, {**pattern, **_WHERE, **max_counts}, "pattern"),
        ("ripgrep_snippets", ripgrep_snippets, {**pattern, **_WHERE, **_AROUND}, "pattern"),
        (
            "ripgrep_fixed",
            ripgrep_fixed,
            {"literal": text(), **mode, **fixed, "max_files": number(), **_AROUND},
            "literal",
        ),
        ("ripgrep_search", ripgrep_search, {**pattern, **raw}, "pattern"),
    )
    return tuple(
        Tool(name, "ws_mod", arguments(form, needed), run, reads=True, idempotent=True)
        for name, run, form, needed in rows
    )


def _query(context: Context, args: Args) -> Query:
    literal = args.text_or_none("literal")
    case = cast('Literal["smart", "sensitive", "insensitive"]', args.text("case", "smart"))
    return Query(
        args.text("pattern") if literal is None else literal,
        context.path(args.text("path", "."), folder=True),
        tuple(map(context.glob, args.texts("globs"))),
        case,
        literal is not None or args.flag("fixed_strings", False),
        args.flag("include_hidden", False),
        args.flag("follow_symlinks", False),
        "pattern" if literal is None else "literal",
    )


def _watch(context: Context) -> Watch:
    return Watch(context.progress, context.cancelled)


def _files(context: Context, name: str, pattern: str, found: FoundFiles) -> Report:
    fields: Fields = {"files": list(found.paths)}
    return _report(context, name, pattern, found, fields, len(found.paths), "files")


def _counts(context: Context, name: str, pattern: str, found: Counts) -> Report:
    rows: list[Fields] = [
        {"path": row.path, "lines": row.lines, "matches": row.matches} for row in found.rows
    ]
    fields: Fields = {
        "total_files": found.total_files,
        "total_lines": found.total_lines,
        "total_matches": found.total_matches,
        "counts": rows,
    }
    return _report(context, name, pattern, found, fields, len(rows), "files")


def _snippets(context: Context, name: str, pattern: str, found: Snippets) -> Report:
    rows: list[Fields] = []
    for one in found.results:
        row: Fields = {"path": one.path, "line": one.line}
        if one.column is not None:
            row["column"] = one.column
        row["match"] = one.match
        shown = [(c.line, c.text) for c in one.before]
        shown.append((one.line, one.text))
        shown += [(c.line, c.text) for c in one.after]
        row["snippet"] = [f"{line:>4}| {said}" for line, said in shown]
        if one.cut:
            row["line_cut_from_column"] = one.from_column
        rows.append(row)
    return _report(context, name, pattern, found, {"results": rows}, len(rows), "matches")


def _lines(context: Context, name: str, pattern: str, found: Lines) -> Report:
    rows: list[Fields] = [
        {"path": r.path, "line": r.line, "is_match": r.is_match, "text": r.text} for r in found.rows
    ]
    return _report(context, name, pattern, found, {"lines": rows}, len(rows), "matches")


def _report(
    context: Context,
    name: str,
    pattern: str,
    found: FoundFiles | Counts | Snippets | Lines,
    rows: Fields,
    count: int,
    what: str,
) -> Report:
    fields: Fields = {"status": "ok", "mode": name, "pattern": pattern, "count": count}
    fields |= {"truncated": found.truncated, "timed_out": found.timed_out, **rows}
    if found.warnings:
        fields["warnings"] = [f"{w.path}: {w.kind}: {w.detail}" for w in found.warnings]
    noun = say(f"what.{what}", context.lang)
    saying = "search.cut" if found.truncated else "search"
    fields["summary"] = say(saying, context.lang, {"count": count, "what": noun})
    steps = (say("next.narrow", context.lang),) if found.truncated else ()
    return Report(fields, next_steps=steps)
