"""Jobs written out in the forms that tools take."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from bench.contestant import FILE, How
from bench.data import LineEdit, envelope, unified


def write_job(folder: Path, how: How, edits: Sequence[LineEdit]) -> Path:
    """Write a job; its folder."""
    folder.mkdir(parents=True)
    rows = [[edit.line, edit.old, edit.new] for edit in edits]
    (folder / "job.json").write_text(json.dumps({"how": how, "edits": rows}))
    (folder / "job.patch").write_text(unified(edits, FILE))
    (folder / "job.codex").write_text(envelope(edits, FILE))
    (folder / "job.sed").write_text("".join(_sed(how, edit) for edit in edits))
    return folder


def _sed(how: How, edit: LineEdit) -> str:
    """By number, or after the line with the text; marked lines have no special characters."""
    if how == "anchor":
        return "\\\n".join((f"/{edit.old[0].strip()}/a", *edit.new[1:])) + "\n"
    return "\\\n".join((f"{edit.line}c", *edit.new)) + "\n"
