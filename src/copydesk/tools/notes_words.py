"""What is wrong in a block diff or a slice, in words.

What lives here: how the sayings are filled. What must not: the texts
(`sayings.notes`), what is true (the problem says that).
"""

from __future__ import annotations

from dataclasses import asdict
from typing import cast

from copydesk.edit.notes.errors import BlockDiffRefused, InvalidSlice, Kind, Problem
from copydesk.errors import Refusal
from copydesk.tools.report import Lang
from copydesk.tools.sayings import notes


def problem_words(problem: Problem, lang: Lang) -> str:
    """One problem: its line, its code, what to do, and what differs in a mismatch."""
    zh = lang == "zh"
    kind = f"{problem.code}.{problem.reason}" if problem.reason else problem.code
    facts = asdict(problem)
    said = notes.PROBLEMS[cast(Kind, kind)][zh].format_map(facts)
    lines = [notes.LINE[zh].format(line=problem.line, code=problem.code, said=said)]
    if problem.difference is not None:
        lines += [notes.SIMILAR[zh].format_map(facts), *problem.difference]
    return "\n".join(lines)


def notes_refusal_words(refusal: Refusal, lang: Lang) -> str:
    """All that is wrong, and what to do; of a diff a line or more for each problem."""
    zh = lang == "zh"
    if isinstance(refusal, InvalidSlice):
        why = notes.SLICES[refusal.reason][zh].format(part=refusal.part)
        return notes.SLICE[zh].format(slice=refusal.slice, total=refusal.total, why=why)
    assert isinstance(refusal, BlockDiffRefused), "no other has words here"
    told = [problem_words(problem, lang) for problem in refusal.problems]
    return "\n".join([notes.REFUSED[zh], *told])
