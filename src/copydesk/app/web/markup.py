"""Jinja templates, text made safe to show in them, and their words in the reader's language.

Invariants: every expression of a template is escaped, and characters that could hide in it (control
characters, format characters, look-alikes of blanks and of letters) are shown by their numbers.
English words stand in the templates and the code; `zh.toml` has the Chinese of each.
"""

from __future__ import annotations

import json
import re
import time
import tomllib
import unicodedata
from collections.abc import Mapping
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Final, cast
from urllib.parse import quote

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from copydesk.app.terminal import unseen, with_codes
from copydesk.tools.messages import Lang

LANG: Final[ContextVar[Lang]] = ContextVar("the language of the page", default="en")
_HERE: Final = Path(__file__).parent
_INDENT: Final = re.compile(r"(?<=[>}])\s*\n\s*|\s*\n\s*(?=[<{])")
"""Line breaks of a template next to an element or a directive, which the page does not need."""


def visible(text: str, start: int = 0, stop: int | None = None) -> Markup:
    """A text, or a part of it, as an element's content; what cannot be seen is a number.

    So is what may be mistaken: a letter of another script than its word, which may begin before.
    """
    if isinstance(text, Markup):
        return text
    parts, at, stop = list[Markup](), start, len(text) if stop is None else stop
    for offset in unseen(text):
        if start <= offset < stop:
            parts += (escape(text[at:offset]), _hidden_element(text[offset]))
            at = offset + 1
    return Markup("".join((*parts, escape(text[at:stop]))))


@cache
def _chinese() -> Mapping[str, str]:
    return cast("Mapping[str, str]", tomllib.loads((_HERE / "zh.toml").read_text("utf-8")))


def translated(text: str) -> str:
    """The text in the reader's language; unchanged if there is no translation."""
    return text if LANG.get() == "en" else _chinese().get(text, text)


def phrase(text: str, **facts: object) -> str:
    """The translated text with the facts in its `{places}`."""
    return translated(text).format(**facts)


def marked_up(text: str, **facts: object) -> Markup:
    """Like `phrase`, as an element's content: what cannot be seen in a fact is a number."""
    shown_facts = {
        name: visible(fact) if isinstance(fact, str) else fact for name, fact in facts.items()
    }
    return Markup(escape(translated(text))).format(**shown_facts)


@cache
def _of_script(lang: Lang) -> str:
    script = (_HERE / "static/desk.js").read_text("utf-8")
    texts: list[str] = re.findall(r'\bsay\("([^"]+)"', script)
    return json.dumps({text: _chinese()[text] for text in texts} if lang == "zh" else {})


def verbatim(text: str) -> Markup:
    """The unchanged text, for a field that is sent back."""
    return Markup(str(escape(text)).replace("\r", "&#13;"))


def plain(text: str) -> str:
    """The text with the numbers of hidden characters, for places without elements."""
    return with_codes(text, _number)


def hidden_in(text: str) -> int:
    """The number of hidden characters in the text."""
    return len(unseen(text))


def named(count: int, singular: str, plural: str | None = None) -> str:
    """A number with its noun: `1 line`, `1,200 lines`; Chinese has one form."""
    noun = singular if count == 1 or LANG.get() == "zh" else plural or singular + "s"
    return f"{count:,} {translated(noun)}"


def address(*parts: str, **query: str | int | None) -> str:
    """An address below `/`, with its parts and values quoted; None and "" omit a value."""
    path = "/" + "/".join(quote(part, safe="") for part in parts)
    values = "&".join(
        f"{name}={quote(str(v), safe='')}" for name, v in query.items() if v not in (None, "")
    )
    return f"{path}?{values}" if values else path


def render(template: str, **values: object) -> Markup:
    """The template with this name, filled in."""
    return Markup(ENVIRONMENT.get_template(template).render(values))


def _hidden_element(character: str) -> Markup:
    name = unicodedata.name(character, "control character").lower()
    return Markup(f'<span class="odd" title="{escape(name)}">{_number(character)}</span>')


def _number(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"U+{code:04X}"


def _source(name: str) -> str:
    text = (_HERE / "templates" / name).read_text("utf-8")
    return re.sub(r"\s*\n\s*", " ", _INDENT.sub("", text))


def _finalize(value: object) -> object:
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _utc(time_ms: int, form: str) -> str:
    return time.strftime(form, time.gmtime(time_ms // 1000))


ENVIRONMENT: Final = Environment(
    loader=FunctionLoader(_source), autoescape=True, finalize=_finalize, undefined=StrictUndefined
)
cast("dict[str, object]", ENVIRONMENT.filters).update(
    visible=visible, verbatim=verbatim, named=named, utc=_utc
)
_GLOBALS: Final[Mapping[str, object]] = {
    "address": address,
    "_": marked_up,
    "say": phrase,
    "lang": LANG.get,
    "script_texts": lambda: _of_script(LANG.get()),
}
ENVIRONMENT.globals.update(_GLOBALS)  # pyright: ignore # typed as what Jinja puts there
