"""Grades of one file, one after the other while somebody practises, with a progress line for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grader.cli import console
from grader.model import Report
from grader.practice.warm import Warm, phase_of


class WarmGrader:
    """Grades a submission, a file or a folder, on a session that is kept until the end. Pages name it as given."""

    def __init__(self, exercise: str, root: Path, submission: Path, plain: bool) -> None:
        self._of = (exercise, root.absolute(), submission)
        self._plain, self._warm = plain, Warm()

    def start(self) -> None:
        """Let a session start; nobody waits for it."""
        self._warm.begin(*self._of)

    def grade(self, only: Sequence[str] = ()) -> Report:
        """The report of all checks, or of those that are named."""
        with console.progress(self._of[0], self._plain) as progress:
            progress("starting")

            def tell(event: Mapping[str, Any]) -> None:
                if phase := phase_of(event):
                    progress(phase)

            return self._warm.grade(*self._of, tell, only=only)

    def close(self) -> None:
        self._warm.close()
