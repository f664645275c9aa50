"""`explain`: why the checks that fail matter in production."""

from __future__ import annotations

import click

from grader.cli import console, options
from grader.cli.attempts import current
from grader.cli.common import exercise_called, readable_store_of
from grader.model import Check
from grader.practice import coach


@click.command("explain")
@click.argument("ex")
@click.option("--check", metavar="ID", help="Only this check.")
@click.option("--all", "every", is_flag=True, help="All checks, not only those that fail now.")
@options.color
def command(ex: str, check: str | None, every: bool, color: bool | None) -> None:
    """Say why the checks of exercise EX that fail now matter in production, and where to read on."""
    exercise, root = exercise_called(ex)
    checks: tuple[Check, ...] = exercise.checks
    if check:
        checks = (coach.check_called(exercise, check),)
    elif not every and (attempt := current(exercise, root, readable_store_of(root)[0])):
        checks = coach.failing(exercise, attempt)
    if not checks:
        console.show(f"Every check of {exercise.name} passes. --all explains them all.")
        return
    console.show(coach.explanation_page(exercise, checks, **console.style(color)))
