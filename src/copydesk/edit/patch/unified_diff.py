"""Unified diffs, of git and of `diff -u`; text around them is passed over.

Counts in `@@` are kept to where they are right, so that a removed line that looks like a
header is one; where they are wrong, a hunk goes as far as its lines have a sign.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field, replace

from copydesk.edit.patch.model import EXECUTABLE, REGULAR, FilePatch, PatchLines, invalid, once_each
from copydesk.edit.request import PatchHunk
from copydesk.errors import PatchInvalid

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


def parse(text: str) -> tuple[FilePatch, ...]:
    """What the diff says of each file; raises PatchInvalid."""
    lines = PatchLines(text, ("--- ", "+++ ", "@@ ", "diff --git "))
    found: list[FilePatch] = []
    while (line := lines.peek()) is not None:
        if line.startswith(_COMBINED):
            raise invalid("combined", lines.number, line)
        if line.startswith("diff --git "):
            found.append(_git(lines))
        elif _is_header(lines) and _has_hunk(lines):
            found.append(_plain(lines))
        elif line.startswith("@@ ") or (found and _is_stray(lines)):
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
    """Whether a hunk follows the lines that name a file; PatchInvalid for lines with no place."""
    after = lines.peek(2) or ""
    if after[:1] in ("+", "-", " ") and after.strip() not in ("", "---"):
        raise invalid("no_hunk_header", lines.number + 2, after)
    return after.startswith("@@")


def _is_stray(lines: PatchLines) -> bool:
    """Whether a changed line comes next, which belongs to no hunk; not the mark of a signature."""
    line = lines.peek() or ""
    if not line.startswith(("+", "-")) or line.rstrip() == "---":
        return False
    return not _is_signature(lines)


def _is_signature(lines: PatchLines, ahead: int = 0) -> bool:
    """Whether the mark that mail programs put before a signature comes next, and what is one."""
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
    names: list[str] = field(default_factory=list[str])


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
        _check_one_file(head, names)
    if _NULL in (head.old, head.new) or not (head.old or head.renamed_from):
        head.old = head.new = _both(names, head.number)
    if head.renamed_from:
        head.old, head.new = head.renamed_from, head.renamed_to or head.renamed_from
    return _patch(lines, head, (head.old if head.is_absent or head.renamed_from else head.new,))


def _check_one_file(head: _Head, names: str) -> None:
    """Raise PatchInvalid where the lines of a diff name two files, and it is no rename."""
    told = {head.old, head.new}
    if _NULL in told:
        return
    with suppress(PatchInvalid):  # it names two, as that of a rename
        told.add(_both(names, head.number))
    if len(told) > 1 and not head.renamed_from:
        raise invalid("two_files", head.number, ", ".join(sorted(told)))


def _mode(line: str, number: int) -> str:
    """The mode that a line tells; raises PatchInvalid for what is no file."""
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
    tail = _below_two(old, new)
    if head.was_absent:  # the folder of one side of the comparison is none of the workspace
        return _patch(lines, head, (tail or new,))
    names = (old, tail) if head.is_absent else (new, old, tail)
    made = _patch(lines, head, tuple(dict.fromkeys(name for name in names if name)))
    is_of_one = head.is_absent or old.startswith(new)
    return made if is_of_one else replace(made, other=old)


def _take_names(lines: PatchLines, head: _Head) -> None:
    """The two lines that name the file before and after."""
    for attribute, absent in (("old", "was_absent"), ("new", "is_absent")):
        number, line = lines.number, lines.take().rstrip("\r")
        name, gone = line[4:], _EPOCH.search(line) is not None
        if not name.startswith('"'):
            name = name.partition("\t")[0].rstrip(" ")
        name = _unquoted(name, number)
        if not name:
            raise invalid("no_path", number, line)
        if name == _NULL:
            gone = True
        setattr(head, attribute, name)
        if gone:
            setattr(head, absent, True)
    if head.old == _NULL and head.new == _NULL:
        raise invalid("no_path", head.number)


def _stripped(old: str, new: str) -> tuple[str, str]:
    """Both names without the prefixes of git, where both have one, or one is of no file."""
    if _NULL in (old, new):
        return old.removeprefix("a/"), new.removeprefix("b/")
    pairs = {("a/", "b/"), ("i/", "w/"), ("c/", "i/"), ("c/", "w/"), ("o/", "w/")}
    for one, other in (*pairs, *((b, a) for a, b in pairs)):
        if old.startswith(one) and new.startswith(other):
            return old.removeprefix(one), new.removeprefix(other)
    return old, new


def _below_two(old: str, new: str) -> str:
    """The path below the two compared directories, such as `a/` and `b/`; empty without any."""
    before, _, old_rest = old.partition("/")
    after, _, rest = new.partition("/")
    is_other = before != after or after in ("a", "b")
    return rest if rest == old_rest and is_other else ""


def _both(names: str, number: int) -> str:
    """The one name of `a/name b/name`, where no other line tells it."""
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
    """Where the quoted name at the start of the text ends."""
    at = 1
    while at < len(text) and text[at] != '"':
        at += 2 if text[at] == "\\" else 1
    return at + 1


def _unquoted(name: str, number: int) -> str:
    """The name that git may have written in quotes; raises PatchInvalid."""
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
    hunks: list[PatchHunk] = []
    while (line := lines.peek()) is not None and line.startswith("@@"):
        if line.startswith("@@@"):
            raise invalid("combined", lines.number, line)
        hunks.append(_hunk(lines))
    if (line := lines.peek()) is not None and line.startswith(_BINARY[:2]):
        raise invalid("binary", lines.number, line)
    mode = "" if head.is_absent or head.mode == head.old_mode else head.mode
    made = FilePatch("update", names, head.number, tuple(hunks), mode=mode)
    made = replace(made, base=head.base, after=head.after)
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


def _hunk(lines: PatchLines) -> PatchHunk:
    number, head = lines.number, lines.take()
    found = _NUMBERS.match(head)
    body = None if found is None else _counted(lines, found)
    if body is None:
        body = _greedy(lines)
    old, new = _sides(body, number)
    if not body:
        raise invalid("empty_hunk", number, head)
    line = int(found[1]) if found else None
    if not old:
        return PatchHunk(old, new, after=line, at=number)
    return PatchHunk(old, new, line=line or 0, at=number)


def _counted(lines: PatchLines, found: re.Match[str]) -> list[str] | None:
    """The lines that the counts tell, taken; None where these are not right."""
    old, new = (int(found[at]) if found[at] is not None else 1 for at in (2, 4))
    body: list[str] = []
    ahead = 0
    while old or new or (lines.peek(ahead) or "").startswith(_NO_NEWLINE):
        line = lines.peek(ahead)
        sign = (line or "")[:1]
        if line is None or (sign and sign not in " +-\\" and line != "\r"):
            return None
        if not sign.strip():
            old, new = old - 1, new - 1
        else:
            old, new = old - (sign == "-"), new - (sign == "+")
        if old < 0 or new < 0:
            return None
        body.append(line)
        ahead += 1
    after = lines.peek(ahead)
    signs = " +-"
    end = ahead
    while after is not None and not after.strip():
        signs, end = "+-", end + 1
        after = lines.peek(end)
    is_more = after is not None and after[0] in signs
    if is_more and not _is_header(lines, end) and not _is_signature(lines, end):
        return None
    lines.at += ahead
    return body


def _greedy(lines: PatchLines) -> list[str]:
    """All lines up to the next header that have a sign, or are blank ones between such."""
    body: list[str] = []
    while (line := lines.peek()) is not None:
        if line and line[0] not in " +-\\" and line != "\r":
            break
        if _is_header(lines) and (lines.peek(2) or "@@").startswith("@@"):
            break
        if _is_signature(lines):
            break
        body.append(lines.take())
    while body and not body[-1].strip("\r"):
        body.pop()
    return body


def _sides(body: list[str], number: int) -> tuple[str, str]:
    """The text before and the text after."""
    old: list[str] = []
    new: list[str] = []
    last = ""
    for line in body:
        sign = line[:1] if line not in ("", "\r") else " "
        if sign == _NO_NEWLINE:
            for side, signs in ((old, " -"), (new, " +")):
                if last and last in signs and side:
                    side[-1] = side[-1].removesuffix("\n")
            continue
        text = (line[1:] if line not in ("", "\r") else line) + "\n"
        if sign in " -":
            old.append(text)
        if sign in " +":
            new.append(text)
        last = sign
    for side in (old, new):
        if any(not text.endswith("\n") for text in side[:-1]):
            raise invalid("newline_within", number)
    return "".join(old), "".join(new)
