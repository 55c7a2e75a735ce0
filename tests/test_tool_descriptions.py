"""The words of the tools: none is missing, in neither language, and together they are cheap."""

from __future__ import annotations

from collections.abc import Container, Mapping
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from copydesk.app import reference
from copydesk.app.reference import team_mgmt, ws_mod
from copydesk.notes.tools import notes
from copydesk.tools.batch import batch
from copydesk.tools.catalog import Tool, ToolCall
from copydesk.tools.compat import compat
from copydesk.tools.messages import texts
from copydesk.tools.patch import patch
from copydesk.tools.report import Lang
from copydesk.tools.ws_mod import WRITE_FILE
from support.rows import each_row

LANGS: tuple[Lang, ...] = get_args(Lang)
PAGE = Path(__file__).parent.parent / "docs" / "tools.md"
ALL = (*ws_mod(), *batch(), *notes(), *team_mgmt(), *compat(), *patch(), WRITE_FILE)
PLAIN = {
    *("match", "include_anchors", "create", "report", "case", "mode", "fixed_strings"),
    *("include_hidden", "follow_symlinks", "max_lines", "max_files", "max_results"),
    *("context_before", "context_after", "show_linenos"),
}
"""Arguments whose name, type and default say all: a text would only cost."""
OF_ALL = each_row("tool", ALL)


def missing(name: str, schema: Mapping[str, Any], known: Container[str]) -> list[str]:
    """The arguments that have no text, and would need one."""
    found: list[str] = []
    for argument, form in schema["properties"].items():
        if argument not in known and argument not in PLAIN:
            found.append(f"{name}.{argument}")
        if "properties" in form.get("items", {}):
            found += missing(name, form["items"], known)
    return found


@OF_ALL
def test_no_text_is_missing(tool: Tool) -> None:
    every = texts("en")
    own = every.tools[tool.plain_name]
    assert missing(tool.plain_name, tool.schema, {*every.arguments, *own.arguments}) == []
    assert own.arguments.keys() <= names_of(tool.schema)


def names_of(schema: Mapping[str, Any]) -> set[str]:
    """The arguments in a schema, and those of the objects in its lists."""
    found = set(schema.get("properties", {}))
    return found.union(
        *(names_of(f.get("items", {})) for f in schema.get("properties", {}).values())
    )


def test_every_text_is_of_a_tool_and_an_argument() -> None:
    assert set(texts("en").tools) == {tool.plain_name for tool in ALL}
    assert set(texts("en").arguments) <= {name for tool in ALL for name in names_of(tool.schema)}


def test_a_missing_text_is_seen() -> None:
    inner = {"properties": {"old_string": {}, "other": {}}}
    schema = {"properties": {"path": {}, "colour": {}, "edits": {"items": inner}}}
    assert missing("paint", schema, texts("en").arguments) == ["paint.colour", "paint.other"]


def test_a_tool_without_texts_has_its_name() -> None:
    """A tool that is new is called by its name; it must not end the server."""

    class Paint(ToolCall):
        colour: str = ""

    paint = replace(ALL[0], name="paint", call=Paint)
    assert paint.title("zh") == "paint"
    assert paint.description("zh") == "paint"
    assert paint.described_schema("en") == paint.schema


@OF_ALL
def test_the_two_languages_differ(tool: Tool) -> None:
    assert tool.title("en").isascii()
    assert not tool.title("zh").isascii()
    assert tool.description("en").isascii()
    assert not tool.description("zh").isascii()
    for lang in LANGS:
        form = tool.described_schema(lang)["properties"]
        words = [form[name]["description"] for name in form if name not in PLAIN]
        assert all(words)
        assert all(word.isascii() == (lang == "en") for word in words)


@each_row("lang", LANGS)
@OF_ALL
def test_a_description_is_an_addition(tool: Tool, lang: Lang) -> None:
    """Nothing of the schema is changed, and the schema of the catalog is not touched."""
    before = deepcopy(tool.schema)
    described = tool.described_schema(lang)
    assert tool.schema == before
    for name, form in described["properties"].items():
        assert described["properties"][name] is not tool.schema["properties"][name]
        assert form.pop("description", None) or name in PLAIN
        for inner in form.get("items", {}).get("properties", {}).values():
            inner.pop("description")
    assert described == before


@each_row("lang", LANGS)
def test_the_mirror_says_whose_paths_it_takes(lang: Lang) -> None:
    for plain, mirror in zip(ws_mod(), team_mgmt(), strict=True):
        said = mirror.description(lang)
        assert said.startswith(plain.description(lang))
        assert ".minds/" in said


def test_a_model_is_told_what_it_cannot_guess() -> None:
    """The range grammar, when auto writes, what the guards do, what stands for not given."""
    told = {tool.name: tool.described_schema("en")["properties"] for tool in ws_mod()}
    listed = {tool.name: tool.listed_schema("en")["properties"] for tool in ws_mod()}
    edit = told["prepare_file_range_edit"]
    assert all(form in edit["range"]["description"] for form in ("N~M", "N~", "~M"))
    assert "-N~" in told["read_file"]["range"]["description"]
    assert all(word in edit["apply"]["description"] for word in ("auto", "version", "unique"))
    assert "STALE_READ" in edit["version"]["description"]
    assert "CONTENT_CHANGED" in edit["expected_old"]["description"]
    assert "null" in listed["prepare_file_insert_after"]["occurrence"]["type"]
    assert "null" in listed["prepare_file_append"]["existing_hunk_id"]["type"]


def test_the_reference_is_what_the_catalog_says() -> None:
    """When this fails, write it anew as the head of `copydesk.app.reference` says."""
    assert PAGE.read_text("utf-8") == reference.page()


def test_the_reference_has_every_tool_and_argument() -> None:
    page = reference.page()
    assert all(
        f"\n### {tool.name}\n" in page for tool in (*ws_mod(), *batch(), *notes(), *compat())
    )
    assert "\n### write_file\n" in page.split("\n## edit\n")[1]
    assert all(f"\n- `{tool.name}`\n" in page for tool in team_mgmt())
    chapters = dict(chapter.split("\n", 1) for chapter in page.split("\n### ")[1:])
    for tool in (*ws_mod(), *batch(), *compat()):
        assert all(f"\n| `{name}` |" in chapters[tool.name] for name in tool.schema["properties"])
