"""What is printed, and for what kind of terminal."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Callable
from typing import Any, TypedDict

import click

from grader.cli import spinner
from grader.model.errors import RunError


def say(sentence: str) -> None:
    with contextlib.suppress(OSError):
        click.echo(sentence, err=True)


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


def width() -> int:
    return shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() else 80


class Style(TypedDict):
    """How a page is to look."""

    color: bool
    width: int


def style(asked: bool | None) -> Style:
    """As asked for, and as wide as the terminal."""
    return {"color": colored(asked), "width": width()}


def progress(label: str, plain: bool) -> contextlib.AbstractContextManager[Callable[[str], None]]:
    terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    return spinner.shown(sys.stderr, label, spinner=terminal and not plain)
