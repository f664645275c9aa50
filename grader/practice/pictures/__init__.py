"""Figures that a person's own passing code draws, for the page of the course: of every function whose name ends in
`_figure`. They are drawn by a rank, inside the same walls as a grade."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from grader.model import Case, Exercise, Run, Submission
from grader.model.errors import RunError
from grader.practice.history import Standing
from grader.practice.store import Attempt
from grader.wording.text import visible

ENDING = "_figure"
SECONDS = 60.0
"""For all figures of an exercise; matplotlib takes seconds for the first."""
LONGEST = 300
"""Characters that are told of why there is no figure."""
PNG = b"\x89PNG\r\n\x1a\n"


class Session(Protocol):
    """What drawing takes of `ranks.Session`."""

    def run(self, exercise: Exercise, submission: Submission, case: Case) -> Run: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A figure as PNG, or why there is none."""

    exercise: str
    title: str
    png: bytes = b""
    missing: str = ""


def functions(exercise: Exercise) -> tuple[str, ...]:
    """Those that draw."""
    return tuple(need.name for need in exercise.requires if need.name.endswith(ENDING))


def passing(found: Sequence[Standing], attempts: Collection[Attempt], digests: dict[str, str]) -> Iterator[Exercise]:
    """Of the exercises that draw, those whose file is one that has passed. `digests` are of the files as they are now,
    by exercise."""
    passed = {(attempt.exercise, attempt.digest) for attempt in attempts if attempt.status == "passed"}
    for each in found:
        name = each.exercise.name
        if functions(each.exercise) and (name, digests.get(name, "")) in passed:
            yield each.exercise


def drawn(exercise: Exercise, submission: Submission, session: Session) -> tuple[Picture, ...]:
    """The figures of a file, each by a call without arguments. What a rank sends for one is looked at and not trusted:
    all but a PNG is missing. Where the machine is at fault, all are."""
    names = functions(exercise)
    case = Case(
        name="pictures",
        world_size=1,
        probe="draw",
        deadline=SECONDS,
        dynamo=False,
        parameters={"functions": list(names)},
        folder=Path(__file__).parent,
    )
    try:
        run = session.run(exercise, submission, case)
    except RunError as error:
        return tuple(_picture(exercise, name, str(error)) for name in names)
    ended = [finding.sentence() for finding in run.diagnosis.findings] if run.diagnosis else ["nothing was recorded"]
    found = run.ranks[0].observations
    return tuple(_picture(exercise, name, found.get(name, ended[0])) for name in names)


def _picture(exercise: Exercise, name: str, told: object) -> Picture:
    title = name.removesuffix(ENDING).replace("_", " ").capitalize()
    if isinstance(told, bytes) and told.startswith(PNG):
        return Picture(exercise=exercise.number, title=title, png=told)
    why = "".join(map(visible, told))[:LONGEST] if isinstance(told, str) else "what was recorded is no PNG"
    return Picture(exercise=exercise.number, title=title, missing=f"not drawn ({why})")
