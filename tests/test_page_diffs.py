"""What a diff on the page shows: all that changes, where it stands, and nothing else."""

from __future__ import annotations

import html
import random
import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.app.web import markup
from copydesk.app.web.markup import (
    ENVIRONMENT,
    conflict_of,
    hidden_in,
    highlight,
    plain,
    render_line,
    table,
    verbatim,
    visible,
)
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.diff import unified
from copydesk.text.encoding import UTF8
from copydesk.text.snapshot import Snapshot
from copydesk.tools.diff_model import (
    LONG,
    DiffLine,
    DiffModel,
    intraline,
    of_change,
    of_diff,
    pair_lines,
)
from support.review_page import AGENT, Elements, desk_at

TEXTS = st.lists(
    st.sampled_from(["a\n", "b\n", "a\r\n", "\n", "-x\n", "+y\n", "@@ -1,1 +1,1 @@\n", "é"]),
    max_size=12,
).map("".join)


@st.composite
def changes(draw: st.DrawFn) -> tuple[bytes, ChangeSet]:
    """A text and a change of some of its lines."""
    old = draw(TEXTS).encode()
    lines = old.split(b"\n")
    starts = [0]
    for line in lines[:-1]:
        starts.append(starts[-1] + len(line) + 1)
    starts.append(len(old))
    cuts = sorted(draw(st.lists(st.sampled_from(starts), max_size=6)))
    pairs = [(a, b) for a, b in zip(cuts[::2], cuts[1::2], strict=False)]
    edits = [Edit(a, b, draw(TEXTS).encode()) for a, b in pairs]
    return old, ChangeSet.of(len(old), edits) if not _overlap(pairs) else ChangeSet.of(len(old), [])


def _overlap(pairs: list[tuple[int, int]]) -> bool:
    return any(b > c for (_, b), (c, _) in pairwise(pairs))


def told(line: DiffLine) -> bytes:
    return line.text.encode() + {"lf": b"\n", "crlf": b"\r\n", "none": b""}[line.ending]


@given(changes(), st.integers(0, 4))
def test_the_two_sides_are_the_two_texts(made: tuple[bytes, ChangeSet], context: int) -> None:
    """With all lines around it, a change has both texts; with fewer, a part of them in order."""
    old, change = made
    base, new = Snapshot.of(old), change.apply(old)
    whole = of_change(base, change, 1_000)
    if whole.hunks:
        assert b"".join(map(told, whole.lines("old"))) == old
        assert b"".join(map(told, whole.lines("new"))) == new
        assert not whole.skipped
    some = of_change(base, change, context)
    after = Snapshot.of(new)
    for side, text in (("old", base), ("new", after)):
        numbers = [line.number for line in some.lines(side)]  # type: ignore[arg-type]
        assert numbers == sorted(set(numbers))
        for line in some.lines(side):  # type: ignore[arg-type]
            assert told(line) == text.raw(line.number - 1, line.number)
    skipped = sum(hunk.skipped for hunk in some.hunks) + (some.skipped or 0)
    assert skipped + len(list(some.lines("old"))) == base.line_count


@given(changes())
def test_a_recorded_diff_shows_what_the_change_shows(made: tuple[bytes, ChangeSet]) -> None:
    old, change = made
    base = Snapshot.of(old)
    fresh, recorded = of_change(base, change), of_diff(unified(base, change, "a"), UTF8)
    for side in ("old", "new"):
        assert list(recorded.lines(side)) == list(fresh.lines(side))  # type: ignore[arg-type]
    assert [hunk.skipped for hunk in recorded.hunks] == [hunk.skipped for hunk in fresh.hunks]


@given(
    st.lists(st.sampled_from(["one two", "one 2", "x", "", "three"]), max_size=8),
    st.lists(st.sampled_from(["one two!", "2 one", "x", "y z"]), max_size=8),
)
def test_every_line_is_in_one_pair_in_its_order(old: list[str], new: list[str]) -> None:
    pairs = pair_lines(old, new)
    assert [i for i, _ in pairs if i is not None] == list(range(len(old)))
    assert [j for _, j in pairs if j is not None] == list(range(len(new)))
    assert (None, None) not in pairs


@pytest.mark.parametrize(
    ("old", "new", "pairs"),
    [
        (["a = 1"], ["# what", "a = 2"], [(None, 0), (0, 1)]),
        (["one two three", "x"], ["one two four"], [(0, 0), (1, None)]),
        (["p", "q"], ["r", "s"], [(0, 0), (1, 1)]),
        ([], ["r"], [(None, 0)]),
    ],
)
def test_lines_stand_beside_those_like_them(old: list[str], new: list[str], pairs: object) -> None:
    assert pair_lines(old, new) == pairs


def without(text: str, spans: list[tuple[int, int]]) -> str:
    for start, stop in reversed(spans):
        text = text[:start] + text[stop:]
    return text


LINES = st.text(st.sampled_from("ab _=.é\u202e"), max_size=40)


@given(LINES, LINES)
def test_what_is_not_marked_is_the_same_on_both_sides(old: str, new: str) -> None:
    gone, come = intraline(old, new)
    if gone or come or old == new:
        assert re.sub(r"\s", "", without(old, gone)) == re.sub(r"\s", "", without(new, come))


@pytest.mark.parametrize(
    ("old", "new", "gone", "come"),
    [
        ("f(a, b)", "f(a, c)", ["b"], ["c"]),
        ("port = 8080", "port = 8427", ["8080"], ["8427"]),
        ("see the whitespace", "see the blank space", ["whitespace"], ["blank space"]),
        ("该规划须先由人批准。", "该规划须先由他人核准。", ["批"], ["他", "核"]),
        ("この行は変わりました", "この行は変わりません", ["した"], ["せん"]),
        ("x = (1, 2)", "y = [3, 4]", [], []),
        ("    if a: return b()", "    while c: yield d()", [], []),
        ("}", "})", [], [")"]),
        ("x = a.whites(1)", "x = a.blacks(1)", ["whites"], ["blacks"]),
        ("x" * 200 + "1", "x" * 200 + "2", ["1"], ["2"]),
        ("return x", "return  x", [], [" "]),
        ("entirely", "different", [], []),
        ("same", "same", [], []),
    ],
)
def test_words_are_marked(old: str, new: str, gone: list[str], come: list[str]) -> None:
    spans = intraline(old, new)
    assert [old[a:b] for a, b in spans[0]] == gone
    assert [new[a:b] for a, b in spans[1]] == come


DIGITS = random.Random(1)
LONG_LINES = {
    "words": lambda: " ".join(f"word{n}" for n in range(100_000)),
    "digits": lambda: ",".join(str(DIGITS.randrange(10)) for _ in range(500_000)),
    "json": lambda: ",".join(f'{{"id":{n},"name":"n{n % 97}"}}' for n in range(40_000)),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", LONG_LINES)
def test_words_are_marked_in_lines_of_a_megabyte(kind: str) -> None:
    """Changes far apart, with lines that are longer by them, are marked each by itself."""
    old = LONG_LINES[kind]()
    at = [len(old) * part // 7 for part in range(1, 7)]
    pieces = [old[a:b] for a, b in pairwise([0, *at, len(old)])]
    new = "here" + " CHANGED ".join(pieces) + "there"
    gone, come = intraline(old, new)
    assert without(old, gone) == without(new, come)
    wanted = ("here", *["CHANGED"] * 6, "there")
    assert len(come) == len(wanted)
    for word, (start, stop) in zip(wanted, come, strict=True):
        assert word in new[start:stop]
        assert stop - start < 40
    made = text_of(render_line(new, (), come))
    assert made.count("CHANGED") == 6
    assert len(made) < 6_000


def test_a_long_line_is_compared_by_its_pieces() -> None:
    """Two words far apart in a line of more than is compared at once."""
    words = [f"word{n}" for n in range(3_000)]
    new = ["first", *words[1:-1], "last"]
    marks = intraline(" ".join(["<", *words, ">"]), " ".join(["(", *new, ")"]))
    assert [len(spans) for spans in marks] == [2, 2]


def test_lines_that_touch_are_told_as_one_run() -> None:
    """All that is removed, then all that is added; beside one another as they were edited."""
    base = Snapshot.of(b"a 1\nb 2\nc 3\nd 4\n")
    new = (b"a 1!\na 1?\n", b"b 2!\n", b"c 3!\n")
    edits = [Edit(4 * at, 4 * at + 4, text) for at, text in enumerate(new)]
    change = ChangeSet.of(base.size, edits)
    body = unified(base, change, "a").split(b" @@\n")[1]
    assert body == b"-a 1\n-b 2\n-c 3\n+a 1!\n+a 1?\n+b 2!\n+c 3!\n d 4\n"
    (hunk,) = of_change(base, change).hunks
    assert [len(block.rows) for block in hunk.blocks] == [4, 1]
    rows = [(row.old and row.old.number, row.new and row.new.number) for row in hunk.blocks[0].rows]
    assert rows == [(1, 1), (None, 2), (2, 3), (3, 4)]


def text_of(markup: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", markup))


@given(st.text(max_size=60), st.lists(st.integers(0, 60), max_size=6))
def test_a_painted_line_says_its_text(text: str, cuts: list[int]) -> None:
    ends = sorted({cut for cut in cuts if cut <= len(text)})
    spans = list(zip(ends[::2], ends[1::2], strict=False))
    colours = highlight("a.py", [text]) if "\n" not in text else None
    assert text_of(render_line(text, colours[0] if colours else (), spans)) == plain(text)


def test_a_long_line_is_shown_where_it_differs() -> None:
    text = "a" * LONG + "b" * 10 + "c" * LONG
    made = text_of(render_line(text, (), [(LONG, LONG + 10)]))
    assert "a" + "b" * 10 + "c" in made
    shown_ = sum(map(made.count, "bc")) + made.count("aa")
    left_out = sum(int(n.replace(",", "")) for n in re.findall(r"… ([\d,]+) character", made))
    assert len(re.sub(r"… [\d,]+ characters? …", "", made)) + left_out == len(text)
    assert shown_


def test_colours_are_those_of_the_file() -> None:
    for name, lines, kind, word in (
        ("a.py", ["def f():", '    """x', '    y"""'], "c", 'y"""'),
        ("a.js", ["const a = 'b'"], "s", "'b'"),
        ("deep/Makefile", ["all: # no"], "c", "# no"),
    ):
        found = highlight(name, lines)
        assert found is not None, name
        words = {(lines[at][a:b].strip(), k) for at, row in enumerate(found) for a, b, k in row}
        assert (word, kind) in words, name
    assert [highlight(name, ["x = 1"]) for name in ("a.unknown-kind", "noname", "x")] == [None] * 3


def test_how_a_line_ends_is_told_where_that_is_what_changes() -> None:
    def made(old: bytes, edit: Edit) -> str:
        change = ChangeSet.of(len(old), [edit])
        return str(table("a", of_change(Snapshot.of(old), change), "unified"))

    ends = made(b"a\n", Edit(1, 2, b"\r\n"))
    assert "␊" in ends
    assert "␍␊" in ends
    assert "no newline" in made(b"a", Edit(0, 1, b"b\n"))
    assert "no newline" in made(b"a\n", Edit(2, 2, b"b"))


def test_both_views_show_the_same_lines() -> None:
    base = Snapshot.of(b"".join(b"line %d\n" % i for i in range(30)))
    change = ChangeSet.of(base.size, [Edit(0, 7, b"x\ny\n"), Edit(70, 77, b"")])
    model = of_change(base, change)
    split, flat = (str(table("a.txt", model, view)) for view in ("split", "unified"))
    for kind in ("gone", "come"):
        cell = rf'<td class="text {kind}">(.*?)</td>'
        assert re.findall(cell, split) == re.findall(cell, flat) != []


def test_a_part_of_a_large_change_is_its_first_rows() -> None:
    base = Snapshot.of(b"x\n" * 50)
    sides = of_change(base, ChangeSet.of(100, [Edit(0, 100, b"y\n" * 50)]))
    assert sides.rows == 50
    assert sides.first(10).rows == 10
    assert DiffModel(()).first(3).rows == 0


def test_markup_is_escaped_by_construction() -> None:
    def made(source: str, text: str) -> str:
        return ENVIRONMENT.from_string(source).render(text=text)

    hostile = "\"'<\u202e"
    assert made('<p title="{{ text }}">', hostile) == '<p title="&#34;&#39;&lt;U+202E">'
    assert made("<p>{{ text }}</p>", "<b>&\x1b") == "<p>&lt;b&gt;&amp;\\x1b</p>"
    assert made('<input value="{{ text|verbatim }}">', "a\u202e\r") == (
        '<input value="a\u202e&#13;">'
    )
    odd = '<span class="odd" title="control character">\\x1b</span>'
    assert made("{{ text|visible }}", "\x1b<") == f"{odd}&lt;"
    assert visible("\x1b") == odd
    assert verbatim("<\n>") == "&lt;\n&gt;"
    assert (hidden_in("a\u200bb\t\n"), hidden_in("héllo 中文")) == (1, 0)


def test_what_looks_like_something_else_is_named_also_where_it_alone_is_marked() -> None:
    blank = '<span class="odd" title="no-break space">\\xa0</span>'
    assert visible("a\xa0b<\u2800") == (
        f'a{blank}b&lt;<span class="odd" title="braille pattern blank">U+2800</span>'
    )
    letter = '<span class="odd" title="cyrillic small letter a">U+0430</span>'
    text = "<p\u0430y"
    assert visible(text) == f"&lt;p{letter}y"
    assert [visible(text, at, at + 1) for at in range(5)] == ["&lt;", "p", letter, "y", ""]
    assert (hidden_in(text), plain(text)) == (1, "<pU+0430y")


def test_a_template_has_text_only_where_it_is_safe() -> None:
    """As content, or in a quoted attribute that no script and no style is; never unescaped."""
    templates = Path(markup.__file__).parent / "templates"
    for path in templates.iterdir():
        check_template(path.name, path.read_text("utf-8"))


def check_template(name: str, text: str) -> None:
    source = re.sub(r"{%.*?%}|{#.*?#}", "", text, flags=re.S)
    expressions: list[str] = []

    def numbered(found: re.Match[str]) -> str:
        expressions.append(found[0])
        return f"\0{len(expressions) - 1}\0"

    source = re.sub(r"{{.*?}}", numbered, source, flags=re.S)
    assert not re.search(r"<[^>]*=\0|='[^'>]*\0|<\w*\0", source), f"{name}: no quotes"
    assert not [one for one in expressions if re.search(r"\|\s*safe|Markup|markup", one)], name
    for tag, attributes in Elements(source).found:
        assert tag != "style", name
        assert tag != "script" or not any("\0" in str(value) for value in attributes.values()), name
        for key, value in attributes.items():
            assert "\0" not in key, (name, tag, key)
            assert not re.match("on|style$", key), (name, tag, key)
            for number in re.findall(r"\0(\d+)\0", value or ""):
                assert "|visible" not in expressions[int(number)], (name, tag, "holds an element")
    assert "autoescape" not in text, name


@pytest.mark.slow
def test_a_field_of_a_form_is_not_offered_a_lone_carriage_return(tmp_path: Path) -> None:
    with desk_at(tmp_path) as desk:
        (tmp_path / "a.txt").write_bytes(b"a\rb\nc\n")
        given = {"path": "a.txt", "range": "1", "content": "x\ry\n"}
        hunk = str(desk.call(AGENT, "prepare_file_range_edit", given).fields["hunk_id"])
        desk.desk.show(desk.member(AGENT), hunk)
        (tmp_path / "a.txt").write_bytes(b"z\nc\n")
        found = conflict_of(desk.desk.review.show(desk.member("fixer"), hunk))
    assert found is not None
    assert found.places
    assert found.new_plan is None


@pytest.mark.slow
def test_a_conflict_shows_all_that_was_planned_and_all_that_came_there(tmp_path: Path) -> None:
    chance = random.Random(17)
    seen = 0
    with desk_at(tmp_path) as desk:
        for number in range(60):
            path = f"{number}.txt"
            base = [f"{chance.randrange(30)}\n" for _ in range(12)]
            (tmp_path / path).write_text("".join(base))
            low = chance.randrange(1, 12)
            high = min(low + chance.randrange(3), 12)
            content = "".join(f"planned {n}\n" for n in range(chance.randrange(4)))
            given = {"path": path, "range": f"{low}~{high}", "content": content}
            hunk = str(desk.call(AGENT, "prepare_file_range_edit", given).fields["hunk_id"])
            desk.desk.show(desk.member(AGENT), hunk)
            now = list(base)
            for at in {low - 1, high - 1, chance.randrange(12)}:
                now[at] = chance.choice(["", f"now {at}\n", f"now {at}\nand\n"])
            (tmp_path / path).write_text("".join(now))
            shown = desk.desk.review.show(desk.member("fixer"), hunk)
            found = conflict_of(shown)
            assert (found is None) == (shown.refusal is None or shown.now is None)
            if found is None or shown.now is None:
                continue
            seen += 1
            ((was, planned, current),) = found.places
            for way, text in (
                (was, base),
                (planned, [*base[: low - 1], *content.splitlines(), *base[high:]]),
                (current, "".join(now).splitlines()),
            ):
                for line in way["lines"]:
                    shown_text = str(line["text"])
                    assert shown_text == text[line["number"] - 1].rstrip("\n"), (way["title"], line)
            assert sum(line["kind"] == " come" for line in planned["lines"]) == content.count("\n")
            assert set(range(low, high + 1)) <= {line["number"] for line in was["lines"]}
            if found.new_plan is not None:
                start, stop, text_ = found.new_plan
                lines = "".join(now).splitlines(keepends=True)
                made = [*lines[: start - 1], text_, *lines[stop:]]
                reviewed = desk.desk.review.replan(
                    desk.member("fixer"), hunk, shown.now.digest, f"{start}~{stop}", text_
                )
                assert reviewed.state == "exact"
                assert reviewed.draft.after.raw(0, reviewed.draft.after.line_count).decode() == (
                    "".join(made)
                )
    assert seen > 20
