"""What `.editorconfig` files say of a file's encoding; nothing else of them is used.

What lives here: reading them from the file's folder up to the root of the
workspace. What must not: any guess, the globs (`editorconfig_glob`). Invariants:
nothing above the root is read; no file makes a read slow.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from copydesk.errors import InvalidArgs, Refusal
from copydesk.store.editorconfig_glob import Target
from copydesk.store.files import Files
from copydesk.text.encoding import checked_name
from copydesk.text.relpath import RelPath

_FRESH_SECONDS = 1.0
_LARGEST = 1 << 18
_MOST_SECTIONS = 200
_MOST_FOLDERS = 1_000


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
        """The codec named for the file, or None.

        The nearest `.editorconfig` with a section for it decides, its last one.
        `unset`, and a charset that is no codec, name none.
        """
        folder = path.parent
        while True:
            found = self._file(folder)
            below = Target("/".join(path.parts[len(folder.parts) :]))
            named = [charset for glob, charset in found.charsets if below.matches(glob)]
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
        if len(self._read) > _MOST_FOLDERS:
            self._read.clear()
        try:
            data = self._files.read(folder / ".editorconfig").data
        except Refusal:
            data = b""
        found = _parsed(data[:_LARGEST].decode("utf-8", "replace"))
        self._read[folder] = (now, found)
        return found


def _parsed(text: str) -> _File:
    """What a file says, as far as it is used; of very many charsets the first ones."""
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
        elif key == "charset" and glob and len(charsets) < _MOST_SECTIONS:
            charsets.append((glob, value))
    return _File(is_root, tuple(charsets))


def _codec(charset: str) -> str | None:
    try:
        return checked_name(charset)
    except InvalidArgs:
        return None
