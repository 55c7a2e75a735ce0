"""Others who do as they like: a directory swapped for a link, a file written behind our back."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from copydesk.app.config import TOOLSETS, Config, MemberConfig
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.desk import overwritten
from copydesk.store import _os
from copydesk.store.protocol import Named, OpenText
from copydesk.text.relpath import RelPath
from support.cost import first
from support.mcp_calls import CALLS
from support.processes import Facts, code, outcome

SWAP = """
import ctypes, os, random, sys, time
os.chdir(sys.argv[1])
libc, here, exchange = ctypes.CDLL(None), -100, 2
one, other = map(os.fsencode, sys.argv[2:] or ("dir", "link"))
print("ready", flush=True)
while True:
    if libc.renameat2(here, one, here, other, exchange):
        sys.exit("renameat2 failed")
    time.sleep(max(random.random() - 0.5, 0) / 200)
"""

REWRITE = """
import os, random, sys, time
path, way = sys.argv[1:]
print("ready", flush=True)
generation = 0
while True:
    generation += 1
    text = "".join(f"{generation} line {i}\\n" for i in range(10))
    text += "anchor\\n" + text.replace("line", "more")
    if way == "rename":
        with open(path + ".new", "w") as file:
            file.write(text)
        os.replace(path + ".new", path)
    else:
        with open(path, "w") as file:
            file.write(text)
    time.sleep(random.random() / 40)  # some of our writes meet it, some do not, on any machine
"""


@contextmanager
def running(program: str, *arguments: str) -> Iterator[None]:
    """Another process that runs the program until the block ends."""
    command = [sys.executable, "-c", program, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield
            assert process.poll() is None
        finally:
            process.kill()


def tree(folder: Path) -> dict[str, tuple[object, ...]]:
    """All that is below the folder, with bytes and times."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(folder.rglob("*")):
        stat = path.lstat()
        data = path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(folder))] = (stat.st_mode, stat.st_mtime_ns, stat.st_ino, data)
    return found


KINDS = ("apply", "auto", "create", "deep", "overwrite", "read", "append", "together")


def write(opened: OpenWorkspace, i: int) -> tuple[str, Facts]:
    """The call number `i` of a mix, and the kind of it that succeeded or was refused."""
    kind = KINDS[i % len(KINDS)]
    line = {"path": "dir/f", "content": f"new {i}\n"}
    anchor = {"anchor": "anchor", "match": "equals"}
    known: Facts = {"known_old_total_lines": 2, "known_old_total_bytes": 10}
    if kind == "apply":
        plan = outcome(opened, "prepare_file_insert_after", **line, **anchor)
        if plan["status"] == "error":
            return "prepare", plan
        return kind, outcome(opened, "apply_file_modification", hunk_id=plan["hunk_id"])
    if kind == "together":
        plans = [
            outcome(opened, "prepare_file_insert_after", **line, **anchor),
            outcome(opened, "prepare_file_append", path=f"dir/sub/b{i % 3}", content="new\n"),
        ]
        for plan in plans:
            if plan["status"] == "error":
                return "prepare", plan
        ids = [plan["hunk_id"] for plan in plans]
        return kind, outcome(opened, "apply_file_modifications", hunk_ids=ids)
    if kind == "auto":
        return kind, outcome(opened, "prepare_file_insert_before", **line, **anchor, apply="auto")
    if kind == "append":
        arguments: Facts = {"path": f"dir/sub/a{i % 3}", "content": f"new {i}\n", "apply": "auto"}
        return kind, outcome(opened, "prepare_file_append", **arguments)
    if kind == "create":
        return kind, outcome(opened, "create_new_file", path=f"dir/new{i}", content="x\n")
    if kind == "deep":
        return kind, outcome(opened, "create_new_file", path=f"dir/sub/{i}/new", content="x\n")
    if kind == "overwrite":
        arguments = {"path": "dir/whole", "content": f"{i:05}\nend\n", **known}
        return kind, outcome(opened, "overwrite_entire_file", **arguments)
    return kind, outcome(opened, "read_file", path="dir/f")


REFUSALS = {"INVALID_PATH", "FILE_NOT_FOUND", "NOT_A_FILE", "FILE_EXISTS", "FAILED"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("applies", "shared", "openat2"),
    [
        pytest.param(200, False, True, id="memory"),
        pytest.param(200, False, False, id="memory, without openat2"),
        pytest.param(800, True, True, id="shared", marks=pytest.mark.slow),
        pytest.param(800, True, False, id="shared, without openat2", marks=pytest.mark.slow),
    ],
)
def test_nothing_is_written_outside_of_the_root(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    applies: int,
    shared: bool,
    openat2: bool,
) -> None:
    """A directory is swapped for a link to one outside, and back, until so many calls succeeded."""
    if not openat2:
        monkeypatch.setattr(_os.offers, "openat2", False)
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root / "dir", outside):
        (folder / "sub").mkdir(parents=True)
        (folder / "f").write_text("above\nanchor\nbelow\n")
        (folder / "whole").write_text("00000\nend\n")
    (outside / "secret").write_text("secret\n")
    (outside / "f").write_text("secret\nanchor\nsecret\n")
    os.symlink(outside, root / "link")
    before = tree(outside)
    told: Counter[tuple[str, str]] = Counter()
    written: list[str] = []
    succeeded = 0
    config = Config(durability="fast")
    with open_workspace(str(root), config, shared=shared) as opened, running(SWAP, str(root)):
        for i in range(500 * applies):
            kind, fields = write(opened, i)
            assert "secret" not in str(fields)
            if fields.get("auto_apply") == "declined":
                fields = {**fields, "status": "error", "error": fields["auto_apply_reason"]}
            told[kind, code(fields)] += 1
            if code(fields) == "ok" and kind in ("apply", "auto", "together"):
                written.append(f"new {i}")
            succeeded += code(fields) == "ok"
            if succeeded >= applies and told.total() - succeeded > applies // 20:
                break
    assert tree(outside) == before
    inside = root / ("dir" if not (root / "dir").is_symlink() else "link")
    lines = (inside / "f").read_text().split("\n")
    assert Counter(line for line in lines if line.startswith("new")) == Counter(written)
    created = told["create", "ok"]
    assert len([path for path in inside.iterdir() if path.name.startswith("new")]) == created
    assert {c for _, c in told} <= REFUSALS | {"ok"}, told
    assert {kind for kind, c in told if c == "ok"} == set(KINDS)
    assert succeeded >= applies, told


SEARCHES: tuple[tuple[str, Facts], ...] = (
    ("ripgrep_files", {"pattern": "needle"}),
    ("ripgrep_count", {"pattern": "needle"}),
    ("ripgrep_snippets", {"pattern": "needle", "context_before": 3, "context_after": 3}),
    ("ripgrep_fixed", {"literal": "needle", "mode": "snippets"}),
    ("ripgrep_fixed", {"literal": "needle", "mode": "count"}),
    ("ripgrep_search", {"pattern": "needle", "rg_args": ["-C3"]}),
    ("ripgrep_search", {"pattern": "needle", "rg_args": ["-c"]}),
    ("ripgrep_search", {"pattern": "needle", "rg_args": ["-l", "-uu"]}),
    ("ripgrep_search", {"pattern": "needle", "rg_args": ["-v"]}),
    ("list_dir", {}),
)
WHERE: tuple[Facts, ...] = (
    {},
    {"path": "dir"},
    {"path": "dir/sub"},
    {"path": "dir/f"},
    {"path": "pub"},
    {"path": "pub/sub"},
    {"path": "pub/f"},
)


@pytest.mark.parametrize(
    ("calls", "openat2"),
    [
        pytest.param(60, True, id="few"),
        pytest.param(1000, True, marks=pytest.mark.slow, id="many"),
        pytest.param(1000, False, marks=pytest.mark.slow, id="many, without openat2"),
    ],
)
def test_nothing_is_found_outside_of_the_root_or_where_the_member_may_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int, openat2: bool
) -> None:
    """Two directories are exchanged for links: to one outside, and to one that is denied."""
    if not openat2:
        monkeypatch.setattr(_os.offers, "openat2", False)
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root / "dir", root / "pub"):
        (folder / "sub").mkdir(parents=True)
        for name in ("f", "sub/g"):
            (folder / name).write_text("plain\nneedle inside\n")
    for folder in (outside, root / "denied"):
        (folder / "sub").mkdir(parents=True)
        for name in ("f", "sub/g", "secret_name", "sub/secret_name"):
            (folder / name).write_text("secret\n" + "needle secret\n" * 5)
    os.symlink(outside, root / "link")
    os.symlink("denied", root / "other")
    told: Counter[tuple[str, str]] = Counter()
    leaks: list[str] = []
    members = {"local": MemberConfig({"no_read_dirs": ("denied",)})}
    config = Config(durability="fast", members=members)
    with (
        open_workspace(str(root), config, shared=False) as opened,
        running(SWAP, str(root)),
        running(SWAP, str(root), "pub", "other"),
    ):
        tools = {tool for tool, _ in SEARCHES}
        for i in range(20 * calls):  # by chance one may meet a link each time: it goes on then
            if i >= calls and {tool for tool, c in told if c == "ok"} == tools:
                break
            tool, arguments = SEARCHES[i % len(SEARCHES)]
            where = WHERE[i // len(SEARCHES) % len(WHERE)]
            if tool == "list_dir":
                arguments = {"path": where.get("path", ".")}
            elif tool != "ripgrep_search":
                follow = i // len(SEARCHES) // len(WHERE) % 2 == 1
                arguments = {**arguments, **where, "follow_symlinks": follow}
            else:
                arguments = {**arguments, **where}
            fields = outcome(opened, tool, **arguments)
            told[tool, code(fields)] += 1
            text = str(fields)
            lines = [int(n) for n in re.findall(r"'(?:lines|matches)': (\d+)", text)]
            if "secret" in text or any(n > 1 for n in lines):
                leaks.append(f"{tool} {arguments}: {text}")
            if fields.get("total_matches", 0) > 8:
                leaks.append(f"{tool} {arguments}: {text}")
    assert not leaks, (len(leaks), told, leaks[:3])
    refused = REFUSALS | {"ACCESS_DENIED", "ok"}
    assert {c for _, c in told} <= refused, told
    assert {tool for tool, c in told if c == "ok"} == tools


def parts(text: str) -> tuple[set[str], list[str]]:
    """The generations whose lines stand in the text, and the lines of ours."""
    lines = text.split("\n")[:-1]
    ours = [line for line in lines if line.startswith("new ")]
    theirs = [line for line in lines if not line.startswith("new ")]
    generations = {line.split(" ")[0] for line in theirs} - {"anchor"}
    for generation in generations:
        whole = [f"{generation} line {i}" for i in range(10)] + ["anchor"]
        whole += [f"{generation} more {i}" for i in range(10)]
        assert theirs == whole
    return generations, ours


def check_generation(text: str, fields: Any, mine: str, way: str) -> bool:
    """After a success the text is one generation: ours with the line, or a later one."""
    shown = fields["apply_evidence"]["after"].split("\n")[1]
    written_on = int(shown.split(" ")[0])
    if not text:
        assert way == "in place"
        return False
    (generation,), ours = parts(text)
    if mine in ours:
        assert int(generation) == written_on
        return True
    assert int(generation) > written_on
    return False


@pytest.mark.slow
@pytest.mark.parametrize("way", ["rename", "in place"])
@pytest.mark.parametrize("applies", [50, pytest.param(2000, marks=pytest.mark.slow)])
def test_what_another_program_writes_is_never_mixed_with_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, applies: int
) -> None:
    monkeypatch.setattr(overwritten, "LOOKED_BACK_MS", 0)  # all edits before are overwritten here
    root, file = tmp_path / "root", tmp_path / "root" / "f"
    root.mkdir()
    file.write_text("0 line\n")
    found: Counter[str] = Counter()
    config = Config(durability="fast")
    with (
        open_workspace(str(root), config, shared=False) as opened,
        running(REWRITE, str(file), way),
    ):
        for i in range(500 * applies):
            arguments = {"path": "f", "anchor": "anchor", "content": f"new {i}\n"}
            plan = outcome(opened, "prepare_file_insert_before", **arguments)
            if plan["status"] == "error":
                found[code(plan)] += 1
                continue
            fields = outcome(opened, "apply_file_modification", hunk_id=plan["hunk_id"])
            text = file.read_text()
            found[code(fields)] += 1
            if code(fields) == "ok":
                found["seen"] += check_generation(text, fields, f"new {i}", way)
            elif text:
                assert f"new {i}" not in parts(text)[1]
            if found["seen"] and found["ok"] >= applies:
                break
    allowed = {"ok", "seen", "CONTENT_CHANGED", "ANCHOR_NOT_FOUND", "FAILED", "AMBIGUOUS_MATCH"}
    assert found.keys() <= allowed, found
    assert found["seen"], found
    assert found["ok"] >= applies, found


@pytest.mark.parametrize("way", ["rename", "in place"])
@pytest.mark.parametrize("times", [1, 5, 1000])
def test_what_is_written_between_our_read_and_our_write_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, times: int
) -> None:
    """The seam is the store's own method; a file that is never left alone is a refusal."""
    file = tmp_path / "f"
    file.write_text("anchor\n")
    left = times
    with open_workspace(str(tmp_path), Config(durability="fast"), shared=False) as opened:
        replace = opened.files.stage

        def meanwhile(*arguments: Any, **named: Any) -> object:
            nonlocal left
            if left:
                left -= 1
                target = tmp_path / "new" if way == "rename" else file
                target.write_text(f"{left:04}\nanchor\n")
                target.replace(file)
            return replace(*arguments, **named)

        monkeypatch.setattr(opened.files, "stage", meanwhile)
        plan = outcome(opened, "prepare_file_insert_after", path="f", anchor="anchor", content="x")
        fields = outcome(opened, "apply_file_modification", hunk_id=plan["hunk_id"])
        if times < 1000:
            assert (code(fields), fields["context_match"]) == ("ok", "fuzz")
            assert file.read_text() == "0000\nanchor\nx\n"
            return
        assert code(fields) == "FAILED"
        assert file.read_text() == f"{left:04}\nanchor\n"
        left = 0
        fields = outcome(opened, "apply_file_modification", hunk_id=plan["hunk_id"])
        assert code(fields) == "ok"


def test_a_link_put_in_the_place_of_the_file_is_not_followed_out(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.write_text("anchor\n")
    (root / "f").write_text("anchor\n")
    with open_workspace(str(root), Config(durability="fast"), shared=False) as opened:
        plan = outcome(opened, "prepare_file_append", path="f", content="x\n")
        (root / "f").unlink()
        (root / "f").symlink_to(outside)
        fields = outcome(opened, "apply_file_modification", hunk_id=plan["hunk_id"])
        assert code(fields) == "INVALID_PATH"
        (root / "f").unlink()
        (root / "f").write_text("anchor\n")
        fields = outcome(opened, "apply_file_modification", hunk_id=plan["hunk_id"])
        assert code(fields) == "ok"
    assert outside.read_text() == "anchor\n"


def test_a_link_that_turns_while_the_file_is_read_is_checked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file has two names, so it is read twice; between that its path leads elsewhere."""
    for folder in ("open", "private"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "f").write_text("anchor\n")
        os.link(tmp_path / folder / "f", tmp_path / folder / "g")
    (tmp_path / "link").symlink_to("open/f")
    members = {"local": MemberConfig({"no_write_dirs": ("private",)})}
    config = Config(durability="fast", members=members)
    with open_workspace(str(tmp_path), config, shared=False) as opened:
        plan = outcome(opened, "prepare_file_append", path="link", content="x\n")
        text = opened.files.text

        @contextmanager
        def turning(path: RelPath, named: Named, *_: object) -> Generator[OpenText]:
            with text(path, named) as found:
                (tmp_path / "link").unlink()
                (tmp_path / "link").symlink_to("private/f")
                yield found

        monkeypatch.setattr(opened.files, "text", turning)
        fields = outcome(opened, "apply_file_modification", hunk_id=plan["hunk_id"])
    assert code(fields) == "ACCESS_DENIED"
    assert [(tmp_path / folder / "f").read_text() for folder in ("open", "private")] == [
        "anchor\n",
        "anchor\n",
    ]


def test_what_a_link_leads_to_after_it_was_allowed_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It turns between the look at the rights and the reading, and back again."""
    for folder, line in (("open", "anchor\n"), ("private", "secret\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "f").write_text(line)
    link = tmp_path / "link"
    link.symlink_to("open/f")
    members = {"local": MemberConfig({"no_read_dirs": ("private",)})}
    config = Config(durability="fast", members=members)
    with open_workspace(str(tmp_path), config, shared=False) as opened:
        plan = outcome(opened, "prepare_file_range_edit", path="link", range="1", content="x\n")
        text = opened.files.text

        @contextmanager
        def turned(path: RelPath, named: Named, *_: object) -> Generator[OpenText]:
            monkeypatch.undo()
            link.unlink()
            link.symlink_to("private/f")
            with text(path, named) as found:
                link.unlink()
                link.symlink_to("open/f")
                yield found

        monkeypatch.setattr(opened.files, "text", turned)
        fields = outcome(opened, "apply_file_modification", hunk_id=plan["hunk_id"])
    assert code(fields) == "ok", fields
    assert "secret" not in json.dumps(fields)
    assert (tmp_path / "open/f").read_text() == "x\n"


def test_a_directory_that_turns_while_it_is_listed_is_checked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("pub", "private"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"of_{folder}").write_text("x\n")
    config = Config(members={"local": MemberConfig({"no_read_dirs": ("private",)})})
    with open_workspace(str(tmp_path), config, shared=False) as opened:
        list_dir = opened.files.list_dir

        def turning(path: RelPath) -> object:
            (tmp_path / "pub").rename(tmp_path / "held")
            (tmp_path / "pub").symlink_to("private")
            try:
                return list_dir(path)
            finally:
                (tmp_path / "pub").unlink()
                (tmp_path / "held").rename(tmp_path / "pub")

        monkeypatch.setattr(opened.files, "list_dir", turning)
        fields = outcome(opened, "list_dir", path="pub")
    assert code(fields) == "ACCESS_DENIED"
    assert "of_private" not in str(fields)


N = "n" * 200


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [
        "d/" * 2500 + "f",
        "d/" * 300 + "f",
        "é" * 128,
        "x" * 256 + "/f",
        f"{N}/" * 19 + N + "/" + "m" * 70,
    ],
)
def test_a_path_that_cannot_be_named_is_refused_before_anything_is_made(
    tmp_path: Path, path: str
) -> None:
    config = Config(durability="fast", toolsets=TOOLSETS)
    with open_workspace(str(tmp_path), config, shared=False) as opened:
        for tool, row in CALLS.items():
            if "path" in row and not tool.startswith(("list_", "ripgrep_")):
                create = {"create": True} if tool == "prepare_file_append" else {}
                answer = opened.call("local", tool, {**row, **create, "path": path})
                found = answer.data.get("error")
                error = found["code"] if isinstance(found, dict) else found
                reads = tool not in CREATES
                if "reason" in str(answer.data):  # the envelope has one code for paths and rights
                    assert error in ("INVALID_PATH", "ACCESS_DENIED"), (tool, answer.text[:300])
                    assert "bytes" in answer.text or "directories" in answer.text
                else:
                    assert reads, tool
                    assert error in ("FILE_NOT_FOUND", "NOT_FOUND"), (tool, answer.text[:300])
    assert [one for one in tmp_path.iterdir() if one.name != ".copydesk"] == []


CREATES = ("create_new_file", "prepare_file_append", "Write")


@pytest.mark.parametrize("call", ["mkdir", "open_dir", "open_unnamed"])
@pytest.mark.parametrize("at", [b"a", b"c", b"e"])
def test_no_directory_is_left_where_making_one_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, at: bytes
) -> None:
    inner = getattr(_os, call)

    def failing(*given: Any, **named: Any) -> Any:
        made = call == "mkdir"
        if call == "open_dir" and given[1] == at:
            made = os.path.isdir(f"/proc/self/fd/{given[0]}/{at.decode()}")
        if call == "open_unnamed" or (at in given and made):
            raise OSError(errno.ENOSPC, "")
        return inner(*given, **named)

    with open_workspace(str(tmp_path), Config(durability="fast"), shared=False) as opened:
        monkeypatch.setattr(_os, call, failing)
        fields = outcome(opened, "create_new_file", path="a/b/c/d/e/f", content="x")
    assert (code(fields), fields["reason"][:6]) == ("FAILED", "ENOSPC")
    assert [one for one in tmp_path.iterdir() if one.name != ".copydesk"] == []


FEW = """
import json, os, resource, sys
from copydesk.app.config import Config
from copydesk.app.workspace import open_workspace
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
known = sys.argv[2] == "known"
told = []
with open_workspace(sys.argv[1], Config(durability="fast"), shared=False) as opened:
    if known:
        opened.call("local", "ripgrep_files", {"pattern": "needle"})
    for more in range(1, 60):
        if not known:
            opened.looking._found = None
        held = os.open(os.devnull, os.O_RDONLY)
        os.close(held)
        resource.setrlimit(resource.RLIMIT_NOFILE, (held + more, most))
        answer = opened.call("local", "ripgrep_files", {"pattern": "needle"})
        resource.setrlimit(resource.RLIMIT_NOFILE, (held + 500, most))
        told.append(dict(answer.data))
print(json.dumps(told))
"""


@pytest.mark.slow
@pytest.mark.parametrize("program", first("known", "unknown"))
def test_with_few_descriptors_a_search_says_so(tmp_path: Path, program: str) -> None:
    for i in range(80):
        (tmp_path / f"f{i:02}").write_text("needle\n")
    command = [sys.executable, "-c", FEW, str(tmp_path), program]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    seen: Counter[str] = Counter()
    for data in json.loads(run.stdout):
        if data["status"] == "ok":
            assert (data["count"], data["truncated"]) == (50, True)
            assert "warnings" not in data
        else:
            assert data["error"] == "FAILED", data
            assert "EMFILE" in data["reason"] or "os error 24" in data["reason"], data
        seen[data["status"]] += 1
    assert set(seen) == {"ok", "error"}, seen
