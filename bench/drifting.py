"""Ways to carry a hunk over drift, and the cases of the drift data set.

The ways are copydesk's rule alone, copydesk itself, and common tools. The data set is not part of
the project.
"""

from __future__ import annotations

import importlib.util
import json
import lzma
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bench import PROJECT
from bench.contestant import outside
from bench.traps import Case, Change

Carry = Callable[[bytes, Sequence[Change], bytes], "bytes | None"]
"""(base, changes, now) -> what now becomes by the hunk planned on base; None: refused."""


def data_set(environ: dict[str, str] | None = None) -> Path | None:
    """The folder of the data set, which COPYDESK_DRIFT names; None where it is not."""
    named = (os.environ if environ is None else environ).get("COPYDESK_DRIFT", "../shared/drift")
    folder = PROJECT / named
    return folder if (folder / "real.jsonl.xz").exists() else None


def cases(folder: Path, name: str, step: int) -> Iterator[Case]:
    """The cases of one of the data set's files, one in `step` of them."""
    part = "texts" if name in ("real", "traps", "outdent") else "texts-more"
    texts = {row["id"]: row["latin1"].encode("latin-1") for row in _rows(folder, part)}
    for index, row in enumerate(_rows(folder, name)):
        if index % step:
            continue
        base = texts[row["base"]]
        now = replaced(base, _changes(row["drift"])) if "drift" in row else texts[row["current"]]
        accepted = frozenset(row["accept_sha256"])
        yield Case(row["kind"], row["expect"], base, _changes(row["changes"]), now, accepted)


def _changes(rows: list[tuple[int, int, list[str]]]) -> list[Change]:
    return [(start, stop, [x.encode("latin-1") for x in new]) for start, stop, new in rows]


def equal_lines(size: int) -> Case:
    """A text of equal lines into which one line more was put, and a hunk in its middle."""
    line = b"the same line again and again\n"
    count = size // len(line)
    base = line * count
    now = line * (count // 3) + b"another one\n" + line * (count - count // 3)
    change = (count // 2, count // 2 + 1, [b"edited\n"])
    return Case("equal lines", "reject", base, [change], now, frozenset())


def _rows(folder: Path, part: str) -> Iterator[dict[str, Any]]:
    with lzma.open(folder / f"{part}.jsonl.xz", "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def rule() -> Carry:
    """The rule of `copydesk.text.relocation`, in the small editor that its tests have around it."""
    path = PROJECT / "tests" / "support" / "drift_adapter.py"
    spec = importlib.util.spec_from_file_location("drift_adapter", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    carry: Carry = module.carry_hunk
    return carry


class Product:
    """copydesk itself: prepared on the base, the file changes, applied.

    It edits by line numbers, so it is asked where one range of lines is replaced.
    The tools end the last line, keep a byte order mark and the terminators that
    the file has: hunks about those are not asked either.
    """

    def __init__(self, folder: Path) -> None:
        from copydesk.app.config import Config
        from copydesk.app.workspace import open_workspace

        self._path = folder / "f"
        config = Config(durability="fast")
        self._opened = open_workspace(str(folder), config, shared=False)
        self._hunk = ""

    @staticmethod
    def takes(case: Case) -> bool:
        """Whether it can be asked."""
        start, stop, new = case.changes[0]
        text = b"".join(new)
        mixed = case.base.count(b"\r\n") not in (0, case.base.count(b"\n"))
        ended = case.base.endswith(b"\n") and case.now.endswith(b"\n")
        ended = ended and all(line.endswith(b"\n") for line in new)
        clean = ended and not mixed and b"\xef\xbb\xbf" not in text
        return len(case.changes) == 1 and start < stop and clean and _is_utf8(text)

    def prepare(self, case: Case) -> None:
        """Plan on the base, then let the file be what it is now."""
        self._path.write_bytes(case.base)
        start, stop, new = case.changes[0]
        content = b"".join(new).decode()
        arguments = {"path": "f", "range": f"{start + 1}~{stop}", "content": content}
        told = self._opened.call("local", "prepare_file_range_edit", arguments).text
        found = re.search(r"hunk_id\W+([0-9a-f]{8})", told)
        self._hunk = found[1] if found else ""
        self._path.write_bytes(case.now)

    def apply(self) -> bool:
        """Whether it was applied; only this is timed. Raises RuntimeError for a crash."""
        answer = self._opened.call("local", "apply_file_modification", {"hunk_id": self._hunk})
        if "log_id" in answer.data:
            raise RuntimeError(answer.text)
        return not answer.is_error

    def result(self) -> bytes:
        """The file."""
        return self._path.read_bytes()

    def close(self) -> None:
        """Close the workspace."""
        self._opened.close()


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def merge_file(base: bytes, changes: Sequence[Change], now: bytes) -> bytes | None:
    """`git merge-file`, which knows the base."""
    with tempfile.TemporaryDirectory() as folder:
        for name, data in (("now", now), ("base", base), ("edited", replaced(base, changes))):
            (Path(folder) / name).write_bytes(data)
        done = _run(Path(folder), "git", "merge-file", "-p", "now", "base", "edited")
        return done.stdout if done.returncode == 0 else None


def patch(base: bytes, changes: Sequence[Change], now: bytes) -> bytes | None:
    """GNU patch with its default fuzz."""
    return _by_diff(["patch", "-p1", "-s", "--binary", "-i", "p"], base, changes, now)


def git_apply(base: bytes, changes: Sequence[Change], now: bytes) -> bytes | None:
    """`git apply`."""
    return _by_diff(["git", "apply", "--whitespace=nowarn", "p"], base, changes, now)


def _by_diff(
    command: Sequence[str], base: bytes, changes: Sequence[Change], now: bytes
) -> bytes | None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "a").write_bytes(base)
        (folder / "b").write_bytes(replaced(base, changes))
        (folder / "f").write_bytes(now)
        made = _run(folder, "diff", "-u", "--label", "a/f", "--label", "b/f", "a", "b")
        (folder / "p").write_bytes(made.stdout)
        done = _run(folder, *command)
        return (folder / "f").read_bytes() if done.returncode == 0 else None


def _run(folder: Path, *command: str) -> subprocess.CompletedProcess[bytes]:
    env = {**os.environ, **outside(folder)}
    return subprocess.run(command, cwd=folder, capture_output=True, check=False, env=env)


def replaced(base: bytes, changes: Sequence[Change]) -> bytes:
    """The base with the hunk made."""
    parts = base.split(b"\n")
    tail = parts.pop()
    lines = [part + b"\n" for part in parts] + ([tail] if tail else [])
    out: list[bytes] = []
    at = 0
    for start, stop, new in changes:
        out += lines[at:start] + new
        at = stop
    return b"".join(out + lines[at:])
