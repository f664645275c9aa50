"""The group of commands. A command's file is imported when it is called (`lazy`)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

import grader as package
from grader import calling
from grader.cli import tty
from grader.cli.ending import end
from grader.cli.lazy import LazyGroup

SUMMARIES = {
    "batch": "Grade a folder of hand-ins: all exercises of an assignment, resumable.",
    "bundle": "Make what students and platforms get.",
    "doctor": "Say what this machine has and what it means for grading.",
    "explain": "Say why the checks of EX that fail now matter in production.",
    "grade": "Grade exercise EX, or without EX all that you have begun.",
    "gradebook": "Gather reports of many students in one CSV file.",
    "hint": "Show a hint for the check of exercise EX that fails now.",
    "init": "Begin a course in a folder: all exercises and the quiz.",
    "interview": "Hold an interview against the clock, with a debrief to keep.",
    "list": "List all exercises, and which you have begun.",
    "mend": "Find and mend a mistake in a program, against the clock.",
    "mends": "Pack the mends of exercises, for authors.",
    "new": "Begin an exercise: its files, small and ready for verify.",
    "progress": "Show the course as a map: what is done, and what comes next.",
    "quiz": "Ask questions, spaced so that the answers stay.",
    "render": "Make other formats of a report that `grade --json` wrote.",
    "reset": "Put the stub of exercise EX back; your file is kept beside it.",
    "run": "Run the file of exercise EX on ranks, to play with it.",
    "similarity": "Show hand-ins of a batch that resemble one another. It is no verdict.",
    "show": "Show the statement of exercise EX; in a pipe, its Markdown.",
    "verify": "Prove exercises by their stub, solutions and mutants.",
    "watch": "Grade exercise EX at every save, and show each verdict at once.",
}
"""Every command, with its line in `--help`. Its file has the same name, and its click command is `command` there."""

WITHOUT_GRADES = frozenset(SUMMARIES) - {"batch", "grade", "interview", "mend", "verify", "watch"}
"""Commands of which nobody awaits a grade."""


class Commands(LazyGroup):
    """The commands by name. Every way to end becomes an exit code and at most one sentence, never a traceback."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        def run() -> Any:
            return super(Commands, self).main(args, prog_name, complete_var, standalone_mode=False, **extra)

        if not standalone_mode:
            return run()
        words = sys.argv[1:] if args is None else list(args)
        command = next((word for word in words if not word.startswith("-")), "")
        end(run, debug="--debug" in words, grades=command not in WITHOUT_GRADES)


@click.group(
    cls=Commands,
    package="grader.cli",
    summaries=SUMMARIES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(version=package.__version__, prog_name="grader")
def cli() -> None:
    """Exercises for distributed training in PyTorch, graded on real ranks.

    Exit codes: 0 all passed, 1 something failed, 2 the command was wrong, 3 the grader's own fault.
    """


def main() -> None:
    """The console script. Never raises for what a terminal cannot show (✓ in a Latin-1 locale)."""
    tty.use_letters()
    tty.mend()
    cli(prog_name=calling.program())
