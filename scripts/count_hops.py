"""Count what one small edit runs through, and one block diff: modules, changes of package, calls.

    python scripts/count_hops.py            the tenth edit through the tools, in the calling thread
    python scripts/count_hops.py --calls    prepare and apply, by all threads until the desk is idle

The edit replaces two of 200 lines, the block diff one paragraph of a note; both are warm. Counted
are Python calls of functions of copydesk (a generator counts at each step), and built-in calls
that these make. What libraries do within is not counted, nor what is made of an answer when its
fields are read after the call; its text is rendered in the call.

A change of package: two calls of copydesk's functions, one right after the other in the calling
thread, whose packages (`desk`, `store`, ...) differ. Returns are no calls, so that an answer that
passes through four packages does not count four times. Modules are those of the calling thread.

`--calls` gives the median of several runs, since the threads make them vary. Work after the answer
counts: each run ends when nothing was called for as long as any delay of the desk. A loop that
polls does not: it is a function that had begun before the run, and its own built-in calls are left
out. The library is `Desk(shared=True)`, with plans and the journal in the state folder like those
of a server. For a block diff the first number is that of Python calls in the calling thread.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from types import CodeType, FrameType
from typing import Any

import copydesk
from copydesk.app.config import Config
from copydesk.app.library import Desk
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.edit.request import RangeEdit

PACKAGE = f"{Path(copydesk.__file__).parent}/"
WARM, RUNS = 3, 10
QUIET_SECONDS = 0.6
"""Late looks come after 0.25 s, in a thread that may have gone to sleep for 0.25 s just before."""

Event = tuple[int, CodeType, bool]
"""A call: the thread, the function, and whether it is a built-in call that the function makes."""


class Profile:
    """Records the calls of this thread and of all threads that start after it was made."""

    def __init__(self) -> None:
        self._events: list[Event] = []  # appended to by all threads, which needs no lock
        self._begun: set[int] = set()
        self._is_on = False
        threading.setprofile(self._see)

    def of(self, work: Callable[[], Any], quiet: float = 0.0) -> tuple[Any, list[Event]]:
        """What the work returns, and its calls, until there was none for `quiet` seconds."""
        self._events, self._begun, self._is_on = [], set(), True
        sys.setprofile(self._see)
        try:
            result = work()
        finally:
            sys.setprofile(None)
        before = -1
        while quiet and before != len(self._events):
            before = len(self._events)
            time.sleep(quiet)
        self._is_on = False
        return result, self._events

    def _see(self, frame: FrameType, event: str, _: object) -> None:
        if not self._is_on or not frame.f_code.co_filename.startswith(PACKAGE):
            return
        if event == "call":
            self._begun.add(id(frame))
            self._events.append((threading.get_ident(), frame.f_code, False))
        elif event == "return":
            self._begun.discard(id(frame))
        elif event == "c_call" and id(frame) in self._begun:
            self._events.append((threading.get_ident(), frame.f_code, True))


@dataclass(frozen=True)
class Hops:
    """Of one run: calls of all threads, and the rest of the calling thread."""

    python: int
    built_in: int
    in_thread: int
    modules: int
    functions: int
    changes: int

    @staticmethod
    def of(events: list[Event]) -> Hops:
        """Count the events of a run that this thread called for."""
        here = threading.get_ident()
        run = [code for thread, code, built_in in events if thread == here and not built_in]
        files = [code.co_filename.removeprefix(PACKAGE) for code in run]
        packages = [name.split("/")[0] for name in files]
        return Hops(
            python=sum(not built_in for _, _, built_in in events),
            built_in=sum(built_in for _, _, built_in in events),
            in_thread=len(run),
            modules=len(set(files)),
            functions=len(
                {(code.co_filename, code.co_firstlineno, code.co_qualname) for code in run}
            ),
            changes=sum(one != other for one, other in pairwise(packages)),
        )

    def __str__(self) -> str:
        return (
            f"{self.modules} modules, {self.changes:,} changes of package, "
            f"{self.functions} functions, {self.in_thread:,} calls of Python; "
            f"in all threads {self.python + self.built_in:,} "
            f"({self.python:,} of Python, {self.built_in:,} built-in)"
        )


def middle(runs: Iterable[list[Event]]) -> Hops:
    """The median of each number, of the runs that were warm."""
    warm = [tuple(vars(Hops.of(run)).values()) for run in runs][WARM:]
    return Hops(*(round(median(numbers)) for numbers in zip(*warm, strict=True)))


@contextmanager
def workspace(paragraphs: int = 0) -> Iterator[str]:
    """A folder with a file of 200 lines, and a note of so many paragraphs."""
    with tempfile.TemporaryDirectory() as root:
        (Path(root) / "f").write_text("".join(f"line {i}\n" for i in range(200)))
        text = "".join(f"Paragraph {i}.\n\n" for i in range(paragraphs))
        if text:
            (Path(root) / "n.md").write_text(text)
        yield root


def edit(i: int) -> dict[str, str]:
    """The arguments of one small edit."""
    return {"path": "f", "range": "100~101", "content": f"new {i}\nlines\n"}


def block_of(desk: OpenWorkspace) -> str:
    """The id of the first paragraph of the only note."""
    listed = desk.call("local", "listNotebooks", {}).data
    (note,) = re.findall(r"'id': '([^']+)'", str(listed))[-1:]
    page = desk.call("local", "getBlockContent", {"blockId": note, "slice": "0:2"}).data
    return str(re.findall(r"@@(\S+)@@Paragraph\n", str(page["content"]))[0])


def called(
    profile: Profile,
    desk: OpenWorkspace,
    tool: str,
    arguments: Mapping[str, object],
    quiet: float = 0.0,
) -> tuple[dict[str, Any], list[Event]]:
    """The fields of a successful answer, which are made after counting, and the calls."""
    answer, seen = profile.of(lambda: desk.call("local", tool, arguments), quiet)
    assert not answer.is_error, answer.text
    return dict(answer.fields), seen


def edits(profile: Profile, quiet: float) -> Iterator[tuple[list[Event], list[Event]]]:
    """The calls of preparing and of applying an edit by the tools, one pair an edit."""
    with workspace() as root, open_workspace(root, Config()) as desk:
        for i in range(RUNS):
            plan, prepared = called(profile, desk, "prepare_file_range_edit", edit(i))
            given = {"hunk_id": plan["hunk_id"]}
            _, applied = called(profile, desk, "apply_file_modification", given, quiet)
            yield prepared, applied


def edits_by_library(profile: Profile, quiet: float) -> Iterator[list[Event]]:
    """The calls of preparing and applying an edit by the Python API."""
    with workspace() as root, Desk(root, shared=True) as desk:

        def once(new: dict[str, str]) -> None:
            request = RangeEdit(desk.path(new["path"]), new["range"], new["content"])
            desk.apply(desk.prepare(request).id)

        for i in range(RUNS):
            yield profile.of(partial(once, edit(i)), quiet)[1]


def block_diffs(profile: Profile, paragraphs: int, quiet: float) -> Iterator[list[Event]]:
    """The calls of a block diff that replaces the first paragraph of a note with so many."""
    with workspace(paragraphs) as root, open_workspace(root, Config()) as desk:
        block = block_of(desk)
        for i in range(RUNS):
            diff = f"@@REPLACE:{block}@@\nrevision {i}\n"
            yield called(profile, desk, "applyBlockDiff", {"diff": diff}, quiet)[1]


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--calls", action="store_true", help="all threads, until the desk is idle")
    profile = Profile()
    if parser.parse_args().calls:
        print(f"prepare and apply, library: {middle(edits_by_library(profile, QUIET_SECONDS))}")
        both = (one + other for one, other in edits(profile, QUIET_SECONDS))
        print(f"prepare and apply, tools: {middle(both)}")
        for paragraphs in (40, 400):
            told = middle(block_diffs(profile, paragraphs, QUIET_SECONDS))
            print(f"block diff, {paragraphs} paragraphs: {told}")
        return 0
    prepared, applied = zip(*edits(profile, 0), strict=True)
    print(f"prepare_file_range_edit: {middle(prepared)}")
    print(f"apply_file_modification: {middle(applied)}")
    print(f"applyBlockDiff: {middle(block_diffs(profile, 40, 0))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
