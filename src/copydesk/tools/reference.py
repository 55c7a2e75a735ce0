"""The reference of all tools as one Markdown page, made from the catalog.

What lives here: the layout of `docs/tools.md`. What must not: words about a
tool (`copydesk.tools.messages` has them). The page is written anew with

    python -c "from copydesk.tools import reference; print(reference.page(), end='')"
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from copydesk.tools.batch import batch
from copydesk.tools.catalog import MINDS, Tool
from copydesk.tools.compat import compat
from copydesk.tools.notes import notes
from copydesk.tools.patch import patch
from copydesk.tools.ws_mod import team_mgmt, ws_mod

_HEAD = """\
# Tools

All tools with their arguments, made from the catalog by `copydesk.tools.reference`; do not \
edit this page. Workflows, examples and errors are in the manuals: `copydesk manual`.

Each tool ends with the hints that clients get: *reads* changes nothing, *may replace* can take \
away what was there, *repeatable* has no further effect when it is called again. Optional \
arguments may be left out, or be `null`; `""` for a text, `0` for a number and `[]` for a list \
mean "not given" too, but in a command of the text editor that needs the argument. A choice has \
its first word as its default. A number is taken where a text is meant.
"""
_MARKUP = re.compile(r"[\\`*_~|<\[]")
_MIRROR = """\
The tools of `ws_mod` once more, for the files below `{folder}/`: the same arguments, and paths \
relative to that folder.
"""


def all_tools() -> tuple[Tool, ...]:
    """All tools, in the order of the catalog."""
    return (*ws_mod(), *batch(), *notes(), *team_mgmt(), *compat(), *patch())


def page() -> str:
    """The page."""
    parts = [_HEAD, _toolset("ws_mod", ws_mod()), _toolset("batch", batch())]
    parts += [_toolset("notes", notes()), _mirror(), _toolset("compat", compat())]
    parts += [_toolset("patch", patch())]
    return "\n".join(parts)


def _toolset(name: str, tools: Iterable[Tool]) -> str:
    also = [f"Also here: `{tool.name}`.\n" for tool in ws_mod() if name in tool.also]
    return "\n".join([f"## {name}\n", *also, *(_tool(tool) for tool in tools)])


def _mirror() -> str:
    names = "".join(f"- `{tool.name}`\n" for tool in team_mgmt())
    return "\n".join(["## team_mgmt\n", _MIRROR.format(folder=MINDS), names])


def _tool(tool: Tool) -> str:
    said = {"reads": tool.reads, "may replace": tool.destroys, "repeatable": tool.idempotent}
    hints = ", ".join(hint for hint, holds in said.items() if holds)
    return "\n".join(
        [
            f"### {tool.name}\n",
            f"{tool.description('en')}{f' *{hints}*' if hints else ''}\n",
            "| argument | type | default | |",
            "|---|---|---|---|",
            *_arguments(tool.described_schema("en")),
            "",
        ]
    )


def _arguments(schema: Mapping[str, Any]) -> list[str]:
    """One row for each argument; those of the objects in a list follow it."""
    rows: list[str] = []
    for name, form in schema["properties"].items():
        needed = name in schema["required"]
        rows.append(_row(name, form, needed))
        inner: Mapping[str, Any] = form.get("items", {})
        for part, its in inner.get("properties", {}).items():
            rows.append(_row(f"{name}[].{part}", its, part in inner["required"]))
    return rows


def _row(name: str, form: Mapping[str, Any], needed: bool) -> str:
    default = "required" if needed else _default(form)
    words = _MARKUP.sub(r"\\\g<0>", str(form.get("description", "")))
    return f"| `{name}` | {_type(form)} | {default} | {words} |"


def _type(form: Mapping[str, Any]) -> str:
    if "enum" in form:
        return ", ".join(f"`{word}`" for word in form["enum"])
    if "anyOf" in form:
        return " or ".join(_type(part) for part in form["anyOf"])
    if form["type"] == "array":
        return f"list of {_type(form['items'])}s"
    return str(form["type"])


def _default(form: Mapping[str, Any]) -> str:
    if "default" not in form:
        return "`false`" if form.get("type") == "boolean" else ""
    found = form["default"]
    return f"`{str(found).lower() if isinstance(found, bool) else found}`"
