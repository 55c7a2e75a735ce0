"""Edit, insert after and delete each block of a kernel's own guide, and undo each.

    SIYUAN_URL=… SIYUAN_TOKEN=… python -m bench.guide [--blocks N] [--minutes N] [--part 0/1]

The kernel (3.7 or newer) opens its guide, a notebook of its repository, or `--box` names another
notebook; nothing is left changed. After each change all other blocks of the document must be what
they were, after its undo the whole document, to the sign but for zero-width blanks and escapes.
Prints counts by kind of block and every refusal; ends with 1 unless all was exact and more than
100 changes were made for each one refused.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import cast

from copydesk.errors import Refusal
from copydesk.notes.kernel.api import Address, KernelHttp
from copydesk.notes.kernel.blocks import plain
from copydesk.notes.kernel.store import KernelStore
from copydesk.notes.protocol import (
    CONTAINERS,
    Change,
    Delete,
    InsertText,
    NoteBlock,
    Update,
    is_id,
    one_look,
)

GUIDE = "20210808180117-6v0mkxr"
ITEMS = {"u": "- new", "o": "1. new", "t": "- [ ] new"}
LEAST_RATIO = 100


class Guide:
    """A notebook of a kernel, its documents as they are now."""

    def __init__(self, url: str, token: str, box: str) -> None:
        self.http = KernelHttp(Address.of(url), token, 120.0)
        self.store = KernelStore.at(url, token, timeout_s=120.0)
        self.box = box
        if not any(one.id == box and not one.closed for one in self.store.notebooks()):
            self.http.ask("/api/notebook/openNotebook", {"notebook": box})

    def documents(self) -> list[NoteBlock]:
        """All documents, when the kernel has read the notebook that it opened."""
        for _ in range(60):
            found = list(self.store.documents(self.box, 10_000))
            if found and len(found) == len(self.store.documents(self.box, 10_000)):
                return found
            time.sleep(1)
        return []

    def blocks(self, container: str) -> Iterator[NoteBlock]:
        """All blocks in a container, parents before children."""
        for block in self.store.children(container):
            if not is_id(block.id):  # the kernel itself refuses the id of one block of its guide
                continue
            yield block
            if block.kind in CONTAINERS:
                yield from self.blocks(block.id)

    def image(self, block_id: str) -> str:
        """A block with all in it, as far as it counts."""
        body = {"id": block_id, "mode": "textmark"}
        told = cast(dict[str, str], self.http.ask("/api/block/getBlockKramdown", body))
        return plain(told["kramdown"])


def lost_lines(before: str, own: str, after: str) -> list[str]:
    """The lines of a document outside of a block that are there no more; numbers do not count."""
    lines = [Counter(_lines(image)) for image in (before, own, after)]
    return list((lines[0] - lines[1] - lines[2]).elements())


def _lines(image: str) -> list[str]:
    """The lines without indentation, quotes and numbers; those of attributes as ids."""
    image = _MARKER.sub(lambda found: f"{found[1] or ''}\n", image)
    bare = (line.lstrip(" >") for line in image.split("\n"))
    return [_UPDATED.sub("", line) for line in bare if line]


_MARKER = re.compile(
    r"^[ >]*(?:[-*+]|\d+[.)]) (\{: (?:[^\"{}\n]|\"[^\"\n]*\")*\})?(?:\[.\] )?", re.MULTILINE
)
_ATTRIBUTES = re.compile(r"(?:[-*+] )?\{: .*\}|\{\{\{.*|\}\}\}|[-*+] ?")
_UPDATED = re.compile(r'updated="\d+"|colgroup="[^"]*"')


_NO_WORDS = re.compile(
    r"\]\([^()\n]*\)|\{:[^{}\n]*\}|<[^<>]*>|\(\([0-9a-z-]+|https?:\S+"
    r"|^\s*```\S*|:[a-z0-9_]+:|^> \[!.*|&\w+;",
    re.MULTILINE,
)
_WORD = re.compile(r"[A-Za-z]{3,}|[\u4e00-\u9fff]+")
_SOURCE = re.compile(r'(src="[^"]*)"')


def another_word(block: NoteBlock) -> str:
    """The text with a letter more in its last word, as a person would change it."""
    text = block.markdown
    if block.kind in ("iframe", "video", "audio", "widget"):
        return _SOURCE.sub(r'\1x"', text, count=1)
    prose = _NO_WORDS.sub(lambda found: "\0" * len(found[0]), text)
    words = list(_WORD.finditer(prose))
    at = words[-1].end() if words else len(text)
    return f"{text[:at]}x{text[at:]}"


def changes_of(block: NoteBlock) -> Iterator[tuple[str, Change]]:
    yield "edit", Update(block.id, another_word(block))
    text = ITEMS[block.subtype] if block.kind == "i" else "new"
    yield "insert", InsertText(text, "after", block.id)
    yield "delete", Delete(block.id)


def tried(guide: Guide, document: str, block: NoteBlock, change: Change) -> tuple[str, str]:
    """`made`, `refused`, `rolled back` or `wrong`, and why."""
    before, own = guide.image(document), guide.image(block.id)
    fault = ""
    try:
        with one_look():
            prepared = guide.store.prepare([change])
        done = guide.store.execute(prepared)
    except Refusal as refusal:
        code = refusal.code
        result = "refused" if code not in ("ROLLED_BACK", "NOT_ROLLED_BACK") else "rolled back"
        if guide.image(document) != before:
            return "wrong", f"{code} changed the document: {refusal}"
        return result, str(refusal)
    lost = lost_lines(before, own, guide.image(document))
    # A container goes with the last block in it, and its own line with it.
    if lost and not (isinstance(change, Delete) and all(map(_ATTRIBUTES.fullmatch, lost))):
        fault = f"other blocks changed: {lost[:3]}"
    try:
        with one_look():
            prepared = guide.store.prepare(done.undo)
        guide.store.execute(prepared)
    except Refusal as refusal:
        return "wrong", f"undo: {refusal}"
    after = guide.image(document)
    if after != before:
        pairs = zip(before.split("\n"), after.split("\n"), strict=False)
        shown = next((f"{one!r} {other!r}" for one, other in pairs if one != other), "lines")
        return "wrong", f"undo is not exact: {shown[:300]}"
    return ("wrong", fault) if fault else ("made", "")


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("bench.guide")
    parser.add_argument("--blocks", type=int, default=10_000, help="the most blocks to try")
    parser.add_argument("--box", default=GUIDE, help="the notebook")
    parser.add_argument("--minutes", type=float, default=600, help="so long at most")
    parser.add_argument("--part", default="0/1", help="`1/4`: the second quarter of the documents")
    options = parser.parse_args(words)
    url, token = os.environ.get("SIYUAN_URL", ""), os.environ.get("SIYUAN_TOKEN", "")
    if not url or not token:
        parser.error("SIYUAN_URL and SIYUAN_TOKEN name no kernel")
    guide = Guide(url, token, options.box)
    part, parts = map(int, options.part.split("/"))
    counts: Counter[tuple[str, str, str]] = Counter()
    told: list[str] = []
    blocks = 0
    began = time.monotonic()
    for document in guide.documents()[part::parts]:
        for block in list(guide.blocks(document.id)):
            if blocks >= options.blocks or time.monotonic() - began > 60 * options.minutes:
                return summary(counts, blocks)
            blocks += 1
            for name, change in changes_of(block):
                result, why = tried(guide, document.id, block, change)
                counts[block.kind, name, result] += 1
                if result != "made":
                    told.append(f"{result}: {name} {block.kind} {block.id} {document.hpath}: {why}")
                    print(told[-1], flush=True)
        print(f"{document.hpath}: {blocks} blocks, {time.monotonic() - began:.0f} s", flush=True)
    return summary(counts, blocks)


def summary(counts: Counter[tuple[str, str, str]], blocks: int) -> int:
    total: dict[str, int] = Counter()
    for (_, _, result), count in counts.items():
        total[result] += count
    print(f"\n{blocks} blocks: {dict(total)}")
    print("| kind | change | made | refused | rolled back | wrong |\n|---|---|---|---|---|---|")
    for kind, name in sorted({(kind, name) for kind, name, _ in counts}):
        cells = [counts[kind, name, one] for one in ("made", "refused", "rolled back", "wrong")]
        print(f"| {kind or 'other'} | {name} | {' | '.join(map(str, cells))} |")
    refused = total["refused"] + total["rolled back"]
    good = not total["wrong"] and total["made"] > LEAST_RATIO * refused
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
