"""The list of the plans that wait.

What lives here: its markup and its filter. What must not: how plans are looked
up. Invariant: a row says the same as long as its plan, its state and the decision
on it are the same (times are said by the page's script).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from copydesk.app.web.diff_view import summary
from copydesk.app.web.html import NOTHING, Html, joined, named, shown, tag
from copydesk.app.web.layout import Frame, address, badge, empty, moment, page, path_shown
from copydesk.app.web.reviewer import Item
from copydesk.desk.decisions import Decision
from copydesk.desk.standing import State
from copydesk.edit.plan import Plan

MOST_ROWS: Final = 2_000

STATES: Final[Mapping[str, str]] = {
    "open": "to decide",
    "approved": "approved",
    "rejected": "rejected",
    "exact": "exact",
    "drifted": "drifted",
    "conflict": "conflict",
}

_TOLD: Final[Mapping[State, tuple[str, str, str]]] = {
    "exact": ("good", "exact", "the file is as it was when this was planned"),
    "drifted": ("warn", "drifted", "the file changed; the edit was carried to its place there"),
    "conflict": ("bad", "conflict", "the file changed where this edit relies on it"),
}


@dataclass(frozen=True, slots=True)
class Filter:
    """Which plans are listed; an empty text stands for all."""

    path: str = ""
    member: str = ""
    tool: str = ""
    state: str = ""

    @staticmethod
    def of(query: Mapping[str, str]) -> Filter:
        """The filter that an address asks for."""
        return Filter(*(query.get(name, "")[:200] for name in ("path", "member", "tool", "state")))

    def takes(self, item: Item) -> bool:
        """Whether the plan is listed."""
        return (
            self.path.lower() in item.path.lower()
            and self.member in ("", item.plan.owner)
            and self.tool in ("", item.plan.tool)
            and (not self.state or self.state in _states(item))
        )


def listing(frame: Frame, items: Sequence[Item], wanted: Filter) -> Html:
    """The page; `items` are all plans that wait, the newest first."""
    found = [item for item in items if wanted.takes(item)]
    title = tag("h1", "Pending")
    note = tag("p", _note(len(items), len(found)), id="note", class_="note", data_live=True)
    if not items:
        body = empty(
            "The desk is clear.", tag("p", "What an agent prepares shows up here at once.")
        )
    elif not found:
        body = empty("No plan is like that.", tag("p", tag("a", "Show all", href="/")))
    else:
        rows = joined(_row(item) for item in found[:MOST_ROWS])
        body = tag("ul", rows, class_="rows", id="rows", aria_label="Plans that wait")
    sheet = tag("div", body, class_="sheet", id="sheet", data_live=True)
    bar = tag(
        "div",
        tag("span", NOTHING, id="chosen-count", class_="note", role="status"),
        tag("button", "Clear", type="button", id="chosen-clear", class_="quiet"),
        tag("button", "Review together ", tag("kbd", "⇧A"), class_="primary"),
        class_="chosen-bar",
        id="chosen-bar",
    )
    choice = tag("form", sheet, bar if found else NOTHING, id="choose", action="/together")
    top = tag("div", title, note, class_="top")
    return page(frame, "Pending", "pending", top, _filters(items, wanted), choice)


def described(plan: Plan) -> str:
    """What the plan does, in words."""
    place, action = plan.place, plan.action
    old = place.stop - place.start
    lines = f"line {place.start + 1}" if old == 1 else f"lines {place.start + 1}–{place.stop}"
    if plan.base_digest is None:
        return "creates the file"
    if action == "append":
        return "appends at the end"
    if action == "insert":
        return f"inserts after line {place.start}" if place.start else "inserts at the start"
    if plan.tool.endswith("batch_edit"):
        return f"{named(max(len(place.parts), 1), 'replacement')}"
    if action == "delete":
        return f"deletes {lines}"
    return f"replaces {lines}"


def state_badge(state: State) -> Html:
    """How a plan stands in the file as it is."""
    return badge(*_TOLD[state])


def decision_badge(decision: Decision) -> Html:
    """What was decided, and by whom."""
    kind = {"approved": "info", "rejected": "bad"}.get(decision.verdict, "plain")
    return badge(kind, f"{decision.verdict} by {decision.by}", decision.reason or None)


def select(name: str, label: str, options: Iterable[tuple[str, str]], chosen: str) -> Html:
    """A field of a filter: one of some values, or all."""
    made = (
        tag("option", words, value=value, selected=value == chosen)
        for value, words in (("", "all"), *options)
    )
    return tag("label", label, tag("select", joined(made), name=name), class_="field")


def search(label: str, value: str) -> Html:
    """The field of a filter for a path."""
    field = tag(
        "input",
        type="search",
        name="path",
        value=value,
        id="filter",
        placeholder="src/…",
        autocomplete="off",
        spellcheck="false",
    )
    return tag("label", label, field, class_="field grow")


def _filters(items: Sequence[Item], wanted: Filter) -> Html:
    members = sorted({item.plan.owner for item in items} | {wanted.member} - {""})
    tools = sorted({item.plan.tool for item in items} | {wanted.tool} - {""})
    return tag(
        "form",
        search("Path", wanted.path),
        select("member", "Member", ((name, name) for name in members), wanted.member),
        select("tool", "Tool", ((name, name) for name in tools), wanted.tool),
        select("state", "State", STATES.items(), wanted.state),
        tag("noscript", tag("button", "Filter")),
        class_="filters",
        id="filters",
        data_live=True,
        role="search",
    )


def _note(every: int, found: int) -> str:
    if not every:
        return ""
    words = f"{named(every, 'plan')}, the newest first"
    if found < every:
        words = f"{found:,} of {named(every, 'plan')}"
    return f"{words}; the first {MOST_ROWS:,} are listed" if found > MOST_ROWS else words


def _states(item: Item) -> tuple[str, ...]:
    verdict = item.decision.verdict if item.decision else "open"
    return item.state, verdict


@lru_cache(maxsize=4_096)
def _row(item: Item) -> Html:
    plan = item.plan
    decided = item.decision
    sign = f"{plan.created_ms}.{item.state}.{item.counts}.{decided.time_ms if decided else 0}"
    pick = tag(
        "label",
        tag("input", type="checkbox", name="hunk", value=plan.id),
        tag("span", f"Select {item.path}", class_="unseen"),
        class_="pick",
    )
    main = tag(
        "div",
        tag("a", path_shown(item.path), href=address("hunk", plan.id), class_="open"),
        tag(
            "div", tag("b", plan.owner), shown(f" · {described(plan)} · {plan.tool}"), class_="what"
        ),
        class_="main",
    )
    state = tag(
        "div", decision_badge(decided) if decided else state_badge(item.state), class_="state"
    )
    times = tag(
        "div",
        moment(plan.created_ms),
        tag("span", "expires ", moment(plan.expires_ms, "until")),
        class_="when",
    )
    row = tag("div", pick, main, state, summary(*item.counts), times, class_="row")
    return tag("li", row, id=f"hunk-{plan.id}", data_sign=sign)
