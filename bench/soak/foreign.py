"""A program of a soak that writes to files without copydesk: appends, saves by rename, formats.

It is a process of its own and uses only the standard library. Each write is logged before and after
it is made; such programs wait for each other, since otherwise they would lose each other's lines.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import re
import signal
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

_MOST_LINES = 90
_TOKEN = re.compile(r"\b[AFP][0-9]+-[0-9]{6}\b")


class ForeignWriter:
    """One program: `how` it writes, to which files, and where it logs its writes."""

    def __init__(
        self, root: Path, log: Path, name: str, how: str, paths: list[str], seed: str, first: int
    ) -> None:
        self.root, self.name, self.how, self.paths = root, name, how, paths
        self.locks = log.parent
        self.random = random.Random(seed)
        self.count = first
        self.log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self.stopping = False

    def run(self) -> None:
        """Write until asked to stop."""
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        acts: dict[str, Callable[[str], None]] = {
            "append": self.append,
            "save": self.save,
            "format": self.format,
        }
        while not self.stopping and os.getppid() > 1:
            path = self.random.choice(self.paths)
            with self.alone(path):
                acts[self.how](path)
            time.sleep(self.random.uniform(0.02, 0.4))

    def _stop(self, *_: object) -> None:
        self.stopping = True

    @contextmanager
    def alone(self, path: str) -> Generator[None]:
        """Keep other such programs from writing to the file while this is open."""
        held = os.open(self.locks / path.replace("/", "-"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
            yield
        finally:
            os.close(held)

    def append(self, path: str) -> None:
        """Append a line as a logger does: open, write, close."""
        name = re.sub(r".*/(f[0-9]+)\.txt", r"\1", path)
        token = self._token()
        line = f"{name} end {token} appended\n"
        self._log(path, token, line, done=False)
        target = os.open(self.root / path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(target, line.encode())
        finally:
            os.close(target)
        self._log(path, token, line, done=True)

    def save(self, path: str) -> None:
        """Insert a line in a section, as an editor does that saves by rename.

        In a long file the oldest lines of the section are removed.
        """
        lines = self._lines(path)
        heads = [at for at, line in enumerate(lines) if line.lstrip().startswith("[")]
        at = self.random.choice(heads)
        section, name = lines[at].strip().strip("[]").split()
        end = next((head for head in heads if head > at), len(lines))
        token = self._token()
        kept = lines[at + 1 : end]
        if len(lines) > _MOST_LINES:
            kept = kept[: len(kept) // 2]
        new = [*lines[: at + 1], f"{name} {section} {token} saved\n", *kept, *lines[end:]]
        dropped = [t for line in lines[at + 1 + len(kept) : end] for t in _TOKEN.findall(line)]
        self._save(path, "".join(new), token, dropped)

    def format(self, path: str) -> None:
        """Indent a section by two blanks, or remove that indentation, and save by rename."""
        lines = self._lines(path)
        heads = [at for at, line in enumerate(lines) if line.lstrip().startswith("[")]
        at = self.random.choice(heads)
        end = next((head for head in heads if head > at), len(lines))
        indented = lines[at].startswith("  ")
        for number in range(at, end):
            text = lines[number].lstrip(" ")
            lines[number] = text if indented else f"  {text}"
        self._save(path, "".join(lines), "", [])

    def _lines(self, path: str) -> list[str]:
        return re.findall(r"[^\n]*\n|[^\n]+", (self.root / path).read_text("utf-8"))

    def _save(self, path: str, text: str, token: str, dropped: list[str]) -> None:
        self._log(path, token, text, done=False, dropped=dropped)
        target = self.root / path
        beside = target.parent / f".{target.name}.{self.name}~"
        beside.write_text(text, "utf-8")
        os.replace(beside, target)
        self._log(path, token, text, done=True, dropped=dropped)

    def _token(self) -> str:
        self.count += 1
        return f"{self.name}-{self.count:06}"

    def _log(
        self, path: str, token: str, text: str, *, done: bool, dropped: list[str] | None = None
    ) -> None:
        fact = {"order": time.monotonic_ns(), "path": path, "how": self.how, "token": token}
        fact |= {"text": text, "dropped": dropped or [], "done": done}
        os.write(self.log, json.dumps(fact).encode() + b"\n")


def main() -> None:
    """Run the program described by the command line, a single JSON value."""
    given = json.loads(sys.argv[1])
    root, log = Path(given["root"]), Path(given["log"])
    name, how, paths = given["name"], given["how"], given["paths"]
    ForeignWriter(root, log, name, how, paths, given["seed"], given["first"]).run()


if __name__ == "__main__":
    main()
