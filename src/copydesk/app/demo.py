"""The guided runs: an agent and another writer at work on a copy of real text, and on notes.

Every step is checked. The first run talks to the real server over standard input and output,
through the official client. In the last one, agents work on a toy project, and a person decides.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Awaitable, Callable
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, cast

from copydesk.app import terminal
from copydesk.app.cli.init import SERVER, is_own, own_command
from copydesk.app.config import Config, MemberConfig
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.tools.report import Lang

_INSERTED = b"# Everything below works on whole paragraphs.\n\n"
_NEW = "A document of more than some twenty blocks is read in slices."
Call = Callable[..., Awaitable[dict[str, Any]]]


class TourFailed(Exception):
    """A step of the tour did not end as it should."""


def _check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise TourFailed(otherwise)


def demo(
    story: str, *, keep: bool, lang: Lang, port: int, show: Callable[[str], None] | None
) -> int:
    """Run all steps of a story in a new folder; return the exit status.

    `show` opens the first address of the review page, which is served at `port`.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"copydesk-demo-{story}-"))
    try:
        if story == "review":
            _review(folder, lang, port, show, keep=keep)
        elif story == "notes":
            _notes(folder, lang, keep=keep)
        else:
            _files(folder, lang, keep=keep)
    except TourFailed as failed:
        terminal.complain(f"the demo failed: {failed}")
        return 1
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


def _files(folder: Path, lang: Lang, *, keep: bool) -> None:
    library = Path(textwrap.__file__).parent  # real text: a part of Python's standard library
    shutil.copytree(library / "json", folder / "json", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("textwrap.py", "argparse.py"):
        shutil.copy(library / name, folder)
    asyncio.run(_story(folder, lang))
    _head("8. copydesk history")
    words = [sys.executable, "-m", "copydesk", "history", "--root", str(folder)]
    _say(*subprocess.check_output(words, stderr=subprocess.DEVNULL, text=True).split("\n"))
    copydesk, root = command(), folder if keep else "FOLDER"
    _farewell(
        folder if keep else None,
        "To start the server there:" if keep else "To start the server in a folder of your own:",
        f"  {copydesk} mcp --root {root}     for a client that starts it itself (stdio)",
        f"  {copydesk} serve --root {root}   over HTTP, at http://127.0.0.1:8427/mcp",
        "The second one also serves the review page, at http://127.0.0.1:8427/, where you see in",
        "a browser what waits, and approve, reject, edit, apply and undo; it prints the way in.",
    )


def command() -> str:
    """How to call this installation of `copydesk` from the current folder."""
    if is_own({"command": SERVER}):
        return SERVER
    command, *more = own_command()
    return " ".join([command.removeprefix(f"{Path.cwd()}{os.sep}"), *more])


async def _story(folder: Path, lang: Lang) -> None:
    from mcp import Client, StdioServerParameters

    words = ["-m", "copydesk", "mcp", "--structured", "--lang", lang, "--root", str(folder)]
    parameters = StdioServerParameters(command=sys.executable, args=words, env={**os.environ})
    _head("An MCP client starts `copydesk mcp` on a copy of Python's own library")
    async with Client(parameters) as client:
        tools = (await client.list_tools()).tools
        _say(f"{len(tools)} tools: {', '.join(tool.name for tool in tools)}")

        async def call(tool: str, *, expect: str = "ok", **arguments: Any) -> dict[str, Any]:
            result = await client.call_tool(tool, arguments)
            data: dict[str, Any] = dict(result.structured_content or {})
            outcome = data.get("error", data.get("status"))
            _check(outcome == expect, f"{tool}: {expect} expected, got {json.dumps(data)[:600]}")
            return {**data, "_text": "".join(getattr(part, "text", "") for part in result.content)}

        await _look(call)
        await _five_kinds(call, folder)
        await _drift(call, folder)
        await _at_once(call, folder)
        await _undo(call, folder)


async def _look(call: Call) -> None:
    _head("1. Look: read_file and ripgrep_snippets")
    read = await call("read_file", path="textwrap.py", range="1~12")
    _say(f"textwrap.py has {read['total_lines']} lines; this is version {read['version']}.")
    _quote(_block(read, "text"))
    matches = await call("ripgrep_snippets", pattern=r"^def \w+", path="textwrap.py")
    _say(*(f"line {row['line']}: {row['match']}" for row in matches["results"]))


async def _five_kinds(call: Call, folder: Path) -> None:
    _head("2. Prepare all five kinds of edits: nothing is written, each shows its diff")
    before = (folder / "textwrap.py").read_bytes()
    plans = [
        await call(
            "prepare_file_range_edit",
            path="textwrap.py",
            range="1~2",
            content='"""Text wrapping and filling, edited at the copy desk.\n"""\n',
        ),
        await call(
            "prepare_file_insert_after",
            path="textwrap.py",
            anchor="import re",
            match="equals",
            content="import sys\n",
        ),
        await call(
            "prepare_file_insert_before",
            path="textwrap.py",
            anchor="def dedent(text):",
            content=_INSERTED.decode(),
        ),
        await call(
            "prepare_file_block_replace",
            path="textwrap.py",
            start_anchor="def shorten(text, width, **kwargs):",
            end_anchor="w = TextWrapper(width=width, max_lines=1, **kwargs)",
            content='    """Collapse and truncate the text to fit in the width."""\n',
        ),
        await call(
            "prepare_file_append", path="textwrap.py", content="# The end, said the copy desk.\n"
        ),
    ]
    _say(*(f"{plan['hunk_id']}  {plan['summary']}" for plan in plans))
    _quote(_block(plans[3], "diff"))
    _check((folder / "textwrap.py").read_bytes() == before, "a preparation wrote to the file")
    _head("3. Apply them in another order: each goes to its own place")
    for plan in (plans[4], plans[2], plans[0], plans[3], plans[1]):
        done = await call("apply_file_modification", hunk_id=plan["hunk_id"])
        _say(f"{plan['hunk_id']}  context_match: {done['context_match']:5}  {done['summary']}")
    _check_compiles(folder)
    again = await call(
        "apply_file_modification", expect="HUNK_NOT_FOUND", hunk_id=plans[0]["hunk_id"]
    )
    _say(f"A plan is applied once: {again['error']} ({again['reason']}).")


async def _drift(call: Call, folder: Path) -> None:
    target = folder / "json" / "decoder.py"
    _head("4. Drift: another writer inserts lines above; the plan is carried to its place")
    plan = await call(
        "prepare_file_insert_after",
        path="json/decoder.py",
        anchor="class JSONDecodeError(ValueError):",
        content="    # Raised for text that is not JSON.\n",
    )
    target.write_bytes(b"# Another writer was here.\n# Twice.\n" + target.read_bytes())
    done = await call("apply_file_modification", hunk_id=plan["hunk_id"])
    _check(done["context_match"] == "fuzz", "the drifted plan was not carried")
    _say(f"planned at line {plan['inserted_at_line']}, written at line {done['inserted_at_line']}")
    _quote(_block(done, "diff"))
    _head("5. Collision: another writer changes the very line; the plan is refused")
    plan = await call(
        "prepare_file_block_replace",
        path="json/decoder.py",
        start_anchor="class JSONDecodeError(ValueError):",
        end_anchor="Subclass of ValueError",
        include_anchors=False,
        content='class JSONDecodeError(ValueError):\n    """Not JSON.\n',
    )
    text = target.read_bytes()
    target.write_bytes(text.replace(b"Subclass of ValueError", b"A kind of ValueError"))
    refused = await call(
        "apply_file_modification", expect="CONTENT_CHANGED", hunk_id=plan["hunk_id"]
    )
    _say(f"{refused['error']}: {refused['summary']}")
    _check(b"Not JSON" not in target.read_bytes(), "a refused plan was written")


async def _at_once(call: Call, folder: Path) -> None:
    _head('6. One call: apply "auto" writes when the edit is certain')
    read = await call("read_file", path="argparse.py", range="1~3")
    done = await call(
        "prepare_file_range_edit",
        path="argparse.py",
        range="1",
        content="# Author: Steven J. Bethard, with a copy desk.",
        version=read["version"],
        apply="auto",
        report="brief",
    )
    _say(f"{done['summary']} (a result of {len(done['_text'])} characters)")
    unsure = await call(
        "prepare_file_range_edit",
        path="argparse.py",
        range="2",
        content="# unseen\n",
        apply="auto",
        report="brief",
    )
    _say(f"Without a version: auto_apply {unsure['auto_apply']} ({unsure['auto_apply_reason']}).")


async def _undo(call: Call, folder: Path) -> None:
    _head("7. Undo: one edit is taken back, the later ones of other lines stay")
    listed = await call("list_edits", path="textwrap.py")
    _say(f"list_edits: {listed['summary']}")
    inserted = listed["edits"][3]
    text = (folder / "textwrap.py").read_bytes()
    back = await call("undo_file_modification", edit_id=inserted["edit_id"])
    _say(back["summary"])
    _quote(_block(back, "diff"))
    _check(
        (folder / "textwrap.py").read_bytes() == text.replace(_INSERTED, b""),
        "the undo did not take back its own lines alone",
    )
    _check_compiles(folder)
    await call("undo_file_modification", edit_id=back["edit_id"])
    _check((folder / "textwrap.py").read_bytes() == text, "the undo was not taken back")
    _say("An undo is an edit too: taken back, the very bytes are there again.")
    first = (await call("list_edits", path="argparse.py"))["edits"][0]
    target = folder / "argparse.py"
    target.write_bytes(target.read_bytes().replace(b"a copy desk", b"two copy desks"))
    refused = await call(
        "undo_file_modification", expect="CONTENT_CHANGED", edit_id=first["edit_id"]
    )
    _say(f"{refused['error']}: {refused['summary']}")


def _check_compiles(folder: Path) -> None:
    compile((folder / "textwrap.py").read_text("utf-8"), "textwrap.py", "exec")
    _say("The file still compiles.")


def _farewell(folder: Path | None, *steps: str) -> None:
    _head("Done: every step ended as it must")
    _say(*([] if folder is None else [f"The workspace of this run: {folder}"]), *steps)


def _notes(folder: Path, lang: Lang, *, keep: bool) -> None:
    with as_file(files("copydesk.app") / "manuals") as manuals:
        for toolset in ("notes", "ws_mod"):
            shutil.copytree(manuals / toolset / "en", folder / toolset)
    with open_workspace(str(folder), Config(member="demo", lang=lang)) as opened:
        _notes_story(opened, folder)
    _farewell(
        folder if keep else None,
        "In a folder of your own: copydesk notes ls, and the toolset notes for your agent:",
        f"  {command()} mcp --root FOLDER --toolsets notes",
    )


def _notes_story(opened: OpenWorkspace, folder: Path) -> None:
    def call(tool: str, *, expect: str = "success", **arguments: Any) -> dict[str, Any]:
        answer = opened.call("demo", tool, arguments, lang=opened.config.lang)
        data = dict(answer.data)
        outcome = data.get("error", data.get("status"))
        _check(outcome == expect, f"{tool}: {expect} expected, got {answer.text[:600]}")
        return {**data, "_text": answer.text, "_diff": answer.diff}

    before = _all_bytes(folder)
    _head("1. A folder of Markdown files is a notebook: the manuals of copydesk")
    _quote(call("listNotebooks")["_text"])
    _check(_all_bytes(folder) == before, "looking changed a file")
    _say("No file was changed; ids are kept beside them.")

    _head("2. Find a document, and read a page of it with ids")
    hits = call("searchBlocks", query="long documents page", limit=1)["blocks"]
    document = cast(str, hits[0]["root_id"])
    page = call("getBlockContent", blockId=document, slice="0:3")
    _quote(page["_text"])
    _, (block_id, text), *_ = _headers(page["content"])

    _head("3. A diff for two blocks, shown first: nothing is written")
    diff = (
        f"@@{block_id}@@\n<<<<<<< SEARCH\n{text}\n=======\n{_NEW}\n>>>>>>> REPLACE\n\n"
        f"@@AFTER:{block_id}@@\n- one page after the other\n- each block under its id\n"
    )
    _quote(diff)
    _quote(call("applyBlockDiff", diff=diff, dryRun=True)["_diff"])
    _check(_all_bytes(folder) == before, "the dry run wrote to a file")

    _head("4. What does not fit is refused as a whole, and all of it is told")
    wrong = diff.replace(text.split(" ")[1], "another", 1) + "\n@@DELETE:20200101000000-nowhere@@\n"
    _quote(call("applyBlockDiff", expect="BLOCK_DIFF_REFUSED", diff=wrong)["_text"])

    _head("5. Applied: these lines change, and no other byte")
    done = call("applyBlockDiff", diff=diff)
    after = _all_bytes(folder)
    changed = [name for name in before if before[name] != after[name]]
    _check(changed == done["paths"], f"other files changed: {changed}")
    _say(*(row["operation"] for row in done["results"]))

    _head("6. Taken back: the very bytes are there again, and the ids")
    call("undo_file_modification", expect="ok", edit_id=done["edit_ids"][0])
    _check(_all_bytes(folder) == before, "the undo did not bring the bytes back")
    again = call("getBlockContent", blockId=document, slice="0:3")
    _check(again["content"] == page["content"], "the ids are others")
    _say("Every file is what it was.")


_TOY = {
    "shop.py": '''"""A small shop."""

PRICES = {"apple": 30, "pear": 45}


def price(name, count):
    return PRICES[name] * count


def total(basket):
    sum = 0
    for name, count in basket.items():
        sum = sum + price(name, count)
    return sum
''',
    "receipt.py": '''"""What the customer gets."""

from shop import price, total


def receipt(basket):
    lines = [f"{count} {name}: {price(name, count)}" for name, count in basket.items()]
    lines.append("total: %d" % total(basket))
    return "\\n".join(lines)
''',
    "README.md": "# Shop\n\nA small shop. Run the tests with pytest.\n",
}
"""The files of the toy project."""

_WORK = {
    "ann": (
        "plainer sums",
        (
            ("shop.py", "    sum = 0\n", "    cents = 0\n", "sum is a built-in function"),
            (
                "shop.py",
                "        sum = sum + price(name, count)\n    return sum\n",
                "        cents += price(name, count)\n    return cents\n",
                "goes with the new name",
            ),
        ),
    ),
    "ben": (
        "prices with a currency",
        (
            (
                "receipt.py",
                '"total: %d" % total(basket)',
                'f"total: {total(basket) / 100:.2f} EUR"',
                "the total is in cents",
            ),
            (
                "shop.py",
                "def price(name, count):\n",
                'def price(name, count):\n    """The price in cents."""\n',
                "say the unit",
            ),
        ),
    ),
    "eva": (
        "a longer README",
        (
            (
                "README.md",
                "A small shop.",
                "A shop: `shop.py`, `receipt.py`.",
                "what is here",
            ),
            ("README.md", "Run the tests with pytest.", "`pytest` runs the tests.", "shorter"),
        ),
    ),
}
"""The task of each agent, and its edits: path, old and new text, why."""

_PACE_SECONDS = 1.5


def _review(
    folder: Path, lang: Lang, port: int, show: Callable[[str], None] | None, *, keep: bool
) -> None:
    """Serve the review page of a toy project at which three agents work.

    A person approves what ann and ben write; eva's edits are written at once, and can be kept or
    undone.
    """
    from copydesk.app.mcp.http import run_http

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the folder is removed then too
    for name, text in _TOY.items():
        (folder / name).write_text(text, "utf-8")
    asks, ended = MemberConfig(approval="human"), threading.Event()
    shown: list[str] = []

    def on_address(address: str) -> None:
        if not shown:
            if show is not None:
                show(address)
            for agent in agents:  # where to decide is said before there is what to decide
                agent.start()
        shown.append(address)

    config = Config(lang=lang, members={"ann": asks, "ben": asks, "eva": MemberConfig()})
    (folder / "copydesk.toml").write_text(
        '[members.ann]\napproval = "human"\n[members.ben]\napproval = "human"\n', "utf-8"
    )
    with open_workspace(str(folder), config) as opened:
        _head("Three agents are at work on a toy project; you decide what they write")
        _say(
            "Open the review page below. Pending: what ann and ben want to write. Changes:",
            f"what eva wrote, to keep or undo. In a terminal: {command()} review --root {folder}",
            "Ctrl-C ends it" + (f", and keeps {folder}." if keep else "."),
        )
        agents = [
            threading.Thread(target=_work, args=(opened, name, ended), daemon=True)
            for name in _WORK
        ]
        try:
            run_http(opened, "127.0.0.1", port, on_address)
        finally:
            ended.set()
            for agent in agents if shown else ():
                agent.join()


def _work(opened: OpenWorkspace, name: str, ended: threading.Event) -> None:
    """Plan the edits of an agent, and say what becomes of each."""
    task, edits = _WORK[name]
    waiting: list[str] = []
    for path, old, new, why in edits:
        if ended.wait(_PACE_SECONDS):
            return
        given = {"path": path, "old": old, "new": new, "why": why}
        answer = opened.call(name, "replace_text", given, task=task)
        if answer.fields.get("auto_apply") == "declined":
            waiting.append(str(answer.fields["hunk_id"]))
        else:
            _say(f"{name}: {answer.fields['summary']}")
    while waiting and not ended.wait(_PACE_SECONDS):
        for hunk_id in (*waiting,):
            answer = opened.call(name, "apply_file_modification", {"hunk_id": hunk_id}, task=task)
            if answer.fields.get("status") != "pending":
                waiting.remove(hunk_id)
                _say(f"{name}: {answer.fields['summary']}")
                sys.stdout.flush()


def _headers(content: str) -> list[tuple[str, str]]:
    pairs = (part.split("@@", 1) for part in content.split("\n@@")[1:])
    return [(block_id, rest.partition("\n")[2].strip("\n")) for block_id, rest in pairs]


def _all_bytes(folder: Path) -> dict[str, bytes]:
    paths = sorted(folder.rglob("*.md"))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def _block(data: dict[str, Any], language: str) -> str:
    body: str = data["_text"].split(f"```{language}\n", 1)[1]
    return body.split("\n```", 1)[0]


def _head(text: str) -> None:
    print(f"\n{terminal.strong(text, terminal.colours(sys.stdout))}")


def _say(*lines: str) -> None:
    text = "".join(f"  {terminal.safe(line)}\n" for line in lines)
    sys.stdout.write(text)  # at once: `print` writes the end of a line by itself, and agents mix


def _quote(text: str) -> None:
    coloured = terminal.diff(text.rstrip("\n"), terminal.colours(sys.stdout))
    print("\n".join(f"    {line}" for line in coloured.split("\n")), flush=True)
