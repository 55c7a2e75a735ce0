"""What all pages share: the head, the bar, the notices, the help.

What lives here: the frame of a page and its small parts. What must not: what a
single page shows.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from copydesk.app.web.html import NOTHING, Html, joined, named, tag
from copydesk.app.web.sessions import Notice

STATIC: Final = "/static/"

_KEYS: Final = (
    (
        "Anywhere",
        (
            ("1 2 3", "pending, history, trends"),
            ("?", "this help"),
            ("Esc", "close, or leave a field"),
        ),
    ),
    (
        "In a list",
        (
            ("j k", "next, previous"),
            ("Enter", "open"),
            ("x", "select, or let go"),
            ("/", "filter"),
            ("Shift+A", "review what is selected, together"),
        ),
    ),
    (
        "In a review",
        (
            ("a", "approve"),
            ("Shift+A", "approve and apply"),
            ("r", "reject, with a reason"),
            ("e", "edit the new text"),
            ("v", "side by side, or one column"),
            ("c", "more of the file around"),
            ("n p", "next, previous change"),
            ("j k", "next, previous hunk"),
            ("u", "back to the list"),
            ("Ctrl+Enter", "send the form one is in"),
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Frame:
    """What a page stands in: who looks, at which workspace, and what is to be said.

    `waiting`: so many plans wait. `csrf` is the token of the session's forms.
    """

    name: str
    csrf: str
    workspace: str
    waiting: int
    notices: Sequence[Notice] = ()


def page(frame: Frame, title: str, here: str, *content: Html, wide: bool = False) -> Html:
    """A whole page; `here` is which entry of the bar it belongs to."""
    body = tag(
        "body",
        tag("a", "Skip to the content", href="#content", class_="skip"),
        _bar(frame, here),
        tag(
            "main",
            tag("div", *map(_notice, frame.notices), id="notices", role="status"),
            *content,
            id="content",
            tabindex=-1,
            class_="wide" if wide else None,
        ),
        _help(),
        data_here=here,
    )
    return document(title, body)


def document(title: str, body: Html, *more: Html) -> Html:
    """The document around a body."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{title} · copydesk"),
        tag("link", rel="icon", href=f"{STATIC}icon.svg", type="image/svg+xml"),
        tag("link", rel="stylesheet", href=f"{STATIC}desk.css"),
        tag("link", rel="stylesheet", href=f"{STATIC}diff.css"),
        *more,
        tag("script", src=f"{STATIC}desk.js", defer=True),
    )
    return Html("<!doctype html>" + tag("html", head, body, lang="en"))


def form(frame: Frame, action: str, *content: Html, **attributes: str | bool | None) -> Html:
    """A form that is posted, with the token of the session."""
    token = hidden("csrf", frame.csrf)
    return tag("form", token, *content, method="post", action=action, **attributes)


def hidden(name: str, value: str) -> Html:
    """A field that is sent along."""
    return tag("input", type="hidden", name=name, value=value)


def moment(time_ms: int, kind: str = "ago") -> Html:
    """A moment (ms since 1970), said in UTC; the page's script says how long ago, or until."""
    at = time.gmtime(time_ms // 1000)
    return tag(
        "time",
        time.strftime("%Y-%m-%d %H:%M:%S UTC", at),
        datetime=time.strftime("%Y-%m-%dT%H:%M:%SZ", at),
        data_ms=time_ms,
        data_kind=kind,
    )


def badge(kind: str, words: str, title: str | None = None) -> Html:
    """A short word on a state."""
    return tag("span", words, class_=f"badge {kind}", title=title)


def path_shown(path: str) -> Html:
    """A path, its last part standing out."""
    folder, slash, name = path.rpartition("/")
    return tag(
        "span",
        tag("span", folder + slash, class_="folder") if folder else NOTHING,
        tag("span", name, class_="name"),
        class_="path",
        dir="ltr",
    )


def address(*parts: str, **query: str | int | None) -> str:
    """An address below `/`, its parts and values quoted; None leaves a value out."""
    found = "/" + "/".join(quote(part, safe="") for part in parts)
    values = "&".join(
        f"{name}={quote(str(v), safe='')}" for name, v in query.items() if v not in (None, "")
    )
    return f"{found}?{values}" if values else found


def empty(title: str, *words: Html) -> Html:
    """What stands where there is nothing to show."""
    return tag("div", tag("p", title, class_="title"), *words, class_="empty")


def _bar(frame: Frame, here: str) -> Html:
    entries = (
        ("pending", "/", "Pending"),
        ("history", "/history", "History"),
        ("trends", "/trends", "Trends"),
    )
    count = tag("span", f"{frame.waiting:,}", class_="count", id="waiting")
    said = tag("span", f" ({named(frame.waiting, 'plan')})", class_="unseen")
    links = (
        tag(
            "a",
            words,
            joined((count, said)) if name == "pending" and frame.waiting else None,
            href=href,
            aria_current="page" if name == here else None,
        )
        for name, href, words in entries
    )
    return tag(
        "header",
        tag("a", tag("span", "copy", class_="pencil"), "desk", href="/", class_="brand"),
        tag("nav", joined(links), id="bar", aria_label="Pages"),
        tag(
            "div",
            tag("span", frame.workspace, class_="workspace", title="the workspace"),
            tag(
                "span",
                class_="live",
                id="live",
                title="not connected",
                role="img",
                aria_label="not connected",
            ),
            tag("span", frame.name, class_="who", title="you review under this name"),
            tag(
                "button",
                "?",
                type="button",
                id="help-button",
                aria_label="Keyboard help",
                class_="round",
            ),
            form(frame, "/sign-out", tag("button", "Sign out", class_="quiet")),
            class_="aside",
        ),
        class_="bar",
    )


def _notice(notice: Notice) -> Html:
    return tag("p", notice.words, class_=f"notice {notice.kind}")


def _help() -> Html:
    columns = (
        tag(
            "section",
            tag("h3", title),
            tag(
                "dl",
                joined(joined((tag("dt", _keys(keys)), tag("dd", words))) for keys, words in rows),
            ),
        )
        for title, rows in _KEYS
    )
    return tag(
        "dialog",
        tag("h2", "Keys", id="help-title", tabindex=-1, autofocus=True),
        tag("div", joined(columns), class_="columns"),
        tag(
            "label",
            tag("input", type="checkbox", id="keys-on", checked=True),
            " Single keys are on",
        ),
        tag("form", tag("button", "Close", value="close"), method="dialog"),
        id="help",
        aria_labelledby="help-title",
    )


def _keys(keys: str) -> Html:
    return joined((tag("kbd", key) for key in keys.split(" ")), " ")
