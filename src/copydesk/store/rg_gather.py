"""Results gathered from the messages of ripgrep.

What lives here: how the packets of a session become Files, Counts, Snippets or
Lines, and when there are enough. What must not: the question, the process.
Invariant: gathering stops as soon as the limit and `truncated` are known.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

from copydesk.store.rg_args import RgArgs
from copydesk.store.rg_found import (
    LINE_CHARACTERS,
    ContextLine,
    Count,
    Counts,
    Files,
    Lines,
    Row,
    Snippet,
    Snippets,
    sight,
)
from copydesk.store.rg_json import Line, read_end, read_line
from copydesk.store.rg_session import Session


def files(session: Session, most: int) -> Files:
    """The first `most` files that a match was found in."""
    paths: list[str] = []
    truncated = False
    for path, packet in session.packets():
        if packet.kind != "begin":
            continue
        if len(paths) == most:
            truncated = True
            break
        paths.append(path)
    return Files(
        paths=tuple(paths),
        truncated=truncated,
        timed_out=session.timed_out,
        warnings=session.warnings(),
    )


def counts(session: Session, most: int) -> Counts:
    """The counts of the first `most` files, the sums of all."""
    rows: list[Count] = []
    total_files = total_lines = total_matches = 0
    for path, packet in session.packets():
        if packet.kind != "end":
            continue
        end = read_end(packet)
        total_files += 1
        total_lines += end.matched_lines
        total_matches += end.matches
        if len(rows) < most:
            rows.append(Count(path, end.matched_lines, end.matches))
    return Counts(
        rows=tuple(rows),
        total_files=total_files,
        total_lines=total_lines,
        total_matches=total_matches,
        truncated=total_files > len(rows),
        timed_out=session.timed_out,
        warnings=session.warnings(),
    )


def snippets(session: Session, most: int, before: int, after: int) -> Snippets:
    """The first `most` lines with a match; rg was asked for the same context."""
    results: list[_Open] = []
    recent: deque[ContextLine] = deque(maxlen=before)
    waiting: list[_Open] = []
    truncated = False
    for path, packet in session.packets():
        if packet.kind in ("begin", "end"):
            recent.clear()
            waiting.clear()
        else:
            line = read_line(packet)
            seen = sight(line)
            shown = ContextLine(line.number, seen.text, seen.cut)
            for result in waiting:
                result.after.append(shown)
            if line.is_match:
                if len(results) == most:
                    truncated = True
                else:
                    snippet = Snippet(
                        path=path,
                        line=line.number,
                        column=seen.column,
                        match=seen.match,
                        text=seen.text,
                        from_column=seen.from_column,
                        cut=seen.cut,
                        before=tuple(recent),
                    )
                    results.append(_Open(snippet, line.number + after, []))
                    waiting.append(results[-1])
            waiting = [result for result in waiting if result.last > line.number]
            recent.append(shown)
        if truncated and not waiting:
            break
    return Snippets(
        results=tuple(result.closed() for result in results),
        truncated=truncated,
        timed_out=session.timed_out,
        warnings=session.warnings(),
    )


def lines(session: Session, rg_args: RgArgs, most: int) -> Lines:
    """The first `most` rows."""
    rows: list[Row] = []
    truncated = False
    for row in _rows(session, rg_args):
        if len(rows) == most:
            truncated = True
            break
        rows.append(row)
    return Lines(
        rows=tuple(rows),
        truncated=truncated,
        timed_out=session.timed_out,
        warnings=session.warnings(),
    )


@dataclass(slots=True)
class _Open:
    """A result whose lines after it are still to come; `last` is the last that belongs to it."""

    snippet: Snippet
    last: int
    after: list[ContextLine]

    def closed(self) -> Snippet:
        return replace(self.snippet, after=tuple(self.after))


def _rows(session: Session, rg_args: RgArgs) -> Iterator[Row]:
    width = min(LINE_CHARACTERS, rg_args.max_columns or LINE_CHARACTERS)
    for path, packet in session.packets():
        if packet.kind in ("begin", "end"):
            continue
        found = read_line(packet)
        if b"\0" in found.data and not rg_args.as_text:
            continue  # with --binary; rg itself would not print it
        for line in _single(found):
            if rg_args.only_matching:
                yield from _matches(path, line, width)
            else:
                yield _row(path, line, width)


def _row(path: str, line: Line, width: int) -> Row:
    seen = sight(line, width)
    return Row(path, line.number, seen.column, seen.text, line.is_match, seen.from_column, seen.cut)


def _matches(path: str, line: Line, width: int) -> Iterator[Row]:
    for span in line.spans:
        seen = sight(replace(line, spans=(span,)), width)
        yield Row(path, line.number, seen.column, seen.match, True, cut=seen.match_cut)


def _single(found: Line) -> Iterator[Line]:
    """The lines of a match across lines, each with its part of the spans."""
    start = 0
    for below, data in enumerate(found.data.split(b"\n")):
        stop = start + len(data)
        spans = tuple(
            (max(first, start) - start, min(last, stop) - start)
            for first, last in found.spans
            if first <= stop and (last > start or first >= start)
        )
        whole = found.whole or stop < len(found.data)
        yield Line(found.number + below, data.removesuffix(b"\r"), found.is_match, spans, whole)
        start = stop + 1
