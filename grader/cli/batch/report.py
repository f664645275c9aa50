"""`batch report`: what the class got right and wrong, as a page and as data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from grader import catalog, files
from grader.batch.ledger import Ledger, content_of
from grader.batch.report import data, page, signatures
from grader.batch.report import pages as personal
from grader.batch.report.build import class_report
from grader.batch.report.model import About, ClassReport
from grader.cli import console, options
from grader.model.errors import UsageError
from grader.model.words import count

DEFAULT = "class.html"


@click.command("report")
@click.argument("folder", metavar="DIR", type=options.file_path)
@click.option("--html", type=options.file_path, metavar="FILE", help=f"The page; default: DIR/{DEFAULT}.")
@click.option(
    "--json", type=options.file_path, metavar="FILE", help="The same as data (docs/class-report.schema.json)."
)
@click.option("--csv", type=options.file_path, metavar="FILE", help="A row for each check.")
@click.option("--names", is_flag=True, help="Say whose hand-ins they are. Without it nobody is named.")
@click.option("--pages", type=options.file_path, metavar="FOLDER", help="A page for each person, of what they may see.")
@click.option("--mutants", is_flag=True, help="Grade the exercises' mutants first, once, to name mistakes by them.")
@click.option("--sandbox", type=options.sandboxes, default="auto", show_default=True, help="For --mutants.")
def command(
    folder: Path,
    html: Path | None,
    json: Path | None,
    csv: Path | None,
    names: bool,
    pages: Path | None,
    mutants: bool,
    sandbox: str,
) -> None:
    """Write what the class of a batch got right and wrong: marks, checks, wrong answers in groups, deadlocks.

    It reads what is recorded, also while the batch still runs. Nothing is graded but, with --mutants, mutants.
    """
    if not (html or json or csv or pages):
        html = folder / DEFAULT
    wanted = [(html, page.render), (json, data.as_json), (csv, data.as_csv)]
    root = catalog.repository_root()
    with Ledger(folder) as ledger:
        for path, _ in wanted:
            if path:
                files.check_writable(path)
        about = _about(ledger)
        exercises = ledger.exercises()
        if mutants:
            _record(exercises, root, sandbox)
        known = {name: signatures.known(name, root) for name in exercises}
        report = class_report(ledger.rows(), about, known, names=names)
        if pages:
            written = _write_pages(ledger, pages, root, about.title)
            console.tell(f"{pages} holds {count(written, 'page')}.")
    for path, made in wanted:
        if path:
            _write(path, made, report)
    console.tell(told(report))


def _about(ledger: Ledger) -> About:
    content = content_of(ledger.plan())
    title, plan = ledger.facts().get("title", "A class"), ledger.plan()
    return About(title=title, versions=content.get("versions", {}), seed=plan["seed"] if plan else None)


def _record(exercises: list[str], root: Path, sandbox: str) -> None:
    for name in exercises:
        with console.progress(f"mutants of {name}", False) as progress:
            signatures.record(name, root, progress, sandbox)


def _write_pages(ledger: Ledger, folder: Path, root: Path, title: str) -> int:
    try:
        return personal.write(ledger.rows(), folder, root, title)
    except OSError as error:
        raise UsageError(f"{folder} cannot hold the pages: {error.strerror}. Choose another folder.") from None


def _write(path: Path, made: Callable[[ClassReport], str], report: ClassReport) -> None:
    files.write(path, made(report))
    console.tell(f"{path} is written.")


def told(report: ClassReport) -> str:
    """The report in a few lines."""
    header = report.header
    people = count(header.people, "person", "people")
    lines = [f"{header.graded} of {count(header.expected, 'hand-in')} of {people} graded."]
    odd = {"wait": header.waiting, "broken": header.broken, "quarantined": header.quarantined}
    if without := [f"{number} {kind}" for kind, number in odd.items() if number]:
        lines.append(f"Without a mark: {', '.join(without)}.")
    for exercise in report.exercises:
        middle = f"median {exercise.marks.quartiles[1]:.0%}" if exercise.marks.number else "no mark"
        suspects = f", {count(len(exercise.suspects), 'check')} to look at" if exercise.suspects else ""
        lines.append(
            f"{exercise.name}: {middle}, {exercise.known} of {exercise.wrong} wrong fail like a mutant{suspects}."
        )
    return "\n".join(lines)
