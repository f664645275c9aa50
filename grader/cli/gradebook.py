"""`gradebook`: reports of many students become one CSV file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from grader import files
from grader.cli import options
from grader.cli.console import say, tell
from grader.cli.ending import FAULT, PASSED
from grader.course import gradebook
from grader.model.errors import UsageError
from grader.model.words import count
from grader.records import reading


@click.command("gradebook")
@click.argument("reports", type=options.file_path, nargs=-1, required=True)
@click.option("--format", "kind", type=click.Choice(["canvas", "moodle", "plain"]), default="plain", show_default=True)
@click.option("--roster", type=options.file_path, metavar="FILE", help="The platform's own export, or any list.")
@click.option("--item", metavar="TITLE", help="The assignment's name there; default: the title in the reports.")
@click.option("--out", type=options.file_path, required=True, metavar="FILE", help="The CSV file to write.")
def command(reports: Sequence[Path], kind: str, roster: Path | None, item: str | None, out: Path) -> int:
    """Gather REPORTS of `grade --json` in one CSV file. A report's file is named by whom it is of: ada.json.

    Says who is not in it, and ends with 3 where a report gives no mark because the grader was at fault.
    """
    results = [(path.stem, reading.read(path)) for path in reports]
    return write(results, kind, roster, item, out)


def write(results: Sequence[gradebook.Handed], kind: str, roster: Path | None, item: str | None, out: Path) -> int:
    """Write what people's hand-ins came to, and say who is not in it. The exit code."""
    titles = {result.title for _, result in results}
    if item is None and len(titles) > 1:
        raise UsageError(f"The reports are of {len(titles)} assignments; name the item with --item.")
    known = _read(roster) if roster else ""
    if kind != "plain" and not known:
        raise UsageError(f"--format {kind} fills in an export of the gradebook; name it with --roster.")
    files.check_writable(out)
    if kind == "plain":
        book = gradebook.plain(results, known)
    else:
        book = (gradebook.canvas if kind == "canvas" else gradebook.moodle)(results, known, item or titles.pop())
    if roster and results and len(book.unknown) == len(results):
        raise UsageError(
            f"{roster} knows none of those who handed in, such as {results[0][0]}; name the roster of their course. "
            "Nothing was written."
        )
    files.write(out, book.text)
    _tell("No student of the roster is called", book.unknown)
    _tell("No report of", book.missing)
    _tell("No mark, since the grader or an exercise was at fault:", book.ungraded)
    left_out = () if kind == "plain" else book.unknown
    marked = sum(gradebook.is_grade(result) for key, result in results if key not in left_out)
    tell(f"{out} holds the marks of {count(marked, 'person', 'people')}.")
    return FAULT if book.ungraded else PASSED


def _tell(sentence: str, names: Sequence[str]) -> None:
    if names:
        say(f"grader: {sentence} {', '.join(names)}.")


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text; export it again, or save it as UTF-8.") from None
