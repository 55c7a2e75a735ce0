"""Blocks as a model reads them: headers, attribute sheets, outlines, breadcrumbs.

What lives here: the forms that prompts rely on, in both languages. What must not:
which blocks there are, sentences (`sayings.notes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from copydesk.desk.notes.outcome import Block, Content, Crumb, Heading, Info, Infos
from copydesk.edit.notes.draft import HunkMade
from copydesk.tools.report import Fields, Lang
from copydesk.tools.words import say
from copydesk.tools.yaml import Value

_LABELS: dict[str, tuple[str, str]] = {
    "d": ("Document", "文档"),
    "h": ("Heading", "标题"),
    "p": ("Paragraph", "段落"),
    "l": ("List", "列表"),
    "i": ("List item", "列表项"),
    "c": ("Code", "代码"),
    "m": ("Math", "数学公式"),
    "t": ("Table", "表格"),
    "b": ("Quote", "引述"),
    "s": ("Super block", "超级块"),
    "callout": ("Callout", "提示"),
    "html": ("HTML", "HTML块"),
    "query_embed": ("Embed", "嵌入块"),
    "av": ("Database", "属性视图"),
    "widget": ("Widget", "挂件"),
    "iframe": ("IFrame", "内嵌块"),
    "tb": ("Divider", "分隔线"),
    "video": ("Video", "视频"),
    "audio": ("Audio", "音频"),
}

_SHEET: tuple[tuple[str, tuple[str, str]], ...] = (
    ("id", ("Block ID", "块ID")),
    ("box", ("Notebook ID(box)", "笔记本ID(box)")),
    ("root_id", ("Document ID(root_id)", "文档ID(root_id)")),
    ("parent_id", ("Parent block ID(parent_id)", "父块ID(parent_id)")),
    ("type", ("Block type(type)", "块类型(type)")),
)
"""The attributes that have a name of their own in a sheet; the others stand as they are."""

_PREVIEW = 10
_LONGEST = 200
_OLD_SHOWN, _NEW_SHOWN = 30, 50


def label(kind: str, lang: Lang) -> str:
    """The name of a kind of blocks, empty for one that has none."""
    return _LABELS.get(kind, ("", ""))[lang == "zh"]


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


def block_fields(block: Block) -> Fields:
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
        "content": _cut(block.content, _LONGEST),
        "created": block.created,
        "updated": block.updated,
    }
    return {**known, **dict(block.attributes)}


def hit_fields(block: Block) -> Fields:
    """A block that was found, for a program."""
    return {
        "id": block.id,
        "type": block.kind,
        "box": block.box,
        "root_id": block.root_id,
        "hpath": block.hpath,
        "content": _cut(block.content or block.markdown, _LONGEST),
    }


def hit_text(block: Block) -> str:
    """A block that was found, in a line."""
    said = _cut(_one_line(block.content or block.markdown), _LONGEST)
    return f"- [{block.id}][{block.kind}] {block.hpath}: {said}"


def hunk_text(hunk: HunkMade) -> str:
    """A hunk in a line: what is done to which block."""
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


def _shown(block: Block, lang: Lang) -> str:
    return f"@@{block.id}@@{label(block.kind, lang)}\n{block.markdown}"


def _sheet(info: Info, lang: Lang) -> str:
    block, zh = info.block, lang == "zh"
    names = {key: words[zh] for key, words in _SHEET}
    lines = [f"=== Block [{block.id}] attributes ==="]
    for key, value in block_fields(block).items():
        if key != "content":
            said = _one_line(_cut(str(value), _LONGEST))
            lines.append(f"  {names.get(key, key)}: {said}".rstrip())
    lines.append("")
    if block.kind == "d":
        lines.append(f"content: {_one_line(block.content)}")
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
    rows = [f"- [{one.id}][{one.kind or 'd'}] {_one_line(one.name)}".rstrip() for one in crumbs]
    return "\n".join([say("notes.breadcrumb", lang), *rows])


def _preview(markdown: str, lang: Lang) -> str:
    if not markdown:
        return say("notes.empty", lang)
    more = "..." if len(markdown) > _PREVIEW else ""
    return f'"{_one_line(markdown[:_PREVIEW])}{more}"'


def _quoted(text: str, most: int) -> str:
    return f'"{_cut(_one_line(text), most)}"'


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}..."


def _one_line(text: str) -> str:
    return text.replace("\r", "").replace("\n", "\\n")
