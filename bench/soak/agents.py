"""The agents and people of a soak: real MCP clients, and real forms of the review page.

Each records what an answer said about the lines that it wrote, and judges nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import html
import random
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import anyio
import httpx2

from bench.soak.observer import TOKEN, Ledger, Status, Token, Violation

if TYPE_CHECKING:
    from mcp import Client

SECTIONS: Final = ("s1", "s2", "s3", "s4", "end")
_LONG: Final = 70
"""A file with more lines is shortened."""

_MOST_MOVING: Final = 40
"""The most files that are created, moved and deleted to exist at one time."""

_RANK: Final[Mapping[Status, int]] = {"sent": 0, "waiting": 1, "refused": 2, "unsure": 3, "ok": 4}

Fields = dict[str, Any]


class Call(NamedTuple):
    """One answered call: when it was answered, who made it, and how long it took."""

    at: float
    who: str
    tool: str
    seconds: float
    code: str


@dataclass
class World:
    """The state that agents and people share: the files, and the ledger of all answers.

    `approved` are the digests before and after that people were shown and have agreed to.
    """

    root: Path
    files: dict[str, list[str]]
    until: float
    ledger: Ledger = field(default_factory=Ledger)
    plans: dict[str, list[Token]] = field(default_factory=dict[str, "list[Token]"])
    approved: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    seen: dict[str, bytes] = field(default_factory=dict[str, bytes])
    calls: list[Call] = field(default_factory=list[Call])
    broken: Counter[str] = field(default_factory=Counter[str])
    findings: list[Violation] = field(default_factory=list[Violation])
    stopping: bool = False
    numbers: int = 0

    @property
    def is_over(self) -> bool:
        """Whether no new calls are to be made."""
        return self.stopping or time.monotonic() >= self.until

    def settle(self, tokens: Sequence[Token], status: Status, code: str = "") -> None:
        """Record an answer about tokens; of several answers the most certain counts."""
        for token in tokens:
            if _RANK[status] >= _RANK[token.status]:
                token.status, token.code = status, code or token.code

    def new_file(self, folder: str) -> tuple[str, str]:
        """The path and initial text of a file that did not exist before."""
        self.numbers += 1
        name = f"f{self.numbers:04}"
        text = f"# {name}\n" + "".join(f"[{section} {name}]\n" for section in SECTIONS)
        return f"{folder}/{name}.txt", text

    def keep(self, data: bytes) -> None:
        """Save the bytes of a state that was read."""
        self.seen.setdefault(hashlib.sha256(data).hexdigest(), data)


class Agent:
    """One agent; `connect` returns a client of its server, `folders` are those it edits mostly."""

    def __init__(
        self,
        name: str,
        world: World,
        seed: str,
        connect: Callable[[], AbstractAsyncContextManager[Client]],
        folders: Sequence[str],
    ) -> None:
        self.name, self.world, self._connect, self._folders = name, world, connect, folders
        self.random = random.Random(seed)
        self._writer = name.upper()
        self._client: Client | None = None
        self._flight: list[Token] = []
        self._written: list[int] = []
        self._plans: list[str] = []
        self.task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Work until the soak is over; connect again whenever the server is gone."""
        while not self.world.is_over:
            self.task = asyncio.create_task(self._session())
            try:
                await asyncio.wait({self.task})
            except asyncio.CancelledError:
                self.task.cancel()
                raise
            self.world.settle(self._flight, "unsure")
            self._flight = []
            if not self.task.cancelled() and (error := self.task.exception()):
                self.world.broken[_name_of(error)] += 1
            await asyncio.sleep(0.2)

    async def _session(self) -> None:
        async with self._connect() as self._client:
            while not self.world.is_over:
                await self._step()
                await asyncio.sleep(self.random.expovariate(12))

    async def _step(self) -> None:
        kinds = list(_OPERATIONS)
        (kind,) = self.random.choices(kinds, [_OPERATIONS[one] for one in kinds])
        await cast("Callable[[], Awaitable[None]]", getattr(self, f"_{kind}"))()
        self._flight = []

    async def _call(self, tool: str, **arguments: object) -> Fields:
        """The structured answer of a tool; raises if there is none."""
        assert self._client is not None
        begun = time.monotonic()
        result = await self._client.call_tool(tool, arguments)
        now = time.monotonic()
        data = cast("Fields", result.structured_content or {})
        told = data.get("error", "")
        code = str(cast("Fields", told).get("code") if isinstance(told, dict) else told)
        if result.is_error and not code:
            code = "INTERNAL_ERROR"
        self.world.calls.append(Call(now, self.name, tool, now - begun, code))
        return {**data, "code": code}

    # What it reads

    def _any(self, *folders: str) -> str | None:
        paths = [path for folder in folders for path in self.world.files[folder]]
        return self.random.choice(paths) if paths else None

    async def _text(self, *folders: str) -> tuple[str, list[str], str] | None:
        """A file: its path, lines and version; the version must match these bytes."""
        path = self._any(*(folders or self._folders))
        if path is None:
            return None
        answer = await self._call("read_file", path=path, show_linenos=False, max_lines=2_000)
        if answer["code"]:
            return None
        text = str(answer["content"])
        if answer["truncated_by_max_lines"] or answer["truncated_by_char_limit"]:
            return None
        data = text.encode()
        self.world.keep(data)
        if hashlib.sha256(data).hexdigest()[:12] != answer["version"]:
            words = f"the text of {path} is not that of version {answer['version']}"
            self.world.findings.append(Violation("read wrong", words))
        return path, re.findall(r"[^\n]*\n|[^\n]+", text), str(answer["version"])

    def _heads(self, lines: Sequence[str], count: int = 1) -> list[int]:
        heads = [at for at, line in enumerate(lines) if line.lstrip().startswith("[")]
        return sorted(self.random.sample(heads, min(count, len(heads))))

    def _line(self, head: str, operation: str = "") -> str:
        """A new line for the section of a heading."""
        section, name = head.strip().strip("[]").split()
        token = self.world.ledger.new(self._writer, operation)
        self._flight.append(token)
        return f"{name} {section} {token.name} by {self.name}"

    def _operation(self) -> str:
        return f"{self.name}/{len(self.world.ledger.tokens)}"

    # What it writes

    def _note(self, answer: Fields, tokens: Sequence[Token] | None = None) -> None:
        """Record an answer about tokens, by default those in flight."""
        mine = list(self._flight if tokens is None else tokens)
        inner = cast("Fields", answer.get("data") or answer)
        rows = cast("Sequence[Fields]", inner.get("hunks") or [inner])
        edits = [int(row["edit_id"]) for row in rows if row.get("edit_id")]
        code = str(answer["code"])
        is_unsettled = code in ("FAILED", "EXECUTION_ERROR") and inner.get("paths")
        if is_unsettled or code == "INTERNAL_ERROR":
            self.world.settle(mine, "unsure", code)
        elif answer.get("status") == "pending":
            self.world.settle(mine, "waiting", code)
        elif code or answer.get("status") not in ("ok", "success"):
            self.world.settle(mine, "refused", code)
        elif edits:
            diff = str(inner.get("diff") or inner.get("diff_preview") or "")
            named = [token for token in mine if f"{token.name} " in diff] or mine
            for token in named:
                token.edit_id = edits[0] if len(edits) == 1 else 0
            self.world.settle(named, "ok")
            self._written = [*self._written[-20:], *edits]
        else:
            self.world.settle(mine, "waiting")

    async def _apply(self, plan: Fields, *, wait: float = 0.0) -> None:
        """Write a plan, or discard it if it can no longer be written."""
        self._note(plan)
        if plan["code"] or "hunk_id" not in plan or plan.get("edit_id"):
            return
        await asyncio.sleep(wait)
        answer = await self._call("apply_file_modification", hunk_id=plan["hunk_id"])
        self._note(answer)
        if answer["code"] and answer.get("status") != "pending":
            await self._call("discard_hunk", hunk_id=plan["hunk_id"])

    async def _insert(self) -> None:
        if found := await self._text():
            path, lines, _ = found
            head = lines[self._heads(lines)[0]]
            plan = await self._call(
                "prepare_file_insert_after",
                path=path,
                anchor=head.strip(),
                content=self._line(head),
                apply=self.random.choice(("auto", "never")),
            )
            await self._apply(plan, wait=self.random.choice((0, 0, 0.3)))

    async def _range(self) -> None:
        """Replace a line of an agent by its number, in the text that was read."""
        if found := await self._text():
            path, lines, version = found
            head, mine = "", list[tuple[int, str]]()
            for number, line in enumerate(lines, 1):
                head = line if line.lstrip().startswith("[") else head
                if TOKEN.search(line):
                    mine.append((number, head))
            if not mine:
                return
            number, head = self.random.choice(mine)
            plan = await self._call(
                "prepare_file_range_edit",
                path=path,
                range=str(number),
                content="" if len(lines) > _LONG else self._line(head),
                version=version,
                apply=self.random.choice(("auto", "never")),
            )
            await self._apply(plan, wait=self.random.choice((0, 0.2)))

    async def _replace(self) -> None:
        if found := await self._text():
            path, lines, version = found
            head = lines[self._heads(lines)[0]]
            new = f"{head.strip()}\n{self._line(head)}"
            answer = await self._call(
                "replace_text", path=path, old=head.strip(), new=new, version=version
            )
            self._note(answer)

    async def _append(self) -> None:
        path = self._any(*self._folders)
        assert path is not None
        name = path.rpartition("/")[2].removesuffix(".txt")
        line = self._line(f"[end {name}]")
        plan = await self._call("prepare_file_append", path=path, content=line, create=False)
        await self._apply(plan)

    async def _batch(self) -> None:
        if found := await self._text():
            path, lines, _ = found
            operation = self._operation()
            heads = [lines[at].strip() for at in self._heads(lines, 2)]
            edits = [_below(head, self._line(head, operation)) for head in heads]
            self._note(await self._call("BatchEdit", path=path, edits=edits))

    async def _two_heads(self) -> list[tuple[str, str, int]]:
        """Two files, each with one of its headings and the line number of that."""
        found: dict[str, tuple[str, str, int]] = {}
        for _ in range(2):
            if one := await self._text():
                path, lines, _ = one
                at = self._heads(lines)[0]
                found[path] = (path, lines[at].rstrip("\n"), at)
        return list(found.values())

    async def _insert_twice(self, tool: str, argument: str, form: str, part: str) -> None:
        """Insert a line in two files with one call; `form` is the text, with a `part` per file."""
        operation = self._operation()
        parts = [
            part.format(path=path, head=head, at=at + 1, line=self._line(head, operation))
            for path, head, at in await self._two_heads()
        ]
        if parts:
            text = form.format("".join(parts))
            self._note(await self._call(tool, **{argument: text, "apply": "auto"}))

    async def _patch(self) -> None:
        part = "*** Update File: {path}\n@@\n {head}\n+{line}\n"
        form = "*** Begin Patch\n{}*** End Patch\n"
        await self._insert_twice("apply_patch", "patch", form, part)

    async def _diff(self) -> None:
        part = "--- a/{path}\n+++ b/{path}\n@@ -{at},1 +{at},2 @@\n {head}\n+{line}\n"
        await self._insert_twice("apply_diff", "diff", "{}", part)

    async def _blocks(self) -> None:
        part = "{path}\n<<<<<<< SEARCH\n{head}\n=======\n{head}\n{line}\n>>>>>>> REPLACE\n\n"
        await self._insert_twice("apply_blocks", "text", "{}", part)

    async def _together(self) -> None:
        """Write two plans in one transaction."""
        operation, ids = self._operation(), list[str]()
        for path, head, _ in await self._two_heads():
            plan = await self._call(
                "prepare_file_insert_after",
                path=path,
                anchor=head.strip(),
                content=self._line(head, operation),
            )
            if plan["code"]:
                self._note(plan)
                break
            ids.append(str(plan["hunk_id"]))
        else:
            if ids:
                self._note(await self._call("apply_file_modifications", hunk_ids=ids))
                return
        self.world.settle(self._flight, "refused")
        for hunk_id in ids:
            await self._call("discard_hunk", hunk_id=hunk_id)

    async def _create(self) -> None:
        if len(self.world.files["moving"]) >= _MOST_MOVING:
            return
        path, text = self.world.new_file("moving")
        name = path.rpartition("/")[2].removesuffix(".txt")
        content = f"{text}{self._line(f'[end {name}]')}\n"
        answer = await self._call("create_new_file", path=path, content=content)
        self._note(answer)
        if not answer["code"]:
            self.world.files["moving"].append(path)
            self.world.keep(content.encode())

    async def _move(self) -> None:
        if found := await self._text("moving"):
            path, _, version = found
            folder = "moving/deeper" if path.count("/") == 1 else "moving"
            to = f"{folder}/{path.rpartition('/')[2]}"
            answer = await self._call(
                "prepare_file_move", path=path, to=to, version=version, apply="auto"
            )
            paths = self.world.files["moving"]
            if answer.get("edit_id") and path in paths:
                paths[paths.index(path)] = to

    async def _delete(self) -> None:
        paths = self.world.files["moving"]
        if len(paths) > 4 and (found := await self._text("moving")):
            path, _, version = found
            plan = await self._call("prepare_file_delete", path=path, version=version)
            await self._apply(plan)
            if path in paths and not (self.world.root / path).exists():
                paths.remove(path)

    async def _undo(self) -> None:
        if self._written:
            edit_id = self._written.pop(self.random.randrange(len(self._written)))
            await self._call("undo_file_modification", edit_id=edit_id)

    async def _cancel(self) -> None:
        """Make a call that is cancelled while it runs."""
        path = self._any(*self._folders)
        assert path is not None
        head = f"[{self.random.choice(SECTIONS)} {path.rpartition('/')[2].removesuffix('.txt')}]"
        edits = [_below(head, self._line(head))]
        with anyio.move_on_after(self.random.uniform(0.001, 0.03)) as scope:
            self._note(await self._call("BatchEdit", path=path, edits=edits))
        if scope.cancelled_caught:
            self.world.settle(self._flight, "unsure", "CANCELLED")

    async def _search(self) -> None:
        await self._call("ripgrep_fixed", literal=f"{self._writer}-", mode="count")
        await self._call("list_edits", max_results=5)

    async def _review(self) -> None:
        """Make a plan that a person has to approve."""
        if len(self._plans) < 4 and (found := await self._text("review")):
            path, lines, version = found
            given: Fields = {"path": path, "version": version}
            mine = [number for number, line in enumerate(lines, 1) if TOKEN.search(line)]
            if len(lines) > _LONG:
                number = self.random.choice(mine)
                plan = await self._call(
                    "prepare_file_range_edit", **given, range=str(number), content=""
                )
            else:
                head = lines[self._heads(lines)[0]]
                given |= {"anchor": head.strip(), "content": self._line(head)}
                plan = await self._call("prepare_file_insert_after", **given)
            self._note(plan)
            if not plan["code"]:
                self.world.plans[str(plan["hunk_id"])] = list(self._flight)
                self._plans.append(str(plan["hunk_id"]))

    async def _finish(self) -> None:
        """Ask for the write of a plan that a person may have approved meanwhile."""
        if self._plans:
            hunk_id = self._plans.pop(0)
            self._flight = self.world.plans[hunk_id]  # a person may amend it meanwhile
            answer = await self._call("apply_file_modification", hunk_id=hunk_id)
            self._note(answer)
            if answer.get("status") == "pending" or answer["code"] in ("BUSY", "SERVER_FAILED"):
                self._plans.append(hunk_id)
            elif answer["code"]:
                await self._call("discard_hunk", hunk_id=hunk_id)


_OPERATIONS: Final = {
    "insert": 14, "range": 16, "replace": 8, "append": 8, "batch": 8, "patch": 6, "diff": 4,
    "blocks": 4, "together": 6, "create": 4, "move": 5, "delete": 3, "undo": 7, "cancel": 5,
    "search": 2, "review": 14, "finish": 8,
}  # fmt: skip
"""The operations of an agent, weighted."""


class Person:
    """A person at the review page, over HTTP; each form is sent as the page has it."""

    def __init__(self, name: str, token: str, world: World, seed: str, address: str) -> None:
        self.name, self.world, self.random, self._token = name, world, random.Random(seed), token
        self._address = address
        self._cookies: dict[str, str] = {}
        self.decided: Counter[str] = Counter()

    async def run(self) -> None:
        """Decide on plans until the soak is over."""
        while not self.world.is_over:
            try:
                async with httpx2.AsyncClient(base_url=self._address, timeout=30) as http:
                    while not self.world.is_over:
                        await self._decide(http)
                        await asyncio.sleep(self.random.uniform(0.1, 0.6))
            except httpx2.HTTPError as error:
                self.world.broken[f"page: {type(error).__name__}"] += 1
                await asyncio.sleep(0.3)

    async def _get(self, http: httpx2.AsyncClient, path: str) -> str:
        begun = time.monotonic()
        response = await http.get(path, headers=self._headers())
        if response.status_code == 303 and "/sign-in" in response.headers["location"]:
            entered = await http.post("/sign-in", data={"token": self._token, "name": self.name})
            self._cookies = dict(entered.cookies.items())
            response = await http.get(path, headers=self._headers())
        now = time.monotonic()
        code = "" if response.status_code in (200, 404) else str(response.status_code)
        self.world.calls.append(Call(now, self.name, "page", now - begun, code))
        return response.text

    def _headers(self) -> dict[str, str]:
        jar = "; ".join(f"{name}={value}" for name, value in self._cookies.items())
        return {"Cookie": jar, "Origin": self._address} if jar else {"Origin": self._address}

    async def _decide(self, http: httpx2.AsyncClient) -> None:
        page = await self._get(http, "/")
        found = dict.fromkeys(re.findall(r"/hunk/(\w+)", page))
        waiting = [hunk_id for hunk_id in found if hunk_id in self.world.plans]
        if not waiting:
            return
        hunk_id = self.random.choice(waiting)
        page = await self._get(http, f"/hunk/{hunk_id}")
        tokens = self.world.plans[hunk_id]
        action = self.random.choices(("approve", "apply", "reject", "amend"), (6, 2, 2, 2))[0]
        form = re.search(
            rf'<form method="post" action="(/hunk/{hunk_id}/{action}[^"]*)">(.*?)</form>',
            page,
            re.S,
        )
        if form is None:
            return
        pairs = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', form[2])
        fields = {name: html.unescape(value) for name, value in pairs}
        amended: Token | None = None
        if action == "reject":
            fields |= {"reason": "not now", "verdict": "rejected"}
        elif action == "amend":
            text = re.search(r"<textarea[^>]*>\n?(.*?)</textarea>", form[2], re.S)
            if text is None or not TOKEN.search(text[1]):
                return
            amended = self.world.ledger.new(self.name.upper())
            fields["content"] = TOKEN.sub(amended.name, html.unescape(text[1]))
            tokens.append(amended)
        shown = [token for token in tokens if f"{token.name} " in page]
        if action in ("approve", "apply"):
            self.world.approved.add((fields["before"], fields["after"]))
        try:
            done = await self._send(http, html.unescape(form[1]), fields)
        except (httpx2.HTTPError, asyncio.CancelledError):  # the soak ends while it is on its way
            if action in ("apply", "amend"):
                self.world.settle([*shown, *([amended] if amended else [])], "unsure")
            raise
        self._note(action, done, shown, amended)

    async def _send(self, http: httpx2.AsyncClient, path: str, fields: Mapping[str, str]) -> str:
        begun = time.monotonic()
        response = await http.post(path, data=dict(fields), headers=self._headers())
        now = time.monotonic()
        code = "" if response.status_code == 303 else str(response.status_code)
        self.world.calls.append(Call(now, self.name, "form", now - begun, code))
        if code:
            return f"status {code}"
        return await self._get(http, response.headers["location"])

    def _note(self, action: str, page: str, shown: Sequence[Token], amended: Token | None) -> None:
        """Record what the page reports; if it reports nothing, the outcome is unsure."""
        written = re.search(r"is written, as edit ([0-9]+)", page)
        if action == "apply":
            if written is not None:
                self.decided["applied"] += 1
                for token in shown:
                    token.edit_id = int(written[1])
                self.world.settle(shown, "ok")
            elif not re.search(r"Nothing was (written|decided)", page):
                self.world.settle(shown, "unsure", "PAGE")
        elif action == "amend":
            assert amended is not None
            told = "This is the change with your text" in page
            self.world.settle([amended], "waiting" if told else "unsure")
            self.decided["amended"] += told
        elif re.search(r"is approved\.|is rejected\.", page):
            self.decided["approved" if action == "approve" else "rejected"] += 1


def _below(head: str, line: str) -> dict[str, str]:
    """An edit of a batch that puts the line below the heading."""
    return {"old_string": f"{head}\n", "new_string": f"{head}\n{line}\n"}


def _name_of(error: BaseException) -> str:
    """The error that ended a session; for a group, its first error."""
    while isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        error = group.exceptions[0]
    return f"{type(error).__name__}: {str(error)[:60]}" if str(error) else type(error).__name__
