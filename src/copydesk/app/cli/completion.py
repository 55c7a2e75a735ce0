"""Completion on the command line: the shells' scripts, and the words that they request.

The scripts call `copydesk completion words -- WORD ...` for candidates for the last word; a line
`:files` makes the shell add its own files.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, cast

from copydesk.app import manuals
from copydesk.app.cli.init import CLIENTS
from copydesk.app.cli.parser import COMMANDS, new_parser
from copydesk.app.config import TOOLSETS
from copydesk.app.reference import all_tools
from copydesk.app.workspace import OpenWorkspace

FILES: Final = ":files"
_MOST_EDITS: Final = 30

SCRIPTS: Final = {
    "bash": r"""# copydesk completion bash >> ~/.bash_completion
_copydesk() {
    local cur="${COMP_WORDS[COMP_CWORD]}" word
    COMPREPLY=()
    while IFS= read -r word; do
        if [ "$word" = ":files" ]; then
            compopt -o filenames 2>/dev/null
            while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$cur")
        else
            COMPREPLY+=("$word")
        fi
    done < <(copydesk completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _copydesk copydesk
""",
    "zsh": r"""#compdef copydesk
# copydesk completion zsh > "${fpath[1]}/_copydesk", or: source <(copydesk completion zsh)
_copydesk() {
    local -a found
    found=("${(@f)$(copydesk completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if (( ${found[(I):files]} )); then
        found=("${(@)found:#:files}")
        _files
    fi
    [[ -n "$found" ]] && compadd -- "${found[@]}"
}
if [[ "$funcstack[1]" = "_copydesk" ]]; then _copydesk "$@"; else compdef _copydesk copydesk; fi
""",
    "fish": r"""# copydesk completion fish > ~/.config/fish/completions/copydesk.fish
function __copydesk
    set -l words (commandline -opc)[2..-1] (commandline -ct)
    for word in (copydesk completion words -- $words 2>/dev/null)
        if test "$word" = ":files"
            __fish_complete_path (commandline -ct)
        else
            echo $word
        end
    end
end
complete -c copydesk -f -a '(__copydesk)'
""",
}

_Open = Callable[[], OpenWorkspace]


def candidates(words: Sequence[str], opened: _Open) -> Iterator[str]:
    """Candidates for the last word, which may be empty; ids are those of pending plans."""
    *before, last = words or [""]
    with suppress(Exception):  # whatever is wrong with the workspace, completion stays silent
        for word in dict.fromkeys([*_candidates(before, last, opened)]):
            if word == FILES or word.startswith(last):
                yield word


def _candidates(before: Sequence[str], last: str, opened: _Open) -> Iterator[str]:
    parser, given = new_parser(), 0
    waiting: argparse.Action | None = None  # an option whose value is next
    tool = ""
    for word in before:
        if waiting is not None:
            waiting = None
        elif word.startswith("-"):
            taking = (action for action in _actions(parser) if action.nargs != 0)
            waiting = next((action for action in taking if word in action.option_strings), None)
        elif word in (commands := _commands(parser)):
            parser, given = commands[word], 0
        else:
            tool, given = tool or word, given + 1
    if waiting is not None:
        yield from _values(waiting, opened)
    elif tool and parser.prog.endswith(" call"):
        yield from _arguments(tool, before[-1])
    elif last.startswith("-"):
        for action in _actions(parser):
            if action.help != argparse.SUPPRESS:
                yield from (name for name in action.option_strings if name.startswith("--"))
    elif commands := _commands(parser):
        yield from commands
    else:
        places = [action for action in _actions(parser) if not action.option_strings]
        if places and (given < len(places) or places[-1].nargs in ("+", "*")):
            yield from _values(places[min(given, len(places) - 1)], opened)


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return parser._actions  # pyright: ignore[reportPrivateUsage]  # argparse has no other way to ask


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in _actions(parser):
        if isinstance(action, argparse._SubParsersAction):  # pyright: ignore[reportPrivateUsage]  # as above
            return cast("dict[str, argparse.ArgumentParser]", action.choices)
    return {}


def _values(action: argparse.Action, opened: _Open) -> Iterable[str]:
    """The completions of an argument, by its kind."""
    if action.choices is not None:
        return [str(choice) for choice in action.choices if choice != "words"]
    if action.dest in _OF_WORKSPACE:
        with opened() as workspace:
            return [*_OF_WORKSPACE[action.dest](workspace, workspace.config.member)]
    return _VALUES[action.dest]() if action.dest in _VALUES else ()


def _tools() -> list[str]:
    return [tool.name for tool in all_tools()]


_VALUES: Mapping[str, Callable[[], Iterable[str]]] = {
    **dict.fromkeys(("path", "file", "root"), lambda: (FILES,)),
    "client": lambda: (client.name for client in CLIENTS),
    "toolsets": lambda: TOOLSETS,
    "toolset": manuals.toolsets,
    "tool": _tools,
    "words": lambda: (*COMMANDS, *_tools()),
}
_OF_WORKSPACE: Mapping[str, Callable[[OpenWorkspace, str], Iterable[str]]] = {
    "member": lambda workspace, member: (member, *workspace.config.members),
    "hunk_id": lambda workspace, member: (
        waiting.plan.id for waiting in workspace.desk.review.pending(workspace.member(member))
    ),
    "edit_id": lambda workspace, member: (
        str(edit.edit_id) for edit in workspace.history(member, most=_MOST_EDITS)
    ),
    **dict.fromkeys(
        ("since", "to"),
        lambda workspace, member: (point.name for point in workspace.desk.changes.checkpoints()),
    ),
    "task": lambda workspace, member: (
        task.key for task in workspace.desk.changes.tasks(workspace.member(member))
    ),
    "change": lambda workspace, member: (
        hunk.id
        for file in workspace.desk.changes.view(workspace.member(member))
        for hunk in file.hunks
    ),
}


def _arguments(name: str, previous: str) -> Iterator[str]:
    """The arguments of a tool after `copydesk call TOOL`, and files if it takes a path."""
    if previous in ("--path", "--source", "--destination"):
        yield FILES
    else:
        schemas = (tool.schema for tool in all_tools() if tool.name == name)
        yield from (f"--{argument}" for schema in schemas for argument in schema["properties"])
