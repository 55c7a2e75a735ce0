"""The commands below `copydesk notes`: list, show, diff, append, new, daily, search."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

from copydesk.app import terminal
from copydesk.app.cli import errors
from copydesk.app.cli.parser import UsageError
from copydesk.app.terminal import dump, out
from copydesk.app.workspace import OpenWorkspace
from copydesk.notes.lazy import notes_of
from copydesk.notes.protocol import NoteBlock
from copydesk.notes.tools import (
    block_fields,
    coverage_fields,
    covered_lines,
    label,
    unread_lines,
)
from copydesk.tools.messages import say
from copydesk.tools.report import Lang, LongTexts

_LINE = 100


def run(opened: OpenWorkspace, options: argparse.Namespace) -> int:
    """Run one of the commands; return the exit status."""
    opened.kept = LongTexts(None)  # not cut: no later call could read the rest
    return _COMMANDS[options.notes](opened, options)


def _list(opened: OpenWorkspace, options: argparse.Namespace) -> int:
    """List the notebooks with their documents, or the blocks of a document."""
    lang, reading = opened.config.lang, notes_of(opened.desk).reading
    member = opened.member(opened.config.member)
    if options.block_id is not None:
        content = reading.content(member, options.block_id, parts=True, slice_text=None)
        if options.json:
            dump([block_fields(block) for block in content.blocks])
        else:
            out(terminal.table([("BLOCK", "TYPE", "TEXT"), *_rows(content.blocks, lang)]))
        return 0
    listed = [
        (
            box,
            () if box.closed else reading.documents(member, box.id, options.most),
            None if box.closed else reading.coverage(member, box.id),
        )
        for box in reading.notebooks(member)
    ]
    if options.json:
        dump(
            [
                {
                    "id": box.id,
                    "name": box.name,
                    "closed": box.closed,
                    "documents": [block_fields(each) for each in documents],
                    **(coverage_fields(coverage) if coverage is not None else {}),
                }
                for box, documents, coverage in listed
            ]
        )
        return 0
    rows: list[tuple[str, str, str]] = []
    for box, documents, _ in listed:
        rows.append((box.id, say("notes.closed", lang) if box.closed else "", box.name))
        rows += [(each.id, "", f"  {each.hpath}") for each in documents]
    out(terminal.table([("ID", "", "NOTEBOOK / DOCUMENT"), *rows]))
    covered = [coverage for _, _, coverage in listed if coverage is not None]
    _tell(line for coverage in covered for line in unread_lines(coverage, lang))
    return 0


def _tell(lines: Iterable[str]) -> None:
    for line in lines:
        out(terminal.line(line) + "\n")


def _show(opened: OpenWorkspace, options: argparse.Namespace) -> int:
    """Print the text of a block, or its parts with their ids."""
    return _call(
        *(opened, options, "getBlockContent"),
        blockId=options.block_id,
        showId=options.ids or None,
        showSubStructure=options.ids or None,
        slice=options.slice or None,
    )


def _edit(opened: OpenWorkspace, options: argparse.Namespace) -> int:
    """Show, plan or apply a block diff."""
    return _call(
        *(opened, options, "prepareBlockDiff" if options.plan else "applyBlockDiff"),
        diff=_text(options.file),
        strictMatch=False if options.loose else None,
        dropAnchors=options.drop_anchors or None,
        dryRun=True if options.dry_run and not options.plan else None,
    )


def _append(opened: OpenWorkspace, options: argparse.Namespace) -> int:
    member = opened.member(opened.config.member)
    kind = notes_of(opened.desk).reading.block(member, options.block_id).kind
    return _call(
        *(opened, options, "appendContent"),
        markdown=_text(options.file),
        targetType="document" if kind == "d" else "block",
        target=options.block_id,
    )


def _new(opened: OpenWorkspace, options: argparse.Namespace) -> int:
    return _call(
        *(opened, options, "createNewDoc"),
        title=options.title,
        markdown=_text(options.file) if options.file is not None else "",
        anchorDocumentId=options.anchor_id,
        location=options.location,
    )


def _daily(opened: OpenWorkspace, options: argparse.Namespace) -> int:
    """Append text to today's note."""
    member = opened.member(opened.config.member)
    box = options.notebook
    if box is None:
        boxes = [one for one in notes_of(opened.desk).reading.notebooks(member) if not one.closed]
        if len(boxes) != 1:
            raise UsageError("which notebook?", "Name one with --notebook; notes ls shows them.")
        box = boxes[0].id
    return _call(
        *(opened, options, "appendContent"),
        markdown=_text(options.file),
        targetType="dailynote",
        target=box,
    )


def _search(opened: OpenWorkspace, options: argparse.Namespace) -> int:
    query = " ".join(options.words)
    if options.json:
        return _call(opened, options, "searchBlocks", query=query, limit=options.most)
    lang, reading = opened.config.lang, notes_of(opened.desk).reading
    member = opened.member(opened.config.member)
    found = reading.search(member, query, options.most)
    rows = [(one.id, label(one.kind, lang), one.hpath, _short(one)) for one in found]
    if rows:
        out(terminal.table([("BLOCK", "TYPE", "DOCUMENT", "TEXT"), *rows]))
    else:
        _tell([say("notes.found_none", lang, {"count": 0, "query": query})])
    _tell(covered_lines(reading.covered(member), lang))
    return 0


def _call(
    opened: OpenWorkspace, options: argparse.Namespace, tool: str, **arguments: object
) -> int:
    """Call a tool with those arguments that are not None, and print its answer."""
    lang = opened.config.lang
    given = {name: value for name, value in arguments.items() if value is not None}
    answer = opened.call(opened.config.member, tool, given, lang=lang)
    if options.json:
        dump(answer.data)
    elif answer.is_error:
        errors.print_refusal(answer, lang)
    else:
        terminal.print_answer(answer)
    return 1 if answer.is_error else 0


def _text(file: str | None) -> str:
    if file is None or file == "-":
        return sys.stdin.read()
    try:
        with open(file, encoding="utf-8", newline="") as stream:
            return stream.read()
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not UTF-8") from None


def _rows(blocks: Sequence[NoteBlock], lang: Lang) -> Iterator[tuple[str, str, str]]:
    """One row per block, indented below its heading."""
    depth = 0
    for block in blocks:
        is_heading = block.kind == "h"
        depth = int(block.subtype.removeprefix("h") or 1) if is_heading else depth
        yield block.id, label(block.kind, lang), "  " * (depth - is_heading) + _short(block)


def _short(block: NoteBlock) -> str:
    first, _, rest = (block.markdown or block.content).partition("\n")
    more = " …" if rest or len(first) > _LINE else ""
    return first[:_LINE] + more


_COMMANDS: dict[str, Callable[[OpenWorkspace, argparse.Namespace], int]] = {
    "ls": _list,
    "cat": _show,
    "diff": _edit,
    "append": _append,
    "new": _new,
    "daily": _daily,
    "search": _search,
}
