"""Writes that broke off: what stands in their files, and how the old bytes come back.

What lives here: judging one file by the digests of its entries, and putting it
back. What must not: which entries belong together, how they are closed
(`recovery`). Invariant: what is overwritten is what copydesk wrote, or what
another program made of it where the way back can be carried to that for certain.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import reduce
from itertools import zip_longest
from typing import Literal

from copydesk.desk.bases import Bases
from copydesk.desk.journal import Entry, Journal
from copydesk.desk.lanes import Lanes, inode_key
from copydesk.desk.pieces import kept_and_new
from copydesk.edit.relocate import carried, drift_of
from copydesk.errors import FileNotFound, Refusal
from copydesk.store.files import Files
from copydesk.store.protocol import Document, Named, Piece, TargetMoved
from copydesk.store.stamp import Stamp
from copydesk.text.change import ChangeSet
from copydesk.text.snapshot import Snapshot

Inode = tuple[int, int]
"""A file whatever its name: device and inode."""

How = Literal["written", "not written", "torn", "written over", "unknown"]
"""What became of a file: it is as after the writes, or as before them; a write in place was
broken off in the middle; another program wrote after us, and what we wrote can be told
from what it wrote; nobody can tell."""


@dataclass(frozen=True, slots=True)
class Found:
    """What stands in the file of some entries, the oldest first.

    `stamp` and `digest` are those of the file, None and empty when there is none;
    `before` is its content without our writes, where that is known.
    """

    entries: tuple[Entry, ...]
    how: How
    stamp: Stamp | None = None
    digest: str = ""
    before: tuple[Piece, ...] = ()


class Rollback:
    """The way back of the writes of one workspace. Call its methods in the file's turn."""

    def __init__(
        self, files: Files, lanes: Lanes, journal: Journal, bases: Bases, named: Named
    ) -> None:
        self._files, self._lanes, self._journal = files, lanes, journal
        self._bases, self._named = bases, named

    def look(self, entries: tuple[Entry, ...], torn_ms: int) -> Found:
        """What stands in the file that the entries wrote, the oldest first.

        `torn_ms`: so long after the first entry was made its write may have begun.
        Raises TargetMoved when the file is changed meanwhile.
        """
        first, last = entries[0], entries[-1]
        try:
            real, stamp, digest = self._files.digest(first.path)
        except FileNotFound:
            real, stamp, digest = first.path, None, ""
        except Refusal:
            return Found(entries, "unknown")
        if real != first.path:  # a link leads to another file now
            return Found(entries, "unknown")
        if digest == last.after:
            back = tuple(kept_and_new(_inverse(entries)))
            return Found(entries, "written", stamp, digest, back)
        if digest == first.before:
            return Found(entries, "not written", stamp, digest)
        if stamp is None:
            return Found(entries, "unknown")
        try:
            document = self._files.read(first.path)
        except Refusal:
            return Found(entries, "unknown", stamp, digest)
        if document.stamp != stamp:
            raise TargetMoved()
        before = self._torn(entries, document, torn_ms)
        if before is not None:
            return Found(entries, "torn", stamp, digest, before)
        before = self._without(entries, document)
        if before is not None:
            return Found(entries, "written over", stamp, digest, before)
        return Found(entries, "unknown", stamp, digest)

    def put_back(self, found: Found, inodes: Collection[Inode] = ()) -> None:
        """The content before, where our writes are in the file and it is known.

        `inodes` are the files with several names whose lanes are held. Raises
        TargetMoved, Refusal, NotPutBack; the file is as it was found then.
        """
        first, stamp = found.entries[0], found.stamp
        if found.how in ("not written", "unknown") or stamp is None:
            return
        lane: AbstractContextManager[None] = nullcontext()
        if stamp.nlink > 1 and (stamp.dev, stamp.ino) not in inodes:
            lane = self._lanes.turn(inode_key(stamp.dev, stamp.ino), (first.time_ms, first.hunk_id))
        with lane:
            if first.kind == "create":
                self._files.remove(first.path, stamp, found.digest, expected_real=first.path)
                return
            self._files.replace(
                first.path,
                stamp,
                found.digest,
                found.before,
                before_in_place=lambda now: None,  # the journal has what it was before us
                expected_real=first.path,
            )

    def _torn(
        self, entries: tuple[Entry, ...], document: Document, torn_ms: int
    ) -> tuple[Piece, ...] | None:
        """The old bytes of a file whose write in place broke off; None when it is another's."""
        whole = self._journal.whole_of(entries[0].edit_id)
        age_ms = document.stamp.mtime_ns // 1_000_000 - entries[0].time_ms
        if whole is None or not -TORN_MS <= age_ms <= torn_ms:
            return None
        return (whole,) if is_torn(document.data, whole, _inverse(entries)) else None

    def _without(self, entries: tuple[Entry, ...], document: Document) -> tuple[Piece, ...] | None:
        """The content without our writes, though others wrote since; None when not certain."""
        named = self._named(entries[0].path)
        after = self._bases.find(entries[-1].after, named, None)
        if after is None or entries[0].kind != "edit" or document.stamp.nlink > 1:
            return None
        inverse = _inverse(entries)
        try:
            now = Snapshot.of(document.data, named)
            back = carried(inverse, drift_of(inverse, after, now, None, {}))
        except Refusal:
            return None
        return tuple(back.pieces(now.data))


TORN_MS = 2_000
"""So far apart may the clock of the file system and ours be."""


def is_torn(data: bytes, old: bytes, inverse: ChangeSet) -> bool:
    """Whether an overwriting of `old` can have left `data` when it was broken off.

    `inverse` is of that overwriting. Each byte is an old one or a new one, and the
    size lies between both; of new bytes that were put in it is not known which.
    """
    if not min(len(old), inverse.length) <= len(data) <= max(len(old), inverse.length):
        return False
    at = was = 0
    for edit in inverse.edits:
        if not _mixed(data, old, at, was, edit.start - at):
            return False
        was += edit.start - at + len(edit.new)
        at = edit.stop
    return _mixed(data, old, at, was, inverse.length - at) and (
        data[inverse.length :] == old[inverse.length : len(data)]
    )


def _mixed(data: bytes, old: bytes, at: int, was: int, count: int) -> bool:
    """Whether bytes that stood at `was` and move to `at` are there, or what stood there before."""
    found = data[at : at + count]
    moved, stood = old[was : was + len(found)], old[at : at + len(found)]
    return found in (moved, stood) or all(
        byte in pair for byte, *pair in zip_longest(found, moved, stood)
    )


def _inverse(entries: tuple[Entry, ...]) -> ChangeSet:
    """The change from the text after all entries to the one before them."""
    return reduce(
        lambda back, entry: back.then(entry.inverse), entries[-2::-1], entries[-1].inverse
    )
