"""Blocks read from a kernel, as readers see them.

What lives here: how the answers of several calls become a `Block`, an outline, a
breadcrumb. What must not: a call that writes. Invariant: everything is read from
trees; the index only says which blocks to look at in a search.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from copydesk.store.notes import kernel_image as images
from copydesk.store.notes import kernel_sql
from copydesk.store.notes.block_id import is_id, valid
from copydesk.store.notes.errors import BlockNotFound, NotebookNotFound
from copydesk.store.notes.kernel_calls import Kernel
from copydesk.store.notes.kernel_rows import KINDS, Child, Home, Row, Standing, rows, text
from copydesk.store.notes.protocol import CONTAINERS, Around, Block, Crumb, Heading

_OUTLINE = "/api/outline/getDocOutline"
_BREADCRUMB = "/api/block/getBlockBreadcrumb"
_TAG = re.compile(r"<[^<>]*>")

_SPARE = 4
"""So many times more rows are asked for than blocks: the index may name what is gone."""


class Reading:
    """A kernel's blocks. Safe to use from many threads."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def blocks(self, ids: Sequence[str]) -> dict[str, Block]:
        """The blocks that are there, in the order asked for."""
        standings = self._kernel.standings(ids)
        rows_of: dict[str, dict[str, Child]] = {}
        shelves = _Shelves(self._kernel)
        found: dict[str, Block] = {}
        for block_id in dict.fromkeys(ids):
            standing = standings.get(block_id)
            if standing is None:
                continue
            if standing.kind == "d":
                title = html.unescape(shelves.home(block_id).title)
                child = Child(block_id, "d", "", title, "")
            else:
                parent = standing.parent_id
                if parent not in rows_of:
                    held = self._kernel.children(parent)
                    rows_of[parent] = {child.id: child for child in held}
                if block_id not in rows_of[parent]:
                    continue  # it went meanwhile
                child = rows_of[parent][block_id]
            attributes = self._kernel.attributes(block_id)
            found[block_id] = shelves.block(child, standing, attributes)
        return found

    def documents(self, box: str, most: int) -> tuple[Block, ...]:
        """The documents of an open notebook, by their paths of titles."""
        there = {notebook.id: notebook for notebook in self._kernel.notebooks()}
        if valid(box) not in there or there[box].closed:
            raise NotebookNotFound(box, closed=box in there)
        self._kernel.flush()
        named = self._kernel.select(kernel_sql.documents(box, max(most, 0)))
        ids = [text("/api/query/sql", of, "id") for of in named]
        found = self.blocks([one for one in ids if is_id(one)]).values()
        return tuple(block for block in found if block.kind == "d" and block.box == box)

    def children(self, block_id: str) -> tuple[Block, ...]:
        """What a container holds, or the section of a heading."""
        standing = self.standing(block_id)
        if standing.kind != "h" and standing.kind not in CONTAINERS:
            return ()
        container = standing.parent_id if standing.kind == "h" else block_id
        attributes = images.attributes(self._kernel.kramdown(container))
        shelves = _Shelves(self._kernel)
        return tuple(
            shelves.block(
                child,
                Standing(child.id, child.kind, container, "", ""),
                attributes.get(child.id, {}),
            )
            for child in self._kernel.children(block_id)
        )

    def standing(self, block_id: str) -> Standing:
        """Where a block stands; BlockNotFound."""
        found = self._kernel.standings([block_id])
        if block_id not in found:
            raise BlockNotFound(block_id)
        return found[block_id]

    def around(self, block_id: str) -> Around:
        """The container and the neighbours."""
        standing = self.standing(block_id)
        return Around(standing.parent_id, standing.previous_id, standing.next_id)

    def outline(self, document_id: str) -> tuple[Heading, ...]:
        """The headings, those of a lower level below."""
        return tuple(_heading(of, "name", "blocks") for of in self._kernel.outline(document_id))

    def breadcrumb(self, block_id: str) -> tuple[Crumb, ...]:
        """The notebook, documents, headings and containers on the way to a block, and itself."""
        standing = self.standing(block_id)
        home = self._kernel.home(block_id)
        names = {notebook.id: notebook.name for notebook in self._kernel.notebooks()}
        crumbs = [Crumb(home.box, "", names.get(home.box, ""))]
        crumbs += self._documents(home)
        for of in self._kernel.breadcrumb(block_id):
            crumb_id = text(_BREADCRUMB, of, "id")
            kind = KINDS.get(text(_BREADCRUMB, of, "type"), "")
            if kind != "d":
                crumbs.append(Crumb(crumb_id, kind, _read(text(_BREADCRUMB, of, "name"))))
        if crumbs[-1].id != block_id:  # left out where its item stands for it
            crumbs.append(Crumb(block_id, standing.kind, ""))
        return tuple(crumbs)

    def _documents(self, home: Home) -> Iterator[Crumb]:
        """The documents on the path, from the top."""
        ids = [part for part in home.path.removesuffix(".sy").split("/") if is_id(part)]
        for document_id in ids:
            title = home.title if document_id == home.root_id else self._title(document_id)
            yield Crumb(document_id, "d", html.unescape(title))

    def _title(self, document_id: str) -> str:
        there = self._kernel.standings([document_id])
        return self._kernel.home(document_id).title if there else ""

    def search(self, query: str, most: int) -> tuple[Block, ...]:
        """Documents and leaves that hold all the words; titles and headings first, then short ones.

        InvalidArgs(`query`) for a query without words.
        """
        words = query.split()
        statement = kernel_sql.search(words, max(most, 0) * _SPARE)
        self._kernel.flush()
        ids = [text("/api/query/sql", of, "id") for of in self._kernel.select(statement)]
        found = self.blocks([block_id for block_id in ids if is_id(block_id)])
        folded = [word.casefold() for word in words]
        holding = [block for block in found.values() if _holds(block, folded)]
        holding.sort(key=lambda block: ("dh".find(block.kind) < 0, len(block.content)))
        return tuple(holding[:most])


class _Shelves:
    """Where documents are, asked once for each."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._homes: dict[str, Home] = {}
        self._hpaths: dict[str, str] = {}

    def home(self, block_id: str) -> Home:
        """The document of a block; of blocks in one container one is asked for."""
        if block_id not in self._homes:
            self._homes[block_id] = self._kernel.home(block_id)
        return self._homes[block_id]

    def block(self, child: Child, standing: Standing, attributes: Mapping[str, str]) -> Block:
        """A block of what the calls say."""
        home = self.home(standing.parent_id or child.id)
        if home.root_id not in self._hpaths:
            self._hpaths[home.root_id] = self._kernel.hpath(home.root_id)
        return Block(
            id=child.id,
            kind=child.kind,
            subtype=child.subtype,
            markdown=child.markdown,
            content=child.content,
            parent_id=standing.parent_id,
            root_id=home.root_id,
            box=home.box,
            path=home.path,
            hpath=self._hpaths[home.root_id],
            attributes=MappingProxyType(images.shown(dict(attributes))),
            created=child.id[:14],
            updated=attributes.get("updated", ""),
        )


def _heading(of: Row, name: str, below: str) -> Heading:
    """A row of the outline; the ones at its top have other names for the same."""
    held = of.get(below)
    return Heading(
        valid(text(_OUTLINE, of, "id")),
        _read(text(_OUTLINE, of, name)),
        text(_OUTLINE, of, "subType"),
        tuple(
            _heading(row, "content", "children")
            for row in ([] if held is None else rows(_OUTLINE, held))
        ),
    )


def _read(markup: str) -> str:
    """The text of a bit of HTML."""
    return html.unescape(_TAG.sub("", markup))


def _holds(block: Block, words: Sequence[str]) -> bool:
    there = f"{block.content}\n{block.markdown}".casefold()
    return all(word in there for word in words)
