"""The manuals: Markdown pages by toolset, topic and language, and the server's instructions.

Invariants: every toolset has the same topics in both languages; a page is read on request and never
cached. The arguments of a tool are defined in its class, not in its chapter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib.resources import files

from copydesk.errors import InvalidArgs
from copydesk.tools.arguments import Schema
from copydesk.tools.catalog import EDIT
from copydesk.tools.messages import say
from copydesk.tools.report import Lang

_TOOLSETS = ("edit", "ws_mod", "batch", "notes", "team_mgmt", "compat", "patch")
_TOPICS = ("index", "principles", "tools", "scenarios", "errors")
_OTHER_TOPICS = {
    "notes": ("index", "slice-reading", "block-edit-search-replace", "errors"),
    "compat": ("index", "tools", "errors"),
    "patch": ("index", "errors"),
    "edit": ("index",),
}


def toolsets() -> tuple[str, ...]:
    """The toolsets that have a manual."""
    return _TOOLSETS


def topics(toolset: str) -> tuple[str, ...]:
    """The pages of a toolset's manual in reading order; raises InvalidArgs."""
    if toolset not in _TOOLSETS:
        raise InvalidArgs("toolset", _none_of(toolset, _TOOLSETS))
    return _OTHER_TOPICS.get(toolset, _TOPICS)


def read(toolset: str, topic: str, lang: Lang) -> str:
    """One page as Markdown; for an unknown one, InvalidArgs names those that exist."""
    known = topics(toolset)
    if topic not in known:
        raise InvalidArgs("topic", _none_of(topic, known))
    page = _page(toolset, topic, lang)
    return with_arguments(page, lang) if topic == "tools" else page


def part(toolset: str, topic: str, lang: Lang) -> str:
    """A page, or what the manual says about one tool, error code or heading, as Markdown.

    A long page with many chapters gives a list of them. For an unknown topic, InvalidArgs names
    the pages.
    """
    pages = topics(toolset)
    wanted = topic.strip().lower() or pages[0]
    if wanted in pages:
        page = read(toolset, wanted, lang)
        return _overview(page) if wanted in _LISTED and len(page) > _LONG else page
    for name in pages:
        chapter = _chapters(read(toolset, name, lang)).get(wanted)
        if chapter:
            return chapter
    if toolset == EDIT:  # its other tools are those of ws_mod, and one of patch
        return part("patch" if wanted in _OF_PATCH else "ws_mod", topic, lang)
    raise InvalidArgs(
        "topic",
        f"{topic[:100]!r} is none of: {', '.join(pages)}, and no tool or code that they explain",
    )


def names(toolset: str, lang: Lang) -> tuple[str, ...]:
    """The topics of a manual: its pages, then its tools and error codes."""
    pages = topics(toolset)
    listed = (name for name in pages if name in ("tools", "errors"))
    headings = (name for page in listed for name in _HEADED.findall(read(toolset, page, lang)))
    return (*pages, *dict.fromkeys(headings))


_OF_PATCH = ("apply_patch", "invalid_patch", "patch_rejected")
_LISTED = ("tools", "scenarios", "errors")  # pages shown as a list of their chapters when long
_LONG = 4_000  # characters
_HEADED = re.compile(r"^### (\w+)$", re.MULTILINE)
_FENCE = re.compile(r"`{3,}")
_LABEL = re.compile(r"\*\*\w+\*\*(?:: |：)(.+?(?:\.(?= )|。|$))")


def _lines(page: str) -> Iterator[tuple[str, int, bool]]:
    """The lines with their heading levels (0 for others) and whether they are in a fence."""
    fence = ""
    for line in page.rstrip("\n").split("\n"):
        opened = _FENCE.match(line)
        inside = bool(fence) or opened is not None
        level = 0 if inside else len(line) - len(line.lstrip("#"))
        yield line, level, inside
        if opened is not None:
            fence = "" if line == fence else fence or opened[0]


def _chapters(page: str) -> dict[str, str]:
    """The chapters below the title, by their headings in lower case."""
    chapters: dict[str, list[str]] = {}
    open_: list[tuple[int, str]] = []
    for line, level, _ in _lines(page):
        if level > 1:
            name = line.lstrip("# ").lower()
            open_ = [outer for outer in open_ if outer[0] < level] + [(level, name)]
            chapters[name] = []
        for _, name in open_:
            chapters[name].append(line)
    return {name: "\n".join(lines).rstrip("\n") + "\n" for name, lines in chapters.items()}


def _overview(page: str) -> str:
    """The page with each lowest-level chapter as one line: its heading and first sentence."""
    last = max(level for _, level, _ in _lines(page))
    rows: list[str] = [""]
    skips = False
    for line, level, inside in _lines(page):
        if level:
            skips = level == last
            if not skips and rows[-1]:
                rows.append("")
            rows.append(f"- `{line.lstrip('# ')}`" if skips else line)
        elif skips:
            said = _LABEL.match(line) if rows[-1].endswith("`") else None
            rows[-1] += f": {said[1]}" if said else ""
        elif inside:  # the input of an example
            while not rows[-1] or rows[-1].endswith((":", "：")):
                rows.pop()
        elif line or rows[-1]:
            rows.append(line)
    return "\n".join(rows).strip("\n") + "\n"


def instructions(toolsets: Iterable[str], lang: Lang, *, auto: bool = False) -> str:
    """A server's instructions for its toolsets; `auto` is the default of `apply`."""
    wanted = set(toolsets)
    chosen = [name for name in _TOOLSETS if name in wanted]
    pages = [_page(name, "instructions", lang).rstrip("\n") for name in chosen]
    return "\n\n".join([*pages, *([say("auto.default", lang)] if auto else [])])


def _page(toolset: str, topic: str, lang: Lang) -> str:
    return (files(__name__) / toolset / lang / f"{topic}.md").read_text("utf-8")


_SIGNATURE = "`{name}({{ … }})`"
_PARAMETERS = re.compile(r"^\*\*(?:Parameters|参数)\*\*.*", re.MULTILINE)


def with_arguments(page: str, lang: Lang) -> str:
    """The page with each tool's call signature and the arguments it does not mention."""
    from copydesk.app.reference import all_tools  # rarely needed

    tools = {tool.name: tool for tool in all_tools()}
    common, *chapters = page.split("\n### ")
    for i, chapter in enumerate(chapters):
        name = chapter.split("\n", 1)[0]
        if name in tools:
            chapters[i] = _chapter(chapter, name, tools[name].described_schema(lang), common, lang)
    return "\n### ".join((common, *chapters))


def _chapter(text: str, name: str, schema: Schema, common: str, lang: Lang) -> str:
    forms, required = schema["properties"], schema["required"]
    taken = ", ".join(argument if argument in required else f"{argument}?" for argument in forms)
    whole = text.replace(_SIGNATURE.format(name=name), f"`{name}({{ {taken} }})`")
    colon = "：" if lang == "zh" else ": "
    others = "".join(
        f" `{argument}`{colon}{form.get('description', '')}"
        for argument, form in forms.items()
        if f"`{argument}`" not in whole and f"`{argument}`" not in common
    )
    return _PARAMETERS.sub(lambda line: line[0] + others, whole, count=1)


def _none_of(name: str, known: Iterable[str]) -> str:
    return f"{name[:100]!r} is none of: {', '.join(known)}"
