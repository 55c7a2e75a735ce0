"""The texts that plans are based on, for all machines of a workspace, on a server.

What lives here: a cache of compressed texts by version, within a bound. What must
not: anything that cannot be lost. Invariant: what is given for a digest has that
digest, or nothing is.

A text is the string `base:VERSION`, its digest before it; `bases` are the
versions, and `seen` where they were seen, both by the order of their last use.
"""

from __future__ import annotations

import hashlib
import zlib
from contextlib import suppress

from copydesk.desk.bases import LARGEST, MOST_SEEN
from copydesk.desk.redis.server import Script, Server
from copydesk.errors import BinaryFile, ServerFailed
from copydesk.store.protocol import Content
from copydesk.text import sizes
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import VERSION_LENGTH, Snapshot

_DIGEST_LENGTH = 64

_TOUCH = Script(
    """
local now = redis.call('INCR', p .. 'uses')
redis.call('ZADD', p .. 'seen', now, ARGV[2])
redis.call('ZREMRANGEBYRANK', p .. 'seen', 0, -1 - ARGV[3])
if redis.call('EXISTS', p .. 'base:' .. ARGV[1]) == 0 then return 0 end
redis.call('ZADD', p .. 'bases', now, ARGV[1])
return 1
"""
)
_KEEP = Script(
    """
local version, text, most = ARGV[1], ARGV[2], tonumber(ARGV[3])
local function size(name) return redis.call('STRLEN', p .. 'base:' .. name) end
local bytes = redis.call('INCRBY', p .. 'basebytes', #text - size(version))
redis.call('SET', p .. 'base:' .. version, text)
redis.call('ZADD', p .. 'bases', redis.call('INCR', p .. 'uses'), version)
while bytes > most do
  local oldest = redis.call('ZPOPMIN', p .. 'bases')[1]
  if not oldest then return end
  bytes = redis.call('DECRBY', p .. 'basebytes', size(oldest))
  redis.call('DEL', p .. 'base:' .. oldest)
end
"""
)
_FIND = Script(
    """
if ARGV[2] ~= '' and not redis.call('ZSCORE', p .. 'seen', ARGV[2]) then return false end
local text = redis.call('GET', p .. 'base:' .. ARGV[1])
if not text then return false end
local now = redis.call('INCR', p .. 'uses')
redis.call('ZADD', p .. 'bases', now, ARGV[1])
if ARGV[2] ~= '' then redis.call('ZADD', p .. 'seen', now, ARGV[2]) end
return text
"""
)


class RedisBases:
    """Texts by digest on a server, the ones used longest ago dropped beyond `most_bytes`."""

    def __init__(self, server: Server, most_bytes: int, largest: int = LARGEST) -> None:
        self._server, self._most, self._largest = server, most_bytes, largest

    def keep(self, base: Snapshot, at: RelPath) -> None:
        """Remember the text and where it was seen, if it is not too large.

        A server that is away only means that it is not remembered.
        """
        if len(base.data) > self._largest:
            return
        with suppress(ServerFailed):
            if not self._touched(base.digest, at):
                self._put(base.digest, zlib.compress(base.data, 1))

    def keep_content(self, digest: str, content: Content, at: RelPath) -> None:
        """Remember a large text from its file, and where it was seen."""
        try:
            known = self._touched(digest, at)
        except ServerFailed:
            known = True
        if known:
            content.close()
            return
        data = content.packed(digest, self._most // sizes.PART)
        if data is not None:
            with suppress(ServerFailed):
                self._put(digest, data)

    def find(self, digest: str, named: str | None, at: RelPath | None) -> Snapshot | None:
        """The text whose SHA-256 starts with `digest`, if it was seen there; ServerFailed."""
        if len(digest) < VERSION_LENGTH:
            return None
        mark = "" if at is None else _mark(digest, at)
        found: bytes | None = self._server.call(_FIND, digest[:VERSION_LENGTH], mark)
        if found is None or not found[:_DIGEST_LENGTH].startswith(digest.encode()):
            return None
        try:
            data = zlib.decompress(found[_DIGEST_LENGTH:])
            snapshot = Snapshot.of(data, named)
        except (zlib.error, BinaryFile):  # kept for a file that has another encoding
            return None
        return snapshot if snapshot.digest.startswith(digest) else None

    def close(self) -> None:
        """Nothing is held."""

    def _touched(self, digest: str, at: RelPath) -> bool:
        """Note where it was seen; whether the text is there."""
        version = digest[:VERSION_LENGTH]
        return bool(self._server.call(_TOUCH, version, _mark(digest, at), MOST_SEEN))

    def _put(self, digest: str, data: bytes) -> None:
        text = digest.encode() + data
        self._server.call(_KEEP, digest[:VERSION_LENGTH], text, self._most)


def _mark(digest: str, at: RelPath) -> str:
    """What says that the text was seen at the path."""
    name = hashlib.sha256(str(at).encode()).hexdigest()[:16]
    return f"{name}-{digest[:VERSION_LENGTH]}"
