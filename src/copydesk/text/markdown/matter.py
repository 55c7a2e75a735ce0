"""Front matter and the other places where a text names its own ids.

What lives here: where front matter ends, `id:` in it, `^id` behind a text.
What must not: blocks. YAML is not parsed: an `id` is found where it stands
alone at the start of a line, as a plain or a quoted word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from copydesk.text.markdown import attributes

_ID = re.compile(
    rb"""^id:[ \t]+(?:"([^"\\\n]+)"|'([^'\n]+)'|([^\s"'#\[{&*!|>%@`][^\n#]*?))"""
    rb"""[ \t]*(?:[ \t]#.*)?\r?$""",
    re.MULTILINE,
)
_MARK = re.compile(rb"(?:\A|[ \t\n])\^([A-Za-z0-9-]+)[ \t]*\Z").search

_LONGEST = 100
"""A mark is not looked for further from the end of its line than this many bytes."""


def matter_lines(lines: Sequence[bytes]) -> int:
    """How many lines of front matter a text begins with, its fences included; 0 for none."""
    if not lines or lines[0].rstrip(b" \t") != b"---":
        return 0
    for count, line in enumerate(lines[1:], 2):
        if line.rstrip(b" \t") in (b"---", b"..."):
            return count
    return 0


def matter_id(matter: bytes) -> str | None:
    """The id that front matter gives the document."""
    found = _ID.search(matter)
    return _text(next(filter(None, found.groups()))) if found is not None else None


def marked_id(data: bytes, start: int, stop: int) -> str | None:
    """The `^id` that the text [start, stop) ends with."""
    found = _MARK(data[max(start, stop - _LONGEST) : stop])
    return _text(found[1]) if found is not None else None


def attributes_id(text: bytes) -> str | None:
    """The id in a line of attributes, or in a mark that stands there instead."""
    if text.startswith(b"^"):
        return marked_id(text, 0, len(text))
    pairs = attributes.leading_attributes(text) or attributes.line_attributes(text)
    value = attributes.value_of(pairs, b"id")
    return _text(value) if value else None


def _text(value: bytes) -> str | None:
    text = value.decode("utf-8", "replace").strip()
    return text or None
