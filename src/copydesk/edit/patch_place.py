"""Place the hunks of a patch in a file, and compile their edits.

Invariants: the old lines of a hunk, kept ones included, are at its place, each whole; no other
place fits, unless the text is the very one that the patch was made from; lines that a hunk keeps
keep their bytes.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise, takewhile

from copydesk.edit.request import PatchEdit, PatchHunk
from copydesk.errors import EncodingRefused, PatchRejected, RejectedHunk
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.diff import Gap, align
from copydesk.text.encoding import Escapes, without_escapes
from copydesk.text.folding import explain, indented_by
from copydesk.text.nearest import Near, line_difference, nearest_of
from copydesk.text.relocation import Outline
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot, computed_once
from copydesk.text.unified import Region, regions

Part = tuple[int, int]
"""Lines [start, stop), 0-based."""

_SHOWN_PLACES = 10
_SHOWN_NEAR = 100  # at most this many hunks are reported with their closest place
_LONGEST = 2_000
"""The most characters of a hunk's lines as they are in the file; longer ones are not reported."""


def place_hunks(base: Snapshot, request: PatchEdit) -> tuple[Part, ...]:
    """Return the lines of each hunk; raises PatchRejected, listing all without a single place."""
    sought = _Sought(base, is_base=_is_blob(base.data, request.base))
    found = [sought.place(hunk) for hunk in request.hunks]
    misplaced = [(at, one) for at, one in enumerate(found) if isinstance(one, _Misplaced)]
    rejected = sought.rejected(request, misplaced)
    parts = tuple(place for place in found if not isinstance(place, _Misplaced))
    if not rejected:
        clash = _clash(base, request, parts)
        rejected = [] if clash is None else [clash]
    if rejected:
        raise PatchRejected(tuple(rejected))
    return parts


def compile_hunks(
    base: Snapshot, request: PatchEdit, parts: Sequence[Part]
) -> tuple[ChangeSet, Escapes]:
    """The change of each hunk's lines; inserted lines are exact bytes if the blob id says so."""
    is_raw = any("\r\n" in hunk.old or "\r\n" in hunk.new for hunk in request.hunks)
    change, escapes = _compiled(base, request, parts, is_raw=is_raw)
    if request.after and not is_raw and b"\r" in base.data:
        exact, same = _compiled(base, request, parts, is_raw=True)
        if exact != change and _is_blob(exact.apply(base.data), request.after):
            return exact, same
    return change, escapes


def _compiled(
    base: Snapshot, request: PatchEdit, parts: Sequence[Part], *, is_raw: bool
) -> tuple[ChangeSet, Escapes]:
    edits: list[Edit] = []
    escapes: list[Escapes] = []
    for hunk, part in zip(request.hunks, parts, strict=True):
        own, found = _Replacement(request, base, hunk, part, is_raw=is_raw).edits()
        edits += own
        escapes.append(found)
    edits.sort(key=lambda edit: (edit.start, edit.stop))
    return ChangeSet.of(base.size, edits), Escapes.of(escapes)


def check_whole(base: Snapshot, request: PatchEdit, line: int) -> None:
    """Raise PatchRejected unless the hunks remove all of the text; `line` is that of the patch."""
    change, _ = compile_hunks(base, request, place_hunks(base, request))
    if change.new_length > len(base.encoding.bom):
        raise PatchRejected((RejectedHunk(str(request.path), 1, "not_whole", line),))


def _is_blob(data: bytes, prefix: str) -> bool:
    """Whether git's blob id of the data starts with the prefix."""
    if not prefix.strip("0"):
        return False
    return _blob_id(data, "sha256" if len(prefix) > 40 else "sha1").startswith(prefix)


def _blob_id(data: bytes, algorithm: str = "sha1") -> str:
    """Git's blob id of the bytes, in hex."""
    head = b"blob %d\0" % len(data)
    return hashlib.new(algorithm, head + data, usedforsecurity=False).hexdigest()


def patch_of(path: RelPath, base: Snapshot, change: ChangeSet, *, created: bool) -> PatchEdit:
    """The patch of this change, a hunk for each run of lines; a single one if bytes are escaped."""
    encoding, after = base.encoding, change.apply(base.data)
    if created:
        return PatchEdit(path, (PatchHunk("", encoding.decode(after)),), creates=True)
    groups: list[list[Region]] = []
    for region in regions(base, change):
        if groups and (encoding.escapes or groups[-1][-1].stop == region.start):
            groups[-1].append(region)
        else:
            groups.append([region])
    hunks: list[PatchHunk] = []
    for group in groups:
        first, last = group[0], group[-1]
        new, at = b"", first.begin
        for region in group:
            new += base.slice(at, region.begin) + b"".join(region.new)
            at = region.end
        old = base.slice(first.begin, last.end)
        if not first.begin:
            old, new = old.removeprefix(encoding.bom), new.removeprefix(encoding.bom)
        texts = encoding.decode(old), encoding.decode(new)
        after_line = None if old else first.start
        hunks.append(PatchHunk(*texts, line=first.start + 1, after=after_line))
    return PatchEdit(path, tuple(hunks), _blob_id(base.data), _blob_id(after))


@dataclass(frozen=True, slots=True)
class _Misplaced:
    """Why a hunk has no place, and the lines where it may belong."""

    reason: str
    lines: tuple[int, ...] = ()


class _Sought:
    """A text to find hunks in; `is_base`: the patch was made from exactly this text."""

    def __init__(self, base: Snapshot, *, is_base: bool) -> None:
        self._base, self._is_base = base, is_base
        self._found: dict[tuple[str, ...], list[int]] = {}
        self._headed: dict[str, list[int]] = {}
        self._bodies: dict[int, range] = {}

    def place(self, hunk: PatchHunk) -> Part | _Misplaced:
        """Return the lines of the hunk, or why it has none."""
        old = lines_of(hunk.old)
        if not old:
            return self._insertion(hunk)
        size, last = len(old), self._base.line_count
        places = all_places = self._places(old)
        if not hunk.old.endswith("\n") and self._base.ends_with_newline:
            places = []
        if hunk.at_end or not hunk.old.endswith("\n") or _is_open(hunk.new):
            places = [at for at in places[-1:] if at + size == last]
        if not places:
            return _Misplaced("not_at_end" if all_places else "not_found", _numbers(all_places))
        if self._is_base and _holds(places, hunk.line - 1):
            return hunk.line - 1, hunk.line - 1 + size
        if hunk.headers:
            below = self._below(hunk.headers, places)
            if isinstance(below, _Misplaced):
                return below
            places = below
        if len(places) > 1:
            return _Misplaced("several_places", _numbers(places))
        return places[0], places[0] + size

    def rejected(
        self, request: PatchEdit, misplaced: Sequence[tuple[int, _Misplaced]]
    ) -> list[RejectedHunk]:
        """Return the rejections of the hunks that have no place."""
        told = [self._told(request, index, why) for index, why in misplaced]
        lost = [at for at, one in enumerate(told) if one.reason == "not_found"][:_SHOWN_NEAR]
        olds = [request.hunks[told[at].hunk - 1].old for at in lost]
        for at, old, near in zip(lost, olds, nearest_of(self._base, olds), strict=True):
            if near is not None:
                told[at] = self._with_near(told[at], old, near)
        return told

    def _told(self, request: PatchEdit, index: int, why: _Misplaced) -> RejectedHunk:
        hunk = request.hunks[index]
        told = RejectedHunk(str(request.path), index + 1, why.reason, hunk.at, why.lines or None)
        if why.reason != "not_found":
            return told
        new = lines_of(hunk.new)
        there = self._places(new) if len(new) > 1 and any(map(str.strip, new)) else []
        return replace(told, reason="already_there", lines=_numbers(there)) if there else told

    def _with_near(self, told: RejectedHunk, old: str, near: Near) -> RejectedHunk:
        """Add the closest lines to the rejection, and why they differ."""
        corrected, causes = near.corrected, tuple[str, ...](near.causes)
        difference = near.diff
        if corrected is not None and not causes:  # it is there, within lines
            whole = self._base.texts(near.start, near.stop)
            difference = line_difference(lines_of(old), list(whole))
            corrected = "".join(f"{line}\n" for line in whole)
            causes = explain(old, corrected) or ("part_of_line",)
        by = None if corrected is None else indented_by(old, corrected) or None
        return replace(
            told,
            nearest_lines=f"{near.start + 1}~{near.stop}",
            similarity=near.similarity,
            difference=difference,
            cause=causes or None,
            indented_by=by,
            similar_lines=tuple(line + 1 for line in near.alike) or None,
            corrected_lines=corrected if len(corrected or "") <= _LONGEST else None,
        )

    def _insertion(self, hunk: PatchHunk) -> Part | _Misplaced:
        """The place of new lines without old ones: the end, or after the line they name."""
        count = self._base.line_count
        if hunk.headers:
            return _Misplaced("header_alone")
        if not count or hunk.at_end:
            return count, count
        if hunk.after is None or not self._is_base or hunk.after > count:
            return _Misplaced("no_context")
        return max(hunk.after - 1, 0), min(hunk.after + 1, count)

    def _places(self, old: Sequence[str]) -> list[int]:
        """All places of the lines, sorted, whatever their line ends; bytes match as shown, too."""
        key = tuple(old)
        if key not in self._found:
            self._found[key] = self._sought(old)
        return self._found[key]

    def _sought(self, old: Sequence[str]) -> list[int]:
        encoding = self._base.encoding
        try:
            keys = [encoding.bytes_of(line) for line in old]
        except EncodingRefused:
            return []
        rarest, offset = min((len(self._index.get(key, ())), at) for at, key in enumerate(keys))
        if rarest:
            if rarest * len(keys) <= self._base.line_count:
                starts = (at - offset for at in self._index[keys[offset]])
                found = [at for at in starts if self._stand(keys, at)]
            else:
                found = occurrences(self._base.keys, keys)
                if found[:1] != [0] and self._stand(keys, 0):  # after a byte order mark
                    found.insert(0, 0)
            if found:
                return found
        return self._as_shown(old) if encoding.escapes else []

    def _stand(self, wanted: Sequence[bytes], start: int) -> bool:
        """Whether these lines are at `start`."""
        if start < 0 or start + len(wanted) > self._base.line_count:
            return False
        keys, bom = self._base.keys, self._base.encoding.bom
        return all(
            keys[at] == one or (not at and bom + keys[at] == one)
            for at, one in enumerate(wanted, start)
        )

    def _as_shown(self, old: Sequence[str]) -> list[int]:
        """Match lines with bytes as they were shown, by shift-and: each bit is a line."""
        encoding = self._base.encoding
        alike: dict[str, dict[str, int]] = {}  # the hunk's lines and their positions
        for at, line in enumerate(old):
            lines = alike.setdefault(without_escapes(line), {})
            lines[line] = lines.get(line, 0) | 1 << at
        patterns = {
            line: encoding.pattern(line) or re.compile(re.escape(line))
            for lines in alike.values()
            for line in lines
        }
        fitting: dict[bytes, int] = {}
        found: list[int] = []
        reached, last = 0, 1 << (len(old) - 1)
        for at, key in enumerate(self._base.keys):
            if key not in fitting:
                text = encoding.text(key)
                lines = alike.get(without_escapes(text), {})
                fit = (bits for line, bits in lines.items() if patterns[line].fullmatch(text))
                fitting[key] = sum(fit)
            reached = (reached << 1 | 1) & fitting[key]
            if reached & last:
                found.append(at - len(old) + 1)
        return found

    @computed_once
    def _index(self) -> dict[bytes, list[int]]:
        """The line numbers by bytes; the first line also with its byte order mark."""
        found: dict[bytes, list[int]] = {}
        for line, key in enumerate(self._base.keys):
            found.setdefault(key, []).append(line)
        if self._base.encoding.bom and self._base.keys:
            found.setdefault(self._base.encoding.bom + self._base.keys[0], []).insert(0, 0)
        return found

    @computed_once
    def _outline(self) -> Outline:
        return Outline(self._base.keys)

    def _body(self, head: int) -> range:
        """The block of a header line: from it to the last line below it."""
        if head not in self._bodies:
            self._bodies[head] = range(head, self._outline.body(head).stop)
        return self._bodies[head]

    @computed_once
    def _ordered(self) -> tuple[list[str], list[int]]:
        """The lines, stripped of blanks, in alphabetical order, and their line numbers."""
        base = self._base
        texts = [base.text(at).strip() for at in range(base.line_count)]
        lines = sorted(range(len(texts)), key=texts.__getitem__)
        return [texts[at] for at in lines], lines

    def _heads(self, header: str) -> list[int]:
        """The lines that match a header, in order."""
        if header not in self._headed:
            texts, lines = self._ordered
            first = bisect_left(texts, header.strip())
            rest = zip(islice(texts, first, None), islice(lines, first, None), strict=True)
            starting = takewhile(lambda one: one[0].startswith(header.strip()), rest)
            self._headed[header] = sorted(at for text, at in starting if _names(header, text))
        return self._headed[header]

    def _below(self, headers: Sequence[str], places: list[int]) -> list[int] | _Misplaced:
        """The places below the headers; only those that the last one encloses, if there are any."""
        bodies = [range(self._base.line_count)]
        for header in headers:
            known = self._heads(header)
            heads = known[bisect_left(known, bodies[0].start) :]
            if not heads:
                return _Misplaced("no_header")
            inner = _within(heads, bodies)
            bodies = [self._body(head) for head in inner or heads]
        after = [at for at in places if at >= bodies[0].start]
        if not after:
            return _Misplaced("not_below_header", _numbers(places))
        return _within(after, bodies) or after


class _Replacement:
    """The edits of one hunk at its place, in exact bytes if all its old lines match to the byte.

    `is_raw`: new lines inserted between two lines are exact bytes, too.
    """

    def __init__(
        self,
        request: PatchEdit,
        base: Snapshot,
        hunk: PatchHunk,
        part: Part,
        *,
        is_raw: bool = False,
    ) -> None:
        self._request, self._base, self._hunk = request, base, hunk
        self._first, self._last = part
        is_between = not hunk.old and part[0] < part[1]
        self._is_raw = is_between and is_raw
        if is_between:
            assert hunk.after is not None, "only then it stands between lines"
            at = part[0] + (hunk.after > 0)
            self._first = self._last = at

    def edits(self) -> tuple[list[Edit], Escapes]:
        """The edits of the bytes that differ, in order, and the byte escapes that were used."""
        base, hunk = self._base, self._hunk
        if _is_open(hunk.new) and self._last < base.line_count:
            number, lines = self._request.hunks.index(hunk) + 1, (self._first + 1,)
            path = str(self._request.path)
            raise PatchRejected((RejectedHunk(path, number, "not_at_end", hunk.at, lines),))
        raw = base.raw(self._first, self._last)
        new, escapes = base.encoding.meant(hunk.new, raw)
        old, _ = base.encoding.meant(hunk.old, raw)
        starts = [base.start(at) for at in range(self._first, self._last + 1)]
        if not self._first and hunk.old.startswith("\ufeff"):
            starts[0] = 0  # the patch shows the byte order mark
        there = [base.slice(*span) for span in pairwise(starts)]
        theirs = _raw_lines(new)
        is_exact = there == [_bytes(base, line) for line in _raw_lines(old)]
        if is_exact and (there or not base.line_count or self._is_raw):
            made = [base.encoding.bytes_of(line) for line in theirs]
            edits: list[Edit] = []
            for gap in _gaps(hunk.signs, there, made):
                raw = b"".join(made[gap.now_start : gap.now_stop])
                edits.append(Edit(starts[gap.base_start], starts[gap.base_stop], raw))
            return edits, escapes
        return self._loosely(_raw_lines(old), theirs), escapes

    def _loosely(self, ours: list[str], theirs: list[str]) -> list[Edit]:
        """The edits from comparing lines without their line ends."""
        base = self._base
        was = [(_bare(line), line.endswith("\n")) for line in ours]
        new = [(_bare(line), line.endswith("\n")) for line in theirs]
        if not self._first and base.encoding.bom:
            for side in (was, new):
                side[:1] = [(base.encoding.unmarked(text), closed) for text, closed in side[:1]]
        edits: list[Edit] = []
        for gap in _gaps(self._hunk.signs, was, new):
            first, stop = self._first + gap.base_start, self._first + gap.base_stop
            raw = self._ended(new[gap.now_start : gap.now_stop], first, stop)
            if first == stop == base.line_count and not base.ends_with_newline and raw:
                raw = base.newline_near(first - 1, first) + raw
            edits.append(Edit(base.start(first), base.start(stop), raw))
        return edits

    def _ended(self, lines: Sequence[tuple[str, bool]], first: int, stop: int) -> bytes:
        """Encode new lines for those [first, stop); where they pair, each ends as its old line."""
        base = self._base
        newline = base.newline_near(first, stop)
        ends = [newline] * len(lines)
        if len(lines) == stop - first:
            ends = [base.terminator(at) or newline for at in range(first, stop)]
        encoded = (base.encoding.bytes_of(line) for line, _ in lines)
        return b"".join(
            raw + (end if closed else b"")
            for raw, end, (_, closed) in zip(encoded, ends, lines, strict=True)
        )


def _gaps(signs: str, old: Sequence[Hashable], new: Sequence[Hashable]) -> Iterator[Gap]:
    """Yield what changes between lines that are kept: those that the signs say, or equal ones."""
    at = now = 0
    for kept, changed in re.findall("( *)([-+]*)", signs or "-" * len(old) + "+" * len(new)):
        at, now = at + len(kept), now + len(kept)
        end, now_end = at + changed.count("-"), now + changed.count("+")
        for gap in align(old[at:end], new[now:now_end]).gaps():
            yield Gap(at + gap[0], at + gap[1], now + gap[2], now + gap[3])
        at, now = end, now_end


def occurrences(texts: Sequence[Hashable], wanted: Sequence[Hashable]) -> list[int]:
    """Return every place of the wanted lines, at least one, with overlaps, in linear time (KMP)."""
    border = [0]
    for one in wanted[1:]:
        length = border[-1]
        while length and wanted[length] != one:
            length = border[length - 1]
        border.append(length + (wanted[length] == one))
    found: list[int] = []
    length = 0
    for at, text in enumerate(texts, 1):
        while length and wanted[length] != text:
            length = border[length - 1]
        length += wanted[length] == text
        if length == len(wanted):
            found.append(at - length)
            length = border[-1]
    return found


def _holds(ordered: Sequence[int], one: int) -> bool:
    at = bisect_left(ordered, one)
    return ordered[at : at + 1] == [one]


def _within(ordered: Sequence[int], bodies: Sequence[range]) -> list[int]:
    """The lines that are inside one of the bodies; both are sorted."""
    found: list[int] = []
    at = stop = 0
    for line in ordered:
        while at < len(bodies) and bodies[at].start <= line:
            stop = max(stop, bodies[at].stop)
            at += 1
        if line < stop:
            found.append(line)
    return found


def _clash(base: Snapshot, request: PatchEdit, parts: Sequence[Part]) -> RejectedHunk | None:
    """The first hunk that changes lines which another hunk changes too."""
    made = [
        (edit.start, edit.stop, index)
        for index, (hunk, part) in enumerate(zip(request.hunks, parts, strict=True))
        for edit in _Replacement(request, base, hunk, part).edits()[0]
    ]
    made.sort()
    for (start, stop, one), (at, _, other) in pairwise(made):
        if at < stop or at == start:
            index = max(one, other)
            hunk, lines = request.hunks[index], (parts[index][0] + 1,)
            return RejectedHunk(str(request.path), index + 1, "hunks_overlap", hunk.at, lines)
    return None


def _is_open(text: str) -> bool:
    """Whether the text ends without a line end, which only the end of a file may."""
    return bool(text) and not text.endswith("\n")


def _names(header: str, line: str) -> bool:
    """Whether a header matches the line: it is the line, or whole words at its start."""
    line, header = line.strip(), header.strip()
    if not line.startswith(header):
        return False
    after = line[len(header) :][:1]
    return not (after.isalnum() or after == "_") or not (header[-1].isalnum() or header[-1] == "_")


def _numbers(lines: Sequence[int]) -> tuple[int, ...]:
    return tuple(line + 1 for line in lines[:_SHOWN_PLACES])


def lines_of(text: str) -> list[str]:
    """The lines of one side of a hunk, without their ends."""
    return [_bare(line) for line in _raw_lines(text)]


def _raw_lines(text: str) -> list[str]:
    """The lines of a text with their ends."""
    parts = text.split("\n")
    last = parts.pop()
    return [*(f"{part}\n" for part in parts), *([last] if last else [])]


def _bare(line: str) -> str:
    return line.removesuffix("\n").removesuffix("\r") if line.endswith("\n") else line


def _bytes(base: Snapshot, line: str) -> bytes | None:
    """The line as bytes; None if the file's encoding cannot represent it."""
    try:
        return base.encoding.bytes_of(line)
    except EncodingRefused:
        return None
