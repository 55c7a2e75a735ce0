"""aider-chat, in process: its edit blocks, as its coder applies them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

from bench.contestant import FILE, Contestant, Job, Refused


class Aider(Contestant):
    """`EditBlockCoder.apply_edits` on one file."""

    def open(self, root: Path) -> None:
        """Make what the coder reads and writes files with."""
        from aider.coders.editblock_coder import EditBlockCoder
        from aider.io import InputOutput

        super().open(root)
        self._apply = EditBlockCoder.apply_edits
        self._coder = SimpleNamespace(
            io=InputOutput(pretty=False, yes=True),
            abs_root_path=lambda path: str(root / path),
            get_rel_fname=lambda path: path,
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
