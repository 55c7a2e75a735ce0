"""What is answered of text that was read, or of a file that was written at once.

What lives here: the fields and words of those envelopes, which the toolsets of
string edits share. What must not: what is read or written.
"""

from __future__ import annotations

from collections.abc import Mapping

from copydesk.desk.batching import Rewrite
from copydesk.desk.outcome import Reading
from copydesk.tools import envelope, parts
from copydesk.tools.catalog import Context
from copydesk.tools.envelope import Envelope
from copydesk.tools.messages import say
from copydesk.tools.report import Fields, Lang, shown_diff
from copydesk.tools.wire import Args

PREVIEW_LINES = 100
PREVIEW_BYTES = 10 << 10


def content_of(found: Reading) -> str:
    """The lines that were read, as they stand in the file, with LF alone."""
    content = "".join(f"{line}\n" for line in found.lines)
    more = found.cut_by_lines or found.cut_by_characters
    if found.cut_in_line or not (more or found.ends_with_newline):
        return content.removesuffix("\n")
    return content


def reading(
    context: Context,
    args: Args,
    found: Reading,
    content: str,
    *,
    start: int | None,
    voice: str = "batch",
    truncated: bool | None = None,
) -> Envelope:
    """The envelope of lines that were read, `start` the first, from 1, where that is known.

    `truncated`: they are fewer than were asked for; None where any cut means that.
    `voice` is whose words to take.
    """
    if truncated is None:
        truncated = found.cut_by_lines or found.cut_by_characters
    stats: Fields = {"lines_read": len(found.lines), "file_mtime_ms": found.mtime_ms}
    stats["file_size_bytes"] = found.size_bytes
    if found.total_lines is not None:
        stats = {"total_lines": found.total_lines, **stats}
    if found.digest is not None:
        stats["file_sha256"] = found.digest
    data: Fields = {"content": content, "truncated": truncated}
    if found.encoding != "utf-8":
        data["encoding"] = found.encoding
    words = _read_words(found, start, truncated, voice, context.lang)
    if found.encoding == "unknown":
        words += " " + say(f"{voice}.read_bytes", context.lang)
    where = envelope.context_of(args.raw, str(found.path))
    return Envelope("partial" if truncated else "success", data, words, stats, where)


def written(
    context: Context,
    args: Args,
    done: Rewrite,
    *,
    bad: bool,
    dry: bool,
    saying: str = "batch.done",
    known: Mapping[str, object] | None = None,
    dry_saying: str = "batch.dry",
) -> Envelope:
    """The envelope of a file that was written, or would be.

    `bad`: the new text holds U+FFFD where the old did not. `known` are more facts
    for the saying.
    """
    lang = context.lang
    preview, was_cut = _preview(done)
    added, removed = done.line_counts
    data: Fields = {
        "applied": not dry,
        "replacements_count": done.replacements,
        "no_op_count": done.no_ops,
        "diff_preview": preview,
        "diff_truncated": was_cut,
        "collisions": [],
    }
    if not dry:
        data |= {"edit_id": done.edit_id, "version": done.version}
    size = done.size
    stats: Fields = {
        "bytes_written": 0 if dry or not done.edit_id else size,
        "original_size": len(done.base.data),
        "new_size": size,
        "lines_added": added,
        "lines_removed": removed,
    }
    if dry:
        saying = dry_saying
    elif not done.edit_id:
        saying = "apply.nothing"
    facts: dict[str, object] = {"count": done.replacements, "path": done.path, **(known or {})}
    if saying == "batch.replaced":
        facts["lines"] = done.after.line_count
    words = [say(saying, lang, facts)]
    if was_cut:
        words.append(say("batch.diff_cut", lang))
    warnings = parts.warned(bad, done.escapes, lang)
    if warnings:
        data["warnings"] = list(warnings)
        words += [say("batch.warning", lang, {"warning": one}) for one in warnings]
    where = envelope.context_of(args.raw, str(done.path))
    return Envelope("partial" if dry else "success", data, " ".join(words), stats, where)


def _read_words(found: Reading, start: int | None, truncated: bool, voice: str, lang: Lang) -> str:
    """What was read, what was cut, and how to read on."""
    total = found.total_lines
    if start is None or total is None:
        return say("compat.read_end_cut" if truncated else "compat.read_end", lang)
    after = start + len(found.lines)
    facts: dict[str, object] = {"path": found.path, "lines": len(found.lines), "total": total}
    facts |= {"start": start, "next": after}
    if found.cut_in_line:
        facts["shown"] = len(found.lines[0])
        return say(f"{voice}.read_cut_{'end' if after > total else 'line'}", lang, facts)
    return say(f"{voice}.read_cut" if truncated else "batch.read", lang, facts)


def _preview(done: Rewrite) -> tuple[str, bool]:
    """The diff, cut at so many lines or bytes, after a whole line if there is one."""
    whole, was_cut = shown_diff(done.diff, done.base.encoding)
    was_cut = was_cut or not done.is_whole_diff
    lines = whole.split("\n", PREVIEW_LINES)
    if len(lines) > PREVIEW_LINES and lines[-1]:
        lines, was_cut = [*lines[:PREVIEW_LINES], ""], True
    shown = "\n".join(lines)
    raw = shown.encode()
    if len(raw) > PREVIEW_BYTES:
        raw, was_cut = raw[:PREVIEW_BYTES], True
        shown = raw[: raw.rfind(b"\n") + 1 or None].decode("utf-8", "ignore")
    return shown, was_cut
