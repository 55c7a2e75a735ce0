"""The gate before every write: whose edits need a person, and that nothing else passes."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, cast, get_args

import pytest

from copydesk.app.config import Config, MemberConfig
from copydesk.app.workspace import OpenWorkspace
from copydesk.desk.backends.api import Decision, PlanVersion, Records, Verdict
from copydesk.desk.gates import Approving, Passed, after_of, before_of, needs_person
from copydesk.desk.member import Member, Policy
from copydesk.desk.review import Seen
from copydesk.edit.draft import Approval, Draft
from copydesk.edit.kinds.base import Normalized
from copydesk.edit.request import ChangeMode, MoveFile, Place
from copydesk.errors import (
    AccessDenied,
    ApprovalRequired,
    HunkNotFound,
    HunkRejected,
    InvalidArgs,
    Refusal,
    StateDamaged,
)
from copydesk.store import access
from copydesk.store.access import Rules
from copydesk.store.checks import Rule
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.diff import FileEdit
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot
from support.desks import Setup

TEXT = "".join(f"line {number}\n" for number in range(1, 31))
SIZE = {"known_old_total_lines": 30, "known_old_total_bytes": len(TEXT)}
APPLY = "apply_file_modification"
SECONDS = 0.003
"""So long another program waits at most at first."""

MEMBERS = {
    "ann": MemberConfig(approval="human"),
    "bob": MemberConfig(approval_paths=(("src/**", "human"), ("src/free/**", "self"))),
    "cat": MemberConfig(self_lines=2, self_files=1),
    "dan": MemberConfig(self_lines=0),
    "eve": MemberConfig(),
}


DESK = Setup(
    Config(members=MEMBERS, durability="fast", source="pyproject.toml"),
    dict.fromkeys(("a.txt", "b.txt", "src/a.txt", "src/free/a.txt"), TEXT),
)


def plan(
    desk: OpenWorkspace, by: str, path: str = "a.txt", line: int = 5, content: str = "x"
) -> str:
    arguments = {"path": path, "range": str(line), "content": content}
    return str(desk.call(by, "prepare_file_range_edit", arguments).fields["hunk_id"])


def seen(desk: OpenWorkspace, *hunks: str) -> list[Seen]:
    found = [desk.desk.review.show(desk.member("eve"), hunk) for hunk in hunks]
    return [Seen(one.plan.id, one.before, one.after) for one in found]


def approve(desk: OpenWorkspace, *hunks: str) -> None:
    for one in seen(desk, *hunks):
        desk.desk.review.approve(desk.member("eve"), *one)


def call(desk: OpenWorkspace, by: str, tool: str, **arguments: Any) -> dict[str, Any]:
    return dict(desk.call(by, tool, arguments).fields)


def files_of(root: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in root.rglob("*") if p.is_file()}


EDIT = {"old_string": "line 5\n", "new_string": "x\n"}
EDITOR = "str_replace_based_edit_tool"
DIRECT: list[tuple[str, dict[str, Any]]] = [
    ("create_new_file", {"path": "new.txt", "content": "x"}),
    ("overwrite_entire_file", {"path": "a.txt", "content": "x", **SIZE}),
    ("Edit", {"path": "a.txt", **EDIT}),
    ("Edit", {"path": "a.txt", "old_string": "line", "new_string": "x", "replace_all": True}),
    ("BatchEdit", {"path": "a.txt", "edits": [EDIT]}),
    ("MultiEdit", {"path": "a.txt", "edits": [EDIT]}),
    ("Write", {"path": "new.txt", "content": "x"}),
    (
        "Write",
        {"path": "a.txt", "content": "x", "overwrite": True, "expected_size_bytes": len(TEXT)},
    ),
    ("write_file", {"path": "new.txt", "content": "x"}),
    ("write_file", {"path": "a.txt", "content": "x"}),
    ("edit_file", {"path": "a.txt", "edits": [{"oldText": "line 5\n", "newText": "x\n"}]}),
    ("move_file", {"source": "a.txt", "destination": "moved.txt"}),
    (EDITOR, {"command": "create", "path": "new.txt", "file_text": "x"}),
    (EDITOR, {"command": "str_replace", "path": "a.txt", "old_str": "line 5\n", "new_str": ""}),
    (EDITOR, {"command": "insert", "path": "a.txt", "insert_line": 5, "insert_text": "x"}),
    ("undo_file_modification", {"edit_id": 1}),
    ("undo_file_modification", {"edit_id": 2}),
    ("undo_file_modification", {"edit_id": 4}),
]


@pytest.mark.parametrize(
    ("tool", "arguments"), DIRECT, ids=[f"{i}-{row[0]}" for i, row in enumerate(DIRECT)]
)
def test_what_writes_at_once_is_refused(
    desk: OpenWorkspace, tmp_path: Path, tool: str, arguments: dict[str, Any]
) -> None:
    (tmp_path / "a.txt").write_text(TEXT + "more\n")
    done = call(desk, "eve", "Edit", path="a.txt", old_string="more\n", new_string="")
    assert done["status"] == "success"
    call(desk, "eve", "create_new_file", path="made.txt", content="x")
    call(desk, "eve", "create_new_file", path="gone.txt", content="x")
    call(desk, "eve", "undo_file_modification", edit_id=3)
    before = files_of(tmp_path)
    answer = call(desk, "ann", tool, **arguments)
    assert answer["status"] == "error"
    error = answer["error"]
    assert (error["code"] if isinstance(error, dict) else error) == "APPROVAL_REQUIRED"
    assert files_of(tmp_path) == before
    mine = call(desk, "eve", tool, **arguments)
    assert mine["status"] in ("ok", "success")
    assert files_of(tmp_path) != before


@pytest.mark.parametrize(
    ("tool", "arguments"), [row for row in DIRECT if row[0] in ("Edit", "BatchEdit", "Write")]
)
def test_what_a_person_approved_is_written_by_the_same_call(
    desk: OpenWorkspace, tmp_path: Path, tool: str, arguments: dict[str, Any]
) -> None:
    before = files_of(tmp_path)
    asked = call(desk, "ann", tool, **arguments)
    hunk = asked["data"]["hunk_id"]
    assert f"the plan {hunk}" in asked["text"]
    assert call(desk, "ann", tool, **arguments)["data"]["hunk_id"] == hunk
    assert files_of(tmp_path) == before
    approve(desk, hunk)
    done = call(desk, "ann", tool, **arguments)
    assert (done["status"], done["data"]["applied"]) == ("success", True)
    first = files_of(tmp_path)
    call(desk, "eve", "undo_file_modification", edit_id=done["data"]["edit_id"])
    assert files_of(tmp_path) == before
    call(desk, "eve", tool, **arguments)
    assert files_of(tmp_path) == first


def test_the_decision_comes_with_a_later_answer(desk: OpenWorkspace, tmp_path: Path) -> None:
    hunk, other = plan(desk, "ann"), plan(desk, "ann", line=9)
    report = desk.call("ann", APPLY, {"hunk_id": hunk})
    assert not report.is_error
    assert report.fields["status"] == "pending"
    assert (report.fields["error"], report.fields["why"]) == ("APPROVAL_REQUIRED", "member")
    assert (tmp_path / "a.txt").read_text() == TEXT
    assert "decisions" not in call(desk, "ann", "read_file", path="a.txt")
    approve(desk, hunk)
    desk.desk.review.reject(desk.member("eve"), other, "too short")
    assert "decisions" not in call(desk, "eve", "read_file", path="a.txt")
    told = call(desk, "ann", "read_file", path="a.txt")["decisions"]
    assert {(d["hunk_id"], d["verdict"], d.get("reason")) for d in told} == {
        (hunk, "approved", None),
        (other, "rejected", "too short"),
    }
    assert "decisions" not in call(desk, "ann", "read_file", path="a.txt")
    assert call(desk, "ann", APPLY, hunk_id=hunk)["status"] == "ok"
    assert (tmp_path / "a.txt").read_text() == TEXT.replace("line 5\n", "x\n")


def test_an_undo_that_waits_says_how_to_show_it(desk: OpenWorkspace, tmp_path: Path) -> None:
    line = {"path": "a.txt", "old": "line 5\n", "new": "x\n"}
    edit_id = call(desk, "eve", "replace_text", **line, apply="auto")["edit_id"]
    told = call(desk, "ann", "undo_file_modification", edit_id=edit_id)
    assert (told["error"], told["why"]) == ("APPROVAL_REQUIRED", "member")
    assert "replace_text" in told["summary"]
    assert f"copydesk undo {edit_id}." in told["summary"]
    plan = call(desk, "ann", "replace_text", path="a.txt", old="x\n", new="line 5\n")
    approve(desk, plan["hunk_id"])
    assert call(desk, "ann", APPLY, hunk_id=plan["hunk_id"])["status"] == "ok"
    assert (tmp_path / "a.txt").read_text() == TEXT


@pytest.mark.parametrize("tool", ["list_pending", "Read", "Edit"])
def test_every_answer_carries_the_news(desk: OpenWorkspace, tool: str) -> None:
    hunk = plan(desk, "ann")
    desk.desk.review.apply(desk.member("eve"), seen(desk, hunk))
    arguments: dict[str, Any] = {} if tool == "list_pending" else {"path": "b.txt"}
    if tool == "Edit":
        arguments |= EDIT
    answer = call(desk, "ann", tool, **arguments)
    (told,) = answer["data"]["decisions"] if "data" in answer else answer["decisions"]
    assert (told["hunk_id"], told["verdict"], told["written"]) == (hunk, "approved", True)


def test_auto_plans_and_says_why(desk: OpenWorkspace, tmp_path: Path) -> None:
    answer = call(desk, "ann", "prepare_file_append", path="a.txt", content="x", apply="auto")
    assert (answer["status"], answer["auto_apply"]) == ("ok", "declined")
    assert answer["auto_apply_reason"] == "APPROVAL_REQUIRED"
    refused = call(desk, "ann", "apply_file_modification", hunk_id=answer["hunk_id"])
    assert refused["summary"] in answer["summary"]  # in the words of an apply
    assert (tmp_path / "a.txt").read_text() == TEXT


@pytest.mark.parametrize(
    ("by", "path", "content", "why"),
    [
        ("ann", "a.txt", "x", "member"),
        ("bob", "a.txt", "x", None),
        ("bob", "src/a.txt", "x", "path"),
        ("bob", "src/free/a.txt", "x", None),
        ("bob", "link.txt", "x", "path"),
        ("bob", "pyproject.toml", "x", "path"),
        ("cat", "a.txt", "x\ny", None),
        ("cat", "a.txt", "x\ny\nz", "lines"),
        ("cat", "a.txt", "line 5\ny\nz", None),  # as the diff counts them
        ("eve", "a.txt", "x\ny\nz", None),
    ],
)
def test_who_needs_a_person_where(
    desk: OpenWorkspace, tmp_path: Path, by: str, path: str, content: str, why: str | None
) -> None:
    """What a person has to see waits longer, too."""
    os.symlink("src/a.txt", tmp_path / "link.txt")
    (tmp_path / "pyproject.toml").write_text(TEXT)
    hunk, life_ms = plan(desk, by, path, content=content), desk.desk._services.life_ms
    made = desk.registry.plan(hunk, 0)
    assert made.expires_ms - made.created_ms == life_ms(needs_person=why is not None)
    assert life_ms(needs_person=True) > life_ms(needs_person=False)
    answer = call(desk, by, APPLY, hunk_id=hunk)
    assert answer.get("why") == why
    assert answer["status"] == ("pending" if why else "ok")
    assert ((tmp_path / path).read_text() == TEXT) is (why is not None)
    if why:
        approve(desk, hunk)
        assert call(desk, by, APPLY, hunk_id=hunk)["status"] == "ok"


def test_a_new_file_and_the_removal_of_one(desk: OpenWorkspace, tmp_path: Path) -> None:
    """Also an empty one: it changes no byte, and yet there is a file."""
    assert desk.call("ann", "Write", {"path": "empty.txt", "content": ""}).is_error
    (waits,) = desk.registry.waiting(0)
    approve(desk, waits.id)
    assert call(desk, "ann", APPLY, hunk_id=waits.id)["status"] == "ok"
    assert (tmp_path / "empty.txt").read_bytes() == b""
    file = tmp_path / "new/file.txt"
    made = call(desk, "ann", "prepare_file_append", path="new/file.txt", content="x\n")
    hunk = str(made["hunk_id"])
    approve(desk, hunk)
    file.parent.mkdir()
    file.write_text("")
    assert call(desk, "ann", APPLY, hunk_id=hunk)["why"] == "drifted"
    file.unlink()
    assert call(desk, "ann", APPLY, hunk_id=hunk)["why"] == "member"
    approve(desk, hunk)
    done = call(desk, "ann", APPLY, hunk_id=hunk)
    assert (done["status"], file.read_text()) == ("ok", "x\n")


def test_more_files_than_a_member_may_approve(desk: OpenWorkspace, tmp_path: Path) -> None:
    hunks = [plan(desk, "cat"), plan(desk, "cat", "b.txt")]
    answer = call(desk, "cat", "apply_file_modifications", hunk_ids=hunks)
    assert (answer["status"], answer["why"]) == ("pending", "files")
    assert (tmp_path / "a.txt").read_text() == (tmp_path / "b.txt").read_text() == TEXT
    approve(desk, *hunks)
    assert call(desk, "cat", "apply_file_modifications", hunk_ids=hunks)["status"] == "ok"
    assert call(desk, "cat", APPLY, hunk_id=plan(desk, "cat", line=9))["status"] == "ok"


@pytest.mark.parametrize("same", [0, 1])
def test_an_edit_after_an_empty_one_waits(desk: OpenWorkspace, tmp_path: Path, same: int) -> None:
    hunks = [
        plan(desk, "ann", line=5 + index, content=f"line {5 + index}" if index == same else "x")
        for index in range(2)
    ]
    answer = call(desk, "ann", "apply_file_modifications", hunk_ids=hunks)
    assert (answer["status"], answer["hunk_id"]) == ("pending", hunks[1 - same])
    assert (tmp_path / "a.txt").read_text() == TEXT


def test_a_move_and_a_change_of_mode_are_asked_for(desk: OpenWorkspace, tmp_path: Path) -> None:
    mode = "diff --git a/a.txt b/a.txt\nold mode 100644\nnew mode 100755\n"
    hunks = [
        str(call(desk, "bob", "apply_diff", diff=mode)["hunks"][0]["hunk_id"]),
        str(call(desk, "bob", "prepare_file_move", path="a.txt", to="src/b.txt")["hunk_id"]),
    ]
    answer = call(desk, "bob", "apply_file_modifications", hunk_ids=hunks)
    assert (answer["status"], answer["why"], answer["hunk_id"]) == ("pending", "path", hunks[1])
    assert not (tmp_path / "src/b.txt").exists()
    approve(desk, hunks[1])
    assert call(desk, "bob", "apply_file_modifications", hunk_ids=hunks)["status"] == "ok"
    assert (tmp_path / "src/b.txt").stat().st_mode & 0o777 == 0o755


def test_a_plan_that_waits_alone_waits_then_with_its_transaction(desk: OpenWorkspace) -> None:
    one, other = plan(desk, "ann"), plan(desk, "ann", "b.txt")
    assert call(desk, "ann", APPLY, hunk_id=one)["status"] == "pending"
    asked = call(desk, "ann", "apply_file_modifications", hunk_ids=[one, other])
    assert asked["status"] == "pending"
    groups = {show.plan.transaction for show in desk.desk.review.pending(desk.member("eve"))}
    assert len(groups) == 1
    assert groups != {""}


@pytest.mark.parametrize(
    ("path", "to", "why"),
    [
        ("src/a.txt", "out.txt", "path"),
        ("a.txt", "src/new.txt", "path"),
        ("src/a.txt", "src/new.txt", "path"),
        ("a.txt", "out.txt", None),
        ("src/free/a.txt", "out.txt", None),
    ],
)
def test_a_move_is_asked_for_at_either_end(
    desk: OpenWorkspace, tmp_path: Path, path: str, to: str, why: str | None
) -> None:
    hunk = str(call(desk, "bob", "prepare_file_move", path=path, to=to)["hunk_id"])
    answer = call(desk, "bob", APPLY, hunk_id=hunk)
    assert (answer["status"], answer.get("why")) == ("pending" if why else "ok", why)
    assert (tmp_path / to).exists() is (why is None)


def _guards(name: str) -> Policy:
    return Policy().guarding(lambda path: str(path) == name)


A, MOVED, C = (RelPath.parse(f"{name}.txt") for name in "abc")
MADE = FileEdit(A, Snapshot.of(b"a\n"), ChangeSet.of(2, [Edit(0, 1, b"b")]))
LATER: list[tuple[dict[str, Any], bool, str | None]] = [
    ({}, False, None),
    *(({"permission": Rules(no_write_dirs=(f"{n}.txt",))}, False, "write") for n in "abc"),
    *(({"permission": Rules(no_read_dirs=(f"{n}.txt",))}, False, "read") for n in "abc"),
    ({"permission": Rules(no_read_dirs=("a.txt", "b.txt"))}, True, None),
    ({"policy": Policy("human")}, False, "member"),
    *(({"policy": _guards(f"{n}.txt")}, False, "path") for n in "abc"),
    ({"policy": Policy(most_lines=0)}, False, "lines"),
    ({"policy": Policy(most_lines=1, most_files=1)}, False, "files"),
]


def outcome(approving: Approving, *given: Any, **named: Any) -> Passed | Refusal:
    """What lets a change pass, or what refuses it."""
    try:
        return approving.check(*given, **named)
    except Refusal as refused:
        return refused


def test_rights_and_policy_of_the_moment_of_the_write_count(desk: OpenWorkspace) -> None:
    """Of the file, of others with the same text, and where it is moved; a policy of before too."""
    approving, plain = Approving(desk.journal, desk.clock), Member("dan", Rules())
    for later, created, words in LATER:
        other = replace(plain, **later)
        ways = [(plain, other), *([(other, plain)] if "policy" in later else [])]
        for before, now in ways:
            member = replace(before, refresh=cast(Callable[[], Member], lambda now=now: now))
            at = {"created": created, "others": [MOVED], "to": C}
            found = outcome(approving, member, None, A, MADE, **at)
            if isinstance(found, AccessDenied):
                assert (found.operation, found.rule[: len(f"no_{words}")]) == (words, f"no_{words}")
            else:
                assert not isinstance(found, Refusal) or isinstance(found, ApprovalRequired)
                why = found.why if isinstance(found, ApprovalRequired) else found.reason
                assert why == words, (later, before)


class Kept:
    """The decision on each plan, by plan, in this process."""

    def __init__(self) -> None:
        self.by_plan: dict[PlanVersion, Decision] = {}
        self.said: list[Decision] = []
        self.refused = 0

    def of(self, plan: PlanVersion) -> Decision | None:
        return self.by_plan.get(plan)

    def withdraw(self, decision: Decision) -> None:
        del self.by_plan[decision.plan]

    def take(self, decision: Decision) -> Decision:
        self.said.append(decision)
        is_taken = len(self.said) <= self.refused
        return replace(decision, verdict="commented") if is_taken else decision


PLAIN = Normalized(False, False, False, False, "lf", 0)


def test_only_an_approval_of_the_same_file_and_bytes_lets_a_plan_pass() -> None:
    fields = None, "path", "before", "after"
    for case in product((None, *get_args(Verdict)), (None, MOVED), (False, True), fields):
        check_passes(*case)


def check_passes(
    verdict: Verdict | None, to: RelPath | None, created: bool, field: str | None
) -> None:
    case = verdict, to, created, field
    plan, ann = ("hunk", 7), Member("ann", Rules(), policy=Policy("human"))
    decisions = Kept()
    decisions.refused = 2  # a comment has the place of the lapse
    approving = Approving(cast(Records, decisions), lambda: 99)
    bound = before_of(MADE, created=created), after_of(MADE, to)
    if verdict:
        decision = Decision(plan, "ann", "a.txt", verdict, "eve", 5, *bound, "no")
        decisions.by_plan[plan] = replace(decision, **({field: "other"} if field else {}))
    is_same = verdict == "approved" and not field
    assert approving.is_approved(plan, A, MADE, created=created) is (is_same and not to), case
    for unknown in (("hunk", 8), None):
        assert not approving.is_approved(unknown, A, MADE, created=created), case
    found = outcome(approving, ann, plan, A, MADE, created=created, to=to)
    if is_same:
        assert isinstance(found, Passed), case
        assert found.reason == "member", case
        return
    if verdict in ("rejected", "changes_requested"):
        assert isinstance(found, HunkRejected), case
        assert (found.hunk_id, found.by, found.reason) == ("hunk", "eve", "no"), case
    else:
        assert isinstance(found, ApprovalRequired), case
        why = "drifted" if verdict == "approved" else "member"
        assert (found.why, found.hunk_id) == (why, "hunk"), case
    lapsed = [(("hunk", time), "lapsed", 99, False) for time in (-5, -6, -7)]
    said = [(one.plan, one.verdict, one.time_ms, one.told) for one in decisions.said]
    assert said == (lapsed if verdict == "approved" else []), case


def test_an_approval_of_another_mode_is_for_no_other_one() -> None:
    modes = [(0o100644, True), (0o100664, True), (0o100755, False), (0o100755, True)]
    nothing = Place(0, 0, None), ChangeSet.of(2, []), (), PLAIN
    drafts = [Draft(ChangeMode(A, runs, mode), MADE.base, *nothing) for mode, runs in modes]
    bound = [after_of(draft, None) for draft in drafts]
    assert len({*bound, MADE.base.digest, after_of(MADE, None)}) == len(modes) + 2
    assert all(len(one) == 64 for one in bound)


@pytest.mark.parametrize(
    ("policy", "is_move", "is_asked"),
    [
        (Policy(), True, False),
        (_guards("a.txt"), False, True),
        (_guards("a.txt"), True, True),
        (_guards("b.txt"), False, False),
        (_guards("b.txt"), True, True),
        (Policy(most_lines=0), False, True),
        (Policy(most_lines=0), True, False),
        (Policy(most_lines=1), False, False),
        (Policy(most_files=1), True, False),
    ],
)
def test_a_change_that_is_written_by_itself_needs_a_person_at_either_end_of_a_move(
    policy: Policy, is_move: bool, is_asked: bool
) -> None:
    made: Draft | FileEdit = MADE
    if is_move:
        nothing = ChangeSet.of(2, [])
        made = Draft(MoveFile(A, MOVED), MADE.base, Place(0, 0, None), nothing, (), PLAIN)
    assert needs_person(Member("ann", Rules(), policy=policy), made, A) is is_asked


def test_an_edit_is_recorded_with_the_approval_that_let_it_pass() -> None:
    """That which the gate saw, whoever decides while it is written."""
    decisions, ann, plan = Kept(), Member("ann", Rules()), ("hunk", 1)
    approving = Approving(cast(Records, decisions), lambda: 99)
    bound = before_of(MADE, created=False), after_of(MADE, None)

    def passed(plan: PlanVersion | None, edited_by: str = "") -> Passed:
        return approving.check(ann, plan, A, MADE, created=False, edited_by=edited_by)

    assert passed(plan) == Passed(None, None, 0)
    assert passed(plan, "cat") == Passed(None, Approval("", 0, "", "", "cat", 1), 0)
    assert passed(None, "cat").approval == Approval("", 0, "", "")
    decisions.by_plan[plan] = Decision(plan, "ann", "a.txt", "approved", "eve", 5, *bound)
    assert passed(plan) == Passed(None, Approval("eve", 5, *bound), 5)
    assert passed(plan, "cat") == Passed(None, Approval("eve", 5, *bound, "cat", 1), 5)
    decisions.by_plan[plan] = replace(decisions.by_plan[plan], verdict="amended")
    assert passed(plan) == Passed(None, None, 5)


@pytest.mark.parametrize(("by", "status"), [("eve", "ok"), ("ann", "error")])
def test_where_decisions_cannot_be_read_only_who_needs_nobody_writes(
    desk: OpenWorkspace, tmp_path: Path, by: str, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hunk = plan(desk, by)

    def damaged(plan: object) -> None:
        raise StateDamaged("use the state folder", "it is malformed", "state.sqlite")

    monkeypatch.setattr(desk.desk._services.records, "of", damaged)
    answer = call(desk, by, APPLY, hunk_id=hunk)
    refused = ("FAILED", "it is malformed") if by == "ann" else (None, None)
    assert (answer["status"], answer.get("error"), answer.get("reason")) == (status, *refused)
    assert ((tmp_path / "a.txt").read_text() == TEXT) is (by == "ann")


def test_who_gave_a_plan_another_text_is_recorded_without_an_approval(desk: OpenWorkspace) -> None:
    own, amended = plan(desk, "eve", line=9), plan(desk, "eve")
    desk.desk.review.amend(desk.member("bob"), amended, "other\n")
    for hunk in (own, amended):
        assert call(desk, "eve", APPLY, hunk_id=hunk)["status"] == "ok"
    newest, older = desk.journal.entries(most=2)
    assert older.approval is None
    assert newest.approval is not None
    made_ms = newest.approval.amended_ms
    assert newest.approval == Approval("", 0, "", "", "bob", made_ms)
    assert 0 < made_ms <= newest.time_ms


@pytest.mark.parametrize(
    ("by", "owner", "lines", "content", "is_taken"),
    [
        ("cat", "cat", "5", "x\ny\nz", False),  # more lines than it may write
        ("cat", "ann", "5", "x\ny\nz", False),
        ("cat", "ann", "5~7", "x", False),  # old lines and new ones count, whichever are more
        ("cat", "ann", "5~6", "x\ny", True),
        ("cat", "ann", "5", "x\ny", True),
        ("cat", "cat", "5", "x", False),  # it could be one of several files then
        ("cat", "ann", "5", "x", True),
        ("eve", "cat", "5", "x\ny\nz", True),
    ],
)
def test_who_may_not_write_so_much_alone_does_not_approve_it(
    desk: OpenWorkspace, by: str, owner: str, lines: str, content: str, is_taken: bool
) -> None:
    given = {"path": "a.txt", "range": lines, "content": content}
    hunk = str(call(desk, owner, "prepare_file_range_edit", **given)["hunk_id"])
    one, review, reviewer = seen(desk, hunk)[0], desk.desk.review, desk.member(by)
    if is_taken:
        assert review.approve(reviewer, *one).verdict == "approved"
        return
    with pytest.raises(AccessDenied):
        review.approve(reviewer, *one)
    assert review.show(reviewer, hunk).decision is None


def test_who_may_not_write_so_much_has_it_not_written(desk: OpenWorkspace, tmp_path: Path) -> None:
    long, a, b = plan(desk, "cat", content="x\ny\nz"), plan(desk, "cat"), plan(desk, "cat", "b.txt")
    for hunks in ([long], [a, b]):
        with pytest.raises(AccessDenied):
            desk.desk.review.apply(desk.member("cat"), seen(desk, *hunks))
    assert (tmp_path / "a.txt").read_text() == (tmp_path / "b.txt").read_text() == TEXT


def test_a_member_that_may_write_no_line_unseen_may_still_reject(desk: OpenWorkspace) -> None:
    hunk = plan(desk, "ann")
    desk.desk.review.reject(desk.member("dan"), hunk, "no")
    assert call(desk, "ann", APPLY, hunk_id=hunk)["error"] == "HUNK_REJECTED"


@pytest.mark.parametrize(
    ("places", "versioned", "written"),
    [(1, False, True), (2, False, False), (3, False, False), (2, True, True)],
)
def test_what_is_written_at_once_has_one_place(
    desk: OpenWorkspace, tmp_path: Path, places: int, versioned: bool, written: bool
) -> None:
    """One of two may be the wrong one, unless it was chosen in a text that was seen."""
    text = "".join(f"{n}\nmark\n" for n in range(places))
    (tmp_path / "a.txt").write_text(text)
    given: dict[str, Any] = {"path": "a.txt", "anchor": "mark", "content": "new"}
    given |= {"occurrence": "1", "apply": "auto"}
    if versioned:
        given["version"] = call(desk, "eve", "read_file", path="a.txt")["version"]
    answer = call(desk, "eve", "prepare_file_insert_after", **given)
    assert ("auto_apply" not in answer) == written
    assert ((tmp_path / "a.txt").read_text() != text) == written


def test_all_documents_of_a_block_diff_count(desk: OpenWorkspace, tmp_path: Path) -> None:
    ids = ("20260101000000-aaaaaaa", "20260101000000-bbbbbbb")
    for block_id, name in zip(ids, ("a.md", "src/b.md"), strict=True):
        (tmp_path / name).write_text(f'text\n{{: id="{block_id}"}}\n')
    diff = "".join(f"@@REPLACE:{block_id}@@\nnew\n" for block_id in ids)
    hunk = str(desk.call("bob", "prepareBlockDiff", {"diff": diff}).fields["hunk_id"])
    with pytest.raises(AccessDenied):
        desk.desk.review.approve(desk.member("bob"), *seen(desk, hunk)[0])
    assert call(desk, "bob", APPLY, hunk_id=hunk)["status"] == "pending"


def test_a_comment_comes_with_the_next_answer_and_decides_nothing(desk: OpenWorkspace) -> None:
    hunk, review, eve = plan(desk, "ann"), desk.desk.review, desk.member("eve")
    review.comment(eve, hunk, " Why here? ", 5)
    review.comment(eve, hunk, "And what of this?")
    review.comment(eve, hunk, "It was fine.", -6)
    told = call(desk, "ann", "read_file", path="a.txt", range="1")["decisions"]
    assert {(row["verdict"], row["by"], row["hunk_id"]) for row in told} == {
        ("commented", "eve", hunk)
    }
    assert [(row["reason"], row.get("line"), row.get("side")) for row in told] == [
        ("Why here?", 5, "new"),
        ("And what of this?", None, None),
        ("It was fine.", 6, "old"),
    ]
    assert "decisions" not in call(desk, "ann", "read_file", path="a.txt", range="1")
    assert [one.decision for one in review.pending(eve)] == [None]
    for text, line in (("", 0), ("x", 31), ("x", -31), ("\0", 0)):
        with pytest.raises(InvalidArgs):
            review.comment(eve, hunk, text, line)
    assert len(review.comments(review.show(eve, hunk))) == 3


def test_what_needs_changes_is_planned_anew_by_its_id(desk: OpenWorkspace, tmp_path: Path) -> None:
    hunk, review, eve = plan(desk, "ann"), desk.desk.review, desk.member("eve")
    review.reject(eve, hunk, "Say why.", wants_changes=True)
    refused = call(desk, "ann", APPLY, hunk_id=hunk)
    assert (refused["error"], refused["by"]) == ("HUNK_REJECTED", "eve")
    assert str(refused["summary"]).startswith("eve rejected the plan")
    (told,) = call(desk, "ann", "read_file", path="a.txt", range="1").get("decisions", [None])
    assert told is None or told["verdict"] == "changes_requested"
    given = {"path": "a.txt", "range": "5", "content": "y", "existing_hunk_id": hunk}
    call(desk, "ann", "prepare_file_range_edit", **given, why="it was too long")
    (waiting,) = review.pending(eve)
    assert (waiting.plan.id, waiting.plan.why, waiting.decision) == (hunk, "it was too long", None)
    approve(desk, hunk)
    assert call(desk, "ann", APPLY, hunk_id=hunk)["status"] == "ok"
    assert (tmp_path / "a.txt").read_text() == TEXT.replace("line 5", "y")
    assert not [one for one in desk.tally.noted() if one.how == "rejected"]


def test_a_plan_is_not_made_anew_for_another_file(desk: OpenWorkspace, tmp_path: Path) -> None:
    hunk = plan(desk, "ann")
    (shown,) = seen(desk, hunk)
    anew = {"path": "b.txt", "range": "5", "content": "x", "existing_hunk_id": hunk}
    assert call(desk, "ann", "prepare_file_range_edit", **anew)["argument"] == "existing_hunk_id"
    desk.desk.review.approve(desk.member("eve"), *shown)
    assert call(desk, "ann", APPLY, hunk_id=hunk)["path"] == "a.txt"
    assert (tmp_path / "b.txt").read_text() == TEXT


@pytest.mark.slow
def test_looking_lapses_no_approval(desk: OpenWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    review, eve = desk.desk.review, desk.member("eve")
    added = call(desk, "ann", "prepare_file_append", path="a.txt", content="new")
    hunk = str(added["hunk_id"])
    approve(desk, hunk)
    has_read = threading.Event()
    look = threading.Thread(target=lambda: _refused(lambda: review.show(eve, hunk)))
    end = desk.journal.close_all

    def before(*given: Any, **named: Any) -> str:
        has_read.set()
        return before_of(*given, **named)

    def ends(*given: Any) -> None:  # the file is written, the plan is not gone yet
        look.start()
        assert has_read.wait(10)
        end(*given)

    monkeypatch.setattr("copydesk.desk.review.before_of", before)
    monkeypatch.setattr(desk.journal, "close_all", ends)
    assert call(desk, "ann", APPLY, hunk_id=hunk)["status"] == "ok"
    look.join()
    assert desk.journal.comments(hunk) == ()


def _refused(show: Callable[[], object]) -> None:
    with pytest.raises(HunkNotFound):
        show()


@pytest.mark.parametrize("first", ["the agent", "a reviewer"])
def test_a_lapsed_approval_is_told_once(desk: OpenWorkspace, tmp_path: Path, first: str) -> None:
    hunk, review, eve = plan(desk, "ann"), desk.desk.review, desk.member("eve")
    approve(desk, hunk)
    call(desk, "ann", "read_file", path="b.txt", range="1")  # it hears of the approval
    (tmp_path / "a.txt").write_text("zero\n" + TEXT)
    if first == "a reviewer":
        review.show(eve, hunk)
        review.show(eve, hunk)
        answer = call(desk, "ann", "read_file", path="b.txt", range="1")
    else:
        answer = call(desk, "ann", APPLY, hunk_id=hunk)
        assert (answer["error"], answer["why"]) == ("APPROVAL_REQUIRED", "drifted")
    (told,) = answer["decisions"]
    assert (told["verdict"], told["by"], told["hunk_id"]) == ("lapsed", "eve", hunk)
    assert "the file has changed" in told["reason"]
    again = call(desk, "ann", APPLY, hunk_id=hunk)
    assert again["error"] == "APPROVAL_REQUIRED"
    assert "decisions" not in again
    (said,) = review.comments(review.show(eve, hunk))
    assert (said.verdict, said.by) == ("lapsed", "eve")
    approve(desk, hunk)
    assert call(desk, "ann", APPLY, hunk_id=hunk)["status"] == "ok"


def test_plans_for_one_file_are_each_what_was_shown(desk: OpenWorkspace, tmp_path: Path) -> None:
    hunks = [plan(desk, "ann", line=20, content="a\nb"), plan(desk, "ann", line=5, content="c")]

    def together() -> tuple[object, list[object]]:
        answer = call(desk, "ann", "apply_file_modifications", hunk_ids=hunks)
        return answer["status"], [row.get("error") for row in answer["hunks"]]

    assert together() == ("pending", ["APPROVAL_REQUIRED"] * 2)
    approve(desk, hunks[0])
    assert together()[1] == [None, "APPROVAL_REQUIRED"]
    assert (tmp_path / "a.txt").read_text() == TEXT
    approve(desk, hunks[1])
    assert together()[0] == "ok"
    whole = TEXT.replace("line 20\n", "a\nb\n").replace("line 5\n", "c\n")
    assert (tmp_path / "a.txt").read_text() == whole


@pytest.mark.parametrize("tool", [APPLY, "apply_file_modifications"])
def test_a_stale_approval_is_shown_anew(desk: OpenWorkspace, tmp_path: Path, tool: str) -> None:
    hunk = plan(desk, "ann", line=20)
    arguments: dict[str, Any] = {"hunk_id": hunk} if tool == APPLY else {"hunk_ids": [hunk]}
    approve(desk, hunk)
    (tmp_path / "a.txt").write_text("new\n" + TEXT)
    for why in ("drifted", "member"):
        answer = call(desk, "ann", tool, **arguments)
        assert (answer["why"], answer["hunk_id"], answer["path"]) == (why, hunk, "a.txt")
        assert f"approve the plan {hunk} first" in answer["summary"]
    (tmp_path / "a.txt").write_text(TEXT)  # as it was when it was approved
    assert call(desk, "ann", tool, **arguments)["why"] == "member"
    assert (tmp_path / "a.txt").read_text() == TEXT
    approve(desk, hunk)
    assert call(desk, "ann", tool, **arguments)["status"] == "ok"


def test_what_another_plan_makes_of_it_is_not_approved(desk: OpenWorkspace, tmp_path: Path) -> None:
    """Alone each ends the last line first; after the other there is nothing to end."""
    (tmp_path / "a.txt").write_text("no end")
    hunks = [
        str(call(desk, "ann", "prepare_file_append", path="a.txt", content=c)["hunk_id"])
        for c in "xy"
    ]
    approve(desk, *hunks)
    answer = call(desk, "ann", "apply_file_modifications", hunk_ids=hunks)
    assert (answer["status"], answer["why"], answer["hunk_id"]) == ("pending", "drifted", hunks[1])
    assert f"approve the plan {hunks[1]} first" in answer["summary"]
    assert (tmp_path / "a.txt").read_text() == "no end"
    assert [call(desk, "ann", APPLY, hunk_id=hunk)["status"] for hunk in hunks] == ["ok", "pending"]
    assert (tmp_path / "a.txt").read_text() == "no end\nx\n"


def test_an_approval_is_for_one_file(desk: OpenWorkspace, tmp_path: Path) -> None:
    """The same bytes elsewhere are not what was shown."""
    os.symlink("a.txt", tmp_path / "link.txt")
    hunk = plan(desk, "ann", "link.txt")
    approve(desk, hunk)
    (tmp_path / "link.txt").unlink()
    os.symlink("src/a.txt", tmp_path / "link.txt")
    assert call(desk, "ann", APPLY, hunk_id=hunk)["why"] == "drifted"
    assert (tmp_path / "src/a.txt").read_text() == TEXT


@pytest.mark.slow
def test_a_large_file_is_bound_too(desk: OpenWorkspace, tmp_path: Path) -> None:
    line = b"0123456789abcdef" * 64 + b"\n"
    (tmp_path / "a.txt").write_bytes(line * 9_000)  # above 8 MiB
    hunk = plan(desk, "ann", line=4_000)
    approve(desk, hunk)
    with (tmp_path / "a.txt").open("r+b") as file:
        file.seek(len(line) * 8_000)
        file.write(b"X")
    answer = call(desk, "ann", APPLY, hunk_id=hunk)
    assert answer.get("why") == "drifted" or answer["error"] == "CONTENT_CHANGED"
    hunk = plan(desk, "ann", line=4_000)
    approve(desk, hunk)
    assert call(desk, "ann", APPLY, hunk_id=hunk)["status"] == "ok"
    data = (tmp_path / "a.txt").read_bytes()
    assert data.count(b"x\n") == 1
    assert data[: len(line) * 3_999] == line * 3_999


def disturbing(
    path: Path, text: str, chosen: random.Random, most_seconds: float
) -> tuple[threading.Thread, threading.Event]:
    """A program that writes the text, in place or by a rename, a little after it is let go."""
    go = threading.Event()
    in_place, seconds = chosen.random() < 0.3, chosen.uniform(0, most_seconds)

    def run() -> None:
        go.wait()
        time.sleep(seconds)  # a loop would keep the interpreter from whom it waits for
        if in_place:
            path.write_text(text)
        else:
            spare = path.with_suffix(".spare")
            spare.write_text(text)
            os.replace(spare, path)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, go


def race(desk: OpenWorkspace, root: Path, tries: int) -> tuple[int, int]:
    """Another program writes the file at all moments around apply; what was written is judged.

    How many plans were written, and how many were not. Each plan replaces the
    line "line 5" by a text of its own; the other program changes another line to
    a number of its own. So whatever stands in the file tells which bytes were
    there before the plan was written. It waits a little longer after a plan that
    was refused and a little less after one that was written: on a machine of any
    speed it comes before and after the write about as often.
    """
    chosen = random.Random(5)
    written = refused = 0
    most_seconds = SECONDS
    for number in range(tries):
        path = root / f"race {number}.txt"  # of one file, all edits before would be looked at
        path.write_text(TEXT)
        hunk = plan(desk, "ann", path.name, content=f"plan {number}")
        (shown,) = seen(desk, hunk)
        desk.desk.review.approve(desk.member("eve"), *shown)
        approved = TEXT.replace("line 5\n", f"plan {number}\n")
        other = TEXT.replace("line 25\n", f"other {number}\n")
        thread, go = disturbing(path, other, chosen, most_seconds)
        go.set()
        answer = call(desk, "ann", APPLY, hunk_id=hunk)
        thread.join()
        found = path.read_text()
        if answer["status"] == "ok":
            written += 1
            most_seconds = max(most_seconds / 1.05, SECONDS / 60)
            # It was written on what was approved; the other program may have come after it.
            assert found in (approved, other), found
        else:
            refused += 1
            most_seconds = min(most_seconds * 1.05, 100 * SECONDS)
            assert answer["error"] in ("APPROVAL_REQUIRED", "CONTENT_CHANGED"), answer
            assert found == other, found
        assert not (f"plan {number}" in found and f"other {number}" in found)
        for entry in desk.history("eve", path.name, most=1):
            assert entry.hunk_id != hunk or entry.after == shown.after or entry.state == "failed"
    return written, refused


def test_unapproved_bytes_are_never_written(desk: OpenWorkspace, tmp_path: Path) -> None:
    written, refused = race(desk, tmp_path, 60)
    assert written + refused == 60


@pytest.mark.slow
def test_unapproved_bytes_are_never_written_however_often(
    desk: OpenWorkspace, tmp_path: Path
) -> None:
    """At least so many, and more until both ends of the race were seen often."""
    written, refused = race(desk, tmp_path, 1_500)
    for _ in range(10):
        if min(written, refused) > 100:
            return
        more_written, more_refused = race(desk, tmp_path, 1_000)
        written, refused = written + more_written, refused + more_refused
    pytest.fail(f"{written} were written and {refused} refused")


@pytest.mark.slow
def test_all_at_once_write_only_what_was_approved(desk: OpenWorkspace, tmp_path: Path) -> None:
    """An agent that applies without pause, a person who decides, a program that drifts the file."""
    path = tmp_path / "busy.txt"
    path.write_text(TEXT)
    approved: set[str] = set()
    ended = threading.Event()

    def drift() -> None:
        for number in range(40):
            if ended.is_set():
                return
            path.write_text(f"{number}\n" + TEXT)

    def decide(hunk: str) -> None:
        while not ended.is_set():
            try:
                (one,) = seen(desk, hunk)
                approved.add(one.after)
                desk.desk.review.approve(desk.member("eve"), *one)
            except Refusal:
                continue

    for number in range(10):
        hunk = plan(desk, "ann", "busy.txt", line=20, content=f"plan {number}")
        ended.clear()
        threads = [threading.Thread(target=drift), threading.Thread(target=decide, args=(hunk,))]
        for thread in threads:
            thread.start()
        for _ in range(50):
            if call(desk, "ann", APPLY, hunk_id=hunk)["status"] == "ok":
                break
        ended.set()
        for thread in threads:
            thread.join()
    done = [edit for edit in desk.history("eve", "busy.txt", most=100) if edit.state == "done"]
    assert {edit.after for edit in done} <= approved


def test_another_case_of_the_same_file_is_no_way_round(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = MEMBERS["bob"].policy
    path = RelPath.parse("SRC/a.txt")
    assert policy.human_reason(path, 1) is None
    monkeypatch.setattr(access, "_DENY_FOLDS", True)
    assert policy.human_reason(path, 1) == "path"
    assert policy.human_reason(RelPath.parse("src/Free/a.txt"), 1) == "path"
    assert policy.human_reason(RelPath.parse("src/free/a.txt"), 1) is None
    assert Rule("*.py").applies(RelPath.parse("a.PY"))
