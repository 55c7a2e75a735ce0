"""Versions and plans of a text that copydesk itself has changed since: exact, not guessed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.app.config import Config, MemberConfig
from copydesk.app.workspace import OpenWorkspace
from copydesk.desk.backends.api import CHAIN_LENGTH, Entry, Records, State
from copydesk.desk.backends.redis import RedisRecords, RedisSnapshots
from copydesk.desk.backends.snapshots import Snapshots
from copydesk.desk.backends.sqlite import Database, SqliteRecords, SqliteSnapshots
from copydesk.edit.draft import compose
from copydesk.edit.kinds.base import of_parts
from copydesk.edit.relocate import relocate
from copydesk.edit.request import Place, RangeEdit
from copydesk.errors import AmbiguousMatch, ContentChanged
from copydesk.store.state import StateFile
from copydesk.text.change import ChangeSet, Edit, Followed, follow
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot
from support.desks import Setup
from support.processes import Facts, code, outcome
from support.redis_calls import connections
from support.texts import PATH, changes

OTHER = RelPath(("b.txt",))


ANN = {"ann": MemberConfig({"no_read_dirs": ("no",)})}
DESK = Setup(
    Config(durability="fast", usual_signs=("markers",), members=ANN),
    stores=("memory", "shared", "large"),
)


def plain(text: str) -> str:
    """The text that `x|y|` spells; `-` is nothing."""
    return "" if text == "-" else text.replace("|", "\n")


def check_steps(desk: OpenWorkspace, file: Path, steps: str, expected: str) -> None:
    """The text after the steps, each of which ends as it says.

    `base TEXT` writes and reads the file; `plan ID RANGE TEXT` and `after ID
    LINE TEXT` prepare (LINE: which of the lines `x`); `apply ID CODE`; `edit
    RANGE TEXT CODE` edits the version that was read, at once; `over TEXT`
    overwrites; `write TEXT` is another program's.
    """
    version: object = ""
    hunks: dict[str, object] = {}
    for step in steps.split(";"):
        word, *rest = step.split()
        if word in ("base", "write"):
            other = file.with_name("other")
            other.write_bytes(plain(rest[0]).encode())
            other.replace(file)
            if word == "base":
                version = outcome(desk, "read_file", path="f")["version"]
            continue
        end = "ok"
        if word == "plan":
            args: Facts = {"range": rest[1], "content": plain(rest[2])}
            found = outcome(desk, "prepare_file_range_edit", path="f", **args)
            hunks[rest[0]] = found.get("hunk_id")
        elif word == "after":
            args = {"anchor": "x", "occurrence": int(rest[1]), "content": plain(rest[2])}
            found = outcome(desk, "prepare_file_insert_after", path="f", **args)
            hunks[rest[0]] = found.get("hunk_id")
        elif word == "apply":
            end = rest[1]
            found = outcome(desk, "apply_file_modification", hunk_id=hunks[rest[0]])
        elif word == "edit":
            end = rest[2]
            args = {"range": rest[0], "content": plain(rest[1]), "version": version}
            found = outcome(desk, "prepare_file_range_edit", path="f", **args, apply="auto")
            assert end != "ok" or found["changed"], found
        else:
            data, args = file.read_bytes(), {"path": "f", "content": plain(rest[0])}
            args |= {"known_old_total_lines": data.count(b"\n"), "known_old_total_bytes": len(data)}
            found = outcome(desk, "overwrite_entire_file", **args)
        assert code(found) == end, (step, found)
    assert file.read_bytes().decode() == plain(expected)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        # twins, in either order
        ("base x|x|; plan 1 1 A; plan 2 2 B; apply 1 ok; apply 2 ok", "A|B|"),
        ("base x|x|; plan 1 1 A; plan 2 2 B; apply 2 ok; apply 1 ok", "A|B|"),
        ("base x|x|; edit 1 A ok; edit 2 B ok", "A|B|"),
        ("base x|x|; edit 2 B ok; edit 1 A ok", "A|B|"),
        ("base x|x|x|x|; edit 2 - ok; edit 1 A|B| ok; edit 4 D ok; edit 3 C|C| ok", "A|B|C|C|D|"),
        ("base x|x|x; edit 3 C ok; edit 1 - ok; edit 2 B ok", "B|C|"),
        ("base x|x|x|; plan 1 1~2 -; plan 2 3 x|x|; apply 1 ok; apply 2 ok", "x|x|"),
        ("base |||; edit 2 B ok; edit 1 A ok; edit 3 C ok", "A|B|C|"),
        # to the same text as the twin, and beside a new twin
        ("base x|y|; plan 1 1 y; plan 2 2 B; apply 1 ok; apply 2 ok", "y|B|"),
        ("base x|x|; after 1 1 x; plan 2 1 A; plan 3 2 B; apply 1 ok; apply 3 ok; apply 2 ok", "A|x|B|"),
        ("base x|x|; after 1 1 n; after 2 2 m; apply 1 ok; apply 2 ok", "x|n|x|m|"),
        ("base x|x|; after 1 1 n; after 2 1 m; apply 1 ok; apply 2 ok", "x|m|n|x|"),
        # what was changed or deleted, though a twin stands there
        ("base x|x|; plan 1 1 A; plan 2 1 B; apply 1 ok; apply 2 CONTENT_CHANGED", "A|x|"),
        ("base x|x|; edit 1 - ok; edit 1 B STALE_READ", "x|"),
        ("base x|y|z|; plan 1 2 -; plan 2 1~3 N; apply 1 ok; apply 2 CONTENT_CHANGED", "x|z|"),
        ("base x|y|; after 1 1 n; plan 2 1~2 N; apply 1 ok; apply 2 CONTENT_CHANGED", "x|n|y|"),
        ("base x|y|z|; plan 1 2 -; plan 2 2 N; apply 1 ok; plan 3 2 y|Z|; apply 3 ok; apply 2 CONTENT_CHANGED", "x|y|Z|"),
        # a whole that was replaced does not say what became of its lines; then they are compared
        ("base x|y|z|; plan 1 2 N; over a|x|y|z|; apply 1 ok", "a|x|N|z|"),
        ("base x|y|z|; plan 1 2 N; over a|x|z|; apply 1 CONTENT_CHANGED", "a|x|z|"),
        ("base x|y|z|; plan 1 1~3 x|y|Z|; plan 2 2 N; apply 1 ok; apply 2 ok", "x|N|Z|"),
        # an empty file
        ("base -; plan 1 ~ A; plan 2 ~ B; apply 1 ok; apply 2 CONTENT_CHANGED", "A|"),
        # others made the very edit, wholly or in part: it is not made twice
        ("base x|y|z|; plan 1 2 y|n|; write x|y|n|z|; apply 1 CONTENT_CHANGED", "x|y|n|z|"),
        ("base x|y|z|; plan 1 2 n|y|; write x|n|y|z|; apply 1 CONTENT_CHANGED", "x|n|y|z|"),
        ("base x|y|; after 1 1 n|m; write x|n|m|y|; apply 1 CONTENT_CHANGED", "x|n|m|y|"),
        ("base x|y|; edit 1 x|n| ok; write x|n|y|; edit 2 y|m| ok", "x|n|y|m|"),
        ("base x|y|; write x|n|y|; edit 1 x|n| STALE_READ", "x|n|y|"),
        ("base x|n|y|; plan 1 1 x|n|; write x|n|y|z|; apply 1 ok", "x|n|n|y|z|"),
        ("base x|y|; after 1 1 n; after 2 1 n; apply 1 ok; apply 2 CONTENT_CHANGED", "x|n|y|"),
        ("base x|y|; after 1 1 n; after 2 1 m; apply 1 ok; apply 2 ok", "x|m|n|y|"),
        # others wrote as well
        ("base x|x|; plan 1 1 A; plan 2 2 B; write x|x|x|; apply 1 AMBIGUOUS_MATCH", "x|x|x|"),
        ("base a|x|b|; plan 1 2 A; write n|a|x|b|; plan 2 1 N; apply 2 ok; apply 1 ok", "N|a|A|b|"),
        ("base a|x|b|; plan 1 1 A; plan 2 2 X; apply 1 ok; write A|x|c|; apply 2 ok", "A|X|c|"),
        ("base x|x|; edit 1 A ok; write A|n|x|; edit 2 B STALE_READ", "A|n|x|"),
        ("base x|x|; edit 1 A ok; write x|x|; edit 2 B ok; edit 1 C ok", "C|B|"),
        # between conflict markers, whoever wrote them; around them as ever
        ("base a|b|c|d|; plan 1 3 C; plan 2 4 D; write a|b|<<<<<<<|c|=======|x|>>>>>>>|d|; apply 1 CONTENT_CHANGED; apply 2 ok", "a|b|<<<<<<<|c|=======|x|>>>>>>>|D|"),
        ("base a|b|c|d|; plan 1 3 C; plan 2 1 A; edit 3 <<<<<<<|c|=======|x|>>>>>>>| ok; apply 1 CONTENT_CHANGED; apply 2 ok", "A|b|<<<<<<<|c|=======|x|>>>>>>>|d|"),
        ("base a|b|c|d|; plan 1 3 C; plan 2 1 A; apply 2 ok; over A|b|<<<<<<<|c|=======|x|>>>>>>>|d|; apply 1 CONTENT_CHANGED", "A|b|<<<<<<<|c|=======|x|>>>>>>>|d|"),
        ("base a|b|<<<<<<<|c|=======|x|>>>>>>>|d|; plan 1 4 C; plan 2 1 A; apply 2 ok; apply 1 ok", "A|b|<<<<<<<|C|=======|x|>>>>>>>|d|"),
        # lines that an edit only repeats may change, and what they became stays
        ("base a|b|c|d|; plan 1 1~3 A|b|c|; write a|b|C|d|; apply 1 ok", "A|b|C|d|"),
        ("base a|b|c|d|; plan 1 1~4 a|b|c|D|; write A|b|c|d|; apply 1 ok", "A|b|c|D|"),
        ("base a|b|c|d|; plan 1 1~4 a|b|n|c|d|; write A|b|c|D|; apply 1 ok", "A|b|n|c|D|"),
        ("base a|b|c|d|e|; plan 1 1~5 a|b|d|e|; write A|b|c|d|E|; apply 1 ok", "A|b|d|E|"),
        ("base a|b|c|d|; plan 1 1~3 A|b|c|; write a|b|x|c|d|; apply 1 ok", "A|b|x|c|d|"),
        ("base a|b|c|d|; plan 1 1~3 A|b|c|; plan 2 3 C; apply 2 ok; apply 1 ok", "A|b|C|d|"),
        ("base a|b|c|d|; write a|b|C|d|; edit 1~3 A|b|c| ok", "A|b|C|d|"),
        # but not those next to the change, nor the changed ones
        ("base a|b|c|d|; plan 1 1~3 A|b|c|; write a|B|c|d|; apply 1 CONTENT_CHANGED", "a|B|c|d|"),
        ("base a|b|c|d|; plan 1 1~3 A|b|c|; write x|b|C|d|; apply 1 CONTENT_CHANGED", "x|b|C|d|"),
        ("base a|b|c|d|; plan 1 1~4 a|b|n|c|d|; write A|b|n|c|D|; apply 1 CONTENT_CHANGED", "A|b|n|c|D|"),
        # copydesk's own edits after a foreign write are followed exactly
        ("base h|f|a|x|b|x|c|t|; write H|f|a|x|b|x|c|t|; edit 3 A ok; edit 4 Y ok; edit 5 B ok; edit 7 C ok; edit 6 Z ok", "H|f|A|Y|B|Z|C|t|"),
        ("base h|f|x|x|x|x|t|; write h|n|f|x|x|x|x|t|; edit 3 - ok; edit 6 D|D| ok; edit 4 B ok; edit 5 C ok; edit 2 F ok", "h|n|F|B|C|D|D|t|"),
        ("base h|x|x|x|t|; plan 1 2 A; plan 2 3 B; plan 3 4 C; write H|x|x|x|t|; apply 1 ok; apply 3 ok; apply 2 ok", "H|A|B|C|t|"),
        ("base h|x|x|t|; write H|x|x|t|; edit 2 A ok; edit 2 C STALE_READ; edit 3 B ok", "H|A|B|t|"),
        ("base h|x|x|t|; write H|x|x|t|; edit 2 - ok; edit 2 C STALE_READ; edit 3 B ok", "H|B|t|"),
    ],
)  # fmt: skip
def test_hunks_of_one_text(desk: OpenWorkspace, tmp_path: Path, steps: str, expected: str) -> None:
    check_steps(desk, tmp_path / "f", steps, expected)


@pytest.mark.parametrize(
    ("lang", "reason"),
    [("en", "its lines are between conflict markers now"), ("zh", "相关行现处于冲突标记之间")],
)
def test_conflict_markers_are_told_as_such(
    desk: OpenWorkspace, tmp_path: Path, lang: str, reason: str
) -> None:
    (tmp_path / "f").write_text("a\nb\nc\n")
    asked = {"path": "f", "range": "2", "content": "B\n"}
    hunk = outcome(desk, "prepare_file_range_edit", **asked)["hunk_id"]
    other = tmp_path / "other"
    other.write_text("a\n<<<<<<< ours\nb\n=======\nx\n>>>>>>> theirs\nc\n")
    other.replace(tmp_path / "f")
    told = desk.call("local", "apply_file_modification", {"hunk_id": hunk}, lang=lang)
    assert told.is_error
    assert reason in told.text


@pytest.mark.parametrize("tool", ["prepare_file_range_edit", "prepare_file_insert_after"])
@pytest.mark.parametrize("where", ["g", "no/g"])
def test_a_version_counts_for_the_file_that_it_was_read_of(
    desk: OpenWorkspace, tmp_path: Path, where: str, tool: str
) -> None:
    """A version of another file tells nothing of it and plans nothing on it."""
    (tmp_path / "no").mkdir()
    (tmp_path / where).write_text("x secret\nx words\n")
    (tmp_path / "f").write_text("x 1\nx words\n")
    version = outcome(desk, "read_file", path=where)["version"]
    own = {"range": "1"} if tool.endswith("edit") else {"anchor": "x"}
    args = {"path": "f", **own, "content": "new\n", "version": version}
    report = desk.call("ann", tool, args)
    told = (report.data["error"], report.data["reason"])
    assert told == ("STALE_READ", "that version is not remembered")
    assert "secret" not in report.text
    if tool.endswith("edit"):
        assert "1\tx 1" in report.text  # its own lines, which the member may read
    outcome(desk, "read_file", path="f")
    (tmp_path / "f").write_text("x secret\nx words\n")  # now it was seen there as well
    outcome(desk, "read_file", path="f")
    (tmp_path / "f").write_text("x secret\nx words\nmore\n")
    assert desk.call("ann", tool, args).data["status"] != "STALE_READ"


def test_a_version_counts_under_every_name_of_a_link(desk: OpenWorkspace, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\nb\n")
    (tmp_path / "link").symlink_to("f")
    version = outcome(desk, "read_file", path="link")["version"]
    (tmp_path / "other").write_text("new\na\nb\n")
    (tmp_path / "other").replace(tmp_path / "f")
    args = {"path": "f", "range": "2", "content": "B\n", "version": version, "apply": "auto"}
    assert outcome(desk, "prepare_file_range_edit", **args)["changed"]
    assert (tmp_path / "f").read_text() == "new\na\nB\n"


@pytest.fixture(params=["sqlite", "redis"])
def bases(request: pytest.FixtureRequest, tmp_path: Path) -> Snapshots:
    if request.param == "redis":
        return RedisSnapshots(connections(request)()[0], 1 << 20)
    return SqliteSnapshots(Database(StateFile(str(tmp_path / "x.sqlite"))))


def test_a_text_is_found_where_it_was_seen(bases: Snapshots) -> None:
    one, two = Snapshot.of(b"one\n"), Snapshot.of(b"two\n")
    for text, at in ((one, PATH), (two, OTHER), (two, PATH)):
        bases.keep(text, at)
    for asked in (one.version, one.digest):
        found = [bases.find(asked, None, at) for at in (PATH, OTHER, None)]
        assert found == [one, None, one]
    assert bases.find(two.version, None, PATH) == bases.find(two.version, None, OTHER) == two


@pytest.mark.slow
def test_where_texts_were_seen_is_bounded(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("copydesk.desk.backends.redis.MOST_SEEN", 64)
    monkeypatch.setattr("copydesk.desk.backends.snapshots.MOST_SEEN", 64)
    text = Snapshot.of(b"one\n")
    on_server = RedisSnapshots(connections(request)()[0], 1 << 20)
    for bases in (SqliteSnapshots(Database()), on_server):
        for i in range(200):
            bases.keep(text, RelPath((f"{i}.txt",)))
        paths = [RelPath((f"{i}.txt",)) for i in range(200)]
        there = [bases.find(text.version, None, path) is not None for path in paths]
        assert there[-1]
        assert not any(there[:100])
        assert sum(there) <= 64


def test_where_a_text_was_seen_goes_with_it() -> None:
    bases = SqliteSnapshots(Database(most_bytes=200_000), 200_000)
    gone = Snapshot.of(b"one\n")
    bases.keep(gone, PATH)
    for _ in range(20):
        bases.keep(Snapshot.of(os.urandom(10_000).hex().encode()), OTHER)
    assert bases.find(gone.version, None, None) is None
    bases.keep(gone, OTHER)
    assert bases.find(gone.version, None, OTHER) == gone
    assert bases.find(gone.version, None, PATH) is None


@pytest.fixture(params=["memory", "sqlite", "redis"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Records]:
    """All journals."""
    made: Records = SqliteRecords(Database())
    if request.param == "sqlite":
        made = SqliteRecords(Database(StateFile(str(tmp_path / "state.sqlite"))))
    elif request.param == "redis":
        made = RedisRecords(*connections(request)())
    yield made
    made.close()


def written(journal: Records, links: str) -> None:
    """Entries from `0>1 1>2 2>3! 3>4?`: `!` failed, `?` still open; `b:` for the other file."""
    for word in links.split():
        path, _, link = word.rpartition(":")
        state: State = "failed" if link.endswith("!") else "done"
        before, after = link.rstrip("!?").split(">")
        entry = Entry(
            time_ms=1,
            member="ann",
            tool="tool",
            path=OTHER if path else PATH,
            kind="edit" if before else "create",
            before=before,
            after=after,
            inverse=ChangeSet.of(1, [Edit(0, 1, link.rstrip("!?").encode())]),
            diff=b"",
        )
        edit_id = journal.open(entry)
        if not link.endswith("?"):
            journal.close_all([edit_id], state)


@pytest.mark.parametrize(
    ("links", "asked", "expected"),
    [
        ("", "0>1", None),
        ("0>1", "0>1", "0>1"),
        ("0>1 1>2 2>3", "0>3", "0>1 1>2 2>3"),
        ("0>1 1>2 2>3", "1>3", "1>2 2>3"),
        ("0>1 1>2 2>3", "0>2", "0>1 1>2"),
        ("0>1 1>2 2>3", "3>0", None),
        ("0>1 b:1>2", "0>2", None),
        ("0>1 b:5>6 1>2", "0>2", "0>1 1>2"),
        # what failed, what is open
        ("0>1 1>2! 1>3", "0>3", "0>1 1>3"),
        ("0>1 1>2!", "0>2", None),
        ("0>1 1>2?", "0>2", "0>1 1>2"),
        ("0>1 1>2?", "0>1", "0>1"),
        ("0>1 1>9? 1>2", "0>2", "0>1 1>2"),
        # another program in between, and one that took it back
        ("0>1 2>3", "0>3", None),
        ("0>1 1>2 1>3", "0>3", None),
        ("0>1 1>0 0>1", "0>1", "0>1"),
        ("0>1 1>2 2>1 1>3", "0>3", "0>1 1>2 2>1 1>3"),
        # nothing is before a creation
        (">1 1>2", "0>2", None),
        (">1 1>2", "1>2", "1>2"),
        # back to what another program left
        ("0>1 2>3 3>4", ">4", "2>3 3>4"),
        ("0>1 2>3 2>4! 3>5", ">5", "2>3 3>5"),
        ("0>1 1>2", ">2", "0>1 1>2"),
        ("0>1 1>2", ">3", None),
    ],
)
def test_a_chain(journal: Records, links: str, asked: str, expected: str | None) -> None:
    written(journal, links)
    found = journal.chain(PATH, *asked.split(">"))
    spelled = None if found is None else " ".join(c.edits[0].new.decode() for c in found)
    assert spelled == expected


@pytest.mark.slow
def test_a_chain_is_bounded(journal: Records) -> None:
    written(journal, " ".join(f"{i}>{i + 1}" for i in range(CHAIN_LENGTH + 1)))
    found = journal.chain(PATH, "1", str(CHAIN_LENGTH + 1))
    assert found is not None
    assert len(found) == CHAIN_LENGTH
    assert journal.chain(PATH, "0", str(CHAIN_LENGTH + 1)) is None


def tagged(length: int, steps: list[ChangeSet]) -> list[int | None]:
    """The bytes of the last text: which of the first one's each is, None for a new one."""
    tags: list[int | None] = list(range(length))
    for change in steps:
        new: list[int | None] = []
        at = 0
        for edit in change.edits:
            new += [*tags[at : edit.start], *[None] * len(edit.new)]
            at = edit.stop
        tags = new + tags[at:]
    return tags


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[bytes], list[ChangeSet]]:
    """Texts of few different lines, each made of the one before."""
    texts = [draw(st.lists(st.sampled_from([b"x\n", b"\n", b"y\n"]), max_size=8).map(b"".join))]
    steps: list[ChangeSet] = []
    for _ in range(draw(st.integers(0, 4))):
        steps.append(draw(changes(texts[-1], most=2)))
        texts.append(steps[-1].apply(texts[-1]))
    return texts, steps


def inverses(texts: list[bytes], steps: list[ChangeSet]) -> tuple[ChangeSet, ...]:
    return tuple(step.invert(text) for step, text in zip(steps, texts, strict=False))


@given(histories(), st.data())
@pytest.mark.slow
def test_a_span_is_followed_exactly(
    case: tuple[list[bytes], list[ChangeSet]], data: st.DataObject
) -> None:
    """Just when its bytes stand together in every text since, and to where they stand."""
    texts, steps = case
    start = data.draw(st.integers(-1, len(texts[0])))
    stop = data.draw(st.integers(start + 1, len(texts[0]) + 1))
    found = follow(start, stop, inverses(texts, steps))
    ours = [-1, *range(len(texts[0])), len(texts[0])][start + 1 : stop + 1]
    at: int | None = start
    for count in range(len(steps) + 1):
        tags = [-1, *tagged(len(texts[0]), steps[:count]), len(texts[0])]
        at = tags.index(ours[0]) - 1 if ours[0] in tags else None
        if at is None or tags[at + 1 : at + 1 + len(ours)] != ours:
            at = None
            break
    assert (found.start if isinstance(found, Followed) else None) == at


def relocated(
    place: Place, base: Snapshot, now: Snapshot, known: tuple[ChangeSet, ...]
) -> Place | None:
    try:
        return relocate(place, base, now, known)
    except (AmbiguousMatch, ContentChanged):
        return None


@st.composite
def twins(draw: st.DrawFn) -> tuple[Snapshot, RangeEdit, RangeEdit]:
    """A text full of twins, its last line ended or not, and two edits that share no line."""
    lines = draw(st.lists(st.sampled_from(["x", "", "y"]), min_size=2, max_size=8))
    text = "\n".join(lines) + "\n" * draw(st.integers(0, 1))
    base = Snapshot.of(text.encode())
    if base.line_count < 2:
        base = Snapshot.of(b"x\nx\n")
    marks = draw(
        st.lists(st.integers(0, base.line_count), min_size=3, max_size=4, unique=True).map(sorted)
        if base.line_count > 2
        else st.just([0, 1, 2])
    )
    spans = (marks[0], marks[1]), (marks[-2], marks[-1])
    content = st.lists(st.sampled_from(["x\n", "\n", "y\n", "z\n"]), max_size=3).map("".join)
    one, two = (RangeEdit(PATH, f"{a + 1}~{b}", draw(content)) for a, b in spans)
    return base, one, two


@given(twins())
def test_two_that_share_no_line_converge(case: tuple[Snapshot, RangeEdit, RangeEdit]) -> None:
    base, *edits = case
    ends: list[bytes] = []
    for first, second in (edits, edits[::-1]):
        draft = compose(first, base, first.locate(base))
        now = draft.after
        place = relocate(second.locate(base), base, now, (draft.change.invert(base.data),))
        there = base.raw(*second.locate(base).foot or ())
        assert now.raw(place.start, place.stop).rstrip() == there.rstrip()
        ends.append(compose(second, now, place).after.data)
    assert ends[0] == ends[1]


@given(histories(), st.data())
def test_parts_are_followed_each_and_keep_their_order(
    case: tuple[list[bytes], list[ChangeSet]], data: st.DataObject
) -> None:
    texts, steps = case
    base, now, known = Snapshot.of(texts[0]), Snapshot.of(texts[-1]), inverses(texts, steps)
    if base.line_count < 2 or base.digest == now.digest:
        return
    marks = sorted(data.draw(st.sets(st.integers(0, base.line_count), min_size=2)))
    parts = tuple(pairwise(marks))
    each = [relocated(Place(a, b, (a, b)), base, now, known) for a, b in parts]
    whole = relocated(of_parts(parts), base, now, known)
    if None in each:
        assert whole is None
    elif whole is not None:
        assert list(whole.parts) == [(p.start, p.stop) for p in each if p]
        for (a, b), (c, d) in zip(parts, whole.parts, strict=True):
            assert base.keys[a:b] == now.keys[c:d]
        assert all(one[1] <= other[0] for one, other in pairwise(whole.parts))
