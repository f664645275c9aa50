"""What an exercise says to the student: its statement and its hints."""

from __future__ import annotations

from rich.console import Group
from rich.markdown import Markdown
from rich.text import Text

from grader.errors import AuthorError, UsageError
from grader.model import Exercise
from grader.practice.paper import on_paper

WIDEST = 100
"""Columns. Longer lines of prose are hard to read."""


def statement(exercise: Exercise) -> str:
    """The statement in Markdown. Raises AuthorError where the folder has none."""
    path = exercise.folder / "README.md"
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise AuthorError(path, f"the statement cannot be read: {reason}", "Write it, in UTF-8.") from None


def rendered(markdown: str, *, color: bool, width: int) -> str:
    """A statement for a terminal."""
    return on_paper(Markdown(markdown), color=color, width=min(width, WIDEST))


def hint(exercise: Exercise, level: int, width: int = 80) -> str:
    """The hint of a level, 1 to 3, for the exercise as a whole, and how to ask for the one after it."""
    if not exercise.hints:
        raise UsageError(f"{exercise.name} has no hints of its own; a failed check of `grade` shows the check's hint.")
    if level > len(exercise.hints):
        raise UsageError(f"{exercise.name} has {len(exercise.hints)} hints; there is no hint {level}.")
    lines = [Text(f"Hint {level} of {len(exercise.hints)} for {exercise.name}: {exercise.hints[level - 1].strip()}")]
    if level < len(exercise.hints):
        lines += [Text(), Text(f'Next: make hint EX={exercise.number} ARGS="--level {level + 1}"')]
    return on_paper(Group(*lines), color=False, width=min(width, WIDEST))
