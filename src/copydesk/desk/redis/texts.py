"""Plans, decisions, statistics and stored texts that all machines of a workspace share."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from contextlib import suppress

from copydesk.desk.backends.snapshots import (
    LARGEST,
    MOST_SEEN,
    MOST_SHOWN,
    VERSIONS,
    Note,
    ShownLines,
)
from copydesk.desk.redis.leases import Server, script
from copydesk.errors import BinaryFile, ServerFailed
from copydesk.store.protocol import Content
from copydesk.text import sizes
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import VERSION_LENGTH, Snapshot

_DIGEST_LENGTH = 64

_TOUCH = script("touch_text")
_KEEP = script("keep_text")
_FIND = script("find_text")
_NOTE_SHOWN = script("note_shown")
_SHOWN = script("shown")
_READERS = MOST_SHOWN // 4
"""The most pairs of a member and a file with recorded shown lines."""


class _OnServer:
    def __init__(self, server: Server) -> None:
        self._server = server

    def close(self) -> None:
        """Do nothing: it holds no resources."""


class RedisSnapshots(_OnServer):
    """Texts by digest on a server; beyond `most_bytes` the least recently used are dropped."""

    def __init__(self, server: Server, most_bytes: int, largest: int = LARGEST) -> None:
        super().__init__(server)
        self._most, self._largest = most_bytes, largest

    def keep(self, base: Snapshot, at: RelPath, notes: Sequence[Note] = ()) -> None:
        """Store the text, where it was seen and the notes, if small and the server is available."""
        self.note_shown(*notes)
        if len(base.data) > self._largest:
            return
        with suppress(ServerFailed):
            if not self._touched(base.digest, at):
                self._put(base.digest, zlib.compress(base.data, 1))

    def keep_all(
        self, texts: Sequence[tuple[Snapshot, RelPath]], notes: Sequence[Note] = ()
    ) -> None:
        self.note_shown(*notes)
        for base, at in texts:
            self.keep(base, at)

    keep_planned = keep

    def keep_content(self, digest: str, content: Content, at: RelPath) -> None:
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
        except (zlib.error, BinaryFile):  # stored for a file with another encoding
            return None
        return snapshot if snapshot.digest.startswith(digest) else None

    def note_shown(self, *notes: Note) -> None:
        """Record the lines that members were shown; of two at once, one may be lost."""
        with suppress(ServerFailed):
            for note in notes:
                self._note_shown(note)

    def shown(self, member: str, at: RelPath, version: str | None = None) -> ShownLines | None:
        for one in self._all_shown(member, at):
            if one.version == version if version is not None else one.read:
                return one
        return None

    def _note_shown(self, note: Note) -> None:
        known = {one.version: one for one in self._all_shown(note.member, note.at)}
        lines = note.found(known.get)
        if lines is None:
            return
        known.pop(lines.version, None)
        last = [lines, *known.values()]
        same = [one for one in last if one.read == lines.read]
        rows = b"\n".join(_row(one) for one in last if one not in same[VERSIONS:])
        self._server.call(_NOTE_SHOWN, _reader(note.member, note.at), rows, _READERS)

    def _all_shown(self, member: str, at: RelPath) -> list[ShownLines]:
        """The records of the last versions, newest first; raises ServerFailed."""
        found: bytes | None = self._server.call(_SHOWN, _reader(member, at))
        lines: list[ShownLines] = []
        for row in (found or b"").split(b"\n"):
            with suppress(ValueError):  # it is damaged, or empty
                lines.append(_lines(row))
        return lines

    def _touched(self, digest: str, at: RelPath) -> bool:
        """Record where it was seen; return whether the text is stored."""
        version = digest[:VERSION_LENGTH]
        return bool(self._server.call(_TOUCH, version, _mark(digest, at), MOST_SEEN))

    def _put(self, digest: str, data: bytes) -> None:
        text = digest.encode() + data
        self._server.call(_KEEP, digest[:VERSION_LENGTH], text, self._most)


def _reader(member: str, at: RelPath) -> str:
    name = f"{member}\0{at}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(name).hexdigest()[:32]


def _row(lines: ShownLines) -> bytes:
    """Encode a version, its number of lines, and the shown runs as words."""
    return f"{lines.version} {lines.total} {lines.encoded()}".encode()


def _lines(row: bytes) -> ShownLines:
    version, total, *runs = row.decode().split(" ")
    return ShownLines.decoded(version, int(total), runs)


def _mark(digest: str, at: RelPath) -> str:
    name = hashlib.sha256(str(at).encode()).hexdigest()[:16]
    return f"{name}-{digest[:VERSION_LENGTH]}"
