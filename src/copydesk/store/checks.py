"""Checks of a text before it is written: parsers, and commands that the person has allowed.

First the parsers and how a command is run; then `check_words`, which says whether the words of a
command tell what it runs, since a text that an agent wrote may not run as a program; and `Trust`,
the commands that are allowed, with all that they reach in the workspace.

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
import shlex
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
from functools import cache, partial
from itertools import count
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
_LOOK_AGAIN_S = 0.005


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
    beside, runner and copy: what such a command would run cannot be told. `detail` is what the
    system or the command said, or those words. `passes`: the next attempt may succeed.
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
# Once, of texts and not of our code: to do so around each parse would not be safe in threads.
warnings.filterwarnings("ignore", module=re.escape(_NAME))


_FORMATTED = re.compile(rb"(?i)\b(?:f|fr|rf)['\"]")


def _python(data: bytes) -> None:
    steps = _square_of_dots(re.sub(rb"\\\r?\n", b"", data).split(b"\n"))
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
    if (yaml := _extra("yaml")) is None:
        raise NotRun("missing", passes=True)
    depth = steps = 0
    for bracket in _BRACKETS.findall(data):
        depth += 1 if bracket in b"[{" else -1
        steps += max(depth, 0)
    if steps > _MOST_STEPS:
        raise ValueError("lists that are so deep take the square of that")
    try:
        for _ in yaml.parse(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            pass
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        said = getattr(error, "problem", None) or "is not YAML"
        return (mark.line + 1 if mark is not None else 1), str(said)
    return None


def _by_grammar(data: bytes, grammar: str, language: str = "language") -> tuple[int, str] | None:
    """Parse with a grammar of tree-sitter, on machines with that installed."""
    tree_sitter, loaded = _extra("tree_sitter"), _grammar(grammar, language)
    if loaded is None:
        raise NotRun("missing", passes=True)
    calls = count()

    def stop(offset: int, has_error: bool) -> bool:
        return next(calls) > _MOST_CALLS  # recovery from faults takes quadratic time

    def read(offset: int, point: object) -> bytes:
        return data[offset : offset + _CHUNK]

    node: Any = tree_sitter.Parser(loaded).parse(read, progress_callback=stop).root_node
    if not node.has_error:
        return None
    while not (node.is_error or node.is_missing):
        inner = [child for child in node.children if child.has_error or child.is_missing]
        if not inner:
            break
        node = inner[0]
    return node.start_point[0] + 1, f"missing {node.type}" if node.is_missing else "syntax error"


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
    **dict.fromkeys(
        (".js", ".mjs", ".cjs", ".jsx"), partial(_by_grammar, grammar="tree_sitter_javascript")
    ),
    ".ts": partial(_by_grammar, grammar="tree_sitter_typescript", language="language_typescript"),
    ".tsx": partial(_by_grammar, grammar="tree_sitter_typescript", language="language_tsx"),
    ".go": partial(_by_grammar, grammar="tree_sitter_go"),
    ".rs": partial(_by_grammar, grammar="tree_sitter_rust"),
    ".java": partial(_by_grammar, grammar="tree_sitter_java"),
    ".c": partial(_by_grammar, grammar="tree_sitter_c"),
    **dict.fromkeys((".cc", ".cpp", ".hpp"), partial(_by_grammar, grammar="tree_sitter_cpp")),
    ".cs": partial(_by_grammar, grammar="tree_sitter_c_sharp"),
    ".rb": partial(_by_grammar, grammar="tree_sitter_ruby"),
    **dict.fromkeys((".sh", ".bash"), partial(_by_grammar, grammar="tree_sitter_bash")),
    ".css": partial(_by_grammar, grammar="tree_sitter_css"),
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
    missing: list[str] = []
    for suffix in _PARSERS:
        try:
            syntax(suffix, b"")
        except NotRun as none:
            missing += [suffix] * (none.reason == "missing")
    return missing


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
    r"\s*+(?>(?:-->\s*+)?)(?P<path>.*?)"
    r"(?::(?P<line>\d+)(?::\d+)?|\((?P<at>\d+)(?:,\d+)?\))(?::\s*|\s+|$)(?P<text>.*)"
)
_STDIN = ("-", "<stdin>", "<standard input>", "stdin", "standard input")


class Commands:
    """Runs the commands of one workspace. Safe to use from many threads."""

    def __init__(self, root: str, trusted: Callable[[Rule], bool]) -> None:
        self._root, self._trusted = os.path.realpath(root), trusted

    def run(self, rule: Rule, files: Mapping[str, bytes]) -> list[Diagnostic]:
        """Run the command on the texts; return its findings. Raises NotRun, Cancelled."""
        if not self._trusted(rule):
            raise NotRun("untrusted", passes=True)
        try:
            with tempfile.TemporaryDirectory(
                prefix="copydesk-check-", ignore_cleanup_errors=True
            ) as scratch:
                return self._run(rule, files, os.path.realpath(scratch))
        except OSError as refused:
            raise NotRun("failed", refused.strerror or str(refused), passes=True) from None

    def _run(self, rule: Rule, files: Mapping[str, bytes], scratch: str) -> list[Diagnostic]:
        folders = scratch, self._root
        check_words(rule.command, self._root)
        parts = re.split(r"[\s\0'\"=@]+", "\0".join(rule.command)) if rule.is_together else ()
        for copied in files.keys() & set(map(os.path.normpath, parts)):
            raise NotRun("copy", copied)
        paths = [path if _PLAIN.match(path) else f"./{path}" for path in files]
        known = {"path": paths[0], "root": self._root}
        argv = [
            argument
            for word in rule.command
            for argument in (paths if word == "{files}" else [_filled(word, known)])
        ]
        if (program := program_of(rule, self._root)) is None:
            raise NotRun("missing", argv[0], passes=True)
        with tempfile.TemporaryFile() as stdin:
            if rule.is_together:
                for path, data in files.items():
                    copy = os.path.join(scratch, path)
                    os.makedirs(os.path.dirname(copy), exist_ok=True)
                    with open(copy, "xb") as file:
                        file.write(data)
            else:
                stdin.write(next(iter(files.values())))
                stdin.seek(0)
            argv[0], environ = program, {**_environment(self._root), "TMPDIR": scratch}
            status, output = _output(argv, scratch, environ, stdin.fileno(), rule.seconds)
        names = {
            name: path
            for path in files
            for name in (path, f"./{path}", *(os.path.join(folder, path) for folder in folders))
        }
        if not rule.is_together:
            names |= dict.fromkeys(_STDIN, next(iter(files)))
        return _problems(status, output.decode("utf-8", "replace"), names)


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
    values = ((name, os.environ.get(name, "")) for name in _PASSED_ON)
    return {
        **{name: value for name, value in values if value and not _is_in(root, value)},
        "PATH": os.pathsep.join(folder for folder in _search_path() if not _is_in(root, folder)),
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
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            argv,
            cwd=folder,
            env=environ,
            stdin=given,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            while not _has_ended(process) and os.fstat(output.fileno()).st_size <= MOST_OUTPUT:
                check_cancelled()
                if time.monotonic() >= deadline:
                    raise NotRun("timeout", str(seconds))
                time.sleep(_LOOK_AGAIN_S)
        finally:  # whoever still has its output is in its process group
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        text = output.read(MOST_OUTPUT + 1)
    if len(text) > MOST_OUTPUT:
        raise NotRun("output", str(MOST_OUTPUT))
    if process.returncode < 0:
        raise NotRun("died", signal.Signals(-process.returncode).name)
    return process.returncode, text


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    if not hasattr(os, "waitid"):
        return process.poll() is not None
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _problems(status: int, output: str, names: Mapping[str, str]) -> list[Diagnostic]:
    """Places or names in the output; else its lines for status 1; a higher status is NotRun."""
    lines = [_CONTROL.sub("", line).rstrip()[:2_000] for line in output.split("\n")]
    findings: list[Diagnostic] = []
    for index, line in enumerate(lines):
        at = _POSITION.fullmatch(line)
        path = names.get(at["path"]) if at else None
        if at is not None and path is not None:
            text = at["text"] or (lines[index - 1] if index else "")
            line_number = int((at["line"] or at["at"])[:9])
            findings.append(Diagnostic(path, line_number, text.strip()[:_LONGEST]))
        elif line.strip() in names:
            findings.append(Diagnostic(names[line.strip()], 0, "is listed"))
    if findings or not status:
        return findings[:_MOST_PROBLEMS]
    texts = [line.strip()[:_LONGEST] for line in lines if line.strip()][:_MOST_LINES]
    if status > 1:
        raise NotRun("failed", texts[0] if texts else f"exit status {status}")
    first = next(iter(names.values()))
    return [Diagnostic(first, 0, line) for line in texts or [f"exit status {status}"]]


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


_NEVER = "(?!)"  # matches nothing


def _language(
    names: str,
    *,
    flags: str = _NEVER,
    valued: str = _NEVER,
    texts: str = _NEVER,
    reads: str = _NEVER,
    rest: str = r"--?|(?!-)[^\0]*",
    modules: str = _NEVER,
) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """An interpreter's names, and the words behind it that tell what it runs, a NUL before each.

    Options that change nothing (`flags`), some with a value (`valued`); then one that only `reads`
    what it is given, or one for a text (`texts`) or a module (`modules`), or the path of a script.
    `rest` are the words that may follow a text.
    """
    return re.compile(rf"(?:{names})(?:-?\d[\w.-]*)?(?:\.exe)?"), re.compile(
        rf"(?>(?:\0(?:{flags})(?=\0)|\0(?:{valued})\0(?!-)[^\0]+(?=\0))*)(?:"
        rf"\0(?:{reads})(?:\0(?:-|(?![-+])[^\0]*)(?=\0))*\0\Z"
        rf"|\0(?:{texts})(?P<text>(?![-+])[^\0]+)(?P<rest>(?:\0(?:{rest})(?=\0))*)\0\Z"
        rf"|\0(?:{modules})\0(?P<module>\w[\w.]*)(?=\0)"
        r"|\0(?P<script>(?![-+])(?:\{root\})?[^\0$`*?{}<>|]+)(?=\0))"
    )


_LANGUAGES = (
    _language(
        "(?:r?ba|da|a|[mp]?d?k|z|fi|t?c|ye|nu|osx|x)?sh",
        flags="[-+][abefhkmptuvxBCEHP]+|--(?:norc|noprofile|posix)",
        valued="[-+][a-z]*[oO]",
        texts=r"-[abefhklmptuvxBCEHP]*c\0",
        reads="-[eux]*n[eux]*",
        rest=r"[^\0]*",
    ),
    _language(
        "python|pypy",
        flags=r"-[bBdEIOPqsSuvx]+|-[bBdEIOPqsSuvx]*[WX][^\0]+",
        valued="-[bBdEIOPqsSuvx]*[WX]|--check-hash-based-pycs",
        texts=r"-[bBdEIOPqsSuvx]*c\0",
        rest=r"[^\0]*",
        modules="-[bBdEIOPqsSuvx]*m",
    ),
    _language(
        "perl",
        flags=r"-[wWtTXlanps0-9]+|-[MmIF][^\0]+",
        valued="-I",
        texts=r"-[wWtTXlanps0-9]*[eE]\0",
    ),
    _language(
        "j?ruby",
        flags=r"-[wWlanpU]+|-[rIEF][^\0]+",
        valued="-[rI]",
        texts=r"-[wWlanpU]*e\0",
        reads="-w?c",
    ),
    _language(
        "node|nodejs",
        flags=r"--(?:no-|trace-|max-|enable-|disable-|preserve-|experimental-|unhandled-)[^\0]+",
        valued="-r|--require|--import",
        texts=r"(?:-p?e|-p|--eval|--print)\0",
        reads="-c|--check",
    ),
    _language("deno", flags=r"run|--(?:allow|deny|no|cached|config|lock)[^\0]*|-A"),
    _language("php", flags=r"-[nq]+|-d[^\0]+", valued="-[dc]", texts=r"-[rBRE]\0", reads="-l"),
    _language("lua|luajit|texlua", flags="-[EvW]", valued="-l", texts=r"-e\0"),
    _language("[gmn]?awk", flags=r"-[FvS][^\0]+|-f|--posix", valued="-[Fv]", texts=""),
    _language(
        "tclsh|wish|expect|Rscript|julia|pwsh|powershell|osascript|groovy",
        flags="-File",
        texts=r"-e\0",
    ),
)
"""The interpreters: whatever else they are given, they may run a text that an agent wrote."""

_WRAPPERS = re.compile(
    "env|nice|ionice|nohup|timeout|time|flock|[sl]trace|xargs|setsid|stdbuf|sudo|doas|setarch|chrt"
    "|taskset|unshare|find|uvx|pipx|busybox|toybox|chronic|unbuffer|prlimit|firejail|bwrap|nsenter"
    "|chroot|setpriv|numactl|exec|command|builtin"
)
"""Programs that start what stands behind them."""

_RUNNERS = re.compile(
    "g?make|b?make|ninja|just|rake|ant|mvnw?|gradlew?|cargo|npm|npx|pnpm|pnpx|yarn|bunx?|tox|nox"
    r"|py\.?test|pre[-_]commit|git|hg|svn|jj|uv|poetry|pipenv|pdm|hatch|bundle|cmake|unittest"
)
"""Programs that run whatever the files of a folder say."""

_RUN_TEXTS = re.compile(
    "eval|ssh|watch|parallel|script|su|runuser|sg|at|batch|ed|ex|vim?|emacs|sqlite3|gnuplot|dc|m4"
    "|psql|mysql|gdb|octave|R|irb|ghci|jshell|trap|alias"
)
"""Programs that make a command of their words or of what they read."""

_RUNS = re.compile(
    r"(?<![\w/-])(?:eval|exec|execfile|compile|system|popen|runpy|loadstring|dofile|(?<!json\.)load"
    r"|vm|Function|qx|code|getline|STDIN)(?![\w/-])|`|\|&?\s*[\"$]|[\"'](?:[^\"'\s]*/)?(?:\w*sh|python[\d.]*|perl|node)[\"'\s]"
)
"""In a program's text: it may run what it reads."""

_RUN_MODULES = re.compile(
    r"(?:code|asyncio|pdb|bdb|c?[pP]rofile|trace|timeit|runpy|doctest|idlelib|IPython|_?pyrepl"
    r"|coverage)(?:\.|\Z)"
)
_GIVEN = r"\{(?:path|files)\}"
_BETWEEN = re.compile(r"[\s=:,;@'\"`()<>|&!]+")
_PATTERN = re.compile(r"[^/]*[*?\[{].*")
_NODE = re.compile(r"/(?:node|nodejs|deno|bun)\Z|\.[cm]?[jt]sx?\Z")


def check_words(command: Sequence[str], root: str = "") -> None:
    """Raise NotRun if the command would run what its words do not tell, such as a file's name.

    A name that is a word of its own, behind a program's script or text, is only a name.
    """
    text_option = "-[a-zA-Z]*[ceE]|--(?:command|eval|exec|execute|expression|print)"
    for before, word in zip(("", *command), command, strict=False):
        is_unplaced = re.search(r"\{(?:path|root)\}", word) and re.search(
            r"[^\w.,:=@%+/~{}-]", word
        )
        if is_unplaced or (re.fullmatch(text_option, before) and re.search(_GIVEN, word)):
            raise NotRun("text", f"{before} {word}".strip())
    if _NO_PLUGINS.isdisjoint(map(os.path.basename, command[:1])):
        _check_program([word.replace("{root}", root) if root else word for word in command])


def _check_program(words: Sequence[str], text: str = "") -> None:
    """The same of a program and its words; of a command in a shell's text, if that is given."""
    command, names = " ".join(words), [os.path.basename(word) for word in words]
    heads = names if _WRAPPERS.fullmatch(names[0]) else names[:1]
    is_moved = re.search(r"\0(?:-C(?!\0?\d)|--(?:chdir|directory)\b)", "\0" + "\0".join(words))
    if is_moved or any(map(_RUNNERS.fullmatch, heads)):
        raise NotRun("runner", command)
    splits = "env .*-[a-zA-Z]*S|env .*--split|flock .* (?:-[a-z]*c|--command)"
    if any(map(_RUN_TEXTS.fullmatch, heads)) or re.search(splits, " ".join(heads)):
        raise NotRun("text", command)
    for index, word in enumerate(words):
        program = os.path.basename(os.path.realpath(shutil.which(word) or "/"))
        is_sourced = bool(text) and not index and word in (".", "source")
        for named, behind in _LANGUAGES:
            if is_sourced or named.fullmatch(names[index]) or named.fullmatch(program):
                _check_told(behind, names[index], words[index + 1 :], text)
                return


def _check_told(behind: re.Pattern[str], name: str, words: Sequence[str], text: str) -> None:
    """Raise NotRun unless the words behind an interpreter tell what it runs."""
    at = behind.match("".join(f"\0{word}" for word in words) + "\0")
    groups = {key: value or "" for key, value in at.groupdict().items()} if at else {"": ""}
    own, script, module = (groups.get(key, "") for key in ("text", "script", "module"))
    real = (own, script, os.path.abspath(script or "/"), os.path.realpath(script or "/"))
    # its path does not lead to the scratch folder
    is_placed = script.startswith(("/", "~")) or re.search(r"\b(?:cd|pushd)\s+[/~]", text)
    is_shell = behind is _LANGUAGES[0][1]
    if _RUNNERS.fullmatch(module.partition(".")[0]):
        raise NotRun("runner", f"{name} {' '.join(words)}")
    if (
        not at  # it runs what it reads, or an option is not known here
        or _RUN_MODULES.match(module)
        # the name of a file is what is run, or a part of it
        or ((own or script) and re.search(_GIVEN, at[0][: at.start("rest") if own else None]))
        or any(re.match("/+(?:dev|proc)/", path) for path in real)  # it runs what it reads
        # in a shell's text: a text, whose quotes are gone here, or a script beside the checked file
        or (text and (own or (script and not is_placed)))
        or (own and not is_shell and _RUNS.search(own))
        # `<>` runs the name of a file that ends in `|`
        or (name.startswith("perl") and "{" in groups["rest"])
    ):
        raise NotRun("text", f"{name} {' '.join(words)}".strip())
    if own and is_shell:
        _check_text(own)


def _check_text(text: str) -> None:
    """The same of each command in a shell's text, without its quotes: what one hides may count."""
    plain = re.sub(r"\$\{(\w+)\}", r"$\1", re.sub(r"[\"'\\]", "", text))
    plain = re.sub(
        rf"\$({'|'.join(_PASSED_ON)})\b", lambda at: os.environ.get(at[1]) or at[0], plain
    )
    substituted = r"(?:\A|[;|&(\n]|\b(?:then|do|else|exec|command)\s)\s*(?:\$\(|`\S)"
    for command in re.split(r"\$\(|[;|&()`\n]+", re.sub("[<>]+", r" \g<0> ", plain)):
        keywords = (
            r"\s*(?:(?:if|then|elif|else|while|until|do|time|!|\{|exec|command|builtin|\w+=\S*)"
            r"(?:\s+|$))*"
        )
        words = re.sub(f"^{keywords}", "", command).split()
        is_made = words and re.match(r"[^/~]+/", words[0]) and not re.search(r"\bcd\s+[/~]", plain)
        if (words and "$" in words[0]) or is_made or re.search(substituted, plain):
            raise NotRun("text", command.strip())
        if words:
            _check_program(words, plain)


class Trust:
    """Commands of workspaces that the person allowed; in a file that nobody else can write.

    What is allowed are these very commands, while what they reach below the root, where agents may
    write, is what it was.
    """

    def __init__(self, root: str, rules: Iterable[Rule]) -> None:
        self._root = os.path.realpath(root)
        self._below = os.path.join(self._root, "")
        self._rules = tuple(rule for rule in rules if rule.command)
        self._known: dict[str, tuple[tuple[int, ...], str]] = {}
        home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
        self.path = os.path.join(os.path.abspath(home), "copydesk", "trusted.json")

    @property
    def inside(self) -> str:
        """What must not lie in the workspace, where agents may write: if it does, nothing runs.

        That is the file of permissions, the home folder with its settings, and that of the copies.
        """
        places = {
            "the file of permissions": self.path,
            "the home folder": os.path.expanduser("~"),
            "the folder for temporary files": tempfile.gettempdir(),
        }
        inside = (f"{name} ({path})" for name, path in places.items() if _is_in(self._root, path))
        return next(inside, "")

    def is_given(self, rule: Rule | None = None) -> bool:
        """Whether exactly these commands, and what they reach below the root, are allowed.

        Raises NotRun for a rule that is refused, as `reached` does.
        """
        if rule is not None:
            self.reached(rule)
        with suppress(NotRun):
            return not self.inside and self._kept().get(self._root) == self._digest()
        return False

    def give(self) -> None:
        """Allow the commands but those refused; raises OSError, and NotRun if that is all."""
        self._keep({**self._kept(), self._root: self._digest()})

    def take_back(self) -> None:
        """Revoke all permissions of this workspace; raises OSError."""
        allowed = self._kept()
        if allowed.pop(self._root, ""):
            self._keep(allowed)

    def reached(self, rule: Rule) -> dict[str, str]:
        """What a command reaches below the root: the digest of each path, empty for no file.

        That are the folders of the paths that it names, with all that is in them, and what a
        program there is installed with; and a file outside that a second name below the root may be
        of. Raises NotRun for a command whose ways cannot be followed.
        """
        check_words(rule.command, self._root)
        is_module = re.search(r"(?:\A|/)(?:python|pypy)[^/]*\0-m\0", "\0".join(rule.command[:3]))
        tool = rule.command[2:3] if is_module else rule.command[:1]
        has_plugins = _NO_PLUGINS.isdisjoint(map(os.path.basename, tool))
        seen, digests, folders = set[str](), dict[str, str](), set[str]()
        todo = [*self._paths(*rule.command), *filter(None, (program_of(rule, self._root),))]
        while todo:
            path = todo.pop()
            for spelling in {os.path.abspath(path), os.path.realpath(path)} - seen:
                seen.add(spelling)
                todo += self._next(spelling)
                if spelling.startswith(self._below):
                    digests[spelling] = self._content(spelling)
                    if has_plugins and spelling not in folders and not os.path.isdir(spelling):
                        folders.add(os.path.dirname(spelling))
                        todo.append(os.path.dirname(spelling))
                    if self._root in folders:
                        raise NotRun("beside", spelling, passes=True)
                elif has_plugins and self._below.startswith(os.path.join(spelling, "")):
                    raise NotRun("whole", path, passes=True)
                elif self._is_linked(spelling):
                    digests[spelling] = self._content(spelling)
            if not todo and has_plugins and any(map(_NODE.search, seen)):
                for spelling in self._modules(*digests) - seen:
                    digests[spelling] = self._content(spelling)
                    todo += [spelling] * os.path.isdir(spelling)
        return {
            spelling: digest
            for spelling, digest in digests.items()
            if has_plugins
            or not spelling.endswith(_SETTINGS)
            or os.path.dirname(spelling) in digests
        }

    def covered(self, rule: Rule) -> list[str]:
        """The files and whole folders in `reached`, from the root; raises NotRun as that does."""
        digests = self.reached(rule)
        tops = (path for path in digests if os.path.dirname(path) not in digests)
        return sorted(
            os.path.relpath(path, self._root) + os.sep * os.path.isdir(path)
            if path.startswith(self._below)
            else path
            for path in tops
        )

    def _paths(self, *words: str) -> set[str]:
        """All paths that the words may name, alone or among others, and programs of the PATH.

        A relative one may be from the folder of the run, or from any folder that is named.
        """
        search = _environment(self._root)["PATH"]
        ways = set[str]()
        for word in words:
            text = os.path.expandvars(_filled(word, {"path": "", "root": self._root}))
            text = re.sub(r"\b(?!file:)[a-z]+://[^\s\0]*", "", text.replace(self._root, "\0"))
            parts = [text, *re.split("['\"]", text), *_BETWEEN.split(text)]
            with suppress(ValueError):
                parts += [
                    one for split in shlex.split(text) for one in (split, *_BETWEEN.split(split))
                ]
            for part in parts:
                piece = _PATTERN.sub("", part)
                for at in {0, *map(piece.find, ("/", "~", "..", "\0"))} - {-1}:
                    if at == 0 or piece[at:].strip("/"):
                        way = os.path.expanduser(piece[at:].replace("\0", self._root))
                        ways |= {way} if os.path.lexists(way) or not _BETWEEN.search(way) else set()
        scratch = os.path.join(tempfile.gettempdir(), "copydesk-check-")
        folders = {way for way in ways if os.path.isabs(way) and os.path.isdir(way)}
        near = {os.path.join(one, way) for one in folders for way in ways if not os.path.isabs(way)}
        return {
            *(shutil.which(way, path=search) or os.path.join(scratch, way) for way in ways),
            *(one for one in near if ".." in one or os.path.lexists(one)),
        }

    def _is_linked(self, path: str) -> bool:
        """Whether a file outside may have a name below the root too, by which it can be changed."""
        with suppress(OSError):
            status, root = os.stat(path), os.stat(self._root)
            is_file = os.path.isfile(path) and status.st_nlink > 1 and status.st_dev == root.st_dev
            return is_file and os.access(path, os.W_OK)
        return False

    def _modules(self, *paths: str) -> set[str]:
        """Where Node looks for modules of these files: in each folder up to the root."""
        return {
            os.path.join(self._root, *parts[:depth], name)
            for path in paths
            if path.startswith(self._below)
            for parts in [os.path.relpath(path, self._root).split(os.sep)]
            for depth in range(len(parts))
            for name in ("node_modules", "package.json")
        }

    def _next(self, path: str) -> Iterator[str]:
        """What belongs to a path: a link's target, a folder's folders and links, a program's needs.

        A script needs its interpreter; both have their modules in their folder, or beside `bin`,
        and where a file for the installation of modules leads.
        """
        is_below = path.startswith(self._below)
        with suppress(OSError):
            if os.path.islink(path):
                yield os.path.join(os.path.dirname(path), os.readlink(path))
            elif os.path.isdir(path):
                for one in os.scandir(path):
                    leads_in = one.is_symlink() and (is_below or _is_in(self._root, one.path))
                    if leads_in or (is_below and one.is_dir()):
                        yield one.path
                    elif is_below and re.search(r"\.(?:pth|egg-link)\Z|\A__editable__", one.name):
                        yield from self._leads(one.path)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                with open(path, "rb") as file:
                    script = re.match("#!(.*)", os.fsdecode(file.readline(_LONGEST)))
                yield from self._paths(*script[1].split()) if script else ()
                if script or any(one[0].fullmatch(os.path.basename(path)) for one in _LANGUAGES):
                    folder, name = os.path.split(os.path.dirname(path))
                    folders = folder if name in ("bin", ".bin") else "", os.path.join(folder, name)
                    yield from (
                        one
                        for one in folders
                        if one.startswith(self._below) or (one == self._root and not script)
                    )

    def _leads(self, path: str) -> list[str]:
        """The folders below the root that such a file names."""
        with open(path, "rb") as file:
            words = re.split("['\"\\s]+", os.fsdecode(file.read(MOST_BYTES)))
        named = (os.path.join(os.path.dirname(path), word) for word in words if word)
        return [folder for folder in named if _is_in(self._root, folder) and os.path.isdir(folder)]

    def _digest(self) -> str:
        """The digest of what is allowed: the commands, and all that they reach below the root."""
        commands = sorted((one.name, one.glob, *one.command) for one in self._rules)
        files, refused = dict[str, str](), list[NotRun]()
        for rule in self._rules:
            try:
                files |= self.reached(rule)
            except NotRun as none:
                refused.append(none)
        if refused and len(refused) == len(self._rules):
            raise refused[0]
        record = json.dumps([self._root, commands, *([files] if files else [])], sort_keys=True)
        return hashlib.sha256(record.encode("utf-8", "surrogateescape")).hexdigest()

    def _content(self, path: str) -> str:
        """The digest of a file, cached while it is unchanged, or a folder's list; else empty."""
        try:
            if not os.path.isfile(path):  # a whole environment may be below, so nothing is read
                stats = {
                    entry.name: entry.stat(follow_symlinks=False) for entry in os.scandir(path)
                }
                return str(
                    sorted((k, v.st_ino, v.st_size, v.st_mtime_ns) for k, v in stats.items())
                )
            with open(path, "rb") as file:
                status = os.fstat(file.fileno())
                stamp = status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
                if self._known.get(path, ((), ""))[0] != stamp:
                    self._known[path] = stamp, hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            return ""
        return self._known[path][1]

    def _kept(self) -> dict[str, str]:
        try:
            with open(self.path, "rb") as file:
                status = os.fstat(file.fileno())
                if status.st_uid != os.geteuid() or status.st_mode & 0o022:
                    return {}
                allowed = json.loads(file.read())
        except (OSError, ValueError, RecursionError):
            return {}
        return cast("dict[str, str]", allowed) if isinstance(allowed, dict) else {}

    def _keep(self, allowed: Mapping[str, str]) -> None:
        folder = os.path.dirname(self.path)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with tempfile.TemporaryDirectory(
            dir=folder
        ) as beside:  # whatever interrupts, it is removed
            handle, path = tempfile.mkstemp(dir=beside)
            with open(handle, "w", encoding="utf-8") as file:
                json.dump(allowed, file, indent=1)
            os.replace(path, self.path)
