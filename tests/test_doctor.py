"""What the doctor finds, and that looking changes nothing."""

from __future__ import annotations

import ast
import json
import os
import platform
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import redis

from copydesk.app import doctor
from copydesk.app.cli import main
from copydesk.app.cli.init import own_command
from copydesk.app.config import Config, load
from copydesk.app.doctor import Finding, examine, repair
from copydesk.app.workspace import open_workspace
from copydesk.desk.backends.api import SCHEMA, PlanOutcome
from copydesk.errors import Failed, SchemaMismatch
from copydesk.store import _os
from copydesk.tools.refusals import refusal_words
from support.fake_kernel import FakeKernel
from support.redis_servers import RedisServer, running


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("COPYDESK_", "SIYUAN_"))]:
        monkeypatch.delenv(name)


FAST = Config(durability="fast")


ACTION = re.compile(
    r"\b(allow|correct|end|free|install|make|name|remove|rename|serve|set|start|use)"
    r" (?!(it|that|this|what)\b)\S|\bcopydesk (init|recover|doctor|trust)\b|\bgit rm\b|\bchmod\b"
)
"""A fix is a command, or says what to do with what."""


def look(root: Path) -> dict[str, Finding]:
    return {finding.what: finding for finding in examine(str(root))}


def check_fault(root: Path, what: str, *words: str) -> None:
    """This one thing is wrong, it says so, and how to mend it."""
    bad = [finding for finding in examine(str(root)) if not finding.ok]
    assert [finding.what for finding in bad] == [what]
    assert all(word in bad[0].found for word in words), bad[0].found
    assert ACTION.search(bad[0].mend), bad[0].mend


def use(root: Path, config: Config = FAST) -> None:
    """Leave an edit, a plan and a number there."""
    with open_workspace(str(root), config) as opened:
        opened.tally.note(PlanOutcome(1, "local", "a.txt", "fuzz"))
        opened.call("local", "create_new_file", {"path": "a.txt", "content": "one\n"})
        opened.call("local", "prepare_file_append", {"path": "a.txt", "content": "two\n"})


def test_a_healthy_workspace(tmp_path: Path) -> None:
    use(tmp_path)
    found = look(tmp_path)
    assert all(finding.ok and not finding.mend for finding in found.values())
    assert str(tmp_path) in found["root"].found
    assert found["registry"].found.endswith(": 1")
    assert found["journal"].found.startswith("edits recorded: 1;")
    assert found["Python"].found == platform.python_version()
    assert {"configuration", "Python", "MCP SDK", "SQLite", "ripgrep", "locks"} <= set(found)


@pytest.mark.slow
def test_where_notes_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "gfm" in look(tmp_path)["notes"].found
    (tmp_path / "copydesk.toml").write_text('notes = {notebooks = ["wiki"]}\n')
    check_fault(tmp_path, "notes", "wiki")
    with FakeKernel() as kernel:
        kernel.box()
        monkeypatch.setenv("SIYUAN_URL", kernel.url)
        monkeypatch.setenv("SIYUAN_TOKEN", kernel.token)
        assert kernel.url in look(tmp_path)["notes"].found
        assert "notebooks: 1" in look(tmp_path)["notes"].found
        monkeypatch.setenv("SIYUAN_TOKEN", "another-token")
        check_fault(tmp_path, "notes", kernel.url, "token")
        assert "another-token" not in look(tmp_path)["notes"].found
    check_fault(tmp_path, "notes", "unreachable")


def test_the_server_of_many_machines(
    tmp_path: Path, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Redis" not in look(tmp_path)
    monkeypatch.setenv("COPYDESK_REGISTRY", "redis")
    monkeypatch.setenv("COPYDESK_REDIS_URL", redis_server.url)
    monkeypatch.setenv("COPYDESK_REGISTRY_NAME", redis_server.fresh_name())
    use(tmp_path, load(str(tmp_path)))
    found = look(tmp_path)
    assert all(finding.ok for finding in found.values()), found
    assert redis_server.url in found["Redis"].found
    assert "appendonly yes, appendfsync always" in found["Redis"].found
    assert found["registry"].found.endswith(": 1")
    assert found["journal"].found.startswith("edits recorded: 1;")
    assert "locks" not in found
    monkeypatch.setenv("COPYDESK_REDIS_URL", "redis://eve:secret@127.0.0.1:1/0")
    check_fault(tmp_path, "Redis", "redis://127.0.0.1:1/0", "refused")
    assert "secret" not in str(look(tmp_path))


@pytest.mark.parametrize(
    ("setting", "value", "what"),
    [
        ("appendonly", "no", "Redis persistence"),
        ("appendfsync", "everysec", "Redis persistence"),
        ("maxmemory-policy", "allkeys-lru", "Redis memory"),
    ],
)
def test_a_server_that_may_forget(tmp_path: Path, setting: str, value: str, what: str) -> None:
    with running() as server:
        (tmp_path / "copydesk.toml").write_text(f'registry = "redis"\nredis_url = "{server.url}"\n')
        client = redis.Redis.from_url(server.url)
        client.config_set(setting, value)
        client.close()
        check_fault(tmp_path, what)


def test_looking_changes_nothing(tmp_path: Path) -> None:
    assert look(tmp_path)["state folder"].ok
    assert os.listdir(tmp_path) == []
    use(tmp_path)
    before = sorted(path.name for path in tmp_path.rglob("*"))
    look(tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_a_fault_of_the_root_or_a_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_fault(tmp_path / "none", "root", "does not exist")
    file = tmp_path / "copydesk.toml"
    file.write_text("ttl = 3")
    assert "root" in {finding.what for finding in examine(str(file)) if not finding.ok}
    check_fault(tmp_path, "configuration", "copydesk.toml", "ttl")
    file.unlink()
    with monkeypatch.context() as patch:
        patch.setenv("COPYDESK_MEMBRE", "ann")
        check_fault(tmp_path, "environment", "COPYDESK_MEMBRE", "COPYDESK_MEMBER")
    monkeypatch.setenv("COPYDESK_RG", str(tmp_path / "none"))
    check_fault(tmp_path, "ripgrep", "COPYDESK_RG")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_root_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    check_fault(tmp_path / "locked", "root", "cannot be written")


@pytest.mark.parametrize("what", ["state", "texts"])
def test_a_damaged_file_is_set_aside_and_never_deleted(tmp_path: Path, what: str) -> None:
    use(tmp_path)
    file, damage = tmp_path / ".copydesk" / f"{what}.sqlite", b"no database" * 100
    for number in (1, 2):
        file.write_bytes(damage)
        check_fault(tmp_path, what, str(file), "not a database")
        (done,) = repair(str(tmp_path))
        assert (done.what, done.ok) == (what, True)
        assert f"{file}.damaged-{number}" in done.found
        assert "lost" in done.found
        assert Path(f"{file}.damaged-{number}").read_bytes() == damage
        assert all(finding.ok for finding in look(tmp_path).values())
        (tmp_path / "a.txt").unlink()
        use(tmp_path)
    assert repair(str(tmp_path)) == []


def with_schema(root: Path, number: int) -> Path:
    """The state of a workspace in use, as a build with this schema has left it."""
    use(root)
    file = root / ".copydesk" / "state.sqlite"
    with closing(sqlite3.connect(file)) as db:
        db.execute(f"PRAGMA user_version = {number}")
    return file


def test_a_newer_build_is_told_and_its_files_are_left_alone(tmp_path: Path) -> None:
    file = with_schema(tmp_path, SCHEMA + 1)
    check_fault(tmp_path, "state", str(file), f"schema {SCHEMA + 1}", f"reads {SCHEMA}")
    assert repair(str(tmp_path)) == []
    with pytest.raises(SchemaMismatch) as refused:
        open_workspace(str(tmp_path), FAST)
    words = refusal_words(refused.value, "en")
    assert all(part in words for part in (str(file), str(SCHEMA + 1), str(SCHEMA), "state"))
    assert main(["history", "--root", str(tmp_path)]) == 1


def test_an_older_build_is_told_and_its_file_is_set_aside(tmp_path: Path) -> None:
    """A build before the first release gave its files no schema number."""
    with_schema(tmp_path, 0)
    with pytest.raises(SchemaMismatch):
        open_workspace(str(tmp_path), FAST)
    assert [finding.what for finding in repair(str(tmp_path))] == ["state"]
    with open_workspace(str(tmp_path), FAST) as opened:
        assert opened.history("local") == ()


OLDER = ("journal.sqlite", "plans.sqlite", "snapshots.sqlite")
"""What a build before schema 5 kept plans, journal and texts in."""


def older_state(root: Path, *names: str) -> Path:
    """A state folder of that build, and what this one keeps as it is."""
    state = root / ".copydesk"
    state.mkdir()
    for name in names:
        with closing(sqlite3.connect(state / name)) as db:
            db.execute("CREATE TABLE edits (edit_id INTEGER)")
            db.execute("PRAGMA user_version = 4")
        (state / f"{name}-wal").write_text(f"the log of {name}")
    (state / "notes").mkdir()
    for name in ("init.json", "notes/cache.json", "edit-ids"):
        (state / name).write_text(name)
    return state


@pytest.mark.parametrize("names", [OLDER, *((name,) for name in OLDER)], ids="+".join)
def test_state_of_an_older_build_is_refused_until_it_is_set_aside(
    tmp_path: Path, names: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its files are not read, nor are new ones begun beside them: that build may still run."""
    state = older_state(tmp_path, *names)
    files = [path for path in state.rglob("*") if path.is_file()]
    contents = {str(path.relative_to(state)): path.read_bytes() for path in files}
    with pytest.raises(SchemaMismatch) as refused:
        open_workspace(str(tmp_path), FAST)
    refusal = refused.value
    assert (refusal.found_schema, refusal.own_schema) == (4, SCHEMA)
    assert refusal.file in {str(state / name) for name in names}
    words = refusal_words(refusal, "en")
    assert all(part in words for part in (refusal.file, "schema 4", f"schema {SCHEMA}", "--repair"))
    assert main(["history", "--root", str(tmp_path)]) == 1
    assert refusal.file in capsys.readouterr().err
    check_fault(tmp_path, "state", refusal.file, "schema 4", f"reads {SCHEMA}")
    assert not (state / "state.sqlite").exists()
    (done,) = repair(str(tmp_path))
    assert (done.what, done.ok) == ("state", True)
    assert f"{state}/" in done.found
    assert "lost" in done.found
    for name, content in contents.items():
        base = name.removesuffix("-wal")
        end = name.removeprefix(base)
        now = f"{base}.damaged-1{end}" if base in names else name
        assert (state / now).read_bytes() == content, "renamed, never deleted"
        assert (state / name).exists() is (base not in names)
    assert all(finding.ok for finding in examine(str(tmp_path)))
    assert repair(str(tmp_path)) == []
    use(tmp_path)
    with open_workspace(str(tmp_path), FAST) as opened:
        assert len(opened.pending("local")) == len(opened.history("local")) == 1


def test_files_of_an_older_build_beside_state_of_this_one_are_no_matter(tmp_path: Path) -> None:
    """As those of a copy that somebody put there."""
    use(tmp_path)
    (tmp_path / ".copydesk" / "plans.sqlite").write_text("a copy")
    assert all(finding.ok for finding in examine(str(tmp_path)))
    with open_workspace(str(tmp_path), FAST) as opened:
        assert len(opened.pending("local")) == 1
    assert (tmp_path / ".copydesk" / "plans.sqlite").read_text() == "a copy"


def test_who_runs_begins_nothing_beside_state_of_an_older_build(tmp_path: Path) -> None:
    """The folder is put in the place of one in use, as a backup is."""
    with open_workspace(str(tmp_path), FAST) as opened:
        create = {"path": "a.txt", "content": "one\n"}
        assert opened.call("local", "create_new_file", create).fields["edit_id"] == 1
        (tmp_path / ".copydesk").rename(tmp_path / "aside")
        state = older_state(tmp_path, *OLDER)
        append = {"path": "a.txt", "content": "two\n", "apply": "auto"}
        answer = opened.call("local", "prepare_file_append", append).fields
        assert (answer["status"], answer["error"]) == ("error", "FAILED")
        assert str(answer["file"]).startswith(str(state))
        assert not (state / "state.sqlite").exists()
    assert (tmp_path / "a.txt").read_text() == "one\n"


@pytest.mark.parametrize("kind", ["file", "link", "dangling", "inner link", "inner folder"])
def test_a_state_folder_that_is_none(tmp_path: Path, kind: str) -> None:
    root, state = tmp_path / "root", tmp_path / "root" / ".copydesk"
    root.mkdir()
    if kind == "file":
        state.write_text("")
    elif kind == "link":
        (tmp_path / "elsewhere").mkdir()
        state.symlink_to(tmp_path / "elsewhere")
    elif kind == "dangling":
        state.symlink_to(tmp_path / "nowhere")
    elif kind == "inner link":
        state.mkdir()
        (state / "locks").symlink_to(tmp_path)
    else:
        (state / "state.sqlite").mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    check_fault(root, "state" if kind == "inner folder" else "state folder", ".copydesk")
    made = set(tmp_path.rglob("*")) - set(before)
    assert all(path.is_relative_to(state) for path in made)


def test_the_ignore_file_is_never_written_through_a_link(tmp_path: Path) -> None:
    state = tmp_path / "root" / ".copydesk"
    state.mkdir(parents=True)
    (state / ".gitignore").symlink_to(tmp_path / "target")
    use(tmp_path / "root")
    assert not (tmp_path / "target").exists()


def test_each_fix_is_a_command_or_an_action() -> None:
    """All that the module can say, also where no test can break the machine in that way."""
    module = ast.parse(Path(doctor.__file__).read_text("utf-8"))
    nodes = [node for node in ast.walk(module) if isinstance(node, ast.Call)]
    calls = [(node.func.id, node) for node in nodes if isinstance(node.func, ast.Name)]
    faults = [
        (call.lineno, call.args[3] if name == "Finding" else call.args[2])
        for name, call in calls
        if name == "_unusable" or (name == "Finding" and ast.unparse(call.args[1]) != "True")
    ]
    fixes = [(line, text) for line, node in faults for text in _texts(node, module)]
    assert len(fixes) > 25
    for line, text in fixes:
        assert not text or ACTION.search(text), f"line {line}: {text}"
    assert not [text for text in ("fix that", "make it run", "look at x") if ACTION.search(text)]


def _texts(node: ast.expr, module: ast.Module) -> list[str]:
    """The texts that an expression can be, as its name is used anywhere; X for what is filled in."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=parts):
            shown = (part.value if isinstance(part, ast.Constant) else "X" for part in parts)
            return ["".join(map(str, shown))]
        case ast.IfExp(body=one, orelse=other):
            return _texts(one, module) + _texts(other, module)
        case ast.Call(func=ast.Name(id=name)):
            (own,) = (
                one for one in module.body if isinstance(one, ast.FunctionDef) and one.name == name
            )
            values = [each.value for each in ast.walk(own) if isinstance(each, ast.Return)]
        case ast.Name(id=name):
            assigned = [each for each in ast.walk(module) if isinstance(each, ast.Assign)]
            values = [each.value for each in assigned if ast.unparse(each.targets[0]) == name]
        case _:
            raise AssertionError(ast.unparse(node))
    return [text for one in values if one for text in _texts(one, module)]


def test_exit_status_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--root", str(tmp_path)]) == 0
    assert "ok" in capsys.readouterr().out
    (tmp_path / "copydesk.toml").write_text("ttl = 3")
    assert main(["doctor", "--root", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert "BAD" in printed.out
    assert "fix:" in printed.out
    assert main(["doctor", "--root", str(tmp_path), "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert {row["what"] for row in data if not row["ok"]} == {"configuration"}
    assert all(set(row) == {"what", "ok", "found", "mend"} for row in data)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home."""
    folder = tmp_path / "home"
    folder.mkdir()
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.mark.slow
def test_a_client_that_starts_this_copydesk(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    assert "copydesk init" in look(root)["clients"].found
    assert main(["init", "--root", str(root), "--client", "codex", "--yes", "--json"]) == 0
    found = look(root)
    assert found["client codex"].ok
    assert re.search(r"config.toml: copydesk starts .*tools: 9", found["client codex"].found)
    assert "clients" not in found


def entered(root: Path, command: str, *args: str) -> None:
    """A client's configuration starts this."""
    servers = {"copydesk": {"command": command, "args": [*args]}}
    (root / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))


def test_a_client_that_starts_something_else_is_not_started(tmp_path: Path, home: Path) -> None:
    for words in (["sh", "-c", "touch started", "mcp"], [sys.executable, "-c", "1/0", "mcp"]):
        entered(tmp_path, *words, "--root", str(tmp_path))
        check_fault(tmp_path, "client claude-code", words[0], "not this copydesk")
    assert not (tmp_path / "started").exists()


@pytest.mark.slow
def test_a_client_whose_server_fails(tmp_path: Path, home: Path) -> None:
    entered(tmp_path, *own_command(), "mcp", "--root", str(tmp_path), "--toolsets", "none")
    check_fault(tmp_path, "client claude-code", "does not answer")


def test_a_token_that_could_be_guessed(tmp_path: Path, home: Path) -> None:
    path = tmp_path / "copydesk.toml"
    path.write_text('[members.ann]\ntoken = "fifteen letters"\n[members.bob]\napproval = "human"\n')
    check_fault(tmp_path, "token", "ann", "guessed")
    path.write_text('[members.ann]\ntoken = "sixteen  letters"\n')
    assert "token" not in look(tmp_path)


def test_the_policy_and_tokens_that_git_keeps(tmp_path: Path, home: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)

    path = tmp_path / "copydesk.toml"
    path.write_text('[members.ann]\napproval = "human"\napproval_paths = {"a/**" = "self"}\n')
    ann, local = "ann: a person approves, a/**", "local: approves its own edits"
    assert look(tmp_path)["policy"].found == f"{ann}: approves its own edits; {local}"
    git("init", "-q")
    git("add", "copydesk.toml")
    assert "secrets" not in look(tmp_path), "there is none in it"
    path.write_text('[members.ann]\ntoken = "a long random secret"\n')
    check_fault(tmp_path, "secrets", "copydesk.toml", "git tracks it")
    assert "random" not in look(tmp_path)["secrets"].found
    git("rm", "-qf", "--cached", "copydesk.toml")
    assert "secrets" not in look(tmp_path)


OFFERED = {
    "openat2": "path resolution",
    "unnamed": "new files",
    "exchange": "replacing",
    "leases": "open files",
}


@pytest.mark.parametrize("name", OFFERED)
def test_what_the_system_lacks(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    present = look(tmp_path)
    monkeypatch.setattr(_os.offers, name, False)
    absent = look(tmp_path)
    assert {what for what in present if present[what] != absent[what]} <= {OFFERED[name]}
    assert absent[OFFERED[name]].ok, "there is another way"
    assert os.listdir(tmp_path) == []


def test_an_edit_that_the_root_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert look(tmp_path)["edit"].ok
    assert os.listdir(tmp_path) == []

    def refuse(*_: object, **__: object) -> None:
        raise Failed("create", "EROFS: Read-only file system")

    monkeypatch.setattr("copydesk.store.files.Files.create", refuse)
    check_fault(tmp_path, "edit", "EROFS")
