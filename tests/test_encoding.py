"""Encodings: never guessed, never failing to show a byte, exact or refused when written."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from copydesk.errors import BinaryFile, EncodingRefused, InvalidArgs
from copydesk.text.encoding import (
    UNKNOWN,
    UTF8,
    Encoding,
    Escapes,
    checked_name,
    detect,
    encoding_of_diff,
    unescaped,
)
from support.rows import each_row

NAMES = (
    *("utf-8", "ascii", "gb18030", "gbk", "gb2312", "big5", "big5hkscs", "shift_jis", "cp932"),
    *("euc_jp", "euc_kr", "johab", "iso8859-1", "iso8859-15", "cp1252", "koi8-r", "mac-roman"),
    *("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", UNKNOWN),
)


@each_row("data named name bom unit", [
    # a mark decides, whatever is named
    (b"\xef\xbb\xbfa", None, "utf-8", b"\xef\xbb\xbf", 1),
    (b"\xef\xbb\xbf\xff", None, "utf-8", b"\xef\xbb\xbf", 1),
    (b"\xef\xbb\xbfa", "gb18030", "utf-8", b"\xef\xbb\xbf", 1),
    (b"\xff\xfea\0", None, "utf-16-le", b"\xff\xfe", 2),
    (b"\xfe\xff\0a", None, "utf-16-be", b"\xfe\xff", 2),
    (b"\xff\xfe\0\0a\0\0\0", None, "utf-32-le", b"\xff\xfe\0\0", 4),
    (b"\0\0\xfe\xff\0\0\0a", None, "utf-32-be", b"\0\0\xfe\xff", 4),
    (b"\xff\xfea\0", "utf-16-be", "utf-16-le", b"\xff\xfe", 2),
    (b"\xff\xfe", None, "utf-16-le", b"\xff\xfe", 2),
    # then what is named
    (b"\xd6\xd0", "gb18030", "gb18030", b"", 1),
    (b"abc", "shift_jis", "shift_jis", b"", 1),
    (b"\xe9", "iso8859-1", "iso8859-1", b"", 1),
    (b"a\0", "utf-16-le", "utf-16-le", b"", 2),
    (b"\0\0\0a", "utf-32-be", "utf-32-be", b"", 4),
    # then strict UTF-8, else nothing is known
    (b"", None, "utf-8", b"", 1),
    (b"abc", None, "utf-8", b"", 1),
    ("é漢🎉".encode(), None, "utf-8", b"", 1),
    (b"\xe9", None, UNKNOWN, b"", 1),
    (b"\xe9", "utf-8", UNKNOWN, b"", 1),
    (b"\xed\xa0\x80", None, UNKNOWN, b"", 1),
    (b"\xc0\x80", None, UNKNOWN, b"", 1),
    (b"\xf4\x90\x80\x80", None, UNKNOWN, b"", 1),
])  # fmt: skip
def test_detect(data: bytes, named: str | None, name: str, bom: bytes, unit: int) -> None:
    """The file is read in this encoding."""
    assert detect(data, named) == Encoding(name, bom, unit)


@each_row("data named at", [
    (b"\0", None, 0),
    (b"ab\0c\0", None, 2),
    (b"\xff\0", None, 1),
    (b"\xef\xbb\xbfa\0", None, 4),
    (b"a\0", "gb18030", 1),
    (b"\xfea\0", None, 2),
])  # fmt: skip
def test_nul_is_binary(data: bytes, named: str | None, at: int) -> None:
    with pytest.raises(BinaryFile) as found:
        detect(data, named)
    assert found.value.nul_at_byte == at


@pytest.mark.parametrize(
    ("name", "label"), [("utf-8", "utf-8"), ("gb18030", "gb18030"), (UNKNOWN, "unknown")]
)
def test_labels(name: str, label: str) -> None:
    assert Encoding(name).label == label
    assert Encoding(name).known == (name != UNKNOWN)
    assert detect(codecs.BOM_UTF8).label == "utf-8-sig"


@pytest.mark.parametrize("name", NAMES)
@given(data=st.binary())
@example(data=b"\xed\xa0\x80\xed\xb0\x80")
@example(data=b"\xd8\x00\xdc")
@example(data=b"\x00\xd8\x00\xd8")
@example(data=b"\x00\xd8\x00\x00\xff\xff\xff\x7f")
@example(data=b"\x84\x31\xa4\x37\x82")
def test_decoding_never_fails_and_gives_valid_text(name: str, data: bytes) -> None:
    text = Encoding(name).decode(data)
    assert text.encode().decode() == text


@each_row("name data text", [
    (UNKNOWN, b"a\xe9\n", "a\\xe9\n"),
    ("utf-8", b"\xef\xbb\xbfa\xff", "\ufeffa\\xff"),
    ("gb18030", b"\xd6\xd0\xff", "中\\xff"),
    ("shift_jis", b"\x93\xfa\\", "日\\"),
    ("iso8859-1", b"\xe9\x85", "é\x85"),
    ("utf-16-le", b"a\0\0\xd8b\0", "a\\x00\\xd8b"),
    ("utf-16-be", b"\0a\0", "a\\x00"),
])  # fmt: skip
def test_what_does_not_decode_is_shown(name: str, data: bytes, text: str) -> None:
    assert Encoding(name).decode(data) == text


@each_row("encoding text shown", [
    (Encoding("gb18030"), r"\xd6", r"\xd6"),
    (Encoding("gb18030", damaged=True), r"\xd6 \x41", r"\\xd6 \x41"),
    (Encoding(UNKNOWN), r"\xd6 \x41", r"\\xd6 \x41"),
    (Encoding("utf-16-le", b"", 2, damaged=True), r"\xd6 \x41", r"\\xd6 \\x41"),
])  # fmt: skip
def test_text_like_a_shown_byte_is_escaped(encoding: Encoding, text: str, shown: str) -> None:
    """In a file with bytes that do not decode: those of UTF-16 may be any, others not ASCII."""
    assert encoding.decode(encoding.encode(text)) == shown
    assert encoding.meant(shown, encoding.encode(text))[0] == text


@each_row("text old meant bytes_ kept", [
    (r"\xd6", "\udcd6", "\udcd6", {r"\xd6"}, set()),
    (r"\xd6", r"\xd6", r"\xd6", set(), set()),
    (r"\xd7", r"\xd6", r"\xd7", set(), {r"\xd7"}),
    (r"\\xd6", "\udcd6", r"\xd6", set(), set()),
    (r"\\xd7", "\udcd6", r"\\xd7", set(), set()),
    (r"\\\xd6", "\udcd6", "\\\udcd6", {r"\xd6"}, set()),
    (r"\x41", "\udcd6", r"\x41", set(), set()),
])  # fmt: skip
def test_an_escape_is_a_byte_only_where_that_was_shown(
    text: str, old: str, meant: str, bytes_: set[str], kept: set[str]
) -> None:
    assert unescaped(text, old) == (meant, Escapes(frozenset(bytes_), frozenset(kept)))


@pytest.mark.parametrize("name", [name for name in NAMES if name != UNKNOWN])
@given(text=st.text(st.characters(codec="utf-8")) | st.text("a\\~¥‾₩¢£∥‖é漢"))
def test_encoding_is_exact_or_refused(name: str, text: str) -> None:
    refused: EncodingRefused | None = None
    try:
        back = Encoding(name).encode(text).decode(name)
    except EncodingRefused as found:
        refused, back = found, text
    assert back == text
    if refused is not None:
        assert text[refused.character_index] == refused.character
        with pytest.raises(EncodingRefused):
            Encoding(name).encode(refused.character)


@each_row("name text character index", [
    (UNKNOWN, "aé", "é", 1),
    ("ascii", "é", "é", 0),
    ("iso8859-1", "ab漢", "漢", 2),
    ("gbk", "中🎉", "🎉", 1),
    ("utf-8", "a\ud800", "\\ud800", 1),
    ("utf-16-le", "\udfff", "\\udfff", 0),
    # codecs that write another character in its place
    ("shift_jis", "a¥", "¥", 1),
    ("euc_jp", "‾", "‾", 0),
    ("cp932", "日¢", "¢", 1),
])  # fmt: skip
def test_what_cannot_be_held_is_refused(name: str, text: str, character: str, index: int) -> None:
    with pytest.raises(EncodingRefused) as found:
        Encoding(name).encode(text)
    assert (found.value.character, found.value.character_index) == (character, index)


@each_row("given_name name", [
    ("utf-8", "utf-8"),
    ("UTF8", "utf-8"),
    ("utf-8-sig", "utf-8"),
    ("utf-8-bom", "utf-8"),
    ("latin1", "iso8859-1"),
    (" Latin-1 ", "iso8859-1"),
    ("GB18030", "gb18030"),
    ("sjis", "shift_jis"),
    ("Shift_JIS", "shift_jis"),
    ("windows-1252", "cp1252"),
    ("big5", "big5"),
    ("utf-16le", "utf-16-le"),
    ("UTF_16_BE", "utf-16-be"),
    ("utf-32-le", "utf-32-le"),
])  # fmt: skip
def test_names(given_name: str, name: str) -> None:
    assert checked_name(given_name) == name


@each_row("name", [
    *("", " ", "no-such", "a\0b", "\ud800", "utf-9", "../x"),
    # the order of bytes is not said
    *("utf-16", "utf-32"),
    # ASCII bytes do not stand for themselves, or a byte is no place in the text
    *("utf-7", "hz", "iso2022-jp", "iso2022_kr", "cp037", "cp500", "utf-16-le-x"),
    # no character sets
    *("unicode_escape", "raw_unicode_escape", "idna", "punycode", "undefined"),
    *("rot13", "hex", "base64", "zlib", "bz2", "uu", "quopri"),
])  # fmt: skip
@pytest.mark.filterwarnings("error")
def test_names_refused(name: str) -> None:
    with pytest.raises(InvalidArgs) as found:
        checked_name(name)
    assert found.value.argument == "encodings"
    assert found.value.reason.encode()


def test_a_diff_is_of_the_encoding_that_is_named_unless_its_lines_are_not() -> None:
    diff = "@@ -1 +1 @@\n-caf\xe9\n+caf\xe8\n"
    assert encoding_of_diff(diff.encode("latin-1"), "latin-1").decode(b"\xe9") == "\xe9"
    assert encoding_of_diff(diff.encode(), "utf-16-le") == UTF8


def test_half_a_code_unit_does_not_decode_even_if_it_is_ascii() -> None:
    assert detect(b"abc", "utf-16-le").damaged
    assert not detect(b"ab", "utf-16-le").damaged
