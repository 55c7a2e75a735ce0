"""Count the files and the Python calls that a prepare and an apply of one small edit run through.

    python scripts/count_hops.py

Only code of copydesk counts, in the thread that makes the call and warm: the tenth edit.
"""

from __future__ import annotations

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


def main() -> None:
    """Ten edits; the last one is told."""
    with tempfile.TemporaryDirectory() as root:
        (Path(root) / "f").write_text("".join(f"line {i}\n" for i in range(200)))
        with open_workspace(root, Config()) as desk:
            for i in range(10):
                edit = {"path": "f", "range": "100~101", "content": f"new {i}\nlines\n"}
                plan, prepared = hops(desk, "prepare_file_range_edit", **edit)
                _, applied = hops(desk, "apply_file_modification", hunk_id=plan["hunk_id"])
    print(f"prepare_file_range_edit: {prepared}\napply_file_modification: {applied}")


if __name__ == "__main__":
    main()
