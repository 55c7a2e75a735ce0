"""Parse patches into hunks: apply_patch texts, SEARCH/REPLACE blocks, and unified diffs.

All three give the same `FilePatch` and `PatchHunk`, which one function places (`PatchEdit.places`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from copydesk.edit.kinds.patch import PatchHunk
from copydesk.errors import PatchInvalid

Kind = Literal["add", "replace", "delete", "update", "skip"]


@dataclass(frozen=True, slots=True)
class FilePatch:
    """The changes of a patch to one file, or none to one to `skip`.

    `names` are the paths that may be meant, likeliest first; `other` is one that may be meant as
    well as the first if both exist; `in_order`: each hunk is for the result of those before it;
    `to` is the new name of a file that is moved; `dropped` hunks have no lines. `line` is where
    this begins in the patch. `base` is the start of git's blob id of the file before, `after` of
    the one after, `mode` git's mode of that; all are empty if the patch does not say. The hunks of
    a file that is added or deleted contain its whole text, if `has_text`.
    """

    kind: Kind
    names: tuple[str, ...]
    line: int
    hunks: tuple[PatchHunk, ...] = ()
    to: str = ""
    base: str = ""
    after: str = ""
    mode: str = ""
    has_text: bool = True
    other: str = ""
    in_order: bool = False
    dropped: int = 0
    replaces: bool = False

    @property
    def path(self) -> str:
        return self.names[0]


class PatchLines:
    """The lines of a patch, taken one by one; each but the last one ends with LF.

    If all of the patch's own lines (those that `marker` matches) end with CRLF, the patch was
    converted in transit, and the CRs are dropped; otherwise they belong to the text of the files.
    The last line is not asked: it may have lost its end, or got another one.
    """

    def __init__(self, text: str, marker: str) -> None:
        self._lines = text.removesuffix("\n").split("\n") if text else []
        marks = [line for line in self._lines[:-1] if re.match(marker, line.lstrip())]
        if marks and all(line.endswith("\r") for line in marks):
            self._lines = [line.removesuffix("\r") for line in self._lines]
        self.at = 0

    @property
    def number(self) -> int:
        """The number of the next line, 1-based."""
        return self.at + 1

    def peek(self, ahead: int = 0) -> str | None:
        """The next line, or the one `ahead` of it; None after the last."""
        at = self.at + ahead
        return self._lines[at] if at < len(self._lines) else None

    def take(self) -> str:
        self.at += 1
        return self._lines[self.at - 1]

    def take_while(self, is_wanted: Callable[[str], object]) -> list[str]:
        """Take lines up to the first that is not wanted."""
        first = self.at
        while self.at < len(self._lines) and is_wanted(self._lines[self.at]):
            self.at += 1
        return self._lines[first : self.at]


_SHOWN = 200


def invalid(reason: str, line: int | None = None, text: str | None = None) -> PatchInvalid:
    """Make a PatchInvalid for one line of the patch."""
    return PatchInvalid(reason, line, text if text is None else text[:_SHOWN])


def joined(patches: Sequence[FilePatch]) -> tuple[FilePatch, ...]:
    """Merge the patches of each file; those of one that is named again are `in_order`.

    PatchInvalid if its name or mode changes, too, if it is made or deleted again, or if one is
    moved to another.
    """
    by_path: dict[str, FilePatch] = {}
    for patch in patches:
        if (before := by_path.get(patch.path)) is not None:
            is_whole = before.replaces or before.in_order  # its text, not that of a diff
            is_next = patch.kind == "update" and (before.kind == "update" or is_whole)
            if before.kind == "delete" and patch.replaces:
                before = replace(patch, kind="replace", hunks=())
            elif (
                not (is_next or patch.in_order)
                or before.to
                or patch.to
                or before.mode
                or patch.mode
            ):
                raise invalid("file_twice", patch.line, patch.path)
            hunks = [  # of which text the numbers of a diff are is not known any more
                replace(hunk, line=0, after=None) if hunk.signs else hunk
                for hunk in (*before.hunks, *patch.hunks)
            ]
            dropped = before.dropped + patch.dropped
            patch = replace(
                before, hunks=tuple(hunks), base="", after="", in_order=True, dropped=dropped
            )
        by_path[patch.path] = patch
    taken = set(by_path)
    for patch in by_path.values():
        if patch.to in taken.difference(("", patch.path)):
            raise invalid("file_twice", patch.line, patch.to)
        taken.add(patch.to)
    return tuple(by_path.values())


_PAIR = re.compile("([`\"'])(.+)\\1")


def _spelled(name: str) -> tuple[str, ...]:
    """The names that may be meant: without quotes and `./`, and with slashes; then as given."""
    inner = _PAIR.fullmatch(name)
    plain = (inner[2] if inner else name).replace("\\", "/").removeprefix("./")
    return tuple(dict.fromkeys((plain or name, name)))


_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_FILE = re.compile(r"\*\*\* (Add|Delete|Update) File:(?: (.+))?")
_MARK, _MOVE, _END_OF_FILE = "*** ", "*** Move to: ", "*** End of File"
_MOST_HEADERS = 100
_HERE = re.compile(r"(?:(?:apply_patch|cat)\s*)?<<-?\s*([\"']?)EOF\1")


def parse_apply_patch(text: str) -> tuple[FilePatch, ...]:
    """Return the files that an apply_patch text adds, deletes and updates; raises PatchInvalid."""
    lines = PatchLines(_closed(_unwrapped(text)), re.escape(_MARK))
    lines.take_while(_is_blank)
    if is_here := _HERE.fullmatch((lines.peek() or "").strip()):
        lines.take()
    if (first := lines.peek()) is None or first.strip() != _BEGIN:
        raise invalid("no_begin", lines.number, first)
    lines.take()
    lines.take_while(lambda line: line.startswith("*** Environment ID"))
    files: list[FilePatch] = []
    while (head := lines.peek()) is not None and head.strip() != _END:
        files.append(_file(lines))
    if head is None:
        raise invalid("no_end", lines.number)
    lines.take()
    if is_here and (lines.peek() or "").strip() == "EOF":
        lines.take()
    lines.take_while(_is_blank)
    if (rest := lines.peek()) is not None:
        raise invalid("after_end", lines.number, rest)
    if not files:
        raise invalid("no_files")
    return joined(files)


def _unwrapped(text: str) -> str:
    """The patch without a fence around it; one in a single line has its line ends escaped."""
    body = text.strip()
    if "\n" not in body:
        body = text = body.replace("\\n", "\n")
    inner = body.removesuffix("```").rstrip("\n")
    is_fenced = body.startswith("```") and inner != body
    return inner.partition("\n")[2] + "\n" if is_fenced else text


def _closed(text: str) -> str:
    """The patch with its end marker moved to the start of its line, if it is indented."""
    body = text.rstrip()
    if body.endswith("\nEOF"):
        body = body.removesuffix("\nEOF").rstrip()
    head, newline, last = body.rpartition("\n")
    is_end = last.strip() == _END
    return head + newline + last.lstrip() + text[len(body) :] if is_end else text


def _is_blank(line: str) -> bool:
    return not line.strip()


def _is_marked(line: str) -> bool:
    return line.strip().startswith(_MARK)


def _file(lines: PatchLines) -> FilePatch:
    number, head = lines.number, lines.take().strip()
    if (header := _FILE.fullmatch(head)) is None:
        raise invalid("no_file_header", number, head)
    what, path = header[1], (header[2] or "").strip()
    if not path:
        raise invalid("no_path", number, head)
    if what == "Delete":
        _skip_to_marker(lines)
        return FilePatch("delete", _spelled(path), number, has_text=False)
    if what == "Add":
        return FilePatch(
            "add", _spelled(path), number, (PatchHunk("", _added(lines), at=number),), replaces=True
        )
    move = lines.take().strip() if (lines.peek() or "").strip().startswith(_MOVE) else ""
    to = move.removeprefix(_MOVE).strip()
    hunks: list[PatchHunk] = []
    while (line := lines.peek()) is not None and not _is_file_marker(line):
        if not _skip_to_marker(lines):
            hunks.append(_context_hunk(lines, is_first=not hunks))
    if not hunks and not to:
        raise invalid("no_hunks", number, path)
    return FilePatch("update", _spelled(path), number, tuple(hunks), to)


def _skip_to_marker(lines: PatchLines) -> bool:
    """Take blank lines if nothing else comes before the next marker; whether there were any."""
    first = lines.at
    lines.take_while(_is_blank)
    if (line := lines.peek()) is not None and not _is_marked(line):
        lines.at = first
    return lines.at > first


def _added(lines: PatchLines) -> str:
    """Take the text of a new file."""
    text: list[str] = []
    while (line := lines.peek()) is not None and not _is_marked(line):
        if line.startswith("+"):
            text.append(lines.take()[1:] + "\n")
        elif not _skip_to_marker(lines):
            raise invalid("no_plus", lines.number, line)
    return "".join(text)


def _is_file_marker(line: str) -> bool:
    return line.startswith(_MARK) and line.rstrip() != _END_OF_FILE


def _context_hunk(lines: PatchLines, *, is_first: bool) -> PatchHunk:
    """Parse one hunk: @@ headers that narrow its place, then context, removed and added lines."""
    number = lines.number
    marks = lines.take_while(_is_hunk_header)
    wanted = (mark.strip() for mark in marks if not _NUMBERS.match(mark.strip()))
    named = (mark[2:].strip().removesuffix("@@").strip() for mark in wanted)
    headers = tuple(filter(None, named))
    if len(headers) > _MOST_HEADERS:
        raise invalid("many_headers", number)
    if not marks and not is_first:
        raise invalid("no_hunk_header", number, lines.peek())
    body = lines.take_while(_is_signed)
    end = lines.peek()
    at_end = end is not None and end.rstrip() == _END_OF_FILE
    if at_end:
        lines.take()
    elif end is not None and not _is_hunk_header(end) and not _is_file_marker(end):
        raise invalid("no_sign", lines.number, end)
    while body and body[-1] in BLANK:  # between two parts of the patch
        body.pop()
    if not body:
        raise invalid("empty_hunk", number)
    old, new, signs = _sides(body, number)
    return PatchHunk(old, new, headers, at_end or not old, at=number, signs=signs)


BLANK = ("", "\r")
"""An empty context line whose leading space was stripped."""


def _is_signed(line: str) -> bool:
    return line in BLANK or line[0] in " +-"


def _is_hunk_header(line: str) -> bool:
    return line.rstrip() == "@@" or line.startswith("@@ ")


_SEARCH = re.compile(r"(?:<{5,}|-{5,}) SEARCH>?\s*")
_DIVIDER = re.compile(r"={5,9}\s*")
_REPLACE = re.compile(r"(?:>{5,}|\+{5,}) REPLACE>?\s*")
_LINE_OF = re.compile(r"\s*:(start|end)_line:\s*\[?(\d{1,9})\]?\s*")
_RULE = re.compile(r"\s*-{5,9}\s*")
_ESCAPED = re.compile(r"^\\(?=[<>]{7}(?:\s|$)|[=-]{7}\s*$|:(?:start|end)_line:\[?\d)", re.MULTILINE)
"""What Roo, which numbers its blocks, writes before a line that looks like one of a block."""

_FENCES = ("```", "~~~")
_SHELL = re.compile(r"```(?:bash|sh|shell|cmd|batch|powershell|ps1|zsh|fish|ksh|csh|tcsh)")
_TAG = re.compile(
    r"\.\.\.|<!\[CDATA\[|</?[A-Za-z][\w-]*(?: [^<>]*)?>(?:<!\[CDATA\[|[\w+#-]*)|\]\]>"
)
_TAGGED = re.compile(r"<(\w*path|file\w*)>(.+)</\1>")
_LINK = re.compile(r"\[([^\[\]]+)\]\([^()]*\)")
_LEAD = re.compile(
    r"^(?:(?:\d+[.)]|-)\s+|(?i:file(?: ?(?:name|path))?|path|\u6587\u4ef6)[:=\uff1a]\**\s*)(?=\S)"
)
_CODE = re.compile("`([^`]+)`")
_TITLE = re.compile(r"#.*|\*\*.*\*\*[\s:\uff1a]*")
_COLONS = ":\uff1a"
_AROUND = f"`*\"'()[]{{}}<>,;!?{_COLONS}"
_PROSE = re.compile(r"[\s{}=]|[.,;!?\u3002\uff0c\uff1b\uff01\uff1f]$")
_FILE_NAME = re.compile(r"(?:[\w@+~.-]+/)*[\w@+~.-]*\.[A-Za-z]\w{0,9}")
_MOST_SIGNS = 9
_ABOVE = 40
"""So many lines above a block its path is sought."""

IsThere = Callable[[str], bool]
"""Whether there is a file with this path."""


def parse_blocks(text: str, is_there: IsThere = lambda _: False) -> tuple[FilePatch, ...]:
    """Return the files of SEARCH/REPLACE blocks, each below its file's path; raises PatchInvalid.

    The path is the line above a block, with only fences and tags between, or the only file that
    exists of a sentence there; or else the one line above, since the block before, that names a
    file that exists and nothing else, or is a title that does. Without any, the block belongs to
    the file of the block before, if no other file is spoken of.
    """
    lines, is_there = PatchLines(text, f"{_SEARCH.pattern}|{_REPLACE.pattern}"), cache(is_there)
    blocks, above, endless = list[FilePatch](), list[str](), dict[str, int]()

    def is_known(name: str) -> bool:
        return is_there(name) or any(name in block.names for block in blocks)

    while (line := lines.peek()) is not None:
        mark = line.strip()
        if _SEARCH.fullmatch(mark):
            before = blocks[-1].names if blocks else ()
            blocks.append(_block(lines, _meant(above[-_ABOVE:], before, is_known)))
            above = []
            end = (lines.peek() or "").strip()
            if end.startswith(_FENCES) and not end.strip("`~"):
                lines.take()
        elif _REPLACE.fullmatch(mark):
            raise invalid("no_search", lines.number, line)
        elif mark.startswith(_FENCES) and (size := _fenced(lines, endless)):
            inner = (lines.peek(1) or "").strip()
            above.append(inner if size == 3 and _FILE_NAME.fullmatch(inner) else "")
            lines.at += size
        else:
            above.append(lines.take().strip())
    if not blocks:
        raise invalid("no_blocks")
    return joined(blocks)


def _fenced(lines: PatchLines, endless: dict[str, int]) -> int:
    """How many lines the fence has that begins here; 0 if a block is in it, or it does not end.

    What a shell is to do may have a block within, or no end. `endless` has, by their signs, the
    line before which no fence ends, so that each line is looked at once.
    """
    fence = (lines.peek() or "").strip()
    signs = fence[: min(len(fence) - len(fence.lstrip(fence[0])), _MOST_SIGNS)]
    is_shell, has_block, size = bool(_SHELL.match(fence)), False, 1
    is_file = is_shell and "<<" in (lines.peek(1) or "")
    if not is_shell and lines.at < endless.get(signs, 0):
        return 0
    while (line := lines.peek(size)) is not None:
        size, inner = size + 1, line.strip()
        if inner.startswith(signs) and (is_shell or not inner.strip(fence[0])):
            return 0 if inner.strip(fence[0]) else size
        has_block = has_block or bool(_SEARCH.fullmatch(inner))
        if has_block and (not is_shell or (size <= 3 and not is_file)):
            break
    endless[signs] = lines.at + size
    return size if is_shell and not has_block else 0


def _meant(
    above: Sequence[str], before: tuple[str, ...], is_there: IsThere
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The paths that a block below these lines may mean: of a file that is, and of a new one.

    Both are likeliest first, and empty if it is unclear; `before` are those of the block before.
    """
    is_next = is_near = True  # fences and tags alone are between; or blank lines, too
    is_told, named, spoken = False, dict[str, None](), set[str]()
    for line in reversed(above):
        name, is_path = _path_in(line)
        if is_next and (is_path or (name and is_there(name))):
            return _spelled(name), _spelled(name) if is_path else ()
        is_title = is_path or bool(_TITLE.fullmatch(line))
        is_between = line.startswith(_FENCES) or bool(_TAG.fullmatch(line))
        words = (word.strip(_AROUND).rstrip(".") for word in re.split(r"[\s=]+", line))
        words = (word.replace("\\", "/") for word in words if word)
        # a bare word counts only just above: each is looked up
        likely = [name] if is_path else [one for one in words if is_next or re.search("[./]", one)]
        there = [one for one in dict.fromkeys(likely) if is_there(one)]
        spoken.update(there)
        ends = tuple(one[one.rfind(".") :] for one in there)
        others = [one for one in likely if one not in there and _FILE_NAME.fullmatch(one)]
        is_doubtful = len(there) > 1 or any("/" in one or one.endswith(ends) for one in others)
        if is_title:
            is_plain = "/" in name or line.rstrip(_COLONS) == name or _TAGGED.fullmatch(line)
            is_file = is_path and is_plain and _FILE_NAME.fullmatch(name)
            if is_near and (is_file or (there and not is_doubtful)):
                names = _spelled(next(iter(there), name))
                return names, names
            named |= dict.fromkeys((*there, *others) if is_doubtful else there)
        elif is_between and (there or others):
            before, is_told = _spelled(*there) if len(there) == 1 else (), True
        elif is_next and (there or others):
            return _spelled(*there) if there and not is_doubtful else (), ()
        is_told |= is_next and bool(name)
        is_next, is_near = is_next and is_between, is_near and (is_between or not line)
    if named:
        return (_spelled(*named), ()) if len(named) == 1 else ((), ())
    if not spoken.issubset(before):
        return (), ()  # another file is spoken of
    return before, () if is_told else before


def _path_in(line: str) -> tuple[str, bool]:
    """What may be a path in a line, if anything, and whether it surely is one."""
    is_fence, tagged = line.startswith(_FENCES), _TAGGED.fullmatch(line)
    name = tagged[2] if tagged else _LEAD.sub("", line.lstrip("#* "), count=1)
    name = _LINK.sub(r"\1", name).strip(f"* \u200b\ufeff{_COLONS}")
    code = _CODE.fullmatch(name)
    name = code[1] if code else name.strip("`~" if is_fence else "`")
    is_bare = "." not in name and "/" not in name
    if _TAG.fullmatch(line) or not re.search(r"\w", name) or (is_fence and is_bare):
        return "", False
    is_word = is_bare and line != name  # of a heading or a list, say
    return name, bool(code) or not (_PROSE.search(name) or name.endswith("/") or is_word)


def _block(lines: PatchLines, meant: tuple[tuple[str, ...], tuple[str, ...]]) -> FilePatch:
    """Parse one block; `meant` are the paths of a file that is, and of a new one."""
    number, mark = lines.number, lines.take()
    found = map(_LINE_OF.fullmatch, lines.take_while(_LINE_OF.fullmatch))
    numbers = {one[1]: int(one[2]) for one in found if one}
    if numbers and _RULE.fullmatch(lines.peek() or ""):
        lines.take()
    (old, divider), (new, end) = (_part(lines, end, number) for end in (_DIVIDER, _REPLACE))
    if numbers:
        old, new = (_ESCAPED.sub("", text) for text in (old, new))
    is_new = not old.strip()
    if not (names := meant[is_new]):
        raise invalid("block_without_path", number, mark)
    hunk = PatchHunk(
        "" if is_new else old,
        new,
        line=numbers.get("start", 0),
        at=number,
        divider=divider if _DIVIDER.fullmatch(end) else "",
    )
    return FilePatch("add" if is_new else "update", names, number, (hunk,), in_order=True)


def _part(lines: PatchLines, end: re.Pattern[str], number: int) -> tuple[str, str]:
    """Take the lines up to the mark that ends them, and that too: the text and the mark.

    A second divider right before the end of a block is a mark, too.
    """
    text = lines.take_while(_is_text)
    mark, after = ((lines.peek(ahead) or "").strip() for ahead in (0, 1))
    is_divider = bool(_DIVIDER.fullmatch(mark))
    is_second = is_divider and end is _REPLACE and bool(_REPLACE.fullmatch(after))
    if is_second or end.fullmatch(mark):
        lines.at += 1 + is_second
        return "".join(f"{line}\n" for line in text), mark
    if is_divider:
        raise invalid("two_dividers", lines.number, mark)
    raise invalid("no_divider" if end is _DIVIDER else "no_replace", number, mark)


def _is_text(line: str) -> bool:
    mark = line.strip()
    return not any(shape.fullmatch(mark) for shape in (_SEARCH, _DIVIDER, _REPLACE))


REGULAR, EXECUTABLE = "100644", "100755"
_NUMBERS = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? ?@@")
_INDEX = re.compile(r"index (\S+?)(?:\.\.+(\S+?))?(?: (\d{6}))?")
_BLOB = re.compile("[0-9a-f]{7,64}")
_EPOCH = re.compile(r"\t(?:1970-01-01 \d\d:\d\d:00|1969-12-31 \d\d:\d\d:00)(?:\.0+)?(?: |$)")
_COMBINED = ("diff --cc ", "diff --combined ", "@@@ ")
_BINARY = ("GIT binary patch", "Binary files ", "Files ")
_NO_NEWLINE = "\\"
_NULL = "/dev/null"
_LONGEST_NAME = 5_000
_ESCAPE = re.compile(rb'\\([abfnrtv"\\]|[0-7]{3})')
_QUOTED_NAME = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NAMED = {
    sign.encode(): character.encode()
    for sign, character in zip('abfnrtv"\\', '\a\b\f\n\r\t\v"\\', strict=True)
}
_KINDS = {"120000": "symlink", "160000": "submodule"}


def parse_diff(text: str, *, skips: bool = False) -> tuple[FilePatch, ...]:
    """Return the files of a `git` or `diff -u` unified diff; raises PatchInvalid. Skips other text.

    If it `skips`, binary files and symlinks do not refuse the other files, and are told last.

    The counts in `@@` are used if they are right, so that a removed line that looks like a header
    counts as removed; if they are wrong, a hunk extends as far as its lines have a sign.
    """
    lines = PatchLines(text, r"--- |\+\+\+ |@@ |diff --git ")
    files, left = list[FilePatch](), list[FilePatch]()
    while (line := lines.peek()) is not None:
        try:
            if line.startswith(_COMBINED):
                raise invalid("combined", lines.number, line)
            if line.startswith("diff --git "):
                files.append(_git(lines))
            elif _is_header(lines) and _has_hunk(lines):
                files.append(_plain(lines))
            elif line.startswith("@@ ") or (
                files  # a changed line outside hunks, unless it starts a signature
                and line.startswith(("+", "-"))
                and line.rstrip() != "---"
                and not _is_signature(lines)
            ):
                raise invalid("stray_line", lines.number, line)
            elif line.startswith("Binary files ") and line.rstrip().endswith(" differ"):
                raise invalid("binary", lines.number, line)
            else:
                lines.take()
        except PatchInvalid as refusal:
            if not skips or refusal.reason not in ("binary", "symlink"):
                raise
            left.append(FilePatch("skip", (_skipped(line, lines.number),), lines.number))
            lines.at += 1
            lines.take_while(lambda line: line.startswith("index "))
            if refusal.reason == "symlink" and _is_header(lines):
                _plain(lines)  # its target
    skipped = {patch.path: patch for patch in left}  # also where it was or becomes a file
    files = [patch for patch in files if skipped.keys().isdisjoint({patch.path, patch.to})]
    if not files:
        raise invalid("binary", left[0].line, left[0].path) if left else invalid("no_diff")
    return (*joined(files), *skipped.values())


def _skipped(line: str, number: int) -> str:
    """The name of what is skipped, in the first line about it."""
    names = line.rstrip().removeprefix("diff --git ")
    with suppress(PatchInvalid):
        return _both(names, number)
    names = names.removeprefix("Binary files ").removesuffix(" differ")
    for both in re.finditer(" and ", names):
        halves = names[: both.start()], names[both.end() :]
        old, new = _stripped(*(_unquoted(half, number) for half in halves))
        if old == new or _NULL in (old, new):
            return old if new == _NULL else new
        tail = new.partition("/")[2]
        if tail and tail == old.partition("/")[2]:
            return tail
    return names.rpartition(" and ")[2].rpartition(" b/")[2]


def _is_header(lines: PatchLines, ahead: int = 0) -> bool:
    old, new = lines.peek(ahead), lines.peek(ahead + 1)
    return (old or "").startswith("--- ") and (new or "").startswith("+++ ")


def _has_hunk(lines: PatchLines) -> bool:
    """Whether a hunk follows the file names; PatchInvalid for hunk lines without a header."""
    after = lines.peek(2) or ""
    if after[:1] in ("+", "-", " ") and after.strip() not in ("", "---"):
        raise invalid("no_hunk_header", lines.number + 2, after)
    return after.startswith("@@")


def _is_signature(lines: PatchLines, ahead: int = 0) -> bool:
    """Whether the next lines are a mail signature: `-- ` and what follows."""
    if (lines.peek(ahead) or "").rstrip("\r") not in ("-- ", "--"):
        return False
    after = lines.peek(ahead + 1)
    return after is None or not after.startswith(("+", "-", " ", "@@"))


@dataclass(slots=True)
class _Head:
    number: int
    old: str = ""
    new: str = ""
    was_absent: bool = False
    is_absent: bool = False
    renamed_from: str = ""
    renamed_to: str = ""
    base: str = ""
    after: str = ""
    mode: str = ""
    old_mode: str = ""


def _git(lines: PatchLines) -> FilePatch:
    head = _Head(lines.number)
    names = lines.take().removeprefix("diff --git ")
    while (line := lines.peek()) is not None:
        key, number = line.rstrip("\r"), lines.number
        match key.split(" ", 2):
            case ["rename", "from" | "to" as which, name]:
                setattr(head, f"renamed_{which}", _unquoted(name, number))
            case ["copy", "from" | "to", _]:
                raise invalid("copy", number, key)
            case ["old", "mode", mode]:
                head.old_mode = mode.strip()
            case ["new", "mode", _]:
                head.mode = _mode(key, number)
            case ["new", "file", rest] if rest.startswith("mode "):
                head.mode, head.was_absent = _mode(key, number), True
            case ["deleted", "file", rest] if rest.startswith("mode "):
                head.mode, head.is_absent = _mode(key, number), True
            case ["index", *_] if blobs := _INDEX.fullmatch(key.rstrip()):
                *ids, mode = blobs.groups("")
                head.base, head.after = (one if _BLOB.fullmatch(one) else "" for one in ids)
                if mode in _KINDS:
                    raise invalid(_KINDS[mode], number, key)
            case _ if key.startswith(_BINARY):
                raise invalid("binary", number, key)
            case ["similarity" | "dissimilarity", "index", _]:
                pass
            case _:
                break
        lines.take()
    if _is_header(lines):
        _take_names(lines, head)
        sides = {head.old, head.new}
        if _NULL not in sides and not head.renamed_from:
            with suppress(PatchInvalid):  # it names two files, as for a rename
                sides.add(_both(names, head.number))
            if len(sides) > 1:
                raise invalid("two_files", head.number, ", ".join(sorted(sides)))
    if _NULL in (head.old, head.new) or not (head.old or head.renamed_from):
        head.old = head.new = _both(names, head.number)
    if head.renamed_from:
        head.old, head.new = head.renamed_from, head.renamed_to or head.renamed_from
    return _patch(lines, head, (head.old if head.is_absent or head.renamed_from else head.new,))


def _mode(line: str, number: int) -> str:
    """The git mode in a line; raises PatchInvalid for the mode of anything but a file."""
    if (mode := line.rsplit(" ", 1)[1].strip()) in _KINDS:
        raise invalid(_KINDS[mode], number, line)
    if mode not in (REGULAR, EXECUTABLE):
        raise invalid("mode", number, line)
    return mode


def _plain(lines: PatchLines) -> FilePatch:
    head = _Head(lines.number)
    _take_names(lines, head)
    old, new = head.old, head.new
    before, _, old_rest = old.partition("/")
    after, _, tail = new.partition("/")  # the path below both compared directories
    if tail != old_rest or (before == after and after not in ("a", "b")):
        tail = ""
    if head.was_absent:  # the compared folders are not part of the workspace
        return _patch(lines, head, (tail or new,))
    names = (old, tail) if head.is_absent else (new, old, tail)
    patch = _patch(lines, head, tuple(dict.fromkeys(filter(None, names))))
    is_of_one = head.is_absent or old.startswith(new)
    return patch if is_of_one else replace(patch, other=old)


def _take_names(lines: PatchLines, head: _Head) -> None:
    """Take the two lines that name the file before and after."""
    (old, was_absent), (new, is_absent) = _name_taken(lines), _name_taken(lines)
    head.was_absent |= was_absent
    head.is_absent |= is_absent
    if old == _NULL == new:
        raise invalid("no_path", head.number)
    head.old, head.new = _stripped(old, new)


def _name_taken(lines: PatchLines) -> tuple[str, bool]:
    """Take a line that names a file; whether that does not exist on this side."""
    number, line = lines.number, lines.take().rstrip("\r")
    name = line[4:]
    if not name.startswith('"'):
        name = _spelled(name.partition("\t")[0].rstrip(" "))[0]  # git quotes backslashes
    if not (name := _unquoted(name, number)):
        raise invalid("no_path", number, line)
    return name, name == _NULL or _EPOCH.search(line) is not None


def _stripped(old: str, new: str) -> tuple[str, str]:
    """Both names without git's prefixes, if both have one, or one is of no file."""
    if _NULL in (old, new):
        return old.removeprefix("a/"), new.removeprefix("b/")
    pairs = {("a/", "b/"), ("i/", "w/"), ("c/", "i/"), ("c/", "w/"), ("o/", "w/")}
    is_prefixed = {(old[:2], new[:2]), (new[:2], old[:2])} & pairs
    return (old[2:], new[2:]) if is_prefixed else (old, new)


def _both(names: str, number: int) -> str:
    """The one name of `a/name b/name`, if no other line gives it."""
    names = names.rstrip("\r")
    if names.startswith('"'):
        end = _quoted_end(names)
        old, new = _unquoted(names[:end], number), _unquoted(names[end + 1 :], number)
        return _stripped(old, new)[1]
    for at in (i for i, one in enumerate(names[:_LONGEST_NAME]) if one == " "):
        old, new = _stripped(names[:at], names[at + 1 :])
        if old == new:
            return new
    raise invalid("no_path", number, names)


def _quoted_end(text: str) -> int:
    quoted = _QUOTED_NAME.match(text)
    return quoted.end() if quoted else len(text) + 1


def _unquoted(name: str, number: int) -> str:
    """The name, which git may have quoted; raises PatchInvalid."""
    if not name.startswith('"'):
        return name
    inner = name[1 : _quoted_end(name) - 1].encode("utf-8", "surrogateescape")
    # an octal escape is a byte: together with those around it, it is UTF-8
    raw = _ESCAPE.sub(lambda found: _NAMED.get(found[1]) or bytes([int(found[1], 8) % 256]), inner)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise invalid("name_not_utf8", number, name) from None


def _patch(lines: PatchLines, head: _Head, names: tuple[str, ...]) -> FilePatch:
    if not any(names):
        raise invalid("no_path", head.number)
    parsed, number = list[PatchHunk | None](), head.number
    while (line := lines.peek()) is not None and line.startswith("@@"):
        number = lines.number
        if line.startswith("@@@"):
            raise invalid("combined", number, line)
        parsed.append(_numbered_hunk(lines))
    hunks = tuple(filter(None, parsed))
    if parsed and not hunks:
        raise invalid("empty_hunk", number, "@@")
    mode = "" if head.mode == head.old_mode else head.mode
    patch = FilePatch(
        "update",
        names,
        head.number,
        hunks,
        base=head.base,
        after=head.after,
        mode=mode,
        dropped=len(parsed) - len(hunks),
    )
    if head.was_absent:
        if len(hunks) > 1 or any(hunk.old for hunk in hunks):
            raise invalid("add_with_context", head.number)
        return replace(
            patch, kind="add", hunks=hunks or (PatchHunk("", "", at=head.number),), base=""
        )
    if head.is_absent:
        if any(hunk.new for hunk in hunks):
            raise invalid("delete_with_rest", head.number)
        return replace(patch, kind="delete", mode="")
    to = head.new if head.renamed_from and head.new != head.old else ""
    if not hunks and not to and not mode:
        raise invalid("no_hunks", head.number, names[0])
    return replace(patch, to=to)


def _numbered_hunk(lines: PatchLines) -> PatchHunk | None:
    """Take a hunk; None if it has no lines."""
    number, head = lines.number, lines.take()
    numbers = _NUMBERS.match(head)
    body = None if numbers is None else _counted(lines, numbers)
    if body is None:
        body = _greedy(lines)
    if not body:
        return None
    old, new, signs = _sides(body, number)
    line = int(numbers[1]) if numbers else None
    where, after = (line or 0, None) if old else (0, line)
    return PatchHunk(old, new, line=where, after=after, at=number, signs=signs)


def _counted(lines: PatchLines, numbers: re.Match[str]) -> list[str] | None:
    """Take the lines that the header's counts give; None if the counts are wrong."""
    old, new = (int(numbers[at]) if numbers[at] is not None else 1 for at in (2, 4))
    body: list[str] = []
    line = lines.peek()
    while old or new or (line or "").startswith(_NO_NEWLINE):
        sign = " " if line in BLANK else (line or "")[:1]
        old, new = old - (sign in " -"), new - (sign in " +")
        if line is None or sign not in " +-\\" or old < 0 or new < 0:
            return None
        body.append(line)
        line = lines.peek(len(body))
    end, signs = len(body), " +-"
    while line is not None and not line.strip():
        signs, end = "+-", end + 1
        line = lines.peek(end)
    is_more = line is not None and line[0] in signs
    if is_more and not _is_header(lines, end) and not _is_signature(lines, end):
        return None
    lines.at += len(body)
    return body


def _greedy(lines: PatchLines) -> list[str]:
    """Take all lines with a sign up to the next header, and blank lines between them."""
    body: list[str] = []
    while (line := lines.peek()) is not None and (line in BLANK or line[0] in " +-\\"):
        is_next = _is_header(lines) and (lines.peek(2) or "@@").startswith("@@")
        if is_next or _is_signature(lines):
            break
        body.append(lines.take())
    while body and not body[-1].strip("\r"):
        body.pop()
    return body


def _sides(body: list[str], number: int) -> tuple[str, str, str]:
    """The old lines of a hunk, the new ones, and the signs of all."""
    rows: list[tuple[str, str]] = []
    for line in body:
        sign, text = (" ", line) if line in BLANK else (line[0], line[1:])
        if sign != _NO_NEWLINE:
            rows.append((sign, f"{text}\n"))
        elif rows:
            rows[-1] = rows[-1][0], rows[-1][1].removesuffix("\n")
    old, new = ([text for sign, text in rows if sign in signs] for signs in (" -", " +"))
    if not all(text.endswith("\n") for text in (*old[:-1], *new[:-1])):
        raise invalid("newline_within", number)
    return "".join(old), "".join(new), "".join(sign for sign, _ in rows)
