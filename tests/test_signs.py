"""Faults in a new text: each sign of the table is told and not written unasked, by every tool."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.edit.kinds.correction import SIGNS, signs_of
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot
from support.desks import FAST, Setup, call
from support.rows import each_row

CODE = "".join(f"    step_{number}()\n" for number in range(1, 9))
TEXT = f"def run():\n{CODE}\n\ndef other():\n    return 2\n"
OLD = "".join(f"    step_{number}()\n" for number in range(2, 8))

BAD: dict[str, tuple[str, str]] = {
    "our numbers": ("   3|     step_2()\n   4|     changed()\n", "line_numbers"),
    "one number": ("   3|     changed()\n", "line_numbers"),
    "numbers and a tab": ("3\t    step_2()\n4\t    changed()\n", "line_numbers"),
    "numbers and a colon": ("3:     step_2()\n4:     changed()\n", "line_numbers"),
    "one number and a tab": ("3\t    changed()\n", "line_numbers"),
    "one number and a colon": ("3:     changed()\n", "line_numbers"),
    "another number and a tab": ("7\t    changed()\n", ""),
    "a number above other lines": ("3\t    changed()\n    more()\n", ""),
    "an arrow": ("     3\u2192    step_2()\n     4\u2192    changed()\n", "line_numbers"),
    "three dots": ("    changed()\n    ...\n", "placeholder"),
    "an ellipsis": ("    changed()\n    \u2026\n", "placeholder"),
    "dots in a comment": ("    changed()\n    # ...\n", "placeholder"),
    "existing code": ("    changed()\n    # existing code\n", "placeholder"),
    "dots and words": ("    changed()\n    # ... existing code ...\n", "placeholder"),
    "the rest": ("    changed()\n    # ... rest of file unchanged ...\n", "placeholder"),
    "rest of the function": ("    changed()\n    # rest of the function\n", "placeholder"),
    "remains": ("    changed()\n    # (the rest remains the same)\n", "placeholder"),
    "in brackets": ("    changed()\n    [... existing code ...]\n", "placeholder"),
    "in parentheses": ("    changed()\n    (rest of methods ...)\n", "placeholder"),
    "unchanged": ("    changed()\n    # unchanged code\n", "placeholder"),
    "a comment in parentheses": ("    changed()\n    # (see the rest)\n", ""),
    "the same": ("    changed()\n    # Rest of the code stays the same...\n", "placeholder"),
    "Chinese": ("    changed()\n    # 其余代码保持不变\n", "placeholder"),
    "Chinese dots": ("    changed()\n    # ... 省略 ...\n", "placeholder"),
    "Chinese between dots": ("    changed()\n    # ... 其余代码不变 ...\n", "placeholder"),
    "others in Chinese": ("    changed()\n    # 省略其它代码\n", "placeholder"),
    "traditional Chinese": ("    changed()\n    # 其餘程式碼不變\n", "placeholder"),
    "below in Chinese": ("    changed()\n    # 以下代码不变\n", "placeholder"),
    "the rest of a page": ("    changed()\n    <!-- rest of the page -->\n", "placeholder"),
    "within dashes": ("    changed()\n    # --- existing code ---\n", "placeholder"),
    "lines by number": ("    changed()\n    # ... lines 3-7 unchanged ...\n", "placeholder"),
    "for brevity": ("    changed()\n    # omitted for brevity\n", "placeholder"),
    "dots and words without a mark": ("    changed()\n    ...existing code...\n", "placeholder"),
    "the rest without a mark": ("    changed()\n    ...rest of the file\n", "placeholder"),
    "words and dots in place of as many": (OLD + "    # ... rest of the function ...\n", "placeholder"),
    "words alone in place of as many": (OLD + "    # existing code\n", ""),
    "a block": ("<<<<<<< SEARCH\n    step_2()\n=======\n    changed()\n>>>>>>> REPLACE\n", "markers"),
    "a conflict": ("<<<<<<< HEAD\n    step_2()\n=======\n    changed()\n>>>>>>> x\n", "markers"),
    "Cline's": ("------- SEARCH\n    step_2()\n=======\n    x()\n+++++++ REPLACE\n", "markers"),
    "Roo's": ("    :start_line:3\n    changed()\n", "markers"),
    "a patch": ("*** Begin Patch\n    step_2()\n*** End Patch\n", "markers"),
    "a fence": ("```python\n    step_2()\n    changed()\n```\n", "fence"),
    "a bare fence": ("```\n    changed()\n```\n", "fence"),
}  # fmt: skip
GOOD: dict[str, tuple[str, str, str]] = {
    "a stub": ("a.py", "def f():\n    a()\n    b()\n    c()\n", "def f():\n    ...\n"),
    "a stub with docs": ("a.pyi", 'def f():\n    """D."""\n    a()\n    b()\n    c()\n', 'def f():\n    """D."""\n    ...\n'),
    "as many lines": ("a.js", "a\nb\n", "b\n...\n"),
    "a word of a list": ("a.json", "[\n]\n", '[\n  "a",\n  "unchanged"\n]\n'),
    "a Chinese word of a list": ("a.json", "[\n]\n", '[\n  "a",\n  "保持不变"\n]\n'),
    "a heading of its own": ("a.md", "a\n", "## Unchanged\n\n* unchanged\n"),
    "a word alone": ("a.py", "a\n", "# unchanged\n"),
    "names that are spread": ("a.js", "a\nb\nc\nd\n", "f({\n  ...other\n})\n"),
    "dots that were there": ("a.txt", "a\n...\nb\nc\nd\n", "...\nc\n"),
    "a table of columns": ("a.md", "", "1 | a\n2 | b\n3 | c\n"),
    "a table": ("a.tsv", "", "1\ta\n2\tb\n3\tc\n"),
    "one line of a table": ("a.py", "", "1\ta\n"),
    "numbers alone": ("a.py", "", "1\n2\n3\n"),
    "an outline": ("a.py", "", "1\ta\n1\tb\n2\tc\n"),
    "a row with its number": ("a.py", "1\ta\n2\tb\n3\tc\n", "1\ta\n2\tb\n3\td\n"),
    "a fence in Markdown": ("a.md", "a\n", "```\nb\n```\n"),
    "a fence in text": ("README", "a\n", "```\nb\n```\n"),
    "numbers beside numbers": ("a.tsv", "1\ta\n2\tb\n", "1\ta\n2\tb\n3\tc\n4\td\n"),
    "keys": ("a.yml", "codes:\n", "codes:\n  1: a\n  2: b\n"),
    "the end of a document": ("a.yaml", "a: 1\nb: 2\nc: 3\n", "a: 1\n...\n"),
    "a comment of its own": ("a.py", "a()\nb()\nc()\n", "# The rest of the arguments are for the child.\na()\n"),
    "a patch file": ("a.diff", "x\n", "<<<<<<< HEAD\n"),
    "a heading": ("a.rst", "x\n", "Title\n=======\n"),
    "numbers of empty lines": ("a.rs", 'a("\n1\n2\n");\n', 'a("\n1:\n2:\n");\n'),
    "spread": ("a.js", "a(\nb,\nc,\nd)\n", "a(...b)\n"),
}  # fmt: skip

DESK = Setup(FAST, {"a.py": TEXT, "big.py": TEXT * 40})


def seen(path: str, before: str, after: str, usual: tuple[str, ...] = ()) -> set[str]:
    """The names of the signs that a change of a whole file shows."""
    base = Snapshot.of(before.encode())
    change = ChangeSet.of(base.size, [Edit(0, base.size, after.encode())])
    said = signs_of(RelPath.parse(path), base, change, usual)
    return {one.name for one in SIGNS for words in said if words.startswith(one.words[:-2])}


@each_row("name", BAD)
def test_a_fault_in_the_new_text_is_known(name: str) -> None:
    new, sign = BAD[name]
    wanted = {sign} - {""}
    assert seen("a.py", TEXT, TEXT.replace(OLD, new)) == wanted
    assert seen("a.go", TEXT, TEXT.replace(OLD, new)) == wanted
    assert seen("a.py", TEXT, TEXT.replace(OLD, new), (sign,)) == set()


@each_row("path before after", GOOD.values())
def test_what_a_file_may_have_is_no_sign(path: str, before: str, after: str) -> None:
    assert seen(path, before, after) == set()


KNOWN = {"known_old_total_lines": TEXT.count("\n"), "known_old_total_bytes": len(TEXT)}
EDITS: dict[str, dict[str, Any]] = {
    "replace_text": {"old": OLD, "new": "{}"},
    "prepare_file_range_edit": {"range": "3~8", "content": "{}", "expected_old": OLD},
    "apply_blocks": {"text": f"a.py\n<<<<<<< SEARCH\n{OLD}=======\n{{}}>>>>>>> REPLACE\n"},
    "Edit": {"old_string": OLD, "new_string": "{}"},
    "BatchEdit": {"edits": [{"old_string": OLD, "new_string": "{}"}]},
    "str_replace_based_edit_tool": {"command": "str_replace", "old_str": OLD, "new_str": "{}"},
    "edit_file": {"edits": [{"oldText": OLD, "newText": "{}"}]},
    "Write": {"overwrite": True, "content": "{whole}", "expected_size_bytes": len(TEXT)},
    "write_file": {"content": "{whole}"},
    "overwrite_entire_file": {"content": "{whole}", **KNOWN},
}


def filled(value: Any, new: str) -> Any:
    if isinstance(value, dict):
        return {key: filled(each, new) for key, each in value.items()}  # pyright: ignore
    if isinstance(value, list):
        return [filled(each, new) for each in value]  # pyright: ignore
    if isinstance(value, str):
        return value.replace("{whole}", TEXT.replace(OLD, new)).replace("{}", new)
    return value


def given(tool: str, new: str, path: str = "a.py") -> dict[str, Any]:
    arguments = filled(EDITS[tool], new)
    return arguments if tool == "apply_blocks" else {"path": path, **arguments}


def hunk_ids(facts: dict[str, Any]) -> list[str]:
    """The plans of an answer, in any of its forms."""
    own = facts.get("hunk_id") or facts.get("data", {}).get("hunk_id")
    return [own] if own else [one["hunk_id"] for one in facts.get("hunks", [])]


AUTO = ("replace_text", "prepare_file_range_edit", "apply_blocks")


def accepting(tool: str, hunk_id: str) -> tuple[str, dict[str, Any]]:
    """The call that writes a plan of a tool, by a tool of its own toolset."""
    if tool == "apply_blocks":
        return "apply_file_modifications", {"hunk_ids": [hunk_id]}
    return "apply_file_modification", {"hunk_id": hunk_id}


@each_row("kind", ["our numbers", "the rest", "a conflict", "a fence"])
@pytest.mark.parametrize("tool", EDITS)
def test_no_tool_writes_a_fault_unasked(desk: OpenWorkspace, tool: str, kind: str) -> None:
    DESK.lay_files(Path(desk.root))
    new = BAD[kind][0]
    if tool == "apply_blocks" and kind == "a conflict":
        new = new.replace("=======\n", "")
    options = {"apply": "auto"} if tool in AUTO else {}
    answer = desk.call("local", tool, {**given(tool, new), **options})
    file = Path(desk.root, "a.py")
    assert file.read_text() == TEXT
    words = next(one.words for one in SIGNS if one.name == BAD[kind][1])[:-4]
    assert words in answer.text + str(dict(answer.data)), answer.text
    (hunk_id,) = hunk_ids(dict(answer.data))
    told = desk.call("local", *accepting(tool, hunk_id))
    assert not told.is_error, told.text
    assert file.read_text() == TEXT.replace(OLD, new)


def test_a_plan_warns_and_is_written_when_it_is_applied(desk: OpenWorkspace) -> None:
    new = BAD["the rest"][0]
    arguments = {**given("replace_text", new), "apply": "never"}
    plan = call(desk, "replace_text", **arguments)
    where = "the new text has a placeholder where lines would be removed"
    wanted = f"{where}: # ... rest of file unchanged"
    assert [one[: len(wanted)] for one in plan["warnings"]] == [wanted]
    told = desk.call("local", "replace_text", arguments, lang="zh")
    assert "新文本中有一行代替了将被删去的若干行" in told.text
    blocks = call(desk, "apply_blocks", **given("apply_blocks", new), apply="never")
    assert blocks["hunks"][0]["warnings"][0].startswith(wanted)
    dry = call(desk, "Edit", **given("Edit", new), dry_run=True)
    assert dry["data"]["warnings"][0].startswith(wanted)
    assert call(desk, "apply_file_modification", hunk_id=plan["hunk_id"])["changed"]


def test_the_same_call_has_the_same_plan(desk: OpenWorkspace) -> None:
    new = BAD["a fence"][0]
    ids = {call(desk, "Edit", **given("Edit", new))["data"]["hunk_id"] for _ in range(3)}
    assert len(ids) == 1


def test_each_part_may_have_its_fence() -> None:
    before, one = "a\nb\nc\n", "```py\nx\n```\nb\n"
    assert seen("a.py", before, f"{one}```\ny\n```\n") == {"fence"}
    assert seen("a.py", before, f"{one}y\n") == set()


@pytest.mark.parametrize("tool", ["create_new_file", "Write", "write_file"])
def test_a_new_file_is_not_written_with_a_fence_around_it(desk: OpenWorkspace, tool: str) -> None:
    not_written(desk, tool, "```python\nprint(1)\n```\n", "new.md")


@pytest.mark.parametrize("tool", ["create_new_file", "Write", "write_file"])
def test_a_new_file_is_not_written_with_the_numbers_of_a_reading(
    desk: OpenWorkspace, tool: str
) -> None:
    not_written(desk, tool, "1\timport os\n2\t\n3\tprint(1)\nmore()\n", "new.tsv")


def not_written(desk: OpenWorkspace, tool: str, content: str, other: str) -> None:
    """A new file is planned; one with another name may have such a text."""
    answer = desk.call("local", tool, {"path": "new.py", "content": content})
    assert not Path(desk.root, "new.py").exists()
    (hunk_id,) = hunk_ids(dict(answer.data))
    assert call(desk, "apply_file_modification", hunk_id=hunk_id)["status"] == "ok"
    assert Path(desk.root, "new.py").read_text() == content
    assert not desk.call("local", tool, {"path": other, "content": content}).is_error


def test_a_setting_names_the_signs_that_do_not_count(tmp_path: Path) -> None:
    DESK.lay_files(tmp_path)
    with open_workspace(str(tmp_path), replace(FAST, usual_signs=("fence",))) as desk:
        assert call(desk, "Edit", **given("Edit", BAD["a fence"][0]))["status"] == "success"
        more = {"old_string": "return 2", "new_string": "   9| return 3"}
        numbered = call(desk, "Edit", path="a.py", **more)
        assert numbered["error"]["code"] == "SUSPICIOUS_TEXT"


def by_number(desk: OpenWorkspace, lines: str, content: str, **more: object) -> dict[str, Any]:
    version = call(desk, "read_file", path="a.py")["version"]
    asked = {"range": lines, "content": content, "apply": "auto", "version": version}
    return call(desk, "prepare_file_range_edit", path="a.py", **{**asked, **more})


@pytest.mark.parametrize(
    ("lines", "content"),
    [
        ("3~4", "    step_1()\n    changed()\n"),
        ("3~4", "    changed()\n    step_4()\n"),
        ("3", "    changed()\r\n    step_3()\r\n"),
        ("3", "    step_1()"),
    ],
)
def test_a_neighbour_repeated_by_numbers_declines(
    desk: OpenWorkspace, lines: str, content: str
) -> None:
    plan = by_number(desk, lines, content)
    assert plan["auto_apply"] == "declined"
    assert plan["warnings"][0].startswith("the new text repeats a line that stays beside it: step_")
    edits = [{"range": lines, "content": content}, {"range": "9", "content": "    last()\n"}]
    asked = {"path": "a.py", "edits": edits, "apply": "never"}
    assert call(desk, "prepare_file_range_edit", **asked)["warnings"] == plan["warnings"]


@pytest.mark.parametrize(
    ("lines", "content"),
    [
        ("3~4", "    step_2()\n    step_3()\n    more()\n"),
        ("12", "\n"),
        ("2", "    step_1()\n    b()\n"),
    ],
)
def test_other_new_texts_by_numbers_are_written(
    desk: OpenWorkspace, lines: str, content: str
) -> None:
    assert by_number(desk, lines, content)["edit_id"]


def test_an_edit_by_numbers_tells_what_it_replaced(desk: OpenWorkspace) -> None:
    version = call(desk, "read_file", path="a.py")["version"]
    asked = {"path": "a.py", "range": "3~5", "content": "x\n", "apply": "auto", "version": version}
    answer = desk.call("local", "prepare_file_range_edit", asked)
    assert "replaced lines 3~5: step_2() … step_4()" in answer.text
    (row,) = answer.data["replaced"]
    assert row == {"lines": "3~5", "first": "step_2()", "last": "step_4()"}
    del asked["version"]
    asked |= {"range": "2", "expected_old": "    step_1()\n"}
    assert "replaced" not in desk.call("local", "prepare_file_range_edit", asked).text


def test_reviewers_are_told(desk: OpenWorkspace) -> None:
    plan = call(desk, "replace_text", **given("replace_text", BAD["a fence"][0]), apply="never")
    shown = desk.desk.review.show(desk.person("local"), plan["hunk_id"])
    assert list(shown.signs) == plan["warnings"]
    report = desk.pending_report("local", plan["hunk_id"])
    assert report.data["warnings"] == plan["warnings"]
