"""The grammar of block diffs: every form, every error with its line, and any text at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.notes.grammar import (
    BlockDiffRefused,
    BlockHunk,
    header_of,
    is_block_id,
    lines_of_hunk,
    marker_line,
    marker_of,
    parse_block_diff,
)
from copydesk.notes.protocol import is_id
from support.cost import bounded, check_linear
from support.rows import each_row

ID = "20260107143334-l5eqs5i"
OTHER = "20260107143325-zbrtqup"

Expected = list[BlockHunk] | list[tuple[str, int]]


def check_hunks(diff: str, expected: Expected) -> None:
    """The diff is these hunks, whatever its line ends, or has these problems (code, line)."""
    for text, above in (
        (diff, 0),
        (diff.replace("\n", "\r\n"), 0),
        (f"```diff\n{diff}\n```", 1),
        (f"\n\n{diff}\n \n", 2),
    ):
        outcome = read(text)
        found: Expected = (
            [(problem.code, problem.line - above) for problem in outcome.problems]
            if isinstance(outcome, BlockDiffRefused)
            else list(outcome)
        )
        assert found == expected, text


def read(diff: str) -> tuple[BlockHunk, ...] | BlockDiffRefused:
    try:
        return parse_block_diff(diff)
    except BlockDiffRefused as refused:
        return refused


def render(hunks: Iterable[BlockHunk]) -> str:
    """The diff of these hunks, LF alone, a blank line between them."""
    return "\n".join("".join(f"{line}\n" for line in _lines(hunk)) for hunk in hunks)


def _lines(hunk: BlockHunk) -> list[str]:
    command = "" if hunk.action == "EDIT" else f"{hunk.action}:"
    header = f"@@{command}{hunk.block_id}@@"
    if hunk.action == "DELETE":
        return [header]
    if hunk.place:
        return [header, f"@@{':'.join(hunk.place)}@@"]
    search = lines_of_hunk(hunk.search) if hunk.search else []
    text = lines_of_hunk(hunk.text) if hunk.text else []
    if hunk.action != "EDIT" and all(_is_plain(line) for line in text):
        return [header, *text]
    used = {marker[1] for line in [*search, *text] if (marker := marker_of(line))}
    size = next(n for n in range(7, 8 + len(used)) if n not in used)
    opening, middle = marker_line("<", size), marker_line("=", size)
    return [header, opening, *search, middle, *text, marker_line(">", size)]


def _is_plain(line: str) -> bool:
    """Whether a line needs no markers around it."""
    marker = marker_of(line)
    return (marker is None or marker[0] == "=") and header_of(line, is_block_id) is None


def body(search: str, text: str, signs: int = 7) -> str:
    lines = ["<" * signs + " SEARCH", search, "=" * signs, text, ">" * signs + " REPLACE"]
    return "\n".join(line for line in lines if line)


def edit(search: str, text: str, block_id: str = ID) -> BlockHunk:
    return BlockHunk("EDIT", block_id, text, search)


S, D, R = "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE"
S8, D8, R8 = "<<<<<<<< SEARCH", "========", ">>>>>>>> REPLACE"

INDENTED = "\u3000\u3000first\n\n    indented \n\tx\u3000"
NO_DELIMITERS = "====\na ==== b\n| ==== | ======= |\n======\n  ======="
OPERATIONS: list[tuple[str, list[BlockHunk]]] = [
    (f"@@{ID}@@\n{S}\nold\n{D}\nnew\n{R}", [edit("old", "new")]),
    (f"@@{ID}@@\n{S}\nold\n{D}\n{R}", [edit("old", "")]),
    (f"@@{ID}@@\n{S}\nold\n{D}\n\n{R}", [edit("old", "")]),
    (f"@@DELETE:{ID}@@", [BlockHunk("DELETE", ID)]),
    (f"@@REPLACE:{ID}@@\nnew\n\nmore", [BlockHunk("REPLACE", ID, "new\n\nmore")]),
    (f"@@BEFORE:{ID}@@\nnew", [BlockHunk("BEFORE", ID, "new")]),
    (f"@@AFTER:{ID}@@\nnew", [BlockHunk("AFTER", ID, "new")]),
    (f"@@PREPEND:{ID}@@\nnew", [BlockHunk("PREPEND", ID, "new")]),
    (f"@@APPEND:{ID}@@\nnew", [BlockHunk("APPEND", ID, "new")]),
    # several, one after the other, with and without blank lines between
    (
        f"@@{ID}@@\n\n{S}\na\n{D}\nb\n{R}\n@@DELETE:{OTHER}@@\n\n@@AFTER:{ID}@@\nx\n@@AFTER:{ID}@@\n\ny",
        [
            edit("a", "b"),
            BlockHunk("DELETE", OTHER),
            BlockHunk("AFTER", ID, "x"),
            BlockHunk("AFTER", ID, "y"),
        ],
    ),
    # a move, with its target on the next line
    (f"@@MOVE:{ID}@@\n@@AFTER:{OTHER}@@", [BlockHunk("MOVE", ID, place=("AFTER", OTHER))]),
    (f"@@move:{ID}@@[p]\n\n@@ append : {OTHER} @@Heading\n@@BEFORE:{ID}@@\nx",
        [BlockHunk("MOVE", ID, place=("APPEND", OTHER)), BlockHunk("BEFORE", ID, "x")]),
    # commands in any case, blanks within the signs, labels, short ids
    ("@@delete:a-b_c@@", [BlockHunk("DELETE", "a-b_c")]),
    ("@@After:x1@@ \nt", [BlockHunk("AFTER", "x1", "t")]),
    ("@@ x1 @@\n" + body("a", "b"), [edit("a", "b", "x1")]),
    ("@@ DELETE : x1 @@", [BlockHunk("DELETE", "x1")]),
    (f"@@{ID}@@段落\n" + body("a", "b"), [edit("a", "b")]),
    (f"@@{ID}@@ List item \n" + body("a", "b"), [edit("a", "b")]),
    (f"@@{ID}@@[p]\n" + body("a", "b"), [edit("a", "b")]),
    (f"@@{ID}@@h2\n" + body("a", "b"), [edit("a", "b")]),
    (f"@@AFTER:{ID}@@HTML块\nt", [BlockHunk("AFTER", ID, "t")]),
    # a command may have its text in a body, which then may hold anything
    (f"@@AFTER:{ID}@@\n" + body("", "t"), [BlockHunk("AFTER", ID, "t")]),
    (f"@@REPLACE:{ID}@@\n{S8}\n{D8}\n@@DELETE:{OTHER}@@\n{S}\na\n{D}\nb\n{R}\n{R8}",
        [BlockHunk("REPLACE", ID, f"@@DELETE:{OTHER}@@\n{S}\na\n{D}\nb\n{R}")]),
    # what looks like a header or a marker, but is content
    (f"@@{ID}@@\n{S}\n @@{OTHER}@@\n{D}\n@@DELETE:{OTHER}@@\n@@x\n{R}",
        [edit(f" @@{OTHER}@@", f"@@DELETE:{OTHER}@@\n@@x")]),
    (f"@@AFTER:{ID}@@\n@@ -1,2 +1,2 @@ def f\n @@{OTHER}@@\n@@ivar += 1\n@@@@\nx @@{OTHER}@@",
        [BlockHunk("AFTER", ID,
        f"@@ -1,2 +1,2 @@ def f\n @@{OTHER}@@\n@@ivar += 1\n@@@@\nx @@{OTHER}@@")]),
    (f"@@AFTER:{ID}@@\nTitle\n{D}\n\ntext", [BlockHunk("AFTER", ID, f"Title\n{D}\n\ntext")]),
    (f"@@AFTER:{ID}@@\n<<<<<<< HEAD\na\n{D}\nb\n>>>>>>> main",
        [BlockHunk("AFTER", ID, f"<<<<<<< HEAD\na\n{D}\nb\n>>>>>>> main")]),
    (f"@@{ID}@@\n{S}\n {D}\n======\n{D} \n<<<<<< SEARCH\n{S} x\n{D}\n{R}.\n{R}",
        [edit(f" {D}\n======\n{D} \n<<<<<< SEARCH\n{S} x", f"{R}.")]),
    (f"@@{ID}@@\n{S8}\n{S}\na\n{D}\nb\n{R}\n{D8}\nc\n{R8}", [edit(f"{S}\na\n{D}\nb\n{R}", "c")]),
    (f"@@{ID}@@\n{S}\n{S8}\n{D8}\n{R8}\n{D}\nc\n{R}", [edit(f"{S8}\n{D8}\n{R8}", "c")]),
    (f"@@{ID}@@\n{S}\nx\n{NO_DELIMITERS}\ny\n{D}\nb\n{R}", [edit(f"x\n{NO_DELIMITERS}\ny", "b")]),
    # indentation stays, blank lines around do not
    (f"@@{ID}@@\n{S}\n  a\n\n{D}\n\n{INDENTED}\n\n{R}", [edit("  a", INDENTED)]),
    (f"@@AFTER:{ID}@@\n\n{INDENTED}\n \n", [BlockHunk("AFTER", ID, INDENTED)]),
    # a fence at the end of a text is not that of the diff
    (f"@@AFTER:{ID}@@\n```js\nx\n```", [BlockHunk("AFTER", ID, "```js\nx\n```")]),
]  # fmt: skip


@each_row("diff hunks", OPERATIONS)
def test_operations(diff: str, hunks: list[BlockHunk]) -> None:
    check_hunks(diff, hunks)
    assert list(parse_block_diff(render(hunks))) == hunks


ERRORS: list[tuple[str, list[tuple[str, int]]]] = [
    # nested
    (f"@@{ID}@@\n{S}\na\n{S}\nb\n{D}\nc\n{R}", [("NESTED_SEARCH_REPLACE", 4)]),
    (f"@@{ID}@@\n{S}\na\n{D}\n{S}\nb\n{D}\nc\n{R}\nd\n{R}", [("NESTED_SEARCH_REPLACE", 5)]),
    (f"@@{ID}@@\n{S8}\n{S8}\n{R8}\n{R8}\nx",
        [("NESTED_SEARCH_REPLACE", 3), ("UNEXPECTED_TEXT", 6)]),
    # not closed, or nothing to close
    (f"@@{ID}@@\n{S}\na\n{D}\nb", [("UNMATCHED_MARKERS", 2)]),
    (f"@@{ID}@@\n{S}", [("UNMATCHED_MARKERS", 2)]),
    (f"@@{ID}@@\n{S8}\na\n{D}\nb\n{R}", [("UNMATCHED_MARKERS", 2)]),
    (f"@@{ID}@@\n{S}\na\n{D}\nb\n{R} ", [("UNMATCHED_MARKERS", 2)]),
    (f"@@{ID}@@\n{R}", [("INVALID_SEQUENCE", 1), ("UNMATCHED_MARKERS", 2)]),
    (f"@@AFTER:{ID}@@\nx\n{R}\ny", [("UNMATCHED_MARKERS", 3)]),
    (f"@@{ID}@@\n{S}\na\n{D}\nb\n{R}\n{R}", [("UNMATCHED_MARKERS", 7)]),
    # the next hunk is read all the same
    (f"@@{ID}@@\n{S}\na\n{D}\nb\n\n@@{OTHER}@@\n{S}\na\n{R}",
        [("UNMATCHED_MARKERS", 2), ("DELIMITER_ERROR", 10)]),
    (f"@@{ID}@@\n{S}\na\n\n@@AFTER:{OTHER}@@\n\n@@DELETE:{ID}@@\nx",
        [("UNMATCHED_MARKERS", 2), ("EMPTY_CONTENT", 5), ("UNEXPECTED_TEXT", 8)]),
    # the line of =
    (f"@@{ID}@@\n{S}\na\n{R}", [("DELIMITER_ERROR", 4)]),
    (f"@@{ID}@@\n{S}\na\n{D}\nb\n{D}\nc\n{R}", [("DELIMITER_ERROR", 6)]),
    (f"@@{ID}@@\n{D}", [("INVALID_SEQUENCE", 1), ("DELIMITER_ERROR", 2)]),
    (f"@@{ID}@@\n{S}\na\n{D}\nb\n{R}\n{D}\n{D8}", [("DELIMITER_ERROR", 7), ("DELIMITER_ERROR", 8)]),
    (f"@@{ID}@@\n{S}\n{D}\nb\n{D}\n{R}", [("DELIMITER_ERROR", 5)]),
    # out of order
    (body("a", "b"), [("INVALID_SEQUENCE", 1)]),
    (f"@@{ID}@@\n{body('a', 'b')}\n\n{body('c', 'd')}", [("INVALID_SEQUENCE", 8)]),
    (f"@@{ID}@@", [("INVALID_SEQUENCE", 1)]),
    (f"@@{ID}@@\n\n@@DELETE:{ID}@@", [("INVALID_SEQUENCE", 1)]),
    (f"@@DELETE:{ID}@@\n{body('a', 'b')}", [("INVALID_SEQUENCE", 2)]),
    (f"@@REPLACE:{ID}@@\n{body('a', 'b')}", [("INVALID_SEQUENCE", 2)]),
    (f"@@AFTER:{ID}@@\ntext\n{body('a', 'b')}", [("INVALID_SEQUENCE", 3)]),
    # ids and commands
    ("@@bad.id@@\n" + body("a", "b"), [("INVALID_BLOCK_ID", 1)]),
    ("@@bad id@@\n" + body("a", "b"), [("INVALID_BLOCK_ID", 1)]),
    ("@@@@", [("INVALID_BLOCK_ID", 1)]),
    ("@@DELETE:@@", [("INVALID_BLOCK_ID", 1)]),
    ("@@DELETE:é@@", [("INVALID_BLOCK_ID", 1)]),
    (f"@@DELETE:{'x' * 65}@@", [("INVALID_BLOCK_ID", 1)]),
    (f"@@INSERT_AFTER:{ID}@@\ntext", [("INVALID_BLOCK_ID", 1)]),
    (f"@@DELETE:{ID}", [("INVALID_BLOCK_ID", 1)]),
    ("@@ -1,2 +1,2 @@\n-a\n+b", [("INVALID_BLOCK_ID", 1)]),
    (f"@@AFTER:{ID}@@\ntext\n@@COPY:{ID}@@\nmore", [("INVALID_BLOCK_ID", 3)]),
    # a move: one line says where to, and nothing follows
    (f"@@AFTER:{ID}@@\ntext\n@@MOVE:{ID}@@\nmore", [("INVALID_SEQUENCE", 3)]),
    (f"@@MOVE:{ID}@@", [("INVALID_SEQUENCE", 1)]),
    (f"@@MOVE:{ID}@@\n@@DELETE:{OTHER}@@", [("INVALID_SEQUENCE", 1)]),
    (f"@@MOVE:{ID}@@\n@@AFTER:a.b@@", [("INVALID_BLOCK_ID", 2)]),
    (f"@@MOVE:a.b@@\n@@AFTER:{ID}@@", [("INVALID_BLOCK_ID", 1)]),
    (f"@@MOVE:{ID}@@\n@@AFTER:{OTHER}@@\ntext", [("UNEXPECTED_TEXT", 3)]),
    (f"@@MOVE:{ID}@@\n@@AFTER:{OTHER}@@\n{S}\na\n{D}\nb\n{R}\n@@DELETE:{ID}@@\nx",
        [("INVALID_SEQUENCE", 3), ("UNEXPECTED_TEXT", 9)]),
    (f"@@AFTER:{ID}@@\ntext\n@@{ID}\nmore", [("INVALID_BLOCK_ID", 3)]),
    (f"@@AFTER:{ID}@@\ntext\n@@bad.id@@\nmore", [("INVALID_BLOCK_ID", 3)]),
    (f"@@AFTER:{ID}@@\ntext\n@@delete:a b", [("INVALID_BLOCK_ID", 3)]),
    # nothing there
    (f"@@{ID}@@\n{S}\n{D}\nb\n{R}", [("EMPTY_CONTENT", 2)]),
    (f"@@{ID}@@\n{S}\n \n\t\n{D}\n{R}", [("EMPTY_CONTENT", 2)]),
    (f"@@REPLACE:{ID}@@", [("EMPTY_CONTENT", 1)]),
    (f"@@BEFORE:{ID}@@\n \n@@DELETE:{ID}@@", [("EMPTY_CONTENT", 1)]),
    (f"@@APPEND:{ID}@@\n{S}\n{D}\n{R}", [("EMPTY_CONTENT", 1)]),
    # what would be ignored
    (f"Here is the diff:\n\n@@DELETE:{ID}@@", [("UNEXPECTED_TEXT", 1)]),
    (f" @@DELETE:{ID}@@", [("UNEXPECTED_TEXT", 1)]),
    (f" {S}\n", [("UNEXPECTED_TEXT", 1)]),
    ("<<<<<< SEARCH", [("UNEXPECTED_TEXT", 1)]),
    ("no diff\nat all", [("UNEXPECTED_TEXT", 1)]),
    (f"```\n@@DELETE:{ID}@@", [("UNEXPECTED_TEXT", 1)]),
    (f"```\n@@DELETE:{ID}@@\n```js", [("UNEXPECTED_TEXT", 1), ("UNEXPECTED_TEXT", 3)]),
    (f"@@DELETE:{ID}@@\nwhy not\n\nat all", [("UNEXPECTED_TEXT", 2)]),
    (f"@@{ID}@@\n{body('a', 'b')}\n\nDone.", [("UNEXPECTED_TEXT", 8)]),
    (f"@@{ID}@@\nbecause\n{body('a', 'b')}", [("UNEXPECTED_TEXT", 2)]),
    (f"@@{ID}@@\nnew text", [("INVALID_SEQUENCE", 1), ("UNEXPECTED_TEXT", 2)]),
    (f"@@AFTER:{ID}@@ # A heading\ntext", [("UNEXPECTED_TEXT", 1)]),
    (f"@@AFTER:{ID}@@the words of a sentence\ntext", [("UNEXPECTED_TEXT", 1)]),
    # all at once
    (f"Look:\n@@bad.id@@\n{S}\na\n{R}\n{D}\n@@AFTER:{ID}@@\n\n@@{ID}@@\n{S}\n{D}\nb\n{R}\nso",
        [("UNEXPECTED_TEXT", 1), ("INVALID_BLOCK_ID", 2), ("DELIMITER_ERROR", 5),
        ("DELIMITER_ERROR", 6), ("EMPTY_CONTENT", 7), ("EMPTY_CONTENT", 10),
        ("UNEXPECTED_TEXT", 14)]),
]  # fmt: skip


@each_row("diff problems", ERRORS)
def test_errors(diff: str, problems: list[tuple[str, int]]) -> None:
    check_hunks(diff, problems)


@each_row("diff", ["", "\n", " \r\n\t\n", "```\n```", "~~~diff\n\n~~~~"])
def test_no_hunk_at_all(diff: str) -> None:
    with pytest.raises(BlockDiffRefused) as refused:
        parse_block_diff(diff)
    assert [(one.code, one.line) for one in refused.value.problems] == [("EMPTY_CONTENT", 1)]


def test_lines_are_those_of_the_diff() -> None:
    assert [
        hunk.line for hunk in parse_block_diff(f"\n```\n@@DELETE:a@@\n\n@@AFTER:{ID}@@\nx\n```")
    ] == [3, 5]


def test_the_store_may_know_fewer_ids() -> None:
    assert parse_block_diff(f"@@DELETE:{ID}@@", is_id) == (BlockHunk("DELETE", ID),)
    with pytest.raises(BlockDiffRefused) as refused:
        parse_block_diff("@@DELETE:anchor@@", is_id)
    assert refused.value.problems[0].code == "INVALID_BLOCK_ID"


@each_row("text block siyuan", [
    (ID, True, True),
    ("37066d", True, False),
    ("my-anchor_2", True, False),
    ("20260107143334-L5eqs5i", True, False),
    ("20260107143334-l5eqs5i\n", False, False),
    ("x" * 64, True, False),
    *((text, False, False) for text in ("", "x" * 65, "a b", "a'b", "é", "a:b", "a.b", "١")),
])  # fmt: skip
def test_ids(text: str, block: bool, siyuan: bool) -> None:
    assert (is_block_id(text), is_id(text)) == (block, siyuan)


@each_row("arguments", [
    ("EDIT", ID, "x", None),
    ("EDIT", ID, "x", ""),
    ("EDIT", ID, "x", "\na"),
    ("DELETE", ID, "x", None),
    ("DELETE", ID, "", "a"),
    ("AFTER", ID, "", None),
    ("AFTER", ID, "x", "a"),
    ("AFTER", ID, "x\n", None),
    ("AFTER", ID, "x\r\ny", None),
    ("DELETE", "a b", "", None),
])  # fmt: skip
def test_a_wrong_hunk_cannot_be_made(arguments: tuple[object, ...]) -> None:
    with pytest.raises(ValueError, match="no hunk"):
        BlockHunk(*arguments)  # type: ignore[arg-type]


def test_a_fence_around_the_diff() -> None:
    for opening, closing in (("```", "```"), ("```diff", "`````"), ("~~~~ text", "~~~~")):
        assert parse_block_diff(f"{opening}\n@@DELETE:{ID}@@\n{closing}\n") == (
            BlockHunk("DELETE", ID),
        )


PARTS = (
    *("@@a@@", "@@DELETE:a@@", "@@AFTER:b-1@@", "@@replace:a@@段落", "@@ APPEND : c @@", "@@a.b@@"),
    *(
        "@@a@@ a b c d",
        "@@DELETE:a",
        "@@ -1 +1 @@",
        " @@a@@",
        "@@",
        "@@@@",
        "@@COPY:a@@",
        "@@MOVE:a@@",
    ),
    *(S, D, R, S8, D8, R8, "<<<<<< SEARCH", "======", f" {S}", f"{R} ", "<<<<<<<", "=" * 9),
    *(
        "",
        "",
        " ",
        "\t",
        "text",
        "  indented",
        "\u3000",
        "é\u2028x",
        "\x0c",
        "```",
        "```diff",
        "~~~",
    ),
)
lines = st.sampled_from(PARTS) | st.text(st.characters(codec="utf-8"), max_size=12)
STRUCTURES = tuple(
    part.split("\n")
    for part in (
        f"@@a@@\n{S}\nx\n{D}\ny\n{R}",
        f"@@b@@\n{S8}\nx\n{D8}\n{R8}",
        "@@AFTER:a@@\ntext",
        f"@@AFTER:a@@\n{S}\n{D}\n{S8}\n{R}",
        "@@DELETE:a@@",
    )
)


@st.composite
def diffs(draw: st.DrawFn) -> str:
    """Lines of a diff, sound ones and others, some left out, some put in."""
    found: list[str] = []
    for part in draw(st.lists(st.sampled_from(STRUCTURES), max_size=4)):
        found += part
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(found)))
        if draw(st.booleans()):
            found.insert(at, draw(lines))
        else:
            del found[at : at + 1]
    return draw(st.sampled_from(("\n", "\r\n"))).join(found)


any_text = diffs() | st.lists(lines, max_size=14).map("\n".join) | st.text(max_size=60)


def filled(text: str) -> int:
    return sum(bool(line.strip(" \t\r")) for line in text.split("\n"))


@given(any_text)
def test_any_text_is_read_or_refused(diff: str) -> None:
    hunks = read(diff)
    if isinstance(hunks, BlockDiffRefused):
        found = [problem.line for problem in hunks.problems]
        assert found
        assert found == sorted(found)
        assert 1 <= found[0] <= found[-1] <= diff.count("\n") + 1
        return
    assert hunks
    assert parse_block_diff(render(hunks)) == hunks
    # every line is a header, a marker, the fence, or content of a hunk
    content = sum(filled(hunk.text) + filled(hunk.search or "") for hunk in hunks)
    edits = sum(hunk.action == "EDIT" for hunk in hunks)
    markers = filled(diff) - content - len(hunks) - 3 * edits
    bodies = sum(hunk.action not in ("EDIT", "DELETE") for hunk in hunks)
    assert markers in {3 * count + fence for count in range(bodies + 1) for fence in (0, 2)}


@st.composite
def hunks(draw: st.DrawFn) -> BlockHunk:
    """Any hunk, its texts full of what could be taken for something else."""
    block_id = draw(st.from_regex(r"\A[A-Za-z0-9_-]{1,64}\Z"))
    action = draw(st.sampled_from(("EDIT", "DELETE", "REPLACE", "BEFORE", "AFTER", "APPEND")))
    text = draw(st.lists(lines, min_size=1, max_size=6).map("\n".join))
    search = draw(st.lists(lines, min_size=1, max_size=6).map("\n".join))
    trimmed = [_trimmed(part) or "x" for part in (text, search)]
    if action == "DELETE":
        return BlockHunk("DELETE", block_id)
    if action == "EDIT":
        return BlockHunk("EDIT", block_id, draw(st.sampled_from((trimmed[0], ""))), trimmed[1])
    return BlockHunk(action, block_id, trimmed[0])


def _trimmed(text: str) -> str:
    found = [line.rstrip("\r") for line in text.split("\n")]
    while found and not found[0].strip(" \t"):
        del found[0]
    while found and not found[-1].strip(" \t"):
        del found[-1]
    return "\n".join(found)


@pytest.mark.slow
@given(st.lists(hunks(), min_size=1, max_size=4))
def test_what_is_rendered_is_read_again(wanted: list[BlockHunk]) -> None:
    assert list(parse_block_diff(render(wanted))) == wanted


LONG: dict[str, Callable[[int], str]] = {
    "edits without an end": lambda size: f"@@a@@\n{S}\n" * size,
    "insertions": lambda size: f"@@AFTER:a@@\n{'x' * 50}\n" * size,
    "marks of a start": lambda size: f"{S}\n" * 2 * size,
    "marks of the middle in edits": lambda size: f"@@a@@\n{D}\n" * size,
    "two starts each": lambda size: f"@@a@@\n{S}\n{S}\n" * size,
    "longer and longer marks": lambda size: "".join(
        f"@@a@@\n{'<' * n} SEARCH\n{'=' * n}\n" for n in range(7, size // 13)
    ),
    "marks of the middle": lambda size: f"@@a@@\n{S}\n" + f"{D}\n" * 2 * size,
    "one line of @": lambda size: "@@" * 50 * size,
    "one line of =": lambda size: "=" * 100 * size,
}


@pytest.mark.slow
@pytest.mark.parametrize("case", LONG)
def test_time_is_linear(case: str) -> None:
    check_linear(lambda size: read(LONG[case](size)), 500)


@pytest.mark.slow
@pytest.mark.parametrize("case", LONG)
def test_the_time_of_a_long_diff_is_bounded(case: str) -> None:
    with bounded():
        read(LONG[case](20_000))
