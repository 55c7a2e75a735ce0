"""What a model reads of the tools of compat: titles, contracts, arguments.

What lives here: those words, in English and Chinese. What must not: how they are
looked up (`describe`), workflows and examples (the manual has them).
"""

from __future__ import annotations

_Both = tuple[str, str]

_EDITOR = "str_replace_based_edit_tool"

TITLES: dict[str, _Both] = {
    "read_text_file": ("Read text file", "读取文本文件"),
    "write_file": ("Write file", "写入文件"),
    "edit_file": ("Edit file", "编辑文件"),
    _EDITOR: ("Text editor", "文本编辑器"),
}

CONTRACTS: dict[str, _Both] = {
    "read_text_file": (
        "Read a text file, or only its first lines (head) or last lines (tail).",
        "读取文本文件，或仅读取其开头（head）或末尾（tail）若干行。",
    ),
    "write_file": (
        "Write a whole file: a new one, parent directories too, or over what is there.",
        "写入整个文件：创建新文件（含父目录），或覆盖现有内容。",
    ),
    "edit_file": (
        "Make several replacements in one file, all or none. Each oldText is sought in the "
        "original text and must stand there exactly once; regions must not overlap. "
        "LF matches any line end.",
        "对一个文件做多处替换，全部成功或全部不做。每个 oldText 都在原文中查找且须恰好出现一次，"
        "区域不得重叠。LF 匹配任意行尾。",
    ),
    _EDITOR: (
        "view: show a file with line numbers, or a directory two levels deep. create: write a "
        "new file. str_replace: replace old_str, which must stand in the file exactly once. "
        "insert: put lines after the line insert_line.",
        "view：显示带行号的文件，或目录的两级内容。create：写入新文件。"
        "str_replace：替换 old_str，须恰好出现一次。insert：在第 insert_line 行之后插入若干行。",
    ),
}

_PATH: _Both = (
    "Absolute, below the workspace root, or relative to it.",
    "工作区根目录之下的绝对路径，或相对路径。",
)

SPECIAL: dict[tuple[str, str], _Both] = {
    **{(name, "path"): _PATH for name in TITLES},
    ("read_text_file", "head"): ("Only the first N lines.", "仅前 N 行。"),
    ("read_text_file", "tail"): ("Only the last N lines.", "仅末 N 行。"),
    ("write_file", "content"): ("The whole text.", "完整的正文。"),
    ("edit_file", "oldText"): ("Exact text, not empty.", "精确文本，不能为空。"),
    ("edit_file", "newText"): ("What replaces it.", "替换为的文本。"),
    ("edit_file", "dryRun"): ("Only show the diff.", "只显示 diff。"),
    (_EDITOR, "command"): ("What to do.", "要做什么。"),
    (_EDITOR, "view_range"): (
        "view: [first, last], from 1; last -1 is the end.",
        "view：[首行, 末行]，从 1 起；末行 -1 为文件末尾。",
    ),
    (_EDITOR, "file_text"): ("create: the whole text.", "create：完整的正文。"),
    (_EDITOR, "old_str"): ("str_replace: exact text.", "str_replace：精确文本。"),
    (_EDITOR, "new_str"): (
        'str_replace: what replaces it; "" deletes.',
        'str_replace：替换为的文本；"" 为删除。',
    ),
    (_EDITOR, "insert_line"): (
        "insert: after this line; 0 is the start.",
        "insert：在此行之后；0 为文件开头。",
    ),
    (_EDITOR, "insert_text"): ("insert: the new lines.", "insert：新的行。"),
}
