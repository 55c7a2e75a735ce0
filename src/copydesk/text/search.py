"""Exact search: the spans of texts within a text.

Spans are searched for in the bytes with LF for every line end, many texts in one pass, and counted
with overlaps. Invariant: a span found covers bytes of the original text, at whole characters and
whole line ends, and never part of a byte order mark. The package `ahocorasick_rs`, if it is there,
makes a search for many texts faster; it changes no result.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice

from copydesk.errors import EncodingRefused
from copydesk.text.diff import same_after
from copydesk.text.encoding import Encoding, has_raw
from copydesk.text.snapshot import Snapshot

Span = tuple[int, int]
"""Bytes [start, stop), 0-based."""


class NormalizedText:
    """The bytes to search in, `data`, with LF line ends. Make one with `of`."""

    def __init__(self, base: Snapshot, data: bytes, own: bytes | None) -> None:
        self.base, self.data, self._own = base, data, own

    @staticmethod
    def of(base: Snapshot) -> NormalizedText:
        """UTF-8 and unknown bytes as they are, others in UTF-8; EncodingRefused if irreversible."""
        mark = len(base.encoding.bom)
        if base.encoding.name in ("utf-8", "unknown"):
            body = base.data[mark:] if mark else base.data
            return NormalizedText(base, _with_lf(body), None)
        own = _transcoded(base)
        return NormalizedText(base, _with_lf(own), own)

    def needle(self, text: str) -> bytes | None:
        """Return the bytes to search for; None if the encoding cannot represent the text."""
        text = text.replace("\r\n", "\n")
        if text.isascii() or (self.base.encoding.known and not has_raw(text)):
            return text.encode()
        with suppress(EncodingRefused):
            return self._coded(text)
        return None

    def find(self, pattern: re.Pattern[str]) -> list[tuple[Span, str]]:
        """Return each match of a pattern, overlapping ones too: its span, and its text with LF."""
        if self._own is None:
            text = self.base.encoding.text(self.data)
        else:
            text = self.data.decode("utf-8", "surrogatepass")
        spans, texts = list[Span](), list[str]()
        at = byte = 0
        match = pattern.search(text)
        while match:
            byte += len(self._coded(text[at : match.start()]))
            at = match.start()
            spans.append((byte, byte + len(self._coded(match[0]))))
            texts.append(match[0])
            match = pattern.search(text, at + 1)
        return list(zip(self.original(spans), texts, strict=True))

    def _coded(self, text: str) -> bytes:
        """Encode a part of the text as it is in `data`."""
        if self._own is None:
            return self.base.encoding.bytes_of(text)
        return text.encode("utf-8", "surrogatepass")

    def original(self, spans: Sequence[Span]) -> list[Span]:
        """Map spans of `data` to spans of the file's bytes."""
        mark = len(self.base.encoding.bom)
        if self._own is None and len(self.data) == len(self.base.data) - mark:
            return [(a + mark, b + mark) for a, b in spans] if mark else list(spans)
        marks = sorted({at for span in spans for at in span})
        if self._own is None:
            found = with_returns(self.base.data, marks, mark)
        else:
            found = self._from_transcoded(self._own, marks)
        there = dict(zip(marks, found, strict=True))
        return [(there[start], there[stop]) for start, stop in spans]

    def _from_transcoded(self, own: bytes, marks: list[int]) -> Iterator[int]:
        """Map offsets in the UTF-8 transcoding to offsets in the file, line by line."""
        base, line, at, there = self.base, 0, 0, len(self.base.encoding.bom)
        for mark in with_returns(own, marks):
            if ends := own.count(b"\n", at, mark):
                line += ends
                at = own.rfind(b"\n", at, mark) + 1
                there = base.start(line)
            head = own[at:mark].decode("utf-8", "surrogatepass")
            there += length_of(base.encoding, base.data[there : there + 4 * len(head)], head)
            at = mark
            yield there


def length_of(encoding: Encoding, raw: bytes, head: str) -> int:
    """Return how many bytes of `raw` decode to `head`, with which the decoded `raw` begins.

    This can differ from the length of `head` encoded: some encodings write one character in two
    ways. Raises EncodingRefused if `head` ends within the text of one code.
    """
    own = len(encoding.bytes_of(head))
    if encoding.text(raw[:own]) == head:
        return own
    for size in range(len(raw) + 1):
        if encoding.text(raw[:size]) == head:
            return size
    raise EncodingRefused(encoding.name, "bytes that do not decode", 0)


def with_returns(data: bytes, marks: Sequence[int], start: int = 0) -> Iterator[int]:
    """Map sorted offsets that skip the CR of CRLF, counted from `start`, to offsets in `data`."""
    at, plain = start, 0
    for mark in marks:
        step = mark - plain
        while step:
            ahead = at + step
            step = data.count(b"\r\n", at, ahead)
            if data[ahead - 1 : ahead + 1] == b"\r\n":
                step += 1  # the offset fell between CR and LF
            at = ahead
        plain = mark
        yield at


def _with_lf(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n") if b"\r" in data else data


def _transcoded(base: Snapshot) -> bytes:
    """Transcode a file that is not UTF-8 to UTF-8, keeping its lines."""
    encoding = base.encoding
    first, last = len(encoding.bom), len(base.data)
    last -= (last - first) % encoding.unit
    text = encoding.text(base.data[first:last])
    if encoding.unit == 1 and text.count("\n") != base.data.count(b"\n"):
        raise EncodingRefused(encoding.name, "bytes that do not decode", 0)
    return text.encode("utf-8", "surrogatepass")


FEW = 4
"""Up to this many texts are searched for one by one; more at once, with an automaton."""

SHOWN = 100
"""How many matches of one text are kept; all are counted."""

_KEY = 16
"""Bytes of a key; for a shorter text the largest power of two that fits."""

_LONG_KEY = 1024
"""Bytes of a key for texts whose first key is too common; see `_size`."""

_POPULAR = 4096
"""A key in more places is not selective: a longer one is tried, then each text on its own."""

_DISTINCT = 8
_CHUNK = 1 << 18
_TABLE = 200_000
_WORTH = 2_000
"""Building the table for one byte of keys costs what it saves on this many bytes of text."""

_WASTE = 10_000


@dataclass(frozen=True, slots=True)
class Matches:
    """The matches of one text: how many, and the first of them as byte spans [start, stop)."""

    count: int
    spans: tuple[Span, ...]


def find_all(base: Snapshot, wanted: Sequence[str]) -> tuple[Matches, ...]:
    """Return the matches of each text, none of them empty; one that cannot be encoded has none."""
    plain = NormalizedText.of(base)
    needles = [plain.needle(text) for text in wanted]
    found = occurrences(plain.data, needles)
    spans = [
        (at, at + len(needle or b""))
        for (_, starts), needle in zip(found, needles, strict=True)
        for at in starts
    ]
    rest = iter(plain.original(spans))
    return tuple([Matches(count, tuple(islice(rest, len(starts)))) for count, starts in found])


def find_apart(base: Snapshot, wanted: str) -> list[Span]:
    """Return the non-overlapping matches of one text, searching from the start of the file."""
    plain = NormalizedText.of(base)
    needle = plain.needle(wanted)
    found = re.finditer(re.escape(needle), plain.data) if needle else ()
    return plain.original([match.span() for match in found])


def overlapping(spans: Iterable[Span]) -> Iterator[tuple[int, int]]:
    """Yield the index pairs of all non-empty spans that share a byte, in order of position."""
    order = sorted((start, stop, index) for index, (start, stop) in enumerate(spans))
    starts = [start for start, _, _ in order]
    for place, (_, stop, index) in enumerate(order):
        for after in range(place + 1, bisect_left(starts, stop)):
            other = order[after][2]
            yield min(index, other), max(index, other)


def places(data: bytes, keys: Sequence[bytes], most: int) -> dict[bytes, list[int]]:
    """Return up to `most` + 1 starts of each distinct key, overlaps too; keys have few sizes."""
    if len(keys) > FEW and _installed():
        return _scanned(data, keys, most)
    return {key: list(islice(_starts(data, key), most + 1)) for key in keys}


_Places = tuple[int, list[int]]
"""Matches in the normalized text: how many, and the first starts."""


def occurrences(data: bytes, needles: Sequence[bytes | None]) -> list[_Places]:
    """Return the matches of each needle, the first `SHOWN` of them; equal ones share a search."""
    distinct = list(dict.fromkeys(needle for needle in needles if needle))
    found = _at_once(data, distinct) if len(distinct) > FEW and _installed() else {}
    for needle in distinct:
        if needle not in found:
            found[needle] = _one(data, needle)
    return [found[needle] if needle else (0, []) for needle in needles]


def _starts(data: bytes, needle: bytes) -> Iterator[int]:
    at = data.find(needle)
    while at >= 0:
        yield at
        at = data.find(needle, at + 1)


def _one(data: bytes, needle: bytes) -> _Places:
    starts = list(islice(_starts(data, needle), SHOWN + 1))
    more = _count(data, needle, starts.pop()) if len(starts) > SHOWN else 0
    return len(starts) + more, starts


def _count(data: bytes, needle: bytes, at: int) -> int:
    """Count the matches of the needle from `at` on, overlaps included; divide to count repeats."""
    period = _period(needle)
    if period == len(needle):
        return data.count(needle, at)
    count = 0
    while at >= 0:
        end = at + len(needle)
        more = same_after(data, data, end, end - period) // period
        count += more + 1
        at = data.find(needle, at + more * period + 1)
    return count


def _period(needle: bytes) -> int:
    """Return the least distance, at most its length, at which the needle may follow itself."""
    borders = [0]
    for byte in needle[1:]:
        border = borders[-1]
        while border and needle[border] != byte:
            border = borders[border - 1]
        borders.append(border + (needle[border] == byte))
    return len(needle) - borders[-1]


def _at_once(data: bytes, needles: list[bytes]) -> dict[bytes, _Places]:
    """Return the matches of those needles whose key is not popular."""
    found, left = _by_keys(data, needles, _KEY)
    longer = [needle for needle in left if _size(len(needle), _LONG_KEY) > _size(len(needle), _KEY)]
    if len(longer) > FEW:
        more, _ = _by_keys(data, longer, _LONG_KEY)
        found |= more
    return found


def _by_keys(
    data: bytes, needles: list[bytes], most: int
) -> tuple[dict[bytes, _Places], list[bytes]]:
    """Search by keys of at most `most` bytes; return the matches, and needles with popular keys."""
    keyed = list(_keyed(needles, most))
    keys = [needle[offset : offset + size] for needle, offset, size in keyed]
    seen = places(data, list(dict.fromkeys(keys)), _POPULAR)
    found: dict[bytes, _Places] = {}
    left: list[bytes] = []
    for key, (needle, offset, _) in zip(keys, keyed, strict=True):
        if len(seen[key]) > _POPULAR:
            left.append(needle)
            continue
        # a negative start counts from the end, where too little is left to match
        starts = [at - offset for at in seen[key] if data.startswith(needle, at - offset)]
        found[needle] = len(starts), starts[:SHOWN]
    return found, left


def _size(length: int, most: int) -> int:
    """Return the key length for a needle of this length: one of few sizes."""
    power = 1 << min(length, most).bit_length() - 1
    half_more = power + power // 2
    return half_more if most > _KEY and half_more <= min(length, most) else power


def _keyed(needles: list[bytes], most: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield each needle with the offset and size of its key: a piece that few others have."""
    sizes = [_size(len(needle), most) for needle in needles]
    offsets = [(len(needle) - size) // 3 for needle, size in zip(needles, sizes, strict=True)]
    first = [*zip(needles, offsets, sizes, strict=True)]
    pieces = [needle[at : at + size] for needle, at, size in first]
    shared = Counter(pieces)
    rest: list[tuple[bytes, int]] = []
    for (needle, at, size), piece in zip(first, pieces, strict=True):
        if shared[piece] == 1 and len(set(piece)) >= _DISTINCT:
            yield needle, at, size
        else:
            rest.append((needle, size))
    yield from _weighed(rest)


def _weighed(needles: list[tuple[bytes, int]]) -> Iterator[tuple[bytes, int, int]]:
    """Yield keys of the given sizes for needles with much in common: the pieces fewest share.

    Of those the one with the most different bytes.
    """
    tried = [
        {at: needle[at : at + size] for at in ((len(needle) - size) * part // 3 for part in _PARTS)}
        for needle, size in needles
    ]
    shared = Counter(piece for pieces in tried for piece in pieces.values())
    for (needle, size), pieces in zip(needles, tried, strict=True):
        ranks = {
            at: (shared[piece], -min(len(set(piece)), _DISTINCT)) for at, piece in pieces.items()
        }
        yield needle, min(ranks, key=ranks.__getitem__), size


_PARTS = (1, 2, 0, 3)
"""Where pieces of a needle are tried, in thirds of it; the first is preferred."""


def _installed() -> bool:
    """Whether the automaton is installed; without it, each text is searched for on its own."""
    return find_spec("ahocorasick_rs") is not None


def _scanned(data: bytes, keys: Sequence[bytes], most: int) -> dict[bytes, list[int]]:
    """Do `places` in one pass, chunk by chunk; keys found too often are dropped."""
    from ahocorasick_rs import BytesAhoCorasick, Implementation

    found: dict[bytes, list[int]] = {key: [] for key in keys}
    live: list[bytes] = list(keys)
    start, view = 0, memoryview(data)
    chunk = _CHUNK if max(map(len, live)) <= _KEY else max(_CHUNK >> 3, 1)  # more sizes, more ends
    while live and start < len(data):
        table = sum(map(len, live))
        dense = table <= _TABLE and table * _WORTH <= len(data)
        kind = Implementation.DFA if dense else Implementation.ContiguousNFA
        automaton = BytesAhoCorasick(live, implementation=kind)
        lists = [found[key] for key in live]
        reach = max(map(len, live)) - 1
        waste = 0
        while start < len(data) and waste < _WASTE + 50 * len(live):
            piece = view[start : start + chunk + reach]
            for index, first, _ in automaton.find_matches_as_indexes(piece, overlapping=True):
                if first < chunk:
                    starts = lists[index]
                    if len(starts) <= most:
                        starts.append(start + first)
                    else:
                        waste += 1
            start += chunk
        live = [key for key in live if len(found[key]) <= most]
    return found
