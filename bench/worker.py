"""The process of one contestant: `python -m bench.worker MODULE:CLASS OPTIONS ROOT`.

A loop over requests, one JSON line each, and the clock. It runs in the environments of the peers,
so it needs nothing but Python.
"""

from __future__ import annotations

import gc
import importlib
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.contestant import Contestant, Job, Refused, Unsupported

Reply = dict[str, Any]


def main() -> None:
    """Serve until standard input ends."""
    with suppress(OSError):  # when memory runs out, this process is ended and not the bench
        Path("/proc/self/oom_score_adj").write_text("1000")
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
            case "race":
                return _race(contestant, request)
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


def _race(contestant: Contestant, request: Reply) -> Reply:
    """So many processes at once, each with a contestant of its own; what each of them did.

    They are forked, so that what a tool loads is loaded already.
    """
    context = multiprocessing.get_context("fork")
    paths: list[str] = request["paths"]
    barrier = context.Barrier(len(paths))
    told: Any = context.SimpleQueue()

    def run(number: int) -> None:
        own = type(contestant)(contestant.options)
        own.open(Path(request["root"]))
        barrier.wait(60)
        told.put(_many(own, request, paths[number], number))
        own.close()

    children = [context.Process(target=run, args=(number,)) for number in range(len(paths))]
    for child in children:
        child.start()
    replies: list[Reply] = []
    while len(replies) < len(children):
        if told.empty():
            if not any(child.is_alive() for child in children) and told.empty():
                return {"failed": "error", "text": "its processes ended"}
            time.sleep(0.005)
            continue
        replies.append(told.get())
    for child in children:
        child.join(20)
    return {"replies": replies}


def _many(contestant: Contestant, request: Reply, path: str, number: int) -> Reply:
    """So many edits of one file, one after the other.

    Each puts a line of its own after the marked line. One that is refused is
    tried again; what counts as done is what the tool reported as done.
    """
    done: list[str] = []
    refused = 0
    mark = request["marks"][number]
    began = time.time()
    until = began + request["seconds"]
    for index in range(request["count"]):
        token = f"token-{number}-{index:05d}."
        for _ in range(request["tries"]):
            if time.time() > until:
                break
            try:
                contestant.replace(path, mark, f"{mark}\n{token}")()
            except Exception:  # refused, or fell over a file that another one is writing
                refused += 1
                continue
            done.append(token)
            break
    ended = time.time()
    return {"number": number, "began": began, "ended": ended, "done": done, "refused": refused}


if __name__ == "__main__":
    main()
