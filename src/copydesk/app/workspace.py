"""The composition root: opens a workspace and connects its files, backend, desk and tools."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from copydesk.app.backends import (
    Backend,
    in_process,
    shared_backend,
    words_of_loss,
)
from copydesk.app.config import FILES, TOOLSETS, Config, LiveConfig, load
from copydesk.app.reference import all_tools
from copydesk.desk.approvals import Approving
from copydesk.desk.backends.api import Records
from copydesk.desk.batch import Batching
from copydesk.desk.checks import Checks
from copydesk.desk.desk import FileDesk
from copydesk.desk.drafts import Setting, hunk_id
from copydesk.desk.history import Past
from copydesk.desk.member import SELF, Member, Permission
from copydesk.desk.outcome import ForeignWrites
from copydesk.desk.recovery import Recovery, Settled
from copydesk.desk.transaction import Locks, Writer
from copydesk.edit.draft import Plan
from copydesk.errors import (
    AccessDenied,
    ConfigInvalid,
    Refusal,
    SchemaMismatch,
    StateFailed,
    cancelled_by,
)
from copydesk.notes.lazy import LazyNotes
from copydesk.search.listings import FileSearch
from copydesk.store.access import Rules, guards
from copydesk.store.checks import Commands, Rule, Trust
from copydesk.store.dotfiles import EditorConfig
from copydesk.store.files import Files
from copydesk.store.locks import held_at_fork
from copydesk.store.protocol import Closing, now_ms
from copydesk.store.state import StateFolder
from copydesk.text.relpath import RelPath
from copydesk.tools import refusals, reports
from copydesk.tools.catalog import Catalog, Context, Tool
from copydesk.tools.diff_model import diff_text
from copydesk.tools.report import Answer, Lang, LongTexts, Value

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

    from copydesk.notes.desk import OpenNotes

KERNEL = "siyuan:"
"""The first part of the paths of documents in a kernel, as access lists name them."""


class NotesOpener:
    """Opens a workspace's notes on the first call; without `state` their ids are temporary."""

    def __init__(self, config: Config, files: Files, state: StateFolder | None) -> None:
        self._config, self._files, self._state = config, files, state
        self._own: TemporaryDirectory[str] | None = None

    def open(self, permission: Permission) -> OpenNotes:
        """The notes as a member with this permission sees them."""
        if self._config.notes.siyuan_url:
            return kernel_home(self._config)
        from copydesk.notes.desk import OpenNotes
        from copydesk.notes.folder.store import FolderStore
        from copydesk.notes.grammar import is_address, split_as
        from copydesk.notes.protocol import is_id, several
        from copydesk.store.threads import Soon

        settings = self._config.notes
        roots: dict[str, RelPath] = {}
        stores: list[FolderStore] = []
        for folder in settings.notebooks:
            store = FolderStore(
                self._files,
                RelPath.parse(folder),
                cast("Rules", permission),
                self._ids_folder(),
                name="" if folder != "." else self._files.root.rstrip("/").rpartition("/")[2],
                profile=settings.profile,
                exclude=settings.exclude,
                gitignore=settings.gitignore,
                later=Soon(),
            )
            roots[store.notebooks()[0].id] = RelPath.parse(folder)
            stores.append(store)
        return OpenNotes(
            several(stores),
            split_as(settings.profile),
            lambda text: is_id(text) or is_address(text),
            lambda box, path: RelPath.parse(path) if path else roots[box],
            in_files=True,
        )

    def close(self) -> None:
        """Remove the temporary folder of ids."""
        if self._own is not None:
            self._own.cleanup()

    def _ids_folder(self) -> str:
        """The folder of ids and fingerprints."""
        if self._state is not None:
            return self._state.folder("notes")
        if self._own is None:
            from tempfile import TemporaryDirectory

            self._own = TemporaryDirectory(prefix="copydesk-notes-")
        return self._own.name


def kernel_home(config: Config) -> OpenNotes:
    """The notes in the configured kernel. Sends nothing yet."""
    from copydesk.notes.desk import OpenNotes
    from copydesk.notes.grammar import split_as
    from copydesk.notes.kernel.store import KernelStore
    from copydesk.notes.protocol import is_id

    store = KernelStore.at(config.notes.siyuan_url, config.notes.siyuan_token)
    return OpenNotes(store, split_as("siyuan"), is_id, kernel_path, in_files=False)


def kernel_path(box: str, path: str) -> RelPath:
    """The path of a document in a kernel, or of a notebook."""
    return RelPath((KERNEL, box, *(part for part in path.split("/") if part)))


_PROJECT = "pyproject.toml"
_log = logging.getLogger("copydesk")


def user_of(member: str) -> str:
    """The recorded name of the member's person."""
    return f"user of {member}"


def open_workspace(
    root: str,
    config: Config | None = None,
    *,
    shared: bool = True,
    recover: bool = True,
    clock: Callable[[], int] = now_ms,
    home: Callable[[Permission], OpenNotes] | None = None,
) -> OpenWorkspace:
    """Open the workspace at `root`, with its own configuration unless one is given.

    `shared`: plans, snapshots and the journal are in the state folder or on the configured server,
    for all processes; otherwise in this process. `recover`: first recover unfinished writes of
    crashed processes. `clock` returns milliseconds since 1970. `home` opens other notes than the
    configured ones. Raises ConfigError, and Refusal for a root that cannot be opened.
    """
    loaded = load(root) if config is None else config
    return OpenWorkspace(root, loaded, shared=shared, recover=recover, clock=clock, home=home)


class OpenWorkspace(Closing):
    """An open workspace. Safe to use from many threads; close it, or use it in a `with`."""

    def __init__(
        self,
        root: str,
        config: Config,
        *,
        shared: bool,
        recover: bool = True,
        clock: Callable[[], int] = now_ms,
        home: Callable[[Permission], OpenNotes] | None = None,
    ) -> None:
        self._live, self.clock = LiveConfig(root, config), clock

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
        self.kept = LongTexts()
        self.catalog = Catalog(all_tools())
        self.in_shell = False
        """Whether next steps in answers name shell commands."""
        self.page: str | None = None
        """The base address of the review page if this process serves it."""
        self._listeners: list[Callable[[], None]] = []
        self._backend = backend
        records = self.registry = self.tally = self.journal = backend.records
        self.changes = records.changes
        """Returns a value that differs once another process has changed plans or decided."""
        self.seen = backend.seen
        """Returns a value that differs once any process has recorded something."""
        self._members: tuple[Config, dict[tuple[str, str], Member]] = (config, {})
        self._lock = held_at_fork(threading.Lock())
        self.queues, bases = backend.queues, backend.bases
        self._forgets = bases.forgets()
        styles = EditorConfig(self.files)

        def encoding_of(path: RelPath) -> str | None:
            named = config.encoding_of(path) if config.encodings else None
            return named or styles.charset(path)

        self._lasting: Backend | None = None

        def lasting() -> Records:
            """A journal in the state folder, for records that must outlive this process."""
            with self._lock:
                if self._lasting is None:
                    self._lasting = shared_backend(self.root, config)
                return self._lasting.records

        foreign = ForeignWrites(
            self.files, self.journal, clock, encoding_of, None if shared else lasting
        )
        records.notify = self._notify
        self.recovery = Recovery(self.files, self.queues, self.journal)
        self.recovered: tuple[Settled, ...] = ()
        if shared:
            self._begin(recover=recover)
        locks = Locks(self.files, self.queues, self.journal, self.recovery)
        trust = Trust(self.root, config.checks)

        def may_run(rule: Rule) -> bool:
            return config.source not in FILES or trust.is_given(rule)

        checks = Checks(config.checks, Commands(self.root, may_run))
        approving = Approving(records, records, clock)
        setting = Setting(
            files=self.files,
            registry=records,
            recovery=self.recovery,
            journal=records,
            bases=bases,
            locks=locks,
            decisions=records,
            tally=records,
            foreign=foreign,
            members=self.member,
            approving=approving,
            checks=checks,
            clock=clock,
            ids=hunk_id,
            named=encoding_of,
            ttl_ms=config.ttl_seconds * 1000,
            approval_ttl_ms=config.approval_ttl_seconds * 1000,
        )
        writer = Writer(self.files, locks, self.journal, self.recovery, clock, self._notify)
        self._opener = NotesOpener(config, self.files, backend.state)
        self._notes = LazyNotes(setting, writer, home or self._opener.open)
        self.desk = FileDesk(setting, writer, self._notes)
        self.batches = Batching(setting, self.desk.applying)
        self.looking = FileSearch(self.files, encoding_of, bases)

    def _begin(self, *, recover: bool) -> None:
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
        if not recover:
            return
        settings = self.settings
        try:
            self.recovered = self.recovery.run()
            self.journal.prune(self.clock(), settings.journal_days, settings.journal_bytes)
        except StateFailed as refusal:
            _log.warning("%s", refusals.refusal_words(refusal, "en"))

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
            parts = self._backend, self.files, self._opener, self._notes, self.desk.overwrites
            for each in parts:
                closing.callback(each.close)

    def _close_lasting(self) -> None:
        if self._lasting is not None:  # it may be opened by what the others still do
            self._lasting.close()

    def _log_untold(self) -> None:
        for saved in self.desk.foreign.take_untold():
            if saved.edit_id:  # what was written since was looked for
                undo = f"copydesk undo {saved.lasting_id}"
                words = reports.saved_words(saved.path, saved.lasting_id, undo, self.settings.lang)
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
            self.desk,
            self.batches,
            self.looking,
            caller,
            _manual,
            lang,
            progress,
            cancelled,
            self.kept,
            self._roots,
            self.in_shell,
            settings.apply or config.apply,
            config.answer_tokens,
            tuple(toolsets),
        )
        if (forgets := self._backend.bases.forgets()) != self._forgets:
            self._forgets = forgets
            self.kept.clear()
            self.desk.drop_texts()
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

    def _member(self, config: Config, name: str, toolset: str) -> Member:
        key = name, toolset
        kept = self._members
        if kept[0] is not config:
            kept = self._members = (config, {})
        known = kept[1]
        if key not in known:
            settings = config.of_member(name)
            lists: dict[str, Any] = dict(settings.lists)  # its keys are the fields of Rules
            rules = Rules(**lists, state_dir=config.state)
            if toolset == "team_mgmt":
                rules = rules.team_mgmt()
            policy = settings.policy
            if not policy.asks_nobody and config.source == _PROJECT:  # the file with the policy
                policy = policy.guarding(partial(guards, _PROJECT))
            refresh = partial(self.member, name, toolset)
            known[key] = Member(
                *(name, rules, toolset, settings.auto_lines, policy, refresh),
                task=config.task,
                usual_signs=config.usual_signs,
                corrects=config.corrections == "auto",
            )
        return known[key]

    def person(self, name: str) -> Member:
        """The member's person: the same rights, without approval."""
        own = self.member(name)
        refresh = partial(self.person, name)
        return replace(own, name=user_of(name), policy=SELF, refresh=refresh)

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
            rows: list[Value] = [refusals.check_row(one, lang) for one in shown.checks]
            words = tuple(refusals.check_words(one, lang) for one in shown.checks)
            report = reports.with_notices(report, "checks", rows, words)
        if shown.plan.why:
            report = replace(report, made={**report.fields, "why": shown.plan.why})
        return reports.with_decision(report, self.desk.review.decision(shown.plan))

    def history(
        self, member: str, path: str | None = None, most: int = 50, before: int | None = None
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


def _manual(toolset: str, topic: str, lang: Lang) -> str:
    from copydesk.app import manuals  # rarely needed

    return manuals.part(toolset, topic, lang)


def _in_full(*roots: str) -> tuple[RelPath, ...]:
    """The absolute paths of the root: the real one and the given one."""
    found: dict[RelPath, None] = {}
    for root in roots:
        with suppress(Refusal):  # not UTF-8: nobody can write such a path in JSON
            found[RelPath.parse(os.path.abspath(root).lstrip("/") or ".")] = None
    return tuple(found)


def default_root() -> str:
    """The default workspace: COPYDESK_ROOT, else the current folder."""
    return os.environ.get("COPYDESK_ROOT") or os.getcwd()
