"""What is printed, and for what kind of terminal."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Callable
from typing import Any, TextIO, TypedDict

import click

from grader.cli import spinner
from grader.model.errors import RunError
from grader.wording.folding import fitted, for_stream


def say(sentence: str) -> None:
    """To stderr: one line for a log, and wrapped at words on a terminal."""
    with contextlib.suppress(OSError):
        click.echo(for_stream(sentence, sys.stderr), err=True)


def show_fitted(text: str) -> None:
    """To stdout, and no line longer than the terminal is wide."""
    show(fitted(text, width()))


def tell(text: str) -> None:
    """Sentences to stdout: lines as they stand in a pipe, and wrapped at words on a terminal."""
    show(for_stream(text, sys.stdout))


def show(text: str) -> None:
    """To stdout. A verdict does not change because the reader has gone (`| head`)."""
    try:
        click.echo(text, nl=not text.endswith("\n"), color=True)
        sys.stdout.flush()
    except BrokenPipeError:
        muffle(sys.stdout)
    except OSError as error:
        raise RunError(f"The page could not be written to the standard output: {error.strerror}.") from None


def muffle(stream: Any) -> None:
    """Lead a stream that nobody reads any more to nowhere, so that Python does not complain of it at exit."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def colored(asked: bool | None) -> bool:
    """Whether to use colour: as asked for, or else on a terminal that does not refuse it."""
    if asked is not None:
        return asked
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def takes_links() -> bool:
    """Whether what is shown may hold links, which are no colour: a terminal gets them that is not a dumb one."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def width(stream: TextIO | None = None) -> int:
    """How many columns a stream has, standard output where none is named."""
    return shutil.get_terminal_size((80, 24)).columns if (stream or sys.stdout).isatty() else 80


class Style(TypedDict):
    """How a page is to look."""

    color: bool
    width: int


def style(asked: bool | None) -> Style:
    """As asked for, and as wide as the terminal."""
    return {"color": colored(asked), "width": width()}


def restyled(style: Style) -> Style:
    """The same on a terminal that may have been resized since."""
    return {**style, "width": width()}


EVERY = 10
"""A log gets a line for every so many things that were tried."""


def logged(progress: Callable[[str], None], bad: str) -> Callable[[str], None]:
    """A spinner shows each phase; a log, which gets only the first one from it, one phase in ten as well, and those
    that hold the word `bad`."""
    count = 0

    def tell(phase: str) -> None:
        nonlocal count
        progress(phase)
        if count and (count % EVERY == 0 or bad in phase.partition(":")[0]) and not sys.stderr.isatty():
            say(phase)
        count += 1

    return tell


def progress(label: str, plain: bool) -> contextlib.AbstractContextManager[Callable[[str], None]]:
    terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    return spinner.shown(sys.stderr, label, spinner=terminal and not plain)
