"""Laws of changes of blocks in files, and of knowing blocks again, on texts that make trouble."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.errors import InvalidArgs
from copydesk.notes.folder.blocks import (
    Fingerprint,
    FolderDocument,
    fingerprints,
    identify,
    in_order,
    read,
    with_past,
)
from copydesk.notes.folder.documents import SidecarChange
from copydesk.notes.folder.edit import WorkingDocument, traces
from copydesk.notes.markdown import Block, Profile, parse
from copydesk.notes.protocol import BlockNotFound
from copydesk.store.protocol import Stamp
from copydesk.text.relpath import RelPath
from support.markdown_texts import NEWLINES, Choice, Drawn, Rolled, anything, documents

STAMP = Stamp(0, 0, 0, 0, 0, 0, 0)


def maker() -> Callable[[], str]:
    numbers = count()
    return lambda: f"20260101000000-{next(numbers):07d}"


def document_of(text: str, fresh: Callable[[], str], profile: Profile = "gfm") -> FolderDocument:
    """A document whose changes are parsed in windows as small as may be."""
    data = text.encode()
    tree = read(data, profile)
    rows = identify((), fingerprints(tree, tree.root), (), lambda at: fresh(), _no)
    order = tuple(block for _, block in in_order(tree.root))
    return FolderDocument(RelPath(("a.md",)), STAMP, "", data, tree, rows, order)


TEXTS = (
    "word", "# Head", "- item", "1. one\n2. two", "> quote\n>\n> more", "```\ncode\n\n\ncode\n```",
    "two\n\nblocks", "- a\n\n  b\n- c", "|a|b|\n|-|-|\n|c|d|", "---", "<div>\nx\n</div>", "    code",
    "word ^mark", "* other", "[a]: b", "$$\nx\n$$", "```\nopen",
)  # fmt: skip


def changed(working: WorkingDocument, block_id: str, op: str, text: str) -> None:
    """One change, as the trial would ask for it."""
    region, block = working.block(block_id)
    tops = parse(text, working.document.tree.profile, part=True).root.children
    kinds = [top.kind for top in tops]
    if op == "delete":
        working.delete(region, block)
    elif op == "update":
        new = text if len(tops) == 1 else "word"
        kind = "p" if new == "word" else kinds[0]
        working.update(region, block, new, "i" if block.kind == "i" else kind)
    elif op in ("first_in", "last_in") and block.holds_blocks and block.kind != "l":
        working.insert(region, block, "first_in" if op == "first_in" else "last_in", text, kinds)
    elif block.kind != "i" or tops[0].kind == "l":
        where = "before" if op in ("before", "first_in") else "after"
        items = ["i" for top in tops for _ in top.children]
        if block.kind != "i" or all(top.kind == "l" for top in tops):
            working.insert(region, block, where, text, items if block.kind == "i" else kinds)


@pytest.mark.parametrize("profile", ["gfm", "siyuan"])
@given(st.one_of(documents(), anything), st.data())
@pytest.mark.slow
def test_what_changes_leave_is_what_the_whole_text_is(
    profile: Profile, text: str, data: st.DataObject
) -> None:
    fresh = maker()
    document = document_of(text, fresh, profile)
    working = WorkingDocument(document, fresh)
    ids = [row.id for row in document.rows[1:]]
    for _ in range(data.draw(st.integers(1, 5))):
        block_id = data.draw(st.sampled_from(ids))
        op = data.draw(
            st.sampled_from(("update", "delete", "before", "after", "first_in", "last_in"))
        )
        try:
            changed(working, block_id, op, data.draw(st.sampled_from(TEXTS)))
        except (InvalidArgs, BlockNotFound):
            continue
    step = SidecarChange("a", "b", working.splices())
    rows = step.take(document.rows)
    assert rows is not None
    result = working.change.apply(document.data)
    tree = read(result, profile)
    made = [sign.with_id("")[:4] for sign in fingerprints(tree, tree.root)]
    assert [row._replace(id="")[:4] for row in rows] == made
    assert len({row.id for row in rows}) == len(rows)
    assert step.back().take(rows) == document.rows
    after = working.successor(STAMP, "b", result, rows)
    assert after is not None or result == document.data
    if after is not None:  # made of the blocks of the one before
        assert facts(after.order) == facts([block for _, block in in_order(tree.root)])
        assert after.tree.newline == tree.newline
        assert working.successor(STAMP, "b", result, rows) is None, "its blocks are taken"


def test_what_is_left_of_the_last_block_may_not_read_as_another() -> None:
    working = WorkingDocument(document_of("- -", maker(), "siyuan"), maker())
    inner = working.document.rows[4]
    assert (inner.kind, inner.depth) == ("l", 3)
    with pytest.raises(InvalidArgs):
        changed(working, inner.id, "delete", "")


PARTS = (
    *TEXTS,
    "- a\n- b\n  - c\n\n    d\n- e", "1. x\n   ```\n   y\n   ```\n2. z", "7) seven", "+ plus\n",
    "| a | b |\n|---|---|\n| 1 | 2 |", "text\n| a |\n|---|", "~~~ py\n# no head\n~~~",
    "<script>\nx\n\ny\n</script>", "<!-- a\n\nb -->", "<b>\nbold", "> a\nlazy\n> > b", "> - q",
    "Head\n===", "two\nlines\n---", "[a]: /x\n[b]: /y 't'\nafter", "[^1]: note\n\n    more",
    'word\n{: id="20260101120000-aaaaaaa"}', '- {: id="20260101120000-bbbbbbb"}item', "^alone",
    'word\n{: id="a"}\n{: id="b"}', "- [ ] task\n- [x] done", "    indented\n\n    code", "\ufeffx",
    "-", "...", "para ^p1\n^p2", "# h ^h1", "\u6f22\u5b57", "<div>", "$$\nopen",
)  # fmt: skip
FRONTS = ("", "", "", "---\ntitle: t\n---\n", "---\nid: f\n...\n\n", "---\n\nx\n\n", "\ufeff")
JOINTS = ("\n\n", "\n\n", "\n\n", "\n", "\n\n\n", "\n \n")
OPS = ("update", "update", "delete", "delete", "before", "after", "first_in", "last_in", "start")


def a_note(choice: Choice) -> str:
    """A text of many blocks at its top, most of them apart."""
    text = choice.of(FRONTS)
    for _ in range(choice.number(1, 12)):
        text += choice.of(PARTS) + choice.of(JOINTS)
    return (text.rstrip("\n") if choice.number(0, 1) else text).replace("\n", choice.of(NEWLINES))


def outcome(working: WorkingDocument, at: int, op: str, text: str) -> str:
    """What comes of one change of the block at this place: a refusal, or nothing."""
    try:
        if op == "start":
            window, root = working.end(last=bool(at % 2))
            kinds = [top.kind for top in parse(text, part=True).root.children]
            working.insert(window, root, "last_in" if at % 2 else "first_in", text, kinds)
        else:
            changed(working, working.document.rows[at].id, op, text)
        if working.fronts(working.change.apply(working.document.data)):
            raise InvalidArgs("markdown", "front matter")
    except (InvalidArgs, BlockNotFound) as refusal:
        return refusal.code
    return ""


def check_windows(choice: Choice) -> None:
    """Changes of windows have the effect that they have if all of the text is parsed each time.

    Each version is built of the blocks of the one before, and is what parsing its text makes.
    """
    document = document_of(a_note(choice), maker())
    for version in range(3):
        others = FolderDocument(
            document.path, STAMP, "", document.data, read(document.data, "gfm"), document.rows, ()
        )
        others.order = tuple(block for _, block in in_order(others.tree.root))
        others.parses_in_windows = False
        windowed = WorkingDocument(document, numbered(version))
        whole = WorkingDocument(others, numbered(version))
        for _ in range(choice.number(1, 3)):
            at = choice.number(1, len(document.rows) - 1)
            op, text = choice.of(OPS), choice.of(PARTS)
            told, wanted = outcome(windowed, at, op, text), outcome(whole, at, op, text)
            assert told == wanted, (document.data, at, op, text)
            if told:  # the call ends here
                return
        result = windowed.change.apply(document.data)
        assert result == whole.change.apply(document.data)
        rows = SidecarChange("a", "b", windowed.splices()).take(document.rows)
        assert rows is not None
        steps = SidecarChange("a", "b", whole.splices())
        assert rows == steps.take(document.rows)
        assert len({row.id for row in rows}) == len(rows)
        tree = read(result, "gfm")
        assert [row._replace(id="") for row in rows] == fingerprints(tree, tree.root)
        after = windowed.successor(STAMP, "b", result, rows)
        if after is not None:
            order = [block for _, block in in_order(tree.root)]
            assert facts(after.order) == facts(order), (document.data, result)
            document = after


def numbered(version: int) -> Callable[[], str]:
    numbers = count()
    return lambda: f"2026010100000{version + 1}-{next(numbers):07d}"


@pytest.mark.parametrize("seed", range(0, 40, 2))
def test_windows_are_changed_as_the_whole_would_be(seed: int) -> None:
    for number in range(5):
        check_windows(Rolled(1000 * seed + number))


@pytest.mark.slow
@given(st.data())
def test_windows_of_any_note_are_changed_as_the_whole_would_be(data: st.DataObject) -> None:
    data.draw(st.composite(lambda draw: check_windows(Drawn(draw)))())


@pytest.mark.slow
def test_windows_of_many_notes_are_changed_as_the_whole_would_be() -> None:
    for seed in range(2_000):
        check_windows(Rolled(seed))


def test_an_id_that_two_texts_bring_is_had_once() -> None:
    check_windows(Rolled(3983))


def facts(order: Sequence[Block]) -> list[tuple[object, ...]]:
    """All there is to know of blocks; of other blocks their places."""
    places = {id(each): at for at, each in enumerate(order)}
    return [
        (
            block.kind, block.subtype, block.start, block.stop, block.first, block.column,
            block.index, block.attributes, block.anchor, block.indent, block.width, block.mark,
            block.closed, block.loose, places.get(id(block.parent)),
            [places.get(id(child)) for child in block.children],
        )
        for block in order
    ]  # fmt: skip


BESIDE: dict[str, tuple[str, list[tuple[str, str, str]], str]] = {
    "before the first of a part": ("x\n# p\n\na\n\nb\n",
        [("a", "update", "A"), ("# p", "before", "n")], "x\n\nn\n\n# p\n\nA\n\nb\n"),
    "after the last of a part": ("a\n\nb\n\n# p\nx\n\ny\n",
        [("b", "update", "B"), ("# p", "update", "n")], "a\n\nB\n\nn\n\nx\n\ny\n"),
    "gone, and gone beside it": ("a\n# b\n# c\nd\n\ne\n",
        [("# b", "delete", ""), ("# c", "delete", "")], "a\n\nd\n\ne\n"),
    "parts that meet": ("a\n\nb\n\nc\n\nd\n\ne\n\nf\n\ng\n",
        [("b", "update", "B"), ("f", "update", "F"), ("d", "delete", ""), ("c", "after", "n")],
        "a\n\nB\n\nc\n\nn\n\ne\n\nF\n\ng\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", BESIDE)
def test_parts_of_a_text_are_changed_as_the_whole_would_be(name: str) -> None:
    before, ops, after = BESIDE[name]
    fresh = maker()
    document = document_of(before, fresh)
    ids = {
        document.tree.source(block).decode(): row.id
        for block, row in zip(document.order, document.rows, strict=True)
    }
    working = WorkingDocument(document, fresh)
    for text, op, new in ops:
        changed(working, ids[text], op, new)
    assert working.change.apply(document.data).decode() == after


def test_blocks_of_other_texts_are_others() -> None:
    one, other = read(b"a\n\n- b", "gfm"), read(b"a\n\n- c", "gfm")
    again = read(b"b\n\na\n\n- b", "gfm")
    below = traces(one, in_order(one.root)[1:])
    assert below == traces(again, in_order(again.root)[2:])
    assert below != traces(other, in_order(other.root)[1:])


@pytest.mark.slow
@given(st.one_of(documents(), anything), st.one_of(documents(), anything))
def test_blocks_are_known_again_once_each(old: str, new: str) -> None:
    fresh = maker()
    before = document_of(old, fresh).rows
    tree = read(new.encode(), "gfm")
    known = identify(
        before, fingerprints(tree, tree.root), (), lambda at: fresh(), lambda one: False
    )
    ids = [row.id for row in known]
    assert len(set(ids)) == len(ids)
    past = with_past((), before, known)
    lost = {row.id for row in before} - set(ids)
    assert lost <= {each.id for each in past}
    back = identify(known, [_sign(row) for row in before], past, lambda at: fresh(), _no)
    assert len({row.id for row in back}) == len(back)


def _no(block_id: str) -> bool:
    return False


def _sign(row: Fingerprint) -> Fingerprint:
    return row.with_id("")


@given(st.one_of(documents(), anything))
def test_the_same_text_has_the_same_ids(text: str) -> None:
    fresh = maker()
    before = document_of(text, fresh).rows
    known = identify(before, [_sign(row) for row in before], (), lambda at: fresh(), _no)
    assert known == before


@pytest.mark.slow
@given(st.one_of(documents(), anything), st.one_of(documents(), anything))
def test_what_comes_before_costs_no_id(text: str, first: str) -> None:
    fresh = maker()
    tree = read(text.encode(), "gfm", part=True)
    rows = identify((), fingerprints(tree, tree.root), (), lambda at: fresh(), _no)
    both = read(f"{first}\n\n<!-- -->\n\n{text}".encode(), "gfm", part=True)
    known = identify(rows, fingerprints(both, both.root), (), lambda at: fresh(), _no)
    ids = {row.id for row in known}
    lost = Counter((row.kind, row.hash) for row in rows if row.id not in ids)
    before = Counter((row.kind, row.hash) for row in rows)
    after = Counter((row.kind, row.hash) for row in known)
    for key, times in lost.items():  # what comes before may take blocks in, as open code does
        assert times <= max(before[key] - after[key], 0)


def test_a_block_stands_for_nothing_only_where_there_is_none() -> None:
    for text in ("", "-", "- a\n-", "---\na: b\n---", "> -", "\ufeff"):
        tree = read(text.encode(), "gfm")
        empty = [block for _, block in in_order(tree.root) if _is_nothing(block)]
        assert len(empty) == 1
        assert empty[0].parent is not None


def _is_nothing(block: Block) -> bool:
    return block.kind == "p" and block.start == block.stop
