"""The questions that are put to the kernel's index, as SQL.

What lives here: the SELECT of each, and how words become literals. What
must not: any other statement. Invariant: a statement is one SELECT, and what a
caller wrote stands in it as quoted literals only.
"""

from __future__ import annotations

from collections.abc import Sequence

from copydesk.errors import InvalidArgs

MOST_WORDS = 16

LEAVES_OUT = ("l", "i", "b", "s", "callout")
"""Kinds that hold what other blocks hold already."""


def search(words: Sequence[str], most: int) -> str:
    """The ids of blocks that may hold all the words, those changed last first.

    InvalidArgs for no word, too many, or one that no literal can hold.
    """
    if not words:
        raise InvalidArgs("query", "must not be empty")
    if len(words) > MOST_WORDS:
        raise InvalidArgs("query", f"more than {MOST_WORDS} words")
    kinds = ", ".join(literal(kind) for kind in LEAVES_OUT)
    tests = [f"type NOT IN ({kinds})", *(_holds(word) for word in words)]
    return (
        f"SELECT id FROM blocks WHERE {' AND '.join(tests)} "
        f"ORDER BY updated DESC, id LIMIT {int(most)}"
    )


def documents(box: str, most: int) -> str:
    """The ids of the documents of a notebook, by their paths of titles."""
    return (
        f"SELECT id FROM blocks WHERE type = 'd' AND box = {literal(box)} "
        f"ORDER BY hpath, id LIMIT {int(most)}"
    )


def literal(value: str) -> str:
    """The text as an SQL literal; InvalidArgs for one with NUL or half a character."""
    if "\0" in value:
        raise InvalidArgs("query", "holds a NUL character")
    if any(0xD800 <= ord(c) <= 0xDFFF for c in value):
        raise InvalidArgs("query", "holds a lone surrogate")
    return "'" + value.replace("'", "''") + "'"


def _holds(word: str) -> str:
    """That a block holds the word. SQLite folds the case of ASCII only, so forms are asked for."""
    forms = dict.fromkeys((word, word.lower(), word.upper(), word.capitalize()))
    if word.isascii():
        forms = {word: None}
    likes = (
        f"{column} LIKE {literal(f'%{_escaped(form)}%')} ESCAPE '\\'"
        for form in forms
        for column in ("content", "markdown")
    )
    return f"({' OR '.join(likes)})"


def _escaped(word: str) -> str:
    return word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
