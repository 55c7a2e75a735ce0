"""Calls of the batch toolset, each checked for the form that all its answers have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from copydesk.app.workspace import OpenWorkspace


def call(desk: OpenWorkspace, name: str, **arguments: Any) -> dict[str, Any]:
    """The envelope, which is of the right form whatever happens."""
    answer = desk.call("local", name, arguments)
    fields: dict[str, Any] = answer.fields
    assert answer.is_error == (fields["status"] == "error")
    return fields


def put(desk: OpenWorkspace, path: str, data: bytes | str) -> Path:
    """A file with this content, whoever wrote it."""
    target = Path(desk.root, path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data.encode() if isinstance(data, str) else data)
    return target


def pairs(*edits: tuple[str, str]) -> list[dict[str, str]]:
    """The argument `edits`."""
    return [{"old_string": old, "new_string": new} for old, new in edits]


def refused(
    desk: OpenWorkspace, code: str, target: Path | None, name: str, **arguments: Any
) -> dict[str, Any]:
    """The call is refused with this code; bytes, times and journal stay as they are."""
    before = None if target is None else (target.read_bytes(), target.stat().st_mtime_ns)
    entries = desk.journal.entries()
    found = call(desk, name, **arguments)
    assert found["error"]["code"] == code, found
    assert found["data"].get("applied", False) is False
    assert desk.journal.entries() == entries
    if target is not None:
        assert before == (target.read_bytes(), target.stat().st_mtime_ns)
    return found


def nulls(value: object) -> bool:
    """Whether the value holds a null at any depth."""
    if isinstance(value, dict):
        return any(map(nulls, value.values()))
    return value is None or (isinstance(value, list) and any(map(nulls, value)))
