"""Evidence: the lines around and in an edit, as a caller sees them, few and cut.

What lives here: which lines are shown and how. What must not: what they mean.
"""

from __future__ import annotations

from collections.abc import Sequence

from copydesk.edit.locate import cut
from copydesk.text.snapshot import Text

AROUND = 3
MOST = 8
_HEAD = 5
_WIDTH = 200


def numbered(first_line: int, texts: Sequence[str]) -> list[str]:
    """The texts as `  12| text`, `first_line` counted from 1, numbers four wide or wider."""
    width = max(4, len(str(first_line + len(texts) - 1)))
    return [f"{first_line + i:>{width}}| {text}" for i, text in enumerate(texts)]


def lines_of(base: Text, start: int, stop: int) -> list[str]:
    """Lines [start, stop), 0-based, as far as the text has them; a long run is cut within."""
    start, stop = max(start, 0), min(stop, base.line_count)
    if stop - start <= MOST:
        return _numbered(base, start, stop)
    tail = MOST - _HEAD
    left_out = f"… ({stop - start - MOST} lines left out)"
    return [*_numbered(base, start, start + _HEAD), left_out, *_numbered(base, stop - tail, stop)]


def before(base: Text, line: int) -> list[str]:
    """The few lines before line `line`, 0-based."""
    return lines_of(base, line - AROUND, line)


def after(base: Text, line: int) -> list[str]:
    """The few lines from line `line` on, 0-based."""
    return lines_of(base, line, line + AROUND)


def _numbered(base: Text, start: int, stop: int) -> list[str]:
    return numbered(start + 1, [cut(text, _WIDTH) for text in base.texts(start, stop)])
