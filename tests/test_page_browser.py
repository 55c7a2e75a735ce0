"""The review page in a real browser: headless Chromium, driven by Playwright.

Debian's Chromium is taken (CHROMIUM names another one). With COPYDESK_SHOTS, a
folder, `test_each_view_fits_and_can_be_used_by_all` leaves its screenshots there.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from copydesk.app.config import MemberConfig
from copydesk.app.workspace import OpenWorkspace, open_workspace
from support.mcp_calls import settings
from support.review_page import AGENT, Room, room_at

pytestmark = pytest.mark.slow
api = pytest.importorskip("playwright.sync_api")

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")
AXE = Path(__file__).parent / "conformance/node_modules/axe-core/axe.min.js"
PATIENCE_MS = 10_000
"""How long is waited for what must come; it comes in a fraction of it."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium: install Debian's package `chromium`, or set CHROMIUM")
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield started
        started.close()


@dataclass
class Scene:
    """A served workspace with an agent at another door of it, and people at browsers."""

    room: Room
    agent: OpenWorkspace
    browser: Any
    contexts: list[Any] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def root(self) -> Path:
        return self.room.root

    def person(self, name: str = "Ada", *, name_label: str = "Your name", **options: Any) -> Any:
        """A tab of a person who has come in with a one-time token; it asks nobody else."""
        wide = {"viewport": {"width": 1280, "height": 800}}
        page = self.tab(**{**wide, **options})
        page.on("dialog", lambda dialog: (self.wrong.append(dialog.message), dialog.dismiss()))
        page.on("console", self._heard)
        page.on("request", self._asked)
        page.goto(f"{self.room.address}/sign-in?token={self.room.tokens[-1]}")
        page.get_by_label(name_label).fill(name)
        page.locator("form button").click()
        page.wait_for_selector("#live.on")
        return page

    def tab(self, **options: Any) -> Any:
        context = self.browser.new_context(**options)
        self.contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        return page

    def call(self, tool: str, by: str = AGENT, **given: Any) -> dict[str, Any]:
        """What the agent's call is answered."""
        return dict(self.agent.call(by, tool, given).fields)

    def prepare(self, path: str = "a.txt", content: str = "new\n", **given: Any) -> str:
        answer = self.call("prepare_file_append", path=path, content=content, **given)
        assert "hunk_id" in answer, answer
        return str(answer["hunk_id"])

    def lines(self, path: str, lines: str, content: str, **given: Any) -> str:
        """The id of a plan for some lines."""
        given |= {"path": path, "range": lines, "content": content}
        return str(self.call("prepare_file_range_edit", **given)["hunk_id"])

    def go(self, page: Any, path: str) -> None:
        page.goto(self.room.address + path)
        page.wait_for_selector("#live.on")

    def _heard(self, message: Any) -> None:
        if message.type == "error" and "status of 40" not in message.text:
            self.wrong.append(message.text)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.room.address, "data:", "blob:")):
            self.wrong.append(request.url)


def opened_by_all(root: Path) -> OpenWorkspace:
    members = {AGENT: MemberConfig(approval="human"), "fixer": MemberConfig()}
    return open_workspace(str(root), settings(members=members))


@contextmanager
def scene_at(
    root: Path, browser: Any, opened: Callable[[Path], OpenWorkspace] = opened_by_all
) -> Iterator[Scene]:
    with opened(root) as desk, opened(root) as agent, room_at(root, desk) as room:
        made = Scene(room, agent, browser)
        try:
            yield made
            assert made.wrong == []
        finally:
            for context in made.contexts:
                context.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.fixture
def scene(root: Path, browser: Any) -> Iterator[Scene]:
    (root / "a.txt").write_text("one\ntwo\nthree\n")
    with scene_at(root, browser) as made:
        yield made


def press(page: api.Page, key: str) -> None:
    """A key for this page: one that comes in its first moment may be meant for the one before."""
    page.wait_for_selector("body[data-ready]")
    page.keyboard.press(key)


def see(page: Any, text: str | re.Pattern[str]) -> None:
    """Wait until the text is seen."""
    found = page.locator("main").get_by_text(text).locator("visible=true").first
    api.expect(found).to_be_visible(timeout=PATIENCE_MS)


def test_an_agents_hunk_appears_without_a_reload(scene: Scene) -> None:
    page = scene.person()
    see(page, "Nothing is pending.")
    page.evaluate("window.here = true")
    given = json.dumps({"path": "made/by/another.txt", "content": "process\n"})
    command = [sys.executable, "-m", "copydesk", "call", "prepare_file_append", given]
    subprocess.run([*command, "--root", str(scene.root)], check=True, capture_output=True)
    see(page, "another.txt")
    scene.agent.call("fixer", "discard_hunk", {"hunk_id": scene.prepare(by="fixer")})
    (scene.root / "made/by").mkdir(parents=True)
    (scene.root / "made/by/another.txt").write_text("in its place\n")
    see(page, "drifted")
    assert page.evaluate("window.here"), "the page was loaded anew"


def test_two_tabs_see_each_others_decisions_and_one_is_first(scene: Scene) -> None:
    hunk = scene.prepare()
    ada, bob = scene.person("Ada"), scene.person("Bob")
    for page in (ada, bob):
        scene.go(page, f"/hunk/{hunk}")
    stale = bob.content()
    bob.evaluate("source.close()")
    ada.get_by_role("button", name="Approve a", exact=True).click()
    see(ada, "is approved")
    scene.go(ada, "/?state=approved")
    see(ada, "approved by Ada")
    assert "Approve " in stale
    bob.get_by_role("button", name="Approve a", exact=True).click()
    see(bob, "Ada was first")
    other = scene.prepare("b.txt")
    scene.go(bob, "/")
    scene.go(ada, f"/hunk/{other}")
    ada.get_by_role("button", name="Approve and apply").click()
    api.expect(bob.locator(f"#hunk-{other}")).to_have_count(0, timeout=PATIENCE_MS)
    assert (scene.root / "b.txt").read_text() == "new\n"


def test_a_reason_reaches_the_agent_with_its_next_call(scene: Scene) -> None:
    hunk = scene.prepare()
    page = scene.person("Ada")
    scene.go(page, f"/hunk/{hunk}")
    press(page, "r")
    page.keyboard.type("Name the <unit>.")
    press(page, "Control+Enter")
    see(page, "is rejected")
    answer = scene.call("read_file", path="a.txt")
    (told,) = answer["decisions"]
    assert (told["verdict"], told["by"], told["reason"]) == ("rejected", "Ada", "Name the <unit>.")
    assert scene.call("apply_file_modification", hunk_id=hunk)["error"] == "HUNK_REJECTED"


def test_a_drift_after_the_approval_asks_again(scene: Scene) -> None:
    hunk = scene.prepare()
    page = scene.person()
    scene.go(page, f"/hunk/{hunk}")
    page.get_by_role("button", name="Approve a", exact=True).click()
    see(page, "is approved")
    scene.go(page, "/?state=approved")
    see(page, "approved by Ada")
    (scene.root / "a.txt").write_text("zero\none\ntwo\nthree\n")
    see(page, "Nothing is approved.")
    page.get_by_role("link", name="Pending 1").last.click()
    see(page, "drifted")
    assert scene.call("apply_file_modification", hunk_id=hunk)["error"] == "APPROVAL_REQUIRED"
    scene.go(page, f"/hunk/{hunk}")
    page.get_by_role("button", name="Approve a", exact=True).click()
    see(page, "is approved")
    assert scene.call("apply_file_modification", hunk_id=hunk)["status"] == "ok"
    assert (scene.root / "a.txt").read_text() == "zero\none\ntwo\nthree\nnew\n"


def test_what_changed_since_it_was_shown_is_not_approved(scene: Scene) -> None:
    hunk = scene.prepare()
    page = scene.person()
    scene.go(page, f"/hunk/{hunk}")
    (scene.root / "a.txt").write_text("zero\none\ntwo\nthree\n")
    see(page, "has changed since this was shown")
    assert page.get_by_role("button", name="Approve a", exact=True).is_disabled()
    page.get_by_role("link", name="Reload").click()
    page.wait_for_selector("#live.on")
    page.evaluate("source.close()")
    (scene.root / "a.txt").write_text("minus one\nzero\none\ntwo\nthree\n")
    page.get_by_role("button", name="Approve a", exact=True).click()
    see(page, "Nothing was decided")
    assert scene.call("apply_file_modification", hunk_id=hunk)["error"] == "APPROVAL_REQUIRED"


def test_three_files_are_written_as_one(scene: Scene) -> None:
    hunks = [scene.prepare(f"{name}.txt") for name in ("x", "y", "z")]
    page = scene.person()
    scene.prepare("w.txt", by="fixer")
    page.wait_for_selector("li.group >> text=fixer")
    group = page.locator("li.group", has_text="writer")
    group.get_by_role("button", name="Select").click()
    see(page, "3 selected")
    assert all(page.locator(f"#hunk-{hunk} input[type=checkbox]").is_checked() for hunk in hunks)
    page.get_by_role("button", name="Review together").click()
    page.wait_for_selector("#live.on")
    page.get_by_role("button", name="Apply all 3 as one").click()
    see(page, "3 plans written as one")
    assert [(scene.root / f"{name}.txt").read_text() for name in "xyz"] == ["new\n"] * 3
    groups = {edit.group for edit in scene.agent.history("fixer")}
    assert len(groups) == 1
    assert groups != {""}


def test_an_edit_is_undone_and_the_undo_too(scene: Scene) -> None:
    scene.call("prepare_file_append", by="fixer", path="a.txt", content="four", apply="auto")
    page = scene.person()
    page.get_by_role("link", name="History").click()
    page.get_by_role("link", name="a.txt").click()
    page.wait_for_url("**/edit/1")
    for text in ("one\ntwo\nthree\n", "one\ntwo\nthree\nfour\n"):
        page.get_by_role("button", name="Undo this edit").click()
        see(page, re.compile(r"is undone, by this one"))
        assert (scene.root / "a.txt").read_text() == text
    scene.go(page, "/edit/1")
    assert page.get_by_role("button", name="Undo this edit").count() == 1


def test_all_can_be_done_by_keyboard(scene: Scene) -> None:
    first = scene.prepare("first.txt")
    second = scene.prepare("second.txt")
    page = scene.tab()
    page.goto(f"{scene.room.address}/sign-in?token={scene.room.tokens[-1]}")
    # A browser moves the focus with its first frame, which may come after the load.
    api.expect(page.get_by_role("button", name="Sign in")).to_be_focused(timeout=PATIENCE_MS)
    press(page, "Enter")
    page.wait_for_selector("#live.on")
    press(page, "?")
    api.expect(page.locator("#help")).to_be_visible()
    press(page, "Escape")
    press(page, "/")
    page.keyboard.type("txt")
    page.wait_for_url("**/?path=txt")
    press(page, "Escape")
    press(page, "j")
    press(page, "j")
    press(page, "Enter")
    page.wait_for_url(f"**/hunk/{second}?path=txt")
    press(page, "v")
    page.wait_for_selector(".diff.unified")
    press(page, "Shift+A")
    page.wait_for_url(f"**/hunk/{first}?path=txt*")
    assert (scene.root / "second.txt").read_text() == "new\n"
    press(page, "a")
    see(page, "is approved")
    page.wait_for_selector("#live.on")
    press(page, "3")
    page.wait_for_url("**/history")
    page.wait_for_selector("#live.on")
    press(page, "j")
    press(page, "Enter")
    page.wait_for_url("**/edit/1")
    press(page, "Shift+U")
    see(page, "is undone")
    assert not (scene.root / "second.txt").exists()


def test_a_key_in_the_first_moment_of_a_page_is_not_lost_without_a_word(scene: Scene) -> None:
    hunk = scene.prepare()
    page = scene.person()
    page.add_init_script("window.setTimeout = () => 0")  # the moment does not end
    scene.go(page, f"/hunk/{hunk}")
    page.keyboard.press("a")
    see(page, "The key a was ignored")
    assert scene.call("apply_file_modification", hunk_id=hunk)["error"] == "APPROVAL_REQUIRED"


def test_the_filter_is_kept_by_each_key_that_leads_on(scene: Scene) -> None:
    first, second = (scene.prepare(f"src/{name}.txt") for name in "ab")
    scene.prepare("other.txt")
    page = scene.person()
    press(page, "/")
    page.keyboard.type("src")
    api.expect(page.locator("#rows > li:not(.group)")).to_have_count(2)
    page.locator(f"#hunk-{first} .open").click()
    page.wait_for_url(f"**/hunk/{first}?path=src")
    press(page, "Shift+A")
    page.wait_for_url(f"**/hunk/{second}?path=src")
    press(page, "u")
    page.wait_for_url("**/?path=src")
    api.expect(page.locator("#rows > li:not(.group)")).to_have_count(1)


def test_hostile_names_and_texts_stay_text(scene: Scene) -> None:
    name = "<img src=x onerror=alert(1)>\u202e\"'.html"
    text = "</textarea><script>alert(2)</script>\x1b[2J\u2066" + "z" * 3_000
    hunk = scene.prepare(name, text + "\n")
    page = scene.person("<b onclick=alert(3)>Eve")
    see(page, "onerror=alert(1)")
    for path in ("/", f"/hunk/{hunk}", f"/together?hunk={hunk}"):
        scene.go(page, path)
        assert page.locator("main script, main img").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    scene.go(page, f"/hunk/{hunk}")
    assert page.get_by_role("button", name="Approve and apply").count() == 0, "it is shown in part"
    page.locator("#decide a.button", has_text="Show all").click()
    page.get_by_role("button", name="Approve and apply").click()
    see(page, "is written")
    assert (scene.root / name).read_text() == text + "\n"
    for path in ("/history", "/edit/1", "/trends"):
        scene.go(page, path)


def test_a_thousand_plans_are_listed_and_filtered(scene: Scene) -> None:
    for index in range(1_000):
        given = {"path": f"many/{index % 50}.txt", "content": f"line {index}\n"}
        scene.room.desk.call("fixer", "prepare_file_append", given)
    page = scene.person()
    rows = page.locator("#rows > li:not(.group)")
    api.expect(rows).to_have_count(100, timeout=PATIENCE_MS)
    first = rows.first.get_attribute("id")
    page.get_by_role("link", name="Next →").click()
    see(page, "1,000 plans in 50 files; 101–200 are listed")
    assert rows.first.get_attribute("id") != first
    page.get_by_role("link", name="← Previous").click()
    see(page, "1–100 are listed")
    page.locator("#filter").fill("many/7.txt")
    api.expect(page.locator("#rows > li:not(.group)")).to_have_count(20, timeout=PATIENCE_MS)
    scene.prepare("many/7.txt", "the last one\n")
    api.expect(page.locator("#rows > li:not(.group)")).to_have_count(21, timeout=PATIENCE_MS)


def test_what_is_typed_before_the_script_ran_filters(scene: Scene) -> None:
    for name in ("one.md", "two.md"):
        scene.prepare(name)
    page = scene.person()
    held: list[Any] = []
    page.route("**/static/desk.js", lambda route: held.append(route))
    page.goto(scene.room.address, wait_until="commit")
    rows = page.locator("#rows > li:not(.group)")
    api.expect(rows).to_have_count(2, timeout=PATIENCE_MS)
    page.locator("#filter").fill("two")
    (script,) = held
    script.continue_()
    api.expect(rows).to_have_count(1, timeout=PATIENCE_MS)


def test_a_plan_in_conflict_is_planned_anew(scene: Scene) -> None:
    hunk = scene.lines("a.txt", "2", "TWO")
    scene.agent.desk.show(scene.agent.member(AGENT), hunk)
    (scene.root / "a.txt").write_text("one\ntwo and a half\nthree\n")
    page = scene.person()
    scene.go(page, f"/hunk/{hunk}")
    for words in ("As it was", "As planned", "As it is"):
        see(page, words)
    press(page, "e")
    field_ = page.get_by_label("The new text of lines 2 to 2")
    api.expect(field_).to_have_value("TWO\n")
    field_.fill("TWO and a half\n")
    page.get_by_role("button", name="Preview").click()
    see(page, "not approved yet")
    page.get_by_role("button", name="Approve and apply").click()
    see(page, "is written")
    assert (scene.root / "a.txt").read_text() == "one\nTWO and a half\nthree\n"


def age(scene: Scene, hunk: str) -> None:
    """Make of the plan one of six days ago."""
    plan = scene.agent.registry.plan(hunk, 0)
    days, hours = 6 * 24 * 3_600_000, 4 * 3_600_000
    made, ends = plan.created_ms - days, plan.expires_ms - days - hours
    scene.agent.registry.put(replace(plan, created_ms=made, expires_ms=ends))


def test_the_other_forms(scene: Scene) -> None:
    """A comment on a line, parts, a decision taken back, several rejected, the tree of files."""
    (scene.root / "many.txt").write_text("".join(f"{n}\n" for n in range(1, 31)))
    edits = [{"old_string": f"{n}\n", "new_string": f"new {n}\n"} for n in (12, 25)]
    hunk = scene.call("prepare_batch_edit", path="many.txt", edits=edits)["hunk_id"]
    others = [scene.prepare(f"docs/{name}.md") for name in "ab"]
    page = scene.person()
    page.locator("#tree").get_by_role("link", name="many.txt").click()
    api.expect(page.locator("#rows > li:not(.group)")).to_have_count(1)
    page.locator(f"#hunk-{hunk} .open").click()
    page.wait_for_selector("body[data-ready]")
    page.locator("td.number.come").first.click()
    api.expect(page.get_by_label("Line")).to_have_value("12")
    page.locator("#comment textarea").fill("Why twelve?")
    page.get_by_role("button", name="Comment").click()
    see(page, "on line 12 after the change")
    (told,) = scene.call("read_file", path="a.txt")["decisions"]
    assert (told["line"], told["side"], told["reason"]) == (12, "new", "Why twelve?")
    page.get_by_role("button", name="Approve a", exact=True).click()
    see(page, "is approved")
    scene.go(page, f"/hunk/{hunk}")
    page.get_by_role("button", name="Withdraw approval").click()
    see(page, "Your decision is withdrawn.")
    page.get_by_role("button", name="Split into parts").click()
    see(page, "It is 2 plans now")
    api.expect(page.locator("#rows > li:not(.group)")).to_have_count(2)
    scene.go(page, f"/hunk/{others[0]}")
    scene.go(page, "/?path=docs")
    api.expect(page.locator(f"#hunk-{others[0]} .badge", has_text="viewed")).to_be_visible()
    page.get_by_role("button", name="Select").click()
    press(page, "Shift+A")
    page.wait_for_url("**/together*")
    press(page, "r")
    page.keyboard.type("No documents now.")
    page.get_by_role("button", name="Reject all").click()
    see(page, "2 plans rejected.")
    for one in others:
        assert scene.call("apply_file_modification", hunk_id=one)["reason"] == "No documents now."


def test_a_plan_is_decided_on_where_it_is_shown(scene: Scene) -> None:
    """In place: a part of a plan, a suggestion at a line, one of several; and the way back."""
    (scene.root / "many.txt").write_text("".join(f"line {n}\n" for n in range(1, 31)))
    edits = [{"old_string": f"line {n}\n", "new_string": f"new {n}\n"} for n in (2, 12, 25)]
    hunk = scene.call("prepare_batch_edit", path="many.txt", edits=edits)["hunk_id"]
    others = [scene.prepare(f"docs/{name}.md") for name in "abc"]
    others.append(scene.prepare("bad.py", "x = (\n"))
    page = scene.person()
    see(page, "1 plan breaks a check.")
    api.expect(page.locator(f"#hunk-{others[3]} .badge.bad")).to_have_text("breaks a check")
    scene.go(page, f"/hunk/{hunk}")
    page.locator("td.number.come").nth(1).click()
    form = page.locator(".diff tr.said form")
    api.expect(form.get_by_label("Line")).to_have_value("12")
    form.get_by_role("button", name="Suggest another text").click()
    page.keyboard.type("twelve")
    form.get_by_role("button", name="Comment").click()
    see(page, "is told your comment")
    (told,) = scene.call("read_file", path="a.txt")["decisions"]
    assert (told["line"], told["reason"]) == (12, "```suggestion\ntwelve\n```")
    api.expect(page.locator(".diff tr.said")).to_contain_text("twelve")
    press(page, "e")
    field_ = page.get_by_label("The new text")
    field_.fill(field_.input_value().replace("new 25", "25, as Ada has it"))
    page.get_by_role("button", name="Preview").click()
    see(page, "not approved yet")
    page.locator(".part").nth(1).get_by_role("button", name="Approve and apply this part").click()
    see(page, "many.txt is written")
    lines = (scene.root / "many.txt").read_text().splitlines()
    assert (lines[1], lines[11], lines[24]) == ("line 2", "new 12", "line 25")
    press(page, "z")
    see(page, "is undone, by this one")
    assert (scene.root / "many.txt").read_text().splitlines()[11] == "line 12"
    page.goto(f"{scene.room.address}/together?" + "&".join(f"hunk={one}" for one in others))
    page.wait_for_selector("body[data-ready]")
    see(page, "1 of 4 plans breaks a check.")
    press(page, "j")
    press(page, "o")
    api.expect(page.locator(".plan.here")).to_have_class(re.compile("collapsed"))
    press(page, "y")
    see(page, "docs/b.md is approved")
    api.expect(page.locator("#rows > .plan")).to_have_count(3)
    assert scene.call("apply_file_modification", hunk_id=others[1])["status"] == "ok"
    press(page, "d")
    page.keyboard.type("No.")
    page.locator(".plan.here").get_by_role("button", name="Reject", exact=True).click()
    see(page, "docs/a.md is rejected")
    press(page, "z")
    see(page, "1 plan to be decided on again.")
    press(page, "a")
    see(page, "1 plan approved.")
    press(page, "z")
    see(page, "1 plan to be decided on again.")


def test_white_space_alone_is_hidden_and_shown(scene: Scene) -> None:
    """What is hidden is not shown, so that it can only be approved when it was seen."""
    (scene.root / "b.py").write_text("if x:\n  one\n  two\n")
    hunk = scene.lines("b.py", "2~3", "    one\n    three\n")
    page = scene.person()
    scene.go(page, f"/hunk/{hunk}?space=hide")
    api.expect(page.locator(".diff tr.changed")).to_have_count(1)
    assert page.get_by_role("button", name="Approve a").count() == 0
    press(page, "w")
    api.expect(page.locator(".diff tr.changed")).to_have_count(2)
    scene.go(page, f"/hunk/{hunk}")
    press(page, "w")
    api.expect(page.locator(".diff tr.changed")).to_have_count(1)
    api.expect(page.get_by_role("button", name="Approve a", exact=True)).to_be_visible()


TEAM = ("ann", "ben", "cyd")


def team_at(root: Path, text: str, files: int, approval: str, lang: str = "en") -> list[Path]:
    """Lay files and a configuration in which each of the team has this approval."""
    names = "".join(f'[members.{name}]\napproval = "{approval}"\n' for name in TEAM)
    (root / "copydesk.toml").write_text(f'durability = "fast"\nlang = "{lang}"\n{names}')
    paths = [root / f"file{number}.txt" for number in range(files)]
    for path in paths:
        path.write_text(text)
    return paths


def by_file(root: Path) -> OpenWorkspace:
    return open_workspace(str(root))


def test_a_person_reviews_what_three_agents_planned(root: Path, browser: Any) -> None:
    """Forty plans of three tasks in twelve files, from the first look to the log of approvals."""
    team_at(root, "".join(f"line {n}\n" for n in range(1, 41)), 12, "human")
    with scene_at(root, browser, by_file) as scene:
        agent = scene.agent
        plans: dict[str, list[str]] = {name: [] for name in TEAM}
        for number in range(40):
            by = TEAM[number % 3]
            given = {"path": f"file{number % 12}.txt", "range": str(number // 12 * 9 + 3)}
            given |= {"content": f"{by} {number}\n", "why": f"reason {number}"}
            said = agent.call(by, "prepare_file_range_edit", given, task=f"task of {by}")
            plans[by].append(str(said.fields["hunk_id"]))
        began = time.monotonic()
        page = scene.person("Ada")
        api.expect(page.locator("li.group")).to_have_count(3)
        see(page, "40 plans in 12 files")
        told: dict[str, dict[str, str]] = {name: {} for name in TEAM}
        for members, at, key, words, button, verdict in (
            (TEAM, 0, "m", "Why so", "Comment", "commented"),
            (TEAM[:2], 1, "r", "Say it shorter", "Request changes", "changes_requested"),
            (TEAM[1:], 2, "r", "Not needed", "Reject", "rejected"),
        ):
            for name in members:
                scene.go(page, f"/hunk/{plans[name][at]}")
                press(page, key)
                page.keyboard.type(f"{words}, {name}.")
                page.get_by_role("button", name=button, exact=True).click()
                page.wait_for_selector("#notices .notice")
                told[name][plans[name][at]] = verdict
        scene.go(page, f"/hunk/{plans['cyd'][3]}")
        press(page, "e")
        page.get_by_label("The new text").fill("cyd, as Ada has it\n")
        page.get_by_role("button", name="Preview").click()
        see(page, "not approved yet")
        approved = 0
        for name in TEAM:
            scene.go(page, "/")
            group = page.locator("li.group", has_text=f"task of {name}")
            group.get_by_role("link", name="Review together").click()
            page.wait_for_selector("#live.on")
            count = len(plans[name]) - sum(one != "commented" for one in told[name].values())
            page.get_by_role("button", name=f"Approve all {count} a", exact=True).click()
            see(page, f"{count} plans approved.")
            approved += count
        see(page, "Nothing is pending.")
        took = time.monotonic() - began
        assert approved == 36
        for name in TEAM:  # an answer tells the first five, the next ones the others
            heard: list[dict[str, Any]] = []
            for _ in range(6):
                answer = agent.call(name, "read_file", {"path": "file0.txt"})
                heard += answer.fields.get("decisions", [])
            decided = {each for each, what in told[name].items() if what != "commented"}
            ready = [each for each in plans[name] if each not in decided]
            expected = {*told[name].items(), *((each, "approved") for each in ready)}
            if name == "cyd":
                expected |= {(plans["cyd"][3], "amended")}
            assert {(one["hunk_id"], one["verdict"]) for one in heard} == expected
            assert all(one["by"] == "Ada" for one in heard)
            assert sum(name in one.get("reason", "") for one in heard) == len(told[name])
            done = agent.call(name, "apply_file_modifications", {"hunk_ids": ready})
            assert done.fields["status"] == "ok", done.text
        for name in TEAM[:2]:
            given = {"path": f"file{3 + TEAM.index(name)}.txt", "range": "3", "content": name}
            given |= {"existing_hunk_id": plans[name][1], "why": f"shorter now, {name}"}
            assert not agent.call(name, "prepare_file_range_edit", given).is_error
            scene.go(page, f"/hunk/{plans[name][1]}")
            see(page, f"shorter now, {name}")
            page.get_by_role("button", name="Approve and apply").click()
            see(page, "is written")
        edits = agent.history("local", most=100)
        assert len(edits) == 38
        assert all(edit.approval is not None and edit.approval.by == "Ada" for edit in edits)
        amended = [edit.hunk_id for edit in edits if edit.approval and edit.approval.amended_by]
        assert amended == [plans["cyd"][3]]
        scene.go(page, "/history")
        api.expect(page.get_by_text("approved by Ada")).to_have_count(38)
        see(page, re.compile("shorter now, ben"))
        command = [sys.executable, "-m", "copydesk", "approvals", "--root", str(root)]
        log = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        kept = root.parent / "log"
        kept.write_text(log)
        logged = {json.loads(line)["hunk_id"] for line in log.splitlines()}
        every = {each for name in TEAM for each in plans[name]}
        assert logged == every - {plans["ben"][2], plans["cyd"][2]}
        subprocess.run([*command, "--check", str(kept)], check=True)
        print(f"the review of 40 plans took {took:.1f} s in the browser")


class Keyboard:
    """A person's keys, which are counted, each when the page is ready for it."""

    def __init__(self, page: Any) -> None:
        self._page, self.count, self.began = page, 0, time.monotonic()

    def __call__(self, *keys: str) -> None:
        for key in keys:
            self._page.wait_for_selector("body[data-ready]")
            self._page.keyboard.press(key)
            self.count += 1

    def sends(self, *keys: str) -> None:
        """The last key sends a form, which leads to another page."""
        self(*keys[:-1])
        self._page.wait_for_selector("body[data-ready]")
        with self._page.expect_navigation(wait_until="load"):
            self(keys[-1])

    def types(self, text: str) -> None:
        self._page.keyboard.type(text)
        self.count += len(text)

    def told(self, what: str) -> None:
        print(f"{what}: {self.count} keys, {time.monotonic() - self.began:.0f} s")


class Editor(threading.Thread):
    """An editor in which a person adds lines at the end of files; it saves by another name."""

    def __init__(self, files: list[Path]) -> None:
        super().__init__(daemon=True)
        self._files, self.typed, self.closed = files, 0, threading.Event()

    def run(self) -> None:
        while not self.closed.wait(0.7):
            path = self._files[self.typed % len(self._files)]
            saved = path.with_name(f".{path.name}.swp")
            saved.write_text(path.read_text() + f"typed {self.typed}\n")
            saved.replace(path)
            self.typed += 1


@pytest.mark.parametrize(("lang", "hunks", "plans"), [("en", 60, 43), ("zh", 12, 8)])
def test_three_agents_and_an_editor_are_reviewed_by_keyboard_alone(
    root: Path, browser: Any, lang: str, hunks: int, plans: int
) -> None:
    """Hunks are kept or undone and plans decided, while a person types in the same files."""
    text = "".join(f"line {n}\n" for n in range(1, 201))
    files = team_at(root, text, 6, "self", lang)
    editor = Editor(files)
    with scene_at(root, browser, by_file) as scene:
        agent = scene.agent
        for number in range(hunks):
            by, path = TEAM[number % 3], files[number % 6].name
            given = {"path": path, "range": str(number // 6 * 12 + number % 6 + 5)}
            given |= {"content": f"{by} {number}", "why": f"reason {number}"}
            said = agent.call(by, "prepare_file_range_edit", given, task=f"task of {by}")
            hunk = {"hunk_id": said.fields["hunk_id"]}
            done = agent.call(by, "apply_file_modification", hunk, task=f"task of {by}")
            assert done.fields["status"] == "ok", done.text
        for number in range(plans):
            given = {"path": f"plan{number}.txt", "content": f"plan {number}\n"}
            agent.call(TEAM[number % 3], "prepare_file_append", given, task="plans")
        page = scene.person("Ada", name_label="Your name" if lang == "en" else "你的名字")
        editor.start()
        press = Keyboard(page)
        for _ in TEAM:
            press.sends("2")
            press("j")
            press.sends("Enter")
            for at in range(hunks // len(TEAM)):
                press.sends("u" if at % 3 == 2 else "k")
        press.told(f"{hunks} hunks ({lang})")
        assert press.count == hunks + 3 * len(TEAM)
        written = "".join(path.read_text() for path in files)
        kept = sum(f"{TEAM[number % 3]} {number}\n" in written for number in range(hunks))
        assert kept == hunks - len(TEAM) * (hunks // len(TEAM) // 3)
        press = Keyboard(page)
        press.sends("1")
        press("j")
        press.sends("Enter")
        for number in range(plans):
            if number % 7 == 6:
                press("r")
                press.types("No.")
                press.sends("Control+Enter")
            else:
                press.sends("Shift+A" if number % 2 else "a")
        press.told(f"{plans} plans ({lang})")
        api.expect(page.locator("#waiting")).to_have_count(0)
        editor.closed.set()
        editor.join()
        lines = "".join(path.read_text() for path in files).splitlines()
        assert sum(line.startswith("typed ") for line in lines) == editor.typed > hunks // 6


CODE = '''"""How long a line is."""

WIDTH = 80


def wrap(text, width=WIDTH):
    """Lines of at most `width` characters."""
    lines = []
    for word in text.split(" "):
        if not lines or len(lines[-1]) + len(word) > width:
            lines.append(word)
        else:
            lines[-1] += " " + word
    return lines


def fill(text):
    return "\\n".join(wrap(text))
'''
NEW = '''    """Lines of at most `width` characters, the words of each parted by one blank."""
    lines: list[str] = []
    for word in text.split():
        if not lines or len(lines[-1]) + 1 + len(word) > width:
'''
GUIDE = "# Guide\n\nFirst, {} this.\n\n{}- one\n- two\n"
MARK = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><circle r="4" cx="5" cy="5"/></svg>\n'
FILL = 'def fill(text, width=WIDTH):\n    return "\\n".join(wrap(text, width))\n'


def furnished(scene: Scene) -> dict[str, str]:
    """A workspace as it may look after an hour; the addresses of all views by name."""
    review, local = scene.agent.desk.review, scene.agent.member("local")
    guide = scene.root / "docs/guide.md"
    for path, text in (("src/wrap.py", CODE), ("docs/guide.md", GUIDE.format("read", ""))):
        (scene.root / path).parent.mkdir()
        (scene.root / path).write_text(text)
    for index, by in enumerate(("fixer", "fixer", "local", "fixer", "local", "writer", "fixer")):
        given = {"path": f"notes/{index % 3}.md", "content": f"- note {index}\n", "apply": "auto"}
        scene.agent.call(by, "prepare_file_append", given)
    scene.lines("docs/guide.md", "3", "First, skim this.", by="fixer")
    scene.prepare("docs/new.md", "# New\n", by="fixer")
    insert = {"path": "docs/guide.md", "anchor": "- two", "content": "- three"}
    moved = str(scene.call("prepare_file_insert_after", **insert)["hunk_id"])
    told = scene.lines("src/wrap.py", "7~10", NEW)
    guide.write_text(GUIDE.format("study", "- zero\n"))
    conflict = next(one.plan.id for one in review.pending(local) if one.state == "conflict")
    age(scene, moved)
    review.comment(local, moved, "Where does three come from?", 7)
    scene.lines("src/wrap.py", "3", "WIDTH = (80\n", by="fixer", why="a wider page")
    (scene.root / "docs/mark.svg").write_text(MARK)
    coloured = MARK.replace("/>", ' fill="#2450c8"/>')
    picture = scene.lines("docs/mark.svg", "1", coloured, by="fixer")
    refused = scene.prepare("notes/0.md", by="local")
    (scene.root / "notes/0.md").unlink()
    scene.call("apply_file_modification", by="local", hunk_id=refused)
    scene.call("discard_hunk", by="local", hunk_id=refused)
    carried = scene.prepare("notes/1.md", by="fixer")
    (scene.root / "notes/1.md").write_text("before all\n- note 1\n")
    scene.call("apply_file_modification", by="fixer", hunk_id=carried)
    assert {fared.how for fared in scene.agent.tally.noted()} == {"fuzz", "rejected"}
    task = scene.agent.desk.changes.tasks(local)[0].key
    return {
        "pending": "/",
        "review": f"/hunk/{told}",
        "column": f"/hunk/{told}?view=unified",
        "conflict": f"/hunk/{conflict}",
        "expiring": f"/hunk/{moved}",
        "picture": f"/hunk/{picture}",
        "gone": "/hunk/01234567",
        "together": f"/together?hunk={told}&hunk={moved}",
        "changes": "/changes",
        "change": f"/changes?task={quote(task)}",
        "history": "/history",
        "edit": "/edit/2",
        "trends": "/trends",
    }


LOOKS = [
    *(
        (scheme, width, lang)
        for lang in ("en", "zh")
        for scheme in ("light", "dark")
        for width in (1400, 390)
    ),
    *(("light", width, "en") for width in (800, 360)),
]


def each_look(scene: Scene, then: Callable[[Any, str, str], None]) -> None:
    """Call `then` with each view, light and dark, on a desktop and on a phone, in both languages."""
    views = furnished(scene)
    state = scene.person("Ada").context.storage_state()
    for scheme, width, lang in LOOKS:
        options = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
        page = scene.tab(storage_state=state, **options)
        look = f"{scheme}-{width}" + "-zh" * (lang == "zh")
        scene.go(page, f"/?lang={lang}")
        for name, path in views.items():
            scene.go(page, path)
            then(page, name, look)
        press(page, "?")
        page.wait_for_selector("#help[open]")
        then(page, "help", look)
        page.context.clear_cookies()
        page.set_extra_http_headers({"Accept-Language": lang})
        page.goto(f"{scene.room.address}/sign-in?token={scene.room.tokens[-1]}")
        then(page, "sign-in", look)
        page.goto(f"{scene.room.address}/nowhere")
        api.expect(page.locator("h1")).to_be_visible()
        then(page, "error", look)


def _written(scene: Scene, path: str, content: str, lines: str, **given: str) -> None:
    task = given.pop("task", "words and widths")
    given |= {"path": path, "content": content, "range": lines}
    planned = scene.agent.call("fixer", "prepare_file_range_edit", given, task=task)
    hunk_id = {"hunk_id": planned.fields["hunk_id"]}
    done = scene.agent.call("fixer", "apply_file_modification", hunk_id, task=task)
    assert not done.is_error, done.text


@pytest.mark.parametrize("width", [1400, 390])
def test_changes_are_kept_and_undone_by_keys(scene: Scene, width: int) -> None:
    """A person walks through the hunks while the agent goes on."""
    folder = os.environ.get("COPYDESK_SHOTS")
    (scene.root / "src").mkdir()
    (scene.root / "src/wrap.py").write_text(CODE)
    (scene.root / "notes.txt").write_text("".join(f"note {n}\n" for n in range(1, 60)))
    _written(scene, "src/wrap.py", NEW, "7~10", why="the words of a line are parted by one blank")
    _written(scene, "src/wrap.py", FILL, "17~18", why="a width of its own")
    for number in (3, 20, 40):
        _written(scene, "notes.txt", f"a note of {number}\nand a second line", str(number))
    page = scene.person(viewport={"width": width, "height": 844})

    def shot(name: str) -> None:
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
        if folder:
            page.screenshot(path=f"{folder}/{name}-{width}.png")
        if AXE.exists():
            page.evaluate(AXE.read_text("utf-8"))
            assert [one["id"] for one in page.evaluate("axe.run()")["violations"]] == [], name

    scene.go(page, "/changes")
    api.expect(page.locator("#changed")).to_have_text("5")
    shot("changes")
    page.get_by_role("link", name="words and widths").click()
    page.wait_for_selector("body[data-ready]")
    api.expect(page.locator(".change")).to_have_count(5)
    shot("change")
    for key, at in (("j", 1), ("n", 3), ("p", 0)):
        press(page, key)
        api.expect(page.locator(".change").nth(at)).to_have_class(re.compile("here"))
    press(page, "k")
    see(page, "1 change kept.")
    api.expect(page.locator(".change")).to_have_count(4)
    api.expect(page.locator(".change").nth(0)).to_have_class(re.compile("here"))
    press(page, "u")
    see(page, "1 change undone")
    press(page, "e")
    page.locator(".change.here textarea[name=content]").fill("in Ada's words\n")
    shot("change-edit")
    _written(scene, "notes.txt", "first", "1")  # it comes in without disturbing who types
    api.expect(page.locator(".change")).to_have_count(4)
    press(page, "Control+Enter")
    see(page, "Your text is written")
    press(page, "c")
    page.keyboard.type("Why so?")
    page.get_by_role("button", name="Comment", exact=True).click()
    see(page, "is told with the next call")
    code = (scene.root / "src/wrap.py").read_text().replace("text.split()", "text.split(None)")
    (scene.root / "src/wrap.py").write_text(code)
    see(page, "changed since by another program")
    page.get_by_role("button", name="Undo the rest").click()
    see(page, "not undone")
    page.wait_for_selector("#live.on")
    shot("change-refused")
    page.get_by_role("button", name="Undo the other").click()
    see(page, "undone, by edit")
    left = (scene.root / "src/wrap.py").read_text()
    assert "text.split(None)" in left
    assert "def fill(text):" in left


def test_each_view_fits_and_can_be_used_by_all(scene: Scene) -> None:
    """No view is wider than its window; axe-core, where it is installed, finds nothing wrong."""
    folder = os.environ.get("COPYDESK_SHOTS")
    script = AXE.read_text("utf-8") if AXE.exists() else None
    found: list[tuple[str, str, str, str]] = []

    def then(page: Any, name: str, look: str) -> None:
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (name, look)
        segments = "[...document.querySelectorAll('.segments')]"
        assert page.evaluate(f"{segments}.every((e) => e.scrollWidth <= e.clientWidth)"), (
            *(name, look),
            "a choice is cut off",
        )
        if folder:
            page.screenshot(path=f"{folder}/{name}-{look}.png")
        if script is None:
            return
        page.evaluate(script)
        for wrong in page.evaluate("axe.run()")["violations"]:
            found.extend((name, look, wrong["id"], node["html"][:200]) for node in wrong["nodes"])

    each_look(scene, then)
    assert found == []
    if script is None:
        pytest.skip("axe-core is not installed: tests/conformance/setup.sh")


def test_a_narrow_screen_has_the_unified_view(scene: Scene) -> None:
    """Of a run all old lines, then all new ones, in both views; wrapped lines hang."""
    (scene.root / "a.txt").write_text("".join(f"{name} {'word ' * 30}\n" for name in "abcdef"))
    content = "".join(f"{name} {'new ' * 30}\n" for name in "bcx")
    hunk = scene.lines("a.txt", "2~3", content)
    page = scene.person(viewport={"width": 360, "height": 800})
    seen: list[list[str]] = []
    for view in ("split", "unified"):
        page.goto(f"{scene.room.address}/hunk/{hunk}?view={view}")
        page.wait_for_selector("body[data-ready]")
        cells = page.locator(".diff td.text")
        boxes = [(cell.bounding_box(), cell) for cell in cells.all()]
        placed = sorted((box["y"], cell) for box, cell in boxes if box)
        assert len({y for y, _ in placed}) == len(placed), "a line of its own for each"
        seen.append([(cell.inner_text() or "")[:3].strip() for _, cell in placed])
        assert page.locator(".segments").first.is_visible() is False
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        style = "getComputedStyle(document.querySelector('.diff td.text')).textIndent"
        assert page.evaluate(style).startswith("-")
    assert seen[0] == seen[1]
    assert [text[0] for text in seen[0]] == [*"a", *"−−", *"+++", *"def"]
