"""Checks before a write: what is new, what that leads to, and commands that misbehave."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, cast

import pytest

from copydesk.app import doctor
from copydesk.app.cli import main
from copydesk.app.config import Config, ConfigError, load
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.desk import gates
from copydesk.desk.gates import Checks, Edited, telling
from copydesk.desk.review import Seen
from copydesk.errors import Cancelled, CheckFinding, cancelled_by
from copydesk.store import checks as checking
from copydesk.store.checks import (
    Commands,
    Diagnostic,
    NotRun,
    Rule,
    Trust,
    may_be_other,
    parses,
    syntax,
)
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot
from support.rows import each_row

GOOD = "def f():\n    return 1\n"
FINDS_BAD = (
    "import sys\n"
    "for number, line in enumerate(sys.stdin, 1):\n"
    "    if 'bad' in line: print(f'{sys.argv[1]}:{number}:1: W1 bad word')\n"
)
"""A linter: each line with `bad` is a finding; it has the path as its argument."""


def linter(*more: str, **fields: Any) -> Rule:
    command = (sys.executable, "-c", FINDS_BAD, "{path}", *more)
    return Rule(**{"glob": "*.txt", "name": "words", "command": command, **fields})


def python(program: str, *words: str, **fields: Any) -> Rule:
    return Rule("*.txt", "own", command=(sys.executable, "-c", program, *words), **fields)


@pytest.fixture(autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The person's configuration is one of the test's own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("home")))


class Desk:
    """A workspace, and calls of its tools."""

    def __init__(self, root: Path, *rules: Rule) -> None:
        self.root = root
        self.opened = open_workspace(
            str(root), Config(durability="fast", checks=rules), shared=False
        )

    def call(self, tool: str, **arguments: object) -> Any:
        return self.opened.call("local", tool, arguments)

    def fields(self, tool: str, **arguments: object) -> dict[str, Any]:
        return dict(self.call(tool, **arguments).data)

    def plan(self, path: str, lines: str, content: str) -> dict[str, Any]:
        return self.fields("prepare_file_range_edit", path=path, range=lines, content=content)

    def apply(self, plan: dict[str, Any], **more: object) -> dict[str, Any]:
        return self.fields("apply_file_modification", hunk_id=plan["hunk_id"], **more)

    def put(self, path: str, text: str) -> None:
        (self.root / path).write_text(text)

    def text(self, path: str) -> str:
        return (self.root / path).read_text()

    def approve(self, hunk_id: object) -> tuple[CheckFinding, ...]:
        """What a person is shown, who approves it then."""
        review, person = self.opened.desk.review, self.opened.member("person")
        shown = review.show(person, str(hunk_id))
        review.approve(person, str(hunk_id), shown.before, shown.after)
        return tuple(shown.checks or ())


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Any]:
    opened: list[OpenWorkspace] = []

    def open_with(*rules: Rule) -> Desk:
        (tmp_path / "a.py").write_text(GOOD)
        made = Desk(tmp_path, *rules)
        opened.append(made.opened)
        return made

    yield open_with
    for each in opened:
        each.close()


@pytest.mark.parametrize(("suffix", "right", "wrong", "line"), [
    (".py", "x = 1\n", "x = 1\ndef f(\n", 2),
    (".json", '{\n"a": 1}\n', '{\n"a": 1,}\n', 2),
    (".toml", "a = 1\nb = 2\n", "a = 1\nb =\n", 2),
    (".toml", "\ufeffa = 1\r\n", "a = [\n", 1),
    (".xml", "<a>\n<b/></a>\n", "<a>\n<b></a>\n", 2),
    (".json", "1" * 10_000, '{\n"a": }\n', 2),
    (".yaml", "a:\n  - b\n", "a: [1\nb: }\n", 2),
])  # fmt: skip
def test_a_broken_text_is_told_by_line(suffix: str, right: str, wrong: str, line: int) -> None:
    if suffix == ".yaml":
        pytest.importorskip("yaml")
    assert [parses(each) for each in (suffix, "", ".txt")] == [True, False, False]
    assert syntax(suffix, right.encode()) is None
    found = syntax(suffix, wrong.encode())
    assert found is not None
    assert (found[0], bool(found[1])) == (line, True)


def test_other_languages_are_parsed_where_their_grammar_is_there() -> None:
    pytest.importorskip("tree_sitter_javascript")
    assert syntax(".js", b"let a = 1;\n") is None
    found = syntax(".js", b"let a = 1;\nlet = = ;\n")
    assert found is not None
    assert found[0] == 2


@pytest.mark.parametrize(("suffix", "text"), [
    (".py", "-" * 100_000 + "1"),
    (".py", "1" + "+1" * 50_000),
    (".json", "[" * 100_000),
    (".toml", "a = " + "[" * 10_000),
    (".toml", "a = '\udcff'"),
    (".toml", "a" + ".a" * 50_000 + " = 1"),
    (".toml", "[a" + ".a" * 1_300 + "]\n" + "b = 1\n" * 3_000),
    (".py", "import a" + ".a" * 30_000),
    (".py", "import a" + ".\\\na" * 30_000),
    (".py", "f'" + "{1}" * 30_000 + "'"),
    (".yaml", "[" * 50_000),
    (".xml", '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'),
])  # fmt: skip
def test_a_text_that_asks_too_much_of_a_parser_is_no_finding(suffix: str, text: str) -> None:
    if suffix == ".yaml":
        pytest.importorskip("yaml")
    try:
        finding = syntax(suffix, text.encode("utf-8", "surrogateescape"))
    except NotRun:
        return
    assert (suffix, finding) == (".py", None)  # a newer Python has room for what is valid


@pytest.mark.slow
def test_a_grammar_is_asked_for_a_while_only() -> None:
    pytest.importorskip("tree_sitter_javascript")
    with pytest.raises(NotRun):
        syntax(".js", b"case a:" * 2_600)


def test_no_line_is_looked_at_from_each_of_its_blanks() -> None:
    assert not may_be_other(".json", b"\n" * 500_000 + b"x")
    assert may_be_other(".json", b"{\n \t// a\n}")
    said = "".join(f"{mark}{' ' * 1_990}x\n" for mark in ("", "-->") * 200)
    assert checking._problems(1, said, {"a.txt": "a.txt"})[0].text == "x"


@pytest.mark.slow
def test_what_is_not_installed_is_told_by_doctor_alone(
    make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "_extra", lambda name: None)
    monkeypatch.setattr(checking, "_grammar", lambda name, language: None)
    desk = make()
    (tmp_path / "a.yaml").write_text("a: 1\n")
    assert "checks" not in desk.apply(desk.plan("a.yaml", "1", "a: [\n"))
    told = [each for each in doctor.examine(str(tmp_path)) if each.what == "checks"]
    assert [each.ok for each in told] == [True]
    assert ".yaml" in told[0].found


def test_a_broken_python_file_is_told_when_it_is_planned(make: Any) -> None:
    desk = make()
    plan = desk.plan("a.py", "1", "def f()\n")
    finding = {"check": "syntax", "mode": "tell", "path": "a.py", "line": 1}
    finding["message"] = "expected ':'"
    assert plan["checks"] == [finding]
    done = desk.call("apply_file_modification", hunk_id=plan["hunk_id"])
    assert done.fields["checks"] == [finding]
    assert "\nsyntax: a.py:1: expected ':'\n" in done.text
    assert desk.text("a.py") == "def f()\n    return 1\n"


def test_with_nothing_new_a_full_answer_says_so_and_a_brief_one_does_not(make: Any) -> None:
    desk = make()
    plan = desk.call("prepare_file_range_edit", path="a.py", range="2", content="    return 2\n")
    assert "\nchecks: []\n" in plan.text
    done = desk.call("apply_file_modification", hunk_id=plan.fields["hunk_id"])
    assert "check" not in done.text
    assert done.fields["checks"] == []
    desk.put("a.txt", "one\n")
    assert "checks" not in desk.plan("a.txt", "1", "two\n"), "there is no check of it"


REFUSING = Rule("*", mode="refuse")
PATCH = (
    "*** Begin Patch\n*** Update File: a.py\n@@\n-def f():\n+def f(:\n     return 1\n*** End Patch"
)
KNOWN = {"known_old_total_lines": 2, "known_old_total_bytes": len(GOOD)}
EDITOR = {"command": "str_replace", "path": "a.py", "old_str": "f():", "new_str": "f(:"}
WAYS: dict[str, dict[str, object]] = {
    "replace_text": {"path": "a.py", "old": "f():", "new": "f(:"},
    "Edit": {"path": "a.py", "old_string": "f():", "new_string": "f(:"},
    "BatchEdit": {"path": "a.py", "edits": [{"old_string": "f():", "new_string": "f(:"}]},
    "overwrite_entire_file": {"path": "a.py", **KNOWN, "content": "def f(:\n"},
    "create_new_file": {"path": "b.py", "content": "def f(:\n"},
    "Write": {"path": "b.py", "content": "def f(:\n"},
    "apply_patch": {"input": PATCH, "apply": "auto"},
    "edit_file": {"path": "a.py", "edits": [{"oldText": "f():", "newText": "f(:"}]},
    "write_file": {"path": "a.py", "content": "def f(:\n"},
    "str_replace_based_edit_tool": {**EDITOR},
}


def test_no_tool_writes_what_a_check_refuses(make: Any) -> None:
    desk = make(REFUSING)
    for tool, arguments in WAYS.items():
        answer = desk.call(tool, **arguments)
        told = repr(answer.data)
        assert "CHECK_FAILED" in told, tool
        assert ".py:1: " in told, tool
        assert desk.text("a.py") == GOOD, tool
        assert not (desk.root / "b.py").exists(), tool
    assert not desk.opened.history("local")


@pytest.mark.parametrize(
    ("tool", "dry"), [("Edit", "dry_run"), ("BatchEdit", "dry_run"), ("edit_file", "dryRun")]
)
def test_a_dry_run_tells_what_it_would_break(make: Any, tool: str, dry: str) -> None:
    answer = make(REFUSING).call(tool, **WAYS[tool], **{dry: True})
    assert "syntax: a.py:1: " in answer.text


def test_every_tool_tells_what_it_broke(make: Any) -> None:
    desk = make()
    for tool, arguments in WAYS.items():
        desk.put("a.py", GOOD)
        (desk.root / "b.py").unlink(missing_ok=True)
        answer = desk.call(tool, **arguments)
        assert not answer.is_error, answer.text
        assert "syntax: " in answer.text or "check: syntax" in answer.text, (tool, answer.text)


def test_a_plan_that_is_refused_waits_on_and_can_be_corrected(make: Any) -> None:
    desk = make(REFUSING)
    plan = desk.plan("a.py", "1", "def f()\n")
    refused = desk.apply(plan)
    assert (refused["error"], refused["checks"][0]["line"]) == ("CHECK_FAILED", 1)
    anew = {"path": "a.py", "range": "1", "content": "def g():\n"}
    again = desk.fields("prepare_file_range_edit", **anew, existing_hunk_id=plan["hunk_id"])
    assert again["checks"] == []
    assert desk.apply(again)["status"] == "ok"


def test_a_file_that_could_not_be_parsed_before_is_not_held_against_an_edit(make: Any) -> None:
    desk = make(REFUSING)
    desk.put("a.py", "def f(:\n    return 1\ndef g(:\n")
    plan = desk.plan("a.py", "1", "def f():\n")  # the next fault was there too
    assert plan["checks"] == []
    assert desk.apply(plan)["status"] == "ok"


def test_equal_texts_of_several_files_are_each_told_by_their_own_name(make: Any) -> None:
    desk = make()
    for name in ("b.py", "c.py"):
        rows = desk.fields("create_new_file", path=name, content="def f()\n")["checks"]
        assert [(row["path"], row["line"]) for row in rows] == [(name, 1)]


def test_an_undo_is_never_refused(make: Any) -> None:
    desk = make(REFUSING)
    desk.put("a.py", "def f(:\n")
    done = desk.apply(desk.plan("a.py", "1", "def f(): 1\n"))
    assert desk.fields("undo_file_modification", edit_id=done["edit_id"])["status"] == "ok"
    assert desk.text("a.py") == "def f(:\n"


def test_a_new_json_file_with_comments_may_be_meant_so(make: Any) -> None:
    desk = make(REFUSING)
    content = '// of a tool\n{"a": 1,}\n'
    assert desk.fields("create_new_file", path="t.json", content=content)["status"] == "ok"
    assert desk.fields("create_new_file", path="u.json", content="{\n")["error"] == "CHECK_FAILED"


def test_what_asks_is_accepted_by_name_or_approved_by_a_person(make: Any) -> None:
    desk = make(Rule("*", mode="ask"))
    plan = desk.plan("a.py", "1", "def f()\n")
    for accept in ([], ["ruff"]):
        asked = desk.apply(plan, accept=accept)
        assert (asked["status"], asked["error"]) == ("pending", "APPROVAL_REQUIRED")
        assert asked["accept"] == ["syntax"]
        assert asked["checks"][0]["line"] == 1
    told = desk.fields("overwrite_entire_file", path="a.py", content="def f()\n", **KNOWN)
    assert (told["error"], "hunk_id" in told) == ("APPROVAL_REQUIRED", False), "no plan waits"
    assert desk.text("a.py") == GOOD
    assert desk.apply(plan, accept=["syntax"])["status"] == "ok"

    desk.put("a.py", GOOD)
    plan = desk.plan("a.py", "1", "def f()\n")
    assert [one.line for one in desk.approve(plan["hunk_id"])] == [1]
    assert desk.apply(plan)["status"] == "ok"


def test_a_person_who_applies_what_asks_has_accepted_it(make: Any) -> None:
    desk = make(Rule("*", mode="ask"))
    plan, opened = desk.plan("a.py", "1", "def f()\n"), desk.opened
    person = opened.member("person")
    shown = opened.desk.review.show(person, plan["hunk_id"])
    opened.desk.review.apply(person, [Seen(plan["hunk_id"], shown.before, shown.after)])
    assert desk.text("a.py").startswith("def f()\n")


def test_an_approval_counts_in_a_transaction_for_the_only_plan_of_a_file(make: Any) -> None:
    """Of two plans of a file nobody was shown the text after both."""
    desk = make(Rule("*", mode="ask"))
    desk.put("b.py", GOOD)

    def approved(*plans: dict[str, Any]) -> list[str]:
        for plan in plans:
            desk.approve(plan["hunk_id"])
        return [str(plan["hunk_id"]) for plan in plans]

    both = desk.plan("a.py", "1", "def f()\n"), desk.plan("a.py", "2", "def g()\n")
    apart = desk.plan("a.py", "1", "def f()\n"), desk.plan("b.py", "1", "def f()\n")
    for ids in (approved(*both), [*approved(apart[0]), apart[1]["hunk_id"]]):
        asked = desk.fields("apply_file_modifications", hunk_ids=ids)
        assert asked["error"] == "APPROVAL_REQUIRED"
    ids = [apart[0]["hunk_id"], *approved(apart[1])]
    assert desk.fields("apply_file_modifications", hunk_ids=ids)["status"] == "ok"


def test_several_plans_are_checked_as_they_are_together(make: Any) -> None:
    """Each alone breaks the file, both together do not; and the other way round."""
    desk = make(REFUSING)
    one = desk.plan("a.py", "1", "def f(\n")
    two = desk.plan("a.py", "2", "): return 1\n")
    assert one["checks"]
    assert two["checks"]
    ids = [one["hunk_id"], two["hunk_id"]]
    assert desk.fields("apply_file_modifications", hunk_ids=ids)["status"] == "ok"

    desk.put("a.py", "x = 0\ny = 0\n")
    desk.put("b.py", GOOD)
    plans = [desk.plan("a.py", "1", "'''\n"), desk.plan("a.py", "2", "'''\n")]
    plans.append(desk.plan("b.py", "1", "def f()\n"))
    ids = [each["hunk_id"] for each in plans]
    refused = desk.fields("apply_file_modifications", hunk_ids=ids)
    assert [row["status"] for row in refused["hunks"]] == ["ok", "ok", "error"]
    assert refused["error"] == "CHECK_FAILED"
    assert desk.text("a.py") == "x = 0\ny = 0\n"


@pytest.mark.slow
def test_findings_that_were_there_are_subtracted_by_text_and_place(make: Any) -> None:
    desk = make(linter())
    desk.put("a.txt", "one\nbad\ntwo\nbad\nthree\n")
    above = desk.plan("a.txt", "1", "zero\nhalf\none\n")
    assert above["checks"] == []
    assert desk.apply(above)["checks"] == []
    one_more = desk.plan("a.txt", "7", "bad\n")
    assert [row["line"] for row in one_more["checks"]] == [7]
    moved = desk.plan("a.txt", "4~5", "two\nbad\n")
    assert moved["checks"] == []
    copied = desk.plan("a.txt", "4~5", "bad\nbad\n")
    assert [row["line"] for row in copied["checks"]] == [5]


def test_many_findings_are_told_in_part(make: Any) -> None:
    desk = make(linter())
    desk.put("a.txt", "one\n")
    rows = desk.plan("a.txt", "1", "bad\n" * 30)["checks"]
    assert (len(rows), rows[-1]["more"]) == (10, 20)


@pytest.mark.slow
def test_bytes_are_checked_once(make: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    ran = tmp_path_factory.mktemp("counted") / "ran"
    count = f"open({str(ran)!r}, 'a').write('x')"
    desk = make(python(count, mode="refuse"))
    desk.put("a.txt", "one\n")
    plan = desk.plan("a.txt", "1", "two\n")
    desk.apply(plan)
    assert ran.read_text() == "x"
    later = desk.plan("a.txt", "1", "three\n")
    desk.put("a.txt", "zero\ntwo\n")  # by another program: other bytes come out
    assert desk.apply(later)["context_match"] == "fuzz"
    assert ran.read_text() == "xxx"


TOGETHER = (
    "import pathlib, sys\n"
    "names = sorted(str(p) for p in pathlib.Path('.').rglob('*.txt'))\n"
    "assert sorted(sys.argv[1:]) == names, (sys.argv, names)\n"
    "print(*(f'{n}:1: of {len(names)} {pathlib.Path(n).read_text().strip()}' for n in names), sep='\\n')\n"
    "pathlib.Path(names[0]).write_text('changed')\n"
)


@pytest.mark.slow
def test_a_command_gets_all_files_of_a_batch_as_copies(make: Any) -> None:
    desk = make(python(TOGETHER, "{files}"))
    plans: list[str] = []
    for name in ("a.txt", "d/b.txt"):
        desk.call("create_new_file", path=name, content="one\n")
        plans.append(desk.plan(name, "1", "two\n")["hunk_id"])
    done = desk.fields("apply_file_modifications", hunk_ids=plans)
    said = [(row["path"], row["message"]) for row in done["checks"]]
    assert said == [("a.txt", "of 2 two"), ("d/b.txt", "of 2 two")]
    assert desk.text("a.txt") == "two\n", "it has changed its copy alone"


def run(rule: Rule, text: str = "one\n", path: str = "a.txt") -> list[Diagnostic]:
    return Commands("/", lambda rule: True).run(rule, {path: text.encode()})


@pytest.mark.parametrize(("printed", "status", "found"), [
    ("a.txt:3:5: E1 wrong", 1, [(3, "E1 wrong")]),
    ("<stdin>:3: wrong", 0, [(3, "wrong")]),
    ("a.txt(3,5): error TS1: wrong", 2, [(3, "error TS1: wrong")]),
    ("F401 unused\n --> a.txt:3:5\n  |", 1, [(3, "F401 unused")]),
    ("<standard input>", 0, [(0, "is listed")]),
    ("\x1b[1ma.txt:3\x1b[0m: wrong", 1, [(3, "wrong")]),
    ("All is well at 12:30: yes", 0, []),
    ("something is wrong", 1, [(0, "something is wrong")]),
])  # fmt: skip
def test_all_forms_of_findings(printed: str, status: int, found: list[tuple[int, str]]) -> None:
    rule = python(f"print({printed!r}); raise SystemExit({status})", "{path}")
    assert [(one.line, one.text) for one in run(rule)] == found


@pytest.mark.parametrize(("program", "reason"), [
    ("raise SystemExit(2)", "failed"),
    ("import os; os.abort()", "died"),
    ("while True: print('x' * 10_000)", "output"),
    ("import time; time.sleep(60)", "timeout"),
    ("import os, time; os.close(1); os.close(2); time.sleep(60)", "timeout"),
])  # fmt: skip
@pytest.mark.slow
def test_a_command_that_misbehaves_is_no_refusal(make: Any, program: str, reason: str) -> None:
    desk = make(python(program, mode="refuse", seconds=1))
    desk.put("a.txt", "one\n")
    plan = desk.plan("a.txt", "1", "two\n")
    assert [(row["not_run"], row["mode"]) for row in plan["checks"]] == [(reason, "tell")]
    assert desk.apply(plan)["status"] == "ok"


def test_a_command_that_is_required_refuses_when_it_cannot_run(make: Any) -> None:
    missing = Rule("*.txt", "lint", "refuse", ("no-such-program",), required=True)
    desk = make(missing)
    desk.put("a.txt", "one\n")
    refused = desk.apply(desk.plan("a.txt", "1", "two\n"))
    assert (refused["error"], refused["checks"][0]["not_run"]) == ("CHECK_FAILED", "missing")


@pytest.mark.slow
def test_what_a_command_has_started_ends_with_it(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))\n"
    )
    (tmp_path / "start.py").write_text(program)
    rule = Rule("*.txt", "own", command=(sys.executable, str(tmp_path / "start.py")))
    assert run(rule) == []
    pid = int((tmp_path / "pid").read_text())
    for _ in range(500):  # it was killed; whoever inherited it reaps it
        state = Path(f"/proc/{pid}/stat")
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.01)
    pytest.fail("it is still there")


def test_a_call_that_is_cancelled_does_not_wait_for_a_command() -> None:
    with cancelled_by(lambda: True), pytest.raises(Cancelled):
        run(python("import time; time.sleep(60)"))


def test_a_command_sees_no_secrets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COPYDESK_REDIS_URL", "redis://secret")
    program = "import os, sys; print(f'a.txt:1: {os.listdir()} {sorted(os.environ)}')"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ast.py").write_text("raise SystemExit(7)")
    (said,) = run(python(program))
    assert said.text.startswith("[] [")
    assert "COPYDESK" not in said.text


@pytest.mark.slow
def test_a_path_is_an_argument_and_never_an_option_or_a_shell_word() -> None:
    program = "import sys; print(f'{sys.argv[1]}:1: {sys.argv[1:]}')"
    for path in ("-rf", "@args", "$(touch x) ; {root}", "a b.txt", ".a", "\u4e2d"):
        (said,) = run(python(program, "{path}"), path=path)
        assert said.path == path
        assert said.text == repr([f"./{path}" if path[0] in "-@$" else path])


def test_nothing_beside_the_copies_is_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lint").write_text("#!/bin/sh\n")
    (tmp_path / "lint").chmod(0o755)
    monkeypatch.setenv("PATH", f".:{os.defpath}")
    with pytest.raises(NotRun) as refused:
        run(Rule("*", "own", command=("lint", "{files}")))
    assert refused.value.reason == "missing"


@pytest.mark.slow
def test_no_module_is_imported_from_the_copies() -> None:
    program = "import importlib.util as i\nif i.find_spec('evil'): print('evil.py:1: found')"
    assert run(python(program, "{files}"), path="evil.py") == []


@pytest.mark.slow
def test_a_linter_of_others_is_understood(make: Any) -> None:
    ruff = Path(sys.executable).with_name("ruff")
    command = (str(ruff), "check", "--isolated", "--no-cache", "--stdin-filename", "{path}", "-")
    desk = make(Rule("*.py", "ruff", "refuse", command))
    desk.put("a.py", f"import sys\n{GOOD}")  # an unused import is there before
    plan = desk.plan("a.py", "3", "    return one\n")
    assert [(row["line"], row["message"][:4]) for row in plan["checks"]] == [(3, "F821")]
    assert desk.apply(plan)["error"] == "CHECK_FAILED"
    assert desk.plan("a.py", "3", "    return 2\n")["checks"] == []


CONFIGURED = """\
[checks]
"*.py" = { mode = "refuse" }
"src/*.txt" = ["cat {path}", { name = "both", command = ["tool", "{files}"], mode = "ask", seconds = 3 }]
"*.toml" = { name = "syntax" }
"""


def test_checks_are_configured_by_globs(tmp_path: Path) -> None:
    (tmp_path / "copydesk.toml").write_text(CONFIGURED)
    assert load(str(tmp_path), {}).checks == (
        Rule("*.py", mode="refuse"),
        Rule("src/*.txt", "cat", command=("cat", "{path}")),
        Rule("src/*.txt", "both", "ask", ("tool", "{files}"), seconds=3),
        Rule("*.toml"),
    )


@each_row("value told", [
    ('{ mode = "maybe" }', "mode"),
    ('{ comand = "x" }', "comand"),
    ('{ command = "" }', "command"),
    ('{ command = "\'" }', "command"),
    ('{ name = "ruff" }', "needs a command"),
    ('{ name = "syntax", command = "x" }', "needs a command"),
    ('"x a{files}"', "{files}"),
    ("7", "command"),
])  # fmt: skip
def test_a_check_that_is_configured_wrong_is_named(tmp_path: Path, value: str, told: str) -> None:
    (tmp_path / "copydesk.toml").write_text(f'[checks]\n"*.py" = {value}\n')
    with pytest.raises(ConfigError) as refused:
        load(str(tmp_path), {})
    assert told in str(refused.value)
    assert "*.py" in str(refused.value)


def test_off_is_off(make: Any) -> None:
    desk = make(REFUSING, Rule("a.py", mode="off"))
    assert "checks" not in desk.plan("a.py", "1", "def f()\n")


def configured(root: Path, mark: Path) -> None:
    """A workspace whose configuration names a command, as one from anywhere may."""
    (root / "a.txt").write_text("one\n")
    (root / "copydesk.toml").write_text(f'[checks]\n"*.txt" = ["touch {mark}"]\n')


def planned(root: Path) -> list[str]:
    """Why no check ran when an edit was planned."""
    with open_workspace(str(root), shared=False) as opened:
        arguments = {"path": "a.txt", "range": "1", "content": "two\n"}
        rows = opened.call("local", "prepare_file_range_edit", arguments).data.get("checks")
    return [str(row["not_run"]) for row in rows] if isinstance(rows, list) else []


@pytest.mark.slow
def test_a_clone_runs_nothing_unasked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root, mark = tmp_path / "clone", tmp_path / "ran"
    root.mkdir()
    configured(root, mark)
    assert planned(root) == ["untrusted"]
    assert main(["--root", str(root), "trust"]) == 1, "nobody said yes"
    assert f"touch {mark}" in capsys.readouterr().out
    assert planned(root) == ["untrusted"]
    assert [one.ok for one in doctor.examine(str(root)) if one.what == "trust"] == [False]
    assert not mark.exists()

    assert main(["--root", str(root), "trust", "--yes"]) == 0
    assert planned(root) == []
    assert mark.exists()
    assert [one.ok for one in doctor.examine(str(root)) if one.what == "trust"] == [True]

    configured(root, tmp_path / "other")  # the command is another one now
    assert planned(root) == ["untrusted"]
    configured(root, mark)
    assert planned(root) == []
    assert main(["--root", str(root), "trust", "--revoke"]) == 0
    assert planned(root) == ["untrusted"]


def test_a_program_of_the_workspace_that_was_changed_is_not_allowed(tmp_path: Path) -> None:
    """Agents may write it; settings may change for tools whose settings name no program."""
    root = tmp_path / "root"
    tool, script = root / "bin" / "tool", root / "tools" / "lint.py"
    script.parent.mkdir(parents=True)
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    rules = [
        Rule("*", "a", command=("{root}/bin/tool",)),
        Rule("*", "b", command=("lint", f"--rules={script}", "--set={root}/set/set.toml")),
    ]
    trust = Trust(str(root), rules)
    for changed in (tool, script):
        trust.give()
        assert trust.is_given()
        changed.write_text("#!/bin/sh\nrm -rf ~\n")
        assert not trust.is_given()
    trust.give()
    (root / "set").mkdir()
    (root / "set" / "set.toml").write_text("a = 1\n")
    assert not trust.is_given(), "they may be of a linter that loads what they name"
    ruff = Trust(str(root), [Rule("*", "ruff", command=("ruff", "--config={root}/set.toml"))])
    ruff.give()
    (root / "set.toml").write_text("a = 2\n")
    assert ruff.is_given()
    link = tmp_path / "link"
    link.symlink_to(tool)
    linked = Trust(str(root), [Rule("*", "a", command=(str(link),))])
    linked.give()
    tool.write_text("#!/bin/sh\n")
    assert not linked.is_given()


def test_trust_others_may_write_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "clone"
    root.mkdir()
    configured(root, tmp_path / "ran")
    trust = Trust(str(root), load(str(root), {}).checks)
    trust.give()
    assert trust.is_given()
    os.chmod(trust.path, 0o666)
    assert not trust.is_given()
    os.chmod(trust.path, 0o600)
    Path(trust.path).write_text("[" * 100_000)
    assert not trust.is_given()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(root / "d"))
    inside = Trust(str(root), load(str(root), {}).checks)
    inside.give()
    assert not inside.is_given(), "agents may write there"
    assert main(["--root", str(root), "trust", "--yes"]) == 2


@pytest.mark.slow
def test_findings_in_the_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.py").write_text(GOOD)
    (tmp_path / "copydesk.toml").write_text('[checks]\n"*" = { mode = "ask" }\n')
    edit = ["--path", "a.py", "--range", "1", "--content", "def f()"]
    shell = ["--root", str(tmp_path)]
    assert main([*shell, "call", "prepare_file_range_edit", *edit]) == 0
    with open_workspace(str(tmp_path)) as opened:
        (plan,) = opened.pending("local")
    capsys.readouterr()
    assert main([*shell, "show", plan.id]) == 0
    assert "syntax: a.py:1: expected ':'" in capsys.readouterr().out
    assert main([*shell, "apply", plan.id]) == 1
    assert main([*shell, "apply", "--accept", "syntax", plan.id]) == 0


def test_what_the_system_refused_is_tried_again(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = make(linter(mode="refuse", required=True))
    desk.put("a.txt", "one\n")

    def full(*arguments: object, **fields: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(checking.tempfile, "TemporaryDirectory", full)
        plan = desk.plan("a.txt", "1", "two\n")
        assert plan["checks"][0]["not_run"] == "failed"
    monkeypatch.setattr(Commands, "_run", lambda *arguments: [])
    assert desk.apply(plan)["status"] == "ok"


class Words:
    """A linter in this process: a finding for each line with `bad`, and one for the whole file."""

    def __init__(self) -> None:
        self.ran: list[dict[str, bytes]] = []
        self.fails: NotRun | None = None

    def run(self, rule: Rule, texts: dict[str, bytes]) -> list[Diagnostic]:
        self.ran.append(texts)
        if self.fails:
            raise self.fails
        found: list[Diagnostic] = []
        for path, text in texts.items():
            lines = text.decode().splitlines()
            rows = [number for number, line in enumerate(lines, 1) if "bad" in line]
            found += [Diagnostic(path, row, f"bad at line {row}") for row in rows]
            if "all" in lines:
                found.append(Diagnostic(path, 0, f"more at line {len(lines)}"))
        return found


WORDS = Rule("*.txt", "words", command=("words",))


def edited(
    before: str, *edits: tuple[int, int, str], name: str = "a.txt", created: bool = False
) -> Edited:
    base = Snapshot.of(before.encode())
    made = [Edit(start, stop, new.encode()) for start, stop, new in edits]
    change = ChangeSet.of(base.size, made)
    path = RelPath.parse(name)
    return Edited(path, path, base, change, created, lambda: base.edited(change))


def checks_of(*rules: Rule) -> tuple[Checks, Words]:
    words = Words()
    return Checks(rules, cast(Commands, words)), words


def lines_of(found: tuple[CheckFinding, ...] | None) -> list[int | None]:
    assert found is not None
    return [one.line for one in found]


def _of_segments(kept: list[list[str]], changes: list[tuple[list[str], list[str]]]) -> Edited:
    """The first lines that are kept, a change, the next that are kept, and so on."""
    text, edits = "", []
    for lines, (old, new) in zip(kept, [*changes, ([], [])], strict=True):
        text += "".join(f"{line}\n" for line in lines)
        before = "".join(f"old {line}\n" for line in old)
        after = "".join(f"new {line}\n" for line in new)
        if before or after:
            edits.append((len(text), len(text + before), after))
        text += before
    return edited(text, *edits)


def test_a_finding_of_lines_that_stay_is_never_new_and_of_others_only_what_is_more() -> None:
    checks, _ = checks_of(WORDS)
    olds: list[list[str]] = [[], ["bad"], ["ok", "bad"]]
    news: list[list[str]] = [[], ["bad"], ["ok", "bad", "bad"], ["bad", "ok"]]
    ways = [(old, new) for old, new in product(olds, news) if old or new]
    for one, other, between in product(ways, ways, [["bad"], ["all", "bad", "ok"]]):
        kept = [["ok", "bad"], between, ["bad", "end"]]
        at, added = 0, []
        for lines, (_, new) in zip(kept, [one, other], strict=False):
            at += len(lines)
            added += [at + row for row, line in enumerate(new, 1) if line == "bad"]
            at += len(new)
        there = sum(old.count("bad") for old, _ in (one, other))
        found = checks.judge(_of_segments(kept, [one, other]))
        assert lines_of(found) == added[there:], (one, other, between)


def test_every_finding_in_a_new_file_is_new_and_one_of_no_line_only_where_it_was_not() -> None:
    checks, _ = checks_of(WORDS)
    new = edited("", (0, 0, "bad\nall\nbad\n"), created=True)
    assert lines_of(checks.judge(new)) == [1, 3, None]
    whole = edited("all\nbad\n", (0, 0, "one\n"))
    assert lines_of(checks.judge(whole)) == []
    assert lines_of(checks.judge(edited("one\n", (0, 0, "all\n")))) == [None]


def test_the_last_finding_that_is_told_says_how_many_are_not() -> None:
    checks, _ = checks_of(WORDS)
    for count in (10, 11, 12):
        found = checks.judge(edited("", (0, 0, "bad\n" * count), created=True))
        assert found is not None
        told = [(one.line, one.more) for one in found]
        assert told == [*((at, None) for at in range(1, 10)), (10, count - 10 or None)]


def test_a_check_runs_once_for_equal_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gates, "_MOST_KEPT", 2)
    checks, words = checks_of(WORDS)
    ran: list[int] = []
    for name in "abacabc":
        words.ran.clear()
        checks.judge(edited("", (0, 0, f"{name}\n"), created=True))
        ran.append(len(words.ran))
    assert ran == [1, 1, 0, 1, 0, 1, 1]


def test_a_check_that_passes_is_tried_again_and_another_is_not() -> None:
    checks, words = checks_of(WORDS)
    for passes, runs in [(True, 2), (False, 1)]:
        words.fails, words.ran = NotRun("failed", "why", passes=passes), []
        for _ in range(2):
            found = checks.judge(edited("", (0, 0, f"{passes}\n"), created=True))
            assert found == (CheckFinding("words", "tell", "a.txt", "why", not_run="failed"),)
        assert len(words.ran) == runs


@each_row("suffix required told", [
    (".json", False, None),
    (".json", True, ("syntax", "refuse", "large")),
    (".txt", False, ("words", "tell", "large")),
    (".txt", True, ("words", "refuse", "large")),
])  # fmt: skip
def test_a_text_above_the_limit_is_not_checked_and_told_where_the_check_asks_for_it(
    suffix: str, required: bool, told: tuple[str, str, str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gates, "MOST_BYTES", 6)
    rules = [
        Rule("*.json", mode="refuse", required=required),
        Rule("*.txt", "words", "refuse", ("words",), required),
    ]
    checks, _ = checks_of(*rules)
    for before, edit in [("[1,2]\n", (5, 6, "")), ("[1]\n", (1, 1, "0,"))]:
        judged = checks.judge(edited(before, edit, name=f"a{suffix}"))
        assert judged == (), "of the limit's size before or after"
    for before, edit in [("[1,2] \n", (5, 7, "")), ("[1]\n", (1, 1, "0, "))]:
        judged = checks.judge(edited(before, edit, name=f"a{suffix}"))
        found = [(one.check, one.mode, one.not_run) for one in judged or ()]
        assert found == ([told] if told else [])
        assert (judged is None) is (told is None)


def test_comments_in_a_json_file_that_had_none_are_told() -> None:
    checks, _ = checks_of()
    assert lines_of(checks.judge(edited("{}\n", (0, 0, "// a\n"), name="a.json"))) == [1]
    assert lines_of(checks.judge(edited("", (0, 0, "// a\n{}"), name="a.json", created=True))) == []


def test_a_rule_is_of_its_files_and_a_mode_of_the_syntax_is_no_parser() -> None:
    checks, _ = checks_of(WORDS, Rule("*", required=True), Rule("b.*", "words", "off"))
    for name, found in [("a.txt", [1]), ("b.txt", None), ("a.log", None), ("a.json", [1])]:
        judged = checks.judge(edited("", (0, 0, "bad\n"), name=name, created=True))
        assert judged is None if found is None else lines_of(judged) == found, name


def test_what_was_found_belongs_to_the_call_in_which_it_was() -> None:
    checks, _ = checks_of(WORDS)
    with telling() as outer:
        with telling() as inner:
            checks.judge(edited("", (0, 0, "bad\n"), created=True))
        checks.judge(edited("", (0, 0, "one\n"), name="b.txt", created=True))
    checks.judge(edited("", (0, 0, "one\n"), name="c.txt", created=True))
    found = [{str(path): len(told) for path, told in each.items()} for each in (outer, inner)]
    assert found == [{"b.txt": 0}, {"a.txt": 1}]


def test_what_changes_no_text_is_not_checked(make: Any) -> None:
    desk = make()
    for tool, more, is_checked in (
        ("prepare_file_range_edit", {"range": "1", "content": "def g():\n"}, True),
        ("prepare_file_range_edit", {"range": "1", "content": "def f():\n"}, False),
        ("prepare_file_delete", {}, False),
        ("prepare_file_move", {"to": "b.py"}, False),
    ):
        answer = desk.fields(tool, path="a.py", **more)
        assert (answer["status"], "checks" in answer) == ("ok", is_checked), more


def test_a_file_that_goes_or_moves_is_not_checked_when_it_does(make: Any) -> None:
    """Nothing is no JSON."""
    desk = make(REFUSING)
    for tool, more in (("prepare_file_delete", {}), ("prepare_file_move", {"to": "b.json"})):
        desk.put("a.json", "{}\n")
        answer = desk.apply(desk.fields(tool, path="a.json", **more))
        assert (answer["status"], "checks" in answer) == ("ok", False)
        assert not (desk.root / "a.json").exists()
