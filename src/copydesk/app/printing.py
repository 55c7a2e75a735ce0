"""What commands print: text, one JSON value, the short form of a report.

What lives here: the step to standard output. What must not: what is printed.
"""

from __future__ import annotations

import sys
from typing import cast

from copydesk.app import terminal
from copydesk.tools.catalog import Answer


def out(text: str) -> None:
    """The text on standard output."""
    sys.stdout.write(text)


def dump(data: object) -> None:
    """One JSON value on standard output."""
    out(terminal.as_json(data))


def data_of(report: Answer) -> dict[str, object]:
    """A report as one JSON value: its data, and the diff."""
    return {**report.data, **({"diff": report.diff} if report.diff else {})}


def is_refused(report: Answer) -> bool:
    """Whether nothing was done: refused, or a person has to approve it first."""
    return report.is_error or report.fields.get("status") == "pending"


def short(report: Answer) -> None:
    """What a person needs of a report: the summary, warnings, and the diff."""
    data = report.data
    warnings = [data.get("style_warning"), *cast("list[object]", data.get("warnings", []))]
    for words in (data["summary"], *warnings):
        if words:
            out(terminal.line(str(words)) + "\n")
    if report.diff:
        out("\n" + terminal.diff(report.diff, terminal.colours(sys.stdout)))
