"""Tools under names that agents know from elsewhere, made on what the batch toolset is made on.

What lives here: the arguments of the MCP filesystem server's `read_text_file`,
`write_file` and `edit_file` and of the text editor `str_replace_based_edit_tool`,
and the step from them to the desk. What must not: how text is matched or written,
the fields of an answer (`batch_answer`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import cast

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
from copydesk.tools.batch import MANY, content_of, made, reading, written
from copydesk.tools.catalog import Answer, Context, Tool
from copydesk.tools.envelope import Envelope, Status
from copydesk.tools.messages import say
from copydesk.tools.report import Fields, Lang
from copydesk.tools.wire import Args, arguments, flag, number, numbers, text, word

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


def read_text_file(context: Context, name: str, args: Args) -> Answer:
    """A file, or its first or last lines."""
    path = context.path_below(args.text("path"))
    head, tail = args.number("head", 0), args.number("tail", 0)
    if head and tail:
        raise InvalidArgs("tail", "cannot be given together with head")
    lines = f"-{min(tail, _ALL)}~" if tail else ""
    found = context.desk.read(context.member, path, lines, head or _ALL)
    cut = found.cut_by_characters or (found.cut_by_lines and not head)
    content, start = content_of(found), found.first_line
    return reading(context, args, found, content, start=start, voice="compat", truncated=cut)


def write_file(context: Context, name: str, args: Args) -> Answer:
    """A whole file, over what is there if there is something."""
    return _whole(context, name, args, args.text("content"), overwrite=True)


def edit_file(context: Context, name: str, args: Args) -> Answer:
    """Several replacements, all or none."""
    given = cast("list[dict[str, str]]", args.given["edits"])
    with put_off() if len(given) >= MANY else nullcontext():
        path = context.path_below(args.text("path"))
        for index, one in enumerate(given):
            if not one["oldText"]:
                raise InvalidArgs(f"edits[{index}].oldText", "must not be empty")
        if all(_same(one["oldText"], one["newText"]) for one in given):
            reason = "no edit changes anything: oldText and newText are equal"
            raise InvalidArgs("edits", reason)
        edits = (StringEdit(one["oldText"], one["newText"]) for one in given)
        return _replaced(context, name, args, BatchEdit(path, tuple(edits)))


def text_editor(context: Context, name: str, args: Args) -> Answer:
    """One of the text editor's commands."""
    command = args.text("command")
    others = {one for names in _ARGUMENTS_OF.values() for one in names}
    for given in others.difference(_ARGUMENTS_OF[command]).intersection(args.given):
        raise InvalidArgs(given, "is an argument of another command")
    return _COMMANDS[command](context, name, args)


def refuse(name: str, arguments: object, path: str | None, refusal: Refusal, lang: Lang) -> Answer:
    """A refusal of this toolset."""
    reads = name == "read_text_file" or (name == EDITOR and _views(arguments))
    voices = ("edit", "compat", "batch") if name == EDITOR else ("compat", "batch")
    return envelope.refused(refusal, arguments, path, lang, writes=not reads, voices=voices)


def compat() -> tuple[Tool, ...]:
    """The catalog's rows of this toolset."""
    tool = partial(Tool, toolset="compat", in_full=True, refuse=refuse)
    edit = arguments({"oldText": text(), "newText": text()}, "oldText", "newText")
    edits = {"type": "array", "minItems": 1, "items": edit}
    editor = {
        "command": word(*_ARGUMENTS_OF),
        "path": text(),
        "view_range": numbers(),
        "file_text": text(),
        "old_str": text(),
        "new_str": text(),
        "insert_line": number(),
        "insert_text": text(),
    }
    return (
        tool(
            name="read_text_file",
            schema=arguments({"path": text(), "head": number(), "tail": number()}, "path"),
            run=read_text_file,
            reads=True,
            idempotent=True,
        ),
        tool(
            name="write_file",
            schema=arguments({"path": text(), "content": text()}, "path", "content"),
            run=write_file,
            destroys=True,
            idempotent=True,
        ),
        tool(
            name="edit_file",
            schema=arguments(
                {"path": text(), "edits": edits, "dryRun": flag(False)}, "path", "edits"
            ),
            run=edit_file,
            destroys=True,
        ),
        tool(
            name=EDITOR,
            schema=arguments(editor, "command", "path"),
            run=text_editor,
            destroys=True,
        ),
    )


def _view(context: Context, name: str, args: Args) -> Answer:
    """The lines of a file with their numbers, or what is in a directory."""
    path = context.path_below(args.text("path"), folder=True)
    lines = _range_of(cast("list[int]", args.given.get("view_range") or []))
    try:
        found = context.desk.read(context.member, path, lines, _ALL)
    except (RangeOutOfBounds, InvalidRange) as refusal:
        raise InvalidArgs("view_range", _the_file_has(refusal.total_lines)) from None
    except (NotAFile, AccessDenied) as refusal:
        if lines or (isinstance(refusal, NotAFile) and refusal.kind != "directory"):
            raise
        return _listing(context, args, path, refusal)
    content = _numbered(found)
    return reading(context, args, found, content, start=found.first_line, voice="compat")


def _create(context: Context, name: str, args: Args) -> Answer:
    """A new file."""
    return _whole(context, name, args, _given(args, "file_text"), overwrite=False)


def _str_replace(context: Context, name: str, args: Args) -> Answer:
    """One replacement."""
    old, new = _given(args, "old_str"), args.text("new_str")
    if not old:
        raise InvalidArgs("old_str", "must not be empty")
    if _same(old, new):
        raise InvalidArgs("new_str", "is the same as old_str, so nothing would change")
    path = context.path_below(args.text("path"))
    return _replaced(context, name, args, BatchEdit(path, (StringEdit(old, new),)))


def _insert(context: Context, name: str, args: Args) -> Answer:
    """New lines after one."""
    path, content = context.path_below(args.text("path")), _given(args, "insert_text")
    if not content:
        raise InvalidArgs("insert_text", "must not be empty")
    line = _required(args, "insert_line").number("insert_line", 0)
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
    return written(context, args, done, bad=bad, dry=False, saying=saying, known=known)


_COMMANDS: dict[str, Callable[[Context, str, Args], Answer]] = {
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


def _whole(context: Context, name: str, args: Args, content: str, *, overwrite: bool) -> Answer:
    path, expected = context.path_below(args.text("path")), Preconditions()

    def make() -> Rewrite:
        return context.batches.write(
            context.member, name, path, content, expected, overwrite=overwrite, blindly=True
        )

    try:
        done = make()
    except (FileExists, FileNotFound):
        if not overwrite:
            raise
        done = make()  # somebody else has just made the file, or removed it
    bad = report_fields.lost(done.after, None if done.created else done.base)
    saying = "batch.created" if done.created else "batch.replaced"
    return written(context, args, done, bad=bad, dry=False, saying=saying)


def _replaced(context: Context, name: str, args: Args, request: BatchEdit) -> Answer:
    dry = args.flag("dryRun", False)
    done: Rewrite = made(context, name, request, args, dry=dry)
    bad = request.bad_character
    return written(context, args, done, bad=bad, dry=dry, dry_saying="compat.dry")


def _listing(context: Context, args: Args, path: RelPath, unread: Refusal) -> Answer:
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
    where = envelope.context_of(args.raw, str(path))
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


def _given(args: Args, argument: str) -> str:
    """A text that a command needs, which may be empty; raises InvalidArgs."""
    return _required(args, argument).text(argument)


def _required(args: Args, argument: str) -> Args:
    """The arguments, with one that a command needs: here "" and 0 are values."""
    if args.raw.get(argument) is None:
        raise InvalidArgs(argument, "is required")
    return args


def _range_of(given: list[int]) -> str:
    """The range of lines, as the desk takes it; raises InvalidArgs."""
    if not given:
        return ""
    first, last = (int(given[0]), int(given[-1]))
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
