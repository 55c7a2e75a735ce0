"""What the rules allow: tables of patterns and paths."""

from __future__ import annotations

import fnmatch
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.errors import AccessDenied
from copydesk.store.access import Rules, covers, reaches
from copydesk.text.relpath import RelPath


@pytest.mark.parametrize(
    ("pattern", "covered", "not_covered"),
    [
        ("src", "src src/a src/a/b", "src-backup srcs a/src . src-backup/a SRC"),
        ("src/", "src src/a", "src-backup"),
        ("./src", "src/a", "a/src"),
        ("/src", "src/a", "a/src"),
        ("src/**", "src src/a src/a/b", "src-backup"),
        ("src/*", "src/a src/a/b", "src"),
        ("a/b", "a/b a/b/c", "a a/bc a/c"),
        ("*.md", "x.md .md x.md/below", "x.mdx a/x.md"),
        ("**/*.md", "x.md a/x.md a/b/x.md", "x.txt"),
        ("**/secret", "secret a/secret a/b/secret/c", "secrets a/secrets"),
        ("a/**/z", "a/z a/b/z a/b/c/z/below", "a az z b/a/z"),
        ("**", ". a a/b", ""),
        ("**/**", ". a a/b", ""),
        (".", ". a a/b", ""),
        ("", ". a a/b", ""),
        ("?", "a 中", "ab ."),
        ("a?c", "abc a?c", "ac abbc"),
        ("a**c", "ac abc abbc", "a/c"),
        ("[ab]c", "ac bc", "cc abc"),
        ("[!ab]c", "cc", "ac bc"),
        ("[^ab]c", "cc", "ac"),
        ("[a-c]", "a b c", "d -"),
        ("[c-a]", "", "a b c"),
        ("[]]", "]", "["),
        ("[!]]", "x", "]"),
        ("[a", "[a", "a"),
        ("[a-]", "a -", "b"),
        ("[.]x", ".x", "ax"),
        ("a.b", "a.b", "axb"),
        ("a+(b)", "a+(b)", "aab"),
        ("目录/*", "目录/文件", "目录"),
    ],
)
def test_covers(pattern: str, covered: str, not_covered: str) -> None:
    for text in covered.split():
        assert covers(pattern, RelPath.parse(text)), text
    for text in not_covered.split():
        assert not covers(pattern, RelPath.parse(text)), text


@pytest.mark.parametrize(
    ("pattern", "reached", "not_reached"),
    [
        ("src/lib", ". src src/lib src/lib/x", "a src/other srcx"),
        ("**/lib", ". a a/b lib", ""),
        ("a/*/c", ". a a/b a/b/c a/b/c/d", "b a/b/d"),
        ("a/**/c", ". a a/b a/b/d", "b"),
        ("*.md", ". x.md x.md/y", "x"),
    ],
)
def test_reaches(pattern: str, reached: str, not_reached: str) -> None:
    for text in reached.split():
        assert reaches(pattern, RelPath.parse(text)), text
    for text in not_reached.split():
        assert not reaches(pattern, RelPath.parse(text)), text


NAMES = st.text("ab*?[]!-.", min_size=1, max_size=6).filter(lambda t: t.strip(".") and t != "**")


@given(NAMES, NAMES)
def test_one_name_matches_as_in_fnmatch(pattern: str, name: str) -> None:
    expected = fnmatch.fnmatchcase(name, pattern)
    assert covers(pattern, RelPath((name,))) == expected or "[^" in pattern


@given(st.lists(NAMES | st.just("**"), min_size=1, max_size=4), st.lists(NAMES, max_size=4))
def test_what_covers_reaches_every_directory_above(patterns: list[str], names: list[str]) -> None:
    pattern, path = "/".join(patterns), RelPath(tuple(names))
    if covers(pattern, path):
        assert covers(pattern, path / "below")
        while path.parts:
            assert reaches(pattern, path)
            path = path.parent


def allowed(rules: Rules, operation: Literal["read", "write"], text: str) -> bool:
    path = RelPath.parse(text)
    try:
        rules.check(operation, path)
    except AccessDenied as denied:
        return not denied.rule or denied.operation != operation
    return True


@pytest.mark.parametrize(
    ("lists", "operation", "yes", "no"),
    [
        ({}, "read", ". a a/b.c .env", ""),
        ({}, "write", ". a a/b.c .env", ""),
        ({"read_dirs": ("src", "docs/*.md")}, "read", "src src/a docs/a.md", "a docs/a.txt srcs ."),
        ({"read_dirs": ("src",)}, "write", "a src/a", ""),
        ({"write_dirs": ("src",)}, "write", "src/a", "a"),
        ({"write_dirs": ("src",)}, "read", "a", ""),
        ({"no_read_dirs": ("src",)}, "read", "a src-backup/a", "src src/a"),
        ({"read_dirs": ("src",), "no_read_dirs": ("src/x",)}, "read", "src/a", "src/x src/x/y a"),
        ({"read_dirs": ("src/x",), "no_read_dirs": ("src",)}, "read", "", "src/x src/a"),
        ({"no_write_dirs": ("**/gen",)}, "write", "a", "gen/a a/gen/b"),
        ({"read_file_ext_names": ("md", ".py")}, "read", "a.md b/c.py", "a.PY a.txt md a.mdx a"),
        ({"read_file_ext_names": ("",)}, "read", "Makefile .bashrc", "a.md"),
        ({"read_file_ext_names": ("tar.gz",)}, "read", "a.tar.gz", "a.gz a.tar"),
        ({"no_read_file_ext_names": ("env", "key")}, "read", "env a.envx key", ".env a.env b.key"),
        ({"no_read_file_ext_names": ("",)}, "read", "a.b", "Makefile .bashrc"),
        ({"write_file_ext_names": ("md",)}, "write", "a.md", "a.py"),
        ({"write_file_ext_names": ("md",)}, "read", "a.py", ""),
        (
            {"write_file_ext_names": ("md",), "no_write_file_ext_names": ("x.md",)},
            "write",
            "a.md",
            "a.x.md",
        ),
        ({}, "read", "a/.minds .mindsx minds", ".minds .minds/a .MINDS/a .Minds"),
        ({}, "write", "a/.dialogs/x", ".dialogs .dialogs/a"),
        ({}, "write", "tsk a.tsks/b x/tsk/b", "a.tsk/b x/a.tsk/b x/a.TSK/b"),
        ({}, "read", "a/.copydesk/x .copydesk-x", ".copydesk .copydesk/a .Copydesk/a"),
        ({}, "read", "a/.copydesk-1.tmp", "a/.copydesk-0123456789ab.tmp"),
        ({"state_dir": ".state"}, "read", ".copydesk/a", ".state/a"),
        ({"read_dirs": (".minds", "**")}, "read", "a", ".minds/a"),
        ({"within": ".minds"}, "read", ".minds .minds/a .minds/a/b", "a . .Minds/a .dialogs/a"),
        ({"within": ".minds"}, "write", ".minds/a", "a .minds/x.tsk/a .copydesk/x"),
        ({"within": ".minds", "no_write_dirs": (".minds/x",)}, "write", ".minds/a", ".minds/x/a"),
    ],
)
def test_check(
    lists: dict[str, Any], operation: Literal["read", "write"], yes: str, no: str
) -> None:
    rules = Rules(**lists)
    for text in yes.split():
        assert allowed(rules, operation, text), text
    for text in no.split():
        assert not allowed(rules, operation, text), text
    if operation == "read":
        assert all(rules.allows_read(RelPath.parse(text)) for text in yes.split())
        assert not any(rules.allows_read(RelPath.parse(text)) for text in no.split())


def test_every_path_handed_in_is_checked() -> None:
    rules = Rules(no_read_dirs=("secret",))
    rules.check("read", RelPath.parse("a"), RelPath.parse("b"))
    with pytest.raises(AccessDenied) as caught:
        rules.check("read", RelPath.parse("link"), RelPath.parse("secret/a"))
    assert caught.value.facts() == {"operation": "read", "rule": "no_read_dirs: secret"}


@pytest.mark.parametrize(
    ("lists", "yes", "no"),
    [
        ({}, ". a a/b", ".minds a.tsk .copydesk"),
        ({"read_dirs": ("src/lib/*.py",)}, ". src src/lib src/lib/x.py", "docs src/other"),
        ({"no_read_dirs": ("src/lib",)}, ". src", "src/lib src/lib/a"),
        ({"no_read_dirs": ("src/lib/*",)}, "src/lib", "src/lib/a"),
        ({"read_file_ext_names": ("md",)}, ". src", ""),
        ({"within": ".minds"}, ".minds .minds/a", ". a"),
    ],
)
def test_which_directories_may_be_walked(lists: dict[str, Any], yes: str, no: str) -> None:
    rules = Rules(**lists)
    for text in yes.split():
        rules.check_walk(RelPath.parse(text))
        assert rules.allows_walk(RelPath.parse(text)), text
    for text in no.split():
        assert not rules.allows_walk(RelPath.parse(text)), text
        with pytest.raises(AccessDenied):
            rules.check_walk(RelPath.parse(text))


def test_team_mgmt_reaches_its_directory_only() -> None:
    rules = Rules().team_mgmt()
    assert allowed(rules, "write", ".minds/team.yaml")
    assert not allowed(rules, "write", "src/a")


def test_many_stars_take_no_time() -> None:
    path = RelPath.parse("a" * 200)
    assert not covers("*a" * 60 + "b", path)
    assert covers("*a" * 60 + "*", path)
