"""How a new text splits in blocks: the `Split` of a diff, for both profiles of Markdown.

What lives here: which lines of a text are which piece. What must not: the
grammar, which is `text/markdown`'s. Invariant: a piece is whole lines, with the
attributes that the text gives the block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from copydesk.edit.notes.blocks import Piece, Split
from copydesk.text.markdown import Block, Profile, is_phantom, parse
from copydesk.text.markdown.block import BLANK, LIST, cut, decode, encode


def split_as(profile: Profile) -> Split:
    """The splitting of texts in a profile: `siyuan` for a kernel, `gfm` for a folder.

    Line ends become LF. A text of nothing but blank lines has no piece.
    """

    def split(text: str) -> tuple[Piece, ...]:
        lines, _ = cut(encode(text))
        data = b"\n".join(lines)
        blocks = [
            block for block in parse(data, profile, part=True).root.children if _stands(block)
        ]
        return tuple(_pieces(data, lines, blocks)) if blocks else ()

    return split


def _stands(block: Block) -> bool:
    return not is_phantom(block)


def _pieces(data: bytes, lines: Sequence[bytes], blocks: Sequence[Block]) -> Iterator[Piece]:
    starts = _first_lines(data, blocks)
    starts[0] = 0  # what no block is made of goes with the first
    for block, start, stop in zip(blocks, starts, [*starts[1:], len(lines)], strict=True):
        items = block.children if block.kind == LIST else ()
        within = [start, *_first_lines(data, items)[1:], stop]
        below = tuple(
            Piece(item.kind, _joined(lines[one:other]))
            for item, (one, other) in zip(items, pairwise(within), strict=False)
        )
        yield Piece(block.kind, _joined(lines[start:stop]), below)


def _first_lines(data: bytes, blocks: Sequence[Block]) -> list[int]:
    """The lines, from 0, on which blocks start that stand one after the other."""
    found: list[int] = []
    line = at = 0
    for block in blocks:
        line += data.count(b"\n", at, block.start)
        at = block.start
        found.append(line)
    return found


def _joined(lines: Sequence[bytes]) -> str:
    """The text of the lines without the blank ones around them."""
    kept = [number for number, line in enumerate(lines) if line.strip(BLANK)]
    return decode(b"\n".join(lines[kept[0] : kept[-1] + 1])) if kept else ""
