"""Slips of those who copy text, on real source: the place is found, its exact text applies."""

from __future__ import annotations

import html
import random
import re
import sysconfig
import textwrap
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.edit.kinds.replace import compile_batch
from copydesk.edit.request import StringEdit
from copydesk.errors import EncodingRefused
from copydesk.text import nearest as folding
from copydesk.text.nearest import corrections, explain, fold, nearest_lines
from copydesk.text.snapshot import Snapshot
from support.cost import examples, spread
from support.rows import each_row
from support.texts import nearest, snapshots

SOURCES = (
    *("argparse", "ast", "cgitb", "configparser", "csv", "dataclasses", "difflib", "enum"),
    *("functools", "heapq", "inspect", "json/decoder", "json/encoder", "logging/handlers"),
    *("mailbox", "pathlib", "pdb", "shutil", "statistics", "subprocess", "textwrap", "typing"),
)
Slip = Callable[[str], str]


@cache
def sources() -> tuple[str, ...]:
    folder = Path(sysconfig.get_path("stdlib"))
    found = [folder / f"{name}.py" for name in SOURCES]
    return tuple(path.read_text("utf-8") for path in found if path.is_file())


def blocks(slip: str, count: int) -> Iterator[tuple[str, str, int]]:
    """A file, some of its lines that stand there once, and the first of them, from 0."""
    draw = random.Random(slip)
    while count:
        text = draw.choice(sources())
        lines = text.split("\n")
        size = draw.randint(1, 8)
        at = draw.randrange(len(lines) - size)
        while at and not lines[at].strip():
            at -= 1
        block = "\n".join(lines[at : at + size]).rstrip()
        if len(fold(block)) > 12 and folded(text).count(fold(block)) == 1:
            count -= 1
            yield text, block, at


@cache
def folded(text: str) -> str:
    return fold(text)


def each_line(change: Slip, of: int = 1) -> Slip:
    """The change of each line that is not blank, or of one in so many."""

    def made(block: str) -> str:
        lines = block.split("\n")
        return "\n".join(
            change(line) if line.strip() and i % of == 0 else line for i, line in enumerate(lines)
        )

    return made


def numbered(form: str) -> Slip:
    def made(block: str) -> str:
        return "\n".join(form.format(i, line) for i, line in enumerate(block.split("\n"), 97))

    return made


def leading(old: str, new: str) -> Slip:
    """Other blanks at the start of each line."""

    def one(line: str) -> str:
        rest = line.lstrip(" ")
        return line[: len(line) - len(rest)].replace(old, new) + rest

    return each_line(one)


def upper_first(block: str) -> str:
    return block.replace("self", "Self").replace("def ", "Def ").replace("return", "Return")


WHITE: dict[str, tuple[Slip, str]] = {
    "trailing blank on each line": (each_line(lambda line: line + " "), "trailing_blanks"),
    "trailing blanks on each line": (each_line(lambda line: line + "   "), "trailing_blanks"),
    "trailing blanks on some": (each_line(lambda line: line + "  ", 3), "trailing_blanks"),
    "trailing tab": (each_line(lambda line: line + "\t"), "trailing_blanks"),
    "trailing blanks at the end": (lambda block: block + "    ", "trailing_blanks"),
    "blanks in blank lines": (lambda block: block.replace("\n\n", "\n    \n"), "trailing_blanks"),
    "a tab for four": (leading("    ", "\t"), "tabs_for_spaces"),
    "a tab for eight": (leading("        ", "\t"), "tabs_for_spaces"),
    "a tab for two": (leading("  ", "\t"), "tabs_for_spaces"),
    "tabs and trailing blanks": (lambda block: leading("    ", "\t")(each_line(lambda line: line + " ")(block)), "trailing_blanks"),
    "dedented": (textwrap.dedent, "indentation"),
    "dedented by four": (each_line(lambda line: line.removeprefix("    ")), "indentation"),
    "dedented by two": (each_line(lambda line: line.removeprefix("  ")), "indentation"),
    "dedented by one": (each_line(lambda line: line.removeprefix(" ")), "indentation"),
    "indented by one": (each_line(lambda line: " " + line), "indentation"),
    "indented by two": (each_line(lambda line: "  " + line), "indentation"),
    "indented by four": (each_line(lambda line: "    " + line), "indentation"),
    "indented by a tab": (each_line(lambda line: "\t" + line), "indentation"),
    "half the indentation": (leading("    ", "  "), "indentation"),
    "twice the indentation": (leading("    ", "        "), "indentation"),
    "one line is out": (each_line(lambda line: "  " + line, 2), "indentation"),
    "no indentation": (each_line(lambda line: line.lstrip()), "indentation"),
    "first line stripped, others dedented": (
        lambda block: each_line(lambda line: line.removeprefix("    "))(block).lstrip(),
        "indentation",
    ),
    "two blanks for one": (each_line(lambda line: re.sub(r"(?<=\S) ", "  ", line)), "spacing"),
    "no blank after a comma": (lambda block: block.replace(", ", ","), "spacing"),
    "no blanks around an equals sign": (lambda block: block.replace(" = ", "="), "spacing"),
    "blanks in brackets": (lambda block: re.sub(r"\((?=.)", "( ", block), "spacing"),
    "a tab within": (each_line(lambda line: re.sub(r"(?<=\S) ", "\t", line)), "spacing"),
    "a blank line more": (lambda block: block.replace("\n", "\n\n"), "blank_lines"),
    "no blank lines": (lambda block: re.sub(r"\n+", "\n", block), "blank_lines"),
    "joined lines": (lambda block: re.sub(r"\n\s*", " ", block), "line_breaks"),
    "other breaks": (lambda block: block.replace(", ", ",\n        "), "line_breaks"),
    "carriage returns": (lambda block: block.replace("\n", "\r \n") + "\r", "carriage_return"),
    "no-break spaces": (lambda block: block.replace(" ", "\xa0"), "no_break_space"),
    "no-break spaces as indentation": (leading(" ", "\xa0"), "no_break_space"),
    "no-break spaces within": (each_line(lambda line: re.sub(r"(?<=\S) ", "\xa0", line)), "no_break_space"),
    "ideographic spaces": (lambda block: block.replace(" ", "\u3000"), "no_break_space"),
    "thin spaces": (lambda block: block.replace(" ", "\u2009"), "no_break_space"),
    "form feed": (lambda block: block.replace("\n", "\n\x0c"), "line_breaks"),
}  # fmt: skip
OTHERS: dict[str, tuple[Slip, str]] = {
    "curly single quotes": (lambda block: block.replace("'", "\u2019"), "quotes"),
    "curly double quotes": (lambda block: re.sub('"([^"\n]*)"', "“\\1”", block), "quotes"),
    "low quotes": (lambda block: block.replace('"', "„"), "quotes"),
    "en dash": (lambda block: block.replace("-", "\u2013"), "dashes"),
    "em dash": (lambda block: block.replace("-", "\u2014"), "dashes"),
    "minus": (lambda block: block.replace("-", "\u2212"), "dashes"),
    "no-break hyphen": (lambda block: block.replace("-", "\u2011"), "dashes"),
    "other quotes": (lambda block: block.replace("'", '"'), "quote_style"),
    "other quotes too": (lambda block: block.replace('"', "'"), "quote_style"),
    "full-width colon": (lambda block: block.replace(":", "："), "look_alikes"),
    "full-width parentheses": (lambda block: block.replace("(", "（").replace(")", "）"), "look_alikes"),
    "ellipsis": (lambda block: block.replace("...", "…"), "look_alikes"),
    "zero-width space": (lambda block: block.replace("(", "\u200b("), "invisible"),
    "zero-width joiner": (lambda block: block.replace("_", "_\u200d"), "invisible"),
    "byte order mark": (lambda block: "\ufeff" + block, "invisible"),
    "soft hyphen": (lambda block: block.replace("return", "re\xadturn"), "invisible"),
    "upper case": (str.upper, "case"),
    "lower case": (str.lower, "case"),
    "first letters": (upper_first, "case"),
    "literal line breaks": (lambda block: block.replace("\n", "\\n"), "literal_newline"),
    "literal line breaks and tabs": (lambda block: leading("    ", "\\t")(block).replace("\n", "\\n"), "literal_newline"),
    "escaped double quotes": (lambda block: block.replace('"', '\\"'), "escaped"),
    "escaped single quotes": (lambda block: block.replace("'", "\\'"), "escaped"),
    "escaped slashes": (lambda block: block.replace("/", "\\/"), "escaped"),
    "escaped twice": (lambda block: block.replace("\\", "\\\\"), "escaped"),
    "unescaped": (lambda block: block.replace("\\\\", "\\"), "unescaped"),
    "markdown escapes": (lambda block: re.sub(r"([_*\[\]])", r"\\\1", block), "escaped"),
    "line breaks for their escapes": (lambda block: block.replace("\\n", "\n"), "newline_for_escape"),
    "angle brackets": (lambda block: html.escape(block, quote=False), "escaped"),
    "entities": (html.escape, "escaped"),
    "numbers of a reading": (numbered("{:>4}| {}"), "line_numbers"),
    "numbers of cat -n": (numbered("{:>6}\t{}"), "line_numbers"),
    "numbers with an arrow": (numbered("{:>6}→{}"), "line_numbers"),
    "numbers with a colon": (numbered("{}: {}"), "line_numbers"),
    "numbers of grep": (numbered("{}:{}"), "line_numbers"),
    "numbers with a bar": (numbered("{} | {}"), "line_numbers"),
    "decomposed": (lambda block: unicodedata.normalize("NFD", block), "normalization"),
}  # fmt: skip
GUESSES: dict[str, Slip] = {
    "a letter less": lambda block: block[: len(block) // 2] + block[len(block) // 2 + 1 :],
    "a letter twice": lambda block: block[: len(block) // 3 + 1] + block[len(block) // 3 :],
    "another name": lambda block: block.replace("self", "this"),
    "a line less": lambda block: "\n".join(block.split("\n")[:3] + block.split("\n")[4:]),
    "a line more": lambda block: "\n".join([*block.split("\n")[:2], "x = 1", *block.split("\n")[2:]]),
    "a word more": lambda block: block.replace("(", "(other, ", 1),
    "a word and blanks": lambda block: block.replace("(", "(other, ", 1).replace("\n", " \n"),
    "dedented, and a word": lambda block: textwrap.dedent(block).replace("(", "(other, ", 1),
}  # fmt: skip
SLIPS = WHITE | OTHERS


def prepared(slip: str, text: str, block: str) -> tuple[str, str]:
    """The file and its lines; for letters with accents some are put there."""
    if slip != "decomposed":
        return text, block
    accented = block.replace("e", "é").replace("o", "ö")
    return text.replace(block, accented, 1), accented


def missed(slip: str, count: int) -> Iterator[tuple[str, str, str, int]]:
    """A file, lines of it, how they are sought, and the first; only where that is a slip."""
    tried = 0
    for text, block, at in blocks(slip, 40 * count):
        text, block = prepared(slip, text, block)
        sought = SLIPS[slip][0](block) if slip in SLIPS else GUESSES[slip](block)
        if sought.strip() and sought.replace("\r\n", "\n") not in text:
            yield text, block, sought, at
            tried += 1
            if tried == count:
                break
    assert tried, f"no lines have what {slip} changes"


def ends(text: str) -> tuple[bool, bool]:
    """Whether it starts and ends with a line break: an edit of it keeps those around it."""
    return text.startswith("\n"), text.endswith("\n")


def wrong(slip: str, count: int) -> list[str]:
    """What is not as promised: the place, the cause, or a correction that does not apply."""
    found: list[str] = []
    for text, block, sought, at in missed(slip, count):
        near = nearest(Snapshot.of(text.encode()), sought)
        told = f"{slip}: {sought!r} for {block!r} at {at + 1}, found {near}"
        if near is None or not at <= near.start < near.stop <= at + block.count("\n") + 1:
            found.append(told)
        elif SLIPS[slip][1] not in near.causes or near.corrected is None:
            found.append(f"cause: {told}")
        elif near.corrected.strip() not in block or ends(near.corrected) != ends(sought):
            found.append(f"another text: {told}")
        else:
            compile_batch(Snapshot.of(text.encode()), [StringEdit(near.corrected, "new")])
    return found


@pytest.mark.parametrize("slip", spread(SLIPS, of=3))
def test_a_slip(slip: str) -> None:
    found = wrong(slip, examples(25))
    assert not found, "\n".join(found)


REVERSED = {
    "tabs_for_spaces": "spaces_for_tabs",
    "literal_newline": "newline_for_escape",
    "newline_for_escape": "literal_newline",
    "escaped": "unescaped",
    "unescaped": "escaped",
}
ONE_WAY = {
    *(name for name, (_, cause) in OTHERS.items() if cause == "line_numbers"),
    *("literal line breaks and tabs", "tabs and trailing blanks"),
}


def wrong_in_file(slip: str, count: int) -> list[str]:
    """The same where the file has what is odd, and what is sought is plain."""
    found: list[str] = []
    cause = REVERSED.get(SLIPS[slip][1], SLIPS[slip][1])
    for text, block, sought, at in missed(slip, count):
        odd = text.replace(block, sought, 1)
        if block in odd:
            continue
        near = nearest(Snapshot.of(odd.encode()), block)
        told = f"{slip}: {block!r} for {sought!r} at {at + 1}, found {near}"
        if near is None or not at <= near.start < near.stop <= at + sought.count("\n") + 1:
            found.append(told)
        elif cause not in near.causes or near.corrected is None:
            found.append(f"cause: {told}")
        else:
            compile_batch(Snapshot.of(odd.encode()), [StringEdit(near.corrected, "new")])
    return found


@pytest.mark.parametrize("slip", sorted(SLIPS.keys() - ONE_WAY))
def test_a_slip_of_whoever_wrote_the_file(slip: str) -> None:
    found = wrong_in_file(slip, examples(25))
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("slip", GUESSES)
def test_the_place_of_other_words(slip: str) -> None:
    """What is no slip of writing has no correction; its place is found, but for a few."""
    right = count = 0
    for text, block, sought, at in missed(slip, examples(50)):
        near = nearest(Snapshot.of(text.encode()), sought)
        count += 1
        right += near is not None and near.start <= at + block.count("\n") and at <= near.stop
        assert near is None or near.corrected is None or fold(sought) == fold(block)
    assert right >= 0.9 * count


TWICE = "if a:\n    return  None\nif b:\n        return  None\n"


@each_row(
    "have sought start corrected alike causes",
    [
        # of two places that may be meant none is corrected
        (TWICE, "  return None\n", 1, None, (3,), ("indentation", "spacing")),
        # the one that is indented as sought is meant
        (TWICE, "        return None\n", 3, "        return  None\n", (), ("spacing",)),
        # a text that stands twice when corrected is no correction
        ("a = f(1)\nb = 2\na = f(1)\n", "a = f( 1 )", 0, None, (2,), ("spacing",)),
    ],
)
def test_of_two_places(
    have: str,
    sought: str,
    start: int,
    corrected: str | None,
    alike: tuple[int, ...],
    causes: tuple[str, ...],
) -> None:
    near = nearest(Snapshot.of(have.encode()), sought)
    assert near is not None
    assert (near.start, near.corrected, near.alike) == (start, corrected, alike)
    assert near.causes == causes


@each_row(
    "have sought",
    [
        ("x = this nonexistent\n", "x = this none "),  # within a word
        ("f(a)\ng(b) # c\n", "f(a)\n g(b)\n"),  # the line goes on
        ("if a: return 1\n", "        return 1"),  # no indentation there
        ("ab\n", " \n"),
    ],
)
def test_what_is_no_slip(have: str, sought: str) -> None:
    near = nearest(Snapshot.of(have.encode()), sought)
    assert near is None or near.corrected is None


def test_what_cannot_be_seen_is_shown() -> None:
    base = Snapshot.of("\tx = “a”\n".encode())
    near = nearest(base, "    x = 'a'  ")
    assert near is not None
    assert near.diff == ("-     x = 'a'··", "+ →x = <U+201C>a<U+201D>")
    assert near.corrected == "\tx = “a”"


@given(snapshots, st.text(max_size=40) | st.sampled_from(("a \nb\n", "}\n\t}", "\\n", "1| a")))
def test_a_correction_is_text_of_the_file_and_stands_there_once(
    base: Snapshot, sought: str
) -> None:
    near = nearest(base, sought)
    if near is not None and near.corrected is not None:
        try:
            compile_batch(base, [StringEdit(near.corrected, near.corrected + "new")])
        except EncodingRefused:
            assert not base.encoding.known


@pytest.mark.slow
@pytest.mark.parametrize("text", ["a" * 9, "é" * 5, "\\" * 7, " \t\n", "\u0301" * 6, "ﬁ½İ" * 3])
def test_texts_of_one_character_in_many_places(text: str) -> None:
    data = (text + "\n") * 2_000
    for sought in (text.upper() + "!", f" {text} ", text + "  \n", text[:3] + " " + text[3:]):
        nearest(Snapshot.of(data.encode()), sought)


def test_the_lines_nearest_to_an_anchor_that_differs_in_white_space() -> None:
    text = "\n".join(f"value_{i} = compute(a_{i}, b)" for i in range(300))
    assert nearest_lines(Snapshot.of(text.encode()), "value_7  =  compute(a_7,b)").lines[0] == 7


@pytest.mark.parametrize(
    ("text", "sought", "limits", "expected"),
    [
        ("Ü", ["Ü\\"], {}, [None]),
        ("\t", ["́"], {"_ENDS": 2}, [None]),
        ("ﬁ", ["fi"], {"LONGEST": 9}, [None]),
        ("rq\\", ["r"], {"_WORDS": 1}, [None]),
        ("–&bï", ["b"], {"_COMPARED": 12}, [None]),
        ("ﬁ\nﬁ", ["ﬁ"], {}, [(0, 3, 0, 3, (), (4,))]),
        ("\\tbﬁ", ["\\TB FI"], {"_BLOCKS": (8, 8)}, [None]),
        ("&b", ["&"], {"_ENDS": 2}, [(0, 1, 0, 1, (), ())]),
        ("café{ﬁendnaïve", ["CAFÉ{FIEND NAÏVE"], {}, [None]),
        ("   other", ["0|     other"], {"_ENDS": 2}, [None]),
        ("caféother", ["café other"], {"LONGEST": 9}, [None]),
        ("cafe", ["cafe"], {"_ENDS": 2}, [(0, 4, 0, 4, (), ())]),
        ('\\"', ['"\\'], {}, [(0, 2, 0, 2, ("unescaped",), ())]),
        ('\\"', ['\\"\\'], {}, [(1, 2, 1, 2, ("escaped",), ())]),
        ('\\"', ['"'], {"_COMPARED": 12}, [(1, 2, 1, 2, (), ())]),
        ("fi", ["\nfi"], {}, [(0, 2, 0, 2, ("line_breaks",), ())]),
        (' "', [' "'], {"_BLOCKS": (8, 8)}, [(0, 2, 1, 2, (), ())]),
        ("b\n", ["b\n\n"], {}, [(0, 2, 0, 1, ("blank_lines",), ())]),
        ("IF", ["if"], {"LONGEST": 9}, [(0, 2, 0, 2, ("case",), ())]),
        ('"\n', ['"\n'], {"_BLOCKS": (8, 8)}, [(0, 2, 0, 1, (), ())]),
        ("Ünï", ["Ünï "], {}, [(0, 5, 0, 5, ("trailing_blanks",), ())]),
        ('\n\ty = 1 "', ['"'], {"_BLOCKS": (8, 8)}, [(8, 9, 8, 9, (), ())]),
        ('\n\ty = 1 "\n', ['"'], {"_BLOCKS": (8, 8)}, [(8, 9, 8, 9, (), ())]),
        ("other\tother", ["\tother"], {"_HITS": 1}, [(5, 11, 6, 11, (), ())]),
        ("&lt;", ["&amplt;"], {"_WORDS": 1}, [(0, 4, 0, 4, ("escaped",), ())]),
        ("call(a,b)\n ", ["CALL(A,B)\n "], {}, [(0, 11, 0, 9, ("case",), ())]),
        ('"end', ['\\"end'], {"_COMPARED": 12}, [(0, 4, 0, 4, ("escaped",), ())]),
        ("\ncafé", ["\tcafé"], {"_WORDS": 1}, [(1, 6, 1, 6, ("indentation",), ())]),
        ("endﬁa–bÜnï", ["endﬁa–bÜnï"], {"_BLOCKS": (8, 8)}, [(0, 16, 0, 16, (), ())]),
        ("café", [" 63| café"], {"LONGEST": 9}, [(0, 5, 0, 5, ("line_numbers",), ())]),
        ("Ünïy=1caféy", ["Ünïy=1caféy"], {"_BLOCKS": (8, 8)}, [(0, 14, 0, 14, (), ())]),
        ("naïvexﬁ", ["naïvexﬁ"], {"_WORDS": 1}, [(0, 10, 0, 10, ("normalization",), ())]),
        ("a–b a\\tb", ["a\\b"], {"_BLOCKS": (8, 8)}, [(6, 10, 6, 10, ("unescaped",), ())]),
        ("t\nend", ["    end"], {"_BLOCKS": (8, 8)}, [(2, 5, 2, 5, ("indentation",), ())]),
        ('\\"end', ['1\t\\"end'], {"_COMPARED": 12}, [(0, 5, 0, 5, ("line_numbers",), ())]),
        ('\\"other', ['\\\\"other'], {"_BLOCKS": (8, 8)}, [(0, 7, 0, 7, ("escaped",), ())]),
        ('\t&lt;Ünïnaïve"q\\"', ['&lt;Ünïnaïve"q"'], {}, [(1, 20, 1, 20, ("unescaped",), ())]),
        (" end ﬁ a–b Ünï", ["endﬁa–bÜnï"], {"_BLOCKS": (8, 8)}, [(1, 20, 1, 20, ("spacing",), ())]),
        ('\n\t&lt;"&lt;return', ['\n&lt;"&lt;return'], {"_COMPARED": 12}, [(0, 17, 2, 17, (), ())]),
        ("n'tifab", ["'tifa\\tb"], {"_WORDS": 1}, [(1, 7, 1, 7, ("literal_newline", "spacing"), ())]),
        ("other", ["0|     other"], {"_ENDS": 2}, [(0, 5, 0, 5, ("line_numbers", "indentation"), ())]),
        ("Ünïa–bxa\\", ["Ünïa–bxa\\n"], {}, [(0, 12, 0, 12, ("literal_newline", "final_newline"), ())]),
        ("Ünïa–bxab", ["Ünï\\na–bxa\\nb"], {}, [(0, 13, 0, 13, ("literal_newline", "line_breaks"), ())]),
        ('tba\\nb\\"', ['3|tba\\nb\\"\n'], {"_BLOCKS": (8, 8)}, [(0, 8, 0, 8, ("line_numbers", "final_newline"), ())]),
        ("endÜnïxcaféab", ["endÜnïx café a\\nb"], {"_ENDS": 2}, [(0, 17, 0, 17, ("literal_newline", "normalization", "line_breaks"), ())]),
    ],
)  # fmt: skip
def test_small_slips(
    text: str,
    sought: list[str],
    limits: dict[str, Any],
    expected: list[tuple[int, int, int, int, tuple[str, ...], tuple[int, ...]] | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The smallest texts, found by search, that a small change of the code answers otherwise.

    The bytes of the correction, those without white space around, the causes, other places.
    """
    for name, limit in limits.items():
        monkeypatch.setattr(folding, name, limit)
    data = text.encode()
    found = corrections(data, sought)
    assert [
        one and (one.start, one.stop, one.first, one.last, one.causes, one.alike) for one in found
    ] == expected
    assert all(data[one.start : one.stop].decode() == one.text for one in found if one)


@pytest.mark.parametrize(
    ("mine", "theirs", "limits", "expected"),
    [
        ("", "  \t\tother\n  e", {"_COMPARED": 12}, ()),
        ("fiother\n", "    FI OTHER\n", {"_COMPARED": 12}, ("case", "indentation", "spacing")),
        ("a\nlong line\nB", "a\nlong  line\nb", {"_COMPARED": 12}, ("case", "spacing")),
        ("a\nb", "A\nb", {}, ("case",)),
    ],
)  # fmt: skip
def test_causes_of_small_texts(
    mine: str,
    theirs: str,
    limits: dict[str, Any],
    expected: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, limit in limits.items():
        monkeypatch.setattr(folding, name, limit)
    assert explain(mine, theirs) == expected
