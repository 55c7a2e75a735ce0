"""How the bytes of a file are read as text, and text put into it. Never guessed.

What lives here: `Encoding` and how a file's one is found. What must not: files,
configuration. Invariant: decoding never fails and never yields a lone surrogate
(what does not decode is shown as `\\xNN`); encoding is exact or refused.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass

from copydesk.errors import BinaryFile, EncodingRefused, InvalidArgs

UNKNOWN = "unknown"

_BOMS = (
    (codecs.BOM_UTF8, "utf-8", 1),
    (codecs.BOM_UTF32_LE, "utf-32-le", 4),
    (codecs.BOM_UTF32_BE, "utf-32-be", 4),
    (codecs.BOM_UTF16_LE, "utf-16-le", 2),
    (codecs.BOM_UTF16_BE, "utf-16-be", 2),
)
_WIDE = {"utf-16-le": 2, "utf-16-be": 2, "utf-32-le": 4, "utf-32-be": 4}
_ASCII = bytes(range(1, 128))
_PIECE = 1 << 16
_EXACT = frozenset(("utf-8", "ascii", *_WIDE))
_NO_CHARACTER_SETS = (
    *("iso2022", "hz", "utf-7", "utf7", "utf-16", "utf-32"),
    *("unicode-escape", "raw-unicode-escape", "idna", "punycode", "undefined"),
)
"""Starts of the names of codecs that are stateful, or that escape rather than encode."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """One encoding of one file: codec name (Python's), byte order mark, code unit in bytes.

    The name `unknown` stands for bytes that are ASCII where they are ASCII and
    of which nothing else is known.
    """

    name: str
    bom: bytes = b""
    unit: int = 1

    @property
    def known(self) -> bool:
        """Whether text beyond ASCII can be read and written."""
        return self.name != UNKNOWN

    @property
    def label(self) -> str:
        """The name as a report shows it: `utf-8-sig` for UTF-8 with a byte order mark."""
        return "utf-8-sig" if self.bom == codecs.BOM_UTF8 else self.name

    def unmarked(self, text: str) -> str:
        """The whole text of a file without a byte order mark that the file has already."""
        return text.removeprefix("\ufeff") if self.bom else text

    def decode(self, data: bytes) -> str:
        """The text of `data` (no byte order mark is removed), `\\xNN` for what does not decode."""
        name = self.name if self.known else "ascii"
        return data.decode(name, "backslashreplace")

    def encode(self, text: str) -> bytes:
        """The bytes of `text`, without a byte order mark; raises EncodingRefused.

        Also for text that would come back as another one: Shift JIS writes a yen
        sign as a backslash.
        """
        name = self.name if self.known else "ascii"
        try:
            data = text.encode(name)
        except UnicodeEncodeError as error:
            raise self._refused(text, error.start) from None
        if name not in _EXACT and (back := self.decode(data)) != text:
            pairs = enumerate(zip(text, back, strict=False))
            raise self._refused(text, next((i for i, (a, b) in pairs if a != b), 0))
        return data

    def _refused(self, text: str, index: int) -> EncodingRefused:
        character = text[index]
        if "\ud800" <= character <= "\udfff":
            character = f"\\u{ord(character):04x}"
        return EncodingRefused(self.name, character, index)


UTF8 = Encoding("utf-8")


def detect(data: bytes, named: str | None = None) -> Encoding:
    """The encoding of a file: its byte order mark, else `named`, else strict UTF-8, else unknown.

    `named` is a codec name from `checked_name`. Raises BinaryFile for a NUL byte
    where the code unit is one byte.
    """
    encoding = _detect(data, named)
    if encoding.unit == 1:
        nul = data.find(b"\0")
        if nul >= 0:
            raise BinaryFile(nul)
    return encoding


def detect_head(head: bytes, named: str | None = None) -> Encoding:
    """The encoding of a file by its first four bytes, UTF-8 where they do not tell."""
    return _marked(head) or of_new_file(named)


def of_new_file(named: str | None) -> Encoding:
    """The encoding of a file that is to be made, where configuration names `named` for it."""
    return UTF8 if named is None else Encoding(named, b"", _WIDE.get(named, 1))


def checked_name(name: str) -> str:
    """Python's name of the codec `name`, if files in it can be edited by bytes.

    Raises InvalidArgs for an unknown codec and for one in which ASCII bytes do
    not stand for themselves (stateful or EBCDIC ones).
    """
    lowered = name.strip().lower().replace("_", "-")
    lowered = {"utf-16le": "utf-16-le", "utf-16be": "utf-16-be", "utf-8-bom": "utf-8"}.get(
        lowered, lowered
    )
    if lowered in _WIDE:
        return lowered
    try:
        found = codecs.lookup(lowered).name
    except (LookupError, ValueError):
        raise InvalidArgs("encodings", f"unknown encoding {name!r}") from None
    if found == "utf-8-sig":
        return "utf-8"
    characters = not found.startswith(_NO_CHARACTER_SETS)
    try:
        plain = characters and _ASCII.decode(found) == _ASCII.decode("ascii")
    except (UnicodeError, LookupError):
        plain = False
    if not plain:
        raise InvalidArgs("encodings", f"{name!r} is not a superset of ASCII")
    return found


def _detect(data: bytes, named: str | None) -> Encoding:
    marked = _marked(data)
    if marked is not None:
        return marked
    if named is not None and named != "utf-8":
        return Encoding(named, b"", _WIDE.get(named, 1))
    return UTF8 if _is_utf8(data) else Encoding(UNKNOWN)


def _is_utf8(data: bytes) -> bool:
    """Whether the bytes decode; looked at in pieces, of which most are ASCII in most files."""
    if data.isascii():
        return True
    at = 0
    while at < len(data):
        end = data.find(b"\n", at + _PIECE) + 1 or len(data)
        piece = data[at:end]
        at = end
        if not piece.isascii():
            try:
                piece.decode("utf-8")
            except UnicodeDecodeError:
                return False
    return True


def _marked(data: bytes) -> Encoding | None:
    """The encoding that the byte order mark tells."""
    for bom, name, unit in _BOMS:
        if data.startswith(bom):
            return Encoding(name, bom, unit)
    return None
