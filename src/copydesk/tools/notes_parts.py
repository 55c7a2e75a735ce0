"""The parts of reports that plans of block diffs have.

What lives here: a draft made into fields. What must not: the order of a whole
report (`reports`), words.
"""

from __future__ import annotations

from copydesk.edit.draft import Draft
from copydesk.tools.report import Fields


def hunks(draft: Draft, *, done: bool) -> Fields:
    """The hunks of a block diff, and the documents that they change."""
    from copydesk.edit.notes.draft import BlockDraft  # few have a use for these
    from copydesk.tools.notes_text import hunk_rows

    if not isinstance(draft, BlockDraft):
        return {}
    fields: Fields = {
        "documents": [str(one.path) for one in draft.documents],
        "hunks": hunk_rows(draft.made(), done=done),
    }
    return {**fields, "edit_ids": list(draft.edit_ids)} if done else fields


def numbers(draft: Draft) -> dict[str, object]:
    """The numbers that a summary tells."""
    from copydesk.edit.notes.draft import BlockDraft

    hunk_count, documents = 0, 0
    if isinstance(draft, BlockDraft):
        hunk_count, documents = len(draft.plan.hunks), len(draft.documents)
    return {
        "path": draft.request.path,
        "hunks": hunk_count,
        "documents": documents,
        "old": draft.old_count,
        "new": draft.new_count,
    }
