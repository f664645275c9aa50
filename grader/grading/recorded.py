"""Runs that are there already, in the place of those that are made."""

from __future__ import annotations

from collections.abc import Sequence

from grader.grading.observe import SILENT, Listener
from grader.grading.running import import_case
from grader.model import Case, Run, Verdict
from grader.records import recording


class Recorded:
    """Runs that are there already, as a file has them: in a Runner's place for whoever judges."""

    def __init__(self, seed: int, runs: Sequence[Run], listener: Listener = SILENT) -> None:
        self.seed, self.listener = seed, listener
        self._runs = {run.case.id: run for run in runs}

    def imported(self) -> Run | None:
        """The run of the import, if it was kept."""
        return self._runs.get(import_case().id)

    def start(self) -> None:
        """Nothing is to be started."""

    def wait(self, case: Case) -> Run:
        """Raises RunError for a case that was not run, or MissingHardware where it may have lacked a GPU."""
        return recording.run_for(self._runs, case)

    def judged(self, verdict: Verdict) -> None:
        """Hear of a verdict."""
        self.listener.judged(verdict)

    def finished(self) -> tuple[Run, ...]:
        return tuple(self._runs.values())

    def check(self) -> None:
        """Nobody can call off what is over."""
