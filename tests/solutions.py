"""The runs of each exercise's solution, made once for all tests that judge them, in whatever process these run."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from grader import catalog
from grader.authoring.verify import Specimen, solution, submitted
from grader.grading.running import run_all
from grader.judge import judge
from grader.model import MAX_SEED, Exercise, Run, Submission, Verdict
from grader.ranks import Session
from grader.records import digests, recording

ROOT = Path(__file__).parents[1]


def seed_of(exercise: Exercise) -> int:
    """The seed that tests use: the same for one tree, so that a failure is seen again, and another as it changes."""
    tree = digests.of_exercise(exercise) + digests.of_engine()
    return int.from_bytes(hashlib.sha256(tree.encode()).digest()) % MAX_SEED


@dataclass(frozen=True, slots=True, kw_only=True)
class Solved:
    """An exercise, its solution as it would be handed in, and the runs of that."""

    exercise: Exercise
    specimen: Specimen
    submission: Submission
    seed: int
    runs: tuple[Run, ...]

    def verdicts(self) -> tuple[Verdict, ...]:
        return judge(self.exercise, self.submission, self.runs)


class Solutions:
    """Solutions by the names of their exercises. What one process has run the others read from a file."""

    def __init__(self, folder: Path, session: Session) -> None:
        self._folder, self._session = folder, session
        folder.mkdir(exist_ok=True)

    def __call__(self, name: str) -> Solved:
        exercise = catalog.load(name, ROOT)
        specimen = solution(exercise, ROOT)
        submission = submitted(specimen, exercise, ROOT)
        path = self._folder / f"{name}.runs"
        with FileLock(f"{path}.lock"):
            if not path.exists():
                made = path.with_suffix(".partial")
                seed = seed_of(exercise)
                recording.save(made, exercise, seed, run_all(self._session, exercise, submission, seed, jobs=1))
                made.rename(path)
        seed, runs = recording.load(path, exercise)
        return Solved(exercise=exercise, specimen=specimen, submission=submission, seed=seed, runs=runs)
