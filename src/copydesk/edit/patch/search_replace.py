"""SEARCH/REPLACE blocks in the text of an answer, each below the path of its file.

The path is in one of the three lines above a block, between which only fences may stand; a
block without one belongs to the file of the block before it. A line that may be a sentence
names no new file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from copydesk.edit.patch.model import FilePatch, PatchLines, invalid, joined
from copydesk.edit.request import PatchHunk

_SEARCH = re.compile(r"<{5,9} SEARCH>?\s*")
_DIVIDER = re.compile(r"={5,9}\s*")
_REPLACE = re.compile(r">{5,9} REPLACE\s*")
_FENCE = "```"
_TAGS = ("source", "code", "pre", "codeblock", "sourcecode")
_SHELL = re.compile(r"```(?:bash|sh|shell|cmd|batch|powershell|ps1|zsh|fish|ksh|csh|tcsh)")
_ABOVE = 3
_COLONS = (":", "\uff1a")
_QUOTED = re.compile(r"[#*\s]*`[^`]+`[*\s:\uff1a]*")
_PROSE = re.compile(r"[\s{}=]|[.,;!?\u3002\uff0c\uff1b\uff01\uff1f]$")


def parse(text: str) -> tuple[FilePatch, ...]:
    """What the blocks say of each file; raises PatchInvalid."""
    lines = PatchLines(text, ("<<<<< SEARCH", "<<<<<<< SEARCH", ">>>>> REPLACE", ">>>>>>> REPLACE"))
    found: list[FilePatch] = []
    names: tuple[str, ...] = ()
    while (line := lines.peek()) is not None:
        if _SEARCH.fullmatch(line.strip()):
            found.append(_block(lines, names))
            names = found[-1].names
        elif _REPLACE.fullmatch(line.strip()):
            raise invalid("no_search", lines.number, line)
        elif _SHELL.match(line.strip()) and not _block_follows(lines):
            lines.take()
            while (line := lines.peek()) is not None and not line.strip().startswith(_FENCE):
                lines.take()
            if line is not None:
                lines.take()
        else:
            lines.take()
    if not found:
        raise invalid("no_blocks")
    return joined(found)


def _block_follows(lines: PatchLines) -> bool:
    after = (lines.peek(ahead) for ahead in (1, 2))
    return any(line is not None and _SEARCH.fullmatch(line.strip()) for line in after)


def _names(lines: PatchLines) -> Iterator[tuple[str, bool]]:
    """The likely paths in the lines above, best first, and whether each is surely a path."""
    found: list[tuple[str, bool]] = []
    for line in lines.before(_ABOVE):
        name = _name(line.strip())
        if name and not _SEARCH.fullmatch(name) and not _REPLACE.fullmatch(name):
            found.append((name, _is_path(line.strip(), name)))
        if not _is_fence(line):
            break
    yield from (one for one in found if "." in one[0])
    yield from (one for one in found if "." not in one[0])


def _is_path(line: str, name: str) -> bool:
    """Whether the line is a path by itself: in backticks, or no words and no end of a sentence."""
    if _QUOTED.fullmatch(line):
        return True
    is_bare_word = "." not in name and "/" not in name
    return not _PROSE.search(name) and not (is_bare_word and line.endswith(_COLONS))


def _is_fence(line: str) -> bool:
    return line.startswith(_FENCE) or any(line.startswith(f"<{tag}>") for tag in _TAGS)


def _name(line: str) -> str:
    """The path in a line: alone in it, after the mark of a fence, or decorated."""
    if line == "..." or line in {f"<{end}{tag}>" for tag in _TAGS for end in ("", "/")}:
        return ""
    if line.startswith(_FENCE):
        name = line.lstrip("`")
        return name if "." in name or "/" in name else ""
    return line.rstrip("".join(_COLONS)).lstrip("#").strip().strip("`*")


def _block(lines: PatchLines, names: tuple[str, ...]) -> FilePatch:
    """A block, of the file that is named above it, or else of the one before it: `names`."""
    number, above = lines.number, tuple(_names(lines))
    mark = lines.take()
    old = _part(lines, _DIVIDER, number)
    new = _part(lines, _REPLACE, number)
    is_new = not old.strip()
    if above:
        names = tuple(name for name, is_path in above if is_path or not is_new)
    if not names:
        raise invalid("block_without_path", number, mark)
    hunk = PatchHunk("" if is_new else old, new, at=number)
    return FilePatch("add" if is_new else "update", names, number, (hunk,))


def _part(lines: PatchLines, end: re.Pattern[str], number: int) -> str:
    """The lines up to the one that ends them, which is taken too."""
    text: list[str] = []
    while (line := lines.peek()) is not None:
        mark = line.strip()
        if end.fullmatch(mark):
            lines.take()
            return "".join(text)
        if _DIVIDER.fullmatch(mark):
            raise invalid("two_dividers", lines.number, line)
        if _SEARCH.fullmatch(mark) or _REPLACE.fullmatch(mark):
            break
        text.append(lines.take() + "\n")
    raise invalid("no_divider" if end is _DIVIDER else "no_replace", number, lines.peek())
