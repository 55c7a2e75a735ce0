"""The text of a file as it is searched: UTF-8 with LF for every line end, no byte order mark.

What lives here: `Plain`, and the way back from its offsets to the file's bytes.
What must not: the search. Invariant: every whole character and line end of the
plain text is known by the bytes that it stands for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from copydesk.errors import EncodingRefused
from copydesk.text.encoding import Encoding
from copydesk.text.escapes import has_raw
from copydesk.text.snapshot import Snapshot

Span = tuple[int, int]
"""Bytes [start, stop), 0-based."""


class Plain:
    """The text to search in: `data`. Make one with `of`."""

    def __init__(self, base: Snapshot, data: bytes, own: bytes | None) -> None:
        self.base, self.data, self._own = base, data, own

    @staticmethod
    def of(base: Snapshot) -> Plain:
        """UTF-8 and unknown bytes as they are; other encodings as the UTF-8 of their text.

        Raises EncodingRefused for the few texts that cannot be mapped back.
        """
        mark = len(base.encoding.bom)
        if base.encoding.name in ("utf-8", "unknown"):
            body = base.data[mark:] if mark else base.data
            return Plain(base, _with_lf(body), None)
        own = _transcoded(base)
        return Plain(base, _with_lf(own), own)

    def needle(self, text: str) -> bytes | None:
        """What to seek for a text; None when no file of this encoding holds it."""
        text = text.replace("\r\n", "\n")
        if text.isascii():
            return text.encode()
        if self.base.encoding.known and not has_raw(text):
            return text.encode()
        try:
            return self._coded(text)
        except EncodingRefused:
            return None

    def find(self, pattern: re.Pattern[str]) -> list[tuple[Span, str]]:
        """All places of a pattern, overlapping ones too, and what stands there, with LF alone."""
        if self._own is None:
            text = self.base.encoding.text(self.data)
        else:
            text = self.data.decode("utf-8", "surrogatepass")
        found: list[tuple[Span, str]] = []
        at = byte = 0
        match = pattern.search(text)
        while match:
            byte += len(self._coded(text[at : match.start()]))
            at = match.start()
            found.append(((byte, byte + len(self._coded(match[0]))), match[0]))
            match = pattern.search(text, at + 1)
        spans = self.original([span for span, _ in found])
        return [(span, text) for span, (_, text) in zip(spans, found, strict=True)]

    def _coded(self, text: str) -> bytes:
        """A part of the text as it stands in `data`."""
        if self._own is None:
            return self.base.encoding.bytes_of(text)
        return text.encode("utf-8", "surrogatepass")

    def original(self, spans: Sequence[Span]) -> list[Span]:
        """The spans in the bytes of the file."""
        mark = len(self.base.encoding.bom)
        body = len(self.base.data) - mark
        if self._own is None and len(self.data) == body:
            return [(a + mark, b + mark) for a, b in spans] if mark else list(spans)
        marks = sorted({at for span in spans for at in span})
        if self._own is None:
            found = with_returns(self.base.data, marks, mark)
        else:
            found = self._from_transcoded(self._own, marks)
        there = dict(zip(marks, found, strict=True))
        return [(there[start], there[stop]) for start, stop in spans]

    def _from_transcoded(self, own: bytes, marks: list[int]) -> Iterator[int]:
        """Offsets in the UTF-8 of the text as offsets in the file, line by line."""
        base, line, at, there = self.base, 0, 0, len(self.base.encoding.bom)
        for mark in with_returns(own, marks):
            ends = own.count(b"\n", at, mark)
            if ends:
                line += ends
                at = own.rfind(b"\n", at, mark) + 1
                there = base.start(line)
            head = own[at:mark].decode("utf-8", "surrogatepass")
            there += length_of(base.encoding, base.data[there : there + 4 * len(head)], head)
            at = mark
            yield there


def length_of(encoding: Encoding, raw: bytes, head: str) -> int:
    """How many bytes of `raw` the text `head` is, which is how `raw` starts when it is decoded.

    Not always as many as `head` would be encoded in: some encodings write one
    character in two ways. Raises EncodingRefused where `head` ends within what
    one code stands for.
    """
    own = len(encoding.bytes_of(head))
    if encoding.text(raw[:own]) == head:
        return own
    for size in range(len(raw) + 1):
        if encoding.text(raw[:size]) == head:
            return size
    raise EncodingRefused(encoding.name, "bytes that do not decode", 0)


def with_returns(data: bytes, marks: Sequence[int], start: int = 0) -> Iterator[int]:
    """Offsets from `start` without the CR of CRLF, sorted, as offsets in `data`."""
    at, plain = start, 0
    for mark in marks:
        step = mark - plain
        while step:
            ahead = at + step
            step = data.count(b"\r\n", at, ahead)
            if data[ahead - 1 : ahead + 1] == b"\r\n":
                step += 1  # the offset fell between the two bytes of a line end
            at = ahead
        plain = mark
        yield at


def _with_lf(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n") if b"\r" in data else data


def _transcoded(base: Snapshot) -> bytes:
    """The text of a file that is not UTF-8, in UTF-8, with the same lines."""
    encoding = base.encoding
    first, last = len(encoding.bom), len(base.data)
    last -= (last - first) % encoding.unit
    text = encoding.text(base.data[first:last])
    if encoding.unit == 1 and text.count("\n") != base.data.count(b"\n"):
        raise EncodingRefused(encoding.name, "bytes that do not decode", 0)
    return text.encode("utf-8", "surrogatepass")
