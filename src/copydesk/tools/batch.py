"""The tools of the batch toolset, and answers about text that is read or written directly."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import TypedDict

from copydesk import errors
from copydesk.desk.desk import Compiled, Rewrite
from copydesk.desk.outcome import Applied, Planned, Reading
from copydesk.edit.kinds.patch import patch_of
from copydesk.edit.kinds.replace import compile_batch, replace_everywhere
from copydesk.edit.request import BatchEdit, Preconditions, Request, StringEdit, Terms
from copydesk.errors import Refusal
from copydesk.text.relpath import RelPath
from copydesk.tools import refusals, reports
from copydesk.tools.arguments import Count
from copydesk.tools.catalog import Context, EditingCall, Tool, ToolCall
from copydesk.tools.diff_model import View, lines_in
from copydesk.tools.messages import say
from copydesk.tools.report import (
    Answer,
    Envelope,
    Fields,
    Lang,
    Length,
    Status,
    cut_diff,
    known,
    named,
    short_lines,
    shown_diff,
)
from copydesk.tools.ws_mod import PrepareEditCall


@contextmanager
def put_off() -> Generator[None]:
    """Pause garbage collection; who paused it resumes it, also while other callers still run."""
    was_on = gc.isenabled()
    if was_on:  # else another caller, or a program, has to say when
        gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


PREVIEW_LINES = 100
PREVIEW_BYTES = 10 << 10
READ_LINES = 500
MANY = 500  # edits: from this number on, garbage collection is paused


def reading(context: Context, call: ToolCall, result: Reading, start: int) -> Answer:
    """The envelope of lines that were read, with LF line ends; `start` is the first (1-based)."""
    truncated = result.cut_by_lines or result.cut_by_characters
    is_open = result.cut_in_line or not (truncated or result.ends_with_newline)
    content = "\n".join(result.lines) + "\n" * (bool(result.lines) and not is_open)
    after, total = start + len(result.lines), result.total_lines or 0
    facts = {
        "path": result.path,
        "lines": len(result.lines),
        "total": total,
        "start": start,
        "next": after,
        "shown": len(result.lines[0]) if result.lines else 0,
    }
    saying = "batch.read_cut" if truncated else "batch.read"
    if result.cut_in_line:
        saying = f"batch.read_cut_{'end' if after > total else 'line'}"
    words = say(saying, context.lang, facts)
    if result.encoding == "unknown":
        words += " " + say("batch.read_bytes", context.lang)
    stats: Fields = {
        **known(total_lines=result.total_lines),
        "lines_read": len(result.lines),
        "file_mtime_ms": result.mtime_ms,
        "file_size_bytes": result.size_bytes,
        **known(file_sha256=result.digest),
    }
    status: Status = "partial" if truncated else "success"
    encoding = {} if result.encoding == "utf-8" else known(encoding=result.encoding)
    return Answer(
        {"content": content, "truncated": truncated, **encoding},
        envelope=Envelope(status, words, call.raw, str(result.path), stats),
    )


def written(
    context: Context,
    call: ToolCall,
    done: Rewrite,
    *,
    bad: bool,
    dry: bool,
    saying: str = "batch.done",
    dry_saying: str = "batch.dry",
) -> Answer:
    """The envelope of a file that was or would be written; `bad`: it has new U+FFFD.

    The warnings are its remarks.
    """
    lang, (added, removed) = context.lang, done.line_counts
    preview, was_cut = _preview(done)
    warnings = reports.warned(bad, done.escapes, lang, done.signs)
    data: Fields = {
        "applied": not dry,
        "replacements_count": done.replacements,
        "no_op_count": done.no_ops,
        "diff_preview": preview,
        "diff_truncated": was_cut,
        "collisions": [],
        **({} if dry else {"edit_id": done.edit_id, "version": done.version}),
        **reports.listed(warnings),
    }
    stats: Fields = {
        "bytes_written": 0 if dry or not done.edit_id else done.size,
        "original_size": len(done.base.data),
        "new_size": done.size,
        "lines_added": added,
        "lines_removed": removed,
    }
    saying = dry_saying if dry else saying if done.edit_id else "apply.nothing"
    facts: dict[str, object] = {"count": done.replacements, "path": done.path}
    if saying == "batch.replaced":
        facts["lines"] = done.after.line_count
    words = (
        say(saying, lang, facts),
        *((say("batch.diff_cut", lang),) if was_cut else ()),
        *(say("batch.warning", lang, {"warning": warning}) for warning in warnings),
    )
    line = ""
    length = getattr(call, "report", "full") or ("full" if dry else "brief")
    if length == "brief":
        as_what = "" if dry else f" · edit {done.edit_id} · version {done.version}"
        line = f"{'dry' if dry else 'ok'} {named(str(done.path))} +{added} -{removed}{as_what}"
    else:
        version = done.base.version if dry else done.version
        view = View(done.path, version, side="old" if dry else "new")
        context.desk.note_shown(
            context.member,
            done.path,
            lambda: view.lines(lines_in(preview.split("\n")), fields=False),
        )
    status: Status = "partial" if dry else "success"
    return Answer(
        data,
        line=line,
        remarks=tuple(warnings),
        envelope=Envelope(status, " ".join(words), call.raw, str(done.path), stats),
    )


def _preview(done: Rewrite) -> tuple[str, bool]:
    """The diff, cut at PREVIEW_LINES or PREVIEW_BYTES, after a whole line if possible."""
    diff = done.diff
    if not done.is_whole_diff and len(done.change.edits) < PREVIEW_LINES:
        diff = done.whole_diff()  # it has long lines, whose start says nothing
    whole = shown_diff(diff, done.base.encoding)[0]
    shown = cut_diff(whole)[0]
    if len(shown) > PREVIEW_BYTES:
        shown = short_lines(shown)
    lines = shown.split("\n", PREVIEW_LINES)
    if len(lines) > PREVIEW_LINES:
        shown = "\n".join([*lines[:PREVIEW_LINES], ""])
    raw = shown.encode()
    if len(raw) > PREVIEW_BYTES:
        lines_end = raw.rfind(b"\n", 0, PREVIEW_BYTES) + 1
        shown = raw[: lines_end or PREVIEW_BYTES].decode("utf-8", "ignore")
    return shown, not done.is_whole_diff or shown != whole


class _ExpectedCall(ToolCall):
    expected_mtime_ms: Count | None = None
    expected_size_bytes: Count | None = None
    expected_sha256: str | None = None

    def expected(self) -> Preconditions:
        """The preconditions on the file."""
        return Preconditions(self.expected_mtime_ms, self.expected_size_bytes, self.expected_sha256)


class _DryRunCall(ToolCall):
    dry_run: bool = False
    report: Length | None = None


class ReadCall(ToolCall):
    """Read lines of a file, with the preconditions for Edit and BatchEdit."""

    path: str
    start_line: Count = 1
    limit: Count = READ_LINES

    def run(self, context: Context, name: str) -> Answer:
        path, start = context.path(self.path), self.start_line
        try:
            lines = context.desk.read(
                context.member, path, f"{start}~", self.limit, context.read_tokens
            )
        except (errors.RangeOutOfBounds, errors.InvalidRange) as refusal:
            count = f"{refusal.total_lines} line{'s' * (refusal.total_lines != 1)}"
            raise errors.InvalidArgs("start_line", f"the file has {count}") from None
        return reading(context, self, lines, start)


class EditCall(_ExpectedCall, _DryRunCall, EditingCall):
    """Make one replacement, or the same one everywhere (from the start, without overlaps)."""

    path: str
    old_string: str
    new_string: str
    replace_all: bool = False

    def run(self, context: Context, name: str) -> Answer:
        path = context.path(self.path)
        edit = StringEdit(self.old_string, self.new_string)
        if edit.old.replace("\r\n", "\n") == edit.new.replace("\r\n", "\n"):
            raise errors.InvalidArgs(
                "new_string", "is the same as old_string, so nothing would change"
            )
        request, dry, expected = BatchEdit(path, (edit,)), self.dry_run, self.expected()
        if self.replace_all:
            done = edited(
                context, name, path, partial(replace_everywhere, edit=edit), expected, dry=dry
            )
        else:
            done = edited_in_batch(context, name, request, expected, dry=dry)
        return written(context, self, done, bad=request.bad_character, dry=dry)


class WriteCall(_ExpectedCall, EditingCall):
    """Write a whole file."""

    path: str
    content: str
    overwrite: bool = False
    report: Length | None = None

    def run(self, context: Context, name: str) -> Answer:
        path = context.path(self.path)
        make = partial(
            context.batches.write,
            *(context.member, name, path, self.content, self.expected()),
            overwrite=self.overwrite,
        )
        done = rewritten(context, name, path, make)
        return written(
            context,
            self,
            done,
            bad=reports.lost(done.after, None if done.created else done.base),
            dry=False,
            saying="batch.created" if done.created else "batch.replaced",
        )


class EditPair(TypedDict):
    """One edit of a batch."""

    old_string: str
    new_string: str


class _BatchCall(_ExpectedCall, _DryRunCall):
    path: str
    edits: tuple[EditPair, ...]

    def request(self, context: Context) -> BatchEdit:
        """The batch; a refusal of an edit names its index."""
        return BatchEdit.of(
            context.path(self.path),
            ((pair["old_string"], pair["new_string"]) for pair in self.edits),
        )


class BatchEditCall(_BatchCall, EditingCall):
    """Make several replacements, all or none."""

    def run(self, context: Context, name: str) -> Answer:
        with put_off() if len(self.edits) >= MANY else nullcontext():
            request, dry = self.request(context), self.dry_run
            done = edited_in_batch(context, name, request, self.expected(), dry=dry)
            return written(context, self, done, bad=request.bad_character, dry=dry)


class PrepareBatchEditCall(_BatchCall, PrepareEditCall):
    """Plan several replacements; a plan is a dry run by itself."""

    def terms(self, context: Context) -> Terms:
        terms = super().terms(context)
        if terms.auto and self.dry_run:
            raise errors.InvalidArgs("apply", "cannot be auto in a dry run")
        return replace(terms, expected=self.expected())


def refuse(name: str, arguments: object, path: str | None, refusal: Refusal, lang: Lang) -> Answer:
    """A refusal of this toolset."""
    return refusals.in_envelope(
        refusal,
        arguments,
        path,
        lang,
        writes=name != "Read",
        voices=(("edit", "batch") if name == "Edit" else ("batch",)),
    )


def batch() -> tuple[Tool, ...]:
    """The catalog's rows of this toolset."""
    tool = partial(Tool, toolset="batch", destroys=True, refuse=refuse)
    return (
        tool("Read", call=ReadCall, reads=True, destroys=False, idempotent=True),
        tool("Edit", call=EditCall),
        tool("Write", call=WriteCall),
        tool("BatchEdit", call=BatchEditCall),
        tool("MultiEdit", call=BatchEditCall),
        tool("prepare_batch_edit", call=PrepareBatchEditCall, refuse=None, voices=("batch",)),
    )


def rewritten(
    context: Context, name: str, path: RelPath, make: Callable[..., Rewrite], *, dry: bool = False
) -> Rewrite:
    """What `make`, which gets `dry`, writes or would; similar names are told of a missing file.

    If a person has to approve it first, the first call creates a plan; the same call on the same
    text applies it. Until it is approved, ApprovalRequired with its id is raised; of a text that
    may not be meant SuspiciousText, until the plan is applied.
    """
    try:
        return make(dry=True) if dry else _once_approved(context, name, make)
    except errors.FileNotFound:
        raise context.desk.missing(context.member, path) from None


def _once_approved(context: Context, name: str, make: Callable[..., Rewrite]) -> Rewrite:
    try:
        return make(dry=False)
    except (errors.ApprovalRequired, errors.SuspiciousText) as refusal:
        rewrite, refused = make(dry=True), refusal
    desk, member = context.desk, context.member
    request = patch_of(rewrite.path, rewrite.base, rewrite.change, created=rewrite.created)
    hunk_id = next(
        (
            plan.id
            for plan in desk.waiting(member, rewrite.path)
            if (plan.owner, plan.tool, plan.request) == (member.name, name, request)
        ),
        None,
    )
    if hunk_id is None:
        planned = plan_of(context, name, request)
        hunk_id = planned.plan.id
        if planned.draft.after.digest != rewrite.after.digest:  # it cannot be expressed as lines
            desk.discard(member, hunk_id)
            raise refused
    if isinstance(refused, errors.SuspiciousText):
        raise errors.SuspiciousText(refused.signs, hunk_id)
    outcome = desk.apply(member, name, hunk_id)
    if isinstance(outcome, Applied):
        return rewrite.written(outcome.edit_id, outcome.draft.after.digest)
    raise outcome.refusal


def edited(
    context: Context,
    name: str,
    path: RelPath,
    compiled: Compiled,
    expected: Preconditions | None = None,
    *,
    dry: bool = False,
) -> Rewrite:
    """What the edits that are `compiled` make of the file; approved and refused as `rewritten`."""
    call = context.member, name, path, compiled, expected or Preconditions()
    return rewritten(context, name, path, partial(context.batches.edit, *call), dry=dry)


def edited_in_batch(
    context: Context, name: str, request: BatchEdit, expected: Preconditions, *, dry: bool
) -> Rewrite:
    """What the batch makes of the file; a refusal of its old texts has the corrected plan."""
    compiled = partial(compile_batch, edits=request.edits)
    try:
        return edited(context, name, request.path, compiled, expected, dry=dry)
    except errors.PartialMatchFail as failure:
        if dry or not request.may_be_corrected(failure):  # its texts would be looked for again
            raise
        raise with_plan(context, name, request, failure, expected) from None


def with_plan(
    context: Context,
    name: str,
    request: BatchEdit,
    failure: errors.PartialMatchFail,
    expected: Preconditions | None = None,
) -> errors.PartialMatchFail:
    """The refusal with the plan of the corrected edit, if that is safe, and no text for another."""
    with suppress(Refusal):
        planned = plan_of(context, name, request, Terms(expected=expected))
        diff = shown_diff(planned.draft.diff, planned.draft.base.encoding)
        runs = planned.draft.place.parts
        return replace(
            failure,
            failures=tuple(
                replace(
                    one,
                    cause=one.cause or ("elision",),
                    nearest_lines=f"{runs[one.index][0] + 1}~{runs[one.index][1]}",
                    difference=None,
                    corrected_old_string=None,
                )
                if one.cause or not one.corrected_old_string
                else one
                for one in failure.failures
            ),
            hunk_id=planned.plan.id,
            corrected_diff=cut_diff(diff[0])[0],
            diff_truncated=diff[1] or None,
        )
    return failure


def plan_of(context: Context, name: str, request: Request, *terms: Terms) -> Planned:
    """The plan of an edit, which is not written at once."""
    planned = context.desk.prepare(context.member, name, request, *terms)
    assert isinstance(planned, Planned), "it was not to be written"
    return planned
