"""From what size on a text is handled in parts, and how large the parts are, in bytes.

Read them as `sizes.LARGE`, so that a test can set them. Also how many tokens a text is about.
"""

from __future__ import annotations

import re

LARGE = 8 << 20
"""A file of more bytes is held in parts only, where that is possible."""

BESIDE = 512 << 10
"""Of so many bytes or more, digests and copies are made in threads in the background."""

JOINED = 2 << 20
"""A text of at most so many bytes is written and digested as one piece, without other threads."""

WHOLE = 256 << 20
"""A file of more bytes is never held as a whole."""

NOTE = 32 << 20
"""A larger file is no document of notes: its blocks would take gigabytes of memory."""

COMPARED = 64 << 20
"""A text of more bytes is not compared with another, line by line, and no base is kept of it."""

LINES = 1 << 20
"""Nor is a large one of more lines; what is held for each takes some 300 bytes."""

PART = 4
"""The base of a large text may take one part in so many of the bound of all bases."""

WINDOW = 4 << 20
"""So many bytes of consecutive lines, around the place of one edit, are held at most."""

BLOCK = 256 << 10
"""A file is passed over in blocks of so many bytes.

Reading one releases Python's lock, for which the digest waits that is made meanwhile.
"""

NEAR = 64 << 20
"""Lines close to a text that is not there are sought in the first so many bytes."""

_PIECE = re.compile(r"[^\W\d_]{1,7}|\d{1,3}|_+|[^\w\s]{1,2}|\n\s*|[^\S\n]{2,}")


def tokens(text: str) -> int:
    """How many tokens a model's text is about, rather more than less.

    Measured against `cl100k_base`: 1.3 to 1.5 times as many for code and prose, as
    many for the densest texts that were tried (numbers, names in mixed case, hex digits).
    """
    pieces = len(_PIECE.findall(text))
    if not text.isascii():
        pieces += (len(text.encode("utf-8", "surrogatepass")) - len(text)) // 2
    return pieces + pieces // 4


def most_tokens(text: str) -> int:
    """An upper bound of the tokens, without looking at each word."""
    return 4 * len(text) if not text.isascii() else len(text) + len(text) // 4
