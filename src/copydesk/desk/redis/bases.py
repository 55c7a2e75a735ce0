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

from copydesk.desk.bases import LARGEST, MOST_SEEN, MOST_SHOWN, ShownLines
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
_NOTE_SHOWN = Script(
    """
redis.call('HSET', p .. 'shown', ARGV[1], ARGV[2])
redis.call('ZADD', p .. 'readers', redis.call('INCR', p .. 'uses'), ARGV[1])
local over = redis.call('ZCARD', p .. 'readers') - tonumber(ARGV[3])
if over <= 0 then return end
for _, one in ipairs(redis.call('ZRANGE', p .. 'readers', 0, over - 1)) do
  redis.call('HDEL', p .. 'shown', one)
  redis.call('ZREM', p .. 'readers', one)
end
"""
)
_SHOWN = Script("return redis.call('HGET', p .. 'shown', ARGV[1])")
_VERSIONS = 4
"""Of so many versions of a file it is known what a member was shown."""


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

    def note_shown(self, member: str, at: RelPath, lines: ShownLines) -> None:
        """Remember that the member was shown lines of the file, if the server is there.

        Of two that are noted at one moment one may be lost: less is known then, not more.
        """
        with suppress(ServerFailed):
            known = self._all_shown(member, at)
            same = next((one for one in known if one.version == lines.version), None)
            others = (one for one in known if one.version != lines.version)
            kept = [lines.joined(same), *others][:_VERSIONS]
            rows = b"\n".join(map(_row, kept))
            self._server.call(_NOTE_SHOWN, _reader(member, at), rows, MOST_SHOWN // _VERSIONS)

    def shown(self, member: str, at: RelPath, version: str | None = None) -> ShownLines | None:
        """What the member was shown of a version; without one, of the version it saw last."""
        known = self._all_shown(member, at)
        return next((one for one in known if version in (None, one.version)), None)

    def _all_shown(self, member: str, at: RelPath) -> list[ShownLines]:
        """What is known of the last versions, the one seen last first; ServerFailed."""
        found: bytes | None = self._server.call(_SHOWN, _reader(member, at))
        return [_lines(row) for row in (found or b"").split(b"\n") if row]

    def close(self) -> None:
        """Nothing is held."""

    def _touched(self, digest: str, at: RelPath) -> bool:
        """Note where it was seen; whether the text is there."""
        version = digest[:VERSION_LENGTH]
        return bool(self._server.call(_TOUCH, version, _mark(digest, at), MOST_SEEN))

    def _put(self, digest: str, data: bytes) -> None:
        text = digest.encode() + data
        self._server.call(_KEEP, digest[:VERSION_LENGTH], text, self._most)


def _reader(member: str, at: RelPath) -> str:
    """What stands for a member who reads a path."""
    name = f"{member}\0{at}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(name).hexdigest()[:32]


def _row(lines: ShownLines) -> bytes:
    """A version, its number of lines, and the runs that were shown, as words."""
    runs = "".join(f" {start}-{stop}" for start, stop in lines.runs)
    return f"{lines.version} {lines.total}{runs}".encode()


def _lines(row: bytes) -> ShownLines:
    version, total, *runs = row.decode().split(" ")
    pairs = (run.split("-") for run in runs)
    return ShownLines(version, int(total), tuple((int(a), int(b)) for a, b in pairs))


def _mark(digest: str, at: RelPath) -> str:
    """What says that the text was seen at the path."""
    name = hashlib.sha256(str(at).encode()).hexdigest()[:16]
    return f"{name}-{digest[:VERSION_LENGTH]}"
