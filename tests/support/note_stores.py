"""Stores of notes for the contract, each in a place of its own, and how blocks are told there."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from tempfile import TemporaryDirectory
from typing import cast

from copydesk.errors import ContentChanged
from copydesk.notes.folder.store import FolderStore
from copydesk.notes.kernel.api import Address, KernelHttp, KernelRefused, Pause
from copydesk.notes.kernel.blocks import split_blocks
from copydesk.notes.kernel.store import KernelStore
from copydesk.notes.protocol import (
    CONTAINERS,
    Change,
    ChangesDone,
    Delete,
    InsertText,
    Move,
    NoteBlock,
    NoteStore,
    Prepared,
    Side,
    SplitBlocks,
    Update,
)
from copydesk.store.access import Rules
from copydesk.store.files import Files
from copydesk.text.relpath import RelPath
from support.fake_kernel import FakeKernel

Op = tuple[str, ...]
"""`update PATH TEXT`, `delete PATH`, `move PATHS SIDE ANCHOR`, or a side, its anchor and a text."""

SIDES = ("before", "after", "first_in", "last_in")


@dataclass
class Home:
    """A store with an empty notebook.

    `write` puts what was prepared into files, where notes are files. `back`
    takes a change back. `ask` asks the kernel, where there is one.
    """

    store: NoteStore
    box: str
    write: Callable[[Prepared], None] = lambda prepared: None
    back: Callable[[Prepared, ChangesDone], object] | None = None
    ask: Callable[[str, Mapping[str, object]], object] = lambda path, body: None

    def document(self, markdown: str, title: str = "One", parent: str = "") -> str:
        """A new document; its id."""
        return self.made(title, markdown, parent).id

    def laid(
        self, markdown: str, title: str = "One", parent: str = ""
    ) -> tuple[str, dict[str, str]]:
        """A new document: its id, and those of its blocks by their places."""
        document = self.document(markdown, title, parent)
        return document, self.paths(document)

    def made(self, title: str, markdown: str, parent: str = "") -> NoteBlock:
        """A new document."""
        prepared = self.store.prepare_document(self.box, parent, title, markdown)
        return self.told(self.execute(prepared))

    def daily_note(self, markdown: str = "") -> NoteBlock:
        """Today's note, with this text at its end."""
        return self.told(self.execute(self.store.prepare_daily_note(self.box, markdown)))

    def told(self, done: ChangesDone) -> NoteBlock:
        """The document that was made, which has the blocks that were told, if only as items."""
        ((document, *blocks),) = done.ids
        assert {block.id for _, block in self.walk(document)}.issuperset(blocks)
        return self.store.blocks([document])[document]

    def apply(self, changes: Sequence[Change]) -> tuple[Prepared, ChangesDone]:
        """Prepare and make changes."""
        prepared = self.store.prepare(changes)
        return prepared, self.execute(prepared)

    def execute(self, prepared: Prepared) -> ChangesDone:
        """Make what was prepared."""
        self.write(prepared)
        return self.store.execute(prepared)

    def take_back(self, prepared: Prepared, done: ChangesDone) -> None:
        """Undo."""
        if self.back is not None:
            self.back(prepared, done)
        else:
            self.store.execute(self.store.prepare(done.undo))

    def walk(self, document: str) -> list[tuple[str, NoteBlock]]:
        """All blocks of a document with their places in it: `2.0` is the first of the third."""
        found: list[tuple[str, NoteBlock]] = []

        def inside(block_id: str, prefix: str) -> None:
            for at, child in enumerate(self.store.children(block_id)):
                found.append((f"{prefix}{at}", child))
                if child.kind in CONTAINERS:
                    inside(child.id, f"{prefix}{at}.")

        inside(document, "")
        return found

    def paths(self, document: str) -> dict[str, str]:
        """The ids of all blocks of a document by their places, and its own as `doc`."""
        return {"doc": document} | {path: block.id for path, block in self.walk(document)}

    def drawn(self, document: str, known: Mapping[str, str]) -> list[str]:
        """The blocks as they are now: the place each had (`+` for a new one), kind, text of leaves."""
        return drawn(self.walk(document), known)


def drawn(blocks: Sequence[tuple[str, NoteBlock]], known: Mapping[str, str]) -> list[str]:
    """Blocks as lines, indented by their depth."""
    names = {block_id: path for path, block_id in known.items()}
    return [
        f"{'  ' * path.count('.')}{names.get(block.id, '+')} {block.kind}"
        + (f" {block.markdown}" if block.kind not in CONTAINERS and block.markdown else "")
        for path, block in blocks
    ]


def changes_of(ops: Sequence[Op], paths: Mapping[str, str]) -> list[Change]:
    """The changes that a row of a table means."""
    changes: list[Change] = []
    for name, path, *text in ops:
        block_id = paths.get(path, path)
        if name == "delete":
            changes.append(Delete(block_id))
        elif name == "update":
            changes.append(Update(block_id, text[0]))
        elif name == "move":
            ids = tuple(paths[each] for each in path.split())
            changes.append(Move(ids, cast(Side, text[0]), paths[text[1]]))
        else:
            assert name in SIDES
            changes.append(InsertText(text[0], cast(Side, name), block_id))
    return changes


def quiet(seconds: float) -> None:
    """Does not wait."""


def store_of(
    kernel: FakeKernel,
    timeout_s: float = 20.0,
    split: SplitBlocks = split_blocks,
    pause: Pause = quiet,
) -> KernelStore:
    """The store of a fake kernel; it never waits."""
    http = KernelHttp(Address.of(kernel.url), kernel.token, timeout_s, most_bytes=1 << 19)
    return KernelStore(http, split, pause)


@contextmanager
def fake_home(version: str) -> Iterator[Home]:
    """A fake kernel of a version."""
    with FakeKernel(version) as kernel:
        store = store_of(kernel)
        http = KernelHttp(Address.of(kernel.url), kernel.token)
        yield Home(store, kernel.box(), ask=http.ask)
        http.close()
        store.close()


@contextmanager
def live_home(url: str, token: str) -> Iterator[Home]:
    """A notebook of its own in a real kernel, removed in the end."""
    http = KernelHttp(Address.of(url), token)
    made = http.ask("/api/notebook/createNotebook", {"name": "copydesk test"})
    box = cast(dict[str, dict[str, str]], made)["notebook"]["id"]
    store = KernelStore(http, split_blocks)
    try:
        yield Home(store, box, ask=http.ask)
    finally:
        with suppress(KernelRefused):  # "directory not empty", while it writes its index
            http.ask("/api/notebook/removeNotebook", {"notebook": box})
        store.close()


@contextmanager
def folder_home() -> Iterator[Home]:
    """A folder of its own; what is prepared is written as the desk would, all or none."""
    with TemporaryDirectory() as place:
        root = os.path.join(place, "notes")
        os.mkdir(root)
        with Files(root, durability="fast") as files:
            store = folder_store(files, place)
            (notebook,) = store.notebooks()
            yield Home(
                store,
                notebook.id,
                lambda prepared: write_files(files, prepared),
                lambda prepared, done: take_files_back(files, prepared),
            )
            store.close()


def folder_store(files: Files, place: str, rules: Rules | None = None) -> FolderStore:
    """The store of a whole workspace, its state in another folder."""
    return FolderStore(files, RelPath(()), rules or Rules(), place)


def write_files(files: Files, prepared: Prepared) -> None:
    """Write the files of a preparation, if all of them are what it was made of."""
    for file in prepared.files:
        if not file.created and files.read(file.path).data != file.base.data:
            raise ContentChanged("file")
    for file in prepared.files:
        _replace(files, file.path, file.change.apply(file.base.data), created=file.created)


def take_files_back(files: Files, prepared: Prepared) -> None:
    """Undo the writing of files, none of which has changed since."""
    for file in prepared.files:
        if file.created:
            document = files.read(file.path)
            files.remove(file.path, document.stamp, sha256(document.data).hexdigest())
        else:
            _replace(files, file.path, file.base.data, created=False)


def _replace(files: Files, path: RelPath, data: bytes, *, created: bool) -> None:
    if created:
        files.create(path, data)
        return
    now = files.read(path)
    digest = sha256(now.data).hexdigest()
    files.replace(path, now.stamp, digest, [data], before_in_place=lambda old: None)


Opening = Callable[[], AbstractContextManager[Home]]


EVERY = """# head {n} `code` end

## *em* head **strong** ![picture](assets/a.png){{: style="width: 40px;"}}

words {n} with `code {n}` and <kbd>Key</kbd>, then #tag# and ==mark== <u>under</u>

`first` in a line, at its end `last`

![picture](assets/b.png "its title"){{: style="width: 120px;"}} beside [link {n}](http://e.x/?a=1&b=2)

one **two *three* four** ~~five~~ H<sup>2</sup>O & "signs" <b>six</b> $a_{n}$ end

line {n}
line two
line three

- item {n}
  - inner `code`
    - deep ![c](c.png)

  text in it
- [ ] task {n}
- [x] done `code`

1. first {n}
2. second

   ```py
   if {n}:
       x = "a"
   ```

|a|b `c`|
|:-|-:|
|cell {n}|`code` and <kbd>k</kbd>|
|![d](d.png)|x & y|

```js
    let a = {n}

  b()
```

```mermaid
graph TD
  a{n} --> b
```

$$
x_{n} = 1
$$

> quote {n} `code`
>
> - in it
>
> ```
> code
> ```

> [!NOTE] Title {n}
> callout `code`
>
> |e|
> |-|
> |f|

{{{{{{row
left {n}

{{{{{{col
in {n}

right

}}}}}}

}}}}}}

---

<div>
<p>html {n}</p>
</div>

<iframe src="http://e.x/{n}"></iframe>

<video controls="controls" src="assets/v{n}.mp4"></video>

{{{{SELECT * FROM blocks WHERE content = 'q{n}'}}}}

last {n}"""
"""Blocks of every kind of a kernel, with inline marks; as a format of `n`."""

_RULE = re.compile(r"\| :?-+(?=:?\|)")
_SPELLED = re.compile(r"\{: ([^{}\n]*)\}")


def stored(home: Home, document: str) -> list[str]:
    """A document to the sign, in both spellings; attributes sorted, times of change left out.

    Zero-width blanks, which a kernel sets as it likes, do not count, nor does the rule of a table,
    which is as wide as they are.
    """

    def in_order(found: re.Match[str]) -> str:
        pairs = re.findall(r'[\w:.-]+="[^"\n]*"', found[1])
        return " ".join(sorted(pair for pair in pairs if not pair.startswith("updated=")))

    told = (
        home.ask("/api/block/getBlockKramdown", {"id": document, "mode": mode})
        for mode in ("md", "textmark")
    )
    texts = [str(cast(dict[str, object], one)["kramdown"]).replace("\u200b", "") for one in told]
    return [_SPELLED.sub(in_order, _RULE.sub("| - ", text)) for text in texts]


def another_word(markdown: str) -> str:
    """The text with a letter more in its last word of some length."""
    return re.sub(r"([a-z]{2})(?![a-z]*.*[a-z]{2})", r"\1x", markdown, count=1, flags=re.DOTALL)
