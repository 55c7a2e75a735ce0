"""What only the command line says."""

from __future__ import annotations

SAYINGS: dict[str, tuple[str, str]] = {
    # the command line
    "cli.none_wait": ("No plans wait.", "没有待处理的规划。"),
    "cli.none_written": ("Nothing was written yet.", "尚无写入记录。"),
    "cli.none_there": ("No edits of {path} are recorded.", "没有 {path} 的编辑记录。"),
    "cli.undoes": ("undoes {id}", "撤销 {id}"),
    "cli.undone_by": ("undone by {id}", "已由 {id} 撤销"),
    "cli.discarded": ("Discarded {id} ({path}).", "已丢弃 {id}（{path}）。"),
    "cli.nothing_to_settle": (
        "Nothing was left half done.",
        "没有中途中断的写入。",
    ),
    "settled.done": ("was written in full", "已完整写入"),
    "settled.failed": ("nothing of it is left, its plan waits", "未留下任何改动，规划仍保留"),
    "settled.unsure": (
        "another program changed the file: look at it yourself",
        "文件已被其他程序改动：请自行核对",
    ),
    "settled.open": ("could not be settled yet", "暂时无法处理"),
    "cli.swept": (
        "Removed {count:leftover file|leftover files} of processes that died.",
        "已清除中断进程遗留的 {count} 个临时文件。",
    ),
    "cli.next": (
        "To write it: copydesk apply {id}. To let it go: copydesk discard {id}.",
        "写入：copydesk apply {id}。丢弃：copydesk discard {id}。",
    ),
    "cli.approved": ("Approved {id} ({path}).", "已批准 {id}（{path}）。"),
    "cli.rejected": ("Rejected {id} ({path}): {why}", "已拒绝 {id}（{path}）：{why}"),
    "cli.written": (
        "Approved and wrote {id} ({path}), edit {edit}.",
        "已批准并写入 {id}（{path}），编辑 {edit}。",
    ),
    "cli.approve_long": (
        "This change is too long to be approved without a look. copydesk show {id} shows all of it; then: copydesk approve {id} --after {after}",
        "此改动过长，不能未看即批准。copydesk show {id} 显示其全部内容；之后：copydesk approve {id} --after {after}",
    ),
    "cli.approve_after": (
        "This is not what copydesk show {id} shows: the file has changed since it was planned. To approve what is shown here: copydesk approve {id} --after {after}",
        "这与 copydesk show {id} 所示不同：规划之后文件有变动。批准此处所示：copydesk approve {id} --after {after}",
    ),
    "cli.none_undecided": ("No plans wait for a decision.", "没有待决定的规划。"),
    "cli.step": (
        "[{at}/{count}] {id} {path}: {action} by {owner}, expires in {left}",
        "[{at}/{count}] {id} {path}：{action}，来自 {owner}，{left} 后过期",
    ),
    "cli.drifted": (
        "The file has changed since it was planned; this is the edit on the file as it is now.",
        "规划之后文件有变动；以下为该编辑在当前文件上的样子。",
    ),
    "cli.diff_cut": (
        "The diff is cut here: it can be approved when all of it was shown (a).",
        "diff 在此截断：显示全部（a）之后方可批准。",
    ),
    "cli.approve_this": ("Approve this edit?", "批准此编辑？"),
    "cli.reason": ("Reason (empty: do not reject):", "理由（留空则不拒绝）："),
    "cli.not_edited": ("The text is as it was.", "文本未改动。"),
    "cli.taken_back": ("Took the decision on {id} back.", "已收回对 {id} 的决定。"),
    "cli.edit_taken_back": (
        "Took edit {id} back in {path}.",
        "已撤销 {path} 中的编辑 {id}。",
    ),
    "cli.decided": ("{id} is {verdict} by {by}.", "{id} 已由 {by} 决定：{verdict}。"),
    "cli.reviewed": (
        "{approved} approved, {rejected} rejected, {written} written; {left} left.",
        "批准 {approved}，拒绝 {rejected}，写入 {written}；尚余 {left}。",
    ),
    "cli.key.approve": ("approve this edit; its owner writes it", "批准此编辑，由其所有者写入"),
    "cli.key.write": ("approve this edit and write it now", "批准此编辑并立即写入"),
    "cli.key.reject": ("reject this edit, with a reason", "拒绝此编辑，并给出理由"),
    "cli.key.edit": ("edit the new text in your editor", "在编辑器中修改新文本"),
    "cli.key.split": ("split this edit into its regions", "将此编辑按区域拆分"),
    "cli.key.undo": ("take the last answer back", "收回上一个回答"),
    "cli.key.all": ("show all of this edit", "显示此编辑的全部内容"),
    "cli.key.later": ("leave this edit for later", "暂不决定此编辑"),
    "cli.key.quit": ("quit", "退出"),
    "cli.key.help": ("this help", "显示此帮助"),
    "cli.see_pending": (
        "copydesk pending lists those that wait.",
        "copydesk pending 列出待处理的规划。",
    ),
    "cli.see_history": (
        "copydesk history lists the edits.",
        "copydesk history 列出已作的编辑。",
    ),
    "cli.see_doctor": (
        "copydesk doctor tells what is wrong and how to mend it.",
        "copydesk doctor 说明问题所在及解决办法。",
    ),
}
