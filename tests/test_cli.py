"""The command line: its grammar, what it prints, its exit statuses, and that nothing harms it."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from copydesk.app.cli import main
from copydesk.app.reference import all_tools
from copydesk.app.workspace import OpenWorkspace
from copydesk.tools.catalog import Tool
from support.cost import spread

HOSTILE = "a\x1b[31mred\n\u202egpj\t.txt"
HOSTILE_TEXT = "x \x1b]0;title\x07 \u202e y\nsecond\n"
HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
PREPARE = ("call", "prepare_file_range_edit", "--path", "a.txt", "--range")


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    status: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """The one JSON value on standard output."""
        return json.loads(self.out)


Shell = Callable[..., Ran]


@pytest.fixture
def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    """Runs commands in a small workspace."""
    for name in [name for name in os.environ if name.startswith("COPYDESK_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "100")
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    monkeypatch.chdir(tmp_path)

    def run(*words: str, stdin: str = "") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        capsys.readouterr()
        try:
            status = main(words)
        except SystemExit as ended:  # argparse's --help
            status = int(str(ended.code or 0))
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        return Ran(status, printed.out, printed.err)

    return run


def plan(shell: Shell, lines: str = "2", content: str = "zwei") -> str:
    """Plan an edit; its id."""
    ran = shell(*PREPARE, lines, "--content", content, "--json")
    assert ran.status == 0
    hunk_id: str = ran.data["hunk_id"]
    return hunk_id


# Help


@pytest.mark.slow
def test_help_says_the_exit_statuses(shell: Shell) -> None:
    ran = shell("--help")
    assert ran.status == 0
    assert re.search(r"exit status:\n +0 .*\n +1 .*\n +2 ", ran.out)
    names = re.findall(r"^    ([a-z]+) {2,}", ran.out, re.MULTILINE)
    assert {"mcp", "serve", "demo", "call", "pending", "doctor"} <= set(names)
    for name in names:
        of_command = shell(name, "--help")
        assert of_command.status == 0
        assert f"usage: copydesk {name}" in of_command.out


def test_version(shell: Shell) -> None:
    assert shell("--version").out.startswith("copydesk ")
    assert set(shell("--version", "--json").data) == {"version"}


def test_call_lists_the_tools(shell: Shell) -> None:
    ran = shell("call")
    named = [line.split()[0] for line in ran.out.splitlines()[1:]]
    assert named == [tool.name for tool in all_tools()]
    assert [row["name"] for row in shell("call", "--json").data] == named


@pytest.mark.parametrize("tool", spread(all_tools(), of=4), ids=lambda tool: tool.name)
def test_every_tool_has_help(shell: Shell, tool: Tool) -> None:
    ran = shell("call", tool.name, "--help")
    assert ran.status == 0
    for name in tool.schema["properties"]:
        assert f"--{name} " in ran.out
    assert shell("call", tool.name, "-h").out == ran.out
    assert shell("call", tool.name, "--help", "--json").data["name"] == tool.called


# The words of `call`


RANGE = ("--path", "a.txt", "--range", "1~2")


@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        (['{"path": "a.txt", "range": "1~2"}'], ""),
        (["-"], '{"path": "a.txt", "range": "1~2"}'),
        ([*RANGE], ""),
        (["--path=a.txt", "--range=1~2"], ""),
        ([*RANGE, "--max-lines", "0"], ""),
        ([*RANGE, "--max_lines", "500"], ""),
        ([*RANGE, "--show-linenos"], ""),
        (["--path", "a.txt", "--show-linenos", "--range", "1~2"], ""),
        (["--path", "a.txt", "--show-linenos", "true", "--range", "1~2"], ""),
    ],
)
def test_ways_to_give_arguments(shell: Shell, words: list[str], stdin: str, tmp_path: Path) -> None:
    own = ["--json", "--root", str(tmp_path), "--member", "ann", "--lang", "en"]
    for said in (
        [*own, "call", "read_file", *words],
        ["call", *own, "read_file", *words],
        ["call", "read_file", *words, *own],
    ):
        ran = shell(*said, stdin=stdin)
        assert (ran.status, ran.data["content"]) == (0, "1\tone\n2\ttwo\n"), said


def test_the_text_of_a_search_and_its_data(shell: Shell) -> None:
    words = ["call", "ripgrep_search", "--pattern", "two", "--rg-args=-B1"]
    text, data = shell(*words).out, shell(*words, "--json").data
    version = data["versions"]["a.txt"]
    assert text == (f"1 match in a.txt · version {version}\n```\n1- one\n2: two\n```\n")
    assert data["lines"] == [
        {"path": "a.txt", "line": 1, "is_match": False, "text": "one"},
        {"path": "a.txt", "line": 2, "is_match": True, "text": "two"},
    ]


def test_a_value_may_look_like_an_option(shell: Shell, tmp_path: Path) -> None:
    assert shell("call", "create_new_file", "--path", "n", "--content", "--json").status == 0
    assert shell("call", "create_new_file", "--content=--root", "--path", "m").status == 0
    assert (tmp_path / "n").read_text() == "--json\n"
    assert (tmp_path / "m").read_text() == "--root\n"


def test_values_are_read_as_the_schema_says(shell: Shell) -> None:
    words = ["--path", "a.txt", "--anchor", "2", "--content", "3", "--occurrence"]
    for value in ("1", "last", "-1", "99999999999999999999", "x"):
        ran = shell("call", "prepare_file_insert_after", *words, value, "--json")
        assert ran.status == 1
        assert ran.data["error"] in ("INVALID_ARGS", "ANCHOR_NOT_FOUND")
    ran = shell("call", "ripgrep_files", "--pattern", "o", "--globs", "*.txt", "--globs=!a*")
    assert ran.status == 0
    assert ran.out == "0 files found.\n"
    read = shell("call", "read_file", "--path", "a.txt", "--show-linenos=false", "--json")
    assert read.data["content"] == "one\ntwo\nthree\n"


TWO = ({"old_string": "one", "new_string": "1"}, {"old_string": "two", "new_string": "2"})


@pytest.mark.parametrize(
    "values",
    [[json.dumps(TWO)], [*map(json.dumps, TWO)], [json.dumps(TWO[:1]), json.dumps(TWO[1])]],
)
def test_a_list_of_objects(shell: Shell, tmp_path: Path, values: list[str]) -> None:
    words = (word for value in values for word in ("--edits", value))
    ran = shell("call", "BatchEdit", "--path", "a.txt", *words)
    assert ran.status == 0, ran
    assert (tmp_path / "a.txt").read_text() == "1\n2\nthree\n"


def test_a_list_of_objects_is_json(shell: Shell) -> None:
    ran = shell("call", "BatchEdit", "--path", "a.txt", "--edits", '[{"old_string": ')
    assert ran.status == 2
    assert """BatchEdit: --edits '[{"old_string": ' is not valid JSON""" in ran.err
    assert "edits[0]" in shell("call", "BatchEdit", "--path", "a.txt", "--edits", "3").out
    assert "array of objects, may be repeated" in shell("call", "BatchEdit", "--help").out


@pytest.mark.parametrize("values", [["1", "2"], ["[1, 2]"]])
def test_a_list_of_numbers(shell: Shell, values: list[str]) -> None:
    words = (word for value in values for word in ("--view_range", value))
    given = ("--command", "view", "--path", "a.txt", *words)
    ran = shell("call", "str_replace_based_edit_tool", *given)
    assert (ran.status, "two" in ran.out, "three" in ran.out) == (0, True, False), ran


@pytest.mark.parametrize(
    ("globs", "found"),
    [
        (['["*.txt"]'], True),
        (["*.txt"], True),
        (['["*.txt", "!a*"]'], False),
        (["[a]*.txt"], True),
        (["[0-9].txt", "a.txt"], True),
        (["[0].txt"], False),
        (["a[.]txt"], True),
    ],
)
def test_a_list_of_texts(shell: Shell, globs: list[str], found: bool) -> None:
    """A text that is no JSON list of texts is itself, as a glob in brackets is."""
    words = (word for value in globs for word in ("--globs", value))
    ran = shell("call", "ripgrep_files", "--pattern", "o", *words)
    assert (ran.status, "a.txt" in ran.out) == (0, found), ran


def test_a_number_in_brackets_is_a_glob(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "7").write_text("seven\n")
    assert "7" in shell("call", "ripgrep_files", "--pattern", "seven", "--globs", "[7]").out


def test_words_that_cannot_be_used(shell: Shell) -> None:
    for words in (
        *(["a.txt"], ['{"path": '], ["[" * 100_000], ["-"], ["--path"], ["{}", "{}"], ["--root"]),
        *(["--path", "a.txt", "--path", "b.txt"], ["{}", "--path", "a.txt"]),
        ["--path", "a.txt", "--lang", "xx"],
    ):
        ran = shell("call", "read_file", *words)
        assert (ran.status, ran.out) == (2, ""), words
        assert ran.err.startswith("copydesk: ")
        assert len(ran.err) < 400


@pytest.mark.slow
def test_arguments_that_the_tool_refuses(shell: Shell) -> None:
    for words in (
        *([], ["[1]"], ["null"], ['{"path": 1}'], ["--pth", "a.txt"], ["--nope"]),
        *(["--path", "a.txt", "--max-lines", number] for number in ("²", "9" * 5_000)),
        *(["--path", "\udcff"], ['{"path": "\\udcff"}']),
        *(["--path", "none.txt"], ["--path", "../a.txt"]),
    ):
        ran = shell("call", "read_file", *words)
        assert (ran.status, ran.err) == (1, ""), words
        assert "status: error" in ran.out
        ran = shell("call", "read_file", *words, "--json")
        assert (ran.status, ran.data["status"]) == (1, "error")


# What is wrong is said, with the next step


@pytest.mark.parametrize(
    ("words", "named", "hint"),
    [
        (["aply"], "apply", "copydesk --help"),
        (["frobnicate"], "frobnicate", "copydesk --help"),
        (["--nope"], "--nope", "copydesk --help"),
        (["call", "raed_file"], "read_file", "copydesk call"),
        (["call", "zzzz"], "zzzz", "copydesk call"),
        (["show"], "HUNK", "copydesk show --help"),
        (["apply"], "HUNK", "copydesk apply --help"),
        (["pending", "x"], "x", "--help"),
        (["history", "--most", "0"], "--most", "copydesk history --help"),
        (["history", "--most", "x"], "--most", "copydesk history --help"),
        (["serve", "--port", "99999"], "--port", "copydesk serve --help"),
        (["serve", "--task", "x" * 201], "--task", "copydesk serve --help"),
        (["mcp", "--task", "a\nb"], "one line", "copydesk mcp --help"),
        (["schema", "--dialect", "latin"], "openai-strict", "copydesk schema --help"),
        (["schema", "--toolsets", "ws"], "ws_mod", "team_mgmt"),
        (["manual", "ws_mode"], "ws_mod", "copydesk manual"),
        (["manual", "ws_mod", "tool"], "tools", "copydesk manual"),
        (["pending", "--root", "nowhere"], "nowhere", "--root"),
        (["pending", "--root", "a.txt"], "a.txt", "--root"),
        (["--root", "nowhere", "call", "read_file", "{}"], "nowhere", "COPYDESK_ROOT"),
        (["--lang", "de", "pending"], "--lang", "copydesk --help"),
        (["mcp", "--json"], "--json", ""),
        (["--json", "serve"], "--json", ""),
        (["--json", "up"], "--json", ""),
    ],
)
def test_a_command_line_that_cannot_be_used(
    shell: Shell, words: list[str], named: str, hint: str
) -> None:
    ran = shell(*words)
    if "--json" not in words:
        assert (ran.status, ran.out) == (2, "")
        assert named in ran.err
        assert hint in ran.err
        assert len(ran.err) < 500
    again = shell(*words, "--json")
    assert (again.status, again.err) == (2, "")
    assert again.data["status"] == "error"
    assert again.data["error"] == "USAGE"
    assert named in again.data["summary"]
    assert "?." not in again.data["summary"]


def test_what_has_no_data_says_so(shell: Shell) -> None:
    for words in (["mcp"], ["serve"], ["up"], ["review"], ["demo", "review"]):
        ran = shell(*words, "--json")
        said = f"copydesk {' '.join(words)} has no data to print with --json"
        assert (ran.status, ran.data["summary"]) == (2, said)
    assert shell("down", "--json").data == {
        "status": "ok",
        "pid": 0,
        "summary": "No server of copydesk up runs here.",
    }


def test_a_server_has_the_task_that_is_named(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks: list[str] = []

    def serve(opened: OpenWorkspace, *_: object) -> None:
        tasks.append(opened.member("local").task)

    monkeypatch.setattr("copydesk.app.mcp.http.run_http", serve)
    monkeypatch.setenv("COPYDESK_TASK", "the week")
    for words in ((), ("--task", "fix login")):
        assert shell("serve", *words).status == 0
    assert tasks == ["the week", "fix login"]


def test_only_close_names_are_offered(shell: Shell) -> None:
    assert "did you mean" not in shell("call", "zzzz").err
    assert shell("call", "prepare_file_apend").err.count("prepare_file_") <= 4


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["show", "deadbeef"], "HUNK_NOT_FOUND"),
        (["show", "no"], "INVALID_HUNK_ID"),
        (["apply", "deadbeef"], "HUNK_NOT_FOUND"),
        (["discard", "no"], "INVALID_HUNK_ID"),
    ],
)
def test_a_refusal_points_to_pending(shell: Shell, words: list[str], code: str) -> None:
    ran = shell(*words)
    assert (ran.status, ran.out) == (1, "")
    assert code in ran.err
    assert "copydesk pending" in ran.err
    again = shell(*words, "--json")
    assert (again.status, again.err) == (1, "")
    assert (again.data["status"], again.data["error"]) == ("error", code)


def test_refusals_speak_the_configured_language(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "copydesk.toml").write_text('lang = "zh"\n')
    assert "没有这个规划" in shell("show", "deadbeef").err
    assert "There is no such plan" in shell("show", "deadbeef", "--lang", "en").err
    assert "没有待处理的规划" in shell("pending").out


@pytest.mark.parametrize("text", ["ttl = 3", "lang =", "lang = 'de'"])
def test_a_configuration_that_cannot_be_used(shell: Shell, tmp_path: Path, text: str) -> None:
    (tmp_path / "copydesk.toml").write_text(text)
    for words in (["pending"], ["call", "read_file", "{}"], ["schema"], ["manual"]):
        ran = shell(*words)
        assert (ran.status, ran.out) == (2, "")
        assert "copydesk.toml" in ran.err
        again = shell(*words, "--json")
        assert (again.status, again.err) == (2, "")
        assert again.data["error"] == "CONFIGURATION"
    assert shell("doctor").status == 1


@pytest.mark.parametrize("broken", ["file", "database", "link"])
def test_a_state_folder_that_cannot_be_used(shell: Shell, tmp_path: Path, broken: str) -> None:
    state = tmp_path / ".copydesk"
    if broken == "file":
        state.write_text("x")
    elif broken == "link":
        (tmp_path / "elsewhere").mkdir()
        state.symlink_to("elsewhere")
    else:
        state.mkdir()
        (state / "state.sqlite").write_text("this is no database, but long enough to be read so")
    ran = shell(*PREPARE, "2")
    assert ran.status == 1
    assert str(state) in ran.out
    assert shell(*PREPARE, "2", "--json").data["status"] == "error"
    assert shell("call", "read_file", "--path", "a.txt").status == 0
    assert shell("doctor").status == 1
    if broken == "link":
        assert list((tmp_path / "elsewhere").iterdir()) == []
    assert (tmp_path / "a.txt").read_text() == "one\ntwo\nthree\n"


def test_the_folder_is_gone(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    ran = shell("pending")
    assert ran.status == 2
    assert "--root" in ran.err
    assert shell("doctor").status == 1


# The review loop


def test_the_review_loop(shell: Shell, tmp_path: Path) -> None:
    assert "No plans are pending" in shell("pending").out
    first, second, third = plan(shell, "1", "eins"), plan(shell, "2"), plan(shell, "3", "drei")
    assert [row["hunk_id"] for row in shell("pending", "--json").data] == [first, second, third]
    pending = shell("pending").out
    assert all(one in pending for one in (first, second, third))
    shown = shell("show", second)
    assert "-two\n+zwei\n" in shown.out
    assert f"copydesk apply {second}" in shown.out
    assert "yaml" not in shown.out
    applied = shell("apply", first, second)
    assert (applied.status, applied.err) == (0, "")
    assert applied.out.count("diff --git") == 1, "both are in one file"
    assert third in shell("discard", third).out
    assert (tmp_path / "a.txt").read_text() == "eins\nzwei\nthree\n"
    assert shell("history", "--diff").out.count("diff --git") == 2

    def ids(*words: str) -> list[int]:
        return [row["edit_id"] for row in shell("history", "--json", *words).data]

    assert (ids(), ids("--most", "1"), ids("a.txt"), ids("b.txt")) == ([2, 1], [2], [2, 1], [])
    assert "b.txt" in shell("history", "b.txt").out
    assert "No plans are pending" in shell("pending").out


def test_several_plans_are_written_together(shell: Shell, tmp_path: Path) -> None:
    first, second = plan(shell, "1", "eins"), plan(shell, "2")
    ran = shell("apply", first, "deadbeef", second)
    assert (ran.status, ran.out) == (1, "")
    assert "deadbeef: HUNK_NOT_FOUND" in ran.err
    ran = shell("apply", first, "deadbeef", second, "--json")
    assert (ran.status, ran.data["error"], ran.data["hunk_id"]) == (1, "HUNK_NOT_FOUND", "deadbeef")
    assert (tmp_path / "a.txt").read_text() == "one\ntwo\nthree\n"
    ran = shell("apply", first, second, first, "--json")
    assert ran.status == 0, "named twice, applied once"
    assert [row["hunk_id"] for row in ran.data["hunks"]] == [first, second]
    assert ran.data["diff"].count("diff --git") == 1
    assert (tmp_path / "a.txt").read_text() == "eins\nzwei\nthree\n"


def test_of_several_plans_the_one_that_is_refused_is_named(shell: Shell, tmp_path: Path) -> None:
    first, second = plan(shell, "1", "eins"), plan(shell, "2")
    (tmp_path / "a.txt").write_text("one\nTWO\nthree\n")
    ran = shell("apply", first, second)
    assert (ran.status, ran.out) == (1, "")
    assert f"{second}: CONTENT_CHANGED" in ran.err
    rows = [line.split() for line in ran.err.split("\n") if line.startswith((first, second))]
    assert rows == [[first, "a.txt", "fuzz"], [second, "a.txt", "CONTENT_CHANGED"]]
    assert (tmp_path / "a.txt").read_text() == "one\nTWO\nthree\n"
    assert len(shell("pending", "--json").data) == 2


def test_several_discards_of_which_one_is_refused(shell: Shell, tmp_path: Path) -> None:
    third, fourth = plan(shell, "1", "uno"), plan(shell, "3", "tre")
    ran = shell("discard", third, "deadbeef", fourth)
    assert ran.status == 1
    assert "deadbeef: HUNK_NOT_FOUND" in ran.err
    assert all(one in ran.out for one in (third, fourth))
    assert shell("pending", "--json").data == []
    first, second = plan(shell, "1", "eins"), plan(shell, "2")
    ran = shell("discard", first, "deadbeef", second, "--json")
    assert (ran.status, ran.err) == (1, "")
    assert [one["hunk_id"] for one in ran.data] == [first, "deadbeef", second]
    assert [one["status"] for one in ran.data] == ["ok", "error", "ok"]
    for command in ("discard", "apply"):
        alone = plan(shell, "3", "drei")
        ran = shell(command, alone, "--json")
        assert (ran.status, ran.data["hunk_id"]) == (0, alone), "one plan is no list"


def test_recover_nothing(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shell("recover", "--json").data == {"settled": [], "leftovers_removed": 0}
    assert os.listdir(tmp_path) == ["a.txt"]
    shell("apply", plan(shell))
    (tmp_path / ".copydesk-0123456789ab-new.tmp").write_text("left over")
    now_ns = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now_ns() + 120 * 10**9)  # it is two minutes old
    ran = shell("recover")
    assert (ran.status, ran.err) == (0, "")
    assert "1 leftover file " in ran.out
    assert sorted(os.listdir(tmp_path)) == [".copydesk", "a.txt"]


def test_a_plan_that_the_file_refuses(shell: Shell, tmp_path: Path) -> None:
    hunk_id = plan(shell)
    (tmp_path / "a.txt").write_text("one\nTWO\nthree\n")
    ran = shell("apply", hunk_id)
    assert (ran.status, ran.out) == (1, "")
    assert f"{hunk_id}: CONTENT_CHANGED" in ran.err
    data = shell("apply", hunk_id, "--json").data
    assert (data["error"], data["context_match"]) == ("CONTENT_CHANGED", "rejected")
    assert [row["hunk_id"] for row in shell("pending", "--json").data] == [hunk_id]


JSON_COMMANDS = [
    *(["pending"], ["show", "{hunk}"], ["apply", "{hunk}"], ["discard", "{hunk}"], ["history"]),
    *(["history", "a.txt", "--diff", "--most", "3"], ["call"], ["call", "read_file", "--help"]),
    *(["call", tool, '{"path": "a.txt"}'] for tool in ("read_file", "Read")),
    *(["schema"], ["schema", "--dialect", "gemini", "--toolsets", "ws_mod,team_mgmt"]),
    *(["manual"], ["manual", "ws_mod"], ["doctor"], ["recover"]),
]


@pytest.mark.parametrize(
    "words", spread(JSON_COMMANDS, of=3), ids=lambda words: " ".join(words)[:30]
)
@pytest.mark.parametrize("first", [True, False])
def test_one_json_value_and_nothing_else(shell: Shell, words: list[str], first: bool) -> None:
    shell("apply", plan(shell, "1", "eins"))
    hunk = plan(shell)
    said = [word.replace("{hunk}", hunk) for word in words]
    ran = shell("--json", *said) if first else shell(*said, "--json")
    assert ran.err == ""
    assert isinstance(ran.data, dict | list)
    assert ran.out.endswith(("}\n", "]\n"))


def test_who_only_looks_makes_no_state_folder(shell: Shell, tmp_path: Path) -> None:
    for words in JSON_COMMANDS:
        if words[0] != "call" or len(words) < 3 or words[2] == "--help":
            shell(*(word.replace("{hunk}", "deadbeef") for word in words))
            assert os.listdir(tmp_path) == ["a.txt"], words


def test_manuals(shell: Shell) -> None:
    for topic in ("index", "principles", "tools", "scenarios", "errors"):
        for lang in ("en", "zh"):
            words = ["manual", "ws_mod", topic, "--lang", lang]
            ran = shell(*words)
            assert ran.status == 0
            assert ran.out.endswith("\n")
            data = shell(*words, "--json").data
            assert data == {"toolset": "ws_mod", "topic": topic, "text": ran.out}


# Hostile names and texts


@pytest.fixture
def hostile(shell: Shell, tmp_path: Path) -> str:
    """A plan and an edit on a file whose name and text would act on a terminal."""
    (tmp_path / HOSTILE).write_text(HOSTILE_TEXT)
    arguments = json.dumps({"path": HOSTILE, "range": "2", "content": "\x9b31m\u202e"})
    done = shell("call", "prepare_file_range_edit", arguments, "--json").data
    assert shell("apply", done["hunk_id"]).status == 0
    hunk_id: str = shell("call", "prepare_file_range_edit", arguments, "--json").data["hunk_id"]
    return hunk_id


HOSTILE_WORDS: list[list[str]] = [
    *(["pending"], ["show", "{hunk}"], ["apply", "{hunk}"], ["discard", "{hunk}"]),
    ["history", "--diff"],
    *(["call", "read_file", json.dumps({"path": path})] for path in (HOSTILE, f"{HOSTILE}x")),
    *(["call", "list_dir", '{"path": "."}'], ["call", "ripgrep_snippets", '{"pattern": "x"}']),
    *(["call", "Read", json.dumps({"path": HOSTILE})], ["call", "read_file", HOSTILE], [HOSTILE]),
    *([command, HOSTILE] for command in ("call", "show", "history", "manual")),
    ["apply", HOSTILE, HOSTILE + "2"],
    *(["schema", option, HOSTILE] for option in ("--toolsets", "--dialect")),
    *([command, "--root", HOSTILE] for command in ("doctor", "pending")),
]


def ascii_of(words: list[str]) -> str:
    return " ".join(words)[:40].encode("ascii", "backslashreplace").decode()


@pytest.mark.parametrize("words", spread(HOSTILE_WORDS, of=2), ids=ascii_of)
@pytest.mark.parametrize("extra", [[], ["--json"]])
def test_hostile_text_is_harmless(
    shell: Shell, hostile: str, words: list[str], extra: list[str]
) -> None:
    ran = shell(*(word.replace("{hunk}", hostile) for word in words), *extra)
    assert not HARMFUL.search(ran.out), ran.out
    assert not HARMFUL.search(ran.err), ran.err
    if extra:
        assert ran.err == ""
        assert ran.data is not None


def test_a_hostile_name_is_one_row_of_a_table(shell: Shell, hostile: str) -> None:
    assert len(shell("pending").out.splitlines()) == 2
    assert len(shell("history").out.splitlines()) == 2


# The process itself


COMMAND = [sys.executable, "-m", "copydesk"]


@pytest.mark.slow
def test_the_reader_may_go_away(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "big.txt").write_text(f"a{33 * ' '}b\n" * 5_000)  # many bytes for few tokens
    words = ["call", "read_file", "--path", "big.txt", "--max-lines", "5000", "--json"]
    # Unbuffered, Python drops the rest of a write that broke off, and says nothing.
    environment = {name: os.environ[name] for name in os.environ if name != "PYTHONUNBUFFERED"}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*COMMAND, *words], cwd=tmp_path, env=environment, stdout=pipe, stderr=pipe
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"{\n"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "line", spread(("pending", "pending --json", "call list_dir --path .", "x --json"), of=3)
)
def test_a_full_disk_is_told(shell: Shell, tmp_path: Path, line: str) -> None:
    words = [*COMMAND, *line.split()]
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run(words, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, check=False)
    assert ran.returncode == 2
    assert ran.stderr.count(b"No space left on device") == 1
    assert b"Traceback" not in ran.stderr
    assert b"None" not in ran.stderr


@pytest.mark.slow
@pytest.mark.parametrize("closed", spread(("<&-", ">&-", "2>&-", "<&- >&- 2>&-"), of=3))
def test_a_closed_stream_is_no_file_of_ours(shell: Shell, tmp_path: Path, closed: str) -> None:
    line = f'"$@" {closed}'
    words = [*COMMAND, "call", "create_new_file", "--path", "b.txt", "--content", "b"]
    ran = subprocess.run(["sh", "-c", line, "sh", *words], cwd=tmp_path, capture_output=True)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert (tmp_path / "b.txt").read_bytes() == b"b\n"
    assert [row["path"] for row in shell("history", "--json").data] == ["b.txt"]
    assert not any(
        b"yaml" in path.read_bytes() for path in (tmp_path / ".copydesk").glob("*.sqlite")
    )


@pytest.mark.slow
@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_colours_on_terminals(shell: Shell, tmp_path: Path, no_color: str, coloured: bool) -> None:
    hunk = plan(shell)
    assert "\x1b" not in shell("show", hunk).out
    leader, follower = pty.openpty()
    environment = {**os.environ, "NO_COLOR": no_color, "TERM": "xterm"}
    words = [*COMMAND, "show", hunk]
    subprocess.run(words, cwd=tmp_path, stdout=follower, env=environment, check=True)
    os.close(follower)
    shown = b""
    while chunk := _read(leader):
        shown += chunk
    os.close(leader)
    assert (b"\x1b[32m+zwei\x1b[0m" in shown) is coloured
    assert (b"\x1b" in shown) is coloured


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, 65_536)
    except OSError:  # the end of a terminal whose other side is closed
        return b""


@pytest.mark.slow
def test_output_is_utf_8_in_any_locale(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "中.txt").write_text("é\n")
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    words, given = [*COMMAND, "call", "read_file", "-"], '{"path": "中.txt"}'.encode()
    options: dict[str, Any] = {"env": environment, "input": given, "check": True}
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, **options)
    assert "1\té" in ran.stdout.decode("utf-8")
