"""Switches off what the system offers, for the tests of how copydesk does without it.

    LACKING=exchange,leases pytest ...

The names are those of `Offers`. Whoever imports this does without; a program that a test starts
has all, unless it imports this too.
"""

from __future__ import annotations

import os

import pytest

from copydesk.store import _os

NAMES = [name for name in os.environ.get("LACKING", "").split(",") if name]

for _name in NAMES:
    if not hasattr(_os.offers, _name):
        raise LookupError(f"LACKING={_name} is none of {_os.offers}")
    setattr(_os.offers, _name, False)


def needs(name: str) -> pytest.MarkDecorator:
    """Skip a test where the system does not offer this."""
    return pytest.mark.skipif(not getattr(_os.offers, name), reason=f"it is about {name}")
