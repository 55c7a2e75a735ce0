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

import pytest

from copydesk.app.cli import main
from copydesk.store.checks import Commands, NotRun, Rule, Trust

PYTHON = shlex.quote(sys.executable)
OPENS = "import sys; [exec(open(name).read()) for name in sys.argv[1].split(',')]"
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
MARKS = "open('MARK', 'w')\n"
SITE = f".venv/lib/python{sysconfig.get_python_version()}/site-packages"
VENV = {
    ".venv/pyvenv.cfg": f"home = {os.path.dirname(os.path.realpath(sys.executable))}\n",
    ".venv/bin/python": f"-> {os.path.realpath(sys.executable)}",
    f"{SITE}/lint.py": "",
}
FORMS = {
    "a program": Form(
        "{root}/tools/lint", {"tools/lint": f"#!/bin/sh\n{TOUCH}"}, {"tools/lint": "#!/bin/sh\n"}
    ),
    "a script": Form("sh {root}/lint.sh", {"lint.sh": TOUCH}, {"lint.sh": "true\n"}),
    "not there yet": Form("sh {root}/lint.sh", {"lint.sh": TOUCH}),
    "by a link": Form("sh {L}/lint.sh", {"lint.sh": TOUCH}, {"lint.sh": "true\n"}),
    "by ..": Form("sh {R}/tools/../lint.sh", {"lint.sh": TOUCH}, {"tools/a": "", "lint.sh": ""}),
    "by //": Form("sh {R}//tools//lint.sh", {"tools/lint.sh": TOUCH}, {"tools/lint.sh": ""}),
    "by /proc": Form("sh /proc/self/root{R}/lint.sh", {"lint.sh": TOUCH}, {"lint.sh": ""}),
    "from the command's folder": Form("sh {U}/lint.sh", {"lint.sh": TOUCH}, {"lint.sh": ""}),
    "in a text": Form(
        "sh -c 'sh {R}/tools/lint.sh'", {"tools/lint.sh": TOUCH}, {"tools/lint.sh": ""}
    ),
    "quoted in a text": Form(
        "sh -c '. \"{R}/my lint.sh\"'", {"my lint.sh": TOUCH}, {"my lint.sh": ""}
    ),
    "in a program's text": Form(
        f"{PYTHON} -c \"exec(open('{{R}}/lint.py').read())\"", {"lint.py": MARKS}, {"lint.py": ""}
    ),
    "cd to a folder": Form(
        "sh -c 'cd {R}/tools && sh lint.sh'", {"tools/lint.sh": TOUCH}, {"tools/a": ""}
    ),
    "a folder of modules": Form(
        f"env PYTHONPATH={{root}}/lib {PYTHON} -m lint", {"lib/lint.py": MARKS}, {"lib/a.py": ""}
    ),
    "a folder that is run": Form(
        f"{PYTHON} {{R}}/tools", {"tools/__main__.py": MARKS}, {"tools/a.py": ""}
    ),
    "a folder with a link": Form(
        "sh {root}/tools/lib/lint.sh",
        {"lib/lint.sh": TOUCH},
        {"lib/a": "", "tools/lib": "-> ../lib"},
    ),
    "a list": Form(f'{PYTHON} -c "{OPENS}" {{O}}/a.py,{{R}}/b.py', {"b.py": MARKS}, {"b.py": ""}),
    "an option's value": Form(
        f'{PYTHON} -c "{OPENS.replace("[1]", "[1][9:]")}" --plugin={{R}}/b.py', {"b.py": MARKS}
    ),
    "an option's letters": Form(
        f'{PYTHON} -c "{OPENS.replace("[1]", "[1][2:]")}" -c{{R}}/b.py', {"b.py": MARKS}
    ),
    "a file of arguments": Form(
        f'{PYTHON} -c "{OPENS.replace("[1]", "[1][1:]")}" @{{R}}/b.py', {"b.py": MARKS}
    ),
    "settings": Form("sh {root}/lint.cfg", {"lint.cfg": TOUCH}, {"lint.cfg": ""}),
    "a pattern": Form(
        "sh -c 'for f in {R}/tools/*.sh; do . $f; done'", {"tools/b.sh": TOUCH}, {"tools/a.sh": ""}
    ),
    "a name of braces": Form(
        "bash -c 'cat {R}/tools/{{a,b}}.sh | sh'", {"tools/b.sh": TOUCH}, {"tools/a.sh": ""}
    ),
    "a variable": Form(
        "sh -c '. $HOME/tools/a.sh'", {"a.sh": TOUCH}, {"a.sh": ""}, {"HOME": "{O}"}
    ),
    "the home folder": Form("sh -c '. ~/.profile'", {".profile": TOUCH}, {}, {"HOME": "{R}"}),
    "an environment": Form("{root}/.venv/bin/python -m lint", {f"{SITE}/lint.py": MARKS}, VENV),
    "a script's environment": Form(
        "{O}/lint",
        {f"{SITE}/lint.py": MARKS},
        {**VENV, "{O}/lint": "#!{R}/.venv/bin/python\nimport lint\n"},
    ),
    "what a script has beside it": Form(
        "{root}/tools/lint",
        {"tools/lib.sh": TOUCH},
        {"tools/lint": '#!/bin/sh\n. "$(dirname "$0")/lib.sh"\n', "tools/lib.sh": ""},
    ),
    "what a script loads": Form(
        "{root}/x/bin/lint",
        {"x/lib/lint.sh": TOUCH},
        {"x/bin/lint": '#!/bin/sh\n. "$(dirname "$0")/../lib/lint.sh"\n', "x/lib/lint.sh": ""},
    ),
    "a link on the path": Form(
        "env lint",
        {"tools/lint.sh": f"#!/bin/sh\n{TOUCH}"},
        {"tools/lint.sh": "#!/bin/sh\n", "{O}/lint": "-> {R}/tools/lint.sh"},
        {"PATH": "{O}:" + os.defpath},
    ),
    "a folder of the path": Form(
        "env lint",
        {"bin/lint": f"#!/bin/sh\n{TOUCH}"},
        {"bin/lint": "#!/bin/sh\n"},
        {"PATH": "{R}/bin:" + os.defpath},
    ),
    "earlier on the path": Form(
        "lint",
        {"bin/lint": f"#!/bin/sh\n{TOUCH}"},
        {"bin/lint": "plain", "{O}/lint": "#!/bin/sh\n"},
        {"PATH": "{R}/bin:{O}:" + os.defpath},
    ),
    "a folder in a variable": Form(
        "sh -c '. $VIRTUAL_ENV/a.sh'", {"v/a.sh": TOUCH}, {"v/a.sh": ""}, {"VIRTUAL_ENV": "{R}/v"}
    ),
    "a copy": Form("sh lint.sh {files}", {"lint.sh": TOUCH}, batch=("lint.sh",)),
    "a copy in a text": Form(
        "sh -c '. ./lint.sh' - {files}", {"lint.sh": TOUCH}, batch=("lint.sh",)
    ),
    "the whole workspace": Form(
        f"env PYTHONPATH={{root}} {PYTHON} -m lint", {"lint.py": MARKS}, refused=True
    ),
    "a folder above": Form(
        "sh -c 'cd {R}/.. && sh root/lint.sh'", {"lint.sh": TOUCH}, refused=True
    ),
    "settings beside the file": Form(
        'sh -c \'. "$(dirname "$1")/rc.sh"\' - {root}/{path}', {"rc.sh": TOUCH}, refused=True
    ),
    "make -C": Form("make -C {root}/tools", {"tools/Makefile": f"all:\n\t{TOUCH}"}, refused=True),
    "make in a text": Form(
        "sh -c 'cd {R}/tools && make'", {"tools/Makefile": f"all:\n\t{TOUCH}"}, refused=True
    ),
    "make of copies": Form(
        "make lint", {"Makefile": f"lint:\n\t{TOUCH}"}, batch=("Makefile",), refused=True
    ),
    "npm run": Form(
        "npm --prefix {root}/x run lint",
        {"x/package.json": '{"scripts": {"lint": "touch MARK"}}'},
        {"x/package.json": '{"scripts": {"lint": ""}}'},
        refused=True,
    ),
    "the text": Form("sh", {"a.txt": TOUCH}, refused=True),
    "the text as a file": Form("sh {files}", {"a.txt": TOUCH}, refused=True),
    "the file": Form("sh {root}/{path}", {"a.txt": TOUCH}, refused=True),
    "the root in a text": Form("sh -c '. {root}/lint.sh'", {"lint.sh": TOUCH}, refused=True),
    "a text that is a name": Form("sh -c {root}/lint.sh", {"lint.sh": TOUCH}, refused=True),
}


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


PLAIN = {
    "ruff check {path}": [],
    "ruff check --stdin-filename {root}/{path} -": [],
    "ruff check --config={root}/ruff.toml --stdin-filename {path} -": [],
    "clang-format --assume-filename={root}/{path}": [],
    f"{PYTHON} -m json.tool": [],
    f"{PYTHON} -m json.tool - --indent 2": [],
    "shellcheck -s bash -": [],
    "sh -n": [],
    "bash -n {files}": [],
    "sh -c 'grep -n \"$1\" | sort' sh {path}": [],
    "bash -euo pipefail -c 'grep -n bad - | cut -d/ -f1'": [],
    "sed s/a/b/": [],
    "sh {root}/tools/lint.sh {path}": ["tools/lint.sh"],
    "sh -c 'sh {R}/tools/lint.sh'": ["tools/lint.sh"],
    "env LIB={root}/lib lint --set={root}/set.toml": ["lib/", "set.toml"],
    "{root}/tools/lint": ["tools/"],
    "tool --plugin={R}/later.py,{R}/tools/../lib/a.py": [
        "later.py",
        "lib/a.py",
        "tools/../lib/a.py",
    ],
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
    covered = [name for name in PLAIN[command] if ".." not in name]
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


@pytest.mark.parametrize(
    "words",
    [
        ("sh", "-c", "cat {path}"),
        ("sh", "-c", "cat '{path}'"),
        ("sh", "-c", '. "{root}/{path}"'),
        ("sh", "-ec", "{path}"),
        ("bash", "-o", "pipefail", "-c", "{path}"),
        ("env", "A=1", "sh", "-c", "cat<{path}"),
        ("timeout", "5", "sh", "-c", "{path}"),
        ("xargs", "-0", "/bin/sh", "-c", "./{path}"),
        (sys.executable, "-c", "print('{path}')"),
        ("awk", 'END{print "{path}"}'),
        ("eval", "{path}"),
        ("ssh", "host", "cat", "{path}"),
    ],
)
def test_the_name_of_a_file_is_never_in_a_text_that_runs(words: tuple[str, ...]) -> None:
    """Whoever allowed it, as a program that configured the check has."""
    commands = Commands("/", lambda: True)
    with pytest.raises(NotRun) as refused:
        commands.run(Rule("*", "own", command=words), {"$(touch x);'x'.txt": b""})
    assert refused.value.reason == "text"


@pytest.mark.parametrize(
    ("command", "status", "shown"),
    [
        ("sh {root}/lint.sh", 0, " lint.sh\n"),
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
