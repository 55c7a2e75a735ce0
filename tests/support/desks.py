"""One workspace for each test of a module: the module's `DESK` says how it is set and what it holds.

The fixture `desk` (`tests/conftest.py`) opens it; `call` is a tool's answer there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from copydesk.app.config import Config
from copydesk.app.workspace import OpenWorkspace

FAST = Config(durability="fast")


@dataclass(frozen=True)
class Setup:
    """The settings of a workspace, and the files that are there before it is opened.

    `lay` makes what is no text of a file, `sizes` are set in `copydesk.text.sizes`. Each test
    runs once for each of `stores`: "memory", "shared" (the state in files), "redis", and
    "large", where every file is a large one.
    """

    config: Config = FAST
    files: Mapping[str, str | bytes] = field(default_factory=dict[str, str | bytes])
    lay: Callable[[Path], object] | None = None
    stores: tuple[str, ...] = ("memory",)
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])

    def lay_files(self, root: Path) -> None:
        for name, data in self.files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(data.encode() if isinstance(data, str) else data)
        if self.lay is not None:
            self.lay(root)


def call(
    desk: OpenWorkspace, tool: str, /, by: str = "local", **arguments: object
) -> dict[str, Any]:
    """The data of a tool's answer."""
    return dict(desk.call(by, tool, arguments).data)
