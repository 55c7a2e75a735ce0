"""The tools of the compat toolset: those of the MCP filesystem server, and Anthropic's text editor.

They have the names, arguments, results and messages of the originals. A call that would lose bytes
there is refused here, and the text editor preserves tabs, line ends and undecodable bytes where the
original loses them; the manual lists each such difference.
"""

from __future__ import annotations

import base64
import json
import posixpath
import re
import time
import unicodedata
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from types import EllipsisType, NoneType
from typing import Annotated, Any, ClassVar, Literal, TypedDict, cast

from copydesk import errors
from copydesk.desk.backends.snapshots import Run
from copydesk.desk.desk import Rewrite, in_order, insert
from copydesk.desk.outcome import NotUndone, Withheld
from copydesk.edit.kinds.replace import compile_batch
from copydesk.edit.request import BatchEdit, MoveFile, Preconditions, StringEdit, check_count
from copydesk.errors import Refusal
from copydesk.search.listings import DirEntry, FileInfo
from copydesk.text.diff import patch
from copydesk.text.relpath import RelPath, matches
from copydesk.text.snapshot import Snapshot
from copydesk.tools import refusals, reports
from copydesk.tools.arguments import list_of
from copydesk.tools.batch import edited, plan_of, rewritten, with_plan, written
from copydesk.tools.catalog import Context, Tool, ToolCall
from copydesk.tools.messages import say
from copydesk.tools.refusals import refusal_words
from copydesk.tools.report import Answer, Envelope, Fields, Lang, Original, Value

VOICES = ("compat", "batch")

_TEXT: Mapping[str, Any] = {"type": "string"}


def _closed(properties: Mapping[str, Any], *optional: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


OUTPUT = _closed({"content": _TEXT})
_MEDIA = [
    _closed({"type": {**_TEXT, "enum": ["image", "audio"]}, "data": _TEXT, "mimeType": _TEXT}),
    _closed(
        {
            "type": {**_TEXT, "const": "resource"},
            "resource": _closed(dict.fromkeys(("uri", "mimeType", "blob"), _TEXT), "mimeType"),
        }
    ),
]
MEDIA_OUTPUT = _closed({"content": {"type": "array", "items": {"anyOf": _MEDIA}}})
"""The structured content of an answer."""


@dataclass(frozen=True, slots=True)
class ClientPath:
    """A path as an absolute path, and relative to the root."""

    full: str
    path: RelPath


class Told(Exception):
    """A refusal in the words of the original program, if it has any, with remarks."""

    def __init__(self, words: str | None, refusal: Refusal, remarks: tuple[str, ...] = ()) -> None:
        super().__init__(words)
        self.words, self.refusal, self.remarks = words, refusal, remarks


def allowed(context: Context) -> list[str]:
    """The paths of the root, as configured and resolved."""
    real = context.looking.files.root
    return [*(f"/{root}" for root in context.roots if f"/{root}" != real), real]


def target_of(context: Context, text: str) -> ClientPath:
    """Resolve a path that is absolute or relative to the root; raises Refusal, Told."""
    if re.match(r"[A-Za-z]:(?:[\\/]|\Z)", text):
        raise Told(
            f"Access denied - Windows-style path received on a POSIX host: {text}",
            errors.InvalidPath("absolute path outside of the workspace"),
        )
    if "\0" in text:
        raise errors.InvalidPath("NUL in path")
    if text == "~" or text.startswith("~/"):
        text = posixpath.expanduser(text)
    full = "/" + posixpath.normpath(posixpath.join(context.looking.files.root, text)).lstrip("/")
    try:
        return ClientPath(full, context.path_below(full, folder=True))
    except errors.InvalidPath as refusal:
        if "outside" not in refusal.reason:
            raise
        raise Told(_denied(context, "path", full), refusal) from None


def _denied(context: Context, what: str, full: str) -> str:
    return (
        f"Access denied - {what} outside allowed directories: {full} not in"
        f" {', '.join(allowed(context))}"
    )


def real_path(context: Context, real: RelPath) -> str:
    """The absolute path for a real path."""
    return posixpath.join(context.looking.files.root, *real.parts)


def _info_of(context: Context, path: RelPath, *, stands: bool = False) -> FileInfo | None:
    """The entry at a path; None if it is missing or hidden from the member.

    `stands`: a missing one is refused; the write itself refuses a hidden one.
    """
    try:
        return context.looking.info(context.member, path)
    except Refusal as refusal:
        if stands and isinstance(refusal, errors.FileNotFound):
            raise
        return None


class CompatCall(ToolCall):
    """A call of a tool of another program, answered in that program's words."""

    system_call = "open"
    """The system call named in Node's error message."""
    voices: ClassVar[tuple[str, ...]] = VOICES
    only_text: ClassVar[bool] = False

    def run(self, context: Context, name: str) -> Answer:
        target: ClientPath | None = None
        try:
            target = target_of(context, str(self.raw.get("path", ".")))
            return self.do(context, name, target)
        except Told as raised:
            error = raised
        except Refusal as refusal:
            error = Told(None if target is None else self.words(context, refusal, target), refusal)
        return refused(
            *(self.raw, error.refusal, context.lang, error.words, error.remarks),
            path=None if target is None else str(target.path),
            voices=self.voices,
            only_text=self.only_text,
        )

    @abstractmethod
    def do(self, context: Context, name: str, target: ClientPath) -> Answer:
        """Run the call; `target` is where `path` leads, or the root without a path."""

    def words(self, context: Context, refusal: Refusal, target: ClientPath) -> str | None:
        """The other program's message for the refusal; None if it has none."""
        parts, call = target.path.parts, self.system_call
        above = (_info_of(context, RelPath(parts[:end])) for end in range(1, len(parts)))
        match refusal:
            case errors.FileNotFound() if all(
                info is None or info.kind == "directory" for info in above
            ):
                return f"ENOENT: no such file or directory, {call} '{target.full}'"
            case errors.FileNotFound() | errors.NotAFile(kind="below a file"):
                return f"ENOTDIR: not a directory, realpath '{target.full}'"
            case errors.NotAFile(kind="directory"):
                return "EISDIR: illegal operation on a directory, read"
            case errors.InvalidPath(reason="not a directory"):
                return f"ENOTDIR: not a directory, {call} '{target.full}'"
            case errors.InvalidPath(reason="too many symlinks on the way"):
                return f"ELOOP: too many symbolic links encountered, {call} '{target.full}'"
            case errors.InvalidPath():
                return _denied(context, "symlink target", target.full)
            case _:
                return None

    def text(
        self, content: str, path: RelPath | None = None, *remarks: str, **data: Value
    ) -> Answer:
        """The answer with a text, and remarks on it."""
        envelope = Envelope(
            "success", " ".join((content, *remarks)), self.raw, None if path is None else str(path)
        )
        return self.original(
            Answer({"content": content, **data}, remarks=remarks, envelope=envelope), content
        )

    def original(self, answer: Answer, content: str) -> Answer:
        """The answer in the form of the other program: this text."""
        structured: Fields | None = None if self.only_text else {"content": content}
        return replace(
            answer,
            original=Original(({"type": "text", "text": content},), structured, self.only_text),
        )


def refused(
    arguments: object,
    refusal: Refusal,
    lang: Lang,
    words: str | None = None,
    remarks: tuple[str, ...] = (),
    path: str | None = None,
    voices: Sequence[str] = VOICES,
    only_text: bool = False,
) -> Answer:
    """A refusal with these words and remarks; without words, with our own and the code."""
    answer = refusals.in_envelope(refusal, arguments, path, lang, writes=True, voices=voices)
    if words is None:
        words = f"{refusals.code_of(refusal)}: {refusal_words(refusal, lang, voices)}"
    elif isinstance(refusal, errors.FileNotFound) and refusal.similar:
        remarks = (*remarks, say("compat.similar", lang, {"names": ", ".join(refusal.similar)}))
    return replace(
        answer,
        remarks=remarks,
        original=Original(({"type": "text", "text": words},), None, only_text),
    )


def near_miss(failure: errors.PartialMatchFail, own: str) -> tuple[str, ...]:
    """The closest text to one that was not found, and how they differ, or the corrected edit."""
    near = failure.failures[0]
    told = own, *(near.difference or ()), near.corrected_old_string, failure.corrected_diff
    return ("\n".join(filter(None, told)),)


def refuse(name: str, arguments: object, path: str | None, refusal: Refusal, lang: Lang) -> Answer:
    """A refusal of a call's arguments."""
    words = None
    if isinstance(refusal, errors.PathRequired):
        refusal = errors.InvalidArgs("path", "is required")
    if isinstance(refusal, errors.InvalidArgs):
        wrong = _mistyped(refusal, arguments) or refusal_words(refusal, lang, VOICES)
        words = (
            f"MCP error -32602: Input validation error: Invalid arguments for tool {name}: {wrong}"
        )
    return refused(arguments, refusal, lang, words, path=path)


def _mistyped(refusal: errors.InvalidArgs, arguments: object) -> str:
    """The original's message for an argument that is missing or of the wrong type."""
    if (reason := re.fullmatch(r"is required|must be of type (\w+)", refusal.reason)) is None:
        return ""
    name = refusal.argument
    kind = reason[1] or ("array" if name in ("edits", "paths") else "string")
    kind = "number" if kind == "integer" else kind
    value: object = arguments
    for key in re.findall(r"[^.\[\]]+", name):
        if isinstance(value, Mapping):
            value = cast("Mapping[str, object]", value).get(key, ...)
        elif isinstance(value, list):
            value = cast("list[object]", value)[int(key)]
    return (
        f"Invalid input: expected {kind}, received {_JS_TYPES.get(type(value), 'object')} at {name}"
    )


_JS_TYPES: dict[type, str] = {
    EllipsisType: "undefined",
    NoneType: "null",
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    list: "array",
}


class _ReadingCall(CompatCall):
    open = True


class ReadTextFileCall(_ReadingCall):
    """Read a file, or its first or last lines."""

    path: str
    head: int = 0
    tail: int = 0

    def do(self, context: Context, name: str, target: ClientPath) -> Answer:
        if self.head and self.tail:
            raise Told(
                "Cannot specify both head and tail parameters simultaneously",
                errors.InvalidArgs("tail", "cannot be given together with head"),
            )
        self.system_call = "stat" if self.tail else "open"
        return self.text(read_text(context, target, self.head, self.tail), target.path)


def read_text(context: Context, target: ClientPath, head: int = 0, tail: int = 0) -> str:
    """The unchanged text of a file, or some of its lines without the last newline."""

    def shown(base: Snapshot) -> list[Run]:
        count = base.line_count
        first = max(count + base.ends_with_newline - max(tail, 0), 0) if tail else 0
        return [(first, min(max(head, 0), count) if head else count)]

    try:
        document, base = context.desk.contents(context.member, target.path, shown)
    except errors.FileTooLarge:
        return _part_of_large(context, target, head, tail)
    data = document.data
    text = data.decode("utf-8", "replace") if base is None else base.encoding.decode(data)
    if head:
        return "\n".join(text.removesuffix("\n").split("\n")[: max(head, 0)])
    if tail:
        lines = text.replace("\r\n", "\n").split("\n") if text else []
        return "\n".join(lines[-tail:] if tail > 0 else [])
    return text


def _part_of_large(context: Context, target: ClientPath, head: int, tail: int) -> str:
    """Lines of a file too large to read whole; FileTooLarge if they are too long."""
    lines = f"-{max(tail - 1, 1)}~" if tail else ""
    reading = context.desk.read(context.member, target.path, lines, max(head, 0) or 1 << 30)
    is_cut = reading.cut_by_characters or (reading.cut_by_lines and not head)
    if is_cut or not (head or tail):
        raise errors.FileTooLarge(reading.size_bytes, 0)
    is_closed = bool(tail) and reading.ends_with_newline is not False
    return "\n".join(reading.lines) + "\n" * is_closed


class ReadMediaFileCall(_ReadingCall):
    """Read a file as base64."""

    path: str

    def do(self, context: Context, name: str, target: ClientPath) -> Answer:
        document, _ = context.desk.contents(context.member, target.path)
        data = base64.b64encode(document.data).decode()
        kind = _MEDIA_TYPES.get(posixpath.splitext(document.real.name)[1].lower(), _OTHER_TYPE)
        if kind != _OTHER_TYPE:
            block: Fields = {"type": kind.split("/")[0], "data": data, "mimeType": kind}
        else:
            from urllib.parse import quote  # rarely needed

            real = quote(real_path(context, document.real), safe="/!$&'()*+,;=:@-._")
            resource: Fields = {"uri": f"file://{real}", "mimeType": kind, "blob": data}
            block = {"type": "resource", "resource": resource}
        content: Fields = {"content": [block]}
        return Answer(
            content,
            envelope=Envelope("success", kind, self.raw, str(target.path)),
            original=Original((block,), content),
        )


_OTHER_TYPE = "application/octet-stream"
_MEDIA_TYPES = {
    f".{ending}": f"{kind}/{name}"
    for kind, names in (
        ("image", "png:png jpg:jpeg jpeg:jpeg gif:gif webp:webp bmp:bmp svg:svg+xml"),
        ("audio", "mp3:mpeg wav:wav ogg:ogg flac:flac"),
    )
    for ending, name in (pair.split(":") for pair in names.split())
}


class ReadMultipleFilesCall(_ReadingCall):
    """Read several files; one that cannot be read does not stop the others."""

    paths: tuple[str, ...]

    def do(self, context: Context, name: str, target: ClientPath) -> Answer:
        if not self.paths:
            raise errors.InvalidArgs("paths", "must not be empty")
        texts, room = list[str](), MOST_TOGETHER
        for path in self.paths:  # the first of any size, as when read alone
            texts.append(self._section(context, path, room if texts else None))
            room -= len(texts[-1].encode())
        return self.text("\n---\n".join(texts))

    def _section(self, context: Context, path: str, room: int | None) -> str:
        target: ClientPath | None = None
        try:
            target = target_of(context, path)
            if room is None or context.looking.info(context.member, target.path).size <= room:
                return f"{path}:\n{read_text(context, target)}\n"
            words = say("compat.full", context.lang)
        except Told as error:
            return f"{path}: Error - {error.words}"
        except Refusal as refusal:
            words = refusal_words(refusal, context.lang, VOICES)
            if target is not None:
                own = f"{refusals.code_of(refusal)}: {words}"
                words = self.words(context, refusal, target) or own
        return f"{path}: Error - {words}"


MOST_TOGETHER = 16 << 20  # bytes of text in one answer about several files


class WriteFileCall(CompatCall):
    """Write a whole file; an existing one is replaced."""

    path: str
    content: str

    def do(self, context: Context, name: str, target: ClientPath) -> Answer:
        _info_of(context, target.path.parent, stands=True)
        try:
            done = whole(context, name, target.path, self.content, overwrite=True)
        except errors.NotAFile as refusal:
            if refusal.kind != "directory":
                raise
            raise Told(
                "EISDIR: illegal operation on a directory,"
                f" rename '{target.full}.tmp' -> '{target.full}'",
                refusal,
            ) from None
        return answered(context, self, done, f"Successfully wrote to {self.path}")


def whole(context: Context, name: str, path: RelPath, content: str, *, overwrite: bool) -> Rewrite:
    """Write a whole file."""
    call = context.member, name, path, content, Preconditions()
    make = partial(context.batches.write, *call, overwrite=overwrite, blindly=True)
    try:
        return rewritten(context, name, path, make)
    except (errors.FileExists, errors.FileNotFound):
        if not overwrite:
            raise
        return rewritten(context, name, path, make)  # somebody has just created or removed it


def answered(
    context: Context, call: CompatCall, done: Rewrite, said: str, *, dry: bool = False
) -> Answer:
    """The answer of a write, in these words."""
    answer = written(
        context,
        call,
        done,
        bad=reports.lost(done.after, None if done.created else done.base),
        dry=dry,
        saying="batch.created" if done.created else "batch.done",
        dry_saying="compat.dry",
    )
    return call.original(answer, said)


class ReplacementOfText(TypedDict):
    """One edit of `edit_file`."""

    oldText: str
    newText: str


class EditFileCall(CompatCall):
    """Make several replacements, one after the other, all or none."""

    path: str
    edits: Annotated[tuple[ReplacementOfText, ...], list_of(ReplacementOfText)]
    dryRun: bool = False

    def do(self, context: Context, name: str, target: ClientPath) -> Answer:
        check_count("edits", len(self.edits))
        pairs = [(edit["oldText"], edit["newText"]) for edit in self.edits]
        compiled = in_order(target.path, pairs, corrects=context.member.corrects)
        try:
            done = edited(context, name, target.path, compiled, dry=self.dryRun)
        except errors.PartialMatchFail as failure:
            old = f"edits[{failure.failed_index}].oldText"
            names = {"old": old, "reader": "read_text_file"}
            is_known = bool(failure.failures[0].lines)  # of places
            if all(old for old, _ in pairs) and not (self.dryRun or is_known):
                failure = with_plan(context, name, BatchEdit.of(target.path, pairs), failure)
            own = refusal_words(failure, context.lang, ("edit", *VOICES), names)
            if is_known:
                raise Told(f"{failure.code}: {own}", failure, ()) from None
            raise Told(
                f"Could not find exact match for edit:\n{pairs[failure.failed_index][0]}",
                failure,
                near_miss(failure, own),
            ) from None
        real = real_path(context, context.looking.info(context.member, target.path).real)
        before, after = (
            text.encoding.decode(text.data).replace("\r\n", "\n")
            for text in (done.base, done.after)
        )
        diff = patch(before, after, real)
        fence = "`" * max([3, *(1 + len(run) for run in re.findall("`{3,}", diff))])
        return answered(context, self, done, f"{fence}diff\n{diff}{fence}\n\n", dry=self.dryRun)


class CreateDirectoryCall(CompatCall):
    """Create a directory and its missing parents."""

    path: str

    def do(self, context: Context, name: str, target: ClientPath) -> Answer:
        try:
            context.looking.make_directory(context.member, target.path)
        except errors.NotAFile as refusal:
            if _info_of(context, target.path) is None:
                raise
            raise Told(f"EEXIST: file already exists, mkdir '{target.full}'", refusal) from None
        return self.text(f"Successfully created directory {self.path}", target.path)


def _kind(entry: DirEntry) -> str:
    return "[DIR]" if entry.kind == "dir" else "[FILE]"


class _DirectoryCall(_ReadingCall):
    system_call = "scandir"


class ListDirectoryCall(_DirectoryCall):
    """List the names in a directory."""

    path: str

    def do(self, context: Context, name: str, target: ClientPath) -> Answer:
        return self.text(
            "\n".join(
                f"{_kind(entry)} {entry.name}"
                for entry in context.looking.in_order(context.member, target.path)
            ),
            target.path,
        )


class ListDirectoryWithSizesCall(_DirectoryCall):
    """List the names in a directory with their sizes."""

    path: str
    sortBy: Literal["name", "size"] = "name"

    def do(self, context: Context, name: str, target: ClientPath) -> Answer:
        entries = [
            (entry, 0 if info is None else info.size)
            for entry in context.looking.in_order(context.member, target.path)
            for info in (_info_of(context, target.path / entry.name),)
        ]
        files = [size for entry, size in entries if entry.kind != "dir"]
        entries.sort(
            key=lambda row: (-row[1],) if self.sortBy == "size" else collation_key(row[0].name)
        )
        rows = [
            *(
                f"{_kind(entry)} {entry.name:30} "
                + ("" if entry.kind == "dir" else f"{_size_words(size):>10}")
                for entry, size in entries
            ),
            "",
            f"Total: {len(files)} files, {len(entries) - len(files)} directories",
            f"Combined size: {_size_words(sum(files))}",
        ]
        return self.text("\n".join(rows), target.path)


def _size_words(size: int) -> str:
    if size < 1024:
        return f"{size} B"
    power = min((size.bit_length() - 1) // 10, 4)
    return f"{size / 1024**power:.2f} {('B', 'KB', 'MB', 'GB', 'TB')[power]}"


_ORDER = "_-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789abcdefghijklmnopqrstuvwxyz"
_RANKS = {char: rank for rank, char in enumerate(_ORDER, 1)}


def collation_key(name: str) -> tuple[object, ...]:
    """The sort key of names for people: punctuation, digits, letters; then accents and case."""
    plain = unicodedata.normalize("NFD", name)
    letters = [char for char in plain if not unicodedata.combining(char)]
    ranks = [_RANKS.get(char.lower(), len(_RANKS) + 1 + ord(char.lower()[0])) for char in letters]
    ranks = [0 if char.isspace() else rank for char, rank in zip(letters, ranks, strict=True)]
    marks = [char for char in plain if unicodedata.combining(char)]
    return ranks, marks, [char.isupper() for char in letters], name


class DirectoryTreeCall(_DirectoryCall):
    """Show the tree of a directory as JSON."""

    path: str
    excludePatterns: tuple[str, ...] = ()

    def do(self, context: Context, name: str, target: ClientPath) -> Answer:
        patterns = [
            form
            for pattern in self.excludePatterns
            for form in (
                pattern,
                *(() if "*" in pattern else (f"**/{pattern}", f"**/{pattern}/**")),
            )
        ]
        walk = context.looking.walk(
            context.member,
            target.path,
            lambda path, name, entry: any(matches(name, pattern) for pattern in patterns),
        )
        children: dict[str, list[Value]] = {"": []}  # of the directories, by path below the top
        for depth, path, entry in walk:
            if depth > MOST_DEEP:
                raise errors.InvalidArgs(
                    "path", f"is of a tree more than {MOST_DEEP} directories deep"
                )
            node: Fields = {"name": entry.name, "type": "file"}
            children[path.rpartition("/")[0]].append(node)
            if entry.kind == "dir":
                children[path] = []
                node |= {"type": "directory", "children": children[path]}
        return self.text(json.dumps(children[""], indent=2, ensure_ascii=False), target.path)


MOST_DEEP = 200  # nested directories of a tree


class MoveFileCall(CompatCall):
    """Move a file or directory; all files of a directory move in one transaction."""

    source: str
    destination: str

    def do(self, context: Context, name: str, target: ClientPath) -> Answer:
        source, to = target_of(context, self.source), target_of(context, self.destination)
        try:
            if existing := _info_of(context, to.path):
                raise errors.FileExists(existing.size)
            info = context.looking.info(context.member, source.path)
            _info_of(context, to.path.parent, stands=True)
            left: tuple[RelPath, ...] = ()
            if info.kind == "directory":
                left = self._move_all(context, name, info.real, to)
            else:
                self._apply(context, name, {info.real: to.path})
        except errors.FileNotFound as refusal:
            words = f"ENOENT: no such file or directory, rename '{source.full}' -> '{to.full}'"
            raise Told(words, refusal) from None
        except errors.FileExists as refusal:
            raise Told(f"Destination already exists: {to.full}", refusal) from None
        message = f"Successfully moved {self.source} to {self.destination}"
        names = list(map(str, left))
        if not names:
            return self.text(message, to.path)
        words = say("compat.left", context.lang, {"names": ", ".join(names[:_MOST_TOLD])})
        return self.text(message, to.path, words, left=[*names])

    def _move_all(
        self, context: Context, name: str, source: RelPath, to: ClientPath
    ) -> tuple[RelPath, ...]:
        """Move a directory; return the directories that could not be created or removed."""
        member = context.member
        if source.covers(to.path):
            raise Told(
                f"EINVAL: invalid argument, rename '{real_path(context, source)}' -> '{to.full}'",
                errors.InvalidArgs("destination", "is inside of source"),
            )
        directories, files = context.looking.tree(member, source, MOST_MOVED)
        if len(files) + len(directories) > MOST_MOVED:
            raise errors.InvalidArgs("source", f"has more than {MOST_MOVED} files and directories")

        moved_directories, moved_files = (
            {path: RelPath((*to.path.parts, *path.parts[len(source.parts) :])) for path in paths}
            for paths in (directories, files)
        )
        context.looking.check_directories(member, moved_directories, alone=not files)
        if files:
            self._apply(context, name, moved_files)
        return context.looking.move_directories(member, moved_directories)

    def _apply(self, context: Context, name: str, targets: Mapping[RelPath, RelPath]) -> None:
        """Move the files, all or none; discard the plans of a refused move."""
        desk, member = context.desk, context.member
        waiting = {
            plan.request: plan.id
            for plan in desk.waiting(member)
            if (plan.owner, plan.tool) == (member.name, name)
        }
        ids: list[str] = []
        try:
            for source, target in targets.items():
                request = MoveFile(source, target)
                ids.append(waiting.get(request) or plan_of(context, name, request).plan.id)
            done = desk.apply_all(member, name, ids)
            if isinstance(done, Withheld):
                raise done.refusal
        except Refusal as refusal:
            for hunk_id in () if isinstance(refusal, errors.ApprovalRequired) else ids:
                desk.discard(member, hunk_id)
            raise


_MOST_TOLD = 10
MOST_MOVED = 1_000  # files and directories to move with a directory


class SearchFilesCall(_DirectoryCall):
    """Find the files and directories whose path matches a glob."""

    path: str
    pattern: str
    excludePatterns: tuple[str, ...] = ()

    def do(self, context: Context, name: str, target: ClientPath) -> Answer:
        looking, member = context.looking, context.member
        base = real_path(context, looking.info(member, target.path).real)

        def is_left_out(path: RelPath, name: str, entry: DirEntry) -> bool:
            leads_nowhere = entry.kind == "symlink" and _info_of(context, path) is None
            return leads_nowhere or any(matches(name, pattern) for pattern in self.excludePatterns)

        walk = looking.walk(member, target.path, is_left_out, skip_refused=True)
        paths = (f"{base}/{name}" for _, name, _ in walk if matches(name, self.pattern))
        return self.text("\n".join(paths) or "No matches found", target.path)


class GetFileInfoCall(_ReadingCall):
    """Show the properties of a file or directory, without its content."""

    system_call = "stat"
    path: str

    def do(self, context: Context, name: str, target: ClientPath) -> Answer:
        info = context.looking.info(context.member, target.path)
        rows = {
            "size": info.size,
            "created": _date(info.birth_ns or info.mtime_ns),
            "modified": _date(info.mtime_ns),
            "accessed": _date(info.atime_ns),
            "isDirectory": str(info.kind == "directory").lower(),
            "isFile": str(info.kind == "file").lower(),
            "permissions": f"{info.mode & 0o777:03o}",
        }
        return self.text("\n".join(f"{key}: {value}" for key, value in rows.items()), target.path)


def _date(ns: int) -> str:
    """The date as JavaScript writes it, in the time zone of this machine."""
    at = time.localtime(ns // 10**9)
    day, month, date, clock, year = time.asctime(at).split()
    zone = "Coordinated Universal Time" if at.tm_zone == "UTC" else at.tm_zone
    return f"{day} {month} {date:0>2} {year} {clock} GMT{time.strftime('%z', at)} ({zone})"


class ListAllowedDirectoriesCall(_ReadingCall):
    """List the directories that may be used."""

    def do(self, context: Context, name: str, target: ClientPath) -> Answer:
        return self.text("Allowed directories:\n" + "\n".join(allowed(context)))


# The text editor.


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


class TextEditorCall(CompatCall):
    """One of the text editor's commands."""

    command: Literal["view", "create", "str_replace", "insert", "undo_edit"]
    path: str
    view_range: tuple[int, ...] = ()
    file_text: str = ""
    old_str: str = ""
    new_str: str = ""
    insert_line: int = 0
    insert_text: str = ""

    voices, only_text = _VOICES, True

    def do(self, context: Context, name: str, target: ClientPath) -> Answer:
        try:
            info = context.looking.info(context.member, target.path)
            if self.command == "create":
                raise errors.FileExists(info.size)
            if info.kind == "directory" and self.command != "view":
                raise errors.NotAFile("directory")
        except errors.FileNotFound:
            if self.command != "create":
                raise context.desk.missing(context.member, target.path) from None
        return _COMMANDS[self.command](context, name, self, target)

    @property
    def named(self) -> str:
        """The path as given, without a slash at its end."""
        return self.path.rstrip("/") or "/"

    def words(self, context: Context, refusal: Refusal, target: ClientPath) -> str | None:
        match refusal:
            case errors.FileNotFound():
                return f"The path {self.named} does not exist. Please provide a valid path."
            case errors.NotAFile(kind="directory") if self.command != "create":
                only = "only the `view` command can be used on directories"
                return f"The path {self.named} is a directory and {only}"
            case errors.FileExists() | errors.NotAFile(kind="directory"):
                only = "Cannot overwrite files using command `create`."
                return f"File already exists at: {self.named}. {only}"
            case _:
                return None

    def require(self, name: str) -> None:
        """Raise Told if an argument that the command needs is missing; "" and 0 are values."""
        if self.raw.get(name) is None:
            raise Told(
                f"Parameter `{name}` is required for command: {self.command}",
                errors.InvalidArgs(name, "is required"),
            )


def _refuse_command(
    name: str, arguments: object, path: str | None, refusal: Refusal, lang: Lang
) -> Answer:
    """A refusal of the text editor's arguments."""
    words = None
    if isinstance(refusal, errors.InvalidArgs) and refusal.argument == "command":
        command = cast("Mapping[str, object]", arguments).get("command")
        words = (
            f"Unrecognized command {command}. The allowed commands for the {name} tool are:"
            f" {', '.join(_COMMANDS)}"
        )
    return refused(arguments, refusal, lang, words, path=path, voices=_VOICES, only_text=True)


def _numbered(text: str, described: str, first: int = 1) -> str:
    """The text as `cat -n` shows it, including an empty line after the last newline."""
    if len(text) > MOST_SHOWN:
        text = text[:MOST_SHOWN] + _CUT
    lines = [f"{first + i:6}\t{line}" for i, line in enumerate(text.split("\n"))]
    return f"Here's the result of running `cat -n` on {described}:\n" + "\n".join(lines) + "\n"


def _text_of(text: Snapshot) -> str:
    """The text with LF line ends and without a byte order mark."""
    return text.encoding.decode(text.data[len(text.encoding.bom) :]).replace("\r\n", "\n")


def _view(context: Context, name: str, call: TextEditorCall, target: ClientPath) -> Answer:
    """Show the numbered lines of a file, or the entries of a directory."""
    if context.looking.is_directory(context.member, target.path):
        if call.view_range:
            raise Told(
                "The `view_range` parameter is not allowed when `path` points to a directory.",
                errors.InvalidArgs("view_range", "is for files"),
            )
        return call.text(_listing(context, call, target), target.path)
    pieces: list[tuple[str, int]] = []

    def shown(base: Snapshot) -> list[Run]:
        lines = _text_of(base).split("\n")
        first, last = _range_of(call.view_range, len(lines))
        text = "\n".join(lines[first - 1 : last])
        pieces.append((text, first))
        seen = text[:MOST_SHOWN].count("\n") if len(text) > MOST_SHOWN else last - first + 1
        return [(first - 1, min(first - 1 + seen, base.line_count))]

    document, base = context.desk.contents(context.member, target.path, shown)
    if base is None:
        Snapshot.of(document.data)  # raises BinaryFile
    text, first = pieces[-1]
    return call.text(_numbered(text, call.named, first), target.path)


def _range_of(given: tuple[int, ...], total: int) -> tuple[int, int]:
    """The first and last line of a range (1-based); raises Told."""
    if not given:
        return 1, total
    wrong = errors.InvalidArgs("view_range", f"the file has {total} lines")
    if len(given) != 2:
        raise Told("Invalid `view_range`. It should be a list of two integers.", wrong)
    first, last = given
    bad_first, bad_last = (
        f"Its first element `{first}` should",
        f"Its second element `{last}` should",
    )
    for is_bad, words in (
        (
            first < 1 or first > total,
            f"{bad_first} be within the range of lines of the file: {[1, total]}",
        ),
        (last > total, f"{bad_last} be smaller than the number of lines in the file: `{total}`"),
        (last != -1 and last < first, f"{bad_last} be larger or equal than its first `{first}`"),
    ):
        if is_bad:
            raise Told(f"Invalid `view_range`: {[first, last]}. {words}", wrong)
    return first, total if last == -1 else last


def _listing(context: Context, call: TextEditorCall, target: ClientPath) -> str:
    """The entries of a directory, two levels deep, without hidden names."""
    walk = context.looking.walk(
        context.member,
        target.path,
        lambda path, name, entry: entry.name.startswith("."),
        skip_refused=True,
        levels=2,
    )
    top = call.named.rstrip("/")
    text = "".join(f"{path}\n" for path in (call.named, *(f"{top}/{name}" for _, name, _ in walk)))
    if len(text) > MOST_SHOWN:
        text = text[:MOST_SHOWN] + _CUT
    head = f"Here's the files and directories up to 2 levels deep in {call.named}"
    return f"{head}, excluding hidden items:\n{text}\n"


def _create(context: Context, name: str, call: TextEditorCall, target: ClientPath) -> Answer:
    call.require("file_text")
    done = whole(context, name, target.path, call.file_text, overwrite=False)
    return answered(context, call, done, f"File created successfully at: {call.named}")


def _str_replace(context: Context, name: str, call: TextEditorCall, target: ClientPath) -> Answer:
    call.require("old_str")
    old, new = (text.replace("\r\n", "\n") for text in (call.old_str, call.new_str))
    pair = call.old_str, call.new_str
    # a batch refuses an empty text, and an edit that changes nothing
    compiled = (
        in_order(target.path, [pair], corrects=False)
        if old in ("", new)
        else partial(compile_batch, edits=(StringEdit(*pair),))
    )
    try:
        done = edited(context, name, target.path, compiled)
    except errors.PartialMatchFail as failure:
        words = f", old_str `{call.old_str}` did not appear verbatim in {call.named}."
        if failure.failures[0].matches_count:
            lines = _lines_with(context, target, old)
            words = _several(call.old_str, lines or list(failure.failures[0].lines))
            raise Told(f"No replacement was performed{words}", failure) from None
        if call.old_str:
            failure = with_plan(context, name, BatchEdit.of(target.path, [pair]), failure)
        raise Told(
            f"No replacement was performed{words}",
            failure,
            near_miss(failure, refusal_words(failure, context.lang, _VOICES)),
        ) from None
    except errors.InvalidArgs:  # an empty text is in every line
        lines = [1, *(line + 1 for line in _lines_with(context, target, "\n"))]
        raise Told(
            f"No replacement was performed{_several('', lines)}",
            errors.InvalidArgs("old_str", "must not be empty"),
        ) from None
    text = _text_of(done.base)
    return _edited(context, call, done, text[: max(text.find(old), 0)].count("\n"), call.new_str)


def _several(old: str, lines: list[int]) -> str:
    return f". Multiple occurrences of old_str `{old}` in lines {lines}. Please ensure it is unique"


def _lines_with(context: Context, target: ClientPath, old: str) -> list[int]:
    """The lines (1-based) in which a text begins."""
    _, base = context.desk.contents(context.member, target.path)
    pieces = [] if base is None else _text_of(base).split(old)[:-1]
    before = accumulate(piece.count("\n") for piece in pieces)
    return list(dict.fromkeys(1 + at + i * old.count("\n") for i, at in enumerate(before)))


def _edited(
    context: Context,
    call: TextEditorCall,
    done: Rewrite,
    line: int,
    new: str,
) -> Answer:
    """The answer with the lines of a `new` text from `line` (0-based) on, and those around it."""
    start, end = max(0, line - SNIPPET_LINES), line + new.count("\n") + 1 + SNIPPET_LINES
    lines = _text_of(done.after).split("\n")[start:end]
    of, which = ("the edited file", _CHECKED) if call.command == "insert" else (call.named, "")
    shown = _numbered("\n".join(lines), f"a snippet of {of}", start + 1)
    return answered(
        context,
        call,
        done,
        f"The file {call.named} has been edited. {shown}Review the changes and make sure they are"
        f" as expected{which}. Edit the file again if necessary.",
    )


def _insert(context: Context, name: str, call: TextEditorCall, target: ClientPath) -> Answer:
    call.require("insert_line")
    if call.raw.get("insert_text") is None:
        call.require("new_str")
    line, text = call.insert_line, call.insert_text or call.new_str
    try:
        done = edited(context, name, target.path, partial(insert, after_line=line, content=text))
    except errors.RangeOutOfBounds as refusal:
        raise Told(
            f"Invalid `insert_line` parameter: {line}. It should be within the range of lines of"
            f" the file: {[0, refusal.total_lines]}",
            errors.InvalidArgs("insert_line", f"the file has {refusal.total_lines} lines"),
        ) from None
    return _edited(context, call, done, line, text)


def _undo_edit(context: Context, name: str, call: TextEditorCall, target: ClientPath) -> Answer:
    member = context.member
    last = next(
        (
            edit
            for edit in context.desk.history.page(member, target.path, member.name).edits
            if edit.state == "done" and not (edit.undone_by or edit.undoes)
        ),
        None,
    )
    if last is None:
        raise Told(f"No edit history found for {call.named}.", errors.EditNotFound(0, "unknown"))
    undone = context.desk.undo(member, name, last.edit_id)
    if isinstance(undone, NotUndone):
        raise undone.refusal
    text = "There is no file at this path now."
    with suppress(errors.FileNotFound):
        _, base = context.desk.contents(member, target.path, lambda base: [(0, base.line_count)])
        text = _numbered("" if base is None else _text_of(base), call.named)
    return call.text(f"Last edit to {call.named} undone successfully. {text}", target.path)


_COMMANDS: Mapping[str, Callable[[Context, str, TextEditorCall, ClientPath], Answer]] = {
    "view": _view,
    "create": _create,
    "str_replace": _str_replace,
    "insert": _insert,
    "undo_edit": _undo_edit,
}


def compat() -> tuple[Tool, ...]:
    """The catalog's rows: the filesystem server's tools, then the text editor."""
    tool = partial(Tool, toolset="compat", in_full=True, refuse=refuse)
    writes = partial(tool, output=OUTPUT)
    reads = partial(writes, reads=True)
    return (
        reads("read_text_file", call=ReadTextFileCall, aliases=("read_file",)),
        reads("read_media_file", call=ReadMediaFileCall, output=MEDIA_OUTPUT),
        reads("read_multiple_files", call=ReadMultipleFilesCall),
        writes("write_file", call=WriteFileCall, destroys=True, idempotent=True),
        writes("edit_file", call=EditFileCall, destroys=True),
        writes("create_directory", call=CreateDirectoryCall, idempotent=True),
        reads("list_directory", call=ListDirectoryCall),
        reads("list_directory_with_sizes", call=ListDirectoryWithSizesCall),
        reads("directory_tree", call=DirectoryTreeCall),
        writes("move_file", call=MoveFileCall, destroys=True),
        reads("search_files", call=SearchFilesCall),
        reads("get_file_info", call=GetFileInfoCall),
        reads("list_allowed_directories", call=ListAllowedDirectoriesCall),
        tool(
            EDITOR,
            call=TextEditorCall,
            destroys=True,
            refuse=_refuse_command,
            aliases=(OLD_EDITOR,),
        ),
    )
