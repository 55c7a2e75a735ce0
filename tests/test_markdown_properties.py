"""Laws of the block tree and of changes of it, on texts that make trouble."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from copydesk.notes.markdown import (
    Block,
    Profile,
    Tree,
    Where,
    deleted_with,
    deletion,
    insertion,
    is_phantom,
    lines_of,
    markdown_of,
    parse,
    replacement,
    section,
    text_of,
)
from copydesk.notes.markdown.tree import line_start
from copydesk.text.change import ChangeSet, Edit
from support.markdown_texts import Shape, anything, documents, markdown, outline, shape

NO_PLACE = "block|byte|place"

profiles: st.SearchStrategy[Profile] = st.sampled_from(("gfm", "siyuan"))


def made(tree: Tree, *edits: Edit) -> Tree:
    return parse(ChangeSet.of(len(tree.data), edits).apply(tree.data), tree.profile)


@given(anything, profiles)
def test_spans_nest_and_are_in_order(text: str, profile: Profile) -> None:
    tree = parse(text, profile)
    assert tree.root.stop == len(tree.data)
    for block in tree.root.walk():
        at = block.start
        for index, child in enumerate(block.children):
            assert (child.parent, child.index) == (block, index)
            assert at <= child.start <= child.stop <= block.stop
            at = child.stop


@given(anything, profiles)
def test_sources_and_what_lies_between_are_the_text(text: str, profile: Profile) -> None:
    tree = parse(text, profile)
    parts, at = [], 0
    for block in tree.root.children:
        parts += [tree.data[at : block.start], tree.source(block)]
        at = block.stop
    assert b"".join([*parts, tree.data[at:]]) == tree.data == text.encode()


@given(anything, profiles)
def test_only_what_parts_blocks_lies_between_leaves(text: str, profile: Profile) -> None:
    tree = parse(text.translate(dict.fromkeys(map(ord, "{^["), "x")), profile)
    leaves = [block for block in tree.root.walk() if not block.holds_blocks]
    at = tree.root.start
    for leaf in [*leaves, None]:
        stop = leaf.start if leaf is not None else len(tree.data)
        between = tree.data[at:stop].decode(errors="replace")
        assert not between.strip("-+*>0123456789.) \t\r\n\ufeff")
        at = leaf.stop if leaf is not None else stop


@given(anything, profiles)
def test_lines_of_a_block_lie_in_it(text: str, profile: Profile) -> None:
    tree = parse(text, profile)
    for block in tree.root.walk():
        lines = lines_of(tree, block)
        at = block.start
        for line in lines:
            assert at <= line.at <= line.start
            assert line.stop <= line.end
            at = line.stop
        assert markdown_of(tree, block).encode("utf-8", "surrogateescape") == b"\n".join(
            text_of(tree, line) for line in lines
        )


@given(anything, profiles)
def test_its_own_markdown_changes_nothing(text: str, profile: Profile) -> None:
    tree = parse(text, profile)
    for block in tree.root.walk():
        own = markdown_of(tree, block)
        if block.kind != "d" and own.strip() and not is_phantom(block):
            assert replacement(tree, block, own) == ()
            assert replacement(tree, block, own.replace("\n", "\r\n")) == ()


@pytest.mark.slow
@given(markdown(), profiles, st.data())
def test_a_changed_line_leaves_the_others_their_bytes(
    text: str, profile: Profile, data: st.DataObject
) -> None:
    """All that stands before the first line that differs, and after the last, is kept.

    Before a first line that differs that is the line above: its own prefix may be
    written anew, as when a blank line has to come before it.
    """
    tree = parse(text, profile)
    blocks = [b for b in tree.root.walk() if b.kind == "p" and not is_phantom(b)]
    assume(blocks)
    block = data.draw(st.sampled_from(blocks))
    lines = markdown_of(tree, block).split("\n")
    index = data.draw(st.integers(0, len(lines) - 1))
    lines[index] += "word"
    new = "\n".join(lines)
    assume(outline(parse(new, profile).root) == "p")
    edits = replacement(tree, block, new)
    old = lines_of(tree, block)
    assert edits
    before = old[index - 1].stop if index else line_start(tree.data, block.first)
    assert min(e.start for e in edits) >= before
    if index and not any(line.lazy for line in old[index:]):
        assert max(e.stop for e in edits) <= old[index].end


SNIPPETS = (
    *("new", "new\nmore", "# new", "```\nnew\n```", "> new", "- new", "- new\n  more\n\n  x"),
    *("1. new", "* new", "|n|w|\n|-|-|\n|1|2|", "***", "$$\nx\n$$", "<div>\nnew\n</div>"),
    *("new\n\n# h\n\n> q\n> r", "~~~\n\na\n\n~~~", "- [ ] new", "<!-- c -->", "a | b", "---"),
    *("---\na: b\n---", "---\na: b\n---\n\nnew"),
)


def changed(tree: Tree, holder: Block, gone: Block | None, new: list[Shape], at: int) -> Shape:
    """The shape of the document with new shapes before child `at` of a block, one child gone."""

    def of(block: Block) -> Shape:
        shapes: list[Shape] = []
        for child in block.children:
            shapes += new if block is holder and child.index == at else []
            shapes += [of(child)] if child is not gone and child.start < child.stop else []
        if block is holder and at >= len(block.children):
            shapes += new
        return (*shape(tree, block)[:2], tuple(shapes))

    return of(tree.root)


def meets(holder: Block, new: Tree) -> bool:
    """Whether lists would come to stand side by side, and be one."""
    lists = any(block.kind == "l" for block in new.root.children)
    return lists and (holder.kind == "i" or any(child.kind == "l" for child in holder.children))


@pytest.mark.slow
@given(documents(), profiles, st.sampled_from(SNIPPETS), st.data())
def test_an_insertion_adds_its_blocks_and_nothing_else(
    text: str, profile: Profile, snippet: str, data: st.DataObject
) -> None:
    tree = parse(text, profile)
    block = data.draw(st.sampled_from(list(tree.root.walk())))
    where: Where = data.draw(st.sampled_from(("before", "after", "first_in", "last_in")))
    holder = block if where.endswith("in") else block.parent
    new = parse(snippet, profile, part=True)
    if holder is None or not holder.holds_blocks:
        with pytest.raises(ValueError, match=NO_PLACE):
            insertion(tree, block, where, snippet)
        return
    if holder.kind == "l" or meets(holder, new):
        return
    at = {"first_in": 0, "last_in": len(holder.children), "before": block.index}.get(where)
    after = made(tree, insertion(tree, block, where, snippet))
    added = [shape(new, each) for each in new.root.children]
    wanted = changed(tree, holder, None, added, block.index + 1 if at is None else at)
    assert shape(after, after.root) == wanted


@given(
    documents(), profiles, st.sampled_from(("new", "- new", "3. new\n   more", "> a")), st.data()
)
def test_an_item_goes_among_items(
    text: str, profile: Profile, snippet: str, data: st.DataObject
) -> None:
    tree = parse("- one\n- two\n\n" + text, profile)
    item = data.draw(st.sampled_from([block for block in tree.root.walk() if block.kind == "i"]))
    where: Where = data.draw(st.sampled_from(("before", "after")))
    after = made(tree, insertion(tree, item, where, snippet))
    before = [block for block in tree.root.walk() if block.kind == "l"]
    lists = [block for block in after.root.walk() if block.kind == "l"]
    grown = [len(b.children) - len(a.children) for a, b in zip(before, lists, strict=True)]
    assert grown == [int(block is item.parent) for block in before]


@given(documents(), profiles, st.data())
def test_a_deletion_takes_its_block_and_nothing_else(
    text: str, profile: Profile, data: st.DataObject
) -> None:
    tree = parse(text, profile)
    block = data.draw(st.sampled_from(list(tree.root.walk())))
    gone = deleted_with(block)
    if gone.parent is None:
        with pytest.raises(ValueError, match=NO_PLACE):
            deletion(tree, block)
        return
    if gone.previous is not None and gone.previous.kind == "l":
        return  # a list could come to stand beside it
    after = made(tree, deletion(tree, block))
    assert shape(after, after.root) == changed(tree, gone.parent, gone, [], -1)


@given(documents(), profiles, st.sampled_from(SNIPPETS), st.data())
def test_a_replacement_puts_its_blocks_in_the_place(
    text: str, profile: Profile, snippet: str, data: st.DataObject
) -> None:
    tree = parse(text, profile)
    block = data.draw(st.sampled_from(list(tree.root.walk())))
    holder, new = block.parent, parse(snippet, profile, part=True)
    if holder is None:
        with pytest.raises(ValueError, match=NO_PLACE):
            replacement(tree, block, snippet)
        return
    if block.kind == "i" or meets(holder, new) or {"l"} & {each.kind for each in _beside(block)}:
        return
    after = made(tree, *replacement(tree, block, snippet))
    added = [shape(new, each) for each in new.root.children]
    assert shape(after, after.root) == changed(tree, holder, block, added, block.index)


def _beside(block: Block) -> list[Block]:
    return [each for each in (block.previous, block.next) if each is not None]


@given(documents(), profiles, st.data())
def test_another_item_stands_in_its_list(text: str, profile: Profile, data: st.DataObject) -> None:
    tree = parse("- one\n- two\n\n" + text, profile)
    item = data.draw(st.sampled_from([block for block in tree.root.walk() if block.kind == "i"]))
    after = made(
        tree, *replacement(tree, item, data.draw(st.sampled_from(("new", "* new\n  more"))))
    )
    before = [block for block in tree.root.walk() if block.kind == "l" and not _within(block, item)]
    lists = [block for block in after.root.walk() if block.kind == "l"]
    assert [len(block.children) for block in lists] == [len(block.children) for block in before]


def _within(block: Block, holder: Block) -> bool:
    return any(each is holder for each in block.ancestors())


@given(anything, profiles, st.sampled_from(SNIPPETS), st.data())
def test_no_change_fails_on_any_text(
    text: str, profile: Profile, snippet: str, data: st.DataObject
) -> None:
    """Whatever the text, a change can be made or is refused; and what is not near keeps its bytes."""
    tree = parse(text, profile)
    block = data.draw(st.sampled_from(list(tree.root.walk())))
    section(block)
    where: Where = data.draw(st.sampled_from(("before", "after", "first_in", "last_in")))
    kept = 0
    try:
        edit = insertion(tree, block, where, snippet)
        kept += 1
        assert edit.start == edit.stop
        made(tree, edit)
        made(tree, *replacement(tree, block, snippet))
        edit = deletion(tree, block)
        made(tree, edit)
    except ValueError:
        holds = block.holds_blocks or not where.endswith("in")
        assert kept or not holds or block.kind in ("d", "yaml")


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_new_lines_end_as_those_of_the_text(newline: str) -> None:
    tree = parse(newline.join(["- a", "", "b"]))
    edit = insertion(tree, tree.root.children[1], "after", "c\nd")
    assert edit.new.decode() == newline.join(["", "", "c", "d"])
