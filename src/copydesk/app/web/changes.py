"""Changes: what the members did, as a whole, to be kept or undone hunk by hunk.

Invariant: a form names the hunks that its page showed, by ids that change with their texts; what
came or changed meanwhile is neither kept nor undone by it.
"""

from __future__ import annotations

from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Final

from starlette.responses import Response

from copydesk.app.web.diff_view import View, table
from copydesk.app.web.markup import LANG, address, hidden_in, named, say, translated
from copydesk.app.web.pages import (
    MOST_COLOURED,
    Action,
    DiffOptions,
    Location,
    RequestContext,
    Values,
    file_response,
    number,
    side_colours,
)
from copydesk.app.web.reviewer import words_of
from copydesk.desk.changes import ChangedHunk, FileChanges, Selection, TaskChanges, UndoneChanges
from copydesk.desk.gates import Checks, Edited
from copydesk.errors import Refusal
from copydesk.text.relpath import RelPath
from copydesk.text.unified import CONTEXT
from copydesk.tools.diff_model import LONG, DiffModel, of_place
from copydesk.tools.refusals import check_words

_MOST_ROWS: Final = 1_000
"""Once a page has so many rows, further files are only named."""

_FIRST_ROWS: Final = 300
"""So many are there at first; the page's script asks for the others at once."""

_HUNK_ROWS: Final = 300
"""A hunk with more rows is shown in part; the plain text has all of it."""

_MOST_EDITED: Final = 200_000
_MOST_NAMED: Final = 3
_VERBS: Final = {"create": "Created", "remove": "Removed", "move": "Moved"}


def changes(ctx: RequestContext) -> Response:
    """The tasks with open changes, or the changes of the task in the query."""
    try:
        query = _query(ctx)
        return _review(ctx, query) if query else _tasks(ctx)
    except Refusal as refusal:
        ctx.session.notify("bad", words_of(refusal))
        return _tasks(ctx)


def _query(ctx: RequestContext) -> dict[str, str]:
    """Which changes are looked at, as the query of an address; empty for the list of tasks."""
    names = ("task", "path", "since")
    return {name: ctx.query[name][:1000] for name in names if ctx.query.get(name)}


def _selection(query: Mapping[str, str]) -> Selection:
    """Raises Refusal for an invalid path."""
    path = RelPath.parse(query["path"]) if "path" in query else None
    since_ms = number(query.get("since", ""), 0, 15)
    return Selection(task=query.get("task", ""), path=path, since_ms=since_ms)


def _tasks(ctx: RequestContext) -> Response:
    tasks = ctx.reviewer.changes()
    return ctx.page(
        "changes.html",
        say("Changes"),
        "changes",
        tasks=[(title_of(task), task, task.lines, _files_of(task)) for task in tasks],
        count=sum(task.open for task in tasks),
        older=ctx.desk.changes.older(ctx.member),
    )


def title_of(task: TaskChanges) -> str:
    """What a task is called: its name, else why it was begun, else whose session it is."""
    return task.name or task.why or say("a session of {name}", name=task.member)


def _files_of(task: TaskChanges) -> str:
    names = [str(file.path) for file in task.files[:_MOST_NAMED]]
    left = len(task.files) - len(names)
    return ", ".join(names) + (say(" and {count:,} more", count=left) if left else "")


def _review(ctx: RequestContext, query: Mapping[str, str]) -> Response:
    """The page of the changes that are selected, file by file."""
    tasks = {task.key: task for task in ctx.reviewer.changes(is_fresh=query.keys() == {"task"})}
    task = tasks.get(query.get("task", ""))
    if task and query.keys() == {"task"}:  # what it would be asked for was just computed
        files = tuple(sorted(task.files, key=lambda file: file.path))
    else:
        files = ctx.desk.changes.view(ctx.member, _selection(query))
    refused, others = ctx.session.refused
    style = DiffOptions.of(ctx.query).view
    size = sum(file.base.size + file.now.size for file in files)
    rows = _MOST_ROWS if ctx.is_partial else _FIRST_ROWS
    shown: list[Values] = []
    views: list[Values] = []
    for at, file in enumerate(files):
        hunks = _hunks(ctx, file, size, style) if rows > 0 else []
        rows -= sum(hunk["rows"] for hunk in hunks)
        shown += hunks
        here = f"#file-{at}" if hunks else address("changes", **{**query, "path": str(file.path)})
        view: Values = {"id": f"file-{at}", "href": here, "hunks": hunks}
        view["ids"] = " ".join(hunk.id for hunk in file.hunks)
        views.append({"file": file, "path": str(file.path), "counts": file.lines, **view})
    ids = [hunk["id"] for hunk in shown]
    for hunk, onward in zip(shown, [*ids[1:], ""], strict=False):
        hunk |= {"onward": onward, "refused": refused.get(hunk["id"], "")}
    open_ = {hunk.id: hunk for file in files for hunk in file.hunks}
    return ctx.page(
        "change.html",
        title_of(task) if task else say("Changes"),
        "changes",
        wide=True,
        task=task,
        files=views,
        query=query,
        shown=ids,
        left=len(open_) - len(ids),
        view=style,
        refused=[(open_[hunk_id], words) for hunk_id, words in refused.items() if hunk_id in open_],
        others=[hunk_id for hunk_id in others.split() if hunk_id in open_],
        may=ctx.reviewer.person.policy.asks_nobody,
    )


def _findings(ctx: RequestContext, file: FileChanges) -> Mapping[int, list[str]]:
    """What parsers newly find in the file, by the hunk at or before it; no command is run."""
    rules = [rule for rule in ctx.reviewer.opened.config.checks if not rule.command]
    path, is_new = file.path, file.kind == "create"
    edited = Edited(path, path, file.base, file.change, is_new, lambda: file.now)
    lines = [hunk.new_line for hunk in file.hunks]
    found: defaultdict[int, list[str]] = defaultdict(list)
    for one in Checks(rules).judge(edited) or () if file.kind != "remove" else ():
        found[max(bisect(lines, (one.line or 1) - 1) - 1, 0)] += (check_words(one, LANG.get()),)
    return found


def _hunks(ctx: RequestContext, file: FileChanges, size: int, style: View) -> list[Values]:
    """What the template is given of each hunk of a file, with its diff rendered.

    `size` is that of all texts of the page: of many, only the lines shown are coloured.
    """
    placed = [hunk for hunk in file.hunks if hunk.kind != "move"]
    spans = [(hunk.new_line, hunk.new_line + len(hunk.new)) for hunk in placed]
    ends = [0, *(stop for _, stop in spans)]
    starts = [*(start for start, _ in spans[1:]), file.now.line_count]
    text = file.base if file.kind == "remove" else file.now
    models: list[DiffModel] = []
    for hunk, (start, stop), low, high in zip(placed, spans, ends, starts, strict=False):
        within = max(start - CONTEXT, low), min(stop + CONTEXT, high)
        models.append(of_place(text, hunk.old, hunk.old_line, (start, stop), within))
    parts = [model.first(_HUNK_ROWS) for model in models]
    path, every = str(file.path), DiffModel(tuple(one for part in parts for one in part.hunks))
    colours = None
    if size <= MOST_COLOURED:
        colours = side_colours(path, file.base, file.now, every, size)
    findings = _findings(ctx, file)
    diffs = [table(path, part, style, colours=colours) for part in parts]
    left = [model.rows - part.rows for model, part in zip(models, parts, strict=True)]
    hunks = zip_longest(file.hunks, diffs, parts, left)  # a move comes last, and has no lines
    return [
        {
            "id": hunk.id,
            "hunk": hunk,
            "edits": hunk.edits[-_MOST_NAMED:][::-1],
            "more": max(len(hunk.edits) - _MOST_NAMED, 0),
            "verb": _VERBS.get(hunk.kind, ""),
            "touched_by": ", ".join(map(translated, hunk.touched_by)),
            "findings": findings.get(at, ()),
            "diff": diff,
            "rows": part.rows if part else 1,
            "left": left,
            "is_cut": any(len(line) > LONG for line in (*hunk.old, *hunk.new)),
            "content": (content := _content(file, hunk)),
            "hidden_count": hidden_in(content or ""),
        }
        for at, (hunk, diff, part, left) in enumerate(hunks)
    ]


def _content(file: FileChanges, hunk: ChangedHunk) -> str | None:
    """The new lines, to be edited; None if that cannot be, as a browser changes line ends."""
    lines = b"".join(hunk.new)
    if hunk.kind not in ("text", "create") or len(lines) > _MOST_EDITED:
        return None
    text = file.now.encoding.decode(lines).replace("\r\n", "\n")
    return None if "\r" in text else text


def diff(ctx: RequestContext) -> Response:
    """The changes that are selected as a file, as `git apply` takes them."""

    def data() -> bytes:
        files = ctx.desk.changes.view(ctx.member, _selection(_query(ctx)))
        return b"".join(file.diff for file in files)

    return file_response(data, "changes.diff")


def _action(action: Callable[[RequestContext, Selection, Sequence[str]], None]) -> Action:
    """Wrap an action on hunks; the next page is that from which the form was sent."""

    def act(ctx: RequestContext) -> Location:
        query = _query(ctx)
        ctx.session.refused = {}, ""
        try:
            action(ctx, _selection(query), ctx.field("hunks").split())
        except Refusal as refusal:
            ctx.session.notify("bad", words_of(refusal))
        onward = ctx.field("onward")
        return address("changes", **query) + (f"#change-{onward}" if onward.isalnum() else "")

    return act


@_action
def keep(ctx: RequestContext, what: Selection, hunks: Sequence[str]) -> None:
    """Keep the hunks."""
    kept = ctx.desk.changes.keep(ctx.reviewer.person, what, hunks)
    if kept:
        ctx.session.notify("good", say("{changes} kept.", changes=named(kept, "change")))
    _tell_missing(ctx, len(hunks) - kept)


@_action
def undo(ctx: RequestContext, what: Selection, hunks: Sequence[str]) -> None:
    """Undo the hunks, all or none; or those that can be undone, if the person said so."""
    open_ = {hunk.id for file in ctx.desk.changes.view(ctx.member, what) for hunk in file.hunks}
    wanted = open_.intersection(hunks)
    outcome = ctx.desk.changes.undo(
        ctx.reviewer.person,
        what,
        wanted,
        reason=ctx.field("text"),
        partly=bool(ctx.field("partly")),
    )
    refused = {hunk.id: words_of(refusal) for hunk, refusal in outcome.refused}
    if refused:
        others = () if outcome.written else wanted.difference(refused)
        ctx.session.refused = refused, " ".join(others)
    count = len(wanted.difference(refused))
    words = "{changes} undone, by edit {ids}.", "{changes} undone, by edits {ids}."
    _tell(ctx, outcome, words, named(count, "change"))
    _tell_missing(ctx, len(hunks) - len(wanted))


@_action
def edit(ctx: RequestContext, what: Selection, hunks: Sequence[str]) -> None:
    """Write the person's text in place of a hunk."""
    person, text = ctx.reviewer.person, ctx.field("content")
    outcome = ctx.desk.changes.rewrite(person, what, "".join(hunks), text)
    for _, refusal in outcome.refused:
        ctx.session.notify("bad", say("Your text was not written: {why}", why=words_of(refusal)))
    _tell(ctx, outcome, ("Your text is written, by edit {ids}.",))


@_action
def comment(ctx: RequestContext, what: Selection, hunks: Sequence[str]) -> None:
    """Comment on a hunk."""
    ctx.desk.changes.comment(ctx.reviewer.person, what, "".join(hunks), ctx.field("text"))
    ctx.session.notify("plain", say("Your comment is told with the next call."))


def _tell(
    ctx: RequestContext, outcome: UndoneChanges, words: Sequence[str], changes: str = ""
) -> None:
    """Tell on the next page what was written, by one edit or by several, or why nothing was."""
    ids = [str(one.edit_id) for one in outcome.written]
    if outcome.waiting:
        ctx.session.notify("plain", say("It is done when it is approved: see Pending."))
    elif ids:
        undo = address("edit", *ids, "undo") if len(ids) == 1 else ""
        done = words[0] if len(ids) == 1 else words[-1]
        ctx.session.notify("good", say(done, changes=changes, ids=", ".join(ids)), undo)


def _tell_missing(ctx: RequestContext, count: int) -> None:
    if count:
        words = "{changes} had changed or gone since this was shown to you."
        ctx.session.notify("bad", say(words, changes=named(count, "change")))


VIEWS: Final[Mapping[str, Callable[[RequestContext], Response]]] = {
    "/changes": changes,
    "/changes/diff": diff,
}
"""The views by address; the forms are in `actions.ACTIONS`."""
