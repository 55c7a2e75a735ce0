"""The charsets of `.editorconfig`: which file and which section decides, and that none can harm."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from copydesk.store.dotfiles import EditorConfig, matches
from copydesk.store.files import Files
from copydesk.text.relpath import RelPath


def check_charset(root: Path, path: str, codec: str | None) -> None:
    files = Files(str(root), durability="fast")
    try:
        assert EditorConfig(files).charset(RelPath.parse(path)) == codec
    finally:
        files.close()


def put(root: Path, folder: str, text: str) -> None:
    (root / folder).mkdir(parents=True, exist_ok=True)
    (root / folder / ".editorconfig").write_text(text)


GLOBS = [
    # a star, which is no slash and may be nothing
    ("a*e.c", "ae.c ace.c abcde.c x/ae.c", "a/e.c ae.cc"),
    ("Bar/*", "Bar/foo.txt Bar/.editorconfig", "Bar x/Bar/a Bar/a/b"),
    ("*", ".editorconfig a/b", ""),
    # a question mark
    ("som?.c", "some.c", "som.c something.c som/.c"),
    # classes
    ("[ab].a", "a.a b.a", "c.a ab.a"),
    ("[!ab].b", "c.b", "a.b"),
    ("[d-g].c", "d.c f.c g.c", "h.c"),
    ("[!d-g].d", "h.d", "f.d"),
    ("[abd-g].e", "e.e", "c.e"),
    ("[-ab].f", "-.f a.f", "c.f"),
    ("[ab-].f", "-.f", "c.f"),
    (r"[\]ab].g", "].g a.g", "c.g"),
    ("[ab]].g", "b].g", "b.g"),
    ("ab[e/]cd.i", "ab[e/]cd.i", "ab/cd.i abecd.i"),
    ("ab[/c", "ab[/c", "ab/c"),
    ("[].x", "[].x", "x.x"),
    ("[z-a].x", "", "z.x a.x m.x"),
    (r"[a\-c].x", "a.x -.x c.x", "b.x"),
    # braces
    ("*.{py,js,html}", "test.py a/test.js test.html", "test.pyc"),
    ("{single}.b", "{single}.b", ".b single.b"),
    ("{}.c", "{}.c", ".c"),
    ("a{b,c,}.d", "a.d ab.d ac.d", "a,.d"),
    ("a{,b,,c,}.e", "a.e ab.e ac.e", "a,.e"),
    ("{.f", "{.f", ".f"),
    ("{word,{also},this}.g", "word.g {also}.g this.g", "word,this}.g {also,this}.g"),
    ("{{a,b},c}.k", "a.k b.k c.k", "{{a,b},c}.k {a,b}.k"),
    ("{a,{b,c}}.l", "a.l b.l c.l", "{b,c}.l"),
    ("{},b}.h", "{},b}.h", "b.h"),
    ("{{,b,c{d}.i", "{{,b,c{d}.i", "{.i b.i c{d.i .i"),
    (r"{a\,b,cd}.txt", "a,b.txt cd.txt", "a.txt"),
    (r"{e,\},f}.txt", "e.txt }.txt f.txt", ",.txt"),
    (r"{g,\\,i}.txt", r"g.txt \.txt i.txt", ",.txt"),
    ("{some,a{*c,b}[ef]}.j", "some.j abe.j abf.j ace.j abce.j", "abg.j acg.j ae.j .j"),
    ("{aardvark..antelope}", "{aardvark..antelope}", "a aardvark"),
    # ranges of numbers
    ("{3..120}", "3 15 60 120", "1 5a 121 060"),
    ("{120..3}", "3 120", "2"),
    ("{-3..3}x", "-2x 0x +3x", "-4x x"),
    ("a{1..12}b", "a1b a12b", "a13b ab"),
    ("{1..9}{10..99}", "110 999", "10 1"),
    # two stars
    ("a**z.c", "a/z.c amnz.c am/nz.c a/mn/z.c", "b/z.c"),
    ("b/**z.c", "b/z.c b/mnz.c b/mn/z.c", "bmnz.c bm/nz.c"),
    ("c/**/z.c", "c/z.c c/mn/z.c c/m/n/z.c", "cmnz.c cm/nz.c c/mnz.c"),
    ("**/x", "x a/x a/b/x", "ax"),
    ("**", "a a/b", ""),
    ("{a,aa}**", "a aa aab/c", "b"),
    # anchors, escapes, other alphabets
    ("/a", "a", "b/a"),
    ("d/a", "d/a", "x/d/a"),
    (r"\*\?\{", "*?{", "ab{"),
    ("中*.txt", "中文.txt", "x.txt"),
]


def test_globs() -> None:
    for glob, yes, no in GLOBS:
        matching = [path for path in (yes + " " + no).split() if matches(glob, path)]
        assert matching == yes.split(), glob


WORDS = st.lists(
    st.sampled_from(["a", "b", "/", "*", "**", "?", "**/", "[ab]", "[!a]"]), max_size=8
)
WORD = re.compile(r"\*\*/|\*\*|\[[^]]*\]|.")
MEANING = {"*": "[^/]*", "**": ".*", "?": "[^/]", "[!a]": "[^a/]"}


def as_regex(glob: str) -> str:
    """An oracle for globs without braces: a regular expression, which may backtrack."""
    out = ""
    for word in WORD.finditer(glob):
        if word[0] == "**/":
            first = word.start() == 0 or glob[word.start() - 1] == "/"
            out += "(?:.*/)?" if first else ".*/"
        else:
            out += MEANING.get(word[0], word[0])
    return out


@given(WORDS.map("".join), st.text("ab/", max_size=8))
def test_globs_against_regular_expressions(glob: str, path: str) -> None:
    if "***" not in glob and "/" in glob[1:]:
        expected = re.fullmatch(as_regex(glob.removeprefix("/")), path)
        assert matches(glob, path) == bool(expected)


@given(st.text("ab/*?[]!{}.,1-9\\", max_size=30), st.text("ab/.1\\{}[],-", max_size=20))
def test_no_glob_crashes(glob: str, path: str) -> None:
    assert matches(glob, path) in (True, False)


@given(st.text(st.characters(exclude_characters="/*?[]{}\\"), min_size=1, max_size=20))
def test_a_plain_name_is_itself(name: str) -> None:
    assert matches(name, name)
    assert matches(name, f"x/{name}")


def test_a_hostile_glob_neither_hangs_nor_crashes() -> None:
    """With backtracking this would take years."""
    for glob, path in (
        ("*a" * 400 + "b", "a" * 255),
        ("**a" * 300 + "b", "a/" * 2_000),
        ("**/" * 300 + "b", "a/" * 2_000),
        ("{a,aa}" * 160 + "b", "a" * 255),
        ("{*,**}" * 160 + "b", "a" * 4_000),
        ("{a," * 333, "a" * 255),
        ("{a," * 190 + "a" + "}" * 190, "a" * 255),
        ("[" * 1_000, "[" * 255),
        ("[a-" * 333, "a" * 255),
        ("{1..9}" * 160, "1" * 255),
        ("{1..9}*" * 4, "1" * 4_000),
        ("\\" * 999, "\\" * 255),
    ):
        assert matches(glob, path) in (True, False)


def test_a_hostile_file_neither_hangs_nor_crashes(tmp_path: Path) -> None:
    sections = (f"[{'*a' * 400}{i}b]\ncharset = latin1\n" for i in range(1_000))
    put(tmp_path, ".", "".join(sections))
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / ".editorconfig").write_bytes(b"\xff\xfe[\0]\ncharset = \xff\n[\n[]\n=\n")
    check_charset(tmp_path, f"x/{'a' * 200}", None)


SECTIONS = [
    ("[*.txt]\ncharset = latin1\n", "a.txt", "iso8859-1"),
    ("[*.txt]\ncharset = latin1\n", "a.md", None),
    ("[*.txt]\r\ncharset=LATIN1\r\n", "a.txt", "iso8859-1"),
    ("\ufeff[*.txt]\nCharset = latin1", "d/a.txt", "iso8859-1"),
    ("[*]\ncharset = utf-16le\n", "a", "utf-16-le"),
    ("[*]\ncharset = utf-8-bom\n", "a", "utf-8"),
    ("[*]\ncharset = klingon\n", "a", None),
    ("[*]\ncharset = latin1\n[*.x]\ncharset = cp1251\n", "a.x", "cp1251"),
    ("[*.x]\ncharset = cp1251\n[*]\ncharset = latin1\n", "a.x", "iso8859-1"),
    ("[*]\ncharset = latin1\n[*.x]\ncharset = unset\n", "a.x", None),
    ("[*]\ncharset = latin1\n[*.x]\ncharset = unset\n", "a.y", "iso8859-1"),
    ("charset = latin1\n", "a", None),
    ("# charset = latin1\n[*]\n; charset = latin1\n", "a", None),
    ("[*]\nindent_size = 4\n", "a", None),
    ("[x/*]\ncharset = latin1\n", "x/a", "iso8859-1"),
    ("[x/*]\ncharset = latin1\n", "y/x/a", None),
]


def test_sections(tmp_path: Path) -> None:
    for text, path, codec in SECTIONS:
        put(tmp_path, ".", text)
        check_charset(tmp_path, path, codec)


def test_the_nearest_file_decides(tmp_path: Path) -> None:
    put(tmp_path, ".", "[*]\ncharset = latin1\n")
    put(tmp_path, "a", "[*.txt]\ncharset = cp1251\n")
    put(tmp_path, "a/b", "[*.md]\ncharset = unset\n")
    check_charset(tmp_path, "a/b/x.txt", "cp1251")
    check_charset(tmp_path, "a/b/x.c", "iso8859-1")
    check_charset(tmp_path, "a/b/x.md", None)
    check_charset(tmp_path, "x.txt", "iso8859-1")


def test_root_ends_the_search(tmp_path: Path) -> None:
    put(tmp_path, ".", "[*]\ncharset = latin1\n")
    for said in ("true", "TRUE", "false"):
        put(tmp_path, "a", f"root = {said}\nother = true\n[*.txt]\ncharset = cp1251\n")
        check_charset(tmp_path, "a/x.c", "iso8859-1" if said == "false" else None)
        check_charset(tmp_path, "a/x.txt", "cp1251")


def test_nothing_out_of_the_workspace_is_read(tmp_path: Path) -> None:
    put(tmp_path, ".", "[*]\ncharset = latin1\n")
    put(tmp_path, "inner/deep", "[*.never]\ncharset = cp1251\n")
    check_charset(tmp_path / "inner", "deep/a.txt", None)
    (tmp_path / "inner" / ".editorconfig").symlink_to(tmp_path / ".editorconfig")
    check_charset(tmp_path / "inner", "deep/a.txt", None)
