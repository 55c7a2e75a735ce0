"""The fields of the reports of edits, by tool and action, and the lines shown as evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING

from copydesk.desk.backends.snapshots import Run
from copydesk.desk.outcome import Reading
from copydesk.edit.draft import Draft, cut
from copydesk.edit.request import (
    Append,
    BlockReplace,
    Insert,
    Place,
    RangeEdit,
    RangeEdits,
)
from copydesk.errors import Refusal
from copydesk.text.diff import same_after
from copydesk.text.encoding import NO_ESCAPES, Escapes
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot, Text
from copydesk.text.unified import Region, is_binary
from copydesk.tools.diff_model import View, view_of
from copydesk.tools.messages import say
from copydesk.tools.report import Fields, Lang, Value, named

if TYPE_CHECKING:
    from copydesk.notes.plan import HunkMade


AROUND = 3
MOST = 8
_HEAD = 5
_WIDTH = 200


def numbered(first_line: int, texts: Sequence[str]) -> list[str]:
    """The texts as `  12| text`, from `first_line` (1-based); numbers are at least 4 wide."""
    width = max(4, len(str(first_line + len(texts) - 1)))
    return [f"{first_line + i:>{width}}| {text}" for i, text in enumerate(texts)]


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
        texts = _shortened(base.texts(first, last), first - start, other)
        if shown:
            shown.append(f"… ({stop - start - MOST} lines left out)")
        shown += numbered(first + 1, texts) if numbers else texts
    return _ended(shown)


def _shortened(
    texts: Sequence[str], first: int = 0, other: tuple[Text, int] | None = None
) -> Sequence[str]:
    """The texts, long ones cut; `first` is the offset of the first one from the line in `other`."""
    if _are_short(texts):
        return texts
    return [
        cut(text, _WIDTH, _first_difference(text, other, first + index))
        for index, text in enumerate(texts)
    ]


def _are_short(texts: Sequence[str]) -> bool:
    """Whether each line is shown whole; mostly they all are."""
    return not texts or max(map(len, texts)) <= _WIDTH


def _in_place(base: Text, start: int, stop: int, other: tuple[Text, int]) -> tuple[str, str, str]:
    """A few lines before lines [start, stop), these lines, and a few after, as `lines_of` does."""
    if stop - start > MOST:
        own = lines_of(base, start, stop, other=other)
        return lines_before(base, start), own, lines_after(base, stop)
    first = max(start - AROUND, 0)
    texts = base.texts(first, min(stop + AROUND, base.line_count))
    at, end = start - first, stop - first
    if _are_short(texts):
        return _ended(texts[:at]), _ended(texts[at:end]), _ended(texts[end:])
    own = _ended(_shortened(texts[at:end], 0, other))
    return _ended(_shortened(texts[:at])), own, _ended(_shortened(texts[end:]))


def _ended(texts: Sequence[str]) -> str:
    return "\n".join((*texts, "")) if texts else ""


def _first_difference(text: str, other: tuple[Text, int] | None, line: int) -> int:
    """Where a long line first differs from the line at this offset in the other text."""
    if other is None or len(text) <= _WIDTH:
        return 0
    there, first = other
    if not 0 <= first + line < there.line_count:
        return 0
    return same_after(text, there.text(first + line), 0, 0)


def lines_whole(base: Text, start: int, stop: int) -> list[Run]:
    """The lines that `lines_of` shows whole."""
    runs = _runs(max(start, 0), min(stop, base.line_count))
    return [each for run in runs for each in _whole(base, *run)]


def _whole(base: Text, start: int, stop: int) -> list[Run]:
    texts = base.texts(start, stop)
    if _are_short(texts):
        return [(start, stop)]
    return [(line, line + 1) for line, text in enumerate(texts, start) if len(text) <= _WIDTH]


def evidence_lines(draft: Draft) -> list[Run]:
    """The lines of the base text that `plan_evidence` shows whole."""
    if draft.place.parts or draft.request.in_notes or draft.request.is_operation:
        return []
    base, start, stop = draft.base, draft.place.start, draft.place.stop
    if stop - start <= MOST:  # no line is left out
        return _whole(base, max(start - AROUND, 0), min(stop + AROUND, base.line_count))
    runs = (start - AROUND, start), (start, stop), (stop, stop + AROUND)
    return [each for run in runs for each in lines_whole(base, *run)]


def views(
    refusal: Refusal, path: RelPath, now: Text | None, lines: Place | tuple[int, int]
) -> tuple[View, ...]:
    """The lines of the current text that a refusal at these lines shows."""
    if now is None or getattr(refusal, "current", None) is not None:
        return view_of(refusal, path, now.version if now else None)
    start, stop = (lines.start, lines.stop) if isinstance(lines, Place) else lines
    start = min(start, now.line_count)
    run = start - AROUND, max(stop, start) + AROUND
    shown = partial(lines_whole, now, *run)
    return (View(path, now.version, now.line_count, evidence=shown),)


def _runs(start: int, stop: int) -> tuple[Run, ...]:
    """The runs of lines to show: of many lines, the first and the last."""
    if stop - start <= MOST:
        return ((start, stop),)
    return (start, start + _HEAD), (stop - (MOST - _HEAD), stop)


def lines_before(base: Text, line: int) -> str:
    """A few lines before line `line` (0-based)."""
    return lines_of(base, line - AROUND, line)


def lines_after(base: Text, line: int) -> str:
    """A few lines from line `line` (0-based) on."""
    return lines_of(base, line, line + AROUND)


MOST_REGIONS = 50
_SHOWN_REGIONS = 5
_SHOWN_ESCAPES = 8


def tool_fields(draft: Draft, lang: Lang) -> Fields:
    """The fields of a plan that depend on its tool."""
    request, place, base = draft.request, draft.place, draft.base
    if isinstance(request, RangeEdit):
        resolved: Fields = {"start": place.start + 1, "end": place.stop}
        return {
            "range": {"input": request.range, "resolved": resolved},
            "lines": line_counts(draft),
        }
    if request.is_several:
        return {
            "edits_count": request.count * place.candidates,
            **_regions(draft),
            "lines": line_counts(draft),
        }
    if request.in_notes:
        return {**_hunks(draft, done=False), "lines": line_counts(draft)}
    if isinstance(request, Append):
        return {
            "create": request.create,
            "file_line_count_before": base.line_count,
            "file_line_count_after": draft.after.line_count,
            "appended_line_count": len(draft.new_lines),
            **_blank_lines(draft, lang),
        }
    if request.is_operation:
        return _operation(draft)
    if isinstance(request, Insert):
        return {
            "position": request.position,
            "anchor": request.anchor.text,
            "match": request.anchor.match,
            "candidates_count": place.candidates,
            "occurrence_resolved": place.occurrence,
            "inserted_at_line": place.start + 1,
            "inserted_line_count": len(draft.new_lines),
            "lines": line_counts(draft),
            **_blank_lines(draft, lang),
        }
    assert isinstance(request, BlockReplace)
    return {
        "start_anchor": request.start_anchor.text,
        "end_anchor": request.end_anchor.text,
        "match": request.start_anchor.match,
        "include_anchors": request.include_anchors,
        "require_unique": request.require_unique,
        "strict": request.strict,
        "candidates_count": place.candidates,
        "occurrence_resolved": place.occurrence,
        "first_candidate_taken": place.first_taken,
        **_block(draft),
        "lines": line_counts(draft),
    }


def applied_fields(draft: Draft) -> Fields:
    """The fields of an apply that depend on its action."""
    request, place = draft.request, draft.place
    if isinstance(request, Insert):
        return {
            "position": request.position,
            "anchor": request.anchor.text,
            "inserted_at_line": place.start + 1,
            "inserted_line_count": len(draft.new_lines),
        }
    if isinstance(request, BlockReplace):
        return {**_block(draft), "lines": line_counts(draft)}
    if request.is_operation:
        return _operation(draft)
    if request.is_several:
        return {**_regions(draft), "lines": line_counts(draft)}
    if request.in_notes:
        return {**_hunks(draft, done=True), "lines": line_counts(draft)}
    if draft.action == "append":
        end = place.start + len(draft.new_lines)
        return {"append_range": {"start": place.start + 1, "end": end}, **_append_tails(draft)}
    resolved: Fields = {"start": place.start + 1, "end": place.stop}
    return {"applied_range": resolved, "lines": line_counts(draft)}


def _operation(draft: Draft) -> Fields:
    """The fields of a move, a deletion, or a change of the mode."""
    request, base = draft.request, draft.base
    if request.target is not None:
        return {"to": str(request.target), "size_bytes": base.size}
    if request.modes:
        old, new = (f"{mode & 0o777:o}" for mode in request.modes)
        return {"old_mode": old, "new_mode": new}
    if is_binary_deletion(draft):
        return {"size_bytes": base.size, "binary": True}
    return {"size_bytes": base.size, "binary": False, "lines": line_counts(draft)}


def is_binary_deletion(draft: Draft) -> bool:
    """Whether the deleted file is binary: its bytes are in no diff."""
    base = draft.base
    return draft.request.deletes and isinstance(base, Snapshot) and is_binary(base)


def _regions(draft: Draft) -> Fields:
    """The lines of each of several edits, MOST_REGIONS at most."""
    request = draft.request
    rows: list[Value] = []
    for index, (start, stop) in enumerate(draft.place.parts[:MOST_REGIONS]):
        row: Fields = {"index": index, "start_line": start + 1, "end_line": stop}
        if isinstance(request, RangeEdits):
            row["input"] = request.edits[index].range
        rows.append(row)
    return {"regions": rows}


def _block(draft: Draft) -> Fields:
    foot = draft.place.foot or (draft.place.start, draft.place.stop)
    return {
        "block_range": {"start_line": foot[0] + 1, "end_line": foot[1]},
        "replace_slice": {"start_line": draft.place.start + 1, "delete_count": draft.old_count},
    }


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


def _blank_lines(draft: Draft, lang: Lang) -> Fields:
    base, place = draft.base, draft.place
    blank = [not line.strip() for line in draft.new_lines]
    leading = _run(blank)
    above = range(place.start - 1, base.reach(place.start)[0] - 1, -1)
    before = _run(not base.text(i).strip() for i in above)
    if isinstance(draft.request, Append):
        style: Fields = {
            "file_trailing_blank_line_count": before,
            "content_leading_blank_line_count": leading,
        }
        meets = bool(before and leading)
    else:
        trailing = _run(blank[::-1])
        below = range(place.stop, base.reach(place.stop)[1])
        after = _run(not base.text(i).strip() for i in below)
        style = {
            "blank_line_count_before": before,
            "content_leading_blank_line_count": leading,
            "content_trailing_blank_line_count": trailing,
            "blank_line_count_after": after,
        }
        meets = bool((before and leading) or (after and trailing))
    warning = say("style.double_blank", lang) if meets else ""
    return {"blankline_style": style, "style_warning": warning}


def _run(flags: Iterable[bool]) -> int:
    """The number of leading flags that are set; the rest is not evaluated."""
    return sum(1 for _ in takewhile(bool, flags))


def warnings(draft: Draft, lang: Lang) -> Fields:
    """The warnings about the new text of a draft."""
    from copydesk.notes.plan import BlockDraft

    found: list[Value] = [*warned(draft.bad_character, draft.escapes, lang)]
    if isinstance(draft, BlockDraft):
        for _, block_id, detail in draft.notices:
            found.append(say("notes.ids_gone", lang, {"block_id": block_id, "detail": detail}))
    return {"warnings": found} if found else {}


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


def warned_in(fields: Fields) -> tuple[str, ...]:
    """The warnings among the fields of a report."""
    style, others = fields.get("style_warning"), fields.get("warnings")
    listed = others if isinstance(others, Sequence) else ()
    return tuple(str(each) for each in (style, *listed) if each)


def warned(bad: bool, escapes: Escapes, lang: Lang) -> list[str]:
    """The warnings about U+FFFD that is new in the text, and about bytes and their escapes."""
    found: list[str] = []
    if bad:
        found.append(say("warning.replacement_character", lang))
    if escapes.meant:
        found.append(say("warning.bytes_meant", lang, {"shown_bytes": _some(escapes.meant)}))
    if escapes.kept:
        found.append(say("warning.escapes_kept", lang, {"shown_bytes": _some(escapes.kept)}))
    return found


def _some(escapes: frozenset[str]) -> tuple[str, ...]:
    """The first escapes, with `…` if there are more."""
    found = sorted(escapes)
    return (*found[:_SHOWN_ESCAPES], "…") if len(found) > _SHOWN_ESCAPES else tuple(found)


def lost(after: Snapshot, before: Snapshot | None) -> bool:
    """Whether a whole file has U+FFFD now but did not before."""

    def has(text: Snapshot) -> bool:
        return "\ufffd" in text.encoding.text(text.data)

    return has(after) and (before is None or not has(before))


def lost_warning(after: Snapshot, before: Snapshot | None, lang: Lang) -> Fields:
    """The warning about lost characters, if there is one."""
    found = warned(lost(after, before), NO_ESCAPES, lang)
    return {"warnings": list(found)} if found else {}


def plan_evidence(draft: Draft) -> Fields:
    """The lines at the place of a plan and around it."""
    base, place, request = draft.base, draft.place, draft.request
    if request.is_several:
        return {"evidence": _old_regions(draft)}
    if request.in_notes or request.is_operation:
        return {}
    before, old, after = _in_place(base, place.start, place.stop, (draft.after, place.start))
    if isinstance(request, RangeEdit):
        return {"evidence": {"before": before, "range": old, "after": after}}
    new_stop = place.start + len(draft.new_lines)
    new = lines_of(draft.after, place.start, new_stop, other=(base, place.start))
    if isinstance(request, Append):
        return _append_tails(draft)
    if isinstance(request, Insert):
        return {"evidence_preview": {"before": before, "insert_preview": new, "after": after}}
    return {
        "evidence_preview": {
            "before_preview": before,
            "old_preview": old,
            "new_preview": new,
            "after_preview": after,
        }
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


def apply_evidence(draft: Draft) -> Fields:
    """The lines at the place of an edit after it was applied."""
    if draft.request.is_several:
        return _new_regions(draft)
    if draft.request.in_notes or draft.request.is_operation:
        return {}
    start = draft.place.start
    stop = start + len(draft.new_lines)
    before, written, after = _in_place(draft.after, start, stop, (draft.base, start))
    return {"before": before, "written": written, "after": after}


def shifted(found: Iterable[Region]) -> Iterator[tuple[Region, int]]:
    """Regions of a text with their first lines (0-based) after all of them are changed."""
    shift = 0
    for region in found:
        yield region, region.start + shift
        shift += len(region.new) - (region.stop - region.start)


def _old_regions(draft: Draft) -> Fields:
    """The old lines that a batch will change, in its first few regions."""
    rows: list[Value] = []
    for region, start in shifted(draft.regions[:_SHOWN_REGIONS]):
        old = lines_of(draft.base, region.start, region.stop, other=(draft.after, start))
        rows.append({"start_line": region.start + 1, "end_line": region.stop, "old": old})
    return {"regions": rows, **_more_regions(draft)}


def _new_regions(draft: Draft) -> Fields:
    """The lines that a batch wrote and those next to them, in its first few regions.

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


def numbers(draft: Draft) -> dict[str, object]:
    """The facts of a summary."""
    if draft.request.is_several:
        old, new = draft.old_count, draft.new_count
        edits = draft.request.count * draft.place.candidates
        places = min(len(draft.regions), len(draft.place.parts))
        told: dict[str, object] = {"path": draft.request.path, "edits": edits, "places": places}
        return {**told, "old": old, "new": new, "delta": new - old}
    if draft.request.in_notes:
        from copydesk.notes.plan import BlockDraft

        made = draft if isinstance(draft, BlockDraft) else None
        hunks, documents = (made.plan.hunks, made.documents) if made else ((), ())
        told = {"path": draft.request.path, "hunks": len(hunks), "documents": len(documents)}
        return {**told, "old": draft.old_count, "new": draft.new_count}
    if draft.request.target is not None:
        return {"path": draft.request.path, "to": draft.request.target}
    if modes := draft.request.modes:
        return {"path": draft.request.path, "new_mode": f"{modes[1] & 0o777:o}"}
    if draft.request.deletes:
        return {"path": draft.request.path, "lines": draft.old_count, "bytes": draft.base.size}
    place, new = draft.place, draft.new_count
    foot = place.foot or (place.start, place.stop)
    return {
        "path": draft.request.path,
        "start": place.start + 1,
        "end": place.stop,
        "block": f"{foot[0] + 1}~{foot[1]}",
        "where": f"{place.start + 1}~{max(place.start + new, place.start + 1)}",
        "old": draft.old_count,
        "new": new,
        "delta": new - draft.old_count,
    }


def _hunks(draft: Draft, *, done: bool) -> Fields:
    """The hunks of a block diff, and the documents that they change."""
    from copydesk.notes.plan import BlockDraft  # rarely needed

    if not isinstance(draft, BlockDraft):
        return {}
    fields: Fields = {
        "documents": [str(one.path) for one in draft.documents],
        "hunks": hunk_rows(draft.made(), done=done),
    }
    return {**fields, "edit_ids": list(draft.edit_ids)} if done else fields


_OLD_SHOWN, _NEW_SHOWN = 30, 50


def hunk_text(hunk: HunkMade) -> str:
    """A hunk in one line: what happens to which block."""
    old, new = _quoted(hunk.old, _OLD_SHOWN), _quoted(hunk.new, _OLD_SHOWN)
    if hunk.kind == "UPDATE":
        said = f"UPDATE {hunk.block_id}: {old} → {new}"
    elif hunk.kind == "REPLACE":
        said = f"REPLACE {hunk.block_id}: → {new}"
    elif hunk.kind == "DELETE":
        said = f"DELETE {hunk.block_id}: {old}"
    else:
        said = f"{hunk.kind} {hunk.block_id}: {_quoted(hunk.new, _NEW_SHOWN)}"
    return f"{said} [{', '.join(hunk.new_ids)}]" if hunk.new_ids else said


def hunk_rows(hunks: Iterable[HunkMade], *, done: bool) -> list[Value]:
    """The hunks for a program, each with the ids of its new blocks."""
    rows: list[Value] = []
    for hunk in hunks:
        row: Fields = {
            "edit": {"type": hunk.kind, "blockId": hunk.block_id},
            "operation": hunk_text(hunk),
        }
        if done:
            row["success"] = True
        if hunk.new_ids:
            row |= {"newBlockId": hunk.new_ids[0], "newBlockIds": list(hunk.new_ids)}
        rows.append(row)
    return rows


def _quoted(text: str, most: int) -> str:
    return f'"{start_of(one_line(text), most)}"'


def one_line(text: str) -> str:
    """The text in one line, with its line ends shown as `\\n`."""
    return text.replace("\r", "").replace("\n", "\\n")


def start_of(text: str, most: int) -> str:
    """The text, or its first `most` characters and an ellipsis."""
    return text if len(text) <= most else f"{text[:most]}..."


def read_line(outcome: Reading, lang: Lang) -> str:
    """The path and the lines read, and anything unusual about the file."""
    first, count, total = outcome.first_line, len(outcome.lines), outcome.total_lines
    facts = {"path": named(str(outcome.path)), "bytes": outcome.size_bytes, "total": total}
    facts |= {"count": count}
    if first is None or total is None:
        parts = [say("read.line.last", lang, facts)]
    elif not count:
        parts = [say("read.line.none", lang, facts)]
    else:
        where = str(first) if count == 1 else f"{first}-{first + count - 1}"
        parts = [say("read.line", lang, facts | {"where": where})]
    if outcome.version is not None:
        parts.append(f"version {outcome.version}")
    if outcome.newline_style in ("crlf", "mixed"):
        parts.append(outcome.newline_style)
    if outcome.encoding != "utf-8":
        parts.append(f"encoding {outcome.encoding}")
    if outcome.ends_with_newline is False and outcome.size_bytes and total != 0:
        parts.append(say("read.no_newline", lang))
    return " · ".join(parts)
