"""Characters that could hide or harm where text is shown.

What lives here: which they are. What must not: how they are shown. Tab and line
feed are not among them.
"""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb"
    "\U000e0000-\U000e01ef]"
)
"""Control characters, marks of direction, characters without width, halves of a character."""
