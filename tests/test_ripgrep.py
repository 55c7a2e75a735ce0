"""The searches against a small tree: what is found, shown, held back and refused."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from copydesk.errors import Failed, FileNotFound, InvalidArgs, InvalidPath, NotAFile, Refusal
from copydesk.search import options as args_module
from copydesk.search import ripgrep
from copydesk.search.options import Query, parse_rg_args
from copydesk.search.ripgrep import (
    MAX_ROWS,
    PACKET_BYTES,
    FoundFiles,
    FoundLine,
    Lines,
    MatchCounts,
    Raw,
    Search,
    Snippets,
    count_matches,
    find_rg,
    links_to_leave_out,
    packets,
    read_line,
    search_files,
    search_raw,
    search_snippets,
)
from copydesk.store import _os
from copydesk.store.access import glob_roots
from copydesk.store.files import Files
from copydesk.text.relpath import RelPath
from support.cost import spread
from support.rows import each_row

RG = find_rg()
ROOT = RelPath(())

TREE: dict[str, bytes] = {
    "-dash.txt": b"needle -dash\n",
    "-": b"needle alone\n",
    "a b.txt": b"one needle\ntwo needles: needle\n",
    "crlf.txt": b"first\r\nneedle here\r\nlast\r\n",
    "invalid.txt": b"caf\xe9 needle\n",
    "sub/Upper.py": b"x = NEEDLE\ny = 'a.c'\nz = 'abc'\n",
    "sub/deep/n.py": b"1\n2\nneedle\n4\n5\nneedle\n7\n",
    "sub/utf16.txt": "﻿first\r\n\u4e2d\u6587 needle\r\n".encode("utf-16-le"),
    "sub/bom.txt": "﻿needle bom\n".encode(),
    "sub/sep.txt": "a\u2028needle\x85 \x0cneedle\n".encode(),
    "文件.md": "中文 needle 中文\n".encode(),
    "new\nline.txt": b"needle\n",
    "bin.dat": b"needle\n" + b"x\n" * 50_000 + b"\0needle\n",
    "nul.dat": b"\0needle\n",
    ".hidden": b"needle hidden\n",
    ".config/x.txt": b"needle\n",
    ".git/config": b"needle git\n",
    ".gitignore": b"ignored/\n",
    "ignored/i.txt": b"needle\n",
}
VISIBLE = (
    "-", "-dash.txt", "a b.txt", "bin.dat", "crlf.txt", "invalid.txt", "new\nline.txt",
    "sub/bom.txt", "sub/deep/n.py", "sub/sep.txt", "sub/utf16.txt", "文件.md",
)  # fmt: skip
SMART = (*VISIBLE[:7], "sub/Upper.py", *VISIBLE[7:])


def write(root: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("tree"), TREE)


OPEN: dict[Path, Files] = {}


@pytest.fixture(autouse=True, scope="module")
def closed() -> Iterator[None]:
    yield
    for files in OPEN.values():
        files.close()


def at(root: Path, readable: Callable[[RelPath], bool] = lambda _: True, **more: object) -> Search:
    """A search of a folder; what asks for one is skipped where there is no program for it."""
    if RG is None:
        pytest.skip("no ripgrep (rg) on this machine")
    files = OPEN.get(root) or OPEN.setdefault(root, Files(root))
    return Search(RG, files, readable, **more)  # type: ignore[arg-type]


def by_script(search: Search, path: Path, text: str) -> Search:
    """The search with this script for its program; {rg} is the real one."""
    assert RG is not None
    path.write_text("#!/bin/sh\n" + text.replace("{rg}", RG.path))
    path.chmod(0o755)
    return replace(search, rg=replace(RG, path=str(path)))


def ask(pattern: str, path: str = ".", **options: object) -> Query:
    return Query(pattern, RelPath.parse(path), **options)  # type: ignore[arg-type]


def say(found: FoundFiles | MatchCounts | Snippets | Raw) -> str:
    """A result on one line, for the tables."""
    more = " +" if found.truncated else ""
    match found:
        case FoundFiles():
            return " ".join(found.paths) + more
        case MatchCounts():
            rows = " ".join(f"{row.path}={row.lines}/{row.matches}" for row in found.rows)
            return f"{rows} = {found.total_files}/{found.total_lines}/{found.total_matches}{more}"
        case Snippets():
            return " ".join(f"{r.path}:{r.line}:{r.column}:{r.match}" for r in found.results) + more
        case Lines():
            signs = ((row, ":" if row.is_match else "-") for row in found.rows)
            return " ".join(f"{r.path}{s}{r.line}{s}{r.column}{s}{r.text}" for r, s in signs) + more


FILES: list[tuple[Query, tuple[str, ...]]] = [
    (ask("needle", case="sensitive"), VISIBLE),
    (ask("needle"), SMART),
    (ask("needle", case="insensitive"), SMART),
    (ask("Needle"), ()),
    (ask("NEEDLE"), ("sub/Upper.py",)),
    (ask("a.c"), ("sub/Upper.py",)),
    (ask("a.c", "sub", fixed_strings=True), ("sub/Upper.py",)),
    (ask("a(", fixed_strings=True), ()),
    (ask("-dash"), ("-dash.txt",)),
    (ask("--help"), ()),
    (ask("needle", "-dash.txt"), ("-dash.txt",)),
    (ask("needle", "-"), ("-",)),
    (ask("needle", "sub/deep"), ("sub/deep/n.py",)),
    (ask("needle", "new\nline.txt"), ("new\nline.txt",)),
    (ask("needle", globs=("*.py",)), ("sub/Upper.py", "sub/deep/n.py")),
    (ask("needle", globs=("*.py", "!deep")), ("sub/Upper.py",)),
    (ask("needle", globs=("./sub/*.py",)), ("sub/Upper.py",)),
    (ask("needle", globs=("/sub/*.txt", "!./sub/s*")), ("sub/bom.txt", "sub/utf16.txt")),
    (ask("needle", globs=("-*",)), ("-", "-dash.txt")),
    (ask("中文"), ("sub/utf16.txt", "文件.md")),
    (ask("needle", globs=("*hidden*",)), ()),
    (ask("needle", globs=(".git/**", ".config/**")), ()),
    (ask("needle", ".config"), (".config/x.txt",)),
    (ask("needle", ".git"), (".git/config",)),
    (ask("needle", "ignored/i.txt"), ("ignored/i.txt",)),
    (ask("needle", "ignored"), ("ignored/i.txt",)),
    (ask("needle", ".hidden"), (".hidden",)),
    (ask("needle", "a b.txt", globs=("!*",)), ("a b.txt",)),
    (ask("needle", "nul.dat"), ()),
    (ask("needle", globs=(".h*", ".c*"), include_hidden=True), (".hidden",)),
    (ask("needle git|needle hidden", include_hidden=True), (".hidden",)),
    (ask("needle git", globs=("*", ".git/**"), include_hidden=True), ()),
    (ask("nothing like it"), ()),
]


@pytest.mark.slow
@each_row("query paths", FILES)
def test_files(tree: Path, query: Query, paths: tuple[str, ...]) -> None:
    assert search_files(at(tree), query, 50) == FoundFiles(paths=paths, truncated=False)


@each_row("most truncated", [(1, True), (11, True), (12, False), (13, False), (MAX_ROWS, False)])
def test_truncated_is_exact(tree: Path, most: int, truncated: bool) -> None:
    query = ask("needle", case="sensitive")
    assert search_files(at(tree), query, most) == FoundFiles(
        paths=VISIBLE[:most], truncated=truncated
    )
    counts = count_matches(at(tree), query, most)
    assert (len(counts.rows), counts.truncated) == (min(most, 12), truncated)
    assert (counts.total_files, counts.total_lines, counts.total_matches) == (12, 14, 16)


@each_row("query said", [
    (ask("needle", "a b.txt"), "a b.txt=2/3 = 1/2/3"),
    (ask("needle", "sub", globs=("*.txt",)), None),
    (ask("needle", "sub/deep"), "sub/deep/n.py=2/2 = 1/2/2"),
    (ask("nothing"), " = 0/0/0"),
])  # fmt: skip
def test_counts(tree: Path, query: Query, said: str | None) -> None:
    expected = "sub/bom.txt=1/1 sub/sep.txt=1/2 sub/utf16.txt=1/1 = 3/3/4"
    assert say(count_matches(at(tree), query, 50)) == (said or expected)


@each_row("path said text", [
    ("crlf.txt", "crlf.txt:2:1:needle", "needle here"),
    ("invalid.txt", "invalid.txt:1:9:needle", "caf\\xe9 needle"),
    ("sub/utf16.txt", "sub/utf16.txt:2:4:needle", "中文 needle"),
    ("sub/bom.txt", "sub/bom.txt:1:1:needle", "needle bom"),
    ("sub/sep.txt", "sub/sep.txt:1:3:needle", "a\u2028needle\x85 \x0cneedle"),
    ("文件.md", "文件.md:1:4:needle", "中文 needle 中文"),
    ("new\nline.txt", "new\nline.txt:1:1:needle", "needle"),
])  # fmt: skip
def test_snippet(tree: Path, path: str, said: str, text: str) -> None:
    found = search_snippets(at(tree), ask("needle", path), 5, 0, 0)
    assert say(found) == said
    assert [result.text for result in found.results] == [text]


@each_row("before after around", [
    (0, 0, [("", ""), ("", "")]),
    (1, 1, [("2", "4"), ("5", "7")]),
    (2, 0, [("12", ""), ("45", "")]),
    (0, 3, [("", "45n"), ("", "7")]),
    (4, 4, [("12", "45n7"), ("2n45", "7")]),
])  # fmt: skip
def test_context(tree: Path, before: int, after: int, around: list[tuple[str, str]]) -> None:
    def text(lines: tuple[FoundLine, ...]) -> str:
        return "".join(line.text[0] for line in lines)

    query = ask("needle", "sub/deep")
    found = search_snippets(at(tree), query, 9, before, after)
    assert [(text(r.before), text(r.after)) for r in found.results] == around
    first = search_snippets(at(tree), query, 1, before, after)
    assert (first.results, first.truncated) == (found.results[:1], True)


def test_a_binary_file_is_shown_up_to_its_first_nul(tree: Path) -> None:
    for path in (".", "bin.dat"):
        query = ask("needle", path, globs=("bin.dat",))
        found = search_snippets(at(tree), query, 5, 0, 0)
        assert say(found) == "bin.dat:1:1:needle"
        assert [(w.path, w.kind, w.detail) for w in found.warnings] == [
            ("bin.dat", "binary", "100007")
        ]


LONG = 40_000


@pytest.mark.slow
@each_row("data pattern line column in_text", [
    (b"needle" + b"x" * LONG, "needle", 1, 1, True),
    (b"x" * LONG + b"needle", "needle", 1, LONG + 1, True),
    (b"1\n" + b"\xe9" * LONG + b"needle\n", "needle", 2, 4 * LONG + 1, True),
    (b"x" * LONG, "x+", 1, 1, False),
    (b"x" * LONG, "x", 1, 1, True),
    (b"1\n2\nneedle" + b'\\"' * PACKET_BYTES, "needle", 3, 1, True),
    (b"1\n2\n" + b"\xff" * PACKET_BYTES + b"needle", "needle", 3, 4 * PACKET_BYTES + 1, True),
    (b"1\n2\n" + b"x" * PACKET_BYTES + b"\n4\nneedle", "needle", 5, 1, True),
])  # fmt: skip
def test_long_lines_are_cut(
    tmp_path: Path, data: bytes, pattern: str, line: int, column: int | None, in_text: bool
) -> None:
    write(tmp_path, {"long": data})
    (found,) = search_snippets(at(tmp_path), ask(pattern), 5, 2, 2).results
    assert (found.line, found.column) == (line, column)
    assert len(found.text) <= 500
    assert len(found.match) <= 500
    assert found.cut is (len(data.split(b"\n")[line - 1]) > 500)
    assert (bool(found.match) and found.match in found.text and len(found.match) < 9) is in_text
    if column is not None:
        shown_at = column - found.from_column
        assert found.text[shown_at:].startswith(found.match[:9])
    assert all(len(near.text) <= 500 for near in (*found.before, *found.after))


def test_the_far_match_of_a_line_too_large_to_read_again_has_no_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ripgrep, "VERSION_BYTES", PACKET_BYTES)
    write(tmp_path, {"long": b"1\n2\n" + b"\xff" * PACKET_BYTES + b"needle"})
    found = search_snippets(at(tmp_path), ask("needle"), 5, 2, 2)
    assert found.searched == ()
    (line,) = found.results
    assert (line.line, line.column, line.match, line.from_column) == (3, None, "", 1)
    assert line.text == "\\xff" * 125
    assert line.cut


@pytest.mark.parametrize("size", [1000, 1 << 16, 3 << 20, None])
def test_packets_do_not_depend_on_the_chunks(size: int | None) -> None:
    def message(text: str, number: int) -> bytes:
        data = {
            "path": {"text": "p"},
            "lines": {"text": text + "\n"},
            "line_number": number,
            "absolute_offset": 0,
            "submatches": [{"match": {"text": 'x"'}, "start": 2, "end": 4}],
        }
        body = json.dumps({"type": "match", "data": data}, ensure_ascii=False)
        return body.replace(", ", ",").replace(": ", ":").encode() + b"\n"

    texts = ["short", '},"line_number":7', "é\\u12" * 300_000, "last"]
    stream = b"".join(message(text, number) for number, text in enumerate(texts, 1))
    if size is None:  # the piece that names the long line is torn
        size = stream.rindex(b'},"line_number":3') + 9
    chunks = [stream[i : i + size] for i in range(0, len(stream), size)]
    found = [read_line(packet) for packet in packets(chunks)]
    assert [(line.number, line.spans, line.whole) for line in found] == [
        (number, ((2, 4),), number != 3) for number in (1, 2, 3, 4)
    ]
    for line, text in zip(found, texts, strict=True):
        assert text.encode().startswith(line.data)
        assert line.whole is (line.data == text.encode())
    assert len(found[2].data) > 30_000


def test_what_may_not_be_read_counts_for_nothing(tree: Path) -> None:
    seen: list[int] = []
    search = at(tree, lambda path: path.parts[:1] == ("sub",), progress=seen.append)
    query = ask("needle", case="sensitive")
    visible = tuple(path for path in VISIBLE if path.startswith("sub/"))
    assert search_files(search, query, 4) == FoundFiles(paths=visible, truncated=False)
    assert seen == [1, 2, 3, 4]
    assert search_files(search, query, 3) == FoundFiles(paths=visible[:3], truncated=True)
    assert say(count_matches(search, query, 9)).endswith(" = 4/5/6")
    assert {r.path for r in search_snippets(search, query, 5, 9, 9).results} == set(visible)
    assert search_snippets(search, query, 5, 9, 9).warnings == ()
    raw = search_raw(search, "needle", ROOT, parse_rg_args(["-l"]), 4)
    assert raw == FoundFiles(paths=visible, truncated=False)


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """A workspace with links: inside, out of it, in a circle, to nothing."""
    write(tmp_path / "outside", {"secret.txt": b"needle out\n"})
    root = write(
        tmp_path / "root", {"real/r.txt": b"needle\n", "noread/n.txt": b"needle\n", "d/x": b""}
    )
    for name, target in {
        "d/in": "../real",
        "d/file": "../real/r.txt",
        "d/out": "../../outside",
        "d/out [!]* ": str(tmp_path / "outside"),
        "d/secret": "../../outside/secret.txt",
        "d/up": "..",
        "d/self": ".",
        "d/none": "nowhere",
        "d/peek": "../noread/n.txt",
        "d/.hid": "../../outside",
    }.items():
        (root / name).symlink_to(target)
    return root


@pytest.mark.slow
@each_row("path follow paths", [
    (".", False, "noread/n.txt real/r.txt"),
    ("d", False, ""),
    ("d/in", False, "d/in/r.txt"),
    ("d/file", False, "d/file"),
    (".", True, "d/file d/in/r.txt d/peek noread/n.txt real/r.txt"),
    (
        "d",
        True,
        "d/file d/in/r.txt d/peek d/up/d/file d/up/d/in/r.txt d/up/d/peek"
        " d/up/noread/n.txt d/up/real/r.txt",
    ),
    ("d/in", True, "d/in/r.txt"),
])  # fmt: skip
def test_links(linked: Path, path: str, follow: bool, paths: str) -> None:
    query = ask("needle", path, follow_symlinks=follow, include_hidden=follow)
    assert say(search_files(at(linked), query, 50)) == paths
    search = at(linked, lambda path: path.parts[0] != "noread")
    allowed = [shown for shown in paths.split() if "noread" not in shown and "peek" not in shown]
    assert search_files(search, query, 50).paths == tuple(allowed)


@pytest.mark.parametrize("path", ["d/out", "d/secret", "d/out/secret.txt"])
@pytest.mark.parametrize("follow", [False, True])
def test_a_search_path_that_leads_out(linked: Path, path: str, follow: bool) -> None:
    with pytest.raises(InvalidPath):
        search_files(at(linked), ask("needle", path, follow_symlinks=follow), 5)


def test_links_are_left_out_by_name(linked: Path) -> None:
    def left_out(hidden: bool) -> set[str]:
        return set(
            links_to_leave_out(
                at(linked).files, RelPath.parse("d"), include_hidden=hidden, is_over=lambda: False
            )
        )

    here = {"none", "out", r"out[ ]\[\!\]\*[ ]", "secret", "self"}
    behind_up = {f"up/d/{name}" for name in (*here, "up")}
    assert left_out(False) == {f"!/d/{name}" for name in here | behind_up}
    assert left_out(True) - left_out(False) == {"!/d/.hid", "!/d/up/d/.hid"}


def test_what_rg_is_started_with(linked: Path, tmp_path: Path) -> None:
    text = f'printf "%s\\n" "$@" > {tmp_path}/argv\nexec {{rg}} "$@"\n'
    search = by_script(at(linked), tmp_path / "spy", text)
    query = ask("--pre=x", "d", globs=("--pre=y",), follow_symlinks=True)
    assert search_files(search, query, 5).paths == ()
    argv = (tmp_path / "argv").read_text().splitlines()
    assert argv[-3:] == ["--", "--pre=x", "./d"]
    assert {"--no-config", "--follow", "--glob=--pre=y"} <= set(argv)
    # It does not even read what stands behind links that lead out.
    assert {"--glob=!/d/out", "--glob=!/d/secret", "--iglob=!.*"} <= set(argv)
    assert [arg for arg in argv if arg.startswith("--pre")] == ["--pre=x"]


RACED = """
case " $* " in
*" --files-with-matches "*) printf './a\\0./dir/f\\0./dir/g\\0./dir/sub/h\\0' ;;
*) exec "{rg}" "$@" ;;
esac
"""


@pytest.mark.parametrize(
    ("openat2", "exchanged", "target"),
    spread((False, True), (False, True), ("../outside", "private"), of=3),
)
def test_a_directory_exchanged_for_a_link_while_rg_walks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, exchanged: bool, openat2: bool
) -> None:
    """The first ripgrep has met what the link leads to; it may be exchanged again since."""
    if not openat2:
        monkeypatch.setattr(_os.offers, "openat2", False)
    root = tmp_path / "root"
    write(root, {"dir/f": b"needle in\n", "a": b"needle\n"})
    secret = {"f": b"1\nneedle out\nneedle out\n", "g": b"needle out\n", "sub/h": b"needle out\n"}
    write(tmp_path / "outside", secret)
    write(root / "private", secret)
    (root / "link").symlink_to(target)
    if exchanged:
        (root / "dir").rename(root / "held")
        (root / "link").rename(root / "dir")
        (root / "held").rename(root / "link")
    search = at(root, lambda path: "private" not in path.parts, progress=lambda seen: None)
    search = by_script(search, tmp_path / "spy", RACED)
    inner = () if exchanged else ("dir/f",)
    for follow in (False, True):
        query = ask("needle", follow_symlinks=follow)
        found = [
            search_files(search, query, 9).paths,
            tuple(row.path for row in count_matches(search, query, 9).rows),
            tuple(row.path for row in search_snippets(search, query, 9, 2, 2).results),
        ]
        for args in ("-l", "-c", "-C2"):
            raw = search_raw(search, "needle", ROOT, parse_rg_args([args]), 9)
            found.append(
                raw.paths if isinstance(raw, FoundFiles) else tuple(r.path for r in raw.rows)
            )
        assert found == [("a", *inner)] * 6
        counts = count_matches(search, query, 9)
        assert counts.total_files == counts.total_lines == counts.total_matches == 1 + len(inner)


def test_warnings_tell_only_of_what_may_be_read(linked: Path) -> None:
    query = ask("needle", follow_symlinks=True)
    warned = search_files(at(linked), query, 50).warnings
    assert [(w.path, w.kind) for w in warned] == [("d/none", "unreadable")]
    search = at(linked, lambda path: path.parts[0] != "d")
    assert search_files(search, query, 50).warnings == ()


@pytest.mark.skipif(sys.platform == "darwin", reason="names are Unicode on this system")
def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    write(tmp_path, {os.fsdecode(name): b"needle\n" for name in (b"f\xff", b"d\xfe/in")})
    files = "d\\xfe/in f\\xff"
    assert say(search_files(at(tmp_path), ask("needle"), 5)) == files
    one = at(tmp_path, lambda path: len(path.name) != 2 or path.name == "in")
    assert say(search_files(one, ask("needle"), 5)) == "d\\xfe/in"
    assert say(search_files(at(tmp_path), ask("needle", follow_symlinks=True), 5)) == ""


ALLOWED: list[tuple[str, str | None]] = [
    ("-i --ignore-case", "a b.txt:1:5:one needle a b.txt:2:5:two needles: needle"),
    ("-s --case-sensitive -S --smart-case -F --fixed-strings", None),
    ("-w --word-regexp", "a b.txt:1:5:one needle a b.txt:2:14:two needles: needle"),
    ("-x --line-regexp", ""),
    ("-v --invert-match", ""),
    ("-U --multiline --multiline-dotall --crlf", None),
    ("--no-unicode -a --text --binary", None),
    ("-. --hidden --no-hidden", None),
    ("--no-ignore --no-ignore-dot --no-ignore-exclude --no-ignore-global", None),
    ("--no-ignore-parent --no-ignore-vcs --one-file-system --glob-case-insensitive", None),
    ("-u", None),
    ("-uuu --unrestricted", None),
    ("-n --line-number -N --no-line-number -H --with-filename -I --no-filename", None),
    ("--column --heading --no-heading --max-columns-preview --no-config --no-follow", None),
    ("--color=never --color auto", None),
    ("-o --only-matching", "a b.txt:1:5:needle a b.txt:2:5:needle a b.txt:2:14:needle"),
    ("-l", "a b.txt"),
    ("--files-with-matches", "a b.txt"),
    ("-c", "a b.txt=2/3 = 1/2/3"),
    ("--count", "a b.txt=2/3 = 1/2/3"),
    ("--count-matches", "a b.txt=2/3 = 1/2/3"),
    ("-m1", "a b.txt:1:5:one needle"),
    ("--max-count 1", "a b.txt:1:5:one needle"),
    ("-A3 -B 2 -C=1 --context=2 --after-context 0 --before-context=0", None),
    ("-inwm 1", "a b.txt:1:5:one needle"),
    ("-d1 --max-depth=0 --max-filesize 1K --max-filesize=9", ""),
    ("-g *.txt --glob=!x -g./a* --iglob=A*", None),
    ("-g *.md -t py --type=py -T rust --type-not=c", None),
    ("-E utf-8 --encoding=none", None),
    ("--engine=default --engine auto", None),
    ("--sort path --sortr=path", None),
    ("--sort modified", None),
    ("-M 5 --max-columns=3", "a b.txt:1:5:nee a b.txt:2:5:nee"),
]


@pytest.mark.slow
@each_row("args said", ALLOWED)
def test_allowed_args(tree: Path, args: str, said: str | None) -> None:
    found = search_raw(
        at(tree), "needle", RelPath.parse("a b.txt"), parse_rg_args(args.split()), 50
    )
    if said is None:
        said = "a b.txt:1:5:one needle a b.txt:2:5:two needles: needle"
    assert say(found) == said


@each_row("args", [["-P"], ["--pcre2"], ["--engine=pcre2"]])
def test_pcre2_where_rg_has_it(tree: Path, args: list[str]) -> None:
    path = RelPath.parse("sub/deep")
    try:
        found = search_raw(at(tree), "(?<!x)needle", path, parse_rg_args(args), 50)
    except InvalidArgs as refused:
        assert refused.argument == "rg_args"  # noqa: PT017 - both outcomes are right
    else:
        assert say(found) == "sub/deep/n.py:3:1:needle sub/deep/n.py:6:1:needle"


def test_every_option_of_the_list_is_tried() -> None:
    tried = " ".join([args for args, _ in ALLOWED] + ["-P --pcre2"])
    words = {word.partition("=")[0] for word in tried.split()}
    names = {f"--{name}" for name in (*args_module._FLAGS, *args_module._VALUES)}
    assert names - words == set()


@each_row("pattern args said", [
    ("needle$", ["-C1"], "sub/deep/n.py-2-None-2 sub/deep/n.py:3:1:needle"),
    ("4\\n5", ["-U"], "sub/deep/n.py:4:1:4 sub/deep/n.py:5:1:5 +"),
    ("4\n5", ["-UF", "-o"], "sub/deep/n.py:4:1:4 sub/deep/n.py:5:1:5 +"),
    ("needle\\n", ["-oU"], "sub/deep/n.py:3:1:needle sub/deep/n.py:6:1:needle +"),
    ("needle", ["-v"], "sub/deep/n.py:1:None:1 sub/deep/n.py:2:None:2"),
])  # fmt: skip
def test_rows(tree: Path, pattern: str, args: list[str], said: str) -> None:
    path = RelPath.parse("sub/deep/n.py")
    full = search_raw(at(tree), pattern, path, parse_rg_args(args), 50)
    found = search_raw(at(tree), pattern, path, parse_rg_args(args), 2)
    assert isinstance(full, Lines)
    assert isinstance(found, Lines)
    assert found.rows == full.rows[:2]
    assert found.truncated is (len(full.rows) > 2)
    assert say(found).removesuffix(" +") == said.removesuffix(" +")


def test_a_long_match_alone_is_cut(tmp_path: Path) -> None:
    write(tmp_path, {"a.txt": b"-" + b"x" * 501 + b"-\n-" + b"x" * 500 + b"-\n"})
    found = search_raw(at(tmp_path), "x+", ROOT, parse_rg_args(["--only-matching"]), 50)
    assert isinstance(found, Lines)
    told = [(row.text, row.column, row.cut, row.is_cut_at_end) for row in found.rows]
    assert told == [("x" * 500, 2, True, True), ("x" * 500, 2, False, False)]


def test_hidden_files_in_a_raw_search(tree: Path) -> None:
    def paths(*args: str) -> set[str]:
        found = search_raw(at(tree), "needle", ROOT, parse_rg_args(["-l", *args]), 50)
        assert isinstance(found, FoundFiles)
        return set(found.paths)

    assert paths() == set(VISIBLE)
    assert paths("--iglob=*", "-g*") == {*VISIBLE, "ignored/i.txt"}
    assert paths("-.", "--iglob=*") == {*VISIBLE, "ignored/i.txt", ".hidden", ".config/x.txt"}
    assert paths("-uu") == {*VISIBLE, "ignored/i.txt", ".hidden", ".config/x.txt"}


REFUSED = [
    *["--pre=cat", "--pre cat", "--pre-glob=*", "--hostname-bin=id", "-z", "--search-zip", "-iz"],
    *["-f/etc/passwd", "-f x", "--file=x", "--ignore-file=x", "--config=x", "-L", "--follow"],
    *["-iL", "-ex", "--regexp=x", "-rx", "--replace=x", "--json", "--files", "--type-list", "-V"],
    *["-h", "--help", "--version", "--type-add=x:*", "--type-clear=c", "--debug", "--trace"],
    *["--generate=man", "-q", "--quiet", "-0", "--null", "-j4", "--threads=1", "--passthru"],
    *["--files-without-match", "--stats", "--hyperlink-format=x", "--colors=x", "--mmap"],
    *["--dfa-size-limit=9G", "--regex-size-limit=9G", "--line-buffered", "--vimgrep", "--pretty"],
    *["x", "needle", "-", "--", "-- -i", "-i x", "--=x", "---i", "-i=x", "--hidden=1", "-é"],
    *["-A", "-A-1", "-Ax", "-A51", "--context", "--context=", "-C 1.5", "-m -1", "-C ٣"],
    *["--sort=size", "--color=always", "--engine=x", "-t ../x", "-E /x", "--max-filesize=1X"],
    *["-g", "--glob=", "-g ../x", "-g a/../b", "-g a\0b", "--iglob=a\udc80", "\0", "-i\udc80"],
    " ".join(["-i"] * 101),
]


@each_row("args", REFUSED)
def test_refused_args(args: str) -> None:
    with pytest.raises(InvalidArgs) as refused:
        parse_rg_args(args.split(" "))
    assert refused.value.argument == "rg_args"
    refused.value.reason.encode()


def test_globs_of_args_can_be_checked() -> None:
    parsed = parse_rg_args(["-ig", "a/**", "--iglob", "./B/*", "-g!c"])
    assert parsed.globs == ("a/**", "/B/*", "!c")


@pytest.mark.slow
@each_row("query argument", [
    (ask(""), "pattern"),
    (ask("", pattern_argument="literal"), "literal"),
    (ask("a\0b"), "pattern"),
    (ask("a\udc80"), "pattern"),
    (ask("a\nb", fixed_strings=True, pattern_argument="literal"), "literal"),
    (ask("a\nb"), "pattern"),
    (ask("a\\nb"), "pattern"),
    (ask("("), "pattern"),
    (ask("(error parsing glob: unrecognized file type"), "pattern"),
    (ask("(\\w{1000}){1000}"), "pattern"),
    (ask("x" * 70_000), "pattern"),
    (ask("x", globs=("a[",)), "globs"),
    (ask("x", globs=("",)), "globs"),
    (ask("x", globs=("!",)), "globs"),
    (ask("x", globs=("../x",)), "globs"),
    (ask("x", globs=("a\0",)), "globs"),
    (ask("x", globs=("\ud800",)), "globs"),
    (ask("x", globs=("a",) * 201), "globs"),
])  # fmt: skip
def test_invalid_args(tree: Path, query: Query, argument: str) -> None:
    with pytest.raises(InvalidArgs) as refused:
        search_files(at(tree), query, 5)
    assert refused.value.argument == argument
    assert 0 < len(refused.value.reason) <= 500


@each_row("search argument", [
    (lambda s: search_files(s, ask("x"), 0), "max_files"),
    (lambda s: count_matches(s, ask("x"), MAX_ROWS + 1), "max_files"),
    (lambda s: search_snippets(s, ask("x"), -1, 0, 0), "max_results"),
    (lambda s: search_snippets(s, ask("x"), 1, -1, 0), "context_before"),
    (lambda s: search_snippets(s, ask("x"), 1, 0, 51), "context_after"),
    (lambda s: search_raw(s, "x", ROOT, parse_rg_args([]), 0), "max_rows"),
    (lambda s: search_raw(s, "", ROOT, parse_rg_args([]), 1), "pattern"),
    (lambda s: search_raw(s, "a\nb", ROOT, parse_rg_args(["-F"]), 1), "pattern"),
    (lambda s: search_raw(s, "(", ROOT, parse_rg_args([]), 1), "pattern"),
    (lambda s: search_raw(s, "x", ROOT, parse_rg_args(["-ga["]), 1), "rg_args"),
    (lambda s: search_raw(s, "x", ROOT, parse_rg_args(["-tnope"]), 1), "rg_args"),
    (lambda s: search_raw(s, "x", ROOT, parse_rg_args(["-Enope"]), 1), "rg_args"),
])  # fmt: skip
def test_invalid_limits_and_options(
    tree: Path, search: Callable[[Search], object], argument: str
) -> None:
    with pytest.raises(InvalidArgs) as refused:
        search(at(tree))
    assert refused.value.argument == argument


@pytest.mark.parametrize("code", [0, 1])
def test_an_rg_that_breaks_off_has_not_answered(tree: Path, tmp_path: Path, code: int) -> None:
    text = f'"{{rg}}" "$@" | head -n 2\nexit {code}\n'
    with pytest.raises(Failed, match="without an answer"):
        search_snippets(by_script(at(tree), tmp_path / "broken", text), ask("needle"), 5, 0, 0)


def test_a_search_path_that_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    cases: list[tuple[str, type[Refusal]]] = [
        ("nope", FileNotFound),
        ("fifo", NotAFile),
        ("fifo/x", FileNotFound),
    ]
    for path, refusal in cases:
        with pytest.raises(refusal):
            search_files(at(tmp_path), ask("x", path), 5)
    assert say(search_files(at(tmp_path), ask("x"), 5)) == ""


def test_no_ripgrep(tree: Path) -> None:
    with Files(tree) as files, pytest.raises(Failed, match="COPYDESK_RG"):
        search_files(Search(None, files, lambda _: True), ask("x"), 5)


def test_the_caller_gives_up(tree: Path) -> None:
    for follow in (False, True):
        query = ask("needle", follow_symlinks=follow)
        with pytest.raises(Failed):
            search_files(at(tree, cancelled=lambda: True), query, 5)


def test_the_time_is_up(tree: Path) -> None:
    found = search_files(at(tree, timeout_s=0.0), ask("needle"), 5)
    assert found == FoundFiles(paths=(), truncated=False, timed_out=True)


def test_no_configuration_takes_part(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rc").write_text("--hidden\n--invert-match\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tmp_path / "rc"))
    query = ask("needle", case="sensitive")
    assert search_files(at(tree), query, 50).paths == VISIBLE


@pytest.mark.skipif(RG is None, reason="no ripgrep (rg) on this machine")
def test_find_rg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert RG is not None
    assert os.path.isabs(RG.path)
    chosen = find_rg({"COPYDESK_RG": RG.path, "PATH": ""})
    assert chosen == RG
    assert find_rg({"COPYDESK_RG": str(tmp_path / "none"), "PATH": os.environ["PATH"]}) is None
    fake = tmp_path / "rg"
    fake.write_text("#!/bin/sh\necho something else 1.2.3\n")
    fake.chmod(0o755)
    assert find_rg({"COPYDESK_RG": str(fake)}) is None
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "rg").symlink_to(RG.path)
    monkeypatch.chdir(tmp_path)

    def found(path: str) -> str:
        rg = find_rg({"PATH": path})
        return rg.path if rg else ""

    linked = str(tmp_path / "bin" / "rg")
    assert found("bin") != linked
    assert found(str(tmp_path / "bin")) == linked
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    assert found("") == linked


@each_row("glob root", [
    ("src/**/*.py", "src"),
    ("src/a.py", "src/a.py"),
    ("/src/*", "src"),
    ("/src", "src"),
    ("./.minds/**", ".minds"),
    (".minds/", "."),
    ("*.py", "."),
    ("**/secret/x", "."),
    ("{a,b}/c", "."),
    ("a/[bc]/d", "a"),
    ("a/b?/c", "a"),
    ("a\\*b/c/*", "a*b/c"),
    ("a//b/./c/*", "a/b/c"),
    ("a/../b/*", "b"),
    ("!secret/**", "."),
    ("", "."),
])  # fmt: skip
def test_glob_roots(glob: str, root: str) -> None:
    assert glob_roots(glob) == RelPath.parse(root)
    with pytest.raises(InvalidPath):
        glob_roots("../x/*")
