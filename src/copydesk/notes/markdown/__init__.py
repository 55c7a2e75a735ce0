"""The blocks of a Markdown text, where they are, and how to change one.

    tree = parse(data)                        # or parse(data, "siyuan")
    for block in tree.root.walk():
        print(block.kind, block.subtype, markdown_of(tree, block))

`Block` describes a block, `Tree` has the text and the document. A tree is a value: after a change
the text is parsed again. Every change is an `Edit` of bytes, to be put into a `ChangeSet`:

    replacement(tree, block, markdown)        # replaces its text
    insertion(tree, block, "after", markdown)
    deletion(tree, block)

`markdown_of` returns a block as it is read, and as searches compare it: its source without the
prefixes of its containers, and without attributes. `section` returns the blocks under a heading,
`Tree.anchors` those that have an id in the text.

Profiles: `gfm` is for plain folders, CommonMark with GitHub's tables and tasks; `siyuan` makes
exactly the blocks that SiYuan's kernel makes of the text.
"""

from copydesk.notes.markdown.block import Block, Profile, Tree, heading_of, section
from copydesk.notes.markdown.edit import (
    Where,
    deleted_with,
    deletion,
    insertion,
    is_phantom,
    replacement,
)
from copydesk.notes.markdown.tree import Line, lines_of, markdown_of, parse, text_of

__all__ = [
    "Block",
    "Line",
    "Profile",
    "Tree",
    "Where",
    "deleted_with",
    "deletion",
    "heading_of",
    "insertion",
    "is_phantom",
    "lines_of",
    "markdown_of",
    "parse",
    "replacement",
    "section",
    "text_of",
]
