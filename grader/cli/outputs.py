"""The files that a result can be written to. Each format's renderer is imported when it is asked for."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from grader import calling, files
from grader.cli import console
from grader.cli.options import file_path
from grader.model import Result
from grader.model.errors import GraderError, RunError, UsageError
from grader.wording.editor import CHOICES, PLAIN, Editor

Option = Callable[[Callable[..., Any]], Callable[..., Any]]
SUMMARY = "GITHUB_STEP_SUMMARY"

FILES: Mapping[str, str] = {
    "json": "Also write the report as JSON, the source of all other formats.",
    "html": "Also write one self-contained page, with the ranks' timelines.",
    "junit": "Also write JUnit's XML.",
    "gradescope": "Also write Gradescope's results.json.",
    "classroom50": "Also write Classroom 50's result.json.",
}
"""Options that name a file, and their help."""


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a command that writes results."""
    flags: list[Option] = [
        click.option("--github", is_flag=True, help="Annotations and a job summary for GitHub Actions."),
        click.option("--problems", is_flag=True, help="No page: file:line:column: severity: message, for editors."),
        click.option(
            "--editor",
            type=click.Choice(CHOICES),
            envvar="RANKLINGS_EDITOR",
            help="Make lines of pages lead there: links, or file:line in place of line.",
        ),
        click.option("--show-hidden", is_flag=True, help="Show hidden checks everywhere; for staff."),
    ]
    files: list[Option] = [
        click.option(f"--{name}", type=file_path, metavar="FILE", help=told) for name, told in FILES.items()
    ]
    for option in reversed([*files, *flags]):
        command = option(command)
    return command


class Apart:
    """Several things that are done each for itself: an error of one waits until the others are done."""

    def __init__(self) -> None:
        self._errors: list[GraderError] = []

    @contextlib.contextmanager
    def doing(self, what: str) -> Iterator[None]:
        try:
            yield
        except GraderError as error:
            self._errors.append(error)
        except Exception as error:
            said = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            text = f"{what} could not be made ({said}). This is not your fault; please report it."
            self._errors.append(RunError(text))
            self._errors[-1].__cause__ = error

    def conclude(self) -> None:
        """Say all errors but the first, and raise that."""
        for error in self._errors[1:]:
            console.say(f"grader: {error}")
        if self._errors:
            raise self._errors[0]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """Where a result is to be written, and how much of it a student may see."""

    json: Path | None = None
    html: Path | None = None
    junit: Path | None = None
    gradescope: Path | None = None
    classroom50: Path | None = None
    github: bool = False
    problems: bool = False
    editor: str | None = None
    show_hidden: bool = False
    handed_in: datetime | None = None

    @classmethod
    def taken(cls, options: dict[str, Any], handed_in: datetime | None = None) -> Outputs:
        """The outputs among a command's options, which are taken out of them."""
        names = {field.name for field in dataclasses.fields(cls)} - {"handed_in"}
        return cls(handed_in=handed_in, **{name: options.pop(name) for name in names})

    @property
    def files(self) -> dict[str, Path]:
        return {name: path for name in FILES if (path := getattr(self, name)) is not None}

    @property
    def way(self) -> Editor | None:
        """Where lines of pages lead."""
        return Editor(name=self.editor, here=Path.cwd()) if self.editor else None

    def way_in(self, style: console.Style) -> Editor | None:
        """Where lines of a terminal's page lead. A pipe gets none, as it gets no colours, unless it asks."""
        links = style["color"] or console.takes_links() or self.editor == PLAIN
        return self.way if links else None

    def check(self) -> None:
        """Raises UsageError for a file that cannot be written and for two formats in one file."""
        paths = list(self.files.values())
        for name, path in self.files.items():
            if paths.count(path) > 1 and not _is_device(path):
                raise UsageError(f"--{name} {path}: another format is to be written there too. Name another file.")
            files.check_writable(path)
        if self.classroom50:
            _render_classroom50(Result(title="", entries=()), None)  # what it lacks is told now, not after the grade

    def shown(self, result: Result) -> Result:
        """What may be shown to a student."""
        from grader.visibility import result_for_student

        return result if self.show_hidden else result_for_student(result)

    def write(self, result: Result) -> None:
        """Write every file that was asked for, whole or not at all, the JSON first: from that the others can be made
        again. One that fails costs none of the others; its error is raised in the end."""
        apart = Apart()
        for name, path in self.files.items():
            with apart.doing(f"--{name}"):
                text = self._rendered(name, result)
                if text:
                    files.write(path, text)
                elif not _is_device(path):  # the format has no way to say that there is no mark
                    path.unlink(missing_ok=True)
        if self.classroom50:
            from grader.render import classroom50

            with apart.doing("release-body.md"):
                body = classroom50.release_body(result)
                files.write(self.classroom50.with_name("release-body.md"), body)
        apart.conclude()

    def announce(self, result: Result) -> None:
        """What editors read: a line for each problem; and what GitHub Actions reads: annotations in the log, the job
        summary in its file."""
        if self.problems:
            from grader.render import problems

            console.show(problems.render(self.shown(result), _from_here))
        if not self.github:
            return
        from grader.render import github

        shown = self.shown(result)
        console.show(github.annotations(shown, _in_repository))
        if place := os.environ.get(SUMMARY):
            try:
                with Path(place).open("a", encoding="utf-8", newline="\n") as file:
                    file.write(github.summary(shown))
            except OSError as error:
                console.say(f"grader: The job summary could not be written to {place}: {error.strerror}.")

    def page(self, text: str) -> None:
        """Show a page, unless a line for each problem is wanted. In a log of GitHub Actions nothing in it is a
        command."""
        if self.problems:
            return
        if self.github:
            from grader.render import github

            text = github.guarded(text, secrets.token_hex(16))
        console.show(text)

    def _rendered(self, name: str, result: Result) -> str:
        shown = self.shown(result)
        if name == "json":
            from grader.render import json

            return json.render(result.entries[0].report) if _single(result) else json.render_result(result)
        if name == "html":
            from grader.render import html

            return html.render(shown, self.way, calling.way())
        if name == "junit":
            from grader.render import junit

            return junit.render(shown, withheld=self.show_hidden)
        if name == "gradescope":
            from grader.render import gradescope

            return gradescope.render(result)
        return _render_classroom50(result, self.handed_in)


def _single(result: Result) -> bool:
    """Whether a result is one report and no more: no weight of its own, nothing late."""
    from grader.model import alone

    return len(result.entries) == 1 and result == alone(result.entries[0].report)


def _is_device(path: Path) -> bool:
    return path.exists() and not path.is_file()


def _render_classroom50(result: Result, handed_in: datetime | None) -> str:
    """Its environment says which submission this is; when it was handed in, the command does."""
    from grader.render import classroom50

    now = datetime.now(UTC)  # for this format alone; no verdict depends on it
    times = {"DATETIME": _instant(handed_in or now), "GRADED_AT": _instant(now)}
    return classroom50.render(result, {**times, **os.environ})


def _instant(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _from_here(path: Path) -> str:
    """A file's path as it is told to whoever works in the current folder."""
    return os.path.relpath(path) if path.resolve().is_relative_to(Path.cwd()) else path.as_posix()


def _in_repository(path: Path) -> str:
    """A file's path as GitHub knows it: relative to the checkout."""
    root = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd())
    try:
        return path.resolve().relative_to(root.resolve()).as_posix()
    except (ValueError, OSError):
        return path.as_posix()
