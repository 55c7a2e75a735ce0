"""What a call costs, told so that a busy machine makes no difference; which cases are fast ones."""

from __future__ import annotations

import gc
import json
import signal
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from typing import Any, cast

import apsw
import pytest
from hypothesis import settings

from copydesk.desk.backends.sqlite import Database

MOST_SECONDS = 60.0
LIST_TOKENS = {"edit": 1_500, "ws_mod": 3_000}
"""The most that a toolset's list and instructions take, which are paid for with every request."""


def examples(count: int) -> int:
    """So many of what Hypothesis draws in `make test-slow`, fewer in the fast run."""
    return max(count * settings().max_examples // 100, 5)


def steps(call: Callable[[], object]) -> int:
    """How many calls it makes, of functions in Python and in C.

    The collector rests meanwhile: what is called when it runs (Hypothesis asks
    for it) would count as well, and nothing says when it runs.
    """
    count = 0

    def seen(*_: object) -> None:
        nonlocal count
        count += 1

    gc.disable()
    sys.setprofile(seen)
    try:
        call()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def check_linear(call: Callable[[int], object], size: int) -> None:
    """Twice the size takes twice the steps, but for a few."""
    once, twice, four = (steps(lambda n=n: call(n)) for n in (size, 2 * size, 4 * size))  # type: ignore[misc]
    assert four - twice <= 2.2 * (twice - once) + 200


@contextmanager
def bounded() -> Iterator[None]:
    """Fail what works for a minute, of its own time, not of the clock's.

    What is tried takes less than a second; with a cost that grows faster than the text
    it takes hours.
    """

    def late(*_: object) -> None:
        raise AssertionError(f"worked for {MOST_SECONDS:.0f} seconds")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def spread(*columns: Iterable[Any], of: int) -> list[Any]:
    """All rows for `parametrize`, the product of the columns; all but one in `of` rows are slow.

    A row that is slow is run by `make test-slow`. With an `of` that has no divisor in
    common with the length of the last column, each value of it has a row that is fast.
    A row of several arguments is a tuple; what is slow anyway stays so.
    """
    rows = product(*columns) if len(columns) > 1 else columns[0]
    return [_row(row, slow=at % of != 0) for at, row in enumerate(rows)]


def _row(row: Any, *, slow: bool) -> Any:
    marks = [pytest.mark.slow] if slow else []
    return pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=marks)


def first(*values: Any) -> list[Any]:
    """Values for `parametrize`, of which all but the first are slow."""
    return spread(values, of=len(values))


def tokens(text: str) -> int:
    """Those of `cl100k_base`; it takes a second to load, so only who counts does."""
    from bpe_openai import get_encoding  # type: ignore[import-untyped]

    return len(get_encoding("cl100k_base").encode(text))


def compact(value: object) -> bytes:
    """JSON as it is sent."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def check_list_is_cheap(tools: Collection[Mapping[str, Any]], others: str, most: int) -> None:
    """A list of these tools and `others` take at most `most` tokens; if not, what to shorten."""
    size = tokens(compact(tools).decode()) + tokens(others)
    if size <= most:
        return
    texts: list[tuple[int, str]] = []
    for tool in tools:
        arguments = tool["inputSchema"]["properties"]
        described = {tool["name"]: tool} | {f"{tool['name']}.{n}": a for n, a in arguments.items()}
        said = {name: one["description"] for name, one in described.items() if "description" in one}
        texts += [(tokens(text), f"{name}: {text}") for name, text in said.items()]
    largest = [(tokens(compact(tool).decode()), tool["name"]) for tool in tools]
    pytest.fail(
        f"the list has {size} tokens, {size - most} too many; its largest tools (tokens):\n"
        + "\n".join(f"{count:6} {name}" for count, name in sorted(largest, reverse=True)[:5])
        + "\nand its longest texts, to be shortened in tools/messages/:\n"
        + "\n".join(f"{count:6} {text}" for count, text in sorted(texts, reverse=True)[:12]),
        pytrace=False,
    )


def sqlite_steps(db: Database, call: Callable[[], object]) -> int:
    """How many steps SQLite took for the call."""
    steps = 0

    def count() -> bool:
        nonlocal steps
        steps += 1
        return False

    with db.reading() as connection:
        cast(apsw.Connection, connection).set_progress_handler(count, 1)
    call()
    with db.reading() as connection:
        cast(apsw.Connection, connection).set_progress_handler(None)
    return steps
