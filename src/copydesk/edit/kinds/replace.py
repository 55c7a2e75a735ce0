"""BatchEdit and ReplaceText: other text for text that is found in the file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from copydesk.edit.batch import (
    Batch,
    StringEdit,
    compile_batch,
    compile_in,
    lines_shown,
    part_lines,
    replace_everywhere,
    replace_in,
)
from copydesk.edit.kinds.base import (
    Composed,
    Fixed,
    Normalized,
    Place,
    Request,
    Span,
    check_text,
    count_lines,
    is_unclosed,
    of_parts,
)
from copydesk.edit.kinds.correction import MOST, Corrected, of_elided, of_text
from copydesk.errors import InvalidArgs, PartialMatchFail, Refusal
from copydesk.text.change import ChangeSet, Edit
from copydesk.text.relpath import RelPath
from copydesk.text.snapshot import Snapshot, Source, Text


def fixed(request: Request, found: Sequence[Corrected]) -> Fixed:
    """The corrected request, certain if all its corrections are."""
    causes = dict.fromkeys(cause for one in found for cause in one.causes)
    return Fixed(request, tuple(causes), all(one.is_certain for one in found))


@dataclass(frozen=True, slots=True)
class BatchEdit(Request):
    """Make all `edits`, each searched for in the original text, or none."""

    reads, _tool = "whole", "prepare_batch_edit"
    quotes, by_text = "old_string says it already; leave it out", True
    voices: ClassVar[tuple[str, ...]] = ("batch",)

    edits: tuple[StringEdit, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "edits", tuple(self.edits))  # a list could not be stored

    @staticmethod
    def of(path: RelPath, edits: Iterable[StringEdit | tuple[str, str]]) -> BatchEdit:
        """Make a batch of edits or (old, new) pairs; InvalidArgs for none, or without old text."""
        each: list[StringEdit] = []
        for index, edit in enumerate(edits):
            if not isinstance(edit, StringEdit):
                if not edit[0]:
                    raise InvalidArgs(f"edits[{index}].old_string", "must not be empty")
                edit = StringEdit(*edit)
            each.append(edit)
        if not each:
            raise InvalidArgs("edits", "must not be empty")
        return BatchEdit(path, tuple(each))

    @property
    def bad_character(self) -> bool:
        """Whether a new text contains U+FFFD and its old one does not."""
        return any("\ufffd" in edit.new and "\ufffd" not in edit.old for edit in self.edits)

    @property
    def text(self) -> str | None:
        return self.edits[0].new if len(self.edits) == 1 else None

    def with_text(self, text: str) -> Request:
        if len(self.edits) != 1:
            return Request.with_text(self, text)
        return replace(self, edits=(self.edits[0].with_new(text),))

    def check(self) -> None:
        for index, edit in enumerate(self.edits):
            check_text(f"edits[{index}].old_string", edit.old)
            check_text(f"edits[{index}].new_string", edit.new)

    @property
    def count(self) -> int:
        return len(self.edits)

    def locate(self, base: Source) -> Place:
        text = base.whole()
        return of_parts(part_lines(text, compile_batch(text, self.edits).spans))

    def corrected(self, base: Source, refusal: Refusal) -> Fixed | None:
        """All texts that are not found are corrected, or none."""
        if not isinstance(refusal, PartialMatchFail) or len(refusal.failures) > MOST:
            return None
        edits, found = [*self.edits], list[Corrected]()
        shown = lines_shown(base.whole())
        for failure in refusal.failures:
            edit, there = edits[failure.index], failure.corrected_old_string
            if there:
                made = of_text(shown, edit.old, there, edit.new, failure.cause or ())
            else:
                made = None if failure.matches_count else of_elided(shown, edit.old, edit.new)
            if made is None:
                return None
            edits[failure.index] = StringEdit(made.old, made.new)
            found.append(made)
        return fixed(replace(self, edits=tuple(edits)), found)

    def batch(self, base: Snapshot, parts: Sequence[Span]) -> Batch:
        """The edits in a text, each in its own lines only."""
        return compile_in(base, self.edits, parts)

    def compose(self, base: Text, place: Place, *, created: bool) -> Composed:
        """Leave the end of the file as it is, unless an edit is of it."""
        batch = self.batch(base.whole(), place.parts)
        style = base.newline_name(base.dominant_newline)
        normalized = Normalized(not is_unclosed(base), True, False, False, style, 0)
        return Composed(batch.change, (), normalized, batch.escapes)

    def lines_at(self, place: Place) -> tuple[int, int]:
        old = len({line for start, stop in place.parts for line in range(start, stop)})
        grown = sum(edit.new.count("\n") - edit.old.count("\n") for edit in self.edits)
        return old, old + grown * place.candidates

    def pieces(self, place: Place, new: int) -> list[tuple[int, int, int]] | None:
        return None

    def counts(self, place: Place) -> tuple[int, int]:
        added = place.candidates * count_lines(edit.new for edit in self.edits)
        return added, place.candidates * count_lines(edit.old for edit in self.edits)


@dataclass(frozen=True, slots=True)
class ReplaceText(BatchEdit):
    """Make one edit; with `everywhere`, at every place of its old text, as an edit by lines."""

    _tool, voices = "replace_text", ("edit", "replace_text")

    everywhere: bool = False

    def corrected(self, base: Source, refusal: Refusal) -> Fixed | None:
        """One that is to be everywhere is none: other places may be written otherwise."""
        return None if self.everywhere else BatchEdit.corrected(self, base, refusal)

    def locate(self, base: Source) -> Place:
        if not self.everywhere:
            return BatchEdit.locate(self, base)
        text = base.whole()
        spans = replace_everywhere(text, self.edits[0]).spans
        runs: list[Span] = []
        for start, stop in part_lines(text, spans):
            if runs and start < runs[-1][1]:
                runs[-1] = runs[-1][0], max(stop, runs[-1][1])
            else:
                runs.append((start, stop))
        return replace(of_parts(tuple(runs)), candidates=len(spans))

    def batch(self, base: Snapshot, parts: Sequence[Span]) -> Batch:
        if self.everywhere:
            return replace_in(base, self.edits[0], parts)
        return BatchEdit.batch(self, base, parts)

    def compose(self, base: Text, place: Place, *, created: bool) -> Composed:
        """Add the newline that the last line lacks, before or because of the edit."""
        composed = BatchEdit.compose(self, base, place, created=created)
        if not composed.change or not is_unclosed(base.edited(composed.change)):
            return composed
        newline = base.newline_near(base.line_count - 1, base.line_count)
        edits = [*composed.change.edits, Edit(base.size, base.size, newline)]
        was_closed = composed.normalized.file_eof_has_newline
        normalized = replace(
            composed.normalized,
            content_eof_has_newline=not was_closed,
            file_eof_newline_added=not was_closed,
            content_eof_newline_added=was_closed,
        )
        change = ChangeSet.of(base.size, edits)
        return composed._replace(change=change, normalized=normalized)
