"""`reset`: the stub again; the student's file is kept beside it."""

from __future__ import annotations

import click

from grader.cli import console
from grader.cli.common import confirmed, exercise_called
from grader.cli.ending import FAILED, PASSED
from grader.practice import reset as stubs


@click.command("reset")
@click.argument("ex")
@click.option("--yes", is_flag=True, help="Do not ask.")
def command(ex: str, yes: bool) -> int:
    """Put the stub of exercise EX back; your file is kept beside it."""
    exercise, root = exercise_called(ex)
    stub = stubs.original(exercise, root)
    if stubs.untouched(exercise, stub):
        console.tell(f"{exercise.stub} is the stub already; nothing was done.")
        return PASSED
    keeping = ", and keep your file beside it" if exercise.stub.exists() else ""
    if not yes and not confirmed(f"Put the stub back as {exercise.stub}{keeping}?", "reset"):
        console.say("Nothing was reset.")
        return FAILED
    kept = stubs.reset(exercise, stub)
    console.tell(f"{exercise.stub} is the stub again." + (f" Your file is kept as {kept}." if kept else ""))
    return PASSED
