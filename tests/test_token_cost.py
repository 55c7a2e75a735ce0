"""What a call costs a model: counted with a real tokenizer."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from copydesk.app import reference
from copydesk.app.config import Config
from copydesk.app.workspace import OpenWorkspace
from copydesk.tools.report import Lang
from support.cost import LIST_TOKENS, check_list_is_cheap, compact, tokens
from support.desks import Setup

LINES = "".join(f"value_{i} = compute(alpha={i}, beta='text {i}')\n" for i in range(200))


DESK = Setup(Config(), {"src/module.py": LINES})


@pytest.mark.parametrize("guard", ["version", "expected_old"])
def test_one_line_edit_is_one_short_call(desk: OpenWorkspace, guard: str) -> None:
    read = desk.call("local", "read_file", {"path": "src/module.py", "range": "50"})
    known = {"version": read.fields["version"], "expected_old": LINES.split("\n")[49]}
    report = desk.call(
        "local",
        "prepare_file_range_edit",
        {
            "path": "src/module.py",
            "range": "50",
            "content": "value_49 = compute(alpha=49, beta='changed', gamma=True)\n",
            guard: known[guard],
            "apply": "auto",
            "report": "brief",
        },
    )
    assert report.fields["changed"] is True
    normalized = report.fields["normalized"]
    assert isinstance(normalized, dict)
    assert normalized["file_eof_has_newline"] is normalized["content_eof_has_newline"] is True
    both = report.text + json.dumps(report.data)
    assert tokens(report.text) < 400
    assert tokens(both) < 800, "text and structured content together"


@pytest.mark.parametrize("toolset", LIST_TOKENS)
def test_the_tool_list_is_small(desk: OpenWorkspace, toolset: str) -> None:
    for lang in get_args(Lang):
        listed = reference.definitions(desk.catalog.of([toolset]), "mcp", lang)
        instructions = reference.instructions([toolset], lang)
        check_list_is_cheap(listed, instructions, LIST_TOKENS[toolset])
        if toolset == "edit":
            assert len(listed) == 9
            assert len(compact(listed).decode()) + len(instructions) <= 8_500


@pytest.mark.slow
def test_a_list_that_is_dear_names_its_longest_texts(desk: OpenWorkspace) -> None:
    listed = reference.definitions(desk.catalog.of(["edit"]), "mcp", "en")
    with pytest.raises(pytest.fail.Exception, match="longest texts"):
        check_list_is_cheap(listed, "", 500)


def test_a_refusal_is_short(desk: OpenWorkspace) -> None:
    arguments = {"path": "src/module.py", "anchor": "value_", "content": "x"}
    report = desk.call("local", "prepare_file_insert_after", arguments)
    assert tokens(report.text) < 600
