"""The tool definitions for other harnesses, against each provider's published rules.

Those of OpenAI's structured outputs, Anthropic's tool use, Gemini's function calling, and MCP.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from copydesk.app.cli.parser import DIALECTS as CLI_DIALECTS
from copydesk.app.config import Config
from copydesk.app.reference import DIALECTS, all_tools, definitions
from copydesk.app.workspace import open_workspace
from copydesk.tools.arguments import listed, with_null
from copydesk.tools.catalog import SELF_EVIDENT, UNLISTED, Tool
from copydesk.tools.report import Lang
from support.cost import spread
from support.mcp_calls import CALLS, FILE, opened_at
from support.rows import each_row
from test_tool_descriptions import PLAIN

Schema = Mapping[str, Any]

EDITOR = "str_replace_based_edit_tool"
TOOLS = all_tools()
NAMES = [tool.name for tool in TOOLS]
EVERY = each_row("tool", TOOLS)
BOTH = each_row("lang", ["en", "zh"])

PORTABLE_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
OPENAI_STRICT = {
    *("type", "description", "properties", "required", "additionalProperties"),
    *("items", "enum", "anyOf", "minimum", "maximum", "minItems", "maxItems"),
}
GEMINI = OPENAI_STRICT | {"propertyOrdering", "format", "prefixItems", "$ref"}
SIMPLE_TYPES = ("string", "integer", "boolean", "array", "object", "null")


def parts(schema: Schema, depth: int = 1) -> Iterator[tuple[Schema, int]]:
    """The schema and all schemas in it, each with its depth."""
    yield schema, depth
    for part in schema.get("properties", {}).values():
        yield from parts(part, depth + 1)
    for part in schema.get("anyOf", ()):
        yield from parts(part, depth)
    if "items" in schema:
        yield from parts(schema["items"], depth + 1)


def one(tool: Tool, dialect: str, lang: str = "en") -> dict[str, Any]:
    return definitions([tool], dialect, cast(Lang, lang))[0]


def check_well_formed(schema: Schema) -> None:
    """What every provider asks for, and what our converters rely on."""
    Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    assert "anyOf" not in schema
    for part, _ in parts(schema):
        kinds = part["type"] if isinstance(part.get("type"), list) else [part.get("type")]
        assert "anyOf" in part or set(kinds) <= set(SIMPLE_TYPES)
        if "enum" in part:
            assert part["type"] == "string"
            assert all(isinstance(value, str) and value for value in part["enum"])
            assert len(set(part["enum"])) == len(part["enum"])
        if "array" in kinds:
            assert "items" in part
        if "object" in kinds:
            assert set(part.get("required", ())) <= set(part["properties"])


def keywords(schema: Schema) -> set[str]:
    return {key for part, _ in parts(schema) for key in part}


def test_the_catalog_is_the_one_that_is_served(tmp_path: Path) -> None:
    with open_workspace(str(tmp_path), Config(), shared=False) as opened:
        assert list(opened.catalog.tools) == NAMES
    assert tuple(DIALECTS) == CLI_DIALECTS


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("dialect", CLI_DIALECTS)
def test_what_all_dialects_have(lang: str, dialect: str) -> None:
    for tool in TOOLS:
        found = one(tool, dialect, lang)
        assert found["name"] == tool.called
        assert PORTABLE_NAME.fullmatch(found["name"])
        assert 0 < len(found["description"]) <= 1_024, tool.name
        forms = ("inputSchema", "parameters", "input_schema", "parametersJsonSchema")
        (form,) = set(found) & set(forms)
        check_well_formed(found[form])
        for name, part in found[form]["properties"].items():
            known = name in PLAIN or (dialect == "mcp" and name in SELF_EVIDENT)
            assert part.get("description") or known, f"{tool.name}.{name}"
        assert json.loads(json.dumps(found)) == found


def test_names_are_unique() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert len(NAMES) <= 128  # Gemini's limit of declarations; also of OpenAI's tools


@EVERY
def test_conversion_leaves_the_catalog_as_it_is(tool: Tool) -> None:
    before = json.dumps(tool.schema)
    for dialect in DIALECTS:
        one(tool, dialect)
    assert json.dumps(tool.schema) == before


@EVERY
def test_mcp(tool: Tool) -> None:
    found = one(tool, "mcp")
    hints = found.pop("annotations", {})
    by_default = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False}
    if tool.output is None:
        assert set(found) == {"name", "description", "inputSchema"}
        assert all(value is not by_default[hint] for hint, value in hints.items())
    else:  # as the server has it whose tool this is
        assert set(found) == {"name", "description", "inputSchema", "title", "outputSchema"}
        assert hints.pop("openWorldHint") is False
        Draft202012Validator.check_schema(found["outputSchema"])
    meant = by_default | hints
    assert meant["readOnlyHint"] is tool.reads
    if not tool.reads:  # the others say nothing of a tool that changes nothing
        found_hints = (meant["destructiveHint"], meant["idempotentHint"])
        assert found_hints == (tool.destroys, tool.idempotent)
    described = tool.described_schema("en")
    assert bare(described) == bare(tool.schema)
    for name in UNLISTED & described["properties"].keys():
        del described["properties"][name]
    assert bare(found["inputSchema"]) == bare(listed(with_null(described)))


@BOTH
def test_a_list_says_once_what_an_argument_is(lang: str) -> None:
    """The text of an argument that has none is the last one above it."""
    rows = [tool for tool in TOOLS if tool.toolset == "ws_mod"]
    heard: dict[str, str] = {}
    spared = 0
    for tool, one_listed in zip(rows, definitions(rows, "mcp", cast(Lang, lang)), strict=True):
        every = tool.listed_schema(cast(Lang, lang))
        assert bare(one_listed["inputSchema"]) == bare(every)
        found = told_in(one_listed["inputSchema"])
        for name, said in told_in(every):
            if (name, said) in found:
                assert heard.get(name) != said
                found.remove((name, said))
                heard[name] = said
            else:
                spared += 1
                assert heard[name] == said
        assert found == []
    assert spared > 30


def told_in(schema: Schema) -> list[tuple[str, str]]:
    """What the arguments are said to be, those of objects in lists last."""
    objects = [part["properties"] for part, _ in parts(schema) if "properties" in part]
    forms = [row for each in objects for row in each.items()]
    return [(name, form["description"]) for name, form in forms if "description" in form]


@EVERY
def test_openai(tool: Tool) -> None:
    found = one(tool, "openai")
    assert set(found) == {"type", "name", "description", "parameters", "strict"}
    assert (found["type"], found["strict"]) == ("function", False)
    assert bare(found["parameters"]) == bare(with_null(tool.schema))


@EVERY
@BOTH
def test_openai_strict(tool: Tool, lang: str) -> None:
    found = one(tool, "openai-strict", lang)
    assert (found["type"], found["strict"]) == ("function", True)
    schema = found["parameters"]
    assert keywords(schema) <= OPENAI_STRICT
    assert max(depth for _, depth in parts(schema)) <= 10
    objects = [part for part, _ in parts(schema) if part.get("type") == "object"]
    for part in objects:
        assert part["additionalProperties"] is False
        assert part["required"] == list(part["properties"])
    assert sum(len(part["properties"]) for part in objects) <= 5_000
    values = [value for part, _ in parts(schema) for value in part.get("enum", ())]
    assert len(values) <= 1_000
    words = [name for part in objects for name in part["properties"]] + values
    assert sum(map(len, words)) <= 120_000
    for name, form in schema["properties"].items():
        optional = name not in tool.schema["required"]
        assert nullable(form) is optional, name


@EVERY
@BOTH
def test_anthropic(tool: Tool, lang: str) -> None:
    found = one(tool, "anthropic", lang)
    # not strict, so that the limits of optional parameters and unions do not apply
    assert set(found) == {"name", "description", "input_schema"}
    assert bare(found["input_schema"]) == bare(with_null(tool.schema))
    assert not {"oneOf", "allOf", "anyOf"} & set(found["input_schema"])


@EVERY
@BOTH
def test_gemini(tool: Tool, lang: str) -> None:
    found = one(tool, "gemini", lang)
    assert set(found) == {"name", "description", "parametersJsonSchema"}
    schema = found["parametersJsonSchema"]
    assert keywords(schema) <= GEMINI
    assert schema["propertyOrdering"] == list(schema["properties"])
    assert schema.get("required", []) == tool.schema["required"]


def test_a_default_that_cannot_be_a_keyword_is_said() -> None:
    tool = next(tool for tool in TOOLS if tool.name == "prepare_file_block_replace")
    for dialect, form in (("openai-strict", "parameters"), ("gemini", "parametersJsonSchema")):
        properties = one(tool, dialect)[form]["properties"]
        assert "true" in properties["include_anchors"]["description"]
        assert '"contains"' in properties["match"]["description"]


def nullable(form: Schema) -> bool:
    return {"type": "null"} in form.get("anyOf", ())


def bare(schema: Schema) -> object:
    """The schema without words."""
    if isinstance(schema, Mapping):
        return {key: bare(part) for key, part in schema.items() if key != "description"}
    return [bare(part) for part in schema] if isinstance(schema, list) else schema


# What comes back


def instances(schema: Schema) -> st.SearchStrategy[Any]:
    """All that a model which keeps to the schema may send."""
    if "anyOf" in schema:
        return st.one_of([instances(part) for part in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kinds: dict[str, Callable[[], st.SearchStrategy[Any]]] = {
        "null": st.none,
        "string": lambda: st.text(max_size=5),
        "boolean": st.booleans,
        "integer": lambda: st.integers(schema.get("minimum"), schema.get("maximum")),
        "array": lambda: st.lists(
            instances(schema["items"]), min_size=schema.get("minItems", 0), max_size=3
        ),
        "object": lambda: st.fixed_dictionaries(
            {name: instances(schema["properties"][name]) for name in schema.get("required", ())},
            optional={
                name: instances(part)
                for name, part in schema["properties"].items()
                if name not in schema.get("required", ())
            },
        ),
    }
    return kinds[schema["type"]]()


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


@cache
def calls(dialect: str, form: str) -> st.SearchStrategy[tuple[Tool, Any]]:
    return st.sampled_from(TOOLS).flatmap(
        lambda tool: st.tuples(st.just(tool), instances(one(tool, dialect)[form]))
    )


@pytest.mark.parametrize(
    ("dialect", "form"),
    [
        ("openai-strict", "parameters"),
        ("gemini", "parametersJsonSchema"),
        ("anthropic", "input_schema"),
    ],
)
def test_what_a_dialect_allows_the_tool_takes(dialect: str, form: str) -> None:
    @given(calls(dialect, form))
    def law(call: tuple[Tool, Any]) -> None:
        tool, arguments = call
        Draft202012Validator(one(tool, dialect)[form]).validate(arguments)
        Draft202012Validator(tool.schema).validate(without_nulls(arguments))

    law()


VIEW = {"command": "view", "path": FILE}
NEW = {"path": "new.txt", "content": "x\n"}
INSTEAD = {"{hunk}": "00000000", "['{hunk}']": ["00000000"], "{edit}": 1}


def required(tool: Tool) -> dict[str, object]:
    """A call of the tool with the arguments that it cannot do without; nothing was planned before."""
    row = {EDITOR: VIEW, "edit_write_file": NEW}.get(tool.plain_name) or CALLS[tool.plain_name]
    needed = {*tool.schema["required"], "range", "hunk_id", "edit_id", "topic", "patch"}
    given = {name: value for name, value in row.items() if name in needed}
    return {name: INSTEAD.get(str(value), value) for name, value in given.items()}


REFUSED = (
    *("apply_file_modification", "apply_file_modifications", "undo_file_modification"),
    *("show_hunk", "discard_hunk", "readVar"),
)
"""The tools that need what an earlier call gave."""

CHANGES_EACH_TIME = (
    *("hunk_id", "expires_at_ms", "time_ms", "file_mtime_ms", "params_input", "log_id"),
    *("box", "notebooks", "breadcrumb", "newBlockId", "newBlockIds", "operation", "docId"),
    *("created", "updated", "next"),
)


COMMANDS: dict[str, dict[str, object]] = {
    "create": {"path": "new.txt", "file_text": "x\n"},
    "create empty": {"path": "new.txt", "file_text": ""},
    "str_replace": {"path": FILE, "old_str": "old line", "new_str": "3"},
    "str_replace away": {"path": FILE, "old_str": "old line", "new_str": ""},
    "insert": {"path": FILE, "insert_line": 2, "insert_text": "x\n"},
    "insert at the top": {"path": FILE, "insert_line": 0, "insert_text": "x\n"},
}
"""The text editor's other commands, each with what it needs; 0 and "" are values there."""

COUNTED_FROM_0 = ("context_before", "context_after")
_SENTINEL_OF = {"string": "", "integer": 0, "array": [], "object": {}}


def sentinels(schema: Schema, needed: Mapping[str, object]) -> Iterator[tuple[str, list[object]]]:
    """All other arguments of a listed schema, with what stands for "not given" in each."""
    for name, form in schema["properties"].items():
        if name in needed:
            continue
        kinds = form.get("anyOf") or [{**form, "type": kind} for kind in form["type"]]
        assert kinds[-1]["type"] == "null", "an optional argument may be null"
        values: list[object] = [None]
        for kind in kinds[:-1]:
            if kind["type"] == "boolean":
                values.append(_named_default(form))
            elif name not in COUNTED_FROM_0:
                values.append(_SENTINEL_OF[kind["type"]])
            values += kind.get("enum", ())[:1]  # nothing else but null can be sent for a choice
        yield name, values


def _named_default(form: Schema) -> bool:
    """A boolean's default, as the schema names it: in a keyword, or in words where it may not."""
    if "default" in form:
        return bool(form["default"])
    said = re.search(r"Default: (true|false)\.", form["description"])
    assert said, form
    return said[1] == "true"


def steady(value: Any, root: str) -> Any:
    """An answer without what is another one in each run."""
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return {k: steady(v, root) for k, v in items if k not in CHANGES_EACH_TIME}
    if isinstance(value, str):
        return re.sub(r"(created|modified|accessed): .*", "", value.replace(root, "ROOT"))
    return [steady(item, root) for item in value] if isinstance(value, list | tuple) else value


class Fresh:
    """A new workspace for each call."""

    def __init__(self, folder: Path) -> None:
        self._roots = (folder / str(number) for number in count())

    def __call__(self, tool: Tool, arguments: dict[str, object]) -> object:
        root = next(self._roots)
        with opened_at(root) as opened:
            answer = opened.call("local", tool.name, arguments)
        files = (path for path in sorted(root.rglob("*")) if path.is_file())
        after = {str(path.relative_to(root)): path.read_bytes() for path in files}
        return steady(answer.data, str(root)), answer.diff, after


def every_call() -> Iterator[tuple[Tool, dict[str, object], str]]:
    for tool in TOOLS:
        yield tool, required(tool), tool.name
        if tool.name == EDITOR:
            for name, given in COMMANDS.items():
                yield tool, {"command": name.split()[0], **given}, f"{tool.name} {name}"


EVERY_CALL = list(every_call())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tool", "given"),
    spread([one[:2] for one in EVERY_CALL], of=9),
    ids=[one[2] for one in EVERY_CALL],
)
def test_a_sentinel_means_not_given(tool: Tool, given: dict[str, object], tmp_path: Path) -> None:
    """What a strict client sends, which has to send all arguments, is what a short call is."""
    call = Fresh(tmp_path)
    assert set(tool.schema["required"]) <= set(given)
    expected = call(tool, given)
    status = cast("tuple[dict[str, object], object, object]", expected)[0]["status"]
    assert (status == "error") == (tool.plain_name in REFUSED), expected
    for dialect, form in (("mcp", "inputSchema"), ("openai-strict", "parameters")):
        others = dict(sentinels(one(tool, dialect)[form], given))
        unlisted = UNLISTED if dialect == "mcp" else frozenset[str]()
        assert others.keys() | given.keys() == tool.schema["properties"].keys() - unlisted
        for pick in (0, 1, -1):
            sent = {name: values[min(pick, len(values) - 1)] for name, values in others.items()}
            assert call(tool, {**given, **sent}) == expected, (dialect, sent)
    for name, values in others.items():
        for value in values:
            assert call(tool, {**given, name: value}) == expected, (name, value)


def test_a_number_is_taken_for_a_text(tmp_path: Path) -> None:
    call, tools = Fresh(tmp_path), {tool.name: tool for tool in TOOLS}
    edit = {"path": FILE, "range": "2", "content": "0"}
    batch = {"path": FILE, "edits": [{"old_string": "old line", "new_string": "3"}]}
    for name, texts, numbers in (
        ("read_file", {"path": FILE, "range": "2"}, {"range": 2}),
        ("create_new_file", {"path": "7", "content": "1.5"}, {"path": 7, "content": 1.5}),
        ("prepare_file_range_edit", edit, {"range": 2}),
        ("prepare_file_range_edit", edit, {"content": 0}),
        ("BatchEdit", batch, {"edits": [{"old_string": "old line", "new_string": 3}]}),
        ("apply_file_modifications", {"hunk_ids": ["12345678"]}, {"hunk_ids": [12345678]}),
    ):
        given: dict[str, object] = dict(texts)
        assert call(tools[name], {**given, **numbers}) == call(tools[name], given), name


@pytest.mark.slow
def test_what_is_not_an_argument_is_refused_though_the_list_does_not_say_so(tmp_path: Path) -> None:
    call = Fresh(tmp_path)
    for tool in TOOLS:
        given = required(tool)
        assert "additionalProperties" not in json.dumps(one(tool, "mcp")["inputSchema"])
        if tool.call.open:  # it reads, and ignores what it does not know, as elsewhere
            assert call(tool, {**given, "extra": 1}) == call(tool, given), tool.name
            continue
        answer = cast("Any", call(tool, {**given, "extra": 1}))[0]
        assert "extra" in json.dumps(answer), tool.name
        assert answer["status"] == "error", tool.name


def test_an_id_begins_with_a_letter_and_is_never_quoted(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    with open_workspace(str(tmp_path), Config(), shared=False) as opened:
        for _ in range(60):
            answer = opened.call("local", "prepare_file_append", {"path": "a.txt", "content": "x"})
            found = str(answer.fields["hunk_id"])
            assert re.fullmatch("[a-f][0-9a-f]{7}", found)
            assert f"\nhunk_id: {found}\n" in answer.text
