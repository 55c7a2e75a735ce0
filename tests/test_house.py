"""The rules of the house: who imports whom, what stands in every file, what in none."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from support.code import FILES, ROOT, trees

PACKAGES = {
    "errors": (),
    "text": ("errors",),
    "edit": ("text", "errors"),
    "edit.kinds": ("edit.draft", "text", "errors"),
    "store": ("text", "errors"),
    "desk": (
        *("edit", "text", "errors", "store.files", "store.protocol", "store.state"),
        *("store.threads", "store.checks", "store.dotfiles", "notes.protocol", "notes.plan"),
    ),
    "search": (),
    "search.options": ("text", "errors"),
    "search.ripgrep": (
        *("search.options", "text", "errors"),
        *("store._os", "store.contents", "store.files", "store.protocol"),
    ),
    "search.listings": (
        *("search.options", "search.ripgrep", "desk", "text", "errors"),
        *("store.files", "store.protocol"),
    ),
    "search.tools": (
        *("search.options", "search.ripgrep", "search.listings", "tools", "desk", "text", "errors"),
    ),
    "notes": (),
    "notes.markdown": ("text", "errors"),
    "notes.protocol": ("notes.markdown", "text", "errors"),
    "notes.grammar": ("notes.protocol", "notes.markdown", "text", "errors"),
    "notes.plan": ("notes.grammar", "notes.protocol", "edit", "text", "errors"),
    "notes.folder": ("notes.protocol", "notes.markdown", "store", "text", "errors"),
    "notes.kernel": ("notes.folder.blocks", "notes.protocol", "notes.markdown", "text", "errors"),
    "notes.desk": (
        *("notes.plan", "notes.grammar", "notes.protocol", "store.files", "store.threads"),
        *("desk", "edit", "text", "errors", "store.protocol"),
    ),
    "notes.tools": (
        *("notes.desk", "notes.plan", "notes.protocol", "store.threads"),
        *("tools", "desk", "edit", "text", "errors"),
    ),
    "tools": (
        *("search.options", "search.ripgrep", "search.listings", "notes.grammar", "notes.plan"),
        *("desk", "edit", "text", "errors"),
    ),
    "app": ("tools", "notes", "search", "desk", "store", "edit", "text", "errors", "__version__"),
}
"""What each package may import besides itself; so for the kinds, and each layer of search and notes."""

CLOCK = ("time", "datetime")
DISK = ("os", "pathlib", "io", "shutil", "tempfile", "socket", "subprocess")
PURE = (*CLOCK, *DISK, "json", "logging", "asyncio", "threading", "random", "secrets")
FORBIDDEN = {
    "errors": PURE,
    "text": PURE,
    "edit": PURE,
    "edit.kinds": PURE,
    "store": ("asyncio",),
    "desk": (*CLOCK, *DISK, "json", "asyncio"),
    "search.options": PURE,
    "search.ripgrep": ("asyncio",),
    "search.listings": (*CLOCK, *DISK, "json", "asyncio"),
    "search.tools": (*DISK, "asyncio", "sqlite3", "apsw"),
    "notes": (),
    "notes.markdown": PURE,
    "notes.protocol": ("asyncio",),
    "notes.grammar": PURE,
    "notes.plan": PURE,
    "notes.folder": ("asyncio",),
    "notes.kernel": ("asyncio",),
    "notes.desk": (*CLOCK, *DISK, "json", "asyncio"),
    "notes.tools": (*DISK, "asyncio", "sqlite3", "apsw"),
    "tools": (*DISK, "asyncio", "sqlite3", "apsw"),
    "app": (),
}
"""Modules of the standard library that a package has no use for."""


def name_of(path: Path) -> str:
    """As `text/change.py`."""
    return path.relative_to(ROOT).as_posix()


def layer_of(path: Path) -> str:
    """The row of the tables above that the file belongs to: as `text`, or `notes.plan`."""
    names = name_of(path).removesuffix(".py").split("/")
    layer = ".".join(names[:2])
    return layer if layer in PACKAGES else names[0]


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """All statements below the node, however deep; no expression is looked into."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        if not isinstance(child, ast.expr):
            yield from statements(child)


@cache
def imported(path: Path) -> tuple[tuple[int, str], ...]:
    """Every module that the file imports, wherever it does, with its line."""
    found: list[tuple[int, str]] = []
    for node in statements(trees()[path]):
        if isinstance(node, ast.Import):
            found += ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            found += ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
    return tuple(found)


def below(module: str, names: tuple[str, ...]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in names)


def check_rule(rule: Callable[[Path], Iterator[str]]) -> None:
    """No file breaks the rule; it gives what is wrong, as `line: what`."""
    wrong = [f"{name_of(path)}:{what}" for path in FILES for what in rule(path)]
    assert not wrong, "\n".join(["", *wrong])


def test_there_are_files() -> None:
    assert {layer_of(path) for path in FILES} >= set(PACKAGES)


def test_each_package_imports_only_what_it_may() -> None:
    def rule(path: Path) -> Iterator[str]:
        package = layer_of(path)
        for line, module in imported(path):
            if module.startswith("."):
                yield f"{line}: relative import"
            inner = module.removeprefix("copydesk.")
            if (
                inner != module
                and package in PACKAGES
                and not below(inner, (package, *PACKAGES[package]))
            ):
                yield f"{line}: {package} imports {module}"

    check_rule(rule)


def test_no_group_of_an_expression_is_repeated_possessively() -> None:
    """Python before 3.11.5 (Debian has 3.11.2) gets it wrong; `(?>(?:...)*)` means the same."""

    def rule(path: Path) -> Iterator[str]:
        for node in ast.walk(trees()[path]):
            if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
                text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
                if re.search(r"(?<!\()\)(?:[*+?]|\{\d*,?\d*\})\+", text):
                    yield f"{node.lineno}: {text[:60]}"

    check_rule(rule)


def test_no_files_import_each_other() -> None:
    """Not in a circle either, and not for their types alone: such files are one file."""
    modules = {"copydesk." + name_of(path)[:-3].replace("/", "."): path for path in FILES}
    modules |= {m.removesuffix(".__init__"): p for m, p in modules.items()}

    def ahead(path: Path) -> set[Path]:
        """The files that it imports, those of single names in a package's own file included."""
        names = [name for _, name in imported(path)]
        found = {modules.get(name) or modules.get(name.rpartition(".")[0]) for name in names}
        return {other for other in found if other is not None and other != path}

    order = TopologicalSorter({path: ahead(path) for path in FILES if path.parent != ROOT})
    try:
        order.prepare()
    except CycleError as found:
        pytest.fail(" imports ".join(reversed([name_of(path) for path in found.args[1]])))


def test_each_package_leaves_the_world_to_others() -> None:
    def rule(path: Path) -> Iterator[str]:
        package = layer_of(path)
        for line, module in imported(path):
            if below(module, FORBIDDEN.get(package, ())):
                yield f"{line}: {package} imports {module}"

    check_rule(rule)


def test_lines_are_not_split_as_str_does() -> None:
    """`str.splitlines` takes U+2028, form feed and others for the end of a line."""

    def rule(path: Path) -> Iterator[str]:
        nodes = ast.walk(trees()[path]) if "splitlines" in path.read_text("utf-8") else ()
        for node in nodes:
            if isinstance(node, ast.Attribute) and node.attr == "splitlines":
                yield f"{node.lineno}: splitlines"

    check_rule(rule)


def _undocumented(node: ast.AST) -> Iterator[str]:
    """Public classes and functions of a module; the contract of a method may stand in a protocol."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If | ast.Try):
            yield from _undocumented(child)
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if not child.name.startswith("_") and not ast.get_docstring(child):
            yield f"{child.lineno}: {child.name} has no docstring"


def test_what_is_public_has_a_docstring() -> None:
    def rule(path: Path) -> Iterator[str]:
        if not ast.get_docstring(trees()[path]):
            yield "1: no docstring"
        yield from _undocumented(trees()[path])

    check_rule(rule)


def test_nothing_is_left_to_do() -> None:
    marks = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3)) + r")\b")

    def rule(path: Path) -> Iterator[str]:
        for number, line in enumerate(path.read_text("utf-8").split("\n"), 1):
            if marks.search(line):
                yield f"{number}: {line.strip()}"

    check_rule(rule)


def test_modules_that_the_docs_name_exist() -> None:
    repository = Path(__file__).parent.parent
    named = re.compile(
        r"`([\w./-]+/[\w-]+\.(?:py|toml|js)|(?:edit|store|desk|search|notes|tools|app)(?:/\w+)*/)`"
    )
    pages = [*repository.glob("*.md"), *repository.glob("docs/*.md")]
    found = {(page.name, name) for page in pages for name in named.findall(page.read_text("utf-8"))}
    assert ("CONTRIBUTING.md", "edit/request.py") in found
    known = (ROOT, repository)
    assert [one for one in sorted(found) if not any((at / one[1]).exists() for at in known)] == []


def test_the_command_line_starts_without_what_it_may_not_need() -> None:
    if importlib.util.find_spec("copydesk.app.cli") is None:
        pytest.skip("there is no command line yet")
    heavy = ("mcp", "pydantic", "jsonschema", "rich", "sqlite3", "apsw")
    program = (
        "import sys, copydesk.app.cli\n"
        f"print(*sorted({set(heavy)!r} & {{name.split('.')[0] for name in sys.modules}}))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == []
