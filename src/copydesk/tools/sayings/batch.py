"""What the tools of the batch toolset say, and refusals in terms of what it has."""

from __future__ import annotations

SAYINGS: dict[str, tuple[str, str]] = {
    # Read
    "batch.read": (
        "{lines} of {total:line|lines} of {path}.",
        "{path} 共 {total} 行，返回 {lines} 行。",
    ),
    "batch.read_cut": (
        "{lines:line|lines} of {path} from line {start} on, of {total}; the rest was cut. Read on with start_line: {next}.",
        "{path} 共 {total} 行，返回第 {start} 行起的 {lines} 行，其余已截去。请用 start_line: {next} 继续读取。",
    ),
    "batch.read_cut_line": (
        "Line {start} of {path} (of {total:line|lines}) was cut: its first {shown:character is|characters are} shown, and more of it is not to be had by reading. Read on after it with start_line: {next}.",
        "{path}（共 {total} 行）的第 {start} 行已截短：只显示其前 {shown} 个字符，读取无法得到更多。请用 start_line: {next} 从其后继续读取。",
    ),
    "batch.read_cut_end": (
        "Line {start} of {path}, the last one, was cut: its first {shown:character is|characters are} shown, and more of it is not to be had by reading. An edit may still name a text in the rest.",
        "{path} 的第 {start} 行（末行）已截短：只显示其前 {shown} 个字符，读取无法得到更多。编辑仍可指明其余部分中的文本。",
    ),
    "batch.read_bytes": (
        "Its encoding is unknown: \\xNN in content is a byte that does not decode; written back in the place of the lines read, it is that byte. \\\\xNN is the text.",
        "文件编码未知：content 中的 \\xNN 是无法解码的字节；原样写回所读的行时即为该字节。\\\\xNN 表示这几个字符本身。",
    ),
    # what was written
    "batch.done": (
        "Made {count:replacement|replacements} in {path}.",
        "已在 {path} 中完成 {count} 处替换。",
    ),
    "batch.replaced": (
        "Replaced the whole of {path}: {lines:line|lines} now.",
        "已整体替换 {path}，现有 {lines} 行。",
    ),
    "batch.warning": ("Warning: {warning}", "警告：{warning}"),
    "batch.created": ("Wrote the new file {path}.", "已写入新文件 {path}。"),
    "batch.dry": (
        "A dry run: {count:replacement|replacements} would be made in {path}; nothing was written. Call again without dry_run to write.",
        "试运行：将在 {path} 中完成 {count} 处替换；未写入任何内容。去掉 dry_run 再次调用即可写入。",
    ),
    "batch.diff_cut": (
        "diff_preview has only the start of the diff.",
        "diff_preview 只有 diff 的开头部分。",
    ),
    # plans of batches
    "plan.batch": (
        "Planned: {edits:edit|edits} of {path}, at {places:place|places}; {old:line|lines} replaced by {new} (delta {delta:+}). Nothing is written yet.",
        "已规划：{path} 的 {edits} 项编辑，位于 {places} 处；将 {old} 行替换为 {new} 行（增减 {delta:+}）。尚未写入。",
    ),
    "apply.batch.exact": (
        "Written to {path}: {edits:edit|edits} at {places:place|places}; {old:old line|old lines} became {new:new line|new lines}, exactly as planned.",
        "已写入 {path}：{edits} 项编辑，位于 {places} 处；{old} 行旧内容变为 {new} 行，与规划完全一致。",
    ),
    "apply.batch.fuzz": (
        "Written to {path}: {edits:edit|edits} at {places:place|places}; {old:old line|old lines} became {new:new line|new lines}. The file had changed since the plan; each edit was carried to its place. Look at the diff.",
        "已写入 {path}：{edits} 项编辑，位于 {places} 处；{old} 行旧内容变为 {new} 行。规划之后文件有变动，各编辑已移到其对应位置，请核对 diff。",
    ),
    # refusals of this toolset
    "PARTIAL_MATCH_FAIL": (
        "{failing:edit does|edits do} not have exactly one place (index {indices}, see failures); nothing was written. Take old_string from the lines shown, longer where there are several matches.",
        "{failing} 项编辑（下标 {indices}，见 failures）并非恰有一处匹配；未写入任何内容。请按所示行修正 old_string，多处匹配时给出更长的文本。",
    ),
    "PARTIAL_MATCH_FAIL.several matches": (
        "old_string stands at {matches_count:place|places} (line {lines}); nothing was written. Give a longer text that stands there once, or replace_all: true to replace it everywhere.",
        "old_string 出现 {matches_count} 处（第 {lines} 行）；未写入任何内容。请给出只出现一次的更长文本，或设 replace_all: true 全部替换。",
    ),
    "PARTIAL_MATCH_FAIL.no match": (
        "old_string stands nowhere in the file; nothing was written. Take it from a Read, or from the closest place if one is shown in failures.",
        "文件中没有 old_string；未写入任何内容。请从 Read 的结果中取文本，或参照 failures 中所示的最相近位置。",
    ),
    "COLLISION_DETECTED": (
        "Some edits overlap (see collisions); nothing was written. Join them into one edit.",
        "部分编辑区域重叠（见 collisions）；未写入任何内容。请合并为一项编辑。",
    ),
    "DUPLICATE_EDITS": (
        "The edits {indices} are the same; leave one of them out.",
        "编辑 {indices} 完全相同；请去掉其中一项。",
    ),
    "CONFLICT": (
        "The file is not as expected: {mismatched}. Nothing was written. Read it again.",
        "文件与预期不符：{mismatched}。未写入任何内容。请重新读取。",
    ),
    "CONFLICT.one": (
        "{expectation} is {actual}, not {expected}",
        "{expectation} 为 {actual}，而非 {expected}",
    ),
    # refusals that elsewhere name tools which this toolset does not have
    "FILE_NOT_FOUND.batch": (
        "There is nothing at this path. Take one of the similar names, if any are shown; Write without an expectation makes a new file.",
        "该路径处没有任何内容。如有 similar，请改用其中的名称；不带预期的 Write 可创建新文件。",
    ),
    "FILE_EXISTS.batch": (
        "The file exists already and was left as it is. Edit it with Edit or BatchEdit; to replace it as a whole, Read it, then Write with overwrite: true and an expectation.",
        "文件已存在，未改动。请用 Edit 或 BatchEdit 编辑；如需整体替换，请先 Read，再用 Write 并给出 overwrite: true 与一项预期。",
    ),
    "NOT_A_FILE.batch": (
        "This is not a regular file but: {kind}. Give the path of a file.",
        "这不是普通文件，而是：{kind}。请给出文件的路径。",
    ),
    "FILE_TOO_LARGE.whole_bytes.batch": (
        "The file has {size_bytes} bytes, and this would need it as a whole, which is done up to {limit_bytes}; whole_bytes in the configuration can raise that.",
        "文件有 {size_bytes} 字节，而此操作需要读入整个文件，上限为 {limit_bytes}，可在配置中用 whole_bytes 提高。",
    ),
}
