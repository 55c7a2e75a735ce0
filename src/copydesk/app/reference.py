"""The reference: the definitions of all tools, as a page and for providers' APIs, and the manuals.

Texts about a tool are in `copydesk.tools.messages`. To generate the page, `docs/tools.md`, run

    python -c "from copydesk.app import reference; print(reference.tools_page(), end='')"

Law: arguments that are valid for the schema in a provider's dialect are valid for the original one
once their nulls are left out, at any depth; an incoming call needs no other conversion.

The manuals are Markdown pages by toolset, topic and language, in the folder `manuals`. Invariants:
every toolset has the same topics in both languages; a page is read on request and never cached. The
arguments of a tool are defined in its class, not in its chapter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from importlib.resources import files
from typing import Any

from copydesk.errors import InvalidArgs
from copydesk.notes.tools import notes
from copydesk.search.tools import SEARCHING
from copydesk.tools.arguments import Schema, with_null, within
from copydesk.tools.batch import batch
from copydesk.tools.catalog import EDIT, MINDS, Tool, by_name
from copydesk.tools.compat import compat
from copydesk.tools.messages import say
from copydesk.tools.patch import patch
from copydesk.tools.report import Lang
from copydesk.tools.ws_mod import EDITING, HISTORY, LISTING, MANUAL, WRITE_FILE

_HEAD = """\
# Tools

All tools that agents are offered, with their arguments, by toolset. A server lists those \
that it was started with (`--toolsets`). Workflows, examples and errors are in the manuals: \
`copydesk manual`.

Each tool ends with the hints that clients get: *reads* changes nothing, *may replace* can take \
away what was there, *repeatable* has no further effect when it is called again. Optional \
arguments may be left out, or be `null`; `""` for a text, `0` for a number and `[]` for a list \
mean "not given" too, but in a command of the text editor that needs the argument. A choice has \
its first word as its default. A number is taken where a text is meant.
"""
_MARKUP = re.compile(r"(?P<lines>(?:\([^)]*\)|[\w-]+)?~\w*)|[\\`*_|<\[]")
"""What words may hold that Markdown would take for markup; ranges of lines become code."""
_MIRROR = """\
The tools of `ws_mod` once more, for the files below `{folder}/`: the same arguments, and paths \
relative to that folder.
"""


def ws_mod() -> tuple[Tool, ...]:
    """All tools of ws_mod."""
    return (*EDITING, *HISTORY, LISTING, *SEARCHING, MANUAL)


def team_mgmt() -> tuple[Tool, ...]:
    """The mirror toolset: the same tools below `.minds/`."""
    return tuple(
        replace(tool, name=f"team_mgmt_{tool.name}", toolset="team_mgmt", also=())
        for tool in ws_mod()
    )


def all_tools() -> tuple[Tool, ...]:
    """All tools, in the order of the catalog."""
    return (*ws_mod(), *batch(), *notes(), *team_mgmt(), *compat(), *patch(), WRITE_FILE)


def tools_page() -> str:
    """The page of all tools as Markdown."""
    names = "".join(f"- `{tool.name}`\n" for tool in team_mgmt())
    return "\n".join(
        [
            _HEAD,
            _toolset("ws_mod", ws_mod()),
            _toolset(EDIT, (WRITE_FILE,)),
            _toolset("batch", batch()),
            _toolset("notes", notes()),
            "\n".join(["## team_mgmt\n", _MIRROR.format(folder=MINDS), names]),
            _toolset("compat", compat()),
            _toolset("patch", patch()),
        ]
    )


def _toolset(name: str, tools: Iterable[Tool]) -> str:
    also = [f"Also here: `{tool.name}`.\n" for tool in all_tools() if name in tool.also]
    return "\n".join([f"## {name}\n", *also, *(_tool(tool) for tool in tools)])


def _tool(tool: Tool) -> str:
    said = {"reads": tool.reads, "may replace": tool.destroys, "repeatable": tool.idempotent}
    hints = ", ".join(hint for hint, holds in said.items() if holds)
    return "\n".join(
        [
            f"### {tool.called}\n",
            f"{tool.description('en')}{f' *{hints}*' if hints else ''}\n",
            "| argument | type | default | |",
            "|---|---|---|---|",
            *_arguments(tool.described_schema("en")),
            "",
        ]
    )


def _arguments(schema: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """A row for each argument, followed by those of its items."""
    for name, form in schema.get("properties", {}).items():
        default = "required" if name in schema["required"] else default_of(form, "`{}`")
        words = _MARKUP.sub(_escaped, str(form.get("description", "")))
        yield f"| `{prefix}{name}` | {_type(form)} | {default} | {words} |"
        yield from _arguments(form.get("items", {}), f"{name}[].")


def _escaped(markup: re.Match[str]) -> str:
    return f"`{markup[0]}`" if markup["lines"] else f"\\{markup[0]}"


def _type(form: Mapping[str, Any]) -> str:
    if "enum" in form:
        return ", ".join(f"`{word}`" for word in form["enum"])
    if "anyOf" in form:
        return " or ".join(_type(part) for part in form["anyOf"])
    return f"list of {_type(form['items'])}s" if form["type"] == "array" else str(form["type"])


def default_of(form: Mapping[str, Any], shown: str) -> str:
    """The default of an argument, laid out as `shown`; nothing if it has none."""
    default = form.get("default", False if form.get("type") == "boolean" else None)
    words = str(default).lower() if isinstance(default, bool) else default
    return "" if default is None else shown.format(words)


Definition = dict[str, Any]

_STRUCTURE = ("type", "properties", "required", "additionalProperties", "items", "enum", "anyOf")
_BOUNDS = ("minimum", "maximum", "minItems", "maxItems")
_KEPT = frozenset((*_STRUCTURE, *_BOUNDS))
"""The keywords that OpenAI's strict mode and Gemini accept, besides `description`."""


def definitions(tools: Iterable[Tool], dialect: str, lang: Lang) -> list[Definition]:
    """The tools in a dialect; KeyError for one that is not in `DIALECTS`.

    Tools that replace another server's are listed under their older names too, as on that server.
    """
    convert = DIALECTS[dialect]
    rows: list[Definition] = [
        {**convert(tool, lang), "name": name}
        for name, tool in by_name(tools).items()
        if name == tool.called or tool.output is not None
    ]
    latest: dict[str, str] = {}
    for definition in rows if dialect == "mcp" else ():
        # leave out a text that equals the last one for an argument of this name
        outer: dict[str, Definition] = definition["inputSchema"]["properties"]
        kinds = (kind for form in outer.values() for kind in form.get("anyOf", (form,)))
        items: list[Definition] = [kind.get("items", {}) for kind in kinds]
        for forms in (outer, *(item.get("properties", {}) for item in items)):
            for name, form in forms.items():
                said = form.get("description", "")
                if said and said == latest.get(name):
                    del form["description"]
                latest[name] = said or latest.get(name, "")
    return rows


_USUAL_HINTS = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False}
"""What a client takes for granted of a tool."""


def _mcp(tool: Tool, lang: Lang) -> Definition:
    """The tool as it is listed, without a title and without hints that are the defaults.

    Both cost tokens in each request, and a title says no more than the name. A tool that replaces
    another program's has them as that one does.
    """
    more: Definition = {}
    hints = {"readOnlyHint": tool.reads}
    if not tool.reads:
        hints |= {"destructiveHint": tool.destroys, "idempotentHint": tool.idempotent}
    if tool.output is None:
        hints = {name: hint for name, hint in hints.items() if hint != _USUAL_HINTS[name]}
    else:
        hints["openWorldHint"] = False
        more = {"title": tool.title(lang), "outputSchema": tool.output}
    return {
        "name": tool.name,
        "description": tool.description(lang),
        "inputSchema": tool.listed_schema(lang),
        **({"annotations": hints} if hints else {}),
        **more,
    }


def _openai(tool: Tool, lang: Lang) -> Definition:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description(lang),
        "parameters": with_null(tool.described_schema(lang)),
        "strict": False,
    }


def _openai_strict(tool: Tool, lang: Lang) -> Definition:
    """Make every property required and optional ones nullable; keep only the subset's keywords."""
    schema = _all_required(with_null(_reduced(tool.described_schema(lang), lang)))
    return {**_openai(tool, lang), "parameters": schema, "strict": True}


def _anthropic(tool: Tool, lang: Lang) -> Definition:
    return {
        "name": tool.name,
        "description": tool.description(lang),
        "input_schema": with_null(tool.described_schema(lang)),
    }


def _gemini(tool: Tool, lang: Lang) -> Definition:
    schema = with_null(_reduced(tool.described_schema(lang), lang))
    return {
        "name": tool.name,
        "description": tool.description(lang),
        "parametersJsonSchema": {**schema, "propertyOrdering": list(schema["properties"])},
    }


def _reduced(schema: Mapping[str, Any], lang: Lang) -> Definition:
    """The schema with the accepted keywords; a default moves to the description."""
    reduced = {key: value for key, value in schema.items() if key in _KEPT}
    words = [schema["description"]] if "description" in schema else []
    if "default" in schema:
        words.append(say("tool.default", lang, {"value": json.dumps(schema["default"])}))
    if words:
        reduced["description"] = " ".join(words)
    return within(reduced, lambda part: _reduced(part, lang))


def _all_required(schema: Mapping[str, Any]) -> Definition:
    """The schema with all properties required and no others allowed, at every depth."""
    strict = within(schema, _all_required)
    if "properties" in strict:
        strict |= {"required": list(strict["properties"]), "additionalProperties": False}
    return strict


DIALECTS: dict[str, Callable[[Tool, Lang], Definition]] = {
    "mcp": _mcp,
    "openai": _openai,
    "openai-strict": _openai_strict,
    "anthropic": _anthropic,
    "gemini": _gemini,
}
"""The dialects by name."""


_TOPICS = ("index", "principles", "tools", "scenarios", "errors")
MANUALS = {
    "edit": ("index",),
    "ws_mod": _TOPICS,
    "batch": _TOPICS,
    "notes": ("index", "slice-reading", "block-edit-search-replace", "errors"),
    "team_mgmt": _TOPICS,
    "compat": ("index", "tools", "errors"),
    "patch": ("index", "errors"),
}
"""The toolsets that have a manual, each with its pages in reading order."""


def topics(toolset: str) -> tuple[str, ...]:
    """The pages of a toolset's manual in reading order; raises InvalidArgs."""
    _check_known("toolset", toolset, MANUALS)
    return MANUALS[toolset]


def read(toolset: str, topic: str, lang: Lang) -> str:
    """One page as Markdown; for an unknown one, InvalidArgs names those that exist."""
    _check_known("topic", topic, topics(toolset))
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


def all_topics(toolset: str, lang: Lang) -> tuple[str, ...]:
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
    pages = [_page(name, "instructions", lang).rstrip("\n") for name in MANUALS if name in wanted]
    return "\n\n".join([*pages, *([say("auto.default", lang)] if auto else [])])


def _page(toolset: str, topic: str, lang: Lang) -> str:
    return (files("copydesk.app") / "manuals" / toolset / lang / f"{topic}.md").read_text("utf-8")


_PARAMETERS = re.compile(r"^\*\*(?:Parameters|参数)\*\*.*", re.MULTILINE)


def with_arguments(page: str, lang: Lang) -> str:
    """The page with each tool's call signature and the arguments it does not mention."""
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
    whole = text.replace(f"`{name}({{ … }})`", f"`{name}({{ {taken} }})`")
    colon = "：" if lang == "zh" else ": "
    others = "".join(
        f" `{argument}`{colon}{form.get('description', '')}"
        for argument, form in forms.items()
        if f"`{argument}`" not in whole and f"`{argument}`" not in common
    )
    return _PARAMETERS.sub(lambda line: line[0] + others, whole, count=1)


def _check_known(what: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        raise InvalidArgs(what, f"{name[:100]!r} is none of: {', '.join(known)}")
