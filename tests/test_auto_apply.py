"""`apply: "auto"` takes an edit of lines that the member was shown, or gives; else the plan comes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from copydesk.app.config import Config, MemberConfig
from copydesk.app.workspace import OpenWorkspace, open_workspace
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot
from support.mcp_calls import settings

Facts = dict[str, Any]

LINES = [f"line {number}" for number in range(1, 61)]
TEXT = "".join(f"{line}\n" for line in LINES)
VERSION = Snapshot.of(TEXT.encode()).version
FILE = RelPath.parse("a.txt")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[OpenWorkspace]:
    """A workspace with one file, for two members."""
    (tmp_path / "a.txt").write_text(TEXT)
    members = {name: MemberConfig() for name in ("ann", "bob")}
    with open_workspace(str(tmp_path), settings(members=members), shared=False) as opened:
        yield opened


def call(desk: OpenWorkspace, tool: str, /, by: str = "ann", **arguments: object) -> Facts:
    return dict(desk.call(by, tool, arguments).data)


def told(desk: OpenWorkspace, tool: str, /, by: str = "ann", **arguments: object) -> Facts:
    """What a call answers that has to do what was asked for."""
    answer = desk.call(by, tool, arguments)
    assert not answer.is_error, answer.text
    answer.text  # noqa: B018 - it is rendered, as for a client
    return dict(answer.data)


def shown(
    desk: OpenWorkspace, version: str = VERSION, by: str = "ann", path: str = "a.txt"
) -> set[int]:
    """The lines, from 1, that the member is known to have been shown."""
    found = desk._backend.bases.shown(by, RelPath.parse(path), version)
    runs = found.runs if found else ()
    return {line + 1 for start, stop in runs for line in range(start, stop)}


def edit(desk: OpenWorkspace, lines: str, version: str = VERSION, **more: object) -> Facts:
    """An edit at once that shows nothing."""
    given = {"path": "a.txt", "range": lines, "version": version, "content": "new\n"}
    asked = {**given, "apply": "auto", "report": "brief", **more}
    return told(desk, "prepare_file_range_edit", **asked)


def written(facts: Facts) -> bool:
    """Whether the edit was made at once; else the plan came back, with a reason."""
    assert ("auto_apply" in facts) != ("edit_id" in facts), facts
    return "edit_id" in facts


def run(first: int, last: int) -> set[int]:
    return set(range(first, last + 1))


Way = Callable[[OpenWorkspace], object]

READS: dict[str, tuple[Way, set[int]]] = {
    "read_file": (lambda d: told(d, "read_file", path="a.txt"), run(1, 60)),
    "read_file, a range": (lambda d: told(d, "read_file", path="a.txt", range="5~9"), run(5, 9)),
    "read_file, the end": (lambda d: told(d, "read_file", path="a.txt", range="-4~"), run(57, 60)),
    "read_file, cut": (lambda d: told(d, "read_file", path="a.txt", max_lines=7), run(1, 7)),
    "Read": (lambda d: told(d, "Read", path="a.txt", start_line=8, limit=3), run(8, 10)),
    "read_text_file": (lambda d: told(d, "read_text_file", path="a.txt", head=4), run(1, 4)),
    "read_text_file, the end": (
        lambda d: told(d, "read_text_file", path="a.txt", tail=2),
        run(59, 60),
    ),
    "the editor's view": (
        lambda d: told(
            d, "str_replace_based_edit_tool", command="view", path="a.txt", view_range=[3, 6]
        ),
        run(3, 6),
    ),
    "ripgrep_snippets": (
        lambda d: told(d, "ripgrep_snippets", pattern="line [34]2$", context_after=2),
        run(31, 34) | run(41, 44),
    ),
    "ripgrep_fixed": (
        lambda d: told(d, "ripgrep_fixed", literal="line 20", context_before=2),
        run(18, 21),
    ),
    "ripgrep_search": (
        lambda d: told(d, "ripgrep_search", pattern="line 2[67]", rg_args=["-C", "1"]),
        run(25, 28),
    ),
    "ripgrep_files": (lambda d: told(d, "ripgrep_files", pattern="line"), set()),
    "ripgrep_count": (lambda d: told(d, "ripgrep_count", pattern="line"), set()),
    "nothing": (lambda d: None, set()),
    "another member's reading": (lambda d: told(d, "read_file", by="bob", path="a.txt"), set()),
}


def check(desk: OpenWorkspace, lines: set[int]) -> None:
    """Edits of shown lines are made at once, of any other line they are not."""
    assert shown(desk) == lines
    beside = min(run(1, 61) - lines - {61}, default=0)
    if beside:
        found = edit(desk, str(beside))
        assert not written(found)
        assert f"lines {beside}~{beside} of version {VERSION}" in found["auto_apply_reason"]
    if lines:
        assert written(edit(desk, str(max(lines))))


@pytest.mark.parametrize("way", READS)
def test_an_edit_of_lines_that_were_read_or_found_is_made_at_once(
    desk: OpenWorkspace, way: str
) -> None:
    call_it, lines = READS[way]
    call_it(desk)
    check(desk, lines)


def test_a_version_alone_proves_nothing(desk: OpenWorkspace, tmp_path: Path) -> None:
    for lines in ("3", "~", "2~4"):
        found = edit(desk, lines)
        assert not written(found)
        assert "were not shown to you" in found["auto_apply_reason"]
    assert (tmp_path / "a.txt").read_text() == TEXT
    text = desk.call(
        "ann",
        "prepare_file_range_edit",
        {"path": "a.txt", "range": "3~5", "version": VERSION, "apply": "auto", "content": ""},
        lang="zh",
    ).text
    assert f"第 3~5 行在版本 {VERSION} 中未曾展示给你" in text


def test_expected_old_is_proof_enough(desk: OpenWorkspace) -> None:
    assert written(edit(desk, "33~34", expected_old="line 33\nline 34\n"))
    assert written(edit(desk, "9", version="", expected_old="line 9"))


def test_what_replaces_nothing_needs_no_proof(desk: OpenWorkspace) -> None:
    after = {"path": "a.txt", "anchor": "line 7", "match": "equals", "apply": "auto"}
    assert written(told(desk, "prepare_file_insert_after", **after, content="x\n"))
    assert written(told(desk, "prepare_file_append", path="a.txt", content="x\n", apply="auto"))
    assert written(
        told(desk, "prepare_file_range_edit", path="a.txt", range="63~", content="x", apply="auto")
    )


def test_a_deletion_and_the_whole_file(desk: OpenWorkspace) -> None:
    told(desk, "read_file", path="a.txt", range="2~60")
    assert not written(edit(desk, "~"))
    assert not written(edit(desk, "1~2", content=""))
    assert "lines 1~1 of" in edit(desk, "~9")["auto_apply_reason"]
    assert written(edit(desk, "2~3", content=""))
    told(desk, "read_file", path="a.txt", range="1")
    version = told(desk, "read_file", path="a.txt", range="1")["version"]
    assert written(edit(desk, "~", version=version))


def test_a_block_is_taken_when_what_is_between_the_anchors_was_shown(desk: OpenWorkspace) -> None:
    told(desk, "ripgrep_search", pattern="line 1[024]$")
    block = {"path": "a.txt", "start_anchor": "line 10", "match": "equals", "version": VERSION}
    block |= {"content": "x\n", "apply": "auto", "report": "brief"}
    assert not written(told(desk, "prepare_file_block_replace", **block, end_anchor="line 12"))
    told(desk, "read_file", path="a.txt", range="11")
    inner = told(desk, "prepare_file_block_replace", **block, end_anchor="line 12")
    assert written(inner)
    outer = {**block, "version": inner["version"], "include_anchors": False}
    assert not written(told(desk, "prepare_file_block_replace", **outer, end_anchor="line 14"))
    assert written(told(desk, "prepare_file_block_replace", **outer, end_anchor="line 12"))


def test_a_second_edit_by_the_numbers_of_the_new_version_needs_no_reading(
    desk: OpenWorkspace, tmp_path: Path
) -> None:
    told(desk, "read_file", path="a.txt", range="10~20")
    first = edit(desk, "12", content="one\ntwo\nthree\n")
    assert shown(desk, first["version"]) == run(10, 22)
    second = edit(desk, "20~22", version=first["version"], content="")
    assert written(second)
    assert not written(edit(desk, "20", version=second["version"]))
    assert written(edit(desk, "13~14", version=second["version"]))
    left = [*LINES[:11], "one", "new", *LINES[12:17], *LINES[20:]]
    assert (tmp_path / "a.txt").read_text() == "".join(f"{line}\n" for line in left)


def test_lines_of_an_older_version_are_those_that_were_shown_then(
    desk: OpenWorkspace, tmp_path: Path
) -> None:
    """Others write meanwhile; the edit is carried, and so is not what they wrote."""
    told(desk, "read_file", path="a.txt", range="10~20")
    (tmp_path / "a.txt").write_text(f"theirs\n{TEXT}")
    assert not written(edit(desk, "21"))
    done = edit(desk, "15~16")
    assert written(done)
    assert shown(desk, done["version"]) == {16}, "of the text that was written to it knows no more"
    assert not written(edit(desk, "1", version=done["version"]))
    assert (tmp_path / "a.txt").read_text().split("\n")[14:17] == ["line 14", "new", "line 17"]


def test_a_line_of_which_the_start_was_shown_is_not_known(
    desk: OpenWorkspace, tmp_path: Path
) -> None:
    long = "x" * 200_000
    (tmp_path / "a.txt").write_text(f"first\n{long}\nlast\n")
    version = told(desk, "read_file", path="a.txt")["version"]
    assert shown(desk, version) == {1}
    told(desk, "read_file", path="a.txt", range="2")
    told(desk, "ripgrep_snippets", pattern="x+")
    assert not written(edit(desk, "2", version=version))
    assert shown(desk, version) == {1, 3}, "the last one is context"


def test_crlf_and_a_last_line_without_newline(desk: OpenWorkspace, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"a\r\nb\r\nc\r\nd")
    told(desk, "ripgrep_search", pattern="b", rg_args=["-A1"])
    version = Snapshot.of(b"a\r\nb\r\nc\r\nd").version
    assert shown(desk, version) == {2, 3}
    done = edit(desk, "2", version=version, content="B\n")
    assert written(done)
    assert (tmp_path / "a.txt").read_bytes() == b"a\r\nB\r\nc\r\nd\r\n"
    assert shown(desk, done["version"]) == {2, 3}, "the newline at the end shows no line"
    assert not written(edit(desk, "4", version=done["version"]))


def test_what_a_member_wrote_it_knows(desk: OpenWorkspace) -> None:
    made = told(desk, "create_new_file", path="b.txt", content="one\ntwo\n")
    assert shown(desk, made["version"], path="b.txt") == {1, 2}
    more = told(desk, "prepare_file_append", path="b.txt", content="three\n", apply="auto")
    assert shown(desk, more["version"], path="b.txt") == {1, 2, 3}
    theirs = told(
        desk, "prepare_file_append", by="bob", path="b.txt", content="four\n", apply="auto"
    )
    assert shown(desk, theirs["version"], path="b.txt") == set()
    assert shown(desk, theirs["version"], by="bob", path="b.txt") == {4}


def test_a_batch_knows_what_its_old_texts_give(desk: OpenWorkspace) -> None:
    """Whole lines that were given are known, a line of which a part was given is not."""
    edits = [
        {"old_string": "line 10\nline 11\n", "new_string": "ten\neleven\nand a half\n"},
        {"old_string": "ine 20", "new_string": "ine twenty"},
    ]
    done = told(desk, "prepare_batch_edit", path="a.txt", edits=edits, apply="auto", report="brief")
    assert written(done)
    assert shown(desk, done["version"]) == {10, 11, 12}


def test_what_was_shown_of_one_path_is_not_known_of_another(
    desk: OpenWorkspace, tmp_path: Path
) -> None:
    (tmp_path / "b.txt").write_text(TEXT)
    told(desk, "read_file", path="b.txt")
    assert not written(edit(desk, "5"))
    (tmp_path / "link").symlink_to("a.txt")
    told(desk, "read_file", path="link")
    assert written(edit(desk, "5"))


@pytest.mark.parametrize("seed", range(12))
def test_auto_takes_what_a_naive_model_says(tmp_path: Path, seed: int) -> None:
    """Readings, searches and edits by the numbers of any version seen, while another one writes.

    The model: a set of members, versions and lines; texts as lists of lines.
    """
    dice = random.Random(seed)
    texts: dict[str, list[str]] = {}
    known: set[tuple[str, str, int]] = set()
    file = tmp_path / "a.txt"

    def current() -> str:
        version = Snapshot.of(file.read_bytes()).version
        texts.setdefault(version, file.read_text().split("\n")[:-1])
        return version

    file.write_text(TEXT)
    named = [current()]
    members = {name: MemberConfig() for name in ("ann", "bob")}
    config = Config(durability="fast", members=members)
    taken = declined = 0
    with open_workspace(str(tmp_path), config, shared=seed % 2 == 0) as desk:
        for step in range(50):
            by, version = dice.choice(["ann", "bob"]), current()
            lines = texts[version]
            first = dice.randrange(1, len(lines) + 1)
            last = min(first + dice.randrange(4), len(lines))
            what = dice.random()
            if what < 0.25:
                told(desk, "read_file", by, path="a.txt", range=f"{first}~{last}")
                known |= {(by, version, line) for line in range(first, last + 1)}
            elif what < 0.35:
                sought = {"pattern": lines[first - 1], "rg_args": ["--fixed-strings"]}
                told(desk, "ripgrep_search", by, path="a.txt", **sought)
                found = [at for at, line in enumerate(lines, 1) if lines[first - 1] in line]
                known |= {(by, version, line) for line in found}
            elif what < 0.42:
                at = dice.randrange(len(lines))
                file.write_text(
                    "".join(f"{one}\n" for one in [*lines[:at], f"drift {step}", *lines[at:]])
                )
                named.append(current())
            else:
                version = dice.choice(named[-3:])
                shown_then = texts[version]
                if dice.random() < 0.7:  # mostly of lines that it was shown
                    mine = [n for m, v, n in known if (m, v) == (by, version)]
                    first = dice.choice(mine or [first])
                first = min(first, len(shown_then))
                last = min(first + dice.randrange(2), len(shown_then))
                new = [f"edit {step} {k}" for k in range(dice.randrange(3))]
                before = current()
                answer = call(
                    desk, "prepare_file_range_edit", by, path="a.txt", version=version,
                    range=f"{first}~{last}", content="".join(f"{one}\n" for one in new),
                    apply="auto", report="brief",
                )  # fmt: skip
                if answer["status"] == "error":
                    assert answer["error"] == "STALE_READ"
                    continue
                seen = all((by, version, n) in known for n in range(first, last + 1))
                assert written(answer) == seen, (step, answer)
                taken, declined = taken + seen, declined + (not seen)
                if not seen:
                    assert current() == before
                    continue
                at = answer["applied_range"]["start"]
                size = last - first + 1
                assert texts[before][at - 1 : at - 1 + size] == shown_then[first - 1 : last]
                after = current()
                assert texts[after] == [
                    *texts[before][: at - 1],
                    *new,
                    *texts[before][at - 1 + size :],
                ]
                moved = len(new) - size
                kept = [n for m, v, n in known if (m, v) == (by, before)]
                known |= {(by, after, n) for n in kept if n < at}
                known |= {(by, after, n + moved) for n in kept if n >= at + size}
                known |= {(by, after, n) for n in range(at, at + len(new))}
                named.append(after)
            assert shown(desk, by=by, version=current()) == {
                n for m, v, n in known if (m, v) == (by, current())
            }, step
    assert taken
    assert declined
