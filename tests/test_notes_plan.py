"""What block diffs become; every plan is done by a dumb model, one by one, and undone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from copydesk.notes.grammar import Action, BlockDiffRefused, BlockHunk, Problem, parse_block_diff
from copydesk.notes.plan import BlockPlan, BlockTree, as_item, heading_level, plan_blocks
from copydesk.notes.protocol import Delete, InsertText, Update
from support.cost import bounded, check_linear
from support.note_model import Model, Spec, known, split
from support.rows import each_row

S, D, R = "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE"
DOC: Spec = (
    "doc",
    "d",
    "",
    [("h1", "h", "# One", []), ("p1", "p", "first", []), ("h2", "h", "## Two", []),
        ("p2", "p", "second", []),
        ("l1", "l", "", [("i1", "i", "- a", [("ip", "p", "a", [])]), ("i2", "i", "- b", [])]),
        ("h3", "h", "# Three", []),
        ("b1", "b", "", [("q1", "p", "quoted", []), ("q2", "p", "more", [])]),
        ("c1", "c", "```\ncode\n```", [])],
)  # fmt: skip
BASE = "# One | first | ## Two | second | l(- a, - b) | # Three | b(quoted, more) | ```/code/```"


def edit(block_id: str, search: str, text: str) -> str:
    return f"@@{block_id}@@\n{S}\n{search}\n{D}\n{text}\n{R}"


def planned(diff: str, *, strict: bool = True) -> BlockPlan:
    return plan_blocks(parse_block_diff(diff), Model.of(DOC).tree, split, strict=strict)


def done(spec: Spec, found: BlockPlan) -> Model:
    """The document after a plan; it is as before when all is taken back."""
    model = Model.of(spec)
    before = model.shape()
    backs = [model.do(operation) for operation in found.operations]
    after = model.shape()
    for back in reversed(backs):
        back()
    assert model.shape() == before
    again = Model.of(spec)
    for operation in found.operations:
        again.do(operation)
    assert again.shape() == after
    return again


def check_document(diff: str, expected: str) -> None:
    """After the diff the document is this."""
    assert done(DOC, planned(diff)).shape() == expected


def base(old: str, new: str) -> str:
    assert BASE.count(old) == 1
    return BASE.replace(old, new)


@each_row("diff expected", [
    # the operations of the table
    (edit("p1", "first", "new"), base("first", "new")),
    (edit("p1", "\nfirst\n\n", "\n  new \n"), base("first", "  new ")),
    (edit("p1", "first", ""), base("first | ", "")),
    ("@@DELETE:p1@@", base("first | ", "")),
    ("@@REPLACE:p1@@\nnew", base("first", "new")),
    ("@@BEFORE:p1@@\nnew", base("first", "new | first")),
    ("@@AFTER:p1@@\nnew", base("first", "first | new")),
    ("@@PREPEND:b1@@\nnew", base("quoted", "new, quoted")),
    ("@@APPEND:b1@@\nnew", base("more", "more, new")),
    ("@@PREPEND:doc@@\nnew", f"new | {BASE}"),
    ("@@APPEND:doc@@\nnew", f"{BASE} | new"),
    ("@@BEFORE:h1@@\nnew", f"new | {BASE}"),
    ("@@AFTER:c1@@\nnew", f"{BASE} | new"),
    # text of several blocks
    (edit("p1", "first", "a\n\nb\n\n- c\n- d"), base("first", "a | b | - c/- d")),
    ("@@REPLACE:p1@@\nfirst\n\nb", base("first", "first | b")),
    ("@@AFTER:p1@@\na\n\nb", base("first", "first | a | b")),
    # headings: the line, and the section
    ("@@DELETE:h2@@", base("## Two | ", "")),
    ("@@AFTER:h2@@\nnew", base("## Two", "## Two | new")),
    ("@@PREPEND:h2@@\nnew", base("## Two", "## Two | new")),
    ("@@APPEND:h2@@\nnew", base("l(- a, - b)", "l(- a, - b) | new")),
    ("@@APPEND:h1@@\nnew", base("l(- a, - b)", "l(- a, - b) | new")),
    ("@@APPEND:h3@@\nnew", f"{BASE} | new"),
    ("@@APPEND:h2@@\nx\n@@APPEND:h1@@\ny", base("- b)", "- b) | x | y")),
    ("@@APPEND:h1@@\n# X\n@@APPEND:h1@@\ny\n@@APPEND:h2@@\nz", base("- b)", "- b) | z | # X | y")),
    ("@@DELETE:h3@@\n@@APPEND:h1@@\nx",
        base("# Three | ", "").replace("```/code/```", "```/code/``` | x")),
    ("@@BEFORE:h3@@\nx\n@@APPEND:h1@@\ny", base("- b)", "- b) | x | y")),
    ("@@AFTER:p1@@\n# X\n\nx\n@@APPEND:h1@@\ny", base("first", "first | y | # X | x")),
    ("@@PREPEND:h1@@\nx\n@@AFTER:h1@@\ny", base("# One", "# One | x | y")),
    # lists take items
    ("@@AFTER:i1@@\n- x", base("- a", "- a, - x")),
    ("@@APPEND:l1@@\n- x\n  more\n- y", base("- b", "- b, - x/  more, - y")),
    ("@@PREPEND:l1@@\n- x", base("- a", "- x, - a")),
    (edit("i1", "- a", "- x\n- y\n- z"), base("- a", "- x, - y, - z")),
    ("@@AFTER:l1@@\n- x", base("l(- a, - b)", "l(- a, - b) | - x")),
    ("@@DELETE:i1@@", base("- a, ", "")),
    ("@@DELETE:i2@@\n@@DELETE:i1@@", base("l(- a, - b) | ", "")),
    ("@@DELETE:l1@@", base("l(- a, - b) | ", "")),
    ("@@DELETE:i2@@\n@@DELETE:i1@@\n@@APPEND:l1@@\n- x", base("- a, - b", "- x")),
    ("@@DELETE:i2@@\n@@AFTER:l1@@\nx\n@@DELETE:i1@@", base("l(- a, - b)", "x")),
    # containers as a whole
    ("@@REPLACE:l1@@\ntext", base("l(- a, - b)", "text")),
    (edit("b1", "> quoted\n>\n> more", "> other"), base("b(quoted, more)", "> other")),
    (edit("l1", "- a\n- b", "- a\n- b\n- c"), base("l(- a, - b)", "- a/- b/- c")),
    # several hunks beside one block
    ("@@AFTER:p1@@\nx\n@@AFTER:p1@@\ny\n@@AFTER:p1@@\nz", base("first", "first | x | y | z")),
    (edit("p1", "first", "new") + "\n@@AFTER:p1@@\nx", base("first", "new | x")),
    ("@@BEFORE:p1@@\nx\n@@REPLACE:p1@@\na\n\nb\n@@AFTER:p1@@\ny", base("first", "x | a | b | y")),
    ("@@AFTER:p1@@\ny\n@@REPLACE:p1@@\na\n\nb\n@@AFTER:p1@@\nz", base("first", "a | b | y | z")),
    ("@@AFTER:p1@@\nx\n@@BEFORE:h2@@\ny\n@@AFTER:p1@@\nz", base("first", "first | x | z | y")),
    ("@@BEFORE:h2@@\ny\n@@AFTER:p1@@\nx\n@@BEFORE:h2@@\nz", base("first", "first | x | y | z")),
    ("@@AFTER:p1@@\nx\n@@BEFORE:p1@@\ny\n@@DELETE:p1@@", base("first", "y | x")),
    ("@@AFTER:p1@@\nx\n@@DELETE:h2@@\n@@BEFORE:p2@@\ny", base("## Two", "x | y")),
    ("@@DELETE:p1@@\n@@BEFORE:h2@@\nx\n@@AFTER:h1@@\ny", base("first", "y | x")),
    ("@@AFTER:q2@@\nx\n@@APPEND:b1@@\ny\n@@AFTER:q2@@\nz", base("more", "more, x, z, y")),
    ("@@AFTER:b1@@\nx\n@@APPEND:b1@@\ny", base("more)", "more, y) | x")),
    ("@@DELETE:q1@@\n@@DELETE:q2@@\n@@APPEND:b1@@\nx", base("quoted, more", "x")),
    # nothing to do
    ("@@REPLACE:p1@@\nfirst", BASE),
])  # fmt: skip
def test_what_a_diff_makes(diff: str, expected: str) -> None:
    check_document(diff, expected)


def move(block_id: str, place: str) -> str:
    return f"@@MOVE:{block_id}@@\n@@{place}@@"


TAIL = "l(- a, - b) | # Three | b(quoted, more) | ```/code/```"


@each_row("diff expected", [
    # beside, at the ends of a container, into another one
    (move("p1", "AFTER:p2"), f"# One | ## Two | second | first | {TAIL}"),
    (move("c1", "BEFORE:h1"), "```/code/``` | " + BASE.removesuffix(" | ```/code/```")),
    (move("p1", "APPEND:doc"), f"{BASE.replace('first | ', '')} | first"),
    (move("c1", "PREPEND:b1"), base("quoted", "```/code/```, quoted").rpartition(" | ")[0]),
    (move("q2", "AFTER:p1"), base("first", "first | more").replace("(quoted, more)", "(quoted)")),
    (move("p1", "APPEND:b1"), base("more", "more, first").replace("first | ", "", 1)),
    (move("i2", "BEFORE:i1"), base("- a, - b", "- b, - a")),
    (move("i1", "APPEND:l1"), base("- a, - b", "- b, - a")),
    # where it is already
    (move("p1", "AFTER:h1"), BASE),
    (move("p2", "BEFORE:l1"), BASE),
    # a heading takes its section along, and goes after the section of another heading
    (move("h2", "BEFORE:p1"), f"# One | ## Two | second | l(- a, - b) | first | {TAIL[14:]}"),
    (move("h1", "AFTER:h3"),
        "# Three | b(quoted, more) | ```/code/``` | # One | first | ## Two | second | l(- a, - b)"),
    (move("h2", "APPEND:h3"),
        "# One | first | # Three | b(quoted, more) | ```/code/``` | ## Two | second | l(- a, - b)"),
    (move("p1", "APPEND:h2"), f"# One | ## Two | second | l(- a, - b) | first | {TAIL[14:]}"),
    (move("p1", "PREPEND:h3"), base("# Three", "# Three | first").replace("first | ", "", 1)),
    # with other hunks
    (f"@@REPLACE:p1@@\nnew\n{move('p1', 'AFTER:p2')}", f"# One | ## Two | second | new | {TAIL}"),
    (f"@@AFTER:p2@@\nx\n{move('p1', 'AFTER:p2')}\n@@AFTER:p2@@\ny",
        f"# One | ## Two | second | x | first | y | {TAIL}"),
    (f"{move('p1', 'AFTER:p2')}\n@@AFTER:p1@@\nx\n@@BEFORE:p1@@\ny",
        f"# One | ## Two | second | y | first | x | {TAIL}"),
    (f"{move('p1', 'AFTER:p2')}\n{move('c1', 'AFTER:p1')}",
        f"# One | ## Two | second | first | ```/code/``` | {TAIL.rpartition(' | ')[0]}"),
    (
        f"@@APPEND:h2@@\nx\n{move('h2', 'APPEND:doc')}\n@@APPEND:h2@@\ny",
        "# One | first | # Three | b(quoted, more) | ```/code/``` | ## Two | second"
        " | l(- a, - b) | x | y",
    ),
    (f"@@DELETE:p2@@\n{move('h2', 'BEFORE:h1')}",
        "## Two | l(- a, - b) | # One | first | # Three | b(quoted, more) | ```/code/```"),
    (f"{move('i1', 'AFTER:i2')}\n@@DELETE:i2@@", base("- a, - b", "- a")),
    (f"{move('q1', 'AFTER:p1')}\n@@DELETE:b1@@", None),
])  # fmt: skip
def test_what_a_move_makes(diff: str, expected: str | None) -> None:
    if expected is None:
        assert [one.code for one in problems(diff)] == ["CONFLICTING_HUNKS"]
    else:
        check_document(diff, expected)


TASKS: Spec = (
    "doc",
    "d",
    "",
    [("l1", "l", "",
        [("i1", "i", "- [ ] order lamps\n  of glass\n  - [ ] two",
        [("ip", "p", "order lamps\nof glass", []),
        ("l2", "l", "", [("i3", "i", "- [ ] two", [("iq", "p", "two", [])])])]),
        ("i2", "i", "- plain", [("ir", "p", "plain", [])])])],
)  # fmt: skip
HEAD, DONE = "- [ ] order lamps\n  of glass", "- [x] order lamps"


@each_row("diff block_id text", [
    (edit("i1", HEAD, DONE), "i1", f"{DONE}\n  - [ ] two"),
    (edit("ip", HEAD, DONE), "i1", f"{DONE}\n  - [ ] two"),
    (edit("ip", "order lamps\nof glass", DONE), "i1", f"{DONE}\n  - [ ] two"),
    (f"@@REPLACE:ip@@\n{DONE}", "i1", f"{DONE}\n  - [ ] two"),
    (f"@@REPLACE:i1@@\n{DONE}", "i1", f"{DONE}\n  - [ ] two"),
    (edit("iq", "two", "- [x] two"), "i3", "- [x] two"),
    # other texts are those of the block that is named
    (edit("ip", "order lamps\nof glass", "order bulbs"), "ip", "order bulbs"),
    (f"@@REPLACE:i1@@\n{DONE}\n  - [ ] three", "i1", f"{DONE}\n  - [ ] three"),
    (edit("i1", f"{HEAD}\n  - [ ] two", DONE), "i1", DONE),
    (edit("ir", "plain", "- [x] plain"), "ir", "- [x] plain"),
])  # fmt: skip
def test_a_task_is_edited_as_its_item(diff: str, block_id: str, text: str) -> None:
    found = plan_blocks(parse_block_diff(diff), Model.of(TASKS).tree, split)
    assert [one.change for one in found.operations] == [Update(block_id, text)]
    assert [hunk.block_id for hunk in found.hunks] == [one.id for one in found.reads] == [block_id]


def test_the_text_of_a_task_is_compared_too() -> None:
    for search in ("- [ ] order", "order lamps", "- [x] order lamps\n  of glass"):
        with pytest.raises(BlockDiffRefused):
            plan_blocks(parse_block_diff(edit("ip", search, DONE)), Model.of(TASKS).tree, split)


def problems(diff: str, *, strict: bool = True) -> list[Problem]:
    with pytest.raises(BlockDiffRefused) as refused:
        planned(diff, strict=strict)
    return list(refused.value.problems)


REFUSED: list[tuple[str, list[tuple[Any, ...]]]] = [
    ("@@DELETE:p9@@", [("BLOCK_NOT_FOUND", None, 1, None)]),
    ("@@AFTER:20260107143334-l5eqs5i@@\nx", [("BLOCK_NOT_FOUND", None, 1, None)]),
    (edit("p1", "First", "x"), [("CONTENT_MISMATCH", "text", 1, None)]),
    (edit("p1", "fir", "x"), [("CONTENT_MISMATCH", "part", 1, None)]),
    (edit("p1", "first\n\nsecond", "x"), [("CONTENT_MISMATCH", "more", 1, None)]),
    (edit("p1", " first", ""), [("CONTENT_MISMATCH", "blanks", 1, None)]),
    # two that write one block
    ("@@REPLACE:p1@@\nx\n" + edit("p1", "first", "y"), [("CONFLICTING_HUNKS", "same", 3, 1)]),
    (edit("p1", "first", "x") + "\n" + edit("p1", "no", "y"), [("CONFLICTING_HUNKS", "same", 7, 1)]),
    (edit("p1", "first", "x") + "\n" + edit("p2", "first", "y"), [("CONTENT_MISMATCH", "text", 7, None)]),
    ("@@REPLACE:p1@@\nx\n@@DELETE:p1@@", [("CONFLICTING_HUNKS", "same", 3, 1)]),
    ("@@DELETE:p1@@\n@@REPLACE:p1@@\nx", [("CONFLICTING_HUNKS", "same", 2, 1)]),
    ("@@DELETE:p1@@\n@@DELETE:p1@@", [("CONFLICTING_HUNKS", "same", 2, 1)]),
    # a container and what is in it
    ("@@REPLACE:l1@@\nx\n@@DELETE:i1@@", [("CONFLICTING_HUNKS", "inside", 3, 1)]),
    ("@@DELETE:i1@@\n@@REPLACE:l1@@\nx", [("CONFLICTING_HUNKS", "contains", 2, 1)]),
    ("@@DELETE:b1@@\n@@REPLACE:q1@@\nx", [("CONFLICTING_HUNKS", "inside", 2, 1)]),
    ("@@REPLACE:ip@@\nx\n@@REPLACE:l1@@\ny", [("CONFLICTING_HUNKS", "contains", 3, 1)]),
    ("@@AFTER:q1@@\nx\n@@DELETE:b1@@", [("CONFLICTING_HUNKS", "contains", 3, 1)]),
    ("@@APPEND:b1@@\nx\n@@DELETE:b1@@", [("CONFLICTING_HUNKS", "contains", 3, 1)]),
    ("@@APPEND:b1@@\nx\n@@REPLACE:b1@@\n> y", [("CONFLICTING_HUNKS", "contains", 3, 1)]),
    ("@@REPLACE:b1@@\n> y\n@@APPEND:b1@@\nx", [("CONFLICTING_HUNKS", "inside", 3, 1)]),
    ("@@REPLACE:b1@@\n> y\n@@AFTER:q1@@\nx", [("CONFLICTING_HUNKS", "inside", 3, 1)]),
    # beside what is gone
    ("@@DELETE:p1@@\n@@AFTER:p1@@\nx", [("ANCHOR_DELETED", None, 2, 1)]),
    ("@@DELETE:p1@@\n@@BEFORE:p1@@\nx", [("ANCHOR_DELETED", None, 2, 1)]),
    ("@@DELETE:b1@@\n@@BEFORE:q2@@\nx", [("ANCHOR_DELETED", None, 2, 1)]),
    ("@@DELETE:b1@@\n@@PREPEND:b1@@\nx", [("ANCHOR_DELETED", None, 2, 1)]),
    ("@@DELETE:h1@@\n@@APPEND:h1@@\nx", [("ANCHOR_DELETED", None, 2, 1)]),
    # what cannot be done there
    ("@@DELETE:doc@@", [("INVALID_TARGET", "document", 1, None)]),
    ("@@REPLACE:doc@@\nx", [("INVALID_TARGET", "document", 1, None)]),
    ("@@AFTER:doc@@\nx", [("INVALID_TARGET", "document", 1, None)]),
    ("@@APPEND:p1@@\nx", [("INVALID_TARGET", "leaf", 1, None)]),
    ("@@PREPEND:c1@@\nx", [("INVALID_TARGET", "leaf", 1, None)]),
    ("@@AFTER:i1@@\nx", [("LIST_ITEM_REQUIRED", None, 1, None)]),
    ("@@AFTER:i1@@\n- x\n\ny", [("LIST_ITEM_REQUIRED", None, 1, None)]),
    ("@@APPEND:l1@@\nx", [("LIST_ITEM_REQUIRED", None, 1, None)]),
    ("@@REPLACE:i2@@\nx", [("LIST_ITEM_REQUIRED", None, 1, None)]),
    ("@@AFTER:p1@@\n% a comment", [("EMPTY_CONTENT", "blocks", 1, None)]),
    # what cannot be moved there
    (move("p9", "AFTER:p1"), [("BLOCK_NOT_FOUND", None, 1, None)]),
    (move("p1", "AFTER:p9"), [("BLOCK_NOT_FOUND", None, 1, None)]),
    (move("doc", "AFTER:p1"), [("INVALID_TARGET", "document", 1, None)]),
    (move("p1", "AFTER:doc"), [("INVALID_TARGET", "document", 1, None)]),
    (move("p1", "APPEND:p2"), [("INVALID_TARGET", "leaf", 1, None)]),
    (move("p1", "AFTER:p1"), [("INVALID_TARGET", "itself", 1, None)]),
    (move("b1", "AFTER:q1"), [("INVALID_TARGET", "itself", 1, None)]),
    (move("h2", "APPEND:h2"), [("INVALID_TARGET", "itself", 1, None)]),
    (move("h1", "AFTER:p2"), [("INVALID_TARGET", "itself", 1, None)]),
    (move("i1", "AFTER:p1"), [("INVALID_TARGET", "item", 1, None)]),
    (move("p1", "AFTER:i1"), [("LIST_ITEM_REQUIRED", None, 1, None)]),
    (move("p1", "AFTER:p2") + "\n" + move("p1", "AFTER:h1"), [("CONFLICTING_HUNKS", "same", 3, 1)]),
    (move("p1", "AFTER:p2") + "\n@@DELETE:p1@@", [("CONFLICTING_HUNKS", "same", 3, 1)]),
    ("@@DELETE:p1@@\n" + move("p1", "AFTER:p2"), [("ANCHOR_DELETED", None, 2, 1)]),
    ("@@DELETE:p2@@\n" + move("p1", "AFTER:p2"), [("ANCHOR_DELETED", None, 2, 1)]),
    ("@@REPLACE:b1@@\n> x\n" + move("q1", "AFTER:p2"), [("CONFLICTING_HUNKS", "inside", 3, 1)]),
    (move("p1", "APPEND:b1") + "\n@@DELETE:b1@@", [("CONFLICTING_HUNKS", "contains", 3, 1)]),
    # all at once, each judged by itself
    (edit("p1", "no",
        "x") + "\n@@DELETE:p9@@\n@@DELETE:p2@@\n@@AFTER:p1@@\nx\n@@AFTER:p2@@\nx\n@@DELETE:p1@@",
        [("CONTENT_MISMATCH", "text", 1, None), ("BLOCK_NOT_FOUND", None, 7, None),
        ("ANCHOR_DELETED", None, 11, 8), ("CONFLICTING_HUNKS", "same", 13, 1)]),
]  # fmt: skip


@each_row("diff expected", REFUSED)
def test_what_is_refused(diff: str, expected: list[tuple[Any, ...]]) -> None:
    found = [(one.code, one.reason, one.line, one.other_line) for one in problems(diff)]
    assert found == expected


def test_a_mismatch_shows_what_differs() -> None:
    (found,) = problems(edit("b1", "> quoted\n>\n> less", "x"))
    assert found.block_id == "b1"
    assert found.difference == ("  >", "- > less", "+ > more")
    assert found.similarity is not None
    assert 40 < found.similarity < 100


def test_folded_white_space() -> None:
    diff = edit("b1", "> quoted   >\n> more", "> other")
    assert problems(diff)[0].reason == "blanks"
    (operation,) = planned(diff, strict=False).operations
    assert isinstance(operation.change, Update)
    assert problems(edit("p1", "f irst", "x"), strict=False)[0].code == "CONTENT_MISMATCH"


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("search", ["first", "fir\u200bst", "\u200bfirst\u200b"])
def test_a_blank_without_width_is_no_difference(search: str, strict: bool) -> None:
    """A kernel puts it beside marks, and shows it in some places only."""
    (operation,) = planned(edit("p1", search, "x"), strict=strict).operations
    assert isinstance(operation.change, Update)


def test_only_some_mismatches_are_compared() -> None:
    leaves: list[Spec] = [(f"x{i}", "p", f"text {i}", []) for i in range(30)]
    hunks = [BlockHunk("EDIT", f"x{i}", "y", "z", i + 1) for i in range(30)]
    with pytest.raises(BlockDiffRefused) as refused:
        plan_blocks(hunks, Model.of(("doc", "d", "", leaves)).tree, split)
    found = [one.difference is not None for one in refused.value.problems]
    assert found == [True] * 20 + [False] * 10


def test_what_the_plan_tells() -> None:
    found = planned(
        "@@AFTER:p1@@\n x\n\n y \n@@DELETE:i1@@\n"
        + edit("p2", "second", "2\n\n3")
        + "\n@@DELETE:i2@@"
    )
    assert [image.id for image in found.reads] == ["p1", "i1", "p2", "i2"]
    assert [image.markdown for image in found.reads] == ["first", "- a", "second", "- b"]
    update, first, second, delete = found.operations
    assert (update.change, update.lines) == (Update("p2", "2"), (6,))
    assert (first.change, first.lines) == (InsertText(" x\n\n y ", "after", "p1"), (1,))
    assert [image.id for image in first.images] == ["+1", "+2"]
    assert (second.change, second.lines) == (InsertText("3", "after", "p2"), (6,))
    assert (delete.change, delete.lines) == (Delete("l1"), (5, 14))


@each_row("diff places", [
    ("@@AFTER:p1@@\nx", [("after", "p1", "x")]),
    ("@@AFTER:c1@@\nx", [("after", "c1", "x")]),
    ("@@BEFORE:p1@@\nx", [("before", "p1", "x")]),
    ("@@BEFORE:h1@@\nx", [("before", "h1", "x")]),
    ("@@PREPEND:b1@@\nx", [("first_in", "b1", "x")]),
    ("@@APPEND:b1@@\nx\n@@APPEND:b1@@\ny", [("last_in", "b1", "x"), ("last_in", "b1", "y")]),
    ("@@APPEND:h1@@\nx", [("after", "l1", "x")]),
    ("@@APPEND:i1@@\n- x", [("last_in", "i1", "- x")]),
    ("@@AFTER:p1@@\nx\n@@AFTER:p1@@\ny", [("after", "p1", "y"), ("after", "p1", "x")]),
    ("@@REPLACE:i1@@\n- x\n- y\n- z", [("after", "i1", "- y\n- z")]),
    ("@@REPLACE:p1@@\nx\n\n\ny\n\n\nz", [("after", "p1", "y\n\nz")]),
    ("@@BEFORE:h2@@\ny\n@@APPEND:h1@@\nw\n@@AFTER:p1@@\nx",
        [("after", "p1", "x"), ("before", "h2", "y"), ("after", "l1", "w")]),
])  # fmt: skip
def test_new_blocks_are_put_where_the_hunk_says(
    diff: str, places: list[tuple[str, str, str]]
) -> None:
    found = [
        (one.change.side, one.change.anchor_id, one.change.markdown)
        for one in planned(diff).operations
        if isinstance(one.change, InsertText)
    ]
    assert found == places


def test_a_hunk_that_changes_nothing_has_no_operation() -> None:
    found = planned("@@REPLACE:p1@@\nfirst\n@@REPLACE:p2@@\nsecond\n\nmore")
    (insert,) = found.operations
    assert insert.change == InsertText("more", "after", "p2")
    assert len(found.hunks) == 2


def test_one_block_is_taken_as_it_was_written() -> None:
    for text in ("\u3000\u3000first", "  two", "x  ", "text\n\n% comment"):
        (update,) = planned(f"@@REPLACE:p1@@\n{text}").operations
        assert update.change == Update("p1", text)


@each_row("markdown level", [
    *((f"{'#' * n} x", n) for n in range(1, 7)),
    ("#", 1),
    ("   ###\tx ##", 3),
    ("x\n===", 1),
    ("x\ny\n---  \n", 2),
    ("x\n=", 1),
])  # fmt: skip
def test_heading_levels(markdown: str, level: int) -> None:
    assert heading_level(markdown) == level


def many_hunks(count: int) -> tuple[list[BlockHunk], Model]:
    """So many hunks at blocks of their own, and as many again at one block."""
    leaves: list[Spec] = [(f"x{i}", "p", f"text {i}", []) for i in range(count)]
    actions: list[Action] = ["AFTER", "BEFORE", "DELETE", "REPLACE"]
    hunks = [
        BlockHunk(actions[i % 4], f"x{i}", "" if i % 4 == 2 else "new\n\nmore", line=i + 1)
        for i in range(count)
    ]
    hunks += [BlockHunk("AFTER", "x1", "t", line=count + i) for i in range(count)]
    return hunks, Model.of(("doc", "d", "", leaves))


@pytest.mark.slow
def test_many_hunks_take_linear_time() -> None:
    made = {size: many_hunks(size) for size in (500, 1_000, 2_000)}
    check_linear(lambda size: plan_blocks(made[size][0], made[size][1].tree, split), 500)


@pytest.mark.slow
def test_the_time_of_very_many_hunks_is_bounded() -> None:
    count = 20_000
    hunks, model = many_hunks(count)
    with bounded():
        found = plan_blocks(hunks, model.tree, split)
    assert len(found.operations) == count + count // 4 + count


TEXTS = ("one", "one\n\ntwo", "- one", "- one\n- two", "- one\n\n- two", "# one", "one\n\n- two")
ACTIONS: tuple[Action, ...] = ("EDIT", "DELETE", "REPLACE", "BEFORE", "AFTER", "PREPEND", "APPEND")


@st.composite
def specs(draw: st.DrawFn, names: list[int], depth: int = 0) -> Spec:
    names.append(0)
    number = len(names)
    kinds = ("p", "h", "l", "b") if depth < 3 else ("p", "h")
    kind = draw(st.sampled_from(kinds))
    if kind in ("p", "h"):
        return (f"x{number}", kind, f"{'# ' * (kind == 'h')}text {number}", [])
    if kind == "b":
        held = [draw(specs(names, depth + 1)) for _ in range(draw(st.integers(1, 3)))]
        return (f"x{number}", "b", "", held)
    items: list[Spec] = []
    for _ in range(draw(st.integers(1, 3))):
        names.append(0)
        at = len(names)
        held = [draw(specs(names, depth + 2)) for _ in range(draw(st.integers(0, 2)))]
        items.append((f"x{at}", "i", f"- item {at}", held))
    return (f"x{number}", "l", "", items)


@st.composite
def documents(draw: st.DrawFn) -> Spec:
    names: list[int] = []
    return ("doc", "d", "", [draw(specs(names)) for _ in range(draw(st.integers(0, 4)))])


@st.composite
def diffs_of(draw: st.DrawFn, tree: BlockTree) -> list[BlockHunk]:
    """Hunks on blocks that are there, with the right SEARCH."""
    found: list[BlockHunk] = []
    few = draw(st.lists(st.sampled_from(sorted(tree.blocks)), min_size=1, max_size=4))
    for line in range(1, draw(st.integers(1, 7)) + 1):
        block = tree.blocks[draw(st.sampled_from(few))]
        action = draw(st.sampled_from(ACTIONS))
        text = "" if action == "DELETE" else draw(st.sampled_from(TEXTS))
        if action == "EDIT":
            text = draw(st.sampled_from((text, "")))
            if not block.markdown:
                action, text = "REPLACE", text or "x"
        search = block.markdown if action == "EDIT" else None
        found.append(BlockHunk(action, block.id, text, search, line))
    return found


class Oracle:
    """What hunks come to, told without any order of operations: by slots around each block."""

    def __init__(self, tree: BlockTree, hunks: list[BlockHunk]) -> None:
        self.tree = tree
        self.hunks = hunks
        self.slots: dict[tuple[str, str], list[str]] = {}
        self.written: dict[str, list[str]] = {}
        for hunk in hunks:
            texts = self.texts(hunk)
            if hunk.deletes or hunk.rewrites:
                self.written[hunk.block_id] = texts
            else:
                self.slots.setdefault((self.slot(hunk), hunk.block_id), []).extend(texts)

    def kind(self, block_id: str, line: int = 0) -> str:
        """What the block is, for the hunk of a line: what an earlier one made of it."""
        for hunk in self.hunks:
            if hunk.block_id == block_id and hunk.line < line and hunk.rewrites:
                return split(hunk.text)[0].kind
        return self.tree.blocks[block_id].kind

    def slot(self, hunk: BlockHunk) -> str:
        heading = self.kind(hunk.block_id, hunk.line) == "h" and hunk.action == "PREPEND"
        return "AFTER" if heading else hunk.action

    def within(self, hunk: BlockHunk) -> bool:
        return self.slot(hunk) in ("PREPEND", "APPEND")

    def parent(self, hunk: BlockHunk) -> str:
        return hunk.block_id if self.within(hunk) else self.tree.blocks[hunk.block_id].parent_id

    def texts(self, hunk: BlockHunk) -> list[str]:
        pieces = split(hunk.text)
        parent = self.parent(hunk)
        if parent and self.kind(parent) == "l":
            pieces = [item for piece in pieces for item in piece.children]
        return [piece.markdown for piece in pieces]

    @property
    def refused(self) -> bool:
        pairs = ((i, j) for j in range(len(self.hunks)) for i in range(j))
        return any(map(self.alone, self.hunks)) or any(self.clash(*pair) for pair in pairs)

    def alone(self, hunk: BlockHunk) -> bool:
        """Whether a hunk is refused for its own sake."""
        kind, parent = self.kind(hunk.block_id, hunk.line), self.parent(hunk)
        if kind == "d" and not self.within(hunk):
            return True
        if self.within(hunk) and kind not in ("d", "l", "i", "b"):
            return True
        lists = all(piece.kind == "l" for piece in split(hunk.text))
        return bool(self.kind(parent) == "l" and hunk.text and not lists)

    def clash(self, i: int, j: int) -> bool:
        """Whether a hunk does not go with an earlier one."""
        one, other = self.hunks[i], self.hunks[j]
        if one.block_id == other.block_id:
            if self.writes(one) and self.writes(other):
                return True
            if one.deletes and not self.writes(other):
                return True
        for writer, actor in ((one, other), (other, one)):
            inside = self.tree.around(actor.block_id)
            if not self.writes(actor) and self.within(actor):
                inside = [actor.block_id, *inside]
            if self.writes(writer) and writer.block_id in inside:
                return True
        return False

    @staticmethod
    def writes(hunk: BlockHunk) -> bool:
        return hunk.deletes or hunk.rewrites

    def shape(self, block_id: str = "doc") -> str:
        return " | ".join(self.inner(block_id))

    def inner(self, block_id: str) -> list[str]:
        held = [part for child in self.tree.children[block_id] for part in self.shown(child)]
        first, last = (self.slots.get((slot, block_id), []) for slot in ("PREPEND", "APPEND"))
        return [part.replace("\n", "/") for part in (*first, *held, *last)]

    def shown(self, block_id: str) -> list[str]:
        block = self.tree.blocks[block_id]
        before, after = (self.slots.get((slot, block_id), []) for slot in ("BEFORE", "AFTER"))
        own = self.written.get(block_id)
        if own is None or (own and own[0] == block.markdown and block.kind in ("l", "b")):
            rest = own[1:] if own else []
            own = [block.markdown]
            if block.kind in ("l", "b"):
                inner = self.inner(block_id)
                own = [f"{block.kind}({', '.join(inner)})"] if inner else [block.markdown]
                if not inner and block.kind == "l":
                    own = []
            own += rest
        return [*before, *own, *after]


def outcome(hunks: list[BlockHunk], tree: BlockTree) -> BlockPlan | BlockDiffRefused:
    try:
        return plan_blocks(hunks, tree, split)
    except BlockDiffRefused as refused:
        return refused


@pytest.mark.slow
@given(st.data())
def test_any_diff_of_any_document(data: st.DataObject) -> None:
    spec = data.draw(documents())
    tree = Model.of(spec).tree
    hunks = data.draw(diffs_of(tree))
    oracle = Oracle(tree, hunks)
    assume(not any(oracle.kind(h.block_id, h.line) == "h" and h.action == "APPEND" for h in hunks))
    found = outcome(hunks, tree)
    if isinstance(found, BlockDiffRefused):
        assert oracle.refused, found
        return
    assert not oracle.refused
    assert done(spec, found).shape() == oracle.shape()


def test_the_tree_may_be_no_more_than_is_asked_for() -> None:
    """Named blocks and those around them, with the children of the containers: no more is read."""
    blocks = {
        "doc": known("doc", "", "d", ""),
        "l1": known("l1", "doc", "l", "- a\n- b"),
        "i1": known("i1", "l1", "i", "- a"),
        "i2": known("i2", "l1", "i", "- b"),
    }
    tree = BlockTree(blocks, {"doc": ("p0", "l1", "p9"), "l1": ("i1", "i2")})
    hunks = parse_block_diff(
        "@@DELETE:i1@@\n@@AFTER:i2@@\n- x\n@@REPLACE:i2@@\n- y\n- z\n@@BEFORE:l1@@\nw"
    )
    assert len(plan_blocks(hunks, tree, split).operations) == 5
    emptied = plan_blocks(parse_block_diff("@@DELETE:i1@@\n@@DELETE:i2@@"), tree, split)
    assert [one.change for one in emptied.operations] == [Delete("l1")]


@each_row("text items expected", [
    ("a", [], "- a"),
    ("a\n\nb\n", ["* x"], "* a\n\n  b"),
    ("a\r\nb", ["1. x", "9) y"], "10) a\n    b"),
    ("a\nb", ["- [x] done"], "- [ ] a\n  b"),
    ("a", ["- x", "no item"], "- a"),
])  # fmt: skip
def test_a_text_becomes_an_item_as_the_last_one_is(
    text: str, items: list[str], expected: str
) -> None:
    assert as_item(text, items) == expected
