"""What a tool is (name, toolset, arguments, hints), and how one is called by its name.

Invariants: every interface reads this table and no other; a call returns an answer, whatever
happens in it.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, cast

from copydesk.desk.desk import Batching, FileDesk
from copydesk.desk.gates import Findings, telling
from copydesk.desk.member import Member
from copydesk.errors import Crashed, InvalidPath, NotAFile, PathRequired, Refusal
from copydesk.search.listings import FileSearch, Progress
from copydesk.search.ripgrep import Search
from copydesk.text.relpath import RelPath
from copydesk.tools import reports
from copydesk.tools.arguments import (
    Arguments,
    Schema,
    Why,
    described,
    listed,
    read,
    schema_of,
    with_null,
)
from copydesk.tools.diff_model import view_of
from copydesk.tools.messages import ToolTexts, say, texts
from copydesk.tools.report import (
    ANSWER_TOKENS,
    Answer,
    Lang,
    LongTexts,
    Value,
    fitting,
    row_tokens,
)

MINDS = ".minds"  # the folder of the mirror toolset
READ_SHARE = 3  # the lines of a file may take so many times the budget of other answers
EDIT = "edit"  # the toolset of some tools of ws_mod, which stand in for the others
STAND_INS = {
    **dict.fromkeys(("ripgrep_files", "ripgrep_count", "ripgrep_snippets"), "ripgrep_search"),
    **dict.fromkeys(("create_new_file", "overwrite_entire_file"), "write_file"),
    **dict.fromkeys(
        ("prepare_file_append", "prepare_file_delete", "prepare_file_move"), "apply_patch"
    ),
    "prepare_file_block_replace": "prepare_file_range_edit",
    "list_dir": "read_file",
    "list_pending": "apply_file_modification",
    "apply_file_modifications": "apply_file_modification",
    "list_edits": "undo_file_modification",
}
"""Tools of ws_mod that toolset `edit` lacks, and the one there that answers name instead."""

SELF_EVIDENT = frozenset(
    (
        *("path", "to", "why", "member", "literal", "hunk_id", "hunk_ids", "edit_id"),
        *("before_edit_id", "anchor", "start_anchor", "end_anchor", "transaction", "task"),
        *("known_old_total_lines", "known_old_total_bytes", "accept", "patch", "existing_hunk_id"),
    )
)
"""Arguments whose texts only the reference and the manuals have."""

UNLISTED = frozenset(("corrections",))
"""Rare arguments that only the reference and the manuals name: a list is paid for each time."""

_SEVERAL = re.compile(r'"hunk_ids": \[([^]]*)\]')
# a tool's name, but no part of a path
_OTHERS = re.compile(rf"(?<![\w./\"-])(?:{'|'.join(STAND_INS)})(?![\w/\"-]|\.\w)")

_NOT_UTF8 = re.compile(r"\\x[89a-f][0-9a-f]")
"""A byte that does not decode, as names are listed."""

_UNDO = "undo_file_modification"

_log = logging.getLogger("copydesk")


@dataclass(frozen=True, slots=True)
class Context:
    """The context of a call: the desk, the member, the language of the answer.

    `member` has the permission of the tool's own toolset. `progress` gets the number of files that
    a long search has seen; `cancelled` says whether to stop. `long_texts` are the session's long
    results. `roots` are the paths of the root on its machine. `in_shell`: next steps name shell
    commands instead of tools. `apply` is the default of that argument. An answer takes `budget`
    tokens, 0 is unlimited; if it is `structured`, its data for programs takes no more. `manual`
    returns a part of a manual. `toolsets` are those of the caller.
    """

    desk: FileDesk
    batches: Batching
    looking: FileSearch
    member: Member
    manual: Callable[[str, str, Lang], str]
    lang: Lang = "en"
    progress: Progress = lambda seen: None
    cancelled: Callable[[], bool] = lambda: False
    long_texts: LongTexts = field(default_factory=LongTexts)
    roots: tuple[RelPath, ...] = ()
    in_shell: bool = False
    apply: Literal["never", "auto"] = "never"
    budget: int = ANSWER_TOKENS
    structured: bool = False
    toolsets: tuple[str, ...] = ()

    @property
    def read_tokens(self) -> int | None:
        """The tokens for the lines of a file, which have a budget of their own; None: unlimited."""
        return READ_SHARE * self.budget if self.budget else None

    @property
    def rows_tokens(self) -> int | None:
        """The tokens for the rows of a list; None: unlimited."""
        return max(self.budget - reports.LIST_HEAD_TOKENS, 1) if self.budget else None

    def rows(self, texts: Iterable[str], data: Sequence[Value]) -> tuple[list[str], list[Value]]:
        """The first rows of a list that fit, at least one, and the data: of these if structured."""
        shown, room = [*texts], self.rows_tokens
        told = shown
        if self.structured:
            told = [json.dumps(each, ensure_ascii=False) for each in data[: len(shown)]]
        count = len(shown) if room is None else max(fitting(told, room, row_tokens), 1)
        return shown[:count], [*data[: count if self.structured else None]]

    def search(self, path: RelPath, globs: Iterable[str], *, fold: bool = False) -> Search:
        """The member's search of a path with globs, which it must be allowed to read."""
        return self.looking.search(
            self.member, path, globs, self.progress, self.cancelled, fold=fold
        )

    def path(self, text: str, *, folder: bool = False) -> RelPath:
        """The workspace path of an argument; `folder`: the root of the toolset is allowed.

        Backslashes part names, unless there is something with such a name, or a place for it.
        """
        slashed = text.replace("\\", "/")
        if slashed == "~" or slashed.startswith(("~/", "file:")):
            raise InvalidPath("absolute path")
        path = self._path(text, folder=folder)
        own = (path, path.parent) if "\\" in str(path.parent) else (path,)
        if slashed == text or any(map(self._is_there, own)):
            return path
        parted = self._path(slashed, folder=folder)
        if _NOT_UTF8.search(text) and not self._is_there(parted.parent):
            raise InvalidPath("not UTF-8")
        return parted

    def _is_there(self, path: RelPath) -> bool:
        with suppress(Refusal):
            return bool(self.looking.info(self.member, path))
        return False

    def _path(self, text: str, *, folder: bool) -> RelPath:
        if self.member.toolset != "team_mgmt":
            return RelPath.parse(text)
        if not text:
            raise PathRequired()
        if text.startswith("/"):
            raise InvalidPath("absolute path")
        trimmed = text.removeprefix("./")
        inner = RelPath.parse("." if trimmed == MINDS else trimmed.removeprefix(f"{MINDS}/") or ".")
        if not inner.parts and not folder:
            raise NotAFile("directory")
        return RelPath((MINDS, *inner.parts))

    def path_below(self, text: str, *, folder: bool = False) -> RelPath:
        """The path of an argument that may be absolute; InvalidPath if it is outside the root."""
        below = self.relative(text)
        if below.startswith("/"):
            RelPath.parse(below.lstrip("/") or ".")  # errors in the path itself come first
            raise InvalidPath("absolute path outside of the workspace")
        return self.path(below, folder=folder)

    def relative(self, text: str) -> str:
        """Strip the workspace root from an absolute path; return any other unchanged."""
        if not text.startswith("/"):
            return text
        with suppress(Refusal):
            whole = RelPath.parse(text.lstrip("/") or ".")
            for root in self.roots:
                if root.covers(whole):
                    return str(RelPath(whole.parts[len(root.parts) :]))
        return text

    def glob(self, text: str) -> str:
        """The glob relative to the workspace root; one that matches at any depth is unchanged."""
        if self.member.toolset != "team_mgmt" or "/" not in text.removeprefix("!").rstrip("/"):
            return text
        sign = "!" * text.startswith("!")
        inner = text.removeprefix("!").removeprefix("./").lstrip("/")
        below = inner == MINDS or inner.startswith(f"{MINDS}/")
        return f"{sign}/{inner}" if below else f"{sign}/{MINDS}/{inner}"

    @property
    def only_edit(self) -> bool:
        """Whether the caller has the toolset `edit`, and not the other tools of ws_mod."""
        return EDIT in self.toolsets and "ws_mod" not in self.toolsets

    def tool(self, name: str) -> str:
        """The name that a tool of ws_mod has in the member's toolset."""
        return f"team_mgmt_{name}" if self.member.toolset == "team_mgmt" else name

    def call_for(self, command: str, tool: str, key: str, of: str | int, **more: bool) -> str:
        """The call of a tool for one plan or edit, or the command that does the same."""
        call = f"{self.tool(tool)}({json.dumps({key: of, **more})})"
        return f"copydesk {command} {of}" if self.in_shell else call


class ToolCall(Arguments, ABC):
    """One call: the arguments of a tool, and its action."""

    @abstractmethod
    def run(self, context: Context, name: str) -> Answer:
        """Run the call; `name` is the tool's own name, with the prefix of a mirror toolset."""


class EditingCall(ToolCall):
    """A call that plans or writes; `why` is saved with the edit."""

    why: Why = ""


class CorrectingCall(EditingCall):
    """A call with old texts; `corrections` says whether a certain one is written at once."""

    corrections: Literal["auto", "plan"] | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool. `reads`: it changes nothing; `destroys`: it may replace existing content.

    `also`: other toolsets that need it. `listed_as`: its name for callers, if another toolset has a
    tool of that name. `in_full`: its path may be absolute. A refusal becomes a
    report in the wording of `voices`, unless `refuse` makes another answer. `output`: the schema of
    its structured content, if it replaces another program's tool. `aliases`: older names of the
    tool, unless another tool has them.
    """

    name: str
    toolset: str
    call: type[ToolCall]
    reads: bool = False
    destroys: bool = False
    idempotent: bool = False
    also: tuple[str, ...] = ()
    in_full: bool = False
    voices: tuple[str, ...] = ()
    refuse: Callable[[str, object, str | None, Refusal, Lang], Answer] | None = None
    output: Schema | None = None
    aliases: tuple[str, ...] = ()
    listed_as: str = ""

    @property
    def called(self) -> str:
        """The name for callers."""
        return self.listed_as or self.name

    @property
    def schema(self) -> Schema:
        return schema_of(self.call)

    @property
    def plain_name(self) -> str:
        """The name without the prefix of a mirror toolset."""
        return self.name.removeprefix("team_mgmt_")

    def is_of(self, toolsets: Iterable[str]) -> bool:
        """Whether one of these toolsets has the tool, as its own or because it needs it."""
        return any(each == self.toolset or each in self.also for each in toolsets)

    def description(self, lang: Lang) -> str:
        """The tool's contract, in one or two sentences."""
        words = self._texts(lang).description
        return words if self.name == self.plain_name else words + say("tool.mirror", lang)

    def title(self, lang: Lang) -> str:
        """A short name for people."""
        return self._texts(lang).title

    def described_schema(self, lang: Lang) -> dict[str, Any]:
        """The schema with a description of each argument."""
        return described(self.schema, {**texts(lang).arguments, **self._texts(lang).arguments})

    def listed_schema(self, lang: Lang) -> dict[str, Any]:
        """The schema as clients get it: without rare arguments, and texts that a name says too."""
        schema = with_null(self.described_schema(lang))
        for name in UNLISTED & schema["properties"].keys():
            del schema["properties"][name]
        for name in SELF_EVIDENT & schema["properties"].keys():
            schema["properties"][name].pop("description", None)
        return listed(schema)

    def refused(self, arguments: object, path: str | None, refusal: Refusal, lang: Lang) -> Answer:
        """The answer for a refused call; `path` as the caller gave it."""
        if self.refuse is not None:
            return self.refuse(self.called, arguments, path, refusal, lang)
        return reports.refused(self.called, path, refusal, lang, self.voices)

    def _texts(self, lang: Lang) -> ToolTexts:
        """The texts of the tool; its name replaces missing ones."""
        name = self.plain_name
        return texts(lang).tools.get(name, ToolTexts(name, name))


def by_name(tools: Iterable[Tool]) -> dict[str, Tool]:
    """The tools by their names for callers, and their older names; an own name goes first."""
    every = tuple(tools)
    named = {tool.name: tool for tool in every if not tool.listed_as}
    for tool in every:
        for alias in (tool.called, *tool.aliases):
            named.setdefault(alias, tool)
    return named


class Catalog:
    """The tools by name, in order."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self.tools = {tool.name: tool for tool in tools}
        self._by_name = by_name(self.tools.values())

    def named(self, name: str) -> Tool:
        """The tool with this name or older name; raises KeyError."""
        return self.tools.get(name) or self._by_name[name]

    def of(self, toolsets: Iterable[str]) -> tuple[Tool, ...]:
        """The tools of some toolsets."""
        names = tuple(toolsets)
        return tuple(tool for tool in self.tools.values() if tool.is_of(names))

    def call(self, context: Context, name: str, arguments: object) -> Answer:
        """The tool's answer, even for a refusal or a logged crash; KeyError for an unknown tool."""
        tool = self.named(name)
        began = time.perf_counter()
        call, given = None, arguments
        checked: Mapping[RelPath, Findings] = {}
        try:
            call = read(tool.call, arguments)
            given = vars(call)  # live: a call for several files sets `path` to that of a refusal
            if isinstance(call, EditingCall) and call.why:
                context = replace(context, member=context.member.because(call.why))
            if isinstance(call, CorrectingCall) and call.corrections:
                corrects = call.corrections == "auto"
                context = replace(context, member=replace(context.member, corrects=corrects))
            with telling() as checked:
                answer = call.run(context, tool.called)
        except Refusal as refusal:
            answer = _refused(context, tool, arguments, given, refusal)
        except Exception:  # the one broad catch: a bug must not end the server
            crash = Crashed(secrets.token_hex(4))
            _log.exception("call %s of %s", crash.log_id, tool.name)
            answer = _refused(context, tool, arguments, given, crash)
        if answer.is_error and answer.is_report and getattr(call, "report", None) != "full":
            answer = _in_short(answer)
        answer = _told(context, reports.with_checks(answer, checked, context.lang))
        if answer.envelope is not None:
            answer = answer.timed(round(1000 * (time.perf_counter() - began)))
        if context.only_edit and answer.is_report:
            answer = _renamed(answer)
        # The budget cuts all that was added; only lines that are left then count as shown.
        # 0: it is cut already, as texts of notes are
        budget = answer.budget and context.budget if answer.said is None else 0
        if (answer.budget, answer.lang) != (budget, context.lang):
            answer = replace(answer, budget=budget, lang=context.lang)
        if not context.cancelled():
            for view in answer.views:
                context.desk.note_shown(
                    context.member, view.path, partial(answer.lines_shown, view), view.real
                )
        return answer


def _refused(
    context: Context, tool: Tool, arguments: object, given: object, refusal: Refusal
) -> Answer:
    """The answer for a refused call; `given` are its arguments, as far as they could be read."""
    asked = cast("Mapping[str, object]", given if isinstance(given, Mapping) else {}).get("path")
    path = asked.encode("utf-8", "backslashreplace").decode() if isinstance(asked, str) else None
    if path is not None and tool.in_full:
        path = context.relative(path)
    answer = tool.refused(arguments, path, refusal, context.lang)
    if answer.is_report and path:
        with suppress(Refusal):  # an invalid path
            return replace(answer, views=view_of(refusal, context.path(path)))
    return answer


_REPEATED = frozenset(
    (
        *("mode", "path", "hunk_id", "edit_id", "action", "context_match", "reason", "version"),
        *("current_version", "total_lines", "changed", "expected_old", "found", "planned_lines"),
        *("later_edit_ids", "undone_by", "file_changed_since_preview", "failed_index"),
        *("planned_file_digest_sha256", "current_file_digest_sha256"),
    )
)
"""Facts of a refusal that its lines as they are now, its summary or the call say as well."""


def _in_short(answer: Answer) -> Answer:
    """A refusal that shows the current lines, without what they, or its summary, say as well."""
    facts = answer.facts
    if "current" not in facts and not facts.get("apply_evidence"):
        return answer
    is_needed = "found" in str(facts["summary"])
    return replace(answer, unsaid=_REPEATED - {"found"} if is_needed else _REPEATED)


def _renamed(answer: Answer) -> Answer:
    """The answer with the names of tools that a caller of toolset `edit` has."""

    def own(text: str) -> str:
        said = _OTHERS.sub(lambda name: STAND_INS[name[0]], text)
        return _SEVERAL.sub(lambda ids: f'"hunk_id": "{ids[1].replace(chr(34), "")}"', said)

    facts = answer.source
    if not callable(facts) and "summary" in facts:
        facts = {**facts, "summary": own(str(facts["summary"]))}
    return replace(answer, source=facts, next_steps=tuple(map(own, answer.next_steps)), rest="")


def _told(context: Context, answer: Answer) -> Answer:
    """Add decisions on the member's plans, and what other programs wrote that concerns it."""
    if context.cancelled():
        return answer  # nobody reads it
    undo = partial(context.call_for, "undo", _UNDO, "edit_id")
    answer = reports.with_saved(
        answer, context.desk.foreign.told(context.member), context.lang, undo
    )
    try:
        if not (news := context.desk.review.news(context.member, reports.MOST_NEWS)):
            return answer
        apply = partial(context.call_for, "apply", "apply_file_modification", "hunk_id")
        longer = reports.with_news(answer, news, context.lang, apply)
        reapply = partial(context.call_for, "reapply", _UNDO, "edit_id", again=True)
        longer = reports.with_overwritten(longer, news, context.lang, reapply)
        if longer.body is not None:
            longer = replace(longer, budget=longer.budget and context.budget, lang=context.lang)
            if not longer.is_whole:  # its lines count as shown: drop none for the news
                return answer
        context.desk.review.tell([decision for decision, _ in news])
    except Refusal:  # the answer stays; a later one has the news
        return answer
    return longer


def crashed(tool: str, crash: str, lang: Lang) -> Answer:
    """The report of an internal error that was logged under the id `crash`."""
    return Answer(
        {
            "status": "error",
            "mode": tool,
            "error": "FAILED",
            "log_id": crash,
            "summary": say("CRASH", lang, {"log_id": crash}),
        }
    )
