"""``kedge completion SHELL``: a script by which bash or zsh completes commands, options and their values."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator
from typing import Any, Final, NoReturn

from kedge.cli import COMMANDS
from kedge.evidence.command_line import described

#: zsh has the functions of bash, once it is asked for them.
_ZSH: Final = "autoload -U +X compinit && compinit; autoload -U +X bashcompinit && bashcompinit\n"
#: Where no word is known, the shell completes names of files.
_SCRIPT: Final = """\
_kedge() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" words=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{commands} --help --version"
    else
        case "${{COMP_WORDS[1]}} $before" in
{values}
        *) case "${{COMP_WORDS[1]}} $word" in
{options}
            esac ;;
        esac
    fi
    COMPREPLY=( $(compgen -W "$words" -- "$word") )
}}
complete -o default -F _kedge kedge
"""


def main(arguments: list[str] | None = None) -> int:
    """Print the script."""
    parser = argparse.ArgumentParser(prog="kedge completion", description=described(__doc__))
    parser.add_argument("shell", choices=["bash", "zsh"], help="bash: source it; zsh: the same, in .zshrc")
    options = parser.parse_args(arguments)
    print((_ZSH if options.shell == "zsh" else "") + script(), end="")
    return 0


def script() -> str:
    """Return the script, from what each command's parser takes."""
    parsers = {name: parser for name, one in COMMANDS.items() if (parser := _parser(one.module))}
    values = [line for name, parser in parsers.items() for line in _values(name, parser)]
    options = [line for name, parser in parsers.items() for line in _options(name, parser)]
    return _SCRIPT.format(commands=" ".join(COMMANDS), values="\n".join(values), options="\n".join(options))


class _MadeError(Exception):
    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.parser = parser


def _parser(module: str) -> argparse.ArgumentParser | None:
    """Return the parser that a command's ``main`` makes; None where a wheel lacks what it needs."""
    own = argparse.ArgumentParser.parse_known_args

    # Each main makes its parser and parses at once: a function beside each of them would serve this alone.
    def made(parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        raise _MadeError(parser)

    argparse.ArgumentParser.parse_known_args = made  # type: ignore[method-assign, assignment]
    try:
        importlib.import_module(module).main([])
    except _MadeError as found:
        return found.parser
    except ModuleNotFoundError:
        return None
    finally:
        argparse.ArgumentParser.parse_known_args = own  # type: ignore[method-assign]
    return None


def _values(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in _actions(parser):
        if action.option_strings and action.choices:
            asked = "|".join(f'"{name} {option}"' for option in action.option_strings)
            yield f'        {asked}) words="{_words(action)}" ;;'


def _options(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    options = " ".join(option for action in _actions(parser) for option in action.option_strings)
    yield f'            "{name} -"*) words="{options}" ;;'
    chosen = [_words(action) for action in _actions(parser) if action.choices and not action.option_strings]
    if chosen:
        yield f'            "{name} "*) words="{" ".join(chosen)}" ;;'


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in parser._actions if action.help != argparse.SUPPRESS]


def _words(action: argparse.Action) -> str:
    return " ".join(map(str, action.choices or ()))
