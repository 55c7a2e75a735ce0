"""Functions that were renamed, gutted or copied: equal lines in another one are not carried to."""

from __future__ import annotations

import argparse
import random
import re
from collections import Counter
from functools import cache
from pathlib import Path

import hypothesis
import pytest

from copydesk.text.relocation import Ambiguous, Carried, Changed
from support.drift_adapter import carry
from test_carry import Origin, replaced, shown

Lines = list[bytes]
Block = tuple[int, int]
"""The line of a `def` or `class`, and the first line behind its body."""

_HEAD = re.compile(rb"\s*(?:async def|def|class) (\w+)")
_BELONGS = re.compile(rb"\s*(?:[\])}]|(?:else|elif|except|finally|case)\b)")
_WORD = re.compile(rb"\w")


@cache
def modules() -> tuple[tuple[tuple[bytes, ...], tuple[Block, ...]], ...]:
    """The lines of modules, and their blocks of some size."""
    library, package = Path(argparse.__file__).parent, Path(hypothesis.__file__).parent
    paths = [*sorted(library.glob("*.py"))[::2], *sorted(package.rglob("*.py"))[::3]]
    texts = [tuple(path.read_bytes().splitlines()) for path in paths]
    return tuple((text, found) for text in texts if len(found := blocks(text)) > 2)


def depth(line: bytes) -> int | None:
    return len(line) - len(line.lstrip()) if line.strip() else None


def blocks(text: tuple[bytes, ...]) -> tuple[Block, ...]:
    found: list[Block] = []
    for head, line in enumerate(text):
        own = depth(line)
        if own is None or not _HEAD.match(line):
            continue
        end = head + 1
        while end < len(text) and ((at := depth(text[end])) is None or at > own):
            end += 1
        while depth(text[end - 1]) is None:
            end -= 1
        if 6 <= words(text[head + 1 : end]) <= 60:
            found.append((head, end))
    return tuple(found)


def words(lines: tuple[bytes, ...] | Lines) -> int:
    """How many lines have words."""
    return sum(_WORD.search(line) is not None for line in lines)


def statements(text: Lines, head: int, end: int) -> list[range]:
    """The lines of a block's body, whole statements each."""
    body = range(head + 1, end)
    own = min(at for k in body if (at := depth(text[k])) is not None)
    starts = [k for k in body if depth(text[k]) == own and not _BELONGS.match(text[k])]
    starts = sorted({head + 1, *starts})
    return [range(a, b) for a, b in zip(starts, [*starts[1:], end], strict=True)]


def renamed(line: bytes, rng: random.Random) -> Origin:
    match = _HEAD.match(line)
    assert match is not None
    name = bytes(rng.choice(b"bdfgklmnprstvz") for _ in range(7))
    return line[: match.start(1)] + name + line[match.end(1) :], None


def foreign(rng: random.Random, like: bytes) -> tuple[Origin, list[list[Origin]]]:
    """The head and the statements of a block of another module, as deep as the line is."""
    text, found = rng.choice(modules())
    head, end = rng.choice(found)
    by = (depth(like) or 0) - (depth(text[head]) or 0)
    lines = [b" " * ((depth(line) or 0) + by) + line.lstrip() for line in text[:end]]
    inner: list[list[Origin]] = [
        [(lines[k], None) for k in each] for each in statements(lines, head, end)
    ]
    return renamed(lines[head], rng), inner


Case = tuple[Lines, list[Origin], int, int, bool]
"""A base, what became of it, the footprint, and whether the truth is beyond doubt."""


def case(kind: str, rng: random.Random) -> Case | None:
    whole, found = rng.choice(modules())
    head, end = rng.choice(found)
    low = max(0, head - rng.randrange(50, 200))
    base = list(whole[low : end + rng.randrange(50, 200)])
    head, end = head - low, end - low
    now: list[Origin] = [(line, at) for at, line in enumerate(base)]
    parts = statements(base, head, end)
    first = rng.randrange(len(parts))
    last = min(len(parts), first + rng.choice([1, 1, 2, 3]))
    taken = range(parts[first].start, parts[last - 1].stop)
    start = rng.choice(taken)
    stop = min(start + rng.choice([1, 1, 2, 3, 5]), taken.stop)
    if len(parts) < 3 or taken == range(head + 1, end) or not words(base[start:stop]):
        return None
    name, fill = foreign(rng, base[head])
    sizes = [words(base[part.start : part.stop]) for part in parts]
    rest = [k for k in range(len(parts)) if not first <= k < last]
    if kind == "copied":
        other = [renamed(base[head], rng), *((line, None) for line in base[head + 1 : end])]
        own = [now[k] for k in range(head, end)]
        for _ in range(rng.choice([1, 1, 2, 3])):
            near = [k for k in range(1, len(own)) if abs(k + head - start) < 9]
            near = [k for k in near if not start <= (own[k][1] or start) < stop]
            if near:
                k = rng.choice(near)
                own[k : k + 1] = rng.choice([[], [(own[k][0] + b"  # edited", None)]])
        sure = words([line for line, at in own if at is not None]) * 3 > sum(sizes) * 2
    else:
        keep = [k for k in rest if rng.random() < (0.8 if kind == "renamed" else 0.3)]
        inner = [[now[line] for line in parts[k]] for k in keep]
        for part in fill[2 : 2 + rng.choice([0, 1, 2, 4])]:
            inner.insert(rng.randrange(len(inner) + 1), part)
        first_line = renamed(base[head], rng) if kind == "renamed" else now[head]
        own = [first_line, *(line for part in inner for line in part)]
        copy: list[Origin] = [(base[k], None) for k in taken]
        around = [part if rng.random() < 0.3 else [] for part in fill[:2]]
        other = [
            rng.choice([name, renamed(base[head], rng)]),
            *(around[0] if around else []),
            *copy,
        ]
        other += around[1] if len(around) > 1 else []
        kept, gone = sum(sizes[k] for k in keep), sum(sizes[first:last])
        sure = 2 * kept >= 3 * gone if kind == "renamed" else 2 * gone <= sum(sizes)
    gap: list[Origin] = [(b"", None)] * rng.choice([1, 2])
    now[head:end] = [*own, *gap, *other] if rng.random() < 0.5 else [*other, *gap, *own]
    return base, now, start, stop, sure


def outcome(base: Lines, now: list[Origin], start: int, stop: int) -> str:
    texts, size = [line for line, _ in now], stop - start
    verdict = carry(base, texts, start, stop)
    if not isinstance(verdict, Carried):
        return "refused"
    own = list(range(start, stop))
    true = [k for k in range(len(now)) if [at for _, at in now[k : k + size]] == own]
    right = true and replaced(texts, true, size) == replaced(texts, [verdict.at], size)
    return "carried" if right else "wrong"


TAKEN_OVER = [
    ("4:5", "3", "## T52||- two|## T68|- two|text 80", "## T52||- two|- two|text 80"),
    ("0:1", "0", "[s98]|t = 1|q = 4|[s30]|t = 1|k60 = 3", "[s98]|  t = 1|  q = 4"),
    ("4:5", "indented", "[s93]|k77 = 3|p = 2|[s84]|p = 2|t = 1",
     "[s93]|k77 = 3|p = 2|[s275]|k77 = 3|p = 2|[s84]|  p = 2|  t = 1"),
    ("1:2", "1", "## T32|text 51||## T68|same line|- one", "## T124|text 51"),
    ("5:6", "owner", "## T74|- two|- two|## T34|- two|text 61", "## T74|text 61"),
    ("2:3", "indented", "[s69]|k2 = 3|q = 4|[s48]|p = 2|q = 4|p = 2",
     "  [s69]|k2 = 3|  q = 4|q = 4|[s48]|p = 2|q = 4|p = 2"),
    ("1:2", "1", "## T59|- two|- one|## T38|text 43|same line", "## T59|- two"),
    ("2:3", "uncertain", "[s15]|k38 = 3|q = 4|q = 4|[s13]|t = 1|p = 2",
     "[s15]|k38 = 3|q = 4|q = 4|  k38 = 3|  q = 4|  p = 2"),
    ("2:3", "2", "def f85():||  y = 2||def f41():|  y = 2|  u847()|",
     "def f85():| e|  y = 2||def f41():|  y = 2|  u847()"),
    ("2:4", "owner", "## T92|- two|- one|## T20|- two|same line|- one|- two",
     "## T92|  - two|- one|## T141|- two|- one|## T20|- two|same line|- one|- two"),
    ("5:7", "4", "void f95() {|  run()|#ifdef X|}|void f64() {||  log(x)|}",
     "void f95() {|  run()|#ifdef X|}||  log(x)|}"),
    ("8:9", "4", "## T64|- two|text 37|same line|- one|## T64|text 29|- one|",
     "## T64|- two|text 29|- one|"),
    ("8:9", "8", "def f94():||  a.b = c||def f16():|  return x|  u427()|  u284()|",
     "def f94():||  a.b = c||def f124():|    return x|    u427()|  u284()|"),
    ("3:4", "3", "void f52() {|  u782()|  u838()|}|void f35() {|  y = 2|  u536()|}",
     "void f172() {|  u782()|  u838()|}|}"),
    ("5:6", "5", "void f81() {|  pass|  return x|}|void f1() {|  u467()|#ifdef X|}",
     "void f81() {|  pass|  return x|}|void f1() { e|  u467()"),
    ("6:7", "owner", "void f30() {|  a.b = c|#ifdef X|}|void f79() {|#ifdef X|  go(x)|}",
     "void f178() {|  a.b = c|#ifdef X|  go(x)|} e"),
    ("6:7", "6", "void f38() {|  a.b = c|  go(x)|  run()|}|void f99() {|  u756()|#ifdef X|}",
     "void f38() {|  a.b = c|  go(x)|  run()|}|void f149() {|  u756()|#ifdef X|}"),
    ("6:7", "7", "def f56():|  x = 1|  run()||def f27():|  a.b = c|  u743()|  u695()|  if a1:|    a.b = c||",
     "def f56():|  x = 1|  run()||def f165():|  a.b = c|v145()|  u743()|  u695()|  if a1:|    a.b = c||"),
    ("11:12", "owner", "def f1():|  u816()|  u172()|  return x|  u565()||def f86():|  u104()|  log(x)|  x = 1|  go(x)|",
     "def f1(): # more|  u816()|    u172()|    return x|    u565()||  def f86():|    u104()|    log(x)|    x = 1|  go(x)|"),
    ("1:2", "1", "void f12() {|  x = 1|  u15()|#ifdef X|}|void f18() {|  x = 1|  run()|#ifdef X|}|void f4() {|  go(x)|  u79()|}",
     "void f123() {|  x = 1|  u15()|void f18() {|  x = 1|  run()|  go(x)|  u79()|}"),
    ("3:4", "owner", "def f61():|\r|\tu109()|", "#!x|"),
    ("1:2", "owner", "class C:|}", "void f7() {|}"),
    ("1:2", "owner", "- two|(", "- one|("),
    ("1:2", "0", "class C:|  void f88() {", "  void f88() {"),
    ("2:3", "0", "class C:|  void f1() {||  void f71()", "|  void f71()|class C:"),
    ("1:2", "1", "class C:|  def f34():", "\tclass C:|  def f34():"),
    ("1:2", "owner", "class C:|}", "void f97() {|};|}"),
    ("2:3", "owner", "void f42()|{|};", "u540()|};"),
    ("2:3", "3", "def f47():|def f40():|    pass",
     "def f27(): # more|def f40():|  if a0:|    pass"),
    ("1:2", "1", "[s83]|[s77]", "[s36]|[s77]"),
    ("5:6", "2", "## T88|T72|--|# x|## T89|(", "## T88|## T89|("),
    ("1:2", "2", "## T80|(", "## T80|same line|("),
    ("1:2", "owner", "void f79() {|  if a2 {|  } else {", "void f13()|  if a2 {|u54()|  } else {"),
    ("2:3", "3", "class C:|  void f50()|  \tu947()|}",
     "class C:|void f95()|  void f50()|  \tu947()|}"),
    ("1:2", "owner", "void f79() {|  if a2 {|  } else {",
     "void f13()|  if a2 {|  \treturn x|u54()|  } else {"),
    ("1:2", "1", "void f67()|{|\tpass", "void f26() {|{|\tpass"),
    ("3:4", "owner", "[s77]|[s49]|k78 = 3|k41 = 3", "[s77]|k78 = 3|k41 = 3"),
    ("2:3", "owner", "[s56]|t = 1|", "[s81]|t = 1|"),
    ("3:4", "2", "## T10|- one|T71|~~~", "- one|## T5|~~~"),
    ("2:3", "1", "## T94|(|text 62", "(|text 62|## T94"),
    ("1:2", "1", "[s40]|k32 = 3", "[s83] # more|k32 = 3"),
    ("1:2", "owner", "[s89]|#endif", "[s83]|#endif"),
    ("3:4", "2", "## T93|# T36|# T36|", "# T36|## T82|"),
    ("2:3", "2", "|---|(", "# T2||("),
    ("3:4", "1", "## T18|- one|## T56|text 75|- one|- two|---", "## T18|text 75|- one|- two"),
    ("5:8", "5", "void f63()|{|\tx = 1|\tpass|void f84()|{|#endif|})",
     "u172()|x = 1|\tpass|\trun()|void f84()|{|#endif|})"),
    ("1:2", "owner", "# T95|T27", "# T95||T27"),
    ("2:3", "3", "class C:|  def f48():||    u507()",
     "class C:|def f34():|  def f48():||    u507()"),
    ("3:4", "owner", "class C:|  void f94()|  void f21() {|  {",
     "  void f94()|  {|    u907()|class C:"),
    ("3:4", "2", "## T26|## T35|- one|text 3", "## T26|- one|text 3"),
    ("4:5", "owner", "class C:|  def f70():|    u318()|  def f99():|    u817()|    \tgo(x)",
     "class C:|def f96():|  def f99():|    u817()|    \tgo(x)"),
    ("3:4", "4", "class C:|  void f10() {|  void f2() {|    u940()|    if a1 {",
     "class C:|  void f10() {|void f14() {|  void f2() {|    u940()|    if a1 {"),
    ("3:4", "3", "class C:|  def f6():|  \tu996()|  #endif|  def f26():",
     "class C:|def f33():|  \tu996()|  #endif|  def f26():"),
    ("1:2", "owner", "void f79() {|  if a2 {|  \treturn x|    run()|  } else {",
     "void f13()|  if a2 {|  \treturn x|    run()|u54()|  } else {"),
    ("1:3", "owner", "def f52():|  u614()|def f8():|  u924()",
     "def f75():|  u614()|def f8():|  u924()"),
    ("2:3", "2", "void f14()|\t  y = 2|\t\tx = 1|\t} else {",
     "void f31()|\t  y = 2|\t\tx = 1|\t} else {"),
    ("1:2", "1", "class C:|  void f88() {", " class C:|  void f88() {"),
    ("5:6", "2", "# T76||- two|- two|# x|- one", "T90|----|- one"),
    ("2:3", "owner", "# T95|---|T27", "# T95||---|T27"),
    ("1:2", "owner", "## T56|# x|same line|## T95|same line|text 58",
     "## T95|# x|same line|same line|text 58"),
    ("3:4", "owner", "## T27|T49|===|---", "===|## T27|---"),
    ("3:4", "owner", "## T27|text 64|===|---", "===|## T27|text 64|---"),
    ("0:1", "indented", "k62 = 3", "  k62 = 3"),
    ("1:2", "?0,1", "def f11():|", "|"),
    ("1:3", "0", "  u671()||void f68() {", "|void f68() {|  u671()"),
    ("0:1", "blanks", "def f81():", "def f81(): "),
    ("0:1", "blanks", "[s68]", "[s47]|[s68] "),
    ("2:4", "2", "class C:|  #endif||  }", "end|  #endif||  }|class C:"),
    ("1:2", "owner", "def f13():|  (|  u235()", "  v71()|  (|  u235()"),
    ("1:2", "1", "def f62():|\tu776()", "  def f62():|\tu776()"),
    ("2:3", "2", "def f88():|  u325()|||def f22():", "def f64():|  u325()|||  u325()"),
    ("2:3", "1", "T64|--|---", "T64|---"),
    ("2:3", "owner", "## T46|u540()|u543()", "## T46|u543()|## T20|u540()|u543()"),
    ("3:4", "6", "## T22|u162()|u910()|u452()", "## T22|w839()|u162()|u452()|## T62|u910()|u452()"),
    ("3:5", "owner", "## T44|u312()|u190()|u342()|u569()",
     "## T44|v600()|u190()|u342()|u569()|## T19|u312()|u190()|u342()|u569()"),
    ("2:4", "2", "[s95]|k81 = 3||[s12]|t = 1", "[s88]|k81 = 3||[s12]|t = 1"),
    ("2:3", "indented", "[s34]|t = 1|p = 2", "[s40]|p = 2| t = 1| p = 2"),
    ("0:1", "0", "  \ty = 2|    y = 2|  }|};", "  \ty = 2|};|    y = 2|  }"),
    ("0:1", "0", "q = 4", "q = 4|\tq = 4"),
    ("2:3", "owner", "## T0|items = 1|parse = 2", "## T1|items = 1|parse = 2|## T0|## T0"),
    ("1:2", "1", "def f(a, b, c, d, e, g, h, i):|    x = 1",
     "def f(a, b, c, d, e, x, y, z):|    x = 1"),
    ("2:3", "5", "## T1|a = 1|b = 2|c = 3|d = 4|e = 6",
     "a = 1|c = 3|d = 4|e = 6|## U7, V2|b = 2|c = 3|d = 4|e = 6"),
    ("3:4", "owner", "## T1|a = 0|b = 5|c = 6", "## T1|a = 0|a = 0|c = 6|## T2|b = 5|c = 6"),
    ("4:5", "9", "import a|    users = 2||    file_all = 4|    get = 5|    item_all = 6",
     "import a||    file_all = 4|    get = 5|    new9()|def files(user, sets):|    users = 2||    file_all = 4|    get = 5|    item_all = 6"),
    ("12:13", "owner", "## saver user|a = 2|b = 3|c = 4|d = 5|e = 6|d = 7|f = 8|g = 9|g = 10|h = 11|h = 12|i = 13|j = 14",
     "## parse load|a = 2|b = 3|d = 5|i = 13|## files items|j = 14"),
    ("1:3", "?0,1", "||", "|||  u4()||y"),
    ("0:1", "1", "\t})", "        })|\t})"),
    ("2:3", "1", "- a|--| x|--", "- a| x"),
    ("2:3", "?2,6", "int one() {|  u|}", "int one() {|  v|}||int two() {|  w|}"),
    ("1:2", "1", "def one(a):|  u", "def one(b, c=0, d=0, e=0):|  u"),
    ("1:2", "owner", "def one(a):|  u", "def two(b, c=0, d=0, e=0):|  u"),
    ("1:2", "1", "class A(B):|  u", "class A(C):|  u"),
    ("1:2", "owner", "if (a) {|  u|}", "if (b && c && d) {|  u|}"),
    ("0:1", "uncertain", "  --|--|  #if", "#if|  --|--"),
    ("2:3", "uncertain", "    T976|  }|", "\t}||    T976|"),
    ("2:3", "4", "T11|---|", "text 81|===|---|T11|"),
    ("2:3", "owner", "b|  \tk462 = 3|  })|b", "b|d|  \tk462 = 3|  })"),
    ("2:3", "owner", "void f66()|\t}|", "## T34|void f66()|})|  })|"),
    ("1:2", "1", " ## T10| end|   22 x", " ## T244| end|   22 x"),
    ("2:3", "3", " def g24:|T24|   {|}", " def g24:|===|T24|   {|}"),
    ("1:2", "1", "if 26| # 0| def g10:", "same line| # 0| def g10:"),
    ("2:3", "uncertain", "é\tvoid f45() {|\t\t  w710||void f80() {", "void f2() {|"),
    ("2:3", "1", "é\tvoid f45() {|\t\t  w710||  z|void f80() {", "void f2() {||  z|"),
    ("3:4", "1", "  def f69():|      })|        finally:|", "  def f69():|"),
    ("0:1", "0", "  \tu475()|  \tdo|  \t    pass", "  \tu475()|  \t    pass|  \tdo"),
    ("3:5", "uncertain", "# note|[s25]|p = 2|q = 4|# note", "p = 2|q = 4|# note|[s25]"),
    ("1:2", "owner", "### T0|  - sub|text 73", "### T0|## T12|# x|  - sub|text 73"),
    ("3:4", "3", "\tvoid f87()|\t{|\t\t  end|\t\tT52", "\tvoid f34()|\t\t  end|\t{|\t\tT52"),
    ("2:3", "3", "  #if|  case 1|   T4| else:", "  #if|y|  case 1|   T4| else:"),
    ("7:8", "4", "|p = 2|q = 4|[[s17]]|# note||q = 4|# note", "[[s17]]|p = 2||q = 4|# note"),
    ("0:1", "1", "      text 282|class C:", "class C:|      text 282|class C:|      text 282"),
    ("1:2", "?2,5", "\t\t  finally:|\t\tw326|\t\t\tv322()",
     "\t\t  finally:||\t\tw326|\t\t\tv322()|\t\t  finally:|\t\tw326"),
    ("3:4", "owner", "  case x:|  def f90():|    return x|    u939()",
     "  case x:|  case x:|    return x|    u939()"),
    ("1:5", "4", "    v441()|    text 933|  })||  void f94() {|  \t  {",
     "  \t  {|    }|    if a2 {|    v441()|    text 933|  })||  void f94() {"),
]  # fmt: skip
"""Small texts, found by search, each of which a small change of the rule would answer otherwise."""


def test_whose_lines_they_are() -> None:
    for row in TAKEN_OVER:
        lines, expected, base, now = row
        start, stop = map(int, lines.split(":"))
        verdict = carry(base.encode().split(b"|"), now.encode().split(b"|"), start, stop)
        assert shown(verdict) == expected, row


PYTHON = (
    "def one(a):|    first = a||    if a:|        second(a)|    third(first)||def two():|    last()"
)
BRACES = "int one(int a) {|    first(a);|    if (a) {|        second(a);|    }|    third(a);|}||int two() {|    last();|}"
RUBY = "describe 'one' do|  it 'does' do|    first|    second|  end|end"
NESTED = "alpha:|  host: x|  timeout: 30|beta:|  timeout: 60"
DIRECTIVE = ".. data:: one||    First of all.||    Then more.||.. data:: two||    Last."


TAKES = [
    # at less indentation, but no header: it owns nothing
    (PYTHON, "    first = a", "# why not", "        second(a)", True),
    (PYTHON, "    first = a", "# TODO: look at this", "    third(first)", True),
    (PYTHON, "    first = a", "print(a)", "    third(first)", True),
    (PYTHON, "    first = a", "breakpoint()|", "    third(first)", True),
    (PYTHON, "    first = a", "x = [|    1,|]", "    third(first)", True),
    (PYTHON, "    first = a", "{", "    third(first)", True),
    (PYTHON, "    first = a", "#endif", "    third(first)", True),
    (PYTHON, "def one(a):", "print(1)", "    first = a", True),
    (BRACES, "    first(a);", "retry:", "        second(a);", True),
    (BRACES, "    first(a);", "debugger;", "    third(a);", True),
    (BRACES, "    first(a);", "// look|{", "    third(a);", True),
    (BRACES, "    first(a);", "if (debug) {", "    third(a);", True),
    (RUBY, "    first", "puts 1", "    second", True),
    (RUBY, "  it 'does' do", "binding.pry", "    second", True),
    (NESTED, "  host: x", "# seconds", "  timeout: 30", True),
    (DIRECTIVE, "    First of all.", "It is remembered.", "    Then more.", True),
    # a header of the same form, below which the lines stand now
    (PYTHON, "    first = a", "|def other():", "    third(first)", False),
    (PYTHON, "    first = a", "|def other():  # new", "    third(first)", False),
    (PYTHON, "    first = a", "|def other(|    b,|):", "    third(first)", False),
    (PYTHON, "    first = a", "|def other(b,", "    third(first)", False),
    (PYTHON, "        second(a)", "    else:", "    third(first)", True),
    (BRACES, "    first(a);", "}||int other() {", "    third(a);", False),
    (BRACES, "    first(a);", "}||int other()|{", "    third(a);", False),
    (RUBY, "    first", "  end||  it 'is' do", "    second", False),
    (NESTED, "  host: x", "gamma:", "  timeout: 30", False),
    (NESTED, "  host: x", "gamma: # new", "  timeout: 30", False),
    (DIRECTIVE, "    First of all.", "|.. data:: other", "    Then more.", False),
]  # fmt: skip


@pytest.mark.parametrize("way", ["came", "went"])
def test_what_takes_lines_over(way: str) -> None:
    """A line that was put in above, or taken out there, is another owner if it is a header."""
    for row in TAKES:
        base, after, added, old, is_carried = row
        text = base.encode().split(b"|")
        at = text.index(after.encode()) + 1
        changed = [*text[:at], *added.encode().split(b"|"), *text[at:]]
        one, other = (text, changed) if way == "came" else (changed, text)
        start = one.index(old.encode())
        expected = Carried(other.index(old.encode())) if is_carried else Changed("owner")
        assert carry(one, other, start, start + 1) == expected, row


REMARKED = "import os||{0}|{1}|one()|    go()|    stop()||last()"


REMARKS = [
    ("# All of it,", "# and more.", "# and no more."),
    ("// All of it,", "// and more.", "// and no more."),
    ("/* All of it,", " * and more. */", " * and no more. */"),
    ("@decorated", "@named('one')", "@named('two')"),
    ("[Fact]", "[Trait('a', 1)]", "[Trait('b', 1)]"),
    ("-- All of it,", "-- and more.", "-- and no more."),
]
COPIED = [
    ("one()", 2, (4, 10)),
    ("    go()", 2, (5, 11)),
    ("    stop()|", 2, (6, 12)),
    ("    go()", 3, (5, 11)),
    # its own lines tell it apart, or it has other lines than the copy
    ("    go()", 0, None),
    ("told", 2, None),
    ("last()", 2, None),
]
"""Lines, how many of the copy from the comment's first on are equal but for one, candidates."""


@pytest.mark.parametrize(("above", "told", "other"), REMARKS)
def test_a_block_copied_with_its_comment_is_a_tie(above: str, told: str, other: str) -> None:
    for old, copied, candidates in COPIED:
        base = REMARKED.format(above, told).encode().split(b"|")
        copy = [above.encode(), other.encode(), *base[4:8]]
        if copied == 3:
            copy[1:3] = [told.encode(), b"two()"]
        elif not copied:
            copy[0] = b"x = 1"
        sought = (told if old == "told" else old).encode().split(b"|")
        start = next(k for k in range(len(base)) if base[k : k + len(sought)] == sought)
        verdict = carry(base, [*base[:2], *copy, *base[2:]], start, start + len(sought))
        expected = Ambiguous(candidates) if candidates else Carried(start + len(copy))
        assert verdict == expected, (old, copied)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["renamed", "gutted", "copied"])
def test_lines_of_a_function_are_not_those_of_another(kind: str) -> None:
    """A bound, not none: a body of few lines cut in two halves has two heirs."""
    count: Counter[str] = Counter()
    for seed in range(1000):
        rng = random.Random(f"{kind} {seed}")
        made = case(kind, rng)
        if made is not None and made[4]:
            count[outcome(*made[:4])] += 1
    assert count.total() > 300
    assert count["wrong"] <= count.total() // 50, count
