"""A workspace with notes, in a folder of files or in a fake kernel, for the tests of the tools."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from copydesk.app.config import Config
from copydesk.app.workspace import OpenWorkspace, kernel_path, open_workspace
from copydesk.notes.desk import OpenNotes
from copydesk.notes.grammar import split_as
from copydesk.notes.kernel.blocks import split_blocks
from copydesk.notes.protocol import is_id
from copydesk.notes.tools import notes_of
from copydesk.tools.report import Lang
from support.fake_kernel import FakeKernel
from support.note_stores import store_of

STORES = ("folder", "kernel")
NOWHERE = "20200101000000-nowhere"


@dataclass
class Stage:
    """An open workspace with one notebook; `kernel` is None for a folder."""

    opened: OpenWorkspace
    root: Path
    kernel: FakeKernel | None
    box: str = ""

    def document(self, markdown: str, title: str = "One") -> str:
        """A new document at the top; its id."""
        if self.kernel is not None:
            return self.kernel.document(self.box, title, markdown)
        (self.root / f"{title}.md").write_text(markdown + "\n", "utf-8")
        reading = notes_of(self.opened.desk).reading
        member = self.opened.member("local")
        found = reading.documents(member, self.box, 1_000)
        return next(one.id for one in found if one.hpath == f"/{title}")

    def call(self, tool: str, lang: Lang = "en", member: str = "local", **arguments: Any) -> Any:
        """A tool's answer."""
        return self.opened.call(member, tool, arguments, lang=lang)

    def done(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What a tool answers that does what it is asked for."""
        answer = self.call(tool, **arguments)
        assert not answer.is_error, answer.text
        return dict(answer.data)

    def refused(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What a tool answers that refuses, and leaves all as it was."""
        before = self.state()
        answer = self.call(tool, **arguments)
        assert answer.is_error, answer.text
        assert self.state() == before
        return dict(answer.data)

    def parts(self, block_id: str) -> list[tuple[str, str]]:
        """The ids and texts of what a block holds."""
        reading, member = notes_of(self.opened.desk).reading, self.opened.member("local")
        found = reading.content(member, block_id, parts=True, slice_text=None)
        return [(one.id, one.markdown) for one in found.blocks]

    def ids(self, block_id: str) -> list[str]:
        """The ids of what a block holds."""
        return [one for one, _ in self.parts(block_id)]

    def texts(self, block_id: str) -> list[str]:
        """The texts of what a block holds."""
        return [text for _, text in self.parts(block_id)]

    def states(self) -> dict[str, str]:
        """How each plan stands, as the people who review it see."""
        pending = self.opened.desk.review.pending(self.opened.member("local"))
        return {one.plan.id: one.state for one in pending}

    def state(self) -> str:
        """All there is."""
        if self.kernel is not None:
            return self.kernel.all()
        files = sorted(self.root.rglob("*.md"))
        return "\n".join(f"{one.relative_to(self.root)}\n{one.read_text('utf-8')}" for one in files)


@contextmanager
def stage_at(root: Path, store: str, **settings: Any) -> Iterator[Stage]:
    """A stage in an empty folder."""
    config = Config(**{"durability": "fast", **settings})
    if store == "folder":
        with open_workspace(str(root), config, shared=False) as opened:
            stage = Stage(opened, root, None)
            stage.box = stage.done("listNotebooks")["notebooks"][0]["id"]
            yield stage
        return
    with FakeKernel() as kernel:

        def home(_: object) -> OpenNotes:
            found = store_of(kernel, split=split_blocks)
            return OpenNotes(
                found,
                split_as("siyuan"),
                mixes_tasks=False,
                valid=is_id,
                path_of=kernel_path,
                in_files=False,
            )

        with open_workspace(str(root), config, shared=False, open_notes=home) as opened:
            yield Stage(opened, root, kernel, kernel.box())


TEN = "\n\n".join(f"p{i}" for i in range(10))


def edit(block_id: str, search: str, text: str) -> str:
    """A hunk that replaces one text by another."""
    body = f"{text}\n" if text else ""
    return f"@@{block_id}@@\n<<<<<<< SEARCH\n{search}\n=======\n{body}>>>>>>> REPLACE\n"
