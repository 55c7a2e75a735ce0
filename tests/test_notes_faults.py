"""The tools of notes on a kernel that lies, loses answers and drops blocks.

A tool that reports a success has had it; one that refuses has left all as it was or names what it
could not put back.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from copydesk.errors import ContentChanged
from copydesk.notes.kernel.store import KernelStore
from copydesk.notes.protocol import ChangesDone, KeepUndo, Prepared, Update, kept_nowhere
from copydesk.notes.tools import notes_of
from copydesk.tools import messages
from support.cost import spread
from support.fake_kernel import FakeKernel
from support.fake_kernel.habits import FAULTS, Fault
from support.note_workspaces import TEN, Stage, edit, stage_at

SLOW = ("silent", "silent_after", "flooded_after")
"""Faults for which one has to wait; the tests of the store have them."""

TORN = "NOT_ROLLED_BACK"


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with stage_at(tmp_path, "kernel") as opened:
        yield opened


@pytest.fixture
def kernel(stage: Stage) -> FakeKernel:
    assert stage.kernel is not None
    return stage.kernel


def arguments_of(stage: Stage, tool: str, document: str) -> dict[str, Any]:
    """A call of each tool that writes."""
    ids = stage.ids(document)
    if tool == "applyBlockDiff":
        hunks = (edit(ids[0], "p0", "q0\n\nmore"), f"@@AFTER:{ids[2]}@@\nn", f"@@DELETE:{ids[4]}@@")
        return {"diff": "\n".join(hunks)}
    if tool == "appendContent":
        return {"markdown": "n\n\nm", "targetType": "document", "target": document}
    return {
        "title": "New",
        "markdown": "n\n\nm",
        "anchorDocumentId": document,
        "location": "children",
    }


EXPECTED = {
    "applyBlockDiff": ["q0", "more", "p1", "p2", "n", "p3", "p5", "p6", "p7", "p8", "p9"],
    "appendContent": [*TEN.split("\n\n"), "n", "m"],
    "createNewDoc": ["n", "m"],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tool", "at", "fault"),
    spread(
        [
            (*where, fault)
            for where in (
                *(("applyBlockDiff", at) for at in (1, 2, 3)),
                *(("appendContent", at) for at in (1, 2)),
                ("createNewDoc", 1),
            )
            for fault in FAULTS
            if fault not in SLOW
        ],
        of=4,
    ),
)
def test_no_tool_reports_what_did_not_happen(
    stage: Stage, kernel: FakeKernel, tool: str, fault: Fault, at: int
) -> None:
    document = stage.document(TEN)
    arguments = arguments_of(stage, tool, document)
    before, token = stage.state(), kernel.token
    kernel.habits.begin(**{f"at_{at}": fault})
    answer = stage.call(tool, **arguments)
    kernel.habits.begin()
    kernel.token, kernel.gone = token, False
    (entry,) = stage.opened.history("local") or (None,)
    if not answer.is_error:
        shown = answer.data["docId"] if tool == "createNewDoc" else document
        assert stage.texts(shown) == EXPECTED[tool], answer.text
        assert entry is not None
        assert entry.state == "done"
    elif answer.data["error"] == TORN:
        assert answer.data["left"]
        assert answer.data["rolled_back"] is False
        assert entry is not None
        assert entry.state == "unsure"
    else:
        assert stage.state() == before, answer.text
        assert entry is None or entry.state == "failed"


def test_ten_hunks_of_which_the_kernel_refuses_the_seventh_leave_all_as_it_was(
    stage: Stage,
    kernel: FakeKernel,
) -> None:
    ids = stage.ids(stage.document(TEN))
    diff = "".join(f"@@AFTER:{one}@@\nq{i}\n" for i, one in enumerate(ids))
    kernel.habits.begin(at_7="refused")
    found = stage.refused("applyBlockDiff", diff=diff)
    assert (found["error"], found["index"], found["block_id"]) == ("ROLLED_BACK", 6, ids[6])
    assert found["rolled_back"] is True
    kernel.habits.begin()
    assert stage.done("applyBlockDiff", diff=diff)["changed"]


def test_ten_new_texts_are_one_request_that_leaves_all_as_it_was_if_refused(
    stage: Stage, kernel: FakeKernel
) -> None:
    ids = stage.ids(stage.document(TEN))
    diff = "".join(edit(one, f"p{i}", f"q{i}") for i, one in enumerate(ids))
    kernel.habits.begin(at_1="refused")
    found = stage.refused("applyBlockDiff", diff=diff)
    assert (found["error"], found["index"], found["block_id"]) == ("ROLLED_BACK", 0, ids[0])
    kernel.habits.begin()
    assert stage.done("applyBlockDiff", diff=diff)["changed"]
    assert kernel.habits.writes == 1


def test_an_undo_names_the_block_that_a_person_changed(stage: Stage, kernel: FakeKernel) -> None:
    (one,) = stage.ids(stage.document("a"))
    done = stage.done("applyBlockDiff", diff=edit(one, "a", "b"))
    kernel.node(one).text = "somebody else's"
    answer = stage.call("undo_file_modification", edit_id=done["edit_ids"][0])
    assert (answer.data["error"], answer.data["block_id"]) == ("CONTENT_CHANGED", one)
    assert f"The block {one} has changed." in answer.text


@pytest.mark.parametrize("hunk", [
    "@@AFTER:{1}@@\nnew",
    "@@AFTER:{1}@@\nnew\n\nnewer",
    "@@APPEND:{doc}@@\nnew",
    "@@DELETE:{0}@@",
    "@@DELETE:{1}@@",
    "@@DELETE:{2}@@",
    "@@REPLACE:{2}@@\nB",
    "@@MOVE:{3}@@\n@@BEFORE:{1}@@",
])  # fmt: skip
def test_an_undo_is_exact_if_nobody_wrote_there(
    stage: Stage, kernel: FakeKernel, hunk: str
) -> None:
    document = stage.document("# h\n\na\n\nb\n\nc\n\nd\n\n- l")
    ids = stage.ids(document)
    done = stage.done("applyBlockDiff", diff=hunk.format(*ids, doc=document))
    back = stage.done("undo_file_modification", edit_id=done["edit_ids"][0])
    assert back["context_match"] == "exact"
    assert "file_changed_since_preview" not in back


@pytest.mark.parametrize("words", ["somebody else's", "c and more", "more c"])
def test_an_undo_beside_what_a_person_wrote_is_told(
    stage: Stage, kernel: FakeKernel, words: str
) -> None:
    _, second, third = stage.ids(stage.document("a\n\nb\n\nc"))
    done = stage.done("applyBlockDiff", diff=f"@@DELETE:{second}@@")
    kernel.node(third).text = words
    back = stage.done("undo_file_modification", edit_id=done["edit_ids"][0])
    assert back["context_match"] == "fuzz"


def test_the_blocks_that_go_from_a_container_are_told_before(
    stage: Stage, kernel: FakeKernel
) -> None:
    document = stage.document("> one\n>\n> two\n>\n> three")
    (quote,) = stage.ids(document)
    two = kernel.node(quote).children[1].id
    diff = f"@@REPLACE:{quote}@@\n> one\n>\n> three"
    for dry in (True, False):
        answer = stage.call("applyBlockDiff", diff=diff, dryRun=dry)
        assert two in answer.text
        (warning,) = answer.data["warnings"]
        assert warning.endswith(two)


def test_a_kernel_that_is_gone_is_told(stage: Stage, kernel: FakeKernel) -> None:
    document = stage.document("a")
    kernel.gone = True
    for tool, arguments in (
        ("getBlockContent", {"blockId": document}),
        ("listNotebooks", {}),
        ("applyBlockDiff", {"diff": f"@@DELETE:{document}@@"}),
    ):
        answer = stage.call(tool, **arguments)
        assert answer.data["error"] == "NOTES_UNAVAILABLE"
        assert "doctor" in answer.text
    assert all(messages.has(code) for code in ("ROLLED_BACK", TORN, "NOTES_UNAVAILABLE"))


def test_attributes_survive_an_update_4_5_13(stage: Stage, kernel: FakeKernel) -> None:
    document = stage.document("a\n\nb")
    (one, _) = stage.ids(document)
    kernel.node(one).attributes |= {"bookmark": "mine", "custom-x": "1"}
    stage.done("applyBlockDiff", diff=edit(one, "a", "# A"))
    assert stage.done("getBlockInfo", ids=one)["block"]["bookmark"] == "mine"
    attributes = kernel.node(one).attributes
    assert (attributes["bookmark"], attributes["custom-x"]) == ("mine", "1")


def test_what_cannot_be_brought_back_is_refused(stage: Stage, kernel: FakeKernel) -> None:
    document = stage.document("a\n\nb")
    (one, two) = stage.ids(document)
    kernel.node(one).attributes["custom-avs"] = "20200101000000-dataset"
    diff = edit(two, "b", "B") + f"@@DELETE:{one}@@"
    assert stage.refused("applyBlockDiff", diff=diff)["error"] == "NOT_INVERTIBLE"
    assert stage.refused("applyBlockDiff", diff=edit(two, "b", 'x\n{: id="x"}'))["error"] == (
        "INVALID_ARGS"
    )


def test_a_block_that_moves_before_the_write_is_not_written_over(stage: Stage) -> None:
    document = stage.document("a\n\nb")
    (_, two) = stage.ids(document)
    home = notes_of(stage.opened.desk).reading.home(stage.opened.member("local"))
    execute, turns = home.store.execute, iter([True])

    def late(prepared: Prepared, keep: KeepUndo = kept_nowhere) -> ChangesDone:
        if next(turns, False):
            execute(home.store.prepare([Update(two, "changed")]))
        return execute(prepared, keep)

    home.store.execute = late  # type: ignore[method-assign]
    answer = stage.call("applyBlockDiff", diff=edit(two, "b", "B"))
    assert answer.is_error
    assert stage.texts(document) == ["a", "changed"]
    blind = stage.call("applyBlockDiff", diff=f"@@REPLACE:{two}@@\nC")
    assert not blind.is_error
    assert stage.texts(document) == ["a", "C"]


def test_a_process_that_dies_while_the_kernel_writes_leaves_an_edit_in_doubt(stage: Stage) -> None:
    """Nobody can tell what a kernel made of it: the edit is told so, its plan is not made twice."""
    document = stage.document("a")
    (one,) = stage.ids(document)
    plan = stage.call("prepareBlockDiff", diff=edit(one, "a", "A")).fields["hunk_id"]
    home = notes_of(stage.opened.desk).reading.home(stage.opened.member("local"))
    execute = home.store.execute

    def dying(prepared: Prepared, keep: KeepUndo = kept_nowhere) -> ChangesDone:
        execute(prepared, keep)
        raise KeyboardInterrupt

    home.store.execute = dying  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        stage.call("apply_file_modification", hunk_id=plan)
    home.store.execute = execute  # type: ignore[method-assign]
    settled = stage.opened.journal.entries()[0]
    assert settled.state == "unsure"
    assert stage.opened.recovery.run() == ()
    assert stage.texts(document) == ["A"]
    again = stage.call("apply_file_modification", hunk_id=plan)
    assert again.data["error"] == "HUNK_NOT_FOUND"
    (recovered,) = notes_of(stage.opened.desk).recover(stage.opened.member("local"))
    assert (recovered.entry.edit_id, recovered.state) == (settled.edit_id, "failed")
    assert stage.texts(document) == ["a"]
    assert notes_of(stage.opened.desk).recover(stage.opened.member("local")) == ()


def test_a_write_that_another_process_took_for_dead_is_done_and_stays(stage: Stage) -> None:
    """It lost its turn, so it was told as in doubt; who made it knows that it was written."""
    document = stage.document("a")
    (one,) = stage.ids(document)
    home = notes_of(stage.opened.desk).reading.home(stage.opened.member("local"))
    execute, journal = home.store.execute, stage.opened.journal

    def late(prepared: Prepared, keep: KeepUndo = kept_nowhere) -> ChangesDone:
        (entry,) = journal.in_doubt()
        journal.close_all([entry.edit_id], "unsure")
        return execute(prepared, keep)

    home.store.execute = late  # type: ignore[method-assign]
    stage.done("applyBlockDiff", diff=edit(one, "a", "A"))
    assert journal.entries()[0].state == "done"
    assert notes_of(stage.opened.desk).recover(stage.opened.member("local")) == ()
    assert stage.texts(document) == ["A"]


def test_a_kernel_that_dies_is_recovered_from_when_it_is_back(
    stage: Stage, kernel: FakeKernel
) -> None:
    document = stage.document(TEN)
    ids = stage.ids(document)
    diff = edit(ids[0], "p0", "q0") + f"@@DELETE:{ids[3]}@@\n@@AFTER:{ids[5]}@@\nnew\n"
    before = stage.state()
    kernel.habits.begin(at_3="gone")
    answer = stage.call("applyBlockDiff", diff=diff)
    assert answer.is_error
    member = stage.opened.member("local")
    (left,) = notes_of(stage.opened.desk).recover(member)
    assert left.state == "unsure"  # it is not back yet
    kernel.gone = False
    kernel.habits.begin()
    assert stage.state() != before
    (recovered,) = notes_of(stage.opened.desk).recover(member)
    assert recovered.state == "failed"
    assert stage.state() == before


def test_notes_that_others_change_at_each_attempt(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What met the last attempt is told, not that there were many."""
    document = stage.document(TEN)
    attempts: list[Prepared] = []

    def execute(_: KernelStore, prepared: Prepared, keep: KeepUndo = kept_nowhere) -> ChangesDone:
        attempts.append(prepared)
        raise ContentChanged(f"changed for the {len(attempts)}th time")

    monkeypatch.setattr(KernelStore, "execute", execute)
    report = stage.refused("applyBlockDiff", **arguments_of(stage, "applyBlockDiff", document))
    assert report["error"] == "CONTENT_CHANGED", report
    assert f"for the {len(attempts)}th time" in report["reason"]
    assert len(attempts) > 1


def test_what_was_put_behind_a_block_stays_where_that_moves_away(stage: Stage) -> None:
    document = stage.document("a\n\nb\n\nc")
    first, _, last = stage.ids(document)
    diff = f"@@AFTER:{first}@@\nn\n@@MOVE:{first}@@\n@@AFTER:{last}@@\n@@AFTER:{first}@@\nm"
    stage.done("applyBlockDiff", diff=diff)
    assert stage.texts(document) == ["n", "b", "c", "a", "m"]


@pytest.mark.parametrize(("new", "more"), [("- t", "- u"), ("> t", "u")])
def test_nothing_is_put_at_the_end_of_what_is_replaced(stage: Stage, new: str, more: str) -> None:
    (block,) = stage.ids(stage.document("a"))
    refused = stage.refused(
        "applyBlockDiff", diff=f"@@REPLACE:{block}@@\n{new}\n@@APPEND:{block}@@\n{more}"
    )
    assert refused["problems"][0]["code"] == "CONFLICTING_HUNKS"
