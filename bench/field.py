"""All contestants: their names in the results, and how each is started."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bench.installing import Installed

Kind = Literal["copydesk", "peer", "limit"]


@dataclass(frozen=True)
class Entrant:
    """A contestant by name: which class, in which Python, with what options."""

    name: str
    kind: Kind
    module: str
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    python: str = sys.executable


PROGRAM = str(Path(sys.executable).with_name("copydesk"))
"""The command of this environment."""

RENAME = "limit: write + rename"
FSYNC = "limit: write + fsync + rename"
JOURNALLED = "limit: three commits, write + three flushes"
JOURNALLED_FAST = "limit: three commits, write + rename"
COPY = "limit: cp + fsync"
COPY_FAST = "limit: cp, no flush"
COUNT = "limit: count lines over mmap"
TAIL = "limit: raw tail"
FLOCK = "limit: flock + fsync + rename"
FLOCK_FAST = "limit: flock + rename"
EMPTY = "limit: SDK's empty call over stdio"
EMPTY_TWO = "limit: two of them"
MEMORY = "asked: 128 MB above idle"
FULL = "copydesk (full)"
FAST = "copydesk (fast)"
STDIO_FULL = "copydesk over MCP stdio, one call (full)"
STDIO_FAST = "copydesk over MCP stdio, one call (fast)"
STDIO_TWO = "copydesk over MCP stdio, prepare and apply (full)"


def entrants(found: Installed) -> dict[str, Entrant]:
    """Every contestant that can be started, by name."""
    rows = [
        Entrant(FULL, "copydesk", "bench.peers.copydesk_library:Library", {"durability": "full"}),
        Entrant(FAST, "copydesk", "bench.peers.copydesk_library:Library", {"durability": "fast"}),
        _stdio(STDIO_FULL, "full", "1"),
        _stdio(STDIO_FAST, "fast", "1"),
        _stdio(STDIO_TWO, "full", "2"),
        Entrant(EMPTY, "limit", "bench.peers.mcp_stdio:EmptyServer", {"calls": "1"}),
        Entrant(EMPTY_TWO, "limit", "bench.peers.mcp_stdio:EmptyServer", {"calls": "2"}),
        Entrant(RENAME, "limit", "bench.limits:Rewrite", {"fsync": "no"}),
        Entrant(FSYNC, "limit", "bench.limits:Rewrite", {"fsync": "yes"}),
        Entrant(JOURNALLED, "limit", "bench.limits:Journalled", {"fsync": "yes"}),
        Entrant(JOURNALLED_FAST, "limit", "bench.limits:Journalled", {"fsync": "no"}),
        Entrant(COPY, "limit", "bench.limits:Copy", {"fsync": "yes"}),
        Entrant(COPY_FAST, "limit", "bench.limits:Copy", {"fsync": "no"}),
        Entrant(COUNT, "limit", "bench.limits:CountLines"),
        Entrant(TAIL, "limit", "bench.limits:RawTail"),
        Entrant(FLOCK, "limit", "bench.limits:FlockLoop", {"fsync": "yes"}),
        Entrant(FLOCK_FAST, "limit", "bench.limits:FlockLoop", {"fsync": "no"}),
    ]
    for name, peer, module in (
        ("aider", "aider", "bench.peers.aider:Aider"),
        ("OpenHands editor", "openhands", "bench.peers.openhands:OpenHands"),
        ("mcp-text-editor", "mcp_text_editor", "bench.peers.mcp_text_editor:TextEditor"),
    ):
        if peer in found.python:
            rows.append(Entrant(name, "peer", module, python=found.python[peer]))
    for name, program, module in (
        ("GNU patch", "patch", "bench.peers.commands:Patch"),
        ("git apply", "git", "bench.peers.commands:GitApply"),
        ("GNU sed", "sed", "bench.peers.commands:Sed"),
    ):
        if program in found.program:
            rows.append(Entrant(name, "peer", module))
    if "apply_patch" in found.program:
        options = {"binary": found.program["apply_patch"]}
        module = "bench.peers.commands:ApplyPatch"
        rows.append(Entrant("apply_patch (codex)", "peer", module, options))
    if "filesystem" in found.program:
        options = {"node": found.program["node"], "script": found.program["filesystem"]}
        module = "bench.peers.mcp_stdio:FilesystemServer"
        rows.append(Entrant("MCP filesystem server", "peer", module, options))
    return {row.name: row for row in rows}


def _stdio(name: str, durability: str, calls: str) -> Entrant:
    options = {"program": PROGRAM, "durability": durability, "calls": calls}
    return Entrant(name, "copydesk", "bench.peers.mcp_stdio:CopydeskServer", options)
