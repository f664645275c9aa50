"""`batch diff`: whose marks changed, and why, before anything is published."""

from __future__ import annotations

import contextlib
from pathlib import Path

import click

from grader.cli.console import tell
from grader.cli.options import file_path


@click.command("diff")
@click.argument("folder", type=file_path, metavar="DIR")
@click.argument("other", type=file_path, required=False, metavar="[OTHER]")
def command(folder: Path, other: Path | None) -> None:
    """Say whose marks in DIR are other than those that `batch gradebook` wrote last, and why. Where none were written,
    they are compared with the plan before: what a mended check changed. With OTHER, with the batch in that folder."""
    from grader.batch import diff
    from grader.batch.ledger import Ledger

    with contextlib.ExitStack() as stack:
        ledger = stack.enter_context(Ledger(folder))
        compared = diff.against(ledger, stack.enter_context(Ledger(other))) if other else diff.since(ledger)
        if compared.then is None:
            tell("There is nothing to compare with yet: no marks were written out, and no plan was changed.")
            return
        for line in diff.lines(ledger, compared):
            tell(line)
