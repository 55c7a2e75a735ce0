"""A program of a soak that writes to files without copydesk: appends, saves by rename, formats.

Two kinds have to do with the moment: `race` saves right when another program writes to the same
file, and `apart` stands only for what it saved at another time.

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

_MOST_LINES = {"save": 90, "race": 40, "apart": 40}
_PAUSE = {"race": (0.001, 0.02), "apart": (0.02, 0.08)}
_SPIN_SECONDS = 0.02
_DELAY_SECONDS = (60e-6, 600e-6)
"""From the moment at which a new file appears to that at which it has taken its name, at most: with
a state folder, and with a Redis server that is asked in between."""

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
        self._parent = os.getppid()

    def run(self) -> None:
        """Write until asked to stop."""
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        acts: dict[str, Callable[[str], None]] = {
            "append": self.append,
            "save": self.save,
            "format": self.format,
            "race": self.race,
            "apart": self.apart,
        }
        while self._is_wanted:
            path = self.random.choice(self.paths)
            with self.alone(path):
                acts[self.how](path)
            time.sleep(self.random.uniform(*_PAUSE.get(self.how, (0.02, 0.4))))

    @property
    def _is_wanted(self) -> bool:
        """Whether nobody has ended it, nor the soak that started it."""
        return not self.stopping and os.getppid() == self._parent

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
        token = self._token()
        text, dropped = self._with_line(path, token)
        self._save(path, text, token, dropped)

    def race(self, path: str) -> None:
        """Save when a new name appears beside the file, as of a file that is to take its name.

        The delay is random: sooner or later it hits any step from there on.
        """
        target, token = self.root / path, self._token()
        while self._is_wanted:
            read = os.stat(target).st_mtime_ns
            text, dropped = self._with_line(path, token)
            beside = self._beside(path, text)
            said = self._record(path, token, text, done=False, dropped=dropped)
            delay = self.random.uniform(0, self.random.choice(_DELAY_SECONDS))
            while self._is_wanted and os.stat(target).st_mtime_ns == read:
                if self._appears_in(target.parent):
                    os.write(self.log, said)
                    _spin(delay)
                    os.replace(beside, target)
                    self._log(path, token, text, done=True, dropped=dropped)
                    return
                time.sleep(_SPIN_SECONDS)  # half of a core is enough

    def _appears_in(self, folder: Path) -> bool:
        """Whether a new name appears there soon."""
        known, until = len(os.listdir(folder)), time.monotonic() + _SPIN_SECONDS
        while time.monotonic() < until:
            if len(os.listdir(folder)) > known:
                return True
        return False

    def apart(self, path: str) -> None:
        """Save, and stand for the line only if nobody has a new file beside it right after.

        That one may have been checked already and be about to take the name; where names cannot be
        exchanged no program can notice a save at that moment. If it has done so, the file is not
        ours any more.
        """
        token, target = self._token(), self.root / path
        text, dropped = self._with_line(path, token)
        beside = self._beside(path, text)
        ours, own = os.stat(beside).st_ino, {name.rpartition("/")[2] for name in self.paths}
        self._log(path, token, text, done=False, dropped=dropped)
        os.replace(beside, target)
        is_alone = own.issuperset(os.listdir(target.parent))
        is_sure = is_alone and os.stat(target).st_ino == ours
        self._log(path, token if is_sure else "", text, done=True, dropped=dropped)

    def _with_line(self, path: str, token: str) -> tuple[str, list[str]]:
        """The text with the line of the token, and the tokens that are removed."""
        lines = self._lines(path)
        heads = [at for at, line in enumerate(lines) if line.lstrip().startswith("[")]
        at = self.random.choice(heads)
        section, name = lines[at].strip().strip("[]").split()
        end = next((head for head in heads if head > at), len(lines))
        kept = lines[at + 1 : end]
        if len(lines) > _MOST_LINES[self.how]:
            kept = kept[: len(kept) // 2]
        new = [*lines[: at + 1], f"{name} {section} {token} saved\n", *kept, *lines[end:]]
        dropped = [t for line in lines[at + 1 + len(kept) : end] for t in _TOKEN.findall(line)]
        return "".join(new), dropped

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
        os.replace(self._beside(path, text), self.root / path)
        self._log(path, token, text, done=True, dropped=dropped)

    def _beside(self, path: str, text: str) -> Path:
        """A new file with this text beside the target."""
        target = self.root / path
        beside = target.parent / f".{target.name}.{self.name}~"
        beside.write_text(text, "utf-8")
        return beside

    def _token(self) -> str:
        self.count += 1
        return f"{self.name}-{self.count:06}"

    def _log(
        self, path: str, token: str, text: str, *, done: bool, dropped: list[str] | None = None
    ) -> None:
        os.write(self.log, self._record(path, token, text, done=done, dropped=dropped or []))

    def _record(self, path: str, token: str, text: str, *, done: bool, dropped: list[str]) -> bytes:
        how = "save" if self.how in _MOST_LINES else self.how
        fact = {"order": time.monotonic_ns(), "path": path, "how": how, "token": token}
        fact |= {"text": text, "dropped": dropped, "done": done}
        return json.dumps(fact).encode() + b"\n"


def _spin(seconds: float) -> None:
    """Wait for less than a sleep takes."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def main() -> None:
    """Run the program described by the command line, a single JSON value."""
    given = json.loads(sys.argv[1])
    root, log = Path(given["root"]), Path(given["log"])
    name, how, paths = given["name"], given["how"], given["paths"]
    ForeignWriter(root, log, name, how, paths, given["seed"], given["first"]).run()


if __name__ == "__main__":
    main()
