"""Patches in three languages: what they say of each file, and where their hunks go in a text."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from copydesk.desk.backends.api import decode, encode
from copydesk.edit.draft import compose
from copydesk.edit.kinds import patch as patch_kind
from copydesk.edit.kinds.correction import occurrences
from copydesk.edit.kinds.patch import _Sought, in_order, patch_of
from copydesk.edit.patch_parse import FilePatch, parse_apply_patch, parse_blocks, parse_diff
from copydesk.edit.request import PatchEdit, PatchHunk
from copydesk.errors import EncodingRefused, PatchInvalid, PatchRejected, RejectedHunk
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.diff import align
from copydesk.text.encoding import Encoding
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot
from support.cost import steps
from support.rows import each_row

Parse = Callable[[str], tuple[FilePatch, ...]]


def made(data: bytes, text: str, parse: Parse = parse_diff) -> bytes:
    """The file after the patch, which is of it alone."""
    (patch,) = parse(text)
    base = Snapshot.of(data)
    path = RelPath.parse(patch.path)
    is_new = patch.kind == "add"
    request = PatchEdit(path, patch.hunks, patch.base, patch.after, creates=is_new)
    assert decode(encode(request)) == request
    draft = compose(request, base, request.locate(base), created=request.creates)
    return draft.after.whole().data


def rejected(data: bytes, text: str, parse: Parse = parse_diff) -> RejectedHunk:
    with pytest.raises(PatchRejected) as found:
        made(data, text, parse)
    return found.value.rejected[0]


def codex(body: str) -> str:
    return f"*** Begin Patch\n*** Update File: x\n{body}*** End Patch\n"


def block(old: str, new: str) -> str:
    return f"x\n```\n<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n```\n"


# -- the language of apply_patch


def test_apply_patch_adds_deletes_updates_and_moves() -> None:
    added, updated, deleted = parse_apply_patch(
        "*** Begin Patch\n*** Add File: a b\n+x\n+\n*** Update File: b\n*** Move to: c/d\n"
        "@@ class X\n@@ def f\n a\n-b\n+c\n\n*** End of File\n\n*** Delete File: d\n"
        "*** End Patch\n"
    )
    assert (added.kind, added.path, added.hunks[0].new) == ("add", "a b", "x\n\n")
    (hunk,) = updated.hunks
    assert (updated.to, hunk.headers, hunk.at_end, hunk.at) == (
        *("c/d", ("class X", "def f")),
        *(True, 7),
    )
    assert (hunk.old, hunk.new) == ("a\nb\n", "a\nc\n")
    assert (deleted.kind, deleted.path, deleted.hunks) == ("delete", "d", ())


@each_row("end", ["", "\n", "\r\n"])
@each_row(
    "parse text",
    [
        (parse_apply_patch, "*** Begin Patch\n*** Add File: x\n+a\n+\n+b\n*** End Patch"),
        (parse_apply_patch, "*** Begin Patch\n*** Update File: x\n@@\n a\n\n-c\n+b\n*** End Patch"),
        (parse_blocks, "x\n<<<<<<< SEARCH\n=======\na\n\nb\n>>>>>>> REPLACE"),
        (parse_diff, "--- /dev/null\n+++ b/x\n@@ -0,0 +1,3 @@\n+a\n+\n+b"),
    ],
)
def test_a_patch_converted_to_crlf_is_one_however_its_last_line_ends(
    parse: Parse, text: str, end: str
) -> None:
    (patch,) = parse(text.replace("\n", "\r\n") + end)
    assert patch.hunks[0].new == "a\n\nb\n"


_AB = "*** Begin Patch\n*** Update File: x\n@@\n-a\n+b\n*** End Patch\n"
_MARKERS = b" *** End Patch\n*** Update File: y\n*** End of File\nz\n"
_AT_END = codex("@@\n-a\n+b\n*** End of File\n")


@each_row(
    "old text new",
    [
        # blanks, here-documents and CRLF around a patch
        (b"a\n", "\n *** Begin Patch \n  *** Update File: x\n@@\n-a\n+b\n *** End Patch\n\n", b"b\n"),
        (b"a\n", f"<<'EOF'\n{_AB}EOF\n", b"b\n"),
        (b"a\n", "<<EOF\n" + _AB.replace("@@\n", ""), b"b\n"),
        (b"a\n", f"cat <<'EOF'\n{_AB}EOF\n", b"b\n"),
        # the numbers of a diff do not narrow the place
        (b"a\nc\n", codex("@@ -1,2 +1,2 @@ def f():\n-a\n+b\n c\n"), b"b\nc\n"),
        (b"a\n", _AB.replace("@@\n", "").removesuffix("\n"), b"b\n"),
        (b"a\n", _AB.replace("\n", "\r\n"), b"b\n"),
        # a blank line may lack its sign, and is a line of the file
        (b"a\r\n\r\nc\r\n", codex("@@\n a\r\n\r\n-c\r\n+b\r\n\r\n"), b"a\r\n\r\nb\r\n"),
        (b"a\n\na\n", codex("\n-a\n+b\n"), b"a\n\nb\n"),
        # a line of a file is no marker
        (_MARKERS, codex("@@\n  *** End Patch\n *** Update File: y\n *** End of File\n-z\n+Z\n"), _MARKERS.replace(b"z", b"Z")),
        # lines alone go to the end, and "End of File" means it
        (b"a\n", codex("@@\n+b\n"), b"a\nb\n"),
        (b"a", codex("@@\n+b\n"), b"a\nb\n"),
        (b"a\nx\na\n", _AT_END, b"a\nx\nb\n"),
        # only a last line that is replaced gets a newline
        (b"a\nb", codex("@@\n-a\n+A\n b\n"), b"A\nb"),
        (b"b\na", codex("@@\n b\n-a\n+A\n"), b"b\nA\n"),
    ],
)  # fmt: skip
def test_what_apply_patch_makes(old: bytes, text: str, new: bytes) -> None:
    assert made(old, text, parse_apply_patch) == new


def test_a_hunk_at_the_end_fits_nowhere_else() -> None:
    found = rejected(b"a\nx\n", _AT_END, parse_apply_patch)
    assert (found.reason, found.lines) == ("not_at_end", (1,))


@each_row(
    "text reason line",
    [
        ("", "no_begin", 1),
        ("--- a/x\n+++ b/x\n", "no_begin", 1),
        ("*** Begin Patch\n*** Delete File: x\n", "no_end", 3),
        ("*** Begin Patch\n*** End Patch", "no_files", None),
        ("*** Begin Patch\n*** End Patch\nmore", "after_end", 3),
        ("*** Begin Patch\n*** Delete File: x\n*** End Patch\n EOF", "after_end", 4),
        ("<<EOF\n*** Begin Patch\n*** Delete File: x\n*** End Patch\nmore", "after_end", 5),
        ("*** Begin Patch\n*** Frobnicate File: x\n*** End Patch", "no_file_header", 2),
        ("*** Begin Patch\n*** Add File:  \n+a\n*** End Patch", "no_path", 2),
        ("*** Begin Patch\n*** Add File: x\na\n*** End Patch", "no_plus", 3),
        ("*** Begin Patch\n*** Add File: x\n+a\n\n+b\n*** End Patch", "no_plus", 4),
        ("*** Begin Patch\n*** Update File: x\n*** End Patch", "no_hunks", 2),
        (codex("@@\n"), "empty_hunk", 3),
        (codex("@@\nfoo\n"), "no_sign", 4),
        (codex("@@\n-a\n*** End of File\n-b\n"), "no_hunk_header", 6),
        ("*** Begin Patch\n*** Add File: x\n+a\n*** Delete File: x\n*** End Patch", "file_twice", 4),
        ("*** Begin Patch\n*** Add File: x\n+a\n*** Add File: x\n+b\n*** End Patch", "file_twice", 4),
        (codex("*** Move to: y\n@@\n-a\n+b\n*** Update File: x\n@@\n-b\n+c\n"), "file_twice", 7),
        (codex("@@\n-a\n+b\n*** Update File: x\n*** Move to: y\n@@\n-b\n+c\n"), "file_twice", 6),
        (codex("*** Move to: z\n@@\n-a\n+b\n*** Update File: y\n*** Move to: z\n@@\n-b\n+c\n"), "file_twice", 7),
        (codex("*** Move to: y\n@@\n-a\n+b\n*** Update File: y\n@@\n-b\n+c\n"), "file_twice", 2),
    ],
)  # fmt: skip
def test_a_text_that_is_no_patch_names_its_line(text: str, reason: str, line: int | None) -> None:
    with pytest.raises(PatchInvalid) as found:
        parse_apply_patch(text)
    assert (found.value.reason, found.value.line) == (reason, line)


@pytest.mark.parametrize("index", ["123..456 100644", "xxxxxxx..yyyyyyy", "1234567"])
def test_an_invented_index_line_is_passed_over(index: str) -> None:
    (patch,) = parse_diff(f"diff --git a/x b/x\nindex {index}\n{_HEAD}{_HUNK}")
    assert (patch.base, patch.after, len(patch.hunks)) == ("1234567" * (index == "1234567"), "", 1)


_HEAD = "--- a/x\n+++ b/x\n"
_GIT = "diff --git a/x b/x\nindex 1234567..1234568"
_HUNK = "@@ -1 +1 @@\n-a\n+b\n"


@each_row(
    "parse text reason",
    [
        (parse_diff, "hello", "no_diff"),
        (parse_diff, _HEAD, "no_diff"),
        (parse_diff, f"{_HEAD}-a\n+b\n", "no_hunk_header"),
        (parse_diff, f"{_HEAD}{_HUNK}--- a/y\n+++ b/y\n-a\n+b\n", "no_hunk_header"),
        (parse_diff, "diff --git a/x b/x\nold mode 100644\nnew mode 100644\n", "no_hunks"),
        (parse_diff, f"{_GIT}\n", "no_hunks"),
        (parse_diff, f"{_HEAD}@@ -1 +1 @@\n", "empty_hunk"),
        (parse_diff, _HUNK, "stray_line"),
        (parse_diff, f"{_HEAD}{_HUNK}...\n+c\n", "stray_line"),
        (parse_diff, f"diff --cc x\nindex 1,2..3\n{_HEAD}@@@ -1 -1 +1 @@@\n", "combined"),
        (parse_diff, f"{_GIT}\nBinary files a/x and b/x differ\n", "binary"),
        (parse_diff, f"{_GIT}\nGIT binary patch\n", "binary"),
        (parse_diff, "diff --git a/x b/x\nnew file mode 120000\n", "symlink"),
        (parse_diff, f"{_GIT} 160000\n", "submodule"),
        (parse_diff, "diff --git a/x b/y\nsimilarity index 100%\ncopy from x\ncopy to y\n", "copy"),
        (parse_diff, "diff --git a/x b/y\nold mode 100644\nnew mode 100755\n", "no_path"),
        (parse_diff, f"--- a/\n+++ b/\n{_HUNK}", "no_path"),
        (parse_diff, f'--- "a/"\n+++ "b/"\n{_HUNK}', "no_path"),
        (parse_diff, f"--- a/\n+++ /dev/null\n{_HUNK}", "no_path"),
        (parse_diff, f"diff --git a/ b/\n{_HUNK}", "no_path"),
        (parse_diff, f"{_HEAD}@@ -1 +1 @@\n-a\n\\ No\n-b\n+c\n", "newline_within"),
        (parse_diff, "--- /dev/null\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n", "add_with_context"),
        (parse_diff, "--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n@@ -0,0 +2 @@\n+b\n", "add_with_context"),
        (parse_diff, "--- a/x\n+++ /dev/null\n@@ -1,2 +1 @@\n a\n-b\n", "delete_with_rest"),
        (parse_diff, f"{_GIT}\nold mode 100644\nnew mode 100755\n{_HEAD}{_HUNK}{_HEAD}{_HUNK}", "file_twice"),
        (parse_diff, f"--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n{_HEAD}{_HUNK}{_HEAD}{_HUNK}", "file_twice"),
        (parse_blocks, "nothing", "no_blocks"),
        (parse_blocks, "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n", "block_without_path"),
        (parse_blocks, "x\n<<<<<<< SEARCH\na\n>>>>>>> REPLACE\n", "no_divider"),
        (parse_blocks, "x\n<<<<<<< SEARCH\na\n=======\nb\n", "no_replace"),
        (parse_blocks, "x\n<<<<<<< SEARCH\na\n=======\nb\n=======\nc\n>>>>>>> REPLACE\n", "two_dividers"),
        (parse_blocks, ">>>>>>> REPLACE\n", "no_search"),
    ],
)  # fmt: skip
def test_a_text_that_is_no_diff_or_no_blocks_is_refused(
    parse: Parse, text: str, reason: str
) -> None:
    with pytest.raises(PatchInvalid) as found:
        parse(text)
    assert found.value.reason == reason


def test_blank_lines_between_files_are_of_none() -> None:
    text = "*** Add File: x\n+a\n\n\n*** Delete File: y\n\n*** Update File: z\n-a\n+b\n\n"
    found = parse_apply_patch(f"*** Begin Patch\n{text}*** End Patch\n")
    assert [each.path for each in found] == ["x", "y", "z"]
    assert (found[0].hunks[0].new, found[2].hunks[0].old) == ("a\n", "a\n")


_TWO = (
    b"class A:\n    def f(self):\n        return 1\n\n    def g(self):\n        return 1\n\n"
    b"class B:\n    def f(self):\n        return 1\n"
)


@each_row(
    "headers line",
    [("@@ class A:\n@@ def f", 2), ("@@ class A\n@@ def g(self):", 5), ("@@ class B:", 9)],
)
def test_headers_narrow_the_place_to_what_they_enclose(headers: str, line: int) -> None:
    text = codex(f"{headers}\n-        return 1\n+        return 2\n")
    lines = _TWO.split(b"\n")
    lines[line] = lines[line].replace(b"1", b"2")
    assert made(_TWO, text, parse_apply_patch) == b"\n".join(lines)


def test_a_header_that_does_not_decide_or_stands_nowhere_is_refused() -> None:
    change = "-        return 1\n+        return 2\n"
    several = rejected(_TWO, codex(f"@@ class A\n{change}"), parse_apply_patch)
    assert (several.reason, several.lines) == ("several_places", (3, 6))
    assert rejected(_TWO, codex(f"@@ def h\n{change}"), parse_apply_patch).reason == "no_header"
    below = rejected(_TWO, codex("@@ class B\n-    def g(self):\n"), parse_apply_patch)
    assert (below.reason, below.lines) == ("not_below_header", (5,))
    alone = rejected(_TWO, codex("@@ class B\n+    x = 1\n"), parse_apply_patch)
    assert alone.reason == "header_alone"


_BETWEEN = b"def h():\n    p\nclass B:\n    q\ndef h():\n    q\n    r\n"


@each_row(
    "old header before after",
    [
        # what stands between the lines that the header encloses is not meant, unless nothing else
        (_BETWEEN, "def h():", b"def h():\n    q", b"def h():\n    Q"),
        (_BETWEEN.replace(b"    q\n    r", b"    r"), "def h():", b"    q", b"    Q"),
        (b"    q\ndef h():\n    p\nx\n    q\n", "def h():", b"x\n    q", b"x\n    Q"),
        # a header is the line or whole words at its start
        (b"def hx():\n    q\ndef h():\n    q\n", "def h", b"h():\n    q", b"h():\n    Q"),
        (b"def h_():\n    q\ndef h():\n    q\n", "def h", b"h():\n    q", b"h():\n    Q"),
        (b"def h_x():\n    q\ndef h_():\n    q\n", "def h_", b"h_():\n    q", b"h_():\n    Q"),
        (b"def h(x):\n    q\ndef g(x):\n    q\n", "def h(", b"(x):\n    q\ndef", b"(x):\n    Q\ndef"),
        (b"def h(_):\n    q\ndef g(x):\n    q\n", "def h(", b"(_):\n    q\ndef", b"(_):\n    Q\ndef"),
    ],
)  # fmt: skip
def test_a_place_that_a_header_encloses_is_meant_before_one_below_it(
    old: bytes, header: str, before: bytes, after: bytes
) -> None:
    text = codex(f"@@ {header}\n-    q\n+    Q\n")
    assert made(old, text, parse_apply_patch) == old.replace(before, after)


# -- unified diffs


@each_row(
    "old text new",
    [
        # wrong counts are forgiven
        *(
            (b"a\n\nb\nc\n", f"```diff\n{_HEAD}{head}\n a\n\n-b\n+B\n c\n```\n", b"a\n\nB\nc\n")
            for head in (
                "@@ -1,9 +1,2 @@",
                "@@ -7,1 +9,9 @@ def f",
                "@@",
                "@@ ... @@",
                "@@ -2 +2 @@",
            )
        ),
        (b"a\n-- b\nc\n", f"{_HEAD}@@ -1,9 +1,9 @@\n a\n--- b\n+++ B\n c\n", b"a\n++ B\nc\n"),
        # a signature of a mail ends a diff; a removed line that looks like one is none
        *(
            (b"a\n- \n", f"{_HEAD}{head}\n-a\n+b\n{end}", b"b\n- \n")
            for head in ("@@ -1 +1 @@", "@@")
            for end in ("-- \n2.39.0\n", "-- \n", "--\n", "\n-- \n\n2.39.0\n", "-- \r\n")
        ),
        (b"a\n- \n", f"{_HEAD}@@\n-a\n-- \n+c\n", b"c\n"),
        (b"a\n- \nd\n", f"{_HEAD}@@\n-a\n-- \n-d\n+c\n", b"c\n"),
        (b"a\n- \nd\n", f"{_HEAD}@@\n-a\n-- \n d\n+c\n", b"d\nc\n"),
    ],
)
def test_a_hunk_is_its_lines_whatever_its_head_says(old: bytes, text: str, new: bytes) -> None:
    assert made(old, text) == new


@each_row(
    "old body new",
    [
        (b"-- a\n-- \nx\n", "@@ -1,3 +1,2 @@\n--- a\n--- \n+++ b\n x\n", b"++ b\nx\n"),
        # what follows looks like the head of another file, whose hunk is the next one
        (b"x\n-- a\n", "@@ -1,2 +1,2 @@\n x\n--- a\n+++ b\n", b"x\n++ b\n"),
        (b"\n-- a\n", "@@ -1,2 +1,2 @@\n\n--- a\n+++ b\n", b"\n++ b\n"),
        (b"\n-- a\n", "@@ -1,2 +1,2 @@\n \n--- a\n+++ b\n", b"\n++ b\n"),
        (b"-- a\n", "@@ -1 +1 @@\n--- a\n+++ b\n", b"++ b\n"),
        (b"x\n-- a\n", "@@ -1,2 +1,2 @@\n-x\n--- a\n+++ b\n+x\n", b"++ b\nx\n"),
    ],
)
def test_right_counts_tell_removed_lines_from_headers(old: bytes, body: str, new: bytes) -> None:
    more = "@@ -4 +4 @@\n-q\n+r\n"
    assert made(old, f"--- f\n+++ f\n{body}") == new
    assert made(old + b"y\nq\n", f"--- f\n+++ f\n{body}{more}") == new + b"y\nr\n"


def test_a_diff_of_git_names_files_modes_and_moves(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        made = subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a", *words],
            cwd=tmp_path,
            check=True,
            capture_output=True,
        )
        return made.stdout.decode()

    git("init", "-q")
    before = {"ä b": "1\n2\n", "old": "a\nb\nc\nd\n", "gone": "x\n", "run": "r\n"}
    for name, text in before.items():
        (tmp_path / name).write_text(text)
    git("add", ".")
    git("commit", "-qm", "one")
    (tmp_path / "ä b").write_text("1\n-- 2\n")
    (tmp_path / "old").rename(tmp_path / "new name")
    (tmp_path / "new name").write_text("a\nb\nc\nD\n")
    (tmp_path / "gone").unlink()
    (tmp_path / "run").chmod(0o755)
    (tmp_path / "none").write_text("")
    (tmp_path / "script").write_text("s")
    (tmp_path / "script").chmod(0o755)
    git("add", ".")
    git("commit", "-qm", "two\n\n--- a/x\n+++ b/x")
    for options in ([], ["--no-prefix"], ["--src-prefix=i/", "--dst-prefix=w/"], ["--patch"]):
        text = git("show", "-M30", *options)
        found = {patch.path: patch for patch in parse_diff(text)}
        assert set(found) == {*before, "none", "script"}
        assert (found["old"].to, found["run"].mode, found["run"].hunks) == (
            *("new name", "100755"),
            (),
        )
        assert (found["gone"].kind, found["gone"].hunks[0].old) == ("delete", "x\n")
        assert (found["none"].kind, found["none"].hunks[0].new) == ("add", "")
        assert (found["script"].mode, found["script"].hunks[0].new) == ("100755", "s")
    mail = git("format-patch", "--stdout", "-1")
    assert len(parse_diff(mail)) == len(found)
    assert "2.\n" not in parse_diff(mail)[-1].hunks[-1].new


def test_a_plain_diff_has_times_and_names_of_its_own() -> None:
    old, new = "2020-01-02 03:04:05.6 +0200", "1970-01-01 00:00:00.000000000 +0000"
    body = "@@ -1 +1 @@\n-a\n+b\n"
    (patch,) = parse_diff(f"--- p/x.orig\t{old}\n+++ p/x\t{old}\n{body}")
    assert patch.names == ("p/x", "p/x.orig")
    (gone,) = parse_diff(f"diff -Nu o/x n/x\n--- o/x\t{old}\n+++ n/x\t{new}\n@@ -1 +0,0 @@\n-a\n")
    assert (gone.kind, gone.names) == ("delete", ("o/x", "x"))
    (come,) = parse_diff(f"--- o/s/x\t{new}\n+++ n/s/x\t{old}\n@@ -0,0 +1 @@\n+a\n")
    assert (come.kind, come.names) == ("add", ("s/x",))
    (come,) = parse_diff(f"--- /dev/null\n+++ b/x\t{old}\n@@ -0,0 +1 @@\n+a\n")
    assert (come.kind, come.path) == ("add", "x")


def test_names_that_git_quotes() -> None:
    (patch,) = parse_diff(
        'diff --git "a/\\303\\244\\t\\"x" "b/\\303\\244\\t\\"x"\nold mode 100644\nnew mode 100755\n'
    )
    assert (patch.path, patch.mode) == ('ä\t"x', "100755")
    (patch,) = parse_diff('--- "a/\\544"\n+++ "b/\\544"\n@@ -1 +1 @@\n-a\n+b\n')
    assert patch.path == "d", "an octal escape is one byte"
    with pytest.raises(PatchInvalid, match="name_not_utf8"):
        parse_diff('--- "a/\\344"\n+++ "b/\\344"\n@@ -1 +1 @@\n-a\n+b\n')


def diff(body: str) -> str:
    return f"--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n{body}"


@each_row(
    "old body new",
    [
        # what the lines do not say is as the file has it
        (b"a\r\nb\r\n", " a\n-b\n+c\n+d\n", b"a\r\nc\r\nd\r\n"),
        (b"a\r\nb\n", "-a\n-b\n+A\n+B\n", b"A\r\nB\n"),
        (b"a\r\nb\r\nc", " b\n c\n+d\n", b"a\r\nb\r\nc\r\nd\r\n"),
        (b"a\nb", "-a\n+A\n b\n", b"A\nb"),
        # what they say is so to the byte
        (b"a\r\nb\r\n", " a\r\n-b\r\n+b\n", b"a\r\nb\n"),
        (b"a\nb\n", " a\n-b\n+b\r\n", b"a\nb\r\n"),
        (b"a\nb", " a\n-b\n\\ No newline at end of file\n+b\n", b"a\nb\n"),
        (b"a\nb\n", " a\n-b\n+b\n\\ No newline at end of file\n", b"a\nb"),
        (b"a\r\nb", " a\r\n-b\n\\ No newline at end of file\n+b\r\n", b"a\r\nb\r\n"),
        # one line without an end does not say how lines end
        (b"a\r\nb", "-b\n\\ No newline at end of file\n+b\n", b"a\r\nb\r\n"),
        (b"a\r\nb", "-b\n\\ No newline at end of file\n+c\n+d\n", b"a\r\nc\r\nd\r\n"),
        (b"a\r\nb", "-b\n\\ No newline at end of file\n+c\r\n+d\n", b"a\r\nc\r\nd\n"),
        (b"b", "-b\n\\ No newline at end of file\n+b\n", b"b\n"),
        (b"a\nb\na\nb", " a\n-b\n\\ No newline at end of file\n+c\n", b"a\nb\na\nc\n"),
        (b"a\n", "-a\n", b""),
        # of lines that are there often and one that is rare
        (b"a\na\na\nb\n", " a\n-b\n+c\n", b"a\na\na\nc\n"),
        # hunks in another order than their places
        (b"a\nb\n", "-b\n+B\n@@ -1 +1 @@\n-a\n+A\n", b"A\nB\n"),
        # a mark within the file is a character
        (b"x\r\n\xef\xbb\xbfa\ny\n", "-\ufeffa\n+b\n+c\n", b"x\r\nb\nc\ny\n"),
        # a byte order mark belongs to the first line or not
        (b"\xef\xbb\xbfa\nb\n", "-a\n+A\n b\n", b"\xef\xbb\xbfA\nb\n"),
        (b"\xef\xbb\xbfa\nb\n", "-\ufeffa\n+A\n b\n", b"A\nb\n"),
        (b"a\nb\n", "-a\n+\ufeffa\n b\n", b"\xef\xbb\xbfa\nb\n"),
        (b"a\r\nb\n", "-a\n+\ufeffa\n b\n", b"\xef\xbb\xbfa\r\nb\n"),
        (b"\xef\xbb\xbfa\r\nb\r\n", "-\ufeffa\n+\ufeffA\n b\n", b"\xef\xbb\xbfA\r\nb\r\n"),
        (b"\xef\xbb\xbfa\r\nb\r\n", "-\ufeffa\n-b\n+\ufeffA\n", b"\xef\xbb\xbfA\r\n"),
        (b"\xef\xbb\xbfa\nb\r\n", "-a\n+A\n+x\n", b"\xef\xbb\xbfA\nx\nb\r\n"),
        # a byte that is no text is kept, and meant by its picture
        (b"\xe4\na\nb\n", " a\n-b\n+c\n", b"\xe4\na\nc\n"),
        (b"\xe4\na\n", "-\\xe4\n+\\xe4\\xe4\n a\n", b"\xe4\xe4\na\n"),
    ],
)
def test_every_byte_that_a_hunk_keeps_stays(old: bytes, body: str, new: bytes) -> None:
    assert made(old, diff(body)) == new


@each_row("more", ["", "y\n" * 9])
def test_a_line_that_shows_a_mark_is_found_in_order(more: str) -> None:
    """Few lines and many are sought in two ways."""
    base = f"\ufeffa\nb\n{more}\ufeffa\nb\n".encode()
    found = rejected(base, diff("-\ufeffa\n-b\n+c\n"))
    assert found.lines == (1, 3 + len(more) // 2)
    assert rejected("\ufeffa\n".encode() * 3, diff("-\ufeffa\n" * 2)).lines == (1, 2)
    end = codex("@@\n-\ufeffa\n-b\n+c\n*** End of File\n")
    assert made(base, end, parse_apply_patch) == f"\ufeffa\nb\n{more}c\n".encode()


@each_row(
    "data edits",
    [
        (b"a\na\na\n", [(2, 3, b"b")]),
        (b"a\na\na\n", [(0, 2, b"")]),
        (b"a\na\na\n", [(4, 6, b""), (0, 1, b"b")]),
        (b"a\na\na\n", [(0, 1, b"b"), (2, 3, b"c")]),
        (b"a\na\na\n", [(0, 0, b"b\n"), (6, 6, b"c\n")]),
        (b"a\na\na\n", [(2, 2, b"b\n")]),
        (b"a\r\na\na\r\n", [(3, 3, b"b\n"), (5, 6, b"c")]),
        (b"a\na", [(3, 3, b"b\n")]),
        (b"\xef\xbb\xbfa\na\n", [(3, 4, b"b")]),
        (b"\xef\xbb\xbfa\na\n", [(3, 3, b"b\n"), (5, 6, b"c")]),
        (b"\xffa\na\na\n", [(1, 2, b"b"), (5, 6, b"\xff")]),
        (b"", [(0, 0, b"a\n")]),
    ],
)
@each_row("created", [False, True])
def test_the_patch_of_a_change_makes_it(
    data: bytes, edits: list[tuple[int, int, bytes]], created: bool
) -> None:
    """Also where its lines stand elsewhere too: its base is the very text."""
    base = Snapshot.of(data)
    change = ChangeSet.of(base.size, [Edit(*edit) for edit in sorted(edits)])
    if created and data:
        return
    request = patch_of(RelPath.parse("x"), base, change, created=created)
    place = request.locate(base)
    assert compose(request, base, place, created=created).change.apply(data) == change.apply(data)


def test_bytes_that_a_hunk_means_are_told_and_new_ones_that_cannot_be_are_refused() -> None:
    base = Snapshot.of(b"\xe4\na\n")
    with pytest.raises(EncodingRefused):
        made(base.data, diff("-a\n+ß\n"))
    (patch,) = parse_diff(diff("-\\xe4\n+\\xe4\\xfe\n a\n"))
    request = PatchEdit(RelPath.parse("x"), patch.hunks)
    escapes = compose(request, base, request.locate(base)).escapes
    assert (escapes.meant, escapes.kept) == ({"\\xe4"}, {"\\xfe"})


@each_row("data", [b"a\nb\nc\n", b"a\nb\n", b"\xef\xbb\xbfa\nb\n"])
def test_a_file_that_a_patch_deletes_holds_what_the_patch_takes(data: bytes) -> None:
    request = PatchEdit(RelPath.parse("x"), (PatchHunk("a\nb\n", ""),))
    if b"c" not in data:
        request.check_whole(Snapshot.of(data), 7)
        return
    with pytest.raises(PatchRejected) as found:
        request.check_whole(Snapshot.of(data), 7)
    assert found.value.rejected == (RejectedHunk("x", 1, "not_whole", 7),)


def test_a_place_must_be_the_only_one() -> None:
    found = rejected(b"a\nb\nx\na\nb\n", f"{_HEAD}@@ -4,2 +4,2 @@\n a\n-b\n+B\n")
    where = (found.reason, found.lines, found.hunk, found.patch_line)
    assert where == ("several_places", (1, 4), 1, 3)


def indexed(old: bytes, new: str = "1234567") -> tuple[str, str]:
    """The head of a diff of git that was made of the text, and the text's whole name there."""
    blob = hashlib.sha1(b"blob %d\0" % len(old) + old).hexdigest()
    return f"diff --git a/x b/x\nindex {blob[:7]}..{new} 100644\n{_HEAD}", blob


def test_the_line_number_counts_in_the_very_text_that_the_patch_was_made_of() -> None:
    old, body, within = b"a\nb\nx\na\nb\n", "@@ -4,2 +4,2 @@\n a\n-b\n+B\n", "@@ -3,0 +4 @@\n+y\n"
    head, blob = indexed(old)
    assert rejected(old + b"y\n", head + body).reason == "several_places"
    for name in (blob[:7], blob, hashlib.sha256(b"blob %d\0" % len(old) + old).hexdigest()):
        assert made(old, head.replace(blob[:7], name) + body) == b"a\nb\nx\na\nB\n"
    assert made(old, head + within) == b"a\nb\nx\ny\na\nb\n"
    assert made(old, head + "@@ -0,0 +1 @@\n+y\n") == b"y\n" + old
    assert made(old, head + "@@ -5,0 +6 @@\n+y\n") == old + b"y\n"
    for data, alone in ((old + b"y\n", within), (old, "@@ -6,0 +7 @@\n+y\n"), (old, "@@\n+y\n")):
        assert rejected(data, head + alone).reason == "no_context"
    for number, before in enumerate(("", "@@ -1 +1 @@\n-a\n+A\n"), 1):
        found = rejected(old, f"{head}{before}{within}\\ No newline at end of file\n")
        assert (found.reason, found.hunk, found.lines) == ("not_at_end", number, (4,))
    old = b"a\r\nb\r\n"
    head, _ = indexed(old)
    assert made(old, head + "@@ -1,0 +2 @@\n+y\n") == b"a\r\ny\r\nb\r\n"
    exact, _ = indexed(old, indexed(b"a\r\ny\nb\r\n")[1][:7])
    assert made(old, exact + "@@ -1,0 +2 @@\n+y\n") == b"a\r\ny\nb\r\n"
    assert made(old, head + "@@ -1,0 +2,2 @@\n+y\n+z\r\n") == b"a\r\ny\nz\r\nb\r\n"


@each_row(
    "old body reason cause",
    [
        (b"a\n    b = 1\n", " a\n-  b = 1\n+c\n", "not_found", ("indentation",)),
        (b"a\nb  \n", " a\n-b\n+c\n", "not_found", ("trailing_blanks",)),
        (b"a\nb = \xe2\x80\x9cq\xe2\x80\x9d\n", ' a\n-b = "q"\n+c\n', "not_found", ("quotes",)),
        (b"a\nnew 1\nnew 2\n", " a\n-old\n+new 1\n+new 2\n", "already_there", None),
        (b"a\nb\n", " a\n-b\n\\ No newline at end of file\n+c\n", "not_at_end", None),
        (b"a\nb\nx\n", " a\n-b\n+c\n\\ No newline at end of file\n", "not_at_end", None),
    ],
)
def test_a_hunk_that_does_not_fit_tells_why(
    old: bytes, body: str, reason: str, cause: tuple[str, ...] | None
) -> None:
    found = rejected(old, diff(body))
    assert (found.path, found.hunk, found.reason) == ("x", 1, reason)
    assert found.cause == cause
    if cause:
        assert found.nearest_lines == "1~2"
        assert found.corrected_lines == old.decode()


@each_row(
    "old body reason lines",
    [
        (b"c\na\nb\n", "-b\n-c\n+d\n", "not_found", None),
        (b"z\na\nnew\nb\n", " a\n-old\n+new\n b\n", "already_there", (3,)),
        (b"z\nnew\nb\n", "-old\n+new\n b\n", "already_there", (2,)),
        (b"z\na\nb\nc\n", " a\n b\n-old\n", "already_there", (3,)),
        (b"\xe4\na\n", "-\u00df\n+a\n", "not_found", None),
        (b"\xef\xbb\xbfa\nx\na\n", "-x\n-\ufeffa\n+c\n", "not_found", None),
        (b"a\nb\n", "-a\n-b\n+x\n@@ -2 +2 @@\n-b\n+c\n", "hunks_overlap", (2,)),
        (b"\xe4\ny\ny\n", "-\\xe4x\n-y\n+c\n", "not_found", None),
        (b"a\nb\n", " a\n+x\n@@ -1 +1 @@\n a\n+y\n", "hunks_overlap", (1,)),
        (b"a\nb\n", " a\n-b\n+B\n@@ -2 +2 @@\n b\n+c\n", None, None),
    ],
)
def test_lines_that_stand_apart_or_cannot_stand_there(
    old: bytes, body: str, reason: str | None, lines: tuple[int, ...] | None
) -> None:
    if reason is None:
        assert made(old, diff(body)) == b"a\nB\nc\n"
        return
    found = rejected(old, diff(body))
    assert (found.reason, found.lines) == (reason, lines)
    assert found.hunk == 1 + (reason == "hunks_overlap")


@each_row(
    "old body cause by similar corrected difference",
    [
        (b"    a\n    b\n", "-  a\n-  b\n+c\n", ("indentation",), 2, None, "    a\n    b\n", ("-   b", "+     b")),
        (b"xx v = 1\n", "-v = 1\n+c\n", ("part_of_line",), None, None, "xx v = 1\n", ("- v = 1", "+ xx v = 1")),
        (b"xx v = 1\nf(a)\n", "-v = 1\n-f(a)\n+c\n", ("part_of_line",), None, None, "xx v = 1\nf(a)\n", ("- v = 1", "+ xx v = 1")),
        (b"def f():\n    a()\n", "-a()\n+c\n", ("indentation",), 4, None, "    a()\n", ("- a()", "+     a()")),
        (b"run(left, right)\n", "-run(left, night)\n+c\n", None, None, None, None, ("- run(left, night)", "+ run(left, right)")),
        (b"x =  1\ny\nx =  1\n", "-x = 1\n+z\n", ("spacing",), None, (3,), None, ("- x = 1", "+ x =  1")),
    ],
)  # fmt: skip
def test_what_stands_nearest_to_a_hunk(
    old: bytes,
    body: str,
    cause: tuple[str, ...] | None,
    by: int | None,
    similar: tuple[int, ...] | None,
    corrected: str | None,
    difference: tuple[str, ...],
) -> None:
    found = rejected(old, diff(body))
    assert found.difference == difference
    assert (found.cause, found.indented_by) == (cause, by)
    assert (found.similar_lines, found.corrected_lines) == (similar, corrected)


@given(st.lists(st.sampled_from([b"a", b"b"]), max_size=30), st.data())
def test_a_run_of_lines_is_found_wherever_it_stands(
    texts: list[bytes], data: st.DataObject
) -> None:
    wanted = data.draw(st.lists(st.sampled_from([b"a", b"b"]), min_size=1, max_size=5))
    starts = range(len(texts) - len(wanted) + 1)
    naive = [at for at in starts if texts[at : at + len(wanted)] == wanted]
    assert occurrences(texts, wanted) == naive


_MIXED = st.lists(
    st.tuples(st.sampled_from(" -+"), st.sampled_from("ab"), st.sampled_from(["\n", "\r\n"])),
    max_size=8,
).filter(lambda lines: any(sign != "+" for sign, _, _ in lines))
"""The lines of a hunk for all of a file, each with its sign, text, and end there."""


@each_row(
    "old body new",
    [
        (b"same\r\nsame\n", "-same\n same\n", b"same\n"),
        (b"same\r\nsame\n", " same\n-same\n", b"same\r\n"),
        (b"a\na\r\na\n", "-a\n a\n-a\n", b"a\r\n"),
        (b"a\r\nb\n", "-a\n b\n+a\n", b"b\na\n"),
        (b"a\nb\r\na\n", "+a\n a\n-b\n a\n", b"a\na\na\n"),
    ],
)
def test_of_equal_lines_the_one_with_the_sign_goes(old: bytes, body: str, new: bytes) -> None:
    assert made(old, diff(body)) == new
    assert made(old, codex(f"@@\n{body}"), parse_apply_patch) == new


@given(_MIXED)
def test_kept_lines_keep_their_bytes(lines: list[tuple[str, str, str]]) -> None:
    body = "".join(f"{sign}{text}\n" for sign, text, _ in lines)
    old = [(text + end).encode() for sign, text, end in lines if sign != "+"]
    rest = [(text.encode(), end, sign) for sign, text, end in lines if sign != "-"]
    for text, parse in ((diff(body), parse_diff), (codex(f"@@\n{body}"), parse_apply_patch)):
        found = made(b"".join(old), text, parse).splitlines(keepends=True)
        assert [line.rstrip() for line in found] == [line for line, _, _ in rest]
        for line, (raw, end, sign) in zip(found, rest, strict=True):
            assert sign == "+" or line == raw + end.encode()


@example(
    [("-", "a", "\n"), (" ", "b", "\n"), ("-", "a", "\r\n"), (" ", "b", "\n"), ("+", "a", "\n")]
)
@given(_MIXED)
def test_blocks_keep_the_bytes_of_as_many_lines_as_are_equal(
    lines: list[tuple[str, str, str]],
) -> None:
    sides = ("".join(f"{text}\n" for sign, text, _ in lines if sign != no) for no in "+-")
    search, replace = sides
    old = [(text + end).encode() for sign, text, end in lines if sign != "+"]
    found = made(b"".join(old), block(search, replace), parse_blocks).splitlines(keepends=True)
    assert b"".join(found).replace(b"\r", b"").decode() == replace
    alike = align(search.split("\n")[:-1], replace.split("\n")[:-1]).matched
    assert common(old, found) >= alike


def common(old: Sequence[bytes], new: Sequence[bytes]) -> int:
    """How many lines the longest common subsequence has."""
    row = [0] * (len(new) + 1)
    for line in old:
        above = row
        row = [0]
        for at, other in enumerate(new):
            row.append(above[at] + 1 if line == other else max(above[at + 1], row[at]))
    return row[-1]


class Counted(bytes):
    """A line that counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return bytes(self) == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = bytes.__hash__


def test_equal_lines_are_not_compared_with_each_other_all() -> None:
    keys = [Counted(b"x")] * 2_000
    base = Snapshot.of(b"x\n" * 2_000)
    vars(base)["keys"] = tuple(keys)
    hunk = PatchHunk("x\n" * 500, "x\n" * 499)
    hunks = (hunk,) * 50
    Counted.compared = 0
    with pytest.raises(PatchRejected) as found:
        PatchEdit(RelPath.parse("x"), hunks).places(base)
    told = found.value.rejected
    assert [(one.reason, one.lines) for one in told] == [("several_places", (*range(1, 11),))] * 50
    assert Counted.compared < 20_000


def test_all_hunks_that_do_not_fit_are_told_and_those_that_meet() -> None:
    text = diff("-q\n+r\n") + "@@ -5 +5 @@\n-a\n+A\n@@ -9 +9 @@\n-s\n+t\n"
    with pytest.raises(PatchRejected) as found:
        made(b"a\nb\n", text)
    assert [(one.hunk, one.patch_line) for one in found.value.rejected] == [(1, 3), (3, 9)]
    text = diff(" a\n-b\n+B\n c\n") + "@@ -2 +2 @@\n b\n-c\n+C\n"
    assert made(b"a\nb\nc\n", text) == b"a\nB\nC\n"
    text = diff(" a\n-b\n+B\n c\n") + "@@ -2 +2 @@\n-b\n+X\n c\n"
    assert rejected(b"a\nb\nc\n", text).reason == "hunks_overlap"


@each_row("head", ["@@", "@@ def foo(): @@", "@@ ... @@", "@@ -3,0 +4 @@"])
def test_new_lines_of_which_nothing_says_where_they_go_are_refused(head: str) -> None:
    text = f"--- a/x\n+++ b/x\n{head}\n+    new()\n"
    assert rejected(b"def foo():\n    a()\n\ndef bar():\n    b()\n", text).reason == "no_context"
    assert made(b"", text) == b"    new()\n"


@each_row(
    "old new names",
    [
        ("backup/m.py", "backup/m.py", ("backup/m.py",)),
        ("vendor/x/m.py", "vendor/x/m.py.new", ("vendor/x/m.py.new", "vendor/x/m.py")),
        ("p-1/x/m.py", "p-2/x/m.py", ("p-2/x/m.py", "p-1/x/m.py", "x/m.py")),
        ("p-1/x/m.py", "p-2/y/m.py", ("p-2/y/m.py", "p-1/x/m.py")),
        ("b/m.py", "b/m.py", ("b/m.py", "m.py")),
    ],
)
def test_a_folder_is_left_out_only_where_it_is_a_side_of_the_comparison(
    old: str, new: str, names: tuple[str, ...]
) -> None:
    (patch,) = parse_diff(f"--- {old}\n+++ {new}\n@@ -1 +1 @@\n-a\n+b\n")
    assert patch.names == names


# -- SEARCH/REPLACE blocks


def test_blocks_name_their_file_above_or_go_on_in_the_one_before() -> None:
    one = "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n"
    text = (
        f"I change two.\n\n**src/a.py**:\n```python\n{one}```\n\n{one.replace('a', 'c')}"
        f"text\n### `b.txt`\n<source>\n{one}</source>\n```sub/c.py\n{one}```\n"
        "new.py\n<<<<< SEARCH\n=======\nx\n>>>>> REPLACE\n"
    )
    found = parse_blocks(text)
    assert [(each.kind, each.path, len(each.hunks)) for each in found] == [
        ("update", "src/a.py", 2),
        ("update", "b.txt", 1),
        ("update", "sub/c.py", 1),
        ("add", "new.py", 1),
    ]
    assert found[3].hunks[0].new == "x\n"


_NEW = "<<<<<<< SEARCH\n=======\nx\n>>>>>>> REPLACE\n"
_OLD = "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n"


@each_row(
    "above known new",
    [
        # a path just above, or over blank lines
        ("b.txt\n", ("b.txt",), ("b.txt",)),
        ("b.txt\n\n", ("b.txt",), ("b.txt",)),
        ("0.txt\n\n", ("0.txt",), ("0.txt",)),
        ("file=b.txt\n", ("b.txt",), ("b.txt",)),
        ("1. `b.txt`\n", ("b.txt",), ("b.txt",)),
        ("[b.txt](b.txt)\n", ("b.txt",), ("b.txt",)),
        ("\u200bb.txt\n", ("b.txt",), ("b.txt",)),
        ("**b.txt:**\n```python\n", ("b.txt",), ("b.txt",)),
        ("**s/b.txt:**\n\n```python\n", ("s/b.txt",), ("s/b.txt",)),
        ("s/b.py\n```python s/b.py\n", ("s/b.py",), ("s/b.py",)),
        ("<tool>\n<path>b.txt</path>\n\n<diff>\n<content><![CDATA[\n", ("b.txt",), ("b.txt",)),
        ("app/[slug]/there.tsx\n\n", ("app/[slug]/there.tsx",), ("app/[slug]/there.tsx",)),
        ("Makefile\n\n", ("Makefile",), ("Makefile",)),
        ("there.py~\n", ("there.py~",), ("there.py~",)),
        ("</code>\n", ("a.py",), ("a.py",)),
        ("b.txt\n<source>python\n", ("b.txt",), ("b.txt",)),
        ("```solidity\nb.txt\n```python\n", ("b.txt",), ("b.txt",)),
        # the only line that is the path of a file that is there, or a title that names one
        ("### there.py\n\nReplace the line:\n\n", ("there.py",), ()),
        ("**File:** `there.py`\n**Line:** 2\n**Error:** not `o.x()`.\n\n**Fix:**\n\n```\n", ("there.py",), ()),
        ("### Change 2: `there.py`\n\n", ("there.py",), ("there.py",)),
        ("there.py\n\nThis makes the check in other.py pass.\n\n", ("there.py",), ()),
        ("there.py\n\nAs `other.py` does:\n\n```python\n", ("there.py",), ()),
        ("there.py\n\n```bash\npytest\n```\n", ("there.py",), ("there.py",)),
        ("- there.py\n- other.py\n\nFirst:\n\n", (), ()),
        # the only one that is there of a sentence just above, and of no other
        ("my there.py\n", ("my there.py",), ()),
        ("Now update there.py\n", ("there.py",), ()),
        ("Use `self.value` in `there.py`:\n```python\n", ("there.py",), ()),
        ("// In there.py - the import\n", ("there.py",), ()),
        ("--- there.py\n", ("there.py",), ()),
        ("Now back to a.py\n", ("a.py",), ()),
        ("In `there.py` and `other.py`:\n", (), ()),
        ("Now update gone.py\n", (), ()),
        ("C:\\Users\\my own\\gone.py\n", (), ()),
        ("Change there.py (called from other.py):\n", (), ()),
        ("Change s/gone.py (called from there.py):\n", (), ()),
        ("### Files: s/gone.py and there.py\n", (), ()),
        ("### s/gone.py\n\n**there.py** calls it.\n\n", ("s/gone.py",), ()),
        ("Same in Makefile and a.py:\n", (), ()),
        # a sentence further above that speaks of another file that is there
        ("As there.py has it:\n\n", (), ()),
        ("- there.py: y\n\n", (), ()),
        ("| there.py | y |\n\n", (), ()),
        ("As gone.py and a.py have it:\n\n", ("a.py",), ("a.py",)),
        # what fences and tags say
        ("```python there.py\n", ("there.py",), ()),
        ('```python title="there.py"\n', ("there.py",), ()),
        ("<file path='there.py'>\n", ("there.py",), ()),
        ("```\nthere.py\n```\n", ("there.py",), ("there.py",)),
        ("```bash\nmake test\n\nthere.py\n```python\n", ("there.py",), ("there.py",)),
        ("Use `self.value` instead:\n", (), ()),
        ("Use `self.value` instead:\n\n", ("a.py",), ("a.py",)),
        ("Everything in lib/sub stays.\n\n", ("a.py",), ("a.py",)),
        # what is within a fence that is closed, and other words, are no paths
        ("```text\nother.py F [100%]\nother.py\n```\nBut:\n\n", ("a.py",), ("a.py",)),
        ("```\nsrc/\n  new.py\n```\n", ("a.py",), ("a.py",)),
        ("```bash\npytest\n```\n", ("a.py",), ("a.py",)),
        *((f"{words}\n\n", ("a.py",), ("a.py",)) for words in ("Then:", "### Node.js", "**Vue.js**", "## v1.2.3", "- self.value", "`logger.info`", "client/server", "and/or", "1.2e3", "1.5 times 1,024", "### Tests")),
        *((f"{words}\n", ("a.py",), ()) for words in ("Then:", "### Tests", "- Imports", "1. Tests", "src/")),
        ("~~~\n", ("a.py",), ("a.py",)),
    ],
)  # fmt: skip
def test_the_path_of_a_block_is_above_it_or_that_of_the_block_before(
    above: str, known: tuple[str, ...], new: tuple[str, ...]
) -> None:
    there = {"a.py", "there.py", "other.py", "my there.py", "app/[slug]/there.tsx", "Makefile"}
    for block, names in ((_OLD, known), (_NEW, new)):
        text = f"a.py\n```\n{_OLD}```\n\n{above}{block}"
        if names:
            found = parse_blocks(text, there.__contains__)
            assert [each.path for each in found] == [*dict.fromkeys(("a.py", *names))]
        else:
            with pytest.raises(PatchInvalid) as refused:
                parse_blocks(text, there.__contains__)
            assert refused.value.reason == "block_without_path"


@each_row("fence", ["```", "````", "~~~"])
def test_the_fence_of_a_block_is_its_own(fence: str) -> None:
    blocks = (f"{name}\n{fence}rust\n{_OLD}{fence}\n\n" for name in ("a.rs", "b/c.rs", "a.rs"))
    assert [each.path for each in parse_blocks("".join(blocks))] == ["a.rs", "b/c.rs"]
    words = f"{fence}text\nother.py\n```python\n{fence}`\n{fence}\n\n"
    (patch,) = parse_blocks(f"a.rs\n{_OLD}{words}{_OLD}", lambda name: name == "other.py")
    assert (patch.path, len(patch.hunks)) == ("a.rs", 2)


def test_words_above_blocks_are_looked_up_once_and_bare_ones_not_at_all() -> None:
    asked: list[str] = []
    prose = "Some words about it, and a/b.c besides.\n" * 30 + "\n"
    parse_blocks(f"a.py\n{_OLD}" + f"{prose}{_OLD}" * 20, lambda name: bool(asked.append(name)))
    assert sorted(asked) == ["a/b.c"]


def test_what_a_shell_is_to_write_is_no_block() -> None:
    text = f"a.py\n{_OLD}\n```bash\ncat > there.py <<'EOF'\n{_OLD}EOF\n```\n"
    assert [len(each.hunks) for each in parse_blocks(text, "there.py".__eq__)] == [1]


@each_row("end", ["", f"b.txt\n{_OLD}"])
@each_row("fence", ["```python\na\n", "~~~~x\n", f"{'`' * 20}x\n"])
def test_fences_without_an_end_are_looked_at_once(fence: str, end: str) -> None:
    def cost(count: int) -> int:
        text = f"{fence * count}{end}b.txt\n{_OLD}"
        return steps(lambda: parse_blocks(text))

    assert cost(400) < 3 * cost(200)


def test_a_file_that_the_message_makes_is_there() -> None:
    text = f"new.py\n{_NEW}\n### new.py\n\nAnd then:\n\n{_OLD}"
    assert [(each.path, len(each.hunks)) for each in parse_blocks(text)] == [("new.py", 2)]


@each_row(
    "text old new line",
    [
        # Roo: numbers of lines, and escapes of lines that look like those of a block
        ("<<<<<<< SEARCH\n:start_line:[7]\n :end_line: 8 \n -------\na\n=======\nb\n>>>>>>> REPLACE", "a\n", "b\n", 7),
        ("<<<<<<< SEARCH\n:start_line:7\n\\=======\n=======\n\\<<<<<<< HEAD\n\\:start_line:1\n\\a\n\\-------/\n>>>>>>> REPLACE", "=======\n", "<<<<<<< HEAD\n:start_line:1\n\\a\n\\-------/\n", 7),
        ("<<<<<<< SEARCH\na\n=======\n\\=======\n>>>>>>> REPLACE", "a\n", "\\=======\n", 0),
        ("<<<<<<< SEARCH\n:end_line:8\na\n=======\nb\n>>>>>>> REPLACE", "a\n", "b\n", 0),
        ("<<<<<<< SEARCH\n-------\na\n=======\nb\n>>>>>>> REPLACE", "-------\na\n", "b\n", 0),
        # Cline: any number of signs, and one that closes
        ("<<<<< SEARCH>\na\n=======\nb\n>>>>>>>>>>> REPLACE>", "a\n", "b\n", 0),
        ("------- SEARCH\n=======\nb\n+++++++ REPLACE", "", "b\n", 0),
    ],
)  # fmt: skip
def test_dialects_of_blocks(text: str, old: str, new: str, line: int) -> None:
    for sent in (f"x\n{text}\n", f"x\n{text}\n".replace("\n", "\r\n")):
        ((hunk,),) = (patch.hunks for patch in parse_blocks(sent))
        assert (hunk.old, hunk.new, hunk.line) == (old, new, line)


def test_lines_without_a_place_have_none_in_a_sequence(tmp_path: Path) -> None:
    first = "@@\n-a\n+b\n*** Update File: x\n"
    (patch,) = parse_apply_patch(codex(f"{first}@@ def f\n+new\n"))
    with pytest.raises(PatchRejected) as found:
        in_order(RelPath.parse("x"), patch.hunks, Snapshot.of(b"a\n"), created=False)
    assert found.value.rejected[0].reason == "header_alone"
    (patch,) = parse_apply_patch(codex(f"{first}@@\n+new\n"))
    fixed = in_order(RelPath.parse("x"), patch.hunks, Snapshot.of(b"a\n"), created=False)
    assert fixed.causes == ()


def test_what_names_a_file_twice_is_in_order_without_numbers() -> None:
    second = _HUNK.replace("a", "b").replace("+b", "+c") + "@@ -0,0 +5 @@\n+d\n"
    for parse, text in (
        (parse_diff, f"{_GIT}\n{_HEAD}{_HUNK}{_GIT}\n{_HEAD}{second}"),
        (parse_apply_patch, codex("@@\n-a\n+b\n*** Update File: x\n@@\n-b\n+c\n")),
    ):
        (patch,) = parse(text)
        assert (patch.in_order, patch.base, patch.after) == (True, "", "")
        assert {(hunk.line, hunk.after) for hunk in patch.hunks} == {(0, None)}


@each_row(
    "line",
    [
        *("Now create the file foo.py.", "Now create foo.py", "# Now create `foo.py`:"),
        *("**Create foo.py**", "Done.", "Example:", "`a.py` and `b.py`", "现在创建 foo.py："),
        *("```python foo.py", "```{.python}", "完成。", "Sure!"),
    ],
)
def test_a_sentence_names_no_new_file(line: str) -> None:
    for before in ("", "a.py\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n"):
        with pytest.raises(PatchInvalid) as found:
            parse_blocks(f"{before}{line}\n{_NEW}")
        assert found.value.reason == "block_without_path"


@each_row("line", ["...", "<source>", "</source>"])
def test_what_stands_around_a_block_names_no_file(line: str) -> None:
    with pytest.raises(PatchInvalid) as found:
        parse_blocks(f"{line}\n{_NEW}")
    assert found.value.reason == "block_without_path"


@each_row(
    "above path",
    [
        ("foo.py", "foo.py"),
        ("src/foo.py:", "src/foo.py"),
        ("src/foo:", "src/foo"),
        ("**`src/my foo.py`**:", "src/my foo.py"),
        ("### `foo`", "foo"),
        ("Makefile", "Makefile"),
        ("foo.py：", "foo.py"),
        ("foo.py\n```{.python}", "foo.py"),
        ("I write it.\n```foo.py", "foo.py"),
    ],
)
def test_a_path_above_an_empty_search_names_a_new_file(above: str, path: str) -> None:
    (patch,) = parse_blocks(f"{above}\n{_NEW}")
    assert (patch.kind, patch.path) == ("add", path)


def test_commands_for_a_shell_are_no_blocks() -> None:
    text = "```bash\ncat <<X\n\n\n<<<<<<< SEARCH\n```\n" + block("a\n", "b\n")
    assert made(b"a\n", text, parse_blocks) == b"b\n"
    assert made(b"a\n", block("a\n", "b\n") + "```bash\nls\n", parse_blocks) == b"b\n"


def test_a_block_is_found_as_it_stands_or_not_at_all() -> None:
    old = b"def f():\r\n    return 1\r\n"
    assert made(old, block("    return 1\n", "    return 2\n"), parse_blocks) == (
        old.replace(b"1", b"2")
    )
    found = rejected(old, block("return 1\n", "return 2\n"), parse_blocks)
    assert (found.reason, found.cause, found.corrected_lines) == (
        *("not_found", ("indentation",)),
        "    return 1\n",
    )
    assert rejected(b"a\na\n", block("a\n", "b\n"), parse_blocks).reason == "several_places"


def test_lines_of_bytes_are_each_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    base = Snapshot.of(b"\xff\n" * 3_000 + b"\\xff\n\\\\xfe\n")
    asked: list[bytes] = []
    decode = Encoding.text

    def text(self: Encoding, data: bytes) -> str:
        asked.append(data)
        return decode(self, data)

    def places(*lines: str) -> list[int]:
        return _Sought(base, is_base=False)._as_shown(lines)

    monkeypatch.setattr(Encoding, "text", text)
    assert not places(*["\\xff"] * 1_500, "x")
    assert len(asked) == 3
    assert places(*["\\xff"] * 3_000, "\\\\xff") == [0]
    assert places("\\xff", "\\xff", "\\\\\\\\xfe") == [2_999]
    assert places("\\xff", "\\\\xff") == [2_999]


def test_a_header_is_sought_once_in_all_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(f"def f{at}(a):\n    return a\n\n" for at in range(60))
    asked: list[object] = []
    names = patch_kind._names

    def counted(header: str, line: str) -> bool:
        asked.append(header)
        return names(header, line)

    monkeypatch.setattr(patch_kind, "_names", counted)
    hunks = "".join(f"@@ def f{at}(a):\n-    return a\n+    return b\n" for at in range(50, 60))
    patch = f"*** Begin Patch\n*** Update File: x\n{hunks}*** End Patch\n"
    (one,) = parse_apply_patch(patch)
    places = PatchEdit(RelPath.parse("x"), one.hunks).places(Snapshot.of(text.encode()))
    assert places == tuple((3 * at + 1, 3 * at + 2) for at in range(50, 60))
    assert len(asked) == 10
    many = patch.replace("@@ def f50", "@@ a\n" * 100 + "@@ def f50")
    with pytest.raises(PatchInvalid) as refused:
        parse_apply_patch(many)
    assert refused.value.reason == "many_headers"
