"""Parse patches into hunks: those of apply_patch, and SEARCH/REPLACE blocks.

Unified diffs are parsed by `edit/patch_diff.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from copydesk.edit.kinds.patch import PatchHunk
from copydesk.errors import PatchInvalid

Kind = Literal["add", "delete", "update"]


@dataclass(frozen=True, slots=True)
class FilePatch:
    """The changes of a patch to one file.

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

    @property
    def path(self) -> str:
        return self.names[0]


class PatchLines:
    """The lines of a patch, taken one by one; each but the last one ends with LF.

    If all of the patch's own lines (those that `is_marker` matches) end with CRLF, the patch was
    converted in transit, and the CRs are dropped; otherwise they belong to the text of the files.
    The last line is not asked: it may have lost its end, or got another one.
    """

    def __init__(self, text: str, is_marker: str | tuple[str, ...]) -> None:
        self._lines: list[str] = text.split("\n")
        if self._lines[-1] == "":
            self._lines.pop()
        marks = [line for line in self._lines[:-1] if line.lstrip().startswith(is_marker)]
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

    def take_while(self, is_wanted: Callable[[str], bool]) -> list[str]:
        """Take lines up to the first that is not wanted."""
        first = self.at
        while self.at < len(self._lines) and is_wanted(self._lines[self.at]):
            self.at += 1
        return self._lines[first : self.at]

    def before(self, count: int) -> Iterator[str]:
        """Yield up to `count` lines before the next one, last one first."""
        yield from reversed(self._lines[max(self.at - count, 0) : self.at])


def invalid(reason: str, line: int | None = None, text: str | None = None) -> PatchInvalid:
    """Make a PatchInvalid for one line of the patch."""
    return PatchInvalid(reason, line, text if text is None else text[:_SHOWN])


_SHOWN = 200


def once_each(patches: Sequence[FilePatch]) -> tuple[FilePatch, ...]:
    """Return the patches if they name each file once; raises PatchInvalid."""
    seen: set[str] = set()
    for patch in patches:
        for name in {patch.path, patch.to} - {""}:
            if name in seen:
                raise invalid("file_twice", patch.line, name)
            seen.add(name)
    return tuple(patches)


def joined(patches: Sequence[FilePatch]) -> tuple[FilePatch, ...]:
    """Merge the patches of each file, in order; PatchInvalid if a moved file is named twice.

    Of those that are `in_order` a file may be made and then edited; others are of the original.
    """
    found: dict[str, FilePatch] = {}
    for patch in patches:
        before = found.get(patch.path)
        if before is None:
            found[patch.path] = patch
            continue
        is_made = before.kind == "add" and patch.kind == "update"
        are_updates = (before.kind, patch.kind) == ("update", "update")
        if not (are_updates or is_made or patch.in_order) or before.to or patch.to:
            raise invalid("file_twice", patch.line, patch.path)
        hunks = (*before.hunks, *patch.hunks)
        found[patch.path] = replace(before, hunks=hunks, in_order=is_made or patch.in_order)
    return once_each(tuple(found.values()))


def _spelled(name: str) -> tuple[str, ...]:
    """The names that may be meant: without quotes and `./`, and with slashes; then as given."""
    plain = name.strip("`\"'").replace("\\", "/").removeprefix("./")
    return tuple(dict.fromkeys((plain or name, name)))


_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_FILE = re.compile(r"\*\*\* (Add|Delete|Update) File:(?: (.+))?")
_MARK, _MOVE, _END_OF_FILE = "*** ", "*** Move to: ", "*** End of File"
_MOST_HEADERS = 100
_EOF = ("<<EOF", "<<'EOF'", '<<"EOF"')
_HERE = (*_EOF, *(f"apply_patch {mark}" for mark in _EOF))


def parse_apply_patch(text: str) -> tuple[FilePatch, ...]:
    """Return the files that an apply_patch text adds, deletes and updates; raises PatchInvalid."""
    lines = PatchLines(_closed(_unwrapped(text)), _MARK)
    lines.take_while(_is_blank)
    is_here = (lines.peek() or "").strip() in _HERE
    if is_here:
        lines.take()
    if (first := lines.peek()) is None or first.strip() != _BEGIN:
        raise invalid("no_begin", lines.number, first)
    lines.take()
    lines.take_while(lambda line: line.startswith("*** Environment ID"))
    found: list[FilePatch] = []
    while (head := lines.peek()) is not None and head.strip() != _END:
        found.append(_file(lines))
    if head is None:
        raise invalid("no_end", lines.number)
    lines.take()
    if is_here and (lines.peek() or "").strip() == "EOF":
        lines.take()
    lines.take_while(_is_blank)
    if (rest := lines.peek()) is not None:
        raise invalid("after_end", lines.number, rest)
    if not found:
        raise invalid("no_files")
    return joined(found)


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
    if last.strip() != _END:
        return text
    return head + newline + last.lstrip() + text[len(body) :]


def _is_blank(line: str) -> bool:
    return not line.strip()


def _is_marked(line: str) -> bool:
    return line.strip().startswith(_MARK)


def _file(lines: PatchLines) -> FilePatch:
    number, head = lines.number, lines.take().strip()
    found = _FILE.fullmatch(head)
    if found is None:
        raise invalid("no_file_header", number, head)
    what, path = found[1], (found[2] or "").strip()
    if not path:
        raise invalid("no_path", number, head)
    if what == "Delete":
        _skip_to_marker(lines)
        return FilePatch("delete", _spelled(path), number, has_text=False)
    if what == "Add":
        return FilePatch("add", _spelled(path), number, (PatchHunk("", _added(lines), at=number),))
    to = ""
    if (line := lines.peek()) is not None and line.strip().startswith(_MOVE):
        to = lines.take().strip().removeprefix(_MOVE).strip()
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
    named = (mark.strip()[2:].strip().removesuffix("@@").strip() for mark in marks)
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
    body = [f" {line}" if line in BLANK else line for line in body]
    old = "".join(line[1:] + "\n" for line in body if line[0] != "+")
    new = "".join(line[1:] + "\n" for line in body if line[0] != "-")
    signs = "".join(line[0] for line in body)
    return PatchHunk(old, new, headers, at_end or not old, at=number, signs=signs)


BLANK = ("", "\r")
"""An empty context line whose leading space was stripped."""


def _is_signed(line: str) -> bool:
    return line in BLANK or line[0] in " +-"


def _is_hunk_header(line: str) -> bool:
    return line.rstrip() == "@@" or line.startswith("@@ ")


_SEARCH = re.compile(r"(?:<{5,9}|-{5,9}) SEARCH>?\s*")
_DIVIDER = re.compile(r"={5,9}\s*")
_REPLACE = re.compile(r"(?:>{5,9}|\+{5,9}) REPLACE\s*")
_LINE_OF = re.compile(r":(start|end)_line:\s*(\d{1,9})\s*")
_RULE = re.compile(r"-{5,9}\s*")
_FENCE = "```"
_TAGS = ("source", "code", "pre", "codeblock", "sourcecode")
_SHELL = re.compile(r"```(?:bash|sh|shell|cmd|batch|powershell|ps1|zsh|fish|ksh|csh|tcsh)")
_ABOVE = 3
_COLONS = (":", "\uff1a")
_QUOTED = re.compile(r"[#*\s]*`[^`]+`[*\s:\uff1a]*")
_PROSE = re.compile(r"[\s{}=]|[.,;!?\u3002\uff0c\uff1b\uff01\uff1f]$")


def parse_blocks(text: str) -> tuple[FilePatch, ...]:
    """Return the files of SEARCH/REPLACE blocks, each below its file's path; raises PatchInvalid.

    The path is in one of the three lines above a block; only fences may be between. A block without
    a path belongs to the file of the block before it, and a line that may be a sentence does not
    name a new file.
    """
    lines = PatchLines(text, ("<<<<< SEARCH", "<<<<<<< SEARCH", ">>>>> REPLACE", ">>>>>>> REPLACE"))
    found: list[FilePatch] = []
    names: tuple[str, ...] = ()
    while (line := lines.peek()) is not None:
        if _SEARCH.fullmatch(line.strip()):
            found.append(_block(lines, names))
            names = found[-1].names
            continue
        if _REPLACE.fullmatch(line.strip()):
            raise invalid("no_search", lines.number, line)
        if _SHELL.match(line.strip()) and not any(
            _SEARCH.fullmatch((lines.peek(ahead) or "").strip()) for ahead in (1, 2)
        ):
            lines.take()
            lines.take_while(_is_unfenced)
        lines.at += 1
    if not found:
        raise invalid("no_blocks")
    return joined(found)


def _is_unfenced(line: str) -> bool:
    return not line.strip().startswith(_FENCE)


def _names(lines: PatchLines) -> Iterator[tuple[str, bool]]:
    """Yield the likely paths in the lines above, best first, and whether each is surely a path."""
    found: list[tuple[str, bool]] = []
    for line in lines.before(_ABOVE):
        name = _name(line.strip())
        if name and not _SEARCH.fullmatch(name) and not _REPLACE.fullmatch(name):
            found.append((name, _is_path(line.strip(), name)))
        if not line.startswith((_FENCE, *(f"<{tag}>" for tag in _TAGS))):
            break
    yield from (one for one in found if "." in one[0])
    yield from (one for one in found if "." not in one[0])


def _is_path(line: str, name: str) -> bool:
    """Whether the line is only a path: in backticks, or without spaces or a sentence's end."""
    if _QUOTED.fullmatch(line):
        return True
    is_bare_word = "." not in name and "/" not in name
    return not _PROSE.search(name) and not (is_bare_word and line.endswith(_COLONS))


def _name(line: str) -> str:
    """The path in a line: on its own, after the mark of a fence, or decorated."""
    if line == "..." or line in {f"<{end}{tag}>" for tag in _TAGS for end in ("", "/")}:
        return ""
    if line.startswith(_FENCE):
        name = line.lstrip("`")
        return name if "." in name or "/" in name else ""
    return line.rstrip("".join(_COLONS)).lstrip("#").strip().strip("`*")


def _block(lines: PatchLines, names: tuple[str, ...]) -> FilePatch:
    """Parse one block of the file named above it, or else of `names`, those of the block before."""
    number, above = lines.number, tuple(_names(lines))
    mark, line = lines.take(), 0
    while found := _LINE_OF.fullmatch(lines.peek() or ""):
        line = int(found[2]) if found[1] == "start" else line
        lines.take()
    if line and _RULE.fullmatch(lines.peek() or ""):
        lines.take()
    old = _part(lines, _DIVIDER, number)
    new = _part(lines, _REPLACE, number)
    is_new = not old.strip()
    if above:
        meant = (_spelled(name) for name, is_path in above if is_path or not is_new)
        names = tuple(dict.fromkeys(name for each in meant for name in each))
    if not names:
        raise invalid("block_without_path", number, mark)
    hunk = PatchHunk("" if is_new else old, new, line=line, at=number)
    kind: Kind = "add" if is_new else "update"
    return FilePatch(kind, names, number, (hunk,), in_order=True)


def _part(lines: PatchLines, end: re.Pattern[str], number: int) -> str:
    """Take the lines up to the one that ends them, and that one too."""
    text = lines.take_while(_is_text)
    mark = lines.peek()
    if mark is not None and end.fullmatch(mark.strip()):
        lines.take()
        return "".join(f"{line}\n" for line in text)
    if mark is not None and _DIVIDER.fullmatch(mark.strip()):
        raise invalid("two_dividers", lines.number, mark)
    raise invalid("no_divider" if end is _DIVIDER else "no_replace", number, mark)


def _is_text(line: str) -> bool:
    mark = line.strip()
    return not any(shape.fullmatch(mark) for shape in (_SEARCH, _DIVIDER, _REPLACE))
