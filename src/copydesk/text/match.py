"""Where texts stand in a text: all of them in one pass, each counted with overlaps.

What lives here: exact search in bytes, but for line ends: a line feed in what is
sought matches LF and CRLF. What must not: any near miss (`text.near`), any
choice. Invariant: a span found is bytes of the original text, at whole
characters and whole line ends.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from copydesk.errors import EncodingRefused
from copydesk.text.snapshot import Snapshot

FEW = 12
"""Up to so many texts are sought one by one; more of them at once, by an automaton."""

SHOWN = 20
"""How many places of one text are kept; all are counted."""

_SHORT = 4
_CHUNK = 8 << 20


@dataclass(frozen=True, slots=True)
class Matches:
    """The places of one text: how many, and the first of them as byte spans [start, stop)."""

    count: int
    spans: tuple[tuple[int, int], ...]


def find_all(base: Snapshot, wanted: Sequence[str], *, every: bool = False) -> tuple[Matches, ...]:
    """The matches of each text, in their order; each must not be empty.

    A text that the file's encoding cannot hold has none. `every` keeps all
    places of few texts, not only the first ones.
    """
    plain = _Plain.of(base)
    needles = [plain.needle(text) for text in wanted]
    found = _search(plain.data, needles, len(base.data) if every else SHOWN)
    spans = plain.original(
        [
            (at, at + len(needle or b""))
            for places, needle in zip(found, needles, strict=True)
            for at in places.starts
        ]
    )
    rows: list[Matches] = []
    used = 0
    for places in found:
        rows.append(Matches(places.count, tuple(spans[used : used + len(places.starts)])))
        used += len(places.starts)
    return tuple(rows)


@dataclass(slots=True)
class _Places:
    """Places in the plain text: how many, and the first."""

    count: int
    starts: list[int]


class _Plain:
    """The text to search in, with LF for every line end, and the way back to the original."""

    def __init__(self, base: Snapshot, data: bytes, encoding: str) -> None:
        self.base, self.data, self._encoding = base, data, encoding

    @staticmethod
    def of(base: Snapshot) -> _Plain:
        """UTF-8 and unknown bytes as they are; other encodings as the UTF-8 of their text."""
        name = base.encoding.name
        if name in ("utf-8", "unknown"):
            return _Plain(base, base.data.replace(b"\r\n", b"\n"), "")
        raw = _transcoded(base).encode("utf-8", "surrogatepass")
        return _Plain(base, raw.replace(b"\r\n", b"\n"), name)

    def needle(self, text: str) -> bytes | None:
        """What to seek for a text; None when no file of this encoding holds it."""
        text = text.replace("\r\n", "\n")
        if not self.base.encoding.known and not text.isascii():
            return None
        return text.encode()

    def original(self, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """The spans in the original bytes."""
        marks = sorted({mark for span in spans for mark in span})
        if self._encoding:
            there = dict(zip(marks, self._encoded(marks), strict=True))
        elif len(self.data) == len(self.base.data):
            return spans
        else:
            there = dict(zip(marks, with_returns(self.base.data, marks), strict=True))
        return [(there[start], there[stop]) for start, stop in spans]

    def _encoded(self, marks: list[int]) -> Iterator[int]:
        """Offsets in the UTF-8 of the text as offsets in the bytes of its own encoding."""
        raw = _transcoded(self.base).encode("utf-8", "surrogatepass")
        at_raw = at_own = 0
        for mark in with_returns(raw, marks):
            piece = raw[at_raw:mark].decode("utf-8", "surrogatepass")
            at_own += len(piece.encode(self._encoding, "surrogateescape"))
            at_raw = mark
            yield at_own


def _transcoded(base: Snapshot) -> str:
    """The text of a file that is not UTF-8, from which its very bytes can be made again."""
    name = base.encoding.name
    try:
        text = base.data.decode(name, "surrogateescape")
        same = text.encode(name, "surrogateescape") == base.data
    except UnicodeError:
        same, text = False, ""
    if not same:
        raise EncodingRefused(name, "bytes that do not decode", 0)
    return text


def with_returns(data: bytes, marks: list[int]) -> Iterator[int]:
    """Offsets in `data` without the CR of CRLF, sorted, as offsets in `data`."""
    at = plain = 0
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


def _search(data: bytes, needles: Sequence[bytes | None], most: int) -> list[_Places]:
    """The places of each needle; equal needles are sought once."""
    distinct = list(dict.fromkeys(needle for needle in needles if needle))
    many = [needle for needle in distinct if len(needle) >= _SHORT]
    found: dict[bytes, _Places] = {}
    if len(many) > FEW:
        found.update(_at_once(data, many))
    for needle in distinct:
        if needle not in found:
            found[needle] = _one(data, needle, most)
    return [found[needle] if needle else _Places(0, []) for needle in needles]


def _one(data: bytes, needle: bytes, most: int) -> _Places:
    """All places of one needle, overlapping ones too."""
    starts: list[int] = []
    count, at = 0, data.find(needle)
    while at >= 0:
        count += 1
        if count <= most:
            starts.append(at)
        at = data.find(needle, at + 1)
    return _Places(count, starts)


def _at_once(data: bytes, needles: list[bytes]) -> dict[bytes, _Places]:
    """All places of many needles in one pass, chunk by chunk, so that memory is bounded."""
    try:
        from ahocorasick_rs import BytesAhoCorasick, Implementation
    except ImportError:  # an extra; without it each needle is sought by itself
        return {}
    automaton = BytesAhoCorasick(needles, implementation=Implementation.ContiguousNFA)
    places = [_Places(0, []) for _ in needles]
    longest = max(map(len, needles))
    view = memoryview(data)
    for start in range(0, len(data), _CHUNK):
        piece = view[start : start + _CHUNK + longest - 1]
        limit = min(_CHUNK, len(piece))
        for index, first, _ in automaton.find_matches_as_indexes(piece, overlapping=True):
            if first >= limit:
                continue
            place = places[index]
            place.count += 1
            if place.count <= SHOWN:
                place.starts.append(start + first)
    return dict(zip(needles, places, strict=True))


def overlapping(spans: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """All pairs of spans, by their indices, that share a byte; touching is no overlap.

    Spans are not empty. Sorted by first index, then second.
    """
    order = sorted((start, stop, index) for index, (start, stop) in enumerate(spans))
    starts = [start for start, _, _ in order]
    pairs: list[tuple[int, int]] = []
    for place, (_, stop, index) in enumerate(order):
        for other in order[place + 1 : bisect_left(starts, stop)]:
            pairs.append((min(index, other[2]), max(index, other[2])))
    return tuple(sorted(pairs))
