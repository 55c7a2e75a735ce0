"""The daily tasks of an agent with notes, on both stores: none is refused, and they cost little."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.notes_daily import MOST_CALLS, MOST_TOKENS, NOTES, Day, told

from support.cost import first, tokens
from support.note_workspaces import STORES, stage_at


@pytest.mark.slow
@pytest.mark.parametrize("store", first(*STORES))
def test_a_day_with_notes(tmp_path: Path, store: str) -> None:
    with stage_at(tmp_path, store) as stage:
        ids = {title: stage.document(text, title) for title, text in NOTES.items()}
        day = Day(
            lambda tool, arguments: stage.call(tool, **arguments),
            stage.box,
            has_links=store == "folder",
        )
        table = told(day.play(), tokens).split("\n")
        calls, given, answered = map(int, table[-2].split()[-3:])
        assert calls <= MOST_CALLS, table
        assert given + answered <= MOST_TOKENS, table
        assert stage.texts(ids["Visitors"]) == NOTES["Visitors"].split("\n\n")
        shop = "\n".join(stage.texts(ids["Shop"]))
        for words in ("- [x] order lamps", "- [x] buy hinges", "When we are open", "| 96"):
            assert words.casefold() in shop.casefold()
        assert shop.index("## Tasks") < shop.index("## Stock") < shop.index("## Ideas")
        if store == "folder":
            assert "[[Shop#When we are open]]" in stage.texts(ids["Street"])[0]
