"""What `.editorconfig` files say of a file's encoding; nothing else of them is used.

What lives here: reading them from the file's folder up to the root of the
workspace, and their globs. What must not: any guess. Invariant: nothing above
the root is read.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from functools import cache

from copydesk.errors import InvalidArgs, Refusal
from copydesk.store.protocol import Files
from copydesk.text.encoding import checked_name
from copydesk.text.relpath import RelPath

_FRESH_SECONDS = 1.0
_LARGEST = 1 << 20
_TOKENS = re.compile(r"\*\*|\*|\?|\[[^\]/]+\]|\{(-?\d+)\.\.(-?\d+)\}|\{|\}|,|\\.|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _File:
    """One `.editorconfig`: whether it is the topmost one, and its (glob, charset) in order."""

    is_root: bool = False
    charsets: tuple[tuple[str, str], ...] = ()


class EditorConfig:
    """The charsets that the `.editorconfig` files of a workspace name."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._read: dict[RelPath, tuple[float, _File]] = {}

    def charset(self, path: RelPath) -> str | None:
        """The codec named for the file, or None; a charset that is no codec counts as none."""
        folder = path.parent
        while True:
            found = self._file(folder)
            below = "/".join(path.parts[len(folder.parts) :])
            named = [charset for glob, charset in found.charsets if _matches(glob, below)]
            if named:
                return _codec(named[-1])
            if found.is_root or not folder.parts:
                return None
            folder = folder.parent

    def _file(self, folder: RelPath) -> _File:
        now = time.monotonic()
        known = self._read.get(folder)
        if known is not None and now - known[0] < _FRESH_SECONDS:
            return known[1]
        if len(self._read) > 1_000:
            self._read.clear()
        try:
            data = self._files.read(folder / ".editorconfig").data
        except Refusal:
            data = b""
        found = _parsed(data[:_LARGEST].decode("utf-8", "replace"))
        self._read[folder] = (now, found)
        return found


def _parsed(text: str) -> _File:
    is_root, glob = False, ""
    charsets: list[tuple[str, str]] = []
    for raw in text.removeprefix("\ufeff").split("\n"):
        line = raw.strip()
        if line.startswith("[") and line.endswith("]"):
            glob = line[1:-1]
            continue
        key, _, value = (part.strip().lower() for part in line.partition("="))
        if key == "root" and not glob:
            is_root = value == "true"
        elif key == "charset" and glob and value != "unset":
            charsets.append((glob, value))
    return _File(is_root, tuple(charsets))


def _codec(charset: str) -> str | None:
    try:
        return checked_name(charset)
    except InvalidArgs:
        return None


def _matches(glob: str, path: str) -> bool:
    anchored = glob.lstrip("/") if "/" in glob else f"**/{glob}"
    found = _compiled(anchored).fullmatch(path)
    return found is not None and all(
        text is not None and int(low) <= int(text) <= int(high)
        for text, (low, high) in zip(found.groups(), _numbers(anchored), strict=True)
    )


@cache
def _compiled(glob: str) -> re.Pattern[str]:
    out, depth = "", 0
    balanced = glob.count("{") == glob.count("}")
    for token in _TOKENS.finditer(glob):
        word = token[0]
        if token[1] is not None:
            out += r"([+-]?\d+)"
        elif word == "**":
            out += ".*"
        elif word == "*":
            out += "[^/]*"
        elif word == "?":
            out += "[^/]"
        elif len(word) > 2 and word.startswith("["):
            out += "[" + word[1:-1].replace("\\", "\\\\").replace("!", "^", 1) + "]"
        elif word == "{" and balanced:
            out, depth = out + "(?:", depth + 1
        elif word == "}" and depth:
            out, depth = out + ")", depth - 1
        elif word == "," and depth:
            out += "|"
        else:
            out += re.escape(word[-1] if word.startswith("\\") else word)
    out = out.replace(".*/", "(?:.*/)?") + ")" * depth
    try:
        return re.compile(out, re.DOTALL)
    except re.error:
        return re.compile(r"(?!)")


def _numbers(glob: str) -> list[tuple[str, str]]:
    return [(t[1], t[2]) for t in _TOKENS.finditer(glob) if t[1] is not None]
