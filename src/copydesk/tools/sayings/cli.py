"""What only the command line says."""

from __future__ import annotations

SAYINGS: dict[str, tuple[str, str]] = {
    # the command line
    "cli.none_wait": ("No plans wait.", "没有待处理的规划。"),
    "cli.none_written": ("Nothing was written yet.", "尚无写入记录。"),
    "cli.discarded": ("Discarded {id} ({path}).", "已丢弃 {id}（{path}）。"),
    "cli.next": (
        "To write it: copydesk apply {id}. To let it go: copydesk discard {id}.",
        "写入：copydesk apply {id}。丢弃：copydesk discard {id}。",
    ),
    "cli.see_pending": (
        "copydesk pending lists those that wait.",
        "copydesk pending 列出待处理的规划。",
    ),
    "cli.see_doctor": (
        "copydesk doctor tells what is wrong and how to mend it.",
        "copydesk doctor 说明问题所在及解决办法。",
    ),
}
