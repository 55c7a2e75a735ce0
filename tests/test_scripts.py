"""The scripts that measure the code: what they count, on planted examples and on the code itself."""

from __future__ import annotations

import ast
import gc
import subprocess
import threading
from pathlib import Path
from types import CodeType

import pytest
from scripts import count_hops, count_kinds, faults, mutate, size

from copydesk.edit.kinds import base
from support.code import ROOT, trees


@pytest.fixture
def functions(monkeypatch: pytest.MonkeyPatch) -> mutate.Functions:
    """Those of one package, looked for when a server has hidden them from the collector."""
    monkeypatch.setattr(mutate, "ROOMS", ("edit",))
    gc.freeze()
    return mutate.Functions()


def mutants_of(module: object) -> list[mutate.Mutant]:
    return mutate.mutants(Path(str(vars(module)["__file__"])))


@pytest.mark.slow
def test_mutants_reach_functions_that_the_collector_misses(functions: mutate.Functions) -> None:
    function = base.content_lines
    code, place = function.__code__, "edit/kinds/base.py:content_lines"
    try:
        for mutant in mutants_of(base):
            if mutant.function == place:
                assert functions.mutate(mutant), mutant
                assert function.__code__ != code, mutant
    finally:
        function.__code__ = code


@pytest.mark.slow
def test_mutants_of_several_lines_are_tried(functions: mutate.Functions) -> None:
    """As of `not any(`, whose own brackets hold the line breaks together."""
    found = [m for path in mutate.PACKAGE.glob("edit/**/*.py") for m in mutate.mutants(path)]
    several = [mutant for mutant in found if mutant.lines > 1 and "any(" in mutant.new]
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


REQUESTS = """
class Append: pass
class Insert: pass
Request = Append | Insert
Action = Literal["append", "insert"]
"""
ASKED = {
    "isinstance(x, Insert)": "isinstance",
    "isinstance(x, (int, Both))": "isinstance",
    "isinstance(x, Narrow)": "isinstance",
    "type(x) is Insert": "type",
    "TABLE[type(plan.request)]": "type",
    "plan.action == 'append'": "action",
    "plan.kind in ('insert', 'other')": "action",
    "plan.request.is_certain": "is_",
    "is_certain(given)": "is_",
    "isinstance(x, int)": "",
    "isinstance(x, Foreign)": "",
    "block.kind == 'heading'": "",
    "plan.is_certain": "",
    "type(x) is int": "",
}
CASES = {"Insert()": "pattern", "Append() | int()": "pattern", "Both": ""}
"""The last one is a new name, not a class."""


def test_places_that_ask_for_a_kind_are_found() -> None:
    head = "from other import Append as Foreign\nBoth = Append | Insert\n"
    texts = {
        **{f"{head}def f(x: int, given: Append) -> None: {code}\n": ASKED[code] for code in ASKED},
        **{
            f"match x:\n    case int(): pass\n    case {case}: pass\n": CASES[case]
            for case in CASES
        },
    }
    for text, how in texts.items():
        planted = {
            "edit/kinds/base.py": REQUESTS,
            "edit/kinds/narrow.py": "class Narrow(Append): isinstance(x, Narrow)",
            "desk/it.py": text,
        }
        found = count_kinds.places({name: ast.parse(each) for name, each in planted.items()})
        assert found == ([count_kinds.Place("desk/it.py", 3, how)] if how else []), text


@pytest.mark.slow
def test_the_places_of_this_code_are_told() -> None:
    """`pytest -rP` shows them; how many there may be is no rule of the house."""
    modules = {path.relative_to(ROOT).as_posix(): tree for path, tree in trees().items()}
    found = count_kinds.places(modules)
    print(count_kinds.told(found))
    kinds = count_kinds.Kinds.of(modules)
    assert {"Append", "BlockDiff", "MoveFile", "PatchEdit"} <= kinds.classes
    assert {one.module for one in found}.isdisjoint(kinds.modules)


def test_statements_and_lines_are_counted_by_package() -> None:
    files = [
        ("text/a.py", b'"""Doc."""\n\n# no statement\ndef f():\n    """Doc."""\n    return 1\n'),
        ("text/deep/b.py", b"x = 1; y = 2"),
        ("text/deep/c.toml", b"a = 1\nb = 2\n"),
        ("errors.py", b"class E(Exception): pass\n"),
    ]
    both, other = (2, 6, 2, 6, 2), (1, 2, 0, 1, 0)
    assert size.table(files) == {"errors.py": other, "text": both, "total": (3, 8, 2, 7, 2)}
    deep = size.table(files, deep=True)
    assert (deep["text"], deep["text/deep"]) == ((1, 4, 2, 6, 0), (1, 2, 0, 0, 2))
    assert size.printed(deep).split("\n")[-1].split()[:3] == ["total", "3", "8"]


def test_files_of_the_working_tree_are_those_of_the_package() -> None:
    if subprocess.run(["git", "rev-parse"], cwd=size.ROOT, check=False).returncode:
        pytest.skip("no clone")
    names = [name for name, _ in size.in_tree()]
    assert {"edit/request.py", "tools/messages/en.toml"} <= set(names)
    assert not any("__pycache__" in name for name in names)


def test_calls_and_changes_of_package_are_counted() -> None:
    def code(name: str) -> CodeType:
        return compile("", f"{count_hops.PACKAGE}{name}", "exec")

    here, other = threading.get_ident(), 0
    desk, near, store = code("desk/a.py"), code("desk/b.py"), code("store/deep/a.py")
    calls = [(here, desk, False), (here, desk, True), (here, near, False)]
    beside = [(other, store, False), (other, store, True)]  # the package does not change by it
    counted = count_hops.Hops.of([*calls, *beside, (here, store, False), (here, desk, False)])
    expected = {"python": 5, "built_in": 2, "in_thread": 4}
    assert vars(counted) == expected | {"modules": 3, "functions": 3, "changes": 2}


def test_calls_are_recorded_in_threads_too() -> None:
    before = threading.getprofile()
    profile = count_hops.Profile()
    try:
        thread = threading.Thread(target=base.check_text, args=("a", "b"))
        _, events = profile.of(lambda: (thread.start(), base.content_lines("a"), thread.join()))
    finally:
        threading.setprofile(before)
    called = {(thread == threading.get_ident(), code) for thread, code, _ in events}
    assert (True, base.content_lines.__code__) in called
    assert (False, base.check_text.__code__) in called
    assert all("/copydesk/" in code.co_filename for _, code in called)


@pytest.mark.slow
def test_the_page_of_faults_is_current_and_none_is_written_wrongly() -> None:
    page = faults.page()
    assert "WRONG" not in page
    assert (Path(faults.__file__).parents[1] / "docs" / "faults.md").read_text("utf-8") == page
