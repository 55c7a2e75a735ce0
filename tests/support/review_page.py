"""What the tests of the review page share: a served workspace, a browser without a screen."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx2

from copydesk.app.config import MemberConfig
from copydesk.app.workspace import OpenWorkspace, open_workspace
from support.mcp_calls import settings
from support.mcp_transports import NO_TLS, SECONDS, served

AGENT = "writer"
"""A member whose edits a person approves."""


def desk_at(root: Path, **changes: Any) -> OpenWorkspace:
    """The workspace at `root`, kept in memory, with a member who asks and one who does not."""
    members = {AGENT: MemberConfig(approval="human"), "fixer": MemberConfig()}
    return open_workspace(str(root), settings(members=members), shared=False, **changes)


def prepared(
    desk: OpenWorkspace, tool: str = "prepare_file_append", by: str = AGENT, **given: Any
) -> str:
    """The id of a new plan."""
    answer = desk.call(by, tool, given)
    assert not answer.is_error, answer.text
    return str(answer.fields["hunk_id"])


@dataclass
class Reader:
    """A person at the page, by plain HTTP: each form is sent as the page has it."""

    http: httpx2.Client
    name: str
    cookies: dict[str, str] = field(default_factory=dict)

    def get(self, path: str) -> httpx2.Response:
        return self.http.get(path, headers=self._headers())

    def page(self, path: str) -> str:
        response = self.get(path)
        assert response.status_code == 200, (path, response.status_code, response.text[:300])
        return response.text

    def post(self, path: str, fields: Mapping[str, Any], **headers: str) -> httpx2.Response:
        return self.http.post(path, data=dict(fields), headers={**self._headers(), **headers})

    def send(self, path: str, action: str, **changed: str) -> str:
        """Send the form of the page at `path` that leads to `action`; the page that follows."""
        fields = fields_of(self.page(path), action)
        response = self.post(action, {**fields, **changed})
        assert response.status_code == 303, (response.status_code, response.text[:300])
        onward = self.get(response.headers["location"])
        return onward.text

    def _headers(self) -> dict[str, str]:
        jar = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        return {"Cookie": jar} if jar else {}


@dataclass
class Room:
    """A served workspace. `tokens` are the one-time tokens, the last one is good."""

    desk: OpenWorkspace
    root: Path
    address: str
    tokens: list[str]

    def reader(self, name: str = "Ada") -> Reader:
        """Somebody who has come in."""
        reader = Reader(httpx2.Client(base_url=self.address, timeout=SECONDS, verify=NO_TLS), name)
        response = reader.post("/sign-in", {"token": self.tokens[-1], "name": name})
        assert response.status_code == 303, response.text
        reader.cookies = dict(response.cookies.items())
        return reader

    def stranger(self) -> Reader:
        """Somebody who has not."""
        return Reader(httpx2.Client(base_url=self.address, timeout=SECONDS, verify=NO_TLS), "")


@contextmanager
def room_at(root: Path, desk: OpenWorkspace | None = None, **options: Any) -> Iterator[Room]:
    tokens: list[str] = []
    members = options.pop("members", {})
    with (
        desk or desk_at(root) as opened,
        served(opened, members, announce=tokens.append, **options) as address,
    ):
        httpx2.get(
            f"{address}/sign-in", timeout=SECONDS, verify=NO_TLS
        )  # it has started when it answers
        yield Room(opened, root, address, tokens)


def fields_of(page: str, action: str) -> dict[str, str]:
    """The fields of the form that leads to `action`."""
    found = re.search(rf'<form [^>]*action="{re.escape(action)}"[^>]*>(.*?)</form>', page, re.S)
    assert found is not None, (action, page[:2000])
    pairs = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', found[1])
    return {name: html.unescape(value) for name, value in pairs}


class Elements(HTMLParser):
    """All elements of a page with their attributes, and all its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data
