"""The scripts that measure the code: what they count, on planted examples and on the code itself."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
from scripts import mutate

from copydesk.edit import patch_parse, request


@pytest.fixture
def functions(monkeypatch: pytest.MonkeyPatch) -> mutate.Functions:
    """Those of one package, looked for when a server has hidden them from the collector."""
    monkeypatch.setattr(mutate, "ROOMS", ("edit",))
    gc.freeze()
    return mutate.Functions()


def mutants_of(module: object) -> list[mutate.Mutant]:
    return mutate.mutants(Path(str(vars(module)["__file__"])))


def test_mutants_reach_functions_that_the_collector_does_not_see(
    functions: mutate.Functions,
) -> None:
    function = request.content_lines
    code, place = function.__code__, "edit/request.py:content_lines"
    try:
        for mutant in mutants_of(request):
            if mutant.function == place:
                assert functions.mutate(mutant), mutant
                assert function.__code__ != code, mutant
    finally:
        function.__code__ = code


def test_mutants_of_several_lines_are_tried(functions: mutate.Functions) -> None:
    """As of `not any(`, whose own brackets hold the line breaks together."""
    several = [m for m in mutants_of(patch_parse) if m.lines > 1 and "any(" in m.new]
    changed = {each for found in functions._found.values() for each in found}
    codes = {each: each.__code__ for each in changed}
    try:
        assert len(several) > 1
        for mutant in several:
            assert functions.mutate(mutant), mutant
    finally:
        for each, code in codes.items():
            each.__code__ = code


def test_all_packages_have_mutants() -> None:
    packages = {path.parent.name for path in mutate.PACKAGE.glob("*/__init__.py")}
    assert packages <= set(mutate.ROOMS)
