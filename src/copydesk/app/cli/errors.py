"""How a failed command is reported, in words or as JSON, and its exit status."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Mapping

from copydesk.app import terminal
from copydesk.app.cli.parser import UsageError, said
from copydesk.app.config import ConfigError
from copydesk.errors import Refusal
from copydesk.tools import refusals, reports
from copydesk.tools.messages import has, in_shell, say, say_reason
from copydesk.tools.report import Answer, Lang

_SEE = {
    "HUNK_NOT_FOUND": "cli.see_pending",
    "INVALID_HUNK_ID": "cli.see_pending",
    "FAILED": "cli.see_doctor",
}


KNOWN = (Refusal, UsageError, ConfigError, sqlite3.Error, OSError)
"""The failures that are not bugs; any other keeps its traceback."""


def report(error: Exception, *, as_json: bool, lang: Lang = "en") -> int:
    """Report the failure; return the exit status."""
    if isinstance(error, Refusal):
        words, hint = refusal_words(error, lang), ""
        data = refusal_data(error, lang) if as_json else {}
    else:
        code, *texts = _unusable(error)
        words, hint = (said(text, lang) for text in texts)
        ended = words if words.endswith(("?", "？")) else f"{words}."
        summary = f"{ended} {hint}" if hint else words
        data = {"status": "error", "error": code, "summary": summary}
    if as_json:
        terminal.dump(data)
    else:
        terminal.complain(words)
        if hint:
            terminal.tell(f"  {hint}", sys.stderr)
    return 1 if isinstance(error, Refusal) else 2


def refusal_data(refusal: Refusal, lang: Lang, **known_facts: str) -> dict[str, object]:
    """A refusal for a program; `known_facts` are added to its own facts."""
    fields = reports.refused("", None, refusal, lang).fields
    return {**known_facts, **{name: fact for name, fact in fields.items() if name != "mode"}}


def refusal_words(refusal: Refusal, lang: Lang) -> str:
    """A refusal for a person: code, problem, next step."""
    return _for_person(refusal.code, refusals.refusal_words(refusal, lang), refusal.facts(), lang)


def print_refusal(answer: Answer, lang: Lang, hunk_id: str = "") -> None:
    """Print a tool's refusal for a person."""
    fields = answer.fields
    words = _for_person(str(fields["error"]), str(fields["summary"]), fields, lang)
    terminal.complain(f"{hunk_id}: {words}" if hunk_id else words)
    for notice in answer.notices:
        terminal.complain(notice)


def _for_person(code: str, words: str, facts: Mapping[str, object], lang: Lang) -> str:
    """A refusal without what only concerns agents; `words` are those for them."""
    reason = str(facts.get("reason") or facts.get("why"))
    name = f"{code}.{reason}.person"
    if not has(name) and not has(f"{code}.{reason}"):
        name = f"{code}.person"
    if has(name):
        key = f"reason.{reason}"
        why = say(key, lang) if has(key) else say_reason(reason, lang)
        words = say(name, lang, {**facts, "reason": why})
    see = f" {say(_SEE[code], lang)}" if code in _SEE else ""
    return f"{code}: {in_shell(words)}{see}"


def _unusable(error: Exception) -> tuple[str, str, str]:
    """Code, message and next step of a failure that is not a refusal."""
    if isinstance(error, UsageError):
        return "USAGE", str(error), error.hint
    if isinstance(error, ConfigError):
        return "CONFIGURATION", str(error), ""
    words = str(error)
    if isinstance(error, OSError) and error.strerror:
        words = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return "WORKSPACE", words, "copydesk doctor says what is wrong and how to fix it."
