"""`init`: a course to work in."""

from __future__ import annotations

import shlex
from importlib.util import find_spec
from pathlib import Path

import click

from grader import calling, catalog
from grader.cli import console
from grader.cli.options import file_path
from grader.model import number_of
from grader.practice import begin


@click.command("init")
@click.argument("folder", type=file_path, metavar="COURSE")
def command(folder: Path) -> None:
    """Begin a course in the folder COURSE: all exercises, their stubs untouched, and the quiz."""
    made = _made(folder)
    first = number_of(catalog.all_names(made)[0])
    console.tell(
        f"{made} is your course. Begin: cd {shlex.quote(str(made))}, then {calling.command('show', first)}, write the "
        f"file that it names, and {calling.command('grade', first)}"
    )


def _made(folder: Path) -> Path:
    """From the wheel; in a clone, which brings none, as `bundle student` does."""
    if begin.archive() is None and find_spec("grader.course"):
        from grader.course import bundles

        return bundles.student(folder, catalog.repository_root(), ())
    return begin.course(folder)
