"""What the tools of notes say; of a block diff or a slice that is refused, what to do.

The keys of `PROBLEMS` and `SLICES` are the kinds of problems, which
`copydesk.tools.notes_words` fills; `SAYINGS` are like those of other parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from copydesk.edit.notes.errors import Kind, SliceReason

PROBLEMS: dict[Kind, tuple[str, str]] = {
    "NESTED_SEARCH_REPLACE": (
        "a second SEARCH opens before the one of line {other_line} is closed. Close that one first; if this line is content, give the markers around it more signs, the same number in all three.",
        "第 {other_line} 行的 SEARCH 尚未结束，又出现了新的 SEARCH。请先结束前者；若此行是正文，请增加外层三个标记的符号数（三者相同）。",
    ),
    "UNMATCHED_MARKERS.open": (
        "this SEARCH is never closed. End it with the line {expected}, with as many signs as it opens with.",
        "此 SEARCH 没有结束标记。请以 {expected} 一行结束，符号数须与开头相同。",
    ),
    "UNMATCHED_MARKERS.close": (
        "this marker closes nothing: no SEARCH is open. Write header, SEARCH, the line of =, REPLACE, in this order.",
        "此标记没有对应的 SEARCH。请按“头部、SEARCH、= 分隔行、REPLACE”的顺序书写。",
    ),
    "DELIMITER_ERROR.stray": (
        "a line of = outside of a SEARCH/REPLACE body. It belongs between the old text and the new.",
        "= 分隔行出现在 SEARCH/REPLACE 之外。它应位于旧文本与新文本之间。",
    ),
    "DELIMITER_ERROR.missing": (
        "no line {expected} stands between this marker and the SEARCH of line {other_line}. Put it between the old text and the new.",
        "此标记与第 {other_line} 行的 SEARCH 之间缺少 {expected} 一行。请放在旧文本与新文本之间。",
    ),
    "DELIMITER_ERROR.twice": (
        "a second line of =; the first is line {other_line}. If one of them is content, give all three markers one sign more (such as eight).",
        "第二个 = 分隔行（第一个在第 {other_line} 行）。若其一是正文，请为三个标记各增加符号（例如八个）。",
    ),
    "INVALID_SEQUENCE.no_header": (
        "a SEARCH without a header. Write @@id@@ on the line above, with the id of the block.",
        "SEARCH 之前没有头部。请在上一行写 @@id@@，给出块 ID。",
    ),
    "INVALID_SEQUENCE.no_body": (
        "no SEARCH/REPLACE follows the header {text}. Let one follow, or write @@REPLACE:id@@ to put other text in the place of the block, @@AFTER:id@@ to add some.",
        "头部 {text} 之后没有 SEARCH/REPLACE。请补上；整块替换请写 @@REPLACE:id@@，新增内容请写 @@AFTER:id@@。",
    ),
    "INVALID_SEQUENCE.second_body": (
        "a second SEARCH under one header. Each needs its own; two for the same block must be made one.",
        "同一头部下出现第二个 SEARCH。每个都要有自己的头部；针对同一块的两个须合并为一个。",
    ),
    "INVALID_SEQUENCE.after_delete": (
        "a SEARCH after @@DELETE:id@@. DELETE takes nothing; to delete only what is known, write @@id@@ with the text in SEARCH and nothing to replace it.",
        "@@DELETE:id@@ 之后出现 SEARCH。DELETE 不带内容；若要核对后删除，请写 @@id@@，SEARCH 中给出原文，替换部分留空。",
    ),
    "INVALID_SEQUENCE.search_in_command": (
        "a SEARCH that is not empty under a command. To replace what SEARCH holds, write @@id@@ without the command; to use the command, leave SEARCH empty or give the text alone.",
        "命令之下的 SEARCH 不为空。要按 SEARCH 替换，请写不带命令的 @@id@@；要用命令，请让 SEARCH 为空或只给出正文。",
    ),
    "INVALID_SEQUENCE.markers_in_text": (
        "a SEARCH within the text of a command. If it is a hunk of its own, give it its header @@id@@; if it is content, put the whole text in a body: a SEARCH that is empty, the line of =, the text, REPLACE, each with eight signs or more.",
        "命令的正文中出现 SEARCH。若是另一处编辑，请加上头部 @@id@@；若是正文，请把全文放进标记内：空的 SEARCH、= 分隔行、正文、REPLACE，符号各用八个或更多。",
    ),
    "INVALID_BLOCK_ID.id": (
        "{text} names no id that a block can have. Copy the id from what getBlockContent shows.",
        "{text} 中不是有效的块 ID。请从 getBlockContent 的结果中复制。",
    ),
    "INVALID_BLOCK_ID.command": (
        "{text} names no command. There are DELETE, REPLACE, BEFORE, AFTER, PREPEND and APPEND, as in @@AFTER:id@@.",
        "{text} 中不是有效的命令。可用 DELETE、REPLACE、BEFORE、AFTER、PREPEND、APPEND，例如 @@AFTER:id@@。",
    ),
    "INVALID_BLOCK_ID.unclosed": (
        "the header {text} lacks its second @@. Write @@id@@.",
        "头部 {text} 缺少第二个 @@。请写 @@id@@。",
    ),
    "EMPTY_CONTENT.diff": (
        "the diff holds no hunk. Write a header such as @@id@@ and what is to be done.",
        "diff 中没有任何编辑。请写出头部（例如 @@id@@）及要做的修改。",
    ),
    "EMPTY_CONTENT.search": (
        "the SEARCH is empty. Copy the text of the block into it; to add text, write @@AFTER:id@@, to replace whatever is there, @@REPLACE:id@@.",
        "SEARCH 为空。请填入块的原文；新增内容请写 @@AFTER:id@@，整块替换请写 @@REPLACE:id@@。",
    ),
    "EMPTY_CONTENT.text": (
        "no text follows {text}. Give the new text; to delete the block, write @@DELETE:id@@.",
        "{text} 之后没有正文。请给出新文本；删除块请写 @@DELETE:id@@。",
    ),
    "EMPTY_CONTENT.blocks": (
        "the new text makes no block. Give text that is one; to delete the block, write @@DELETE:id@@.",
        "新文本不构成任何块。请给出有内容的文本；删除块请写 @@DELETE:id@@。",
    ),
    "UNEXPECTED_TEXT.before": (
        "text before the first header, which would be ignored: {text}. Leave it out, or put a header above it.",
        "第一个头部之前有会被忽略的文本：{text}。请删去，或在其上方写出头部。",
    ),
    "UNEXPECTED_TEXT.no_markers": (
        "text under a header without command, outside of the markers: {text}. Put it into SEARCH or REPLACE, or write @@REPLACE:id@@.",
        "无命令的头部之下、标记之外有文本：{text}。请放入 SEARCH 或 REPLACE，或改写 @@REPLACE:id@@。",
    ),
    "UNEXPECTED_TEXT.after_body": (
        "text after the REPLACE marker, which would be ignored: {text}. Put it above the marker, or leave it out.",
        "REPLACE 标记之后有会被忽略的文本：{text}。请移到标记之前，或删去。",
    ),
    "UNEXPECTED_TEXT.after_delete": (
        "text after @@DELETE:id@@, which would be ignored: {text}. Leave it out; to put it in the place of the block, write @@REPLACE:id@@.",
        "@@DELETE:id@@ 之后有会被忽略的文本：{text}。请删去；若要用它替换该块，请写 @@REPLACE:id@@。",
    ),
    "UNEXPECTED_TEXT.label": (
        "more than a label follows the header: {text}. Put the text on the next line.",
        "头部之后不止是标签：{text}。请将文本写到下一行。",
    ),
    "BLOCK_NOT_FOUND": (
        "there is no block {block_id}. Read the document again with getBlockContent and take an id from there.",
        "没有块 {block_id}。请用 getBlockContent 重新读取文档，并使用其中的 ID。",
    ),
    "CONTENT_MISMATCH.text": (
        "the block {block_id} does not read as SEARCH says. Read it again with getBlockContent and copy its text.",
        "块 {block_id} 的内容与 SEARCH 不符。请用 getBlockContent 重新读取并复制原文。",
    ),
    "CONTENT_MISMATCH.part": (
        "SEARCH holds only a part of the block {block_id}. Copy the whole text of the block.",
        "SEARCH 只是块 {block_id} 的一部分。请复制整个块的文本。",
    ),
    "CONTENT_MISMATCH.more": (
        "SEARCH holds more than the block {block_id}. Copy the text of this block alone; others have their own id.",
        "SEARCH 超出了块 {block_id} 的内容。请只复制该块的文本；其他块有各自的 ID。",
    ),
    "CONTENT_MISMATCH.blanks": (
        "the block {block_id} differs from SEARCH in white space alone. Copy it to the blank, or say strictMatch: false.",
        "块 {block_id} 与 SEARCH 仅空白不同。请逐字复制，或设 strictMatch: false。",
    ),
    "CONFLICTING_HUNKS.same": (
        "the block {block_id} is written or deleted by the hunk of line {other_line} already. Make the two one.",
        "块 {block_id} 已由第 {other_line} 行的编辑修改或删除。请合并为一处。",
    ),
    "CONFLICTING_HUNKS.inside": (
        "the block {block_id} is, or lies in, what the hunk of line {other_line} writes or deletes. Say it all in that one, or edit the blocks inside alone.",
        "块 {block_id} 属于第 {other_line} 行的编辑所修改或删除的内容。请都写在那一处，或只编辑内部的块。",
    ),
    "CONFLICTING_HUNKS.contains": (
        "the block {block_id} holds what the hunk of line {other_line} acts on. Edit the whole, or the blocks inside, not both.",
        "块 {block_id} 包含第 {other_line} 行的编辑所涉及的内容。请只编辑整体，或只编辑内部的块。",
    ),
    "ANCHOR_DELETED": (
        "the block {block_id} goes, or is in what goes, with the hunk of line {other_line}. Name another block, or put this hunk before that one.",
        "块 {block_id} 会被第 {other_line} 行的编辑删除。请改用其他块，或把此编辑移到其前。",
    ),
    "INVALID_TARGET.document": (
        "{block_id} is a document: this cannot be done to the whole of it. Use PREPEND or APPEND, or the ids of its blocks.",
        "{block_id} 是文档，不能对其整体这样操作。请用 PREPEND 或 APPEND，或使用其中块的 ID。",
    ),
    "INVALID_TARGET.leaf": (
        "the block {block_id} holds no blocks, so nothing can be put inside of it. Use BEFORE or AFTER.",
        "块 {block_id} 不能包含其他块。请用 BEFORE 或 AFTER。",
    ),
    "LIST_ITEM_REQUIRED": (
        "beside or in the place of {block_id} only list items can stand. Begin each with its marker, as in: - text.",
        "{block_id} 处只能放列表项。请以列表标记开头，例如：- 文本。",
    ),
}

SLICES: dict[SliceReason, tuple[str, str]] = {
    "empty": ("it is empty", "为空"),
    "form": (
        "{part} is no block id, no index, and neither BEGIN nor END",
        "{part} 不是块 ID、索引、BEGIN 或 END",
    ),
    "keyword": (
        "{part} stands in the wrong place or in small letters: BEGIN is a start, END an end",
        "{part} 位置或大小写有误：BEGIN 只能在冒号前，END 只能在冒号后",
    ),
    "unknown": ("no block here has the id {part}", "此处没有 ID 为 {part} 的块"),
    "count": ("{part} asks for no blocks; count from 1", "{part} 表示零个块；至少为 1"),
    "anchor": (
        "{part} counts from a block id; from an index write start:end",
        "{part} 须从块 ID 起计数；使用索引时请写 起点:终点",
    ),
    "reversed": ("it ends before it starts", "终点在起点之前"),
}

REFUSED = (
    "The block diff was refused; nothing was written. Mend every line named and send the whole diff again.",
    "块 diff 被拒绝，未写入任何内容。请修正以下各行，并重新提交完整的 diff。",
)
LINE = ("line {line}: [{code}] {said}", "第 {line} 行：[{code}] {said}")
SIMILAR = (
    "Similarity {similarity}%; - is SEARCH, + is the block:",
    "相似度 {similarity}%；- 为 SEARCH，+ 为块的实际内容：",
)
SLICE = (
    "The slice {slice} has no meaning among the {total} blocks here: {why}. Write id:id, id:+N, id:-N, start:end (from 0), id:END or BEGIN:id, without blanks.",
    "切片 {slice} 在此处的 {total} 个块中无效：{why}。请使用 id:id、id:+N、id:-N、起:止（从 0 起）、id:END 或 BEGIN:id，不含空格。",
)

SAYINGS: dict[str, tuple[str, str]] = {
    # sheets of blocks
    "notes.infos": ("---Blocks ({count} in all)---", "---块信息 (共 {count} 个)---"),
    "notes.infos_missing": ("[Not found] {ids}", "[未找到] {ids}"),
    "notes.content_length": ("content length: {length}", "content长度: {length}"),
    "notes.markdown_length": (
        "inner markdown length: {length} (preview: {preview})",
        "内部 markdown 长度: {length} (预览: {preview})",
    ),
    "notes.empty": ("(empty)", "(空)"),
    "notes.children": ("child blocks: {count}", "容器内部子块数量: {count}"),
    "notes.outline": ("outline of the document:", "文档标题大纲:"),
    "notes.breadcrumb": (
        "Breadcrumb of the block in its document:",
        "当前块在文档中的面包屑层级关系:",
    ),
    # content
    "notes.slice_empty": (
        "(Slice result is empty. Original children count: {total}. Check your slice range.)",
        "(Slice result is empty. Original children count: {total}. Check your slice range.) 切片结果为空，请检查范围。",
    ),
    "notes.cut": (
        '... {omitted:character is|characters are} left out, of {total}. Read on: readVar({{"name": "{name}", "offset": {next}}})',
        '...输出过长，共 {total} 个字符，省略后 {omitted} 个字符。继续读取：readVar({{"name": "{name}", "offset": {next}}})',
    ),
    # what was written
    "notes.appended": (
        "Appended to {what} [{id}]. New blocks: {ids}",
        "已成功追加内容到{what} [{id}]。新块：{ids}",
    ),
    "notes.target.dailynote": ("the daily note", "日记文档"),
    "notes.target.document": ("the document", "文档"),
    "notes.target.block": ("the block", "块"),
    "notes.created": (
        "Created the document [{hpath}](siyuan://blocks/{id}) (location: {where})",
        "已成功创建文档 [{hpath}](siyuan://blocks/{id}) (位置: {where})",
    ),
    "notes.location.siblings": ("siblings", "同级"),
    "notes.location.children": ("children", "子文档"),
    "notes.location.parent": ("parent", "父级同级"),
    "notes.diff.done": ("Done: {count:operation|operations}.", "成功执行 {count} 个操作。"),
    "notes.diff.dry": (
        "Dry run: {count:operation was|operations were} checked, nothing was written.",
        "干运行模式：已校验 {count} 个操作，以下操作未执行。",
    ),
    "notes.diff.nothing": (
        "Nothing was written: the {count:block reads|blocks read} so already.",
        "未写入任何内容：{count} 处的内容已经如此。",
    ),
    "notes.undo": ("To take it back: {calls}", "撤销：{calls}"),
    "plan.block_diff": (
        "Planned: {hunks:hunk|hunks} of a block diff in {documents:document|documents}, first {path}; {old:line|lines} replaced by {new}. Nothing is written yet.",
        "已规划：块 diff 的 {hunks} 处编辑，涉及 {documents} 个文档（首个为 {path}）；将 {old} 行替换为 {new} 行。尚未写入。",
    ),
    "apply.block_diff.exact": (
        "Written: {hunks:hunk|hunks} of a block diff in {documents:document|documents}, first {path}; {old:old line|old lines} became {new:new line|new lines}, exactly as planned.",
        "已写入：块 diff 的 {hunks} 处编辑，涉及 {documents} 个文档（首个为 {path}）；{old} 行旧内容变为 {new} 行，与规划完全一致。",
    ),
    "apply.block_diff.fuzz": (
        "Written: {hunks:hunk|hunks} of a block diff in {documents:document|documents}, first {path}; {old:old line|old lines} became {new:new line|new lines}. The notes had changed around these blocks since the plan. Look at the diff.",
        "已写入：块 diff 的 {hunks} 处编辑，涉及 {documents} 个文档（首个为 {path}）；{old} 行旧内容变为 {new} 行。规划之后这些块周围有变动，请核对 diff。",
    ),
    # what was found
    "notes.notebooks": ("{count:notebook|notebooks}:", "{count} 个笔记本："),
    "notes.closed": ("closed", "已关闭"),
    "notes.found": ("{count:block|blocks} with {query}:", "含 {query} 的块，共 {count} 个："),
    "notes.found_none": (
        "{count:block|blocks} with {query}. Try fewer or shorter words.",
        "含 {query} 的块：{count} 个。请减少或缩短词语。",
    ),
    # refusals
    "INVALID_BLOCK_ID": (
        "{block_id} is no id that a block can have. Copy the id from getBlockContent, searchBlocks or listNotebooks.",
        "{block_id} 不是有效的块 ID。请从 getBlockContent、searchBlocks 或 listNotebooks 的结果中复制。",
    ),
    "BLOCK_NOT_FOUND": (
        "There is no block {block_id}; {nearest} is what stands nearest to where it was. Read the document again, or find the block with searchBlocks.",
        "没有块 {block_id}；其原位置附近是 {nearest}。请重新读取文档，或用 searchBlocks 查找。",
    ),
    "BLOCK_NOT_FOUND.less": (
        "There is no block {block_id}. Read the document again with getBlockContent, or find the block with searchBlocks.",
        "没有块 {block_id}。请用 getBlockContent 重新读取文档，或用 searchBlocks 查找。",
    ),
    "NOTEBOOK_NOT_FOUND": (
        "There is no open notebook {notebook_id}. listNotebooks shows those that there are.",
        "没有打开的笔记本 {notebook_id}。请用 listNotebooks 查看。",
    ),
    "INVALID_TARGET": (
        "The block {block_id} is of type {kind}; this needs a {wanted}. Take the id of one.",
        "块 {block_id} 的类型是 {kind}；此处需要 {wanted}。请改用相应的 ID。",
    ),
    "CONTENT_CHANGED.notes": (
        "The notes are not what this was made on: {reason}. Read the blocks again and send it anew.",
        "笔记内容已与所依据的不同：{reason}。请重新读取各块并再次提交。",
    ),
    "NOT_INVERTIBLE": (
        "The block {block_id} could not be brought back after this ({reason}), so nothing was written. Edit the blocks around it, or leave this one to a person.",
        "此操作之后无法恢复块 {block_id}（{reason}），因此未写入任何内容。请编辑其周围的块，或交由人工处理。",
    ),
    "NOTES_UNAVAILABLE": (
        "The notes cannot be reached: {detail}. Nothing was written; copydesk doctor tells what is wrong.",
        "无法访问笔记：{detail}。未写入任何内容；copydesk doctor 可说明原因。",
    ),
    "ROLLED_BACK": (
        "Change {index} (from 0), of block {block_id}, failed: {detail}. All was put back as it was (rolled_back: true). Read the blocks again before you try another way.",
        "第 {index} 项变更（从 0 起，块 {block_id}）失败：{detail}。已全部恢复原状（rolled_back: true）。请重新读取各块后再换一种做法。",
    ),
    "NOT_ROLLED_BACK": (
        "Change {index} (from 0) failed: {detail}. These blocks could not be put back as they were: {left}. Tell the person; look at them before anything else is written.",
        "第 {index} 项变更（从 0 起）失败：{detail}。以下块未能恢复原状：{left}。请告知用户，并在继续写入之前核对它们。",
    ),
}
