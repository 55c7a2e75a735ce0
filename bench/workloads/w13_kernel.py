"""W13: notes in a SiYuan kernel, beside the kernel's own calls in the same run.

Only where SIYUAN_URL and SIYUAN_TOKEN name a kernel; it gets notebooks, removed in the end. The
tools are called as an agent does, with journal and read-back.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any
from unittest import mock

from bench.arena import Cell
from bench.results import Bar, Section, Table, cell_of, ratio_bar, under_bar
from bench.setting import Setting
from copydesk.app.config import Config, NotesConfig
from copydesk.app.workspace import open_workspace
from copydesk.notes.kernel.api import Address, KernelHttp, KernelRefused

BLOCKS, HUNKS, NOTEBOOKS, MOST_REQUESTS = 2_000, 100, 25, 60
OWN_WRITE, OWN_READ = "limit: updateBlock and flush", "limit: getBlockKramdown"
OWN_SEARCH, OWN_LIST = "limit: fullTextSearchBlock", "limit: lsNotebooks"
ONE, MANY, UNDO = "one hunk", f"{HUNKS} hunks", f"{HUNKS} hunks undone"
READ, SEARCH, LIST = "one block read", "search", f"listNotebooks of {NOTEBOOKS} and more"
PAIRS = ((ONE, OWN_WRITE), (READ, OWN_READ), (SEARCH, OWN_SEARCH), (LIST, OWN_LIST))

Ask = Callable[[str, Mapping[str, object]], Any]


def run(bench: Setting) -> Section:
    """All figures, each several times; without a kernel there are none."""
    section = Section("W13", "Notes in a SiYuan kernel")
    url, token = os.environ.get("SIYUAN_URL", ""), os.environ.get("SIYUAN_TOKEN", "")
    if not url or not token:
        section.notes.append("Not measured: SIYUAN_URL and SIYUAN_TOKEN name no kernel.")
        return section
    http = KernelHttp(Address.of(url), token)
    version = http.ask("/api/system/version", {})
    section.notes.append(
        f"One document of {BLOCKS:,} paragraphs in a kernel {version}, among {NOTEBOOKS} "
        f"notebooks; load of the machine {os.getloadavg()[0]:.1f}. Wall time; the kernel's own "
        "calls take turns with those of the tools."
    )
    notes = NotesConfig(siyuan_url=url, siyuan_token=token)
    with ExitStack() as held:
        held.callback(http.close)
        boxes = [held.enter_context(_notebook(http.ask, at)) for at in range(NOTEBOOKS)]
        root = held.enter_context(tempfile.TemporaryDirectory(dir=bench.home))
        tools = held.enter_context(open_workspace(root, Config(toolsets=("notes",), notes=notes)))

        def call(tool: str, **arguments: object) -> Any:
            answer = tools.call("local", tool, arguments)
            if answer.is_error:
                raise RuntimeError(str(answer.text))
            return answer.data

        cells, requests = _measured(http.ask, call, boxes[0], bench.scale.races)
    every = list(cells.values())
    for name, own in PAIRS:
        section.tables.append(Table(name, [cells[name], cells[own]], own, memory=False))
    section.tables.append(Table("many", [cells[MANY], cells[UNDO]], memory=False))
    listed = f"listNotebooks of {NOTEBOOKS} in at most {MOST_REQUESTS} requests"
    section.bars = [
        ratio_bar("a hunk within 3 × of updateBlock and flush", every, ONE, OWN_WRITE, 3),
        under_bar(f"{HUNKS} hunks under 5 s", cell_of(every, MANY), 5),
        Bar(listed, str(requests), requests <= MOST_REQUESTS),
    ]
    return section


def _measured(
    ask: Ask, call: Callable[..., Any], box: str, turns: int
) -> tuple[dict[str, Cell], int]:
    """The figures of all turns, and the requests of one list of notebooks."""
    text = "\n\n".join(f"paragraph {at} with some words" for at in range(BLOCKS))
    made = ask(
        "/api/filetree/createDocWithMd", {"notebook": box, "path": "/Long", "markdown": text}
    )
    ask("/api/sqlite/flushTransaction", {})
    ids = [row["id"] for row in ask("/api/block/getChildBlocks", {"id": made})]
    own = {name for pair in PAIRS for name in pair[1:]}
    names = [name for pair in PAIRS for name in pair] + [MANY, UNDO]
    cells = {name: Cell(name, "limit" if name in own else "copydesk") for name in names}
    requests = 0

    def timed(name: str, act: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        answer = act()
        cells[name].seconds.append(time.perf_counter() - start)
        return answer

    def write(block: str, words: str) -> None:
        body = {"id": block, "dataType": "markdown", "data": words}
        ask("/api/block/updateBlock", body)
        ask("/api/sqlite/flushTransaction", {})

    for turn in range(turns):
        one, other, *rest = ids[turn * (HUNKS + 2) :][: HUNKS + 2]
        words = f"other words {turn}"
        query = {"query": f"paragraph {turn + 1500}", "method": 0, "page": 1, "pageSize": 20}
        timed(OWN_WRITE, lambda block=one, words=words: write(block, words))
        diff = _diff([other], words)
        timed(ONE, lambda diff=diff: call("applyBlockDiff", diff=diff))
        timed(OWN_READ, lambda block=one: ask("/api/block/getBlockKramdown", {"id": block}))
        timed(READ, lambda block=other: call("getBlockContent", blockId=block))
        timed(OWN_SEARCH, lambda query=query: ask("/api/search/fullTextSearchBlock", query))
        timed(SEARCH, lambda query=query: call("searchBlocks", query=query["query"]))
        timed(OWN_LIST, lambda: ask("/api/notebook/lsNotebooks", {}))
        timed(LIST, lambda: call("listNotebooks"))
        diff = _diff(rest, words)
        done = timed(MANY, lambda diff=diff: call("applyBlockDiff", diff=diff))
        timed(UNDO, lambda done=done: call("undo_file_modification", edit_id=done["edit_ids"][0]))
    with mock.patch.object(KernelHttp, "ask", autospec=True, side_effect=KernelHttp.ask) as asked:
        call("listNotebooks")
        requests = asked.call_count
    return cells, requests


def _diff(blocks: list[str], words: str) -> str:
    return "".join(f"@@REPLACE:{block}@@\n{words} in {block}\n" for block in blocks)


@contextmanager
def _notebook(ask: Ask, number: int) -> Iterator[str]:
    """A notebook with a document in it; its id."""
    made = ask("/api/notebook/createNotebook", {"name": f"copydesk bench {number}"})
    box = str(made["notebook"]["id"])
    try:
        body = {"notebook": box, "path": "/Short", "markdown": f"words of notebook {number}"}
        ask("/api/filetree/createDocWithMd", body)
        yield box
    finally:
        with suppress(KernelRefused):  # "directory not empty", while it writes its index
            ask("/api/notebook/removeNotebook", {"notebook": box})
