"""The file that cells are written to, and the warm worker that grades it as long as the kernel lives."""

from __future__ import annotations

import tempfile
import weakref
from dataclasses import replace
from pathlib import Path

from grader.model import Report
from grader.practice import warm
from grader.practice.warm import Tell

CELL = Path("the cell")


class Warm:
    """Grades cells one after the other. The first of an exercise waits for torch, the others do not."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="ranklings-cell-", ignore_cleanup_errors=True)
        self._file = Path(self._folder.name) / "cell.py"
        self._warm = warm.Warm()
        weakref.finalize(self, self._folder.cleanup)

    def grade(self, name: str, root: Path, source: str, tell: Tell, *, seed: int | None, trace: bool) -> Report:
        """The report of a cell. `tell` hears the worker's events."""
        self._file.write_text(source, encoding="utf-8", errors="surrogatepass")
        return replaced(self._warm.grade(name, root, self._file, tell, seed=seed, trace=trace))

    def close(self) -> None:
        """End the worker and its ranks."""
        self._warm.close()


def replaced(report: Report) -> Report:
    """The report with the cell in place of the file that it was written to."""
    return replace(report, submission=replace(report.submission, path=CELL))
