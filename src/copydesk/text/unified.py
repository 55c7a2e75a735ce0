"""Unified diffs, read off a change set; nothing is compared but the lines it touches.

What lives here: hunks and the git-style text of them. What must not: paths on a
disk, words. Law: `git apply` and GNU `patch` take the text made of `old` and
`change` to exactly `old.edited(change)`, whatever the bytes; UTF-16 and
UTF-32 are shown in UTF-8, and there the law holds of the texts in UTF-8.

A byte order mark is no part of a line elsewhere; in a diff it is the start of
the first one.
"""

from __future__ import annotations

from dataclasses import dataclass

from copydesk.text.align import align
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.snapshot import Snapshot, Text

CONTEXT = 3
"""Lines of context around a change."""

_REFINED = 4_000
"""A region of more lines than this is shown as it was replaced, not compared inside."""


@dataclass(frozen=True, slots=True)
class Region:
    """Old lines [start, stop), 0-based, and the raw lines that stand in their place."""

    start: int
    stop: int
    new: tuple[bytes, ...]


def regions(old: Text, change: ChangeSet) -> tuple[Region, ...]:
    """The whole-line regions that `change` alters, in order, without lines that stay the same."""
    old = old.unmarked()
    found: list[Region] = []
    for start, stop, edits in touched(old, change):
        low, high = old.start(start), old.start(stop)
        inner = ChangeSet.of(high - low, (Edit(e.start - low, e.stop - low, e.new) for e in edits))
        new = Snapshot(inner.apply(old.slice(low, high)), old.encoding)
        found += _refine(old, start, stop, [new.raw(i, i + 1) for i in range(new.line_count)])
    return tuple(found)


def touched(old: Text, change: ChangeSet) -> list[tuple[int, int, list[Edit]]]:
    """Line ranges [start, stop) that hold the edits whole; those that share a line are one.

    The new text of a range ends with a line ending, but at the end of the text. No
    edit may start within a byte order mark: `unmarked` texts have none.
    """
    found: list[tuple[int, int, list[Edit]]] = []
    for edit in change.edits:
        start = old.line_at(edit.start)
        stop = max(old.line_at(edit.stop), start)
        if stop < old.line_count and not _closed(old, edit, start, stop):
            stop += 1
        if found and start < found[-1][1]:
            first, last, edits = found[-1]
            found[-1] = (first, max(last, stop), [*edits, edit])
        else:
            found.append((start, stop, [edit]))
    return found


def unified(
    old: Text, change: ChangeSet, path: str, *, created: bool = False, removed: bool = False
) -> bytes:
    """The git-style diff; empty when no line changes.

    `created`: the file did not exist before; `removed`: it does not exist after.
    Lines end with LF; the text of a line keeps its own CR. A last line without
    terminator is followed by the usual remark.
    """
    found = regions(old, change)
    if not found and not created and not removed:
        return b""
    before, after = quoted(f"a/{path}"), quoted(f"b/{path}")
    head = b"diff --git " + before + b" " + after + b"\n"
    if created:
        head += b"new file mode 100644\n"
        if not found:
            return head + b"index 0000000..e69de29\n"
    if removed:
        head += b"deleted file mode 100644\n"
        if not found:
            return head + b"index e69de29..0000000\n"
    old_name = b"/dev/null" if created else before + _tab(before)
    new_name = b"/dev/null" if removed else after + _tab(after)
    head += b"--- " + old_name + b"\n+++ " + new_name + b"\n"
    return head + b"".join(_hunks(old.unmarked(), found))


def quoted(name: str) -> bytes:
    """The name as git writes it: in quotes, with escapes, when it holds control characters,
    a quote or a backslash; also when it ends with a blank, which patch would cut off."""
    raw = name.encode()
    if not any(byte < 32 or byte in b'"\\\x7f' for byte in raw) and raw[-1:] != b" ":
        return raw
    named = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}
    out = "".join(
        f"\\{named[b]}" if b in named else chr(b) if 32 <= b < 127 else f"\\{b:03o}" for b in raw
    )
    return f'"{out}"'.encode()


def counts(diff: bytes) -> tuple[int, int]:
    """Lines added and removed by a diff of one file made here."""
    body = diff.split(b"\n@@ ")[1:]
    lines = [line for hunk in body for line in hunk.split(b"\n")[1:]]
    return sum(x[:1] == b"+" for x in lines), sum(x[:1] == b"-" for x in lines)


def _tab(name: bytes) -> bytes:
    """A name with a blank is ended by a tab, or patch takes the rest for a time stamp."""
    return b"\t" if b" " in name else b""


def _closed(old: Text, edit: Edit, start: int, stop: int) -> bool:
    """Whether line `stop` is untouched by an edit that ends where it starts."""
    if edit.stop != old.start(stop):
        return False
    lf = old.encoding.encode("\n")
    if edit.new:
        return edit.new.endswith(lf)
    return edit.start == old.start(start)


def _refine(old: Text, start: int, stop: int, new: list[bytes]) -> list[Region]:
    """The region without the lines that are the same before and after."""
    was = [old.raw(i, i + 1) for i in range(start, stop)]
    if len(was) + len(new) > _REFINED:
        runs = [(0, 0, _common(was, new)), (len(was), len(new), 0)]
    else:
        runs = [(r.base_start, r.now_start, r.length) for r in align(was, new).runs]
        runs.append((len(was), len(new), 0))
    found: list[Region] = []
    a = b = 0
    for base, now, length in runs:
        if base > a or now > b:
            found.append(Region(start + a, start + base, tuple(new[b:now])))
        a, b = base + length, now + length
    return found


def _common(was: list[bytes], new: list[bytes]) -> int:
    """How many lines are the same at the start of both."""
    count = 0
    for one, other in zip(was, new, strict=False):
        if one != other:
            break
        count += 1
    return count


def _hunks(old: Text, found: tuple[Region, ...]) -> list[bytes]:
    """The text of each hunk; regions whose contexts meet share one."""
    groups: list[list[Region]] = []
    for region in found:
        if groups and region.start - groups[-1][-1].stop <= 2 * CONTEXT:
            groups[-1].append(region)
        else:
            groups.append([region])
    texts: list[bytes] = []
    shift = 0
    for group in groups:
        first = max(group[0].start - CONTEXT, 0)
        last = min(group[-1].stop + CONTEXT, old.line_count)
        delta = sum(len(r.new) - (r.stop - r.start) for r in group)
        old_size, new_size = last - first, last - first + delta
        head = f"@@ -{first + (old_size > 0)},{old_size} +{first + shift + (new_size > 0)},"
        texts.append(f"{head}{new_size} @@\n".encode() + _body(old, group, first, last))
        shift += delta
    return texts


def _body(old: Text, group: list[Region], first: int, last: int) -> bytes:
    out: list[bytes] = []

    def put(sign: bytes, raw: bytes) -> None:
        wide = old.encoding.unit > 1
        shown = old.encoding.decode(raw).encode() if wide else raw
        out.append(sign + shown)
        if not shown.endswith(b"\n"):
            out.append(b"\n\\ No newline at end of file\n")

    def keep(start: int, stop: int) -> None:
        for line in range(start, stop):
            put(b" ", old.raw(line, line + 1))

    at = first
    for region in group:
        keep(at, region.start)
        for line in range(region.start, region.stop):
            put(b"-", old.raw(line, line + 1))
        for raw in region.new:
            put(b"+", raw)
        at = region.stop
    keep(at, last)
    return b"".join(out)
