"""What only the command line says."""

from __future__ import annotations

SAYINGS: dict[str, tuple[str, str]] = {
    # the command line
    "cli.none_wait": ("No plans wait.", "没有待处理的规划。"),
    "cli.none_written": ("Nothing was written yet.", "尚无写入记录。"),
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
