"""Answers stay within their budget, and say what they leave out."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.app.config import Config, MemberConfig
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.diff import unified
from copydesk.text.sizes import most_tokens
from copydesk.text.sizes import tokens as estimated
from copydesk.text.snapshot import Snapshot
from copydesk.tools.report import (
    Answer,
    Words,
    fit_diff,
    fit_text,
    fits,
    row_tokens,
    within_budget,
)
from support.cost import tokens
from support.desks import Setup

WORDS = Words(lambda first, last: f"<{first}~{last}>", lambda count: f"<{count}>")
GAP = re.compile(r"<(\d+)~(\d+)>")


def check_gaps(whole: str, shown: str, first: int) -> None:
    """Each line that is shown is the line of its number, and the gaps make up for the others."""
    lines = whole.removesuffix("\n").split("\n")
    at = 0
    missing: list[int] = []
    for line in shown.removesuffix("\n").split("\n"):
        gap = GAP.fullmatch(line)
        if gap:
            assert int(gap[1]) == at + 1
            missing.append(at + 1)
            at = int(gap[2])
            continue
        if line != lines[at]:
            assert "<" in line
            missing.append(at + 1)
        at += 1
    assert at == len(lines)
    assert first == min(missing, default=0)


texts = st.lists(st.text("ab中 <", max_size=30), min_size=1, max_size=60).map(
    lambda lines: "".join(f"{line}\n" for line in lines)
)


@given(texts, st.integers(20, 400))
def test_a_text_is_cut_where_it_says(text: str, room: int) -> None:
    shown, first = fit_text(text, room, WORDS)
    if fits(text, room) or not first:
        assert (shown, first) == (text, 0)
    if first:
        check_gaps(text, shown, first)
        assert estimated(shown) <= room + 20


@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(1, 40), st.integers(0, 40)), max_size=6),
    st.integers(200, 4_000),
)
def test_a_diff_keeps_its_heads(edits: list[tuple[int, int, int]], room: int) -> None:
    base = Snapshot.of("".join(f"line {i}\n" for i in range(400)).encode(), None)
    at, made = 0, list[Edit]()
    for start, gone, come in sorted(edits):
        if start >= at:
            new = "".join(f"new {start} {i}\n" for i in range(come)).encode()
            made.append(Edit(base.start(start), base.start(start + gone), new))
            at = start + gone + 1
    diff = unified(base, ChangeSet.of(base.size, made), "a").decode()
    shown, first = fit_diff(diff, room, WORDS)
    if first:
        check_gaps(diff, shown, first)
    else:
        assert shown == diff
    heads = [line for line in diff.split("\n") if line.startswith("@@")]
    if sum(estimated(head) for head in heads) + 100 * len(heads) < room:
        assert [line for line in shown.split("\n") if line.startswith("@@")] == heads
        assert estimated(shown) <= room + 40 * len(heads) + 200


@given(st.text(st.characters(codec=None) | st.sampled_from("ab1_ \n-é中😀")))
def test_no_text_has_more_tokens_than_are_sure_to_suffice(text: str) -> None:
    assert estimated(text) <= most_tokens(text)
    assert estimated(f"{text}\n") <= sum(map(row_tokens, text.split("\n")))


def test_a_line_of_megabytes_shows_what_changes() -> None:
    old = "x " * 2_000_000
    head = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n"
    shown, first = fit_diff(f"{head}-{old}here\n+{old}there\n", 5_000, WORDS)
    assert first == 4
    assert estimated(shown) < 5_000
    assert "here" in shown
    assert "there" in shown


def test_of_long_facts_the_summary_stays_and_what_is_left_out_is_counted() -> None:
    facts: Any = {"of": {"rows": [f"row {n}" for n in range(999)]}, "summary": "in short"}
    assert Answer(facts, budget=500).text.count("in short") == 1
    shown: Any = within_budget(facts, 500)["of"]
    assert len(shown["rows"]) + shown["rows_left_out"] == 999


DESK = Setup()


LONG = "".join(f"value_{i} = compute(alpha={i}, beta='text {i}')\n" for i in range(30_000))


@pytest.mark.parametrize("length", ["full", "brief"])
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("prepare_file_range_edit", {"range": "101~20100", "content": LONG}),
        ("prepare_file_append", {"content": LONG[:400_000]}),
        ("prepare_file_append", {"content": "y" * 3_000_000}),
    ],
)
@pytest.mark.slow
def test_an_answer_stays_within_its_budget(
    desk: OpenWorkspace, tool: str, arguments: dict[str, str], length: str
) -> None:
    Path(desk.root, "a.txt").write_text(LONG)
    plan = desk.call("local", tool, {"path": "a.txt", "report": length, **arguments})
    given = {"hunk_id": plan.data["hunk_id"], "report": length}
    show = desk.call("local", "show_hunk", {"hunk_id": given["hunk_id"]})
    done = desk.call("local", "apply_file_modification", given)
    again = desk.call("local", "undo_file_modification", {"edit_id": done.data["edit_id"], "report": length})  # fmt: skip
    for answer in (plan, show, done, again):
        assert not answer.is_error
        assert tokens(answer.text) <= 4_000
    assert str(given["hunk_id"]) in plan.text[:120]
    assert f"edit {done.data['edit_id']}" in done.text[:200] or length == "full"
    if length == "full":
        assert plan.text.index("apply_file_modification(") < plan.text.index("```diff")


@pytest.mark.slow
def test_what_is_left_out_of_several_diffs_can_be_shown(desk: OpenWorkspace) -> None:
    """Of plans made together and of edits written together: the next step names the first one."""
    for name in "ab":
        Path(desk.root, f"{name}.txt").write_text(LONG[:60_000])
    given = {"path": ".", "old": "compute", "new": "count", "all": True, "apply": "never"}
    hunks: Any = list[dict[str, object]]()

    def calls() -> Iterator[Any]:
        yield (planned := desk.call("local", "replace_text", given))
        hunks.extend(planned.data["hunks"])
        ids = [row["hunk_id"] for row in hunks]
        yield desk.call("local", "apply_file_modifications", {"hunk_ids": ids, "report": "full"})

    for answer in calls():
        assert tokens(answer.text) <= 4_000
        asked = re.search(r"show_hunk\((\{.*?\})\)", answer.text)
        assert asked, answer.text[:500]
        found = desk.call("local", "show_hunk", json.loads(asked[1]))
        assert "a/a.txt" in found.text


@pytest.mark.slow
def test_the_rest_of_a_diff_is_read_in_parts(desk: OpenWorkspace) -> None:
    Path(desk.root, "a.txt").write_text("".join(f"line {i}\n" for i in range(3_000)))
    given = {"path": "a.txt", "range": "10~2900", "content": LONG[:90_000]}
    plan = desk.call("local", "prepare_file_range_edit", given)
    at, parts, calls = 1, list[str](), 0
    while at:
        asked = {"hunk_id": plan.data["hunk_id"], "range": f"{at}~"}
        found = desk.call("local", "show_hunk", asked)
        parts.append(str(found.data["content"]))
        calls += 1
        left = re.search(r'"range": "(\d+)~"', found.text)
        at = int(left[1]) if left else 0
    assert calls > 5
    whole = desk.desk.show(desk.member("local"), str(plan.data["hunk_id"])).draft.diff
    assert "".join(parts).encode() == whole
    Path(desk.root, "b").mkdir()
    (Path(desk.root, "b", "a.txt")).write_bytes(Path(desk.root, "a.txt").read_bytes())
    subprocess.run(["git", "apply", "-p1"], cwd=Path(desk.root, "b"), input=whole, check=True)
    desk.call("local", "apply_file_modification", {"hunk_id": plan.data["hunk_id"]})
    assert (Path(desk.root, "b", "a.txt")).read_bytes() == Path(desk.root, "a.txt").read_bytes()


@pytest.mark.slow
def test_reading_stops_at_the_budget(desk: OpenWorkspace) -> None:
    Path(desk.root, "a.txt").write_text(LONG)
    Path(desk.root, "one.txt").write_text("x" * 10_000_000)
    for path in ("a.txt", "one.txt"):
        given = {"path": path, "max_lines": 5_000}
        answer = desk.call("local", "read_file", given)
        assert answer.data["truncated_by_char_limit"] is True
        assert 10_000 <= tokens(answer.text) <= 13_000 or path == "one.txt"
        assert tokens(str(answer.data["content"])) <= 13_000


@pytest.mark.slow
def test_an_envelope_stays_within_its_budget(desk: OpenWorkspace) -> None:
    Path(desk.root, "a.txt").write_text(LONG)
    edits = [{"old_string": f"valve_{i} = x", "new_string": "x"} for i in range(1_000)]
    answer = desk.call("local", "BatchEdit", {"path": "a.txt", "edits": edits})
    assert tokens(answer.text) <= 4_000
    shown = json.loads(answer.text)["data"]
    failures: Any = answer.data["data"]
    assert len(failures["failures"]) == 1_000
    assert shown["failures"] == failures["failures"][: len(shown["failures"])]
    assert shown["failures_left_out"] == 1_000 - len(shown["failures"])


def test_what_git_cannot_apply_is_for_display(desk: OpenWorkspace) -> None:
    for name, encoded in (("wide.txt", "utf-16"), ("old.txt", "latin-1"), ("plain.txt", "utf-8")):
        (Path(desk.root) / name).write_bytes("één\ntwo\n".encode(encoded))
        given = {"path": name, "range": "1", "content": "eins"}
        answer = desk.call("local", "prepare_file_range_edit", given)
        assert ("for display" in answer.text) is (encoded != "utf-8")


def test_apply_auto_is_a_default(tmp_path: Path) -> None:
    members = {"careful": MemberConfig(apply="never"), "human": MemberConfig(approval="human")}
    config = Config(durability="fast", apply="auto", members=members)
    with open_workspace(str(tmp_path), config, shared=False) as opened:
        given = {"path": "a.txt", "content": "x"}
        assert opened.call("local", "prepare_file_append", given).data["changed"] is True
        for member, more in (("careful", {}), ("human", {}), ("local", {"apply": "never"})):
            plan = opened.call(member, "prepare_file_append", {**given, **more})
            assert "changed" not in plan.data
            assert isinstance(plan, Answer)
            assert plan.text.startswith("```yaml\nstatus: ok\n")
