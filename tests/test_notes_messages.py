"""The words for refused block diffs and slices: all there are, in both languages, without gaps."""

from __future__ import annotations

from typing import get_args

import pytest

from copydesk.errors import Refusal
from copydesk.notes.grammar import (
    BlockDiffRefused,
    InvalidSlice,
    Kind,
    Problem,
    SliceReason,
    parse_block_diff,
    problem,
    select,
)
from copydesk.notes.protocol import (
    BlockChanged,
    BlockNotFound,
    InvalidBlockId,
    NotebookNotFound,
    NotesRolledBack,
    NotesTorn,
    NotesUnavailable,
    NotInvertible,
    WrongBlockKind,
)
from copydesk.tools.messages import say_notes_refusal, say_problem, texts
from copydesk.tools.refusals import refusal_words
from copydesk.tools.report import Lang
from test_notes_grammar import ERRORS
from test_notes_plan import REFUSED, planned

KINDS: tuple[Kind, ...] = get_args(Kind)
REASONS: tuple[SliceReason, ...] = get_args(SliceReason)
LANGS: tuple[Lang, Lang] = ("en", "zh")


def below(prefix: str) -> set[str]:
    return {key.removeprefix(prefix) for key in texts("en").messages if key.startswith(prefix)}


def test_every_kind_has_its_message() -> None:
    assert below("block_diff.") - {"line", "similar"} == set(KINDS)
    assert below("slice.") == set(REASONS)


def found_problems() -> list[Problem]:
    """The problems of all diffs that the other tests have refused."""
    found: list[Problem] = []
    for diff, _ in (*ERRORS, ("", ()), *REFUSED):
        try:
            planned(diff)
        except BlockDiffRefused as refused:
            found += refused.problems
    return found


@pytest.mark.parametrize("lang", LANGS)
def test_every_kind_is_found_and_said_with_what_is_known_of_it(lang: Lang) -> None:
    kinds: set[str] = set()
    for found in found_problems():
        check_said(found, lang)
        kinds.add(f"{found.code}.{found.reason}" if found.reason else found.code)
    assert kinds == set(KINDS)


def check_said(found: Problem, lang: Lang) -> None:
    """The problem is said with its line and its code, and without a gap."""
    said = say_problem(found, lang)
    assert str(found.line) in said
    assert f"[{found.code}]" in said
    assert "None" not in said
    assert "?" not in said.split("\n")[0]


@pytest.mark.parametrize("lang", LANGS)
def test_a_difference_is_shown(lang: Lang) -> None:
    found = problem(
        "CONTENT_MISMATCH.text", 4, block_id="a", similarity=87, difference=("- a", "+ {b}")
    )
    check_said(found, lang)
    assert say_problem(found, lang).endswith("\n- a\n+ {b}")
    assert "87%" in say_problem(found, lang)


@pytest.mark.parametrize("lang", LANGS)
def test_all_problems_of_a_diff_are_said(lang: Lang) -> None:
    diff = (
        "{text} %s\n@@a.b@@\n@@x@@ # y\n<<<<<<< SEARCH\n>>>>>>> REPLACE\n=======\n@@REPLACE:x@@\n"
        "@@AFTER:x@@\na\n<<<<<<< SEARCH\n@@DELETE:x@@\nmore\n>>>>>>> REPLACE\n@@z@@\n"
        "@@z@@\n<<<<<<< SEARCH\na\n=======\n=======\n<<<<<<< SEARCH"
    )
    with pytest.raises(BlockDiffRefused) as refused:
        parse_block_diff(diff)
    assert len({one.code for one in refused.value.problems}) == 7
    said = say_notes_refusal(refused.value, lang)
    assert "{text} %s" in said
    for found in refused.value.problems:
        check_said(found, lang)
        assert say_problem(found, lang) in said


@pytest.mark.parametrize("lang", LANGS)
def test_slices_are_said(lang: Lang) -> None:
    for text in ("", "a b", "begin:x", "nowhere", "id0:+0", "5:+3", "id1:id0", "x" * 5_000):
        with pytest.raises(InvalidSlice) as refused:
            select(text, ["id0", "id1"])
        said = say_notes_refusal(refused.value, lang)
        assert "2" in said
        assert "None" not in said
        assert "?" not in said.split("\n")[0]
        assert len(said) < 600
        assert refused.value.facts()["total"] == 2


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("refusal", [
    InvalidBlockId("x"),
    BlockNotFound("x"),
    BlockNotFound("x", lost=True, nearest="y"),
    NotebookNotFound("x"),
    WrongBlockKind("x", "p", "document"),
    BlockChanged(block_id="x"),
    NotInvertible("x", "custom-avs"),
    NotesUnavailable("no route"),
    NotesRolledBack(1, "x", "cut"),
    NotesTorn(1, "cut", ("x", "y")),
], ids=lambda refusal: type(refusal).__name__)  # fmt: skip
def test_what_a_store_refuses_has_words_without_a_gap(refusal: Refusal, lang: Lang) -> None:
    said = refusal_words(refusal, lang, ("notes",))
    assert "?" not in said
    assert "None" not in said
    assert "?" not in said.split("\n")[0]
    assert any(ord(character) > 0x2E80 for character in said) is (lang == "zh")
