"""What people do on the review page, form by form: what is shown is what is decided on."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from copydesk.app.config import MemberConfig
from copydesk.app.web.pages import ACTIONS, ListCache, RequestContext, Reviewer, tool_words
from copydesk.app.web.security import Session
from copydesk.app.workspace import open_workspace
from copydesk.errors import HunkNotFound
from support.cost import spread
from support.mcp_calls import settings
from support.redis_servers import running
from support.review_page import AGENT, Elements, Room, desk_at, fields_of, prepared, room_at


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    with room_at(tmp_path) as found:
        yield found


def applied(room: Room, hunk: str) -> object:
    """What the agent is answered when it applies the plan."""
    fields = room.desk.call(AGENT, "apply_file_modification", {"hunk_id": hunk}).fields
    return fields.get("error", fields["status"])


@pytest.mark.slow
def test_an_approval_is_for_the_bytes_that_were_shown(room: Room) -> None:
    reader = room.reader()
    hunk = prepared(room.desk, path="a.txt", content="three\n")
    form = fields_of(reader.page(f"/hunk/{hunk}"), f"/hunk/{hunk}/approve")
    (room.root / "a.txt").write_text("zero\none\ntwo\n")
    assert reader.post(f"/hunk/{hunk}/approve", form).status_code == 303
    assert applied(room, hunk) == "APPROVAL_REQUIRED"
    anew = reader.page(f"/hunk/{hunk}")
    assert "Nothing was decided" in anew
    assert "zero" in anew
    reader.send(f"/hunk/{hunk}", f"/hunk/{hunk}/approve")
    (room.root / "a.txt").write_text("one\ntwo\n")
    assert applied(room, hunk) == "APPROVAL_REQUIRED", "it was approved for other bytes"
    reader.send(f"/hunk/{hunk}", f"/hunk/{hunk}/approve")
    assert applied(room, hunk) == "ok"
    assert (room.root / "a.txt").read_text() == "one\ntwo\nthree\n"


@pytest.mark.slow
@pytest.mark.parametrize("deed", ["approve", "apply", "amend"])
def test_a_plan_prepared_anew_is_not_the_one_that_was_shown(room: Room, deed: str) -> None:
    reader = room.reader()
    hunk = prepared(room.desk, path="a.txt", content="three\n")
    form = fields_of(reader.page(f"/hunk/{hunk}"), f"/hunk/{hunk}/{deed}")
    prepared(room.desk, path="a.txt", content="evil\n", existing_hunk_id=hunk)
    reader.post(f"/hunk/{hunk}/{deed}", {**form, "content": "mine"})
    assert applied(room, hunk) == "APPROVAL_REQUIRED"
    assert "evil" in reader.page(f"/hunk/{hunk}")
    assert (room.root / "a.txt").read_text() == "one\ntwo\n"


@pytest.mark.slow
@pytest.mark.parametrize("first", ["approve", "reject"])
@pytest.mark.parametrize("second", ["approve", "reject"])
def test_the_second_one_is_told_who_was_first(room: Room, first: str, second: str) -> None:
    ada, bob = room.reader("Ada"), room.reader("Bob")
    hunk = prepared(room.desk, path="a.txt", content="three\n")
    forms = [
        fields_of(ada.page(f"/hunk/{hunk}"), f"/hunk/{hunk}/{deed}") for deed in (first, second)
    ]
    forms[1]["csrf"] = fields_of(bob.page("/"), "/sign-out")["csrf"]
    ada.post(f"/hunk/{hunk}/{first}", {**forms[0], "reason": "of Ada"})
    bob.post(f"/hunk/{hunk}/{second}", {**forms[1], "reason": "of Bob"})
    assert "Ada was first" in bob.page(f"/hunk/{hunk}")
    assert applied(room, hunk) == ("ok" if first == "approve" else "HUNK_REJECTED")


@pytest.mark.slow
def test_only_who_decided_takes_it_back(room: Room) -> None:
    ada, bob = room.reader("Ada"), room.reader("Bob")
    hunk = prepared(room.desk, path="a.txt", content="three\n")
    ada.send(f"/hunk/{hunk}", f"/hunk/{hunk}/approve")
    assert "Withdraw approval" not in bob.page(f"/hunk/{hunk}")
    csrf = fields_of(bob.page("/"), "/sign-out")
    bob.post(f"/hunk/{hunk}/withdraw", csrf)
    ada.send(f"/hunk/{hunk}", f"/hunk/{hunk}/withdraw")
    assert applied(room, hunk) == "APPROVAL_REQUIRED"


@pytest.mark.slow
def test_a_plan_of_several_places_is_split(room: Room) -> None:
    (room.root / "b.txt").write_text("".join(f"{n}\n" for n in range(9)))
    edits = [
        {"old_string": "1\n", "new_string": "one\n"},
        {"old_string": "7\n", "new_string": "seven\n"},
    ]
    hunk = prepared(room.desk, "prepare_batch_edit", path="b.txt", edits=edits)
    reader = room.reader()
    assert f"/hunk/{hunk}/replan" in reader.page(f"/hunk/{hunk}"), "or all of it is edited"
    page = reader.send(f"/hunk/{hunk}", f"/hunk/{hunk}/split")
    assert "2 plans now" in page
    assert page.count('<li id="hunk-') == 2


@pytest.mark.slow
def test_a_refused_transaction_writes_nothing_and_says_why(room: Room) -> None:
    hunks = [prepared(room.desk, path=name, content="new\n") for name in ("x.txt", "y.txt")]
    reader = room.reader()
    address = "/together?" + "&".join(f"hunk={hunk}" for hunk in hunks)
    seen = [f"{hunk}..{'0' * 64}" for hunk in hunks]
    form = fields_of(reader.page(address), "/apply")
    answer = reader.post("/apply", {"csrf": form["csrf"], "seen": seen})
    assert "Nothing was written" in reader.page(answer.headers["location"])
    assert not (room.root / "x.txt").exists()


@pytest.mark.slow
def test_the_list_is_filtered(room: Room) -> None:
    (room.root / "src").mkdir()
    (room.root / "src/c.txt").write_text("c\n")
    prepared(room.desk, "prepare_file_range_edit", path="src/c.txt", range="1", content="d")
    first = prepared(room.desk, path="src/b.txt", content="x")
    prepared(room.desk, path="a.txt", content="x", by="fixer")
    (room.root / "src/c.txt").write_text("b\nc\n")
    reader = room.reader()
    reader.send(f"/hunk/{first}", f"/hunk/{first}/approve")
    queries = {
        "": 2,
        "path=SRC": 1,
        "member=fixer": 1,
        "state=drifted": 1,
        "state=approved": 1,
        "state=open": 2,
        "tool=prepare_file_append": 1,
        "path=/src": 1,
        "path=/src/c.txt": 1,
        "path=/rc": 0,
        "path=/src/c": 0,
        "path=nothing": 0,
    }
    found = {query: reader.page(f"/?{query}").count('<li id="hunk-') for query in queries}
    assert found == queries


@pytest.mark.slow
def test_more_of_the_file_is_shown_on_demand(room: Room) -> None:
    (room.root / "b.txt").write_text("".join(f"line {n}\n" for n in range(100)))
    hunk = prepared(room.desk, "prepare_file_range_edit", path="b.txt", range="50", content="x")
    reader = room.reader()
    for context, rows in ((3, 6), (10, 20), (1_000_000, 99), ("nonsense", 6)):
        page = reader.page(f"/hunk/{hunk}?context={context}")
        assert page.count('<tr class="kept"') == rows, context


@pytest.mark.slow
def test_a_very_large_change_is_decided_on_when_all_of_it_was_shown(room: Room) -> None:
    hunk = prepared(room.desk, path="big.txt", content="line\n" * 2_500)
    reader = room.reader()
    assert f"/hunk/{hunk}/approve" not in reader.page(f"/hunk/{hunk}")
    assert f"/hunk/{hunk}/approve" in reader.page(f"/hunk/{hunk}?all=1")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "is_cut"),
    [
        ("x" * 700 + "; run(it); " + "x" * 700, True),
        ("x" * 1_000, False),
        ("y" * 2_000 + " one", False),  # only its end is another
        ("y" * 2_000 + " one" + "z" * 1_500, True),
    ],
)
def test_of_a_long_line_it_is_said_what_is_unseen(room: Room, content: str, is_cut: bool) -> None:
    (room.root / "long.txt").write_text("y" * 2_000 + " two\n")
    given = {"path": "long.txt", "range": "1", "content": content}
    if content.startswith("x"):
        given["range"] = "2~"
    hunk = prepared(room.desk, "prepare_file_range_edit", **given)
    reader = room.reader()
    for address in (f"/hunk/{hunk}?", f"/hunk/{hunk}?view=unified", f"/together?hunk={hunk}"):
        assert ("Very long lines are shown in part" in reader.page(address)) is is_cut, address
    whole = reader.page(f"/hunk/{hunk}?all=1")
    assert "Very long lines are shown in part" not in whole
    assert content in re.sub(r"<[^>]*>", "", whole)


@pytest.mark.slow
def test_all_of_a_large_plan_comes_in_parts(room: Room) -> None:
    """Each part has its rows alone; who has opened every one of them can decide, in any order."""
    content = "".join(f"new {number}\n" for number in range(11_000))
    hunk = prepared(room.desk, path="large.txt", content=content)
    shown = room.desk.desk.review.show(room.desk.member("ann"), hunk).seen
    reader = room.reader()
    apply = f"/hunk/{hunk}/apply"

    def rows(address: str) -> list[int]:
        page = reader.page(address)
        assert (f'action="{apply}"' in page) is (address == last), address
        assert len(page) < 3_000_000
        return [int(n) for n in re.findall(r"</span>new (\d+)<", page)]

    last = f"/hunk/{hunk}?view=unified&all=1"
    assert rows(f"/hunk/{hunk}") == [*range(2_000)]
    page = reader.page(f"/hunk/{hunk}?all=3")
    assert "Show rows 1–5,000 of 11,000" in page
    assert "Show rows 5,001–10,000 of 11,000" in page
    assert rows(f"/hunk/{hunk}?all=3") == [*range(10_000, 11_000)]
    assert rows(f"/hunk/{hunk}?all=2") == [*range(5_000, 10_000)]
    fields = {"csrf": fields_of(page, "/sign-out")["csrf"], "before": shown[1], "after": shown[2]}
    reader.post(apply, fields)
    assert not (room.root / "large.txt").exists(), "one part was not shown"
    assert 'action="/apply' not in reader.page(f"/together?hunk={hunk}")
    assert rows(last) == [*range(5_000)]
    assert 'action="/apply' in reader.page(f"/together?hunk={hunk}")
    reader.send(last, apply)
    assert (room.root / "large.txt").read_text() == content
    edit = "/edit/1"
    last = ""
    assert rows(edit) == [*range(2_000)]
    assert rows(f"{edit}?all=9") == [*range(10_000, 11_000)]


@pytest.mark.slow
def test_an_address_of_nothing_is_a_page_for_who_is_signed_in(room: Room) -> None:
    reader = room.reader()
    for path in ("/nowhere", "/hunk/01234567", "/hunk/nonsense", "/edit/99"):
        answer = reader.get(path)
        assert (answer.status_code, "All pending" in answer.text) == (404, True), path
    assert "No such path" in reader.page("/history?path=../x")
    program = room.stranger().get("/.well-known/oauth-authorization-server")
    assert (program.status_code, program.text) == (404, "Not Found")


CHANGED = (
    ({"path": "big.txt", "content": "line\n" * 2_500}, "many lines"),
    ({"path": "long.txt", "content": "x" * 5_000_000}, "a line of five megabytes"),
    ({"path": "long.txt", "content": "x" * 1_100}, "a line that is a little too long"),
    ({"path": "long.txt", "content": "; ".join(f"w{i}" for i in range(900))}, "many words"),
)


@pytest.mark.slow
@pytest.mark.parametrize(("given", "what"), spread(CHANGED, of=2))
def test_nothing_is_approved_that_was_unseen(room: Room, given: dict[str, str], what: str) -> None:
    """Neither by the page nor by a form that somebody makes of it; all is shown on demand."""
    hunk = prepared(room.desk, **given)
    reader = room.reader()
    page = reader.page(f"/hunk/{hunk}")
    (sign,) = re.findall(r'data-sign="\d+\.([0-9a-f]*\.[0-9a-f]{64})[."]', page)
    before, after = sign.split(".")
    csrf = fields_of(page, "/sign-out")["csrf"]
    bound = {"csrf": csrf, "before": before, "after": after, "seen": f"{hunk}.{sign}"}
    for address in (f"/hunk/{hunk}/approve", f"/hunk/{hunk}/apply", "/apply"):
        assert f'action="{address}"' not in page
        assert f'action="{address}"' not in reader.page(f"/together?hunk={hunk}")
        assert reader.post(address, bound).status_code == 303
        assert "not all of this change was shown" in reader.page(f"/hunk/{hunk}"), what
        assert not (room.root / given["path"]).exists()
    assert room.desk.desk.review.pending(room.desk.member("fixer"))[0].decision is None
    stranger = room.reader("Eve")  # what Ada opens, Eve has not seen
    reader.page(f"/hunk/{hunk}?all=1")
    bound["csrf"] = fields_of(stranger.page("/"), "/sign-out")["csrf"]
    stranger.post(f"/hunk/{hunk}/approve", bound)
    assert room.desk.desk.review.pending(room.desk.member("fixer"))[0].decision is None
    reader.send(f"/hunk/{hunk}?all=1", f"/hunk/{hunk}/apply")
    assert (room.root / given["path"]).read_text().startswith(given["content"])


@pytest.mark.slow
def test_what_is_short_may_be_sent_by_who_has_not_opened_it(room: Room) -> None:
    """Its form says the digests of what the page shows; no page shows it otherwise."""
    (room.root / "long.txt").write_text("y" * 2_000 + " two\n")
    content = "y" * 2_000 + " one"  # of such a line the word that changes is shown
    given = {"path": "long.txt", "range": "1", "content": content}
    hunk = prepared(room.desk, "prepare_file_range_edit", **given)
    form = fields_of(room.reader().page(f"/hunk/{hunk}"), f"/hunk/{hunk}/apply")
    other = room.reader("Bob")
    form["csrf"] = fields_of(other.page("/"), "/sign-out")["csrf"]
    other.post(f"/hunk/{hunk}/apply", form)
    assert (room.root / "long.txt").read_text() == f"{content}\n"


def hrefs(page: str) -> list[str]:
    return [link["href"] or "" for name, link in Elements(page).found if name == "a"]


@pytest.mark.slow
def test_the_filter_of_the_list_is_kept_until_the_list_is_seen_again(room: Room) -> None:
    first, other, second = (
        prepared(room.desk, path=path, content="x") for path in ("src/a.py", "b.py", "src/c.py")
    )
    reader, query = room.reader(), "?path=src&member=writer"
    assert f"/hunk/{second}{query}" in hrefs(reader.page(f"/{query}"))
    page = reader.page(f"/hunk/{second}{query}")
    assert {f"/hunk/{first}{query}", f"/{query}"} <= set(hrefs(page))
    assert f"/hunk/{other}" not in page
    for action in ("approve", "reject", "apply"):
        assert html.escape(f"/hunk/{second}/{action}{query}") in page
    form = fields_of(page, html.escape(f"/hunk/{second}/approve{query}"))
    sent = reader.post(f"/hunk/{second}/approve{query}", form)
    assert sent.headers["location"] == f"/hunk/{first}{query}"
    page = reader.page(f"/hunk/{first}{query}")
    form = fields_of(page, html.escape(f"/hunk/{first}/apply{query}"))
    assert reader.post(f"/hunk/{first}/apply{query}", form).headers["location"] == f"/{query}"
    assert f"/{query}" in hrefs(reader.get(f"/hunk/{first}{query}").text), "it is gone"
    together = f"/together{query}&hunk={other}"
    page = reader.page(together)
    assert f"/{query}" in hrefs(page)
    form = fields_of(page, html.escape(f"/apply{query}"))
    assert reader.post(f"/apply{query}", form).headers["location"] == f"/{query}"


@pytest.mark.slow
def test_signing_in_leads_to_the_very_address_that_was_asked_for(room: Room) -> None:
    stranger = room.stranger()
    location = stranger.get("/?path=src&state=drifted").headers["location"]
    onward = fields_of(stranger.page(location), "/sign-in")["next"]
    assert onward == "/?path=src&state=drifted"
    sent = stranger.post("/sign-in", {"token": room.tokens[-1], "next": onward})
    assert sent.headers["location"] == onward


@pytest.mark.slow
def test_a_decided_plan_has_no_button_that_can_only_be_refused(room: Room) -> None:
    ada, bob = room.reader("Ada"), room.reader("Bob")
    hunk = prepared(room.desk, path="a.txt", content="three\n")
    assert "/amend" in ada.page(f"/hunk/{hunk}")
    ada.send(f"/hunk/{hunk}", f"/hunk/{hunk}/approve")
    for reader, own in ((ada, ["withdraw"]), (bob, [])):
        page = reader.page(f"/hunk/{hunk}")
        actions = re.findall(rf'action="/hunk/{hunk}/([a-z]+)"', page)
        assert actions == ["apply", *own, "comment"]


@pytest.mark.slow
def test_what_an_empty_file_gets_is_said(room: Room) -> None:
    (room.root / "empty.txt").write_text("")
    prepared(room.desk, "prepare_file_range_edit", path="empty.txt", range="1~", content="x")
    edits = [{"old_string": word, "new_string": word.upper()} for word in ("one", "two")]
    prepared(room.desk, "prepare_batch_edit", path="a.txt", edits=edits)
    text = Elements(room.reader().page("/")).text
    assert "makes 2 replacements" in text
    assert "lines 1–0" not in text


@pytest.mark.slow
def test_two_plans_of_one_file_have_each_its_landmark(room: Room) -> None:
    both = [prepared(room.desk, path="a.txt", content=text) for text in ("x", "y")]
    page = room.reader().page(f"/together?hunk={both[0]}&hunk={both[1]}")
    regions = [of["aria-label"] for _, of in Elements(page).found if of.get("role") == "region"]
    assert len(set(regions)) == len(regions) == 2


@pytest.mark.slow
def test_plans_are_grouped_by_member_and_task_and_then_by_file(room: Room) -> None:
    desk = room.desk

    def plan(path: str, task: str, by: str = AGENT) -> str:
        given = {"path": path, "content": "x", "why": f"because of {path}"}
        return str(desk.call(by, "prepare_file_append", given, task=task).fields["hunk_id"])

    wanted = [("b.py", "one"), ("a.py", "two"), ("a.py", "one"), ("b.py", "two"), ("b.py", "one")]
    b1, a2, a1, b2, b3 = [plan(*one) for one in wanted]
    other = plan("a.py", "one", "fixer")
    page = room.reader().page("/")
    assert re.findall(r'<li id="hunk-(\w+)"', page) == [other, a2, b2, a1, b1, b3]
    heads = re.findall(r"<h2>(.*?)</h2><span class=\"what\">(.*?)</span>", page)
    assert heads == [
        ("fixer · one", "1 plan in 1 file"),
        ("writer · two", "2 plans in 2 files"),
        ("writer · one", "3 plans in 2 files"),
    ]
    assert f"/together?hunk={a1}&hunk={b1}&hunk={b3}" in hrefs(page)
    assert "because of a.py" in page
    review = Elements(room.reader().page(f"/hunk/{a1}")).text
    assert "task: one" in review
    assert "4 of 6" in review
    assert "prepare_file_append" not in Elements(page).text + review


@pytest.mark.slow
def test_the_tree_of_files_counts_what_waits_below_each_folder(room: Room) -> None:
    for path in ("src/app/web/a.py", "src/app/web/a.py", "src/app/b.py", "top.md"):
        prepared(room.desk, path=path, content="x")
    reader = room.reader()
    (tree,) = re.findall(r'<nav id="tree".*?</nav>', reader.page("/?member=writer"), re.S)
    row = r'class="depth(\d)"><a href="([^"]*)".*?<span class="path">(.*?)<.*?>(\d+)<'
    rows = re.findall(row, tree)
    assert [" ".join((depth, name, count)) for depth, _, name, count in rows] == [
        *("0 src/app/ 3", "1 web/ 2", "2 a.py 2", "1 b.py 1", "0 top.md 1")
    ]
    for _, link, _, count in rows:
        address = html.unescape(link)
        assert "member=writer" in address
        assert reader.page(address).count('<li id="hunk-') == int(count)


@pytest.mark.slow
def test_pending_counts_what_waits_for_a_decision(room: Room) -> None:
    hunks = [prepared(room.desk, path=f"{name}.py", content="x") for name in "abc"]
    reader = room.reader()
    reader.send(f"/hunk/{hunks[0]}", f"/hunk/{hunks[0]}/approve")
    reader.send(f"/hunk/{hunks[1]}", f"/hunk/{hunks[1]}/reject", reason="no")
    for state, hunk in (("", hunks[2]), ("approved", hunks[0]), ("rejected", hunks[1])):
        page = reader.page(f"/?state={state}")
        assert re.findall(r'<li id="hunk-(\w+)"', page) == [hunk], state
        assert '<span class="count" id="waiting">1</span>' in page
        tabs = re.findall(r'(Pending|Approved|Rejected) <span class="count">(\d+)</span>', page)
        assert tabs == [("Pending", "1"), ("Approved", "1"), ("Rejected", "1")]


@pytest.mark.slow
def test_the_names_of_tools_are_words(room: Room) -> None:
    assert tool_words("prepare_file_range_edit") == "replace lines"
    assert tool_words("team_mgmt_prepare_file_append") == "append (team)"
    assert tool_words("BatchEdit") == "batch edit"
    for name in room.desk.catalog.tools:
        assert not re.search(r"_|[a-z][A-Z]", tool_words(name)), name


@pytest.mark.slow
def test_a_comment_is_shown_with_its_line_and_reaches_the_agent(room: Room) -> None:
    hunk = prepared(room.desk, path="a.txt", content="three\n")
    reader, (at, to) = room.reader(), (f"/hunk/{hunk}", f"/hunk/{hunk}/comment")
    page = reader.send(at, to, text="<b>Why?</b>", line="3", side="new")
    assert re.search("<b>Ada</b> on line <code>3</code> after the change", page)
    assert "<p>&lt;b&gt;Why?&lt;/b&gt;</p>" in page
    (told,) = room.desk.call(AGENT, "read_file", {"path": "a.txt"}).fields["decisions"]
    said = [told[name] for name in ("verdict", "by", "line", "side")]
    assert said == ["commented", "Ada", 3, "new"]
    prepared(room.desk, path="a.txt", content="3\n", existing_hunk_id=hunk, why="it is a list")
    page = reader.page(at)
    assert "on an earlier version" in page
    assert "it is a list" in page
    wrong = reader.send(at, to, text="x", line="99", side="old")
    assert "is not a line of the text" in wrong


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verdict", "reason"), [("approved", ""), ("rejected", "no"), ("changes_requested", "shorter")]
)
def test_several_are_decided_on(room: Room, verdict: str, reason: str) -> None:
    deed = "reject" if reason else "approve"
    hunks = [prepared(room.desk, path=f"{name}.py", content="x") for name in "abc"]
    reader, bob = room.reader(), room.reader("Bob")
    page = reader.page("/together?" + "&".join(f"hunk={hunk}" for hunk in hunks))
    seen = re.findall(r'name="seen" value="([^"]*)"', page.split(f'action="/{deed}"')[1])[:3]
    bob.send(f"/hunk/{hunks[0]}", f"/hunk/{hunks[0]}/approve")
    given = {"reason": reason, "verdict": verdict} if reason else {}
    answer = reader.post(f"/{deed}", {**fields_of(page, f"/{deed}"), **given, "seen": seen})
    assert answer.headers["location"] == f"/together?hunk={hunks[0]}", "Bob was first there"
    assert "Bob was first" in reader.page(answer.headers["location"])
    waiting = room.desk.desk.review.pending(room.desk.member("fixer"))
    decided = {one.plan.id: one.decision for one in waiting}
    found = [(made.verdict, made.by) for hunk in hunks if (made := decided.pop(hunk))]
    assert found == [("approved", "Bob"), (verdict, "Ada"), (verdict, "Ada")]
    assert decided == {}
    assert reader.page(f"/?state={verdict}").count('<li id="hunk-') == 2 + (verdict == "approved")


NO, CHANGE = ({"reason": "no", "verdict": one} for one in ("rejected", "changes_requested"))
TWO = "one\ntwo\nthree\n"

FORMS: tuple[tuple[str, dict[str, str], str, str, int, int], ...] = (
    ("/hunk/{hunk_id}/approve", {}, "approved -", TWO, 0, 0),
    ("/hunk/{hunk_id}/apply", {}, "gone -", "one\nTWO\nthree\n", 0, 0),
    ("/hunk/{hunk_id}/reject", NO, "rejected -", TWO, 0, 0),
    ("/hunk/{hunk_id}/reject", CHANGE, "changes_requested -", TWO, 0, 0),
    ("/hunk/{hunk_id}/comment", {"text": "why?", "line": "2"}, "- -", TWO, 1, 0),
    ("/hunk/{hunk_id}/withdraw", {}, "- approved", TWO, 0, 0),
    ("/hunk/{hunk_id}/extend", {}, "- -", TWO, 0, 1),
    ("/hunk/{hunk_id}/amend", {"content": "mine\n"}, "- -", TWO, 0, 1),
    ("/hunk/{hunk_id}/replan", {"range": "2", "content": "both\n"}, "- -", TWO, 0, 1),
    ("/apply", {}, "gone gone", "one\nTWO\nthree\n", 0, 0),
    ("/approve", {}, "approved approved", TWO, 0, 0),
    ("/reject", NO, "rejected rejected", TWO, 0, 0),
    ("/reject", CHANGE, "changes_requested changes_requested", TWO, 0, 0),
    ("/withdraw", {}, "- -", TWO, 0, 0),
    ("/extend", {}, "- -", TWO, 0, 2),
    ("/edit/{edit_id}/undo", {}, "gone gone", TWO, 0, 0),
)
"""A form, its fields, and what it leaves: verdicts, the first file, comments, plans that live anew."""


def test_each_form_has_a_row() -> None:
    """The form to split a plan and those of changes have tests of their own."""
    own = {path for path in ACTIONS if path.startswith("/changes/")} | {"/hunk/{hunk_id}/split"}
    assert {row[0] for row in FORMS} == set(ACTIONS) - own


@pytest.mark.parametrize("row", FORMS, ids=[f"{row[0]} {row[2]}" for row in FORMS])
def test_each_form_does_what_it_says(
    tmp_path: Path, row: tuple[str, dict[str, str], str, str, int, int]
) -> None:
    address, fields, verdicts, text, comments, extended = row
    now = [1_000_000_000_000]
    with desk_at(tmp_path, clock=lambda: now[0]) as desk:
        ada = Reviewer(desk, ListCache(), "Ada", is_member=False)
        (tmp_path / "a.txt").write_text(TWO)
        (tmp_path / "b.txt").write_text(TWO)
        plan = {"range": "2", "content": "TWO\n"}
        hunks = [
            prepared(desk, "prepare_file_range_edit", path=path, **plan)
            for path in ("a.txt", "b.txt")
        ]
        assert not any(item.breaks for item in ada.items(0))
        now[0] += 6 * DAY + DAY // 2  # they expire soon

        def send(address: str, **fields: str) -> None:
            shown = [ada.show(hunk) for hunk in hunks if state(hunk) != "gone"]
            seen = [f"{one.plan.id}.{one.before}.{one.after}" for one in shown]
            form = {"seen": seen, **{name: [value] for name, value in fields.items()}}
            for one in shown[:1]:
                form |= {"before": [one.before], "after": [one.after], "now": [one.before]}
            params = {"hunk_id": hunks[0], "edit_id": "1"}
            ACTIONS[address](RequestContext(session, ada, {}, params, (), form))

        def state(hunk: str) -> str:
            try:
                decision = ada.show(hunk).decision
            except HunkNotFound:
                return "gone"
            return decision.verdict if decision else "-"

        session = Session("Ada", False, "", 0)
        if address.endswith(("withdraw", "undo")):
            send("/approve" if address.endswith("withdraw") else "/apply")
        send(address, **fields)
        assert " ".join(map(state, hunks)) == verdicts, session.notices
        assert (tmp_path / "a.txt").read_text() == text
        left = [ada.show(hunk) for hunk in hunks if state(hunk) != "gone"]
        assert sum(len(ada.review.comments(one)) for one in left) == comments
        assert sum(one.plan.expires_ms > now[0] + DAY for one in left) == extended
        for name in ("amend", "replan"):
            if address.endswith(name):
                assert f"+{fields['content']}".encode() in left[0].diff
                assert left[0].seen not in session.seen


@pytest.mark.slow
def test_what_a_person_looked_at_is_marked_until_it_is_another(room: Room) -> None:
    hunk = prepared(room.desk, path="a.txt", content="x")
    reader = room.reader()
    assert ">viewed<" not in reader.page("/")
    reader.page(f"/hunk/{hunk}")
    assert ">viewed<" in reader.page("/")
    assert ">viewed<" not in room.reader("Bob").page("/")
    (room.root / "a.txt").write_text("zero\none\ntwo\n")
    assert ">viewed<" not in reader.page("/"), "it has drifted since"
    reader.page(f"/hunk/{hunk}")
    prepared(room.desk, path="a.txt", content="y", existing_hunk_id=hunk)
    assert ">viewed<" not in reader.page("/"), "it was prepared again"


@pytest.mark.slow
def test_the_lines_that_are_named_are_those_of_the_diff(room: Room) -> None:
    hunk = prepared(room.desk, "prepare_file_range_edit", path="a.txt", range="2", content="x")
    (room.root / "a.txt").write_text("minus\nzero\none\ntwo\n")
    page = room.reader().page(f"/hunk/{hunk}")
    assert "replaces line 4" in page
    assert '<td class="number gone">4</td>' in page


@pytest.mark.slow
def test_the_history_names_who_approved(room: Room) -> None:
    hunk = prepared(room.desk, path="a.txt", content="x")
    room.reader("Ada").send(f"/hunk/{hunk}", f"/hunk/{hunk}/amend", content="y")
    room.reader("Bob").send(f"/hunk/{hunk}", f"/hunk/{hunk}/apply")
    edit = room.desk.history("fixer")[0]
    assert edit.approval is not None
    assert (edit.approval.by, edit.approval.amended_by) == ("Bob", "Ada")
    assert edit.approval.after == edit.after
    for page in ("/history", f"/edit/{edit.edit_id}"):
        text = Elements(room.reader().page(page)).text
        assert "approved by Bob" in text
        assert "amended by Ada" in text


DAY = 24 * 3_600_000


@pytest.mark.slow
def test_what_expires_soon_is_said_and_can_wait_longer(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    now = [1_000_000_000_000]
    with room_at(tmp_path, desk_at(tmp_path, clock=lambda: now[0])) as room:
        hunk = prepared(room.desk, path="a.txt", content="three\n")
        now[0] += 3 * DAY
        late = prepared(room.desk, path="a.txt", content="four\n")
        now[0] += 3 * DAY + DAY // 2
        reader = room.reader()
        page = reader.page("/")
        assert "1 plan expires soon" in page
        listed = reader.page("/?state=expiring")
        assert f"hunk-{hunk}" in listed
        assert f"hunk-{late}" not in listed
        assert "Extend" not in reader.page(f"/hunk/{late}")
        reader.post("/extend?path=b.txt", fields_of(reader.page("/"), "/sign-out"))
        assert "waits longer" not in reader.page("/"), "no plan of that file expires soon"
        reader.send(f"/hunk/{hunk}", f"/hunk/{hunk}/approve")
        after = reader.send(f"/hunk/{hunk}", f"/hunk/{hunk}/extend")
        assert "waits longer now" in after
        assert "Withdraw approval" in after, "it is the plan that was approved"
        now[0] += 3 * DAY
        reader = room.reader()
        anew = reader.send("/?state=expiring", "/extend?state=expiring")
        assert "1 plan waits longer now" in anew
        assert "soon." not in reader.page("/")
        now[0] += 3 * DAY
        assert {applied(room, one) for one in (hunk, late)} == {"ok", "APPROVAL_REQUIRED"}


@pytest.mark.slow
def test_plans_of_one_transaction_are_listed_together(room: Room) -> None:
    block = "{}\n<<<<<<< SEARCH\n=======\nnew\n>>>>>>> REPLACE\n"
    given = {"text": block.format("x.txt") + block.format("y.txt")}

    def check(transactions: int, groups: int | None = None) -> None:
        page = room.reader().page("/")
        assert page.count("one transaction") == transactions
        assert groups is None or page.count('class="group"') == groups

    assert not room.desk.call(AGENT, "apply_blocks", given).is_error
    alone = [prepared(room.desk, path="a.txt", content=f"{each}\n") for each in "bcde"]
    check(1, 2)
    room.desk.call(AGENT, "apply_file_modifications", {"hunk_ids": alone[:2]})
    assert not room.desk.call(AGENT, "apply_blocks", given, task="tidy").is_error
    check(2, 4)  # asked to be written together
    room.desk.call(AGENT, "discard_hunk", {"hunk_id": alone[1]})
    check(1)  # what is left of a transaction is a plan


@pytest.mark.slow
def test_a_long_list_comes_in_pages(room: Room) -> None:
    for number in range(205):
        prepared(room.desk, path=f"{number % 7}.txt", content=f"{number}\n")
    reader = room.reader()
    pages = [reader.page(f"/?tool=prepare_file_append&page={number}") for number in range(5)]
    counts = [page.count('<li id="hunk-') for page in pages]
    assert counts == [100, 100, 100, 5, 5], "a number that is none is the next one that is"
    listed = [set(re.findall('<li id="(hunk-[0-9a-f]+)"', page)) for page in pages]
    assert len(listed[1] | listed[2] | listed[3]) == 205
    assert "205 plans in 7 files; 101–200 are listed" in pages[2]
    (after,) = re.findall('href="([^"]*)" class="button">Next', pages[2])
    assert html.unescape(after) == "/?tool=prepare_file_append&page=3"
    for page in pages:
        assert "205 plans in 7 files" in page.split('class="group-head"')[1]
        assert len(page) < 200_000
    assert "Next →" not in pages[3]


@pytest.mark.slow
def test_a_string_that_began_before_the_lines_shown_is_coloured_as_one(room: Room) -> None:
    lines = [f"return {n}" for n in range(5_000)]
    lines[2_500:2_520] = ['"""It begins here.', *["if not this: return"] * 18, '"""']
    (room.root / "a.py").write_text("\n".join(lines) + "\n")
    given = {"path": "a.py", "range": "2515", "content": "for that\n"}
    hunk = prepared(room.desk, "prepare_file_range_edit", **given)
    page = room.reader().page(f"/hunk/{hunk}")
    assert page.count('<span class="s-s">if not this: return</span>') == 13
    assert '<span class="s-k">' not in page


@pytest.mark.slow
def test_a_conflict_is_shown_three_ways_and_planned_anew(room: Room) -> None:
    (room.root / "c.txt").write_text("".join(f"line {n}\n" for n in range(1, 21)))
    edit = {"path": "c.txt", "range": "10", "content": "planned\n"}
    hunks = [prepared(room.desk, "prepare_file_range_edit", **edit) for _ in range(2)]
    for hunk in hunks:
        room.desk.desk.show(room.desk.member(AGENT), hunk)  # waits until the text is kept
    text = (room.root / "c.txt").read_text().replace("line 10\n", "line ten\nand more\n")
    (room.root / "c.txt").write_text(text)
    reader = room.reader()
    page = reader.page(f"/hunk/{hunks[0]}")
    for words in ("As it was", "As planned", "As it is", "line ten", "and more"):
        assert words in page, words
    stale = {**fields_of(page, f"/hunk/{hunks[0]}/replan"), "content": "both\n"}
    (room.root / "c.txt").write_text("0\n" + text)
    reader.post(f"/hunk/{hunks[0]}/replan", stale)
    assert "Nothing was decided" in reader.page(f"/hunk/{hunks[0]}")
    (room.root / "c.txt").write_text(text)
    after = reader.send(f"/hunk/{hunks[0]}", f"/hunk/{hunks[0]}/replan", content="both\r\n")
    assert "not approved yet" in after
    assert "conflict" not in after.split("<main")[1]
    assert "amended" in str(room.desk.call(AGENT, "list_pending", {}).fields["decisions"])
    assert applied(room, hunks[0]) == "APPROVAL_REQUIRED"
    reader.send(f"/hunk/{hunks[0]}", f"/hunk/{hunks[0]}/approve")
    assert applied(room, hunks[0]) == "ok"
    assert (room.root / "c.txt").read_text() == text.replace("line ten\nand more\n", "both\n")
    reader.send(f"/hunk/{hunks[1]}", f"/hunk/{hunks[1]}/reject")
    said = room.desk.call(AGENT, "list_pending", {}).fields["decisions"]
    assert "changes_requested" in str(said)
    assert "Plan it anew" in str(said)


@pytest.mark.slow
def test_what_checks_found_is_shown_with_the_plan(room: Room) -> None:
    (room.root / "<i>.py").write_text("a = 1\n")
    broken = prepared(room.desk, path="<i>.py", content="def f()\n")
    sound = prepared(room.desk, path="<i>.py", content="b = 2\n")
    reader = room.reader()
    words = 'class="notice bad">syntax: &lt;i&gt;.py:2: expected'
    assert words in reader.page(f"/hunk/{broken}")
    assert words in reader.page(f"/together?hunk={broken}&hunk={sound}")
    page = reader.page(f"/hunk/{sound}")
    assert "syntax:" not in page
    assert "Checks found nothing new." in page


@pytest.mark.slow
def test_while_the_server_of_the_machines_is_away_the_page_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    with running() as server:
        desk = server.open(tmp_path, server.fresh_name())
        with room_at(tmp_path, desk) as room:
            reader = room.reader()
            hunk = prepared(desk, path="a.txt", content="two\n", by="anybody")
            form = fields_of(reader.page(f"/hunk/{hunk}"), f"/hunk/{hunk}/approve")
            server.kill()
            views = "/", "/history", "/trends", "/edit/1", "/together?hunk=a"
            for path in (*views, f"/hunk/{hunk}"):
                answer = reader.get(path)
                assert answer.status_code == 503, path
                assert "cannot be used" in answer.text
            for action in (f"/hunk/{hunk}/approve", "/extend"):
                sent = reader.post(action, {**form, "seen": f"{hunk}.a.b"})
                assert sent.status_code in (303, 503), (action, sent.text[:100])
            server.start()
            reader.send(f"/hunk/{hunk}", f"/hunk/{hunk}/approve")
            assert "two" in reader.page(f"/hunk/{hunk}")


@pytest.mark.slow
def test_a_plan_whose_text_is_gone_shows_what_is_known_and_can_be_rejected(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\ntwo\nthree\n")
    members = {AGENT: MemberConfig(approval="human")}
    desk = open_workspace(str(tmp_path), settings(members=members, bases_bytes=0), shared=False)
    with room_at(tmp_path, desk) as room:
        change = {"path": "a.py", "range": "2", "content": "TWO < 3\n"}
        hunk = prepared(room.desk, "prepare_file_range_edit", **change)
        (tmp_path / "a.py").write_text("one\nzwei\nthree\n")
        reader = room.reader()
        text = Elements(reader.page(f"/hunk/{hunk}")).text
        for words in ("no longer remembered", "a.py", "TWO < 3", "+1"):
            assert words in text
        reader.send(f"/hunk/{hunk}", f"/hunk/{hunk}/reject", reason="anew", verdict="rejected")
        assert "a.py" in Elements(reader.page("/?state=rejected")).text
