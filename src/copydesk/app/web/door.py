"""The way in: the page that asks for a token.

What lives here: its markup. What must not: whether a token is valid.
"""

from __future__ import annotations

from copydesk.app.web.html import NOTHING, Html, tag
from copydesk.app.web.layout import address, document, hidden


def address_of(onward: str) -> str:
    """Where to sign in, and be led on to that path."""
    return address("sign-in", next=onward if onward != "/" else None)


def within(onward: str) -> str:
    """The address, if it is one of this server for every browser; else that of the list.

    Browsers take a backslash for a slash, and leave out line breaks and tabs.
    """
    is_ours = onward.startswith("/") and not onward.startswith("//")
    return onward if is_ours and onward.isprintable() and "\\" not in onward else "/"


def page(token: str, name: str, words: str, onward: str, inside: bool) -> Html:
    """The page; with a `token` it asks for a name only. `words` say what was wrong."""
    if token:
        fields = (
            hidden("token", token),
            tag(
                "label",
                "You decide under the name",
                tag(
                    "input",
                    type="text",
                    name="name",
                    value=name,
                    required=True,
                    maxlength=60,
                    autocomplete="off",
                ),
                class_="field",
            ),
            tag("button", "Open the desk", class_="primary", autofocus=True),
        )
        hint = "Who decides is told to the agents, and kept."
    else:
        fields = (
            tag(
                "label",
                "Token",
                tag(
                    "input",
                    type="password",
                    name="token",
                    required=True,
                    autofocus=True,
                    autocomplete="off",
                ),
                class_="field",
            ),
            hidden("name", name),
            tag("button", "Sign in", class_="primary"),
        )
        hint = "Open the address that `copydesk serve` printed, or give a member's token."
    card = tag(
        "main",
        tag("h1", tag("span", "copy", class_="pencil"), "desk", class_="brand"),
        tag("p", words, class_="notice bad", role="alert") if words else NOTHING,
        tag("form", *fields, hidden("next", onward), method="post", action="/sign-in"),
        tag("p", hint),
        tag(
            "p",
            tag("a", "You are signed in. Go on.", href=within(onward)),
        )
        if inside
        else NOTHING,
        class_="card sheet",
    )
    return document("Sign in", tag("body", tag("div", card, class_="door"), data_here="door"))
