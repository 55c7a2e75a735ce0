"""prepare_batch_edit and the apply of its plans, as a caller meets them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from copydesk.app.workspace import OpenWorkspace
from support.batch_calls import nulls, pairs, put
from support.cost import examples
from support.desks import Setup
from support.rows import each_row

DESK = Setup()


TEXT = "".join(f"line {i}\n" for i in range(1, 41))


def planned(desk: OpenWorkspace, edits: object, **more: Any) -> dict[str, Any]:
    given = {"path": "a.txt", "edits": edits, **more}
    return dict(desk.call("local", "prepare_batch_edit", given).fields)


def prepared(desk: OpenWorkspace, *edits: tuple[str, str], **more: Any) -> dict[str, Any]:
    fields = planned(desk, pairs(*edits), **more)
    assert fields["status"] != "error", fields
    return fields


def applied(desk: OpenWorkspace, hunk_id: str) -> dict[str, Any]:
    return dict(desk.call("local", "apply_file_modification", {"hunk_id": hunk_id}).fields)


TWO = (("line 10\n", "ten\n"), ("line 30", "thirty\n30"))


def test_a_planned_batch(desk: OpenWorkspace) -> None:
    target = put(desk, "a.txt", TEXT)
    plan = prepared(desk, *TWO)
    assert target.read_text() == TEXT
    assert plan["regions"] == [
        {"index": 0, "start_line": 10, "end_line": 10},
        {"index": 1, "start_line": 30, "end_line": 30},
    ]
    done = applied(desk, plan["hunk_id"])
    assert (done["status"], done["context_match"]) == ("ok", "exact")
    assert target.read_text() == TEXT.replace("line 10\n", "ten\n").replace("line 30", "thirty\n30")
    again = applied(desk, plan["hunk_id"])
    assert (again["error"], again["reason"]) == ("HUNK_NOT_FOUND", "applied")


def test_the_parts_are_carried_each_on_its_own(desk: OpenWorkspace) -> None:
    target = put(desk, "a.txt", TEXT)
    plan = prepared(desk, *TWO)
    now = "first\n" + TEXT.replace("line 20\n", "line 20\nmore\nand more\n")
    target.write_text(now)
    done = applied(desk, plan["hunk_id"])
    assert done["context_match"] == "fuzz", done
    assert target.read_text() == now.replace("line 10\n", "ten\n").replace("line 30", "thirty\n30")


@each_row("gone", ["line 10\n", "line 30\n"])
def test_one_part_changed_and_nothing_is_written(desk: OpenWorkspace, gone: str) -> None:
    target = put(desk, "a.txt", TEXT)
    plan = prepared(desk, *TWO)
    target.write_text(TEXT.replace(gone, "another\n"))
    before = target.stat().st_mtime_ns
    done = applied(desk, plan["hunk_id"])
    assert (done["error"], done["context_match"]) == ("CONTENT_CHANGED", "rejected")
    left = (target.read_text(), target.stat().st_mtime_ns)
    assert left == (TEXT.replace(gone, "another\n"), before)
    target.write_text(TEXT)
    assert applied(desk, plan["hunk_id"])["status"] == "ok"


def test_a_planned_batch_on_the_version_that_was_read(desk: OpenWorkspace) -> None:
    target = put(desk, "a.txt", TEXT)
    version = desk.call("local", "read_file", {"path": "a.txt"}).fields["version"]
    target.write_text("first\n" + TEXT)
    plan = prepared(desk, *TWO, version=version)
    assert plan["regions"][0]["start_line"] == 11
    target.write_text(TEXT.replace("line 10\n", ""))
    assert planned(desk, pairs(*TWO), version=version)["error"] == "STALE_READ"


def test_a_planned_batch_made_anew_and_at_once(desk: OpenWorkspace) -> None:
    target = put(desk, "a.txt", TEXT)
    plan = prepared(desk, *TWO)
    other = prepared(desk, ("line 5\n", "five\n"), existing_hunk_id=plan["hunk_id"])
    assert other["hunk_id"] == plan["hunk_id"]
    assert applied(desk, plan["hunk_id"])["status"] == "ok"
    assert target.read_text() == TEXT.replace("line 5\n", "five\n")
    done = prepared(desk, ("line 6\n", "six\n"), apply="auto")
    assert done["changed"] is True
    assert "six\n" in target.read_text()


def test_a_planned_batch_adds_no_newline_at_the_end(desk: OpenWorkspace) -> None:
    target = put(desk, "a.txt", "a\r\nb\nc")
    plan = prepared(desk, ("a", "x\ny"), ("c", "z"))
    assert applied(desk, plan["hunk_id"])["status"] == "ok"
    assert target.read_bytes() == b"x\r\ny\r\nb\nz"


@each_row(
    "edits code",
    [
        (pairs(("no such text", "x")), "PARTIAL_MATCH_FAIL"),
        (pairs(("line 40", "x"), ("40\n", "y")), "COLLISION_DETECTED"),
        (pairs(("line 40", "x"), ("line 40", "x")), "DUPLICATE_EDITS"),
        (pairs(("line 40", "line 40")), "INVALID_ARGS"),
    ],
)
def test_a_batch_that_cannot_be_planned(desk: OpenWorkspace, edits: object, code: str) -> None:
    put(desk, "a.txt", TEXT)
    assert planned(desk, edits)["error"] == code
    assert desk.pending("local") == ()


def test_what_a_batch_that_cannot_be_planned_tells_has_no_gaps(desk: OpenWorkspace) -> None:
    put(desk, "a.txt", TEXT)
    edits = pairs(("no such text", "x"), ("lime 12", "x"), ("line 1", "x"))
    fields, usual = planned(desk, edits), {"index", "reason", "matches_count", "lines"}
    told = [set(failure) - usual for failure in fields["failures"]]
    assert told == [set(), {"nearest_lines", "similarity", "difference"}, set()]
    assert not nulls(fields)


@pytest.mark.parametrize("wrong", ["", "mtime_ms", "size_bytes", "sha256"])
@pytest.mark.parametrize("apply", ["never", "auto"])
def test_a_batch_is_planned_on_what_is_expected(
    desk: OpenWorkspace, wrong: str, apply: str
) -> None:
    """The same input as BatchEdit has; an expectation that does not hold comes first."""
    target = put(desk, "a.txt", TEXT)
    stats: Any = desk.call("local", "Read", {"path": "a.txt"}).fields["stats"]
    known: dict[str, Any] = {f"expected_{key[5:]}": stats[key] for key in stats if "file" in key}
    assert len(known) == 3
    if wrong:
        known[f"expected_{wrong}"] = "0" * 64 if wrong == "sha256" else 1
    edits = pairs(("line 7\n", "seven\n")) if not wrong else pairs(("no such text", "x"))
    fields = planned(desk, edits, apply=apply, **known)
    assert fields.get("error") == ("CONFLICT" if wrong else None)
    assert list(fields.get("mismatches", ())) == [f"expected_{wrong}"] * bool(wrong)
    assert len(desk.pending("local")) == (not wrong and apply == "never")
    assert (target.read_text() == TEXT) == (bool(wrong) or apply == "never")


def test_a_plan_is_a_dry_run_by_itself(desk: OpenWorkspace) -> None:
    target = put(desk, "a.txt", TEXT)
    plan = prepared(desk, *TWO, dry_run=True)
    fields = planned(desk, pairs(*TWO), dry_run=True, apply="auto")
    assert (fields["error"], fields["argument"]) == ("INVALID_ARGS", "apply")
    assert target.read_text() == TEXT
    assert applied(desk, plan["hunk_id"])["status"] == "ok"


@each_row("expected_old", ["line 10\n", "line 10\nline 11\n", "x", TEXT])
@each_row("apply", ["never", "auto"])
def test_a_batch_takes_no_expected_old(desk: OpenWorkspace, expected_old: str, apply: str) -> None:
    """Its own texts say what is replaced; those of one edit are no run of lines."""
    target, pending = put(desk, "a.txt", TEXT), desk.pending("local")
    fields = planned(desk, pairs(TWO[0]), expected_old=expected_old, apply=apply)
    assert (fields["error"], fields["argument"]) == ("INVALID_ARGS", "expected_old")
    assert target.read_text() == TEXT
    assert desk.pending("local") == pending
    prepared(desk, TWO[0], expected_old="", apply=apply)


# what a plan and its apply tell


@pytest.mark.parametrize(
    ("edits", "lines", "regions"),
    [
        # (start, end) of the lines that are altered, before and after
        (TWO, (2, 3), [((10, 10), (10, 10)), ((30, 30), (30, 31))]),
        ((("line 10\n", "line 10\nnew\n"),), (0, 1), [((11, 10), (11, 11))]),
        ((("line 10\n", ""), ("line 30\n", "x\n")), (2, 1), [((10, 10), (10, 9)), ((30, 30), (29, 29))]),
        ((("line 10\nline 11\n", "line 10\nx\n"),), (1, 1), [((11, 11), (11, 11))]),
        ((("line 10\n", "x\n"), ("line 11\n", "y\n")), (2, 2), [((10, 10), (10, 10)), ((11, 11), (11, 11))]),
        ((("line 10", "line 10"), ("line 40\n", "x")), (1, 1), [((40, 40), (40, 40))]),
        ((("e 10\nline 11\nl", "e 11\nl"),), (1, 0), [((10, 10), (10, 9))]),
        (tuple((f"line {i}\n", f"{i}\n\n") for i in range(11, 40, 4)), (8, 16), [((11 + 4 * i,) * 2, (11 + 5 * i, 12 + 5 * i)) for i in range(5)]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("drift", [0, 3])
def test_the_lines_of_each_region_are_told(
    desk: OpenWorkspace,
    edits: Sequence[tuple[str, str]],
    lines: tuple[int, int],
    regions: list[tuple[tuple[int, int], tuple[int, int]]],
    drift: int,
) -> None:
    """The first regions by their lines, before and after; counts are of lines that differ."""
    target = put(desk, "a.txt", TEXT)
    plan = prepared(desk, *edits)
    target.write_text("above\n" * drift + TEXT)
    before = target.read_text().removesuffix("\n").split("\n")
    done = applied(desk, plan["hunk_id"])
    after = target.read_text().removesuffix("\n").split("\n")
    old, new = lines
    assert done["context_match"] == ("fuzz" if drift else "exact")
    for report in (plan, done):
        assert report["lines"] == {"old": old, "new": new, "delta": new - old}
        assert all(str(number) in report["summary"] for number in (len(edits), old, new))
    assert len(after) - len(before) == new - old
    planned = [(row["start_line"], row["end_line"]) for row in plan["evidence"]["regions"]]
    assert planned == [before for before, _ in regions]
    written = done["apply_evidence"]["regions"]
    moved = [(start + drift, end + drift) for _, (start, end) in regions]
    assert [(row["start_line"], row["end_line"]) for row in written] == moved
    for row, (start, end) in zip(written, moved, strict=True):
        assert row["written"] == shown(after, start, end)
        assert row["before"] == shown(after, start - 1, start - 1)
        assert row["after"] == (shown(after, end + 1, end + 1) if end < len(after) else "")
    for row, (start, end) in zip(plan["evidence"]["regions"], planned, strict=True):
        assert row["old"] == shown(TEXT.split("\n"), start, end)
    left_out = {"regions_left_out": 3} if len(edits) == 8 else {}
    for found in (plan["evidence"], done["apply_evidence"]):
        assert {key: found[key] for key in found if key != "regions"} == left_out


def shown(lines: list[str], first: int, last: int) -> str:
    """Lines from `first` to `last`, from 1, as evidence shows them."""
    return "".join(f"{line}\n" for line in lines[first - 1 : last])


def test_a_brief_report_is_one_line(desk: OpenWorkspace) -> None:
    put(desk, "a.txt", TEXT)
    edits = [(f"line {i}\n", f"{i}\n" + "x" * 100 + "\nmore\n") for i in range(10, 40, 5)]
    given = {"path": "a.txt", "apply": "auto", "report": "brief", "edits": pairs(*edits)}
    done = desk.call("local", "prepare_batch_edit", given)
    version = done.fields["version"]
    assert done.text == f"ok a.txt:10 +18 -6 · 6 places · edit 1 · version {version}\n"
    assert done.data["apply_evidence"]["regions_left_out"] == 1  # type: ignore[call-overload, index]


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(60))
@given(
    st.lists(st.tuples(st.integers(0, 11), st.text("ab\n", max_size=4)), min_size=1, max_size=5, unique_by=lambda edit: edit[0]),
    st.sampled_from(("\n", "\r\n")),
)  # fmt: skip
def test_what_is_told_of_the_regions_makes_the_file(
    desk: OpenWorkspace, edits: list[tuple[int, str]], newline: str
) -> None:
    """The old file with the regions of the report put in, is the new file."""
    target = put(desk, "a.txt", newline.join(f"<{i}>{i}" for i in range(12)) + newline)
    before = target.read_bytes().decode().replace("\r\n", "\n").split("\n")
    plan = prepared(desk, *((f"<{i}>", new) for i, new in edits))
    done = applied(desk, plan["hunk_id"])
    after = target.read_bytes().decode().replace("\r\n", "\n").split("\n")
    rows = list(zip(plan["evidence"]["regions"], done["apply_evidence"]["regions"], strict=True))
    for old, new in reversed(rows):
        lines = new["written"].split("\n")[:-1]
        assert old["old"] == shown(before, old["start_line"], old["end_line"])
        before[old["start_line"] - 1 : old["end_line"]] = lines
    assert before == after
