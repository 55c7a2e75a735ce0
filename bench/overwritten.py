"""Edits that other programs overwrite: how many are told, missed, and told falsely.

    python -m bench.overwritten [REPOSITORY ...] [--edits N] [--seed N] [--only KIND]

Edits are the changes of real commits (of this repository unless others are named), place by place.
*stale*: a program saves what it read before the last edits, 0.1 to 60 seconds after them, mostly
with lines of its own; all of these edits have to be told, and no other one. *going on*: other
programs write what they read just before, as formatters and people do: indented otherwise, with
parts moved, with lines of the next commit; nothing may be told of which lines are there. *a day*:
names are replaced as `sed` and editors do, and git stashes (also where it converts line ends),
checks out, merges and rebases; nothing may be told at all. The clock is set on, so that nothing
waits.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path

from copydesk.app.config import Config
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.desk.outcome import Applied, Planned
from copydesk.edit.kinds.patch import patch_of
from copydesk.edit.request import Terms
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot

HERE = Path(__file__).resolve().parent.parent
MOST_BYTES = 100_000
MOST_EDITS = 4  # between two saves


@dataclass(frozen=True)
class Revision:
    """A file before and after a commit."""

    path: str
    old: str
    new: str


def git(repository: Path, *words: str) -> bytes:
    ran = subprocess.run(["git", "-C", str(repository), *words], capture_output=True, check=True)
    return ran.stdout


def revisions(repository: Path, rng: random.Random, most: int) -> Iterator[Revision]:
    """Yield text files before and after commits, in a random order."""
    commits = git(repository, "log", "--no-merges", "--format=%H", "-n", "3000").split()
    rng.shuffle(commits)
    count = 0
    for commit in (one.decode() for one in commits):
        names = git(
            repository,
            "diff-tree",
            "--no-commit-id",
            "--diff-filter=M",
            "--name-only",
            "-r",
            commit,
        )
        for name in names.decode(errors="replace").splitlines()[:8]:
            try:
                old = git(repository, "show", f"{commit}~:{name}").decode()
                new = git(repository, "show", f"{commit}:{name}").decode()
            except (subprocess.CalledProcessError, UnicodeDecodeError):
                continue
            is_text = "\0" not in old + new and "\r" not in old + new
            if old != new and is_text and len(old) + len(new) < MOST_BYTES:
                yield Revision(name, old, new)
                count += 1
        if count >= most:
            return


@dataclass
class Tally:
    """What came of the edits of one kind of case."""

    cases: int = 0
    edits: int = 0
    told: int = 0
    missed: int = 0
    false: int = 0
    examples: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        return (
            f"{self.cases} cases, {self.edits} edits; "
            f"told {self.told}, missed {self.missed}, false {self.false}"
        )


class Room:
    """A workspace with one file for each case."""

    def __init__(self, root: Path) -> None:
        self.root, self.now_ms = root, 1_700_000_000_000
        self.opened: OpenWorkspace = open_workspace(
            str(root), Config(durability="fast"), shared=False, clock=lambda: self.now_ms
        )
        self.member = self.opened.member("local")
        self._count = 0

    def new_file(self, text: str) -> Path:
        """A file with this text, which no case had before."""
        self.now_ms += 3_600_001  # the edits of the cases before are too old to be looked at
        self._count += 1
        path = self.root / f"{self._count}.txt"
        path.write_text(text)
        return path

    def edit(self, path: Path, start: int, stop: int, lines: list[str]) -> int:
        """Replace lines by an edit of the desk; its id."""
        base = Snapshot.of(path.read_bytes())
        span = base.start(start), base.start(stop)
        change = ChangeSet.of(base.size, [Edit(*span, "".join(lines).encode())])
        request = patch_of(RelPath.parse(path.name), base, change, created=False)
        done = self.opened.desk.prepare(self.member, "apply_diff", request, Terms(auto=True))
        if isinstance(done, Planned):  # it looks like a slip
            done = self.opened.desk.apply(self.member, "apply_file_modification", done.id)
        assert isinstance(done, Applied), done
        return done.edit_id

    def told(self) -> set[int]:
        """The edits that the next answer tells."""
        self.opened.desk.overwrites.look()
        review = self.opened.desk.review
        news = [decision for decision, _ in review.news(self.member)]
        review.tell(news)
        return {-decision.plan[1] for decision in news if decision.verdict == "overwritten"}


Change = tuple[int, int, list[str]]


def changes_of(revision: Revision) -> list[Change]:
    """The places that a commit changes, from the last to the first."""
    old, new = (text.splitlines(keepends=True) for text in (revision.old, revision.new))
    codes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    found = [(i, j, new[a:b]) for tag, i, j, a, b in codes if tag != "equal"]
    return found[::-1]


def kinds_of(old: list[str], new: list[str]) -> str:
    if not "".join(new).strip():
        return "only blank lines, or none"
    return "new lines" if not old else "lines changed"


def typed(text: str, rng: random.Random, apart: list[Change]) -> str:
    """The text with a line of a person's own, not at the places of the changes."""
    lines = text.splitlines(keepends=True)
    free = [at for at in range(len(lines)) if all(not i - 2 <= at <= j + 2 for i, j, _ in apart)]
    if not free:
        return text
    at = rng.choice(free)
    lines[at] = f"{lines[at].rstrip()} typed meanwhile {rng.randrange(1000)}\n"
    return "".join(lines)


def stale(room: Room, rng: random.Random, revision: Revision, tally: Tally) -> None:
    """Some edits, and then the save of a buffer that was read before some of them."""
    changes = changes_of(revision)[:MOST_EDITS]
    path = room.new_file(revision.old)
    since = rng.randrange(len(changes))
    buffer, ids, kinds = "", list[int](), list[str]()
    for index, change in enumerate(changes):
        if index == since:
            buffer = path.read_text()
        lines = path.read_text().splitlines(keepends=True)
        ids.append(room.edit(path, *change))
        kinds.append(kinds_of(lines[change[0] : change[1]], change[2]))
        room.now_ms += rng.randrange(100, 2_000)
    if rng.random() < 0.5:
        assert not room.told(), "nobody has written"
    room.now_ms += rng.randrange(100, 60_000)
    own = typed(buffer, rng, changes) if rng.random() < 0.6 else buffer
    if rng.random() < 0.5:
        path.write_text(own)
    else:
        beside = path.with_name("saved")
        beside.write_text(own)
        beside.replace(path)
    told, lost = room.told(), set(ids[since:])
    tally.cases += 1
    tally.edits += len(ids)
    tally.told += len(told & lost)
    tally.missed += len(lost - told)
    tally.false += len(told - lost)
    for one in lost - told:
        at = ids.index(one)
        how = "exactly" if own == buffer else "typed"
        tally.examples.append(f"missed ({how}): {kinds[at]}: {changes[at][2][:3]}")


def indented(text: str, _: random.Random) -> str:
    return re.sub(r"^(?=[^\n])", "    ", text, flags=re.MULTILINE)


def tabbed(text: str, _: random.Random) -> str:
    return re.sub(r"^( {2,4})+", lambda found: "\t" * (len(found[0]) // 2), text, flags=re.M)


def swapped(text: str, rng: random.Random) -> str:
    """Two halves, parted at a blank line, change places."""
    parts = text.split("\n\n")
    at = rng.randrange(len(parts))
    return "\n\n".join(parts[at:] + parts[:at])


def wrapped(text: str, _: random.Random) -> str:
    """Long lines are broken after commas and opening brackets."""
    return re.sub(r"(?<=[(,]) ?(?=\S.{20})", "\n        ", text)


def quoted(text: str, _: random.Random) -> str:
    return text.replace('"', "'")


def spaced(text: str, _: random.Random) -> str:
    return re.sub(r"\s*([=+*<>-]+)\s*(?=\S)", r" \1 ", text)


FORMATTERS: tuple[Callable[[str, random.Random], str], ...] = (
    *(indented, tabbed, swapped, wrapped, quoted, spaced),
)


def going_on(room: Room, rng: random.Random, revision: Revision, tally: Tally) -> None:
    """Some edits; then others write on, over what they have read of them."""
    changes = changes_of(revision)
    path = room.new_file(revision.old)
    mine = [change for change in changes if rng.random() < 0.7][:MOST_EDITS] or changes[:1]
    written: dict[int, list[str]] = {}
    for change in mine:
        written[room.edit(path, *change)] = change[2]
    told: set[int] = set()
    if rng.random() < 0.5:
        told |= room.told()
    for _ in range(rng.randrange(1, 4)):
        room.now_ms += rng.randrange(1_000, 300_000)
        text = path.read_text()
        is_laid_out = rng.random() < 0.5
        path.write_text(rng.choice(FORMATTERS)(text, rng) if is_laid_out else typed(text, rng, []))
        told |= room.told()
    if rng.random() < 0.5:
        path.write_text(revision.new)  # the rest of the commit, as another program makes it
        told |= room.told()
    now = Counter("".join(path.read_text().split()))
    there = re.sub(r"\W", "", path.read_text())
    tally.cases += 1
    tally.edits += len(written)
    tally.told += len(told)
    for edit_id in told:
        lines = [re.sub(r"\W", "", line) for line in written[edit_id]]
        left = [line for line in lines if line and line in there]
        if 2 * len(left) >= len([line for line in lines if line]) and now:
            tally.false += 1
            tally.examples.append(f"false: {written[edit_id][:3]}")


def renamed(text: str, rng: random.Random, lines: list[str]) -> str:
    """The text with one or two words of these lines replaced wherever they are."""
    words = sorted(set(re.findall(r"[A-Za-z_]\w{2,}", "".join(lines))))
    for word in rng.sample(words, min(len(words), rng.randrange(1, 3))):
        text = re.sub(rf"\b{word}\b", f"{word[0]}{rng.randrange(1000)}_other", text)
    return text


def a_day(room: Room, rng: random.Random, revision: Revision, tally: Tally) -> None:
    """Some edits in a repository, and what people do with git and with names."""
    if not (room.root / ".git").exists():
        git(room.root, "init", "-q", "-b", "main")
        for name, value in (("user.name", "a"), ("user.email", "a@b"), ("gc.auto", "0")):
            git(room.root, "config", name, value)
        ignored = ".copydesk/\n.gitattributes\n"
        (room.root / ".gitignore").write_text(ignored)
        git(room.root, "add", ".gitignore")
        git(room.root, "commit", "-qm", "first")
    kind = rng.choice(("renamed", "stash", "stash", "branch", "merge", "rebase"))
    is_crlf = rng.random() < 0.5
    end = "\r\n" if is_crlf else "\n"
    (room.root / ".gitattributes").write_text("*.txt text eol=crlf\n" if is_crlf else "")
    path = room.new_file("")
    path.write_bytes(revision.old.replace("\n", end).encode())
    git(room.root, "add", path.name)
    git(room.root, "commit", "-qm", "old")
    if kind in ("merge", "rebase"):
        git(room.root, "checkout", "-qb", "theirs")
        path.write_bytes(typed(path.read_bytes().decode(), rng, []).encode())
        git(room.root, "commit", "-qam", "theirs")
        git(room.root, "checkout", "-q", "main")
    elif kind == "branch":
        git(room.root, "checkout", "-qb", "work")
    lines: list[str] = []
    for start, stop, new in changes_of(revision)[:MOST_EDITS]:
        room.edit(path, start, stop, [line.replace("\n", end) for line in new])
        lines += new
        tally.edits += 1
    told = room.told()
    match kind:
        case "renamed":
            text = path.read_bytes().decode()
            path.write_bytes(renamed(text, rng, lines).encode())
        case "stash":
            git(room.root, "stash", "-q")
            told |= room.told()
            with suppress(subprocess.CalledProcessError):  # all changes were of line ends
                git(room.root, "stash", "pop", "-q")
        case "branch":
            git(room.root, "commit", "-qam", "work")
            git(room.root, "checkout", "-q", "main")
            told |= room.told()
            git(room.root, "checkout", "-q", "work")
        case _:
            git(room.root, "commit", "-qam", "ours")
            with suppress(subprocess.CalledProcessError):  # a conflict
                git(room.root, kind, "-q", "theirs")
            told |= room.told()
            with suppress(subprocess.CalledProcessError):
                git(room.root, kind, "--abort")
    told |= room.told()
    git(room.root, "commit", "-qam", "the end of it", "--allow-empty")
    git(room.root, "checkout", "-qf", "-B", "main")
    with suppress(subprocess.CalledProcessError):
        git(room.root, "branch", "-qD", "theirs" if kind in ("merge", "rebase") else "work")
    tally.cases += 1
    tally.false += len(told)
    tally.examples += [f"false ({kind}, {'CRLF' if is_crlf else 'LF'}): {lines[:3]}"] * bool(told)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("repositories", nargs="*", type=Path, default=[HERE])
    parser.add_argument("--edits", type=int, default=1_000)
    parser.add_argument("--only", default="", help="one kind of case")
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    failed = False
    for repository in options.repositories:
        found = [*revisions(repository, rng, options.edits)]
        for name, case in (("stale", stale), ("going on", going_on), ("a day", a_day)):
            if options.only not in ("", name):
                continue
            tally = Tally()
            with tempfile.TemporaryDirectory() as folder:
                room = Room(Path(folder))
                with room.opened:
                    for revision in found:
                        case(room, rng, revision, tally)
                        if tally.edits >= options.edits:
                            break
            print(f"{repository.name}, {name}: {tally}")
            for kind, count in Counter(one[:40] for one in tally.examples).most_common(8):
                print(f"  {count} × {kind}")
            for one in tally.examples[:12]:
                print(f"    {one}"[:200])
            failed |= bool(tally.false)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
