"""The tools of ws_mod: read and edit files, plans, history, manual; and their mirror toolset."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal, TypedDict

from copydesk.desk.changes import FileChanges, Selection, UndoneChanges
from copydesk.desk.history import Past
from copydesk.desk.outcome import (
    Applied,
    Created,
    NotUndone,
    Overwritten,
    Planned,
    Rejected,
    Withheld,
)
from copydesk.edit.draft import Plan, cut
from copydesk.edit.kinds.lines import lines_wanted, resolve_range
from copydesk.edit.kinds.replace import NO_OLD
from copydesk.edit.request import (
    Anchor,
    Append,
    BlockReplace,
    DeleteFile,
    Insert,
    Match,
    MoveFile,
    Occurrence,
    RangeEdit,
    RangeEdits,
    ReplaceText,
    Request,
    StringEdit,
    Terms,
)
from copydesk.errors import (
    ApprovalRequired,
    BinaryFile,
    EditNotFound,
    FileExists,
    InvalidArgs,
    NotAFile,
    PartialMatchFail,
    RangeOutOfBounds,
    SuspiciousText,
)
from copydesk.search.listings import DirEntry
from copydesk.search.options import Query
from copydesk.search.ripgrep import search_files
from copydesk.text.diff import diff_text
from copydesk.text.encoding import encoding_of_diff
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import VERSION_LENGTH
from copydesk.tools import reports
from copydesk.tools.arguments import Count
from copydesk.tools.catalog import EDIT, Context, CorrectingCall, EditingCall, Tool, ToolCall
from copydesk.tools.diff_model import View, lines_in
from copydesk.tools.messages import say
from copydesk.tools.patch import planned_or_written
from copydesk.tools.report import (
    Answer,
    Fields,
    Length,
    fitting,
    known,
    listing,
    named,
)

UNDO = "undo_file_modification"
RESULTS = 50
ENTRIES = 1_000  # the most entries of a directory that a text lists
_WHY = 120  # characters of the reason for an edit in a row of a list


class UndoCall(EditingCall):
    """Undo an edit, or make it again; without an id, list the edits."""

    edit_id: Count = 0
    transaction: bool = False
    again: bool = False
    task: str = ""
    report: Length | None = None

    def run(self, context: Context, name: str) -> Answer:
        if self.task:
            undone = context.desk.changes.undo(
                context.member, Selection(task=self.task), reason=self.why
            )
            if undone == UndoneChanges():
                raise InvalidArgs("task", "has no open changes")
            return reports.changes_undone(name, undone, context.lang)
        if not self.edit_id:
            return ListEditsCall({}, {}).run(context, name)
        edit_id = self.edit_id
        if self.again and not (edit_id := context.desk.history.undone_by(context.member, edit_id)):
            return self._made_again(context, name)
        outcome = context.desk.undo_together(
            context.member, name, edit_id, is_whole=self.transaction
        )
        if isinstance(outcome, NotUndone):
            return reports.not_undone(name, outcome, context.lang)
        if len(outcome) == 1 and not self.transaction:
            again = self.edit_id if self.again else 0
            return reports.undone(name, outcome[0], context.lang, self.report, again=again)
        return reports.undone_together(
            name,
            outcome,
            context.lang,
            self.report,
            redone=context.desk.history.undone if self.again else None,
        )

    def _made_again(self, context: Context, name: str) -> Answer:
        """Make, or plan, an edit again that another program has overwritten."""
        auto = context.apply == "auto"
        outcome = context.desk.reapply(context.member, name, self.edit_id, auto=auto)
        if outcome is None:
            return reports.stands(name, self.edit_id, context.lang)
        return _made(context, name, outcome, self.report)


def _made(context: Context, name: str, outcome: Planned | Applied, length: Length | None) -> Answer:
    """The answer about an edit that is planned, or was made at once."""
    if isinstance(outcome, Planned):
        return reports.planned(name, outcome, context.lang, length)
    return reports.applied(context.tool(APPLY), outcome, context.lang, length)


class ListEditsCall(ToolCall):
    """List past edits, newest first."""

    path: str = ""
    member: str = ""
    task: str = ""
    max_results: Count = RESULTS
    before_edit_id: Count = 0

    def run(self, context: Context, name: str) -> Answer:
        path = context.path(self.path, folder=True) if self.path else None
        if self.task:
            what = Selection(self.task, self.member, path=path)
            return self._changes(context, name, context.desk.changes.view(context.member, what))
        page = context.desk.history.page(
            context.member,
            path,
            self.member or None,
            self.max_results,
            self.before_edit_id or None,
        )
        count, lang = len(page.edits), context.lang
        shown, edits = context.rows(map(_past_row, page.edits), [*map(past_fields, page.edits)])
        go_on = page.go_on if len(shown) == count else page.edits[len(shown) - 1].edit_id
        given = {
            name: getattr(self, name)
            for name in ("path", "member", "max_results")
            if self.raw.get(name)
        }
        call = json.dumps({**given, "before_edit_id": go_on}, ensure_ascii=False)
        older = say("next.older", lang, {"tool": context.tool("list_edits"), "call": call})
        lost = [f"{first}~{last}" if first < last else f"{first}" for first, last in page.lost]
        fields: Fields = {
            "status": "ok",
            "mode": name,
            "count": count,
            "edits": edits,
            "more": page.go_on != 0,
            "summary": say("edits" if count else "edits.none", lang, {"count": count}),
            **({"lost_edits": [*lost]} if lost else {}),
        }
        remarks = (say("edits.lost", lang, {"ids": ", ".join(lost)}),) if lost else ()
        return listing(
            fields,
            shown,
            remarks=remarks,
            next_steps=(older,) if go_on and not context.only_edit else (),
        )

    def _changes(self, context: Context, name: str, files: Sequence[FileChanges]) -> Answer:
        """What the task changed in net, file by file."""
        rows = [reports.file_changes(file) for file in files]
        texts = (
            f"{row['path']} +{row['added']} -{row['removed']} · {row['action']}" for row in rows
        )
        shown, told = context.rows(texts, rows)
        fields: Fields = {
            "status": "ok",
            "mode": name,
            "count": len(rows),
            "list_changes": told,
            "summary": say("changes", context.lang, {"count": len(rows), "task": self.task}),
        }
        return listing(fields, shown)


class ListPendingCall(ToolCall):
    """List pending plans, oldest first."""

    path: str = ""
    max_results: Count = RESULTS

    def run(self, context: Context, name: str) -> Answer:
        path = context.path(self.path, folder=True) if self.path else None
        plans = context.desk.waiting(context.member, path)
        rows = [_plan_fields(context, plan) for plan in plans[: self.max_results]]
        shown, hunks = context.rows(map(_plan_row, rows), rows)
        left_out = len(plans) - len(shown)
        fields: Fields = {
            "status": "ok",
            "mode": name,
            "count": len(rows),
            "total": len(plans),
            "hunks": hunks,
            "summary": say(
                "pending" if rows else "pending.none", context.lang, {"count": len(plans)}
            ),
        }
        more = say(
            "next.more_pending",
            context.lang,
            {"count": left_out, "tool": context.tool("list_pending")},
        )
        return listing(
            fields, shown, next_steps=(more,) if left_out and not context.only_edit else ()
        )


class DiscardCall(ToolCall):
    """Discard a plan."""

    hunk_id: str

    def run(self, context: Context, name: str) -> Answer:
        plan = context.desk.discard(context.member, self.hunk_id, name)
        path = str(plan.request.path)
        return Answer(
            {
                "status": "ok",
                "mode": name,
                "path": path,
                "hunk_id": plan.id,
                "action": plan.action,
                "summary": say("discarded", context.lang, {"id": plan.id, "path": path}),
            }
        )


class ShowHunkCall(ToolCall):
    """Show lines of the diff of a plan or of an edit."""

    hunk_id: str = ""
    edit_id: Count = 0
    range: str = ""

    def run(self, context: Context, name: str) -> Answer:
        if bool(self.hunk_id) == bool(self.edit_id):
            raise InvalidArgs("hunk_id", "give exactly one of this and edit_id")
        asked: Fields = {"hunk_id": self.hunk_id} if self.hunk_id else {"edit_id": self.edit_id}
        path, diff, views = self._diff(context)
        lines = diff.removesuffix("\n").split("\n") if diff else []
        start, stop = resolve_range(self.range or "~", len(lines))
        steps: tuple[str, ...] = ()
        room = context.budget - reports.HEAD_TOKENS
        if context.budget and (most := max(fitting(lines[start:stop], room), 1)) < stop - start:
            stop = start + most
            call = json.dumps({**asked, "range": f"{stop + 1}~"})
            steps = (say("next.read_on", context.lang, {"tool": name, "call": call}),)
        shown = lines_in(lines, range(start, stop))
        for view in views:
            context.desk.note_shown(context.member, path, view.lines(shown, fields=False))
        facts = {"where": f"{start + 1}~{stop}", "total": len(lines), "path": named(str(path))}
        text = "".join(f"{line}\n" for line in lines[start:stop])
        return Answer(
            {
                "status": "ok",
                "mode": name,
                "path": str(path),
                **asked,
                "total_lines": len(lines),
                "shown_lines": {"start": start + 1, "end": stop, "count": stop - start},
            },
            body=text,
            language="diff",
            next_steps=steps,
            line=say("show_hunk.lines", context.lang, facts),
            content={"content": text},
        )

    def _diff(self, context: Context) -> tuple[RelPath, str, list[View]]:
        """The path and the diff of the plan or the edit, and the versions that it shows."""
        if self.hunk_id:
            shown = context.desk.show(context.member, self.hunk_id)
            path, base = shown.plan.request.path, shown.draft.base
            text = diff_text(shown.draft.diff, base.encoding)
            return path, text, [View(path, base.version, side="old")]
        entry = context.desk.history.entry(context.member, self.edit_id)
        if entry.forgotten:
            raise EditNotFound(self.edit_id, "forgotten")
        before, after = (digest[:VERSION_LENGTH] for digest in (entry.before, entry.after))
        views = [View(entry.path, before, side="old"), View(entry.path, after, side="new")]
        return entry.path, diff_text(entry.diff, encoding_of_diff(entry.diff, None)), views


def past_fields(edit: Past) -> Fields:
    """The fields of one past edit, the same for every interface."""
    added, removed = edit.lines
    people = {} if edit.approval is None else edit.approval.people
    return {
        "edit_id": edit.edit_id,
        "time": when(edit.time_ms),
        "time_ms": edit.time_ms,
        "member": edit.member,
        "tool": edit.tool,
        "path": str(edit.path),
        "kind": edit.kind,
        "hunk_id": edit.hunk_id,
        "lines": {"added": added, "removed": removed},
        "state": edit.state,
        "undoes": edit.undoes,
        "undone_by": edit.undone_by,
        "why": edit.why,
        **{name: who for name, who in people.items() if who},
        **_moved(edit),
        **({"forgotten": True} if edit.forgotten else {}),
    }


def _moved(edit: Past) -> Fields:
    moved = edit.moved
    return {"moved_to" if moved.is_source else "moved_from": str(moved.other)} if moved else {}


def when(time_ms: int) -> str:
    """A time in milliseconds since 1970 as ISO 8601, UTC."""
    seconds, rest = divmod(time_ms, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:03}Z"


def _plan_fields(context: Context, plan: Plan) -> dict[str, Any]:
    """The fields of a pending plan, and a person's decision on it if that still holds."""
    new, old = plan.request.lines_at(plan.place)
    if plan.blocks is not None:
        old, new = plan.blocks.lines_removed, plan.blocks.lines_added
    decision = context.desk.review.decision(plan)
    return {
        "hunk_id": plan.id,
        "owner": plan.owner,
        "mine": plan.owner == context.member.name,
        "tool": plan.tool,
        "path": str(plan.request.path),
        "action": plan.action,
        "expires_at_ms": plan.expires_ms,
        "lines": {"old": old, "new": new},
        "why": plan.why,
        **({"decision": decision.verdict, "decided_by": decision.by} if decision else {}),
    }


def _past_row(edit: Past) -> str:
    """An edit in one line: its id first, anything unusual at the end."""
    added, removed = edit.lines
    return " · ".join(
        (
            f"{edit.edit_id} {named(str(edit.path))} +{added} -{removed}",
            *([] if edit.kind == "edit" or edit.moved else [edit.kind]),
            *(f"{key.replace('_', ' ')} {named(str(path))}" for key, path in _moved(edit).items()),
            edit.member,
            _second(edit.time_ms),
            *([] if edit.state == "done" else [edit.state]),
            *(["text forgotten"] if edit.forgotten else []),
            *([f"undoes {edit.undoes}"] if edit.undoes else []),
            *([f"undone by {edit.undone_by}"] if edit.undone_by else []),
            *_because(edit.why),
        )
    )


def _plan_row(row: Mapping[str, Any]) -> str:
    """A plan in one line, its id first."""
    counts = "+{new} -{old}".format(**row["lines"])
    return " · ".join(
        (
            f"{row['hunk_id']} {named(row['path'])} {row['action']} {counts}",
            row["owner"],
            f"until {_second(row['expires_at_ms'])}",
            *([f"{row['decision']} by {row['decided_by']}"] if "decision" in row else []),
            *_because(row["why"]),
        )
    )


def _because(why: str) -> list[str]:
    return [f"why: {named(cut(why, _WHY))}"] if why else []


def _second(time_ms: int) -> str:
    return f"{when(time_ms)[:19]}Z"


class ListDirCall(ToolCall):
    """List the entries of a directory."""

    path: str

    def run(self, context: Context, name: str) -> Answer:
        return entries_of(context, name, context.path(self.path, folder=True))


def entries_of(
    context: Context, name: str, path: RelPath, range_text: str = "", most: int = 0
) -> Answer:
    """The entries of a directory, or those of a range (from 1), ENTRIES at most."""
    lang = context.lang
    entries = context.looking.list_dir(context.member, path)
    count = len(entries)
    try:
        start, stop, _ = lines_wanted(range_text, count)
    except RangeOutOfBounds:
        raise InvalidArgs("range", f"begins after the {count} entries") from None
    asked = entries[start : min(stop, start + (most or ENTRIES))]
    texts = [_entry_row(entry) for entry in asked]
    rows = [
        known(name=e.name, type=e.kind, size_bytes=e.size_bytes, target=e.link_target)
        for e in entries[start:stop]
    ]
    shown, told = context.rows(texts, rows)
    if len(shown) < len(asked):  # more of them fit without their sizes
        shown, told = context.rows((text.partition("\t")[0] for text in texts), rows)
    end = start + len(shown)
    call = json.dumps({"path": str(path), "range": f"{end + 1}~"}, ensure_ascii=False)
    rest = {"count": stop - end, "tool": context.tool("read_file"), "call": call}
    fields: Fields = {
        "status": "ok",
        "mode": name,
        "path": str(path),
        "count": count,
        "entries": told,
        "summary": say("list", lang, {"count": count, "path": path}),
    }
    return listing(
        fields,
        shown,
        say("list.line", lang, {"path": named(str(path)), "count": count}),
        next_steps=(say("next.list_rest", lang, rest),) if end < stop else (),
    )


def _entry_row(entry: DirEntry) -> str:
    """One entry as `ls -F` prints it, with the size of a file after a tab."""
    name = named(entry.name)
    if entry.kind == "symlink":
        return name if entry.link_target is None else f"{name} -> {named(entry.link_target)}"
    if entry.kind == "dir":
        return f"{name}/"
    return f"{name}\t{entry.kind if entry.size_bytes is None else entry.size_bytes}"


HISTORY = (
    Tool(UNDO, "ws_mod", UndoCall, destroys=True, also=("notes", "compat", "patch", EDIT)),
    Tool(
        "list_edits", "ws_mod", ListEditsCall, reads=True, idempotent=True, also=("notes", "patch")
    ),
    Tool("list_pending", "ws_mod", ListPendingCall, reads=True, idempotent=True, also=("notes",)),
    Tool(
        "show_hunk",
        "ws_mod",
        ShowHunkCall,
        reads=True,
        idempotent=True,
        also=("batch", "notes", "patch"),
    ),
    Tool("discard_hunk", "ws_mod", DiscardCall, destroys=True, idempotent=True, also=("notes",)),
)
"""The rows of the catalog that the mirror toolset has too."""

LISTING = Tool("list_dir", "ws_mod", ListDirCall, reads=True, idempotent=True)


APPLY_ALL = "apply_file_modifications"
APPLY = "apply_file_modification"
MOST_FILES = 200  # files in which one call replaces a text, at most
LONGER = "more lines than may be written without being shown first"


class ReadFileCall(ToolCall):
    """Show lines of a file, or the entries of a directory."""

    path: str
    range: str = ""
    max_lines: Count = 0
    show_linenos: bool = True

    def run(self, context: Context, name: str) -> Answer:
        path = context.path(self.path, folder=True)
        try:
            outcome = context.desk.read(
                context.member, path, self.range, self.max_lines, context.read_tokens
            )
        except NotAFile as refusal:
            if refusal.kind != "directory":
                raise
            return entries_of(context, name, path, self.range, self.max_lines)
        return reports.reading(name, outcome, context.lang, numbers=self.show_linenos)


class _WholeFileCall(EditingCall):
    """Write a file as a whole; it is planned instead if its text may not be meant."""

    content_format: str = ""
    report: Length | None = None

    @abstractmethod
    def write(self, context: Context, name: str) -> Created | Overwritten:
        """Write the file at once."""

    def run(self, context: Context, name: str) -> Answer:
        try:
            return reports.rewritten(name, self.write(context, name), context.lang, self.report)
        except SuspiciousText as doubted:
            shown = context.desk.show(context.member, doubted.hunk_id or "")
            planned = replace(shown, declined=doubted.signs[0], signs=doubted.signs)
        answer = reports.planned(name, planned, context.lang, self.report)
        return replace(
            answer, source={**answer.facts, "changed": False}, next_steps=answer.next_steps[:1]
        )

    @property
    def may_be_diff(self) -> bool:
        """Whether the text may look like a patch."""
        return self.content_format in ("diff", "patch")


class CreateNewFileCall(_WholeFileCall):
    """Create a file."""

    path: str
    content: str = ""

    def write(self, context: Context, name: str) -> Created | Overwritten:
        return context.desk.create(
            context.member,
            name,
            context.path(self.path),
            self.content,
            may_be_diff=self.may_be_diff,
        )


class OverwriteEntireFileCall(_WholeFileCall):
    """Replace the whole content of a file that the caller knows."""

    path: str
    known_old_total_lines: Count
    known_old_total_bytes: Count
    content: str

    def write(self, context: Context, name: str) -> Created | Overwritten:
        return context.desk.overwrite(
            context.member,
            name,
            context.path(self.path),
            (self.known_old_total_lines, self.known_old_total_bytes),
            self.content,
            may_be_diff=self.may_be_diff,
        )


class WriteFileCall(_WholeFileCall):
    """Write a new file, or over another."""

    path: str
    content: str

    def write(self, context: Context, name: str) -> Created | Overwritten:
        job, may_be_diff = (context.member, name, context.path(self.path)), self.may_be_diff
        with suppress(FileExists):
            return context.desk.create(*job, self.content, may_be_diff=may_be_diff)
        return context.desk.overwrite(*job, None, self.content, may_be_diff=may_be_diff)


class PrepareCall(EditingCall):
    """Plan an edit."""

    report: Length | None = None
    existing_hunk_id: str | None = None

    @abstractmethod
    def request(self, context: Context) -> Request:
        """The requested edit."""

    def terms(self, context: Context) -> Terms:
        """The conditions of the plan, from those of these arguments that the tool has."""
        auto = (getattr(self, "apply", "never") or context.apply) == "auto"
        version, old = getattr(self, "version", None), getattr(self, "expected_old", None)
        return Terms(version, old, self.existing_hunk_id, auto)

    def run(self, context: Context, name: str) -> Answer:
        request, terms = self.request(context), self.terms(context)
        outcome = context.desk.prepare(context.member, name, request, terms)
        answer = _made(context, name, outcome, self.report)
        if isinstance(outcome, Planned) or not (rows := reports.replaced_ends(outcome.draft)):
            return answer
        if terms.expected_old is not None or any(terms.expected_olds):
            return answer
        said = (
            say(
                "remark.replaced_line" if row["last"] is None else "remark.replaced",
                context.lang,
                row,
            )
            for row in rows
        )
        facts = {**answer.facts, "replaced": [*rows]}
        return replace(answer, source=facts, remarks=(*answer.remarks, *said))


class PrepareEditCall(PrepareCall, CorrectingCall):
    """Plan an edit of a file, or make it at once if that is certain."""

    version: str | None = None
    expected_old: str | None = None
    apply: Literal["never", "auto"] | None = None


class _PrepareFileCall(PrepareCall):
    version: str | None = None
    apply: Literal["never", "auto"] | None = None


class PrepareDeleteCall(_PrepareFileCall):
    """Plan the removal of a file."""

    path: str

    def request(self, context: Context) -> Request:
        return DeleteFile(context.path(self.path))


class PrepareMoveCall(_PrepareFileCall):
    """Plan a move of a file."""

    path: str
    to: str

    def request(self, context: Context) -> Request:
        return MoveFile(context.path(self.path), context.path(self.to))


class _LineEdit(TypedDict):
    range: str
    content: str


class LineEdit(_LineEdit, total=False):
    """One of several edits by line numbers."""

    expected_old: str


class RangeEditCall(PrepareEditCall):
    """Replace, delete or append lines by their numbers, in one or several places."""

    path: str
    range: str = ""
    content: str = ""
    edits: tuple[LineEdit, ...] = ()

    def request(self, context: Context) -> Request:
        path = context.path(self.path)
        edits = tuple(RangeEdit(path, edit["range"], edit["content"]) for edit in self._edits())
        return edits[0] if len(edits) == 1 else RangeEdits(path, edits)

    def terms(self, context: Context) -> Terms:
        terms = super().terms(context)
        olds = tuple(edit.get("expected_old") for edit in self._edits())
        is_one = len(olds) == 1
        return replace(
            terms, expected_old=olds[0] if is_one else None, expected_olds=() if is_one else olds
        )

    def _edits(self) -> tuple[LineEdit, ...]:
        """All edits: that of `range` first, if given, then `edits`."""
        if not self.range and self.edits:
            for name in ("content", "expected_old"):
                if getattr(self, name):
                    raise InvalidArgs(name, "goes with range only; each of edits has its own")
            return self.edits
        if self.raw.get("range") is None:
            raise InvalidArgs("range", "is required, unless edits is given")
        if self.edits and not self.content:  # it would delete what a caller takes for a frame
            raise InvalidArgs("range", "beside edits it needs content; put a deletion into edits")
        first: LineEdit = {"range": self.range, "content": self.content}
        if self.expected_old is not None:
            first["expected_old"] = self.expected_old
        return (first, *self.edits)


class AppendCall(PrepareEditCall):
    """Append lines to a file."""

    path: str
    content: str
    create: bool = True

    def request(self, context: Context) -> Request:
        return Append(context.path(self.path), self.content, self.create)


class InsertAfterCall(PrepareEditCall):
    """Insert lines after an anchor's line."""

    path: str
    anchor: str
    content: str
    occurrence: int | str | None = None
    match: Match = "contains"

    _position: ClassVar[Literal["after", "before"]] = "after"

    def request(self, context: Context) -> Request:
        return Insert(
            context.path(self.path),
            Anchor(self.anchor, self.match),
            self.content,
            self._position,
            occurrence_of(self.occurrence),
        )


class InsertBeforeCall(InsertAfterCall):
    """Insert lines before an anchor's line."""

    _position = "before"


class BlockReplaceCall(PrepareEditCall):
    """Replace the lines between two anchors."""

    path: str
    start_anchor: str
    end_anchor: str
    content: str
    occurrence: int | str | None = None
    include_anchors: bool = True
    match: Match = "contains"
    require_unique: bool = True
    strict: bool = True

    def request(self, context: Context) -> Request:
        return BlockReplace(
            context.path(self.path),
            Anchor(self.start_anchor, self.match, "start_anchor"),
            Anchor(self.end_anchor, self.match, "end_anchor"),
            self.content,
            occurrence_of(self.occurrence),
            self.include_anchors,
            self.require_unique,
            self.strict,
        )


class ReplaceTextCall(PrepareCall, CorrectingCall):
    """Replace a text, at once if allowed; or in all files of a directory."""

    path: str
    old: str
    new: str
    all: bool = False
    version: str | None = None
    apply: Literal["auto", "never"] = "auto"

    def request(self, context: Context) -> Request:
        return self._in(context.path(self.path))

    def run(self, context: Context, name: str) -> Answer:
        path = context.path(self.path, folder=self.all)
        if not self.all or not context.looking.is_directory(context.member, path):
            return super().run(context, name)

        def plan(planned: list[Planned]) -> str | None:
            self._plan_below(path, context, name, planned)
            most = context.member.auto_lines
            counts = (max(item.draft.old_count, item.draft.new_count) for item in planned)
            return LONGER if most is not None and max(counts) > most else None

        answer = planned_or_written(context, name, plan, self.report, auto=self.apply != "never")
        return answer if answer.facts["status"] == "ok" else replace(answer, next_steps=())

    def _in(self, path: RelPath) -> ReplaceText:
        if not self.old:
            raise InvalidArgs("old", NO_OLD)
        if self.old.replace("\r\n", "\n") == self.new.replace("\r\n", "\n"):
            raise InvalidArgs("new", "is the same as old, so nothing would change")
        return ReplaceText(path, (StringEdit(self.old, self.new),), everywhere=self.all)

    def _plan_below(
        self, path: RelPath, context: Context, name: str, planned: list[Planned]
    ) -> None:
        """Plan the edit in each file of the directory that has the text."""
        self._in(path)
        for argument in ("version", "existing_hunk_id"):
            if getattr(self, argument):
                raise InvalidArgs(argument, "belongs to one file, and path is a directory")
        line = max(self.old.replace("\r\n", "\n").split("\n"), key=len)
        if not line:
            raise InvalidArgs("old", "has only line ends, and path is a directory")
        query = Query(line, path, (), "sensitive", True, False, False, "literal")
        hits = search_files(context.search(path, ()), query, MOST_FILES)
        if hits.truncated:
            raise InvalidArgs(
                "path", f"has more than {MOST_FILES} files with this text; name a smaller one"
            )
        if hits.timed_out or hits.warnings:
            raise InvalidArgs("path", "could not be searched whole; name a smaller one")
        terms = replace(self.terms(context), auto=False, corrects=False)
        member = context.member.at_once()
        asked = self.path
        for file in hits.paths:
            self.path = file  # a refusal is told of the file: it stays so where one is raised
            try:
                outcome = context.desk.prepare(member, name, self._in(RelPath.parse(file)), terms)
            except (PartialMatchFail, BinaryFile):  # binary, or it has only a part of the text
                continue
            assert isinstance(outcome, Planned), "it was not to be written"
            planned.append(outcome)
        self.path = asked
        if not planned:
            raise InvalidArgs("old", "stands in no file below this directory")


def occurrence_of(given: int | str | None) -> Occurrence | None:
    """Parse the choice of a candidate: a number from 1, `last`, or None."""
    if given is None or given == "last":
        return "last" if given else None
    if isinstance(given, str) and given.isascii() and given.isdigit() and len(given) < 10:
        given = int(given)
    if isinstance(given, str) or given < 0:
        raise InvalidArgs("occurrence", "must be a number from 1, or last")
    return given or None


class ApplyCall(EditingCall):
    """Write a plan, or several with commas between, all or none; without an id, list them."""

    hunk_id: str = ""
    accept: tuple[str, ...] = ()
    report: Length | None = None

    def run(self, context: Context, name: str) -> Answer:
        if not self.hunk_id:
            return ListPendingCall({}, {}).run(context, name)
        given = (hunk_id.strip() for hunk_id in self.hunk_id.split(","))
        ids = tuple(dict.fromkeys(hunk_id for hunk_id in given if hunk_id))
        if len(ids) > 1:
            return ApplyTogetherCall({}, {**vars(self), "hunk_ids": ids}).run(context, name)
        member = context.member.accepting(self.accept)
        outcome = context.desk.apply(member, name, ids[0] if ids else self.hunk_id)
        if not isinstance(outcome, Rejected):
            return reports.applied(name, outcome, context.lang, self.report)
        if isinstance(outcome.refusal, ApprovalRequired):
            return reports.pending(name, outcome.plan, outcome.refusal, context.lang)
        return reports.rejected(name, outcome, context.lang)


class ApplyTogetherCall(EditingCall):
    """Write several plans, all or none."""

    hunk_ids: tuple[str, ...]
    accept: tuple[str, ...] = ()
    report: Length | None = None

    def run(self, context: Context, name: str) -> Answer:
        outcome = context.desk.apply_all(context.member.accepting(self.accept), name, self.hunk_ids)
        if isinstance(outcome, Withheld):
            return reports.withheld(name, outcome, context.lang)
        return reports.transacted(name, outcome, context.lang, self.report)


class ManualCall(ToolCall):
    """Show a page of a manual, or a part of it."""

    toolset: str = ""
    topic: str = ""

    def run(self, context: Context, name: str) -> Answer:
        toolset = self.toolset or (EDIT if context.only_edit else "ws_mod")
        topic = self.topic or "index"
        page = context.manual(toolset, topic, context.lang)
        return Answer(
            {"status": "ok", "mode": name, "toolset": toolset, "topic": topic},
            body=page,
            language="markdown",
            content={"content": page},
            line=f"{toolset}: {topic}",
        )


EDITING = (
    Tool("read_file", "ws_mod", ReadFileCall, reads=True, idempotent=True, also=(EDIT,)),
    Tool("create_new_file", "ws_mod", CreateNewFileCall),
    Tool("overwrite_entire_file", "ws_mod", OverwriteEntireFileCall, destroys=True),
    Tool(
        "replace_text",
        "ws_mod",
        ReplaceTextCall,
        destroys=True,
        also=(EDIT,),
        voices=reports.REPLACE_TEXT,
    ),
    Tool("prepare_file_append", "ws_mod", AppendCall),
    Tool("prepare_file_move", "ws_mod", PrepareMoveCall, also=("batch",)),
    Tool("prepare_file_delete", "ws_mod", PrepareDeleteCall, destroys=True, also=("batch",)),
    Tool("prepare_file_insert_after", "ws_mod", InsertAfterCall),
    Tool("prepare_file_insert_before", "ws_mod", InsertBeforeCall),
    Tool("prepare_file_range_edit", "ws_mod", RangeEditCall, destroys=True, also=(EDIT,)),
    Tool("prepare_file_block_replace", "ws_mod", BlockReplaceCall, destroys=True),
    Tool(APPLY, "ws_mod", ApplyCall, destroys=True, also=("batch", "notes", "compat", EDIT)),
    Tool(APPLY_ALL, "ws_mod", ApplyTogetherCall, destroys=True, also=("patch",)),
)


MANUAL = Tool("manual", "ws_mod", ManualCall, reads=True, idempotent=True, also=(EDIT,))
WRITE_FILE = Tool(
    "edit_write_file",
    EDIT,
    WriteFileCall,
    destroys=True,
    listed_as="write_file",
    voices=("write_file",),
)
"""Of toolset `edit` alone; the compat toolset has a tool of that name."""
