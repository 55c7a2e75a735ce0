"""Which commands of checks may run: no one runs what an agent wrote after a person allowed it."""

from __future__ import annotations

import os
import re
import shlex
import sys
import sysconfig
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from copydesk.app.cli import main
from copydesk.app.doctor import examine
from copydesk.store.checks import Commands, NotRun, Rule, Trust

PYTHON = shlex.quote(sys.executable)
OPENS = "import sys\n[exec(open(name).read()) for name in sys.argv[1].split(',')]\n"
"""A tool that loads its argument, a list of programs, as linters load plugins."""


@pytest.fixture(autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("home")))


@dataclass(frozen=True)
class Form:
    """A command, and what an agent writes below the root after it was allowed.

    {R} is the root as it is spelled, {O} a folder outside of it, {L} there a link to the root, {U}
    the way up to the root from the folder that commands run in; MARK is what an attack makes.
    `there` are files from before, `env` variables of the person. `batch`: further checked files.
    """

    command: str
    writes: dict[str, str]
    there: dict[str, str] = field(default_factory=dict[str, str])
    env: dict[str, str] = field(default_factory=dict[str, str])
    batch: tuple[str, ...] = ()
    refused: bool = False


TOUCH = "touch MARK\n"
SHELL = f"#!/bin/sh\n{TOUCH}"
MARKS = "open('MARK', 'w')\n"
SITE = f".venv/lib/python{sysconfig.get_python_version()}/site-packages"
VENV = {
    ".venv/pyvenv.cfg": f"home = {os.path.dirname(os.path.realpath(sys.executable))}\n",
    ".venv/bin/python": f"-> {os.path.realpath(sys.executable)}",
    f"{SITE}/lint.py": "",
}
DOT_ENV = "{root}/.venv/bin/python -m lint"
OPEN = f"{PYTHON} {{O}}/open.py "
BRACED = "bash -c 'cat {R}/tools/{{a,b}}.sh | sh'"
IN_TEXT = f"{PYTHON} -c \"exec(open('{{R}}/x/lint.py').read())\""


def of_old(command: str, path: str, *there: str, env: dict[str, str] | None = None) -> Form:
    """An agent writes to a file that was there, beside others, when the command was allowed."""
    return Form(command, {path: TOUCH}, dict.fromkeys((path, *there), ""), env or {})


def of_new(command: str, path: str, *there: str, text: str = TOUCH, **more: Any) -> Form:
    """An agent makes a file in a folder where only others were."""
    return Form(command, {path: text}, dict.fromkeys(there, ""), **more)


def never(command: str, path: str = "a.txt", text: str = TOUCH, **more: Any) -> Form:
    """Nobody can allow it."""
    return Form(command, {path: text}, refused=True, **more)


def opening(argument: str, skipped: int) -> Form:
    """A tool that opens what its argument names behind some letters."""
    opens = OPENS.replace("[1]", f"[1][{skipped}:]")
    return Form(OPEN + argument, {"x/b.py": MARKS}, {"{O}/open.py": opens})


def script(command: str, path: str, by: str, text: str, **there: str) -> Form:
    """A program `by` loads another file."""
    return Form(command, {path: TOUCH}, {by: text, path: "", **there})


FORMS = {
    "a program": Form("{root}/tools/lint", {"tools/lint": SHELL}, {"tools/lint": "#!/bin/sh\n"}),
    "a script": of_old("sh {root}/x/lint.sh", "x/lint.sh"),
    "not there yet": of_new("sh {root}/x/lint.sh", "x/lint.sh"),
    "by a link": of_old("sh {L}/x/lint.sh", "x/lint.sh"),
    "by ..": of_old("sh {R}/y/../x/lint.sh", "x/lint.sh", "y/a"),
    "by //": of_old("sh {R}//tools//lint.sh", "tools/lint.sh"),
    "by /proc": never("sh /proc/self/root{R}/lint.sh", "lint.sh"),
    "from the command's folder": of_old("sh {U}/x/lint.sh", "x/lint.sh"),
    "in a text": of_old("sh -c 'sh {R}/tools/lint.sh'", "tools/lint.sh"),
    "quoted in a text": of_old("sh -c '. \"{R}/x/my lint.sh\"'", "x/my lint.sh"),
    "in a program's text": never(IN_TEXT, "x/lint.py", MARKS),
    "cd to a folder": of_new("sh -c 'cd {R}/tools && sh lint.sh'", "tools/lint.sh", "tools/a"),
    "a folder of modules": of_new(
        f"env PYTHONPATH={{root}}/lib {PYTHON} -m lint", "lib/lint.py", "lib/a.py", text=MARKS
    ),
    "a folder that is run": of_new(
        f"{PYTHON} {{R}}/tools", "tools/__main__.py", "tools/a.py", text=MARKS
    ),
    "a folder with a link": Form(
        "sh {root}/tools/lib/lint.sh",
        {"lib/lint.sh": TOUCH},
        {"lib/a": "", "tools/lib": "-> ../lib"},
    ),
    "a list": Form(
        OPEN + "{O}/a.py,{R}/x/b.py", {"x/b.py": MARKS}, {"x/b.py": "", "{O}/open.py": OPENS}
    ),
    "an option's value": opening("--plugin={R}/x/b.py", 9),
    "an option's letters": opening("-c{R}/x/b.py", 2),
    "a file of arguments": opening("@{R}/x/b.py", 1),
    "settings": of_old("sh {root}/x/lint.cfg", "x/lint.cfg"),
    "a pattern": never("sh -c 'for f in {R}/tools/*.sh; do . $f; done'", "tools/b.sh"),
    "a name of braces": never(BRACED, "tools/b.sh"),
    "a variable": of_old("sh -c '. $HOME/tools/x/a.sh'", "x/a.sh", env={"HOME": "{O}"}),
    "the home folder": of_new("sh -c '. ~/.profile'", "x/.profile", env={"HOME": "{R}/x"}),
    "an environment": Form(DOT_ENV, {f"{SITE}/lint.py": MARKS}, VENV),
    "a script's environment": Form(
        "{O}/lint",
        {f"{SITE}/lint.py": MARKS},
        {**VENV, "{O}/lint": "#!{R}/.venv/bin/python\nimport lint\n"},
    ),
    "what a script has beside it": script(
        "{root}/tools/lint", "tools/lib.sh", "tools/lint", '#!/bin/sh\n. "$(dirname "$0")/lib.sh"\n'
    ),
    "what a script loads": script(
        "{root}/x/bin/lint",
        "x/lib/lint.sh",
        "x/bin/lint",
        '#!/bin/sh\n. "$(dirname "$0")/../lib/lint.sh"\n',
    ),
    "a link on the path": Form(
        "env lint",
        {"tools/lint.sh": SHELL},
        {"tools/lint.sh": "#!/bin/sh\n", "{O}/lint": "-> {R}/tools/lint.sh"},
        {"PATH": "{O}:" + os.defpath},
    ),
    "a folder of the path": Form(
        "env lint",
        {"bin/lint": SHELL},
        {"bin/lint": "#!/bin/sh\n"},
        {"PATH": "{R}/bin:" + os.defpath},
    ),
    "earlier on the path": Form(
        "lint",
        {"bin/lint": SHELL},
        {"bin/lint": "plain", "{O}/lint": "#!/bin/sh\n"},
        {"PATH": "{R}/bin:{O}:" + os.defpath},
    ),
    "a folder in a variable": of_old(
        "sh -c '. $VIRTUAL_ENV/a.sh'", "v/a.sh", env={"VIRTUAL_ENV": "{R}/v"}
    ),
    "a copy": of_new("sh lint.sh {files}", "lint.sh", batch=("lint.sh",)),
    "a copy in a text": never("sh -c '. ./lint.sh' - {files}", "lint.sh", batch=("lint.sh",)),
    "the whole workspace": never(f"env PYTHONPATH={{root}} {PYTHON} -m lint", "lint.py", MARKS),
    "a folder above": never("sh -c 'cd {R}/.. && sh root/lint.sh'", "lint.sh"),
    "settings beside the file": never(
        'sh -c \'. "$(dirname "$1")/rc.sh"\' - {root}/{path}', "rc.sh"
    ),
    "make -C": never("make -C {root}/tools", "tools/Makefile", f"all:\n\t{TOUCH}"),
    "make in a text": never("sh -c 'cd {R}/tools && make'", "tools/Makefile", f"all:\n\t{TOUCH}"),
    "make of copies": never("make lint", "Makefile", f"lint:\n\t{TOUCH}", batch=("Makefile",)),
    "npm run": never(
        "npm --prefix {root}/x run lint",
        "x/package.json",
        '{"scripts": {"lint": "touch MARK"}}',
        there={"x/package.json": '{"scripts": {"lint": ""}}'},
    ),
    "the text": never("sh"),
    "the text as a file": never("sh {files}"),
    "the file": never("sh {root}/{path}"),
    "the root in a text": never("sh -c '. {root}/lint.sh'", "lint.sh"),
    "a text that is a name": never("sh -c {root}/lint.sh", "lint.sh"),
    "cd and ..": of_old("sh -c 'cd {R}/tools && . ../lib/lint.sh'", "lib/lint.sh", "tools/a"),
    "cd and .., to the root": never(
        "sh -c 'cd {R}/tools; cd ..; . ./lint.sh'", "lint.sh", there={"tools/a": ""}
    ),
    "cd outside to a link": script(
        "sh -c 'cd {O}/d && . ./l.sh'", "x/lint.sh", "{O}/d/l.sh", "-> {R}/x/lint.sh"
    ),
    "a link in a folder outside": Form(
        f"env PYTHONPATH={{O}}/lib {PYTHON} -m lint",
        {"lint/__main__.py": MARKS},
        {"lint/__main__.py": "", "{O}/lib/lint": "-> {R}/lint"},
    ),
    "escaped in a text": of_old("sh -c '. {R}/x/my\\ lint.sh'", "x/my lint.sh"),
    "quotes in a name": of_old("sh -c '. {R}/x/l\"in\"t.sh'", "x/lint.sh"),
    "beside a script": script(
        "sh {root}/tools/lint.sh", "tools/lib.sh", "tools/lint.sh", ". {R}/tools/lib.sh\n"
    ),
    "beside settings": script(
        "{O}/lint --config {root}/conf/lint.ini",
        *("conf/plugin.sh", "{O}/lint", "#!/bin/sh\n. {R}/conf/plugin.sh\n"),
        **{"conf/lint.ini": ""},
    ),
    "modules of Node": script(
        "{O}/lint {R}/tools/lint.js",
        *("node_modules/p/index.sh", "{O}/lint", "#!/bin/sh\n. {R}/node_modules/p/index.sh\n"),
        **{"tools/lint.js": ""},
    ),
    "installed for development": Form(
        DOT_ENV,
        {"src/sitecustomize.py": MARKS},
        {**VENV, f"{SITE}/own.pth": "{R}/src\n", "src/a.py": ""},
    ),
    "the root installed": Form(DOT_ENV, {}, {**VENV, f"{SITE}/own.pth": "{R}\n"}, refused=True),
    **{
        name: Form(command, {"lint.sh": TOUCH}, {"lint.sh": "", "tools/a": ""}, refused=True)
        for name, command in {
            "a script in the root": "sh {root}/lint.sh",
            "settings in the root": "{O}/lint --config {root}/lint.ini",
            "a module of the root": "node {root}/eslint.config.js",
            "env -C": "env -C {root}/tools sh ../lint.sh",
            "env -C /": "env -C / sh tmp/lint.sh",
            "git -C": "git -C {root}/tools status",
            "the whole machine": "lint --root=/",
            "cd to it": "sh -c 'cd / && . ./tmp/lint.sh'",
            "a pattern from it": "sh -c 'cat /t*/lint.sh'",
            "find": "find / -name lint.sh -exec sh {} ;",
            "sh -m is no module": "sh -m ruff {root}",
        }.items()
    },
}
READS_THE_TEXT = (
    *("bash --norc", "bash --posix", "bash -s x", "bash -o pipefail", "busybox sh", "rbash"),
    *("ionice -c3 sh", "flock {O}/lock sh", "strace sh", "setarch -R sh", "chrt -o 0 sh"),
    *("unshare sh", "unknown-wrapper sh", "script -qc sh /dev/null", "env -S 'sh -e'"),
    *("bash /dev/fd/0", "bash /proc/self/fd/0", "bash /dev/../dev/stdin", "bash -c -s"),
    *("sh -c sh", "sh -c '. /dev/stdin'", "sh -c 'bash -s'", "sh -c 'eval \"$(cat)\"'"),
    *("sh -c 'x=sh; $x'", "sh -c '\"$@\"' x sh", "sh -c 'cat >x; sh x'"),
    *("sh -c 'cd .; cat >x; sh x'", "sh -c 'cat >x; chmod +x x; ./x'", "sh -c '`cat`'"),
    *("sh -c 'true; $(cat)'", "sh -c 'cat | s\\h'", f"{PYTHON} -", f"{PYTHON} -X utf8"),
    *(f"{PYTHON} -W ignore", f"{PYTHON} -m code", f"{PYTHON} -m pdb {{path}}"),
    *(f"{PYTHON} -m pytest", f"{PYTHON} --check-hash-based-pycs never"),
    *(f"{PYTHON} -c 'exec(input())'", f"{PYTHON} /dev/fd/0", f"ionice {PYTHON} -"),
    *("perl -x", "perl -c -", "perl -ne print {path}", "node --input-type=commonjs"),
    *("deno run -", "m4 -"),
)
"""Each would run what it is given."""
FORMS |= {command: never(command) for command in READS_THE_TEXT}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_no_command_runs_what_an_agent_wrote_after_it_was_allowed(
    form: Form, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, outside, mark = tmp_path / "root", tmp_path / "outside", tmp_path / "mark"
    root.mkdir()
    outside.mkdir()
    (outside / "link").symlink_to(root)
    (outside / "tools").symlink_to(root)
    (outside / "a.py").write_text("")
    up = os.path.relpath(root, os.path.join(tempfile.gettempdir(), "x"))
    known = {"{R}": str(root), "{O}": str(outside), "{L}": f"{outside}/link", "{U}": up}

    def filled(text: str) -> str:
        return re.sub(r"\{[ROLU]\}", lambda at: known[at[0]], text).replace("MARK", str(mark))

    def written(files: dict[str, str]) -> None:
        for name, text in files.items():
            path = root / filled(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            if text.startswith("-> "):
                path.symlink_to(filled(text[3:]))
            else:
                path.write_text(filled(text))
                path.chmod(0o755 if text.startswith("#!") else 0o644)

    written({"a.txt": "true\n", **form.there})
    for name, value in form.env.items():
        monkeypatch.setenv(name, filled(value))
    command = tuple(shlex.split(filled(form.command).replace("{{", "{").replace("}}", "}")))
    rule = Rule("*", "own", command=command)
    trust = Trust(str(root), [rule])

    def ran() -> str:
        files = {name: (root / name).read_bytes() for name in ("a.txt", *form.batch)}
        try:
            Commands(str(root), trust.is_given).run(rule, files)
        except NotRun as none:
            return none.reason
        return ""

    try:
        trust.give()
    except NotRun:
        assert form.refused
    else:
        assert not form.refused
        if not form.batch and not form.env:
            assert ran() in ("", "failed"), "it is allowed until something is written"
    assert not mark.exists()
    written(form.writes)
    ran()
    assert not mark.exists()


NAMES_NOTHING = (
    *("ruff check {path}", "ruff check --stdin-filename {root}/{path} -"),
    "ruff check --config={root}/ruff.toml --stdin-filename {path} -",
    *("clang-format --assume-filename={root}/{path}", f"{PYTHON} -m json.tool"),
    *(f"{PYTHON} -m json.tool - --indent 2", "shellcheck -s bash -", "sh -n"),
    *("bash -n {files}", "sh -c 'grep -n \"$1\" | sort' sh {path}", "sed s/a/b/"),
    "bash -euo pipefail -c 'grep -n bad - | cut -d/ -f1'",
    *("ruff check {file}", "ruff check --config {root}/ruff.toml {path}"),
    *(f"{PYTHON} -m json.tool {{file}}", "shellcheck {path}", "codespell -L just -"),
    *("grep -n http://x.y/.. -", "cut -d/ -f1", "timeout 5 lint {path}"),
    "awk -F: '{{print NR}}' {path}",
    'sh -c \'lint "$1" | sed "s/a/b/"\' sh {path}',
    "sh -c 'for one; do lint \"$one\" || exit 1; done' sh {files}",
)
PLAIN: dict[str, list[str]] = {
    **{command: [] for command in NAMES_NOTHING},
    f"{PYTHON} {{root}}/tools/lint.py {{file}}": ["tools/"],
    "lint --config {root}/tools/set.toml --stdin-filename {path}": ["tools/"],
    "sh {root}/tools/lint.sh {path}": ["tools/"],
    "sh -c 'sh {R}/tools/lint.sh \"$1\"' sh {path}": ["tools/"],
    "env LIB={root}/lib lint --set={root}/tools/set.toml": ["lib/", "tools/"],
    "{root}/tools/lint": ["tools/"],
    "tool --plugin={R}/tools/later.py,{R}/tools/../lib/a.txt": ["lib/", "tools/"],
    "node {root}/tools/lint.js": ["node_modules", "package.json", "tools/"],
}


@pytest.mark.parametrize("command", PLAIN)
def test_what_is_allowed_is_shown(command: str, tmp_path: Path) -> None:
    """A command that names nothing below the root stays allowed whatever is written."""
    files = {"tools/lint.sh": "", "tools/lint": "#!/bin/sh\n", "lib/a.py": "", "set.toml": ""}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    words = tuple(shlex.split(command.replace("{R}", str(tmp_path))))
    trust = Trust(str(tmp_path), [rule := Rule("*", "own", command=words)])
    covered = PLAIN[command]
    assert trust.covered(rule) == covered
    trust.give()
    (tmp_path / "ruff.toml").write_text("line-length = 100\n")
    (tmp_path / "a.py").write_text("")
    assert trust.is_given()
    for name in covered:
        changed = tmp_path / name / "new" if name.endswith("/") else tmp_path / name
        changed.write_text("new")
        assert not trust.is_given()
        trust.give()


NAMES_IN_TEXTS = (
    *("sh -c 'cat {path}'", "sh -c \"cat '{path}'\"", "sh -c '. \"{root}/{path}\"'"),
    *("sh -ec {path}", "bash -o pipefail -c {path}", "env A=1 sh -c 'cat<{path}'"),
    *("timeout 5 sh -c {path}", "xargs -0 /bin/sh -c ./{path}"),
    *(f"{PYTHON} -c \"print('{{path}}')\"", "awk 'END{print \"{path}\"}'", "eval {path}"),
    *("ssh host cat {path}", "bash -c -- {path}", "bash -c -e {path}", "sh -ec -u {path}"),
    *("ionice sh -c {path}", "flock /tmp/x -c {path}", "busybox sh -c {path}"),
    *("script -qc {path} /dev/null", "env -S 'sh -c' {path}", "sed -e {path}", "awk {path}"),
    *("sh -c 'eval \"ls $1\"' sh {path}", "sh -c 'sh -c \"ls $1\"' sh {path}"),
    "sh -c $1 sh {path}",
)


def test_the_name_of_a_file_is_never_in_a_text_that_runs() -> None:
    """Whoever allowed it, as a program that configured the check has."""
    commands = Commands("/", lambda rule: True)
    for command in NAMES_IN_TEXTS:
        rule = Rule("*", "own", command=tuple(shlex.split(command)))
        with pytest.raises(NotRun) as refused:
            commands.run(rule, {"$(touch x);'x'.txt": b""})
        assert refused.value.reason == "text", command


@pytest.mark.parametrize(
    ("command", "status", "shown"),
    [
        ("sh {root}/lib/lint.sh", 0, " lib/\n"),
        ("sh {root}/lint.sh", 2, "a folder of its own"),
        ("lint --lib={root}/lib", 0, " lib/\n"),
        ("sh -c 'cat {path}'", 2, "sh {path}"),
        ("lint --root={root}", 2, "{root}/tools"),
        ("make -C {root}/lib", 2, "Name the program"),
    ],
)
def test_a_person_sees_what_is_covered_or_the_form_that_works(
    command: str, status: int, shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "copydesk.toml").write_text(f'[checks]\n"*" = """{command}"""\n')
    assert main(["--root", str(tmp_path), "trust", "--yes"]) == status
    assert shown in "".join(capsys.readouterr())
    assert main(["--root", str(tmp_path), "trust", "--revoke"]) == 0


def test_a_second_name_below_the_root_changes_a_file_outside(tmp_path: Path) -> None:
    root, script = tmp_path / "root", tmp_path / "lint.py"
    root.mkdir()
    script.write_text("")
    (root / "same.py").hardlink_to(script)
    trust = Trust(str(root), [rule := Rule("*", "own", command=(sys.executable, str(script)))])
    trust.give()
    assert str(script) in trust.covered(rule)
    (root / "same.py").write_text(MARKS)
    assert not trust.is_given()


def test_a_refused_command_stops_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = Rule("*", "a", command=("cat",))
    refused = Rule("*", "b", command=("lint", "{root}"))
    told = (
        '[checks]\n"*" = [{ name = "a", command = "cat" }, { name = "b", command = "lint {root}" }]'
    )
    (tmp_path / "copydesk.toml").write_text(told)
    assert main(["--root", str(tmp_path), "trust", "--yes"]) == 0
    assert "b: not run" in capsys.readouterr().err
    trust = Trust(str(tmp_path), [given, refused])
    assert trust.is_given(given)
    with pytest.raises(NotRun):
        trust.is_given(refused)
    bad = {one.found: one.mend for one in examine(str(tmp_path)) if one.what == "check"}
    assert any("b: not run" in found and "correct" in mend for found, mend in bad.items())
