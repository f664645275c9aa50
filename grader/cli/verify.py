"""`verify`: prove exercises by their stub, solutions and mutants. `--auto` is in verify_auto."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from grader import catalog, files
from grader.authoring import proof_page
from grader.authoring import verify as proving
from grader.authoring.lab import named
from grader.authoring.memory import Memory, place
from grader.cli import console, options
from grader.cli.ending import FAILED, PASSED
from grader.grading.request import need_torch
from grader.model.errors import UsageError


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What `verify` was asked to do, beside the exercises' names. `only`: parts of mutants' names."""

    auto: bool
    seed: int | None
    start_method: str
    plain: bool
    fresh: bool
    only: tuple[str, ...]
    survivors: bool
    untried: bool
    own: bool
    full: bool
    list: bool
    json: Path | None
    table: Path | None

    def check(self) -> None:
        """What cannot be meant, and files that cannot be written. Raises UsageError."""
        chosen = self.only or self.survivors or self.untried
        if not self.auto and (chosen or self.own or self.full or self.list or self.json or self.table):
            raise UsageError(
                "--only, --survivors, --untried, --own, --full, --list, --json and --table go with --auto."
            )
        if (self.survivors or self.untried) and (self.json is None or not self.json.is_file()):
            raise UsageError("--survivors and --untried need --json FILE as an earlier run has written it.")
        if self.table and chosen and not self.json:
            raise UsageError("--table wants all mutants of an exercise: give the --json FILE that knows the others.")
        if self.table and not self.table.is_file():
            raise UsageError(f"There is no page {self.table}; it has to hold the markers of the table.")
        for path in filter(None, (self.json, self.table)):
            files.check_writable(path)


@click.command("verify")
@click.argument("ex", nargs=-1)
@click.option("--seed", type=options.seeds, help="Replay; without it every specimen draws its own.")
@options.start_method
@click.option("--plain", is_flag=True, help="No spinner.")
@click.option("--fresh", is_flag=True, help="Try everything, also what an earlier proof has shown to be right.")
@click.option("--auto", is_flag=True, help="Instead, try mutants made by rule: each must be seen or be equivalent.")
@click.option("--only", multiple=True, metavar="TEXT", help="With --auto: mutants whose name holds a TEXT.")
@click.option("--survivors", is_flag=True, help="With --auto --json FILE: those that survived when FILE was written.")
@click.option("--untried", is_flag=True, help="With --auto --json FILE: those that FILE does not know.")
@click.option("--own", is_flag=True, help="With --auto: those of the solution alone, none of its variants.")
@click.option("--full", is_flag=True, help="With --auto: all mutants of the variants, not a few that are drawn.")
@click.option("--list", is_flag=True, help="With --auto: name the mutants, try none.")
@click.option("--json", type=options.file_path, help="With --auto: keep each mutant's fate here; what it has stays.")
@click.option("--table", type=options.file_path, help="With --auto: write the exercise's row in this page's table.")
def command(ex: tuple[str, ...], **chosen: Any) -> int:
    """Prove exercises: the stub passes nothing, solutions pass all, each mutant fails what it names. What an earlier
    proof has shown for the same content is not tried again, unless --seed or --fresh asks for it."""
    asked = Options(**chosen)
    asked.check()
    root = catalog.repository_root()
    names = named(ex, root)
    if not names:
        raise UsageError(f"{root / 'exercises'} holds no exercise.")
    need_torch()
    if not asked.auto:
        return _prove(names, root, asked)
    from grader.cli import verify_auto  # not earlier: it needs libcst, which only authors install

    return verify_auto.attack(names, root, asked)


def _prove(names: Sequence[str], root: Path, asked: Options) -> int:
    code = PASSED
    for name in names:
        with console.progress(name, asked.plain) as progress:
            kept = place(name, root)
            proof = proving.verify(
                name,
                root,
                seed=asked.seed,
                start_method=asked.start_method,
                progress=console.logged(progress, "wrong"),
                memory=Memory(kept, console.say, fresh=asked.fresh) if kept else None,
            )
        console.show(proof_page.matrix(proof))
        code = FAILED if proof.breaches() else code
    return code
