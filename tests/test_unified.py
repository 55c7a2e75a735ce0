"""Unified diffs: two oracles, `git apply` and GNU `patch`, make the new bytes of the old."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations_with_replacement, product
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from copydesk.edit.draft import Draft
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.diff import (
    counts,
    deleted,
    line_counts,
    mode_changed,
    quoted,
    read_diff,
    regions,
    renamed,
    unified,
    unified_start,
)
from copydesk.text.encoding import UTF8
from copydesk.text.snapshot import Snapshot
from support.rows import each_row
from support.texts import changes, drafts, narrow, wide

_GIT = ("git", "-c", "core.autocrlf=false", "apply", "--whitespace=nowarn", "-")
_PATCH = ("patch", "-p1", "--binary", "--force", "--fuzz=0", "--no-backup-if-mismatch")
_HEADER = re.compile(rb"@@ -(\d+),(\d+) \+(\d+),(\d+) @@")


@dataclass(frozen=True)
class Case:
    """A change of one file. `before` is None when there was none."""

    path: str
    before: bytes | None
    diff: bytes
    after: bytes

    @staticmethod
    def of(path: str, before: bytes | None, change: ChangeSet) -> Case:
        base = Snapshot(b"", UTF8) if before is None else Snapshot.of(before)
        diff = unified(base, change, path, created=before is None)
        return Case(path, before, diff, change.apply(base.data))


Oracle = Callable[[Path, bytes], "subprocess.CompletedProcess[bytes]"]


def _run(command: Sequence[str], folder: Path, diff: bytes) -> subprocess.CompletedProcess[bytes]:
    quiet = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    env = {**os.environ, **quiet, "GIT_CEILING_DIRECTORIES": str(folder.parent), "LC_ALL": "C"}
    return subprocess.run(
        command, cwd=folder, input=diff, env=env, stdout=-1, stderr=subprocess.STDOUT, check=False
    )


def git_apply(folder: Path, diff: bytes) -> subprocess.CompletedProcess[bytes]:
    return _run(_GIT, folder, diff)


def gnu_patch(folder: Path, diff: bytes) -> subprocess.CompletedProcess[bytes]:
    """Silent about each hunk only when it fits exactly where it says."""
    return _run(_PATCH, folder, diff)


ORACLES: tuple[Oracle, ...] = (git_apply, gnu_patch)
both = pytest.mark.parametrize("oracle", ORACLES, ids=["git apply", "patch"])


def check_oracle(folder: Path, oracle: Oracle, cases: Sequence[Case]) -> None:
    """The oracle takes every file of the cases to its new bytes; all in one patch."""
    wrong = _wrong(folder / "all", oracle, cases)
    if wrong is None:
        return
    singles = ((case, _wrong(folder / str(i), oracle, [case])) for i, case in enumerate(cases))
    failed = [(case, words) for case, words in singles if words is not None]
    if not failed:
        pytest.fail(f"only together: {wrong}")
    case, words = min(failed, key=lambda pair: len(pair[0].diff))
    shown = case.diff.decode("utf-8", "backslashreplace")
    pytest.fail(f"{len(failed)} of {len(cases)}, the smallest:\n{case!r}\n{shown}\n{words}")


def _wrong(folder: Path, oracle: Oracle, cases: Sequence[Case]) -> str | None:
    """What went wrong, in words."""
    folder.mkdir()
    for case in cases:
        if case.before is not None:
            (folder / case.path).parent.mkdir(parents=True, exist_ok=True)
            (folder / case.path).write_bytes(case.before)
    diff = b"".join(case.diff for case in cases)
    if diff:
        result = oracle(folder, diff)
        if result.returncode or b"Hunk" in result.stdout:
            return f"exit {result.returncode}: {result.stdout!r}"
    for case in cases:
        if not (folder / case.path).exists():
            return f"no file {case.path!r}"
        found = (folder / case.path).read_bytes()
        if found != case.after:
            return f"{found!r} is not {case.after!r}"
    found_paths = {p.relative_to(folder) for p in folder.rglob("*") if p.is_file()}
    extra = found_paths - {Path(case.path) for case in cases}
    return f"more files: {extra}" if extra else None


def collected(strategy: st.SearchStrategy[Case], count: int) -> list[Case]:
    """Many examples at once: one process of an oracle takes them all."""
    found: list[Case] = []

    @settings(max_examples=count, database=None, phases=[Phase.generate])
    @given(strategy)
    def gather(case: Case) -> None:
        found.append(Case(f"{len(found):03}.txt", case.before, _renamed(case, found), case.after))

    gather()
    return found


def _renamed(case: Case, found: list[Case]) -> bytes:
    """The diff, of a file of its own; the name stands in the first lines only."""
    head, mark, body = case.diff.partition(b"\n@@ ")
    return head.replace(b"a.txt", f"{len(found):03}.txt".encode()) + mark + body


def _drafted(draft: Draft) -> Case:
    return Case("a.txt", draft.base.data, draft.diff, draft.after.data)


def _shown(draft: Draft) -> Case:
    """What a diff of a wide file is: one of its text in UTF-8."""
    before, after = (s.encoding.decode(s.data).encode() for s in (draft.base, draft.after))
    return Case("a.txt", before, draft.diff, after)


byte_cases = narrow().flatmap(lambda data: changes(data).map(partial(Case.of, "a.txt", data)))
line_cases = drafts(narrow()).map(_drafted)
wide_cases = drafts(wide(ragged=False)).map(_shown)


@pytest.mark.slow
@both
@pytest.mark.parametrize(
    "cases", [byte_cases, line_cases, wide_cases], ids=["bytes", "lines", "wide"]
)
def test_random_changes(tmp_path: Path, oracle: Oracle, cases: st.SearchStrategy[Case]) -> None:
    check_oracle(tmp_path, oracle, collected(cases, 250))


BOM = b"\xef\xbb\xbf"
NUMBERED = b"".join(b"line %d\n" % i for i in range(1, 31))

ONE_BY_ONE: dict[str, tuple[bytes, int, int, bytes]] = {
    "empty file gets text": (b"", 0, 0, b"a\nb\n"),
    "empty file gets text without end": (b"", 0, 0, b"a"),
    "all deleted": (b"a\nb\n", 0, 4, b""),
    "all deleted without end": (b"a\nb", 0, 3, b""),
    "end added": (b"a\nb", 3, 3, b"\n"),
    "end taken": (b"a\nb\n", 3, 4, b""),
    "end on neither side": (b"a\nb", 2, 3, b"c"),
    "end on neither side, kept line": (b"a\nb", 0, 1, b"c"),
    "appended after no end": (b"a\nb", 3, 3, b"\nc\n"),
    "CRLF line": (b"a\r\nb\r\nc\r\n", 3, 4, b"x"),
    "CRLF to LF": (b"a\r\nb\r\n", 1, 2, b""),
    "LF to CRLF": (b"a\nb\n", 1, 1, b"\r"),
    "all CRLF but the last": (b"a\r\nb", 0, 1, b"x"),
    "lone CR": (b"a\rb\rc", 1, 2, b"\r\r"),
    "lone CR at the end": (b"a\nb\r", 0, 1, b"x"),
    "BOM stays": (BOM + b"a\nb\n", 3, 4, b"x"),
    "BOM added": (b"a\n", 0, 0, BOM),
    "BOM taken": (BOM + b"a\nb\n", 0, 3, b""),
    "BOM only, text added": (BOM, 3, 3, b"a\n"),
    "BOM only, taken": (BOM, 0, 3, b""),
    "BOM and all text taken": (BOM + b"a\n", 0, 5, b""),
    "all text after the BOM taken": (BOM + b"a\n", 3, 5, b""),
    "invalid UTF-8": (b"\xff\xfd\xfe\nx\n\x80", 0, 3, b"\xc3\n\xe9"),
    "signs of a diff": (b"--- a\n+++ b\n@@ -1,2 +1,2 @@\n-x\n", 0, 5, b"+++ c"),
    "separators of other programs": ("a\u2028b\x85c\x0cd\n".encode(), 0, 1, b"x"),
    "two lines joined": (NUMBERED, 6, 7, b""),
    "a line split": (NUMBERED, 4, 4, b"\n"),
    "first line": (NUMBERED, 0, 7, b""),
    "last line": (NUMBERED, len(NUMBERED) - 8, len(NUMBERED), b"x\n"),
    "last line, no end": (NUMBERED, len(NUMBERED) - 8, len(NUMBERED), b"x"),
    "an empty line put above, the line changed": (b"a\n", 0, 1, b"\nb"),
    "one of two equal lines taken": (b"a\na\n", 0, 4, b"a\n"),
    "a line put to one that is equal": (b"a\n", 0, 2, b"a\na\n"),
    "same lines put in their own place": (b"a\nb\nc\n", 0, 6, b"a\nx\nc\n"),
}
"""What is edited, from which byte to which, and the new bytes."""


@both
def test_one_by_one(tmp_path: Path, oracle: Oracle) -> None:
    check_oracle(tmp_path, oracle, [edited(name, *edit) for name, edit in ONE_BY_ONE.items()])


def edited(path: str, before: bytes, start: int, stop: int, new: bytes) -> Case:
    return Case.of(path, before, ChangeSet.of(len(before), [Edit(start, stop, new)]))


NAMES = (
    *("a b", " lead", "trail ", "two  blanks", "-dash", "~", "a.b", "x b/x", "b/a b/c"),
    *('q"uote', "apo'strophe", "tab\there", "end\t", "back\\slash", "a\\nb", "\\", '"', '""'),
    *(
        "漢字",
        "🎉 party",
        "é",
        'é"x',
        "漢\t字",
        "\u2028",
        "\x85",
        "\x7f",
        "\x01",
        "\x1b[0m",
        "cr\r",
    ),
    *("new\nline", "dev/null", "a/b/c", "a → b", "{a => b}", "$(x)", "*", "#", "diff --git"),
)


@both
@pytest.mark.parametrize("kind", ["edit", "create", "empty"])
def test_names(tmp_path: Path, oracle: Oracle, kind: str) -> None:
    if kind == "edit":
        check_oracle(tmp_path, oracle, [edited(name, b"a\nb\n", 0, 1, b"x") for name in NAMES])
    elif kind == "create":
        change = ChangeSet.of(0, [Edit(0, 0, b"a\nb\n")])
        check_oracle(tmp_path, oracle, [Case.of(name, None, change) for name in NAMES])
    elif oracle is git_apply:  # patch makes no file without a line
        check_oracle(tmp_path, oracle, [Case.of(name, None, ChangeSet.of(0, [])) for name in NAMES])


@both
def test_new_files(tmp_path: Path, oracle: Oracle) -> None:
    texts = (b"a\n", b"a", b"a\r\nb\r\n", BOM + b"a\n", b"\xff\n", b"\n")
    made = [ChangeSet.of(0, [Edit(0, 0, data)]) for data in texts]
    check_oracle(tmp_path, oracle, [Case.of(f"{n}.txt", None, one) for n, one in enumerate(made)])


@given(byte_cases | line_cases | wide_cases)
def test_headers_count_their_lines(case: Case) -> None:
    if not case.diff:
        return
    head, *hunks = re.split(rb"^(?=@@ )", case.diff, flags=re.MULTILINE)
    assert head == b"diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n"
    added = removed = shift = 0
    for hunk in hunks:
        header, body = hunk.split(b"\n", 1)
        found = _HEADER.fullmatch(header)
        assert found
        old_start, old_size, new_start, new_size = map(int, found.groups())
        signs = [line[:1] for line in body.split(b"\n")[:-1]]
        assert set(signs) <= {b" ", b"+", b"-", b"\\"}
        assert old_size == signs.count(b" ") + signs.count(b"-")
        assert new_size == signs.count(b" ") + signs.count(b"+")
        assert (old_size == 0) == (old_start == 0)
        assert (new_size == 0) == (new_start == 0)
        assert new_start - (new_size > 0) == old_start - (old_size > 0) + shift
        shown = b"".join(sign for sign in signs if sign != b"\\")
        context = re.split(rb"[+-]+", shown)
        assert max(map(len, context[1:-1]), default=0) <= 6
        assert len(context[0]) == 3 or old_start <= 1
        assert len(context[-1]) == 3 or old_start + old_size >= _lf_lines(case.before)
        assert max(len(context[0]), len(context[-1])) <= 3
        shift += new_size - old_size
        added, removed = added + signs.count(b"+"), removed + signs.count(b"-")
    assert counts(case.diff) == (added, removed)


@each_row("data edits expected", [
    (b"ab\ncd\ne", [(0, 1, b"x"), (3, 4, b"")], (2, 2)),
    (b"abc\nd\n", [(0, 1, b"x"), (2, 3, b"y")], (1, 1)),
    (b"ab\ncd\n", [(0, 1, b"a"), (3, 4, b"x")], (1, 1)),
    (b"a\nb\nc\n", [(0, 1, b"x\ny")], (2, 1)),
    (b"a\nb\nc\n", [(0, 3, b"x")], (1, 2)),
    (b"a\nb", [(2, 3, b"")], (0, 1)),
    (b"a\n", [(2, 2, b"x")], (1, 0)),
    (b"", [(0, 0, b"x")], (1, 0)),
])  # fmt: skip
def test_lines_are_counted_as_the_diff_shows_them(
    data: bytes, edits: list[tuple[int, int, bytes]], expected: tuple[int, int]
) -> None:
    base, change = Snapshot.of(data), ChangeSet.of(len(data), [Edit(*edit) for edit in edits])
    assert line_counts(base, change) == counts(unified(base, change, "a")) == expected


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le"])
@each_row("text", ["ab\ncd\n", "\nab\nc", "ab", "a\u0a00b\n\n"])
def test_lines_are_counted_so_for_every_two_edits(text: str, encoding: str) -> None:
    mark = "\ufeff".encode(encoding) if encoding != "utf-8" else b""
    data = mark + text.encode(encoding)
    base, unit = Snapshot.of(data), len("a".encode(encoding))
    marks = range(len(mark), len(data) + 1, unit)
    for one, other in product(combinations_with_replacement(marks, 2), repeat=2):
        if one[1] > other[0]:
            continue
        for new, more in product(("", "a", "x\n"), repeat=2):
            edits = [Edit(*one, new.encode(encoding)), Edit(*other, more.encode(encoding))]
            change = ChangeSet.of(len(data), edits)
            assert line_counts(base, change) == counts(unified(base, change, "a"))


def _lf_lines(data: bytes | None) -> int:
    text = data or b""
    return text.count(b"\n") + (not text.endswith(b"\n") and text != b"")


@given(byte_cases)
def test_no_line_changed_is_no_diff(case: Case) -> None:
    assert bool(case.diff) == (case.before != case.after)


def test_regions_are_whole_lines_without_those_that_stay() -> None:
    base = Snapshot.of(b"a\nb\nc\nd\n")
    change = ChangeSet.of(8, [Edit(0, 8, b"a\nx\nc\nd\ne\n")])
    found = [(r.start, r.stop, r.new) for r in regions(base, change)]
    assert found == [(1, 2, (b"x\n",)), (4, 4, (b"e\n",))]


def test_the_text_of_a_diff() -> None:
    change = ChangeSet.of(len(NUMBERED), [Edit(63, 71, b"x\ny\n")])
    assert unified(Snapshot.of(NUMBERED), change, "src/a b.txt") == (
        b"diff --git a/src/a b.txt b/src/a b.txt\n"
        b"--- a/src/a b.txt\t\n"
        b"+++ b/src/a b.txt\t\n"
        b"@@ -7,7 +7,8 @@\n"
        b" line 7\n line 8\n line 9\n-line 10\n+x\n+y\n line 11\n line 12\n line 13\n"
    )


@each_row("name header", [
    ("empty file gets text", b"@@ -0,0 +1,2 @@"),
    ("all deleted", b"@@ -1,2 +0,0 @@"),
    ("end added", b"@@ -1,2 +1,2 @@"),
    ("BOM only, text added", b"@@ -1,1 +1,1 @@"),
    ("BOM only, taken", b"@@ -1,1 +0,0 @@"),
    ("two lines joined", b"@@ -1,5 +1,4 @@"),
    ("first line", b"@@ -1,4 +1,3 @@"),
    ("last line", b"@@ -27,4 +27,4 @@"),
])  # fmt: skip
def test_headers(name: str, header: bytes) -> None:
    assert edited("a.txt", *ONE_BY_ONE[name]).diff.split(b"\n")[3] == header


@each_row("name expected", [
    ("a b", b"a b"),
    ("漢", "漢".encode()),
    ('a"b', b'"a\\"b"'),
    ("a\\b", b'"a\\\\b"'),
    ("\a\b\t\n\v\f\r", rb'"\a\b\t\n\v\f\r"'),
    ("\x01\x7f", b'"\\001\\177"'),
    ('é"', b'"\\303\\251\\""'),
])  # fmt: skip
def test_quoted(name: str, expected: bytes) -> None:
    assert quoted(name) == expected


def test_a_large_region_is_not_compared() -> None:
    old, new = b"x\n" * 20_000, b"x\n" * 10 + b"y\n" * 10_000 + b"x\n" + b"y\n" * 9_999
    change = ChangeSet.of(len(old), [Edit(0, len(old), new)])
    assert counts(unified(Snapshot.of(old), change, "a")) == (20_000, 19_990)


@each_row("between heads", [
    (0, ["-1,5 +1,6"]),
    (5, ["-1,10 +1,11"]),
    (6, ["-1,11 +1,12"]),
    (7, ["-1,4 +1,5", "-6,7 +7,7"]),
    (20, ["-1,4 +1,5", "-19,7 +20,7"]),
])  # fmt: skip
def test_changes_whose_contexts_meet_share_a_hunk(between: int, heads: list[str]) -> None:
    lines = NUMBERED.splitlines(keepends=True)
    starts = [sum(map(len, lines[:line])) for line in (0, between + 1)]
    edits = [Edit(at, at + 1, new) for at, new in zip(starts, (b"x\ny", b"x"), strict=True)]
    change = ChangeSet.of(len(NUMBERED), edits)
    diff = unified(Snapshot.of(NUMBERED), change, "a").decode()
    assert re.findall(r"^@@ (.*) @@$", diff, re.MULTILINE) == heads


@pytest.mark.parametrize(
    ("edits", "diff"),
    [
        ([(0, 1, b"x"), (2, 3, b"y"), (7, 8, b"z")], "-abcd\n+xbyd\n e\n-f\n+z\n"),
        ([(0, 1, b"x"), (5, 6, b""), (7, 8, b"z")], "-abcd\n-e\n-f\n+xbcd\n+\n+z\n"),
    ],
)
def test_edits_of_one_line_are_one_change(edits: list[tuple[int, int, bytes]], diff: str) -> None:
    change = ChangeSet.of(9, [Edit(*edit) for edit in edits])
    found = unified(Snapshot.of(b"abcd\ne\nf\n"), change, "a").decode()
    assert found.partition(" @@\n")[2] == diff


def test_the_start_of_a_diff_is_whole_hunks() -> None:
    change = ChangeSet.of(len(NUMBERED), [Edit(0, 1, b"x"), Edit(160, 161, b"y")])
    base = Snapshot.of(NUMBERED)
    whole = unified(base, change, "a")
    ends = [len(each) for each in re.split(rb"^(?=@@ )", whole, flags=re.MULTILINE)]
    sizes = [sum(ends[: i + 1]) for i in range(len(ends))]
    for most in range(len(whole) + 2):
        found, is_all = unified_start(base, change, "a", most, len(whole))
        assert whole.startswith(found)
        assert is_all == (found == whole)
        assert len(found) == next((size for size in sizes if size > most), len(whole))
    lines = [whole[:size].count(b"\n") for size in sizes]
    for most in range(whole.count(b"\n") + 2):
        found, is_all = unified_start(base, change, "a", len(whole), most)
        assert is_all == (found == whole)
        assert found.count(b"\n") == next((n for n in lines if n > most), whole.count(b"\n"))


@each_row("diff lines", [
    ("--- a\n+++ b\n@@ -5 +7 @@\n-x\n+y\n-z", ["", "", "@4,6", "-4,6", "+5,6", ""]),
    ("@@ -0,0 +1,2 @@\n+--\n+++ b\n--- a", ["@0,0", "+0,0", "+0,1", ""]),
    ("@@ -2,2 +2,0 @@\n--- a\n-x\n\\ No\n x", ["@1,2", "-1,2", "-2,2", "\\3,2", ""]),
    ("@@ -1,3 +1,3 @@\n a\ndiff --git a/a b/a\n--- a", ["@0,0", " 0,0", "", ""]),
])  # fmt: skip
def test_the_counts_end_a_hunk(diff: str, lines: list[str]) -> None:
    read = read_diff(diff.split("\n"))
    assert [f"{x.sign}{x.old},{x.new}" * bool(x.sign) for x in read] == lines


@pytest.mark.parametrize("data", [b"", b"a\n", b"a\nb", b"a\0b\n"])
def test_git_removes_the_file_and_changes_its_mode(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x y"
    path.write_bytes(data)
    path.chmod(0o644)
    assert git_apply(tmp_path, mode_changed("x y", 0o100644, 0o100755)).returncode == 0
    assert path.stat().st_mode & 0o777 == 0o755
    base = Snapshot(data, UTF8)
    change = ChangeSet.of(len(data), [Edit(0, len(data), b"")])
    diff = deleted(base, change, "x y", 0o100755)
    assert (b"GIT binary patch" in diff) == (b"\0" in data)
    assert (b"index e69de29..0000000" in diff) == (not data)
    found = git_apply(tmp_path, diff)
    assert (found.returncode, found.stdout, path.exists()) == (0, b"", False)


def test_a_text_with_nul_bytes_is_no_binary_file() -> None:
    base = Snapshot.of("é\n".encode("utf-16"))
    change = ChangeSet.of(base.size, [Edit(0, base.size, b"")])
    assert deleted(base, change, "a", 0o100644).endswith("\n-\ufeffé\n".encode())


def test_a_file_that_is_moved_and_changed(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(NUMBERED)
    base = Snapshot.of(NUMBERED)
    change = ChangeSet.of(base.size, [Edit(0, 4, b"x")])
    same = ChangeSet.of(base.size, [Edit(0, 1, b"l")])
    only = renamed("a", "b c")
    assert renamed("a", "b c", (base, same)) == only
    assert b"similarity index 100%" in only
    assert b"---" not in only
    rows, moved_on = Snapshot.of(b"x\nx\nx\n"), [Edit(0, 2, b""), Edit(6, 6, b"x\n")]
    assert renamed("a", "b c", (rows, ChangeSet.of(6, moved_on))) == only
    diff = renamed("a", "b c", (base, change))
    assert b"similarity" not in diff
    found = git_apply(tmp_path, diff)
    assert (found.returncode, found.stdout) == (0, b"")
    assert (tmp_path / "b c").read_bytes() == change.apply(NUMBERED)
    assert not (tmp_path / "a").exists()
