"""Changes on the review page: what agents did as a whole, kept and undone hunk by hunk."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.review_page import AGENT, Elements, Reader, Room, desk_at, fields_of, room_at

TEXT = "".join(f"line {number}\n" for number in range(1, 41))


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text(TEXT)
    with room_at(tmp_path) as room:
        yield room


def done(room: Room, tool: str, task: str = "", **given: str) -> int:
    """The id of an edit that an agent planned and wrote."""
    answer = room.desk.call("fixer", tool, given, task=task)
    if "hunk_id" in answer.fields and "edit_id" not in answer.fields:
        written = {"hunk_id": answer.fields["hunk_id"]}
        answer = room.desk.call("fixer", "apply_file_modification", written, task=task)
    assert not answer.is_error, answer.text
    return int(str(answer.fields["edit_id"]))


def wrote(room: Room, content: str, lines: str, path: str = "a.txt", **given: str) -> int:
    """The id of an edit of some lines."""
    given |= {"path": path, "range": lines, "content": content}
    return done(room, "prepare_file_range_edit", **given)


def hunks(page: str) -> list[str]:
    return re.findall(r'<li class="change[^"]*" id="change-(\w+)"', page)


def address(task: str = "tidy", action: str = "") -> str:
    return f"/changes{action}?task={task}"


def send(reader: Reader, action: str, ids: list[str] | None = None, **given: str) -> str:
    """Send a form of the page of the task for the hunks (None: for all); the page that follows."""
    page = reader.page(address())
    fields = {"csrf": fields_of(page, "/sign-out")["csrf"], **given}
    fields["hunks"] = " ".join(hunks(page) if ids is None else ids)
    response = reader.post(address(action=f"/{action}"), fields)
    assert response.status_code == 303, response.text
    return reader.get(response.headers["location"]).text


def heard(room: Room) -> str:
    """What the agent is told with its next answer."""
    return room.desk.call("fixer", "read_file", {"path": "b.txt"}).text


@pytest.mark.slow
def test_tasks_are_listed_with_what_is_open(room: Room) -> None:
    reader = room.reader()
    page = reader.page("/changes")
    assert "No change is open" in page
    assert 'id="changed"' not in page
    wrote(room, "one", "1", task="tidy", why="it was untidy")
    wrote(room, "ten\nten and more", "10", task="tidy")
    wrote(room, "thirty", "30", "b.txt", task="tidy")
    wrote(room, "five", "5", "b.txt", why="<b>a bug</b>")
    page = reader.page("/changes")
    text = Elements(page).text
    for words in ("tidy", "3 open changes", "a.txt, b.txt", "<b>a bug</b>", "1 open change"):
        assert words in text, words
    assert '<span class="plus">+4</span> <span class="minus">−3</span>' in page
    assert '<span class="count" id="changed">4</span>' in reader.page("/history")
    assert "older change" not in text
    links = re.findall(r'<a href="(/changes\?task=[^"]*)" class="open">', page)
    pages = [Elements(reader.page(html.unescape(link))).text for link in links]
    assert [page.count("Keep k") for page in pages] == [1, 3]


@pytest.mark.slow
def test_a_task_is_shown_file_by_file_with_where_each_hunk_comes_from(room: Room) -> None:
    first = wrote(room, "one", "1", task="tidy", why="it was <i>untidy</i>")
    wrote(room, "uno", "1", task="tidy")
    wrote(room, "if user\u202e:", "20", "b.txt", task="tidy")
    page = room.reader().page(address())
    text = Elements(page).text
    assert len(hunks(page)) == 2, "two edits of one line are one hunk"
    assert re.findall(r'<td class="text come">.*?</span>(.*?)</td>', page)[0] == (
        "<mark>uno</mark>" if "<mark>uno" in page else "uno"
    )
    assert "“it was <i>untidy</i>”" in text
    assert f'href="/edit/{first}"' in page
    assert "replace lines" in text
    assert "if userU+202E:" in text
    assert '<td class="number gone">20</td>' in page
    tree = page.split('id="tree"')[1].split("</nav>")[0]
    assert re.findall(r'href="(#file-\d)"', tree) == ["#file-0", "#file-1"]
    alone = room.reader().page(address() + "&path=b.txt")
    assert len(hunks(alone)) == 1


@pytest.mark.slow
def test_a_hunk_that_breaks_its_file_says_so(room: Room) -> None:
    (room.root / "a.py").write_text("".join(f"x{n} = {n}\n" for n in range(20)))
    wrote(room, "x2 = 3", "3", "a.py", task="tidy")
    wrote(room, "x15 = (", "16", "a.py", task="tidy")
    for query in ("", "&path=a.py"):
        page = room.reader().page(address() + query)
        whole, broken = page.split('<li class="change"')[1:]
        assert "breaks a check" not in whole
        assert "breaks a check" in broken
        assert "was never closed" in broken


@pytest.mark.slow
def test_what_is_kept_is_open_no_more(room: Room) -> None:
    wrote(room, "one", "1", task="tidy")
    wrote(room, "ten", "10", task="tidy")
    reader = room.reader()
    first, second = hunks(reader.page(address()))
    page = send(reader, "keep", [first], onward=second)
    assert "1 change kept" in page
    assert hunks(page) == [second]
    assert (room.root / "a.txt").read_text().startswith("one\n"), "nothing is written"
    gone = "1 change had changed or gone since"
    assert gone in send(reader, "keep", [first])
    assert "Nothing is open here" in send(reader, "keep")
    assert "No change is open" in reader.page("/changes")
    wrote(room, "uno", "1", task="tidy")
    form = fields_of(reader.page(address()), address(action="/undo"))
    wrote(room, "eins", "1", task="tidy")
    wrote(room, "zehn", "10", task="tidy")
    reader.post(address(action="/undo"), form)
    assert gone in reader.page(address()), "the form is for what was shown"
    assert "eins" in (room.root / "a.txt").read_text()


@pytest.mark.slow
def test_what_is_undone_is_an_edit_and_the_agent_is_told_why(room: Room) -> None:
    wrote(room, "one", "1", task="tidy")
    wrote(room, "ten", "10", task="tidy")
    wrote(room, "two", "2", "b.txt", task="tidy")
    reader = room.reader()
    first, second, third = hunks(reader.page(address()))
    page = send(reader, "undo", [second], text="ten was right")
    assert "1 change undone, by edit 4." in page
    assert (room.root / "a.txt").read_text() == TEXT.replace("line 1\n", "one\n", 1)
    assert "ten was right" in heard(room)
    assert hunks(page) == [first, third]
    page = send(reader, "undo")
    assert "2 changes undone, by edits 5, 6." in page
    assert (room.root / "a.txt").read_text() == (room.root / "b.txt").read_text() == TEXT
    assert "user of Ada" in reader.page("/history")
    assert "No change is open" in reader.page("/changes"), "what a person does is not to be kept"
    assert "1 change had changed or gone since" in send(reader, "undo", [first])


@pytest.mark.slow
def test_what_others_changed_is_refused_by_name_and_the_others_can_be_undone(room: Room) -> None:
    wrote(room, "one\nmore", "1", task="tidy")
    wrote(room, "two", "2", "b.txt", task="tidy")
    text = (room.root / "a.txt").read_text().replace("more\n", "mine\n")
    (room.root / "a.txt").write_text(text)
    reader = room.reader()
    page = reader.page(address())
    touched, free = hunks(page)
    assert "changed since by another program" in Elements(page).text
    page = send(reader, "undo")
    said = Elements(page.split('id="refused"')[1].split("</div>")[0]).text
    assert "1 change was not undone" in said
    assert "a.txt:1" in said
    assert "others changed it since" in said
    assert f'href="#change-{touched}"' in page
    assert (room.root / "b.txt").read_text() != TEXT, "all or none"
    both = page.split(f'id="change-{touched}"')[1].split("</table>")[0]
    assert "line 1" in Elements(both).text
    assert "one" in Elements(both).text
    form = fields_of(page.split('id="refused"')[1], address(action="/undo"))
    assert form["partly"] == "1"
    assert form["hunks"] == free
    onward = reader.post(address(action="/undo"), form).headers["location"]
    page = reader.page(onward)
    assert "1 change undone" in page
    assert (room.root / "b.txt").read_text() == TEXT
    assert (room.root / "a.txt").read_text() == text


@pytest.mark.slow
def test_a_persons_text_takes_the_place_of_a_hunk(room: Room) -> None:
    wrote(room, "one", "1", task="tidy")
    reader = room.reader()
    (hunk,) = hunks(reader.page(address()))
    page = reader.page(address())
    assert "one\n" in html.unescape(page.split('name="content"')[1].split("</textarea>")[0])
    page = send(reader, "edit", [hunk], content="as Ada has it\r\n")
    assert "Your text is written, by edit 2." in page
    assert (room.root / "a.txt").read_text() == TEXT.replace("line 1\n", "as Ada has it\n", 1)
    assert "a.txt" in heard(room)
    assert "is not open" in send(reader, "edit", [hunk], content="x")


@pytest.mark.slow
def test_a_comment_reaches_the_agent(room: Room) -> None:
    wrote(room, "one", "1", task="tidy")
    reader = room.reader()
    page = send(reader, "comment", text="Why <one>?")
    assert "is told with the next call" in page
    assert "Why <one>?" in heard(room)
    assert len(hunks(page)) == 1
    assert "must not be empty" in send(reader, "comment", text=" ")
    plain = reader.get(address(action="/diff")).text
    assert plain.startswith("diff --git a/a.txt b/a.txt\n")
    assert "-line 1\n+one\n" in plain
    assert reader.get("/changes/diff?path=../x").status_code == 404


@pytest.mark.slow
def test_files_that_came_went_or_moved_are_named(room: Room) -> None:
    done(room, "create_new_file", "tidy", path="new.txt", content="new\n")
    done(room, "prepare_file_delete", "tidy", path="b.txt")
    done(room, "prepare_file_move", "tidy", path="a.txt", to="c.txt")
    reader = room.reader()
    page = reader.page(address())
    text = Elements(page).text
    for words in ("new file", "deleted", "moved from a.txt", "Created", "Removed", "Moved"):
        assert words in text, words
    send(reader, "undo")
    assert sorted(path.name for path in room.root.glob("*.txt")) == ["a.txt", "b.txt"]


@pytest.mark.slow
def test_of_a_large_task_the_first_files_are_shown_and_decided_on(room: Room) -> None:
    for name in "abcdefghi":
        lines = "".join(f"{name} {number}\n" for number in range(350))
        (room.root / f"{name}.txt").write_text("")
        wrote(room, lines, "1~", f"{name}.txt", task="tidy")
    reader = room.reader()
    page = reader.page(address())
    assert len(hunks(page)) == 1, "the first to be seen"
    assert "Keep these 1" in page
    part = {**reader._headers(), "X-Copydesk-Part": "1"}  # as the page's script asks for the rest
    page = reader.http.get(address(), headers=part).text
    assert len(hunks(page)) == 4
    assert "5 more changes in the files" in page
    assert "50 more rows" in page
    assert "Keep these 4" in page
    (link,) = re.findall(r'href="([^"]*)" title="on a page of its own"><span class="path">i', page)
    assert len(hunks(reader.page(html.unescape(link)))) == 1
    send(reader, "keep", hunks(page))
    rest = reader.http.get(address(), headers=part).text
    assert len(hunks(rest)) == 4
    send(reader, "keep", hunks(rest))
    assert "Keep the rest" in reader.page(address())


@pytest.mark.slow
def test_who_needs_approval_does_not_keep_its_own_edits(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    with room_at(tmp_path, desk_at(tmp_path), members={"s3cret": AGENT}) as room:
        wrote(room, "one", "1", task="tidy")
        agent = room.stranger()
        agent.cookies = dict(agent.post("/sign-in", {"token": "s3cret"}).cookies.items())
        page = agent.page(address())
        assert "approved by another person" in page
        assert 'action="/changes' not in page
        assert "You may not undo" in agent.page("/edit/1")
        assert "may not" in send(agent, "keep")
        send(agent, "undo")
        assert (room.root / "a.txt").read_text().startswith("one\n")


DAY_MS = 24 * 3_600_000


@pytest.mark.slow
def test_older_ones_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    now = [1_000_000_000_000]
    with room_at(tmp_path, desk_at(tmp_path, clock=lambda: now[0])) as room:
        wrote(room, "one", "1", task="tidy")
        now[0] += 8 * DAY_MS
        page = room.reader().page("/changes")
        assert "No change is open" in page
        assert "1 older change is open, too." in Elements(page).text
        assert 'id="changed"' not in page
        (link,) = re.findall(r'href="([^"]*)">Show all', page)
        assert len(hunks(room.reader().page(link))) == 1


@pytest.mark.slow
def test_what_selects_nothing_is_a_page_that_says_so(room: Room) -> None:
    reader = room.reader()
    for query in ("path=../x", "task=none", "since=x&path=zz", "path=%00"):
        assert "open" in reader.page(f"/changes?{query}"), query
