"""`batch similarity`: hand-ins that resemble one another, as places to look."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from grader import catalog, files
from grader.batch.ledger import Ledger
from grader.batch.similarity import export, find
from grader.cli import console, options
from grader.model import file_of
from grader.model.words import count

LOOK = (
    "Look at these; none of it is a verdict. Short exercises have few right answers, and people may have "
    "worked together as they were allowed to."
)
SHOWN = 15


@click.command("similarity")
@click.argument("folder", metavar="DIR", type=options.file_path)
@click.option("--least", type=click.FloatRange(0, 1), default=0.4, show_default=True, help="How alike two must be.")
@click.option("--names", is_flag=True, help="Say whose hand-ins they are. Without it they are called by their units.")
@click.option("--json", type=options.file_path, metavar="FILE", help="All groups and the closest pairs as data.")
@click.option(
    "--export",
    "wanted",
    type=(click.Choice(export.KINDS), options.file_path),
    metavar="KIND FOLDER",
    help="Write what dolos, jplag or compare50 reads, and say how to run it; compare nothing here.",
)
def command(folder: Path, least: float, names: bool, json: Path | None, wanted: tuple[str, Path] | None) -> None:
    """Show hand-ins of a batch that resemble one another in their code or in what they did. Look there; it is no
    verdict.

    The stub counts for nobody, nor does what more than half have. Code is compared by copydetect,
    the extra `similarity` of this project (docs/courses.md, section 10).
    """
    exercises = catalog.repository_root() / "exercises"
    with Ledger(folder) as ledger:
        if wanted:
            kind, place = wanted
            for line in export.export(ledger.rows(), place, kind, exercises, names=names):
                console.show(line)
            return
        if json:
            files.check_writable(json)
        found = find.resemblances(ledger.rows(), lambda name: _stub(exercises, name), least=least, names=names)
    if json:
        files.write(json, find.as_json(found))
    console.tell("\n".join([*(line for each in found for line in told(each)), LOOK]))


def _stub(exercises: Path, name: str) -> str:
    return (exercises / name / file_of(name)).read_text(encoding="utf-8")


def told(each: find.Resemblance) -> Iterator[str]:
    """An exercise in a few lines."""
    yield f"{each.exercise}: {count(each.files, 'file')}, {count(each.alike, 'pair')} alike in code"
    for same in each.identical[:SHOWN]:
        yield f"  the same bytes: {', '.join(same)}"
    for group in each.groups:
        yield f"  hang together: {', '.join(group)}"
    for pair in each.pairs[:SHOWN]:
        yield f"  {pair.share:4.0%}  {pair.first} and {pair.second}"
    for pair in each.behaviour[:SHOWN]:
        yield f"  did the same: {pair.first} and {pair.second} ({'; '.join(pair.why)})"
    yield ""
