"""openhands-aci, in process: the editor that its agents call."""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.contestant import FILE, Contestant, Job, Refused, Unsupported


class OpenHands(Contestant):
    """`OHEditor`."""

    def open(self, root: Path) -> None:
        """Make the editor."""
        logging.disable(logging.CRITICAL)
        super().open(root)
        self._editor: Any = import_module("openhands_aci.editor.editor").OHEditor()

    def edit(self, job: Job) -> Callable[[], object]:
        """One edit: by number it inserts only, so both are replacements of text."""
        if len(job.changes) > 1:
            raise Unsupported
        (change,) = job.changes
        return self.replace(FILE, "\n".join(change.old), "\n".join(change.new))

    def replace(self, path: str, old: str, new: str) -> Callable[[], object]:
        """`str_replace`."""
        return lambda: self._call(
            command="str_replace", path=str(self.root / path), old_str=old, new_str=new
        )

    def read(self, first: int, last: int, total: int) -> Callable[[], str]:
        """`view` with a range."""
        where = str(self.root / FILE)
        return lambda: self._call(command="view", path=where, view_range=[first, last])

    def _call(self, **arguments: Any) -> str:
        try:
            result = self._editor(**arguments)
        except Exception as refused:
            raise Refused(str(refused)) from None
        if getattr(result, "error", None):
            raise Refused(str(result.error))
        return str(result.output)
