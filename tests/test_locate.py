"""Places: anchors, occurrences, blocks, what an edit relies on, and the refusals' facts."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.edit.draft import cut, foot_span, span_of
from copydesk.edit.kinds.base import end_of
from copydesk.edit.request import (
    Anchor,
    Append,
    BlockReplace,
    Insert,
    Match,
    Occurrence,
    Place,
    RangeEdit,
)
from copydesk.errors import (
    AnchorAmbiguous,
    AnchorNotFound,
    InvalidArgs,
    LineShown,
    OccurrenceOutOfRange,
    Refusal,
)
from copydesk.text.snapshot import Snapshot
from support.cost import bounded
from support.rows import each_row
from support.texts import PATH, LineEdit, requests, snapshots


def spelled(place: Place) -> str:
    """As `1:3 in 0:4 2/5`: lines, the footprint, which candidate of how many; `!` if the first."""
    foot = "end" if place.foot is None else f"{place.foot[0]}:{place.foot[1]}"
    chosen = f"{place.occurrence}/{place.candidates}{'!' * place.first_taken}"
    return f"{place.start}:{place.stop} in {foot} {chosen}"


def check_place(
    request: LineEdit, base: Snapshot | bytes, expected: str | type[Refusal], **facts: object
) -> None:
    """The request has this place, or is refused with these facts (lines as their numbers)."""
    text = Snapshot.of(base) if isinstance(base, bytes) else base
    if isinstance(expected, str):
        assert spelled(request.locate(text)) == expected
        return
    with pytest.raises(expected) as found:
        request.locate(text)
    assert {name: _numbers(found.value.facts().get(name)) for name in facts} == facts


def _numbers(fact: object) -> object:
    """The lines shown, as their numbers; any other fact as it is."""
    if not isinstance(fact, tuple):
        return fact
    return [item.line if isinstance(item, LineShown) else item for item in fact]


def insert(
    anchor: str,
    position: Literal["after", "before"] = "after",
    occurrence: Occurrence | None = None,
    match: Match = "contains",
) -> Insert:
    return Insert(PATH, Anchor(anchor, match), "new\n", position, occurrence)


def block(
    start: str,
    end: str,
    occurrence: Occurrence | None = None,
    match: Match = "contains",
    *,
    include_anchors: bool = True,
    require_unique: bool = True,
    strict: bool = True,
) -> BlockReplace:
    anchors = Anchor(start, match, "start_anchor"), Anchor(end, match, "end_anchor")
    flags = include_anchors, require_unique, strict
    return BlockReplace(PATH, *anchors, "new\n", occurrence, *flags)


FILE = b"one\ntwo\nthree two\none\n  one\n"


@each_row("request_ expected", [
    (insert("three"), "3:3 in 2:3 1/1"),
    (insert("three", "before"), "2:2 in 2:3 1/1"),
    (insert("two", "after", 1), "2:2 in 1:2 1/2"),
    (insert("two", "after", 2), "3:3 in 2:3 2/2"),
    (insert("two", "after", "last"), "3:3 in 2:3 2/2"),
    (insert("two", match="equals"), "2:2 in 1:2 1/1"),
    (insert("one", "before", "last"), "4:4 in 4:5 3/3"),
    (insert("one", "before", "last", "equals"), "3:3 in 3:4 2/2"),
    (insert("one", "after", 3), "5:5 in 4:5 3/3"),
    (insert("one", "before", 1), "0:0 in 0:1 1/3"),
    (insert("three two", "after", "last", "equals"), "3:3 in 2:3 1/1"),
])  # fmt: skip
@each_row("base", [
    Snapshot.of(FILE),
    Snapshot.of(FILE.removesuffix(b"\n")),
    Snapshot.of(FILE.replace(b"\n", b"\r\n")),
    Snapshot.of(FILE.replace(b"two\n", b"two\r\n")),
    Snapshot.of(b"\xef\xbb\xbf" + FILE),
    Snapshot.of(FILE, "iso8859-1"),
    Snapshot.of(FILE.replace(b"three", b"\xff three")),
    Snapshot.of(b"\xff\xfe" + FILE.decode().encode("utf-16-le")),
    Snapshot.of(b"\0\0\xfe\xff" + FILE.decode().encode("utf-32-be")),
])  # fmt: skip
def test_insertions(request_: Insert, expected: str, base: Snapshot) -> None:
    if request_.anchor == Anchor("three two", "equals") and not base.encoding.known:
        check_place(request_, base, AnchorNotFound, closest=[3])
    else:
        check_place(request_, base, expected)


@each_row("request_ expected facts", [
    (insert("one"), AnchorAmbiguous,
     {"argument": "anchor", "anchor": "one", "candidates_count": 3, "candidates": [1, 4, 5]}),
    (insert("one", match="equals"), AnchorAmbiguous, {"candidates": [1, 4]}),
    (insert("one", "after", 4), OccurrenceOutOfRange,
     {"occurrence": "4", "candidates_count": 3, "candidates": [1, 4, 5]}),
    (insert("three", "after", 2), OccurrenceOutOfRange, {"candidates_count": 1}),
    (insert("one", "after", 10**30), OccurrenceOutOfRange, {"occurrence": f"{10**30}"}),
    (insert("thre two"), AnchorNotFound,
     {"argument": "anchor", "anchor": "thre two", "match": "contains", "closest": [3]}),
    (insert("hree two", match="equals"), AnchorNotFound, {"match": "equals", "closest": [3]}),
    # why a line that a reader takes for the anchor is not found, and how it stands there
    (insert("thre two"), AnchorNotFound, {"cause": None, "corrected_anchor": None}),
    (insert("Three  two"), AnchorNotFound,
     {"cause": ["case", "spacing"], "corrected_anchor": "three two"}),
    (insert("three  two", match="equals"), AnchorNotFound,
     {"cause": ["spacing"], "corrected_anchor": "three two"}),
    (insert("hree two", match="equals"), AnchorNotFound,
     {"cause": ["part_of_line"], "corrected_anchor": None}),
    (insert("thre two", match="equals"), AnchorNotFound, {"cause": None, "corrected_anchor": None}),
    (insert("zzzzzz", "after", 1), AnchorNotFound, {"closest": None}),
    (insert("  "), "5:5 in 4:5 1/1", {}),
    (insert("   "), AnchorNotFound, {"closest": None}),
    (insert("one\r"), AnchorNotFound, {}),
])  # fmt: skip
def test_insertions_refused(
    request_: Insert, expected: str | type[Refusal], facts: dict[str, object]
) -> None:
    check_place(request_, FILE, expected, **facts)


@pytest.mark.parametrize("length", [200, 201])
def test_a_corrected_anchor_is_shown_whole_or_not(length: int) -> None:
    line = "x = " + "a" * (length - 4)
    corrected = line if length == 200 else None
    check_place(
        insert(line.replace("= ", "=  "), match="equals"),
        line.encode(),
        AnchorNotFound,
        cause=["spacing"],
        corrected_anchor=corrected,
        closest=[1],
    )


def test_three_lines_like_an_anchor_are_shown() -> None:
    base = b"".join(b"value_%d = compute(a, b)\n" % i for i in range(9))
    with pytest.raises(AnchorNotFound) as found:
        insert("valeu = compute(a, b)").locate(Snapshot.of(base))
    assert len(found.value.closest or ()) == 3


def test_a_non_ascii_anchor_in_each_encoding() -> None:
    for name in ("utf-8", "gb18030", "shift_jis", "utf-16-be"):
        base = Snapshot.of("x\r\n日本\r\n日\r\n".encode(name), name)
        check_place(insert("日", match="equals"), base, "3:3 in 2:3 1/1")
        check_place(insert("日"), base, AnchorAmbiguous, candidates=[2, 3])


def test_only_the_first_candidates_are_shown_and_their_texts_cut() -> None:
    with pytest.raises(AnchorAmbiguous) as found:
        insert("x").locate(Snapshot.of(b"x" * 5000 + b"\n" + b"x\n" * 99))
    assert found.value.candidates_count == 100
    assert [shown.line for shown in found.value.candidates] == list(range(1, 11))
    assert max(len(shown.text) for shown in found.value.candidates) < 300


@each_row("at shown", [
    (0, "012… (+7 characters)"),
    (2, "012… (+7 characters)"),
    (3, "(+2 characters) …234… (+5 characters)"),
    (4, "(+3 characters) …345… (+4 characters)"),
    (8, "(+7 characters) …789"),
    (9, "(+7 characters) …789"),
])  # fmt: skip
def test_what_is_cut_is_shown_around_a_character(at: int, shown: str) -> None:
    assert cut("0123456789", 3, at) == shown
    assert cut("012", 3, at) == "012"


@pytest.mark.parametrize("text", ["", "a\nb", "\n"])
def test_an_anchor_is_a_part_of_one_line(text: str) -> None:
    with pytest.raises(InvalidArgs) as found:
        Anchor(text, "contains", "end_anchor")
    assert found.value.argument == "end_anchor"


TWO = b"<a>\n1\n</a>\n<a>\n2\n</a>\n"
NESTED = b"{\n{\nx\n}\n}\n"
RULES = b"---\na\n---\nb\n---\n"


@each_row("base request_ expected", [
    (b"<a>\n1\n2\n</a>\n", block("<a>", "</a>"), "1:3 in 0:4 1/1"),
    (b"<a>\n1\n2\n</a>\n", block("<a>", "</a>", include_anchors=False), "0:4 in 0:4 1/1"),
    (b"<a>\n</a>\n", block("<a>", "</a>"), "1:1 in 0:2 1/1"),
    (b"<a>\n</a>", block("<a>", "</a>", include_anchors=False), "0:2 in 0:2 1/1"),
    (b"<a>\n1\n</a>\n", block("<a>", "</a>", strict=False), "1:2 in 0:3 1/1"),
    # ends that stand before the start, or in its own line, are no ends
    (b"</a>\n<a> </a>\n1\n</a>\n</a>\n", block("<a>", "</a>"), "2:3 in 1:4 1/1"),
    (TWO, block("<a>", "</a>", 1), "1:2 in 0:3 1/2"),
    (TWO, block("<a>", "</a>", 2), "4:5 in 3:6 2/2"),
    (TWO, block("<a>", "</a>", "last"), "4:5 in 3:6 2/2"),
    (TWO, block("<a>", "</a>", strict=False), "1:2 in 0:3 1/2!"),
    (TWO, block("<a>", "</a>", require_unique=False), "1:2 in 0:3 1/2!"),
    (TWO, block("<a>", "</a>", "last", strict=False), "4:5 in 3:6 2/2"),
    # a start without an end is no candidate
    (b"<a>\n1\n</a>\n<a>\n", block("<a>", "</a>"), "1:2 in 0:3 1/1"),
    # the inner of two nested ones, which has no start within
    (NESTED, block("{", "}", 2), "2:3 in 1:4 2/2"),
    (NESTED, block("{", "}", strict=False), "1:3 in 0:4 1/2!"),
    (NESTED, block("{", "}", 1, require_unique=False), "1:3 in 0:4 1/2"),
    # one text for both ends
    (b"---\na\n---\nb\n", block("---", "---"), "1:2 in 0:3 1/1"),
    (RULES, block("---", "---", 1), "1:2 in 0:3 1/2"),
    (RULES, block("---", "---", "last"), "3:4 in 2:5 2/2"),
    (RULES, block("---", "---", strict=False, include_anchors=False), "0:3 in 0:3 1/2!"),
    (b"x\r\ny\r\nz\r\n", block("x", "z", match="equals"), "1:2 in 0:3 1/1"),
    (b"xx\nx\ny\nz\n", block("x", "z", match="equals"), "2:3 in 1:4 1/1"),
])  # fmt: skip
def test_blocks(base: bytes, request_: BlockReplace, expected: str) -> None:
    check_place(request_, base, expected)


@each_row("base request_ expected facts", [
    (TWO, block("<a>", "</a>"), AnchorAmbiguous,
     {"argument": "start_anchor", "candidates_count": 2, "candidates": [1, 4]}),
    (RULES, block("---", "---"), AnchorAmbiguous, {"candidates": [1, 3]}),
    (NESTED, block("{", "}"), AnchorAmbiguous, {"candidates": [1, 2]}),
    (NESTED, block("{", "}"), AnchorAmbiguous, {"nested": None}),
    # chosen, but another start stands within
    (NESTED, block("{", "}", 1), AnchorAmbiguous,
     {"candidates": [1, 2], "candidates_count": 2, "nested": True}),
    (NESTED + b"{\n}\n", block("{", "}", 1), AnchorAmbiguous,
     {"candidates": [1, 2], "candidates_count": 2}),
    (TWO, block("<a>", "</a>", 3), OccurrenceOutOfRange, {"candidates_count": 2}),
    (TWO, block("<a>", "</a>", 3, strict=False), OccurrenceOutOfRange, {"occurrence": "3"}),
    (TWO, block("<b>", "</a>"), AnchorNotFound, {"argument": "start_anchor"}),
    (TWO, block("<a>", "</b>"), AnchorNotFound, {"argument": "end_anchor"}),
    # both are there, in the wrong order
    (b"</a>\n<a>\n", block("<a>", "</a>"), AnchorNotFound, {"argument": "end_anchor"}),
    (b"</a>\n" * 3 + b"<a>\n" * 3, block("<a>", "</a>"), AnchorNotFound,
     {"before_start": True, "closest": [1, 2, 4, 5]}),
    (b"---\n", block("---", "---"), AnchorNotFound, {"argument": "end_anchor"}),
    (b"", block("---", "---", strict=False), AnchorNotFound, {"argument": "start_anchor"}),
])  # fmt: skip
def test_blocks_refused(
    base: bytes, request_: BlockReplace, expected: type[Refusal], facts: dict[str, object]
) -> None:
    check_place(request_, base, expected, **facts)


@each_row("base text expected", [
    (b"a\nb\nc\n", "2", "1:2 in 1:2 1/1"),
    (b"a\nb\nc\n", "~", "0:3 in 0:3 1/1"),
    (b"a\nb\nc\n", "4~", "3:3 in end 1/1"),
    (b"", "~", "0:0 in -1:1 1/1"),
    (b"\xef\xbb\xbf", "1", "0:0 in -1:1 1/1"),
])  # fmt: skip
def test_ranges(base: bytes, text: str, expected: str) -> None:
    check_place(RangeEdit(PATH, text), base, expected)


@pytest.mark.parametrize("base", [b"", b"a", b"a\nb\n"])
def test_an_append_relies_on_nothing(base: bytes) -> None:
    found = Snapshot.of(base)
    check_place(Append(PATH, "x"), found, f"{found.line_count}:{found.line_count} in end 1/1")
    assert end_of(found) == Append(PATH, "x").locate(found)


@given(snapshots.flatmap(lambda base: st.tuples(st.just(base), requests(base))))
def test_the_footprint_holds_the_replaced_lines(case: tuple[Snapshot, LineEdit]) -> None:
    base, request = case
    place = request.locate(base)
    assert 0 <= place.start <= place.stop <= base.line_count
    assert 1 <= place.occurrence <= place.candidates
    if place.foot is None:
        assert place.start == place.stop == base.line_count
        return
    assert place.foot[0] < place.foot[1]
    assert place.foot[0] <= place.start <= place.stop <= place.foot[1]
    moved = place.moved(7)
    assert (moved.start, moved.stop) == (place.start + 7, place.stop + 7)
    assert moved.moved(-7) == place


@pytest.mark.slow
def test_a_missing_anchor_in_a_large_file_is_refused_soon() -> None:
    lines = (b"value_%d = compute(%d, other=%d)\n" % (i, i * 7, i % 13) for i in range(140_000))
    base = Snapshot.of(b"".join(lines))
    assert len(base.data) > 5_000_000
    with bounded():
        check_place(insert("value_77777 = compute(544439, another=12)"), base, AnchorNotFound)


def test_a_place_moves_with_what_it_relies_on() -> None:
    assert Place(3, 4, (2, 5), 2, 1).moved(2) == Place(5, 6, (4, 7), 2, 1)
    assert Place(3, 3, None).moved(-1) == Place(2, 2, None)


@each_row("start stop named", [(2, 5, "3~5"), (2, 3, "3~3"), (2, 2, "2~3"), (0, 0, "1~1")])
def test_lines_are_named_from_one(start: int, stop: int, named: str) -> None:
    assert Place(start, stop, None).named == named


@each_row("first last span", [
    (0, 1, (0, 1)),
    (0, 2, (0, 4)),
    (1, 2, (3, 4)),
    (2, 3, (5, 6)),
    (1, 3, (3, 6)),
    (3, 4, (6, 7)),
])  # fmt: skip
def test_lines_without_their_last_end(first: int, last: int, span: tuple[int, int]) -> None:
    """But that of a blank line, which is all that there is of it."""
    assert span_of(Snapshot.of(b"a\r\nb\n\nc"), first, last) == span


@each_row("place span", [
    (Place(0, 1, (0, 1)), (0, 1)),
    (Place(1, 2, (0, 3)), (0, 5)),
    (Place(3, 3, None), None),
    (Place(0, 0, (-1, 1)), None),
    (Place(0, 3, (0, 3), parts=((0, 1), (2, 3))), None),
])  # fmt: skip
def test_the_bytes_that_a_place_relies_on(place: Place, span: tuple[int, int] | None) -> None:
    assert foot_span(Snapshot.of(b"a\nb\nc\n"), place) == span


@pytest.mark.parametrize(
    ("occurrence", "expected"),
    [(1, "1:1 in 0:1 1/4"), (2, "2:2 in 1:2 2/4"), (3, AnchorAmbiguous), (4, "4:4 in 3:4 4/4")],
)
def test_of_more_candidates_than_are_kept_the_last_can_be_asked_for(
    monkeypatch: pytest.MonkeyPatch, occurrence: Occurrence, expected: str | type[Refusal]
) -> None:
    monkeypatch.setattr("copydesk.text.snapshot.KEPT", 2)
    check_place(insert("a", occurrence=occurrence), b"a\na\na\na\n", expected)
