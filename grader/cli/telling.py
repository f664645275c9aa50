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

    def phase(self, text: str) -> None:
        self._progress(text)

    def started(self, case: Case) -> None:
        if case.probe:
            self._progress(f"{case.name} on {count(case.world_size, 'rank')}")

    def ended(self, run: Run) -> None:
        importlib.import_module("grader.render.terminal")  # while ranks run, and not when the page is waited for
