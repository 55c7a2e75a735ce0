"""What a plan for blocks of notes relies on.

What lives here: that one value. What must not: blocks themselves, how they are read.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BlockReads:
    """What a plan for blocks relies on and comes to.

    `digests` are pairs of a block's id and the SHA-256 in hex of its text, of the
    blocks that are written or deleted whatever they hold. Lines are those of the
    diff that was shown.
    """

    digests: tuple[tuple[str, str], ...]
    lines_removed: int
    lines_added: int
