"""What answers tell of each kind of edit: a table with one row a kind, and the lines they show.

A new kind is one more row of `_ROWS`; nothing else asks which kind a request is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from copydesk.desk.backends.snapshots import Run
from copydesk.desk.outcome import Applied
from copydesk.edit.draft import Draft, cut
from copydesk.errors import Refusal
from copydesk.text.diff import same_after
from copydesk.text.encoding import NO_ESCAPES, Escapes
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot, Text
from copydesk.text.unified import Region, is_binary
from copydesk.tools.diff_model import View, view_of
from copydesk.tools.messages import has, say, say_reason
from copydesk.tools.report import Fields, Lang, Value

if TYPE_CHECKING:
    from copydesk.edit.request import (
        Append,
        BatchEdit,
        BlockReplace,
        ChangeMode,
        DeleteFile,
        Insert,
        MoveFile,
        RangeEdit,
        RangeEdits,
        Request,
    )
    from copydesk.notes.plan import BlockDiff, BlockDraft, HunkMade


AROUND = 3
MOST = 8
_HEAD = 5
_WIDTH = 200
_REPLACED = 60  # characters of a line that an edit by numbers replaced
MOST_REGIONS = 50
_SHOWN_REGIONS = 5
_SHOWN_ESCAPES = 8
_OLD_SHOWN, _NEW_SHOWN = 30, 50  # characters of blocks in the line of a hunk


def _nothing(*of: object) -> Fields:
    return {}


def _no_rows(*of: object) -> tuple[()]:
    return ()


@dataclass(frozen=True, slots=True)
class Row:
    """How answers tell of one kind of edit; every function gets a draft of that kind.

    `planned` and `applied` are the fields of a plan and of an apply that only this kind has;
    `evidence` and `written` are the lines that each of them shows, and `shown` those of the base
    that `evidence` shows whole. `plan_words` and `applied_words` are the keys of their summaries,
    `numbers` the facts in these. `where` is the file and place in one line, with a remark on the
    line. `notices` are warnings of this kind. `of_text`: line ends are normalized.
    """

    planned: Callable[[Any, Any, Lang], Fields]
    applied: Callable[[Any, Any, Lang], Fields]
    numbers: Callable[[Any], dict[str, object]]
    where: Callable[[Draft, str], str]
    plan_words: Callable[[Draft], str]
    applied_words: Callable[[Applied], str]
    evidence: Callable[[Draft], Fields] = _nothing
    written: Callable[[Draft], Fields] = _nothing
    shown: Callable[[Draft], Sequence[Run]] = _no_rows
    notices: Callable[[Any, Lang], Sequence[str]] = _no_rows
    of_text: bool = True


def row_of(request: Request) -> Row:
    """The row of the request's kind."""
    return _ROWS[type(request).__name__]


def line_counts(draft: Draft) -> Fields:
    """The numbers of lines that a draft replaces and writes, and the difference."""
    old, new = draft.old_count, draft.new_count
    return {"old": old, "new": new, "delta": new - old}


def normalized(draft: Draft) -> Fields:
    """The line ends that were added or converted."""
    done = draft.normalized
    return {
        "file_eof_has_newline": done.file_eof_has_newline,
        "content_eof_has_newline": done.content_eof_has_newline,
        "normalized_file_eof_newline_added": done.file_eof_newline_added,
        "normalized_content_eof_newline_added": done.content_eof_newline_added,
        "newline_style": done.newline_style,
        "content_newlines_converted": done.content_newlines_converted,
    }


def first_line(draft: Draft) -> int:
    """The first line (1-based) that changes."""
    changed = draft.regions if draft.place.parts else ()
    return (changed[0].start if changed else draft.place.start) + 1


# Edits at one place: by range, at the end, at an anchor, between two anchors.


def _resolved(draft: Draft) -> Fields:
    return {"start": draft.place.start + 1, "end": draft.place.stop}


def _range_planned(draft: Draft, request: RangeEdit, lang: Lang) -> Fields:
    asked: Fields = {"input": request.range, "resolved": _resolved(draft)}
    return {"range": asked, "lines": line_counts(draft)}


def _range_applied(draft: Draft, request: RangeEdit | Append, lang: Lang) -> Fields:
    place = draft.place
    if place.foot is not None:
        return {"applied_range": _resolved(draft), "lines": line_counts(draft)}
    added: Fields = {"start": place.start + 1, "end": place.start + len(draft.new_lines)}
    return {"append_range": added, **_append_tails(draft)}


def _range_evidence(draft: Draft) -> Fields:
    before, old, after = _in_place(draft, draft.base, draft.place.stop, draft.after)
    return {"evidence": {"before": before, "range": old, "after": after}}


def _range_words(draft: Draft) -> str:
    """The key for a plan; a text put into an empty file, or after its end, is appended."""
    return f"plan.{draft.action}" if draft.old_count else "plan.append"


def _append_planned(draft: Draft, request: Append, lang: Lang) -> Fields:
    before, leading, _, _ = _blank_lines(draft)
    return {
        "create": request.create,
        "file_line_count_before": draft.base.line_count,
        "file_line_count_after": draft.after.line_count,
        "appended_line_count": len(draft.new_lines),
        "blankline_style": {
            "file_trailing_blank_line_count": before,
            "content_leading_blank_line_count": leading,
        },
        "style_warning": say("style.double_blank", lang) if before and leading else "",
    }


def _append_tails(draft: Draft) -> Fields:
    """The lines around the end, and the appended ones; each is shown once."""
    last, now = draft.base.line_count, draft.after.line_count
    shown_to_end = now - last <= MOST
    return {
        "evidence_preview": {
            "before_tail": lines_before(draft.base, last),
            "append_preview": lines_of(draft.after, last, now if shown_to_end else last + _HEAD),
            "after_tail": "" if shown_to_end else lines_before(draft.after, now),
        }
    }


def _insert_planned(draft: Draft, request: Insert, lang: Lang) -> Fields:
    before, leading, trailing, after = _blank_lines(draft)
    meets = (before and leading) or (after and trailing)
    return {
        "position": request.position,
        "anchor": request.anchor.text,
        "match": request.anchor.match,
        "candidates_count": draft.place.candidates,
        "occurrence_resolved": draft.place.occurrence,
        "inserted_at_line": draft.place.start + 1,
        "inserted_line_count": len(draft.new_lines),
        "lines": line_counts(draft),
        "blankline_style": {
            "blank_line_count_before": before,
            "content_leading_blank_line_count": leading,
            "content_trailing_blank_line_count": trailing,
            "blank_line_count_after": after,
        },
        "style_warning": say("style.double_blank", lang) if meets else "",
    }


def _insert_applied(draft: Draft, request: Insert, lang: Lang) -> Fields:
    return {
        "position": request.position,
        "anchor": request.anchor.text,
        "inserted_at_line": draft.place.start + 1,
        "inserted_line_count": len(draft.new_lines),
    }


def _insert_evidence(draft: Draft) -> Fields:
    before, _, after = _in_place(draft, draft.base, draft.place.stop, draft.after)
    return {
        "evidence_preview": {"before": before, "insert_preview": _new_text(draft), "after": after}
    }


def _blank_lines(draft: Draft) -> tuple[int, int, int, int]:
    """How many blank lines are above the place, first and last in the new text, and below."""
    base, place = draft.base, draft.place
    blank = [not line.strip() for line in draft.new_lines]
    above = range(place.start - 1, base.reach(place.start)[0] - 1, -1)
    below = range(place.stop, base.reach(place.stop)[1])
    before, after = (_run(not base.text(i).strip() for i in lines) for lines in (above, below))
    return before, _run(blank), _run(blank[::-1]), after


def _run(flags: Iterable[bool]) -> int:
    """The number of leading flags that are set; the rest is not evaluated."""
    return sum(1 for _ in takewhile(bool, flags))


def _block_planned(draft: Draft, request: BlockReplace, lang: Lang) -> Fields:
    return {
        "start_anchor": request.start_anchor.text,
        "end_anchor": request.end_anchor.text,
        "match": request.start_anchor.match,
        "include_anchors": request.include_anchors,
        "require_unique": request.require_unique,
        "strict": request.strict,
        "candidates_count": draft.place.candidates,
        "occurrence_resolved": draft.place.occurrence,
        "first_candidate_taken": draft.place.first_taken,
        **_block_applied(draft, request, lang),
    }


def _block_applied(draft: Draft, request: BlockReplace, lang: Lang) -> Fields:
    start, stop = draft.place.foot or (draft.place.start, draft.place.stop)
    return {
        "block_range": {"start_line": start + 1, "end_line": stop},
        "replace_slice": {"start_line": draft.place.start + 1, "delete_count": draft.old_count},
        "lines": line_counts(draft),
    }


def _block_evidence(draft: Draft) -> Fields:
    before, old, after = _in_place(draft, draft.base, draft.place.stop, draft.after)
    shown = {"before_preview": before, "old_preview": old, "new_preview": _new_text(draft)}
    return {"evidence_preview": {**shown, "after_preview": after}}


def _place_written(draft: Draft) -> Fields:
    stop = draft.place.start + len(draft.new_lines)
    before, written, after = _in_place(draft, draft.after, stop, draft.base)
    return {"before": before, "written": written, "after": after}


def _place_shown(draft: Draft) -> list[Run]:
    base, start, stop = draft.base, draft.place.start, draft.place.stop
    if draft.place.parts:
        return []
    if stop - start <= MOST:  # no line is left out
        return _whole(base, max(start - AROUND, 0), min(stop + AROUND, base.line_count))
    runs = (start - AROUND, start), (start, stop), (stop, stop + AROUND)
    return [each for run in runs for each in lines_whole(base, *run)]


def _place_numbers(draft: Draft) -> dict[str, object]:
    place, new = draft.place, draft.new_count
    start, stop = place.foot or (place.start, place.stop)
    return {
        "path": draft.request.path,
        "start": place.start + 1,
        "end": place.stop,
        "block": f"{start + 1}~{stop}",
        "where": f"{place.start + 1}~{max(place.start + new, place.start + 1)}",
        **line_counts(draft),
    }


def _place_where(draft: Draft, at: str) -> str:
    return f"{draft.request.path}:{first_line(draft)}{at} +{draft.new_count} -{draft.old_count}"


def _new_text(draft: Draft) -> str:
    start = draft.place.start
    stop = start + len(draft.new_lines)
    return lines_of(draft.after, start, stop, other=(draft.base, start))


# Several edits at once: by ranges, by texts, by the hunks of a patch.


def _several_planned(draft: Draft, request: Request, lang: Lang) -> Fields:
    count = request.count * draft.place.candidates
    return {"edits_count": count, **row_of(request).applied(draft, request, lang)}


def _several_applied(draft: Draft, request: BatchEdit, lang: Lang) -> Fields:
    return {"regions": [*_parts(draft)], "lines": line_counts(draft)}


def _ranges_applied(draft: Draft, request: RangeEdits, lang: Lang) -> Fields:
    parts = zip(_parts(draft), request.edits, strict=False)
    return {
        "regions": [{**part, "input": edit.range} for part, edit in parts],
        "lines": line_counts(draft),
    }


def replaced_ends(draft: Draft) -> list[Fields]:
    """The first and the last line that an edit by numbers replaced in each of its first places."""
    return [
        {
            "lines": f"{start + 1}~{stop}",
            "first": cut(draft.base.text(start).strip(), _REPLACED),
            "last": cut(draft.base.text(stop - 1).strip(), _REPLACED) if start + 1 < stop else None,
        }
        for (start, stop), _ in draft.request.by_number(draft.place)[:MOST_REGIONS]
        if start < stop
    ]


def _parts(draft: Draft) -> list[Fields]:
    """The lines of each of several edits, MOST_REGIONS at most."""
    parts = enumerate(draft.place.parts[:MOST_REGIONS])
    return [
        {"index": index, "start_line": start + 1, "end_line": stop}
        for index, (start, stop) in parts
    ]


def _several_evidence(draft: Draft) -> Fields:
    """The old lines that several edits will change, in the first few regions."""
    rows: list[Value] = [
        {
            "start_line": region.start + 1,
            "end_line": region.stop,
            "old": lines_of(draft.base, region.start, region.stop, other=(draft.after, start)),
        }
        for region, start in shifted(draft.regions[:_SHOWN_REGIONS])
    ]
    return {"evidence": {"regions": rows, **_more_regions(draft)}}


def _several_written(draft: Draft) -> Fields:
    """The lines that several edits wrote and those next to them, in the first few regions.

    A deleted region ends one line before it starts.
    """
    rows: list[Value] = []
    for region, start in shifted(draft.regions[:_SHOWN_REGIONS]):
        stop = start + len(region.new)
        rows.append(
            {
                "start_line": start + 1,
                "end_line": stop,
                "before": lines_of(draft.after, start - 1, start),
                "written": lines_of(draft.after, start, stop, other=(draft.base, region.start)),
                "after": lines_of(draft.after, stop, stop + 1),
            }
        )
    return {"regions": rows, **_more_regions(draft)}


def _more_regions(draft: Draft) -> Fields:
    more = len(draft.regions) - _SHOWN_REGIONS
    return {"regions_left_out": more} if more > 0 else {}


def _several_numbers(draft: Draft) -> dict[str, object]:
    edits = draft.request.count * draft.place.candidates
    places = min(len(draft.regions), len(draft.place.parts))
    told = {"path": draft.request.path, "edits": edits, "places": places}
    return {**told, **line_counts(draft)}


def _texts_where(draft: Draft, at: str) -> str:
    places = len(draft.place.parts)
    return _place_where(draft, at) + (f" · {places} places" if places > 1 else "")


# Block diffs of notes.


def _notes_planned(draft: BlockDraft, request: BlockDiff, lang: Lang) -> Fields:
    return {
        "documents": [str(one.path) for one in draft.documents],
        "hunks": hunk_rows(draft.made(), done=False),
        "lines": line_counts(draft),
    }


def _notes_applied(draft: BlockDraft, request: BlockDiff, lang: Lang) -> Fields:
    return {
        "documents": [str(one.path) for one in draft.documents],
        "hunks": hunk_rows(draft.made(), done=True),
        "edit_ids": list(draft.edit_ids),
        "lines": line_counts(draft),
    }


def _notes_numbers(draft: BlockDraft) -> dict[str, object]:
    told = {"hunks": len(draft.plan.hunks), "documents": len(draft.documents)}
    return {"path": draft.request.path, **told, "old": draft.old_count, "new": draft.new_count}


def _ids_gone(draft: BlockDraft, lang: Lang) -> list[str]:
    return [
        say("notes.ids_gone", lang, {"block_id": block_id, "detail": detail})
        for _, block_id, detail in draft.notices
    ]


def hunk_text(hunk: HunkMade) -> str:
    """A hunk in one line: what happens to which block."""
    old, new = _quoted(hunk.old, _OLD_SHOWN), _quoted(hunk.new, _OLD_SHOWN)
    changes = {"UPDATE": f"{old} → {new}", "REPLACE": f"→ {new}", "DELETE": old}
    said = changes.get(hunk.kind) or _quoted(hunk.new, _NEW_SHOWN)
    ids = f" [{', '.join(hunk.new_ids)}]" if hunk.new_ids else ""
    return f"{hunk.kind} {hunk.block_id}: {said}{ids}"


def hunk_rows(hunks: Iterable[HunkMade], *, done: bool) -> list[Value]:
    """The hunks for a program, each with the ids of its new blocks."""
    return [
        {
            "edit": {"type": hunk.kind, "blockId": hunk.block_id},
            "operation": hunk_text(hunk),
            **({"success": True} if done else {}),
            **({"newBlockId": ids[0], "newBlockIds": list(ids)} if (ids := hunk.new_ids) else {}),
        }
        for hunk in hunks
    ]


def _quoted(text: str, most: int) -> str:
    return f'"{start_of(one_line(text), most)}"'


def one_line(text: str) -> str:
    """The text in one line, with its line ends shown as `\\n`."""
    return text.replace("\r", "").replace("\n", "\\n")


def start_of(text: str, most: int) -> str:
    """The text, or its first `most` characters and an ellipsis."""
    return text if len(text) <= most else f"{text[:most]}..."


# Operations on a whole file: they show no lines beside their diff.


def _deletion(draft: Draft, request: DeleteFile, lang: Lang) -> Fields:
    binary = is_binary_deletion(draft)
    lines: Fields = {} if binary else {"lines": line_counts(draft)}
    return {"size_bytes": draft.base.size, "binary": binary, **lines}


def _delete_numbers(draft: Draft) -> dict[str, object]:
    return {"path": draft.request.path, "lines": draft.old_count, "bytes": draft.base.size}


def _delete_words(draft: Draft) -> str:
    return "plan.file_delete.binary" if is_binary_deletion(draft) else "plan.file_delete"


def is_binary_deletion(draft: Draft) -> bool:
    """Whether the deleted file is binary: its bytes are in no diff."""
    base = draft.base
    return draft.request.deletes and isinstance(base, Snapshot) and is_binary(base)


def _move(draft: Draft, request: MoveFile, lang: Lang) -> Fields:
    return {"to": str(request.to), "size_bytes": draft.base.size}


def _move_numbers(draft: Draft) -> dict[str, object]:
    return {"path": draft.request.path, "to": draft.request.target}


def _mode(draft: Draft, request: ChangeMode, lang: Lang) -> Fields:
    old, new = _modes(draft)
    return {"old_mode": old, "new_mode": new}


def _mode_numbers(draft: Draft) -> dict[str, object]:
    return {"path": draft.request.path, "new_mode": _modes(draft)[1]}


def _mode_where(draft: Draft, at: str) -> str:
    return f"{draft.request.path} (mode {_modes(draft)[1]})"


def _modes(draft: Draft) -> list[str]:
    return [f"{mode & 0o777:o}" for mode in draft.request.modes or ()]


# A template's `format` is a function of the draft, or of the outcome, like any other.
_RANGE = Row(
    _range_planned,
    _range_applied,
    _place_numbers,
    _place_where,
    _range_words,
    "apply.{0.context}".format,
    _range_evidence,
    _place_written,
    _place_shown,
)
_SEVERAL = Row(
    _several_planned,
    _several_applied,
    _several_numbers,
    _texts_where,
    "plan.batch".format,
    "apply.batch.{0.context}".format,
    _several_evidence,
    _several_written,
    _place_shown,
)
_OPERATION = partial(
    Row,
    plan_words="plan.{0.action}".format,
    applied_words="apply.{0.draft.action}".format,
    of_text=False,
)
# By the names of the classes: the kinds of notes are not imported before a note is edited.
_ROWS: dict[str, Row] = {
    "RangeEdit": _RANGE,
    "Append": replace(_RANGE, planned=_append_planned, evidence=_append_tails),
    "Insert": replace(
        _RANGE,
        planned=_insert_planned,
        applied=_insert_applied,
        evidence=_insert_evidence,
        plan_words="plan.insert".format,
    ),
    "BlockReplace": replace(
        _RANGE,
        planned=_block_planned,
        applied=_block_applied,
        evidence=_block_evidence,
        plan_words="plan.block_replace".format,
    ),
    "RangeEdits": replace(_SEVERAL, applied=_ranges_applied, where=_place_where),
    "BatchEdit": _SEVERAL,
    "ReplaceText": _SEVERAL,
    "PatchEdit": _SEVERAL,
    "BlockDiff": Row(
        _notes_planned,
        _notes_applied,
        _notes_numbers,
        _place_where,
        "plan.block_diff".format,
        "apply.block_diff.{0.context}".format,
        notices=_ids_gone,
    ),
    "DeleteFile": _OPERATION(
        _deletion,
        _deletion,
        _delete_numbers,
        "{0.request.path} (deleted) +0 -{0.old_count}".format,
        plan_words=_delete_words,
    ),
    "MoveFile": _OPERATION(
        _move, _move, _move_numbers, "{0.request.path} => {0.request.target}".format
    ),
    "ChangeMode": _OPERATION(_mode, _mode, _mode_numbers, _mode_where),
}


# The lines that answers show, and what they say of the new text of any edit.


def numbered(first_line: int, texts: Sequence[str]) -> list[str]:
    """The texts as `12<tab>text`, from `first_line` (1-based)."""
    return [f"{line}\t{text}" for line, text in enumerate(texts, first_line)]


def lines_of(
    base: Text,
    start: int,
    stop: int,
    *,
    numbers: bool = False,
    other: tuple[Text, int] | None = None,
) -> str:
    """Lines [start, stop) (0-based) as far as they exist, each ended by a newline.

    They are unchanged, except that long runs are cut inside and long lines are cut; with `numbers`
    each line has its number. `other`: the corresponding text and its first line; a long line is cut
    around its first difference from that text.
    """
    start, stop = max(start, 0), min(stop, base.line_count)
    shown: list[str] = []
    for first, last in _runs(start, stop):
        texts: Sequence[str] = base.texts(first, last)
        if not _are_short(texts):
            texts = [
                cut(text, _WIDTH, _first_difference(text, other, line))
                for line, text in enumerate(texts, first - start)
            ]
        if shown:
            shown.append(f"… ({stop - start - MOST} lines left out)")
        shown += numbered(first + 1, texts) if numbers else texts
    return _ended(shown)


def lines_before(base: Text, line: int) -> str:
    """A few lines before line `line` (0-based)."""
    return lines_of(base, line - AROUND, line)


def lines_after(base: Text, line: int) -> str:
    """A few lines from line `line` (0-based) on."""
    return lines_of(base, line, line + AROUND)


def _in_place(draft: Draft, base: Text, stop: int, other: Text) -> tuple[str, str, str]:
    """A few lines before the place in one of its texts, its lines up to `stop`, and a few after.

    `other` is the other one of its texts; what `lines_of` shows, read at once if all is short.
    """
    start = draft.place.start
    first = max(start - AROUND, 0)
    if stop - start <= MOST:
        texts = base.texts(first, min(stop + AROUND, base.line_count))
        if _are_short(texts):
            at, end = start - first, stop - first
            return _ended(texts[:at]), _ended(texts[at:end]), _ended(texts[end:])
    own = lines_of(base, start, stop, other=(other, start))
    return lines_before(base, start), own, lines_after(base, stop)


def _are_short(texts: Sequence[str]) -> bool:
    """Whether each line is shown whole; mostly they all are."""
    return not texts or max(map(len, texts)) <= _WIDTH


def _ended(texts: Sequence[str]) -> str:
    return "\n".join((*texts, "")) if texts else ""


def _first_difference(text: str, other: tuple[Text, int] | None, line: int) -> int:
    """Where a long line first differs from the line at this offset in the other text."""
    if other is None or len(text) <= _WIDTH or not 0 <= other[1] + line < other[0].line_count:
        return 0
    return same_after(text, other[0].text(other[1] + line), 0, 0)


def _runs(start: int, stop: int) -> tuple[Run, ...]:
    """The runs of lines to show: of many lines, the first and the last."""
    if stop - start <= MOST:
        return ((start, stop),)
    return (start, start + _HEAD), (stop - (MOST - _HEAD), stop)


def lines_whole(base: Text, start: int, stop: int) -> list[Run]:
    """The lines that `lines_of` shows whole."""
    runs = _runs(max(start, 0), min(stop, base.line_count))
    return [each for run in runs for each in _whole(base, *run)]


def _whole(base: Text, start: int, stop: int) -> list[Run]:
    texts = base.texts(start, stop)
    if _are_short(texts):
        return [(start, stop)]
    return [(line, line + 1) for line, text in enumerate(texts, start) if len(text) <= _WIDTH]


def views(
    refusal: Refusal, path: RelPath, now: Text | None, lines: tuple[int, int]
) -> tuple[View, ...]:
    """The lines of the current text that a refusal at these lines shows."""
    if now is None or getattr(refusal, "current", None) is not None:
        return view_of(refusal, path, now.version if now else None)
    shown = partial(lines_whole, now, lines[0] - AROUND, lines[1] + AROUND)
    return (View(path, now.version, now.line_count, evidence=shown),)


def shifted(found: Iterable[Region]) -> Iterator[tuple[Region, int]]:
    """Regions of a text with their first lines (0-based) after all of them are changed."""
    shift = 0
    for region in found:
        yield region, region.start + shift
        shift += len(region.new) - (region.stop - region.start)


def warnings(draft: Draft, lang: Lang, signs: Sequence[str] = ()) -> Fields:
    """The warnings about the new text of a draft."""
    said = warned(draft.bad_character, draft.escapes, lang, signs)
    said += row_of(draft.request).notices(draft, lang)
    return {"warnings": [*said]} if said else {}


def remarks(draft: Draft, fields: Fields, lang: Lang) -> tuple[str, ...]:
    """The remarks of a brief answer: what was normalized, and warnings."""
    done, said = draft.normalized, list[str]()
    if done.file_eof_newline_added:
        said.append(say("remark.file_eof_newline", lang))
    if done.content_newlines_converted:
        facts = {"count": done.content_newlines_converted, "style": done.newline_style}
        said.append(say("remark.newlines", lang, facts))
    if draft.place.first_taken:
        said.append(say("remark.first_taken", lang, {"count": draft.place.candidates}))
    return (*said, *warned_in(fields))


def corrected_words(causes: Sequence[str], lang: Lang) -> str:
    """Why the old text of an edit was not in the file as given, for one that was corrected."""
    return say("corrected", lang, {"causes": cause_words(causes, lang)})


def cause_words(causes: Sequence[str] | None, lang: Lang) -> str:
    """Why two texts that look the same differ."""
    comma = "、" if lang == "zh" else ", "
    said = (say(f"cause.{one}", lang) if has(f"cause.{one}") else one for one in causes or ())
    return comma.join(said)


def warned_in(fields: Fields) -> tuple[str, ...]:
    """The warnings among the fields of a report."""
    style, others = fields.get("style_warning"), fields.get("warnings")
    listed = others if isinstance(others, Sequence) else ()
    return tuple(str(each) for each in (style, *listed) if each)


def warned(bad: bool, escapes: Escapes, lang: Lang, signs: Sequence[str] = ()) -> list[str]:
    """The warnings about a text that may not be meant, new U+FFFD, and bytes and their escapes."""
    said = [say_reason(one, lang) for one in signs]
    said += [say("warning.replacement_character", lang)] if bad else []
    several = (("warning.bytes_meant", escapes.meant), ("warning.escapes_kept", escapes.kept))
    for saying, told in several:
        if told:
            more = ["…"] if len(told) > _SHOWN_ESCAPES else []
            shown = (*sorted(told)[:_SHOWN_ESCAPES], *more)
            said.append(say(saying, lang, {"shown_bytes": shown}))
    return said


def lost(after: Snapshot, before: Snapshot | None) -> bool:
    """Whether a whole file has U+FFFD now but did not before."""

    def has(text: Snapshot) -> bool:
        return "\ufffd" in text.encoding.text(text.data)

    return has(after) and (before is None or not has(before))


def lost_warning(after: Snapshot, before: Snapshot | None, lang: Lang) -> Fields:
    """The warning about lost characters, if there is one."""
    said = warned(lost(after, before), NO_ESCAPES, lang)
    return {"warnings": [*said]} if said else {}
