"""The soak: its observer sees each kind of fault in a made-up history, and real runs end clean.

What the observer is given is written by hand; diffs are those of `difflib`, not copydesk's.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from bench import PROJECT
from bench.soak import no_exchange, processes
from bench.soak.__main__ import main
from bench.soak.agents import Agent, World
from bench.soak.foreign import ForeignWriter
from bench.soak.observer import (
    TOKEN,
    Approved,
    ForeignWrite,
    Judgement,
    Ledger,
    LoggedEdit,
    Status,
    Token,
    apply_diff,
    digest,
    judge,
    undone,
)
from bench.soak.report import write_report
from bench.soak.sabotage import SABOTAGES, Sabotage

SLOW = pytest.mark.slow
FIRST = "# f0001\n[s1 f0001]\n[s2 f0001]\n[end f0001]\n"
PATH = "own/f0001.txt"


def line(token: str, section: str = "s1") -> str:
    return f"f0001 {section} {token} by somebody\n"


def below(text: str, token: str, section: str = "s1", said: str = "") -> str:
    """The text with a line at the start of a section."""
    head = f"[{section} f0001]\n"
    return text.replace(head, head + line(token, said or section))


def diff_of(before: str, after: str) -> str:
    rows = difflib.unified_diff(before.splitlines(True), after.splitlines(True), "a/f", "b/f")
    return "".join(rows)


@dataclass
class Story:
    """A history of one file: what was written, what was said, and what the file is at last."""

    ledger: Ledger = field(default_factory=Ledger)
    edits: list[LoggedEdit] = field(default_factory=list)
    foreign: list[ForeignWrite] = field(default_factory=list)
    now: str = FIRST

    def token(self, status: Status, operation: str = "") -> str:
        token = self.ledger.new("A1", operation)
        token.status = status
        return token.name

    def edit(self, after: str, **changed: object) -> None:
        """An edit that the journal has, and that was made."""
        before, data = self.now.encode(), after.encode()
        made = LoggedEdit(
            len(self.edits) + 1,
            PATH,
            "done",
            digest(before),
            digest(data),
            diff_of(self.now, after),
        )
        self.edits.append(replace(made, **changed))  # type: ignore[arg-type]  # by the tests' names
        self.now = after

    def write(self, how: str, token: str, text: str, *, done: bool = True) -> None:
        """A foreign program's write, as it logs it; the file is not touched."""
        order = len(self.foreign)
        self.foreign.append(ForeignWrite(order, PATH, how, token, text, done=done))  # type: ignore[arg-type]  # one of three words

    def verdict(self, approved: Approved | None = None, **seen: bytes) -> Judgement:
        first, last = {PATH: FIRST.encode()}, {PATH: self.now.encode()}
        return judge(self.ledger, self.edits, first, last, self.foreign, seen, approved)

    @property
    def kinds(self) -> set[str]:
        return {finding.kind for finding in self.verdict().findings}


def good() -> Story:
    """Three edits, an append and a save of foreign programs, a refusal, one without an answer."""
    story = Story()
    story.edit(below(FIRST, story.token("ok")))
    story.edit(below(story.now, story.token("ok"), "s2"))
    story.token("refused")
    story.token("unsure")
    story.write("append", "F1-000001", line("F1-000001", "end"))
    story.now += line("F1-000001", "end")
    story.edit(below(story.now, story.token("ok")))
    saved = below(story.now, "F2-000001", "s2")
    story.write("save", "F2-000001", saved)
    story.now = saved + ""
    story.write("append", "F1-000002", line("F1-000002", "end"))
    story.now += line("F1-000002", "end")
    return story


def test_a_good_history_has_no_finding() -> None:
    verdict = good().verdict()
    assert verdict.findings == []
    assert verdict.counts["edits replayed"] == 3
    assert verdict.counts["gaps explained"] == 2
    assert verdict.counts["foreign writes"] == 3


@pytest.mark.parametrize("dropped", [False, True])
def test_an_edit_in_doubt_explains_what_comes_after_it(dropped: bool) -> None:
    """Right after a save, before an append; or its line was read and removed by another program."""
    story = good()
    saved = below(story.now, "F2-000002", "s2")
    story.write("save", "F2-000002", saved)
    story.now = saved + ""
    name = story.token("ok")
    story.edit(below(story.now, name), state="unsure")
    story.write("append", "F1-000003", line("F1-000003", "end"))
    story.now += line("F1-000003", "end")
    if dropped:
        story.now = below(saved, "F2-000003", "s2") + line("F1-000003", "end")
        story.write("save", "F2-000003", story.now)
        story.foreign[-1] = replace(story.foreign[-1], dropped=(name,))
    story.edit(below(story.now, story.token("ok")))
    assert story.verdict().findings == []


@pytest.mark.parametrize("end", ["at the end", "before an edit", "before one in doubt"])
@pytest.mark.parametrize("how", ["save", "append", "append to a save", "nothing", "later save"])
def test_an_edit_in_doubt_may_be_overwritten_before_anybody_has_seen_it(how: str, end: str) -> None:
    """By a program that had read the file before, while the server was killed after its answer."""
    story = good()
    if how == "append to a save":
        story.now = below(story.now, "F2-000003", "s2")
        story.write("save", "F2-000003", story.now)
    before = story.now
    story.edit(below(before, story.token("ok")), state="unsure")
    story.now = before
    if how == "save":
        story.now = below(before, "F2-000002", "s2")
        story.write("save", "F2-000002", story.now)
    elif how == "later save":
        story.now = before
        story.edit(below(story.now, story.token("ok")))
        story.now = below(story.now, "F2-000002", "s2")
        story.write("save", "F2-000002", story.now)
    elif how != "nothing":
        story.now = before + line("F1-000003", "end")
        story.write("append", "F1-000003", line("F1-000003", "end"))
    if end == "before an edit":
        story.edit(below(story.now, story.token("ok")))
    elif end == "before one in doubt":
        story.edit(below(story.now, story.token("unsure")), state="unsure")
    assert story.kinds == (set() if how == "save" else {"lost"})


@pytest.mark.parametrize("how", ["save", "format"])
def test_what_another_program_saved_may_be_rolled_back(how: str) -> None:
    """It read a line of a transaction that was killed before its other file was written."""
    story = good()
    before, name = story.now, story.token("unsure")
    story.edit(below(before, name), state="failed", group="g")
    token = "F2-000002" if how == "save" else ""
    theirs = [
        below(text, token, "s2") if token else text.replace(line(name), f"  {line(name)}")
        for text in (story.now, before)
    ]
    if how == "format":
        theirs = [text.replace("[s1", "  [s1") for text in theirs]
    story.write(how, token, theirs[0])
    story.now = theirs[1]
    assert story.kinds == set()
    story.edit(story.now + line(story.token("ok"), "end"))
    assert story.kinds == set()
    story.edits[3] = replace(story.edits[3], state="unsure")
    assert story.kinds == {"changed unsaid"}


def test_another_program_may_save_a_line_that_was_refused() -> None:
    """It read the file before the write was taken back; then copydesk has not written it."""
    story = good()
    before, name = story.now, story.token("refused", "both")
    story.token("refused", "both")
    story.edit(below(before, name), state="failed", group="g")
    story.write("append", "F1-000003", line("F1-000003", "end"))
    story.write("format", "", story.now + line("F1-000003", "end"))
    story.now += line("F1-000003", "end")
    assert story.kinds == set()
    assert [write.how for write in story.foreign] == [
        "append",
        "save",
        "append",
        "append",
        "format",
    ]
    story.foreign.pop()
    assert {"written unsaid", "half written"} <= story.kinds, "no other program has saved it"


def test_a_transaction_in_doubt_may_look_half_written() -> None:
    """It was killed, and others rewrote one of its files before it could be recovered."""
    story = good()
    half(story)
    story.edits[-1] = replace(story.edits[-1], state="unsure")
    assert story.kinds == set()
    story.edits[-1] = replace(story.edits[-1], state="done")
    story.edit(story.now.replace("somebody", "anybody", 1), undoes=1, state="unsure")
    assert "half written" in story.kinds, "an undo in doubt is no excuse"


def lost(story: Story) -> None:
    story.token("ok")


def lost_from_the_journal(story: Story) -> None:
    name = story.token("ok")
    story.edit(below(story.now, name))
    story.ledger.tokens[name].edit_id = 77


def unsaid(story: Story) -> None:
    story.edit(below(story.now, story.token("refused")))


def unsaid_plan(story: Story) -> None:
    story.edit(below(story.now, story.token("waiting")))


def in_another_section(story: Story) -> None:
    story.edit(below(story.now, story.token("ok"), "s2", said="s1"))


def twice(story: Story) -> None:
    name = story.token("ok")
    story.edit(below(below(story.now, name), name))


def half(story: Story) -> None:
    one, _ = story.token("unsure", "both"), story.token("unsure", "both")
    story.edit(below(story.now, one))


def half_a_transaction(story: Story) -> None:
    story.edit(below(story.now, story.token("ok")), group="g")
    story.edits.append(replace(story.edits[-1], edit_id=99, state="failed"))


def torn(story: Story) -> None:
    story.edit(below(story.now, story.token("ok")), diff=diff_of(FIRST, FIRST + "x\n"))


def overwritten(story: Story) -> None:
    """What stood there is gone, and no entry or program says why."""
    story.now = FIRST


def not_in_the_journal(story: Story) -> None:
    story.now = below(story.now, story.token("unsure"))


def foreign_append_lost(story: Story) -> None:
    story.write("append", "F1-000003", line("F1-000003", "end"))


def foreign_save_lost(story: Story) -> None:
    story.write("save", "F2-000002", below(story.now, "F2-000002"))


def open_at_the_end(story: Story) -> None:
    story.edit(below(story.now, story.token("unsure")), state="open")


@pytest.mark.parametrize(
    ("breaks", "kind"),
    [
        (lost, "lost"),
        (lost_from_the_journal, "lost"),
        (unsaid, "written unsaid"),
        (unsaid_plan, "written unsaid"),
        (in_another_section, "misplaced"),
        (twice, "written twice"),
        (half, "half written"),
        (half_a_transaction, "half written"),
        (torn, "torn replay"),
        (overwritten, "changed unsaid"),
        (not_in_the_journal, "changed unsaid"),
        (foreign_append_lost, "foreign write lost"),
        (foreign_save_lost, "foreign write lost"),
        (open_at_the_end, "not recovered"),
    ],
)
def test_each_fault_is_found(breaks: Callable[[Story], None], kind: str) -> None:
    story = good()
    breaks(story)
    assert kind in story.kinds


@pytest.mark.parametrize(
    ("agreed", "found"),
    [
        ({("before", "after")}, set()),
        ({("before", "other")}, {"not approved"}),
        ({("other", "after")}, {"not approved"}),
        (set(), {"not approved"}),
        (None, set()),
    ],
)
def test_an_edit_has_the_bytes_that_a_person_was_shown(
    agreed: set[tuple[str, str]] | None, found: set[str]
) -> None:
    """In the folders where people have to approve."""
    story = Story()
    story.edit(below(FIRST, story.token("ok")))
    real = {"before": story.edits[0].before, "after": story.edits[0].after, "other": digest(b"")}
    shown = {(real[before], real[after]) for before, after in agreed or ()}
    folder = "review" if agreed is None else "own"
    assert {one.kind for one in story.verdict({folder: shown}).findings} == found
    story.edits[0] = replace(story.edits[0], state="failed")
    story.now = FIRST
    assert "not approved" not in {one.kind for one in story.verdict({folder: shown}).findings}


def test_a_save_after_very_many_others_explains_the_end() -> None:
    story = good()
    for number in range(700):
        story.write("save", f"F4-{number:06}", below(story.now, f"F4-{number:06}"))
    story.now = story.foreign[-1].text
    assert story.kinds == {"foreign write lost"}, "each save removed the line of the one before"
    assert len(story.verdict().findings) == 699


def test_the_bytes_of_a_state_are_no_reason_for_it() -> None:
    """That somebody saw a state does not say who made it."""
    story = Story()
    strange = FIRST.replace("[s2", "x\n[s2")
    story.now = strange
    story.edit(below(strange, story.token("ok")))
    found = story.verdict(**{digest(strange.encode()): strange.encode()}).findings
    assert [one.kind for one in found] == ["changed unsaid"]


def test_a_foreign_write_is_there_where_it_was_saved_or_taken_out_by_its_own_kind() -> None:
    story = good()
    foreign_append_lost(story)
    theirs = story.now + line("F1-000003", "end")
    saved = LoggedEdit(
        90,
        PATH,
        "done",
        digest(theirs.encode()),
        digest(story.now.encode()),
        diff_of(theirs, story.now),
        tool="foreign_write",
    )
    story.edits.append(saved)
    assert story.kinds == set()
    other = good()
    foreign_append_lost(other)
    other.foreign.append(
        ForeignWrite(9, PATH, "save", "", other.now, dropped=("F1-000003",), done=True)
    )
    assert other.kinds == set()


def test_a_foreign_write_that_was_killed_may_be_there_or_not() -> None:
    story = good()
    story.write("append", "F1-000003", line("F1-000003", "end"), done=False)
    assert story.kinds == set()
    story.now += line("F1-000003", "end")
    assert story.kinds == set()


def test_appends_that_never_came_do_not_hide_the_one_that_did() -> None:
    """A foreign program that is killed may leave one in the log each time."""
    story = good()
    for number in range(20, 30):
        story.write("append", f"F1-{number:06}", line(f"F1-{number:06}", "end"), done=False)
    for number in range(30, 33):
        name = f"F1-{number:06}"
        story.write("append", name, line(name, "end"))
        story.now += line(name, "end")
        story.edit(below(story.now, story.token("ok")))
    assert story.kinds == set()


def test_a_save_after_many_others_explains_a_gap() -> None:
    story = good()
    texts = [story.now.replace("[s2", "  [s2"), story.now]
    for number in range(100):
        story.write("format", "", texts[number % 2])
    story.write("save", "F2-000900", below(story.now, "F2-000900"))
    story.now = below(story.now, "F2-000900")
    story.edit(below(story.now, story.token("ok")))
    story.write("format", "", story.now)
    assert story.kinds == set()


def test_many_saves_and_appends_between_two_edits_explain_what_a_person_saw() -> None:
    """On a busy machine others may save and append hundreds of times before the next edit."""
    story = good()
    texts = [story.now.replace("[s2", "  [s2"), story.now]
    for number in range(400):
        story.write("format", "", texts[number % 2])
    for number in range(40, 80):
        name = f"F1-{number:06}"
        story.write("append", name, line(name, "end"))
        story.now += line(name, "end")
    seen = story.now.encode()
    story.edit(below(story.now, story.token("ok")))
    assert story.verdict(**{digest(seen): seen}).findings == []
    story.edits[-1] = replace(story.edits[-1], before=digest(b"x"), diff="")
    assert story.verdict(**{digest(b"x"): b"x"}).findings != []


def test_a_file_may_be_made_moved_and_deleted() -> None:
    text = FIRST.replace("f0001", "f0002").encode()
    made = f"--- /dev/null\n+++ b/m\n@@ -0,0 +1,{text.count(10)} @@\n"
    made += "".join(f"+{row}\n" for row in text.decode().rstrip("\n").split("\n"))
    moved = "diff --git a/m b/n\nsimilarity index 100%\nrename from m\nrename to n\n"
    gone = made.replace("--- /dev/null\n+++ b/m", "--- a/n\n+++ /dev/null")
    edits = [
        LoggedEdit(1, "m", "done", "", digest(text), made),
        LoggedEdit(2, "m", "done", digest(text), "", moved, group="g"),
        LoggedEdit(3, "n", "done", "", digest(text), moved, group="g"),
        LoggedEdit(4, "n", "done", digest(text), "", gone),
    ]
    assert judge(Ledger(), edits, {}, {}).findings == []
    assert judge(Ledger(), edits[:3], {}, {"n": text}).findings == []
    found = judge(Ledger(), edits[:3], {}, {"m": text, "n": text}).findings
    assert [one.kind for one in found] == ["changed unsaid"]


def test_diffs_are_applied_by_their_numbers() -> None:
    before = "".join(f"{number}\n" for number in range(40))
    after = before.replace("3\n", "three\n", 1).replace("30\n", "").replace("39\n", "39")
    diff = diff_of(before, after).replace("+39", "+39\n\\ No newline at end of file\n")
    assert apply_diff(before.encode(), diff) == after.encode()


def test_what_an_undo_gives_is_known_from_the_diff() -> None:
    after = below(FIRST, "A1-000001")
    edit = LoggedEdit(1, PATH, "done", "b", "a", diff_of(FIRST, after))
    later = below(after, "A1-000002", "s2")
    assert undone(later.encode(), edit) == below(FIRST, "A1-000002", "s2").encode()
    assert undone((later + line("A1-000001")).encode(), edit) is None


def test_a_soak_makes_its_own_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(SystemExit, match="2"):
        main(["--backend", "sqlite", "--root", str(tmp_path)])
    assert "not an empty folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize("given", [["--minutes", "0"], ["--agents", "0"], ["--people", "-1"]])
def test_numbers_are_checked(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(given)
    assert given[0] in capsys.readouterr().err


def test_without_a_redis_server_it_says_what_installs_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(processes, "REDIS", None)
    with pytest.raises(SystemExit, match="2"):
        main(["--backend", "redis"])
    assert "apt-get install redis-server" in capsys.readouterr().err


def test_a_report_goes_into_the_marked_place_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n<!-- report: begin -->\nold\n<!-- report: end -->\nrest\n")
    write_report(page, "# New\n")
    write_report(tmp_path / "other.md", "# New\n")
    made = "# Page\n<!-- report: begin -->\n\n## New\n\n<!-- report: end -->\nrest\n"
    assert page.read_text() == made
    assert (tmp_path / "other.md").read_text() == "# New\n"


# What the agents note


class AmendingServer:
    """It answers a call to write a plan when a person has amended and approved that."""

    def __init__(self, world: World, ends: bool) -> None:
        self.world, self.ends = world, ends
        self.amended: Token | None = None

    async def call_tool(self, tool: str, arguments: dict[str, object]) -> SimpleNamespace:
        (tokens,) = self.world.plans.values()
        self.amended = self.world.ledger.new("P1")
        self.amended.status = "waiting"
        tokens.append(self.amended)
        if self.ends:
            raise ConnectionError
        diff = f"@@ -2,0 +3 @@\n+{line(self.amended.name)}"
        answer = {"status": "ok", "edit_id": 7, "diff": diff}
        return SimpleNamespace(structured_content=answer, is_error=False)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Any]:
        yield self


@pytest.mark.parametrize("ends", [False, True])
def test_a_plan_may_be_amended_while_its_agent_asks_for_the_write(
    tmp_path: Path, ends: bool
) -> None:
    """What was planned is not said to be written; without an answer all of it is in doubt."""
    world = World(tmp_path, {}, 0.0)
    server = AmendingServer(world, ends)
    agent = Agent("a1", world, "seed", server.client, ())
    agent._client = cast("Any", server)
    planned = world.ledger.new("A1")
    planned.status = "waiting"
    world.plans["h"], agent._plans = [planned], ["h"]
    with suppress(ConnectionError):
        asyncio.run(agent._finish())
    assert server.amended is not None
    assert [token.status for token in (planned, server.amended)] == [
        "waiting",
        "waiting" if ends else "ok",
    ]
    assert agent._flight == [planned, server.amended], "in doubt, if the session ends now"


# The programs that save at a certain moment


def writer(tmp_path: Path, how: str) -> ForeignWriter:
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "f0001.txt").write_text(FIRST)
    log = tmp_path / "log.jsonl"
    return ForeignWriter(tmp_path, log, "F1", how, ["f/f0001.txt"], "seed", 0)


def logged(tmp_path: Path) -> list[tuple[str, bool]]:
    facts = [json.loads(row) for row in (tmp_path / "log.jsonl").read_text().splitlines()]
    return [(fact["how"], fact["done"]) for fact in facts]


def test_a_program_saves_when_a_name_appears_beside_its_file(tmp_path: Path) -> None:
    racer = writer(tmp_path, "race")
    running = threading.Thread(target=racer.race, args=("f/f0001.txt",))
    running.start()
    count = 0
    while running.is_alive():
        (tmp_path / "f" / f"new-{count}").touch()
        count += 1
        running.join(0.001)
    assert "F1-000001 saved" in (tmp_path / "f" / "f0001.txt").read_text()
    assert logged(tmp_path) == [("save", False), ("save", True)]


@pytest.mark.parametrize("moment", ["another", "new file", "taken"])
def test_a_program_stands_only_for_what_it_saved_at_another_time(
    tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not where another program has a new file there, or has just given that its name."""
    saver, save = writer(tmp_path, "apart"), os.replace
    new = tmp_path / "f" / "new"
    if moment != "another":
        new.write_text("theirs\n")

    def replaced(one: Path, other: Path) -> None:
        save(one, other)
        if moment == "taken":
            save(new, other)

    monkeypatch.setattr(os, "replace", replaced)
    saver.apart("f/f0001.txt")
    assert logged(tmp_path) == [("save", False), ("save", True)]
    last = json.loads((tmp_path / "log.jsonl").read_text().splitlines()[1])
    assert last["token"] == ("F1-000001" if moment == "another" else "")
    assert "F1-000001 saved" in last["text"]


def test_a_system_may_be_unable_to_exchange_names(tmp_path: Path) -> None:
    code = """
import ctypes, os, sys
for name in "ab":
    open(name, "x").close()
libc = ctypes.CDLL(None, use_errno=True)
for flag, names in ((1, (b"a", b"c")), (2, (b"c", b"b"))):
    done = libc.renameat2(-100, names[0], -100, names[1], flag)
    print(os.strerror(ctypes.get_errno()) if done else "done")
"""
    words = [sys.executable, no_exchange.__file__, sys.executable, "-c", code]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    if done.stdout == "done\ndone\n":
        pytest.skip("there are no such filters")
    assert done.stdout == "done\nInvalid argument\n"


# What is taken out of a copy


@pytest.mark.parametrize("one", SABOTAGES, ids=lambda one: one.name)
def test_each_sabotage_has_its_place_in_the_source(one: Sabotage) -> None:
    source = (PROJECT / "src" / "copydesk" / one.file).read_text("utf-8")
    made = one.of(source)
    assert made != source
    compile(made, one.file, "exec")
    assert all((PROJECT / file).is_file() for file in one.tests)
    with pytest.raises(LookupError, match=one.file):
        one.of(made.replace(one.old, ""))


def soaked(tmp_path: Path, backend: str, minutes: str, *more: str) -> dict[str, object]:
    """What a real run says; its folder is kept where it found something."""
    root, report = tmp_path / "soak", tmp_path / "report.md"
    words = [sys.executable, "-m", "bench.soak", "--json", "--minutes", minutes]
    words += ["--backend", backend, "--root", str(root), "--report", str(report), *more]
    done = subprocess.run(words, cwd=PROJECT, capture_output=True, text=True, timeout=400)
    assert done.stdout, done.stderr
    told = json.loads(done.stdout)
    (run,) = told["runs"]
    assert run["findings"] == []
    assert done.returncode == 0, done.stderr
    assert "Nothing lost, misplaced or unreported" in report.read_text()
    assert (tmp_path / f"report-{backend}.svg").read_text().startswith("<svg")
    return dict(run)


@SLOW
def test_half_a_minute_on_sqlite_loses_nothing(tmp_path: Path) -> None:
    run = soaked(tmp_path, "sqlite", "0.5")
    assert run["lines"]["ok"] > 50  # type: ignore[index]  # JSON
    assert run["counts"]["gaps explained"] > 5  # type: ignore[index]  # JSON
    assert len(run["faults"]) >= 4  # type: ignore[arg-type]  # JSON


@SLOW
@pytest.mark.skipif(processes.REDIS is None, reason="there is no redis-server")
def test_a_quarter_of_a_minute_on_redis_loses_nothing(tmp_path: Path) -> None:
    run = soaked(tmp_path, "redis", "0.25")
    assert run["lines"]["ok"] > 20  # type: ignore[index]  # JSON


@SLOW
def test_ctrl_c_ends_it_with_a_report(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "bench.soak", "--json", "--minutes", "9"]
    words += ["--backend", "sqlite", "--root", str(tmp_path / "soak")]
    own = tmp_path / "soak" / "sqlite" / "workspace" / "own"
    with subprocess.Popen(words, cwd=PROJECT, stdout=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 60
        while not any(TOKEN.search(path.read_text()) for path in own.glob("*.txt")):
            assert time.monotonic() < until, "no agent has written a line"
            time.sleep(0.2)
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=200)
    told = json.loads(out)
    assert told["runs"][0]["interrupted"] is True
    assert told["runs"][0]["findings"] == []
    assert process.returncode == 0
    left = [name for name in os.listdir("/proc") if name.isdigit() and _is_of(name, tmp_path)]
    assert left == []


def _is_of(pid: str, folder: Path) -> bool:
    try:
        return str(folder).encode() in Path("/proc", pid, "cmdline").read_bytes()
    except OSError:
        return False
