"""The agents' tasks: files, their right results, and the steps, the same for every agent.

Where a text has to be long, it is a module of Python's library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from sysconfig import get_path

from bench.agents import Agent, Change

Play = Callable[[Agent], None]


@dataclass(frozen=True)
class Task:
    """Files before and after, and what an agent does in between."""

    name: str
    files: Mapping[str, str]
    play: Play
    after: Mapping[str, str]
    newline: str = "\n"


def library(name: str) -> str:
    """The text of a module of Python's library, which stands for a file of the project."""
    return (Path(get_path("stdlib")) / f"{name}.py").read_text(encoding="utf-8")


def swap(old: str, new: str) -> Change:
    """Replace a text that is there once."""

    def change(text: str) -> str:
        assert text.count(old) == 1, f"{text.count(old)} times: {old}"
        return text.replace(old, new)

    return change


def both(*changes: Change) -> Change:
    """One after the other."""

    def change(text: str) -> str:
        for one in changes:
            text = one(text)
        return text

    return change


def ended(text: str) -> Change:
    """Put lines at the end."""
    return lambda before: before + text


def write_bytes(path: Path, text: str, newline: str = "\n") -> None:
    """Write a file, its folder too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.replace("\n", newline).encode())


def found(
    name: str,
    path: str,
    text: str,
    pattern: str,
    change: Change,
    around: tuple[int, int] = (3, 3),
    newline: str = "\n",
) -> Task:
    """Find a pattern in a file, and change what is there."""

    def play(agent: Agent) -> None:
        agent.find(pattern, path, *around)
        assert agent.change(path, change)

    return Task(name, {path: text}, play, {path: change(text)}, newline)


def renamed(
    name: str, files: Mapping[str, str], where: str, old: str, new: str, *others: str
) -> Task:
    """A name in all files below `where`; `others` do not have it."""

    def play(agent: Agent) -> None:
        agent.find(rf"\b{old}\b", where)
        agent.rename(old, new, where)

    after = {path: text.replace(old, new) for path, text in files.items() if path not in others}
    return Task(name, files, play, after)


def drifting(
    name: str, path: str, text: str, pattern: str, change: Change, theirs: Change, mine: Change
) -> Task:
    """Another writer changes the file after it was looked at; then `mine` is right."""

    def play(agent: Agent) -> None:
        agent.find(pattern, path, 3, 3)
        write_bytes(agent.root / path, theirs(text))
        if not agent.change(path, change):
            assert agent.change(path, mine)

    return Task(name, {path: text}, play, {path: mine(theirs(text))})


def all_or_none(
    name: str,
    files: Mapping[str, str],
    pattern: str,
    where: str,
    changes: Mapping[str, Change],
    new: Mapping[str, str],
) -> Task:
    """New files, and changes of others."""

    def play(agent: Agent) -> None:
        agent.find(pattern, where, 2, 2)
        agent.change_all(changes, new)

    after = {path: changes[path](text) if path in changes else text for path, text in files.items()}
    return Task(name, files, play, {**after, **new})


def generated() -> Task:
    """A new file of about forty lines."""
    rows = "".join(f"    {s.value}: {s.phrase!r},\n" for s in HTTPStatus if s < 430)
    head = '"""Phrases of HTTP, made by tools/statuses.py; do not edit."""'
    text = f"{head}\n\nPHRASES = {{\n{rows}}}\n"
    path = "src/net/statuses.py"
    return Task("generated file", {}, lambda agent: agent.write(path, text), {path: text})


def moved(name: str, source: str, text: str, function: str, target: str, other: str) -> Task:
    """A function goes to the end of another file."""
    start = text.index(f"def {function}(")
    stop = text.find("\n\n\n", start)
    stop = len(text) if stop < 0 else stop + 3
    body = text[start:stop].strip("\n") + "\n"
    count = text[start:stop].count("\n")

    def play(agent: Agent) -> None:
        agent.find(rf"^def {function}\(", source, 3, count + 2)
        agent.move_end(source, swap(text[start:stop], ""), target, f"\n\n{body}")

    after = {source: text.replace(text[start:stop], ""), target: f"{other}\n\n{body}"}
    return Task(name, {source: text, target: other}, play, after)


def undone(
    name: str, path: str, text: str, pattern: str, first: Change, back: Change, later: Change
) -> Task:
    """The agent undoes its earlier edits; only that is counted."""

    def play(agent: Agent) -> None:
        agent.find(pattern, path, 3, 3)
        assert agent.change(path, first)
        assert agent.change(path, later)
        agent.calls.clear()
        agent.undo(path, back)

    return Task(name, {path: text}, play, {path: later(text)})


MONEY = """\
const SYMBOLS = { EUR: '€', USD: '$', GBP: '£' };

/** Formats an amount in cents for people. */
export function formatPrice(cents, currency = 'EUR') {
  const symbol = SYMBOLS[currency] ?? currency;
  return `${symbol} ${(cents / 100).toFixed(2)}`;
}

export function sum(lines) {
  return lines.reduce((total, line) => total + line.cents * line.count, 0);
}
"""
CART = """\
import { formatPrice, sum } from './money.js';

export class Cart {
  #lines = new Map();

  add(article, count = 1) {
    const line = this.#lines.get(article.id) ?? { ...article, count: 0 };
    line.count += count;
    this.#lines.set(article.id, line);
  }

  get total() {
    return formatPrice(sum([...this.#lines.values()]), this.currency);
  }

  rows() {
    return [...this.#lines.values()].map((line) => ({
      title: line.title,
      count: line.count,
      price: formatPrice(line.cents * line.count, this.currency),
    }));
  }
}
"""
RECEIPT = """\
import { formatPrice } from './money.js';

export function receipt(order) {
  const rows = order.lines.map((line) => `${line.count} x ${line.title}`);
  return [...rows, `Total: ${formatPrice(order.cents, order.currency)}`].join('\\n');
}
"""
MONEY_TEST = """\
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatPrice, sum } from '../src/money.js';

test('an amount has two digits after the point', () => {
  assert.equal(formatPrice(1990), '€ 19.90');
  assert.equal(formatPrice(5, 'USD'), '$ 0.05');
});

test('an empty cart costs nothing', () => {
  assert.equal(sum([]), 0);
});
"""
ORDERS_TEST = """\
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Cart } from '../src/cart.js';

test('a cart counts', () => {
  const cart = new Cart();
  cart.add({ id: 1, title: 'Pen', cents: 150 });
  cart.add({ id: 1, title: 'Pen', cents: 150 });
  assert.equal(cart.rows()[0].count, 2);
});
"""
SHOP = {
    "web/src/cart.js": CART,
    "web/src/money.js": MONEY,
    "web/src/receipt.js": RECEIPT,
    "web/test/money.test.js": MONEY_TEST,
    "web/test/orders.test.js": ORDERS_TEST,
}
CLEAR = """
    def clear(self):
        '''Remove all items that are in the queue.'''
        with self.mutex:
            self.queue.clear()
            self.unfinished_tasks = 0
            self.not_full.notify_all()
            self.all_tasks_done.notify_all()
"""
EMPTY = '''\
    def empty(self):
        """Check whether the queue is empty."""
        with self._lock:
            return not self._queue

'''
ORDER = '''\
        """Returns an iterable of nodes in a topological order.

        The particular order that is returned may depend on the specific
        order in which the items were inserted in the graph.

        Using this method does not require to call "prepare" or "done". If any
        cycle is detected, :exc:`CycleError` will be raised.
        """
'''
NEW_ORDER = '''\
        """Yield the nodes in a topological order, predecessors first.

        Nodes that are ready at the same time come in no particular order. The
        sorter is prepared and used up by this method: a second call yields
        nothing.

        Raises :exc:`CycleError` if the graph has a cycle.
        """
'''
LIMITS = '''\
"""How much of the cache is kept."""

MOST_FILES = 500
"""More than so many files are forgotten, the oldest first."""


def trim(cache):
    """Forget the oldest files of a cache that has too many."""
    for name in list(cache)[: max(len(cache) - MOST_FILES, 0)]:
        del cache[name]
'''


def tasks() -> list[Task]:
    """The sixteen tasks of the bar."""
    return [
        imported(),
        renamed(
            "rename in a file",
            {"src/fnmatch.py": library("fnmatch")},
            "src/fnmatch.py",
            "_compile_pattern",
            "_matcher_of",
        ),
        renamed("rename in a JavaScript project", SHOP, "web", "formatPrice", "formatMoney"),
        found(
            "parameter with three edits",
            "src/netrc.py",
            library("netrc"),
            r"def __init__\(self, file|open\(file, encoding=.utf|print\(netrc",
            both(
                swap("(self, file=None)", '(self, file=None, encoding="utf-8")'),
                swap('open(file, encoding="utf-8")', "open(file, encoding=encoding)"),
                swap("print(netrc())", 'print(netrc(encoding="utf-8"))'),
            ),
        ),
        found(
            "one-line fix",
            "src/quopri.py",
            library("quopri"),
            r"non-hex digit",
            swap(
                'assert False, "non-hex digit "+repr(c)',
                'raise ValueError(f"non-hex digit {c!r}")',
            ),
        ),
        found(
            "one-line fix in a big file",
            "src/argparse.py",
            library("argparse"),
            r"expected at least one argument",
            swap("_('expected at least one argument')", "_('expected one or more arguments')"),
        ),
        found(
            "method added",
            "src/queue.py",
            library("queue"),
            r"def get_nowait\(self\):",
            lambda text: text.replace(
                "        return self.get(block=False)\n",
                f"        return self.get(block=False)\n{CLEAR}",
                1,
            ),
            (1, 8),
        ),
        found(
            "method deleted",
            "src/sched.py",
            library("sched"),
            r"def empty\(self\):",
            swap(EMPTY, ""),
            (3, 7),
        ),
        found(
            "docstring of several lines",
            "src/graphlib.py",
            library("graphlib"),
            r"def static_order\(self\):",
            swap(ORDER, NEW_ORDER),
            (1, 12),
        ),
        found(
            "two edits in a file with CRLF",
            "src/csv.py",
            library("csv"),
            r"class excel_tab|class unix_dialect",
            both(
                swap("properties of Excel-generated TAB", "properties of Excel's TAB"),
                swap("properties of Unix-generated CSV", "properties of Unix's CSV"),
            ),
            newline="\r\n",
        ),
        drifting(
            "another writer elsewhere in the file",
            "src/cmd.py",
            library("cmd"),
            r"line = 'EOF'$",
            swap("if not len(line):", "if not line:"),
            swap("import string, sys\n", "import string\nimport sys\n"),
            swap("if not len(line):", "if not line:"),
        ),
        drifting(
            "another writer on the same line",
            "src/timeit.py",
            library("timeit"),
            r"^default_repeat = ",
            swap("default_repeat = 5\n", "default_repeat = 5  # runs, of which the best counts\n"),
            swap("default_repeat = 5\n", "default_repeat = 7\n"),
            swap("default_repeat = 7\n", "default_repeat = 7  # runs, of which the best counts\n"),
        ),
        all_or_none(
            "new file and two edits, all or none",
            {"src/linecache.py": library("linecache")},
            r"^import os|^def updatecache|^    cache\[filename\] = ",
            "src/linecache.py",
            {
                "src/linecache.py": both(
                    swap("import os\n", "import os\nimport cachelimits\n"),
                    swap(
                        "    cache[filename] = size, mtime, lines, fullname\n",
                        "    cache[filename] = size, mtime, lines, fullname\n"
                        "    cachelimits.trim(cache)\n",
                    ),
                )
            },
            {"src/cachelimits.py": LIMITS},
        ),
        generated(),
        moved(
            "function moved to another file",
            "src/uuids.py",
            RETRY,
            "backoff",
            "src/waiting.py",
            WAITING,
        ),
        undone(
            "undo of an older edit",
            "src/pprint.py",
            library("pprint"),
            r"width=80, depth=None|^def isreadable",
            lambda text: text.replace("width=80, depth=None", "width=100, depth=None"),
            lambda text: text.replace("width=100, depth=None", "width=80, depth=None"),
            swap("def isreadable(object):\n", "def isreadable(object, /):\n"),
        ),
    ]


def imported() -> Task:
    """The head of a file, which the task names."""
    path, text = "src/textwrap.py", library("textwrap")
    change = swap("import re\n", "import functools\nimport re\n")

    def play(agent: Agent) -> None:
        agent.read(path, 1, 12)
        assert agent.change(path, change)

    return Task("import added", {path: text}, play, {path: change(text)})


RETRY = '''\
"""Calls that are made again when they fail."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def backoff(attempt: int, base: float = 0.1, most: float = 30.0) -> float:
    """Seconds to wait before the next attempt: twice as long each time, and never the same.

    `attempt` counts from 0.
    """
    ceiling = min(base * 2**attempt, most)
    return random.uniform(ceiling / 2, ceiling)


def retried(call: Callable[[], T], attempts: int = 5) -> T:
    """The result of the call, which is made so many times at most."""
    for attempt in range(attempts - 1):
        try:
            return call()
        except OSError:
            time.sleep(backoff(attempt))
    return call()
'''
WAITING = '''\
"""How long things wait."""

from __future__ import annotations

import random
import time


def until(deadline: float) -> float:
    """Seconds that are left."""
    return max(deadline - time.monotonic(), 0.0)
'''
README = """\
# Parcel

Finds the cheapest way to send a parcel.

## Commands

| command | what it does |
|---|---|
| `parcel quote` | prints prices |
| `parcel book` | books the cheapest one |
| `parcel track` | follows a parcel |

## Carriers

- DHL
- UPS
- Post

## Development

Run `make test` before a commit. Tests that need the network are marked `online`.
"""
PACKAGE = """\
{
  "name": "@shop/web",
  "version": "2.3.1",
  "type": "module",
  "scripts": {
    "build": "vite build",
    "test": "node --test"
  },
  "dependencies": {
    "fastify": "^5.2.0",
    "pino": "^9.5.0"
  },
  "devDependencies": {
    "typescript": "^5.7.2",
    "vite": "^6.0.3"
  }
}
"""
SETTINGS = '''\
"""Settings."""

import os

HOST = os.environ.get("PARCEL_HOST", "127.0.0.1")
PORT = int(os.environ.get("PARCEL_PORT", "8080"))
TIMEOUT_SECONDS = 30
RETRIES = 3
'''
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: parcel
spec:
  template:
    spec:
      containers:
        - name: parcel
          image: registry.example/parcel:2.3.1
          env:
            - name: PARCEL_TIMEOUT
              value: "30"
          readinessProbe:
            timeoutSeconds: 30
"""
TIMEOUT_TEST = """\
from parcel import settings


def test_timeout_is_what_operations_expect():
    assert settings.TIMEOUT_SECONDS == 30
"""
MAKEFILE = """\
PYTHON ?= python3

test:
\t$(PYTHON) -m pytest -q

lint:
\truff check .
\tmypy src

clean:
\trm -rf build dist
"""
GUIDE = """\
# 安装

## 准备

1. 安装 Python 3.11 或更新的版本。
2. 新建一个虚拟环境，并激活它。

## 步骤

1. 运行 `pip install parcel`。
2. 运行 `parcel init`，按提示填写账号。
3. 用 `parcel doctor` 检查配置。

## 常见问题

如果网络较慢，可以把超时设为 60 秒。
"""
ROUTES = '''\
"""The routes of the service."""

from parcel import booking, quotes

ROUTES = {
    "/quotes": quotes.show,
    "/bookings": booking.show,
}
'''
CLI = '''\
"""The command line."""

import argparse

from parcel import booking, quotes


def commands():
    """The commands by name."""
    return {
        "quote": quotes.run,
        "book": booking.run,
    }


def main(argv=None):
    """Run a command."""
    parser = argparse.ArgumentParser(prog="parcel")
    parser.add_argument("command", choices=commands())
    return commands()[parser.parse_args(argv).command]()
'''
TRACKING = '''\
"""Where a parcel is."""

from parcel import carriers


def show(request):
    """The places that a parcel has been at."""
    return carriers.of(request["number"]).places(request["number"])


def run():
    """The same for the command line."""
    print(*show({"number": input("number: ")}), sep="\\n")
'''
TRACKED = "parcel/tracking.py"
NEW_TESTS = """

def test_a_timeout_is_a_whole_number():
    assert isinstance(settings.TIMEOUT_SECONDS, int)
"""


def other_tasks() -> list[Task]:
    """Sixteen others, which nothing was fitted to."""
    bisect = library("bisect")
    left = bisect[bisect.index("def insort_left") : bisect.index("def bisect_left")]
    return [
        found(
            "row added to a table in Markdown",
            "README.md",
            README,
            r"^\| `parcel",
            swap(
                "| follows a parcel |\n",
                "| follows a parcel |\n| `parcel cancel` | cancels a booking |\n",
            ),
        ),
        found(
            "version and dependency in package.json",
            "web/package.json",
            PACKAGE,
            r'"version"|"pino"',
            both(
                swap('"version": "2.3.1"', '"version": "2.4.0"'),
                swap('"pino": "^9.5.0"\n', '"pino": "^9.5.0",\n    "undici": "^7.1.0"\n'),
            ),
        ),
        found(
            "lines indented below a new try",
            "src/quopri.py",
            library("quopri"),
            r"^            if deco:",
            swap(
                "            if deco:\n"
                "                decode(fp, sys.stdout.buffer)\n"
                "            else:\n"
                "                encode(fp, sys.stdout.buffer, tabs)\n",
                "            try:\n"
                "                if deco:\n"
                "                    decode(fp, sys.stdout.buffer)\n"
                "                else:\n"
                "                    encode(fp, sys.stdout.buffer, tabs)\n"
                "            except BrokenPipeError:\n"
                "                sts = 1\n",
            ),
            (3, 6),
        ),
        found(
            "function moved within a file",
            "src/bisect.py",
            bisect,
            r"^def insort_left|^# Overwrite above",
            both(
                swap(left, ""),
                swap("# Overwrite above", f"{left}\n# Overwrite above"),
            ),
            (3, left.count("\n") + 3),
        ),
        timeouts(),
        appended(),
        found(
            "target added to a Makefile",
            "Makefile",
            MAKEFILE,
            r"^lint:",
            swap("\tmypy src\n", "\tmypy src\n\nformat:\n\truff format .\n"),
            (3, 5),
        ),
        found(
            "sentence in a Chinese guide",
            "docs/install.md",
            GUIDE,
            r"超时",
            swap("可以把超时设为 60 秒。", "可以用 `parcel config timeout 60` 把超时设为 60 秒。"),
        ),
        all_or_none(
            "new file and edits of two others, all or none",
            {"parcel/routes.py": ROUTES, "parcel/cli.py": CLI},
            r"^from parcel import|booking\.(show|run)",
            "parcel",
            {
                "parcel/routes.py": both(
                    swap("import booking, quotes", "import booking, quotes, tracking"),
                    swap(
                        '    "/bookings": booking.show,\n',
                        '    "/bookings": booking.show,\n    "/parcels": tracking.show,\n',
                    ),
                ),
                "parcel/cli.py": both(
                    swap("import booking, quotes", "import booking, quotes, tracking"),
                    swap(
                        '        "book": booking.run,\n',
                        '        "book": booking.run,\n        "track": tracking.run,\n',
                    ),
                ),
            },
            {"parcel/tracking.py": TRACKING},
        ),
        drifting(
            "another writer above, and a second change of the same lines",
            "src/reprlib.py",
            library("reprlib"),
            r"self\.maxother = ",
            swap("self.maxother = 30", "self.maxother = 40"),
            swap("import builtins\n", "import builtins\nimport functools\nimport os\n"),
            swap("self.maxother = 30", "self.maxother = 40"),
        ),
        renamed(
            "constant renamed, its test too",
            {"parcel/settings.py": SETTINGS, "tests/test_settings.py": TIMEOUT_TEST},
            ".",
            "TIMEOUT_SECONDS",
            "MOST_SECONDS",
        ),
        found(
            "option added to a command line",
            "parcel/cli.py",
            CLI,
            r"add_argument",
            swap(
                "choices=commands())\n",
                'choices=commands())\n    parser.add_argument("--json", action="store_true")\n',
            ),
        ),
        Task("new module", {}, lambda agent: agent.write(TRACKED, TRACKING), {TRACKED: TRACKING}),
        moved(
            "function moved from the end of a file",
            "src/uuids.py",
            RETRY,
            "retried",
            TRACKED,
            TRACKING,
        ),
        undone(
            "undo below a later edit",
            "src/reprlib.py",
            library("reprlib"),
            r"self\.max(other|string) = ",
            swap("self.maxother = 30", "self.maxother = 40"),
            swap("self.maxother = 40", "self.maxother = 30"),
            swap("self.maxstring = 30", "self.maxstring = 60"),
        ),
        drifting(
            "another writer on the same line of a short file",
            "parcel/settings.py",
            SETTINGS,
            r"^RETRIES",
            swap("RETRIES = 3\n", "RETRIES = 3  # then it fails\n"),
            swap("RETRIES = 3\n", "RETRIES = 4\n"),
            swap("RETRIES = 4\n", "RETRIES = 4  # then it fails\n"),
        ),
    ]


def timeouts() -> Task:
    """A value in three files, each with its own form."""
    changes = {
        "parcel/settings.py": swap("TIMEOUT_SECONDS = 30", "TIMEOUT_SECONDS = 45"),
        "deploy/parcel.yaml": both(
            swap('value: "30"', 'value: "45"'), swap("timeoutSeconds: 30", "timeoutSeconds: 45")
        ),
        "tests/test_settings.py": swap("TIMEOUT_SECONDS == 30", "TIMEOUT_SECONDS == 45"),
    }
    files = dict(zip(changes, (SETTINGS, DEPLOYMENT, TIMEOUT_TEST), strict=True))

    def play(agent: Agent) -> None:
        agent.find(r"(?i)timeout.*\b30|value: .30", ".", 1, 1)
        agent.change_each(changes)

    after = {path: changes[path](text) for path, text in files.items()}
    return Task("value changed in three files", files, play, after)


def appended() -> Task:
    """A test at the end of a short file that was read whole."""
    path = "tests/test_timeouts.py"

    def play(agent: Agent) -> None:
        agent.read(path, 1, TIMEOUT_TEST.count("\n"))
        assert agent.change(path, ended(NEW_TESTS))

    return Task("test appended", {path: TIMEOUT_TEST}, play, {path: TIMEOUT_TEST + NEW_TESTS})
