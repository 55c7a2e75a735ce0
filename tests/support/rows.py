"""A table of many short cases as one test: pytest takes longer for a test than for such a case."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from inspect import signature

Test = Callable[..., None]


def each_row(names: str, rows: Iterable[object]) -> Callable[[Test], Test]:
    """Run a test for each row, which has its arguments of these names; a failure names the row."""
    keys = names.split()
    every = list(rows)
    assert every, "a table without rows tests nothing"

    def decorated(test: Test) -> Test:
        @wraps(test)
        def run(**fixtures: object) -> None:
            for row in every:
                values = row if isinstance(row, tuple) and len(keys) > 1 else (row,)
                try:
                    test(**fixtures, **dict(zip(keys, values, strict=True)))
                except BaseException as error:
                    error.add_note(f"in the row {row!r:.500}")
                    raise

        found = signature(test)
        kept = [one for name, one in found.parameters.items() if name not in keys]
        run.__signature__ = found.replace(parameters=kept)  # type: ignore[attr-defined]
        return run

    return decorated
