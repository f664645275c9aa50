"""`show`: the statement of an exercise, or its solution once it is passed."""

from __future__ import annotations

import sys

import click

from grader.cli import console, options
from grader.cli.common import exercise_called, readable_store_of
from grader.practice import statement


@click.command("show")
@click.argument("ex")
@click.option("--solution", is_flag=True, help="The solution, once you have passed.")
@click.option("--spoil", is_flag=True, help="With --solution: also before.")
@options.color
def command(ex: str, solution: bool, spoil: bool, color: bool | None) -> None:
    """Show the statement of exercise EX; in a pipe, its Markdown."""
    exercise, root = exercise_called(ex)
    if solution:
        passed = any(attempt.status == "passed" for attempt in readable_store_of(root)[0].attempts(exercise.name))
        text = statement.solution(exercise, root, passed or spoil)
        console.show(statement.coloured(text, **console.style(color)) if sys.stdout.isatty() else text)
        return
    text = statement.statement(exercise)
    console.show(statement.rendered(text, **console.style(color)) if sys.stdout.isatty() else text)
