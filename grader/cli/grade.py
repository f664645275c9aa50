"""`grade`: one exercise, several, or an assignment. Reads the options, lets the ranks' host start, and hands over."""

from __future__ import annotations

import contextlib
from typing import Any

import click

from grader.cli import options, outputs
from grader.cli.options import file_path
from grader.grading.request import Machine, need_torch


@click.command("grade")
@click.argument("ex", nargs=-1)
@click.option("--submission", type=file_path, help="A file, or a folder in which the exercise's file lies.")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True)
@click.option("--seed", type=options.seeds, help="Replay a grade; without it a new seed is drawn.")
@options.start_method
@click.option("--sandbox", type=options.sandboxes, default="auto", show_default=True,
              help="Bubblewrap around the ranks: where it works, or else do not grade, or never.")  # fmt: skip
@click.option("--rank-user", metavar="NAME", help="Run the ranks as this user; for root, without bubblewrap.")
@click.option("--deadline", type=click.FloatRange(10), metavar="SECONDS", help="Report by then, with what is known.")
@click.option("--journal", type=file_path, metavar="FILE", help="Keep all that is known; go on from it if it is there.")
@click.option("--assignment", type=file_path, metavar="FILE", help="Grade the exercises of an assignment.yaml.")
@click.option("--checks", type=file_path, metavar="DIR", help="Further cases and checks of your course.")
@click.option("--submitted-at", metavar="TIME", help="When it was handed in, as 2026-10-12T23:59:00+02:00.")
@click.option("--due", metavar="TIME", help="A later due date, for a student who has an extension.")
@click.option("--only", metavar="CHECK", multiple=True, help="This check alone, with what it needs; may be repeated.")
@outputs.options
@click.option("--trace", type=file_path, metavar="FILE", help="Also write the ranks' timelines, for Perfetto.")
@click.option("--save-runs", type=file_path, metavar="FILE", help="Keep what the ranks did, to be judged again.")
@click.option("--from-runs", type=file_path, metavar="FILE", help="Judge such a file; no rank is started.")
@options.color
@click.option("--plain", is_flag=True, help="No colour and no spinner.")
def command(ex: tuple[str, ...], **chosen: Any) -> int:
    """Grade exercise EX (03, 3, train_ddp), or without EX all that you have begun."""
    need_torch()
    machine = Machine(**{name: chosen.pop(name) for name in ("device", "sandbox", "start_method", "rank_user")})
    with contextlib.closing(machine.session()) as session:
        if not chosen["from_runs"]:
            session.start()
        from grader.cli import grading  # not earlier: the host takes longest, so it begins before the rest is imported

        return grading.grade(ex, chosen, machine, session)
