"""`copydesk hook`: makes an Edit or Write of Claude Code here, in place of the client's tool.

Claude Code runs it before each call of those tools (a PreToolUse hook), with the call as JSON on
standard input. A file below the root is edited here, with journal, approval and undo; the client's
own tool is told not to run, with the result of the edit. The client makes all other calls itself.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from copydesk.app.cli.parser import UsageError

if TYPE_CHECKING:  # most of the time of a hook is the time of its imports
    from copydesk.tools.report import Answer

Call = tuple[str, Mapping[str, object]]
"""A tool and its arguments."""

_AGAIN = (
    "Before the next Edit or Write of this file, read it: the client refuses them otherwise. "
    "Its first line is enough (limit: 1).\n"
)


def call_of_hook(root: str, text: str) -> Call | None:
    """The call of our tool for the input of a hook; None leaves it to the client.

    Raises UsageError.
    """
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise UsageError("standard input is not the JSON object of a hook")
    hook = cast("dict[str, object]", given)
    if hook.get("hook_event_name", "PreToolUse") != "PreToolUse":
        return None  # the client's tool has run
    return call_for(root, str(hook.get("tool_name")), hook.get("tool_input"))


def call_for(root: str, tool: str, arguments: object) -> Call | None:
    """The equivalent tool call; None leaves the call to the client."""
    if not isinstance(arguments, dict):
        return None
    given = cast("dict[str, Any]", arguments)
    path, is_edit = _below(root, given.get("file_path")), tool == "Edit"
    old = (given.get("old_string") or "") if is_edit else ""
    new = given.get("new_string" if is_edit else "content")
    are_texts = isinstance(old, str) and isinstance(new, str)
    if path is None or tool not in ("Edit", "Write") or not are_texts:
        return None  # the client itself refuses invalid calls
    if old:
        texts = {"old_string": old, "new_string": new}
        is_all = bool(given.get("replace_all"))
        return "Edit", {"path": path, **texts, "replace_all": is_all, "report": "brief"}
    target = os.path.join(root, path)
    if not os.path.lexists(target):  # it creates folders
        return "Write", {"path": path, "content": new, "report": "brief"}
    if is_edit and not (os.path.isfile(target) and not os.path.getsize(target)):
        return None  # without an old text the client only creates files, and says so
    return "write_file", {"path": path, "content": new}


def _below(root: str, given: object) -> str | None:
    """The path from the root, as given or with its directory resolved; None if it is outside."""
    if not isinstance(given, str) or "\0" in given:
        return None
    path = os.path.join(root, given)
    folder, name = os.path.split(path)
    try:
        real = os.path.join(os.path.realpath(folder), name)
    except UnicodeEncodeError:  # no file has such a name: our tool refuses it
        real = path
    for base, target in ((root, path), (os.path.realpath(root), real)):
        relative = os.path.relpath(target, base)
        if relative.split(os.sep)[0] != os.pardir:
            return relative
    return None


def denied(answer: Answer) -> dict[str, object]:
    """The answer of the hook: the client's tool does not run, and the agent reads this.

    It reads it as an error even after a success: a hook has no other way to keep the tool from
    running, and the tool would refuse a file that has changed since the client read it.
    """
    fields = answer.data
    done, text = fields.get("data", fields), answer.text
    if text.startswith("{"):  # an envelope, which has a text for readers too
        text = str(fields["text"])
    if isinstance(done, Mapping) and "edit_id" in done:
        text = f"{text.rstrip()}\n{_AGAIN}"
    said = f"copydesk made this call instead of the built-in tool. Its answer:\n{text}"
    decision = {"permissionDecision": "deny", "permissionDecisionReason": said}
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **decision}}
