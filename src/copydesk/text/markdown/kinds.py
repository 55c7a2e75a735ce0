"""The kinds of blocks, named as SiYuan names them.

What lives here: names, and which kinds hold blocks or take text. What must
not: anything else. The empty name is a conflict of git: SiYuan has none for it.
"""

from __future__ import annotations

DOCUMENT, LIST, ITEM, QUOTE, SUPER, CALLOUT, NOTE = "d", "l", "i", "b", "s", "callout", "footnote"
PARAGRAPH, HEADING, CODE, MATH, TABLE, HTML, BREAK = "p", "h", "c", "m", "t", "html", "tb"
EMBED, IFRAME, WIDGET, VIDEO, AUDIO, VIEW = (
    "query_embed",
    "iframe",
    "widget",
    "video",
    "audio",
    "av",
)
CONFLICT, MATTER, DEFINITION = "", "yaml", "def"

ATTRIBUTES, AGAIN_PARSED = "attributes", "again"
"""A line of attributes, and the root of a text parsed again: nodes while parsing, never blocks."""

HOLDS = frozenset((DOCUMENT, AGAIN_PARSED, LIST, ITEM, QUOTE, SUPER, CALLOUT, NOTE))
"""The kinds that have children."""

TEXT = frozenset(
    (
        PARAGRAPH,
        CODE,
        HTML,
        MATH,
        MATTER,
        EMBED,
        CONFLICT,
        IFRAME,
        WIDGET,
        VIDEO,
        AUDIO,
        VIEW,
        TABLE,
    )
)
"""The kinds that take lines as they are."""
