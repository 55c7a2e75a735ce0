"""`copydesk init`: it adds its server to clients' configurations, and changes nothing else in them."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import stat
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.app.cli import main
from copydesk.app.cli.init import (
    CLIENTS,
    Unreadable,
    put_json,
    put_toml,
    read_json,
    read_toml,
    remove_json,
    remove_toml,
    words_of,
)
from copydesk.app.config import load
from support.cost import first
from support.mcp_transports import first_answer

NAMES = [client.name for client in CLIENTS]


def test_help_names_every_client(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["init", "--help"])
    said = re.sub(r"\s+", "", capsys.readouterr().out)
    assert f"(repeatable):{','.join(NAMES)}(default" in said


class Person:
    """Somebody with a home, a workspace and a terminal; `run` gives status, output, errors."""

    def __init__(
        self, folder: Path, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.home, self.root = folder / "home", folder / "project"
        (self.home / ".cache" / "copydesk").mkdir(parents=True)
        self.root.mkdir()
        self._patch, self._capsys = patch, capsys

    def run(self, *words: str, stdin: str = "") -> tuple[int, str, str]:
        self._patch.setattr(sys, "stdin", io.StringIO(stdin))
        self._capsys.readouterr()
        status = main(words)
        said = self._capsys.readouterr()
        return status, said.out, said.err

    def told(self, *words: str) -> tuple[int, str, list[dict[str, Any]]]:
        """Write without a question: the two statuses, and the files."""
        status, said, _ = self.run("init", "--yes", "--json", *words)
        data = json.loads(said)
        return status, data["status"], data["files"]

    def init(self, *words: str) -> list[dict[str, Any]]:
        """Write without a question; the files."""
        status, said, files = self.told(*words)
        assert (status, said) == (0, "ok"), files
        return files

    def refused(self, *words: str) -> str:
        """The reason why the one file is left alone."""
        status, _, (file,) = self.told(*words)
        assert (status, file["status"]) == (1, "refused")
        return str(file["reason"])

    def file(self, client: str, data: bytes | None = None) -> Path:
        """The client's file; with these bytes in it, if any."""
        (file,) = self.told("--dry-run", "--client", client)[2]
        path = Path(file["path"])
        if data is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return path


@pytest.fixture
def person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Person:
    for name in [name for name in os.environ if name.startswith(("COPYDESK_", "XDG_", "CODEX_"))]:
        monkeypatch.delenv(name)
    found = Person(tmp_path, monkeypatch, capsys)
    monkeypatch.setenv("HOME", str(found.home))
    monkeypatch.setenv("COPYDESK_DURABILITY", "fast")
    monkeypatch.chdir(found.root)
    return found


def tree(*folders: Path) -> dict[str, bytes | int]:
    """All files with their bytes and modes, and all folders, copydesk's own left out."""
    found: dict[str, bytes | int] = {}
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if ".copydesk" not in path.parts:
                found[str(path)] = path.read_bytes() if path.is_file() else b"folder"
                found[f"mode of {path}"] = path.lstat().st_mode
    return found


def entry_of(client: str, path: Path, name: str = "copydesk") -> dict[str, Any]:
    keys = next(one.keys for one in CLIENTS if one.name == client)
    text = path.read_bytes().decode("utf-8-sig")
    data: Any = tomllib.loads(text) if path.suffix == ".toml" else read_json(text)
    for key in keys:
        data = data[key]
    found: dict[str, Any] = data[name]
    return found


# The examples of the clients' own documentation, with what people add to them.
EXISTING: dict[str, tuple[str, bytes]] = {
    "other servers": (
        "claude-code",
        b'{\n  "mcpServers": {\n    "shared-server": {\n      "command": "/path/to/server",\n'
        b'      "args": [],\n      "env": {"KEY": "${KEY:-default}"}\n    }\n  }\n}\n',
    ),
    "one line, no end of line": (
        "claude-code",
        b'{"mcpServers":{"api":{"type":"http","url":"https://example.com/mcp"}}}',
    ),
    "CRLF and tabs": (
        "cursor",
        b'{\r\n\t"mcpServers": {\r\n\t\t"server-name": {\r\n\t\t\t"command": "npx",\r\n'
        b'\t\t\t"args": ["-y", "mcp-server"]\r\n\t\t}\r\n\t}\r\n}\r\n',
    ),
    "byte order mark": ("cursor", b'\xef\xbb\xbf{\n    "mcpServers": {}\n}\n'),
    "comments and trailing commas": (
        "zed",
        b'// Zed settings\n{\n  "theme": "One Dark", // mine\n  /* servers */\n'
        b'  "context_servers": {\n    "local": {\n      "command": "some-command",\n'
        b'      "args": ["arg-1", "arg-2"],\n      "env": {},\n    }, // keep\n    // "old": {}\n  },\n}\n',
    ),
    "a comment after the last member": ("zed", b'{\n  "vim_mode": true // yes, "really": {\n}\n'),
    "inputs beside servers": (
        "vscode",
        b'{\n\t"inputs": [\n\t\t{ "type": "promptString", "id": "key", "password": true }\n\t],\n'
        b'\t"servers": {\n\t\t"memory": {\n\t\t\t"type": "stdio",\n\t\t\t"command": "npx",\n'
        b'\t\t\t"args": ["-y", "@modelcontextprotocol/server-memory"]\n\t\t}\n\t}\n}\n',
    ),
    "settings without servers": (
        "gemini-cli",
        b'{\n    "theme": "GitHub",\n    "mcp": {"allowed": ["x"]},\n    "\\u00e9t\\u00e9": "\xc3\xa9"\n}',
    ),
    "an empty object": ("windsurf", b"{}"),
    "an empty file": ("claude-desktop", b""),
    "TOML with comments": (
        "codex",
        b'# mine\nmodel = "gpt-5" # best\napproval_policy = "on-request"\n\n[mcp_servers.docs]\n'
        b'command = "npx" # [mcp_servers.copydesk]\nargs = ["-y", """a\n[not.a.header]\n"""]\n\n'
        b'  [mcp_servers.docs.env]\n  "API.KEY" = \'v#alue\'\n\n[[profiles]]\nname="a"',
    ),
    "TOML with CRLF": ("codex", b'model = "o3"\r\n\r\n[tui]\r\nnotifications = true\r\n'),
}


@pytest.mark.parametrize("case", EXISTING)
def test_nothing_else_changes_and_remove_gives_the_bytes_back(person: Person, case: str) -> None:
    client, data = EXISTING[case]
    path = person.file(client, data)
    path.chmod(0o640)
    before = tree(person.home, person.root)
    (made,) = person.init("--client", client)
    assert made["status"] == "update"
    now = path.read_bytes()
    rest = iter(now)
    assert all(byte in rest for byte in data), "all is still there, in its order"
    assert now.count(b"\r\n") in (0, now.count(b"\n"))
    assert entry_of(client, path)["args"][:3] == ["mcp", "--root", str(person.root)]
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [file["status"] for file in person.init("--client", client)] == ["same"]
    assert path.read_bytes() == now, "the second time nothing changes"
    person.init("--remove")
    assert tree(person.home, person.root) == before


@pytest.mark.slow
@pytest.mark.parametrize("case", EXISTING)
def test_remove_after_later_changes_and_without_its_record(person: Person, case: str) -> None:
    client, data = EXISTING[case]
    path = person.file(client, data)
    person.init("--client", client)
    is_toml = path.suffix == ".toml"
    later = b"# later\n" if is_toml else b"// later\n"
    made = path.read_bytes()
    mark = made.startswith(b"\xef\xbb\xbf") * 3
    changed = made[:mark] + later + made[mark:]
    path.write_bytes(changed)
    person.init("--remove")
    assert path.read_bytes() == data[:mark] + later + data[mark:]
    path.write_bytes(changed)
    shutil.rmtree(person.root / ".copydesk")
    person.init("--remove", "--client", client)
    text = path.read_bytes().decode("utf-8-sig")
    assert "--member" not in text
    read: Any = read_toml if is_toml else read_json
    kept, old = read(text), read(data.decode("utf-8-sig"))
    assert isinstance(kept, dict)
    full = [{key: value for key, value in dict(one).items() if value != {}} for one in (kept, old)]
    assert full[0] == full[1]


def test_a_file_that_init_made_is_removed_as_the_undo_of_that_edit(person: Person) -> None:
    person.init("--client", "claude-code")
    person.init("--remove")
    edits = json.loads(person.run("history", "--json")[1])
    assert [edit["undoes"] for edit in edits] == [1, 0]


OTHERS_NAME = b'{"mcpServers": {"copydesk": {"command": "x"}}}'
INLINE = b"mcp_servers = { a = { command = 'x' } }\n"
WRONG: dict[str, tuple[str, bytes, str]] = {
    "a comma too few": ("claude-code", b'{\n "a": 1\n "b": 2}', "line 3: it is not valid JSON"),
    "no end": ("cursor", b'{"mcpServers": {', "not valid JSON"),
    "no object": ("vscode", b"[]\n", "the whole is no object"),
    "servers are a list": ("claude-code", b'{"mcpServers": []}', '"mcpServers" is no object'),
    "a key twice": ("zed", b'{"context_servers": {}, "context_servers": {}}', "there twice"),
    "too deep": ("zed", b"[" * 5000, "nested too deeply"),
    "not UTF-8": ("claude-code", b'{"a": "\xff"}', "not UTF-8"),
    "another server has the name": ("claude-code", OTHERS_NAME, "another server"),
    "wrong TOML": ("codex", b"[mcp_servers\n", "not valid TOML"),
    "TOML inline": ("codex", INLINE, "by hand"),
    "too large": ("windsurf", b" " * (5 << 20), "too large"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_read_is_left_alone(person: Person, case: str) -> None:
    client, data, reason = WRONG[case]
    path = person.file(client, data)
    assert reason in person.refused("--client", client)
    assert path.read_bytes() == data
    person.run("init", "--remove", "--yes")
    assert path.read_bytes() == data


@pytest.mark.parametrize("name", [".mcp.json", ".gitignore"])
def test_a_link_out_of_the_root_is_not_followed(person: Person, name: str, tmp_path: Path) -> None:
    outside = tmp_path / "theirs"
    outside.write_bytes(b"{}\n")
    (person.root / ".git").mkdir(exist_ok=True)
    (person.root / name).symlink_to(outside)
    files = person.told("--client", "claude-code")[2]
    (left,) = [one for one in files if one["status"] == "refused"]
    assert left["reason"] == f"it is a link out of the workspace, to {outside}"
    assert outside.read_bytes() == b"{}\n"


LOOPS: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "the file": ("cursor", [(".cursor/mcp.json", "mcp.json")]),
    "its folder": ("cursor", [(".cursor", ".cursor")]),
    "two links": ("vscode", [(".vscode", "b"), ("b", ".vscode")]),
    "below a folder": ("gemini-cli", [(".gemini", "deep/one"), ("deep/one", "../deep/one")]),
    "in the home": ("windsurf", [("../home/.codeium/windsurf", "windsurf")]),
    "above it in the home": ("codex", [("../home/.codex", "../home/x"), ("../home/x", ".codex")]),
    "what git ignores": ("gitignore", [(".gitignore", ".gitignore")]),
}


@pytest.mark.parametrize("case", LOOPS)
def test_a_loop_of_links_stops_no_other_client(person: Person, case: str) -> None:
    what, links = LOOPS[case]
    (person.root / ".git").mkdir()
    (person.home / ".claude").mkdir()
    for name, target in links:
        path = person.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)
    before = tree(person.root, person.home)
    for words, done in ((), "add"), (("--remove",), "remove"):
        status, _, found = person.told(*words)
        files = {one["what"]: one for one in found}
        left = files.pop(what)
        assert (status, left["status"]) == (1, "refused"), files
        assert left["reason"] == "it cannot be read: Too many levels of symbolic links"
        assert files.pop("claude-code")["status"] == done
        assert {one["status"] for one in files.values()} <= {done}, files
    assert tree(person.root, person.home) == before


def test_the_server_of_another_program_is_not_ours(person: Person) -> None:
    args = ["-y", "other-mcp", "mcp", "--root", str(person.root)]
    theirs = {"other": {"command": "npx", "args": args, "env": {"KEY": "1"}}}
    path = person.file("claude-code")
    path.write_text(json.dumps({"mcpServers": theirs}))
    person.run("init", "--client", "claude-code", "--yes")
    servers = json.loads(path.read_text())["mcpServers"]
    assert servers.pop("copydesk")
    assert servers == theirs
    said = person.run("init", "--remove", "--yes")[1]
    assert "copydesk is no longer in .mcp.json." in said
    assert "To undo this" not in said
    assert json.loads(path.read_text())["mcpServers"] == theirs


def test_what_is_read_only_or_no_file_is_left_alone(person: Person) -> None:
    path = person.root / ".mcp.json"
    path.write_bytes(b"{}\n")
    path.chmod(0o444)
    assert person.refused("--client", "claude-code") == "it is read-only"
    assert path.read_bytes() == b"{}\n"
    path.unlink()
    os.mkfifo(path)
    assert person.refused("--client", "claude-code") == "it is no regular file"
    (person.root / ".cursor").mkdir()
    (person.root / ".cursor" / "mcp.json").symlink_to("nowhere")
    assert "link" in person.refused("--client", "cursor")


def test_a_link_is_kept_and_what_it_leads_to_is_written(person: Person) -> None:
    real = person.home / "dotfiles" / "codex.toml"
    real.parent.mkdir()
    real.write_text("model = 'x'\n")
    (person.home / ".codex").mkdir()
    (person.home / ".codex" / "config.toml").symlink_to(real)
    before = tree(person.home)
    person.init("--client", "codex")
    assert (person.home / ".codex" / "config.toml").is_symlink()
    assert "copydesk" in real.read_text()
    person.init("--remove")
    assert tree(person.home) == before


@pytest.mark.slow
@pytest.mark.parametrize("client", first(*NAMES))
def test_from_nothing_and_back_to_nothing(person: Person, client: str) -> None:
    before = tree(person.home, person.root)
    (made,) = person.init("--client", client)
    entry = entry_of(client, Path(made["path"]))
    assert made["status"] == "add"
    command = entry["command"]
    words = command if isinstance(command, list) else [command, *entry["args"]]
    assert os.access(words[0], os.X_OK)
    # As the client does it: from anywhere, by what stands in the file alone.
    assert '"name":"copydesk"' in first_answer(words, Path("/"))
    person.init("--remove")
    assert tree(person.home, person.root) == before


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_help_names_every_client(lang: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--lang", lang, "help", "init"])
    told = "".join(capsys.readouterr().out.split())  # a name may be broken at its hyphen
    assert [client.name for client in CLIENTS if client.name not in told] == []


def test_the_forms_of_the_clients(person: Person) -> None:
    person.init(*(word for name in NAMES for word in ("--client", name)))
    files = {name: person.file(name) for name in NAMES}
    below = {path.relative_to(person.home.parent).as_posix() for path in files.values()}
    assert below == {
        *("project/.mcp.json", "project/.cursor/mcp.json", "project/.vscode/mcp.json"),
        *("project/.gemini/settings.json", "project/opencode.json", "home/.codex/config.toml"),
        *("home/.config/zed/settings.json", "home/.codeium/windsurf/mcp_config.json"),
        "home/.config/Claude/claude_desktop_config.json",
    }
    entries = {name: entry_of(name, path) for name, path in files.items()}
    assert entries["vscode"]["type"] == "stdio"
    assert entries["zed"]["source"] == "custom"
    assert entries["opencode"]["type"] == "local"
    for name, entry in entries.items():
        assert words_of(entry)[-2:] == ["--member", "agent"]
        assert ("args" in entry) == (name != "opencode")


def test_those_in_use_are_found(person: Person) -> None:
    status, _, said = person.run("init", "--yes")
    assert status == 2
    assert "--client" in said
    (person.home / ".codex").mkdir()
    (person.root / ".vscode").mkdir()
    assert {file["what"] for file in person.init()} == {"codex", "vscode"}


def test_it_is_asked_before_anything_is_written(person: Person) -> None:
    words = ("init", "--client", "claude-code", "--approval", "human")
    before = tree(person.home, person.root)
    for answer in ("", "n\n", "what?\n"):
        status, said, _ = person.run(*words, stdin=answer)
        assert (status, tree(person.home, person.root)) == (1, before)
        assert '+    "copydesk": {' in said
        assert '+approval = "human"' in said
    assert person.run(*words, "--dry-run")[0] == 0
    assert not (person.root / ".copydesk").exists()
    status, said, _ = person.run(*words, stdin="y\n")
    assert status == 0
    assert "claude mcp add --scope local copydesk -- " in said
    assert load(str(person.root)).of_member("agent").approval == "human"


def test_what_it_wrote_in_the_workspace_is_an_edit(person: Person) -> None:
    path = person.root / ".mcp.json"
    path.write_bytes(b'{"mcpServers": {}}')
    (made,) = person.init("--client", "claude-code")
    assert person.run("undo", str(made["edit_id"]))[0] == 0
    assert path.read_bytes() == b'{"mcpServers": {}}'
    assert person.run("init", "--remove")[1] == "There is nothing to remove.\n"


@pytest.mark.slow
def test_a_policy_for_some_paths_beside_what_is_configured(person: Person) -> None:
    path = person.root / "copydesk.toml"
    data = b'# ours\ntoolsets = ["ws_mod"]\n\n[members.agent] # it\nno_write_dirs = ["x"]\n\n[members.b]\n'
    path.write_bytes(data)
    words = ("--client", "claude-code", "--approval", "human")
    person.init(*words, "--path", "src/**", "--path", 'a"b')
    agent = load(str(person.root)).of_member("agent")
    assert dict(agent.approval_paths) == {"src/**": "human", 'a"b': "human"}
    person.init(*words)
    assert b'[members.agent] # it\napproval = "human"\nno_write_dirs' in path.read_bytes()
    assert load(str(person.root)).of_member("agent").approval == "human"
    person.init("--remove")
    assert path.read_bytes() == data


def test_a_policy_where_the_project_file_has_the_settings(person: Person) -> None:
    path = person.root / "pyproject.toml"
    path.write_text('[project]\nname = "x"\n\n[tool.copydesk]\nlang = "zh"\n\n[tool.ruff]\n')
    before = path.read_bytes()
    person.init("--client", "cursor", "--approval", "human")
    assert not (person.root / "copydesk.toml").exists()
    assert load(str(person.root)).of_member("agent").approval == "human"
    person.init("--remove")
    assert path.read_bytes() == before


def test_git_is_told_of_the_state(person: Person) -> None:
    (person.root / ".git").mkdir()
    (person.root / ".gitignore").write_bytes(b"build/\r\n*.log")
    person.init("--client", "cursor")
    assert (person.root / ".gitignore").read_bytes() == b"build/\r\n*.log\r\n.copydesk/\r\n"
    person.init("--remove")
    assert (person.root / ".gitignore").read_bytes() == b"build/\r\n*.log"


def test_two_workspaces_of_one_user(person: Person) -> None:
    person.init("--client", "codex")
    other = person.root.parent / "other one"
    other.mkdir()
    person.init("--client", "codex", "--root", str(other))
    path = person.home / ".codex" / "config.toml"
    assert set(tomllib.loads(path.read_text())["mcp_servers"]) == {"copydesk", "copydesk-other-one"}
    person.init("--remove", "--root", str(other))
    assert set(tomllib.loads(path.read_text())["mcp_servers"]) == {"copydesk"}


def test_an_installation_that_moved_and_options_that_were_added(person: Person) -> None:
    path = person.root / ".mcp.json"
    person.init("--client", "claude-code")
    data = json.loads(path.read_text())
    entry = data["mcpServers"]["copydesk"]
    own = entry["command"]
    entry |= {"command": "/gone/copydesk", "env": {"A": "b"}}
    entry["args"] += ["--toolsets", "compat"]
    path.write_text(json.dumps(data))
    person.init("--client", "claude-code")
    now = json.loads(path.read_text())["mcpServers"]["copydesk"]
    assert now == {**entry, "command": own}


def test_an_entry_that_starts_a_module_which_is_gone(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = (sys.executable, "-m", "copydesk")
    monkeypatch.setattr("copydesk.app.cli.init.own_command", lambda: own)
    (made,) = person.init("--client", "claude-code")
    path = Path(made["path"])
    wanted = path.read_text()
    path.write_text(wanted.replace('"copydesk",', '"copydesk.app.cli",', 1))
    assert path.read_text() != wanted
    person.init("--client", "claude-code")
    assert path.read_text() == wanted


def test_a_file_that_others_share(person: Person) -> None:
    for client, root in (("claude-code", "${CLAUDE_PROJECT_DIR:-.}"), ("gemini-cli", None)):
        (made,) = person.init("--client", client, "--portable")
        entry = entry_of(client, Path(made["path"]))
        assert entry["command"] == "copydesk"
        assert str(person.root) not in json.dumps(entry)
        own_root = ["--root", root] if root else []
        assert entry["args"][1:-2] == [*own_root, "--toolsets", "edit"]


def test_somebody_else_writes_meanwhile(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    for client, data in (("claude-code", b"{}"), ("codex", b"")):
        path = person.file(client, data)

        def answer(_: str, path: Path = path, **__: bool) -> bool:
            path.write_text("# theirs\n")
            return True

        monkeypatch.setattr("copydesk.app.cli.init.agrees", answer)
        status, _, said = person.run("init", "--client", client)
        assert (status, path.read_text()) == (1, "# theirs\n")
        assert "was not written" in said
        assert "changed" in said
        assert "again and again" not in said


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '{\n  "s": {\n    "c": {\n      "x": 1\n    }\n  }\n}\n'),
        ("{ }", '{\n  "s": {\n    "c": {\n      "x": 1\n    }\n  }\n}'),
        ('{"s": {}}', '{"s": {"c": {"x": 1}}}'),
        ('{"s": {"a": 1, }}', '{"s": {"a": 1, "c": {"x": 1} }}'),
        ('{\n "s": {\n  "a": 1\n }\n}', '{\n "s": {\n  "a": 1,\n  "c": {\n   "x": 1\n  }\n }\n}'),
        ('{"s": {"c": {"x": 0, "y": 2}}}', '{"s": {"c": {"x": 1, "y": 2}}}'),
        ('{"s": {"c": {"y": 2}}}', '{"s": {"c": {"y": 2, "x": 1}}}'),
        ("{\n // c\n}", '{\n // c\n "s": {\n  "c": {\n   "x": 1\n  }\n }\n}'),
    ],
)
def test_json_is_edited_as_it_is_laid_out(before: str, after: str) -> None:
    found = put_json(before, ("s", "c"), {"x": 1})
    assert read_json(found) == read_json(after)
    if "//" not in before:
        assert found == after


def test_what_is_removed_leaves_comments_beside_it() -> None:
    text = '{"s": { // one\n"c": { // two\n "x": 0 // three\n}}}'
    made = put_json(text, ("s", "c"), {"x": 1, "y": []})
    assert made == '{"s": { // one\n"c": { // two\n "x": 1, // three\n "y": []\n}}}'
    assert remove_json(made, ("s", "c")) == '{"s": { // one\n}}'


def test_wrong_json() -> None:
    for text in (
        *('{"a":01}', '{"a" 1}', "{a:1}", '{"a":1}}', '{"a":"\n"}', '{"a":"\\x"}'),
        *("/* {}", "{,}", "nul"),
    ):
        with pytest.raises(Unreadable):
            read_json(text)
    with pytest.raises(Unreadable, match="not valid TOML"):  # a number too long for the reader
        read_toml("x = " + "9" * 5000)


Draw = Callable[[Any], Any]
ENTRY = {"command": "/bin/copy desk", "args": ["mcp", "--root", 'a"\\é']}
JSON_SPACE = (
    *("", "", " ", "\t", "NL", "NL  ", "/* c */", "/***/"),
    *('/* "{NL */', "// d, }NL", '// "eNL', "NL\t// x */NL"),
)
JSON_PLAIN = ("1", "null", "true", "-1.5e3", '"a"', '"\\u00e9\\"//"', '"/* é"', '"},"', "[]", "{}")


def some_json(draw: Draw, keys: tuple[str, ...], depth: int = 0) -> str:
    """An object with some of these keys, with comments, trailing commas and any white space."""

    def space() -> str:
        return "".join(draw(st.lists(st.sampled_from(JSON_SPACE), max_size=2)))

    members = []
    for key in draw(st.lists(st.sampled_from(keys), unique=True, max_size=3)):
        deeper = depth < 2 and draw(st.booleans())
        below = ("copydesk", "a", "é") if depth == 0 else ("command", "env", "args")
        value = some_json(draw, below, depth + 1) if deeper else draw(st.sampled_from(JSON_PLAIN))
        if key == "s" and not value.startswith("{"):
            value = "{}"
        if key == "copydesk" and depth == 1 and not value.startswith("{"):
            value = '{"command": "old"}'
        members.append(f"{json.dumps(key)}{space()}:{space()}{value}{space()}")
    comma = "," if members and draw(st.booleans()) else ""
    return (
        "{" + space() + f",{space()}".join(space() + one for one in members) + comma + space() + "}"
    )


def plain_json(text: str) -> Any:
    """The value by the standard parser, after comments and trailing commas are taken out."""
    string = r'("(?:[^"\\]|\\.)*")'
    text = re.sub(rf"{string}|//[^\n]*|/\*.*?\*/", lambda m: m[1] or " ", text, flags=re.DOTALL)
    return json.loads(re.sub(rf"{string}|,(?=\s*[}}\]])", lambda m: m[1] or "", text))


@pytest.mark.slow
@given(st.data())
def test_any_json_with_comments_keeps_the_rest(data: st.DataObject) -> None:
    newline = data.draw(st.sampled_from(["\n", "\r\n"]))
    text = some_json(data.draw, ("s", "b", "c d")).replace("NL", newline)
    old = plain_json(text)
    assert read_json(text) == old
    made = put_json(text, ("s", "copydesk"), ENTRY)
    there = old.get("s", {}).get("copydesk", {})
    assert plain_json(made) == old | {"s": old.get("s", {}) | {"copydesk": there | ENTRY}}
    assert put_json(made, ("s", "copydesk"), ENTRY) == made
    if not there.keys() & ENTRY.keys():
        rest = iter(made)
        assert all(char in rest for char in text if not char.isspace()), "in its order"
        assert made.count("\n") == made.count(newline) or "\n" not in text
    gone = remove_json(made, ("s", "copydesk"))
    kept = {key: value for key, value in old.get("s", {}).items() if key != "copydesk"}
    assert plain_json(gone) == old | {"s": kept}


TOML_KEYS = ("a", "command", '"e.f"', "'#k'", '"a=b"', "x.y", "copydesk . z")
TOML_VALUES = (
    *("1", "true", "1979-05-27T07:32:00Z", "'lit#'", '"b\\"#]"', "{ z = '}' }", "[ { q = 1 } ]"),
    *('"""aNL[mcp_servers.copydesk]NL# no"""', "'''NLx = [ \" '' '''", '"""a\\"""b"""""'),
    *("[NL 1, # c ]NL]", "[NL  [ 'x' ],NL  ['y'],NL]", '["""NL]NL"""NL]'),
)
TOML_HEADS = (
    *("[mcp_servers]", "[mcp_servers.docs]", "[mcp_servers.docs.env]", "[[profiles]]", "[tui]"),
    *("[ mcp_servers . 'copydesk' ]", "[mcp_servers.copydesk.env]", "[a]"),
)
TOML_ENDS = ("", "", " # c", "\t# [mcp_servers.copydesk]", "  ")


def some_toml(draw: Draw) -> str:
    """A TOML text, not always a valid one."""
    lines = []
    for kind in draw(st.lists(st.sampled_from("hhkkk# "), max_size=7)):
        words = {"h": "", "k": "", "#": "# [mcp_servers.copydesk]", " ": ""}[kind]
        if kind == "h":
            words = draw(st.sampled_from(TOML_HEADS))
        elif kind == "k":
            words = f"{draw(st.sampled_from(TOML_KEYS))} = {draw(st.sampled_from(TOML_VALUES))}"
        lines.append(words + (draw(st.sampled_from(TOML_ENDS)) if words else ""))
    return "NL".join(lines) + draw(st.sampled_from(["", "NL"]))


@given(st.data())
def test_any_toml_keeps_the_rest(data: st.DataObject) -> None:
    newline = data.draw(st.sampled_from(["\n", "\r\n"]))
    text = some_toml(data.draw).replace("NL", newline)
    try:
        old = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        with pytest.raises(Unreadable):
            put_toml(text, ("mcp_servers", "copydesk"), ENTRY)
        return
    try:
        made = put_toml(text, ("mcp_servers", "copydesk"), ENTRY)
    except Unreadable:  # written in one line with others, or with keys that have dots
        assert "copydesk" in text or "[mcp_servers]" not in text
        return
    servers = old.get("mcp_servers", {})
    there = servers.get("copydesk", {})
    now = tomllib.loads(made)
    assert now == old | {"mcp_servers": servers | {"copydesk": there | ENTRY}}
    assert put_toml(made, ("mcp_servers", "copydesk"), ENTRY) == made
    if "command" not in there:
        rest = iter(made)
        assert all(char in rest for char in text), "in its order"
    if "copydesk" in servers:
        gone = tomllib.loads(remove_toml(made, ("mcp_servers", "copydesk")))
        left = {key: value for key, value in servers.items() if key != "copydesk"}
        assert gone.pop("mcp_servers", {}) == left
        assert gone == {key: value for key, value in old.items() if key != "mcp_servers"}
    else:
        ends = "\r\n"  # an empty line at the end is taken for ours, unless the record knows better
        assert remove_toml(made, ("mcp_servers", "copydesk")).rstrip(ends) == text.rstrip(ends)


def test_toml_values_are_found_where_they_are() -> None:
    text = "a.b = 1\n[s.'c']\n{}y = [ # ]\n 1, '''x'''' ]\nx = {} # c\n[d]\nx = 1\n"
    found = put_toml(text.format("", '{z = "}"}'), ("s", "c"), {"x": "new", "n": ["q"]})
    assert found == text.format('n = ["q"]\n', '"new"')
    assert remove_toml(found, ("s", "c")) == "a.b = 1\n[d]\nx = 1\n"
    assert put_toml("a = 1", ("s",), {"x": 1}) == "a = 1\n\n[s]\nx = 1\n", "without a last line end"
    text = "a = 1\n\n[s.c]\nx = 1 # its own\n# between\ny = 2\n\n# of z\n[z]\nx = 1\n"
    assert remove_toml(text, ("s", "c")) == "a = 1\n\n# of z\n[z]\nx = 1\n", "as tomlkit does not"


def test_reasons_in_chinese(person: Person) -> None:
    (person.root / ".mcp.json").write_text('{\n"a" 1}')
    status, said, _ = person.run("--lang", "zh", "init", "--client", "claude-code", "--yes")
    assert status == 1
    assert "第 2 行：不是有效的 JSON：缺少冒号" in said


@pytest.mark.parametrize("old", ['\n[mcp_servers.evil]\ncommand = "sh"\n', 'model = "theirs"\n'])
def test_a_record_from_elsewhere_writes_nothing_of_its_own(person: Person, old: str) -> None:
    path = person.home / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text('sandbox = "on"\n')
    person.init("--client", "codex")
    record = person.root / ".copydesk" / "init.json"
    data = json.loads(record.read_text())
    for one in data["files"].values():
        one["steps"][0]["old"] = old
    data["files"][str(person.home / ".profile")] = data["files"][str(path)]
    (person.home / ".profile").write_bytes(path.read_bytes())
    record.write_text(json.dumps(data))
    person.init("--remove")
    assert path.read_text() == 'sandbox = "on"\n'
    assert "copydesk" in (person.home / ".profile").read_text()


def test_clients_get_no_more_rights_than_the_caller_has(person: Person) -> None:
    (person.root / "copydesk.toml").write_text('[members.local]\nno_write_dirs = ["x"]\n')
    (made, policy) = person.init("--client", "cursor", "--approval", "human")
    assert "--member" not in entry_of("cursor", Path(made["path"]))["args"]
    assert policy["what"] == "policy"
    local = load(str(person.root)).of_member("local")
    assert (local.approval, local.lists) == ("human", {"no_write_dirs": ("x",)})


@pytest.mark.parametrize(
    ("configured", "entered", "toolsets"),
    [("", [], ["edit"]), ('toolsets = ["batch"]\n', [], []), ("", ["ws_mod"], ["ws_mod"])],
)
def test_an_entry_has_the_toolset_for_agents_unless_others_are_named(
    person: Person, configured: str, entered: list[str], toolsets: list[str]
) -> None:
    if configured:
        (person.root / "copydesk.toml").write_text(configured)
    for toolset in entered:
        args = ["mcp", "--root", str(person.root), "--toolsets", toolset]
        entry = {"mcpServers": {"copydesk": {"command": "copydesk", "args": args}}}
        person.file("cursor", json.dumps(entry).encode())
    (made,) = person.init("--client", "cursor")
    args = entry_of("cursor", Path(made["path"]))["args"]
    assert [args[at + 1] for at, word in enumerate(args) if word == "--toolsets"] == toolsets
    if not entered and toolsets:
        assert args[3:5] == ["--toolsets", *toolsets]
