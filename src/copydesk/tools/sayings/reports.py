"""What the reports of plans, applies, reads and searches say."""

from __future__ import annotations

SAYINGS: dict[str, tuple[str, str]] = {
    # plans and applies
    "plan.replace": (
        "Planned: replace {span:line|lines} of {path} by {new:line|lines} (delta {delta:+}). Nothing is written yet.",
        "已规划：将 {path} 第 {span} 行替换为 {new} 行（增减 {delta:+}）。尚未写入。",
    ),
    "plan.delete": (
        "Planned: delete {span:line|lines} of {path}. Nothing is written yet.",
        "已规划：删除 {path} 第 {span} 行。尚未写入。",
    ),
    "plan.append": (
        "Planned: append {new:line|lines} to {path}. Nothing is written yet.",
        "已规划：向 {path} 末尾追加 {new} 行。尚未写入。",
    ),
    "plan.insert": (
        "Planned: insert {new:line|lines} into {path} at line {start}. Nothing is written yet.",
        "已规划：在 {path} 第 {start} 行处插入 {new} 行。尚未写入。",
    ),
    "plan.block_replace": (
        "Planned: replace {old:line|lines} of the block at {block:line|lines} of {path} by {new:line|lines}. Nothing is written yet.",
        "已规划：将 {path} 第 {block} 行的块中 {old} 行替换为 {new} 行。尚未写入。",
    ),
    "plan.nothing": (
        "This edit would change nothing: the lines are the same already.",
        "此编辑不会改变任何内容：这些行已经相同。",
    ),
    "apply.exact": (
        "Written to {path}, {where:line|lines}: {old:old line|old lines} became {new:new line|new lines}, exactly as planned.",
        "已写入 {path}：第 {where} 行，{old} 行旧内容变为 {new} 行，与规划完全一致。",
    ),
    "apply.fuzz": (
        "Written to {path}, {where:line|lines}: {old:old line|old lines} became {new:new line|new lines}. The file had changed since the plan; the edit was carried to its place. Look at the diff.",
        "已写入 {path}：第 {where} 行，{old} 行旧内容变为 {new} 行。规划之后文件有变动，编辑已移到其对应位置，请核对 diff。",
    ),
    "apply.nothing": (
        "Nothing was written: {path} reads so already.",
        "未写入任何内容：{path} 已经是这样。",
    ),
    "auto.declined": (
        "Not written at once ({why}).",
        "未自动写入（{why}）。",
    ),
    "rejected": (
        "Nothing was written and the plan waits on: {why}",
        "未写入任何内容，规划仍保留：{why}",
    ),
    "create": (
        "Created {path} with {lines:line|lines}.",
        "已创建 {path}，共 {lines} 行。",
    ),
    "overwrite": (
        "Replaced the whole of {path}: {old:line|lines} became {lines}.",
        "已整体覆盖 {path}：由 {old} 行变为 {lines} 行。",
    ),
    "overwrite.nothing": (
        "Nothing was written: {path} reads so already.",
        "未写入任何内容：{path} 已经是这样。",
    ),
    "read": (
        "Lines {first}~{last} of {path}.",
        "{path} 第 {first}~{last} 行。",
    ),
    "read.empty": ("No lines: the file is empty.", "没有行：文件为空。"),
    "list": ("{count:entry|entries} in {path}.", "{path} 中有 {count} 个条目。"),
    "search": ("{count:{what}} found.", "找到 {count} 个{what}。"),
    "search.cut": (
        "Shown: the first {count:{what}}; there are more.",
        "只显示前 {count} 个{what}，还有更多。",
    ),
    "what.files": ("file|files", "文件"),
    "what.matches": ("match|matches", "匹配"),
    # next steps
    "next.apply": (
        'To write it: {apply}({{"hunk_id": "{id}"}}), in a later message than this plan.',
        '写入：{apply}({{"hunk_id": "{id}"}})，须在下一条消息中调用。',
    ),
    "next.replan": (
        'To change the plan: call {tool} again with "existing_hunk_id": "{id}".',
        '修改规划：再次调用 {tool} 并给出 "existing_hunk_id": "{id}"。',
    ),
    "next.read_on": (
        'To read on: {tool}({{"path": "{path}", "range": "{range}"}}).',
        '继续阅读：{tool}({{"path": "{path}", "range": "{range}"}})。',
    ),
    "next.long_line": (
        "The line is longer than may be shown; search for parts of it with {tool}.",
        "该行超出可显示长度；请用 {tool} 查找其中的片段。",
    ),
    "next.narrow": (
        "To see the rest: narrow the pattern, the path or globs, or raise the limit.",
        "查看其余结果：缩小 pattern、path 或 globs 的范围，或提高上限。",
    ),
    # style
    "style.double_blank": (
        "blank lines meet blank lines here: the result has several in a row",
        "此处空行相接：结果会有连续多个空行",
    ),
    "warning.bytes_meant": (
        "{shown_bytes} in the new text stands for the bytes that are shown so in the lines replaced",
        "新文本中的 {shown_bytes} 代表被替换的行中如此显示的字节",
    ),
    "warning.escapes_kept": (
        "{shown_bytes} was written as text: no line replaced has such a byte",
        "{shown_bytes} 按字面写入：被替换的行中没有这样的字节",
    ),
    "warning.replacement_character": (
        "the new text holds U+FFFD, which the old did not: was a character lost on the way?",
        "新文本含有旧文本没有的 U+FFFD：是否在传输中丢失了字符？",
    ),
}
