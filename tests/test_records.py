"""Plans and changes survive being written down."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.desk.records import packed, unpacked
from copydesk.edit.place import Place
from copydesk.edit.plan import Plan
from copydesk.edit.request import Anchor, Append, BlockReplace, Insert, RangeEdit
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.relpath import RelPath

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
LINE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\n"), min_size=1)
PATH = st.lists(LINE.map(lambda s: s.replace("/", "_")), max_size=4).map(
    lambda p: RelPath(tuple(p))
)
NUMBER = st.integers(-1, 1 << 40)
OCCURRENCE = st.none() | st.just("last") | st.integers(1, 1 << 30)
DIGEST = st.binary(min_size=32, max_size=32).map(bytes.hex)


def anchor(argument: str) -> st.SearchStrategy[Anchor]:
    return st.builds(Anchor, LINE, st.sampled_from(["contains", "equals"]), st.just(argument))


REQUEST = st.one_of(
    st.builds(RangeEdit, PATH, TEXT, TEXT),
    st.builds(Append, PATH, TEXT, st.booleans()),
    st.builds(
        Insert, PATH, anchor("anchor"), TEXT, st.sampled_from(["after", "before"]), OCCURRENCE
    ),
    st.builds(
        BlockReplace,
        PATH,
        anchor("start_anchor"),
        anchor("end_anchor"),
        TEXT,
        OCCURRENCE,
        st.booleans(),
        st.booleans(),
        st.booleans(),
    ),
)
PLACE = st.builds(
    Place,
    NUMBER,
    NUMBER,
    st.none() | st.tuples(NUMBER, NUMBER),
    NUMBER,
    NUMBER,
    st.booleans(),
)
PLAN = st.builds(
    Plan,
    id=st.from_regex(r"[0-9a-f]{8}", fullmatch=True),
    owner=TEXT,
    toolset=st.sampled_from(["ws_mod", "team_mgmt"]),
    tool=TEXT,
    request=REQUEST,
    place=PLACE,
    action=st.sampled_from(["replace", "delete", "append", "insert", "block_replace"]),
    base_digest=st.none() | DIGEST,
    diff_digest=DIGEST,
    created_ms=NUMBER,
    expires_ms=NUMBER,
)
EDIT = st.builds(Edit, NUMBER, NUMBER, st.binary())
CHANGE = st.builds(ChangeSet, NUMBER, st.lists(EDIT, max_size=5).map(tuple))


def check(value: object) -> None:
    """The law: what is unpacked equals what was packed, and has its types."""
    again = unpacked(packed(value))
    assert again == value
    assert repr(again) == repr(value)
    assert hash(again) == hash(value)


@given(PLAN)
def test_a_plan_comes_back(plan: Plan) -> None:
    check(plan)


@given(CHANGE)
def test_a_change_comes_back(change: ChangeSet) -> None:
    check(change)


@given(REQUEST | PLACE | PATH | EDIT)
def test_the_parts_come_back(part: object) -> None:
    check(part)


@given(PLAN, st.data())
def test_what_is_cut_is_not_taken_for_a_plan(plan: Plan, data: st.DataObject) -> None:
    whole = packed(plan)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(ValueError, match=r".*"):
        unpacked(whole[:cut])


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(KeyError):
        unpacked(msgpack.packb(("Nonesuch", 1)))
