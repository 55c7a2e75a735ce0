"""What each tool of notes does: from arguments to the desk's sentences, and what is answered.

What lives here: these steps, and the fields of the answers. What must not: schemas
(`notes`), what the desk does, the forms of blocks (`notes_text`).
"""

from __future__ import annotations

from typing import cast

from copydesk.desk.notes.desk import Location, Target
from copydesk.edit.notes.draft import BlockDraft
from copydesk.errors import InvalidArgs
from copydesk.tools import notes_answer, notes_text
from copydesk.tools.catalog import Answer, Context
from copydesk.tools.history import UNDO
from copydesk.tools.notes_answer import shown, told
from copydesk.tools.notes_args import FOUND, LISTED, request_of
from copydesk.tools.report import Fields, shown_diff
from copydesk.tools.wire import Args
from copydesk.tools.words import say
from copydesk.tools.yaml import Value, fenced


def get_block_info(context: Context, name: str, args: Args) -> Answer:
    """What blocks are, without their text."""
    ids = [part.strip() for part in args.text("ids").split(",") if part.strip()]
    if not ids:
        raise InvalidArgs("ids", "must name a block")
    infos = context.desk.notes.reading.infos(context.member, ids)
    rows = [notes_text.info_fields(info, context.lang) for info in infos.found]
    fields: Fields = rows[0]
    if infos.asked > 1:
        fields = {"blocks": rows}
        if infos.missing:
            fields["notFoundIds"] = list(infos.missing)
    said = notes_text.info_text(infos, context.lang)
    kept = context.kept
    if not kept.is_long(said):
        return told(fields, said)
    cut = shown(kept, context.member.name, name, {}, said, context.lang)
    return told({**fields, "var": cut.fields["var"]}, cut.text)


def get_block_content(context: Context, name: str, args: Args) -> Answer:
    """The text of a block, or of its parts."""
    chosen = args.text_or_none("slice")
    parts = chosen is not None or args.flag("showSubStructure", False)
    ids = chosen is not None or args.flag("showId", parts)
    content = context.desk.notes.reading.content(
        context.member, args.text("blockId"), parts=parts, slice_text=chosen
    )
    said = notes_text.content_text(content, chosen, context.lang, ids=ids)
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
    return told(
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
    return told(
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
    return told({"count": len(rows), "notebooks": rows}, "\n".join(lines))


def search_blocks(context: Context, name: str, args: Args) -> Answer:
    """Blocks that hold some words."""
    query = args.text("query")
    if not query.strip():
        raise InvalidArgs("query", "must not be empty")
    most = args.number("limit", FOUND)
    found = context.desk.notes.reading.search(context.member, query, most)
    rows: list[Value] = [notes_text.hit_fields(block) for block in found]
    said = "notes.found" if found else "notes.found_none"
    lines = [say(said, context.lang, {"count": len(found), "query": query})]
    lines += map(notes_text.hit_text, found)
    return told({"count": len(rows), "blocks": rows}, "\n".join(lines))


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
    return told({**fields, "omitted": left, "content": part}, part + note)


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
        "results": notes_text.hunk_rows(hunks, done=not dry),
        "edit_ids": list(draft.edit_ids),
    }
    lines = [message, *(f"- {notes_text.hunk_text(hunk)}" for hunk in hunks)]
    if draft.edit_ids:
        calls = (f'{UNDO}({{"edit_id": {one}}})' for one in draft.edit_ids)
        lines.append(say("notes.undo", context.lang, {"calls": ", ".join(calls)}))
    diff, was_cut = shown_diff(draft.diff, draft.base.encoding)
    if was_cut:
        fields["diff_truncated"] = True
    said = "\n".join(lines) + (f"\n\n{fenced(diff, 'diff')}" if diff else "")
    return notes_answer.told(fields, said, diff)
