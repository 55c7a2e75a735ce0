"""Texts that all machines of a workspace share, and the lines of them that members were shown."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import nullcontext, suppress
from typing import TypeVar

from copydesk.desk.backends.snapshots import (
    LARGEST,
    MOST_SEEN,
    MOST_SHOWN,
    SnapshotStore,
    place_of,
)
from copydesk.desk.redis.leases import Server
from copydesk.errors import ServerFailed
from copydesk.store.state import Count
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import VERSION_LENGTH

T = TypeVar("T")

_DIGEST_LENGTH = 64


class RedisSnapshots(SnapshotStore):
    """Texts on a server, the least recently used ones dropped first; reading raises ServerFailed.

    Of two that note what the same member was shown at once, one may be lost.
    """

    def __init__(
        self,
        server: Server,
        most_bytes: int,
        largest: int = LARGEST,
        count: Count | None = None,
    ) -> None:
        super().__init__(most_bytes, largest, count)
        self._server = server

    def _attempt(self, work: Callable[[], T], *, writes: bool = True) -> T | None:
        with suppress(ServerFailed) if writes else nullcontext():
            return work()
        return None

    def _is_stored(self, digest: str, at: RelPath) -> bool:
        version = digest[:VERSION_LENGTH]
        return bool(self._server.call("touch_text", version, _mark(digest, at), MOST_SEEN))

    def _put(self, digest: str, packed: bytes, at: RelPath) -> None:
        if not self._is_stored(digest, at):
            text = digest.encode() + packed
            self._server.call("keep_text", digest[:VERSION_LENGTH], text, self._most)

    def _found(self, digest: str, at: RelPath | None) -> tuple[str, bytes] | None:
        mark = "" if at is None else _mark(digest, at)
        found: bytes | None = self._server.call("find_text", digest[:VERSION_LENGTH], mark)
        if found is None:
            return None
        return found[:_DIGEST_LENGTH].decode("ascii", "replace"), found[_DIGEST_LENGTH:]

    def _remove(self, kept: Collection[str]) -> None:
        self._server.call("forget_texts", *(digest[:VERSION_LENGTH] for digest in kept))

    def _record_of(self, reader: str) -> bytes:
        return self._server.call("shown", reader) or b""

    def _put_record(self, reader: str, record: bytes) -> None:
        self._server.call("note_shown", reader, record, MOST_SHOWN // 4)

    def close(self) -> None:
        """Do nothing: it holds no resources."""


def _mark(digest: str, at: RelPath) -> str:
    return f"{place_of(at)}-{digest[:VERSION_LENGTH]}"
