"""What the history of edits, transactions and undo say."""

from __future__ import annotations

SAYINGS: dict[str, tuple[str, str]] = {
    # taking an edit back
    "undo.exact": (
        "Took edit {undone} back in {path}: {old:line|lines} became {new:line|lines}, as before that edit.",
        "已撤销 {path} 中的编辑 {undone}：{old} 行变为 {new} 行，与该编辑之前一致。",
    ),
    "undo.fuzz": (
        "Took edit {undone} back in {path}: {old:line|lines} became {new:line|lines}. The file had changed since that edit, and its lines were found where they are now. Look at the diff.",
        "已撤销 {path} 中的编辑 {undone}：{old} 行变为 {new} 行。该编辑之后文件有变动，已在对应的行上撤销，请核对 diff。",
    ),
    "FOREIGN_WRITE_SAVED": (
        'FOREIGN_WRITE_SAVED: another program wrote {path} at the moment that it was replaced. What it wrote may not be in the file; edit {edit_id} has it. Look at the file, and if it is missing: {undo}({{"edit_id": {edit_id}}}).',
        'FOREIGN_WRITE_SAVED：在替换 {path} 的瞬间，另一个程序写入了它。其写入的内容可能不在文件中，已存为编辑 {edit_id}。请查看文件；如有缺失：{undo}({{"edit_id": {edit_id}}})。',
    ),
    "undo.create": (
        "Took edit {undone} back: {path}, which it had created, is removed.",
        "已撤销编辑 {undone}：它所创建的 {path} 已移除。",
    ),
    "undo.remove": (
        "Took edit {undone} back: {path} is there again, with {new:line|lines}.",
        "已撤销编辑 {undone}：{path} 已恢复，共 {new} 行。",
    ),
    "undo.nothing": (
        "Nothing was written: nothing of edit {undone} is left in {path}.",
        "未写入任何内容：{path} 中已没有编辑 {undone} 留下的内容。",
    ),
    "undo.already": (
        'Nothing was written: edit {id} was taken back already, by edit {by}. To make it again: {tool}({{"edit_id": {by}}}).',
        '未写入任何内容：编辑 {id} 已由编辑 {by} 撤销。重新作出该编辑：{tool}({{"edit_id": {by}}})。',
    ),
    "undo.refused": (
        "Nothing was written, edit {id} stands: {why}",
        "未写入任何内容，编辑 {id} 仍然有效：{why}",
    ),
    "undo.later": (
        "Later edits changed them: {ids}. {tool} takes these back first, the newest first.",
        "后来的编辑改动了它们：{ids}。可先用 {tool} 由新到旧撤销这些编辑。",
    ),
    "CONTENT_CHANGED.undo": (
        "{planned_lines:line|lines}, as that edit left them: {reason}. Look at what stands there now and edit it.",
        "该编辑留下的第 {planned_lines} 行：{reason}。请查看当前内容并直接编辑。",
    ),
    "CONTENT_CHANGED.undo.less": (
        "{reason}. Look at what stands there now and edit it.",
        "{reason}。请查看当前内容并直接编辑。",
    ),
    "AMBIGUOUS_MATCH.undo": (
        "its lines could now be in more than one place, at lines {candidate_lines}. Edit the ones that are meant.",
        "其所在的行现在可能位于多处：第 {candidate_lines} 行。请直接编辑所指的行。",
    ),
    "next.redo": (
        'To make the edit again: {tool}({{"edit_id": {id}}}).',
        '重新作出该编辑：{tool}({{"edit_id": {id}}})。',
    ),
    # several plans at once
    "transaction.exact": (
        "Written together: {hunks:plan|plans} in {files:file|files}, exactly as planned.",
        "已一并写入：{files} 个文件中的 {hunks} 个规划，与规划完全一致。",
    ),
    "transaction.fuzz": (
        "Written together: {hunks:plan|plans} in {files:file|files}. Where context_match is fuzz the file had changed since the plan, and the edit was carried to its place. Look at the diff.",
        "已一并写入：{files} 个文件中的 {hunks} 个规划。context_match 为 fuzz 处，规划之后文件有变动，编辑已移到其对应位置，请核对 diff。",
    ),
    "transaction.nothing": (
        "Nothing was written: everything reads so already.",
        "未写入任何内容：内容已经如此。",
    ),
    "transaction.withheld": (
        "Nothing was written, all plans wait on ({failed} of {count} cannot be applied). {id}, {path}: {why}",
        "未写入任何内容，所有规划仍保留（{count} 个中有 {failed} 个不能应用）。{id}，{path}：{why}",
    ),
    "transaction.withheld.less": (
        "Nothing was written, all plans wait on: {why}",
        "未写入任何内容，所有规划仍保留：{why}",
    ),
    "next.without": (
        'To write the others alone: {tool}({{"hunk_ids": [{ids}]}}).',
        '只写入其余规划：{tool}({{"hunk_ids": [{ids}]}})。',
    ),
    # the edits that were made
    "edits": ("{count:edit|edits}, the newest first.", "{count} 项编辑，由新到旧。"),
    "edits.none": ("No edits.", "没有编辑。"),
    "next.older": ("Older ones: {tool}({call}).", "更早的编辑：{tool}({call})。"),
    # the plans that wait
    "pending": ("{count:plan waits|plans wait}.", "{count} 个规划待处理。"),
    "pending.none": ("No plans wait.", "没有待处理的规划。"),
    "discarded": ("Discarded {id} ({path}).", "已丢弃 {id}（{path}）。"),
}
