"""What may be written to a kernel as a block's text, and whether it is what came to stand there.

What lives here: the checks of a text before it is sent, and the comparison of a
text with the kramdown that is read back. What must not: requests. Invariant: a
text that has passed `checked` sets no id and no attribute, and makes no block
of a merge conflict.

The kernel writes Markdown its own way (`*` for `_`, `-` for `+`, its own tables,
numbers and links), so what is read back is compared word by word: all words
that were written stand there, and no others.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator
from urllib.parse import unquote

from copydesk.errors import InvalidArgs

_FENCE = re.compile(r"[ \t>]*(?:(?:[-*+]|[0-9]{1,9}[.)])[ \t]+)*(`{3,}(?=[^`]*$)|~{3,})")
_ATTRIBUTES = re.compile(r"(?:[ \t>]|[-*+][ \t]|[0-9]{1,9}[.)][ \t])*\{::?\s.*=")
_CONFLICT = re.compile(r"[ \t>]*(?:<{7}|>{7})(?:[ \t]|$)")

_LIST = re.compile(r"\{::?[^{}\n]*\}")
_MARKERS = re.compile(r"^[ \t>]*(?:(?:[-*+]|[0-9]{1,9}[.)])(?:[ \t]+|$)[ \t>]*)+", re.MULTILINE)
_EMOJI = re.compile(r":[a-z0-9_+-]+:")
_BREAK = re.compile(r"<br\s*/?>")
_INVISIBLE = re.compile("[\u200b-\u200d\u2060\ufe0f\ufeff]")
_IDEOGRAPHS = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff"
_WORD = re.compile(f"[{_IDEOGRAPHS}]|[^\\W_{_IDEOGRAPHS}]+")
_TAGS = frozenset(("sup", "sub", "kbd", "u", "mark", "span", "style", "br", "data"))
"""Words that the kernel may add, in the tags it writes for inline styles."""

_TOLD = 5


def checked(markdown: str) -> str:
    """The text itself; InvalidArgs(`markdown`) for one that a kernel must not get.

    Code in fences may hold what it likes.
    """
    if "\0" in markdown:
        raise InvalidArgs("markdown", "holds a NUL character")
    if any(0xD800 <= ord(c) <= 0xDFFF for c in markdown):
        raise InvalidArgs("markdown", "holds a lone surrogate")
    for line in _outside_fences(markdown):
        if _ATTRIBUTES.match(line):
            raise InvalidArgs("markdown", "holds a line of block attributes, {: …}")
        if _CONFLICT.match(line):
            raise InvalidArgs("markdown", "holds a line of merge conflict markers")
    return markdown


def has_conflict(kramdown: str) -> bool:
    """Whether a text read from a kernel holds conflict markers, which cannot be written back."""
    return any(_CONFLICT.match(line) for line in _outside_fences(kramdown))


def differing(written: str, read: str) -> str:
    """What of the words written is not among those read, or the other way round; empty for none."""
    given, there = _words(_EMOJI.sub(" ", _BREAK.sub(" ", written))), _words(read)
    missing = [word for word, times in given.items() if there[word] < times]
    if missing:
        return "missing: " + ", ".join(missing[:_TOLD])
    source = html.unescape(unquote(written)).casefold()
    added = [word for word in there if word not in _TAGS and word not in source]
    return "added: " + ", ".join(added[:_TOLD]) if added else ""


def same_text(one: str, other: str) -> bool:
    """Whether two texts are the same but for blank lines around and blanks at the ends of lines."""
    return _trimmed(one) == _trimmed(other)


def _trimmed(markdown: str) -> str:
    lines = markdown.replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip(" \t") for line in lines).strip("\n")


def _words(markdown: str) -> Counter[str]:
    plain = unquote(html.unescape(_INVISIBLE.sub("", _LIST.sub(" ", markdown))))
    return Counter(word.casefold() for word in _WORD.findall(_MARKERS.sub("", plain)))


def _outside_fences(markdown: str) -> Iterator[str]:
    """The lines that are not in a fence of code."""
    fence = ""
    for line in markdown.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        found = _FENCE.match(line)
        if not fence:
            if found:
                fence = found[1]
            else:
                yield line
        elif found and found[1].startswith(fence) and not line[found.end() :].strip():
            fence = ""
