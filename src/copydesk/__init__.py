"""copydesk: the copy desk for AI agents.

`Desk` is the front door of the library; it is fetched when it is first asked
for, so that `import copydesk` costs nothing.
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
