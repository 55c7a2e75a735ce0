"""Laws of `Authored`: the net change of some authors of lines."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.text.authors import BASE, Authored, NetHunk

AGENTS = (1, 2)
PERSON = 7
CHANGES = st.lists(
    st.tuples(
        st.sampled_from((BASE, PERSON, *AGENTS)),
        st.integers(0, 12),
        st.integers(0, 3),
        st.integers(0, 3),
    ),
    max_size=12,
)


def is_agent(author: int) -> bool:
    return author in AGENTS


class Model:
    """Lines that all differ, and for each who added and who removed it."""

    def __init__(self) -> None:
        self.now = [b"%d\n" % number for number in range(8)]
        self.added = dict.fromkeys(self.now, BASE)
        self.removed: dict[bytes, int] = {}
        self.lines = Authored([*self.now])

    def change(self, author: int, at: int, gone: int, come: int) -> None:
        start = min(at, len(self.now))
        stop = min(start + gone, len(self.now))
        new = [b"%d\n" % (len(self.added) + index) for index in range(come)]
        self.removed |= dict.fromkeys(self.now[start:stop], author or -1)
        self.added |= dict.fromkeys(new, author)
        self.now[start:stop] = new
        self.lines.change([(start, stop, new)], author)


def after(lines: list[bytes], hunks: Iterable[NetHunk]) -> list[bytes]:
    made = [*lines]
    for hunk in sorted(hunks, key=lambda hunk: -hunk.old_line):
        assert made[hunk.old_line : hunk.old_line + len(hunk.old)] == hunk.old
        made[hunk.old_line : hunk.old_line + len(hunk.old)] = hunk.new
    return made


def texts(hunks: Iterable[NetHunk]) -> list[tuple[list[bytes], list[bytes]]]:
    return [(hunk.old, hunk.new) for hunk in hunks]


def made(changes: Iterable[tuple[int, int, int, int]]) -> Model:
    model = Model()
    for change in changes:
        model.change(*change)
    return model


@given(CHANGES)
def test_the_net_change_makes_the_text_of_what_the_others_wrote(
    changes: list[tuple[int, int, int, int]],
) -> None:
    model = made(changes)
    base, hunks = model.lines.net(is_agent)
    assert after(base, hunks) == model.now
    own = {line for line in model.now if is_agent(model.added[line])}
    assert {line for hunk in hunks for line in hunk.new} == own
    theirs = {line for line in model.now if not is_agent(model.added[line])}
    assert theirs <= set(base)
    gone = {
        line
        for line, by in model.removed.items()
        if is_agent(by) and not is_agent(model.added[line])
    }
    assert set(base) - theirs <= gone
    if all(is_agent(author) for author, *_ in changes):
        assert set(base) - theirs == gone


@given(CHANGES, st.sets(st.integers(0, 6)))
def test_what_is_kept_is_context_and_the_rest_stays(
    changes: list[tuple[int, int, int, int]], chosen: set[int]
) -> None:
    model = made(changes)
    base, hunks = model.lines.net(is_agent)
    kept = [hunk for index, hunk in enumerate(hunks) if index in chosen]
    left = [hunk for index, hunk in enumerate(hunks) if index not in chosen]
    expected = after(base, kept)
    model.lines = model.lines.settled(kept, is_agent)
    base, hunks = model.lines.net(is_agent)
    assert base == expected
    assert texts(hunks) == texts(left)


@given(CHANGES, st.sets(st.integers(0, 6)))
def test_what_a_person_undoes_is_no_change_any_more(
    changes: list[tuple[int, int, int, int]], chosen: set[int]
) -> None:
    model = made(changes)
    base, hunks = model.lines.net(is_agent)
    undone = [hunk for index, hunk in enumerate(hunks) if index in chosen]
    left = [hunk for index, hunk in enumerate(hunks) if index not in chosen]
    back = [(one.new_line, one.new_line + len(one.new), one.old) for one in undone]
    model.lines.change(back, PERSON)
    now, found = model.lines.net(is_agent)
    assert now == base
    assert texts(found) == texts(left)


@given(CHANGES)
def test_what_is_committed_is_context(changes: list[tuple[int, int, int, int]]) -> None:
    model = made(changes)
    model.lines = model.lines.settled_by(model.now, is_agent)
    assert model.lines.net(is_agent) == (model.now, [])


def test_a_line_that_is_put_back_is_the_one_that_was_there() -> None:
    lines = Authored([b"a\n", b"b\n", b"c\n"])
    lines.change([(1, 2, [b"x\n"])], 1)
    lines.change([(1, 2, [b"b\n"])], BASE)
    assert lines.net(is_agent) == ([b"a\n", b"b\n", b"c\n"], [])


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), min_size=1, max_size=6),
    st.sets(st.integers(1, 4)),
)
def test_of_all_that_stood_in_one_place_one_text_comes_back(
    versions: list[tuple[int, int]], ours: set[int]
) -> None:
    """Never none, and never two, also where a text comes back that had been there."""
    lines = Authored([b"a\n", b"0\n", b"c\n"])
    now = 0
    for edit, (author, text) in enumerate(versions, 1):
        if text != now:
            lines.change([(1, 2, [b"%d\n" % text])], 10 * edit + author)
            now = text
    base, hunks = lines.net(lambda edit: edit % 10 in ours)
    assert after(base, hunks) == lines.lines == [b"a\n", b"%d\n" % now, b"c\n"]
    if not any(hunk.touched_by for hunk in hunks):
        assert (base[0], len(base), base[-1]) == (b"a\n", 3, b"c\n")


def test_what_puts_a_line_back_is_a_change_of_its_own() -> None:
    lines = Authored([b"a\n", b"b\n", b"c\n"])
    lines.change([(1, 2, [b"x\n"])], 1)
    lines.change([(1, 2, [b"b\n"])], 2)
    assert texts(lines.net(lambda one: one == 1)[1]) == []
    base, hunks = lines.net(lambda one: one == 2)
    assert (base, texts(hunks)) == ([b"a\n", b"x\n", b"c\n"], [([b"x\n"], [b"b\n"])])
    assert lines.without(hunks, lambda one: one == 2).lines == base
    lines.change([(1, 2, [b"x\n"])], 3)
    for author in (1, 3):
        assert texts(lines.net(lambda one, a=author: one == a)[1]) == [([b"b\n"], [b"x\n"])]
    for pair in ({1, 2}, {2, 3}):
        base, hunks = lines.net(pair.__contains__)
        assert base[1] in (b"b\n", b"x\n") or hunks[0].touched_by


def test_a_line_that_is_put_back_with_others_parts_no_change() -> None:
    """What was made of both of its lines is replaced: one alone does not come back beside that."""
    lines = Authored([b"a\n", b"x = 1\n", b"}\n", b"c\n"])
    lines.change([(1, 3, [b"if y {\n", b"x()\n"])], 1)
    lines.change([(1, 3, [b"z = 3\n", b"}\n"])], BASE)
    assert all(hunk.touched_by for hunk in lines.net(is_agent)[1])


def test_what_others_overwrote_stays_theirs_beside_a_line_that_is_put_back() -> None:
    lines = Authored([b"a", b"b"])
    lines.change([(1, 2, [b"c"])], 1)
    lines.change([(1, 2, [])], BASE)
    assert lines.net(is_agent)[1] == []
    lines.change([(0, 1, [b"d"])], 2)
    lines.change([(0, 1, [b"a"])], 2)
    assert lines.lines == [b"a"]
    assert lines.net(is_agent) == ([b"a"], [])


def test_what_others_put_in_place_of_it_is_theirs() -> None:
    lines = Authored([b"a\n", b"b\n", b"c\n"])
    lines.change([(1, 2, [b"x\n"])], 1)
    lines.change([(1, 2, [b"y\n"])], BASE)
    assert lines.net(is_agent) == ([b"a\n", b"y\n", b"c\n"], [])


def test_who_removed_a_part_of_it_is_named() -> None:
    lines = Authored([b"a\n"])
    lines.change([(1, 1, [b"x\n", b"y\n"])], 1)
    lines.change([(1, 2, [])], PERSON)
    (hunk,) = lines.net(is_agent)[1]
    assert (hunk.new, hunk.authors, hunk.touched_by) == ([b"y\n"], {1}, {PERSON})


def test_only_what_the_commit_lacks_stays_open() -> None:
    lines = Authored([b"a\n", b"b\n"])
    lines.change([(0, 1, [b"x\n"]), (2, 2, [b"y\n", b"z\n"])], 1)
    lines = lines.settled_by([b"x\n", b"b\n", b"y\n"], is_agent)
    base, hunks = lines.net(is_agent)
    assert (base, texts(hunks)) == ([b"x\n", b"b\n"], [([], [b"y\n", b"z\n"])])


def test_what_was_never_committed_is_not_taken_for_removed_by_the_commit() -> None:
    lines = Authored([b"a\n", b"mine\n", b"b\n", b"c\n"])
    lines.change([(1, 2, []), (3, 4, [b"x\n"])], 1)
    lines = lines.settled_by([b"a\n", b"b\n", b"c\n"], is_agent)
    assert texts(lines.net(is_agent)[1]) == [([b"mine\n"], []), ([b"c\n"], [b"x\n"])]


def test_what_is_kept_of_one_author_leaves_what_another_removed() -> None:
    lines = Authored([b"a\n", b"b\n", b"c\n"])
    lines.change([(0, 1, [b"x\n"])], 1)
    lines.change([(1, 2, [])], 2)
    kept = lines.net(lambda author: author == 1)[1]
    lines = lines.settled(kept, lambda author: author == 1)
    assert texts(lines.net(is_agent)[1]) == [([b"b\n"], [])]


def test_the_lines_that_are_there_are_counted_by_author() -> None:
    lines = Authored([b"a\n", b"b\n", b"c\n"])
    lines.change([(0, 1, [b"x\n", b"y\n"])], 1)
    lines.change([(2, 3, [])], 2)
    assert lines.counts() == {1: 2, 2: 0, BASE: 1}


@pytest.mark.parametrize("old", [0, 1, 2, 3])
@pytest.mark.parametrize("new", [2, 3, 4])
@pytest.mark.parametrize("author", [BASE, PERSON])
def test_what_is_left_of_a_change_is_touched_where_others_replaced_the_rest(
    old: int, new: int, author: int
) -> None:
    """Unless it replaced nothing: then nothing could fail to come back."""
    names = [b"%d\n" % number for number in range(8)]
    ours = [b"our %d\n" % number for number in range(new)]
    parts = [(start, stop) for start in range(new) for stop in range(start + 1, new + 1)]
    for start, stop in parts:
        lines = Authored(names)
        lines.change([(2, 2 + old, ours), (7, 8, [b"far\n"])], 1)
        lines.change([(2 + start, 2 + stop, [b"theirs\n"])], author)
        *near, far = lines.net(is_agent)[1]
        assert (far.new, far.touched_by) == ([b"far\n"], set())
        assert all(hunk.touched_by for hunk in near) or not old
        assert [line for hunk in near for line in hunk.new] == ours[:start] + ours[stop:]


def touched(lines: Authored) -> list[tuple[list[bytes], bool]]:
    return [(hunk.new, bool(hunk.touched_by)) for hunk in lines.net(is_agent)[1]]


def test_all_parts_of_a_change_are_touched_whatever_stands_between_them() -> None:
    lines = Authored([b"a\n", b"b\n", b"c\n"])
    lines.change([(1, 2, [b"X\n", b"Y\n", b"W\n", b"V\n"])], 1)
    lines.change([(2, 2, [b"p\n"]), (3, 3, [b"q\n"]), (4, 5, [b"Q\n"])], BASE)
    assert touched(lines) == [([b"X\n"], True), ([b"Y\n"], True), ([b"W\n"], True)]
    lines = Authored([b"a\n", b"b\n", b"c\n"])
    lines.change([(1, 2, [b"X\n", b"Y\n", b"W\n"])], 1)
    lines.change([(1, 3, [b"Z1\n", b"Z2\n"])], BASE)
    lines.change([(2, 2, [b"n\n"])], 2)
    assert touched(lines) == [([b"n\n"], False), ([b"W\n"], True)]


@pytest.mark.parametrize("author", [BASE, 1])
def test_lines_that_were_there_before_a_change_part_its_places(author: int) -> None:
    lines = Authored([b"a\n", b"p\n", b"c\n"])
    lines.change([(1, 2, [b"q\n"])], author)
    lines.change([(0, 1, [b"X\n"]), (2, 3, [b"Y\n"])], 2)
    lines.change([(0, 1, [b"Z\n"])], BASE)
    (hunk,) = lines.net(lambda one: one == 2)[1]
    assert (hunk.old, hunk.new, hunk.touched_by) == ([b"c\n"], [b"Y\n"], set())


def test_what_took_nothing_out_is_not_touched_where_others_replaced_a_part() -> None:
    lines = Authored([b"a\n", b"old\n", b"c\n"])
    lines.change([(0, 1, [b"X\n"]), (2, 2, [b"U\n", b"V\n"])], 1)
    lines.change([(2, 3, [b"theirs\n"])], BASE)
    assert touched(lines) == [([b"X\n"], False), ([b"V\n"], False)]


def test_a_change_stays_whole_after_another_was_kept() -> None:
    lines = Authored([b"a\n", b"b\n", b"c\n", b"d\n"])
    lines.change([(1, 2, [b"X\n", b"Y\n", b"W\n"])], 1)
    lines.change([(5, 6, [b"kept\n"])], 2)
    lines = lines.settled(lines.net(lambda one: one == 2)[1], lambda one: one == 2)
    lines.change([(2, 2, [b"theirs\n"]), (3, 4, [b"too\n"])], BASE)
    assert touched(lines) == [([b"X\n"], True), ([b"Y\n"], True)]
