"""Incoming JSON-RPC messages and outgoing results.

Every message that expects an answer either passes in a form that the protocol library can parse, or
is answered here: the library does not answer what it cannot parse (a lone surrogate, bytes that are
not UTF-8), and its client would wait. Every text that leaves here is valid UTF-8 and below the size
limit: one lone surrogate ends the library's stdio server.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

import mcp_types as t
from pydantic import ValidationError
from pydantic_core import from_json

from copydesk.tools.report import Answer, Lang, Original

MOST_MESSAGE_BYTES: Final = 64 << 20
"""The largest message to read, in bytes."""

ARGUMENTS: Final = "copydesk.arguments"
"""The key of the original arguments in a request's scope, if they were repaired."""

_ID = re.compile(rb'"id"\s*:\s*("[\x20\x21\x23-\x5b\x5d-\x7e]{0,200}"|-?\d{1,18})(?=\s*[,}])')
_LONE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class ParsedMessage:
    """A message that the library can parse; `repaired` is the scope for its handler, if any."""

    message: t.JSONRPCMessage
    body: bytes
    repaired: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """The JSON-RPC error that answers an unacceptable message."""

    reply: bytes


def parse_message(raw: bytes) -> ParsedMessage | ErrorReply:
    """Parse a message; an ErrorReply if it is unacceptable.

    Lone surrogates and bytes that are not UTF-8 are replaced with U+FFFD; the original arguments of
    a tool call are kept for the tool to refuse.
    """
    try:
        return _framed(from_json(raw), raw, None)
    except ValueError:
        return _second_look(raw)


def original_arguments(request: object, given: object) -> object:
    """A call's arguments as the client sent them; `given` is what the library parsed."""
    scope = cast("Mapping[str, object]", getattr(request, "scope", None) or {})
    return scope.get(ARGUMENTS, given)


def error_reply(code: int, message: str, request_id: object = None) -> ErrorReply:
    """The answer to an unacceptable message."""
    error = {"code": code, "message": message}
    return ErrorReply(json.dumps({"jsonrpc": "2.0", "id": request_id, "error": error}).encode())


def too_large(head: bytes, limit: int) -> ErrorReply:
    """The answer to a message above the limit that begins with `head`."""
    return error_reply(t.INVALID_REQUEST, f"Message larger than {limit} bytes", _id_within(head))


def _second_look(raw: bytes) -> ParsedMessage | ErrorReply:
    """Repair a message that the library's parser refused, or answer it under its id."""
    text = raw.decode("utf-8", "surrogateescape")
    try:
        came: Any = json.loads(text)
        repaired = _plain(came, partial(_LONE.sub, "\ufffd"))
        body = json.dumps(repaired, ensure_ascii=False).encode()
        parsed = from_json(body)
    except (ValueError, RecursionError):
        return error_reply(t.PARSE_ERROR, "Parse error", _id_of(raw, text))
    if not isinstance(came, dict):
        return _framed(parsed, body, {})
    frame = cast("dict[str, Any]", came)
    if frame.get("id") != repaired.get("id"):
        said = "The id is a text or a number that JSON does not have"
        return error_reply(t.INVALID_REQUEST, said, _shown_id(frame["id"]))
    params: dict[str, Any] = frame["params"] if isinstance(frame.get("params"), dict) else {}
    arguments = {ARGUMENTS: params["arguments"]} if "arguments" in params else {}
    return _framed(parsed, body, arguments)


def _framed(
    value: Any, body: bytes, repaired: Mapping[str, object] | None
) -> ParsedMessage | ErrorReply:
    if not isinstance(value, dict):
        return error_reply(t.INVALID_REQUEST, "The message must be one JSON-RPC object")
    frame = cast("dict[str, Any]", value)
    kind: type[t.JSONRPCMessage] = t.JSONRPCError if "error" in frame else t.JSONRPCResponse
    if "method" in frame:  # a request with a malformed id is no notification
        kind = t.JSONRPCRequest if "id" in frame else t.JSONRPCNotification
    try:
        return ParsedMessage(kind.model_validate(frame), body, repaired)
    except ValidationError:
        request_id = frame.get("id") if "method" in frame else None
        return error_reply(t.INVALID_REQUEST, "Invalid request", _shown_id(request_id))


def _id_of(raw: bytes, text: str) -> object:
    try:
        message: Any = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return _id_within(raw)
    return _shown_id(message.get("id")) if isinstance(message, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def _id_within(raw: bytes) -> object:
    """The id if the bytes contain exactly one; an answer with a wrong id is worse than none."""
    ids = {match[1] for match in _ID.finditer(raw)}
    return json.loads(ids.pop()) if len(ids) == 1 else None


def _shown_id(request_id: object) -> object:
    usable = isinstance(request_id, str | int) and not isinstance(request_id, bool)
    return request_id if usable else None


MOST_RESULT_BYTES: Final = 1_000_000
"""The largest result, in bytes of JSON: clients read no event above 1 MiB."""

_CUT: Final[Mapping[Lang, str]] = {
    "en": "\n\n[Cut here: {shown} of {size} bytes are shown. Ask for less at once.]\n",
    "zh": "\n\n[在此截断:共 {size} 字节,仅显示 {shown} 字节。请缩小一次请求的范围。]\n",
}


def sendable(text: str) -> str:
    """The text with lone surrogates escaped, so that it can be encoded as UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def capped(text: str, lang: Lang, most: int = MOST_RESULT_BYTES) -> str:
    """The sendable text, cut with a note if its JSON exceeds `most` bytes."""
    whole = cut = sendable(text)
    # in JSON a character takes at most 6 bytes, as a control character does
    while 6 * len(cut) + 2 > most and (size := _size(cut)) > most:
        cut = cut[: len(cut) * most // size]
    if cut is whole:
        return whole
    shown, size = len(cut.encode()), len(whole.encode())
    return cut + _CUT[lang].format(shown=shown, size=size)


def tool_result(answer: Answer, lang: Lang, *, structured: bool) -> t.CallToolResult:
    """An answer as a tool result; without structured data if both together exceed the limit.

    An answer in the form of another program is whole, and structured if that program's is.
    """
    if answer.original is not None:
        return _as_original(answer, answer.original, structured=structured)
    text = capped(answer.text, lang)
    result = t.CallToolResult(content=[t.TextContent(text=text)], is_error=answer.is_error)
    if structured:
        data = _plain(answer.twin)
        if _size(text) + _size(data) <= MOST_RESULT_BYTES:
            result.structured_content = data
    return result


def _as_original(answer: Answer, original: Original, *, structured: bool) -> t.CallToolResult:
    result: dict[str, Any] = {"content": _plain(answer.blocks), "isError": answer.is_error}
    if original.structured is not None:
        result["structuredContent"] = _plain(original.structured)
    elif structured and original.only_text:
        result["structuredContent"] = _plain(answer.data)
    return t.CallToolResult.model_validate(result)


def _size(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode())


def _plain(value: object, shown: Callable[[str], str] = sendable) -> Any:
    """The value in JSON's own types, its texts as `shown` makes them."""
    if isinstance(value, str):
        return shown(value)
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, dict | Mapping):
        pairs = cast("Mapping[str, object]", value).items()
        return {shown(key): _plain(item, shown) for key, item in pairs}
    if isinstance(value, Sequence):
        return [_plain(item, shown) for item in cast("Sequence[object]", value)]
    is_in_json = not isinstance(value, float) or math.isfinite(value)
    return value if is_in_json else None
