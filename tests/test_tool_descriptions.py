"""The words of the tools: none is missing, in neither language, and together they are cheap."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from copydesk.app import reference
from copydesk.app.reference import all_tools, team_mgmt, ws_mod
from copydesk.notes.tools import notes
from copydesk.tools.batch import batch
from copydesk.tools.catalog import ToolCall
from copydesk.tools.compat import compat
from copydesk.tools.messages import texts
from copydesk.tools.patch import patch
from copydesk.tools.report import Lang
from copydesk.tools.ws_mod import WRITE_FILE

LANGS: tuple[Lang, ...] = get_args(Lang)
PAGE = Path(__file__).parent.parent / "docs" / "tools.md"
ALL = (*ws_mod(), *batch(), *notes(), *team_mgmt(), *compat(), *patch(), WRITE_FILE)
PLAIN = {
    *("match", "include_anchors", "create", "report", "case", "mode", "fixed_strings"),
    *("include_hidden", "follow_symlinks", "max_lines", "max_files", "max_results"),
    *("context_before", "context_after", "show_linenos"),
}
"""Arguments whose name, type and default say all: a text would only cost."""


def missing(name: str, schema: Mapping[str, Any], known: Container[str]) -> list[str]:
    """The arguments that have no text, and would need one."""
    found: list[str] = []
    for argument, form in schema["properties"].items():
        if argument not in known and argument not in PLAIN:
            found.append(f"{name}.{argument}")
        if "properties" in form.get("items", {}):
            found += missing(name, form["items"], known)
    return found


def names_of(schema: Mapping[str, Any]) -> set[str]:
    """The arguments in a schema, and those of the objects in its lists."""
    forms = schema.get("properties", {})
    return set(forms).union(*(names_of(form.get("items", {})) for form in forms.values()))


def test_no_text_is_missing_and_every_one_is_of_a_tool_and_an_argument() -> None:
    every = texts("en")
    for tool in ALL:
        own = every.tools[tool.plain_name]
        assert missing(tool.plain_name, tool.schema, {*every.arguments, *own.arguments}) == []
        assert own.arguments.keys() <= names_of(tool.schema)
    assert set(every.tools) == {tool.plain_name for tool in ALL}
    assert set(every.arguments) <= {name for tool in ALL for name in names_of(tool.schema)}


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


def test_the_two_languages_differ() -> None:
    for tool in ALL:
        assert tool.title("en").isascii(), tool.name
        assert not tool.title("zh").isascii(), tool.name
        assert tool.description("en").isascii(), tool.name
        assert not tool.description("zh").isascii(), tool.name
        for lang in LANGS:
            form = tool.described_schema(lang)["properties"]
            words = [form[name]["description"] for name in form if name not in PLAIN]
            assert all(words), tool.name
            assert all(word.isascii() == (lang == "en") for word in words), tool.name


@pytest.mark.parametrize("lang", LANGS)
def test_a_description_is_an_addition(lang: Lang) -> None:
    """Nothing of the schema is changed, and the schema of the catalog is not touched."""
    for tool in ALL:
        before = deepcopy(tool.schema)
        described = tool.described_schema(lang)
        assert tool.schema == before
        for name, form in described["properties"].items():
            assert described["properties"][name] is not tool.schema["properties"][name]
            assert form.pop("description", None) or name in PLAIN, (tool.name, name)
            for inner in form.get("items", {}).get("properties", {}).values():
                inner.pop("description")
        assert described == before, tool.name


@pytest.mark.parametrize("lang", LANGS)
def test_the_mirror_says_whose_paths_it_takes(lang: Lang) -> None:
    for plain, mirror in zip(ws_mod(), team_mgmt(), strict=True):
        said = mirror.description(lang)
        assert said.startswith(plain.description(lang))
        assert ".minds/" in said


def test_a_model_is_told_what_it_cannot_guess() -> None:
    """The range grammar, when auto writes, what the guards do, what stands for not given."""
    told = {tool.name: tool.described_schema("en")["properties"] for tool in ws_mod()}
    listed = {tool.name: tool.listed_schema("en")["properties"] for tool in ws_mod()}
    for argument, words in {
        "range": ("N~M", "N~", "~M"),
        "apply": ("auto", "version", "unique"),
        "version": ("STALE_READ",),
        "expected_old": ("CONTENT_CHANGED",),
    }.items():
        said = told["prepare_file_range_edit"][argument]["description"]
        assert all(word in said for word in words), argument
    assert "-N~" in told["read_file"]["range"]["description"]
    assert "null" in listed["prepare_file_insert_after"]["occurrence"]["type"]
    assert "null" in listed["prepare_file_append"]["existing_hunk_id"]["type"]


def test_the_reference_is_what_the_catalog_says() -> None:
    """When this fails, write it anew as the head of `copydesk.app.reference` says."""
    page = reference.tools_page()
    assert PAGE.read_text("utf-8") == page
    chapters = dict(chapter.split("\n", 1) for chapter in page.split("\n### ")[1:])
    assert {tool.name for tool in (*ws_mod(), *batch(), *notes(), *compat())} <= set(chapters)
    assert "\n### write_file\n" in page.split("\n## edit\n")[1]
    assert all(f"\n- `{tool.name}`\n" in page for tool in team_mgmt())
    selection = page.split("\n## edit\n")[1].split("\n## ")[0]
    called = {tool.called for tool in all_tools() if tool.is_of(["edit"])}
    assert called == {*re.findall(r"(?:Also here: `|### )(\w+)", selection)}
    chapters = dict(chapter.split("\n", 1) for chapter in page.split("\n### ")[1:])
    for tool in (*ws_mod(), *batch(), *compat()):
        assert all(f"\n| `{name}` |" in chapters[tool.name] for name in tool.schema["properties"])
