"""Tools under names that agents know from elsewhere, made of what the batch toolset is made of.

They take the arguments of the MCP filesystem server's `read_text_file`, `write_file` and
`edit_file` and of the text editor `str_replace_based_edit_tool`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Literal, TypedDict, cast

from copydesk.desk.batch import Rewrite
from copydesk.desk.gc_pause import put_off
from copydesk.desk.outcome import Reading
from copydesk.edit.request import BatchEdit, Preconditions, StringEdit
from copydesk.errors import (
    AccessDenied,
    FileExists,
    FileNotFound,
    InvalidArgs,
    InvalidRange,
    NotAFile,
    RangeOutOfBounds,
    Refusal,
)
from copydesk.text.relpath import RelPath
from copydesk.tools import envelope, report_fields
from copydesk.tools.arguments import Count
from copydesk.tools.batch import MANY, content_of, made, reading, written
from copydesk.tools.catalog import Answer, Context, Tool, ToolCall
from copydesk.tools.envelope import Envelope, Status
from copydesk.tools.messages import say
from copydesk.tools.report import Fields, Lang

EDITOR = "str_replace_based_edit_tool"

MOST_ENTRIES = 1_000
"""Of a directory, so many entries are shown."""

_ALL = 1 << 30
"""As many lines as there are: the limit of characters alone cuts."""

_ARGUMENTS_OF: dict[str, tuple[str, ...]] = {
    "view": ("view_range",),
    "create": ("file_text",),
    "str_replace": ("old_str", "new_str"),
    "insert": ("insert_line", "insert_text"),
}


class ReadTextFileCall(ToolCall):
    """A file, or its first or last lines."""

    path: str
    head: Count = 0
    tail: Count = 0

    def run(self, context: Context, name: str) -> Answer:
        path = context.path_below(self.path)
        if self.head and self.tail:
            raise InvalidArgs("tail", "cannot be given together with head")
        lines = f"-{min(self.tail, _ALL)}~" if self.tail else ""
        found = context.desk.read(context.member, path, lines, self.head or _ALL)
        cut = found.cut_by_characters or (found.cut_by_lines and not self.head)
        content, start = content_of(found), found.first_line
        return reading(context, self, found, content, start=start, voice="compat", truncated=cut)


class WriteFileCall(ToolCall):
    """A whole file, over what is there if there is something."""

    path: str
    content: str

    def run(self, context: Context, name: str) -> Answer:
        path = context.path_below(self.path)
        return _whole(context, name, self, path, self.content, overwrite=True)


class ReplacementOfText(TypedDict):
    """One edit of `edit_file`."""

    oldText: str
    newText: str


class EditFileCall(ToolCall):
    """Several replacements, all or none."""

    path: str
    edits: tuple[ReplacementOfText, ...]
    dryRun: bool = False

    def run(self, context: Context, name: str) -> Answer:
        with put_off() if len(self.edits) >= MANY else nullcontext():
            path = context.path_below(self.path)
            for index, one in enumerate(self.edits):
                if not one["oldText"]:
                    raise InvalidArgs(f"edits[{index}].oldText", "must not be empty")
            if all(_same(one["oldText"], one["newText"]) for one in self.edits):
                reason = "no edit changes anything: oldText and newText are equal"
                raise InvalidArgs("edits", reason)
            edits = (StringEdit(one["oldText"], one["newText"]) for one in self.edits)
            request = BatchEdit(path, tuple(edits))
            return _replaced(context, name, self, request, dry=self.dryRun)


class TextEditorCall(ToolCall):
    """One of the text editor's commands."""

    command: Literal["view", "create", "str_replace", "insert"]
    path: str
    view_range: tuple[int, ...] = ()
    file_text: str = ""
    old_str: str = ""
    new_str: str = ""
    insert_line: Count = 0
    insert_text: str = ""

    def run(self, context: Context, name: str) -> Answer:
        others = {one for names in _ARGUMENTS_OF.values() for one in names}
        for given in others.difference(_ARGUMENTS_OF[self.command]).intersection(vars(self)):
            raise InvalidArgs(given, "is an argument of another command")
        path = context.path_below(self.path, folder=self.command == "view")
        return _COMMANDS[self.command](context, name, self, path)

    def require(self, *names: str) -> None:
        """Raise InvalidArgs for what a command needs and was not given; "" and 0 are values."""
        for name in names:
            if self.raw.get(name) is None:
                raise InvalidArgs(name, "is required")


def refuse(name: str, arguments: object, path: str | None, refusal: Refusal, lang: Lang) -> Answer:
    """A refusal of this toolset."""
    reads = name == "read_text_file" or (name == EDITOR and _views(arguments))
    voices = ("edit", "compat", "batch") if name == EDITOR else ("compat", "batch")
    return envelope.refused(refusal, arguments, path, lang, writes=not reads, voices=voices)


def compat() -> tuple[Tool, ...]:
    """The catalog's rows of this toolset."""
    tool = partial(Tool, toolset="compat", in_full=True, refuse=refuse)
    return (
        tool("read_text_file", call=ReadTextFileCall, reads=True, idempotent=True),
        tool("write_file", call=WriteFileCall, destroys=True, idempotent=True),
        tool("edit_file", call=EditFileCall, destroys=True),
        tool(EDITOR, call=TextEditorCall, destroys=True),
    )


def _view(context: Context, name: str, call: TextEditorCall, path: RelPath) -> Answer:
    """The lines of a file with their numbers, or what is in a directory."""
    lines = _range_of(call.view_range)
    try:
        found = context.desk.read(context.member, path, lines, _ALL)
    except (RangeOutOfBounds, InvalidRange) as refusal:
        raise InvalidArgs("view_range", _the_file_has(refusal.total_lines)) from None
    except (NotAFile, AccessDenied) as refusal:
        if lines or (isinstance(refusal, NotAFile) and refusal.kind != "directory"):
            raise
        return _listing(context, call, path, refusal)
    content = _numbered(found)
    return reading(context, call, found, content, start=found.first_line, voice="compat")


def _create(context: Context, name: str, call: TextEditorCall, path: RelPath) -> Answer:
    """A new file."""
    call.require("file_text")
    return _whole(context, name, call, path, call.file_text, overwrite=False)


def _str_replace(context: Context, name: str, call: TextEditorCall, path: RelPath) -> Answer:
    """One replacement."""
    call.require("old_str")
    if not call.old_str:
        raise InvalidArgs("old_str", "must not be empty")
    if _same(call.old_str, call.new_str):
        raise InvalidArgs("new_str", "is the same as old_str, so nothing would change")
    request = BatchEdit(path, (StringEdit(call.old_str, call.new_str),))
    return _replaced(context, name, call, request, dry=False)


def _insert(context: Context, name: str, call: TextEditorCall, path: RelPath) -> Answer:
    """New lines after one."""
    call.require("insert_text")
    line, content = call.insert_line, call.insert_text
    if not content:
        raise InvalidArgs("insert_text", "must not be empty")
    call.require("insert_line")
    try:
        done = context.batches.insert(context.member, name, path, line, content)
    except RangeOutOfBounds as refusal:
        raise InvalidArgs("insert_line", _the_file_has(refusal.total_lines)) from None
    except InvalidArgs as refusal:
        raise InvalidArgs("insert_text", refusal.reason) from None
    except FileNotFound:
        raise context.desk.missing(context.member, path) from None
    bad, known = "\ufffd" in content, {"after": line}
    saying = "compat.inserted"
    return written(context, call, done, bad=bad, dry=False, saying=saying, known=known)


_COMMANDS: dict[str, Callable[[Context, str, TextEditorCall, RelPath], Answer]] = {
    "view": _view,
    "create": _create,
    "str_replace": _str_replace,
    "insert": _insert,
}


def _views(arguments: object) -> bool:
    """Whether the arguments, as they came, ask for the command that changes nothing."""
    if not isinstance(arguments, Mapping):
        return False
    return cast("Mapping[str, object]", arguments).get("command") == "view"


def _whole(
    context: Context, name: str, call: ToolCall, path: RelPath, content: str, *, overwrite: bool
) -> Answer:
    def make() -> Rewrite:
        return context.batches.write(
            context.member, name, path, content, Preconditions(), overwrite=overwrite, blindly=True
        )

    try:
        done = make()
    except (FileExists, FileNotFound):
        if not overwrite:
            raise
        done = make()  # somebody else has just made the file, or removed it
    bad = report_fields.lost(done.after, None if done.created else done.base)
    saying = "batch.created" if done.created else "batch.replaced"
    return written(context, call, done, bad=bad, dry=False, saying=saying)


def _replaced(
    context: Context, name: str, call: ToolCall, request: BatchEdit, *, dry: bool
) -> Answer:
    done = made(context, name, request, Preconditions(), dry=dry)
    bad = request.bad_character
    return written(context, call, done, bad=bad, dry=dry, dry_saying="compat.dry")


def _listing(context: Context, call: ToolCall, path: RelPath, unread: Refusal) -> Answer:
    """What is in a directory and in those in it, but hidden names and what is in `node_modules`.

    Raises `unread` where it is none that may be seen.
    """
    try:
        shown = _entries(context, path, levels=2)
    except Refusal:
        raise unread from None
    cut = len(shown) > MOST_ENTRIES
    shown = shown[:MOST_ENTRIES]
    data: Fields = {"content": "".join(f"{one}\n" for one in shown), "truncated": cut}
    facts: dict[str, object] = {"count": len(shown), "path": path}
    words = say("compat.listed", context.lang, facts)
    if cut:
        words += " " + say("compat.listed_cut", context.lang)
    where = envelope.context_of(call.raw, str(path))
    status: Status = "partial" if cut else "success"
    return Envelope(status, data, words, {"entries": len(shown)}, where)


def _entries(context: Context, path: RelPath, *, levels: int) -> list[str]:
    """Paths from the root of the workspace, a directory's with a slash at its end."""
    shown: list[str] = []
    for entry in context.looking.list_dir(context.member, path):
        inner = path / entry.name
        if entry.name.startswith("."):
            continue
        shown.append(f"{inner}/" if entry.kind == "dir" else str(inner))
        if entry.kind == "dir" and levels > 1 and entry.name != "node_modules":
            try:
                shown += _entries(context, inner, levels=levels - 1)
            except Refusal:  # it is shown, what is in it cannot be
                continue
        if len(shown) > MOST_ENTRIES:
            break
    return shown


def _range_of(given: tuple[int, ...]) -> str:
    """The range of lines, as the desk takes it; raises InvalidArgs."""
    if not given:
        return ""
    first, last = given[0], given[-1]
    if len(given) != 2 or first < 1 or (last < first and last != -1):
        reason = "must be two lines: the first from 1, the last not before it, or -1 for the end"
        raise InvalidArgs("view_range", reason)
    return f"{first}~" if last == -1 else f"{first}~{last}"


def _numbered(found: Reading) -> str:
    """The lines as `cat -n` shows them."""
    first = found.first_line or 1
    return "".join(f"{first + i:6}\t{line}\n" for i, line in enumerate(found.lines))


def _same(old: str, new: str) -> bool:
    return old.replace("\r\n", "\n") == new.replace("\r\n", "\n")


def _the_file_has(lines: int | None) -> str:
    return "the file has 1 line" if lines == 1 else f"the file has {lines} lines"
