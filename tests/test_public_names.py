"""The public names of the library and their signatures: `tests/public_names.txt` lists them.

A name that is there stays, and what it takes too: see `docs/stability.md`. To write the list anew:

    python tests/test_public_names.py > tests/public_names.txt
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import copydesk

LIST = Path(__file__).with_name("public_names.txt")


def listed() -> Iterator[str]:
    """Every public name, with its base, its parameters and its public members."""
    for name in sorted(copydesk.__all__):
        value = getattr(copydesk, name)
        if not inspect.isclass(value):
            yield f"{name}{inspect.signature(value)}" if callable(value) else f"{name} = {value}"
            continue
        base = value.__mro__[1].__name__
        takes = "" if "__init__" not in vars(value) else inspect.signature(value)
        yield f"class {name}({base}){takes}".replace(" -> None", "")
        code = getattr(value, "code", None)
        if code is not None:
            yield f"    code = {code!r}"
        inherited = set(dir(copydesk.Refusal)) - ({"facts"} if value is copydesk.Refusal else set())
        for member, what in inspect.getmembers_static(value):
            if (
                member.startswith("_")
                or member in inherited
                or value.__module__.startswith("copydesk.edit.kinds")
            ):
                continue  # what a request does is for the desk
            if isinstance(what, property):
                yield f"    {member}: {inspect.signature(what.fget).return_annotation}"
            elif isinstance(what, staticmethod) or inspect.isfunction(what):
                yield f"    {member}{inspect.signature(getattr(value, member))}"


def test_no_public_name_is_lost() -> None:
    assert "\n".join(listed()) + "\n" == LIST.read_text("utf-8")


def test_all_refusals_are_public() -> None:
    from copydesk import errors

    refusals = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.Refusal)
    }
    assert refusals - set(copydesk.__all__) == {"OfPlan"}


if __name__ == "__main__":
    sys.stdout.write("\n".join(listed()) + "\n")
