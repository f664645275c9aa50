"""The list of exercises: what each is worth, how long it takes, and whether the student has begun it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from rich.table import Table
from rich.text import Text

from grader import calling, catalog, submission
from grader.model import Exercise, number_of
from grader.model.errors import AuthorError
from grader.wording.paper import on_paper


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the list. `fault` is set where the exercise's folder is wrong; `exercise` is None there, and where
    nobody has looked yet. `passed` says that it was passed once, whatever its file holds now."""

    name: str
    exercise: Exercise | None
    begun: bool = False
    passed: bool = False
    fault: AuthorError | None = None


def entries(root: Path, passed: Collection[str] = ()) -> list[Entry]:
    """All exercises in order, of which these were `passed`, and which others are begun. Processes look into the
    students' files, as many at a time as there are processors, while the next exercises are loaded."""
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        looks = {}
        listed = []
        for entry in loaded(root):
            listed.append(replace(entry, passed=entry.name in passed))
            if entry.exercise and entry.name not in passed:
                looks[entry.name] = pool.submit(submission.begun, entry.exercise, root)
        return [
            replace(entry, begun=looks[entry.name].result() if entry.name in looks else entry.passed)
            for entry in listed
        ]


def loaded(root: Path) -> Iterator[Entry]:
    """All exercises in order, without a look into the student's files. One that is at fault hides none of the
    others."""
    for name in catalog.all_names(root):
        try:
            yield Entry(name=name, exercise=catalog.load(name, root))
        except AuthorError as fault:
            yield Entry(name=name, exercise=None, fault=fault)


def cells(entry: Entry) -> tuple[str, str, str, str, str]:
    """Number, title, points, time box and state, as a student reads them."""
    exercise = entry.exercise
    if exercise is None:
        return number_of(entry.name), entry.name, "", "", "at fault" if entry.fault else ""
    state = "passed" if entry.passed else "begun" if entry.begun else ""
    return exercise.number, exercise.title, f"{exercise.max_score:g}", f"{exercise.time_box} min", state


def table(listed: Sequence[Entry], *, color: bool, width: int) -> str:
    """The list as text in columns, at most `width` wide; long titles are wrapped."""
    grid = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
    grid.add_column("", justify="right")
    grid.add_column("Exercise")
    for heading in ("Points", "Time"):
        grid.add_column(heading, justify="right", no_wrap=True)
    grid.add_column("", no_wrap=True)
    for entry in listed:
        grid.add_row(*map(Text, cells(entry)))
    return on_paper(grid, color=color, width=width)


def nothing_begun(listed: Sequence[Entry]) -> str:
    """What to tell a student who has not begun any exercise: where to start."""
    first = next((entry.exercise for entry in listed if entry.exercise), None)
    if first is None:
        return "There is nothing to grade: no exercise could be loaded."
    place = f"exercises/{first.name}/{first.file}"
    return f"Nothing is begun yet. Start with {place}, then call `{calling.command('grade', first.number)}`."
