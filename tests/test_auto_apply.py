"""`apply: "auto"` takes an edit of lines that the member was shown, or gives; else the plan comes."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mcp_types as t
import pytest
from mcp import Client

from copydesk.app.config import Config, MemberConfig
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.desk.outcome import Transacted, Undone
from copydesk.desk.review import Seen
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot
from support.desks import Setup
from support.mcp_calls import settings
from support.mcp_transports import stdio_client
from support.processes import results
from support.redis_servers import RedisServer

Facts = dict[str, Any]

LINES = [f"line {number}" for number in range(1, 61)]
TEXT = "".join(f"{line}\n" for line in LINES)
VERSION = Snapshot.of(TEXT.encode()).version
FILE = RelPath.parse("a.txt")


DESK = Setup(settings(members={name: MemberConfig() for name in ("ann", "bob")}), {"a.txt": TEXT})


def call(desk: OpenWorkspace, tool: str, /, by: str = "ann", **arguments: object) -> Facts:
    return dict(desk.call(by, tool, arguments).data)


def told(desk: OpenWorkspace, tool: str, /, by: str = "ann", **arguments: object) -> Facts:
    """What a call answers that has to do what was asked for."""
    answer = desk.call(by, tool, arguments)
    assert not answer.is_error, answer.text
    answer.text  # noqa: B018 - it is rendered, as for a client
    return dict(answer.data)


def shown(
    desk: OpenWorkspace, version: str = VERSION, by: str = "ann", path: str = "a.txt"
) -> set[int]:
    """The lines, from 1, that the member is known to have been shown."""
    found = desk._backend.bases.shown(by, RelPath.parse(path), version)  # pyright: ignore[reportPrivateUsage] - no tool tells it
    runs = found.runs if found else ()
    return {line + 1 for start, stop in runs for line in range(start, stop)}


def edit(desk: OpenWorkspace, lines: str, version: str = VERSION, **more: object) -> Facts:
    """An edit at once that shows nothing."""
    given = {"path": "a.txt", "range": lines, "version": version, "content": "new\n"}
    asked: Facts = {**given, "apply": "auto", "report": "brief", **more}
    return told(desk, "prepare_file_range_edit", **asked)


def written(facts: Facts) -> bool:
    """Whether the edit was made at once; else the plan came back, with a reason."""
    assert ("auto_apply" in facts) != ("edit_id" in facts), facts
    return "edit_id" in facts


def run(first: int, last: int) -> set[int]:
    return set(range(first, last + 1))


Way = Callable[[OpenWorkspace], object]


def asks(tool: str, /, by: str = "ann", **given: Any) -> Way:
    return lambda desk: told(desk, tool, by, **given)


def of_file(tool: str, /, by: str = "ann", **given: Any) -> Way:
    return asks(tool, by, path="a.txt", **given)


def of_brief_plan(**given: Any) -> Way:
    return lambda desk: told(desk, "show_hunk", hunk_id=plan(desk, report="brief"), **given)


EDITOR = "str_replace_based_edit_tool"
READS: dict[str, tuple[Way, set[int]]] = {
    "read_file": (of_file("read_file"), run(1, 60)),
    "read_file, a range": (of_file("read_file", range="5~9"), run(5, 9)),
    "read_file, the end": (of_file("read_file", range="-4~"), run(57, 60)),
    "read_file, cut": (of_file("read_file", max_lines=7), run(1, 7)),
    "Read": (of_file("Read", start_line=8, limit=3), run(8, 10)),
    "read_text_file": (of_file("read_text_file", head=4), run(1, 4)),
    "read_text_file, the end": (of_file("read_text_file", tail=3), run(59, 60)),
    "the editor's view": (of_file(EDITOR, command="view", view_range=[3, 6]), run(3, 6)),
    "ripgrep_snippets": (
        asks("ripgrep_snippets", pattern="line [34]2$", context_after=2),
        run(31, 34) | run(41, 44),
    ),
    "ripgrep_fixed": (asks("ripgrep_fixed", literal="line 20", context_before=2), run(18, 21)),
    "ripgrep_search": (
        asks("ripgrep_search", pattern="line 2[67]", rg_args=["-C", "1"]),
        run(25, 28),
    ),
    "ripgrep_files": (asks("ripgrep_files", pattern="line"), set()),
    "ripgrep_count": (asks("ripgrep_count", pattern="line"), set()),
    "nothing": (lambda d: None, set()),
    "another member's reading": (of_file("read_file", "bob"), set()),
}


PLAN = {"path": "a.txt", "range": "20~22", "content": "new\n"}


def plan(desk: OpenWorkspace, **more: object) -> str:
    return str(told(desk, "prepare_file_range_edit", "ann", **{**PLAN, **more})["hunk_id"])


def stale(desk: OpenWorkspace, tool: str = "prepare_file_range_edit", **given: object) -> None:
    """A call by a version that nobody knows; the file is as it was."""
    asked: Facts = {"path": "a.txt", "range": "30", "content": "x", "version": "0" * 12, **given}
    assert call(desk, tool, **asked)["error"] == "STALE_READ"


def rejected(desk: OpenWorkspace) -> None:
    """An apply that the file refuses, since others changed the line; they put it back then."""
    hunk_id, file = plan(desk, range="20", report="brief"), Path(desk.root) / "a.txt"
    file.write_text(TEXT.replace("line 20\n", "theirs\n"))
    answer = desk.call("ann", "apply_file_modification", {"hunk_id": hunk_id})
    assert answer.is_error
    version = str(answer.data["version"])
    assert shown(desk, version) == run(17, 23)
    file.write_text(TEXT)


BLOCK = {"start_anchor": "line 50", "end_anchor": "line 52"}
TEXTS = [{"old_string": f"line {n}\n", "new_string": "x\n"} for n in (10, 40)]
ONE_CHANGED = "".join(f"{x}\n" for x in ["x", *LINES[10:39]])
ANSWERS: dict[str, tuple[Way, set[int]]] = {
    "a plan": (plan, run(17, 25)),
    "a brief plan": (lambda d: plan(d, report="brief"), set()),
    "a plan that changes nothing": (lambda d: plan(d, range="30", content="line 30"), run(27, 33)),
    "a long plan": (lambda d: plan(d, range="20~39", content=""), run(17, 42)),
    "a long plan that changes one line": (
        lambda d: plan(d, range="10~39", content=ONE_CHANGED),
        run(7, 14) | run(37, 42),
    ),
    "a plan of an insertion": (
        of_file("prepare_file_insert_after", anchor="line 50", content="x\n"),
        run(48, 53),
    ),
    "a plan of an append": (of_file("prepare_file_append", content="x\n"), run(58, 60)),
    "a plan of a block": (
        of_file("prepare_file_block_replace", **BLOCK, content="x\n"),
        run(48, 54),
    ),
    "a plan of several texts": (
        of_file("prepare_batch_edit", edits=TEXTS),
        run(7, 13) | run(37, 43),
    ),
    "a dry run": (of_file("Edit", old_string="line 33", new_string="x", dry_run=True), run(30, 36)),
    "show_hunk": (of_brief_plan(), run(17, 25)),
    "show_hunk, some lines": (of_brief_plan(range="5~6"), run(17, 18)),
    "a version that is not known": (stale, run(27, 33)),
    "an expectation that is wrong": (
        lambda d: call(d, "prepare_file_range_edit", **PLAN, expected_old="other\n"),
        run(17, 25),
    ),
    "an apply that the file refuses": (rejected, set()),
}
WAYS = READS | ANSWERS


@pytest.mark.parametrize("way", WAYS)
def test_an_edit_of_lines_that_were_read_is_made_at_once(desk: OpenWorkspace, way: str) -> None:
    """Edits of shown lines are made at once, of any other line they are not."""
    call_it, lines = WAYS[way]
    call_it(desk)
    assert shown(desk) == lines
    beside = min(run(1, 61) - lines - {61}, default=0)
    if beside:
        found = edit(desk, str(beside))
        assert not written(found)
        assert f"lines {beside}~{beside} of version {VERSION}" in found["auto_apply_reason"]
    if lines:
        assert written(edit(desk, str(max(lines))))


def test_a_version_alone_proves_nothing(desk: OpenWorkspace, tmp_path: Path) -> None:
    for lines in ("3", "~", "2~4"):
        found = edit(desk, lines)
        assert not written(found)
        assert "were not shown to you" in found["auto_apply_reason"]
    assert (tmp_path / "a.txt").read_text() == TEXT
    given = {"path": "a.txt", "range": "3~5", "version": VERSION, "apply": "auto", "content": ""}
    text = desk.call("ann", "prepare_file_range_edit", given, lang="zh").text
    assert f"第 3~5 行在版本 {VERSION} 中未曾展示给你" in text
    assert written(edit(desk, "33~34", expected_old="line 33\nline 34\n")), "that is proof enough"
    assert written(edit(desk, "9", version="", expected_old="line 9"))


def test_of_several_ranges_each_must_have_been_shown(desk: OpenWorkspace, tmp_path: Path) -> None:
    told(desk, "read_file", path="a.txt", range="10~20")

    def several(*ranges: str, version: str = VERSION, **more: object) -> Facts:
        edits = [{"range": each, "content": f"for {each}\n", **more} for each in ranges]
        given: Facts = {"path": "a.txt", "edits": edits, "version": version}
        return told(desk, "prepare_file_range_edit", **given, apply="auto", report="brief")

    refused = several("19~21", "10~12", "40", "15")
    assert not written(refused)
    assert "lines 21~21, 40~40 of" in refused["auto_apply_reason"]
    done = several("20", "10~12", "15", "61~")
    assert written(done)
    assert shown(desk, done["version"]) == run(10, 18) | {59}
    assert (tmp_path / "a.txt").read_text().split("\n")[9:11] == ["for 10~12", "line 13"]


def test_a_range_around_several_edits_deletes_nothing(desk: OpenWorkspace, tmp_path: Path) -> None:
    told(desk, "read_file", path="a.txt")
    edits = [{"range": "30", "content": "T"}]
    given: Facts = {"path": "a.txt", "version": VERSION, "edits": edits, "apply": "auto"}
    refused = call(desk, "prepare_file_range_edit", **given, range="3")
    assert (refused["error"], refused["argument"]) == ("INVALID_ARGS", "range")
    assert (tmp_path / "a.txt").read_text() == TEXT
    assert written(told(desk, "prepare_file_range_edit", **given, range="3", content="x"))


@pytest.mark.parametrize("version", ["", VERSION])
def test_a_deletion_is_told_no_arguments_that_it_lacks(desk: OpenWorkspace, version: str) -> None:
    found = told(desk, "prepare_file_delete", path="a.txt", version=version, apply="auto")
    assert not written(found)
    assert "expected_old" not in found["auto_apply_reason"]


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("prepare_file_insert_after", {"anchor": "line 7", "match": "equals"}),
        ("prepare_file_append", {}),
        ("prepare_file_range_edit", {"range": "61~"}),
    ],
)
def test_what_replaces_nothing_needs_no_proof(desk: OpenWorkspace, tool: str, given: Facts) -> None:
    assert written(told(desk, tool, path="a.txt", content="x\n", apply="auto", **given))


def test_of_several_anchors_the_one_that_is_meant_must_have_been_shown(desk: OpenWorkspace) -> None:
    told(desk, "read_file", path="a.txt", range="10~12")

    def at(occurrence: str, anchor: str = "line 1", version: str = VERSION) -> Facts:
        given = {"anchor": anchor, "version": version, "occurrence": occurrence, "content": "x\n"}
        return told(desk, "prepare_file_insert_after", path="a.txt", **given, apply="auto")

    refused = at("1")
    assert not written(refused)
    assert f"lines 1~1 of version {VERSION} were not shown" in refused["auto_apply_reason"]
    assert written(at("2"))
    told(desk, "prepare_file_append", path="a.txt", content="line 40\n", apply="auto")
    version = told(desk, "read_file", path="a.txt", range="1")["version"]
    assert "lines 41~41 of" in at("1", "line 40", version)["auto_apply_reason"]


def test_a_deletion_and_the_whole_file(desk: OpenWorkspace) -> None:
    told(desk, "read_file", path="a.txt", range="2~60")
    assert not written(edit(desk, "~"))
    assert not written(edit(desk, "1~2", content=""))
    assert "lines 1~1 of" in edit(desk, "~9")["auto_apply_reason"]
    assert written(edit(desk, "2~3", content=""))
    told(desk, "read_file", path="a.txt", range="1")
    version = told(desk, "read_file", path="a.txt", range="1")["version"]
    assert written(edit(desk, "~", version=version))


def test_a_block_is_taken_when_what_is_between_the_anchors_was_shown(desk: OpenWorkspace) -> None:
    told(desk, "ripgrep_search", pattern="line 1[024]$")

    def block(end: str, **more: object) -> Facts:
        given: Facts = {"path": "a.txt", "start_anchor": "line 10", "match": "equals"}
        given |= {"version": VERSION, "content": "x\n", "apply": "auto", "report": "brief"}
        return told(desk, "prepare_file_block_replace", **{**given, **more}, end_anchor=end)

    assert not written(block("line 12"))
    told(desk, "read_file", path="a.txt", range="11")
    inner = block("line 12")
    assert written(inner)
    outer: Facts = {"version": inner["version"], "include_anchors": False}
    assert not written(block("line 14", **outer))
    assert written(block("line 12", **outer))


def test_a_report_shows_its_lines_in_the_new_version(desk: OpenWorkspace, tmp_path: Path) -> None:
    hunk_id = plan(desk, content="one\ntwo\n")
    done = told(desk, "apply_file_modification", hunk_id=hunk_id)
    # what its plan showed is carried, and what it wrote is its own
    assert shown(desk, done["version"]) == run(17, 24)
    (tmp_path / "a.txt").write_text(TEXT)
    drifted = plan(desk, range="40", report="brief")
    (tmp_path / "a.txt").write_text(f"top\n{TEXT}")
    done = told(desk, "apply_file_modification", hunk_id=drifted)
    assert shown(desk, done["version"]) == run(38, 44), "a fuzz shows its diff"
    undone = told(desk, "undo_file_modification", edit_id=done["edit_id"], report="full")
    assert shown(desk, undone["version"]) == run(38, 44)
    edit = told(
        desk, "Edit", by="bob", path="a.txt", old_string="line 50", new_string="x", report="full"
    )
    assert shown(desk, edit["data"]["version"], by="bob") == run(48, 54)


def test_a_transaction_shows_each_of_its_files(desk: OpenWorkspace, tmp_path: Path) -> None:
    (tmp_path / "b c.txt").write_text(TEXT)
    hunks = [
        plan(desk, path=path, range=n, report="brief")
        for path, n in (("b c.txt", "30"), ("a.txt", "10"), ("a.txt", "50"))
    ]
    done = told(desk, "apply_file_modifications", hunk_ids=hunks, report="full")
    versions = {row["path"]: row["version"] for row in done["hunks"]}
    assert shown(desk, versions["a.txt"]) == run(7, 13) | run(47, 53)
    assert shown(desk, versions["b c.txt"], path="b c.txt") == run(27, 33)


def test_what_a_budget_leaves_out_was_not_shown(tmp_path: Path) -> None:
    lines = [f"line {number} of many with some more words in it" for number in range(3_000)]
    (tmp_path / "a.txt").write_text("".join(f"{line}\n" for line in lines))
    with open_workspace(str(tmp_path), settings(), shared=False) as desk:
        asked = {"path": "a.txt", "range": "100~2900", "content": "x\n"}
        answer = desk.call("local", "prepare_file_range_edit", asked)
        text = answer.text
        version = str(answer.data["version"])
        known = shown(desk, version, by="local")
        assert known
        assert known == {n for n, line in enumerate(lines, 1) if f"{line}\n" in text}
        assert "left out" in text
        assert not written(
            told(desk, "prepare_file_range_edit", "local", **asked, version=version, apply="auto")
        )


def test_a_second_edit_by_new_numbers_needs_no_reading(desk: OpenWorkspace, tmp_path: Path) -> None:
    told(desk, "read_file", path="a.txt", range="10~20")
    first = edit(desk, "12", content="one\ntwo\nthree\n")
    assert shown(desk, first["version"]) == run(10, 22)
    second = edit(desk, "20~22", version=first["version"], content="")
    assert written(second)
    assert not written(edit(desk, "20", version=second["version"]))
    assert written(edit(desk, "13~14", version=second["version"]))
    left = [*LINES[:11], "one", "new", *LINES[12:17], *LINES[20:]]
    assert (tmp_path / "a.txt").read_text() == "".join(f"{line}\n" for line in left)


def test_of_an_older_version_its_own_lines_were_shown(desk: OpenWorkspace, tmp_path: Path) -> None:
    """Others write meanwhile; the edit is carried, and so is not what they wrote."""
    told(desk, "read_file", path="a.txt", range="10~20")
    (tmp_path / "a.txt").write_text(f"theirs\n{TEXT}")
    assert not written(edit(desk, "21"))
    done = edit(desk, "15~16")
    assert written(done)
    assert shown(desk, done["version"]) == {16}, "of the text that was written to it knows no more"
    assert not written(edit(desk, "1", version=done["version"]))
    assert (tmp_path / "a.txt").read_text().split("\n")[14:17] == ["line 14", "new", "line 17"]


def test_a_version_that_is_still_named_is_remembered(desk: OpenWorkspace) -> None:
    """Also if it was only searched, and many came after it."""
    told(desk, "ripgrep_search", pattern="line")
    assert all(written(edit(desk, str(line))) for line in range(2, 60, 4))


def test_a_line_whose_start_was_shown_is_not_known(desk: OpenWorkspace, tmp_path: Path) -> None:
    long = "x" * 200_000
    (tmp_path / "a.txt").write_text(f"first\n{long}\nlast\n")
    version = told(desk, "read_file", path="a.txt")["version"]
    assert shown(desk, version) == {1}
    told(desk, "read_file", path="a.txt", range="2")
    told(desk, "ripgrep_snippets", pattern="x+")
    assert not written(edit(desk, "2", version=version))
    assert shown(desk, version) == {1, 3}, "the last one is context"


def test_crlf_and_a_last_line_without_newline(desk: OpenWorkspace, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"a\r\nb\r\nc\r\nd")
    told(desk, "ripgrep_search", pattern="b", rg_args=["-A1"])
    version = Snapshot.of(b"a\r\nb\r\nc\r\nd").version
    assert shown(desk, version) == {2, 3}
    done = edit(desk, "2", version=version, content="B\n")
    assert written(done)
    assert (tmp_path / "a.txt").read_bytes() == b"a\r\nB\r\nc\r\nd\r\n"
    assert shown(desk, done["version"]) == {2, 3}, "the newline at the end shows no line"
    assert not written(edit(desk, "4", version=done["version"]))


def test_what_a_member_wrote_it_knows(desk: OpenWorkspace) -> None:
    made = told(desk, "create_new_file", path="b.txt", content="one\ntwo\n")
    assert shown(desk, made["version"], path="b.txt") == {1, 2}

    def append(by: str, content: str) -> str:
        given = {"path": "b.txt", "content": content, "apply": "auto"}
        return str(told(desk, "prepare_file_append", by, **given)["version"])

    assert shown(desk, append("ann", "three\n"), path="b.txt") == {1, 2, 3}
    theirs = append("bob", "four\n")
    assert shown(desk, theirs, path="b.txt") == set()
    assert shown(desk, theirs, by="bob", path="b.txt") == {4}


def test_what_an_undo_brings_back_nobody_was_shown(desk: OpenWorkspace) -> None:
    """The old lines come from the journal: a member that is not told them does not know them."""
    first = edit(desk, "20", expected_old="line 20\n", by="bob")
    edit(desk, "40", first["version"], expected_old="line 40\n", by="bob")
    undone = desk.desk.undo(desk.member("ann"), "undo_file_modification", first["edit_id"])
    assert isinstance(undone, Undone)
    assert shown(desk, undone.after.version) == set()


def test_a_batch_knows_what_its_old_texts_give(desk: OpenWorkspace) -> None:
    """Whole lines that were given are known, a line of which a part was given is not."""
    edits = [
        {"old_string": "line 10\nline 11\n", "new_string": "ten\neleven\nand a half\n"},
        {"old_string": "ine 20", "new_string": "ine twenty"},
    ]
    done = told(desk, "prepare_batch_edit", path="a.txt", edits=edits, apply="auto", report="brief")
    assert written(done)
    assert shown(desk, done["version"]) == {10, 11, 12}


def test_what_one_path_showed_is_not_known_of_another(desk: OpenWorkspace, tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text(TEXT)
    told(desk, "read_file", path="b.txt")
    assert not written(edit(desk, "5"))
    (tmp_path / "link").symlink_to("a.txt")
    told(desk, "read_file", path="link")
    assert written(edit(desk, "5"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_auto_takes_what_a_naive_model_says(tmp_path: Path, seed: int) -> None:
    """Readings, searches and edits by the numbers of any version seen, while another one writes.

    The model: a set of members, versions and lines; texts as lists of lines.
    """
    dice = random.Random(seed)
    texts: dict[str, list[str]] = {}
    known: set[tuple[str, str, int]] = set()
    file = tmp_path / "a.txt"

    def current() -> str:
        version = Snapshot.of(file.read_bytes()).version
        texts.setdefault(version, file.read_text().split("\n")[:-1])
        return version

    file.write_text(TEXT)
    named = [current()]
    members = {name: MemberConfig() for name in ("ann", "bob")}
    config = Config(durability="fast", members=members)
    taken = declined = 0
    with open_workspace(str(tmp_path), config, shared=seed % 2 == 0) as desk:
        for step in range(50):
            by, version = dice.choice(["ann", "bob"]), current()
            lines = texts[version]
            first = dice.randrange(1, len(lines) + 1)
            last = min(first + dice.randrange(4), len(lines))
            what = dice.random()
            if what < 0.25:
                told(desk, "read_file", by, path="a.txt", range=f"{first}~{last}")
                known |= {(by, version, line) for line in range(first, last + 1)}
            elif what < 0.35:
                sought = {"pattern": lines[first - 1], "rg_args": ["--fixed-strings"]}
                told(desk, "ripgrep_search", by, path="a.txt", **sought)
                found = [at for at, line in enumerate(lines, 1) if lines[first - 1] in line]
                known |= {(by, version, line) for line in found}
            elif what < 0.42:
                at = dice.randrange(len(lines))
                file.write_text(
                    "".join(f"{one}\n" for one in [*lines[:at], f"drift {step}", *lines[at:]])
                )
                named.append(current())
            else:
                version = dice.choice(named[-3:])
                shown_then = texts[version]
                if dice.random() < 0.7:  # mostly of lines that it was shown
                    mine = [n for m, v, n in known if (m, v) == (by, version)]
                    first = dice.choice(mine or [first])
                first = min(first, len(shown_then))
                last = min(first + dice.randrange(2), len(shown_then))
                new = [f"edit {step} {k}" for k in range(dice.randrange(3))]
                before = current()
                answer = call(
                    desk, "prepare_file_range_edit", by, path="a.txt", version=version,
                    range=f"{first}~{last}", content="".join(f"{one}\n" for one in new),
                    apply="auto", report="brief",
                )  # fmt: skip
                if answer["status"] == "error":
                    assert answer["error"] == "STALE_READ"
                    standing = set(map(int, re.findall(r"(?m)^(\d+)\t", answer.get("current", ""))))
                    known |= {(by, before, line) for line in standing}
                    continue
                seen = all((by, version, n) in known for n in range(first, last + 1))
                assert written(answer) == seen, (step, answer)
                taken, declined = taken + seen, declined + (not seen)
                if not seen:
                    assert current() == before
                    continue
                at = answer["applied_range"]["start"]
                size = last - first + 1
                assert texts[before][at - 1 : at - 1 + size] == shown_then[first - 1 : last]
                after = current()
                assert texts[after] == [
                    *texts[before][: at - 1],
                    *new,
                    *texts[before][at - 1 + size :],
                ]
                moved = len(new) - size
                kept = [n for m, v, n in known if (m, v) == (by, before)]
                known |= {(by, after, n) for n in kept if n < at}
                known |= {(by, after, n + moved) for n in kept if n >= at + size}
                known |= {(by, after, n) for n in range(at, at + len(new))}
                named.append(after)
            assert shown(desk, by=by, version=current()) == {
                n for m, v, n in known if (m, v) == (by, current())
            }, step
    assert taken
    assert declined


# Processes


def text_of(result: t.CallToolResult) -> str:
    return "".join(part.text for part in result.content if isinstance(part, t.TextContent))


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_client_is_taken_at_its_word_for_what_it_was_shown(tmp_path: Path) -> None:
    """Two servers of one workspace, real clients: the one knows what the other has shown."""
    (tmp_path / "a.txt").write_text(TEXT)

    async def ask(client: Client, tool: str, **arguments: object) -> str:
        return text_of(await client.call_tool(tool, {"path": "a.txt", **arguments}))

    async def at_once(client: Client, lines: str, version: str) -> str:
        asked = {"range": lines, "version": version, "content": f"for {lines}\n"}
        return await ask(client, "prepare_file_range_edit", **asked, apply="auto", report="brief")

    async with stdio_client(tmp_path, "auto") as one, stdio_client(tmp_path, "auto") as other:
        read = await ask(one, "read_file", range="10~20")
        assert VERSION in read
        declined = await at_once(one, "20~21", VERSION)  # it waits for what is being remembered
        assert f"lines 21~21 of version {VERSION} were not shown to you" in declined
        first = await at_once(other, "12", VERSION)
        assert "21~21" not in first
        found = re.search(r"version:? .?([0-9a-f]{12})", first)
        assert found is not None
        assert "for 12" in (tmp_path / "a.txt").read_text()
        await at_once(other, "20", found[1])
        assert "for 20" in (tmp_path / "a.txt").read_text()
        assert "were not shown to you" in await at_once(other, "21", found[1])
    with open_workspace(str(tmp_path)) as again:  # another process later
        asked = {"path": "a.txt", "range": "19", "version": VERSION, "content": "late\n"}
        report = again.call("local", "prepare_file_range_edit", {**asked, "apply": "auto"})
        assert "declined" not in report.text
    assert (tmp_path / "a.txt").read_text().split("\n")[17:20] == ["line 18", "late", "for 20"]


def test_a_server_that_forgets_is_no_certainty(tmp_path: Path, redis_server: RedisServer) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    name = redis_server.fresh_name()
    with redis_server.open(tmp_path, name) as one, redis_server.open(tmp_path, name) as other:
        told(one, "read_file", "local", path="a.txt", range="10~20")
        assert shown(one, by="local") == run(10, 20)  # which waits for it
        assert shown(other, by="local") == run(10, 20)

        def at_once(desk: OpenWorkspace, line: int) -> Facts:
            asked = {"path": "a.txt", "range": f"{line}", "version": VERSION, "content": "new\n"}
            return told(
                desk, "prepare_file_range_edit", "local", **asked, apply="auto", report="brief"
            )

        assert written(at_once(other, 12))
        assert not written(at_once(one, 21))
        assert shown(
            other, by="local", version=Snapshot.of((tmp_path / "a.txt").read_bytes()).version
        )
        redis_server.command("FLUSHALL")
        now = (tmp_path / "a.txt").read_text()
        version = Snapshot.of(now.encode()).version
        assert not any(shown(desk, by="local", version=version) for desk in (one, other))
        for desk, line in (one, 5), (other, 15):  # a refusal shows the lines around its own
            asked = {"path": "a.txt", "range": f"{line}", "version": version, "content": "new\n"}
            lost = call(desk, "prepare_file_range_edit", "local", **asked, apply="auto")
            assert lost.get("auto_apply") == "declined", lost
        assert (tmp_path / "a.txt").read_text() == now


@pytest.mark.slow
def test_members_in_many_processes_note_at_once(tmp_path: Path) -> None:
    """What each was shown is there in the end, and nothing else."""
    (tmp_path / "a.txt").write_text(TEXT)
    works = [("read_lines", {"first": first}) for first in (1, 2, 3)]
    results(tmp_path, *works)
    with open_workspace(str(tmp_path), Config(durability="fast")) as desk:
        lines = {first + 6 * k for first in (1, 2, 3) for k in range(10)}
        assert shown(desk, by="local") == lines


def test_a_line_that_was_shown_in_part_is_not_taken(desk: OpenWorkspace, tmp_path: Path) -> None:
    long = "x " * 10_000 + "NEEDLE" + " y" * 10_000
    (tmp_path / "a.txt").write_text(f"one\n{long}\nthree\n")
    done = told(desk, "Edit", path="a.txt", old_string="NEEDLE", new_string="PIN")
    found = edit(desk, "2", done["data"]["version"])
    assert not written(found)
    assert "lines 2~2" in str(found["auto_apply_reason"])


def test_of_a_transaction_each_member_knows_the_lines_that_it_wrote(desk: OpenWorkspace) -> None:
    """Not those of another one, nor its own that a reviewer gave another text."""

    def planned(by: str, line: int) -> str:
        given = {"path": "a.txt", "range": str(line), "content": "new\n", "report": "brief"}
        return str(told(desk, "prepare_file_range_edit", by=by, **given)["hunk_id"])

    review, bob = desk.desk.review, desk.member("bob")
    hunks = [planned("ann", 5), planned("bob", 9), planned("ann", 20)]
    review.amend(bob, hunks[2], "other\n")
    found = [review.show(bob, hunk) for hunk in hunks]
    done = review.apply(bob, [Seen(one.plan.id, one.before, one.after) for one in found])
    assert isinstance(done, Transacted), done
    (version,) = set(done.versions.values())
    assert {by: shown(desk, version, by) & {5, 9, 20} for by in ("ann", "bob")} == {
        "ann": {5},
        "bob": {9},
    }


def test_a_block_between_unique_anchors_is_certain(desk: OpenWorkspace) -> None:
    """What is replaced is named by its two ends; no version is needed, and none has been read."""
    block: Facts = {"path": "a.txt", "content": "x\n", "match": "equals", "apply": "auto"}
    between = {"start_anchor": "line 10", "end_anchor": "line 12"}
    assert written(told(desk, "prepare_file_block_replace", **block, **between))
    several = {"start_anchor": "line", "end_anchor": "line 40", "occurrence": 1, "strict": False}
    loose = {**block, "match": "contains", **several}
    assert not written(told(desk, "prepare_file_block_replace", **loose))
