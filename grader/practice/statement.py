"""What an exercise says to the student: its statement and, after a pass, its solution."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown, TableElement
from rich.syntax import Syntax
from rich.table import Table

from grader import calling
from grader.catalog import reference
from grader.model import Exercise
from grader.model.errors import AuthorError, UsageError
from grader.wording.paper import on_paper

WIDEST = 100
"""Columns. Longer lines of prose are hard to read."""


def statement(exercise: Exercise) -> str:
    """The statement in Markdown, with commands as the caller types them. Raises AuthorError where there is none."""
    path = exercise.folder / "README.md"
    try:
        return calling.translated(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise AuthorError(path, f"the statement cannot be read: {reason}", "Write it, in UTF-8.") from None


def rendered(markdown: str, *, color: bool, width: int) -> str:
    """A statement for a terminal."""
    return on_paper(_Statement(markdown), color=color, width=min(width, WIDEST))


class _WholeTable(TableElement):
    """A table that folds what is too long for its column: of a call that is cut, the arguments are missing."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for part in super().__rich_console__(console, options):
            if isinstance(part, Table):
                for column in part.columns:
                    column.overflow = "fold"
            yield part


class _Statement(Markdown):
    elements = {**Markdown.elements, "table_open": _WholeTable}  # noqa: RUF012 — so it is in Rich


def solution(exercise: Exercise, root: Path, allowed: bool) -> str:
    """The solution's source, and then those of the variants, which are other ways to be right. Raises UsageError for
    one that is not allowed yet, or that is not here."""
    path = reference(exercise.name, root) / exercise.file
    if not path.is_file():
        raise UsageError(f"No solution of {exercise.name} is in this copy.")
    if not allowed:
        hint, spoil = calling.command("hint", exercise.number), calling.option("--spoil")
        raise UsageError(
            f"You have not passed {exercise.name} yet; the solution is worth more afterwards. "
            f"A hint: {hint}. To see it all the same, add {spoil}."
        )
    variants = sorted(path.parent.glob("variants/*.py"))
    return "\n\n".join([path.read_text(encoding="utf-8"), *map(_variant, variants)])


def _variant(path: Path) -> str:
    """A variant under a line with its name."""
    head = f"# -- Another way to be right: {path.stem.replace('_', ' ')} "
    return f"{head:-<100}\n\n{path.read_text(encoding='utf-8')}"


def coloured(source: str, *, color: bool, width: int) -> str:
    """Python source for a terminal."""
    return on_paper(Syntax(source, "python", theme="ansi_dark", word_wrap=True), color=color, width=width)
