"""Completion on the command line: the shells' scripts, and the words that they request.

The scripts call `copydesk completion words -- WORD ...` for candidates for the last word; a line
`:files` makes the shell add its own files.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import Final, cast

from copydesk.app.cli.parser import new_parser
from copydesk.app.config import TOOLSETS
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
    try:
        found = list(_candidates(before, last, opened))
    except Exception:  # whatever is wrong with the workspace, completion stays silent
        return
    for each in dict.fromkeys(found):
        if each == FILES or each.startswith(last):
            yield each


def _candidates(before: Sequence[str], last: str, opened: _Open) -> Iterator[str]:
    parser, given = new_parser()[0], 0
    waiting: argparse.Action | None = None
    tool = ""
    for word in before:
        if waiting is not None:
            waiting = None
        elif word.startswith("-"):
            options = (one for one in _actions(parser) if word in one.option_strings)
            waiting = next((one for one in options if one.nargs != 0), None)
        else:
            inner = _commands(parser).get(word)
            if inner is not None:
                parser, given = inner, 0
            else:
                tool, given = tool or word, given + 1
    if waiting is not None:
        yield from _values(waiting, opened)
    elif tool and parser.prog.endswith(" call"):
        yield from _arguments(tool, before[-1])
    elif last.startswith("-"):
        known = (action for action in _actions(parser) if action.help != argparse.SUPPRESS)
        spelled = (name for action in known for name in action.option_strings)
        yield from (name for name in spelled if name.startswith("--"))
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


def _values(action: argparse.Action, opened: _Open) -> Iterator[str]:
    """The completions of an argument, by its kind."""
    name = action.dest
    if action.choices is not None:
        yield from (str(each) for each in action.choices if each != "words")
    elif name in ("path", "file", "root"):
        yield FILES
    elif name == "client":
        from copydesk.app.setup import CLIENTS

        yield from (client.name for client in CLIENTS)
    elif name == "toolsets":
        yield from TOOLSETS
    elif name == "toolset":
        from copydesk.app import manuals

        yield from manuals.toolsets()
    elif name == "tool":
        yield from _tools()
    elif name == "words":
        yield from (*new_parser()[1], *_tools())
    elif name in ("hunk_id", "edit_id", "member", "task", "since", "to", "change"):
        with opened() as workspace:
            config, changes = workspace.config, workspace.desk.changes
            if name == "member":
                yield from (config.member, *config.members)
            elif name == "hunk_id":
                waiting = workspace.desk.review.pending(workspace.member(config.member))
                yield from (one.plan.id for one in waiting)
            elif name in ("since", "to"):
                yield from (checkpoint.name for checkpoint in changes.checkpoints())
            elif name == "task":
                yield from (task.key for task in changes.tasks(workspace.member(config.member)))
            elif name == "change":
                files = changes.view(workspace.member(config.member))
                yield from (hunk.id for file in files for hunk in file.hunks)
            else:
                edits = workspace.history(config.member, most=_MOST_EDITS)
                yield from (str(edit.edit_id) for edit in edits)


def _tools() -> Iterator[str]:
    from copydesk.app.reference import all_tools

    yield from (tool.name for tool in all_tools())


def _arguments(name: str, previous: str) -> Iterator[str]:
    """The arguments of a tool after `copydesk call TOOL`, and files if it takes a path."""
    from copydesk.app.reference import all_tools

    if previous in ("--path", "--source", "--destination"):
        yield FILES
        return
    for tool in all_tools():
        if tool.name == name:
            yield from (f"--{argument}" for argument in tool.schema["properties"])
