"""Every kind of edit, planned on one text and applied to what became of it, through the desk.

Each line of the later text knows which line of the earlier one it is, so the true
place is known without comparing. A plan goes there, or nothing is written.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import pytest

from copydesk.app.config import Config, MemberConfig
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.desk.outcome import Applied, Planned, Undone
from copydesk.edit.request import Anchor, Append, Insert, RangeEdit, Request, Terms
from copydesk.errors import Refusal
from copydesk.text.relpath import RelPath
from support.cost import spread

Lines = list[tuple[str, int | None]]
"""Lines of the later text, and which line of the earlier one each is, if it is one."""

PATH = RelPath(("a.txt",))
TOOL = "prepare_file_range_edit"
SEEDS = 4
PIECE = 8
"""Lines of one function of `code`, and of one of `stanzas`."""

NEW = ["new one", "new two"]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenWorkspace]:
    config = Config(durability="fast", members={"local": MemberConfig(team_mgmt=True)})
    root = str(tmp_path_factory.mktemp("drifted"))
    with open_workspace(root, config, shared=False) as opened:
        yield opened


# Texts, of lines that repeat as those of such files do


def code(rng: random.Random) -> list[str]:
    body = ["    x = make()", "    if not x:", "        return None", "    return x", ""]
    return [
        line
        for k in range(12)
        for line in (f"def f{k}(a):", *rng.sample(body, 3), f"    log({k})", "    return x", "", "")
    ]


def stanzas(rng: random.Random) -> list[str]:
    return [
        line
        for k in range(14)
        for line in ("[[package]]", f'name = "p{k}"', f'kind = "{rng.choice("ab")}"', "needs = [",
                     *rng.sample([' "a",', ' "b",', ' "c",'], 2), "]", "")
    ]  # fmt: skip


def table(rng: random.Random) -> list[str]:
    return [f"| {k // 4} | {rng.choice(['yes', 'no'])} |" for k in range(80)]


def prose(rng: random.Random) -> list[str]:
    return [
        line
        for k in range(20)
        for line in (*(f"Sentence {k}.{n} of it." for n in range(rng.choice([1, 2, 4]))), "")
    ]


TEXTS = (code, stanzas, table, prose)


@dataclass(frozen=True)
class Draw:
    """Chance, the earlier text, and the edited lines [start, stop) in it."""

    rng: random.Random
    base: list[str]
    start: int
    stop: int

    @property
    def block(self) -> slice:
        """The edited lines and some around them."""
        few = self.rng.choice([1, 3, 6])
        return slice(self.start - few, self.stop + few)

    def far(self) -> int:
        return self.rng.choice([self.start - 15, self.stop + 15])


# Drifts


def elsewhere(draw: Draw, now: Lines) -> None:
    at = draw.far()
    now[at:at] = [("brand new", None), ("brand newer", None)]
    now[2] = (now[2][0] + " changed", None)


def next_to_it(draw: Draw, now: Lines) -> None:
    at = draw.rng.choice([draw.start - 1, draw.stop])
    now[at] = (now[at][0] + " changed", None)


def twin(draw: Draw, now: Lines) -> None:
    lines: Lines = [(line, None) for line in draw.base[draw.start - 1 : draw.stop + 1]]
    at = draw.far()
    now[at:at] = [("fresh one", None), *lines, ("fresh two", None)]


def copied(draw: Draw, now: Lines) -> None:
    block = draw.block
    at = draw.rng.choice([block.start, block.stop])
    now[at:at] = [(line, None) for line, _ in now[block]]


def deleted(draw: Draw, now: Lines) -> None:
    del now[draw.block]


def deleted_with_a_twin_left(draw: Draw, now: Lines) -> None:
    twin(draw, now)
    gone(now, range(draw.start, draw.stop))


def changed_with_a_twin_left(draw: Draw, now: Lines) -> None:
    twin(draw, now)
    at = next(k for k, (_, i) in enumerate(now) if i == draw.start)
    now[at] = (now[at][0] + ";", None)


def paragraph_gone(draw: Draw, now: Lines) -> None:
    """The blank line before it and all up to the next one."""
    blanks = [k for k, line in enumerate(draw.base) if not line]
    before = max((k for k in blanks if k <= draw.start), default=0)
    after = min((k for k in blanks if k > before), default=before + 1)
    gone(now, range(before, after))


def moved(draw: Draw, now: Lines) -> None:
    block = now[draw.block]
    gone(now, [i for _, i in block if i is not None])
    at = draw.rng.choice([3, len(now) - 3])
    now[at:at] = block


def exchange(draw: Draw, now: Lines) -> None:
    """Two pieces change places; the edit stands at their border."""
    size = draw.rng.choice([2, 4, 8])
    a, b = draw.start, draw.start + size
    now[a : b + size] = [*now[b : b + size], *now[a:b]]


def look_alikes_exchanged(draw: Draw, now: Lines) -> None:
    a = draw.start - draw.start % PIECE
    now[a : a + 2 * PIECE] = [*now[a + PIECE : a + 2 * PIECE], *now[a : a + PIECE]]


def look_alike_left(draw: Draw, now: Lines) -> None:
    a = draw.start - draw.start % PIECE
    gone(now, range(a, a + PIECE))


def indented(draw: Draw, now: Lines) -> None:
    block = draw.block
    now[block] = [(f"\t{line}", None) if line else (line, i) for line, i in now[block]]


def ordered(draw: Draw, now: Lines) -> None:
    now[draw.block] = sorted(now[draw.block], key=lambda pair: pair[0])


def doubled(draw: Draw, now: Lines) -> None:
    copy: Lines = [(line, None) for line, _ in now]
    now[:] = [*copy, *now] if draw.rng.random() < 0.5 else [*now, *copy]


def cut(draw: Draw, now: Lines) -> None:
    at = draw.rng.randrange(len(now))
    now[:] = draw.rng.choice([now[:at], now[at:]])


def squeezed(draw: Draw, now: Lines) -> None:
    now[:] = [pair for _, run in groupby(now, lambda p: p[0]) for pair in _first(list(run))]


def _first(run: Lines) -> Lines:
    return run if run[0][0] else run[:1]


def gone(now: Lines, lines: range | list[int]) -> None:
    now[:] = [(line, i) for line, i in now if i not in set(lines)]


FAMILIES: dict[Callable[[Draw, Lines], None], float] = {
    elsewhere: 0.95,
    next_to_it: 0.6,
    twin: 0.6,
    squeezed: 0.9,
    **dict.fromkeys((copied, deleted, deleted_with_a_twin_left, changed_with_a_twin_left), 0),
    **dict.fromkeys((paragraph_gone, moved, exchange, look_alikes_exchanged, look_alike_left), 0),
    **dict.fromkeys((indented, ordered, doubled, cut), 0),
}
"""What happens to the text, and which part of the edits must be carried."""


# Edits: what is asked, the lines it relies on, and what it makes of them


@dataclass(frozen=True)
class Ask:
    request: Request
    foot: tuple[int, int] | None
    made: Callable[[list[str]], list[str]]


def _replace(draw: Draw, new: Sequence[str] = NEW) -> Ask:
    edit = RangeEdit(PATH, f"{draw.start + 1}~{draw.stop}", "\n".join(new))
    return Ask(edit, (draw.start, draw.stop), lambda _: [*new])


def _delete(draw: Draw) -> Ask:
    return _replace(draw, ())


def _insert(draw: Draw) -> Ask:
    line = draw.base[draw.start]
    anchor = Anchor(line, "equals")
    nth = draw.base[: draw.start + 1].count(line)
    request = Insert(PATH, anchor, "\n".join(NEW), "after", nth)
    return Ask(request, (draw.start, draw.start + 1), lambda old: [*old, *NEW])


def _append(_: Draw) -> Ask:
    return Ask(Append(PATH, "\n".join(NEW)), None, lambda old: old)


ASKS = (_replace, _delete, _insert, _append)


@pytest.mark.parametrize("family", spread(FAMILIES, of=4), ids=lambda family: family.__name__)
def test_no_edit_goes_astray(desk: OpenWorkspace, family: Callable[[Draw, Lines], None]) -> None:
    count: Counter[bool] = Counter()
    for seed in range(SEEDS):
        for text in TEXTS:
            rng = random.Random(f"{family.__name__} {text.__name__} {seed}")
            base = text(rng)
            start = rng.randrange(18, len(base) - 26)
            draw = Draw(rng, base, start, start + rng.choice([1, 1, 2, 3]))
            now: Lines = [(line, i) for i, line in enumerate(base)]
            family(draw, now)
            ask = ASKS[seed % len(ASKS)] if base[start] else _delete
            count[check_place(desk, draw, now, ask(draw))] += 1
            count[check_place(desk, draw, now, _replace(draw), by_version=True)] += 1
            count[check_undo(desk, draw, now)] += 1
    assert count[True] >= FAMILIES[family] * count.total(), count


def check_place(
    desk: OpenWorkspace, draw: Draw, now: Lines, ask: Ask, *, by_version: bool = False
) -> bool:
    """Whether the edit was carried; it must be to the true place, or leave the text as it is.

    `by_version`: the text changes before the edit is asked for, on the version read.
    """
    path = Path(desk.root) / "a.txt"
    texts = [line for line, _ in now]
    path.write_bytes(joined(draw.base))
    member, foot = desk.member("local"), ask.foot
    terms = Terms()
    if by_version:
        terms = Terms(version=desk.desk.read(member, PATH).version)
        path.write_bytes(joined(texts))
    try:
        plan = desk.desk.prepare(member, TOOL, ask.request, terms)
    except Refusal:
        assert by_version
        return False
    assert isinstance(plan, Planned)
    path.write_bytes(joined(texts))
    done = isinstance(desk.desk.apply(member, TOOL, plan.plan.id), Applied)
    expected = [*texts, *NEW] if foot is None else made(now, foot, ask.made)
    assert path.read_bytes() == joined(texts if not done else expected or ["nowhere"])
    return done


def check_undo(desk: OpenWorkspace, draw: Draw, now: Lines) -> bool:
    """The same, of taking an edit back that made the earlier text of one before it."""
    path, member = Path(desk.root) / "a.txt", desk.member("local")
    start, stop = draw.start, draw.stop
    before = [*draw.base[:start], "old", *draw.base[stop:]]
    path.write_bytes(joined(before))
    request = RangeEdit(PATH, str(start + 1), "".join(f"{x}\n" for x in draw.base[start:stop]))
    plan = desk.desk.prepare(member, TOOL, request)
    assert isinstance(plan, Planned)
    applied = desk.desk.apply(member, TOOL, plan.plan.id)
    assert isinstance(applied, Applied)
    assert path.read_bytes() == joined(draw.base)
    texts = [line for line, _ in now]
    path.write_bytes(joined(texts))
    done = isinstance(desk.desk.undo(member, TOOL, applied.edit_id), Undone)
    expected = made(now, (start, stop), lambda _: ["old"])
    assert path.read_bytes() == joined(texts if not done else expected or ["nowhere"])
    return done


def made(
    now: Lines, foot: tuple[int, int], change: Callable[[list[str]], list[str]]
) -> list[str] | None:
    """The later text with the edit in its true place; None where that is gone."""
    texts, origins = [line for line, _ in now], [i for _, i in now]
    if foot[0] not in origins:
        return None
    at = origins.index(foot[0])
    end = at + foot[1] - foot[0]
    if origins[at:end] != [*range(*foot)]:
        return None
    return [*texts[:at], *change(texts[at:end]), *texts[end:]]


def joined(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
