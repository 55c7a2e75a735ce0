"""Edits that another program overwrote: found after an answer, told with the next one, once."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from copydesk import Desk
from copydesk.app.cli import main
from copydesk.app.config import Config, MemberConfig
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.desk import overwritten
from copydesk.desk.changes import TextStep
from copydesk.desk.outcome import Applied
from copydesk.edit.request import RangeEdit
from copydesk.errors import ContentChanged, Failed
from copydesk.store.protocol import Document
from copydesk.text.relpath import RelPath
from copydesk.tools.report import Answer, Lang
from support.desks import Setup

CODE = """\
import os


def total(prices, rates):
    found = 0
    for price in prices:
        found += price
    return found


def shout(words):
    if words:
        print(" ".join(words))


def main():
    shout(["a", "b"])
    print(total([1, 2], []))
"""
AUTO = Config(members={"local": MemberConfig(apply="auto"), "other": MemberConfig(apply="auto")})
DESK = Setup(AUTO, {"a.py": CODE, "b.py": CODE, "c.py": CODE}, stores=("shared",))

OLD = "        found += price\n"
NEW = "        found += price * rates.get(price, default_rate)\n"


def ask(desk: OpenWorkspace, tool: str = "replace_text", by: str = "local", **given: Any) -> Answer:
    """A tool's answer; then the look at the files that follows it has been."""
    answer = desk.call(by, tool, given)
    desk.desk.overwrites.look()
    return answer


def edit(
    desk: OpenWorkspace, old: str = OLD, new: str = NEW, path: str = "a.py", by: str = "local"
) -> int:
    return int(ask(desk, by=by, path=path, old=old, new=new).data["edit_id"])


def listed(desk: OpenWorkspace, lang: Lang = "en") -> Answer:
    """The answer after a look at the files."""
    desk.desk.overwrites.look()
    return desk.call("local", "list_edits", {}, lang=lang)


def told(desk: OpenWorkspace, by: str = "local") -> list[tuple[int, str, int]]:
    """What the next answer but one tells: edits, paths and lines."""
    desk.desk.overwrites.look()
    rows: Any = ask(desk, "list_edits", by=by).data.get("overwritten", [])
    return [(row["edit_id"], row["path"], row["line"]) for row in rows]


def in_place(path: Path, text: str) -> None:
    with path.open("r+") as file:
        file.truncate()
        file.write(text)


def by_rename(path: Path, text: str) -> None:
    beside = path.with_name("saved")
    beside.write_text(text)
    beside.replace(path)


def save(path: Path, text: str) -> None:
    path.write_text(text)


SAVED: dict[str, tuple[Callable[[Path, str], None], str]] = {
    "autosave of an old buffer": (save, CODE),
    "save by rename": (by_rename, CODE),
    "written in place": (in_place, CODE),
    "old buffer with lines of its own": (save, CODE.replace("import os", "import os\nimport re")),
    "old buffer, changed beside the edit": (
        save,
        CODE.replace("in prices:", "in sorted(prices):").replace("return found", "return -found"),
    ),
    "other function in its place": (save, CODE.replace(OLD, "        found = found.plus(price)\n")),
    "emptied": (save, ""),
    "deleted": (lambda path, _: path.unlink(), ""),
}


def test_an_edit_that_is_gone_is_told_once(desk: OpenWorkspace) -> None:
    for number, (case, (how, text)) in enumerate(SAVED.items()):
        path = Path(desk.root, f"f{number}.py")
        path.write_text(CODE)
        edit_id = edit(desk, path=path.name)
        how(path, text)
        assert told(desk) == [(edit_id, path.name, 7)], case
        assert told(desk) == [], case
        how(path, text) if case != "deleted" else None
        assert told(desk) == [], f"{case}: also when it is saved once more"


def wrapped(text: str) -> str:
    """As a formatter lays out long lines."""
    return text.replace(
        NEW,
        "        found += price * rates.get(\n            price,\n            default_rate,\n        )\n",
    )


def wide(text: str) -> str:
    return re.sub(r"^( +)", r"\1\1", text, flags=re.MULTILINE)


def moved(text: str) -> str:
    """The function with the edit goes to the end."""
    head, function, rest = text.partition(text[text.index("def total") : text.index("def shout")])
    return head + rest + "\n\n" + function


CHANGED: dict[str, Callable[[str], str]] = {
    "append beside": lambda text: text + "\n\nmain()\n",
    "line before": lambda text: "#!/usr/bin/python\n" + text,
    "lines moved": moved,
    "re-indented": wide,
    "tabs": lambda text: text.replace("    ", "\t"),
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "laid out by a formatter": wrapped,
    "quotes": lambda text: text.replace('"', "'"),
    "a word corrected": lambda text: text.replace("default_rate", "usual_rate"),
    "line after it removed": lambda text: text.replace("    return found\n", ""),
    "nothing": lambda text: text,
    "most words renamed": lambda text: re.sub(r"\bprice\b", "cost", text).replace("rate", "fee"),
    "renamed and moved": lambda text: "\n\n" + moved(text.replace("price", "cost")),
    "several names, each everywhere": lambda text: re.sub(
        "price|rates|found|default", lambda name: name[0] + "_of_it", text
    ),
}


@pytest.mark.slow
def test_an_edit_that_is_there_is_not_told(desk: OpenWorkspace) -> None:
    for number, (case, change) in enumerate(CHANGED.items()):
        path = Path(desk.root, f"f{number}.py")
        path.write_text(CODE)
        edit(desk, path=path.name)
        path.write_bytes(change(path.read_text()).encode())
        assert told(desk) == [], case


@pytest.mark.parametrize(("old", "new", "line"), [
    ("    print(total([1, 2], []))\n", "", 18),
    ("import os\n", "import os\nimport re\n", 2),
    ("if words:", "if not words:", 12),
    ("found += price", "found -= price", 7),
    ("def shout(words):\n", "def shout(words):\n\n", None),
], ids=["deletion", "insertion", "a word", "a sign", "a blank line"])  # fmt: skip
def test_a_small_edit_is_told_but_no_blank_line(
    desk: OpenWorkspace, old: str, new: str, line: int | None
) -> None:
    edit_id = edit(desk, old, new)
    Path(desk.root, "a.py").write_text(CODE.replace("return found", "return found + 1"))
    assert told(desk) == ([(edit_id, "a.py", line)] if line else [])


def test_a_corrected_word_is_no_overwritten_edit(desk: OpenWorkspace) -> None:
    edit(desk, "if words:", "if not words:")
    Path(desk.root, "a.py").write_text(CODE.replace("if words:", "if only(words):"))
    assert told(desk) == []


def test_what_a_member_undid_is_not_told(desk: OpenWorkspace) -> None:
    edit_id = edit(desk)
    assert not ask(desk, "undo_file_modification", edit_id=edit_id).is_error
    assert told(desk) == []
    Path(desk.root, "a.py").write_text(CODE + "\n\nmain()\n")
    assert told(desk) == []


def test_what_another_member_changed_is_not_told(desk: OpenWorkspace) -> None:
    edit(desk)
    later = edit(desk, NEW, OLD.replace("price", "2 * amount_of(price)"), by="other")
    assert told(desk) == told(desk, "other") == []
    Path(desk.root, "a.py").write_text(CODE)
    assert told(desk, "other") == [(later, "a.py", 7)], "each is told of its own"
    assert told(desk) == []


def test_one_save_is_one_line(desk: OpenWorkspace) -> None:
    first = edit(desk)
    second = edit(desk, "import os\n", "import os\nimport re\nimport sys\n")
    Path(desk.root, "a.py").write_text(CODE)
    text = listed(desk).text
    lines = [line for line in text.splitlines() if "overwritten by another program" in line]
    assert len(lines) == 1
    assert f"edits {first}, {second} in a.py:9 were overwritten by another program at " in lines[0]
    assert f'undo_file_modification({{"edit_id": {first}, "again": true}})' in lines[0]


def test_a_file_that_was_removed_is_called_so(desk: OpenWorkspace) -> None:
    edit_id = edit(desk)
    Path(desk.root, "a.py").unlink()
    answer = listed(desk)
    said = f"a.py, with what edit {edit_id} wrote, was removed by another program at "
    assert said in answer.text
    rows: Any = answer.data["overwritten"]
    assert rows[0]["removed"] is True


def test_many_files_at_once_are_one_line(desk: OpenWorkspace) -> None:
    for name in "abc":
        edit(desk, path=f"{name}.py")
    for name in "abc":
        Path(desk.root, f"{name}.py").unlink()
    (line,) = (one for one in listed(desk).text.splitlines() if "overwr" in one)
    assert "3 edits in 3 files were overwritten by another program at " in line


ANY = ("read_file", "Read", "read_text_file", "list_allowed_directories", "listNotebooks")


@pytest.mark.parametrize("tool", ANY)
def test_every_kind_of_answer_tells_it(desk: OpenWorkspace, tool: str) -> None:
    edit_id = edit(desk)
    Path(desk.root, "a.py").write_text(CODE)
    desk.desk.overwrites.look()
    takes_path = "path" in desk.catalog.named(tool).schema["properties"]
    answer = desk.call("local", tool, {"path": "b.py"} if takes_path else {})
    assert not answer.is_error
    said = " ".join([answer.text, json.dumps(answer.data), *answer.notices])
    assert f"edit {edit_id} in a.py:7 was overwritten by another program" in said


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_it_is_told_in_both_languages(desk: OpenWorkspace, lang: Lang) -> None:
    edit_id = edit(desk)
    Path(desk.root, "a.py").write_text(CODE)
    text = listed(desk, lang).text
    back = f'undo_file_modification({{"edit_id": {edit_id}, "again": true}})'
    assert back in text
    if lang == "zh":
        assert "被另一个程序覆盖" in text
    else:
        when = r"overwritten by another program at \d\d:\d\d; "
        assert re.search(
            rf"edit {edit_id} in a\.py:7 was {when}{re.escape(back)} puts it back", text
        )


def test_who_may_not_read_the_file_is_told_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(CODE)
    with open_workspace(str(tmp_path), AUTO) as opened:
        edit(opened)
    (tmp_path / "a.py").write_text(CODE)
    hidden = {**AUTO.members, "local": MemberConfig({"no_read_file_ext_names": ("py",)})}
    with open_workspace(str(tmp_path), Config(members=hidden)) as opened:
        assert told(opened) == []
        assert opened.desk.overwrites.of(opened.member("local")) == ()
        assert len(opened.desk.overwrites.of(opened.member("other"))) == 1


def test_it_is_told_by_one_of_several_processes(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(CODE)
    with open_workspace(str(tmp_path), AUTO) as one, open_workspace(str(tmp_path), AUTO) as other:
        edit_id = edit(one)
        (tmp_path / "a.py").write_text(CODE)
        one.desk.overwrites.look()
        other.desk.overwrites.look()
        assert told(other) == [(edit_id, "a.py", 7)]
        assert told(one) == told(other) == []
    with open_workspace(str(tmp_path), AUTO) as later:
        assert told(later) == []
        assert [each.entry.edit_id for each in later.desk.overwrites.of(later.member("local"))] == [
            edit_id
        ]


def test_edits_of_a_process_that_has_ended_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(CODE)
    with open_workspace(str(tmp_path), AUTO) as ended:
        edit_id = edit(ended)
    (tmp_path / "a.py").write_text(CODE)
    with open_workspace(str(tmp_path), AUTO) as opened:
        assert told(opened) == [(edit_id, "a.py", 7)]


def test_a_look_follows_each_answer(tmp_path: Path) -> None:
    """A process that ends at once looks before it ends."""
    (tmp_path / "a.py").write_text(CODE)
    with open_workspace(str(tmp_path), AUTO) as opened:
        given = {"path": "a.py", "old": OLD, "new": NEW}
        edit_id = opened.call("local", "replace_text", given).data["edit_id"]
        (tmp_path / "a.py").write_text(CODE)
    with open_workspace(str(tmp_path), AUTO) as opened:
        rows: Any = opened.call("local", "list_edits", {}).data["overwritten"]
        assert [row["edit_id"] for row in rows] == [edit_id]


def test_a_call_looks_only_at_what_is_short_where_a_long_file_was_saved_too(
    desk: OpenWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = CODE + "# many words\n" * 6_000
    Path(desk.root, "long.py").write_text(long)
    edit(desk, path="long.py")
    edit_id = edit(desk)
    save(Path(desk.root, "long.py"), long)
    save(Path(desk.root, "a.py"), CODE)
    looked_at: list[str] = []
    looks = overwritten.Overwrites._at

    def at(self: Any, path: RelPath, edited: Any) -> Any:
        looked_at.append(str(path))
        return looks(self, path, edited)

    monkeypatch.setattr(overwritten.Overwrites, "_at", at)
    answer = desk.call("local", "list_edits", {})
    assert looked_at[:1] == ["a.py"]
    assert [row["edit_id"] for row in answer.data["overwritten"]] == [edit_id]  # type: ignore[union-attr,index]
    assert [path for _, path, _ in told(desk)] == ["long.py"]


def test_a_file_whose_hour_is_over_stands_for_no_others(
    desk: OpenWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("a.py", "b.py"):
        edit(desk, path=path)
    looked_at: list[str] = []
    monkeypatch.setattr(
        overwritten.Overwrites, "_at", lambda _, path, __: iter(looked_at.append(str(path)) or ())
    )
    looks = desk.desk.overwrites
    looks._edited[RelPath.parse("a.py")] = looks._edited[RelPath.parse("a.py")]._replace(time_ms=0)
    save(Path(desk.root, "a.py"), CODE)
    looks.look_again()
    assert looked_at == []


def test_no_call_waits_while_others_are_looked_at(desk: OpenWorkspace) -> None:
    edit_id = edit(desk)
    begun, over = threading.Event(), threading.Event()
    soon = desk.desk.overwrites._soon

    def wait() -> None:
        begun.set()
        over.wait(60)

    soon.do(wait)
    other = threading.Thread(target=soon.now)
    other.start()
    assert begun.wait(60)
    save(Path(desk.root, "a.py"), CODE)
    assert "overwritten" not in desk.call("local", "list_edits", {}).data
    over.set()
    other.join()
    assert told(desk) == [(edit_id, "a.py", 7)]


def test_a_save_long_after_the_last_answer_is_told_with_the_next(desk: OpenWorkspace) -> None:
    edit_id = edit(desk)
    save(Path(desk.root, "a.py"), CODE)
    rows: Any = desk.call("local", "list_edits", {}).data["overwritten"]
    assert [row["edit_id"] for row in rows] == [edit_id]


def test_edits_older_than_an_hour_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(CODE)
    now = [1_700_000_000_000]
    with open_workspace(str(tmp_path), AUTO, clock=lambda: now[0]) as opened:
        edit(opened)
        now[0] += 3_601_000
        (tmp_path / "a.py").write_text(CODE)
        assert told(opened) == []
        (tmp_path / "a.py").write_text(CODE.replace(OLD, NEW))
        later = edit(opened, "import os\n", "import os\nimport re\nimport sys\n")
        (tmp_path / "a.py").write_text(CODE)
        assert told(opened) == [(later, "a.py", 2)]


def test_a_save_between_two_edits_is_found_after_the_second(desk: OpenWorkspace) -> None:
    given = {"path": "a.py", "old": OLD, "new": NEW}
    edit_id = desk.call("local", "replace_text", given).data["edit_id"]
    save(Path(desk.root, "a.py"), CODE)
    edit(desk, "import os\n", "import os\nimport re\n")
    assert told(desk) == [(edit_id, "a.py", 7)]


def test_lines_that_edits_had_moved_are_back(desk: OpenWorkspace) -> None:
    """Their words are all there, where they were before."""
    lines = '    if words:\n        print(" ".join(words))\n'
    cut = edit(desk, lines, "    pass\n")
    put = edit(desk, "import os\n", f"import os\n\n\ndef other(words):\n{lines}")
    Path(desk.root, "a.py").write_text(CODE.replace("found = 0", "found = zero"))
    assert [one for one, *_ in told(desk)] == [cut, put]


def test_an_older_text_again_has_none_of_the_edits_since(desk: OpenWorkspace) -> None:
    first = edit(desk, "import os\n", "import os\nimport re\n")
    saved = Path(desk.root, "a.py").read_text()
    blank = edit(desk, "    found = 0\n", "    found = 0\n\n")
    last = edit(desk)
    Path(desk.root, "a.py").write_text(saved)
    assert [one for one, *_ in told(desk)] == [blank, last]
    Path(desk.root, "a.py").write_text(CODE)
    assert [one for one, *_ in told(desk)] == [first]


@pytest.mark.parametrize(
    ("old", "new", "line"), [(OLD, NEW, 7), ("import os\n", "import os\nimport re\n", 2)]
)
def test_an_edit_made_again_by_hand_is_not_told(
    desk: OpenWorkspace, old: str, new: str, line: int
) -> None:
    given = {"path": "a.py", "old": old, "new": new}
    desk.call("local", "replace_text", given)
    Path(desk.root, "a.py").write_text(CODE)
    second = desk.call("local", "replace_text", given).data["edit_id"]
    assert told(desk) == []
    Path(desk.root, "a.py").write_text(CODE + "# theirs\n")
    assert told(desk) == [(second, "a.py", line)]


def test_an_edit_that_is_lost_again_and_again_is_told_each_time(
    desk: OpenWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what was lost before is replayed no more: the look costs the same each time."""
    replayed: list[int | None] = []
    take = overwritten._Losses._take

    def counted(self: Any, step: TextStep, later: TextStep | None) -> None:
        replayed.append(step.edit and step.edit.edit_id)
        take(self, step, later)

    monkeypatch.setattr(overwritten._Losses, "_take", counted)
    for _ in range(4):
        edit_id = edit(desk, "import os\n", "import os\nimport re\n")
        replayed.clear()
        Path(desk.root, "a.py").write_text(CODE)
        assert told(desk) == [(edit_id, "a.py", 2)]
        assert {one for one in replayed if one} == {edit_id}


def test_what_stands_beside_a_lost_edit_is_told_when_it_goes(desk: OpenWorkspace) -> None:
    """An older edit that was not lost with a newer one."""
    older = edit(desk)
    newer = edit(desk, "import os\n", "import os\nimport re\nimport sys\n")
    save(Path(desk.root, "a.py"), CODE.replace(OLD, NEW))
    assert told(desk) == [(newer, "a.py", 2)]
    save(Path(desk.root, "a.py"), CODE)
    assert [one for one, *_ in told(desk)] == [older]


PUT_IN = "    found = 0\n    for thing in things:\n        others.append(thing)\n"


@pytest.mark.parametrize("form", [wide, lambda text: text.replace("    ", "\t")])
def test_what_was_only_laid_out_anew_is_told_when_it_goes(
    desk: OpenWorkspace, form: Callable[[str], str]
) -> None:
    path = Path(desk.root, "a.py")
    edit_id = edit(desk, "    found = 0\n", PUT_IN)
    save(path, form(path.read_text()))
    assert told(desk) == []
    save(path, CODE)
    assert [one for one, *_ in told(desk)] == [edit_id]


def test_what_was_undone_and_made_again_is_told_when_it_goes(desk: OpenWorkspace) -> None:
    path = Path(desk.root, "a.py")
    edit_id = edit(desk, "    found = 0\n", PUT_IN)
    undone = ask(desk, "undo_file_modification", edit_id=edit_id)
    save(path, path.read_text() + "# theirs\n")
    assert told(desk) == []
    ask(desk, "undo_file_modification", edit_id=undone.data["edit_id"])
    save(path, CODE + "# theirs too\n")
    assert [one for one, *_ in told(desk)] == [edit_id]


def test_what_could_not_be_recorded_is_told_later(
    desk: OpenWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    edits = [edit(desk), edit(desk, "import os\n", "import os\nimport re\nimport sys\n")]
    records, path = desk.desk.overwrites._services.records, Path(desk.root, "a.py")

    def full(_: object) -> bool:
        raise Failed("write", "the disk is full")

    save(path, CODE)
    with monkeypatch.context() as patched:
        patched.setattr(type(records), "take", lambda _, said: full(said))
        desk.desk.overwrites.look()
    save(path, CODE + "# theirs\n")
    assert [one for one, *_ in told(desk)] == edits


def test_an_older_text_is_known_though_it_is_replayed_no_more(desk: OpenWorkspace) -> None:
    path = Path(desk.root, "a.py")
    gone = edit(desk, "    found = 0\n", PUT_IN)
    save(path, CODE.replace("    ", "\t"))
    assert [one for one, *_ in told(desk)] == [gone]
    deleting = edit(desk, '\t\tprint(" ".join(words))\n', "")
    save(path, CODE)
    assert [one for one, *_ in told(desk)] == [deleting]


def test_no_call_waits_for_the_look_at_a_large_file(desk: OpenWorkspace) -> None:
    path, large = Path(desk.root, "large.py"), CODE + "# many words\n" * 30_000
    path.write_text(large)
    edit_id = edit(desk, path="large.py")
    save(path, large)
    assert "overwritten" not in desk.call("local", "list_edits", {}).data
    assert told(desk) == [(edit_id, "large.py", 7)]


def test_nor_for_that_of_many_edits(desk: OpenWorkspace) -> None:
    """One that stands keeps those after it from being left out."""
    path, long = Path(desk.root, "long.py"), CODE + "# many words\n" * 2_000
    path.write_text(long)
    edit(desk, path="long.py")
    told_at_once: list[bool] = []
    for number in range(12):
        edit_id = edit(desk, "import os\n", f"import os\nimport re, m{number}\n", path="long.py")
        save(path, long.replace(OLD, NEW))
        at_once: Any = desk.call("local", "list_edits", {}).data.get("overwritten", [])
        later = [] if at_once else told(desk)
        assert [row["edit_id"] for row in at_once] or [one for one, *_ in later] == [edit_id]
        told_at_once.append(bool(at_once))
    assert told_at_once == sorted(told_at_once, reverse=True)
    assert {*told_at_once} == {True, False}


def test_of_equal_lines_those_that_are_gone_are_told(desk: OpenWorkspace) -> None:
    log = "    logger.info(everything, here)\n"
    edit(desk, "    found = 0\n", f"    found = 0\n{log}")
    gone = edit(desk, "def main():\n", f"def main():\n{log}")
    text = Path(desk.root, "a.py").read_text()
    Path(desk.root, "a.py").write_text(
        text.replace(f"def main():\n{log}", "def main(): # theirs\n")
    )
    assert [one for one, *_ in told(desk)] == [gone]


def test_a_file_of_another_name_is_no_lost_one(desk: OpenWorkspace) -> None:
    edit(desk)
    Path(desk.root, "d").mkdir()
    Path(desk.root, "a.py").rename(Path(desk.root, "d", "renamed.py"))
    assert told(desk) == []


# Made again.


def test_an_overwritten_edit_is_made_again_at_its_place(desk: OpenWorkspace) -> None:
    path = Path(desk.root, "a.py")
    edit_id = edit(desk)
    path.write_text("# theirs\n" + CODE.replace("return found", "return found or None"))
    assert told(desk) == [(edit_id, "a.py", 7)]
    again = ask(desk, "undo_file_modification", edit_id=edit_id, again=True)
    assert again.data["changed"] is True
    expected = CODE.replace("return found", "return found or None").replace(OLD, NEW)
    assert path.read_text() == "# theirs\n" + expected
    assert desk.desk.overwrites.of(desk.member("local")) == ()
    path.write_text(CODE)
    assert told(desk) == [(again.data["edit_id"], "a.py", 8)], "the new edit is one of its own"


def test_a_deleted_file_is_made_again_as_it_was(desk: OpenWorkspace) -> None:
    made = ask(desk, "create_new_file", path="new.py", content="x = 1\ny = 2\n")
    edit_id = int(made.data["edit_id"])
    Path(desk.root, "new.py").unlink()
    assert told(desk) == [(edit_id, "new.py", 1)]
    ask(desk, "undo_file_modification", edit_id=edit_id, again=True)
    assert Path(desk.root, "new.py").read_text() == "x = 1\ny = 2\n"


def test_without_its_text_it_is_made_again_where_its_lines_are(
    desk: OpenWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit_id = edit(desk)
    monkeypatch.setattr(desk.desk.history, "text_after", lambda entry, named: None)
    Path(desk.root, "a.py").write_text("# theirs\n" + CODE)
    assert not ask(desk, "undo_file_modification", edit_id=edit_id, again=True).is_error
    assert Path(desk.root, "a.py").read_text() == "# theirs\n" + CODE.replace(OLD, NEW)


def test_a_program_that_was_deleted_is_one_again(desk: OpenWorkspace) -> None:
    head = "diff --git a/run b/run\nnew file mode 100755\n--- /dev/null\n+++ b/run\n"
    made = ask(desk, "apply_diff", diff=f"{head}@@ -0,0 +1 @@\n+#!/bin/sh\n", apply="auto")
    assert os.access(Path(desk.root, "run"), os.X_OK), made.text
    Path(desk.root, "run").unlink()
    ((edit_id, *_),) = told(desk)
    ask(desk, "undo_file_modification", edit_id=edit_id, again=True)
    assert os.access(Path(desk.root, "run"), os.X_OK)


def test_without_auto_it_is_planned(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(CODE)
    with open_workspace(str(tmp_path), Config()) as opened:
        edit_id = edit(opened)
        (tmp_path / "a.py").write_text(CODE)
        again = ask(opened, "undo_file_modification", edit_id=edit_id, again=True)
        assert (tmp_path / "a.py").read_text() == CODE
        ask(opened, "apply_file_modification", hunk_id=again.data["hunk_id"])
        assert (tmp_path / "a.py").read_text() == CODE.replace(OLD, NEW)


def test_what_is_not_certain_is_refused(desk: OpenWorkspace) -> None:
    edit_id = edit(desk)
    other = CODE.replace(OLD, "        found = found.plus(price)\n")
    Path(desk.root, "a.py").write_text(other)
    again = ask(desk, "undo_file_modification", edit_id=edit_id, again=True)
    assert again.data["error"] == "CONTENT_CHANGED"
    assert Path(desk.root, "a.py").read_text() == other


def test_the_library_makes_it_again(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text(CODE)
    with Desk(tmp_path) as desk:
        lines = RangeEdit(desk.path("a.py"), "7", NEW)
        edit_id = desk.apply(desk.prepare(lines, why="rates").id).edit_id
        assert desk.overwritten() == ()
        assert desk.reapply(edit_id) is None, "it stands"
        path.write_text("\n" + CODE)
        (lost,) = desk.overwritten()
        assert (lost.entry.edit_id, str(lost.path), lost.line) == (edit_id, "a.py", 7)
        again = desk.reapply(edit_id)
        assert isinstance(again, Applied)
        assert again.plan.why == "rates"
        assert path.read_text() == "\n" + CODE.replace(OLD, NEW)
        assert desk.overwritten() == ()
        desk.undo(again.edit_id)
        with pytest.raises(ContentChanged) as undone:
            desk.reapply(again.edit_id)
        assert undone.value.undone_by


def test_the_terminal_makes_it_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.py"
    path.write_text(CODE)
    (tmp_path / "copydesk.toml").write_text('apply = "auto"\n')

    def run(*words: str) -> str:
        status = main([words[0], "--root", str(tmp_path), *words[1:]])
        assert status == 0
        return capsys.readouterr().out

    run("call", "replace_text", "--path", "a.py", "--old", OLD, "--new", NEW)
    path.write_text(CODE)
    run("call", "list_edits")
    assert "copydesk reapply 1 puts it back" in run("call", "list_edits")
    run("reapply", "1")
    assert path.read_text() == CODE.replace(OLD, NEW)


# What git does.


def git(root: Path, *words: str) -> None:
    own = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(root), *own, *words], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository of which `main` has CODE, and `renamed` the same file by another name."""
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / ".gitignore").write_text(".copydesk/\n")
    for name in "abc":
        (tmp_path / f"{name}.py").write_text(CODE)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    git(tmp_path, "checkout", "-qb", "renamed")
    git(tmp_path, "mv", "a.py", "z.py")
    git(tmp_path, "commit", "-qm", "renamed")
    git(tmp_path, "checkout", "-q", "main")
    return tmp_path


def test_a_checkout_of_another_branch_loses_nothing(repository: Path) -> None:
    with open_workspace(str(repository), AUTO) as desk:
        git(repository, "checkout", "-qb", "work")
        edit(desk)
        edit(desk, path="b.py")
        git(repository, "commit", "-qam", "done")
        for branch in ("main", "renamed", "work", "renamed"):
            git(repository, "checkout", "-q", branch)
            assert told(desk) == []


def test_a_merge_and_a_formatter_lose_nothing(repository: Path) -> None:
    with open_workspace(str(repository), AUTO) as desk:
        git(repository, "checkout", "-qb", "theirs")
        theirs = CODE.replace("def main():", "def main(words=()):").replace(
            "import os", "import re"
        )
        (repository / "a.py").write_text(theirs)
        git(repository, "commit", "-qam", "theirs")
        git(repository, "checkout", "-q", "main")
        edit(desk)
        git(repository, "commit", "-qam", "ours")
        git(repository, "merge", "-q", "theirs")
        assert told(desk) == []
        (repository / "a.py").write_text(wide((repository / "a.py").read_text()))
        assert told(desk) == []
        git(repository, "commit", "-qam", "formatted")
        git(repository, "checkout", "-q", "renamed")
        assert told(desk) == []


def test_what_was_committed_with_a_persons_lines_is_not_lost(repository: Path) -> None:
    with open_workspace(str(repository), AUTO) as desk:
        git(repository, "checkout", "-qb", "work")
        edit(desk)
        with (repository / "a.py").open("a") as file:
            file.write("# theirs\n")
        assert told(desk) == []
        git(repository, "commit", "-qam", "done")
        git(repository, "checkout", "-q", "main")
        assert told(desk) == []


def test_a_checkout_that_throws_edits_away_is_one_line(repository: Path) -> None:
    with open_workspace(str(repository), AUTO) as desk:
        ids = [edit(desk, path=f"{name}.py") for name in "abc"]
        git(repository, "checkout", "-q", "--", ".")
        answer = listed(desk)
        rows: Any = answer.data["overwritten"]
        assert [row["edit_id"] for row in rows] == ids
        assert answer.text.count("overwritten by another program") == 1


def test_an_old_buffer_is_told_also_after_a_commit(repository: Path) -> None:
    with open_workspace(str(repository), AUTO) as desk:
        edit_id = edit(desk)
        git(repository, "commit", "-qam", "done")
        (repository / "a.py").write_text(CODE)
        assert told(desk) == [(edit_id, "a.py", 7)]


def test_what_was_stashed_is_not_lost(repository: Path) -> None:
    with open_workspace(str(repository), AUTO) as desk:
        edit(desk)
        git(repository, "stash", "-q")
        assert told(desk) == []
        git(repository, "stash", "pop", "-q")
        assert told(desk) == []


def test_what_was_stashed_is_not_lost_where_git_converts_line_ends(repository: Path) -> None:
    (repository / ".gitattributes").write_text("* text eol=crlf\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "line ends")
    for name in "abc":
        (repository / f"{name}.py").unlink()
    git(repository, "checkout", "-q", "--", ".")
    assert b"\r\n" in (repository / "a.py").read_bytes()
    with open_workspace(str(repository), AUTO) as desk:
        edit(desk)
        git(repository, "stash", "-q")
        assert told(desk) == []
        git(repository, "stash", "pop", "-q")
        assert told(desk) == []
        edit_id = edit(desk, "import os\n", "import os\nimport re\nimport sys\n")
        (repository / "a.py").write_bytes(CODE.replace("\n", "\r\n").encode())
        assert edit_id in [one for one, *_ in told(desk)]


def test_a_name_that_is_the_old_one_again_is_overwritten(desk: OpenWorkspace) -> None:
    """A buffer of before is saved, in which somebody typed a letter into these very lines."""
    old = f"    for price in prices:\n{OLD}"
    new = "    for cost in costs:\n        subtotal += cost\n"
    edit_id = edit(desk, old, new)
    Path(desk.root, "a.py").write_text(CODE.replace("found += price", "found2 += price"))
    assert [one for one, *_ in told(desk)] == [edit_id]


# How files are looked at.


def test_an_edit_that_comes_while_a_file_is_read_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read is older than the edit: it looks as if it had been taken back."""
    (tmp_path / "a.py").write_text(CODE)
    with open_workspace(str(tmp_path), AUTO) as one, open_workspace(str(tmp_path), AUTO) as other:
        edit(one)
        (tmp_path / "a.py").write_text((tmp_path / "a.py").read_text() + "\n")
        read = one.files.read

        def read_and_edit(path: RelPath) -> Document:
            document = read(path)
            monkeypatch.undo()
            edit(other, "import os\n", "import os\nimport re\nimport sys\n")
            return document

        monkeypatch.setattr(one.files, "read", read_and_edit)
        assert told(one) == []


def test_a_file_that_is_being_written_is_looked_at_later(desk: OpenWorkspace) -> None:
    edit_id = edit(desk)
    entry = desk.journal.get(edit_id)
    assert entry is not None
    begun = desk.journal.open(replace(entry, edit_id=0, state="open"))
    Path(desk.root, "a.py").write_text(CODE)
    assert told(desk) == []
    desk.journal.close_all([begun], "failed")
    assert told(desk) == [(edit_id, "a.py", 7)]


def test_an_edit_that_is_recorded_before_it_is_written_is_not_lost(
    desk: OpenWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(desk)
    path, read = Path(desk.root, "a.py"), desk.files.read
    written = path.read_text()
    path.write_text(CODE)

    def read_and_write(name: RelPath) -> Document:
        document = read(name)
        path.write_text(written)
        return document

    monkeypatch.setattr(desk.files, "read", read_and_write)
    assert told(desk) == []


def test_few_files_are_looked_at_and_read_only_when_they_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_workspace(str(tmp_path), AUTO) as opened:
        for number in range(40):
            given = {"path": f"{number}.py", "content": CODE}
            assert not opened.call("local", "create_new_file", given).is_error
        opened.desk.overwrites.look()
        read, stat = list[RelPath](), list[RelPath]()
        files = type(opened.files)
        reads, stats = files.read, files.peek
        for name, seen, real in (("read", read, reads), ("peek", stat, stats)):
            monkeypatch.setattr(files, name, lambda s, p, o=seen, r=real: o.append(p) or r(s, p))
        until = time.monotonic() + 20
        while (read or not stat) and time.monotonic() < until:  # until their times tell
            read.clear()
            stat.clear()
            opened.desk.overwrites.look()
        assert not read
        assert len(stat) == 32
        (tmp_path / "39.py").write_text(CODE + "\n")
        opened.desk.overwrites.look()
        assert [str(path) for path in read if path.parts[0].endswith(".py")] == ["39.py"]


def test_each_file_of_the_last_hour_has_its_turn(
    desk: OpenWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"z{number}.py" for number in range(45)]
    for name in names:
        save(Path(desk.root, name), CODE)
    edits = {name: edit(desk, path=name) for name in names}
    lost = "z0.py", "z5.py", "z44.py"
    for name in lost:
        save(Path(desk.root, name), CODE)
    stat, real = list[RelPath](), type(desk.files).peek
    monkeypatch.setattr(type(desk.files), "peek", lambda s, p: stat.append(p) or real(s, p))
    seen = set[RelPath]()
    for _ in range(2):
        stat.clear()
        desk.desk.overwrites.look()
        assert len({*stat}) == 32
        seen.update(stat)
    assert len(seen) == 45
    stat.clear()
    rows: Any = desk.call("local", "list_edits", {}).data["overwritten"]
    assert len({*stat}) == 32, "a call stats no more than a look"
    assert [row["edit_id"] for row in rows] == [edits[name] for name in lost]


def test_of_many_files_that_are_gone_each_is_told(tmp_path: Path) -> None:
    """Also by a process that began after they were edited."""
    names = [f"z{number}.py" for number in range(40)]
    with open_workspace(str(tmp_path), AUTO) as opened:
        for name in names:
            save(tmp_path / name, CODE)
            given = {"path": name, "old": OLD, "new": NEW}
            assert not opened.call("local", "replace_text", given).is_error
    for name in names:
        save(tmp_path / name, CODE)
    with open_workspace(str(tmp_path), AUTO) as opened:
        rows = [path for _ in range(2) for _, path, _ in told(opened)]
        assert sorted(rows) == sorted(names)


def test_an_edit_is_found_behind_many_others(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(CODE)
    (tmp_path / "b.py").write_text(CODE)
    with open_workspace(str(tmp_path), AUTO) as opened:
        edit_id, other = edit(opened), edit(opened, path="b.py")
        entry = opened.journal.get(other)
        assert entry is not None
        opened.journal.open_all([replace(entry, edit_id=0, kind="notes")] * 600)
    (tmp_path / "a.py").write_text(CODE)
    with open_workspace(str(tmp_path), AUTO) as opened:
        assert told(opened) == [(edit_id, "a.py", 7)]


def test_a_saved_foreign_write_is_no_edit_that_is_overwritten(desk: OpenWorkspace) -> None:
    edit_id = edit(desk)
    ours = Path(desk.root, "a.py").read_bytes()
    desk.desk.foreign.keep(RelPath.parse("a.py"), b"theirs = alone\n", ours, False)
    Path(desk.root, "a.py").write_bytes(ours + b"\n")
    assert told(desk) == []
    Path(desk.root, "a.py").write_text(CODE + "\n")
    assert told(desk) == [(edit_id, "a.py", 7)]
