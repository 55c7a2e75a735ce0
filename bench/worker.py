"""The process in which one contestant runs: `python -m bench.worker MODULE:CLASS OPTIONS ROOT`.

What lives here: a loop over requests, one JSON line each, and the clock. What
must not: any one tool. It runs in the environments of the peers, so it needs
nothing but Python.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.contestant import Contestant, Job, Refused, Unsupported

Reply = dict[str, Any]


def main() -> None:
    """Serve until standard input ends."""
    module, _, name = sys.argv[1].partition(":")
    wire = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a tool prints is not a reply
    contestant: Contestant = getattr(importlib.import_module(module), name)(json.loads(sys.argv[2]))
    contestant.open(Path(sys.argv[3]))
    print(json.dumps({"ready": True}), file=wire)
    for line in sys.stdin:
        print(json.dumps(_answer(contestant, json.loads(line))), file=wire)
    contestant.close()


def _answer(contestant: Contestant, request: Reply) -> Reply:
    try:
        match request["do"]:
            case "edit":
                return _timed(contestant, contestant.edit(Job(Path(request["job"]))))
            case "read":
                call = contestant.read(request["first"], request["last"], request["total"])
                return _timed(contestant, call)
            case "read_end":
                return _timed(contestant, contestant.read_end(request["lines"]))
            case "many":
                return _many(contestant, request)
            case other:
                raise ValueError(other)
    except Unsupported:
        return {"failed": "unsupported", "text": "has no such operation"}
    except Exception as error:  # the one broad catch: whatever a tool raises, it failed
        return {"failed": "error", "text": f"{type(error).__name__}: {error}"[:20_000]}


def _timed(contestant: Contestant, call: Callable[[], object]) -> Reply:
    gc.collect()
    contestant.reset_peak()
    idle = contestant.idle_kb()
    reply: Reply = {}
    began = time.perf_counter()
    try:
        shown = call()
    except Refused as refused:
        reply = {"failed": "refused", "text": str(refused)[:20_000]}
        shown = None
    except Exception as error:
        reply = {"failed": "error", "text": f"{type(error).__name__}: {error}"[:20_000]}
        shown = None
    seconds = time.perf_counter() - began
    if isinstance(shown, str):
        reply["text"] = shown[:200_000]
    return reply | {"seconds": seconds, "peak_kb": contestant.peak_kb(), "idle_kb": idle}


def _many(contestant: Contestant, request: Reply) -> Reply:
    """So many edits of one file, one after the other, from a given moment on.

    Each puts a line `token` after the marked line. One that is refused is tried
    again; what counts as done is what the tool reported as done.
    """
    done: list[str] = []
    refused = 0
    while time.time() < request["at"]:
        time.sleep(0.001)
    began = time.time()
    for index in range(request["count"]):
        token = f"{request['token']}-{index:05d}."
        mark = request["mark"]
        for _ in range(request["tries"]):
            if time.time() > request["until"]:
                break
            try:
                contestant.replace(request["path"], mark, f"{mark}\n{token}")()
            except Exception:  # refused, or fell over a file that another one is writing
                refused += 1
                continue
            done.append(token)
            break
    return {"began": began, "ended": time.time(), "done": done, "refused": refused}


if __name__ == "__main__":
    main()
