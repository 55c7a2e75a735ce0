"""The texts that users and models read, in English and Chinese: `en.toml` and `zh.toml`.

Invariant: the file of a language is read when it is first needed, and not before.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from string import Formatter
from typing import TYPE_CHECKING, Any, Literal, cast

from copydesk.errors import Refusal
from copydesk.text.relpath import RelPath

if TYPE_CHECKING:
    from copydesk.notes.grammar import Problem

Lang = Literal["en", "zh"]


@dataclass(frozen=True, slots=True)
class ToolTexts:
    """The texts of one tool; `arguments` overrides the common argument texts."""

    title: str
    description: str
    arguments: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Texts:
    """All texts of one language, by key."""

    messages: Mapping[str, str]
    arguments: Mapping[str, str]
    tools: Mapping[str, ToolTexts]
    reasons: Mapping[str, str]


@cache
def texts(lang: Lang) -> Texts:
    """The texts of a language."""
    data: dict[str, Any] = tomllib.loads((files(__name__) / f"{lang}.toml").read_text("utf-8"))
    return Texts(
        {key: text for group in data["messages"].values() for key, text in group.items()},
        data["arguments"],
        {name: ToolTexts(**tool) for name, tool in data["tools"].items()},
        data.get("reasons", {}),
    )


def has(key: str) -> bool:
    """Whether there is a message with this key."""
    return key in texts("en").messages


def say(
    key: str, lang: Lang, facts: Mapping[str, object] | None = None, *, mirror: bool = False
) -> str:
    """The message `key` in `lang`, filled with the facts.

    If a fact is unknown, which is shown as `?`, `key.less` is used if it exists. `span` stands for
    lines `start` to `end`. `mirror`: tools are named as in the
    mirror toolset.
    """
    messages, given = texts(lang).messages, facts or {}
    template = _TOOLS.sub(r"team_mgmt_\g<0>", messages[key]) if mirror else messages[key]
    said, lacks = "", False
    for text, name, spec in _parsed(template):
        said += text
        if name is None:
            continue
        fact = given.get(name)
        if fact is None and name == "span":
            start, end = given.get("start"), given.get("end")
            fact = f"{start}~{end}" if start is not None and end is not None else None
        if fact is None:
            fact, lacks = "?", True
        said += _told(fact, spec, given) if spec or type(fact) not in _PLAIN else f"{fact}"
    if lacks and f"{key}.less" in messages:
        return say(f"{key}.less", lang, facts, mirror=mirror)
    return said


@cache
def _parsed(template: str) -> tuple[tuple[str, str | None, str], ...]:
    """The parts of a template: a text, and the name and the form of the fact after it."""
    return tuple((text, name, spec or "") for text, name, spec, _ in Formatter().parse(template))


def _told(fact: object, spec: str, given: Mapping[str, object]) -> str:
    """A fact in the form that the template says; `line|lines` are the nouns of a number or lines.

    A number gets its noun, and so do lines `N~M` or `N and M`.
    """
    if type(fact) is tuple:
        return ", ".join(map(str, cast("tuple[object, ...]", fact)))
    if spec[:1] == "{":  # the nouns are a fact themselves
        spec = str(given[spec[1:-1]])
    if "|" not in spec:
        return f"{int(fact) if type(fact) is bool else fact:{spec}}"
    singular, plural = spec.split("|")
    if isinstance(fact, int):
        return f"{int(fact)} {singular if fact == 1 else plural}"
    first, _, last = str(fact).partition("~")
    is_one = last in ("", first) and " " not in first
    return f"{singular} {first}" if is_one else f"{plural} {fact}"


_TOOLS = re.compile(
    r"\b(?:read_file|create_new_file|overwrite_entire_file|replace_text|prepare_file_\w+|list_\w+"
    r"|ripgrep_\w+|apply_file_\w+|undo_file_\w+|discard_hunk|show_hunk)\b"
)
_IN_SHELL = {
    "apply_file_modification": "copydesk apply",
    "undo_file_modification": "copydesk undo",
    "discard_hunk": "copydesk discard",
    "list_pending": "copydesk pending",
    "list_edits": "copydesk history",
}


def in_shell(words: str) -> str:
    """A message for tool callers, reworded for the shell."""
    return _TOOLS.sub(lambda match: _IN_SHELL.get(match[0], f"copydesk call {match[0]}"), words)


_IN_LIBRARY = {
    "read_file": "desk.read",
    "create_new_file": "desk.create",
    "overwrite_entire_file": "desk.overwrite",
    "replace_text": "ReplaceText",
    "prepare_file_range_edit": "RangeEdit",
    "prepare_file_delete": "DeleteFile",
    "apply_file_modification": "desk.apply",
    "undo_file_modification": "desk.undo",
    "list_pending": "desk.pending",
    "list_edits": "desk.history",
}


def in_library(words: str) -> str:
    """A message for tool callers, reworded for a program."""
    return _TOOLS.sub(lambda match: _IN_LIBRARY.get(match[0], match[0]), words)


def say_reason(reason: str, lang: Lang) -> str:
    """The reason of a refusal in `lang`; unchanged if there is no text for it.

    Reasons are written in English in the code; those of the operating system stay as they are. A
    `{}` in the table stands for a part of the reason, which may be a reason itself or a name.
    """
    if (exact := texts(lang).reasons.get(reason)) is not None:
        return exact
    matches = ((pattern.fullmatch(reason), said) for pattern, said in _templates(lang))
    match, said = next((pair for pair in matches if pair[0]), (None, reason))
    return said.format(*(say_reason(part, lang) for part in match.groups())) if match else reason


@cache
def _templates(lang: Lang) -> tuple[tuple[re.Pattern[str], str], ...]:
    """The reasons with variable parts, as patterns of the English text."""
    return tuple(
        (re.compile("(.+?)".join(map(re.escape, reason.split("{}"))), re.DOTALL), said)
        for reason, said in texts(lang).reasons.items()
        if "{}" in reason
    )


def say_problem(problem: Problem, lang: Lang) -> str:
    """One problem of a block diff: its line, code, remedy, and the diff of a mismatch."""
    facts = asdict(problem)
    said = say(".".join(filter(None, ("block_diff", problem.code, problem.reason))), lang, facts)
    lines = [say("block_diff.line", lang, {**facts, "said": said})]
    if problem.difference is not None:
        lines += [say("block_diff.similar", lang, facts), *problem.difference]
    return "\n".join(lines)


def say_notes_refusal(refusal: Refusal, lang: Lang) -> str:
    """The message of a refused block diff, with all its problems, or of a refused slice."""
    from copydesk.notes.grammar import BlockDiffRefused, InvalidSlice  # rarely needed

    if isinstance(refusal, InvalidSlice):
        why = say(f"slice.{refusal.reason}", lang, {"part": refusal.part})
        return say("INVALID_SLICE", lang, {**refusal.facts(), "why": why})
    assert isinstance(refusal, BlockDiffRefused), "no other refusal has a message here"
    problems = [say_problem(problem, lang) for problem in refusal.problems]
    return "\n".join([say("BLOCK_DIFF_REFUSED", lang), *problems])


_PLAIN = (str, int, RelPath)
