"""Server-sent events: one watch over the workspace, many listeners.

While somebody listens, a change by any process is reported within half a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio
import anyio.to_thread

from copydesk.app.workspace import OpenWorkspace
from copydesk.errors import Refusal
from copydesk.text.relpath import RelPath

MOST_LISTENERS: Final = 100
PERIOD_SECONDS: Final = 0.25
_FILES_EVERY: Final = 3
"""The files of pending plans are checked once in so many periods."""

_log = logging.getLogger("copydesk")


class ChangeEvents:
    """Notifies listeners when plans, decisions, edits or the files of plans change."""

    def __init__(self, opened: OpenWorkspace, paths: Callable[[], tuple[RelPath, ...]]) -> None:
        self._opened, self._paths = opened, paths
        self._listeners: set[asyncio.Event] = set()
        self._rung = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def full(self) -> bool:
        """Whether no further listener is taken."""
        return len(self._listeners) >= MOST_LISTENERS

    def ring(self) -> None:
        """Report a change made by this process; may be called from any thread."""
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop has been closed
                loop.call_soon_threadsafe(self._rung.set)

    async def listen(self, closing: anyio.Event, valid: Callable[[], bool]) -> AsyncIterator[int]:
        """Yield a number for changes, until `closing` is set or it is no longer `valid`."""
        event = asyncio.Event()
        self._listeners.add(event)
        count = 0
        try:
            while not closing.is_set() and valid():
                with anyio.move_on_after(PERIOD_SECONDS):
                    await event.wait()
                if event.is_set() and valid():
                    event.clear()
                    count += 1
                    yield count
        finally:
            self._listeners.discard(event)

    @asynccontextmanager
    async def watched(self) -> AsyncGenerator[None, None]:
        """While this is open, listeners are notified."""
        self._loop = asyncio.get_running_loop()
        leave = self._opened.on_change(self.ring)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._watch)
                yield
                group.cancel_scope.cancel()
        finally:
            leave()
            self._loop = None

    async def _watch(self) -> None:
        turn = 0
        records: object = None
        files: object = None
        while True:
            with anyio.move_on_after(PERIOD_SECONDS):
                await self._rung.wait()
            changed = self._rung.is_set()
            self._rung.clear()
            if not self._listeners:
                continue
            turn += 1
            try:
                found = await anyio.to_thread.run_sync(self._opened.seen)
                changed, records = changed or found != records, found
                if changed or turn % _FILES_EVERY == 0:
                    seen = await anyio.to_thread.run_sync(self._files)
                    changed, files = changed or seen != files, seen
            except Exception:  # best effort: never fail the server because a notification failed
                _log.exception("cannot look for what changed")
            if changed:
                for event in self._listeners:
                    event.set()

    def _files(self) -> object:
        """A token that changes whenever the file of a pending plan changes."""
        found: dict[RelPath, object] = {}
        for path in self._paths():
            try:
                found[path] = self._opened.files.stat(path)
            except Refusal as refusal:
                found[path] = refusal.code
        return found
