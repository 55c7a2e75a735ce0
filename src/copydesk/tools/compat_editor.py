"""Anthropic's text editor tool: its commands, arguments, results and messages.

Tabs, line ends and undecodable bytes are preserved where the reference editor loses them; the
manual lists each such difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import Literal, cast

from copydesk import errors
from copydesk.desk.backends.snapshots import Run
from copydesk.desk.batch import Rewrite
from copydesk.desk.outcome import NotUndone
from copydesk.edit.request import BatchEdit, Preconditions, StringEdit
from copydesk.errors import Refusal
from copydesk.search.listings import DirEntry
from copydesk.text.snapshot import Snapshot
from copydesk.tools import compat_files
from copydesk.tools.arguments import Count
from copydesk.tools.batch import once_approved, with_plan
from copydesk.tools.catalog import Context, Tool
from copydesk.tools.compat_files import ClientPath, CompatCall, Told
from copydesk.tools.refusals import refusal_words
from copydesk.tools.report import Answer, Lang

EDITOR = "str_replace_based_edit_tool"
OLD_EDITOR = "str_replace_editor"

SNIPPET_LINES = 4
MOST_SHOWN = 16_000  # characters of a view; a longer one is cut, with a note

_CUT = (
    "<response clipped><NOTE>To save on context only part of this file has been shown to you. "
    "You should retry this tool after you have searched inside the file with `grep -n` in order to "
    "find the line numbers of what you are looking for.</NOTE>"
)
_CHECKED = " (correct indentation, no duplicate lines, etc)"
_VOICES = ("edit", "compat", "batch")
_COMMAND_NAMES = ("view", "create", "str_replace", "insert", "undo_edit")


class TextEditorCall(CompatCall):
    """One of the text editor's commands."""

    command: Literal["view", "create", "str_replace", "insert", "undo_edit"]
    path: str
    view_range: tuple[int, ...] = ()
    file_text: str = ""
    old_str: str = ""
    new_str: str = ""
    insert_line: Count = 0
    insert_text: str = ""

    voices, only_text = _VOICES, True

    def do(self, context: Context, name: str, place: ClientPath) -> Answer:
        place = replace(place, given=self.path.rstrip("/") or "/")
        self._check_place(context, place)
        return _COMMANDS[self.command](context, name, self, place)

    def _check_place(self, context: Context, place: ClientPath) -> None:
        """Refuse a missing path, and a directory for any command but view."""
        try:
            info = context.looking.info(context.member, place.path)
        except errors.FileNotFound:
            if self.command == "create":
                return
            raise context.desk.missing(context.member, place.path) from None
        if self.command == "create":
            raise errors.FileExists(info.size)
        if info.kind == "directory" and self.command != "view":
            raise errors.NotAFile("directory")

    def words(
        self, context: Context, refusal: Refusal, place: ClientPath | None = None
    ) -> str | None:
        path = self.path.rstrip("/") or "/"
        if isinstance(refusal, errors.FileNotFound):
            return f"The path {path} does not exist. Please provide a valid path."
        if isinstance(refusal, errors.FileExists):
            return f"File already exists at: {path}. Cannot overwrite files using command `create`."
        if isinstance(refusal, errors.NotAFile) and refusal.kind == "directory":
            if self.command == "create":
                return self.words(context, errors.FileExists(0))
            only = "only the `view` command can be used on directories"
            return f"The path {path} is a directory and {only}"
        return None

    def require(self, name: str) -> None:
        """Raise Told if an argument that the command needs is missing; "" and 0 are values."""
        if self.raw.get(name) is None:
            words = f"Parameter `{name}` is required for command: {self.command}"
            raise Told(words, errors.InvalidArgs(name, "is required"))


def refuse(name: str, arguments: object, path: str | None, refusal: Refusal, lang: Lang) -> Answer:
    """A refusal of a call's arguments."""
    words = None
    if isinstance(refusal, errors.InvalidArgs) and refusal.argument == "command":
        given = cast("Mapping[str, object]", arguments).get("command")
        allowed = f"The allowed commands for the {name} tool are: {', '.join(_COMMAND_NAMES)}"
        words = f"Unrecognized command {given}. {allowed}"
    return compat_files.refused(
        arguments, refusal, lang, words, path=path, voices=_VOICES, only_text=True
    )


def _numbered(text: str, described: str, first: int = 1) -> str:
    """The text as `cat -n` shows it, including an empty line after the last newline."""
    if len(text) > MOST_SHOWN:
        text = text[:MOST_SHOWN] + _CUT
    lines = [f"{first + i:6}\t{line}" for i, line in enumerate(text.split("\n"))]
    return f"Here's the result of running `cat -n` on {described}:\n" + "\n".join(lines) + "\n"


def _text_of(text: Snapshot) -> str:
    """The text with LF line ends and without a byte order mark."""
    start = len(text.encoding.bom)
    return text.encoding.decode(text.data[start:]).replace("\r\n", "\n")


def _view(context: Context, name: str, call: TextEditorCall, place: ClientPath) -> Answer:
    """Show the numbered lines of a file, or the entries of a directory."""
    if context.looking.is_directory(context.member, place.path):
        if call.view_range:
            words = "The `view_range` parameter is not allowed when `path` points to a directory."
            raise Told(words, errors.InvalidArgs("view_range", "is for files"))
        return call.text(_listing(context, place), place.path)
    made: list[tuple[str, int]] = []

    def shown(base: Snapshot) -> list[Run]:
        lines = _text_of(base).split("\n")
        first, last = _range_of(call.view_range, len(lines))
        text = "\n".join(lines[first - 1 : last])
        made.append((text, first))
        seen = text[:MOST_SHOWN].count("\n") if len(text) > MOST_SHOWN else last - first + 1
        return [(first - 1, min(first - 1 + seen, base.line_count))]

    _, base = context.desk.contents(context.member, place.path, shown)
    if base is None:
        Snapshot.of(
            (context.desk.contents(context.member, place.path)[0]).data
        )  # raises BinaryFile
    text, first = made[-1]
    return call.text(_numbered(text, place.given, first), place.path)


def _range_of(given: tuple[int, ...], total: int) -> tuple[int, int]:
    """The first and last line of a range (1-based); raises Told."""
    if not given:
        return 1, total
    wrong = errors.InvalidArgs("view_range", f"the file has {total} lines")
    if len(given) != 2:
        raise Told("Invalid `view_range`. It should be a list of two integers.", wrong)
    first, last = given
    bad = f"Invalid `view_range`: {[first, last]}. Its"
    if first < 1 or first > total:
        inside = f"should be within the range of lines of the file: {[1, total]}"
        raise Told(f"{bad} first element `{first}` {inside}", wrong)
    if last > total:
        smaller = f"should be smaller than the number of lines in the file: `{total}`"
        raise Told(f"{bad} second element `{last}` {smaller}", wrong)
    if last != -1 and last < first:
        larger = f"should be larger or equal than its first `{first}`"
        raise Told(f"{bad} second element `{last}` {larger}", wrong)
    return first, total if last == -1 else last


def _listing(context: Context, place: ClientPath) -> str:
    """The entries of a directory, two levels deep, without hidden names."""
    found = [place.given]
    for entry in _visible(context, place):
        inner = place / entry.name
        found.append(inner.given)
        if entry.kind == "dir":
            try:
                found += [(inner / one.name).given for one in _visible(context, inner)]
            except Refusal:  # list the directory without its entries
                continue
    text = "".join(f"{one}\n" for one in found)
    if len(text) > MOST_SHOWN:
        text = text[:MOST_SHOWN] + _CUT
    head = f"Here's the files and directories up to 2 levels deep in {place.given}"
    return f"{head}, excluding hidden items:\n{text}\n"


def _visible(context: Context, place: ClientPath) -> list[DirEntry]:
    entries = context.looking.in_order(context.member, place.path)
    return [one for one in entries if not one.name.startswith(".")]


def _create(context: Context, name: str, call: TextEditorCall, place: ClientPath) -> Answer:
    call.require("file_text")
    done = compat_files.whole(context, name, place.path, call.file_text, overwrite=False)
    said = f"File created successfully at: {place.given}"
    return compat_files.answered(context, call, done, said)


def _str_replace(context: Context, name: str, call: TextEditorCall, place: ClientPath) -> Answer:
    call.require("old_str")
    try:
        done = _replaced(context, name, call, place)
    except errors.FileNotFound:
        raise context.desk.missing(context.member, place.path) from None
    except errors.PartialMatchFail as failure:
        words = f", old_str `{call.old_str}` did not appear verbatim in {place.given}."
        if failure.failures[0].matches_count:
            lines = _lines_with(context, place, call.old_str.replace("\r\n", "\n"))
            words = _several(call.old_str, lines or list(failure.failures[0].lines))
            raise Told(f"No replacement was performed{words}", failure) from None
        if call.old_str:
            request = BatchEdit(place.path, (StringEdit(call.old_str, call.new_str),))
            failure = with_plan(context, name, request, failure)
        remarks = compat_files.near_miss(failure, refusal_words(failure, context.lang, _VOICES))
        raise Told(f"No replacement was performed{words}", failure, remarks) from None
    except errors.InvalidArgs:  # an empty text is in every line
        lines = [1, *(line + 1 for line in _lines_with(context, place, "\n"))]
        refusal = errors.InvalidArgs("old_str", "must not be empty")
        raise Told(f"No replacement was performed{_several('', lines)}", refusal) from None
    text = _text_of(done.base)
    first = text[: max(text.find(call.old_str.replace("\r\n", "\n")), 0)].count("\n")
    return _edited(context, call, done, place, first, call.new_str.count("\n"))


def _several(old: str, lines: list[int]) -> str:
    return f". Multiple occurrences of old_str `{old}` in lines {lines}. Please ensure it is unique"


def _lines_with(context: Context, place: ClientPath, old: str) -> list[int]:
    """The lines (1-based) in which a text begins."""
    _, base = context.desk.contents(context.member, place.path)
    pieces = [] if base is None else _text_of(base).split(old)[:-1]
    before = accumulate(piece.count("\n") for piece in pieces)
    return list(dict.fromkeys(1 + at + i * old.count("\n") for i, at in enumerate(before)))


def _replaced(context: Context, name: str, call: TextEditorCall, place: ClientPath) -> Rewrite:
    member, batches, pair = context.member, context.batches, (call.old_str, call.new_str)
    if call.old_str and call.old_str.replace("\r\n", "\n") != call.new_str.replace("\r\n", "\n"):
        request = BatchEdit(place.path, (StringEdit(*pair),))
        return once_approved(
            context, name, lambda dry: batches.edit(member, name, request, Preconditions(), dry=dry)
        )
    return once_approved(
        context, name, lambda dry: batches.edit_in_order(member, name, place.path, [pair], dry=dry)
    )


def _edited(
    context: Context,
    call: TextEditorCall,
    done: Rewrite,
    place: ClientPath,
    line: int,
    more: int,
    *,
    inserts: bool = False,
) -> Answer:
    """The answer with the lines around `line` (0-based) and `more` lines after it."""
    start = max(0, line - SNIPPET_LINES)
    lines = _text_of(done.after).split("\n")
    end = line + SNIPPET_LINES + more + 1
    of, which = ("the edited file", _CHECKED) if inserts else (place.given, "")
    check = f"Review the changes and make sure they are as expected{which}."
    shown = _numbered("\n".join(lines[start:end]), f"a snippet of {of}", start + 1)
    said = (
        f"The file {place.given} has been edited. {shown}{check} Edit the file again if necessary."
    )
    return compat_files.answered(context, call, done, said)


def _insert(context: Context, name: str, call: TextEditorCall, place: ClientPath) -> Answer:
    call.require("insert_line")
    if call.raw.get("insert_text") is None:
        call.require("new_str")
    line, text = call.insert_line, call.insert_text or call.new_str

    def make(dry: bool) -> Rewrite:
        return context.batches.insert(context.member, name, place.path, line, text, dry=dry)

    try:
        done = once_approved(context, name, make)
    except errors.RangeOutOfBounds as refusal:
        inside = f"It should be within the range of lines of the file: {[0, refusal.total_lines]}"
        words = f"Invalid `insert_line` parameter: {line}. {inside}"
        wrong = errors.InvalidArgs("insert_line", f"the file has {refusal.total_lines} lines")
        raise Told(words, wrong) from None
    except errors.FileNotFound:
        raise context.desk.missing(context.member, place.path) from None
    return _edited(context, call, done, place, line, text.count("\n"), inserts=True)


def _undo_edit(context: Context, name: str, call: TextEditorCall, place: ClientPath) -> Answer:
    member = context.member
    past = context.desk.history.page(member, place.path, member.name).edits
    last = next(
        (one for one in past if one.state == "done" and not (one.undone_by or one.undoes)), None
    )
    if last is None:
        words = f"No edit history found for {place.given}."
        raise Told(words, errors.EditNotFound(0, "unknown"))
    undone = context.desk.undo(member, name, last.edit_id)
    if isinstance(undone, NotUndone):
        raise undone.refusal
    try:
        _, base = context.desk.contents(member, place.path, lambda base: [(0, base.line_count)])
    except errors.FileNotFound:
        base = None
    text = _numbered("" if base is None else _text_of(base), place.given)
    return call.text(f"Last edit to {place.given} undone successfully. {text}", place.path)


_COMMANDS: Mapping[str, Callable[[Context, str, TextEditorCall, ClientPath], Answer]] = {
    "view": _view,
    "create": _create,
    "str_replace": _str_replace,
    "insert": _insert,
    "undo_edit": _undo_edit,
}


def compat() -> tuple[Tool, ...]:
    """The catalog's rows: the filesystem server's tools, then the text editor."""
    tool = partial(Tool, toolset="compat", in_full=True, refuse=compat_files.refuse)
    writes = partial(tool, output=compat_files.OUTPUT)
    reads = partial(writes, reads=True)
    return (
        reads("read_text_file", call=compat_files.ReadTextFileCall, aliases=("read_file",)),
        reads(
            "read_media_file", call=compat_files.ReadMediaFileCall, output=compat_files.MEDIA_OUTPUT
        ),
        reads("read_multiple_files", call=compat_files.ReadMultipleFilesCall),
        writes("write_file", call=compat_files.WriteFileCall, destroys=True, idempotent=True),
        writes("edit_file", call=compat_files.EditFileCall, destroys=True),
        writes("create_directory", call=compat_files.CreateDirectoryCall, idempotent=True),
        reads("list_directory", call=compat_files.ListDirectoryCall),
        reads("list_directory_with_sizes", call=compat_files.ListDirectoryWithSizesCall),
        reads("directory_tree", call=compat_files.DirectoryTreeCall),
        writes("move_file", call=compat_files.MoveFileCall, destroys=True),
        reads("search_files", call=compat_files.SearchFilesCall),
        reads("get_file_info", call=compat_files.GetFileInfoCall),
        reads("list_allowed_directories", call=compat_files.ListAllowedDirectoriesCall),
        tool(EDITOR, call=TextEditorCall, destroys=True, refuse=refuse, aliases=(OLD_EDITOR,)),
    )
