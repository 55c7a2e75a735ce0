"""Count the files and the Python calls that one small edit runs through, and one block diff.

    python scripts/count_hops.py

Only code of copydesk counts, in the thread that makes the call and warm: the tenth edit.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import FrameType

import copydesk
from copydesk.app.config import Config
from copydesk.app.workspace import OpenWorkspace, open_workspace

PACKAGE = str(Path(copydesk.__file__).parent)


def hops(desk: OpenWorkspace, tool: str, **arguments: object) -> tuple[dict[str, object], str]:
    """The fields of the answer, and what was counted."""
    files: Counter[str] = Counter()
    functions: set[object] = set()
    built_in = 0

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal built_in
        name = frame.f_code.co_filename
        if not name.startswith(PACKAGE):
            return
        if event == "call":
            files[name] += 1
            functions.add(frame.f_code)
        elif event == "c_call":
            built_in += 1

    sys.setprofile(profile)
    try:
        answer = desk.call("local", tool, arguments)
    finally:
        sys.setprofile(None)
    told = f"{len(files)} files, {len(functions)} functions, {files.total()} calls"
    return dict(answer.fields), f"{told}, {built_in} built-in"


def block_of(desk: OpenWorkspace) -> str:
    """The id of the first paragraph of the only note."""
    listed = desk.call("local", "listNotebooks", {}).data
    (note,) = re.findall(r"'id': '([^']+)'", str(listed))[-1:]
    page = desk.call("local", "getBlockContent", {"blockId": note, "slice": "0:2"}).data
    return re.findall(r"@@(\S+)@@Paragraph\n", str(page["content"]))[0]


def main() -> None:
    """Ten edits of a file and ten of a note; the last ones are told."""
    with tempfile.TemporaryDirectory() as root:
        (Path(root) / "f").write_text("".join(f"line {i}\n" for i in range(200)))
        (Path(root) / "n.md").write_text("".join(f"Paragraph {i}.\n\n" for i in range(40)))
        with open_workspace(root, Config()) as desk:
            for i in range(10):
                edit = {"path": "f", "range": "100~101", "content": f"new {i}\nlines\n"}
                plan, prepared = hops(desk, "prepare_file_range_edit", **edit)
                _, applied = hops(desk, "apply_file_modification", hunk_id=plan["hunk_id"])
            block = block_of(desk)
            for i in range(10):
                diff = f"@@REPLACE:{block}@@\nrevision {i}\n"
                done, written = hops(desk, "applyBlockDiff", diff=diff)
                assert done["status"] == "success", done
    print(f"prepare_file_range_edit: {prepared}")
    print(f"apply_file_modification: {applied}")
    print(f"applyBlockDiff: {written}")


if __name__ == "__main__":
    main()
