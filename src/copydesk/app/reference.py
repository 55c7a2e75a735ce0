"""The definitions of all tools: one Markdown page, and the forms that providers' APIs take.

Texts about a tool are in `copydesk.tools.messages`. To generate the page, `docs/tools.md`, run

    python -c "from copydesk.app import reference; print(reference.page(), end='')"

Law: arguments that are valid for the schema in a provider's dialect are valid for the original one
once their nulls are left out, at any depth; an incoming call needs no other conversion.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from copydesk.notes.tools import notes
from copydesk.search.tools import SEARCHING
from copydesk.tools.arguments import with_null, within
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


def page() -> str:
    """The page as Markdown."""
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
