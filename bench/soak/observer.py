"""The observer of a soak compares the answers that writers got with the files and the journal.

Invariant: nothing here calls copydesk. This module itself applies diffs, computes digests and
compares states, on data that was read elsewhere.
"""

from __future__ import annotations

import difflib
import hashlib
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Literal

Status = Literal["sent", "ok", "refused", "waiting", "unsure"]
"""What is known of a token: it was sent; reported as written; reported as not written; part of a
pending plan; or unsure, because no answer came or the answer does not know either."""

Approved = Mapping[str, Set[tuple[str, str]]]
"""By folder: the digests before and after that people were shown and agreed to."""

TOKEN: Final = re.compile(r"\b[AFP][0-9]+-[0-9]{6}\b")
_SECTION: Final = re.compile(r"\[(\w+) (f[0-9]+)\]")
_HUNK: Final = re.compile(r"@@ -([0-9]+)(?:,([0-9]+))? \+([0-9]+)(?:,([0-9]+))? @@")
_FOREIGN: Final = "foreign_write"
_CARRIED, _NEAR, _FAR, _MOST_AHEAD = (2,), 6, 24, 300


@dataclass(slots=True)
class Token:
    """A written line: its writer, operation, and the answers about it."""

    name: str
    operation: str
    status: Status = "sent"
    edit_id: int = 0
    code: str = ""


class Ledger:
    """The tokens of all writers. The tokens of one operation are all written, or none."""

    def __init__(self) -> None:
        self.tokens: dict[str, Token] = {}
        self._count: Counter[str] = Counter()

    def new(self, writer: str, operation: str = "") -> Token:
        """A new unique token."""
        self._count[writer] += 1
        name = f"{writer}-{self._count[writer]:06}"
        self.tokens[name] = token = Token(name, operation or name)
        return token

    def by_status(self) -> Counter[str]:
        """The number of tokens by their status."""
        return Counter(token.status for token in self.tokens.values())


@dataclass(frozen=True, slots=True)
class LoggedEdit:
    """An entry of the journal as it was read. `before` and `after` are digests, or empty."""

    edit_id: int
    path: str
    state: str
    before: str
    after: str
    diff: str
    tool: str = ""
    group: str = ""
    undoes: int = 0


@dataclass(frozen=True, slots=True)
class ForeignWrite:
    """A write of a foreign program, which logs it before and after it is `done`.

    `text` is the whole new content of a save, or the appended text; `dropped` are the tokens that
    the program removed itself.
    """

    order: int
    path: str
    how: Literal["append", "save", "format"]
    token: str
    text: str
    dropped: tuple[str, ...] = ()
    done: bool = False


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that must not happen; `kind` is its class."""

    kind: str
    words: str


@dataclass(slots=True)
class Judgement:
    """The findings of the observer, and counts of what it checked."""

    findings: list[Violation] = field(default_factory=list[Violation])
    counts: Counter[str] = field(default_factory=Counter[str])

    def found(self, kind: str, words: str) -> None:
        """Record a finding."""
        self.findings.append(Violation(kind, words))


def digest(data: bytes | None) -> str:
    """The digest of a file's bytes; empty if there is no file."""
    return "" if data is None else hashlib.sha256(data).hexdigest()


def lines_of(data: bytes) -> list[str]:
    """The lines of a text with their line ends."""
    return re.findall(r"[^\n]*\n|[^\n]+", data.decode("utf-8", "replace"))


class DiffError(Exception):
    """A diff does not fit its text."""


def apply_diff(before: bytes | None, diff: str) -> bytes | None:
    """Apply a unified diff by its numbers and lines; raises DiffError."""
    old, made, at = lines_of(before or b""), list[str](), 0
    rows = re.findall(r"[^\n]*\n|[^\n]+", diff)
    if any(row.startswith("+++ /dev/null") for row in rows[:6]):
        return None
    left_old = left_new = 0
    for row in rows:
        head = _HUNK.match(row) if not (left_old or left_new) else None
        if head is not None:
            start, left_old = int(head[1]), int(head[2] or 1)
            left_new = int(head[4] or 1)
            start -= 1 if left_old else 0
            made += old[at:start]
            at = start
        elif row.startswith("\\") and made:
            made[-1] = made[-1].removesuffix("\n")
        elif left_old or left_new:
            mark, text = row[:1], row[1:]
            if mark in (" ", "-"):
                if at >= len(old) or old[at].rstrip("\n") != text.rstrip("\n"):
                    raise DiffError(f"line {at + 1} is not {text!r}")
                at, left_old = at + 1, left_old - 1
            if mark in (" ", "+"):
                made.append(old[at - 1] if mark == " " else text)
                left_new -= 1
    return "".join([*made, *old[at:]]).encode()


def undone(current: bytes, edit: LoggedEdit) -> bytes | None:
    """The text without an edit whose new lines occur in it once, in one piece.

    None if the diff alone cannot tell.
    """
    old, new = _piece(edit)
    text = current.decode("utf-8", "replace")
    if not (new and edit.before and edit.after) or text.count(new) != 1:
        return None
    return text.replace(new, old).encode() if f"\n{new}" in f"\n{text}" else None


def without(saved: bytes, edit: LoggedEdit) -> list[bytes]:
    """The texts that the rollback of an edit can make of a save, which may have indented it."""
    rows, (old, new) = lines_of(saved), _piece(edit)
    plain = [row.lstrip(" ") for row in rows]
    lines = lines_of(new.encode())
    wanted = [row.lstrip(" ") for row in lines]
    places = [at for at in range(len(rows)) if plain[at : at + len(lines)] == wanted]
    if not lines or len(places) != 1:
        return []
    head, tail = "".join(rows[: places[0]]), "".join(rows[places[0] + len(lines) :])
    given = [row.lstrip(" ") for row in lines_of(old.encode())]
    ways = {old, "".join(given), "".join(f"  {row}" for row in given)}
    return [f"{head}{way}{tail}".encode() for way in sorted(ways)]


def _piece(edit: LoggedEdit) -> tuple[str, str]:
    """The old and the new lines of an edit; both empty if it has more than one piece."""
    pieces = [mark for mark, _ in itertools.groupby(row[0] in "+-" for row in _rows(edit)) if mark]
    return (_lines(edit, "-"), _lines(edit, "+")) if len(pieces) == 1 else ("", "")


def _lines(edit: LoggedEdit, mark: str) -> str:
    """The old or the new lines of an edit."""
    return "".join(row[1:] for row in _rows(edit) if row[0] == mark)


def _rows(edit: LoggedEdit) -> list[str]:
    rows = re.findall(r"[^\n]*\n", edit.diff)
    return [row for row in rows if not row.startswith(("+++", "---"))]


def judge(
    ledger: Ledger,
    edits: Sequence[LoggedEdit],
    first: Mapping[str, bytes],
    last: Mapping[str, bytes],
    foreign: Iterable[ForeignWrite] = (),
    seen: Mapping[str, bytes] | None = None,
    approved: Approved | None = None,
) -> Judgement:
    """Compare the answers with the files.

    `first` and `last` are the files before and after; `seen` are contents by digest that were read
    meanwhile: they supply the bytes of a state, never the reason for it. `approved` are, for each
    folder where people have to approve edits, the digests before and after to which they agreed.
    """
    return _Judge(ledger, edits, first, last, foreign, seen or {}, approved or {}).verdict()


class _Judge:
    def __init__(
        self,
        ledger: Ledger,
        edits: Sequence[LoggedEdit],
        first: Mapping[str, bytes],
        last: Mapping[str, bytes],
        foreign: Iterable[ForeignWrite],
        seen: Mapping[str, bytes],
        approved: Approved,
    ) -> None:
        self.ledger, self.first, self.last, self.approved = ledger, first, last, approved
        self.edits = sorted(edits, key=lambda edit: edit.edit_id)
        self.by_id = {edit.edit_id: edit for edit in edits}
        self.writes = sorted(foreign, key=lambda write: write.order)
        self.foreign: dict[str, list[ForeignWrite]] = defaultdict(list)
        for write in self.writes:
            self.foreign[write.path].append(write)
        self.known = dict(seen)
        self.known |= {digest(data): data for data in (*first.values(), *last.values())}
        for write in self.writes:
            if write.how != "append":
                self.known[digest(write.text.encode())] = write.text.encode()
        self.saves: dict[tuple[str, str], list[int]] = defaultdict(list)  # places in `foreign`
        for path, writes in self.foreign.items():
            for at, write in enumerate(writes):
                if write.how != "append":
                    self.saves[path, digest(write.text.encode())].append(at)
        self.states: dict[str, bytes | None] = dict(first)
        self.maybe: dict[str, list[bytes | None]] = defaultdict(list)
        self.failed: dict[str, list[LoggedEdit]] = defaultdict(list)  # since the last one done
        self.doubtful: dict[str, set[str]] = defaultdict(set)  # tokens of edits in doubt, by path
        self.overwritten: set[str] = set()  # those that a save without them followed
        self.at: Counter[str] = Counter()
        self.lost: set[str] = set()
        self.present: dict[str, set[str]] = defaultdict(set)
        self.told: set[str] = set()
        self.added: dict[str, set[str]] = defaultdict(set)  # states of the edits that add a token
        self.dropped = {  # other programs read these in a file, and saved it without them
            name for write in self.writes if write.done for name in write.dropped
        }
        self.saved = {  # tokens in the texts that other programs saved
            name
            for write in self.writes
            if write.how != "append"
            for name in TOKEN.findall(write.text)
        }
        self.looked: set[str] = set()
        self.result = Judgement()

    def verdict(self) -> Judgement:
        for path in self.first:
            self._look(path, self.first[path])
        for edit in self.edits:
            self._replay(edit)
        for path in sorted({*self.states, *self.last}):
            self._end(path)
        self._judge_tokens()
        self._judge_groups()
        self._judge_foreign()
        self._judge_approvals()
        counts = self.result.counts
        counts["edits"] = sum(edit.state == "done" for edit in self.edits)
        counts["files"] = len({*self.states, *self.last})
        counts["states"] = len(self.looked)
        counts["foreign writes"] = len(self.writes)
        return self.result

    # The journal, from the first to the last bytes

    def _replay(self, edit: LoggedEdit) -> None:
        if edit.tool == _FOREIGN:
            self.result.counts["foreign writes saved"] += 1
            self.told.update(TOKEN.findall(_lines(edit, "-")))
            return
        path = edit.path
        if not edit.undoes:
            for name in TOKEN.findall(_lines(edit, "+")):
                self.added[name].add(edit.state)
        if edit.state == "failed":
            self.failed[path].append(edit)
            return
        if edit.state != "done":
            self.result.counts[f"edits {edit.state}"] += 1
            if edit.state == "open":
                words = f"edit {edit.edit_id} of {path} is still open"
                self.result.found("not recovered", words)
            if path not in self.lost and digest(self.states.get(path)) != edit.before:
                found = self._explained(path, self._bases(path), edit.before)
                if found is not None:
                    self.maybe.pop(path, None)
                    self._set(path, found)
            self.doubtful[path].update(TOKEN.findall(_lines(edit, "+")))
            state = self._applied(edit, self.states.get(path))
            if state is not None or not edit.after:
                self.maybe[path].append(state)
            return
        if path not in self.lost and digest(self.states.get(path)) != edit.before:
            self._bridge(path, edit.before, f"before edit {edit.edit_id}")
        if path in self.lost and edit.before in self.known:
            self.states[path] = self.known[edit.before]
            self.lost.discard(path)
        if path in self.lost:
            self.result.counts["edits not replayed"] += 1
            return
        state = self._applied(edit, self.states.get(path))
        if digest(state) != edit.after:
            words = f"the diff of edit {edit.edit_id} of {path} does not give its digest"
            self.result.found("torn replay", words)
            state = self.known.get(edit.after)
            if state is None:
                self.lost.add(path)
                return
        self.result.counts["edits replayed"] += 1
        self.maybe.pop(path, None)
        self.doubtful.pop(path, None)
        self.failed.pop(path, None)
        self._set(path, state)

    def _applied(self, edit: LoggedEdit, state: bytes | None) -> bytes | None:
        """The state after an edit; for a move or removal it is found by its digest."""
        if not edit.after:
            return None
        if digest(state) == edit.after:
            return state
        if "\nrename from " in edit.diff or "\n@@" not in edit.diff:
            return self.known.get(edit.after, b"" if edit.after == digest(b"") else None)
        try:
            return apply_diff(state, edit.diff)
        except DiffError:
            return None

    def _bridge(self, path: str, wanted: str, where: str) -> None:
        """Explain the bytes at a path by foreign writes since the last edit."""
        bases = self._bases(path)
        self.maybe.pop(path, None)
        found = self._explained(path, bases, wanted)
        if found is not None or not wanted:
            if wanted or None in bases:
                self.result.counts["gaps explained"] += 1
                self._set(path, found)
                return
            self.result.found("changed unsaid", f"{path} went {where}, and nobody says so")
            self._set(path, None)
            return
        state = self.known.get(wanted)
        words = f"{path} {where} is {wanted[:12]}, and not what was written before"
        if state is not None:
            words += f": {_difference(self.states.get(path) or b'', state)}"
            self._set(path, state)
        else:
            self.lost.add(path)
        self.result.found("changed unsaid", words)

    def _bases(self, path: str) -> list[bytes | None]:
        """The state of a file, and those that it has if edits in doubt were written."""
        return [self.states.get(path), *self.maybe.get(path, [])]

    def _explained(self, path: str, bases: Sequence[bytes | None], wanted: str) -> bytes | None:
        """The bytes with this digest, if foreign writes made them from one of the bases.

        The start is a base or the last save since the last gap, then what was appended later. A
        save that has lines of a failed edit may have been rolled back.
        """
        writes, begin = self.foreign.get(path, []), self.at[path]
        starts = [(base, begin) for base in bases if base is not None]
        most = None if wanted in self.known else _MOST_AHEAD  # what is known is not sought
        ahead = islice(enumerate(writes[begin:], begin), most)
        saves = [(one.text.encode(), at) for at, one in ahead if one.how != "append"]
        found = self._appended_to(path, starts + saves, wanted)
        if found is None and path in self.failed:
            rolled_back = [
                (text, at)
                for edit in self.failed[path]
                for save, at in saves
                for text in without(save, edit)
            ]
            found = self._appended_to(path, rolled_back, wanted)
        later = [at for at in self.saves.get((path, wanted), ()) if at >= begin + _MOST_AHEAD]
        if found is None and later:
            self.at[path] = later[0]
            found = writes[later[0]].text.encode()
        if found is not None:
            doubtful = self.doubtful.pop(path, set())
            passed = [one for one in writes[begin : self.at[path] + 1] if one.how != "append"]
            saved = {one.text.encode() for one in passed} - {self.states.get(path)}
            if any(found.startswith(text) for text in saved):
                self.overwritten |= doubtful
        return found

    def _appended_to(
        self, path: str, starts: Sequence[tuple[bytes, int]], wanted: str
    ) -> bytes | None:
        """The bytes with this digest, if they are one of the starts and what was appended to it."""
        writes = self.foreign.get(path, [])
        known = self.known.get(wanted)
        if known is not None:  # the bytes are known and need no search
            starts = [start for start in starts if known.startswith(start[0])]
        for base, at in starts:
            if digest(base) == wanted:
                self.at[path] = at
                return base
        for base, at in starts:
            stop = len(writes) if known is not None else min(at + _FAR, len(writes))
            here, near = _tokens(base), range(max(at - _NEAR, 0), stop)
            appends = {
                writes[n].text.encode(): n
                for n in near
                if writes[n].how == "append"
                and writes[n].token not in here
                and writes[n].token not in self.present
            }
            made = _appended(base, appends, wanted, known)
            if made is not None:
                used = [n for text, n in appends.items() if text in made[len(base) :]]
                self.at[path] = max([at, *used])
                return made
        return None

    def _end(self, path: str) -> None:
        now = self.last.get(path)
        if path not in self.lost and digest(self.states.get(path)) != digest(now):
            self._bridge(path, digest(now), "at the end")
        self._set(path, now)

    def _set(self, path: str, state: bytes | None) -> None:
        self.states[path] = state
        if state is not None:
            self.known[digest(state)] = state
            self._look(path, state)

    # One state of a file

    def _look(self, path: str, state: bytes) -> None:
        """Record the tokens of a state; each must occur once, in the section named in its line."""
        key = digest(state)
        if key in self.looked:
            return
        self.looked.add(key)
        section = name = ""
        here: set[str] = set()
        for row in lines_of(state):
            if head := _SECTION.search(row):
                section, name = head[1], head[2]
                continue
            for token in TOKEN.findall(row):
                words = row.split()
                if words[:2] != [name, section]:
                    at = f"{path} has it in [{section} {name}]: {row.strip()[:80]!r}"
                    self.result.found("misplaced", f"{token}: {at}")
                if token in here:
                    self.result.found("written twice", f"{token} in {path}")
                here.add(token)
                self.present[token].add(path)

    # The reports

    def _judge_tokens(self) -> None:
        operations: dict[str, list[Token]] = defaultdict(list)
        for token in self.ledger.tokens.values():
            operations[token.operation].append(token)
            is_there = self._was_there(token)
            if token.status == "ok" and not is_there and token.name not in self.overwritten:
                words = f"{token.name} was reported as written (edit {token.edit_id})"
                self.result.found("lost", f"{words} and is in no state of a file")
            elif token.status in ("refused", "waiting") and self._was_written(token):
                words = f"{token.name} ({token.status} {token.code}) is in {self._where(token)}"
                self.result.found("written unsaid", words)
            if token.status == "ok" and token.edit_id:
                edit = self.by_id.get(token.edit_id)
                if edit is None or edit.state not in ("done", "unsure"):
                    state = "missing" if edit is None else edit.state
                    words = f"{token.name}: edit {token.edit_id} was reported, and is {state}"
                    self.result.found("lost", words)
        for name, tokens in operations.items():
            names = [token.name for token in tokens]
            there = [token.name for token in tokens if self._was_written(token)]
            in_doubt = any("unsure" in self.added[name] for name in names)
            if there and len(there) < len(tokens) and not in_doubt:
                words = f"{name}: of {names} only {there} were written"
                self.result.found("half written", words)

    def _was_there(self, token: Token) -> bool:
        return token.name in self.present or token.name in self.dropped

    def _was_written(self, token: Token) -> bool:
        """Whether copydesk wrote it, and not another program that had read a failed write."""
        is_theirs = self.added[token.name] == {"failed"} and token.name in self.saved
        return self._was_there(token) and not is_theirs

    def _where(self, token: Token) -> str:
        return ", ".join(sorted(self.present[token.name]))

    def _judge_groups(self) -> None:
        groups: dict[str, set[str]] = defaultdict(set)
        for edit in self.edits:
            if edit.group:
                groups[edit.group].add(edit.state)
        for group, states in groups.items():
            if {"done", "failed"} <= states:
                words = f"transaction {group} has edits that are {sorted(states)}"
                self.result.found("half written", words)
        self.result.counts["transactions"] = len(groups)

    def _judge_foreign(self) -> None:
        for write in self.writes:
            if not write.token or not write.done:
                continue
            if write.token not in self.present and write.token not in self.told | self.dropped:
                words = f"{write.token} ({write.how}) is neither in {write.path} nor saved"
                self.result.found("foreign write lost", words)

    def _judge_approvals(self) -> None:
        for edit in self.edits:
            agreed = self.approved.get(edit.path.partition("/")[0])
            if agreed is None or edit.state != "done" or edit.tool == _FOREIGN:
                continue
            self.result.counts["edits that people approved"] += 1
            if (edit.before, edit.after) not in agreed:
                bound = f"from {edit.before[:12]} to {edit.after[:12]}"
                words = f"edit {edit.edit_id} of {edit.path} was written {bound}"
                self.result.found("not approved", f"{words}, which nobody was shown")


def _appended(
    base: bytes, texts: Iterable[bytes], wanted: str, known: bytes | None
) -> bytes | None:
    """The base followed by some of the texts, in any order, if that has the digest."""
    if known is not None:
        rest = set(re.findall(rb"[^\n]*\n|[^\n]+", known[len(base) :]))
        return known if rest <= set(texts) else None
    near = list(texts)
    ends = itertools.combinations(range(len(near) + 1), 2)
    runs = [near[begin:end] for begin, end in ends]
    for some in itertools.chain(runs, *(itertools.permutations(near, n) for n in _CARRIED)):
        made = base + b"".join(some)
        if digest(made) == wanted:
            return made
    return None


def _difference(old: bytes, new: bytes) -> str:
    """The first lines of the difference of two states, without context."""
    rows = difflib.unified_diff(lines_of(old), lines_of(new), n=0)
    return repr([row.rstrip("\n") for row in islice(rows, 2, 12)])


def _tokens(data: bytes) -> set[str]:
    return set(TOKEN.findall(data.decode("utf-8", "replace")))
