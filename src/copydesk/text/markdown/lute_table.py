"""Tables as Lute finds them in a finished paragraph.

What lives here: whether lines are a table and how many of them are text before
it. What must not: nodes, offsets.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from copydesk.text.markdown.attributes import SPACE

_RULE = re.compile(rb"[-|: ]+\Z").match
_ESCAPED = re.compile(rb"\\.", re.DOTALL).sub
_COLUMN = re.compile(rb"[-:]-*[-:]?\Z").match


@dataclass(frozen=True, slots=True)
class Found:
    """A table: how many lines before it stay a paragraph."""

    before: int


def find_table(lines: Sequence[bytes]) -> Found | None:
    """The table in a paragraph of these lines; None for none.

    As many lines as have no `|` count as text before it, wherever they stand.
    """
    before = sum(b"|" not in line for line in lines)
    rest = lines[before:]
    rule = next((i for i, line in enumerate(rest) if _columns(line)), 0)
    if rule < 1:
        return None
    columns = _columns(rest[rule].strip(SPACE))
    heads = [line.strip(SPACE) for line in rest[:rule]]
    if not all(heads) or any(len(_split(line)) > columns for line in heads):
        return None
    if any(not line.strip(SPACE) for line in rest[rule + 1 :]):
        before = 0  # a row of form feeds ends the reading, and the text before is lost
    return Found(before)


def _columns(line: bytes) -> int:
    """How many columns a delimiter row names; 0 when it is none."""
    if _RULE(line) is None:
        return 0
    cells = [cell.strip(SPACE) for cell in _split(line)]
    return len(cells) if all(_COLUMN(cell) for cell in cells) else 0


def _split(line: bytes) -> list[bytes]:
    """The cells of a row, without the empty ones before a first and after a last `|`."""
    cells = _ESCAPED(b"__", line).split(b"|")
    if cells and not cells[-1]:
        cells.pop()
    if cells and not cells[0].strip(b" "):
        del cells[0]
    if cells and not cells[-1].strip(b" "):
        cells.pop()
    return cells
