"""The page in Chinese: who gets it, and that no text of the page lacks a translation."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest

from copydesk.app.web import markup
from copydesk.app.web.markup import ENVIRONMENT
from support.review_page import AGENT, Reader, Room, desk_at, prepared, room_at

WEB = Path(markup.__file__).parent
TABLE: dict[str, str] = tomllib.loads((WEB / "zh.toml").read_text("utf-8"))
TEMPLATES = sorted((WEB / "templates").iterdir())
CALLS = re.compile(r"\b(?:_|say)\(((?:[^()]|\([^()]*\))*)\)|\|named\((\"[^\"]*\")")
NO_TEXTS = {"-", "_", "", " ", "create", "remove", "until", "{:,}", " by {name}", "s in numbers"}
"""Literals within a call that are parts of a condition, or of a text that is put together."""


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    (tmp_path / "a.py").write_text("one = 1\ntwo = 2\nthree = 3\n")
    with room_at(tmp_path, desk_at(tmp_path)) as made:
        yield made


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_each_text_of_a_template_is_in_the_table(path: Path) -> None:
    """And a template has no words outside of such calls."""
    source = path.read_text("utf-8")
    for expression in re.findall(r"{[{%].*?[%}]}", source, re.S):
        for call in CALLS.finditer(expression):
            for text in re.findall(r'"((?:[^"\\]|\\.)*)"', call[1] or call[2]):
                assert text in TABLE or text in NO_TEXTS, text
    data = "".join(f" {text} " for _, kind, text in ENVIRONMENT.lex(source) if kind == "data")
    data = re.sub(r"<kbd>.*?</kbd>|<svg.*?</svg>", "", data, flags=re.S)
    shown = re.sub(r"<[^>]*>|&[#\w]+;", " ", data).split("<title>")[-1]
    shown = re.sub(r"\b(?:copy|desk|English|copydesk)\b", "", shown)
    assert not re.search(r"[A-Za-z]{2}", re.sub(r'\S*[="/>{]\S*', " ", shown)), shown
    for name, value in re.findall(r' (title|aria-label|placeholder|alt)="([^"{][^"]*)"', source):
        assert value == "src/…", (name, value)


def test_each_text_of_the_script_and_the_code_is_in_the_table() -> None:
    texts = set(re.findall(r'\bsay\("([^"]+)"', (WEB / "static/desk.js").read_text("utf-8")))
    for path in WEB.glob("*.py"):
        code = path.read_text("utf-8")
        texts.update(
            re.findall(r'\b(?:phrase|translated|marked_up|error_page|BadForm)\(\s*"([^"]+)"', code)
        )
        texts.update(re.findall(r'\bnamed\([^"]*?, "([^"]+)"\)', code))
    assert len(texts) > 60
    assert texts - set(TABLE) == set()


def test_a_translation_has_the_places_of_its_text() -> None:
    for text, said in TABLE.items():
        assert sorted(re.findall(r"{[^}]*}", text)) == sorted(re.findall(r"{[^}]*}", said)), text
    code = "".join(path.read_text("utf-8") for path in (*TEMPLATES, *WEB.glob("*.py")))
    code = re.sub(r'"\s*\n\s*"', "", code + (WEB / "static/desk.js").read_text("utf-8"))
    verdict = r"(approved|rejected|amended|split|changes requested)( by \{name\}.*)?"
    parts = re.compile(
        rf"(?i){verdict}|(Members|Files)( in numbers)?|file|member|(apply|replace) .*|no newline|another program"
    )
    unused = [text for text in TABLE if text not in code and not parts.fullmatch(text)]
    assert unused == []


WORDS = {
    *("copydesk", "copy", "desk", "English", "Ada", "writer", "fixer", "diff", "UTC", "Enter"),
    *("Esc", "Ctrl", "Shift", "A", "Y", "tidy", "py", "a", "b", "c", "src", "untidy", "syntax"),
    *("local", "was", "never", "closed"),  # the last ones are what Python says
}


def english(page: str) -> set[str]:
    """The English words that a person would see or hear of a page."""
    page = re.sub(
        r"<kbd>.*?</kbd>|<time.*?</time>|<code>.*?</code>|<table.*?</table>", " ", page, flags=re.S
    )
    page = re.sub(r'<textarea name="content".*?</textarea>', " ", page, flags=re.S)
    heard = re.findall(r' (?:title|aria-label|placeholder|alt)="([^"]*)"', page)
    text = " ".join((re.sub(r"<[^>]*>", " ", page.split("</head>")[1]), *heard))
    text = re.sub(
        r"prepare_\w+|create_new_file|list_edits|\S*/\S*|\b\w*[0-9]\w*\b", " ", unescape(text)
    )
    return set(re.findall(r"[A-Za-z]{2,}", text)) - WORDS


def chinese(room: Room) -> Reader:
    reader = room.reader()
    reader.page("/?lang=zh")
    return reader


@pytest.mark.slow
def test_no_page_has_english_words(room: Room) -> None:
    plan = prepared(
        room.desk, "prepare_file_range_edit", path="a.py", range="2", content="two = (\n"
    )
    edits = [{"old_string": "one = 1", "new_string": "one = 11"}]
    edits += [{"old_string": "three = 3", "new_string": "three = 33"}]
    several = prepared(room.desk, "prepare_batch_edit", path="a.py", edits=edits)
    for given in ({"path": "b.py", "content": "b = 1\n"}, {"path": "c.py", "content": "c = 1\n"}):
        room.desk.call("fixer", "create_new_file", given, task="tidy")
    gone = prepared(room.desk, path="b.py", content="b = 2\n")
    reader = chinese(room)
    reader.send(f"/hunk/{gone}", f"/hunk/{gone}/comment", text="?", line="1", side="new")
    reader.send(f"/hunk/{gone}", f"/hunk/{gone}/reject", reason="?", verdict="rejected")
    pages = [
        *("/", "/?state=broken", "/?state=rejected", "/?state=approved", "/?path=none"),
        *(f"/hunk/{plan}", f"/hunk/{several}", f"/hunk/{gone}", f"/hunk/{plan}?space=hide"),
        f"/together?hunk={plan}&hunk={several}&hunk={gone}",
        *("/changes", "/changes?task=tidy", "/changes?task=none"),
        *("/history", "/history?path=none", "/history?path=../x", "/edit/1", "/edit/99"),
        *("/trends", "/nowhere", "/hunk/01234567", "/hunk/nonsense"),
    ]
    found = {path: words for path in pages if (words := english(reader.get(path).text))}
    assert found == {}
    assert '<html lang="zh-CN"' in reader.page("/")


def test_who_gets_chinese(room: Room) -> None:
    """By the browser's first choice, or the person's own; programs and others get English."""
    http = room.stranger().http
    for accepted, is_chinese in (
        ("zh-CN,zh;q=0.9,en;q=0.8", True),
        ("en-US,zh;q=0.5", False),
        *(("de, zh-TW", True), ("fr", False), ("", False)),
    ):
        answer = http.get("/sign-in", headers={"Accept-Language": accepted})
        assert ("登录" in answer.text) is is_chinese, accepted
    answer = http.get("/nowhere", headers={"Accept-Language": "zh", "Accept": "text/html"})
    assert (answer.status_code, "<h1>操作未成功</h1>" in answer.text) == (404, True)
    reader = chinese(room)
    assert "没有待定的规划" in reader.page("/")
    assert "Nothing is pending" in room.reader("Bob").page("/")
    assert "Nothing is pending" in reader.page("/?lang=en")


@pytest.mark.slow
def test_a_workspace_in_chinese_has_its_page_in_chinese(tmp_path: Path) -> None:
    desk = desk_at(tmp_path)
    object.__setattr__(desk.config, "lang", "zh")
    with room_at(tmp_path, desk) as room:
        prepared(room.desk, by=AGENT, path="a.txt", content="x\n")
        assert "1 个规划，1 个文件" in room.reader().page("/")
