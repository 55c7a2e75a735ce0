"""Size limits, in bytes unless they say otherwise, and estimates of token counts.

Read them as `sizes.LARGE`, so that a test can set them.
"""

from __future__ import annotations

import re

LARGE = 8 << 20
"""A larger file is loaded in parts only, where possible."""

BESIDE = 512 << 10
"""From this size on, digests and copies are made in background threads."""

JOINED = 2 << 20
"""A text up to this size is written and digested in one piece, without other threads."""

WHOLE = 256 << 20
"""A larger file is never loaded as a whole."""

NOTE = 32 << 20
"""A larger file is not opened as a notes document: its blocks would take gigabytes of memory."""

PARSED = 256 << 10
"""For each so many bytes of Markdown a parser may take a second of CPU time."""

COMPARED = 64 << 20
"""A larger text is not compared line by line with another, and no base of it is stored."""

LINES = 1 << 20
"""In lines; a large text with more is not compared either: each takes some 300 bytes of memory."""

PART = 4
"""The base of a large text may take up at most this fraction (1/4) of the limit for all bases."""

WINDOW = 4 << 20
"""The most bytes of consecutive lines loaded around the place of one edit."""

BLOCK = 256 << 10
"""Files are scanned in blocks of this size.

Reading a block releases the GIL, which the digest computed at the same time needs.
"""

NEAR = 64 << 20
"""Lines similar to a text that was not found are searched for in this many bytes from the start.

Its folded form (`text/nearest.py`) is searched for only in files up to this size, or a quarter of
it if they are not ASCII.
"""

_PIECE = re.compile(r"[^\W\d_]{1,7}|\d{1,3}|_+|[^\w\s]{1,2}|\n\s*|[^\S\n]{2,}")


def tokens(text: str) -> int:
    """Estimate the tokens that a model counts for a text, rather too many than too few.

    Compared with `cl100k_base`: 1.3 to 1.5 times the count for code and prose, about the exact
    count for the densest texts tried (numbers, names in mixed case, hex digits).
    """
    pieces = len(_PIECE.findall(text))
    if not text.isascii():
        pieces += (len(text.encode("utf-8", "surrogatepass")) - len(text)) // 2
    return pieces + pieces // 4


_SCRIPTS = (
    (re.compile(r"[A-Z]?[a-z]{1,12}|[A-Z]{1,12}"), 1.06),
    (re.compile(r"[0-9]{1,3}"), 1.24),
    (re.compile(r"_|[!-/:-@[-^`{-~]{1,2}"), 0.78),
    (re.compile(r"\n\s*"), 0.31),
    (re.compile(r"[^\S\n]{2,}"), 0.5),
)
_OTHER_SCRIPTS = (
    (re.compile("[\u0080-\u036f\u0400-\u052f]"), 0.55),
    (re.compile("[\u0370-\u03ff\u0530-\u2fff]"), 1.1),
    (re.compile("[\u3000-\uffff]"), 1.15),
    (re.compile("[\U00010000-\U0010ffff]"), 2.6),
)
"""The tokens of `cl100k_base` for each piece: words, numbers, signs, line breaks, blanks, then the
characters of Latin with accents and Cyrillic, of other alphabets, of East Asia, and beyond."""


def counted(text: str) -> int:
    """Estimate the tokens of a text, within a tenth for texts of some length."""
    scripts = _SCRIPTS if text.isascii() else _SCRIPTS + _OTHER_SCRIPTS
    return round(sum(weight * len(pieces.findall(text)) for pieces, weight in scripts))


def most_tokens(text: str) -> int:
    """Return an upper bound of the token count without looking at each word."""
    return 4 * len(text) if not text.isascii() else len(text) + len(text) // 4


PLACED = 20_000
"""The most hunks or replacements that a call may place one by one: 0.1 ms each."""

CORRECTED = 2 << 20
"""Only in texts up to this size is an old text that is not there as given corrected: its lines are
compared one by one."""
