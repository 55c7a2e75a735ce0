"""Block diffs on the review page: shown, approved, written, looked back at."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from support.review_page import AGENT, prepared, room_at

IDS = ("20260101000000-aaaaaaa", "20260101000000-bbbbbbb")


@pytest.mark.slow
def test_a_person_sees_and_approves_a_diff_of_two_documents(tmp_path: Path) -> None:
    for block_id, name in zip(IDS, ("one", "two"), strict=True):
        (tmp_path / f"{name}.md").write_text(f'text of {name}\n{{: id="{block_id}"}}\n')
    with room_at(tmp_path) as room:
        reader = room.reader()
        diff = "".join(f"@@REPLACE:{block_id}@@\nnew text\n" for block_id in IDS)
        plan = prepared(room.desk, "prepareBlockDiff", diff=diff)
        shown = room.desk.desk.review.show(room.desk.member("local"), plan)
        assert [one.path.name for one in shown.draft.documents] == ["one.md", "two.md"]
        assert plan in reader.page("/")
        page = html.unescape(re.sub("<[^>]*>", "", reader.page(f"/hunk/{plan}")))
        assert "one.md" in page
        assert "text of one" in page
        assert "text of two" in page
        reader.page(f"/hunk/{plan}/diff")
        reader.send(f"/hunk/{plan}", f"/hunk/{plan}/approve")
        done = room.desk.call(AGENT, "apply_file_modification", {"hunk_id": plan})
        assert done.data["context_match"] == "exact", done.text
        assert (tmp_path / "two.md").read_text().startswith("new text\n")
        assert "one.md" in reader.page("/history")
        reader.page("/edit/1")


@pytest.mark.slow
def test_the_state_of_a_block_diff_is_that_of_its_documents_now(tmp_path: Path) -> None:
    path = tmp_path / "one.md"
    path.write_text(f'first\n\ntext\n{{: id="{IDS[0]}"}}\n')
    with room_at(tmp_path) as room:
        plan = prepared(room.desk, "prepareBlockDiff", diff=f"@@REPLACE:{IDS[0]}@@\nnew text\n")

        def state() -> str:
            (waiting,) = room.desk.desk.review.pending(room.desk.member("local"))
            assert waiting.plan.id == plan
            return waiting.state

        assert state() == "exact"
        path.write_text(f'first\n\nmore\n\ntext\n{{: id="{IDS[0]}"}}\n')
        assert state() == "drifted"
        path.write_text("first\n")
        assert state() == "conflict"
