"""What goes out to a client: the one place that every text of an answer passes.

What lives here: the check that a text can be sent, the cap on its size, the
form of a tool's result. What must not: words of tools. Invariant: what leaves
here can be encoded as UTF-8 (one lone surrogate ends the library's stdio
server) and is not above the cap.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import mcp_types as t

from copydesk.tools.catalog import Answer
from copydesk.tools.report import Lang

MOST_BYTES: Final = 2_000_000
"""The most bytes of UTF-8 that one text of an answer may have."""

_CUT: Final[Mapping[Lang, str]] = {
    "en": "\n\n[Cut here: {most} of {size} bytes are shown. Ask for less at once.]\n",
    "zh": "\n\n[在此截断:共 {size} 字节,仅显示 {most} 字节。请缩小一次请求的范围。]\n",
}


def sendable(text: str) -> str:
    """The text, with what UTF-8 cannot hold as escapes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def capped(text: str, lang: Lang, most: int = MOST_BYTES) -> str:
    """The text, sendable, and cut with a remark when it is above `most` bytes."""
    whole = sendable(text)
    if len(whole) * 4 <= most:
        return whole
    data = whole.encode()
    if len(data) <= most:
        return whole
    return data[:most].decode("utf-8", "ignore") + _CUT[lang].format(most=most, size=len(data))


def tool_result(answer: Answer, lang: Lang, *, structured: bool) -> t.CallToolResult:
    """An answer as the result of a tool call.

    The structured part is left out when it is above the cap: half of it would
    be another statement than the text's.
    """
    result = t.CallToolResult(
        content=[t.TextContent(text=capped(answer.text, lang))], is_error=answer.is_error
    )
    if structured:
        data = _plain(answer.data)
        if len(json.dumps(data, ensure_ascii=False).encode()) <= MOST_BYTES:
            result.structured_content = data
    return result


def _plain(value: object) -> Any:
    """The value in JSON's own types."""
    if isinstance(value, str):
        return sendable(value)
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, object]", value).items()
        return {sendable(key): _plain(item) for key, item in pairs}
    if isinstance(value, Sequence):
        return [_plain(item) for item in cast("Sequence[object]", value)]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
