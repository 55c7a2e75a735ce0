"""What is imported when: help and the package itself fetch nothing that is heavy."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from copydesk.app.cli import importing

HEAVY = (
    *("mcp", "mcp_types", "pydantic", "jsonschema", "sqlite3", "apsw", "asyncio", "anyio", "rich"),
    *("msgpack", "starlette", "uvicorn", "httpx", "difflib", "hypothesis", "copydesk.desk"),
)
OUTSIDE = '{"tool_name": "Write", "tool_input": {"file_path": "/etc/hosts", "content": ""}}'
SERVERS = ("mcp", "mcp_types", "pydantic", "jsonschema", "anyio", "starlette", "uvicorn", "asyncio")


def imported(code: str, watched: tuple[str, ...]) -> list[str]:
    """Those of the watched modules that are there after the code ran in a new process."""
    tail = f"import sys; print('|', *[name for name in {watched!r} if name in sys.modules])"
    script = f"try:\n    {code}\nexcept SystemExit:\n    pass\n{tail}"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    return ran.stdout.rpartition("|")[2].split()


MAIN = "from copydesk.app.cli import main; main({!r})"


@pytest.mark.parametrize(
    "code",
    [
        *("import copydesk", "import copydesk.app.cli", "import copydesk.app.mcp.early"),
        *(MAIN.format(words) for words in (["--help"], ["--version"], ["call", "--help"])),
        *(MAIN.format(words) for words in (["serve", "--help"], [])),
        f"import io, sys; sys.stdin = io.StringIO({OUTSIDE!r}); " + MAIN.format(["hook"]),
    ],
)
def test_nothing_heavy_for_help_and_the_first_answers(code: str) -> None:
    assert imported(code, HEAVY) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        *(["schema"], ["pending"], ["call", "read_file", "--help"], ["doctor"]),
        ["call", "read_file", "--max_lines", "many"],
    ],
)
def test_no_server_for_what_serves_nothing(words: list[str]) -> None:
    assert imported(MAIN.format(words), SERVERS) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    ["from copydesk import Desk", MAIN.format(["pending"]), MAIN.format(["call", "list_edits"])],
)
def test_a_start_without_notes_fetches_none_of_theirs(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    parts = "protocol", "markdown", "desk", "plan", "grammar"
    theirs = tuple(f"copydesk.notes.{part}" for part in parts)
    assert imported(code, theirs + (SERVERS if "Desk" in code else ())) == []


@pytest.mark.slow
@pytest.mark.parametrize(("command", "frozen"), [("mcp", True), ("pending", False)])
def test_the_collector_passes_over_a_server(command: str, frozen: bool, tmp_path: Path) -> None:
    script = (
        "import gc, copydesk.app.cli as cli; "
        f"status = cli.main([{command!r}, '--root', {str(tmp_path)!r}]); "
        "print('|', status, gc.isenabled(), gc.get_freeze_count() > 10_000)"
    )
    ran = subprocess.run([sys.executable, "-c", script], input=b"", capture_output=True, check=True)
    assert ran.stdout.decode().rpartition("|")[2].split() == ["0", "True", str(frozen)]


@pytest.mark.parametrize("on", [True, False])
def test_the_collector_pauses_for_imports_and_is_as_before(on: bool) -> None:
    assert gc.isenabled()
    if not on:
        gc.disable()
    try:
        with importing():
            assert not gc.isenabled()
        assert gc.isenabled() is on
        with pytest.raises(ModuleNotFoundError), importing():
            raise ModuleNotFoundError
        assert gc.isenabled() is on
    finally:
        gc.enable()


def test_the_front_door_is_found() -> None:
    import copydesk

    assert copydesk.Desk.__name__ == "Desk"
    assert set(copydesk.__all__) <= {*dir(copydesk), "Desk"}
    with pytest.raises(AttributeError, match="nothing"):
        _ = copydesk.nothing
