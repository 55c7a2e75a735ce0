"""Every command of the README and the pages is one: pages that go on from step to step are run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from copydesk.app.cli.init import CLIENTS
from copydesk.app.cli.parser import parse

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs").glob("clients/*.md")),
]
NOT_OURS = re.compile(r"copydesk(?:/|-|_|\[|@|==|\.|$| in | is )")


def commands() -> list[tuple[str, str]]:
    """The lines of blocks of shell commands that begin with ours."""
    found: list[tuple[str, str]] = []
    for page in PAGES:
        for block in re.findall(r"```sh\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
            joined = block.replace("\\\n", " ")
            for line in joined.split("\n"):
                words = line.split("  #")[0].strip()
                if words.startswith("copydesk "):
                    found.append((page.name, words))
    return found


@pytest.mark.parametrize(("page", "words"), commands())
def test_the_command_line_takes_it(page: str, words: str) -> None:
    plain = re.sub(r"\$\([^)]*\)\)|\$id", "0a1b2c3d", words)
    plain = re.sub(r"\$\(.*\)", "0a1b2c3d", plain).split(" | ")[0].split(" < ")[0].split(" > ")[0]
    given = shlex.split(plain)[1:]
    given = [
        "0a1b2c3d" if word in ("ID", "HUNK") else "1" if word == "EDIT" else word for word in given
    ]
    if given[0] in ("help", "--version", "--help"):
        return
    assert parse(given).command


def steps(page: str) -> str:
    text = (ROOT / page).read_text("utf-8")
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    lines = [line for block in blocks for line in block.split("\n")]
    kept = [
        line for line in lines if not line.startswith(("pip ", "copydesk init", "copydesk serve"))
    ]
    return "\n".join(line for line in kept if not line.startswith("make "))


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_a_page_from_its_first_command_to_its_last(page: str, tmp_path: Path) -> None:
    kept = {name: text for name, text in os.environ.items() if not name.startswith("COPYDESK_")}
    path = os.pathsep.join((str(Path(sys.executable).parent), kept.get("PATH", "")))
    typed = "set -e\n" + steps(page).replace("/tmp/try", str(tmp_path))
    ran = subprocess.run(
        ["sh", "-c", typed],
        cwd=tmp_path,
        env={**kept, "PATH": path, "HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, (ran.stdout[-2000:], ran.stderr)
    if page == "docs/tutorial.md":
        after = (tmp_path / "try-copydesk/fruit.txt").read_text()
        assert after == "bananas\napples\npears\nplums\ncherries\n"


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_each_client_has_a_page_with_its_entry(client: object) -> None:
    from copydesk.app.cli.init import Client

    assert isinstance(client, Client)
    page = (ROOT / f"docs/clients/{client.name}.md").read_text("utf-8")
    assert page.startswith(f"# {client.title}\n")
    assert f"copydesk init --client {client.name}" in page
    assert Path(client.file).name in page
    assert client.keys[-1] in page
    assert f"clients/{client.name}.md" in (ROOT / "docs/clients.md").read_text("utf-8")
