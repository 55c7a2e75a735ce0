"""The HTTP API of a SiYuan kernel, typed: requests, rows, SQL, errors."""

from __future__ import annotations

import html
import json
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from socket import socket
from string import ascii_lowercase, ascii_uppercase
from typing import Literal, NamedTuple, TypeVar, cast
from urllib.parse import urlsplit

from copydesk.errors import InvalidArgs
from copydesk.notes.kernel.blocks import (
    MEMO,
    KernelNode,
    TreeInfo,
    escaped_code,
    leaf_of,
    slices_of,
    with_memos,
)
from copydesk.notes.protocol import (
    ANSWERS,
    Around,
    BlockNotFound,
    Crumb,
    Heading,
    Notebook,
    NotesUnavailable,
    Unavailable,
    Within,
    check_characters,
    is_id,
    valid,
)

MOST_BYTES = 64 << 20
"""Larger answers are refused."""

_PIECE = 1 << 16
_KEPT = 4
_BOOTING = "not been fully booted"


class KernelRefused(Exception):
    """The kernel answered with a code other than 0 and a message."""


class AnswerLost(NotesUnavailable):
    """The request was sent, but its outcome is unknown."""


_REFUSING: Mapping[int, Unavailable] = {401: "token", 403: "forbidden"}
"""What it means that a kernel answers with such a status: nothing was done."""


_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Address:
    """Where a kernel listens: the parts of an http(s) URL. `base` has no slash at its end."""

    secure: bool
    host: str
    port: int
    base: str

    @staticmethod
    def of(url: str) -> Address:
        """Parse a URL; InvalidArgs(`SIYUAN_URL`) if invalid or with a user, query or fragment."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise InvalidArgs("SIYUAN_URL", "is no URL") from None
        if parts.scheme not in _PORTS or not parts.hostname:
            raise InvalidArgs("SIYUAN_URL", "must be an http or https URL")
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise InvalidArgs("SIYUAN_URL", "must hold neither a user nor a query")
        port = port if port is not None else _PORTS[parts.scheme]
        return Address(parts.scheme == "https", parts.hostname, port, parts.path.rstrip("/"))


class KernelHttp:
    """Sends requests to a kernel. Safe to use from many threads.

    `timeout_s` limits the connection, each wait, and the whole of an answer. Reads share kept
    connections; each write has its own connection, so that no write is sent twice.
    """

    def __init__(
        self, address: Address, token: str, timeout_s: float = 30.0, most_bytes: int = MOST_BYTES
    ) -> None:
        self._address, self._timeout_s, self._most_bytes = address, timeout_s, most_bytes
        self._headers = {"Authorization": f"Token {token}", "Content-Type": "application/json"}
        self._kept: list[HTTPConnection] = []

    def ask(self, path: str, body: Mapping[str, object], *, reads: bool = False) -> object:
        """Return the data of the answer. `reads`: the request may be repeated.

        Raises KernelRefused for a code other than 0, and NotesUnavailable if no kernel gave us a
        valid answer: AnswerLost if the request had been sent and may have been carried out.
        """
        try:
            status, answer = self._exchange(path, json.dumps(body).encode(), reads=reads)
        except TimeoutError:
            raise AnswerLost(f"{path}: no answer in time", "timeout") from None
        except (OSError, HTTPException) as problem:
            raise AnswerLost(f"{path}: {_words(problem)}", "unreachable") from None
        if status != 200:
            error = NotesUnavailable if status in _REFUSING else AnswerLost
            raise error(f"{path}: HTTP {status}", _REFUSING.get(status, "answer"))
        return _data(path, answer)

    def close(self) -> None:
        while self._kept:
            self._kept.pop().close()

    def _exchange(self, path: str, data: bytes, *, reads: bool) -> tuple[int, bytes]:
        while reads and self._kept:
            # Another thread may take the last one, and the kernel may have closed it.
            with suppress(IndexError, ConnectionError):
                return self._talk(path, self._kept.pop(), data)
        address = self._address
        kind = HTTPSConnection if address.secure else HTTPConnection
        connection = kind(address.host, address.port, timeout=self._timeout_s)
        try:
            connection.connect()
        except (OSError, HTTPException) as problem:
            raise NotesUnavailable(f"{path}: {_words(problem)}", "unreachable") from None
        return self._talk(path, connection, data)

    def _talk(self, path: str, connection: HTTPConnection, data: bytes) -> tuple[int, bytes]:
        """Make one exchange on a connection and then keep or close it.

        Raises OSError, HTTPException; ConnectionError if the kernel may have closed it before.
        """
        until = time.monotonic() + self._timeout_s
        keep = False
        waiting = connection.sock  # the connection may drop it once the answer has begun
        waiting.settimeout(self._timeout_s)
        try:
            connection.request("POST", self._address.base + path, data, self._headers)
            with closing(connection.getresponse()) as response:
                body = self._body(path, waiting, response, until)
                keep = not response.will_close
                return response.status, body
        finally:
            if keep and len(self._kept) < _KEPT:
                self._kept.append(connection)
            else:
                connection.close()

    def _body(self, path: str, waiting: socket, response: HTTPResponse, until: float) -> bytes:
        body = bytearray()
        while (left := until - time.monotonic()) > 0:
            waiting.settimeout(left)
            piece = response.read1(_PIECE)
            if not piece:
                return bytes(body)
            body += piece
            if len(body) > self._most_bytes:
                raise AnswerLost(f"{path}: more than {self._most_bytes} bytes", "too_large")
        raise TimeoutError


def _data(path: str, answer: bytes) -> object:
    try:
        value: object = json.loads(answer)
    except (ValueError, RecursionError):
        raise AnswerLost(f"{path}: no JSON") from None
    envelope = cast(dict[str, object], value) if isinstance(value, dict) else {}
    code, words = envelope.get("code"), str(envelope.get("msg") or "")
    if type(code) is not int:
        raise AnswerLost(f"{path}: no code")
    if code == 0:
        return envelope.get("data")
    if _BOOTING in words:
        raise NotesUnavailable(f"{path}: {words}", "booting")
    raise KernelRefused(f"{path}: {words or code}")


def _words(problem: Exception) -> str:
    return str(problem) or type(problem).__name__


KINDS = {
    "NodeDocument": "d",
    "NodeHeading": "h",
    "NodeList": "l",
    "NodeListItem": "i",
    "NodeCodeBlock": "c",
    "NodeMathBlock": "m",
    "NodeTable": "t",
    "NodeBlockquote": "b",
    "NodeSuperBlock": "s",
    "NodeParagraph": "p",
    "NodeHTMLBlock": "html",
    "NodeBlockQueryEmbed": "query_embed",
    "NodeAttributeView": "av",
    "NodeIFrame": "iframe",
    "NodeWidget": "widget",
    "NodeThematicBreak": "tb",
    "NodeVideo": "video",
    "NodeAudio": "audio",
    "NodeCallout": "callout",
}
"""The kinds of the blocks table by the node types of the tree calls; other types have none."""


@dataclass(frozen=True, slots=True)
class DocumentPlace:
    """The document of a block: its notebook, path of ids, id, title."""

    box: str
    path: str
    root_id: str
    title: str

    @property
    def ids(self) -> list[str]:
        """The documents on its path, from the top, and itself."""
        return [part for part in self.path.removesuffix(".sy").split("/") if is_id(part)]


Shape = TypeVar("Shape", dict[object, object], list[object], str, int)

_SHAPES = {dict: "an object", list: "a list", str: "a text", int: "a number"}


class Answer(NamedTuple):
    """An answer to a call, or a part of it; NotesUnavailable if it has not the shape that is read.

    A field that is missing reads as an empty text.
    """

    call: str
    value: object

    def read(self, shape: type[Shape]) -> Shape:
        """The value, which is an object, a list, a text or a number."""
        if not isinstance(self.value, shape):
            raise NotesUnavailable(f"{self.call}: {_SHAPES[shape]} is missing")
        return self.value

    def fields(self) -> dict[str, object]:
        """Those of an object."""
        return cast(dict[str, object], self.read(dict))

    def at(self, name: str) -> Answer:
        """A field."""
        return Answer(f"{self.call}: {name}", self.fields().get(name))

    def rows(self) -> list[Answer]:
        """The items of a list."""
        return [Answer(self.call, item) for item in self.read(list)]

    def texts(self, *names: str) -> list[str]:
        """Fields that are texts."""
        values = ["" if value is None else value for value in map(self.fields().get, names)]
        if {*map(type, values)} != {str}:
            raise NotesUnavailable(f"{self.call}: a text is missing among {', '.join(names)}")
        return cast(list[str], values)

    def text(self, name: str) -> str:
        """A field that is a text."""
        return self.texts(name)[0]


MOST_WORDS = 16

LEAVES_OUT = ("l", "i", "b", "s", "callout")
"""Kinds whose text other blocks contain already."""


def holding_words(words: Sequence[str]) -> str:
    """The SQL test for blocks that may contain all the words.

    It leaves out a notebook's own document, whose id is that of the notebook. InvalidArgs for no
    word, too many words, or a word that no literal can hold.
    """
    if not words:
        raise InvalidArgs("query", "must not be empty")
    if len(words) > MOST_WORDS:
        raise InvalidArgs("query", f"more than {MOST_WORDS} words")
    tests = [f"type NOT IN ({', '.join(map(literal, LEAVES_OUT))})", "id <> box"]
    return " AND ".join([*tests, *(_holds(word, "content", "markdown") for word in words)])


def in_place(within: Within) -> str:
    """The SQL test, after another one, for blocks whose documents may be meant."""
    parts = [part for part in (within.name, *within.folder.split("/")) if part]
    return "".join(f" AND {_holds(part, 'hpath')}" for part in parts)


def literal(value: str) -> str:
    """The text as an SQL literal; InvalidArgs if it has NUL or a lone surrogate."""
    check_characters(value, "query")
    return "'" + value.replace("'", "''") + "'"


def _holds(word: str, *columns: str) -> str:
    """The SQL test for a word: four spellings, since SQLite folds ASCII and ESCAPE fails here."""
    forms = (word, word.lower(), word.upper(), word.capitalize())
    tests = (
        f"instr(lower({column}), {literal(form)}) > 0"
        for form in dict.fromkeys(form.translate(_ASCII_LOWER) for form in forms)
        for column in columns
    )
    return f"({' OR '.join(tests)})"


_ASCII_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)

Version = tuple[int, int, int]

OLDEST: Version = (3, 1, 4)
"""The first version whose getChildBlocks returns the Markdown."""

_SINCE: Mapping[str, Version] = {
    "getBlockKramdown mode": (3, 1, 14),
    "batchUpdateBlock": (3, 1, 25),
    "getBlockDOMs": (3, 5, 3),
    "sql mode": (3, 7, 0),
    "createDocHistory": (3, 7, 0),
}
"""The first versions with calls and arguments that not all have."""

FEW = 6
"""The most positions to request one by one."""

_AT_ONCE = 200
"""The most ids in one request."""

_MAY_BE_MEMO = re.compile(r"[)）]</sup>")
_NODE_ID = re.compile(r'data-node-id="([0-9]{14}-[0-9a-z]{7})"')
_NAMED = re.compile(r'(?:"id": |data-node-id=\\)"([0-9]{14}-[0-9a-z]{7})\\?"')
"""An id in JSON: one of an object, or one in the DOM that a text of it holds."""

_VERSION = re.compile(r"([0-9]+)\.([0-9]+)\.([0-9]+)")


def content(data: str, kind: Literal["markdown", "dom"] = "markdown") -> dict[str, object]:
    """The fields of a request that writes a block: Markdown, or a DOM that the kernel returned."""
    return {"dataType": kind, "data": data}


Pause = Callable[[float], None]

WAITS_S = (0.05, 0.2, 0.5)
"""Seconds to wait between attempts to read a write back."""

LATE_WAITS_S = (*WAITS_S, 1.0, 2.0, 4.0, 8.0)
"""The same for a write that timed out: the kernel may still be busy with it."""

Seen = TypeVar("Seen")


class Kernel:
    """A kernel, call by call. Safe to use from many threads. `pause` waits in seconds."""

    def __init__(self, http: KernelHttp, pause: Pause = time.sleep) -> None:
        self._http, self._pause, self._asking = http, pause, threading.Lock()
        self._version: Version | None = None

    def version(self) -> Version:
        """The kernel's version, requested once; NotesUnavailable if it is too old or not booted."""
        with self._asking:
            if self._version is None:
                self._version = self._ask_version()
            return self._version

    def _has(self, what: str) -> bool:
        return self.version() >= _SINCE[what]

    def _ask_version(self) -> Version:
        answer = self._asked("/api/system/version", {})
        match = _VERSION.match(str(answer))
        if match is None:
            raise NotesUnavailable(f"/api/system/version: {answer!r}")
        version = (int(match[1]), int(match[2]), int(match[3]))
        if version < OLDEST:
            raise NotesUnavailable(f"{match[0]} < {'.'.join(map(str, OLDEST))}", "version")
        call = "/api/system/bootProgress"
        progress = Answer(call, self._asked(call, {})).fields().get("progress")
        if not isinstance(progress, int | float) or progress < 100:
            raise NotesUnavailable(f"{call}: {progress}", "booting")
        return version

    def _asked(self, call: str, body: Mapping[str, object]) -> object:
        """The answer to a read, retried if lost; NotesUnavailable if the kernel refuses."""
        try:
            try:
                return self._http.ask(call, body, reads=True)
            except AnswerLost as lost:
                if lost.reason in ("timeout", "too_large"):
                    raise
                return self._http.ask(call, body, reads=True)
        except KernelRefused as refused:
            raise NotesUnavailable(str(refused)) from None

    def _read(self, call: str, body: Mapping[str, object]) -> Answer:
        self.version()
        known = ANSWERS.get()
        if known is None:
            return Answer(call, self._asked(call, body))
        key = (id(self), call, json.dumps(body))
        if key not in known:
            known[key] = self._asked(call, body)
        return Answer(call, known[key])

    def _of(self, call: str, block_id: str) -> Answer:
        """The answer about one block."""
        return self._read(call, {"id": valid(block_id)})

    def _of_many(self, call: str, ids: Sequence[str]) -> dict[str, Answer]:
        """The answers about several blocks, asked in batches; missing blocks are left out."""
        starts = range(0, len(ids), _AT_ONCE)
        answers = (self._read(call, {"ids": [*ids[at : at + _AT_ONCE]]}) for at in starts)
        return {block_id: each.at(block_id) for each in answers for block_id in each.fields()}

    def close(self) -> None:
        self._http.close()

    # Read from the trees: always current.

    def standings(self, ids: Sequence[str]) -> dict[str, TreeInfo]:
        """The positions of blocks; missing blocks are left out.

        The kernel takes as long for the position of one block as for a fifth of a long document. So
        if there are many, siblings of the first one are looked up in its container.
        """
        wanted = [*dict.fromkeys(map(valid, ids))]
        standings: dict[str, TreeInfo] = {}
        left: list[str] = wanted
        while len(left) > FEW:
            first, *left = left
            standings |= self._standings([first])
            parent_id = standings[first].parent_id if first in standings else ""
            beside = self._inside(parent_id) if parent_id else {}
            here = {child_id: beside[child_id] for child_id in left if child_id in beside}
            standings |= here
            left = [child_id for child_id in left if child_id not in here]
            if parent_id and len(here) < FEW:
                break
        standings |= self._standings(left)
        return {block_id: standings[block_id] for block_id in wanted if block_id in standings}

    def standing(self, block_id: str) -> TreeInfo:
        """The position of a block; raises BlockNotFound."""
        standings = self.standings([block_id])
        if block_id not in standings:
            raise BlockNotFound(block_id)
        return standings[block_id]

    def _standings(self, ids: Sequence[str]) -> dict[str, TreeInfo]:
        """The positions by the kernel's own call. A document has no container."""
        standings: dict[str, TreeInfo] = {}
        for block_id, of in self._of_many("/api/block/getBlockTreeInfos", ids).items():
            own_id, node, *around = of.texts("id", "type", "parentID", "previousID", "nextID")
            if node and own_id == block_id:
                kind = KINDS.get(node, "")
                parent_id, previous_id, next_id = ["", "", ""] if kind == "d" else around
                standings[block_id] = TreeInfo(parent_id, previous_id, next_id, block_id, kind)
        return standings

    def _inside(self, parent_id: str) -> dict[str, TreeInfo]:
        """The positions of all blocks of a container."""
        children = self._children(parent_id)
        ids = ["", *(child.id for child in children), ""]
        return {
            child.id: TreeInfo(parent_id, previous_id, next_id, child.id, child.kind)
            for child, previous_id, next_id in zip(children, ids, ids[2:], strict=False)
        }

    def children(self, block_id: str) -> list[KernelNode]:
        """The children of a container or section of a heading, with memos; otherwise nothing."""
        children = self._children(block_id)
        for child in children:
            if _MAY_BE_MEMO.search(child.markdown) and MEMO in (image := self.kramdown(child.id)):
                child.markdown = with_memos(child.markdown, image)
        return children

    def _children(self, block_id: str) -> list[KernelNode]:
        return [
            KernelNode(*of.texts("id", "type", "subType", "markdown", "content"))
            for of in self._of("/api/block/getChildBlocks", block_id).rows()
        ]

    def last_ids(self, container_id: str, count: int) -> tuple[str, ...]:
        """The ids of the last blocks of a container, in order."""
        call = "/api/block/getTailChildBlocks"
        rows = self._read(call, {"id": valid(container_id), "n": count}).rows()
        return tuple(of.text("id") for of in reversed(rows))

    def index_of(self, block_id: str) -> int:
        """The 0-based place of a block of a document among its blocks."""
        index = self._of("/api/block/getBlockIndex", block_id).value
        return index - 1 if isinstance(index, int) else -1

    def id_at(self, document_id: str, index: int) -> str:
        """The id of a block by its place, or of the folded heading that hides it; or empty."""
        body = {"id": valid(document_id), "index": index + 1, "size": 1, "mode": 0}
        match = _NODE_ID.search(self._read("/api/filetree/getDoc", body).text("content"))
        return match[1] if match else ""

    def some_children(self, parent_id: str, standings: Mapping[str, TreeInfo]) -> list[KernelNode]:
        """Some children of a container, in order: a few plain ones alone, else with all others."""
        few = standings.values() if len(standings) <= FEW else ()
        leaves = [leaf for each in few if (leaf := leaf_of(each, self.kramdown(each.id)))]
        if len(leaves) == len(standings):
            return leaves
        return [child for child in self.children(parent_id) if child.id in standings]

    def kramdown(self, block_id: str, mode: Literal["textmark", "md"] = "textmark") -> str:
        """The block's text with ids and attributes; empty if there is none.

        Marks are spans, which keep memos; in the mode "md" Markdown's where it has them.
        """
        with_mode = {"mode": mode} if self._has("getBlockKramdown mode") else {}
        body = {"id": valid(block_id)} | with_mode
        return self._read("/api/block/getBlockKramdown", body).text("kramdown").strip("\n")

    def doms(self, ids: Sequence[str]) -> dict[str, str]:
        """The blocks with all they contain as an editor gets them; missing blocks are left out."""
        if self._has("getBlockDOMs"):
            answers = self._of_many("/api/block/getBlockDOMs", [*map(valid, ids)])
            doms = {i: of.read(str) for i, of in answers.items()}
        else:
            doms = {i: self._of("/api/block/getBlockDOM", i).text("dom") for i in ids}
        return {i: escaped_code(dom) for i, dom in doms.items() if dom}

    def images(self, standings: Mapping[str, TreeInfo]) -> dict[str, str]:
        """The kramdown of blocks by their positions; missing blocks are left out.

        Many top-level blocks of a document are cut from one read of it, few are read alone.
        """
        beside: dict[str, dict[str, str]] = {}
        for standing in standings.values():
            beside.setdefault(standing.parent_id, {})[standing.id] = standing.previous_id
        images: dict[str, str] = {}
        for parent_id, places in beside.items():
            if parent_id and len(places) > FEW:
                images |= slices_of(self.kramdown(parent_id), places)
        images |= {i: self.kramdown(i) for i in standings if i not in images}
        return {i: images[i] for i in standings if images[i]}

    def attributes(self, block_id: str) -> dict[str, str]:
        answer = self._of("/api/attr/getBlockAttrs", block_id)
        return {name: answer.text(name) for name in answer.fields()}

    def home(self, block_id: str) -> DocumentPlace:
        """The document of an existing block."""
        answer = self._of("/api/block/getBlockInfo", block_id)
        return DocumentPlace(*answer.texts("box", "path", "rootID", "rootTitle"))

    def documents_below(self, home: DocumentPlace) -> list[Answer]:
        """The documents directly below one."""
        body = {"notebook": home.box, "path": home.path}
        return self._read("/api/filetree/listDocsByPath", body).at("files").rows()

    def hpath(self, block_id: str) -> str:
        """The path of titles of a block's document."""
        return self._of("/api/filetree/getHPathByID", block_id).read(str)

    def outline(self, document_id: str) -> tuple[Heading, ...]:
        """The headings of a document, nested."""
        return _headings(self._of("/api/outline/getDocOutline", document_id), "name", "blocks")

    def breadcrumb(self, block_id: str) -> list[Crumb]:
        """The headings and containers around a block, from the top, and mostly itself."""
        body: dict[str, object] = {"id": valid(block_id), "excludeTypes": []}
        rows = self._read("/api/block/getBlockBreadcrumb", body).rows()
        names = (of.texts("id", "type", "name") for of in rows)
        return [
            Crumb(crumb_id, KINDS.get(node, ""), _read(name))
            for crumb_id, node, name in names
            if node != "NodeDocument"
        ]

    def notebooks(self) -> list[Notebook]:
        return [
            Notebook(of.text("id"), of.text("name"), of.fields().get("closed") is True)
            for of in self._read("/api/notebook/lsNotebooks", {}).at("notebooks").rows()
        ]

    # Read from the index: current after `flush`.

    def flush(self) -> None:
        """Wait until all writes are done and indexed."""
        self._read("/api/sqlite/flushTransaction", {})

    def select(self, statement: str, *names: str) -> list[list[str]]:
        """The columns that a SELECT finds, an id first; read-only if the kernel supports that."""
        rows = [of.texts(*names) for of in self._rows(statement)]
        return [columns for columns in rows if is_id(columns[0])]

    def count(self, test: str) -> int:
        """How many blocks there are in the index that pass an SQL test."""
        rows = self._rows(f"SELECT count(DISTINCT id) AS total FROM blocks WHERE {test}")
        if not rows:
            raise NotesUnavailable("/api/query/sql: a row is missing")
        return rows[0].at("total").read(int)

    def _rows(self, statement: str) -> list[Answer]:
        body = {"stmt": statement, **({"mode": "readonly"} if self._has("sql mode") else {})}
        return self._read("/api/query/sql", body).rows()

    def settled(
        self,
        look: Callable[[], Seen],
        good: Callable[[Seen], bool],
        *,
        waited: bool = True,
        late: bool = False,
    ) -> Seen:
        """Call `look` a few times until `good` accepts its result; return the last result.

        `waited`: the kernel answered after the write was done, as it does except for deletions.
        Then a flush, which also writes the index, is requested only if the result is not good.
        `late`: the write timed out.
        """
        if not waited:
            self.flush()
        seen = look()
        for wait_s in (0.0, *(LATE_WAITS_S if late else WAITS_S)):
            if good(seen):
                break
            if wait_s:
                self._pause(wait_s)
            self.flush()
            seen = look()
        return seen

    # Writes. KernelRefused if the kernel refuses.

    def insert(self, source: Mapping[str, object], gap: Around) -> frozenset[str]:
        """Insert blocks between two neighbours, or in an empty container."""
        places = ("nextID", gap.next_id), ("previousID", gap.previous_id)
        name, anchor = next((side for side in places if side[1]), ("parentID", gap.parent_id))
        return self._write("/api/block/insertBlock", {**source, name: valid(anchor)})

    def update(self, sources: Mapping[str, Mapping[str, object]]) -> frozenset[str]:
        """Replace blocks, atomically if the kernel can. Attributes that are not named get lost."""
        blocks = [{**source, "id": valid(block_id)} for block_id, source in sources.items()]
        if len(blocks) > 1 and self._has("batchUpdateBlock"):
            return self._write("/api/block/batchUpdateBlock", {"blocks": blocks})
        named = (self._write("/api/block/updateBlock", body) for body in blocks)
        return frozenset[str]().union(*named)

    def delete(self, block_id: str) -> frozenset[str]:
        return self._write("/api/block/deleteBlock", {"id": valid(block_id)})

    def move(self, block_id: str, previous_id: str, parent_id: str) -> frozenset[str]:
        """Move a block behind another one, or to the start of a container."""
        anchor = {"previousID": previous_id} if previous_id else {"parentID": valid(parent_id)}
        return self._write("/api/block/moveBlock", {"id": valid(block_id), **anchor})

    def set_attributes(self, block_id: str, attributes: Mapping[str, str]) -> frozenset[str]:
        """Set these attributes; others stay."""
        return self._write(
            "/api/attr/setBlockAttrs", {"id": valid(block_id), "attrs": dict(attributes)}
        )

    def create_document(
        self, box: str, hpath: str, markdown: str, *, parent_id: str, document_id: str
    ) -> str:
        """Create a document at a path of titles, below `parent_id`; return its id, or empty."""
        body = {
            "notebook": valid(box),
            "path": hpath,
            "markdown": markdown,
            "id": valid(document_id),
            **({"parentID": valid(parent_id)} if parent_id else {}),
        }
        answer = self._sent("/api/filetree/createDocWithMd", body)
        return answer if isinstance(answer, str) and is_id(answer) else ""

    def remove_document(self, box: str, path: str) -> None:
        """Delete a document and those below it, by its path of ids."""
        self._write("/api/filetree/removeDoc", {"notebook": valid(box), "path": path})

    def daily_note(self, box: str) -> str:
        """Create today's note if it is missing; return its id. AnswerLost without an id."""
        call = "/api/filetree/createDailyNote"
        answer = self._sent(call, {"notebook": valid(box)})
        block_id = cast(dict[str, object], answer).get("id") if isinstance(answer, dict) else None
        if not isinstance(block_id, str) or not is_id(block_id):
            raise AnswerLost(f"{call}: no id")
        return block_id

    def keep_history(self, document_id: str) -> None:
        """Ask the kernel to save the document in its history, if it can."""
        if self._has("createDocHistory"):
            self._write("/api/history/createDocHistory", {"id": valid(document_id)})

    def _sent(self, call: str, body: Mapping[str, object]) -> object:
        self.version()
        return self._http.ask(call, body)

    def _write(self, call: str, body: Mapping[str, object]) -> frozenset[str]:
        """Write; return the ids of the blocks named as written, and of the blocks inside them."""
        answer = self._sent(call, body)
        listed = cast("list[object]", answer) if isinstance(answer, list) else []
        parts = (cast("dict[str, object]", part) for part in listed if isinstance(part, dict))
        return frozenset(_NAMED.findall(json.dumps([part.get("doOperations") for part in parts])))


def attempted(send: Callable[[], Seen]) -> tuple[Seen | None, str, bool]:
    """Send a write; return its answer, the objection, and whether it may still be carried out."""
    try:
        return send(), "", False
    except KernelRefused as refused:
        return None, str(refused), False
    except AnswerLost as lost:
        return None, lost.detail, lost.reason == "timeout"


def _headings(rows: Answer, name: str, below: str) -> tuple[Heading, ...]:
    """The headings of an outline; rows at the top name the same fields differently."""
    return tuple(
        Heading(
            valid(of.text("id")),
            _read(of.text(name)),
            of.text("subType"),
            _headings(of.at(below), "content", "children"),
        )
        for of in (rows.rows() if rows.value is not None else ())
    )


_TAG = re.compile(r"<[^<>]*>")


def _read(markup: str) -> str:
    """The text of HTML; the kernel's outlines contain no-break spaces, which become blanks."""
    return html.unescape(_TAG.sub("", markup)).replace("\u00a0", " ")
