"""What a model reads of a tool: title, interface contract, one line per argument.

What lives here: those words, in English and Chinese. What must not: schemas
(they come in), workflows and examples (the manuals have them). Every client
sends these words with every request, so each has to earn its place.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from copydesk.tools import describe_compat, describe_notes
from copydesk.tools.report import Lang
from copydesk.tools.wire import Schema

_Both = tuple[str, str]
"""The same in English and in Chinese."""

_PLANS_EN = "Only plans, unless apply is auto; apply its hunk_id later."
_PLANS_ZH = "只规划（apply 为 auto 除外），稍后再应用。"

_BATCH: _Both = (
    "Make several replacements in one file, all or none. Each old_string is sought in the "
    "original text and must stand there exactly once; regions must not overlap. "
    "LF matches any line end.",
    "对一个文件做多处替换，全部成功或全部不做。每个 old_string 都在原文中查找且须恰好出现一次，"
    "区域不得重叠。LF 匹配任意行尾。",
)

_TITLES: dict[str, _Both] = {
    "read_file": ("Read file", "读取文件"),
    "create_new_file": ("Create file", "创建文件"),
    "overwrite_entire_file": ("Overwrite file", "整体覆盖文件"),
    "prepare_file_range_edit": ("Plan line edit", "规划按行编辑"),
    "prepare_file_append": ("Plan append", "规划末尾追加"),
    "prepare_file_insert_after": ("Plan insert after", "规划在锚点后插入"),
    "prepare_file_insert_before": ("Plan insert before", "规划在锚点前插入"),
    "prepare_file_block_replace": ("Plan block replace", "规划块替换"),
    "apply_file_modification": ("Apply plan", "应用规划"),
    "apply_file_modifications": ("Apply plans together", "一并应用规划"),
    "undo_file_modification": ("Undo edit", "撤销编辑"),
    "list_edits": ("List edits", "列出编辑"),
    "list_pending": ("List plans", "列出规划"),
    "discard_hunk": ("Discard plan", "丢弃规划"),
    "list_dir": ("List directory", "列出目录"),
    "ripgrep_files": ("Find files", "查找文件"),
    "ripgrep_count": ("Count matches", "统计匹配"),
    "ripgrep_snippets": ("Find lines", "查找文本行"),
    "ripgrep_fixed": ("Find literal text", "查找字面文本"),
    "ripgrep_search": ("Search with options", "带选项搜索"),
    "Read": ("Read", "读取"),
    "Edit": ("Edit", "编辑"),
    "Write": ("Write", "写入"),
    "BatchEdit": ("Batch edit", "批量编辑"),
    "MultiEdit": ("Batch edit", "批量编辑"),
    "prepare_batch_edit": ("Plan batch edit", "规划批量编辑"),
    **describe_notes.TITLES,
    **describe_compat.TITLES,
}

_CONTRACTS: dict[str, _Both] = {
    "read_file": (
        "Show numbered lines, total_lines, size_bytes and version.",
        "显示带行号的内容与 total_lines、size_bytes、version。",
    ),
    "create_new_file": (
        "Write a new file now, parent directories too. An existing path is refused.",
        "立即写入新文件，并创建父目录。路径已存在则拒绝。",
    ),
    "overwrite_entire_file": (
        "Replace a whole existing file now, if both counters match it.",
        "两个计数与文件一致时，立即整体覆盖已有文件。",
    ),
    "prepare_file_range_edit": (
        f"Replace, delete or append lines by number. {_PLANS_EN}",
        f"按行号替换、删除或追加。{_PLANS_ZH}",
    ),
    "prepare_file_append": (
        f"Add lines at the end of a file. {_PLANS_EN}",
        f"在文件末尾追加。{_PLANS_ZH}",
    ),
    "prepare_file_insert_after": (
        f"Insert lines after the anchor's line. {_PLANS_EN}",
        f"在锚点行之后插入。{_PLANS_ZH}",
    ),
    "prepare_file_insert_before": (
        f"Insert lines before the anchor's line. {_PLANS_EN}",
        f"在锚点行之前插入。{_PLANS_ZH}",
    ),
    "prepare_file_block_replace": (
        f"Replace the lines between a start anchor and the next end anchor. {_PLANS_EN}",
        f"替换 start_anchor 与其后首个 end_anchor 之间的行。{_PLANS_ZH}",
    ),
    "apply_file_modification": (
        "Write a prepared plan. In a file that changed since, it goes to its new place (fuzz), "
        "or nothing is written and the plan stays (rejected).",
        "写入已有规划。文件有变动时，编辑移到新位置（fuzz）；"
        "无法确定则不写入并保留规划（rejected）。",
    ),
    "apply_file_modifications": (
        "Write several plans, in one file or in several: all or none.",
        "写入一个或多个文件中的若干规划：全部写入或全不写入。",
    ),
    "undo_file_modification": (
        "Take back a written edit, also after later edits of other lines.",
        "撤销已写入的编辑，其后其他行有改动亦可。",
    ),
    "list_edits": ("List the edits made, newest first.", "列出已作的编辑，由新到旧。"),
    "list_pending": ("List the plans that wait.", "列出待处理的规划。"),
    "discard_hunk": ("Let a plan go.", "丢弃一个规划。"),
    "list_dir": (
        "List the entries of a directory that you may read.",
        "列出目录中你可读的条目。",
    ),
    "ripgrep_files": (
        "List files with a match; .gitignore is respected.",
        "列出有匹配的文件；遵循 .gitignore。",
    ),
    "ripgrep_count": ("Count matches per file.", "按文件统计匹配数。"),
    "ripgrep_snippets": (
        "Show matching lines with their neighbours; good for finding anchors.",
        "显示匹配的行及其上下文；适合定位锚点。",
    ),
    "ripgrep_fixed": (
        "Search for literal text.",
        "查找字面文本。",
    ),
    "ripgrep_search": (
        "Search with rg options of an allowlist.",
        "用允许列表中的 rg 选项搜索。",
    ),
    "Read": (
        "Read lines of a file, with the mtime, size and SHA-256 that Edit, Write and BatchEdit "
        "take as expectations.",
        "读取文件的若干行，并给出 Edit、Write、BatchEdit 用作预期的 mtime、大小与 SHA-256。",
    ),
    "Edit": (
        "Replace old_string, which must stand in the file exactly once, or everywhere with "
        "replace_all.",
        "替换 old_string：须恰好出现一次，或用 replace_all 替换全部。",
    ),
    "Write": (
        "Write a new file; with overwrite over an existing one, if it is as expected "
        "(one expectation is required).",
        "写入新文件；overwrite 为 true 时覆盖现有文件，须给出至少一项预期且相符。",
    ),
    "BatchEdit": _BATCH,
    "MultiEdit": _BATCH,
    "prepare_batch_edit": (f"{_BATCH[0]} {_PLANS_EN}", f"{_BATCH[1]}{_PLANS_ZH}"),
    **describe_notes.CONTRACTS,
    **describe_compat.CONTRACTS,
}

_MIRROR: _Both = (" Paths are relative to .minds/.", "路径相对于 .minds/。")

_AUTO: _Both = (
    "auto: write now if unique and version or expected_old is given.",
    "auto：目标唯一且给出 version 或 expected_old 时写入。",
)
_AUTO_INSERT: _Both = (
    "auto: write now if unique, or version is given.",
    "auto：锚点唯一或给出 version 时写入。",
)

_ARGUMENTS: dict[str, _Both] = {
    "path": ("From the root.", "相对于根目录。"),
    "content": ("New lines.", "新的行。"),
    "anchor": ("Text in one line, no regex.", "某行的文本，非正则。"),
    "start_anchor": ("Text of the first line, no regex.", "块首行的文本，非正则。"),
    "end_anchor": ("Text of the last line.", "块末行的文本。"),
    "occurrence": (
        'Which match: 1, 2... or "last".',
        '第几个：1、2……或 "last"。',
    ),
    "version": (
        "As read: lines mean that text, carried to the file as it is, or STALE_READ.",
        "所读版本：行号按其理解并移到现文，否则 STALE_READ。",
    ),
    "expected_old": (
        "Exact old lines, else CONTENT_CHANGED.",
        "旧行原文，否则 CONTENT_CHANGED。",
    ),
    "apply": _AUTO,
    "existing_hunk_id": ("Plan to redo.", "要重做的规划。"),
    "require_unique": ("false: take the first.", "false：取首个。"),
    "strict": ("false: nested ones too.", "false：允许嵌套。"),
    "hunk_id": ("From a prepare tool.", "由 prepare 工具给出。"),
    "hunk_ids": ("From prepare tools.", "由 prepare 工具给出。"),
    "edit_id": ("From a write or list_edits.", "由写入或 list_edits 给出。"),
    "before_edit_id": ("Older than this.", "早于此编辑。"),
    "member": ("Made by whom.", "由谁作出。"),
    "pattern": ("Regex (Rust).", "正则（Rust）。"),
    "literal": ("Text as it is.", "原样文本。"),
    "globs": ("As in .gitignore.", "同 .gitignore。"),
    "start_line": ("First line, from 1.", "起始行，从 1 起。"),
    "limit": ("How many lines.", "行数。"),
    "old_string": ("Exact text, not empty.", "精确文本，不能为空。"),
    "new_string": ("What replaces it.", "替换为的文本。"),
    "replace_all": ("Every place of it.", "替换所有出现处。"),
    "edits": ("The replacements.", "替换列表。"),
    "expected_mtime_ms": ("From Read.", "来自 Read。"),
    "expected_size_bytes": ("From Read.", "来自 Read。"),
    "expected_sha256": ("From Read.", "来自 Read。"),
    "dry_run": ("Only show the diff.", "只显示 diff。"),
    "overwrite": ("Over an existing file.", "覆盖现有文件。"),
}

PLAIN = (
    *(
        "match",
        "include_anchors",
        "create",
        "report",
        "case",
        "mode",
        "fixed_strings",
        "include_hidden",
        "follow_symlinks",
    ),
    *("max_lines", "max_files", "max_results", "context_before", "context_after", "show_linenos"),
)
"""Arguments whose name, type and default say all: words on them would only cost."""

_SEARCH_PATH: _Both = ("Default: all.", "默认全部。")

_SEARCHES = (
    "ripgrep_files",
    "ripgrep_count",
    "ripgrep_snippets",
    "ripgrep_fixed",
    "ripgrep_search",
)

_AS_READ: _Both = ("As read, or STALE_READ.", "所读版本，否则 STALE_READ。")

_WITH_ANCHOR = (
    "prepare_file_insert_after",
    "prepare_file_insert_before",
    "prepare_file_block_replace",
)

_SPECIAL: dict[tuple[str, str], _Both] = {
    ("read_file", "range"): (
        "Lines from 1: N, N~M, N~, ~M, ~; -N~: the last N.",
        "行号从 1 起：N、N~M、N~、~M、~；-N~ 为最后 N 行。",
    ),
    ("create_new_file", "content"): ("Text; empty by default.", "正文；默认为空。"),
    ("overwrite_entire_file", "known_old_total_lines"): (
        "total_lines as read.",
        "读得的 total_lines。",
    ),
    ("overwrite_entire_file", "known_old_total_bytes"): (
        "size_bytes as read.",
        "读得的 size_bytes。",
    ),
    ("overwrite_entire_file", "content"): ("The whole new text.", "完整的新正文。"),
    ("create_new_file", "content_format"): ("diff or patch.", "补丁填 diff 或 patch。"),
    ("overwrite_entire_file", "content_format"): (
        "diff or patch, if it is one.",
        "正文确为补丁时填 diff 或 patch。",
    ),
    ("prepare_file_range_edit", "range"): (
        "From 1, inclusive: N, N~M, N~, ~M, ~ (all). N~ with N = last + 1 appends.",
        "从 1 起、含两端：N、N~M、N~、~M、~（全部）。N~ 且 N = 末行 + 1 为追加。",
    ),
    ("prepare_file_range_edit", "content"): (
        'New lines; "" deletes the range.',
        '新的行；"" 删除该范围。',
    ),
    **{(name, "version"): _AS_READ for name in _WITH_ANCHOR},
    ("prepare_file_append", "version"): ("As read; not needed.", "所读版本；可不给。"),
    ("prepare_file_append", "expected_old"): ("Leave out.", "省略。"),
    ("prepare_file_append", "apply"): ("auto: write now.", "auto：立即写入。"),
    ("prepare_file_insert_after", "expected_old"): ("Leave out.", "省略。"),
    ("prepare_file_insert_before", "expected_old"): ("Leave out.", "省略。"),
    ("prepare_file_insert_after", "apply"): _AUTO_INSERT,
    ("prepare_file_insert_before", "apply"): _AUTO_INSERT,
    ("Write", "content"): ("The whole text.", "完整的正文。"),
    ("prepare_batch_edit", "expected_old"): ("Leave out.", "省略。"),
    ("prepare_batch_edit", "dry_run"): ("A plan is one already.", "规划本身即是。"),
    ("prepare_batch_edit", "apply"): ("auto: write now.", "auto：立即写入。"),
    ("list_dir", "path"): ("Directory; . is the root.", "目录；. 为根。"),
    ("ripgrep_search", "rg_args"): (
        "One token each: -i, -w, -C2, -tpy, --glob=!dist.",
        "每项一个：-i、-w、-C2、-tpy、--glob=!dist。",
    ),
    **{(name, "path"): _SEARCH_PATH for name in (*_SEARCHES, "list_edits", "list_pending")},
    **describe_notes.SPECIAL,
    **describe_compat.SPECIAL,
}


def tool(plain_name: str, lang: Lang, *, mirror: bool) -> str:
    """What the tool promises, in one or two sentences.

    `plain_name` is without the prefix of a mirror toolset; `mirror`: the tool is
    the one of team_mgmt, so its paths are relative to .minds/. The name itself
    for a tool that has no words here.
    """
    text = _CONTRACTS.get(plain_name, (plain_name, plain_name))[lang == "zh"]
    return text + _MIRROR[lang == "zh"] if mirror else text


def title(plain_name: str, lang: Lang) -> str:
    """A short name for people; the name itself for a tool that has no words here."""
    return _TITLES.get(plain_name, (plain_name, plain_name))[lang == "zh"]


def schema(plain_name: str, schema: Schema, lang: Lang) -> dict[str, Any]:
    """A deep copy of the schema, with what each argument is as its `description`.

    An argument that has no words here keeps what the schema says of it.
    """
    described: dict[str, Any] = deepcopy(dict(schema))
    _describe(plain_name, described, lang)
    return described


def missing(plain_name: str, schema: Schema) -> list[str]:
    """What has no words here: the tool's own name, or `tool.argument`."""
    named = plain_name in _TITLES and plain_name in _CONTRACTS
    return [*([] if named else [plain_name]), *_missing_arguments(plain_name, schema)]


def _missing_arguments(plain_name: str, schema: Schema) -> list[str]:
    found: list[str] = []
    for name, form in schema["properties"].items():
        if (plain_name, name) not in _SPECIAL and name not in (*_ARGUMENTS, *PLAIN):
            found.append(f"{plain_name}.{name}")
        if "properties" in form.get("items", {}):
            found += _missing_arguments(plain_name, form["items"])
    return found


def _describe(plain_name: str, schema: dict[str, Any], lang: Lang) -> None:
    """Put the words on each property, those of the objects in a list too."""
    for name, form in schema["properties"].items():
        words = _SPECIAL.get((plain_name, name)) or _ARGUMENTS.get(name)
        if words is not None:
            form["description"] = words[lang == "zh"]
        if "properties" in form.get("items", {}):
            _describe(plain_name, form["items"], lang)
