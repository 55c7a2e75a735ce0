r"""Bytes that do not decode: shown as `\xNN`, and meant by it when that comes back.

Invariants: within a text of ours such a byte is one lone surrogate, U+DC00 and its value
(`Encoding.text`, `Encoding.bytes_of`); what a caller sees or sends holds none. What was shown
of some lines, put in their place, is their very bytes: `meant(shown(t), t) == t`.

Where bytes are shown so, a backslash before another escape, or before text that reads as
one, is shown twice; so `\\xNN` is the text `\xNN`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

BASE = 0xDC00

_RAW = re.compile("[\udc00-\udcff]")
_RUNS = re.compile("([\udc00-\udcff]+)")
_DOUBLED = {
    least: re.compile(rf"\\+(?=x[{first}A-Fa-f][0-9A-Fa-f]|[" + "\udc00-\udcff])")
    for least, first in ((0x00, "0-9"), (0x80, "89"))
}
_ESCAPE = re.compile(r"(\\+)x([0-9A-Fa-f]{2})")
_SHOWN = {BASE + byte: f"\\x{byte:02x}" for byte in range(256)}


@dataclass(frozen=True, slots=True)
class Escapes:
    r"""What became of `\xNN` in new text: those that stood for bytes, and those kept as text.

    Each once, in lower case, as it is shown. Text that was there before is not told.
    """

    meant: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()

    @staticmethod
    def of(each: Iterable[Escapes]) -> Escapes:
        """All of them together."""
        every = tuple(each)
        return Escapes(
            frozenset(escape for one in every for escape in one.meant),
            frozenset(escape for one in every for escape in one.kept),
        )


NONE = Escapes()


def has_raw(text: str) -> bool:
    """Whether there is a byte that did not decode."""
    return not text.isascii() and _RAW.search(text) is not None


def parts(text: str) -> list[str]:
    """The text cut around runs of such bytes: text, bytes, text, bytes, ..., text."""
    return _RUNS.split(text)


def shown(text: str, least: int = 0x80) -> str:
    r"""The text with `\xNN` for each byte that did not decode.

    `least`, here and below, is the least byte that may not.
    """
    if "\\" in text:
        text = _DOUBLED[least].sub(lambda found: found[0] * 2, text)
    return text.translate(_SHOWN) if has_raw(text) else text


def meant(text: str, old: str, least: int = 0x80) -> tuple[str, Escapes]:
    r"""The text that a caller puts in the place of `old`, which was shown to it by `shown`.

    `\xNN` of a byte in `old` is that byte, `\\xNN` of one that `old` has as a byte or as
    text is the text `\xNN`; all else stays.
    """
    if "\\x" not in text:
        return text, NONE
    raw = {ord(one) - BASE for one in _RAW.findall(old)}
    known = raw | {int(found[2], 16) for found in _ESCAPE.finditer(old)}
    bytes_: set[str] = set()
    kept: set[str] = set()

    def one(found: re.Match[str]) -> str:
        count, byte = len(found[1]), int(found[2], 16)
        if byte < least:
            return found[0]
        if count % 2 and byte in raw:
            bytes_.add(_SHOWN[BASE + byte])
            return found[1][: count // 2] + chr(BASE + byte)
        if count % 2 == 0 and byte in known:
            return found[1][: count // 2] + found[0][count:]
        if count % 2 and byte not in known:
            kept.add(_SHOWN[BASE + byte])
        return found[0]

    made = _ESCAPE.sub(one, text)
    return made, Escapes(frozenset(bytes_), frozenset(kept))


def pattern(text: str, least: int = 0x80) -> re.Pattern[str] | None:
    """What finds `text`, as a caller saw it, in a text of ours; None where it has no escape.

    Each escape is found as the text that it is, and as what it was shown for.
    """
    made: list[str] = []
    at = 0
    for found in _ESCAPE.finditer(text):
        count, byte = len(found[1]), int(found[2], 16)
        if byte < least:
            continue
        half = found[1][: count // 2]
        other = half + chr(BASE + byte) if count % 2 else half + found[0][count:]
        made += (re.escape(text[at : found.start()]), _either(found[0], other))
        at = found.end()
    if not made:
        return None
    return re.compile("".join((*made, re.escape(text[at:]))))


def _either(one: str, other: str) -> str:
    return f"(?:{re.escape(one)}|{re.escape(other)})"
