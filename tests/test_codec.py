"""Plans and changes survive being written down."""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.desk.backends.api import SCHEMA, RecordError, compress, decode, decompress, encode
from copydesk.edit.draft import Plan
from copydesk.edit.request import Anchor, Append, BlockReplace, Insert, Place, RangeEdit
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
        *(BlockReplace, PATH, anchor("start_anchor"), anchor("end_anchor"), TEXT, OCCURRENCE),
        *(st.booleans(), st.booleans(), st.booleans()),
    ),
)
FOOT = st.none() | st.tuples(NUMBER, NUMBER)
PLACE = st.builds(Place, NUMBER, NUMBER, FOOT, NUMBER, NUMBER, st.booleans())
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


@pytest.fixture
def plan() -> Plan:
    return Plan(
        *("0123abcd", "ann", "ws_mod", "prepare_file_append"),
        Append(RelPath(("a.txt",)), "one\n", True),
        Place(1, 1, None, 1, 1, False),
        *("append", "00" * 32, "11" * 32, 1, 2),
        edited_by="bob",
    )


def check_round_trip(value: object) -> None:
    """The law: what is unpacked equals what was packed, and has its types."""
    again = decode(encode(value))
    assert again == value
    assert repr(again) == repr(value)
    assert hash(again) == hash(value)


@pytest.mark.slow
@given(PLAN)
def test_a_plan_comes_back(plan: Plan) -> None:
    check_round_trip(plan)


@given(CHANGE | REQUEST | PLACE | PATH | EDIT)
def test_changes_and_parts_come_back(part: object) -> None:
    check_round_trip(part)


def flipped(data: st.DataObject, whole: bytes) -> bytes:
    """One bit is another one."""
    bit = data.draw(st.integers(0, 8 * len(whole) - 1))
    damaged = bytearray(whole)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


@given(PLAN, st.data())
def test_what_is_cut_or_flipped_is_never_another_plan(plan: Plan, data: st.DataObject) -> None:
    whole = encode(plan)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(ValueError, match=r".*"):
        decode(whole[:cut])
    with pytest.raises(RecordError):
        decode(flipped(data, whole))


@given(st.binary(max_size=10_000), st.data())
def test_what_is_squeezed_comes_back_or_is_refused(text: bytes, data: st.DataObject) -> None:
    kept = compress(text)
    assert decompress(kept) == text
    with pytest.raises(RecordError):
        decompress(flipped(data, kept))


def record(schema: int, used: dict[str, list[str]], value: object) -> bytes:
    """A record as any build writes it, made by hand."""
    pack: Any = msgpack.packb
    body: bytes = pack([schema, used, value])
    return zlib.crc32(body).to_bytes(4, "big") + body


def test_a_build_that_knows_more_fields_is_read(plan: Plan) -> None:
    _, used, value = msgpack.unpackb(encode(plan)[4:])
    assert used["Plan"][0] == "id"
    used["Plan"].insert(1, "colour")
    value.insert(2, "red")
    used["RelPath"].append("more")
    value[value.index(next(v for v in value if v and v[0] == "Append"))][1].append([None, 7])
    assert decode(record(SCHEMA, used, value)) == plan


def test_a_build_that_knows_fewer_fields_is_read(plan: Plan) -> None:
    _, used, value = msgpack.unpackb(encode(plan)[4:])
    at = used["Plan"].index("edited_by")
    del used["Plan"][at], value[at + 1]
    assert decode(record(SCHEMA, used, value)) == replace(plan, edited_by="")
    at = used["Plan"].index("owner")
    del used["Plan"][at], value[at + 1]
    with pytest.raises(RecordError, match="owner of Plan"):
        decode(record(SCHEMA, used, value))


def test_fields_in_another_order_are_read(plan: Plan) -> None:
    _, used, value = msgpack.unpackb(encode(plan)[4:])
    used["Plan"].reverse()
    value[1:] = value[:0:-1]
    assert decode(record(SCHEMA, used, value)) == plan


def test_another_schema_and_another_kind_are_refused(plan: Plan) -> None:
    _, used, value = msgpack.unpackb(encode(plan)[4:])
    with pytest.raises(RecordError, match=f"schema {SCHEMA + 1}; this build reads schema {SCHEMA}"):
        decode(record(SCHEMA + 1, used, value))
    with pytest.raises(RecordError, match="Nonesuch"):
        decode(record(SCHEMA, {"Nonesuch": ["a"]}, ["Nonesuch", 1]))
    with pytest.raises(RecordError):
        decode(msgpack.packb(["Plan", "a", "b"]))  # as 0.1 kept it, by position
