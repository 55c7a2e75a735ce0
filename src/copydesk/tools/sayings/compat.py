"""What the tools of the compat toolset say, and refusals in terms of what it has."""

from __future__ import annotations

SAYINGS: dict[str, tuple[str, str]] = {
    # what was read
    "compat.read_cut": (
        "{lines:line|lines} of {path} from line {start} on, of {total}; the rest was cut. Read on with view and view_range [{next}, -1].",
        "{path} 共 {total} 行，返回第 {start} 行起的 {lines} 行，其余已截去。请用 view 与 view_range [{next}, -1] 继续读取。",
    ),
    "compat.read_cut_line": (
        "Line {start} of {path} (of {total:line|lines}) was cut: its first {shown:character is|characters are} shown, and more of it is not to be had by reading. Read on after it with view and view_range [{next}, -1].",
        "{path}（共 {total} 行）的第 {start} 行已截短：只显示其前 {shown} 个字符，读取无法得到更多。请用 view 与 view_range [{next}, -1] 从其后继续读取。",
    ),
    "compat.read_cut_end": (
        "Line {start} of {path}, the last one, was cut: its first {shown:character is|characters are} shown, and more of it is not to be had by reading. An edit may still name a text in the rest.",
        "{path} 的第 {start} 行（末行）已截短：只显示其前 {shown} 个字符，读取无法得到更多。编辑仍可指明其余部分中的文本。",
    ),
    "compat.read_bytes": (
        "Its encoding is unknown: \\xNN in content is a byte that does not decode; written back in the place of the lines read, it is that byte. \\\\xNN is the text.",
        "文件编码未知：content 中的 \\xNN 是无法解码的字节；原样写回所读的行时即为该字节。\\\\xNN 表示这几个字符本身。",
    ),
    "compat.read_end": (
        "The last lines of the file; how many it has was not counted.",
        "文件的最后若干行；未统计总行数。",
    ),
    "compat.read_end_cut": (
        "The first of the last lines of the file; the rest was cut. Ask for fewer with tail.",
        "文件最后若干行的前一部分，其余已截去。请用较小的 tail。",
    ),
    "compat.listed": (
        "{count:entry|entries} of the directory {path} and of those in it, without hidden ones.",
        "目录 {path} 及其下一级目录中共 {count} 项，不含隐藏项。",
    ),
    "compat.listed_cut": (
        "The rest was cut: view a directory in it.",
        "其余已截去：请查看其中的某个目录。",
    ),
    # what was written
    "compat.inserted": (
        "Inserted after line {after} of {path}.",
        "已在 {path} 的第 {after} 行之后插入。",
    ),
    "compat.dry": (
        "A dry run: {count:replacement|replacements} would be made in {path}; nothing was written. Call again without dryRun to write.",
        "试运行：将在 {path} 中完成 {count} 处替换；未写入任何内容。去掉 dryRun 再次调用即可写入。",
    ),
    # refusals that elsewhere name what this toolset does not have
    "PARTIAL_MATCH_FAIL.compat": (
        "{failing:edit does|edits do} not have exactly one place (index {indices}, see failures); nothing was written. Take oldText from the lines shown, longer where there are several matches.",
        "{failing} 项编辑（下标 {indices}，见 failures）并非恰有一处匹配；未写入任何内容。请按所示行修正 oldText，多处匹配时给出更长的文本。",
    ),
    "PARTIAL_MATCH_FAIL.several matches.compat": (
        "old_str stands at {matches_count:place|places} (line {lines}); nothing was written. Give a longer text that stands there once.",
        "old_str 出现 {matches_count} 处（第 {lines} 行）；未写入任何内容。请给出只出现一次的更长文本。",
    ),
    "PARTIAL_MATCH_FAIL.no match.compat": (
        "old_str stands nowhere in the file; nothing was written. Take it from a view, without line numbers, or from the closest place if one is shown in failures.",
        "文件中没有 old_str；未写入任何内容。请从 view 的结果中取文本（不带行号），或参照 failures 中所示的最相近位置。",
    ),
    "INVALID_PATH.compat": (
        "This path cannot be used here: {reason}. Give one below the root of the workspace, in full or relative to the root.",
        "此处不能使用该路径：{reason}。请给出工作区根目录之下的路径，绝对路径或相对于根目录均可。",
    ),
    "FILE_NOT_FOUND.compat": (
        "There is nothing at this path. Take one of the similar names, if any are shown; write_file, or the command create, makes a new file.",
        "该路径处没有任何内容。如有 similar，请改用其中的名称；write_file 或 create 命令可创建新文件。",
    ),
    "FILE_EXISTS.compat": (
        "The file exists already and was left as it is. Edit it with str_replace or insert, or replace it as a whole with write_file.",
        "文件已存在，未改动。请用 str_replace 或 insert 编辑，或用 write_file 整体替换。",
    ),
    "APPROVAL_REQUIRED.compat": (
        "A person has to approve this edit first: {reason}. Nothing was written. The tools of compat write at once: plan the edit with a prepare tool of another toolset, and it is shown to the person.",
        "此编辑须先由人批准：{reason}。未写入任何内容。compat 的工具会立即写入：请改用其他工具集的 prepare 工具规划，规划会展示给批准人。",
    ),
}
