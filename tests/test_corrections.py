"""An old text that is in the file, but not as written: the corrected edit is planned or written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from copydesk.app.config import MemberConfig
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.desk.backends.api import DAY_MS
from copydesk.edit.kinds.correction import renewed
from copydesk.edit.kinds.patch import PatchEdit, PatchHunk
from copydesk.errors import Failed, HunkNotFound
from copydesk.text.snapshot import Snapshot
from copydesk.tools.messages import Lang
from support.batch_calls import pairs
from support.cost import steps
from support.desks import FAST, Setup, call
from support.rows import each_row

TEXT = (
    "class A:\n"
    "    def f(self):\n"
    "        a = 1\n"
    "        return a\n"
    "\n"
    "    def g(self):\n"
    "        print(\u201chi\u201d)\n"
    "        return 2\n"
)
TABS = "void f() {\n\tint a = 1;\n\tif (a) {\n\t\tgo(a);\n\t}\n}\n"
TWINS = "a\nx\nb\nx\nc\nx\nd\n"
XY = "x = 1\ny = 2\n"
MEMBERS = {"ann": MemberConfig(approval="human"), "bo": MemberConfig()}
DESK = Setup(
    replace(FAST, members=MEMBERS),
    {"a.py": TEXT, "t.c": TABS, "empty.txt": "", "b.py": XY, "w.txt": TWINS},
)


def blocks(*pairs: tuple[str, str], path: str = "a.py") -> str:
    form = "{}\n<<<<<<< SEARCH\n{}=======\n{}>>>>>>> REPLACE\n"
    return "\n".join(form.format(path, *pair) for pair in pairs)


def by_blocks(desk: OpenWorkspace, *pairs: tuple[str, str], path: str = "a.py") -> dict[str, Any]:
    return call(desk, "apply_blocks", text=blocks(*pairs, path=path), apply="auto")


def write(desk: OpenWorkspace, text: str) -> None:
    Path(desk.root, "w.txt").write_text(text)


def signed(old: str, new: str) -> str:
    """The lines of a hunk that replaces one text by the other."""
    lines = [("-", line) for line in old.splitlines()] + [("+", line) for line in new.splitlines()]
    return "".join(f"{sign}{line}\n" for sign, line in lines)


def signed_in(text: str, kept: int) -> str:
    """The lines of a hunk that keeps so many lines of a text and removes the others."""
    return "".join(
        f"{' ' if at < kept else '-'}{line}\n" for at, line in enumerate(text.splitlines())
    )


def patch(*hunks: str, path: str = "a.py") -> str:
    body = "".join(f"@@\n{hunk}" for hunk in hunks)
    return f"*** Begin Patch\n*** Update File: {path}\n{body}*** End Patch"


def diffed(*hunks: str, path: str = "w.txt", head: str = "@@ -9,99 +9,99 @@") -> str:
    return f"--- a/{path}\n+++ b/{path}\n" + "".join(f"{head}\n{hunk}" for hunk in hunks)


OLD = "def f(self):\n    a = 1\n    return a\n"
NEW = "def f(self):\n    a = 2\n    b = 3\n    return a\n"
DONE = TEXT.replace(
    "        a = 1\n        return a\n", "        a = 2\n        b = 3\n        return a\n"
)
AT_ONCE: dict[str, dict[str, Any]] = {
    "apply_blocks": {"text": blocks((OLD, NEW))},
    "apply_patch": {"patch": patch(signed(OLD, NEW))},
    "apply_diff": {"diff": diffed(signed(OLD, NEW), path="a.py", head="@@ -1,3 +1,4 @@")},
    "replace_text": {"path": "a.py", "old": OLD, "new": NEW},
    "prepare_batch_edit": {"path": "a.py", "edits": pairs((OLD, NEW))},
}


def text(desk: OpenWorkspace, path: str = "a.py") -> str:
    return Path(desk.root, path).read_text("utf-8")


def accepted(desk: OpenWorkspace, facts: dict[str, Any]) -> dict[str, Any]:
    """What a script does with a planned correction: it writes the hunks that the answer names."""
    assert (facts["status"], facts["changed"]) == ("ok", False), facts
    assert all(one["path"] for one in facts["hunks"])
    ids = [one["hunk_id"] for one in facts["hunks"]]
    return call(desk, "apply_file_modifications", hunk_ids=ids)


@pytest.mark.parametrize("tool", AT_ONCE)
def test_one_indentation_of_all_lines_is_written_at_once(desk: OpenWorkspace, tool: str) -> None:
    facts = call(desk, tool, **AT_ONCE[tool], apply="auto")
    told = facts["hunks"][0] if "hunks" in facts else facts
    assert (told["context_match"], told["cause"]) == ("fuzz", ["indentation"]), facts
    assert text(desk) == DONE


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("tool", AT_ONCE)
def test_what_was_corrected_is_said_and_nothing_of_a_change(
    desk: OpenWorkspace, tool: str, lang: Lang
) -> None:
    answer = desk.call("local", tool, {**AT_ONCE[tool], "apply": "auto"}, lang=lang)
    summary = str(answer.facts["summary"])
    assert ("corrected" if lang == "en" else "\u4fee\u6b63") in summary, summary
    for text_ in (summary, answer.text):
        assert "had changed" not in text_
        assert "\u6709\u53d8\u52a8" not in text_
        assert "(planned" not in text_


@pytest.mark.parametrize("tool", AT_ONCE)
def test_it_is_planned_where_plans_are_asked_for(desk: OpenWorkspace, tool: str) -> None:
    facts = call(desk, tool, **AT_ONCE[tool], apply="never")
    assert facts["hunks"][0]["cause"] == ["indentation"]
    assert text(desk) == TEXT
    assert accepted(desk, facts)["changed"]
    assert text(desk) == DONE


TWO_CAUSES = "    a()   \n    b()\nq\n"


@pytest.mark.parametrize("tool", [*AT_ONCE, "edit_file"])
def test_two_causes_are_planned(desk: OpenWorkspace, tool: str) -> None:
    """Blanks at the end of a line beside an indentation."""
    write(desk, TWO_CAUSES)
    old, new = "a()\nb()\n", "a()\nc()\n"
    given: dict[str, dict[str, Any]] = {
        "apply_blocks": {"text": blocks((old, new), path="w.txt")},
        "apply_patch": {"patch": patch("-a()\n-b()\n+a()\n+c()\n", path="w.txt")},
        "apply_diff": {"diff": diffed(" a()\n-b()\n+c()\n")},
        "replace_text": {"path": "w.txt", "old": old, "new": new},
        "prepare_batch_edit": {"path": "w.txt", "edits": pairs((old, new))},
        "edit_file": {"path": "w.txt", "edits": [{"oldText": old, "newText": new}]},
    }
    auto = {} if tool == "edit_file" else {"apply": "auto"}
    facts = call(desk, tool, **given[tool], **auto)
    assert text(desk, "w.txt") == TWO_CAUSES
    if tool == "edit_file":
        call(desk, "apply_file_modification", hunk_id=facts["data"]["hunk_id"])
    else:
        accepted(desk, facts)
    assert text(desk, "w.txt") == TWO_CAUSES.replace("b()", "c()")


@each_row("old", ["    a()\n    b()", "a()\nb()"])
def test_the_setting_and_blanks_at_line_ends_plan_in_compat_too(tmp_path: Path, old: str) -> None:
    before = "    a()   \n    b()\n" if old.startswith(" ") else "    a()\n    b()\n"
    edits = [{"oldText": old, "newText": old.replace("b", "c")}]
    with open_workspace(str(tmp_path), replace(FAST, corrections="plan")) as desk:
        write(desk, before)
        facts = call(desk, "edit_file", path="w.txt", edits=edits)
        assert text(desk, "w.txt") == before
        assert call(desk, "apply_file_modification", hunk_id=facts["data"]["hunk_id"])["changed"]
        assert text(desk, "w.txt") == before.replace("b()", "c()")


def test_the_setting_plans_them(tmp_path: Path) -> None:
    DESK.lay_files(tmp_path)
    with open_workspace(str(tmp_path), replace(FAST, corrections="plan")) as desk:
        facts = call(desk, "apply_blocks", **AT_ONCE["apply_blocks"], apply="auto")
        assert text(desk) == TEXT
        assert facts["auto_apply_reason"] == "the old text is not in the file as given"
        assert accepted(desk, facts)["changed"]


@pytest.mark.parametrize("tool", AT_ONCE)
def test_a_call_says_whether_they_are_planned(tmp_path: Path, tool: str) -> None:
    """Its word counts and not the setting, as that of `apply` does."""
    DESK.lay_files(tmp_path)
    given = {**AT_ONCE[tool], "apply": "auto"}
    with open_workspace(str(tmp_path), FAST) as desk:
        facts = call(desk, tool, **given, corrections="plan")
        assert facts["auto_apply_reason"] == "the old text is not in the file as given"
        assert text(desk) == TEXT
        call(desk, "discard_hunk", hunk_id=facts["hunks"][0]["hunk_id"])
        assert call(desk, tool, **given, corrections="never")["error"] == "INVALID_ARGS"
    with open_workspace(str(tmp_path), replace(FAST, corrections="plan")) as desk:
        assert call(desk, tool, **given, corrections="")["auto_apply"] == "declined"
        assert call(desk, tool, **given, corrections="auto")["changed"]
        assert text(desk) == DONE


def test_no_list_of_tools_pays_for_a_rare_argument(desk: OpenWorkspace) -> None:
    taken = {
        name
        for name, tool in desk.catalog.tools.items()
        if "corrections" in tool.schema["properties"]
    }
    assert {*AT_ONCE, "prepare_file_range_edit", "prepare_file_insert_after"} < taken
    for name in taken:
        assert "corrections" not in desk.catalog.tools[name].listed_schema("en")["properties"]
        assert "corrections" in desk.catalog.tools[name].described_schema("zh")["properties"]


PLANNED: dict[str, tuple[str, str, str, str, str]] = {
    "quotes": (
        "a.py", '        print("hi")\n', '        print("hi")\n        print(3)\n', "quotes",
        TEXT.replace("        return 2", "        print(3)\n        return 2"),
    ),
    "quotes in a line that changes": ("a.py", '        print("hi")\n', '        show("hi")\n', "quotes", TEXT.replace("print(", "show(")),
    "blanks at line ends": (
        "a.py", "        a = 1  \n        return a\n", "        a = 5\n        return a\n",
        "trailing_blanks", TEXT.replace("a = 1", "a = 5"),
    ),
    "spaces for tabs": (
        "t.c", "    if (a) {\n        go(a);\n    }\n",
        "    if (a) {\n        while (b) {\n            go(a);\n        }\n    }\n",
        "spaces_for_tabs",
        TABS.replace("\t\tgo(a);\n", "\t\twhile (b) {\n\t\t\tgo(a);\n\t\t}\n"),
    ),
    "spaces for tabs in the old text alone": (
        "t.c", "    if (a) {\n        go(a);\n    }\n", "\tif (a) {\n\t\tgo(b);\n\t}\n",
        "spaces_for_tabs", TABS.replace("go(a)", "go(b)"),
    ),
    "a new text as the file is": (
        "t.c", "int a = 1;\nif (a) {\n\tgo(a);\n}\n", "\tgo(a);\n\t\tgo(a);\n\t}\n",
        "indentation", "void f() {\n\tgo(a);\n\t\tgo(a);\n\t}\n}\n",
    ),
    "line numbers in both": (
        "a.py", "   3|         a = 1\n   4|         return a\n",
        "   3|         a = 7\n   4|         return a\n", "line_numbers",
        TEXT.replace("a = 1", "a = 7"),
    ),
    "line numbers in the old text": (
        "a.py", "3:         a = 1\n4:         return a\n", "        a = 7\n        return a\n",
        "line_numbers", TEXT.replace("a = 1", "a = 7"),
    ),
    "a no-break space": ("a.py", "        a\u00a0= 1\n", "        a = 8\n", "no_break_space", TEXT.replace("a = 1", "a = 8")),
}  # fmt: skip


@pytest.mark.parametrize("tool", ["apply_blocks", "replace_text", "prepare_batch_edit"])
@each_row("name", PLANNED)
def test_other_near_misses_are_planned(desk: OpenWorkspace, tool: str, name: str) -> None:
    DESK.lay_files(Path(desk.root))
    path, old, new, cause, after = PLANNED[name]
    before = text(desk, path)
    given: dict[str, Any] = {
        "apply_blocks": {"text": blocks((old, new), path=path)},
        "replace_text": {"path": path, "old": old, "new": new},
        "prepare_batch_edit": {"path": path, "edits": pairs((old, new))},
    }[tool]
    facts = call(desk, tool, **given, apply="auto")
    assert facts["hunks"][0]["cause"] == [cause], facts
    assert text(desk, path) == before
    answer = desk.call("local", tool, {**given, "apply": "auto"})
    assert "The old text differs from the file by" in answer.text
    accepted(desk, facts)
    assert text(desk, path) == after


@each_row(
    "there old new cause after",
    [
        # only what was sent escaped is, and no sign that the new text has as it is
        ('f("a")\n', 'f(\\"a\\")\n', 'f("say \\"b\\"")\n', "escaped", 'f("say \\"b\\"")\n'),
        ('f("a")\n', 'f(\\"a\\")\n', "f(\\\"b\\\", 'it\\'s')\n", "escaped", "f(\"b\", 'it\\'s')\n"),
        (
            "<p>x</p>\n",
            "&lt;p&gt;x&lt;/p&gt;\n",
            "&lt;p&gt;&quot;&lt;/p&gt;\n",
            "escaped",
            '<p>"</p>\n',
        ),
        (
            "<p>x</p>\n",
            "&lt;p&gt;x&lt;/p&gt;\n",
            "&lt;q&gt;&lt;b&gt;\nif a > 3&copy;\n",
            "escaped",
            "<q><b>\nif a > 3&copy;\n",
        ),
        ("f('x')\n", "f(\\'x\\')\n", "f(\\'z\\')\n# don't\n", "escaped", "f('z')\n# don't\n"),
        ('r("C:\\\\x")\n', 'r(\\"C:\\\\x\\")\n', 'r(\\"D:\\\\x\\")\n', "escaped", 'r("D:\\\\x")\n'),
        ('p("a\\n")\n', 'p(\\"a\\\\n\\")\n', 'p(\\"b\\\\n\\")\n', "escaped", 'p("b\\n")\n'),
        ('r("\\d")\n', 'r(\\"\\\\d\\")\n', 'r(\\"\\\\w\\")\n', "escaped", 'r("\\w")\n'),
        # a line without a number, or with another one, stays as it is
        (
            "x = {\n}\n",
            "1 | x = {\n2 | }\n",
            "1 | x = {\n    3: 4,\n2 | }\n",
            "line_numbers",
            "x = {\n    3: 4,\n}\n",
        ),
        ("x\ny\n", "1 | x\n2 | y\n", "1 | x\nnew\n2 | Y\n", "line_numbers", "x\nnew\nY\n"),
        # a file that ends without a line end
        ("x\ny", "1 | x\n2 | y\n", "1 | x\n2 | Y\n", "line_numbers final_newline", "x\nY"),
        ("a\nit\u2019s", "it's\n", "it's me\n", "quotes final_newline", "a\nit\u2019s me"),
    ],
)
def test_a_new_text_is_corrected_as_far_as_the_old_one_shows(
    desk: OpenWorkspace, there: str, old: str, new: str, cause: str, after: str
) -> None:
    for tool, given in (
        ("apply_blocks", {"text": blocks((old, new), path="w.txt")}),
        ("Edit", {"path": "w.txt", "old_string": old, "new_string": new}),
    ):
        write(desk, there)
        facts = call(desk, tool, **given)
        assert text(desk, "w.txt") == there
        told = facts["hunks"][0] if "hunks" in facts else facts["data"]["failures"][0]
        assert told["cause"] == cause.split(), facts
        hunk_id = told.get("hunk_id") or facts["data"]["hunk_id"]
        assert call(desk, "apply_file_modification", hunk_id=hunk_id)["changed"]
        assert text(desk, "w.txt") == after


@each_row("new", ["x = 1\nz = 3\n", "x = 5\n", "z = 3\nx = 1\n"])
def test_a_block_that_is_sent_twice_is_made_once(desk: OpenWorkspace, new: str) -> None:
    write(desk, XY)
    twice, other = ("x = 1\n", new), ("y = 2\n", "y = 6\n")
    facts = by_blocks(desk, twice, other, twice, path="w.txt")
    assert facts["hunks"][0]["cause"] == ["already_there"], facts
    assert text(desk, "w.txt") == f"{new}y = 6\n"


def test_a_block_for_lines_that_another_makes_is_not_there_already(desk: OpenWorkspace) -> None:
    write(desk, "foo(1)\n\nbaz(1)\nbaz(2)\n")
    pairs_ = ("foo(1)\n", "bar(1)\nbar(2)\n"), ("bar(1)\nbar(2)\n", "baz(1)\nbaz(2)\n")
    facts = by_blocks(desk, *pairs_, path="w.txt")
    assert text(desk, "w.txt") == "baz(1)\nbaz(2)\n\nbaz(1)\nbaz(2)\n", facts
    assert call(desk, "list_pending")["hunks"] == []


@pytest.mark.parametrize("tool", ["Edit", "str_replace_based_edit_tool", "edit_file"])
def test_lines_that_are_left_out_are_the_cause(desk: OpenWorkspace, tool: str) -> None:
    write(desk, "def f():\n    a = 1\n    b = 2\n    return 1\n")
    old, new = "def f():\n    ...\n    return 1\n", "def f():\n    return 2\n"
    given: dict[str, Any] = {
        "Edit": {"old_string": old, "new_string": new},
        "str_replace_based_edit_tool": {"command": "str_replace", "old_str": old, "new_str": new},
        "edit_file": {"edits": [{"oldText": old, "newText": new}]},
    }[tool]
    facts = call(desk, tool, path="w.txt", **given)
    (failure,) = facts["data"]["failures"]
    assert (failure["cause"], failure["nearest_lines"]) == (["elision"], "1~4")
    assert "difference" not in failure
    assert call(desk, "apply_file_modification", hunk_id=facts["data"]["hunk_id"])["changed"]
    assert text(desk, "w.txt") == new


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_line_end_that_the_file_lacks_is_a_cause(desk: OpenWorkspace, end: str) -> None:
    old, new = f"b{end}", f"c{end}"
    for tool, given, after in (
        ("replace_text", {"old": old, "new": new, "apply": "auto"}, f"a{end}c{end}"),
        ("Edit", {"old_string": old, "new_string": new}, f"a{end}c"),
        ("edit_file", {"edits": [{"oldText": old, "newText": new}]}, f"a{end}c"),
    ):
        file = Path(desk.root, "w.txt")
        file.write_bytes(f"a{end}b".encode())
        facts = call(desk, tool, path="w.txt", **given)
        told = facts["hunks"][0] if "hunks" in facts else facts["data"]["failures"][0]
        assert told["cause"] == ["final_newline"], facts
        hunk_id = told.get("hunk_id") or facts["data"]["hunk_id"]
        assert call(desk, "apply_file_modification", hunk_id=hunk_id)["changed"]
        assert file.read_bytes() == after.encode()


@each_row("old", ["return 1  ", "5 |     return 1", "\treturn 1"])
def test_a_number_settles_which_of_equal_places_is_corrected(desk: OpenWorkspace, old: str) -> None:
    body, new = "def {}():\n    return {}\n\n", old.replace("return 1", "return 2").rstrip()
    for line, after in ((2, (2, 1)), (5, (1, 2))):
        write(desk, body.format("a", 1) + body.format("b", 1))
        head = f"w.txt\n<<<<<<< SEARCH\n:start_line:{line}\n-------\n"
        message = f"{head}{old}\n=======\n{new}\n>>>>>>> REPLACE\n"
        assert accepted(desk, call(desk, "apply_blocks", text=message, apply="auto"))["changed"]
        assert text(desk, "w.txt") == body.format("a", after[0]) + body.format("b", after[1])


WRITING = ("Edit", "BatchEdit", "MultiEdit", "str_replace_based_edit_tool", "edit_file")


@pytest.mark.parametrize("tool", WRITING)
@each_row("name", PLANNED)
def test_tools_that_always_write_plan_them_too(desk: OpenWorkspace, tool: str, name: str) -> None:
    path, old, new, _, after = PLANNED[name]
    DESK.lay_files(Path(desk.root))
    before = text(desk, path)
    given: dict[str, Any] = {
        "Edit": {"old_string": old, "new_string": new},
        "str_replace_based_edit_tool": {"command": "str_replace", "old_str": old, "new_str": new},
        "edit_file": {"edits": [{"oldText": old, "newText": new}]},
    }.get(tool, {"edits": pairs((old, new))})
    answer = desk.call("local", tool, {"path": path, **given})
    assert answer.is_error
    assert text(desk, path) == before
    hunk_id = answer.data["data"]["hunk_id"]
    assert f'apply_file_modification({{"hunk_id": "{hunk_id}"}})' in answer.text.replace("\\", "")
    assert call(desk, "apply_file_modification", hunk_id=hunk_id)["changed"]
    assert text(desk, path) == after


PREPARING: dict[str, dict[str, Any]] = {
    "replace_text": {"old": '        print("hi")\n', "new": "        show()\n"},
    "prepare_batch_edit": {"edits": pairs(('        print("hi")\n', "        show()\n"))},
    "prepare_file_insert_after": {"anchor": 'print("hi")', "content": "        show()\n"},
    "prepare_file_block_replace": {
        "start_anchor": "def g", "end_anchor": 'print("hi")', "content": "x\n",
    },
    "prepare_file_range_edit": {
        "range": "7", "expected_old": '        print("hi")\n', "content": "        show()\n",
    },
}  # fmt: skip


@pytest.mark.parametrize("report", ["", "full", "brief"])
@pytest.mark.parametrize("tool", [*PREPARING, "apply_blocks", "apply_patch", "apply_diff"])
def test_a_planned_correction_is_told_by_id_cause_and_diff(
    desk: OpenWorkspace, tool: str, report: str
) -> None:
    pair = ('        print("hi")\n', "        show()\n")
    patches: dict[str, dict[str, Any]] = {
        "apply_blocks": {"text": blocks(pair)},
        "apply_patch": {"patch": patch(signed(*pair))},
        "apply_diff": {"diff": diffed(signed(*pair), path="a.py", head="@@ -7 +7 @@")},
    }
    given = {"path": "a.py", **PREPARING[tool]} if tool in PREPARING else patches[tool]
    answer = desk.call("local", tool, {**given, "report": report})
    facts = answer.data
    assert (facts["status"], facts["changed"]) == ("ok", False)
    (row,) = facts["hunks"]
    assert (row["path"], row["cause"]) == ("a.py", ["quotes"])
    assert "evidence" not in answer.text
    assert "normalized" not in answer.text
    assert "existing_hunk_id" not in answer.text
    for told in (row["hunk_id"], "curly quotation marks", "@@ -", "apply_file_modification"):
        assert told in answer.text


@pytest.mark.parametrize("tool", WRITING)
def test_tools_that_always_write_show_the_diff_of_the_correction(
    desk: OpenWorkspace, tool: str
) -> None:
    """And no text to send again."""
    _, old, new, _, _ = PLANNED["quotes in a line that changes"]
    given: dict[str, Any] = {
        "Edit": {"old_string": old, "new_string": new},
        "str_replace_based_edit_tool": {"command": "str_replace", "old_str": old, "new_str": new},
        "edit_file": {"edits": [{"oldText": old, "newText": new}]},
    }.get(tool, {"edits": pairs((old, new))})
    answer = desk.call("local", tool, {"path": "a.py", **given})
    (failure,) = answer.data["data"]["failures"]
    assert failure["cause"] == ["quotes"]
    assert not {"difference", "corrected_old_string"}.intersection(failure)
    assert "corrected_old_string" not in answer.text
    shown = "\n".join(str(block["text"]) for block in answer.blocks) or answer.text
    for line in ("-        print(\u201chi\u201d)", "+        show(\u201chi\u201d)"):
        assert line in shown


@pytest.mark.parametrize("tool", ["apply_blocks", "apply_patch", "apply_diff"])
def test_what_is_there_already_is_told_in_brief_too(desk: OpenWorkspace, tool: str) -> None:
    pair = ("        b = 1\n        return b\n", "        a = 1\n        return a\n")
    given: dict[str, dict[str, Any]] = {
        "apply_blocks": {"text": blocks(pair)},
        "apply_patch": {"patch": patch(signed(*pair))},
        "apply_diff": {"diff": diffed(signed(*pair), path="a.py", head="@@ -3,2 +3,2 @@")},
    }
    facts = call(desk, tool, **given[tool], report="brief")
    assert (facts["status"], facts["changed"]) == ("ok", False)
    assert facts["already_there"][0]["path"] == "a.py"


RETURNS = b"first line here\r\r\nsecond line here\r\r\nthird\r\r\n"


@pytest.mark.parametrize("tool", ["replace_text", "Edit", "apply_blocks"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_returns_that_are_doubled_are_named_and_can_be_sent_again(
    desk: OpenWorkspace, tool: str, end: str
) -> None:
    file = Path(desk.root, "w.txt")
    file.write_bytes(RETURNS)

    def send(old: str) -> dict[str, Any]:
        given: dict[str, dict[str, Any]] = {
            "replace_text": {"path": "w.txt", "old": old, "new": "x\n", "apply": "auto"},
            "Edit": {"path": "w.txt", "old_string": old, "new_string": "x\n"},
            "apply_blocks": {"text": blocks((old, "x\n"), path="w.txt"), "apply": "auto"},
        }
        facts = call(desk, tool, **given[tool])
        return facts.get("data", facts)

    facts = send(f"first line here{end}second line here{end}")
    (miss,) = facts.get("failures") or facts["rejected"]
    assert miss["cause"] == ["carriage_return"]
    own = "first line here\r\r\nsecond line here\r\r\n"
    corrected = miss.get("corrected_old_string") or miss["corrected_lines"]
    assert corrected == own
    assert file.read_bytes() == RETURNS
    send(corrected)
    assert b"first" not in file.read_bytes()


@pytest.mark.parametrize("tool", ["apply_blocks", "BatchEdit", "MultiEdit", "prepare_batch_edit"])
def test_all_places_that_do_not_fit_come_first(desk: OpenWorkspace, tool: str) -> None:
    made = (
        ("        a = 1\n        return 9\n", "x\n"),
        ("    def h(self):\n        print(7)\n", "y\n"),
    )
    given = (
        {"text": blocks(*made)}
        if tool == "apply_blocks"
        else {"path": "a.py", "edits": pairs(*made)}
    )
    head = desk.call("local", tool, given).text[:300]
    for told in ("a.py:3~4 ", "-         return 9", "a.py:6~7 ", "-     def h(self):"):
        assert told in head, head


def test_a_dry_run_plans_nothing(desk: OpenWorkspace) -> None:
    _, old, new, _, _ = PLANNED["quotes"]
    facts = call(desk, "Edit", path="a.py", old_string=old, new_string=new, dry_run=True)
    assert facts["status"] == "error"
    assert call(desk, "list_pending")["count"] == 0


@each_row(
    "old new",
    [
        ("    a = 1\n    return b\n", "    a = 2\n"),  # a word differs
        ("return\n", "x\n"),  # in no line as a whole
        ("def f(self):\n  a = 1\n  return a\n", "def f(self):\n  a = 2\n"),  # not by one amount
        ("def f(self):\n   a = 1\n    return a\n", "def f(self):\n    a = 2\n"),  # uneven
        ("            a = 1\n", "  a = 2\n"),  # the new line lacks what is to be taken off
        ("    DEF f(self):\n        a = 1\n", "        a = 2\n"),  # letters in another case
    ],
)
def test_what_is_not_safe_is_refused(desk: OpenWorkspace, old: str, new: str) -> None:
    facts = by_blocks(desk, (old, new))
    assert facts["error"] == "PATCH_REJECTED", facts
    facts = call(desk, "replace_text", path="a.py", old=old, new=new)
    assert facts["error"] == "PARTIAL_MATCH_FAIL", facts
    assert text(desk) == TEXT


def test_an_edit_of_an_older_version_is_never_corrected(desk: OpenWorkspace) -> None:
    """What is like its old text now need not be what was read then."""
    version = call(desk, "read_file", path="a.py")["version"]
    near = {"path": "a.py", "old": OLD, "new": NEW, "apply": "never"}
    Path(desk.root, "a.py").write_text(f"import os\n{TEXT}")
    facts = call(desk, "replace_text", **near, version=version)
    assert facts["status"] == "error"
    assert "hunk_id" not in facts
    now = call(desk, "read_file", path="a.py")["version"]
    facts = call(desk, "replace_text", **near, version=now)
    assert (facts["status"], facts["changed"]) == ("ok", False)


def test_two_places_and_a_text_that_is_to_be_everywhere_are_never_corrected(
    desk: OpenWorkspace,
) -> None:
    write(desk, "if a:\n    x()\n    y()\nif b:\n        x()\n        y()\n")
    assert by_blocks(desk, ("x()\ny()\n", "z()\n"), path="w.txt")["error"] == "PATCH_REJECTED"
    given = {"path": "a.py", "old": OLD, "new": NEW, "all": True, "apply": "auto"}
    assert call(desk, "replace_text", **given)["error"] == "PARTIAL_MATCH_FAIL"
    assert text(desk) == TEXT


def test_all_is_planned_where_one_hunk_is_corrected(desk: OpenWorkspace) -> None:
    renamed = ("    def g(self):\n", "    def h(self):\n")
    facts = by_blocks(desk, renamed, ('        print("hi")\n', "        p()\n"))
    assert text(desk) == TEXT
    accepted(desk, facts)
    assert text(desk) == TEXT.replace("g(self)", "h(self)").replace("print(\u201chi\u201d)", "p()")


def test_an_anchor_is_corrected(desk: OpenWorkspace) -> None:
    given = {"path": "a.py", "anchor": 'print("hi")', "content": "        p()\n", "apply": "auto"}
    facts = call(desk, "prepare_file_insert_after", **given)
    assert facts["hunks"][0]["cause"] == ["quotes"]
    accepted(desk, facts)
    assert "\u201d)\n        p()\n" in text(desk)
    block = {"path": "a.py", "start_anchor": "def\u00a0f(self)", "end_anchor": "return a"}
    facts = call(desk, "prepare_file_block_replace", **block, content="        pass\n")
    assert facts["hunks"][0]["cause"] == ["no_break_space"]


def test_an_anchor_that_is_to_be_a_whole_line_is_indented_as_the_only_one(
    desk: OpenWorkspace,
) -> None:
    given = {"path": "w.txt", "anchor": "foo(1)", "match": "equals", "content": "new\n"}
    for line in ("    foo(1)", "foo(1)  "):
        write(desk, f"{line}\nz\n")
        accepted(desk, call(desk, "prepare_file_insert_before", **given))
        assert text(desk, "w.txt") == f"new\n{line}\nz\n"
    for other in ("foo(1) ", "x = foo(1)"):
        write(desk, f"    foo(1)\n{other}\n")
        facts = call(desk, "prepare_file_insert_before", **given)
        assert (facts["error"], facts["cause"]) == ("ANCHOR_NOT_FOUND", ["part_of_line"])


@pytest.mark.parametrize(
    ("new", "cause", "after"),
    [
        ("z = 3\n", "appended", f"{XY}z = 3\n"),
        (f"{XY}z = 3\n", "whole_file", f"{XY}z = 3\n"),
        ("x = 1\nz = 3\n", "appended", f"{XY}x = 1\nz = 3\n"),
    ],
)
def test_an_empty_search_for_a_file_with_content_is_planned(
    desk: OpenWorkspace, new: str, cause: str, after: str
) -> None:
    facts = by_blocks(desk, ("", new), path="b.py")
    assert text(desk, "b.py") == XY
    assert facts["hunks"][0]["cause"] == [cause]
    accepted(desk, facts)
    assert text(desk, "b.py") == after


def test_a_second_divider_right_before_the_end_is_left_out(desk: OpenWorkspace) -> None:
    """As six of 566 real messages have it; where all above may be old lines, it is refused."""
    facts = by_blocks(desk, ("x = 1\n", "x = 2\n=======\n"), path="b.py")
    assert facts["hunks"][0]["cause"] == ["divider"]
    assert text(desk, "b.py") == XY
    accepted(desk, facts)
    assert text(desk, "b.py") == XY.replace("x = 1", "x = 2")
    ours = "<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n"
    Path(desk.root, "b.py").write_text(ours)
    facts = by_blocks(desk, ("a\n", "b\n=======\n"), path="b.py")
    assert (facts["error"], facts["line"]) == ("INVALID_PATCH", 6), facts
    facts = by_blocks(desk, ("  a\n", "b\n=======\n"), path="b.py")
    assert facts["error"] == "INVALID_PATCH", facts
    made = by_blocks(desk, ("", "a\n=======\n"), path="new.py")
    assert not made["changed"], made
    accepted(desk, made)
    assert text(desk, "new.py") == "a\n"
    facts = by_blocks(desk, ("", "Title\n=======\n"), path="new.md")
    assert facts["error"] == "INVALID_PATCH", facts


def test_a_block_with_lines_that_one_before_it_changes_is_planned(desk: OpenWorkspace) -> None:
    """In turn they are not there any more: the model may not have meant both changes."""
    write(desk, "def f(a):\n    return a\n")
    pairs = [
        ("def f(a):\n", "def f(a, b):\n"),
        ("def f(a):\n    return a\n", "def f(a):\n    return a + 1\n"),
    ]
    facts = by_blocks(desk, *pairs, path="w.txt")
    assert facts["hunks"][0]["cause"] == ["changed_before"]
    assert len(facts["hunks"]) == 1 == len(call(desk, "list_pending")["hunks"])
    assert "\n-    return a\n+def f(a, b):\n+    return a + 1\n" in facts["diff"]
    assert text(desk, "w.txt") == "def f(a):\n    return a\n"
    accepted(desk, facts)
    assert text(desk, "w.txt") == "def f(a, b):\n    return a + 1\n"


def test_an_empty_search_fills_an_empty_file_and_one_made_by_the_message(
    desk: OpenWorkspace,
) -> None:
    assert by_blocks(desk, ("", "a\nb\n"), path="empty.txt")["changed"]
    assert text(desk, "empty.txt") == "a\nb\n"
    facts = by_blocks(desk, ("", "a\n"), ("", "b\n"), ("a\nb\n", "a\nc\n"), path="new/x.txt")
    assert facts["changed"], facts
    assert text(desk, "new/x.txt") == "a\nc\n"


def test_blocks_are_a_sequence(desk: OpenWorkspace) -> None:
    first = blocks(("x = 1\n", "x = 1\nz = 3\n"), path="b.py")
    last = blocks(("z = 3\ny = 2\n", "z = 4\n"), path="b.py")
    given = "\n".join([first, blocks(("class A:\n", "class B:\n")), last])
    facts = call(desk, "apply_blocks", text=given, apply="auto")
    assert len(facts["hunks"]) == 2, facts
    assert text(desk, "b.py") == "x = 1\nz = 4\n"
    assert text(desk).startswith("class B:\n")
    assert call(desk, "undo_file_modification", edit_id=facts["hunks"][0]["edit_id"])["changed"]
    assert text(desk, "b.py") == XY


def test_a_hunk_that_fits_before_and_in_between_elsewhere_is_refused(desk: OpenWorkspace) -> None:
    for hunks in (
        (("x = 1\n", "y = 2\n"), ("y = 2\nnew\n", "n\n"), ("y = 2\n", "q\n")),
        (("y = 2\n", "z\n"), ("x = 1\n", "y = 2\n"), ("y = 2\n", "q\n")),
    ):
        assert by_blocks(desk, *hunks, path="b.py")["error"] == "PATCH_REJECTED"
        assert text(desk, "b.py") == XY


@each_row(
    "old hunks lines",
    [
        ("a = 5\nxx\nqq\n", [("qq", "a = 5\nyy"), ("a = 5", "g = 8")], [1, 3]),
        ("xx\nqq\na = 5\n", [("xx", "a = 5\nyy"), ("a = 5", "g = 8")], [3, 1]),
        ("a\nx\nb\nq\na\nb\n", [("a\nx\nb", "a\nb"), ("a\nb", "g")], [5, 1]),
        ("f\na\nd\n", [("f", "f\nc\nf"), ("f\na\nd", "f\na\nq")], [1, 3]),
        # its own lines, those of an equal place, and those that stay beside new ones
        ("a\nx\na\n", [("a", "a\nn"), ("a", "a\nn")], None),
        ("a\nx\nb\n", [("a", "a\nn"), ("a\nn", "m"), ("b", "n")], None),
        ("a\nx\nb\n", [("x", "x\nb2"), ("b", "n")], None),
    ],
)
def test_lines_that_an_earlier_hunk_makes_elsewhere_refuse_a_later_one(
    desk: OpenWorkspace, old: str, hunks: list[tuple[str, str]], lines: list[int] | None
) -> None:
    write(desk, old)
    ended = [(f"{one}\n", f"{other}\n") for one, other in hunks]
    facts = by_blocks(desk, *ended, path="w.txt")
    if lines is None:
        assert facts["changed"], facts
        return
    (rejected,) = facts["rejected"]
    assert (rejected["reason"], rejected["lines"]) == ("several_places", lines), facts
    assert text(desk, "w.txt") == old


@each_row("old", [XY, ""])
def test_blocks_that_take_each_other_back_change_nothing(desk: OpenWorkspace, old: str) -> None:
    write(desk, old)
    first = old[:6], "z\n"
    for apply in ("never", "auto"):
        there_and_back = blocks(first, first[::-1], path="w.txt")
        facts = call(desk, "apply_blocks", text=there_and_back, apply=apply)
        assert facts["status"] == "ok", facts
        assert text(desk, "w.txt") == old
    assert facts["changed"] is False


@each_row("old", [XY, ""])
def test_a_block_without_lines_is_refused(desk: OpenWorkspace, old: str) -> None:
    write(desk, old)
    for search in ("", "\n"):
        facts = by_blocks(desk, (search, ""), path="w.txt")
        assert facts["rejected"][0]["reason"] == "no_lines", facts
    assert by_blocks(desk, ("", ""), path=f"{len(old)}.txt")["status"] == "ok", "an empty file"


@each_row("is_added", [False, True])
def test_the_order_of_many_blocks_costs_as_much_as_their_lines(is_added: bool) -> None:
    def checked(count: int) -> None:
        hunks, lines = list[PatchHunk](), list[str]()
        for number in range(count):
            block = f"def f{number}():\n    return None\n\n"
            lines.append(block + "    x = 1\n" * 50)
            new = block.replace("    return", "    done()\n    return")
            hunks.append(PatchHunk(block, f"{new}    return None\n\n" if is_added else new))
        base, edit = Snapshot.of("".join(lines).encode()), PatchEdit("x", (*hunks,))
        costs[count] = steps(lambda: edit.check_order(base, edit.places(base)))

    costs: dict[int, int] = {}
    for count in (20, 40, 80):
        checked(count)
    assert costs[80] - costs[40] <= 2.2 * (costs[40] - costs[20]) + 200, costs


@pytest.mark.parametrize(
    "pairs",
    [
        [("x = 1\n", "b\n")],
        [("x = 1\n", "")],
        [("x = 1\n", "xx = 11\n"), ("xx = 11\n", "xxx = 111\n")],
        [("x = 1\n", "    x = 1\n"), ("y = 2\n", "y = 3\n")],
    ],
)
def test_a_message_that_comes_again_is_done(
    desk: OpenWorkspace, pairs: list[tuple[str, str]]
) -> None:
    """Of one line it is not seen in the text alone: the journal says that it was made."""
    assert by_blocks(desk, *pairs, path="b.py")["changed"]
    after = text(desk, "b.py")
    facts = by_blocks(desk, *pairs, path="b.py")
    assert (facts["status"], facts["changed"]) == ("ok", False)
    assert [row["hunk"] for row in facts["already_there"]] == [*range(1, len(pairs) + 1)]
    assert text(desk, "b.py") == after
    Path(desk.root, "b.py").write_text(f"{after}z\n")  # it may not be the same any more
    assert by_blocks(desk, *pairs, path="b.py")["error"] == "PATCH_REJECTED"


def test_a_message_that_fits_again_is_not_made_again(desk: OpenWorkspace) -> None:
    Path(desk.root, "b.py").write_text("import os\n")
    pairs = ("import os\n", "import os\nimport re\n"), ("import re\n", "import re\nimport sys\n")
    assert by_blocks(desk, *pairs, path="b.py")["changed"]
    assert by_blocks(desk, *pairs, path="b.py")["changed"] is False
    assert text(desk, "b.py") == "import os\nimport re\nimport sys\n"
    assert not call(desk, "list_pending")["hunks"]


@pytest.mark.parametrize(
    "more", ["deleted file mode 100644", "new mode 100755", "rename from b.py"]
)
def test_only_what_was_made_is_done(desk: OpenWorkspace, more: str) -> None:
    """A hunk that was made before does not stand for a deletion, a mode or a name beside it."""
    hunk, names = "@@ -1 +0,0 @@\n-x = 1\n", "--- a/b.py\n+++ b/b.py\n"
    assert call(desk, "apply_diff", diff=names + hunk, apply="auto")["changed"]
    head = f"diff --git a/b.py b/b.py\n{more}\n"
    if more.startswith("rename"):
        head, names = (
            f"diff --git a/b.py b/c.py\n{more}\nrename to c.py\n",
            "--- a/b.py\n+++ b/c.py\n",
        )
    elif more.startswith("deleted"):
        names = "--- a/b.py\n+++ /dev/null\n"
    else:
        head = head.replace("new", "old mode 100644\nnew")
    facts = call(desk, "apply_diff", diff=head + names + hunk, apply="auto")
    assert facts["error"] == "PATCH_REJECTED", facts
    assert text(desk, "b.py") == "y = 2\n"


def test_a_hunk_that_does_not_fit_a_file_that_was_moved_is_refused(desk: OpenWorkspace) -> None:
    plan = call(desk, "prepare_file_move", path="b.py", to="c.py")
    call(desk, "apply_file_modification", hunk_id=plan["hunk_id"])
    facts = by_blocks(desk, ("not there\n", "b\n"), path="c.py")
    assert facts["error"] == "PATCH_REJECTED", facts


def test_what_is_done_already_is_told_beside_what_is_written(desk: OpenWorkspace) -> None:
    assert by_blocks(desk, ("x = 1\n", "b\n"), path="b.py")["changed"]
    again = blocks(("x = 1\n", "b\n"), path="b.py") + "\n" + blocks((OLD, NEW))
    facts = call(desk, "apply_blocks", text=again, apply="auto")
    assert facts["changed"], facts
    assert [(row["path"], row["hunk"]) for row in facts["already_there"]] == [("b.py", 1)]


def test_what_is_there_already_is_done(desk: OpenWorkspace) -> None:
    done = ("        a = 0\n", "        a = 1\n        return a\n")
    facts = by_blocks(desk, done)
    assert (facts["status"], facts["changed"]) == ("ok", False)
    assert facts["already_there"] == [{"path": "a.py", "hunk": 1, "lines": "3"}]
    rest = by_blocks(desk, done, ("        return 2\n", "        return 3\n"))
    assert rest["hunks"][0]["cause"] == ["already_there"]
    assert text(desk) == TEXT.replace("return 2", "return 3")
    assert by_blocks(desk, (OLD, NEW))["changed"]
    again = by_blocks(desk, (OLD, NEW))
    assert again["status"] != "ok" or again["changed"] is False
    assert text(desk) == DONE.replace("return 2", "return 3")


@each_row(
    "old new after is_done",
    [
        ("    timeout = 30\n", "    timeout = 60\n", "# h\n    timeout = 60\n# t\n", True),
        ("a = f(x)\nb = g(a)\n", "b = g(f(x))\n", "b = g(f(x))\n", False),  # too few letters
        ("a = f(x)\nreturn a.value\n", "return a.value()\n", "return a.value()\n", True),
        ("    timeout = 30\n", "    timeout = 60\n", "timeout = 60\n", False),
        (
            "timeout = 30\n",
            "timeout = 60\n",
            "timeout = 60\n    timeout = 60\ntimeout = 60\n",
            False,
        ),
        ("timeout = 30\n", "timeout = 60\n", "  timeout = 30 \ntimeout = 60\n", False),
        (
            "print('hello')\n",
            "print('hullo')\n",
            "print(\u2018hello\u2019)\nprint('hullo')\n",
            False,
        ),
        ("return value\n", "return\n", "f\nreturn\n", False),
        ("return False\n", "return None\n", "f\nreturn None\n", False),
        ("}}\n", "}\n", "f\n}\n", False),
        ("import sys\n", "count = 1000\n", "count = 1000\n", False),
        ("first\nsecond\n", "first\n", "first\nother\n", False),
        ("first\nsecond\n", "", "first\n", False),
        ("timeout = 30\n", "timeout = 60\n", "[a]\ntimeout = 31\n[b]\ntimeout = 60\nlast\n", False),
        ("return compute(x, cached)\n", "return compute(x)\n", "return compute(x)\n", False),
        ("import jsonn\n", "import os\n", "import os\nimport json\n", False),
        ("import jsonn\n", "import os\n", "import os\n", False),
        ("size = get(left, 1)\n", "size = get(right, 1)\n", "size = get(right, 1)\n", True),
    ],
)
@pytest.mark.parametrize("tool", ["apply_blocks", "apply_patch", "apply_diff"])
def test_one_line_is_there_already(
    desk: OpenWorkspace, tool: str, old: str, new: str, after: str, is_done: bool
) -> None:
    write(desk, after)
    at = [*after.splitlines(), new.rstrip()].index(new.rstrip()) + 1
    given: dict[str, Any] = {
        "apply_blocks": {"text": blocks((old, new), path="w.txt")},
        "apply_patch": {"patch": patch(signed(old, new), path="w.txt")},
        "apply_diff": {"diff": diffed(signed(old, new), head=f"@@ -{at} +{at} @@")},
    }[tool]
    facts = call(desk, tool, **given, apply="auto")
    assert text(desk, "w.txt") == after
    assert (facts["status"] == "ok" and "already_there" in facts) is is_done, facts
    assert not is_done or facts["changed"] is False


GONE = "# A\n\nRemember this.\n\n## Rules\n\nRead the rules.\n\n## License\n\nMIT.\n"
LEFT = "# A\n\nRemember this.\n"
APART = "x\n    },\n  ],\ny\n  },\n  gone(1)\n  gone(2)\n],\nz\n"


@each_row(
    "there hunks after is_told",
    [
        # what is kept is there in any case: the lines that go have to be gone
        (LEFT, [signed_in(GONE, 3)], LEFT, True),
        (GONE, [signed_in(GONE.replace("Read the", "Read teh"), 3)], GONE, False),
        (GONE, [signed_in(GONE.replace("MIT.", "MIT. "), 3)], LEFT, False),
        (
            APART,
            ["-x\n+u\n", "     },\n-    gone(1)\n-    gone(2)\n   ],\n"],
            APART.replace("x", "u", 1).replace("  gone(1)\n  gone(2)\n", ""),
            False,
        ),
    ],
)
@pytest.mark.parametrize("tool", ["apply_blocks", "apply_patch", "apply_diff"])
def test_lines_that_go_are_not_gone_because_what_stays_is_there(
    desk: OpenWorkspace, tool: str, there: str, hunks: Sequence[str], after: str, is_told: bool
) -> None:
    write(desk, there)
    pairs_ = (
        tuple(
            "".join(line[1:] for line in one.splitlines(True) if line[0] != sign) for sign in "+-"
        )
        for one in hunks
    )
    given: dict[str, Any] = {
        "apply_blocks": {"text": blocks(*((old, new) for old, new in pairs_), path="w.txt")},
        "apply_patch": {"patch": patch(*hunks, path="w.txt")},
        "apply_diff": {"diff": diffed(*hunks)},
    }[tool]
    facts = call(desk, tool, **given, apply="auto")
    assert ("already_there" in facts) is is_told, facts
    if facts["status"] == "ok" and not is_told and not facts["changed"]:
        accepted(desk, facts)
    assert text(desk, "w.txt") == after


@each_row(
    "other is_done",
    [
        (None, True),
        ("<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n", False),
        ("b.py\n<<<<<<< SEARCH\ny = 2\n=======\ny = 3\n>>>>>>> REPLACE\n", False),
        ("b.py\n<<<<<<< SEARCH\nz = 2\n=======\nz = 3\n>>>>>>> REPLACE\n", False),
        ("<<<<<<< SEARCH\nx = 0\n=======\nb = 1\nc = 2\n>>>>>>> REPLACE\n", True),
    ],
)
def test_one_line_is_not_taken_for_there_beside_what_is_written(
    desk: OpenWorkspace, other: str | None, is_done: bool
) -> None:
    write(desk, "a\ntimeout = 60\nb = 1\nc = 2\n")
    mine = blocks(("timeout = 30\n", "timeout = 60\n"), path="w.txt")
    facts = call(desk, "apply_blocks", text=mine + (other or ""), apply="auto")
    assert (text(desk, "w.txt"), text(desk, "b.py")) == ("a\ntimeout = 60\nb = 1\nc = 2\n", XY)
    assert (facts["status"] == "ok") is is_done, facts
    if not is_done:
        assert "not_found" in [one["reason"] for one in facts["rejected"] if one["path"] == "w.txt"]


@each_row(
    "hunk is_done",
    [
        ("@@ def f():\n", False),
        ("@@ def g():\n", True),
        ("@@\n", True),
    ],
)
def test_one_line_is_there_only_where_the_patch_says(
    desk: OpenWorkspace, hunk: str, is_done: bool
) -> None:
    write(desk, "def f():\n    pass\n\n\ndef g():\n    timeout = 60\n")
    sent = patch(hunk + signed("    timeout = 30\n", "    timeout = 60\n"), path="w.txt")
    facts = call(desk, "apply_patch", patch=sent, apply="auto")
    assert (facts["status"] == "ok" and "already_there" in facts) is is_done, facts
    head = f"@@ -{6 if is_done else 2} +6 @@"
    sent = diffed(signed("    timeout = 30\n", "    timeout = 60\n"), head=head)
    facts = call(desk, "apply_diff", diff=sent, apply="auto")
    assert (facts["status"] == "ok" and "already_there" in facts) is is_done, facts


@each_row("name", ["./b.py", "`b.py`", ".\\b.py", "'b.py'", "`./b.py`"])
def test_a_path_may_be_spelled_so(desk: OpenWorkspace, name: str) -> None:
    Path(desk.root, "b.py").write_text(XY)
    facts = by_blocks(desk, ("x = 1\n", "x = 5\n"), path=name)
    assert facts["changed"], facts
    assert text(desk, "b.py") == "x = 5\ny = 2\n"


@each_row(
    "old new",
    [
        (".\\sub\\b.py", ".\\sub\\b.py"),
        ("sub\\b.py", "sub\\b.py"),
        ("a\\sub\\b.py", "b\\sub\\b.py"),
        ("`sub/b.py`", "`sub/b.py`"),
        ("./sub/b.py\t2024-01-01", "./sub/b.py"),
        ('"a/sub/b.py"', '"b/sub/b.py"'),
    ],
)
def test_a_diff_may_spell_a_path_so_too(desk: OpenWorkspace, old: str, new: str) -> None:
    Path(desk.root, "sub").mkdir(exist_ok=True)
    Path(desk.root, "sub/b.py").write_text(XY)
    diff = f"--- {old}\n+++ {new}\n@@ -1 +1 @@\n-x = 1\n+x = 5\n"
    assert call(desk, "apply_diff", diff=diff, apply="auto").get("changed"), old
    assert text(desk, "sub/b.py") == "x = 5\ny = 2\n"


@each_row(
    "old there new causes wanted",
    [
        ("a\n", "    a\n", "a\n  b\n", ("indentation",), "    a\n      b\n"),
        ("    a\n", "a\n", "    a\n  b\n", ("indentation",), None),
        ("\ta\n", "    a\n", "\t\tb\n", ("tabs_for_spaces",), "        b\n"),
        ("  a\n", "\ta\n", "   b\n", ("spaces_for_tabs",), None),
        ("\ta\n", "    a\n", "\t\n\n\tb\n", ("tabs_for_spaces",), "    \n\n    b\n"),
        ("   a\n", "  a\n", "   a\n  b\n", ("indentation",), "  a\n  b\n"),
        ("a\nb\n", "a\n", "a\n", ("blank_lines",), None),
        ("\u00a0a\n", " a\n", " b\n\u00a0c\n", ("no_break_space",), " b\n c\n"),
        ("p(\u201ca\u201d)\n", 'p("a")\n', "p(\u201cb\u201d)\n", ("quotes",), 'p("b")\n'),
    ],
)
def test_the_new_text_follows(
    old: str, there: str, new: str, causes: tuple[str, ...], wanted: str | None
) -> None:
    assert renewed(old, there, new, causes) == wanted


@each_row("count", [1, 2, 3, 4])
@each_row("tool", ["apply_blocks", "apply_diff", "apply_patch"])
def test_as_many_equal_hunks_as_places_take_them_in_order(
    desk: OpenWorkspace, tool: str, count: int
) -> None:
    write(desk, TWINS)
    news = [f"y{number}\n" for number in range(count)]
    hunks = [f"-x\n+{new}" for new in news]
    given = {
        "apply_blocks": {"text": blocks(*(("x\n", new) for new in news), path="w.txt")},
        "apply_diff": {"diff": diffed(*hunks)},
        "apply_patch": {"patch": patch(*hunks, path="w.txt")},
    }[tool]
    facts = call(desk, tool, **given, apply="auto")
    assert text(desk, "w.txt") == (TWINS if count != 3 else "a\ny0\nb\ny1\nc\ny2\nd\n"), facts
    if count != 3:
        assert {one["reason"] for one in facts["rejected"]} == {"several_places"}


def test_hunks_of_a_diff_are_in_order(desk: OpenWorkspace) -> None:
    assert call(desk, "apply_diff", diff=diffed("-c\n+C\n", "-x\n+X\n"), apply="auto")["changed"]
    assert text(desk, "w.txt") == "a\nx\nb\nx\nC\nX\nd\n"
    facts = call(desk, "apply_diff", diff=diffed("-x\n+X\n", "-C\n+c\n"), apply="auto")
    assert facts["error"] == "PATCH_REJECTED"
    found = by_blocks(desk, ("C\n", "c\n"), ("x\n", "z\n"), path="w.txt")
    assert found["error"] == "PATCH_REJECTED"


def test_numbers_decide_where_all_hunks_agree_with_them(desk: OpenWorkspace) -> None:
    head = "--- a/w.txt\n+++ b/w.txt\n"
    numbered = head + "@@ -1,1 +1,1 @@\n-a\n+A\n@@ -4,1 +4,1 @@\n-x\n+y\n"
    assert call(desk, "apply_diff", diff=numbered, apply="auto")["changed"]
    assert text(desk, "w.txt") == "A\nx\nb\ny\nc\nx\nd\n"
    moved = head + "@@ -2,1 +2,1 @@\n-x\n+y\n@@ -6,1 +6,1 @@\n-d\n+D\n"
    assert call(desk, "apply_diff", diff=moved, apply="auto")["error"] == "PATCH_REJECTED"


BLANK = "def a():\n    one()\n\n\ndef b():\n    two()\n\n    three()\n"


@each_row(
    "hunk after",
    [
        ("     one()\n \n def b():\n-    two()\n+    2\n", ("    two()", "    2")),
        ("     one()\n def b():\n-    two()\n+    2\n", ("    two()", "    2")),
        ("-    two()\n-    three()\n+    2\n", ("    two()\n\n    three()\n", "\n    2\n")),
        ("     one()\n \n \n \n def b():\n+    0\n     two()\n", ("    two()", "    0\n    two()")),
        ("     two()\n-\n     three()\n", ("    two()\n\n", "    two()\n")),
        # those that are right stay where they are
        (" \n     two()\n \n+    4\n     three()\n", ("    three()", "    4\n    three()")),
    ],
)
def test_blank_lines_of_the_context_may_differ(
    desk: OpenWorkspace, hunk: str, after: tuple[str, str]
) -> None:
    write(desk, BLANK)
    facts = call(desk, "apply_diff", diff=diffed(hunk), apply="auto")
    assert facts.get("changed"), facts
    assert text(desk, "w.txt") == BLANK.replace(*after)


@each_row(
    "hunks reason",
    [
        ([" a\n b\n \n+x\n+\n c\n"] * 2, "hunks_overlap"),
        (["-a\n-\n b\n"], "not_found"),  # there is none to remove
    ],
)
def test_blank_lines_do_not_make_another_hunk_of_it(
    desk: OpenWorkspace, hunks: Sequence[str], reason: str
) -> None:
    write(desk, "a\nb\n\nc\n")
    facts = call(desk, "apply_diff", diff=diffed(*hunks), apply="auto")
    assert [one["reason"] for one in facts["rejected"]] == [reason]
    assert text(desk, "w.txt") == "a\nb\n\nc\n"


THREE = "def f():\n    a = 1\n    c = 3\n"


@each_row(
    "hunk after is_written",
    [
        # the context lacks a blank, or all: added lines stand as they are
        ("    a = 1\n+    b = 2\n    c = 3\n", "    a = 1\n    b = 2\n    c = 3\n", False),
        (" a = 1\n+    b = 2\n c = 3\n", "    a = 1\n    b = 2\n    c = 3\n", False),
        (" a = 1\n-c = 3\n+    b = 2\n", "    a = 1\n    b = 2\n", False),
        ("-a = 1\n-c = 3\n+    a = 1\n+    b = 2\n", "    a = 1\n    b = 2\n", False),
        # all lines lack it
        ("-a = 1\n-c = 3\n+if a:\n+    a = 1\n+    c = 3\n", "    if a:\n        a = 1\n        c = 3\n", True),
        (" a = 1\n+b = 2\n c = 3\n", "    a = 1\n    b = 2\n    c = 3\n", True),
        (" a = 1\n+if a:\n+    b = 2\n c = 3\n", "    a = 1\n    if a:\n        b = 2\n    c = 3\n", True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("tool", ["apply_patch", "apply_diff"])
def test_added_lines_may_be_indented_as_the_file_is(
    desk: OpenWorkspace, tool: str, hunk: str, after: str, is_written: bool
) -> None:
    write(desk, THREE)
    given: dict[str, Any] = {
        "apply_patch": {"patch": patch(hunk, path="w.txt")},
        "apply_diff": {"diff": diffed(hunk)},
    }[tool]
    facts = call(desk, tool, **given, apply="auto")
    assert facts.get("changed") is is_written, facts
    if not is_written:
        accepted(desk, facts)
    assert text(desk, "w.txt") == f"def f():\n{after}"


def test_a_corrected_sequence_is_a_correction_to_the_desk(desk: OpenWorkspace) -> None:
    pairs = (("x = 1\n", "x = 1\nz = 3\n"), ("  z = 3\n  y = 2\n", "  z = 4\n"))
    facts = call(desk, "apply_blocks", text=blocks(*pairs, path="b.py"), apply="never")
    (row,) = facts["hunks"]
    assert row["cause"] == ["indentation"]
    (plan,) = [one for one in desk.desk.waiting(desk.member("local")) if one.id == row["hunk_id"]]
    assert plan.is_correction
    assert plan.expires_ms - plan.created_ms == 10 * 60_000


@each_row("given", ["", "x = 9\n"])
def test_an_empty_new_file_does_not_empty_one_that_is_there(
    desk: OpenWorkspace, given: str
) -> None:
    write(desk, TWINS)
    call(desk, "read_file", path="w.txt")
    body = "".join(f"+{line}\n" for line in given.splitlines())
    sent = f"*** Begin Patch\n*** Add File: w.txt\n{body}*** End Patch"
    facts = call(desk, "apply_patch", patch=sent, apply="auto")
    assert text(desk, "w.txt") == (given or TWINS), facts
    assert given or facts["error"] == "FILE_EXISTS"


@each_row("path", ["it's", "'t", "`b", 'what\'s "new"', "c'"])
def test_only_a_pair_of_quotes_is_no_part_of_a_name(desk: OpenWorkspace, path: str) -> None:
    Path(desk.root, path).write_text("old\n")
    sent = f"--- {path}\n+++ {path}\n@@ -1 +1 @@\n-old\n+new\n"
    assert call(desk, "apply_diff", diff=sent, apply="auto").get("changed"), path
    assert text(desk, path) == "new\n"


@each_row(
    "pairs said unsaid",
    [
        ([("", "x = 1\ny = 2\nnew\n")], "becomes the whole file", "corrected to"),
        ([("", "new\n")], "end of the file", "corrected to"),
        ([("x = 0\n", "x = 1\ny = 2\n"), ("y = 2\n", "y = 3\n")], "there already", "corrected to"),
    ],
)
def test_what_was_not_corrected_is_not_said_to_be(
    desk: OpenWorkspace, pairs: list[tuple[str, str]], said: str, unsaid: str
) -> None:
    Path(desk.root, "b.py").write_text(XY)
    given = {"text": blocks(*pairs, path="b.py"), "apply": "auto"}
    answer = desk.call("local", "apply_blocks", given)
    assert said in answer.text, answer.text
    assert unsaid not in answer.text, answer.text


def test_a_refusal_begins_with_the_places(desk: OpenWorkspace) -> None:
    pairs = (("def f(this):\n", "x\n"), ("def g(those):\n", "y\n"))
    answer = desk.call("local", "apply_blocks", {"text": blocks(*pairs)})
    start = answer.text[:300]
    for wanted in ("a.py:2~2", "a.py:6~6", "- def f(this)", "+     def f(self)", "+     def g("):
        assert wanted in start, start


def test_the_place_of_one_hunk_is_told_once(desk: OpenWorkspace) -> None:
    answer = desk.call("local", "apply_blocks", {"text": blocks(("def f(this):\n", "x\n"))})
    assert answer.text.count("- def f(this)") == 1, answer.text


def test_the_place_reaches_to_the_last_line_of_the_block(desk: OpenWorkspace) -> None:
    lines = [f"line_{number}()\n" for number in range(10)]
    write(desk, "".join([*lines[:5], *["put()\n"] * 4, *lines[5:], "z\n"]))
    old = "".join(lines).replace("line_2()", "gone_2()")
    facts = by_blocks(desk, (old, "x\n"), path="w.txt")
    assert facts["rejected"][0]["nearest_lines"] == "1~14"


def test_all_places_that_are_as_near_are_told(desk: OpenWorkspace) -> None:
    sections = "".join(f'<section class="dark" id="{name}">\n' for name in ("faq", "top", "end"))
    write(desk, sections)
    facts = by_blocks(desk, ('<section class="dark">\n', "x\n"), path="w.txt")
    assert sorted(facts["rejected"][0]["lines"]) == [1, 2, 3]


CLINE = "w.txt\n------- SEARCH\nb\n=======\nB\n+++++++ REPLACE\n"
ROO = "w.txt\n<<<<<<< SEARCH\n:start_line:4\n-------\nx\n=======\ny\n>>>>>>> REPLACE\n"
BEGUN = "*** Begin Patch\n*** Update File: w.txt\n@@\n-b\n+B\n*** End Patch"
IN_ROO = "a\nx\nb\ny\nc\nx\nd\n"
ADDED = "*** Begin Patch\n*** Add File: n.txt\n+x\n+y\n*** Update File: n.txt\n@@\n-x\n+z\n*** End Patch"
DIALECTS: dict[str, tuple[str, str, str, str]] = {
    "Cline's marks": ("apply_blocks", "text", CLINE, TWINS.replace("b", "B")),
    "Roo's line": ("apply_blocks", "text", ROO, IN_ROO),
    "Roo's two lines": ("apply_blocks", "text", ROO.replace(":4\n", ":4\n:end_line:4\n"), IN_ROO),
    "a fence": ("apply_patch", "patch", f"```diff\n{BEGUN}\n```", TWINS.replace("b", "B")),
    "a heredoc": ("apply_patch", "patch", f"apply_patch <<'EOF'\n{BEGUN}\nEOF", TWINS.replace("b", "B")),
    "escaped line ends": ("apply_patch", "patch", BEGUN.replace("\n", "\\n"), TWINS.replace("b", "B")),
    "an environment": ("apply_patch", "patch", BEGUN.replace("Patch\n", "Patch\n*** Environment ID: 7\n", 1), TWINS.replace("b", "B")),
    "a blank line for the end": ("apply_patch", "patch", BEGUN.replace("-b\n+B\n", "-d\n+D\n \n"), TWINS.replace("d", "D")),
    "an empty last hunk": ("apply_diff", "diff", diffed("-b\n+B\n") + "@@ -9,1 +9,1 @@\n", TWINS.replace("b", "B")),
    "added, then updated": ("apply_patch", "patch", ADDED, TWINS),
}  # fmt: skip


@pytest.mark.parametrize("name", DIALECTS)
def test_dialects_are_taken_by_their_tools(desk: OpenWorkspace, name: str) -> None:
    tool, argument, given, after = DIALECTS[name]
    answer = desk.call("local", tool, {argument: given, "apply": "auto"})
    assert answer.data.get("changed"), answer.text
    assert text(desk, "w.txt") == after
    if name == "an empty last hunk":
        assert answer.data["dropped_hunks"] == 1
        assert "Left out: 1 hunk without lines." in answer.text
    if name == "added, then updated":
        assert text(desk, "n.txt") == "z\ny\n"


LONG = "def a():\n" + "".join(f"    s{number}()\n" for number in range(9)) + "def b():\n    t()\n"


@pytest.mark.parametrize("tool", ["apply_blocks", "apply_patch", "replace_text", "Edit"])
@pytest.mark.parametrize("mark", ["    ...", "# ... existing code ...", "    # 其余代码不变"])
def test_an_elision_in_the_old_text_is_planned(desk: OpenWorkspace, tool: str, mark: str) -> None:
    write(desk, LONG)
    old, new = f"def a():\n{mark}\n    s8()\n", f"def c():\n{mark}\n    s9()\n"
    given: dict[str, dict[str, Any]] = {
        "apply_blocks": {"text": blocks((old, new), path="w.txt"), "apply": "auto"},
        "apply_patch": {"patch": patch(signed(old, new), path="w.txt"), "apply": "auto"},
        "replace_text": {"path": "w.txt", "old": old, "new": new},
        "Edit": {"path": "w.txt", "old_string": old, "new_string": new},
    }
    facts = call(desk, tool, **given[tool])
    assert text(desk, "w.txt") == LONG
    if tool == "Edit":
        assert call(desk, "apply_file_modification", hunk_id=facts["data"]["hunk_id"])["changed"]
    else:
        assert facts["hunks"][0]["cause"] == ["elision"]
        accepted(desk, facts)
    assert text(desk, "w.txt") == LONG.replace("def a", "def c").replace("s8", "s9")


@each_row(
    "old",
    [
        "def a():\n...\n",
        "...\n    s1()\n",
        "def a():\n...\n    s1()\n...\n    s0()\n",
        "def a():\n...\n    q()\n",
        "def b():\n...\n    t()\n",
    ],
)
def test_other_elisions_are_refused(desk: OpenWorkspace, old: str) -> None:
    write(desk, LONG + "    t()\n")
    assert by_blocks(desk, (old, "x\n"), path="w.txt")["error"] == "PATCH_REJECTED"


def test_what_is_expected_of_the_file_binds_a_correction(desk: OpenWorkspace) -> None:
    block = {"path": "a.py", "start_anchor": "def\u00a0f(self)", "end_anchor": "return a"}
    given = {**block, "content": "        pass\n", "apply": "auto"}
    refused = call(desk, "prepare_file_block_replace", **given, expected_old="        a = 2\n")
    assert refused["error"] == "CONTENT_CHANGED"
    planned = call(desk, "prepare_file_block_replace", **given, expected_old="        a = 1\n")
    assert planned["hunks"][0]["cause"] == ["no_break_space"]
    batch = {"path": "a.py", "edits": pairs((OLD, NEW)), "expected_size_bytes": 3}
    assert call(desk, "prepare_batch_edit", **batch)["error"] == "CONFLICT"


@each_row(
    "there old new cause after",
    [
        ("x = \u201chi\u201d\n", 'x = "hi"', 'x = "ho"\n', "quotes", "x = \u201cho\u201d\n"),
        ("x\u00a0= 1\n", "x = 1\n", "x = 3\n", "no_break_space", "x\u00a0= 3\n"),
        ("x = 1\n", "x = 1  \n", "x = 3", "trailing_blanks", "x = 3\n"),
        ("x = 1\n", "x = 1  \n", "", "trailing_blanks", ""),
        ("x = 1\n", "1\tx = 1\n", "1\tx = 3\n", "line_numbers", "x = 3\n"),
        ("x = 1\n", "   1| x = 1\n", "x = 3\n", "line_numbers", "x = 3\n"),
        ("    x = 1\n", "x = 1\n", "if x:\n    y\n", "indentation", "    if x:\n        y\n"),
        ("    x = 1\n    x = 1\n", "x = 1\n", "y\n", "indentation", "    y\n    x = 1\n"),
        ("    x = 1\n", "x = 1 \n", "x = 3\n", "", ""),  # two causes
        ("x = 1\n", "x = 2\n", "x = 3\n", "", ""),
        ("x = 1\n", "X = 1\n", "x = 3\n", "", ""),
    ],
)
def test_an_expected_text_that_is_nearly_there_is_planned(
    desk: OpenWorkspace, there: str, old: str, new: str, cause: str, after: str
) -> None:
    write(desk, there)
    given = {"path": "w.txt", "range": "1", "content": new, "expected_old": old}
    facts = call(desk, "prepare_file_range_edit", **given, apply="never")
    assert text(desk, "w.txt") == there
    if not cause:
        assert facts["error"] == "CONTENT_CHANGED"
        return
    assert facts["hunks"][0]["cause"] == [cause], facts
    assert accepted(desk, facts)["changed"]
    assert text(desk, "w.txt") == after
    write(desk, there)
    at_once = call(desk, "prepare_file_range_edit", **given, apply="auto")
    assert at_once["changed"] is (cause == "indentation" and there.count("x") == 1)


def test_a_correction_lapses_after_ten_minutes(desk: OpenWorkspace) -> None:
    plan = call(desk, "replace_text", path="a.py", old=OLD, new=NEW, apply="never")
    other = call(desk, "replace_text", path="a.py", old="a = 1", new="a = 3", apply="never")
    assert 0 < other["expires_at_ms"] - plan["expires_at_ms"] - 3_000_000 < 60_000


def reviewed(desk: OpenWorkspace, by: str = "bo") -> list[str]:
    """The plans that a member sees: by its tools, and as a reviewer."""
    listed = [str(one["hunk_id"]) for one in call(desk, "list_pending", by=by)["hunks"]]
    assert [one.plan.id for one in desk.desk.review.pending(desk.member(by))] == listed
    return listed


@pytest.mark.parametrize("apply", ["never", "auto"])
@pytest.mark.parametrize("tool", ["replace_text", "apply_blocks", "prepare_batch_edit"])
def test_reviewers_see_a_correction_once_it_is_accepted(
    desk: OpenWorkspace, tool: str, apply: str
) -> None:
    facts = call(desk, tool, by="ann", **AT_ONCE[tool], apply=apply)
    (hunk,) = facts["hunks"]
    hunk_id = hunk["hunk_id"]
    assert hunk["cause"] == ["indentation"]
    is_auto = apply == "auto"
    assert (facts.get("auto_apply") == "declined") is is_auto
    plan = desk.registry.plan(hunk_id, 0)
    assert plan.expires_ms - plan.created_ms == 600_000
    assert reviewed(desk, "ann") == [hunk_id]
    assert reviewed(desk) == []
    review, bo = desk.desk.review, desk.member("bo")
    for look in (
        lambda: review.show(bo, hunk_id),
        lambda: review.reject(bo, hunk_id, "no"),
        lambda: review.extend(bo, hunk_id),
        lambda: desk.desk.show(bo, hunk_id),
    ):
        with pytest.raises(HunkNotFound):
            look()
    answer = call(desk, "apply_file_modification", by="ann", hunk_id=hunk_id)
    assert answer["error"] == "APPROVAL_REQUIRED"
    assert text(desk) == TEXT
    plan = desk.registry.plan(hunk_id, 0)
    assert plan.expires_ms - plan.created_ms == 7 * DAY_MS
    assert reviewed(desk) == [hunk_id]
    shown = review.show(bo, hunk_id)
    review.approve(bo, hunk_id, shown.before, shown.after)
    assert call(desk, "apply_file_modification", by="ann", hunk_id=hunk_id)["status"] == "ok"
    assert text(desk) == DONE


TWO = [("a\n", "A\n"), ("c\n", "C\n")]  # hunks of w.txt, of which the second is misspelled first
PARTS: dict[str, Callable[..., dict[str, Any]]] = {
    "apply_blocks": lambda *pairs: {"text": blocks(*pairs, path="w.txt")},
    "apply_patch": lambda *pairs: {
        "patch": patch(*(signed(*pair) for pair in pairs), path="w.txt")
    },
    "apply_diff": lambda *pairs: {"diff": diffed(*(signed(*pair) for pair in pairs))},
}
MISSPELLED = [TWO[0], ("cee\n", "C\n")]
BOTH = TWINS.replace("a", "A").replace("c", "C")


def kept_of(desk: OpenWorkspace, tool: str, by: str = "local") -> list[str]:
    """The plans of what fits of a patch, of which the second hunk does not."""
    facts = call(desk, tool, by=by, **PARTS[tool](*MISSPELLED), apply="auto")
    assert (facts["error"], [one["hunk"] for one in facts["rejected"]]) == ("PATCH_REJECTED", [2])
    assert text(desk, "w.txt") == TWINS
    return [one["hunk_id"] for one in facts["fits"]]


@pytest.mark.parametrize("tool", PARTS)
def test_what_fits_of_a_refused_patch_is_kept_and_written_with_the_rest(
    desk: OpenWorkspace, tool: str
) -> None:
    answer = desk.call("local", tool, {**PARTS[tool](*MISSPELLED), "apply": "auto"})
    (fits,) = answer.data["fits"]
    hunk_id = fits["hunk_id"]
    assert fits == {
        "hunk_id": hunk_id, "path": "w.txt", "action": "replace", "hunks": [1], "lines": ["1~1"],
    }  # fmt: skip
    assert f'with "with": ["{hunk_id}"]' in answer.text
    done = call(desk, tool, **PARTS[tool](TWO[1]), apply="auto", **{"with": [hunk_id]})
    assert (done["changed"], len(done["hunks"])) == (True, 2), done
    assert len(done["transaction_id"]) == 16
    assert done["diff"].count("diff --git") == 1  # one change of the file
    assert text(desk, "w.txt") == BOTH
    undo = {"edit_id": done["hunks"][0]["edit_id"], "transaction": True}
    assert call(desk, "undo_file_modification", **undo)["changed"]
    assert text(desk, "w.txt") == TWINS


@pytest.mark.parametrize("tool", PARTS)
def test_it_is_planned_with_the_rest_where_plans_are_asked_for(
    desk: OpenWorkspace, tool: str
) -> None:
    kept = kept_of(desk, tool)
    plan = call(desk, tool, **PARTS[tool](TWO[1]), apply="never", **{"with": [*kept, *kept]})
    ids = [one["hunk_id"] for one in plan["hunks"]]
    assert (ids[0], len(ids)) == (kept[0], 2)
    assert text(desk, "w.txt") == TWINS
    assert call(desk, "apply_file_modifications", hunk_ids=ids)["changed"]
    assert text(desk, "w.txt") == BOTH


def test_what_is_kept_is_a_question_to_its_owner_for_ten_minutes(desk: OpenWorkspace) -> None:
    (hunk_id,) = kept_of(desk, "apply_patch", "ann")
    plan = desk.registry.plan(hunk_id, 0)
    assert 600_000 <= plan.expires_ms - plan.created_ms < 660_000
    assert reviewed(desk, "ann") == [hunk_id]
    assert reviewed(desk) == []
    rest = {**PARTS["apply_patch"](TWO[1]), "apply": "auto", "with": [hunk_id]}
    answer = call(desk, "apply_patch", by="ann", **rest)
    assert (answer["status"], answer["error"]) == ("pending", "APPROVAL_REQUIRED")
    assert len(reviewed(desk)) == 2
    assert text(desk, "w.txt") == TWINS


def test_a_patch_that_is_refused_again_keeps_more(desk: OpenWorkspace) -> None:
    (first,) = kept_of(desk, "apply_patch")
    again = patch(signed("d\n", "D\n"), signed("cee\n", "C\n"), path="w.txt")
    facts = call(desk, "apply_patch", patch=again, apply="auto", **{"with": [first]})
    assert facts["error"] == "PATCH_REJECTED"
    told = [(one["hunk_id"] == first, one.get("hunks"), one["lines"]) for one in facts["fits"]]
    assert told == [(True, None, ["1~1"]), (False, [1], ["7~7"])]
    ids = [one["hunk_id"] for one in facts["fits"]]
    rest = {**PARTS["apply_patch"](TWO[1]), "apply": "auto", "with": ids}
    assert call(desk, "apply_patch", **rest)["changed"]
    assert text(desk, "w.txt") == BOTH.replace("d", "D")


def test_a_file_whose_hunk_is_lost_keeps_its_name_and_others_are_kept_whole(
    desk: OpenWorkspace,
) -> None:
    form = (
        "*** Begin Patch\n*** Update File: w.txt\n*** Move to: v.txt\n{}*** Delete File: b.py\n"
        "*** Add File: new.txt\n+n\n*** Update File: t.c\n*** Move to: u.c\n*** End Patch"
    )
    body = "".join(f"@@\n{signed(*pair)}" for pair in MISSPELLED)
    facts = call(desk, "apply_patch", patch=form.format(body), apply="auto")
    told = [(one["path"], one["action"], one.get("lines")) for one in facts["fits"]]
    assert told == [
        ("w.txt", "replace", ["1~1"]),
        ("b.py", "file_delete", None),
        ("new.txt", "append", ["1~1"]),
        ("t.c", "file_move", None),
    ]
    ids = [one["hunk_id"] for one in facts["fits"]]
    rest = "*** Begin Patch\n*** Update File: w.txt\n*** Move to: v.txt\n@@\n-c\n+C\n*** End Patch"
    given = {"patch": rest, "apply": "auto", "with": ids}
    assert "not shown" in call(desk, "apply_patch", **given)["auto_apply_reason"]
    call(desk, "read_file", path="b.py")
    assert call(desk, "apply_patch", **given)["changed"]
    assert text(desk, "v.txt") == BOTH
    assert text(desk, "u.c") == TABS
    assert not Path(desk.root, "b.py").exists()


def test_what_was_corrected_is_sent_again(desk: OpenWorkspace) -> None:
    both = blocks((OLD, NEW)) + blocks(TWO[0], ("zz\n", "y\n"), path="w.txt")
    facts = call(desk, "apply_blocks", text=both, apply="auto")
    assert [one["path"] for one in facts["fits"]] == ["w.txt"]
    assert call(desk, "list_pending")["count"] == 1


def test_a_kept_plan_that_no_longer_fits_refuses_all(desk: OpenWorkspace) -> None:
    kept = kept_of(desk, "apply_patch")
    write(desk, other := TWINS.replace("a", "b"))
    rest = {**PARTS["apply_patch"](TWO[1]), "apply": "auto", "with": kept}
    facts = call(desk, "apply_patch", **rest)
    assert (facts["error"], facts["hunk_id"]) == ("CONTENT_CHANGED", kept[0])
    assert text(desk, "w.txt") == other
    assert [one["hunk_id"] for one in call(desk, "list_pending")["hunks"]] == kept
    write(desk, f"new\n{TWINS}")
    assert call(desk, "apply_patch", **rest)["changed"]
    assert text(desk, "w.txt") == f"new\n{BOTH}"


@each_row("hunk", ["-a\n+B\n", "-a\n-x\n+y\n", "-a\n+A\n"])
def test_a_place_that_a_kept_plan_changes_is_not_changed_beside_it(
    desk: OpenWorkspace, hunk: str
) -> None:
    kept = kept_of(desk, "apply_patch")
    for apply in ("never", "auto"):
        given = {"patch": patch(hunk, path="w.txt"), "apply": apply, "with": kept}
        facts = call(desk, "apply_patch", **given)
        assert (facts["error"], facts["argument"]) == ("INVALID_ARGS", "with")
        assert facts["reason"].startswith(f"has {kept[0]}, which changes a place")
        assert text(desk, "w.txt") == TWINS
    assert [one["hunk_id"] for one in call(desk, "list_pending")["hunks"]] == kept
    call(desk, "discard_hunk", hunk_id=kept[0])


def test_two_insertions_at_one_place_are_refused(desk: OpenWorkspace) -> None:
    insert = patch(" a\n+1\n", "-zz\n+y\n", path="w.txt")
    (kept,) = call(desk, "apply_patch", patch=insert, apply="auto")["fits"]
    other = patch("+2\n x\n b\n", path="w.txt")
    ids = [kept["hunk_id"]]
    facts = call(desk, "apply_patch", patch=other, apply="auto", **{"with": ids})
    assert facts["argument"] == "with"
    assert text(desk, "w.txt") == TWINS


def test_hunks_that_rely_on_the_same_lines_are_refused_as_such(desk: OpenWorkspace) -> None:
    """What stands between two plans is in no file, and is not shown as what is there."""
    kept = kept_of(desk, "apply_patch")
    rest = patch(f" a\n{signed('x', 'y')}", path="w.txt")
    facts = call(desk, "apply_patch", patch=rest, apply="auto", **{"with": kept})
    assert facts["reason"] == "another plan of this call changes lines that it relies on"
    assert "Make one edit of both" in facts["summary"]
    assert not {"current", "version"} & facts.keys()
    assert text(desk, "w.txt") == TWINS
    plan = call(desk, "apply_patch", patch=rest, apply="never", **{"with": kept})
    write(desk, TWINS.replace("a\nx", "a\nz"))  # now it is the file that it does not fit
    ids = [one["hunk_id"] for one in plan["hunks"]]
    facts = call(desk, "apply_file_modifications", hunk_ids=ids)
    assert facts["current"].startswith("1\ta\n2\tz\n"), facts
    assert facts["version"] == call(desk, "read_file", path="w.txt")["version"]


@each_row(
    "hunk_id by error reason",
    [
        ("abcdef12", "local", "HUNK_NOT_FOUND", "unknown"),
        ("kept", "bo", "WRONG_OWNER", None),
        ("12", "local", "INVALID_HUNK_ID", None),
        ("gone", "local", "HUNK_NOT_FOUND", "discarded"),
    ],
)
def test_an_id_that_is_no_plan_of_the_caller_refuses_all(
    desk: OpenWorkspace, hunk_id: str, by: str, error: str, reason: str | None
) -> None:
    (kept,) = kept_of(desk, "apply_patch")
    if hunk_id == "gone":
        call(desk, "discard_hunk", hunk_id=kept)
    count = call(desk, "list_pending")["count"]
    ids = [kept if hunk_id in ("kept", "gone") else hunk_id]
    rest = {**PARTS["apply_patch"](TWO[1]), "apply": "auto", "with": ids}
    facts = call(desk, "apply_patch", by=by, **rest)
    assert (facts["error"], facts.get("reason")) == (error, reason)
    assert text(desk, "w.txt") == TWINS
    assert call(desk, "list_pending")["count"] == count


def test_a_plan_that_cannot_be_kept_is_not_named(
    desk: OpenWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(plan: object) -> None:
        raise Failed("write", "ENOSPC")

    monkeypatch.setattr(desk.desk, "set_aside", refuse)
    facts = call(desk, "apply_patch", **PARTS["apply_patch"](*MISSPELLED), apply="auto")
    assert facts["error"] == "PATCH_REJECTED"
    assert "fits" not in facts
    assert call(desk, "list_pending")["count"] == 0


def test_a_kept_plan_that_is_planned_with_the_rest_is_like_any_other(desk: OpenWorkspace) -> None:
    """Else reviewers see, and may let write, the half of a patch."""
    kept = kept_of(desk, "apply_patch", "ann")
    rest = {**PARTS["apply_patch"](TWO[1]), "apply": "never", "with": kept}
    plan = call(desk, "apply_patch", by="ann", **rest)
    ids = [one["hunk_id"] for one in plan["hunks"]]
    assert reviewed(desk) == ids
    first, second = (desk.registry.plan(one, 0) for one in ids)
    assert not first.is_correction
    assert first.expires_ms >= second.expires_ms - 60_000


def test_what_was_kept_before_is_kept_as_long_as_what_is_kept_now(desk: OpenWorkspace) -> None:
    (first,) = kept_of(desk, "apply_patch")
    plan = desk.registry.plan(first, 0)
    desk.registry.put(replace(plan, expires_ms=plan.expires_ms - 500_000))
    again = patch(signed("d\n", "D\n"), signed("cee\n", "C\n"), path="w.txt")
    facts = call(desk, "apply_patch", patch=again, apply="auto", **{"with": [first]})
    old, new = (desk.registry.plan(one["hunk_id"], 0) for one in facts["fits"])
    assert abs(old.expires_ms - new.expires_ms) < 60_000


def test_a_kept_deletion_of_a_file_that_the_diff_showed_is_certain(desk: OpenWorkspace) -> None:
    gone = "--- a/b.py\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-x = 1\n-y = 2\n"
    bad = diffed(signed("cee\n", "C\n"))
    (fits,) = call(desk, "apply_diff", diff=gone + bad, apply="auto")["fits"]
    rest = {"diff": diffed(signed(*TWO[1])), "apply": "auto", "with": [fits["hunk_id"]]}
    assert call(desk, "apply_diff", **rest)["changed"]
    assert not Path(desk.root, "b.py").exists()


@pytest.mark.parametrize("apply", ["never", "auto"])
def test_a_move_that_is_kept_is_not_planned_again(desk: OpenWorkspace, apply: str) -> None:
    form = (
        "*** Begin Patch\n*** Update File: t.c\n*** Move to: u.c\n*** Update File: w.txt\n@@\n"
        "-{}\n+C\n*** End Patch"
    )
    (fits,) = call(desk, "apply_patch", patch=form.format("cee"), apply="auto")["fits"]
    again = {"patch": form.format("c"), "apply": apply, "with": [fits["hunk_id"]]}
    facts = call(desk, "apply_patch", **again)
    assert facts["argument"] == "with", facts
    assert fits["hunk_id"] in facts["reason"]


def test_a_correction_that_was_written_and_undone_waits_for_reviewers(desk: OpenWorkspace) -> None:
    facts = call(desk, "replace_text", by="bo", **AT_ONCE["replace_text"], apply="never")
    hunk_id = facts["hunks"][0]["hunk_id"]
    plan = desk.registry.plan(hunk_id, 0)
    applied = call(desk, "apply_file_modification", by="bo", hunk_id=hunk_id)
    call(desk, "undo_file_modification", by="bo", edit_id=applied["edit_id"])
    desk.desk.review.reopen(desk.member("local"), plan)
    assert reviewed(desk, "local") == [hunk_id]


@pytest.mark.slow
def test_long_files_and_many_misses_are_refused_as_before(desk: OpenWorkspace) -> None:
    write(desk, LONG + "z\n" * (1 << 20))
    assert by_blocks(desk, ("  s1()\n", "  t1()\n"), path="w.txt")["error"] == "PATCH_REJECTED"
    facts = call(desk, "replace_text", path="w.txt", old="\ts1()\n", new="\tt1()\n")
    assert facts["error"] == "PARTIAL_MATCH_FAIL"
    write(desk, "".join(f"    s{number}()\n" for number in range(30)))
    many = [(f"s{number}()\n", "x\n") for number in range(20)]
    facts = call(desk, "apply_blocks", text=blocks(*many, path="w.txt"), apply="never")
    assert facts["status"] == "ok"


PLACED = "if a:\n    x = 5\n    y = 6\nz = 1\n"
BARE, INDENTED = "x = 5\ny = 6\n", "    x = 7\n    y = 8\n"
AS_PLACED: dict[str, dict[str, Any]] = {
    "prepare_file_range_edit": {"range": "2~3", "content": INDENTED, "expected_old": BARE},
    "replace_text": {"old": BARE, "new": INDENTED},
    "apply_blocks": {"text": blocks((BARE, INDENTED), path="w.txt")},
    "apply_patch": {"patch": patch(signed(BARE, INDENTED), path="w.txt")},
    "edit_file": {"edits": [{"oldText": BARE, "newText": INDENTED}]},
    "BatchEdit": {"edits": [{"old_string": BARE, "new_string": INDENTED}]},
}


@pytest.mark.parametrize("tool", AS_PLACED)
def test_a_new_text_that_is_indented_as_the_file_is_not_indented_again(
    desk: OpenWorkspace, tool: str
) -> None:
    """Only the old text was quoted without its indentation: that is planned, and as it was sent."""
    write(desk, PLACED)
    given = {
        **AS_PLACED[tool],
        **({} if "text" in AS_PLACED[tool] or "patch" in AS_PLACED[tool] else {"path": "w.txt"}),
    }
    if tool.startswith(("apply", "prepare", "replace")):
        given["apply"] = "auto"
    desk.call("local", tool, given)
    assert Path(desk.root, "w.txt").read_text() == PLACED, "it is looked at first"
    (plan,) = desk.pending("local")
    assert call(desk, "apply_file_modification", hunk_id=plan.id)["status"] == "ok"
    assert Path(desk.root, "w.txt").read_text() == PLACED.replace("x = 5", "x = 7").replace(
        "y = 6", "y = 8"
    )


@pytest.mark.parametrize("apply", ["never", "auto"])
def test_reviewers_see_a_mixed_patch_whole_or_not_at_all(desk: OpenWorkspace, apply: str) -> None:
    both = blocks(TWO[0], path="w.txt") + blocks((OLD, NEW))
    facts = call(desk, "apply_blocks", by="ann", text=both, apply=apply)
    ids = [one["hunk_id"] for one in facts["hunks"]]
    assert [one.get("cause") for one in facts["hunks"]] == [None, ["indentation"]]
    assert reviewed(desk, "ann") == ids
    assert reviewed(desk) == []
    answer = call(desk, "apply_file_modifications", by="ann", hunk_ids=ids)
    assert answer["error"] == "APPROVAL_REQUIRED"
    assert reviewed(desk) == ids
    assert (text(desk), text(desk, "w.txt")) == (TEXT, TWINS)


def test_what_is_kept_waits_for_a_correction_too(desk: OpenWorkspace) -> None:
    """A plan that others know already is not hidden from them again."""
    kept = kept_of(desk, "apply_blocks", "ann")
    known = call(desk, "apply_blocks", by="ann", text=blocks(TWO[1], path="w.txt"), apply="never")
    (shown,) = (one["hunk_id"] for one in known["hunks"])
    rest = {"text": blocks((OLD, NEW)), "apply": "never", "with": [*kept, shown]}
    facts = call(desk, "apply_blocks", by="ann", **rest)
    assert len(facts["hunks"]) == 3
    assert reviewed(desk) == [shown]
    plan = desk.registry.plan(kept[0], 0)
    assert 600_000 <= plan.expires_ms - plan.created_ms < 660_000


@pytest.mark.parametrize("tool", PARTS)
def test_a_hunk_for_lines_that_a_kept_plan_makes_is_told_so(desk: OpenWorkspace, tool: str) -> None:
    kept = kept_of(desk, tool)
    given = {**PARTS[tool](("A\n", "AA\n")), "apply": "auto", "with": kept}
    facts = call(desk, tool, **given)
    (told,) = facts["rejected"]
    assert (told["path"], told["hunk"], told["reason"]) == ("w.txt", 1, "made_by_kept")
    assert "one hunk" in facts["summary"]
    assert text(desk, "w.txt") == TWINS
    done = call(desk, tool, **PARTS[tool](("a\n", "AA\n")), apply="auto")
    assert done["changed"], done


@pytest.mark.parametrize("tool", PARTS)
def test_a_line_that_another_program_changed_is_not_told_as_made_by_a_kept_plan(
    desk: OpenWorkspace, tool: str
) -> None:
    kept = kept_of(desk, tool)
    write(desk, TWINS.replace("d\n", "D of others\n"))
    facts = call(desk, tool, **PARTS[tool](("d\n", "dd\n")), apply="auto", **{"with": kept})
    (told,) = facts["rejected"]
    assert (told["path"], told["hunk"], told["reason"]) == ("w.txt", 1, "not_found")


@each_row("before", ["", "new\n", "a\nq\n"])
def test_two_insertions_at_one_place_are_refused_in_a_file_that_changed(
    desk: OpenWorkspace, before: str
) -> None:
    write(desk, TWINS)
    insert = patch(" c\n+1\n", "-zz\n+y\n", path="w.txt")
    (kept,) = call(desk, "apply_patch", patch=insert, apply="auto")["fits"]
    write(desk, changed := before + TWINS)
    other = patch("+2\n x\n d\n", path="w.txt")
    for apply in ("never", "auto"):
        given = {"patch": other, "apply": apply, "with": [kept["hunk_id"]]}
        facts = call(desk, "apply_patch", **given)
        assert facts.get("argument") == "with", facts
        assert text(desk, "w.txt") == changed
    elsewhere = patch("-d\n+D\n", path="w.txt")
    given = {"patch": elsewhere, "apply": "auto", "with": [kept["hunk_id"]]}
    assert call(desk, "apply_patch", **given)["changed"]
    assert text(desk, "w.txt") == before + TWINS.replace("c\n", "c\n1\n").replace("d\n", "D\n")


@each_row(
    "given",
    [
        {"old_string": "def f(this):\n        a = 1\n"},
        {"old_string": "return"},
        {"old_string": "def nothing_like_this_at_all(zzz)"},
        {"edits": pairs(("def f(this):\n        a = 1\n", "x"))},
        {"old_string": "  a = 1\n  return a\n"},
    ],
)
def test_the_refusal_of_one_text_names_its_file_before_it_may_be_cut(
    desk: OpenWorkspace, given: dict[str, Any]
) -> None:
    tool = "BatchEdit" if "edits" in given else "Edit"
    arguments = {"path": "./a.py", "new_string": "x", **given}
    if tool == "BatchEdit":
        del arguments["new_string"]
    answer = desk.call("local", tool, arguments)
    assert answer.is_error
    assert '"a.py"' in answer.text[:300] or "a.py:" in answer.text[:300], answer.text
    place = next((one for one in answer.facts["failures"][0].get("lines") or ["0"]), "0")
    assert str(place) in answer.text[:300]


def test_the_diff_of_a_correction_is_told_to_be_cut(desk: OpenWorkspace) -> None:
    long = "".join(f"x{number} = {'9' * 60}\n" for number in range(3_000))
    for new in (NEW, long):
        facts = desk.call("local", "Edit", {"path": "a.py", "old_string": OLD, "new_string": new})
        is_cut = new is long
        assert facts.facts["hunk_id"]
        assert facts.facts.get("diff_truncated") is (True if is_cut else None)
        assert (len(str(facts.facts["corrected_diff"])) > 90_000) is is_cut
        assert len(str(facts.facts["corrected_diff"])) <= 100_000
