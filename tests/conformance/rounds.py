"""The conformance suite's tools that ask the client back (revision 2026-07-28).

Each is a list of rounds: what is asked for, and then the result. A state that
goes out is sealed by the library's own middleware, which the server installs.
"""

from __future__ import annotations

from typing import Any

import mcp_types as t
from fixtures import Ctx, ToolRun, text

Asked = dict[str, Any]


def ask(message: str, name: str, kind: str = "string") -> t.ElicitRequest:
    schema = {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}
    return t.ElicitRequest(
        params=t.ElicitRequestFormParams(message=message, requested_schema=schema)
    )


def sampling(words: str, most: int) -> t.CreateMessageRequest:
    message = t.SamplingMessage(role="user", content=t.TextContent(text=words))
    return t.CreateMessageRequest(
        params=t.CreateMessageRequestParams(messages=[message], max_tokens=most)
    )


NAME = ask("What is your name?", "name")
CAPITAL = sampling("What is the capital of France?", 100)
CONTEXT: Asked = {"user_context": ask("What context should the prompt use?", "context")}


def rounds(*asked: Asked, state: str | None = None) -> ToolRun:
    """A tool that asks for these, one after another, and is done when it has the last."""

    async def run(ctx: Ctx, params: t.CallToolRequestParams) -> Any:
        answers = dict(params.input_responses or {})
        for number, wanted in enumerate(asked):
            if not answers and number == 0:
                return _required(wanted, state and f"{state}-{number}")
            if state is not None and params.request_state != f"{state}-{number}":
                continue
            if not answers.keys() >= wanted.keys():
                return _required(wanted, state and f"{state}-{number}")
            if number + 1 < len(asked):
                return _required(asked[number + 1], state and f"{state}-{number + 1}")
        return text(f"state-ok: {_shown(answers)}")

    return run


async def as_declared(ctx: Ctx, params: t.CallToolRequestParams) -> Any:
    """Asks only for what the client has said that it can do."""
    declared = ctx.session.client_capabilities or t.ClientCapabilities()
    wanted: Asked = {}
    if declared.sampling is not None:
        wanted["capital_question"] = CAPITAL
    if declared.elicitation is not None:
        wanted["user_name"] = NAME
    return _required(wanted, None) if wanted else text("nothing can be asked")


TOOLS: dict[str, ToolRun] = {
    "test_input_required_result_elicitation": rounds({"user_name": NAME}),
    "test_input_required_result_sampling": rounds({"capital_question": CAPITAL}),
    "test_input_required_result_list_roots": rounds({"client_roots": t.ListRootsRequest()}),
    "test_input_required_result_request_state": rounds(
        {"confirm": ask("Please confirm", "ok", "boolean")}, state="confirm"
    ),
    "test_input_required_result_tampered_state": rounds(
        {"confirm": ask("Please confirm", "ok", "boolean")}, state="tampered"
    ),
    "test_input_required_result_multiple_inputs": rounds(
        {
            "user_name": NAME,
            "greeting": sampling("Generate a greeting", 50),
            "client_roots": t.ListRootsRequest(),
        },
        state="several",
    ),
    "test_input_required_result_multi_round": rounds(
        {"step1": ask("Step 1: What is your name?", "name")},
        {"step2": ask("Step 2: What is your favorite color?", "color")},
        state="step",
    ),
    "test_input_required_result_capabilities": as_declared,
    "test_streaming_elicitation": rounds({"user_name": NAME}),
}


def _required(wanted: Asked, state: str | None) -> t.InputRequiredResult:
    return t.InputRequiredResult(input_requests=wanted, request_state=state)


def _shown(answers: dict[str, Any]) -> str:
    dumped = {key: answer.model_dump(mode="json", by_alias=True) for key, answer in answers.items()}
    return f"Hello, {dumped}!"
