"""What a terminal shows: nothing of a file's text acts on it, in colour or not."""

from __future__ import annotations

import io
import json
import re
import unicodedata
from collections.abc import Callable
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.app import terminal
from copydesk.app.terminal import Look, diff_rows
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.snapshot import Snapshot
from copydesk.tools.diff_model import of_change
from support.cost import bounded

HOSTILE = "\x1b[31m\x00\x07\r\x7f\x9b\u061c\u200e\u202e\u2028\u2066\ufeff\udc80\U000e0041"
ANY = st.text(st.characters(codec=None), max_size=40) | st.text(st.sampled_from(HOSTILE + "ab\n\t"))
STYLE = re.compile(r"\x1b\[\d+m")
DIFF = """\
diff --git a/a b/a
--- a/a
+++ b/a
@@ -1,3 +1,3 @@ def f
 one
--- two
+++ three
 four
after
"""


class Screen(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def harmless(text: str) -> bool:
    """No control character but line feed and tab, nothing that changes the direction."""
    return all(
        character in "\n\t"
        or (
            unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp")
            and unicodedata.bidirectional(character)
            not in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
        )
        for character in text
    )


@given(ANY)
def test_no_text_acts_on_a_terminal(text: str) -> None:
    assert harmless(terminal.safe(text))
    assert harmless(STYLE.sub("", terminal.diff(text, coloured=True)))
    one = terminal.line(text)
    assert harmless(one)
    assert not set("\n\t") & set(one)


@pytest.mark.slow
@given(st.recursive(ANY, lambda inner: st.lists(inner) | st.dictionaries(ANY, inner), max_leaves=5))
def test_json_is_harmless_and_means_the_same(data: object) -> None:
    shown = terminal.as_json(data)
    assert harmless(shown)
    assert json.loads(shown) == data


@given(ANY)
def test_colours_add_nothing_but_colours(text: str) -> None:
    assert STYLE.sub("", terminal.diff(text, coloured=True)) == terminal.diff(text, coloured=False)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain 中文 é", "plain 中文 é"),
        ("a\r\nb\r", "a\nb\\x0d"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\u202egpj", "\\u202egpj"),
        ("\udc80", "\\udc80"),
        ("\U000e0041", "\\U000e0041"),
        ("user\ufe00 \u180b\U0001d173", "user\\ufe00 \\u180b\\U0001d173"),
        ("a\ufe0f 1\ufe0f \u26a0\ufe0f\ufe0f", "a\\ufe0f 1\\ufe0f \u26a0\ufe0f\\ufe0f"),
        ("\u26a0\ufe0f 1\ufe0f\u20e3 \xa9\ufe0e", "\u26a0\ufe0f 1\ufe0f\u20e3 \xa9\ufe0e"),
        # letters of another script within a word
        ("p\u0430ypal", r"p\u0430ypal"),
        ("\u043f\u0440\u0438\u0432et", "\u043f\u0440\u0438\u0432\\x65\\x74"),
        ("x = n\u043ene", r"x = n\u043ene"),
        ("\u0430\u0301bc", "\\u0430\u0301bc"),
        ("4p\u03bfrt", r"4p\u03bfrt"),
        ("\u0410\u0391", "\u0410\\u0391"),
        ("\u212aelvin", r"\u212aelvin"),
        ("\uff41dmin", r"\uff41dmin"),
        ("\u0440\u0430\u0443 \u03b1\u03b2 pay", "\u0440\u0430\u0443 \u03b1\u03b2 pay"),
        ("\u4f7f\u7528Python\u7684API", "\u4f7f\u7528Python\u7684API"),
        ("5\xb5s \xaa caf\xe9 na\xefve", "5\xb5s \xaa caf\xe9 na\xefve"),
    ],
)
def test_what_is_shown_instead(text: str, shown: str) -> None:
    assert terminal.safe(text) == shown
    assert "\r\n" in text or terminal.line(text) == shown


LOOK_LIKE_NOTHING = [
    character
    for character in map(chr, range(0x80, 0x110000))
    if unicodedata.category(character) in ("Zs", "Cf")
    or character in "\u2800\u3164\U000e0100\ufe00"
]


@pytest.mark.parametrize("show", [terminal.safe, terminal.line])
def test_every_space_and_format_character_is_named(show: Callable[[str], str]) -> None:
    assert len(LOOK_LIKE_NOTHING) > 150
    for character in LOOK_LIKE_NOTHING:
        code = show(f"a{character}b")[1:-1]
        assert code.isascii(), code
        assert int(code[2:], 16) == ord(character)


@pytest.mark.slow
def test_long_words_are_looked_at_once() -> None:
    words = ["p\u0430" * 20_000, "a" * 100_000 + "\u0430", "\u4e2d" * 100_000, "a\u0301" * 50_000]
    with bounded():
        for word in words:
            terminal.safe(word)


def test_colours_follow_the_hunk_not_the_first_characters() -> None:
    painted = terminal.diff(DIFF, coloured=True).split("\n")
    styles = [(STYLE.findall(line) or [""])[0][2:-1] for line in painted]
    assert styles == ["1", "1", "1", "36", "", "31", "32", "", "", ""]


@pytest.mark.parametrize(
    ("tty", "environment", "wanted"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (True, {"TERM": "dumb"}, False),
    ],
)
def test_when_there_are_colours(
    tty: bool, environment: dict[str, str], wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in {"TERM": "xterm", **environment}.items():
        monkeypatch.setenv(name, value)
    assert terminal.colours(Screen() if tty else io.StringIO()) is wanted


def test_a_table_is_aligned_whatever_is_in_it() -> None:
    rows = [("PATH", "X"), ("中文", "1"), ("a\nb\x1b", "2"), ("e\u0301", "3")]
    assert terminal.table(rows).split("\n") == [
        "PATH        X",
        "中文        1",
        "a\\x0ab\\x1b  2",
        "e\u0301           3",
        "",
    ]
    assert terminal.table([]) == ""


@pytest.mark.parametrize("columns", [20, 40, 60, 100])
def test_a_table_fits_a_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setattr(terminal, "screen_columns", Mock(return_value=columns))
    words = " ".join(f"word{number}" for number in range(20))
    rows = [("HUNK", "PATH", "WHY"), ("12345678", "中文/a.txt", words), ("87654321", "b", "")]
    lines = terminal.table(rows).split("\n")
    assert max(map(terminal.columns, lines)) <= columns
    assert re.findall(r"word\d+", " ".join(lines)) == words.split(" "), "no word is broken"


def test_a_command_that_is_told_is_never_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "screen_columns", Mock(return_value=30))
    terminal.tell("It may be long. To write it: copydesk apply --approve 12345678. Or: copydesk q")
    terminal.tell("写入：copydesk apply --approve 12345678。其他：copydesk q。")
    assert capsys.readouterr().out.split("\n") == [
        "It may be long.",
        "To write it:",
        "  copydesk apply --approve 12345678",
        "Or: copydesk q",
        "写入：",
        "  copydesk apply --approve 12345678",
        "其他： copydesk q",
        "",
    ]


def test_lengths_of_time() -> None:
    seconds = (-5, 0, 89, 90, 3_599.6, 5_400, 86_400, 200_000, 7 * 86_400 - 7_200)
    shown = ["0s", "0s", "89s", "2m", "60m", "2h", "24h", "2d", "7d"]
    assert [terminal.ago(int(one * 1000)) for one in seconds] == shown


def test_a_count_is_drawn_and_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    screen, file = Screen(), io.StringIO()
    for stream in (screen, file):
        now[0] = 0.0
        counter = terminal.Counter(stream)
        for moment, seen in ((0.1, 10), (0.6, 20), (0.65, 30), (0.8, 40)):
            now[0] = moment
            counter(seen)
        counter.clear()
    assert screen.getvalue().split("\r") == [
        "",
        "20 files searched\x1b[K",
        "40 files searched\x1b[K",
        "\x1b[K",
    ]
    assert file.getvalue() == ""


LINES = st.lists(
    st.text(st.sampled_from("ab +-\t中\u0301é\x1b\u202e\r\ufe0f\U000e0041"), max_size=50),
    max_size=6,
)


@given(LINES, LINES, st.integers(10, 120), st.booleans(), st.booleans())
def test_rows_of_a_change_fit_the_screen_and_tell_all_of_it(
    old: list[str], new: list[str], columns: int, split: bool, coloured: bool
) -> None:
    texts = ["".join(f"{line}\n" for line in ["first", *lines, "last"]) for lines in (old, new)]
    base = Snapshot.of(texts[0].encode())
    change = ChangeSet.of(base.size, [Edit(0, base.size, texts[1].encode())])
    rows = list(diff_rows(of_change(base, change), Look(columns, coloured, split), str))
    styles = re.compile(r"\x1b\[\d*m")
    assert ("\x1b" in "".join(rows)) <= coloured
    for row in rows:
        bare = styles.sub("", row)
        assert harmless(bare)
        assert "\t" not in bare
        assert terminal.columns(bare) <= columns
    if not split and coloured:
        signs = [styles.sub("", row).lstrip("0123456789 ")[:1] for row in rows]
        hunks = of_change(base, change).hunks
        changed = [row for h in hunks for b in h.blocks if not b.is_context for row in b.rows]
        assert signs.count("-") >= sum(row.old is not None for row in changed)


def test_a_line_that_stays_has_both_its_numbers() -> None:
    change = ChangeSet.of(4, [Edit(2, 4, b"x\n")])
    rows = diff_rows(of_change(Snapshot.of(b"a\nb\n"), change), Look(60, False, False), str)
    assert [*rows] == ["1 1  a", "2   -b", "  2 +x"]
