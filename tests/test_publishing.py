"""What is published besides the package: manifests of one version, and the hook of the plugin."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from copydesk.app.cli import main
from copydesk.app.cli.hook import call_for, denied
from copydesk.app.workspace import open_workspace

ROOT = Path(__file__).parent.parent
MANIFESTS = (
    "server.json",
    "integrations/claude-code/.claude-plugin/plugin.json",
    "integrations/claude-code-edits/.claude-plugin/plugin.json",
    "integrations/mcpb/manifest.json",
)


def project(path: str) -> Any:
    return tomllib.loads((ROOT / path).read_text())["project"]


def test_what_is_measured_is_a_plain_install() -> None:
    """The pins of `make bench` add to it only what builds the package, and what W14 needs."""
    pinned = (ROOT / "requirements/run.in").read_text()
    names = {re.split(r"[^\w-]", line)[0] for line in pinned.split("\n")} - {""}
    plain = {re.split(r"[^\w-]", one)[0] for one in project("pyproject.toml")["dependencies"]}
    assert names == plain | {"hatchling", "editables", "redis"}


def test_all_have_the_version_of_the_package() -> None:
    version = project("pyproject.toml")["version"]
    assert {json.loads((ROOT / path).read_text())["version"] for path in MANIFESTS} == {version}
    entry = json.loads((ROOT / "server.json").read_text())
    (package,) = entry["packages"]
    bundle = project("integrations/mcpb/pyproject.toml")
    assert (package["version"], bundle["version"]) == (version, version)
    assert bundle["dependencies"] == [f"copydesk=={version}"]
    assert f"mcp-name: {entry['name']}" in (ROOT / "README.md").read_text()
    assert len(entry["description"]) <= 100


def test_actions_are_pinned_by_digest() -> None:
    workflows = [*(ROOT / ".github/workflows").glob("*.yml")]
    assert len(workflows) == 2
    for workflow in workflows:
        for used in re.findall(r"uses: (.*)", workflow.read_text()):
            assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v[\d.]+", used), used


def test_the_classifiers_agree_with_the_readme_and_the_checks() -> None:
    classifiers = project("pyproject.toml")["classifiers"]
    pythons = re.findall(r"Python :: (3\.\d+)", "\n".join(classifiers))
    checks = (ROOT / ".github/workflows/checks.yml").read_text()
    assert re.findall(r'"(3\.\d+)"', checks.partition("python: [")[2].partition("]")[0]) == pythons
    least = project("pyproject.toml")["requires-python"].removeprefix(">=")
    assert pythons[0] == least
    readme = (ROOT / "README.md").read_text()
    assert f"Python {least} or newer on Linux" in readme
    assert "Operating System :: POSIX :: Linux" in classifiers
    assert set(project("pyproject.toml")["urls"]) >= {"Homepage", "Documentation", "Changelog"}


@pytest.mark.slow
def test_the_package_is_a_program_as_well() -> None:
    said = subprocess.run(
        [sys.executable, "-m", "copydesk", "--version"], capture_output=True, text=True, check=True
    )
    assert said.stdout.startswith("copydesk ")


def called(root: Path, tool: str, **given: object) -> tuple[str, dict[str, Any]]:
    """The call that is made here of one of the client's."""
    found = call_for(str(root), tool, {"file_path": "a.txt", **given})
    assert found is not None
    return found


def hook(root: Path, **call: object) -> str:
    """What the plugin's command answers to a call of the client, as the client would run it."""
    hooks = json.loads((ROOT / "integrations/claude-code-edits/hooks/hooks.json").read_text())
    (asked,) = hooks["hooks"]["PreToolUse"]
    (command,) = asked["hooks"]
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    return subprocess.run(
        ["sh", "-c", command["command"]],
        input=json.dumps({"hook_event_name": "PreToolUse", "cwd": str(root), **call}),
        env={"PATH": path, "CLAUDE_PROJECT_DIR": str(root)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


@pytest.mark.parametrize("name", ["x\ud800", "a\ud800/b.txt", "\udc80/b.txt"])
def test_a_name_with_half_of_a_pair_is_refused(tmp_path: Path, name: str) -> None:
    _, given = called(tmp_path, "Write", file_path=name, content="")
    assert given["path"] == name


@pytest.mark.slow
def test_the_clients_edit_is_made_here(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one\ntwo\n")
    given = {"file_path": str(file), "old_string": "two", "new_string": "2"}
    said = json.loads(hook(tmp_path, tool_name="Edit", tool_input=given))["hookSpecificOutput"]
    assert said["permissionDecision"] == "deny"
    assert "ok a.txt +1 -1 · edit 1" in said["permissionDecisionReason"]
    assert file.read_text() == "one\n2\n"
    after = {"hook_event_name": "PostToolUse", "tool_name": "Edit", "tool_input": given}
    assert hook(tmp_path, **after) == ""
    assert hook(tmp_path, tool_name="Bash", tool_input={"command": "ls"}) == ""
    outside = {"file_path": "/etc/hosts", "content": "x"}
    assert hook(tmp_path, tool_name="Write", tool_input=outside) == ""


@pytest.mark.parametrize(
    ("tool", "given", "after"),
    [
        ("Edit", {"old_string": "a", "new_string": "A"}, "A b\nb\n"),
        ("Edit", {"old_string": "b", "new_string": "B", "replace_all": True}, "a B\nB\n"),
        ("Write", {"content": "all\n"}, "all\n"),
    ],
)
@pytest.mark.parametrize("approval", ["self", "human"])
def test_where_a_person_approves_there_is_a_plan_that_the_same_call_applies(
    tmp_path: Path, tool: str, given: dict[str, object], after: str, approval: str
) -> None:
    file, before = tmp_path / "a.txt", "a b\nb\n"
    file.write_text(before)
    (tmp_path / "copydesk.toml").write_text(f'[members.local]\napproval = "{approval}"\n')
    with open_workspace(str(tmp_path), shared=False) as opened:
        found = called(tmp_path, tool, **{"file_path": str(file), **given})
        opened.call("local", *found)
        waits = opened.desk.waiting(opened.member("local"))
        assert file.read_text() == (after if approval == "self" else before)
        assert len(waits) == (approval == "human")
        for plan in waits:
            seen = opened.desk.review.show(opened.member("eve"), plan.id)
            opened.desk.review.approve(opened.member("eve"), plan.id, seen.before, seen.after)
            opened.call("local", *found)
    assert file.read_text() == after


def test_a_new_file_has_its_folders(tmp_path: Path) -> None:
    """The client itself refuses to make a file that is there."""
    made = {"old_string": "", "new_string": "new"}
    with open_workspace(str(tmp_path), shared=False) as opened:
        for at, (tool, given) in enumerate((("Edit", made), ("Write", {"content": "new"}))):
            path = tmp_path / f"d{at}/e/new.txt"
            found = called(tmp_path, tool, **{"file_path": str(path), **given})
            assert not opened.call("local", *found).is_error
            assert path.read_text() == "new"
    again = {"file_path": str(tmp_path / "a.txt"), **made}
    (tmp_path / "a.txt").write_text("all of this\n")
    assert call_for(str(tmp_path), "Edit", again) is None
    (tmp_path / "a.txt").write_text("")
    assert call_for(str(tmp_path), "Edit", again)


def test_what_is_left_to_the_client(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("all of this\n")
    (tmp_path / "nowhere").symlink_to("not there")
    for tool, given in (
        *(("Write", {"content": content}) for content in (None, ["x"])),
        *(("Write", {}), ("Write", {"content": "x", "file_path": ["a.txt"]})),
        ("Edit", {"old_string": ["all"], "new_string": "x"}),
        ("Edit", {"old_string": "all", "new_string": None}),
        ("Edit", {"old_string": "", "new_string": "x", "file_path": "nowhere"}),
    ):
        assert call_for(str(tmp_path), tool, {"file_path": "a.txt", **given}) is None, given


def test_a_file_is_below_the_root_however_that_is_named(tmp_path: Path) -> None:
    root, link = tmp_path / "root", tmp_path / "link"
    root.mkdir()
    link.symlink_to(root)
    for one, other in ((root, link), (link, root)):
        given = {"file_path": str(one / "a.txt"), "content": "x"}
        _, arguments = call_for(str(other), "Write", given) or ("", {})
        assert arguments["path"] == "a.txt"
    assert call_for(str(root), "Write", {"file_path": str(tmp_path / "b"), "content": ""}) is None


EVERY_O = {"old_string": "o", "new_string": "O", "replace_all": True}


@pytest.mark.parametrize(
    ("tool", "given", "told"),
    [
        ("Edit", {"old_string": "one", "new_string": "1"}, "ok a.txt +1 -1 · edit 1 · version "),
        ("Edit", EVERY_O, "ok a.txt +2 -2 · edit 1"),
        ("Write", {"content": "1\n"}, "Successfully wrote to a.txt\n"),
        ("Write", {"content": "1\n", "file_path": "b.txt"}, "ok b.txt +1 -0 · edit 1 · version "),
        ("Edit", {"old_string": "four", "new_string": "4"}, "no place is close to it"),
    ],
)
def test_the_agent_is_told(tmp_path: Path, tool: str, given: dict[str, object], told: str) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    with open_workspace(str(tmp_path), shared=False) as opened:
        said: Any = denied(opened.call("local", *called(tmp_path, tool, **given)))
    reason = said["hookSpecificOutput"]["permissionDecisionReason"]
    assert told in reason
    assert "{" not in reason
    assert ("read it" in reason) == ("no place" not in reason)
    assert ("limit: 1" in reason) == ("read it" in reason)


AGENT = '[members.agent]\napproval = "human"\n'


@pytest.mark.parametrize(
    ("settings", "waits"),
    [
        ("", False),
        (AGENT, True),
        (f"{AGENT}[members.local]\n", True),
        (f'member = "fixer"\n{AGENT}', False),
        ('[members.local]\napproval = "human"\n', True),
    ],
)
def test_who_calls_for_an_agent_has_the_policy_of_the_agent(
    tmp_path: Path, settings: str, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "copydesk.toml").write_text(settings)
    call = {"tool_name": "Write", "tool_input": {"file_path": "a.txt", "content": "all\n"}}
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(call)))
    assert main(["hook", "--root", str(tmp_path)]) == 0
    assert (tmp_path / "a.txt").exists() != waits
