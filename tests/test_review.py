"""People decide on plans: what they are shown, what is bound, and who was first."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from copydesk.app.config import Config, MemberConfig
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.desk import overwritten
from copydesk.desk.backends.api import Decision, Entry
from copydesk.desk.drafts import MOST_DRAFTS
from copydesk.desk.drafts import DraftCache as Drafts
from copydesk.desk.outcome import Applied, Rejected, Transacted, Withheld
from copydesk.desk.review import Seen, Shown
from copydesk.edit.draft import Draft
from copydesk.errors import (
    AccessDenied,
    AlreadyDecided,
    ContentChanged,
    HunkNotFound,
    HunkRejected,
    InvalidArgs,
    Refusal,
)
from support.redis_servers import RedisServer

TEXT = "".join(f"line {number}\n" for number in range(1, 31))
MEMBERS = {
    "ann": MemberConfig(approval="human"),
    "dan": MemberConfig(approval="human"),
    "eve": MemberConfig(),
    "max": MemberConfig(),
    "blind": MemberConfig({"no_read_dirs": ("**",)}),
    "guest": MemberConfig({"no_write_dirs": ("**",)}),
}
Open = Callable[[], OpenWorkspace]
Both = tuple[OpenWorkspace, OpenWorkspace]


@pytest.fixture(params=["memory", "shared"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """What opens the workspace; shared ones once more for each call, as processes do."""
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text(TEXT)
    opened: list[OpenWorkspace] = []

    def connect() -> OpenWorkspace:
        if request.param == "shared" or not opened:
            config = Config(members=MEMBERS, durability="fast")
            opened.append(open_workspace(str(tmp_path), config, shared=request.param == "shared"))
        return opened[-1]

    yield connect
    for each in opened:
        each.close()


@pytest.fixture
def both(opener: Open) -> tuple[OpenWorkspace, OpenWorkspace]:
    """Where the agent is, and where the people are."""
    return opener(), opener()


def plan(desk: OpenWorkspace, line: int, content: str, path: str = "a.txt", by: str = "ann") -> str:
    """The id of a plan that replaces one line."""
    arguments = {"path": path, "range": str(line), "content": content}
    report = desk.call(by, "prepare_file_range_edit", arguments)
    assert not report.is_error, report.text
    hunk = str(report.fields["hunk_id"])
    desk.desk.show(desk.member(by), hunk)  # waits until the text that it was planned on is kept
    return hunk


def show(desk: OpenWorkspace, hunk: str, by: str = "eve") -> Shown:
    return desk.desk.review.show(desk.member(by), hunk)


def test_what_was_written_and_undone_waits_again(opener: Open, tmp_path: Path) -> None:
    desk = opener()
    hunk = plan(desk, 5, "five\n")
    eve, review = desk.member("eve"), desk.desk.review
    made = show(desk, hunk).plan
    with pytest.raises(HunkNotFound):
        review.reopen(eve, made)  # it waits already
    done = review.apply(eve, seen(desk, hunk))
    assert isinstance(done, Applied)
    with pytest.raises(HunkNotFound):
        review.reopen(eve, made)  # it is not undone
    desk.desk.undo(eve, "undo_file_modification", done.edit_id)
    for other in ("guest", "ann"):
        with pytest.raises(AccessDenied):
            review.reopen(desk.member(other), made)
    review.reopen(eve, made)
    again = opener()
    anew = show(again, hunk)
    assert (anew.state, anew.decision, anew.plan.request) == ("exact", None, made.request)
    assert again.call("ann", "apply_file_modification", {"hunk_id": hunk}).fields["why"] == "member"
    assert isinstance(again.desk.review.apply(again.member("eve"), seen(again, hunk)), Applied)
    assert (tmp_path / "a.txt").read_text() == TEXT.replace("line 5\n", "five\n")


def seen(desk: OpenWorkspace, *hunks: str) -> list[Seen]:
    """The plans as a person sees them now."""
    found = [show(desk, hunk) for hunk in hunks]
    return [Seen(one.plan.id, one.before, one.after) for one in found]


def approve(desk: OpenWorkspace, hunk: str, by: str = "eve") -> None:
    desk.desk.review.approve(desk.member(by), *seen(desk, hunk)[0])


def apply(desk: OpenWorkspace, hunk: str, by: str = "ann") -> dict[str, Any]:
    return dict(desk.call(by, "apply_file_modification", {"hunk_id": hunk}).fields)


def states(desk: OpenWorkspace) -> dict[str, str]:
    return {one.plan.id: one.state for one in desk.desk.review.pending(desk.member("eve"))}


def untold(desk: OpenWorkspace) -> list[Decision]:
    """What ann has not heard of."""
    return [decision for decision, _ in desk.desk.review.news(desk.member("ann"))]


def test_what_is_shown_is_the_file_now_and_as_it_would_be(both: Both, tmp_path: Path) -> None:
    desk, other = both
    hunk = plan(desk, 20, "twenty")
    shown = show(other, hunk)
    assert (shown.state, shown.decision) == ("exact", None)
    assert shown.before == sha256(TEXT.encode()).hexdigest()
    after = TEXT.replace("line 20\n", "twenty\n")
    assert shown.after == sha256(after.encode()).hexdigest()
    (tmp_path / "a.txt").write_text("new\n" + TEXT)
    moved = show(other, hunk)
    assert moved.state == "drifted"
    assert moved.after == sha256(("new\n" + after).encode()).hexdigest()
    assert b"\n+twenty\n" in moved.diff


def test_the_state_is_that_of_the_file_now(both: Both, tmp_path: Path) -> None:
    desk, other = both
    one, two = plan(desk, 20, "twenty"), plan(desk, 5, "five", "b.txt")
    new = desk.call("ann", "prepare_file_append", {"path": "new.txt", "content": "x"})
    three = str(new.fields["hunk_id"])
    assert states(other) == {one: "exact", two: "exact", three: "exact"}
    (tmp_path / "a.txt").write_text("new\n" + TEXT)
    (tmp_path / "b.txt").write_text(TEXT.replace("line 5\n", "changed\n"))
    assert states(other) == {one: "drifted", two: "conflict", three: "exact"}
    (tmp_path / "a.txt").unlink()
    assert states(other)[one] == "conflict"


def test_of_a_plan_in_conflict_what_was_planned_is_shown(both: Both, tmp_path: Path) -> None:
    desk, other = both
    hunk = plan(desk, 5, "five")
    before = seen(desk, hunk)[0]
    (tmp_path / "a.txt").write_text(TEXT.replace("line 5\n", "changed\n"))
    shown = show(other, hunk)
    assert (shown.state, shown.before, shown.after) == ("conflict", "", "")
    assert isinstance(shown.refusal, ContentChanged)
    assert b"-line 5\n+five\n" in shown.diff
    for one in (before, Seen(hunk, "", "")):
        with pytest.raises(ContentChanged):
            desk.desk.review.approve(desk.member("eve"), *one)


def test_a_move_of_a_file_that_changed_is_shown_with_the_file_now(
    opener: Open, tmp_path: Path
) -> None:
    desk = opener()
    plan(desk, 1, "one\n")  # so that the text is stored
    report = desk.call("ann", "prepare_file_move", {"path": "a.txt", "to": "moved.txt"})
    (tmp_path / "a.txt").write_text("other\n")
    shown = show(desk, str(report.fields["hunk_id"]))
    assert (shown.state, shown.now and shown.now.data) == ("conflict", b"other\n")


def test_who_may_not_read_sees_nothing_and_who_may_not_write_decides_nothing(
    opener: Open,
) -> None:
    desk = opener()
    hunk = plan(desk, 5, "five")
    one = seen(desk, hunk)[0]
    review = desk.desk.review
    assert review.pending(desk.member("blind")) == ()
    with pytest.raises(AccessDenied):
        review.show(desk.member("blind"), hunk)
    assert [w.plan.id for w in review.pending(desk.member("guest"))] == [hunk]
    for name in ("guest", "blind", "ann", "dan"):  # who needs a person is none
        with pytest.raises(AccessDenied):
            review.approve(desk.member(name), *one)
        with pytest.raises(AccessDenied):
            review.reject(desk.member(name), hunk, "no")
        with pytest.raises(AccessDenied):
            review.apply(desk.member(name), [one])


def test_an_approval_is_for_what_was_shown(both: Both, tmp_path: Path) -> None:
    desk, other = both
    hunk = plan(desk, 20, "twenty")
    old = seen(other, hunk)[0]
    (tmp_path / "a.txt").write_text("new\n" + TEXT)
    with pytest.raises(ContentChanged):
        other.desk.review.approve(other.member("eve"), *old)
    approve(other, hunk)
    again = {"path": "a.txt", "range": "21", "content": "other", "existing_hunk_id": hunk}
    now = seen(other, hunk)[0]
    assert not desk.call("ann", "prepare_file_range_edit", again).is_error
    with pytest.raises(ContentChanged):
        other.desk.review.approve(other.member("eve"), *now)
    assert apply(desk, hunk)["error"] == "APPROVAL_REQUIRED"  # what was approved is no more


def test_a_decision_taken_twice_is_refused_with_who_took_it(both: Both) -> None:
    desk, other = both
    one, two = plan(desk, 5, "five"), plan(desk, 9, "nine")
    approve(desk, one)
    desk.desk.review.reject(desk.member("eve"), two, "too short")
    for hunk, verdict in ((one, "approved"), (two, "rejected")):
        for by in ("max", "eve"):
            with pytest.raises(AlreadyDecided) as refused:
                approve(other, hunk, by)
            assert (refused.value.by, refused.value.verdict) == ("eve", verdict)
            with pytest.raises(AlreadyDecided):
                other.desk.review.reject(other.member(by), hunk, "no")
            with pytest.raises(AlreadyDecided):
                other.desk.review.amend(other.member(by), hunk, "x")
    assert apply(desk, one)["status"] == "ok"


def test_of_many_that_decide_at_once_one_is_first(opener: Open) -> None:
    desks = [opener() for _ in range(4)]
    hunk = plan(desks[0], 5, "five")
    now = seen(desks[0], hunk)[0]

    def decide(number: int) -> Decision | None:
        desk = desks[number % 4]
        try:
            if number % 2:
                return desk.desk.review.approve(desk.member("eve"), *now)
            return desk.desk.review.reject(desk.member("max"), hunk, f"no {number}")
        except AlreadyDecided:
            return None

    with ThreadPoolExecutor(8) as pool:
        taken = [one for one in pool.map(decide, range(8)) if one is not None]
    assert len(set(taken)) == 1, "two approvals of one person in one millisecond are one"


def test_a_rejection_needs_a_reason_and_is_told_to_the_owner(both: Both, tmp_path: Path) -> None:
    desk, other = both
    hunk, review, eve = plan(desk, 5, "five"), other.desk.review, other.member("eve")
    for wrong in (" \n", "x" * 4_001):
        for say in (review.reject, review.comment):
            with pytest.raises(InvalidArgs):
                say(eve, hunk, wrong)
    review.reject(eve, hunk, "say it in words")
    (told,) = untold(desk)
    said = told.plan[0], told.verdict, told.by, told.reason
    assert said == (hunk, "rejected", "eve", "say it in words")
    desk.desk.review.tell([told])
    assert untold(other) == []
    refused = apply(desk, hunk)
    assert (refused["error"], refused["by"]) == ("HUNK_REJECTED", "eve")
    assert "file_changed_since_preview" not in refused, "nobody has looked"
    outcome = desk.desk.apply(desk.member("ann"), "apply_file_modification", hunk)
    assert isinstance(outcome, Rejected)
    assert isinstance(outcome.refusal, HunkRejected), "one of the library"
    mine = plan(desk, 5, "five", by="max")  # one that asks nobody heeds it too
    review.reject(eve, mine, "no")
    assert apply(desk, mine, "max")["error"] == "HUNK_REJECTED"
    assert (tmp_path / "a.txt").read_text() == TEXT


def test_ones_own_decision_can_be_taken_back(both: Both, tmp_path: Path) -> None:
    desk, other = both
    hunk = plan(desk, 5, "five")
    approve(desk, hunk)
    with pytest.raises(AlreadyDecided):
        other.desk.review.withdraw(other.member("max"), hunk)
    other.desk.review.withdraw(other.member("eve"), hunk)
    assert apply(desk, hunk)["error"] == "APPROVAL_REQUIRED"
    approve(other, hunk, "max")
    assert apply(desk, hunk)["status"] == "ok"
    with pytest.raises(HunkNotFound):
        other.desk.review.withdraw(other.member("max"), hunk)


def test_an_approval_of_what_is_another_now_stands_no_more(both: Both, tmp_path: Path) -> None:
    desk, other = both
    hunk = plan(desk, 20, "twenty")
    approve(desk, hunk)
    (waiting,) = other.desk.review.pending(other.member("eve"))
    assert waiting.decision is not None
    (tmp_path / "a.txt").write_text("new\n" + TEXT)
    (waiting,) = other.desk.review.pending(other.member("eve"))
    assert (waiting.decision, waiting.state) == (None, "drifted")
    approve(other, hunk, "max")
    assert apply(desk, hunk)["status"] == "ok"
    assert "twenty" in (tmp_path / "a.txt").read_text()


def test_a_reviewer_writes_at_once_as_the_owner(both: Both, tmp_path: Path) -> None:
    desk, other = both
    hunk = plan(desk, 5, "five")
    outcome = other.desk.review.apply(other.member("eve"), seen(other, hunk))
    assert isinstance(outcome, Applied)
    assert (tmp_path / "a.txt").read_text() == TEXT.replace("line 5\n", "five\n")
    (edit,) = desk.history("eve")
    assert (edit.member, edit.hunk_id) == ("ann", hunk)
    (told,) = untold(desk)
    assert (told.plan[0], told.verdict) == (hunk, "approved")
    undone = other.desk.undo(other.member("eve"), "undo_file_modification", edit.edit_id)
    assert not isinstance(undone, Rejected)
    assert (tmp_path / "a.txt").read_text() == TEXT


def test_several_are_written_all_or_none(both: Both, tmp_path: Path) -> None:
    desk, other = both
    hunks = [plan(desk, 5, "five\nfive"), plan(desk, 20, "twenty")]
    hunks.append(plan(desk, 9, "nine", "b.txt", by="dan"))
    done = other.desk.review.apply(other.member("eve"), seen(other, *hunks))
    assert isinstance(done, Transacted), done
    whole = TEXT.replace("line 5\n", "five\nfive\n").replace("line 20\n", "twenty\n")
    assert (tmp_path / "a.txt").read_text() == whole
    assert (tmp_path / "b.txt").read_text() == TEXT.replace("line 9\n", "nine\n")
    assert {edit.member for edit in desk.history("eve")} == {"ann", "dan"}


def test_what_is_not_written_is_not_left_approved(both: Both, tmp_path: Path) -> None:
    desk, other = both
    one, two, three = plan(desk, 5, "five"), plan(desk, 5, "fünf"), plan(desk, 9, "nine")
    approve(other, three)
    outcome = other.desk.review.apply(other.member("eve"), seen(other, one, two, three))
    assert isinstance(outcome, Withheld)
    assert (tmp_path / "a.txt").read_text() == TEXT
    decided = {w.plan.id: w.decision for w in other.desk.review.pending(other.member("eve"))}
    assert decided[one] is decided[two] is None
    assert decided[three] is not None
    stale = seen(other, one, two)
    assert apply(desk, three)["status"] == "ok"
    with pytest.raises(ContentChanged):
        other.desk.review.apply(other.member("eve"), stale)
    desk.desk.review.reject(desk.member("max"), two, "no")
    with pytest.raises(AlreadyDecided):
        other.desk.review.apply(other.member("eve"), seen(other, one, two))
    assert "five" not in (tmp_path / "a.txt").read_text()


def test_none_or_one_twice(opener: Open) -> None:
    desk = opener()
    for hunks in ([], ["same", "same"]):
        with pytest.raises(InvalidArgs):
            desk.desk.review.apply(desk.member("eve"), [Seen(hunk, "", "") for hunk in hunks])


def test_another_text_is_approved_and_written(both: Both, tmp_path: Path) -> None:
    desk, other = both
    hunk = plan(desk, 5, "five")
    old = seen(desk, hunk)[0]
    shown = other.desk.review.amend(other.member("eve"), hunk, "FIVE\r\nand a half")
    assert (shown.plan.id, shown.plan.owner, shown.plan.edited_by) == (hunk, "ann", "eve")
    assert b"-line 5\n+FIVE\n+and a half\n" in shown.diff
    with pytest.raises(ContentChanged):
        desk.desk.review.approve(desk.member("max"), *old)
    assert [(d.verdict, d.by) for d in untold(desk)] == [("amended", "eve")]
    assert apply(desk, hunk)["error"] == "APPROVAL_REQUIRED"
    approve(desk, hunk, "max")
    assert [(d.verdict, d.by) for d in untold(desk)] == [("approved", "max")]
    assert apply(desk, hunk)["status"] == "ok"
    assert "line 4\nFIVE\nand a half\nline 6\n" in (tmp_path / "a.txt").read_text()


BATCH = [{"old_string": f"line {n}\n", "new_string": f"{n}{n}\n"} for n in (3, 4, 12)]


@pytest.mark.parametrize(
    ("old", "new", "mine", "lines"),
    [
        ("line 4\n", "four\n", "vier", "line 3,vier,line 5"),
        ("line 4\n", "four\n", "", "line 3,line 5"),
        ("line 4\n", "four, ", "vier, ", "line 3,vier, line 5"),
        ("ne 4", "ve 4", "ke 4", "line 3,like 4,line 5"),
    ],
)
def test_another_text_for_whole_lines_is_whole_lines(
    opener: Open, tmp_path: Path, old: str, new: str, mine: str, lines: str
) -> None:
    desk = opener()
    arguments = {"path": "a.txt", "old": old, "new": new, "apply": "never"}
    hunk = str(desk.call("ann", "replace_text", arguments).fields["hunk_id"])
    desk.desk.review.amend(desk.member("eve"), hunk, mine)
    desk.desk.review.apply(desk.member("eve"), seen(desk, hunk))
    assert ",".join((tmp_path / "a.txt").read_text().split("\n")).count(lines) == 1


@pytest.mark.parametrize("count", [1, 2])
def test_another_text_is_for_a_batch_of_one_edit(opener: Open, tmp_path: Path, count: int) -> None:
    desk = opener()
    review, eve = desk.desk.review, desk.member("eve")
    two, one = (
        str(
            desk.call("ann", "prepare_batch_edit", {"path": "a.txt", "edits": edits}).fields[
                "hunk_id"
            ]
        )
        for edits in (BATCH[:2], BATCH[:1])
    )
    with pytest.raises(InvalidArgs):
        review.amend(eve, two, "x\n")
    for wrong in ("a\0b", "\ud800"):
        with pytest.raises(InvalidArgs):
            review.amend(eve, one, wrong)
    assert show(desk, one).plan.edited_by == ""
    review.amend(eve, one, "x\n")
    review.apply(eve, seen(desk, one))
    assert (tmp_path / "a.txt").read_text() == TEXT.replace("line 3\n", "x\n")


def test_only_the_drafts_that_were_shown_last_are_kept(opener: Open) -> None:
    desk = opener()
    shown = [show(desk, plan(desk, 5, str(n))) for n in range(MOST_DRAFTS + 2)]
    kept = Drafts()
    for one in shown:
        assert isinstance(one.draft, Draft)
        kept.keep(one.plan, one.draft)
    found = [kept.of(one.plan, one.draft.base.whole()) for one in shown]
    assert found == [None, None, *[one.draft for one in shown[2:]]]


OTHER_LINES = "new\n" + TEXT[:35] + "x\nline 7\nline 9\nend\n"


@pytest.mark.parametrize(
    ("tool", "arguments", "parts"),
    [
        ("prepare_batch_edit", {"edits": BATCH}, 2),
        ("prepare_batch_edit", {"edits": [{"old_string": "line 4\n", "new_string": "x"}]}, 0),
        ("prepare_file_range_edit", {"range": "1~9", "content": OTHER_LINES}, 4),
        ("prepare_file_range_edit", {"range": "2", "content": "x"}, 0),
    ],
)
def test_a_plan_of_several_regions_is_split(
    both: Both, tmp_path: Path, tool: str, arguments: dict[str, Any], parts: int
) -> None:
    desk, other = both
    report = desk.call("ann", tool, {"path": "a.txt", **arguments})
    hunk = str(report.fields["hunk_id"])
    whole = show(desk, hunk)
    if not parts:
        with pytest.raises(InvalidArgs):
            desk.desk.review.split(desk.member("eve"), hunk)
        assert states(other) == {hunk: "exact"}
        return
    made = [one.id for one in desk.desk.review.split(desk.member("eve"), hunk)]
    assert len(made) == parts
    assert states(other) == dict.fromkeys(made, "exact")
    (told,) = untold(other)
    assert (told.plan[0], told.verdict, told.reason) == (hunk, "split", ", ".join(made))
    done = other.desk.review.apply(other.member("eve"), seen(other, *made))
    assert isinstance(done, Transacted), done
    assert sha256((tmp_path / "a.txt").read_bytes()).hexdigest() == whole.after
    assert apply(desk, hunk)["reason"] == "discarded"


def test_a_split_names_the_ids_of_its_parts_where_others_are_taken(
    both: Both, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drawn are the id of another plan, and twice the same one; a part of a refused split goes."""
    (tmp_path / "a.txt").write_bytes(b"a\nb\nc\n")
    desk, other = both
    review, eve = desk.desk.review, desk.member("eve")
    taken, hunk = plan(desk, 1, "A"), two_edits(desk, "c")
    ids = iter([taken, taken, "a0000001", "a0000001", "a0000001", "a0000002"])
    with monkeypatch.context() as drawn:
        drawn.setattr(review, "_services", replace(review._services, ids=ids.__next__))
        made = [one.id for one in review.split(eve, hunk)]
    assert made == ["a0000001", "a0000002"]
    assert [told.reason for told in untold(other)] == ["a0000001, a0000002"]

    def decided(*_: object, **__: object) -> None:
        raise AlreadyDecided(hunk, "eve", "rejected")

    hunk = two_edits(desk, "c")
    monkeypatch.setattr(review, "_take", decided)
    with pytest.raises(AlreadyDecided):
        review.split(eve, hunk)
    assert states(other).keys() == {taken, *made, hunk}


def two_edits(desk: OpenWorkspace, last: str) -> str:
    edits = [{"old_string": "a", "new_string": "x"}, {"old_string": last, "new_string": "y"}]
    report = desk.call("ann", "prepare_batch_edit", {"path": "a.txt", "edits": edits})
    return str(report.fields["hunk_id"])


def test_a_split_keeps_bytes_that_do_not_decode(opener: Open, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"a\xff\nb\nc\xff\nd\n")
    desk = opener()
    made = desk.desk.review.split(desk.member("eve"), two_edits(desk, "c"))
    desk.desk.review.apply(desk.member("eve"), seen(desk, *(one.id for one in made)))
    assert (tmp_path / "a.txt").read_bytes() == b"x\xff\nb\ny\xff\nd\n"


def test_a_plan_that_is_discarded_while_it_is_split_has_no_parts(
    opener: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_bytes(b"a\nb\nc\n")
    desk = opener()
    hunk = two_edits(desk, "c")
    turns = desk.desk._services.locks  # pyright: ignore[reportPrivateUsage]
    of_all = turns.of_all

    def discarded_first(*arguments: Any) -> Any:
        monkeypatch.undo()
        desk.call("ann", "discard_hunk", {"hunk_id": hunk})
        return of_all(*arguments)

    monkeypatch.setattr(turns, "of_all", discarded_first)
    with pytest.raises(HunkNotFound):
        desk.desk.review.split(desk.member("eve"), hunk)
    assert states(desk) == {}


def test_a_split_that_would_change_other_bytes_is_refused(opener: Open, tmp_path: Path) -> None:
    """The last line has no newline, and an edit of lines would give it one."""
    (tmp_path / "a.txt").write_bytes(b"a\nb\nc\nd")
    desk = opener()
    hunk = two_edits(desk, "d")
    with pytest.raises(InvalidArgs):
        desk.desk.review.split(desk.member("eve"), hunk)
    assert show(desk, hunk).decision is None


DAY = 24 * 3_600_000


def life(desk: OpenWorkspace, hunk: str) -> int:
    """How long the plan waits from the moment when it was prepared."""
    found = desk.desk.show(desk.member("eve"), hunk).plan
    return found.expires_ms - found.created_ms


def test_a_plan_that_a_person_approves_waits_for_a_week(opener: Open) -> None:
    desk = opener()
    assert life(desk, plan(desk, 3, "x")) == 7 * DAY
    assert life(desk, plan(desk, 3, "x", by="eve")) == DAY // 24
    fields = apply(desk, plan(desk, 4, "x"))
    assert fields["status"] == "pending"


@pytest.mark.parametrize("shared", [False, True])
def test_a_plan_waits_for_a_week_once_a_person_is_needed(tmp_path: Path, shared: bool) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    (tmp_path / "b.txt").write_text(TEXT)
    config = Config(members={**MEMBERS, "two": MemberConfig(self_files=1)}, durability="fast")
    with open_workspace(str(tmp_path), config, shared=shared) as desk:
        hunks = [plan(desk, 3, "x", path, by="two") for path in ("a.txt", "b.txt")]
        assert {life(desk, hunk) for hunk in hunks} == {DAY // 24}
        given = {"hunk_ids": hunks}
        said = desk.call("two", "apply_file_modifications", given)
        assert said.fields["status"] == "pending", said.text
        assert {life(desk, hunk) for hunk in hunks} == {7 * DAY}
        found = [desk.desk.show(desk.member("eve"), hunk).plan.transaction for hunk in hunks]
        assert found[0] == found[1] != ""
        desk.call("two", "apply_file_modifications", given)
        assert desk.desk.show(desk.member("eve"), hunks[0]).plan.transaction == found[0]


def test_a_plan_that_waits_longer_is_the_same_plan(opener: Open) -> None:
    desk = opener()
    hunk, review = plan(desk, 3, "x"), desk.desk.review
    before = desk.desk.show(desk.member("eve"), hunk).plan
    approve(desk, hunk)
    after = review.extend(desk.member("max"), hunk)
    assert after.expires_ms >= before.expires_ms
    assert replace(after, expires_ms=before.expires_ms) == before
    for other in ("ann", "guest"):
        with pytest.raises(AccessDenied):
            review.extend(desk.member(other), hunk)
    done = desk.desk.applying.write(desk.member("ann"), before)
    assert isinstance(done, Applied), "who had looked it up before it was extended writes it"
    with pytest.raises(HunkNotFound):
        review.extend(desk.member("eve"), hunk)


def test_an_extended_plan_outlives_its_first_week_with_its_comments(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    now = [1_000_000_000_000]
    config = Config(members=MEMBERS, durability="fast", approval_ttl_seconds=600)
    with open_workspace(str(tmp_path), config, shared=False, clock=lambda: now[0]) as desk:
        hunk = plan(desk, 3, "x")
        assert life(desk, hunk) == DAY // 24, "a shorter time than that of others is not meant"
    config = Config(members=MEMBERS, durability="fast")
    with open_workspace(str(tmp_path), config, clock=lambda: now[0]) as desk:
        hunk = plan(desk, 3, "x")
        desk.desk.review.comment(desk.member("eve"), hunk, "why?")
        now[0] += 6 * DAY
        assert desk.desk.review.extend(desk.member("eve"), hunk).expires_ms == now[0] + 7 * DAY
        now[0] += 6 * DAY
        assert len(desk.desk.review.comments(show(desk, hunk))) == 1
        approve(desk, hunk)
        assert apply(desk, hunk)["status"] == "ok"


TRIES = {"sqlite": 600, "redis": 250}
"""Rounds, of four to seven tries each."""

WAYS = ("prepared anew", "drifted", "both", "neither")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_nobody_approves_unseen(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Two people and an agent at one plan at once, thousands of times, as processes would."""
    # or all edits before are looked at, each time
    monkeypatch.setattr(overwritten, "LOOKED_BACK_MS", 0)
    file = tmp_path / "a.txt"
    file.write_text(TEXT)
    config = Config(members=MEMBERS, durability="fast")
    if kind == "redis":
        server: RedisServer = request.getfixturevalue("redis_server")
        name = server.fresh_name()
        config = replace(config, registry="redis", redis_url=server.url, registry_name=name)
    saw: dict[str, set[tuple[str, str]]] = {"eve": set(), "max": set()}
    outcomes: Counter[str] = Counter()
    chance = random.Random(23)

    def person(desk: OpenWorkspace, name: str, hunk: str, act: str) -> None:
        try:
            one = show(desk, hunk, by=name)
            if one.refusal is not None:
                return
            before, after = (text.whole().data for text in (one.draft.base, one.draft.after))
            saw[name].add((sha256(before).hexdigest(), sha256(after).hexdigest()))
            if act == "apply":
                done = desk.desk.review.apply(
                    desk.member(name), [Seen(hunk, one.before, one.after)]
                )
                outcomes[f"page {type(done).__name__}"] += 1
            elif act == "reject":
                desk.desk.review.reject(desk.member(name), hunk, "no")
                outcomes["rejected"] += 1
            else:
                desk.desk.review.approve(desk.member(name), hunk, one.before, one.after)
                outcomes["approved"] += 1
        except Refusal as refusal:
            outcomes[refusal.code] += 1

    def agent(desk: OpenWorkspace, hunk: str, number: int, way: str) -> None:
        if way in ("prepared anew", "both"):
            arguments = {"path": "a.txt", "range": "3", "content": f"other {number}"}
            arguments["existing_hunk_id"] = hunk
            said = desk.call("ann", "prepare_file_range_edit", arguments)
            outcomes[f"anew {said.fields.get('error', 'ok')}"] += 1
        for _ in range(3):
            outcomes[f"agent {apply(desk, hunk).get('error', 'ok')}"] += 1

    def drift(number: int) -> None:
        text = file.read_bytes()
        made = file.with_suffix(".new")
        made.write_bytes(text + b"drift %d\n" % number)
        made.rename(file)

    with ExitStack() as open_, ThreadPoolExecutor(4) as pool:
        desks = [open_.enter_context(open_workspace(str(tmp_path), config)) for _ in range(3)]
        for number in range(TRIES[kind]):
            if number % 50 == 0:
                file.write_text(TEXT)
            hunk = plan(desks[0], 3, f"new {number}")
            way, act = chance.choice(WAYS), chance.choice(("approve", "approve", "apply", "reject"))
            jobs = [
                pool.submit(person, desks[1], "eve", hunk, "approve"),
                pool.submit(person, desks[2], "max", hunk, act),
                pool.submit(agent, desks[0], hunk, number, way),
            ]
            if way in ("drifted", "both"):
                jobs.append(pool.submit(drift, number))
            chance.shuffle(jobs)
            for job in jobs:
                job.result()
        entries: list[Entry] = []
        while page := desks[0].journal.entries(before=entries[-1].edit_id if entries else None):
            entries += page
    written = [one for one in entries if one.member == "ann" and one.state != "failed"]
    for one in written:
        assert one.approval is not None, one.edit_id
        assert (one.before, one.after) in saw[one.approval.by], (one.edit_id, one.approval)
        assert (one.approval.before, one.approval.after) == (one.before, one.after), one.edit_id
    assert written, outcomes
    assert outcomes["approved"], outcomes
