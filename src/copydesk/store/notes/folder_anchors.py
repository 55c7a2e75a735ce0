"""Obsidian's `^name`: the address of a block, and the links that lead to it.

A name is known in its document alone. `note#^name` is the address in the workspace; `^name` alone
is one as long as no other document has the name.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from urllib.parse import unquote

from copydesk.errors import InvalidArgs
from copydesk.store.notes.errors import AnchorLinked, BlockNotFound, InvalidBlockId
from copydesk.store.notes.folder_blocks import FolderDocument
from copydesk.store.notes.folder_cache import DocumentCache, path_of
from copydesk.store.notes.folder_index import ENDINGS, stem
from copydesk.text.relpath import RelPath

_ADDRESS = re.compile(r"(?:(?P<note>[^\[\]|#^@\n]+)#)?\^(?P<name>[A-Za-z0-9-]+)")
_TOLD = 10
"""So many names or documents are told in a refusal."""


def located(documents: DocumentCache, address: str) -> str:
    """The id of the block at an address; InvalidBlockId, BlockNotFound, InvalidArgs for several."""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise InvalidBlockId(address)
    note, name = found["note"], found["name"]
    documents.scan()
    documents.learn_anchors(f"^{name}")
    ids: dict[str, RelPath] = {}
    for text in documents.index.anchored(name):
        path = path_of(text)
        document = documents.look(path) if note is None or _means(note, path) else None
        block = document.tree.anchors.get(name) if document is not None else None
        if document is not None and block is not None:
            ids[document.name(block)] = path
    if not ids:
        raise BlockNotFound(address)
    if len(ids) > 1:
        raise InvalidArgs("block_id", ambiguous(address, [str(path) for path in ids.values()]))
    return next(iter(ids))


def ambiguous(address: str, paths: Sequence[str]) -> str:
    """What is said of an address that leads to several documents."""
    name = address.rpartition("#")[2]
    said = ", ".join(paths[:_TOLD])
    return f"{address} is in several documents: {said}; write {paths[0]}#{name}"


def check_links(
    documents: DocumentCache,
    lost: Iterable[tuple[FolderDocument, str]],
    after: Callable[[RelPath], bytes | None],
) -> None:
    """Raise AnchorLinked if blocks of any document link to a name that a document loses.

    `after` gives the texts of the documents that change.
    """
    anchors, linked_from = list[str](), dict[str, None]()
    for document, name in lost:
        documents.learn_anchors(f"#^{name}")
        paths = {path_of(text) for text, _ in documents.index.search([f"#^{name}".casefold()])}
        linking = [
            str(path)
            for path in sorted(paths)
            if _links(documents, path, after, document.path, name)
        ]
        if linking:
            anchors.append(f"{document.path}#^{name}")
            linked_from |= dict.fromkeys(linking)
    if anchors:
        raise AnchorLinked(tuple(anchors[:_TOLD]), tuple(linked_from)[:_TOLD])


def _links(
    documents: DocumentCache,
    path: RelPath,
    after: Callable[[RelPath], bytes | None],
    target: RelPath,
    name: str,
) -> bool:
    """Whether a document, as it will be, links to a name in another one or in itself."""
    data = after(path)
    if data is None:
        document = documents.look(path)
        data = document.data if document is not None else b""
    text = data.decode("utf-8", "replace")
    return any(_means(note, target) if note else path == target for note in _linked(text, name))


def _linked(text: str, name: str) -> Iterator[str]:
    """The notes that links to a name are to; empty for one in the same document."""
    end = rf"#\^{re.escape(name)}"
    for found in re.finditer(rf"\[\[([^\[\]|#\n]*){end}[ \t]*(?:\||\]\])", text, re.IGNORECASE):
        yield found[1].strip()
    for found in re.finditer(rf"\]\(<?([^()#<>\n]*){end}>?[ \t]*[)\"]", text, re.IGNORECASE):
        yield unquote(found[1]).strip()


def _means(note: str, path: RelPath) -> bool:
    """Whether a link to a note may be to this file: by its name, or by its path from its end."""
    spelled = posixpath.normpath(note.casefold()).split("/")
    wanted = [part for part in spelled if part not in ("", ".", "..")]
    for ending in ENDINGS:
        if wanted and wanted[-1].endswith(ending):
            wanted[-1] = wanted[-1][: -len(ending)]
            break
    parts = [*path.parts[:-1], stem(path)]
    return bool(wanted) and [part.casefold() for part in parts][-len(wanted) :] == wanted
