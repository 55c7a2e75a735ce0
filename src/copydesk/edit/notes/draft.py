"""The draft of a block diff: its changes of the texts of one or several documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Literal

from copydesk.edit.draft import BlockReads, Draft, Normalized
from copydesk.edit.locate import Place
from copydesk.edit.notes.grammar import Action, BlockHunk
from copydesk.edit.notes.plan import BlockPlan, InsertBlocks, NewText, SplitText
from copydesk.edit.request import BlockDiff
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.encoding import UTF8
from copydesk.text.markdown import Block, Profile, is_phantom, parse
from copydesk.text.markdown.block import BLANK, LIST, cut, decode, encode
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot
from copydesk.text.unified import FileEdit, counts

Kind = Literal["UPDATE", "REPLACE", "DELETE", "INSERT_BEFORE", "INSERT_AFTER", "PREPEND", "APPEND"]
"""The kind of a hunk in reports."""

_KINDS: Mapping[Action, Kind] = {
    "EDIT": "UPDATE",
    "REPLACE": "REPLACE",
    "BEFORE": "INSERT_BEFORE",
    "AFTER": "INSERT_AFTER",
    "PREPEND": "PREPEND",
    "APPEND": "APPEND",
}


@dataclass(frozen=True, slots=True)
class HunkMade:
    """One applied hunk: kind, block, old text if known, new text, new ids."""

    kind: Kind
    block_id: str
    old: str
    new: str
    new_ids: tuple[str, ...] = ()


_NO_PLAN = BlockPlan((), (), ())


@dataclass(frozen=True)
class BlockDraft(Draft):
    """The draft of a block diff, made by `block_draft`.

    `documents` are those that change, the first one named first; of several the
    draft itself is of their texts one below the other. Where it was done, `ids`
    are those that the operations of `plan` left, and `edit_ids` those of the journal.
    `notices` are what it does besides: their kind, the block, and what it is.
    """

    plan: BlockPlan = _NO_PLAN
    documents: tuple[FileEdit, ...] = ()
    ids: tuple[tuple[str, ...], ...] = ()
    edit_ids: tuple[int, ...] = ()
    notices: tuple[tuple[str, str, str], ...] = ()

    @property
    def diff(self) -> bytes:
        """The unified diffs of all documents, one after the other."""
        return self._all_diffs

    @property
    def old_count(self) -> int:
        """The number of lines removed, in all documents."""
        return self._counts[1]

    @property
    def new_count(self) -> int:
        return self._counts[0]

    @property
    def bad_character(self) -> bool:
        """Whether the new text holds U+FFFD and the diff does not look for it."""
        return any("\ufffd" in hunk.text for hunk in self.plan.hunks) and not any(
            "\ufffd" in image.markdown for image in self.plan.reads
        )

    @property
    def reads(self) -> BlockReads:
        """What a plan saves: digests of texts that no SEARCH names, and the numbers of lines."""
        blind = {hunk.block_id for hunk in self.plan.hunks if _is_blind(hunk)}
        found = (image for image in self.plan.reads if image.id in blind)
        digests = tuple((image.id, digest_of_texts(image.markdown)) for image in found)
        return BlockReads(digests, self.old_count, self.new_count)

    def made(self) -> tuple[HunkMade, ...]:
        """Each hunk, in the order of the diff."""
        came: dict[int, list[str]] = {}
        for operation, ids in zip(self.plan.operations, self.ids, strict=False):
            if isinstance(operation, InsertBlocks):
                for line in operation.lines:
                    came.setdefault(line, []).extend(ids)
        old = {image.id: image.markdown for image in self.plan.reads}
        return tuple(
            HunkMade(
                _kind(hunk),
                hunk.block_id,
                old[hunk.block_id] if hunk.deletes or hunk.rewrites else "",
                hunk.text,
                tuple(came.get(hunk.line, ())),
            )
            for hunk in self.plan.hunks
        )

    def done(self, ids: tuple[tuple[str, ...], ...], edit_ids: tuple[int, ...]) -> BlockDraft:
        """The draft with the results of its write."""
        return replace(self, ids=ids, edit_ids=edit_ids)

    @cached_property
    def _all_diffs(self) -> bytes:
        return b"".join(one.diff for one in self.documents)

    @cached_property
    def _counts(self) -> tuple[int, int]:
        found = [counts(one.diff) for one in self.documents]
        return sum(one[0] for one in found), sum(one[1] for one in found)


def block_draft(
    request: BlockDiff, plan: BlockPlan, documents: Sequence[FileEdit], path: RelPath
) -> BlockDraft:
    """The draft of a plan and its documents; `path` is that of the first one named."""
    order = tuple(sorted(documents, key=lambda each: each.path != path))
    whole = joined(order) if order else FileEdit(path, Snapshot(b"", UTF8), ChangeSet.of(0, []))
    closed = whole.base.line_count == 0 or whole.base.ends_with_newline
    style = whole.base.newline_name(whole.base.dominant_newline)
    return BlockDraft(
        replace(request, path=whole.path),
        whole.base,
        Place(0, 0, None),
        whole.change,
        (),
        Normalized(closed, True, False, False, style, 0),
        created=whole.created,
        plan=plan,
        documents=order,
    )


def joined(documents: Sequence[FileEdit]) -> FileEdit:
    """Documents, one at least, as one text: each but the first below a line with its path."""
    first, *others = documents
    if not others:
        return first
    data, edits = first.base.data, list(first.change.edits)
    for one in others:
        data += f"\n=== {one.path} ===\n".encode()
        edits += [Edit(len(data) + e.start, len(data) + e.stop, e.new) for e in one.change.edits]
        data += one.base.data
    base = Snapshot(data, UTF8)
    return FileEdit(first.path, base, ChangeSet.of(base.size, edits))


def rewritten(path: RelPath, before: str | None, after: str) -> FileEdit:
    """A document of which only the texts are known, each ended by a line feed; None: it is new."""
    base = Snapshot(_closed(before or ""), UTF8)
    new = _closed(after)
    edits = [] if new == base.data else [Edit(0, base.size, new)]
    return FileEdit(path, base, ChangeSet.of(base.size, edits), before is None)


def digest_of_texts(text: str) -> str:
    """The SHA-256 of a text in UTF-8, in hex."""
    return Snapshot(text.encode("utf-8", "surrogatepass"), UTF8).digest


def _closed(text: str) -> bytes:
    closed = text if not text or text.endswith("\n") else f"{text}\n"
    return closed.encode("utf-8", "surrogatepass")


def _is_blind(hunk: BlockHunk) -> bool:
    """Whether the hunk deletes or replaces a text without SEARCH."""
    return hunk.search is None and (hunk.deletes or hunk.rewrites)


def _kind(hunk: BlockHunk) -> Kind:
    return "DELETE" if hunk.deletes else _KINDS[hunk.action]


def split_as(profile: Profile) -> SplitText:
    """How a profile splits texts, line ends as LF: `siyuan` for a kernel, `gfm` for a folder."""

    def split(text: str) -> tuple[NewText, ...]:
        lines, _ = cut(encode(text))
        data = b"\n".join(lines)
        blocks = [
            block for block in parse(data, profile, part=True).root.children if _stands(block)
        ]
        return tuple(_pieces(data, lines, blocks)) if blocks else ()

    return split


def _stands(block: Block) -> bool:
    return not is_phantom(block)


def _pieces(data: bytes, lines: Sequence[bytes], blocks: Sequence[Block]) -> Iterator[NewText]:
    starts = _first_lines(data, blocks)
    starts[0] = 0  # leading text that belongs to no block goes to the first
    for block, start, stop in zip(blocks, starts, [*starts[1:], len(lines)], strict=True):
        items = block.children if block.kind == LIST else ()
        within = [start, *_first_lines(data, items)[1:], stop]
        below = tuple(
            NewText(item.kind, _joined(lines[one:other]))
            for item, (one, other) in zip(items, pairwise(within), strict=False)
        )
        yield NewText(block.kind, _joined(lines[start:stop]), below)


def _first_lines(data: bytes, blocks: Sequence[Block]) -> list[int]:
    """The lines, from 0, on which consecutive blocks start."""
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
