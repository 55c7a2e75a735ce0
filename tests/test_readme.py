"""What the README and the guides tell one to type does what they say."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from copydesk.app.cli.parser import parse
from copydesk.app.config import load

ROOT = Path(__file__).parent.parent


def blocks(language: str, page: str = "README.md") -> list[str]:
    """The blocks of one language, in their order."""
    text = (ROOT / page).read_text("utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def run(words: list[str], folder: Path) -> str:
    """What a command says; it must not fail."""
    tools = str(Path(sys.executable).parent)
    kept = {name: text for name, text in os.environ.items() if not name.startswith("COPYDESK_")}
    path = os.pathsep.join((tools, kept.get("PATH", "")))
    ran = subprocess.run(
        words, cwd=folder, env={**kept, "PATH": path}, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


@pytest.mark.slow
def test_the_first_edit_in_the_shell(tmp_path: Path) -> None:
    first, second = (text for text in blocks("sh") if "copydesk call" in text)
    typed = "set -e\n" + first.replace("/tmp/try", str(tmp_path))
    said = run(["sh", "-c", typed], tmp_path)
    assert said.count("+zwei\n") == 3, "planned, applied, in the history"
    assert "Undid edit 1" in said
    assert (tmp_path / "notes.txt").read_text() == "one\ntwo\nthree\n"
    assert run(["sh", "-c", second], tmp_path).startswith("ok notes.txt:3 +1 -0 · edit 3 · ")
    assert (tmp_path / "notes.txt").read_text() == "one\ntwo\nand a half\nthree\n"


@pytest.mark.parametrize("page", ["README.md", "docs/library.md"])
def test_python(page: str, tmp_path: Path) -> None:
    code = "\n".join(blocks("python", page))
    said = run([sys.executable, "-c", code], tmp_path).split("\n")
    for shown in re.findall(r"^ *print\(.*\)  # (.+)$", code, re.MULTILINE):
        assert shown in said


def numbers(text: str) -> dict[str, int]:
    """The numbers in a text as digits, with how many of them follow the point."""
    found = re.findall(r"\d+(?:\.\d+)?", re.sub(r"(?<=\d),(?=\d{3})", "", text))
    return {one: len(one.partition(".")[2]) for one in found}


def test_the_comparison_has_the_numbers_of_the_benchmark() -> None:
    table = (ROOT / "README.md").read_text("utf-8").split("## How it compares")[1].split("\n## ")[0]
    measured = numbers((ROOT / "bench" / "RESULTS.md").read_text("utf-8"))
    for told, digits in numbers(table).items():
        assert any(f"{float(one):.{digits}f}" == told for one in measured), told


GUIDES = ("policies", "agents", "machines", "notes")


@pytest.mark.parametrize("name", GUIDES)
def test_settings_and_clients(name: str, tmp_path: Path) -> None:
    """Each configuration of a guide can be used, and each one of a client is JSON."""
    page = f"docs/{name}.md"
    for text in blocks("toml", page):
        (tmp_path / "copydesk.toml").write_text(text)
        load(str(tmp_path))
    for text in blocks("json", page):
        (server,) = json.loads(text)["mcpServers"].values()
        assert parse(server["args"]).command == "mcp"


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in GUIDES if name != "machines"])
def test_commands(name: str, tmp_path: Path) -> None:
    page = f"docs/{name}.md"
    settings = [text for text in blocks("toml", page) if "siyuan" not in text]
    (tmp_path / "copydesk.toml").write_text("".join(settings))
    for text in blocks("sh", page):
        assert run(["sh", "-ec", text], tmp_path)
