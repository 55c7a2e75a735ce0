"""One run of ripgrep.

What lives here: the process, its end, and what its complaints mean. What must
not: a decision about which files a caller may see. Invariant: when the context
of `running` is left the process is gone and reaped, however it is left; no
shell, no configuration file and no standard input take part.
"""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from copydesk.errors import Failed, InvalidArgs, Refusal
from copydesk.store.refused import failed
from copydesk.store.rg_find import Rg
from copydesk.store.rg_json import Packet, packets

OPERATION = "ripgrep"

_CHUNK = 1 << 16
_WORDS_BYTES = 1 << 16
_REASON_CHARACTERS = 500
_LOOK_AGAIN_S = 0.05
_ALWAYS = ("--no-config", "--no-ignore-messages", "--no-mmap")


@dataclass(frozen=True, slots=True)
class Complaint:
    """A file or directory that rg could not search, as rg spells it, and why."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Blame:
    """The arguments that a wrong pattern and a wrong glob came in."""

    pattern: str
    globs: str


class Clock:
    """The end of a search: by its deadline or because the caller gave up."""

    def __init__(self, timeout_s: float, cancelled: Callable[[], bool] | None) -> None:
        self._deadline = time.monotonic() + timeout_s
        self._cancelled = cancelled

    def is_over(self) -> bool:
        """Whether the time is up. Raises Failed when the caller gave up."""
        if self._cancelled is not None and self._cancelled():
            raise Failed(OPERATION, "cancelled")
        return time.monotonic() >= self._deadline

    def check(self) -> None:
        """Raises Failed when the time is up or the caller gave up."""
        if self.is_over():
            raise Failed(OPERATION, "the time was up before the search began")


class Run:
    """A running rg; `running` makes it."""

    def __init__(self, process: subprocess.Popen[bytes], clock: Clock, blame: Blame) -> None:
        self._process = process
        self._clock = clock
        self._blame = blame
        self._words = bytearray()
        self.timed_out = False

    def packets(self) -> Iterator[Packet]:
        """The messages, until rg ends or the time is up (`timed_out`).

        Raises InvalidArgs when rg refused an argument, Failed when it broke
        down or the caller gave up.
        """
        complete = False
        for packet in packets(self._chunks()):
            complete = packet.kind == "summary"
            yield packet
        if not self.timed_out and not complete:
            raise _refusal(self._text(), self._process.wait(), self._blame)

    def names(self) -> Iterator[bytes]:
        """The names that end with NUL, as rg was asked to print them; raises as `packets`."""
        held = b""
        for chunk in self._chunks():
            *ended, held = (held + chunk).split(b"\0")
            yield from ended
        exit_code = 0 if self.timed_out else self._process.wait()
        # 1 means that nothing was found; 2 is also told when some files could not be searched.
        if exit_code not in (0, 1):
            refusal = _refusal(self._text(), exit_code, self._blame)
            if isinstance(refusal, InvalidArgs) or exit_code != 2 or not self._of_files():
                raise refusal

    def complaints(self) -> Iterator[Complaint]:
        """What rg said so far about files; the first 64 KiB of it."""
        for line in self._text().split("\n"):
            found = _OF_SYSTEM.fullmatch(line) or _OF_FILE.fullmatch(line)
            if found:
                yield Complaint(found["path"], found["why"])

    def _of_files(self) -> bool:
        """Whether a complaint is about a file that was met."""
        return any(self.complaints()) or "File system loop found: " in self._text()

    def _text(self) -> str:
        return self._words.decode("utf-8", "replace")

    def _chunks(self) -> Iterator[bytes]:
        out, words = self._process.stdout, self._process.stderr
        assert out is not None
        assert words is not None
        with selectors.DefaultSelector() as pipes:
            pipes.register(out, selectors.EVENT_READ)
            pipes.register(words, selectors.EVENT_READ)
            while pipes.get_map():
                if self._clock.is_over():
                    self.timed_out = True
                    return
                for key, _ in pipes.select(_LOOK_AGAIN_S):
                    chunk = os.read(key.fd, _CHUNK)
                    if not chunk:
                        pipes.unregister(key.fileobj)
                    elif key.fd == out.fileno():
                        yield chunk
                    else:
                        self._words += chunk[: _WORDS_BYTES - len(self._words)]


@contextmanager
def running(
    rg: Rg,
    folder: str,
    flags: Sequence[str],
    pattern: str,
    path: str,
    clock: Clock,
    blame: Blame,
    descriptors: Sequence[int] = (),
) -> Generator[Run]:
    """Start rg in `folder`, with these open descriptors of ours.

    `path` begins with "." so that no name is taken for an option or for standard
    input. Raises Failed when the program does not start.
    """
    arguments = [*_ALWAYS, *flags, "--", pattern, path]
    command = [os.fsencode(rg.path), *(argument.encode() for argument in arguments)]
    environ = {k: v for k, v in os.environ.items() if k != "RIPGREP_CONFIG_PATH"}
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=descriptors,
        )
    except OSError as refused:
        raise failed("start ripgrep", refused) from None
    with process:
        try:
            yield Run(process, clock, blame)
        finally:
            process.kill()


_OF_SYSTEM = re.compile(
    r"(?:rg: )?(?P<path>\./.+?|\.): (?:IO error for operation on .+: )?"
    r"(?P<why>[^:]+ \(os error \d+\))"
)
_OF_FILE = re.compile(r"(?:rg: )?(?P<path>\./.+?|\.): (?P<why>.+)")
_ABOUT_PATTERN = ("regex", "compiled regex", "pcre2: error", "the literal")
_ABOUT_OPTIONS = (
    "unrecognized file type",
    "grep config error",
    "error parsing flag",
    "pcre2 is not available",
)


def _refusal(words: str, exit_code: int, blame: Blame) -> Refusal:
    """What rg meant by ending before it searched; only the beginning is its own word."""
    said = words.strip().removeprefix("rg: ").strip()[:_REASON_CHARACTERS]
    start = said.lower()
    if start.startswith(_ABOUT_PATTERN):
        return InvalidArgs(blame.pattern, said)
    if start.startswith("error parsing glob"):
        return InvalidArgs(blame.globs, said)
    if start.startswith(_ABOUT_OPTIONS):
        return InvalidArgs("rg_args", said)
    return Failed(OPERATION, said or f"ended without an answer (code {exit_code})")
