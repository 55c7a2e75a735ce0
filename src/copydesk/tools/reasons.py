"""The reasons that refusals give, in Chinese; in English they are their own words.

What lives here: the fixed ones. What must not: reasons of the operating system,
which stay as they are.
"""

from __future__ import annotations

from copydesk.tools.report import Lang

_REASONS_ZH = {
    "not all of the change was shown": "该改动未全部显示",
    "neither version nor expected_old says what is replaced": "未给出 version 或 expected_old，不能确定被替换的内容",
    "several places match the anchor; give version to be certain of one": "有多处与锚点匹配；给出 version 方可确定",
    "path leaves the workspace": "路径超出工作区",
    "more lines than may be written without being shown first": "行数超出可不经展示直接写入的上限",
    "absolute path": "绝对路径",
    "absolute path outside of the workspace": "绝对路径不在工作区内",
    "NUL in path": "路径含有 NUL",
    "lone surrogate in path": "路径含有孤立代理项",
    "lines are counted from 1": "行号从 1 开始",
    "the first line is after the last": "首行在末行之后",
    "not one of N, N~M, N~, ~M, ~": "不是 N、N~M、N~、~M、~ 之一",
    "is required": "必须给出",
    "must not be empty": "不能为空",
    "holds a lone surrogate": "含有孤立代理项",
    "holds a NUL character": "含有 NUL 字符",
    "must be an object": "必须是对象",
    "expected_old is not what stands there": "expected_old 与实际内容不符",
    "that version is not remembered": "未保留该版本的内容",
    "the file changed, and the text that was planned on is no longer remembered": "文件已有变动，而拟定修改所依据的文本已不再保留",
    "the file changed, and is too large to be compared": "文件已有变动，且过大，无法逐行比较",
    "what it writes stands there already": "要写入的内容已在该处",
    "ambiguous": "对应位置不唯一",
    "old_string says it already; leave it out": "old_string 已说明原文，请勿给出",
    "no edit changes anything: old_string and new_string are equal": "没有任何编辑会改变内容：old_string 与 new_string 相同",
    "is the same as old_string, so nothing would change": "与 old_string 相同，不会改变任何内容",
    "needs one of expected_mtime_ms, _size_bytes, _sha256": "须同时给出 expected_mtime_ms、expected_size_bytes、expected_sha256 之一",
    "is an argument of another command": "是其他命令的参数",
    "is the same as old_str, so nothing would change": "与 old_str 相同，不会改变任何内容",
    "no edit changes anything: oldText and newText are equal": "没有任何编辑会改变内容：oldText 与 newText 相同",
    "cannot be given together with head": "不能与 head 同时给出",
    "must be two lines: the first from 1, the last not before it, or -1 for the end": "须为两个行号：首行从 1 起，末行不小于首行，或以 -1 表示文件末尾",
    "the file changed, and the text after the edit is not kept": "文件已有变动，而该编辑之后的文本未保留",
    "the file was changed since it was created": "文件创建之后已有变动",
    "the file has another encoding now": "文件的编码已改变",
    "this tool replaces no lines; leave it out": "此工具不替换任何行，请勿给出",
}


def why(reason: str, lang: Lang) -> str:
    """A reason in `lang`; as it is where there are no other words for it."""
    return _REASONS_ZH.get(reason, reason) if lang == "zh" else reason
