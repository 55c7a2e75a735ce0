"""Where plans and inverses go in small texts that changed: found by search, one for each decision.

Each of them would be answered otherwise after some small change of `copydesk.edit.relocate`.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from copydesk.edit.draft import Plan, compose, span_of
from copydesk.edit.kinds.base import end_of
from copydesk.edit.relocate import Drift, carried, drift_of, place_of, stale
from copydesk.edit.request import Append, DeleteFile, Place, RangeEdit, RangeEdits, Request
from copydesk.errors import AmbiguousMatch, ContentChanged
from copydesk.text import sizes
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot
from support.rows import each_row

PATH = RelPath.parse("a.txt")
NAMES = ("1", "me", "ws_mod", "tool")
Step = Sequence[tuple[int, int, bytes]]
"""One change of a text: edits, each as bytes [start, stop) and what replaces them."""


def changed(text: bytes, step: Step) -> ChangeSet:
    return ChangeSet.of(len(text), [Edit(*edit) for edit in step])


def later(text: bytes, steps: Sequence[Step]) -> tuple[Snapshot, tuple[ChangeSet, ...]]:
    """The text after all steps, and the inverse of each."""
    inverses: list[ChangeSet] = []
    for step in steps:
        change = changed(text, step)
        inverses.append(change.invert(text))
        text = change.apply(text)
    return Snapshot.of(text), tuple(inverses)


def shown(refusal: ContentChanged | AmbiguousMatch) -> str:
    """The reason, the planned lines, what stood there, what stands there, the lines shown."""
    if isinstance(refusal, AmbiguousMatch):
        blocks = [(each.line, each.end_line) for each in refusal.candidates or ()]
        return f"{refusal.planned_lines} at {refusal.candidate_lines}, {blocks}"
    current = [each.line for each in refusal.current or ()]
    lines = f"{current[0]}-{current[-1]}" if current else "none"
    old, found = refusal.expected_old, refusal.found
    return f"{refusal.reason} {refusal.planned_lines}, {old!r}, {found!r}, {lines}"


@each_row("text steps known foot expected", [
    (b"x\n", [], True, (-1, 1), 0),
    (b"z\rz\r\n", [], True, (1, 2), 0),
    (b"", [[(0, 0, b"x\n")]], True, (-1, 0), 0),
    (b"\nz\n\nz\n\r\n\nx\n", [[(7, 8, b"")]], True, (5, 6), "gone 6~6, '\\n', None, 3-6"),
    (b"a\nb\nc\n", [[(2, 2, b"<<<<<<<\n"), (4, 4, b"=======\n>>>>>>>\n")]], True, (1, 2),
     "conflict_markers 2~2, 'b\\n', 'b\\n', 1-6"),
    (b"a\nb\nc\n", [[(2, 2, b"<<<<<<<\n"), (4, 4, b"=======\n>>>>>>>\n")]], True, (2, 3), 3),
    (b"u4\n\ny\ny\n}\nz", [[(0, 1, b"\r\n")]], False, (0, 1), "gone 1~1, 'u4\\n', None, 1-5"),
    (b"\n\nz\nz\n}\nz\nz", [[(2, 3, b"")]], False, (0, 1),
     "1~1 at (1, 2, 3), [(1, 1), (2, 2), (3, 3)]"),
])  # fmt: skip
def test_lines_are_found_or_refused(
    text: bytes, steps: Sequence[Step], known: bool, foot: tuple[int, int], expected: int | str
) -> None:
    """Where the changes since are known, and where lines are compared."""
    now, inverses = later(text, steps)
    drift = Drift(Snapshot.of(text), now, inverses if known else None, {} if known else None)
    try:
        found: int | str = drift.shift(foot)
    except (ContentChanged, AmbiguousMatch) as refusal:
        found = shown(refusal)
    assert found == expected


@each_row("text edit steps known expected", [
    (b"x", [(0, 1, b"z\n")], [[(1, 2, b"")]], False, b"x"),
    (b"}", [(1, 1, b"u16\r\n")], [[(6, 6, b"\n")]], False, b"}\n\n"),
    (b"u13\ny\n\nz\nx\nx", [(6, 7, b"")], [], True, b"u13\ny\n\nz\nx\nx"),
    (b"z", [(0, 1, b"")], [[(0, 0, b"}\n")]], True, "parted 1~1, '', None, 1-1"),
    (b"\nz\nu17\n\n", [(7, 8, b"")], [[(6, 7, b"\r\n")]], False, b"\nz\nu17\r\n\r\n"),
    (b"\nu4\nu2\nu5\r\n}\n}\n", [(11, 13, b"")], [], True, b"\nu4\nu2\nu5\r\n}\n}\n"),
    (b"x\nx\n", [(0, 0, b"\xef\xbb\xbf")], [[(0, 0, b"y\n}\n")]], True, b"y\n}\nx\nx\n"),
    (b"y\nx\n\nu1\n", [(0, 2, b"y\ny\nz\n")], [[(2, 2, b"w\n")]], True, b"y\nw\nx\n\nu1\n"),
    (b"}\nz\nx\nu3\nx", [(0, 6, b"}\r\nz\nx\n")], [[(5, 11, b"z\r\n")]], False, b"}\nz\nz\r\n"),
    (b"\xef\xbb\xbfx\n}\n", [(0, 5, b"w\n"), (7, 7, b"\n\n")], [], False, b"\xef\xbb\xbfx\n}\n"),
    (b"x\nx", [(0, 3, b"x\r\nx")], [[(0, 3, b"z\r\nx\r\n")], [(7, 7, b"\n")]], False, b"z\r\nx\nx"),
    (b"\nx\n", [(1, 3, b"y\r\nx\r\n")], [[(4, 7, b"\r\nx\r\n")]], True,
     "gone 3~3, 'x\\n', None, 1-4"),
    (b"x\nx\nu3\nx\nx\nx\r\ny\n", [(11, 14, b"x\r\nu13\r\nx\r\n")], [], False,
     b"x\nx\nu3\nx\nx\nx\r\ny\n"),
    (b"\n}\nu16\n}\nu12\nz\n", [(3, 7, b"")], [[(1, 3, b"z\r\n")]], False,
     "gone 2~3, '}\\n}\\n', None, 1-5"),
    (b"\r\nu7\r\n\r\nu10\r\n", [(6, 13, b"x\nx\n")], [[(9, 10, b"q")]], True,
     "gone 3~4, 'x\\nx\\n', None, 1-4"),
    (b"}\r\nx\r\nu9\r\n}\r\nz", [(0, 6, b"}\r\nx\n")], [[(0, 0, b"w\n")], [(5, 5, b"\n")]], True,
     b"w\n}\r\n\nx\r\nu9\r\n}\r\nz"),
    (b"y\nx\nx\ny\r\nu10\ny\n\n", [(15, 16, b"")],
     [[(14, 15, b"")], [(5, 6, b"\r\n"), (12, 13, b"\r\n")]], False,
     b"y\nx\nx\r\ny\r\nu10\r\ny\r\n\n"),
    (b"y\nu7\nu13\nx\nu19\n",
     [(1, 2, b"\r\n"), (4, 5, b"\r\n"), (8, 9, b"\r\n"), (10, 11, b"\r\n"), (14, 15, b"\r\n")], [],
     True, b"y\nu7\nu13\nx\nu19\n"),
    (b"x\r\nz\r\n\r\n}\r\n", [(11, 11, b"x\r\n")],
     [[(8, 14, b"x\r\n")], [(3, 8, b"y\n\n")], [(5, 6, b"x\n")]], True,
     "5~5 at (1, 3, 4), [(1, 1), (3, 3), (4, 4)]"),
    (b"\xef\xbb\xbf\n\nx\nx\nz\n\ny\n",
     [(3, 4, b"\r\n"), (4, 5, b"\r\n"), (6, 7, b"\r\n"), (8, 9, b"\r\n"), (10, 11, b"\r\n"), (11, 12, b"\r\n"), (13, 14, b"\r\n")],
     [[(5, 7, b"\n")]], True, "gone 1~2, '\\n\\n', None, 1-5"),
])  # fmt: skip
def test_an_edit_is_taken_back_or_refused(
    text: bytes, edit: Step, steps: Sequence[Step], known: bool, expected: bytes | str
) -> None:
    after, (inverse,) = later(text, [edit])
    now, inverses = later(after.data, steps)
    drift = drift_of(inverse, after, now, inverses if known else None, {})
    try:
        found: bytes | str = carried(inverse, drift).apply(now.data)
    except (ContentChanged, AmbiguousMatch) as refusal:
        found = shown(refusal)
    assert found == expected


@pytest.mark.parametrize(
    ("text", "now", "expected"),
    [
        (b"\ry\r\rz\r", b"\ry\r\r", ("line 1 -> line 1",)),
        (b"\nx\n\nz\nx\n\nu16\n", b"\r\nx\r\nx\n}\r\nu16\r\n\n\n",
         ("lines 3~4 -> nothing after line 2", "line 6 -> line 4", "nothing after line 7 -> lines 6~7")),
    ],
)  # fmt: skip
def test_what_changed_since_a_version(text: bytes, now: bytes, expected: tuple[str, ...]) -> None:
    refusal = stale("v", Snapshot.of(text), Snapshot.of(now), "why")
    assert refusal.changed == expected


@each_row("text edits steps known kept limits expected", [
    (b"y\nz\n}\n", [("1~1", "x\ny\ny\n")], [], True, True, (0, 1048576, 1048576), ((0, 1),)),
    (b"u18\nz\nu2\r\n", [("1~2", "new\nu18\n")], [[(0, 0, b"x\n\n")]], True, True, None, ((2, 4),)),
    (b"x\n\n\nx\n", [("4~4", "")], [[(0, 4, b"x\n")]], True, True, (0, 1048576, 1048576),
     ((1, 2),)),
    (b"\nz\n", [("1~1", "y\nu1\n\n")], [[(3, 3, b"end")]], True, True, (0, 1048576, 1048576),
     ((0, 1),)),
    (b"x\n\n", [("2~2", "y\nu1\n")], [[(2, 3, b"y\nu1\n")]], True, False, None,
     "gone 2~2, None, None, 1-3"),
    (b"u12\n", [("1~1", "")], [[(0, 4, b"")]], True, True, (0, 1048576, 2),
     "gone 1~1, 'u12\\n', None, none"),
    (b"y", [("1~1", "y")], [[(1, 1, b"y")]], True, False, (0, 1048576, 1048576),
     "gone 1~1, None, None, 1-1"),
    (b"x\n\ny\nx\nx\nz\n", [("4~4", "x\nx\n")], [[(9, 11, b"x\n\n")]], True, False, (0, 1048576, 2),
     ((3, 4),)),
    (b"\nz\r\nx\n}\n\ny\n\nu10", [("4~6", "x\n}\n")], [[(0, 4, b"\r\n}\r\n\r\n")]], True, False,
     None, ((4, 7),)),
    (b"\r\nx\r\n\r\nz\r\n", [("1~3", "x\n")], [[(10, 10, b"y\n")]], False, True,
     (0, 1048576, 1048576), ((0, 3),)),
    (b"u4\rx\r}\r\r}\r", [("1~1", "\n\n")], [[(3, 3, b"\n\n")]], True, False, (0, 0, 9),
     "gone 1~1, None, None, 1-3"),
    (b"y\ny", [("2~2", "new\n")], [[(3, 3, b"\nend\n")], [(2, 8, b"")]], True, True,
     (0, 1048576, 2), "gone 2~2, None, None, 1-1"),
    (b"\nz\n}\n", [("1~1", "\n\n\n")], [[(1, 1, b"\n\n\n")]], True, True, None,
     "what it writes stands there already 1~1, None, None, 1-4"),
    (b"y\n\nx\nu5\nu6\ny\nu7\n", [("2~2", "\n\n"), ("1~1", "a\nb\nx\ny\n")],
     [[(0, 0, b"}\r\ny\r\n")]], True, True, None, ((3, 4), (2, 3))),
    (b"\r\nx\r\nu15", [("1~1", "\n\n")], [[(2, 2, b"\n\n")]], True, False, None,
     "what it writes stands there already 1~1, None, None, 1-4"),
    (b"x\r\nu1\nx\n\n\n", [("4~4", ""), ("5~5", "\n")], [[(0, 3, b"")], [(6, 7, b"\n")]], True,
     False, (0, 0, 9), "gone 5~5, '\\n', None, 2-4"),
    (b"x\n\nx\nx\n", [("4~4", "x\nx\n"), ("3~3", "x\ny\n")], [[(4, 5, b"\r\n")]], True, False, None,
     "what it writes stands there already 3~4, None, None, 1-4"),
    (b"\r\nx\r\n", [("2~2", "a\nb\nx\n")], [[(2, 5, b"a\nb\nx\n")]], True, False, (0, 1048576, 2),
     "the file changed, and is too large to be compared 2~2, None, None, 1-4"),
    (b"x\n\nx\nx\n", [("4~4", "x\nx\n"), ("3~3", "x\ny\n")], [[(0, 2, b"")], [(4, 5, b"\r\n")]],
     True, False, None, "what it writes stands there already 3~4, None, None, 1-3"),
    (b"x\r\nx\r\nx", [("1~3", "x\nx\r\n")], [[(4, 6, b"\n")], [(0, 5, b"x\nx")]], False, False,
     (0, 1048576, 2),
     "the file changed, and the text that was planned on is no longer remembered 1~3, None, None, 1-2"),
    # an insertion that others made too, with more above or below it, or once more
    (b"w\nx\nz\n", [("3~3", "new\nx\nz\n")], [[(4, 4, b"new\nx\nu1\n")]], False, True, None, "what it writes stands there already 3~3, None, None, 1-6"),
    (b"x\nz\nw\n", [("1~1", "x\nz\nnew\n")], [[(2, 2, b"u1\nz\nnew\n")]], False, True, None, "what it writes stands there already 1~1, None, None, 1-4"),
    (b"w\nx\nz\nz\n", [("2~2", "x\nz\nz\n")], [[(4, 4, b"z\nz\n")]], False, True, None, "what it writes stands there already 2~2, None, None, 1-5"),
    (b"x\nnew\nx\ny\nx\nz\n", [("6~6", "new\nx\nz\n")], [[(0, 0, b"u1\n")]], False, True, None, ((6, 7),)),
    (b"w\n}\n}\n", [("1~1", "w\n}\n")], [[(2, 2, b"}\n")]], False, True, None, ((0, 1),)),
    (b"\xef\xbb\xbf\r\n}\rz\r\r\ry\rx\ry", [("1~1", "a\nb\nx\n"), ("2~2", "y\nu1\n")],
     [[(13, 15, b"x\n")], [(5, 10, b"\n")], [(6, 7, b"\r\nu19\r\n")]], True, True, (0, 1048576, 2),
     "gone 2~2, '}\\rz\\r\\r\\ry\\rx\\ry\\n', None, 1-5"),
])  # fmt: skip
def test_a_plan_goes_to_its_lines_or_is_refused(
    text: bytes,
    edits: Sequence[tuple[str, str]],
    steps: Sequence[Step],
    known: bool,
    kept: bool,
    limits: tuple[int, int, int] | None,
    expected: tuple[tuple[int, int], ...] | str,
) -> None:
    """`kept`: the base is remembered; `limits`: from where on a text is large, how far compared."""
    base, (now, inverses) = Snapshot.of(text), later(text, steps)
    ranges = [RangeEdit(PATH, lines, content) for lines, content in edits]
    request = ranges[0] if len(ranges) == 1 else RangeEdits(PATH, tuple(ranges))
    place = request.locate(base)
    span = None if place.parts else span_of(base, place.start, place.stop)
    plan = Plan(*NAMES, request, place, "replace", base.digest, "0" * 64, 1, 2, span)
    find, since = (lambda: base if kept else None), inverses if known else None
    with pytest.MonkeyPatch.context() as patched:
        for name, limit in zip(("LARGE", "COMPARED", "LINES"), limits or (), strict=False):
            patched.setattr(sizes, name, limit)
        try:
            _, moved = place_of(plan, now, find, since)
            placed: tuple[tuple[int, int], ...] | str = moved.parts or ((moved.start, moved.stop),)
        except (ContentChanged, AmbiguousMatch) as refusal:
            placed = shown(refusal)
    assert placed == expected


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (DeleteFile(RelPath.parse("a")), Place(0, 2, None)),
        (Append(RelPath.parse("a"), "x\n"), Place(2, 2, None)),
        (RangeEdit(RelPath.parse("a"), "2~", "x\n"), Place(2, 2, None)),
    ],
)
def test_what_relies_on_no_lines_goes_to_the_end_or_all(request_: Request, expected: Place) -> None:
    """Also where its numbers are none of the text now."""
    base, now = Snapshot.of(b"a\n"), Snapshot.of(b"a\nb\n")
    plan = Plan(*NAMES, request_, end_of(base), "append", base.digest, "0" * 64, 1, 2)
    assert place_of(plan, now) == (plan.request, expected)


STANZAS = b"[a]\nn = 1\nr = 0\n\n[a]\nn = 2\nr = 0\n"
ONE_MORE = b"\n[a]\nn = 3\nr = 0\n"


@each_row("steps is_kept expected", [
    ([[(25, 26, b"3")]], True, 6),
    ([[(25, 26, b"3")]], False, 6),
    ([[(33, 33, ONE_MORE)]], True, None),
    ([[(33, 33, ONE_MORE)]], False, None),
    ([[(25, 26, b"3")], [(33, 33, ONE_MORE)]], True, None),
])  # fmt: skip
def test_only_lines_that_were_added_are_there_already(
    steps: Sequence[Step], is_kept: bool, expected: int | None
) -> None:
    """A neighbour that another edit made equal is not what an insertion writes."""
    base, (now, known) = Snapshot.of(STANZAS), later(STANZAS, steps)
    request = RangeEdit(PATH, "7", "r = 0\n" + ONE_MORE.decode())
    place = request.locate(base)
    assert place.foot is not None
    span = span_of(base, *place.foot)
    plan = Plan(*NAMES, request, place, "replace", base.digest, "0" * 64, 1, 2, span)
    try:
        at: int | None = place_of(plan, now, lambda: base if is_kept else None, known)[1].start
    except ContentChanged:
        at = None
    assert at == expected


@each_row("edits now expected", [
    ([("1~3", "A\nb\nc\n"), ("4~6", "d\ne\nF\n")], "a\nb\nC\nD\ne\nf\n", "A\nb\nC\nD\ne\nF\n"),
    ([("1~3", "A\nb\nc\n"), ("6", "F\n")], "x\na\nb\nC\nd\ne\nf\n", "x\nA\nb\nC\nd\ne\nF\n"),
    ([("1~3", "A\nb\nc\n"), ("7~", "g\n")], "a\nb\nC\nd\ne\nf\n", "A\nb\nC\nd\ne\nf\ng\n"),
    ([("1~3", "A\nb\nc\n"), ("4~6", "d\nE\nf\n")], "a\nb\nC\nD\ne\nf\n", None),
    ([("1~3", "a\nB\nc\n"), ("6", "F\n")], "a\nb\nC\nd\ne\nf\n", None),
])  # fmt: skip
def test_several_edits_leave_what_they_only_repeat(
    edits: list[tuple[str, str]], now: str, expected: str | None
) -> None:
    base, text = Snapshot.of(b"a\nb\nc\nd\ne\nf\n"), Snapshot.of(now.encode())
    request = RangeEdits(PATH, tuple(RangeEdit(PATH, *edit) for edit in edits))
    plan = Plan(*NAMES, request, request.locate(base), "replace", base.digest, "0" * 64, 1, 2)
    try:
        moved, place = place_of(plan, text, lambda: base)
        result: str | None = text.edited(compose(moved, text, place).change).data.decode()
    except ContentChanged:
        result = None
    assert result == expected
