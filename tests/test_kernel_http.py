"""The client of a kernel: what it sends, what it takes for an answer, and what it says otherwise."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from copydesk.errors import InvalidArgs, Refusal
from copydesk.notes.kernel.api import Address, AnswerLost, Kernel, KernelHttp, KernelRefused
from copydesk.notes.kernel.blocks import split_blocks
from copydesk.notes.kernel.store import KernelStore
from copydesk.notes.protocol import BlockNotFound, NotesUnavailable, Unavailable, Update
from support.fake_kernel import FakeKernel
from support.note_stores import store_of
from support.rows import each_row


@pytest.fixture(scope="module")
def server() -> Iterator[FakeKernel]:
    with FakeKernel() as running:
        yield running


@pytest.fixture
def kernel(server: FakeKernel) -> FakeKernel:
    server.reset()
    return server


@each_row("url address", [
    ("http://127.0.0.1:6806", Address(False, "127.0.0.1", 6806, "")),
    ("http://localhost/", Address(False, "localhost", 80, "")),
    ("https://notes.example/siyuan/", Address(True, "notes.example", 443, "/siyuan")),
    ("http://[::1]:6806", Address(False, "::1", 6806, "")),
])  # fmt: skip
def test_an_address_is_read_from_a_url(url: str, address: Address) -> None:
    assert Address.of(url) == address


NO_URLS = (
    "", "127.0.0.1:6806", "ftp://x", "http://", "http://u:p@x", "http://x?q=1", "http://x#f",
    "http://x:99999", "http://x:y", "file:///etc/passwd", "http://[::1",
)  # fmt: skip


@each_row(
    "url token",
    [(url, "token") for url in NO_URLS]
    + [("http://127.0.0.1:6806", token) for token in ("", "a\r\nHost: b", "ключ")],
)
def test_what_is_no_url_or_token_of_a_kernel(url: str, token: str) -> None:
    with pytest.raises(InvalidArgs):
        KernelStore.at(url, token)


def check_unusable(kernel: FakeKernel, reason: Unavailable, token: str | None = None) -> None:
    """The kernel cannot be used, for this reason; neither for reading nor for writing."""
    http = KernelHttp(Address.of(kernel.url), token or kernel.token, 5.0, 1 << 16)
    store = KernelStore(http, split_blocks)
    calls: list[Callable[[], object]] = [
        store.notebooks,
        lambda: store.blocks(["20260101120000-0000001"]),
        lambda: store.prepare([Update("20260101120000-0000001", "x")]),
        lambda: store.prepare_daily_note("20260101120000-0000001"),
        lambda: store.prepare_document("20260101120000-0000001", "", "T", ""),
    ]
    for call in calls:
        with pytest.raises(NotesUnavailable) as caught:
            call()
        assert caught.value.reason == reason
        assert (token or kernel.token) not in str(caught.value)
    store.close()
    assert kernel.habits.writes == 0


def test_a_wrong_token_and_no_rights(kernel: FakeKernel) -> None:
    check_unusable(kernel, "token", "another-token-16")
    kernel.habits.forbidden = True
    check_unusable(kernel, "forbidden")


def test_a_kernel_that_boots(kernel: FakeKernel) -> None:
    kernel.habits.progress = 42
    check_unusable(kernel, "booting")
    kernel.habits.progress = 100
    store = store_of(kernel)
    assert store.notebooks() == ()
    store.close()


@pytest.mark.parametrize(("version", "reason"), [
    *((version, "version") for version in ("3.1.3", "2.12.0", "3.0.14")),
    *((version, "answer") for version in ("", "new", "3")),
])  # fmt: skip
def test_a_kernel_that_is_too_old_or_tells_no_version(
    kernel: FakeKernel, version: str, reason: Unavailable
) -> None:
    kernel.habits.version = version
    check_unusable(kernel, reason)


@pytest.mark.parametrize("version", ["3.1.4", "3.10.0", "4.0.0", "3.7.0-dev2"])
def test_a_kernel_that_is_new_enough_is_asked_once(kernel: FakeKernel, version: str) -> None:
    kernel.habits.version = version
    store = store_of(kernel)
    for _ in range(3):
        store.notebooks()
    asked = kernel.habits.calls.count("/api/system/version")
    assert asked == kernel.habits.calls.count("/api/system/bootProgress") == 1
    store.close()


def test_a_redirection_is_not_followed(kernel: FakeKernel) -> None:
    with FakeKernel() as elsewhere:
        kernel.habits.redirect = elsewhere.url
        http = KernelHttp(Address.of(kernel.url), kernel.token)
        with pytest.raises(NotesUnavailable) as caught:
            http.ask("/api/system/version", {})
        assert caught.value.reason == "answer"
        assert elsewhere.habits.calls == []
        http.close()


def test_nobody_listens() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))  # bound and not listening: the port is nobody else's
        http = KernelHttp(Address.of(f"http://127.0.0.1:{holder.getsockname()[1]}"), "t", 2.0)
        with pytest.raises(NotesUnavailable) as caught:
            http.ask("/api/system/version", {})
    assert caught.value.reason == "unreachable"
    assert not isinstance(caught.value, AnswerLost)


ANSWERS: dict[str, tuple[bytes, Unavailable]] = {
    "nothing": (b"", "unreachable"),
    "no HTTP": (b"SSH-2.0-OpenSSH\r\n\r\n", "unreachable"),
    "no JSON": (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{]}", "answer"),
    "no envelope": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", "answer"),
    "no code": (b'HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n{"code": true}', "answer"),
    "half of it": (b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"code": 0, ', "answer"),
    "an error": (b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", "answer"),
    "too much": (b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 100_000, "too_large"),
    "too deep": (b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 60_000, "answer"),
}


@contextmanager
def serving(answered: Callable[[socket.socket], object], timeout_s: float) -> Iterator[KernelHttp]:
    """A client of a server that answers its first request so."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection, suppress(ConnectionError):
                connection.recv(1 << 16)
                answered(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        http = KernelHttp(Address.of(url), "t", timeout_s, 1 << 16)
        try:
            yield http
        finally:
            http.close()
            thread.join()


@each_row("name", ANSWERS)
def test_what_is_no_answer(name: str) -> None:
    answer, reason = ANSWERS[name]

    def answered(connection: socket.socket) -> None:
        connection.sendall(answer)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1 << 16):
            pass

    with serving(answered, 5.0) as http, pytest.raises(AnswerLost) as caught:
        http.ask("/x", {})
    assert caught.value.reason == reason


@pytest.mark.slow
def test_an_answer_drop_by_drop_has_an_end() -> None:
    def answered(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:  # until the client closes it
            connection.sendall(b" ")
            time.sleep(0.02)

    with serving(answered, 0.2) as http, pytest.raises(AnswerLost) as caught:
        http.ask("/x", {})
    assert caught.value.reason == "timeout"


def test_the_kernel_says_no(kernel: FakeKernel) -> None:
    http = KernelHttp(Address.of(kernel.url), kernel.token)
    with pytest.raises(KernelRefused) as caught:
        http.ask("/api/block/getChildBlocks", {"id": "x"})
    assert str(caught.value) == "/api/block/getChildBlocks: invalid ID argument"
    http.close()


ROWS: dict[str, tuple[Callable[[FakeKernel, Sequence[str]], object], type[Refusal]]] = {
    "/api/query/sql": (
        lambda kernel, _: Kernel(KernelHttp(Address.of(kernel.url), kernel.token)).count("true"),
        NotesUnavailable,
    ),
    "/api/block/getTailChildBlocks": (lambda _, ids: ids[-1], NotesUnavailable),
    "/api/block/getBlockTreeInfos": (lambda _, ids: ids[3], BlockNotFound),
}


@pytest.mark.parametrize("call", ROWS)
def test_an_answer_without_rows_is_refused(
    kernel: FakeKernel, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(kernel)
    ids = store.child_ids(
        kernel.document(kernel.box(), "T", "\n\n".join(f"paragraph {n}" for n in range(30)))
    )
    assert len(ids) == 30
    ask = KernelHttp.ask

    def without_rows(http: KernelHttp, path: str, *rest: Any, **named: Any) -> Any:
        answer = ask(http, path, *rest, **named)
        return type(answer)() if path == call else answer

    monkeypatch.setattr(KernelHttp, "ask", without_rows)
    read, refusal = ROWS[call]
    with pytest.raises(refusal):
        read(kernel, ids)
    store.close()


def test_connections_are_kept_for_reading_and_only_for_that(kernel: FakeKernel) -> None:
    box = kernel.box()
    document = kernel.document(box, "T", "a")
    store = store_of(kernel)
    (a,) = store.children(document)
    before = kernel.connections
    store.children(document)
    assert kernel.connections == before
    prepared = store.prepare([Update(a.id, "b")])
    store.execute(prepared)
    assert kernel.connections == before + 2  # the history and the update
    kernel.habits.hangs_up = True  # a connection that is kept is dead, and nobody says so
    store.children(document)
    assert [block.markdown for block in store.children(document)] == ["b"]
    store.execute(store.prepare([Update(a.id, "c")]))
    assert [block.markdown for block in store.children(document)] == ["c"]
    store.close()


def test_what_is_sent_is_what_was_meant(kernel: FakeKernel) -> None:
    box = kernel.box()
    text = 'quote " and \\ and \u2028 and 狐 and 🦊 and </script> and %20'
    store = store_of(kernel)
    ((made, *_),) = store.execute(store.prepare_document(box, "", "T", text)).ids
    assert [block.markdown for block in store.children(made)] == [text]
    assert json.dumps(text)  # the envelope is JSON, whatever the text
    store.close()
