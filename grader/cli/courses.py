"""What a course's staff calls: other formats of a report, gradebooks, bundles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from grader.cli import console, outputs
from grader.cli.commands import cli, file_path
from grader.model.errors import UsageError


@cli.command()
@click.argument("report", type=file_path)
@click.option("--color/--no-color", default=None, help="Default: colour on a terminal.")
@outputs.options
def render(report: Path, color: bool | None, **options: Any) -> None:
    """Make other formats of a REPORT that `grade --json` wrote; without any, show its page."""
    from grader.records import reading
    from grader.render import summary, terminal

    chosen = outputs.Outputs.taken(options)
    result = reading.read(report)
    chosen.check()
    if not (chosen.files or chosen.github):
        shown, style = chosen.shown(result), console.style(color)
        pages = [terminal.render(entry.report, **style) for entry in shown.entries]
        overall = [summary.render(shown, **style)] if len(pages) > 1 else []
        console.show("\n".join([*pages, *overall]))
    chosen.write(result)
    chosen.announce(result)


@cli.command()
@click.argument("reports", type=file_path, nargs=-1, required=True)
@click.option("--format", "kind", type=click.Choice(["canvas", "moodle", "plain"]), default="plain", show_default=True)
@click.option("--roster", type=file_path, metavar="FILE", help="The platform's own export, or any list of students.")
@click.option("--item", metavar="TITLE", help="The assignment's name there; default: the title in the reports.")
@click.option("--out", type=file_path, required=True, metavar="FILE", help="The CSV file to write.")
def gradebook(reports: tuple[Path, ...], kind: str, roster: Path | None, item: str | None, out: Path) -> int:
    """Gather REPORTS of `grade --json` in one CSV file. A report's file is named by whom it is of: ada.json."""
    from grader.cli import marks

    return marks.gather(reports, kind, roster, item, out)


@cli.group()
def bundle() -> None:
    """Make what students and platforms get."""


@bundle.command("student")
@click.argument("folder", type=file_path)
@click.argument("ex", nargs=-1)
def bundle_student(folder: Path, ex: tuple[str, ...]) -> None:
    """Write the students' repository to FOLDER: exercises EX (all without), no solution, no hidden check."""
    from grader import catalog
    from grader.course import bundles

    made = bundles.student(folder, catalog.repository_root(), ex)
    console.show(f"{made} is a student's repository. Try it: cd {made} && make grade EX={_first(made)}")


def _first(folder: Path) -> str:
    from grader import catalog

    return catalog.all_names(folder)[0].partition("_")[0]


def _course_options(command: Any) -> Any:
    for option in (
        click.option("--minutes", type=click.FloatRange(2), default=10.0, show_default=True, help="Its time limit."),
        click.option("--checks", type=file_path, metavar="DIR", help="Further cases and checks of your course."),
        click.option("--assignment", type=file_path, metavar="FILE", required=True, help="An assignment.yaml."),
    ):
        command = option(command)
    return command


@bundle.command("gradescope")
@click.argument("folder", type=file_path)
@_course_options
@click.option("--pip-settings", type=file_path, metavar="FILE", help="A pip.conf for the image, such as an own index.")
def bundle_gradescope(
    folder: Path, assignment: Path, checks: Path | None, minutes: float, pip_settings: Path | None
) -> None:
    """Write FOLDER/autograder.zip, to be uploaded to Gradescope."""
    from grader import catalog
    from grader.course import bundles

    if pip_settings and not pip_settings.is_file():
        raise UsageError(f"There is no file {pip_settings}; --pip-settings names a pip.conf.")
    course = bundles.course(catalog.repository_root(), assignment, checks)
    made = bundles.gradescope(folder, course, minutes=minutes, pip_settings=pip_settings)
    console.show(f"{made} is ready to be uploaded. The assignment is worth {course.assignment.points:g} points.")


@bundle.command("github")
@click.argument("folder", type=file_path)
@_course_options
def bundle_github(folder: Path, assignment: Path, checks: Path | None, minutes: float) -> None:
    """Write workflows for GitHub Actions and an autograder for Classroom 50 to FOLDER."""
    from grader import catalog
    from grader.course import bundles

    course = bundles.course(catalog.repository_root(), assignment, checks)
    made = bundles.github(folder, course, minutes=minutes)
    console.show(f"{made}/README.md says where the parts go.")
