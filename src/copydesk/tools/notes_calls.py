"""What each tool of notes does, from arguments to the desk, and what it answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from copydesk.desk.notes.desk import Location, Target
from copydesk.desk.notes.notebook_access import Content, Crumb, Heading, Info, Infos, NoteBlock
from copydesk.edit.notes.draft import BlockDraft
from copydesk.errors import InvalidArgs
from copydesk.tools.catalog import Answer, Context
from copydesk.tools.history import UNDO
from copydesk.tools.messages import has, say
from copydesk.tools.notes_answer import FOUND, LISTED, answered, request_of, shown
from copydesk.tools.report import Fields, Lang, Value, fenced, shown_diff
from copydesk.tools.report_fields import hunk_rows, hunk_text, one_line, start_of
from copydesk.tools.wire import Args

_PREVIEW = 10
_LONGEST = 200


def label(kind: str, lang: Lang) -> str:
    """The name of a kind of blocks, empty for one that has none."""
    key = f"notes.kind.{kind}"
    return say(key, lang) if has(key) else ""


def content_text(content: Content, slice_text: str | None, lang: Lang, *, ids: bool) -> str:
    """Blocks one after the other; of a slice, a line that says which, first."""
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
    """The sheets of blocks, and which there are not."""
    if infos.asked == 1:
        return _sheet(infos.found[0], lang)
    lines = [say("notes.infos", lang, {"count": len(infos.found)})]
    lines.append("\n\n".join(_sheet(info, lang) for info in infos.found))
    if infos.missing:
        lines += ["", say("notes.infos_missing", lang, {"ids": ", ".join(infos.missing)})]
    return "\n".join(lines)


def info_fields(info: Info, lang: Lang) -> Fields:
    """What is known of a block, for a program."""
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
    """The attributes of a block by the names that the kernel's table has for them."""
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


def hit_fields(block: NoteBlock) -> Fields:
    """A block that was found, for a program."""
    return {
        "id": block.id,
        "type": block.kind,
        "box": block.box,
        "root_id": block.root_id,
        "hpath": block.hpath,
        "content": start_of(block.content or block.markdown, _LONGEST),
    }


def hit_text(block: NoteBlock) -> str:
    """A block that was found, in a line."""
    said = start_of(one_line(block.content or block.markdown), _LONGEST)
    return f"- [{block.id}][{block.kind}] {block.hpath}: {said}"


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


def get_block_info(context: Context, name: str, args: Args) -> Answer:
    """What blocks are, without their text."""
    ids = [part.strip() for part in args.text("ids").split(",") if part.strip()]
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
        return answered(fields, said)
    cut = shown(kept, context.member.name, name, {}, said, context.lang)
    return answered({**fields, "var": cut.fields["var"]}, cut.text)


def get_block_content(context: Context, name: str, args: Args) -> Answer:
    """The text of a block, or of its parts."""
    chosen = args.text_or_none("slice")
    parts = chosen is not None or args.flag("showSubStructure", False)
    ids = chosen is not None or args.flag("showId", parts)
    content = context.desk.notes.reading.content(
        context.member, args.text("blockId"), parts=parts, slice_text=chosen
    )
    said = content_text(content, chosen, context.lang, ids=ids)
    fields: Fields = {"blockId": content.target.id, "count": len(content.blocks)}
    if chosen is not None:
        fields |= {"total": content.total, "start": content.start}
        if content.after:
            fields["next"] = content.after
    return shown(context.kept, context.member.name, name, fields, said, context.lang)


def append_content(context: Context, name: str, args: Args) -> Answer:
    """Text at the end of something."""
    kind = cast(Target, args.text("targetType"))
    made = context.desk.notes.append(
        context.member, name, args.text("markdown"), kind, args.text("target").strip()
    )
    ids = ", ".join(made.new_ids)
    facts = {"what": say(f"notes.target.{kind}", context.lang), "id": made.target.id, "ids": ids}
    return answered(
        {
            "success": True,
            "targetId": made.target.id,
            "targetType": kind,
            "newBlockIds": list(made.new_ids),
            "edit_ids": list(made.edit_ids),
        },
        say("notes.appended", context.lang, facts),
    )


def create_new_doc(context: Context, name: str, args: Args) -> Answer:
    """A new document."""
    location = cast(Location, args.text("location"))
    made = context.desk.notes.create(
        context.member,
        name,
        args.text("title"),
        args.text("markdown"),
        args.text("anchorDocumentId").strip(),
        location,
    )
    where = say(f"notes.location.{location}", context.lang)
    facts = {"id": made.target.id, "hpath": made.target.hpath, "where": where}
    return answered(
        {
            "success": True,
            "docId": made.target.id,
            "hpath": made.target.hpath,
            "location": location,
            "newBlockIds": list(made.new_ids),
            "edit_ids": list(made.edit_ids),
        },
        say("notes.created", context.lang, facts),
    )


def apply_block_diff(context: Context, name: str, args: Args) -> Answer:
    """All hunks of a diff, or none."""
    request = request_of(args)
    if args.flag("dryRun", False):
        return _edited(context, context.desk.notes.draft(context.member, request), dry=True)
    return _edited(context, context.desk.notes.edit(context.member, name, request), dry=False)


def list_notebooks(context: Context, name: str, args: Args) -> Answer:
    """The notebooks."""
    reading, most = context.desk.notes.reading, args.number("documents", LISTED)
    found = reading.notebooks(context.member)
    lines = [say("notes.notebooks", context.lang, {"count": len(found)})]
    shut = say("notes.closed", context.lang)
    rows: list[Value] = []
    for one in found:
        listed = () if one.closed else reading.documents(context.member, one.id, most)
        documents: list[Value] = [{"id": each.id, "hpath": each.hpath} for each in listed]
        rows.append({"id": one.id, "name": one.name, "closed": one.closed, "documents": documents})
        lines.append(f"- [{one.id}] {one.name}{f' ({shut})' * one.closed}")
        lines += [f"  - [{each.id}][d] {each.hpath}" for each in listed]
    return answered({"count": len(rows), "notebooks": rows}, "\n".join(lines))


def search_blocks(context: Context, name: str, args: Args) -> Answer:
    """Blocks that hold some words."""
    query = args.text("query")
    if not query.strip():
        raise InvalidArgs("query", "must not be empty")
    most = args.number("limit", FOUND)
    found = context.desk.notes.reading.search(context.member, query, most)
    rows: list[Value] = [hit_fields(block) for block in found]
    said = "notes.found" if found else "notes.found_none"
    lines = [say(said, context.lang, {"count": len(found), "query": query})]
    lines += map(hit_text, found)
    return answered({"count": len(rows), "blocks": rows}, "\n".join(lines))


def read_var(context: Context, name: str, args: Args) -> Answer:
    """More of a result that was cut."""
    wanted, member = args.text("name"), context.member.name
    found = context.kept.find(member, wanted)
    if found is None:
        names = ", ".join(context.kept.names(member)[-10:]) or "-"
        raise InvalidArgs("name", f"{wanted[:100]!r} is not kept in this session; kept: {names}")
    start = args.number("offset", 0)
    if start > len(found):
        raise InvalidArgs("offset", f"the text has {len(found)} characters")
    most = context.kept.length or len(found)
    part = found[start : start + min(args.number("length", most) or most, most)]
    stop = start + len(part)
    left = len(found) - stop
    fields: Fields = {"name": wanted, "offset": start, "length": len(part), "total": len(found)}
    facts = {"name": wanted, "next": stop, "omitted": left, "total": len(found)}
    note = f"\n\n{say('notes.cut', context.lang, facts)}" if left else ""
    return answered({**fields, "omitted": left, "content": part}, part + note)


def _edited(context: Context, draft: BlockDraft, *, dry: bool) -> Answer:
    """What a diff has done, or would do."""
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
    diff, was_cut = shown_diff(draft.diff, draft.base.encoding)
    if was_cut:
        fields["diff_truncated"] = True
    said = "\n".join(lines) + (f"\n\n{fenced(diff, 'diff')}" if diff else "")
    return answered(fields, said, diff)
