"""The tools of ws_mod that read and write files, as the catalog lists them.

What lives here: schemas and the step from arguments to the desk's sentences.
What must not: what the desk does, words. The mirror toolset is made from these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from copydesk.desk.outcome import Applied, Rejected, Withheld
from copydesk.desk.reading import MOST_LINES
from copydesk.edit.request import Anchor, Append, BlockReplace, Insert, RangeEdit, Request, Terms
from copydesk.errors import ApprovalRequired
from copydesk.tools import approvals, reports
from copydesk.tools.catalog import Context, Tool
from copydesk.tools.history import HISTORY
from copydesk.tools.report import Report
from copydesk.tools.searching import search_tools
from copydesk.tools.wire import (
    Args,
    Property,
    arguments,
    choice,
    flag,
    number,
    number_or_text,
    text,
    texts,
)

APPLY_ALL = "apply_file_modifications"
APPLY = "apply_file_modification"

TERMS: dict[str, Property] = {
    "version": text(),
    "expected_old": text(),
    "apply": choice("never", "auto"),
    "report": choice("full", "brief"),
    "existing_hunk_id": text(),
}
_MATCH = choice("contains", "equals")


def read_file(context: Context, name: str, args: Args) -> Report:
    """Show lines of a file."""
    outcome = context.desk.read(
        context.member,
        context.path(args.text("path")),
        args.text("range"),
        args.number("max_lines", MOST_LINES),
    )
    return reports.reading(name, outcome, context.lang, numbers=args.flag("show_linenos", True))


def create_new_file(context: Context, name: str, args: Args) -> Report:
    """Write a file that does not exist."""
    path = context.path(args.text("path"))
    outcome = context.desk.create(
        context.member, name, path, args.text("content"), may_be_diff=_may_be_diff(args)
    )
    return reports.created(name, outcome, context.lang)


def overwrite_entire_file(context: Context, name: str, args: Args) -> Report:
    """Replace all of a file that the caller knows."""
    known = (args.number("known_old_total_lines", 0), args.number("known_old_total_bytes", 0))
    outcome = context.desk.overwrite(
        context.member,
        name,
        context.path(args.text("path")),
        known,
        args.text("content"),
        may_be_diff=_may_be_diff(args),
    )
    return reports.overwritten(name, outcome, context.lang)


def _may_be_diff(args: Args) -> bool:
    return args.text("content_format") in ("diff", "patch")


def apply_file_modification(context: Context, name: str, args: Args) -> Report:
    """Write a plan."""
    outcome = context.desk.apply(context.member, name, args.text("hunk_id"))
    if isinstance(outcome, Rejected):
        if isinstance(outcome.refusal, ApprovalRequired):
            return approvals.pending(name, outcome.plan, outcome.refusal, context.lang)
        return reports.rejected(name, outcome, context.lang)
    return reports.applied(name, outcome, context.lang)


def apply_file_modifications(context: Context, name: str, args: Args) -> Report:
    """Write several plans, all or none."""
    outcome = context.desk.apply_all(context.member, name, args.texts("hunk_ids"))
    if isinstance(outcome, Withheld):
        return reports.withheld(name, outcome, context.lang)
    return reports.transacted(name, outcome, context.lang, brief=args.text("report") == "brief")


def terms_of(args: Args) -> Terms:
    """On what terms the arguments ask for a plan."""
    return Terms(
        version=args.text_or_none("version"),
        expected_old=args.text_or_none("expected_old"),
        existing_hunk_id=args.text_or_none("existing_hunk_id"),
        auto=args.text("apply") == "auto",
    )


def prepares(
    request: Callable[[Context, Args], Request], terms_of: Callable[[Args], Terms] = terms_of
) -> Callable[..., Report]:
    """The tool that plans what `request` makes of the arguments."""

    def run(context: Context, name: str, args: Args) -> Report:
        terms = terms_of(args)
        brief = args.text("report") == "brief"
        outcome = context.desk.prepare(context.member, name, request(context, args), terms)
        if isinstance(outcome, Applied):
            return reports.applied(context.tool(APPLY), outcome, context.lang, brief=brief)
        return reports.planned(name, outcome, context.lang, brief=brief)

    return run


def _range_edit(context: Context, args: Args) -> Request:
    return RangeEdit(context.path(args.text("path")), args.text("range"), args.text("content"))


def _append(context: Context, args: Args) -> Request:
    path = context.path(args.text("path"))
    return Append(path, args.text("content"), args.flag("create", True))


def _insert_after(context: Context, args: Args) -> Insert:
    return Insert(
        context.path(args.text("path")),
        Anchor(args.text("anchor"), args.match()),
        args.text("content"),
        "after",
        args.occurrence(),
    )


def _insert_before(context: Context, args: Args) -> Insert:
    return replace(_insert_after(context, args), position="before")


def _block_replace(context: Context, args: Args) -> Request:
    return BlockReplace(
        context.path(args.text("path")),
        Anchor(args.text("start_anchor"), args.match(), "start_anchor"),
        Anchor(args.text("end_anchor"), args.match(), "end_anchor"),
        args.text("content"),
        args.occurrence(),
        args.flag("include_anchors", True),
        args.flag("require_unique", True),
        args.flag("strict", True),
    )


_INSERT = arguments(
    {
        "path": text(),
        "anchor": text(),
        "content": text(),
        "occurrence": number_or_text(),
        "match": _MATCH,
        **TERMS,
    },
    "path",
    "anchor",
    "content",
)

EDITING = (
    Tool(
        "read_file",
        "ws_mod",
        arguments(
            {
                "path": text(),
                "range": text(),
                "max_lines": number(default=MOST_LINES),
                "show_linenos": flag(True),
            },
            "path",
        ),
        read_file,
        reads=True,
        idempotent=True,
    ),
    Tool(
        "create_new_file",
        "ws_mod",
        arguments({"path": text(), "content": text(), "content_format": text()}, "path"),
        create_new_file,
    ),
    Tool(
        "overwrite_entire_file",
        "ws_mod",
        arguments(
            {
                "path": text(),
                "known_old_total_lines": number(),
                "known_old_total_bytes": number(),
                "content": text(),
                "content_format": text(),
            },
            "path",
            "known_old_total_lines",
            "known_old_total_bytes",
            "content",
        ),
        overwrite_entire_file,
        destroys=True,
    ),
    Tool(
        "prepare_file_range_edit",
        "ws_mod",
        arguments({"path": text(), "range": text(), "content": text(), **TERMS}, "path", "range"),
        prepares(_range_edit),
        destroys=True,
    ),
    Tool(
        "prepare_file_append",
        "ws_mod",
        arguments(
            {"path": text(), "content": text(), "create": flag(True), **TERMS},
            "path",
            "content",
        ),
        prepares(_append),
    ),
    Tool("prepare_file_insert_after", "ws_mod", _INSERT, prepares(_insert_after)),
    Tool("prepare_file_insert_before", "ws_mod", _INSERT, prepares(_insert_before)),
    Tool(
        "prepare_file_block_replace",
        "ws_mod",
        arguments(
            {
                "path": text(),
                "start_anchor": text(),
                "end_anchor": text(),
                "content": text(),
                "occurrence": number_or_text(),
                "include_anchors": flag(True),
                "match": _MATCH,
                "require_unique": flag(True),
                "strict": flag(True),
                **TERMS,
            },
            "path",
            "start_anchor",
            "end_anchor",
            "content",
        ),
        prepares(_block_replace),
        destroys=True,
    ),
    Tool(
        APPLY,
        "ws_mod",
        arguments({"hunk_id": text()}, "hunk_id"),
        apply_file_modification,
        destroys=True,
        also=("batch", "notes"),
    ),
    Tool(
        APPLY_ALL,
        "ws_mod",
        arguments({"hunk_ids": texts(), "report": choice("full", "brief")}, "hunk_ids"),
        apply_file_modifications,
        destroys=True,
    ),
)


def ws_mod() -> tuple[Tool, ...]:
    """All tools of ws_mod."""
    return (*EDITING, *HISTORY, *search_tools())


def team_mgmt() -> tuple[Tool, ...]:
    """The mirror toolset: the same tools below `.minds/`."""
    return tuple(
        replace(tool, name=f"team_mgmt_{tool.name}", toolset="team_mgmt", also=())
        for tool in ws_mod()
    )
