"""What a kernel answers, as values: read once, and never a `dict` behind this door.

What lives here: the rows of the calls that this store makes. What must not: the
calls. Invariant: an answer of another shape is NotesUnavailable, not an
exception of the language.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from copydesk.store.notes.errors import NotesUnavailable

KINDS = {
    "NodeDocument": "d",
    "NodeHeading": "h",
    "NodeList": "l",
    "NodeListItem": "i",
    "NodeCodeBlock": "c",
    "NodeMathBlock": "m",
    "NodeTable": "t",
    "NodeBlockquote": "b",
    "NodeSuperBlock": "s",
    "NodeParagraph": "p",
    "NodeHTMLBlock": "html",
    "NodeBlockQueryEmbed": "query_embed",
    "NodeAttributeView": "av",
    "NodeIFrame": "iframe",
    "NodeWidget": "widget",
    "NodeThematicBreak": "tb",
    "NodeVideo": "video",
    "NodeAudio": "audio",
    "NodeCallout": "callout",
}
"""The kinds of the tree calls by those of the blocks table; others have none."""

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a block stands, by its tree: container and neighbours, empty where there is none."""

    id: str
    kind: str
    parent_id: str
    previous_id: str
    next_id: str


@dataclass(frozen=True, slots=True)
class Child:
    """A block of a container, as its tree lists it."""

    id: str
    kind: str
    subtype: str
    content: str
    markdown: str


@dataclass(frozen=True, slots=True)
class Home:
    """The document of a block: its notebook, path of ids, id, title."""

    box: str
    path: str
    root_id: str
    title: str


def row(call: str, value: object) -> Row:
    """An object."""
    if not isinstance(value, dict):
        raise NotesUnavailable(f"{call}: an object is missing")
    return cast(dict[str, object], value)


def rows(call: str, value: object) -> list[Row]:
    """A list of objects."""
    if not isinstance(value, list):
        raise NotesUnavailable(f"{call}: a list is missing")
    return [row(call, item) for item in cast(list[object], value)]


def text(call: str, of: Row, name: str) -> str:
    """A string; empty when it is left out."""
    value = of.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise NotesUnavailable(f"{call}: {name} is no text")
    return value


def standing(call: str, of: Row) -> Standing | None:
    """Where a block stands; None for one that is not in its tree. A document stands alone."""
    node = text(call, of, "type")
    if not node:
        return None
    kind = KINDS.get(node, "")
    if kind == "d":
        return Standing(text(call, of, "id"), kind, "", "", "")
    return Standing(
        text(call, of, "id"),
        kind,
        text(call, of, "parentID"),
        text(call, of, "previousID"),
        text(call, of, "nextID"),
    )


def child(call: str, of: Row) -> Child:
    """A block of a container."""
    return Child(
        text(call, of, "id"),
        text(call, of, "type"),
        text(call, of, "subType"),
        text(call, of, "content"),
        text(call, of, "markdown"),
    )
