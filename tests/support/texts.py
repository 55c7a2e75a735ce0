"""Texts that make trouble, and changes of them: the strategies that many tests share.

Lines are taken from few, so that they repeat; what stands in them is what other
programs take for the end of a line, a mark or a sign of a diff.
"""

from __future__ import annotations

import codecs
from typing import Literal

from hypothesis import strategies as st

from copydesk.edit.draft import Draft, compose
from copydesk.edit.request import Anchor, Append, BlockReplace, Insert, RangeEdit
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.encoding import Encoding
from copydesk.text.nearest import Near, nearest_of
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot

PATH = RelPath(("a.txt",))

LineEdit = RangeEdit | Append | Insert | BlockReplace

LINES = (
    *("", "a", "b", "}", "    }", " ", "\t", "a b", "---", "--- a", "+++ b", "@@ -1,2 +1,2 @@"),
    *(
        "-",
        "+",
        "\\",
        "\\ No newline at end of file",
        "\u2028",
        "x\u2029y",
        "x\x85y",
        "\x0cx",
        "\x0b",
    ),
    *(
        "a\rb",
        "\rx",
        "diff --git a/a b/a",
        "é",
        "漢字",
        "🎉",
        "e\u0301",
        "\u0a00",
        "\u0100",
        "\ufeff",
    ),
    *("\x1b[0m", "\x1c", "`", "```", "    ", "x" * 300),
)
"""Lines without terminator; none ends with CR, which before LF would be one."""

BAD_BYTES = (b"\xff", b"\xc3", b"\xe9t\xe9", b"\x80abc", b"\xed\xa0\x80", b"\xf0\x9f", b"\xfe\x80")
"""What is no UTF-8."""

NEWLINES = ("\n", "\r\n")

WIDE = (
    Encoding("utf-16-le", codecs.BOM_UTF16_LE, 2),
    Encoding("utf-16-be", codecs.BOM_UTF16_BE, 2),
    Encoding("utf-32-le", codecs.BOM_UTF32_LE, 4),
    Encoding("utf-32-be", codecs.BOM_UTF32_BE, 4),
)

lines = st.sampled_from(LINES) | st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n"))
"""One line, without terminator."""


@st.composite
def joined(draw: st.DrawFn, line: st.SearchStrategy[str] = lines, most: int = 14) -> str:
    """A text of lines with LF, CRLF or both, its last line ended or not; perhaps empty."""
    found: list[str] = draw(st.lists(line, max_size=most))
    unclosed: bool = draw(st.booleans())
    style = draw(st.sampled_from((*NEWLINES, "mixed")))
    ends = [draw(st.sampled_from(NEWLINES)) if style == "mixed" else style for _ in found]
    if ends and unclosed:
        ends[-1] = ""
    return "".join(a + b for a, b in zip(found, ends, strict=True))


@st.composite
def narrow(draw: st.DrawFn) -> bytes:
    """The bytes of a file with a code unit of one byte: UTF-8, with a mark or not, or broken."""
    data = draw(joined()).encode()
    if draw(st.integers(0, 3)) == 0:
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(st.sampled_from(BAD_BYTES)) + data[at:]
    if draw(st.integers(0, 3)) == 0:
        data = codecs.BOM_UTF8 + data
    if draw(st.integers(0, 7)) == 0:
        data += b"\r"
    return data


@st.composite
def wide(draw: st.DrawFn, *, ragged: bool = True) -> bytes:
    """The bytes of a UTF-16 or UTF-32 file, sometimes with a broken last unit."""
    encoding = draw(st.sampled_from(WIDE))
    data = encoding.bom + encoding.encode(draw(joined()))
    if ragged and draw(st.integers(0, 5)) == 0:
        data += draw(st.sampled_from((b"\0", b"\n", b"\r")))
    return data


files = narrow() | wide() | st.binary(max_size=40).filter(lambda data: b"\0" not in data)
"""The bytes of a file that is no binary one."""

snapshots = files.map(Snapshot.of)


@st.composite
def changes(draw: st.DrawFn, data: bytes, most: int = 4) -> ChangeSet:
    """Any change of the bytes: spans that touch, insertions at one place, at the ends."""
    count = 2 * draw(st.integers(0, most))
    marks = sorted(draw(st.lists(st.integers(0, len(data)), min_size=count, max_size=count)))
    spans = zip(marks[::2], marks[1::2], strict=True)
    new = narrow() | st.sampled_from((b"", b"x", b"\n", b"\r\n", b"a\n", b"a\nb"))
    return ChangeSet.of(len(data), [Edit(start, stop, draw(new)) for start, stop in spans])


@st.composite
def requests(draw: st.DrawFn, base: Snapshot) -> LineEdit:
    """An edit of one of the four kinds that finds its place in `base`, of text that it can hold."""
    content = draw(joined(most=4) | st.sampled_from(("", "\n", "\n\n", "x", "x\r\n", "a\nb\r\nc")))
    if not base.encoding.known:
        content = content.encode("ascii", "ignore").decode()
    total = base.line_count
    kind = draw(st.sampled_from(("range", "range", "append", "insert", "block")))
    if kind == "append":
        return Append(PATH, content or "x")
    anchors = [i for i in range(total) if base.text(i)]
    if kind == "insert" and anchors:
        line = draw(st.sampled_from(anchors))
        same = [i for i in anchors if base.text(i) == base.text(line)]
        anchor = Anchor(base.text(line), "equals")
        position: Literal["after", "before"] = draw(st.sampled_from(("after", "before")))
        return Insert(PATH, anchor, content or "\n", position, same.index(line) + 1)
    if kind == "block" and len({base.text(i) for i in anchors}) > 1:
        first = base.text(anchors[0])
        end = draw(st.sampled_from([base.text(i) for i in anchors if base.text(i) != first]))
        ends = Anchor(first, "equals", "start_anchor"), Anchor(end, "equals", "end_anchor")
        keep = draw(st.booleans())
        return BlockReplace(PATH, *ends, content or "\n", include_anchors=keep, strict=False)
    if not total:
        return RangeEdit(PATH, draw(st.sampled_from(("~", "1", "1~"))), content)
    first_line = draw(st.integers(1, total + 1))
    if first_line > total:
        return RangeEdit(PATH, f"{first_line}~", content or "x")
    last_line = draw(st.integers(first_line, total))
    return RangeEdit(PATH, f"{first_line}~{last_line}", content)


@st.composite
def drafts(draw: st.DrawFn, data: st.SearchStrategy[bytes] = files) -> Draft:
    """A draft of any kind of edit in any file, but those whose end cannot be written on."""
    base = Snapshot.of(draw(data.filter(lambda found: not Snapshot.of(found).ragged)))
    request = draw(requests(base))
    return compose(request, base, request.locate(base))


def nearest(base: Snapshot, wanted: str) -> Near | None:
    """The lines most like one text, which does not stand in `base`."""
    return nearest_of(base, [wanted])[0]
