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

MOST_BYTES: Final = 1_000_000
"""The most bytes of JSON that a result may have: clients read no event above 1 MiB."""

_CUT: Final[Mapping[Lang, str]] = {
    "en": "\n\n[Cut here: {shown} of {size} bytes are shown. Ask for less at once.]\n",
    "zh": "\n\n[在此截断:共 {size} 字节,仅显示 {shown} 字节。请缩小一次请求的范围。]\n",
}


def sendable(text: str) -> str:
    """The text, with what UTF-8 cannot hold as escapes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def capped(text: str, lang: Lang, most: int = MOST_BYTES) -> str:
    """The text, sendable, and cut with a remark when its JSON is above `most` bytes."""
    whole = kept = sendable(text)
    while (size := _size(kept)) > most:
        kept = kept[: len(kept) * most // size]
    if kept is whole:
        return whole
    shown, size = len(kept.encode()), len(whole.encode())
    return kept + _CUT[lang].format(shown=shown, size=size)


def tool_result(answer: Answer, lang: Lang, *, structured: bool) -> t.CallToolResult:
    """An answer as the result of a tool call.

    The structured part is left out when both would be above the cap: half of it
    would be another statement than the text's.
    """
    text = capped(answer.text, lang)
    result = t.CallToolResult(content=[t.TextContent(text=text)], is_error=answer.is_error)
    if structured:
        data = _plain(answer.data)
        if _size(text) + _size(data) <= MOST_BYTES:
            result.structured_content = data
    return result


def _size(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode())


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
