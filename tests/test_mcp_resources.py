"""The waiting plans as resources, with their news, and the manuals as prompts."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import mcp_types as t
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from copydesk.app import reference
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


def asking(root: Path, **more: Any) -> OpenWorkspace:
    """A workspace whose edits a person approves."""
    (root / FILE).write_text(TEXT)
    config = settings(members={"local": MemberConfig(approval="human")}, **more)
    return open_workspace(str(root), config, shared=False)


async def planned(client: Client, **changes: str) -> str:
    """The id of a plan."""
    given = {**CALLS["prepare_file_append"], **changes}
    return str((await client.call_tool("prepare_file_append", given)).structured_content["hunk_id"])


async def applied(client: Client, hunk: str) -> str:
    """How an apply is answered; what waits for a person is no error."""
    answer = await client.call_tool("apply_file_modification", {"hunk_id": hunk})
    status = str(answer.structured_content["status"])
    assert answer.is_error == (status == "error")
    return status


async def refused(asked: Awaitable[object]) -> None:
    with pytest.raises(MCPError) as caught:
        await asked
    assert caught.value.error.code == t.INVALID_PARAMS


async def text_at(client: Client, uri: str) -> str:
    """The text of a resource as it is now."""
    (contents,) = (await client.read_resource(uri, cache_mode="bypass")).contents
    assert isinstance(contents, t.TextResourceContents)
    return contents.text


@pytest.mark.parametrize("mode", MODES)
async def test_waiting_plans_are_resources(opened: OpenWorkspace, mode: str) -> None:
    async with Client(server_of(opened), mode=mode) as client:
        assert await hunks_of(client) == []
        plan = await client.call_tool("prepare_file_append", dict(CALLS["prepare_file_append"]))
        uri = f"copydesk://hunk/{plan.structured_content['hunk_id']}"
        assert await hunks_of(client) == [uri]
        assert (await text_at(client, uri)).split("```diff")[1] == text_of(plan).split("```diff")[1]
        templates = (await client.list_resource_templates()).resource_templates
        places = "hunk/{hunk_id}", "manual/{toolset}/{topic}"
        assert [one.uri_template for one in templates] == [f"copydesk://{at}" for at in places]
        for wrong in ("copydesk://hunk/00000000", "copydesk://hunk/x", "file:///etc"):
            await refused(client.read_resource(wrong))


async def hunks_of(client: Client) -> list[str]:
    """The addresses of the plans among the resources."""
    found = (await client.list_resources(cache_mode="bypass")).resources
    return [str(one.uri) for one in found if str(one.uri).startswith("copydesk://hunk/")]


@pytest.mark.parametrize("mode", MODES)
async def test_manuals_are_resources(opened: OpenWorkspace, mode: str) -> None:
    """Each page is listed; the parts of a page are there by their names."""
    own, at = ("ws_mod", "batch"), "copydesk://manual/"
    async with Client(server_of(opened, toolsets=own), mode=mode) as client:
        listed = [str(one.uri) for one in (await client.list_resources()).resources]
        assert listed == [f"{at}{one}/{topic}" for one in own for topic in reference.topics(one)]
        parts = ("ws_mod/STALE_READ", "ws_mod/read_file", "batch/BatchEdit", "ws_mod/")
        for uri in (*listed, *(f"{at}{part}" for part in parts)):
            _, _, _, toolset, topic = uri.split("/")
            assert await text_at(client, uri) == reference.part(toolset, topic, "en")
        for wrong in ("ws_mod/no", "no/index", "ws_mod/..%2f..%2fen", ""):
            await refused(client.read_resource(f"{at}{wrong}"))
        ref, context = (
            t.ResourceTemplateReference(uri=f"{at}{{toolset}}/{{topic}}"),
            {"toolset": "ws_mod"},
        )
        for asked, known, values in (
            ({"name": "topic", "value": "STALE"}, context, ["STALE_READ"]),
            ({"name": "toolset", "value": ""}, None, ["ws_mod", "batch"]),
        ):
            found = await client.complete(ref, asked, context_arguments=known)
            assert found.completion.values == values


async def test_modern_clients_hear_of_changes(opened: OpenWorkspace) -> None:
    async with Client(server_of(opened)) as client:
        with anyio.fail_after(60):
            hunk = await planned(client)
            uris = [f"copydesk://hunk/{hunk}"]
            told = client.listen(resources_list_changed=True, resource_subscriptions=uris)
            async with told as events:
                await planned(client, content="!", existing_hunk_id=hunk)
                while type(await anext(events)).__name__ != "ResourceUpdated":
                    pass
                await applied(client, hunk)
                while type(await anext(events)).__name__ != "ResourcesListChanged":
                    pass


@pytest.mark.slow
async def test_what_waits_is_known(opened: OpenWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
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
        await planned(client)


@pytest.mark.slow
async def test_handshake_clients_hear_of_changes(opened: OpenWorkspace) -> None:
    send, receive = anyio.create_memory_object_stream[str](100)

    async def heard(message: Any) -> None:
        send.send_nowait(getattr(message, "method", ""))

    async with Client(server_of(opened), mode="legacy", message_handler=heard) as client:
        own = t.ResourcesCapability(subscribe=True, list_changed=True)
        assert client.server_capabilities.resources == own
        with anyio.fail_after(60):
            hunk = await planned(client)
            assert await receive.receive() == "notifications/resources/list_changed"
            await client.subscribe_resource(f"copydesk://hunk/{hunk}")
            await planned(client, content="!", existing_hunk_id=hunk)
            assert await receive.receive() == "notifications/resources/updated"
            await client.unsubscribe_resource(f"copydesk://hunk/{hunk}")
            await applied(client, hunk)
            assert await receive.receive() == "notifications/resources/list_changed"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_decision_in_another_process_is_heard(tmp_path: Path, mode: str) -> None:
    """A person who decides elsewhere: the plan's resource is told to have changed."""
    send, receive = anyio.create_memory_object_stream[str](100)

    async def heard(message: Any) -> None:
        send.send_nowait(getattr(message, "method", ""))

    (tmp_path / FILE).write_text(TEXT)
    config = settings(members={"local": MemberConfig(approval="human")})
    with (
        open_workspace(str(tmp_path), config) as here,
        open_workspace(str(tmp_path), config) as elsewhere,
    ):
        async with Client(server_of(here), mode=mode, message_handler=heard) as client:
            hunk = await planned(client)
            uri = f"copydesk://hunk/{hunk}"
            review, eve = elsewhere.desk.review, elsewhere.member("eve")
            shown = review.show(eve, hunk)
            with anyio.fail_after(60):
                async with AsyncExitStack() as held:
                    if mode == "legacy":
                        await client.subscribe_resource(uri)
                    else:
                        told = client.listen(resource_subscriptions=[uri])
                        events = await held.enter_async_context(told)
                    review.approve(eve, hunk, shown.before, shown.after)
                    if mode == "legacy":
                        while await receive.receive() != "notifications/resources/updated":
                            pass
                    else:
                        while type(await anext(events)).__name__ != "ResourceUpdated":
                            pass
            assert "verdict: approved" in await text_at(client, uri)
            assert await applied(client, hunk) == "ok"


@pytest.mark.parametrize("page", [None, "http://127.0.0.1:1"])
@pytest.mark.parametrize("mode", MODES)
async def test_a_bell_that_decides_nothing(tmp_path: Path, mode: str, page: str | None) -> None:
    """The client's user is told once, where the client can; every answer is the same without."""
    asked: list[t.ElicitRequestParams] = []
    rung = anyio.Event()

    async def user(context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
        asked.append(params)
        rung.set()
        return t.ElicitResult(action="accept", content={"decision": "approve"})

    with asking(tmp_path, elicitation="tell") as here:
        here.page = page
        async with Client(server_of(here), mode=mode, elicitation_callback=user) as client:
            hunk = await planned(client)
            for _ in range(2):
                assert await applied(client, hunk) == "pending"
            if mode == "legacy":
                with anyio.fail_after(60):
                    await rung.wait()
            await client.list_tools()
            assert await applied(client, hunk) == "pending"
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

    with asking(tmp_path) as here:
        review, eve = here.desk.review, here.member("eve")
        async with Client(server_of(here), mode="legacy", elicitation_callback=user) as client:
            hunk = await planned(client)
            assert await applied(client, hunk) == "pending"
            with anyio.fail_after(60):
                await answered.wait()
                await client.list_tools()
                while verdict and not [w for w in review.pending(eve) if w.decision]:
                    await anyio.sleep(0.01)
            assert [line for line in shown[0].splitlines() if line.startswith("+more `code`")]
            decision = review.pending(eve)[0].decision
            assert (decision and decision.verdict) == verdict
            if decision is not None:
                assert (decision.by, decision.reason) == ("user of local", reason)
            ends = {None: "pending", "approved": "ok", "rejected": "error"}
            assert await applied(client, hunk) == ends[verdict]
            assert len(shown) == 1


async def test_the_user_is_asked_about_a_call_that_became_a_plan(tmp_path: Path) -> None:
    answered = anyio.Event()

    async def user(context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
        assert "+new" in params.message
        answered.set()
        return t.ElicitResult(action="accept", content={"decision": "approve"})

    with asking(tmp_path) as here:
        review, eve, given = here.desk.review, here.member("eve"), {"path": "n", "content": "new\n"}
        async with Client(server_of(here), mode="legacy", elicitation_callback=user) as client:
            assert (await client.call_tool("write_file", given)).is_error
            with anyio.fail_after(60):
                await answered.wait()
                while not [one for one in review.pending(eve) if one.decision]:
                    await anyio.sleep(0.01)
            assert not (await client.call_tool("write_file", given)).is_error
    assert (tmp_path / "n").read_text() == "new\n"


async def test_a_form_shows_what_could_hide_by_its_number(tmp_path: Path) -> None:
    with asking(tmp_path) as here:
        given = {"path": FILE, "content": "a\u200bb\u202ec\x1b[2Jd"}
        plan = here.call("local", "prepare_file_append", given)
        asked = question(here, "local", str(plan.fields["hunk_id"]), "en")
    assert asked is not None
    assert "+a\\u200bb\\u202ec\\x1b[2Jd" in asked[1].message


async def test_a_plan_that_a_form_cannot_show_whole_is_only_told_of(tmp_path: Path) -> None:
    rung = anyio.Event()
    schemas: list[Any] = []

    async def user(context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
        assert isinstance(params, t.ElicitRequestFormParams)
        schemas.append(params.requested_schema["properties"])
        rung.set()
        return t.ElicitResult(action="accept", content={"decision": "approve"})

    with asking(tmp_path) as here:
        async with Client(server_of(here), mode="legacy", elicitation_callback=user) as client:
            hunk = await planned(client, content="x" * 9_000)
            await applied(client, hunk)
            with anyio.fail_after(60):
                await rung.wait()
            await client.list_tools()
            assert await applied(client, hunk) == "pending"
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
        names = [prompt.name for prompt in (await client.list_prompts()).prompts]
        assert names == [name for name in TOOLSETS if name in reference.MANUALS]
        if mode != "2026-07-28":  # who names the version does not ask for them
            assert client.instructions == reference.instructions(TOOLSETS, lang)
        for name in names:
            topics = reference.topics(name)
            for topic in (None, *topics):
                given = {} if topic is None else {"topic": topic}
                (message,) = (await client.get_prompt(name, given)).messages
                assert isinstance(message.content, t.TextContent)
                assert message.content.text == reference.read(name, topic or topics[0], lang)
            asked = {"name": "topic", "value": topics[-1][:3]}
            found = await client.complete(t.PromptReference(name=name), asked)
            assert topics[-1] in found.completion.values
        for name, topic in (("ws_mod", "nothing"), ("x", ""), ("ws_mod", "../x")):
            await refused(client.get_prompt(name, {"topic": topic}))
