"""Making text fit for a list: its items take the sign of the others.

What lives here: `as_items`. What must not: where they go.
"""

from __future__ import annotations

import re

from copydesk.text.markdown.block import Block
from copydesk.text.markdown.kinds import LIST

_MARKER = re.compile(rb"[-+*]|[0-9]{1,9}[.)]").match


def marker_of(data: bytes, item: Block) -> bytes:
    """The sign before an item, as `-` or `2.`."""
    found = _MARKER(data, item.start)
    return found[0] if found is not None else b"-"


def as_items(lines: list[bytes], blocks: tuple[Block, ...], marker: bytes) -> list[bytes]:
    """The lines of a text with its items made items of the list that `marker` is from.

    `blocks` are those of the text, counted in its lines joined by LF. A sign of
    another kind is replaced, and what belongs to the item is indented as the new
    one asks for; numbers stay. A text that is no list becomes one item.
    """
    if not blocks or any(block.kind != LIST for block in blocks):
        return [marker + b" " + lines[0], *_shifted(lines[1:], len(marker) + 1)]
    text = b"\n".join(lines)
    items = [item for block in blocks for item in block.children]
    first = [text.count(b"\n", 0, item.start) for item in items]
    made = lines[: first[0]]
    for item, start, stop in zip(items, first, [*first[1:], len(lines)], strict=True):
        old = marker_of(text, item)
        if _kind(old) == _kind(marker):
            made += lines[start:stop]
            continue
        at = len(lines[start]) - len(lines[start].lstrip(b" \t"))
        new = old[:-1] + marker[-1:] if old[-1:] in b".)" and marker[-1:] in b".)" else marker
        made.append(lines[start][:at] + new + lines[start][at + len(old) :])
        made += _shifted(lines[start + 1 : stop], len(new) - len(old))
    return made


def _kind(marker: bytes) -> bytes:
    """What items of one list have in common: the bullet, or the delimiter."""
    return marker[-1:]


def _shifted(lines: list[bytes], columns: int) -> list[bytes]:
    """The lines so many columns further in, or further out."""
    if columns >= 0:
        return [b" " * columns + line if line else line for line in lines]
    return [line[min(-columns, len(line) - len(line.lstrip(b" "))) :] for line in lines]
