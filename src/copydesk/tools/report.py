"""The form of every answer of ws_mod: fields in order, a diff, next steps; YAML and data.

Invariants: no output contains a lone surrogate; the YAML of the text and the data are the same; a
part left out to stay within the token budget is marked where it was, with its line numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, cast

from copydesk.desk.backends.snapshots import ShownLines
from copydesk.text.encoding import Encoding
from copydesk.text.sizes import most_tokens, tokens
from copydesk.text.snapshot import computed_once
from copydesk.text.unified import read_diff
from copydesk.tools.diff_model import LONG, FileLines, View, diff_text, lines_in, shorten
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
    kept = _first(lines, room)
    cut = next((at for at in range(kept) if lines[at] != whole[at]), kept)
    if kept < len(lines):
        lines[kept:] = [words.lines(kept + 1, len(lines))]
    return _joined(lines), cut + 1 if cut < len(whole) else 0


def row_tokens(row: str) -> int:
    """The tokens of a row of a list, at least as many as it takes among other rows."""
    return tokens(f"{row}\n") + 1


def first_rows(rows: Iterable[str], room: int | None) -> list[str]:
    """The first rows within `room` tokens, at least one of them; None: all rows."""
    shown: list[str] = []
    for row in rows:
        if room is not None:
            room -= row_tokens(row)
            if room < 0 and shown:
                break
        shown.append(row)
    return shown


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
    sections = _sections(lines)
    heads = sum(tokens(lines[each.head]) + 1 for each in sections if each.head is not None)
    least = sum(tokens(line) + 1 for each in sections for line in lines[each.start :][:_LEAST])
    if heads + least > room:
        kept, first = fit_text(_joined(lines), room, words)
        return kept, min(first or cut + 1, cut + 1) if first or cut < len(lines) else 0
    for each, share in zip(sections, _shares(sections, lines, room - heads), strict=True):
        each.show(lines, share)
    shown: list[str] = []
    for each in sections:
        shown += [] if each.head is None else [lines[each.head]]
        shown += lines[each.start : each.start + each.first]
        gap = each.start + each.first, each.stop - each.last
        if gap[0] < gap[1]:
            shown.append(words.lines(gap[0] + 1, gap[1]))
            cut = min(cut, gap[0])
        shown += lines[gap[1] : each.stop]
    return _joined(shown), cut + 1 if cut < len(lines) else 0


@dataclass(slots=True)
class _Section:
    """The head of a file or hunk, the lines [start, stop) below it, and how many are shown."""

    head: int | None
    start: int
    stop: int
    first: int = field(default=0, init=False)
    last: int = field(default=0, init=False)

    def show(self, lines: Sequence[str], room: int) -> None:
        """Choose as many of the first and last lines as fit."""
        below = lines[self.start : self.stop]
        self.first = _first(below, room)
        if self.first == len(below):
            return
        self.first = max(_first(below, 2 * room // 3), min(_LEAST, len(below)))
        self.last = _first(below[self.first :][::-1], room // 3)


def _sections(lines: Sequence[str]) -> list[_Section]:
    """Split the diff by its heads; lines about a file form a section that is never cut."""
    found: list[_Section] = []
    for at, line in enumerate(read_diff(lines)):
        if line.sign in ("", "@"):
            found.append(_Section(at, at + 1, at + 1))
        else:
            found[-1].stop = at + 1
    return found


def _shares(sections: Sequence[_Section], lines: Sequence[str], room: int) -> list[int]:
    """The tokens that each section gets; what small ones do not need goes to larger ones."""
    sizes = [sum(tokens(line) + 1 for line in lines[s.start : s.stop]) for s in sections]
    shares = [0] * len(sections)
    order = sorted(range(len(sections)), key=sizes.__getitem__)
    for done, at in enumerate(order):
        shares[at] = min(sizes[at], room // (len(order) - done))
        room -= shares[at]
    return shares


def _first(lines: Sequence[str], room: int) -> int:
    """The number of lines that fit."""
    for at, line in enumerate(lines):
        room -= tokens(line) + 1
        if room < 0:
            return at
    return len(lines)


def _cut(line: str, words: Words) -> str:
    if len(line) <= LONGEST_LINE:
        return line
    return line[:LONGEST_LINE] + words.characters(len(line) - LONGEST_LINE)


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


def emit(data: Mapping[str, Value]) -> str:
    """The YAML document, ending with a newline."""
    lines: list[str] = []
    _mapping(lines, data, "")
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


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    return _SHORT.get(character) or f"\\u{ord(character):04x}"


def _scalar(value: str | int | bool | None) -> str:
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) else quoted(value)
    if value is None:
        return "null"
    return _FLAGS[value] if isinstance(value, bool) else str(value)


_key = lru_cache(maxsize=1024)(_scalar)


def _mapping(lines: list[str], data: Mapping[str, Value], indent: str) -> None:
    for key, value in data.items():
        head, kind = f"{indent}{_key(key)}:", type(value)
        if kind is int:  # the most frequent types avoid a call
            lines += (f"{head} {value}",)
        elif kind is bool:
            lines += (f"{head} {_FLAGS[value is True]}",)
        elif type(value) is str and "\n" not in value:
            lines += (f"{head} {value if _PLAIN.fullmatch(value) else quoted(value)}",)
        elif kind is dict and value:
            lines += (head,)
            _mapping(lines, cast("Fields", value), f"{indent}  ")
        else:
            _entry(lines, head, value, indent)


def _entry(lines: list[str], head: str, value: Value, indent: str) -> None:
    if isinstance(value, str) and "\n" in value and not _UNPRINTABLE.search(value):
        _block(lines, head, value, f"{indent}  ")
    elif value is None or isinstance(value, str | int):
        lines += (f"{head} {_scalar(value)}",)
    elif not value:
        lines += (f"{head} {{}}" if isinstance(value, Mapping) else f"{head} []",)
    elif isinstance(value, Mapping):
        lines += (head,)
        _mapping(lines, value, f"{indent}  ")
    else:
        lines += (head,)
        for item in value:
            _item(lines, item, f"{indent}  ")


def _block(lines: list[str], head: str, text: str, indent: str) -> None:
    """The text as a literal block scalar.

    The header gives the indentation if the first line does not show it, and how the text ends.
    """
    told = "2" if text[0] in " \t\n" else ""
    body = text.removesuffix("\n")
    end = "-" if body is text else "+" if body[-1:] in ("", "\n") else ""
    lines += (f"{head} |{told}{end}",)
    if "\n\n" in f"\n{body}\n":
        lines += [f"{indent}{line}" if line else "" for line in body.split("\n")]
    else:  # no line is empty
        lines += (indent + body.replace("\n", f"\n{indent}"),)


def _item(lines: list[str], value: Value, indent: str) -> None:
    if isinstance(value, Mapping) and value:
        first = len(lines)
        _mapping(lines, value, f"{indent}  ")
        lines[first] = f"{indent}- {lines[first].lstrip()}"
    else:
        _entry(lines, f"{indent}-", value, indent)


Fields = dict[str, Value]

Length = Literal["full", "brief"]
"""The length of an answer: all fields, or one line."""

ANSWER_TOKENS = 4_000  # default budget of an answer
MOST_DIFF_BYTES = 4 << 20
MOST_DIFF_CHARACTERS = 100_000
_CHANGED = re.compile(r"^@@ .*\n(?:[ \\].*\n)*[-+]", re.MULTILINE)
"""A hunk of which a changed line is shown."""

MOST_NEXT = 3
_LEAST_ROOM = 200  # tokens that a diff or a body always has


@dataclass(frozen=True)
class Report:
    """The answer of a tool: complete data, and a text for a model or a person.

    If there is a `line`, the text is that line and `remarks`, one per line, about anything unusual;
    otherwise it is the fields as YAML. Then come `next_steps`, the diff if `shows_diff`, and `body`
    in a fence of `language`. `content` are fields of the data that the body shows. `notices` report
    other events: decisions, losses, writes of other programs.

    `made` are the fields, or a function that computes them on demand: a success reported in one
    line needs them for programs only. `display` is the note on a diff that cannot be applied.

    The text takes about `budget` tokens; 0 is unlimited. `rest` says how to see what is left out,
    from a line `N~` on. `views` are the file versions whose lines it shows.
    """

    made: Fields | Callable[[], Fields]
    diff: str = ""
    body: str | None = None
    language: str = "text"
    next_steps: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    content: Fields = field(default_factory=dict[str, Value])
    line: str = ""
    remarks: tuple[str, ...] = ()
    shows_diff: bool = True
    rest: str = ""
    display: str = ""
    budget: int = ANSWER_TOKENS
    lang: Lang = "en"
    views: tuple[View, ...] = ()

    @computed_once
    def fields(self) -> Fields:
        """The fields, in order."""
        return self.made() if callable(self.made) else self.made

    @property
    def is_error(self) -> bool:
        return not callable(self.made) and self.made.get("status") == "error"

    @property
    def text(self) -> str:
        """The report for a model or a person to read."""
        return self._rendered.text

    def lines_shown(self, view: View) -> ShownLines:
        """The lines of one version of a file that the text shows whole."""
        return view.lines(self._files, fields=self._rendered.is_whole_head and not self.line)

    @property
    def is_whole(self) -> bool:
        """Whether the text shows all of the head and the body."""
        return self._rendered.is_whole

    @computed_once
    def _files(self) -> list[FileLines]:
        return lines_in(self._rendered.diff.split("\n"))

    @computed_once
    def _rendered(self) -> _Rendered:
        steps = (*self.notices, *self.next_steps[:MOST_NEXT])
        if self.display and self.shows_diff:
            steps += (self.display,)
        head = self.line and _joined((self.line, *self.remarks))
        head = head or fenced(emit(self.fields), "yaml")
        said, diff, body = _joined(steps), self.diff if self.shows_diff else "", self.body
        head_cut = body_cut = 0
        if not self._is_short(head, said, self.rest, diff, body or ""):
            budget, words = self.budget, _left_out(self.lang)
            head, head_cut = self._cut_head(head, budget - tokens(said) - _LEAST_ROOM, words)
            room = max(budget - tokens(head) - tokens(said) - tokens(self.rest), _LEAST_ROOM)
            diff, diff_cut = fit_diff(diff, room, words)
            kept, body_cut = fit_text(body or "", max(room - tokens(diff), _LEAST_ROOM), words)
            body = body and kept
            if self.rest:
                steps += tuple(
                    self.rest.replace("N~", f"{cut}~") for cut in (diff_cut, body_cut) if cut
                )
            said = _joined(steps)
        parts = [head, said, diff and fenced(diff, "diff")]
        if body is not None:
            parts.append(fenced(body, self.language))
        text = ("" if self.line else "\n").join(filter(None, parts))
        whole = not (head_cut or body_cut)
        return _Rendered(text, diff, is_whole_head=not head_cut, is_whole=whole)

    def _is_short(self, *texts: str) -> bool:
        """Whether the texts fit in any case, without counting their tokens; mostly they do."""
        most = self.budget - _LEAST_ROOM
        every = "".join(texts)
        return not self.budget or most_tokens(every) <= most or sum(map(most_tokens, texts)) <= most

    def _cut_head(self, head: str, room: int, words: Words) -> tuple[str, int]:
        """As much of the head as fits; its summary in any case."""
        if self.line:
            return fit_text(head, room, words)
        summary = str(self.fields.get("summary", ""))
        kept, cut = fit_text(emit(self.fields), room - tokens(summary), words)
        return fenced(kept, "yaml") + (f"{summary}\n" if cut and summary else ""), cut

    @property
    def data(self) -> Mapping[str, Value]:
        """The complete report for a program: fields, diff and next steps."""
        data = {**self.fields, **self.content}
        if self.diff:
            data["diff"] = cut_diff(self.diff)[0]
        steps = [*self.notices, *self.next_steps[:MOST_NEXT]]
        return {**data, "next": steps} if steps else data


@dataclass(frozen=True, slots=True)
class _Rendered:
    """The text of a report, with the diff as it appears there."""

    text: str
    diff: str
    is_whole_head: bool
    is_whole: bool


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
) -> Report:
    """The report of a list: a line (by default the summary), and rows in a fence."""
    said = line or str(fields["summary"])
    body = _joined(rows) if rows else None
    return Report(fields, body=body, language="", next_steps=next_steps, line=said, remarks=remarks)


def shown_diff(diff: bytes, encoding: Encoding) -> tuple[str, bool]:
    """The diff as text, and whether it is too long for programs; a huge one is cut."""
    if len(diff) > MOST_DIFF_BYTES:
        kept = diff[: diff.rfind(b"\n", 0, MOST_DIFF_BYTES) + 1]
        if not _says_enough(diff_text(kept, encoding), diff[len(kept) : len(kept) + 1] == b"+"):
            return cut_diff(diff_text(diff, encoding))[0], True
        diff = kept
    text = diff_text(diff, encoding)
    return text, len(text) > MOST_DIFF_CHARACTERS


def _says_enough(kept: str, adds: bool) -> bool:
    """Whether a diff's start shows a change. `adds`: a `+` line follows, so old lines do not do."""
    last = kept[kept.rfind("\n", 0, -1) + 1 :][:1]
    return bool(_CHANGED.search(kept)) and not (adds and last in ("-", "\\"))


def short_lines(diff: str) -> str:
    """The diff with long lines shortened to what changes in them."""
    return shorten(diff, lambda count: f"… (+{count} characters) …", marks_whole=False)


def cut_diff(text: str) -> tuple[str, bool]:
    """The first lines of a diff that fit into an answer, and whether it was cut."""
    if len(text) <= MOST_DIFF_CHARACTERS:
        return text, False
    kept = text[: text.rfind("\n", 0, MOST_DIFF_CHARACTERS) + 1]
    if _says_enough(kept, text[len(kept) : len(kept) + 1] == "+"):
        return kept, True
    text = short_lines(text)
    if len(text) <= MOST_DIFF_CHARACTERS:
        return text, True
    stop = text.rfind("\n", 0, MOST_DIFF_CHARACTERS) + 1
    return text[: stop or MOST_DIFF_CHARACTERS], True
