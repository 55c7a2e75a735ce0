"""Answers the first requests on standard input before the protocol library has been imported.

The import takes a second of CPU, and clients send their first prompt without the tools of a server
that is late. What is answered here are the library's own answers to an earlier client, kept in the
user's cache under a stamp of all that they depend on. Invariant: the library gets every byte, in
order, and answers whatever is not usual; only what was answered here it does not send again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import select
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Final, cast
from urllib.parse import quote

Table = Mapping[str, Mapping[str, str]]
"""The results, as JSON, by protocol version and method."""

MODERN: Final = "2026-07-28"
RESOURCES: Final = "resources/list"
"""Answered while no plans are pending: clients wait for all the lists before they offer any."""

LISTEN: Final = "subscriptions/listen"
"""Acknowledged if it is for changes of the resources: some clients list nothing before that."""

HONORED: Final = '{"resourcesListChanged":true}'
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
_RESULT: Final = '{"jsonrpc":"2.0","id":%s,"result":%s}\n'
_ACKNOWLEDGE: Final = (
    f'{{"jsonrpc":"2.0","method":"{ACKNOWLEDGED}",'
    f'"params":{{"_meta":{{"{SUBSCRIPTION}":%s}},"notifications":%s}}}}\n'
)
_LISTENS: Final = '{"notifications": {"resourcesListChanged": true}}'

_MOST: Final = {
    **dict.fromkeys(("initialize", LISTEN, "tools/list", "prompts/list", RESOURCES), 1),
    "server/discover": 2,
    "ping": 8,
}
"""More answers than these could fill the pipe of a client that does not read yet."""

_META: Final = "io.modelcontextprotocol/"
_MOST_KEPT: Final = 64
"""The most tables in the cache, of 100 kB each: the latest ones stay."""

_CHUNK: Final = 1 << 16
_IDLE_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.02
_KEYS: Final = {"jsonrpc", "id", "method", "params"}
_HELLO: Final = ("protocolVersion", "capabilities", "clientInfo")
_INFO: Final = {"name", "version", "title", "description", "websiteUrl"}
_NOBODY: Final = {"name": "", "version": ""}
_UNUSUAL: Final = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
_ID: Final = re.compile(r'-?\d{1,15}|"[\w.:-]{1,100}"', re.ASCII)


@dataclass
class Wire:
    """Standard input and output, for the protocol alone.

    `head` is what has been read, `answered` are the answers to its requests by their ids, and
    `is_done`: all were, and the input has ended. `keep` takes the table and the state folder of a
    server without a table.
    """

    source: int
    sink: int
    head: bytes = b""
    answered: dict[object, bytes] = field(default_factory=dict[object, bytes])
    is_done: bool = False
    keep: Callable[[Table, str], None] | None = None


@contextmanager
def claimed_stdio() -> Generator[Wire]:
    """Reserve standard input and output for the protocol, as new descriptors.

    Meanwhile descriptor 0 is the null device and 1 is standard error.
    """
    sys.stdout.flush()
    wire = Wire(os.dup(0), os.dup(1))
    with open(os.devnull, "rb") as null:
        os.dup2(null.fileno(), 0)
    os.dup2(2, 1)
    try:
        yield wire
    finally:
        sys.stdout.flush()
        os.dup2(wire.sink, 1)
        os.dup2(wire.source, 0)  # the copy stays open: a thread may be reading from it


@contextmanager
def early_answers(
    root: str, options: Mapping[str, object], load: Callable[[], None]
) -> Generator[Wire]:
    """Serve the first requests of a client if there is a table of the root and the options.

    `load` imports the library. Without a table, the server is to `keep` what it answers a client.
    """
    start = Start.of(root, options)
    table = None if start is None else start.table()
    with claimed_stdio() as wire:
        if table is not None:
            answer_early(wire, table, load)
        elif start is not None:
            wire.keep = lambda new, state: (
                start.keep(new, state) if Start.of(root, options) == start else None
            )
        yield wire


@dataclass(frozen=True)
class Start:
    """The place of a server's table, whose name has a digest of all that its answers depend on.

    The place is outside of the workspace: an agent trusts what its tools say of themselves, so no
    table may come with somebody's files, or from an agent that can write the workspace alone.
    """

    path: str

    @classmethod
    def of(cls, root: str, options: Mapping[str, object]) -> Start | None:
        """The start of a server with these options; None if something is wrong, which it tells."""
        settings = (os.path.join(root, name) for name in ("copydesk.toml", "pyproject.toml"))
        try:
            package, library = map(_folder_of, ("copydesk", "mcp"))
            installed = sorted(os.listdir(os.path.dirname(library)))
            seen = [
                sys.version,
                sorted(pair for pair in options.items() if pair[0] != "root"),
                sorted(pair for pair in os.environ.items() if pair[0].startswith("COPYDESK_")),
                os.environ.get("SIYUAN_URL"),
                [*map(_bytes_of, settings)],
                package,
                sorted(_files_below(package)),
                [each for each in installed if re.match("(mcp|pydantic).*-info", each)],
            ]
        except (OSError, ValueError, AttributeError):
            return None
        path = f"{tables_of(root)}-{_digest(seen)}.json"
        return cls(path) if os.path.isabs(path) else None

    def table(self) -> Table | None:
        """What the kept table can say now; None if there is none, or others can write it."""
        try:
            with open(os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
                status = os.fstat(file.fileno())
                stored = json.load(file)
            is_own = status.st_uid == os.geteuid() and not status.st_mode & 0o022
            if not is_own or stored["of"] != self.path:
                return None
            table = cast("dict[str, dict[str, str]]", stored["table"])
            for answers in table.values() if _has_plans(stored["state"]) else ():
                answers.pop(RESOURCES, None)
            return table
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return None

    def keep(self, table: Table, state: str) -> None:
        """Keep a table, and the state folder for its plans; an error is ignored."""
        folder = os.path.dirname(self.path)
        beside = f"{self.path}.{os.getpid()}.tmp"
        with suppress(OSError, ValueError):
            data = json.dumps({"of": self.path, "state": state, "table": table})
            os.makedirs(folder, 0o700, exist_ok=True)
            with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(data)
            os.replace(beside, self.path)
            tables = os.scandir(folder)
            for entry in sorted(tables, key=lambda each: -each.stat().st_mtime_ns)[_MOST_KEPT:]:
                os.unlink(entry.path)


def tables_of(root: str) -> str:
    """What the paths of a root's tables begin with; relative if the user has no cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return os.path.expanduser(
        os.path.join(cache, "copydesk", f"start-{_digest(os.path.realpath(root))[:16]}")
    )


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode("utf-8", "backslashreplace")).hexdigest()


def _has_plans(state: str) -> bool:
    """Whether there are pending plans, which are resources; True also if that is unknown."""
    path = os.path.join(state, "state.sqlite")
    if not os.path.lexists(path):
        return False
    import apsw

    mode = "ro" if os.path.lexists(f"{path}-wal") else "ro&immutable=1"  # else it made a log
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_NOFOLLOW
    try:
        with closing(apsw.Connection(f"file:{quote(path)}?mode={mode}", flags)) as database:
            return bool(cast(Any, database).execute("SELECT count(*) FROM plans").get)
    except apsw.Error:
        return True


def _folder_of(package: str) -> str:
    return os.path.dirname(cast(str, cast(Any, find_spec(package)).origin))


def _bytes_of(path: str) -> bytes | None:
    with suppress(FileNotFoundError, NotADirectoryError), open(path, "rb") as file:
        return file.read()
    return None


def _files_below(folder: str) -> Iterator[tuple[str, int, int, int, int]]:
    for entry in os.scandir(folder):
        if not entry.is_dir():
            at = entry.stat()
            yield entry.path, at.st_size, at.st_mtime_ns, at.st_ctime_ns, at.st_ino
        elif entry.name != "__pycache__":
            yield from _files_below(entry.path)


class _Answers:
    """What the table says on one connection, whose first request decides the protocol version."""

    def __init__(self, table: Table) -> None:
        self._table, self._version, self._is_ready = table, "", False
        self.asked: Counter[str] = Counter()
        self._ids = set[object]()
        self.given: dict[object, bytes] = {}
        """The answers by the ids of the requests."""

    def to(self, line: bytes) -> bytes | None:
        """The answer to a message, b"" if none is due; None if the library has to answer it.

        Raises one of `_UNUSUAL` for what is not usual: from then on the library answers.
        """
        if not line.strip():
            return b""
        message: dict[str, Any] = json.loads(line.decode())
        # an escape could be half of a surrogate pair, which the library refuses
        if b"\\u" in line or message["jsonrpc"] != "2.0" or not message.keys() <= _KEYS:
            raise ValueError
        if not isinstance(message.get("params", {}), dict):
            raise TypeError
        method, params = message["method"], message.get("params", {})
        if "id" not in message:
            is_handshake = method == "notifications/initialized" and self._version != ""
            self._is_ready = self._is_ready or is_handshake
            return b"" if is_handshake else None
        number, shown = message["id"], json.dumps(message["id"])
        if not _ID.fullmatch(shown) or number in self._ids:
            raise ValueError
        self._ids.add(number)
        if method in _MOST or not self._version:
            self._version = self._version_of(method, params)
        self.asked[method] += 1
        result = self._table[self._version].get(method)
        if result is None or self.asked[method] > _MOST[method]:
            return None
        form = _ACKNOWLEDGE if method == LISTEN else _RESULT
        self.given[number] = (form % (shown, result)).encode()
        return self.given[number]

    def _version_of(self, method: str, params: dict[str, Any]) -> str:
        """The protocol version of a request; raises one of `_UNUSUAL` if its form is not usual."""
        meta: dict[str, Any] = params.pop("_meta", {})
        version, capabilities, info = self._version, dict[str, Any](), _NOBODY
        if method == "initialize":
            version, capabilities, info = map(params.pop, _HELLO)
            is_due = not self._version and version != MODERN
        elif _META + "protocolVersion" in meta:
            version = meta.pop(_META + "protocolVersion")
            capabilities = meta.pop(_META + "clientCapabilities")
            info = meta.pop(_META + "clientInfo", info)
            is_due = self._version in ("", MODERN) and version == MODERN
        else:
            is_due = version != MODERN and (self._is_ready or method == "ping")
        token = json.dumps(meta.pop("progressToken", 0))
        rest = json.dumps(params)  # as text: 1 is not true there
        if (
            not is_due
            or meta
            or rest != (_LISTENS if method == LISTEN else "{}")
            or not _ID.fullmatch(token)
            or not _is_usual(capabilities, info)
        ):
            raise ValueError
        return version


def _is_usual(capabilities: dict[str, Any], info: dict[str, Any]) -> bool:
    """Whether a client names itself and its capabilities in the form of every protocol version."""
    features = [
        (f"{name}.{key}", value)
        for name, inner in capabilities.items()
        for key, value in inner.items()
    ]
    return (
        info.keys() <= _INFO
        and info.keys() >= _NOBODY.keys()
        and all(isinstance(text, str) for text in info.values())
        and all(
            isinstance(of, bool if name == "roots.listChanged" else dict) for name, of in features
        )
        and _has_objects_only(capabilities.get("tasks", {}))
    )


def _has_objects_only(value: Any) -> bool:
    """As tasks do, the only capability that is deeper: `{"requests": {"a": {"b": {}}}}`."""
    return isinstance(value, dict) and all(
        map(_has_objects_only, cast("dict[str, Any]", value).values())
    )


def answer_early(wire: Wire, table: Table, load: Callable[[], None]) -> None:
    """Answer from the table until `load`, in a thread, has imported the library.

    That begins once the tools were listed or something else is asked, or after a while.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(ValueError):  # this is not the main thread
            # nothing is open yet: to import the library opens nothing
            signal.signal(number, lambda _, frame: os._exit(0))
    loading = threading.Thread(target=load, daemon=True)
    with suppress(OSError, *_UNUSUAL):
        _answer(wire, _Answers(table), loading)
    if loading.ident is not None:
        loading.join()  # two threads that import the same modules can block each other


def _answer(wire: Wire, answers: _Answers, loading: threading.Thread) -> None:
    rest, is_answered = b"", True
    wire.answered = answers.given
    while loading.ident is None or loading.is_alive():
        patience = _IDLE_SECONDS if loading.ident is None else _LOOK_SECONDS
        came = bool(select.select([wire.source], [], [], patience)[0])
        if came:
            chunk = os.read(wire.source, _CHUNK)
            wire.head += chunk
            wire.is_done = not chunk and not rest and is_answered
            if not chunk or len(rest) > _CHUNK:
                return
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                answer = answers.to(line)
                is_answered = is_answered and answer is not None
                write_all(wire.sink, answer or b"")
        if loading.ident is None and not (came and is_answered and not answers.asked["tools/list"]):
            loading.start()


def write_all(sink: int, data: bytes | memoryview) -> None:
    """Write all of it, which waits until it is read."""
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(sink, left) :]
        except BlockingIOError:  # the client shares the descriptor, and made it so
            select.select([], [sink], [])
