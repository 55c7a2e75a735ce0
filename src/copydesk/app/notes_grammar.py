"""What can be said after `copydesk notes`.

What lives here: the grammar of these commands, and no import that is heavy. What
must not: what they do (`notes_cli`).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

_MOST = 1_000


def add_commands(add: Callable[[str, str], argparse.ArgumentParser]) -> None:
    """The grammar of the commands below `copydesk notes`; `add` makes the parser of one."""
    ls = add("ls", "notebooks and their documents, or the blocks of a document")
    ls.add_argument("block_id", nargs="?", metavar="ID")
    ls.add_argument("--most", type=int, default=_MOST, help="so many documents of each notebook")
    cat = add("cat", "the text of a document or a block")
    cat.add_argument("block_id", metavar="ID")
    cat.add_argument("--ids", action="store_true", help="each block under its @@id@@")
    cat.add_argument("--slice", help="some of the blocks, such as 0:5 or ID:+10")
    diff = add("diff", "make a block diff, all of it or nothing")
    diff.add_argument("file", nargs="?", metavar="FILE", help="default: standard input")
    diff.add_argument("--dry-run", action="store_true", help="check it and show what would change")
    diff.add_argument("--plan", action="store_true", help="prepare it, for copydesk apply")
    diff.add_argument("--loose", action="store_true", help="white space in SEARCH may differ")
    append = add("append", "put text at the end of a document or a block")
    append.add_argument("block_id", metavar="ID")
    append.add_argument("file", nargs="?", metavar="FILE", help="default: standard input")
    new = add("new", "make a document beside, below or above another one")
    new.add_argument("title")
    new.add_argument("anchor_id", metavar="ID", help="the other document")
    new.add_argument("--location", choices=("siblings", "children", "parent"), default="siblings")
    new.add_argument("--file", help="its text; - for standard input")
    daily = add("daily", "put text at the end of today's note")
    daily.add_argument("file", nargs="?", metavar="FILE", help="default: standard input")
    daily.add_argument("--notebook", help="its id, where there are several")
    search = add("search", "find blocks that hold all words")
    search.add_argument("words", nargs="+", metavar="WORD")
    search.add_argument("--most", type=int, default=20, help="how many (default: 20)")
