"""HTML as Lute reads it: which line starts HTML, a frame or a player.

What lives here: the conditions, with their oddities. What must not: nodes.
Tags are lower case only and are looked for in the whole line.
"""

from __future__ import annotations

import re

from copydesk.text.markdown.attributes import SPACE

SCRIPT, RAW, OPEN = 1, 6, 7
"""The kinds of HTML blocks that differ in how they end, as CommonMark numbers them."""

_NAMES = (
    "address article aside base basefont blockquote body caption center col colgroup dd details"
    " dialog dir div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6"
    " head header hr html iframe legend li link main menu menuitem nav noframes ol optgroup option"
    " p param section source summary table tbody td tfoot th thead title tr track ul video audio"
)
_BODY = _NAMES.split()
_SCRIPT = re.compile(rb"<script|<pre|<style|<textarea").search
_BLOCK = re.compile(
    "|".join([f"<{tag}" for tag in _BODY] + [f"</{tag}" for tag in _BODY]).encode()
).search
SCRIPT_END = re.compile(rb"</script>|</pre>|</style>|</textarea>").search

_NAME = re.compile(rb"[A-Za-z][A-Za-z0-9-]*\Z").match
_ATTRIBUTE = re.compile(rb"[A-Za-z_:][A-Za-z0-9_.:-]*\Z").match
_SPACES = re.compile(rb"[ \t\n\v\f\r]+")
_DECLARATION = re.compile(rb"<!--|<\?|<![A-Z]|<!\[CDATA\[").match


def html_kind(text: bytes, in_paragraph: bool) -> int:
    """Which kind of HTML block the line `text` starts; 0 for none, -1 for one of 2 to 5.

    `text` begins with `<` and has no terminator.
    """
    text += b"\n"
    if len(text) < 3:
        return 0
    found = _SCRIPT(text)
    if found is not None and text[len(found[0])] in b" \t\n\v\f\r>":
        return SCRIPT
    found = _BLOCK(text)
    if found is not None:
        after = len(found[0])
        if text[after] in b" \t\n\v\f\r>" or text[after : after + 2] == b"/>":
            return RAW
    tag = text.strip(SPACE)
    if not in_paragraph and (_open_tag(tag) or _close_tag(tag)):
        return OPEN
    return -1 if _DECLARATION(text) else 0


def _open_tag(tag: bytes) -> bool:
    if len(tag) < 3 or not tag.endswith(b">"):
        return False
    inner = tag[1:-2] if tag.endswith(b"/>") else tag[1:-1]
    if not inner or inner[0] in SPACE:
        return False
    name, *attributes = _SPACES.split(inner)
    return _NAME(name) is not None and all(map(_sound, attributes))


def _sound(attribute: bytes) -> bool:
    if len(attribute) <= 1:
        return True
    name, sign, value = attribute.partition(b"=")
    if not name:
        return True
    if _ATTRIBUTE(name) is None:
        return False
    if not sign:
        return True
    for quote in (b"'", b'"'):
        if value.startswith(quote) and value.endswith(quote):
            return len(value) > 1 and quote not in value[1:-1]
    return not any(byte in value for byte in b"\"'=<>`")


def _close_tag(tag: bytes) -> bool:
    return len(tag) >= 4 and tag[1] == 47 and tag.endswith(b">") and _NAME(tag[2:-1]) is not None
