"""The tools of ws_mod that read and write files; the mirror toolset is made from these."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar, Literal, TypedDict

from copydesk.desk.outcome import Applied, Planned, Rejected, Transacted, Withheld
from copydesk.desk.reading import MOST_LINES
from copydesk.desk.search import Query
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
from copydesk.errors import ApprovalRequired, BinaryFile, InvalidArgs, PartialMatchFail, Refusal
from copydesk.text.relpath import RelPath
from copydesk.tools import approvals, reports
from copydesk.tools.arguments import Count
from copydesk.tools.catalog import Answer, Context, EditingCall, Tool, ToolCall
from copydesk.tools.history import HISTORY
from copydesk.tools.report import Lang, Length, Report
from copydesk.tools.searching import SEARCHING

APPLY_ALL = "apply_file_modifications"
APPLY = "apply_file_modification"
MOST_FILES = 200
"""In so many files at most a text is replaced by one call."""
LONGER = "more lines than may be written without being shown first"


class ReadFileCall(ToolCall):
    """Show lines of a file."""

    path: str
    range: str = ""
    max_lines: Count = MOST_LINES
    show_linenos: bool = True

    def run(self, context: Context, name: str) -> Report:
        path = context.path(self.path)
        limits = self.max_lines, context.shown_tokens
        outcome = context.desk.read(context.member, path, self.range, *limits)
        return reports.reading(name, outcome, context.lang, numbers=self.show_linenos)


_DIFFS = ("diff", "patch")
"""The values of `content_format` with which a text may look like a patch."""


class CreateNewFileCall(EditingCall):
    """Write a file that does not exist."""

    path: str
    content: str = ""
    content_format: str = ""
    report: Length | None = None

    def run(self, context: Context, name: str) -> Report:
        path, may_be_diff = context.path(self.path), self.content_format in _DIFFS
        outcome = context.desk.create(
            context.member, name, path, self.content, may_be_diff=may_be_diff
        )
        return reports.created(name, outcome, context.lang, self.report)


class OverwriteEntireFileCall(EditingCall):
    """Replace all of a file that the caller knows."""

    path: str
    known_old_total_lines: Count
    known_old_total_bytes: Count
    content: str
    content_format: str = ""
    report: Length | None = None

    def run(self, context: Context, name: str) -> Report:
        known = (self.known_old_total_lines, self.known_old_total_bytes)
        outcome = context.desk.overwrite(
            context.member,
            name,
            context.path(self.path),
            known,
            self.content,
            may_be_diff=self.content_format in _DIFFS,
        )
        return reports.overwritten(name, outcome, context.lang, self.report)


class PrepareCall(EditingCall):
    """Plan an edit."""

    report: Length | None = None
    existing_hunk_id: str | None = None

    @abstractmethod
    def request(self, context: Context) -> Request:
        """The edit that is asked for."""

    def terms(self, context: Context) -> Terms:
        """On what terms it is planned."""
        return Terms(existing_hunk_id=self.existing_hunk_id)

    def run(self, context: Context, name: str) -> Report:
        request, terms = self.request(context), self.terms(context)
        outcome = context.desk.prepare(context.member, name, request, terms)
        if isinstance(outcome, Applied):
            return reports.applied(context.tool(APPLY), outcome, context.lang, self.report)
        return reports.planned(name, outcome, context.lang, self.report)


class PrepareEditCall(PrepareCall):
    """Plan an edit of a file, or make it at once where that is certain."""

    version: str | None = None
    expected_old: str | None = None
    apply: Literal["never", "auto"] | None = None

    def terms(self, context: Context) -> Terms:
        auto = (self.apply or context.apply) == "auto"
        return Terms(self.version, self.expected_old, self.existing_hunk_id, auto)


class _PrepareFileCall(PrepareCall):
    version: str | None = None
    apply: Literal["never", "auto"] | None = None

    def terms(self, context: Context) -> Terms:
        auto = (self.apply or context.apply) == "auto"
        return Terms(self.version, existing_hunk_id=self.existing_hunk_id, auto=auto)


class PrepareDeleteCall(_PrepareFileCall):
    """Plan the removal of a file."""

    path: str

    def request(self, context: Context) -> Request:
        return DeleteFile(context.path(self.path))


class PrepareMoveCall(_PrepareFileCall):
    """Plan another path for a file."""

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
    """Replace, delete or append lines by their numbers, in one place or several."""

    path: str
    range: str = ""
    content: str = ""
    edits: tuple[LineEdit, ...] = ()

    def request(self, context: Context) -> Request:
        path = context.path(self.path)
        edits = tuple(RangeEdit(path, one["range"], one["content"]) for one in self._edits())
        return edits[0] if len(edits) == 1 else RangeEdits(path, edits)

    def terms(self, context: Context) -> Terms:
        terms = super().terms(context)
        olds = tuple(one.get("expected_old") for one in self._edits())
        if len(olds) == 1:
            return replace(terms, expected_old=olds[0])
        return replace(terms, expected_old=None, expected_olds=olds)

    def _edits(self) -> tuple[LineEdit, ...]:
        """All edits: that of `range` first, if it is given, then `edits`."""
        if not self.range and self.edits:
            for name in ("content", "expected_old"):
                if getattr(self, name):
                    raise InvalidArgs(name, "goes with range only; each of edits has its own")
            return self.edits
        if self.raw.get("range") is None:
            raise InvalidArgs("range", "is required, unless edits is given")
        one: LineEdit = {"range": self.range, "content": self.content}
        if self.expected_old is not None:
            one["expected_old"] = self.expected_old
        return (one, *self.edits)


class AppendCall(PrepareEditCall):
    """Add lines at the end of a file."""

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
        path, anchor = context.path(self.path), Anchor(self.anchor, self.match)
        occurrence = occurrence_of(self.occurrence)
        return Insert(path, anchor, self.content, self._position, occurrence)


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


class ReplaceTextCall(PrepareCall):
    """Replace a text inside of lines, at once where that may be; or in all files of a directory."""

    path: str
    old: str
    new: str
    all: bool = False
    version: str | None = None
    apply: Literal["auto", "never"] = "auto"

    def request(self, context: Context) -> Request:
        return self._in(context.path(self.path))

    def run(self, context: Context, name: str) -> Report:
        path = context.path(self.path, folder=self.all)
        if not self.all or not context.looking.is_directory(context.member, path):
            return super().run(context, name)
        planned: list[Planned] = []
        keep = False
        try:
            self._plan_below(path, context, name, planned)
            declined = self._declined(context, planned)
            if self.apply == "never" or declined:
                keep = True
                return reports.planned_together(name, planned, context.lang, declined)
            ids = [one.plan.id for one in planned]
            outcome = context.desk.apply_all(context.member, name, ids)
            if isinstance(outcome, Transacted):
                keep = True
                return reports.transacted(name, outcome, context.lang, self.report)
            keep = isinstance(outcome.refusal, ApprovalRequired)
            return replace(reports.withheld(name, outcome, context.lang), next_steps=())
        finally:
            for one in () if keep else planned:
                with suppress(Refusal):  # what stopped the call is told
                    context.desk.discard(context.member, one.plan.id)

    def _declined(self, context: Context, planned: list[Planned]) -> str | None:
        """Why the plans are not written at once; None when they may be."""
        most = context.member.auto_lines
        counts = (max(one.draft.old_count, one.draft.new_count) for one in planned)
        return LONGER if most is not None and max(counts) > most else None

    def _in(self, path: RelPath) -> ReplaceText:
        if not self.old:
            raise InvalidArgs("old", "must not be empty")
        if self.old.replace("\r\n", "\n") == self.new.replace("\r\n", "\n"):
            raise InvalidArgs("new", "is the same as old, so nothing would change")
        return ReplaceText(path, (StringEdit(self.old, self.new),), everywhere=self.all)

    def _plan_below(
        self, path: RelPath, context: Context, name: str, planned: list[Planned]
    ) -> None:
        """Plan it in each file below the directory that holds the text; refusals name the file."""
        self._in(path)
        for argument in ("version", "existing_hunk_id"):
            if getattr(self, argument):
                raise InvalidArgs(argument, "belongs to one file, and path is a directory")
        line = max(self.old.replace("\r\n", "\n").split("\n"), key=len)
        if not line:
            raise InvalidArgs("old", "has only line ends, and path is a directory")
        query = Query(line, path, (), "sensitive", True, False, False, "literal")
        found = context.searches.files(query, MOST_FILES)
        if found.truncated:
            reason = f"has more than {MOST_FILES} files with this text; name a smaller one"
            raise InvalidArgs("path", reason)
        if found.timed_out or found.warnings:
            raise InvalidArgs("path", "could not be searched whole; name a smaller one")
        terms = replace(self.terms(context), auto=False)
        member = context.member.at_once()
        asked = self.path
        for each in found.paths:
            self.path = each
            try:
                request = self._in(RelPath.parse(each))
                outcome = context.desk.prepare(member, name, request, terms)
            except (PartialMatchFail, BinaryFile):  # no text, or only a part of what is sought
                continue
            assert isinstance(outcome, Planned), "it was not to be written"
            planned.append(outcome)
        self.path = asked
        if not planned:
            raise InvalidArgs("old", "stands in no file below this directory")

    def terms(self, context: Context) -> Terms:
        auto = self.apply == "auto"
        return Terms(self.version, existing_hunk_id=self.existing_hunk_id, auto=auto)


def refuse_text(
    name: str, arguments: object, path: str | None, refusal: Refusal, lang: Lang
) -> Answer:
    """A refusal of `replace_text`, in terms of its arguments."""
    return reports.refused(name, path, refusal, lang, reports.REPLACE_TEXT)


def occurrence_of(given: int | str | None) -> Occurrence | None:
    """Which candidate: a number from 1, `last`, or None."""
    if given is None or given == "last":
        return "last" if given else None
    if isinstance(given, str) and given.isascii() and given.isdigit() and len(given) < 10:
        given = int(given)
    if isinstance(given, str) or given < 0:
        raise InvalidArgs("occurrence", "must be a number from 1, or last")
    return given or None


class ApplyCall(EditingCall):
    """Write a plan."""

    hunk_id: str
    accept: tuple[str, ...] = ()
    report: Length | None = None

    def run(self, context: Context, name: str) -> Report:
        member = replace(context.member, accept=self.accept)
        outcome = context.desk.apply(member, name, self.hunk_id)
        if not isinstance(outcome, Rejected):
            return reports.applied(name, outcome, context.lang, self.report)
        if isinstance(outcome.refusal, ApprovalRequired):
            return approvals.pending(name, outcome.plan, outcome.refusal, context.lang)
        return reports.rejected(name, outcome, context.lang)


class ApplyTogetherCall(EditingCall):
    """Write several plans, all or none."""

    hunk_ids: tuple[str, ...]
    accept: tuple[str, ...] = ()
    report: Length | None = None

    def run(self, context: Context, name: str) -> Report:
        member = replace(context.member, accept=self.accept)
        outcome = context.desk.apply_all(member, name, self.hunk_ids)
        if isinstance(outcome, Withheld):
            return reports.withheld(name, outcome, context.lang)
        return reports.transacted(name, outcome, context.lang, self.report)


class ManualCall(ToolCall):
    """A page of a manual, or a part of it."""

    toolset: str = ""
    topic: str = ""

    def run(self, context: Context, name: str) -> Report:
        toolset, topic = self.toolset or "ws_mod", self.topic or "index"
        page = context.manual(toolset, topic, context.lang)
        return Report(
            {"status": "ok", "mode": name, "toolset": toolset, "topic": topic},
            body=page,
            language="markdown",
            content={"content": page},
            line=f"{toolset}: {topic}",
        )


EDITING = (
    Tool("read_file", "ws_mod", ReadFileCall, reads=True, idempotent=True),
    Tool("create_new_file", "ws_mod", CreateNewFileCall),
    Tool("overwrite_entire_file", "ws_mod", OverwriteEntireFileCall, destroys=True),
    Tool("replace_text", "ws_mod", ReplaceTextCall, destroys=True, refuse=refuse_text),
    Tool("prepare_file_append", "ws_mod", AppendCall),
    Tool("prepare_file_move", "ws_mod", PrepareMoveCall, also=("batch",)),
    Tool("prepare_file_delete", "ws_mod", PrepareDeleteCall, destroys=True, also=("batch",)),
    Tool("prepare_file_insert_after", "ws_mod", InsertAfterCall),
    Tool("prepare_file_insert_before", "ws_mod", InsertBeforeCall),
    Tool("prepare_file_range_edit", "ws_mod", RangeEditCall, destroys=True),
    Tool("prepare_file_block_replace", "ws_mod", BlockReplaceCall, destroys=True),
    Tool(APPLY, "ws_mod", ApplyCall, destroys=True, also=("batch", "notes", "compat")),
    Tool(APPLY_ALL, "ws_mod", ApplyTogetherCall, destroys=True, also=("patch",)),
)


MANUAL = Tool("manual", "ws_mod", ManualCall, reads=True, idempotent=True)


def ws_mod() -> tuple[Tool, ...]:
    """All tools of ws_mod."""
    return (*EDITING, *HISTORY, *SEARCHING, MANUAL)


def team_mgmt() -> tuple[Tool, ...]:
    """The mirror toolset: the same tools below `.minds/`."""
    return tuple(
        replace(tool, name=f"team_mgmt_{tool.name}", toolset="team_mgmt", also=())
        for tool in ws_mod()
    )
