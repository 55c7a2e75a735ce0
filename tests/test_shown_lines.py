"""Lines that were shown: what an edit keeps of them, what is remembered, and what `auto` takes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.desk.backends.snapshots import (
    MOST_RUNS,
    MOST_SHOWN,
    VERSIONS,
    CarriedLines,
    LineChange,
    Note,
    Run,
    ShownLines,
    Snapshots,
    join,
)
from copydesk.desk.backends.sqlite import Database, SqliteSnapshots
from copydesk.desk.member import line_change
from copydesk.store.state import StateFile
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.diff import regions, unified
from copydesk.text.encoding import Encoding
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot
from copydesk.tools.diff_model import FileLines, lines_in
from support.records import KEPT, snapshots_of

PATH = RelPath.parse("a.txt")

RUNS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6))).map(
    lambda pairs: join((start, start + size) for start, size in pairs)
)


def lines_in_runs(runs: Sequence[Run]) -> set[int]:
    return {line for start, stop in runs for line in range(start, stop)}


# Runs of lines, beside sets of them


@pytest.mark.slow
@given(RUNS, RUNS, st.integers(0, 40), st.integers(0, 10))
def test_runs_are_line_sets(one: Sequence[Run], other: Sequence[Run], at: int, size: int) -> None:
    mine, theirs = ShownLines("v", 50, tuple(one)), ShownLines("v", 50, tuple(other), read=False)
    both = mine.joined(theirs)
    assert lines_in_runs(both.runs) == lines_in_runs(one) | lines_in_runs(other)
    assert all(a[1] < b[0] for a, b in zip(both.runs, both.runs[1:], strict=False))
    lacking = set(range(at, at + size)) - lines_in_runs(both.runs)
    assert lines_in_runs(both.lacks(at, at + size)) == lacking
    for shown in (both, theirs):
        assert ShownLines.decoded("v", 50, shown.encoded().split()) == shown


def test_beyond_the_bound_what_was_just_shown_is_kept() -> None:
    known = ShownLines("v", 9_999, tuple((4 * i, 4 * i + 1) for i in range(MOST_RUNS)))
    new = ShownLines("v", 9_999, ((4 * MOST_RUNS, 4 * MOST_RUNS + 2), (4_002, 4_003)))
    both = new.joined(known)
    assert len(both.runs) == MOST_RUNS
    mine, every, theirs = (lines_in_runs(each.runs) for each in (new, both, known))
    assert mine <= every <= mine | theirs


# What an edit keeps, beside a list of lines of which each knows whether it was shown


@st.composite
def changes(draw: st.DrawFn) -> tuple[int, set[int], LineChange]:
    total = draw(st.integers(0, 30))
    known = draw(st.sets(st.integers(0, max(total - 1, 0)))) if total else set[int]()
    cuts = sorted(draw(st.lists(st.integers(0, total), max_size=6)))
    regions = [
        (start, stop, draw(st.integers(0, 4)))
        for start, stop in zip(cuts[::2], cuts[1::2], strict=False)
    ]
    return total, known, LineChange(tuple(regions), amended=draw(st.booleans()))


@given(changes())
def test_lines_are_carried_as_in_a_list(case: tuple[int, set[int], LineChange]) -> None:
    total, known, change = case
    lines = [line in known for line in range(total)]
    for start, stop, count in reversed(change.regions):
        kept = change.amended and start < stop and all(lines[start:stop])
        lines[start:stop] = [kept] * count
    runs = change.carried(join((line, line + 1) for line in known))
    assert lines_in_runs(runs) == {at for at, is_known in enumerate(lines) if is_known}


UTF_8 = Encoding("utf-8", b""), Encoding("utf-8", b"\xef\xbb\xbf")
ENCODINGS = [*UTF_8, Encoding("utf-16-le", b"\xff\xfe", 2)]


@st.composite
def texts_and_edits(draw: st.DrawFn) -> tuple[Snapshot, ChangeSet, set[int]]:
    """A text of short lines, some with CRLF, edits of it at characters, and lines that are known."""
    encoding = draw(st.sampled_from(ENCODINGS))
    text = draw(st.text("ab\n\r\u0a61", max_size=30)).replace("\r", "\r\n")
    base = Snapshot(encoding.bom + encoding.encode(text), encoding)
    unit = encoding.unit
    cuts = draw(st.lists(st.integers(0, (base.size - len(encoding.bom)) // unit), max_size=6))
    cuts = sorted(len(encoding.bom) + unit * cut for cut in set(cuts))
    if unit == 1:  # not within a character
        cuts = [cut for cut in cuts if cut == base.size or not 0x80 <= base.data[cut] < 0xC0]
    edits = [
        Edit(start, stop, encoding.encode(draw(st.text("xy\n", max_size=4))))
        for start, stop in zip(cuts[::2], cuts[1::2], strict=False)
    ]
    known = draw(st.sets(st.integers(0, max(base.line_count - 1, 0))))
    return base, ChangeSet.of(base.size, edits), {line for line in known if line < base.line_count}


@given(texts_and_edits())
def test_no_line_holds_a_byte_nobody_was_shown(case: tuple[Snapshot, ChangeSet, set[int]]) -> None:
    base, change, known = case
    after = base.edited(change)
    # for each byte of the text after, the line it comes from, or None: the member wrote it
    origin: list[int | None] = []
    at = 0
    for edit in (*change.edits, Edit(base.size, base.size, b"")):
        origin += [base.line_at(byte) for byte in range(at, edit.start)]
        origin += [None] * len(edit.new)
        at = edit.stop
    runs = tuple((line, line + 1) for line in sorted(known))
    before = ShownLines(base.version, base.line_count, join(runs))
    made = (line_change(base, change),)
    carried = CarriedLines(base.version, after.version, after.line_count, made).upon(before)
    for line in lines_in_runs(carried.runs):
        assert line < after.line_count
        text_only = range(after.start(line), after.start(line) + len(after.key(line)))
        assert {origin[byte] for byte in text_only} <= {None, *known}
    if len(known) == base.line_count:
        touched = {after.line_at(b) for b, one in enumerate(origin) if one is None}
        whole = set(range(after.line_count)) - touched
        assert not change or whole - lines_in_runs(carried.runs) <= {after.line_count - 1}


@given(texts_and_edits())
def test_what_others_wrote_is_not_known(case: tuple[Snapshot, ChangeSet, set[int]]) -> None:
    base, change, _ = case
    every = ShownLines(base.version, base.line_count, ((0, base.line_count),))
    after = base.edited(change)
    theirs = line_change(base, change, own=False)
    carried = CarriedLines(base.version, after.version, after.line_count, (theirs,)).upon(every)
    back = change.inverse(base.slice).edits
    made = {after.line_at(b) for e in back for b in range(e.start, e.stop)}
    assert not lines_in_runs(carried.runs) & made


def test_of_more_edits_than_the_bound_the_lines_after_are_forgotten() -> None:
    base = Snapshot.of(b"a\n" * 1_000)
    edits = [Edit(4 * i, 4 * i + 2, b"b\n") for i in range(MOST_RUNS + 50)]
    change = ChangeSet.of(base.size, edits)
    every, version = ShownLines(base.version, 1_000, ((0, 1_000),)), base.edited(change).version
    changes = (line_change(base, change),)
    carried = CarriedLines(base.version, version, 1_000, changes).upon(every)
    assert lines_in_runs(carried.runs) == set(range(2 * MOST_RUNS - 1))


# What is remembered, on every backend


@pytest.fixture(params=KEPT)
def bases(request: pytest.FixtureRequest, tmp_path: Path) -> Snapshots:
    return snapshots_of(request, tmp_path)


@pytest.mark.parametrize("seed", range(3))
def test_the_stores_know_what_a_set_of_lines_knows(bases: Snapshots, seed: int) -> None:
    dice = random.Random(seed)
    model: set[tuple[str, str, int]] = set()
    for step in range(60):
        member, version = dice.choice("ab"), f"v{dice.randrange(VERSIONS)}"
        start = dice.randrange(20)
        run = (start, start + dice.randrange(1, 5))
        if dice.random() < 0.3:
            before = f"v{dice.randrange(VERSIONS)}"
            change = LineChange(((start, start + 2, 3),), ((start, start + 3),))
            bases.note_shown(Note(member, PATH, CarriedLines(before, version, 99, (change,))))
            kept = [x for m, v, x in model if (m, v) == (member, before)]
            kept = [x + (x > start) for x in kept if not start <= x < start + 2]
            model |= {(member, version, x) for x in (*kept, *range(start, start + 3))}
        else:
            lines = ShownLines(version, 99, (run,), read=dice.random() < 0.5)
            bases.note_shown(Note(member, PATH, lines))
            model |= {(member, version, line) for line in range(*run)}
        shown = bases.shown(member, PATH, version)
        found = lines_in_runs(shown.runs) if shown else set[int]()
        assert found == {line for m, v, line in model if (m, v) == (member, version)}, step


def test_of_a_file_a_few_versions_are_remembered(bases: Snapshots) -> None:
    def note(version: str, *, read: bool) -> None:
        bases.note_shown(Note("a", PATH, ShownLines(version, 9, ((0, 1),), read=read)))

    note("read", read=True)
    for number in range(VERSIONS + 5):
        note(f"v{number}", read=False)
    # its own writes push out no version that the member read
    assert bases.shown("a", PATH, "read") == ShownLines("read", 9, ((0, 1),))
    assert bases.shown("a", PATH) == bases.shown("a", PATH, "read")
    known = [bases.shown("a", PATH, f"v{number}") for number in range(VERSIONS + 5)]
    assert [one is not None for one in known] == [False] * 5 + [True] * VERSIONS
    for number in range(VERSIONS):
        note(f"r{number}", read=True)
    assert bases.shown("a", PATH, "read") is None
    assert bases.shown("b", PATH, "v9") is None


def test_what_was_shown_survives_and_is_one_for_all_processes(tmp_path: Path) -> None:
    file = str(tmp_path / "x.sqlite")
    one, other = (SqliteSnapshots(Database(StateFile(file))) for _ in range(2))
    for turn in range(6):
        writer = (one, other)[turn % 2]
        writer.note_shown(Note("a", PATH, ShownLines("v", 9, ((turn, turn + 1),))))
    assert one.shown("a", PATH, "v") == ShownLines("v", 9, ((0, 6),))
    one.close()
    other.close()
    again = SqliteSnapshots(Database(StateFile(file)))
    assert again.shown("a", PATH, "v") == ShownLines("v", 9, ((0, 6),))


@pytest.mark.slow
def test_the_whole_is_bounded_whoever_writes(tmp_path: Path) -> None:
    """Each process notes a little and ends, as a command does."""
    file = StateFile(str(tmp_path / "x.sqlite"))
    for start in range(0, 2 * MOST_SHOWN, 100):
        bases = SqliteSnapshots(Database(file))
        notes = (ShownLines(f"v{start + i}", 1, ((0, 1),)) for i in range(100))
        bases.note_shown(*(Note(f"m{start + i}", PATH, one) for i, one in enumerate(notes)))
        bases.close()
    database = Database(file)
    SqliteSnapshots(database)
    with database.reading() as db:
        count: Any = db.execute("SELECT count(*) FROM shown").get
    assert MOST_SHOWN // 2 < count <= MOST_SHOWN


def test_damaged_rows_are_not_known(tmp_path: Path) -> None:
    database = Database(StateFile(str(tmp_path / "x.sqlite")))
    bases = SqliteSnapshots(database)
    bases.note_shown(Note("a", PATH, ShownLines("v", 9, ((0, 6),))))
    with database.writing() as db:
        db.execute("UPDATE shown SET record = CAST('v 9 0-x 7' AS BLOB)")
    assert bases.shown("a", PATH, "v") is None
    bases.note_shown(Note("a", PATH, ShownLines("v", 9, ((2, 3),))))
    assert bases.shown("a", PATH, "v") == ShownLines("v", 9, ((2, 3),))


# What a diff shows


@given(texts_and_edits(), st.data())
def test_a_diff_shows_its_lines_by_their_numbers(
    case: tuple[Snapshot, ChangeSet, set[int]], data: st.DataObject
) -> None:
    base, change, _ = case
    base = Snapshot(base.data[len(base.encoding.bom) :], replace(base.encoding, bom=b""))
    shift = len(case[0].encoding.bom)
    moved = [Edit(e.start - shift, e.stop - shift, e.new) for e in change.edits]
    change = ChangeSet.of(base.size, moved)
    diff = unified(base, change, "a").decode().removesuffix("\n").split("\n")
    found, found_regions = lines_in(diff), regions(base, change)
    if not found_regions:
        assert found == []
        return
    (shown,) = found
    near = join((max(r.start - 3, 0), min(r.stop + 3, base.line_count)) for r in found_regions)
    assert lines_in_runs(shown.old) == lines_in_runs(near)
    made, shift = list[Run](), 0
    for region in found_regions:
        made.append((region.start + shift, region.start + shift + len(region.new)))
        shift += len(region.new) - (region.stop - region.start)
    total = base.edited(change).line_count
    around = join((max(start - 3, 0), min(stop + 3, total)) for start, stop in made)
    assert lines_in_runs(shown.new) == lines_in_runs(around)
    # some lines of one hunk are left out, and said to be; part of another line is
    heads = [at for at, line in enumerate(diff) if line.startswith("@@ ")]
    head = data.draw(st.sampled_from(heads))
    end = min((at for at in heads if at > head), default=len(diff))
    start = data.draw(st.integers(head + 1, end))
    stop = data.draw(st.integers(start, end))
    kept = [at for at in range(len(diff)) if not start <= at < stop]
    cut = [*diff[:start], "… some lines left out", *diff[stop:]]
    assert lines_in(cut) == wanted_of(diff, kept)
    long = data.draw(st.integers(heads[0] + 1, len(diff) - 1))
    if not diff[long].startswith(("@@", "\\")):
        shortened = [*diff[:long], f"{diff[long]}…[5 characters]…", *diff[long + 1 :]]
        assert lines_in(shortened) == wanted_of(diff, [at for at in range(len(diff)) if at != long])


def wanted_of(diff: Sequence[str], kept: Sequence[int]) -> list[FileLines]:
    """The same of a few lines, each asked for by itself."""
    each = [lines_in(diff, range(at, at + 1))[0] for at in kept]
    old, new = join(r for one in each for r in one.old), join(r for one in each for r in one.new)
    return [FileLines(old, new)]


def test_each_file_of_a_diff_is_by_itself() -> None:
    texts = [Snapshot.of(b"a\nb\nc\n"), Snapshot.of(b"")]
    edits = [
        ChangeSet.of(6, [Edit(2, 4, b"--- x\n@@ -1 +1 @@\n")]),
        ChangeSet.of(0, [Edit(0, 0, b"n\n")]),
    ]
    diffs = map(unified, texts, edits, "ab")
    found = lines_in(b"".join(diffs).decode().split("\n")[:-1])
    assert found == [FileLines(((0, 3),), ((0, 4),)), FileLines((), ((0, 1),))]
