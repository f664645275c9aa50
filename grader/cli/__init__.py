"""The command line: `python -m grader`. It alone reads arguments, prints and exits; what is heavy is imported late."""

from grader.cli import courses, practice  # noqa: F401 - they add their commands
from grader.cli.commands import cli, main

__all__ = ["cli", "main"]
