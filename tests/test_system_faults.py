"""Each system call below Python and below SQLite fails: what is told is so, and files are whole.

The cases, and who judges them, are in `support/system_faults.py`; the faults in
`support/system_calls.c`. One more by hand, of every call:
`LD_PRELOAD=LIBRARY python tests/support/system_faults.py LIBRARY FOLDER apply EIO:1:1`.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from copydesk.app.workspace import open_workspace
from support.processes import outcome
from support.system_faults import DEEDS, WAYS

SUPPORT = Path(__file__).parent / "support"
EVERY = {"EIO": 19, "ENOSPC": 7, "full": 9, "EINTR": 29, "short": 11, "killed": 17}
"""Of each way one call in so many; which ones is another matter for each deed."""

MEMORY = Path("/dev/shm")
"""Where a flush costs nothing; it is the call that counts."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is loaded before libc."""
    if sys.platform != "linux":
        pytest.skip("system calls are counted on Linux only")
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler (cc) on this machine")
    made = tmp_path_factory.mktemp("library") / "system_calls.so"
    source = SUPPORT / "system_calls.c"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", made, source, "-ldl"], check=True)
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, if there is one."""
    where = MEMORY if os.access(MEMORY, os.W_OK) else tmp_path
    with tempfile.TemporaryDirectory(dir=where) as made:
        yield Path(made)


@pytest.mark.slow
@pytest.mark.parametrize("name", DEEDS)
def test_what_is_told_is_so_whichever_system_call_fails(
    library: Path, folder: Path, name: str, record_property: Callable[[str, object], None]
) -> None:
    """Done is done, refused is not done, and a group is never done by half."""
    start = list(DEEDS).index(name)
    asked = [f"{way}:{1 + start % EVERY[way]}:{EVERY[way]}" for way in WAYS]
    ran = subprocess.run(
        [sys.executable, SUPPORT / "system_faults.py", library, folder, name, *asked],
        env={**os.environ, "LD_PRELOAD": str(library)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # the tracebacks of work that failed beside the calls
        check=True,
    )
    found = json.loads(ran.stdout)
    assert found["wrong"] == []
    cases = {way: sum(calls.values()) for way, calls in found["reached"].items()}
    record_property("told", f"{name}: {sum(cases.values())} system calls failed: {cases}")
    assert all(cases.values())
    below = {call for calls in found["reached"].values() for call in calls}
    assert {"pwrite64", "fcntl64"} <= below, "SQLite's own calls are counted"


def test_a_lock_that_the_system_refuses_is_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("one\n")

    def refused(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    with open_workspace(str(tmp_path)) as opened:
        plan = outcome(opened, "prepare_file_append", path="a.txt", content="two\n")
        with monkeypatch.context() as patched:
            patched.setattr(fcntl, "flock", refused)
            found = outcome(opened, "apply_file_modification", hunk_id=plan["hunk_id"])
        assert (found["status"], found["error"]) == ("error", "FAILED")
        assert (tmp_path / "a.txt").read_text() == "one\n"
        found = outcome(opened, "apply_file_modification", hunk_id=plan["hunk_id"])
        assert found["status"] == "ok"
    assert (tmp_path / "a.txt").read_text() == "one\ntwo\n"
