"""copydesk: the copy desk for AI agents.

`Desk` is the entry point of the library; the names beside it, which `copydesk.app.library` lists,
are what its methods take, return and raise. All are imported on first use, so that `import
copydesk` is fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # what __getattr__ returns, for type checkers
    from copydesk.app.library import *  # noqa: F403
    from copydesk.errors import *  # noqa: F403

__version__ = "0.2.0"


def __getattr__(name: str) -> object:
    # The import system asks for submodules here too, before it imports them.
    if name[:1].isupper() or name in ("__all__", "cancelled_by"):
        from copydesk.app import library

        if name == "__all__" or name in vars(library)["__all__"]:
            return getattr(library, name)
    raise AttributeError(f"module 'copydesk' has no attribute {name!r}")


def __dir__() -> list[str]:
    from copydesk.app import library

    return [*globals(), *vars(library)["__all__"]]
