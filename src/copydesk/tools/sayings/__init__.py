"""All sayings by name, each in English and Chinese; one file for each part of the work.

What lives here: the texts. What must not: how they are filled (`words`).
"""

from __future__ import annotations

from copydesk.tools.sayings import approvals, batch, cli, compat, history, notes, refusals, reports

SAYINGS: dict[str, tuple[str, str]] = {
    **reports.SAYINGS,
    **refusals.SAYINGS,
    **batch.SAYINGS,
    **compat.SAYINGS,
    **history.SAYINGS,
    **approvals.SAYINGS,
    **notes.SAYINGS,
    **cli.SAYINGS,
}
