"""Append: new lines at the end of a file, which it may create."""

from __future__ import annotations

from copydesk.edit.kinds.base import OfContent, Place, end_of, kind
from copydesk.text.snapshot import Source


@kind
class Append(OfContent):
    """Put `content` at the end of the file; `create` makes a missing file."""

    _tool, _action = "prepare_file_append", "append"
    quotes = "this tool replaces no lines; leave it out"

    content: str
    create: bool = True

    @property
    def may_create(self) -> bool:
        return self.create

    def locate(self, base: Source) -> Place:
        return end_of(base)
