"""The configuration: what is taken, what is refused and how, and what goes first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from copydesk.app.cli import main
from copydesk.app.config import Config, ConfigError, MemberConfig, load
from copydesk.text.relpath import RelPath

FILE, PROJECT = "copydesk.toml", "pyproject.toml"


def check_good(root: Path, text: str, name: str = FILE, **expected: Any) -> None:
    (root / name).write_text(text)
    found = load(str(root), {})
    assert {key: getattr(found, key) for key in expected} == expected, text


POLICY = """[members.ann]
approval = 'human'
self_lines = 9
self_files = 0
[members.ann.approval_paths]
'docs/**' = 'self'
'*.sh' = 'human'"""
PATHS = ("docs/**", "self"), ("*.sh", "human")
ANN = MemberConfig(approval="human", approval_paths=PATHS, self_lines=9, self_files=0)
RIGHTS = '[members.ann]\ntoken = "t"\nteam_mgmt = true\nread_dirs = ["src"]'
BOB = MemberConfig({"read_dirs": ("src",)}, "t", team_mgmt=True)
REDIS = {"registry": "redis", "redis_url": "redis://h:1/2", "registry_name": "desk-1.a"}
GOOD: list[tuple[str, dict[str, Any]]] = [
    ("", {"member": "local", "toolsets": ("ws_mod",), "source": FILE}),
    ('member = "ann"', {"member": "ann"}),
    ('lang = "zh"', {"lang": "zh"}),
    ('durability = "fast"', {"durability": "fast"}),
    ('toolsets = ["ws_mod", "team_mgmt"]', {"toolsets": ("ws_mod", "team_mgmt")}),
    ('toolsets = ["batch"]', {"toolsets": ("batch",)}),
    ("ttl_seconds = 1", {"ttl_seconds": 1}),
    ("limit_bytes = 10\nbases_bytes = 11", {"limit_bytes": 10, "bases_bytes": 11}),
    ("journal_days = 1\njournal_bytes = 2", {"journal_days": 1, "journal_bytes": 2}),
    ("lock_seconds = 3", {"lock_seconds": 3}),
    ('state = ".desk"', {"state": ".desk"}),
    ("", {"registry": "sqlite", "redis_url": "", "registry_name": ""}),
    ("\n".join(f'{key} = "{value}"' for key, value in REDIS.items()), REDIS),
    ('redis_url = "unix:///run/s"', {"registry": "sqlite", "redis_url": "unix:///run/s"}),
    ('[encodings]\n"a" = "LATIN1"', {"encodings": (("a", "iso8859-1"),)}),
    ('\ufefflang = "zh"', {"lang": "zh"}),
    ("[members.ann]", {"members": {"ann": MemberConfig()}}),
    ("[members.ann]\nauto_lines = 0", {"members": {"ann": MemberConfig(auto_lines=0)}}),
    (POLICY, {"members": {"ann": ANN}}),
    (RIGHTS, {"members": {"ann": BOB}}),
]


def test_good(tmp_path: Path) -> None:
    for text, expected in GOOD:
        check_good(tmp_path, text, **expected)


WRONG = {
    "ttl": "3",
    "TTL_SECONDS": "3",
    "source": "'x'",
    "member": "3 ''",
    "lang": "'de' ['en']",
    "durability": "true",
    "toolsets": "'ws_mod' ['nope'] [1]",
    "ttl_seconds": "0 -1 1.5 true '60' 1000000000",
    "limit_bytes": "10000000000000000000000000",
    "journal_days": "1000000 2026-01-01",
    "state": r"""'' '..' 'a/b' 'a\b' "a\u0000" """,
    "registry": "'memory' true",
    "redis_url": "3 'http://h'",
    "registry_name": "'a+b' '{a}'",
    "encodings": "['latin1']",
    "members": "3",
}
WRONG_OF_A_MEMBER = {
    "read_dir": "['x']",
    "read_dirs": "'x' [1]",
    "token": "3 ''",
    "team_mgmt": "'yes'",
    "auto_lines": "-1 true",
    "approval": "'nobody'",
    "approvals": "'self'",
    "approval_paths": "['src']",
    "self_lines": "-1",
    "self_files": "'2'",
}
"""Values of each key, parted by blanks."""
BAD = [
    *((f"{key} = {value}", key) for key, values in WRONG.items() for value in values.split()),
    *(
        (f"[members.ann]\n{key} = {value}", f"members.ann.{key}")
        for key, values in WRONG_OF_A_MEMBER.items()
        for value in values.split()
    ),
    ("registry_name = 'a b'", "registry_name"),
    ("registry = 'redis'", "redis_url"),
    ("[encodings]\n'a/**' = 'klingon'", "encodings"),
    *((f"[encodings]\n'a/**' = {value}", "a/**") for value in ("'klingon'", "'utf-7'", "3")),
    ("[members]\nann = 3", "members.ann"),
    ("[members.ann.approval_paths]\n'a' = 1", 'members.ann.approval_paths."a"'),
    ("[members.ann]\ntoken = 't'\n[members.bob]\ntoken = 't'", "members.bob.token"),
    ("lang = ", "TOML"),
    ("lang = 'en'\nlang = 'zh'", "TOML"),
    (f"x = {'[' * 2_000}", "TOML"),
]


@pytest.mark.parametrize("name", [FILE, PROJECT])
def test_bad(tmp_path: Path, name: str) -> None:
    for text, key in BAD:
        if name == PROJECT:
            text = f"[tool.copydesk]\n{text}".replace("[members", "[tool.copydesk.members")
            text = text.replace("[encodings]", "[tool.copydesk.encodings]")
        (tmp_path / name).write_text(text)
        with pytest.raises(ConfigError) as caught:
            load(str(tmp_path), {})
        words = str(caught.value)
        assert words.startswith(f"{name}: "), text
        assert key in words, text
        assert "\n" not in words, text


def test_a_close_name_is_offered(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("ttl_second = 3")
    with pytest.raises(ConfigError, match="ttl_seconds"):
        load(str(tmp_path), {})


@pytest.mark.parametrize(
    ("variable", "text", "key", "value"),
    [
        ("COPYDESK_MEMBER", "ann", "member", "ann"),
        ("COPYDESK_LANG", "zh", "lang", "zh"),
        ("COPYDESK_DURABILITY", "fast", "durability", "fast"),
        ("COPYDESK_TOOLSETS", "ws_mod, team_mgmt,", "toolsets", ("ws_mod", "team_mgmt")),
        ("COPYDESK_TTL_SECONDS", "7", "ttl_seconds", 7),
        ("COPYDESK_LIMIT_BYTES", "8", "limit_bytes", 8),
        ("COPYDESK_JOURNAL_DAYS", "9", "journal_days", 9),
        ("COPYDESK_STATE", ".mine", "state", ".mine"),
        ("COPYDESK_LANG", "", "lang", "en"),
        ("COPYDESK_STRUCTURED", "true", "structured", True),
        ("COPYDESK_STRUCTURED", "false", "structured", False),
        ("COPYDESK_REDIS_URL", "rediss://h/0", "redis_url", "rediss://h/0"),
        ("COPYDESK_REGISTRY", "sqlite", "registry", "sqlite"),
        ("COPYDESK_REGISTRY_NAME", "desk", "registry_name", "desk"),
        ("COPYDESK_STRUCTURED", "1", "structured", True),
        ("COPYDESK_STRUCTURED", "0", "structured", False),
        ("COPYDESK_STRUCTURED", "False", "structured", False),
    ],
)
def test_the_environment(tmp_path: Path, variable: str, text: str, key: str, value: object) -> None:
    assert getattr(load(str(tmp_path), {variable: text}), key) == value


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("COPYDESK_LANG", "de"),
        ("COPYDESK_TOOLSETS", "nope"),
        ("COPYDESK_TTL_SECONDS", "soon"),
        ("COPYDESK_TTL_SECONDS", "0"),
        ("COPYDESK_TTL_SECONDS", "²"),
        ("COPYDESK_TTL_SECONDS", "9" * 5_000),
        ("COPYDESK_STRUCTURED", "perhaps"),
        ("COPYDESK_STATE", "../x"),
        ("COPYDESK_REGISTRY", "postgres"),
        ("COPYDESK_REDIS_URL", "host:6379"),
    ],
)
def test_the_environment_refused(tmp_path: Path, variable: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"the environment, {variable}: "):
        load(str(tmp_path), {variable: text})


def test_which_file(tmp_path: Path) -> None:
    assert load(str(tmp_path), {}) == Config()
    check_good(tmp_path, '[tool.other]\nx = 1\n[project]\nname = "copydesk"', PROJECT, lang="en")
    check_good(tmp_path, '[tool.copydesk]\nlang = "zh"', PROJECT, lang="zh", source=PROJECT)
    check_good(tmp_path, 'member = "ann"', FILE, lang="en", member="ann", source=FILE)


def test_a_project_file_that_says_nothing_or_says_it_wrongly(tmp_path: Path) -> None:
    for text in ("tool = 3", "[tool]\nx = 1", "", "[project]\nname ="):
        check_good(tmp_path, text, PROJECT, source="defaults")
    for text in ("[tool]\ncopydesk = 3", "[tool.copydesk]\nlang ="):
        (tmp_path / PROJECT).write_text(text)
        with pytest.raises(ConfigError, match=PROJECT):
            load(str(tmp_path), {})


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"lang = '\xff'")
    with pytest.raises(ConfigError, match=f"{FILE}: is not UTF-8"):
        load(str(tmp_path), {})
    (tmp_path / FILE).unlink()
    (tmp_path / FILE).mkdir()
    with pytest.raises(ConfigError, match=f"{FILE}: cannot be read"):
        load(str(tmp_path), {})


def test_flags_go_before_the_environment_and_that_before_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / FILE).write_text('lang = "zh"\nmember = "filed"\n')
    prepare = ("call", "prepare_file_append", "--path", "a", "--content", "x")

    def planned(*flags: str) -> tuple[str, bool]:
        """Who planned, and whether in Chinese."""
        assert main([*prepare, "--root", str(tmp_path), *flags]) == 0
        chinese = "已规划" in capsys.readouterr().out
        assert main(["pending", "--root", str(tmp_path)]) == 0
        return capsys.readouterr().out.split("\n")[-2].split()[3], chinese

    for variable in ("COPYDESK_LANG", "COPYDESK_MEMBER"):
        monkeypatch.delenv(variable, raising=False)
    assert planned() == ("filed", True)
    monkeypatch.setenv("COPYDESK_LANG", "en")
    monkeypatch.setenv("COPYDESK_MEMBER", "environed")
    assert planned() == ("environed", False)
    assert planned("--member", "flagged", "--lang", "zh") == ("flagged", True)


@pytest.mark.parametrize(
    ("globs", "path", "codec"),
    [
        ("legacy/**", "legacy/a/b.txt", True),
        ("legacy/**", "legacy-new/a.txt", False),
        ("legacy/**", "x/legacy/a.txt", False),
        ("legacy", "x/legacy/a.txt", True),
        ("*.txt", "a/b/c.txt", True),
        ("*.txt", "a/b/c.txtx", False),
        ("a/*.txt", "a/b.txt", True),
        ("a/*.txt", "a/b/c.txt", False),
        ("a/**/*.txt", "a/b/c.txt", True),
        ("a/", "a/b/c.txt", True),
        ("[ab].txt", "b.txt", True),
        ("[!ab].txt", "b.txt", False),
        ("?.txt", "中.txt", True),
    ],
)
def test_globs_of_encodings(globs: str, path: str, codec: bool) -> None:
    config = Config(encodings=((globs, "gb18030"),))
    assert config.encoding_of(RelPath.parse(path)) == ("gb18030" if codec else None)


def test_the_last_encoding_that_fits_decides(tmp_path: Path) -> None:
    text = '[encodings]\n"*.txt" = "gb18030"\n"new/*.txt" = "latin1"\n'
    (tmp_path / FILE).write_text(text)
    config = load(str(tmp_path), {})
    assert config.encoding_of(RelPath.parse("new/a.txt")) == "iso8859-1"
    assert config.encoding_of(RelPath.parse("old/a.txt")) == "gb18030"
    assert config.encoding_of(RelPath.parse("a.md")) is None
