"""The language of `apply_patch`: `*** Begin Patch`, files to add, delete and update."""

from __future__ import annotations

from copydesk.edit.patch.model import FilePatch, PatchLines, invalid, joined
from copydesk.edit.request import PatchHunk

_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_ADD, _DELETE, _UPDATE = "*** Add File: ", "*** Delete File: ", "*** Update File: "
_MOVE, _END_OF_FILE = "*** Move to: ", "*** End of File"
_MOST_HEADERS = 100
_HERE = ("<<EOF", "<<'EOF'", '<<"EOF"')


def parse(text: str) -> tuple[FilePatch, ...]:
    """What the patch says of each file; raises PatchInvalid."""
    lines = PatchLines(_closed(text), "*** ")
    _skip_blank(lines)
    is_here = (lines.peek() or "").strip() in _HERE
    if is_here:
        lines.take()
    if (first := lines.peek()) is None or first.strip() != _BEGIN:
        raise invalid("no_begin", lines.number, first)
    lines.take()
    found: list[FilePatch] = []
    while True:
        head = lines.peek()
        if head is None:
            raise invalid("no_end", lines.number)
        if head.strip() == _END:
            break
        found.append(_file(lines))
    lines.take()
    if is_here and (lines.peek() or "").strip() == "EOF":
        lines.take()
    _skip_blank(lines)
    if (rest := lines.peek()) is not None:
        raise invalid("after_end", lines.number, rest)
    if not found:
        raise invalid("no_files")
    return joined(found)


def _closed(text: str) -> str:
    """The patch with its last marker at the start of a line, and not like a line of a file."""
    body = text.rstrip()
    if body.endswith("\nEOF"):
        body = body.removesuffix("\nEOF").rstrip()
    head, newline, last = body.rpartition("\n")
    if last.strip() != _END:
        return text
    return head + newline + last.lstrip() + text[len(body) :]


def _skip_blank(lines: PatchLines) -> None:
    while (line := lines.peek()) is not None and not line.strip():
        lines.take()


def _file(lines: PatchLines) -> FilePatch:
    number, head = lines.number, lines.take().strip()
    for mark, kind in ((_ADD, _added), (_DELETE, _deleted), (_UPDATE, _updated)):
        if head.startswith(mark):
            path = head.removeprefix(mark).strip()
            if path:
                return kind(lines, path, number)
    if head in {mark.strip() for mark in (_ADD, _DELETE, _UPDATE)}:
        raise invalid("no_path", number, head)
    raise invalid("no_file_header", number, head)


def _added(lines: PatchLines, path: str, number: int) -> FilePatch:
    text: list[str] = []
    while (line := lines.peek()) is not None and not line.strip().startswith("*** "):
        if not line.startswith("+"):
            if not line.strip() and _ends_file(lines):
                _skip_blank(lines)
                continue
            raise invalid("no_plus", lines.number, line)
        text.append(lines.take()[1:] + "\n")
    return FilePatch("add", (path,), number, (PatchHunk("", "".join(text), at=number),))


def _ends_file(lines: PatchLines) -> bool:
    """Whether only blank lines stand before the next marker."""
    ahead = 0
    while (line := lines.peek(ahead)) is not None and not line.strip():
        ahead += 1
    return line is None or line.strip().startswith("*** ")


def _deleted(lines: PatchLines, path: str, number: int) -> FilePatch:
    if _ends_file(lines):
        _skip_blank(lines)
    return FilePatch("delete", (path,), number, has_text=False)


def _updated(lines: PatchLines, path: str, number: int) -> FilePatch:
    to = ""
    if (line := lines.peek()) is not None and line.strip().startswith(_MOVE):
        to = lines.take().strip().removeprefix(_MOVE).strip()
    hunks: list[PatchHunk] = []
    while (line := lines.peek()) is not None and not _is_file_marker(line):
        if not line.strip() and _ends_file(lines):
            _skip_blank(lines)
            continue
        hunks.append(_hunk(lines, is_first=not hunks))
    if not hunks and not to:
        raise invalid("no_hunks", number, path)
    return FilePatch("update", (path,), number, tuple(hunks), to)


def _is_file_marker(line: str) -> bool:
    return line.startswith("*** ") and line.rstrip() != _END_OF_FILE


def _hunk(lines: PatchLines, *, is_first: bool) -> PatchHunk:
    """One place: lines that narrow it, then the lines of it, kept, taken away or added."""
    number = lines.number
    headers: list[str] = []
    marked = False
    while (line := lines.peek()) is not None and _is_header(line):
        marked = True
        header = lines.take().strip()[2:].strip().removesuffix("@@").strip()
        if header:
            headers.append(header)
    if len(headers) > _MOST_HEADERS:
        raise invalid("many_headers", number)
    if not marked and not is_first:
        raise invalid("no_hunk_header", number, line)
    body: list[str] = []
    at_end = False
    while (line := lines.peek()) is not None and not _is_header(line):
        if line.rstrip() == _END_OF_FILE:
            lines.take()
            at_end = True
            break
        if _is_file_marker(line):
            break
        if line and line[0] not in " +-":
            raise invalid("no_sign", lines.number, line)
        body.append(lines.take())
    while body and not body[-1]:  # what stands between two parts of the patch
        body.pop()
    if not body:
        raise invalid("empty_hunk", number)
    old = "".join(line[1:] + "\n" for line in body if line[:1] != "+")
    new = "".join(line[1:] + "\n" for line in body if line[:1] != "-")
    return PatchHunk(old, new, tuple(headers), at_end or not old, at=number)


def _is_header(line: str) -> bool:
    return line.rstrip() == "@@" or line.startswith("@@ ")
