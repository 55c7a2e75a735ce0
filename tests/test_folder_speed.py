"""How long a folder of notes takes: printed, for a person to read (`-m slow -s`)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from copydesk.notes.protocol import Change, Delete, InsertText, Update
from copydesk.store.files import Files
from support.note_stores import folder_store, write_files

pytestmark = pytest.mark.slow

PART = (
    "## Part {0}\n\nSome words of part {0}, as people write them, long enough to be wrapped\n"
    "over two or three lines, with *a bit* of `markup` and a [link](https://example.org/{0})\n"
    "in them, and so on until it is a paragraph.\n\n- item one of {0}\n- item two of {0}, longer\n"
    "  - nested\n\n> A quote in part {0},\n> of two lines.\n\n```py\nx = {0}\nprint(x)\n```\n\n"
)


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Print how long it takes, and how much of that the processor."""
    start, busy = time.perf_counter(), time.process_time()
    yield
    took, worked = time.perf_counter() - start, time.process_time() - busy
    print(f"{what}: {took * 1000:.1f} ms, {worked * 1000:.1f} ms of work")


def test_a_document_of_five_megabytes(tmp_path: Path) -> None:
    root, state = tmp_path / "notes", tmp_path / "state"
    root.mkdir()
    state.mkdir()
    text = "".join(PART.format(number) for number in range(5_000_000 // len(PART)))
    (root / "Large.md").write_text(text)
    with Files(str(root), durability="fast") as files:
        store = folder_store(files, str(state))
        with timed("\nfirst search, cold"):
            (found,) = store.search("words of part 5000", 1)
        with timed("one block, warm"):
            assert store.blocks([found.id])[found.id].markdown == found.markdown
        with timed("section of a heading, warm"):
            assert len(store.children(store.breadcrumb(found.id)[-2].id)) == 4
        parts = [block for block in store.children(found.root_id) if block.kind == "p"]
        hunks: list[Change] = []
        for at in range(100):
            block = parts[at * 100]
            kind = at % 3
            if kind == 0:
                hunks.append(Update(block.id, f"written {at}"))
            elif kind == 1:
                hunks.append(InsertText(f"new {at}\n\nand more", "after", block.id))
            else:
                hunks.append(Delete(block.id))
        with timed("100 hunks: prepare"):
            prepared = store.prepare(hunks)
        write_files(files, prepared)
        with timed("100 hunks: execute"):
            store.execute(prepared)
        with timed("one block, after it"):
            assert store.blocks([parts[0].id])[parts[0].id].markdown == "written 0"
        with timed("one block, warm again"):
            assert parts[200].id not in store.blocks([parts[200].id])
        with timed("one hunk: prepare"):
            prepared = store.prepare([Update(parts[1].id, "once more")])
        write_files(files, prepared)
        with timed("one hunk: execute"):
            store.execute(prepared)
        store.close()
        store = folder_store(files, str(state))
        with timed("one block, after a restart"):
            assert store.blocks([parts[1].id])[parts[1].id].markdown == "once more"
        store.close()


def test_two_thousand_files(tmp_path: Path) -> None:
    root, state = tmp_path / "notes", tmp_path / "state"
    state.mkdir()
    for number in range(2000):
        folder = root / f"a{number % 40}"
        folder.mkdir(parents=True, exist_ok=True)
        text = "".join(PART.format(number * 10 + at) for at in range(6))
        (folder / f"n{number}.md").write_text(text)
    with Files(str(root), durability="fast") as files:
        with timed("\nopen 2,000 files of 3 kB and search, cold"):
            store = folder_store(files, str(state))
            found = store.search("quote in part 777", 10)
        assert found
        with timed("search again"):
            assert store.search("quote in part 777", 10) == found
        with timed("a word that is everywhere"):
            assert len(store.search("words", 64)) == 64
        with timed("an id that nobody knows"):
            assert store.blocks(["20200101000000-nowhere"]) == {}
        store.close()
        with timed("open and search, warm"):
            store = folder_store(files, str(state))
            assert store.search("quote in part 777", 10) == found
        with timed("one block"):
            assert store.blocks([found[0].id])
        with timed("all documents looked at"):
            assert len(store.search("Part", 100_000)) == 2000 * 18
        store.close()
        with timed("open and one block, warm, all known"):
            store = folder_store(files, str(state))
            assert store.blocks([found[0].id])
        store.close()
        for path in state.rglob("cache*"):
            path.unlink()
        with timed("open and one block, without the cache, all known"):
            store = folder_store(files, str(state))
            assert store.blocks([found[0].id])
        store.close()
