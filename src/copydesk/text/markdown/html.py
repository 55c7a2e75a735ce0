"""HTML blocks as CommonMark has them: what starts one, what ends it.

What lives here: the seven start conditions and their ends. What must not:
nodes. The patterns never go back over what they took, so that a line is read once.
"""

from __future__ import annotations

import re

LAST_CLOSED = 5
"""Kinds up to this one end with their own sign, the others with a blank line."""

OPEN = 7
"""The kind that ends no paragraph: one tag alone on its line."""

_NAMES = (
    "address|article|aside|basefont|base|blockquote|body|caption|center|colgroup|col|dd|details"
    "|dialog|dir|div|dl|dt|fieldset|figcaption|figure|footer|form|frameset|frame|h[1-6]|header"
    "|head|hr|html|iframe|legend|link|li|main|menuitem|menu|nav|noframes|ol|optgroup|option"
    "|param|p|search|section|summary|table|tbody|td|tfoot|thead|th|title|track|tr|ul"
)
_STARTS = (
    rb"<(?:script|pre|style|textarea)(?:[ \t>]|\Z)",
    rb"<!--",
    rb"<\?",
    rb"<![A-Za-z]",
    rb"<!\[CDATA\[",
    b"</?(?:" + _NAMES.encode() + rb")(?:[ \t]|/?>|\Z)",
)
_START = tuple(re.compile(each, re.IGNORECASE).match for each in _STARTS)
_TAG = re.compile(
    rb"""(?:<[A-Za-z][A-Za-z0-9-]*+
    (?:[ \t]++[A-Za-z_:][A-Za-z0-9_.:-]*+
       (?:[ \t]*+=[ \t]*+(?:[^ \t"'=<>`]++|'[^']*+'|"[^"]*+"))?+)*+
    [ \t]*+/?> | </[A-Za-z][A-Za-z0-9-]*+[ \t]*+>)[ \t]*+\Z""",
    re.VERBOSE,
).match
_ENDS = (rb"</(?:script|pre|style|textarea)>", rb"-->", rb"\?>", rb">", rb"\]\]>")
_END = tuple(re.compile(each, re.IGNORECASE).search for each in _ENDS)


def html_kind(line: bytes, at: int, in_paragraph: bool) -> int:
    """The number of the condition that the line meets at byte `at`; 0 for none."""
    for kind, start in enumerate(_START, 1):
        if start(line, at):
            return kind
    return OPEN if not in_paragraph and _TAG(line, at) else 0


def html_ends(kind: int, line: bytes, at: int) -> bool:
    """Whether the line, from byte `at` on, ends a block of a kind that has its own sign."""
    return kind <= LAST_CLOSED and _END[kind - 1](line, at) is not None
