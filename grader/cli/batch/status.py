"""`batch status`: how far a batch has come, also while it runs."""

from __future__ import annotations

import contextlib
from pathlib import Path

import click

from grader.cli import clock
from grader.cli.console import tell
from grader.cli.options import file_path


@click.command("status")
@click.argument("folder", type=file_path, metavar="DIR")
def command(folder: Path) -> None:
    """Say how far the batch in DIR has come: graded, broken, quarantined, how fast, and why what is missing."""
    from grader.batch import folder as folders
    from grader.batch import state
    from grader.batch.ledger import FILE, Ledger

    with contextlib.ExitStack() as stack:
        joined = (folder / FILE).is_file()  # and then it has what its shards have
        names = [] if joined else folders.shards(folder)
        ledgers = [stack.enter_context(Ledger(folder, shard=name)) for name in names or [""]]
        tell(state.status(ledgers, clock.timestamp()))
