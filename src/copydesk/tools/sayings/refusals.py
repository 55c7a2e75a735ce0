"""What a refusal says: what happened and what to do, by its code."""

from __future__ import annotations

SAYINGS: dict[str, tuple[str, str]] = {
    # why a place is not found again
    "reason.gone": ("its lines were edited or deleted", "相关行已被编辑或删除"),
    "reason.parted": ("other lines stand between its lines now", "相关行之间插入了其他行"),
    "reason.blanks": ("its lines differ in trailing blanks now", "相关行的行尾空白已改变"),
    "reason.uncertain": (
        "equal lines stand there, but they may be others",
        "存在相同的行，但可能并非原来那些行",
    ),
    # refusals
    "PATH_REQUIRED": (
        "A path is needed: give one relative to the root of the workspace.",
        "缺少 path：请给出相对于工作区根目录的路径。",
    ),
    "INVALID_ARGS": (
        "The argument {argument} cannot be used: {reason}.",
        "参数 {argument} 无法使用：{reason}。",
    ),
    "INVALID_PATH": (
        "This path cannot be used here: {reason}. Paths are relative to the root of the workspace.",
        "此处不能使用该路径：{reason}。路径须相对于工作区根目录。",
    ),
    "INVALID_PATH.not a directory": (
        "This path is a file and not a directory. read_file reads it; to list, give the directory that it is in.",
        "该路径是文件，不是目录。请用 read_file 读取；如需列出，请给出其所在目录。",
    ),
    "INVALID_RANGE": (
        'The range "{range}" has no meaning: {reason}. Use N, N~M, N~, ~M or ~ (read_file also takes -N~); the file has {total_lines:line|lines}.',
        "范围 “{range}” 无效：{reason}。请使用 N、N~M、N~、~M 或 ~（read_file 还可用 -N~）；文件共 {total_lines} 行。",
    ),
    "INVALID_RANGE.less": (
        'The range "{range}" has no meaning: {reason}. Use N, N~M, N~, ~M or ~.',
        "范围 “{range}” 无效：{reason}。请使用 N、N~M、N~、~M 或 ~。",
    ),
    "RANGE_OUT_OF_BOUNDS": (
        'The range "{range}" is outside of the file, which has {total_lines:line|lines}.',
        "范围 “{range}” 超出文件，文件共 {total_lines} 行。",
    ),
    "INVALID_HUNK_ID": (
        "A hunk id is eight lower-case hex characters, as a prepare tool gave it.",
        "hunk id 为 8 位小写十六进制字符，由 prepare 工具给出。",
    ),
    "FILE_NOT_FOUND": (
        "There is nothing at this path. Look with list_dir or ripgrep_files; create_new_file makes a file.",
        "该路径处没有任何内容。可用 list_dir 或 ripgrep_files 查找；create_new_file 可创建文件。",
    ),
    "FILE_EXISTS": (
        "The file exists already and was left as it is. Edit it with the prepare tools.",
        "文件已存在，未改动。请用 prepare 工具编辑。",
    ),
    "NOT_A_FILE": (
        "This is not a regular file but: {kind}. Give the path of a file; list_dir shows what is there.",
        "这不是普通文件，而是：{kind}。请给出文件的路径；可用 list_dir 查看。",
    ),
    "BINARY_FILE": (
        "The file holds NUL bytes (the first at byte {nul_at_byte}); it is not text and cannot be shown or edited here.",
        "文件含有 NUL 字节（首个位于字节 {nul_at_byte}），不是文本，无法在此显示或编辑。",
    ),
    "ENCODING_ERROR": (
        "The file's encoding ({encoding}) cannot hold {character}. Use text that it can hold, or name its encoding in the configuration.",
        "文件编码（{encoding}）无法容纳 {character}。请改用其可容纳的文本，或在配置中指明编码。",
    ),
    "ENCODING_ERROR.less": (
        "The content holds \\xNN, as bytes of the file were shown that are no text ({encoding}). Edit the lines that change, where \\xNN stands for such a byte, or name the encoding in the configuration; \\\\xNN says the text.",
        "正文含有 \\xNN：文件（{encoding}）中无法解码的字节就是这样显示的。请只编辑有变动的行，其中 \\xNN 代表该字节；或在配置中指明编码。要写这几个字符本身，用 \\\\xNN。",
    ),
    "INCOMPLETE_READ": (
        "You were shown only a part of this file (lines {shown_lines} of {total_lines}), and the rest would be lost. Read the rest first, or edit the lines that change.",
        "你只读到此文件的一部分（共 {total_lines} 行中的第 {shown_lines} 行），其余内容会丢失。请先读完其余部分，或只编辑有变动的行。",
    ),
    "INCOMPLETE_READ.less": (
        "You were shown only a part of this file, and the rest would be lost. Read all of it first, or edit what changes.",
        "你只读到此文件的一部分，其余内容会丢失。请先读完全部内容，或只编辑有变动之处。",
    ),
    "FILE_TOO_LARGE": (
        "The file has {size_bytes} bytes; the limit is {limit_bytes}, which limit_bytes in the configuration can raise.",
        "文件有 {size_bytes} 字节，上限为 {limit_bytes}，可在配置中用 limit_bytes 提高。",
    ),
    "FILE_TOO_LARGE.whole_bytes": (
        "The file has {size_bytes} bytes, and this would need it as a whole, which is done up to {limit_bytes}; whole_bytes in the configuration can raise that. Edit fewer lines at once, by line numbers.",
        "文件有 {size_bytes} 字节，而此操作需要读入整个文件，上限为 {limit_bytes}，可在配置中用 whole_bytes 提高。请按行号一次编辑较少的行。",
    ),
    "CONTENT_REQUIRED": (
        "This tool needs text in {argument}; it was empty or missing.",
        "此工具需要在 {argument} 中给出正文；所给为空或缺失。",
    ),
    "ANCHOR_NOT_FOUND": (
        "No line matches the anchor ({argument}, {match}). Take a text from the closest lines shown, or search with ripgrep_snippets.",
        "没有行与锚点（{argument}，{match}）匹配。请改用所示相近行中的文本，或用 ripgrep_snippets 查找。",
    ),
    "ANCHOR_AMBIGUOUS": (
        "{candidates_count} places match the anchor ({argument}). Choose one with occurrence (1 to {candidates_count}, or last), or give a longer anchor.",
        "有 {candidates_count} 处与锚点（{argument}）匹配。请用 occurrence（1 到 {candidates_count}，或 last）选择，或给出更长的锚点。",
    ),
    "ANCHOR_NOT_FOUND.before_start": (
        "No line that matches the end anchor stands after one that matches the start anchor (both are shown). Swap the anchors, or give others.",
        "没有与结束锚点匹配的行位于起始锚点之后（两者均已列出）。请交换锚点或改用其他锚点。",
    ),
    "ANCHOR_AMBIGUOUS.nested": (
        "The chosen block holds other start anchors (see candidates). Choose an inner one with occurrence, give longer anchors, or say strict: false.",
        "所选块内还有其他起始锚点（见 candidates）。请用 occurrence 选择内层的块、给出更长的锚点，或设 strict: false。",
    ),
    "OCCURRENCE_OUT_OF_RANGE": (
        "There is no occurrence {occurrence}: choose from 1 to {candidates_count}, or last.",
        "没有第 {occurrence} 处：只有 {candidates_count} 个候选；请在 1 到 {candidates_count} 或 last 中选择。",
    ),
    "STATS_MISMATCH": (
        "The file has {actual_total_lines:line|lines} and {actual_total_bytes:byte|bytes}, which is not what you know. Read it again before you overwrite it.",
        "文件实际为 {actual_total_lines} 行、{actual_total_bytes} 字节，与所给不符。覆盖前请重新读取。",
    ),
    "SUSPICIOUS_DIFF": (
        "The content looks like a patch ({sign}, line {line}). Use the prepare tools to edit; if the file shall hold a patch, say content_format: diff.",
        "内容疑似补丁（{sign}，第 {line} 行）。编辑请用 prepare 工具；若文件确应包含补丁，请给出 content_format: diff。",
    ),
    "STALE_READ": (
        "The version {version} cannot be carried to the file as it is now: {reason}. Read the lines again; it has {total_lines:line|lines}.",
        "版本 {version} 无法对应到文件当前内容：{reason}。请重新读取；文件共 {total_lines} 行。",
    ),
    "HUNK_NOT_FOUND.unknown": (
        "There is no such plan. Prepare the edit again.",
        "没有这个规划。请重新 prepare。",
    ),
    "HUNK_NOT_FOUND.applied": (
        "The plan was applied already; it is not applied twice. For another edit, prepare anew.",
        "该规划已应用，不会重复应用。如需再次编辑，请重新 prepare。",
    ),
    "HUNK_NOT_FOUND.discarded": (
        "The plan was discarded. Prepare the edit again.",
        "该规划已被丢弃。请重新 prepare。",
    ),
    "HUNK_NOT_FOUND.expired": (
        "The plan has expired. Prepare the edit again.",
        "该规划已过期。请重新 prepare。",
    ),
    "WRONG_OWNER": (
        "The plan belongs to another member. Prepare the edit yourself.",
        "该规划属于其他成员。请自行 prepare。",
    ),
    "WRONG_MODE": (
        "The plan was made with {planned_with}; {called_with} cannot take it. Use the tools of the toolset that made it.",
        "该规划由 {planned_with} 产生，{called_with} 不能使用。请用产生它的工具集。",
    ),
    "ACCESS_DENIED": (
        "You may not {operation} here ({rule}). Work on another path, or ask for the right to this one.",
        "无权在此处 {operation}（{rule}）。请改用其他路径，或申请权限。",
    ),
    # why a person has to approve
    "approval.member": ("your edits are approved by a person", "你的编辑须由人批准"),
    "approval.path": ("edits there are approved by a person", "此处的编辑须由人批准"),
    "approval.lines": (
        "it has more lines than you may approve yourself",
        "行数超出你可自行批准的上限",
    ),
    "approval.files": (
        "it is in more files than you may approve yourself",
        "文件数超出你可自行批准的上限",
    ),
    "approval.drifted": (
        "the file changed after it was approved, so it is shown anew",
        "批准之后文件有变动，须重新展示",
    ),
    "APPROVAL_REQUIRED": (
        "A person has to approve the plan {hunk_id} first: {reason}. Nothing was written and the plan waits on. Do other work; you are told of the decision with the answer of a later call, and apply then.",
        "规划 {hunk_id} 须先由人批准：{reason}。未写入任何内容，规划仍保留。请先做其他工作；决定会随之后某次调用的答复告知，届时再应用。",
    ),
    "APPROVAL_REQUIRED.less": (
        "A person has to approve this edit first: {reason}. Nothing was written. This tool writes at once: plan the edit with a prepare tool instead (prepareBlockDiff for notes; prepare_file_append makes a new file), and it is shown to the person.",
        "此编辑须先由人批准：{reason}。未写入任何内容。此工具会立即写入：请改用 prepare 工具规划（笔记用 prepareBlockDiff；prepare_file_append 可创建新文件），规划会展示给批准人。",
    ),
    "HUNK_REJECTED": (
        "{by} rejected the plan {hunk_id}: {reason}. Nothing was written. Prepare another edit that heeds it, with existing_hunk_id in the place of this one, or discard it.",
        "{by} 拒绝了规划 {hunk_id}：{reason}。未写入任何内容。请据此重新 prepare（用 existing_hunk_id 取代此规划），或将其丢弃。",
    ),
    "ALREADY_DECIDED": (
        "{by} was first: the plan {hunk_id} is {verdict}. Nothing was changed; look at it again.",
        "{by} 已先作出决定：规划 {hunk_id} 为 {verdict}。未作任何更改；请重新查看。",
    ),
    "CONTENT_CHANGED": (
        "What the edit relies on changed: {reason}. Read around {planned_lines:line|lines} again and prepare anew.",
        "编辑所依据的内容已改变：{reason}。请重新读取第 {planned_lines} 行附近并再次 prepare。",
    ),
    "CONTENT_CHANGED.less": (
        "What the edit relies on is not what stands there: {reason}. Read the file again and prepare anew.",
        "编辑所依据的内容与现状不符：{reason}。请重新读取文件并再次 prepare。",
    ),
    "AMBIGUOUS_MATCH": (
        "The target could now be in more than one place, at lines {candidate_lines}. Prepare anew on the one that is meant.",
        "目标现在可能位于多处：第 {candidate_lines} 行。请针对所指位置重新 prepare。",
    ),
    "EDIT_NOT_FOUND": (
        "There is no edit {edit_id}; the newest is {newest_edit_id}. list_edits shows them.",
        "没有编辑 {edit_id}；最新的是 {newest_edit_id}。可用 list_edits 查看。",
    ),
    "EDIT_NOT_FOUND.less": (
        "There is no edit {edit_id}. list_edits shows those that there are.",
        "没有编辑 {edit_id}。可用 list_edits 查看已有的编辑。",
    ),
    "EDIT_NOT_FOUND.pruned": (
        "Edit {edit_id} is too old: it is no longer recorded, so it cannot be taken back. Edit the file as it is.",
        "编辑 {edit_id} 过旧，已不再保留记录，无法撤销。请直接编辑文件。",
    ),
    "EDIT_NOT_FOUND.replaced": (
        "The journal that recorded edit {edit_id} was lost or replaced, so the edit cannot be taken back. list_edits shows what is recorded now; edit the file as it is.",
        "记录编辑 {edit_id} 的日志已丢失或被替换，因此该编辑无法撤销。可用 list_edits 查看现有记录；请直接编辑文件。",
    ),
    "EDIT_NOT_FOUND.failed": (
        "Edit {edit_id} failed and wrote nothing, so there is nothing to take back.",
        "编辑 {edit_id} 未能写入，没有可撤销的内容。",
    ),
    "FAILED": (
        "The operating system refused ({operation}): {reason}. Nothing was changed; call again when that is mended.",
        "操作系统拒绝（{operation}）：{reason}。未作任何更改；排除原因后请重新调用。",
    ),
    "state.deleted": (
        "The state file {file} was deleted while copydesk was running, and was begun anew: {holds}. Files are as they were.",
        "状态文件 {file} 在 copydesk 运行期间被删除，现已重新建立：{holds}。工作区中的文件不受影响。",
    ),
    "state.replaced": (
        "The state file {file} was replaced by another one while copydesk was running: {holds}, as far as the new one does not have it. Files are as they were.",
        "状态文件 {file} 在 copydesk 运行期间被换成了另一个：新文件中没有的部分，{holds}。工作区中的文件不受影响。",
    ),
    "state.emptied": (
        "The state file {file} was found empty, and was begun anew: {holds}. Files are as they were.",
        "状态文件 {file} 为空，现已重新建立：{holds}。工作区中的文件不受影响。",
    ),
    "state.holds.plans": (
        "plans that waited are lost; prepare them again",
        "等待中的规划已丢失，请重新 prepare",
    ),
    "state.holds.decisions": (
        "approvals and rejections of plans are lost; what needs approval is asked for again",
        "对规划的批准与拒绝已丢失，需要批准的会重新请求",
    ),
    "state.holds.tally": (
        "statistics of how plans fared are lost",
        "规划结果的统计已丢失",
    ),
    "state.holds.snapshots": (
        "texts remembered until then are lost, so that a plan on a file that changed may be refused",
        "此前记住的文本已丢失，对已改动文件的规划可能被拒绝",
    ),
    "state.holds.journal": (
        "the history of edits until then is lost, and those edits cannot be undone",
        "此前的编辑历史已丢失，那些编辑无法撤销",
    ),
    "STATE_FAILED": (
        "The state file {file} cannot be used ({operation}): {reason}. No file was changed by this call; fix that and call again. Calls that do not need this file go on.",
        "状态文件 {file} 无法使用（{operation}）：{reason}。此次调用未更改任何文件；排除原因后请重新调用。不需要该文件的调用照常进行。",
    ),
    "STATE_DAMAGED": (
        "The state file {file} is damaged: {reason}. No file was changed by this call. Have copydesk doctor --repair set it aside: it is renamed, not deleted, and what is lost is reported. Calls that do not need this file go on.",
        "状态文件 {file} 已损坏：{reason}。此次调用未更改任何文件。请运行 copydesk doctor --repair 将其移开：只改名、不删除，并说明丢失的内容。不需要该文件的调用照常进行。",
    ),
    "STATE_SCHEMA": (
        "The state file {file} has schema {found_schema}, and this copydesk reads schema {own_schema}. No file was changed by this call. If a newer copydesk wrote it, use that version for all processes of this workspace, or give this one another folder with the setting state; if an older one did, end all copydesk processes of the workspace and have copydesk doctor --repair set the file aside.",
        "状态文件 {file} 的结构版本为 {found_schema}，而此 copydesk 读取的版本为 {own_schema}。此次调用未更改任何文件。若由较新的 copydesk 写入，请让此工作区的所有进程都使用该版本，或用 state 设置为此进程另设文件夹；若由较旧的写入，请结束此工作区的所有 copydesk 进程，再运行 copydesk doctor --repair 将其移开。",
    ),
    "BUSY": (
        "{target} is locked by another call since {held_since}: {holder_tool} of {holder_member}, process {holder_process} on {holder_machine}. It was waited for {waited_seconds} s and nothing was changed; call again. If it stays so, end that process.",
        "{target} 自 {held_since} 起被另一调用锁定：{holder_member} 的 {holder_tool}，{holder_machine} 上的进程 {holder_process}。已等待 {waited_seconds} 秒，未作任何更改；请重新调用。若一直如此，请结束该进程。",
    ),
    "BUSY.less": (
        "{target} is locked by another call. It was waited for {waited_seconds} s and nothing was changed; call again. If it stays so, end the process that holds it.",
        "{target} 被另一调用锁定。已等待 {waited_seconds} 秒，未作任何更改；请重新调用。若一直如此，请结束占用它的进程。",
    ),
    "SERVER_FAILED": (
        "The server that the machines share cannot be used ({operation}): {reason}. No file was changed by this call; call again when it answers.",
        "多台机器共用的服务器不可用（{operation}）：{reason}。此次调用未更改任何文件；待其恢复后请重新调用。",
    ),
    "CANCELLED": (
        "The call was cancelled before its write began. Nothing was written, and a plan waits on.",
        "此次调用在开始写入之前已被取消。未写入任何内容，规划仍保留。",
    ),
    "CONFIG_INVALID": (
        "The configuration cannot be used any more, so what you may do is not known: {reason}. Nothing was read or written. Have the file corrected and call again; no restart is needed.",
        "配置已无法使用，因此不清楚你有哪些权限：{reason}。未读取也未写入任何内容。请让人改正该文件后重新调用，无需重启。",
    ),
    "TURN_LOST": (
        "This process stood still, or was cut off, for too long: {reason}. Nothing was written and a plan waits on; call again.",
        "此进程停顿或断连过久：{reason}。未写入任何内容，规划仍保留；请重新调用。",
    ),
    "UNSETTLED": (
        "The write was broken off ({operation}): {reason}. It could not be taken back either, so a part of the edit may stand in {paths} until that is mended. The next edit there settles it first, and so does copydesk recover; read the file then.",
        "写入中断（{operation}）：{reason}，也未能恢复原状：在排除原因之前，{paths} 中可能留有部分编辑。下一次编辑该文件时会先行处理，也可运行 copydesk recover；之后请重新读取文件。",
    ),
    "CRASH": (
        "An internal error; it is logged under {log_id}. Nothing is known to be written.",
        "内部错误，日志编号 {log_id}。未确认有任何写入。",
    ),
}
