"""Block diffs in a folder where blocks stand close: no other block changes, or none at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from copydesk.notes.folder.store import FolderStore
from copydesk.notes.protocol import Change, NoteBlock, Prepared
from copydesk.notes.tools import notes_of
from support.note_workspaces import Stage, edit, stage_at
from support.rows import each_row


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage_at(tmp_path_factory.mktemp("notes"), "folder") as opened:
        yield opened


def laid(stage: Stage, text: str) -> dict[str, NoteBlock]:
    """The blocks of the note, of this text from now on, by kind and text."""
    (stage.root / "One.md").write_bytes(text.encode())
    return {f"{block.kind}:{block.markdown}": block for block in blocks(stage).values()}


def blocks(stage: Stage) -> dict[str, NoteBlock]:
    """All blocks of the note, by their ids."""
    store = notes_of(stage.opened.desk).reading.store(stage.opened.member("local"))
    waiting = [*store.documents(stage.box, 1)]
    found: dict[str, NoteBlock] = {}
    for block in waiting:
        found[block.id] = block
        waiting += store.children(block.id) if block.kind in "dlib" else ()
    return found


def play(stage: Stage, text: str, target: str, action: str, new: str = "") -> str:
    """Do one thing to a block of a note of this text; the text then, or why it was refused.

    Every block that it is not about has to be what it was.
    """
    before = laid(stage, text)
    target_id = before[target].id
    diff = f"@@{action}:{target_id}@@\n{new}"
    if action == "EDIT":
        diff = edit(target_id, target.partition(":")[2], new)
    answer = stage.call("applyBlockDiff", diff=diff)
    got = (stage.root / "One.md").read_bytes().decode()
    if answer.is_error:
        assert got == text
        return f"REFUSED {answer.text}"
    ids = {block.id: block for block in before.values()}

    def around(block_id: str) -> set[str]:
        return {block_id} | (around(ids[block_id].parent_id) if block_id else set())

    about = around(target_id)
    if action != "AFTER":
        about |= {block_id for block_id in ids if target_id in around(block_id)}
    now = blocks(stage)
    for block in ids.values():
        if block.id not in about:
            after = now[block.id]
            assert (after.kind, after.markdown) == (block.kind, block.markdown)
    for edit_id in answer.data["edit_ids"]:
        stage.done("undo_file_modification", edit_id=edit_id)
        assert (stage.root / "One.md").read_bytes().decode() == text
    return got


@each_row("text target action new expected", [
    ("- [ ] t1\n- p1\n", "i:- [ ] t1", "AFTER", "- [ ] t2", "- [ ] t1\n- [ ] t2\n- p1\n"),
    ("- [ ] t1\n- p1\n", "i:- p1", "AFTER", "* [ ] t2", "- [ ] t1\n- p1\n- [ ] t2\n"),
    ("- a\n- p1\n", "i:- p1", "REPLACE", "- [ ] p1b", "- a\n- [ ] p1b\n"),
    ("- [ ] a1\n- plain\n", "i:- [ ] a1", "EDIT", "- [x] a1", "- [x] a1\n- plain\n"),
    ("- [ ] a1\n- plain\n", "p:a1", "EDIT", "- [x] a1", "- [x] a1\n- plain\n"),
    ("- [ ] a1\n- plain\n", "i:- plain", "EDIT", "- [x] b", "- [ ] a1\n- [x] b\n"),
    ("- [ ] a1\n- plain\n", "i:- plain", "DELETE", "", "- [ ] a1\n"),
    ("1. a\n", "i:1. a", "AFTER", "2. [ ] b", "1. a\n2. [ ] b\n"),
    ("1. a\n", "i:1. a", "AFTER", "- [ ] b", "REFUSED"),
    ("1. [ ] a\n", "i:1. [ ] a", "REPLACE", "- [ ] b", "1. [ ] b\n"),
    ("1. [ ] a\n", "i:1. [ ] a", "REPLACE", "- b", "REFUSED"),
])  # fmt: skip
def test_a_list_takes_items_and_tasks(
    stage: Stage, text: str, target: str, action: str, new: str, expected: str
) -> None:
    got = play(stage, text, target, action, new)
    assert got == expected or (got.startswith("REFUSED") and expected == "REFUSED")


@each_row("text new expected", [
    ("- [ ] a\n", "- b", "- [ ] a\n- b\n"),
    ("- a\n", "- [ ] b\n- c", "- a\n- [ ] b\n- c\n"),
    ("1. [ ] a\n", "2. b", "1. [ ] a\n2. b\n"),
    ("1. [ ] a\n", "- [ ] b", "1. [ ] a\n1. [ ] b\n"),
])  # fmt: skip
def test_items_and_tasks_are_appended_to_a_list(
    stage: Stage, text: str, new: str, expected: str
) -> None:
    document = next(one.id for one in laid(stage, text).values() if one.kind == "d")
    stage.done("appendContent", markdown=new, targetType="document", target=document)
    assert (stage.root / "One.md").read_text() == expected
    document = next(one.id for one in laid(stage, text).values() if one.kind == "d")
    stage.done("applyBlockDiff", diff=f"@@APPEND:{document}@@\n{new}")
    assert (stage.root / "One.md").read_text() == expected


def test_a_task_moves_into_a_list_of_plain_items(stage: Stage) -> None:
    ids = {key: one.id for key, one in laid(stage, "- [ ] a\n- [ ] b\n\ntext\n\n- c\n").items()}
    stage.done("applyBlockDiff", diff=f"@@MOVE:{ids['i:- [ ] a']}@@\n@@AFTER:{ids['i:- c']}@@")
    assert (stage.root / "One.md").read_text() == "- [ ] b\n\ntext\n\n- c\n- [ ] a\n"
    assert ids["i:- [ ] a"] in blocks(stage)


@each_row("text target expected", [
    (">   ```\n>   f\n>   ```\n> - a\n>\n>   b\n", "c:```\nf\n```", "> - a\n>\n>   b\n"),
    ("> x\n>\n>   - a\n>\n>     b\n", "p:x", ">   - a\n>\n>     b\n"),
    ("- > x\n  >\n  >  - a\n", "p:x", "- >  - a\n"),
    (">\tx\n> - a\n>\n>   b\n", "p:x", "> - a\n>\n>   b\n"),
])  # fmt: skip
def test_what_is_behind_the_first_block_of_a_quote_keeps_its_indentation(
    stage: Stage, text: str, target: str, expected: str
) -> None:
    assert play(stage, text, target, "DELETE") == expected


@each_row("text target expected", [
    ("para\n- a\n- c\n", "p:a", "para\n\n-\n- c\n"),
    ("> para\n> - a\n> - c\n", "p:a", "> para\n>\n> -\n> - c\n"),
    ("para\r\n1. a\r\n", "p:a", "para\r\n\r\n1.\r\n"),
    ("- [ ] a\n  - b\n", "p:b", "- [ ] a\n\n  -\n"),
    ("- a\n- c\n", "p:a", "-\n- c\n"),
    ("- a\n\ntext\n\n    code\n", "p:text", "REFUSED"),
    ("- a\n\ntext\n\n  - b\n", "p:text", "REFUSED"),
    ("[^1]: foot\n\nSet\n\n\tcode\n", "p:Set", "REFUSED"),
    ("- [ ] one\n- [X] two\n", "p:two", "- [ ] one\n- [X] \n"),
    ("- [ ] one\n\n  - two\n", "p:one", "- [ ] \n\n  - two\n"),
    ("- [ ] one\n  - two\n- [x] b\n", "p:one", "- [ ] \n  - two\n- [x] b\n"),
    ("- [ ] one\n\n  two\n", "p:one", "- [ ] two\n"),
    ("para\n- [ ] a\n", "p:a", "para\n- [ ] \n"),
])  # fmt: skip
def test_a_deletion_leaves_all_else_as_it_is(
    stage: Stage, text: str, target: str, expected: str
) -> None:
    got = play(stage, text, target, "DELETE")
    assert got == expected or (got.startswith("REFUSED") and expected == "REFUSED"), got


def test_why_a_block_is_not_deleted(stage: Stage) -> None:
    said = play(stage, "- a\n\ntext\n\n    code\n", "p:text", "DELETE")
    assert "without it, what stands beside it would become another block" in said


def test_what_stands_in_the_way_may_be_deleted_with_it(stage: Stage) -> None:
    ids = {key: one.id for key, one in laid(stage, "- a\n\ntext\n\n    code\n\nend\n").items()}
    code = next(ids[key] for key in ids if key.startswith("c:"))
    stage.done("applyBlockDiff", diff=f"@@DELETE:{ids['p:text']}@@\n@@DELETE:{code}@@\n")
    assert (stage.root / "One.md").read_text() == "- a\n\nend\n"
    assert blocks(stage).keys() == {*ids.values()} - {ids["p:text"], code}


@each_row("text target new expected", [
    ("x\n\n   three\n", "p:three", "  four", "x\n\n  four\n"),
    ("x\n\n   three\n", "p:three", "four", "x\n\n   four\n"),
    ("   # H\n", "h:# H", "  # G", "  # G\n"),
    (" - a\n - b\n", "l:- a\n- b", "   - a\n   - c", "   - a\n   - c\n"),
    (" - a\n - b\n", "i:- b", "   - c\n     d", " - a\n - c\n   d\n"),
    ("- a\n- b\n", "i:- b", "  - c", "- a\n- c\n"),
    ("-   a\n\n    <b>\n    x\n", "p:a", "  c\n d", "-   c\n    d\n\n    <b>\n    x\n"),
    ("> x\n>\n>   y\n", "p:y", "  z", "> x\n>\n>   z\n"),
    ("  | a |\n  |---|\n", "t:| a |\n|---|", "   | b |\n   |---|", "   | b |\n   |---|\n"),
    ("x\n\n   ```\n   f\n   ```\n", "c:```\nf\n```", "    g", "x\n\n    g\n"),
])  # fmt: skip
def test_blanks_before_a_new_text_are_its_own(
    stage: Stage, text: str, target: str, new: str, expected: str
) -> None:
    assert play(stage, text, target, "EDIT", new) == expected


def test_a_note_that_another_program_keeps_changing_is_refused(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = stage.root / "One.md"
    document = next(one.id for one in laid(stage, "a\n").values() if one.kind == "d")
    prepare = FolderStore.prepare

    def disturbed(store: FolderStore, changes: Sequence[Change], **settings: bool) -> Prepared:
        prepared = prepare(store, changes, **settings)
        note.write_text(note.read_text() + "other\n")
        return prepared

    monkeypatch.setattr(FolderStore, "prepare", disturbed)
    arguments = {"markdown": "mine", "targetType": "document", "target": document}
    answer = stage.call("appendContent", **arguments)
    assert (answer.is_error, answer.data["error"]) == (True, "FAILED")
    assert answer.text.startswith("[FAILED] Another program changed the notes")
    assert "mine" not in note.read_text()


@pytest.mark.parametrize("update", [False, True])
def test_links_to_a_deleted_heading_cannot_be_changed(stage: Stage, update: bool) -> None:
    ids = {key: one.id for key, one in laid(stage, "# A\n\n[to](#a)\n").items()}
    answer = stage.call("applyBlockDiff", diff=f"@@DELETE:{ids['h:# A']}@@", updateLinks=update)
    (warning,) = answer.data["warnings"]
    assert "cannot be changed with it: One.md" in warning
    assert "updateLinks" not in answer.text


@each_row("text expected", [
    ("- a\n\n# H\n\n    code\n\n# Z\n", "- a\n\n# Z\n\n# H\n\n    code\n"),
    ("- a\n\n# H\n\n- b\n\n# Z\n", "- a\n\n# Z\n\n# H\n\n- b\n"),
    ("p\n\n# H\n\n- b\n\nq\n\n# Z\n\n    code\n", "p\n\n# Z\n\n    code\n\n# H\n\n- b\n\nq\n"),
])  # fmt: skip
def test_a_section_moves_away_from_a_list(stage: Stage, text: str, expected: str) -> None:
    ids = {key: one.id for key, one in laid(stage, text).items()}
    stage.done("applyBlockDiff", diff=f"@@MOVE:{ids['h:# H']}@@\n@@AFTER:{ids['h:# Z']}@@")
    assert (stage.root / "One.md").read_text() == expected
    assert blocks(stage).keys() == set(ids.values())


@pytest.mark.parametrize("first", ["p:p", "l:- x", "l:- y"])
def test_a_list_is_deleted_without_the_one_that_it_would_become_one_with(
    stage: Stage, first: str
) -> None:
    kept = "x" if first == "l:- y" else "y"
    ids = {key: one.id for key, one in laid(stage, "- x\n\np\n\n- y\n").items()}
    gone = [first, *({"p:p", "l:- y" if kept == "x" else "l:- x"} - {first})]
    diff = "".join(f"@@DELETE:{ids[key]}@@\n" for key in gone)
    stage.done("applyBlockDiff", diff=diff)
    assert (stage.root / "One.md").read_text() == f"- {kept}\n"
    assert ids[f"l:- {kept}"] in blocks(stage)
