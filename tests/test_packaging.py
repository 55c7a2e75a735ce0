"""What is published: the wheel and the source, installed and run on every Python that is here."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters

import copydesk
from support.mcp_calls import text_of
from support.mcp_transports import first_answer
from support.review_page import Reader

ROOT = Path(__file__).parent.parent
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
SECONDS = 300.0


def run(
    *words: str | Path, cwd: Path, stdin: bytes = b"", **more: str
) -> subprocess.CompletedProcess[bytes]:
    """A command with nothing of ours in its environment."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("COPYDESK_", "PYTHON"))}
    return subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env={**kept, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **more},
        input=stdin,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )


def done(*words: str | Path, cwd: Path, stdin: bytes = b"", **more: str) -> str:
    ran = run(*words, cwd=cwd, stdin=stdin, **more)
    assert ran.returncode == 0, (words, ran.stdout.decode()[-2000:], ran.stderr.decode()[-2000:])
    return ran.stdout.decode()


def python(version: str) -> str:
    """An interpreter of this version that is on the machine; skips the test where there is none."""
    for found in interpreters(version):
        said = run(found, "-c", "import sys, venv; print(*sys.version_info[:2])", cwd=ROOT)
        if said.returncode == 0 and said.stdout.decode().split() == version.split("."):
            return found
    pytest.skip(f"there is no Python {version} on this machine")


def interpreters(version: str) -> Iterator[str]:
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        yield sys.executable
    found = shutil.which(f"python{version}")
    if found:
        yield found
    yield from map(str, sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python")))


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    done(Path(sys.executable).with_name("hatchling"), "build", "-d", folder, cwd=ROOT)
    return folder


def only(dist: Path, pattern: str) -> Path:
    (found,) = dist.glob(pattern)
    return found


def installed(tmp_path: Path, version: str, what: Path) -> Path:
    """The folder of commands of a new environment that has this alone in it."""
    done(python(version), "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    commands = tmp_path / "venv" / "bin"
    # what is imported is compiled then, a tenth of what is installed
    done(commands / "python", "-m", "pip", "install", "-q", "--no-compile", what, cwd=tmp_path)
    return commands


def check_it_runs(commands: Path, tmp_path: Path) -> None:
    """The command, the server and the page's own packages, from a folder that is not ours."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.txt").write_text("one\n")
    assert (
        done(commands / "copydesk", "--version", cwd=root) == f"copydesk {copydesk.__version__}\n"
    )
    assert '"serverInfo":{"name":"copydesk"' in first_answer([commands / "copydesk", "mcp"], root)
    done(
        commands / "python",
        "-c",
        "import ahocorasick_rs, copydesk.app.mcp.http, pygments, jinja2",
        cwd=root,
    )
    searched = done(
        *(commands / "copydesk", "call", "ripgrep_search", "--pattern", "one"),
        cwd=root,
        PATH=str(commands),
    )
    assert "a.txt" in searched


@pytest.mark.slow
@pytest.mark.parametrize("version", PYTHONS)
def test_the_wheel_has_all_that_the_job_needs(dist: Path, tmp_path: Path, version: str) -> None:
    check_it_runs(installed(tmp_path, version, only(dist, "*.whl")), tmp_path)


@pytest.mark.slow
def test_the_source_builds_what_runs(dist: Path, tmp_path: Path) -> None:
    check_it_runs(installed(tmp_path, "3.11", only(dist, "*.tar.gz")), tmp_path)


@pytest.mark.slow
def test_the_index_would_take_them(dist: Path, tmp_path: Path) -> None:
    done(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    commands = tmp_path / "venv" / "bin"
    done(commands / "python", "-m", "pip", "install", "-q", "--no-compile", "twine", cwd=tmp_path)
    said = done(commands / "twine", "check", "--strict", *dist.iterdir(), cwd=tmp_path)
    assert re.sub(r"\x1b\[\d+m", "", said).count("PASSED") == 2


@pytest.mark.slow
def test_what_is_in_them(dist: Path) -> None:
    with zipfile.ZipFile(only(dist, "*.whl")) as wheel:
        names = wheel.namelist()
        metadata = wheel.read(next(name for name in names if name.endswith("METADATA"))).decode()
    heads = {name.split("/")[0] for name in names}
    assert heads == {"copydesk", f"copydesk-{copydesk.__version__}.dist-info"}
    shipped = {f"copydesk/{path.relative_to(ROOT / 'src' / 'copydesk')}" for path in ours()}
    assert shipped == {name for name in names if name.startswith("copydesk/")}
    extras = re.findall(r"^Provides-Extra: (.*)$", metadata, re.MULTILINE)
    assert extras == ["checks", "redis"]
    for extra in extras:
        assert f"extra == '{extra}'" in metadata, "no empty ones"
    links = re.findall(r"\]\(([^)\s]+)\)", metadata.partition("\n\n")[2])
    assert links
    assert all(link.startswith(("https://", "#")) for link in links), (
        "the index has no files of ours"
    )
    with tarfile.open(only(dist, "*.tar.gz")) as source:
        inside = {name.partition("/")[2] for name in source.getnames()}
    command = ["git", "ls-files"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        assert {name for name in listed.stdout.split("\n") if (ROOT / name).is_file()} <= inside
    assert {"pyproject.toml", "README.md", "LICENSE", "NOTICE", "tests/conftest.py"} <= inside


@pytest.mark.slow
def test_the_tests_run_from_the_source_distribution(dist: Path, tmp_path: Path) -> None:
    with tarfile.open(only(dist, "*.tar.gz")) as source:
        source.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.glob("copydesk-*")
    words = ["tests/test_change.py", "tests/test_publishing.py", "tests/test_house.py"]
    done(sys.executable, "-m", "pytest", "-q", "-m", "not slow", *words, cwd=folder)


@pytest.mark.slow
def test_a_new_version_is_installed_beside_a_running_server(dist: Path, tmp_path: Path) -> None:
    """The old server goes on; what both write is one history; another schema is refused by both."""
    commands = installed(tmp_path, "3.11", only(dist, "*.whl"))
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.txt").write_text("one\n")
    package = next((tmp_path / "venv").glob("lib/python*/site-packages/copydesk"))
    anyio.run(_old_server, commands, root, package)


async def _old_server(commands: Path, root: Path, package: Path) -> None:
    server = StdioServerParameters(
        command=str(commands / "copydesk"), args=["mcp", "--root", str(root)], cwd="/"
    )
    append = ("call", "prepare_file_append", "--path", "a.txt", "--apply", "auto", "--content")
    async with Client(server) as agent:

        async def call(name: str, **arguments: str) -> str:
            return text_of(await agent.call_tool(name, arguments))

        assert "ok a.txt" in await call(
            "prepare_file_append", path="a.txt", content="two", apply="auto"
        )
        version = package / "__init__.py"
        version.write_text(version.read_text().replace("0.2.0", "0.2.1"))
        said = done(commands / "copydesk", "--version", cwd=root)
        assert said == "copydesk 0.2.1\n"
        assert "edit 2" in done(commands / "copydesk", *append, "three", cwd=root)
        assert "edit 3" in await call(
            "prepare_file_append", path="a.txt", content="four", apply="auto"
        )
        for name, arguments in {
            "ripgrep_search": {"pattern": "two"},
            "list_dir": {"path": "."},
            "list_edits": {},
            "undo_file_modification": {"edit_id": 3},
        }.items():
            result = await agent.call_tool(name, arguments)
            assert not result.is_error, text_of(result)
        api = package / "desk/backends/api.py"
        text = api.read_text()
        (number,) = re.findall(r"^SCHEMA = (\d+)$", text, re.MULTILINE)
        api.write_text(text.replace(f"\nSCHEMA = {number}\n", "\nSCHEMA = 99\n"))
        newer = run(commands / "copydesk", *append, "five", cwd=root)
        assert newer.returncode != 0
        assert f"has schema {number}" in (newer.stdout + newer.stderr).decode()
        assert "edit 5" in await call(
            "prepare_file_append", path="a.txt", content="six", apply="auto"
        )
    assert (root / "a.txt").read_text() == "one\ntwo\nthree\nsix\n"


def ours() -> Iterator[Path]:
    for path in (ROOT / "src" / "copydesk").rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "missing", "mend"),
    [
        (["mcp"], "mcp", "pip install 'copydesk'"),
        (["serve", "--port", "0"], "jinja2", "pip install 'copydesk'"),
        (["pending", "--json"], "msgpack", "pip install 'copydesk'"),
    ],
)
def test_a_package_that_is_missing_is_one_sentence(
    tmp_path: Path, words: list[str], missing: str, mend: str
) -> None:
    program = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "from copydesk.app.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    ran = run(sys.executable, "-c", program, *words, cwd=tmp_path)
    said = (ran.stdout + ran.stderr).decode()
    assert ran.returncode == 2
    assert "Traceback" not in said
    assert f"the Python package '{missing}' is not installed" in said
    assert mend in said


@pytest.mark.slow
def test_from_nothing_to_an_approved_edit_as_the_readme_has_it(dist: Path, tmp_path: Path) -> None:
    """An empty home, a new project: install, init, an agent plans, the page approves, it is written."""
    text = (ROOT / "README.md").read_text("utf-8")
    typed = re.findall(r"^(?:pip|copydesk) .*", text, re.MULTILINE)[:3]
    install, init, serve = (line.split() for line in typed)
    assert (install, init[:2], serve) == (
        ["pip", "install", "copydesk"],
        ["copydesk", "init"],
        ["copydesk", "serve"],
    )
    commands = installed(tmp_path, "3.11", only(dist, "*.whl"))
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    (project / "notes.txt").write_text("one\ntwo\nthree\n")
    new = {"HOME": str(home), "PATH": f"{commands}{os.pathsep}{os.defpath}"}
    done(commands / init[0], *init[1:], cwd=project, stdin=b"y\n", **new)
    config = json.loads((project / ".mcp.json").read_text())["mcpServers"]["copydesk"]
    serving = subprocess.Popen(
        [commands / serve[0], *serve[1:], "--port", "0"],
        cwd=project,
        env={**os.environ, **new},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert serving.stdout is not None
        said = next(line for line in serving.stdout if "review page" in line)
        page, token = re.findall(r"(http://[^/]*)/sign-in\?token=(\S+)", said)[0]
        with httpx2.Client(base_url=page, timeout=SECONDS) as http:
            anyio.run(_agent_and_reader, config, http, token, home)
    finally:
        serving.terminate()
        serving.wait(30)
        assert serving.stdout is not None
        serving.stdout.close()
    assert (project / "notes.txt").read_text() == "one\nzwei\nthree\n"


async def _agent_and_reader(
    config: dict[str, Any], http: httpx2.Client, token: str, home: Path
) -> None:
    """An agent, by the client's configuration as it stands, and a person at the page."""
    server = StdioServerParameters(
        command=config["command"], args=config["args"], env={"HOME": str(home)}, cwd="/"
    )
    async with Client(server) as agent:

        async def call(name: str, **arguments: str) -> str:
            return text_of(await agent.call_tool(name, arguments))

        planned = await call("prepare_file_range_edit", path="notes.txt", range="2", content="zwei")
        hunk = re.findall(r"hunk_id: '?([0-9a-f]{8})|\b([a-f][0-9a-f]{7})\b", planned)[0]
        hunk_id = hunk[0] or hunk[1]
        assert "APPROVAL_REQUIRED" in await call("apply_file_modification", hunk_id=hunk_id)
        reader = Reader(http, "Ada")
        response = reader.post("/sign-in", {"token": token, "name": "Ada"})
        reader.cookies = dict(response.cookies.items())
        reader.send(f"/hunk/{hunk_id}", f"/hunk/{hunk_id}/approve")
        assert (await call("apply_file_modification", hunk_id=hunk_id)).startswith("ok notes.txt")
