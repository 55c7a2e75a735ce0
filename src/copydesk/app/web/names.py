"""Names that people choose: what could be taken for another name is refused.

Invariant: a name that passes is written in one alphabet, with characters that can be seen.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Final, Literal

from copydesk.app.terminal import HIDDEN

_normal = unicodedata.normalize

Fault = Literal["invisible", "mixed", "taken"]

_BESIDE_OTHERS: Final = frozenset(
    ("CJK", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL", "BOPOMOFO")
)
"""Scripts that look like no other one, and that names have beside Latin letters."""

_LOOK_ALIKES: Final = str.maketrans(
    "\u0430\u0431\u0432\u0433\u0435\u0456\u043a\u043c\u043d\u043e\u04bb\u043f\u0440\u0455\u0441\u0442"
    "\u0443\u0445\u044c\u0458\u0461\u04cf\u0501\u051b\u051d"
    "\u03b1\u03b2\u03b3\u03b5\u03b7\u03b9\u03ba\u03bc\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u03c9"
    "\u0570\u0578\u057d\u0585\u0131\u0251\u0261"
    "1|!0$5i",  # after letters of Cyrillic, Greek, Armenian, and Latin that is not ASCII
    "abbreikmhohnpsct" + "yxbjwldqw" + "abyenikuvoptuxw" + "hnuo" + "lag" + "lllossl",
)


def fault_of(name: str, members: Iterable[str]) -> Fault | None:
    """Why nobody may sign in under the name; None where one may."""
    if HIDDEN.search(name) or not name.isprintable():
        return "invisible"
    if _normal("NFKC", name) != _normal("NFC", name):
        return "invisible"
    words = {unicodedata.name(each, "").partition(" ")[0] for each in name if each.isalpha()}
    if len(words - _BESIDE_OTHERS) > 1:
        return "mixed"
    skeleton = _skeleton(name)
    return "taken" if any(_skeleton(member) == skeleton for member in members) else None


def _skeleton(name: str) -> str:
    """What is left of a name to the eye: no case, no accents, one letter for its look-alikes."""
    plain = _normal("NFKD", name.casefold()).translate(_LOOK_ALIKES)
    kept = "".join(each for each in plain if each.isalnum())
    return kept.replace("rn", "m").replace("vv", "w").replace("i", "l") or name
