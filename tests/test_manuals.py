"""The manuals: every page is there in both languages, and every example in them runs.

A page is a script. Its fenced blocks are, by their info strings:

    text file PATH [crlf] [ENCODING]   the file has this content from here on, whoever wrote it
    json call TOOL                     a call; the body is its arguments
    yaml expect                        fields that the answer of the call above has
    text result PATH [crlf] [ENCODING] the file reads so now

In arguments and answers `<hunk_id>`, `<edit_id>` and `<version>` stand for the last
ones that an answer gave, `<earlier_hunk_id>` for the one before, `<read_version>`, `<read_sha256>` and `<read_mtime_ms>` for
the last ones that a read gave.
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
from copydesk.app import reference
from copydesk.app.config import Config, MemberConfig
from copydesk.app.reference import ws_mod
from copydesk.app.workspace import open_workspace
from copydesk.notes.grammar import Kind
from copydesk.notes.protocol import BlockChanged
from copydesk.notes.tools import notes
from copydesk.tools.batch import batch
from copydesk.tools.catalog import Catalog
from copydesk.tools.compat import compat
from copydesk.tools.patch import patch
from copydesk.tools.report import Lang
from support.cost import spread

LANGS: tuple[Lang, ...] = get_args(Lang)
TOPICS = ("index", "principles", "tools", "scenarios", "errors")
PAGES = [(toolset, topic) for toolset in reference.MANUALS for topic in reference.topics(toolset)]

CODES_OF_BATCH_ALONE = {"DUPLICATE_EDITS", "CONFLICT"}
CODES_OF_PATCH = {"INVALID_PATCH", "PATCH_REJECTED"}
CODES_OF_REVIEW = {"ALREADY_DECIDED"}
"""What only a person who decides on plans can meet."""

CODES_OF_PLANS = {
    *("CONTENT_REQUIRED", "ANCHOR_NOT_FOUND", "ANCHOR_AMBIGUOUS", "OCCURRENCE_OUT_OF_RANGE"),
    *("STATS_MISMATCH", "SUSPICIOUS_DIFF", "STALE_READ", "CONTENT_CHANGED", "AMBIGUOUS_MATCH"),
    *("INVALID_HUNK_ID", "HUNK_NOT_FOUND", "HUNK_REJECTED", "WRONG_OWNER", "WRONG_MODE"),
    "EDIT_NOT_FOUND",
}
"""What only tools that answer with a report refuse with."""
CODES_OF_ENVELOPE = {
    "INVALID_ARGS": {"INVALID_PARAM"},
    "PATH_REQUIRED": {"INVALID_PARAM"},
    "INVALID_PATH": {"INVALID_PARAM", "ACCESS_DENIED"},
    "INVALID_RANGE": {"INVALID_PARAM"},
    "RANGE_OUT_OF_BOUNDS": {"INVALID_PARAM"},
    "FILE_NOT_FOUND": {"NOT_FOUND"},
    "NOT_A_FILE": {"IS_DIRECTORY", "EXECUTION_ERROR"},
    "FILE_TOO_LARGE": {"EXECUTION_ERROR"},
    "BUSY": {"TIMEOUT"},
    "FAILED": {"PERMISSION_DENIED", "TIMEOUT", "EXECUTION_ERROR", "INTERNAL_ERROR"},
}
"""What an envelope calls the refusals that have another name there."""

ROWS = (*ws_mod(), *batch(), *compat())
TOOLS = Catalog(ROWS).tools
MANUALS = {
    "ws_mod": tuple(tool.name for tool in ws_mod()),
    "batch": (
        *(tool.name for tool in batch()[:-1]),
        *("prepare_file_move", "prepare_file_delete", "prepare_batch_edit"),
        *("show_hunk", "apply_file_modification"),
    ),
    "compat": (
        *(tool.name for tool in compat()),
        *("apply_file_modification", "undo_file_modification"),
    ),
}
"""The tools that have a chapter in their toolset's own page, in its order."""
BOTH = [(toolset, lang) for toolset in MANUALS for lang in LANGS]

MOST_BYTES = 11_000
"""An answer takes 4,000 tokens, of 3 bytes."""

_FENCE = re.compile(r"(`{3,})(.*)")
_NAME = r"<(hunk_id|earlier_hunk_id|edit_id|version|read_version|read_sha256|read_mtime_ms)>"


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
        self.known: dict[str, str | int] = {}
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
        if report.is_error:
            for row in self.answer.get("fits", ()):
                self.known["hunk_id"] = row["hunk_id"]
            return
        given = {**self.answer, **self.answer.get("data", {}), **self.answer.get("stats", {})}
        wanted = ("hunk_id", "edit_id", "version")
        found = {name: given[name] for name in wanted if name in given}
        if found.get("hunk_id") not in (None, self.known.get("hunk_id", found.get("hunk_id"))):
            found["earlier_hunk_id"] = self.known["hunk_id"]
        if tool.endswith("read_file"):
            found["read_version"] = given["version"]
        if tool == "Read":
            found["read_sha256"] = given["file_sha256"]
            found["read_mtime_ms"] = given["file_mtime_ms"]
        self.known |= found

    def _filled(self, value: Any) -> Any:
        if isinstance(value, str):
            whole = re.fullmatch(_NAME, value)
            if whole:  # a number stays a number
                return self.known[whole[1]]
            return re.sub(_NAME, lambda found: str(self.known[found[1]]), value)
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


@pytest.mark.parametrize(
    ("toolset", "topic", "lang"), spread([(*page, lang) for page in PAGES for lang in LANGS], of=3)
)
def test_the_examples_of_a_page_run(toolset: str, topic: str, lang: Lang, tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    with stage.opened:
        for block in script_of(reference.read(toolset, topic, lang)):
            try:
                stage.run(block)
            except AssertionError as failure:
                message = f"{toolset}/{lang}/{topic}.md:{block.line}: {failure}"
                raise AssertionError(message) from None


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


def headings_of(page: str, level: int) -> list[str]:
    """The headings of a level outside of fenced blocks."""
    mark = "#" * level + " "
    return [line.removeprefix(mark) for line in prose_of(page) if line.startswith(mark)]


def test_both_languages_have_the_same_examples_and_chapters() -> None:
    """A manual that was changed in one language only is wrong in the other."""
    for page in PAGES:
        texts = [reference.read(*page, lang) for lang in LANGS]
        scripts = [[(block.info, block.text) for block in script_of(text)] for text in texts]
        heads = [[line for line in prose_of(text) if line.startswith("#")] for text in texts]
        levels = [[len(line) - len(line.lstrip("#")) for line in lines] for lines in heads]
        assert all(other == scripts[0] for other in scripts), page
        assert all(other == levels[0] for other in levels), page


def every_code() -> set[str]:
    """The codes of all refusals of the files' tools; those of notes have their own manual."""
    kinds = [errors.Refusal]
    for kind in kinds:
        kinds += [k for k in kind.__subclasses__() if k.__module__ == errors.__name__]
    return {kind.code for kind in kinds} - CODES_OF_REVIEW


def codes_of_envelope() -> set[str]:
    """The codes that an envelope can have."""
    own = every_code() - CODES_OF_PLANS - CODES_OF_PATCH
    named = (CODES_OF_ENVELOPE.get(code, {code}) for code in own)
    return set[str]().union(*named)


@pytest.mark.parametrize(("toolset", "lang"), BOTH)
def test_every_code_has_a_chapter_in_the_errors_page(toolset: str, lang: Lang) -> None:
    codes = {
        "ws_mod": every_code() - CODES_OF_BATCH_ALONE - CODES_OF_PATCH,
        "batch": codes_of_envelope(),
        # nothing is expected of a file, and edits are made one after the other
        "compat": codes_of_envelope() - {"CONFLICT", "COLLISION_DETECTED", "DUPLICATE_EDITS"},
    }
    page = reference.read(toolset, "errors", lang)
    assert sorted(headings_of(page, 3)) == sorted(codes[toolset])


def chapters_of(page: str) -> dict[str, str]:
    """The chapters of the third level of a page, by heading."""
    return dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", page, re.DOTALL | re.MULTILINE))


@pytest.mark.parametrize(("toolset", "lang"), BOTH)
def test_every_tool_has_a_chapter_with_parts_calls_and_arguments(toolset: str, lang: Lang) -> None:
    names = MANUALS[toolset]
    assert sorted(names) == sorted(tool.name for tool in Catalog(ROWS).of([toolset]))
    page = reference.read(toolset, "tools", lang)
    prose = chapters_of("\n".join(prose_of(page)))
    assert tuple(prose) == names
    parts = [re.findall(r"^\*\*(.+?)\*\*", text, re.MULTILINE) for text in prose.values()]
    assert len(parts[0]) == 8
    assert all(found == parts[0] for found in parts)
    assert {block.info[2] for block in script_of(page) if block.info[1] == "call"} == set(names)
    chapters, common = chapters_of(page), page.partition("\n### ")[0]
    for name in names:
        properties = TOOLS[name].schema["properties"]
        inner = properties.get("edits", {}).get("items", {}).get("properties", {})
        for argument in (*properties, *inner):
            assert f"`{argument}`" in chapters[name] + common, f"{name}.{argument}"


@pytest.mark.slow
@pytest.mark.parametrize(("toolset", "lang"), BOTH)
def test_every_call_signature_has_the_arguments_of_the_tool(toolset: str, lang: Lang) -> None:
    for name, chapter in chapters_of(reference.read(toolset, "tools", lang)).items():
        required, properties = (TOOLS[name].schema[key] for key in ("required", "properties"))
        arguments = [one if one in required else f"{one}?" for one in properties]
        assert f"`{name}({{ {', '.join(arguments)} }})`" in chapter


@pytest.mark.parametrize(
    ("lang", "signature", "parameters", "added"),
    [
        (
            "en",
            "**Call signature**: ",
            "**Parameters**: none.",
            " `path`: Directory; . is the root.",
        ),
        ("zh", "**调用签名**：", "**参数**：无。", " `path`：目录；. 为根"),
    ],
)
def test_a_chapter_gains_arguments(lang: Lang, signature: str, parameters: str, added: str) -> None:
    """A new argument needs no other page of the manual."""
    chapter = f"\n### list_dir\n\n{signature}`list_dir({{ … }})`\n\n{parameters}\n\n`more`\n"
    made = chapter.replace("{ … }", "{ path }").replace(parameters, parameters + added)
    assert reference.with_arguments(f"# Page{chapter}", lang) == f"# Page{made}"
    named = f"# Page\n\n`path` is shared.{chapter}"
    assert reference.with_arguments(named, lang) == named.replace("{ … }", "{ path }")


def test_the_pages_are_where_they_are_said_to_be() -> None:
    folder = Path(str(reference.__file__)).parent / "manuals"
    found = {str(path.relative_to(folder)) for path in folder.rglob("*.md")}
    pages = (*PAGES, *((toolset, "instructions") for toolset in reference.MANUALS))
    assert found == {f"{toolset}/{lang}/{topic}.md" for toolset, topic in pages for lang in LANGS}


@pytest.mark.parametrize("way", ["../", "../../"])
def test_what_is_not_there_is_refused_with_what_is(way: str) -> None:
    wrong = ("no", "index"), ("ws_mod", "no"), ("ws_mod", f"{way}team_mgmt/en/index")
    for toolset, topic in wrong:
        for read, known in ((reference.read, TOPICS), (reference.part, ("scenarios",))):
            with pytest.raises(errors.InvalidArgs) as refusal:
                read(toolset, topic, "en")
            names = known if toolset == "ws_mod" else ("ws_mod",)
            assert all(name in refusal.value.reason for name in names)


@pytest.mark.parametrize("lang", LANGS)
def test_the_instructions_are_short_and_in_their_order(lang: Lang) -> None:
    """An agent has to learn that there is more, and how a user switches it on."""
    known = reference.MANUALS
    parts = [reference.instructions([toolset], lang) for toolset in known]
    assert all(0 < len(part) < 2_000 for part in parts)
    assert reference.instructions(reversed(known), lang) == "\n\n".join(parts)
    assert reference.instructions([], lang) == ""
    said = reference.instructions(["ws_mod"], lang)
    assert all(word in said for word in ("BatchEdit", "toolsets", "copydesk.toml", "manual"))


def codes_of_notes() -> set[str]:
    """The codes that tools of notes alone refuse with, and those of a block diff's problems."""
    kinds = [errors.Refusal]
    for kind in kinds:
        kinds += kind.__subclasses__()
    own = {kind.code for kind in kinds if ".notes." in kind.__module__}
    return own | {kind.partition(".")[0] for kind in get_args(Kind)} | {BlockChanged.code}


@pytest.mark.parametrize("lang", LANGS)
def test_the_manuals_of_patches_and_notes_have_every_tool_and_every_code(lang: Lang) -> None:
    assert set(chapters_of(reference.read("patch", "errors", lang))) == CODES_OF_PATCH
    index = reference.read("patch", "index", lang)
    assert tuple(chapters_of(index)) == tuple(tool.name for tool in patch())
    assert all(f"`{tool.name}`" in index for tool in Catalog(ROWS).of(["patch"]))
    assert sorted(headings_of(reference.read("notes", "errors", lang), 3)) == sorted(
        codes_of_notes()
    )
    index = reference.read("notes", "index", lang)
    assert all(f"`{tool.name}`" in index for tool in notes())


@pytest.mark.slow
@pytest.mark.parametrize(("toolset", "lang"), BOTH)
def test_every_tool_and_every_code_is_a_topic_of_its_own(toolset: str, lang: Lang) -> None:
    names = reference.all_topics(toolset, lang)
    assert set(names) >= {*reference.topics(toolset), *MANUALS[toolset]}
    for page in ("tools", "errors"):
        whole = reference.read(toolset, page, lang)
        for name, text in re.findall(r"^### (\w+)\n(.*?)(?=^#{2,3} |\Z)", whole, re.S | re.M):
            assert name in names
            found = reference.part(toolset, name.lower(), lang)
            assert found.startswith(f"### {name}\n")
            assert len(found) >= len(text.strip()) * ("```" not in text)
            assert "\n### " not in found
    found = reference.part("ws_mod", "Arguments", "en")  # a heading stands for all that is below it
    assert found.startswith("## Arguments\n")
    assert "\n### INVALID_ARGS\n" in found
    assert "\n## " not in found


@pytest.mark.slow
@pytest.mark.parametrize("lang", LANGS)
def test_a_page_that_names_many_things_is_asked_for_as_a_list_of_them(lang: Lang) -> None:
    """Each answer fits into what one may take, and leads on to the parts."""
    for toolset, topic in PAGES:
        found, whole = reference.part(toolset, topic, lang), reference.read(toolset, topic, lang)
        assert len(found.encode()) < MOST_BYTES
        if topic not in ("tools", "errors", "scenarios") or len(whole) <= 4_000:
            assert found == whole
            continue
        headings = [line for line in prose_of(whole) if line.startswith("##")]
        last = max(len(line) - len(line.lstrip("#")) for line in headings)
        listed = headings_of(whole, last)
        assert [line for line in listed if f"- `{line}`" not in found] == []
        assert "```" not in found
        for line in listed:
            assert reference.part(toolset, line, lang).startswith(f"{'#' * last} {line}\n")
    else:
        assert found == whole


@pytest.mark.parametrize(
    ("toolset", "topic"),
    [("no", "index"), ("ws_mod", "no"), ("ws_mod", "../../team_mgmt/en/index")],
)
def test_a_part_that_is_not_there_is_refused_with_what_is(toolset: str, topic: str) -> None:
    with pytest.raises(errors.InvalidArgs) as refusal:
        reference.part(toolset, topic, "en")
    assert all(
        name in refusal.value.reason for name in ("ws_mod", "scenarios")[toolset != "no" :][:1]
    )


@pytest.mark.parametrize("lang", LANGS)
def test_the_tool_shows_a_part_of_a_manual(tmp_path: Path, lang: Lang) -> None:
    with open_workspace(str(tmp_path), Config(), shared=False) as opened:
        for given, toolset, topic in (
            ({}, "ws_mod", "index"),
            ({"topic": "STALE_READ"}, "ws_mod", "STALE_READ"),
            ({"toolset": "batch", "topic": "BatchEdit"}, "batch", "BatchEdit"),
        ):
            answer = opened.call("local", "manual", given, lang=lang)
            page = reference.part(toolset, topic, lang)
            assert page in answer.text
            assert answer.data["content"] == page
        refused = opened.call("local", "manual", {"topic": "nothing"}, lang=lang)
        assert refused.fields["error"] == "INVALID_ARGS"
        assert "principles, tools, scenarios, errors" in refused.text


def test_a_heading_stands_for_all_that_is_below_it() -> None:
    found = reference.part("ws_mod", "Arguments", "en")
    assert found.startswith("## Arguments\n")
    assert "\n### INVALID_ARGS\n" in found
    assert "\n## " not in found


def test_the_default_toolset_names_the_other_one() -> None:
    """An agent has to learn that there is more, and how a user switches it on."""
    for lang in LANGS:
        said = reference.instructions(["ws_mod"], lang)
        assert all(word in said for word in ("BatchEdit", "toolsets", "copydesk.toml", "manual"))
