"""The review page against those who should not be there, and against what they send."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest
from starlette.applications import Starlette

from copydesk.app.config import MemberConfig
from copydesk.app.web.pages import ACTIONS
from copydesk.app.web.security import (
    FAULTS,
    HEADERS,
    MOST_FAILED,
    MOST_FAILED_ALL,
    MOST_FIELDS,
    MOST_SESSIONS,
    SESSION_MS,
    WINDOW_MS,
    Login,
    NameRefused,
    SessionStore,
    TooMany,
    fault_of,
)
from copydesk.app.workspace import open_workspace
from support.cost import first
from support.mcp_calls import settings
from support.review_page import AGENT, Elements, Reader, Room, desk_at, fields_of, prepared, room_at

VIEWS = (
    *("/", "/changes", "/changes?task=tidy", "/changes/diff?task=tidy", "/history", "/trends"),
    *("/together?hunk=01234567", "/hunk/01234567", "/hunk/01234567/diff", "/edit/1"),
    "/edit/1/diff",
)


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    with room_at(tmp_path) as found:
        yield found


@pytest.mark.slow
def test_nothing_is_shown_to_who_has_not_come_in(room: Room) -> None:
    stranger = room.stranger()
    for path in VIEWS:
        response = stranger.get(path)
        assert response.status_code == 303, path
        assert response.headers["location"].startswith("/sign-in"), path
    assert stranger.get("/events").status_code == 401
    for path in ACTIONS:
        filled = path.replace("{hunk_id}", "01234567").replace("{edit_id}", "1")
        assert stranger.post(filled, {"csrf": ""}).status_code == 401, path


def test_a_one_time_token_opens_once(room: Room) -> None:
    token, stranger = room.tokens[-1], room.stranger()
    assert token in stranger.page(f"/sign-in?token={token}"), "looking uses none up"
    response = stranger.post("/sign-in", {"token": token, "name": "Ada"})
    (cookie,) = response.headers.get_list("set-cookie")
    parts = {part.strip().lower() for part in cookie.split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/"} <= parts
    assert room.stranger().post("/sign-in", {"token": token, "name": "Eve"}).status_code == 403
    assert len(set(room.tokens)) == 2
    reader = room.reader()
    reader.send("/", "/sign-out")
    assert reader.get("/").status_code == 303, "a session can be left"


@pytest.mark.slow
def test_a_form_without_the_token_of_the_session_does_nothing(room: Room) -> None:
    reader = room.reader()
    hunk = prepared(room.desk, path="a.txt", content="three\n")
    given = {"path": "b.txt", "content": "x", "apply": "auto"}
    edit_id = room.desk.call("fixer", "prepare_file_append", given).fields["edit_id"]
    fields = {"reason": "no", "content": "y", "before": "", "after": "", "seen": f"{hunk}.."}
    other = fields_of(room.reader("Eve").page("/"), "/sign-out")["csrf"]
    for path in ACTIONS:
        filled = path.replace("{hunk_id}", hunk).replace("{edit_id}", str(edit_id))
        for csrf in ({}, {"csrf": ""}, {"csrf": other}):
            assert reader.post(filled, {**fields, **csrf}).status_code == 403, path
    assert (room.root / "a.txt").read_text() == "one\ntwo\n"
    assert (room.root / "b.txt").read_text() == "x\n"
    (waiting,) = room.desk.desk.review.pending(room.desk.member("Ada"))
    assert waiting.decision is None
    assert len(room.desk.history("fixer")) == 1


OTHERS = (
    *({"Origin": f"http://{host}"} for host in ("127.0.0.1:1", "localhost")),
    *({"Origin": origin} for origin in ("https://evil.example", "null")),
    *({"Sec-Fetch-Site": site} for site in ("cross-site", "same-site")),
)


@pytest.mark.slow
def test_a_form_of_another_origin_is_refused(room: Room) -> None:
    reader = room.reader()
    hunk = prepared(room.desk, path="a.txt", content="three\n")
    fields = fields_of(reader.page(f"/hunk/{hunk}"), f"/hunk/{hunk}/apply")
    for headers in OTHERS:
        assert reader.post(f"/hunk/{hunk}/apply", fields, **headers).status_code == 403, headers
    assert (room.root / "a.txt").read_text() == "one\ntwo\n"


def check_headers(answers: Iterable[httpx2.Response]) -> None:
    """Each has the headers of the page, and none lets others read it."""
    for answer in answers:
        for name, value in HEADERS.items():
            assert answer.headers.get(name) == value, (answer.url, answer.status_code, name)
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]


@pytest.mark.slow
def test_every_answer_has_the_headers_and_none_lets_others_read(room: Room) -> None:
    reader = room.reader()
    hunk = prepared(room.desk, path="a.txt", content="three\n")
    views = "/", "/hunk/zz", "/history", "/trends", "/sign-in", "/nothing"
    paths = *views, f"/hunk/{hunk}", f"/hunk/{hunk}/diff", "/static/desk.js", "/static/desk.css"
    answers = [reader.get(path) for path in paths]
    answers += [room.stranger().get("/"), reader.post("/apply", {}), room.stranger().get("/events")]
    asked = {"Origin": room.address, "Access-Control-Request-Method": "POST"}
    check_headers([*answers, reader.http.request("OPTIONS", "/", headers=asked)])
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


@pytest.mark.slow
def test_a_refusal_at_the_door_has_the_headers_too(room: Room) -> None:
    http, evil = room.reader().http, {"Host": "evil.example"}
    answers = [
        *(http.get(path, headers=evil) for path in ("/", "/sign-in", "/mcp")),
        http.get("/", headers={"Origin": "http://evil.example"}),
        http.post("/mcp", content=b"{"),
    ]
    assert [answer.status_code for answer in answers] == [421, 421, 421, 403, 400]
    check_headers(answers)


NO_IDS = (
    *("", "0", "-1", "1.5", "1e9", "0x1", "٣", "²", "1_0", " 1", "None", "%00", "%ff", "..%2f"),
    *("9" * 18, "9" * 19, "9" * 20, "9" * 25, "9" * 4_000, "9" * 5_000, str(1 << 63), "a" * 5_000),
    *("01234567", "ffffffff", "'; DROP TABLE edits; --", "<script>", "%ud800", "\u2028"),
)
"""What stands where a number or an id is wanted."""

QUERIES = (
    *("before", "context", "view", "all", "hunk", "path", "member", "q", "state", "sort"),
    "task",
)


@pytest.mark.slow
@pytest.mark.parametrize("shared", first(False, True))
def test_no_address_and_no_form_breaks_the_page(tmp_path: Path, shared: bool) -> None:
    """Ids, query values and fields of forms that no page has: each is refused, none is a 500."""
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    members = {AGENT: MemberConfig(approval="human"), "fixer": MemberConfig()}
    opened = open_workspace(str(tmp_path), settings(members=members), shared=shared)
    with room_at(tmp_path, opened) as room:
        edit = opened.call("fixer", "create_new_file", {"path": "b.txt", "content": "b\n"})
        edit_id = edit.fields["edit_id"]
        hunk_id = prepared(opened, path="a.txt", content="three")
        reader = room.reader()
        found: dict[tuple[str, str], int] = {}

        def seen(path: str) -> None:
            found["GET", path[:80]] = reader.get(path).status_code

        for one in NO_IDS:
            part = quote(one, safe="%")
            for place in ("/hunk/{}", "/hunk/{}/diff", "/edit/{}", "/edit/{}/diff"):
                seen(place.format(part))
            views = "/", "/changes", "/changes/diff", "/history", "/trends", "/together", "/sign-in"
            for view in (*views, f"/edit/{edit_id}"):
                seen(view + "?" + "&".join(f"{name}={part}" for name in QUERIES))
            seen(f"/hunk/{hunk_id}?view={part}&context={part}&all={part}")
            csrf = fields_of(reader.page("/history"), "/sign-out")["csrf"]
            names = ("before", "after", "content", "reason", "onward", "seen", "hunk", "next")
            names += ("hunks", "text", "partly")
            fields = {"csrf": csrf, **dict.fromkeys(names, one)}
            for path in ACTIONS:
                filled = path.replace("{hunk_id}", part).replace("{edit_id}", part)
                found["POST", filled[:80]] = reader.post(filled, fields).status_code
            fields["seen"] = f"{one}.{one}.{one}"
            found["POST", one[:80]] = reader.post("/apply", fields).status_code
        broken = {key: status for key, status in found.items() if status >= 500}
        assert not broken, broken
        assert len(found) > 300, found
        assert found["GET", "/edit/" + "9" * 20] == 404


def test_an_edit_of_no_possible_number_is_not_found(tmp_path: Path) -> None:
    """The desk says so itself, whoever asks, wherever the journal is kept."""
    for shared in (False, True):
        with open_workspace(str(tmp_path), settings(), shared=shared) as opened:
            for number in (1 << 62, 1 << 63, 1 << 64, 10**30):
                answer = opened.call("agent", "undo_file_modification", {"edit_id": number})
                assert answer.fields["error"] == "EDIT_NOT_FOUND", (shared, number, answer.text)
                given = {"before_edit_id": number, "max_results": number}
                assert not opened.call("agent", "list_edits", given).is_error, number


AWAY = "//evil.example", "/\\evil.example", "/\t/evil.example", "/\n/evil.example", "https:evil", ""


@pytest.mark.slow
def test_the_way_in_leads_to_this_server_only(room: Room) -> None:
    reader = room.reader()
    for onward in AWAY:
        page = reader.page(f"/sign-in?next={quote(onward)}")
        links = [found for name, found in Elements(page).found if name == "a"]
        assert [link["href"] for link in links] == ["/"], onward
        answer = room.stranger().post("/sign-in", {"token": room.tokens[-1], "next": onward})
        assert (answer.status_code, answer.headers["location"]) == (303, "/"), onward


@pytest.mark.slow
def test_static_files_are_those_of_the_package(room: Room) -> None:
    stranger = room.stranger()
    assert stranger.get("/static/desk.js").status_code == 200
    for path in ("/static/../site.py", "/static/%2e%2e/site.py", "/static/", "/static//etc/passwd"):
        assert stranger.get(path).status_code == 404, path
    assert room.reader().get("/hunk/" + "a" * 5_000).status_code in (404, 414)


@pytest.mark.slow
def test_a_body_above_the_limit_is_refused(tmp_path: Path) -> None:
    with room_at(tmp_path, body_bytes=10_000) as room:
        assert room.stranger().post("/sign-in", {"token": "x" * 20_000}).status_code == 413
        room.reader()


@pytest.mark.slow
def test_who_has_not_come_in_sends_no_large_form(room: Room) -> None:
    assert room.stranger().post("/sign-in", {"token": "x" * 20_000}).status_code == 413
    answer = room.reader().post("/apply", {"seen": "x" * (17 << 20)})
    assert (answer.status_code, "<p>This is more than" in answer.text) == (413, True)


@pytest.mark.slow
def test_no_name_is_taken_that_belongs_to_a_member_or_its_user(tmp_path: Path) -> None:
    """Which it is, is told to who has a token."""
    with room_at(tmp_path, members={"s3cret": "fixer"}) as room:
        stranger, token = room.stranger(), room.tokens[-1]

        def sent(token: str, name: str) -> tuple[int, bool]:
            answer = stranger.post("/sign-in", {"token": token, "name": name})
            return answer.status_code, "a member&#39;s name" in answer.text

        for name in (" fixer ", room.desk.settings.member, "user of local", "User 0f Fixer"):
            assert sent(token, name)[0] == 403, name
        assert (sent(token, " fixer "), sent("guess", " fixer ")) == ((403, True), (403, False))
        for name in ("fixer", "Ada", "x"):  # the name counts for nothing beside a member's token
            assert sent("s3cret", name)[0] == 303
        room.reader()  # the one-time token was not used up


def test_the_names_that_are_taken_are_those_of_members_and_their_users(tmp_path: Path) -> None:
    with desk_at(tmp_path) as desk:
        own = {AGENT, "fixer", desk.settings.member}
        assert desk.names() == own | {f"user of {name}" for name in own}
        names = "user 0f Fixer", "Ada"
        assert [fault_of(name, desk.names()) for name in names] == ["taken", None]


MISLEADING = {
    "looks like one": ("Fixer", "f1xer", "fi xer", "f\u0131xer", "fíxer"),
    "cannot be seen": ("fixer\ufe0f", "fix\u200ber", "\u202efixer"),
    "several alphabets": ("fix\u0627er", "fixеr", "Аda"),
    "stand for others": ("ｆｉｘｅｒ", "𝐀da"),
}


def test_a_name_that_misleads_is_refused() -> None:
    for words, names in MISLEADING.items():
        for name in names:
            tokens: list[str] = []
            store = SessionStore(lambda: 0, dict[str, str], tokens.append)
            store.new_token()
            with pytest.raises(NameRefused) as refused:
                store.enter(tokens[-1], name, "", ("fixer",))
            assert words in FAULTS[refused.value.fault], name
            assert store.enter(tokens[-1], "Ada", "", ("fixer",)), "the token is still good"
    for name in ("Ada", "Владимир", "Ελένη", "山田 Taro", "José", "O'Neil", "नीति"):
        assert fault_of(name, ("fixer", "local")) is None, name
    for name, member, fault in (
        ("асе", "ace", "taken"),
        ("οrb", "orb", "mixed"),
        ("modem", "modern", "taken"),
        ("\u0430\u04cf\u0456\u0441\u0435", "alice", "taken"),
        ("\u0585\u0578\u0585", "ono", "taken"),
    ):
        assert fault_of(name, (member,)) == fault


FORM = "application/x-www-form-urlencoded"
NO_FORMS = (
    *(("application/json", b"{}"), ("text/plain", b"csrf=x"), (FORM, b"a=%ff"), (FORM, b"a=\xff")),
    (FORM, b"a&" * (MOST_FIELDS + 1)),
)


@pytest.mark.slow
def test_what_is_no_form_is_refused(room: Room) -> None:
    reader = room.reader()
    cookie = "; ".join(f"{name}={value}" for name, value in reader.cookies.items())
    for kind, body in NO_FORMS:
        headers = {"Content-Type": kind, "Cookie": cookie}
        answer = reader.http.post("/apply", content=body, headers=headers)
        assert answer.status_code == 400, (kind, body[:20])


@pytest.mark.anyio
async def test_who_guesses_too_often_waits_and_a_right_token_is_never_refused() -> None:
    tokens: list[str] = []
    store = SessionStore(lambda: 0, lambda: {"s3cret": "fixer"}, tokens.append)
    store.new_token()
    routes = Login(store, lambda: ("fixer", "local")).routes()
    transport = httpx2.ASGITransport(Starlette(routes=routes))
    guesser, other = (
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") for _ in range(2)
    )
    for one in guesser, other:  # a browser that looked at the page is known by its cookie
        await one.get("/sign-in")
    guess = {"token": "guess", "name": "Ada"}
    answers = [await guesser.post("/sign-in", data=guess) for _ in range(MOST_FAILED + 1)]
    assert [one.status_code for one in answers] == [*[403] * MOST_FAILED, 429]
    assert int(answers[-1].headers["retry-after"]) == WINDOW_MS // 1000
    assert "Too many wrong tokens" in answers[-1].text
    assert (await other.post("/sign-in", data=guess)).status_code == 403
    assert (await guesser.post("/sign-in", data={**guess, "name": "Bob"})).status_code == 403
    for token in (tokens[-1], "s3cret"):
        for name, status in (("local", 403), ("Ada", 303)):
            answer = await guesser.post("/sign-in", data={"token": token, "name": name})
            expected = 303 if token == "s3cret" else status
            assert answer.status_code == expected, (token, name)


class _Clock:
    now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


def _statuses(store: SessionStore, token: str, cookies: Iterable[str]) -> str:
    """How attempts with these cookies end: `-` no session, `+` a session, `w` wait."""
    found = ""
    for cookie in cookies:
        try:
            found += "-" if store.enter(token, "Ada", cookie) is None else "+"
        except TooMany:
            found += "w"
    return found


def test_guesses_are_limited_by_browser_and_in_all() -> None:
    """Who drops the cookie at each try is limited too, and keeps no memory beyond the limit."""
    clock, tokens, long = _Clock(), list[str](), "0123456789abcdef"
    store = SessionStore(clock, lambda: {"s3cret": "fixer", long: "ann"}, tokens.append)
    store.new_token()
    least, most = MOST_FAILED, MOST_FAILED_ALL
    for minute in range(2):
        clock.now_ms += minute * WINDOW_MS
        assert _statuses(store, "guess", ["one"] * (least + 2)) == "-" * least + "ww"
        assert _statuses(store, "s3cret", ["one", "two"]) == "++"
        fresh = [str(number) for number in range(2 * most)]
        left = most - least - 2
        assert _statuses(store, "guess", fresh) == "-" * left + "w" * (2 * most - left)
        assert _statuses(store, f"{long}0", fresh[:1]) == "w"
        assert len(store._guesses._failed) == most  # pyright: ignore[reportPrivateUsage]
        assert _statuses(store, "s3cret", ["new"]) == "w", "so short a token could be guessed"
        assert _statuses(store, long, ["one", "new", ""]) == "+++"
        assert [_statuses(store, tokens[-1], [one]) for one in ("one", "new", "")] == ["+"] * 3


def test_what_waits_between_tries_still_waits() -> None:
    """A browser that goes on guessing while it should wait does not get more tries by it."""
    clock = _Clock()
    store = SessionStore(clock, dict, None)
    found = ""
    for _ in range(4 * MOST_FAILED):
        found += _statuses(store, "guess", ["one"])
        clock.now_ms += WINDOW_MS // (2 * MOST_FAILED)
    assert found.count("-") <= 2 * MOST_FAILED, found


def test_sessions_end() -> None:
    clock, tokens = _Clock(), list[str]()
    store = SessionStore(clock, dict, tokens.append)
    store.new_token()
    entered = store.enter(tokens[-1], "", "")
    assert entered is not None
    clock.now_ms += SESSION_MS
    assert store.session(entered[0]) is entered[1]
    clock.now_ms += SESSION_MS
    assert store.session(entered[0]) is not None, "it was used meanwhile"
    clock.now_ms += SESSION_MS + 1
    assert store.session(entered[0]) is None


def test_nobody_ends_the_sessions_of_others_by_many_of_their_own() -> None:
    tokens = list[str]()
    store = SessionStore(_Clock(), lambda: {"s3cret": "fixer"}, tokens.append)
    store.new_token()
    ada = store.enter(tokens[-1], "Ada", "")
    assert ada is not None
    made = [store.enter("s3cret", "", "") for _ in range(MOST_SESSIONS)]
    assert store.session(ada[0]) is not None
    stay = [one is not None and store.session(one[0]) is not None for one in made]
    assert stay == [False, *[True] * (MOST_SESSIONS - 1)]


def test_without_one_who_is_told_there_are_no_one_time_tokens() -> None:
    store = SessionStore(_Clock(), dict, None)
    store.new_token()
    assert store.enter("", "Eve", "") is None


HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</textarea><script>alert(1)</script>",
    "'; alert(1); '",
    "\x1b[31mred\x1b[0m \x07",
    "\u202eevil\u202c \u2066x\u2069 \u200b\ufeff",
    "a\rb",
    "&lt;b&gt; &#x202e;",
)
HREF = re.compile(r"/(?!/)|#(content|file-\d+|(?:change|plan)-[0-9a-f]{8})$")
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def check_harmless(page: str, path: str, *, fields: bool = False) -> None:
    """Nothing but the page's own script runs, nothing is styled or framed, nothing hides."""
    for tag, attributes in Elements(page).found:
        where, values = (path, tag, attributes), [value or "" for value in attributes.values()]
        assert tag not in ("img", "iframe", "object", "embed", "base", "style"), where
        assert not [n for n in attributes if n.startswith("on") or n == "style"], where
        if tag == "script":
            assert attributes == {"src": "/static/desk.js", "defer": None}, path
        assert not any('class="odd"' in value for value in values), path
        for name in ("href", "action", "src"):
            assert HREF.match(attributes.get(name) or "/"), where
        assert fields or not any(UNSEEN.search(value) for value in values), where
    shown = re.sub(r"<textarea.*?</textarea>", "", page, flags=re.S) if fields else page
    assert not UNSEEN.search(shown), path


@pytest.mark.slow
def test_hostile_text_is_harmless_wherever_it_stands(tmp_path: Path) -> None:
    with room_at(tmp_path) as room:
        for text in HOSTILE:
            _check_hostile(room, text)


def _check_hostile(room: Room, text: str) -> None:
    name = text.replace("/", "∕").replace("\r", "\x0b")
    (room.root / f"{name}.py").write_text(f"one\n{text}\nthree\n", newline="")
    reader = _reader_named(room, f"Ada {text}"[:60])
    given = {"path": f"{name}.py", "range": "1", "content": f"{text}\nnew"}
    first = prepared(room.desk, "prepare_file_range_edit", **given)
    second = prepared(room.desk, path=f"{name}.md", content=f"{text}\n")
    both = f"/together?hunk={first}&hunk={second}"
    one = f"/hunk/{first}"
    others = "/", "/hunk/zzz", "/?path=%3Cscript%3E"
    for path in (*others, one, f"{one}?view=unified", f"/hunk/{second}", both):
        check_harmless(reader.get(path).text, path, fields=True)
    rejected = reader.send(f"/hunk/{second}", f"/hunk/{second}/reject", reason=text)
    check_harmless(rejected, "reject", fields=True)
    check_harmless(reader.page("/"), "/")
    check_harmless(reader.send(one, f"{one}/apply"), "apply", fields=True)
    edit = f"/edit/{room.desk.history('fixer')[0].edit_id}"
    for path in ("/history", edit, "/trends", "/changes"):
        check_harmless(reader.page(path), path)
    given = {"path": f"{name}.py", "content": f"{text}\n"}
    planned = room.desk.call("fixer", "prepare_file_append", {**given, "why": text}, task=text)
    if planned.is_error:  # such a reason, or such a task, is refused
        planned = room.desk.call("fixer", "prepare_file_append", given)
    written = {"hunk_id": planned.fields["hunk_id"]}
    assert not room.desk.call("fixer", "apply_file_modification", written).is_error
    links = re.findall(r'href="(/changes\?task=[^"]*)"', reader.page("/changes"))
    assert links
    for link in links:
        for view in ("split", "unified"):
            path = f"{html.unescape(link)}&view={view}"
            check_harmless(reader.page(path), path, fields=True)
    if "<script>" in text:
        assert "<script>" in Elements(reader.page(edit)).text


def _reader_named(room: Room, name: str) -> Reader:
    """Somebody of this name; where it may not be taken, that is said and harms nothing."""
    said = room.stranger().post("/sign-in", {"token": room.tokens[-1], "name": name})
    if said.status_code == 303:
        return room.reader(name)
    assert "characters that cannot be seen" in said.text
    check_harmless(said.text, "sign-in", fields=True)
    return room.reader()


@pytest.mark.slow
def test_a_line_of_five_megabytes_is_harmless_and_readable(room: Room) -> None:
    long = "x" * 3_000_000 + "{}" + "y" * 2_000_000
    (room.root / "long.js").write_text(f"first\n{long.format('OLD')}\nlast\n")
    given = {"path": "long.js", "range": "2", "content": long.format("new")}
    hunk = prepared(room.desk, "prepare_file_range_edit", **given)
    reader = room.reader()
    for view in ("split", "unified"):
        page = reader.page(f"/hunk/{hunk}?view={view}")
        assert len(page) < 40_000
        assert re.search(r"x<mark>OLD</mark>y", page)
        assert re.search(r"x<mark>new</mark>y", page)
        assert "characters" in page


@pytest.mark.slow
def test_what_could_mislead_is_shown_by_its_number(room: Room) -> None:
    content = "if user\u202e:\x1b[0m\np\u0430ypal\u2003= 1\n"
    hunk = prepared(room.desk, path="a.txt", content=content)
    text = Elements(room.reader().page(f"/hunk/{hunk}")).text
    assert "if userU+202E:\\x1b[0m" in text
    assert "pU+0430ypalU+2003= 1" in text


@pytest.mark.slow
def test_the_agents_own_token_does_not_approve_its_own_plans(tmp_path: Path) -> None:
    with room_at(tmp_path, desk_at(tmp_path), members={"s3cret": AGENT}) as room:
        agent = room.stranger()
        agent.cookies = dict(agent.post("/sign-in", {"token": "s3cret"}).cookies.items())
        hunk = prepared(room.desk, path="a.txt", content="three\n")
        page = agent.page(f"/hunk/{hunk}")
        assert "approved by another person" in page
        assert not re.search(rf'action="/hunk/{hunk}/', page)
        shown = room.desk.desk.review.show(room.desk.member("fixer"), hunk)
        form = {**fields_of(page, "/sign-out"), "before": shown.before, "after": shown.after}
        assert agent.post(f"/hunk/{hunk}/apply", form).status_code == 303
        assert not (tmp_path / "a.txt").exists()


@pytest.mark.slow
def test_a_diff_that_is_not_there_says_why(room: Room) -> None:
    reader = room.reader()
    for place, code in (("/edit/999/diff", "EDIT_NOT_FOUND"), ("/hunk/zz/diff", "INVALID_HUNK_ID")):
        answer = reader.get(place)
        assert answer.status_code == 404
        assert re.fullmatch(f"{code}: [^\n]+\\.\n", answer.text), answer.text
