"""Agents that do one task with different tools: a fixed policy for each set of tools.

Invariants: every agent starts from the same knowledge, is shown the same lines before it changes
them, and changes no line that it was not shown. `Copydesk` talks to the real server. The others are
models; where a tool has several forms, they have the cheapest one.
"""

from __future__ import annotations

import difflib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.contestant import Refused
from bench.field import PROGRAM
from bench.peers.mcp_stdio import Client

Change = Callable[[str], str]
"""An agent's intended edit, as a function of the file's text with LF."""

CONFIGURATION = "copydesk.toml"
TOOLSETS = "edit"
"""The toolsets of the server."""

WRITE = "write_file"
"""Its tool that writes a whole file."""
PLAN = r"\b(?:hunk_id|planned)\W+([0-9a-f]{8})\b"
CONTEXT = 3
"""Lines around a change that a patch has."""


@dataclass(frozen=True)
class Call:
    """A call as a model writes it, and the answer as it reads it."""

    tool: str
    arguments: str
    answer: str


@dataclass(frozen=True)
class Lines:
    """Put `new` in the place of the lines from `first` up to and without `stop`, counted from 0."""

    first: int
    stop: int
    new: tuple[str, ...]


@dataclass
class Seen:
    """An agent's knowledge of a file: its text when read, and the lines shown."""

    data: bytes
    lines: list[str]
    shown: set[int] = field(default_factory=set[int])


class Agent(ABC):
    """One agent in one folder. Subclasses are the sets of tools.

    `offered` is the list of tools with its instructions, `offered_tokens` what it takes, of models.
    """

    name: str
    offered = ""
    offered_tokens = 0

    def __init__(self, root: Path) -> None:
        self.root = root
        self.begin()

    def begin(self) -> None:
        """Forget everything: another task begins."""
        self.calls: list[Call] = []
        self.seen: dict[str, Seen] = {}

    def close(self) -> None:  # noqa: B027 # most have nothing to end
        """End all started processes."""

    # --- looking

    @abstractmethod
    def read(self, path: str, first: int, last: int) -> None:
        """Look at lines, from 1, that the task names."""

    @abstractmethod
    def find(self, pattern: str, path: str, before: int = 0, after: int = 0) -> None:
        """Find a pattern in a file or a folder, and look at the lines around each place."""

    def look_again(self, path: str, change: Change) -> None:
        """After a refusal: look at the lines that are to be changed as they are now."""
        hunks = self.hunks(path, change)
        first, stop = self.around(path, hunks[0])
        self.read(path, first + 1, stop)

    # --- changing

    @abstractmethod
    def change(self, path: str, change: Change) -> bool:
        """Change a file; False when the tool refused, and then the lines were looked at again."""

    @abstractmethod
    def change_all(self, changes: Mapping[str, Change], new: Mapping[str, str]) -> None:
        """Change files and write new ones, all or none as far as the tools can do that."""

    def change_each(self, changes: Mapping[str, Change]) -> None:
        """Change several files, in any number of steps."""
        for path, change in changes.items():
            assert self.change(path, change)

    @abstractmethod
    def append(self, path: str, text: str) -> None:
        """Put lines at the end of a file that nobody looked at yet."""

    def move_end(self, source: str, change: Change, target: str, text: str) -> None:
        """Take lines out of a file, and put them at the end of another that nobody looked at."""
        assert self.change(source, change)
        self.append(target, text)

    @abstractmethod
    def write(self, path: str, text: str) -> None:
        """Write a new file."""

    @abstractmethod
    def rename(self, old: str, new: str, where: str) -> None:
        """Replace a name in a file or a folder; the files that have it were found."""

    def undo(self, path: str, back: Change) -> None:
        """Take back the agent's first change; `back` does it with the text as it is now."""
        self.change(path, back)

    # --- patches in the language of Codex

    def patch(self, changes: Mapping[str, Sequence[Lines]], new: Mapping[str, str]) -> str:
        """The changes of files and the new files as one text."""
        parts = ["*** Begin Patch\n"]
        for path, text in new.items():
            added = "".join(f"+{line}" for line in text.splitlines(keepends=True))
            parts.append(f"*** Add File: {path}\n{added}")
        for path, hunks in changes.items():
            parts += [f"*** Update File: {path}\n", *self.chunks(path, hunks)]
        return "".join((*parts, "*** End Patch"))

    def chunks(self, path: str, hunks: Sequence[Lines]) -> Iterable[str]:
        """Each place with the lines around it that were shown; near ones are one chunk."""
        lines = self.seen[path].lines
        end = -1
        for at, hunk in enumerate(hunks):
            first, stop = self._patched(path, hunk)
            if first > end:
                yield "@@\n"
                end = first
            following = hunks[at + 1].first if at + 1 < len(hunks) else len(lines)
            stop = min(stop, following)
            yield from (f" {line}" for line in lines[max(first, end) : hunk.first])
            yield from (f"-{line}" for line in lines[hunk.first : hunk.stop])
            yield from (f"+{line}" for line in hunk.new)
            yield from (f" {line}" for line in lines[hunk.stop : stop])
            end = stop

    def _patched(self, path: str, hunk: Lines) -> tuple[int, int]:
        shown = self.seen[path].shown
        least, most = self.around(path, hunk)
        first, stop = hunk.first, hunk.stop
        while first > least and first - 1 in shown:
            first -= 1
        while stop < most and stop in shown:
            stop += 1
        return first, stop

    # --- the agent's knowledge

    def knows(self, path: str, shown: Iterable[int]) -> None:
        """Record the shown lines of a file, by index."""
        data = (self.root / path).read_bytes()
        known = self.seen.get(path)
        if known is None or known.data != data:
            known = self.seen[path] = Seen(data, lines_of(data))
        known.shown.update(shown)

    def line(self, path: str, text: str) -> int:
        """The index of the first line that has the text."""
        return next(at for at, line in enumerate(self.seen[path].lines) if text in line)

    def hunks(self, path: str, change: Change) -> list[Lines]:
        """The change in lines of the text that was seen; raises when they were not shown."""
        known = self.seen[path]
        wanted = change("".join(known.lines)).splitlines(keepends=True)
        made = hunks_of(known.lines, wanted, known.shown)
        for hunk in made:
            needed = set(range(hunk.first, hunk.stop)) or {hunk.first - 1}
            assert needed <= known.shown, f"{path}: {hunk} was not shown"
        return made

    def around(self, path: str, hunk: Lines) -> tuple[int, int]:
        """The lines with a patch's context."""
        count = len(self.seen[path].lines)
        return max(hunk.first - CONTEXT, 0), min(hunk.stop + CONTEXT, count)

    def changed(self, path: str, hunks: Sequence[Lines]) -> None:
        """The agent knows its own change, and the lines that it saw are where they are now."""
        known = self.seen[path]
        shown: set[int] = set()
        lines: list[str] = []
        at = 0
        for hunk in (*hunks, Lines(len(known.lines), len(known.lines), ())):
            for index in range(at, hunk.first):
                if index in known.shown:
                    shown.add(len(lines))
                lines.append(known.lines[index])
            shown.update(range(len(lines), len(lines) + len(hunk.new)))
            lines += hunk.new
            at = hunk.stop
        self.seen[path] = Seen((self.root / path).read_bytes(), lines, shown)

    def told(self, tool: str, arguments: Mapping[str, Any] | str, answer: str) -> str:
        """Count a call; its answer."""
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
        self.calls.append(Call(tool, arguments, answer))
        return answer

    def hits(self, pattern: str, path: str, before: int, after: int) -> dict[str, list[list[int]]]:
        """By file: the windows around what was found, each a list of indexes; matches are known."""
        found: dict[str, list[list[int]]] = {}
        whole = self.root / path
        files = [whole] if whole.is_file() else visible(whole)
        for file in files:
            lines = lines_of(file.read_bytes())
            wide: list[list[int]] = []
            for at in (at for at, line in enumerate(lines) if re.search(pattern, line)):
                window = range(max(at - before, 0), min(at + after + 1, len(lines)))
                if wide and window.start <= wide[-1][-1] + 1:
                    wide[-1] = list(range(wide[-1][0], window.stop))
                else:
                    wide.append(list(window))
            if wide:
                name = file.relative_to(self.root).as_posix()
                found[name] = wide
                self.knows(name, (at for window in wide for at in window))
        return found

    def grep(self, pattern: str, path: str, windows: Mapping[str, list[list[int]]]) -> str:
        """The output of `rg -n`; without the path for a single named file."""
        parts: list[str] = []
        for name, wide in windows.items():
            lead = "" if name == path else name
            lines = self.seen[name].lines
            for window in wide:
                marked = ((":" if re.search(pattern, lines[at]) else "-", at) for at in window)
                shown = (f"{lead and lead + s}{at + 1}{s}{lines[at]}" for s, at in marked)
                parts.append("".join(shown))
        far = any(len(window) > 1 for wide in windows.values() for window in wide)
        return ("--\n" if far else "").join(parts)


def visible(folder: Path) -> list[Path]:
    """The project's files, as a search finds them."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    parts = ((path, path.relative_to(folder).parts) for path in files)
    return [path for path, names in parts if not any(name[0] == "." for name in names)]


def lines_of(data: bytes) -> list[str]:
    """The lines of a file as a model is shown them, each with its LF."""
    return data.decode().replace("\r\n", "\n").splitlines(keepends=True)


def hunks_of(old: Sequence[str], new: Sequence[str], shown: Set[int]) -> list[Lines]:
    """What is to be replaced; places with two lines or less between them, all shown, are one."""
    hunks: list[Lines] = []
    for kind, first, stop, start, end in difflib.SequenceMatcher(
        None, old, new, autojunk=False
    ).get_opcodes():
        if kind == "equal":
            continue
        gap = range(hunks[-1].stop, first) if hunks else range(CONTEXT)
        if len(gap) < CONTEXT and shown >= set(gap):
            before = hunks.pop()
            between = (*before.new, *(old[at] for at in gap), *new[start:end])
            hunks.append(Lines(before.first, stop, between))
        else:
            hunks.append(Lines(first, stop, tuple(new[start:end])))
    return hunks


def started(root: Path) -> Client:
    """The real server over standard input and output, with `apply = "auto"`."""
    (root / CONFIGURATION).write_text('[members.local]\napply = "auto"\n')
    return Client([PROGRAM, "mcp", "--toolsets", TOOLSETS, "--root", str(root)], root)


class Copydesk(Agent):
    """The real server, as `started`.

    The policy: a search answers with lines and versions, so it is enough to edit. A change is sent
    in the form that takes the fewest characters: a text that is there once and its new form, lines
    by number and version, or a patch, which is the form for several files.
    """

    name = "copydesk"

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._client = started(root)
        self.offered = self._client.offered()

    def begin(self) -> None:
        """The server goes on."""
        super().begin()
        self._versions: dict[str, str] = {}
        self._edits: list[int] = []

    def close(self) -> None:
        """End the server."""
        self._client.close()

    def read(self, path: str, first: int, last: int) -> None:
        """`read_file`."""
        answer = self.call("read_file", path=path, range=f"{first}~{last}")
        self._learned(answer, path)
        self.knows(path, range(first - 1, last))

    def find(self, pattern: str, path: str, before: int = 0, after: int = 0) -> None:
        """`ripgrep_search`, with the options of rg."""
        given: dict[str, Any] = {"pattern": pattern, "path": path}
        if before == after > 0:
            given["rg_args"] = [f"-C{before}"]
        elif before or after:
            given["rg_args"] = [f"-B{before}", f"-A{after}"]
        answer = self.call("ripgrep_search", given)
        for name in self.hits(pattern, path, before, after):
            self._learned(answer, name)

    def look_again(self, path: str, change: Change) -> None:
        """The refusal shows the lines and their version; where it does not, read them."""
        refusal = self.calls[-1].answer
        first, stop = self.around(path, self.hunks(path, change)[0])
        now = lines_of((self.root / path).read_bytes())[first:stop]
        version = re.search(r"version\W+([0-9a-f]{12})", refusal)
        if version is None or not all(line.strip() in refusal for line in now):
            super().look_again(path, change)
            return
        self._versions[path] = version[1]
        self.knows(path, range(first, stop))

    def change(self, path: str, change: Change) -> bool:
        """One call, whatever the number of places."""
        hunks = self.hunks(path, change)
        try:
            answer = self.call(*self._edit(path, hunks))
        except Refused:
            self.look_again(path, change)
            return False
        if "auto_apply: declined" in answer:  # what is planned was shown, so apply it
            answer = self.call("apply_file_modification", hunk_id=_one(PLAN, answer))
        self._learned(answer, path)
        self._edits.append(int(_one(r"\bedit(?:_id:)? (\d+)", answer)))
        self.changed(path, hunks)
        return True

    def change_all(self, changes: Mapping[str, Change], new: Mapping[str, str]) -> None:
        """`apply_patch`: all files or none."""
        hunks = {path: self.hunks(path, change) for path, change in changes.items()}
        answer = self.call("apply_patch", patch=self.patch(hunks, new))
        for path, made in hunks.items():
            self._learned(answer, path)
            self.changed(path, made)

    def change_each(self, changes: Mapping[str, Change]) -> None:
        """The same: one call for all."""
        self.change_all(changes, {})

    def move_end(self, source: str, change: Change, target: str, text: str) -> None:
        """Both files in one patch; what it only adds goes to the end."""
        hunks = self.hunks(source, change)
        self.knows(target, ())
        count = len(self.seen[target].lines)
        added = Lines(count, count, tuple(text.splitlines(keepends=True)))
        self.call("apply_patch", patch=self.patch({source: hunks, target: [added]}, {}))

    def append(self, path: str, text: str) -> None:
        """A patch that only adds, which needs no look."""
        self.knows(path, ())
        count = len(self.seen[path].lines)
        added = Lines(count, count, tuple(text.splitlines(keepends=True)))
        self.call("apply_patch", patch=self.patch({path: [added]}, {}))

    def write(self, path: str, text: str) -> None:
        """A whole file."""
        self.call(WRITE, path=path, content=text)

    def rename(self, old: str, new: str, where: str) -> None:
        """`replace_text`, also of all files in a folder."""
        self.call("replace_text", path=where, old=old, new=new, all=True)

    def undo(self, path: str, back: Change) -> None:
        """By the number of the edit."""
        self.call("undo_file_modification", edit_id=self._edits[0])

    def call(self, tool: str, arguments: Mapping[str, Any] | None = None, **more: Any) -> str:
        """Call a tool; raises Refused."""
        given = {**(arguments or {}), **more}
        try:
            return self.told(tool, given, self._client.call(tool, given))
        except Refused as refused:
            self.told(tool, given, str(refused))
            raise

    def _learned(self, answer: str, path: str) -> None:
        """Record the version of a file from an answer."""
        name, version = re.escape(path), r"\b([0-9a-f]{12})\b"
        line = re.search(rf"{name}\b.*?{version}", answer)
        found = line or re.search(rf"{name}\b.*?version\W+{version}", answer, re.DOTALL)
        found = found or re.search(rf"\A[^\n]*version {version}", answer)  # of the file asked of
        if found:
            self._versions[path] = found[1]

    def _edit(self, path: str, hunks: Sequence[Lines]) -> tuple[str, dict[str, Any]]:
        """The call with the fewest characters."""
        known = {"path": path, "version": self._versions[path]}
        places = [self._place(path, one) for one in hunks]
        edits = places[0] if len(places) == 1 else {"edits": places}
        calls: list[tuple[str, dict[str, Any]]] = [
            ("prepare_file_range_edit", {**known, **edits}),
            ("apply_patch", {"patch": self.patch({path: hunks}, {})}),
        ]
        if len(hunks) == 1:
            old, new = self._strings(path, hunks[0])
            calls.append(("replace_text", {"path": path, "old": old, "new": new}))
        return min(calls, key=lambda call: len(json.dumps(call, ensure_ascii=False)))

    def _place(self, path: str, hunk: Lines) -> dict[str, str]:
        """The lines by number; an insertion has the line before it too."""
        if hunk.first == hunk.stop:
            before = self.seen[path].lines[hunk.first - 1]
            hunk = Lines(hunk.first - 1, hunk.stop, (before, *hunk.new))
        first, last = hunk.first + 1, hunk.stop
        where = f"{first}" if first == last else f"{first}~{last}"
        return {"range": where, "content": "".join(hunk.new)}

    def _strings(self, path: str, hunk: Lines) -> tuple[str, str]:
        """The words that change, with as many around them, of lines shown, as make them unique."""
        lines, shown = self.seen[path].lines, self.seen[path].shown
        first, stop = hunk.first, hunk.stop
        while first - 1 in shown:
            first -= 1
        while stop in shown:
            stop += 1
        before, after = "".join(lines[first : hunk.first]), "".join(lines[hunk.stop : stop])
        old = _WORD.findall("".join(lines[hunk.first : hunk.stop]))
        new = _WORD.findall("".join(hunk.new))
        head = _alike(old, new)
        tail = _alike(old[head:][::-1], new[head:][::-1])
        left = [*_WORD.findall(before), *old[:head]]
        right = [*old[len(old) - tail :], *_WORD.findall(after)]
        middle = "".join(old[head : len(old) - tail]), "".join(new[head : len(new) - tail])
        text = "".join(lines)
        around = ["", ""]
        while not middle[0].strip() + around[0].strip() + around[1].strip() or (
            text.count(around[0] + middle[0] + around[1]) != 1
        ):
            from_left = right and len(around[0]) > len(around[1])
            if left and not from_left:
                around[0] = left.pop() + around[0]
            else:
                around[1] += right.pop(0)
        return around[0] + middle[0] + around[1], around[0] + middle[1] + around[1]


_WORD = re.compile(r"\w+|\s+|[^\w\s]")


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    """How many of the first words are the same."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _one(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    assert found is not None, text
    return found[1]


class Edit(Agent):
    """Read, Grep, Edit and Write as Claude Code has them: an edit names the old text and the new.

    A file must have been read before it is edited, and again when it has changed since. Paths are
    relative, answers have no reminders, and `replace_all` is left out when it is false.
    """

    name = "Edit, reads first"
    offered_tokens = 1_771  # Read, Edit, Write, Grep and Glob, as Claude Code lists them
    must_read = True
    snippet = False

    def begin(self) -> None:
        """No file has been read."""
        super().begin()
        self._read: dict[str, bytes] = {}

    def read(self, path: str, first: int, last: int) -> None:
        """`Read`, lines numbered."""
        self.knows(path, range(first - 1, last))
        known = self.seen[path]
        self._read[path] = known.data
        shown = _numbered(known.lines, first - 1, last)
        self.told("Read", {"file_path": path, "offset": first, "limit": last - first + 1}, shown)

    def find(self, pattern: str, path: str, before: int = 0, after: int = 0) -> None:
        """`Grep`; what is around one place is left to the `Read` that must follow."""
        found = self.hits(pattern, path, before, after)
        (wide, *others) = found.values()
        alone = self.must_read and not others and len(wide) == 1 and before + after > 0
        given: dict[str, Any] = {"pattern": pattern, "path": path, "output_mode": "content"}
        given["-n"] = True
        if alone:
            lines = self.seen[path].lines
            places = {path: [[at] for at in wide[0] if re.search(pattern, lines[at])]}
            self.told("Grep", given, self.grep(pattern, path, places))
            self.read(path, wide[0][0] + 1, wide[0][-1] + 1)
            return
        around = {"-B": before, "-A": after}
        given |= {"-C": before} if before == after else around
        if before == after == 0:
            del given["-C"]
        self.told("Grep", given, self.grep(pattern, path, found))

    def change(self, path: str, change: Change) -> bool:
        """One `Edit` for each place."""
        hunks = self.hunks(path, change)
        done = 0
        for hunk in hunks:
            moved = Lines(hunk.first + done, hunk.stop + done, hunk.new)
            old, new = self._strings(path, moved)
            if not self._edit(path, old, new):
                self.look_again(path, change)
                return False
            self.changed(path, [moved])
            done += len(hunk.new) - (hunk.stop - hunk.first)
        return True

    def change_all(self, changes: Mapping[str, Change], new: Mapping[str, str]) -> None:
        """One after the other: nothing of it is all or none."""
        for path, text in new.items():
            self.write(path, text)
        for path, change in changes.items():
            self.change(path, change)

    def append(self, path: str, text: str) -> None:
        """There must be old text, so the last lines are read before."""
        count = len(lines_of((self.root / path).read_bytes()))
        self.read(path, max(count - 2, 1), count)
        assert self.change(path, lambda before: before + text)

    def write(self, path: str, text: str) -> None:
        """`Write`."""
        where = self.root / path
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_text(text, newline="")
        done = f"File created successfully at: {path}"
        self.told("Write", {"file_path": path, "content": text}, done)

    def rename(self, old: str, new: str, where: str) -> None:
        """`replace_all`, which knows no words, in each file."""
        for path in self.seen:
            self._edit(path, old, new, replace_all=True)

    def _edit(self, path: str, old: str, new: str, *, replace_all: bool = False) -> bool:
        where = self.root / path
        given: dict[str, Any] = {"file_path": path, "old_string": old, "new_string": new}
        if replace_all:
            given["replace_all"] = True
        if self.must_read and path not in self._read:
            first = self.seen[path].shown
            self.read(path, min(first) + 1, min(first) + 1)
        data = where.read_bytes()
        if self.must_read and self._read[path] != data:
            changed = (
                "File has been modified since read, either by the user or by a linter. "
                "Read it again before attempting to write it."
            )
            self.told("Edit", given, changed)
            return False
        text = data.decode().replace("\r\n", "\n")
        if text.count(old) != 1 and not replace_all:
            self.told("Edit", given, f"String to replace not found in file.\nString: {old}")
            return False
        made = text.replace(old, new)
        end = b"\r\n" if b"\r\n" in data else b"\n"
        self._read[path] = made.encode().replace(b"\n", end)
        where.write_bytes(self._read[path])
        self.told("Edit", given, self._done(path, made, made.find(new), new, replace_all))
        return True

    def _done(self, path: str, text: str, at: int, new: str, replace_all: bool) -> str:
        if replace_all:
            return f"The file {path} has been updated. All occurrences were successfully replaced."
        if not self.snippet:
            return f"The file {path} has been updated successfully."
        first = text.count("\n", 0, at)
        last = first + new.rstrip("\n").count("\n")
        shown = _numbered(text.splitlines(keepends=True), first - 4, last + 5)
        return (
            f"The file {path} has been updated. Here's the result of running `cat -n` on a "
            f"snippet of the edited file:\n{shown}"
        )

    def _strings(self, path: str, hunk: Lines) -> tuple[str, str]:
        """The old lines, with as many before and after them as make them unique, and the new."""
        lines = self.seen[path].lines
        text = "".join(lines)
        first, stop = hunk.first, hunk.stop
        if first == stop:
            first -= 1
        while text.count("".join(lines[first:stop])) != 1 or not "".join(lines[first:stop]).strip():
            if first == 0 or (hunk.first - first > stop - hunk.stop and stop < len(lines)):
                stop += 1
            else:
                first -= 1
        old = "".join(lines[first:stop])
        new = "".join((*lines[first : hunk.first], *hunk.new, *lines[hunk.stop : stop]))
        if old.endswith("\n") and new.endswith("\n"):
            old, new = old[:-1], new[:-1]
            if text.count(old) != 1:
                return f"{old}\n", f"{new}\n"
        return old, new


def _numbered(lines: Sequence[str], first: int, stop: int) -> str:
    first = max(first, 0)
    return "".join(f"{at}\t{line}" for at, line in enumerate(lines[first:stop], first + 1))


class EditWithSnippet(Edit):
    """The same, and `Edit` answers with the lines around the change, as its older form did."""

    name = "Edit, reads first, shows lines"
    snippet = True


class EditUnread(Edit):
    """A `str_replace` tool that asks for no `Read` and notices no change but that of the text."""

    name = "Edit"
    must_read = False


class ApplyPatch(Agent):
    """apply_patch as Codex has it, with `rg` and `sed -n` in a shell; patches are plain text."""

    name = "apply_patch"
    offered_tokens = 364  # its grammar, and the least that a shell can have

    def read(self, path: str, first: int, last: int) -> None:
        """`sed -n`: no numbers, since no tool takes any."""
        self.knows(path, range(first - 1, last))
        shown = "".join(self.seen[path].lines[first - 1 : last])
        self.told("shell", {"cmd": f"sed -n '{first},{last}p' {path}"}, shown)

    def find(self, pattern: str, path: str, before: int = 0, after: int = 0) -> None:
        """`rg -n`."""
        around = f"-B {before} -A {after} "
        if before == after:
            around = f"-C {before} " if before else ""
        found = self.hits(pattern, path, before, after)
        shown = self.grep(pattern, path, found)
        self.told("shell", {"cmd": f"rg -n {around}'{pattern}' {path}"}, shown)

    def change(self, path: str, change: Change) -> bool:
        """A patch of one file."""
        if self._patch({path: self.hunks(path, change)}, {}):
            return True
        self.look_again(path, change)
        return False

    def change_all(self, changes: Mapping[str, Change], new: Mapping[str, str]) -> None:
        """One patch: each file is checked before any is written."""
        self._patch({path: self.hunks(path, change) for path, change in changes.items()}, new)

    def change_each(self, changes: Mapping[str, Change]) -> None:
        """One patch."""
        self._patch({path: self.hunks(path, change) for path, change in changes.items()}, {})

    def append(self, path: str, text: str) -> None:
        """A chunk that only adds goes to the end."""
        self.knows(path, ())
        count = len(self.seen[path].lines)
        self._patch({path: [Lines(count, count, tuple(text.splitlines(keepends=True)))]}, {})

    def write(self, path: str, text: str) -> None:
        """A patch that adds a file."""
        self._patch({}, {path: text})

    def rename(self, old: str, new: str, where: str) -> None:
        """One patch of all places."""
        word = re.compile(rf"\b{re.escape(old)}\b")
        made = {path: self.hunks(path, lambda text: word.sub(new, text)) for path in self.seen}
        self._patch(made, {})

    def _patch(self, changes: Mapping[str, Sequence[Lines]], new: Mapping[str, str]) -> bool:
        patch = self.patch(changes, new)
        written: dict[str, str] = {}
        for path, hunks in changes.items():
            data = (self.root / path).read_bytes()
            made = self._applied(path, lines_of(data), hunks)
            if isinstance(made, str):
                self.told("apply_patch", patch, f"apply_patch verification failed: {made}")
                return False
            written[path] = "".join(made).replace("\n", "\r\n" if b"\r\n" in data else "\n")
        for path, text in {**new, **written}.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text, newline="")
        marks = (*(f"A {path}\n" for path in new), *(f"M {path}\n" for path in changes))
        done = f"Success. Updated the following files:\n{''.join(marks)}"
        self.told("apply_patch", patch, done)
        for path, hunks in changes.items():
            self.changed(path, hunks)
        return True

    def _applied(self, path: str, lines: Sequence[str], hunks: Sequence[Lines]) -> list[str] | str:
        """The lines with the patch applied, or what the tool says.

        As Codex does it: each chunk is looked for below the last one, exactly and then but for
        blanks at the ends; one that only adds goes to the end of the file.
        """
        made: list[str] = []
        at = 0
        chunks: list[list[str]] = []
        for line in self.chunks(path, hunks):
            if line == "@@\n":
                chunks.append([])
            else:
                chunks[-1].append(line)
        for chunk in chunks:
            old = [line[1:] for line in chunk if line[0] != "+"]
            new = [line[1:] for line in chunk if line[0] != "-"]
            found = _sought(lines, old, at) if old else len(lines)
            if found is None:
                return f"Failed to find expected lines in {path}:\n{''.join(old)}"
            made += [*lines[at:found], *new]
            at = found + len(old)
        return [*made, *lines[at:]]


def _sought(lines: Sequence[str], wanted: Sequence[str], start: int) -> int | None:
    forms: tuple[Callable[[str], str], ...] = (str, str.rstrip, str.strip)
    for form in forms:
        target = [form(line) for line in wanted]
        for at in range(start, len(lines) - len(wanted) + 1):
            if [form(line) for line in lines[at : at + len(wanted)]] == target:
                return at
    return None


AGENTS: tuple[type[Agent], ...] = (Copydesk, Edit, EditWithSnippet, EditUnread, ApplyPatch)
