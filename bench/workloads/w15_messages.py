"""W15: messages that models really wrote, as SEARCH/REPLACE blocks, beside two other rules.

The data set is not part of the project: COPYDESK_REAL names its folder. Each message is one call;
what is compared is all files afterwards, with those that were committed at the time.
"""

from __future__ import annotations

import json
import lzma
import os
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bench import PROJECT
from bench.arena import Cell
from bench.results import Bar, Section, Table
from bench.setting import Setting
from copydesk.app.config import Config
from copydesk.app.workspace import OpenWorkspace, open_workspace

SELF, AIDER, PLAIN = "copydesk", "aider's rules", "a plain Edit, block by block"
ASKED = 0.94
"""The share of messages that are right in one call."""

FIRST = 300
"""Characters of a refusal in which the place is to be seen."""

Case = dict[str, Any]
Texts = dict[str, str]
Block = Mapping[str, str]


def data_set(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The file of messages, in the folder that COPYDESK_REAL names; None where it is not."""
    found = PROJECT / environ.get("COPYDESK_REAL", "../shared/real") / "messages.jsonl.xz"
    return found if found.exists() else None


def run(bench: Setting) -> Section:
    """Every message by every rule."""
    section = Section("W15", "Messages that models really wrote")
    path = data_set()
    if path is None:
        section.notes.append(
            "Not measured: COPYDESK_REAL names no folder with the file messages.jsonl.xz."
        )
        return section
    tallies: dict[str, Counter[str]] = {name: Counter() for name in (SELF, AIDER, PLAIN)}
    cells = {name: Cell(name, "copydesk" if name == SELF else "peer") for name in tallies}
    for case in cases(path):
        ways: dict[str, Callable[[], Texts]] = {
            SELF: lambda case=case: by_desk(case, bench.home, tallies[SELF]),
            AIDER: lambda case=case: by_rules(case, tallies[AIDER], placed_as_aider),
            PLAIN: lambda case=case: by_rules(case, tallies[PLAIN], placed_once),
        }
        for name, way in ways.items():
            began = time.perf_counter()
            after = way()
            cells[name].seconds.append(time.perf_counter() - began)
            tallies[name][verdict(case, after)] += 1
    columns = ("one call", "two calls", "refused", "half written", "WRONG", "tokens")
    extra = {
        column: {name: f"{tally[column]:,}" for name, tally in tallies.items()}
        for column in columns
    }
    own = tallies[SELF]
    count = sum(own[one] for one in columns[:-1])
    section.notes.append(
        f"{count} messages; tokens are four characters each, of what the model sends and reads. "
        "The other rules are models of them: aider's from its own description, an Edit that takes "
        "text that is there once. The set holds only messages that aider itself took, so that its "
        "rules can hardly be wrong here; what the model of them lacks is refused."
    )
    section.tables.append(Table("messages", list(cells.values()), None, extra, memory=False))
    section.bars = [
        Bar("none wrong", f"{own['WRONG']} wrong", not own["WRONG"]),
        Bar("none half written", f"{own['half written']}", not own["half written"]),
        Bar(
            f"{ASKED:.0%} right in one call",
            f"{own['one call']} of {count}",
            own["one call"] >= ASKED * count,
        ),
    ]
    if own["refusals"]:
        seen = own["place seen"] / own["refusals"]
        said = f"a refusal shows a place in its first {FIRST} characters"
        section.bars.append(Bar(said, f"{seen:.0%} of {own['refusals']}", seen >= 0.8))
    return section


def cases(path: Path) -> Iterator[Case]:
    """The messages that were taken at once."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            case = json.loads(line)
            if len(case["turns"]) == 1 and not case["turns"][0]["failed"]:
                yield case


def text_of(text: str) -> str:
    """A text of the data set, which holds bytes."""
    return text.encode("latin-1").decode("utf-8", "replace")


def message(case: Case) -> str:
    """The blocks as the model wrote them."""
    form = "{path}\n<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE\n"
    return "\n".join(
        form.format(**{key: text_of(one[key]) for key in ("path", "search", "replace")})
        for one in case["turns"][0]["blocks"]
    )


def level(text: str) -> list[str]:
    """The lines that are not blank."""
    return [line for line in text.replace("\r\n", "\n").split("\n") if line.strip()]


def verdict(case: Case, after: Texts) -> str:
    """How a message ended; the number of calls is in the texts."""
    before, wanted = case["before"], {**case["before"], **case["after"]}
    names = [name for name in wanted if level(after.get(name, "")) != level(wanted[name])]
    if not names:
        return after.get("\0", "one call")
    changed = [name for name in wanted if after.get(name, "") != before.get(name, "")]
    if not changed:
        return "refused"
    return "half written" if "\0refused" in after else "WRONG"


def by_desk(case: Case, home: Path, tally: Counter[str]) -> Texts:
    """The files after one call, or two where the first one left plans."""
    with tempfile.TemporaryDirectory(dir=home) as top:
        for name, text in case["before"].items():
            file = Path(top, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text.encode("latin-1"))
        config = Config(durability="fast", apply="auto", toolsets=("patch",))
        with open_workspace(top, config) as desk:
            calls = _calls(desk, message(case), tally)
        names = {*case["before"], *case["after"]}
        files = {name: Path(top, name) for name in names}
        found = {
            name: file.read_bytes().decode("latin-1")
            for name, file in files.items()
            if file.is_file()
        }
        return {**found, "\0": calls}


def _calls(desk: OpenWorkspace, text: str, tally: Counter[str]) -> str:
    answer = desk.call("local", "apply_blocks", {"text": text, "apply": "auto"})
    facts = dict(answer.data)
    tally["tokens"] += (len(text) + len(answer.text)) // 4
    near = [one.get("nearest_lines") for one in facts.get("rejected", [])]
    tally["refusals"] += bool(near)
    tally["place seen"] += any(one and str(one) in answer.text[:FIRST] for one in near)
    ids = [one["hunk_id"] for one in facts.get("hunks", []) if one.get("hunk_id")]
    if answer.is_error or facts.get("changed") or not ids:
        return "one call"
    told = desk.call("local", "apply_file_modifications", {"hunk_ids": ids})
    tally["tokens"] += (len(str(ids)) + len(told.text)) // 4
    return "two calls"


Placed = Callable[[str, str, str], "str | None"]
"""(text, search, replace) -> the text afterwards; None: sent back."""


def by_rules(case: Case, tally: Counter[str], placed: Placed) -> Texts:
    """The files after the blocks that a rule takes, one after the other."""
    texts: Texts = dict(case["before"])
    tally["tokens"] += len(message(case)) // 4
    for block in case["turns"][0]["blocks"]:
        made = placed(texts.get(block["path"], ""), block["search"], block["replace"])
        if made is None:
            texts["\0refused"] = "yes"
        else:
            texts[block["path"]] = made
    return texts


def placed_once(text: str, search: str, replace: str) -> str | None:
    """An Edit: text that is there once; without one a new file."""
    if not search.strip():
        return None if text else replace
    return text.replace(search, replace) if text.count(search) == 1 else None


def placed_as_aider(text: str, search: str, replace: str) -> str | None:
    """The first place of the lines, or of lines that are indented more by one amount."""
    if not search.strip():
        return text + replace
    if search in text:
        return text.replace(search, replace, 1)
    old, new, lines = (one.splitlines(keepends=True) for one in (search, replace, text))
    bare = [line.lstrip() for line in old]
    for at in range(len(lines) - len(old) + 1):
        there = lines[at : at + len(old)]
        if [line.lstrip() for line in there] != bare:
            continue
        added = {
            re.match(r"[ \t]*", line)[0].removesuffix(re.match(r"[ \t]*", own)[0])  # type: ignore[index]  # it matches always
            for line, own in zip(there, old, strict=True)
            if own.strip()
        }
        if len(added) == 1:
            more = added.pop()
            made = [more + line if line.strip() else line for line in new]
            return "".join((*lines[:at], *made, *lines[at + len(old) :]))
    return None
