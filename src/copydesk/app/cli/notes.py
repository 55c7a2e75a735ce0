"""The commands below `copydesk notes`: list, show, diff, append, new, daily, search."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

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
            dump([block_fields(one) for one in content.blocks])
            return 0
        out(terminal.table([("BLOCK", "TYPE", "TEXT"), *_rows(content.blocks, lang)]))
        return 0
    found = [
        (
            one,
            () if one.closed else reading.documents(member, one.id, options.most),
            None if one.closed else reading.coverage(member, one.id),
        )
        for one in reading.notebooks(member)
    ]
    if options.json:
        dump(
            [
                {
                    "id": one.id,
                    "name": one.name,
                    "closed": one.closed,
                    "documents": [block_fields(each) for each in documents],
                    **(coverage_fields(coverage) if coverage is not None else {}),
                }
                for one, documents, coverage in found
            ]
        )
        return 0
    rows: list[tuple[str, str, str]] = []
    for one, documents, _ in found:
        rows.append((one.id, say("notes.closed", lang) if one.closed else "", one.name))
        rows += [(each.id, "", f"  {each.hpath}") for each in documents]
    out(terminal.table([("ID", "", "NOTEBOOK / DOCUMENT"), *rows]))
    for _, _, coverage in found:
        for line in unread_lines(coverage, lang) if coverage is not None else ():
            out(terminal.line(line) + "\n")
    return 0


def _show(opened: OpenWorkspace, options: argparse.Namespace) -> int:
    """Print the text of a block, or its parts with their ids."""
    arguments: dict[str, object] = {"blockId": options.block_id}
    if options.ids:
        arguments |= {"showId": True, "showSubStructure": True}
    if options.slice:
        arguments["slice"] = options.slice
    return _call(opened, "getBlockContent", arguments, options)


def _edit(opened: OpenWorkspace, options: argparse.Namespace) -> int:
    """Show, plan or apply a block diff."""
    arguments: dict[str, object] = {"diff": _text(options.file)}
    if options.loose:
        arguments["strictMatch"] = False
    if options.drop_anchors:
        arguments["dropAnchors"] = True
    if options.plan:
        return _call(opened, "prepareBlockDiff", arguments, options)
    if options.dry_run:
        arguments["dryRun"] = True
    return _call(opened, "applyBlockDiff", arguments, options)


def _append(opened: OpenWorkspace, options: argparse.Namespace) -> int:
    member = opened.member(opened.config.member)
    kind = notes_of(opened.desk).reading.block(member, options.block_id).kind
    arguments = {
        "markdown": _text(options.file),
        "targetType": "document" if kind == "d" else "block",
        "target": options.block_id,
    }
    return _call(opened, "appendContent", arguments, options)


def _new(opened: OpenWorkspace, options: argparse.Namespace) -> int:
    arguments = {
        "title": options.title,
        "markdown": _text(options.file) if options.file is not None else "",
        "anchorDocumentId": options.anchor_id,
        "location": options.location,
    }
    return _call(opened, "createNewDoc", arguments, options)


def _daily(opened: OpenWorkspace, options: argparse.Namespace) -> int:
    """Append text to today's note."""
    member = opened.member(opened.config.member)
    box = options.notebook
    if box is None:
        boxes = [one for one in notes_of(opened.desk).reading.notebooks(member) if not one.closed]
        if len(boxes) != 1:
            raise UsageError("which notebook?", "Name one with --notebook; notes ls shows them.")
        box = boxes[0].id
    arguments = {"markdown": _text(options.file), "targetType": "dailynote", "target": box}
    return _call(opened, "appendContent", arguments, options)


def _search(opened: OpenWorkspace, options: argparse.Namespace) -> int:
    query = " ".join(options.words)
    if options.json:
        return _call(opened, "searchBlocks", {"query": query, "limit": options.most}, options)
    member = opened.member(opened.config.member)
    found = notes_of(opened.desk).reading.search(member, query, options.most)
    rows = [(one.id, label(one.kind, opened.config.lang), one.hpath, _short(one)) for one in found]
    if rows:
        out(terminal.table([("BLOCK", "TYPE", "DOCUMENT", "TEXT"), *rows]))
    else:
        words = say("notes.found_none", opened.config.lang, {"count": 0, "query": query})
        out(terminal.line(words) + "\n")
    coverage = notes_of(opened.desk).reading.covered(member)
    for line in covered_lines(coverage, opened.config.lang):
        out(terminal.line(line) + "\n")
    return 0


def _call(
    opened: OpenWorkspace, tool: str, arguments: Mapping[str, object], options: argparse.Namespace
) -> int:
    lang = opened.config.lang
    answer = opened.call(opened.config.member, tool, arguments, lang=lang)
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
        if block.kind == "h":
            depth = int(block.subtype.removeprefix("h") or 1)
        indent = "  " * (depth - (block.kind == "h"))
        yield block.id, label(block.kind, lang), f"{indent}{_short(block)}"


def _short(block: NoteBlock) -> str:
    text = block.markdown or block.content
    first, _, rest = text.partition("\n")
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
