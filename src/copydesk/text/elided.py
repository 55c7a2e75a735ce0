"""Lines that stand for others: three dots, or a comment such as `rest of the file unchanged`."""

from __future__ import annotations

import re

_COMMENT = re.compile(
    r"\s*(?:#+|//+|/\*+|<!--|--+|;+|%+|\{/\*|\*|\"+|'+|REM\b)?[ \t]*(.*?)\s*"
    r"(?:\*+/\}?|-->|\"+|'+)?\s*"
)
_DOTS = r"(?:\.\.\.+|\u2026+)"
_WHAT = (
    r"(?:code|file|function|functions|class|classes|method|methods|implementation|logic|content"
    r"|contents|body|script|module|component|document|text|section|imports|lines|tests|styles"
    r"|fields|definitions|handlers|routes|cases|items|entries)"
)
_STAYS = (
    r"(?:(?:is|are|be|as|stays?|remains?|kept|left|goes|the|exactly|completely|mostly)\s+)*"
    r"(?:unchanged|same|identical|here|before|is|untouched|omitted(?: for brevity)?)"
)
_ELIDED = re.compile(
    rf"{_DOTS}"
    rf"|{_DOTS}\s*\(?(?:(?:the|all|keep|your|and|other)\s+)*"
    rf"(?:rest|remaining|remainder|existing|other|previous|unchanged|same|omitted|original)\b.*"
    rf"|(?:(?:keep|the|all|your)\s+)*(?:existing|previous|original|other|remaining)\s+"
    rf"(?:\w+\s+){{0,2}}{_WHAT}(?:\s+{_STAYS})?\s*{_DOTS}?"
    rf"|(?:the\s+)?(?:rest|remainder)\s+of\s+(?:(?:the|your|this)\s+)?(?:\w+\s+){{0,3}}{_WHAT}"
    rf"(?:\s+{_STAYS})?\s*{_DOTS}?"
    rf"|(?:the\s+)?(?:rest|remainder)\s+{_STAYS}\s*{_DOTS}?"
    rf"|(?:{_DOTS}\s*)?\(?(?:\u4fdd\u7559)?(?:\u5176\u4f59|\u5176\u4ed6|\u5269\u4f59|\u4f59\u4e0b"
    r"|\u539f\u6709|\u73b0\u6709|\u5df2\u6709|\u4e4b\u524d|\u6b64\u5904)\S{0,8}?"
    r"(?:\u4ee3\u7801|\u5185\u5bb9|\u90e8\u5206|\u903b\u8f91|\u65b9\u6cd5|\u51fd\u6570"
    r"|\u4fdd\u6301\u4e0d\u53d8|\u4e0d\u53d8|\u7701\u7565)\S{0,8}\)?"
    rf"|(?:{_DOTS}\s*)?\(?(?:\u4ee3\u7801|\u5185\u5bb9)?(?:\u7701\u7565|\u4fdd\u6301\u4e0d\u53d8)\)?"
    rf"\s*{_DOTS}?",
    re.IGNORECASE,
)


def is_elided(line: str) -> bool:
    """Whether a line, or the comment that it is, stands for lines that are left out."""
    if len(line) > 200:
        return False
    plain = _COMMENT.fullmatch(line)
    if plain is None or not _ELIDED.fullmatch(plain[1]):
        return False
    # words count in a comment only, dots anywhere
    return line.strip() != plain[1] or bool(re.match(_DOTS, plain[1]))
