"""Two workspaces for one file: one sees it as a small one, the other as a large one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from copydesk.app.config import Config
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.desk.outcome import Applied, Planned, Rejected
from copydesk.edit.request import Request, Terms
from copydesk.errors import Refusal
from copydesk.text import sizes
from copydesk.text.relpath import RelPath
from copydesk.tools import reports
from copydesk.tools.report import Answer
from support.desks import FAST, Setup

PATH = RelPath(("a.txt",))
TOOL = "prepare_file_range_edit"
NO_TERMS = Terms()
SIZES = {"LARGE": 4 << 10, "COMPARED": 8 << 10, "BLOCK": 256, "WINDOW": 2 << 10}
LARGE_FILES = Setup(Config(durability="fast", whole_bytes=16 << 10), sizes=SIZES)
"""A workspace in which a file of 100 KB is larger than what is compared."""


class Desks:
    """Two workspaces for one file: one sees it as a small one, the other as a large one."""

    def __init__(self, root: Path, config: Config = FAST) -> None:
        self.roots = (root / "small", root / "large")
        for each in self.roots:
            each.mkdir()
        self.opened = [open_workspace(str(each), config, shared=False) for each in self.roots]

    def __enter__(self) -> Desks:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.opened:
            each.close()

    def write(self, data: bytes) -> None:
        for root in self.roots:
            (root / "a.txt").write_bytes(data)

    def check(
        self,
        data: bytes,
        request: Request,
        terms: Terms = NO_TERMS,
        *,
        block: int = 64,
        window: int = sizes.WINDOW,
        between: Callable[[Path], None] = lambda path: None,
    ) -> list[Answer]:
        """The two ways report the same at plan and apply, and leave the same bytes."""
        self.write(data)
        small = _answers(self.opened[0], request, terms, lambda: between(self.roots[0] / "a.txt"))
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(sizes, "LARGE", 0)
            patched.setattr(sizes, "BLOCK", block)
            patched.setattr(sizes, "WINDOW", window)
            found = _answers(
                self.opened[1], request, terms, lambda: between(self.roots[1] / "a.txt")
            )
        for one, other in zip(small, found, strict=True):
            assert _comparable(one) == _comparable(other)
            assert one.diff == other.diff
            assert one.next_steps == other.next_steps or "hunk_id" in one.fields
        assert [each.name for each in os.scandir(self.roots[1])] == ["a.txt"]
        after = [(root / "a.txt").read_bytes() for root in self.roots]
        assert after[0] == after[1]
        entries = [opened.journal.entries(most=1) for opened in self.opened]
        for old, new in zip(*entries, strict=True):
            assert (old.before, old.after, old.inverse) == (new.before, new.after, new.inverse)
            assert (old.state, old.diff) == (new.state, new.diff)
        return found


def _comparable(report: Answer) -> dict[str, object]:
    """All fields, without what differs between any two plans."""
    fields = dict(report.fields)
    if "hunk_id" in fields:
        fields |= {"hunk_id": "", "expires_at_ms": 0}
    return fields


def _answers(
    opened: OpenWorkspace, request: Request, terms: Terms, between: Callable[[], None]
) -> list[Answer]:
    """The reports of the plan and of its apply, or of what is refused."""
    member = opened.member("local")
    try:
        plan = opened.desk.prepare(member, TOOL, request, terms)
        if isinstance(plan, Applied):
            return [reports.applied(TOOL, plan, "en")]
        answers = [reports.planned(TOOL, plan, "en")]
        between()
        done = opened.desk.apply(member, "apply_file_modification", plan.id)
    except Refusal as refusal:
        return [reports.refused(TOOL, "a.txt", refusal, "en")]
    if isinstance(done, Rejected):
        return [*answers, reports.rejected(TOOL, done, "en")]
    return [*answers, reports.applied(TOOL, done, "en")]


def numbered(count: int) -> bytes:
    return b"".join(b"%06d of many lines\n" % i for i in range(1, count + 1))


def prepared(desk: OpenWorkspace, request: Request) -> Planned:
    plan = desk.desk.prepare(desk.member("local"), TOOL, request)
    assert isinstance(plan, Planned)
    return plan
