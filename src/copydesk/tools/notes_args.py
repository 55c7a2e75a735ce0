"""The arguments of the tools of notes: what they mean when they are not given, and together.

What lives here: what both the schemas (`notes`) and the calls (`notes_calls`) go by.
"""

from __future__ import annotations

from copydesk.edit.request import BlockDiff
from copydesk.text.relpath import RelPath
from copydesk.tools.wire import Args

LISTED = 20
"""So many documents of each notebook are listed, unless told otherwise."""

FOUND = 20
"""So many blocks a search shows, unless told otherwise."""

_NOWHERE = RelPath(())


def request_of(args: Args) -> BlockDiff:
    """The diff of a call; its path is told by the blocks that it names."""
    return BlockDiff(_NOWHERE, args.text("diff"), args.flag("strictMatch", True))
