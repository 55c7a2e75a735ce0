"""The one type of all answers, its fields, and how they are rendered.

An `Answer` holds its facts once; full, brief and structured answers, the Standard Envelope and the
form of another program are renderings of it.

Invariants: no output contains a lone surrogate; the YAML of the text and the data are the same; a
part left out to stay within the token budget is marked where it was, with its line numbers; an
envelope has no other top-level key.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import accumulate, count, pairwise, takewhile
from math import isfinite
from threading import Lock
from typing import Literal, NamedTuple, cast

from copydesk.desk.backends.snapshots import ShownLines
from copydesk.edit.draft import cut as cut_text
from copydesk.text.diff import diff_text, read_diff
from copydesk.text.encoding import Encoding
from copydesk.text.sizes import most_tokens, tokens
from copydesk.text.snapshot import computed_once
from copydesk.tools.arguments import MOST_BITS, MOST_DEPTH
from copydesk.tools.diff_model import LONG, FileLines, View, lines_in, shorten
from copydesk.tools.messages import Lang as Lang
from copydesk.tools.messages import say

LONGEST_LINE = 2_000
"""A longer line is cut, after its unchanged parts were left out."""

_LONGEST = 16  # characters per token: a text with more is too long in any case
_LEAST = 3  # lines of a hunk that are always shown


@dataclass(frozen=True, slots=True)
class Words:
    """The texts for what is left out: lines from the first to the last, and characters."""

    lines: Callable[[int, int], str]
    characters: Callable[[int], str]


def fit_text(text: str, room: int, words: Words) -> tuple[str, int]:
    """The first lines of a text, within `room` tokens.

    Also returns the number (1-based) of the first line that is not shown whole; 0 if all are.
    """
    if fits(text, room):
        return text, 0
    whole = _lines_of(text)
    lines = [_cut(line, words) for line in whole]
    fitted = fitting(lines, room)
    cut = next((at for at in range(fitted) if lines[at] != whole[at]), fitted)
    if fitted < len(lines):
        lines[fitted:] = [words.lines(fitted + 1, len(lines))]
    return _joined(lines), cut + 1 if cut < len(whole) else 0


def row_tokens(row: str) -> int:
    """The tokens of a row of a list, at least as many as it takes among other rows."""
    return tokens(f"{row}\n") + 1


def fit_diff(diff: str, room: int, words: Words) -> tuple[str, int]:
    """A unified diff in about `room` tokens, and the first line that is not shown whole.

    Each file and each hunk keeps its head and its first and last lines as far as there is room;
    long lines keep what changes in them. See `fit_text` about the line.
    """
    if fits(diff, room):
        return diff, 0
    whole = _lines_of(diff)
    if any(len(line) > LONG for line in whole):
        diff = shorten(diff, words.characters, marks_whole=False)
    lines = [_cut(line, words) for line in _lines_of(diff)]
    cut = next((at for at, line in enumerate(lines) if line != whole[at]), len(lines))
    # each head of a file or hunk begins a section; other lines about a file are heads too
    heads = [at for at, line in enumerate(read_diff(lines)) if line.sign in ("", "@")]
    below = [lines[head + 1 : stop] for head, stop in pairwise((*heads, len(lines)))]
    room_below = room - sum(_line_tokens(lines[head]) for head in heads)
    if sum(_line_tokens(line) for texts in below for line in texts[:_LEAST]) > room_below:
        text, first = fit_text(_joined(lines), room, words)
        return text, min(first or cut + 1, cut + 1) if first or cut < len(lines) else 0
    shown: list[str] = []
    for head, texts, share in zip(heads, below, _shares(below, room_below), strict=True):
        first, last = _ends(texts, share)
        gap = head + 1 + first, head + 1 + len(texts) - last
        shown += lines[head : gap[0]]
        if gap[0] < gap[1]:
            shown.append(words.lines(gap[0] + 1, gap[1]))
            cut = min(cut, gap[0])
        shown += texts[len(texts) - last :]
    return _joined(shown), cut + 1 if cut < len(lines) else 0


def _shares(sections: Sequence[Sequence[str]], room: int) -> list[int]:
    """The tokens that each section gets; what small ones do not need goes to larger ones."""
    sizes = [sum(map(_line_tokens, texts)) for texts in sections]
    shares = [0] * len(sections)
    order = sorted(range(len(sections)), key=sizes.__getitem__)
    for done, at in enumerate(order):
        shares[at] = min(sizes[at], room // (len(order) - done))
        room -= shares[at]
    return shares


def _ends(texts: Sequence[str], room: int) -> tuple[int, int]:
    """How many of the first and of the last lines of a section are shown."""
    first = fitting(texts, room)
    if first == len(texts):
        return first, 0
    first = max(fitting(texts, 2 * room // 3), min(_LEAST, len(texts)))
    return first, fitting(texts[first:][::-1], room // 3)


def _line_tokens(line: str) -> int:
    return tokens(line) + 1


def fitting(lines: Iterable[str], room: int, size: Callable[[str], int] = _line_tokens) -> int:
    """How many of the first lines, each of this `size`, fit into `room` tokens."""
    return sum(1 for _ in takewhile(lambda total: total <= room, accumulate(map(size, lines))))


def _cut(line: str, words: Words) -> str:
    more = len(line) - LONGEST_LINE
    return line[:LONGEST_LINE] + words.characters(more) if more > 0 else line


def _lines_of(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")


def _joined(lines: Sequence[str]) -> str:
    return "\n".join((*lines, ""))


def fits(text: str, room: int) -> bool:
    """Whether the text takes at most `room` tokens; a very long one is not counted."""
    return len(text) < _LONGEST * room and (most_tokens(text) <= room or tokens(text) <= room)


Value = str | int | bool | None | Sequence["Value"] | Mapping[str, "Value"]
"""The values of a report."""

_PLAIN = re.compile(
    r"(?!(?i:true|false|null|yes|no|on|off|y|n)\Z)[A-Za-z_][A-Za-z0-9_./-]*", re.ASCII
)
"""Matches plain scalars: words that YAML reads as text."""

_ESCAPED = re.compile(
    '["\\\\\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]'
)
_FLAGS = {True: "true", False: "false"}
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_BACKTICKS = re.compile(r"`{3,}")


def numbered(first_line: int, texts: Sequence[str]) -> list[str]:
    """The texts as `12<tab>text`, from `first_line` (1-based)."""
    return [f"{line}\t{text}" for line, text in enumerate(texts, first_line)]


def emit(data: Mapping[str, Value]) -> str:
    """The YAML document, ending with a newline."""
    lines: list[str] = []
    _entries(lines, data.items(), "")
    return "\n".join((*lines, "")) or "{}\n"


def fenced(text: str, language: str) -> str:
    """The text as a fenced block; the fence is longer than any run of backticks inside."""
    fence = "```"
    if fence in text:
        fence = max(_BACKTICKS.findall(text), key=len) + "`"
    closed = text if text[-1:] in ("", "\n") else f"{text}\n"
    return f"{fence}{language}\n{closed}{fence}\n"


def quoted(text: str) -> str:
    """The text as a double-quoted scalar."""
    return f'"{_ESCAPED.sub(_escape, text)}"'


def named(name: str) -> str:
    """A name or path on a single line: quoted if it has control characters."""
    return quoted(name) if _CONTROL.search(name) else name


def _escape(match: re.Match[str]) -> str:
    return _SHORT.get(match[0]) or f"\\u{ord(match[0]):04x}"


@lru_cache(maxsize=1024)
def _key(key: str) -> str:
    return key if _PLAIN.fullmatch(key) else quoted(key)


def _entries(lines: list[str], entries: Iterable[tuple[str | None, Value]], indent: str) -> None:
    """Add values with their keys; an item of a list has no key."""
    inner = f"{indent}  "
    for key, value in entries:
        head = f"{indent}-" if key is None else f"{indent}{_key(key)}:"
        match value:  # scalars without a call, since most values are
            case bool():
                lines += (f"{head} {_FLAGS[value]}",)
            case int():
                lines += (f"{head} {value}",)
            case None:
                lines += (f"{head} null",)
            case str() if "\n" in value and not _UNPRINTABLE.search(value):
                _block(lines, head, value, inner)
            case str():
                lines += (f"{head} {value if _PLAIN.fullmatch(value) else quoted(value)}",)
            case Mapping():
                lines += (head if value else f"{head} {{}}",)
                _entries(lines, value.items(), inner)
            case _:
                lines += (head if value else f"{head} []",)
                for item in value:
                    if isinstance(item, Mapping) and item:
                        first = len(lines)
                        _entries(lines, item.items(), f"{inner}  ")
                        lines[first] = f"{inner}- {lines[first].lstrip()}"
                    else:
                        _entries(lines, [(None, item)], inner)


def _block(lines: list[str], head: str, text: str, indent: str) -> None:
    """The text as a literal block scalar.

    The header gives the indentation if the first line does not show it, and how the text ends.
    """
    indicator = "2" if text[0] in " \t\n" else ""
    body = text.removesuffix("\n")
    end = "-" if body is text else "+" if body[-1:] in ("", "\n") else ""
    lines += (f"{head} |{indicator}{end}",)
    if "\n\n" in f"\n{body}\n":
        lines += [f"{indent}{line}" if line else "" for line in body.split("\n")]
    else:  # no line is empty
        lines += (indent + body.replace("\n", f"\n{indent}"),)


Fields = dict[str, Value]


def known(**fields: Value) -> Fields:
    """The fields that are known."""
    return {name: value for name, value in fields.items() if value is not None}


Length = Literal["full", "brief"]
"""The length of an answer: all fields, or one line."""

ANSWER_TOKENS = 4_000  # default budget of an answer
MOST_DIFF_BYTES = 4 << 20
MOST_DIFF_CHARACTERS = 100_000
_CHANGED = re.compile(r"^@@ .*\n(?:[ \\].*\n)*[-+]", re.MULTILINE)
"""A hunk of which a changed line is shown."""

MOST_NEXT = 3
_LEAST_ROOM = 200  # tokens that a diff or a body always has


Status = Literal["success", "partial", "error"]


@dataclass(frozen=True, slots=True)
class Envelope:
    """What the Standard Envelope v1.0 adds to the facts of an answer, which are its `data`.

    `path` is the one that the call resolved, if any. The `arguments` are converted for JSON when
    the answer is read, since those of a large batch take a while.
    """

    status: Status
    words: str
    arguments: object
    path: str | None = None
    stats: Fields = field(default_factory=dict[str, Value])
    error: Fields = field(default_factory=dict[str, Value])

    def around(self, data: Fields, notices: Sequence[str], *, brief: bool = False) -> Fields:
        """All fields; `brief`: the arguments without long texts and lists."""
        is_object = isinstance(self.arguments, Mapping)
        given: Value = _clean(self.arguments, brief=brief) if is_object else {}
        return {
            "status": self.status,
            "data": data,
            "text": " ".join((self.words, *notices)),
            **({"error": self.error} if self.error else {}),
            "stats": self.stats,
            "context": {"cwd": ".", "params_input": given, **known(path_resolved=self.path)},
        }

    def within(self, data: Fields, notices: Sequence[str], budget: int) -> Fields:
        """All fields, without long texts in the arguments; lists are cut to the budget."""
        shown, most = self.around(data, notices, brief=True), _MOST_ITEMS
        while budget and most and not fits(_compact(shown), budget):
            shown["data"] = _shortened(data, most)
            most //= 2
        return shown


@dataclass(frozen=True, slots=True)
class Original:
    """An answer in the form of the program that a compat tool replaces.

    `content` are its content blocks and `structured` its structured content, as in MCP; remarks and
    notices follow them. `only_text`: that program has no structured content, so whoever requests
    it gets the envelope.
    """

    content: tuple[Fields, ...]
    structured: Fields | None = None
    only_text: bool = False


class _Rendered(NamedTuple):
    """A text, the diff and the steps in it, the first lines cut from head and body, 0 for none."""

    text: str
    diff: str
    steps: tuple[str, ...]
    head_cut: int
    body_cut: int


@dataclass(frozen=True)
class Answer:
    """The answer of a tool: complete data, and a text for a model or a person.

    `source` are the facts, or a function that computes them on demand: a success reported in one
    line needs them for programs only. `content` are more of them, which the body shows.

    If there is a `line`, the text is that line and `remarks`, one per line, about anything unusual;
    otherwise it is the facts as YAML, without those `unsaid`. Then come `next_steps`, the diff if
    `shows_diff`, and `body` in a fence of `language`. `display` is the note on a diff that cannot
    be applied. `notices` report other events: decisions, losses, writes of other programs. If it is
    `brief`, the text has no more than the line, the remarks and these. If there is a text `said`,
    it replaces all these but the notices. With an `envelope` the facts are within it, and with an
    `original` the text is that of another program.

    The text takes about `budget` tokens; 0 is unlimited. `rest` says how to see what is left out,
    from a line `N~` on. `views` are the file versions whose lines it shows.
    """

    source: Fields | Callable[[], Fields]
    diff: str = ""
    body: str | None = None
    language: str = "text"
    next_steps: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    content: Fields = field(default_factory=dict[str, Value])
    line: str = ""
    remarks: tuple[str, ...] = ()
    shows_diff: bool = True
    brief: bool = False
    rest: str = ""
    display: str = ""
    unsaid: frozenset[str] = frozenset()
    budget: int = ANSWER_TOKENS
    lang: Lang = "en"
    views: tuple[View, ...] = ()
    said: str | None = None
    envelope: Envelope | None = None
    original: Original | None = None

    @computed_once
    def facts(self) -> Fields:
        """What the answer says, in order, without the envelope around it."""
        return self.source() if callable(self.source) else self.source

    @property
    def fields(self) -> Fields:
        """The top-level fields, in order."""
        return self.envelope.around(self.facts, self.notices) if self.envelope else self.facts

    def timed(self, milliseconds: int) -> Answer:
        """The answer with the duration of the call in its envelope."""
        assert self.envelope is not None, "only an envelope has statistics"
        stats = {"time_ms": milliseconds, **self.envelope.stats}
        return replace(self, envelope=replace(self.envelope, stats=stats))

    @property
    def is_report(self) -> bool:
        """Whether the text is made of the fields, the diff and the body."""
        return self.said is None and self.envelope is None

    @property
    def is_error(self) -> bool:
        if callable(self.source):  # it is computed for successes alone
            return False
        status = self.envelope.status if self.envelope else self.source.get("status")
        return status in ("error", "not_found")

    @computed_once
    def text(self) -> str:
        """The answer for a model or a person to read."""
        if self.original is not None:
            return "\n\n".join(str(block["text"]) for block in self.blocks if "text" in block)
        if self.said is not None:
            return "\n\n".join((self.said, *self.notices))
        if self.envelope is None:
            return self._rendered.text
        if self.line:
            return _joined((self.line, *self.remarks, *self.notices))
        return _compact(self.envelope.within(self.facts, self.notices, self.budget))

    @property
    def blocks(self) -> tuple[Fields, ...]:
        """The content blocks in the form of another program."""
        own = self.original.content if self.original else ()
        return (*own, *(Fields(type="text", text=text) for text in (*self.remarks, *self.notices)))

    @property
    def data(self) -> Mapping[str, Value]:
        """The complete answer for a program: fields, diff and next steps."""
        if not self.is_report:
            return self.fields
        data = {**self.facts, **self.content}
        if self.diff:
            data["diff"] = cut_diff(self.diff)[0]
        steps = [*self.notices, *self.next_steps[:MOST_NEXT]]
        return {**data, "next": steps} if steps else data

    @property
    def twin(self) -> Mapping[str, Value]:
        """The data within the budget: what a full text shows of a diff, with the same next steps.

        The arguments in an envelope are as they were given.
        """
        if self.envelope is not None:
            shown = self.envelope.within(self.facts, self.notices, self.budget)
            return {**shown, "context": self.fields["context"]}
        data = {**within_budget(self.facts, self.budget), **self.content}
        if self.said is not None:
            return data
        full = replace(self, line="", shows_diff=True, brief=False)._rendered
        diff: Fields = {"diff": full.diff} if full.diff else {}
        return {**data, **diff, **({"next": full.steps} if full.steps else {})}

    def lines_shown(self, view: View) -> ShownLines:
        """The lines of one version of a file that the text shows whole."""
        return view.lines(self._files, fields=not (self._rendered.head_cut or self.line))

    @property
    def is_whole(self) -> bool:
        """Whether the text shows all of the head and the body."""
        return not (self._rendered.head_cut or self._rendered.body_cut)

    @computed_once
    def _files(self) -> list[FileLines]:
        return lines_in(self._rendered.diff.split("\n"))

    @computed_once
    def _rendered(self) -> _Rendered:
        shows_diff = self.shows_diff and not self.brief
        steps = (*self.notices, *(() if self.brief else self.next_steps[:MOST_NEXT]))
        if self.display and shows_diff:
            steps += (self.display,)
        head = self.line and _joined((self.line, *self.remarks))
        head = head or fenced(emit(self._said), "yaml")
        said, diff, body = _joined(steps), self.diff if shows_diff else "", self.body
        head_cut = body_cut = 0
        if not self._is_short(head, said, self.rest, diff, body or ""):
            budget, words = self.budget, _left_out(self.lang)
            head, head_cut = self._cut_head(head, budget - tokens(said) - _LEAST_ROOM, words)
            room = max(budget - tokens(head) - tokens(said) - tokens(self.rest), _LEAST_ROOM)
            diff, diff_cut = fit_diff(diff, room, words)
            start, body_cut = fit_text(body or "", max(room - tokens(diff), _LEAST_ROOM), words)
            body = body and start
            cuts = [cut for cut in (diff_cut, body_cut) if cut and self.rest]
            steps += tuple(self.rest.replace("N~", f"{cut}~") for cut in cuts)
            said = _joined(steps)
        parts = [head, said, diff and fenced(diff, "diff")]
        if body is not None:
            parts.append(fenced(body, self.language))
        text = ("" if self.line else "\n").join(filter(None, parts))
        return _Rendered(text, diff, steps, head_cut, body_cut)

    @property
    def _said(self) -> Fields:
        return {name: fact for name, fact in self.facts.items() if name not in self.unsaid}

    def _is_short(self, *texts: str) -> bool:
        """Whether the texts fit in any case, without counting their tokens; mostly they do."""
        most = self.budget - _LEAST_ROOM
        every = "".join(texts)
        return not self.budget or most_tokens(every) <= most or sum(map(most_tokens, texts)) <= most

    def _cut_head(self, head: str, room: int, words: Words) -> tuple[str, int]:
        """As much of the head as fits; its summary in any case."""
        if self.line:
            return fit_text(head, room, words)
        summary = str(self.facts.get("summary", ""))
        start, cut = fit_text(emit(self._said), room - tokens(summary), words)
        return fenced(start, "yaml") + (f"{summary}\n" if cut and summary else ""), cut


_LONGEST_OF: dict[str, int] = dict.fromkeys(
    [
        "content",
        "old_string",
        "new_string",
        "oldText",
        "newText",
        "file_text",
        "old_str",
        "new_str",
        "insert_text",
    ],
    100_000,
)
"""The most characters of a text to write or replace that data gives back; LONGEST for others."""

LONGEST = 2_000  # characters of one text of the caller, or of one fact
_SHOWN = 48
"""The most characters of an argument repeated to a model; a third of that beyond ASCII."""

_SHOWN_ITEMS = 2  # items of one list among the arguments
_MOST_ITEMS = 64


def _clean(
    value: object, most: int = LONGEST, depth: int = MOST_DEPTH + 2, *, brief: bool = False
) -> Value:
    """Convert a value for JSON; texts become valid for output, and too long ones are cut.

    Numbers that are too long are cut too, and values nested deeper than `depth`. `brief`: texts are
    cut to a few words and lists to their first items.
    """
    match value:
        case str():
            text = value
            if len(text) > most or not text.isascii():
                text = cut_text(text.encode("utf-8", "backslashreplace").decode(), most)
            return cut_text(text, _SHOWN if text.isascii() else _SHOWN // 3) if brief else text
        case Mapping() | list() | tuple() if not depth:
            return "…"
        case Mapping():
            items = cast("Mapping[object, object]", value).items()
            return {
                str(_clean(str(key))): _clean(
                    item, _LONGEST_OF.get(str(key), LONGEST), depth - 1, brief=brief
                )
                for key, item in items
            }
        case list() | tuple():
            every = cast("Sequence[object]", value)
            shown = every[:_SHOWN_ITEMS] if brief else every
            cleaned = [_clean(item, depth=depth - 1, brief=brief) for item in shown]
            left_out = len(every) - len(shown)
            return [*cleaned, f"… (+{left_out} items)"] if left_out else cleaned
        case int() if value.bit_length() > MOST_BITS:
            return _clean(hex(value), brief=brief)
        case bool() | int() | None:
            return value
        case float():
            return cast(Value, value if isfinite(value) else None)
        case _:
            return _clean(repr(value), brief=brief)


def _compact(value: Fields) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _shortened(data: Fields, most: int) -> Fields:
    """The data with the first `most` items of each list, and the numbers of those left out."""
    shown: Fields = {}
    for key, value in data.items():
        shown[key] = value
        if isinstance(value, Sequence) and not isinstance(value, str) and len(value) > most:
            shown |= {key: value[:most], f"{key}_left_out": len(value) - most}
    return shown


_CHARACTERS = 64  # of a text for each item of a list, when both are shortened


def within_budget(data: Mapping[str, Value], budget: int) -> Mapping[str, Value]:
    """Data for a program, with its long lists and texts cut to about `budget` tokens; 0: whole."""
    most, shown = 4 * _MOST_ITEMS, data
    while budget and most and not fits(json.dumps(shown, ensure_ascii=False), budget):
        shown = cast("Fields", _cut_within(data, most))
        most //= 2
    return shown


def _cut_within(value: Value, most: int) -> Value:
    if isinstance(value, str):
        return cut_text(value, most * _CHARACTERS)
    if isinstance(value, Mapping):
        return _shortened({key: _cut_within(part, most) for key, part in value.items()}, most)
    return [_cut_within(item, most) for item in value] if isinstance(value, Sequence) else value


@lru_cache(maxsize=2)
def _left_out(lang: Lang) -> Words:
    """The texts of a language for parts that an answer leaves out."""
    return Words(
        lambda first, last: say(
            "left_out.lines", lang, {"count": last - first + 1, "range": f"{first}~{last}"}
        ),
        lambda count: say("left_out.characters", lang, {"count": count}),
    )


def listing(
    fields: Fields,
    rows: Sequence[str],
    line: str = "",
    remarks: tuple[str, ...] = (),
    next_steps: tuple[str, ...] = (),
) -> Answer:
    """The answer with a list: a line (by default the summary), and rows in a fence."""
    return Answer(
        fields,
        body=_joined(rows) if rows else None,
        language="",
        next_steps=next_steps,
        line=line or str(fields["summary"]),
        remarks=remarks,
    )


def shown_diff(diff: bytes, encoding: Encoding) -> tuple[str, bool]:
    """The diff as text, and whether it is too long for programs; a huge one is cut."""
    if len(diff) > MOST_DIFF_BYTES:
        start = diff[: diff.rfind(b"\n", 0, MOST_DIFF_BYTES) + 1]
        if not _says_enough(diff_text(start, encoding), diff[len(start) : len(start) + 1] == b"+"):
            return cut_diff(diff_text(diff, encoding))[0], True
        diff = start
    text = diff_text(diff, encoding)
    return text, len(text) > MOST_DIFF_CHARACTERS


def _says_enough(start: str, adds: bool) -> bool:
    """Whether a diff's start shows a change. `adds`: a `+` line follows, so old lines do not do."""
    last_line = start[start.rfind("\n", 0, -1) + 1 :]
    return bool(_CHANGED.search(start)) and not (adds and last_line.startswith(("-", "\\")))


def short_lines(diff: str) -> str:
    """The diff with long lines shortened to what changes in them."""
    return shorten(diff, lambda count: f"… (+{count} characters) …", marks_whole=False)


def cut_diff(text: str) -> tuple[str, bool]:
    """The first lines of a diff that fit into an answer, and whether it was cut."""
    if len(text) <= MOST_DIFF_CHARACTERS:
        return text, False
    start = text[: text.rfind("\n", 0, MOST_DIFF_CHARACTERS) + 1]
    if _says_enough(start, text[len(start) : len(start) + 1] == "+"):
        return start, True
    text = short_lines(text)
    is_short = len(text) <= MOST_DIFF_CHARACTERS
    stop = len(text) if is_short else text.rfind("\n", 0, MOST_DIFF_CHARACTERS) + 1
    return text[: stop or MOST_DIFF_CHARACTERS], True


# Texts too long to be shown at once, of the tools of notes.


LISTED = 20  # documents listed of each notebook by default
FOUND = 20  # blocks found by a search by default
LENGTH = 8_000  # characters of a result shown at once by default
MOST_TEXTS = 200
MOST_CHARACTERS = 32 << 20  # of all texts together; the oldest are dropped first


class LongTexts:
    """Texts by name. Safe to use from many threads. With `length` None nothing is cut."""

    def __init__(self, length: int | None = LENGTH) -> None:
        self.length = length
        self._texts: dict[tuple[str, str], str] = {}  # the oldest first
        self._numbers = count(1)
        self._lock = Lock()

    def is_long(self, text: str) -> bool:
        """Whether the text is too long to be shown at once."""
        return self.length is not None and len(text) > self.length

    def keep(self, member: str, tool: str, text: str) -> str:
        """Save a text; return its name."""
        with self._lock:
            name = f"{tool}_{next(self._numbers)}"
            self._texts[member, name] = text
            while len(self._texts) > 1 and (
                len(self._texts) > MOST_TEXTS
                or sum(map(len, self._texts.values())) > MOST_CHARACTERS
            ):
                del self._texts[next(iter(self._texts))]
            return name

    def find(self, member: str, name: str) -> str | None:
        """The text with this name, if it is still stored."""
        return self._texts.get((member, name))

    def clear(self) -> None:
        """Drop all texts."""
        with self._lock:
            self._texts.clear()

    def names(self, member: str) -> tuple[str, ...]:
        """The names of the member's texts, oldest first."""
        with self._lock:
            return tuple(name for owner, name in self._texts if owner == member)


def note_answered(fields: Fields, text: str, diff: str = "") -> Answer:
    """A successful answer about notes."""
    return Answer({"status": "success", **fields}, diff, said=text)


def note_shown(
    texts: LongTexts, member: str, tool: str, fields: Fields, text: str, lang: Lang
) -> Answer:
    """A requested text as `content` after the fields; a long one is cut."""
    if not texts.is_long(text):
        return note_answered({**fields, "content": text}, text)
    name, start = texts.keep(member, tool, text), text[: texts.length]
    omitted = len(text) - len(start)
    facts = {"omitted": omitted, "total": len(text), "name": name, "next": len(start)}
    part: Fields = {"truncated": True, "omitted": omitted, "var": name, "content": start}
    return note_answered({**fields, **part}, f"{start}\n\n{say('notes.cut', lang, facts)}")
