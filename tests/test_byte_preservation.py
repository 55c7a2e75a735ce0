"""Every byte outside of an edit stays, for every kind of file and every tool that edits.

The table in `docs/bytes.md` is made here; COPYDESK_WRITE_DOCS=1 writes it anew.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from copydesk import Desk
from copydesk.app.config import Config
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.edit.request import RangeEdit
from copydesk.tools.report import Answer
from support.cost import spread

DOCS = Path(__file__).parent.parent / "docs" / "bytes.md"
NAME = "the file.txt"
KEPT = "kept"
KEPT_EOF = "kept + EOF newline reported"

BEGIN, END, ANCHOR, TARGET, LAST = 1, 3, 4, 5, 6
"""Lines of the template, from 0."""


@dataclass(frozen=True)
class Kind:
    """One kind of file: its lines, how they are coded and ended, what it is on the disk.

    `own` is put into lines that no edit touches, `new` into those that an edit
    writes. `terminators` are taken in turn. `named` is the encoding that the
    configuration names. `refuses`: the code that edits are refused with.
    """

    own: str | bytes = "ÄÖ 漢字 🦊"
    new: str = "é 語 🐢"
    codec: str = "utf-8"
    bom: bytes = b""
    terminators: tuple[str, ...] = ("\n",)
    last_open: bool = False
    named: str | None = None
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    mode: int = 0o644
    form: str = "plain"
    refuses: str | None = None


LATIN, CHINESE, JAPANESE = "größer ÷ ¶", "鸢尾花 漢字 㐂", "表示ソース 日本語"

CRLF = ("\r\n",)
LE16 = Kind(bom=codecs.BOM_UTF16_LE, codec="utf-16-le")
BE16 = Kind(bom=codecs.BOM_UTF16_BE, codec="utf-16-be")
LE32 = Kind(bom=codecs.BOM_UTF32_LE, codec="utf-32-le")
BE32 = Kind(bom=codecs.BOM_UTF32_BE, codec="utf-32-be")
SHIFT_JIS = Kind(own=JAPANESE, new="表ソ", codec="shift_jis", named="shift_jis")


def alien(text: str, codec: str, new: str = "plain") -> Kind:
    """Nobody says how it is coded, so that only ASCII is put in."""
    refuses = None if new == "plain" else "ENCODING_ERROR"
    return Kind(own=text.encode(codec), new=new, refuses=refuses)


KINDS: dict[str, Kind] = {
    "LF": Kind(),
    "CRLF": Kind(terminators=CRLF),
    "mixed LF and CRLF": Kind(terminators=("\n", "\r\n", "\r\n")),
    "lone CR within lines": Kind(own="one\rtwo\r3"),
    "CRLF, and CR before it": Kind(own="one\r\rtwo\r", terminators=CRLF),
    "UTF-8 with BOM": Kind(bom=codecs.BOM_UTF8),
    "UTF-16 LE with BOM": LE16,
    "UTF-16 BE with BOM, CRLF": replace(BE16, terminators=CRLF),
    "UTF-16 LE, characters with the byte 0A": replace(LE16, own="ਊ ఊ Ċ 砊", new="਀ Ċ"),
    "UTF-32 LE with BOM": LE32,
    "UTF-32 BE with BOM, CRLF": replace(BE32, terminators=CRLF),
    "Latin-1, ASCII put in": alien(LATIN, "latin-1"),
    "Latin-1, its own script put in": alien(LATIN, "latin-1", "größer"),
    "Latin-1 configured": Kind(own=LATIN, new="größer", codec="latin-1", named="latin-1"),
    "GB18030, ASCII put in": alien(CHINESE, "gb18030"),
    "GB18030, its own script put in": alien(CHINESE, "gb18030", "鸢尾"),
    "GB18030 configured": Kind(own=CHINESE, new="鸢尾 🐢", codec="gb18030", named="gb18030"),
    "Shift-JIS, ASCII put in": alien(JAPANESE, "shift_jis"),
    "Shift-JIS, its own script put in": alien(JAPANESE, "shift_jis", "表"),
    "Shift-JIS configured": SHIFT_JIS,
    "Shift-JIS configured, a script it has not": replace(
        SHIFT_JIS, new="🐢", refuses="ENCODING_ERROR"
    ),
    "invalid UTF-8, ASCII put in": Kind(own=b"\xff\xc3 \xe6\xbc \x80\xfe", new="plain"),
    "invalid UTF-8, other text put in": Kind(own=b"\xff\xc3\x80", refuses="ENCODING_ERROR"),
    "no final newline": Kind(last_open=True),
    "no final newline, CRLF": Kind(last_open=True, terminators=CRLF),
    "no final newline, UTF-16 LE": replace(LE16, last_open=True),
    "form feed and vertical tab": Kind(own="one\x0ctwo\x0bthree\x0c", new="\x0cpage"),
    "U+2028 and U+2029": Kind(own="one\u2028two\u2029three", new="x\u2028y"),
    "U+0085": Kind(own="one\x85two", new="x\x85y"),
    "trailing blanks and tabs": Kind(own="one \t  "),
    "NUL late in the file": Kind(after=("x" * 100_000, "nul \0 here"), refuses="BINARY_FILE"),
    "mode 0755": Kind(mode=0o755),
    "mode 0444": Kind(mode=0o444),
    "mode 4600": Kind(mode=0o4600),
    "symlink": Kind(form="symlink"),
    "hard link": Kind(form="hard link", mode=0o640),
    "extended attributes": Kind(form="xattr"),
    "200,000 lines": Kind(
        before=tuple(f"line {i}" for i in range(100_000)),
        after=tuple(f"row {i}" for i in range(100_000)),
    ),
    "a line of 10 MB": Kind(after=("0123456789" * 1_000_000, "the end")),
}


@dataclass(frozen=True)
class Change:
    """Template lines [start, stop) are replaced by `lines` (`{}` is the kind's new text)."""

    tool: str
    start: int
    stop: int
    lines: tuple[str, ...]


TOOLS: dict[str, Change] = {
    "range edit": Change("prepare_file_range_edit", TARGET, TARGET + 1, ("replaced {}",)),
    "deletion": Change("prepare_file_range_edit", TARGET, TARGET + 1, ()),
    "append": Change("prepare_file_append", -1, -1, ("appended {}", "twice")),
    "insert after": Change("prepare_file_insert_after", ANCHOR + 1, ANCHOR + 1, ("after {}",)),
    "insert before": Change("prepare_file_insert_before", ANCHOR, ANCHOR, ("before {}", "x")),
    "block replace": Change("prepare_file_block_replace", BEGIN + 1, END, ("inner {}", "y")),
    "overwrite": Change("overwrite_entire_file", 0, -1, ("all {}", "new")),
    "create": Change("create_new_file", 0, 0, ("none {}",)),
}


@dataclass(frozen=True)
class Text:
    """The file as it was built: its bytes, and where each line starts; the last is the end."""

    data: bytes
    starts: tuple[int, ...]
    first: int

    def span(self, change: Change) -> tuple[int, int]:
        """The bytes that the change replaces."""
        lines = len(self.starts) - 1
        start = lines if change.start < 0 else change.start + self.first * (change.stop >= 0)
        stop = lines if change.stop < 0 else change.stop + self.first
        return self.starts[start], self.starts[stop]


@cache
def built(kind: Kind) -> Text:
    """The template in the kind's encoding, with the kind's lines around it."""
    own = kind.own if isinstance(kind.own, bytes) else kind.own.encode(kind.codec)
    plain = ["{}", "begin block", "inside {}", "end block", "anchor here", "target {}", "last {}"]
    parts = [
        own.join(piece.encode(kind.codec) for piece in line.split("{}"))
        for line in (*kind.before, *plain, *kind.after)
    ]
    ends = kind.terminators
    chunks = [part + ends[i % len(ends)].encode(kind.codec) for i, part in enumerate(parts)]
    if kind.last_open:
        chunks[-1] = parts[-1]
    starts = tuple(accumulate(map(len, chunks), initial=len(kind.bom)))
    return Text(kind.bom + b"".join(chunks), starts, len(kind.before))


def expected(kind: Kind, change: Change) -> tuple[bytes, bool]:
    """The bytes after the change by the rules of the contract, and whether the EOF rule applies."""
    text = built(kind)
    start, stop = text.span(change)
    whole, appends = change.tool == "overwrite_entire_file", change.start < 0
    ends = kind.terminators
    line_before = len(text.starts) - 2 if appends else text.first + change.start - 1
    newline = ends[line_before % len(ends)]
    if whole:
        newline = max(ends, key=ends.count)
    elif kind.last_open and appends:
        newline = ends[0]
    eol = newline.encode(kind.codec)
    new = b"".join(line.format(kind.new).encode(kind.codec) + eol for line in change.lines)
    missing = kind.last_open and not whole
    if missing and appends:
        new = eol + new
    tail = ends[0].encode(kind.codec) * (missing and not appends)
    return text.data[:start] + new + text.data[stop:] + tail, missing


def arguments(kind: Kind, change: Change, version: str) -> dict[str, Any]:
    """The call that asks for the change."""
    first = built(kind).first
    content = "".join(f"{line.format(kind.new)}\n" for line in change.lines)
    if kind.terminators == ("\r\n",) and change.start % 2:
        content = content.replace("\n", "\r\n")
    block = {"start_anchor": "begin block", "end_anchor": "end block"}
    own: dict[str, dict[str, Any]] = {
        "prepare_file_range_edit": {"range": str(first + change.start + 1), "version": version},
        "prepare_file_append": {},
        "prepare_file_insert_after": {"anchor": "anchor here"},
        "prepare_file_insert_before": {"anchor": "nchor h"},
        "prepare_file_block_replace": {**block, "match": "equals", "version": version},
        "overwrite_entire_file": {
            "known_old_total_lines": len(built(kind).starts) - 1,
            "known_old_total_bytes": len(built(kind).data),
        },
        "create_new_file": {},
    }
    return {"path": NAME, "content": content, **own[change.tool]}


def place(kind: Kind, root: Path) -> Path:
    """Build the file in the workspace; the path of what holds its bytes."""
    real = root / NAME
    if kind.form == "symlink":
        (root / "real").mkdir()
        real = root / "real" / "target.txt"
        os.symlink("real/target.txt", root / NAME)
    real.write_bytes(built(kind).data)
    if kind.form == "hard link":
        os.link(real, root / "other name")
    if kind.form == "xattr":
        os.setxattr(real, "user.mime_type", b"text/plain")
        os.setxattr(real, "user.\xfc", b"\0\xff")
    real.chmod(kind.mode)
    return real


def attributes(kind: Kind, root: Path, real: Path) -> dict[str, object]:
    """All that must be the same after an edit, besides bytes."""
    found = real.stat()
    names = sorted(path.name for path in root.iterdir() if path.name != ".copydesk")
    linked = kind.form == "hard link"
    return {
        "mode": oct(found.st_mode),
        "owner": (found.st_uid, found.st_gid),
        "links": found.st_nlink,
        "names": names,
        "xattrs": {name: os.getxattr(real, name) for name in os.listxattr(real)},
        "link": os.readlink(root / NAME) if kind.form == "symlink" else None,
        "inode": found.st_ino if linked else None,
        "other": os.stat(root / "other name").st_ino if linked else None,
    }


def prepared(opened: OpenWorkspace, change: Change, args: dict[str, Any]) -> Answer:
    """The report of the tool, or of the apply of what it prepared."""
    report = opened.call("local", change.tool, args)
    if report.is_error or "expires_at_ms" not in report.fields:
        return report
    hunk = {"hunk_id": report.fields["hunk_id"]}
    done = opened.call("local", "apply_file_modification", hunk)
    assert done.fields["context_match"] == "exact", done.text
    assert done.fields["normalized"] == report.fields["normalized"]
    return done


def at_once(opened: OpenWorkspace, change: Change, args: dict[str, Any]) -> Answer:
    """The report of the tool that writes in the same call what a plan has shown before."""
    plan = opened.call("local", change.tool, args)
    opened.call("local", "discard_hunk", {"hunk_id": plan.fields.get("hunk_id", "")})
    opened.call("local", "read_file", {"path": args["path"]})
    report = opened.call("local", change.tool, {**args, "apply": "auto"})
    assert "auto_apply" not in report.fields, report.text
    return report


Way = Callable[[OpenWorkspace, Change, dict[str, Any]], Answer]


def check_bytes(kind: Kind, change: Change, way: Way) -> str:
    """Make the change to such a file; what the table says of it."""
    with TemporaryDirectory() as folder:
        root = Path(folder)
        real = place(kind, root)
        before, stat = attributes(kind, root, real), os.stat(real)
        named = ((NAME, kind.named), ("real/**", kind.named)) if kind.named else ()
        config = Config(durability="fast", encodings=named)
        data = built(kind).data
        with open_workspace(folder, config, shared=False) as opened:
            args = arguments(kind, change, hashlib.sha256(data).hexdigest()[:12])
            report = way(opened, change, args)
        assert attributes(kind, root, real) == before
        if report.is_error:
            now = os.stat(real)
            assert real.read_bytes() == data
            for field in ("st_mtime_ns", "st_ctime_ns", "st_ino"):
                assert getattr(now, field) == getattr(stat, field), field
            return str(report.fields["error"])
        wanted, eof_added = expected(kind, change)
        found = real.read_bytes()
        assert found == wanted
        assert report.fields["changed"] is True
        assert report.fields["version"] == hashlib.sha256(found).hexdigest()[:12]
        normalized: Any = report.fields.get("normalized", {})
        assert normalized.get("normalized_file_eof_newline_added", False) is eof_added
        return KEPT_EOF if eof_added else KEPT


def due(kind: Kind, change: Change) -> str:
    """What the contract says of this cell."""
    if change.tool == "create_new_file" and not (kind.named and kind.refuses):
        return "NOT_A_FILE" if kind.form == "symlink" else "FILE_EXISTS"
    holds = change.lines or kind.refuses != "ENCODING_ERROR"
    if kind.refuses and holds:
        return kind.refuses
    return KEPT_EOF if expected(kind, change)[1] else KEPT


def row(name: str) -> str:
    """One row of the table."""
    cells = [check_bytes(KINDS[name], change, prepared) for change in TOOLS.values()]
    return f"| {name} | {' | '.join(cells)} |\n"


def committed() -> dict[str, str]:
    """The rows of the table as it is committed, by kind."""
    lines = DOCS.read_text("utf-8").splitlines(keepends=True)
    return {line.split(" | ")[0][2:]: line for line in lines if line.startswith("| ")}


@pytest.mark.parametrize("name", spread(KINDS, of=4))
def test_a_prepared_edit_keeps_every_other_byte(name: str) -> None:
    kind = KINDS[name]
    cells = [due(kind, change) for change in TOOLS.values()]
    found = row(name)
    assert found == f"| {name} | {' | '.join(cells)} |\n"
    if not os.environ.get("COPYDESK_WRITE_DOCS"):
        assert committed()[name] == found


@pytest.mark.parametrize("name", spread(KINDS, of=4))
def test_an_edit_at_once_keeps_every_other_byte(name: str) -> None:
    kind = KINDS[name]
    for change in TOOLS.values():
        if change.tool.startswith("prepare_"):
            assert check_bytes(kind, change, at_once) == due(kind, change)


def test_the_committed_table_is_the_one_made_here() -> None:
    if os.environ.get("COPYDESK_WRITE_DOCS"):
        DOCS.write_text(HEAD + "".join(map(row, KINDS)) + FOOT, "utf-8")
    text = DOCS.read_text("utf-8")
    assert text.startswith(HEAD)
    assert text.endswith(FOOT)
    assert list(committed()) == ["file", *KINDS]
    assert text == HEAD + "".join(list(committed().values())[1:]) + FOOT


HEAD = f"""\
# What an edit leaves alone

Each row is a kind of file, each column a tool that makes one small edit in it. The test compares
the whole file byte for byte with the expected content, and its mode, owner, extended attributes,
links and inode with those before. Each of the first six edits is made twice, once prepared and then
applied, once with `apply: auto`; both give the same result.

- **kept**: every byte and attribute outside the edit is unchanged.
- **{KEPT_EOF}**: the same, but a newline was added to the last line of the file, which
  had none; `normalized.normalized_file_eof_newline_added` says so.
- A code: the edit is refused, and neither the file's bytes nor its times have changed.

"Configured" means that `encodings` in the configuration names the file's encoding. `create` is called
with the path of the existing file, so it always refuses.

| file | {" | ".join(TOOLS)} |
|---|{"---|" * len(TOOLS)}
"""

FOOT = """
Generated by `tests/test_byte_preservation.py`; regenerate it with `COPYDESK_WRITE_DOCS=1`.
"""


CLASSIC = b"one\rtwo anchor\rthree"


@pytest.mark.parametrize(
    ("tool", "args", "after"),
    [
        ("prepare_file_append", {"content": "x"}, CLASSIC + b"\nx\n"),
        ("prepare_file_insert_after", {"anchor": "anchor", "content": "x"}, CLASSIC + b"\nx\n"),
        ("prepare_file_insert_before", {"anchor": "one", "content": "x"}, b"x\n" + CLASSIC + b"\n"),
    ],
)
def test_a_file_of_lone_carriage_returns_is_one_line(
    tmp_path: Path, tool: str, args: dict[str, str], after: bytes
) -> None:
    (tmp_path / "f").write_bytes(CLASSIC)
    with open_workspace(str(tmp_path), Config(durability="fast"), shared=False) as opened:
        report = opened.call("local", tool, {"path": "f", **args, "apply": "auto"})
    normalized: Any = report.fields["normalized"]
    assert normalized["normalized_file_eof_newline_added"] is True
    assert normalized["normalized_content_eof_newline_added"] is True
    assert (tmp_path / "f").read_bytes() == after


@pytest.mark.parametrize(
    ("codec", "text"),
    [("gb18030", CHINESE), ("shift_jis", JAPANESE), ("latin-1", LATIN), ("utf-16-le", CHINESE)],
)
@pytest.mark.parametrize("tool", ["create_new_file", "prepare_file_append"])
def test_a_new_file_has_its_encoding(tmp_path: Path, codec: str, text: str, tool: str) -> None:
    config = Config(durability="fast", encodings=(("legacy/**", codec),))
    with open_workspace(str(tmp_path), config, shared=False) as opened:
        given = {"path": "legacy/new.txt", "content": f"{text}\n"}
        at_once = {"apply": "auto"} if tool.startswith("prepare") else {}
        made = opened.call("local", tool, {**given, **at_once})
        assert not made.is_error, made.text
        shown = opened.call("local", "read_file", {"path": "legacy/new.txt"})
    assert (tmp_path / "legacy" / "new.txt").read_bytes() == f"{text}\n".encode(codec)
    assert text in str(shown.data["content"])


@pytest.mark.parametrize("tool", ["create_new_file", "prepare_file_append"])
def test_a_new_file_that_its_encoding_cannot_hold_is_refused(tmp_path: Path, tool: str) -> None:
    config = Config(durability="fast", encodings=(("*.txt", "latin-1"),))
    with open_workspace(str(tmp_path), config, shared=False) as opened:
        made = opened.call("local", tool, {"path": "new.txt", "content": "語\n"})
    assert made.fields["error"] == "ENCODING_ERROR"
    assert not (tmp_path / "new.txt").exists()


def test_the_rows_are_of_different_kinds() -> None:
    assert len(set(KINDS.values())) == len(KINDS)
    assert replace(KINDS["LF"], mode=0o755) == KINDS["mode 0755"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"\xef\xbb\xbfa\n", b"\xef\xbb\xbfb\n"),
        (b"\xff\xfea\0\n\0", b"\xff\xfeb\0\n\0"),
        (b"a\n", b"\xef\xbb\xbfb\n"),
    ],
)
def test_a_byte_order_mark_is_not_doubled(tmp_path: Path, before: bytes, after: bytes) -> None:
    (tmp_path / "f").write_bytes(before)
    known = {"known_old_total_lines": 1, "known_old_total_bytes": len(before)}
    with open_workspace(str(tmp_path), Config(durability="fast"), shared=False) as opened:
        given = {"path": "f", "content": "\ufeffb\n", **known}
        made = opened.call("local", "overwrite_entire_file", given)
    assert not made.is_error, made.text
    assert (tmp_path / "f").read_bytes() == after


@pytest.mark.parametrize(("range", "before", "after"), [
    ("1", b"\xef\xbb\xbfa\nb\n", b"\xef\xbb\xbfc\nb\n"),
    ("1", b"\xff\xfea\0\n\0", b"\xff\xfec\0\n\0"),
    ("2", b"\xef\xbb\xbfa\nb\n", b"\xef\xbb\xbfa\n\xef\xbb\xbfc\n"),
    ("1", b"a\n", b"\xef\xbb\xbfc\n"),
])  # fmt: skip
def test_lines_double_no_mark(tmp_path: Path, range: str, before: bytes, after: bytes) -> None:
    (tmp_path / "f").write_bytes(before)
    with Desk(tmp_path) as desk:
        desk.apply(desk.prepare(RangeEdit(desk.path("f"), range, "\ufeffc\n")).id)
    assert (tmp_path / "f").read_bytes() == after


MARK = "\ufeff"
WITH_MARK: dict[str, dict[str, object]] = {
    "Edit": {"old_string": "{}", "new_string": "\ufeffA"},
    "BatchEdit": {"edits": [{"old_string": "{}", "new_string": "\ufeffA"}]},
    "MultiEdit": {"edits": [{"old_string": "{}", "new_string": "\ufeffA"}]},
    "replace_text": {"old": "{}", "new": "\ufeffA", "apply": "auto"},
    "edit_file": {"edits": [{"oldText": "{}", "newText": "\ufeffA"}]},
    "str_replace_based_edit_tool": {"command": "str_replace", "old_str": "{}", "new_str": "\ufeffA"},
    "apply_patch": {
        "patch": "*** Begin Patch\n*** Update File: f\n@@\n-{}\n+\ufeffA\n*** End Patch", "apply": "auto"
    },
    "apply_diff": {
        "diff": "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-{}\n+\ufeffA\n", "apply": "auto"
    },
    "apply_blocks": {
        "text": "f\n<<<<<<< SEARCH\n{}\n=======\n\ufeffA\n>>>>>>> REPLACE\n", "apply": "auto"
    },
}  # fmt: skip


@pytest.mark.parametrize("tool", WITH_MARK)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le"])
def test_a_text_may_have_the_mark_of_the_file_or_not(
    tmp_path: Path, tool: str, encoding: str
) -> None:
    file = tmp_path / "f"
    with open_workspace(str(tmp_path), Config(durability="fast"), shared=False) as opened:
        for old in ("a one", MARK + "a one"):
            file.write_bytes(f"{MARK}a one\r\nb one\r\n".encode(encoding))
            given = json.loads(json.dumps(WITH_MARK[tool]).replace("{}", json.dumps(old)[1:-1]))
            answer = opened.call(
                "local",
                tool,
                given if "apply" in given and "old" not in given else {"path": "f", **given},
            )
            assert not answer.is_error, answer.text
            assert file.read_bytes() == f"{MARK}A\r\nb one\r\n".encode(encoding)
        file.write_bytes(f"{MARK}a one\nb one\n".encode(encoding))  # it begins no other line
        refused = opened.call(
            "local", "Edit", {"path": "f", "old_string": f"{MARK}b one", "new_string": "x"}
        )
        assert refused.is_error
        file.write_bytes(f"{MARK}a\nx\na\ny\n".encode(encoding))
        for old in (f"{MARK}a\ny", f"{MARK}a\nz"):  # it is at no other place
            given = {"path": "f", "old_string": old, "new_string": "z"}
            assert opened.call("local", "Edit", given).is_error
        file.write_bytes(f"{MARK}a one\nb one\n".encode(encoding))
        insert = {"command": "insert", "path": "f", "insert_line": 0, "insert_text": f"{MARK}Z"}
        assert not opened.call("local", "str_replace_based_edit_tool", insert).is_error
        assert file.read_bytes() == f"{MARK}Z\na one\nb one\n".encode(encoding)
