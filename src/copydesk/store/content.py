"""The bytes of a file that is read beside the work.

What lives here: the open file, and its packing. What must not: what is kept.
Invariant: what is given has the digest that was asked for. (A file that another
one has replaced can still be read; one that was written in place gives others.)
"""

from __future__ import annotations

import hashlib
import zlib

from copydesk.store import _os
from copydesk.text import sizes


class OpenContent:
    """`Content` of the open file `fd`, which is its own."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def packed(self, digest: str, most_bytes: int) -> bytes | None:
        # zlib and SHA-256 let Python's lock go: this takes a core, and no turn of others
        state, packer = hashlib.sha256(), zlib.compressobj(1)
        parts: list[bytes] = []
        at = size = 0
        try:
            while block := _os.pread(self._fd, sizes.BLOCK, at):
                at += len(block)
                state.update(block)
                parts.append(packer.compress(block))
                size += len(parts[-1])
                if size > most_bytes:
                    return None
        except OSError:
            return None
        finally:
            self.close()
        parts.append(packer.flush())
        return b"".join(parts) if state.hexdigest() == digest else None

    def close(self) -> None:
        _os.close_quietly(self._fd)
