"""The command line: `python -m grader`. It alone reads arguments, prints and exits. One file a command, named as the
command; `commands` lists them."""

from grader.cli.commands import cli, main

__all__ = ["cli", "main"]
