"""`hint`: the next hint for the check that fails now."""

from __future__ import annotations

import click

from grader.cli import clock, console
from grader.cli.attempts import current
from grader.cli.common import exercise_called, readable_store_of
from grader.practice import coach


@click.command("hint")
@click.argument("ex")
@click.option("--level", type=click.IntRange(1, 3), help="Which of the three; without it the one after the last.")
@click.option("--check", metavar="ID", help="For this check; without it for the first that fails.")
def command(ex: str, level: int | None, check: str | None) -> None:
    """Show a hint for the check of exercise EX that fails now. Each call says more."""
    exercise, root = exercise_called(ex)
    store, lasting = readable_store_of(root)
    attempt = None if check else current(exercise, root, store)
    found = coach.next_hint(exercise, attempt, store, level=level, wanted=check)
    if found is None:
        console.show(f"Every check of {exercise.name} passes; there is nothing to hint at.")
        return
    coach.take(found, store, clock.now())
    console.show(coach.hint_page(found, console.width(), lasting=lasting))
