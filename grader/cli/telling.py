"""What a progress line says of a grade."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from grader.grading.observe import Listener
from grader.model import Case, Run
from grader.model.words import count


class Told(Listener):
    """Tells a progress line what a grade does."""

    def __init__(self, progress: Callable[[str], None]) -> None:
        self._progress = progress
        self._running: dict[str, Case] = {}
        """The cases that are under way, the last one that began last."""

    def phase(self, text: str) -> None:
        self._progress(text)

    def started(self, case: Case) -> None:
        if case.probe:
            self._running[case.id] = case
            self._tell()

    def _tell(self) -> None:
        """Of runs that are under way the one that began last; where there is none the checks are at work."""
        case = next(reversed([*self._running.values()]), None)
        self._progress(f"{case.name} on {count(case.world_size, 'rank')}" if case else "judging")

    def ended(self, run: Run) -> None:
        if self._running.pop(run.case.id, None):
            self._tell()
        importlib.import_module("grader.render.terminal")  # while ranks run, and not when the page is waited for
