"""The manuals: Markdown pages by toolset, topic and language, and the server's instructions.

Invariants: every toolset has the same topics in both languages; a page is read when it is asked
for, never kept. What a tool takes stands in its class and not in its chapter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.resources import files

from copydesk.errors import InvalidArgs
from copydesk.tools.arguments import Schema
from copydesk.tools.messages import say
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
    page = _page(toolset, topic, lang)
    return with_arguments(page, lang) if topic == "tools" else page


def instructions(toolsets: Iterable[str], lang: Lang, *, auto: bool = False) -> str:
    """What a server tells a model about some toolsets at once: how they work together.

    `auto`: a call that does not say `apply` means auto.
    """
    wanted = set(toolsets)
    chosen = [name for name in _TOOLSETS if name in wanted]
    pages = [_page(name, "instructions", lang).rstrip("\n") for name in chosen]
    return "\n\n".join([*pages, *([say("auto.default", lang)] if auto else [])])


def _page(toolset: str, topic: str, lang: Lang) -> str:
    return (files(__name__) / toolset / lang / f"{topic}.md").read_text("utf-8")


_SIGNATURE = "`{name}({{ … }})`"
_PARAMETERS = re.compile(r"^\*\*(?:Parameters|参数)\*\*.*", re.MULTILINE)


def with_arguments(page: str, lang: Lang) -> str:
    """The page with each tool's call signature, and the arguments that are not named in it."""
    from copydesk.tools.reference import all_tools  # few have a use for it

    tools = {tool.name: tool for tool in all_tools()}
    common, *chapters = page.split("\n### ")
    for i, chapter in enumerate(chapters):
        name = chapter.split("\n", 1)[0]
        if name in tools:
            chapters[i] = _chapter(chapter, name, tools[name].described_schema(lang), common, lang)
    return "\n### ".join((common, *chapters))


def _chapter(text: str, name: str, schema: Schema, common: str, lang: Lang) -> str:
    forms, required = schema["properties"], schema["required"]
    taken = ", ".join(one if one in required else f"{one}?" for one in forms)
    whole = text.replace(_SIGNATURE.format(name=name), f"`{name}({{ {taken} }})`")
    colon = "：" if lang == "zh" else ": "
    others = "".join(
        f" `{one}`{colon}{form.get('description', '')}"
        for one, form in forms.items()
        if f"`{one}`" not in whole and f"`{one}`" not in common
    )
    return _PARAMETERS.sub(lambda line: line[0] + others, whole, count=1)


def _none_of(name: str, known: Iterable[str]) -> str:
    return f"{name[:100]!r} is none of: {', '.join(known)}"
