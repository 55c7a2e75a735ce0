"""HTML, escaped by construction.

What lives here: `Html`, and the functions that make one. What must not: pages.
Invariants: an `Html` is safe to send as it is; every other text that is put into
one is escaped, and what could hide in it (control characters, marks of
direction, characters without width) is shown by its number.
"""

from __future__ import annotations

import html as escaping
import re
import unicodedata
from collections.abc import Iterable
from typing import Final

from copydesk.app.terminal import HIDDEN

_EMPTY_TAGS: Final = frozenset(("br", "hr", "img", "input", "link", "meta", "col"))


class Html(str):
    """Markup that may be sent as it is. Made by the functions of this module only."""

    __slots__ = ()


NOTHING: Final = Html("")
Child = str | None
Attribute = str | int | float | bool | None


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """An element. Children that are no `Html` are shown as text; None is left out.

    Attributes: `class_` is class, `data_x` is data-x; True is the bare name, False
    and None leave it out. The `value` of a field stays as it is, other attributes
    are shown as text is.
    """
    opened = f"<{name}{_attributes(attributes)}>" if attributes else f"<{name}>"
    if name in _EMPTY_TAGS:
        return Html(opened)
    return Html(f"{opened}{''.join(map(_child, children))}</{name}>")


def joined(parts: Iterable[Child], between: str = "") -> Html:
    """All parts, one after the other."""
    return Html(shown(between).join(map(_child, parts)))


def shown(text: str) -> Html:
    """The text, for eyes: what could hide in it is shown by its number."""
    if isinstance(text, Html):
        return text
    escaped = escaping.escape(text)
    if text.isascii() and text.isprintable():
        return Html(escaped)
    return Html(HIDDEN.sub(_odd_element, escaped))


def verbatim(text: str) -> Html:
    """The text as it is, for a field that is sent back."""
    return Html(escaping.escape(text).replace("\r", "&#13;"))


def plain(text: str) -> str:
    """The same as `shown` for where no element can stand: a title, an attribute."""
    if text.isascii() and text.isprintable():
        return text
    return HIDDEN.sub(lambda found: _number(found[0]), text)


def odd_in(text: str) -> int:
    """How many characters of the text cannot be seen."""
    if text.isascii() and text.isprintable():
        return 0
    return sum(1 for _ in HIDDEN.finditer(text))


def named(count: int, one: str, many: str | None = None) -> str:
    """A number with its noun: `1 line`, `1,200 lines`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _child(child: Child) -> str:
    return "" if child is None else shown(child)


def _attributes(attributes: dict[str, Attribute]) -> str:
    made: list[str] = []
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        name = name.rstrip("_").replace("_", "-")
        if value is True:
            made.append(f" {name}")
            continue
        text = verbatim(str(value)) if name == "value" else escaping.escape(plain(str(value)))
        made.append(f' {name}="{text}"')
    return "".join(made)


def _odd_element(found: re.Match[str]) -> str:
    character = found[0]
    name = unicodedata.name(character, "control character").lower()
    return f'<span class="odd" title="{escaping.escape(name)}">{_number(character)}</span>'


def _number(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"U+{code:04X}"
