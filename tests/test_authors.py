"""Laws of `Authored`: the net change of some authors of lines."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.text.authors import BASE, Authored, NetHunk
from support.rows import each_row

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
def test_the_net_change_is_of_what_others_wrote(changes: list[tuple[int, int, int, int]]) -> None:
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
def test_what_is_kept_is_context(
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
def test_what_a_person_undoes_is_none(
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


def lines_of(text: str) -> list[bytes]:
    """A line for each word."""
    return [f"{word}\n".encode() for word in text.split()]


def changed(text: str, *changes: tuple[int, list[tuple[int, int, str]]]) -> Authored:
    """The lines of a text after what authors did: the places, each with its words."""
    lines = Authored(lines_of(text))
    for author, places in changes:
        lines.change([(start, stop, lines_of(new)) for start, stop, new in places], author)
    return lines


def words(lines: list[bytes]) -> str:
    return b"".join(lines).decode().replace("\n", " ").strip()


def said(found: Iterable[NetHunk]) -> list[tuple[str, str]]:
    return [(words(one.old), words(one.new)) for one in found]


def test_what_others_put_in_place_of_a_line_is_theirs_or_the_one_that_was_there() -> None:
    for new in "by":
        lines = changed("a b c", (1, [(1, 2, "x")]), (BASE, [(1, 2, new)]))
        assert lines.net(is_agent) == (lines_of(f"a {new} c"), [])


def test_who_removed_a_part_of_it_is_named() -> None:
    (hunk,) = changed("a", (1, [(1, 1, "x y")]), (PERSON, [(1, 2, "")])).net(is_agent)[1]
    assert (hunk.new, hunk.authors, hunk.touched_by) == ([b"y\n"], {1}, {PERSON})


def test_only_what_the_commit_lacks_stays_open() -> None:
    lines = changed("a b", (1, [(0, 1, "x"), (2, 2, "y z")]))
    base, hunks = lines.settled_by(lines_of("x b y"), is_agent).net(is_agent)
    assert (base, said(hunks)) == (lines_of("x b"), [("", "y z")])


def test_what_was_never_committed_is_not_taken_for_removed_by_the_commit() -> None:
    lines = changed("a mine b c", (1, [(1, 2, ""), (3, 4, "x")]))
    lines = lines.settled_by(lines_of("a b c"), is_agent)
    assert said(lines.net(is_agent)[1]) == [("mine", ""), ("c", "x")]


def test_what_is_kept_of_one_author_leaves_what_another_removed() -> None:
    lines = changed("a b c", (1, [(0, 1, "x")]), (2, [(1, 2, "")]))
    kept = lines.net(lambda author: author == 1)[1]
    lines = lines.settled(kept, lambda author: author == 1)
    assert said(lines.net(is_agent)[1]) == [("b", "")]


def test_the_lines_that_are_there_are_counted_by_author() -> None:
    lines = changed("a b c", (1, [(0, 1, "x y")]), (2, [(2, 3, "")]))
    assert lines.counts() == {1: 2, 2: 0, BASE: 1}


@each_row("old", [0, 1, 2, 3])
@pytest.mark.parametrize("new", [2, 3, 4])
@pytest.mark.parametrize("author", [BASE, PERSON])
def test_what_is_left_is_touched_where_others_replaced_the_rest(
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


def touched(lines: Authored) -> list[tuple[str, bool]]:
    return [(words(one.new), bool(one.touched_by)) for one in lines.net(is_agent)[1]]


def test_all_parts_of_a_change_are_touched_whatever_stands_between_them() -> None:
    theirs = (BASE, [(2, 2, "p"), (3, 3, "q"), (4, 5, "Q")])
    lines = changed("a b c", (1, [(1, 2, "X Y W V")]), theirs)
    assert touched(lines) == [("X", True), ("Y", True), ("W", True)]
    ours = (1, [(1, 2, "X Y W")])
    lines = changed("a b c", ours, (BASE, [(1, 3, "Z1 Z2")]), (2, [(2, 2, "n")]))
    assert touched(lines) == [("n", False), ("W", True)]


@pytest.mark.parametrize("author", [BASE, 1])
def test_lines_that_were_there_before_a_change_part_its_places(author: int) -> None:
    ours = (2, [(0, 1, "X"), (2, 3, "Y")])
    lines = changed("a p c", (author, [(1, 2, "q")]), ours, (BASE, [(0, 1, "Z")]))
    (hunk,) = lines.net(lambda one: one == 2)[1]
    assert (hunk.old, hunk.new, hunk.touched_by) == ([b"c\n"], [b"Y\n"], set())


def test_what_took_nothing_out_is_not_touched_where_others_replaced_a_part() -> None:
    lines = changed("a old c", (1, [(0, 1, "X"), (2, 2, "U V")]), (BASE, [(2, 3, "theirs")]))
    assert touched(lines) == [("X", False), ("V", False)]


def test_a_change_stays_whole_after_another_was_kept() -> None:
    lines = changed("a b c d", (1, [(1, 2, "X Y W")]), (2, [(5, 6, "kept")]))
    lines = lines.settled(lines.net(lambda one: one == 2)[1], lambda one: one == 2)
    lines.change([(2, 2, lines_of("theirs")), (3, 4, lines_of("too"))], BASE)
    assert touched(lines) == [("X", True), ("Y", True)]
