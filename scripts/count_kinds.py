"""Count the places that ask which kind of edit a request is, outside the modules of the kinds.

    python scripts/count_kinds.py           how many, by module
    python scripts/count_kinds.py --all     each place

The kinds are the classes that `Request` in edit/kinds/base.py unites (or itself, if it is a class),
and their subclasses, wherever those are defined; the modules that define one are left out. A place
asks by

    isinstance   `isinstance` or `issubclass` with a kind, a union or a tuple of kinds
    pattern      a pattern of `match` that names a kind
    type         `type(x)` compared with a kind, or `type` of a request
    action       `.kind` or `.action` compared with the word of a kind, one of `Action`; or `match`
    is_          `request.is_...`, or `is_...(request)`

where a request is what is called `request` or ends so (`plan.request`), or has the name of an
argument of the module that is annotated with a kind. A comparison with other words (those of
Markdown's blocks, of the commands in a block diff) asks something else and is not counted. What is
not seen: a class that is reached by a variable, `hasattr`, and a kind imported by another name.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "copydesk"
REQUEST = "edit/kinds/base.py"
Trees = Mapping[str, ast.Module]
"""The modules, by their paths below the package, as `edit/kinds/base.py`."""


@dataclass(frozen=True, order=True)
class Place:
    """A line that asks, and how."""

    module: str
    line: int
    how: str


@dataclass(frozen=True)
class Kinds:
    """The names of the kinds, of unions and tuples of them, their words, and their modules."""

    classes: frozenset[str]
    names: frozenset[str]
    words: frozenset[str]
    modules: frozenset[str]

    @staticmethod
    def of(trees: Trees) -> Kinds:
        """Read them from the code."""
        assigned = {name: value for tree in trees.values() for name, value in _assigned(tree)}
        top = dict(_assigned(trees[REQUEST]))
        classes = _members(top["Request"], assigned) if "Request" in top else {"Request"}
        defined = [
            (module, node)
            for module, tree in trees.items()
            for node in tree.body
            if isinstance(node, ast.ClassDef)
        ]
        before: set[str] = set()
        while before != classes:  # subclasses of subclasses
            before = set(classes)
            classes |= {node.name for _, node in defined if classes & set(map(_name, node.bases))}
        groups = {
            name
            for name, value in assigned.items()
            if (found := _members(value, assigned)) and found <= classes
        }
        words = {
            node.value
            for node in ast.walk(top["Action"])
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        modules = {module for module, node in defined if node.name in classes}
        return Kinds(
            frozenset(classes), frozenset(classes | groups), frozenset(words), frozenset(modules)
        )


def _assigned(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            yield node.target.id, node.value


def _members(value: ast.expr, assigned: Mapping[str, ast.expr]) -> set[str]:
    """The names that a union or a tuple lists, of further ones too; none if it is neither."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr):
        return _members(value.left, assigned) | _members(value.right, assigned)
    if isinstance(value, ast.Tuple):
        return {name for each in value.elts for name in _members(each, assigned)}
    name = _name(value)
    return _members(assigned[name], assigned) if name in assigned else {name} - {""}


def _name(node: ast.AST | None) -> str:
    """The last part of a dotted name; empty for everything else."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


class _Asking:
    """The places of one module."""

    def __init__(self, kinds: Kinds, nodes: Sequence[ast.AST]) -> None:
        foreign = {  # as another library's Request
            alias.asname or alias.name
            for node in nodes
            if isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("copydesk")
            for alias in node.names
        }
        self._names, self._words = kinds.names - foreign, kinds.words
        given = (node for node in nodes if isinstance(node, ast.arg))
        self._requests = {one.arg for one in given if self._names_a_kind(one.annotation)}

    def ways(self, node: ast.AST) -> Iterator[tuple[int, str]]:
        """The lines where this node itself asks, and how."""
        if isinstance(node, ast.Call):
            asked = _name(node.func)
            if asked in ("isinstance", "issubclass"):
                if self._names_a_kind(node.args[-1]):
                    yield node.lineno, "isinstance"
            elif asked.startswith("is_") and any(map(self._is_request, node.args)):
                yield node.lineno, "is_"
            elif asked == "type" and any(map(self._is_request, node.args)):
                yield node.lineno, "type"
        elif isinstance(node, ast.Attribute):
            if node.attr.startswith("is_") and self._is_request(node.value):
                yield node.lineno, "is_"
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            types = any(isinstance(one, ast.Call) and _name(one.func) == "type" for one in sides)
            if types and any(map(self._names_a_kind, sides)):
                yield node.lineno, "type"
            if any(map(_is_word, sides)) and any(map(self._has_word, sides)):
                yield node.lineno, "action"
        elif isinstance(node, ast.MatchClass):
            if self._names_a_kind(node.cls):
                yield node.lineno, "pattern"
        elif isinstance(node, ast.Match) and _is_word(node.subject):
            for case in node.cases:
                if self._has_word(case.pattern):
                    yield case.pattern.lineno, "action"

    def _names_a_kind(self, node: ast.AST | None) -> bool:
        return node is not None and any(_name(each) in self._names for each in ast.walk(node))

    def _has_word(self, node: ast.AST) -> bool:
        constants = (each for each in ast.walk(node) if isinstance(each, ast.Constant))
        return any(each.value in self._words for each in constants)

    def _is_request(self, node: ast.AST) -> bool:
        return _name(node).endswith("request") or _name(node) in self._requests


def _is_word(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in ("kind", "action")


def places(trees: Trees) -> list[Place]:
    """All places that ask, in order; two on one line that ask alike are one."""
    kinds = Kinds.of(trees)
    found: set[Place] = set()
    for module, tree in trees.items():
        if module not in kinds.modules:
            nodes = list(ast.walk(tree))
            asking = _Asking(kinds, nodes)
            found |= {Place(module, *way) for node in nodes for way in asking.ways(node)}
    return sorted(found)


def told(found: Iterable[Place]) -> str:
    """How many there are, by how they ask and by module."""
    found = list(found)
    modules, ways = Counter(one.module for one in found), Counter(one.how for one in found)
    lines = [f"{count:5} {module}" for module, count in modules.most_common()]
    by = ", ".join(f"{count} {how}" for how, count in ways.most_common())
    return "\n".join([*lines, f"{len(found):5} places in {len(modules)} modules: {by}"])


def code() -> Trees:
    """The modules of the working tree."""
    files = sorted(PACKAGE.rglob("*.py"))
    return {one.relative_to(PACKAGE).as_posix(): ast.parse(one.read_bytes()) for one in files}


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--all", action="store_true", help="each place")
    found = places(code())
    if parser.parse_args().all:
        print("\n".join(f"{one.module}:{one.line}: {one.how}" for one in found))
    print(told(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
