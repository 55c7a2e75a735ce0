"""Large files that changed since a plan was made: as small ones are carried, so are they."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copydesk.app.config import Config
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.desk.outcome import Applied, Planned, Rejected
from copydesk.edit.request import Anchor, Append, Insert, RangeEdit, Request, Terms
from copydesk.errors import Refusal
from copydesk.text import sizes
from copydesk.text.relocation import LineKeys, Relocation
from copydesk.text.snapshot import Excerpt, Snapshot
from support.cost import examples
from support.large_files import LARGE_FILES, PATH, TOOL, Desks, numbered, prepared
from support.texts import LineEdit, files, requests

DESK = LARGE_FILES


def applied(desk: OpenWorkspace, plan: Planned) -> str:
    """What the apply came to: how the plan stood, or why it was refused."""
    done = desk.desk.apply(desk.member("local"), "apply", plan.plan.id)
    return done.context if isinstance(done, Applied) else done.refusal.code


# By copydesk itself


@pytest.mark.slow
def test_plans_on_other_lines_apply_in_any_order(desk: OpenWorkspace) -> None:
    path = Path(desk.root, "a.txt")
    edits: list[tuple[Request, bytes, bytes]] = [
        (RangeEdit(PATH, "10~12", "one\n"), b"000010 of many lines\n000011 of many lines\n"
         b"000012 of many lines\n", b"one\n"),
        (RangeEdit(PATH, "13", ""), b"000013 of many lines\n", b""),
        (Insert(PATH, Anchor("004000"), "above\nbelow\n", "before"), b"004000", b"above\nbelow\n004000"),
        (RangeEdit(PATH, "5000", "end"), b"005000 of many lines", b"end"),
    ]  # fmt: skip
    expected = numbered(5000)
    for _, old, new in edits:
        expected = expected.replace(old, new)
    for order in permutations(range(len(edits))):
        path.write_bytes(numbered(5000))
        plans = [prepared(desk, edit) for edit, _, _ in edits]
        assert all(isinstance(plan.draft.base, Excerpt) for plan in plans)
        found = [applied(desk, plans[i]) for i in order]
        assert set(found) <= {"exact", "fuzz"}
        assert path.read_bytes() == expected


@pytest.mark.parametrize(
    ("more", "reason"), [(100, None), (5000, "that version is not remembered")]
)
def test_a_version_from_before_the_file_became_too_large_to_be_compared(
    desk: OpenWorkspace, more: int, reason: str | None
) -> None:
    path = Path(desk.root, "a.txt")
    path.write_bytes(numbered(100))
    version = desk.call("local", "read_file", {"path": "a.txt"}).fields["version"]
    path.write_bytes(numbered(100) + b"end\n" * more)
    edit = {"path": "a.txt", "range": "5", "content": "x", "version": version}
    found = desk.call("local", "prepare_file_range_edit", edit).fields
    assert found.get("reason") == reason


@pytest.mark.parametrize(("first", "code"), [
    (RangeEdit(PATH, "500", "other"), "CONTENT_CHANGED"),
    (RangeEdit(PATH, "499~501", "other"), "CONTENT_CHANGED"),
    (RangeEdit(PATH, "501", ""), "CONTENT_CHANGED"),
    (Insert(PATH, Anchor("000500"), "between", "after"), "CONTENT_CHANGED"),
    (Insert(PATH, Anchor("000501"), "under it", "after"), "fuzz"),
    (RangeEdit(PATH, "502", "other"), "fuzz"),
    (RangeEdit(PATH, "499", ""), "fuzz"),
    (RangeEdit(PATH, "499", "000500 of many lines\n000501 of many lines"), "fuzz"),
    (Append(PATH, "end"), "exact"),
])  # fmt: skip
def test_what_an_edit_before_it_does_to_a_plan(
    desk: OpenWorkspace, first: Request, code: str
) -> None:
    path = Path(desk.root, "a.txt")
    path.write_bytes(numbered(5000))
    plan, other = prepared(desk, RangeEdit(PATH, "500~501", "new")), prepared(desk, first)
    applied(desk, other)
    before = path.read_bytes()
    assert applied(desk, plan) == code
    if code == "CONTENT_CHANGED":
        assert path.read_bytes() == before
    else:
        old = b"\n000500 of many lines\n000501 of many lines\n"
        at = before.rindex(old)
        assert path.read_bytes() == before[:at] + b"\nnew\n" + before[at + len(old) :]


@pytest.mark.parametrize("text", ["\n\n\na", "\n\n\na\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_lines_that_stood_there_are_not_taken_for_the_edit(
    desks: Desks, monkeypatch: pytest.MonkeyPatch, text: str, encoding: str
) -> None:
    """The append ends the last line, which stood there before as well."""
    edits: list[LineEdit] = [Append(PATH, "x"), RangeEdit(PATH, "2~2", "\n\na\n")]
    desks.write(text.encode(encoding))
    assert _outcomes(desks.opened[0], edits, [0, 1]) == ["exact", "fuzz"]
    monkeypatch.setattr(sizes, "LARGE", 0)
    assert _outcomes(desks.opened[1], edits, [0, 1]) == ["exact", "fuzz"]
    assert len({(root / "a.txt").read_bytes() for root in desks.roots}) == 1


@pytest.mark.parametrize("text", ["a\n\nb", "a\n\n\r", "a\n\n"])
def test_an_equal_line_is_put_once(
    desks: Desks, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """Two agents put the same blank line beside one that stood there: the second is refused."""
    edits: list[LineEdit] = [Insert(PATH, Anchor("a", "equals"), "\n", "after")] * 2
    desks.write(text.encode())
    assert _outcomes(desks.opened[0], edits, [0, 1]) == ["exact", "CONTENT_CHANGED"]
    monkeypatch.setattr(sizes, "LARGE", 0)
    assert _outcomes(desks.opened[1], edits, [0, 1]) == ["exact", "CONTENT_CHANGED"]
    assert len({(root / "a.txt").read_bytes() for root in desks.roots}) == 1


@pytest.mark.slow
@settings(max_examples=examples(60))
@given(st.data(), files, st.sampled_from([8, 40, 1 << 20]))
def test_both_ways_carry_through_edits_of_copydesk(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, text: bytes, block: int
) -> None:
    """The way in parts carries as the way of the whole does, to the same bytes."""
    edits: list[LineEdit] = data.draw(
        st.lists(requests(Snapshot.of(text)), min_size=2, max_size=4), "edits"
    )
    order = data.draw(st.permutations(range(len(edits))), "order")
    with Desks(tmp_path_factory.mktemp("any")) as desks:
        desks.write(text)
        found = [_outcomes(desks.opened[0], edits, order)]
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(sizes, "LARGE", 0)
            patched.setattr(sizes, "BLOCK", block)
            found.append(_outcomes(desks.opened[1], edits, order))
        assert found[0] == found[1]
        after = [(root / "a.txt").read_bytes() for root in desks.roots]
        assert after[0] == after[1]


def test_what_stands_there_may_not_be_at_hand(
    desks: Desks, monkeypatch: pytest.MonkeyPatch
) -> None:
    desks.write(b"\xff\xfea\x00\n\x00")
    edits: list[LineEdit] = [
        Append(PATH, "x", create=True),
        Append(PATH, "\n\n\n", create=True),
        RangeEdit(PATH, "1~1", ""),
        Insert(PATH, Anchor("a", match="equals"), "\n\n\n\n", "before", 1),
    ]
    order = [0, 1, 3, 2]
    wanted = _outcomes(desks.opened[0], edits, order)
    monkeypatch.setattr(sizes, "LARGE", 0)
    monkeypatch.setattr(sizes, "BLOCK", 8)
    assert _outcomes(desks.opened[1], edits, order) == wanted


def _outcomes(desk: OpenWorkspace, edits: Sequence[LineEdit], order: Sequence[int]) -> list[str]:
    plans: list[Planned | str] = []
    for edit in edits:
        try:
            plans.append(prepared(desk, edit))
        except Refusal as refusal:
            plans.append(refusal.code)
    chosen = [plans[i] for i in order]
    return [plan if isinstance(plan, str) else applied(desk, plan) for plan in chosen]


# By other programs


def replaced(path: Path, data: bytes) -> None:
    """The file becomes another one, as editors write it."""
    other = path.with_name("other")
    other.write_bytes(data)
    os.replace(other, path)


@pytest.mark.slow
@settings(max_examples=examples(150))
@given(st.data(), files, st.sampled_from([8, 40, 1 << 20]))
def test_both_ways_carry_through_changes_of_others(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, text: bytes, block: int
) -> None:
    """Plans and their applies are reported the same, refusals too, and leave the same bytes."""
    request: LineEdit = data.draw(requests(Snapshot.of(text)), "edit")
    now = data.draw(drifted(text), "now")
    with Desks(tmp_path_factory.mktemp("any")) as desks:
        desks.check(text, request, block=block, between=lambda path: replaced(path, now))


@st.composite
def drifted(draw: st.DrawFn, text: bytes) -> bytes:
    """The text with some of its pieces gone, doubled, moved, blanked at the end, or new."""
    parts = text.split(b"\n")
    for _ in range(draw(st.integers(1, 3))):
        i = draw(st.integers(0, len(parts) - 1))
        j = draw(st.integers(i, min(i + 3, len(parts) - 1)))
        kind = draw(st.sampled_from(("gone", "twice", "moved", "blanks", "new", "terminator")))
        if kind == "gone":
            parts = parts[:i] + parts[j:] or [b""]
        elif kind == "twice":
            parts[j:j] = parts[i:j]
        elif kind == "moved":
            parts = parts[i:] + parts[:i]
        elif kind == "new":
            parts.insert(i, draw(st.sampled_from((b"", b"a", b"}", b"new"))))
        else:
            parts[i] = parts[i].removesuffix(b"\r") + (b" " if kind == "blanks" else b"\r")
    return b"\n".join(parts)


@settings(max_examples=examples(100))
@given(st.data(), files)
def test_digests_carry_what_lines_carry(data: st.DataObject, text: bytes) -> None:
    base = Snapshot.of(text)
    later = data.draw(drifted(text), "now")
    bom = base.encoding.bom if later.startswith(base.encoding.bom) else b""  # it may have moved
    now = Snapshot(later, replace(base.encoding, bom=bom))
    by_lines = Relocation(LineKeys.of(base.keys), LineKeys.of(now.keys))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sizes, "BLOCK", data.draw(st.sampled_from((1, 8, 1 << 20)), "block"))
        by_digest = Relocation(LineKeys.by_digest(base), LineKeys.by_digest(now))
    for start in range(-1, base.line_count + 1):
        for stop in range(start + 1, min(start + 4, base.line_count + 2)):
            assert by_lines.carry(start, stop) == by_digest.carry(start, stop)


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenWorkspace]:
    """A workspace shared by processes in which a file is large above 4 KiB."""
    monkeypatch.setattr(sizes, "LARGE", 4 << 10)
    monkeypatch.setattr(sizes, "BLOCK", 256)
    (tmp_path / "root").mkdir()
    config = Config(durability="fast", state=str(tmp_path / "state"))
    with open_workspace(str(tmp_path / "root"), config) as opened:
        yield opened


@pytest.mark.slow
def test_two_plans_are_carried_through_a_foreign_write(
    large: OpenWorkspace, tmp_path: Path
) -> None:
    path = tmp_path / "root/a.txt"
    path.write_bytes(numbered(5000))
    first, second = (prepared(large, RangeEdit(PATH, n, "new")) for n in ("1000", "4000"))
    replaced(path, b"first\n" + numbered(5000).replace(b"002500 of", b"002500 of so"))
    assert applied(large, second) == applied(large, first) == "fuzz"
    expected = numbered(5000).replace(b"002500 of", b"002500 of so")
    for line in (b"001000", b"004000"):
        expected = expected.replace(line + b" of many lines", b"new")
    assert path.read_bytes() == b"first\n" + expected


def test_another_process_finds_what_was_planned_on(
    large: OpenWorkspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "root/a.txt"
    path.write_bytes(numbered(1000))
    plan = prepared(large, RangeEdit(PATH, "500", "new"))
    large.close()  # what is to be kept is kept then
    path.write_bytes(b"first\n" + numbered(1000))
    with open_workspace(large.root, large.config) as again:
        assert applied(again, plan) == "fuzz"
    assert path.read_bytes().split(b"\n")[500] == b"new"


def test_a_large_file_that_was_read_is_a_base(large: OpenWorkspace, tmp_path: Path) -> None:
    path = tmp_path / "root/a.txt"
    path.write_bytes(numbered(1000))
    member = large.member("local")
    version = large.desk.read(member, PATH, "10~20").version
    replaced(path, b"first\n" + numbered(1000))
    for number in ("500", "400"):
        done = large.desk.prepare(member, TOOL, RangeEdit(PATH, number, "new"), Terms(version))
        assert isinstance(done, Planned)
        assert applied(large, done) == "exact"
    lines = path.read_bytes().split(b"\n")
    assert (lines[400], lines[500]) == (b"new", b"new")


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("LINES", 900, "too large"),
        ("COMPARED", 8 << 10, "too large"),
        ("PART", 1 << 30, "no longer remembered"),
    ],
)
def test_what_is_too_large_is_not_compared(
    large: OpenWorkspace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: int,
    reason: str,
) -> None:
    monkeypatch.setattr(sizes, name, value)
    path = tmp_path / "root/a.txt"
    path.write_bytes(numbered(1000))
    plan = prepared(large, RangeEdit(PATH, "500", "new"))
    replaced(path, b"first\n" + numbered(1000))
    done = large.desk.apply(large.member("local"), "apply", plan.plan.id)
    assert isinstance(done, Rejected)
    assert reason in str(done.refusal)


def test_bytes_that_changed_before_they_were_kept_are_not_kept(
    large: OpenWorkspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is remembered for a digest has it, whenever it was read."""
    path = tmp_path / "root/a.txt"
    path.write_bytes(numbered(1000))
    content = large.files.open_for_reading(PATH)
    digest = Snapshot.of(numbered(1000)).digest
    with path.open("r+b") as file:
        file.write(b"x")
    assert content.packed(digest, 1 << 20) is None
    again = large.files.open_for_reading(PATH)
    data = again.packed(Snapshot.of(path.read_bytes()).digest, 1 << 20)
    assert data is not None
    assert zlib.decompress(data) == path.read_bytes()
