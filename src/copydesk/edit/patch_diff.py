"""Parse unified diffs into hunks, those of git and those of `diff -u`."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace

from copydesk.edit.kinds.patch import PatchHunk
from copydesk.edit.patch_parse import BLANK, FilePatch, PatchLines, invalid, once_each
from copydesk.errors import PatchInvalid

REGULAR, EXECUTABLE = "100644", "100755"
_NUMBERS = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? ?@@")
_INDEX = re.compile(r"index ([0-9a-f]{7,64})\.\.([0-9a-f]{7,64})(?: (\d{6}))?")
_EPOCH = re.compile(r"\t(?:1970-01-01 \d\d:\d\d:00|1969-12-31 \d\d:\d\d:00)(?:\.0+)?(?: |$)")
_COMBINED = ("diff --cc ", "diff --combined ", "@@@ ")
_BINARY = ("GIT binary patch", "Binary files ", "Files ")
_NO_NEWLINE = "\\"
_NULL = "/dev/null"
_LONGEST_NAME = 5_000
_ESCAPE = re.compile(r'\\([abfnrtv"\\]|[0-7]{3})')
_NAMED = dict(zip('abfnrtv"\\', '\a\b\f\n\r\t\v"\\', strict=True))
_KINDS = {"120000": "symlink", "160000": "submodule"}


def parse_diff(text: str) -> tuple[FilePatch, ...]:
    """Return the files of a `git` or `diff -u` unified diff; raises PatchInvalid. Skips other text.

    The counts in `@@` are used if they are right, so that a removed line that looks like a header
    counts as removed; if they are wrong, a hunk extends as far as its lines have a sign.
    """
    lines = PatchLines(text, ("--- ", "+++ ", "@@ ", "diff --git "))
    found: list[FilePatch] = []
    while (line := lines.peek()) is not None:
        if line.startswith(_COMBINED):
            raise invalid("combined", lines.number, line)
        if line.startswith("diff --git "):
            found.append(_git(lines))
        elif _is_header(lines) and _has_hunk(lines):
            found.append(_plain(lines))
        elif line.startswith("@@ ") or (
            found  # a changed line outside hunks, unless it starts a signature
            and line.startswith(("+", "-"))
            and line.rstrip() != "---"
            and not _is_signature(lines)
        ):
            raise invalid("stray_line", lines.number, line)
        elif line.startswith("Binary files ") and line.rstrip().endswith(" differ"):
            raise invalid("binary", lines.number, line)
        else:
            lines.take()
    if not found:
        raise invalid("no_diff")
    return once_each(found)


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
        if key.startswith(("rename from ", "rename to ")):
            _, which, name = key.split(" ", 2)
            setattr(head, f"renamed_{which}", _unquoted(name, number))
        elif key.startswith(("copy from ", "copy to ")):
            raise invalid("copy", number, key)
        elif key.startswith("old mode "):
            head.old_mode = key[9:].strip()
        elif key.startswith(("new mode ", "new file mode ", "deleted file mode ")):
            head.mode = _mode(key, number)
            head.was_absent = head.was_absent or key.startswith("new file")
            head.is_absent = head.is_absent or key.startswith("deleted")
        elif found := _INDEX.fullmatch(key.rstrip()):
            head.base, head.after = found[1], found[2]
            if found[3] in _KINDS:
                raise invalid(_KINDS[found[3]], number, key)
        elif key.startswith(_BINARY):
            raise invalid("binary", number, key)
        elif not key.startswith(("similarity index ", "dissimilarity index ")):
            break
        lines.take()
    if _is_header(lines):
        _take_names(lines, head)
        head.old, head.new = _stripped(head.old, head.new)
        told = {head.old, head.new}
        if _NULL not in told and not head.renamed_from:
            with suppress(PatchInvalid):  # it names two files, as for a rename
                told.add(_both(names, head.number))
            if len(told) > 1:
                raise invalid("two_files", head.number, ", ".join(sorted(told)))
    if _NULL in (head.old, head.new) or not (head.old or head.renamed_from):
        head.old = head.new = _both(names, head.number)
    if head.renamed_from:
        head.old, head.new = head.renamed_from, head.renamed_to or head.renamed_from
    return _patch(lines, head, (head.old if head.is_absent or head.renamed_from else head.new,))


def _mode(line: str, number: int) -> str:
    """The git mode in a line; raises PatchInvalid for the mode of anything but a file."""
    mode = line.rsplit(" ", 1)[1].strip()
    if mode in _KINDS:
        raise invalid(_KINDS[mode], number, line)
    if mode not in (REGULAR, EXECUTABLE):
        raise invalid("mode", number, line)
    return mode


def _plain(lines: PatchLines) -> FilePatch:
    head = _Head(lines.number)
    _take_names(lines, head)
    old, new = _stripped(head.old, head.new)
    before, _, old_rest = old.partition("/")
    after, _, tail = new.partition("/")  # the path below both compared directories
    if tail != old_rest or (before == after and after not in ("a", "b")):
        tail = ""
    if head.was_absent:  # the compared folders are not part of the workspace
        return _patch(lines, head, (tail or new,))
    names = (old, tail) if head.is_absent else (new, old, tail)
    made = _patch(lines, head, tuple(dict.fromkeys(name for name in names if name)))
    is_of_one = head.is_absent or old.startswith(new)
    return made if is_of_one else replace(made, other=old)


def _take_names(lines: PatchLines, head: _Head) -> None:
    """Take the two lines that name the file before and after."""
    head.old, was_absent = _name_taken(lines)
    head.new, is_absent = _name_taken(lines)
    head.was_absent, head.is_absent = head.was_absent or was_absent, head.is_absent or is_absent
    if head.old == _NULL and head.new == _NULL:
        raise invalid("no_path", head.number)


def _name_taken(lines: PatchLines) -> tuple[str, bool]:
    """Take a line that names a file; whether that does not exist on this side."""
    number, line = lines.number, lines.take().rstrip("\r")
    name = line[4:]
    if not name.startswith('"'):
        name = name.partition("\t")[0].rstrip(" ")
    name = _unquoted(name, number)
    if not name:
        raise invalid("no_path", number, line)
    return name, name == _NULL or _EPOCH.search(line) is not None


def _stripped(old: str, new: str) -> tuple[str, str]:
    """Both names without git's prefixes, if both have one, or one is of no file."""
    if _NULL in (old, new):
        return old.removeprefix("a/"), new.removeprefix("b/")
    pairs = {("a/", "b/"), ("i/", "w/"), ("c/", "i/"), ("c/", "w/"), ("o/", "w/")}
    for one, other in (*pairs, *((b, a) for a, b in pairs)):
        if old.startswith(one) and new.startswith(other):
            return old.removeprefix(one), new.removeprefix(other)
    return old, new


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
    at = 1
    while at < len(text) and text[at] != '"':
        at += 2 if text[at] == "\\" else 1
    return at + 1


def _unquoted(name: str, number: int) -> str:
    """The name, which git may have quoted; raises PatchInvalid."""
    if not name.startswith('"'):
        return name
    inner = name[1 : _quoted_end(name) - 1]

    def one(found: re.Match[str]) -> str:
        code = found[1]
        return _NAMED[code] if code in _NAMED else chr(0xDC00 + int(code, 8) % 256)

    made = _ESCAPE.sub(one, inner)
    # an octal escape is a byte: together with those around it, it is UTF-8
    raw = b"".join(
        bytes([ord(each) - 0xDC00]) if "\udc00" <= each <= "\udcff" else each.encode()
        for each in made
    )
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise invalid("name_not_utf8", number, name) from None


def _patch(lines: PatchLines, head: _Head, names: tuple[str, ...]) -> FilePatch:
    if not any(names):
        raise invalid("no_path", head.number)
    hunks: list[PatchHunk] = []
    dropped, number = 0, head.number
    while (line := lines.peek()) is not None and line.startswith("@@"):
        if line.startswith("@@@"):
            raise invalid("combined", lines.number, line)
        number, hunk = lines.number, _numbered_hunk(lines)
        if hunk is not None:
            hunks.append(hunk)
        dropped += hunk is None
    if dropped and not hunks:
        raise invalid("empty_hunk", number, "@@")
    if (line := lines.peek()) is not None and line.startswith(_BINARY[:2]):
        raise invalid("binary", lines.number, line)
    mode = "" if head.mode == head.old_mode else head.mode
    blobs = head.base, head.after
    update = FilePatch("update", names, head.number, tuple(hunks), "", *blobs, mode)
    made = replace(update, dropped=dropped)
    if head.was_absent:
        if len(hunks) > 1 or any(hunk.old for hunk in hunks):
            raise invalid("add_with_context", head.number)
        hunks = hunks or [PatchHunk("", "", at=head.number)]
        return replace(made, kind="add", hunks=tuple(hunks), base="")
    if head.is_absent:
        if any(hunk.new for hunk in hunks):
            raise invalid("delete_with_rest", head.number)
        return replace(made, kind="delete", mode="")
    to = head.new if head.renamed_from and head.new != head.old else ""
    if not hunks and not to and not mode:
        raise invalid("no_hunks", head.number, names[0])
    return replace(made, to=to)


def _numbered_hunk(lines: PatchLines) -> PatchHunk | None:
    """Take a hunk; None if it has no lines."""
    number, head = lines.number, lines.take()
    found = _NUMBERS.match(head)
    body = None if found is None else _counted(lines, found)
    if body is None:
        body = _greedy(lines)
    if not body:
        return None
    old, new, signs = _sides(body, number)
    line = int(found[1]) if found else None
    where, after = (line or 0, None) if old else (0, line)
    return PatchHunk(old, new, line=where, after=after, at=number, signs=signs)


def _counted(lines: PatchLines, found: re.Match[str]) -> list[str] | None:
    """Take the lines that the header's counts give; None if the counts are wrong."""
    old, new = (int(found[at]) if found[at] is not None else 1 for at in (2, 4))
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
    old: list[str] = []
    new: list[str] = []
    signs = ""
    for line in body:
        sign, text = (" ", line) if line in BLANK else (line[0], line[1:])
        if sign == _NO_NEWLINE:
            for side, own in ((old, " -"), (new, " +")):
                if signs and signs[-1] in own:
                    side[-1] = side[-1].removesuffix("\n")
            continue
        old += [f"{text}\n"] * (sign in " -")
        new += [f"{text}\n"] * (sign in " +")
        signs += sign
    for side in (old, new):
        if any(not text.endswith("\n") for text in side[:-1]):
            raise invalid("newline_within", number)
    return "".join(old), "".join(new), signs
