"""mcp-text-editor, in process: read for the hashes, then edit, as its clients must."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.contestant import FILE, Contestant, Job, Refused


class TextEditor(Contestant):
    """`TextEditor` of the package."""

    def open(self, root: Path) -> None:
        """Make the editor and the loop it runs in."""
        super().open(root)
        self._editor: Any = import_module("mcp_text_editor.text_editor").TextEditor()
        self._loop = asyncio.new_event_loop()

    def close(self) -> None:
        """Close the loop."""
        self._loop.close()

    def edit(self, job: Job) -> Callable[[], object]:
        """All edits in one call, by line numbers."""
        changes = job.changes
        ranges = [{"start": c.line, "end": c.line} for c in changes]
        texts = ["".join(f"{line}\n" for line in c.new) for c in changes]
        return lambda: self._run(self._edited(FILE, ranges, texts))

    def replace(self, path: str, old: str, new: str) -> Callable[[], object]:
        """It knows no strings: its client finds the line in what it read."""
        return lambda: self._run(self._replaced(path, old, new))

    def read(self, first: int, last: int, total: int) -> Callable[[], str]:
        """A range; the count of lines comes with it."""
        spec = {"file_path": str(self.root / FILE), "ranges": [{"start": first, "end": last}]}

        async def read() -> str:
            found = await self._editor.read_multiple_ranges([spec])
            return str(found[spec["file_path"]]["ranges"][0]["content"])

        return lambda: self._run(read())

    async def _edited(self, path: str, ranges: list[dict[str, int]], texts: list[str]) -> None:
        where = str(self.root / path)
        read = await self._editor.read_multiple_ranges([{"file_path": where, "ranges": ranges}])
        seen = read[where]
        patches = [
            {**one, "line_start": at["start"], "line_end": at["end"], "contents": text}
            for one, at, text in zip(
                ({"range_hash": r["range_hash"]} for r in seen["ranges"]),
                ranges,
                texts,
                strict=True,
            )
        ]
        await self._write(where, seen["file_hash"], patches)

    async def _replaced(self, path: str, old: str, new: str) -> None:
        where = str(self.root / path)
        spec = {"file_path": where, "ranges": [{"start": 1, "end": None}]}
        seen = (await self._editor.read_multiple_ranges([spec]))[where]
        lines = seen["ranges"][0]["content"].split("\n")
        at = lines.index(old) + 1
        patch = {
            "line_start": at,
            "line_end": at,
            "contents": f"{new}\n",
            "range_hash": self._editor.calculate_hash(f"{old}\n"),
        }
        await self._write(where, seen["file_hash"], [patch])

    async def _write(self, where: str, digest: str, patches: list[dict[str, Any]]) -> None:
        done = await self._editor.edit_file_contents(where, digest, patches)
        if done.get("result") != "ok":
            raise Refused(str(done.get("reason")))

    def _run(self, work: Any) -> Any:
        return self._loop.run_until_complete(work)
