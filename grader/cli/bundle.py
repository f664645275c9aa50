"""`bundle`: what students and platforms get."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from grader import catalog
from grader.cli import console
from grader.cli.options import file_path
from grader.course import bundles, wheel
from grader.model import number_of
from grader.model.errors import UsageError


@click.group("bundle")
def command() -> None:
    """Make what students and platforms get."""


@command.command("student")
@click.argument("folder", type=file_path)
@click.argument("ex", nargs=-1)
@click.option("--no-mends", is_flag=True, help="Without the packs of mends, which hold the solutions' code, packed.")
def student(folder: Path, ex: tuple[str, ...], no_mends: bool) -> None:
    """Write the students' repository to FOLDER: exercises EX (all without), no solution, no hidden check."""
    made = bundles.student(folder, catalog.repository_root(), ex, mends=not no_mends)
    first = number_of(catalog.resolve(ex[0], made) if ex else catalog.all_names(made)[0])
    console.tell(f"{made} is a student's repository. Try it: cd {shlex.quote(str(made))} && make grade EX={first}")


@command.command("wheel")
@click.argument("folder", type=file_path)
def build_wheel(folder: Path) -> None:
    """Write a wheel to FOLDER: it brings the grader, and `ranklings init`, which makes a student's repository."""
    made = wheel.build(folder, catalog.repository_root())
    trial = f"pip install {shlex.quote(str(made))} && ranklings init COURSE"
    console.tell(f"{made} is ready. Try it in an environment of its own: {trial}")


def _course_options(function: Any) -> Any:
    for option in (
        click.option("--minutes", type=click.FloatRange(2), default=10.0, show_default=True, help="Its time limit."),
        click.option("--checks", type=file_path, metavar="DIR", help="Further cases and checks of your course."),
        click.option("--assignment", type=file_path, metavar="FILE", required=True, help="An assignment.yaml."),
    ):
        function = option(function)
    return function


@command.command("gradescope")
@click.argument("folder", type=file_path)
@_course_options
@click.option("--pip-settings", type=file_path, metavar="FILE", help="A pip.conf for the image, such as an own index.")
def gradescope(folder: Path, assignment: Path, checks: Path | None, minutes: float, pip_settings: Path | None) -> None:
    """Write FOLDER/autograder.zip, to be uploaded to Gradescope."""
    if pip_settings and not pip_settings.is_file():
        raise UsageError(f"There is no file {pip_settings}; --pip-settings names a pip.conf.")
    course = bundles.course(catalog.repository_root(), assignment, checks)
    made = bundles.gradescope(folder, course, minutes=minutes, pip_settings=pip_settings)
    console.tell(f"{made} is ready to be uploaded. The assignment is worth {course.assignment.points:g} points.")


@command.command("github")
@click.argument("folder", type=file_path)
@_course_options
def github(folder: Path, assignment: Path, checks: Path | None, minutes: float) -> None:
    """Write workflows for GitHub Actions and an autograder for Classroom 50 to FOLDER."""
    course = bundles.course(catalog.repository_root(), assignment, checks)
    made = bundles.github(folder, course, minutes=minutes)
    console.tell(f"{made}/README.md says where the parts go.")
