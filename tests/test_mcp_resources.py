"""The waiting plans as resources, with their news, and the manuals as prompts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import mcp_types as t
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from copydesk.app import manuals
from copydesk.app.config import TOOLSETS, MemberConfig
from copydesk.app.mcp.server import Documents, question
from copydesk.app.workspace import OpenWorkspace, open_workspace
from support.mcp_calls import CALLS, FILE, MODES, TEXT, opened_at, server_of, settings, text_of

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[OpenWorkspace]:
    with opened_at(tmp_path) as found:
        yield found


@pytest.mark.parametrize("mode", MODES)
async def test_waiting_plans_are_resources(opened: OpenWorkspace, mode: str) -> None:
    async with Client(server_of(opened), mode=mode) as client:
        assert await hunks_of(client) == []
        plan = await client.call_tool("prepare_file_append", dict(CALLS["prepare_file_append"]))
        uri = f"copydesk://hunk/{plan.structured_content['hunk_id']}"
        assert await hunks_of(client) == [uri]
        (contents,) = (await client.read_resource(uri)).contents
        assert isinstance(contents, t.TextResourceContents)
        assert contents.text.split("```diff")[1] == text_of(plan).split("```diff")[1]
        templates = (await client.list_resource_templates()).resource_templates
        assert [template.uri_template for template in templates] == [
            "copydesk://hunk/{hunk_id}",
            "copydesk://manual/{toolset}/{topic}",
        ]


async def hunks_of(client: Client) -> list[str]:
    """The addresses of the plans among the resources."""
    found = (await client.list_resources(cache_mode="bypass")).resources
    return [str(one.uri) for one in found if str(one.uri).startswith("copydesk://hunk/")]


@pytest.mark.parametrize("mode", MODES)
async def test_manuals_are_resources(opened: OpenWorkspace, mode: str) -> None:
    """Each page is listed; the parts of a page are there by their names."""
    async with Client(server_of(opened, toolsets=("ws_mod", "batch")), mode=mode) as client:
        listed = [str(one.uri) for one in (await client.list_resources()).resources]
        assert listed == [
            f"copydesk://manual/{toolset}/{topic}"
            for toolset in ("ws_mod", "batch")
            for topic in manuals.topics(toolset)
        ]
        parts = ("ws_mod/STALE_READ", "ws_mod/read_file", "batch/BatchEdit", "ws_mod/")
        for uri in (*listed, *(f"copydesk://manual/{part}" for part in parts)):
            (contents,) = (await client.read_resource(uri)).contents
            assert isinstance(contents, t.TextResourceContents)
            _, _, _, toolset, topic = uri.split("/")
            assert contents.text == manuals.part(toolset, topic, "en")
        for wrong in ("ws_mod/no", "no/index", "ws_mod/..%2f..%2fen", ""):
            with pytest.raises(MCPError) as caught:
                await client.read_resource(f"copydesk://manual/{wrong}")
            assert caught.value.error.code == t.INVALID_PARAMS
        ref = t.ResourceTemplateReference(uri="copydesk://manual/{toolset}/{topic}")
        found = await client.complete(
            ref, {"name": "topic", "value": "STALE"}, context_arguments={"toolset": "ws_mod"}
        )
        assert found.completion.values == ["STALE_READ"]
        found = await client.complete(ref, {"name": "toolset", "value": ""})
        assert found.completion.values == ["ws_mod", "batch"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("uri", ["copydesk://hunk/00000000", "copydesk://hunk/x", "file:///etc"])
async def test_a_resource_that_is_not_there(opened: OpenWorkspace, mode: str, uri: str) -> None:
    async with Client(server_of(opened), mode=mode) as client:
        with pytest.raises(MCPError) as caught:
            await client.read_resource(uri)
    assert caught.value.error.code == t.INVALID_PARAMS


async def test_modern_clients_hear_of_changes(opened: OpenWorkspace) -> None:
    async with Client(server_of(opened)) as client:
        with anyio.fail_after(60):
            plan = await client.call_tool("prepare_file_append", dict(CALLS["prepare_file_append"]))
            hunk = plan.structured_content["hunk_id"]
            uri = f"copydesk://hunk/{hunk}"
            async with client.listen(
                resources_list_changed=True, resource_subscriptions=[uri]
            ) as events:
                again = {**CALLS["prepare_file_append"], "content": "!", "existing_hunk_id": hunk}
                await client.call_tool("prepare_file_append", again)
                while type(await anext(events)).__name__ != "ResourceUpdated":
                    pass
                await client.call_tool("apply_file_modification", {"hunk_id": hunk})
                while type(await anext(events)).__name__ != "ResourcesListChanged":
                    pass


@pytest.mark.slow
async def test_what_waits_is_known_before_the_first_call(
    opened: OpenWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a plan made anew while it is read for the first time would be no news."""
    read, never, known = Documents._waiting, threading.Event(), list[int]()

    def slow(hunks: Documents) -> dict[str, object]:
        never.wait(0.3)
        found = read(hunks)
        known.append(len(found))
        return found

    monkeypatch.setattr(Documents, "_waiting", slow)
    async with Client(server_of(opened)) as client:
        assert known == [0]
        await client.call_tool("prepare_file_append", dict(CALLS["prepare_file_append"]))


async def test_handshake_clients_hear_of_changes(opened: OpenWorkspace) -> None:
    send, receive = anyio.create_memory_object_stream[str](100)

    async def heard(message: Any) -> None:
        send.send_nowait(getattr(message, "method", ""))

    async with Client(server_of(opened), mode="legacy", message_handler=heard) as client:
        assert client.server_capabilities.resources == t.ResourcesCapability(
            subscribe=True, list_changed=True
        )
        with anyio.fail_after(60):
            plan = await client.call_tool("prepare_file_append", dict(CALLS["prepare_file_append"]))
            assert await receive.receive() == "notifications/resources/list_changed"
            hunk = plan.structured_content["hunk_id"]
            await client.subscribe_resource(f"copydesk://hunk/{hunk}")
            again = {**CALLS["prepare_file_append"], "content": "!", "existing_hunk_id": hunk}
            await client.call_tool("prepare_file_append", again)
            assert await receive.receive() == "notifications/resources/updated"
            await client.unsubscribe_resource(f"copydesk://hunk/{hunk}")
            await client.call_tool("apply_file_modification", {"hunk_id": hunk})
            assert await receive.receive() == "notifications/resources/list_changed"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_decision_in_another_process_is_heard(tmp_path: Path, mode: str) -> None:
    """A person who decides elsewhere: the plan's resource is told to have changed."""
    send, receive = anyio.create_memory_object_stream[str](100)

    async def heard(message: Any) -> None:
        send.send_nowait(getattr(message, "method", ""))

    members = {"local": MemberConfig(approval="human")}
    (tmp_path / FILE).write_text(TEXT)
    config = settings(members=members)
    with (
        open_workspace(str(tmp_path), config) as here,
        open_workspace(str(tmp_path), config) as elsewhere,
    ):
        async with Client(server_of(here), mode=mode, message_handler=heard) as client:
            arguments = dict(CALLS["prepare_file_append"])
            plan = await client.call_tool("prepare_file_append", arguments)
            hunk = plan.structured_content["hunk_id"]
            uri = f"copydesk://hunk/{hunk}"
            review, eve = elsewhere.desk.review, elsewhere.member("eve")
            shown = review.show(eve, hunk)

            async def changed() -> None:
                if mode == "legacy":
                    while await receive.receive() != "notifications/resources/updated":
                        pass
                    return
                while type(await anext(events)).__name__ != "ResourceUpdated":
                    pass

            with anyio.fail_after(60):
                async with AsyncExitStack() as held:
                    if mode == "legacy":
                        await client.subscribe_resource(uri)
                    else:
                        events = await held.enter_async_context(
                            client.listen(resource_subscriptions=[uri])
                        )
                    review.approve(eve, hunk, shown.before, shown.after)
                    await changed()
            (contents,) = (await client.read_resource(uri, cache_mode="bypass")).contents
            assert isinstance(contents, t.TextResourceContents)
            assert "verdict: approved" in contents.text
            done = await client.call_tool("apply_file_modification", {"hunk_id": hunk})
            assert done.structured_content["status"] == "ok"


@pytest.mark.parametrize("page", [None, "http://127.0.0.1:1"])
@pytest.mark.parametrize("mode", MODES)
async def test_a_bell_is_rung_and_decides_nothing(
    tmp_path: Path, mode: str, page: str | None
) -> None:
    """The client's user is told once, where the client can; every answer is the same without."""
    asked: list[t.ElicitRequestParams] = []
    rung = anyio.Event()

    async def user(context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
        asked.append(params)
        rung.set()
        return t.ElicitResult(action="accept", content={"decision": "approve"})

    (tmp_path / FILE).write_text(TEXT)
    config = settings(members={"local": MemberConfig(approval="human")}, elicitation="tell")
    with open_workspace(str(tmp_path), config, shared=False) as here:
        here.page = page
        async with Client(server_of(here), mode=mode, elicitation_callback=user) as client:
            plan = await client.call_tool("prepare_file_append", dict(CALLS["prepare_file_append"]))
            hunk = plan.structured_content["hunk_id"]
            for _ in range(2):
                answer = await client.call_tool("apply_file_modification", {"hunk_id": hunk})
                assert answer.structured_content["status"] == "pending"
                assert not answer.is_error
            if mode == "legacy":
                with anyio.fail_after(60):
                    await rung.wait()
            await client.list_tools()
            again = await client.call_tool("apply_file_modification", {"hunk_id": hunk})
            assert again.structured_content["status"] == "pending"
        assert (tmp_path / FILE).read_text() == TEXT
    assert len(asked) == (mode == "legacy")
    for params in asked:
        assert getattr(params, "url", None) == (page and f"{page}/hunk/{hunk}")


@pytest.mark.parametrize(
    ("answer", "verdict", "reason"),
    [
        ({"decision": "approve"}, "approved", ""),
        ({"decision": "approve", "drift": True}, None, ""),
        ({"decision": "reject", "reason": " too early "}, "rejected", "too early"),
        ({"decision": "reject"}, "rejected", "without a reason"),
        ({"decision": "perhaps"}, None, ""),
        ({"decision": 1}, None, ""),
        ({}, None, ""),
        (None, None, ""),
    ],
)
async def test_the_clients_user_decides_in_a_form(
    tmp_path: Path, answer: dict[str, Any] | None, verdict: str | None, reason: str
) -> None:
    """The form shows the diff; the answer is for these bytes, and reaches the agent's next call."""
    answered = anyio.Event()
    shown: list[str] = []

    async def user(context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
        shown.append(params.message)
        answered.set()
        if answer is None:
            return t.ElicitResult(action="decline")
        if answer.get("drift"):
            (tmp_path / FILE).write_text("other\n" + TEXT)
        return t.ElicitResult(action="accept", content=answer)

    (tmp_path / FILE).write_text(TEXT)
    config = settings(members={"local": MemberConfig(approval="human")})
    with open_workspace(str(tmp_path), config, shared=False) as here:
        review, eve = here.desk.review, here.member("eve")
        async with Client(server_of(here), mode="legacy", elicitation_callback=user) as client:
            plan = await client.call_tool("prepare_file_append", dict(CALLS["prepare_file_append"]))
            hunk = plan.structured_content["hunk_id"]
            asked = await client.call_tool("apply_file_modification", {"hunk_id": hunk})
            assert asked.structured_content["status"] == "pending"
            with anyio.fail_after(60):
                await answered.wait()
                await client.list_tools()
                while verdict and not [w for w in review.pending(eve) if w.decision]:
                    await anyio.sleep(0.01)
            assert [line for line in shown[0].splitlines() if line.startswith("+more `code`")]
            (waiting,) = review.pending(eve)
            decision = waiting.decision
            assert (decision and decision.verdict) == verdict
            if decision is not None:
                assert (decision.by, decision.reason) == ("user of local", reason)
            done = await client.call_tool("apply_file_modification", {"hunk_id": hunk})
            told = done.structured_content
            assert (
                told["status"] == {None: "pending", "approved": "ok", "rejected": "error"}[verdict]
            )
            assert len(shown) == 1


async def test_the_user_is_asked_about_a_call_that_became_a_plan(tmp_path: Path) -> None:
    config = settings(members={"local": MemberConfig(approval="human")})
    answered = anyio.Event()

    async def user(context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
        assert "+new" in params.message
        answered.set()
        return t.ElicitResult(action="accept", content={"decision": "approve"})

    with open_workspace(str(tmp_path), config, shared=False) as here:
        review, eve, given = (
            here.desk.review,
            here.member("eve"),
            {"path": FILE, "content": "new\n"},
        )
        async with Client(server_of(here), mode="legacy", elicitation_callback=user) as client:
            asked = await client.call_tool("write_file", given)
            assert asked.is_error
            with anyio.fail_after(60):
                await answered.wait()
                while not [one for one in review.pending(eve) if one.decision]:
                    await anyio.sleep(0.01)
            done = await client.call_tool("write_file", given)
            assert not done.is_error
    assert (tmp_path / FILE).read_text() == "new\n"


async def test_a_form_shows_what_could_hide_by_its_number(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(TEXT)
    config = settings(members={"local": MemberConfig(approval="human")})
    with open_workspace(str(tmp_path), config, shared=False) as here:
        given = {"path": FILE, "content": "a\u200bb\u202ec\x1b[2Jd"}
        plan = here.call("local", "prepare_file_append", given)
        asked = question(here, "local", str(plan.fields["hunk_id"]), "en")
    assert asked is not None
    assert "+a\\u200bb\\u202ec\\x1b[2Jd" in asked[1].message


async def test_a_plan_that_a_form_cannot_show_whole_is_only_told_of(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(TEXT)
    config = settings(members={"local": MemberConfig(approval="human")})
    rung = anyio.Event()
    schemas: list[Any] = []

    async def user(context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
        assert isinstance(params, t.ElicitRequestFormParams)
        schemas.append(params.requested_schema["properties"])
        rung.set()
        return t.ElicitResult(action="accept", content={"decision": "approve"})

    with open_workspace(str(tmp_path), config, shared=False) as here:
        async with Client(server_of(here), mode="legacy", elicitation_callback=user) as client:
            long = {"path": FILE, "content": "x" * 9_000}
            plan = await client.call_tool("prepare_file_append", long)
            hunk = plan.structured_content["hunk_id"]
            await client.call_tool("apply_file_modification", {"hunk_id": hunk})
            with anyio.fail_after(60):
                await rung.wait()
            await client.list_tools()
            again = await client.call_tool("apply_file_modification", {"hunk_id": hunk})
            assert again.structured_content["status"] == "pending"
    assert schemas == [{}]


async def test_a_connection_is_forgotten_when_it_closes(opened: OpenWorkspace) -> None:
    server = server_of(opened)
    entry = server.get_notification_handler("notifications/initialized")
    assert entry is not None
    known = entry.handler.__self__._connections
    async with Client(server, mode="legacy") as client:
        await client.list_tools()
        assert len(known) == 1
    assert known == {}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("lang", ["en", "zh"])
async def test_manuals_are_prompts(opened: OpenWorkspace, mode: str, lang: Any) -> None:
    async with Client(server_of(opened, lang=lang), mode=mode) as client:
        prompts = (await client.list_prompts()).prompts
        assert [prompt.name for prompt in prompts] == [
            name for name in TOOLSETS if name in manuals.toolsets()
        ]
        if mode != "2026-07-28":  # who names the version does not ask for them
            assert client.instructions == manuals.instructions(TOOLSETS, lang)
        for prompt in prompts:
            topics = manuals.topics(prompt.name)
            for topic in (None, *topics):
                given = {} if topic is None else {"topic": topic}
                (message,) = (await client.get_prompt(prompt.name, given)).messages
                assert isinstance(message.content, t.TextContent)
                assert message.content.text == manuals.read(prompt.name, topic or topics[0], lang)
            ref = t.PromptReference(name=prompt.name)
            found = await client.complete(ref, {"name": "topic", "value": topics[-1][:3]})
            assert topics[-1] in found.completion.values


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "topic"), [("ws_mod", "nothing"), ("x", ""), ("ws_mod", "../x")])
async def test_a_prompt_that_is_not_there(
    opened: OpenWorkspace, mode: str, name: str, topic: str
) -> None:
    async with Client(server_of(opened), mode=mode) as client:
        with pytest.raises(MCPError) as caught:
            await client.get_prompt(name, {"topic": topic})
    assert caught.value.error.code == t.INVALID_PARAMS
