"""A batch of string edits as one change set: what it makes of any text, and what it refuses."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.edit.kinds import replace as batch
from copydesk.edit.kinds.replace import (
    SHOWN_COLLISIONS,
    SHOWN_CORRECTIONS,
    SHOWN_FAILURES,
    Batch,
    compile_batch,
    compile_in_order,
    part_lines,
    replace_everywhere,
)
from copydesk.edit.request import BatchEdit, ReplaceText, StringEdit
from copydesk.errors import (
    CollisionDetected,
    DuplicateEdits,
    EncodingRefused,
    InvalidArgs,
    PartialMatchFail,
    Refusal,
)
from copydesk.text.snapshot import Snapshot
from support.cost import bounded
from support.rows import each_row
from support.texts import PATH

Pair = tuple[str, str]


def edits_of(pairs: Sequence[Pair]) -> list[StringEdit]:
    return [StringEdit(old, new) for old, new in pairs]


def made(data: bytes, *pairs: Pair, named: str | None = None) -> bytes:
    """The file after the batch."""
    base = Snapshot.of(data, named)
    return compile_batch(base, edits_of(pairs)).change.apply(data)


def failing(data: bytes, *pairs: Pair) -> PartialMatchFail:
    """Why the batch is refused."""
    with pytest.raises(PartialMatchFail) as refused:
        made(data, *pairs)
    return refused.value


def colliding(data: bytes, *pairs: Pair) -> CollisionDetected:
    with pytest.raises(CollisionDetected) as refused:
        made(data, *pairs)
    return refused.value


BOM = b"\xef\xbb\xbf"


@each_row(
    "data pairs after",
    [
        (b"a b c", [("a", "x"), ("c", "z")], b"x b z"),
        (b"abc", [("a", "1"), ("b", "2"), ("c", "3")], b"123"),
        # of two that touch, what both put in between them is in the order of the regions
        (b"ab", [("b", "2b"), ("a", "a1")], b"a12b"),
        (b"a\n", [("\n", "a\n"), ("a", "a\n")], b"a\na\n"),
        (b"a\r\nb", [("b", "x\nb"), ("a\n", "a\ny\n")], b"a\r\ny\r\nx\r\nb"),
        (b"abc", [("c", "3c"), ("b", "b2"), ("a", "a1")], b"a1b23c"),
        # what one edit puts in, no other one sees
        (b"a b", [("a", "b"), ("b", "a")], b"b a"),
        # new line ends are those of the place, old ones stay
        (b"a\r\nb\r\n", [("a\nb", "a\nx\nb")], b"a\r\nx\r\nb\r\n"),
        (b"a\r\nb\r\n", [("b", "b\nc")], b"a\r\nb\r\nc\r\n"),
        (b"a\r\nb", [("b", "b\nc")], b"a\r\nb\r\nc"),
        (b"a\r\nb\nc\n", [("a", "x\ny")], b"x\r\ny\r\nb\nc\n"),
        (b"a\r\nb\nc\n", [("c", "x\ny")], b"a\r\nb\nx\ny\n"),
        (b"a\r\nb\n", [("a\n", "a\nx\n")], b"a\r\nx\r\nb\n"),
        (b"a\nb\r\n", [("a\n", "a\nx\n")], b"a\nx\nb\r\n"),
        (b"a\r\nb\nc", [("a\nb\nc", "x\nb\ny")], b"x\r\nb\ny"),
        (b"a\nb\r\nc\n", [("a\nb\nc", "x\nnew\nb\ny")], b"x\nnew\nb\r\ny\n"),
        (b"a\nb\r\nc\nd", [("a\nb\nc\nd", "x\ny\nz\nd")], b"x\ny\r\nz\nd"),
        (b"A\r\nm\np\r\nq\nk\r\nE", [("A\nm\np\nq\nk\nE", "B\nm\nx\nk\nF")], b"B\r\nm\nx\r\nk\r\nF"),
        # a place that begins at the first byte of what is sought
        (b"a\r\nb\r\n", [("a\nb\n", "c\na\nb\n")], b"c\r\na\r\nb\r\n"),
        ("a\r\né\r\n".encode(), [("é\n", "ü\n")], "a\r\nü\r\n".encode()),
        (b"a\r\nb\nc\r\nd", [("a\nb\nc\nd", "x\nb\ny")], b"x\r\nb\ny"),
        (b"a\nb", [("a", "x\r\ny")], b"x\ny\nb"),
        (b"ab", [("a", "x\r\ny")], b"x\nyb"),
        (b"a\r\nb", [("a\r\nb", "c")], b"c"),
        (b"a\rb\n", [("a\rb", "a\rc")], b"a\rc\n"),
        # the last line end: as the edit says, no other rule
        (b"a\nb", [("b", "c")], b"a\nc"),
        (b"a\nb\n", [("b\n", "b")], b"a\nb"),
        (b"a\nb", [("b", "b\n")], b"a\nb\n"),
        # all that is not sought stays
        (BOM + b"a\n", [("a", "b")], BOM + b"b\n"),
        (BOM + b"a", [("a", "")], BOM),
        (b"a\xff\xfe b", [("a", "x"), (" b", "")], b"x\xff\xfe"),
        ("é漢🎉".encode(), [("é漢", "é字")], "é字🎉".encode()),
        ("a\u2028b\x0cc\x85d".encode(), [("c\x85d", "c\x85")], "a\u2028b\x0cc\x85".encode()),
    ],
)  # fmt: skip
def test_what_comes_of_it(data: bytes, pairs: list[Pair], after: bytes) -> None:
    """Also of each edit in its own lines alone."""
    assert made(data, *pairs) == after
    base, request = Snapshot.of(data), BatchEdit(PATH, tuple(edits_of(pairs)))
    parts = request.locate(base).parts
    assert len(parts) == len(pairs)
    assert request.batch(base, parts).change.apply(data) == after


@each_row(
    "named data pairs after",
    [
        ("gb18030", "中文\r\n字".encode("gb18030"), [("文", "文\n新")], "中文\r\n新\r\n字".encode("gb18030")),
        ("shift_jis", "日本\n語".encode("shift_jis"), [("本\n", "本\nの\n")], "日本\nの\n語".encode("shift_jis")),
        # of two spellings of one character the one that stays is the one that was
        ("cp932", b"\xfa\x4a1\r\n\x87\x54", [("Ⅰ1", "Ⅰ2")], b"\xfa\x4a2\r\n\x87\x54"),
        ("gb18030", b"\xff" + "中".encode("gb18030"), [("中", "国")], b"\xff" + "国".encode("gb18030")),
        (None, b"\xff\xfe" + "a\r\n漢b".encode("utf-16-le"), [("漢", "字\n🎉")], b"\xff\xfe" + "a\r\n字\r\n🎉b".encode("utf-16-le")),
        (None, b"\xfe\xff" + "ab".encode("utf-16-be") + b"\0", [("a", "c")], b"\xfe\xff" + "cb".encode("utf-16-be") + b"\0"),
        # `\\xNN` is a byte as it was shown, unless it was sought as these four characters
        (None, b"a \xfe\n", [("a", "\\xfe")], b"\xfe \xfe\n"),
        (None, b"\\xff \xfe\n", [("\\xff", "\\xfe")], b"\\xfe \xfe\n"),
        ("latin-1", b"caf\xe9\n", [("caf\xe9", "th\xe9")], b"th\xe9\n"),
    ],
)  # fmt: skip
def test_other_encodings(named: str | None, data: bytes, pairs: list[Pair], after: bytes) -> None:
    assert made(data, *pairs, named=named) == after


@each_row(
    "data named pairs character index",
    [
        (b"caf\xe9", None, [("caf", "th\xe9")], "\xe9", 2),
        (b"caf\xe9", None, [("\xe9", "e")], "\xe9", 0),
        (b"a\xff", None, [("a", "a"), ("x", "漢")], "漢", 0),
        ("日本".encode("shift_jis"), "shift_jis", [("日本", "日本🎉")], "🎉", 2),
        (b"abc", "shift_jis", [("c", "x\n\xa5")], "\xa5", 2),
    ],
)
def test_text_that_the_file_cannot_hold(
    data: bytes, named: str | None, pairs: list[Pair], character: str, index: int
) -> None:
    """The index is that in the string that was given."""
    with pytest.raises(EncodingRefused) as refused:
        made(data, *pairs, named=named)
    assert (refused.value.character, refused.value.character_index) == (character, index)


@each_row(
    "pairs indices",
    [
        ([("a", "x"), ("b", "y"), ("a", "x")], (0, 2)),
        ([("a\nb", "x"), ("a\r\nb", "x")], (0, 1)),
        ([("no", "x"), ("no", "x")], (0, 1)),
        ([("a", "a"), ("a", "a")], (0, 1)),
    ],
)
def test_duplicates(pairs: list[Pair], indices: tuple[int, int]) -> None:
    with pytest.raises(DuplicateEdits) as refused:
        made(b"a b c", *pairs)
    assert refused.value.indices == indices


@each_row("pairs", [[("a", "a")], [("no", "no"), ("a\n", "a\r\n")]])
def test_a_batch_of_nothing(pairs: list[Pair]) -> None:
    base, (one, *_) = Snapshot.of(b"a b c"), edits_of(pairs)
    for make in (lambda: made(b"a b c", *pairs), lambda: replace_everywhere(base, one)):
        with pytest.raises(InvalidArgs) as refused:
            make()
        assert refused.value.argument == "edits"


def test_what_changes_nothing_is_counted_and_has_its_place() -> None:
    base = Snapshot.of(b"a b c")
    batch = compile_batch(base, edits_of([("a", "a"), ("b", "x"), ("c", "c")]))
    assert (batch.no_op_count, batch.spans) == (2, ((0, 1), (2, 3), (4, 5)))
    assert str(batch.change) == "2 1:1 2"
    with pytest.raises(PartialMatchFail):
        compile_batch(base, edits_of([("no", "no"), ("b", "x")]))


def test_all_that_fail_are_named() -> None:
    text = b"one = 1\ntwo = 2\ntwo = 2\nthree = 3\naaa\n"
    olds = ("one = 1", "two = 2", "three = 4", "aa", "zzzzz")
    refused = failing(text, *((old, "x") for old in olds))
    assert refused.failed_index == 1
    near = ("4~4", ("- three = 4", "+ three = 3"))
    assert [
        (f.index, f.matches_count, f.lines, f.nearest_lines, f.difference) for f in refused.failures
    ] == [
        (1, 2, (2, 3), None, None),
        (2, 0, (), *near),
        (3, 2, (5, 5), None, None),
        (4, 0, (), None, None),
    ]
    assert refused.failures[1].similarity in range(85, 100)


@each_row(
    "text pairs clashes",
    [
        ("abcd\n", [("abc", "x"), ("bcd", "y")], [(0, 1, "1~1", "1~1")]),
        ("abcd\n", [("abc", "x"), ("abc", "y")], [(0, 1, "1~1", "1~1")]),
        ("abcd\n", [("abcd", "x"), ("b", "y")], [(0, 1, "1~1", "1~1")]),
        ("abcd\n", [("abcd", "abcd"), ("b", "y")], [(0, 1, "1~1", "1~1")]),
        ("a\nb\nc\n", [("b\nc", "x"), ("a\nb", "y")], [(0, 1, "2~3", "1~2")]),
        ("a\nb\nc\n", [("a\nb", "x"), ("\nb\n", "y"), ("b\nc", "z")], [(0, 1, "1~2", "1~2"), (0, 2, "1~2", "2~3"), (1, 2, "1~2", "2~3")]),
        ("abc", [("a", "x"), ("b", "y"), ("c", "z")], []),
        ("a\r\nb", [("a\n", "x"), ("b", "y")], []),
        ("a\r\nb", [("a\n", "x"), ("\nb", "y")], [(0, 1, "1~1", "1~2")]),
    ],
)  # fmt: skip
def test_collisions(text: str, pairs: list[Pair], clashes: list[tuple[int, int, str, str]]) -> None:
    if not clashes:
        assert made(text.encode(), *pairs)
        return
    found = colliding(text.encode(), *pairs).collisions
    assert [(c.first, c.second, c.first_lines, c.second_lines) for c in found] == clashes


@each_row(
    "text pair after",
    [
        ("aaa", ("aa", "b"), "ba"),
        ("abab", ("ab", "abab"), "abababab"),
        ("a\r\nb\na\r\n", ("a\n", "c\n"), "c\r\nb\nc\r\n"),
        (b"\xff\xff a\xff", ("\\xff", "b"), b"bb ab"),
    ],
)
def test_everywhere(text: str | bytes, pair: Pair, after: str | bytes) -> None:
    base = Snapshot.of(text if isinstance(text, bytes) else text.encode())
    found = replace_everywhere(base, StringEdit(*pair))
    assert found.change.apply(base.data) == (after if isinstance(after, bytes) else after.encode())
    request = ReplaceText(PATH, (StringEdit(*pair),), everywhere=True)
    place = request.locate(base)
    parts = place.parts
    assert place.candidates == len(found.spans)
    assert all(one[1] <= other[0] for one, other in pairwise(parts))
    assert request.batch(base, parts).change == found.change


def test_everywhere_is_nowhere() -> None:
    with pytest.raises(PartialMatchFail) as refused:
        replace_everywhere(Snapshot.of(b"value = 1\n"), StringEdit("valve = 1", "x"))
    assert refused.value.failures[0].nearest_lines == "1~1"


# laws: the naive definition, on texts in which everything meets


def naive(text: str, pairs: Sequence[Pair]) -> str | tuple[type[Refusal], object]:
    """The text after the edits, or the refusal and what it names; LF alone."""
    for j, pair in enumerate(pairs):
        if pair in pairs[:j]:
            return DuplicateEdits, (pairs.index(pair), j)
    if all(old == new for old, new in pairs):
        return InvalidArgs, "edits"
    starts = [[at for at in range(len(text)) if text.startswith(old, at)] for old, _ in pairs]
    failing = [(i, len(found)) for i, found in enumerate(starts) if len(found) != 1]
    if failing:
        return PartialMatchFail, failing
    spans = [(found[0], found[0] + len(old)) for found, (old, _) in zip(starts, pairs, strict=True)]
    clashes = [
        (i, j)
        for i, (a, b) in enumerate(spans)
        for j, (c, d) in enumerate(spans)
        if i < j and a < d and c < b
    ]
    if clashes:
        return CollisionDetected, clashes
    for (start, stop), (_, new) in sorted(zip(spans, pairs, strict=True), reverse=True):
        text = text[:start] + new + text[stop:]
    return text


def outcome(base: Snapshot, pairs: Sequence[Pair]) -> Batch | tuple[type[Refusal], object]:
    try:
        return compile_batch(base, edits_of(pairs))
    except DuplicateEdits as refusal:
        return DuplicateEdits, refusal.indices
    except InvalidArgs as refusal:
        return InvalidArgs, refusal.argument
    except PartialMatchFail as refusal:
        return PartialMatchFail, [(f.index, f.matches_count) for f in refusal.failures]
    except CollisionDetected as refusal:
        return CollisionDetected, [(c.first, c.second) for c in refusal.collisions]


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, list[Pair]]:
    """A text, and edits of it; most of them of what stands there once."""
    letters = draw(st.sampled_from(("ab\n", "abcdefgh\n", "aé漢\n")))
    text = draw(st.text(st.sampled_from(letters), max_size=30))
    new = st.text(st.sampled_from(letters), max_size=4)
    pairs: list[Pair] = []
    for _ in range(draw(st.integers(1, 8))):
        start = draw(st.integers(0, max(len(text) - 1, 0)))
        old = text[start : start + draw(st.integers(1, 6))] or "a"
        if draw(st.integers(0, 3)) and text.count(old) != 1:
            continue
        kept = draw(st.integers(0, 2))
        pairs.append((old, old[:kept] + draw(new) + old[len(old) - kept :] if kept else draw(new)))
    return text, pairs or [("a", "b")]


@st.composite
def touching(draw: st.DrawFn) -> tuple[str, list[Pair]]:
    """A text of different letters, and edits of pieces that touch, in any order."""
    text = "".join(draw(st.permutations("abcdé\n")))
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), min_size=3)))
    pairs: list[Pair] = []
    for start, stop in pairwise(cuts):
        old, new = text[start:stop], draw(st.text("abxy\n", max_size=2))
        forms = (old + new, new + old, new, old[:1] + new + old[1:])
        pairs.append((old, draw(st.sampled_from(forms))))
    return text, draw(st.permutations(pairs))


@given(cases() | touching())
def test_as_the_naive_definition(case: tuple[str, list[Pair]]) -> None:
    text, pairs = case
    for newline in ("\n", "\r\n"):
        base = Snapshot.of(text.replace("\n", newline).encode())
        given = [(old.replace("\n", newline), new) for old, new in pairs]
        expected, found = naive(text, pairs), outcome(base, given)
        if isinstance(found, Batch):
            style = newline if "\n" in text else "\n"
            assert isinstance(expected, str)
            assert found.change.apply(base.data).decode() == expected.replace("\n", style)
        else:
            assert found == expected


@pytest.mark.slow
@given(cases() | touching(), st.data())
def test_mixed_line_ends_stay_where_text_stays(
    case: tuple[str, list[Pair]], data: st.DataObject
) -> None:
    text, pairs = case
    raw = "".join(data.draw(st.sampled_from(("\n", "\r\n"))) if c == "\n" else c for c in text)
    base = Snapshot.of(raw.encode())
    expected, found = naive(text, pairs), outcome(base, pairs)
    if not isinstance(found, Batch):
        assert found == expected
        return
    assert found.change.apply(base.data).decode().replace("\r\n", "\n") == expected
    allowed: set[int] = set()
    for (start, stop), (old, new) in zip(found.spans, pairs, strict=True):
        region = base.data[start:stop].decode()
        assert region.replace("\r\n", "\n") == old
        head = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), None)
        head = min(len(old), len(new)) if head is None else head
        most = min(len(old), len(new)) - head
        tail = next((i for i in range(most) if old[-1 - i] != new[-1 - i]), most)
        first, last = _raw_length(region, head), _raw_length(region, len(old) - tail)
        allowed |= set(range(start + first, start + last))
    for edit in found.change.edits:
        assert set(range(edit.start, edit.stop)) <= allowed


def _raw_length(region: str, characters: int) -> int:
    """The bytes of the first so many characters of a text, a line end being one."""
    size = at = 0
    for _ in range(characters):
        unit = "\r\n" if region.startswith("\r\n", at) else region[at]
        size, at = size + len(unit.encode()), at + len(unit)
    return size


@given(cases() | touching())
def test_each_edit_in_its_own_lines_comes_to_the_same(case: tuple[str, list[Pair]]) -> None:
    text, pairs = case
    base = Snapshot.of(text.encode())
    found = outcome(base, pairs)
    if isinstance(found, Batch):
        request = BatchEdit(PATH, tuple(edits_of(pairs)))
        parts = part_lines(base, found.spans)
        assert request.batch(base, parts).change == found.change


AB = st.sampled_from("ab\n")


@given(st.text(AB, max_size=30), st.text(AB, min_size=1, max_size=3), st.text(AB, max_size=3))
def test_everywhere_is_what_str_replace_does(text: str, old: str, new: str) -> None:
    base = Snapshot.of(text.encode())
    if old in text and old != new:
        after = replace_everywhere(base, StringEdit(old, new)).change.apply(base.data)
        assert after.decode() == text.replace(old, new)


@each_row(
    "text old causes by corrected",
    [
        ("if a:\n    if b:\n        c()\n", "if b:\n    c()", ("indentation",), 4, "    if b:\n        c()"),
        ("x = f(1)\n", "x = f( 1)", ("spacing",), None, "x = f(1)"),
        ("    x = f(1)\n", "  x = f( 1)", ("indentation", "spacing"), 2, "    x = f(1)"),
        ("def run(left, right):\n", "def run(left, night):", None, None, None),
    ],
)  # fmt: skip
def test_why_a_text_stands_nowhere_and_what_was_meant(
    text: str, old: str, causes: tuple[str, ...] | None, by: int | None, corrected: str | None
) -> None:
    (found,) = failing(text.encode(), (old, "new")).failures
    assert (found.cause, found.indented_by, found.corrected_old_string) == (causes, by, corrected)


def test_corrections_are_shown_whole_while_there_is_room() -> None:
    """Of three long ones two are; then a short one still is."""
    lines = [f"value_{i} = {'x' * (SHOWN_CORRECTIONS // 2 - 40)}  # end" for i in range(3)]
    text = "\n".join([*lines, "short = f(1)", ""])
    pairs = [(line.replace("  #", " #"), "new") for line in lines]
    refused = failing(text.encode(), *pairs, ("short = f( 1)", "new"))
    found = [each.corrected_old_string for each in refused.failures]
    assert found == [*lines[:2], None, "short = f(1)"]


def test_other_places_like_the_closest_are_named() -> None:
    (found,) = failing(b"x = f(1)\ny = 2\nx = f(1)\n", ("x = f( 1)", "new")).failures
    assert (found.nearest_lines, found.similar_lines) == ("1~1", (3,))
    assert found.corrected_old_string is None
    (found,) = failing(b"x = f(1)\ny = 2\n", ("x = f( 1)", "new")).failures
    assert found.similar_lines is None


@pytest.mark.parametrize("less", [0, 1])
def test_a_correction_is_shown_where_it_just_fits(
    monkeypatch: pytest.MonkeyPatch, less: int
) -> None:
    monkeypatch.setattr(batch, "SHOWN_CORRECTIONS", len("x = f(1)") - less)
    (found,) = failing(b"x = f(1)\n", ("x = f( 1)", "new")).failures
    assert found.corrected_old_string == (None if less else "x = f(1)")


# one after the other


@each_row(
    "data pairs after",
    [
        (b"a\n", [("a", "b"), ("b", "c")], b"c\n"),
        (b"a b c d\n", [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4"), ("1 2", "5")], b"5 3 4\n"),
        (b"a a\n", [("a a", "a b"), ("a", "c")], b"c b\n"),
        # an empty old text is for an empty file
        (b"", [("", "x\n"), ("x\n", "y\n")], b"y\n"),
        (b"a\n", [("a\n", ""), ("", "x\n")], b"x\n"),
        (BOM, [("", "x\n")], BOM + b"x\n"),
        (b"", [("", "x\n")], b"x\n"),
        # whole lines that are indented more, or less, by one amount, and the new ones with them
        (b"    a\n    b\n", [("a\nb", "x\ny")], b"    x\n    y\n"),
        (b"    if a:\n        b\n", [("if a:\n    b", "if c:\n    d\ne")], b"    if c:\n        d\n    e\n"),
        (b"\t\ta\n\t\t\tb\n", [("\ta\n\t\tb\n", "\tx\n\n\t\t\ty\n")], b"\t\tx\n\n\t\t\t\ty\n"),
        (b"a\n  b\n", [("    a\n      b\n", "    x\n  \n      y\n")], b"x\n  \n  y\n"),
        (b"\t  a\n\t    b\n", [("  a\n    b", "  x")], b"\t  x\n"),
        (b"\ta\r\n\tb", [("a\nb", "x\ny\nz")], b"\tx\r\n\ty\r\n\tz"),
        (b"\xff\n  a\r\n\n  b\nc\n", [("a\n\t\nb\n", "x\n\ny\n")], b"\xff\n  x\r\n\n  y\nc\n"),
        (b"  a\n  b\nc\n", [("a\nb\n", "")], b"c\n"),
        # exact text within lines stays so
        (b"    a\n", [("a", "x\n    y\n\n        z")], b"    x\n    y\n\n        z\n"),
        (b"    a b\n", [("b", "x\ny")], b"    a x\ny\n"),
        (b"    a\n    b\nc\n", [("a\n    b\nc", "x\n    y\nz")], b"    x\n    y\nz\n"),
        (b"  a:\n    b\n", [("a:\n    b", "a:\n    b\n\n  c:\n    d")], b"  a:\n    b\n\n  c:\n    d\n"),
        (b"  a:\n    b\n", [("a:\n    b", "c:\n   d")], b"  c:\n   d\n"),
        (b"  a:\n  - b\n", [("a:\n  - b", "c:\n  - d")], b"  c:\n  - d\n"),
        (b"\ta\n    b\n\t\tc\n", [("a\n    b\n\t\tc", "x\n    y\n\tz")], b"\tx\n    y\n\tz\n"),
        (b"if a:\n    b\n", [("if a:\n    b", "if c:\nd")], b"if c:\nd\n"),
        (b"  a x:\n", [("x:", "x:\n    y")], b"  a x:\n    y\n"),
        (b"   \n    a\n", [("\n    a", "\n  b")], b"   \n  b\n"),
        # the last line keeps its terminator where the new text has none
        (b"  if a:\n    b\n  c\n", [("if a:\n  b\n", "if a:\n  d")], b"  if a:\n    d\n  c\n"),
        (b"  a\r\n  b\r\nc", [("a\nb\n", "x")], b"  x\r\nc"),
        # what is there already elsewhere is no reason against the place
        (b"  a\n  b\n\nx\ny\n", [("a\nb\n", "x\ny\n")], b"  x\n  y\n\nx\ny\n"),
        (b"    a\n", [("    a", "x\ny")], b"x\ny\n"),
        # the lines of a block alone are indented again
        (b"    if a:\n      b\n", [("if a:\n  b", "if a:\n    b")], b"    if a:\n        b\n"),
        # bytes as they were shown
        (b" \xff a\r\n b\r\n", [("\\xff a\nb", "c\n\\xff x")], b" c\r\n \xff x\r\n"),
        (b"  a\n  \\xff\n", [("a\n\\xff", "b\n\\xff c")], b"  b\n  \\xff c\n"),
    ],
)  # fmt: skip
def test_one_after_the_other(data: bytes, pairs: list[Pair], after: bytes) -> None:
    found = compile_in_order(Snapshot.of(data), pairs)
    assert found.change.apply(data) == after
    assert len(found.spans) == len(pairs)
    assert found.no_op_count == 0


def test_one_after_the_other_that_change_nothing() -> None:
    found = compile_in_order(Snapshot.of(b"a b"), [("a", "a"), (" ", " "), ("b", "c")])
    assert (found.spans, found.no_op_count) == (((0, 1), (1, 2), (2, 3)), 2)
    assert compile_in_order(Snapshot.of(b"a b"), []).change.apply(b"a b") == b"a b"


def test_one_after_the_other_names_its_places_and_its_bytes() -> None:
    assert compile_in_order(Snapshot.of(b"a\nb\n"), [("b\n ", "x")]).spans == ((2, 4),)
    found = compile_in_order(Snapshot.of(b"\xff a\n\xfe"), [("a", "b"), ("\\xfe", "\\xfe c")])
    assert found.escapes.meant == {"\\xfe"}


@each_row(
    "data pairs index count lines",
    [
        (b"a\nb\n", [("a", "c"), ("zzzzz", "x")], 1, 0, ()),
        (b"a\na\n", [("a", "c")], 0, 2, (1, 2)),
        (b"a\n\nb\n", [("  ", "x")], 0, 2, (2, 4)),
        (b" a\nb\n a\n b\n", [("a \nb", "x")], 0, 2, (1, 3)),
        (b"a", [("  ", "x")], 0, 0, ()),
        (b"a\nb\n", [("b\n ", "x"), ("a\n x\n y", "z")], 1, 0, ()),
        # other blanks at line ends, alone or beside an indentation
        (b"a\nb\n", [("b \n", "x\n")], 0, 0, ()),
        (b"a\nb\nc\n", [("b \nc ", "x")], 0, 0, ()),
        (b"    a \n    b\n", [("a\nb", "x\ny")], 0, 0, ()),
        (b"    a\n    b\n", [("a \nb", "x\ny")], 0, 0, ()),
        (b"\x1ca\n", [("\x1ca ", "x")], 0, 0, ()),
        # of blanks alone
        (b"a\n\nb", [("  \n", "x")], 0, 0, ()),
        (b"a\r\n\r\nb", [("  ", "x\ny")], 0, 0, ()),
        (b"a\n", [("  ", "x")], 0, 0, ()),
        (b"", [("  ", "x")], 0, 0, ()),
        # of more than one indentation, or tabs for blanks
        (b"    a\n\tb\n", [(" a\n b", "x\n y")], 0, 0, ()),
        (b"    a\n      b\n", [(" a\n  b", " x\n y")], 0, 0, ()),
        (b"a\nb\nc\n", [("a\n b", "x")], 0, 0, ()),
        (b"\tif a:\n\t\tb\n", [("    if a:\n        b", "    c")], 0, 0, ()),
        # of new lines one has not what is to be taken off
        (b"a\n  b\n", [("    a\n      b\n", "    x\n  y\n")], 0, 0, ()),
        (b"  a\n", [("\ta", "\tb")], 0, 0, ()),
        # one line without its indentation, and new ones that may be indented by it or not
        (b"def f():\n    a\n", [("a", "if x:\n    a\ny")], 0, 1, ()),
        (b"\ta\r\n\tb\n", [("a\r\n", "if x:\n  a\n")], 0, 1, ()),
        # the first line without its indentation, and new ones that may be too
        (b"    a\n    b\n", [("a\n    b", "x\ny")], 0, 1, ()),
        (b"    a\n      b\n", [("a\n      b", "if x:\n  b\na")], 0, 1, ()),
        (b"\tif a:\n\t\tb\n", [("if a:\n\t\tb", "if c:\n    d")], 0, 1, ()),
        (b"    def f():\n        a\n", [("def f():\n        a", "def f():\n    b")], 0, 1, ()),
        (
            b"    def f(): #\n        a\n",
            [("def f(): #\n        a", "def f(): #\n    b")],
            0,
            1,
            (),
        ),
        (b"def f():\n    a\n", [("a", "if x:\n    a")], 0, 1, ()),
        (b"    a = 1\n", [("a", "b\nc")], 0, 1, ()),
        (" a\n  b\n".encode("utf-16"), [("a\n  b", "x\ny")], 0, 1, ()),
        # what changes nothing is there as given
        (b"  a\nb\n", [("a \n", "a \n")], 0, 0, ()),
        # the new lines are there already: around the old ones, as they are, or elsewhere
        (b"if c:\n    a\n    b\n", [("a\nb\n", "if c:\n    a\n    b\n")], 0, 0, (1,)),
        (b"  if c:\n    a\n    b\n", [("a\nb", "if c:\n  a\n  b")], 0, 0, (1,)),
        (b"  a\n  b\n", [("a\nb", "  a\n  b")], 0, 0, (1,)),
        (b"  x\n  b\n\nx\ny\n", [("a\nb\n", "x\ny\n")], 0, 0, (4,)),
        (b" a\n b\n\nx\ny\n\n a\n b\n", [("a\nb", "x\ny")], 0, 2, (1, 7)),
    ],
)
def test_one_after_the_other_refused(
    data: bytes, pairs: list[Pair], index: int, count: int, lines: tuple[int, ...]
) -> None:
    with pytest.raises(PartialMatchFail) as refused:
        compile_in_order(Snapshot.of(data), pairs)
    (found,) = refused.value.failures
    assert (refused.value.failed_index, found.index) == (index, index)
    assert (found.matches_count, found.lines) == (count, lines)


@each_row(
    "data pair text by",
    [
        (b"b\n    a\n", ("a", "x\ny"), "    a", 4),
        (b"\tif a:\n\t\tb\n", ("if a:\n\t\tb", "if c:\n\td"), "\tif a:\n\t\tb", 8),
    ],
)
def test_a_first_line_without_its_indentation_is_refused_in_code(
    data: bytes, pair: Pair, text: str, by: int
) -> None:
    """The text that is told is replaced as given; other files are written as asked."""
    old, new = pair
    base = Snapshot.of(data)
    with pytest.raises(PartialMatchFail) as refused:
        compile_in_order(base, [pair])
    (found,) = refused.value.failures
    assert (found.corrected_old_string, found.indented_by) == (text, by)
    again = compile_in_order(base, [(text, new)]).change.apply(data)
    assert again == data.replace(text.encode(), new.encode())
    plain = compile_in_order(base, [pair], is_code=False).change.apply(data)
    assert plain == data.replace(old.encode(), new.encode())


@each_row("data", [b"a\n", b"\n", BOM + b"a"])
def test_an_empty_old_text_has_no_place_among_lines(data: bytes) -> None:
    with pytest.raises(InvalidArgs) as refused:
        compile_in_order(Snapshot.of(data), [("a", "b")] * (b"a" in data) + [("", "x")])
    assert refused.value.argument == f"edits[{int(b'a' in data)}].oldText"


def test_of_an_indentation_that_differs_from_line_to_line_the_text_there_is_told() -> None:
    data = b"def f():\n    if x:\n        run(x)\n"
    with pytest.raises(PartialMatchFail) as refused:
        compile_in_order(Snapshot.of(data), [("if x:\n  run(x)\n", "if y:\n  run(y)\n")])
    (found,) = refused.value.failures
    assert found.corrected_old_string in (data.decode()[9:], data.decode()[13:])
    assert found.cause == ("indentation",)


@st.composite
def _programs(draw: st.DrawFn, unit: str, depth: int = 0) -> list[str]:
    """Lines of Python, nested by `unit`, with equal ones among them."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        name, kind = draw(st.sampled_from("xyz")), draw(st.integers(0, 5))
        if kind < 3 and depth < 3:
            head = (f"if {name}:", f"class {name}:", f"def {name}(old):")[kind]
            lines += [unit * depth + head, *draw(_programs(unit, depth + 1))]
        elif kind == 3:
            lines += [unit * depth + f'{name} = """', name, '"""']
        elif kind == 4:
            lines += [unit * depth + f"{name} = (", unit * (depth + 2) + "old", unit * depth + ")"]
        else:
            lines += [unit * depth + f"{name} = old", *[""] * draw(st.integers(0, 1))]
    return lines


@pytest.mark.slow
@given(st.sampled_from(["\t", "    ", "  "]).flatmap(_programs), st.data())
def test_what_compiles_before_a_rename_compiles_after_it(
    lines: list[str], data: st.DataObject
) -> None:
    """Both texts are indented otherwise than the file; what is written is indented as it was."""
    start = data.draw(st.integers(0, len(lines) - 1))
    text = "\n".join(lines[start : data.draw(st.integers(start + 1, len(lines)))])
    shift = data.draw(st.sampled_from(["", "\t", "  ", "    ", "  out", "    out", "\tout"]))
    by = shift.removesuffix("out")
    if shift != by:
        text = "\n".join(line.removeprefix(by) for line in text.split("\n"))
    else:
        text = "\n".join(by + line if line else line for line in text.split("\n"))
    text += data.draw(st.sampled_from(["", "\n"]))
    newline = data.draw(st.sampled_from(["\n", "\r\n"]))
    before = newline.join([*lines, ""]).encode()
    compile(before, "before", "exec")
    try:
        found = compile_in_order(Snapshot.of(before), [(text, text.replace("old", "new"))])
    except (PartialMatchFail, InvalidArgs):
        return
    after = found.change.apply(before)
    compile(after, "after", "exec")
    assert after.replace(b"new", b"old") == before


@each_row(
    "pair character", [(("\xe9", "x"), "\xe9"), (("\xff a ", "x"), "\xff"), (("a", "\xe9"), "\xe9")]
)
def test_one_after_the_other_in_an_unknown_encoding(pair: Pair, character: str) -> None:
    with pytest.raises(EncodingRefused) as refused:
        compile_in_order(Snapshot.of(b"\xff a\n"), [pair])
    assert refused.value.character == character


# bounds


@pytest.mark.slow
@pytest.mark.parametrize("count", [SHOWN_FAILURES, 600])
def test_of_many_failures_all_are_named_and_some_shown(count: int) -> None:
    text = "".join(f"value_{i:05d} = {i * 7919 % 1000}\n" for i in range(6_000))
    pairs = [(f"valeu_{i * 10:05d} = ", "x") for i in range(count)]
    failures = failing(text.encode(), *pairs).failures
    assert [f.index for f in failures] == list(range(count))
    shown = [f.nearest_lines for f in failures if f.nearest_lines]
    assert shown == [f"{i * 10 + 1}~{i * 10 + 1}" for i in range(SHOWN_FAILURES)]


def test_of_very_many_collisions_some_are_shown() -> None:
    text = "".join(chr(0x4E00 + i) for i in range(2_000))
    refused = colliding(text.encode(), *((text[i : 2_000 - i], str(i)) for i in range(300)))
    assert len(refused.collisions) == SHOWN_COLLISIONS
    assert refused.collisions_count == 300 * 299 // 2


@pytest.mark.parametrize("more", [0, 1])
def test_as_many_collisions_as_are_shown_are_not_counted(
    monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    monkeypatch.setattr(batch, "SHOWN_COLLISIONS", 3 - more)
    refused = colliding(b"abcdef", ("abcde", "1"), ("bcd", "2"), ("c", "3"))
    assert len(refused.collisions) == 3 - more
    assert refused.collisions_count == (3 if more else None)


@pytest.mark.parametrize(("pairs", "shown"), [(1, 12), (2, 8), (4, 4), (8, 3)])
def test_of_many_places_some_lines_are_shown(
    monkeypatch: pytest.MonkeyPatch, pairs: int, shown: int
) -> None:
    monkeypatch.setattr(batch, "SHOWN_LINES", 16)
    text = "".join(chr(97 + i) * 2 + "\n" for i in range(pairs)) * 6
    failures = failing(text.encode(), *((chr(97 + i), "x") for i in range(pairs))).failures
    assert {(len(each.lines), each.matches_count) for each in failures} == {(shown, 12)}


@pytest.mark.slow
def test_many_edits_of_a_large_file() -> None:
    lines = [f"line {i:06d} value = compute({i % 977:05d})\n" for i in range(100_000)]
    pairs = [(f"line {i:06d} value", f"line {i:06d} result") for i in range(0, 100_000, 50)]
    with bounded():
        after = made("".join(lines).encode(), *pairs).decode().splitlines(keepends=True)
    for i in range(0, 100_000, 50):
        lines[i] = lines[i].replace("value", "result")
    assert after == lines
