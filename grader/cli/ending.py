"""How every command ends: an exit code and at most one sentence, never a traceback of ours."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import click

from grader import calling, leaving
from grader.cli.console import muffle, say
from grader.model.errors import GraderError

PASSED, FAILED, WRONG, FAULT, INTERRUPTED = 0, 1, 2, 3, 130
INTERRUPTION = "Interrupted: nothing was graded and nothing is left running."
NO_GRADE = "Interrupted: nothing is left running."


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP, cleaned up after in the same way as Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.exit_code = 128 + number


def end(run: Callable[[], Any], *, debug: bool, grades: bool = True) -> NoReturn:
    """Call `run` and exit with the code that it gives, or with that of the error that it raised. `debug` lets one that
    nobody foresaw through; `grades` says that there would have been a grade."""
    try:
        with leaving.handled(leaving.Stop(Terminated, lambda number: 128 + number)):
            code = run()
    except click.ClickException as error:
        _show_usage(error)
        code = WRONG
    except (click.Abort, KeyboardInterrupt) as error:
        say(INTERRUPTION if grades else NO_GRADE)
        code = getattr(error.__cause__ or error, "exit_code", INTERRUPTED)
    except GraderError as error:
        say(f"grader: {error}")
        code = error.exit_code
    except Exception as error:
        if debug:
            raise
        say(_unexpected(error))
        code = WRONG if _is_left_out(error) else FAULT
    leave(code if isinstance(code, int) else PASSED)


def _show_usage(error: click.ClickException) -> None:
    """As click words it, for make as it is called by make, and wrapped as our own sentences are."""
    context: click.Context | None = getattr(error, "ctx", None)
    if context and context.parent and not context.parent.parent:
        verb = str(context.info_name)
        if made := calling.usage(verb, context.command.collect_usage_pieces(context)):
            helped = calling.command(verb, "", "-h")
            return say(f"Usage: {made}\nTry '{helped}' for help.\n\nError: {error.format_message()}")
    page = io.StringIO()
    error.show(file=page)
    say(page.getvalue().rstrip("\n"))


def _is_left_out(error: Exception) -> bool:
    """Whether a part of the grader is missing that students' copies and the wheel do not have."""
    theirs = ("grader.authoring", "grader.course")
    return isinstance(error, ModuleNotFoundError) and (error.name or "").startswith(theirs)


def _unexpected(error: Exception) -> str:
    """One sentence for an exception that nobody foresaw."""
    if _is_left_out(error):
        return "grader: This command is for authors and teachers. Only a clone of the project has it."
    if isinstance(error, ModuleNotFoundError) and not (error.name or "grader").startswith("grader"):
        return (
            f"grader: The package {error.name} is not installed here. {calling.installing(error.name or 'ranklings')}"
        )
    if isinstance(error, MemoryError):
        return "grader: This machine ran out of memory while the grader worked. Close other programs and try again."
    what = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    return (
        f"grader: The grader itself went wrong ({what}). This is not your fault. "
        f"Please report it with what the same command says with {calling.option('--debug')}."
    )


def leave(code: int) -> NoReturn:
    """Exit, silently also where the reader of our output has gone."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            muffle(stream)
    leaving.end_with(code)
