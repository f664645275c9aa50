"""`list`: all exercises, and which are begun or passed."""

from __future__ import annotations

import click

from grader import catalog
from grader.cli import console, options
from grader.cli.common import tell_faults
from grader.practice import history, overview


@click.command("list")
@options.color
def command(color: bool | None) -> int:
    """List all exercises with points and time, and which you have begun or passed."""
    root = catalog.repository_root()
    listed = overview.entries(root, history.passed_names(root))
    console.show(overview.table(listed, **console.style(color)))
    return tell_faults(listed)
