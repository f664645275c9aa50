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
from grader.model.errors import UsageError

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
