"""Help on the tools: which there are, and the arguments of each."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, cast

from copydesk.app import terminal
from copydesk.app.cli.parser import unknown
from copydesk.tools import reference
from copydesk.tools.catalog import Tool
from copydesk.tools.reference import all_tools
from copydesk.tools.report import Lang


def find(name: str) -> Tool:
    """A tool by its name; raises UsageError with the close ones."""
    known = {tool.name: tool for tool in all_tools()}
    if name not in known:
        raise unknown("tool", name, known, "copydesk call, without a tool, lists them all.")
    return known[name]


def tools(lang: Lang, *, as_json: bool) -> int:
    """List all tools; the exit status."""
    rows = [(tool.name, tool.toolset, tool.title(lang)) for tool in all_tools()]
    if as_json:
        data = [{"name": name, "toolset": kept, "title": title} for name, kept, title in rows]
        sys.stdout.write(terminal.as_json(data))
    else:
        sys.stdout.write(terminal.table([("TOOL", "TOOLSET", "WHAT"), *rows]))
    return 0


def tool(one: Tool, lang: Lang, *, as_json: bool) -> int:
    """Print a tool's description and arguments; the exit status."""
    if as_json:
        sys.stdout.write(terminal.as_json(reference.definitions([one], "mcp", lang)[0]))
        return 0
    schema = one.described_schema(lang)
    required = cast("list[str]", schema["required"])
    rows = [
        (
            f"  --{name}",
            _kind(form),
            "required" if name in required else _default(form),
            str(form.get("description", "")),
        )
        for name, form in cast("Mapping[str, Mapping[str, Any]]", schema["properties"]).items()
    ]
    sys.stdout.write(f"{one.name}: {one.description(lang)}\n\n{terminal.table(rows)}")
    return 0


def _kind(form: Mapping[str, Any]) -> str:
    if "enum" in form:
        return "|".join(form["enum"])
    kinds = [part["type"] for part in form.get("anyOf", [form])]
    return f"{'|'.join(kinds)}{', may be repeated' if kinds == ['array'] else ''}"


def _default(form: Mapping[str, Any]) -> str:
    default = form.get("default", False if form.get("type") == "boolean" else None)
    if default is None:
        return ""
    return f"default: {str(default).lower() if isinstance(default, bool) else default}"
