"""`copydesk forget`: no byte of a text is left in what copydesk keeps, and history says so truly."""

from __future__ import annotations

import json
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from copydesk.app.cli import main
from copydesk.app.config import load
from copydesk.app.doctor import examine
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.desk.backends.api import Records
from copydesk.desk.backends.sqlite import Database, SqliteSnapshots
from copydesk.notes.protocol import InsertText
from copydesk.store.state import StateFile, StateFolder
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot
from support.mcp_transports import HELLO, Process, call, request
from support.records import KEPT, opener_of
from support.redis_servers import RedisServer
from test_journal import entry

SECRET = "sk-live-51Hq9ZtVwXyz"
OTHER = "another text that stays"
NAME = "conf/keys.md"
TEXT = f"# Keys\n\nalpha: {SECRET}\n<!-- begin -->\nold {SECRET}\n<!-- end -->\nomega\n"
EDIT = {"old_string": "old", "new_string": f"new {SECRET}"}
PATCH = f"*** Begin Patch\n*** Update File: {NAME}\n@@\n-omega\n+omega {SECRET}\n*** End Patch"

Call = Callable[..., Mapping[str, Any]]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[OpenWorkspace]:
    """What a server has open while a person forgets beside it."""
    (tmp_path / "copydesk.toml").write_text('durability = "fast"\n')
    (tmp_path / "other.txt").write_text("one\ntwo\n")
    with open_workspace(str(tmp_path)) as found:
        yield found


def on(opened: OpenWorkspace, member: str = "agent") -> Call:
    return lambda tool, **given: opened.call(member, tool, given).fields


def ready(opened: OpenWorkspace) -> None:
    """The file as each tool finds it, written by the desk."""
    path = Path(opened.root, NAME)
    if path.exists():
        wrote(opened, "prepare_file_delete", path=NAME)
    assert on(opened)("create_new_file", path=NAME, content=TEXT, why=f"of {SECRET}")["edit_id"]


def wrote(opened: OpenWorkspace, tool: str, **given: object) -> int:
    """The id of the edit, at once or by a plan."""
    do, before = on(opened), opened.journal.entries(most=1)[0].edit_id
    answer = do(tool, **given)
    if "hunk_id" in answer and "edit_id" not in answer:
        answer = do("apply_file_modification", hunk_id=answer["hunk_id"])
    edit = opened.journal.entries(most=1)[0].edit_id
    assert edit > before, (tool, answer)
    return edit


def edit_by_every_tool(opened: OpenWorkspace) -> int:
    """Write the secret and remove it again in every way; the number of edits."""
    do, whole = on(opened), {"path": NAME, "apply": "auto"}
    anchors = {"start_anchor": "<!-- begin -->", "end_anchor": "<!-- end -->"}
    known = {"known_old_total_lines": TEXT.count("\n"), "known_old_total_bytes": len(TEXT)}
    size, fifth = (
        {"expected_size_bytes": len(TEXT)},
        {"range": "5", "expected_old": f"old {SECRET}"},
    )
    writes: dict[str, dict[str, Any]] = {
        "overwrite_entire_file": {"path": NAME, **known, "content": f"all {SECRET}\n"},
        "replace_text": {"path": NAME, "old": "old", "new": f"x{SECRET}"},
        "prepare_file_range_edit": {**whole, **fifth, "content": f"5 {SECRET}"},
        "prepare_file_append": {**whole, "content": f"more {SECRET}"},
        "prepare_file_insert_after": {**whole, "anchor": "# Keys", "content": SECRET},
        "prepare_file_insert_before": {**whole, "anchor": "omega", "content": SECRET},
        "prepare_file_block_replace": {**whole, **anchors, "content": f"block {SECRET}"},
        "prepare_file_move": {"path": NAME, "to": f"{NAME}.moved", "apply": "auto"},
        "prepare_file_delete": {**whole},
        "Edit": {"path": NAME, **EDIT},
        "Write": {"path": NAME, "content": f"w {SECRET}\n", "overwrite": True, **size},
        "BatchEdit": {"path": NAME, "edits": [EDIT]},
        "MultiEdit": {"path": NAME, "edits": [EDIT]},
        "prepare_batch_edit": {**whole, "edits": [EDIT]},
        "write_file": {"path": NAME, "content": f"wf {SECRET}\n"},
        "edit_file": {"path": NAME, "edits": [{"oldText": "old", "newText": SECRET}]},
        "apply_patch": {"patch": PATCH, "apply": "auto"},
        "move_file": {"source": NAME, "destination": f"{NAME}.2"},
    }
    for tool, given in writes.items():
        ready(opened)
        do("Read", path=NAME)
        edit = wrote(opened, tool, **given)
        if tool in ("prepare_file_append", "Edit"):  # an undo records the text once more
            assert do("undo_file_modification", edit_id=edit)["status"] == "ok"
    ready(opened)
    plan = do("prepare_file_append", path=NAME, content=f"planned {SECRET}")
    rejected = do("prepare_file_append", path=NAME, content=f"rejected {SECRET}")
    person = opened.person("local")
    opened.desk.review.reject(person, str(rejected["hunk_id"]), f"not {SECRET}")
    do("discard_hunk", hunk_id=str(rejected["hunk_id"]))
    assert plan["hunk_id"]
    return len(opened.journal.entries(most=1_000))


def found_in(folder: Path, secret: str = SECRET) -> list[str]:
    """The files with the text in them, plain or packed, used by SQLite or not."""
    found = list[str]()
    for path in sorted(folder.rglob("*")):
        data = path.read_bytes() if path.is_file() else b""
        if holds(data, secret.encode()):
            found.append(path.name)
    return found


def holds(data: bytes, secret: bytes) -> bool:
    if secret in data or secret.lower() in data:
        return True
    at = data.find(b"\x78")
    while at >= 0:
        if data[at + 1 : at + 2] in (b"\x01", b"\x5e", b"\x9c", b"\xda"):
            unpacked = b""
            unpacker = zlib.decompressobj()
            with suppress(zlib.error):  # a page may end in the middle: what is before it counts
                for part in range(at, at + 100_000, 64):
                    unpacked += unpacker.decompress(data[part : part + 64])
            if secret in unpacked or secret.lower() in unpacked:
                return True
        at = data.find(b"\x78", at + 1)
    return False


def run(root: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    capsys.readouterr()
    status = main(["--root", str(root), *words])
    return status, capsys.readouterr().out


def forget(
    root: Path, capsys: pytest.CaptureFixture[str], *words: str, status: int = 0
) -> dict[str, Any]:
    done, said = run(root, capsys, "forget", *words, "--json")
    data: dict[str, Any] = json.loads(said)
    assert done == status, data
    return data


@dataclass(frozen=True)
class Here:
    """What a server has open, and the commands of a person beside it."""

    opened: OpenWorkspace
    capsys: pytest.CaptureFixture[str]

    @property
    def root(self) -> Path:
        return Path(self.opened.root)

    @property
    def state(self) -> Path:
        return self.root / ".copydesk"

    @property
    def do(self) -> Call:
        return on(self.opened)

    def run(self, *words: str) -> tuple[int, str]:
        return run(self.root, self.capsys, *words)

    def forget(self, *words: str, status: int = 0) -> dict[str, Any]:
        return forget(self.root, self.capsys, *words, status=status)


@pytest.fixture
def here(opened: OpenWorkspace, capsys: pytest.CaptureFixture[str]) -> Here:
    return Here(opened, capsys)


def test_no_byte_of_a_forgotten_text_is_left(here: Here) -> None:
    """Nor is it brought back by a server beside it that had it in memory."""
    count = edit_by_every_tool(here.opened)
    here.opened.desk.review.pending(here.opened.person("local"))
    bases = here.opened._backend.bases  # what it stores soon is stored now
    bases.find("0" * 64, None, None)
    assert {"state.sqlite-wal", "texts.sqlite"} <= {*found_in(here.state)}
    root = here.root
    for path in (root / "conf").iterdir():
        path.unlink()
    told = here.forget("conf", "--yes")
    assert told["state"] == "forgotten"
    assert len(told["edits"]) == count
    assert len(told["plans"]) == 1
    assert found_in(here.state) == []
    do = here.do
    assert do("read_file", path="other.txt")["status"] == "ok"
    assert do("prepare_file_append", path="other.txt", content=OTHER, apply="auto")["edit_id"]
    assert do("list_edits", max_results=50)["count"] == 50
    bases.find("0" * 64, None, None)
    assert found_in(here.state) == []
    assert found_in(here.state, OTHER)
    assert here.opened.desk.waiting(here.opened.member("agent")) == ()
    with open_workspace(str(root)) as again:
        assert len(again.journal.entries(most=1_000)) == count + 1
    here.opened.close()
    assert found_in(here.state) == []
    assert all(finding.ok for finding in examine(str(root)) if finding.what != "ripgrep")


def test_what_is_left_of_a_forgotten_edit(here: Here) -> None:
    do, root = here.do, here.root
    edit = {"path": "other.txt", "apply": "auto"}
    one = do("prepare_file_append", **edit, content=f"{SECRET}\nx", why=SECRET)["edit_id"]
    two = do("prepare_file_append", **edit, content="three")["edit_id"]
    before = here.opened.history("agent")
    here.forget(str(one), "--yes")
    after = here.opened.history("agent")
    texts = [here.opened._backend.bases.find(each.after, None, None) for each in after]
    assert texts == [None, None], "the later one still had the line"
    assert [each.edit_id for each in after] == [two, one]
    assert after[0] == before[0]
    kept = ("time_ms", "member", "tool", "path", "kind", "before", "after", "lines", "diff_digest")
    for name in kept:
        assert getattr(after[1], name) == getattr(before[1], name), name
    assert (after[1].diff, after[1].why, after[1].lines) == (b"", "", (2, 0))
    file = (root / "other.txt").read_bytes()
    refused = do("undo_file_modification", edit_id=one)
    assert (refused["error"], refused["reason"]) == ("EDIT_NOT_FOUND", "forgotten")
    assert "forgotten" in str(refused["summary"])
    assert do("show_hunk", edit_id=one)["reason"] == "forgotten"
    assert (root / "other.txt").read_bytes() == file
    rows = do("list_edits")["edits"]
    assert [row.get("forgotten", False) for row in rows] == [False, True]
    assert "text forgotten" in here.opened.call("agent", "list_edits", {}).text
    assert "text forgotten" in here.run("history")[1]
    assert "文本已清除" in here.run("--lang", "zh", "history")[1]
    assert json.loads(here.run("history", "--json")[1])[1]["forgotten"] is True
    assert do("undo_file_modification", edit_id=two)["status"] == "ok"


@pytest.mark.parametrize("by_another", [False, True])
def test_an_older_edit_is_never_undone_by_guessing(here: Here, by_another: bool) -> None:
    """Its undo needs the texts in between: it is told beforehand, and refused then.

    Where another program has written since, only a stored text could tell what the edit left.
    """
    do, file, edit = here.do, here.root / "other.txt", {"path": "other.txt", "apply": "auto"}
    one = do("prepare_file_append", **edit, content="three")["edit_id"]
    two = do("prepare_file_insert_before", **edit, anchor="one", content=SECRET)["edit_id"]
    told = here.forget(str(two), "--dry-run")
    assert (told["state"], told["edits"], told["no_longer_undone"]) == ("planned", [two], [one])
    assert "text" not in here.opened.history("agent")[0].why
    assert here.opened.history("agent")[0].diff
    here.forget(str(two), "--yes")
    before = f"{SECRET}\none\ntwo\nthree\n"
    if by_another:
        do("prepare_file_append", **edit, content="four")
        before = f"{before}four\ntheirs\n"
        file.write_text(before)
    refused = do("undo_file_modification", edit_id=one)
    assert refused["error"] == "CONTENT_CHANGED"
    assert "not kept" in str(refused["reason"])
    assert file.read_text() == before


@pytest.mark.slow
def test_a_person_is_told_and_asked_first(here: Here) -> None:
    given = {"path": "other.txt", "content": SECRET, "apply": "auto"}
    edit = here.do("prepare_file_append", **given)["edit_id"]
    status, said = here.run("forget", "other.txt")
    assert status == 1
    assert f"{edit} " in said
    assert "Nothing was forgotten: 1 edit and 0 plans" in said
    assert here.opened.history("agent")[0].diff
    told = here.forget("other.txt", status=1)
    assert (told["error"], told["state"]) == ("NOT_CONFIRMED", "planned")
    assert "--yes" in told["summary"]
    status, said = here.run("--lang", "zh", "forget", "other.txt", "--yes")
    assert (status, "已清除 1 个编辑的文本" in said) == (0, True)
    assert here.forget("other.txt", "--yes")["edits"] == []
    assert here.run("forget")[0] == 2
    assert here.run("forget", "other.txt", "--member", "agent")[0] == 2
    assert here.forget("99", "--yes", status=1)["error"] == "EDIT_NOT_FOUND"


def test_all_that_one_member_wrote_and_said(here: Here) -> None:
    root, edit = here.root, {"path": "other.txt", "apply": "auto"}
    kept = on(here.opened, "ann")("prepare_file_append", **edit, content=OTHER)["edit_id"]
    gone = on(here.opened, "bob")("prepare_file_append", **edit, content=SECRET)["edit_id"]
    on(here.opened, "bob")("prepare_file_append", path="other.txt", content=f"plan {SECRET}")
    on(here.opened, "ann")("prepare_file_append", path="other.txt", content="ann plans")
    (root / "other.txt").write_text("nothing\n")
    told = here.forget("--member", "bob", "--yes")
    assert (told["edits"], len(told["plans"])) == ([gone], 1)
    assert [plan.owner for plan in here.opened.desk.waiting(here.opened.member("ann"))] == ["ann"]
    assert found_in(here.state) == []
    entry = here.opened.journal.get(int(str(kept)))
    assert entry is not None
    assert OTHER in entry.diff.decode()


def test_a_file_is_forgotten_under_each_name_that_it_had(here: Here) -> None:
    do, root = here.do, here.root
    do("create_new_file", path="a.txt", content=SECRET)
    do("prepare_file_move", path="a.txt", to="b.txt", apply="auto")
    do("prepare_file_append", path="b.txt", content=f"more {SECRET}", apply="auto")
    (root / "b.txt").unlink()
    assert len(here.forget("b.txt", "--yes")["edits"]) == 4
    assert found_in(here.state) == []


def test_texts_of_other_files_stay(here: Here) -> None:
    """A plan for another file that changed meanwhile still finds its base; another's undo too."""
    do, root = here.do, here.root
    do("create_new_file", path="a.txt", content=SECRET)
    edit = do("prepare_file_append", path="other.txt", content="three", apply="auto")
    plan = do("prepare_file_append", path="other.txt", content="four")
    with (root / "other.txt").open("r+") as file:
        file.write("ONE")
    here.forget("a.txt", "--yes")
    assert do("apply_file_modification", hunk_id=plan["hunk_id"])["status"] == "ok"
    assert do("undo_file_modification", edit_id=edit["edit_id"])["status"] == "ok"
    assert (root / "other.txt").read_text() == "ONE\ntwo\nfour\n"


@pytest.mark.slow
def test_an_unfinished_edit_keeps_its_text_and_is_named(here: Here) -> None:
    """Recovery needs it; here its file's lock is held, as by one who is writing."""
    do, root = here.do, here.root
    edit = do("prepare_file_append", path="other.txt", content=SECRET, apply="auto")["edit_id"]
    database = root / ".copydesk/state.sqlite"
    with closing(sqlite3.connect(database)) as changed, changed:
        changed.execute("UPDATE edits SET state = 'open' WHERE edit_id = ?", (edit,))
    with here.opened.queues.lock("other.txt", (0, "")):
        told = here.forget("other.txt", "--yes", status=1)
    assert (told["edits"], told["unfinished"]) == ([], [edit])


def test_what_was_set_aside_goes_too(here: Here) -> None:
    do, root = here.do, here.root
    do("prepare_file_append", path="other.txt", content=SECRET, apply="auto")
    aside = here.state / "state.sqlite.damaged-1"
    aside.write_text(SECRET)
    (root / "other.txt").write_text("")
    assert here.forget("other.txt", "--yes")["files"] == [str(aside)]
    assert found_in(here.state) == []


def test_an_approval_log_still_agrees(here: Here) -> None:
    root = here.root
    (root / "copydesk.toml").write_text('[members.agent]\napproval = "human"\n[members.local]\n')
    do = here.do
    plan = str(do("prepare_file_append", path="other.txt", content=SECRET)["hunk_id"])
    here.run("approve", plan)
    assert do("apply_file_modification", hunk_id=plan)["status"] == "ok"
    log = here.run("approvals")[1]
    (root / "log").write_text(log)
    assert json.loads(log)["hunk_id"] == plan
    here.forget("other.txt", "--yes")
    assert here.run("approvals", "--check", str(root / "log"))[0] == 0


def test_a_diff_that_is_recorded_late_does_not_come_back(opened: OpenWorkspace) -> None:
    journal, given = opened.journal, {"path": "other.txt", "content": "x", "apply": "auto"}
    edit = int(str(on(opened)("prepare_file_append", **given)["edit_id"]))
    entry = journal.get(edit)
    assert entry is not None
    journal.forget_texts([entry.without_texts()])
    journal.amend(edit, SECRET.encode)
    assert journal.get(edit) == journal.get(edit)
    assert found_in(Path(opened.root, ".copydesk")) == []


def test_a_text_that_waits_to_be_stored_does_not_come_back(here: Here) -> None:
    """Of a server that has read it and stores it soon, and in its memory for later calls."""
    do, root = here.do, here.root
    (root / "big.txt").write_text(SECRET * 20_000)
    bases = here.opened._backend.bases
    held = bases._writing  # type: ignore[attr-defined]
    with held:
        do("read_file", path="big.txt")
        (root / "big.txt").unlink()
        here.forget("big.txt", "--yes")
    bases.find("0" * 64, None, None)
    assert found_in(here.state) == []
    name = here.opened.long_texts.keep("agent", "list_dir", SECRET * 1_000)
    here.forget("big.txt", "--yes")
    do("list_dir", path=".")
    assert here.opened.long_texts.find("agent", name) is None


@pytest.mark.slow
def test_a_server_brings_nothing_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    with closing(Process(tmp_path)) as server:
        server.send(request(1, "initialize", HELLO))
        server.answer()
        for number in range(2, 12):
            given = {"path": "a.txt", "content": f"{SECRET} {number}", "apply": "auto"}
            server.send(call(number, "prepare_file_append", given))
            assert server.answer()["id"] == number
        (tmp_path / "a.txt").write_text("one\n")
        assert len(forget(tmp_path, capsys, "a.txt", "--yes")["edits"]) == 10
        given = {"path": "a.txt", "content": OTHER, "apply": "auto"}
        server.send(call(20, "prepare_file_append", given))
        assert server.answer()["result"]["structuredContent"]["edit_id"] == 11
        assert found_in(tmp_path / ".copydesk") == []
        assert server.end()[1] == 0
    assert found_in(tmp_path / ".copydesk") == []
    assert found_in(tmp_path / ".copydesk", OTHER)


@pytest.mark.slow
def test_on_redis_no_key_holds_it(
    redis_server: RedisServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = redis_server.fresh_name()
    (tmp_path / "other.txt").write_text("one\n")
    (tmp_path / "copydesk.toml").write_text(
        f'registry = "redis"\nredis_url = "{redis_server.url}"\nregistry_name = "{name}"\n'
    )
    with open_workspace(str(tmp_path), load(str(tmp_path))) as opened:
        count = edit_by_every_tool(opened)
        opened._backend.bases.find("0" * 64, None, None)
        assert keys_with(redis_server, name)
        for path in (tmp_path / "conf").iterdir():
            path.unlink()
        told = forget(tmp_path, capsys, "conf", "--yes")
        assert (len(told["edits"]), len(told["plans"])) == (count, 1)
        assert keys_with(redis_server, name) == []
        do = on(opened)
        edit = do("prepare_file_append", path="other.txt", content=OTHER, apply="auto")["edit_id"]
        refused = do("undo_file_modification", edit_id=int(str(edit)) - 1)
        assert refused["reason"] == "forgotten"
        opened._backend.bases.find("0" * 64, None, None)
        assert keys_with(redis_server, name) == []
        assert do("undo_file_modification", edit_id=edit)["status"] == "ok"
        held = int(str(redis_server.command("GET", f"copydesk:{{{name}}}:bytes").decode()))  # type: ignore[attr-defined]
        assert 0 < held < 100 * (count + 2)
    findings = {one.what: one for one in examine(str(tmp_path))}
    assert findings["journal"].ok


def keys_with(server: RedisServer, name: str) -> list[str]:
    """The keys of the workspace whose values hold the secret."""
    import redis

    found = list[str]()
    with redis.Redis.from_url(server.url) as client:
        for key in client.scan_iter(f"copydesk:{{{name}}}:*"):
            kind = client.type(key)
            values = {
                b"string": lambda key: [client.get(key)],
                b"hash": client.hvals,
                b"list": lambda key: client.lrange(key, 0, -1),
                b"zset": lambda key: client.zrange(key, 0, -1),
            }[kind](key)
            if any(holds(value or b"", SECRET.encode()) for value in values):
                found.append(key.decode())
    return found


@pytest.mark.slow
@pytest.mark.parametrize("where", ["folder", "redis"])
def test_removing_the_setup_with_its_state_leaves_nothing(
    where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    (tmp_path / "other.txt").write_text("one\n")
    server: RedisServer | None = None
    if where == "redis":
        server = request.getfixturevalue("redis_server")
        settings = f'registry = "redis"\nredis_url = "{server.url}"\nregistry_name = "erased"\n'
        (tmp_path / "copydesk.toml").write_text(settings)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert run(tmp_path, capsys, "init", "--client", "claude-code", "--yes")[0] == 0
    with open_workspace(str(tmp_path), load(str(tmp_path))) as opened:
        plan = on(opened)("prepare_file_append", path="other.txt", content=SECRET)
        assert plan["hunk_id"]
    assert server is None or keys_with(server, "erased")
    status, said = run(tmp_path, capsys, "init", "--remove", "--state", "--dry-run")
    assert (status, "End its servers first" in said) == (0, True)
    assert (tmp_path / ".copydesk/init.json").exists()
    status, said = run(tmp_path, capsys, "init", "--remove", "--state", "--yes")
    assert (status, "Removed" in said) == (0, True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert server is None or server.command("KEYS", "copydesk:{erased}:*") == []
    assert run(tmp_path, capsys, "init", "--state", "--yes")[0] == 2
    words = "init", "--remove", "--state", "--client", "codex", "--yes"
    assert run(tmp_path, capsys, *words)[0] == 2


def test_the_state_of_an_older_version_is_removed_too_and_a_link_is_not_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".copydesk").mkdir()
    (tmp_path / ".copydesk/journal.sqlite").write_text(SECRET)
    assert run(tmp_path, capsys, "init", "--remove", "--state", "--yes")[0] == 0
    assert [*tmp_path.iterdir()] == []
    theirs = tmp_path / "theirs"
    (theirs / "locks").mkdir(parents=True)
    (tmp_path / "root").mkdir()
    (tmp_path / "root/.copydesk").symlink_to(theirs)
    assert run(tmp_path / "root", capsys, "init", "--remove", "--state", "--yes")[0] != 0
    assert (theirs / "locks").is_dir()


@pytest.fixture(params=KEPT)
def records(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Records]:
    for opener in opener_of(request, tmp_path):
        yield opener()


def test_what_undoes_a_change_of_notes_is_forgotten_too(records: Records, tmp_path: Path) -> None:
    edit = records.open(entry())
    records.keep_whole(edit, SECRET.encode())
    records.keep_undo(edit, (InsertText(SECRET, "after", "20260101000000-notenot"),))
    records.close_all([edit], "done")
    before = records.get(edit)
    assert before is not None
    assert before.undo
    records.forget_texts([before.without_texts()])
    after = records.get(edit)
    assert after is not None
    assert (after.undo, after.forgotten) == ((), before.without_texts().forgotten)
    assert after == before.without_texts()
    assert found_in(tmp_path) == []
    records.forget_texts([after.without_texts()])
    assert records.get(edit) == after


def test_the_journal_of_the_stored_texts_holds_none_of_them(tmp_path: Path) -> None:
    store = SqliteSnapshots(Database(StateFile(str(tmp_path / "t.sqlite")), most_bytes=1 << 24))
    some = [Snapshot.of(f"{SECRET}\n{os.urandom(9_000).hex()}\n".encode()) for _ in range(30)]
    store.keep_all([(one, RelPath(("a",))) for one in some])
    assert found_in(tmp_path)
    store.forget({some[7].digest})
    assert [store.find(one.digest, None, None) for one in some].count(None) == 29
    store.forget(())
    assert found_in(tmp_path) == []
    store.close()


def test_a_text_that_was_read_before_it_was_forgotten_is_not_stored(tmp_path: Path) -> None:
    """Whoever stores it next: they were about to write as it was forgotten."""
    folder = StateFolder(str(tmp_path), "state")
    database = Database(folder.file("t.sqlite"), most_bytes=1 << 24)
    store, one = SqliteSnapshots(database, count=folder.forgets), Snapshot.of(SECRET.encode())
    since = store.forgets()
    folder.forgets.add()
    store.keep_all([(one, RelPath(("a",)))], since=since)
    assert store.find(one.digest, None, None) is None
    store.keep_all([(one, RelPath(("a",)))], since=store.forgets())
    assert store.find(one.digest, None, None) == one
    store.close()
