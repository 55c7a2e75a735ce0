"""The paths of the kernel's API, and what each answers. A missing field is a panic, as in Go."""

from __future__ import annotations

import html
import re
import sqlite3
from collections.abc import Callable
from typing import Any

from support.fake_kernel.habits import Fault, Habits
from support.fake_kernel.kramdown import (
    Node,
    Panic,
    Refused,
    attributes_of,
    content,
    dom,
    fresh_id,
    kramdown,
    markdown,
    of_dom,
    parse,
    unmarked,
)
from support.fake_kernel.workspace import CONTAINERS, Document, Workspace

Body = dict[str, Any]

WRITES = {
    "/api/block/insertBlock", "/api/block/appendBlock", "/api/block/prependBlock",
    "/api/block/updateBlock", "/api/block/batchUpdateBlock", "/api/block/deleteBlock",
    "/api/block/moveBlock", "/api/attr/setBlockAttrs", "/api/filetree/createDocWithMd",
    "/api/filetree/createDailyNote", "/api/filetree/removeDoc",
}  # fmt: skip

NODES = {
    "d": "NodeDocument", "h": "NodeHeading", "l": "NodeList", "i": "NodeListItem", "c": "NodeCodeBlock",
    "m": "NodeMathBlock", "t": "NodeTable", "b": "NodeBlockquote", "s": "NodeSuperBlock", "p": "NodeParagraph",
    "html": "NodeHTMLBlock", "av": "NodeAttributeView", "iframe": "NodeIFrame", "tb": "NodeThematicBreak",
    "callout": "NodeCallout", "query_embed": "NodeBlockQueryEmbed", "widget": "NodeWidget",
    "video": "NodeVideo", "audio": "NodeAudio", "": "NodeGitConflict",
}  # fmt: skip

COLUMNS = [
    "id", "parent_id", "root_id", "box", "path", "hpath", "content", "markdown", "type", "subtype",
    "updated", "ial",
]  # fmt: skip
_FORM = re.compile(r"[0-9]{14}-[0-9a-z]{7}")


class NoSuchPath(Exception):
    """The kernel has no such call."""


class Calls:
    """What the kernel does when it is asked. `rows` is the index, as old as the last flush."""

    def __init__(self, habits: Habits) -> None:
        self.habits = habits
        self.space = Workspace()
        self.rows: list[tuple[str, ...]] = []
        self.pending: list[str] = []
        self.statements: list[Body] = []
        self.reads = 0
        self._paths: dict[str, Callable[[Body], Any]] = {
            "/api/system/version": lambda body: habits.version,
            "/api/system/bootProgress": lambda body: {"progress": habits.progress, "details": ""},
            "/api/sqlite/flushTransaction": lambda body: self.flush(),
            "/api/query/sql": self._sql,
            "/api/block/getChildBlocks": self._children,
            "/api/block/getTailChildBlocks": lambda body: self._children(body)[::-1][: body["n"]],
            "/api/block/getBlockIndex": self._index,
            "/api/filetree/getDoc": self._part,
            "/api/block/getBlockKramdown": self._kramdown,
            "/api/block/getBlockDOM": lambda body: {"id": body["id"], "dom": self._dom(body["id"])},
            "/api/block/getBlockDOMs": self._doms,
            "/api/block/getBlockInfo": self._info,
            "/api/block/getBlockTreeInfos": self._infos,
            "/api/block/getBlockBreadcrumb": self._breadcrumb,
            "/api/attr/getBlockAttrs": self._attributes,
            "/api/outline/getDocOutline": self._outline,
            "/api/filetree/getHPathByID": self._hpath,
            "/api/notebook/lsNotebooks": self._notebooks,
            "/api/block/insertBlock": self._insert,
            "/api/block/appendBlock": self._append,
            "/api/block/prependBlock": self._prepend,
            "/api/block/updateBlock": self._update,
            "/api/block/batchUpdateBlock": self._update_all,
            "/api/block/deleteBlock": self._delete,
            "/api/block/moveBlock": self._move,
            "/api/filetree/listDocsByPath": self._below,
            "/api/attr/setBlockAttrs": self._set_attributes,
            "/api/filetree/createDocWithMd": self._create,
            "/api/filetree/createDailyNote": self._daily,
            "/api/filetree/removeDoc": self._remove,
            "/api/history/createDocHistory": lambda body: self._known(body["id"]) and None,
        }
        self._fault: Fault | None = None

    def answer(self, path: str, body: Body, fault: Fault | None) -> Any:
        """The data of the answer; Refused, or KeyError and others where Go would panic."""
        self._fault = fault
        if path not in self._paths:
            raise NoSuchPath(path)
        if path in WRITES:
            if self.habits.read_only:
                raise Refused("This operation is not supported in read-only mode")
            self._commit()  # a queue: what was sent before is done before
        return self._paths[path](body)

    def flush(self) -> None:
        """All that was sent is done, and in the index."""
        self._commit()
        self.rows = []
        self.space.each(self._add_row)

    def _commit(self) -> None:
        for block_id in self.pending:
            self.space.delete(block_id)
        self.pending.clear()

    def _add_row(self, document: Document, node: Node, parent: Node | None) -> None:
        text = "" if node.kind == "d" else unmarked(markdown(node, parent))
        self.rows.append(
            (
                node.id, parent.id if parent else "", document.root.id, document.box, document.path,
                self.space.hpath(document), content(node), text, node.kind, node.subtype,
                node.attributes.get("updated", ""), attributes_of(node, self.reads),
            )
        )  # fmt: skip

    # Reading.

    def _known(self, block_id: str) -> tuple[Document, Node, Node | None]:
        if not _FORM.fullmatch(block_id):
            raise Refused("invalid ID argument")
        found = self.space.find(block_id)
        if found is None:
            raise Refused(f"Content block with id [{block_id}] not found")
        return found

    def _sql(self, body: Body) -> Any:
        statement, mode = body["stmt"], body.get("mode", "")
        self.statements.append(body)
        if self.habits.since >= (3, 7) and mode not in ("", "readonly", "multiple"):
            raise Refused("unknown mode")
        if " ESCAPE " in statement:
            raise Panic("the printer of the query knows no ESCAPE")
        base = sqlite3.connect(":memory:")
        base.row_factory = sqlite3.Row
        base.execute(f"CREATE TABLE blocks ({','.join(COLUMNS)})")
        base.executemany(f"INSERT INTO blocks VALUES ({','.join('?' * len(COLUMNS))})", self.rows)
        try:
            return [dict(row) for row in base.execute(statement)]
        except sqlite3.Error as problem:
            raise Refused(str(problem)) from None
        finally:
            base.close()

    def _children(self, body: Body) -> Any:
        if not _FORM.fullmatch(body["id"]):
            raise Refused("invalid ID argument")
        found = self.space.find(body["id"])
        if found is None:
            return []
        _, node, parent = found
        held, holder = (node.children, node) if node.kind in CONTAINERS else ([], node)
        if node.kind == "h" and parent is not None:
            held, holder = self.space.section(node, parent), parent
        return [
            {
                "id": one.id,
                "type": one.kind,
                "subType": one.subtype,
                "content": content(one),
                "markdown": unmarked(markdown(one, holder)),
            }
            for one in held
        ]

    def _index(self, body: Body) -> Any:
        document, node, parent = self._known(body["id"])
        while parent is not None and parent is not document.root:
            _, node, parent = self._known(parent.id)
        return document.root.children.index(node) + 1 if parent else 0

    def _part(self, body: Body) -> Any:
        document, _, _ = self._known(body["id"])
        blocks = document.root.children
        at = max(body.get("index", 0) - 1, 0)
        for heading in blocks[:at]:  # it starts with the folded heading that hides the block
            hidden = self.space.section(heading, document.root) if heading.kind == "h" else []
            if heading.attributes.get("fold") == "1" and blocks[at] in hidden:
                at = blocks.index(heading)
        part = blocks[at : at + body["size"] + 1]
        return {"content": "".join(map(dom, part)), "blockCount": len(blocks)}

    def _kramdown(self, body: Body) -> Any:
        if body.get("mode", "md") not in ("md", "textmark"):
            raise Refused("Invalid mode")
        found = self.space.find(body["id"])
        self.reads += 1
        text = kramdown(found[1], found[2], turned=self.reads) if found else ""
        marked = body.get("mode", "md") == "textmark"
        return {"id": body["id"], "kramdown": text if marked else unmarked(text)}

    def _dom(self, block_id: str) -> str:
        found = self.space.find(block_id)
        return dom(found[1]) if found else ""

    def _doms(self, body: Body) -> Any:
        if self.habits.since < (3, 5, 3):
            raise NoSuchPath("/api/block/getBlockDOMs")
        return {one: told for one in body["ids"] if (told := self._dom(one))}

    def _info(self, body: Body) -> Any:
        document, _, _ = self._known(body["id"])
        return {
            "box": document.box,
            "path": document.path,
            "rootID": document.root.id,
            "rootTitle": document.root.attributes["title"],
            "rootIcon": "",
        }

    def _infos(self, body: Body) -> Any:
        told: dict[str, Any] = {}
        for block_id in body["ids"]:
            found = self.space.find(block_id)
            if found is None:
                if self.habits.since < (3, 7):
                    told[block_id] = {
                        "id": block_id,
                        "type": "",
                        "parentID": "",
                        "previousID": "",
                        "nextID": "",
                    }
                continue
            _, node, parent = found
            beside = parent.children if parent else [node]
            at = beside.index(node)
            previous = beside[at - 1] if at else None
            next_one = beside[at + 1] if at + 1 < len(beside) else None
            told[block_id] = {
                "id": block_id,
                "type": NODES[node.kind],
                "parentID": parent.id if parent else "",
                "previousID": previous.id if previous else "",
                "nextID": next_one.id if next_one else "",
            }
        return told

    def _breadcrumb(self, body: Body) -> Any:
        found = self.space.find(body["id"])
        if found is None:
            return []
        document, node, parent = found
        box = next(one.name for one in self.space.boxes if one.id == document.box)
        crumbs: list[Node] = []
        at: tuple[Node, Node | None] = (node, parent)
        level = "h9"
        while at[1] is not None:
            one, holder = at
            if one is node or one.kind not in ("l", "b", "s", "callout"):
                lone = (
                    one.kind == "p"
                    and holder is not None
                    and holder.kind == "i"
                    and len(holder.children) == 1
                )
                crumbs += [] if lone else [one]
            level = one.subtype if one.kind == "h" else level
            assert holder is not None
            for before in reversed(holder.children[: holder.children.index(one)]):
                if before.kind == "h" and before.subtype < level:
                    level = before.subtype
                    crumbs.append(before)
            above = self.space.find(holder.id)
            assert above is not None
            at = (above[1], above[2])
        rows = [
            {"id": document.root.id, "name": box + self.space.hpath(document),
                "type": "NodeDocument"},
        ]  # fmt: skip
        for one in reversed(crumbs):
            name = "" if one is node else html.escape(content(one))
            rows.append({"id": one.id, "name": name, "type": NODES[one.kind]})
        return rows

    def _attributes(self, body: Body) -> Any:
        found = self.space.find(body["id"])
        return {"id": body["id"], **(found[1].attributes if found else {})}

    def _outline(self, body: Body) -> Any:
        document = self.space.document(body["id"])
        top: list[Any] = []
        stack: list[tuple[str, list[Any]]] = []
        for node in document.root.children if document else []:
            if node.kind != "h":
                continue
            while stack and stack[-1][0] >= node.subtype:
                stack.pop()
            below: list[Any] = []
            text = html.escape(content(node), quote=False).replace(" ", "\u00a0")
            if stack:
                stack[-1][1].append(
                    {"id": node.id, "content": text, "subType": node.subtype, "children": below}
                )
            else:
                top.append({"id": node.id, "name": text, "subType": node.subtype, "blocks": below})
            stack.append((node.subtype, below))
        return top or None

    def _hpath(self, body: Body) -> Any:
        return self.space.hpath(self._known(body["id"])[0])

    def _notebooks(self, body: Body) -> Any:
        return {
            "notebooks": [
                {"id": one.id, "name": one.name, "closed": one.closed} for one in self.space.boxes
            ]
        }

    # Writing.

    def _text(self, data: str) -> str:
        if self._fault == "cut":
            return data[: len(data) // 2]
        return "" if self._fault == "cleared" else data

    def _blocks(self, body: Body) -> list[Node]:
        """The blocks that a request brings, as its type of data has them."""
        if body["dataType"] == "markdown":
            return parse(self._text(body["data"]))
        nodes = of_dom(body["data"])
        if self._fault in ("cut", "cleared"):
            nodes = [Node(one.kind, self._text(one.text), one.subtype, one.id) for one in nodes]
        return nodes

    def _told(self, action: str, nodes: list[Node]) -> Any:
        if self._fault == "renamed":
            for one in nodes:
                for below in one.walk():
                    below.id = fresh_id()
        dom = "".join(
            f'<div data-node-id="{below.id}"></div>' for one in nodes for below in one.walk()
        )
        named = nodes[0].id if nodes else ""
        operation = {"action": action, "id": named, "data": dom, "parentID": "", "retData": None}
        if self._fault == "unnamed":
            operation |= {"id": "", "data": ""}
        return [{"timestamp": 0, "doOperations": [operation], "undoOperations": None}]

    def _insert(self, body: Body) -> Any:
        anchors = [body.get(name) or "" for name in ("nextID", "previousID", "parentID")]
        if self._fault == "astray":
            document = next(one for one in self.space.documents if one.root.id != one.box)
            anchors = ["", "", document.root.id]
        nodes = self.space.insert(self._blocks(body), *anchors, self.habits.since)
        if self._fault == "twice":
            nodes += self.space.insert(self._blocks(body), *anchors, self.habits.since)
        return self._told("insert", nodes)

    def _append(self, body: Body) -> Any:
        nodes = self.space.append(self._blocks(body), body["parentID"], self.habits.since)
        return self._told("insert", nodes)

    def _prepend(self, body: Body) -> Any:
        anchor, since = body["parentID"], self.habits.since
        nodes = self.space.append(self._blocks(body), anchor, since, first=True)
        return self._told("insert", nodes)

    def _update(self, body: Body) -> Any:
        node = self.space.update(body["id"], self._blocks(body))
        if self._fault == "stripped" and node is not None:
            node.attributes.clear()
        if self._fault == "renamed" and node is not None:
            for below in node.walk()[1:]:
                below.id = fresh_id()
        return (
            self._told("update", [])
            if self._fault == "renamed"
            else self._told("update", [node] if node else [])
        )

    def _update_all(self, body: Body) -> Any:
        if self.habits.since < (3, 1, 25):
            raise NoSuchPath("/api/block/batchUpdateBlock")
        for block in body["blocks"]:
            self._known(block["id"])
        return [told for block in body["blocks"] for told in self._update(block)]

    def _delete(self, body: Body) -> Any:
        self.pending.append(body["id"])
        return self._told("delete", [])

    def _move(self, body: Body) -> Any:
        self._known(body["id"])
        previous_id, parent_id = body.get("previousID") or "", body.get("parentID") or ""
        anchor = self.space.find(previous_id or parent_id)
        if anchor is None or (previous_id and anchor[2] is None):
            raise Refused("target block not found")
        if not previous_id and anchor[1].kind not in CONTAINERS and self.habits.since >= (3, 7):
            raise Refused("is a leaf block and cannot have children")
        if self._fault == "astray":
            previous_id, parent_id = "", self._known(body["id"])[0].root.id
        if self._fault != "cleared":
            self.space.move(body["id"], previous_id, parent_id)
        return None

    def _below(self, body: Body) -> Any:
        above = body["path"].removesuffix(".sy")
        files = [
            {"id": one.root.id}
            for one in self.space.documents
            if one.path.rpartition("/")[0] == above and one.box == body["notebook"]
        ]
        return {"box": body["notebook"], "path": body["path"], "files": files}

    def _set_attributes(self, body: Body) -> Any:
        _, node, _ = self._known(body["id"])
        for name, value in body["attrs"].items():
            if self._fault in ("cut", "cleared", "stripped"):
                continue
            if value.strip():
                node.attributes[name] = value
            else:
                node.attributes.pop(name, None)
        return None

    def _create(self, body: Body) -> Any:
        data, document_id = self._text(body["markdown"]), body.get("id") or fresh_id()
        parent = "" if self._fault == "astray" else body.get("parentID", "")
        path = "/elsewhere" + body["path"] if self._fault == "astray" else body["path"]
        document = self.space.create(body["notebook"], path, data, parent, document_id)
        if self._fault == "renamed":
            document.root.id = fresh_id()
        return document.root.id

    def _daily(self, body: Body) -> Any:
        box = next(
            (one for one in self.space.boxes if one.id == body["notebook"] and not one.closed), None
        )
        if box is None:
            raise Refused("notebook not found")
        if not box.daily.strip("/"):
            raise Refused("Please specify the daily note save path")
        for one in self.space.documents:
            if one.box == box.id and self.space.hpath(one) == box.daily:
                return {"id": one.root.id}
        made = self.space.create(box.id, box.daily, "", "", fresh_id())
        made.root.attributes["custom-dailynote-20260101"] = "20260101"
        return {"id": made.root.id}

    def _remove(self, body: Body) -> Any:
        self.space.remove(body["notebook"], body["path"])
        return None
