"""The tools of the batch toolset: Read, Edit, Write, BatchEdit, MultiEdit, prepare_batch_edit.

What lives here: schemas, the step to the desk. What must not: how a batch is
matched or written, the fields of an answer (`batch_answer`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, cast

from copydesk.desk.batching import Rewrite
from copydesk.desk.collecting import put_off
from copydesk.edit.request import BatchEdit, Expected, StringEdit, Terms
from copydesk.errors import FileNotFound, InvalidArgs, InvalidRange, RangeOutOfBounds, Refusal
from copydesk.tools import envelope, parts, reports
from copydesk.tools.batch_answer import content_of, reading, written
from copydesk.tools.catalog import Answer, Context, Tool
from copydesk.tools.report import Lang
from copydesk.tools.schema import Property, arguments, flag, number, text
from copydesk.tools.wire import Args
from copydesk.tools.ws_mod import TERMS, prepares, terms_of

READ_LINES = 500

MANY = 500
"""So many edits make so many values that their collection is put off."""


def read(context: Context, name: str, args: Args) -> Answer:
    """Lines of a file, with what Edit and BatchEdit take as expectations."""
    path = context.path(args.text("path"))
    start, limit = args.number("start_line", 1) or 1, args.number("limit", READ_LINES)
    try:
        found = context.desk.read(context.member, path, f"{start}~", limit or READ_LINES)
    except (RangeOutOfBounds, InvalidRange) as refusal:
        lines = "1 line" if refusal.total_lines == 1 else f"{refusal.total_lines} lines"
        raise InvalidArgs("start_line", f"the file has {lines}") from None
    return reading(context, args, found, content_of(found), start=start)


def batch_edit(context: Context, name: str, args: Args) -> Answer:
    """Several replacements, all or none."""
    many = len(cast("list[object]", args.given["edits"])) >= MANY
    with put_off() if many else nullcontext():
        request = _request(context, args)
        dry = args.flag("dry_run", False)
        done = made(context, name, request, args, dry=dry)
        return written(context, args, done, bad=request.bad_character, dry=dry)


def edit(context: Context, name: str, args: Args) -> Answer:
    """One replacement, or the same one everywhere (from the start, none overlapping)."""
    path = context.path(args.text("path"))
    one = StringEdit(args.text("old_string"), args.text("new_string"))
    if one.old.replace("\r\n", "\n") == one.new.replace("\r\n", "\n"):
        raise InvalidArgs("new_string", "is the same as old_string, so nothing would change")
    dry = args.flag("dry_run", False)
    everywhere = one if args.flag("replace_all", False) else None
    request = BatchEdit(path, (one,))
    done = made(context, name, request, args, dry=dry, everywhere=everywhere)
    return written(context, args, done, bad=request.bad_character, dry=dry)


def write(context: Context, name: str, args: Args) -> Answer:
    """A whole file."""
    path, content = context.path(args.text("path")), args.text("content")
    overwrite = args.flag("overwrite", False)
    try:
        done = context.batches.write(
            context.member, name, path, content, _expected(args), overwrite=overwrite
        )
    except FileNotFound:
        raise context.desk.missing(context.member, path) from None
    bad = parts.lost(done.after, None if done.created else done.base)
    saying = "batch.created" if done.created else "batch.replaced"
    return written(context, args, done, bad=bad, dry=False, saying=saying)


def refuse(name: str, arguments: object, path: str | None, refusal: Refusal, lang: Lang) -> Answer:
    """A refusal of this toolset."""
    voices = ("edit", "batch") if name == "Edit" else ("batch",)
    return envelope.refused(refusal, arguments, path, lang, writes=name != "Read", voices=voices)


def refuse_plan(
    name: str, arguments: object, path: str | None, refusal: Refusal, lang: Lang
) -> Answer:
    """A refusal of the one tool of this toolset that answers with a report."""
    return reports.refused(name, path, refusal, lang, ("batch",))


def batch() -> tuple[Tool, ...]:
    """The catalog's rows of this toolset."""
    expected: dict[str, Property] = {
        "expected_mtime_ms": number(),
        "expected_size_bytes": number(),
        "expected_sha256": text(),
    }
    strings: dict[str, Property] = {"old_string": text(), "new_string": text()}
    pair = arguments(strings, "old_string", "new_string")
    edits: dict[str, Property] = {
        "path": text(),
        "edits": {"type": "array", "minItems": 1, "items": pair},
    }
    dry = {"dry_run": flag(False)}
    several = arguments({**edits, **expected, **dry}, "path", "edits")
    prepared = arguments({**edits, **expected, **dry, **TERMS}, "path", "edits")
    rows: tuple[tuple[str, dict[str, Any], Callable[[Context, str, Args], Answer]], ...] = (
        (
            "Read",
            arguments(
                {"path": text(), "start_line": number(default=1), "limit": number(default=500)},
                "path",
            ),
            read,
        ),
        (
            "Edit",
            arguments(
                {"path": text(), **strings, "replace_all": flag(False), **expected, **dry},
                "path",
                "old_string",
                "new_string",
            ),
            edit,
        ),
        (
            "Write",
            arguments(
                {"path": text(), "content": text(), "overwrite": flag(False), **expected},
                "path",
                "content",
            ),
            write,
        ),
        ("BatchEdit", several, batch_edit),
        ("MultiEdit", several, batch_edit),
    )
    tools = [
        Tool(
            name,
            "batch",
            schema,
            run,
            reads=name == "Read",
            destroys=name != "Read",
            idempotent=name == "Read",
            refuse=refuse,
        )
        for name, schema, run in rows
    ]
    run = prepares(_request, _terms)
    plan = Tool("prepare_batch_edit", "batch", prepared, run, destroys=True, refuse=refuse_plan)
    return (*tools, plan)


def _request(context: Context, args: Args) -> BatchEdit:
    """The batch, each edit checked with its index named."""
    given = cast("list[dict[str, str]]", args.given["edits"])
    pairs = ((one["old_string"], one["new_string"]) for one in given)
    return BatchEdit.of(context.path(args.text("path")), pairs)


def _terms(args: Args) -> Terms:
    """On what terms a batch is planned; a plan is a dry run by itself."""
    terms = terms_of(args)
    if terms.auto and args.flag("dry_run", False):
        raise InvalidArgs("apply", "cannot be auto in a dry run")
    return replace(terms, expected=_expected(args))


def made(
    context: Context,
    name: str,
    request: BatchEdit,
    args: Args,
    *,
    dry: bool,
    everywhere: StringEdit | None = None,
) -> Rewrite:
    """What the desk makes of it; a missing file is refused with the names close to its own."""
    batches, member, expected = context.batches, context.member, _expected(args)
    try:
        if everywhere is None:
            return batches.edit(member, name, request, expected, dry=dry)
        return batches.replace_all(member, name, request.path, everywhere, expected, dry=dry)
    except FileNotFound:
        raise context.desk.missing(member, request.path) from None


def _expected(args: Args) -> Expected:
    def number_of(name: str) -> int | None:
        return args.number(name, 0) if name in args.given else None

    return Expected(
        number_of("expected_mtime_ms"),
        number_of("expected_size_bytes"),
        args.text_or_none("expected_sha256"),
    )
