"""The commands and their options. Each does little more than to call what it is named for."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

import grader as package
from grader.cli import console, grading, outputs
from grader.cli.ending import FAILED, FAULT, PASSED, Faces, terminable
from grader.errors import UsageError

MAX_SEED = 2**31 - 1
"""The same as grade.MAX_SEED, which takes longer to import."""
file_path = click.Path(path_type=Path)
start_methods = click.Choice(["forkserver", "spawn"])


@click.group(cls=Faces, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(version=package.__version__, prog_name="grader")
def cli() -> None:
    """Exercises for distributed training in PyTorch, graded on real ranks.

    Exit codes: 0 all passed, 1 something failed, 2 the command was wrong, 3 the grader's own fault.
    """


@cli.command(short_help="Grade exercise EX, or without EX all that you have begun.")
@click.argument("ex", nargs=-1)
@click.option("--submission", type=file_path, help="A file, or a folder in which the exercise's file lies.")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True)
@click.option("--seed", type=click.IntRange(0, MAX_SEED), help="Replay a grade; without it a new seed is drawn.")
@click.option("--start-method", type=start_methods, default="forkserver" if os.name == "posix" else "spawn")
@click.option("--sandbox", type=click.Choice(["auto", "require", "off"]), default="auto", show_default=True,
              help="Bubblewrap around the ranks: where it works, or else do not grade, or never.")  # fmt: skip
@click.option("--rank-user", metavar="NAME", help="Run the ranks as this user; for root, without bubblewrap.")
@click.option("--deadline", type=click.FloatRange(10), metavar="SECONDS", help="Report by then, with what is known.")
@click.option("--journal", type=file_path, metavar="FILE", help="Keep all that is known; go on from it if it is there.")
@click.option("--assignment", type=file_path, metavar="FILE", help="Grade the exercises of an assignment.yaml.")
@click.option("--checks", type=file_path, metavar="DIR", help="Further cases and checks of your course.")
@click.option("--submitted-at", metavar="TIME", help="When it was handed in, as 2026-10-12T23:59:00+02:00.")
@click.option("--due", metavar="TIME", help="A later due date, for a student who has an extension.")
@outputs.options
@click.option("--trace", type=file_path, metavar="FILE", help="Also write the ranks' timelines, for Perfetto.")
@click.option("--save-runs", type=file_path, metavar="FILE", help="Keep what the ranks did, to be judged again.")
@click.option("--from-runs", type=file_path, metavar="FILE", help="Judge such a file; no rank is started.")
@click.option("--color/--no-color", default=None, help="Default: colour on a terminal.")
@click.option("--plain", is_flag=True, help="No colour and no spinner.")
def grade(ex: tuple[str, ...], **options: Any) -> int:
    """Grade exercise EX (03, 3, train_ddp), or without EX all that you have begun."""
    for name in ("submitted_at", "due"):
        options[name] = _moment(name, options[name])
    return grading.grade(ex, grading.Order(outputs=outputs.Outputs.taken(options, options["submitted_at"]), **options))


def _moment(name: str, text: str | None) -> Any:
    from grader.catalog.assignment import moment

    try:
        return moment(text) if text else None
    except ValueError:
        option = f"--{name.replace('_', '-')}"
        raise UsageError(f"{option} {text} is no time with a zone, as 2026-10-12T23:59:00+02:00.") from None


@cli.command()
@click.argument("report", type=file_path)
@click.option("--color/--no-color", default=None, help="Default: colour on a terminal.")
@outputs.options
def render(report: Path, color: bool | None, **options: Any) -> None:
    """Make other formats of a REPORT that `grade --json` wrote; without any, show its page."""
    from grader import reading
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


@cli.command("list")
@click.option("--color/--no-color", default=None, help="Default: colour on a terminal.")
def list_exercises(color: bool | None) -> int:
    """List all exercises with points and time, and which you have begun."""
    from grader import catalog
    from grader.practice import overview

    listed = list(overview.entries(catalog.repository_root()))
    console.show(overview.table(listed, **console.style(color)))
    return grading.tell_faults(listed)


@cli.command()
@click.argument("ex")
@click.option("--color/--no-color", default=None, help="Default: colour on a terminal.")
def show(ex: str, color: bool | None) -> None:
    """Show the statement of exercise EX; in a pipe, its Markdown."""
    from grader.practice import statement

    text = statement.statement(_exercise(ex)[0])
    console.show(statement.rendered(text, **console.style(color)) if sys.stdout.isatty() else text)


@cli.command()
@click.argument("ex")
@click.option("--level", type=click.IntRange(1, 3), default=1, show_default=True, help="The later, the more it says.")
def hint(ex: str, level: int) -> None:
    """Show a hint for exercise EX."""
    from grader.practice import statement

    console.show(statement.hint(_exercise(ex)[0], level, width=console.width()))


@cli.command()
@click.argument("ex")
@click.option("--yes", is_flag=True, help="Do not ask.")
def reset(ex: str, yes: bool) -> int:
    """Put the stub of exercise EX back; your file is kept beside it."""
    from grader.practice import reset as again

    exercise, root = _exercise(ex)
    stub = again.original(exercise, root)
    if again.untouched(exercise, stub):
        console.show(f"{exercise.stub} is the stub already; nothing was done.")
        return PASSED
    if not yes and not _confirmed(exercise.stub):
        console.say("Nothing was reset.")
        return FAILED
    kept = again.reset(exercise, stub)
    console.show(f"{exercise.stub} is the stub again." + (f" Your file is kept as {kept}." if kept else ""))
    return PASSED


def _confirmed(path: Path) -> bool:
    """Ask on a terminal. Raises UsageError where there is nobody to ask."""
    if not sys.stdin.isatty():
        raise UsageError("reset asks before it replaces your file, and there is no terminal to ask on; add --yes.")
    try:
        return click.confirm(f"Replace {path} by the stub?", err=True)
    except click.Abort:
        return False


@cli.command(short_help="Prove exercises by their stub, solutions and mutants.")
@click.argument("ex", nargs=-1)
@click.option("--seed", type=click.IntRange(0, MAX_SEED), help="Replay; without it every specimen draws its own.")
@click.option("--start-method", type=start_methods, default="forkserver" if os.name == "posix" else "spawn")
@click.option("--plain", is_flag=True, help="No spinner.")
@click.option("--auto", is_flag=True, help="Instead, try mutants made by rule: each must be seen or be equivalent.")
@click.option("--only", default="", metavar="TEXT", help="With --auto: mutants whose name holds TEXT.")
@click.option("--survivors", is_flag=True, help="With --auto --json FILE: those that survived when FILE was written.")
@click.option("--untried", is_flag=True, help="With --auto --json FILE: those that FILE does not know.")
@click.option("--list", is_flag=True, help="With --auto: name the mutants, try none.")
@click.option("--json", type=file_path, help="With --auto: keep each mutant's fate in this file; what it has stays.")
@click.option("--table", type=file_path, help="With --auto: write the exercise's row in this page's table.")
def verify(ex: tuple[str, ...], seed: int | None, start_method: str, plain: bool, **automatic: Any) -> int:
    """Prove exercises: the stub passes nothing, solutions pass all, each mutant fails what it names."""
    from grader import catalog
    from grader.cli import mutating

    order = mutating.Order(seed=seed, start_method=start_method, plain=plain, **automatic)
    order.check()
    root = catalog.repository_root()
    names = [catalog.resolve(text, root) for text in ex] or list(catalog.all_names(root))
    if not names:
        raise UsageError(f"{root / 'exercises'} holds no exercise.")
    grading.need_torch()
    if order.auto:
        return mutating.attack(names, root, order)
    from grader.authoring.verify import matrix
    from grader.authoring.verify import verify as prove

    code = PASSED
    for name in names:
        with terminable(), console.progress(name, plain) as progress:
            proof = prove(name, root, seed=seed, start_method=start_method, progress=progress)
        console.show(matrix(proof))
        code = FAILED if proof.breaches() else code
    return code


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
@click.option("--color/--no-color", default=None, help="Default: colour on a terminal.")
def doctor(as_json: bool, color: bool | None) -> int:
    """Say what this machine has and what each thing means for grading."""
    from grader import doctor as examination

    facts = examination.examine()
    text = examination.as_json(facts) if as_json else examination.table(facts, **console.style(color))
    console.show(text)
    return PASSED if examination.can_grade(facts) else FAULT


def main() -> None:
    """The console script. Never raises for what a terminal cannot show (✓ in a Latin-1 locale)."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    cli(prog_name="grader")


def _exercise(text: str) -> tuple[Any, Path]:
    """The exercise that `text` names, and the root of the repository."""
    from grader import catalog

    root = catalog.repository_root()
    return catalog.load(catalog.resolve(text, root), root), root
