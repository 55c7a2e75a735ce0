"""How a new text splits in blocks, for a diff and for a kernel."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from copydesk.app.config import Config, NotesConfig
from copydesk.app.workspace import configured_notes
from copydesk.notes.grammar import split_as
from copydesk.notes.kernel.blocks import split_blocks
from copydesk.notes.markdown import Profile, parse
from support.fake_kernel.split import split as split_of_the_fake
from support.markdown_texts import anything
from support.rows import each_row

ID = '{: id="20200101000000-abcdefg"}'
DOCUMENT = '{: id="20200101000000-abcdefh" type="doc"}'

CASES: tuple[tuple[Profile, str, tuple[str, ...]], ...] = (
    ("gfm", "", ()),
    ("gfm", " \n\n\t", ()),
    ("gfm", "a\nb\n\nc", ("p a\nb", "p c")),
    ("gfm", "a\r\nb\r\n\r\n# c", ("p a\nb", "h # c")),
    ("gfm", "a\n===\nb", ("h a\n===", "p b")),
    ("siyuan", "a\n===\nb", ("p a\n===\nb",)),
    ("gfm", "---\na: b\n---\nc", ("tb ---", "h a: b\n---", "p c")),
    ("siyuan", "---\na: b\n---", ("tb ---", "p a: b", "tb ---")),
    ("gfm", "  - a\n    b\n\n  - c\n\nd", ("l   - a\n    b\n\n  - c", "p d")),
    ("siyuan", "- a\n* b", ("l - a", "l * b")),
    ("gfm", "    code\n\n    more\nb", ("c     code\n\n    more", "p b")),
    ("siyuan", "    a\n\n\tb", ("p     a", "p \tb")),
    ("gfm", f"a\n{ID}\nb", (f"p a\n{ID}", "p b")),
    ("siyuan", f"{ID}\na\n{ID}", (f"p {ID}", f"p a\n{ID}")),
    ("siyuan", f"{DOCUMENT}\na\n\nb", (f"p {DOCUMENT}\na", "p b")),
    ("siyuan", f"{DOCUMENT}\n- a\n- b", (f"l {DOCUMENT}\n- a\n- b",)),
    ("gfm", "a\n\n^mark\n\nb", ("p a\n\n^mark", "p b")),
    ("gfm", "[a]: b\nc", ("def [a]: b", "p c")),
    ("siyuan", "> [!NOTE]\n> a", ("callout > [!NOTE]\n> a",)),
    ("siyuan", "{{{row\na\n\nb\n}}}\nc", ("s {{{row\na\n\nb\n}}}", "p c")),
    ("gfm", "```\n@@DELETE:x@@\n\n", ("c ```\n@@DELETE:x@@",)),
)


@each_row("profile text pieces", CASES)
def test_pieces_of_a_text(profile: Profile, text: str, pieces: tuple[str, ...]) -> None:
    found = split_as(profile)(text)
    assert tuple(f"{piece.kind} {piece.markdown}" for piece in found) == pieces


def test_items_are_the_children_of_a_list() -> None:
    (found,) = split_as("gfm")("1. a\n\n   b\n2. - c\n   - d\n")
    assert [(item.kind, item.markdown) for item in found.children] == [
        ("i", "1. a\n\n   b"),
        ("i", "2. - c\n   - d"),
    ]
    (other,) = split_blocks("* a\n\n  b\n* [x] c")[:1]
    assert [(item.kind, item.subtype, item.markdown) for item in other.children] == [
        ("i", "u", "* a\n\n  b")
    ]


@given(anything, st.sampled_from(("gfm", "siyuan")))
def test_every_line_stands_in_one_piece(text: str, profile: Profile) -> None:
    found = split_as(profile)(text)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    wanted = [line for line in lines if line.strip(" \t")]
    assert [
        line for piece in found for line in piece.markdown.split("\n") if line.strip(" \t")
    ] == (wanted if found else [])
    for piece in found:
        if piece.kind == "l":
            assert piece.children
            assert "\n".join(item.markdown for item in piece.children).split() == (
                piece.markdown.split()
            )


@given(anything)
def test_a_kernel_gets_the_blocks_of_its_engine(text: str) -> None:
    tree = parse(text, "siyuan")
    found = split_blocks(text)
    assert [(piece.kind, piece.subtype) for piece in found] == [
        (block.kind, block.subtype) for block in tree.root.children
    ]


@each_row("text", [
    "", "a\n\nb\nc", "# h\n\n- a\n  - b\n\n    c\n- d\n\n> e\n> - f",
    "1. a\n2. b\n\n```py\nx\n\ny\n```\n\n---\n\n$$\nx\n$$",
    "- [x] a\n- [ ] b\n\n| a | b |\n| --- | --- |\n| 1 | 2 |", "{{{col\na\n\n- b\n\n}}}",
    "<div>\na\n</div>\n\nb",
])  # fmt: skip
def test_the_fake_kernel_splits_ordinary_texts_the_same(text: str) -> None:
    """Its parser is one of its own: two that agree are two witnesses."""
    ours, others = split_blocks(text), split_of_the_fake(text)
    assert [(piece.kind, piece.subtype) for piece in ours] == [
        (piece.kind, piece.subtype) for piece in others
    ]
    assert [len(piece.children) for piece in ours if piece.kind == "l"] == [
        len(piece.children) for piece in others if piece.kind == "l"
    ]


def test_no_line_for_a_kernel_is_lost_unsaid() -> None:
    config = Config(notes=NotesConfig(siyuan_url="http://127.0.0.1:1", siyuan_token="x"))
    unused: Any = None
    found = configured_notes(config, unused, str, unused).split(f"a\n{ID}\n\nb")
    assert [piece.markdown for piece in found] == [f"a\n{ID}", "b"]
