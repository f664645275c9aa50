"""`new`: the files of a new exercise."""

from __future__ import annotations

import click

from grader import calling, catalog
from grader.authoring import new
from grader.cli import console
from grader.cli.ending import PASSED


@click.command("new")
@click.argument("name")
def command(name: str) -> int:
    """Begin exercise NAME, as 22_all_reduce: its files and its reference, small, alive and ready for `verify`."""
    root = catalog.repository_root()
    exercise, reference = new.create(name, root)
    number = name.partition("_")[0]
    console.tell(
        f"{exercise.relative_to(root)} and {reference.relative_to(root)} hold a small exercise that works.\n"
        f"Prove it with `{calling.command('verify', number)}`, then change it into yours: docs/author.md has the order "
        "of work."
    )
    return PASSED
