"""`batch merge`: the shards of a batch, or several batches, become one."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import click

from grader.cli import clock
from grader.cli.console import say, tell
from grader.cli.options import file_path
from grader.model.errors import UsageError
from grader.model.words import listed


@click.command("merge")
@click.argument("folder", type=file_path, metavar="DIR")
@click.argument("others", type=file_path, nargs=-1, metavar="[OTHER …]")
def command(folder: Path, others: Sequence[Path]) -> None:
    """Join the shards in DIR, and the batches in the folders OTHER, in DIR's own ledger. It may be called again, when
    more is graded. What two have judged otherwise is marked unstable."""
    from grader.batch import folder as folders
    from grader.batch import state
    from grader.batch.ledger import Ledger
    from grader.batch.merge import merge

    shards = folders.shards(folder)
    if not shards and not others:
        with Ledger(folder):  # or it holds nothing at all
            raise UsageError(f"{folder} holds no shards; say --shard I/N where it is graded, or name other batches.")
    with contextlib.ExitStack() as stack:
        sources = [stack.enter_context(Ledger(folder, shard=shard)) for shard in shards]
        for other in others:
            named = folders.shards(other) if not (other / "ledger.sqlite3").is_file() else [""]
            sources += [stack.enter_context(Ledger(other, shard=shard)) for shard in named or [""]]
        target = stack.enter_context(Ledger(folder, new=True))
        with folders.driving(target):  # what is shown then would call this command a driver at work
            merge(target, sources, clock.timestamp())
        if absent := folders.absent(folder):
            say(f"Not here yet: {listed(absent)}. Without their hand-ins:")
        tell(state.status([target], clock.timestamp()))
