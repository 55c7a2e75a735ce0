"""Change sets: the laws of their docstring, their one spelling, their one-line form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.text.change import ChangeSet, Collision, Edit
from support.rows import each_row
from support.texts import changes, files

pairs = files.flatmap(lambda data: st.tuples(st.just(data), changes(data), changes(data)))
ones = files.flatmap(lambda data: st.tuples(st.just(data), changes(data)))


def made(length: int, spelled: str) -> ChangeSet:
    """The change that `0-2=xy 5-5=z` spells: spans and the new text of each."""
    edits: list[Edit] = []
    for word in spelled.split():
        span, new = word.split("=")
        start, stop = span.split("-")
        edits.append(Edit(int(start), int(stop), new.encode()))
    return ChangeSet.of(length, edits)


@each_row("length spelled line new_length", [
    (0, "", "0", 0),
    (9, "", "9", 9),
    (0, "0-0=ab", "0:2", 2),
    (9, "0-0=ab", "0:2 9", 11),
    (9, "9-9=ab", "9 0:2", 11),
    (9, "0-9=", "9:0", 0),
    (9, "0-9=ab", "9:2", 2),
    (55, "12-15=abcde", "12 3:5 40", 57),
    (9, "2-3=x 6-8=", "2 1:1 3 2:0 1", 7),
    # the order given does not matter
    (9, "6-8= 2-3=x", "2 1:1 3 2:0 1", 7),
    # what touches is one
    (9, "2-3=x 3-5=y", "2 3:2 4", 8),
    (9, "3-3=x 3-5=y", "3 2:2 4", 9),
    (9, "3-5=y 5-5=x", "3 2:2 4", 9),
    (9, "3-3=x 3-3=y", "3 0:2 6", 11),
    # what does nothing vanishes, what replaces a text by itself does not
    (9, "3-3=", "9", 9),
    (9, "3-3= 3-5=", "3 2:0 4", 7),
    (9, "3-4=x", "3 1:1 5", 9),
])  # fmt: skip
def test_one_spelling(length: int, spelled: str, line: str, new_length: int) -> None:
    """The change has this one-line form and makes a text of this length."""
    change = made(length, spelled)
    assert str(change) == line
    assert change.new_length == new_length
    assert bool(change) == bool(change.edits)


def test_insertions_at_one_place_keep_their_order() -> None:
    assert made(2, "1-1=x 1-1=y 1-1=z").apply(b"ab") == b"axyzb"
    assert made(2, "1-2=b 1-1=x").apply(b"ab") == b"axb"


@each_row(
    "spelled",
    ["0-3=x 2-4=y", "0-3=x 1-1=y", "0-9=x 3-3=y", "0-3=x 0-3=x", "0-10=", "10-10=x", "5-4=x"],
)
def test_no_overlap_and_nothing_outside(spelled: str) -> None:
    with pytest.raises(ValueError, match=r"overlap|outside"):
        made(9, spelled)


@pytest.mark.parametrize("text", [b"", b"x" * 8, b"x" * 10])
def test_only_for_its_own_text(text: bytes) -> None:
    change = made(9, "1-2=x")
    for act in (change.apply, change.invert):
        with pytest.raises(ValueError, match="made for 9"):
            act(text)
    with pytest.raises(ValueError, match="made for 9"):
        change.rebase(ChangeSet.of(len(text), []))


@each_row("mine theirs expected", [
    ("3-4=x", "", "3 1:1 5"),
    ("3-4=x", "0-0=ab", "5 1:1 5"),
    ("3-4=x", "0-2=", "1 1:1 5"),
    ("3-4=x", "7-9=abc", "3 1:1 6"),
    # spans that only touch
    ("3-4=x", "4-6=", "3 1:1 3"),
    ("3-4=x", "1-3=", "1 1:1 5"),
    ("3-3=x", "3-5=", "3 0:1 4"),
    ("5-5=x", "3-5=", "3 0:1 4"),
    ("3-5=x", "3-3=ab", "5 2:1 4"),
    ("3-5=x", "5-5=ab", "3 2:1 6"),
    # theirs removes what kept two of mine apart
    ("3-3=x 5-5=y", "3-5=", "3 0:2 4"),
    # collisions
    ("3-5=x", "4-6=y", None),
    ("3-5=x", "3-5=x", None),
    ("3-3=x", "3-3=y", None),
    ("4-4=x", "3-5=y", None),
    ("3-5=x", "4-4=y", None),
    ("0-1=x 4-4=x", "8-9=z 4-4=y", None),
])  # fmt: skip
def test_rebase(mine: str, theirs: str, expected: str | None) -> None:
    found = made(9, mine).rebase(made(9, theirs))
    back = made(9, theirs).rebase(made(9, mine))
    assert (None if isinstance(found, Collision) else str(found)) == expected
    assert isinstance(found, Collision) == isinstance(back, Collision)


def test_a_collision_names_the_two_that_meet() -> None:
    found = made(9, "0-1=x 4-5=p").rebase(made(9, "2-3=z 4-6=q"))
    assert found == Collision(Edit(4, 5, b"p"), Edit(4, 6, b"q"))


@each_row("first later expected", [
    ("", "", "9"),
    ("3-4=x", "", "3 1:1 5"),
    ("", "3-4=x", "3 1:1 5"),
    # what was put in is replaced, in part or with more
    ("3-3=abc", "4-5=", "3 0:2 6"),
    ("3-5=abc", "3-6=x", "3 2:1 4"),
    ("3-5=abc", "2-7=x", "2 4:1 3"),
    ("3-3=abc", "3-6=", "9"),
    # apart, touching
    ("1-2=", "6-7=yy", "1 1:0 5 1:2 1"),
    ("6-7=yy", "1-2=", "1 1:0 4 1:2 2"),
    ("3-5=", "3-4=x", "3 3:1 3"),
    ("3-4=x", "3-3=y", "3 1:2 5"),
    ("0-9=", "0-0=xyz", "9:3"),
    ("0-0=a 9-9=b", "0-11=", "9:0"),
])  # fmt: skip
def test_one_after_the_other_is_one(first: str, later: str, expected: str) -> None:
    one = made(9, first)
    assert str(one.then(made(one.new_length, later))) == expected


def test_a_later_change_is_of_the_text_after() -> None:
    with pytest.raises(ValueError, match="made for 9"):
        made(9, "0-0=x").then(made(9, ""))


@pytest.mark.slow
@given(ones.flatmap(lambda case: st.tuples(st.just(case), changes(case[1].apply(case[0])))))
def test_both_are_one_after_the_other(case: tuple[tuple[bytes, ChangeSet], ChangeSet]) -> None:
    (data, first), later = case
    both = first.then(later)
    assert both.apply(data) == later.apply(first.apply(data))
    assert both == ChangeSet.of(len(data), both.edits)
    assert first.then(first.invert(data)).apply(data) == data


@given(ones)
def test_edits_are_apart_and_in_order_and_taken_back(case: tuple[bytes, ChangeSet]) -> None:
    data, change = case
    assert change == ChangeSet.of(len(data), reversed(change.edits))
    for one, other in zip(change.edits, change.edits[1:], strict=False):
        assert one.stop < other.start
    assert all(e.start < e.stop or e.new for e in change.edits)
    after, back = change.apply(data), change.invert(data)
    assert len(after) == change.new_length
    assert b"".join(change.pieces(data)) == after
    assert back.apply(after) == data
    assert back.invert(after) == change


@given(pairs)
def test_those_that_do_not_collide_converge(case: tuple[bytes, ChangeSet, ChangeSet]) -> None:
    """A rebased set replaces the same bytes."""
    data, a, b = case
    mine, theirs = a.rebase(b), b.rebase(a)
    if isinstance(mine, Collision) or isinstance(theirs, Collision):
        assert isinstance(mine, Collision)
        assert isinstance(theirs, Collision)
        assert mine.mine in a.edits
        assert mine.theirs in b.edits
        return
    now = b.apply(data)
    assert mine.apply(now) == theirs.apply(a.apply(data))
    replaced = b"".join(data[e.start : e.stop] for e in a.edits)
    assert b"".join(now[e.start : e.stop] for e in mine.edits) == replaced
    assert b"".join(e.new for e in mine.edits) == b"".join(e.new for e in a.edits)
