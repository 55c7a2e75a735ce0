"""What a member hears of the people who decide on its plans."""

from __future__ import annotations

SAYINGS: dict[str, tuple[str, str]] = {
    "bell": (
        "A person has to approve the plan {id} of {path} before it is written: on the review page, or with copydesk review. What you answer here decides nothing.",
        "{path} 的规划 {id} 须由人批准后才会写入：请在审阅页面上，或用 copydesk review 决定。在此处的回答不构成决定。",
    ),
    "ask": (
        "{owner} wants to change {path} (plan {id}). Approve or reject exactly this:",
        "{owner} 要修改 {path}（规划 {id}）。请批准或拒绝以下改动：",
    ),
    "ask.decision": ("Decision", "决定"),
    "ask.reason": ("Reason, for a rejection", "拒绝的理由"),
    "ask.no": ("without a reason", "未说明理由"),
    "decision.approved": (
        '{by} approved the plan {id} of {path}; to write it: {apply}({{"hunk_id": "{id}"}}).',
        '{by} 批准了 {path} 的规划 {id}；写入：{apply}({{"hunk_id": "{id}"}})。',
    ),
    "decision.written": (
        "{by} approved the plan {id} of {path}, and it is written.",
        "{by} 批准了 {path} 的规划 {id}，并已写入。",
    ),
    "decision.rejected": (
        "{by} rejected the plan {id} of {path}: {why}",
        "{by} 拒绝了 {path} 的规划 {id}：{why}",
    ),
    "decision.amended": (
        "{by} gave the plan {id} of {path} another new text; it is to be approved so.",
        "{by} 修改了 {path} 的规划 {id} 的新文本，将按修改后的文本审批。",
    ),
    "decision.split": (
        "{by} made several plans of {id} ({path}), which are to be approved each: {why}",
        "{by} 将 {path} 的规划 {id} 拆分为多个，将分别审批：{why}",
    ),
}
