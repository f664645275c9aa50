"""`batch`: a whole course at once. One file a subcommand, imported when it is called; `run` is what `batch FOLDER`
means."""

from __future__ import annotations

import click

from grader.cli.lazy import LazyGroup

SUMMARIES = {
    "diff": "Say whose marks changed, and why, before they are published.",
    "gradebook": "Write the marks for Canvas, Moodle or as a plain table.",
    "merge": "Join the shards of a batch, or other batches, in DIR.",
    "report": "Write what the class got right and wrong, as a page and as data.",
    "run": "Grade a folder of hand-ins; `batch FOLDER …` means this.",
    "similarity": "Show hand-ins that resemble one another. Look there; it is no verdict.",
    "status": "Say how far a batch has come, also while it runs.",
}
"""Every subcommand, with its line in `--help`. Its file has the same name, and its click command is `command` there."""


class Batch(LazyGroup):
    """The subcommands; anything else than their names is what `run` is given. A folder that is called as one of them is
    named by its path: `batch ./status …`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.summaries, *ctx.help_option_names):
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group("batch", cls=Batch, package="grader.cli.batch", summaries=SUMMARIES)
def command() -> None:
    """Grade a folder of hand-ins, and read what the class got right and wrong.

    `batch SUBMISSIONS --assignment a.yaml --out DIR` grades; the same command goes on after an interruption. See
    docs/courses.md.
    """
