"""How copydesk is played with the habits of Edit, by a model that knows no better play.

The policy: each call that Edit's agent would make becomes the nearest call of copydesk, with the
same strings. `Grep` is `ripgrep_search` with the same options of rg, `Read` is `read_file` of the
same lines, `Edit` is `replace_text`, one call for each place (and for each file, with `all`),
`Write` writes the whole file. Versions, ids of edits, patches and edits of several places are left
unused; after a refusal the lines are read again, and an undo is one more replacement.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.agents import WRITE, EditUnread, started
from bench.contestant import Refused


class PlayedLikeEdit(EditUnread):
    """The real server, called as a model calls Edit that asks for no `Read`."""

    name = "copydesk, played like Edit"

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._client = started(root)
        self.offered, self.offered_tokens = self._client.offered(), 0

    def close(self) -> None:
        """End the server."""
        self._client.close()

    def read(self, path: str, first: int, last: int) -> None:
        """The same lines."""
        self.knows(path, range(first - 1, last))
        self._call("read_file", path=path, range=f"{first}~{last}")

    def find(self, pattern: str, path: str, before: int = 0, after: int = 0) -> None:
        """The same search, with the options of rg."""
        self.hits(pattern, path, before, after)
        around = [f"-C{before}"] if before == after else [f"-B{before}", f"-A{after}"]
        given = {"rg_args": around} if before or after else {}
        self._call("ripgrep_search", pattern=pattern, path=path, **given)

    def write(self, path: str, text: str) -> None:
        """The whole file."""
        self._call(WRITE, path=path, content=text)

    def _edit(self, path: str, old: str, new: str, *, replace_all: bool = False) -> bool:
        every = {"all": True} if replace_all else {}
        return self._call("replace_text", path=path, old=old, new=new, **every)

    def _call(self, tool: str, **given: Any) -> bool:
        try:
            self.told(tool, given, self._client.call(tool, given))
        except Refused as refused:
            self.told(tool, given, str(refused))
            return False
        return True
