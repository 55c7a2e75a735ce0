"""What a refusal says to do next, done to the letter: it is not refused for the same reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from copydesk.app.config import Config, MemberConfig
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.tools.messages import in_shell
from copydesk.tools.report import Answer, Lang

TEXT = "def one():\n    return  1\n\n\ndef two():\n    x = f(a, b)\n    return 2\n"
RANGE = "prepare_file_range_edit"
AFTER = "prepare_file_insert_after"
BLOCK = "prepare_file_block_replace"
APPLY = "apply_file_modification"
Call = tuple[str, dict[str, Any]]


class Caller:
    """One member, of a toolset whose tools have this prefix, and whose files are below a folder."""

    def __init__(self, desk: OpenWorkspace, root: Path, prefix: str) -> None:
        self.desk, self.prefix = desk, prefix
        self.file = root / (".minds" if prefix else "") / "a.py"
        self.file.parent.mkdir(exist_ok=True)
        self.file.write_text(TEXT)

    def call(self, tool: str, /, **arguments: Any) -> Answer:
        return self.desk.call("local", self.prefix + tool, {"path": "a.py", **arguments})

    def hunk(self, tool: str, /, **arguments: Any) -> str:
        plan = self.call(tool, **arguments)
        assert not plan.is_error, plan.text
        return str(plan.fields["hunk_id"])

    def apply(self, hunk_id: str) -> Answer:
        return self.desk.call("local", f"{self.prefix}{APPLY}", {"hunk_id": hunk_id})

    def version(self) -> str:
        return str(self.call("read_file").fields["version"])


@pytest.fixture(params=["", "team_mgmt_"])
def caller(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Caller]:
    config = Config(members={"local": MemberConfig(team_mgmt=True)}, durability="fast")
    with open_workspace(str(tmp_path), config, shared=False) as desk:
        yield Caller(desk, tmp_path, request.param)


def refused(answer: Answer, code: str) -> dict[str, Any]:
    fields: dict[str, Any] = answer.fields
    assert fields["error"] == code, answer.text
    return fields


def anchor_that_differs(caller: Caller) -> tuple[dict[str, Any], Call]:
    fields = refused(caller.call(AFTER, anchor="x=f( a,b )", content="y\n"), "ANCHOR_NOT_FOUND")
    assert "corrected_anchor" in fields["summary"]
    return fields, (AFTER, {"anchor": fields["corrected_anchor"], "content": "y\n"})


def anchor_with_a_typo(caller: Caller) -> tuple[dict[str, Any], Call]:
    fields = refused(caller.call(AFTER, anchor="def tow():", content="y\n"), "ANCHOR_NOT_FOUND")
    return fields, (AFTER, {"anchor": fields["closest"][0]["text"], "content": "y\n"})


def a_part_of_a_line(caller: Caller) -> tuple[dict[str, Any], Call]:
    given = {"anchor": "x = f(a", "match": "equals", "content": "y\n"}
    fields = refused(caller.call(AFTER, **given), "ANCHOR_NOT_FOUND")
    assert "match: contains" in fields["summary"]
    return fields, (AFTER, {**given, "match": "contains"})


def anchor_that_is_nowhere(caller: Caller) -> tuple[dict[str, Any], Call]:
    fields = refused(caller.call(AFTER, anchor="zzz", content="y\n"), "ANCHOR_NOT_FOUND")
    assert "no line is close" in fields["summary"]
    return fields, (f"ripgrep_{'snippets'}", {"pattern": "z", "path": ""})


def several_lines(caller: Caller) -> tuple[dict[str, Any], Call]:
    fields = refused(caller.call(AFTER, anchor="return", content="y\n"), "ANCHOR_AMBIGUOUS")
    return fields, (AFTER, {"anchor": "return", "content": "y\n", "occurrence": 2})


def several_blocks(caller: Caller) -> tuple[dict[str, Any], Call]:
    given = {"start_anchor": "def", "end_anchor": "return", "content": "y\n"}
    fields = refused(caller.call(BLOCK, **given), "ANCHOR_AMBIGUOUS")
    last = fields["candidates"][1]
    assert (last["line"], last["end_line"], last["end_text"]) == (5, 7, "    return 2")
    return fields, (RANGE, {"range": f"{last['line']}~{last['end_line']}", "content": "y\n"})


def too_many(caller: Caller) -> tuple[dict[str, Any], Call]:
    given = {"anchor": "return", "content": "y\n"}
    answer = caller.call(AFTER, **given, occurrence=9)
    fields = refused(answer, "OCCURRENCE_OUT_OF_RANGE")
    return fields, (AFTER, {**given, "occurrence": fields["candidates_count"]})


def beyond_the_end(caller: Caller) -> tuple[dict[str, Any], Call]:
    fields = refused(caller.call(RANGE, range="9", content="y\n"), "RANGE_OUT_OF_BOUNDS")
    (end,) = re.findall(r"\d+~ ", fields["summary"])
    return fields, (RANGE, {"range": end.strip(), "content": "y\n"})


def beyond_an_empty_file(caller: Caller) -> tuple[dict[str, Any], Call]:
    caller.file.write_text("")
    fields = refused(caller.call(RANGE, range="2", content="y\n"), "RANGE_OUT_OF_BOUNDS")
    assert "use ~" in fields["summary"]
    return fields, (RANGE, {"range": "~", "content": "y\n"})


def no_text(caller: Caller) -> tuple[dict[str, Any], Call]:
    fields = refused(caller.call(AFTER, anchor="def two", content=""), "CONTENT_REQUIRED")
    return fields, (RANGE, {"range": "5", "content": ""})


def no_text_after_the_end(caller: Caller) -> tuple[dict[str, Any], Call]:
    """What it is told is no call that was refused just now."""
    count = caller.file.read_text().count("\n")
    fields = refused(caller.call(RANGE, range=f"{count + 1}~", content=""), "CONTENT_REQUIRED")
    assert fields["total_lines"] == count
    assert f"within 1~{count}" in fields["summary"]
    return fields, (RANGE, {"range": f"{count}", "content": ""})


def expected_with_a_slip(caller: Caller) -> tuple[dict[str, Any], Call]:
    given = {"range": "6", "content": "y\n"}
    answer = caller.call(RANGE, **given, expected_old="\tx = f(a, b) \n")
    fields = refused(answer, "CONTENT_CHANGED")
    assert fields["cause"] == ["trailing_blanks", "tabs_for_spaces"]
    assert not caller.call(RANGE, **given, expected_old=fields["found"]).is_error
    return fields, (RANGE, {**given, "version": fields["version"]})


def expected_elsewhere(caller: Caller) -> tuple[dict[str, Any], Call]:
    given = {"content": "y\n", "expected_old": "    x = f(a, b)\n"}
    fields = refused(caller.call(RANGE, **given, range="3"), "CONTENT_CHANGED")
    assert fields["stands_at"] in fields["summary"].replace("line 6", "6~6")
    return fields, (RANGE, {**given, "range": fields["stands_at"], "version": fields["version"]})


def other_than_expected(caller: Caller) -> tuple[dict[str, Any], Call]:
    given = {"range": "6", "content": "y\n"}
    fields = refused(caller.call(RANGE, **given, expected_old="z\n"), "CONTENT_CHANGED")
    return fields, (RANGE, {**given, "version": fields["version"]})


def line_of(current: str, text: str) -> str:
    """The number of the line that has the text, as it is shown."""
    (line,) = [line for line in current.splitlines() if text in line]
    return line.partition("\t")[0]


def read_before(caller: Caller) -> tuple[dict[str, Any], Call]:
    version = caller.version()
    caller.file.write_text("# new\n" * 30 + TEXT.replace("f(a, b)", "g(a, b)"))
    answer = caller.call(RANGE, range="6", content="y\n", version=version)
    fields = refused(answer, "STALE_READ")
    number = line_of(fields["current"], "g(a, b)")
    return fields, (
        RANGE,
        {"range": number, "content": "y\n", "version": fields["current_version"]},
    )


def read_of_an_unknown_version(caller: Caller) -> tuple[dict[str, Any], Call]:
    answer = caller.call(RANGE, range="6", content="y\n", version="0" * 12)
    fields = refused(answer, "STALE_READ")
    number = line_of(fields["current"], "f(a, b)")
    return fields, (
        RANGE,
        {"range": number, "content": "y\n", "version": fields["current_version"]},
    )


def planned_before(caller: Caller) -> tuple[dict[str, Any], Call]:
    hunk_id = caller.hunk(RANGE, range="6", content="y\n")
    caller.file.write_text("# new\n" * 30 + TEXT.replace("f(a, b)", "g(a, b)"))
    fields = refused(caller.apply(hunk_id), "CONTENT_CHANGED")
    number = line_of(fields["apply_evidence"]["current"], "g(a, b)")
    again = {"range": number, "content": "y\n", "version": fields["version"]}
    return fields, (RANGE, {**again, "existing_hunk_id": hunk_id})


def planned_where_equal_lines_are(caller: Caller) -> tuple[dict[str, Any], Call]:
    caller.file.write_text("def start():\n    run()\n\n\ndef stop():\n    run()\n")
    hunk_id = caller.hunk(RANGE, range="2", content="    run(1)\n")
    other = "def main():\n    run()\n\n\ndef again():\n    run()\n\n\ndef other():\n    run()\n"
    caller.file.write_text(other)
    fields = refused(caller.apply(hunk_id), "AMBIGUOUS_MATCH")
    assert [one["text"] for one in fields["candidates"]] == ["    run()"] * len(
        fields["candidates"]
    )
    number = str(fields["candidates"][0]["line"])
    again = {"range": number, "content": "    run(1)\n", "version": fields["version"]}
    return fields, (RANGE, {**again, "existing_hunk_id": hunk_id})


def other_counters(caller: Caller) -> tuple[dict[str, Any], Call]:
    given = {"known_old_total_lines": 1, "known_old_total_bytes": 1, "content": "y\n"}
    fields = refused(caller.call("overwrite_entire_file", **given), "STATS_MISMATCH")
    assert not caller.call("read_file").is_error
    lines, size = fields["actual_total_lines"], fields["actual_total_bytes"]
    counters = {"known_old_total_lines": lines, "known_old_total_bytes": size}
    return fields, ("overwrite_entire_file", {**given, **counters})


def a_part_was_read(caller: Caller) -> tuple[dict[str, Any], Call]:
    caller.call("read_file", range="1~2")
    size = len(TEXT)
    given = {"known_old_total_lines": 7, "known_old_total_bytes": size, "content": "y\n"}
    fields = refused(caller.call("overwrite_entire_file", **given), "INCOMPLETE_READ")
    assert not caller.call("read_file", range="3~").is_error
    return fields, ("overwrite_entire_file", given)


def a_patch(caller: Caller) -> tuple[dict[str, Any], Call]:
    given = {"path": "new.py", "content": "--- a\n+++ b\n"}
    fields = refused(caller.call("create_new_file", **given), "SUSPICIOUS_DIFF")
    return fields, ("create_new_file", {**given, "content_format": "diff"})


def another_name(caller: Caller) -> tuple[dict[str, Any], Call]:
    fields = refused(caller.call("read_file", path="b.py"), "FILE_NOT_FOUND")
    return fields, ("read_file", {"path": fields["similar"][0]})


def a_name_that_is_taken(caller: Caller) -> tuple[dict[str, Any], Call]:
    fields = refused(caller.call("create_new_file", content="x"), "FILE_EXISTS")
    return fields, ("prepare_file_append", {"content": "y\n"})


def another_tool(caller: Caller) -> tuple[dict[str, Any], Call]:
    hunk_id = caller.hunk(RANGE, range="6", content="y\n")
    answer = caller.call("prepare_file_append", content="y\n", existing_hunk_id=hunk_id)
    fields = refused(answer, "WRONG_MODE")
    assert fields["planned_with"] == caller.prefix + RANGE
    return fields, (RANGE, {"range": "5", "content": "y\n", "existing_hunk_id": hunk_id})


def no_id(caller: Caller) -> tuple[dict[str, Any], Call]:
    fields = refused(caller.apply("??"), "INVALID_HUNK_ID")
    return fields, ("list_pending", {"path": ""})


def no_such_edit(caller: Caller) -> tuple[dict[str, Any], Call]:
    undo = f"{caller.prefix}undo_file_modification"
    fields = refused(caller.desk.call("local", undo, {"edit_id": 99}), "EDIT_NOT_FOUND")
    return fields, ("list_edits", {"path": ""})


def a_text_that_differs(caller: Caller) -> tuple[dict[str, Any], Call]:
    given = {"old": "\tx  = f(a, b) ", "new": "\ty = f(a, b)"}
    fields = refused(caller.call("replace_text", **given), "PARTIAL_MATCH_FAIL")
    (failure,) = fields["failures"]
    assert "corrected_old_string as old" in fields["summary"]
    return fields, ("replace_text", {**given, "old": failure["corrected_old_string"]})


STORIES: list[Callable[[Caller], tuple[dict[str, Any], Call]]] = [
    *(anchor_that_differs, anchor_with_a_typo, a_part_of_a_line, anchor_that_is_nowhere),
    *(
        several_lines,
        several_blocks,
        too_many,
        beyond_the_end,
        beyond_an_empty_file,
        no_text,
        no_text_after_the_end,
    ),
    *(expected_with_a_slip, expected_elsewhere, other_than_expected, read_before),
    *(read_of_an_unknown_version, planned_before, planned_where_equal_lines_are),
    *(other_counters, a_part_was_read, a_patch, another_name, a_name_that_is_taken),
    *(another_tool, no_id, no_such_edit, a_text_that_differs),
]


@pytest.mark.parametrize("story", STORIES, ids=[story.__name__ for story in STORIES])
def test_the_advice_is_taken(
    caller: Caller, story: Callable[[Caller], tuple[dict[str, Any], Call]]
) -> None:
    """Whoever does what the refusal says is not refused; the tools it names are its own."""
    fields, (tool, arguments) = story(caller)
    known = {name.removeprefix("team_mgmt_") for name in caller.desk.catalog.tools}
    for name in set(re.findall(r"\w+", str(fields["summary"]), re.ASCII)):
        if name.removeprefix("team_mgmt_") in known and "_" in name:
            assert name.startswith("team_mgmt_") is bool(caller.prefix), fields["summary"]
    answer = caller.call(tool, **arguments)
    assert not answer.is_error, answer.text


@pytest.mark.parametrize(
    ("tool", "arguments", "old"),
    [
        ("Edit", {"old_string": "\tx = f(a, b)", "new_string": "y"}, "old_string"),
        (
            "str_replace_based_edit_tool",
            {"command": "str_replace", "old_str": "\tx = f(a, b)", "new_str": "y"},
            "old_str",
        ),
        ("BatchEdit", {"edits": [{"old_string": "\tx = f(a, b)", "new_string": "y"}]}, "edits"),
        ("MultiEdit", {"edits": [{"old_string": "\tx = f(a, b)", "new_string": "y"}]}, "edits"),
        (
            "prepare_batch_edit",
            {"edits": [{"old_string": "\tx = f(a, b)", "new_string": "y"}]},
            "edits",
        ),
    ],
)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_tool_that_seeks_a_text_corrects_it(
    tmp_path: Path, tool: str, arguments: dict[str, Any], old: str, lang: Lang
) -> None:
    (tmp_path / "a.py").write_text(TEXT)
    with open_workspace(str(tmp_path), Config(durability="fast"), shared=False) as desk:
        given = {"path": "a.py", **arguments}
        data: Any = desk.call("local", tool, given, lang=lang).data
        fields = data.get("data", data)
        (failure,) = fields["failures"]
        assert failure["cause"] == ["tabs_for_spaces"]
        assert failure["nearest_lines"] == "6~6"
        words = str(data.get("text", data.get("summary")))
        assert ("spaces" if lang == "en" else "空格") in words
        if old == "edits":
            (edit,) = arguments["edits"]
            name = next(name for name in edit if name.startswith("old"))
            given["edits"] = [{**edit, name: failure["corrected_old_string"]}]
        else:
            assert old in words
            given[old] = failure["corrected_old_string"]
        again = desk.call("local", tool, given, lang=lang)
        assert not again.is_error, again.text


RECORDS = "[" + ",".join(f'{{"id":{i},"name":"item {i}"}}' for i in range(400_000)) + "]"
"""One line of 13 MB."""


@pytest.mark.slow
@pytest.mark.parametrize("size", [3_000, 60_000, 300_000, len(RECORDS)])
def test_of_one_long_line_the_change_is_shown(tmp_path: Path, size: int) -> None:
    """Plans, answers and refusals show what changes in it, in text and in data, in short."""
    text = RECORDS[:size]
    at = RECORDS.index('"id":60,')
    (tmp_path / "a.json").write_text(text)
    with open_workspace(str(tmp_path), Config(durability="fast"), shared=False) as desk:

        def call(tool: str, **arguments: Any) -> Answer:
            answer = desk.call("local", tool, {"path": "a.json", **arguments})
            assert len(answer.text) < 40_000
            return answer

        new = f'{text[:at]}"id":"sixty",{text[at + 8 :]}'
        plans = [
            call(RANGE, range="1", content=new),
            call(
                "prepare_batch_edit",
                edits=[{"old_string": '"id":60,', "new_string": '"id":"sixty",'}],
            ),
        ]
        for plan in plans:
            evidence: Any = plan.data["evidence"]
            old = evidence["regions"][0]["old"] if "regions" in evidence else evidence["range"]
            assert '"id":60,' in old
            for shown in (plan.text, str(plan.data["diff"])):
                assert '-[{"id":0,' in shown
                assert '"id":"sixty",' in shown
        answer = call(RANGE, range="1", content="x\n", expected_old=new)
        assert all('"id":60,' in str(answer.data[name]) for name in ("found", "current"))
        assert '"id":"sixty",' in str(answer.data["expected_old"])
        near: Any = call("Edit", old_string='"id": 60, "name"', new_string="x").data
        assert near["data"]["failures"][0]["corrected_old_string"] == '"id":60,"name"'
        done: Any = call("Edit", old_string='"id":60,"name"', new_string='"id":"sixty","name"').data
        assert '"id":"sixty",' in done["data"]["diff_preview"]


def test_in_a_shell_commands_are_named() -> None:
    said = in_shell("list_edits shows them; discard_hunk and read_file are tools.")
    assert (
        said
        == "copydesk history shows them; copydesk discard and copydesk call read_file are tools."
    )
