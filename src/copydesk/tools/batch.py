"""The tools of the batch toolset: Read, Edit, Write, BatchEdit, MultiEdit, prepare_batch_edit.

What lives here: schemas, the step to the desk, the fields of their envelopes.
What must not: how a batch is matched or written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from copydesk.desk.batching import Expected, Rewrite
from copydesk.edit.request import BatchEdit, StringEdit
from copydesk.errors import FileNotFound, InvalidArgs, RangeOutOfBounds, Refusal
from copydesk.text.unified import counts
from copydesk.tools import envelope
from copydesk.tools.catalog import Answer, Context, Tool
from copydesk.tools.envelope import Envelope, Status
from copydesk.tools.report import Fields, shown_diff
from copydesk.tools.schema import Property, arguments, flag, number, text
from copydesk.tools.wire import Args
from copydesk.tools.words import say
from copydesk.tools.ws_mod import TERMS, prepares

READ_LINES = 500
PREVIEW_LINES = 100
PREVIEW_BYTES = 10 << 10


def read(context: Context, name: str, args: Args) -> Answer:
    """Lines of a file, with what Edit and BatchEdit take as expectations."""
    path = context.path(args.text("path"))
    start, limit = args.number("start_line", 1) or 1, args.number("limit", READ_LINES)
    try:
        found = context.desk.read(context.member, path, f"{start}~", limit or READ_LINES)
    except RangeOutOfBounds as refusal:
        if refusal.total_lines or start > 1:
            reason = f"the file has {refusal.total_lines} line(s)"
            raise InvalidArgs("start_line", reason) from None
        raise
    truncated = found.cut_by_lines or found.cut_by_characters
    content = "".join(f"{line}\n" for line in found.lines)
    if found.lines and not truncated and not found.ends_with_newline:
        content = content[:-1]
    facts = {"path": path, "lines": len(found.lines), "total": found.total_lines}
    words = say("batch.read_cut" if truncated else "batch.read", context.lang, facts)
    stats: Fields = {
        "total_lines": found.total_lines,
        "lines_read": len(found.lines),
        "file_mtime_ms": found.mtime_ms,
        "file_size_bytes": found.size_bytes,
        "file_sha256": found.digest,
    }
    data: Fields = {"content": content, "truncated": truncated}
    status: Status = "partial" if truncated else "success"
    return Envelope(status, data, words, stats, envelope.context_of(args.given, str(path)))


def batch_edit(context: Context, name: str, args: Args) -> Answer:
    """Several replacements, all or none."""
    request = _request(context, args)
    dry = args.flag("dry_run", False)
    done = _made(context, name, request, args, dry=dry)
    return _written(context, args, done, dry=dry)


def edit(context: Context, name: str, args: Args) -> Answer:
    """One replacement, or the same one everywhere (from the start, none overlapping)."""
    path = context.path(args.text("path"))
    one = StringEdit(args.text("old_string"), args.text("new_string"))
    if one.old.replace("\r\n", "\n") == one.new.replace("\r\n", "\n"):
        raise InvalidArgs("new_string", "is the same as old_string, so nothing would change")
    dry = args.flag("dry_run", False)
    everywhere = one if args.flag("replace_all", False) else None
    done = _made(context, name, BatchEdit(path, (one,)), args, dry=dry, everywhere=everywhere)
    return _written(context, args, done, dry=dry)


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
    return _written(context, args, done, dry=False)


def refuse(name: str, arguments: object, path: str | None, refusal: Refusal, lang: Any) -> Answer:
    """A refusal of this toolset."""
    return envelope.refused(refusal, arguments, path, lang, writes=name != "Read")


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
    prepared = arguments({**edits, **TERMS}, "path", "edits")
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
    plan = Tool("prepare_batch_edit", "batch", prepared, prepares(_request), destroys=True)
    return (*tools, plan)


def _request(context: Context, args: Args) -> BatchEdit:
    """The batch, each edit checked with its index named."""
    given = cast("list[dict[str, str]]", args.given["edits"])
    made: list[StringEdit] = []
    for index, one in enumerate(given):
        if not one["old_string"]:
            raise InvalidArgs(f"edits[{index}].old_string", "must not be empty")
        made.append(StringEdit(one["old_string"], one["new_string"]))
    return BatchEdit(context.path(args.text("path")), tuple(made))


def _made(
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


def _written(context: Context, args: Args, done: Rewrite, *, dry: bool) -> Answer:
    """The envelope of a file that was written, or would be."""
    preview, was_cut = _preview(done)
    added, removed = counts(done.diff)
    data: Fields = {
        "applied": not dry,
        "replacements_count": done.replacements,
        "no_op_count": done.no_ops,
        "diff_preview": preview,
        "diff_truncated": was_cut,
        "collisions": [],
    }
    if not dry:
        data |= {"edit_id": done.edit_id, "version": done.after.version}
    size = len(done.after.data)
    stats: Fields = {
        "bytes_written": 0 if dry or not done.edit_id else size,
        "original_size": len(done.base.data),
        "new_size": size,
        "lines_added": added,
        "lines_removed": removed,
    }
    saying = "batch.dry" if dry else "batch.created" if done.created else "batch.done"
    words = say(saying, context.lang, {"count": done.replacements, "path": done.path})
    if not dry and not done.edit_id:
        words = say("apply.nothing", context.lang, {"path": done.path})
    where = envelope.context_of(args.given, str(done.path))
    return Envelope("partial" if dry else "success", data, words, stats, where)


def _preview(done: Rewrite) -> tuple[str, bool]:
    """The diff, cut at so many lines or bytes, after a whole line if there is one."""
    whole, was_cut = shown_diff(done.diff, done.base.encoding)
    lines = whole.split("\n", PREVIEW_LINES)
    if len(lines) > PREVIEW_LINES and lines[-1]:
        lines, was_cut = [*lines[:PREVIEW_LINES], ""], True
    shown = "\n".join(lines)
    raw = shown.encode()
    if len(raw) > PREVIEW_BYTES:
        raw, was_cut = raw[:PREVIEW_BYTES], True
        shown = raw[: raw.rfind(b"\n") + 1 or None].decode("utf-8", "ignore")
    return shown, was_cut
