"""The manuals: Markdown pages by toolset, topic and language, and the server's instructions.

What lives here: the pages and how they are found. What must not: the contract
of one tool (`copydesk.tools.describe`). Invariants: every toolset has the same
topics in both languages; a page is read when it is asked for, never kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files

from copydesk.errors import InvalidArgs
from copydesk.tools.report import Lang

_TOOLSETS = ("ws_mod", "batch", "notes", "team_mgmt", "compat")
_TOPICS = ("index", "principles", "tools", "scenarios", "errors")
_OTHER_TOPICS = {
    "notes": ("index", "slice-reading", "block-edit-search-replace", "errors"),
    "compat": ("index", "tools", "errors"),
}


def toolsets() -> tuple[str, ...]:
    """The toolsets that have a manual."""
    return _TOOLSETS


def topics(toolset: str) -> tuple[str, ...]:
    """The pages of a toolset's manual, in reading order; raises InvalidArgs."""
    if toolset not in _TOOLSETS:
        raise InvalidArgs("toolset", _none_of(toolset, _TOOLSETS))
    return _OTHER_TOPICS.get(toolset, _TOPICS)


def read(toolset: str, topic: str, lang: Lang) -> str:
    """One page, as Markdown; raises InvalidArgs, with what there is, for an unknown one."""
    known = topics(toolset)
    if topic not in known:
        raise InvalidArgs("topic", _none_of(topic, known))
    page = files(__name__) / toolset / lang / f"{topic}.md"
    return page.read_text("utf-8")


def instructions(toolsets: Iterable[str], lang: Lang) -> str:
    """What a server tells a model about some toolsets at once: how they work together."""
    wanted = set(toolsets)
    chosen = [name for name in _TOOLSETS if name in wanted]
    parts = [_INSTRUCTIONS[name][lang == "zh"] for name in chosen]
    return "\n\n".join(parts)


def _none_of(name: str, known: Iterable[str]) -> str:
    return f"{name[:100]!r} is none of: {', '.join(known)}"


_INSTRUCTIONS: dict[str, tuple[str, str]] = {
    "ws_mod": (
        """\
ws_mod edits the text files of one workspace. Paths are relative to its root.

1. Prepare, look, apply. A prepare_* tool writes nothing: it returns a hunk_id, the lines \
concerned and a diff. apply_file_modification({"hunk_id": ...}) writes it. Calls of one message \
run at the same time, so prepare and apply go in two messages. To change a plan, call the same \
tool again with existing_hunk_id. apply_file_modifications writes several plans, all or none.
2. One call for a sure edit: apply: "auto" writes at once when the target is unique and, for \
lines and blocks, you give version or expected_old. Else you get the plan, and auto_apply_reason \
says why. report: "brief" leaves out evidence and diff.
3. version: read_file and every write report one. Give the version you read with an edit, and \
its line numbers mean that text, even if the file has changed since (or your own earlier edits \
moved its lines). So read once, then edit by the numbers of that read, in any order.
4. A refusal (status: error) wrote nothing. error is a stable code; the fields beside it say \
what to do: candidates with line numbers, the closest lines, what stands there now. Do the \
corrected call; do not repeat the same one. context_match: exact is as planned; fuzz means the \
file had changed and the edit was carried along: look at the diff; rejected keeps the plan.
5. New file: create_new_file. A small or generated file: overwrite_entire_file, with total_lines \
and size_bytes as just read. Find places with ripgrep_snippets; list_dir and ripgrep_files find \
files.
6. undo_file_modification takes a written edit back by its edit_id (see list_edits).
7. Optional arguments may be left out, or be null, "", 0 or [] for "not given".

The manual (index, principles, tools, scenarios, errors) is served as prompts, and printed by \
`copydesk manual ws_mod`.""",
        """\
ws_mod 用于编辑一个工作区中的文本文件。路径相对于工作区根目录。

1. 先规划、再核对、后应用。prepare_* 不写入：返回 hunk_id、相关行与 diff；\
由 apply_file_modification({"hunk_id": ...}) 落盘。同一条消息中的调用并行执行，\
因此 prepare 与 apply 必须分两条消息。要修改规划，用 existing_hunk_id 再次调用同一工具。\
apply_file_modifications 一并写入多个规划，全部成功或全部不写。
2. 有把握的编辑一次完成：apply: "auto" 在目标唯一、且（按行与按块编辑时）给出了 version 或 \
expected_old 时立即写入；否则返回规划，并由 auto_apply_reason 说明原因。\
report: "brief" 省去 evidence 与 diff。
3. version：read_file 与每次写入都会给出。编辑时带上你所读的 version，行号即按那个版本理解，\
即使文件此后有变动（包括你自己先前的编辑）。因此读一次即可，随后按那次的行号以任意顺序编辑。
4. 拒绝（status: error）表示没有写入。error 是稳定的错误码，旁边的字段说明如何继续：\
候选行号、相近的行、当前内容。请改正后再调用，不要原样重试。context_match：exact 与规划一致；\
fuzz 表示文件有变动、编辑已随之移动，请核对 diff；rejected 保留规划。
5. 新文件用 create_new_file；小文件或生成物用 overwrite_entire_file，并给出刚读到的 \
total_lines 与 size_bytes。定位用 ripgrep_snippets，找文件用 list_dir 与 ripgrep_files。
6. undo_file_modification 按 edit_id（见 list_edits）撤销已写入的编辑。
7. 可选参数可以省略，或用 null、""、0 或 [] 表示“未指定”。

手册（index、principles、tools、scenarios、errors）以 prompt 提供，也可用 \
`copydesk manual ws_mod --lang zh` 打印。""",
    ),
    "batch": (
        """\
Read, Edit, Write and BatchEdit (= MultiEdit) replace exact text and write at once. They answer \
with one JSON envelope: status, data, text, error.code, stats, context.

1. Several changes in one file: one BatchEdit, not several Edit calls. Every old_string is sought \
in the original text, must stand there exactly once, and may not overlap another. All edits are \
made, or none. LF matches any line end.
2. Read gives file_sha256: pass it as expected_sha256, and nothing is written if the file has \
changed since (CONFLICT: read again). To write over a file, an expectation is required.
3. status: error wrote nothing. data has every failing edit (failures, collisions), by index from \
0: correct all of them and send the whole batch again. status: partial: lines were cut, or \
dry_run, which only shows the diff.
4. prepare_batch_edit only plans; write it with apply_file_modification in a later message.

The manual is served as prompts, and printed by `copydesk manual batch`.""",
        """\
Read、Edit、Write、BatchEdit（即 MultiEdit）按精确文本替换并立即写入，\
结果为一个 JSON 信封：status、data、text、error.code、stats、context。

1. 同一文件的多处修改用一次 BatchEdit，不要多次 Edit。每个 old_string 都在原文中查找，\
须恰好出现一次，且互不重叠；全部成功或全部不做。LF 匹配任意行尾。
2. Read 给出 file_sha256：作为 expected_sha256 传入，文件此后有变动则不写入\
（CONFLICT：请重新读取）。覆盖已有文件时至少须给出一项预期。
3. status: error 表示没有写入。data 按从 0 起的下标列出所有失败的编辑（failures、collisions）：\
全部改正后重发整个批次。status: partial：行被截断，或为 dry_run（只显示 diff）。
4. prepare_batch_edit 只规划；在后一条消息中用 apply_file_modification 写入。

手册以 prompt 提供，也可用 `copydesk manual batch --lang zh` 打印。""",
    ),
    "notes": (
        """\
The notes tools read and edit notes by blocks: headings, paragraphs, lists. Every block has an id \
that stays.

1. Find the first id with listNotebooks or searchBlocks. getBlockInfo gives the outline of a \
document with ids; getBlockContent the text: with showId each block stands under its @@id@@, with \
slice ("0:20", "ID:+20") a page of a long document.
2. appendContent and createNewDoc only add. To change, delete or insert blocks: read them with \
showId, then one applyBlockDiff with a header for each block: @@id@@ and SEARCH/REPLACE of the \
whole block, copied exactly, or @@DELETE:id@@, @@REPLACE:id@@, @@BEFORE:id@@, @@AFTER:id@@, \
@@PREPEND:id@@, @@APPEND:id@@. All hunks are made, or none; dryRun shows the diff.
3. A refusal wrote nothing, and names every wrong line at once: mend them all, send the whole diff \
again.
4. Every write is told with its edit_ids; undo_file_modification takes it back.

The manual (index, slice-reading, block-edit-search-replace, errors) is served as prompts, and \
printed by `copydesk manual notes`.""",
        """\
notes 工具按块读写笔记：标题、段落、列表。每个块都有固定的 ID。

1. 用 listNotebooks 或 searchBlocks 找到第一个 ID。getBlockInfo 给出带 ID 的文档大纲；\
getBlockContent 给出正文：showId 使每个块带有 @@id@@ 头部，slice（"0:20"、"ID:+20"）分页读取长文档。
2. appendContent 与 createNewDoc 只增加内容。修改、删除、插入块：先用 showId 读取，\
再用一次 applyBlockDiff，每个块一个头部：@@id@@ 配合整个块逐字复制的 SEARCH/REPLACE，或 \
@@DELETE:id@@、@@REPLACE:id@@、@@BEFORE:id@@、@@AFTER:id@@、@@PREPEND:id@@、@@APPEND:id@@。\
所有编辑全部成功或全部不做；dryRun 只显示 diff。
3. 拒绝时没有写入，并一次指出所有有误的行：请全部修正后重新提交完整的 diff。
4. 每次写入都给出 edit_ids，可用 undo_file_modification 撤销。

手册（index、slice-reading、block-edit-search-replace、errors）以 prompt 提供，也可用 \
`copydesk manual notes --lang zh` 打印。""",
    ),
    "team_mgmt": (
        """\
team_mgmt_* are the same tools for .minds/, the team's own files. Their paths are relative to \
.minds/, they reach nothing outside, and ws_mod reaches nothing inside. A hunk of one toolset \
cannot be applied by the other.""",
        """\
team_mgmt_* 是同一套工具，用于团队自己的文件 .minds/。其路径相对于 .minds/，不能到达其外；\
ws_mod 也不能到达其内。一个工具集的 hunk 不能由另一个应用。""",
    ),
    "compat": (
        """\
read_text_file, write_file and edit_file are those of the MCP filesystem server, \
str_replace_based_edit_tool is Anthropic's text editor (view, create, str_replace, insert). Paths \
are absolute, below the workspace root, or relative to it. They write at once and answer with one \
JSON envelope: status, data, text, error.code, stats, context.

1. Stricter than elsewhere: a text to be replaced must stand in the file exactly once, white space \
too. All edits of one edit_file are sought in the original text, and are made all or none. create \
makes new files only; write_file replaces what is there.
2. status: error wrote nothing. data says why: every failing edit by index from 0 (failures, \
collisions), the lines of several matches, the closest place. Correct all, send the call again.
3. data.edit_id of a write is what undo_file_modification takes back.

The manual (index, tools, errors) is served as prompts, and printed by `copydesk manual compat`.""",
        """\
read_text_file、write_file、edit_file 同 MCP filesystem 服务器的工具，\
str_replace_based_edit_tool 同 Anthropic 的文本编辑器（view、create、str_replace、insert）。\
路径为工作区根目录之下的绝对路径，或相对路径。它们立即写入，\
结果为一个 JSON 信封：status、data、text、error.code、stats、context。

1. 比别处严格：被替换的文本须恰好出现一次，空白也须一致。一次 edit_file 的所有编辑都在原文中查找，\
全部成功或全部不做。create 只创建新文件；write_file 替换现有内容。
2. status: error 表示没有写入。data 说明原因：\
按从 0 起的下标列出所有失败的编辑（failures、collisions）、多处匹配的行、\
最相近的位置。全部改正后重发。
3. 写入给出的 data.edit_id 可由 undo_file_modification 撤销。

手册（index、tools、errors）以 prompt 提供，也可用 `copydesk manual compat --lang zh` 打印。""",
    ),
}
