"""`batch gradebook`: the marks of a batch as a platform wants them."""

from __future__ import annotations

from pathlib import Path

import click

from grader.cli import gradebook as alone
from grader.cli.console import say
from grader.cli.options import file_path


@click.command("gradebook")
@click.argument("folder", type=file_path, metavar="DIR")
@click.option("--format", "kind", type=click.Choice(["canvas", "moodle", "plain"]), default="plain", show_default=True)
@click.option("--roster", type=file_path, metavar="FILE", help="The platform's own export, or any list.")
@click.option("--item", metavar="TITLE", help="The assignment's name there; default: its title.")
@click.option("--out", type=file_path, required=True, metavar="FILE", help="The CSV file to write.")
def command(folder: Path, kind: str, roster: Path | None, item: str | None, out: Path) -> int:
    """Write the marks of the batch in DIR, as `gradebook` does with single reports. A person is known by what the
    hand-in is called. From here on `batch diff` says what changed since.

    Ends with 3 where somebody has no mark because the grader was at fault, or something is not graded yet.
    """
    from grader.batch import people
    from grader.batch.folder import driving
    from grader.batch.ledger import Ledger
    from grader.batch.marks import publish
    from grader.batch.results import results

    with Ledger(folder) as ledger, driving(ledger):
        if told := people.untimed(ledger):
            say(told)
        code = alone.write(list(results(ledger)), kind, roster, item, out)
        publish(ledger)
    return code
