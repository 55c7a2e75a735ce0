"""The words: all there are, in both languages, each with facts that are really known."""

from __future__ import annotations

import ast
import json
import pickle
import re
import shutil
import string
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, cast, get_args, get_origin, get_type_hints

import pytest

from copydesk import errors
from copydesk.app.config import Config, MemberConfig
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.desk.changes import Selection
from copydesk.desk.review import Seen
from copydesk.edit.request import Append
from copydesk.errors import (
    CheckFinding,
    Clash,
    Crashed,
    Failed,
    FailedEdit,
    HunkNotFound,
    LineShown,
    Refusal,
    RejectedHunk,
    StateFailed,
    Unsettled,
)
from copydesk.search.ripgrep import FoundFiles, Warned
from copydesk.search.tools import remarks, so_far
from copydesk.text import sizes
from copydesk.text.relocation import Reason
from copydesk.text.relpath import RelPath
from copydesk.tools import messages
from copydesk.tools.refusals import check_words, refusal_words
from copydesk.tools.report import Lang
from support.code import trees

LANGS: tuple[Lang, Lang] = ("en", "zh")
SAMPLES: dict[object, object] = {
    str: "sample",
    int: 7,
    bool: True,
    LineShown: LineShown(3, "text"),
    FailedEdit: FailedEdit(0, "none", 0, ()),
    RejectedHunk: RejectedHunk("a.py", 1, "several_places", 3, (1, 4)),
    Clash: Clash(0, 1, "1~2", "2~3"),
    CheckFinding: CheckFinding("syntax", "refuse", "a.py", "invalid syntax", 3),
}
DATA = {
    lang: tomllib.loads(Path(messages.__file__).with_name(f"{lang}.toml").read_text("utf-8"))
    for lang in LANGS
}
SAYINGS: Mapping[str, tuple[str, str]] = {
    name: (text, messages.texts("zh").messages[name])
    for name, text in messages.texts("en").messages.items()
}
OF_NOTES = DATA["en"]["messages"]["notes"]


def placeholders(text: str) -> set[str]:
    """The facts that a saying names, in the noun of a number too."""
    found: set[str] = set()
    for _, name, spec, _ in string.Formatter().parse(text):
        if name is not None:
            found |= {name} | placeholders(spec or "")
    return found


def all_refusals(root: type[Refusal] = Refusal) -> Iterator[type[Refusal]]:
    for kind in root.__subclasses__():
        if kind.__module__ == errors.__name__ and kind is not errors.OfPlan:  # a base of others
            yield kind
        yield from all_refusals(kind)


def sample(hint: Any) -> object:
    """A value of a type."""
    if get_origin(hint) is tuple:
        return tuple(sample(part) for part in get_args(hint) if part is not Ellipsis)
    if get_origin(hint) is Mapping:
        return {"expected": sample(get_args(hint)[1]), "actual": sample(get_args(hint)[1])}
    choices = [part for part in get_args(hint) if part is not type(None)] or [hint]
    if choices != [hint]:
        return sample(choices[0])
    return SAMPLES[hint]


def samples(kind: type[Refusal]) -> Iterator[Refusal]:
    """The refusal with all its facts, and with none of those that may be missing."""
    hints = get_type_hints(kind)
    named = [field for field in fields(kind) if field.name != "code"]
    full = {field.name: sample(hints[field.name]) for field in named}
    needed = {f.name: full[f.name] for f in named if f.default is MISSING}
    if kind is HunkNotFound:
        for reason in ("unknown", "applied", "discarded", "expired"):
            yield kind(**{**full, "reason": reason})
    else:
        yield kind(**full)
        yield kind(**needed)


@pytest.mark.parametrize("lang", LANGS)
def test_every_refusal_has_words_without_a_gap(lang: Lang) -> None:
    for refusal in chain.from_iterable(map(samples, all_refusals())):
        said = refusal_words(refusal, lang)
        assert said, refusal
        assert "?" not in said, said
        assert "None" not in said, said
        assert not set("()[]'") & set(said.replace("(s)", "")) or "(" in said, said
        assert ("已" in said or any(ord(c) > 0x2E80 for c in said)) is (lang == "zh"), said


@pytest.mark.parametrize("kind", sorted(all_refusals(), key=lambda kind: kind.__name__))
def test_a_refusal_reaches_another_process(kind: type[Refusal]) -> None:
    for refusal in samples(kind):
        refusal.path = "a.txt"
        refusal.add_note("more")
        again = pickle.loads(pickle.dumps(refusal))
        assert (type(again), vars(again), str(again)) == (kind, vars(refusal), str(refusal))


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("reason", get_args(Reason))
def test_why_a_place_is_not_found_again_is_said_in_words(reason: str, lang: Lang) -> None:
    said = refusal_words(errors.ContentChanged(reason, "2~3"), lang)
    assert f": {reason}." not in said
    assert f"：{reason}。" not in said


def test_every_code_is_one_refusal() -> None:
    # These are FAILED too: callers do the same about them, only the words are others.
    own_words = (Crashed, Unsettled, *Failed.__subclasses__(), *StateFailed.__subclasses__())
    codes = [kind.code for kind in all_refusals() if kind not in own_words]
    assert len(set(codes)) == len(codes)
    assert all(code in SAYINGS or f"{code}.unknown" in SAYINGS for code in codes)


def keys(table: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a table and of those in it, in their order; texts are left out."""
    return {k: keys(v) if isinstance(v, dict) else None for k, v in table.items()}


def test_both_languages_have_the_same_keys_in_the_same_order() -> None:
    english, chinese = (json.dumps(keys(DATA[lang]), indent=1) for lang in LANGS)
    reasons = json.dumps({"reasons": keys(DATA["zh"]["reasons"])}, indent=1)[1:-2]
    assert chinese.replace(reasons + ",", "") == english
    assert len(SAYINGS) == sum(map(len, DATA["en"]["messages"].values())), "a key is of one group"


def test_the_reasons_are_translated() -> None:
    for reason, said in DATA["zh"]["reasons"].items():
        sample = reason.replace("{}", "7")
        assert messages.say_reason(sample, "zh") == said.replace("{}", "7")
        assert messages.say_reason(sample, "en") == sample
        assert said.count("{}") == reason.count("{}")
        assert not re.search("[\u4e00-\u9fff]", reason)
        assert not said.isascii()
    assert messages.say_reason("ENOSPC", "zh") == "ENOSPC"


def reasons_in_code() -> Iterator[tuple[str, str]]:
    """The code of each refusal that is made with words of our own, and these; 7 for what differs."""
    kinds = {kind.__name__: kind for kind in all_refusals()}
    for _, called, call in code().calls:
        if called == "check" and call.args and isinstance(call.args[-1], ast.Dict):
            own = isinstance(call.args[0], ast.Name)  # else they are words about options of rg
            for said in chain.from_iterable(map(words_of, call.args[-1].keys if own else ())):
                yield errors.InvalidArgs.code, said
        if (kind := kinds.get(called)) is None:
            continue
        names = [one.name for one in fields(kind)]
        given = {**dict(zip(names, call.args, strict=False))}
        given |= {one.arg: one.value for one in call.keywords if one.arg}
        for name in ("reason", "operation", "kind"):
            for said in words_of(given.get(name)):
                yield kind.code, said


def words_of(value: ast.expr | None) -> Iterator[str]:
    """The texts that an expression may be, as far as it shows."""
    match value:
        case ast.IfExp(body=one, orelse=other):
            yield from (*words_of(one), *words_of(other))
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=parts):
            yield "".join(str(one.value) if isinstance(one, ast.Constant) else "7" for one in parts)


def test_every_reason_in_the_code_has_chinese_words() -> None:
    found = {*reasons_in_code()}
    assert len(found) > 80
    own = {key.rpartition(".")[2] for key in SAYINGS}  # a message of its own
    missing = {
        (code, said)
        for code, said in found
        if said not in own
        and messages.say_reason(said, "zh") == said
        and said not in ("", "7: 7", "cancelled", "the file has 7", "7table 7 is missing")
    }
    assert not missing


def test_every_error_of_the_command_line_has_chinese_words() -> None:
    raised = [
        call for path, name, call in code().calls if name == "UsageError" and "cli" in path.parts
    ]
    texts = {text for call in raised for argument in call.args for text in words_of(argument)}
    assert len(texts) > 25
    named = ("copydesk help", "copydesk completion", "copydesk review", "copydesk apply")
    missing = {text for text in texts if messages.say_reason(text, "zh") == text}
    left = {text for text in missing if not text.startswith(("7", "no 7", *named))}
    assert left <= {"", "the workspace 7 7"}  # its two ends are translated


def test_a_language_is_read_when_it_is_needed() -> None:
    seen = "messages.texts.cache_info().currsize"
    program = f"from copydesk.tools import messages; before = {seen}; "
    program += f"messages.say('edits.none', 'en'); print(before, {seen})"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert ran.stdout.split() == [b"0", b"1"]


PRIVATE = re.compile(
    r"\b(mend(ed)?|settled?|queues?|let (it|plans|a plan) go|waits? on|stands?|stood)\b"
)
"""Words of this code that a user does not know; a user reads fix, recover, lock, discard, is."""
TERMS = re.compile(
    r"(ID|SEARCH|REPLACE|APPEND|Markdown|diff|@@|[A-Z]:id@@|\\\\xNN|Check your slice range\.\))$"
)
"""What a Chinese sentence may end in that is not Chinese: what has to be typed just so."""


def every_text(table: Mapping[str, Any]) -> Iterator[str]:
    for value in table.values():
        yield from every_text(value) if isinstance(value, dict) else (value,)


def test_no_private_word_reaches_a_user_and_no_chinese_sentence_ends_in_english() -> None:
    assert [text for text in every_text(DATA["en"]) if PRIVATE.search(text)] == []
    for text in every_text(DATA["zh"]):
        for sentence in text.split("。")[:-1]:
            assert not re.search(r"[A-Za-z@]$", sentence) or TERMS.search(sentence), text


def test_both_languages_say_the_same() -> None:
    for name, (english, chinese) in SAYINGS.items():
        assert english != chinese, name
        assert placeholders(english) == placeholders(chinese), name
        assert any(ord(character) > 0x2E80 for character in chinese), name
        assert not any(ord(character) > 0x2E80 for character in english), name
        assert "(s)" not in english, name
        if name.endswith(".less"):
            whole, _ = SAYINGS[name.removesuffix(".less")]
            assert placeholders(english) < placeholders(whole), name


class Code(NamedTuple):
    """What the tests of messages look for in the package's code."""

    calls: list[tuple[Path, str, ast.Call]]
    """All calls of a name, with file and name."""
    texts: set[str]
    """All sayings that an expression may name."""


@cache
def code() -> Code:
    """The code of the package, read once."""
    found = Code([], set())
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                found.calls.append((path, node.func.id, node))
            elif isinstance(node, ast.expr):
                found.texts.update(strings(node))
    return found


def calls() -> Iterator[tuple[str, ast.Call]]:
    """All calls of `say` in the package."""
    for path, name, call in code().calls:
        if name == "say" and path.parent.name != "messages":
            yield path.name, call


def strings(node: ast.expr) -> Iterator[str]:
    """The sayings that an argument may name; one that is made ends with a star."""
    match node:
        case ast.Constant(value=value):
            yield str(value)
        case ast.IfExp(body=one, orelse=other):
            yield from (*strings(one), *strings(other))
        case ast.JoinedStr(values=[ast.Constant(value=start), *_]):
            yield f"{start}*"


def test_the_sayings_that_are_used_are_those_that_exist() -> None:
    used = 0
    for where, call in calls():
        for name in strings(call.args[0]):
            used += 1
            there = [one for one in SAYINGS if one == name or one.startswith(name.rstrip("*"))]
            assert there if name.endswith("*") else name in SAYINGS, (where, name)
    assert used > 15
    known = {kind.code for kind in all_refusals()} | code().texts
    for name in SAYINGS:
        head = name.partition(".")[0]
        assert known & {name, head, f"{head}.*"}, name


def test_facts_that_are_written_at_the_call() -> None:
    checked = 0
    for where, call in calls():
        facts = call.args[2] if len(call.args) > 2 else None
        if isinstance(facts, ast.Dict) and None not in facts.keys:  # else some are from elsewhere
            known = {cast(ast.Constant, key).value for key in facts.keys}
            for name in strings(call.args[0]):
                checked += 1
                for said in _meant(name):
                    assert placeholders(SAYINGS[said][0]) <= known, (where, said)
        elif facts is None:
            for said in chain.from_iterable(map(_meant, strings(call.args[0]))):
                assert not placeholders(SAYINGS[said][0]), (where, said)
    assert checked > 5


def _meant(name: str) -> list[str]:
    """The messages of a name, which ends with * where only its beginning is written in the code."""
    start = name.removesuffix("*")
    said = [key for key in SAYINGS if key == name or (start != name and key.startswith(start))]
    assert said, name
    return said


class Recorded(dict[str, str]):
    """The messages of a language; the keys of those that were said go into `said`."""

    def __init__(self, texts: Mapping[str, str], said: set[str]) -> None:
        super().__init__(texts)
        self.said = said

    def __getitem__(self, key: str) -> str:
        self.said.add(key)
        return super().__getitem__(key)


@pytest.fixture
def said_keys(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The keys of the messages that are said from now on."""
    said: set[str] = set()
    found = {
        lang: replace(texts, messages=Recorded(texts.messages, said))
        for lang in LANGS
        for texts in [messages.texts(lang)]
    }
    monkeypatch.setattr(messages, "texts", found.__getitem__)
    return said


def operations(call: Callable[..., dict[str, Any]], root: Path) -> Iterator[str]:
    """Files that are deleted and moved, and come back."""
    (root / "gone.txt").write_text("one\n")
    (root / "gone.bin").write_bytes(b"\0\1")
    (root / "run").write_bytes(b"\0\1")
    made = [
        call("prepare_file_delete", path="gone.txt"),
        call("prepare_file_delete", path="gone.bin"),
        call("prepare_file_move", path="gone.bin", to="d/moved.bin"),
    ]
    yield from (str(one["summary"]) for one in made)
    mode = call("apply_diff", diff="diff --git a/run b/run\nold mode 100644\nnew mode 100755\n")
    for one in (made[0], made[2], mode["hunks"][0]):
        done = call("apply_file_modification", hunk_id=one["hunk_id"])
        yield str(done["summary"])
        yield str(call("undo_file_modification", edit_id=done["edit_id"])["summary"])
    ids = [call("prepare_file_append", path=one, content="x")["hunk_id"] for one in ("n", "o")]
    done = call("apply_file_modifications", hunk_ids=ids)["hunks"][0]
    for again in (False, True):
        given = {"edit_id": done["edit_id"], "transaction": True, "again": again}
        yield str(call("undo_file_modification", **given)["summary"])
    file = {"path": "redo.txt"}
    for tool, given, added in (
        ("create_new_file", {"content": "1\n2\n3\n"}, ""),
        ("Edit", {"old_string": "2\n", "new_string": "zwei\n"}, ""),
        ("Edit", {"old_string": "3\n", "new_string": "drei\n"}, "0\n"),
    ):
        call(tool, **file, **given)
        given = {"edit_id": call("list_edits")["edits"][0]["edit_id"]}
        call("undo_file_modification", **given)
        if added:
            (root / "redo.txt").write_text(added + (root / "redo.txt").read_text())
        yield str(call("undo_file_modification", **given, again=True)["summary"])


def story(desk: OpenWorkspace, root: Path, lang: Lang) -> Iterator[str]:
    """Calls that make every kind of answer; their summaries."""

    def call(tool: str, **arguments: object) -> dict[str, Any]:
        return dict(desk.call("local", tool, arguments, lang=lang).data)

    def plan(tool: str, **arguments: object) -> dict[str, Any]:
        return call(f"prepare_file_{tool}", path="a.txt", **arguments)

    stopped = "untrusted", "missing", "timeout", "output", "died", "failed", "large"
    for reason in (*stopped, "text", "whole", "beside", "runner", "copy"):
        yield check_words(CheckFinding("ruff", "tell", "a.py", "7", not_run=reason), lang)
    yield check_words(CheckFinding("ruff", "tell", "a.py", "unused", 3, more=2), lang)
    (root / "a.txt").write_text("one\n\ntwo\nthree\nfour\nend\n")
    (root / "empty.txt").write_text("")
    (root / "wide.txt").write_text("x" * 150_000 + "\n\nlast\n")
    planned = "--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-one\n+ONE\n"
    yield call("apply_diff", diff=planned, apply="never")["summary"]
    replaced = plan("range_edit", range="1", content="eins")
    plans = [
        replaced,
        plan("range_edit", range="3~4"),
        plan("range_edit", range="1", content="one"),
        plan("append", content="x"),
        plan("append", content="\ufffd\n"),
        plan("insert_before", anchor="two", content="x\n\n"),
        plan("insert_after", anchor="one", content="\nx"),
        plan("insert_before", anchor="two", content="x\ufffd", apply="auto", version="x"),
        plan("insert_after", anchor="e", content="x", occurrence="1", apply="auto"),
        plan("block_replace", start_anchor="two", end_anchor="end", content="x"),
        call("prepare_batch_edit", path="a.txt", edits=[{"old_string": "one", "new_string": "1"}]),
    ]
    yield from (str(one["summary"]) for one in plans)
    for one in (plans[2], plans[3], replaced):
        yield call("apply_file_modification", hunk_id=one["hunk_id"])["summary"]
    for text, one in (
        ("zero\none\n\ntwo\nthree\nfour\nend\nx\n", plans[1]),
        ("changed\n", plans[9]),
    ):
        (root / "a.txt").write_text(text)
        yield call("apply_file_modification", hunk_id=one["hunk_id"])["summary"]
    for arguments in ({}, {"range": "1"}, {"max_lines": 1}):
        yield call("read_file", path="wide.txt", **arguments)["summary"]
    yield call("read_file", path="empty.txt")["summary"]
    yield call("read_file", path="wide.txt", range="-1~")["summary"]
    yield call("list_dir", path=".")["summary"]
    for tool in ("ripgrep_files", "ripgrep_count", "ripgrep_snippets"):
        most = {"max_results" if tool == "ripgrep_snippets" else "max_files": 1}
        yield call(tool, pattern="a")["summary"]
        yield call(tool, pattern=".", **most)["summary"]
    yield from looking(desk, root, lang)
    yield from operations(call, root)
    yield call("create_new_file", path="new.txt", content="one")["summary"]
    size = {"known_old_total_lines": 1, "known_old_total_bytes": 4}
    for content in ("one\n", "two\n"):
        yield call("overwrite_entire_file", path="new.txt", content=content, **size)["summary"]
    yield call("Read", path="a.txt")["text"]
    yield call("Read", path="wide.txt", limit=1)["text"]
    yield call("Edit", path="a.txt", old_string="changed", new_string="x", dry_run=True)["text"]
    yield call("Edit", path="a.txt", old_string="changed", new_string="x")["text"]
    yield call("Write", path="fresh.txt", content="x\n")["text"]
    done = call(
        "Write", path="fresh.txt", content="\ufffd\n", overwrite=True, expected_size_bytes=2
    )
    yield done["text"].removesuffix("?")  # the warning is a question
    (root / "end.txt").write_text("x" * 150_000)
    for arguments in ({"path": "end.txt"}, {"path": "wide.txt", "start_line": 2, "limit": 1}):
        yield call("Read", **arguments)["text"]
    yield from elsewhere(desk, root, lang)
    (root / "b.txt").write_text("".join(f"{i}\n" for i in range(300)))
    for drift in ("", "first\n"):
        edits = [{"old_string": f"\n{i}{len(drift)}\n", "new_string": "\n"} for i in range(1, 9)]
        one = call("prepare_batch_edit", path="b.txt", edits=edits)
        (root / "b.txt").write_text(drift + (root / "b.txt").read_text())
        yield call("apply_file_modification", hunk_id=one["hunk_id"])["summary"]
    yield from corrected(desk, root, lang)
    yield from past(desk, root, lang)
    yield from at_once(desk, root, lang)
    yield from together(desk, root, lang)
    (root / "all.txt").write_text("1\n2\n3\n4\n5\n6\nneun\n7\nacht\n")
    yield from decided(desk, lang)


def corrected(desk: OpenWorkspace, root: Path, lang: Lang) -> Iterator[str]:
    """Old texts that are not there as written, lines that are there already, by numbers alone."""

    def text(tool: str, **arguments: object) -> str:
        return desk.call("local", tool, arguments, lang=lang).text.partition("```diff")[0]

    (root / "near.py").write_text("class A:\n    def f(self):\n        return 1\n")
    old = "def f(self):\n    return 1"
    new = "def g(self):\n    return 2"
    yield text("replace_text", path="near.py", old=old, new=new, apply="never")
    yield text("Edit", path="near.py", old_string=old, new_string="x = 1")
    there = (
        "--- a/near.py\n+++ b/near.py\n@@ -1,2 +1,2 @@\n-class B:\n+class A:\n     def f(self):\n"
    )
    yield text("apply_diff", diff=there)
    yield text("apply_diff", diff=f"{there}@@ -9 +9 @@\n")
    for lines in (
        {"range": "2~3", "content": "    x = 1\n"},
        {"range": "1", "content": "class C:\n"},
    ):
        version = desk.call("local", "read_file", {"path": "near.py"}).fields["version"]
        given = {"path": "near.py", **lines, "version": version, "apply": "auto"}
        yield text("prepare_file_range_edit", **given)


def at_once(desk: OpenWorkspace, root: Path, lang: Lang) -> Iterator[str]:
    """What is said of corrected edits that were written."""

    def text(tool: str, **arguments: object) -> str:
        given = {"apply": "auto", "report": "full", **arguments}
        return desk.call("local", tool, given, lang=lang).text.partition("```diff")[0]

    for name in ("in.txt", "too.txt"):
        (root / name).write_text("if a:\n    x = 1\n    y = 2\n    z = 3\n")
    old, new = "x = 1\ny = 2\n", "x = 2\ny = 2\n"
    given = {"path": "in.txt", "range": "2~3", "content": new, "expected_old": old}
    yield text("prepare_file_range_edit", **given)
    yield text("replace_text", path="in.txt", old=new, new=old)
    block = f"<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n"
    yield text("apply_blocks", text=f"in.txt\n{block}too.txt\n{block}")
    binary = "diff --git a/b.png b/b.png\nBinary files a/b.png and b/b.png differ\n"
    there = "--- a/in.txt\n+++ b/in.txt\n@@ -4 +4 @@\n-    z = 3\n+    z = 4\n"
    yield text("apply_diff", diff=there + binary, skip=["binary"])
    there, other = (
        f"--- a/in.txt\n+++ b/in.txt\n@@ -1 +1 @@\n{lines}"
        for lines in ("-if a:\n+if b:\n", " if a:\n-    x = 1\n+    x = 5\n")
    )
    fitting = desk.call(
        "local", "apply_diff", {"diff": there + "@@ -9 +9 @@\n-zz\n+y\n"}, lang=lang
    )
    yield fitting.text
    yield text("apply_diff", diff=other, **{"with": [fitting.facts["fits"][0]["hunk_id"]]})


def looking(desk: OpenWorkspace, root: Path, lang: Lang) -> Iterator[str]:
    """The texts of searches and lists that do not show all there is."""

    def text(tool: str, **arguments: object) -> str:
        return desk.call("local", tool, arguments, lang=lang).text.partition("```")[0]

    folder = root / "looked at"
    folder.mkdir()
    for number in range(120):
        (folder / f"{number}{'name' * 50}").write_text("line\n" * 40)
    for most in (1, 10_000):
        yield text("ripgrep_snippets", pattern="line", path="looked at", max_results=most)
    (folder / "one").write_text("line\n" * 40)
    for most in (1, 10_000):
        yield text("ripgrep_snippets", pattern="line", path="looked at/one", max_results=most)
    yield text("ripgrep_count", pattern="line", path="looked at")
    yield text("list_dir", path="looked at")
    yield text("list_pending", max_results=1)
    warned = (Warned("a", "binary", "7"), *(Warned(name, "unreadable", "EIO") for name in "abcdef"))
    for reached, count in (("", 0), ("a", 0), ("a", 1)):
        late = FoundFiles(
            paths=(), truncated=False, timed_out=True, reached=reached, warnings=warned
        )
        yield so_far(late, "", count, lang)
        yield from remarks(late, lang)
    (folder / "large").write_bytes(b"line\n" * (sizes.LARGE // 4))
    yield text("read_file", path="looked at/large", range="-1~")
    shutil.rmtree(folder)


def elsewhere(desk: OpenWorkspace, root: Path, lang: Lang) -> Iterator[str]:
    """What is said to those who know the tools from elsewhere."""

    def call(tool: str, path: str, **arguments: object) -> str:
        found = desk.call("local", tool, {"path": path, **arguments}, lang=lang)
        return f"{found.fields['text']} {found.text}"

    editor = "str_replace_based_edit_tool"
    (root / "cut.txt").write_text("a\n" + "x" * 100_000 + "\n")
    for path in ("cut.txt", "wide.txt", "end.txt"):
        yield call("read_text_file", path)
    yield call(editor, ".", command="view")
    yield call(editor, "cut.txt", command="insert", insert_line=1, insert_text="b")
    edit = {"oldText": "b", "newText": "c"}
    yield call("edit_file", "cut.txt", edits=[edit], dryRun=True)
    yield call("read_text_file", "cutt.txt")
    (root / "left").mkdir()
    (root / "left/.copydesk-0123456789ab.tmp").write_text("of another process\n")
    move = {"source": "left", "destination": "moved"}
    yield desk.call("local", "move_file", move, lang=lang).text


def decided(desk: OpenWorkspace, lang: Lang) -> Iterator[str]:
    """What is said of people's decisions, and before them."""

    def call(tool: str, **arguments: object) -> str:
        found = desk.call("agent", tool, arguments, lang=lang)
        return " ".join((str(found.fields.get("summary")), *getattr(found, "next_steps", ())))

    def plan(line: int) -> str:
        arguments = {"path": "all.txt", "range": f"{line}", "content": f"{line}\na"}
        found = desk.call("agent", "prepare_file_range_edit", arguments)
        return str(found.fields["hunk_id"])

    review, eve = desk.desk.review, desk.member("local")
    yield call("create_new_file", path="never.txt")
    one, two, three, four = (plan(line) for line in (1, 2, 3, 4))
    yield call("apply_file_modification", hunk_id=one)
    yield call("apply_file_modifications", hunk_ids=[one, two])
    edits = [{"old_string": f"{old}\n", "new_string": "x\n"} for old in ("neun", "acht")]
    several = desk.call("agent", "prepare_batch_edit", {"path": "all.txt", "edits": edits})
    review.comment(eve, one, "why?")
    review.comment(eve, one, "why here?", -1)
    review.reject(eve, four, "shorter", wants_changes=True)
    yield call("read_file", path="all.txt")
    review.withdraw(eve, four)
    review.reject(eve, two, "no")
    yield call("read_file", path="all.txt")
    yield call("apply_file_modification", hunk_id=two)
    shown = review.amend(eve, one, "other")
    review.approve(eve, one, shown.before, shown.after)
    yield call("read_file", path="all.txt")
    shown = review.show(eve, three)
    review.apply(eve, [Seen(three, shown.before, shown.after)])
    yield call("read_file", path="all.txt")
    review.split(eve, str(several.fields["hunk_id"]))
    yield call("read_file", path="all.txt")
    yield call("apply_file_modification", hunk_id=one)
    shown = review.show(eve, four)
    review.approve(eve, four, shown.before, shown.after)
    desk.call("local", "Edit", {"path": "all.txt", "old_string": "5", "new_string": "fünf"})
    yield call("apply_file_modification", hunk_id=four)


def together(desk: OpenWorkspace, root: Path, lang: Lang) -> Iterator[str]:
    """Several plans at once; summaries and next steps."""

    def apply(*lines: tuple[int, str], before: str | None = None) -> str:
        ids: list[str] = []
        for line, content in lines:
            arguments = {"path": "all.txt", "range": str(line), "content": content}
            plan = desk.call("local", "prepare_file_range_edit", arguments)
            ids.append(str(plan.fields["hunk_id"]))
        if before is not None:
            (root / "all.txt").write_text(before)
        found = desk.call("local", "apply_file_modifications", {"hunk_ids": ids}, lang=lang)
        return " ".join((str(found.fields["summary"]), *getattr(found, "next_steps", ())))

    (root / "all.txt").write_text("1\n2\n3\n4\n5\n6\n7\n8\n9\n")
    yield apply((1, "eins"), (9, "neun"))
    yield apply((1, "eins"))
    yield apply((2, "zwei"), (8, "acht"), before="0\n2\n3\n4\n5\n6\n7\n8\n9\n")
    yield apply((1, "x"), (9, "y"), before="0\nzwei\n3\n4\n5\n6\n7\nacht\n")
    with pytest.MonkeyPatch.context() as patched:

        def refuse(*_: object) -> None:
            raise Failed("use the state folder", "full")

        patched.setattr(desk.journal, "open_all", refuse)
        yield apply((1, "y"))


def past(desk: OpenWorkspace, root: Path, lang: Lang) -> Iterator[str]:
    """Calls that look back and take back; their summaries and next steps."""

    def call(tool: str, **arguments: object) -> dict[str, Any]:
        found = desk.call("local", tool, arguments, lang=lang)
        steps = getattr(found, "next_steps", ())
        return {
            "edit_id": 0,
            **found.data,
            "said": " ".join((str(found.fields.get("summary")), *steps)),
        }

    def edit(line: int, content: str) -> int:
        arguments = {"path": "past.txt", "range": str(line), "content": content}
        hunk = call("prepare_file_range_edit", **arguments)["hunk_id"]
        return int(call("apply_file_modification", hunk_id=hunk)["edit_id"])

    def undo(edit_id: int) -> dict[str, Any]:
        return call("undo_file_modification", edit_id=edit_id)

    made = int(call("create_new_file", path="past.txt", content="1\n2\n3\n")["edit_id"])
    first, second, third = edit(2, "two\n"), edit(2, "TWO\n"), edit(1, "0\n0\n")
    taken_back = [undo(edit_id) for edit_id in (first, second, first, first, third, made, made)]
    yield from (str(one["said"]) for one in taken_back)
    yield undo(taken_back[5]["edit_id"])["said"]
    fourth = edit(2, "zwei\n")
    twins = b"".join(b"%d\nzwei\n" % i for i in range(9))
    for text in (twins, b"1\n3\n", b"1\nzwei\r\n3\n"):
        (root / "past.txt").write_bytes(text)
        yield undo(fourth)["said"]
    yield undo(edit(1, "eins\n"))["said"]
    (root / "open.txt").write_bytes(b"x")
    call("Write", path="open.txt", content="x\n", overwrite=True, expected_size_bytes=1)
    ended = call("list_edits", path="open.txt")["edits"][0]["edit_id"]
    (root / "open.txt").write_bytes(b"x")
    yield undo(ended)["said"]
    yield call("list_edits", max_results=2)["said"]
    with desk.journal._db.writing() as db:  # type: ignore[attr-defined] # as if its page were damaged
        db.execute("DELETE FROM edits WHERE edit_id = 2")
    yield call("list_edits")["said"]
    yield call("list_pending")["said"]
    (root / "bytes.txt").write_bytes(b"a \xd6\n")
    odd = call("prepare_file_range_edit", path="bytes.txt", range="1", content="\\xd6 \\xd7")
    yield from odd["warnings"]
    (root / "crlf.txt").write_bytes(b"a\r\nb\r\n")
    given = {"path": "crlf.txt", "start_anchor": "a", "end_anchor": "b", "content": "1\n2\n"}
    first = {"strict": False, "include_anchors": False, "report": "brief", "apply": "auto"}
    (root / "crlf.txt").write_bytes(b"a\r\nb\r\na\r\nb\r\n")
    yield desk.call("local", "prepare_file_block_replace", {**given, **first}, lang=lang).text
    version = desk.call("local", "read_file", {"path": "crlf.txt", "range": "1"}).data["version"]
    given = {"path": "crlf.txt", "range": "1", "content": "z\n", "version": version}
    yield desk.call("local", "prepare_file_range_edit", {**given, "apply": "auto"}, lang=lang).text
    lines = "".join(f"{i}\n" for i in range(5_000))
    long = {"path": "long.txt", "content": f"{lines}{'x' * 90_000}\n"}
    made = desk.call("local", "prepare_file_append", long, lang=lang)
    yield made.text.replace("?", "")
    yield desk.call("local", "show_hunk", {"hunk_id": made.data["hunk_id"]}, lang=lang).text
    (root / "all").mkdir()
    (root / "all" / "one.txt").write_text("one\n")
    every = {"path": "all", "old": "one", "new": "1", "all": True, "apply": "never"}
    yield desk.call("local", "replace_text", every, lang=lang).text
    plan = call("prepare_file_append", path="past.txt", content="x")
    yield call("discard_hunk", hunk_id=plan["hunk_id"])["said"]
    (root / "seen.txt").write_text("one\ntwo\n")
    changes, person = desk.desk.changes, desk.person("local")
    seen = Selection(path=RelPath.parse("seen.txt"))
    for decide in (
        lambda hunk: changes.comment(person, seen, hunk, "why"),
        lambda hunk: changes.undo(person, seen, [hunk]),
        lambda hunk: changes.undo(person, seen, [hunk], reason="no"),
        lambda hunk: changes.rewrite(person, seen, hunk, "else"),
    ):
        given = {"path": "seen.txt", "range": "1", "content": "eins", "apply": "auto"}
        version = desk.call("local", "read_file", {"path": "seen.txt"}).data["version"]
        desk.call("local", "prepare_file_range_edit", {**given, "version": version}, lang=lang)
        for hunk in changes.view(person, seen)[0].hunks:
            decide(hunk.id)
        yield desk.call("local", "list_edits", {"max_results": 1}, lang=lang).text
    for by, theirs in (("local", False), ("agent", False), ("local", True)):
        (root / "task.txt").write_text("one\n")
        member = desk.member("local").because("", "T-1")
        request = Append(RelPath.parse("task.txt"), "two\nthree\n")
        plan = desk.desk.prepare(member, request.tool, request).plan
        desk.desk.apply(member, "apply_file_modification", plan.id)
        yield desk.call(by, "list_edits", {"task": "T-1"}, lang=lang).text
        if theirs:
            (root / "task.txt").write_text("one\ntwo\n")
        yield desk.call(by, "undo_file_modification", {"task": "T-1"}, lang=lang).text
    for names in (["u.txt"], ["u.txt", "u.txt"], ["u.txt", "v.txt", "w.txt"], []):
        for name in {*names, "x.txt"}:
            (root / name).write_text("one\ntwo\n")
        edits = [
            call("prepare_file_append", path=name, content=name) for name in names or ["x.txt"]
        ]
        for plan in edits:
            given = {"hunk_id": plan["hunk_id"]}
            edit_id = desk.call("local", "apply_file_modification", given).data["edit_id"]
        again = {"edit_id": edit_id, "again": True}
        yield desk.call("local", "undo_file_modification", again, lang=lang).text
        for name in names:
            (root / name).write_text("one\ntwo\n")
        if not names:
            (root / "x.txt").unlink()
        desk.desk.overwrites.look()
        yield desk.call("local", "list_edits", {"max_results": 1}, lang=lang).text


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.slow
def test_what_real_answers_say_has_no_gap(tmp_path: Path, said_keys: set[str], lang: Lang) -> None:
    config = Config(durability="fast", members={"agent": MemberConfig(approval="human")})
    with open_workspace(str(tmp_path), config, shared=False) as desk:
        desk.desk.foreign.keep(RelPath.parse("theirs.txt"), b"theirs\n", b"ours\n", False)
        desk.desk.foreign.note_open(RelPath.parse("theirs.txt"))
        (saved,) = desk.journal.entries()
        desk.desk.foreign.note_doubt([replace(saved, state=how) for how in ("unsure", "failed")])
        for said in story(desk, tmp_path, lang):
            assert said
            assert "?" not in said, said
    codes = {kind.code for kind in all_refusals()} | {"CRASH", "UNSETTLED"}
    codes |= {"SERVER_FAILED", "TURN_LOST"}  # of a registry that this one is not
    codes |= {"STATE_FAILED", "STATE_DAMAGED", "STATE_SCHEMA", "state"}
    codes.add("CONFIG_INVALID")  # of a file that was damaged while it was used
    elsewhere = {"cli", "bell", "ask", "tool"}  # said by the command line, by a server, in a schema
    heads = {name: name.partition(".")[0] for name in SAYINGS if name not in OF_NOTES}
    facing = {n for n in heads if heads[n] not in codes | elsewhere and placeholders(SAYINGS[n][0])}
    assert facing - said_keys == set()


@pytest.mark.parametrize(
    ("saying", "facts", "said"),
    [
        ("list", {"count": 0, "path": "."}, "0 entries in .."),
        ("list", {"count": 1, "path": "."}, "1 entry in .."),
        ("search", {"count": 1, "what": "match|matches"}, "1 match found."),
        ("search", {"count": 2, "what": "file|files"}, "2 files found."),
        ("plan.delete", {"start": 2, "end": 2, "path": "a"}, "Planned: delete line 2 of a."),
        ("plan.delete", {"start": 2, "end": 3, "path": "a"}, "Planned: delete lines 2~3 of a."),
        ("DUPLICATE_EDITS", {"indices": (0, 2)}, "Edits 0, 2 are the same;"),
    ],
)
def test_numbers_agree_with_their_nouns(saying: str, facts: dict[str, object], said: str) -> None:
    assert messages.say(saying, "en", facts).startswith(said)


def test_a_fact_is_never_a_template() -> None:
    hostile = "{path} {0} {} %s"
    said = messages.say("INVALID_ARGS", "en", {"argument": hostile, "reason": hostile})
    assert said.count(hostile) == 2


@pytest.mark.parametrize(
    ("key", "facts"),
    [
        ("plan.delete", {"span": 5}),
        ("PARTIAL_MATCH_FAIL.no match.near", {"nearest_lines": 5}),
        ("PATCH_REJECTED.not_found.near", {"nearest_lines": 5}),
        ("CONTENT_CHANGED.expected_old is not what stands there", {"planned_lines": 5}),
    ],
)
def test_one_line_is_no_span(key: str, facts: dict[str, object]) -> None:
    said = messages.say(key, "zh", {name: f"{fact}~{fact}" for name, fact in facts.items()})
    assert "第 5 行" in said
    assert "5~5" not in said
    assert "第 5~6 行" in messages.say(key, "zh", dict.fromkeys(facts, "5~6"))


@pytest.mark.parametrize(
    ("lines", "en", "zh"),
    [
        ([4], "line 4", "第 4 行"),
        ([1, 4], "lines 1 and 4", "第 1、4 行"),
        (
            range(1, 13),
            f"lines {', '.join(map(str, range(1, 11)))}, …",
            "第 1、2、3、4、5、6、7、8、9、10、… 行",
        ),
    ],
)
def test_lines_and_their_noun_agree(lines: Iterable[int], en: str, zh: str) -> None:
    failure = errors.FailedEdit(0, "several matches", 2, tuple(lines))
    refusal = errors.PartialMatchFail(0, (failure,))
    for voices in (("edit", "batch"), ("edit", "compat"), ("edit", "replace_text")):
        assert f"({en})" in refusal_words(refusal, "en", voices)
        assert f"（{zh}）" in refusal_words(refusal, "zh", voices)
