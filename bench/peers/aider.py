"""aider-chat, in process: its edit blocks, as its coder applies them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bench.contestant import FILE, Contestant, Job, Refused


class Aider(Contestant):
    """`EditBlockCoder.apply_edits` on one file."""

    def open(self, root: Path) -> None:
        """Make what the coder reads and writes files with."""
        super().open(root)
        coder = import_module("aider.coders.editblock_coder").EditBlockCoder
        self._apply: Any = coder.apply_edits
        self._coder = SimpleNamespace(
            io=import_module("aider.io").InputOutput(pretty=False, yes=True),
            abs_root_path=lambda path=FILE: str(root / path),
            get_rel_fname=str,
            abs_fnames=set(),
            fence=("```", "```"),
        )

    def edit(self, job: Job) -> Callable[[], object]:
        """A block for each edit; each of them reads and writes the file."""
        blocks = [
            (FILE, "".join(f"{x}\n" for x in c.old), "".join(f"{x}\n" for x in c.new))
            for c in job.changes
        ]
        return lambda: self._make(blocks)

    def replace(self, path: str, old: str, new: str) -> Callable[[], object]:
        """One block."""
        return lambda: self._make([(path, f"{old}\n", f"{new}\n")])

    def _make(self, blocks: list[tuple[str, str, str]]) -> None:
        try:
            self._apply(self._coder, blocks)
        except ValueError as refused:
            raise Refused(str(refused)) from None
