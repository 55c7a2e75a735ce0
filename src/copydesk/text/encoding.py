"""Decode the bytes of a file and encode text for it; the encoding is never guessed.

Invariants: decoding never fails; encoding is exact or refused. In decoded text a byte that does not
decode is one lone surrogate, U+DC00 plus its value; callers see and send it as `\\xNN`. Where bytes
are shown so, a backslash before another escape, or before text that reads as one, is doubled.
Writing back lines as they were shown restores their very bytes: `unescaped(escaped(t), t) == t`.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace

from copydesk.errors import BinaryFile, EncodingRefused, InvalidArgs

RAW_BASE = 0xDC00

_RAW = re.compile("[\udc00-\udcff]")
_RUNS = re.compile("([\udc00-\udcff]+)")
_DOUBLED = {
    least: re.compile(rf"\\+(?=x[{first}A-Fa-f][0-9A-Fa-f]|[" + "\udc00-\udcff])")
    for least, first in ((0x00, "0-9"), (0x80, "89"))
}
_ESCAPE = re.compile(r"(\\+)x([0-9A-Fa-f]{2})")
_ANY_ESCAPE = re.compile(r"\\+x([0-9A-Fa-f]{2})|\\*([" + "\udc00-\udcff])")
_SHOWN = {RAW_BASE + byte: f"\\x{byte:02x}" for byte in range(256)}


@dataclass(frozen=True, slots=True)
class Escapes:
    r"""What became of `\xNN` in new text: escapes that stood for bytes, and those kept as text.

    Each is listed once, in lower case, as it is shown. Old text is not reported.
    """

    meant: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()

    @staticmethod
    def of(each: Iterable[Escapes]) -> Escapes:
        """Merge them."""
        merged = NO_ESCAPES
        for escapes in each:
            if escapes is not NO_ESCAPES:
                merged = Escapes(merged.meant | escapes.meant, merged.kept | escapes.kept)
        return merged


NO_ESCAPES = Escapes()


def has_raw(text: str) -> bool:
    """Whether the text contains a byte that did not decode."""
    return not text.isascii() and _RAW.search(text) is not None


def split_raw(text: str) -> list[str]:
    """Split the text around runs of undecoded bytes: text, bytes, text, bytes, ..., text."""
    return _RUNS.split(text)


def escaped(text: str, least: int = 0x80) -> str:
    r"""Show each undecoded byte from `least` on as `\xNN`."""
    if "\\" in text:
        text = _DOUBLED[least].sub(lambda found: found[0] * 2, text)
    return text.translate(_SHOWN) if has_raw(text) else text


def unescaped(text: str, old: str, least: int = 0x80) -> tuple[str, Escapes]:
    r"""Resolve the escapes of a caller's text that replaces `old`, which `escaped` showed to it.

    `\xNN` of a byte in `old` is that byte; `\\xNN` of one that `old` has as a byte or as text is
    the text `\xNN`; everything else stays.
    """
    if "\\x" not in text:
        return text, NO_ESCAPES
    raw = {ord(one) - RAW_BASE for one in _RAW.findall(old)}
    known = raw | {int(found[2], 16) for found in _ESCAPE.finditer(old)}
    bytes_: set[str] = set()
    kept: set[str] = set()

    def one(found: re.Match[str]) -> str:
        count, byte = len(found[1]), int(found[2], 16)
        if byte < least:
            return found[0]
        if count % 2 and byte in raw:
            bytes_.add(_SHOWN[RAW_BASE + byte])
            return found[1][: count // 2] + chr(RAW_BASE + byte)
        if count % 2 == 0 and byte in known:
            return found[1][: count // 2] + found[0][count:]
        if count % 2 and byte not in known:
            kept.add(_SHOWN[RAW_BASE + byte])
        return found[0]

    made = _ESCAPE.sub(one, text)
    return made, Escapes(frozenset(bytes_), frozenset(kept))


def escape_pattern(text: str, least: int = 0x80) -> re.Pattern[str] | None:
    """A pattern that matches `text` as it was shown, with its escapes; None if it has none."""
    made: list[str] = []
    at = 0
    for found in _ESCAPE.finditer(text):
        count, byte = len(found[1]), int(found[2], 16)
        if byte < least:
            continue
        half = found[1][: count // 2]
        other = half + chr(RAW_BASE + byte) if count % 2 else half + found[0][count:]
        either = f"(?:{re.escape(found[0])}|{re.escape(other)})"
        made += (re.escape(text[at : found.start()]), either)
        at = found.end()
    if not made:
        return None
    return re.compile("".join((*made, re.escape(text[at:]))))


def without_escapes(text: str) -> str:
    """Replace each undecoded byte, and every way to write it, by one mark for that byte.

    Where a pattern of `escape_pattern` matches a text, both are equal after this.
    """
    if "\\" not in text and not has_raw(text):
        return text

    def sign(found: re.Match[str]) -> str:
        return f"\0{found[1].lower()}" if found[1] else f"\0{ord(found[2]) - RAW_BASE:02x}"

    return _ANY_ESCAPE.sub(sign, text)


UNKNOWN = "unknown"

_BOMS = (
    (codecs.BOM_UTF8, "utf-8", 1),
    (codecs.BOM_UTF32_LE, "utf-32-le", 4),
    (codecs.BOM_UTF32_BE, "utf-32-be", 4),
    (codecs.BOM_UTF16_LE, "utf-16-le", 2),
    (codecs.BOM_UTF16_BE, "utf-16-be", 2),
)
_WIDE = {"utf-16-le": 2, "utf-16-be": 2, "utf-32-le": 4, "utf-32-be": 4}
_SPELLED = {
    "utf-16le": "utf-16-le",
    "utf-16be": "utf-16-be",
    "utf-8-bom": "utf-8",
    "utf-8-sig": "utf-8",
}
_ASCII = bytes(range(1, 128))
_PIECE = 1 << 16
_KEPT = "copydesk.kept"
_EXACT = frozenset(("utf-8", "ascii", *_WIDE))
_NO_CHARACTER_SETS = (
    *("iso2022", "hz", "utf-7", "utf7", "utf-16", "utf-32"),
    *("unicode-escape", "raw-unicode-escape", "idna", "punycode", "undefined"),
)
"""Prefixes of the names of codecs that are stateful, or that escape rather than encode."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """The encoding of one file: Python's codec name, byte order mark, code unit in bytes.

    The name `unknown` stands for bytes of which only the ASCII ones are known as text. `damaged`:
    not all of the file decodes.
    """

    name: str
    bom: bytes = b""
    unit: int = 1
    damaged: bool = field(default=False, compare=False)

    @property
    def known(self) -> bool:
        """Whether text beyond ASCII can be read and written."""
        return self.name != UNKNOWN

    @property
    def label(self) -> str:
        """The name as a report shows it: `utf-8-sig` for UTF-8 with a byte order mark."""
        return "utf-8-sig" if self.bom == codecs.BOM_UTF8 else self.name

    def unmarked(self, text: str) -> str:
        """Remove a byte order mark from a file's whole text if the file already has one."""
        return text.removeprefix("\ufeff") if self.bom else text

    @property
    def escapes(self) -> bool:
        """Whether bytes of the file are shown as `\\xNN`."""
        return self.damaged or self.name == UNKNOWN

    def decode(self, data: bytes) -> str:
        """Decode `data` for display: `\\xNN` for what does not decode; a byte order mark stays."""
        if not self.damaged and self.name != UNKNOWN:
            try:
                return data.decode(self.name)
            except UnicodeDecodeError:
                pass
        return escaped(self.text(data), self._least)

    def text(self, data: bytes) -> str:
        """Decode `data`; each byte that does not decode becomes a lone surrogate."""
        name = "ascii" if self.name == UNKNOWN else self.name
        for errors in ("strict", "surrogateescape"):
            try:
                return data.decode(name, errors)
            except UnicodeDecodeError:
                continue
        return data.decode(name, _KEPT)

    def bytes_of(self, text: str) -> bytes:
        """Return the bytes that decode to `text`; raises EncodingRefused as `encode` does."""
        if text.isascii() or not has_raw(text):
            return self.encode(text)
        return b"".join(
            bytes(ord(raw) - RAW_BASE for raw in part) if index % 2 else self.encode(part)
            for index, part in enumerate(split_raw(text))
        )

    def meant(self, text: str, old: bytes) -> tuple[str, Escapes]:
        """Resolve the escapes of a caller's text that replaces `old`; return them as well."""
        if "\\x" in text:
            was = self.text(old)
            if self.escapes or has_raw(was):
                return unescaped(text, was, self._least)
        return text, NO_ESCAPES

    def pattern(self, text: str) -> re.Pattern[str] | None:
        """A pattern for a caller's text with `\\xNN` in decoded text; None if it has none."""
        return escape_pattern(text, self._least)

    def encode(self, text: str) -> bytes:
        """Encode `text` without a byte order mark; raises EncodingRefused.

        It also refuses text that would decode differently: Shift JIS writes a yen sign as a
        backslash.
        """
        name = "ascii" if self.name == UNKNOWN else self.name
        try:
            data = text.encode(name)
        except UnicodeEncodeError as error:
            raise self._refused(text, error.start) from None
        if name not in _EXACT and (back := self.text(data)) != text:
            pairs = enumerate(zip(text, back, strict=False))
            raise self._refused(text, next((i for i, (a, b) in pairs if a != b), 0))
        return data

    @property
    def _least(self) -> int:
        """The lowest byte that may fail to decode."""
        return 0x80 if self.unit == 1 else 0

    def _refused(self, text: str, index: int) -> EncodingRefused:
        character = text[index]
        if "\ud800" <= character <= "\udfff":
            character = f"\\u{ord(character):04x}"
        return EncodingRefused(self.name, character, index)


UTF8 = Encoding("utf-8")
BYTES = Encoding(UNKNOWN)
"""Binary, or text in an unknown encoding."""


def detect(data: bytes, named: str | None = None) -> Encoding:
    """Detect a file's encoding: byte order mark, else `named`, else strict UTF-8, else unknown.

    `named` is a codec name from `checked_name`. Raises BinaryFile for a NUL byte where the code
    unit is one byte.
    """
    encoding = UTF8 if named is None and data.isascii() else _detect(data, named)
    if encoding.unit == 1 and (nul := data.find(b"\0")) >= 0:
        raise BinaryFile(nul)
    return encoding


def detect_head(head: bytes, named: str | None = None) -> Encoding:
    """Detect by a file's first four bytes: byte order mark, else `named`, else UTF-8."""
    marked = (Encoding(name, bom, unit) for bom, name, unit in _BOMS if head.startswith(bom))
    return next(marked, None) or of_new_file(named)


def of_new_file(named: str | None) -> Encoding:
    """Return the encoding of a new file, for which the configuration names `named`."""
    return UTF8 if named is None else Encoding(named, b"", _WIDE.get(named, 1))


def checked_name(name: str) -> str:
    """Return Python's name of the codec `name`, if files in it can be edited by bytes.

    Raises InvalidArgs for an unknown codec and for one in which ASCII bytes do not stand for
    themselves (stateful or EBCDIC ones).
    """
    lowered = name.strip().lower().replace("_", "-")
    lowered = _SPELLED.get(lowered, lowered)
    if lowered in _WIDE:
        return lowered
    try:
        found = codecs.lookup(lowered).name
    except (LookupError, ValueError):
        raise InvalidArgs("encodings", f"unknown encoding {name!r}") from None
    plain = None
    if not found.startswith(_NO_CHARACTER_SETS):
        with suppress(UnicodeError, LookupError):
            plain = _ASCII.decode(found)
    if plain != _ASCII.decode("ascii"):
        raise InvalidArgs("encodings", f"{name!r} is not a superset of ASCII")
    return found


def _detect(data: bytes, named: str | None) -> Encoding:
    encoding = detect_head(data, named)
    if _decodes(data, encoding):
        return encoding
    return BYTES if encoding == UTF8 else replace(encoding, damaged=True)


def encoding_of_diff(diff: bytes, named: str | None) -> Encoding:
    """Return the encoding of a diff made of a file for which the configuration names `named`."""
    return _detect(diff, None if named in _WIDE else named)


def _decodes(data: bytes, encoding: Encoding) -> bool:
    """Whether the bytes decode; UTF-8 in pieces, most of which are ASCII in most files."""
    if encoding.unit == 1 and data.isascii():
        return True
    at, step = 0, _PIECE if encoding.name == "utf-8" else len(data)
    with suppress(UnicodeDecodeError):
        while at < len(data):
            end = data.find(b"\n", at + step) + 1 or len(data)
            piece = data[at:end]
            if encoding.unit > 1 or not piece.isascii():
                piece.decode(encoding.name)
            at = end
    return at == len(data)


def _kept(error: UnicodeError) -> tuple[str, int]:
    """Decode the bytes of an error as lone surrogates."""
    assert isinstance(error, UnicodeDecodeError), "it is for decoding alone"
    found = error.object[error.start : error.end]
    return "".join(chr(RAW_BASE + byte) for byte in found), error.end


codecs.register_error(_KEPT, _kept)
