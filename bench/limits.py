"""The physical limits: the least work that the system must do for a measurement.

These contestants write the expected bytes, copy a file, count line ends, or read the end of a
file. They edit nothing, and are measured in the same rounds as all others.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.contestant import FILE, Contestant, Job

STEP = 1 << 20


class Rewrite(Contestant):
    """Write all bytes to a new file and rename it; option `fsync`: flush it before."""

    def edit(self, job: Job) -> Callable[[], object]:
        """Write the same bytes again; the content does not matter to the disk."""
        path, temp = self.root / FILE, self.root / "f.tmp"
        data = path.read_bytes()
        flush = self.options["fsync"] == "yes"

        def call() -> None:
            fd = os.open(temp, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600)
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            if flush:
                os.fsync(fd)
            os.close(fd)
            os.rename(temp, path)

        return call


class Journalled(Contestant):
    """An edit's promises, done bare: three SQLite commits and one file replaced.

    A plan is kept; an entry of the journal is on the disk before the file is touched; the file is
    replaced; the plan is ended. Option `fsync`: entry, file and folder are flushed, in this order.
    The rows have the size and the indexes of the real ones. No lock, no check, no diff, no report.
    """

    def open(self, root: Path) -> None:
        """Make both databases."""
        super().open(root)
        folder = root / ".bare"
        folder.mkdir(exist_ok=True)
        flushed = "FULL" if self.options["fsync"] == "yes" else "OFF"
        self._plans = _database(folder / "plans", "OFF", ("age",), "WITHOUT ROWID")
        self._entries = _database(folder / "entries", flushed, ("path", "member", "plan"))
        self._folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)

    def close(self) -> None:
        """Close them."""
        self._plans.close()
        self._entries.close()
        os.close(self._folder)

    def edit(self, job: Job) -> Callable[[], object]:
        """The same bytes again, with a plan and an entry of their own."""
        path, temp = self.root / FILE, self.root / "f.tmp"
        data, flush = path.read_bytes(), self.options["fsync"] == "yes"
        name = os.urandom(4).hex()

        def call() -> None:
            self._plans.execute("INSERT INTO kept VALUES (?, ?, ?)", (name, name, b"p" * 550))
            fd = os.open(temp, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600)
            os.write(fd, data)
            entry = (name, FILE, "local", name, b"e" * 800)
            self._entries.execute("INSERT INTO kept VALUES (?, ?, ?, ?, ?)", entry)
            if flush:
                os.fsync(fd)
            os.close(fd)
            os.rename(temp, path)
            if flush:
                os.fsync(self._folder)
            self._plans.execute("UPDATE kept SET record = NULL WHERE id = ?", (name,))

        return call


def _database(path: Path, synchronous: str, columns: tuple[str, ...], kind: str = "") -> Any:
    """A table of records by id, with an index for each of the columns."""
    import apsw  # the peers' environments have none

    made: Any = apsw.Connection(str(path))
    made.execute("PRAGMA journal_mode = WAL")
    made.execute(f"PRAGMA synchronous = {synchronous}")
    named = ", ".join(f"{column} TEXT" for column in columns)
    made.execute(f"CREATE TABLE IF NOT EXISTS kept (id TEXT PRIMARY KEY, {named}, record) {kind}")
    for column in columns:
        made.execute(f"CREATE INDEX IF NOT EXISTS by_{column} ON kept ({column})")
    return made


class Copy(Contestant):
    """`cp` and a flush: read all, write all, in the kernel; option `fsync`."""

    def edit(self, job: Job) -> Callable[[], object]:
        """The file beside itself, then renamed."""
        path, temp = self.root / FILE, self.root / "f.tmp"
        flush = self.options["fsync"] == "yes"

        def call() -> None:
            source = os.open(path, os.O_RDONLY)
            fd = os.open(temp, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600)
            while os.copy_file_range(source, fd, 1 << 30):
                pass
            if flush:
                os.fsync(fd)
            os.close(fd)
            os.close(source)
            os.rename(temp, path)

        return call


class CountLines(Contestant):
    """Count line ends over a memory map."""

    def read(self, first: int, last: int, total: int) -> Callable[[], str]:
        """The count alone."""

        def call() -> str:
            with (
                (self.root / FILE).open("rb") as file,
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view,
            ):
                view.madvise(mmap.MADV_SEQUENTIAL)
                found = sum(view[at : at + STEP].count(b"\n") for at in range(0, len(view), STEP))
            return str(found)

        return call


class RawTail(Contestant):
    """Read the last bytes and cut them into lines."""

    def read_end(self, lines: int) -> Callable[[], str]:
        """From a window that is surely wide enough."""

        def call() -> str:
            fd = os.open(self.root / FILE, os.O_RDONLY)
            size = os.fstat(fd).st_size
            data = os.pread(fd, 200 * lines, max(size - 200 * lines, 0))
            os.close(fd)
            return b"\n".join(data.split(b"\n")[-lines - 1 :]).decode()

        return call


class FlockLoop(Contestant):
    """A lock file, read, replace in memory, write, rename; option `fsync`."""

    def replace(self, path: str, old: str, new: str) -> Callable[[], object]:
        """Right, and nothing else: no check, no journal, no plan."""
        where, lock = self.root / path, self.root / f"{path}.lock"
        flush = self.options["fsync"] == "yes"
        before, after = old.encode(), new.encode()

        def call() -> None:
            held = os.open(lock, os.O_CREAT | os.O_RDWR, 0o600)
            fcntl.flock(held, fcntl.LOCK_EX)
            try:
                data = where.read_bytes().replace(before, after, 1)
                temp = self.root / f"{path}.{os.getpid()}.tmp"
                fd = os.open(temp, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
                os.write(fd, data)
                if flush:
                    os.fsync(fd)
                os.close(fd)
                os.rename(temp, where)
            finally:
                os.close(held)

        return call
