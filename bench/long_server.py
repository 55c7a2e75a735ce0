"""One server for a day of calls: its memory and its descriptors have to stay level.

`python -m bench.long_server --calls 20000` starts the real server on a folder of 100 files and lets
one client read, edit, undo, search, list and be refused, while another program saves files. It
prints the server's memory and open descriptors at each tenth, and ends with status 1 if the last
tenth has a tenth more of either than the third.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.agents import started
from bench.contestant import Refused, memory_kb
from bench.peers.mcp_stdio import Client

FILES = 100
TENTHS = 10
SETTLED = 2  # by the third tenth all caches are full
MOST_GROWTH = 1.1


def calls_of(client: Client, root: Path, number: int) -> None:
    """Six calls on one file, one of them refused."""
    name = f"f{number % FILES}.py"
    client.call("read_file", {"path": name})
    given = {"path": name, "old": "x = 0", "new": f"x = 0\ny = {number}"}
    written = re.search(r"edit (\d+)", client.call("replace_text", given))
    assert written is not None
    client.call("ripgrep_search", {"pattern": f"y = {number}", "path": name})
    answer = client.call("read_file", {"path": "."})
    assert name in answer
    try:
        client.call("replace_text", {"path": name, "old": f"z{number}", "new": "nothing"})
    except Refused:
        pass
    else:
        raise AssertionError("an edit without a place was written")
    client.call("undo_file_modification", {"edit_id": int(written[1])})
    if number % 7 == 0:
        (root / name).write_text(text_of(number))  # an editor saves a buffer of its own


def text_of(number: int) -> str:
    """The text of a file, different each time."""
    lines = "".join(f"def f{line}():\n    return {line}\n\n\n" for line in range(60))
    return f"# {number}\nx = 0\n{lines}"


def descriptors(pid: int) -> int:
    """How many files the process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def measured(calls: int) -> Sequence[tuple[int, int, int]]:
    """Calls, memory in KiB and descriptors, at the end of each tenth."""
    rows: list[tuple[int, int, int]] = []
    with tempfile.TemporaryDirectory(prefix="long-") as home:
        root = Path(home)
        for number in range(FILES):
            (root / f"f{number}.py").write_text(text_of(number))
        client = started(root)
        pid, each = client.process.pid, max(calls // 6 // TENTHS, 1)
        try:
            for number in range(each * TENTHS):
                calls_of(client, root, number)
                if (number + 1) % each == 0:
                    rows.append(((number + 1) * 6, memory_kb(pid, "VmRSS"), descriptors(pid)))
        finally:
            client.close()
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=20_000)
    rows = measured(parser.parse_args().calls)
    print("| calls | MB | descriptors |\n|---|---|---|")
    for calls, memory, opened in rows:
        print(f"| {calls:,} | {memory / 1024:.1f} | {opened} |")
    (_, settled, before), (_, last, after) = rows[SETTLED], rows[-1]
    is_level = last <= MOST_GROWTH * settled and after <= MOST_GROWTH * before
    print("ok" if is_level else "MISSED", "memory and descriptors stay level")
    return 0 if is_level else 1


if __name__ == "__main__":
    sys.exit(main())
