"""Whether a text that is to become a file looks like a patch of one.

What lives here: the strong signs only; a Markdown list, a rule or front matter
is none of them.
"""

from __future__ import annotations

import re

from copydesk.edit.draft import content_lines
from copydesk.errors import SuspiciousDiff

_SIGNS = (
    ("diff --git", re.compile(r"diff --git \S")),
    ("*** Begin Patch", re.compile(r"\*\*\* Begin Patch\s*$")),
    ("@@ ... @@", re.compile(r"@@ -\d+(,\d+)? \+\d+(,\d+)? @@")),
)
_OLD, _NEW = re.compile(r"--- \S"), re.compile(r"\+\+\+ \S")


def check(content: str) -> None:
    """Raise SuspiciousDiff, with the sign and its line, for a text that looks like a patch."""
    lines = content_lines(content)
    for number, line in enumerate(lines, 1):
        for sign, shape in _SIGNS:
            if shape.match(line):
                raise SuspiciousDiff(sign, number)
        if _OLD.match(line) and number < len(lines) and _NEW.match(lines[number]):
            raise SuspiciousDiff("---/+++ header pair", number)
