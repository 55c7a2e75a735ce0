"""What every message passes: the door for what comes in, the check of what goes out."""

from __future__ import annotations

import json
from typing import Any

import mcp_types as t
import pytest

from copydesk.app.mcp.messages import (
    ARGUMENTS,
    MOST_RESULT_BYTES,
    ErrorReply,
    ParsedMessage,
    capped,
    parse_message,
    too_large,
    tool_result,
)
from copydesk.tools.report import Answer
from support.cost import tokens
from support.mcp_calls import text_of

# What goes out


def test_a_text_is_cut_at_the_cap() -> None:
    most = MOST_RESULT_BYTES - 2  # the quotes
    assert capped("a" * most, "en") == "a" * most
    for character in "aé中😀\n\1":
        size = len(json.dumps(character, ensure_ascii=False).encode()) - 2
        text = capped(character * (MOST_RESULT_BYTES // size + 1), "zh")
        kept = text.rpartition("\n\n[")[0]
        assert set(kept) == {character}
        assert most - 20 < len(kept) * size <= most


def test_no_lone_surrogate_goes_out() -> None:
    report = Answer({"status": "ok", "a\udc80": ["x\ud800"], "f": 1}, next_steps=("\udfff",))
    result = tool_result(report, "en", structured=True)
    assert "\\\\ud800" in result.model_dump_json(by_alias=True)
    sent = {"status": "ok", "a\\udc80": ["x\\ud800"], "f": 1, "next": ["\\udfff"]}
    assert result.structured_content == sent


def test_what_is_above_the_cap_goes_out_as_text_only() -> None:
    report = Answer({"status": "ok", "big": "x" * (MOST_RESULT_BYTES + 1)}, budget=0)
    result = tool_result(report, "en", structured=True)
    assert result.structured_content is None
    assert len(text_of(result)) < MOST_RESULT_BYTES + 200


@pytest.mark.slow
def test_data_for_programs_has_the_budget_of_the_text() -> None:
    rows = [{"name": f"file_{number}", "size_bytes": number} for number in range(5_000)]
    data = {"status": "ok", "entries": rows, "text": "word and word\n" * 40_000, "summary": "all"}
    twin = tool_result(Answer(data), "en", structured=True).structured_content
    assert tokens(json.dumps(twin)) <= 4_000
    assert twin["entries"] == rows[: len(twin["entries"])]
    assert len(twin["entries"]) + twin["entries_left_out"] == 5_000
    assert twin["summary"] == "all"
    assert "characters)" in twin["text"][-30:]


# What comes in

CALL = {"jsonrpc": "2.0", "id": 7, "method": "tools/call"}


def line(**changes: Any) -> bytes:
    return json.dumps({**CALL, **changes}).encode()


def check_reply(raw: bytes, request_id: object, code: int) -> None:
    found = parse_message(raw)
    assert isinstance(found, ErrorReply), raw[:50]
    answer = json.loads(found.reply)
    assert (answer["id"], answer["error"]["code"]) == (request_id, code), raw[:50]


NO_JSON = [
    *((raw, None) for raw in (b"", b"{", b"nonsense", b"[" * 100_000, b"\xef\xbb\xbf{}")),
    (b'{"jsonrpc": "2.0", "id": 7, "method": "x"', 7),
    (b'{"jsonrpc": "2.0", "id": 7, "method": "x", ]', 7),
    (b'{"jsonrpc": "2.0", "id": "a-1", "method": "x", ]', "a-1"),
    (b'{"id": 7, "params": {"id": 8}, ]', None),
    (b'{"jsonrpc": "2.0", "id": 7, "method": "a\0b"}', 7),
    (b'{"id": 3, "a": ' + b"[" * 100_000, 3),
    (b'{"id": 3, "a": ' + b"9" * 10_000 + b"}", 3),
    ("{}".encode("utf-16"), None),
]
NO_REQUEST = [
    *((b"[]", None), (b"1", None), (b'"\\udc80"', None)),
    (b'{"jsonrpc": "2.0", "id": 7, "method": 3}', 7),
    (b'{"jsonrpc": "2.0", "id": 7, "method": "x", "params": []}', 7),
    (b'{"jsonrpc": "1.0", "id": 7, "method": "x"}', 7),
    (b'{"jsonrpc": "2.0", "id": 1.5, "method": "x"}', None),
    (b'{"jsonrpc": "2.0", "id": null, "method": "x"}', None),
    (b'{"jsonrpc": "2.0", "id": true, "method": "x"}', None),
    (b'{"jsonrpc": "2.0", "id": 7}', None),
    (b'{"jsonrpc": "2.0", "id": "\\udc80", "method": "x"}', "\udc80"),
    (b'{"jsonrpc": "2.0", "id": 1e999, "method": "x", "params": {"q": "\\udc80"}}', None),
    (b'{"jsonrpc": "2.0", "id": NaN, "method": "x", "params": {"q": "\\udc80"}}', None),
]


def test_what_is_no_json_or_no_request_is_answered() -> None:
    for raw, request_id in NO_JSON:
        check_reply(raw, request_id, t.PARSE_ERROR)
    for raw, request_id in NO_REQUEST:
        check_reply(raw, request_id, t.INVALID_REQUEST)


def test_a_good_message_passes_as_it_is() -> None:
    raw = line(params={"name": "x", "arguments": {"content": "😀\u2028 \0"}})
    found = parse_message(raw)
    assert isinstance(found, ParsedMessage)
    assert found.body is raw
    assert found.repaired is None


@pytest.mark.parametrize("bad", [b"\\udc80", b"\\ud83d", b"\xff", b"\xed\xa0\x80"])
def test_a_text_that_is_none_is_mended_and_kept(bad: bytes) -> None:
    raw = b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"name":"%s","arguments":{"%s":"%s"}}}'
    found = parse_message(raw % (bad, bad, bad))
    assert isinstance(found, ParsedMessage)
    assert found.repaired is not None
    (pair,) = found.repaired[ARGUMENTS].items()
    assert all(any("\ud800" <= c <= "\udfff" for c in text) for text in pair)
    assert "\ufffd" in json.loads(found.body)["params"]["name"]
    assert json.loads(found.body)["id"] == 7


def test_a_line_that_is_too_long_is_answered() -> None:
    answer = json.loads(too_large(line(params={"a": 1}), 10).reply)
    assert (answer["id"], answer["error"]["code"]) == (7, t.INVALID_REQUEST)
