"""A report: fields in a fixed order, a diff, what to do next; as text and as data.

What lives here: the form that every answer of ws_mod has. What must not: which
fields an answer has (`copydesk.tools.reports`). Invariants: no lone surrogate
in any output; the YAML of the text and the data say the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from copydesk.text.encoding import UTF8, Encoding
from copydesk.tools.yaml import Value, emit, fenced

Lang = Literal["en", "zh"]
Fields = dict[str, Value]

MOST_DIFF_CHARACTERS = 100_000
MOST_NEXT = 3


@dataclass(frozen=True, slots=True)
class Report:
    """What a tool answers. `body` is shown in a fence of `language` after the fields.

    `content` are fields of the data that the text shows as its body.
    """

    fields: Fields
    diff: str = ""
    body: str | None = None
    language: str = "text"
    next_steps: tuple[str, ...] = ()
    content: Fields = field(default_factory=dict[str, Value])

    @property
    def is_error(self) -> bool:
        """Whether this is a refusal."""
        return self.fields.get("status") == "error"

    @property
    def text(self) -> str:
        """The report for a model or a person to read."""
        parts = [fenced(emit(self.fields), "yaml")]
        if self.diff:
            parts.append(fenced(self.diff, "diff"))
        if self.body is not None:
            parts.append(fenced(self.body, self.language))
        parts.append("".join(f"{line}\n" for line in self.next_steps[:MOST_NEXT]))
        return "\n".join(part for part in parts if part)

    @property
    def data(self) -> Mapping[str, Value]:
        """The report for a program."""
        return {**self.fields, **self.content}


def shown_diff(diff: bytes, encoding: Encoding, *, whole: bool = False) -> tuple[str, bool]:
    """The diff as text, and whether it was cut. Paths are UTF-8, lines in the file's encoding.

    `whole`: nothing is cut.
    """
    head, mark, body = diff.partition(b"\n@@ ")
    own = encoding if encoding.unit == 1 else UTF8  # wide ones are in UTF-8 there
    text = head.decode("utf-8", "backslashreplace") + own.decode(mark + body)
    if whole or len(text) <= MOST_DIFF_CHARACTERS:
        return text, False
    kept = text[: text.rfind("\n", 0, MOST_DIFF_CHARACTERS) + 1] or text[:MOST_DIFF_CHARACTERS]
    return kept, True
