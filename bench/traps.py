"""Cases of drift made from the project's own text, with the true result of each.

Every line of the changed text knows which line of the base it is, so the truth is not found by
comparing. Invariant: the same text and seed give the same cases.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

Change = tuple[int, int, list[bytes]]
"""Base lines [start, stop), from 0, and the lines that replace them, terminators included."""

Lines = list[tuple[bytes, int | None]]
"""The lines of the drifted text and the base line that each is, if it is one."""

FEWEST, MOST = 250, 8_000
"""Lines of a text: about 10 KB to 300 KB."""

STANZA, APART = 8, 3
"""Lines of a look-alike stanza, and between the two; the target begins at the first one's third."""


@dataclass(frozen=True, slots=True)
class Case:
    """A hunk planned on `base`, the text as it is `now`, and what may come of it.

    `expect`: `apply` (one place, known), `reject`, or `either`; `accept` are the
    SHA-256 of the results that are right.
    """

    kind: str
    expect: str
    base: bytes
    changes: list[Change]
    now: bytes
    accept: frozenset[str]


@dataclass(slots=True)
class Draw:
    """What a trap is laid with: chance, the base, and the target's lines [start, stop) in it."""

    random: random.Random
    base: list[bytes]
    start: int
    stop: int

    def junk(self, count: int) -> Lines:
        """Lines that are nowhere in the base."""
        seen = self.random.sample(self.base, count)
        return [(b"%s  # %08x\n" % (x[:-1], self.random.getrandbits(32)), None) for x in seen]

    def twin(self) -> Lines:
        """The target and a neighbour on each side once more, between lines that are new."""
        copied = self.base[self.start - 1 : self.stop + 1]
        return [*self.junk(3), *((line, None) for line in copied), *self.junk(3)]

    def changed(self, now: Lines, at: int) -> None:
        """Rewrite one line."""
        now[at] = (b"%s  # edited\n" % now[at][0][:-1], None)

    def near(self) -> int:
        """A line next to the target."""
        return self.random.choice([self.start - 1, self.stop])


Trap = Callable[[Draw, Lines], None]
"""Makes a drift of the lines of the base."""


def _insert(at: Callable[[Draw], int], lines: Callable[[Draw], Lines]) -> Trap:
    def lay(draw: Draw, now: Lines) -> None:
        where = at(draw)
        now[where:where] = lines(draw)

    return lay


def _delete(extra: Trap | None = None) -> Trap:
    def lay(draw: Draw, now: Lines) -> None:
        if extra is not None:
            extra(draw, now)
        now[:] = [(x, i) for x, i in now if i is None or not draw.start <= i < draw.stop]

    return lay


def _shorten(draw: Draw, now: Lines) -> None:
    del now[10 : 10 + draw.random.choice([1, 5, 30])]


def _old_line(draw: Draw, now: Lines) -> None:
    """A twin is at the line where the target was planned."""
    at = draw.start - 20
    now[at:at] = [*draw.junk(16), *draw.twin()]


def _double(draw: Draw, now: Lines) -> None:
    now[draw.stop : draw.stop] = [(line, None) for line in draw.base[draw.start : draw.stop]]


def _edit(draw: Draw, now: Lines) -> None:
    draw.changed(now, draw.random.randrange(draw.start, draw.stop))


def _indent(draw: Draw, now: Lines) -> None:
    for at in range(draw.start, draw.stop):
        now[at] = (b"    " + now[at][0], None)


def _edit_near(draw: Draw, now: Lines) -> None:
    draw.changed(now, draw.near())


def _delete_near(draw: Draw, now: Lines) -> None:
    del now[draw.near()]


def _move(draw: Draw, now: Lines) -> None:
    block = now[draw.start - 5 : draw.stop + 5]
    del now[draw.start - 5 : draw.stop + 5]
    at = draw.random.choice([20, len(now) - 20])
    now[at:at] = block


def _stanzas(draw: Draw) -> tuple[slice, slice]:
    """The stanza with the target, and its look-alike below."""
    one = draw.start - 2
    two = one + STANZA + APART
    return slice(one, one + STANZA), slice(two, two + STANZA)


def _swap(draw: Draw, now: Lines) -> None:
    one, two = _stanzas(draw)
    now[one], now[two] = now[two], now[one]


def _delete_this(draw: Draw, now: Lines) -> None:
    del now[_stanzas(draw)[0]]


def _delete_other(draw: Draw, now: Lines) -> None:
    del now[_stanzas(draw)[1]]


def _above(draw: Draw) -> int:
    return draw.start - 40


def _below(draw: Draw) -> int:
    return draw.stop + 40


KINDS: dict[str, tuple[str, Trap]] = {
    "none": ("apply", lambda draw, now: None),
    "lines put in above": ("apply", _insert(_above, lambda d: d.junk(d.random.choice([1, 5, 60])))),
    "lines taken out above": ("apply", _shorten),
    "twin above": ("apply", _insert(_above, Draw.twin)),
    "twin below": ("apply", _insert(_below, Draw.twin)),
    "twin at the old line": ("apply", _old_line),
    "twin next to it": ("reject", _double),
    "neighbour edited": ("apply", _edit_near),
    "neighbour deleted": ("apply", _delete_near),
    "edited": ("reject", _edit),
    "indented": ("reject", _indent),
    "deleted": ("reject", _delete()),
    "deleted, twin above": ("reject", _delete(_insert(_above, Draw.twin))),
    "deleted, twin below": ("reject", _delete(_insert(_below, Draw.twin))),
    "moved": ("either", _move),
    "look-alikes swapped": ("either", _swap),
    "look-alike, this deleted": ("reject", _delete_this),
    "look-alike, other deleted": ("apply", _delete_other),
}
"""The required result of each kind, and how it is set up."""


def made_cases(root: Path, each: int) -> Iterator[Case]:
    """`each` cases of every kind, from the text of the project at `root`."""
    pool = project_lines(root)
    for kind in KINDS:
        for seed in range(each):
            yield made_case(pool, kind, seed)


def project_lines(root: Path) -> list[bytes]:
    """The lines of the text that the project ships, all with their terminators."""
    paths = [*sorted((root / "src").rglob("*.py")), *sorted((root / "docs").rglob("*.md"))]
    return [line + b"\n" for path in paths for line in path.read_bytes().split(b"\n")]


def made_case(pool: Sequence[bytes], kind: str, seed: int) -> Case:
    """One case of a kind."""
    chance = random.Random(f"{kind} {seed}")
    count = round(FEWEST * (MOST / FEWEST) ** chance.random())
    first = chance.randrange(len(pool) - count)
    base = list(pool[first : first + count])
    start = chance.randrange(100, count - 100)
    size = chance.choice([1, 1, 2, 3])
    if kind.startswith("look-alike"):
        alike = base[start : start + STANZA - 1]
        block = [b"def one():\n", *alike, *[b"\n"] * APART, b"def two():\n", *alike]
        base[start - 2 : start - 2] = block
    draw = Draw(chance, base, start, start + size)
    now: Lines = [(line, at) for at, line in enumerate(base)]
    expect, trap = KINDS[kind]
    trap(draw, now)
    new = [b"%s  # carried\n" % line[:-1] for line in base[start : start + size]]
    accept = [] if expect == "reject" else [_digest(now, draw, new)]
    changes = [(start, start + size, new)]
    return Case(kind, expect, b"".join(base), changes, _joined(now), frozenset(accept))


def _digest(now: Lines, draw: Draw, new: list[bytes]) -> str:
    """Of the drifted text with the hunk made where its lines are now."""
    at = next(at for at, (_, origin) in enumerate(now) if origin == draw.start)
    size = draw.stop - draw.start
    assert [i for _, i in now[at : at + size]] == [*range(draw.start, draw.stop)]
    result = [*now[:at], *((line, None) for line in new), *now[at + size :]]
    return hashlib.sha256(_joined(result)).hexdigest()


def _joined(lines: Lines) -> bytes:
    return b"".join(line for line, _ in lines)
