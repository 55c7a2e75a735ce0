"""The alignment of lines: valid, in order, and bounded in cost."""

from __future__ import annotations

import re
from itertools import combinations, pairwise

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from copydesk.text import diff
from copydesk.text.diff import Alignment, Common, Run, align, common_ends, longest, weigh
from support.cost import bounded, spread
from support.rows import each_row

FEW = st.lists(st.sampled_from("abc"), max_size=12)
MANY = st.lists(st.integers(0, 40), max_size=40)
LINES = st.one_of(FEW, MANY)


def pairs(alignment: Alignment) -> list[tuple[int, int]]:
    return [(i + k, j + k) for i, j, length in alignment.runs for k in range(length)]


def common_length(a: list[object], b: list[object]) -> int:
    """The textbook table, as the dumb model."""
    row = [0] * (len(b) + 1)
    for line in a:
        last = row
        row = [0]
        for j, other in enumerate(b):
            row.append(last[j] + 1 if line == other else max(last[j + 1], row[j]))
    return row[-1]


def check_runs(base: str, now: str, expected: str) -> None:
    """Lines are characters; `expected` is one `base+now*length` for each run."""
    found = " ".join(f"{i}+{j}*{k}" for i, j, k in align(list(base), list(now)).runs)
    assert found == expected


@each_row("base now expected", [
    ("", "", ""),
    ("", "abc", ""),
    ("abc", "abc", "0+0*3"),
    ("abc", "abxc", "0+0*2 2+3*1"),
    ("abxc", "abc", "0+0*2 3+2*1"),
    ("abcd", "axyd", "0+0*1 3+3*1"),
    ("aaaa", "aaa", "0+0*3"),
    ("xfoo", "yfoo", "1+1*3"),
    # the one unique line that would cross the others is left out
    ("pabcdq", "rbcdas", "2+1*3"),
    # lines unique within a gap only
    ("pabmbaq", "rbamabs", "2+1*1 3+3*1 5+4*1"),
    # nothing to match behind the unique line, but before it
    ("paaqUz", "rabasU", "1+1*1 2+3*1 4+5*1"),
    ("paaqU", "rabasUz", "1+1*1 2+3*1 4+5*1"),
])  # fmt: skip
def test_one_alignment(base: str, now: str, expected: str) -> None:
    check_runs(base, now, expected)


@pytest.mark.parametrize(("base", "now", "expected"), [
    ("cababd", "eaabbf", "1+1*1 4+4*1"),
    ("caab", "eaabbaf", "1+1*3"),
    ("xaabby", "zbbaaw", ""),
    ("pabcdq", "rbcdas", "2+1*3"),
    ("paaqaar", "saataau", "1+1*2 4+4*2"),
])  # fmt: skip
def test_what_costs_too_much_keeps_its_distance(
    base: str, now: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diff, "_CELLS", 0)
    check_runs(base, now, expected)


@pytest.mark.parametrize("cells", [0, 9, diff._CELLS])
@given(a=LINES, b=LINES)
@example(a=list("ab"), b=list("ba"))
def test_runs_are_equal_lines_in_order(cells: int, a: list[object], b: list[object]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diff, "_CELLS", cells)
        runs = align(a, b).runs
    for i, j, length in runs:
        assert length > 0
        assert a[i : i + length] == b[j : j + length]
    for one, two in pairwise(runs):
        ends = one.base_start + one.length, one.now_start + one.length
        assert two.base_start >= ends[0]
        assert two.now_start >= ends[1]
        assert (two.base_start, two.now_start) != ends


@given(LINES, LINES, LINES)
def test_common_ends_are_matched(a: list[object], b: list[object], ends: list[object]) -> None:
    assume(ends)
    assert align([*ends, *a], [*ends, *b]).now_of(0, len(ends)) == 0
    head = align([*ends, "|", *a], [*ends, "|", *b])
    assert head.now_of(0, len(ends) + 1) == 0
    tail = align([*a, "|", *ends], [*b, "|", *ends])
    assert tail.now_of(len(a), len(ends) + 1) == len(b)


@given(LINES, LINES)
def test_gaps_and_runs_make_both_texts(a: list[object], b: list[object]) -> None:
    alignment = align(a, b)
    ours, theirs = list(a), list(b)
    for gap in reversed(list(alignment.gaps())):
        assert (gap.base_start, gap.now_start) != (gap.base_stop, gap.now_stop)
        ours[gap.base_start : gap.base_stop] = b[gap.now_start : gap.now_stop]
        del theirs[gap.now_start : gap.now_stop]
    assert ours == b
    assert len(theirs) == alignment.matched


@given(LINES, LINES)
def test_queries_agree_with_the_runs(a: list[object], b: list[object]) -> None:
    alignment = align(a, b)
    there = dict(pairs(alignment))
    back = {j: i for i, j in there.items()}
    assert [alignment.now_of(i) for i in range(len(a))] == [there.get(i) for i in range(len(a))]
    assert [alignment.base_of(j) for j in range(len(b))] == [back.get(j) for j in range(len(b))]
    for i, stop in combinations(range(len(a) + 1), 2):
        low = max((j + 1 for k, j in there.items() if k < i), default=0)
        high = min((j for k, j in there.items() if k >= stop), default=len(b))
        assert alignment.room_of(i, stop - i) == (low, high)


@given(FEW, FEW)
def test_longest_common_subsequence(a: list[object], b: list[object]) -> None:
    found = list(longest(a, b))[::-1]
    assert all(a[i] == b[j] for i, j in found)
    assert sorted({i for i, _ in found}) == [i for i, _ in found]
    assert sorted({j for _, j in found}) == [j for _, j in found]
    assert len(found) == common_length(a, b)
    growing = Common(b)
    growing.take(a)
    assert growing.lengths() == [common_length(a, b[:j]) for j in range(len(b) + 1)]
    assert growing.length() == len(found)


@given(FEW, FEW.filter(bool), FEW, FEW, FEW)
def test_weighing_agrees_with_the_table(
    before: list[object],
    lines: list[object],
    after: list[object],
    above: list[object],
    below: list[object],
) -> None:
    theirs = [*above, *lines, *below]
    found = weigh(before, lines, after, theirs, len(above))
    around = common_length(before, above) + common_length(after, below)
    assert found.best == common_length([*before, *lines, *after], theirs)
    assert found.here == around + len(lines)
    assert found.crossed == (common_length([*before, *after], [*above, *below]) > around)
    elsewhere = max(
        (
            common_length([*before, *lines[:k]], theirs[:j])
            + (theirs[j : j + 1] == [lines[k]])
            + common_length([*lines[k + 1 :], *after], theirs[j + 1 :])
            for k in {0, len(lines) - 1}
            for j in range(len(theirs))
            if j != len(above) + k
        ),
        default=0,
    )
    without = max(
        common_length([*before, *lines[:k], *lines[k + 1 :], *after], theirs)
        for k in (0, len(lines) - 1)
    )
    assert found.tied == (max(elsewhere, without) >= found.best)


@pytest.mark.slow
@pytest.mark.parametrize("name", spread(("equal", "few kinds", "no two equal", "nested"), of=2))
def test_large_texts_in_bounded_time(name: str) -> None:
    size = 100_000
    base: list[object]
    now: list[object]
    if name == "equal":
        base, now = ["x"] * size, ["x"] * size
        base[9], now[11], base[size // 2], now[size // 3] = "p", "q", "r", "s"
    elif name == "few kinds":
        base, now = [k * k % 7 for k in range(size)], [k * k % 11 % 7 for k in range(size)]
    elif name == "no two equal":
        base, now = list(range(size)), list(range(size, 2 * size))
    else:
        base = [min(k, size - k) for k in range(size)]
        now = [*base[1:], "z", *base[:1]]
    with bounded():
        alignment = align(base, now)
    assert all(base[i] == now[j] for i, j in pairs(alignment))


def test_an_alignment_says_its_runs() -> None:
    assert align("abc", "axc") == Alignment(3, 3, (Run(0, 0, 1), Run(2, 2, 1)))


TEXTS = st.tuples(st.lists(st.sampled_from(["a\n", "b\n", "c\n"]), max_size=24), st.booleans()).map(
    lambda drawn: "".join(drawn[0]) + "z" * drawn[1]
)
LONG = "".join(f"{i}\n" for i in range(30))


@pytest.mark.parametrize("most", [None, 2])
@example("", "z")
@example("a\n", "a")
@example(LONG, LONG)
@example(LONG, LONG.replace("\n4\n", "\n").replace("\n13\n", "\nx\n").replace("29\n", "29"))
@example(LONG, LONG.replace("\n4\n", "\n").replace("\n14\n", "\nx\n").replace("\n20\n", "\n"))
@given(TEXTS, TEXTS)
def test_a_patch_tells_the_fewest_lines_that_differ(most: int | None, old: str, new: str) -> None:
    """Its hunks make the new text of the old one; four lines of context, shared by near changes."""
    with pytest.MonkeyPatch.context() as patched:
        if most is not None:  # beyond so many the lines are aligned, perhaps not by the fewest
            patched.setattr(diff, "MOST_CHANGES", most)
        text = diff.patch(old, new, "n")
    head, *parts = re.split(r"^@@ -(\d+),(\d+) \+(\d+),(\d+) @@\n", text, flags=re.MULTILINE)
    assert head == f"Index: n\n{'=' * 67}\n--- n\toriginal\n+++ n\tmodified\n"
    ours, theirs = old.splitlines(keepends=True), new.splitlines(keepends=True)
    made, at, changes = list[str](), 0, 0
    for part in range(0, len(parts), 5):
        start, size, to, new_size = map(int, parts[part : part + 4])
        rows = list[str]()
        for row in parts[part + 4].splitlines(keepends=True):
            if row == "\\ No newline at end of file\n":
                rows[-1] = rows[-1].removesuffix("\n")
            else:
                rows.append(row)
        kinds = "".join(row[0] for row in rows)
        first = start - (size > 0)
        made += ours[at:first]
        assert to - (new_size > 0) == len(made)
        assert [row[1:] for row in rows if row[0] != "+"] == ours[first : first + size]
        added = [row[1:] for row in rows if row[0] != "-"]
        assert len(added) == new_size
        made += added
        contexts = [len(each) for each in re.split("[-+]+", kinds)]
        assert contexts[0] == min(first + contexts[0], 4)
        assert contexts[-1] == min(len(ours) - first - size + contexts[-1], 4)
        assert max(contexts[1:-1], default=0) <= 8
        assert not part or first > at, "else they were one"
        at, changes = first + size, changes + kinds.count("+") + kinds.count("-")
    assert "".join(made + ours[at:]) == new
    fewest = len(ours) + len(theirs) - 2 * common_length([*ours], [*theirs])
    assert changes == fewest if most is None else changes >= fewest


@pytest.mark.parametrize("size", range(1, 18))
def test_common_ends_are_counted_to_the_last_line(size: int) -> None:
    for same in range(size + 1):
        ours = list(range(size))
        theirs = ours[:same] + [-1] * (size - same)
        assert common_ends(ours, theirs) == (same, 0)
        assert common_ends(ours[::-1], theirs[::-1]) == ((0, same) if same < size else (size, 0))
