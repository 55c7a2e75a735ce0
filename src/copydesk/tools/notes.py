"""The tools of notes: reading by blocks, editing by diffs.

The modules for notes are imported when one of the tools is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

from copydesk.edit.request import BlockDiff
from copydesk.errors import InvalidArgs
from copydesk.text import sizes
from copydesk.text.relpath import RelPath
from copydesk.tools.answers import FOUND, LISTED, note_answered, note_refused, note_shown
from copydesk.tools.arguments import Count
from copydesk.tools.catalog import Context, EditingCall, Tool, ToolCall
from copydesk.tools.messages import has, say
from copydesk.tools.report import Answer, Fields, Lang, Value, fenced, shown_diff
from copydesk.tools.report_fields import (
    hunk_rows,
    hunk_text,
    one_line,
    start_of,
    warned_in,
    warnings,
)
from copydesk.tools.ws_mod import UNDO, PrepareCall

if TYPE_CHECKING:
    from copydesk.desk.member import Member
    from copydesk.desk.notes.desk import NoteReader
    from copydesk.desk.notes.notebook_access import (
        BlockContent,
        Coverage,
        Crumb,
        Heading,
        Info,
        Infos,
        NoteBlock,
    )
    from copydesk.edit.notes.plan import BlockDraft

_PREVIEW = 10
_LONGEST = 200
_UNREAD = 20  # unread files that a text names
_NO_LINK = {char: f"%{ord(char):02X}" for char in ' %()<>"\\#?[]`'}
_NOWHERE = RelPath(())  # a block diff has no path, its blocks have


class BlockInfoCall(ToolCall):
    """Show block metadata without text."""

    ids: str

    def run(self, context: Context, name: str) -> Answer:
        ids = [part.strip() for part in self.ids.split(",") if part.strip()]
        if not ids:
            raise InvalidArgs("ids", "must name a block")
        infos = context.desk.notes.reading.infos(context.member, ids)
        rows = [info_fields(info, context.lang) for info in infos.found]
        fields: Fields = rows[0]
        if infos.asked > 1:
            fields = {"blocks": rows}
            if infos.missing:
                fields["notFoundIds"] = list(infos.missing)
        said = info_text(infos, context.lang)
        kept = context.kept
        if not kept.is_long(said):
            return note_answered(fields, said)
        cut = note_shown(kept, context.member.name, name, {}, said, context.lang)
        return note_answered({**fields, "var": cut.fields["var"]}, cut.text)


class BlockContentCall(ToolCall):
    """Show the text of a block, or of its parts."""

    blockId: str
    showId: bool = False
    showSubStructure: bool = False
    slice: str | None = None

    def run(self, context: Context, name: str) -> Answer:
        chosen = self.slice
        parts = chosen is not None or self.showSubStructure
        ids = chosen is not None or (self.showId if "showId" in vars(self) else parts)
        content = context.desk.notes.reading.content(
            context.member, self.blockId, parts=parts, slice_text=chosen
        )
        said = content_text(content, chosen, context.lang, ids=ids)
        fields: Fields = {"blockId": content.target.id, "count": len(content.blocks)}
        if chosen is not None:
            fields |= {"total": content.total, "start": content.start}
            if content.after:
                fields["next"] = content.after
        return note_shown(context.kept, context.member.name, name, fields, said, context.lang)


class ListNotebooksCall(ToolCall):
    """List the notebooks."""

    documents: Count = LISTED

    def run(self, context: Context, name: str) -> Answer:
        reading = context.desk.notes.reading
        found = reading.notebooks(context.member)
        lines = [say("notes.notebooks", context.lang, {"count": len(found)})]
        shut = say("notes.closed", context.lang)
        rows: list[Value] = []
        for one in found:
            listed = () if one.closed else reading.documents(context.member, one.id, self.documents)
            documents: list[Value] = [{"id": each.id, "hpath": each.hpath} for each in listed]
            row: Fields = {
                "id": one.id,
                "name": one.name,
                "closed": one.closed,
                "documents": documents,
            }
            lines.append(f"- [{one.id}] {one.name}{f' ({shut})' * one.closed}")
            lines += [f"  - [{each.id}][d] {each.hpath}" for each in listed]
            coverage = None if one.closed else reading.coverage(context.member, one.id)
            if coverage is not None:
                row |= coverage_fields(coverage)
                lines += [f"  {line}" for line in unread_lines(coverage, context.lang)]
            rows.append(row)
        return note_answered({"count": len(rows), "notebooks": rows}, "\n".join(lines))


class SearchBlocksCall(ToolCall):
    """Find blocks that contain some words."""

    query: str
    limit: Count = FOUND

    def run(self, context: Context, name: str) -> Answer:
        query = self.query
        if not query.strip():
            raise InvalidArgs("query", "must not be empty")
        reading = context.desk.notes.reading
        found = reading.search(context.member, query, self.limit)
        said = "notes.found" if found else "notes.found_none"
        lines = [say(said, context.lang, {"count": len(found), "query": query})]
        rows: list[Value] = []
        for one in found:
            text = one.content or one.markdown
            names = {"id": one.id, "type": one.kind, "box": one.box, "root_id": one.root_id}
            rows.append({**names, "hpath": one.hpath, "content": start_of(text, _LONGEST)})
            shown = start_of(one_line(text), _LONGEST)
            lines.append(f"- [{one.id}][{one.kind}] {one.hpath}: {shown}")
        fields: Fields = {"count": len(rows), "blocks": rows}
        done, documents = indexed(reading, context.member)
        if done < documents:
            fields |= {"indexed": done, "documents": documents}
            facts = {"done": done, "count": documents}
            lines.append(say("notes.indexing", context.lang, facts))
        return note_answered(fields, "\n".join(lines))


class ReadVarCall(ToolCall):
    """Show more of a result that was cut."""

    name: str
    offset: Count = 0
    length: Count = 0

    def run(self, context: Context, name: str) -> Answer:
        wanted, start, member = self.name, self.offset, context.member.name
        found = context.kept.find(member, wanted)
        if found is None:
            names = ", ".join(context.kept.names(member)[-10:]) or "-"
            raise InvalidArgs(
                "name", f"{wanted[:100]!r} is not kept in this session; kept: {names}"
            )
        if start > len(found):
            raise InvalidArgs("offset", f"the text has {len(found)} characters")
        most = context.kept.length or len(found)
        part = found[start : start + min(self.length or most, most)]
        stop = start + len(part)
        left = len(found) - stop
        fields: Fields = {"name": wanted, "offset": start, "length": len(part), "total": len(found)}
        facts = {"name": wanted, "next": stop, "omitted": left, "total": len(found)}
        note = f"\n\n{say('notes.cut', context.lang, facts)}" if left else ""
        return note_answered({**fields, "omitted": left, "content": part}, part + note)


class AppendContentCall(EditingCall):
    """Append a text to a daily note, document or block."""

    markdown: str
    targetType: Literal["dailynote", "document", "block"]
    target: str

    def run(self, context: Context, name: str) -> Answer:
        kind, target = self.targetType, self.target.strip()
        made = context.desk.notes.append(context.member, name, self.markdown, kind, target)
        ids = ", ".join(made.new_ids)
        facts = {
            "what": say(f"notes.target.{kind}", context.lang),
            "id": made.target.id,
            "ids": ids,
        }
        return note_answered(
            {
                "success": True,
                "targetId": made.target.id,
                "targetType": kind,
                "newBlockIds": list(made.new_ids),
                "edit_ids": list(made.edit_ids),
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
        made = context.desk.notes.create(
            context.member, name, self.title, self.markdown, anchor, location
        )
        where = say(f"notes.location.{location}", context.lang)
        link = f"siyuan://blocks/{made.target.id}" if made.path is None else _link(made.path)
        facts = {"link": link, "hpath": made.target.hpath, "where": where}
        return note_answered(
            {
                "success": True,
                "docId": made.target.id,
                "hpath": made.target.hpath,
                "link": link,
                "location": location,
                "newBlockIds": list(made.new_ids),
                "edit_ids": list(made.edit_ids),
            },
            say("notes.created", context.lang, facts),
        )


class ApplyBlockDiffCall(EditingCall):
    """Apply all hunks of a diff, or none."""

    diff: str
    strictMatch: bool = True
    dropAnchors: bool = False
    dryRun: bool = False

    def run(self, context: Context, name: str) -> Answer:
        request = BlockDiff(_NOWHERE, self.diff, self.strictMatch, self.dropAnchors)
        if self.dryRun:
            return _edited(context, context.desk.notes.draft(context.member, request), dry=True)
        return _edited(context, context.desk.notes.edit(context.member, name, request), dry=False)


class PrepareBlockDiffCall(PrepareCall):
    """Plan a diff."""

    diff: str
    strictMatch: bool = True
    dropAnchors: bool = False

    def request(self, context: Context) -> BlockDiff:
        return BlockDiff(_NOWHERE, self.diff, self.strictMatch, self.dropAnchors)


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


def indexed(reading: NoteReader, member: Member) -> tuple[int, int]:
    """The number of indexed documents in all notebooks, and the total."""
    boxes = (one.id for one in reading.notebooks(member) if not one.closed)
    found = [one for box in boxes if (one := reading.coverage(member, box)) is not None]
    documents = sum(one.documents for one in found)
    return documents - sum(one.waiting for one in found), documents


def coverage_fields(coverage: Coverage) -> Fields:
    """How much of a notebook is indexed, and the unread files, for a program."""
    fields: Fields = {
        "total": coverage.documents,
        "indexed": max(coverage.documents - coverage.waiting, 0),
    }
    if coverage.unread:
        fields["notRead"] = [{"path": one.path, "reason": one.reason} for one in coverage.unread]
    return fields


def unread_lines(coverage: Coverage, lang: Lang) -> list[str]:
    """The unread files of a notebook with their reasons; empty if there are none."""
    if not coverage.unread:
        return []
    lines = [say("notes.unread", lang, {"count": len(coverage.unread)})]
    for one in coverage.unread[:_UNREAD]:
        facts = {"most": sizes.NOTE >> 20}
        why = say(f"notes.unread.{one.reason}", lang, facts)
        lines.append(f"- {one.path}: {why}")
    if len(coverage.unread) > _UNREAD:
        lines.append(say("notes.unread.more", lang, {"count": len(coverage.unread) - _UNREAD}))
    return lines


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
    parts = [_shown(block, lang) if ids else block.markdown for block in content.blocks]
    text = "\n\n".join(parts)
    if slice_text is None:
        return text
    last = content.start + len(content.blocks) - 1
    head = f'> [Slice View] Filter: "{slice_text}" | Count: {len(content.blocks)}'
    head += f" | Total: {content.total} | Position: {content.start}-{last}"
    if content.after:
        head += f" | Next: {content.after}"
    return f"{head}\n\n{text}"


def info_text(infos: Infos, lang: Lang) -> str:
    """The attributes of blocks as text, and the ids that were not found."""
    if infos.asked == 1:
        return _sheet(infos.found[0], lang)
    lines = [say("notes.infos", lang, {"count": len(infos.found)})]
    lines.append("\n\n".join(_sheet(info, lang) for info in infos.found))
    if infos.missing:
        lines += ["", say("notes.infos_missing", lang, {"ids": ", ".join(infos.missing)})]
    return "\n".join(lines)


def info_fields(info: Info, lang: Lang) -> Fields:
    """The attributes of a block as data."""
    fields: Fields = {
        "id": info.block.id,
        "type": info.block.kind,
        "block": block_fields(info.block),
        "contentLength": len(info.block.content),
        "markdownLength": len(info.markdown),
        "markdownPreview": info.markdown[:_PREVIEW],
    }
    if info.child_count is not None:
        fields["childBlockCount"] = info.child_count
    if info.outline:
        fields["toc"] = [_heading_fields(one) for one in info.outline]
    fields["breadcrumb"] = _breadcrumb(info.breadcrumb, lang)
    return fields


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


def _shown(block: NoteBlock, lang: Lang) -> str:
    return f"@@{block.id}@@{label(block.kind, lang)}\n{block.markdown}"


def _sheet(info: Info, lang: Lang) -> str:
    block = info.block
    lines = [f"=== Block [{block.id}] attributes ==="]
    for key, value in block_fields(block).items():
        if key != "content":
            name = say(f"notes.sheet.{key}", lang) if has(f"notes.sheet.{key}") else key
            said = one_line(start_of(str(value), _LONGEST))
            lines.append(f"  {name}: {said}".rstrip())
    lines.append("")
    if block.kind == "d":
        lines.append(f"content: {one_line(block.content)}")
    else:
        lines.append(say("notes.content_length", lang, {"length": len(block.content)}))
    facts = {"length": len(info.markdown), "preview": _preview(info.markdown, lang)}
    lines.append(say("notes.markdown_length", lang, facts))
    if info.child_count is not None:
        lines += ["", say("notes.children", lang, {"count": info.child_count})]
    if info.outline:
        lines += ["", say("notes.outline", lang), *_outline(info.outline)]
    return "\n".join([*lines, "", _breadcrumb(info.breadcrumb, lang)])


def _outline(headings: Sequence[Heading], depth: int = 0) -> Iterable[str]:
    for one in headings:
        yield f"{'  ' * depth}- {one.text}[{one.id}]"
        yield from _outline(one.below, depth + 1)


def _heading_fields(heading: Heading) -> Fields:
    return {
        "blockId": heading.id,
        "content": heading.text,
        "subtype": heading.subtype,
        "children": [_heading_fields(one) for one in heading.below],
    }


def _breadcrumb(crumbs: Sequence[Crumb], lang: Lang) -> str:
    rows = [f"- [{one.id}][{one.kind or 'd'}] {one_line(one.name)}".rstrip() for one in crumbs]
    return "\n".join([say("notes.breadcrumb", lang), *rows])


def _preview(markdown: str, lang: Lang) -> str:
    if not markdown:
        return say("notes.empty", lang)
    more = "..." if len(markdown) > _PREVIEW else ""
    return f'"{one_line(markdown[:_PREVIEW])}{more}"'


def _edited(context: Context, draft: BlockDraft, *, dry: bool) -> Answer:
    """The answer of a block diff that was applied, or only tried."""
    hunks = draft.made()
    nothing = draft.replaces_nothing and not draft.edit_ids
    how = "dry" if dry else "nothing" if nothing else "done"
    facts = {"count": len(hunks)}
    message = say(f"notes.diff.{how}", context.lang, facts)
    fields: Fields = {
        "message": message,
        "dryRun": dry,
        "changed": not dry and not nothing,
        "paths": [str(one.path) for one in draft.documents],
        "results": hunk_rows(hunks, done=not dry),
        "edit_ids": list(draft.edit_ids),
    }
    lines = [message, *(f"- {hunk_text(hunk)}" for hunk in hunks)]
    if draft.edit_ids:
        calls = (f'{UNDO}({{"edit_id": {one}}})' for one in draft.edit_ids)
        lines.append(say("notes.undo", context.lang, {"calls": ", ".join(calls)}))
    told = warnings(draft, context.lang)
    fields |= told
    lines += (f"- {one}" for one in warned_in(told))
    diff, was_cut = shown_diff(draft.diff, draft.base.encoding)
    if was_cut:
        fields["diff_truncated"] = True
    said = "\n".join(lines) + (f"\n\n{fenced(diff, 'diff')}" if diff else "")
    return note_answered(fields, said, diff)
