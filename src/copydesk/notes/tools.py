"""The tools of notes: reading by blocks, editing by diffs.

The modules for notes are imported, and their desk is made, when one of the tools is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Literal, cast

from copydesk.desk.desk import FileDesk
from copydesk.desk.drafts import Services
from copydesk.desk.member import Permission
from copydesk.desk.transaction import Writer
from copydesk.errors import InvalidArgs
from copydesk.store.threads import held_at_fork
from copydesk.text import sizes
from copydesk.text.relpath import RelPath
from copydesk.tools.arguments import Count
from copydesk.tools.catalog import Context, EditingCall, Tool, ToolCall
from copydesk.tools.messages import has, say
from copydesk.tools.refusals import note_refused
from copydesk.tools.report import (
    FOUND,
    LISTED,
    Answer,
    Fields,
    Lang,
    Value,
    fenced,
    known,
    note_answered,
    note_shown,
    shown_diff,
    within_budget,
)
from copydesk.tools.reports import (
    hunk_rows,
    hunk_text,
    one_line,
    start_of,
    warned_in,
    warnings,
)
from copydesk.tools.ws_mod import UNDO, PrepareCall

if TYPE_CHECKING:
    from copydesk.notes.desk import BlockContent, Info, NotesDesk, OpenNotes
    from copydesk.notes.plan import BlockDiff, BlockDraft
    from copydesk.notes.protocol import Coverage, Crumb, Heading, NoteBlock, Within

_PREVIEW = 10  # characters of a text in `getBlockInfo`
_LONGEST = 200  # characters of a block in a list
_UNREAD = 20  # unread files that a text names
_NO_LINK = {char: f"%{ord(char):02X}" for char in ' %()<>"\\#?[]`'}
_NOWHERE = RelPath(())  # a block diff has no path, its blocks have


class LazyNotes:
    """Makes the notes desk once, thread-safe; `open_home` opens a permission's store."""

    def __init__(
        self, services: Services, writer: Writer, open_home: Callable[[Permission], OpenNotes]
    ) -> None:
        self._parts = services, writer, open_home
        self._made: NotesDesk | None = None
        self._lock = held_at_fork(RLock())

    def __call__(self) -> NotesDesk:
        with self._lock:
            if self._made is None:
                from copydesk.notes.desk import NotesDesk

                self._made = NotesDesk(*self._parts)
            return self._made

    def close(self) -> None:
        with self._lock:
            if self._made is not None:
                self._made.close()


def notes_of(desk: FileDesk) -> NotesDesk:
    """The desk of the notes beside a desk of files."""
    return cast("NotesDesk", desk.blocks())


class BlockInfoCall(ToolCall):
    """Show block metadata without text."""

    ids: str

    def run(self, context: Context, name: str) -> Answer:
        ids = [part.strip() for part in self.ids.split(",") if part.strip()]
        if not ids:
            raise InvalidArgs("ids", "must name a block")
        infos, missing = notes_of(context.desk).reading.infos(context.member, ids)
        said = "\n\n".join(_sheet(info, context.lang) for info in infos)
        fields = info_fields(infos[0], context.lang)
        if len(ids) > 1:
            rows: list[Value] = [info_fields(info, context.lang) for info in infos]
            fields = {"blocks": rows, **known(notFoundIds=list(missing) or None)}
            lost = say("notes.infos_missing", context.lang, {"ids": ", ".join(missing)})
            count = say("notes.infos", context.lang, {"count": len(infos)})
            said = "\n".join([count, said, *(["", lost] if missing else [])])
        if not context.long_texts.is_long(said):
            return note_answered(fields, said)
        shown = note_shown(context.long_texts, context.member.name, name, {}, said, context.lang)
        fields = {**within_budget(fields, context.budget), "var": shown.facts["var"]}
        return replace(shown, source={"status": "success", **fields})


class BlockContentCall(ToolCall):
    """Show the text of a block, or of its parts."""

    blockId: str
    showId: bool = False
    showSubStructure: bool = False
    slice: str | None = None

    def run(self, context: Context, name: str) -> Answer:
        chosen, member = self.slice, context.member
        parts = chosen is not None or self.showSubStructure
        ids = chosen is not None or (self.showId if "showId" in vars(self) else parts)
        content = notes_of(context.desk).reading.content(
            member, self.blockId, parts=parts, slice_text=chosen
        )
        said = content_text(content, chosen, context.lang, ids=ids)
        fields: Fields = {"blockId": content.target.id, "count": len(content.blocks)}
        if chosen is not None:
            after = known(next=content.after or None)
            fields |= {"total": content.total, "start": content.start, **after}
        return note_shown(context.long_texts, member.name, name, fields, said, context.lang)


class ListNotebooksCall(ToolCall):
    """List the notebooks, and documents in them."""

    documents: Count = LISTED
    name: str = ""
    folder: str = ""

    def run(self, context: Context, name: str) -> Answer:
        reading, member, lang = notes_of(context.desk).reading, context.member, context.lang
        boxes, within = reading.notebooks(member), within_of(self.name, self.folder)
        lines = [say("notes.notebooks", lang, {"count": len(boxes)})]
        rows: list[Value] = []
        for box in boxes:
            row: Fields = {"id": box.id, "name": box.name, "closed": box.closed, "documents": []}
            rows.append(row)
            if box.closed:
                lines.append(f"- [{box.id}] {box.name} ({say('notes.closed', lang)})")
                continue
            listed = reading.documents(member, box.id, self.documents, within)
            coverage, more = reading.coverage(member, box.id), listed.total - len(listed)
            row["documents"] = [{"id": each.id, "hpath": each.hpath} for each in listed]
            row |= {**known(more=more or None), **(coverage_fields(coverage) if coverage else {})}
            below = (f"- [{each.id}][d] {each.hpath}" for each in listed)
            unread = unread_lines(coverage, lang) if coverage else []
            lines.append(f"- [{box.id}] {box.name}")
            lines += [f"  {line}" for line in (*below, *_more(more, lang), *unread)]
        return note_answered({"count": len(rows), "notebooks": rows}, "\n".join(lines))


class SearchBlocksCall(ToolCall):
    """Find blocks that contain some words."""

    query: str
    limit: Count = FOUND
    name: str = ""
    folder: str = ""

    def run(self, context: Context, name: str) -> Answer:
        query, reading = self.query, notes_of(context.desk).reading
        if not query.strip():
            raise InvalidArgs("query", "must not be empty")
        within = within_of(self.name, self.folder)
        blocks = reading.search(context.member, query, self.limit, within)
        said = "notes.found" if blocks else "notes.found_none"
        found = [(block, block.content or block.markdown) for block in blocks]
        rows: list[Value] = [
            {
                "id": block.id,
                "type": block.kind,
                "box": block.box,
                "root_id": block.root_id,
                "hpath": block.hpath,
                "content": start_of(text, _LONGEST),
            }
            for block, text in found
        ]
        lines = [
            say(said, context.lang, {"count": len(blocks), "query": query}),
            *(
                f"- [{block.id}][{block.kind}] {block.hpath}: {start_of(one_line(text), _LONGEST)}"
                for block, text in found
            ),
        ]
        more, coverage = blocks.total - len(blocks), reading.covered(context.member)
        covered = coverage_fields(coverage)
        waiting = {"indexed": covered["indexed"], "documents": covered["total"]}
        fields: Fields = {
            "count": len(rows),
            "blocks": rows,
            **known(more=more or None),
            **(waiting if coverage.waiting else {}),
            **known(notRead=covered.get("notRead")),
        }
        lines += [*_more(more, context.lang), *covered_lines(coverage, context.lang)]
        return note_answered(fields, "\n".join(lines))


class ReadVarCall(ToolCall):
    """Show more of a result that was cut."""

    name: str
    offset: Count = 0
    length: Count = 0

    def run(self, context: Context, name: str) -> Answer:
        wanted, start, member = self.name, self.offset, context.member.name
        text = context.long_texts.find(member, wanted)
        if text is None:
            names = ", ".join(context.long_texts.names(member)[-10:]) or "-"
            raise InvalidArgs(
                "name", f"{wanted[:100]!r} is not kept in this session; kept: {names}"
            )
        if start > len(text):
            raise InvalidArgs("offset", f"the text has {len(text)} characters")
        most = context.long_texts.length or len(text)
        part = text[start : start + min(self.length or most, most)]
        left = len(text) - start - len(part)
        facts = {"name": wanted, "next": start + len(part), "omitted": left, "total": len(text)}
        note = f"\n\n{say('notes.cut', context.lang, facts)}" if left else ""
        return note_answered(
            {
                "name": wanted,
                "offset": start,
                "length": len(part),
                "total": len(text),
                "omitted": left,
                "content": part,
            },
            part + note,
        )


class AppendContentCall(EditingCall):
    """Append a text to a daily note, document or block."""

    markdown: str
    targetType: Literal["dailynote", "document", "block"]
    target: str

    def run(self, context: Context, name: str) -> Answer:
        kind, target = self.targetType, self.target.strip()
        written = notes_of(context.desk).append(context.member, name, self.markdown, kind, target)
        what = say(f"notes.target.{kind}", context.lang)
        facts = {"what": what, "id": written.target.id, "ids": ", ".join(written.new_ids)}
        return note_answered(
            {
                "success": True,
                "targetId": written.target.id,
                "targetType": kind,
                "newBlockIds": list(written.new_ids),
                "edit_ids": list(written.edit_ids),
            },
            say("notes.appended", context.lang, facts),
        )


class CreateNewDocCall(EditingCall):
    """Create a document."""

    title: str
    markdown: str = ""
    anchorDocumentId: str
    location: Literal["siblings", "children", "parent"]

    def run(self, context: Context, name: str) -> Answer:
        location, anchor = self.location, self.anchorDocumentId.strip()
        written = notes_of(context.desk).create(
            context.member, name, self.title, self.markdown, anchor, location
        )
        link = (
            f"siyuan://blocks/{written.target.id}" if written.path is None else _link(written.path)
        )
        facts = {
            "link": link,
            "hpath": written.target.hpath,
            "where": say(f"notes.location.{location}", context.lang),
            "id": written.target.id,
        }
        return note_answered(
            {
                "success": True,
                "docId": written.target.id,
                "hpath": written.target.hpath,
                "link": link,
                "location": location,
                "newBlockIds": list(written.new_ids),
                "edit_ids": list(written.edit_ids),
            },
            say("notes.created", context.lang, facts),
        )


class ApplyBlockDiffCall(EditingCall):
    """Apply all hunks of a diff, or none."""

    diff: str
    strictMatch: bool = True
    dropAnchors: bool = False
    updateLinks: bool = False
    dryRun: bool = False

    def run(self, context: Context, name: str) -> Answer:
        desk, request = notes_of(context.desk), _block_diff(self)
        if self.dryRun:
            return _edited(context, desk.draft(context.member, request), dry=True)
        return _edited(context, desk.edit(context.member, name, request), dry=False)


class PrepareBlockDiffCall(PrepareCall):
    """Plan a diff."""

    diff: str
    strictMatch: bool = True
    dropAnchors: bool = False
    updateLinks: bool = False

    def request(self, context: Context) -> BlockDiff:
        return _block_diff(self)


def _block_diff(call: ApplyBlockDiffCall | PrepareBlockDiffCall) -> BlockDiff:
    from copydesk.notes.plan import BlockDiff  # rarely needed

    return BlockDiff(_NOWHERE, call.diff, call.strictMatch, call.dropAnchors, call.updateLinks)


def within_of(name: str, folder: str) -> Within:
    """The documents that a caller asks for."""
    from copydesk.notes.protocol import Within  # rarely needed

    return Within(name.strip(), folder)


def _more(count: int, lang: Lang) -> list[str]:
    return [say("notes.more", lang, {"count": count})] if count > 0 else []


def notes() -> tuple[Tool, ...]:
    """All tools of this toolset."""
    tool = partial(Tool, toolset="notes", refuse=note_refused)
    reading = partial(tool, reads=True, idempotent=True)
    return (
        reading("getBlockInfo", call=BlockInfoCall),
        reading("getBlockContent", call=BlockContentCall),
        reading("listNotebooks", call=ListNotebooksCall),
        reading("searchBlocks", call=SearchBlocksCall),
        reading("readVar", call=ReadVarCall),
        tool("appendContent", call=AppendContentCall),
        tool("createNewDoc", call=CreateNewDocCall),
        tool("applyBlockDiff", call=ApplyBlockDiffCall, destroys=True),
        tool("prepareBlockDiff", call=PrepareBlockDiffCall, destroys=True),
    )


def covered_lines(coverage: Coverage, lang: Lang) -> list[str]:
    """What a search did not see; empty if it saw all."""
    facts = {"done": coverage.documents - coverage.waiting, "count": coverage.documents}
    waiting = [say("notes.indexing", lang, facts)] if coverage.waiting else []
    return waiting + unread_lines(coverage, lang)


def coverage_fields(coverage: Coverage) -> Fields:
    """How much of a notebook is indexed, and the unread files, for a program."""
    rows: list[Value] = [{"path": file.path, "reason": file.reason} for file in coverage.unread]
    return {
        "total": coverage.documents,
        "indexed": max(coverage.documents - coverage.waiting, 0),
        **({"notRead": rows} if rows else {}),
    }


def unread_lines(coverage: Coverage, lang: Lang) -> list[str]:
    """The unread files of a notebook with their reasons; empty if there are none."""
    facts, more = {"most": sizes.NOTE >> 20}, len(coverage.unread) - _UNREAD
    files = [
        f"- {file.path}: {say(f'notes.unread.{file.reason}', lang, facts)}"
        for file in coverage.unread[:_UNREAD]
    ]
    head = [say("notes.unread", lang, {"count": len(coverage.unread)})] if files else []
    rest = [say("notes.unread.more", lang, {"count": more})] if more > 0 else []
    return [*head, *files, *rest]


def _link(path: RelPath) -> str:
    return "".join(_NO_LINK.get(char, char) for char in str(path))


def label(kind: str, lang: Lang) -> str:
    """The name of a kind of blocks, or empty."""
    key = f"notes.kind.{kind}"
    return say(key, lang) if has(key) else ""


def content_text(content: BlockContent, slice_text: str | None, lang: Lang, *, ids: bool) -> str:
    """The blocks in sequence; for a slice, after a line that describes it."""
    if slice_text is not None and not content.blocks and content.total:
        return say("notes.slice_empty", lang, {"total": content.total})
    text = "\n\n".join(
        f"@@{block.id}@@{label(block.kind, lang)}\n{block.markdown}" if ids else block.markdown
        for block in content.blocks
    )
    if slice_text is None:
        return text
    last = content.start + len(content.blocks) - 1
    after = f" | Next: {content.after}" if content.after else ""
    return (
        f'> [Slice View] Filter: "{slice_text}" | Count: {len(content.blocks)}'
        f" | Total: {content.total} | Position: {content.start}-{last}{after}\n\n{text}"
    )


def info_fields(info: Info, lang: Lang) -> Fields:
    """The attributes of a block as data."""
    return {
        "id": info.block.id,
        "type": info.block.kind,
        "block": block_fields(info.block),
        "contentLength": len(info.block.content),
        "markdownLength": len(info.markdown),
        "markdownPreview": info.markdown[:_PREVIEW],
        **known(childBlockCount=info.child_count),
        **({"toc": [*map(_heading_fields, info.outline)]} if info.outline else {}),
        "breadcrumb": _breadcrumb(info.breadcrumb, lang),
    }


def block_fields(block: NoteBlock) -> Fields:
    """The attributes of a block by their names in the kernel's table."""
    known: Fields = {
        "id": block.id,
        "box": block.box,
        "root_id": block.root_id,
        "parent_id": block.parent_id,
        "type": block.kind,
        "subtype": block.subtype,
        "path": block.path,
        "hpath": block.hpath,
        "name": "",
        "alias": "",
        "memo": "",
        "content": start_of(block.content, _LONGEST),
        "created": block.created,
        "updated": block.updated,
    }
    return {**known, **dict(block.attributes)}


def _sheet(info: Info, lang: Lang) -> str:
    block, lines = info.block, [f"=== Block [{info.block.id}] attributes ==="]
    for key, value in block_fields(block).items():
        if key != "content":
            name = say(f"notes.sheet.{key}", lang) if has(f"notes.sheet.{key}") else key
            lines.append(f"  {name}: {one_line(start_of(str(value), _LONGEST))}".rstrip())
    content = (
        f"content: {one_line(block.content)}"
        if block.kind == "d"
        else say("notes.content_length", lang, {"length": len(block.content)})
    )
    more = "..." if len(info.markdown) > _PREVIEW else ""
    start = f'"{one_line(info.markdown[:_PREVIEW])}{more}"'
    preview = start if info.markdown else say("notes.empty", lang)
    lines += [
        *("", content),
        say("notes.markdown_length", lang, {"length": len(info.markdown), "preview": preview}),
    ]
    if info.child_count is not None:
        lines += ["", say("notes.children", lang, {"count": info.child_count})]
    if info.outline:
        lines += ["", say("notes.outline", lang), *_outline(info.outline)]
    return "\n".join([*lines, "", _breadcrumb(info.breadcrumb, lang)])


def _outline(headings: Sequence[Heading], depth: int = 0) -> Iterable[str]:
    for heading in headings:
        yield f"{'  ' * depth}- {heading.text}[{heading.id}]"
        yield from _outline(heading.below, depth + 1)


def _heading_fields(heading: Heading) -> Fields:
    return {
        "blockId": heading.id,
        "content": heading.text,
        "subtype": heading.subtype,
        "children": [_heading_fields(below) for below in heading.below],
    }


def _breadcrumb(crumbs: Sequence[Crumb], lang: Lang) -> str:
    rows = [
        f"- [{crumb.id}][{crumb.kind or 'd'}] {one_line(crumb.name)}".rstrip() for crumb in crumbs
    ]
    return "\n".join([say("notes.breadcrumb", lang), *rows])


def _edited(context: Context, draft: BlockDraft, *, dry: bool) -> Answer:
    """The answer of a block diff that was applied, or only tried."""
    hunks, lang, edit_ids = draft.made(), context.lang, draft.edit_ids
    nothing = draft.replaces_nothing and not edit_ids
    how, facts = "dry" if dry else "nothing" if nothing else "done", {"count": len(hunks)}
    message = say(f"notes.diff.{how}", lang, facts)
    warned = warnings(draft, lang)
    diff, was_cut = shown_diff(draft.diff, draft.base.encoding)
    fields: Fields = {
        "message": message,
        "dryRun": dry,
        "changed": not dry and not nothing,
        "paths": [str(each.path) for each in draft.documents],
        "results": hunk_rows(hunks, done=not dry),
        "edit_ids": list(edit_ids),
        **warned,
        **({"diff_truncated": True} if was_cut else {}),
    }
    lines = [message, *(f"- {hunk_text(hunk)}" for hunk in hunks)]
    if edit_ids:
        together = ', "transaction": true' if len(edit_ids) > 1 else ""
        call = f'{UNDO}({{"edit_id": {min(edit_ids)}{together}}})'
        lines.append(say("notes.undo", lang, {"calls": call}))
    lines += (f"- {each}" for each in warned_in(warned))
    said = "\n".join(lines) + (f"\n\n{fenced(diff, 'diff')}" if diff else "")
    return note_answered(fields, said, diff)
