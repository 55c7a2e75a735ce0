"""Opening a workspace: the one place where stores, memory and tools are joined.

What lives here: the composition, and what all surfaces share. What must not:
transports, printing.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from copydesk.app.config import TOOLSETS, Config, LiveConfig, load
from copydesk.app.looking import WorkspaceLooking
from copydesk.app.memory import of_process, shared_memory, words_of_loss
from copydesk.app.notes import Opener
from copydesk.app.telling import ToldDecisions
from copydesk.desk.approving import Approving
from copydesk.desk.batching import Batching
from copydesk.desk.desk import Desk
from copydesk.desk.foreign import ForeignWrites
from copydesk.desk.history import Past
from copydesk.desk.member import Member, Permission
from copydesk.desk.notes.later import Later
from copydesk.desk.recovery import Recovery, Settled
from copydesk.desk.registry import Registry
from copydesk.desk.rollback import Rollback
from copydesk.desk.setting import Setting
from copydesk.desk.turns import Turns
from copydesk.desk.writing import Writer
from copydesk.edit.plan import Plan
from copydesk.errors import (
    AccessDenied,
    ConfigInvalid,
    Refusal,
    SchemaMismatch,
    StateFailed,
    cancelled_by,
)
from copydesk.store.access import Rules
from copydesk.store.closing import Closing
from copydesk.store.editorconfig import EditorConfig
from copydesk.store.workspace import Workspace
from copydesk.text.relpath import RelPath
from copydesk.tools import approvals, reports
from copydesk.tools.batch import batch
from copydesk.tools.catalog import Answer, Catalog, Context, Tool
from copydesk.tools.compat import compat
from copydesk.tools.envelope import Envelope
from copydesk.tools.notes import notes
from copydesk.tools.notes_answer import Kept, NoteAnswer
from copydesk.tools.report import Lang, Report, shown_diff
from copydesk.tools.ws_mod import team_mgmt, ws_mod

if TYPE_CHECKING:
    from copydesk.desk.notes.home import Home

_PROJECT = "pyproject.toml"
_log = logging.getLogger("copydesk")


def _is_project(path: RelPath) -> bool:
    return path.parts == (_PROJECT,)


def _nothing(seen: int) -> None:
    """Nobody watches."""


def _never() -> bool:
    return False


def now_ms() -> int:
    """Milliseconds since 1970, by the clock of the machine."""
    return time.time_ns() // 1_000_000


def hunk_id() -> str:
    """A new id of eight hex characters; it begins with a letter, so that nobody reads a number."""
    return secrets.choice("abcdef") + secrets.token_hex(4)[1:]


def open_workspace(
    root: str,
    config: Config | None = None,
    *,
    shared: bool = True,
    recover: bool = True,
    clock: Callable[[], int] = now_ms,
    home: Callable[[Permission], Home] | None = None,
) -> Opened:
    """The workspace at `root`, with its configuration unless one is given.

    `shared`: plans, bases and the journal are kept in the state folder, or on the
    server that is configured, for all processes; else in the memory of this one.
    `recover`: what a process that died has left half done is settled first. `clock`
    gives milliseconds since 1970.
    `home` opens the notes, where they are not those of the configuration.
    Raises ConfigError, and Refusal for a root that cannot be opened.
    """
    loaded = load(root) if config is None else config
    return Opened(root, loaded, shared=shared, recover=recover, clock=clock, home=home)


class Opened(Closing):
    """An open workspace. Safe to use from many threads; close it, or use it in a `with`."""

    def __init__(
        self,
        root: str,
        config: Config,
        *,
        shared: bool,
        recover: bool = True,
        clock: Callable[[], int] = now_ms,
        home: Callable[[Permission], Home] | None = None,
    ) -> None:
        self._live, self.clock = LiveConfig(root, config), clock
        self.files = Workspace(
            root,
            durability=config.durability,
            limit_bytes=config.limit_bytes,
            whole_bytes=config.whole_bytes,
            may_write=lambda: memory.may_write(),
            may_return=lambda: memory.may_return(),
            keep=lambda real, theirs, ours: foreign.keep(real, theirs, ours),
        )
        self.root = self.files.root
        self._roots = _in_full(self.root, root)
        memory = shared_memory(self.root, config) if shared else of_process(config)
        self.catalog = Catalog((*ws_mod(), *batch(), *notes(), *team_mgmt(), *compat()))
        self.kept = Kept()
        self.page: str | None = None
        """Where the review page is served by this process, as the start of its addresses."""
        self._listeners: list[Callable[[], None]] = []
        self._memory = memory
        self.registry, self.decisions = memory.registry, memory.decisions
        self.tally, self.journal = memory.tally, memory.journal
        self.changes = memory.changes
        """What is another pair when another process has changed plans or decided."""
        self.seen = memory.seen
        """What is another value when any process has recorded something; None: see the files."""
        self._members: tuple[Config, dict[tuple[str, str], Member]] = (config, {})
        self._lock = threading.Lock()
        self.lanes, bases = memory.lanes, memory.bases
        styles = EditorConfig(self.files)

        def encoding_of(path: RelPath) -> str | None:
            return config.encoding_of(str(path)) or styles.charset(path)

        foreign = ForeignWrites(self.files, self.journal, clock, encoding_of)
        told = _Told(self.registry, self._tell)
        self.recovery = Recovery(
            self.files,
            self.lanes,
            self.journal,
            told,
            Rollback(self.files, self.lanes, self.journal, bases, encoding_of),
        )
        self.recovered: tuple[Settled, ...] = ()
        if shared:
            self._begin(recover=recover)
        turns = Turns(self.files, self.lanes, self.journal, self.recovery, clock)
        setting = Setting(
            files=self.files,
            registry=told,
            recovery=self.recovery,
            journal=self.journal,
            bases=bases,
            turns=turns,
            decisions=ToldDecisions(self.decisions, self._tell, memory.decided_at),
            tally=self.tally,
            foreign=foreign,
            members=self.member,
            clock=clock,
            ids=hunk_id,
            named=encoding_of,
            ttl_ms=config.ttl_seconds * 1000,
        )
        approving = Approving(setting.decisions)
        writer = Writer(self.files, turns, self.journal, clock, setting.named, approving)
        self._opener = Opener(config, self.files, memory.state)
        self._notes = Later(setting, home or self._opener.open)
        self.desk = Desk(setting, writer, self._notes)
        self.batches = Batching(setting, writer)
        self.looking = WorkspaceLooking(self.files)

    def _begin(self, *, recover: bool) -> None:
        """Settle what is left of processes that died, and prune.

        State that cannot be used is logged, and refused by what needs it. Raises
        SchemaMismatch: a build that keeps other records may lock files in another way too.
        """
        try:
            for database in self._memory.databases.values():
                database.check_schema()
        except SchemaMismatch:
            self._memory.close()
            self.files.close()
            raise
        if not recover:
            return
        settings = self.settings
        try:
            self.recovered = self.recovery.run(self.clock())
            self.journal.prune(self.clock(), settings.journal_days, settings.journal_bytes)
        except StateFailed as refusal:
            _log.warning("%s", reports.refusal_words(refusal, "en"))

    @property
    def config(self) -> Config:
        """The configuration with the members of its file now; raises ConfigInvalid."""
        return self._live.now()

    @property
    def settings(self) -> Config:
        """The configuration as it last could be used: for settings that are no rights."""
        return self._live.last

    def close(self) -> None:
        """Let go of all that is held."""
        self._notes.close()
        self._opener.close()
        self._memory.close()
        self.files.close()

    def call(
        self,
        member: str,
        name: str,
        arguments: object,
        *,
        lang: Lang = "en",
        progress: Callable[[int], None] = _nothing,
        cancelled: Callable[[], bool] = _never,
    ) -> Answer:
        """A tool's answer; raises KeyError for a tool that there is not, and nothing else."""
        tool = self.catalog.tools[name]
        try:
            config = self.config
        except ConfigInvalid as invalid:
            return tool.refuse(name, arguments, None, invalid, lang)
        if tool.toolset == "team_mgmt" and not config.of_member(member).team_mgmt:
            denied = AccessDenied("call", "team_mgmt is not granted")
            return reports.refused(name, None, denied, lang)
        caller = self.member(member, "team_mgmt" if tool.toolset == "team_mgmt" else "ws_mod")
        context = Context(
            self.desk,
            self.batches,
            self.looking,
            caller,
            lang,
            progress,
            cancelled,
            self.kept,
            self._roots,
        )
        with cancelled_by(cancelled):
            answer = self.catalog.call(context, name, arguments)
        return answer if cancelled() else self._with_losses(answer, lang)

    def _with_losses(self, answer: Answer, lang: Lang) -> Answer:
        """The answer, with what state files lost while they were in use, told once."""
        if not isinstance(answer, Report | Envelope | NoteAnswer):
            return answer
        words = [words_of_loss(path, loss, lang) for path, loss in self._memory.losses.take()]
        if not words:
            return answer
        return approvals.with_notices(answer, "state_lost", [*words], words)

    def tools(self, member: str, toolsets: Sequence[str] = TOOLSETS) -> tuple[Tool, ...]:
        """The tools of some toolsets that the member has."""
        granted = self.settings.of_member(member).team_mgmt
        return self.catalog.of(t for t in toolsets if t != "team_mgmt" or granted)

    def member(self, name: str, toolset: str = "ws_mod") -> Member:
        """A member as it is seen by the tools of one toolset, with the rights that it has now."""
        config, key = self.config, (name, toolset)
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
            if not policy.asks_nobody and config.source == _PROJECT:  # it holds the policy
                policy = policy.guarding(_is_project)
            refresh = partial(self.member, name, toolset)
            known[key] = Member(name, rules, toolset, settings.auto_lines, policy, refresh)
        return known[key]

    def pending(self, member: str) -> tuple[Plan, ...]:
        """The plans that wait, on files that the member may read."""
        return self.desk.waiting(self.member(member))

    def pending_report(self, member: str, hunk_id: str, lang: Lang = "en") -> Report:
        """A plan as it was shown, and what was decided on it; raises Refusal."""
        shown = self.desk.show(self.member(member), hunk_id)
        report = reports.planned(shown.plan.tool, shown, lang)
        if report.fields.pop("diff_truncated", False):  # a person is shown all of it
            diff, _ = shown_diff(shown.draft.diff, shown.draft.base.encoding, whole=True)
            report = replace(report, diff=diff)
        return approvals.with_decision(report, self.desk.review.decision(shown.plan))

    def history(
        self, member: str, path: str | None = None, most: int = 50, before: int | None = None
    ) -> tuple[Past, ...]:
        """The last edits, the newest first, of files that the member may read.

        `path` is a file or a directory; with `before` those of lower ids.
        """
        wanted = None if path is None else RelPath.parse(path)
        found = self.desk.history.page(self.member(member), wanted, most=most, before=before)
        return found.edits

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener`, from any thread, when plans came or went; gives the way out."""
        with self._lock:
            self._listeners.append(listener)

        def leave() -> None:
            with self._lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return leave

    def _tell(self) -> None:
        with self._lock:
            listeners = tuple(self._listeners)
        for listener in listeners:
            listener()


class _Told:
    """A registry that tells when its plans change."""

    def __init__(self, inner: Registry, tell: Callable[[], None]) -> None:
        self._inner, self._tell = inner, tell
        self.get, self.waiting, self.close = inner.get, inner.waiting, inner.close

    def add(self, plan: Plan) -> bool:
        """Keep a new plan; False when its id is taken."""
        added = self._inner.add(plan)
        if added:
            self._tell()
        return added

    def put(self, plan: Plan) -> None:
        """Keep the plan in the place of the one that has its id."""
        self._inner.put(plan)
        self._tell()

    def end(self, hunk_id: str, how: str, now_ms: int) -> None:
        """The plan is gone from now on."""
        self._inner.end(hunk_id, how, now_ms)  # type: ignore[arg-type]
        self._tell()


def _in_full(*roots: str) -> tuple[RelPath, ...]:
    """The root as its absolute path begins, by its real path and as it was given."""
    found: dict[RelPath, None] = {}
    for root in roots:
        try:
            found[RelPath.parse(os.path.abspath(root).lstrip("/") or ".")] = None
        except Refusal:  # a name that is not UTF-8: nobody can write such a path in JSON
            continue
    return tuple(found)


def default_root() -> str:
    """The workspace when none is named: COPYDESK_ROOT, else the current folder."""
    return os.environ.get("COPYDESK_ROOT") or os.getcwd()
