"""The composition root: opens a workspace and connects its files, backend, desk and tools.

Its records and texts are kept in process, in a state folder (SQLite) or on a Redis server, whose
client is imported if it is chosen.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, cast

from copydesk.app import reference
from copydesk.app.config import FILES, TOOLSETS, Config, LiveConfig, load
from copydesk.desk.backends.api import Loss, Records
from copydesk.desk.backends.snapshots import SMALL_BASE, BackgroundSnapshots, Snapshots
from copydesk.desk.backends.sqlite import (
    BUSY_SECONDS,
    Database,
    SqliteRecords,
    SqliteSnapshots,
)
from copydesk.desk.desk import Batching, FileDesk
from copydesk.desk.drafts import Services, hunk_id
from copydesk.desk.gates import Approving, Checks
from copydesk.desk.history import Past
from copydesk.desk.member import SELF, Member, Permission
from copydesk.desk.outcome import ForeignWrites
from copydesk.desk.transaction import Locks, Recovery, Settled, Writer
from copydesk.edit.draft import Plan
from copydesk.errors import (
    AccessDenied,
    ConfigInvalid,
    Failed,
    Refusal,
    SchemaMismatch,
    StateFailed,
    cancelled_by,
)
from copydesk.notes.tools import LazyNotes
from copydesk.search.listings import FileSearch
from copydesk.store.access import Rules, guards
from copydesk.store.checks import Commands, Trust
from copydesk.store.dotfiles import EditorConfig
from copydesk.store.files import Files
from copydesk.store.protocol import Closing, TargetMoved, now_ms
from copydesk.store.state import LOCKS, Mark, StateFolder
from copydesk.store.threads import FileLocks, LockQueues, Soon, held_at_fork
from copydesk.text.diff import diff_text
from copydesk.text.relpath import RelPath, SupportsPath
from copydesk.tools import refusals, reports
from copydesk.tools.catalog import Catalog, Context, Tool
from copydesk.tools.messages import say
from copydesk.tools.report import Answer, Lang, LongTexts, Value

if TYPE_CHECKING:
    from copydesk.desk.backends.redis import Server
    from copydesk.notes.desk import OpenNotes

_PROJECT = "pyproject.toml"
_log = logging.getLogger("copydesk")

_JOURNAL_BYTES = 64 << 20
"""The most memory, in bytes, of a journal that ends with the process."""

_TEXTS_SECONDS = 0.1
"""How long to wait for the database of texts, which are optional."""


def configured_notes(
    config: Config, files: Files, ids_folder: Callable[[], str], permission: Permission
) -> OpenNotes:
    """The configured notes as a member with this permission sees them. Sends nothing yet.

    `ids_folder` returns the folder of ids and fingerprints of notes in files.
    """
    from copydesk.notes.desk import OpenNotes
    from copydesk.notes.grammar import is_address, split_as
    from copydesk.notes.protocol import is_id, several

    settings = config.notes
    if settings.siyuan_url:
        from copydesk.notes.kernel.store import KernelStore

        return OpenNotes(
            KernelStore.at(settings.siyuan_url, settings.siyuan_token),
            split_as("siyuan"),
            mixes_tasks=False,
            valid=is_id,
            path_of=kernel_path,
            in_files=False,
        )
    from copydesk.notes.folder.store import FolderStore

    folders = [RelPath.parse(folder) for folder in settings.notebooks]
    stores = [
        FolderStore(
            files,
            folder,
            cast("Rules", permission),
            ids_folder(),
            name=files.root.rstrip("/").rpartition("/")[2] if str(folder) == "." else "",
            profile=settings.profile,
            exclude=settings.exclude,
            gitignore=settings.gitignore,
            later=Soon(),
        )
        for folder in folders
    ]
    roots = {store.notebooks()[0].id: folder for store, folder in zip(stores, folders, strict=True)}
    return OpenNotes(
        several(stores),
        split_as(settings.profile),
        mixes_tasks=settings.profile == "gfm",
        valid=lambda text: is_id(text) or is_address(text),
        path_of=lambda box, path: RelPath.parse(path) if path else roots[box],
        in_files=True,
    )


def kernel_path(box: str, path: str) -> RelPath:
    """The path of a document in a kernel, or of a notebook, as access lists name it."""
    return RelPath(("siyuan:", box, *(part for part in path.split("/") if part)))


def user_of(member: str) -> str:
    """The recorded name of the member's person."""
    return f"user of {member}"


class OpenWorkspace(Closing):
    """An open workspace. Safe to use from many threads; close it, or use it in a `with`."""

    def __init__(
        self,
        root: str,
        config: Config | None = None,
        *,
        shared: bool = True,
        recover: bool = True,
        clock: Callable[[], int] = now_ms,
        open_notes: Callable[[Permission], OpenNotes] | None = None,
    ) -> None:
        """Open the workspace at `root`, with its own configuration unless one is given.

        `shared`: plans, snapshots and the journal are in the state folder or on the configured
        server, for all processes; otherwise in this process. `recover`: first recover unfinished
        writes of crashed processes. `clock` returns milliseconds since 1970. `open_notes`
        opens other notes than the configured ones. Raises ConfigError, and Refusal for a root that
        cannot be opened.
        """
        config = load(root) if config is None else config
        self._live, self.clock = LiveConfig(root, config), clock

        # `Files` calls these while it writes; `foreign` and `backend` are made below, with it.
        def keep(real: RelPath, theirs: bytes, ours: bytes | None, is_tail: bool) -> None:
            foreign.keep(real, theirs, ours, is_tail)

        def note_open(real: RelPath) -> None:
            foreign.note_open(real)

        self.files = Files(
            root,
            durability=config.durability,
            limit_bytes=config.limit_bytes,
            whole_bytes=config.whole_bytes,
            may_write=lambda: backend.may_write(),
            may_return=lambda: backend.may_return(),
            keep=keep,
            note_open=note_open,
        )
        self.root = self.files.root
        self._roots = _in_full(self.root, root)
        backend = shared_backend(self.root, config) if shared else in_process(config)
        self.long_texts = LongTexts()
        self.catalog = Catalog(reference.all_tools())
        self.in_shell = False
        """Whether next steps in answers name shell commands."""
        self.page: str | None = None
        """The base address of the review page if this process serves it."""
        self._listeners: list[Callable[[], None]] = []
        self._backend = backend
        # one object, by the name of each of its parts that is used
        records = self.registry = self.tally = self.journal = backend.records
        self.plans_stamp = records.changes
        """Returns a value that differs once another process has changed plans or decided."""
        self.records_stamp = backend.stamp
        """Returns a value that differs once any process has recorded something."""
        self._members: tuple[Config, dict[tuple[str, str], Member]] = (config, {})
        self._lock = held_at_fork(threading.Lock())
        self.queues, bases = backend.queues, backend.bases
        self._forgets = bases.forgets()
        styles = EditorConfig(self.files)

        def encoding_of(path: RelPath) -> str | None:
            return config.encoding_of(path) or styles.charset(path)

        self._lasting: Backend | None = None
        lasting = None if shared else partial(self._lasting_records, config)
        foreign = ForeignWrites(self.files, self.journal, bases, clock, encoding_of, lasting)
        records.notify = self._notify
        self.recovery = Recovery(self.files, self.queues, self.journal, foreign.note_doubt)
        self.recovered = self._begin(recover=recover) if shared else ()
        locks = Locks(self.files, self.queues, self.journal, self.recovery)
        trust = Trust(self.root, config.checks)
        commands = Commands(
            self.root, lambda rule: config.source not in FILES or trust.is_given(rule)
        )
        services = Services(
            files=self.files,
            recovery=self.recovery,
            records=records,
            bases=bases,
            locks=locks,
            foreign=foreign,
            members=self.member,
            approving=Approving(records, clock),
            checks=Checks(config.checks, commands),
            clock=clock,
            ids=hunk_id,
            encoding_of=encoding_of,
            ttl_ms=config.ttl_seconds * 1000,
            approval_ttl_ms=config.approval_ttl_seconds * 1000,
        )
        writer = Writer(self.files, locks, self.journal, self.recovery, clock, self._notify)
        self._notes = LazyNotes(
            services,
            writer,
            open_notes or partial(configured_notes, config, self.files, backend.ids_folder),
        )
        self.desk = FileDesk(services, writer, self._notes)
        self.batches = Batching(services, self.desk.applying)
        self.looking = FileSearch(self.files, encoding_of, bases)

    def _begin(self, *, recover: bool) -> tuple[Settled, ...]:
        """Recover unfinished writes of crashed processes, and prune the journal.

        Unusable state is logged; the calls that need it will refuse. Raises SchemaMismatch, since a
        build with another schema may also lock files in another way.
        """
        try:
            for database in self._backend.databases.values():
                database.check_schema()
        except SchemaMismatch:
            self._backend.close()
            self.files.close()
            raise
        settled: tuple[Settled, ...] = ()
        try:
            if recover:
                settled, config = self.recovery.run(), self.settings
                self.journal.prune(self.clock(), config.journal_days, config.journal_bytes)
        except StateFailed as refusal:
            _log.warning("%s", refusals.refusal_words(refusal, "en"))
        return settled

    @property
    def config(self) -> Config:
        """The configuration with the members that its file has now; raises ConfigInvalid."""
        return self._live.now()

    @property
    def settings(self) -> Config:
        """The last valid configuration, for settings that are not rights."""
        return self._live.last

    def close(self) -> None:
        """Close notes, files and backend; log saved writes of other programs not yet reported."""
        with ExitStack() as closing:
            closing.callback(self._log_untold)
            closing.callback(self._close_lasting)
            for each in (self._backend, self.files, self._notes, self.desk.overwrites):
                closing.callback(each.close)

    def _lasting_records(self, config: Config) -> Records:
        """A journal in the state folder, for records that must outlive this process."""
        with self._lock:
            if self._lasting is None:
                self._lasting = shared_backend(self.root, config)
            return self._lasting.records

    def _close_lasting(self) -> None:
        if self._lasting is not None:  # closing the others may have opened it
            self._lasting.close()

    def _log_untold(self) -> None:
        for saved in self.desk.foreign.take_untold():
            if saved.edit_id:  # 0: another program had the file open, and has not written to it
                undo = f"copydesk undo {saved.lasting_id}"
                lasting = replace(saved, edit_id=saved.lasting_id)
                words = reports.saved_words(lasting, undo, self.settings.lang)
                _log.warning("%s", words)

    def call(
        self,
        member: str,
        name: str,
        arguments: object,
        *,
        lang: Lang = "en",
        progress: Callable[[int], None] = lambda seen: None,
        cancelled: Callable[[], bool] = lambda: False,
        toolsets: Sequence[str] = (),
        task: str = "",
    ) -> Answer:
        """Call a tool; raises KeyError for an unknown tool, and nothing else.

        `task` is the label of the member's task, "" for the configured one. `toolsets` are those of
        the caller, whose tools next steps name.
        """
        tool = self.catalog.named(name)
        try:
            config = self._live.now()
        except ConfigInvalid as invalid:
            return tool.refused(arguments, None, invalid, lang)
        settings = config.of_member(member)
        if tool.toolset == "team_mgmt" and not settings.team_mgmt:
            denied = AccessDenied("call", "team_mgmt is not granted")
            return reports.refused(name, None, denied, lang)
        toolset = "team_mgmt" if tool.toolset == "team_mgmt" else "ws_mod"
        caller = self._member(config, member, toolset)
        if task:
            caller = replace(caller, task=task)
        context = Context(
            desk=self.desk,
            batches=self.batches,
            looking=self.looking,
            member=caller,
            manual=reference.part,
            lang=lang,
            progress=progress,
            cancelled=cancelled,
            long_texts=self.long_texts,
            roots=self._roots,
            in_shell=self.in_shell,
            apply=settings.apply or config.apply,
            budget=config.answer_tokens,
            structured=config.structured and not self.in_shell,
            toolsets=tuple(toolsets),
        )
        if (forgets := self._backend.bases.forgets()) != self._forgets:
            self._forgets = forgets
            self.long_texts.clear()
            self.desk.drop_texts()
        self.desk.overwrites.look_again()
        with cancelled_by(cancelled):
            answer = self.catalog.call(context, name, arguments)
        self.desk.overwrites.look_soon()
        return answer if cancelled() else self._with_losses(answer, lang)

    def _with_losses(self, answer: Answer, lang: Lang) -> Answer:
        """The answer with a notice of lost state; each loss is reported once."""
        losses = self._backend.losses.take()
        if not losses:
            return answer
        # several stores may report one
        words = [words_of_loss(*loss, lang) for loss in dict.fromkeys(losses)]
        return reports.with_notices(answer, "state_lost", [*words], words)

    def tools(self, member: str, toolsets: Sequence[str] = TOOLSETS) -> tuple[Tool, ...]:
        """The tools of these toolsets that the member may use."""
        return self.catalog.of(self._granted(member, toolsets))

    def offers(self, member: str, tool: Tool, toolsets: Sequence[str]) -> bool:
        """Whether the tool is among those of these toolsets that the member may use."""
        return tool.is_of(self._granted(member, toolsets))

    def _granted(self, member: str, toolsets: Sequence[str]) -> Sequence[str]:
        if "team_mgmt" not in toolsets or self.settings.of_member(member).team_mgmt:
            return toolsets
        return [toolset for toolset in toolsets if toolset != "team_mgmt"]

    def member(self, name: str, toolset: str = "ws_mod") -> Member:
        """A member with its current rights, as the tools of one toolset see it."""
        return self._member(self._live.now(), name, toolset)

    @property
    def caller(self) -> Member:
        """The configured member, with its current rights."""
        return self.member(self.config.member)

    def _member(self, config: Config, name: str, toolset: str) -> Member:
        cache = self._members
        if cache[0] is not config:
            cache = self._members = (config, {})
        known, key = cache[1], (name, toolset)
        if key not in known:
            settings = config.of_member(name)
            lists: dict[str, Any] = dict(settings.lists)  # its keys are the fields of Rules
            rules = Rules(**lists, state_dir=config.state)
            policy = settings.policy
            if not policy.asks_nobody and config.source == _PROJECT:  # the file with the policy
                policy = policy.guarding(partial(guards, _PROJECT))
            known[key] = Member(
                name,
                rules.team_mgmt() if toolset == "team_mgmt" else rules,
                toolset,
                settings.auto_lines,
                policy,
                partial(self.member, name, toolset),
                task=config.task,
                usual_signs=config.usual_signs,
                corrects=config.corrections == "auto",
            )
        return known[key]

    def person(self, name: str) -> Member:
        """The member's person: the same rights, without approval."""
        refresh = partial(self.person, name)
        return replace(self.member(name), name=user_of(name), policy=SELF, refresh=refresh)

    def names(self) -> set[str]:
        """The names under which only their owners may decide: members and their users."""
        members = {*self.settings.members, self.settings.member}
        return members | set(map(user_of, members))

    def pending(self, member: str) -> tuple[Plan, ...]:
        """The pending plans on files that the member may read."""
        return self.desk.waiting(self.member(member))

    def pending_report(self, member: str, hunk_id: str, lang: Lang = "en") -> Answer:
        """The report of a plan and the decision on it; raises Refusal."""
        shown = self.desk.show(self.member(member), hunk_id)
        report = reports.planned(shown.plan.tool, shown, lang)
        report.fields.pop("diff_truncated", None)  # a person gets all of it
        diff = diff_text(shown.draft.diff, shown.draft.base.encoding)
        report = replace(report, diff=diff, budget=0)
        if shown.checks is not None:
            rows: list[Value] = [refusals.check_row(finding, lang) for finding in shown.checks]
            words = tuple(refusals.check_words(finding, lang) for finding in shown.checks)
            report = reports.with_notices(report, "checks", rows, words)
        if shown.plan.why:
            report = replace(report, source={**report.fields, "why": shown.plan.why})
        return reports.with_decision(report, self.desk.review.decision(shown.plan))

    def history(
        self,
        member: str,
        path: str | SupportsPath | None = None,
        most: int = 50,
        before: int | None = None,
    ) -> tuple[Past, ...]:
        """Recent edits of files that the member may read, newest first.

        `path` is a file or a directory; `before` limits the result to lower ids.
        """
        wanted = None if path is None else RelPath.parse(path)
        return self.desk.history.page(self.member(member), wanted, most=most, before=before).edits

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener`, from any thread, when plans change; return a function to stop this."""
        with self._lock:
            self._listeners.append(listener)

        def stop() -> None:
            with self._lock, suppress(ValueError):  # it is gone
                self._listeners.remove(listener)

        return stop

    def _notify(self) -> None:
        with self._lock:
            listeners = tuple(self._listeners)
        for listener in listeners:
            listener()


def _in_full(*roots: str) -> tuple[RelPath, ...]:
    """The absolute paths of the root: the real one and the given one."""
    paths: dict[RelPath, None] = {}
    for root in roots:
        with suppress(Refusal):  # not UTF-8: nobody can write such a path in JSON
            paths[RelPath.parse(os.path.abspath(root).lstrip("/") or ".")] = None
    return tuple(paths)


def default_root() -> str:
    """The default workspace: COPYDESK_ROOT, else the current folder."""
    return os.environ.get("COPYDESK_ROOT") or os.getcwd()


open_workspace = OpenWorkspace
"""The class by the name of what it does: `with open_workspace(root) as opened`."""


class Losses:
    """State lost while in use, kept until an answer has reported it. Thread-safe."""

    def __init__(self) -> None:
        self._noted: deque[tuple[str, Loss]] = deque(maxlen=100)

    def note(self, path: str, loss: Loss) -> None:
        """Log a loss, and keep it for the next answer."""
        self._noted.append((path, loss))
        _log.warning("%s", words_of_loss(path, loss, "en"))

    def take(self) -> list[tuple[str, Loss]]:
        """The losses since the last call: files, and the reasons."""
        taken: list[tuple[str, Loss]] = []
        with suppress(IndexError):  # until there are no more, whoever else takes some
            while True:
                taken.append(self._noted.popleft())
        return taken


def words_of_loss(path: str, loss: Loss, lang: Lang) -> str:
    """A sentence about a state file's problem and what is lost."""
    facts = {"file": path, "holds": words_of_content(path, lang)}
    return say(f"state.{'server.' * (path == 'server')}{loss}", lang, facts)


def words_of_content(path: str, lang: Lang) -> str:
    """A sentence about what is lost with a state file."""
    return say(f"state.holds.{os.path.basename(path).partition('.')[0]}", lang)


@dataclass(frozen=True, slots=True)
class Backend:
    """The records and texts of a workspace, and its file locks.

    `state` is the state folder, if any; `databases` are the files in it by their contents, and
    `losses` is what they lost while in use. `stamp` returns a value that differs once anything was
    recorded. `may_write` and `may_return` raise TargetMoved or Failed if the calling thread has
    lost its lock. `ids_folder` returns the folder of the ids and fingerprints of notes in files.
    `to_close` are called last, in this order.
    """

    records: Records
    bases: Snapshots
    queues: LockQueues
    ids_folder: Callable[[], str]
    state: StateFolder | None = None
    stamp: Callable[[], object] = lambda: None
    may_write: Callable[[], None] = lambda: None
    may_return: Callable[[], None] = lambda: None
    to_close: Sequence[Callable[[], None]] = ()
    databases: Mapping[str, Database] = field(default_factory=dict[str, Database])
    losses: Losses = field(default_factory=Losses)

    def close(self) -> None:
        with ExitStack() as closing:  # all, whatever one raises; the last one is called first
            for close in (*reversed(self.to_close), self.bases.close, self.records.close):
                closing.callback(close)


def in_process(config: Config) -> Backend:
    """The backend of this process alone; its state ends with the process."""
    state, most = Database(), min(config.journal_bytes, _JOURNAL_BYTES)
    folders = ExitStack()
    return Backend(
        SqliteRecords(state, most_bytes=most),
        BackgroundSnapshots(SqliteSnapshots(Database(), config.bases_bytes)),
        LockQueues(seconds=config.lock_seconds),
        cache(lambda: folders.enter_context(TemporaryDirectory(prefix="copydesk-notes-"))),
        stamp=state.version,
        to_close=[folders.close],
    )


def shared_backend(root: str, config: Config) -> Backend:
    """The backend that all processes share, in the state folder or on Redis; raises Failed."""
    return _on_server(root, config) if config.registry == "redis" else _in_folder(root, config)


def _in_folder(root: str, config: Config) -> Backend:
    """The backend in the state folder, for the processes of one machine."""
    state = StateFolder(root, config.state)
    locks = FileLocks(state.path(LOCKS), lambda: state.folder(LOCKS), config.lock_seconds)
    losses = Losses()

    def database(
        name: str,
        patience: float = BUSY_SECONDS,
        synchronous: Literal["FULL", "OFF"] = "OFF",
        most_bytes: int | None = None,
        older: Sequence[str] = (),
    ) -> Database:
        file = state.file(name, *older)
        return Database(
            file,
            synchronous,
            locks,
            on_loss=lambda loss: losses.note(file.path, loss),
            patience=patience,
            most_bytes=most_bytes,
        )

    flushed: Literal["FULL", "OFF"] = "FULL" if config.durability == "full" else "OFF"
    before_schema_5 = ("journal.sqlite", "plans.sqlite", "snapshots.sqlite")
    in_state = database("state.sqlite", synchronous=flushed, older=before_schema_5)
    in_texts = database("texts.sqlite", _TEXTS_SECONDS, most_bytes=config.bases_bytes)

    def may_write() -> None:
        """Raise TargetMoved if the lock or journal entry of a write was lost with its file."""
        if not (locks.are_held() and in_state.is_current()):
            raise TargetMoved

    return Backend(
        SqliteRecords(in_state, Mark(state.path("decided"), state.make)),
        BackgroundSnapshots(
            SqliteSnapshots(in_texts, config.bases_bytes, count=state.forgets),
            most_at_once=SMALL_BASE,
        ),
        LockQueues(locks, config.lock_seconds),
        partial(state.folder, "notes"),
        state,
        stamp=in_state.version,
        may_write=may_write,
        to_close=[locks.close],
        databases={"state": in_state, "texts": in_texts},
        losses=losses,
    )


def _on_server(root: str, config: Config) -> Backend:
    """The backend on a Redis server, for many machines on one file system."""
    server = server_of(root, config)
    from copydesk.desk.backends.redis import Leases, RedisRecords, RedisSnapshots

    leases, losses = Leases(server, time.monotonic, seconds=config.lock_seconds), Losses()
    records = RedisRecords(server, leases, partial(losses.note, "server"))
    state = StateFolder(root, config.state)
    texts = RedisSnapshots(server, config.bases_bytes, count=state.forgets)
    return Backend(
        records,
        BackgroundSnapshots(texts, most_at_once=SMALL_BASE),
        LockQueues(leases, config.lock_seconds),
        partial(state.folder, "notes"),
        state,
        stamp=records.counts,
        may_write=leases.require,
        may_return=leases.require_for_return,
        losses=losses,
        to_close=[leases.close, server.close],
    )


def server_of(root: str, config: Config) -> Server:
    """The configured server; raises Failed. Sends nothing yet."""
    if importlib.util.find_spec("redis") is None:
        raise Failed("use Redis", "its client is not installed: pip install 'copydesk[redis]'")
    from copydesk.desk.backends.redis import Server

    return Server(config.redis_url, config.registry_name or name_of(root))


def name_of(root: str) -> str:
    """The default name of a workspace; the same on machines that mount it at the same path."""
    return hashlib.sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:16]
