"""Checks of a text before it is written: parsers, and commands from the configuration.

Invariants: a command gets the text on its standard input or as a copy, and starts without a shell
in a scratch folder; after the run its process group is gone. A command runs only if the person who
uses this machine has allowed it. A check that cannot be run raises `NotRun`.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import json
import os
import re
import selectors
import shutil
import signal
import subprocess
import tempfile
import time
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import chain, count
from typing import Any, Literal, cast
from xml.parsers import expat

from copydesk.errors import check_cancelled
from copydesk.store.access import guards
from copydesk.text.relpath import RelPath

SYNTAX = "syntax"
"""The built-in check."""

Mode = Literal["tell", "ask", "refuse", "off"]
"""The effect of new findings: report, require acceptance, or refuse the edit."""

MOST_BYTES = 512 << 10
"""Larger texts are not checked."""

MOST_OUTPUT = 1 << 20
"""The most bytes that a command may print."""

_MOST_PROBLEMS = 1_000
_MOST_LINES = 10
_LONGEST = 300
_LOOK_AGAIN_S = 0.05


@dataclass(frozen=True, slots=True)
class Rule:
    """A check of a glob's files, built in without `command`. `required`: NotRun is a finding."""

    glob: str
    name: str = SYNTAX
    mode: Mode = "tell"
    command: tuple[str, ...] = ()
    required: bool = False
    seconds: int = 10

    def applies(self, path: RelPath) -> bool:
        """Whether the rule is for the file; a bare name matches at any depth."""
        return guards(self.glob if "/" in self.glob else f"**/{self.glob}", path)

    @property
    def is_together(self) -> bool:
        """Whether all files of a batch are checked in one run."""
        return "{files}" in self.command


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A finding of a check; `line` is 1-based, 0 if the check gave none."""

    path: str
    line: int
    text: str


class NotRun(Exception):
    """A check gave no answer.

    `reason` is one of untrusted, missing, timeout, output, died, failed and large; or text, whole,
    runner and copy: what such a command would run cannot be told. `detail` is what the system or
    the command said, or those words. `passes`: the next attempt may succeed.
    """

    def __init__(self, reason: str, detail: str = "", *, passes: bool = False) -> None:
        super().__init__(reason, detail)
        self.reason, self.detail, self.passes = reason, detail, passes


_Parser = Callable[[bytes], tuple[int, str] | None]
"""Returns where parsing fails (line, 1-based) and why, or raises that; None for a valid text."""

_UNREADABLE = (ValueError, RecursionError, MemoryError, LookupError)
"""Exceptions of a parser that are not findings."""

_MOST_STEPS = 2_000_000
"""More steps would block a parser for seconds."""

_MOST_QUICK_STEPS = 200_000_000
"""The same for the compiler of Python, which is written in C."""

_MOST_CALLS = 60_000
"""The most progress calls of a tree-sitter parser; a large text needs half of that."""

_BRACKETS = re.compile(rb"[\[\]{}]")
_NAME = "<copydesk-check>"
warnings.filterwarnings("ignore", module=re.escape(_NAME))  # of a text, not of our code


_FORMATTED = re.compile(rb"(?i)\b(?:f|fr|rf)['\"]")


def _python(data: bytes) -> None:
    joined = data.replace(b"\\\r\n", b"").replace(b"\\\n", b"")
    steps = _square_of_dots(joined.split(b"\n"))
    if _FORMATTED.search(data):
        steps += data.count(b"{") ** 2
    if steps > _MOST_QUICK_STEPS:
        raise ValueError("names and strings of so many parts take the square of them")
    ast.parse(data, _NAME)


def _json(data: bytes) -> None:
    json.loads(data, parse_int=str, parse_float=str)


def _square_of_dots(lines: Iterable[bytes]) -> int:
    return sum(line.count(b".") ** 2 for line in lines)


def _toml(data: bytes) -> tuple[int, str] | None:
    lines = data.split(b"\n")
    parts = max((line.count(b".") for line in lines if line.lstrip().startswith(b"[")), default=0)
    if _square_of_dots(lines) + parts * len(lines) > _MOST_STEPS:  # keys have their table's parts
        raise ValueError("keys of so many parts take the square of them")
    try:
        tomllib.loads(data.decode("utf-8-sig"))
    except tomllib.TOMLDecodeError as error:
        text = str(error)
        at = re.search(r" \(at line (\d+), column \d+\)$", text)
        line = int(at[1]) if at else data.count(b"\n") + (not data.endswith(b"\n"))
        return max(line, 1), re.sub(r" \(at [^()]*\)$", "", text)
    return None


def _xml(data: bytes) -> None:
    parser = expat.ParserCreate()
    parser.EntityDeclHandler = _refuse_entities
    parser.Parse(data, True)


def _refuse_entities(*of: object) -> None:
    raise ValueError("entities are not expanded")


def _yaml(data: bytes) -> tuple[int, str] | None:
    yaml = _extra("yaml")
    if yaml is None:
        raise NotRun("missing", passes=True)
    depth = steps = 0
    for bracket in _BRACKETS.findall(data):
        depth += 1 if bracket in b"[{" else -1
        steps += max(depth, 0)
    if steps > _MOST_STEPS:
        raise ValueError("lists that are so deep take the square of that")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        for _ in yaml.parse(data, Loader=loader):
            pass
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        said = getattr(error, "problem", None) or "is not YAML"
        return (mark.line + 1 if mark is not None else 1), str(said)
    return None


def _by_grammar(name: str, language: str = "language") -> _Parser:
    """A tree-sitter parser, for machines with its grammar installed."""

    def parse(data: bytes) -> tuple[int, str] | None:
        grammar = _grammar(name, language)
        if grammar is None:
            raise NotRun("missing", passes=True)
        calls = count()

        def stop(offset: int, has_error: bool) -> bool:
            return next(calls) > _MOST_CALLS  # recovery from faults takes quadratic time

        def read(offset: int, point: object) -> bytes:
            return data[offset : offset + _CHUNK]

        parser = _extra("tree_sitter").Parser(grammar)
        node: Any = parser.parse(read, progress_callback=stop).root_node
        if not node.has_error:
            return None
        while not (node.is_error or node.is_missing):
            inner = [child for child in node.children if child.has_error or child.is_missing]
            if not inner:
                break
            node = inner[0]
        said = f"missing {node.type}" if node.is_missing else "syntax error"
        return node.start_point[0] + 1, said

    return parse


@cache
def _extra(name: str) -> Any:
    """An optional module; None if it is not installed or cannot be loaded."""
    try:
        return importlib.import_module(name)
    except (ImportError, OSError):
        return None


@cache
def _grammar(name: str, language: str) -> Any:
    library, grammar = _extra("tree_sitter"), _extra(name)
    if library is None or grammar is None:
        return None
    try:
        return library.Language(getattr(grammar, language)())
    except (AttributeError, TypeError, ValueError):  # another generation of the library
        return None


_PARSERS: Mapping[str, _Parser] = {
    **dict.fromkeys((".py", ".pyi", ".pyw"), _python),
    **dict.fromkeys((".json", ".ipynb", ".geojson", ".webmanifest"), _json),
    ".toml": _toml,
    **dict.fromkeys((".xml", ".svg", ".xsd", ".xsl", ".xslt", ".plist", ".csproj", ".rss"), _xml),
    **dict.fromkeys((".yaml", ".yml"), _yaml),
    **dict.fromkeys((".js", ".mjs", ".cjs", ".jsx"), _by_grammar("tree_sitter_javascript")),
    ".ts": _by_grammar("tree_sitter_typescript", "language_typescript"),
    ".tsx": _by_grammar("tree_sitter_typescript", "language_tsx"),
    ".go": _by_grammar("tree_sitter_go"),
    ".rs": _by_grammar("tree_sitter_rust"),
    ".java": _by_grammar("tree_sitter_java"),
    ".c": _by_grammar("tree_sitter_c"),
    **dict.fromkeys((".cc", ".cpp", ".hpp"), _by_grammar("tree_sitter_cpp")),
    ".cs": _by_grammar("tree_sitter_c_sharp"),
    ".rb": _by_grammar("tree_sitter_ruby"),
    **dict.fromkeys((".sh", ".bash"), _by_grammar("tree_sitter_bash")),
    ".css": _by_grammar("tree_sitter_css"),
}

_CHUNK = 1 << 16
_COMMENTS = re.compile(rb"^[^\S\n]*(?://|/\*)", re.MULTILINE)


def suffix_of(path: RelPath) -> str:
    """The key that selects the parser of a file."""
    return os.path.splitext(path.parts[-1])[1].lower() if path.parts else ""


def parses(suffix: str) -> bool:
    """Whether there is a parser for files with this suffix."""
    return suffix in _PARSERS


def syntax(suffix: str, data: bytes) -> tuple[int, str] | None:
    """Where and why the text cannot be parsed; None if it can; NotRun if that is unknown."""
    try:
        return _PARSERS[suffix](data)
    except expat.ExpatError as error:
        return error.lineno, expat.ErrorString(error.code)
    except (SyntaxError, json.JSONDecodeError) as error:
        return error.lineno or 1, error.msg
    except _UNREADABLE as error:
        raise NotRun("failed", str(error)) from None


def may_be_other(suffix: str, data: bytes) -> bool:
    """Whether a new file may be in a variant of its language: JSON with comments."""
    return _PARSERS[suffix] is _json and _COMMENTS.search(data) is not None


def missing_parsers() -> list[str]:
    """The suffixes of files whose parser is not installed."""

    def is_missing(suffix: str) -> bool:
        try:
            syntax(suffix, b"")
        except NotRun as none:
            return none.reason == "missing"
        return False

    return [suffix for suffix in _PARSERS if is_missing(suffix)]


_PASSED_ON = (
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "VIRTUAL_ENV"),
    *("GOPATH", "GOROOT", "GOCACHE", "CARGO_HOME", "RUSTUP_HOME", "JAVA_HOME"),
)
"""The only environment variables that a command gets: others may be secrets."""

_PLACEHOLDER = re.compile(r"\{(path|root)\}")
_PLAIN = re.compile(r"[\w.]")
"""Matches the start of a path that no program reads as an option, argument file or command."""

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_POSITION = re.compile(
    r"\s*+(?:-->\s*+)?+(?P<path>.*?)"
    r"(?::(?P<line>\d+)(?::\d+)?|\((?P<at>\d+)(?:,\d+)?\))(?::\s*|\s+|$)(?P<text>.*)"
)
_STDIN = ("-", "<stdin>", "<standard input>", "stdin", "standard input")


class Commands:
    """Runs the commands of one workspace. Safe to use from many threads."""

    def __init__(self, root: str, trusted: Callable[[], bool]) -> None:
        self._root, self._trusted = os.path.realpath(root), trusted

    def run(self, rule: Rule, files: Mapping[str, bytes]) -> list[Diagnostic]:
        """Run the command on the texts; return its findings. Raises NotRun, Cancelled."""
        if not self._trusted():
            raise NotRun("untrusted", passes=True)
        try:
            with tempfile.TemporaryDirectory(
                prefix="copydesk-check-", ignore_cleanup_errors=True
            ) as scratch:
                return self._run(rule, files, os.path.realpath(scratch))
        except OSError as refused:
            raise NotRun("failed", refused.strerror or str(refused), passes=True) from None

    def _run(self, rule: Rule, files: Mapping[str, bytes], scratch: str) -> list[Diagnostic]:
        check_words(rule.command)
        parts = re.split(r"[\s\0'\"=@]+", "\0".join(rule.command)) if rule.is_together else ()
        for copied in files.keys() & set(map(os.path.normpath, parts)):
            raise NotRun("copy", copied)
        paths = [path if _PLAIN.match(path) else f"./{path}" for path in files]
        known = {"path": paths[0], "root": self._root}
        words = (paths if word == "{files}" else [_filled(word, known)] for word in rule.command)
        argv = [*chain.from_iterable(words)]
        program = program_of(rule, self._root)
        if program is None:
            raise NotRun("missing", argv[0], passes=True)
        with tempfile.TemporaryFile() as given:
            if rule.is_together:
                for path, data in files.items():
                    copy = os.path.join(scratch, path)
                    os.makedirs(os.path.dirname(copy), exist_ok=True)
                    with open(copy, "xb") as file:
                        file.write(data)
            else:
                given.write(next(iter(files.values())))
                given.seek(0)
            argv[0], environ = program, {**_environment(self._root), "TMPDIR": scratch}
            status, output = _output(argv, scratch, environ, given.fileno(), rule.seconds)
        names = {name: path for path in files for name in self._names(path, scratch)}
        if not rule.is_together:
            names |= dict.fromkeys(_STDIN, next(iter(files)))
        return _problems(status, output.decode("utf-8", "replace"), names)

    def _names(self, path: str, scratch: str) -> tuple[str, ...]:
        return path, f"./{path}", os.path.join(scratch, path), os.path.join(self._root, path)


def _filled(word: str, known: Mapping[str, str]) -> str:
    """Fill in the placeholders in a word of a command."""
    return _PLACEHOLDER.sub(lambda at: known[at[1]], word)


def program_of(rule: Rule, root: str) -> str | None:
    """The program of a command, or None; never from the scratch folder with the checked files."""
    program = _filled(rule.command[0], {"root": os.path.realpath(root), "path": ""})
    if os.path.sep in program and not os.path.isabs(program):
        return None
    return shutil.which(program, path=os.pathsep.join(_search_path()))


def _search_path() -> Iterator[str]:
    """The absolute folders of PATH: relative ones would be searched in the current folder."""
    return filter(os.path.isabs, os.environ.get("PATH", os.defpath).split(os.pathsep))


def _environment(root: str) -> dict[str, str]:
    """The variables that a command gets; none of them leads below the root.

    Nor does Python import a checked module from the folder that the command runs in.
    """
    path = os.pathsep.join(folder for folder in _search_path() if not _is_in(root, folder))
    values = ((name, os.environ.get(name, "")) for name in _PASSED_ON)
    return {
        **{name: value for name, value in values if value and not _is_in(root, value)},
        "PATH": path,
        "NO_COLOR": "1",
        "TERM": "dumb",
        "PYTHONSAFEPATH": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _is_in(folder: str, paths: str) -> bool:
    """Whether one of the paths is the folder or below it, as it is spelled or as it resolves."""
    return any(
        os.path.join(way(path), "").startswith(os.path.join(folder, ""))
        for path in filter(os.path.isabs, paths.split(os.pathsep))
        for way in (os.path.abspath, os.path.realpath)
    )


def _output(
    argv: Sequence[str], folder: str, environ: Mapping[str, str], given: int, seconds: int
) -> tuple[int, bytes]:
    """Run a command; return its exit status and output. Raises NotRun and Cancelled."""
    deadline = time.monotonic() + seconds
    process = subprocess.Popen(
        argv,
        cwd=folder,
        env=environ,
        stdin=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None, "it was asked for"
    output, is_open = bytearray(), True
    try:
        with selectors.DefaultSelector() as pipe, process.stdout as stream:
            pipe.register(stream, selectors.EVENT_READ)
            while True:
                check_cancelled()
                if time.monotonic() >= deadline:
                    raise NotRun("timeout", str(seconds))
                ended = _has_ended(process)  # asked first: then all its output is in the pipe
                if is_open and pipe.select(0 if ended else _LOOK_AGAIN_S):
                    chunk = os.read(stream.fileno(), 1 << 16)
                    output += chunk
                    is_open = bool(chunk)
                    if len(output) > MOST_OUTPUT:
                        raise NotRun("output", str(MOST_OUTPUT))
                elif ended:  # whoever still has its output is in its process group
                    break
                elif not is_open:
                    time.sleep(_LOOK_AGAIN_S / 10)
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.returncode < 0:
        raise NotRun("died", signal.Signals(-process.returncode).name)
    return process.returncode, bytes(output)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    if not hasattr(os, "waitid"):
        return process.poll() is not None
    flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return os.waitid(os.P_PID, process.pid, flags) is not None


def _problems(status: int, output: str, names: Mapping[str, str]) -> list[Diagnostic]:
    """Places or names in the output; else its lines for status 1; a higher status is NotRun."""
    lines = [_CONTROL.sub("", line).rstrip()[:2_000] for line in output.split("\n")]
    found: list[Diagnostic] = []
    for index, line in enumerate(lines):
        at = _POSITION.fullmatch(line)
        path = names.get(at["path"]) if at else None
        if at is not None and path is not None:
            text = at["text"] or (lines[index - 1] if index else "")
            number = int((at["line"] or at["at"])[:9])
            found.append(Diagnostic(path, number, text.strip()[:_LONGEST]))
        elif line.strip() in names:
            found.append(Diagnostic(names[line.strip()], 0, "is listed"))
    if found or not status:
        return found[:_MOST_PROBLEMS]
    said = [line.strip()[:_LONGEST] for line in lines if line.strip()][:_MOST_LINES]
    if status > 1:
        raise NotRun("failed", said[0] if said else f"exit status {status}")
    first = next(iter(names.values()))
    return [Diagnostic(first, 0, line) for line in said or [f"exit status {status}"]]


_SETTINGS = (".toml", ".json", ".yaml", ".yml", ".ini", ".cfg")
"""Suffixes of settings, which may change if they are for one of these tools."""

_NO_PLUGINS = frozenset(
    (
        "ruff",
        "black",
        "gofmt",
        "rustfmt",
        "clang-format",
        "shellcheck",
        "shfmt",
        "yamllint",
        "taplo",
    )
)
"""Tools that run nothing because a file says so, wherever they look for their settings."""

_INTERPRETER = r"(?:ba|da|a|k|mk|z|fi|tc|c)?sh|(?:python|pypy)[\d.]*|perl|ruby|node|php|lua|julia"
_UNTOLD = re.compile(
    r"""(?xs)  # of words that each have \0 before them, and one \0 at the end
    (?P<runner>  # runs whatever the files of a folder say
        (?:\0|[;|&(`]\s*+)(?:(?:exec|env|\w++=\S*+)\s++)*+(?:[^\0\s;|&()`]*/)?
        (?:make|gmake|ninja|just|rake|ant|mvn|gradle|cargo|npm|pnpm|yarn|bun|tox|nox|py\.?test
          |pre-commit)(?=[\0\s;|&)`])
    ) | (?P<text>
        # a path within a text, or among words that are made one
        \0(?=[^\0]*\{(?:path|root)\})(?![\w.,:=@%+/~{}-]*\0)[^\0]*
        | \0(?:eval|ssh|watch|parallel)\0.*\{(?:path|root)\}
        # an interpreter, which another program may start
        | \A(?:\0(?:[^\0]*/)?
              (?:env|find|nice|nohup|poetry|setsid|stdbuf|sudo|time|timeout|uv|xargs)(?=\0)
            (?:\0(?!(?:[^\0]*/)?INTERPRETER\0)[^\0]*+)*+)?+ \0(?:[^\0]*/)?INTERPRETER(?=\0)
        (?: # without a script it runs its standard input; some options only read, -m is a module
            (?:\0(?!-[mncl]\0|-wc\0)-\w+)*\0\Z
            # after options, some with a value: a path as its text; what it is given as its script
            | (?:\0(?!(?:-[mncl]|-wc|--check|--syntax-check)\0)[-+][^\0]+
                (?:(?<=[oOWXIr])\0[^-\0][^\0]*)?)*
              \0(?:-\w*c\w*\0[^\0]*\{(?:path|root)\}
                |[^\0]*\{path\}|(?:\{files\}|-|/dev/stdin)\0))
    )""".replace("INTERPRETER", f"(?:{_INTERPRETER})")
)
"""Finds what a command would run that its words do not tell."""

_BETWEEN = re.compile(r"[\s=:,;@'\"`()<>|&!]+")
_PATTERN = re.compile(r"[^/]*[*?\[{].*")


def check_words(command: Sequence[str]) -> None:
    """Raise NotRun if the command would run what its words do not tell, such as a file's name.

    A name that is a word of its own, behind a program's script or text, is only a name.
    """
    for at in _UNTOLD.finditer("".join(f"\0{word}" for word in command) + "\0"):
        raise NotRun(str(at.lastgroup), " ".join(at[0].split("\0")).strip())


class Trust:
    """Commands of workspaces that the person allowed; in a file that nobody else can write.

    What is allowed are these very commands, while what they reach below the root, where agents may
    write, is what it was.
    """

    def __init__(self, root: str, rules: Iterable[Rule]) -> None:
        self._root = os.path.realpath(root)
        self._below = os.path.join(self._root, "")
        self._rules = tuple(one for one in rules if one.command)
        self._known: dict[str, tuple[tuple[int, ...], str]] = {}
        home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
        self.path = os.path.join(os.path.abspath(home), "copydesk", "trusted.json")

    @property
    def inside(self) -> str:
        """What must not lie in the workspace, where agents may write: if it does, nothing runs.

        That is the file of permissions, the home folder with its settings, and that of the copies.
        """
        places = self.path, os.path.expanduser("~"), tempfile.gettempdir()
        return next((one for one in places if _is_in(self._root, one)), "")

    def is_given(self) -> bool:
        """Whether exactly these commands, and what they reach below the root, are allowed."""
        with suppress(NotRun):
            return not self.inside and self._kept().get(self._root) == self._digest()
        return False

    def give(self) -> None:
        """Allow the commands; raises OSError, and NotRun as `reached` does."""
        self._keep({**self._kept(), self._root: self._digest()})

    def take_back(self) -> None:
        """Revoke all permissions of this workspace; raises OSError."""
        kept = self._kept()
        if kept.pop(self._root, ""):
            self._keep(kept)

    def reached(self, rule: Rule) -> dict[str, str]:
        """What a command reaches below the root: the digest of each path, empty for no file.

        That are the paths that it names, folders with all that is in them, and what a program there
        is installed with. Raises NotRun for a command whose ways cannot be followed.
        """
        check_words(rule.command)
        tool = rule.command[2:3] if rule.command[1:2] == ("-m",) else rule.command[:1]
        has_plugins = _NO_PLUGINS.isdisjoint(map(os.path.basename, tool))
        seen, found = {os.sep}, dict[str, str]()
        todo = [*self._paths(*rule.command), program_of(rule, self._root) or os.sep]
        while todo:
            path = todo.pop()
            for one in {os.path.abspath(path), os.path.realpath(path)} - seen:
                seen.add(one)
                todo += self._next(one)
                if one.startswith(self._below):
                    found[one] = self._content(one)
                elif has_plugins and self._below.startswith(os.path.join(one, "")):
                    raise NotRun("whole", path)
        return {
            one: digest
            for one, digest in found.items()
            if has_plugins or not one.endswith(_SETTINGS) or os.path.dirname(one) in found
        }

    def covered(self, rule: Rule) -> list[str]:
        """The files and whole folders in `reached`, from the root; raises NotRun as that does."""
        found = self.reached(rule)
        tops = (path for path in found if os.path.dirname(path) not in found)
        return sorted(
            os.path.relpath(path, self._root) + os.sep * os.path.isdir(path)
            for path in tops
            if os.path.exists(path) or not any(_BETWEEN.match(path.removeprefix(o)) for o in found)
        )

    def _paths(self, *words: str) -> Iterator[str]:
        """All paths that the words may name, alone or among others, and programs of the PATH."""
        folder = os.path.join(tempfile.gettempdir(), "copydesk-check-")
        search = _environment(self._root)["PATH"]
        for word in words:
            text = os.path.expandvars(_filled(word, {"path": "", "root": self._root}))
            text = text.replace(self._root, "\0")
            parts = (text, *re.split("['\"]", text), *_BETWEEN.split(text))
            for piece in (_PATTERN.sub("", part) for part in parts):
                for at in {0, *map(piece.find, ("/", "~", "..", "\0"))} - {-1}:
                    path = os.path.expanduser(piece[at:].replace("\0", self._root))
                    yield shutil.which(path, path=search) or os.path.join(folder, path)

    def _next(self, path: str) -> Iterator[str]:
        """What belongs to a path: a link's target, a folder's folders and links, a program's needs.

        A script needs its interpreter; both have their modules in their folder, or beside `bin`.
        """
        with suppress(OSError):
            if os.path.islink(path):
                yield os.path.join(os.path.dirname(path), os.readlink(path))
            elif path.startswith(self._below) and os.path.isdir(path):
                yield from (
                    one.path for one in os.scandir(path) if one.is_symlink() or one.is_dir()
                )
            if os.path.isfile(path) and os.access(path, os.X_OK):
                with open(path, "rb") as file:
                    script = re.match("#!(.*)", os.fsdecode(file.readline(_LONGEST)))
                yield from self._paths(script[1]) if script else ()
                if script or re.fullmatch(_INTERPRETER, os.path.basename(path)):
                    folder, name = os.path.split(os.path.dirname(path))
                    folders = folder if name in ("bin", ".bin") else "", os.path.join(folder, name)
                    yield from (one for one in folders if one.startswith(self._below))

    def _digest(self) -> str:
        """The digest of what is allowed: the commands, and all that they reach below the root."""
        commands = sorted((one.name, one.glob, *one.command) for one in self._rules)
        files = {path: found for one in self._rules for path, found in self.reached(one).items()}
        told = json.dumps([self._root, commands, *([files] if files else [])], sort_keys=True)
        return hashlib.sha256(told.encode("utf-8", "surrogateescape")).hexdigest()

    def _content(self, path: str) -> str:
        """The digest of a file, cached while it is unchanged, or a folder's list; else empty."""
        try:
            if not os.path.isfile(path):  # a whole environment may be below, so nothing is read
                stats = {one.name: one.stat(follow_symlinks=False) for one in os.scandir(path)}
                return str(
                    sorted((k, v.st_ino, v.st_size, v.st_mtime_ns) for k, v in stats.items())
                )
            with open(path, "rb") as file:
                found = os.fstat(file.fileno())
                stamp = found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
                if self._known.get(path, ((), ""))[0] != stamp:
                    self._known[path] = stamp, hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            return ""
        return self._known[path][1]

    def _kept(self) -> dict[str, str]:
        try:
            with open(self.path, "rb") as file:
                found = os.fstat(file.fileno())
                if found.st_uid != os.geteuid() or found.st_mode & 0o022:
                    return {}
                kept = json.loads(file.read())
        except (OSError, ValueError, RecursionError):
            return {}
        return cast("dict[str, str]", kept) if isinstance(kept, dict) else {}

    def _keep(self, kept: Mapping[str, str]) -> None:
        folder = os.path.dirname(self.path)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with tempfile.TemporaryDirectory(
            dir=folder
        ) as beside:  # whatever interrupts, it is removed
            handle, path = tempfile.mkstemp(dir=beside)
            with open(handle, "w", encoding="utf-8") as file:
                json.dump(kept, file, indent=1)
            os.replace(path, self.path)
