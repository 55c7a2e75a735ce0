"""The manuals: Markdown pages by toolset, topic and language, and the server's instructions.

What lives here: the pages and how they are found. What must not: the contract
of one tool (`copydesk.tools.messages`). Invariants: every toolset has the same
topics in both languages; a page is read when it is asked for, never kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files

from copydesk.errors import InvalidArgs
from copydesk.tools.report import Lang

_TOOLSETS = ("ws_mod", "batch", "notes", "team_mgmt", "compat")
_TOPICS = ("index", "principles", "tools", "scenarios", "errors")
_OTHER_TOPICS = {
    "notes": ("index", "slice-reading", "block-edit-search-replace", "errors"),
    "compat": ("index", "tools", "errors"),
}


def toolsets() -> tuple[str, ...]:
    """The toolsets that have a manual."""
    return _TOOLSETS


def topics(toolset: str) -> tuple[str, ...]:
    """The pages of a toolset's manual, in reading order; raises InvalidArgs."""
    if toolset not in _TOOLSETS:
        raise InvalidArgs("toolset", _none_of(toolset, _TOOLSETS))
    return _OTHER_TOPICS.get(toolset, _TOPICS)


def read(toolset: str, topic: str, lang: Lang) -> str:
    """One page, as Markdown; raises InvalidArgs, with what there is, for an unknown one."""
    known = topics(toolset)
    if topic not in known:
        raise InvalidArgs("topic", _none_of(topic, known))
    return _page(toolset, topic, lang)


def instructions(toolsets: Iterable[str], lang: Lang) -> str:
    """What a server tells a model about some toolsets at once: how they work together."""
    wanted = set(toolsets)
    chosen = [name for name in _TOOLSETS if name in wanted]
    return "\n\n".join(_page(name, "instructions", lang).rstrip("\n") for name in chosen)


def _page(toolset: str, topic: str, lang: Lang) -> str:
    return (files(__name__) / toolset / lang / f"{topic}.md").read_text("utf-8")


def _none_of(name: str, known: Iterable[str]) -> str:
    return f"{name[:100]!r} is none of: {', '.join(known)}"
