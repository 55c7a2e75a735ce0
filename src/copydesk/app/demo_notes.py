"""The guided run of notes: from a search to an undo, on a copy of the manuals.

What lives here: the story, told as it happens, every step of it checked. What
must not: anything that a user's own call would not do.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, cast

from copydesk.app import terminal
from copydesk.app.config import Config
from copydesk.app.demo import command
from copydesk.app.opening import Opened, open_workspace
from copydesk.tools.report import Lang

_SOUGHT = "long documents page"
_NEW = "A document of more than some twenty blocks is read in slices."


class StepFailed(Exception):
    """A step of the run did not end as it must."""


def demo_notes(*, keep: bool, lang: Lang) -> int:
    """Run all steps in a new folder; the exit status."""
    folder = Path(tempfile.mkdtemp(prefix="copydesk-demo-notes-"))
    try:
        with as_file(files("copydesk.tools") / "manuals") as manuals:
            for toolset in ("notes", "ws_mod"):
                shutil.copytree(manuals / toolset / "en", folder / toolset)
        with open_workspace(str(folder), Config(member="demo", lang=lang)) as opened:
            try:
                _story(opened, folder)
            except StepFailed as failed:
                terminal.complain(f"the demo failed: {failed}")
                return 1
        _head("Done: every step ended as it must")
        if keep:
            _say(f"The workspace of this run: {folder}")
        _say("In a folder of your own: copydesk notes ls, and the toolset notes for your agent:")
        _say(f"  {command()} mcp --root FOLDER --toolsets notes")
        return 0
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _story(opened: Opened, folder: Path) -> None:
    def call(tool: str, *, expect: str = "success", **arguments: Any) -> dict[str, Any]:
        answer = opened.call("demo", tool, arguments, lang=opened.config.lang)
        data = dict(answer.data)
        outcome = data.get("error", data.get("status"))
        if outcome != expect:
            raise StepFailed(f"{tool}: {expect} expected, got {answer.text[:600]}")
        return {**data, "_text": answer.text, "_diff": answer.diff}

    before = _bytes(folder)
    _head("1. A folder of Markdown files is a notebook: the manuals of copydesk")
    _quote(call("listNotebooks")["_text"])
    if _bytes(folder) != before:
        raise StepFailed("looking changed a file")
    _say("No file was changed; ids are kept beside them.")

    _head("2. Find a document, and read a page of it with ids")
    found = call("searchBlocks", query=_SOUGHT, limit=1)["blocks"]
    document = cast(str, found[0]["root_id"])
    page = call("getBlockContent", blockId=document, slice="0:3")
    _quote(page["_text"])
    _, paragraph, *_ = _headers(page["content"])
    block_id, text = paragraph

    _head("3. A diff for two blocks, shown first: nothing is written")
    diff = (
        f"@@{block_id}@@\n<<<<<<< SEARCH\n{text}\n=======\n{_NEW}\n>>>>>>> REPLACE\n\n"
        f"@@AFTER:{block_id}@@\n- one page after the other\n- each block under its id\n"
    )
    _quote(diff)
    _quote(call("applyBlockDiff", diff=diff, dryRun=True)["_diff"])
    if _bytes(folder) != before:
        raise StepFailed("the dry run wrote to a file")

    _head("4. What does not fit is refused as a whole, and all of it is told")
    wrong = diff.replace(text.split(" ")[1], "another", 1) + "\n@@DELETE:20200101000000-nowhere@@\n"
    _quote(call("applyBlockDiff", expect="BLOCK_DIFF_REFUSED", diff=wrong)["_text"])

    _head("5. Applied: these lines change, and no other byte")
    done = call("applyBlockDiff", diff=diff)
    after = _bytes(folder)
    changed = [name for name in before if before[name] != after[name]]
    if changed != done["paths"]:
        raise StepFailed(f"other files changed: {changed}")
    for row in done["results"]:
        _say(row["operation"])

    _head("6. Taken back: the very bytes are there again, and the ids")
    call("undo_file_modification", expect="ok", edit_id=done["edit_ids"][0])
    if _bytes(folder) != before:
        raise StepFailed("the undo did not bring the bytes back")
    again = call("getBlockContent", blockId=document, slice="0:3")
    if again["content"] != page["content"]:
        raise StepFailed("the ids are others")
    _say("Every file is what it was.")


def _headers(content: str) -> list[tuple[str, str]]:
    """The ids and texts of a page of blocks."""
    parts = content.split("\n@@")[1:]
    pairs = (part.split("@@", 1) for part in parts)
    return [(block_id, rest.partition("\n")[2].strip("\n")) for block_id, rest in pairs]


def _bytes(folder: Path) -> dict[str, bytes]:
    """All Markdown files."""
    found = sorted(folder.rglob("*.md"))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def _head(text: str) -> None:
    print(f"\n{terminal.strong(text, terminal.colours(sys.stdout))}")


def _say(text: str) -> None:
    print(f"  {terminal.safe(text)}")


def _quote(text: str) -> None:
    coloured = terminal.diff(text.rstrip("\n"), terminal.colours(sys.stdout))
    for line in coloured.split("\n"):
        print(f"    {line}")
    sys.stdout.flush()
