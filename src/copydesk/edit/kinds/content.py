"""New lines for whole lines of a text: what appending, inserting and replacing lines share.

Invariant: every byte outside the place stays, except that a newline may be added at the end of the
file, which is then reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from copydesk.edit.kinds.base import (
    Composed,
    Normalized,
    Place,
    Request,
    Span,
    Terms,
    check_text,
    content_lines,
    is_unclosed,
)
from copydesk.errors import ContentRequired, EncodingRefused, InvalidArgs
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.encoding import NO_ESCAPES, Escapes
from copydesk.text.snapshot import Text


class OfContent(Request):
    """A request whose new text is its `content`; an empty one is allowed if it may delete lines."""

    __slots__ = ()
    _may_delete: ClassVar[bool] = False
    content: str

    @property
    def text(self) -> str | None:
        return self.content

    def with_text(self, text: str) -> Request:
        changed: dict[str, Any] = {"content": text}
        return replace(self, **changed)

    def check(self) -> None:
        check_text("content", self.content)

    def compose(self, base: Text, place: Place, *, created: bool) -> Composed:
        contents = [(self.content, (place.start, place.stop))]
        return compose_lines(base, contents, may_delete=self._may_delete)


class Replacing(OfContent):
    """A request whose content replaces lines, which `expected_old` may quote."""

    __slots__ = ()
    _may_delete = True

    def unguarded(self, place: Place, terms: Terms) -> tuple[Span, ...]:
        is_quoted = place.foot is None or terms.expected_old is not None
        return () if is_quoted else ((place.start, place.stop),)


def compose_lines(
    base: Text, contents: Sequence[tuple[str, Span]], *, may_delete: bool
) -> Composed:
    """Put each content in place of its lines [start, stop), or before `start`."""
    pieces = [_piece(content, base, part, may_delete) for content, part in contents]
    unclosed = is_unclosed(base)
    change, added = _joined(pieces, base, unclosed=unclosed)
    lines, newlines, converted, closed = list[str](), set[bytes](), 0, True
    escapes = NO_ESCAPES
    for piece in pieces:
        if piece.escapes is not NO_ESCAPES:
            escapes = Escapes.of((escapes, piece.escapes))
        lines += piece.lines
        newlines |= {piece.newline}
        converted += piece.converted
        closed = closed and piece.closed
    normalized = Normalized(
        file_eof_has_newline=not unclosed,
        content_eof_has_newline=closed,
        file_eof_newline_added=added,
        content_eof_newline_added=not closed,
        newline_style="mixed" if len(newlines) > 1 else base.newline_name(newlines.pop()),
        content_newlines_converted=converted,
    )
    return Composed(change, tuple(lines), normalized, escapes)


@dataclass(frozen=True, slots=True)
class _Piece:
    """New lines for some lines of the text: one edit's result, except for the end of the file."""

    part: Span
    edit: Edit
    lines: list[str]
    newline: bytes
    converted: int
    closed: bool
    escapes: Escapes


def _piece(content: str, base: Text, part: Span, may_delete: bool) -> _Piece:
    first, last = part
    if not first:  # a lone byte order mark is kept as a character
        content = base.encoding.unmarked(content) or content
    if not content and not may_delete:
        raise ContentRequired()
    if not content and first == last == base.line_count > 0:
        raise ContentRequired(total_lines=base.line_count)
    if content.endswith("\r"):
        raise InvalidArgs("content", "ends in a lone CR, which a newline would make CRLF")
    newline = base.newline_near(first, last)
    written = lines = content_lines(content)
    crlf = content.count("\r\n")
    converted = content.count("\n") - crlf if b"\r" in newline else crlf
    closed = not content or content.endswith("\n")
    escapes = NO_ESCAPES
    if "\\x" in content:
        meant, escapes = base.encoding.meant(content, base.raw(first, last))
        written = lines if meant is content else content_lines(meant)
    edit = Edit(base.start(first), base.start(last), _encoded(written, newline, base))
    return _Piece(part, edit, lines, newline, converted, closed, escapes)


def _encoded(lines: list[str], newline: bytes, base: Text) -> bytes:
    """The bytes of the lines, each with this terminator."""
    end = "\r\n" if b"\r" in newline else "\n"
    with suppress(EncodingRefused):
        return base.encoding.bytes_of(end.join((*lines, "")))
    # the refusal names the place of the character in its line
    return b"".join([base.encoding.bytes_of(line) + newline for line in lines])


def _joined(pieces: list[_Piece], base: Text, *, unclosed: bool) -> tuple[ChangeSet, bool]:
    """The change of all pieces, and whether the last line, if `unclosed`, got a newline."""
    last = base.line_count
    at_end = [piece for piece in pieces if piece.part[1] == last]
    replaces_last = bool(at_end) and any(piece.part[0] < last for piece in at_end)
    if base.ragged and not replaces_last:
        raise EncodingRefused(base.encoding.name, "a broken code unit at the end of the file", 0)
    edits = [piece.edit for piece in pieces]
    if unclosed and at_end and not replaces_last:
        edits.insert(0, Edit(base.size, base.size, at_end[0].newline))
    if unclosed and not at_end:
        edits.append(Edit(base.size, base.size, base.newline_near(last - 1, last)))
    added = unclosed and (not replaces_last or any(piece.edit.new for piece in at_end))
    return ChangeSet.of(base.size, edits), added
