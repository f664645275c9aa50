"""`watch`: grade at every save."""

from __future__ import annotations

import functools
from pathlib import Path

import click

from grader import catalog, leaving
from grader.cli import attempts, options
from grader.cli.common import readable_store_of
from grader.grading.request import need_torch
from grader.model.errors import UsageError
from grader.practice import history, overview
from grader.practice import watch as watching


@click.command("watch")
@click.argument("ex", required=False)
@click.option("--submission", type=options.file_path, help="Watch this file or folder instead of your own.")
@click.option("--seed", type=options.seeds, help="Always the same seed; without it every grade draws its own.")
@click.option("--sandbox", type=options.sandboxes, default="auto", show_default=True)
@click.option("--plain", is_flag=True, help="Lines in reading order, nothing repainted; for screen readers and logs.")
def command(ex: str | None, submission: Path | None, seed: int | None, sandbox: str, plain: bool) -> int:
    """Grade exercise EX at every save and show the verdicts as they come. Without EX, the one that comes next."""
    root = catalog.repository_root()
    name = catalog.resolve(ex, root) if ex else _coming(root)
    need_torch()
    keep = functools.partial(attempts.remember, root=root)
    leaving.follow_terminal()
    return watching.run(name, root, submission=submission, sandbox=sandbox, seed=seed, plain=plain, on_report=keep)


def _coming(root: Path) -> str:
    """The exercise to go on with."""
    listed = [entry.exercise for entry in overview.loaded(root) if entry.exercise]
    coming = history.next_one(history.standings(listed, readable_store_of(root)[0]))
    if coming is None and not listed:
        raise UsageError(f"{root / 'exercises'} holds no exercise that can be loaded.")
    return coming.exercise.name if coming else listed[-1].name
