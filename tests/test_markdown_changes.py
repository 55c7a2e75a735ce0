"""Changes of blocks, case by case: what is put where, what stands around it, what stays."""

from __future__ import annotations

import pytest

from copydesk.notes.markdown import Block, Tree, Where, deletion, insertion, parse, replacement
from copydesk.text.change import ChangeSet
from support.rows import each_row


def at(tree: Tree, path: str) -> Block:
    """The block on a path of numbers from the document, as `0.1`."""
    block = tree.root
    for number in filter(None, path.split(".")):
        block = block.children[int(number)]
    return block


INSERTIONS: tuple[tuple[str, str, Where, str, str], ...] = (
    # beside
    ("a", "0", "after", "x", "a\n\nx"),
    ("a\n", "0", "after", "x", "a\n\nx\n"),
    ("a", "0", "before", "x", "x\n\na"),
    ("a\n\nb", "0", "after", "x\ny", "a\n\nx\ny\n\nb"),
    ("# a\nb", "0", "after", "x", "# a\n\nx\n\nb"),
    ("# a\nb", "1", "before", "x", "# a\n\nx\n\nb"),
    ("a\r\n\r\nb", "0", "after", "x\ny", "a\r\n\r\nx\r\ny\r\n\r\nb"),
    ("\ufeffa", "0", "before", "x", "\ufeffx\n\na"),
    ("a  ", "0", "after", "x", "a  \n\nx"),
    ('a\n{: id="y"}\n\nb', "0", "after", "x", 'a\n{: id="y"}\n\nx\n\nb'),
    ("a\n\n- - -\n\nb\n\n---", "0", "before", "---", "\n---\n\na\n\n- - -\n\nb\n\n---"),
    # in containers
    ("> a", "0.0", "after", "x\ny", "> a\n>\n> x\n> y"),
    ("> a", "0.0", "before", "x\ny", "> x\n> y\n>\n> a"),
    ("> a\nb", "0.0", "after", "x", "> a\nb\n>\n> x"),
    ("> a\n# b", "0.0", "after", "x", "> a\n>\n> x\n>\n# b"),
    ("- a\n- b", "0.0.0", "after", "x\n\ny", "- a\n\n  x\n\n  y\n- b"),
    ("- a", "0.0.0", "before", "x\ny", "- x\n  y\n\n  a"),
    ("> - a\n>   b", "0.0.0.0", "after", "x\ny", "> - a\n>   b\n>\n>   x\n>   y"),
    ("1.  a", "0.0.0", "after", "```\nx\n\ny\n```", "1.  a\n\n    ```\n    x\n\n    y\n    ```"),
    ("> > a\n> b", "0.0", "after", "x", "> > a\n> b\n>\n> x"),
    ("> a", "0", "first_in", "# x", "> # x\n>\n> a"),
    ("> a\n>\n", "0", "last_in", "x", "> a\n>\n> x\n>\n"),
    ("- a\n  - b", "0.0", "last_in", "x", "- a\n  - b\n\n  x"),
    ("* a", "0.0", "first_in", "***", "* \n  ***\n\n  a"),
    ("-\ta", "0.0.0", "after", "x", "-\ta\n\n    x"),
    ("-\t\ta", "0.0.0", "before", "x", "- x\n\n  \t\ta"),
    # empty ones
    ("", "", "last_in", "x", "x\n"),
    ("\n", "", "first_in", "x", "\nx\n"),
    ("-", "0.0", "last_in", "x\ny", "- x\n  y"),
    ("-\n- b", "0.0", "first_in", "x", "- x\n- b"),
    ("-\nb", "0.0", "last_in", "x", "- x\n\nb"),
    (">", "0", "last_in", "x", "> x"),
    ("> ", "0", "last_in", "x", "> x "),
    ("---\na: b\n---\n\nc", "", "first_in", "x", "---\na: b\n---\n\nx\n\nc"),
    ("---\na: b\n---", "", "last_in", "x", "---\na: b\n---\n\nx"),
    ("---\na: b\n---\n", "", "last_in", "x", "---\na: b\n---\n\nx\n"),
    # items
    ("- a\n- b", "0.0", "after", "- x", "- a\n- x\n- b"),
    ("- a\n\n- b", "0.0", "after", "- x\n  y", "- a\n\n- x\n  y\n\n- b"),
    ("- a", "0", "last_in", "x\ny", "- a\n- x\n  y"),
    ("- a", "0", "first_in", "* x", "- x\n- a"),
    ("1. a\n2. b", "0.1", "before", "- x\n  y", "1. a\n2. x\n   y\n2. b"),
    ("* a", "0.0", "after", "10. x\n\n        y", "* a\n* x\n\n      y"),
    ("1) a", "0.0", "after", "7. x", "1) a\n7) x"),
    ("> - a\n> - b", "0.0.0", "before", "- x\n  y", "> - x\n>   y\n> - a\n> - b"),
    ("  - a", "0.0", "after", "- x\n  y", "  - a\n  - x\n    y"),
    ("- a\n- b\n# c", "0.1", "after", "- x", "- a\n- b\n- x\n\n# c"),
    ("- a", "0.0", "after", "- x\n- y", "- a\n- x\n- y"),
    # what has no end gets one
    ("```\na", "0", "after", "x", "```\na\n```\n\nx"),
    ("> ~~~~\n> a", "0.0", "after", "x", "> ~~~~\n> a\n> ~~~~\n>\n> x"),
    ("$$\na", "0", "after", "x", "$$\na\n$$\n\nx"),
    ("<!-- a", "0", "after", "x", "<!-- a\n-->\n\nx"),
    ("<script>\n\na", "0", "after", "x", "<script>\n\na\n</script>\n\nx"),
    ("<Pre>\n\na", "0", "after", "x", "<Pre>\n\na\n</Pre>\n\nx"),
    ("a\n\nb", "0", "after", "<pre>x", "a\n\n<pre>x\n</pre>\n\nb"),
    ("a\n\nb", "0", "after", "```\nx", "a\n\n```\nx\n```\n\nb"),
    # in mixed line ends each line keeps its own
    ("a\r\n\r\nb\n\nc\r\n", "1", "after", "x\ny", "a\r\n\r\nb\n\nx\ny\n\nc\r\n"),
    ("a\n\nb\r\n\nc\n", "1", "after", "x", "a\n\nb\r\n\r\nx\r\n\nc\n"),
    ("- a\n- b\r\n- c\r\n", "0.0", "after", "- x", "- a\n- x\n- b\r\n- c\r\n"),
    # outer blank lines of the text are left out
    ("a", "0", "after", "\n\n  x\n\n", "a\n\n  x"),
)


@each_row("text path where markdown expected", INSERTIONS)
def test_insertions(text: str, path: str, where: Where, markdown: str, expected: str) -> None:
    tree = parse(text)
    edit = insertion(tree, at(tree, path), where, markdown)
    assert edit.start == edit.stop
    assert ChangeSet.of(len(tree.data), [edit]).apply(tree.data).decode() == expected


SIYUAN: tuple[tuple[str, str, Where, str, str], ...] = (
    ("{{{row\na\n}}}", "0.0", "after", "x", "{{{row\na\n\nx\n}}}"),
    ("{{{row\na\n}}}", "0", "last_in", "x", "{{{row\na\n\nx\n}}}"),
    ("{{{row\n}}}", "0", "first_in", "x\ny", "{{{row\nx\ny\n}}}"),
    ("{{{row\na\n}}}\nb", "0", "after", "x", "{{{row\na\n}}}\n\nx\n\nb"),
    ("{{{row\na", "0", "after", "x", "{{{row\na\n}}}\n\nx"),
    ("{{{row\n{{{col\na", "0", "after", "x", "{{{row\n{{{col\na\n}}}\n}}}\n\nx"),
    ("> [!NOTE] t\n> a", "0", "first_in", "x", "> [!NOTE] t\n> x\n>\n> a"),
    ("> [!NOTE] t\n> a", "0", "last_in", "x", "> [!NOTE] t\n> a\n>\n> x"),
    ("- [ ] a", "0.0.0", "after", "x", "- [ ] a\n\n  x"),
    ("- [ ] a", "0.0.0", "before", "x", "- [ ] x\n\n  a"),
    ("- - a", "0.0.0", "after", "x", "- x\n\n  - a"),
    ("-", "0.0.0", "after", "x", "- x"),
    ("<<<<<<< a", "0", "after", "x", "<<<<<<< a\n>>>>>>>\n\nx"),
    ("$$ a", "0", "after", "x", "$$ a\n$$\n\nx"),
    ('{: id="y"}', "0", "after", "x", '{: id="y"}\n\nx'),
)


@each_row("text path where markdown expected", SIYUAN)
def test_insertions_as_siyuan_has_them(
    text: str, path: str, where: Where, markdown: str, expected: str
) -> None:
    tree = parse(text, "siyuan")
    edit = insertion(tree, at(tree, path), where, markdown)
    assert ChangeSet.of(len(tree.data), [edit]).apply(tree.data).decode() == expected


REPLACEMENTS = (
    ("a\n\nb", "0", "x", "x\n\nb"),
    ("***\na", "0", "---\nb: c\n---", "\n---\nb: c\n---\n\na"),
    ("---\na: b\nc: d\n---\ne", "0", "---\na: x\nc: d\n---", "---\na: x\nc: d\n---\ne"),
    ("a  \n\nb", "0", "x", "x  \n\nb"),
    # some HTML ends at a blank line only
    ("<!-- a -->\n# b", "0", "<!-- x -->", "<!-- x -->\n# b"),
    ("<!-- a -->\n# b", "0", "<div>\nx\n</div>", "<div>\nx\n</div>\n\n# b"),
    ("> <div>\n# b", "0.0", "<p>", "> <p>\n# b"),
    ("a\nb\nc", "0", "a\nx\nc", "a\nx\nc"),
    ("a\r\nb\r\nc\n\nd", "0", "a\nx\ny\nc", "a\r\nx\r\ny\r\nc\n\nd"),
    ("> a\n>b\n> c", "0.0", "a\nx\nc", "> a\n> x\n> c"),
    ("> a\n>b\n> c", "0.0", "x\nb\nc", "> x\n>b\n> c"),
    ("> a\nb\nc", "0.0", "x\nb\nc", "> x\n> b\n> c"),
    ("> a\nb\nc", "0.0", "a\nb\nx", "> a\nb\n> x"),
    ("- a\n  b", "0.0", "- x\n  b", "- x\n  b"),
    ("- a\n  b", "0.0.0", "x", "- x"),
    ("-\ta\n\tb", "0.0.0", "x\nb", "-\tx\n\tb"),
    ("  - a\n    b", "0", "- a\n  x", "  - a\n    x"),
    ("   ```\n   a\n   ```", "0", "```\nx\ny\n```", "   ```\n   x\n   y\n   ```"),
    ("a\r\nb\nc\nd\n", "0", "a\nb\nx\ny\nd", "a\r\nb\nx\ny\nd\n"),
    ("a\r\nb\nc", "0", "a\nb\nx\ny", "a\r\nb\nx\ny"),
    ("a\r\nb\nc\n", "0", "a\nc", "a\r\nc\n"),
    ("a\r\nb\n", "0", "a", "a\r\n"),
    ("a\r\nb", "0", "a", "a"),
    # another kind is kept apart from what stands close
    ("# a\nb", "0", "x", "x\n\nb"),
    ("a\n# b\nc", "1", "x", "a\n\nx\n\nc"),
    ("a\n```\nb\n```\nc", "1", "```\nx\n```", "a\n```\nx\n```\nc"),
    ("- a\n  - b", "0.0.0", "# x", "- # x\n\n  - b"),
    ("- a\n- # b\nc", "0.1", "- x", "- a\n- x\n\nc"),
    ("# a\n- b", "0", "x", "x\n\n- b"),
    ("   a", "0", "```\nx\n```", "```\nx\n```"),
    ("a\n\n---", "0", "---", "\n---\n\n---"),
    # what has no end gets one
    ("a\n\nb", "0", "```\nx", "```\nx\n```\n\nb"),
    # several blocks, attributes
    ("a\n\nb", "0", "x\n\n# y", "x\n\n# y\n\nb"),
    ('a\n{: id="z"}\nb', "0", "x\n\n# y", 'x\n{: id="z"}\n\n# y\n\nb'),
    ('- {: id="z"}a\n- b', "0.0", "- x", '- {: id="z"}x\n- b'),
    ('- a\n  {: id="z"}\n- b', "0", "- a\n- x", '- a\n  {: id="z"}\n- x'),
    ('- a\n  {: id="z"}\n- b', "0", "- x\n- b", '- x\n  {: id="z"}\n- b'),
    ('a\n{: id="z"}\nb', "1", "x", 'a\n{: id="z"}\nx'),
    # items
    ("1. a\n2. b", "0.1", "- x\n  y", "1. a\n2. x\n   y"),
    ("- a\n- b", "0.0", "x", "- x\n- b"),
    ("- a\n- b", "0.0", "- x\n- y", "- x\n- y\n- b"),
)


@each_row("text path markdown expected", REPLACEMENTS)
def test_replacements(text: str, path: str, markdown: str, expected: str) -> None:
    tree = parse(text)
    edits = replacement(tree, at(tree, path), markdown)
    assert ChangeSet.of(len(tree.data), edits).apply(tree.data).decode() == expected


DELETIONS = (
    ("a\n\nb\n\nc", "1", "a\n\nc"),
    ("a\n\nb", "0", "b"),
    ("a\n\nb\n", "1", "a\n"),
    ("a\n", "0", ""),
    ("a\r\n\r\nb\r\n\r\nc", "1", "a\r\n\r\nc"),
    ("a\n# b\nc", "1", "a\n\nc"),
    ("a\n# b\n\nc", "1", "a\n\nc"),
    ("a\n\n# b\nc", "1", "a\n\nc"),
    ('a\n\nb\n{: id="x"}\n\nc', "1", "a\n\nc"),
    ("| a |\n|---|\n\n^x\n\nb", "0", "b"),
    ("a\n\n---\n\nb\n\n---", "0", "\n\n---\n\nb\n\n---"),
    ("a\r\n\r\nb\n", "1", "a\r\n"),
    ("a\n\nb\r\n\r\n", "1", "a\n\r\n"),
    ("- a\r\n\r\n  # b\nc", "0.0.1", "- a\r\n\nc"),
    ("- a\n- b\n- c", "0.1", "- a\n- c"),
    ("- a\n- b\n- c", "0.0", "- b\n- c"),
    ("- a\n- b\n- c", "0.2", "- a\n- b"),
    ("- a\n\n  b", "0.0.0", "- b"),
    ("- a\n\n  b", "0.0.1", "- a"),
    ("- a\n- b", "0.1.0", "- a"),
    ("a\n\n- b\n\nc", "1.0.0", "a\n\nc"),
    ("a\n\n> b\n\nc", "1.0", "a\n\nc"),
    ("> a\n>\n> b", "0.0", "> b"),
    ("> a\n>\n> b\n>\n> c", "0.1", "> a\n>\n> c"),
    ("> - a\n> - b", "0.0.0", "> - b"),
    ("- a\n\n  # b\nc", "0.0.1", "- a\n\nc"),
    ("* a\n\n  ***", "0.0.0", "*\n  ***"),
    ("- [ ] a\n\n  # b", "0.0.0", "- [ ]\n  # b"),
    ("- a\n\n   - b\n     c", "0.0.0", "-\n   - b\n     c"),
    ("\ufeffa\n\nb", "0", "\ufeffb"),
)


@each_row("text path expected", DELETIONS)
def test_deletions(text: str, path: str, expected: str) -> None:
    tree = parse(text)
    edit = deletion(tree, at(tree, path))
    assert ChangeSet.of(len(tree.data), [edit]).apply(tree.data).decode() == expected


@each_row("text path where", [
    ("a", "", "before"),
    ("a", "", "after"),
    ("a", "0", "first_in"),
    ("# a", "0", "last_in"),
    ("---\na: b\n---", "0", "before"),
])  # fmt: skip
def test_no_place(text: str, path: str, where: Where) -> None:
    tree = parse(text)
    with pytest.raises(ValueError, match="block"):
        insertion(tree, at(tree, path), where, "x")


def test_nothing_is_no_text() -> None:
    tree = parse("a")
    with pytest.raises(ValueError, match="nothing"):
        replacement(tree, tree.root.children[0], " \n")
