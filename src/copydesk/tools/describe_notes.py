"""What a model reads of the tools of notes: titles, contracts, arguments.

What lives here: those words, in English and Chinese. What must not: how they are
looked up (`describe`), workflows and examples (the manual has them).
"""

from __future__ import annotations

TITLES: dict[str, tuple[str, str]] = {
    "getBlockInfo": ("Block info", "块信息"),
    "getBlockContent": ("Block content", "块内容"),
    "appendContent": ("Append content", "追加内容"),
    "createNewDoc": ("New document", "新建文档"),
    "applyBlockDiff": ("Apply block diff", "应用块 diff"),
    "prepareBlockDiff": ("Plan block diff", "规划块 diff"),
    "listNotebooks": ("List notebooks", "列出笔记本"),
    "searchBlocks": ("Search blocks", "搜索块"),
    "readVar": ("Read kept result", "读取保留的结果"),
}

CONTRACTS: dict[str, tuple[str, str]] = {
    "getBlockInfo": (
        "What blocks are, without their text: attributes, lengths, child count, outline of a "
        "document, breadcrumb.",
        "获取块（包括文档）的元信息：属性、长度、子块数、文档大纲、面包屑，不含正文。",
    ),
    "getBlockContent": (
        "Markdown of a block. A document or heading gives its blocks; with showId each under its "
        "@@id@@ header, as applyBlockDiff needs it. Read long ones by slice (manual: slice-reading).",
        "获取块的 Markdown。文档与标题返回其下各块；showId 为每块加上 applyBlockDiff 所需的 @@id@@ 头部。"
        "长内容请用 slice 分页（手册：slice-reading）。",
    ),
    "appendContent": (
        "Put Markdown at the end of today's note, of a document, or of a block: inside a container, "
        "after a leaf, at the end of a heading's section. Gives the ids of the new blocks.",
        "将 Markdown 追加到今日日记、文档或块的末尾：容器块在其内部，叶子块在其后，标题在其范围末尾。"
        "返回新块的 ID。",
    ),
    "createNewDoc": (
        "Make a new document beside, below, or one level above another one.",
        "在锚点文档的同级、下级或父级同级创建新文档。",
    ),
    "applyBlockDiff": (
        "Edit, delete and insert blocks by a diff (manual: block-edit-search-replace): all hunks or "
        "none. @@id@@ with SEARCH/REPLACE of the whole block, or @@DELETE:id@@, @@REPLACE:id@@, "
        "@@BEFORE:id@@, @@AFTER:id@@, @@PREPEND:id@@, @@APPEND:id@@.",
        "用块 diff 修改、删除、插入块（手册：block-edit-search-replace）：全部成功或全部不做。"
        "@@id@@ 配合整块的 SEARCH/REPLACE，或 @@DELETE:id@@、@@REPLACE:id@@、@@BEFORE:id@@、"
        "@@AFTER:id@@、@@PREPEND:id@@、@@APPEND:id@@。",
    ),
    "prepareBlockDiff": (
        "Plan a block diff and show it; nothing is written until apply_file_modification.",
        "规划并展示块 diff；在 apply_file_modification 之前不写入。",
    ),
    "listNotebooks": (
        "List the notebooks and their first documents, with ids.",
        "列出笔记本及其前若干文档，附 ID。",
    ),
    "searchBlocks": (
        "Find blocks and documents that hold all words of the query.",
        "查找包含所有词的块与文档。",
    ),
    "readVar": (
        "Read on in a result that was cut.",
        "继续读取被截断的结果。",
    ),
}

SPECIAL: dict[tuple[str, str], tuple[str, str]] = {
    ("getBlockInfo", "ids"): ("One id, or several with commas.", "块 ID，多个以逗号分隔。"),
    ("getBlockContent", "blockId"): ("Id of a block or document.", "块或文档的 ID。"),
    ("getBlockContent", "showId"): (
        "An @@id@@ header on each block; default: as showSubStructure.",
        "为每块加上 @@id@@ 头部；默认与 showSubStructure 相同。",
    ),
    ("getBlockContent", "showSubStructure"): (
        "The blocks inside of a container one by one.",
        "将容器展开为其中各块。",
    ),
    ("getBlockContent", "slice"): (
        "id2:id5, id2:+10, id5:-3, 0:20, -2:, id8:END, BEGIN:id2; turns both flags on.",
        "id2:id5、id2:+10、id5:-3、0:20、-2:、id8:END、BEGIN:id2；自动开启以上两项。",
    ),
    ("appendContent", "markdown"): ("What to add.", "要追加的内容。"),
    ("appendContent", "targetType"): (
        "dailynote: today's note of a notebook, made if missing.",
        "dailynote：笔记本的今日日记，不存在则创建。",
    ),
    ("appendContent", "target"): (
        "Notebook id for dailynote, else the id of the document or block.",
        "dailynote 为笔记本 ID，否则为文档或块的 ID。",
    ),
    ("createNewDoc", "title"): ("A / in it becomes -.", "其中的 / 会变为 -。"),
    ("createNewDoc", "markdown"): ("Its text; empty by default.", "正文；默认为空。"),
    ("createNewDoc", "anchorDocumentId"): ("The other document.", "锚点文档的 ID。"),
    ("createNewDoc", "location"): (
        "siblings: beside it; children: below it; parent: beside the one above it.",
        "siblings：同级；children：其下；parent：与其父文档同级。",
    ),
    ("applyBlockDiff", "dryRun"): ("Check and show the diff only.", "只校验并显示 diff。"),
    ("listNotebooks", "documents"): ("How many of each.", "每个笔记本的文档数。"),
    ("searchBlocks", "query"): ("Words, all of which must be there.", "词语，须全部出现。"),
    ("searchBlocks", "limit"): ("How many at most.", "最多数量。"),
    ("readVar", "name"): ("As the cut result names it.", "截断结果中给出的名称。"),
    ("readVar", "offset"): ("Characters to skip.", "跳过的字符数。"),
    ("readVar", "length"): ("How many characters.", "字符数。"),
    **{
        (name, "diff"): ("The block diff.", "块 diff。")
        for name in ("applyBlockDiff", "prepareBlockDiff")
    },
    **{
        (name, "strictMatch"): (
            "false: runs of white space in SEARCH count as one blank.",
            "false：SEARCH 中连续空白视为一个空格。",
        )
        for name in ("applyBlockDiff", "prepareBlockDiff")
    },
}
