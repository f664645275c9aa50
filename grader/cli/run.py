"""`run`: the student's file on ranks, to play with."""

from __future__ import annotations

import contextlib
from pathlib import Path

import click

from grader.cli import console, options
from grader.cli.common import exercise_called
from grader.cli.ending import FAILED, PASSED
from grader.grading.request import Machine, need_torch
from grader.model.words import count
from grader.practice import play
from grader.submission import receive
from grader.wording.plain import finding_lines


@click.command("run")
@click.argument("ex")
@click.option("--ranks", type=click.IntRange(1, play.MOST_RANKS), default=2, show_default=True)
@click.option("--submission", type=options.file_path, help="This file or folder instead of your own.")
@click.option("--seconds", type=click.FloatRange(1), default=600.0, show_default=True, help="Stop it after so long.")
@click.option("--sandbox", type=options.sandboxes, default="auto", show_default=True,
              help="Bubblewrap hides your other files from the ranks; off shows them.")  # fmt: skip
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True)
def command(ex: str, ranks: int, submission: Path | None, seconds: float, sandbox: str, device: str) -> int:
    """Run the file of exercise EX on ranks, to play with it; nothing is judged.

    Each rank calls the file's own main(rank, world_size). Where the exercise's functions are graded in a process group,
    main finds one as well, unless the file calls init_process_group itself. Without a main the file runs as a script,
    so that its `if __name__ == "__main__":` does, as under torchrun: RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and
    MASTER_PORT are set. What ranks print comes with their number, a deadlock is told, Ctrl-C ends all of them. Each
    works in an empty folder of its own, which goes afterwards.
    """
    exercise, root = exercise_called(ex)
    handed_in = receive(exercise, submission, root)
    if handed_in.problem:
        console.show_fitted("\n".join(finding_lines(handed_in.problem, exercise)))
        return FAILED
    case = play.case_of(exercise, handed_in, ranks, seconds)
    need_torch()
    with contextlib.closing(Machine(sandbox=sandbox, device=device).session()) as session:
        session.start()
        console.say(f"Starting {count(ranks, 'rank')} of {exercise.file}. Ctrl-C ends all of them.")
        run = play.play(exercise, handed_in, case, session, console.show)
    console.show_fitted("\n".join(play.ending(run, exercise)))
    return FAILED if run.diagnosis else PASSED
