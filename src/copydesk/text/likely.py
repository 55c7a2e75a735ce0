"""Where in a text another one most likely stands, though not exactly.

What lives here: places that share rare pieces with what is sought. What must
not: a verdict; who asks compares. Cost: one pass over the text whatever is
sought, and a bounded number of places that are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from copydesk.text.match import places

_SIZES = (32, 16, 8, 4)
"""Bytes of a piece, at most half of the text: long ones tell more, short ones stand nearer
to what differs. The largest three that fit are used."""

_PIECES = 240
"""Pieces of one text; of several texts, so many of all of them."""

_LEAST_PIECES = 48
_PLACES = 1_000
_LEAST_PLACES = 50
_FIRST = 8
_TINY = 1e-4
_NEAR = 10
"""Estimates in one stretch of 2 ** 10 bytes are of one place."""


@dataclass(slots=True)
class Spot:
    """Where a text would start, in plain text: in line `line`, 0-based, at about byte `at`.

    The byte `seen_at`, `seen_below` lines further down, is where its rarest piece stands.
    """

    line: int
    at: int
    seen_at: int
    seen_below: int
    rarest: float
    weight: float = 0.0


def likely(data: bytes, texts: Sequence[bytes], most: int) -> list[list[Spot]]:
    """For each text up to `most` spots in `data` (line ends LF), the likeliest first.

    Pieces of the text are sought; each place of one votes for the spot where
    the text would start, the more the fewer places the piece has. Of a piece in
    very many places only the first ones count, and hardly.
    """
    share = max(_PIECES // max(len(texts), 1), _LEAST_PIECES)
    pieces = [list(_pieces(text, share)) for text in texts]
    limit = max(_PLACES // max(len(texts), 1), _LEAST_PLACES)
    keys = list(dict.fromkeys(piece for found in pieces for _, piece in found))
    found = places(data, keys, limit)
    lines = _lines(data, {at for starts in found.values() for at in starts})
    return [
        _voted(text, own, found, lines, limit)[:most]
        for text, own in zip(texts, pieces, strict=True)
    ]


def _voted(
    text: bytes,
    pieces: list[tuple[int, bytes]],
    found: dict[bytes, list[int]],
    lines: dict[int, int],
    limit: int,
) -> list[Spot]:
    spots: dict[tuple[int, int], Spot] = {}
    line = last = 0
    for offset, piece in sorted(pieces):
        line += text.count(b"\n", last, offset)
        last = offset
        starts = found[piece]
        popular = len(starts) > limit
        weight = _TINY if popular else 1 / max(len(starts), 1)
        for place in starts[:_FIRST] if popular else starts:
            start, at = max(lines[place] - line, 0), max(place - offset, 0)
            spot = spots.get((start, at >> _NEAR))
            votes = spot.weight if spot else 0.0
            if spot is None or spot.rarest < weight:
                spot = Spot(start, at, place, lines[place] - start, weight)
                spots[start, at >> _NEAR] = spot
            spot.weight = votes + weight
    return sorted(spots.values(), key=lambda spot: (-spot.weight, spot.at))


def _pieces(text: bytes, most: int) -> Iterator[tuple[int, bytes]]:
    """Pieces of the text with their offsets, evenly spread; also as they are in lower case."""
    fitting = [size for size in _SIZES if 2 * size <= len(text)]
    sizes = fitting[:3] or [(len(text) + 1) // 2]
    count = max(most // len(sizes), 1)
    for size in sizes:
        room = len(text) - size
        step = -(-(room + 1) // count)
        for offset in range(0, room + 1, step):
            piece = text[offset : offset + size]
            if piece.isspace() or not piece:
                continue
            yield offset, piece
            if piece != piece.lower():
                yield offset, piece.lower()


def _lines(data: bytes, marks: set[int]) -> dict[int, int]:
    """The line, 0-based, of each of the bytes."""
    found: dict[int, int] = {}
    line = last = 0
    for at in sorted(marks):
        line += data.count(b"\n", last, at)
        last = at
        found[at] = line
    return found
