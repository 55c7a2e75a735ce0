"""What a call gives, or how it is refused: one row of a table that has both."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from copydesk.errors import Refusal


def check(call: Callable[[], object], expected: object = None, **facts: object) -> None:
    """The call gives this, or is refused so: `expected` is a class, `facts` are among its facts."""
    if not isinstance(expected, type):
        assert call() == expected
        return
    assert issubclass(expected, Refusal)
    with pytest.raises(expected) as caught:
        call()
    told = caught.value.facts()
    assert {name: told.get(name) for name in facts} == facts
