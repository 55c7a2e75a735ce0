"""copydesk as a library, in process; plans, bases and journal in the state folder."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.contestant import FILE, Contestant, Job, Refused


class Library(Contestant):
    """`OpenWorkspace.call`, with the answer's text made. Option: `durability`."""

    def open(self, root: Path) -> None:
        """Open the workspace."""
        from copydesk.app.config import Config
        from copydesk.app.workspace import open_workspace

        super().open(root)
        config = Config(
            answer_tokens=1_000_000,  # 500 lines are asked for
            durability="fast" if self.options.get("durability") == "fast" else "full",
            toolsets=("ws_mod", "batch"),
        )
        self._opened = open_workspace(str(root), config, shared=True)

    def close(self) -> None:
        """Close the workspace."""
        self._opened.close()

    def edit(self, job: Job) -> Callable[[], object]:
        """A batch is one call; other edits are prepared and applied."""
        changes = job.changes
        if job.how == "batch":
            edits = [
                {"old_string": "\n".join(c.old), "new_string": "\n".join(c.new)} for c in changes
            ]
            return lambda: self._call("BatchEdit", path=FILE, edits=edits)
        (change,) = changes
        if job.how == "line":
            content = "".join(f"{line}\n" for line in change.new)
            return lambda: self._planned(
                "prepare_file_range_edit", path=FILE, range=str(change.line), content=content
            )
        anchor, added = change.old[0], "".join(f"{line}\n" for line in change.new[1:])
        return lambda: self._planned(
            "prepare_file_insert_after", path=FILE, anchor=anchor, content=added
        )

    def replace(self, path: str, old: str, new: str) -> Callable[[], object]:
        """The tool for one replacement."""
        return lambda: self._call("Edit", path=path, old_string=old, new_string=new)

    def read(self, first: int, last: int, total: int) -> Callable[[], str]:
        """A range; the count of lines comes with it."""

        def call() -> str:
            shown = self._call("read_file", path=FILE, range=f"{first}~{last}")
            if str(total) not in shown:
                raise Refused("the count of lines is not told")
            return shown

        return call

    def read_end(self, lines: int) -> Callable[[], str]:
        """A range from the end."""
        return lambda: self._call("read_file", path=FILE, range=f"-{lines}~")

    def _planned(self, tool: str, **arguments: Any) -> str:
        shown = self._call(tool, **arguments)
        found = re.search(r"hunk_id\W+([0-9a-f]{8})", shown)
        if found is None:
            raise Refused(shown)
        return self._call("apply_file_modification", hunk_id=found[1])

    def _call(self, tool: str, **arguments: Any) -> str:
        answer = self._opened.call("local", tool, arguments)
        if "log_id" in answer.text:
            raise RuntimeError(answer.text)  # a crash is no refusal
        if answer.is_error:
            raise Refused(answer.text)
        return answer.text
