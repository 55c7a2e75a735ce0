"""What a refusal says to do next, done to the letter: it is not refused for the same reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from copydesk.app.config import Config, MemberConfig
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.tools.messages import in_shell
from copydesk.tools.report import Answer, Lang
from support.batch_calls import pairs

TEXT = "def one():\n    return  1\n\n\ndef two():\n    x = f(a, b)\n    return 2\n"
RANGE = "prepare_file_range_edit"
AFTER = "prepare_file_insert_after"
BLOCK = "prepare_file_block_replace"
APPLY = "apply_file_modification"
Y = {"content": "y\n"}
Call = tuple[str, dict[str, Any]]
Told = tuple[dict[str, Any], Call]


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


def several_blocks(caller: Caller) -> Told:
    given = {"start_anchor": "def", "end_anchor": "return", "content": "y\n"}
    fields = refused(caller.call(BLOCK, **given), "ANCHOR_AMBIGUOUS")
    last = fields["candidates"][1]
    assert (last["line"], last["end_line"], last["end_text"]) == (5, 7, "    return 2")
    return fields, (RANGE, {"range": f"{last['line']}~{last['end_line']}", "content": "y\n"})


def beyond_an_empty_file(caller: Caller) -> Told:
    caller.file.write_text("")
    fields = refused(caller.call(RANGE, range="2", content="y\n"), "RANGE_OUT_OF_BOUNDS")
    assert "use ~" in fields["summary"]
    return fields, (RANGE, {"range": "~", "content": "y\n"})


def no_text_after_the_end(caller: Caller) -> Told:
    """What it is told is no call that was refused just now."""
    count = caller.file.read_text().count("\n")
    fields = refused(caller.call(RANGE, range=f"{count + 1}~", content=""), "CONTENT_REQUIRED")
    assert fields["total_lines"] == count
    assert f"within 1~{count}" in fields["summary"]
    return fields, (RANGE, {"range": f"{count}", "content": ""})


def expected_with_a_slip(caller: Caller) -> Told:
    given = {"range": "6", "content": "y\n"}
    answer = caller.call(RANGE, **given, expected_old="\tx = f(a, b) \n")
    fields = refused(answer, "CONTENT_CHANGED")
    assert fields["cause"] == ["trailing_blanks", "tabs_for_spaces"]
    assert not caller.call(RANGE, **given, expected_old=fields["found"]).is_error
    return fields, (RANGE, {**given, "version": fields["version"]})


def expected_elsewhere(caller: Caller) -> Told:
    given = {"content": "y\n", "expected_old": "    x = f(a, b)\n"}
    fields = refused(caller.call(RANGE, **given, range="3"), "CONTENT_CHANGED")
    assert fields["stands_at"] in fields["summary"].replace("line 6", "6~6")
    return fields, (RANGE, {**given, "range": fields["stands_at"], "version": fields["version"]})


def line_of(current: str, text: str) -> str:
    """The number of the line that has the text, as it is shown."""
    (line,) = [line for line in current.splitlines() if text in line]
    return line.partition("\t")[0]


def by_number(fields: dict[str, Any], text: str) -> Call:
    """A stale read shows the lines with their numbers, and their version."""
    number, version = line_of(fields["current"], text), fields["current_version"]
    return RANGE, {"range": number, "version": version, **Y}


def read_before(caller: Caller) -> Told:
    version = caller.version()
    caller.file.write_text("# new\n" * 30 + TEXT.replace("f(a, b)", "g(a, b)"))
    answer = caller.call(RANGE, range="6", content="y\n", version=version)
    fields = refused(answer, "STALE_READ")
    return fields, by_number(fields, "g(a, b)")


def planned_before(caller: Caller) -> Told:
    hunk_id = caller.hunk(RANGE, range="6", content="y\n")
    caller.file.write_text("# new\n" * 30 + TEXT.replace("f(a, b)", "g(a, b)"))
    fields = refused(caller.apply(hunk_id), "CONTENT_CHANGED")
    number = line_of(fields["apply_evidence"]["current"], "g(a, b)")
    again = {"range": number, "content": "y\n", "version": fields["version"]}
    return fields, (RANGE, {**again, "existing_hunk_id": hunk_id})


def planned_where_equal_lines_are(caller: Caller) -> Told:
    caller.file.write_text("def start():\n    run()\n\n\ndef stop():\n    run()\n")
    hunk_id = caller.hunk(RANGE, range="2", content="    run(1)\n")
    other = "def main():\n    run()\n\n\ndef again():\n    run()\n\n\ndef other():\n    run()\n"
    caller.file.write_text(other)
    fields = refused(caller.apply(hunk_id), "AMBIGUOUS_MATCH")
    assert {one["text"] for one in fields["candidates"]} == {"    run()"}
    assert f"with version: {fields['version']}" in fields["summary"]
    number = str(fields["candidates"][0]["line"])
    again = {"range": number, "content": "    run(1)\n", "version": fields["version"]}
    return fields, (RANGE, {**again, "existing_hunk_id": hunk_id})


def other_counters(caller: Caller) -> Told:
    given = {"known_old_total_lines": 1, "known_old_total_bytes": 1, "content": "y\n"}
    fields = refused(caller.call("overwrite_entire_file", **given), "STATS_MISMATCH")
    assert not caller.call("read_file").is_error
    lines, size = fields["actual_total_lines"], fields["actual_total_bytes"]
    counters = {"known_old_total_lines": lines, "known_old_total_bytes": size}
    return fields, ("overwrite_entire_file", {**given, **counters})


def a_part_was_read(caller: Caller) -> Told:
    caller.call("read_file", range="1~2")
    size = len(TEXT)
    given = {"known_old_total_lines": 7, "known_old_total_bytes": size, "content": "y\n"}
    fields = refused(caller.call("overwrite_entire_file", **given), "INCOMPLETE_READ")
    assert not caller.call("read_file", range="3~").is_error
    return fields, ("overwrite_entire_file", given)


def another_tool(caller: Caller) -> Told:
    hunk_id = caller.hunk(RANGE, range="6", content="y\n")
    answer = caller.call("prepare_file_append", content="y\n", existing_hunk_id=hunk_id)
    fields = refused(answer, "WRONG_MODE")
    assert fields["planned_with"] == caller.prefix + RANGE
    return fields, (RANGE, {"range": "5", "content": "y\n", "existing_hunk_id": hunk_id})


def no_id(caller: Caller) -> Told:
    fields = refused(caller.apply("??"), "INVALID_HUNK_ID")
    return fields, ("list_pending", {"path": ""})


def no_such_edit(caller: Caller) -> Told:
    undo = f"{caller.prefix}undo_file_modification"
    fields = refused(caller.desk.call("local", undo, {"edit_id": 99}), "EDIT_NOT_FOUND")
    return fields, ("list_edits", {"path": ""})


def only(values: Sequence[Any]) -> Any:
    (one,) = values
    return one


PART = {"anchor": "x = f(a", "match": "equals", **Y}
RETURN = {"anchor": "return", **Y}
DIFF = {"path": "new.py", "content": "--- a\n+++ b\n"}
DIFFERS = {"old": "\tx  = f(a, b) ", "new": "\ty = f(a, b)"}
ROWS: list[tuple[str, dict[str, Any], str, str, Callable[[dict[str, Any]], Call]]] = [
    # a call, how it is refused, a word of the refusal, and what is called then
    (AFTER, {"anchor": "x=f( a,b )", **Y}, "ANCHOR_NOT_FOUND", "corrected_anchor", lambda told: (AFTER, {"anchor": told["corrected_anchor"], **Y})),
    (AFTER, {"anchor": "def tow():", **Y}, "ANCHOR_NOT_FOUND", "", lambda told: (AFTER, {"anchor": told["closest"][0]["text"], **Y})),
    (AFTER, PART, "ANCHOR_NOT_FOUND", "match: contains", lambda told: (AFTER, {**PART, "match": "contains"})),
    (AFTER, {"anchor": "zzz", **Y}, "ANCHOR_NOT_FOUND", "no line is close", lambda told: ("ripgrep_snippets", {"pattern": "z", "path": ""})),
    (AFTER, RETURN, "ANCHOR_AMBIGUOUS", "", lambda told: (AFTER, {**RETURN, "occurrence": 2})),
    (AFTER, {**RETURN, "occurrence": 9}, "OCCURRENCE_OUT_OF_RANGE", "", lambda told: (AFTER, {**RETURN, "occurrence": told["candidates_count"]})),
    (AFTER, {"anchor": "def two", "content": ""}, "CONTENT_REQUIRED", "", lambda told: (RANGE, {"range": "5", "content": ""})),
    (RANGE, {"range": "9", **Y}, "RANGE_OUT_OF_BOUNDS", "", lambda told: (RANGE, {"range": only(re.findall(r"(\d+~) ", told["summary"])), **Y})),
    (RANGE, {"range": "6", "expected_old": "z\n", **Y}, "CONTENT_CHANGED", "", lambda told: (RANGE, {"range": "6", "version": told["version"], **Y})),
    (RANGE, {"range": "6", "version": "0" * 12, **Y}, "STALE_READ", "", lambda told: by_number(told, "f(a, b)")),
    ("create_new_file", DIFF, "SUSPICIOUS_DIFF", "", lambda told: ("create_new_file", {**DIFF, "content_format": "diff"})),
    ("create_new_file", {"content": "x"}, "FILE_EXISTS", "", lambda told: ("prepare_file_append", Y)),
    ("read_file", {"path": "b.py"}, "FILE_NOT_FOUND", "", lambda told: ("read_file", {"path": told["similar"][0]})),
    ("replace_text", DIFFERS, "PARTIAL_MATCH_FAIL", "corrected_old_string as old", lambda told: ("replace_text", {**DIFFERS, "old": only(told["failures"])["corrected_old_string"]})),
]  # fmt: skip
STORIES: list[Callable[[Caller], Told]] = [
    *(several_blocks, beyond_an_empty_file, no_text_after_the_end, expected_with_a_slip),
    *(expected_elsewhere, read_before, planned_before, planned_where_equal_lines_are),
    *(other_counters, a_part_was_read, another_tool, no_id, no_such_edit),
]


def check_advice(caller: Caller, fields: dict[str, Any], then: Call) -> None:
    """Whoever does what the refusal says is not refused; the tools it names are its own."""
    known = {name.removeprefix("team_mgmt_") for name in caller.desk.catalog.tools}
    for name in set(re.findall(r"\w+", str(fields["summary"]), re.ASCII)):
        if name.removeprefix("team_mgmt_") in known and "_" in name:
            assert name.startswith("team_mgmt_") is bool(caller.prefix), fields["summary"]
    answer = caller.call(then[0], **then[1])
    assert not answer.is_error, answer.text


@pytest.mark.parametrize(("tool", "given", "code", "word", "then"), ROWS)
def test_the_advice_of_a_refusal_is_taken(
    caller: Caller,
    tool: str,
    given: dict[str, Any],
    code: str,
    word: str,
    then: Callable[[dict[str, Any]], Call],
) -> None:
    fields = refused(caller.call(tool, **given), code)
    assert word in fields["summary"]
    check_advice(caller, fields, then(fields))


@pytest.mark.parametrize("story", STORIES, ids=[story.__name__ for story in STORIES])
def test_the_advice_is_taken(caller: Caller, story: Callable[[Caller], Told]) -> None:
    check_advice(caller, *story(caller))


OLD_NEW = {"old_string": "\tx = f(a, b)", "new_string": "y"}


@pytest.mark.parametrize(
    ("tool", "arguments", "old"),
    [
        ("Edit", OLD_NEW, "old_string"),
        ("str_replace_based_edit_tool", {"command": "str_replace", "old_str": "\tx = f(a, b)", "new_str": "y"}, "old_str"),
        *((tool, {"edits": [OLD_NEW]}, "edits") for tool in ("BatchEdit", "MultiEdit", "prepare_batch_edit")),
    ],
)  # fmt: skip
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
            given["edits"] = [{**OLD_NEW, "old_string": failure["corrected_old_string"]}]
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

        new, edit = f'{text[:at]}"id":"sixty",{text[at + 8 :]}', ('"id":60,', '"id":"sixty",')
        batch = call("prepare_batch_edit", edits=pairs(edit))
        for plan in (call(RANGE, range="1", content=new), batch):
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
    named = ("copydesk history", "copydesk discard", "copydesk call read_file")
    assert said == "{} shows them; {} and {} are tools.".format(*named)
