"""Where texts stand in a text: all of them in one pass, each counted with overlaps.

What lives here: exact search in bytes, but for line ends: a line feed in what is
sought matches LF and CRLF. What must not: any near miss (`text.near`), any
choice. Invariant: a span found is bytes of the original text, at whole
characters and whole line ends; the byte order mark is never part of one.

Many texts are sought by a key of each, a piece of one of few sizes: no more keys
than there are sizes end at one byte, so memory and time are bounded whatever
the texts have in common; each place of a key is then looked at. Where keys are
in too many places, longer ones are tried once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from typing import NamedTuple

from copydesk.text.align import same_after
from copydesk.text.plain import Plain, Span
from copydesk.text.snapshot import Snapshot

FEW = 4
"""Up to so many texts are sought one by one; more of them at once, by an automaton."""

SHOWN = 100
"""How many places of one text are kept; all are counted."""

_KEY = 16
"""Bytes of a key; of a shorter text the largest power of two that it has."""

_LONG_KEY = 1024
"""Bytes of a key of texts whose first one tells little; see `_size`."""

_POPULAR = 4096
"""A key in more places than this tells little; a longer one is tried, then each text by itself."""

_DISTINCT = 8
_CHUNK = 1 << 18
_TABLE = 200_000
_WORTH = 2_000
"""A byte of the keys costs a table as much as it saves on so many bytes of text."""

_WASTE = 10_000


@dataclass(frozen=True, slots=True)
class Matches:
    """The places of one text: how many, and the first of them as byte spans [start, stop)."""

    count: int
    spans: tuple[Span, ...]


def find_all(base: Snapshot, wanted: Sequence[str]) -> tuple[Matches, ...]:
    """The matches of each text, in their order; each must not be empty.

    A text that the file's encoding cannot hold has none.
    """
    plain = Plain.of(base)
    needles = [plain.needle(text) for text in wanted]
    found = _search(plain.data, needles)
    spans = plain.original(
        [
            (at, at + len(needle or b""))
            for (_, starts), needle in zip(found, needles, strict=True)
            for at in starts
        ]
    )
    rest = iter(spans)
    return tuple([Matches(count, tuple(islice(rest, len(starts)))) for count, starts in found])


def find_apart(base: Snapshot, wanted: str) -> list[Span]:
    """The places of one text, from the start of the file, none overlapping one before."""
    plain = Plain.of(base)
    needle = plain.needle(wanted)
    spans: list[Span] = []
    at = plain.data.find(needle) if needle else -1
    while needle and at >= 0:
        spans.append((at, at + len(needle)))
        at = plain.data.find(needle, at + len(needle))
    return plain.original(spans)


def overlapping(spans: Iterable[Span]) -> Iterator[tuple[int, int]]:
    """All pairs of spans, by their indices, that share a byte; touching is no overlap.

    Spans are not empty. The smaller index of a pair comes first; the pairs are
    in the order of their places.
    """
    order = sorted((start, stop, index) for index, (start, stop) in enumerate(spans))
    starts = [start for start, _, _ in order]
    for place, (_, stop, index) in enumerate(order):
        for after in range(place + 1, bisect_left(starts, stop)):
            other = order[after][2]
            yield min(index, other), max(index, other)


def places(data: bytes, keys: Sequence[bytes], most: int) -> dict[bytes, list[int]]:
    """Where each key stands, in order, overlaps too; of one in more places, `most` + 1 of them.

    Keys are distinct and of few sizes, such as the pieces of longer texts are.
    """
    if len(keys) > FEW and _installed():
        return _scanned(data, keys, most)
    return {key: list(islice(_starts(data, key), most + 1)) for key in keys}


class _Places(NamedTuple):
    """Places in the plain text: how many, and the first."""

    number: int
    starts: list[int]


def _search(data: bytes, needles: Sequence[bytes | None]) -> list[_Places]:
    """The places of each needle; equal needles are sought once."""
    distinct = list(dict.fromkeys(needle for needle in needles if needle))
    found: dict[bytes, _Places] = {}
    if len(distinct) > FEW and _installed():
        found = _at_once(data, distinct)
    for needle in distinct:
        if needle not in found:
            found[needle] = _one(data, needle)
    return [found[needle] if needle else _Places(0, []) for needle in needles]


def _starts(data: bytes, needle: bytes) -> Iterator[int]:
    at = data.find(needle)
    while at >= 0:
        yield at
        at = data.find(needle, at + 1)


def _one(data: bytes, needle: bytes) -> _Places:
    """All places of one needle, overlapping ones too."""
    starts = list(islice(_starts(data, needle), SHOWN + 1))
    if len(starts) <= SHOWN:
        return _Places(len(starts), starts)
    return _Places(SHOWN + _count(data, needle, starts.pop()), starts)


def _count(data: bytes, needle: bytes, at: int) -> int:
    """How often the needle stands from `at` on, with overlaps; it does stand there.

    Where the text goes on repeating the needle's period, its places are that
    far apart, and no others are: they are counted by a division.
    """
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
    """The least distance, at most its length, at which the needle may follow itself."""
    borders = [0] * len(needle)
    border = 0
    for at in range(1, len(needle)):
        while border and needle[at] != needle[border]:
            border = borders[border - 1]
        border += needle[at] == needle[border]
        borders[at] = border
    return len(needle) - border


def _at_once(data: bytes, needles: list[bytes]) -> dict[bytes, _Places]:
    """The places of the needles that have a key which is not popular."""
    found, left = _by_keys(data, needles, _KEY)
    longer = [needle for needle in left if _size(len(needle), _LONG_KEY) > _size(len(needle), _KEY)]
    if len(longer) > FEW:
        more, _ = _by_keys(data, longer, _LONG_KEY)
        found |= more
    return found


def _by_keys(
    data: bytes, needles: list[bytes], most: int
) -> tuple[dict[bytes, _Places], list[bytes]]:
    """The places of needles by keys of at most so many bytes, and those whose key is popular."""
    groups: dict[bytes, list[tuple[bytes, int]]] = {}
    for needle, offset, size in _keyed(needles, most):
        groups.setdefault(needle[offset : offset + size], []).append((needle, offset))
    seen = places(data, list(groups), _POPULAR)
    found: dict[bytes, _Places] = {}
    left: list[bytes] = []
    for key, members in groups.items():
        if len(seen[key]) > _POPULAR:
            left += [needle for needle, _ in members]
            continue
        for needle, offset in members:
            starts = [
                at - offset
                for at in seen[key]
                if at >= offset and data.startswith(needle, at - offset)
            ]
            found[needle] = _Places(len(starts), starts[:SHOWN])
    return found, left


def _size(length: int, most: int) -> int:
    """How long the key is of a needle so long: one of few sizes."""
    power = 1 << min(length, most).bit_length() - 1
    half_more = power + power // 2
    return half_more if most > _KEY and half_more <= min(length, most) else power


def _keyed(needles: list[bytes], most: int) -> Iterator[tuple[bytes, int, int]]:
    """Each needle with the offset and size of its key: a piece that few of the others have.

    A piece near the start does for most; where another needle has it too, or it
    is of few different bytes (a rule, an indentation), several are weighed.
    """
    first: list[tuple[bytes, int, int, bytes]] = []
    for needle in needles:
        size = _size(len(needle), most)
        at = (len(needle) - size) // 3
        first.append((needle, at, size, needle[at : at + size]))
    shared = Counter(piece for _, _, _, piece in first)
    rest: list[tuple[bytes, int]] = []
    for needle, at, size, piece in first:
        if shared[piece] == 1 and len(set(piece)) >= _DISTINCT:
            yield needle, at, size
        else:
            rest.append((needle, size))
    yield from _weighed(rest)


def _weighed(needles: list[tuple[bytes, int]]) -> Iterator[tuple[bytes, int, int]]:
    """The keys, of the given sizes, of needles that have much in common.

    Of a few pieces the first that no other needle has, of many different bytes;
    else the one that the fewest have.
    """
    offsets = [
        list(dict.fromkeys((len(needle) - size) * part // 3 for part in (1, 2, 0, 3)))
        for needle, size in needles
    ]
    shared = Counter(
        needle[at : at + size]
        for (needle, size), tried in zip(needles, offsets, strict=True)
        for at in tried
    )
    for (needle, size), tried in zip(needles, offsets, strict=True):
        best, least = tried[0], (len(needles) + 1, 0)
        for at in tried:
            piece = needle[at : at + size]
            variety = min(len(set(piece)), _DISTINCT)
            if (shared[piece], -variety) < least:
                best, least = at, (shared[piece], -variety)
            if least == (1, -min(size, _DISTINCT)):
                break
        yield needle, best, size


def _installed() -> bool:
    """Whether there is an automaton; without one each text is sought by itself."""
    return find_spec("ahocorasick_rs") is not None


def _scanned(data: bytes, keys: Sequence[bytes], most: int) -> dict[bytes, list[int]]:
    """`places` in one pass, chunk by chunk; keys that are found too often are given up."""
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
        lists: list[list[int]] = [found[key] for key in live]
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
