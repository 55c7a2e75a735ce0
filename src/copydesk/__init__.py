"""copydesk: the copy desk for AI agents.

`Desk` is the entry point of the library. It is imported on first use, so that
`import copydesk` is fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from copydesk.app.library import Desk

__version__ = "0.1.0"

__all__ = ["Desk", "__version__"]


def __getattr__(name: str) -> object:
    if name == "Desk":
        from copydesk.app.library import Desk

        return Desk
    raise AttributeError(f"module 'copydesk' has no attribute {name!r}")
