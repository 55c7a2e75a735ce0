"""What a model reads of a tool: title, interface contract, one line per argument.

What lives here: those words, in English and Chinese. What must not: schemas
(they come in), workflows and examples (the manuals have them). Every client
sends these words with every request, so each has to earn its place.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from copydesk.tools.report import Lang
from copydesk.tools.wire import Schema

_Both = tuple[str, str]
"""The same in English and in Chinese."""

_PLANS_EN = (
    "Nothing is written unless apply is auto; "
    "returns a hunk_id and a diff for {p}apply_file_modification in a later message."
)
_PLANS_ZH = (
    "除非 apply 为 auto，否则不写入；"
    "返回 hunk_id 与 diff，供下一条消息中的 {p}apply_file_modification 使用。"
)

_TITLES: dict[str, _Both] = {
    "read_file": ("Read a file", "读取文件"),
    "create_new_file": ("Create a file", "创建文件"),
    "overwrite_entire_file": ("Overwrite a whole file", "整体覆盖文件"),
    "prepare_file_range_edit": ("Plan an edit of lines", "规划按行编辑"),
    "prepare_file_append": ("Plan an append", "规划末尾追加"),
    "prepare_file_insert_after": ("Plan an insert after a line", "规划在锚点后插入"),
    "prepare_file_insert_before": ("Plan an insert before a line", "规划在锚点前插入"),
    "prepare_file_block_replace": ("Plan a block replace", "规划块替换"),
    "apply_file_modification": ("Apply a plan", "应用规划"),
    "list_dir": ("List a directory", "列出目录"),
    "ripgrep_files": ("Find files by content", "按内容查找文件"),
    "ripgrep_count": ("Count matches", "统计匹配"),
    "ripgrep_snippets": ("Find lines", "查找文本行"),
    "ripgrep_fixed": ("Find literal text", "查找字面文本"),
    "ripgrep_search": ("Search with ripgrep options", "带选项搜索"),
}

_CONTRACTS: dict[str, _Both] = {
    "read_file": (
        "Show numbered lines of a text file, with its total_lines, size_bytes and version. "
        "A long file is cut, and the answer says how to read on.",
        "显示文本文件的带行号内容，并给出 total_lines、size_bytes 与 version。"
        "过长时截断，并说明如何继续读取。",
    ),
    "create_new_file": (
        "Write a new file at once, with its parent directories. An existing path is refused.",
        "立即写入一个新文件，并创建所需父目录。路径已存在则拒绝。",
    ),
    "overwrite_entire_file": (
        "Replace all of an existing file at once; both counters must match the file on disk. "
        "For small or generated files; else use the prepare tools.",
        "立即整体覆盖已有文件；两个计数必须与磁盘上的文件一致。"
        "适用于小文件或生成物，其他情况请用 prepare 工具。",
    ),
    "prepare_file_range_edit": (
        f"Plan to replace, delete or append lines by number. {_PLANS_EN}",
        f"规划按行号替换、删除或追加。{_PLANS_ZH}",
    ),
    "prepare_file_append": (
        f"Plan to append text at the end of a file. {_PLANS_EN}",
        f"规划在文件末尾追加文本。{_PLANS_ZH}",
    ),
    "prepare_file_insert_after": (
        f"Plan to insert lines after the anchor line. {_PLANS_EN}",
        f"规划在锚点行之后插入。{_PLANS_ZH}",
    ),
    "prepare_file_insert_before": (
        f"Plan to insert lines before the anchor line. {_PLANS_EN}",
        f"规划在锚点行之前插入。{_PLANS_ZH}",
    ),
    "prepare_file_block_replace": (
        "Plan to replace the lines between a start anchor and the first end anchor after it. "
        f"{_PLANS_EN}",
        f"规划替换 start_anchor 与其后第一个 end_anchor 之间的行。{_PLANS_ZH}",
    ),
    "apply_file_modification": (
        "Write a plan, in a later message than its prepare. If the file has changed since, the "
        "edit is carried to its place (context_match: fuzz), or nothing is written and the plan "
        "stays (rejected).",
        "写入一个规划，须在 prepare 之后的另一条消息中调用。若文件已有变动，编辑会移到对应位置"
        "（context_match: fuzz）；无法确定时不写入并保留规划（rejected）。",
    ),
    "list_dir": (
        "List a directory: name, kind and size of each entry that you may read.",
        "列出目录：你可读的每个条目的名称、类型与大小。",
    ),
    "ripgrep_files": (
        "List the files in which a regular expression matches (ripgrep; .gitignore is respected).",
        "列出正则表达式有匹配的文件（ripgrep；遵循 .gitignore）。",
    ),
    "ripgrep_count": (
        "Count the matches of a regular expression per file.",
        "按文件统计正则表达式的匹配数。",
    ),
    "ripgrep_snippets": (
        "Show the lines that a regular expression matches, numbered, with lines around them. "
        "Good for finding anchors.",
        "显示正则表达式匹配的行（带行号与上下文）。适合用来定位锚点。",
    ),
    "ripgrep_fixed": (
        "Search for literal text, as snippets, files or counts.",
        "查找字面文本，结果可为片段、文件或计数。",
    ),
    "ripgrep_search": (
        "Search with ripgrep options of your own, from an allowlist.",
        "使用自选的 ripgrep 选项（限允许列表）搜索。",
    ),
}

_MIRROR: _Both = (" Paths are relative to .minds/.", "路径相对于 .minds/。")

_ARGUMENTS: dict[str, _Both] = {
    "path": ("File, relative to the workspace root.", "文件路径，相对于工作区根目录。"),
    "range": (
        "Lines from 1, inclusive: N, N~M, N~, ~M, ~ (all).",
        "行范围，从 1 起、含两端：N、N~M、N~、~M、~（全部）。",
    ),
    "content": (
        "New text. LF becomes the file's own line ending; a missing last newline is added.",
        "新文本。LF 会转换为文件自身的换行；缺少的末尾换行会补上。",
    ),
    "anchor": (
        "Text of the line to insert at (no regular expression).",
        "插入位置所在行的文本（不是正则）。",
    ),
    "start_anchor": (
        "Text of the block's first line (no regular expression).",
        "块首行的文本（不是正则）。",
    ),
    "end_anchor": (
        "Text of the block's last line.",
        "块末行的文本。",
    ),
    "occurrence": (
        'Which candidate: 1, 2, … or last. Needed when several match; "" or 0: not given.',
        '选第几个候选：1、2……或 last。有多个候选时必需；"" 或 0 表示未指定。',
    ),
    "match": (
        "A line contains the anchor, or equals it.",
        "行包含（contains）或等于（equals）锚点文本。",
    ),
    "version": (
        "The version you read: line numbers and anchors mean that text and are carried to "
        "the file as it is now, else STALE_READ.",
        "你所读的 version：行号与锚点按该版本理解，并对应到文件当前内容；无法对应则为 STALE_READ。",
    ),
    "expected_old": (
        "Exact old text of the lines to be replaced; if it differs: CONTENT_CHANGED.",
        "被替换各行的原文；不一致则为 CONTENT_CHANGED。",
    ),
    "apply": (
        "auto writes at once if the target is unique and (for range and block) version or "
        "expected_old is given; else the plan comes back.",
        "auto：目标唯一且（range 与 block）给出了 version 或 expected_old 时立即写入；"
        "否则返回规划。",
    ),
    "report": ("brief: no evidence, no diff.", "brief：不含 evidence 与 diff。"),
    "existing_hunk_id": (
        'Plan of yours from this tool to replace; "": a new plan.',
        '要覆写的规划（你用本工具所作）；"" 表示新规划。',
    ),
    "include_anchors": (
        "true keeps both anchor lines; false replaces them too.",
        "true 保留两个锚点行；false 连同锚点行一起替换。",
    ),
    "require_unique": (
        "false: without occurrence take the first candidate.",
        "false：未给 occurrence 时取第一个候选。",
    ),
    "strict": (
        "false: as require_unique false, and nested anchors are allowed.",
        "false：同 require_unique 为 false，并允许嵌套锚点。",
    ),
    "hunk_id": ("8 hex characters from a prepare tool.", "prepare 工具给出的 8 位十六进制。"),
    "pattern": ("Regular expression of Rust.", "Rust 正则表达式。"),
    "literal": ("Text to find as it is.", "按原样查找的文本。"),
    "globs": (
        "As in .gitignore; ! excludes.",
        "同 .gitignore 写法；! 表示排除。",
    ),
    "case": ("smart: ignored unless the pattern has a capital.", "smart：含大写字母时才区分。"),
    "fixed_strings": ("The pattern is literal text.", "把 pattern 当作字面文本。"),
    "include_hidden": ("Also hidden files.", "包括隐藏文件。"),
    "follow_symlinks": ("Also behind links.", "跟随符号链接。"),
    "max_files": ("Most files shown; 0: default.", "最多显示的文件数；0 为默认。"),
    "max_results": ("Most results; 0: default.", "最多结果数；0 为默认。"),
    "context_before": ("Lines before each match.", "每个匹配之前的行数。"),
    "context_after": ("Lines after each match.", "每个匹配之后的行数。"),
    "mode": ("What comes back.", "返回的内容。"),
}

_SEARCH_PATH: _Both = (
    'File or directory to search; "" or left out: all.',
    '要搜索的文件或目录；"" 或省略表示全部。',
)

_SPECIAL: dict[tuple[str, str], _Both] = {
    ("read_file", "range"): (
        'Lines from 1, inclusive: N, N~M, N~, ~M, ~, or -N~ for the last N; "": whole file.',
        '行范围，从 1 起、含两端：N、N~M、N~、~M、~，-N~ 为最后 N 行；"" 为整个文件。',
    ),
    ("read_file", "max_lines"): ("Most lines shown; 0: default.", "最多显示的行数；0 为默认。"),
    ("read_file", "show_linenos"): ("Show line numbers.", "显示行号。"),
    ("create_new_file", "content"): (
        'Text, "" by default; a missing last newline is added.',
        '正文，默认 ""；缺少的末尾换行会补上。',
    ),
    ("overwrite_entire_file", "known_old_total_lines"): (
        "total_lines as read.",
        "读取所得的 total_lines。",
    ),
    ("overwrite_entire_file", "known_old_total_bytes"): (
        "size_bytes as read.",
        "读取所得的 size_bytes。",
    ),
    ("overwrite_entire_file", "content"): (
        "The whole new text.",
        "完整的新正文。",
    ),
    ("overwrite_entire_file", "content_format"): (
        "diff or patch: content that looks like a patch is meant so.",
        "diff 或 patch：声明正文确为补丁。",
    ),
    ("prepare_file_range_edit", "range"): (
        "Lines from 1, inclusive: N, N~M, N~, ~M, ~ (all). N~ with N = last line + 1 appends.",
        "行范围，从 1 起、含两端：N、N~M、N~、~M、~（全部）。N~ 且 N = 末行 + 1 为追加。",
    ),
    ("prepare_file_range_edit", "content"): (
        'New lines; "" (default) deletes the range, "\\n" leaves one empty line.',
        '新的行；""（默认）删除该范围，"\\n" 为一个空行。',
    ),
    ("prepare_file_append", "create"): (
        "Make the file if there is none.",
        "文件不存在时创建。",
    ),
    ("prepare_file_append", "version"): (
        "The version you read; an append goes to the end of the file in any case.",
        "你所读的 version；追加始终写到文件当前末尾。",
    ),
    ("prepare_file_block_replace", "content"): (
        "New lines of the block.",
        "块的新内容。",
    ),
    ("list_dir", "path"): (
        "Directory, relative to the workspace root; . is the root.",
        "目录，相对于工作区根目录；. 为根目录。",
    ),
    ("ripgrep_search", "rg_args"): (
        "Options, one token each, such as -i, -w, -C2, -tpy, --glob=!dist. "
        "None that runs a program, reads a list or writes.",
        "选项，每项一个，如 -i、-w、-C2、-tpy、--glob=!dist。不允许运行程序、读取列表或写入。",
    ),
    **{
        (tool, "path"): _SEARCH_PATH
        for tool in (
            "ripgrep_files",
            "ripgrep_count",
            "ripgrep_snippets",
            "ripgrep_fixed",
            "ripgrep_search",
        )
    },
}


def tool(plain_name: str, lang: Lang, *, mirror: bool) -> str:
    """What the tool promises, in one or two sentences.

    `plain_name` is without the prefix of a mirror toolset; `mirror`: the tool is
    the one of team_mgmt, so its paths are relative to .minds/. The name itself
    for a tool that has no words here.
    """
    words = _CONTRACTS.get(plain_name, (plain_name, plain_name))[lang == "zh"]
    text = words.replace("{p}", "team_mgmt_" if mirror else "")
    return text + _MIRROR[lang == "zh"] if mirror else text


def title(plain_name: str, lang: Lang) -> str:
    """A short name for people; the name itself for a tool that has no words here."""
    return _TITLES.get(plain_name, (plain_name, plain_name))[lang == "zh"]


def schema(plain_name: str, schema: Schema, lang: Lang) -> dict[str, Any]:
    """A deep copy of the schema, with what each argument is as its `description`.

    An argument that has no words here keeps what the schema says of it.
    """
    described: dict[str, Any] = deepcopy(dict(schema))
    for name, found in described["properties"].items():
        words = _SPECIAL.get((plain_name, name)) or _ARGUMENTS.get(name)
        if words is not None:
            found["description"] = words[lang == "zh"]
    return described


def missing(plain_name: str, schema: Schema) -> list[str]:
    """What has no words here: the tool's own name, or `tool.argument`."""
    found = [] if plain_name in _TITLES and plain_name in _CONTRACTS else [plain_name]
    for name in schema["properties"]:
        if (plain_name, name) not in _SPECIAL and name not in _ARGUMENTS:
            found.append(f"{plain_name}.{name}")
    return found
