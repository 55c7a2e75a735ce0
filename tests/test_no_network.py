"""No telemetry and no network: the main job in a namespace that has none, and no call of a socket."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
UNSHARE = ("unshare", "-n", "-r")
JOB = f"""
set -e
copydesk call prepare_file_append --path a.txt --content two --apply auto
copydesk call ripgrep_search --pattern two
copydesk history --json
copydesk undo 1
copydesk doctor || true
copydesk manual ws_mod > /dev/null
copydesk --version
{sys.executable} -c "
from copydesk import Append, Desk
with Desk('.') as desk:
    print(desk.apply(desk.prepare(Append('a.txt', 'three'))).edit_id)"
"""


def needs_unshare() -> None:
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare here")
    tried = subprocess.run([*UNSHARE, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"no namespace can be made here: {tried.stderr.strip()}")


@pytest.mark.slow
def test_the_main_job_needs_no_network(tmp_path: Path) -> None:
    needs_unshare()
    (tmp_path / "a.txt").write_text("one\n")
    ran = subprocess.run(
        [*UNSHARE, "sh", "-c", JOB],
        cwd=tmp_path,
        env={"PATH": f"{BIN}:/usr/bin:/bin", "HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "ok a.txt" in ran.stdout
    assert ran.stdout.endswith("\n1\n")
    assert (tmp_path / "a.txt").read_text() == "one\nthree\n"


LISTENING = """
import socket, sys
calls = []
def note(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        calls.append((event, args[1:]))
sys.addaudithook(note)
from copydesk.app.cli import main
main(["call", "prepare_file_append", "--path", "a.txt", "--content", "x", "--apply", "auto"])
main(["history"])
main(["doctor"])
from copydesk import Append, Desk
with Desk(".") as desk:
    desk.apply(desk.prepare(Append("a.txt", "three")))
print("calls", [call for call in calls if "127.0.0.1" not in str(call)])
"""


@pytest.mark.slow
def test_nobody_is_asked_or_told(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    ran = subprocess.run(
        [sys.executable, "-c", LISTENING],
        cwd=tmp_path,
        env={"PATH": f"{BIN}:/usr/bin:/bin", "HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.endswith("calls []\n")
