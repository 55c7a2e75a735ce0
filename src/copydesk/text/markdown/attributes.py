"""Lines of attributes, `{: id="..." name="..."}`, as Lute reads them.

What lives here: which bytes are attributes and what they say. What must not:
which block they belong to. Never raises; what is no attribute list is empty.
"""

from __future__ import annotations

from dataclasses import dataclass

SPACE = b" \t\n\v\f\r"
"""What Lute takes for white space."""

Pairs = list[tuple[bytes, bytes]]

_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_FIRST = _LETTERS | frozenset(b"_:")
_NAME = _LETTERS | frozenset(b"0123456789-_.:")
_UNQUOTED_END = frozenset(b"\"'=<`")


def line_attributes(text: bytes) -> Pairs:
    """The attributes of a line that is nothing but a list of them; `text` has no terminator."""
    if not text.startswith(b"{:") or not text.endswith(b"}") or len(text) < 6:
        return []
    return _pairs(text[2:-1].removeprefix(b"{:"))


@dataclass(frozen=True, slots=True)
class Leading:
    """A list of attributes before a text, and the byte of the line after it."""

    pairs: Pairs
    stop: int


def at_start(line: bytes, at: int) -> Leading | None:
    """The list of attributes at byte `at` of a line, as in `- {: id="..."}text`."""
    if not line.startswith(b"{:", at):
        return None
    stop = line.find(b"}", at) + 1
    pairs = leading_attributes(line[at:stop])
    return Leading(pairs, stop) if pairs else None


def leading_attributes(text: bytes) -> Pairs:
    """The attributes of a list at the start of `text`; other text may follow."""
    if not text.startswith(b"{:"):
        return []
    end = text.find(b"}", 2)
    return _pairs(text[2:end]) if end >= 5 else []


def bare_attributes(text: bytes) -> Pairs:
    """The attributes at the start of the first paragraph of an item; the braces may be missing."""
    text = text.rstrip(b" \n").removeprefix(b"{:").removesuffix(b"}")
    return _pairs(text.replace(b"\n", b"_esc_newline_"))


def spelled(pairs: Pairs) -> bytes:
    """The list as it is written out again."""
    return b"{: " + b" ".join(name + b'="' + value + b'"' for name, value in pairs) + b"}"


def value_of(pairs: Pairs, name: bytes) -> bytes | None:
    """The last value of a name."""
    return next((value for key, value in reversed(pairs) if key == name), None)


def _pairs(text: bytes) -> Pairs:
    """Attribute after attribute, until something else stands there.

    An attribute without a value counts, but has neither a name nor a value.
    """
    found: Pairs = []
    at = 0
    while True:
        name_at = _skip_space(text, at)
        if name_at == at:
            return found
        if name_at == len(text):
            name_at -= 1
        if text[name_at] not in _FIRST:
            return found
        name_end = name_at + 1
        while name_end < len(text) and text[name_end] in _NAME:
            name_end += 1
        name = text[name_at:name_end]
        # a name that ends the text is left there by its last character, which is no space
        sign = name_end if name_end < len(text) or name_end == name_at + 1 else name_end - 1
        value = _value(text, sign)
        if value is None:
            return found
        start, stop, at = value
        found.append((name, text[start:stop]) if at > sign else (b"", b""))


def _value(text: bytes, at: int) -> tuple[int, int, int] | None:
    """Where a value starts and stops and where the rest begins; None for a broken one.

    Nothing is consumed when there is no equals sign.
    """
    sign = _skip_space(text, at)
    if sign >= len(text) or text[sign] != 61:
        return at, at, at
    if sign + 1 >= len(text):
        return None
    quote = min(_skip_space(text, sign + 1), len(text) - 1)
    start = quote + 1
    if text[quote] in b"\"'":
        end = text.find(text[quote : quote + 1], start)
        return None if end < 0 else (start, end, end + 1)
    end = start
    fine = False
    while end < len(text):
        byte = text[end]
        if byte == 62:
            end -= 1
            break
        if byte in SPACE:
            break
        if byte in _UNQUOTED_END:
            fine = False
            break
        fine = True
        end += 1
    return (start, end, min(end + 1, len(text))) if fine else None


def _skip_space(text: bytes, at: int) -> int:
    while at < len(text) and text[at] in SPACE:
        at += 1
    return at
