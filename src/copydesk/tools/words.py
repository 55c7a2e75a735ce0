"""The words of the reports, in English and Chinese; field names and codes stay as they are.

What lives here: how a saying is filled with the facts, by name. What must not: the
texts (`sayings`), what is true (the outcome says that).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from copydesk.tools.report import Lang
from copydesk.tools.sayings import SAYINGS


def say(name: str, lang: Lang, facts: Mapping[str, object] | None = None) -> str:
    """The saying `name` in `lang`, filled with the facts.

    `name.less` is said where there is such a saying and a fact is not known.
    """
    known = _Facts({key: fact for key, fact in (facts or {}).items() if fact is not None})
    words = SAYINGS[name][lang == "zh"].format_map(known)
    if known.lacked and f"{name}.less" in SAYINGS:
        return say(f"{name}.less", lang, facts)
    return words


def names() -> frozenset[str]:
    """The names of all sayings."""
    return frozenset(SAYINGS)


class _Facts(dict[str, object]):
    """The facts by name, ready to be said; one that is not there is a question mark.

    `span` are the lines from `start` to `end`.
    """

    lacked = False

    def __getitem__(self, key: str) -> object:
        fact = super().__getitem__(key)
        if isinstance(fact, tuple):
            return ", ".join(map(str, cast("tuple[object, ...]", fact)))
        if isinstance(fact, str):
            return _Text(fact)
        return _Number(fact) if isinstance(fact, int) else fact

    def __missing__(self, key: str) -> object:
        if key == "span" and "start" in self and "end" in self:
            return f"{super().__getitem__('start')}~{super().__getitem__('end')}"
        self.lacked = True
        return "?"


class _Number(int):
    """A number that is said with its noun: `{new:line|lines}`."""

    def __format__(self, spec: str) -> str:
        if "|" not in spec:
            return super().__format__(spec)
        one, many = spec.split("|")
        return f"{int(self)} {one if self == 1 else many}"


class _Text(str):
    """A text; lines `N~M` are said with their noun: `{where:line|lines}`."""

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        if "|" not in spec:
            return super().__format__(spec)
        one, many = spec.split("|")
        first, _, last = self.partition("~")
        return f"{one} {first}" if last in ("", first) else f"{many} {first}~{last}"
