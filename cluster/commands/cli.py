"""Runs the command line: parses it, runs its verb, and turns errors into one line and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from pyrite.cluster.commands.signals import (
    discard_output,
    exit_code,
    handled_signals,
    ignore_further_signals,
    listen,
    replace_unprintable,
)
from pyrite.cluster.commands.verbs import VERBS, parse
from pyrite.cluster.config.build import missing_extra
from pyrite.cluster.config.secrets import concealed
from pyrite.cluster.config.trust import typed_command
from pyrite.cluster.executors.address import working_folder
from pyrite.cluster.executors.task import located
from pyrite.cluster.output.terminal import visible
from pyrite.ranking.errors import BadInput
from pyrite.ranking.whole_file import FULL

if TYPE_CHECKING:
    pass

FIRST_STEPS = """\
Where should a neural ranker's negatives come from? Compare ways of choosing them:

  pyrite study scale=tiny
      on Python's docstrings, in a minute
  pyrite study collection.path=pairs.csv 'function=[in_batch,bm25]' negatives.bm25=0,1,8 scale=tiny
      on your pairs of queries and passages
  pyrite mine collection.path=pairs.csv function=bm25
      mine negatives for another trainer

`pyrite --help` lists all verbs, `pyrite VERB --help` explains one, `pyrite options` lists all options."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command. Exit code 0 is success, 1 failed runs, 2 bad input, 130 Ctrl-C and 143 SIGTERM."""
    listen()
    replace_unprintable()
    given = sys.argv[1:] if arguments is None else list(arguments)
    if not given:
        print(FIRST_STEPS)
        sys.exit(0)
    with handled_signals(restore=arguments is not None), exit_codes(), typed_command(given):
        _check_readable([*given, working_folder() or ""])
        chosen = parse(given)
        from pyrite.cluster.output.screen import Screen, show_warnings

        show_warnings()
        console = Screen()
        console.on_broken_pipe = lambda: discard_output(console)  # type: ignore[method-assign]
        chosen.from_shell = arguments is None
        sys.exit(located(VERBS[chosen.verb].runs)(chosen, console))


def _check_readable(arguments: Sequence[str]) -> None:
    """Refuse a name of a file or folder that is not UTF-8: Python has its bytes as lone surrogates."""
    for text in arguments:
        if not text.isascii() and any("\ud800" <= sign <= "\udfff" for sign in text):
            shown = os.fsencode(text).decode(errors="backslashreplace")
            raise BadInput("is not UTF-8", shown, "rename that file or folder")


@contextmanager
def exit_codes() -> Iterator[None]:
    """Turn errors that the user can fix, and an interrupt, into one line and an exit code."""
    try:
        yield
    except ModuleNotFoundError as error:
        refused = missing_extra(error)
        if refused is None:
            raise
        _exit(str(refused), 2)
    except BadInput as error:
        _exit(str(error), 2)
    except KeyboardInterrupt as error:
        ignore_further_signals()
        _exit("interrupted", exit_code(error))
    except FileNotFoundError:
        if working_folder() is not None:
            raise
        _exit("the working folder has been deleted; change to another one", 2)
    except BrokenPipeError:  # the reader of a pipe has ended
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        if error.errno not in FULL:
            raise
        _exit(f"{FULL[error.errno]} ({error}); make room, and give the command again", 2)


def _exit(message: str, code: int) -> NoReturn:
    print(f"pyrite: {visible(concealed(message))}", file=sys.stderr)
    sys.exit(code)
