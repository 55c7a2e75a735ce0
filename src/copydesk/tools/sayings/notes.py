"""What is said of a block diff or a slice that is refused: what is wrong, and what to do.

The keys are the kinds of problems; `copydesk.tools.notes_words` fills them.
"""

from __future__ import annotations

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
