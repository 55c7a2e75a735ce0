"""The page's markup: templates, text made safe to show in them, and a change as a table.

Invariants: every expression of a template is escaped, and characters that could hide in it (control
characters, format characters, look-alikes of blanks and of letters) are shown by their numbers. A
change side by side and unified has the same lines; omissions from a line are reported with their
length. English words stand in the templates and the code; `zh.toml` has the Chinese of each.
"""

from __future__ import annotations

import json
import re
import time
import tomllib
import unicodedata
from bisect import bisect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from functools import cache, lru_cache
from itertools import accumulate, chain, groupby, repeat
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, cast
from urllib.parse import quote

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from copydesk.app.terminal import unseen, with_codes
from copydesk.desk.backends.api import Decision
from copydesk.desk.review import Shown
from copydesk.text.diff import align
from copydesk.text.snapshot import Snapshot
from copydesk.tools.diff_model import (
    ENDINGS,
    DiffBlock,
    DiffLine,
    DiffModel,
    DiffRow,
    Span,
    parts,
    windows,
)
from copydesk.tools.messages import Lang

LANG: Final[ContextVar[Lang]] = ContextVar("the language of the page", default="en")
_HERE: Final = Path(__file__).parent
_INDENT: Final = re.compile(r"(?<=[>}])\s*\n\s*|\s*\n\s*(?=[<{])")
"""Line breaks of a template next to an element or a directive, which the page does not need."""


def visible(text: str, start: int = 0, stop: int | None = None) -> Markup:
    """A text, or a part of it, as an element's content; what cannot be seen is a number.

    So is what may be mistaken: a letter of another script than its word, which may begin before.
    """
    if isinstance(text, Markup):
        return text
    parts, at, stop = list[Markup](), start, len(text) if stop is None else stop
    for offset in unseen(text):
        if start <= offset < stop:
            parts += (escape(text[at:offset]), _hidden_element(text[offset]))
            at = offset + 1
    return Markup("".join((*parts, escape(text[at:stop]))))


@cache
def _chinese() -> Mapping[str, str]:
    return cast("Mapping[str, str]", tomllib.loads((_HERE / "zh.toml").read_text("utf-8")))


def translated(text: str) -> str:
    """The text in the reader's language; unchanged if there is no translation."""
    return text if LANG.get() == "en" else _chinese().get(text, text)


def phrase(text: str, **facts: object) -> str:
    """The translated text with the facts in its `{places}`."""
    return translated(text).format(**facts)


def marked_up(text: str, **facts: object) -> Markup:
    """Like `phrase`, as an element's content: what cannot be seen in a fact is a number."""
    shown_facts = {
        name: visible(fact) if isinstance(fact, str) else fact for name, fact in facts.items()
    }
    return Markup(escape(translated(text))).format(**shown_facts)


@cache
def _of_script(lang: Lang) -> str:
    script = (_HERE / "static/desk.js").read_text("utf-8")
    texts: list[str] = re.findall(r'\bsay\("([^"]+)"', script)
    return json.dumps({text: _chinese()[text] for text in texts} if lang == "zh" else {})


def verbatim(text: str) -> Markup:
    """The unchanged text, for a field that is sent back."""
    return Markup(str(escape(text)).replace("\r", "&#13;"))


def plain(text: str) -> str:
    """The text with the numbers of hidden characters, for places without elements."""
    return with_codes(text, _number)


def hidden_in(text: str) -> int:
    """The number of hidden characters in the text."""
    return len(unseen(text))


def named(count: int, singular: str, plural: str | None = None) -> str:
    """A number with its noun: `1 line`, `1,200 lines`; Chinese has one form."""
    noun = singular if count == 1 or LANG.get() == "zh" else plural or singular + "s"
    return f"{count:,} {translated(noun)}"


def address(*parts: str, **query: str | int | None) -> str:
    """An address below `/`, with its parts and values quoted; None and "" omit a value."""
    path = "/" + "/".join(quote(part, safe="") for part in parts)
    values = "&".join(
        f"{name}={quote(str(v), safe='')}" for name, v in query.items() if v not in (None, "")
    )
    return f"{path}?{values}" if values else path


def render(template: str, **values: object) -> Markup:
    """The template with this name, filled in."""
    return Markup(ENVIRONMENT.get_template(template).render(values))


def _hidden_element(character: str) -> Markup:
    name = unicodedata.name(character, "control character").lower()
    return Markup(f'<span class="odd" title="{escape(name)}">{_number(character)}</span>')


def _number(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"U+{code:04X}"


def _source(name: str) -> str:
    text = (_HERE / "templates" / name).read_text("utf-8")
    return re.sub(r"\s*\n\s*", " ", _INDENT.sub("", text))


def _finalize(value: object) -> object:
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _utc(time_ms: int, form: str) -> str:
    return time.strftime(form, time.gmtime(time_ms // 1000))


ENVIRONMENT: Final = Environment(
    loader=FunctionLoader(_source), autoescape=True, finalize=_finalize, undefined=StrictUndefined
)
cast("dict[str, object]", ENVIRONMENT.filters).update(
    visible=visible, verbatim=verbatim, named=named, utc=_utc
)
_GLOBALS: Final[Mapping[str, object]] = {
    "address": address,
    "_": marked_up,
    "say": phrase,
    "lang": LANG.get,
    "script_texts": lambda: _of_script(LANG.get()),
}
ENVIRONMENT.globals.update(_GLOBALS)  # pyright: ignore # typed as what Jinja puts there


MOST_CHARACTERS: Final = 200_000
"""Larger texts are not coloured: Pygments reads about a million characters per second."""

MOST_IN_LINE: Final = 2_000
"""A text with a longer line is not coloured."""

_KINDS: Final = {
    "Keyword": "k",
    "Operator.Word": "k",
    "Name.Function": "f",
    "Name.Class": "f",
    "Name.Decorator": "a",
    "Name.Attribute": "a",
    "Name.Tag": "k",
    "Name.Builtin": "b",
    "Name.Exception": "b",
    "Name.Constant": "n",
    "Name.Entity": "e",
    "Literal.String": "s",
    "Literal.String.Escape": "e",
    "Literal.String.Interpol": "e",
    "Literal.String.Doc": "c",
    "Literal.Number": "n",
    "Literal.Date": "n",
    "Comment": "c",
    "Comment.Preproc": "a",
    "Generic.Heading": "f",
    "Generic.Subheading": "f",
    "Generic.Strong": "f",
    "Generic.Emph": "s",
}
"""CSS kinds by the names of Pygments' token types; the longest name wins."""


Highlight = tuple[int, int, str]
"""Characters [start, stop) of a line (0-based), and the name of their kind."""


def highlight(path: str, lines: Sequence[str]) -> list[list[Highlight]] | None:
    """The colours of consecutive lines of a file; None if it is not coloured."""
    sizes = [len(line) + 1 for line in lines]
    if sum(sizes) > MOST_CHARACTERS or max(sizes, default=0) > MOST_IN_LINE + 1:
        return None
    tokens = _lexer(path.rpartition("/")[2])
    if tokens is None:
        return None
    highlights: list[list[Highlight]] = [[] for _ in lines]
    starts = [*accumulate(sizes, initial=0)]
    for start, kind_of, value in tokens("\n".join(lines) + "\n"):
        first, kind = bisect(starts, start) - 1, _kind(str(kind_of))
        at = start - starts[first]
        for row, part in enumerate(value.split("\n"), first):
            if part and kind:
                highlights[row].append((at, at + len(part), kind))
            at = 0
    return highlights


@lru_cache(maxsize=256)
def _lexer(name: str) -> Callable[[str], Iterable[tuple[int, object, str]]] | None:
    """What makes tokens of a text, of the language that the file's name tells."""
    try:
        from pygments.lexers import (  # type: ignore[import-untyped]
            find_lexer_class_for_filename,  # pyright: ignore[reportUnknownVariableType]
        )
    except ImportError:
        return None
    lexer: Any = find_lexer_class_for_filename(name)
    return lexer().get_tokens_unprocessed if lexer else None


@lru_cache(maxsize=1024)
def _kind(token: str) -> str | None:
    """The kind of a token type such as `Token.Name.Function`: the longest known name wins."""
    names = accumulate(token.split(".")[1:], "{}.{}".format)
    return next((_KINDS[name] for name in reversed([*names]) if name in _KINDS), None)


def render_line(
    text: str,
    colours: Sequence[Highlight] = (),
    marked: Sequence[Span] = (),
    *,
    whole: bool = False,
) -> Markup:
    """The line with marked characters in `mark` elements and coloured ones in classes."""
    shown = ((0, len(text)),) if whole else windows(text, marked)
    pieces: list[str] = []
    for start, stop, window in parts(0, len(text), shown):
        if not window:
            pieces.append(f'<span class="cut">… {named(stop - start, "character")} …</span>')
            continue
        for begin, end, mark in parts(start, stop, marked):
            spans = _coloured(text, begin, end, colours)
            pieces.append(f"<mark>{spans}</mark>" if mark else spans)
    return Markup("".join(pieces))


def _coloured(text: str, start: int, stop: int, colours: Sequence[Highlight]) -> str:
    """The characters as markup, made by `visible` alone."""
    spans = (
        (visible(text, begin, end), colour) for begin, end, colour in parts(start, stop, colours)
    )
    return "".join(
        f'<span class="s-{colour[2]}">{span}</span>' if colour else span for span, colour in spans
    )


View = Literal["split", "unified"]

Colours = Mapping[int, Sequence[Highlight]]
"""The colours of the lines of one side, by line number (1-based)."""


def table(
    path: str,
    model: DiffModel,
    view: View,
    more: str | None = None,
    colours: tuple[Colours, Colours] | None = None,
    *,
    whole: bool = False,
    notes: Mapping[str, list[Decision]] | None = None,
    heads: Sequence[Markup] = (),
) -> Markup:
    """The diff with both sides' colours; `more` is the address of the page with all context.

    `notes` are comments by line (`-3` of the text before, `+3` after), `heads` is what stands
    above each hunk.
    """
    old, new = colours or (colours_of(path, [*model.lines(side)]) for side in ("old", "new"))
    hunks = [
        {
            "skipped": hunk.skipped,
            "blocks": [
                (block.is_context, _cells(block, (old, new), whole)) for block in hunk.blocks
            ],
            "head": head,
        }
        for hunk, head in zip(model.hunks, chain(heads, repeat("")), strict=False)
    ]
    return render(
        "diff.html",
        path=path,
        split=view == "split",
        hunks=hunks,
        skipped=model.skipped,
        more=more,
        notes=notes,
    )


Cell = Mapping[str, object]
"""One line on one side of the table; `ending` shows how the line ends, or is empty."""


def _cells(
    block: DiffBlock, colours: tuple[Colours, Colours], whole: bool
) -> list[list[Cell | None]]:
    def cell(row: DiffRow, side: int) -> Cell | None:
        line = (row.old, row.new)[side]
        if line is None:
            return None
        return {
            "number": line.number,
            "text": render_line(
                line.text, colours[side].get(line.number, ()), row.marks[side], whole=whole
            ),
            "ending": ENDINGS[line.ending] if row.shows_endings else "",
        }

    return [[cell(row, 0), cell(row, 1)] for row in block.rows]


def colours_of(path: str, lines: Sequence[DiffLine]) -> Colours:
    """The colours of lines of a file; consecutive lines are tokenized together."""
    known: dict[int, Sequence[Highlight]] = {}
    for _, numbered in groupby(enumerate(lines), lambda pair: pair[1].number - pair[0]):
        run = [line for _, line in numbered]
        colours = highlight(path, [line.text for line in run])
        if colours is not None:
            known |= {line.number: each for line, each in zip(run, colours, strict=True)}
    return known


_MOST_BYTES: Final = 2_000_000
_MOST_LINES: Final = 200
_CONTEXT: Final = 3


class NewPlan(NamedTuple):
    """A replacement for a plan: lines [start, stop] (1-based) of the current text, a new text."""

    start: int
    stop: int
    content: str


class MergeConflict(NamedTuple):
    """The places of a plan in conflict, each three ways; and how many others are changed.

    `rest` of a way is the number of lines not shown.
    """

    places: list[list[Mapping[str, Any]]]
    elsewhere: int
    new_plan: NewPlan | None


class _Edit(NamedTuple):
    """Lines [start, stop) of the base, and how many lines replace them on another side."""

    start: int
    stop: int
    lines: int


def conflict_of(shown: Shown) -> MergeConflict | None:
    """The plan three ways; None without a conflict, or if a text is not available."""
    base, planned, now = shown.draft.base, shown.draft.after, shown.now
    if not (isinstance(base, Snapshot) and isinstance(planned, Snapshot) and now is not None):
        return None
    is_edit = not shown.draft.request.is_operation and not shown.draft.created
    if not is_edit or base.size + now.size > _MOST_BYTES:
        return None
    ours = [_Edit(region.start, region.stop, len(region.new)) for region in shown.draft.regions]
    theirs = [
        _Edit(g.base_start, g.base_stop, g.now_stop - g.now_start)
        for g in align(_raw(base), _raw(now)).gaps()
    ]
    spans = _spans(ours, theirs, shown.draft.place.foot)
    path = str(shown.plan.request.path)
    altered = {line for edit in (*ours, *theirs) for line in range(edit.start, edit.stop)}
    ways = (
        ("As it was", base, (), altered, " gone"),
        ("As planned", planned, ours, _made(ours), " come"),
        ("As it is", now, theirs, _made(theirs), " come"),
    )
    wides = [_widened(span, base.line_count, (*ours, *theirs)) for span in spans]
    places = [
        [
            _way(title, path, text, _run(wide, span, edits), changed, kind)
            for title, text, edits, changed, kind in ways
        ]
        for span, wide in zip(spans, wides, strict=True)
    ]
    new_plan: NewPlan | None = None
    if len(spans) == 1:
        span, wide = spans[0], wides[0]
        part = span if _run(span, span, theirs) else wide  # a range has at least one line
        lines = _run(part, span, theirs)
        raw = b"".join(planned.raw(n, n + 1) for n in _run(part, span, ours))
        text = planned.encoding.decode(raw).replace("\r\n", "\n")
        if lines and "\r" not in text:  # a browser would turn CR into a line end
            new_plan = NewPlan(lines.start + 1, lines.stop, text)
    elsewhere = sum(not any(a <= e.stop and e.start <= b for a, b in spans) for e in theirs)
    return MergeConflict(places, elsewhere, new_plan)


def _way(
    title: str, path: str, text: Snapshot, lines: range, changed: set[int], kind: str
) -> Mapping[str, Any]:
    """One of the three texts at a place, as the template is given it."""
    shown = [DiffLine(number + 1, text.text(number), "lf") for number in lines[:_MOST_LINES]]
    colours = colours_of(path, shown)
    rows = [
        {
            "number": each.number,
            "text": render_line(each.text, colours.get(each.number, ())),
            "kind": kind if each.number - 1 in changed else "",
        }
        for each in shown
    ]
    return {"title": title, "lines": rows, "rest": max(len(lines) - _MOST_LINES, 0)}


def _raw(text: Snapshot) -> list[bytes]:
    plain = text.unmarked()
    return [plain.raw(line, line + 1) for line in range(plain.line_count)]


def _spans(
    ours: Sequence[_Edit], theirs: Sequence[_Edit], footprint: tuple[int, int] | None
) -> list[tuple[int, int]]:
    """The base lines of each group of touching edits from both sides."""
    relied = (
        {footprint}
        if footprint is not None and 0 <= footprint[0] <= footprint[1]
        else set[tuple[int, int]]()
    )
    own = {(edit.start, edit.stop) for edit in ours} | relied
    groups: list[tuple[int, int, bool]] = []
    for start, stop in sorted(own | {(edit.start, edit.stop) for edit in theirs}):
        is_own = (start, stop) in own
        if groups and start <= groups[-1][1]:
            first, last, was_own = groups.pop()
            start, stop, is_own = first, max(last, stop), was_own or is_own
        groups.append((start, stop, is_own))
    return [(start, stop) for start, stop, is_own in groups if is_own]


def _widened(span: tuple[int, int], most: int, edits: Sequence[_Edit]) -> tuple[int, int]:
    """The span with some untouched lines around it."""
    start, stop = span
    low = max([0, start - _CONTEXT, *(edit.stop for edit in edits if edit.stop < start)])
    return low, min([most, stop + _CONTEXT, *(edit.start for edit in edits if edit.start > stop)])


def _run(part: tuple[int, int], span: tuple[int, int], edits: Sequence[_Edit]) -> range:
    """The lines after the edits that correspond to `part`, which contains the span."""
    low, high = part
    return range(
        _moved(low, edits, after=low < span[0]), _moved(high, edits, after=high == span[1])
    )


def _moved(line: int, edits: Sequence[_Edit], *, after: bool) -> int:
    """The line of the base after the edits; `after`: behind text inserted right there."""
    ahead = (edit for edit in edits if edit.stop <= line and (after or edit.start < line))
    return line + sum(edit.lines - (edit.stop - edit.start) for edit in ahead)


def _made(edits: Sequence[_Edit]) -> set[int]:
    runs = ((_moved(edit.start, edits, after=False), edit.lines) for edit in edits)
    return {line for start, count in runs for line in range(start, start + count)}
