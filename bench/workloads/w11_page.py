"""W11: the review page with a thousand plans that wait, over HTTP, as a browser asks for it.

Each figure is of whole answers of a server in a process of its own, over one connection; the limit
is a file that the same server sends from its disk.
"""

from __future__ import annotations

import html
import http.client
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from bench.arena import Cell
from bench.field import PROGRAM
from bench.results import Bar, Section, Table, cell_of, ratio_bar, under_bar
from bench.setting import Setting

PLANS, FILES, TOGETHER, MOST_BYTES = 1_000, 200, 100, 200_000
LIST = "the list of 1,000 plans"
SEVERAL = "100 plans together"
ONWARD = "approve, to the next plan"
STATIC = "limit: a static file"
MOST_TIMES = {LIST: 40, SEVERAL: 300, ONWARD: 100}
AGENT = "agent"


def run(bench: Setting) -> Section:
    """All requests in turn, round by round."""
    root = bench.folder("w11")
    hunks = _prepare(root)
    cells = {name: Cell(name, "copydesk") for name in (LIST, SEVERAL, ONWARD)}
    cells[STATIC] = Cell(STATIC, "limit")
    together = "/together?" + urlencode([("hunk", hunk) for hunk in hunks[:TOGETHER]])
    onward = iter(hunks[TOGETHER:])
    with _browser(root) as browser:
        for turn in range(max(bench.scale.starts, 5) + 2):
            hunk = next(onward)
            form = _form(browser.page(f"/hunk/{hunk}"), f"/hunk/{hunk}/approve")
            seconds = {
                STATIC: _timed(browser.page, "/static/desk.css"),
                LIST: _timed(browser.page, "/"),
                SEVERAL: _timed(browser.page, together),
                ONWARD: _timed(browser.send, f"/hunk/{hunk}/approve", form),
            }
            if turn > 1:  # the first ones fill the caches
                for name, each in seconds.items():
                    cells[name].seconds.append(each)
        size = len(browser.page("/").encode())
    every = list(cells.values())
    section = Section("W11", "The review page")
    section.tables.append(Table("wall time of an answer", every, STATIC, memory=False))
    bars = ((LIST, 0.2), (SEVERAL, 1.0), (ONWARD, 0.3))
    section.bars = [under_bar(f"{name} under {s} s", cell_of(every, name), s) for name, s in bars]
    asked = f"the list in at most {MOST_BYTES // 1000} kB"
    section.bars.append(Bar(asked, f"{size / 1000:.0f} kB", size <= MOST_BYTES))
    section.bars += [
        ratio_bar(f"{name} within {most} × of a static file", every, name, STATIC, most)
        for name, most in MOST_TIMES.items()
    ]
    return section


def _prepare(root: Path) -> list[str]:
    """The ids of plans in files of a few hundred lines, by an agent that needs a person."""
    from copydesk.app.config import Config, MemberConfig
    from copydesk.app.workspace import open_workspace

    root.mkdir()
    for number in range(FILES):
        folder = root / f"src/part{number % 10}"
        folder.mkdir(parents=True, exist_ok=True)
        lines = [f"def add_{n}(a, b):\n    return a + b * {n}\n\n\n" for n in range(100)]
        (folder / f"file{number}.py").write_text("".join(lines))
    (root / "copydesk.toml").write_text(f'[members.{AGENT}]\napproval = "human"\n')
    config = Config(members={AGENT: MemberConfig(approval="human")})
    with open_workspace(str(root), config) as opened:
        found: list[str] = []
        for number in range(PLANS):
            at, line = number % FILES, number // FILES * 16 + 2
            given = {
                "path": f"src/part{at % 10}/file{at}.py",
                "range": str(line),
                "content": f"    return a - b * {number}\n",
                "why": f"change {number} of the task",
            }
            report = opened.call(AGENT, "prepare_file_range_edit", given)
            found.append(str(report.fields["hunk_id"]))
        return found


class _Browser:
    """One connection to the server, signed in."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        assert parts.hostname is not None, address
        self._http = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._cookie = ""
        token = parts.query.removeprefix("token=")
        _, headers, _ = self._ask("/sign-in", {"token": token, "name": "Bench"})
        self._cookie = (headers["set-cookie"] or "").partition(";")[0]

    def page(self, path: str) -> str:
        """A page."""
        status, _, body = self._ask(path)
        assert status == 200, (path, status, body[:200])
        return body.decode()

    def send(self, path: str, form: dict[str, str]) -> str:
        """Send a form; the page that follows."""
        status, headers, body = self._ask(path, form)
        assert status == 303, (path, status, body[:200])
        return self.page(headers["location"] or "/")

    def _ask(
        self, path: str, form: dict[str, str] | None = None
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        headers = {"Cookie": self._cookie, "Origin": self._origin}
        if form is None:
            self._http.request("GET", path, headers=headers)
        else:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            self._http.request("POST", path, urlencode(form), headers)
        answer = self._http.getresponse()
        return answer.status, answer.headers, answer.read()


@contextmanager
def _browser(root: Path) -> Iterator[_Browser]:
    """A browser at a server of its own, which is ended."""
    command = [PROGRAM, "serve", "--root", str(root), "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as server:
        try:
            assert server.stdout is not None, "it is a pipe"
            said = iter(server.stdout.readline, "")
            address = next(line.split()[-1] for line in said if "token=" in line)
            yield _Browser(address)
        finally:
            server.terminate()


def _form(page: str, action: str) -> dict[str, str]:
    found = re.search(rf'<form [^>]*action="{re.escape(action)}"[^>]*>(.*?)</form>', page, re.S)
    assert found is not None, action
    pairs = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', found[1])
    return {name: html.unescape(value) for name, value in pairs}


def _timed(call: Callable[..., object], *arguments: object) -> float:
    began = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - began
