"""The programs of docs/library.md: they do what they say, and pass the type checkers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from copydesk import Append, Desk

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/library.md").read_text("utf-8")
PROGRAMS = dict(re.findall(r'```python title="(\w+\.py)"\n(.*?)```', PAGE, re.DOTALL))
BIN = Path(sys.executable).parent


def run(folder: Path, name: str, *words: str | Path, typed: str = "") -> str:
    program = folder / name
    program.write_text(PROGRAMS[name])
    ran = subprocess.run(
        [sys.executable, program, *words], input=typed, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    return root


@pytest.mark.slow
def test_an_agent_whose_edits_a_person_approves(root: Path, tmp_path: Path) -> None:
    (root / "copydesk.toml").write_text('[members.agent]\napproval = "human"\n')
    (root / "a.txt").write_text("helo wrld\n")
    said = run(tmp_path, "approval.py", root, "a.txt", typed="y\nn\n")
    assert (root / "a.txt").read_text() == "hello wrld\n"
    answers = re.findall(r"to the model: (.*)", said)
    assert answers[:2] == ["ok, edit 1", "rejected: not this one"]
    assert answers[2].startswith("PARTIAL_MATCH_FAIL: ")


@pytest.mark.slow
def test_a_codemod_of_fifty_files_in_one_transaction(root: Path, tmp_path: Path) -> None:
    text = "def old_name():\n    return 1\n\n\nprint(old_name())\n"
    for number in range(50):
        (root / f"m{number}.py").write_text(text)
    said = run(tmp_path, "codemod.py", root)
    assert said.startswith("50 files; ")
    assert {path.read_text() for path in root.glob("*.py")} == {text.replace("old_", "new_")}


@pytest.mark.slow
def test_a_watcher(root: Path, tmp_path: Path) -> None:
    program = tmp_path / "watcher.py"
    program.write_text(PROGRAMS["watcher.py"])
    with (
        Desk(root, shared=True, member="ann") as desk,
        subprocess.Popen(
            [sys.executable, "-u", program, root, "5"], stdout=subprocess.PIPE, text=True
        ) as watching,
    ):
        assert watching.stdout is not None
        plan = desk.prepare(Append("a.txt", "one\ntwo\n"), why="a start")
        assert watching.stdout.readline() == "planned ann a.txt a start\n"
        desk.apply(plan)
        said = watching.stdout.read()
    assert said == "written ann a.txt a start\nann added 2 lines\n"


@pytest.mark.slow
def test_the_type_checkers_accept_them(tmp_path: Path) -> None:
    for name, text in PROGRAMS.items():
        (tmp_path / name).write_text(text)
    snippets = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "snippets.py").write_text("\n".join(snippets))
    for words in (
        [BIN / "mypy", "--strict", "--no-incremental", "--config-file", "/dev/null", tmp_path],
        [BIN / "basedpyright", "--level", "error", "--pythonpath", sys.executable, tmp_path],
    ):
        ran = subprocess.run(
            list(map(str, words)), cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stdout
