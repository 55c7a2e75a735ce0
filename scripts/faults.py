"""What becomes of the faults of models, tool by tool: `python scripts/faults.py > docs/faults.md`.

Each fault, in the old text of an edit or in its new text, is sent to every tool; the cell says what
the file was afterwards, and whether the next step that the answer names writes what was meant.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from copydesk.app.config import Config
from copydesk.app.workspace import OpenWorkspace, open_workspace

LINES = ["def run():", *(f"    step_{number}()" for number in range(1, 9)), "", "def stop():"]
TEXT = "".join(f"{line}\n" for line in [*LINES, "    print(\u201cbye\u201d)", "    return 2"])
OLD = "".join(f"    step_{number}()\n" for number in range(2, 8))
NEW = "    changed()\n    again()\n"
QUOTED = "    print(\u201cbye\u201d)\n"

Change = Callable[[str], str]


def _straight(text: str) -> str:
    return text.replace("\u201c", '"').replace("\u201d", '"')


def _each(change: Change) -> Change:
    return lambda text: "".join(f"{change(line)}\n" for line in text.splitlines())


def _numbered(form: str) -> Change:
    return lambda text: "".join(
        form.format(number, line) + "\n" for number, line in enumerate(text.splitlines(), 3)
    )


OLD_FAULTS: Mapping[str, tuple[str, Change, Change]] = {
    "indented less, both": (OLD, _each(lambda line: line[4:]), _each(lambda line: line[4:])),
    "blanks at line ends": (OLD, _each(lambda line: line + "  "), str),
    "tabs for blanks": (OLD, _each(lambda line: "\t" + line[4:]), _each(lambda x: "\t" + x[4:])),
    "our line numbers, both": (OLD, _numbered("{:>4}| {}"), _numbered("{:>4}| {}")),
    "no-break spaces": (OLD, lambda text: text.replace(" ", "\u00a0"), str),
    "straight quotes": (
        QUOTED,
        lambda text: text.replace("\u201c", '"').replace("\u201d", '"'),
        str,
    ),
    "`...` between lines": (OLD, lambda text: "    step_2()\n    ...\n    step_7()\n", str),
    "another word": (OLD, lambda text: text.replace("step_4", "stop_4"), str),
}
NEW_FAULTS: Mapping[str, Change] = {
    "our line numbers": _numbered("{:>4}| {}"),
    "`...`": lambda text: "    changed()\n    ...\n",
    "`# ... rest unchanged ...`": lambda text: "    a()\n    # ... rest of file unchanged ...\n",
    "a fence around it": lambda text: f"```python\n{text}```\n",
    "conflict markers": lambda text: f"<<<<<<< HEAD\n{OLD}>>>>>>> other\n",
}


def _blocks(old: str, new: str) -> dict[str, Any]:
    return {"text": f"a.py\n<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n", "apply": "auto"}


def _patch(old: str, new: str) -> dict[str, Any]:
    lines = [*(f"-{one}\n" for one in old.splitlines()), *(f"+{one}\n" for one in new.splitlines())]
    text = f"*** Begin Patch\n*** Update File: a.py\n@@\n{''.join(lines)}*** End Patch"
    return {"patch": text, "apply": "auto"}


TOOLS: Mapping[str, Callable[[str, str], dict[str, Any]]] = {
    "replace_text": lambda old, new: {"path": "a.py", "old": old, "new": new},
    "apply_blocks": _blocks,
    "apply_patch": _patch,
    "Edit": lambda old, new: {"path": "a.py", "old_string": old, "new_string": new},
    "BatchEdit": lambda old, new: {
        "path": "a.py",
        "edits": [{"old_string": old, "new_string": new}],
    },
    "edit_file": lambda old, new: {"path": "a.py", "edits": [{"oldText": old, "newText": new}]},
    "str_replace": lambda old, new: {
        "command": "str_replace",
        "path": "a.py",
        "old_str": old,
        "new_str": new,
    },
}
_NAMES = {"str_replace": "str_replace_based_edit_tool"}


def _ids(facts: Mapping[str, Any]) -> list[str]:
    own = facts.get("hunk_id") or facts.get("data", {}).get("hunk_id")
    return [own] if own else [one["hunk_id"] for one in facts.get("hunks", [])]


def cell(desk: OpenWorkspace, tool: str, old: str, new: str, meant: str) -> str:
    """What became of one call; `meant` is the text that the file was to have."""
    file = Path(desk.root, "a.py")
    file.write_text(TEXT, "utf-8")
    answer = desk.call("local", _NAMES.get(tool, tool), TOOLS[tool](old, new))
    now = file.read_text("utf-8")
    if now != TEXT:
        return "written" if now == meant else "**WRONG**"
    ids = _ids(dict(answer.data))
    if not ids:
        return "refused"
    for hunk_id in ids:
        desk.call("local", "apply_file_modification", {"hunk_id": hunk_id})
    return "planned" if file.read_text("utf-8") == meant else "planned, **WRONG**"


def page() -> str:
    """The page, in Markdown."""
    head = "".join(f" {tool} |" for tool in TOOLS)
    rows: dict[str, list[str]] = {"old": [], "new": []}
    with tempfile.TemporaryDirectory() as top:
        config = Config(durability="fast", toolsets=("ws_mod", "batch", "compat", "patch"))
        with open_workspace(top, config) as desk:
            for name, (there, old, new) in OLD_FAULTS.items():
                meant = TEXT.replace(there, NEW)
                cells = (cell(desk, tool, old(there), new(NEW), meant) for tool in TOOLS)
                rows["old"].append(f"| {name} | {' | '.join(cells)} |")
            for name, change in NEW_FAULTS.items():
                meant = TEXT.replace(OLD, change(NEW))
                cells = (cell(desk, tool, OLD, change(NEW), meant) for tool in TOOLS)
                rows["new"].append(f"| {name} | {' | '.join(cells)} |")
    line = "|---" * (len(TOOLS) + 1) + "|"
    tables = {key: "\n".join((f"| fault |{head}", line, *found)) for key, found in rows.items()}
    return f"""# Faults of models, tool by tool

Generated by `python scripts/faults.py > docs/faults.md`. *Planned*: nothing was written, and the
next step that the answer names writes what was meant (of a new text: the text as it was sent).
*Written*: at once, as meant.

## In the old text

{tables["old"]}

## In the new text

{tables["new"]}
"""


if __name__ == "__main__":
    print(page(), end="")
