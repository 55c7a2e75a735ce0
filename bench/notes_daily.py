"""What an agent does with notes each day, in calls and tokens: `python -m bench.notes_daily`.

Eleven tasks in a small vault: find by words and by name, read a slice, change a row of a table,
tick a task and one inside of another, move a section, rename a heading that another note links to,
two entries in the daily note, a document of three sections, an edit of two documents and back.
None may be refused; all together must stay below MOST_CALLS and MOST_TOKENS (`cl100k_base`, of
the arguments and the text of the answers). The tests play them on both stores.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from copydesk.app.config import Config
from copydesk.app.workspace import open_workspace

MOST_CALLS, MOST_TOKENS = 18, 3_500

SHOP = """# Shop

Open since 2019, in the old mill at the end of the street.

## Opening hours

Monday to Friday, nine to six. On Saturdays until one.

## Stock

| item | shelf | count |
| --- | --- | --- |
| lamps | A1 | 4 |
| bulbs | A2 | 120 |
| wire | B1 | 30 |

## Tasks

- [ ] order lamps
- [ ] repair the door
  - [ ] buy hinges
  - [ ] call Ann
- [x] pay the rent

## Ideas

A shelf for used lamps.

"""
VISITORS = "\n\n".join(
    f"Day {day}: {day * 7 % 23} visitors, {day * 5 % 11} sales." for day in range(1, 41)
)
NOTES = {
    "Shop": SHOP.strip(),
    "Visitors": VISITORS,
    "Street": "The mill is open: see [[Shop#Opening hours]].\n\nThe bakery is closed.",
    **{f"Supplier {number}": f"Terms of supplier {number}." for number in range(1, 31)},
}
"""The notes, by their titles."""

Answering = Callable[[str, dict[str, Any]], Any]
"""Calls a tool with arguments; returns an answer with `text`, `data` and `is_error`."""


@dataclass
class Task:
    """A task, and the calls that it took: tool, arguments, text of the answer."""

    name: str
    calls: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])


class Refused(Exception):
    """A call was refused."""


class Day:
    """One day of an agent, which reads ids in the texts of answers as a model does."""

    def __init__(self, answering: Answering, box: str, *, has_links: bool = True) -> None:
        """`has_links`: links between notes are texts, which change with what they lead to."""
        self._answering, self._box, self._has_links = answering, box, has_links
        self.tasks: list[Task] = []

    def play(self) -> list[Task]:
        """Do all tasks."""
        self._begin("find by words")
        lamps = self._id(self._ask("searchBlocks", query="order lamps"), "- [ ] order lamps")
        self._begin("find by name")
        listed = self._ask("listNotebooks", name="Visitors")
        visitors = self._id(listed, "/Visitors")
        self._begin("slice")
        page = self._ask("getBlockContent", blockId=visitors, slice=":+5")
        day = self._shown(page, "Day 2: 14 visitors, 10 sales.")
        self._begin("row of a table")
        table = self._id(self._ask("searchBlocks", query="bulbs A2"), "lamps")
        shown = self._ask("getBlockContent", blockId=table)
        row = next(line for line in shown.split("\n") if "bulbs" in line)
        self._edit(table, shown, shown.replace(row, row.replace("120", "96")))
        self._begin("tick")
        self._edit(lamps, "- [ ] order lamps", "- [x] order lamps")
        self._begin("nested tick")
        hinges = self._id(self._ask("searchBlocks", query="hinges"), "- [ ] buy hinges")
        self._edit(hinges, "- [ ] buy hinges", "- [x] buy hinges")
        self._begin("move a section")
        found = self._ask("listNotebooks", name="Shop")
        sheet = self._ask("getBlockInfo", ids=self._id(found, "/Shop"))
        heads = {name: self._headed(sheet, name) for name in ("Opening hours", "Tasks", "Stock")}
        self._diff(f"@@MOVE:{heads['Tasks']}@@\n@@BEFORE:{heads['Stock']}@@")
        self._begin("rename a linked heading")
        renamed = self._hunk(heads["Opening hours"], "## Opening hours", "## When we are open")
        self._diff(renamed, **({"updateLinks": True} if self._has_links else {}))
        self._begin("two daily entries")
        for entry in ("- Ann called", "- the lamps came"):
            self._ask("appendContent", markdown=entry, targetType="dailynote", target=self._box)
        self._begin("three-section document")
        sections = "\n\n".join(f"## {name}\n\nTo do." for name in ("Aim", "Plan", "Cost"))
        self._ask(
            "createNewDoc",
            title="Fair",
            markdown=sections,
            anchorDocumentId=visitors,
            location="siblings",
        )
        self._begin("two documents and back")
        both = self._hunk(day, "Day 2: 14 visitors, 10 sales.", "Day 2: closed.")
        done = self._diff(f"{both}\n@@AFTER:{heads['Stock']}@@\nCounted on day 2.")
        undo = re.search(r"undo_file_modification\((\{.*?\})\)", done)
        assert undo is not None, done
        self._ask("undo_file_modification", **json.loads(undo[1]))
        return self.tasks

    def _begin(self, name: str) -> None:
        self.tasks.append(Task(name))

    def _ask(self, tool: str, **arguments: Any) -> str:
        answer = self._answering(tool, arguments)
        if answer.is_error:
            raise Refused(f"{self.tasks[-1].name}: {answer.text}")
        said = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
        self.tasks[-1].calls.append((tool, said, str(answer.text)))
        return str(answer.text)

    def _diff(self, diff: str, **more: Any) -> str:
        return self._ask("applyBlockDiff", diff=diff, **more)

    def _edit(self, block_id: str, search: str, text: str) -> str:
        return self._diff(self._hunk(block_id, search, text))

    @staticmethod
    def _hunk(block_id: str, search: str, text: str) -> str:
        return f"@@{block_id}@@\n<<<<<<< SEARCH\n{search}\n=======\n{text}\n>>>>>>> REPLACE"

    @staticmethod
    def _id(text: str, words: str) -> str:
        """The id in the line with these words."""
        line = next(line for line in text.split("\n") if words in line and "][" in line)
        return line.partition("[")[2].partition("]")[0]

    @staticmethod
    def _headed(text: str, words: str) -> str:
        """The id behind a heading of an outline."""
        return next(
            line.partition(f"- {words}[")[2][:-1]
            for line in text.split("\n")
            if f"- {words}[" in line
        )

    @staticmethod
    def _shown(text: str, words: str) -> str:
        """The id in the header above a text."""
        lines = text.split("\n")
        return lines[lines.index(words) - 1].split("@@")[1]


def count_tokens(text: str) -> int:
    """The tokens of a text."""
    from bpe_openai import get_encoding  # type: ignore[import-untyped]

    return len(get_encoding("cl100k_base").encode(text))


def told(tasks: list[Task], tokens: Callable[[str], int]) -> str:
    """A table of the tasks: calls, tokens of arguments, tokens of answers."""
    rows: list[tuple[str, int, int, int]] = []
    for task in tasks:
        given = sum(tokens(name) + tokens(arguments) for name, arguments, _ in task.calls)
        rows.append((task.name, len(task.calls), given, sum(tokens(one[2]) for one in task.calls)))
    whole = ("all", *(sum(column) for column in zip(*(row[1:] for row in rows), strict=True)))
    lines = [f"{'task':26} {'calls':>5} {'given':>6} {'answered':>8}"]
    lines += [
        f"{name:26} {calls:5} {given:6} {answered:8}"
        for name, calls, given, answered in [*rows, whole]
    ]
    return "\n".join(
        [
            *lines,
            f"{whole[1]} calls (at most {MOST_CALLS}), "
            f"{whole[2] + whole[3]:,} tokens (at most {MOST_TOKENS:,})",
        ]
    )


def write_notes(root: Path) -> None:
    """Write the vault."""
    for title, text in NOTES.items():
        (root / f"{title}.md").write_text(f"{text}\n", "utf-8")


def main() -> int:
    """Play a day in a folder and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", action="store_true", help="print all calls too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_notes(Path(folder))
        with open_workspace(folder, Config(), shared=False) as opened:

            def answering(tool: str, arguments: Mapping[str, Any]) -> Any:
                return opened.call("local", tool, dict(arguments))

            found = answering("listNotebooks", {"documents": 0})
            box = found.data["notebooks"][0]["id"]
            tasks = Day(answering, box).play()
    if options.answers:
        for task in tasks:
            for name, arguments, answer in task.calls:
                print(f"--- {task.name}: {name} {arguments}\n{answer}\n")
    print(told(tasks, count_tokens))
    return 0


if __name__ == "__main__":
    sys.exit(main())
