"""The manuals: every page is there in both languages, and every example in them runs.

A page is a script. Its fenced blocks are, by their info strings:

    text file PATH [crlf] [ENCODING]   the file has this content from here on, whoever wrote it
    json call TOOL                     a call; the body is its arguments
    yaml expect                        fields that the answer of the call above has
    text result PATH [crlf] [ENCODING] the file reads so now

In arguments and answers `<hunk_id>` and `<version>` stand for the last ones
that an answer gave, `<read_version>` for the last one that a read gave.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import pytest
from ruamel.yaml import YAML

from copydesk import errors
from copydesk.app.config import Config, MemberConfig
from copydesk.app.opening import open_workspace
from copydesk.tools import manuals
from copydesk.tools.report import Lang
from copydesk.tools.ws_mod import ws_mod

LANGS: tuple[Lang, ...] = get_args(Lang)
TOPICS = ("index", "principles", "tools", "scenarios", "errors")
PAGES = [(toolset, topic) for toolset in manuals.toolsets() for topic in manuals.topics(toolset)]

CODES_OF_BATCH = {"PARTIAL_MATCH_FAIL", "COLLISION_DETECTED", "DUPLICATE_EDITS", "CONFLICT"}

_FENCE = re.compile(r"(`{3,})(.*)")
_NAME = r"<(hunk_id|version|read_version)>"


@dataclass(frozen=True)
class Block:
    """A fenced block: the words of its info string, its text, the line it starts at."""

    info: tuple[str, ...]
    text: str
    line: int


def blocks_of(page: str) -> Iterator[Block]:
    """The fenced blocks of a page, those within a longer fence not counted."""
    lines = iter(enumerate(page.split("\n"), 1))
    for number, line in lines:
        opened = _FENCE.fullmatch(line)
        if not opened:
            continue
        body: list[str] = []
        for _, inner in lines:
            if inner == opened[1]:
                break
            body.append(inner)
        else:
            raise AssertionError(f"line {number}: a fence without an end")
        yield Block(tuple(opened[2].split()), "".join(f"{part}\n" for part in body), number)


def script_of(page: str) -> list[Block]:
    """The blocks that do something."""
    kinds = {("text", "file"), ("json", "call"), ("yaml", "expect"), ("text", "result")}
    return [block for block in blocks_of(page) if block.info[:2] in kinds]


class Stage:
    """A workspace in which the blocks of one page are run."""

    def __init__(self, root: Path) -> None:
        members = {"local": MemberConfig(team_mgmt=True)}
        self.root = root
        config = replace(Config(), durability="fast", members=members)
        self.opened = open_workspace(str(root), config, shared=False)
        self.known: dict[str, str] = {}
        self.answer: dict[str, Any] = {}

    def run(self, block: Block) -> None:
        """Do what the block says; AssertionError when the page is not true."""
        kind, *rest = block.info[1:]
        if kind == "file":
            path = self.root / rest[0]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(_bytes(block, rest[1:]))
        elif kind == "result":
            assert (self.root / rest[0]).read_bytes() == _bytes(block, rest[1:])
        elif kind == "call":
            self._call(rest[0], self._filled(json.loads(block.text)))
        else:
            wanted = self._filled(YAML(typ="safe", pure=True).load(block.text))
            assert differences(wanted, self.answer) == [], self.answer

    def _call(self, tool: str, arguments: dict[str, Any]) -> None:
        report = self.opened.call("local", tool, arguments)
        self.answer = dict(report.data)
        for name in ("hunk_id", "version"):
            if isinstance(found := self.answer.get(name), str) and not report.is_error:
                self.known[name] = found
        if tool.endswith("read_file") and "version" in self.answer:
            self.known["read_version"] = self.answer["version"]

    def _filled(self, value: Any) -> Any:
        if isinstance(value, str):
            return re.sub(_NAME, lambda found: self.known[found[1]], value)
        if isinstance(value, list):
            return [self._filled(item) for item in value]
        if isinstance(value, dict):
            return {key: self._filled(item) for key, item in value.items()}
        return value


def _bytes(block: Block, how: list[str]) -> bytes:
    text = block.text.replace("\n", "\r\n") if "crlf" in how else block.text
    encodings = [word for word in how if word != "crlf"]
    return text.encode(encodings[0] if encodings else "utf-8")


def differences(wanted: Any, found: Any, where: str = "") -> list[str]:
    """Where `found` lacks or contradicts what is wanted; more than is wanted may be there."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return [
            difference
            for key, value in wanted.items()
            for difference in (
                differences(value, found[key], f"{where}.{key}")
                if key in found
                else [f"{where}.{key} is missing"]
            )
        ]
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        pairs = enumerate(zip(wanted, found, strict=True))
        return [d for i, (a, b) in pairs for d in differences(a, b, f"{where}[{i}]")]
    same = wanted == found and type(wanted) is type(found)
    return [] if same else [f"{where}: wanted {wanted!r}, found {found!r}"]


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize(("toolset", "topic"), PAGES)
def test_the_examples_of_a_page_run(toolset: str, topic: str, lang: Lang, tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    with stage.opened:
        for block in script_of(manuals.read(toolset, topic, lang)):
            try:
                stage.run(block)
            except AssertionError as failure:
                message = f"{toolset}/{lang}/{topic}.md:{block.line}: {failure}"
                raise AssertionError(message) from None


@pytest.mark.parametrize(("toolset", "topic"), PAGES)
def test_both_languages_have_the_same_examples(toolset: str, topic: str) -> None:
    """A manual that was changed in one language only is wrong in the other."""
    first, *others = (
        [(block.info, block.text) for block in script_of(manuals.read(toolset, topic, lang))]
        for lang in LANGS
    )
    assert all(other == first for other in others)


@pytest.mark.parametrize(("toolset", "topic"), PAGES)
def test_both_languages_have_the_same_chapters(toolset: str, topic: str) -> None:
    first, *others = (
        [
            len(line) - len(line.lstrip("#"))
            for line in prose_of(manuals.read(toolset, topic, lang))
            if line.startswith("#")
        ]
        for lang in LANGS
    )
    assert all(other == first for other in others)


def prose_of(page: str) -> list[str]:
    """The lines of a page that stand in no fenced block."""
    found: list[str] = []
    fence = ""
    for line in page.split("\n"):
        if fence:
            fence = "" if line == fence else fence
        elif opened := _FENCE.fullmatch(line):
            fence = opened[1]
        else:
            found.append(line)
    return found


def every_code() -> set[str]:
    """The codes of all refusals."""
    found: set[str] = set()
    kinds = [errors.Refusal]
    for kind in kinds:
        found.add(kind.code)
        kinds += kind.__subclasses__()
    return found


@pytest.mark.parametrize("lang", LANGS)
def test_every_code_has_a_chapter_in_the_errors_page(lang: Lang) -> None:
    page = manuals.read("ws_mod", "errors", lang)
    headings = {line.removeprefix("### ") for line in prose_of(page) if line.startswith("### ")}
    assert headings == every_code() - CODES_OF_BATCH


@pytest.mark.parametrize("lang", LANGS)
def test_every_tool_has_a_chapter_with_the_same_parts(lang: Lang) -> None:
    page = "\n".join(prose_of(manuals.read("ws_mod", "tools", lang)))
    chapters = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", page, re.DOTALL | re.MULTILINE))
    assert list(chapters) == [tool.name for tool in ws_mod()]
    parts = [re.findall(r"^\*\*(.+?)\*\*", text, re.MULTILINE) for text in chapters.values()]
    assert len(parts[0]) == 8
    assert all(found == parts[0] for found in parts)


@pytest.mark.parametrize("lang", LANGS)
def test_every_tool_is_called_in_the_tools_page(lang: Lang) -> None:
    script = script_of(manuals.read("ws_mod", "tools", lang))
    called = {block.info[2] for block in script if block.info[1] == "call"}
    assert called == {tool.name for tool in ws_mod()}


@pytest.mark.parametrize("lang", LANGS)
def test_every_argument_of_a_tool_stands_in_its_chapter(lang: Lang) -> None:
    page = manuals.read("ws_mod", "tools", lang)
    chapters = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", page, re.DOTALL | re.MULTILINE))
    common = page.partition("\n### ")[0]
    for tool in ws_mod():
        for argument in tool.schema["properties"]:
            said = f"`{argument}`" in chapters[tool.name] or f"`{argument}`" in common
            assert said, f"{tool.name}.{argument}"


def test_the_pages_are_where_they_are_said_to_be() -> None:
    folder = Path(str(manuals.__file__)).parent
    found = {str(path.relative_to(folder)) for path in folder.rglob("*.md")}
    assert found == {f"{toolset}/{lang}/{topic}.md" for toolset, topic in PAGES for lang in LANGS}


@pytest.mark.parametrize(
    ("toolset", "topic"), [("no", "index"), ("ws_mod", "no"), ("ws_mod", "../team_mgmt/en/index")]
)
def test_what_is_not_there_is_refused_with_what_is(toolset: str, topic: str) -> None:
    with pytest.raises(errors.InvalidArgs) as refusal:
        manuals.read(toolset, topic, "en")
    assert all(known in refusal.value.reason for known in (("ws_mod",), TOPICS)[toolset != "no"])


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("toolsets", [(), ("ws_mod",), ("team_mgmt",), manuals.toolsets()])
def test_the_instructions_are_short(toolsets: tuple[str, ...], lang: Lang) -> None:
    text = manuals.instructions(toolsets, lang)
    assert len(text) < 2_500
    assert bool(text) == bool(toolsets)
