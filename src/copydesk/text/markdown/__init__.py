"""The blocks of a Markdown text, where each of them stands, and how to change one.

    tree = parse(data)                        # or parse(data, "siyuan")
    for block in tree.root.walk():
        print(block.kind, block.subtype, markdown_of(tree, block))

`Block` names what is known of a block, `Tree` holds the text and the document.
A tree is a value: after a change the text is parsed again. Every change is an
`Edit` of bytes, to be put into a `ChangeSet`:

    replacement(tree, block, markdown)        # its text is another
    insertion(tree, block, "after").edit(markdown)
    deletion(tree, block)

`markdown_of` is what is read of a block and what is compared with a search:
its source without the prefixes of its containers, and without attributes.
`section` gives the blocks under a heading, `anchors` of the tree those that
the text itself gives an id.

Profiles: `gfm` is for plain folders, CommonMark and GitHub's tables and tasks;
`siyuan` makes the very blocks that SiYuan's kernel makes of the text.
"""

from copydesk.text.markdown.block import Block, Profile, Tree, heading_of, section
from copydesk.text.markdown.edit import (
    Insertion,
    Where,
    deleted_with,
    deletion,
    insertion,
    is_phantom,
    replacement,
)
from copydesk.text.markdown.tree import Line, lines_of, markdown_of, parse, text_of

__all__ = [
    "Block",
    "Insertion",
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
